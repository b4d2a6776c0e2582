//! A program: PTX that was read, checked, decoded, and whose variables have memory.

mod check;
mod isa;
mod reach;
mod registers;
mod variables;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cuda_sys::CUresult;
use ptx::ir::{FunctionKind, Init, Loc, LocId, Module, Space as StateSpace, Symbol};

use super::config::DeviceInfo;
use super::contract::contract;
use super::count::Counted;
use super::decode::{self, Code, Context};
use super::inst::Isa;
use super::memory::CODE_BASE;
use crate::space::{Kind, Space};
use check::{MOST_LOCAL, check, check_opcodes, check_sizes};
use reach::{Reach, refusals};
use variables::{SharedVariable, shared_variables, write_initial};

/// A kernel of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(u32);

/// A text that cannot be loaded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{log}")]
#[non_exhaustive]
pub struct LoadError {
    /// The code that the driver returns.
    pub code: CUresult,
    /// The message for the JIT log.
    pub log: String,
}

impl std::fmt::Debug for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The attributes of a kernel for `cuFuncGetAttribute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EntryAttributes {
    /// Threads of a block at most.
    pub max_threads: u32,
    /// The block that the kernel must be launched with (`.reqntid`).
    pub required_block: Option<[u32; 3]>,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Bytes of a thread's local memory.
    pub local_bytes: u32,
    /// Bytes of the module's constants.
    pub const_bytes: u32,
    /// An estimate: this device has no registers to run out of.
    pub registers: u32,
    /// The virtual architecture of the text, from its `.target`: 75 for `sm_75`, 90 for `sm_90a`.
    pub ptx_version: u32,
    /// The cluster that the kernel must be launched in (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Blocks of a cluster at most (`.maxclusterrank`); 0 if nothing is said.
    pub max_cluster_rank: u32,
    /// Whether a launch must name its clusters (`.explicitcluster`).
    pub explicit_cluster: bool,
    /// Whether launches count clusters instead of blocks (`.blocksareclusters`).
    pub blocks_are_clusters: bool,
}

#[derive(Debug)]
struct Entry {
    function: u32,
    params: Vec<(usize, usize)>,
    param_bytes: usize,
    /// The attributes, without the bytes of shared memory.
    attributes: EntryAttributes,
    /// The function that it reaches and that is refused.
    refused: Option<u32>,
    /// What the functions that it reaches need, once it is asked for: of all kernels of a text together the time would
    /// be the square of its length.
    reach: OnceLock<Reach>,
}

/// A decoded program. Its global variables live as long as the program.
#[derive(Debug)]
pub struct Program {
    space: Arc<Space>,
    codes: Vec<Code>,
    entries: Vec<Entry>,
    names: HashMap<String, EntryId>,
    globals: HashMap<String, (u64, u64)>,
    regions: Vec<u64>,
    locs: Vec<Vec<Loc>>,
    files: HashMap<u32, String>,
    sites: usize,
    /// The instructions that each counter stands for.
    counted: Vec<Counted>,
    /// The shared variables of the text.
    shared: Vec<SharedVariable>,
    /// Functions whose addresses variables have.
    pointed: Vec<u32>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // The regions are removed from the last to the first: each removal moves those above.
        for &start in self.regions.iter().rev() {
            self.space.free(start);
        }
    }
}

fn error(code: CUresult, log: impl Into<String>) -> LoadError {
    LoadError { code, log: log.into() }
}

/// Returns the functions whose addresses variables have.
fn pointed(module: &Module) -> Vec<u32> {
    let inits = module.globals.iter().filter_map(|v| v.init.as_ref());
    let mut pointed: Vec<u32> = inits
        .flat_map(|init| &init.addresses)
        .filter_map(|a| match a.symbol {
            Symbol::Function(f) => Some(f.0),
            _ => None,
        })
        .collect();
    pointed.sort_unstable();
    pointed.dedup();
    pointed
}

/// Returns the function that a call of each function runs: that of an alias, or itself.
fn called(module: &Module) -> Vec<u32> {
    let mut called: Vec<u32> = (0..module.functions.len() as u32).collect();
    for (alias, target) in &module.aliases {
        if let Some(called) = called.get_mut(alias.index()) {
            *called = target.0;
        }
    }
    called
}

impl Program {
    /// Reads and decodes a text, and gives its variables memory.
    ///
    /// # Errors
    /// If the text is no PTX (218), newer than the device's ISA (222), for another target (209), or
    /// there is no memory for its variables (2). An unsupported feature in a function is no error here: see
    /// [`Program::refused`].
    pub fn load(ptx: &str, space: &Arc<Space>, device: &DeviceInfo) -> Result<Self, LoadError> {
        let (mut module, opcodes) = ptx::parse_with_opcodes(ptx)
            .map_err(|e| error(CUresult::CUDA_ERROR_INVALID_PTX, e.to_string()))?;
        let target = check(&module, device)?;
        check_opcodes(&module)?;
        decode::state_texture_results(&mut module);
        check_sizes(&module)?;
        isa::check(&module, &opcodes, target)?;
        if device.contract {
            for at in 0..module.functions.len() {
                if let Some(fused) = contract(&module, &module.functions[at]) {
                    module.functions[at] = fused;
                }
            }
        }
        if device.tangents || device.taint {
            space.track_tangents();
        }
        let mut program = Self {
            space: Arc::clone(space),
            codes: Vec::new(),
            entries: Vec::new(),
            names: HashMap::new(),
            globals: HashMap::new(),
            regions: Vec::new(),
            locs: Vec::new(),
            files: module.files.iter().map(|f| (f.index, f.name.clone())).collect(),
            sites: 0,
            counted: Vec::new(),
            shared: Vec::new(),
            pointed: pointed(&module),
        };
        let addresses = program.place_globals(&module, device)?;
        let (shared, variables) = shared_variables(&module);
        program.shared = variables;
        let called = called(&module);
        let mut context = Context {
            module: &module,
            isa: Isa::detect(),
            globals: &addresses,
            shared: &shared,
            called: &called,
            watched: device.checks.race || device.checks.init,
            tangents: device.tangents,
            taint: device.taint && !device.tangents,
            counted: device.counts.then(Vec::new),
            sites: 0,
        };
        for (number, function) in module.functions.iter().enumerate() {
            let code = match function.body {
                Some(_) => decode::decode(&mut context, function, number as u32),
                None => Code { name: function.name.clone(), ..Code::default() },
            };
            program.codes.push(code);
            program.locs.push(function.locs.clone());
        }
        program.sites = context.sites as usize;
        program.counted = context.counted.unwrap_or_default();
        program.find_entries(&module, target.number);
        Ok(program)
    }

    /// Gives every global and constant variable memory and its first value.
    fn place_globals(
        &mut self,
        module: &Module,
        device: &DeviceInfo,
    ) -> Result<Vec<u64>, LoadError> {
        let mut addresses = vec![0; module.globals.len()];
        for (at, variable) in module.globals.iter().enumerate() {
            let kind = match variable.space {
                StateSpace::Global if variable.managed => Kind::Managed,
                StateSpace::Global => Kind::Module,
                StateSpace::Const => Kind::Constant,
                _ => continue,
            };
            if variable.linkage == ptx::ir::Linkage::Extern {
                continue;
            }
            let (bytes, align) = (variable.size(), u64::from(variable.align.max(1)));
            let start = self
                .space
                .allocate(bytes, align.max(16), kind, device.ordinal)
                .map_err(|e| error(CUresult::CUDA_ERROR_OUT_OF_MEMORY, e.to_string()))?;
            self.regions.push(start);
            self.globals.insert(variable.name.clone(), (start, bytes));
            addresses[at] = start;
        }
        // A declaration and its definition are one variable.
        for (at, variable) in module.globals.iter().enumerate() {
            if addresses[at] == 0
                && let Some(&(start, _)) = self.globals.get(&variable.name)
            {
                addresses[at] = start;
            }
        }
        let empty = Init::default();
        for (at, variable) in module.globals.iter().enumerate() {
            if addresses[at] == 0 || variable.linkage == ptx::ir::Linkage::Extern {
                continue;
            }
            self.space.zero(addresses[at], variable.size());
            write_initial(
                addresses[at],
                variable.size(),
                variable.init.as_ref().unwrap_or(&empty),
                &addresses,
            );
        }
        Ok(addresses)
    }

    /// Finds the kernels.
    fn find_entries(&mut self, module: &Module, target: u32) {
        let const_bytes = module
            .globals
            .iter()
            .filter(|v| v.space == StateSpace::Const)
            .map(|v| v.size())
            .sum::<u64>();
        let refusals = refusals(&self.codes, &self.pointed);
        for (number, function) in module.functions.iter().enumerate() {
            if function.kind != FunctionKind::Entry || function.body.is_none() {
                continue;
            }
            let (offsets, param_bytes) = function.param_layout();
            let sizes = function.params.iter().map(|formal| match formal {
                ptx::ir::Formal::Var(v) => function.variables[v.index()].size() as usize,
                ptx::ir::Formal::Reg(r) => function.registers[r.index()].bytes() as usize,
            });
            let params = offsets.iter().map(|&o| o as usize).zip(sizes).collect();
            let d = &function.directives;
            let product = |b: [u32; 3]| b.iter().fold(1u32, |n, &x| n.saturating_mul(x.max(1)));
            let attributes = EntryAttributes {
                max_threads: d.reqntid.or(d.maxntid).map_or(1024, product).clamp(1, 1024),
                required_block: d.reqntid,
                static_shared: 0,
                local_bytes: self.codes[number].local_bytes,
                const_bytes: u32::try_from(const_bytes).unwrap_or(u32::MAX),
                registers: registers::estimate(function),
                ptx_version: target,
                cluster: d.reqnctapercluster.map(|size| size.map(|size| size.max(1))),
                max_cluster_rank: d.maxclusterrank.unwrap_or(0),
                explicit_cluster: d.explicitcluster,
                blocks_are_clusters: d.blocksareclusters && d.reqnctapercluster.is_some(),
            };
            self.names.insert(function.name.clone(), EntryId(self.entries.len() as u32));
            self.entries.push(Entry {
                function: number as u32,
                params,
                param_bytes: param_bytes as usize,
                attributes,
                refused: refusals.get(number).copied().flatten(),
                reach: OnceLock::new(),
            });
        }
    }

    fn reach(&self, entry: EntryId) -> &Reach {
        let entry = self.get(entry);
        let new = || Reach::new(entry.function, &self.codes, &self.pointed, &self.shared);
        entry.reach.get_or_init(new)
    }

    /// Returns the kernel of this name in the image.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<EntryId> {
        self.names.get(name).copied()
    }

    /// Returns all kernels, in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = (&str, EntryId)> {
        self.entries.iter().enumerate().map(|(at, entry)| {
            (self.codes[entry.function as usize].name.as_str(), EntryId(at as u32))
        })
    }

    /// Limits the registers that the kernels are said to have.
    pub(crate) fn limit_registers(&mut self, limit: u32) {
        for Entry { attributes, .. } in &mut self.entries {
            attributes.registers = attributes.registers.min(limit.max(registers::LEAST));
        }
    }

    fn get(&self, entry: EntryId) -> &Entry {
        &self.entries[entry.0 as usize]
    }

    /// Returns an unsupported feature that a kernel, or a function that it calls, uses: name and line.
    #[must_use]
    pub fn refused(&self, entry: EntryId) -> Option<String> {
        let function = self.get(entry).refused?;
        let code = self.codes.get(function as usize)?;
        Some(match &code.refused {
            Some(why) => format!("not supported: {why}"),
            None => format!("not supported: the function {}", code.name),
        })
    }

    /// Returns the address and bytes of a variable.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.globals.get(name).copied()
    }

    /// Every variable that has memory: name, address, bytes.
    pub fn globals(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.globals.iter().map(|(name, &(start, bytes))| (name.as_str(), start, bytes))
    }

    /// Offset and bytes of each parameter.
    #[must_use]
    pub fn params(&self, entry: EntryId) -> &[(usize, usize)] {
        &self.get(entry).params
    }

    /// Bytes of all parameters together.
    #[must_use]
    pub fn param_bytes(&self, entry: EntryId) -> usize {
        self.get(entry).param_bytes
    }

    /// Returns the needs of the kernel.
    #[must_use]
    pub fn attributes(&self, entry: EntryId) -> EntryAttributes {
        EntryAttributes {
            static_shared: self.reach(entry).static_shared,
            ..self.get(entry).attributes
        }
    }

    pub(crate) fn reserved_shared(&self, entry: EntryId) -> u32 {
        self.reach(entry).reserved_shared
    }

    /// Returns whether the kernel asks for the workspace of a cooperative launch.
    pub(crate) fn reads_workspace(&self, entry: EntryId) -> bool {
        self.reach(entry).reads_workspace
    }

    pub(crate) fn dynamic_start(&self, entry: EntryId) -> u32 {
        self.reach(entry).dynamic_start
    }

    /// Bytes of local memory of each thread.
    pub(crate) fn local_bytes(&self, entry: EntryId, stack: u32) -> u32 {
        let reach = self.reach(entry);
        let stack = if reach.calls { stack } else { 0 };
        // The kernel's own variables fit. A call whose variables don't is a fault when it is made.
        reach.local_bytes.saturating_add(stack).min(MOST_LOCAL).next_multiple_of(16)
    }

    pub(crate) fn shared_offsets(&self, entry: EntryId) -> &[u32] {
        &self.reach(entry).shared
    }

    pub(crate) fn function_of(&self, entry: EntryId) -> u32 {
        self.get(entry).function
    }

    pub(crate) fn code(&self, function: u32) -> &Code {
        &self.codes[function as usize]
    }

    /// Returns the name of a kernel in the image.
    pub(crate) fn name(&self, entry: EntryId) -> &str {
        &self.code(self.function_of(entry)).name
    }

    pub(crate) fn functions(&self) -> usize {
        self.codes.len()
    }

    pub(crate) fn sites(&self) -> usize {
        self.sites
    }

    pub(crate) fn counted(&self) -> &[Counted] {
        &self.counted
    }

    /// Returns the function at an address, if it can be called.
    pub(crate) fn function_at(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(CODE_BASE)?;
        let number = u32::try_from(offset / 16).ok()?;
        let code = self.codes.get(number as usize)?;
        let callable = offset % 16 == 0 && !code.entry && code.refused.is_none();
        (callable && !code.insts.is_empty()).then_some(number)
    }

    /// File, line and column of a place in a function.
    pub(crate) fn source(&self, function: u32, loc: LocId) -> Option<(String, u32, u32)> {
        let loc = self.locs.get(function as usize)?.get(loc.index())?;
        let file = self.files.get(&loc.file)?;
        Some((file.clone(), loc.line, loc.column))
    }
}

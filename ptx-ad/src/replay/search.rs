//! Stores of results of atomic operations: where they are, and how their addresses are computed before the operations.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Address, Base, Instr, LdKind, Module, Op, Operand, Order, RegId, Role, Space, Type};

use crate::analysis::{Access, Analysis, Form, Origin, real};
use crate::body::Body;
use crate::refusal::{Reason, Refusal};

/// The most steps of an address that is computed a second time.
const MOST_STEPS: usize = 100;

/// A store of one number to a replay buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    pub(super) block: usize,
    pub(super) at: usize,
    pub(super) pointer: usize,
    space: Space,
    ty: Type,
    base: Base,
    offset: i64,
    form: Form,
    value: Option<RegId>,
}

/// The position of an atomic operation, and its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Atom {
    pub(super) block: usize,
    pub(super) at: usize,
    result: RegId,
    ty: Type,
}

/// A search for results that a kernel stores.
pub(super) struct Search<'a> {
    module: &'a Module,
    body: &'a Body,
    analysis: &'a Analysis,
    buffers: &'a [bool],
    /// The definition of each register: the block, and the instruction unless it is a phi.
    definitions: HashMap<RegId, (usize, Option<usize>)>,
    pub(super) found: Vec<Refusal>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        module: &'a Module,
        body: &'a Body,
        analysis: &'a Analysis,
        buffers: &'a [bool],
    ) -> Self {
        let mut definitions = HashMap::new();
        for (index, block) in body.blocks.iter().enumerate() {
            for phi in &block.phis {
                definitions.insert(phi.reg, (index, None));
            }
            for (at, instr) in block.code.iter().enumerate() {
                instr.for_each_def(|reg| {
                    definitions.insert(reg, (index, Some(at)));
                });
            }
        }
        Self { module, body, analysis, buffers, definitions, found: Vec::new() }
    }

    pub(super) fn instr(&self, block: usize, at: usize) -> Option<&'a Instr> {
        self.body.blocks.get(block)?.code.get(at)
    }

    fn refuse(&mut self, reason: Reason, text: &str, block: usize, at: usize) {
        let refusal = Refusal::new(reason, text);
        let refusal = match self.instr(block, at) {
            Some(instr) => refusal.at(self.module, &self.body.function, instr),
            None => refusal,
        };
        if !self.found.contains(&refusal) {
            self.found.push(refusal);
        }
    }

    /// Returns the stores to replay buffers. Other accesses to them are errors.
    pub(super) fn sites(&mut self) -> Vec<Site> {
        let mut sites = Vec::new();
        for (block, code) in self.body.blocks.iter().enumerate() {
            for (at, instr) in code.code.iter().enumerate() {
                let Some(access) = Access::of(instr) else { continue };
                let form = self.analysis.forms.address(self.body, access.address);
                let is_buffer = |pointer: &usize| self.buffers.get(*pointer) == Some(&true);
                let several = self.analysis.forms.pointers(form.origin).iter().any(is_buffer);
                let pointer = match form.origin {
                    Origin::Pointer(pointer) if is_buffer(&pointer) => pointer,
                    _ if several => usize::MAX,
                    _ => continue,
                };
                let plain = matches!(instr.op, Op::St { .. }) && access.order == Order::Weak;
                if several || !plain {
                    let text = "a replay buffer is only stored to, by plain stores";
                    self.refuse(Reason::Parameter, text, block, at);
                    continue;
                }
                let Address { base, offset } = *access.address;
                for (more, value) in access.parts() {
                    let (space, ty) = (access.space, access.ty);
                    let offset = offset.saturating_add(more);
                    sites.push(Site { block, at, pointer, space, ty, base, offset, form, value });
                }
            }
        }
        sites
    }

    /// Returns the atomic operations whose results are used.
    pub(super) fn atoms(&self) -> Vec<Atom> {
        let blocks = self.body.blocks.iter().enumerate();
        let all = blocks.flat_map(|(index, block)| {
            block.code.iter().enumerate().map(move |(at, instr)| (index, at, instr))
        });
        all.filter_map(|(block, at, instr)| match &instr.op {
            Op::Atom { ty, d, .. } => match **d {
                [Some(result)] => Some(Atom { block, at, result, ty: *ty }),
                _ => None,
            },
            _ => None,
        })
        .collect()
    }

    /// Returns the store of an operation's result: each thread that executes the operation executes the store.
    pub(super) fn site_of(&mut self, atom: &Atom, sites: &[Site]) -> Option<Site> {
        let reached = self.reached(atom.block);
        let holds =
            |site: &&Site| site.value.is_some_and(|value| self.is_result(value, atom, &reached, 0));
        let mut some: Vec<Site> = sites.iter().filter(holds).copied().collect();
        let first = some.first().copied();
        some.retain(|site| {
            self.body.always_reaches(atom.block, site.block)
                && (site.block != atom.block || site.at > atom.at)
        });
        if let (Some(site), true) = (first, some.is_empty()) {
            let text = "the result of an atomic operation is not stored on each path after it, or in another loop: \
                        store it at once";
            self.refuse(Reason::AtomicResult, text, site.block, site.at);
        }
        some.first().copied()
    }

    /// Returns whether a value is the operation's result on every path from the operation.
    fn is_result(&self, value: RegId, atom: &Atom, reached: &[bool], steps: usize) -> bool {
        if value == atom.result {
            return true;
        }
        if steps > MOST_STEPS {
            return false;
        }
        let Some(&(block, at)) = self.definitions.get(&value) else { return false };
        let again = |value: RegId| self.is_result(value, atom, reached, steps + 1);
        let Some(at) = at else {
            // A phi after the operation, in the same iteration.
            let here = self.body.region_of(block) == self.body.region_of(atom.block);
            let phis = self.body.blocks.get(block).map_or(&[][..], |block| &block.phis);
            let Some(phi) = phis.iter().find(|phi| phi.reg == value).filter(|_| here) else {
                return false;
            };
            let comes = |from: &usize| reached.get(*from) == Some(&true) && *from < block;
            let mut args = phi.args.iter().filter(|(from, _)| comes(from)).peekable();
            return block > atom.block
                && args.peek().is_some()
                && args.all(|(_, arg)| matches!(arg, Some(Operand::Reg(reg)) if again(*reg)));
        };
        match self.instr(block, at).map(|instr| &instr.op) {
            Some(Op::Mov { ty, a: Operand::Reg(reg), .. }) => {
                ty.bits() == atom.ty.bits() && again(*reg)
            }
            _ => false,
        }
    }

    /// Returns the blocks that are reachable from a block in the same iteration, itself among them.
    fn reached(&self, from: usize) -> Vec<bool> {
        let mut reached = vec![false; self.body.blocks.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if let Some(place) = reached.get_mut(at).filter(|place| !**place) {
                *place = true;
                let targets = self.body.blocks.get(at).map(|block| block.end.targets());
                open.extend(targets.into_iter().flatten().filter(|&to| to > at));
            }
        }
        reached
    }

    /// Returns the code that replaces an operation's result. Adds the types of new registers to `fresh`.
    pub(super) fn load(
        &mut self,
        atom: &Atom,
        site: &Site,
        sites: &[Site],
        fresh: &mut Vec<Type>,
    ) -> Option<Vec<Instr>> {
        if site.ty.bits() != atom.ty.bits() || real(site.ty).is_some() {
            let text = "the result of an atomic operation is stored as another type";
            self.refuse(Reason::AtomicResult, text, site.block, site.at);
            return None;
        }
        let Base::Reg(base) = site.base else { return None };
        let mut region = self.body.region_of(atom.block);
        while region > 0 {
            if !self.changes(base, region) {
                let text = "each iteration of a loop stores the result of its atomic operation at the same address: the \
                            next one overwrites it";
                self.refuse(Reason::AtomicResult, text, site.block, site.at);
                return None;
            }
            region = self.body.regions.get(region).and_then(|region| region.parent).unwrap_or(0);
        }
        let later = self.reached(site.block);
        let overwrites = sites.iter().find(|other| {
            let after = if other.block == site.block {
                other.at > site.at
            } else {
                later.get(other.block) == Some(&true)
            };
            other.pointer == site.pointer && after && !apart(site, other)
        });
        if let Some(other) = overwrites {
            let text = "this may overwrite the result of an atomic operation: give it a replay buffer of its own";
            self.refuse(Reason::AtomicResult, text, other.block, other.at);
            return None;
        }
        let mut hoist =
            Hoist { search: self, atom, fresh, known: HashMap::new(), code: Vec::new() };
        let base = hoist.value(base, 0);
        let mut code = hoist.code;
        let base = match base {
            Ok(base) => base,
            Err(text) => {
                self.refuse(Reason::AtomicResult, text, site.block, site.at);
                return None;
            }
        };
        let of = self.instr(atom.block, atom.at)?;
        let access = ptx::ir::Access {
            space: site.space,
            order: Order::Weak,
            scope: None,
            cache: None,
            hints: None,
            policy: None,
            used: None,
        };
        let op = Op::Ld {
            kind: LdKind::Plain,
            access,
            ty: site.ty,
            d: [Some(atom.result)].into(),
            addr: Address { base: Base::Reg(base), offset: site.offset },
        };
        code.push(Instr { guard: None, op, line: of.line, loc: of.loc });
        Some(code)
    }

    /// Returns whether a value depends on values that a loop carries.
    fn changes(&self, value: RegId, region: usize) -> bool {
        let header = self.body.range(region).start;
        let (mut seen, mut open) = (HashSet::from([value]), vec![value]);
        while let Some(reg) = open.pop() {
            let Some(&(block, at)) = self.definitions.get(&reg) else { continue };
            let mut next = Vec::new();
            match at.and_then(|at| self.instr(block, at)) {
                Some(instr) => instr.for_each_use(|reg| next.push(reg)),
                None if block == header => return true,
                None => {
                    let phis = self.body.blocks.get(block).map_or(&[][..], |block| &block.phis);
                    let args = phis.iter().filter(|phi| phi.reg == reg).flat_map(|phi| &phi.args);
                    next.extend(args.filter_map(|(_, arg)| match arg {
                        Some(Operand::Reg(reg)) => Some(*reg),
                        _ => None,
                    }));
                }
            }
            open.extend(next.into_iter().filter(|reg| seen.insert(*reg)));
        }
        false
    }

    /// Returns whether a register has its value before an operation.
    fn is_known(&self, reg: RegId, atom: &Atom) -> bool {
        match self.definitions.get(&reg) {
            // A register without a definition may have any value, anywhere.
            None => true,
            Some((block, None)) if *block == atom.block => true,
            Some((block, Some(at))) if *block == atom.block => *at < atom.at,
            Some((block, _)) => self.dominates(*block, atom.block),
        }
    }

    /// Returns whether block `by` dominates block `to`.
    fn dominates(&self, by: usize, to: usize) -> bool {
        let (mut seen, mut open) = (HashSet::new(), vec![to]);
        while let Some(at) = open.pop() {
            if at == by {
                continue;
            }
            if at == 0 {
                return false;
            }
            let preds = self.body.blocks.get(at).map_or(&[][..], |block| &block.preds);
            open.extend(preds.iter().filter(|from| seen.insert(**from)));
        }
        true
    }
}

/// Returns whether two stores of one iteration go to different memory.
fn apart(one: &Site, other: &Site) -> bool {
    let bytes = |site: &Site| i64::from(site.ty.bytes());
    if one.base == other.base {
        return one.offset.saturating_add(bytes(one)) <= other.offset
            || other.offset.saturating_add(bytes(other)) <= one.offset;
    }
    // `form` has the offset of the whole access; parts of a vector lie after it.
    let place = |site: &Site| site.form.thread_offset().filter(|offset| offset.stride > 0);
    let (Some(a), Some(b)) = (place(one), place(other)) else { return false };
    let ahead = b.constant.wrapping_sub(a.constant).rem_euclid(a.stride);
    // The widest vector has 16 bytes.
    a.stride == b.stride && ahead >= 16 && ahead.saturating_add(16) <= a.stride
}

/// Computes a value before an operation although its code is after it.
struct Hoist<'s, 'a> {
    search: &'s Search<'a>,
    atom: &'s Atom,
    fresh: &'s mut Vec<Type>,
    known: HashMap<RegId, RegId>,
    code: Vec<Instr>,
}

impl Hoist<'_, '_> {
    /// Returns the register that holds a value before the operation.
    fn value(&mut self, reg: RegId, steps: usize) -> Result<RegId, &'static str> {
        if reg == self.atom.result {
            return Err(
                "the address of a replay buffer depends on the result that is stored there: use the thread's index",
            );
        }
        if self.search.is_known(reg, self.atom) {
            return Ok(reg);
        }
        if let Some(&known) = self.known.get(&reg) {
            return Ok(known);
        }
        let place = self.search.definitions.get(&reg);
        let instr = place.and_then(|&(block, at)| self.search.instr(block, at?));
        let Some(instr) = instr.filter(|instr| self.is_pure(instr) && steps < MOST_STEPS) else {
            return Err(
                "the address at which the result of an atomic operation is stored is not known before the operation",
            );
        };
        let mut made = instr.clone();
        let mut uses = Vec::new();
        made.for_each_use(|reg| uses.push(reg));
        for used in uses {
            let value = self.value(used, steps + 1)?;
            self.known.insert(used, value);
        }
        let registers = &self.search.body.function.registers;
        made.for_each_def(|reg| {
            let number = registers.len().saturating_add(self.fresh.len());
            self.fresh.push(registers.get(reg.index()).copied().unwrap_or(Type::B64));
            self.known.insert(reg, RegId(u32::try_from(number).unwrap_or(u32::MAX)));
        });
        made.for_each_register_mut(|role, reg| {
            if matches!(role, Role::Use | Role::Def) {
                *reg = self.known.get(reg).copied().unwrap_or(*reg);
            }
        });
        self.code.push(made);
        Ok(self.known.get(&reg).copied().unwrap_or(reg))
    }

    /// Returns whether an instruction computes the same wherever its operands are known.
    fn is_pure(&self, instr: &Instr) -> bool {
        match &instr.op {
            Op::Mov { .. }
            | Op::Cvta { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Mul { .. }
            | Op::Mad { .. }
            | Op::Cvt { .. }
            | Op::Setp { .. }
            | Op::Selp { .. }
            | Op::Bfe { .. }
            | Op::Shf { .. }
            | Op::Lop3 { .. } => instr.guard.is_none(),
            Op::Ld { addr, .. } => {
                let origin = self.search.analysis.forms.address(self.search.body, addr).origin;
                matches!(origin, Origin::Param(_)) && instr.guard.is_none()
            }
            _ => false,
        }
    }
}

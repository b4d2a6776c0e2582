//! Finds the variables of a module that each kernel can reach, and whether it may write them.
//!
//! Addresses are followed through registers, parameters, results and initialisers, without regard to
//! the order of instructions. An address that cannot be followed counts as a write:
//! - An address that is stored, or given to an instruction that is not known here, counts as a write
//!   of its variable. From then on every pointer that any kernel loads from memory may hold it.
//! - A call of an unknown function counts as a write of all variables. An indirect call may reach
//!   every function whose address is taken.
//!
//! Values that only depend on an address by a comparison are not followed: no compiler computes an
//! address from a predicate. Nor are addresses that the host reads from memory and passes back as
//! integers.

mod flow;
mod operands;
mod scan;
mod sets;

use std::sync::Arc;

use crate::Error;
use crate::ir::{FunctionKind, Module, Space};
use flow::Flow;

/// How much work it may take to gather what all kernels reach. What remains counts as writing every variable.
const MOST_STEPS: usize = 1 << 22;

/// The variables that the kernels of a module can reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reached {
    /// The names of the module's variables in the spaces `.global` and `.const`, in the order of the
    /// text. A variable that is declared in a function has the name `function::variable`.
    pub variables: Vec<String>,
    /// The kernels that reach a variable, in the order of the text.
    pub kernels: Vec<KernelReach>,
}

/// The variables that a kernel reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelReach {
    /// The kernel's name in the image.
    pub kernel: String,
    /// The variables that it reaches, each once, by their positions in [`Reached::variables`]. Kernels that may reach all
    /// share one list.
    pub uses: Arc<[VariableUse]>,
}

/// The use of a variable by a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableUse {
    /// The position in [`Reached::variables`].
    pub variable: usize,
    /// Whether the kernel may write the variable; otherwise it only reads it. Constant variables are
    /// never written.
    pub writes: bool,
}

impl Reached {
    /// Reads a PTX text and follows its addresses. A text in which no function mentions a variable is
    /// not parsed.
    ///
    /// # Errors
    /// As [`parse`](crate::parse).
    pub fn of_text(text: &str) -> Result<Self, Error> {
        if !scan::mentions_variables(text) {
            return Ok(Self::default());
        }
        crate::parse(text).map(|module| Self::of(&module))
    }

    /// Follows the addresses of a module's variables. Time and memory are bounded in proportion to the
    /// text: where following takes too long, every kernel counts as writing every variable.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let table = Table::new(module);
        let flow = (!table.names.is_empty()).then(|| Flow::run(module, &table));
        let list = |variable: usize, writes: bool| VariableUse {
            variable,
            writes: writes && !table.constant[variable],
        };
        let all: Arc<[VariableUse]> =
            (0..table.names.len()).map(|variable| list(variable, true)).collect();
        let mut steps = MOST_STEPS;
        let mut kernels = Vec::new();
        for (index, function) in module.functions.iter().enumerate() {
            if function.kind != FunctionKind::Entry || function.body.is_none() {
                continue;
            }
            let Some(flow) = &flow else { continue };
            let uses = match flow.of_kernel(index, &mut steps) {
                Some((reads, writes)) => reads
                    .union(&writes)
                    .map(|&variable| list(variable, writes.contains(&variable)))
                    // A constant variable is not written, and perhaps not read.
                    .filter(|used| used.writes || reads.contains(&used.variable))
                    .collect(),
                None => all.clone(),
            };
            if !uses.is_empty() {
                kernels.push(KernelReach { kernel: function.name.clone(), uses });
            }
        }
        Self { variables: table.names, kernels }
    }

    /// Returns the variables that a kernel reaches; none if it is not in the list.
    #[must_use]
    pub fn uses(&self, kernel: &str) -> &[VariableUse] {
        self.kernels.iter().find(|reach| reach.kernel == kernel).map_or(&[], |reach| &reach.uses)
    }
}

/// The variables that are followed, numbered.
struct Table {
    names: Vec<String>,
    constant: Vec<bool>,
    /// The number of each of the module's variables, if it is followed.
    globals: Vec<Option<u32>>,
    /// The same for the variables of each function.
    locals: Vec<Vec<Option<u32>>>,
}

impl Table {
    fn new(module: &Module) -> Self {
        let mut table = Self {
            names: Vec::new(),
            constant: Vec::new(),
            globals: Vec::new(),
            locals: Vec::new(),
        };
        for variable in &module.globals {
            let number = table.add(variable.space, || variable.name.clone());
            table.globals.push(number);
        }
        for function in &module.functions {
            let numbers = function.variables.iter().map(|variable| {
                table.add(variable.space, || format!("{}::{}", function.name, variable.name))
            });
            let numbers = numbers.collect();
            table.locals.push(numbers);
        }
        table
    }

    fn add(&mut self, space: Space, name: impl FnOnce() -> String) -> Option<u32> {
        if !matches!(space, Space::Global | Space::Const) {
            return None;
        }
        let number = u32::try_from(self.names.len()).ok()?;
        self.names.push(name());
        self.constant.push(space == Space::Const);
        Some(number)
    }
}

#[cfg(test)]
mod tests;

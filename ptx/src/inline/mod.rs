//! Inlining: a function without direct calls of functions that the module defines.

mod params;
mod splice;

use std::collections::{HashMap, HashSet};

use crate::ir::{Callee, Function, FunctionId, Module, Op, VarId};

/// A function gets at most this many instructions, registers and names: functions that call the next one twice grow
/// exponentially.
const MOST_PARTS: usize = 1 << 21;

/// Calls that cannot be inlined.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InlineError {
    /// The module has no function of this number.
    #[error("the module has no function {number}")]
    UnknownFunction {
        /// The number.
        number: usize,
    },
    /// A function calls itself, directly or through others.
    #[error("`{name}` calls itself")]
    Recursion {
        /// The function's name.
        name: String,
    },
    /// The function would have more than two million instructions, registers and names.
    #[error("`{name}` gets too large with the functions that it calls inlined")]
    TooLarge {
        /// The function's name.
        name: String,
    },
    /// The arguments of a call do not have the number, the sizes or the kinds of the callee's parameters.
    #[error("line {line}: the arguments of a call do not fit the parameters of `{name}`")]
    Mismatch {
        /// The callee's name.
        name: String,
        /// The line of the call in the PTX text.
        line: u32,
    },
    /// The callee has a variable in the `.global` or `.const` space, of which there is one for all kernels.
    #[error("line {line}: `{name}` has the variable `{variable}`, which other kernels share")]
    SharedVariable {
        /// The callee's name.
        name: String,
        /// The variable's name.
        variable: String,
        /// The line of the call in the PTX text.
        line: u32,
    },
    /// The callee writes a parameter that is no result, or may write it by its address while other calls have the same
    /// argument. No compiler generates that.
    #[error("line {line}: `{name}` writes one of its parameters")]
    WritesParameter {
        /// The callee's name.
        name: String,
        /// The line of the call in the PTX text.
        line: u32,
    },
}

impl std::fmt::Debug for InlineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns `function`, a function of `module`, with the functions that it calls in the places of the calls, and those that
/// they call.
///
/// - Calls of functions that are only declared, such as `vprintf`, and indirect calls stay.
/// - Arguments and results become registers, or local memory if they are accessed in parts that overlap, or by
///   their address.
/// - Local variables of a callee get an instance for each call; shared ones one instance for all calls of the result,
///   as they have without inlining.
/// - Instructions keep the line of the text and the place in the source of the callee.
///
/// # Errors
/// See [`InlineError`].
pub fn inline(module: &Module, function: FunctionId) -> Result<Function, InlineError> {
    let defined = Defined::new(module);
    let root = function.index();
    let at = |number: usize| {
        let unknown = || InlineError::UnknownFunction { number };
        module.functions.get(number).ok_or_else(unknown)
    };
    let mut flat: HashMap<usize, Flat> = HashMap::new();
    // Callees come before callers. `open` has the functions on the current path, so there is no recursion.
    let mut open: HashSet<usize> = HashSet::from([root]);
    let mut stack = vec![(root, defined.callees(at(root)?), 0)];
    loop {
        let Some((number, callees, next)) = stack.last_mut() else {
            return Ok(at(root)?.clone());
        };
        let number = *number;
        if let Some(&callee) = callees.get(*next) {
            *next += 1;
            let function = at(callee)?;
            if flat.contains_key(&callee) {
                continue;
            }
            if !open.insert(callee) {
                return Err(InlineError::Recursion { name: function.name.clone() });
            }
            stack.push((callee, defined.callees(function), 0));
            continue;
        }
        let is_root = stack.len() == 1;
        let new = splice::splice(module, &defined, number, at(number)?, &flat, is_root)?;
        if is_root {
            return Ok(new.function);
        }
        flat.insert(number, new);
        open.remove(&number);
        stack.pop();
    }
}

/// A function whose own calls are inlined.
struct Flat {
    function: Function,
    /// The functions, by number, and their variables that shared variables are instances of.
    shared: HashMap<VarId, (usize, VarId)>,
    /// Whether it allocates on the stack.
    allocates: bool,
}

/// The functions that calls reach.
struct Defined<'m> {
    module: &'m Module,
    by_name: HashMap<&'m str, usize>,
    aliases: HashMap<FunctionId, FunctionId>,
}

impl<'m> Defined<'m> {
    fn new(module: &'m Module) -> Self {
        let functions = module.functions.iter().enumerate();
        let defined = functions.filter(|(_, function)| function.body.is_some());
        let by_name = defined.map(|(at, function)| (function.name.as_str(), at)).collect();
        Self { module, by_name, aliases: module.aliases.iter().copied().collect() }
    }

    /// Returns the number of the function with a body that a direct call of `id` reaches.
    fn resolve(&self, id: FunctionId) -> Option<usize> {
        let id = self.aliases.get(&id).copied().unwrap_or(id);
        let function = self.module.functions.get(id.index())?;
        match function.body {
            Some(_) => Some(id.index()),
            // Another declaration of the name may be a definition.
            None => self.by_name.get(function.name.as_str()).copied(),
        }
    }

    /// Returns the numbers of the functions that `function` calls, each once.
    fn callees(&self, function: &Function) -> Vec<usize> {
        let mut seen = HashSet::new();
        let calls = function.instrs().iter().filter_map(|instr| self.callee(&instr.op));
        calls.filter(|&callee| seen.insert(callee)).collect()
    }

    /// Returns the number of the function with a body that `op` calls directly.
    fn callee(&self, op: &Op) -> Option<usize> {
        match op {
            Op::Call { callee: Callee::Function(id), .. } => self.resolve(*id),
            _ => None,
        }
    }
}

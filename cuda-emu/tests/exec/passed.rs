//! Texts after passes of the crate `ptx`, which must compute the same.

use ptx::inline::{InlineError, inline};
use ptx::ir::{Callee, Function, FunctionId, Module, Op};
use ptx::ssa::Ssa;

/// Returns a text of which each function has been in static single assignment form and out of it again.
pub(crate) fn formed(text: &str) -> String {
    let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
    each(&module, |module, at| round_trip(module, &module.functions[at])).to_string()
}

/// Returns a text of which the functions that each function calls have been inlined, except for recursive ones; and then
/// as [`formed`].
pub(crate) fn inlined(text: &str) -> String {
    let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let flat = each(&module, |module, at| {
        let id = FunctionId(u32::try_from(at).expect("few functions"));
        match inline(module, id) {
            Ok(function) => {
                assert!(!calls_defined(module, &function), "{} still calls", function.name);
                function
            }
            Err(InlineError::Recursion { .. }) => module.functions[at].clone(),
            Err(error) => panic!("{error}"),
        }
    });
    let text = flat.to_string();
    ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    formed(&text)
}

/// Whether a function calls another directly that has a body.
fn calls_defined(module: &Module, function: &Function) -> bool {
    function.instrs().iter().any(|instr| match &instr.op {
        Op::Call { callee: Callee::Function(id), .. } => {
            module.functions.get(id.index()).is_some_and(|callee| callee.body.is_some())
        }
        _ => false,
    })
}

pub(crate) fn round_trip(module: &Module, function: &Function) -> Function {
    let ssa = Ssa::new(module, function).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ssa.verify(), Ok(()), "{}", function.name);
    ssa.into_function()
}

/// Returns a module of which each function with a body has been through `pass`.
pub(crate) fn each(module: &Module, pass: impl Fn(&Module, usize) -> Function) -> Module {
    let mut new = module.clone();
    for (at, function) in new.functions.iter_mut().enumerate() {
        if function.body.is_some() {
            *function = pass(module, at);
        }
    }
    new
}

//! Texts of PTX.

use ptx::ir::{FunctionKind, Linkage, Module, Space};
use ptx::{Error, Signature};

use crate::within;

/// For any bytes the parser returns a result; a text that parses prints and reads as the same module, and the scanned
/// kernels agree with it.
///
/// # Panics
/// That does not hold.
pub fn ptx(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // An instruction takes some 200 bytes and may be written in four; vectors grow by doubling.
    within((1 << 20) + 512 * text.len(), || check(&text));
}

fn check(text: &str) {
    let scanned = ptx::entries(text);
    for signature in scanned.iter().flatten() {
        let types = ptx::mangled::parameters(&signature.name);
        assert!(types.len() <= signature.name.len());
        assert!(signature.params.iter().all(|param| param.align.is_power_of_two()));
    }
    for variable in ptx::globals(text) {
        assert!(variable.align.is_power_of_two());
        if let Some(name) = ptx::mangled::variable(&variable.name) {
            assert!(!name.is_empty() && name.len() < 2 * variable.name.len());
        }
    }
    let mut module = match ptx::parse(text) {
        Ok(module) => module,
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.lines().count() + 1, "{error}");
            assert!(error.to_string().starts_with("PTX line "));
            return;
        }
    };
    for function in &module.functions {
        let graph = ptx::cfg::Cfg::new(&module, function);
        assert_eq!(graph.block_of.len(), function.instrs().len());
        assert_eq!(graph.ipdom.len(), graph.blocks.len());
    }
    transform(&module, text);
    let printed = module.to_string();
    compare(&module, scanned);
    compare(&module, ptx::entries(&printed));
    compare_globals(&module, &printed);
    let mut again = match ptx::parse(&printed) {
        Ok(again) => again,
        Err(error) => panic!("{error}\nread from\n{text}\nprinted as\n{printed}"),
    };
    module.forget_lines();
    again.forget_lines();
    assert!(again == module, "read from\n{text}\nprinted as\n{printed}");
}

/// Functions in static single assignment form keep its promises, and can be read after it, as after inlining.
fn transform(module: &Module, text: &str) {
    let mut formed = module.clone();
    for (at, function) in module.functions.iter().enumerate() {
        let single = ptx::simplify::single_exit(module, function);
        formed.functions[at] = match ptx::ssa::Ssa::new(module, &single) {
            Ok(ssa) => {
                assert_eq!(ssa.verify(), Ok(()), "read from\n{text}");
                ssa.into_function()
            }
            Err(_) => single,
        };
    }
    for at in (0..module.functions.len()).step_by(2) {
        let id = ptx::ir::FunctionId(u32::try_from(at).unwrap_or(u32::MAX));
        if let Ok(flat) = ptx::inline::inline(module, id) {
            if let Ok(ssa) = ptx::ssa::Ssa::new(module, &flat) {
                assert_eq!(ssa.verify(), Ok(()), "read from\n{text}");
            }
            formed.functions[at] = flat;
        }
    }
    let printed = formed.to_string();
    if let Err(error) = ptx::parse(&printed) {
        panic!("{error}\nread from\n{text}\nformed as\n{printed}");
    }
}

/// The scanner, which reads only signatures, may refuse a text that the parser accepts, or find a kernel in a section's
/// text. But it finds every kernel, with the parameters that it has.
fn compare(module: &Module, scanned: Result<Vec<Signature>, Error>) {
    let Ok(signatures) = scanned else { return };
    for kernel in module.functions.iter().filter(|f| f.kind == FunctionKind::Entry) {
        let signature = signatures.iter().find(|signature| signature.name == kernel.name);
        let Some(signature) = signature else { panic!("{} is not found", kernel.name) };
        let offsets = signature.params.iter().map(|param| param.offset as u64).collect();
        let layout = (offsets, signature.param_bytes() as u64);
        assert_eq!(layout, kernel.param_layout(), "parameters of {}", kernel.name);
    }
}

/// The scanner finds every variable of a text that the printer wrote, as it was parsed.
fn compare_globals(module: &Module, printed: &str) {
    let scanned = ptx::globals(printed);
    let declared = module.globals.iter().filter(|variable| {
        matches!(variable.space, Space::Global | Space::Const)
            && variable.linkage != Linkage::Extern
            // Its initialiser may name what is declared elsewhere.
            && !variable.unsized_array
    });
    for variable in declared {
        let Some(found) = scanned.iter().find(|found| found.name == variable.name) else {
            panic!("{} is not found in\n{printed}", variable.name);
        };
        assert_eq!((found.size, found.align), (variable.size(), variable.align), "{}", found.name);
        assert_eq!(found.kind == ptx::GlobalKind::Constant, variable.space == Space::Const);
        assert_eq!(found.kind == ptx::GlobalKind::Managed, variable.managed);
    }
}

//! Sets of texts of PTX that are linked.

use std::collections::BTreeSet;

use ptx::ir::{FunctionKind, Module};
use ptx::link::{Input, LinkError, link};

use crate::within;

/// What stands between two texts: a form feed, which means nothing in PTX.
const BETWEEN: char = '\u{c}';

/// Texts that are linked at most.
const MOST: usize = 16;

/// For any texts the linker returns a result. A linked text is PTX, has the kernels of all texts with their parameters,
/// and links alone to the same. Whether texts link does not depend on their order.
///
/// # Panics
/// That does not hold.
pub fn ptx_link(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // As for one text; a declaration may stand in the linked text for each that uses it.
    within((1 << 20) + 2048 * text.len(), || check(&text));
}

fn check(text: &str) {
    let texts: Vec<&str> = text.split(BETWEEN).take(MOST).collect();
    let names: Vec<String> = (0..texts.len()).map(|at| format!("{at}.ptx")).collect();
    let mut inputs: Vec<_> =
        names.iter().zip(&texts).map(|(name, &text)| Input { name, text }).collect();
    let forward = linked(&inputs);
    inputs.reverse();
    let backward = linked(&inputs);
    assert_eq!(forward.is_ok(), backward.is_ok(), "in order {forward:?}\nin reverse {backward:?}");
    match (forward, backward) {
        (Ok(forward), Ok(backward)) => {
            assert_eq!(compare(&texts, &forward), compare(&texts, &backward));
        }
        (Err(error), _) | (_, Err(error)) => {
            assert!(!error.problems.is_empty());
            assert!(!error.to_string().is_empty());
        }
    }
}

fn linked(inputs: &[Input<'_>]) -> Result<String, LinkError> {
    link(inputs, |name| matches!(name, "vprintf" | "malloc" | "free" | "__assertfail"))
}

/// A kernel's name and the offsets and the size of its parameters.
type Kernel = (String, (Vec<u64>, u64));

fn kernels(module: &Module) -> BTreeSet<Kernel> {
    let kernels = module
        .functions
        .iter()
        .filter(|function| function.kind == FunctionKind::Entry && function.body.is_some());
    kernels.map(|kernel| (kernel.name.clone(), kernel.param_layout())).collect()
}

/// Compares a linked text with the texts that it was made of. Returns its kernels.
fn compare(texts: &[&str], linked: &str) -> BTreeSet<Kernel> {
    let read = |text: &str| match ptx::parse(text) {
        Ok(module) => module,
        Err(error) => panic!("{error}\nlinked of {texts:?}\nto\n{linked}"),
    };
    let mut module = read(linked);
    let found = kernels(&module);
    let names = |kernels: &BTreeSet<Kernel>| -> BTreeSet<String> {
        kernels.iter().map(|(name, _)| name.clone()).collect()
    };
    let all: BTreeSet<Kernel> = texts.iter().flat_map(|text| kernels(&read(text))).collect();
    // Weak kernels of one name may have parameters of one size at other offsets.
    assert_eq!(names(&found), names(&all));
    assert!(found.is_subset(&all), "{found:?} of {all:?}");

    let again = match self::linked(&[Input { name: "linked", text: linked }]) {
        Ok(again) => again,
        Err(error) => panic!("{error}\nlinked of {texts:?}\nto\n{linked}"),
    };
    let mut again = read(&again);
    assert_eq!(kernels(&again), found);
    module.forget_lines();
    again.forget_lines();
    let count = |module: &Module| (module.functions.len(), module.globals.len());
    assert_eq!(count(&module), count(&again), "{linked}");
    found
}

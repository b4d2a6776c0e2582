//! Links PTX texts: one text from several that were compiled apart (`nvcc -rdc=true -ptx`).
//!
//! A name that a text exports (`.visible`, `.weak`, `.common`, every kernel) is one for all texts. A text's other names
//! are its own: where two texts have the same one, one of them gets a new name.
//!
//! ```
//! use ptx::link::{Input, link};
//!
//! let head = ".version 8.0\n.target sm_75\n.address_size 64\n";
//! let a = format!("{head}.extern .func f;\n.visible .entry k() {{ call f; ret; }}");
//! let b = format!("{head}.visible .func f {{ ret; }}");
//! let inputs = [Input { name: "a.ptx", text: &a }, Input { name: "b.ptx", text: &b }];
//! let linked = link(&inputs, |_| false)?;
//! assert_eq!(ptx::entries(&linked)?[0].name, "k");
//!
//! let error = link(&inputs[..1], |_| false).unwrap_err();
//! assert_eq!(error.to_string(), "`f` is used in a.ptx and defined in no input");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod problem;
mod symbols;
mod write;

pub use problem::{LinkError, Problem};

use std::collections::{HashMap, HashSet};

use crate::ir::{FunctionId, Module};
use problem::Problems;

/// A text to link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input<'a> {
    /// The name for messages, such as the path of the file.
    pub name: &'a str,
    /// The PTX.
    pub text: &'a str,
}

/// A text that was read.
struct Part<'a> {
    name: &'a str,
    module: Module,
}

/// Links texts to one.
///
/// `system` returns whether a function exists without a definition, such as `vprintf`, `malloc`, `free` and
/// `__assertfail`, which a device has. Sections of debug information are dropped if there are several inputs.
///
/// # Errors
/// All that is wrong, as a list: no input, a text that is not PTX, texts for architectures or address sizes that exclude
/// each other, a symbol that two inputs define, that no input defines, whose declaration and definition differ in kind,
/// state space or size, and aliases in a circle.
pub fn link(inputs: &[Input<'_>], system: impl Fn(&str) -> bool) -> Result<String, LinkError> {
    let mut problems = Problems::default();
    if inputs.is_empty() {
        problems.add(Problem::NoInput);
    }
    let mut parts = Vec::new();
    for input in inputs {
        match crate::parse(input.text) {
            Ok(module) => parts.push(Part { name: input.name, module }),
            Err(error) => problems.add(Problem::Parse { input: input.name.to_owned(), error }),
        }
    }
    problems.finish()?;
    let head = write::Head::of(&parts, &mut problems);
    aliases(&parts, &mut problems);
    let symbols = symbols::resolve(&parts, &mut problems);
    problems.finish()?;
    symbols::rename(&mut parts, &symbols);
    let text = write::write(&mut parts, &head, &symbols, &system, &mut problems);
    problems.finish()?;
    Ok(text)
}

/// Finds aliases that lead back to themselves.
fn aliases(parts: &[Part<'_>], problems: &mut Problems) {
    for part in parts {
        let aliases = &part.module.aliases;
        let mut targets: HashMap<FunctionId, FunctionId> = HashMap::new();
        for &(alias, target) in aliases {
            targets.entry(alias).or_insert(target);
        }
        // Each chain is followed to its end, or to a function that an earlier chain has met.
        let mut round_of: HashMap<FunctionId, usize> = HashMap::new();
        let mut circles: HashSet<FunctionId> = HashSet::new();
        for (round, &(first, _)) in aliases.iter().enumerate() {
            let mut at = first;
            while !round_of.contains_key(&at) {
                round_of.insert(at, round);
                let Some(&next) = targets.get(&at) else { break };
                at = next;
            }
            // A function that was met in this round: the chain is a circle.
            if round_of.get(&at) == Some(&round) && targets.contains_key(&at) {
                while circles.insert(at)
                    && let Some(&next) = targets.get(&at)
                {
                    at = next;
                }
            }
        }
        for &(alias, _) in aliases.iter().filter(|(alias, _)| circles.contains(alias)) {
            let name = name_of(&part.module, alias).to_owned();
            problems.add(Problem::AliasCycle { name, input: part.name.to_owned() });
        }
    }
}

fn name_of(module: &Module, id: FunctionId) -> &str {
    module.functions.get(id.index()).map_or("", |function| &function.name)
}

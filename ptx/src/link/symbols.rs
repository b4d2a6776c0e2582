//! The names that texts share: which definition counts, and whether all agree with it.

use std::collections::{HashMap, HashSet};

use super::Part;
use super::problem::{Problem, Problems};
use crate::ir::{Formal, Function, FunctionKind, Linkage, Space, Variable};

/// A symbol of a text, by its position in the text's functions or variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Function(usize),
    Global(usize),
}

/// Where a symbol is: in a part.
pub(super) type Place = (usize, Id);

/// A text's declaration of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Only declared.
    Declared,
    /// Variables that are merged: the largest counts.
    Common,
    /// Counts unless there is a stronger one.
    Weak,
    Strong,
}

/// The shared names.
#[derive(Default)]
pub(super) struct Symbols {
    /// The definition, or the declaration that stands for all where there is none.
    pub(super) chosen: HashMap<String, Place>,
    /// Names in `chosen` that no text defines.
    pub(super) undefined: HashSet<String>,
}

/// Returns whether other texts can mean this function.
fn shares_function(function: &Function, aliases: bool) -> bool {
    // The driver finds kernels by name, exported or not. A function without a body is another text's.
    function.kind == FunctionKind::Entry
        || function.linkage != Linkage::Internal
        || (function.body.is_none() && !aliases)
}

/// Returns the symbols of a text that are not its own, in order.
fn shared<'p>(part: &'p Part<'_>) -> impl Iterator<Item = (&'p str, Id, Rank)> {
    let aliased: HashSet<usize> =
        part.module.aliases.iter().map(|(alias, _)| alias.index()).collect();
    let functions = part.module.functions.iter().enumerate().filter_map(move |(at, function)| {
        let alias = aliased.contains(&at);
        if !shares_function(function, alias) {
            return None;
        }
        let rank = match (function.body.is_some() || alias, function.linkage) {
            (false, _) => Rank::Declared,
            (true, Linkage::Weak) => Rank::Weak,
            (true, _) => Rank::Strong,
        };
        Some((function.name.as_str(), Id::Function(at), rank))
    });
    let globals = part.module.globals.iter().enumerate().filter_map(|(at, variable)| {
        let rank = match variable.linkage {
            Linkage::Internal => return None,
            Linkage::Extern => Rank::Declared,
            Linkage::Common => Rank::Common,
            Linkage::Weak => Rank::Weak,
            Linkage::Visible => Rank::Strong,
        };
        Some((variable.name.as_str(), Id::Global(at), rank))
    });
    functions.chain(globals)
}

/// Chooses a definition for each shared name, and compares all others with it.
pub(super) fn resolve(parts: &[Part<'_>], problems: &mut Problems) -> Symbols {
    let mut found: HashMap<&str, Vec<(Place, Rank)>> = HashMap::new();
    let mut order = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        for (name, id, rank) in shared(part) {
            let places = found.entry(name).or_default();
            if places.is_empty() {
                order.push(name);
            }
            places.push(((at, id), rank));
        }
    }
    let mut symbols = Symbols::default();
    for name in order {
        let places = found.get(name).map(Vec::as_slice).unwrap_or_default();
        let input = |(at, _): Place| parts.get(at).map_or("", |part| part.name).to_owned();
        let mut strong = places.iter().filter(|(_, rank)| *rank == Rank::Strong);
        if let (Some(&(first, _)), Some(&(second, _))) = (strong.next(), strong.next()) {
            let (name, first, second) = (name.to_owned(), input(first), input(second));
            problems.add(Problem::DefinedTwice { name, first, second });
            continue;
        }
        // The first of equal places; the largest of common variables and shared memory.
        let best = places.iter().rev().max_by_key(|&&(place, rank)| (rank, extent(parts, place)));
        let Some(&(chosen, rank)) = best else { continue };
        for &(other, its) in places {
            let merged = rank == Rank::Common && its == Rank::Common;
            if let Some((has, other_is)) = differ(parts, chosen, other).filter(|_| !merged) {
                problems.add(Problem::Clash {
                    name: name.to_owned(),
                    first: input(chosen),
                    has,
                    second: input(other),
                    other: other_is,
                });
            }
        }
        if rank == Rank::Declared {
            symbols.undefined.insert(name.to_owned());
        }
        symbols.chosen.insert(name.to_owned(), chosen);
    }
    symbols
}

fn function<'p>(parts: &'p [Part<'_>], (at, id): Place) -> Option<&'p Function> {
    match id {
        Id::Function(index) => parts.get(at)?.module.functions.get(index),
        Id::Global(_) => None,
    }
}

pub(super) fn global<'p>(parts: &'p [Part<'_>], (at, id): Place) -> Option<&'p Variable> {
    match id {
        Id::Global(index) => parts.get(at)?.module.globals.get(index),
        Id::Function(_) => None,
    }
}

/// Which of two merged variables counts: the larger, then the stricter alignment.
fn extent(parts: &[Part<'_>], place: Place) -> (u64, u32) {
    global(parts, place).map_or((0, 0), |variable| (variable.size(), variable.align))
}

/// Returns what two symbols of one name are, if they differ.
fn differ(parts: &[Part<'_>], one: Place, other: Place) -> Option<(String, String)> {
    let text = |place| {
        let of_function = function(parts, place).map(function_text);
        of_function.or_else(|| global(parts, place).map(variable_text)).unwrap_or_default()
    };
    let (has, other_is) = (text(one), text(other));
    let unsized_pair = match (global(parts, one), global(parts, other)) {
        // The size of `extern int x[]` comes with the definition.
        (Some(a), Some(b)) => a.space == b.space && (open(a) || open(b)),
        _ => false,
    };
    (has != other_is && !unsized_pair).then_some((has, other_is))
}

fn open(variable: &Variable) -> bool {
    variable.unsized_array && variable.linkage == Linkage::Extern
}

/// The properties of a variable that must be the same in all texts.
fn variable_text(variable: &Variable) -> String {
    let managed = if variable.managed { " managed" } else { "" };
    format!("a{managed} variable of {} bytes in .{}", variable.size(), space(variable.space))
}

const fn space(space: Space) -> &'static str {
    match space {
        Space::Global => "global",
        Space::Const => "const",
        Space::Shared => "shared",
        Space::Local => "local",
        _ => "param",
    }
}

/// The properties of a function that must be the same in all texts: the sizes of its parameters and results.
fn function_text(function: &Function) -> String {
    let sizes = |formals: &[Formal]| {
        let size = |formal: &Formal| match *formal {
            Formal::Var(id) => function.variables.get(id.index()).map_or(0, Variable::size),
            Formal::Reg(id) => {
                function.registers.get(id.index()).map_or(0, |ty| u64::from(ty.bytes()))
            }
        };
        formals.iter().map(|formal| size(formal).to_string()).collect::<Vec<_>>().join(", ")
    };
    let kind = match function.kind {
        FunctionKind::Entry => "a kernel",
        FunctionKind::Func => "a function",
    };
    let mut text = match function.params.as_slice() {
        [] => format!("{kind} without parameters"),
        params => format!("{kind} with parameters of {} bytes", sizes(params)),
    };
    if !function.returns.is_empty() {
        text += &format!(" and results of {} bytes", sizes(&function.returns));
    }
    text
}

/// Gives new names to a text's own symbols whose names mean something in another text.
pub(super) fn rename(parts: &mut [Part<'_>], symbols: &Symbols) {
    // `taken` has every name of all texts, so that a new name hides none.
    let mut taken: HashSet<String> = symbols.chosen.keys().cloned().collect();
    for part in parts.iter() {
        let module = &part.module;
        taken.extend(module.functions.iter().flat_map(|function| {
            let variables = function.variables.iter().map(|variable| &variable.name);
            let labels = function.labels.iter().map(|label| &label.name);
            let prototypes = function.prototypes.iter().map(|prototype| &prototype.name);
            variables.chain(labels).chain(prototypes).cloned()
        }));
    }
    // `used` has the names of earlier texts.
    let mut used: HashSet<String> = symbols.chosen.keys().cloned().collect();
    // The number of names made from each.
    let mut counts: HashMap<String, u64> = HashMap::new();
    for part in parts {
        let shared: HashSet<Id> = shared(part).map(|(_, id, _)| id).collect();
        let mut fresh = |name: &mut String| {
            if !used.insert(name.clone()) {
                let count = counts.entry(name.clone()).or_default();
                let new = loop {
                    *count = count.saturating_add(1);
                    let new = format!("{name}$link{count}");
                    if !used.contains(&new) && !taken.contains(&new) {
                        break new;
                    }
                };
                used.insert(new.clone());
                *name = new;
            }
        };
        for (at, function) in part.module.functions.iter_mut().enumerate() {
            if !shared.contains(&Id::Function(at)) {
                fresh(&mut function.name);
            }
        }
        for (at, variable) in part.module.globals.iter_mut().enumerate() {
            if !shared.contains(&Id::Global(at)) {
                fresh(&mut variable.name);
            }
        }
    }
}

//! Writes the linked text.

use std::collections::{HashMap, HashSet};

use super::Part;
use super::problem::{Problem, Problems};
use super::symbols::{Id, Symbols, global};
use crate::fatbin::{Arch, Specific};
use crate::ir::{FunctionKind, GlobalId, Item, Linkage, Module, Space, Symbol, Variable};
use crate::lex::{Kind, Lexer};
use crate::print::Items;

/// The directives at the beginning of the text.
#[derive(Default)]
pub(super) struct Head {
    version: (u16, u16),
    targets: Vec<String>,
    address_size: u8,
}

impl Head {
    /// Returns the head that suits all texts: the newest version and the highest architecture, with the features that
    /// any text needs (`sm_103f` for texts of `sm_100f` and `sm_103`).
    pub(super) fn of(parts: &[Part<'_>], problems: &mut Problems) -> Self {
        let mut head = Self::default();
        let mut archs: Vec<(&Part<'_>, &str, Arch)> = Vec::new();
        for part in parts {
            let module = &part.module;
            head.version = head.version.max(module.version);
            if head.address_size == 0 {
                head.address_size = module.address_size;
            } else if let (true, Some(first)) =
                (head.address_size != module.address_size, parts.first())
            {
                let bits = |size| format!("addresses of {size} bits");
                let (has, other) = (bits(head.address_size), bits(module.address_size));
                problems.add(conflict((first, &has), (part, &other)));
            }
            for target in &module.targets {
                if let Some(arch) = arch(target) {
                    archs.push((part, target, arch));
                } else if !head.targets.contains(target) {
                    head.targets.push(target.clone());
                }
            }
        }
        // The first of equal heads.
        let key = |(_, _, arch): &&(_, _, Arch)| (arch.number, arch.specific);
        let Some(&(highest, name, Arch { number, .. })) = archs.iter().rev().max_by_key(key) else {
            return head;
        };
        for &(part, target, _) in archs.iter().filter(|(_, _, arch)| !arch.runs_on(number)) {
            problems.add(conflict((part, target), (highest, name)));
        }
        let specific = archs.iter().map(|(_, _, arch)| arch.specific).max();
        let target = Arch { number, specific: specific.unwrap_or(Specific::No) };
        head.targets.insert(0, format!("sm_{target}"));
        head
    }
}

/// The problem that two texts cannot be for one device.
fn conflict((first, has): (&Part<'_>, &str), (second, other): (&Part<'_>, &str)) -> Problem {
    Problem::Target {
        first: first.name.to_owned(),
        has: has.to_owned(),
        second: second.name.to_owned(),
        other: other.to_owned(),
    }
}

/// Reads `sm_90a`.
fn arch(target: &str) -> Option<Arch> {
    let text = target.strip_prefix("sm_")?;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let specific = match text.strip_prefix(digits)? {
        "" => Specific::No,
        "f" => Specific::Family,
        _ => Specific::Architecture,
    };
    Some(Arch { number: digits.parse().ok()?, specific })
}

/// Writes the text: files, declarations of all functions, variables, functions, and the rest. So each name is declared
/// before its first use, whichever text that is in.
pub(super) fn write(
    parts: &mut [Part<'_>],
    head: &Head,
    symbols: &Symbols,
    system: &dyn Fn(&str) -> bool,
    problems: &mut Problems,
) -> String {
    if parts.len() > 1 {
        number_files(parts);
        for part in parts.iter_mut() {
            part.module.items.retain(|item| !matches!(item, Item::Section { .. }));
        }
    }
    let parts = &*parts;
    let mut text = Module {
        version: head.version,
        targets: head.targets.clone(),
        address_size: head.address_size,
        ..Module::default()
    }
    .to_string();

    let mut bodies = String::new();
    let mut rest = String::new();
    let items: Vec<Items<'_>> = parts.iter().map(|part| Items::new(&part.module)).collect();
    for (at, (part, items)) in parts.iter().zip(&items).enumerate() {
        for item in &part.module.items {
            match item {
                Item::Function(id) if kept(symbols, part, at, Id::Function(id.index())) => {
                    bodies += &items.text(item);
                }
                Item::Alias(index) => {
                    let alias = part.module.aliases.get(*index).map(|&(alias, _)| alias.index());
                    if alias.is_some_and(|alias| kept(symbols, part, at, Id::Function(alias))) {
                        rest += &items.text(item);
                    }
                }
                Item::Pragma(_) | Item::Section { .. } => rest += &items.text(item),
                Item::File(_) => text += &items.text(item),
                _ => {}
            }
        }
    }
    let variables = variables(parts, &items, symbols);
    undefined(parts, symbols, &[&bodies, &variables, &rest], system, problems);
    let used = words(&[&bodies, &variables, &rest]);

    for (at, (part, items)) in parts.iter().zip(&items).enumerate() {
        let aliases: HashSet<_> = part.module.aliases.iter().map(|&(alias, _)| alias).collect();
        let mut declared = HashSet::new();
        for item in &part.module.items {
            let (Item::Declaration(id) | Item::Function(id)) = item else { continue };
            let Some(function) = part.module.functions.get(id.index()) else { continue };
            let alias = aliases.contains(id);
            let wanted = function.kind == FunctionKind::Func
                && kept(symbols, part, at, Id::Function(id.index()))
                && (function.body.is_some() || alias || used.contains(function.name.as_str()));
            if wanted && declared.insert(*id) {
                text += &items.text(&Item::Declaration(*id));
            }
        }
    }
    text + &variables + &bodies + &rest
}

/// Returns whether a symbol of a text is in the linked text: it is the text's own, or the definition that counts.
fn kept(symbols: &Symbols, part: &Part<'_>, at: usize, id: Id) -> bool {
    let name = match id {
        Id::Function(index) => part.module.functions.get(index).map(|f| &f.name),
        Id::Global(index) => part.module.globals.get(index).map(|v| &v.name),
    };
    let chosen = name.and_then(|name| symbols.chosen.get(name));
    chosen.is_none_or(|&chosen| chosen == (at, id))
}

/// Writes the variables. One whose address is in the initial value of another stands before it, or is declared first.
fn variables(parts: &[Part<'_>], items: &[Items<'_>], symbols: &Symbols) -> String {
    let mut text = String::new();
    let mut written: HashSet<String> = HashSet::new();
    for (at, (part, items)) in parts.iter().zip(items).enumerate() {
        for item in &part.module.items {
            let Item::Global(id) = item else { continue };
            let Some(variable) = part.module.globals.get(id.index()) else { continue };
            let missing = symbols.undefined.contains(&variable.name) && !dynamic(variable);
            if missing || !kept(symbols, part, at, Id::Global(id.index())) {
                continue;
            }
            let addresses = variable.init.iter().flat_map(|init| &init.addresses);
            for address in addresses {
                let Symbol::Global(id) = address.symbol else { continue };
                let Some(named) = part.module.globals.get(id.index()) else { continue };
                let later = symbols.chosen.get(&named.name).filter(|_| named.name != variable.name);
                let Some(&chosen) = later else { continue };
                if let (true, Some(found)) =
                    (written.insert(named.name.clone()), global(parts, chosen))
                {
                    let mut declared = found.clone();
                    declared.linkage = Linkage::Extern;
                    declared.init = None;
                    let one = Module { globals: vec![declared], ..Module::default() };
                    text += &Items::new(&one).text(&Item::Global(GlobalId(0)));
                }
            }
            written.insert(variable.name.clone());
            text += &items.text(item);
        }
    }
    text
}

/// Returns whether it is shared memory whose size comes with the launch, which has no definition.
fn dynamic(variable: &Variable) -> bool {
    variable.space == Space::Shared && variable.unsized_array
}

/// Returns the words of texts.
fn words<'t>(texts: &[&'t str]) -> HashSet<&'t str> {
    let mut words = HashSet::new();
    for text in texts {
        let mut lexer = Lexer::new(text);
        while let Ok(token) = lexer.next() {
            match token.kind {
                Kind::End => break,
                Kind::Word => words.extend(text.get(token.start..token.end)),
                _ => {}
            }
        }
    }
    words
}

/// Reports symbols that are used, that no text defines and that the system does not have.
fn undefined(
    parts: &[Part<'_>],
    symbols: &Symbols,
    texts: &[&str],
    system: &dyn Fn(&str) -> bool,
    problems: &mut Problems,
) {
    if symbols.undefined.is_empty() {
        return;
    }
    let used = words(texts);
    let mut first_use: HashMap<&str, &str> = HashMap::new();
    for (at, part) in parts.iter().enumerate() {
        let functions = part.module.functions.iter().enumerate();
        let functions = functions.map(|(index, function)| (&function.name, Id::Function(index)));
        let globals = part.module.globals.iter().enumerate();
        let globals = globals.map(|(index, variable)| (&variable.name, Id::Global(index)));
        for (name, id) in functions.chain(globals) {
            let dynamic = global(parts, (at, id)).is_some_and(dynamic);
            let missing = symbols.undefined.contains(name) && used.contains(name.as_str());
            if missing && !dynamic && !(matches!(id, Id::Function(_)) && system(name)) {
                first_use.entry(name).or_insert(part.name);
            }
        }
    }
    let mut missing: Vec<_> = first_use.into_iter().collect();
    missing.sort_unstable();
    for (name, input) in missing {
        problems.add(Problem::Undefined { name: name.to_owned(), input: input.to_owned() });
    }
}

/// Renumbers the source files of all texts, since each text counts from 1.
fn number_files(parts: &mut [Part<'_>]) {
    let mut next = 1_u32;
    for part in parts {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for file in &mut part.module.files {
            numbers.insert(file.index, next);
            (file.index, next) = (next, next.saturating_add(1));
        }
        for function in &mut part.module.functions {
            for loc in &mut function.locs {
                loc.file = numbers.get(&loc.file).copied().unwrap_or(0);
                // The names of inlined functions are in a section that is dropped.
                loc.inlined = None;
            }
        }
    }
}

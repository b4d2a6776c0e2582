//! Whether a text keeps the rules of the ISA that ptxas checks: what instructions require of `.target` and `.version`,
//! the state spaces of named variables, and functions that are called and not defined.
//!
//! A text that breaks one loads on no GPU, so it does not load here: a test without a GPU must not pass with it.

mod spaces;
mod spelled;
mod table;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use cuda_sys::CUresult;
use ptx::fatbin::{Arch, Specific};
use ptx::ir::{Callee, Directives, Function, FunctionKind, Instr, Module, Op, Operand, Type};

use super::{LoadError, error};
use crate::exec::builtins;
use table::{Row, TARGETS};

/// Problems that a log lists, at most.
const LISTED: usize = 20;

/// Bytes of a kernel's parameters that need no newer target.
const PARAMETERS: u64 = 4352;

/// A requirement of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Need {
    target: u32,
    specific: bool,
    version: (u16, u16),
    /// Whether a row is for it.
    known: bool,
}

impl Need {
    const fn new(target: u32, version: (u16, u16)) -> Self {
        Self { target, specific: false, version, known: true }
    }

    /// Both requirements together.
    fn and(self, other: &Row) -> Self {
        Self {
            target: self.target.max(other.target),
            specific: self.specific || other.specific,
            version: self.version.max(other.version),
            known: true,
        }
    }

    /// Returns the sum of the rows whose words `first` and `words` have, for a target of this number.
    fn of<'w>(
        rows: &Rows<Row>,
        target: u32,
        first: &str,
        words: impl Iterator<Item = &'w str> + Clone,
    ) -> Self {
        let mut need = Self::default();
        for row in rows.with(first) {
            if target < row.below && matches(row.words, first, words.clone()) {
                let known = need.known || !row.words.starts_with('*');
                need = Self { known, ..need.and(row) };
            }
        }
        need
    }
}

/// Rows by their first words: a text has some hundred opcodes, and a table some hundred rows.
struct Rows<R: 'static> {
    /// Those of any first word.
    any: Vec<&'static R>,
    /// Those of a first word and of any, in the order of the table.
    of: HashMap<&'static str, Vec<&'static R>>,
}

impl<R> Rows<R> {
    fn new(rows: &'static [R], words: fn(&R) -> &'static str) -> Self {
        let mut found = Self { any: Vec::new(), of: HashMap::new() };
        for row in rows {
            let names = words(row).split(' ').next().unwrap_or_default();
            if names == "*" {
                found.any.push(row);
                found.of.values_mut().for_each(|rows| rows.push(row));
                continue;
            }
            for name in names.split('|') {
                found.of.entry(name).or_insert_with(|| found.any.clone()).push(row);
            }
        }
        found
    }

    /// Returns the rows that an opcode with this first word may have.
    fn with(&self, first: &str) -> &[&'static R] {
        self.of.get(first).unwrap_or(&self.any)
    }
}

static INSTRUCTIONS: LazyLock<Rows<Row>> =
    LazyLock::new(|| Rows::new(table::INSTRUCTIONS, |row| row.words));
static SPELLINGS: LazyLock<Rows<Row>> =
    LazyLock::new(|| Rows::new(spelled::SPELLINGS, |row| row.words));
static SPECIALS: LazyLock<Rows<Row>> =
    LazyLock::new(|| Rows::new(table::SPECIALS, |row| row.words));
static NEVER: LazyLock<Rows<(&str, &str)>> =
    LazyLock::new(|| Rows::new(spelled::NEVER, |(words, _)| words));

/// Returns why no version has an opcode of these words.
fn never<'w>(first: &str, words: impl Iterator<Item = &'w str> + Clone) -> Option<&'static str> {
    let mut rows = NEVER.with(first).iter();
    rows.find(|(words_of, _)| matches(words_of, first, words.clone())).map(|(_, why)| *why)
}

/// Returns whether an instruction has the words of a pattern, as [`Row::words`] and [`spelled::NEVER`] describe them.
fn matches<'w>(pattern: &str, first: &str, words: impl Iterator<Item = &'w str> + Clone) -> bool {
    let mut wanted = pattern.split(' ');
    let is = |any: &str, word: &str| any.split('|').any(|one| one == word);
    let names = wanted.next().unwrap_or_default();
    if names != "*" && !is(names, first) {
        return false;
    }
    let mut rest = words.clone();
    wanted.all(|any| match (any.strip_prefix('!'), any.strip_prefix('$')) {
        (Some(any), _) => words.clone().all(|word| !is(any, word)),
        (_, Some(any)) => rest.by_ref().last().is_some_and(|word| is(any, word)),
        _ => rest.any(|word| is(any, word)),
    })
}

/// The `.version` and `.target` of a text, and the problems found.
struct Check {
    version: (u16, u16),
    arch: Arch,
    problems: Vec<String>,
    /// The number of further problems.
    more: usize,
}

impl Check {
    fn problem(&mut self, line: u32, what: &str) {
        if self.problems.len() == LISTED {
            self.more += 1;
            return;
        }
        let place = if line == 0 { String::new() } else { format!("PTX line {line}: ") };
        self.problems.push(format!("{place}{what}"));
    }

    /// Compares the requirements of `what` with the text.
    fn require(&mut self, line: u32, what: &str, need: Need) {
        let Self { version, arch, .. } = *self;
        // A family has the targets of one major number.
        let outside = arch.specific == Specific::No || arch.number / 10 != need.target / 10;
        if arch.number < need.target || need.specific && outside {
            let kind = if need.specific { "a or its family" } else { " or higher" };
            let Need { target, .. } = need;
            let has = format!("the text has sm_{arch}");
            self.problem(line, &format!("`{what}` requires .target sm_{target}{kind}; {has}"));
        }
        if version < need.version {
            let ((needs, minor), (has, has_minor)) = (need.version, version);
            let has = format!("the text has {has}.{has_minor}");
            self.problem(
                line,
                &format!("`{what}` requires .version {needs}.{minor} or later; {has}"),
            );
        }
    }

    fn head(&mut self) {
        let number = self.arch.number;
        let known = TARGETS.iter().find(|(target, _)| *target == number);
        // ptxas knows no other targets; newer ones than the table's are not refused for that.
        if let Some(&(_, version)) = known {
            self.require(0, &format!(".target sm_{number}"), Need::new(0, version));
        }
        if self.arch.specific == Specific::Architecture {
            self.require(0, &format!(".target sm_{}", self.arch), Need::new(90, (8, 0)));
        }
        if self.arch.specific == Specific::Family {
            self.require(0, &format!(".target sm_{}", self.arch), Need::new(100, (8, 8)));
        }
    }

    fn variables(&mut self, module: &Module) {
        for variable in &module.globals {
            let masked = |init: &ptx::ir::Init| init.addresses.iter().any(|a| a.mask.is_some());
            for (is, what, need) in [
                (variable.managed, ".attribute(.managed)", Need::new(30, (4, 0))),
                (variable.ty == Type::B128, ".b128", Need::new(70, (8, 3))),
                (variable.linkage == ptx::ir::Linkage::Common, ".common", Need::new(0, (5, 0))),
                (variable.init.as_ref().is_some_and(masked), "mask()", Need::new(0, (7, 1))),
            ] {
                if is {
                    self.require(0, &format!("{what} of {}", variable.name), need);
                }
            }
        }
        if !module.aliases.is_empty() {
            self.require(0, ".alias", Need::new(30, (6, 3)));
        }
    }

    fn directives(&mut self, function: &Function) {
        let Directives { reqnctapercluster, maxclusterrank, explicitcluster, .. } =
            &function.directives;
        let kernel = function.kind == FunctionKind::Entry;
        let parameters = if kernel { function.param_layout().1 } else { 0 };
        for (is, what, need) in [
            (reqnctapercluster.is_some(), ".reqnctapercluster", Need::new(90, (7, 8))),
            (maxclusterrank.is_some(), ".maxclusterrank", Need::new(90, (7, 8))),
            (*explicitcluster, ".explicitcluster", Need::new(90, (7, 8))),
            (function.directives.blocksareclusters, ".blocksareclusters", Need::new(90, (9, 0))),
            (function.directives.noreturn, ".noreturn", Need::new(30, (6, 4))),
            (parameters > PARAMETERS, "more than 4352 bytes of parameters", Need::new(70, (8, 1))),
        ] {
            if is {
                self.require(function.line, what, need);
            }
        }
    }

    fn instructions(&mut self, module: &Module, function: &Function, known: &mut Known) {
        module.for_each_opcode(function, |instr, opcode| {
            let Instr { op, line, .. } = instr;
            let word = operands(op);
            let need = match (word, known.get(opcode)) {
                (None, Some(&need)) => need,
                _ => {
                    let (first, words) = opcode.split_once('.').unwrap_or((opcode, ""));
                    let words = word.into_iter().chain(words.split('.'));
                    if let Some(why) = word.and_then(|_| never(first, words.clone())) {
                        self.problem(*line, &format!("`{opcode}` is no instruction of PTX: {why}"));
                    }
                    let need = Need::of(&INSTRUCTIONS, self.arch.number, first, words);
                    if word.is_none() {
                        known.insert(opcode.to_owned(), need);
                    }
                    need
                }
            };
            // The generator's test loads every instruction that is executed, so that none is missing in the table.
            if !need.known && !matches!(op, Op::Other { .. }) {
                self.problem(*line, &format!("the software device has no requirements of `{opcode}`"));
            }
            self.require(*line, opcode, need);
            let unsynced = matches!(op, Op::Shfl { mask: None, .. } | Op::Vote { mask: None, .. });
            if unsynced && self.arch.number >= 70 && self.version >= (6, 4) {
                let what = format!(
                    "`{opcode}` without `.sync` is not supported on .target sm_70 or higher since .version 6.4"
                );
                self.problem(*line, &what);
            }
            if let Op::Mov { a: Operand::Special(special), .. } = op {
                let name = special.to_string();
                let stem = name.split('.').next().unwrap_or_default();
                self.require(*line, &name, Need::of(&SPECIALS, self.arch.number, stem, core::iter::empty()));
            }
            let wrong = spaces::wrong(module, function, op).or_else(|| wide_byte(function, op));
            if let Some(what) = wrong {
                self.problem(*line, &format!("`{opcode}`: {what}"));
            }
        });
    }

    /// Checks the opcodes as the text spells them, each where it is first.
    fn spellings(&mut self, opcodes: &[(&str, u32)]) {
        for &(opcode, line) in opcodes {
            let mut words = opcode.split('.').map(str::trim);
            let first = words.next().unwrap_or_default();
            self.require(
                line,
                opcode,
                Need::of(&SPELLINGS, self.arch.number, first, words.clone()),
            );
            if let Some(why) = never(first, words) {
                self.problem(line, &format!("`{opcode}` is no instruction of PTX: {why}"));
            }
        }
    }

    /// Finds the functions that kernels call, directly or by others, and that nothing defines.
    fn calls(&mut self, module: &Module) {
        let aliases: HashMap<_, _> = module.aliases.iter().copied().collect();
        let is_kernel = |f: &Function| f.kind == FunctionKind::Entry;
        let mut reached: Vec<bool> = module.functions.iter().map(is_kernel).collect();
        let mut next: Vec<usize> = (0..reached.len()).filter(|&at| reached[at]).collect();
        while let Some(function) = next.pop().and_then(|at| module.functions.get(at)) {
            for instr in function.instrs() {
                let Op::Call { callee: Callee::Function(callee), .. } = &instr.op else { continue };
                let callee = aliases.get(callee).unwrap_or(callee).index();
                let (Some(called), Some(reached)) =
                    (module.functions.get(callee), reached.get_mut(callee))
                else {
                    continue;
                };
                if std::mem::replace(reached, true) {
                    continue;
                }
                if called.body.is_none() && builtins::by_name(&called.name).is_none() {
                    let what = format!(
                        "the function {} is called and not defined: link the text that defines it",
                        called.name
                    );
                    self.problem(instr.line, &what);
                }
                next.push(callee);
            }
        }
    }
}

/// The requirements of opcodes that were met and whose operands require no more.
type Known = HashMap<String, Need>;

/// Returns the table's word for the requirements of an instruction's operands beyond its opcode.
fn operands(op: &Op) -> Option<&'static str> {
    match op {
        Op::MinMax3 { .. } => Some("three"),
        Op::CpAsync { ignore: Some(_), .. } => Some("ignore-src"),
        Op::MbarrierArrive { count: Some(_), nocomplete: false, expect_tx: false, .. } => {
            Some("count")
        }
        _ => None,
    }
}

/// Returns the mistake in a conversion between bf16 and 8 bits whose register of the latter is wider, as others may be.
fn wide_byte(function: &Function, op: &Op) -> Option<String> {
    let Op::Cvt { to, from, d, a, .. } = op else { return None };
    let register = match (to, from, a) {
        (Type::Bf16, Type::U8 | Type::S8, Operand::Reg(register)) => register,
        (Type::U8 | Type::S8, Type::Bf16, _) => d.as_ref()?,
        _ => return None,
    };
    let ty = function.registers.get(register.index())?;
    (ty.bits() != 8).then(|| format!("the register of 8 bits is a .{ty}; declare it as .b8"))
}

/// Checks a text of the target `arch`, whose opcodes are spelled so. The log of the error lists the problems with their
/// lines.
pub(super) fn check(module: &Module, opcodes: &[(&str, u32)], arch: Arch) -> Result<(), LoadError> {
    let mut check = Check { version: module.version, arch, problems: Vec::new(), more: 0 };
    check.head();
    check.variables(module);
    let mut known = Known::new();
    for function in &module.functions {
        check.directives(function);
        check.instructions(module, function, &mut known);
    }
    check.spellings(opcodes);
    check.calls(module);
    if check.problems.is_empty() {
        return Ok(());
    }
    let mut log = check.problems.join("\n");
    if check.more > 0 {
        let _ = write!(log, "\nand {} more", check.more);
    }
    Err(error(CUresult::CUDA_ERROR_INVALID_PTX, log))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_as_of_all<R>(rows: &Rows<R>, all: &'static [R], words: fn(&R) -> &'static str) {
        let named = all.iter().flat_map(|row| words(row).split(' ').next());
        let firsts: Vec<&str> = named.flat_map(|names| names.split('|')).chain(["none"]).collect();
        for first in firsts {
            let may = |row: &&R| {
                let names = words(row).split(' ').next().unwrap_or_default();
                names == "*" || names.split('|').any(|name| name == first)
            };
            let wanted: Vec<_> = all.iter().filter(may).map(std::ptr::from_ref).collect();
            let found: Vec<_> =
                rows.with(first).iter().map(|row| std::ptr::from_ref(*row)).collect();
            assert_eq!(found, wanted, "{first}");
        }
    }

    #[test]
    fn rows_are_found_by_their_first_words() {
        same_as_of_all(&INSTRUCTIONS, table::INSTRUCTIONS, |row| row.words);
        same_as_of_all(&SPELLINGS, spelled::SPELLINGS, |row| row.words);
        same_as_of_all(&SPECIALS, table::SPECIALS, |row| row.words);
        same_as_of_all(&NEVER, spelled::NEVER, |(words, _)| words);
    }
}

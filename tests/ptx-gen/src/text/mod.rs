//! Programs as PTX.

mod frame;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::numbers::Kinds;
use crate::program::{GATHERS, Gather, Op, Pick, Program, Statement, Trips};
use crate::table::{Part, rows};
use frame::{BEGIN, HEAD, REGISTERS};

/// Threads of a block.
pub const BLOCK: usize = 64;
/// Threads of a launch.
pub const THREADS: usize = 128;
/// Words that each thread is given.
pub const INPUTS: usize = 8;
/// Bytes of global memory of one program: of each thread its own, and cells of each block.
pub const SCRATCH: usize = THREADS * OWN + 128;
const OWN: usize = 64;

/// The output of a program for each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A hash of all that it changed.
    Hash,
    /// The registers that it changed, one after the other. A program of numbers converts them to the type of its inputs,
    /// and leaves those out that hold parts of numbers.
    Registers,
}

/// A module of programs.
#[must_use]
pub fn module<'p>(programs: impl IntoIterator<Item = &'p Program>, ending: Ending) -> String {
    let mut text = HEAD.to_owned();
    for program in programs {
        text.push_str(&kernel(program, ending));
    }
    text
}

/// The kernel's name.
#[must_use]
pub fn kernel_name(program: &Program) -> String {
    format!("program_{}", program.seed)
}

/// The kernel.
fn kernel(program: &Program, ending: Ending) -> String {
    let mut writer = Writer::new(program);
    writer.statements(&program.body, Where::OUTSIDE);
    let body = std::mem::take(&mut writer.text);
    let mut text = format!(
        "\n.visible .entry {}(.param .u64 inputs, .param .u64 results, .param .u64 scratch, \
         .param .u32 place, .param .u32 trips)\n{{\n",
        kernel_name(program)
    );
    text.push_str(REGISTERS);
    if writer.has("shared") {
        text.push_str("\t.shared .align 16 .b8 area[5184];\n");
    }
    if writer.has("local") {
        text.push_str("\t.local .align 16 .b8 own[64];\n");
    }
    text.push_str(BEGIN);
    writer.prologue();
    text.push_str(&std::mem::take(&mut writer.text));
    text.push_str(&body);
    writer.ending(ending);
    text.push_str(&writer.text);
    text.push_str(if program.seed.is_multiple_of(2) { "\tret;\n}\n" } else { "\texit;\n}\n" });
    text
}

/// The names of the registers that a program changes, in the order of [`Ending::Registers`].
#[must_use]
pub fn changed(program: &Program) -> Vec<String> {
    let mut writer = Writer::new(program);
    writer.statements(&program.body, Where::OUTSIDE);
    writer.written.iter().map(|&(kind, number)| register(kind, number)).collect()
}

/// The statements of a program, without what stands around them.
#[must_use]
pub fn body(program: &Program) -> String {
    let mut writer = Writer::new(program);
    writer.statements(&program.body, Where::OUTSIDE);
    writer.text
}

/// How many instructions a program is, without what comes before and after its statements.
#[must_use]
pub fn instructions(program: &Program) -> usize {
    let mut writer = Writer::new(program);
    writer.statements(&program.body, Where::OUTSIDE);
    writer.instructions
}

/// The name of a register of a kind.
fn register(kind: char, number: u8) -> String {
    let letter = kind_of(kind);
    format!("%{letter}{number}")
}

/// The file of registers that a slot's letter names.
fn kind_of(slot: char) -> char {
    match slot {
        'H' | 'h' | 'k' | 'e' => 'h',
        'W' | 'w' | 'v' | 'd' | 'm' => 'w',
        'P' | 'p' | 'q' => 'p',
        _ => 'r',
    }
}

/// Where a statement stands.
#[derive(Debug, Clone, Copy)]
struct Where<'l> {
    /// A mask of the lanes that come by.
    lanes: &'l str,
    depth: usize,
    /// All threads come by.
    together: bool,
}

impl Where<'_> {
    const OUTSIDE: Self = Where { lanes: ALL, depth: 0, together: true };

    /// In a branch or loop that not all threads run alike.
    fn apart(self) -> Self {
        Self { depth: self.depth + 1, together: false, ..self }
    }
}

/// The mask of a whole warp.
const ALL: &str = "0xffffffff";

#[derive(Default)]
struct Writer {
    text: String,
    instructions: usize,
    labels: usize,
    temporaries: usize,
    /// Registers with inputs, and those of them that are changed.
    used: BTreeSet<(char, u8)>,
    written: BTreeSet<(char, u8)>,
    /// Kinds of memory.
    uses: BTreeSet<&'static str>,
    /// The contents of registers at the end, of a program of numbers.
    kinds: Option<Kinds>,
}

impl Writer {
    fn new(program: &Program) -> Self {
        Self { kinds: program.kinds.clone(), ..Self::default() }
    }

    fn has(&self, what: &str) -> bool {
        self.uses.contains(what)
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.instructions += 1;
        // A string takes all that is written to it.
        let _ = writeln!(self.text, "\t{};", line.as_ref());
    }

    fn label(&mut self, label: &str) {
        let _ = writeln!(self.text, "{label}:");
    }

    fn new_label(&mut self) -> String {
        self.labels += 1;
        format!("$L_{}", self.labels)
    }

    fn read(&mut self, kind: char, number: u8) -> String {
        self.used.insert((kind_of(kind), number));
        register(kind, number)
    }

    fn write(&mut self, kind: char, number: u8) -> String {
        self.written.insert((kind_of(kind), number));
        self.read(kind, number)
    }

    fn statements(&mut self, statements: &[Statement], place: Where<'_>) {
        for statement in statements {
            self.statement(statement, place);
        }
    }

    /// After what not all threads have run alike: some instructions want the lanes of a warp side by
    /// side. Programs of numbers have none of these.
    fn meet(&mut self, place: Where<'_>) {
        if place.together && self.kinds.is_none() {
            self.line(format!("bar.warp.sync {ALL}"));
        }
    }

    fn statement(&mut self, statement: &Statement, place: Where<'_>) {
        match statement {
            Statement::Op(op) => self.op(op, place.lanes),
            Statement::If { on, masks, then, otherwise } => {
                let on = self.read('p', *on);
                let (other, end) = (self.new_label(), self.new_label());
                if *masks {
                    self.line(format!("vote.sync.ballot.b32 %lanes, {on}, {ALL}"));
                }
                let lanes = if *masks { "%lanes" } else { place.lanes };
                let inner = Where { lanes, ..place.apart() };
                self.branch_unless(&on, &other);
                self.statements(then, inner);
                self.line(format!("bra.uni {end}"));
                self.label(&other);
                if *masks && !otherwise.is_empty() {
                    self.line("not.b32 %lanes, %lanes");
                }
                self.statements(otherwise, inner);
                self.label(&end);
                self.meet(place);
            }
            Statement::Switch { on, arms } => self.switch(*on, arms, place),
            Statement::Loop { trips, body } => {
                let start = self.new_label();
                let depth = place.depth;
                match trips {
                    Trips::Constant(count) => self.line(format!("mov.u32 %end{depth}, {count}")),
                    Trips::Parameter => self.line(format!("ld.param.u32 %end{depth}, [trips]")),
                    Trips::Register(register) => {
                        let register = self.read('r', *register);
                        self.line(format!("and.b32 %end{depth}, {register}, 3"));
                    }
                }
                // Where lanes come out of a loop for a lock, as of atomics of shared memory, apart, ptxas
                // counts an outer loop in one register for all of them if all begin alike.
                self.line(format!("mov.u32 %count{depth}, %zero"));
                self.label(&start);
                let apart = matches!(trips, Trips::Register(_));
                let together = place.together && !apart;
                self.statements(body, Where { together, ..place.apart() });
                self.line(format!("add.u32 %count{depth}, %count{depth}, 1"));
                self.line(format!("setp.le.u32 %q0, %count{depth}, %end{depth}"));
                self.line(format!("@%q0 bra {start}"));
                if apart {
                    self.meet(place);
                }
            }
            Statement::Exchange { value, into, by } => {
                self.uses.insert("shared");
                let (value, into) = (self.read('r', *value), self.write('r', *into));
                self.line("mad.wide.u32 %peer, %tx, 4, %area");
                self.line(format!("st.shared.b32 [%peer+4672], {value}"));
                self.line("bar.sync 0");
                self.line(format!("add.u32 %t0, %tx, {by}"));
                self.line("and.b32 %t0, %t0, 63");
                self.line("mad.wide.u32 %peer, %t0, 4, %area");
                self.line(format!("ld.shared.b32 {into}, [%peer+4672]"));
                self.line("bar.sync 0");
            }
            Statement::Gather(gather) => self.gather(*gather),
            Statement::Call { into, a, b } => {
                let (a, b, into) = (self.read('r', *a), self.read('r', *b), self.write('r', *into));
                self.text.push_str("\t{\n\t.param .b32 first, second, result;\n");
                self.line(format!("st.param.b32 [first], {a}"));
                self.line(format!("st.param.b32 [second], {b}"));
                self.line("call (result), mix, (first, second)");
                self.line(format!("ld.param.b32 {into}, [result]"));
                self.text.push_str("\t}\n");
            }
        }
    }

    fn switch(&mut self, on: u8, arms: &[Vec<Statement>], place: Where<'_>) {
        let on = self.read('r', on);
        let labels: Vec<_> = arms.iter().map(|_| self.new_label()).collect();
        let (table, end) = (self.new_label(), self.new_label());
        let _ = writeln!(self.text, "{table}: .branchtargets {};", labels.join(", "));
        self.line(format!("and.b32 %t0, {on}, {}", arms.len() - 1));
        self.line(format!("brx.idx %t0, {table}"));
        for (label, arm) in labels.iter().zip(arms) {
            self.label(label);
            self.statements(arm, place.apart());
            self.line(format!("bra {end}"));
        }
        self.label(&end);
        self.meet(place);
    }

    fn gather(&mut self, Gather { what, shared, cell, value, into }: Gather) {
        let words = GATHERS[usize::from(what)];
        let (space, base) = if shared { ("shared", "%area") } else { ("global", "%cells") };
        self.uses.insert(if shared { "shared" } else { "cells" });
        let offset = u32::from(cell) * 8 + if shared { 4096 } else { 0 };
        let (value, into) = (self.read('w', value), self.write('w', into));
        let operand = match words {
            // All threads have one bound, else the order would matter.
            "inc.u32" => "37",
            _ if words.ends_with("64") => &value,
            _ => {
                self.line(format!("cvt.u32.u64 %t0, {value}"));
                "%t0"
            }
        };
        self.line(format!("red.{space}.{words} [{base}+{offset}], {operand}"));
        self.line("bar.sync 0");
        self.line(format!("ld.{space}.b64 {into}, [{base}+{offset}]"));
        self.line("bar.sync 0");
    }

    /// A register for what is made of operands before the instruction.
    fn temporary(&mut self, kind: &str) -> String {
        self.temporaries += 1;
        format!("%{kind}{}", self.temporaries)
    }

    fn op(&mut self, op: &Op, lanes: &str) {
        let row = &rows()[op.row];
        self.temporaries = 0;
        let mut line = String::new();
        let mut results = Vec::new();
        let mut picks = op.picks.iter().copied();
        for part in &row.parts {
            if let Part::Text(text) = part {
                line.push_str(text);
                continue;
            }
            let Some(pick) = picks.next() else { break };
            match (part, pick) {
                (Part::Words(words), Pick::Number(number)) => {
                    line.push_str(&words[usize::from(number)]);
                }
                (Part::Place(place), Pick::Number(number)) => {
                    line.push_str(&self.place(*place, number, lanes));
                }
                (Part::Slot(slot), pick) => {
                    let operand = self.operand(*slot, pick);
                    if let ('H' | 'R' | 'W' | 'P', Pick::Number(_)) = (*slot, pick) {
                        results.push(operand.clone());
                    }
                    line.push_str(&operand);
                }
                _ => {}
            }
        }
        for (word, what) in [("%gshared", "shared"), ("%glocal", "local"), ("%global", "global")] {
            if row.name.contains(word) {
                self.uses.insert(what);
            }
        }
        let guard = op.guard.map(|(number, negated)| {
            let bang = if negated { "!" } else { "" };
            format!("@{bang}{} ", self.read('p', number))
        });
        for one in line.split("; ") {
            self.line(format!("{}{one}", guard.as_deref().unwrap_or_default()));
        }
        let predicates = results.iter().filter(|result| result.starts_with("%p")).count();
        if row.misleads() || predicates > 1 {
            results.iter().for_each(|result| self.opaque(result));
        }
        if let Some(ty) = &row.usual {
            for result in &results {
                self.usual(ty, result);
            }
        }
    }

    /// In a loop with a call, in what a branch leads to, ptxas takes the branch's predicate for what it
    /// was there, also where the loop has written it since. So it branches on another.
    fn branch_unless(&mut self, on: &str, label: &str) {
        self.copy(on, "%q1");
        self.line(format!("@!%q1 bra {label}"));
    }

    /// Copies a predicate, and the compiler does not know that.
    fn copy(&mut self, predicate: &str, copy: &str) {
        self.line(format!("selp.b32 %t0, 1, 0, {predicate}"));
        self.line("xor.b32 %t0, %t0, %zero");
        self.line(format!("setp.ne.u32 {copy}, %t0, 0"));
    }

    /// Hides from the compiler where a result came from.
    fn opaque(&mut self, result: &str) {
        let (bits, zero) = match result.as_bytes().get(1) {
            Some(b'h') => (16, "%zero16"),
            Some(b'r') => (32, "%zero"),
            Some(b'w') => (64, "%zero64"),
            _ => return self.copy(result, result),
        };
        // `or` would keep ones, which the compiler may know.
        self.line(format!("xor.b{bits} {result}, {result}, {zero}"));
    }

    /// Makes a NaN the usual one.
    fn usual(&mut self, ty: &str, result: &str) {
        let (bits, nan) = match ty {
            "f64" => (64, "0x7ff8000000000000"),
            "f32" => (32, "0x7fffffff"),
            _ => (16, "0x7fff"),
        };
        if ty.ends_with("x2") {
            self.line(format!("setp.nan.{ty} %q1|%q2, {result}, {result}"));
            self.line(format!("mov.b32 {{%th0, %th1}}, {result}"));
            self.line(format!("selp.b16 %th0, {nan}, %th0, %q1"));
            self.line(format!("selp.b16 %th1, {nan}, %th1, %q2"));
            self.line(format!("mov.b32 {result}, {{%th0, %th1}}"));
        } else {
            self.line(format!("setp.nan.{ty} %q1, {result}, {result}"));
            self.line(format!("selp.b{bits} {result}, {nan}, {result}, %q1"));
        }
    }

    fn place(&mut self, place: char, number: u8, lanes: &str) -> String {
        let offset = u32::from(number) * 16;
        let (what, base) = match place {
            'm' => return lanes.to_owned(),
            'g' => ("global", "%global"),
            'x' => ("global", "%global"),
            's' => ("shared", "%shared"),
            'y' => ("shared", "%gshared"),
            'b' => {
                self.uses.insert("shared");
                return "%ready".to_owned();
            }
            'r' => {
                self.uses.insert("shared");
                return "%gready".to_owned();
            }
            'l' => ("local", "%local"),
            'c' => ("const", "table"),
            _ => ("input", "%in"),
        };
        self.uses.insert(what);
        format!("{base}+{offset}")
    }

    fn operand(&mut self, slot: char, pick: Pick) -> String {
        let number = match pick {
            Pick::Number(number) => number,
            Pick::Not(number) => return format!("!{}", self.read(slot, number)),
            Pick::Constant(bits) => {
                return match slot {
                    's' => format!("0f{bits:08x}"),
                    'd' => format!("0d{bits:016x}"),
                    _ => format!("{bits:#x}"),
                };
            }
        };
        if slot.is_ascii_uppercase() {
            return self.write(slot, number);
        }
        let source = self.read(slot, number);
        let made = match slot {
            'k' => ("th", format!("or.b16 %, {source}, 1")),
            'n' => ("t", format!("or.b32 %, {source}, 1")),
            'm' => ("tw", format!("or.b64 %, {source}, 1")),
            'e' => ("th", format!("xor.b16 %, {source}, %zero16")),
            'u' => ("t", format!("xor.b32 %, {source}, %zero")),
            'o' => ("t", format!("and.b32 %, {source}, 31")),
            'y' => ("t", format!("and.b32 %, {source}, 255")),
            'j' => ("t", format!("xor.b32 %, {source}, {:#x}", 0x1234_5671 + self.instructions)),
            'z' => ("t", format!("and.b32 %, {source}, 0xbfffffff")),
            _ => return source,
        };
        let temporary = self.temporary(made.0);
        self.line(made.1.replacen("%,", &format!("{temporary},"), 1));
        if slot == 'z' {
            self.line(format!("setp.nan.f32 %q3, {source}, {source}"));
            self.line(format!("selp.b32 {temporary}, {temporary}, {source}, %q3"));
        }
        temporary
    }
}

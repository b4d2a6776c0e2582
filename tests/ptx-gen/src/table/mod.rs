//! The support table: the instructions that the generator draws, and their operands.
//!
//! A line is the words of an instruction, a space, and its operands. In the words `{a|b}` makes a
//! row for each alternative, and `<a|b>` leaves the choice to each use; in operands `(a|b)` makes
//! rows. Some rows are several instructions with `; ` between them. In operands
//!
//! | | |
//! |---|---|
//! | `H` `R` `W` `P` | a result of 16, 32, 64 bits, a predicate |
//! | `h` `t` `v` `p` | a register of 16, 32, 64 bits, a predicate |
//! | `r` `w` `s` `d` | a register or a constant: u32, u64, f32, f64 |
//! | `q` | a predicate, perhaps negated |
//! | `k` `n` `m` | a divisor of 16, 32, 64 bits: odd |
//! | `o` `y` | a register's lower 5, 8 bits |
//! | `z` | an f32 that is not NaN |
//! | `e` `u` | a register of 16, 32 bits of which the compiler knows nothing: for stores of less, and where it errs |
//! | `j` | a register with bits flipped that no other use flips |
//! | `l` `i` | a constant below 256, below 32 |
//! | `@g` `@s` `@l` `@x` `@y` | 16 bytes of the thread's own: global, shared, local, and global and shared as generic addresses |
//! | `@i` `@c` | 16 bytes of the inputs, which are never written, and of constant memory |
//! | `@b` `@r` | the thread's own barrier object, and its generic address |
//! | `@m` | the lanes that are here |
//!
//! and `~f64` at the end makes a NaN in the results the usual one, as the NaN of a result is undefined.

mod compare;
mod convert;
mod float;
mod integer;
mod memory;
mod warp;

use std::sync::OnceLock;

/// Who must come to an instruction together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Nobody.
    Thread,
    /// The lanes of a mask.
    Lanes,
    /// All lanes of a warp.
    Warp,
    /// All threads of a block.
    Block,
}

/// An operand, or a piece of text between operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// One of these words.
    Words(Vec<String>),
    /// A letter of the table above.
    Slot(char),
    /// A letter after `@`.
    Place(char),
}

/// An instruction, or several that belong together.
#[derive(Debug)]
pub struct Row {
    /// As it stands in the table, but for what makes rows.
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    /// Who must come to it together.
    pub needs: Needs,
    /// The type whose NaN is made the usual one.
    pub(crate) usual: Option<String>,
}

impl Row {
    fn new(name: String) -> Self {
        let (text, usual) = match name.split_once(" ~") {
            Some((text, usual)) => (text, Some(usual.to_owned())),
            None => (name.as_str(), None),
        };
        let parts = parts(text);
        let is_barrier = |words: &str| {
            words.starts_with("barrier")
                || words.starts_with("bar") && !words.starts_with("bar.warp")
        };
        let needs = if text.split("; ").map(words_of).any(is_barrier) {
            Needs::Block
        } else if name.contains(".aligned") || name.contains("0xffffffff") {
            Needs::Warp
        } else if parts.contains(&Part::Place('m')) {
            Needs::Lanes
        } else {
            Needs::Thread
        };
        Self { name, parts, needs, usual }
    }

    /// Whether it is one instruction that a guard can stand before. Of a guarded `set` ptxas guards
    /// the comparison, and not the conversion of its result to the type of the destination; of
    /// `testp`, and of `vadd4` and `vsub4` that add up all, it forgets the guard.
    pub(crate) fn may_be_guarded(&self) -> bool {
        let forgotten = matches!(self.opcode(), "set" | "testp")
            || matches!(self.opcode(), "vadd4" | "vsub4") && self.name.contains(".add ");
        !self.name.contains(';') && self.needs == Needs::Thread && !forgotten
    }

    /// Whether ptxas keeps in mind of a result what is not true of the register's bits: that it is a
    /// float, where another type is read; where it comes from, if it was converted or saturated; that it
    /// has no sign, of the absolute value of the least integer; or that one of a `cnot` is one also as a
    /// float.
    pub(crate) fn misleads(&self) -> bool {
        let is_float = |word: &str| {
            ["f16", "f32", "f64", "tf32", "e4m3", "e5m2"]
                .iter()
                .any(|ty| word.strip_prefix('b').unwrap_or(word).starts_with(ty))
        };
        matches!(self.opcode(), "set" | "cvt" | "cnot" | "abs" | "neg")
            || self.name.contains(".sat")
            || self.name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_float)
    }

    /// As it stands in the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first word of its first instruction that is not a barrier around another.
    #[must_use]
    pub fn opcode(&self) -> &str {
        let name = self.name.strip_prefix("bar.sync 0; ").unwrap_or(&self.name);
        words_of(name).split(['.', '<']).next().unwrap_or_default()
    }

    /// The words of its instructions, each with all choices made, to ask a device about.
    #[must_use]
    pub fn instructions(&self) -> Vec<String> {
        let text = self.name.split(" ~").next().unwrap_or_default();
        text.split("; ").flat_map(|one| alternatives(words_of(one), '<', '>')).collect()
    }
}

/// An instruction's own words: not the guard before them, and not the operands.
pub(crate) fn words_of(instruction: &str) -> &str {
    let plain = match instruction.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ').map_or("", |(_, plain)| plain),
        None => instruction,
    };
    plain.split(' ').next().unwrap_or_default()
}

/// All rows.
#[must_use]
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let tables = [
            integer::LINES,
            float::LINES,
            compare::LINES,
            convert::LINES,
            memory::LINES,
            warp::LINES,
        ];
        let lines = tables.into_iter().flatten();
        lines.flat_map(|line| expand(line)).map(Row::new).collect()
    })
}

/// The rows of a line of a table.
#[must_use]
pub fn expand(line: &str) -> Vec<String> {
    let (words, operands) = match line.find(' ') {
        Some(at) => line.split_at(at),
        None => (line, ""),
    };
    let operands = alternatives(operands, '(', ')');
    let words = alternatives(words, '{', '}');
    words
        .iter()
        .flat_map(|words| operands.iter().map(move |rest| format!("{words}{rest}")))
        .collect()
}

/// All texts that come of choosing in each pair of brackets.
pub(crate) fn alternatives(text: &str, open: char, close: char) -> Vec<String> {
    let Some((head, rest)) = text.split_once(open) else { return vec![text.to_owned()] };
    let Some((choices, tail)) = rest.split_once(close) else { return vec![text.to_owned()] };
    let tails = alternatives(tail, open, close);
    choices
        .split('|')
        .flat_map(|choice| tails.iter().map(move |tail| format!("{head}{choice}{tail}")))
        .collect()
}

/// Takes a row apart: slots are single letters that stand between other characters.
pub(crate) fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    // Words of an instruction go up to the first space; those of the next begin after `; `.
    let mut operands = false;
    let flush = |plain: &mut String, parts: &mut Vec<Part>| {
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(plain)));
        }
    };
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let next = after.chars().next();
        match c {
            '<' => {
                let (choices, tail) = after.split_once('>').unwrap_or((after, ""));
                flush(&mut plain, &mut parts);
                parts.push(Part::Words(choices.split('|').map(str::to_owned).collect()));
                rest = tail;
                continue;
            }
            ';' => operands = false,
            ' ' if !plain.is_empty() && plain.ends_with(';') => {}
            ' ' if plain.ends_with("%low") => {}
            ' ' => operands = true,
            '@' if operands => {
                flush(&mut plain, &mut parts);
                parts.extend(next.map(Part::Place));
                rest = &after[next.map_or(0, char::len_utf8)..];
                continue;
            }
            _ if operands && c.is_ascii_alphabetic() => {
                let before = plain.chars().last();
                let alone = |c: Option<char>| {
                    c.is_none_or(|c| {
                        !c.is_ascii_alphanumeric() && !matches!(c, '%' | '_' | '.' | ':')
                    })
                };
                let ends = next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
                if alone(before) && ends {
                    flush(&mut plain, &mut parts);
                    parts.push(Part::Slot(c));
                    rest = after;
                    continue;
                }
            }
            _ => {}
        }
        plain.push(c);
        rest = after;
    }
    flush(&mut plain, &mut parts);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rows() {
        assert_eq!(expand("{a|b}.{x|y} R, (p|q)").len(), 8);
        assert_eq!(expand("mov.b32 {H, H}, t"), ["mov.b32 {H, H}, t"]);
        assert_eq!(expand("exit"), ["exit"]);
    }

    #[test]
    fn rows_are_taken_apart() {
        let text = |text: &str| Part::Text(text.to_owned());
        let words = Part::Words(vec![String::new(), ".ftz".to_owned()]);
        assert_eq!(
            parts("add<|.ftz>.f32 R, s, 0x1f"),
            [
                text("add"),
                words,
                text(".f32 "),
                Part::Slot('R'),
                text(", "),
                Part::Slot('s'),
                text(", 0x1f")
            ],
        );
        assert_eq!(
            parts("@%low bar.sync 5; ld.b32 R, [@g]"),
            [
                text("@%low bar.sync 5; ld.b32 "),
                Part::Slot('R'),
                text(", ["),
                Part::Place('g'),
                text("]")
            ],
        );
        assert_eq!(parts("mov.u32 R, %tid.x").last(), Some(&text(", %tid.x")));
    }

    #[test]
    fn who_must_come_together_is_told_by_the_words() {
        let needs = |name: &str| Row::new(name.to_owned()).needs;
        assert_eq!(needs("barrier<|.cta>.sync 3"), Needs::Block);
        assert_eq!(needs("@%low bar.arrive 5, 64; @!%low bar.sync 5, 64"), Needs::Block);
        assert_eq!(needs("mbarrier.inval.shared.b64 [@b]"), Needs::Thread);
        assert_eq!(needs("bar.warp.sync @m"), Needs::Lanes);
        assert_eq!(needs("movmatrix.sync.aligned.m8n8.trans.b16 R, t"), Needs::Warp);
    }

    #[test]
    fn instructions_have_all_choices_made() {
        let row = Row::new("@%low bar<|.cta>.arrive 5, 64; abs<|.ftz>.f32 R, s ~f32".to_owned());
        assert_eq!(row.instructions(), ["bar.arrive", "bar.cta.arrive", "abs.f32", "abs.ftz.f32"]);
        assert_eq!(row.usual.as_deref(), Some("f32"));
    }
}

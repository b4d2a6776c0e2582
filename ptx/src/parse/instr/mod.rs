//! Instructions: the opcode chooses a family, the family reads its modifiers and operands.
//!
//! A family returns `None`, before it reads any operand, when the modifiers are not ones it takes
//! apart. ptxas takes modifiers in any order (`vote.ballot.sync.b32`), so the family is then asked again without
//! regard to the order. An instruction that is refused twice becomes [`Op::Other`].

mod arith;
mod asynchronous;
mod bits;
mod cluster;
mod control;
mod data;
mod matrix;
mod memory;
mod other;
mod warp;

use super::cursor::Result;
use super::function::Body;
use crate::ir::{BinaryOp, Op, Pred, Scope, Shape, Type, UnaryOp, VideoOp};

/// Unpacks an `Option`; the family returns `None` without one.
macro_rules! need {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

/// The family returns `None` if modifiers are left.
macro_rules! finish {
    ($words:expr) => {
        if !$words.done() {
            return Ok(None);
        }
    };
}

use {finish, need};

/// Modifiers of an instruction that are also tried in any order, at most. No instruction has as many, and the time for
/// them grows with their square.
const MODIFIERS: usize = 32;

/// An instruction's family at work.
type Family = Result<Option<Op>>;

/// The modifiers of an instruction that are not read yet.
struct Words<'w, 'a> {
    list: &'w mut [&'a str],
    /// Whether a word may come after others. Words of the same kind, such as the two types of `cvt`, are read
    /// from left to right in any case.
    any_order: bool,
}

impl<'w, 'a> Words<'w, 'a> {
    fn peek(&self) -> Option<&'a str> {
        self.list.first().copied()
    }

    fn done(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the words that may be read next.
    fn readable(&self) -> &[&'a str] {
        let count = if self.any_order { self.list.len() } else { self.list.len().min(1) };
        self.list.get(..count).unwrap_or_default()
    }

    /// Removes a readable word; the order of the others stays.
    fn take(&mut self, at: usize) {
        if let Some(front) = self.list.get_mut(..=at) {
            front.rotate_right(1);
        }
        self.skip();
    }

    /// Removes the first word.
    fn skip(&mut self) {
        let list: &'w mut [&'a str] = std::mem::take(&mut self.list);
        self.list = list.get_mut(1..).unwrap_or_default();
    }

    fn flag(&mut self, word: &str) -> bool {
        match self.readable().iter().position(|&one| one == word) {
            Some(at) => {
                self.take(at);
                true
            }
            None => false,
        }
    }

    /// All of `words`: in a row, unless the order is free.
    fn flags(&mut self, words: &[&str]) -> bool {
        let met = match self.any_order {
            true => words.iter().all(|word| self.list.contains(word)),
            false => self.list.starts_with(words),
        };
        met && words.iter().all(|word| self.flag(word))
    }

    /// Returns the first readable word that `meaning` knows.
    fn opt<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let found = self.readable().iter().enumerate();
        let (at, found) = found.filter_map(|(at, word)| Some((at, meaning(word)?))).next()?;
        self.take(at);
        Some(found)
    }

    fn ty(&mut self) -> Option<Type> {
        self.opt(Type::from_name)
    }

    fn scope(&mut self) -> Option<Scope> {
        self.opt(Scope::from_name)
    }

    /// `m16n8k16`, `m8n8`
    fn shape(&mut self) -> Option<Shape> {
        self.opt(|word| {
            let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
            let (n, k) = rest.split_once('k').unwrap_or((rest, "0"));
            Some(Shape { m: number(m)?, n: number(n)?, k: if k == "0" { 0 } else { number(k)? } })
        })
    }
}

/// Returns a number as it is printed: no sign, no zero in front.
fn number(digits: &str) -> Option<u16> {
    let n: u16 = digits.parse().ok()?;
    (digits.as_bytes().first()?.is_ascii_digit() && !digits.starts_with('0')).then_some(n)
}

impl<'a> Body<'_, 'a> {
    /// Reads the rest of an instruction whose opcode's first word has been read.
    pub(super) fn opcode(
        &mut self,
        name: &'a str,
        guard: Option<Pred>,
        place: usize,
        line: u32,
    ) -> Result<()> {
        (self.guard, self.line) = (guard, line);
        let mut mods = std::mem::take(&mut self.mods);
        mods.clear();
        while let Some(word) = self.cur.peek_dotted() {
            mods.push(word);
            self.cur.advance()?;
        }
        if let Some(opcodes) = &mut self.opcodes {
            opcodes.entry(self.cur.slice(place, self.cur.offset()).trim_end()).or_insert(line);
        }
        let mut found = self.family(name, &mut Words { list: &mut mods, any_order: false })?;
        if found.is_none() && (2..=MODIFIERS).contains(&mods.len()) {
            let mut words = mods.clone();
            found = self.family(name, &mut Words { list: &mut words, any_order: true })?;
        }
        let op = match found {
            Some(op) => op,
            None => self.other(name, &mods, place)?,
        };
        self.mods = mods;
        self.cur.require(b';')?;
        self.emit(guard, op, line);
        Ok(())
    }

    fn family(&mut self, name: &str, w: &mut Words<'_, 'a>) -> Family {
        if let Some(op) = UnaryOp::from_name(name) {
            return self.unary(op, w);
        }
        match name {
            "mov" => self.mov(w),
            "ld" | "ldu" => self.ld(name == "ldu", w),
            "mapa" | "getctarank" => self.cluster_address(name == "mapa", w),
            "st" => self.st(w),
            "setp" => self.setp(w),
            "set" => self.set(w),
            "selp" => self.selp(w),
            "slct" => self.slct(w),
            "cvt" => self.cvt(w),
            "cvta" => self.cvta(w),
            "isspacep" => self.isspacep(w),
            "bra" | "ret" | "exit" | "trap" | "brkpt" | "brx" | "call" | "pmevent"
            | "nanosleep" => self.control(name, w),
            "add" | "sub" => self.add_sub(name == "sub", w),
            "addc" | "subc" => self.carry(name == "subc", w),
            "min" | "max" => self.min_max(name == "max", w),
            "mul" => self.mul(w),
            "mad" | "madc" => self.mad(name == "madc", w),
            "fma" => self.fma(w),
            "mul24" => self.mul24(w),
            "mad24" => self.mad24(w),
            "sad" => self.sad(w),
            "bfind" => self.bfind(w),
            "fns" => self.fns(w),
            "bfe" => self.bfe(w),
            "bfi" => self.bfi(w),
            "bmsk" => self.bmsk(w),
            "szext" => self.szext(w),
            "dp4a" | "dp2a" => self.dot(name == "dp4a", w),
            "lop3" => self.lop3(w),
            "shf" => self.shf(w),
            "prmt" => self.prmt(w),
            "testp" => self.testp(w),
            "atom" | "red" => self.atom(name == "red", w),
            "prefetch" | "prefetchu" | "applypriority" => self.prefetch(name, w),
            "fence" => self.fence(w),
            "membar" => self.membar(w),
            "bar" | "barrier" => self.bar(name == "bar", w),
            "shfl" => self.shfl(w),
            "vote" => self.vote(w),
            "match" => self.match_sync(w),
            "redux" => self.redux(w),
            "activemask" => self.activemask(w),
            "elect" => self.elect(w),
            "alloca" | "stacksave" | "stackrestore" => self.stack(name, w),
            "cp" => self.cp_async(w),
            "mbarrier" => self.mbarrier(w),
            "mma" => self.mma(w),
            "wmma" => self.wmma(w),
            "ldmatrix" | "stmatrix" => self.matrix_memory(name == "stmatrix", w),
            "movmatrix" => self.movmatrix(w),
            "griddepcontrol" => self.grid_dependency(w),
            "createpolicy" => self.create_policy(w),
            _ => {
                if let Some(op) = BinaryOp::from_name(name) {
                    return self.binary(op, w);
                }
                match name.strip_suffix(['2', '4']).and_then(VideoOp::from_name) {
                    Some(op) => self.video(op, if name.ends_with('2') { 2 } else { 4 }, w),
                    None => Ok(None),
                }
            }
        }
    }
}

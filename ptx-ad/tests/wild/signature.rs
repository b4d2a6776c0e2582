//! What a kernel's parameters are, guessed from the instructions that use them: pointers, with the type of the numbers
//! behind them, and numbers that are passed by value.
//!
//! It shares nothing with the generator. It does not follow the order of the code: a register is a pointer or a number
//! if any instruction says so.

use std::collections::{BTreeMap, BTreeSet};

use ptx::ir::{
    AtomOp, Base, BinaryOp, Formal, Function, Instr, Op, Operand, RegId, Space, Symbol, Type, VarId,
};
use ptx_ad::{Param, Pointer, Real, Reals, Spec};

/// Where a pointer lies: the number of its parameter, and the bytes before it.
type Field = (usize, u32);

/// A parameter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guess {
    /// Its size in bytes.
    pub(crate) bytes: usize,
    /// Whether it is declared as an array of bytes.
    pub(crate) structure: bool,
    pub(crate) pointers: BTreeMap<u32, Memory>,
    /// Whether no gradients are wanted.
    pub(crate) passive: bool,
    /// The numbers that are passed by value.
    pub(crate) reals: BTreeMap<u32, Real>,
}

/// The memory behind a pointer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) real: Option<Real>,
    /// Whether integers lie there, too.
    pub(crate) mixed: bool,
    /// The size of an element, if addresses say it.
    pub(crate) size: u32,
    /// Where in an element numbers lie, and integers, as far as offsets in addresses say.
    pub(crate) numbers: BTreeSet<u32>,
    integers: BTreeSet<u32>,
    /// Whether numbers and integers seem to lie at one place.
    pub(crate) unclear: bool,
    /// Whether numbers of two types lie there.
    both: bool,
    /// Where the last access with a known offset ends.
    extent: u32,
    /// Whether numbers are stored or added there.
    pub(crate) written: bool,
}

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Integer,
    F32,
    F64,
}

impl Class {
    fn of(real: Real) -> Self {
        if real == Real::F32 { Self::F32 } else { Self::F64 }
    }

    fn real(self) -> Option<Real> {
        match self {
            Self::Integer => None,
            Self::F32 => Some(Real::F32),
            Self::F64 => Some(Real::F64),
        }
    }
}

/// What is known of a function's registers.
struct Facts<'a> {
    function: &'a Function,
    /// Which parameters' pointers a register may be computed from.
    origins: Vec<BTreeSet<Field>>,
    /// Of an address, the greatest common divisor of what indices are multiplied by.
    strides: Vec<u64>,
    classes: Vec<BTreeSet<Class>>,
}

fn real(ty: Type) -> Option<Real> {
    match ty {
        Type::F32 => Some(Real::F32),
        Type::F64 => Some(Real::F64),
        _ => None,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn reg(operand: &Operand) -> Option<RegId> {
    match operand {
        Operand::Reg(reg) => Some(*reg),
        _ => None,
    }
}

/// The registers of an access to memory, if it is one.
fn accessed(op: &Op) -> Option<(&ptx::ir::Access, Type, &ptx::ir::Address, Vec<RegId>, bool)> {
    match op {
        Op::Ld { access, ty, d, addr, .. } => {
            Some((access, *ty, addr, d.iter().flatten().copied().collect(), false))
        }
        Op::St { access, ty, addr, a } => {
            Some((access, *ty, addr, a.iter().filter_map(reg).collect(), true))
        }
        Op::Atom { access, ty, addr, a, d, .. } => {
            let all = a.iter().filter_map(reg).chain(d.iter().flatten().copied());
            Some((access, *ty, addr, all.collect(), true))
        }
        _ => None,
    }
}

impl Facts<'_> {
    fn parameter(&self, var: VarId) -> Option<usize> {
        self.function.params.iter().position(|formal| *formal == Formal::Var(var))
    }

    fn copy(&mut self, to: RegId, from: &Operand) -> bool {
        let Some(from) = reg(from) else { return false };
        let (new, stride) = (self.origins[from.index()].clone(), self.strides[from.index()]);
        let mut changed = self.scale(to, stride);
        for origin in new {
            changed |= self.origins[to.index()].insert(origin);
        }
        changed
    }

    fn scale(&mut self, to: RegId, stride: u64) -> bool {
        let known = &mut self.strides[to.index()];
        let new = gcd(*known, stride);
        let changed = new != *known;
        *known = new;
        changed
    }

    fn is(&mut self, reg: RegId, class: Class) -> bool {
        self.classes[reg.index()].insert(class)
    }

    /// Both hold the same.
    fn same(&mut self, a: RegId, b: RegId) -> bool {
        let all: BTreeSet<Class> =
            self.classes[a.index()].union(&self.classes[b.index()]).copied().collect();
        let mut changed = false;
        for reg in [a, b] {
            changed |= self.classes[reg.index()] != all;
            self.classes[reg.index()].clone_from(&all);
        }
        changed
    }

    /// Operands whose type the instruction says.
    fn typed(&mut self, ty: Type, regs: impl IntoIterator<Item = Option<RegId>>) -> bool {
        let class = match real(ty) {
            Some(real) => Class::of(real),
            None if ty.bits() >= 32 && !matches!(ty, Type::B32 | Type::B64) && !ty.is_float() => {
                Class::Integer
            }
            None => return false,
        };
        regs.into_iter().flatten().fold(false, |changed, reg| self.is(reg, class) | changed)
    }

    #[allow(clippy::too_many_lines, reason = "a table of instructions")]
    fn instr(&mut self, instr: &Instr) -> bool {
        match &instr.op {
            Op::Ld { access, ty, d, addr, .. } if access.space == Space::Param => {
                let mut changed = self.typed(*ty, d.iter().copied());
                let Base::Symbol(Symbol::Var(var)) = addr.base else { return changed };
                let Some(param) = self.parameter(var) else { return changed };
                for (at, reg) in d.iter().enumerate() {
                    let offset = addr.offset + i64::from(ty.bytes()) * at as i64;
                    let (Some(reg), Ok(offset)) = (reg, u32::try_from(offset)) else { continue };
                    if ty.bits() == 64 && *ty != Type::F64 {
                        changed |= self.origins[reg.index()].insert((param, offset));
                    }
                }
                changed
            }
            // Compilers copy numbers as `.u32`, too.
            Op::Ld { ty, d, .. } if real(*ty).is_some() => self.typed(*ty, d.iter().copied()),
            Op::St { ty, a, .. } if real(*ty).is_some() => self.typed(*ty, a.iter().map(reg)),
            Op::Atom { ty, a, d, .. } => {
                self.typed(*ty, a.iter().map(reg).chain(d.iter().copied()))
            }
            Op::Mov { d: Some(d), a, .. } => {
                let same = reg(a).is_some_and(|a| self.same(*d, a));
                self.copy(*d, a) | same
            }
            Op::Cvta { d: Some(d), a, .. } => self.copy(*d, a),
            Op::Selp { ty, d: Some(d), a, b, .. } => {
                let mut changed = self.typed(*ty, [Some(*d)]);
                for side in [a, b] {
                    changed |= self.copy(*d, side);
                    changed |= reg(side).is_some_and(|side| self.same(*d, side));
                }
                changed
            }
            Op::Unpack { ty: Type::B64, d, a } => {
                let Some(a) = reg(a) else { return false };
                let floats = Class::F32;
                let has = |reg: RegId| self.classes[reg.index()].contains(&floats);
                if has(a) {
                    return d
                        .iter()
                        .flatten()
                        .fold(false, |changed, d| self.is(*d, floats) | changed);
                }
                d.iter().flatten().any(|d| has(*d)) && self.is(a, floats)
            }
            Op::Pack { ty: Type::B64, d: Some(d), a } => {
                let floats = Class::F32;
                let has = |reg: RegId| self.classes[reg.index()].contains(&floats);
                a.iter().filter_map(reg).any(has) && self.is(*d, floats)
            }
            Op::Binary { op, ty, d: Some(d), a, b, .. } => {
                let mut changed = self.typed(*ty, [Some(*d), reg(a), reg(b)]);
                if matches!(op, BinaryOp::Shl)
                    && let Operand::Imm(by) = b
                {
                    changed |= self.scale(*d, 1u64.checked_shl(*by as u32).unwrap_or(0));
                    return changed;
                }
                if ty.bits() == 64 && real(*ty).is_none() {
                    changed |= self.copy(*d, a);
                    changed |= self.copy(*d, b);
                }
                changed
            }
            Op::Mul { ty, d: Some(d), a, b, .. } => {
                let mut changed = self.typed(*ty, [reg(a), reg(b)]);
                if real(*ty).is_some() {
                    changed |= self.typed(*ty, [Some(*d)]);
                } else if let Operand::Imm(by) = b {
                    changed |= self.scale(*d, *by);
                }
                changed
            }
            Op::Mad { ty, d: Some(d), a, b, c, .. } => {
                let mut changed = self.typed(*ty, [reg(a), reg(b)]);
                if real(*ty).is_some() {
                    return self.typed(*ty, [Some(*d), reg(c)]) | changed;
                }
                changed |= self.copy(*d, c);
                if let Operand::Imm(by) = b {
                    changed |= self.scale(*d, *by);
                }
                changed
            }
            Op::Fma { ty, d, a, b, c, .. } => self.typed(*ty, [*d, reg(a), reg(b), reg(c)]),
            Op::MinMax3 { ty, d, a, b, c, .. } => self.typed(*ty, [*d, reg(a), reg(b), reg(c)]),
            Op::Unary { ty, d, a, .. } => self.typed(*ty, [*d, reg(a)]),
            Op::Setp { ty, a, b, .. } | Op::Set { ty, a, b, .. } => {
                self.typed(*ty, [reg(a), reg(b)])
            }
            Op::Testp { ty, a, .. } => self.typed(*ty, [reg(a)]),
            Op::Cvt { to, from, d, a, .. } => {
                let changed = self.typed(*from, [reg(a)]) | self.typed(*to, [*d]);
                match d {
                    Some(d) if to.bits() == 64 => self.copy(*d, a) | changed,
                    _ => changed,
                }
            }
            _ => false,
        }
    }
}

fn follow(function: &Function) -> Facts<'_> {
    let count = function.registers.len();
    let mut facts = Facts {
        function,
        origins: vec![BTreeSet::new(); count],
        strides: vec![0; count],
        classes: vec![BTreeSet::new(); count],
    };
    for (at, ty) in function.registers.iter().enumerate() {
        if let (Some(real), Ok(at)) = (real(*ty), u32::try_from(at)) {
            facts.is(RegId(at), Class::of(real));
        }
    }
    loop {
        let changed =
            function.instrs().iter().fold(false, |changed, instr| facts.instr(instr) | changed);
        if !changed {
            return facts;
        }
    }
}

/// Guesses what a kernel's parameters are.
pub(crate) fn guess(function: &Function) -> Vec<Guess> {
    let facts = follow(function);
    let mut guesses: Vec<Guess> = function
        .params
        .iter()
        .map(|formal| match formal {
            Formal::Var(var) => {
                let var = &function.variables[var.index()];
                let bytes = var.size() as usize;
                Guess { bytes, structure: !var.dims.is_empty(), ..Guess::default() }
            }
            Formal::Reg(_) => Guess::default(),
        })
        .collect();
    let number = |reg: RegId| facts.classes[reg.index()].iter().find_map(|class| class.real());
    let is_integer = |reg: RegId| {
        let known = &facts.classes[reg.index()];
        known.contains(&Class::Integer) && known.len() == 1
    };
    for instr in function.instrs() {
        let Some((access, ty, address, regs, written)) = accessed(&instr.op) else { continue };
        if access.space == Space::Param {
            let Base::Symbol(Symbol::Var(var)) = address.base else { continue };
            let Some(guess) = facts.parameter(var).and_then(|at| guesses.get_mut(at)) else {
                continue;
            };
            for (at, reg) in regs.iter().enumerate() {
                let offset = address.offset + i64::from(ty.bytes()) * at as i64;
                if let (Some(real), Ok(offset)) = (number(*reg), u32::try_from(offset))
                    && real.bytes() == ty.bytes()
                {
                    guess.reals.insert(offset, real);
                }
            }
            continue;
        }
        let Base::Reg(base) = address.base else { continue };
        if !matches!(access.space, Space::Global | Space::Generic | Space::Const) {
            continue;
        }
        for (param, offset) in &facts.origins[base.index()] {
            let memory = guesses[*param].pointers.entry(*offset).or_default();
            let stride = facts.strides[base.index()];
            memory.size = u32::try_from(gcd(memory.size.into(), stride)).unwrap_or(0);
            let end = address.offset + i64::from(ty.bytes()) * regs.len().max(1) as i64;
            memory.extent = memory.extent.max(u32::try_from(end).unwrap_or(0));
            for (at, reg) in regs.iter().enumerate() {
                let member = address.offset + i64::from(ty.bytes()) * at as i64;
                let member = u32::try_from(member).unwrap_or(0);
                match number(*reg) {
                    Some(real) => {
                        memory.both |= memory.real.is_some_and(|known| known != real);
                        memory.real = memory.real.or(Some(real));
                        memory.written |= written;
                        memory.numbers.extend([member, member + ty.bytes() - 1]);
                    }
                    None if is_integer(*reg) || ty.bits() < 32 => {
                        memory.mixed = true;
                        memory.integers.insert(member);
                    }
                    None => {}
                }
            }
            if let Op::Atom { op, .. } = &instr.op {
                memory.written |= *op == AtomOp::Add && real(ty).is_some();
            }
        }
    }
    for guess in &mut guesses {
        for memory in guess.pointers.values_mut() {
            let bytes = memory.real.map_or(4, Real::bytes);
            // One element, of which addresses name only members.
            let size = if memory.size == 0 { memory.extent } else { memory.size };
            memory.size = size.next_multiple_of(bytes).clamp(bytes, 1024);
            let within = |all: &BTreeSet<u32>, unit: u32| -> BTreeSet<u32> {
                all.iter().map(|at| at % memory.size / unit * unit).collect()
            };
            let numbers = within(&memory.numbers, bytes);
            if !within(&memory.integers, bytes).is_disjoint(&numbers) {
                memory.unclear = true;
            }
            memory.numbers = numbers;
            // Bits of several types in turn are no array of numbers.
            if memory.both || (memory.mixed && memory.size == bytes) {
                *memory = Memory { size: memory.size, ..Memory::default() };
            }
        }
    }
    guesses
}

/// The specification in which all numbers are active.
pub(crate) fn spec(kernel: &str, guesses: &[Guess]) -> Spec {
    let params = guesses.iter().enumerate().map(|(at, guess)| {
        let pointers = guess.pointers.iter().map(|(offset, memory)| Pointer {
            offset: *offset,
            size: memory.size,
            reals: memory
                .real
                .map(|real| if memory.mixed { Reals::Some(real) } else { Reals::All(real) }),
            active: memory.real.is_some() && !guess.passive,
            length: None,
        });
        Param {
            name: format!("p{at}"),
            pointers: pointers.collect(),
            reals: guess.reals.iter().map(|(offset, real)| (*offset, *real)).collect(),
            active: !guess.reals.is_empty() && !guess.passive,
            structure: guess.structure && !guess.pointers.is_empty(),
            ..Param::default()
        }
    });
    Spec { kernel: kernel.to_owned(), params: params.collect() }
}

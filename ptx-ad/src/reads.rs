//! The memory of its kernel that an adjoint loads from and stores to, read from the adjoint's text.
//!
//! The derivation's record of the adjoint's accesses comes from here, so it can't differ from the text. The text is not
//! SSA: each register has the union of the origins of its values.

use std::collections::HashMap;
use std::ops::Range;

use ptx::ir::{
    Base, BinaryOp, Function, Instr, Op, Operand, Place, RegId, Space, Symbol, Type, VarId,
};

use crate::analysis::{Access, Analysis};
use crate::refusal::{Reason, Refusal};

/// Origins of values, a bit for each: first the kernel's pointers, as passed, then the constants below.
type Roots = u128;

/// Pointers from this index on share a bit.
const LAST_POINTER: usize = 119;
/// The address of some parameter, at an unknown offset.
const PARAM: Roots = 1 << 120;
/// A gradient's address. Offsets from it are relative to the kernel's pointers.
const GRADIENT: Roots = 1 << 121;
/// The frame: scratch memory, the status, the log.
const FRAME: Roots = 1 << 122;
/// A variable in local memory.
const LOCAL: Roots = 1 << 123;
/// A number, or a loaded address, which leads to no parameter.
const OTHER: Roots = 1 << 124;
/// The bits of addresses that the kernel has.
const BASES: Roots = (PARAM - 1) | LOCAL;

fn pointer(index: usize) -> Roots {
    1 << index.min(LAST_POINTER)
}

/// Whether an adjoint accesses the memory behind each pointer of its kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) loaded: Vec<bool>,
    pub(crate) stored: Vec<bool>,
}

impl Touched {
    /// Adds the accesses of another text.
    pub(crate) fn also(&mut self, other: &Self) {
        let lists = [(&mut self.loaded, &other.loaded), (&mut self.stored, &other.stored)];
        for (list, more) in lists {
            list.iter_mut().zip(more).for_each(|(place, more)| *place |= more);
        }
    }
}

/// Returns the memory that an adjoint accesses. Its first parameters are those of the kernel, then come
/// `analysis.slots` gradients. `may` is the memory that it may access as far as the kernel shows; an address with
/// several bases may lead to each.
///
/// # Errors
/// Returns a refusal if the adjoint accesses what it may not.
pub(crate) fn touched(
    adjoint: &Function,
    params: usize,
    analysis: &Analysis,
    may: &Touched,
) -> Result<Touched, Refusal> {
    let count = analysis.pointers.iter().count();
    let mut scan = Scan {
        adjoint,
        analysis,
        gradients: params..params.saturating_add(analysis.slots.len()),
        registers: vec![0; adjoint.registers.len()],
        places: HashMap::new(),
        scratch: 0,
        locals: 0,
        touched: Touched { loaded: vec![false; count], stored: vec![false; count] },
        may,
        changed: true,
    };
    while std::mem::take(&mut scan.changed) {
        adjoint.instrs().iter().for_each(|instr| scan.instr(instr));
    }
    let exceeds = |list: &[bool], may: &[bool]| list.iter().zip(may).any(|(is, may)| *is && !may);
    let text = if exceeds(&scan.touched.loaded, &may.loaded) {
        "loads memory that its kernel does not load"
    } else if exceeds(&scan.touched.stored, &may.stored) {
        "stores to memory of its kernel"
    } else {
        return Ok(scan.touched);
    };
    let text = format!("the generated adjoint {text}: report this kernel as a fault of ptx-ad");
    Err(Refusal::new(Reason::Internal, text))
}

struct Scan<'a> {
    adjoint: &'a Function,
    analysis: &'a Analysis,
    /// The gradient parameters. The frame follows.
    gradients: Range<usize>,
    registers: Vec<Roots>,
    /// Registers that hold only the address in a parameter.
    places: HashMap<RegId, Option<(usize, i64)>>,
    /// The origins of values in scratch memory, and in local memory.
    scratch: Roots,
    locals: Roots,
    touched: Touched,
    /// The memory that the adjoint may access as far as the kernel shows.
    may: &'a Touched,
    changed: bool,
}

impl Scan<'_> {
    fn instr(&mut self, instr: &Instr) {
        match &instr.op {
            // The result of a comparison has no origin.
            Op::Setp { .. } | Op::Set { .. } | Op::Isspacep { .. } | Op::Testp { .. } => {}
            Op::Ld { .. } => self.load(instr),
            Op::St { a, .. } => {
                let stored = a.iter().fold(0, |roots, a| roots | self.operand(a));
                self.store(instr, stored);
            }
            Op::Atom { .. } => self.store(instr, 0),
            Op::Binary { op: BinaryOp::Sub, d: Some(d), a, b, .. } => {
                let [a, b] = [a, b].map(|operand| self.operand(operand));
                let same = a & BASES == b & BASES && (a & BASES).is_power_of_two();
                // The distance of two addresses is a number.
                self.define(*d, if same { (a | b) & !BASES | OTHER } else { a | b }, None);
            }
            op => {
                let mut roots = 0;
                instr.for_each_use(|reg| roots |= self.register(reg));
                instr.for_each_place(|place| {
                    if let Place::Symbol(symbol) = place {
                        roots |= self.symbol(*symbol);
                    }
                });
                let place = match op {
                    Op::Mov { a: Operand::Symbol(symbol, offset), .. } if roots == PARAM => {
                        self.param(*symbol).map(|param| (param, *offset))
                    }
                    _ => None,
                };
                instr.for_each_def(|reg| self.define(reg, roots, place));
            }
        }
    }

    fn load(&mut self, instr: &Instr) {
        let Some(access) = Access::of(instr) else { return };
        let base = access.address.base;
        if access.is_param() {
            for (more, value) in access.parts() {
                let Some(reg) = value else { continue };
                let place = access.address.offset.saturating_add(more);
                self.define(reg, self.argument(base, place, access.ty), None);
            }
            return;
        }
        let (roots, mut result) = (self.base(base), OTHER);
        if roots & GRADIENT != 0 {
            // Arithmetic on numbers.
        } else if roots & FRAME != 0 {
            result |= self.scratch;
        } else {
            if access.space == Space::Local || roots & LOCAL != 0 {
                result |= self.locals;
            }
            if roots & PARAM != 0 {
                result |= self.pointers_in(|_| true);
            }
            self.touch(access.space, roots, true);
        }
        access.registers().for_each(|reg| self.define(reg, result, None));
    }

    fn store(&mut self, instr: &Instr, stored: Roots) {
        let Some(access) = Access::of(instr) else { return };
        let roots = self.base(access.address.base);
        // Stores of scratch or local addresses are ignored: loads would seem to return addresses.
        let kept = stored & !(GRADIENT | FRAME);
        let cell = if roots & GRADIENT != 0 {
            return;
        } else if roots & FRAME != 0 {
            &mut self.scratch
        } else {
            self.touch(access.space, roots, false);
            if access.space != Space::Local && roots & LOCAL == 0 {
                return;
            }
            &mut self.locals
        };
        self.changed |= *cell | kept != *cell;
        *cell |= kept;
    }

    /// Returns what lies in a parameter.
    fn argument(&self, base: Base, offset: i64, ty: Type) -> Roots {
        let place = match base {
            Base::Symbol(symbol) => self.param(symbol).map(|param| (param, offset)),
            Base::Reg(reg) => self
                .places
                .get(&reg)
                .copied()
                .flatten()
                .map(|(param, start)| (param, start.saturating_add(offset))),
            Base::Absolute => None,
        };
        let roots = self.base(base);
        let pointers = match place {
            Some((param, at)) => {
                let (at, bytes) = (u64::try_from(at).unwrap_or(0), u64::from(ty.bytes()));
                self.pointers_in(|index| {
                    let Some(known) = self.analysis.pointers.get(index) else { return false };
                    let start = u64::from(known.spec.offset);
                    known.param == param && at < start + 8 && start < at.saturating_add(bytes)
                })
            }
            None if roots & PARAM != 0 => self.pointers_in(|_| true),
            None => 0,
        };
        pointers | roots & !PARAM | OTHER
    }

    fn pointers_in(&self, is_there: impl Fn(usize) -> bool) -> Roots {
        let all = 0..self.touched.loaded.len();
        all.filter(|index| is_there(*index)).fold(0, |roots, index| roots | pointer(index))
    }

    /// Returns the parameter of the kernel that a symbol is.
    fn param(&self, symbol: Symbol) -> Option<usize> {
        let Symbol::Var(VarId(var)) = symbol else { return None };
        Some(var as usize).filter(|var| *var < self.gradients.start)
    }

    fn symbol(&self, symbol: Symbol) -> Roots {
        let Symbol::Var(VarId(var)) = symbol else { return OTHER };
        let var = var as usize;
        if var < self.gradients.start {
            PARAM
        } else if self.gradients.contains(&var) {
            GRADIENT
        } else if var == self.gradients.end {
            FRAME
        } else {
            let space = self.adjoint.variables.get(var).map(|variable| variable.space);
            if space == Some(Space::Local) { LOCAL } else { OTHER }
        }
    }

    fn base(&self, base: Base) -> Roots {
        match base {
            Base::Reg(reg) => self.register(reg),
            Base::Symbol(symbol) => self.symbol(symbol),
            Base::Absolute => 0,
        }
    }

    fn operand(&self, operand: &Operand) -> Roots {
        match operand {
            Operand::Reg(reg) => self.register(*reg),
            Operand::Symbol(symbol, _) => self.symbol(*symbol),
            Operand::Imm(_) | Operand::Special(_) => 0,
        }
    }

    fn register(&self, reg: RegId) -> Roots {
        self.registers.get(reg.index()).copied().unwrap_or(0)
    }

    fn define(&mut self, reg: RegId, roots: Roots, place: Option<(usize, i64)>) {
        match (self.places.get_mut(&reg), place) {
            (Some(known), _) if known.is_some() && *known != place => {
                *known = None;
                self.changed = true;
            }
            (None, Some(_)) => {
                self.places.insert(reg, place);
            }
            _ => {}
        }
        if let Some(known) = self.registers.get_mut(reg.index()) {
            self.changed |= *known | roots != *known;
            *known |= roots;
        }
    }

    /// Records an access by an address with these origins.
    fn touch(&mut self, space: Space, roots: Roots, loads: bool) {
        if !matches!(space, Space::Global | Space::Generic) {
            return;
        }
        let list = if loads { &mut self.touched.loaded } else { &mut self.touched.stored };
        let may = if loads { &self.may.loaded } else { &self.may.stored };
        let only = (roots & BASES).is_power_of_two() && roots & pointer(LAST_POINTER) == 0;
        for (index, (place, may)) in list.iter_mut().zip(may).enumerate() {
            // With several bases, some may be parts of an index. With none, nothing is known.
            *place |= (roots & pointer(index) != 0 && (only || *may)) || roots == 0 && *may;
        }
    }
}

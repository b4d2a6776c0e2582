//! Fuses bare float `mul` and `add` or `sub` into `fma`, as ptxas may.
//!
//! A pair is fused if the product is used once in the whole function, in the same basic block,
//! under the same guard, while the factors still hold what was multiplied. Of a sum of two such
//! products the first is fused.

use ptx::cfg::Cfg;
use ptx::ir::{
    BinaryOp, Dst, Formal, Function, Instr, Mode, Module, Op, Operand, RegId, Role, Rounding, Type,
    UnaryOp,
};

/// Returns the function with its pairs fused; `None` if it has none.
pub(super) fn contract(module: &Module, function: &Function) -> Option<Function> {
    let fusions = find(module, function)?;
    let instrs = function.instrs();
    let mut dead = vec![false; instrs.len()];
    for fusion in fusions.iter().flatten() {
        dead[fusion.product] = true;
    }
    let mut new = function.clone();
    let mut body = Vec::with_capacity(instrs.len());
    // The new index of each instruction, and of the end.
    let mut places = Vec::with_capacity(instrs.len() + 1);
    for (at, instr) in instrs.iter().enumerate() {
        places.push(body.len() as u32);
        match &fusions[at] {
            Some(fusion) => fusion.emit(instr, &mut new.registers, &mut body),
            None if dead[at] => {}
            None => body.push(instr.clone()),
        }
    }
    places.push(body.len() as u32);
    for label in &mut new.labels {
        label.at = places.get(label.at as usize).copied()?;
    }
    new.body = Some(body);
    Some(new)
}

/// The replacement of an `add` or `sub`.
struct Fusion {
    /// The position of the `mul`.
    product: usize,
    ty: Type,
    mode: Mode,
    d: Dst,
    a: Operand,
    b: Operand,
    c: Operand,
    negate: Negate,
}

/// The source of the `fma` that changes its sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Negate {
    Nothing,
    Factor,
    Addend,
}

impl Fusion {
    /// Writes the `fma` in the place of `instr`.
    fn emit(&self, instr: &Instr, registers: &mut Vec<Type>, body: &mut Vec<Instr>) {
        let &Self { ty, mode, d, .. } = self;
        let (mut a, b, mut c) = (self.a, self.b, self.c);
        let source = match self.negate {
            Negate::Nothing => None,
            Negate::Factor => Some(&mut a),
            Negate::Addend => Some(&mut c),
        };
        if let Some(source) = source {
            let fresh = RegId(registers.len() as u32);
            registers.push(ty);
            let (d, a) = (Some(fresh), *source);
            let op = Op::Unary { op: UnaryOp::Neg, ty, mode: Mode::default(), d, a };
            body.push(Instr { op, ..instr.clone() });
            *source = Operand::Reg(fresh);
        }
        body.push(Instr { op: Op::Fma { ty, mode, d, a, b, c }, ..instr.clone() });
    }
}

/// How often registers are read, and where they were written last.
struct Registers {
    uses: Vec<u32>,
    written: Vec<Option<usize>>,
}

impl Registers {
    fn new(function: &Function) -> Self {
        let count = function.registers.len();
        let mut uses = vec![0u32; count];
        let mut count_use = |reg: RegId, times: u32| {
            if let Some(uses) = uses.get_mut(reg.index()) {
                *uses = uses.saturating_add(times);
            }
        };
        for instr in function.instrs() {
            instr.for_each_register(|role, reg| match role {
                Role::Use => count_use(reg, 1),
                Role::Def => {}
                // An unknown role reads the register, perhaps more than once.
                Role::Unknown => count_use(reg, 2),
            });
        }
        // A function's caller reads its results.
        for formal in &function.returns {
            if let Formal::Reg(reg) = formal {
                count_use(*reg, 2);
            }
        }
        Self { uses, written: vec![None; count] }
    }

    fn write(&mut self, instr: &Instr, at: usize) {
        instr.for_each_def(|reg| {
            if let Some(written) = self.written.get_mut(reg.index()) {
                *written = Some(at);
            }
        });
    }

    fn written(&self, reg: RegId) -> Option<usize> {
        self.written.get(reg.index()).copied().flatten()
    }

    /// Returns whether a source has held the same since before the instruction at `at`.
    fn unchanged(&self, operand: &Operand, at: usize) -> bool {
        match operand {
            Operand::Reg(reg) => self.written(*reg).is_none_or(|written| written < at),
            Operand::Imm(_) => true,
            Operand::Special(_) | Operand::Symbol(..) => false,
        }
    }
}

/// Returns the fusion at each instruction; `None` if there are none.
fn find(module: &Module, function: &Function) -> Option<Vec<Option<Fusion>>> {
    let instrs = function.instrs();
    if !instrs.iter().any(|instr| matches!(instr.op, Op::Mul { part: None, .. })) {
        return None;
    }
    let mut registers = Registers::new(function);
    let blocks = Cfg::new(module, function).block_of;
    let mut fusions = Vec::with_capacity(instrs.len());
    for (at, instr) in instrs.iter().enumerate() {
        let fusion = sum(instr).and_then(|(op, a, b)| {
            let first = || fuse(instrs, &registers, &blocks, at, (op, a, b), false);
            let second = || fuse(instrs, &registers, &blocks, at, (op, b, a), true);
            first().or_else(second)
        });
        fusions.push(fusion);
        registers.write(instr, at);
    }
    fusions.iter().any(Option::is_some).then_some(fusions)
}

/// Returns the sources of a bare `add` or `sub`.
fn sum(instr: &Instr) -> Option<(BinaryOp, Operand, Operand)> {
    match &instr.op {
        Op::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub), ty, mode, a, b, .. } => {
            let bare = *mode == Mode { ftz: mode.ftz, sat: mode.sat, ..Mode::default() };
            (bare && fusible(*ty)).then_some((*op, *a, *b))
        }
        _ => None,
    }
}

/// Returns the types of the bare instructions that may be fused.
fn fusible(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64 | Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
}

/// Returns the fusion at `at` with the product in one source, and `c` in the other; `second` says that the
/// product is the second source.
fn fuse(
    instrs: &[Instr],
    registers: &Registers,
    blocks: &[u32],
    at: usize,
    (op, product, c): (BinaryOp, Operand, Operand),
    second: bool,
) -> Option<Fusion> {
    let instr = &instrs[at];
    let Op::Binary { ty, mode, d, .. } = &instr.op else { return None };
    let Operand::Reg(reg) = product else { return None };
    let from = registers.written(reg)?;
    let Instr { guard, op: Op::Mul { ty: of, part: None, mode: how, a, b, .. }, .. } =
        &instrs[from]
    else {
        return None;
    };
    let kept = guard.is_none_or(|guard| registers.unchanged(&Operand::Reg(guard.reg), from));
    let fits = registers.uses.get(reg.index()) == Some(&1)
        && blocks.get(from) == blocks.get(at)
        && *guard == instr.guard
        && kept
        && of == ty
        && *how == Mode { ftz: mode.ftz, ..Mode::default() }
        && registers.unchanged(a, from)
        && registers.unchanged(b, from);
    let negate = match op {
        BinaryOp::Sub if second => Negate::Factor,
        BinaryOp::Sub => Negate::Addend,
        _ => Negate::Nothing,
    };
    let mode = Mode { rounding: Some(Rounding::Rn), ..*mode };
    fits.then_some(Fusion { product: from, ty: *ty, mode, d: *d, a: *a, b: *b, c, negate })
}

//! Fuses bare float `mul` and `add` or `sub` into `fma`, as ptxas may.
//!
//! A pair is fused if the product is used once in the whole function, in the same basic block,
//! under the same guard, while the factors still hold what was multiplied. Of a sum of two such
//! products the first is fused.

use ptx::cfg::Cfg;
use ptx::ir::{
    Access, Address, Base, BinaryOp, Callee, Dst, Formal, Function, Instr, Mma, Mode, Module, Op,
    Operand, Piece, Pred, RegId, Rounding, Type, UnaryOp,
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
    // Where each instruction went, and the end.
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
    fn new(function: &Function) -> Option<Self> {
        let count = function.registers.len();
        let mut uses = vec![0u32; count];
        let mut count_use = |reg: RegId, times: u32| {
            if let Some(uses) = uses.get_mut(reg.index()) {
                *uses = uses.saturating_add(times);
            }
        };
        for instr in function.instrs() {
            let mut visit = Visitor(|reg, access| match access {
                Touch::Read => count_use(reg, 1),
                Touch::Write => {}
                Touch::Unknown => count_use(reg, 2),
            });
            visit.guard(instr);
            visit.op(&instr.op).then_some(())?;
        }
        // A function's caller reads its results.
        for formal in &function.returns {
            if let Formal::Reg(reg) = formal {
                count_use(*reg, 2);
            }
        }
        Some(Self { uses, written: vec![None; count] })
    }

    fn write(&mut self, instr: &Instr, at: usize) {
        let mut visit = Visitor(|reg: RegId, access| {
            if access != Touch::Read
                && let Some(written) = self.written.get_mut(reg.index())
            {
                *written = Some(at);
            }
        });
        visit.op(&instr.op);
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

/// Returns the fusion at each instruction; `None` if there are none, or an instruction is not known.
fn find(module: &Module, function: &Function) -> Option<Vec<Option<Fusion>>> {
    let instrs = function.instrs();
    if !instrs.iter().any(|instr| matches!(instr.op, Op::Mul { part: None, .. })) {
        return None;
    }
    let mut registers = Registers::new(function)?;
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

/// The use of a register by an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Read,
    Write,
    /// Either, or both, and perhaps more than once.
    Unknown,
}

/// Calls a function for each place of an instruction where a register stands.
struct Visitor<F>(F);

impl<F: FnMut(RegId, Touch)> Visitor<F> {
    fn guard(&mut self, instr: &Instr) {
        self.pred(instr.guard.as_ref());
    }

    fn pred(&mut self, pred: Option<&Pred>) {
        if let Some(pred) = pred {
            (self.0)(pred.reg, Touch::Read);
        }
    }

    fn results<'a>(&mut self, results: impl IntoIterator<Item = &'a Dst>) {
        for reg in results.into_iter().flatten() {
            (self.0)(*reg, Touch::Write);
        }
    }

    fn sources<'a>(&mut self, sources: impl IntoIterator<Item = &'a Operand>) {
        for source in sources {
            if let Operand::Reg(reg) = source {
                (self.0)(*reg, Touch::Read);
            }
        }
    }

    fn address(&mut self, address: &Address) {
        if let Base::Reg(reg) = address.base {
            (self.0)(reg, Touch::Read);
        }
    }

    fn access(&mut self, access: &Access, address: &Address) {
        self.sources(&access.policy);
        self.address(address);
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Reg(reg) => (self.0)(*reg, Touch::Unknown),
                Piece::Text(_) | Piece::Symbol(_) => {}
            }
        }
    }

    /// False if the instruction is not known here.
    fn op(&mut self, op: &Op) -> bool {
        match op {
            Op::Unary { d, a, .. }
            | Op::Bfind { d, a, .. }
            | Op::Testp { d, a, .. }
            | Op::Mov { d, a, .. }
            | Op::Cvta { d, a, .. }
            | Op::Isspacep { d, a, .. }
            | Op::MbarrierPending { d, a }
            | Op::Movmatrix { d, a } => {
                self.results([d]);
                self.sources([a]);
            }
            Op::Binary { d, a, b, .. }
            | Op::Mul { d, a, b, .. }
            | Op::Mul24 { d, a, b, .. }
            | Op::Bmsk { d, a, b, .. }
            | Op::Szext { d, a, b, .. } => {
                self.results([d]);
                self.sources([a, b]);
            }
            Op::MinMax3 { d, a, b, c, .. }
            | Op::Mad { d, a, b, c, .. }
            | Op::Fma { d, a, b, c, .. }
            | Op::Mad24 { d, a, b, c, .. }
            | Op::Sad { d, a, b, c, .. }
            | Op::Bfe { d, a, b, c, .. }
            | Op::Dot { d, a, b, c, .. }
            | Op::Lop3 { d, a, b, c, .. }
            | Op::Shf { d, a, b, c, .. }
            | Op::Prmt { d, a, b, c, .. }
            | Op::Video { d, a, b, c, .. }
            | Op::Slct { d, a, b, c, .. }
            | Op::Fns { d, mask: a, base: b, offset: c } => {
                self.results([d]);
                self.sources([a, b, c]);
            }
            Op::Bfi { d, a, b, c, e, .. } => {
                self.results([d]);
                self.sources([a, b, c, e]);
            }
            Op::Carry { d, a, b, c, .. } | Op::CvtPack { d, a, b, c, .. } => {
                self.results([d]);
                self.sources([a, b].into_iter().chain(c));
            }
            Op::Cvt { d, a, b, .. } => {
                self.results([d]);
                self.sources([a].into_iter().chain(b));
            }
            Op::Lop3Bool { d, p, a, b, c, q, .. } => {
                self.results([d, p]);
                self.sources([a, b, c]);
                self.pred(Some(q));
            }
            Op::Setp { combine, p, q, a, b, .. } => {
                self.results([p, q]);
                self.sources([a, b]);
                self.pred(combine.as_ref().map(|(_, pred)| pred));
            }
            Op::Set { combine, d, a, b, .. } => {
                self.results([d]);
                self.sources([a, b]);
                self.pred(combine.as_ref().map(|(_, pred)| pred));
            }
            Op::Selp { d, a, b, p, .. } => {
                self.results([d]);
                self.sources([a, b]);
                self.pred(Some(p));
            }
            Op::Pack { d, a, .. } => {
                self.results([d]);
                self.sources(a);
            }
            Op::Unpack { d, a, .. } => {
                self.results(d);
                self.sources([a]);
            }
            Op::Ld { access, d, addr, .. } => {
                self.results(d);
                self.access(access, addr);
            }
            Op::St { access, addr, a, .. } => {
                self.access(access, addr);
                self.sources(a);
            }
            Op::Prefetch { addr, size, .. } => {
                self.address(addr);
                self.sources(size);
            }
            Op::Atom { access, d, addr, a, c, .. } => {
                self.results(d);
                self.access(access, addr);
                self.sources(a.iter().chain(c));
            }
            Op::Bar { d, barrier, threads, p, .. } => {
                self.results([d]);
                self.sources([barrier].into_iter().chain(threads));
                self.pred(p.as_ref());
            }
            Op::BarWarp { mask: a }
            | Op::Pmevent { a, .. }
            | Op::Nanosleep { a }
            | Op::Stackrestore { a, .. }
            | Op::BrxIdx { index: a, .. } => self.sources([a]),
            Op::Shfl { d, p, a, b, c, mask, .. } => {
                self.results([d, p]);
                self.sources([a, b, c].into_iter().chain(mask));
            }
            Op::Vote { d, p, mask, .. } => {
                self.results([d]);
                self.pred(Some(p));
                self.sources(mask);
            }
            Op::Match { d, p, a, mask, .. } => {
                self.results([d, p]);
                self.sources([a, mask]);
            }
            Op::Redux { d, a, mask, .. } => {
                self.results([d]);
                self.sources([a, mask]);
            }
            Op::Activemask { d } | Op::Stacksave { d, .. } => self.results([d]),
            Op::Elect { d, p, mask } => {
                self.results([d, p]);
                self.sources([mask]);
            }
            Op::Call { callee, returns, args, .. } => {
                if let Callee::Indirect(reg, _) = callee {
                    (self.0)(*reg, Touch::Read);
                }
                for result in returns {
                    if let Operand::Reg(reg) = result {
                        (self.0)(*reg, Touch::Write);
                    }
                }
                self.sources(args);
            }
            Op::Alloca { d, size, .. } => {
                self.results([d]);
                self.sources([size]);
            }
            Op::CpAsync { dst, src, src_size, ignore, policy, .. } => {
                self.address(dst);
                self.address(src);
                self.sources(src_size.iter().chain(policy));
                self.pred(ignore.as_ref());
            }
            Op::CpAsyncArrive { addr, .. } | Op::MbarrierInval { addr, .. } => self.address(addr),
            Op::MbarrierInit { addr, count, .. } | Op::MbarrierTx { addr, count, .. } => {
                self.address(addr);
                self.sources([count]);
            }
            Op::MbarrierArrive { d, addr, count, .. } => {
                self.results([d]);
                self.address(addr);
                self.sources(count);
            }
            Op::MbarrierWait { d, addr, a, limit, .. } => {
                self.results([d]);
                self.address(addr);
                self.sources([a].into_iter().chain(limit));
            }
            Op::Mma(mma) => {
                let Mma { d, a, b, c, .. } = &**mma;
                self.results(d);
                self.sources(a.iter().chain(b).chain(c));
            }
            Op::WmmaLoad { d, addr, stride, .. } => {
                self.results(d);
                self.address(addr);
                self.sources(stride);
            }
            Op::WmmaStore { addr, a, stride, .. } => {
                self.address(addr);
                self.sources(a.iter().chain(stride));
            }
            Op::Ldmatrix { d, addr, .. } => {
                self.results(d);
                self.address(addr);
            }
            Op::Stmatrix { addr, a, .. } => {
                self.address(addr);
                self.sources(a);
            }
            Op::CreatePolicy { d, operands, .. } => {
                self.results([d]);
                self.pieces(operands);
            }
            Op::Other { operands, .. } => self.pieces(operands),
            Op::Fence { .. }
            | Op::Bra { .. }
            | Op::Ret { .. }
            | Op::Exit
            | Op::Trap
            | Op::Brkpt
            | Op::CpAsyncCommit
            | Op::CpAsyncWait { .. }
            | Op::GridDependency { .. } => {}
            _ => return false,
        }
        true
    }
}

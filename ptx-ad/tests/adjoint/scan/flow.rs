//! Follows the instructions of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use ptx::ir::{
    Function, Instr, Module, Op, Operand, Order, RegId, Rounding, Space, Special, Symbol, Type,
    UnaryOp,
};
use ptx_ad::Real;

use super::value::{Cell, Deps, Origin, Place, State, Value, Vars};
use super::{Memory, Taken, Why};

/// What was found so far.
pub(super) struct Flow<'a> {
    pub(super) module: &'a Module,
    pub(super) params: &'a [Memory],
    pub(super) taken: Taken,
    found: BTreeSet<Why>,
    /// A `float` was computed from inputs.
    pub(super) has_singles: bool,
    /// Local memory takes numbers that depend on inputs.
    pub(super) local_numbers: bool,
    pub(super) loaded: BTreeSet<usize>,
    pub(super) stored: BTreeSet<usize>,
    pub(super) added: BTreeSet<usize>,
    /// Parameters that are changed by atomic operations of any kind.
    pub(super) atomic: BTreeSet<usize>,
    /// Parameters that outputs depend on, as a mask, and outputs that depend on any.
    pub(super) reaching: u32,
    pub(super) depending: BTreeSet<usize>,
    /// Calls on the way, and where the instruction stands.
    pub(super) depth: usize,
    pub(super) site: u64,
}

pub(super) fn real(ty: Type) -> Option<Real> {
    match ty {
        Type::F32 => Some(Real::F32),
        Type::F64 => Some(Real::F64),
        _ => None,
    }
}

fn is_integer(ty: Type) -> bool {
    !ty.is_float()
        && ["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"]
            .contains(&ty.name())
}

impl<'a> Flow<'a> {
    pub(super) fn new(module: &'a Module, params: &'a [Memory], taken: Taken) -> Self {
        Self {
            module,
            params,
            taken,
            found: BTreeSet::new(),
            has_singles: false,
            local_numbers: false,
            loaded: BTreeSet::new(),
            stored: BTreeSet::new(),
            added: BTreeSet::new(),
            atomic: BTreeSet::new(),
            reaching: 0,
            depending: BTreeSet::new(),
            depth: 0,
            site: 0,
        }
    }

    /// Returns the reasons for which the kernel is refused.
    pub(super) fn finish(mut self) -> BTreeSet<Why> {
        if self.atomic.iter().any(|index| self.loaded.contains(index)) {
            // What other threads have added by then is not known.
            self.found.insert(Why::MixedAtomics);
        }
        let mut missing = false;
        for (index, memory) in self.params.iter().enumerate() {
            if memory.active.is_none() {
                continue;
            }
            let written = self.stored.contains(&index) || self.added.contains(&index);
            let has_path = if written {
                self.depending.contains(&index)
            } else {
                self.reaching & (1 << index) != 0
            };
            missing |= !has_path;
            if self.added.contains(&index) && self.stored.contains(&index) {
                self.found.insert(Why::MixedAtomics);
            }
        }
        // A path may be missing because of the others.
        if missing && self.found.is_empty() {
            self.found.insert(Why::NoPath);
        }
        self.found
    }

    pub(super) fn refuse(&mut self, why: Why) {
        self.found.insert(why);
    }

    /// Follows a function from its first instruction, and returns its variables where it returns.
    pub(super) fn run(&mut self, function: &Function, vars: Vars, depth: usize) -> Vars {
        if depth > 8 {
            self.refuse(Why::Recursion);
            return vars;
        }
        let count = function.instrs().len();
        let start = State {
            regs: vec![Value::PLAIN; function.registers.len()],
            vars,
            local: BTreeMap::new(),
            stored: BTreeSet::new(),
        };
        let mut before: Vec<Option<State>> = vec![None; count + 1];
        before[0] = Some(start);
        let mut open = BTreeSet::from([0]);
        let mut steps = 0;
        while let Some(at) = open.pop_first() {
            steps += 1;
            assert!(steps < 100_000, "the scan does not come to an end");
            let Some(mut state) = before[at].clone() else { continue };
            let Some(instr) = function.instrs().get(at) else { continue };
            (self.depth, self.site) = (depth, (depth as u64) << 24 | at as u64);
            self.step(function, &mut state, instr);
            for next in self.successors(function, at, instr) {
                let changed = match &mut before[next] {
                    Some(known) => known.join(&state, (depth as u64) << 24 | next as u64),
                    place => {
                        *place = Some(state.clone());
                        true
                    }
                };
                if changed {
                    open.insert(next);
                }
            }
        }
        // All that returns goes to the end.
        before.pop().flatten().map_or_else(Vars::new, |state| state.vars)
    }

    fn successors(&mut self, function: &Function, at: usize, instr: &Instr) -> Vec<usize> {
        let count = function.instrs().len();
        let (targets, falls): (Vec<usize>, bool) = match &instr.op {
            Op::Bra { target, .. } => (vec![function.target(*target)], false),
            Op::BrxIdx { table, .. } => {
                if !self.taken.tables {
                    self.refuse(Why::Unknown);
                }
                let labels = &function.tables[table.index()];
                (labels.iter().map(|&label| function.target(label)).collect(), false)
            }
            Op::Ret { .. } | Op::Exit => (vec![count], false),
            Op::Trap => (Vec::new(), false),
            _ => (Vec::new(), true),
        };
        if targets.iter().any(|&to| to <= at) && !self.taken.loops {
            self.refuse(Why::Loop);
        }
        let next = (falls || instr.guard.is_some()).then_some(at + 1);
        targets.into_iter().chain(next).filter(|&to| to <= count).collect()
    }

    pub(super) fn value(&self, state: &State, operand: &Operand) -> Value {
        match operand {
            Operand::Reg(reg) => state.get(*reg),
            Operand::Symbol(symbol, offset) => {
                Value { address: self.symbol(*symbol, *offset), ..Value::PLAIN }
            }
            Operand::Imm(_) | Operand::Special(_) => Value::PLAIN,
        }
    }

    /// Returns the place of a variable that is not a parameter.
    pub(super) fn symbol(&self, symbol: Symbol, offset: i64) -> Option<Place> {
        match symbol {
            Symbol::Global(id) => {
                let space = self.module.globals[id.index()].space;
                let shared = matches!(space, Space::Shared);
                Some((if shared { Origin::Shared } else { Origin::Constant }, Some(offset)))
            }
            Symbol::Var(_) | Symbol::Function(_) => None,
        }
    }

    /// Reads a number: what it depends on, or why nobody knows. A constant that is read as a number is one from there on.
    fn number(&mut self, state: &mut State, operand: &Operand, of: Real) -> Result<u32, Why> {
        let value = self.value(state, operand);
        if let Operand::Reg(reg) = operand
            && value == Value::PLAIN
        {
            state.regs[reg.index()] = self.made(Ok(0), of);
        }
        if value.loaded_as(of == Real::F64) {
            self.refuse(Why::Type);
        }
        match (of, value.cells) {
            (Real::F32, [cell @ (Cell::Plain | Cell::Single(_) | Cell::Lost(_)), _]) => cell.on(),
            (Real::F32 | Real::F16 | Real::Bf16, [cell, _]) => cell.tainted().map_or(Ok(0), Err),
            (Real::F64, cells) => match value.whole() {
                Some(deps) => Ok(deps.on),
                None => cells.into_iter().find_map(Cell::tainted).map_or(Ok(0), Err),
            },
        }
    }

    fn numbers(&mut self, state: &mut State, operands: &[Operand], of: Real) -> Result<u32, Why> {
        let mut on = Ok(0);
        for operand in operands {
            let more = self.number(state, operand, of);
            on = on.and_then(|on| more.map(|more| on | more));
        }
        on
    }

    /// Returns the reason for which what is computed from the bits of operands is lost.
    pub(super) fn tainted(&self, state: &State, instr: &Instr) -> Option<Why> {
        let mut why = None;
        instr.for_each_use(|reg| {
            why = why.or(state.get(reg).cells.into_iter().find_map(Cell::tainted));
        });
        why
    }

    pub(super) fn made(&mut self, on: Result<u32, Why>, of: Real) -> Value {
        match on {
            Err(why) => Value::lost(why),
            Ok(on) => {
                let deps = Deps { on, loaded: false };
                match of {
                    Real::F32 | Real::F16 | Real::Bf16 => {
                        self.has_singles |= on != 0;
                        Value::low(Cell::Single(deps))
                    }
                    Real::F64 => Value::double(self.site << 20 | 1 << 18, deps),
                }
            }
        }
    }

    fn write(&self, state: &mut State, instr: &Instr, reg: Option<RegId>, value: Value) {
        let Some(reg) = reg else { return };
        let place = &mut state.regs[reg.index()];
        *place = match instr.guard {
            Some(_) => place.join(&value, self.site << 20 | u64::from(reg.0)),
            None => value,
        };
    }

    pub(super) fn write_all(&self, state: &mut State, instr: &Instr, value: Value) {
        let mut results = Vec::new();
        instr.for_each_def(|reg| results.push(reg));
        results.into_iter().for_each(|reg| self.write(state, instr, Some(reg), value));
    }

    #[allow(clippy::too_many_lines, reason = "a table of instructions")]
    fn step(&mut self, function: &Function, state: &mut State, instr: &Instr) {
        let mut atomic = false;
        instr.for_each_use(|reg| {
            atomic |= state.get(reg).cells.contains(&Cell::Lost(Why::AtomicResult));
        });
        if atomic {
            self.refuse(Why::AtomicResult);
        }
        let lost = |why: Option<Why>, reason: Why| match why {
            Some(Why::Bits) => Value::lost(reason),
            Some(why) => Value::lost(why),
            None => Value::PLAIN,
        };
        match &instr.op {
            Op::Unary { ty, d, a, op, .. } if ty.is_float() => {
                let known = !matches!(op, UnaryOp::Not | UnaryOp::Cnot);
                assert!(known, "{op:?} of floats");
                self.arithmetic(state, instr, *ty, *d, &[*a]);
            }
            Op::Binary { ty, d, a, b, mode, .. } if ty.is_float() => {
                if mode.xorsign_abs {
                    let value = lost(self.tainted(state, instr), Why::Unknown);
                    self.write(state, instr, *d, value);
                } else {
                    self.arithmetic(state, instr, *ty, *d, &[*a, *b]);
                }
            }
            Op::Mul { ty, d, a, b, part: None, .. } => {
                self.arithmetic(state, instr, *ty, *d, &[*a, *b]);
            }
            Op::MinMax3 { ty, d, a, b, c, .. }
            | Op::Fma { ty, d, a, b, c, .. }
            | Op::Mad { ty, d, a, b, c, part: None, .. }
                if ty.is_float() =>
            {
                self.arithmetic(state, instr, *ty, *d, &[*a, *b, *c]);
            }
            Op::Cvt { to, from, rounding, d, a, b, .. } => {
                let integral = matches!(
                    rounding,
                    Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi)
                );
                let value = match (real(*to), real(*from)) {
                    (to, Some(from)) if b.is_none() && (integral || to.is_some()) => {
                        let on = self.number(state, a, from);
                        match to {
                            Some(to) => self.made(if integral { Ok(0) } else { on }, to),
                            None => Value::PLAIN,
                        }
                    }
                    (None, Some(from)) if b.is_none() && is_integer(*to) => {
                        // Without a rounding it is one to integers all the same.
                        let _ = self.number(state, a, from);
                        Value::PLAIN
                    }
                    (to, None) if is_integer(*from) => match (self.tainted(state, instr), to) {
                        (Some(why), _) => Value::lost(why),
                        (None, Some(to)) => self.made(Ok(0), to),
                        (None, None) => Value::PLAIN,
                    },
                    // 16-bit floats, and less.
                    (to, _) => match (self.tainted(state, instr), to) {
                        (None, Some(to)) => self.made(Ok(0), to),
                        (why, _) => lost(why, Why::Half),
                    },
                };
                self.write(state, instr, *d, value);
            }
            Op::Mov { d, a: Operand::Symbol(Symbol::Var(var), offset), .. } => {
                let space = function.variables[var.index()].space;
                let origin = if space == Space::Local { Origin::Local } else { Origin::Shared };
                let value = Value { address: Some((origin, Some(*offset))), ..Value::PLAIN };
                self.write(state, instr, *d, value);
            }
            Op::Mov { ty, d, a } => {
                if let Operand::Special(special) = a {
                    self.special(*special);
                }
                let mut value = self.value(state, a);
                if let Some(of) = real(*ty) {
                    let on = self.number(state, a, of);
                    if value.whole().is_none()
                        || of == Real::F32 && !matches!(value.cells[0], Cell::Single(_))
                    {
                        value = self.made(on, of);
                    }
                }
                self.write(state, instr, *d, value);
            }
            Op::Selp { ty, d, a, b, .. } | Op::Slct { ty, d, a, b, .. } => {
                if let Op::Slct { c, c_ty, .. } = &instr.op
                    && let Some(of) = real(*c_ty)
                {
                    let _ = self.number(state, c, of);
                }
                if let Some(of) = real(*ty) {
                    let _ = self.numbers(state, &[*a, *b], of);
                }
                let [a, b] = [a, b].map(|operand| self.value(state, operand));
                self.write(state, instr, *d, a.join(&b, self.site << 20 | 1 << 17));
            }
            Op::Pack { ty, d, a } if ty.bits() == 64 && a.len() == 2 => {
                let [low, high] = [0, 1].map(|half| self.value(state, &a[half]).cells[0]);
                let value = Value { cells: [low, high], address: None };
                self.write(state, instr, *d, value);
            }
            Op::Unpack { ty, d, a } if ty.bits() == 64 && d.len() == 2 => {
                let value = self.value(state, a);
                for (d, cell) in d.iter().zip(value.cells) {
                    self.write(state, instr, *d, Value::low(cell));
                }
            }
            Op::Setp { ty, a, b, .. } | Op::Set { ty, a, b, .. } => {
                if let Some(of) = real(*ty) {
                    let _ = self.numbers(state, &[*a, *b], of);
                }
                self.write_all(state, instr, Value::PLAIN);
            }
            Op::Testp { ty, a, .. } => {
                if let Some(of) = real(*ty) {
                    let _ = self.number(state, a, of);
                }
                self.write_all(state, instr, Value::PLAIN);
            }
            Op::Cvta { d, a, .. } => {
                let value = self.value(state, a);
                self.write(state, instr, *d, value);
            }
            Op::Ld { kind, access, ty, d, addr } => {
                self.ordered(access.space, access.order);
                let parts = self.load(function, state, access.space, *kind, *ty, d.len(), addr);
                for (d, value) in d.iter().zip(parts) {
                    let constant = real(*ty).filter(|_| value == Value::PLAIN);
                    let value = constant.map_or(value, |of| self.made(Ok(0), of));
                    self.write(state, instr, *d, value);
                }
            }
            Op::St { access, ty, addr, a } => {
                self.ordered(access.space, access.order);
                if let Some(of) = real(*ty) {
                    let _ = self.numbers(state, a, of);
                }
                let parts: Vec<Value> = a.iter().map(|a| self.value(state, a)).collect();
                self.store(function, state, access.space, *ty, addr, &parts, instr.guard.is_some());
            }
            Op::Atom { op, access, ty, d, addr, a, .. } => {
                if let Some(of) = real(*ty) {
                    let _ = self.numbers(state, a, of);
                }
                let parts: Vec<Value> = a.iter().map(|a| self.value(state, a)).collect();
                self.atomic(function, state, access.space, *op, *ty, addr, &parts);
                for d in d {
                    self.write(state, instr, *d, Value::lost(Why::AtomicResult));
                }
            }
            Op::Shfl { .. } | Op::Redux { .. } => {
                let value = lost(self.tainted(state, instr), Why::Warp);
                self.write_all(state, instr, value);
            }
            Op::Isspacep { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Activemask { .. }
            | Op::Elect { .. } => {
                self.write_all(state, instr, Value::PLAIN);
            }
            Op::Call { callee, returns, args, .. } => self.call(state, *callee, returns, args),
            Op::Bar { .. } | Op::BarWarp { .. } => self.refuse(Why::Barrier),
            Op::Alloca { .. } | Op::Stacksave { .. } | Op::Stackrestore { .. } => {
                self.refuse(Why::Local);
            }
            Op::CpAsync { .. }
            | Op::CpAsyncCommit
            | Op::CpAsyncWait { .. }
            | Op::CpAsyncArrive { .. }
            | Op::MbarrierInit { .. }
            | Op::MbarrierInval { .. }
            | Op::MbarrierArrive { .. }
            | Op::MbarrierWait { .. }
            | Op::MbarrierTx { .. }
            | Op::MbarrierPending { .. } => self.refuse(Why::Async),
            Op::Mma(_)
            | Op::WmmaLoad { .. }
            | Op::WmmaStore { .. }
            | Op::Ldmatrix { .. }
            | Op::Stmatrix { .. }
            | Op::Movmatrix { .. } => self.refuse(Why::Matrix),
            Op::Other { opcode, .. } => {
                let texture = ["tex", "tld", "txq", "sul", "sus", "sur", "suq"];
                let is_texture = texture.iter().any(|word| opcode.starts_with(word));
                self.refuse(if is_texture { Why::Texture } else { Why::Unknown });
            }
            _ => self.integer(state, instr),
        }
    }

    /// An instruction on real numbers.
    fn arithmetic(
        &mut self,
        state: &mut State,
        instr: &Instr,
        ty: Type,
        d: Option<RegId>,
        args: &[Operand],
    ) {
        let value = match real(ty) {
            Some(of) => {
                let on = self.numbers(state, args, of);
                self.made(on, of)
            }
            None => match self.tainted(state, instr) {
                Some(Why::Bits) => Value::lost(Why::Half),
                Some(why) => Value::lost(why),
                None => Value::PLAIN,
            },
        };
        self.write(state, instr, d, value);
    }

    /// Clocks and the like differ from run to run.
    fn special(&mut self, special: Special) {
        let name = special.to_string();
        if ["clock", "timer", "%smid", "%warpid", "%gridid", "%pm"]
            .iter()
            .any(|part| name.contains(part))
        {
            self.refuse(Why::Unknown);
        }
    }

    fn ordered(&mut self, space: Space, order: Order) {
        if order != Order::Weak && matches!(space, Space::Global | Space::Generic) {
            self.refuse(Why::Volatile);
        }
    }
}

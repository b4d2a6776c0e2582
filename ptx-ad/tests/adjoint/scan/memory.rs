//! Loads, stores, atomic operations and calls.

use ptx::ir::{
    Address, AtomOp, Base, Callee, Formal, Function, LdKind, Operand, Space, Symbol, Type, VarId,
};
use ptx_ad::Real;

use super::Why;
use super::flow::{Flow, real};
use super::value::{Cell, Deps, Origin, Place, State, Value, Vars};

/// What an address leads to.
enum Target {
    /// A parameter of the kernel itself.
    Formal(usize),
    /// A parameter of a function, or of a call.
    Var(VarId, i64),
    Memory(Place),
    Unknown,
}

impl Flow<'_> {
    fn target(&self, function: &Function, state: &State, space: Space, addr: &Address) -> Target {
        let formal = |var: VarId| function.params.iter().position(|at| *at == Formal::Var(var));
        let offset = |(origin, at): Place| (origin, at.map(|at| at + addr.offset));
        match addr.base {
            Base::Symbol(Symbol::Var(var)) => match function.variables[var.index()].space {
                Space::Local => Target::Memory((Origin::Local, Some(addr.offset))),
                Space::Shared => Target::Memory((Origin::Shared, None)),
                _ => match formal(var).filter(|_| self.depth == 0) {
                    Some(index) => Target::Formal(index),
                    None => Target::Var(var, addr.offset),
                },
            },
            Base::Symbol(symbol) => {
                self.symbol(symbol, addr.offset).map_or(Target::Unknown, Target::Memory)
            }
            Base::Reg(reg) => {
                let place = state.get(reg).address;
                place.map_or(Target::Unknown, |place| Target::Memory(offset(place)))
            }
            Base::Absolute => match space {
                Space::Shared => Target::Memory((Origin::Shared, None)),
                _ => Target::Unknown,
            },
        }
    }

    /// Returns what each part of a load gets.
    #[allow(clippy::too_many_arguments, reason = "a load has that many parts")]
    pub(super) fn load(
        &mut self,
        function: &Function,
        state: &State,
        space: Space,
        kind: LdKind,
        ty: Type,
        count: usize,
        addr: &Address,
    ) -> Vec<Value> {
        let target = self.target(function, state, space, addr);
        let bytes = i64::from(ty.bytes());
        let cells = |each: &dyn Fn(i64) -> Cell| {
            let part = |at: i64| match bytes {
                8 => Value { cells: [each(at * 8), each(at * 8 + 4)], address: None },
                _ => Value::low(each(at * bytes)),
            };
            (0..count as i64).map(part).collect::<Vec<_>>()
        };
        match target {
            Target::Formal(index) => {
                let address = (ty.bits() == 64).then_some((Origin::Param(index), Some(0)));
                vec![Value { address, ..Value::PLAIN }; count]
            }
            Target::Var(var, at) => cells(&|more| {
                state.vars.get(&(var, (at + more) / 4)).copied().unwrap_or(Cell::Plain)
            }),
            Target::Unknown => vec![Value::lost(Why::PointerInMemory); count],
            Target::Memory((Origin::Constant, _)) => vec![Value::PLAIN; count],
            Target::Memory((Origin::Shared, _)) => {
                self.refuse(Why::Shared);
                vec![Value::PLAIN; count]
            }
            Target::Memory((Origin::Local, _)) if !self.taken.local => {
                let lost = if self.local_numbers { Cell::Lost(Why::Local) } else { Cell::Plain };
                cells(&|_| lost)
            }
            Target::Memory((Origin::Local, at)) => {
                let known = |at: i64| {
                    let cell = state.local.get(&(at / 4)).copied().unwrap_or(Cell::Plain);
                    match cell.tainted().filter(|_| bytes < 4) {
                        Some(why) => Cell::Lost(why),
                        None => cell,
                    }
                };
                let any = || state.local.values().find_map(|cell| cell.tainted());
                cells(&|more| match at {
                    Some(at) => known(at + more),
                    None => any().map_or(Cell::Plain, Cell::Lost),
                })
            }
            Target::Memory((Origin::Param(index), at)) => {
                if state.stored.contains(&index)
                    && kind != LdKind::NonCoherent
                    && !self.taken.reloads
                {
                    self.refuse(Why::Reload);
                }
                self.loaded.insert(index);
                let Some(of) = self.params[index].active else { return vec![Value::PLAIN; count] };
                if real(ty).is_some_and(|ty| ty != of) {
                    self.refuse(Why::Type);
                }
                let deps = Deps { on: 1 << index, loaded: true };
                let site = self.site << 20 | 1 << 16;
                cells(&|more| match (of, at) {
                    _ if bytes < 4 => Cell::Lost(Why::Bits),
                    (Real::F32 | Real::F16 | Real::Bf16, _) => Cell::Single(deps),
                    (Real::F64, Some(at)) => {
                        let at = at + more;
                        let of = site | at.div_euclid(8).unsigned_abs();
                        Cell::Part { high: at.rem_euclid(8) == 4, of, deps }
                    }
                    (Real::F64, None) if bytes == 8 => Cell::Part {
                        high: more % 8 == 4,
                        of: site | (more / 8).unsigned_abs(),
                        deps,
                    },
                    (Real::F64, None) => Cell::Lost(Why::Bits),
                })
            }
        }
    }

    /// Takes note that an output of the kernel depends on parameters.
    fn output(&mut self, index: usize, on: Result<u32, Why>) {
        match on {
            Err(why) => self.refuse(why),
            Ok(0) => {}
            Ok(on) => {
                self.reaching |= on;
                self.depending.insert(index);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a store has that many parts")]
    pub(super) fn store(
        &mut self,
        function: &Function,
        state: &mut State,
        space: Space,
        ty: Type,
        addr: &Address,
        parts: &[Value],
        guarded: bool,
    ) {
        let target = self.target(function, state, space, addr);
        let bytes = i64::from(ty.bytes());
        let cells = parts.iter().zip(0i64..).flat_map(|(value, at)| match bytes {
            8 => vec![(at * 8, value.cells[0]), (at * 8 + 4, value.cells[1])],
            _ => vec![(at * bytes, value.cells[0])],
        });
        let cells: Vec<(i64, Cell)> = cells.collect();
        let tainted = cells.iter().find_map(|(_, cell)| cell.tainted());
        match target {
            Target::Var(var, at) => {
                for (more, cell) in cells {
                    state.vars.insert((var, (at + more) / 4), cell);
                }
            }
            Target::Formal(_) => {}
            Target::Unknown => tainted.into_iter().for_each(|_| self.refuse(Why::PointerInMemory)),
            Target::Memory((Origin::Constant, _)) => self.refuse(Why::ModuleGlobal),
            Target::Memory((Origin::Shared, _)) => self.refuse(Why::Shared),
            Target::Memory((Origin::Local, at)) => {
                self.local_numbers |= tainted.is_some();
                let Some(at) = at else {
                    // It may be anywhere.
                    state.local.values_mut().for_each(|cell| {
                        if let Some(why) = cell.tainted().or(tainted) {
                            *cell = Cell::Lost(why);
                        }
                    });
                    return;
                };
                for (more, cell) in cells {
                    let place = state.local.entry((at + more) / 4).or_insert(Cell::Plain);
                    let before = Value::low(*place);
                    *place = match (bytes < 4, guarded) {
                        (true, _) => {
                            let why = place.tainted().or(cell.tainted());
                            why.map_or(Cell::Plain, Cell::Lost)
                        }
                        (_, true) => {
                            let name = self.site << 20 | 1 << 15 | more.unsigned_abs();
                            before.join(&Value::low(cell), name).cells[0]
                        }
                        _ => cell,
                    };
                }
            }
            Target::Memory((Origin::Param(index), _)) => {
                state.stored.insert(index);
                self.stored.insert(index);
                if let Some(of) = self.params[index].active {
                    self.store_numbers(index, of, ty, parts);
                }
            }
        }
    }

    fn store_numbers(&mut self, index: usize, of: Real, ty: Type, parts: &[Value]) {
        if real(ty).is_some_and(|ty| ty != of) {
            return self.refuse(Why::Type);
        }
        if ty.bytes() < of.bytes() {
            return self.refuse(Why::Bits);
        }
        for value in parts {
            let cells = if ty.bytes() == 8 { &value.cells[..] } else { &value.cells[..1] };
            if of == Real::F64 {
                if cells.iter().any(|cell| matches!(cell, Cell::Single(_))) {
                    self.refuse(Why::Type);
                }
                let on = match value.whole() {
                    Some(deps) => Ok(deps.on),
                    None => cells.iter().find_map(|cell| cell.tainted()).map_or(Ok(0), Err),
                };
                self.output(index, on);
                continue;
            }
            for cell in cells {
                if matches!(cell, Cell::Part { .. }) {
                    self.refuse(Why::Type);
                }
                self.output(index, cell.on());
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "an atomic operation has that many parts")]
    pub(super) fn atomic(
        &mut self,
        function: &Function,
        state: &mut State,
        space: Space,
        op: AtomOp,
        ty: Type,
        addr: &Address,
        parts: &[Value],
    ) {
        match self.target(function, state, space, addr) {
            Target::Memory((Origin::Shared, _)) => self.refuse(Why::Shared),
            Target::Memory((Origin::Param(index), _)) => {
                state.stored.insert(index);
                self.atomic.insert(index);
                let Some(of) = self.params[index].active else { return };
                match (op == AtomOp::Add, real(ty)) {
                    (true, Some(ty)) if ty == of => {
                        self.added.insert(index);
                        for value in parts {
                            let on = match of {
                                Real::F32 | Real::F16 | Real::Bf16 => value.cells[0].on(),
                                Real::F64 => {
                                    value.whole().map_or(Err(Why::Bits), |deps| Ok(deps.on))
                                }
                            };
                            self.output(index, on);
                        }
                    }
                    (true, Some(_)) => self.refuse(Why::Type),
                    (true, None) if ty.is_float() => self.refuse(Why::Half),
                    _ => self.refuse(Why::AtomicOther),
                }
            }
            _ => {}
        }
    }

    pub(super) fn call(
        &mut self,
        state: &mut State,
        callee: Callee,
        returns: &[Operand],
        args: &[Operand],
    ) {
        let Callee::Function(id) = callee else { return self.refuse(Why::Indirect) };
        let function = &self.module.functions[id.index()];
        if matches!(&*function.name, "vprintf" | "__assertfail") {
            return;
        }
        if function.body.is_none() {
            return self.refuse(Why::Call);
        }
        let var = |operand: &Operand| match operand {
            Operand::Symbol(Symbol::Var(var), _) => Some(*var),
            _ => None,
        };
        let formals = |list: &[Formal]| {
            let of = |formal: &Formal| match formal {
                Formal::Var(var) => Some(*var),
                Formal::Reg(_) => None,
            };
            list.iter().map(of).collect::<Vec<_>>()
        };
        let copy = |from: &Vars, of: Option<VarId>, to: Option<VarId>| -> Vars {
            let (Some(of), Some(to)) = (of, to) else { return Vars::new() };
            let each = from.iter().filter(|((var, _), _)| *var == of);
            each.map(|((_, at), cell)| ((to, *at), *cell)).collect()
        };
        let mut inner = Vars::new();
        for (arg, formal) in args.iter().zip(formals(&function.params)) {
            inner.extend(copy(&state.vars, var(arg), formal));
        }
        let (depth, site) = (self.depth, self.site);
        let after = self.run(function, inner, depth + 1);
        (self.depth, self.site) = (depth, site);
        for (operand, formal) in returns.iter().zip(formals(&function.returns)) {
            state.vars.extend(copy(&after, formal, var(operand)));
        }
    }
}

//! Callees in the places of calls. Their parameters and the caller's arguments are one variable afterwards, which
//! `params` then replaces.

use std::collections::{HashMap, HashSet};

use super::{Defined, Flat, InlineError, MOST_PARTS, params};
use crate::ir::{
    Access, Address, Base, Formal, Function, Instr, LabelId, LdKind, LocId, Module, Names, Op,
    Operand, Order, Place, PlaceMut, Pred, PrototypeId, RegId, Space, Symbol, TableId, Type, VarId,
    Variable,
};
use crate::simplify::{Edit, Origin, copy, single_exit};

/// Returns function number `number` with its calls inlined, of which all callees are in `flat`. A callee, which is not
/// the `root`, has at most one `ret` then, which is its last instruction.
pub(super) fn splice(
    module: &Module,
    defined: &Defined<'_>,
    number: usize,
    function: &Function,
    flat: &HashMap<usize, Flat>,
    root: bool,
) -> Result<Flat, InlineError> {
    let function = if root { function.clone() } else { single_exit(module, function) };
    let mut allocates = function.instrs().iter().any(|i| matches!(i.op, Op::Alloca { .. }));
    if !function.instrs().iter().any(|instr| defined.callee(&instr.op).is_some()) {
        return Ok(Flat { function, shared: HashMap::new(), allocates });
    }
    let mut size = size_of(&function);
    for instr in function.instrs() {
        let Some(callee) = defined.callee(&instr.op).and_then(|at| flat.get(&at)) else { continue };
        size = size.saturating_add(size_of(&callee.function));
        allocates |= callee.allocates;
    }
    if size > MOST_PARTS {
        return Err(InlineError::TooLarge { name: function.name });
    }
    let (edit, old) = Edit::new(module, &function);
    let mut shared = HashMap::new();
    for (at, variable) in (0u32..).zip(&function.variables) {
        if is_shared(variable.space) {
            shared.insert((number, VarId(at)), VarId(at));
        }
    }
    let mut arguments = HashMap::new();
    for instr in &old {
        if let Op::Call { args, .. } = &instr.op {
            for arg in args {
                if let Operand::Symbol(Symbol::Var(id), _) = arg {
                    *arguments.entry(*id).or_insert(0) += 1;
                }
            }
        }
    }
    let mut splicer = Splicer { module, edit, shared, arguments };
    let end = old.len();
    for (at, instr) in old.into_iter().enumerate() {
        splicer.edit.begin(at);
        match defined.callee(&instr.op).and_then(|at| Some((at, flat.get(&at)?))) {
            Some((callee, flat)) => splicer.call(callee, flat, &instr)?,
            None => splicer.edit.push(instr),
        }
    }
    let Splicer { mut edit, shared, .. } = splicer;
    edit.begin(end);
    let shared = shared.into_iter().map(|(origin, at)| (at, origin)).collect();
    let (function, shared) = params::replace(module, edit.finish(), shared);
    Ok(Flat { function, shared, allocates })
}

/// Returns how many parts a function has that each copy of it repeats.
fn size_of(function: &Function) -> usize {
    let tables: usize = function.tables.iter().map(Vec::len).sum();
    let names = function.labels.len() + function.variables.len() + function.prototypes.len();
    function.instrs().len() + function.registers.len() + function.locs.len() + tables + names
}

fn is_shared(space: Space) -> bool {
    matches!(space, Space::Shared | Space::SharedCta | Space::SharedCluster)
}

struct Splicer<'m> {
    module: &'m Module,
    edit: Edit,
    /// The instances of shared variables, by the function that declares them.
    shared: HashMap<(usize, VarId), VarId>,
    /// How many arguments of calls each variable is.
    arguments: HashMap<VarId, u32>,
}

/// The positions of the callee's tables in the caller's.
struct Map {
    /// Numbers that are added.
    registers: u32,
    labels: u32,
    tables: u32,
    prototypes: u32,
    locs: u32,
    variables: HashMap<VarId, VarId>,
}

impl Map {
    fn register(&self, reg: RegId) -> RegId {
        RegId(self.registers.saturating_add(reg.0))
    }
}

impl Splicer<'_> {
    /// Writes the body of function number `number` in the place of `call`.
    fn call(&mut self, number: usize, flat: &Flat, call: &Instr) -> Result<(), InlineError> {
        let Op::Call { returns, args, .. } = &call.op else { return Ok(()) };
        let (callee, origin) = (&flat.function, Origin::of(call));
        let mismatch = || InlineError::Mismatch { name: callee.name.clone(), line: call.line };
        // A result that is also an argument would be overwritten while it is read.
        let symbol = |operand: &&Operand| matches!(operand, Operand::Symbol(..));
        let overlap = returns.iter().filter(symbol).any(|result| args.contains(result));
        let counts = (args.len(), returns.len()) == (callee.params.len(), callee.returns.len());
        if !counts || overlap {
            return Err(mismatch());
        }
        let shared = |arg: &Operand| match arg {
            Operand::Symbol(Symbol::Var(id), _) => self.arguments.get(id).is_some_and(|&n| n > 1),
            _ => false,
        };
        if writes_parameter(callee, args.iter().any(shared)) {
            return Err(InlineError::WritesParameter {
                name: callee.name.clone(),
                line: call.line,
            });
        }
        let end = call.guard.map(|pred| {
            let end = self.edit.label("call");
            let otherwise = Pred { negated: !pred.negated, ..pred };
            self.edit.branch(Some(otherwise), end, origin);
            end
        });
        let mut map = self.map(number, flat, call.line)?;
        for (formal, &arg) in callee.params.iter().zip(args) {
            match *formal {
                Formal::Var(formal) => {
                    let variable = self.variable(callee, formal, arg).ok_or_else(mismatch)?;
                    map.variables.insert(formal, variable);
                    if !matches!(arg, Operand::Symbol(..)) {
                        let ty = scalar(callee, formal).ok_or_else(mismatch)?;
                        self.store(variable, ty, arg, origin);
                    }
                }
                Formal::Reg(formal) => {
                    self.receive(map.register(formal), arg, origin).ok_or_else(mismatch)?;
                }
            }
        }
        for (formal, &result) in callee.returns.iter().zip(returns) {
            if let Formal::Var(formal) = *formal {
                let variable = self.variable(callee, formal, result).ok_or_else(mismatch)?;
                map.variables.insert(formal, variable);
            }
        }
        let saved = flat.allocates.then(|| self.save_stack(origin));
        self.body(callee, &map);
        if let Some((ty, saved)) = saved {
            self.push(Op::Stackrestore { ty, a: Operand::Reg(saved) }, origin);
        }
        for (&result, formal) in returns.iter().zip(&callee.returns) {
            match (result, *formal) {
                (Operand::Symbol(..), Formal::Var(_)) => {}
                (Operand::Reg(to), Formal::Var(from)) => {
                    let ty = scalar(callee, from).ok_or_else(mismatch)?;
                    let from = map.variables.get(&from).copied().ok_or_else(mismatch)?;
                    self.load(to, ty, from, origin);
                }
                (Operand::Symbol(Symbol::Var(to), 0), Formal::Reg(from)) => {
                    let from = map.register(from);
                    let ty = self.bits(from).ok_or_else(mismatch)?;
                    let variable = self.edit.function.variables.get(to.index());
                    variable.filter(|v| v.size() == ty.bytes().into()).ok_or_else(mismatch)?;
                    self.store(to, ty, Operand::Reg(from), origin);
                }
                (Operand::Reg(to), Formal::Reg(from)) => {
                    let from = Operand::Reg(map.register(from));
                    self.receive(to, from, origin).ok_or_else(mismatch)?;
                }
                _ => return Err(mismatch()),
            }
        }
        if let Some(end) = end {
            self.edit.place(end);
        }
        Ok(())
    }

    fn push(&mut self, op: Op, origin: Origin) {
        let Origin { line, loc } = origin;
        self.edit.push(Instr { guard: None, op, line, loc });
    }

    /// Returns the type of bits that a register has.
    fn bits(&self, reg: RegId) -> Option<Type> {
        self.edit.function.registers.get(reg.index()).copied()
    }

    /// Adds what the callee has to the caller: registers, labels, tables, prototypes, places in the source, and the
    /// variables that are no parameters.
    fn map(&mut self, number: usize, flat: &Flat, line: u32) -> Result<Map, InlineError> {
        let callee = &flat.function;
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let Edit { function, names, .. } = &mut self.edit;
        let mut map = Map {
            registers: count(function.registers.len()),
            labels: count(function.labels.len()),
            tables: count(function.tables.len()),
            prototypes: count(function.prototypes.len()),
            locs: count(function.locs.len()),
            variables: HashMap::new(),
        };
        function.registers.extend(&callee.registers);
        function.locs.extend(callee.locs.iter().cloned());
        for label in &callee.labels {
            function.fresh_label(names, &label.name, usize::MAX);
        }
        for table in &callee.tables {
            let moved = |label: &LabelId| LabelId(map.labels.saturating_add(label.0));
            function.tables.push(table.iter().map(moved).collect());
        }
        for prototype in &callee.prototypes {
            let mut prototype = prototype.clone();
            prototype.name = names.fresh(&prototype.name);
            function.prototypes.push(prototype);
        }
        let formals: HashSet<VarId> = formals(callee).collect();
        for (at, variable) in (0u32..).zip(&callee.variables) {
            let at = VarId(at);
            if formals.contains(&at) {
                continue;
            }
            let add = |function: &mut Function, names: &mut Names| {
                let name = names.fresh(&variable.name);
                function.add_variable(Variable { name, ..variable.clone() })
            };
            let new = if is_shared(variable.space) {
                let origin = flat.shared.get(&at).copied().unwrap_or((number, at));
                *self.shared.entry(origin).or_insert_with(|| add(function, names))
            } else if matches!(variable.space, Space::Global | Space::Const) {
                let (name, variable) = (callee.name.clone(), variable.name.clone());
                return Err(InlineError::SharedVariable { name, variable, line });
            } else {
                add(function, names)
            };
            map.variables.insert(at, new);
        }
        Ok(map)
    }

    /// Returns the variable of the caller that takes the place of a parameter or result: the one that the call names,
    /// or a new one. `None` if it does not fit.
    fn variable(&mut self, callee: &Function, formal: VarId, actual: Operand) -> Option<VarId> {
        let variable = callee.variables.get(formal.index())?;
        match actual {
            Operand::Symbol(Symbol::Var(id), 0) => {
                let given = self.edit.function.variables.get(id.index())?;
                let fits = given.size() == variable.size()
                    && given.align >= variable.align
                    && !variable.unsized_array
                    && matches!(given.space, Space::Param | Space::ParamFunc);
                (fits && !formals(&self.edit.function).any(|formal| formal == id)).then_some(id)
            }
            Operand::Symbol(..) => None,
            Operand::Reg(_) | Operand::Imm(_) | Operand::Special(_) => {
                let name = self.edit.names.fresh(&variable.name);
                let (space, ptr) = (Space::Param, None);
                let new = Variable { name, space, ptr, ..variable.clone() };
                Some(self.edit.function.add_variable(new))
            }
        }
    }

    fn store(&mut self, to: VarId, ty: Type, a: Operand, origin: Origin) {
        let (access, addr) = param(to);
        self.push(Op::St { access, ty, addr, a: Box::new([a]) }, origin);
    }

    fn load(&mut self, to: RegId, ty: Type, from: VarId, origin: Origin) {
        let (access, addr) = param(from);
        let d = Box::new([Some(to)]);
        self.push(Op::Ld { kind: LdKind::Plain, access, ty, d, addr }, origin);
    }

    /// Copies an operand to a register. `None` if it has another size.
    fn receive(&mut self, to: RegId, from: Operand, origin: Origin) -> Option<()> {
        let ty = self.bits(to)?;
        match from {
            Operand::Reg(from) => {
                let given = self.bits(from)?;
                let fits = given.bits() == ty.bits() && (given == Type::Pred) == (ty == Type::Pred);
                fits.then(|| self.push(copy(ty, to, from), origin))
            }
            Operand::Symbol(Symbol::Var(from), 0) => {
                let variable = self.edit.function.variables.get(from.index())?;
                let fits = ty != Type::Pred && variable.size() == ty.bytes().into();
                fits.then(|| self.load(to, ty, from, origin))
            }
            // `mov` has no form for bytes, and no constants of 128 bits.
            Operand::Imm(_) | Operand::Special(_) if matches!(ty.bits(), 16 | 32 | 64) => {
                self.push(Op::Mov { ty, d: Some(to), a: from }, origin);
                Some(())
            }
            _ => None,
        }
    }

    fn save_stack(&mut self, origin: Origin) -> (Type, RegId) {
        let ty = if self.module.address_size == 32 { Type::U32 } else { Type::U64 };
        let saved = self.edit.function.fresh_register(ty);
        self.push(Op::Stacksave { ty, d: Some(saved) }, origin);
        (ty, saved)
    }

    /// Writes the callee's body, without the `ret` at its end. Its variables of the space of parameters are local where
    /// they are accessed by address.
    fn body(&mut self, callee: &Function, map: &Map) {
        let instrs = callee.instrs();
        let returns = instrs.last().is_some_and(|last| matches!(last.op, Op::Ret { .. }));
        let instrs = instrs.get(..instrs.len() - usize::from(returns)).unwrap_or_default();
        let first = self.edit.here();
        for instr in instrs {
            let mut instr = instr.clone();
            instr.loc = instr.loc.map(|loc| LocId(map.locs.saturating_add(loc.0)));
            instr.for_each_place_mut(|place| match place {
                PlaceMut::Register(_, reg) => *reg = map.register(*reg),
                PlaceMut::Label(label) => label.0 = map.labels.saturating_add(label.0),
                PlaceMut::Table(TableId(table)) => *table = map.tables.saturating_add(*table),
                PlaceMut::Prototype(PrototypeId(at)) => *at = map.prototypes.saturating_add(*at),
                PlaceMut::Symbol(Symbol::Var(id)) => {
                    *id = map.variables.get(id).copied().unwrap_or(*id);
                }
                PlaceMut::Symbol(Symbol::Global(_) | Symbol::Function(_)) => {}
                PlaceMut::Function(_) => {}
            });
            by_address(&mut instr.op);
            self.edit.push(instr);
        }
        let last = first.saturating_add(u32::try_from(instrs.len()).unwrap_or(u32::MAX));
        for (at, label) in (map.labels..).zip(&callee.labels) {
            if let Some(new) = self.edit.function.labels.get_mut(at as usize) {
                new.at = first.saturating_add(label.at).min(last);
            }
        }
    }
}

/// The function's parameters and results in variables.
fn formals(function: &Function) -> impl Iterator<Item = VarId> + '_ {
    function.params.iter().chain(&function.returns).filter_map(|formal| match formal {
        Formal::Var(id) => Some(*id),
        Formal::Reg(_) => None,
    })
}

/// Returns the type of a variable that is no array.
fn scalar(function: &Function, id: VarId) -> Option<Type> {
    let variable = function.variables.get(id.index())?;
    (variable.dims.is_empty() && variable.vector == 1).then_some(variable.ty)
}

fn param(variable: VarId) -> (Access, Address) {
    let (order, scope, cache, hints, policy) = (Order::Weak, None, None, None, None);
    let access = Access { space: Space::Param, order, scope, cache, hints, policy, used: None };
    (access, Address { base: Base::Symbol(Symbol::Var(variable)), offset: 0 })
}

/// Returns whether a function stores to a parameter that is no result, which its caller would see: directly, or perhaps
/// by its `address`.
fn writes_parameter(function: &Function, address: bool) -> bool {
    let formals = function.params.iter().filter_map(|formal| match formal {
        Formal::Var(id) => Some(*id),
        Formal::Reg(_) => None,
    });
    let formals: HashSet<VarId> = formals.collect();
    function.instrs().iter().any(|instr| {
        let loads = matches!(
            instr.op,
            Op::Ld { addr: Address { base: Base::Symbol(_), .. }, .. } | Op::Call { .. }
        );
        let mut writes = false;
        match &instr.op {
            Op::St { addr: Address { base: Base::Symbol(Symbol::Var(id)), .. }, .. } => {
                writes = formals.contains(id);
            }
            Op::Call { returns, .. } => {
                writes = returns.iter().any(
                    |to| matches!(to, Operand::Symbol(Symbol::Var(id), _) if formals.contains(id)),
                );
            }
            _ => {}
        }
        instr.for_each_place(|place| {
            if let Place::Symbol(Symbol::Var(id)) = place {
                writes |= address && !loads && formals.contains(id);
            }
        });
        writes
    })
}

/// Makes an access of a called function's parameters by address one of local memory, where they are then.
fn by_address(op: &mut Op) {
    let params = |space: Space| matches!(space, Space::Param | Space::ParamFunc);
    match op {
        Op::Ld { access, addr: Address { base: Base::Reg(_), .. }, .. }
        | Op::St { access, addr: Address { base: Base::Reg(_), .. }, .. }
            if params(access.space) =>
        {
            access.space = Space::Local;
        }
        Op::Cvta { space, .. } | Op::Isspacep { space, .. } if params(*space) => {
            *space = Space::Local;
        }
        _ => {}
    }
}

//! Following addresses through a module, until nothing new is found.

use std::collections::{BTreeSet, HashSet};

use super::Table;
use super::operands::Effect;
use super::sets::{Set, Sets};
use crate::ir::{
    Address, Base, Callee, Dst, Formal, Function, FunctionId, Module, Operand, Piece,
    PrototypeKind, RegId, Space, Symbol, VarId,
};

/// A module is gone through at most so often. Compilers define a register before its uses, so that a
/// few times are enough.
const MOST_PASSES: usize = 64;

/// Functions of the driver that only read their arguments.
const READERS: [&str; 5] = ["vprintf", "__assertfail", "__assert_fail", "malloc", "free"];

/// The values that a register or a parameter may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Value {
    /// Addresses that are derived from these variables.
    direct: Set,
    /// An address that was loaded from memory.
    loaded: bool,
}

/// The analysis of a function.
#[derive(Debug, Clone, Default)]
struct Known {
    registers: Vec<Value>,
    /// Contents of parameters, results and arguments.
    contents: Vec<Value>,
    /// Whether the address of the variable is taken.
    exposed: Vec<bool>,
    reads: Set,
    writes: Set,
    /// Whether it reads or writes through addresses that were loaded.
    reads_loaded: bool,
    writes_loaded: bool,
    /// Whether it calls an unknown function.
    everything: bool,
    calls: BTreeSet<usize>,
}

/// The results.
pub(super) struct Flow {
    known: Vec<Known>,
    sets: Sets,
    /// Variables whose addresses lie in memory, with all that can be loaded from there.
    stored: BTreeSet<usize>,
    /// Whether the search was given up.
    given_up: bool,
}

struct Search<'m> {
    module: &'m Module,
    table: &'m Table,
    known: Vec<Known>,
    sets: Sets,
    /// Variables whose addresses are in each variable's initialiser.
    init: Vec<Set>,
    /// Returns the function of a name, following aliases.
    resolved: Vec<usize>,
    /// Functions whose addresses are taken.
    taken: Vec<usize>,
    stored: Set,
    changed: bool,
}

impl Flow {
    pub(super) fn run(module: &Module, table: &Table) -> Self {
        let mut search = Search::new(module, table);
        let mut passes = 0;
        loop {
            search.changed = false;
            for index in 0..module.functions.len() {
                search.function(index);
            }
            passes += 1;
            // Sets that are too large are not built, so the search has not found everything.
            let given_up = search.sets.is_too_large() || (passes == MOST_PASSES && search.changed);
            if !search.changed || given_up {
                return search.finish(given_up);
            }
        }
    }

    /// Returns the variables that a kernel reads and those that it may write; `None` if those may be all. `steps` is
    /// how much work the calls for all kernels may do together: kernels can share functions, and variables.
    pub(super) fn of_kernel(
        &self,
        kernel: usize,
        steps: &mut usize,
    ) -> Option<(BTreeSet<usize>, BTreeSet<usize>)> {
        let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
        let mut seen = HashSet::from([kernel]);
        let mut open = vec![kernel];
        while let Some(index) = open.pop() {
            let Some(known) = self.known.get(index) else { continue };
            if self.given_up || known.everything {
                return None;
            }
            let (read, written) =
                (self.sets.elements(known.reads), self.sets.elements(known.writes));
            let stored = [known.reads_loaded, known.writes_loaded].map(|loaded| match loaded {
                true => self.stored.len(),
                false => 0,
            });
            let work = 1 + read.len() + written.len() + stored[0] + stored[1] + known.calls.len();
            // Smaller kernels do not get the rest: the time for all is bounded.
            *steps = steps.saturating_sub(work);
            if *steps == 0 {
                return None;
            }
            reads.extend(read.iter().map(|&element| element as usize));
            writes.extend(written.iter().map(|&element| element as usize));
            if known.reads_loaded {
                reads.extend(&self.stored);
            }
            if known.writes_loaded {
                writes.extend(&self.stored);
            }
            open.extend(known.calls.iter().copied().filter(|call| seen.insert(*call)));
        }
        Some((reads, writes))
    }
}

impl<'m> Search<'m> {
    fn new(module: &'m Module, table: &'m Table) -> Self {
        let known = module.functions.iter().map(|function| Known {
            registers: vec![Value::default(); function.registers.len()],
            contents: vec![Value::default(); function.variables.len()],
            exposed: vec![false; function.variables.len()],
            ..Known::default()
        });
        let mut resolved: Vec<usize> = (0..module.functions.len()).collect();
        for (alias, target) in &module.aliases {
            if let Some(place) = resolved.get_mut(alias.index()) {
                *place = target.index();
            }
        }
        let mut search = Self {
            module,
            table,
            known: known.collect(),
            sets: Sets::new(),
            init: vec![Set::EMPTY; table.names.len()],
            resolved,
            taken: Vec::new(),
            stored: Set::EMPTY,
            changed: false,
        };
        search.initialisers();
        search.taken_in_code();
        search.taken.sort_unstable();
        search.taken.dedup();
        search
    }

    /// Reads the addresses in initialisers.
    fn initialisers(&mut self) {
        let (module, table) = (self.module, self.table);
        let globals = module.globals.iter().zip(&table.globals);
        let locals = module.functions.iter().zip(&table.locals);
        let locals = locals.flat_map(|(function, numbers)| function.variables.iter().zip(numbers));
        for (variable, number) in globals.chain(locals) {
            let Some(init) = &variable.init else { continue };
            let mut addresses = Vec::new();
            for address in &init.addresses {
                match address.symbol {
                    Symbol::Global(id) => {
                        addresses.extend(table.globals.get(id.index()).copied().flatten());
                    }
                    Symbol::Function(id) => self.take(id),
                    Symbol::Var(_) => {}
                }
            }
            match number.and_then(|number| self.init.get_mut(number as usize)) {
                Some(place) => *place = self.sets.of(addresses),
                // Memory of another space, whose loads are not distinguished.
                None => {
                    let addresses = self.sets.of(addresses);
                    self.stored = self.sets.union(self.stored, addresses);
                }
            }
        }
    }

    fn take(&mut self, function: FunctionId) {
        self.taken.extend(self.resolved.get(function.index()));
    }

    /// Finds the functions whose addresses instructions use.
    fn taken_in_code(&mut self) {
        let module = self.module;
        for instr in module.functions.iter().flat_map(Function::instrs) {
            match Effect::of(&instr.op) {
                Effect::Compute { from, .. } | Effect::Update { values: from, .. } => {
                    from.into_iter().for_each(|operand| self.take_operand(operand));
                }
                Effect::Store { values, .. } => {
                    values.iter().for_each(|operand| self.take_operand(operand));
                }
                Effect::Call { args, .. } => {
                    args.iter().for_each(|operand| self.take_operand(operand));
                }
                Effect::Unknown(pieces) => {
                    for piece in pieces {
                        if let Piece::Symbol(Symbol::Function(id)) = piece {
                            self.take(*id);
                        }
                    }
                }
                Effect::Load { .. } | Effect::Copy { .. } | Effect::Nothing => {}
            }
        }
    }

    fn take_operand(&mut self, operand: &Operand) {
        if let Operand::Symbol(Symbol::Function(id), _) = operand {
            self.take(*id);
        }
    }

    /// Goes through a function once.
    fn function(&mut self, index: usize) {
        let module = self.module;
        let Some(function) = module.functions.get(index) else { return };
        for instr in function.instrs() {
            match Effect::of(&instr.op) {
                Effect::Compute { to, from } => {
                    let value = self.join(index, from);
                    to.into_iter().for_each(|d| self.result(index, d, value));
                }
                Effect::Load { space, from, to } => {
                    let value = self.load(index, space, from);
                    to.iter().for_each(|d| self.result(index, d, value));
                }
                Effect::Store { space, to, values } => {
                    let value = self.join(index, values);
                    self.store(index, space, to, value);
                }
                Effect::Update { at, values, old } => {
                    let value = self.load(index, Space::Generic, at);
                    old.iter().for_each(|d| self.result(index, d, value));
                    let value = self.join(index, values);
                    self.store(index, Space::Generic, at, value);
                }
                Effect::Copy { from, to } => {
                    let value = self.load(index, Space::Generic, from);
                    self.store(index, Space::Generic, to, value);
                }
                Effect::Call { callee, returns, args } => self.call(index, callee, returns, args),
                Effect::Unknown(pieces) => self.unknown(index, pieces),
                Effect::Nothing => {}
            }
        }
        // The value of a parameter whose address is taken lies in memory.
        for variable in 0..function.variables.len() {
            if self.known[index].exposed[variable] {
                let value = self.known[index].contents[variable];
                self.keep(value.direct);
                self.read(index, value.direct);
            }
        }
    }

    fn single(&mut self, variable: Option<u32>) -> Value {
        match variable {
            Some(variable) => Value { direct: self.sets.of(vec![variable]), loaded: false },
            None => Value::default(),
        }
    }

    /// Returns the value of a symbol: its address.
    fn symbol(&mut self, index: usize, symbol: Symbol) -> Value {
        match symbol {
            Symbol::Global(id) => {
                self.single(self.table.globals.get(id.index()).copied().flatten())
            }
            Symbol::Function(_) => Value::default(),
            Symbol::Var(id) => {
                let number = self.table.locals.get(index).and_then(|l| l.get(id.index()));
                let number = number.copied().flatten();
                if number.is_none()
                    && let Some(exposed) = self.known[index].exposed.get_mut(id.index())
                {
                    self.changed |= !std::mem::replace(exposed, true);
                }
                self.single(number)
            }
        }
    }

    fn value(&mut self, index: usize, operand: &Operand) -> Value {
        match *operand {
            Operand::Reg(reg) => self.register(index, reg),
            Operand::Symbol(symbol, _) => self.symbol(index, symbol),
            Operand::Imm(_) | Operand::Special(_) => Value::default(),
        }
    }

    fn register(&self, index: usize, reg: RegId) -> Value {
        self.known[index].registers.get(reg.index()).copied().unwrap_or_default()
    }

    fn join<'o>(&mut self, index: usize, operands: impl IntoIterator<Item = &'o Operand>) -> Value {
        let mut joined = Value::default();
        for operand in operands {
            let value = self.value(index, operand);
            joined = self.both(joined, value);
        }
        joined
    }

    fn both(&mut self, a: Value, b: Value) -> Value {
        Value { direct: self.sets.union(a.direct, b.direct), loaded: a.loaded || b.loaded }
    }

    fn result(&mut self, index: usize, d: &Dst, value: Value) {
        if let Some(reg) = *d {
            let old = self.register(index, reg);
            let new = self.both(old, value);
            if new != old
                && let Some(place) = self.known[index].registers.get_mut(reg.index())
            {
                *place = new;
                self.changed = true;
            }
        }
    }

    /// Adds to the contents of a parameter, result or argument.
    fn put(&mut self, index: usize, variable: VarId, value: Value) {
        let Some(&old) = self.known[index].contents.get(variable.index()) else { return };
        let new = self.both(old, value);
        if new != old {
            self.known[index].contents[variable.index()] = new;
            self.changed = true;
        }
    }

    fn contents(&self, index: usize, variable: VarId) -> Value {
        self.known[index].contents.get(variable.index()).copied().unwrap_or_default()
    }

    /// Returns the parameter, result or argument that an address names.
    fn parameter(&self, index: usize, address: &Address) -> Option<VarId> {
        let Base::Symbol(Symbol::Var(id)) = address.base else { return None };
        let variable = self.module.functions.get(index)?.variables.get(id.index())?;
        (variable.space == Space::Param).then_some(id)
    }

    fn address(&mut self, index: usize, address: &Address) -> Value {
        match address.base {
            Base::Reg(reg) => self.register(index, reg),
            // The contents of shared and local memory are not distinguished: nothing is exposed.
            Base::Symbol(Symbol::Var(id)) => {
                let number = self.table.locals.get(index).and_then(|l| l.get(id.index()));
                self.single(number.copied().flatten())
            }
            Base::Symbol(symbol) => self.symbol(index, symbol),
            Base::Absolute => Value::default(),
        }
    }

    fn load(&mut self, index: usize, space: Space, from: &Address) -> Value {
        if let Some(id) = self.parameter(index, from) {
            return self.contents(index, id);
        }
        let address = self.address(index, from);
        self.read(index, address.direct);
        if space != Space::Param {
            self.through_loaded(index, address, false);
        }
        if address.direct == Set::EMPTY {
            return Value { direct: Set::EMPTY, loaded: true };
        }
        let inside: Vec<u32> = self
            .sets
            .elements(address.direct)
            .iter()
            .flat_map(|&variable| {
                let init = self.init.get(variable as usize).copied().unwrap_or_default();
                self.sets.elements(init).iter().copied()
            })
            .collect();
        Value { direct: self.sets.of(inside), loaded: true }
    }

    fn store(&mut self, index: usize, space: Space, to: &Address, value: Value) {
        if let Some(id) = self.parameter(index, to) {
            return self.put(index, id, value);
        }
        let address = self.address(index, to);
        self.write(index, address.direct);
        self.through_loaded(index, address, true);
        self.keep(value.direct);
        match space {
            // Only threads of the kernel itself can load it from there.
            Space::Local | Space::Shared | Space::Param => self.read(index, value.direct),
            _ => self.write(index, value.direct),
        }
    }

    fn through_loaded(&mut self, index: usize, address: Value, writes: bool) {
        let known = &mut self.known[index];
        if address.loaded {
            let flag = if writes { &mut known.writes_loaded } else { &mut known.reads_loaded };
            self.changed |= !std::mem::replace(flag, true);
        }
    }

    fn read(&mut self, index: usize, variables: Set) {
        let old = self.known[index].reads;
        let new = self.sets.union(old, variables);
        self.changed |= new != old;
        self.known[index].reads = new;
    }

    fn write(&mut self, index: usize, variables: Set) {
        let old = self.known[index].writes;
        let new = self.sets.union(old, variables);
        self.changed |= new != old;
        self.known[index].writes = new;
    }

    /// Notes that addresses of these variables lie in memory.
    fn keep(&mut self, variables: Set) {
        let new = self.sets.union(self.stored, variables);
        self.changed |= new != self.stored;
        self.stored = new;
    }

    /// Returns the values that an argument or a result may hold.
    fn argument(&mut self, index: usize, operand: &Operand) -> Value {
        match *operand {
            Operand::Symbol(Symbol::Var(id), _) => self.contents(index, id),
            _ => self.value(index, operand),
        }
    }

    fn call(&mut self, index: usize, callee: &Callee, returns: &[Operand], args: &[Operand]) {
        let targets: Vec<usize> = match callee {
            Callee::Function(id) => self.resolved.get(id.index()).copied().into_iter().collect(),
            Callee::Indirect(_, id) => {
                let function = self.module.functions.get(index);
                match function.and_then(|f| f.prototypes.get(id.index())).map(|p| &p.kind) {
                    Some(PrototypeKind::Targets(targets)) => targets
                        .iter()
                        .filter_map(|id| self.resolved.get(id.index()).copied())
                        .collect(),
                    _ => self.taken.clone(),
                }
            }
        };
        if targets.is_empty() {
            self.everything(index);
        }
        for target in targets {
            self.call_one(index, target, returns, args);
        }
    }

    fn call_one(&mut self, index: usize, target: usize, returns: &[Operand], args: &[Operand]) {
        let module = self.module;
        let Some(callee) = module.functions.get(target) else { return self.everything(index) };
        if callee.body.is_none() {
            if !READERS.contains(&callee.name.as_str()) {
                return self.everything(index);
            }
            for arg in args {
                let value = self.argument(index, arg);
                self.read(index, value.direct);
                self.through_loaded(index, value, false);
            }
            // Strings that `printf` is given by address are read, too.
            let known = &mut self.known[index];
            self.changed |= !std::mem::replace(&mut known.reads_loaded, true);
            return;
        }
        self.changed |= self.known[index].calls.insert(target);
        for (formal, arg) in callee.params.iter().zip(args) {
            let value = self.argument(index, arg);
            match *formal {
                Formal::Var(id) => self.put(target, id, value),
                Formal::Reg(reg) => self.result(target, &Some(reg), value),
            }
        }
        for (formal, to) in callee.returns.iter().zip(returns) {
            let value = match *formal {
                Formal::Var(id) => self.contents(target, id),
                Formal::Reg(reg) => self.register(target, reg),
            };
            match *to {
                Operand::Symbol(Symbol::Var(id), _) => self.put(index, id, value),
                Operand::Reg(reg) => self.result(index, &Some(reg), value),
                _ => {}
            }
        }
    }

    fn everything(&mut self, index: usize) {
        self.changed |= !std::mem::replace(&mut self.known[index].everything, true);
    }

    fn unknown(&mut self, index: usize, pieces: &[Piece]) {
        for piece in pieces {
            let value = match *piece {
                Piece::Reg(reg) | Piece::Src(reg) | Piece::Dst(reg) => self.register(index, reg),
                Piece::Symbol(symbol) => self.symbol(index, symbol),
                Piece::Text(_) => continue,
            };
            self.read(index, value.direct);
            self.write(index, value.direct);
            self.keep(value.direct);
            self.through_loaded(index, value, false);
            self.through_loaded(index, value, true);
        }
        // Each register may be a result.
        for piece in pieces {
            if let Piece::Reg(reg) | Piece::Src(reg) | Piece::Dst(reg) = *piece {
                self.result(index, &Some(reg), Value { direct: Set::EMPTY, loaded: true });
            }
        }
    }

    fn finish(self, given_up: bool) -> Flow {
        let mut stored: BTreeSet<usize> = BTreeSet::new();
        let mut open: Vec<u32> = self.sets.elements(self.stored).to_vec();
        while let Some(variable) = open.pop() {
            if stored.insert(variable as usize) {
                let init = self.init.get(variable as usize).copied().unwrap_or_default();
                open.extend(self.sets.elements(init));
            }
        }
        Flow { known: self.known, sets: self.sets, stored, given_up }
    }
}

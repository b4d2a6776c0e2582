//! The scopes of names inside a function: registers, variables and labels of nested blocks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Names;
use super::cursor::Result;
use super::function::Body;
use super::index;
use crate::ir::{
    GlobalId, Label, LabelId, PrototypeId, RegId, Symbol, TableId, Type, VarId, Variable,
};

/// How deep blocks may nest.
pub(super) const DEPTH: usize = 64;

/// The meaning of a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Binding {
    /// A register that has been used.
    Reg(RegId),
    /// A register that has not been used yet, and so has no number.
    Unused(Type),
    /// A vector of registers.
    Vector(Type, u8),
    Var(VarId),
    /// A variable that is declared in a function and lives as long as the module.
    Global(GlobalId),
    Prototype(PrototypeId),
    Table(TableId),
}

impl Binding {
    /// A register or vector that is declared.
    fn declared(ty: Type, vector: u8) -> Self {
        if vector > 1 { Self::Vector(ty, vector) } else { Self::Unused(ty) }
    }
}

/// `%r<100>`
#[derive(Debug, Clone, Copy)]
struct Range {
    count: u32,
    ty: Type,
    vector: u8,
}

#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    names: HashMap<&'a str, Binding>,
    ranges: HashMap<&'a str, Range>,
    components: HashMap<(&'a str, u8), RegId>,
    labels: HashMap<&'a str, LabelId>,
    /// References to labels not defined yet: name, slot, place in the text.
    pending: Vec<(&'a str, usize, usize)>,
}

/// Gives each variable, label and prototype of a function a unique name.
#[derive(Debug, Default)]
pub(super) struct UniqueNames<'a> {
    /// How many things of this name there are.
    counts: HashMap<&'a str, u32>,
    /// Each name, and whether a variable has it.
    taken: HashMap<String, bool>,
}

impl<'a> UniqueNames<'a> {
    /// `name`, or where it is taken `name$1`, `name$2`… A module's names are taken too: the printer
    /// declares at the function's head, where an inner block's variable would hide them.
    pub(super) fn make(&mut self, name: &'a str, globals: &Names<'a>, variable: bool) -> String {
        let count = self.counts.entry(name).or_insert(0);
        loop {
            let candidate = if *count == 0 { name.to_owned() } else { format!("{name}${count}") };
            *count = count.saturating_add(1);
            if !globals.contains_key(candidate.as_str())
                && let Entry::Vacant(free) = self.taken.entry(candidate.clone())
            {
                free.insert(variable);
                return candidate;
            }
        }
    }

    /// Returns whether a variable of the function has this name, in whichever block.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        self.taken.get(name) == Some(&true)
    }
}

impl<'a> Body<'_, 'a> {
    fn scope(&mut self) -> Result<&mut Scope<'a>> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        match self.scopes.last_mut() {
            Some(scope) => Ok(scope),
            None => Err(self.cur.error("outside of every block")),
        }
    }

    pub(super) fn open(&mut self) -> Result<()> {
        if self.scopes.len() >= DEPTH {
            return Err(self.cur.error("blocks are nested too deeply"));
        }
        self.scopes.push(Scope::default());
        Ok(())
    }

    /// Ends the innermost block: its labels meet the references made in it; the others wait for
    /// the block around it.
    pub(super) fn close(&mut self) -> Result<()> {
        let Some(mut scope) = self.scopes.pop() else { return Ok(()) };
        let labels = scope.labels;
        let slots = &mut self.slots;
        scope.pending.retain(|&(name, slot, _)| match labels.get(name) {
            Some(&id) => {
                slots[slot] = id;
                false
            }
            None => true,
        });
        match self.scopes.last_mut() {
            Some(outer) if outer.pending.is_empty() => outer.pending = scope.pending,
            Some(outer) => outer.pending.append(&mut scope.pending),
            None => {
                if let Some(&(name, _, place)) = scope.pending.first() {
                    return Err(self.cur.error_at(place, format!("label `{name}` is not defined")));
                }
            }
        }
        Ok(())
    }

    pub(super) fn bind(&mut self, name: &'a str, binding: Binding, place: usize) -> Result<()> {
        match self.scope()?.names.insert(name, binding) {
            None => Ok(()),
            Some(_) => Err(self.cur.error_at(place, format!("`{name}` is declared twice"))),
        }
    }

    /// Declares a register, or with `count` the registers `name0`, `name1`… Numbers are given at
    /// the first use, so that a large count costs nothing.
    pub(super) fn declare_register(
        &mut self,
        name: &'a str,
        count: Option<u32>,
        ty: Type,
        vector: u8,
        place: usize,
    ) -> Result<()> {
        if self.scope()?.declare(name, count, ty, vector) {
            return Ok(());
        }
        Err(self.cur.error_at(place, format!("`{name}` is declared twice")))
    }

    pub(super) fn new_register(&mut self, ty: Type) -> RegId {
        let id = RegId(index(self.f.registers.len()));
        self.f.registers.push(ty);
        id
    }

    /// Declares a variable under its name in the innermost block.
    pub(super) fn declare_variable(
        &mut self,
        name: &'a str,
        mut var: Variable,
        place: usize,
    ) -> Result<VarId> {
        let id = VarId(index(self.f.variables.len()));
        var.name = self.unique.make(name, self.names, true);
        self.f.variables.push(var);
        // A prototype's or declaration's parameters may all be called `_`.
        if name != "_" {
            self.bind(name, Binding::Var(id), place)?;
        }
        Ok(id)
    }

    pub(super) fn declare_prototype(
        &mut self,
        name: &'a str,
        id: PrototypeId,
        place: usize,
    ) -> Result<String> {
        self.bind(name, Binding::Prototype(id), place)?;
        Ok(self.unique.make(name, self.names, false))
    }

    pub(super) fn declare_table(&mut self, name: &'a str, id: TableId, place: usize) -> Result<()> {
        self.bind(name, Binding::Table(id), place)
    }

    pub(super) fn define_label(&mut self, name: &'a str, place: usize) -> Result<()> {
        let id = LabelId(index(self.f.labels.len()));
        let label =
            Label { name: self.unique.make(name, self.names, false), at: index(self.instrs.len()) };
        self.f.labels.push(label);
        match self.scope()?.labels.insert(name, id) {
            None => Ok(()),
            Some(_) => Err(self.cur.error_at(place, format!("label `{name}` is defined twice"))),
        }
    }

    /// Refers to a label that may come later: a slot, replaced at the function's end.
    pub(super) fn refer(&mut self, name: &'a str, place: usize) -> Result<LabelId> {
        let slot = self.slots.len();
        self.slots.push(LabelId(0));
        self.scope()?.pending.push((name, slot, place));
        Ok(LabelId(index(slot)))
    }

    /// Returns the meaning of a name here, if it belongs to the function or is a register of the module.
    pub(super) fn find(&mut self, name: &'a str) -> Option<Binding> {
        let scopes = self.scopes.iter().enumerate().rev();
        let inner = scopes.filter_map(|(depth, scope)| Some((Some(depth), scope.find(name)?)));
        let outer = || {
            let used = self.outer.names.get(name).copied();
            Some((None, used.or_else(|| self.shared.find(name))?))
        };
        let (depth, binding) = inner.take(1).next().or_else(outer)?;
        let Binding::Unused(ty) = binding else { return Some(binding) };
        let used = Binding::Reg(self.new_register(ty));
        self.scope_at(depth).names.insert(name, used);
        Some(used)
    }

    /// Returns the scope of this depth, or that of the module's registers which the function uses.
    fn scope_at(&mut self, depth: Option<usize>) -> &mut Scope<'a> {
        match depth.and_then(|depth| self.scopes.get_mut(depth)) {
            Some(scope) => scope,
            None => &mut self.outer,
        }
    }

    /// Component `at` of the vector register `name`.
    pub(super) fn component(&mut self, name: &'a str, ty: Type, at: u8) -> RegId {
        let depth = self.scopes.iter().rposition(|scope| scope.find(name).is_some());
        if let Some(&id) = self.scope_at(depth).components.get(&(name, at)) {
            return id;
        }
        let id = self.new_register(ty);
        self.scope_at(depth).components.insert((name, at), id);
        id
    }

    /// Returns the symbol of this name: the function's, or the module's.
    pub(super) fn symbol(&mut self, name: &'a str) -> Option<Symbol> {
        match self.find(name) {
            Some(Binding::Var(id)) => Some(Symbol::Var(id)),
            Some(Binding::Global(id)) => Some(Symbol::Global(id)),
            Some(_) => None,
            None => self.names.get(name).copied(),
        }
    }
}

impl<'a> Scope<'a> {
    /// Declares a register or a range of them; false if the name is declared already.
    pub(super) fn declare(
        &mut self,
        name: &'a str,
        count: Option<u32>,
        ty: Type,
        vector: u8,
    ) -> bool {
        match count {
            Some(count) => self.ranges.insert(name, Range { count, ty, vector }).is_none(),
            None => self.names.insert(name, Binding::declared(ty, vector)).is_none(),
        }
    }

    /// Returns whether a register of this scope is used: those of the module are only listed by a function once it uses
    /// them.
    pub(super) fn is_used(&self) -> bool {
        !self.names.is_empty() || !self.components.is_empty()
    }

    /// Returns the variable of the module that is declared in this scope under a name.
    pub(super) fn global(&self, name: &str) -> Option<GlobalId> {
        match self.names.get(name) {
            Some(&Binding::Global(id)) => Some(id),
            _ => None,
        }
    }

    /// Returns the meaning of a name that this scope declares.
    fn find(&self, name: &str) -> Option<Binding> {
        if let Some(&binding) = self.names.get(name) {
            return Some(binding);
        }
        if self.ranges.is_empty() {
            return None;
        }
        // Only a name that ends in a digit can come from a range, and without a zero before it.
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let range = self.member(name, digits)?;
        Some(Binding::declared(range.ty, range.vector))
    }

    /// Returns the range that `name` is a member of; `digits` of its bytes, at the end, are digits.
    fn member(&self, name: &str, digits: usize) -> Option<Range> {
        // `%r1` with `%r<5>` is the usual case; `%r1<5>` makes `%r10` too.
        (1..=digits.min(10)).rev().find_map(|n| {
            let (stem, number) = name.split_at(name.len() - n);
            let range = self.ranges.get(stem)?;
            let canonical = n == 1 || !number.starts_with('0');
            let number: u32 = number.parse().ok()?;
            (canonical && number < range.count).then_some(*range)
        })
    }
}

//! Loops, and jumps out of them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, ExprForLoop, Label, Lifetime};

use crate::blocks::Role;
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value};

/// A loop, or a labelled block, that is being translated.
#[derive(Debug)]
pub(crate) struct Loop {
    label: Option<String>,
    /// Whether it is a block, which a `break` without a label does not leave.
    block: bool,
    /// The C++ variable to which `break value` assigns.
    target: Option<String>,
    /// C++ labels for jumps out of inner loops, if there are any.
    break_label: Option<String>,
    continue_label: Option<String>,
    /// Whether a `break` leaves it.
    pub(crate) left: bool,
    /// The depth of local closures.
    closure: usize,
    /// Whether the body certainly has no effects outside of the thread.
    pub(crate) pure: bool,
    /// Whether the body calls device functions, which may have loops.
    pub(crate) calls: bool,
    /// Whether the body has phases.
    pub(crate) phases: bool,
    /// The name of its variable.
    pub(crate) name: Option<String>,
    /// What bounds the counter, as Rust, if it is a constant.
    pub(crate) most: Option<TokenStream>,
    /// The C++ conditions under which the indices that grow with the counter are in bounds.
    pub(crate) hoisted: Vec<String>,
    /// The C++ variable whose type tells whether these conditions hold.
    pub(crate) known: String,
    /// The C++ variable with the largest value of the counter.
    pub(crate) last: String,
    /// Slices that are read at the counter in each iteration, and the variables with the elements of the next
    /// iterations.
    pub(crate) ahead: Vec<(String, String)>,
    /// Whether the body reads slices at other indices than hoisted ones.
    pub(crate) gathers: bool,
    /// The branch depth of code that each iteration reaches.
    pub(crate) level: usize,
    /// The name of the counter in the source.
    pub(crate) counter: Option<String>,
    /// The number of variables that the text before the loop has mentioned.
    pub(crate) mentions: usize,
    /// The C++ before it that unrolls it.
    pub(crate) unroll: String,
    /// The same before its fast and its exact copy.
    pub(crate) unroll_fast: String,
    pub(crate) unroll_exact: String,
}

impl Loop {
    fn new(label: Option<&Label>, closure: usize) -> Self {
        Self {
            label: label.map(|label| label.name.ident.to_string()),
            block: false,
            target: None,
            break_label: None,
            continue_label: None,
            left: false,
            closure,
            pure: true,
            calls: false,
            phases: false,
            name: None,
            most: None,
            hoisted: Vec::new(),
            known: String::new(),
            last: String::new(),
            ahead: Vec::new(),
            gathers: false,
            level: 0,
            counter: None,
            mentions: 0,
            unroll: String::new(),
            unroll_fast: String::new(),
            unroll_exact: "_Pragma(\"unroll 1\") ".to_owned(),
        }
    }
}

/// The C++ at the start of each iteration of a loop without a counted range. C++ assumes that a loop without effects
/// ends.
pub(crate) const PROGRESS: &str = "asm volatile(\"\"); if (c.stop()) break;";

impl Translator<'_> {
    pub(crate) fn loops(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::ForLoop(each) => self.for_loop(each),
            Expr::While(_) => self.while_loop(e),
            _ => self.endless_loop(e),
        }
    }

    /// Runs `f` for the body of a loop, and returns the emitted statements with the jumps' labels, and the loop.
    pub(crate) fn body(
        &mut self,
        entry: Loop,
        f: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<(String, Loop)> {
        self.loops.push(entry);
        self.level.iter_mut().for_each(|level| level.plan.open());
        let result = self.captured(|s| s.scoped(f));
        self.level.iter_mut().for_each(|level| level.plan.close_loop());
        let entry = self.loops.pop();
        let (mut text, ()) = result?;
        let Some(entry) = entry else { return Ok((text, Loop::new(None, 0))) };
        if let Some(label) = &entry.continue_label {
            text = format!("{{\n{text}}}\n{label}:;\n");
        }
        Ok((text, entry))
    }

    pub(crate) fn new_loop(&self, label: Option<&Label>) -> Loop {
        Loop { mentions: self.mentioned.len(), ..Loop::new(label, self.in_closure) }
    }

    pub(crate) fn after_loop(&mut self, entry: &Loop) {
        if let Some(label) = &entry.break_label {
            self.emit(&format!("{label}:;"));
        }
    }

    fn while_loop(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::While(each) = e else { return Ok(Value::unit()) };
        self.meets(&each.body, false);
        let entry = self.new_loop(each.label.as_ref());
        let (text, entry) = self.body(entry, |s| {
            s.meets(&each.body, true);
            s.note_reads(&each.cond)?;
            let conditions = s.conditions(&mut each.cond)?;
            for (emitted, test, matching) in conditions {
                s.out.push_str(&emitted);
                s.emit(&format!("if (!({test})) break;"));
                s.rebind(&matching);
            }
            s.level.iter_mut().for_each(|level| level.plan.exit());
            s.block_statements(&mut each.body)
        })?;
        self.leave_outer_pure();
        self.emit(&format!("while (true) {{ {PROGRESS}\n{text}}}"));
        self.after_loop(&entry);
        Ok(Value::unit())
    }

    pub(crate) fn block_statements(&mut self, block: &mut syn::Block) -> Result<()> {
        let value = self.scoped(|s| s.statements(&mut block.stmts))?;
        if value.effect == Effect::Faults {
            self.emit(&format!("(void)({});", value.code));
        }
        Ok(())
    }

    fn endless_loop(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Loop(each) = e else { return Ok(Value::unit()) };
        self.meets(&each.body, false);
        let mut entry = self.new_loop(each.label.as_ref());
        let name = self.name("t");
        entry.target = Some(name.clone());
        let uses_value = breaks_with_value(&each.body, each.label.as_ref());
        if !uses_value {
            entry.target = None;
        }
        let (text, entry) = self.body(entry, |s| {
            s.meets(&each.body, true);
            s.block_statements(&mut each.body)
        })?;
        self.leave_outer_pure();
        if uses_value {
            let ty = self.probe(e);
            self.emit(&format!("{ty} {name};"));
        }
        self.emit(&format!("while (true) {{ {PROGRESS}\n{text}}}"));
        self.after_loop(&entry);
        Ok(match (entry.left, uses_value) {
            (false, _) => Value::never(),
            (true, true) => Value::constant(name),
            (true, false) => Value::unit(),
        })
    }

    /// Translates `'a: { … break 'a value; … }`.
    pub(crate) fn labelled_block(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Block(block) = e else { return Ok(Value::unit()) };
        let mut entry = self.new_loop(block.label.as_ref());
        entry.block = true;
        let name = self.name("t");
        let uses_value = breaks_with_value(&block.block, block.label.as_ref());
        entry.target = uses_value.then(|| name.clone());
        let (text, entry) = self.body(entry, |s| {
            let value = s.block_value(&mut block.block)?;
            if uses_value && !value.never {
                s.emit(&format!("{name} = {};", value.code));
            } else if value.effect == Effect::Faults {
                s.emit(&format!("(void)({});", value.code));
            }
            Ok(())
        })?;
        if let Some(outer) = self.loops.last_mut() {
            outer.pure &= entry.pure;
        }
        if entry.break_label.is_some() {
            self.has_label();
        }
        if uses_value {
            let ty = self.probe(e);
            self.emit(&format!("{ty} {name};"));
        }
        self.emit(&format!("{{\n{text}}}"));
        self.after_loop(&entry);
        Ok(if uses_value { Value::constant(name) } else { Value::unit() })
    }

    /// Returns the entry for the body of a kernel's loop over elements.
    pub(crate) fn new_body(&self) -> Loop {
        Loop { block: true, ..self.new_loop(None) }
    }

    /// Marks outer loops as impure: only an innermost loop has hoisted or deferred checks.
    pub(crate) fn leave_outer_pure(&mut self) {
        self.effect();
        if let Some(outer) = self.loops.last_mut() {
            outer.counter = None;
        }
    }

    /// Records that the body of the innermost loop has a C++ label, so its text must not be duplicated.
    pub(crate) fn has_label(&mut self) {
        if let Some(entry) = self.loops.last_mut() {
            entry.counter = None;
        }
    }

    /// Records that the body of the innermost loop has an effect, so its checks must come before it.
    pub(crate) fn effect(&mut self) {
        for outer in &mut self.loops {
            outer.pure = false;
        }
    }

    /// Records a store to a place.
    ///
    /// Threads of a kernel's loop share the captured variables, so they cannot write them.
    pub(crate) fn stores(&mut self, place: &Expr) -> Result<()> {
        let root = self.root(place);
        if let (Some(local), Expr::Index(_)) = (root, place)
            && self.atomics.contains(&local.cpp)
        {
            return refused(
                place,
                "threads change elements of an `Atomic` by its methods",
                "write `bins.fetch_add(j, 1)`, or `bins.store(j, value)`",
            );
        }
        if let Some(local) = root
            && matches!(local.role, Role::Memory | Role::Part)
        {
            return refused(
                place,
                "threads write memory of their block only as items of a phase",
                "give it to a phase: `block.each(&mut tile, |i, t| *t = …)`",
            );
        }
        if root.is_some_and(|local| local.outside) {
            return refused(
                place,
                "all threads of the phase share this variable",
                "keep a value of each thread, `let mut sum = block.per_thread(0.0f32);`, and give it to the phase, or use \
                 an `&Atomic<[T]>`",
            );
        }
        if self.in_kernel && root.is_some_and(|local| local.shared) {
            return refused(
                place,
                "all threads of the loop share this variable",
                "write to the element that the closure is given, to a second output, or to an `&Atomic<[T]>`",
            );
        }
        if !self.is_own(place) {
            self.effect();
        }
        Ok(())
    }

    /// Returns the variable that contains a place, if no reference is between them.
    fn root(&self, place: &Expr) -> Option<&crate::translate::Local> {
        match place {
            Expr::Paren(inner) => self.root(&inner.expr),
            Expr::Field(field) => self.root(&field.base),
            Expr::Index(index) => self.root(&index.expr),
            Expr::Path(path) => self.local(&path.path.get_ident()?.to_string()),
            _ => None,
        }
    }

    /// Returns whether a place is certainly a variable of this thread.
    fn is_own(&self, place: &Expr) -> bool {
        match place {
            Expr::Paren(inner) => self.is_own(&inner.expr),
            Expr::Path(path) => path.path.get_ident().is_some(),
            // `is_own_part` need not detect a reference in a variable: its C++ type shows that the loop has one.
            Expr::Field(field) => self.is_own_part(&field.base),
            Expr::Index(index) => self.is_own_part(&index.expr),
            _ => false,
        }
    }

    fn is_own_part(&self, place: &Expr) -> bool {
        match place {
            Expr::Paren(inner) => self.is_own_part(&inner.expr),
            Expr::Field(field) => self.is_own_part(&field.base),
            Expr::Index(index) => self.is_own_part(&index.expr),
            Expr::Path(path) => {
                let name = path.path.get_ident().map(ToString::to_string);
                name.and_then(|name| self.local(&name)).is_some_and(|local| local.mutable)
            }
            _ => false,
        }
    }

    pub(crate) fn jump(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::Return(_) => self.return_value(e),
            Expr::Break(jump) => {
                self.level.iter_mut().for_each(|level| level.plan.jump());
                let at = self.target_of(jump.label.as_ref(), false, &*jump)?;
                if let Some(value) = &mut jump.expr {
                    let value = self.expr(value)?;
                    if value.never {
                        return Ok(value);
                    }
                    if let Some(target) = self.loops[at].target.clone() {
                        self.emit(&format!("{target} = {};", value.code));
                    }
                }
                self.loops[at].left = true;
                // A `break` may prevent later checks from being reached.
                if at + 1 == self.loops.len() && !self.loops[at].block {
                    self.emit("break;");
                } else {
                    let label = self.label_of(at, false);
                    self.emit(&format!("goto {label};"));
                }
                Ok(Value::never())
            }
            Expr::Continue(jump) => {
                self.level.iter_mut().for_each(|level| level.plan.jump());
                let at = self.target_of(jump.label.as_ref(), true, &*jump)?;
                if at + 1 == self.loops.len()
                    && self.loops[at].continue_label.is_none()
                    && !self.loops[at].block
                {
                    self.emit("continue;");
                } else {
                    let label = self.label_of(at, true);
                    self.emit(&format!("goto {label};"));
                }
                Ok(Value::never())
            }
            _ => Ok(Value::unit()),
        }
    }

    fn label_of(&mut self, at: usize, again: bool) -> String {
        let known =
            if again { &self.loops[at].continue_label } else { &self.loops[at].break_label };
        if let Some(known) = known {
            return known.clone();
        }
        let name = self.name(if again { "again" } else { "out" });
        let known = if again {
            &mut self.loops[at].continue_label
        } else {
            &mut self.loops[at].break_label
        };
        *known = Some(name.clone());
        // The loops in between contain jumps to a label, so their text must not be duplicated.
        for inner in &mut self.loops[at..] {
            inner.pure = false;
            inner.counter = None;
        }
        name
    }

    fn target_of(
        &self,
        label: Option<&Lifetime>,
        again: bool,
        at: &impl quote::ToTokens,
    ) -> Result<usize> {
        let found = self.loops.iter().rposition(|entry| match label {
            Some(label) => entry.label.as_ref().is_some_and(|name| label.ident == *name),
            None => !entry.block,
        });
        match found {
            Some(found)
                if self.loops[found].closure == self.in_closure
                    && !(again && self.loops[found].block) =>
            {
                Ok(found)
            }
            _ => refused(
                &quote!(#at),
                "there is no such loop around this",
                "name the label of a loop of the same function or closure",
            ),
        }
    }
}

/// Returns whether a `break` of this loop or block has a value.
fn breaks_with_value(block: &syn::Block, label: Option<&Label>) -> bool {
    struct Breaks<'l> {
        label: Option<&'l Label>,
        depth: usize,
        found: bool,
    }
    impl<'a> syn::visit::Visit<'a> for Breaks<'_> {
        fn visit_expr(&mut self, e: &'a Expr) {
            match e {
                Expr::Closure(_) => {}
                Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => {
                    self.depth += 1;
                    syn::visit::visit_expr(self, e);
                    self.depth -= 1;
                }
                _ => syn::visit::visit_expr(self, e),
            }
        }

        fn visit_expr_break(&mut self, jump: &'a syn::ExprBreak) {
            let ours = match (&jump.label, self.label) {
                (None, _) => self.depth == 0,
                (Some(to), Some(label)) => to.ident == label.name.ident,
                (Some(_), None) => false,
            };
            self.found |= ours && jump.expr.is_some();
            syn::visit::visit_expr_break(self, jump);
        }
    }
    let mut breaks = Breaks { label, depth: 0, found: false };
    syn::visit::Visit::visit_block(&mut breaks, block);
    breaks.found
}

/// The range of a `for` loop.
pub(crate) struct Counted<'e> {
    pub(crate) start: &'e mut Expr,
    pub(crate) end: &'e mut Expr,
    pub(crate) inclusive: bool,
}

/// Returns whether an expression is a range with both ends.
pub(crate) fn is_range(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => is_range(&inner.expr),
        Expr::Group(inner) => is_range(&inner.expr),
        Expr::Range(range) => range.start.is_some() && range.end.is_some(),
        _ => false,
    }
}

/// Returns the range that an expression is, if it is one.
pub(crate) fn as_range(e: &mut Expr) -> Option<Counted<'_>> {
    match e {
        Expr::Paren(inner) => as_range(&mut inner.expr),
        Expr::Group(inner) => as_range(&mut inner.expr),
        Expr::Range(range) => {
            let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
            match (&mut range.start, &mut range.end) {
                (Some(start), Some(end)) => Some(Counted { start, end, inclusive }),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Translator<'_> {
    pub(crate) fn for_loop(&mut self, each: &mut ExprForLoop) -> Result<Value> {
        let entry = self.new_loop(each.label.as_ref());
        self.for_range(each, entry)
    }

    pub(crate) fn finish_loop(&mut self, entry: &Loop) {
        self.after_loop(entry);
    }
}

//! What block-level code reads outside of phases, and where it may start them.

use proc_macro2::Ident;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall};

use super::barriers::{Access, Kind};
use super::{NUMBERS, OF_MEMORY, Role};
use crate::refuse::{Result, refused};
use crate::translate::Translator;

/// Returns the names in an expression.
pub(crate) fn names(e: &Expr) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl<'a> Visit<'a> for Names {
        fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
            self.0.extend(path.path.get_ident().cloned());
        }

        // Macros may name anything in their tokens.
        fn visit_macro(&mut self, mac: &'a syn::Macro) {
            fn walk(tokens: proc_macro2::TokenStream, names: &mut Vec<Ident>) {
                for token in tokens {
                    match token {
                        proc_macro2::TokenTree::Ident(name) => names.push(name),
                        proc_macro2::TokenTree::Group(group) => walk(group.stream(), names),
                        _ => {}
                    }
                }
            }
            walk(mac.tokens.clone(), &mut self.0);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_expr(e);
    names.0
}

/// Looks for values of the memory of a block in block-level code.
struct Memory<'t, 'o> {
    translator: &'t Translator<'o>,
    found: bool,
}

impl<'a> Visit<'a> for Memory<'_, '_> {
    fn visit_expr(&mut self, e: &'a Expr) {
        match e {
            Expr::Path(_) | Expr::Macro(_) => {
                self.found |= !self.translator.roots_of(e).is_empty();
                self.found |= names(e).iter().any(|name| {
                    self.translator.local(&name.to_string()).is_some_and(|local| local.from_memory)
                });
            }
            // What a function that is given the block returns may be a value of its memory.
            Expr::Call(call)
                if call.args.iter().any(|arg| self.translator.role(arg) == Role::Block) =>
            {
                self.found = true;
            }
            _ => syn::visit::visit_expr(self, e),
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let name = call.method.to_string();
        match self.translator.role(&call.receiver) {
            // The values of phases are those of a whole block.
            Role::Block => {}
            Role::Memory | Role::Part if OF_MEMORY.contains(&name.as_str()) => {
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            _ => syn::visit::visit_expr_method_call(self, call),
        }
    }
}

/// Collects the memory that an expression reads, outside of phases and of blocks of statements.
struct Reads<'t, 'o> {
    translator: &'t Translator<'o>,
    found: Vec<Access>,
}

impl<'a> Visit<'a> for Reads<'_, '_> {
    fn visit_expr(&mut self, e: &'a Expr) {
        match e {
            Expr::Path(_) | Expr::Macro(_) => {
                let roots = self.translator.roots_of(e);
                self.found.extend(roots.into_iter().map(|root| Access::new(root, Kind::Read)));
            }
            _ => syn::visit::visit_expr(self, e),
        }
    }

    // Their statements note their own.
    fn visit_block(&mut self, _: &'a Block) {}

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let name = call.method.to_string();
        match self.translator.role(&call.receiver) {
            // A phase notes its own.
            Role::Block => {}
            Role::Memory | Role::Part if OF_MEMORY.contains(&name.as_str()) => {
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            _ => syn::visit::visit_expr_method_call(self, call),
        }
    }
}

impl Translator<'_> {
    /// Notes what a statement of block level reads before its own blocks and phases, and emits the mark of a barrier.
    pub(crate) fn note_reads(&mut self, e: &Expr) -> Result<()> {
        if self.level.is_none() {
            return Ok(());
        }
        self.check_phases(e)?;
        if let Expr::Assign(assign) = e
            && self.role(&assign.left) != Role::Value
        {
            let roots = [self.roots_of(&assign.left), self.roots_of(&assign.right)].concat();
            self.level.iter_mut().for_each(|level| level.plan.swap(roots.iter().cloned()));
            return Ok(());
        }
        match e {
            Expr::Assign(assign) => self.note_value(&assign.left, &assign.right),
            Expr::Binary(binary) if crate::places::is_assigning(&binary.op) => {
                self.note_value(&binary.left, &binary.right);
            }
            _ => {}
        }
        // A call with the block notes its own, and so does a handle that is only given another name.
        if self.starts_phase(e) || !matches!(self.role(e), Role::Value) {
            return Ok(());
        }
        let mut reads = Reads { translator: self, found: Vec::new() };
        reads.visit_expr(e);
        let found = reads.found;
        self.note(found);
        Ok(())
    }

    /// Returns whether block-level code uses values of the memory of a block, which are wrong if a thread has left.
    pub(crate) fn uses_memory(&self, e: &Expr) -> bool {
        let mut memory = Memory { translator: self, found: false };
        memory.visit_expr(e);
        memory.found
    }

    /// Notes whether the value of a variable may be one of the memory of a block.
    fn note_value(&mut self, place: &Expr, value: &Expr) {
        let Expr::Path(path) = place else { return };
        let Some(name) = path.path.get_ident().map(ToString::to_string) else { return };
        if self.uses_memory(value)
            && let Some(local) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name))
        {
            local.from_memory = true;
        }
    }

    /// Notes accesses, and emits the mark of a barrier before them.
    pub(crate) fn note(&mut self, accesses: Vec<Access>) {
        if accesses.is_empty() {
            return;
        }
        if let Some(level) = &mut self.level {
            let mark = level.plan.access(accesses);
            self.out.push_str(&mark);
        }
    }

    /// Returns whether an expression is a phase, or a call that is given the block.
    pub(crate) fn starts_phase(&self, e: &Expr) -> bool {
        match e {
            Expr::Paren(inner) => self.starts_phase(&inner.expr),
            Expr::Cast(inner) => self.starts_phase(&inner.expr),
            Expr::MethodCall(call) => {
                self.role(&call.receiver) == Role::Block
                    && !NUMBERS.contains(&call.method.to_string().as_str())
            }
            Expr::Call(call) => call.args.iter().any(|arg| self.role(arg) == Role::Block),
            _ => false,
        }
    }

    /// Refuses phases inside of expressions: barriers stand between statements.
    fn check_phases(&self, e: &Expr) -> Result<()> {
        match e {
            Expr::Paren(inner) => self.check_phases(&inner.expr),
            Expr::Cast(inner) => self.check_phases(&inner.expr),
            Expr::Assign(assign) if matches!(*assign.left, Expr::Path(_)) => {
                self.check_phases(&assign.right)
            }
            Expr::Binary(binary)
                if crate::places::is_assigning(&binary.op)
                    && matches!(*binary.left, Expr::Path(_)) =>
            {
                self.check_phases(&binary.right)
            }
            Expr::Return(leave) => leave.expr.iter().try_for_each(|e| self.check_phases(e)),
            Expr::Break(leave) => leave.expr.iter().try_for_each(|e| self.check_phases(e)),
            Expr::Block(_) | Expr::Loop(_) => Ok(()),
            Expr::If(branch) => {
                self.no_phases(&branch.cond)?;
                branch
                    .else_branch
                    .iter()
                    .try_for_each(|(_, otherwise)| self.check_phases(otherwise))
            }
            Expr::Match(branch) => {
                self.no_phases(&branch.expr)?;
                for arm in &branch.arms {
                    arm.guard.iter().try_for_each(|(_, guard)| self.no_phases(guard))?;
                    if !matches!(*arm.body, Expr::Block(_)) {
                        self.no_phases(&arm.body)?;
                    }
                }
                Ok(())
            }
            Expr::While(each) => self.no_phases(&each.cond),
            Expr::ForLoop(each) => self.no_phases(&each.expr),
            Expr::MethodCall(call) if self.role(&call.receiver) == Role::Block => {
                // Closures of phases are looked at when they are translated.
                let values = call.args.iter().filter(|arg| !matches!(arg, Expr::Closure(_)));
                values.into_iter().try_for_each(|arg| self.no_phases(arg))
            }
            Expr::Call(call) if self.starts_phase(e) => call
                .args
                .iter()
                .filter(|arg| self.role(arg) != Role::Block)
                .try_for_each(|arg| self.no_phases(arg)),
            _ => self.no_phases(e),
        }
    }

    /// Refuses phases in an expression.
    fn no_phases(&self, e: &Expr) -> Result<()> {
        struct Phases<'t, 'o>(&'t Translator<'o>, Option<proc_macro2::Span>);
        impl<'a> Visit<'a> for Phases<'_, '_> {
            fn visit_expr(&mut self, e: &'a Expr) {
                if let Expr::MethodCall(call) = e
                    && self.0.role(&call.receiver) == Role::Block
                    && NUMBERS.contains(&call.method.to_string().as_str())
                {
                    return;
                }
                if let Expr::Path(_) = e
                    && self.0.role(e) == Role::Block
                {
                    self.1.get_or_insert(syn::spanned::Spanned::span(e));
                }
                syn::visit::visit_expr(self, e);
            }
        }
        let mut phases = Phases(self, None);
        phases.visit_expr(e);
        match phases.1 {
            Some(span) => refused(
                &Ident::new("block", span),
                "the block is used inside of an expression",
                "make it a statement of its own, and name its value: `let total = block.sum(&x);`",
            ),
            None => Ok(()),
        }
    }
}

//! What block-level code reads outside of phases, and where it may start them.

use proc_macro2::Ident;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall};

use super::barriers::{Access, Kind};
use super::{NUMBERS, OF_MEMORY, Role, SPLITS};
use crate::refuse::{Result, refuse, refused};
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
                        // A text for `println!` may name variables: `{x}`.
                        proc_macro2::TokenTree::Literal(text) => {
                            let text = text.to_string();
                            let named = text.split('{').skip(1).filter_map(|part| {
                                let end = part.find(|c: char| !c.is_alphanumeric() && c != '_');
                                syn::parse_str(&part[..end.unwrap_or(part.len())]).ok()
                            });
                            names.extend(named);
                        }
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

/// Returns whether a thread may not end in this code: a loop without a range, or a function that may have one.
pub(super) fn may_loop(e: &Expr) -> bool {
    struct Loops(bool);
    impl<'a> Visit<'a> for Loops {
        fn visit_expr(&mut self, e: &'a Expr) {
            self.0 |= match e {
                Expr::While(_) | Expr::Loop(_) => true,
                Expr::Call(call) => {
                    !matches!(&*call.func, Expr::Path(path) if path.path.is_ident("Some"))
                }
                Expr::MethodCall(call) => !crate::names::is_of_rust(&call.method.to_string()),
                _ => false,
            };
            syn::visit::visit_expr(self, e);
        }
    }
    let mut loops = Loops(false);
    loops.visit_expr(e);
    loops.0
}

/// What block-level code reads of the memory of its block, outside of phases.
struct Reads<'t, 'o> {
    translator: &'t Translator<'o>,
    /// Whether to look into blocks of statements, too.
    nested: bool,
    found: Vec<Access>,
    /// Whether a value that the code uses may be one of that memory.
    from_memory: bool,
    /// Names that nested statements give to parts of the memory.
    parts: Vec<Ident>,
}

impl<'t, 'o> Reads<'t, 'o> {
    fn of(translator: &'t Translator<'o>, nested: bool, e: &Expr) -> Self {
        let mut reads =
            Self { translator, nested, found: Vec::new(), from_memory: false, parts: Vec::new() };
        reads.visit_expr(e);
        reads
    }

    /// Visits an argument of a phase, or of a function that has the block: these note what they do with handles, and
    /// closures of phases are no code of block level.
    fn argument(&mut self, e: &Expr) {
        match e {
            Expr::Closure(_) => {}
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|part| self.argument(part)),
            _ if self.translator.role(e) != Role::Value || self.is_part(e) => {}
            _ => self.visit_expr(e),
        }
    }

    /// Returns whether an expression leads to a part that a nested statement names.
    fn is_part(&self, e: &Expr) -> bool {
        match e {
            Expr::Paren(inner) => self.is_part(&inner.expr),
            Expr::Reference(inner) => self.is_part(&inner.expr),
            Expr::Unary(inner) => self.is_part(&inner.expr),
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.parts.contains(name)),
            _ => false,
        }
    }
}

impl<'a> Visit<'a> for Reads<'_, '_> {
    fn visit_expr(&mut self, e: &'a Expr) {
        match e {
            Expr::Path(_) | Expr::Macro(_) => {
                let roots = self.translator.roots_of(e);
                self.from_memory |= !roots.is_empty()
                    || names(e).iter().any(|name| {
                        let local = self.translator.local(&name.to_string());
                        self.parts.contains(name) || local.is_some_and(|local| local.from_memory)
                    });
                self.found.extend(roots.into_iter().map(|root| Access::new(root, Kind::Read)));
            }
            // What a function that has the block returns may be a value of the memory.
            Expr::Call(call)
                if call.args.iter().any(|arg| self.translator.role(arg) == Role::Block) =>
            {
                self.from_memory = true;
                call.args.iter().for_each(|arg| self.argument(arg));
            }
            _ => syn::visit::visit_expr(self, e),
        }
    }

    fn visit_block(&mut self, block: &'a Block) {
        if self.nested {
            syn::visit::visit_block(self, block);
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Some(init) = &local.init
            && self.translator.made(&init.expr).0 != Role::Value
        {
            let mut names = Vec::new();
            super::names_of(&local.pat, &mut names);
            self.parts.extend(names.into_iter().cloned());
        }
        syn::visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let name = call.method.to_string();
        match self.translator.role(&call.receiver) {
            Role::Block => call.args.iter().for_each(|arg| self.argument(arg)),
            Role::Memory | Role::Part if OF_MEMORY.contains(&name.as_str()) => {
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            _ => syn::visit::visit_expr_method_call(self, call),
        }
    }
}

/// Returns the arguments of a macro of kernels.
fn arguments(mac: &syn::Macro) -> Vec<Expr> {
    type Arguments = syn::punctuated::Punctuated<Expr, syn::Token![,]>;
    let parsed = mac.parse_body_with(Arguments::parse_terminated);
    parsed.map(|args| args.into_iter().collect()).unwrap_or_default()
}

/// Returns the error of an operation at block level that is for threads.
pub(crate) fn all_threads(at: &impl quote::ToTokens) -> syn::Error {
    refuse(
        at,
        "all threads of the block would do this",
        "let one of them do it, `block.one(|| …)`, or each: `block.run(count, |i| …)`",
    )
}

/// Finds patterns that bind references into the memory of a block, since nothing would know when they are read, and calls of
/// closures that are for threads.
struct Bindings<'t, 'o> {
    translator: &'t Translator<'o>,
    found: Option<syn::Error>,
}

impl Bindings<'_, '_> {
    fn matched(&mut self, value: &Expr) {
        let (role, roots) = self.translator.made(value);
        if role != Role::Value && !roots.is_empty() {
            self.found.get_or_insert(refuse(
                value,
                "this may bind references into the memory of a block",
                "copy the value first: `let x = tile[0];`",
            ));
        }
    }
}

impl<'a> Visit<'a> for Bindings<'_, '_> {
    // Their statements are looked at on their own.
    fn visit_block(&mut self, _: &'a Block) {}

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        for arg in arguments(mac) {
            let mut bindings = Bindings { translator: self.translator, found: None };
            bindings.visit_expr(&arg);
            self.found = self.found.take().or(bindings.found);
        }
    }

    // What they name counts where they are called.
    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        let s = self.translator;
        let given = !call.args.iter().any(|arg| s.role(arg) == Role::Block)
            && call.args.iter().any(|arg| s.is_for_threads(arg));
        if given || s.is_for_threads(&call.func) {
            self.found.get_or_insert(all_threads(&call.func));
        }
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_expr_match(&mut self, branch: &'a syn::ExprMatch) {
        self.matched(&branch.expr);
        syn::visit::visit_expr_match(self, branch);
    }

    fn visit_expr_let(&mut self, condition: &'a syn::ExprLet) {
        self.matched(&condition.expr);
        syn::visit::visit_expr_let(self, condition);
    }

    fn visit_expr_for_loop(&mut self, each: &'a syn::ExprForLoop) {
        if !crate::loops::is_range(&each.expr) {
            self.matched(&each.expr);
        }
        syn::visit::visit_expr_for_loop(self, each);
    }

    fn visit_pat_ident(&mut self, pat: &'a syn::PatIdent) {
        if let Some(by_ref) = &pat.by_ref {
            self.found.get_or_insert(refuse(
                by_ref,
                "block-level code binds no references by patterns",
                "copy the value, or write `let x = &tile[0];`",
            ));
        }
        syn::visit::visit_pat_ident(self, pat);
    }
}

impl Translator<'_> {
    /// Notes what a statement of block level reads before its own blocks and phases, and emits the mark of a barrier.
    pub(crate) fn note_reads(&mut self, e: &Expr) -> Result<()> {
        if self.level.is_none() {
            return Ok(());
        }
        self.check_phases(e)?;
        if self.uses_memory(e) {
            self.level.iter_mut().for_each(|level| level.reads = true);
        }
        let mut bindings = Bindings { translator: self, found: None };
        bindings.visit_expr(e);
        if let Some(error) = bindings.found {
            return Err(error);
        }
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
        // A handle that is only given another name, or swapped, is not read.
        if self.role(e) == Role::Value && !self.is_swap(e) {
            let found = Reads::of(self, false, e).found;
            self.note(found);
        }
        Ok(())
    }

    /// Returns whether an expression has atomic operations, or names a closure that has some.
    pub(crate) fn is_for_threads(&self, e: &Expr) -> bool {
        struct Atomics<'t, 'o>(&'t Translator<'o>, bool);
        impl<'a> Visit<'a> for Atomics<'_, '_> {
            fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
                self.1 |= self.0.is_of_threads(&call.method.to_string(), &call.receiver);
                syn::visit::visit_expr_method_call(self, call);
            }

            fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
                let name = path.path.get_ident().map(ToString::to_string);
                let local = name.and_then(|name| self.0.local(&name));
                self.1 |= local.is_some_and(|local| local.for_threads);
            }
        }
        let mut atomics = Atomics(self, false);
        atomics.visit_expr(e);
        atomics.1
    }

    /// Returns the memory of the block whose elements an expression names.
    pub(crate) fn read_roots(&self, e: &Expr) -> Vec<String> {
        struct Blocks(bool);
        impl<'a> Visit<'a> for Blocks {
            fn visit_block(&mut self, _: &'a Block) {
                self.0 = true;
            }
        }
        let mut blocks = Blocks(false);
        blocks.visit_expr(e);
        if blocks.0 {
            // Their statements may give names to parts.
            return self.roots_of(e);
        }
        let mut roots: Vec<String> =
            Reads::of(self, false, e).found.into_iter().map(|access| access.memory).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// Notes what a `let` of block level reads.
    pub(crate) fn note_let(&mut self, pat: &syn::Pat, init: &Expr) -> Result<()> {
        if self.level.is_some() {
            let mut bindings = Bindings { translator: self, found: None };
            bindings.visit_pat(pat);
            if let Some(error) = bindings.found {
                return Err(error);
            }
            if let Expr::Field(field) = init
                && let Expr::MethodCall(call) = &*field.base
                && SPLITS.contains(&call.method.to_string().as_str())
                && matches!(self.role(&call.receiver), Role::Memory | Role::Part)
            {
                return refused(
                    init,
                    "this names one part of two",
                    "name both: `let (low, high) = tile.split_at_mut(32);`",
                );
            }
        }
        self.note_reads(init)
    }

    /// Returns whether block-level code uses values of the memory of a block, which are wrong if a thread has left.
    pub(crate) fn uses_memory(&self, e: &Expr) -> bool {
        Reads::of(self, true, e).from_memory
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
            fn visit_macro(&mut self, mac: &'a syn::Macro) {
                for arg in arguments(mac) {
                    let mut phases = Phases(self.0, None);
                    phases.visit_expr(&arg);
                    self.1 = self.1.or(phases.1);
                }
            }

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

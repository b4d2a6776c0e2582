//! Statements.

use syn::{Expr, Item, Local, Pat, Stmt, UseTree};

use crate::blocks::Role;
use crate::patterns::Matching;
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value};

impl Translator<'_> {
    /// Translates statements, and returns the value of the last one.
    pub(crate) fn statements(&mut self, statements: &mut [Stmt]) -> Result<Value> {
        self.no_shadows(statements)?;
        // Items are in scope in their whole block, and there alone.
        self.items.push(crate::kernel::items(statements));
        let value = self.statements_in_scope(statements);
        self.items.pop();
        value
    }

    /// Refuses items that have the name of a variable around their block: in Rust they come before it.
    pub(crate) fn no_shadows(&self, statements: &[Stmt]) -> Result<()> {
        for statement in statements {
            match statement {
                Stmt::Item(Item::Const(item)) => self.no_variable(&item.ident)?,
                Stmt::Item(Item::Use(item)) => self.imports_no_variable(&item.tree)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn imports_no_variable(&self, tree: &UseTree) -> Result<()> {
        match tree {
            UseTree::Path(path) => self.imports_no_variable(&path.tree),
            UseTree::Name(name) => self.no_variable(&name.ident),
            UseTree::Rename(name) => self.no_variable(&name.rename),
            UseTree::Group(group) => {
                group.items.iter().try_for_each(|tree| self.imports_no_variable(tree))
            }
            UseTree::Glob(glob) => refused(
                glob,
                "functions of kernels import by name: `*` may import the name of a variable",
                "name what is imported, or import it outside of the function",
            ),
        }
    }

    fn no_variable(&self, name: &syn::Ident) -> Result<()> {
        match self.local(&name.to_string()) {
            Some(_) => refused(
                name,
                "this has the name of a variable around it",
                "give one of them another name",
            ),
            None => Ok(()),
        }
    }

    fn statements_in_scope(&mut self, statements: &mut [Stmt]) -> Result<Value> {
        let mut value = Value::unit();
        let count = statements.len();
        for (at, statement) in statements.iter_mut().enumerate() {
            if value.never {
                // Rust warns about unreachable statements. They are omitted from the C++, but translated for rustc's
                // copy.
                let (_, after) = self.captured(|s| s.statement(statement, at + 1 == count))?;
                drop(after);
                continue;
            }
            value = self.statement(statement, at + 1 == count)?;
        }
        Ok(value)
    }

    fn statement(&mut self, statement: &mut Stmt, last: bool) -> Result<Value> {
        self.line_marker(syn::spanned::Spanned::span(&*statement));
        match &*statement {
            Stmt::Local(Local { pat, init: Some(init), .. }) => self.note_let(pat, &init.expr)?,
            Stmt::Expr(e, _) => self.note_reads(e)?,
            Stmt::Macro(mac) => self.note_reads(&Expr::Macro(syn::ExprMacro {
                attrs: Vec::new(),
                mac: mac.mac.clone(),
            }))?,
            _ => {}
        }
        match statement {
            Stmt::Local(local) => self.local_statement(local),
            Stmt::Item(item) => self.item(item),
            Stmt::Expr(e, None) if last => match e {
                Expr::If(_) | Expr::Match(_) if has_no_value(e) => self.branch(e, false),
                _ => self.expr(e),
            },
            Stmt::Expr(e, _) => self.discarded(e),
            Stmt::Macro(mac) => {
                let mut e =
                    Expr::Macro(syn::ExprMacro { attrs: mac.attrs.clone(), mac: mac.mac.clone() });
                let value = self.macro_call(&mut e)?;
                let has_value = last && mac.semi_token.is_none();
                *statement = Stmt::Expr(e, if has_value { None } else { Some(Default::default()) });
                Ok(value)
            }
        }
    }

    /// Translates an expression whose value is not used.
    pub(crate) fn discarded(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::If(_) | Expr::Match(_) => self.branch(e, false),
            Expr::Block(block) if block.label.is_none() => {
                let value = self.block_value(&mut block.block)?;
                self.forced(&value);
                Ok(if value.never { value } else { Value::unit() })
            }
            _ => {
                let value = self.expr(e)?;
                self.forced(&value);
                Ok(if value.never { value } else { Value::unit() })
            }
        }
    }

    /// Emits an unused value, if it may fail.
    fn forced(&mut self, value: &Value) {
        if value.effect == Effect::Faults {
            self.emit(&format!("(void)({});", value.code));
        }
    }

    fn local_statement(&mut self, local: &mut Local) -> Result<Value> {
        if let Some(value) = self.block_let(local)? {
            return Ok(value);
        }
        let written = match &local.pat {
            Pat::Type(typed) => Some((*typed.ty).clone()),
            _ => None,
        };
        let mut ty = match &written {
            Some(ty) => self.ty(ty)?,
            None => "auto".to_owned(),
        };
        let Some(init) = &mut local.init else {
            return self.uninitialised(local, &ty);
        };
        if self.names_targets(&local.pat, &init.expr) {
            return refused(
                &init.expr,
                "what a phase runs over has no second name",
                "write it where the phase is called: `block.each((&mut tile, &mut sum), |i, (t, s)| …)`",
            );
        }
        let (role, roots) = self.made(&init.expr);
        if self.level.is_some() && role == Role::Own {
            ty = self.other_name(&local.pat)?;
        }
        let from_memory = self.level.is_some() && self.uses_memory(&init.expr);
        let for_threads = self.of_block && self.is_for_threads(&init.expr);
        let mut value = self.expr(&mut init.expr)?;
        if value.never {
            return Ok(value);
        }
        if matches!(*init.expr, Expr::Binary(_)) {
            value.code = self.apart(&local.pat, value.code);
        }
        if let Some((_, otherwise)) = &mut init.diverge {
            // The bindings of the pattern are not in scope in the `else`.
            let kept = self.keep(value);
            let mut matching = Matching::default();
            self.pattern(&mut local.pat, &kept.code, &mut matching)?;
            let (emitted, _) = self.captured(|s| s.branching(|s| s.discarded(otherwise)))?;
            if let Some(test) = matching.test() {
                self.emit(&format!("if (!({test})) {{\n{emitted}}}"));
            }
            self.bind(&matching);
        } else {
            self.declare_value(&mut local.pat, &ty, value)?;
        }
        if role != Role::Value {
            self.give_role(&local.pat, role, &roots);
        }
        if from_memory || for_threads {
            self.mark(&local.pat, |local| {
                local.from_memory |= from_memory;
                local.for_threads |= for_threads;
            });
        }
        Ok(Value::unit())
    }

    /// Returns the type of another name of a value of each thread: in C++ a reference, which cannot change.
    fn other_name(&self, pat: &Pat) -> Result<String> {
        match crate::patterns::single_name(pat) {
            Some((_, false)) => Ok("auto&".to_owned()),
            _ => refused(
                pat,
                "another name of a value of each thread is one name, which does not change",
                "write `let x = &mut value;`, or swap the values: `std::mem::swap(&mut a, &mut b)`",
            ),
        }
    }

    /// Declares the bindings of a pattern with a value.
    fn declare_value(&mut self, pat: &mut Pat, ty: &str, value: Value) -> Result<()> {
        match pat {
            Pat::Type(typed) => self.declare_value(&mut typed.pat, ty, value),
            Pat::Paren(inner) => self.declare_value(&mut inner.pat, ty, value),
            // The pattern of `let _ = place;` does not read the place.
            Pat::Wild(_) => {
                self.forced(&value);
                Ok(())
            }
            Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => {
                let (name, mutable) = (ident.ident.to_string(), ident.mutability.is_some());
                let mut unused = Matching::default();
                self.pattern(pat, "", &mut unused)?;
                let cpp = self.declare(&name, mutable);
                self.emit(&format!("{ty} {cpp} = {};", value.code));
                Ok(())
            }
            _ => {
                let name = self.name("t");
                self.emit(&format!("{ty} {name} = {};", value.code));
                self.bind_pattern(pat, &name)
            }
        }
    }

    /// Translates `let x: T;`, which is assigned later.
    fn uninitialised(&mut self, local: &mut Local, ty: &str) -> Result<Value> {
        let name = match &local.pat {
            Pat::Type(typed) => crate::patterns::single_name(&typed.pat),
            pat => crate::patterns::single_name(pat),
        };
        let Some((name, _)) = name else {
            return refused(&local.pat, "this `let` has no value", "declare one name at a time");
        };
        if ty == "auto" {
            return refused(
                &local.pat,
                "the type of this variable is not known where it is declared",
                "write it, as in `let x: f32;`, or take the value of the `if` or `match`: `let x = if … { … }`",
            );
        }
        let cpp = self.declare(&name, true);
        self.emit(&format!("{ty} {cpp};"));
        Ok(Value::unit())
    }

    fn item(&mut self, item: &mut Item) -> Result<Value> {
        match item {
            Item::Const(_) | Item::Use(_) => Ok(Value::unit()),
            Item::Static(_) => {
                refused(item, "kernels have no `static`", "use a `const`, or pass a slice")
            }
            Item::Fn(_) => {
                refused(item, "kernels contain no functions", "move it out, with `#[device]`")
            }
            Item::Macro(_) => {
                refused(item, "kernels contain no macros", "write what it expands to")
            }
            _ => refused(
                item,
                "kernels contain no items but `const` and `use`",
                "move it out of the function",
            ),
        }
    }
}

/// Returns whether an `if` or `match` certainly has no value, so that C++ needs no variable for it.
fn has_no_value(e: &Expr) -> bool {
    match e {
        Expr::If(branch) => match &branch.else_branch {
            None => true,
            Some((_, otherwise)) => {
                block_has_no_value(&branch.then_branch.stmts) || has_no_value(otherwise)
            }
        },
        Expr::Match(branch) => branch.arms.iter().any(|arm| has_no_value(&arm.body)),
        Expr::Block(block) => block_has_no_value(&block.block.stmts),
        Expr::Assign(_) | Expr::While(_) | Expr::ForLoop(_) => true,
        Expr::Binary(binary) => crate::places::is_assigning(&binary.op),
        _ => false,
    }
}

fn block_has_no_value(statements: &[Stmt]) -> bool {
    match statements.last() {
        None | Some(Stmt::Local(_) | Stmt::Item(_)) => true,
        Some(Stmt::Expr(e, Some(_))) => !leaves(e),
        Some(Stmt::Expr(e, None)) => has_no_value(e),
        Some(Stmt::Macro(mac)) => !mac.mac.path.is_ident("unreachable"),
    }
}

/// Returns whether an expression diverges.
fn leaves(e: &Expr) -> bool {
    matches!(e, Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Loop(_))
        || matches!(e, Expr::Macro(mac) if mac.mac.path.is_ident("unreachable"))
}

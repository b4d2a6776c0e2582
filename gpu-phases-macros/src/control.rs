//! `if` and `match`, as statements and as values.

use syn::{Block, Expr};

use crate::patterns::Matching;
use crate::places::is_place;
use crate::refuse::Result;
use crate::translate::{Effect, Translator, Value};

impl Translator<'_> {
    /// Translates an `if` or a `match`. `used`: its value is used.
    pub(crate) fn branch(&mut self, e: &mut Expr, used: bool) -> Result<Value> {
        if !used {
            return self.branch_into(e, None);
        }
        if let Some(value) = self.conditional(e)? {
            return Ok(value);
        }
        // rustc infers the type of the variable.
        let number = self.probes;
        let name = self.name("t");
        let mut place = Expr::Verbatim(proc_macro2::TokenStream::new());
        std::mem::swap(e, &mut place);
        self.probes += 1;
        let (emitted, value) = self.captured(|s| s.branch_into(&mut place, Some(&name)))?;
        let (probe, private) = (self.probe_name(number), self.private());
        *e = place;
        crate::exprs::replace(e, |place| quote::quote!(#private::typed(&#probe, #place)));
        let ty =
            self.hole(quote::quote!(#private::Types::name(&phases_types, #number, phases_text)));
        self.emit(&format!("{ty} {name};"));
        self.out.push_str(&emitted);
        Ok(if value.never { value } else { Value::constant(name) })
    }

    /// Translates `if c { a } else { b }` without statements: to the conditional operator, unless the C++ of a branch needs
    /// variables for its operands.
    fn conditional(&mut self, e: &mut Expr) -> Result<Option<Value>> {
        let Expr::If(branch) = e else { return Ok(None) };
        let simple =
            |block: &Block| matches!(&block.stmts[..], [syn::Stmt::Expr(e, None)] if is_simple(e));
        let otherwise = match &branch.else_branch {
            Some((_, otherwise)) => {
                matches!(&**otherwise, Expr::Block(block) if simple(&block.block))
            }
            None => false,
        };
        if !otherwise || !simple(&branch.then_branch) || !is_simple(&branch.cond) {
            return Ok(None);
        }
        let condition = self.operand(&mut branch.cond)?;
        let (before_then, then) =
            self.captured(|s| s.branching(|s| s.block_value(&mut branch.then_branch)))?;
        let Some((_, otherwise)) = &mut branch.else_branch else { return Ok(None) };
        let (before_otherwise, otherwise) =
            self.captured(|s| s.branching(|s| s.expr(otherwise)))?;
        let (test, then_code, else_code) = (condition.code, then.code, otherwise.code);
        if before_then.is_empty() && before_otherwise.is_empty() {
            let effect = condition.effect.max(then.effect).max(otherwise.effect);
            return Ok(Some(Value::new(
                format!("(v({test}) ? {then_code} : {else_code})"),
                effect,
            )));
        }
        let (name, ty) = (self.name("t"), self.probe(e));
        self.emit(&format!(
            "{ty} {name};\nif (v({test})) {{\n{before_then}{name} = {then_code};\n}} else {{\n\
             {before_otherwise}{name} = {else_code};\n}}"
        ));
        Ok(Some(Value::constant(name)))
    }

    /// Translates a branch as statements, which assign to `target`.
    fn branch_into(&mut self, e: &mut Expr, target: Option<&str>) -> Result<Value> {
        match e {
            Expr::If(branch) => self.if_into(branch, target),
            Expr::Match(branch) => self.match_into(branch, target),
            Expr::Block(block) if block.label.is_none() => {
                let value = self.block_value(&mut block.block)?;
                self.assign_to(target, value)
            }
            other => {
                let value =
                    if target.is_some() { self.expr(other)? } else { self.discarded(other)? };
                self.assign_to(target, value)
            }
        }
    }

    fn assign_to(&mut self, target: Option<&str>, value: Value) -> Result<Value> {
        if value.never {
            return Ok(value);
        }
        match target {
            Some(target) => self.emit(&format!("{target} = {};", value.code)),
            None if value.effect == Effect::Faults => {
                self.emit(&format!("(void)({});", value.code));
            }
            None => {}
        }
        Ok(Value::unit())
    }

    fn if_into(&mut self, branch: &mut syn::ExprIf, target: Option<&str>) -> Result<Value> {
        self.scoped(|s| {
            let conditions = s.conditions(&mut branch.cond)?;
            let mut braces = 0;
            // With several conditions each of them jumps to the `else`.
            let label =
                (conditions.len() > 1 && branch.else_branch.is_some()).then(|| s.name("otherwise"));
            let end = label.as_ref().map(|_| s.name("end"));
            if label.is_some() {
                s.has_label();
                s.emit("{");
            }
            for (emitted, test, matching) in conditions {
                s.out.push_str(&emitted);
                s.emit(&format!("if ({test}) {{"));
                braces += 1;
                s.rebind(&matching);
            }
            let then = s.branching(|s| s.block_value(&mut branch.then_branch))?;
            let then = s.assign_to(target, then)?;
            if let Some(end) = &end {
                s.emit(&format!("goto {end};"));
            }
            s.emit(&"}".repeat(braces));
            if label.is_some() {
                s.emit("}");
            }
            let Some((_, otherwise)) = &mut branch.else_branch else { return Ok(Value::unit()) };
            if label.is_none() {
                s.emit("else {");
            } else {
                s.emit("{");
            }
            // The bindings of the condition are not in scope in the `else`.
            let names = s.scopes.pop();
            let value = s.branching(|s| s.branch_into(otherwise, target));
            s.scopes.extend(names);
            s.emit("}");
            if let Some(end) = &end {
                s.emit(&format!("{end}:;"));
            }
            Ok(if value?.never && then.never { Value::never() } else { Value::unit() })
        })
    }

    /// Translates a condition, which is a chain of `&&` if it contains `let`: for each part the statements before it,
    /// its test, and its bindings.
    pub(crate) fn conditions(&mut self, e: &mut Expr) -> Result<Vec<(String, String, Matching)>> {
        if !contains_let(e) {
            let (emitted, value) = self.captured(|s| s.operand(e))?;
            return Ok(vec![(emitted, format!("v({})", value.code), Matching::default())]);
        }
        match e {
            Expr::Paren(inner) => self.conditions(&mut inner.expr),
            Expr::Binary(binary) => {
                let mut conditions = self.conditions(&mut binary.left)?;
                conditions.extend(self.branching(|s| s.conditions(&mut binary.right))?);
                Ok(conditions)
            }
            Expr::Let(condition) => {
                let mut matching = Matching::default();
                let (emitted, ()) = self.captured(|s| {
                    let name = s.scrutinee(&mut condition.expr)?;
                    s.pattern(&mut condition.pat, &name, &mut matching)
                })?;
                // The bindings are in scope in the conditions that follow.
                let names: Vec<_> = matching.bindings.drain(..).collect();
                for (name, mutable, value) in names {
                    let cpp = self.declare(&name, mutable);
                    matching.bindings.push((cpp, mutable, value));
                }
                Ok(vec![(emitted, matching.test().unwrap_or_else(|| "true".to_owned()), matching)])
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Emits the declarations of the bindings from [`Self::conditions`].
    pub(crate) fn rebind(&mut self, matching: &Matching) {
        for (cpp, _, value) in &matching.bindings {
            self.emit(&format!("auto {cpp} = {value};"));
        }
    }

    /// Evaluates the scrutinee once, and returns its C++ name. A place stays a place.
    fn scrutinee(&mut self, e: &mut Expr) -> Result<String> {
        let by = if is_place(e) { "auto&&" } else { "auto" };
        let value = if is_place(e) { self.place(e)? } else { self.operand(e)? };
        let name = self.name("m");
        self.emit(&format!("{by} {name} = {};", value.code));
        Ok(name)
    }

    fn match_into(&mut self, branch: &mut syn::ExprMatch, target: Option<&str>) -> Result<Value> {
        let value = self.scrutinee(&mut branch.expr)?;
        let guarded = branch.arms.iter().any(|arm| arm.guard.is_some());
        let end = self.name("end");
        if guarded {
            self.has_label();
        }
        let count = branch.arms.len();
        let mut never = true;
        let mut always = false;
        let mut text = String::new();
        for (at, arm) in branch.arms.iter_mut().enumerate() {
            let (emitted, (test, result)): (String, (Option<String>, Value)) =
                self.captured(|s| {
                    s.branching(|s| {
                        s.scoped(|s| {
                            let mut matching = Matching::default();
                            s.pattern(&mut arm.pat, &value, &mut matching)?;
                            s.bind(&matching);
                            if let Some((_, guard)) = &mut arm.guard {
                                let guard = s.operand(guard)?;
                                s.emit(&format!("if (v({})) {{", guard.code));
                            }
                            let result = s.branch_into(&mut arm.body, target)?;
                            if guarded && !result.never {
                                s.emit(&format!("goto {end};"));
                            }
                            if arm.guard.is_some() {
                                s.emit("}");
                            }
                            Ok((matching.test(), result))
                        })
                    })
                })?;
            never &= result.never;
            if always {
                continue;
            }
            let test = test.unwrap_or_else(|| "true".to_owned());
            // rustc has proved that the match is exhaustive, so the last arm needs no test.
            let last = at + 1 == count && arm.guard.is_none();
            always = (last || test == "true") && arm.guard.is_none();
            match (guarded, always, at) {
                (true, true, _) => text.push_str(&format!("{{\n{emitted}}}\n")),
                (true, false, _) => text.push_str(&format!("if ({test}) {{\n{emitted}}}\n")),
                (false, true, 0) => text.push_str(&format!("{{\n{emitted}}}\n")),
                (false, true, _) => text.push_str(&format!("else {{\n{emitted}}}\n")),
                (false, false, 0) => text.push_str(&format!("if ({test}) {{\n{emitted}}}\n")),
                (false, false, _) => text.push_str(&format!("else if ({test}) {{\n{emitted}}}\n")),
            }
        }
        if guarded {
            text.push_str(&format!("{end}:;\n"));
        }
        self.out.push_str(&text);
        Ok(if never && count > 0 { Value::never() } else { Value::unit() })
    }
}

/// Returns whether an expression has no statements, and its C++ none but declarations of variables.
fn is_simple(e: &Expr) -> bool {
    match e {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Paren(inner) => is_simple(&inner.expr),
        Expr::Group(inner) => is_simple(&inner.expr),
        Expr::Unary(unary) => is_simple(&unary.expr),
        Expr::Field(field) => is_simple(&field.base),
        Expr::Cast(cast) => is_simple(&cast.expr),
        Expr::Index(index) => is_simple(&index.expr) && is_simple(&index.index),
        Expr::Binary(binary) => {
            !crate::places::is_assigning(&binary.op)
                && is_simple(&binary.left)
                && is_simple(&binary.right)
        }
        _ => false,
    }
}

fn contains_let(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Paren(inner) => contains_let(&inner.expr),
        Expr::Binary(binary) => contains_let(&binary.left) || contains_let(&binary.right),
        _ => false,
    }
}

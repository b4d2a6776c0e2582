//! Closures of `each` whose indices follow from no element, and that end by writing theirs: `*out = value;`.
//!
//! A check before each load keeps a thread from having several loads under way. So the C++ has such a body three times. The
//! first copy loads nothing and only checks the indices, which leaves little of it. If all are in bounds, the second copy
//! runs, which checks no index; if another of its checks fails, it does not write. The third one runs if a check has failed,
//! and finds the first failure.
//!
//! Such a body may have loops with constant ends. Their indices are sums and products that grow with the counters, so the
//! first copy checks the last iteration alone.

use syn::{BinOp, Block, Expr, ExprAssign, ExprForLoop, ExprIndex, Pat, Stmt, UnOp};

use crate::counted::is_constant;
use crate::names::is_pure;
use crate::places::is_assigning;
use crate::refuse::Result;
use crate::translate::Translator;

/// The longest C++ that is written three times.
const LONG: usize = 16_000;

/// The parts of such a body.
pub(super) struct Straight<'b> {
    statements: &'b mut [Stmt],
    last: &'b mut ExprAssign,
    /// The variables with values that follow from elements.
    loaded: Vec<String>,
}

/// Returns the parts of a closure's body, if it has this form and at least two indices.
pub(super) fn parts<'b>(body: &'b mut Expr, item: &Pat) -> Option<Straight<'b>> {
    let Pat::Ident(item) = item else { return None };
    let (statements, last) = match body {
        Expr::Block(block) if block.label.is_none() => {
            let (last, statements) = block.block.stmts.split_last_mut()?;
            match last {
                Stmt::Expr(Expr::Assign(last), _) => (statements, last),
                _ => return None,
            }
        }
        Expr::Assign(last) => (&mut [][..], last),
        _ => return None,
    };
    let Expr::Unary(to) = &*last.left else { return None };
    let is_item = matches!(to.op, UnOp::Deref(_))
        && matches!(&*to.expr, Expr::Path(path) if path.path.is_ident(&item.ident));
    let mut flow = Flow { item: item.ident.to_string(), ..Flow::default() };
    flow.statements(statements)?;
    flow.value(&last.right)?;
    (is_item && flow.indices > 1).then_some(Straight { statements, last, loaded: flow.loaded })
}

/// Which variables have values that follow from elements.
#[derive(Default)]
struct Flow {
    item: String,
    loaded: Vec<String>,
    indices: usize,
    /// Whether an element decides if this code runs.
    conditional: bool,
    /// The depth of loops.
    depth: usize,
    /// The variables that loops assign or declare, but for sums and products that grow with the counters.
    changed: Vec<String>,
}

impl Flow {
    /// Follows statements. `None`: the body has something else than arithmetic, or an index follows from an element.
    fn statements(&mut self, statements: &[Stmt]) -> Option<bool> {
        let mut loaded = false;
        for statement in statements {
            loaded = match statement {
                Stmt::Local(local) => {
                    let init = local.init.as_ref().filter(|init| init.diverge.is_none())?;
                    let loaded = self.value(&init.expr)?;
                    if self.depth > 0 && !self.grows(&init.expr) {
                        names_of(&local.pat, &mut self.changed);
                    }
                    let pat = match &local.pat {
                        Pat::Type(typed) => &*typed.pat,
                        pat => pat,
                    };
                    self.binds(pat, loaded)?;
                    false
                }
                Stmt::Expr(e, _) => self.value(e)?,
                Stmt::Item(_) | Stmt::Macro(_) => return None,
            };
        }
        Some(loaded)
    }

    fn binds(&mut self, pat: &Pat, loaded: bool) -> Option<()> {
        match pat {
            Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => {
                if loaded || self.conditional {
                    self.note(ident.ident.to_string());
                }
                Some(())
            }
            Pat::Slice(parts) => parts.elems.iter().try_for_each(|part| self.binds(part, loaded)),
            Pat::Tuple(parts) => parts.elems.iter().try_for_each(|part| self.binds(part, loaded)),
            Pat::Wild(_) => Some(()),
            _ => None,
        }
    }

    fn note(&mut self, name: String) {
        if !self.loaded.contains(&name) {
            self.loaded.push(name);
        }
    }

    /// Follows the parts of an expression, and returns whether one of their values follows from an element.
    fn values<'e>(&mut self, parts: impl IntoIterator<Item = &'e Expr>) -> Option<bool> {
        parts.into_iter().try_fold(false, |loaded, part| Some(self.value(part)? | loaded))
    }

    fn value(&mut self, e: &Expr) -> Option<bool> {
        match e {
            Expr::Lit(_) => Some(false),
            Expr::Paren(inner) => self.value(&inner.expr),
            Expr::Group(inner) => self.value(&inner.expr),
            Expr::Cast(cast) => self.value(&cast.expr),
            Expr::Field(field) => self.value(&field.base),
            Expr::Repeat(array) => self.value(&array.expr),
            Expr::Array(array) => self.values(&array.elems),
            Expr::Tuple(tuple) => self.values(&tuple.elems),
            Expr::Path(path) => match path.path.get_ident().map(ToString::to_string) {
                Some(name) if name == self.item => None,
                name => Some(name.is_some_and(|name| self.loaded.contains(&name))),
            },
            Expr::Unary(unary) => match unary.op {
                UnOp::Neg(_) | UnOp::Not(_) => self.value(&unary.expr),
                _ => None,
            },
            Expr::Binary(binary) if is_assigning(&binary.op) => {
                self.assigns(&binary.left, &binary.right)
            }
            // Each iteration reaches each index.
            Expr::If(_) if self.depth > 0 => None,
            Expr::Binary(lazy)
                if self.depth > 0 && matches!(lazy.op, BinOp::And(_) | BinOp::Or(_)) =>
            {
                None
            }
            Expr::Binary(binary) => {
                let left = self.value(&binary.left)?;
                let lazy = matches!(binary.op, BinOp::And(_) | BinOp::Or(_));
                let right = self.under(lazy && left, |flow| flow.value(&binary.right))?;
                Some(left | right)
            }
            Expr::Assign(assign) => self.assigns(&assign.left, &assign.right),
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                // An `Atomic` may change between the copies, and there is no value in place of that of `None`.
                if !is_pure(&name) || matches!(&*name, "load" | "unwrap" | "expect") {
                    return None;
                }
                let receiver = self.value(&call.receiver)?;
                Some(self.values(&call.args)? | receiver)
            }
            Expr::Index(index) => {
                // Whether an element is in bounds must not depend on another.
                if self.conditional || self.value(&index.index)? {
                    return None;
                }
                if self.depth > 0 && !self.grows(&index.index) {
                    return None;
                }
                self.indices += 1;
                self.value(&index.expr)?;
                Some(true)
            }
            Expr::Block(block) if block.label.is_none() => self.block(&block.block),
            Expr::ForLoop(each) if each.label.is_none() => self.repeated(each),
            Expr::If(branch) => {
                let loaded = self.value(&branch.cond)?;
                let then = self.under(loaded, |flow| flow.block(&branch.then_branch))?;
                let otherwise = match &branch.else_branch {
                    Some((_, otherwise)) => self.under(loaded, |flow| flow.value(otherwise))?,
                    None => false,
                };
                Some(then | otherwise | loaded)
            }
            _ => None,
        }
    }

    /// Follows code that runs under a condition. `loaded`: the condition follows from an element.
    fn under<R>(&mut self, loaded: bool, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.conditional;
        self.conditional |= loaded;
        let result = f(self);
        self.conditional = outer;
        result
    }

    fn block(&mut self, block: &Block) -> Option<bool> {
        self.statements(&block.stmts)
    }

    fn repeated(&mut self, each: &ExprForLoop) -> Option<bool> {
        let (Pat::Ident(_), Expr::Range(range)) = (&*each.pat, &*each.expr) else { return None };
        let (start, end) = (range.start.as_deref()?, range.end.as_deref()?);
        let until = matches!(range.limits, syn::RangeLimits::HalfOpen(_));
        if !until || !is_constant(start) || !is_constant(end) || self.conditional {
            return None;
        }
        self.depth += 1;
        // What an iteration assigns, the next one reads.
        for _ in 0..2 {
            self.block(&each.body)?;
        }
        self.depth -= 1;
        if self.depth == 0 {
            // The inspection runs the last iteration alone, so it does not know what loops have changed.
            self.changed.clone().into_iter().for_each(|name| self.note(name));
        }
        Some(false)
    }

    /// Returns whether an expression is a sum of products of counters and of values from before the loops.
    fn grows(&self, e: &Expr) -> bool {
        match e {
            Expr::Lit(_) => true,
            Expr::Paren(inner) => self.grows(&inner.expr),
            Expr::Group(inner) => self.grows(&inner.expr),
            Expr::Path(path) => {
                path.path.get_ident().is_none_or(|name| !self.changed.contains(&name.to_string()))
            }
            Expr::Binary(binary) => {
                matches!(binary.op, BinOp::Add(_) | BinOp::Mul(_))
                    && self.grows(&binary.left)
                    && self.grows(&binary.right)
            }
            _ => false,
        }
    }

    fn assigns(&mut self, place: &Expr, value: &Expr) -> Option<bool> {
        let loaded = self.value(value)?;
        let Expr::Path(path) = place else { return None };
        let name = path.path.get_ident()?.to_string();
        if self.depth > 0 && !self.changed.contains(&name) {
            self.changed.push(name.clone());
        }
        if name == self.item {
            return None;
        }
        if loaded || self.conditional {
            self.note(name);
        }
        Some(false)
    }
}

/// Collects the names that a pattern binds.
fn names_of(pat: &Pat, names: &mut Vec<String>) {
    match pat {
        Pat::Ident(ident) => names.push(ident.ident.to_string()),
        Pat::Type(typed) => names_of(&typed.pat, names),
        Pat::Slice(parts) => parts.elems.iter().for_each(|part| names_of(part, names)),
        Pat::Tuple(parts) => parts.elems.iter().for_each(|part| names_of(part, names)),
        _ => {}
    }
}

/// What the first copy of such a body, outside of its loops, keeps.
#[derive(Debug)]
pub(crate) struct Apart {
    loaded: Vec<String>,
    /// The C++ variables with the lengths that it names, for the second copy.
    kept: Vec<String>,
    /// The scopes outside of conditions.
    scopes: usize,
    /// The C++ variables with the distances from a variable, of the slice, and of that variable.
    reaches: Vec<[String; 3]>,
}

impl Translator<'_> {
    /// Returns the value of a `let`, which may be such a length.
    pub(crate) fn apart(&mut self, pat: &Pat, code: String) -> String {
        let name = crate::patterns::single_name(pat).map(|(name, _)| name);
        let known = |apart: &Apart| name.is_some_and(|name| !apart.loaded.contains(&name));
        if !self.apart.as_ref().is_some_and(known) {
            return code;
        }
        let kept = self.name("kept");
        let code = format!("apart(c, {kept}, {code})");
        self.apart.iter_mut().for_each(|apart| apart.kept.push(kept.clone()));
        code
    }

    /// Returns the C++ of an element at a variable plus or minus a number, if neither the slice nor the variable changes in
    /// the body: one check suffices for all distances from a variable.
    pub(crate) fn near(&mut self, element: &ExprIndex, codes: [&str; 2]) -> Option<String> {
        let line = crate::exprs::line_of(&element.index);
        let (from, function) = match &*element.index {
            Expr::Binary(sum) => match sum.op {
                BinOp::Add(_) => (&*sum.left, "o_add"),
                BinOp::Sub(_) => (&*sum.left, "o_sub"),
                _ => return None,
            },
            alone => (alone, ""),
        };
        let scopes = self.apart.as_ref()?.scopes;
        let fixed = |e: &Expr| {
            let Expr::Path(path) = e else { return None };
            let name = path.path.get_ident()?.to_string();
            let known = self.scopes.iter().rposition(|scope| scope.contains_key(&name))?;
            let local = self.local(&name)?;
            (known < scopes && !local.mutable).then(|| local.cpp.clone())
        };
        let (slice, from) = (fixed(&element.expr)?, fixed(from)?);
        let [base, at] = codes;
        let by = match function {
            "" => "usize(0)",
            _ => at.strip_prefix(&format!("{function}(c, {line}, {from}, "))?.strip_suffix(')')?,
        };
        let ahead = function != "o_sub";
        let known = |apart: &Apart| {
            let mut reaches = apart.reaches.iter();
            reaches.find(|[_, x, i]| *x == slice && *i == from).map(|[reach, ..]| reach.clone())
        };
        let reach = match self.apart.as_ref().and_then(known) {
            Some(reach) => reach,
            None => {
                let reach = self.name("reach");
                let reaches = self.apart.iter_mut().map(|apart| &mut apart.reaches);
                reaches.for_each(|all| all.push([reach.clone(), slice.clone(), from.clone()]));
                reach
            }
        };
        Some(format!("near<{ahead}>(c, {line}, d({base}), d({from}), d({by}), {reach})"))
    }
}

/// Translates such a body.
pub(super) fn translate(s: &mut Translator<'_>, body: Straight<'_>) -> Result<()> {
    let Straight { statements, last, loaded } = body;
    let value = s.name("value");
    let entry = s.new_body();
    s.straight = true;
    let translated = s.body(entry, |s| {
        let scopes = s.scopes.len();
        s.apart = Some(Apart { loaded, kept: Vec::new(), scopes, reaches: Vec::new() });
        s.statements(statements)?;
        s.line_marker(syn::spanned::Spanned::span(&*last));
        let result = s.operand(&mut last.right)?;
        s.emit(&format!("auto {value} = {};", result.code));
        Ok(())
    });
    let (kept, reaches) =
        s.apart.take().map(|apart| (apart.kept, apart.reaches)).unwrap_or_default();
    s.straight = false;
    let (text, entry) = translated?;
    for kept in kept {
        s.emit(&format!("u64_raw {kept} = 0;"));
    }
    let (exact, outer, mut inside) = (s.name("exact"), s.name("c"), String::new());
    for [reach, slice, from] in reaches {
        s.emit(&format!("reach {reach};"));
        inside.push_str(&format!("{reach}.check({exact}, d({from}), d({slice}));\n"));
    }
    let place = s.place(&mut last.left)?.code;
    let store = format!("{place} = {value};");
    if !entry.pure || entry.calls || text.contains("goto ") || text.len() > LONG {
        s.emit(&format!("{{\n{text}{store} }}"));
        return Ok(());
    }
    s.emit(&format!(
        "{{ bool {exact} = !inspects; const auto {outer} = c;\n\
         if (inspects) {{ const auto c = inspecting({outer}, {exact});\n{text}(void){value};\n{inside}}}\n\
         if (!{exact}) {{ const auto c = inspected({outer}, {exact});\n{text}if (!{exact}) {store} }}\n\
         if ({exact}) {{\n{text}{store} }} }}"
    ));
    Ok(())
}

//! `for` loops: over ranges, their steps and reverses, and over the elements of arrays and slices.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::visit::Visit;
use syn::{Expr, ExprForLoop};

use crate::checks::Shape;
use crate::exprs::{line_of, replace};
use crate::loops::{Loop, PROGRESS, as_range, is_range};
use crate::patterns::single_name;
use crate::places::is_place;
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

impl Translator<'_> {
    pub(crate) fn for_range(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        if is_range(&each.expr) {
            return self.over_range(each, entry, false);
        }
        match &mut *each.expr {
            Expr::MethodCall(call) if call.method == "rev" && is_range(&call.receiver) => {
                self.over_range(each, entry, true)
            }
            Expr::MethodCall(call) if call.method == "step_by" && is_range(&call.receiver) => {
                self.over_steps(each, entry)
            }
            Expr::MethodCall(call) if self.may_be_structure(&call.receiver) => {
                self.over_items(each, entry)
            }
            _ => self.over_elements(each, entry),
        }
    }

    /// Translates `for item in structure.method(…)`.
    fn over_items(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        let value = self.operand(&mut each.expr)?;
        let private = self.private();
        replace(&mut each.expr, |call| quote!(#private::items(#call)));
        let items = self.name("x");
        self.emit(&format!("auto {items} = {};", value.code));
        self.meets(&each.body, false);
        let ExprForLoop { pat, body, .. } = each;
        let (text, entry) = self.body(entry, |s| {
            s.meets(body, true);
            s.bind_pattern(pat, &format!("{items}.item()"))?;
            s.block_statements(body)
        })?;
        self.leave_outer_pure();
        self.emit(&format!("while ({items}.next()) {{ {PROGRESS}\n{text}}}"));
        self.after_loop(&entry);
        Ok(Value::unit())
    }

    /// Translates the ends of a range to a C++ object.
    fn range_object(&mut self, e: &mut Expr) -> Result<(String, bool)> {
        let Some(range) = as_range(e) else {
            return refused(e, "this is no range", "write `a..b`");
        };
        let inclusive = range.inclusive;
        let values = self.operands([range.start, range.end])?;
        let name = self.name("r");
        self.emit(&format!("const auto {name} = upto({});", crate::exprs::codes(&values)));
        Ok((name, inclusive))
    }

    /// Declares the counter, and translates the body. `by_index`: the variable is the counter, so that index checks
    /// can be hoisted.
    fn counted_body(
        &mut self,
        each: &mut ExprForLoop,
        mut entry: Loop,
        value: &str,
        by_index: bool,
    ) -> Result<(String, Loop)> {
        entry.counter = match single_name(&each.pat) {
            Some((name, false)) if by_index => Some(name),
            _ => None,
        };
        entry.known = self.name("known");
        entry.last = self.name("last");
        entry.level = self.branches;
        let ExprForLoop { pat, body, .. } = each;
        let counter = entry.counter.clone();
        let translated = self.body(entry, |s| {
            s.bind_pattern(pat, value)?;
            if let (Some(counter), Some(scope)) = (&counter, s.scopes.last_mut())
                && let Some(local) = scope.get_mut(counter)
            {
                local.counter = true;
            }
            s.block_statements(body)
        })?;
        self.leave_outer_pure();
        Ok(translated)
    }

    /// Makes rustc call a method of iterators by its path: a trait of the program may have such a method.
    fn of_iterators(e: &mut Expr) {
        let Expr::MethodCall(call) = e else { return };
        let (receiver, method, args) = (&call.receiver, &call.method, &call.args);
        let called = quote_spanned!(method.span()=> ::core::iter::Iterator::#method);
        let args = args.iter();
        let by_path = quote!(#called(#receiver #(, #args)*));
        replace(e, |_| by_path);
    }

    /// Translates `a..b` and `a..=b`; `reversed`: with `.rev()`.
    fn over_range(
        &mut self,
        each: &mut ExprForLoop,
        mut entry: Loop,
        reversed: bool,
    ) -> Result<Value> {
        let private = self.private();
        // The counters of outer loops of block level, which bound what this loop counts.
        let mut outer: Vec<(String, TokenStream)> = Vec::new();
        if self.level.is_some() {
            let known = |entry: &Loop| Some((entry.name.clone()?, entry.most.clone()?));
            outer.extend(self.loops.iter().filter_map(known));
        }
        entry.name = single_name(&each.pat).map(|(name, _)| name);
        entry.most = ends_of(&each.expr).and_then(|(_, end)| bound(end, &outer));
        if self.straight && !reversed {
            return self.inspected_range(each);
        }
        if let Some(counts) = iterations(each, &outer, &private) {
            entry.unroll = self.hole(quote!(#private::unroll(#counts, 16, "")));
            entry.unroll_fast = self.hole(quote!(#private::unroll(#counts, 64, "")));
            entry.unroll_exact =
                self.hole(quote!(#private::unroll(#counts, 16, "_Pragma(\"unroll 1\") ")));
        }
        let ends = match &mut *each.expr {
            Expr::MethodCall(call) if reversed => &mut *call.receiver,
            range => range,
        };
        let (range, inclusive) = self.range_object(ends)?;
        if reversed {
            Self::of_iterators(&mut each.expr);
        }
        let counter = self.name("j");
        let (body, entry) =
            self.counted_body(each, entry, &format!("{range}.number({counter})"), true)?;
        let (from, to, step) =
            if reversed { ("end", "start", "before") } else { ("start", "end", "next") };
        let count = format!("{range}.distance()");
        let shape = if inclusive {
            let more = self.name("more");
            Shape {
                head: format!(
                    "{{ bool {more} = {range}.start.v <= {range}.end.v;\n\
                     for (auto {counter} = {range}.{from}.v; {more}; {more} = {counter} != {range}.{to}.v, \
                     {counter} = {step}({counter})) {{"
                ),
                tail: "} }",
                count,
                some: format!("{range}.start.v <= {range}.end.v"),
                last: format!("{range}.number({range}.end.v)"),
                range,
                counter: None,
            }
        } else {
            let head = if reversed {
                format!(
                    "for (auto {counter} = {range}.end.v; {counter} > {range}.start.v;) {{ --{counter};"
                )
            } else {
                format!(
                    "for (auto {counter} = {range}.start.v; {counter} < {range}.end.v; ++{counter}) {{"
                )
            };
            Shape {
                head,
                tail: "}",
                count,
                some: format!("{range}.start.v < {range}.end.v"),
                last: format!("{range}.number(before({range}.end.v))"),
                range,
                counter: (!reversed).then_some(counter),
            }
        };
        self.counted(&entry, &shape, &body);
        Ok(Value::unit())
    }

    /// Translates `a..b` with constant ends, in a body whose indices are inspected. The inspection runs the last iteration.
    fn inspected_range(&mut self, each: &mut ExprForLoop) -> Result<Value> {
        let private = self.private();
        let unroll = match iterations(each, &[], &private) {
            Some(counts) => self.hole(quote!(#private::unroll(#counts, 16, ""))),
            None => String::new(),
        };
        let (range, _) = self.range_object(&mut each.expr)?;
        let (counter, outer, ends) = (self.name("j"), self.name("c"), self.name("r"));
        let ExprForLoop { pat, body, .. } = each;
        let apart = self.apart.take();
        let (text, ()) = self.captured(|s| {
            s.scoped(|s| {
                s.bind_pattern(pat, &format!("{ends}.number({counter})"))?;
                s.block_statements(body)
            })
        })?;
        self.apart = apart;
        self.emit(&format!(
            "{{ const auto {outer} = c; const auto {ends} = corner({outer}, {range});\n\
             {unroll}for (auto {counter} = {ends}.start.v; {counter} < {ends}.end.v; ++{counter}) {{\n\
             const auto c = strictly({outer});\n{text}}} }}"
        ));
        Ok(Value::unit())
    }

    fn over_steps(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        let line = line_of(&each.expr);
        let Expr::MethodCall(call) = &mut *each.expr else { return Ok(Value::unit()) };
        let (range, inclusive) = self.range_object(&mut call.receiver)?;
        let Some(step) = call.args.first_mut() else {
            return refused(call, "`step_by` takes a step", "write `.step_by(2)`");
        };
        let step = self.operand(step)?;
        Self::of_iterators(&mut each.expr);
        let (by, counter) = (self.name("by"), self.name("j"));
        self.emit(&format!("const usize {by} = {};", step.code));
        self.emit(&format!("if ({by}.v == 0) c.fail({line}, Assert);"));
        let (body, entry) =
            self.counted_body(each, entry, &format!("{range}.step({counter}, {by})"), true)?;
        self.emit(&format!("const auto n_{counter} = {range}.steps({by}, {inclusive});"));
        let shape = Shape {
            head: format!("for (u64_raw {counter} = 0; {counter} < n_{counter}; ++{counter}) {{"),
            tail: "}",
            count: format!("n_{counter}"),
            some: format!("n_{counter} > 0"),
            last: format!("{range}.step(n_{counter} - 1, {by})"),
            range,
            counter: None,
        };
        self.counted(&entry, &shape, &body);
        Ok(Value::unit())
    }

    /// Translates `for x in &a`, `a.iter()`, `a.iter().enumerate()`, and arrays by value.
    fn over_elements(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        let counter = self.name("j");
        let (items, setup) = self.elements(&mut each.expr, &counter)?;
        let (body, entry) = self.counted_body(each, entry, &items, false)?;
        let shape = Shape {
            head: format!("for (len {counter} = 0; {counter} < {setup}; ++{counter}) {{"),
            tail: "}",
            count: setup,
            some: "true".to_owned(),
            last: String::new(),
            range: String::new(),
            counter: None,
        };
        self.counted(&entry, &shape, &body);
        Ok(Value::unit())
    }

    /// Returns the item at a position, and the number of items, as C++ expressions.
    fn elements(&mut self, e: &mut Expr, counter: &str) -> Result<(String, String)> {
        match e {
            Expr::Paren(inner) => self.elements(&mut inner.expr, counter),
            Expr::MethodCall(call) if call.method == "enumerate" => {
                let (item, count) = self.elements(&mut call.receiver, counter)?;
                Self::of_iterators(e);
                Ok((format!("tup(usize({counter}), {item})"), count))
            }
            Expr::MethodCall(call) if call.method == "zip" && call.args.len() == 1 => {
                let (first, count) = self.elements(&mut call.receiver, counter)?;
                let (second, other) = self.elements(&mut call.args[0], counter)?;
                Self::of_iterators(e);
                Ok((format!("tup({first}, {second})"), format!("shorter({count}, {other})")))
            }
            Expr::MethodCall(call) if call.method == "copied" => {
                let (item, count) = self.elements(&mut call.receiver, counter)?;
                Self::of_iterators(e);
                Ok((format!("deref({item})"), count))
            }
            Expr::MethodCall(call) if call.method == "iter" || call.method == "iter_mut" => {
                if is_part(&call.receiver) {
                    let part = &call.receiver;
                    *call.receiver = match call.method == "iter" {
                        true => syn::parse_quote!((&#part)),
                        false => syn::parse_quote!((&mut #part)),
                    };
                }
                let by = if call.method == "iter" { "item" } else { "item_mut" };
                let value = self.place(&mut call.receiver)?;
                let name = self.name("x");
                self.emit(&format!("auto&& {name} = d({});", value.code));
                // A method of a trait for arrays would come before that of slices.
                replace(&mut call.receiver, |inner| quote!((#inner)[..]));
                Ok((format!("{by}({name}, {counter})"), format!("length({name}).v")))
            }
            Expr::MethodCall(_) => refused(
                e,
                "kernels have no such iterator",
                "use a range, `.rev()`, `.step_by(n)`, `.iter()`, `.enumerate()`, `.zip(…)`, `.copied()`, or `while`",
            ),
            Expr::Reference(reference) if !is_part(&reference.expr) => {
                let by = if reference.mutability.is_some() { "item_mut" } else { "item" };
                let value = self.place(&mut reference.expr)?;
                let name = self.name("x");
                self.emit(&format!("auto&& {name} = d({});", value.code));
                Ok((format!("{by}({name}, {counter})"), format!("length({name}).v")))
            }
            _ => {
                let by = if is_place(e) { "auto&&" } else { "auto" };
                let value = self.place(e)?;
                let name = self.name("x");
                self.emit(&format!("{by} {name} = {};", value.code));
                Ok((format!("element_of({name}, {counter})"), format!("length(d({name})).v")))
            }
        }
    }
}

/// Returns the ends of a range, also of one with `.rev()`.
fn ends_of(e: &Expr) -> Option<(&Expr, &Expr)> {
    match e {
        Expr::Paren(inner) => ends_of(&inner.expr),
        Expr::MethodCall(call) if call.method == "rev" && call.args.is_empty() => {
            ends_of(&call.receiver)
        }
        Expr::Range(range) => Some((range.start.as_deref()?, range.end.as_deref()?)),
        _ => None,
    }
}

/// Returns a bound of an end of a range, as Rust: a constant, or that of the counter of an outer loop.
fn bound(e: &Expr, outer: &[(String, TokenStream)]) -> Option<TokenStream> {
    if is_constant(e) {
        return Some(quote!(#e));
    }
    let Expr::Path(path) = e else { return None };
    let name = path.path.get_ident()?.to_string();
    outer.iter().rev().find(|(counter, _)| *counter == name).map(|(_, most)| most.clone())
}

/// Returns the most iterations of a loop, and that of the loops in it together, as Rust, if constants give them. The
/// counters of `outer` loops are bounded.
fn iterations(
    each: &ExprForLoop,
    outer: &[(String, TokenStream)],
    private: &TokenStream,
) -> Option<TokenStream> {
    struct Inner<'p> {
        counts: Option<Vec<TokenStream>>,
        outer: &'p [(String, TokenStream)],
        private: &'p TokenStream,
    }
    impl<'a> Visit<'a> for Inner<'_> {
        fn visit_expr(&mut self, e: &'a Expr) {
            let private = self.private;
            match (e, &mut self.counts) {
                (Expr::ForLoop(inner), Some(counts)) => {
                    match iterations(inner, self.outer, private) {
                        Some(inner) => counts.push(quote!(#private::iterations(#inner))),
                        None => self.counts = None,
                    }
                }
                (Expr::While(_) | Expr::Loop(_), _) => self.counts = None,
                _ => syn::visit::visit_expr(self, e),
            }
        }
    }
    let (start, end) = ends_of(&each.expr)?;
    let end = bound(end, outer)?;
    if !is_constant(start) {
        return None;
    }
    let mut outer = outer.to_vec();
    if let Some((name, _)) = single_name(&each.pat) {
        outer.push((name, end.clone()));
    }
    let mut inner = Inner { counts: Some(Vec::new()), outer: &outer, private };
    inner.visit_block(&each.body);
    let inner = inner.counts?;
    Some(quote!(#start as u64, #end as u64, &[#(#inner),*]))
}

/// Returns whether an expression is a literal, or has the name of a constant.
pub(crate) fn is_constant(e: &Expr) -> bool {
    match e {
        Expr::Lit(_) => true,
        Expr::Path(path) => {
            path.path.segments.last().is_some_and(|last| is_constants(&last.ident.to_string()))
        }
        _ => false,
    }
}

/// Returns whether a name is one of constants, which no variable of a kernel has.
pub(crate) fn is_constants(name: &str) -> bool {
    name.contains(char::is_uppercase) && !name.contains(char::is_lowercase)
}

/// Returns whether an expression is a subslice: `x[a..b]`.
fn is_part(e: &Expr) -> bool {
    matches!(e, Expr::Index(index) if matches!(*index.index, Expr::Range(_)))
}

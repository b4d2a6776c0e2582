//! `for`: over ranges, their steps and reverses, and over the elements of arrays and slices.

use syn::{Expr, ExprForLoop};

use crate::exprs::line_of;
use crate::loops::{Loop, as_range, is_range};
use crate::patterns::single_name;
use crate::places::is_place;
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

impl Translator<'_> {
    pub(crate) fn for_range(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        if is_range(&each.expr) {
            return self.over_range(each, entry);
        }
        match &mut *each.expr {
            Expr::MethodCall(call) if call.method == "rev" && is_range(&call.receiver) => {
                self.over_reverse(each, entry)
            }
            Expr::MethodCall(call) if call.method == "step_by" && is_range(&call.receiver) => {
                self.over_steps(each, entry)
            }
            _ => self.over_elements(each, entry),
        }
    }

    /// The ends of a range, in an object of C++.
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

    /// Declares the counter, and translates the body. `by_index`: it counts, so that it can be known to be an index.
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
        let ExprForLoop { pat, body, .. } = each;
        let counter = entry.counter.clone();
        self.body(entry, |s| {
            s.bind_pattern(pat, value)?;
            if let (Some(counter), Some(scope)) = (&counter, s.scopes.last_mut())
                && let Some(local) = scope.get_mut(counter)
            {
                local.counter = true;
            }
            s.block_statements(body)
        })
    }

    fn over_range(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        let (range, inclusive) = self.range_object(&mut each.expr)?;
        let counter = self.name("j");
        let (body, entry) =
            self.counted_body(each, entry, &format!("{range}.number({counter})"), true)?;
        self.leave_outer_pure();
        let text = if inclusive {
            let more = self.name("more");
            format!(
                "bool {more} = {range}.start.v <= {range}.end.v;\n\
                 for (auto {counter} = {range}.start.v; {more}; {more} = {counter} != {range}.end.v, \
                 {counter} = next({counter})) {{\n{}{body}}}\n",
                entry.checked()
            )
        } else if entry.splits() {
            split(&self.name("end"), &range, &counter, &body, &entry)
        } else {
            format!(
                "for (auto {counter} = {range}.start.v; {counter} < {range}.end.v; ++{counter}) {{\n{}{body}}}\n",
                entry.checked()
            )
        };
        self.counted(&entry, &text);
        Ok(Value::unit())
    }

    /// Emits a counted loop. If its body has no effects, its checks are deferred to its end.
    fn counted(&mut self, entry: &Loop, text: &str) {
        if entry.pure && text.contains("(c, ") {
            let (outer, first) = (self.name("c"), self.name("first"));
            self.emit(&format!(
                "{{ first_bad {first}; const auto {outer} = c;\n\
                 if (!c.stop()) {{ const auto c = defer({outer}, {first});\n{text}}}\nsettle(c, {first}); }}"
            ));
        } else {
            self.emit(&format!("if (!c.stop()) {{ {text} }}"));
        }
        self.finish_loop(entry);
    }

    fn over_reverse(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        let Expr::MethodCall(call) = &mut *each.expr else { return Ok(Value::unit()) };
        let (range, inclusive) = self.range_object(&mut call.receiver)?;
        let counter = self.name("j");
        let (body, entry) =
            self.counted_body(each, entry, &format!("{range}.number({counter})"), true)?;
        self.leave_outer_pure();
        let head = if inclusive {
            let more = self.name("more");
            format!(
                "{{ bool {more} = {range}.start.v <= {range}.end.v;\n\
                 for (auto {counter} = {range}.end.v; {more}; {more} = {counter} != {range}.start.v, \
                 {counter} = before({counter})) {{"
            )
        } else {
            format!(
                "{{ for (auto {counter} = {range}.end.v; {counter} > {range}.start.v;) {{ --{counter};"
            )
        };
        self.counted(&entry, &format!("{head}\n{}{body}}} }}", entry.checked()));
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
        let (by, counter) = (self.name("by"), self.name("j"));
        self.emit(&format!("const usize {by} = {};", step.code));
        self.emit(&format!("if ({by}.v == 0) c.fail({line}, Assert);"));
        let (body, entry) =
            self.counted_body(each, entry, &format!("{range}.step({counter}, {by})"), true)?;
        self.leave_outer_pure();
        let checked = entry.checked();
        let text = format!(
            "{{ const auto n_{counter} = {range}.steps({by}, {inclusive});\n\
             for (u64_raw {counter} = 0; {counter} < n_{counter}; ++{counter}) {{\n{checked}{body}}} }}"
        );
        self.counted(&entry, &text);
        Ok(Value::unit())
    }

    /// `for x in &a`, `a.iter()`, `a.iter().enumerate()`, and arrays by value.
    fn over_elements(&mut self, each: &mut ExprForLoop, entry: Loop) -> Result<Value> {
        let counter = self.name("j");
        let (items, setup) = self.elements(&mut each.expr, &counter)?;
        let (body, entry) = self.counted_body(each, entry, &items, false)?;
        self.leave_outer_pure();
        self.counted(
            &entry,
            &format!("for (len {counter} = 0; {counter} < {setup}; ++{counter}) {{\n{body}}}\n"),
        );
        Ok(Value::unit())
    }

    /// Returns the item at a position, and the number of items, as expressions of C++.
    fn elements(&mut self, e: &mut Expr, counter: &str) -> Result<(String, String)> {
        match e {
            Expr::Paren(inner) => self.elements(&mut inner.expr, counter),
            Expr::MethodCall(call) if call.method == "enumerate" => {
                let (item, count) = self.elements(&mut call.receiver, counter)?;
                Ok((format!("tup(usize({counter}), {item})"), count))
            }
            Expr::MethodCall(call) if call.method == "zip" && call.args.len() == 1 => {
                let (first, count) = self.elements(&mut call.receiver, counter)?;
                let (second, other) = self.elements(&mut call.args[0], counter)?;
                Ok((format!("tup({first}, {second})"), format!("shorter({count}, {other})")))
            }
            Expr::MethodCall(call) if call.method == "copied" => {
                let (item, count) = self.elements(&mut call.receiver, counter)?;
                Ok((format!("deref({item})"), count))
            }
            Expr::MethodCall(call) if call.method == "iter" || call.method == "iter_mut" => {
                let by = if call.method == "iter" { "item" } else { "item_mut" };
                let value = self.place(&mut call.receiver)?;
                let name = self.name("x");
                self.emit(&format!("auto&& {name} = d({});", value.code));
                Ok((format!("{by}({name}, {counter})"), format!("length({name}).v")))
            }
            Expr::MethodCall(_) => refused(
                e,
                "kernels have no such iterator",
                "use a range, `.rev()`, `.step_by(n)`, `.iter()`, `.enumerate()`, `.zip(…)`, `.copied()`, or `while`",
            ),
            Expr::Reference(reference) => {
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

    /// Returns what says whether an index is known to be less than the length, if the counter of the innermost loop is
    /// the index, and the slice does not change in it.
    pub(crate) fn hoist(&mut self, index: &syn::ExprIndex) -> Option<String> {
        let (Expr::Path(base), Expr::Path(at)) = (&*index.expr, &*index.index) else { return None };
        let depth = self.loops.len();
        let counter = self.loops.last()?.counter.clone()?;
        let base = self.local(&base.path.get_ident()?.to_string())?;
        let at_name = at.path.get_ident()?.to_string();
        let at = self.local(&at_name)?;
        // The counter is declared in the body of the loop, and no other name hides it.
        if at_name != counter
            || at.depth != depth
            || !at.counter
            || base.mutable
            || base.depth >= depth
        {
            return None;
        }
        let cpp = base.cpp.clone();
        let entry = self.loops.last_mut()?;
        if !entry.hoisted.contains(&cpp) {
            entry.hoisted.push(cpp);
        }
        Some(entry.known.clone())
    }
}

/// Splits a loop where the first of the slices ends that its counter indexes: before, they need no check.
fn split(end: &str, range: &str, counter: &str, body: &str, entry: &Loop) -> String {
    let lengths: String =
        entry.hoisted.iter().map(|slice| format!(", length(d({slice})).v")).collect();
    let known = &entry.known;
    format!(
        "const u64_raw {end} = least({range}.end.v{lengths});\n\
         u64_raw rest_{end} = {range}.start.v;\n\
         if (rest_{end} < {end}) {{\n\
         for (len {counter} = len(rest_{end}); {counter} < len({end}); ++{counter}) {{\n\
         const yes {known}{{}};\n{body}}}\nrest_{end} = {end};\n}}\n\
         for (u64_raw {counter} = rest_{end}; {counter} < {range}.end.v; ++{counter}) {{\n\
         const no {known}{{}};\n{body}}}\n"
    )
}

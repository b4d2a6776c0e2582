//! Index checks of counted loops, hoisted before them or deferred to their end.
//!
//! The C++ contains a counted loop twice. The *exact* copy checks each index at its use. The *fast* copy runs before
//! it:
//!
//! - An index that is a sum of products of the counter and loop-invariant values grows with the counter. If the last
//!   one is in bounds and overflows nothing, no iteration checks it.
//! - In a body without effects, other checks only set a flag, and a load that fails is skipped, so no load waits for
//!   the check of another one. If the flag is set at the end, the variables that the loop changed are restored.
//!   A body has effects if it has a variable through which it may write memory.
//!
//! If a hoisted check or the flag has failed, or the flag would be tested too late, the exact copy runs. It finds the
//! first failure in the order of Rust, or none, if a `break` comes before it.

use std::fmt::Write;

use syn::{BinOp, Expr, ExprIndex, Lit};

use crate::loops::Loop;
use crate::translate::{Local, Translator};

/// An index whose check is hoisted.
pub(crate) struct Hoisted {
    /// The C++ variable whose type tells whether the index is in bounds.
    pub(crate) known: String,
    /// The variable with the element, if it was read ahead.
    pub(crate) ahead: Option<String>,
}

/// A counted loop in C++.
pub(crate) struct Shape {
    /// The C++ before the body, and after it.
    pub(crate) head: String,
    pub(crate) tail: &'static str,
    /// The number of iterations, or an upper bound of it.
    pub(crate) count: String,
    /// Whether there is an iteration, and the largest counter in that case.
    pub(crate) some: String,
    pub(crate) last: String,
    /// The range, if the counter can be hoisted.
    pub(crate) range: String,
    /// The counter in C++, if it increases by one up to the end of the range.
    pub(crate) counter: Option<String>,
}

/// The longest body that is duplicated for elements that are read ahead.
const SHORT: usize = 2_000;

/// Returns the condition of an index of a variable that may become another slice. If the body only names its elements and its
/// length, it does not.
fn unless_changed<'c>(condition: &'c str, body: &str) -> &'c str {
    let Some(within) = condition.strip_prefix("array_") else { return condition };
    let variable = within.rsplit([' ', ')']).nth(1).unwrap_or_default();
    let named = format!("d({variable})");
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mentions = body.split(|c| !part(c)).filter(|name| *name == variable).count();
    let harmless = body.match_indices(&named).filter(|(at, _)| {
        let call =
            body[..*at].trim_end_matches(|c: char| c.is_ascii_digit() || c == ',' || c == ' ');
        let before = ["at(c", "read(c", "m_len(c"].iter().find_map(|name| call.strip_suffix(name));
        before.is_some_and(|before| !before.ends_with(part))
    });
    if harmless.count() == mentions { within } else { condition }
}

impl Translator<'_> {
    /// Returns the hoisted check of an index, if each iteration of the innermost loop reaches it and it grows with
    /// the counter.
    pub(crate) fn hoist(&mut self, index: &ExprIndex, read: bool) -> Option<Hoisted> {
        let depth = self.loops.len();
        let base = match &*index.expr {
            Expr::Path(base) => self.local(&base.path.get_ident()?.to_string())?.clone(),
            _ => return None,
        };
        let at_level = self.loops.last()?.level == self.branches;
        let outside = base.depth < depth;
        let last = match self.loops.last()?.counter {
            Some(_) if at_level && outside => self.linear(&index.index),
            _ => None,
        };
        let Some(last) = last else {
            if let Some(entry) = self.loops.last_mut() {
                entry.gathers |= read && outside && !base.mutable;
            }
            return None;
        };
        let direct = read && !base.mutable && self.is_counter(&index.index);
        let held = direct.then(|| self.name("ahead"));
        let within = if base.mutable { "array_within" } else { "within" };
        let condition = format!("{within}({last}, {})", base.cpp);
        let entry = self.loops.last_mut()?;
        if !entry.hoisted.contains(&condition) {
            entry.hoisted.push(condition);
        }
        let ahead =
            held.map(|name| match entry.ahead.iter().find(|(slice, _)| *slice == base.cpp) {
                Some((_, known)) => known.clone(),
                None => {
                    entry.ahead.push((base.cpp.clone(), name.clone()));
                    name
                }
            });
        Some(Hoisted { known: entry.known.clone(), ahead })
    }

    /// Returns the largest value of an index in the innermost loop as C++, if it is a sum of products that grows with the
    /// counter.
    fn linear(&mut self, e: &Expr) -> Option<String> {
        match e {
            Expr::Paren(inner) => self.linear(&inner.expr),
            Expr::Group(inner) => self.linear(&inner.expr),
            Expr::Binary(binary) => {
                let function = match binary.op {
                    BinOp::Add(_) => "plus",
                    BinOp::Mul(_) => "times",
                    _ => return None,
                };
                let (a, b) = (self.linear(&binary.left)?, self.linear(&binary.right)?);
                Some(format!("{function}({a}, {b})"))
            }
            Expr::Lit(lit) => match &lit.lit {
                Lit::Int(number) => Some(format!("of({}ull)", number.base10_digits())),
                _ => None,
            },
            Expr::Path(path) => match path.path.get_ident().map(ToString::to_string) {
                Some(name) if self.local(&name).is_some() => {
                    Some(format!("of({})", self.settled(&name)?))
                }
                _ => {
                    let value = self.constant(path).ok()?;
                    Some(format!("of({})", value.code))
                }
            },
            Expr::Cast(cast) => match (&*cast.expr, &*cast.ty) {
                (Expr::Path(path), syn::Type::Path(ty)) if ty.path.is_ident("usize") => {
                    let value = self.settled(&path.path.get_ident()?.to_string())?;
                    Some(format!("of(as<usize>(v({value})))"))
                }
                _ => None,
            },
            Expr::MethodCall(call) if call.method == "len" && call.args.is_empty() => {
                match &*call.receiver {
                    Expr::Path(path) => {
                        let value = self.settled(&path.path.get_ident()?.to_string())?;
                        Some(format!("of_length({value})"))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the largest value of a variable in the innermost loop, if it is the counter or does not change.
    fn settled(&self, name: &str) -> Option<String> {
        let (entry, local) = (self.loops.last()?, self.local(name)?);
        if self.counts(entry, name, local) {
            return Some(entry.last.clone());
        }
        let constant = !local.mutable || (self.in_kernel && local.shared);
        (constant && local.depth < self.loops.len()).then(|| local.cpp.clone())
    }

    fn is_counter(&self, e: &Expr) -> bool {
        let Expr::Path(path) = e else { return false };
        let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match (self.loops.last(), self.local(&name)) {
            (Some(entry), Some(local)) => self.counts(entry, &name, local),
            _ => false,
        }
    }

    /// Returns whether a local is the loop's counter, not another variable of that name.
    fn counts(&self, entry: &Loop, name: &str, local: &Local) -> bool {
        entry.counter.as_deref() == Some(name) && local.counter && local.depth == self.loops.len()
    }

    /// Emits a counted loop.
    pub(crate) fn counted(&mut self, entry: &Loop, shape: &Shape, body: &str) {
        let Shape { head, tail, count, some, last, range, .. } = shape;
        // The text of a label must not be duplicated.
        let once = body.contains("goto ") || body.contains(":;\n");
        let hoists = entry.counter.is_some() && !entry.hoisted.is_empty() && !once;
        let defers = entry.pure && !entry.calls && !once && body.contains("(c, ");
        // In a function that a loop calls, a failed check may only have set a flag.
        let stops = "if (c.stop()) break;\n";
        let plain = |known: &str, stops: &str| {
            let mut text = stops.to_owned();
            if !entry.hoisted.is_empty() {
                let _ = writeln!(text, "const {known} {}{{}};", entry.known);
            }
            for (_, ahead) in &entry.ahead {
                let _ = writeln!(text, "const no {ahead}{{}};");
            }
            text + body
        };
        if !hoists && !defers {
            // A function that the loop calls may have loops. Those of phases are counted.
            let unroll = if entry.calls && !entry.phases { "" } else { &entry.unroll };
            let head = head.replacen("for (", &format!("{unroll}for ("), 1);
            self.emit(&format!("if (!c.stop()) {{ {head}\n{}{tail} }}", plain("no", stops)));
            self.finish_loop(entry);
            return;
        }
        let (exact, outer, owns) = (self.name("exact"), self.name("c"), self.name("owns"));
        self.emit(&format!("{{ bool {exact} = true; const auto {outer} = c;"));
        let mut restored = String::new();
        let mut context = String::new();
        if defers {
            let few = self.name("few");
            let variables = self.variables();
            let types: Vec<String> =
                variables.iter().map(|name| format!("decltype({name})")).collect();
            let mentioned: Vec<String> =
                self.mentions(entry).iter().map(|name| format!("decltype({name})")).collect();
            self.emit(&format!("constexpr bool {owns} = own<{}>;", mentioned.join(", ")));
            self.emit(&format!("constexpr bool {few} = {owns} && small<{}>;", types.join(", ")));
            for name in &variables {
                let kept = self.name("kept");
                self.emit(&format!("const auto {kept} = kept_if<{few}>({name});"));
                let _ = writeln!(restored, "restore({name}, {kept}, 0);");
            }
            context = format!("const auto c = defer<{few}>({outer}, {exact});\n");
        }
        self.emit(&format!("if (!c.stop() && {some}) {{"));
        if hoists {
            self.emit(&format!("const auto {} = lower({last});", entry.last));
            let conditions: Vec<_> =
                entry.hoisted.iter().map(|test| unless_changed(test, body)).collect();
            self.emit(&format!("if (fits({range}) && {})", conditions.join(" && ")));
        }
        if defers {
            self.emit(&format!("if ({count} <= most_deferred)"));
        }
        let fast = match &shape.counter {
            Some(counter) if hoists => {
                let known = plain("yes", if defers { "" } else { stops });
                self.fast(entry, range, counter, body, &known, defers.then_some(&owns))
            }
            _ => {
                let known = if hoists { "yes" } else { "no" };
                format!("{head}\n{}{tail}\n", plain(known, if defers { "" } else { stops }))
            }
        };
        self.emit(&format!("{{ {exact} = false;\n{context}{fast}}}"));
        // `for` is the first statement of a head, or follows a declaration. An array that the counter indexes stays in
        // registers only if both copies are unrolled.
        let head = head.replacen("for (", &format!("{}for (", entry.unroll_exact), 1);
        self.emit(&format!(
            "if ({exact}) {{\n{restored}{head}\n{}{tail} }} }} }}",
            plain("no", stops)
        ));
        self.finish_loop(entry);
    }

    /// Returns the fast copy of a loop whose counter goes up by one.
    fn fast(
        &mut self,
        entry: &Loop,
        range: &str,
        counter: &str,
        body: &str,
        known: &str,
        owns: Option<&String>,
    ) -> String {
        let stop = self.name("stop");
        let mut text = format!("const len {stop} = len({range}.end.v);\n");
        let ahead = entry.gathers && !entry.left && !entry.ahead.is_empty() && body.len() <= SHORT;
        let Some(owns) = owns.filter(|_| ahead) else {
            let _ = writeln!(
                text,
                "{}for (len {counter} = len({range}.start.v); {counter} < {stop}; ++{counter}) {{\n{known}}}",
                entry.unroll_fast
            );
            return text;
        };
        // Gathers wait for indices. Indices of many iterations are loaded together, so that all gathers wait only
        // once.
        self.reads_ahead = true;
        let (next, many, at) = (self.name("next"), self.name("many"), self.name("u"));
        let types: Vec<String> =
            entry.ahead.iter().map(|(slice, _)| format!("decltype(hold(d({slice}), 0))")).collect();
        let (mut arrays, mut names) = (String::new(), String::new());
        for ((slice, name), ty) in entry.ahead.iter().zip(&types) {
            let _ = writeln!(
                arrays,
                "{ty} all_{name}[{many}];\n_Pragma(\"unroll\")\n\
                 for (len {at} = 0; {at} < {many}; ++{at}) all_{name}[{at}] = hold(d({slice}), {next} + {at});"
            );
            let _ = writeln!(names, "const auto& {name} = all_{name}[{at}];");
        }
        let _ = writeln!(
            text,
            "constexpr len {many} = {owns} ? ahead<{}> : 1;\nu64_raw {next} = u64_raw({range}.start.v);\n_Pragma(\"unroll 1\")\n\
             for (; {many} > 1 && {stop} - {next} >= {many}; {next} += {many}) {{\n{arrays}_Pragma(\"unroll\")\n\
             for (len {at} = 0; {at} < {many}; ++{at}) {{\nconst u64_raw {counter} = {next} + {at};\n\
             const yes {}{{}};\n{names}{body}}}\n}}\n\
             for (len {counter} = len({next}); {counter} < {stop}; ++{counter}) {{\n{known}}}",
            types.join(", "),
            entry.known
        );
        text
    }

    /// Returns the C++ variables from before a loop that its text mentions.
    fn mentions(&self, entry: &Loop) -> Vec<String> {
        let known = self.scopes.iter().flat_map(|scope| scope.values()).map(|local| &local.cpp);
        let known: std::collections::HashSet<&String> = known.collect();
        let mentioned = self.mentioned.iter().skip(entry.mentions);
        let mut names: Vec<String> =
            mentioned.filter(|name| known.contains(name)).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the C++ variables that a loop may change. References may lead to any of them.
    fn variables(&self) -> Vec<String> {
        let mut variables: Vec<String> = self
            .scopes
            .iter()
            .flat_map(|scope| scope.values())
            .filter(|local| local.mutable && !(self.in_kernel && local.shared))
            .map(|local| local.cpp.clone())
            .collect();
        // The order is fixed, so that the text is deterministic.
        variables.sort();
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::unless_changed;

    #[test]
    fn a_slice_that_a_body_only_indexes_stays() {
        let test = "array_within(of(last_8), row_5)";
        let settled = |body| unless_changed(test, body) == "within(of(last_8), row_5)";
        assert!(settled("at(c, 42, d(row_5), k_9, known_6) = read(c, 4, d(row_5), k_9, known_6);"));
        assert!(settled("auto n = m_len(c, 4, d(row_5)); auto row_51 = row_52;"));
        for body in [
            "row_5 = row_6;",
            "at(c, 42, d(row_5), k_9, known_6) = 1; swap_handles(row_5, row_6);",
            "replace_at(c, 42, d(row_5));",
            "f(c, borrow_mut(row_5));",
        ] {
            assert!(!settled(body), "{body}");
        }
        let other = "within(of(last_8), x_5)";
        assert_eq!(unless_changed(other, "x_5 = y_6;"), other);
    }
}

//! Phases: their targets and closures.

use quote::quote;
use syn::{Expr, ExprClosure, ExprMethodCall};

use super::Role;
use super::barriers::{Access, Kind};
use super::loads;
use crate::exprs::line_of;
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

/// The memory of functions that hand a value from thread to thread.
const ROOM: &str = "room";

/// The longest C++ of a closure of which a thread runs several indices together.
const SHORT: usize = 500;

impl Translator<'_> {
    /// Translates a call of a method of the block that is no number.
    pub(crate) fn phase(&mut self, call: &mut ExprMethodCall) -> Result<Value> {
        // A loop with a barrier stands once in the C++.
        for outer in &mut self.loops {
            outer.pure = false;
            outer.calls = true;
            outer.phases = true;
            outer.counter = None;
        }
        self.level.iter_mut().for_each(|level| level.phases = true);
        let line = line_of(&call.method);
        let name = call.method.to_string();
        let count = call.args.len();
        let mut args = call.args.iter_mut();
        match (name.as_str(), args.next(), args.next()) {
            ("each", Some(target), Some(Expr::Closure(closure))) if count == 2 => {
                let mut accesses = Vec::new();
                let target = self.target(target, &mut accesses)?;
                self.phase_of(|_| format!("each_item<B>(c, {target}, "), closure, 2, accesses)
            }
            ("run", Some(count), Some(Expr::Closure(closure))) => {
                let count = self.operand(count)?;
                let count = self.keep(count);
                let head = |text: &str| {
                    let together =
                        if text.len() < SHORT && !text.contains("for (") { 4 } else { 1 };
                    format!("run_items<B, {together}>(c, {}, ", count.code)
                };
                self.phase_of(head, closure, 1, Vec::new())
            }
            ("one", Some(Expr::Closure(closure)), None) => {
                let reads = self.reads_of(closure);
                let has_value = !returns_nothing(closure);
                if has_value {
                    self.note(vec![Access::new(ROOM, Kind::Written)]);
                }
                let any = !reads.is_empty();
                self.note_phase(closure, reads, any);
                let text = self.phase_closure(closure, 0)?;
                let value = self.called(format!("one_thread<B>(c, {text})"));
                self.met(has_value);
                Ok(value)
            }
            ("carry", Some(own), Some(first)) => {
                let Some(Expr::Closure(closure)) = args.next() else {
                    return refused(
                        &call.method,
                        "`carry` combines values by a closure",
                        "write `block.carry(total, 0, |a, b| a + b)`",
                    );
                };
                let block = self.operand(&mut call.receiver)?.code;
                self.carry(&call.method, &block, [own, first], closure)
            }
            ("load" | "load_matrix", Some(target), Some(source)) if count >= 4 => {
                let mut accesses = Vec::new();
                let target = self.target(target, &mut accesses)?;
                let early = self.role(source) == Role::Value && !self.uses_memory(source);
                let mut values = Vec::new();
                for arg in [source].into_iter().chain(args) {
                    let value = self.operand_after(&mut values, arg, false)?;
                    values.push(self.keep(value));
                }
                self.note(accesses);
                let values = crate::exprs::codes(&values);
                let function = if name == "load" { "load_items" } else { "load_matrix" };
                let load = self.name("load");
                self.emit(&format!(
                    "const auto {load} = {function}<B>(c, {line}, {target}, {values});\n{}",
                    loads::statement(&load, early)
                ));
                Ok(Value::unit())
            }
            ("each" | "run" | "one", ..) => refused(
                &call.method,
                "a phase takes a closure",
                "write `block.each(&mut tile, |i, t| …)`, `block.run(count, |i| …)` or `block.one(|| …)`",
            ),
            _ => self.collective(call, &name, line),
        }
    }

    /// `block.carry(value, first, op)`: a block that did not come here would keep those after it waiting.
    fn carry(
        &mut self,
        method: &syn::Ident,
        block: &str,
        [own, first]: [&mut Expr; 2],
        op: &mut ExprClosure,
    ) -> Result<Value> {
        let (scopes, returns) =
            self.level.as_ref().map_or((0, false), |level| (level.scopes, level.returns));
        if scopes != self.scopes.len() {
            return refused(
                method,
                "every block passes a value on, in a statement of the kernel's closure",
                "move it there; a block without a value passes on one that changes nothing, such as 0",
            );
        }
        if returns {
            return refused(
                method,
                "blocks that return before this pass nothing on, and those after them wait",
                "let such a block pass on a value that changes nothing, and return later",
            );
        }
        let [own, first] = match &self.operands([own, first])?[..] {
            [own, first] => [own, first].map(|value| self.keep(value.clone()).code),
            _ => return Ok(Value::unit()),
        };
        let reads = self.reads_of(op);
        // It begins with a barrier.
        self.level.iter_mut().for_each(|level| level.plan.barrier());
        let any = !reads.is_empty();
        self.note_phase(op, reads, any);
        let text = self.phase_closure(op, 2)?;
        let number = self.carries;
        self.carries += 1;
        self.emit(&format!("b_offer<B, {number}>(c, {block}, carried, {own});"));
        let name = if any { "b_carry" } else { loads::LATE };
        let value = self
            .called(format!("{name}<B, {number}>(c, {block}, carried, {own}, {first}, {text})"));
        // So does it end.
        self.level.iter_mut().for_each(|level| level.plan.barrier());
        Ok(value)
    }

    /// After a call of a device function that was given the block. It begins with a barrier.
    pub(crate) fn after_blocks_function(&mut self) {
        for outer in &mut self.loops {
            (outer.pure, outer.counter) = (false, None);
        }
        if let Some(level) = &mut self.level {
            level.phases = true;
            level.plan.barrier();
        }
        self.note(vec![Access::new("", Kind::Written)]);
    }

    /// Begins a loop of block level, or an iteration of it, whose end memory may decide: what a thread that has left has not
    /// written would not let it end. Without phases in its body the loop itself changes no memory.
    pub(crate) fn meets(&mut self, body: &syn::Block, iteration: bool) {
        let body =
            Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block: body.clone() });
        if self.names_block(&body) == iteration {
            self.meet();
        }
    }

    /// Ends the block if a thread has left, where code uses values of memory.
    fn meet(&mut self) {
        if let Some(level) = &mut self.level
            && level.reads
        {
            level.plan.barrier();
            self.emit("B::meet();");
        }
    }

    /// Notes what a phase accesses. Loops of its threads may wait for values of memory, also in functions that it calls.
    fn note_phase(&mut self, closure: &ExprClosure, accesses: Vec<Access>, reads: bool) {
        if super::reads::may_loop(&closure.body) {
            if let Some(level) = &mut self.level {
                level.reads |= reads;
            }
            self.meet();
        }
        self.note(accesses);
    }

    /// Emits a phase. `head` is what stands before the text of its closure.
    fn phase_of(
        &mut self,
        head: impl FnOnce(&str) -> String,
        closure: &mut ExprClosure,
        params: usize,
        mut accesses: Vec<Access>,
    ) -> Result<Value> {
        let reads = self.reads_of(closure);
        let any = !reads.is_empty();
        accesses.extend(reads);
        self.note_phase(closure, accesses, any);
        let text = self.phase_closure(closure, params)?;
        self.emit(&format!("{}{text});", head(&text)));
        Ok(Value::unit())
    }

    /// After a function that has had a barrier, and whose room may still be read.
    fn met(&mut self, room: bool) {
        if !room {
            return;
        }
        if let Some(level) = &mut self.level {
            level.plan.barrier();
        }
        self.note(vec![Access::new(ROOM, Kind::Read)]);
    }

    /// Returns the memory that a closure of a phase uses, besides its items.
    fn reads_of(&self, closure: &ExprClosure) -> Vec<Access> {
        let mut found = Vec::new();
        for name in super::reads::names(&closure.body) {
            let Some(local) = self.local(&name.to_string()) else { continue };
            let kind = match local.role {
                Role::Memory | Role::Borrowed => Kind::Read,
                // It may be an `Atomic`.
                Role::Part => Kind::Written,
                _ => continue,
            };
            found.extend(local.roots.iter().map(|root| Access::new(root, kind.clone())));
        }
        found.sort();
        found.dedup();
        found
    }

    /// Translates the closure of a phase.
    fn phase_closure(&mut self, closure: &mut ExprClosure, params: usize) -> Result<String> {
        if let Some(capture) = &closure.capture {
            return refused(
                capture,
                "the closure of a phase borrows what it uses",
                "leave out `move`",
            );
        }
        if closure.inputs.len() != params {
            let help = match params {
                0 => "write `block.one(|| …)`",
                1 => "write `block.run(count, |i| …)`",
                _ => "write `block.each(&mut tile, |i, t| …)`",
            };
            return refused(
                &closure.inputs,
                "the closure of this phase takes other parameters",
                help,
            );
        }
        if self.names_block(&closure.body) {
            return refused(
                &closure.body,
                "a thread cannot use the block",
                "take what it needs before the phase: `let first = block.index() * 256;`",
            );
        }
        closure.attrs.push(syn::parse_quote!(#[inline(always)]));
        let before = self.scopes.clone();
        // Nothing of block level changes in a phase, and none of it is declared in its loops.
        for local in self.scopes.iter_mut().flat_map(|scope| scope.values_mut()) {
            (local.mutable, local.depth, local.counter) = (false, 0, false);
            local.outside = true;
        }
        let level = self.level.take();
        let of_block = std::mem::replace(&mut self.of_block, false);
        let loops = std::mem::take(&mut self.loops);
        let wraps = std::mem::replace(&mut self.wraps, false);
        let in_kernel = std::mem::replace(&mut self.in_kernel, false);
        let (writable, branches) = (self.writable.len(), std::mem::take(&mut self.branches));
        self.in_closure += 1;
        let translated = self.captured(|s| {
            s.scoped(|s| {
                let mut names = vec!["const auto c".to_owned()];
                for input in &mut closure.inputs {
                    let name = s.name("p");
                    names.push(format!("auto {name}"));
                    s.writable_names(input);
                    s.bind_pattern(input, &name)?;
                    s.give_role(input, Role::Item, &[]);
                }
                let value = match &mut *closure.body {
                    Expr::Block(block) if block.label.is_none() => {
                        s.block_value(&mut block.block)?
                    }
                    body => s.expr(body)?,
                };
                if !value.never {
                    s.emit(&format!("return {};", value.code));
                }
                Ok(names.join(", "))
            })
        });
        self.in_closure -= 1;
        self.branches = branches;
        self.writable.truncate(writable);
        self.in_kernel = in_kernel;
        self.wraps = wraps;
        self.loops = loops;
        self.level = level;
        self.of_block = of_block;
        self.scopes = before;
        let (body, names) = translated?;
        Ok(format!("[&]({names}) {{\n{body}}}"))
    }

    /// Translates the target of a phase, and collects what its items access.
    fn target(&mut self, e: &mut Expr, accesses: &mut Vec<Access>) -> Result<String> {
        match e {
            Expr::Paren(inner) => self.target(&mut inner.expr, accesses),
            Expr::Tuple(tuple) => {
                let parts = tuple
                    .elems
                    .iter_mut()
                    .map(|part| self.target(part, accesses))
                    .collect::<Result<Vec<_>>>()?;
                Ok(format!("zipped({})", parts.join(", ")))
            }
            _ => {
                let kind = if self.role(e) == Role::Memory { Kind::Owned } else { Kind::Written };
                let roots = self.roots_of(e);
                if !roots.is_empty() && is_unnamed(e) {
                    return refused(
                        e,
                        "a phase runs over memory by its name",
                        "name the parts: `|block, (a, b)| …`, or `let (low, high) = tile.split_at_mut(32);`",
                    );
                }
                accesses.extend(roots.into_iter().map(|root| Access::new(root, kind.clone())));
                let value = self.handle(e)?;
                let value =
                    if self.role(e) == Role::Value { self.keep_handle(value) } else { value };
                Ok(format!("target<B>({value})"))
            }
        }
    }

    fn keep_handle(&mut self, code: String) -> String {
        let name = self.name("t");
        self.emit(&format!("auto {name} = {code};"));
        name
    }

    /// Translates an expression that leads to memory of the block: in C++ a reference to a handle is the handle.
    pub(crate) fn handle(&mut self, e: &mut Expr) -> Result<String> {
        match e {
            Expr::Paren(inner) => self.handle(&mut inner.expr),
            Expr::Reference(inner) if self.role(&inner.expr) != Role::Value => {
                self.handle(&mut inner.expr)
            }
            Expr::Unary(inner) if self.role(&inner.expr) != Role::Value => {
                self.handle(&mut inner.expr)
            }
            _ => Ok(self.operand(e)?.code),
        }
    }

    /// Functions of the values of the threads of a warp, or of the block.
    fn collective(&mut self, call: &mut ExprMethodCall, name: &str, line: usize) -> Result<Value> {
        if !super::PHASES.contains(&name) {
            return refused(
                &call.method,
                "a block has no such method",
                "its phases are `each`, `run`, `one` and `load`; see `Block` for functions of warps and blocks",
            );
        }
        let mut values = Vec::new();
        for arg in &mut call.args {
            let code = match self.role(arg) {
                Role::Value => {
                    let value = self.operand(arg)?;
                    self.keep(value).code
                }
                _ => self.handle(arg)?,
            };
            values.push(code);
        }
        let args = values.join(", ");
        match name {
            "sort" => {
                // It begins with a barrier.
                let roots = call.args.first().map(|arg| self.roots_of(arg)).unwrap_or_default();
                if let Some(level) = &mut self.level {
                    level.plan.barrier();
                }
                self.note(roots.into_iter().map(|root| Access::new(root, Kind::Written)).collect());
                self.emit(&format!("b_sort<B>({args});"));
                Ok(Value::unit())
            }
            _ if name.starts_with("warp_") => {
                self.emit(&format!("b_{name}<B>({args});"));
                Ok(Value::unit())
            }
            _ => {
                self.note(vec![Access::new(ROOM, Kind::Written)]);
                let code = match name {
                    "broadcast" => format!("b_broadcast<B>(c, {line}, {args})"),
                    _ => format!("b_{name}<B>({args})"),
                };
                let value = self.called(code);
                self.met(true);
                Ok(value)
            }
        }
    }
}

/// Returns whether a target is a reference to a field or an element.
fn is_unnamed(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => is_unnamed(&inner.expr),
        Expr::Reference(inner) => is_unnamed(&inner.expr),
        Expr::Unary(inner) => is_unnamed(&inner.expr),
        Expr::Field(_) | Expr::Index(_) => true,
        _ => false,
    }
}

/// Returns whether the body of a closure surely has no value.
fn returns_nothing(closure: &ExprClosure) -> bool {
    match &*closure.body {
        Expr::Block(block) => matches!(
            block.block.stmts.last(),
            None | Some(syn::Stmt::Expr(_, Some(_)) | syn::Stmt::Local(_) | syn::Stmt::Item(_))
        ),
        _ => false,
    }
}

/// Makes rustc infer the type of the first argument of a call, by a probe.
pub(super) fn probed(s: &mut Translator<'_>, call: &mut ExprMethodCall) -> String {
    match call.args.first_mut() {
        Some(value) => s.probe(value),
        None => s.hole(quote!(String::new())),
    }
}

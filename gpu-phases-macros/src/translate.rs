//! The state of a translation, and the order of evaluation.
//!
//! A function's body is translated in one walk: each expression is rewritten in place for rustc's copy, and its C++
//! is returned. Effects become C++ statements in the order of Rust, and the returned expression has none. So no
//! expression depends on the unspecified order of evaluation of C++.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::Expr;

use crate::blocks::{Level, Role};
use crate::loops::Loop;
use crate::options::Options;
use crate::refuse::{Result, refused};

/// The effect of evaluating the C++ of a [`Value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// No effect, and the same result wherever it is evaluated.
    Constant,
    /// It reads a variable or memory.
    Reads,
    /// It may end the thread by a fault.
    Faults,
}

/// An expression of C++.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) code: String,
    pub(crate) effect: Effect,
    /// Whether the expression diverges: `return`, `break`, `continue`, `unreachable!`.
    pub(crate) never: bool,
}

impl Value {
    pub(crate) fn new(code: impl Into<String>, effect: Effect) -> Self {
        Self { code: code.into(), effect, never: false }
    }

    pub(crate) fn constant(code: impl Into<String>) -> Self {
        Self::new(code, Effect::Constant)
    }

    pub(crate) fn unit() -> Self {
        Self::constant("unit{}")
    }

    pub(crate) fn never() -> Self {
        Self { code: "unit{}".to_owned(), effect: Effect::Constant, never: true }
    }
}

/// A local variable of the body.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    /// Its variable in C++.
    pub(crate) cpp: String,
    /// Whether it can change.
    pub(crate) mutable: bool,
    /// The loop depth of its declaration.
    pub(crate) depth: usize,
    /// Whether it is declared before the loop of a kernel.
    pub(crate) shared: bool,
    /// Whether it is the counter of a loop.
    pub(crate) counter: bool,
    /// What it is to a block of threads.
    pub(crate) role: Role,
    /// The variables of C++ with the memory of a block that it may lead to.
    pub(crate) roots: Vec<String>,
    /// Whether its value may be one of the memory of a block.
    pub(crate) from_memory: bool,
    /// Whether it is a closure with atomic operations.
    pub(crate) for_threads: bool,
    /// Whether it is one of block level, seen from a phase.
    pub(crate) outside: bool,
}

/// The translation of one function.
pub(crate) struct Translator<'o> {
    pub(crate) options: &'o Options,
    /// Rust expressions, each with the text `phases_text` in scope, whose values the generated code inserts into the C++.
    pub(crate) holes: Vec<TokenStream>,
    /// The number of probes of types.
    pub(crate) probes: usize,
    /// Statements of C++ of the block that is being translated.
    pub(crate) out: String,
    pub(crate) scopes: Vec<HashMap<String, Local>>,
    pub(crate) loops: Vec<Loop>,
    /// The constants and imports of each block around the code, for use in holes.
    pub(crate) items: Vec<Vec<TokenStream>>,
    /// What the host evaluates before a kernel's loop.
    pub(crate) host: TokenStream,
    /// Names of parameters through which shared memory can be written.
    pub(crate) writable: Vec<String>,
    /// The C++ names of the outputs of a kernel's loop, and whether their elements are numbers.
    pub(crate) outputs: Vec<(String, bool)>,
    /// The C++ names of the items of the loop that are numbers.
    pub(crate) number_items: Vec<String>,
    /// The C++ names of parameters that are slices or arrays, and of those that are `Atomic`s.
    pub(crate) slices: Vec<String>,
    pub(crate) atomics: Vec<String>,
    /// The C++ names of parameters that are structures, and of those that may be.
    pub(crate) structures: Vec<String>,
    pub(crate) referred: Vec<String>,
    /// The called device functions.
    pub(crate) calls: Vec<syn::Path>,
    /// The paths of library functions that have another name in rustc's copy.
    pub(crate) named: Vec<syn::Path>,
    numbers: usize,
    /// Whether the value of the function is wrapped by `Some` in rustc's copy.
    pub(crate) wraps: bool,
    /// Whether `return` ends the kernel, which is a C++ function without a result.
    pub(crate) in_kernel: bool,
    /// The depth of local closures.
    pub(crate) in_closure: usize,
    /// The depth of branches.
    pub(crate) branches: usize,
    /// Whether a loop reads elements ahead, which takes registers.
    pub(crate) reads_ahead: bool,
    /// The C++ variables that the text mentions, in order.
    pub(crate) mentioned: Vec<String>,
    /// The state of block-level code, if this is some.
    pub(crate) level: Option<Level>,
    /// Whether this is block-level code or one of its closures, and no phase.
    pub(crate) of_block: bool,
    /// How many values the blocks pass on.
    pub(crate) carries: u32,
    /// Whether this is a body whose indices are inspected before it runs.
    pub(crate) straight: bool,
    /// The lengths that such a body names. `None`: this is no such body, or a loop of it.
    pub(crate) apart: Option<crate::kernel::straight::Apart>,
}

impl<'o> Translator<'o> {
    pub(crate) fn new(options: &'o Options) -> Self {
        Self {
            options,
            holes: Vec::new(),
            probes: 0,
            out: String::new(),
            scopes: vec![HashMap::new()],
            loops: Vec::new(),
            items: Vec::new(),
            host: TokenStream::new(),
            writable: Vec::new(),
            outputs: Vec::new(),
            number_items: Vec::new(),
            slices: Vec::new(),
            atomics: Vec::new(),
            structures: Vec::new(),
            referred: Vec::new(),
            calls: Vec::new(),
            named: Vec::new(),
            numbers: 0,
            wraps: false,
            in_kernel: false,
            in_closure: 0,
            branches: 0,
            reads_ahead: false,
            mentioned: Vec::new(),
            straight: false,
            apart: None,
            level: None,
            of_block: false,
            carries: 0,
        }
    }

    /// Returns the path of the items that expansions use.
    pub(crate) fn private(&self) -> TokenStream {
        self.options.private()
    }

    /// Returns a placeholder that the value of `code`, a `String`, replaces when the C++ is written.
    pub(crate) fn hole(&mut self, code: TokenStream) -> String {
        let code = self.items.iter().rev().filter(|items| !items.is_empty()).fold(
            code,
            |code, items| quote!({ #(#[allow(dead_code, unused_imports)] #items)* #code }),
        );
        self.holes.push(code);
        format!("\u{1}{}\u{2}", self.holes.len() - 1)
    }

    /// Makes rustc infer the type of `e` with a probe, and returns the type in C++.
    pub(crate) fn probe(&mut self, e: &mut Expr) -> String {
        let (probe, private) = (self.probe_name(self.probes), self.private());
        crate::exprs::replace(e, |inner| quote!(#private::typed(&#probe, #inner)));
        let number = self.probes;
        self.probes += 1;
        self.hole(quote!(#private::Types::name(&phases_types, #number, phases_text)))
    }

    pub(crate) fn probe_name(&self, number: usize) -> proc_macro2::Ident {
        format_ident!("phases_type_{}", number, span = Span::mixed_site())
    }

    /// Returns a new C++ name.
    pub(crate) fn name(&mut self, stem: &str) -> String {
        self.numbers += 1;
        format!("{stem}_{}", self.numbers)
    }

    /// Declares a local, and returns its variable in C++.
    pub(crate) fn declare(&mut self, name: &str, mutable: bool) -> String {
        let cpp = self.name(&crate::exprs::ascii(name));
        let local = Local {
            cpp: cpp.clone(),
            mutable,
            depth: self.loops.len(),
            counter: false,
            shared: !self.in_kernel,
            role: Role::Value,
            roots: Vec::new(),
            from_memory: false,
            for_threads: false,
            outside: false,
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), local);
        }
        cpp
    }

    pub(crate) fn local(&self, name: &str) -> Option<&Local> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// Runs `f` in a new scope.
    pub(crate) fn scoped<R>(&mut self, f: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.scopes.push(HashMap::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Runs `f` for code that runs conditionally.
    pub(crate) fn branching<R>(&mut self, f: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.branches += 1;
        self.level.iter_mut().for_each(|level| level.plan.open());
        let result = f(self);
        self.level.iter_mut().for_each(|level| level.plan.close_branch());
        self.branches -= 1;
        result
    }

    /// Runs `f`, and returns the statements that it emits besides its result.
    pub(crate) fn captured<R>(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<(String, R)> {
        let before = std::mem::take(&mut self.out);
        let result = f(self);
        let emitted = std::mem::replace(&mut self.out, before);
        Ok((emitted, result?))
    }

    /// Emits a statement.
    pub(crate) fn emit(&mut self, statement: &str) {
        self.out.push_str(statement);
        self.out.push('\n');
    }

    /// Emits the line marker of the user's file for compilers and debuggers.
    pub(crate) fn line_marker(&mut self, span: Span) {
        let line = span.start().line;
        if line > 0 && !self.out.ends_with(&format!("#line {line}\n")) {
            self.out.push_str(&format!("#line {line}\n"));
        }
    }

    /// Stores a value in a variable.
    pub(crate) fn keep(&mut self, value: Value) -> Value {
        if value.effect == Effect::Constant {
            return value;
        }
        let name = self.name("t");
        self.emit(&format!("auto {name} = {};", value.code));
        Value::constant(name)
    }

    /// Translates operands in their order. Earlier ones are stored in variables if later ones have effects.
    pub(crate) fn operands<'e>(
        &mut self,
        list: impl IntoIterator<Item = &'e mut Expr>,
    ) -> Result<Vec<Value>> {
        let mut done: Vec<Value> = Vec::new();
        for e in list {
            let value = self.operand_after(&mut done, e, false)?;
            done.push(value);
        }
        Ok(done)
    }

    /// Translates an operand that follows others. `place`: the first of them is a place, which stays one.
    pub(crate) fn operand_after(
        &mut self,
        done: &mut [Value],
        e: &mut Expr,
        place: bool,
    ) -> Result<Value> {
        let (emitted, value) = self.captured(|s| s.operand(e))?;
        let earlier_fails = done.iter().any(|known| known.effect == Effect::Faults);
        if !emitted.is_empty() || (value.effect == Effect::Faults && earlier_fails) {
            for (at, known) in done.iter_mut().enumerate() {
                if known.effect == Effect::Constant {
                    continue;
                }
                let name = self.name("t");
                let by = if place && at == 0 { "auto&&" } else { "auto" };
                self.emit(&format!("{by} {name} = {};", known.code));
                *known = Value::constant(name);
            }
        }
        self.out.push_str(&emitted);
        Ok(value)
    }

    /// Translates an expression whose value is used.
    pub(crate) fn operand(&mut self, e: &mut Expr) -> Result<Value> {
        let span = e.clone();
        let value = self.expr(e)?;
        if value.never {
            return refused(
                &span,
                "this leaves the function or the loop inside of an expression",
                "make it a statement of its own, or the arm of an `if` or `match` whose value a `let` takes",
            );
        }
        Ok(value)
    }
}

/// Returns the greatest effect of values.
pub(crate) fn effect_of(values: &[Value]) -> Effect {
    values.iter().map(|value| value.effect).max().unwrap_or(Effect::Constant)
}

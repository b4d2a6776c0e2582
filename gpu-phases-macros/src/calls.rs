//! Calls of functions, methods and macros.

use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprPath, Path, Token};

use crate::exprs::{ascii, line_of, replace};
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

/// Methods whose results Rust leaves open in part. rustc's copy calls those of the library, which define them.
pub(crate) const DEFINED: [&str; 23] = [
    "min",
    "max",
    "clamp",
    "rem_euclid",
    "div_euclid",
    "pow",
    "abs",
    "signum",
    "div_ceil",
    "copysign",
    "to_bits",
    "is_sign_negative",
    "is_sign_positive",
    "floor",
    "ceil",
    "trunc",
    "round",
    "round_ties_even",
    "fract",
    "sqrt",
    "recip",
    "mul_add",
    "powi",
];

/// Functions that differ between the libraries of processors and devices.
const INEXACT: [&str; 24] = [
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sin_cos", "sinh", "cosh", "tanh",
    "asinh", "exp", "exp2", "exp_m1", "ln", "ln_1p", "log2", "log10", "log", "powf", "cbrt",
    "hypot", "acosh",
];

impl Translator<'_> {
    pub(crate) fn call(&mut self, e: &mut Expr) -> Result<Value> {
        let line = line_of(e);
        let Expr::Call(call) = e else { return Ok(Value::unit()) };
        let Expr::Path(function) = &*call.func else {
            return refused(
                &call.func,
                "kernels call only named functions and closures",
                "name the closure by a `let`",
            );
        };
        let function = function.clone();
        if let Some(name) = function.path.get_ident()
            && let Some(local) = self.local(&name.to_string())
        {
            // A closure. It may change what it has captured.
            let local = local.cpp.clone();
            self.effect();
            let args = self.operands(&mut call.args)?;
            return Ok(self.called(format!("d({local})({})", crate::exprs::codes(&args))));
        }
        let last = function
            .path
            .segments
            .last()
            .map(|last| ascii(&last.ident.to_string()))
            .unwrap_or_default();
        if last == "Some" {
            let args = self.operands(&mut call.args)?;
            let effect = crate::translate::effect_of(&args);
            return Ok(Value::new(format!("some({})", crate::exprs::codes(&args)), effect));
        }
        if last == "each" && function.path.segments.len() == 1 {
            return refused(
                e,
                "a kernel has one parallel loop, which is its last statement",
                "call `each` once, at the end; write a second kernel for a second loop",
            );
        }
        if starts_upper(&last) {
            return self.tuple_structure(e);
        }
        if let Some(ty) = type_prefix(&function) {
            return self.associated(e, &ty, &last, line);
        }
        self.device_function(e, &function)
    }

    /// Emits a call, and returns its result. Calls stand in the order of Rust.
    pub(crate) fn called(&mut self, code: String) -> Value {
        let name = self.name("t");
        self.emit(&format!("auto {name} = {code};"));
        Value::constant(name)
    }

    /// Notes a call of a function that may have loops of its own.
    fn enters(&mut self) {
        for outer in &mut self.loops {
            outer.calls = true;
        }
    }

    /// `Vec3::new(a)`, `T::from_f64(a)`, `Self::f(a)`.
    fn associated(
        &mut self,
        e: &mut Expr,
        ty: &proc_macro2::TokenStream,
        name: &str,
        line: usize,
    ) -> Result<Value> {
        let Expr::Call(call) = e else { return Ok(Value::unit()) };
        let ty_name = ty.to_string();
        let last = ty_name.rsplit(':').next().unwrap_or_default().trim();
        let primitive = PRIMITIVES.contains(&last);
        let ty = self.hole(quote!(t.ty::<#ty>()));
        if !primitive {
            self.enters();
        }
        self.mutable_arguments(&call.args);
        let args = self.operands(&mut call.args)?;
        let mut suffix = String::new();
        // `half` rounds `from_f64` twice on some processors.
        let defined = DEFINED.contains(&name) || matches!(name, "from_f64" | "default");
        if (defined || !(primitive || OF_TRAITS.contains(&name)))
            && let Expr::Path(path) = &mut *call.func
            && let Some(last) = path.path.segments.last_mut()
        {
            last.ident = syn::Ident::new(&defined_name(name), last.ident.span());
            if !defined {
                let (probe, hole) = self.callee();
                call.args.insert(0, probe);
                suffix = hole;
            }
        }
        let args: String = args.iter().map(|arg| format!(", {}", arg.code)).collect();
        Ok(self.called(format!("a_{name}{suffix}(c, {line}, ty<{ty}>{{}}{args})")))
    }

    /// Returns the argument by which rustc reports which method is called, and what its instance adds to the name in C++.
    fn callee(&mut self) -> (Expr, String) {
        let number = self.probes;
        self.probes += 1;
        let probe = self.probe_name(number);
        let suffix = self.hole(quote!(types.name(#number, t)));
        (Expr::Verbatim(quote!(#probe)), suffix)
    }

    /// A function with `#[device]`: rustc finds its source by its path, and infers its generic arguments.
    fn device_function(&mut self, e: &mut Expr, function: &ExprPath) -> Result<Value> {
        let Expr::Call(call) = e else { return Ok(Value::unit()) };
        self.mutable_arguments(&call.args);
        let args = self.operands(&mut call.args)?;
        let number = self.probes;
        self.probes += 1;
        let probe = self.probe_name(number);
        let mut path = function.path.clone();
        let arguments = match path.segments.last_mut() {
            Some(last) => std::mem::replace(&mut last.arguments, syn::PathArguments::None),
            None => syn::PathArguments::None,
        };
        self.calls.push(path.clone());
        self.enters();
        let list = &call.args;
        let list = quote!(#list);
        let comma = (!list.is_empty()).then(|| quote!(,));
        let call = quote!(#path::phases_call #arguments(#probe #comma #list));
        replace(e, |_| call);
        let name = self.hole(quote!(types.name(#number, t)));
        let args: String = args.iter().map(|arg| format!(", {}", arg.code)).collect();
        Ok(self.called(format!("{name}(c{args})")))
    }

    /// Notes the effect of a call that is given `&mut` to something, which may be the output.
    fn mutable_arguments(&mut self, args: &Punctuated<Expr, Token![,]>) {
        for arg in args {
            match arg {
                Expr::Reference(reference) if reference.mutability.is_none() => {}
                Expr::Reference(reference) if self.is_variable(&reference.expr) => {}
                Expr::Lit(_)
                | Expr::Binary(_)
                | Expr::Index(_)
                | Expr::Cast(_)
                | Expr::Field(_)
                | Expr::Unary(_) => {}
                Expr::Path(path)
                    if path
                        .path
                        .get_ident()
                        .is_some_and(|name| self.is_plain(&name.to_string())) => {}
                Expr::MethodCall(_) | Expr::Call(_) => {}
                _ => self.effect(),
            }
        }
    }

    fn is_variable(&self, e: &Expr) -> bool {
        matches!(e, Expr::Path(path) if path.path.get_ident().is_some())
    }

    /// Returns whether a name is surely not a reference that can be written through.
    fn is_plain(&self, name: &str) -> bool {
        !self.writable.iter().any(|writable| writable == name)
    }

    pub(crate) fn method(&mut self, e: &mut Expr) -> Result<Value> {
        let line = line_of(e);
        let Expr::MethodCall(call) = e else { return Ok(Value::unit()) };
        let name = ascii(&call.method.to_string());
        let of_option = OF_OPTIONS.contains(&name.as_str());
        let is_device_method =
            !of_option && !DEFINED.contains(&name.as_str()) && !BUILT_IN.contains(&name.as_str());
        if let Some(turbofish) = call.turbofish.as_ref().filter(|_| !is_device_method) {
            return refused(
                turbofish,
                "methods of Rust's own types have no generic arguments in kernels",
                "leave them out, or write the type of the `let`",
            );
        }
        if matches!(name.as_str(), "iter" | "iter_mut" | "into_iter" | "sum" | "fold" | "collect") {
            return refused(
                &call.method,
                "kernels have iterators only in the head of a `for`",
                "write the loop: `for x in a.iter() { sum += *x; }`",
            );
        }
        if let Some((_, instead)) = REFUSED_OF_OPTIONS.iter().find(|(known, _)| *known == name) {
            return refused(&call.method, "kernels have no such method of `Option`", instead);
        }
        if INEXACT.contains(&name.as_str()) {
            return refused(
                &call.method,
                "this function has other results on other processors",
                "write it by a polynomial in a `#[device]` function",
            );
        }
        let receiver = self.place(&mut call.receiver)?;
        let mut values = vec![receiver];
        for arg in &mut call.args {
            let value = self.operand_after(&mut values, arg, true)?;
            values.push(value);
        }
        // Methods of user types have such a name if they are device methods: rustc refuses others here.
        if DEFINED.contains(&name.as_str()) || is_device_method {
            call.method = syn::Ident::new(&defined_name(&name), call.method.span());
        }
        let own_receiver = self.is_own_receiver(&call.receiver);
        if BUILT_IN.contains(&name.as_str()) && !matches!(name.as_str(), "unwrap" | "expect") {
            // C++ has this name for Rust's own types only.
            let private = self.private();
            replace(&mut call.receiver, |inner| quote!(#private::built_in(&(#inner))));
        }
        if of_option {
            let (private, inner) = (self.private(), &call.receiver);
            let span = call.method.span();
            let receiver = quote_spanned!(span=> #private::option(#inner));
            *call.receiver = Expr::Verbatim(receiver);
        }
        // A closure may change what it has captured.
        if is_atomic(&name) || of_option {
            self.effect();
        }
        if name == "unwrap" || name == "expect" {
            values.truncate(1);
            let (private, receiver) = (self.private(), &call.receiver);
            let line = u32::try_from(line).unwrap_or(0);
            let unwrapped = quote!(#private::unwrap(#receiver, #line));
            let value = self.called(format!("m_unwrap(c, {line}, d({}))", values[0].code));
            replace(e, |_| unwrapped);
            return Ok(value);
        }
        let receiver = format!("d({})", values[0].code);
        let args: String = values[1..].iter().map(|arg| format!(", {}", arg.code)).collect();
        let mut suffix = String::new();
        if is_device_method {
            let (probe, hole) = self.callee();
            call.args.insert(0, probe);
            suffix = hole;
        }
        let code = format!("m_{name}{suffix}(c, {line}, {receiver}{args})");
        if name == "len" && call.args.is_empty() {
            return Ok(Value::new(code, values[0].effect));
        }
        if !is_pure(&name) && !own_receiver {
            self.effect();
        }
        Ok(self.called(code))
    }

    /// Returns whether a method of this receiver changes at most variables of the thread.
    fn is_own_receiver(&self, e: &Expr) -> bool {
        match e {
            Expr::Paren(inner) => self.is_own_receiver(&inner.expr),
            Expr::Path(path) => {
                path.path.get_ident().is_some_and(|name| self.is_plain(&name.to_string()))
            }
            Expr::Field(field) => self.is_own_receiver(&field.base),
            Expr::Binary(_)
            | Expr::Lit(_)
            | Expr::Cast(_)
            | Expr::Verbatim(_)
            | Expr::Call(_)
            | Expr::MethodCall(_) => true,
            _ => false,
        }
    }

    pub(crate) fn macro_call(&mut self, e: &mut Expr) -> Result<Value> {
        let line = line_of(e);
        let Expr::Macro(mac) = e else { return Ok(Value::unit()) };
        let name = mac.mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let private = self.private();
        let rust_line = u32::try_from(line).unwrap_or(0);
        match name.as_str() {
            "assert" | "debug_assert" => {
                let args = Punctuated::<Expr, Token![,]>::parse_terminated
                    .parse2(mac.mac.tokens.clone())?;
                let Some(condition) = args.into_iter().next() else {
                    return refused(e, "`assert!` takes a condition", "write `assert!(a < b)`");
                };
                self.check_condition(e, condition, name == "debug_assert", rust_line)
            }
            "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" => {
                let args = Punctuated::<Expr, Token![,]>::parse_terminated
                    .parse2(mac.mac.tokens.clone())?;
                let mut args = args.into_iter();
                let (Some(a), Some(b)) = (args.next(), args.next()) else {
                    return refused(e, "this takes two values", "write `assert!(a == b)`");
                };
                let condition: Expr = if name.ends_with("eq") {
                    syn::parse_quote!((#a) == (#b))
                } else {
                    syn::parse_quote!((#a) != (#b))
                };
                self.check_condition(e, condition, name.starts_with("debug"), rust_line)
            }
            "unreachable" | "panic" | "todo" | "unimplemented" => {
                // What comes after has no values, so the thread ends here.
                self.effect();
                self.emit(&format!("c.fail({line}, Assert);"));
                replace(e, |_| quote!(#private::fault(#private::FaultKind::Assert, #rust_line)));
                Ok(Value::never())
            }
            "println" => self.println(e),
            _ => refused(
                &mac.mac.path,
                "kernels have no such macro",
                "the macros of kernels are `assert!`, `assert_eq!`, `debug_assert!`, `unreachable!` and `println!`",
            ),
        }
    }

    fn check_condition(
        &mut self,
        e: &mut Expr,
        mut condition: Expr,
        debug: bool,
        line: u32,
    ) -> Result<Value> {
        let private = self.private();
        let (emitted, value) = self.captured(|s| s.operand(&mut condition))?;
        if debug {
            let on =
                self.hole(quote!(if cfg!(debug_assertions) { "true" } else { "false" }.to_owned()));
            self.emit(&format!("if constexpr ({on}) {{"));
        }
        self.out.push_str(&emitted);
        self.emit(&format!("if (!v({})) c.fail({line}, Assert);", value.code));
        if debug {
            self.emit("}");
            replace(
                e,
                |_| quote!(if cfg!(debug_assertions) { #private::check(#condition, #line) }),
            );
        } else {
            replace(e, |_| quote!(#private::check(#condition, #line)));
        }
        Ok(Value::unit())
    }
}

/// Methods of Rust's own types, and of the library's traits, which keep their names.
pub(crate) const BUILT_IN: [&str; 52] = [
    "len",
    "is_empty",
    "is_nan",
    "is_finite",
    "is_infinite",
    "is_some",
    "is_none",
    "unwrap_or",
    "is_positive",
    "is_negative",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
    "wrapping_neg",
    "wrapping_abs",
    "wrapping_shl",
    "wrapping_shr",
    "saturating_add",
    "saturating_sub",
    "saturating_mul",
    "checked_add",
    "checked_sub",
    "checked_mul",
    "unsigned_abs",
    "abs_diff",
    "count_ones",
    "count_zeros",
    "leading_zeros",
    "trailing_zeros",
    "rotate_left",
    "rotate_right",
    "reverse_bits",
    "swap_bytes",
    "is_power_of_two",
    "to_f64",
    "to_i64",
    "load",
    "store",
    "swap",
    "compare_exchange",
    "fetch_add",
    "fetch_sub",
    "fetch_min",
    "fetch_max",
    "fetch_and",
    "fetch_or",
    "fetch_xor",
    "unwrap",
    "expect",
    "to_f32",
    "to_degrees",
    "to_radians",
];

/// Methods of `Option` that take closures or other `Option`s.
pub(crate) const OF_OPTIONS: [&str; 8] =
    ["map", "and_then", "map_or", "filter", "or", "or_else", "unwrap_or_else", "is_some_and"];

/// Methods that only `Option` has, and what to write in their place.
const REFUSED_OF_OPTIONS: [(&str, &str); 9] = [
    ("as_ref", "leave it out: an `Option` of a kernel is `Copy`"),
    ("as_mut", "write `if let Some(x) = value { value = Some(…); }`"),
    ("copied", "write `map(|x| *x)`"),
    ("cloned", "write `map(|x| *x)`"),
    ("ok_or", "kernels have no `Result`: return an `Option`"),
    ("ok_or_else", "kernels have no `Result`: return an `Option`"),
    ("unwrap_or_default", "write `unwrap_or(value)`"),
    ("map_or_else", "write `map(…).unwrap_or_else(…)`"),
    ("is_none_or", "write `!value.is_some_and(…)` with the opposite condition"),
];

/// Associated functions of the library's traits for generic parameters.
pub(crate) const OF_TRAITS: [&str; 3] = ["from_f64", "from_i64", "default"];

/// Returns whether a method changes nothing, whatever it is called on.
pub(crate) fn is_pure(name: &str) -> bool {
    DEFINED.contains(&name) || (BUILT_IN.contains(&name) && !is_atomic(name))
}

fn is_atomic(name: &str) -> bool {
    name.starts_with("fetch_") || matches!(name, "store" | "compare_exchange" | "swap")
}

/// Returns the name of the library's method with defined results.
pub(crate) fn defined_name(name: &str) -> String {
    format!("phases_{name}")
}

pub(crate) fn starts_upper(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

const PRIMITIVES: [&str; 15] = [
    "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64", "bool",
    "f16", "bf16",
];

/// Returns the type before the last segment of a path, if there is one.
fn type_prefix(function: &ExprPath) -> Option<proc_macro2::TokenStream> {
    if let Some(qself) = &function.qself {
        let ty = &qself.ty;
        return Some(ty.to_token_stream());
    }
    let mut segments = function.path.segments.clone();
    segments.pop();
    // Without the last `::`.
    let last = segments.pop()?.into_value();
    let name = last.ident.to_string();
    if !starts_upper(&name) && !PRIMITIVES.contains(&name.as_str()) {
        return None;
    }
    segments.push(last);
    let path = Path { leading_colon: function.path.leading_colon, segments };
    Some(path.to_token_stream())
}

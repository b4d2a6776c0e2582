//! Calls of functions, methods and macros.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprMethodCall, ExprPath, Path, Token};

use crate::blocks::Role;
use crate::exprs::{ascii, line_of, replace};
use crate::names::{
    DEFINED, OF_LIBRARY, OF_OPTIONS, OF_TRAITS, check_associated, check_function, check_method,
    defined_name, is_atomic, is_built_in, is_by_value, is_elementary, is_primitive, is_pure,
};
use crate::operators::{borrowed, may_change};
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

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
            // A call of a closure may change its captured variables.
            let local = local.cpp.clone();
            self.effect();
            let args = self.operands(&mut call.args)?;
            let args: String = args.iter().map(|arg| format!(", {}", arg.code)).collect();
            return Ok(self.called(format!("d({local})(c{args})")));
        }
        let last = function
            .path
            .segments
            .last()
            .map(|last| ascii(&last.ident.to_string()))
            .unwrap_or_default();
        if names_some(&function.path) {
            // A function of the program may have this name.
            let span = syn::spanned::Spanned::span(&function);
            *call.func = syn::parse_quote_spanned!(span=> ::core::option::Option::Some);
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
        if last == "blocks" && function.path.segments.len() == 1 {
            return refused(
                e,
                "a kernel has one call of `blocks`, which is its last statement",
                "give it all outputs, `(chunks(a, 64), chunks(b, 64))`, or write a second kernel",
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

    /// Emits a call, and returns its result. Calls are emitted in the order of Rust.
    pub(crate) fn called(&mut self, code: String) -> Value {
        let name = self.name("t");
        self.emit(&format!("auto {name} = {code};"));
        Value::constant(name)
    }

    /// Records a call of a function that may contain loops.
    fn enters(&mut self) {
        for outer in &mut self.loops {
            outer.calls = true;
        }
    }

    /// Translates `Vec3::new(a)`, `T::from_f64(a)`, `Self::f(a)`.
    fn associated(
        &mut self,
        e: &mut Expr,
        ty: &TokenStream,
        name: &str,
        line: usize,
    ) -> Result<Value> {
        let Expr::Call(call) = e else { return Ok(Value::unit()) };
        let ty_name = ty.to_string();
        let last = ty_name.rsplit(':').next().unwrap_or_default().trim();
        let primitive = is_primitive(last);
        if primitive
            && is_elementary(name)
            && let Expr::Path(path) = &mut *call.func
            && path.qself.is_none()
            && let Some(function) = path.path.segments.last_mut()
            && !call.args.is_empty()
        {
            let args = self.operands(&mut call.args)?;
            function.ident = syn::Ident::new(&format!("phases_{name}"), function.ident.span());
            self.of_type(path, ty);
            let (probe, value) = self.elementary(name, line, &args);
            call.args.insert(1, probe);
            return Ok(value);
        }
        if let Expr::Path(function) = &*call.func {
            check_associated(function, last, name)?;
        }
        if primitive && let Expr::Path(path) = &mut *call.func {
            self.of_type(path, ty);
        }
        let ty = self.hole(quote!(phases_text.ty::<#ty>()));
        let converts = primitive && name == "from";
        if !primitive {
            self.enters();
        }
        let starts_phase = call.args.iter().any(|arg| self.role(arg) == Role::Block);
        self.mutable_arguments(&call.args);
        let args = self.operands(&mut call.args)?;
        // A type of the program may have its own conversion.
        let private = self.private();
        for arg in call.args.iter_mut().filter(|_| converts) {
            replace(arg, |inner| quote!(#private::of_number(#inner)));
        }
        let mut suffix = String::new();
        // `from_f64` is included, because `half` rounds it twice on some processors.
        let defined = DEFINED.contains(&name)
            || OF_LIBRARY.contains(&name)
            || matches!(name, "from_f64" | "default");
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
        let value = self.called(format!("a_{name}{suffix}(c, {line}, ty<{ty}>{{}}{args})"));
        if starts_phase {
            self.after_blocks_function();
        }
        Ok(value)
    }

    /// Makes `f32::sqrt` one of a built-in type, not of a module or another type that the program calls `f32`, and `from` that
    /// of std.
    fn of_type(&self, function: &mut ExprPath, ty: &TokenStream) {
        let Some(last) = function.path.segments.last() else { return };
        let private = self.private();
        let of = if last.ident == "from" { quote!(as ::core::convert::From<_>) } else { quote!() };
        *function = syn::parse_quote!(<<#ty as #private::BuiltIn>::Place #of>::#last);
    }

    /// Returns the argument with which rustc reports the called method or constructor, and its instance's suffix of the C++
    /// name, or its variant's hash.
    pub(crate) fn callee(&mut self) -> (Expr, String) {
        let number = self.probes;
        self.probes += 1;
        let probe = self.probe_name(number);
        let private = self.private();
        let suffix = self.hole(quote!(#private::Types::name(&phases_types, #number, phases_text)));
        (Expr::Verbatim(quote!(#probe)), suffix)
    }

    /// Translates a call of a `#[device]` function: rustc finds its source by its path, and infers its generic
    /// arguments.
    fn device_function(&mut self, e: &mut Expr, function: &ExprPath) -> Result<Value> {
        if let Some(value) = self.swap(e)? {
            return Ok(value);
        }
        check_function(function)?;
        let Expr::Call(call) = e else { return Ok(Value::unit()) };
        let starts_phase = call.args.iter().any(|arg| self.role(arg) == Role::Block);
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
        let private = self.private();
        let name = self.hole(quote!(#private::Types::name(&phases_types, #number, phases_text)));
        let args: String = args.iter().map(|arg| format!(", {}", arg.code)).collect();
        let value = self.called(format!("{name}(c{args})"));
        if starts_phase {
            self.after_blocks_function();
        }
        Ok(value)
    }

    /// Records the effect of a call with `&mut` arguments, which may lead to an output.
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

    /// Returns whether an expression is certainly a slice or an array: a parameter of such a type.
    fn is_slice(&self, e: &Expr) -> bool {
        let Expr::Path(path) = e else { return false };
        let local = path.path.get_ident().and_then(|name| self.local(&name.to_string()));
        local.is_some_and(|local| self.slices.contains(&local.cpp))
    }

    /// Returns whether an expression is a parameter that is a structure.
    fn is_structure(&self, e: &Expr) -> bool {
        self.cpp_of(e).is_some_and(|cpp| self.structures.contains(cpp))
    }

    /// Returns whether an expression is a parameter that may be a structure.
    pub(crate) fn may_be_structure(&self, e: &Expr) -> bool {
        self.is_structure(e) || self.cpp_of(e).is_some_and(|cpp| self.referred.contains(cpp))
    }

    /// Returns the C++ name of a variable.
    fn cpp_of(&self, e: &Expr) -> Option<&String> {
        let Expr::Path(path) = e else { return None };
        Some(&self.local(&path.path.get_ident()?.to_string())?.cpp)
    }

    fn is_variable(&self, e: &Expr) -> bool {
        matches!(e, Expr::Path(path) if path.path.get_ident().is_some())
    }

    /// Returns whether a name is certainly not a reference that can be written through.
    fn is_plain(&self, name: &str) -> bool {
        !self.writable.iter().any(|writable| writable == name)
    }

    pub(crate) fn method(&mut self, e: &mut Expr) -> Result<Value> {
        if let Some(value) = self.block_method(e)? {
            return Ok(value);
        }
        let line = line_of(e);
        let Expr::MethodCall(call) = e else { return Ok(Value::unit()) };
        let method = call.method.to_string();
        if is_elementary(&method) && call.turbofish.is_none() {
            let (place, changes) = (borrowed(&call.receiver), changes_of(call));
            let args = std::iter::once(&mut *call.receiver).chain(&mut call.args);
            let args = self.operands(args)?;
            let kept = self.keep_receiver(call, place, &changes);
            call.method = syn::Ident::new(&format!("phases_{method}"), call.method.span());
            let (probe, value) = self.elementary(&method, line, &args);
            call.args.insert(0, probe);
            around(e, kept);
            return Ok(value);
        }
        // The receiver is replaced below.
        if self.level.is_some() && self.is_of_threads(&call.method.to_string(), &call.receiver) {
            return Err(crate::blocks::reads::all_threads(&call.method));
        }
        let name = ascii(&call.method.to_string());
        let of_option = OF_OPTIONS.contains(&name.as_str());
        let is_device_method =
            !of_option && !DEFINED.contains(&name.as_str()) && !is_built_in(&name);
        if let Some(turbofish) = call.turbofish.as_ref().filter(|_| !is_device_method) {
            return refused(
                turbofish,
                "methods of Rust's own types have no generic arguments in kernels",
                "leave them out, or write the type of the `let`",
            );
        }
        let of_slice = self.is_slice(&call.receiver);
        let of_structure = self.is_structure(&call.receiver);
        let (place, changes) = (borrowed(&call.receiver), changes_of(call));
        let receiver = self.place(&mut call.receiver)?;
        check_method(&call.method, &name, of_slice)?;
        let mut values = vec![receiver];
        for arg in &mut call.args {
            let value = self.operand_after(&mut values, arg, place.is_some())?;
            values.push(value);
        }
        let own_receiver = self.is_own_receiver(&call.receiver);
        let kept = self.keep_receiver(call, place, &changes);
        // A method of a user's type may only have such a name if it is a device method: rustc refuses others here.
        let of_library = OF_LIBRARY.contains(&name.as_str());
        if DEFINED.contains(&name.as_str()) || of_library || is_device_method {
            call.method = syn::Ident::new(&defined_name(&name), call.method.span());
        }
        if is_built_in(&name) && !of_library && !matches!(name.as_str(), "unwrap" | "expect") {
            // Only built-in types have a C++ function of this name.
            let private = self.private();
            replace(&mut call.receiver, |inner| quote!(#private::built_in(&(#inner))));
            // The receiver has the type of `self`, so that no method of a trait comes before the built-in one.
            if is_by_value(&name) {
                replace(&mut call.receiver, |inner| quote!((*#inner)));
            }
        }
        if of_option {
            let (private, inner) = (self.private(), &call.receiver);
            let span = call.method.span();
            let receiver = quote_spanned!(span=> #private::option(#inner));
            *call.receiver = Expr::Verbatim(receiver);
        }
        // A closure argument may change its captured variables.
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
        let mut receiver = format!("d({})", values[0].code);
        if of_option {
            // A closure may change the receiver, which Rust has copied.
            receiver = format!("copy({receiver})");
        }
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
        // A query has loops, so the text of a loop around it must not be duplicated.
        if of_structure {
            self.enters();
            self.effect();
        }
        if !is_pure(&name) && !own_receiver {
            self.effect();
        }
        around(e, kept);
        Ok(self.called(code))
    }

    /// Makes rustc refuse an argument that changes the receiver: Rust reads a receiver by value before, C++ after. Returns
    /// the receiver if it is no place, which then needs a name.
    fn keep_receiver(
        &self,
        call: &mut ExprMethodCall,
        place: Option<TokenStream>,
        changes: &[bool],
    ) -> Option<Expr> {
        if !changes.contains(&true) {
            return None;
        }
        let name = receiver_name();
        let kept = match place {
            Some(_) => None,
            None => Some(std::mem::replace(&mut *call.receiver, syn::parse_quote!(#name))),
        };
        let (private, place) = (self.private(), place.unwrap_or_else(|| quote!(#name)));
        for (arg, _) in call.args.iter_mut().zip(changes).filter(|(_, changes)| **changes) {
            replace(arg, |inner| quote!(#private::beside(&#place, #inner)));
        }
        kept
    }

    /// Returns the call of an elementary function, or of a device method of this name, and the argument with which rustc
    /// reports which one it is. The loops of the functions are over constant coefficients.
    fn elementary(&mut self, method: &str, line: usize, args: &[Value]) -> (Expr, Value) {
        let number = self.probes;
        self.probes += 1;
        let probe = self.probe_name(number);
        let private = self.private();
        let function = self.hole(
            quote!(#private::Types::function(&phases_types, #number, #method, #line, phases_text)),
        );
        let args: String = args.iter().map(|arg| format!(", d({})", arg.code)).collect();
        (Expr::Verbatim(quote!(#probe)), self.called(format!("{function}{args})")))
    }

    /// Returns whether a method is an atomic operation, which is for threads.
    pub(crate) fn is_of_threads(&self, method: &str, receiver: &Expr) -> bool {
        let Expr::Path(path) = receiver else { return is_atomic(method) };
        let local = path.path.get_ident().and_then(|name| self.local(&name.to_string()));
        is_atomic(method) || (method == "load" && local.is_some_and(|it| it.role == Role::Part))
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
                // The code that follows has no values, so the thread ends here.
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
            let on = self
                .hole(quote!(::std::string::ToString::to_string(&::core::cfg!(debug_assertions))));
            self.emit(&format!("if constexpr ({on}) {{"));
        }
        self.out.push_str(&emitted);
        self.emit(&format!("if (!v({})) c.fail({line}, Assert);", value.code));
        if debug {
            self.emit("}");
            replace(
                e,
                |_| quote!(if ::core::cfg!(debug_assertions) { #private::check(#condition, #line) }),
            );
        } else {
            replace(e, |_| quote!(#private::check(#condition, #line)));
        }
        Ok(Value::unit())
    }
}

fn changes_of(call: &ExprMethodCall) -> Vec<bool> {
    call.args.iter().map(may_change).collect()
}

fn receiver_name() -> syn::Ident {
    syn::Ident::new("phases_receiver", Span::mixed_site())
}

/// Puts the name of a receiver around the call of its method.
fn around(e: &mut Expr, receiver: Option<Expr>) {
    if let Some(receiver) = receiver {
        let name = receiver_name();
        replace(e, |call| quote!(match #receiver { #[allow(unused_mut)] mut #name => #call }));
    }
}

/// Returns whether a path is that of `Option`'s variant `Some`.
pub(crate) fn names_some(path: &Path) -> bool {
    let mut names = path.segments.iter().rev().map(|segment| &segment.ident);
    names.next().is_some_and(|name| name == "Some") && names.next().is_none_or(|of| of == "Option")
}

pub(crate) fn starts_upper(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Returns the type before the last segment of a path, if there is one.
fn type_prefix(function: &ExprPath) -> Option<TokenStream> {
    if let Some(qself) = &function.qself {
        let ty = &qself.ty;
        return Some(ty.to_token_stream());
    }
    let mut segments = function.path.segments.clone();
    segments.pop();
    // The trailing `::` is removed.
    let last = segments.pop()?.into_value();
    let name = last.ident.to_string();
    if !starts_upper(&name) && !is_primitive(&name) {
        return None;
    }
    segments.push(last);
    let path = Path { leading_colon: function.path.leading_colon, segments };
    Some(path.to_token_stream())
}

//! Local closures, and `return`.

use quote::{quote, quote_spanned};
use syn::{Expr, Pat, ReturnType};

use crate::blocks::{Role, role_of};
use crate::patterns::single_name;
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

impl Translator<'_> {
    pub(crate) fn closure(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Closure(closure) = e else { return Ok(Value::unit()) };
        if let Some(capture) = &closure.capture {
            return refused(
                capture,
                "kernels have no `move` closures",
                "let the closure borrow what it uses",
            );
        }
        let result = match &closure.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => Some(self.ty(&ty.clone())?),
        };
        self.in_closure += 1;
        let wraps = std::mem::replace(&mut self.wraps, false);
        let in_kernel = std::mem::replace(&mut self.in_kernel, false);
        // The closure's body does not belong to the loop around it.
        let loops = std::mem::take(&mut self.loops);
        let level = self.level.take();
        let translated = self.captured(|s| {
            s.scoped(|s| {
                let mut params = Vec::new();
                for input in &mut closure.inputs {
                    if let Pat::Type(typed) = &*input
                        && role_of(&typed.ty) != Role::Value
                    {
                        return refused(
                            &typed.ty,
                            "a closure takes no block and no memory of one",
                            "write a `#[device]` function, or use the memory's own name in the closure",
                        );
                    }
                    let ty = match &*input {
                        Pat::Type(typed) => s.ty(&typed.ty.clone())?,
                        _ => "auto".to_owned(),
                    };
                    let name = s.name("p");
                    params.push(format!("{ty} {name}"));
                    match single_name(input) {
                        Some((local, mutable)) => {
                            let mut unused = crate::patterns::Matching::default();
                            s.pattern(input, "", &mut unused)?;
                            let cpp = s.declare(&local, mutable);
                            s.emit(&format!("auto {cpp} = {name};"));
                        }
                        None => s.bind_pattern(input, &name)?,
                    }
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
                Ok(params.iter().map(|param| format!(", {param}")).collect::<String>())
            })
        });
        self.loops = loops;
        self.level = level;
        self.wraps = wraps;
        self.in_kernel = in_kernel;
        self.in_closure -= 1;
        let (body, params) = translated?;
        let result = result.map(|ty| format!(" -> {ty}")).unwrap_or_default();
        // Who calls it says where its checks are reported: a closure of block level may run in a thread of a phase.
        let (file, checks) = (
            self.hole(quote!(::std::string::ToString::to_string(
                &phases_text.file(::core::file!())
            ))),
            self.overflow_hole(),
        );
        Ok(Value::constant(format!(
            "[&](const auto c0{params}){result} {{\n[[maybe_unused]] const auto c = in<{checks}>(c0, {file});\n{body}}}"
        )))
    }

    /// Translates `value?` for an `Option`.
    pub(crate) fn question(&mut self, e: &mut Expr) -> Result<Value> {
        if self.in_kernel || self.in_closure > 0 {
            return refused(
                e,
                "`?` leaves a `#[device]` function that returns an `Option`",
                "write `let Some(x) = value else { return };`",
            );
        }
        let Expr::Try(question) = e else { return Ok(Value::unit()) };
        let value = self.operand(&mut question.expr)?;
        let value = self.keep(value);
        self.effect();
        self.emit(&format!("if (!{}.some) return nothing{{}};", value.code));
        let inner = &question.expr;
        let name = syn::Ident::new("phases_some", proc_macro2::Span::mixed_site());
        let leave = quote_spanned!(question.question_token.span=> (match #inner {
            ::core::option::Option::Some(#name) => #name,
            ::core::option::Option::None => {
                return ::core::option::Option::Some(::core::option::Option::None)
            }
        }));
        *e = Expr::Verbatim(leave);
        Ok(Value::constant(format!("{}.value", value.code)))
    }

    pub(crate) fn return_value(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Return(leave) = e else { return Ok(Value::unit()) };
        let code = match &mut leave.expr {
            Some(value) => {
                let value = self.expr(value)?;
                if value.never {
                    return Ok(value);
                }
                value.code
            }
            None => "unit{}".to_owned(),
        };
        if self.wraps {
            let value = match &leave.expr {
                Some(value) => quote!(#value),
                None => quote!(()),
            };
            leave.expr =
                Some(Box::new(Expr::Verbatim(quote!(::core::option::Option::Some(#value)))));
        }
        // A `return` may prevent later code of a loop from being reached.
        self.effect();
        self.level.iter_mut().for_each(|level| level.returns = true);
        if self.in_kernel {
            self.emit("return;");
        } else {
            self.emit(&format!("return {code};"));
        }
        Ok(Value::never())
    }
}

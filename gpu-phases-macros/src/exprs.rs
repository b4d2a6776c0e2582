//! Expressions.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprPath, Lit, Type, UnOp};

use crate::calls::starts_upper;
use crate::implementation::name_hash;
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value, effect_of};

impl Translator<'_> {
    /// Translates an expression. Effects are emitted as statements; the result is free of them.
    pub(crate) fn expr(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::Lit(lit) => {
                let lit = lit.clone();
                self.literal(e, &lit, false)
            }
            Expr::Paren(inner) => self.expr(&mut inner.expr),
            Expr::Group(inner) => self.expr(&mut inner.expr),
            Expr::Path(_) => self.path(e),
            Expr::Unary(_) => self.unary(e),
            Expr::Binary(_) => self.binary(e),
            Expr::Assign(_) => self.assign(e),
            Expr::Cast(cast) => {
                let ty = self.cast_type(&cast.ty)?;
                let value = self.operand(&mut cast.expr)?;
                Ok(Value::new(format!("as<{ty}>(v({}))", value.code), value.effect))
            }
            Expr::Index(_) | Expr::Field(_) => self.copied(e),
            Expr::Reference(_) => self.reference(e),
            Expr::Tuple(tuple) if tuple.elems.is_empty() => Ok(Value::unit()),
            Expr::Tuple(tuple) => {
                let parts = self.operands(&mut tuple.elems)?;
                Ok(Value::new(format!("tup({})", codes(&parts)), effect_of(&parts)))
            }
            Expr::Array(array) if array.elems.is_empty() => {
                let ty = self.probe(e);
                Ok(Value::constant(format!("{ty}{{}}")))
            }
            Expr::Array(array) => {
                let parts = self.operands(&mut array.elems)?;
                Ok(Value::new(format!("arr({})", codes(&parts)), effect_of(&parts)))
            }
            Expr::Repeat(repeat) => {
                let value = self.operand(&mut repeat.expr)?;
                let len = &repeat.len;
                let [len] = self.sizes([quote!(#len)]);
                Ok(Value::new(format!("filled<{len}>({})", value.code), value.effect))
            }
            Expr::Struct(_) => self.structure(e),
            Expr::Block(block) if block.label.is_none() => self.block_value(&mut block.block),
            Expr::Block(_) => self.labelled_block(e),
            Expr::If(_) | Expr::Match(_) => self.branch(e, true),
            Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => self.loops(e),
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) => self.jump(e),
            Expr::Call(_) => self.call(e),
            Expr::MethodCall(_) => self.method(e),
            Expr::Closure(_) => self.closure(e),
            Expr::Macro(_) => self.macro_call(e),
            Expr::Let(_) => refused(
                e,
                "`let` is a condition only of `if` and `while`",
                "write `if let PATTERN = value { … }`",
            ),
            Expr::Try(_) => self.question(e),
            Expr::Unsafe(_) => {
                refused(e, "kernels have no `unsafe`", "use slices, whose indices are checked")
            }
            Expr::Await(_) | Expr::Async(_) => {
                refused(e, "kernels have no `async`", "call the function")
            }
            Expr::Range(_) => refused(
                e,
                "a range is only what a `for` runs over",
                "write `for i in a..b`, or `x >= a && x < b` for `(a..b).contains(&x)`",
            ),
            _ => refused(
                e,
                "kernels have no such expression",
                "see the list of what kernels can contain",
            ),
        }
    }

    fn cast_type(&mut self, ty: &Type) -> Result<String> {
        if matches!(ty, Type::Infer(_)) {
            return refused(
                ty,
                "the type of this `as` is not written",
                "write it, as in `x as f32`",
            );
        }
        self.ty(ty)
    }

    /// Translates a local, or a constant, whose value rustc knows.
    fn path(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Path(path) = e else { return Ok(Value::unit()) };
        if let Some(name) = path.path.get_ident()
            && let Some(local) = self.local(&name.to_string()).cloned()
        {
            self.mentioned.push(local.cpp.clone());
            let effect = if local.mutable { Effect::Reads } else { Effect::Constant };
            return Ok(Value::new(local.cpp, effect));
        }
        if path.path.is_ident("None") {
            // A constant of the program may have this name.
            *e = syn::parse_quote_spanned!(path.span()=> ::core::option::Option::None);
            let ty = self.probe(e);
            return Ok(Value::constant(format!("{ty}{{}}")));
        }
        self.constant(path)
    }

    /// Translates a constant, or a variant.
    pub(crate) fn constant(&mut self, path: &ExprPath) -> Result<Value> {
        let code = self.hole(quote!(phases_text.value(&#path)));
        Ok(Value::constant(code))
    }

    fn unary(&mut self, e: &mut Expr) -> Result<Value> {
        let line = line_of(e);
        let Expr::Unary(unary) = e else { return Ok(Value::unit()) };
        if let (UnOp::Neg(_), Expr::Lit(lit)) = (&unary.op, &*unary.expr)
            && matches!(lit.lit, Lit::Int(_) | Lit::Float(_))
        {
            let lit = lit.clone();
            return self.literal(e, &lit, true);
        }
        match unary.op {
            UnOp::Deref(_) => self.place(e),
            UnOp::Neg(_) => {
                let value = self.operand(&mut unary.expr)?;
                Ok(Value::new(format!("o_neg(c, {line}, {})", value.code), Effect::Faults))
            }
            _ => {
                let value = self.operand(&mut unary.expr)?;
                Ok(Value::new(format!("o_not(c, {line}, {})", value.code), value.effect))
            }
        }
    }

    /// Translates a structure with named fields.
    fn structure(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Struct(fields) = e else { return Ok(Value::unit()) };
        let variant = self.named_variant(&fields.path);
        let mut values: Vec<Value> = Vec::new();
        let mut names = Vec::new();
        for field in &mut fields.fields {
            // `Vec3 { x }` becomes `Vec3 { x: x }`, whose value may be rewritten.
            field.colon_token.get_or_insert_with(Default::default);
            names.push(member(&field.member));
            let value = self.operand_after(&mut values, &mut field.expr, false)?;
            values.push(value);
        }
        let rest = match &mut fields.rest {
            Some(rest) => Some(self.operand_after(&mut values, rest, false)?),
            None => None,
        };
        let ty = self.probe(e);
        let name = self.name("t");
        match rest {
            Some(rest) => self.emit(&format!("{ty} {name} = {};", rest.code)),
            None => self.emit(&format!("{ty} {name};")),
        }
        self.fields(&name, &variant, names.iter().zip(&values));
        Ok(Value::constant(name))
    }

    /// Emits the assignments to the fields of a structure, or of the variant with this hash in C++.
    fn fields<'v>(
        &mut self,
        name: &str,
        variant: &str,
        fields: impl Iterator<Item = (&'v String, &'v Value)>,
    ) {
        self.emit(&format!("begin<{variant}>({name});"));
        for (field, value) in fields {
            self.emit(&format!("variant<{variant}>({name}).{field} = {};", value.code));
        }
    }

    /// Translates a tuple structure: `Pair(a, b)`.
    pub(crate) fn tuple_structure(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Call(call) = e else { return Ok(Value::unit()) };
        let values = self.operands(&mut call.args)?;
        let (path, args) = (call.func.clone(), &call.args);
        let private = self.private();
        let (variant, made) = match &*path {
            Expr::Path(name) if of_type(&name.path).is_none() => {
                let (probe, variant) = self.callee();
                (variant, quote!(#private::constructor(&#probe, #path)(#args)))
            }
            Expr::Path(name) => (self.named_variant(&name.path), quote!(#path(#args))),
            _ => return Ok(Value::unit()),
        };
        // A function of the program may have such a name, which is no pattern.
        let value = syn::Ident::new("phases_made", proc_macro2::Span::mixed_site());
        *e = Expr::Verbatim(made);
        let ty = self.probe(e);
        replace(e, |made| {
            quote!((match #made {
                #value => match #value {
                    #path(..) => #value,
                    #[allow(unreachable_patterns)]
                    _ => #value,
                }
            }))
        });
        let name = self.name("t");
        self.emit(&format!("{ty} {name};"));
        let names: Vec<String> = (0..values.len()).map(|at| format!("f{at}")).collect();
        self.fields(&name, &variant, names.iter().zip(&values));
        Ok(Value::constant(name))
    }

    /// Returns the hash in C++ of the variant `Type::Name`, of which rustc checks that `Type` is one: a module may import
    /// variants by other names. Of other paths it is 0, and with that an enum with values is an error.
    pub(crate) fn named_variant(&mut self, path: &syn::Path) -> String {
        let (Some(of), Some(last)) = (of_type(path), path.segments.last()) else {
            return "0ull".to_owned();
        };
        let hash = format!("{}ull", name_hash(&last.ident.unraw().to_string()));
        self.hole(quote!({
            let _ = ::core::marker::PhantomData::<#of>;
            ::std::string::String::from(#hash)
        }))
    }

    /// Translates a block with a value. Its statements are emitted.
    pub(crate) fn block_value(&mut self, block: &mut Block) -> Result<Value> {
        self.scoped(|s| {
            let value = s.statements(&mut block.stmts)?;
            // The block's scope ends here in Rust, too, and its C++ names are unique.
            Ok(value)
        })
    }
}

/// Returns the path of the type that has the variant or constant of this path, if its name is that of a type.
pub(crate) fn of_type(path: &syn::Path) -> Option<syn::Path> {
    let mut of = path.clone();
    of.segments.pop();
    of.segments.pop_punct();
    let last = of.segments.last()?;
    starts_upper(&last.ident.to_string()).then_some(of)
}

/// Returns the C++ name of a field.
pub(crate) fn member(member: &syn::Member) -> String {
    match member {
        syn::Member::Named(name) => field_name(&name.to_string()),
        syn::Member::Unnamed(index) => format!("f{}", index.index),
    }
}

/// Returns the C++ name of a named field, which is never a keyword or macro of C++.
pub(crate) fn field_name(name: &str) -> String {
    format!("f_{}", ascii(name))
}

/// Returns a name in ASCII letters.
pub(crate) fn ascii(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    name.chars()
        .map(|c| if c.is_ascii() { c.to_string() } else { format!("u{:x}_", u32::from(c)) })
        .collect()
}

pub(crate) fn line_of(at: &impl Spanned) -> usize {
    at.span().start().line
}

pub(crate) fn codes(values: &[Value]) -> String {
    values.iter().map(|value| value.code.as_str()).collect::<Vec<_>>().join(", ")
}

/// Replaces an expression by tokens.
///
/// rustc takes the location of an expression, which a failed check reports, from its first and last tokens, and uses
/// that of the macro if one of them is the macro's. So both get the span of the expression, and so does the end of
/// the path in a call.
pub(crate) fn replace(e: &mut Expr, with: impl FnOnce(Expr) -> TokenStream) {
    let span = e.span();
    let old = std::mem::replace(e, Expr::Verbatim(TokenStream::new()));
    let mut tokens: Vec<TokenTree> = with(old).into_iter().collect();
    for token in &mut tokens {
        let TokenTree::Punct(punct) = token else { break };
        punct.set_span(span);
    }
    if let [.., before, TokenTree::Group(last)] = &mut tokens[..] {
        last.set_span(span);
        if let TokenTree::Ident(name) = before {
            name.set_span(span);
        }
    }
    *e = Expr::Verbatim(tokens.into_iter().collect());
}

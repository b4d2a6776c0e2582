//! Type parameters, each with the list of its instances: `<T: Real in [f32 = "f32", f64 = "f64"]>`.
//!
//! The generated code finds the instance of a type by its `TypeId`, once for each launch. The alternative was a trait
//! that each instance implements: it would need an impl for each pair of a declaration and a type, would put a trait
//! bound on every generic caller, and could not serve types of other crates. The price is that a type outside the list
//! is an error of the launch, or of `load` for a struct, instead of the compiler.
//!
//! The kernels of one generic function lie in one opaque field: in an array, safe code could swap the instances.

use crate::cursor::{Cursor, split_at_commas};
use crate::lex::quote;
use crate::primitive::{PRIMITIVES, primitives};
use crate::symbol::unquoted;
use crate::token::{Error, Span, Token, bare, to_text, type_text};
use proc_macro::Delimiter;

/// A type parameter of a struct or of a kernel.
#[derive(Debug)]
pub(crate) struct TypeParam {
    pub(crate) name: Token,
    /// The name as text.
    pub(crate) text: String,
    /// The tokens between `:` and `in`; may be empty.
    pub(crate) bound: Vec<Token>,
    /// At least one.
    pub(crate) instances: Vec<Instance>,
}

/// A type that has a kernel, and its text in the kernel's symbol.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) ty: Vec<Token>,
    pub(crate) symbol: String,
}

/// The names of primitive types in C++, as template arguments.
const CPP_NAMES: [(&str, &str); 13] = [
    ("bool", "bool"),
    ("f32", "float"),
    ("f64", "double"),
    ("i8", "signed char"),
    ("i16", "short"),
    ("i32", "int"),
    ("i64", "long long"),
    ("isize", "ptrdiff_t"),
    ("u8", "unsigned char"),
    ("u16", "unsigned short"),
    ("u32", "unsigned int"),
    ("u64", "unsigned long long"),
    ("usize", "size_t"),
];

/// Reads `<…>` if it comes next. Names in `outer` are taken.
pub(crate) fn generics(
    cursor: &mut Cursor<'_>,
    outer: &[TypeParam],
) -> Result<Vec<TypeParam>, Error> {
    let mut params: Vec<TypeParam> = Vec::new();
    if !cursor.peek().is_some_and(|token| token.is_punct('<')) {
        return Ok(params);
    }
    cursor.next();
    loop {
        let param = type_param(cursor)?;
        if outer.iter().chain(&params).any(|other| other.text == param.text) {
            let message = format!("there are two type parameters `{}`", param.text);
            return Err(Error::new(param.name.span(), message));
        }
        params.push(param);
        let comma = cursor.peek().filter(|token| token.is_punct(',')).and_then(|_| cursor.next());
        let closed = cursor.peek().is_some_and(|token| token.is_punct('>'));
        if closed || comma.is_none() {
            cursor.mark('>', "`,` or `>` after the instances of a type parameter")?;
            return Ok(params);
        }
    }
}

fn type_param(cursor: &mut Cursor<'_>) -> Result<TypeParam, Error> {
    let here = cursor.here();
    let name = cursor.name("a type parameter with its instances, as in `<T in [f32, f64]>`")?;
    let text = to_text(std::slice::from_ref(&name));
    if text == "const" || PRIMITIVES.contains(&text.as_str()) {
        let message = format!("`{text}` is no name for a type parameter");
        return Err(Error::new(here, message));
    }
    let mut bound = Vec::new();
    if cursor.peek().is_some_and(|token| token.is_punct(':')) {
        cursor.next();
        while let Some(token) = cursor.peek().filter(|token| !token.is_ident("in")) {
            if matches!(token, Token::Group(Delimiter::Brace, ..)) || token.is_punct(';') {
                break;
            }
            bound.push(token.clone());
            cursor.next();
        }
    }
    let missing = format!(
        "the instances of `{text}` are missing: list the types that the source has kernels for, as in \
         `{text} in [f32, f64]`"
    );
    if cursor.eat("in").is_none() {
        return Err(Error::new(here, missing));
    }
    let Some(Token::Group(Delimiter::Bracket, list, span)) = cursor.peek() else {
        return Err(Error::new(cursor.here(), missing));
    };
    cursor.next();
    if list.is_empty() {
        return Err(Error::new(*span, format!("`{text}` has no instances: list one type or more")));
    }
    let mut instances: Vec<Instance> = Vec::new();
    for tokens in split_at_commas(list) {
        let instance = instance(tokens, *span)?;
        let twin = instances.iter().find(|other| to_text(&other.ty) == to_text(&instance.ty));
        if let (Some(_), Some(first)) = (twin, tokens.first()) {
            let message = format!("`{}` is listed twice", type_text(&instance.ty));
            return Err(Error::new(first.span(), message));
        }
        instances.push(instance);
    }
    Ok(TypeParam { name, text, bound, instances })
}

/// `type` or `type = "text"`.
fn instance(tokens: &[Token], list: Span) -> Result<Instance, Error> {
    let equals = tokens.iter().rposition(|token| token.is_punct('='));
    let (ty, text) = tokens.split_at(equals.unwrap_or(tokens.len()));
    let Some(first) = ty.first() else {
        return Err(Error::new(tokens.first().map_or(list, Token::span), "expected a type"));
    };
    let symbol = match text {
        [equals, literal @ ..] => {
            let text = match literal {
                [literal] => unquoted(literal),
                _ => None,
            };
            let place = literal.first().unwrap_or(equals).span();
            text.ok_or_else(|| {
                Error::new(place, "expected the type's text in symbols, as in `f32 = \"float\"`")
            })?
        }
        [] => {
            let name = to_text(bare(ty));
            let known = CPP_NAMES.iter().find(|(rust, _)| *rust == name);
            let (_, cpp) = known.ok_or_else(|| {
                let ty = type_text(ty);
                let message =
                    format!("say what `{ty}` is called in symbols, as in `{ty} = \"name\"`");
                Error::new(first.span(), message)
            })?;
            (*cpp).to_owned()
        }
    };
    Ok(Instance { ty: ty.to_vec(), symbol })
}

/// Returns the parameters as they are declared, with a comma after each. Their bounds make them types whose
/// identity is known when the program runs; without a bound of the user's, kernels take them.
pub(crate) fn declared(params: &[TypeParam], krate: &[Token]) -> Vec<Token> {
    let each = params.iter().flat_map(|param| {
        let device_repr = quote("$cuda::DeviceRepr", &[("cuda", krate)]);
        let bound = if param.bound.is_empty() { &device_repr } else { &param.bound };
        let name = std::slice::from_ref(&param.name);
        quote("$T: $bound + 'static,", &[("T", name), ("bound", bound)])
    });
    each.collect()
}

/// Returns the names of the parameters, with a comma after each.
pub(crate) fn names(params: &[TypeParam]) -> Vec<Token> {
    let name = |param: &TypeParam| quote("$T,", &[("T", std::slice::from_ref(&param.name))]);
    params.iter().flat_map(name).collect()
}

/// `list` between `<` and `>`, or nothing.
pub(crate) fn angled(list: &[Token]) -> Vec<Token> {
    if list.is_empty() { Vec::new() } else { quote("<$list>", &[("list", list)]) }
}

impl TypeParam {
    /// Returns an expression for the index of the instance that the parameter is, and its text in symbols. It returns
    /// from the function if there is none. `owner` is what has the parameters `all`.
    pub(crate) fn found(&self, owner: &str, all: &[TypeParam], krate: &[Token]) -> Vec<Token> {
        let subject = match all {
            [_] => format!("`{owner}`"),
            _ => format!("`{}` of `{owner}`", self.text),
        };
        let list: Vec<Token> = self
            .instances
            .iter()
            .flat_map(|instance| {
                quote(
                    "$cuda::__private::Instance::of::<$ty>($symbol),",
                    &[
                        ("cuda", krate),
                        ("ty", &primitives(&instance.ty)),
                        ("symbol", &[Token::string(&instance.symbol, Span::Macro)]),
                    ],
                )
            })
            .collect();
        quote(
            "$cuda::__private::instance::<$T>($subject, &[$list])?",
            &[
                ("cuda", krate),
                ("T", std::slice::from_ref(&self.name)),
                ("subject", &[Token::string(&subject, Span::Macro)]),
                ("list", &list),
            ],
        )
    }
}

//! What a method takes: its parameters, and what it makes of them for the launch.

use crate::function::Function;
use crate::lex::quote;
use crate::method::at;
use crate::param::{Activity, Kind, Param};
use crate::primitive::primitives;
use crate::token::{Span, Token, type_text};
use proc_macro::Delimiter;

/// Tokens about all parameters of a kernel.
#[derive(Default)]
pub(crate) struct Taken {
    /// The lifetimes of the views, with a comma after each.
    pub(crate) lifetimes: Vec<Token>,
    /// The parameters of the method.
    pub(crate) params: Vec<Token>,
    /// Statements that make the kernel's arguments of them.
    pub(crate) conversions: Vec<Token>,
    /// The arguments of the kernel, with a comma after each.
    pub(crate) arguments: Vec<Token>,
}

/// Returns what the method of `function` takes. `tape` is the path of `cuda_tape` for a method that records.
pub(crate) fn taken(function: &Function, krate: &[Token], tape: Option<&[Token]>) -> Taken {
    let mut all = Taken::default();
    for param in &function.params {
        match (tape, &param.kind, param.activity) {
            (Some(tape), Kind::Value { ty, .. }, Some((Activity::Active, _))) => {
                let bound = at(param.type_span(), quote("$tape::Active", &[("tape", tape)]));
                let holes: &[(&str, &[Token])] = &[
                    ("name", std::slice::from_ref(&param.name)),
                    ("bound", &bound),
                    ("ty", &primitives(ty)),
                    ("end", &at(param.type_span(), quote(">", &[]))),
                ];
                all.params.extend(quote("$name: impl $bound<$ty $end,", holes));
            }
            _ => all.param(param, function, krate),
        }
        // Where rustc reports a type that is no kernel argument.
        let argument =
            [Token::Ident(param.text.clone(), param.name.span().located_at(param.type_span()))];
        let passed = match (&param.kind, param.only_read) {
            (_, false) => "$name,",
            (Kind::Nullable { .. }, true) => {
                "::core::option::Option::map($name, $cuda::arg::ReadOnly),"
            }
            (_, true) => "$cuda::arg::ReadOnly($name),",
        };
        all.arguments.extend(quote(passed, &[("name", &argument), ("cuda", krate)]));
    }
    all
}

impl Taken {
    fn param(&mut self, param: &Param, function: &Function, krate: &[Token]) {
        let name = std::slice::from_ref(&param.name);
        match &param.kind {
            Kind::Value { .. } if param.default.is_some() => {}
            Kind::Value { ty, integer: true } => {
                let integer =
                    at(param.type_span(), quote("$cuda::arg::Integer", &[("cuda", krate)]));
                let clause = format!("{}: {}", param.text, type_text(ty));
                let holes: &[(&str, &[Token])] = &[
                    ("name", name),
                    ("ty", &primitives(ty)),
                    ("integer", &integer),
                    ("cuda", krate),
                    ("kernel", &[Token::string(&function.text, Span::Macro)]),
                    ("clause", &[Token::string(&clause, Span::Macro)]),
                    ("text", &[Token::string(&param.text, Span::Macro)]),
                    ("end", &at(param.type_span(), quote(">", &[]))),
                ];
                self.params.extend(quote("$name: impl $integer<$ty $end,", holes));
                self.conversions.extend(quote(
                    "let $name: $ty = $cuda::__private::integer($kernel, $clause, $text, $name)?;",
                    holes,
                ));
            }
            Kind::Value { ty, .. } => {
                let ty = primitives(ty);
                self.params.extend(quote("$name: $ty,", &[("name", name), ("ty", &ty)]));
            }
            Kind::Slice { element, mutable, from, to } => {
                let of = match mutable {
                    true => ("$cuda::WriteView", "::write_view"),
                    false => ("$cuda::ReadView", "::read_view"),
                };
                self.view(param, of, element, (*from, *to), krate);
            }
            Kind::Nullable { element, mutable, from, to } => {
                let of = match mutable {
                    true => ("$cuda::arg::NullableWriteView", "::nullable_write_view"),
                    false => ("$cuda::arg::NullableReadView", "::nullable_read_view"),
                };
                self.view(param, of, element, (*from, *to), krate);
            }
            Kind::Raw { element, mutable, from } => {
                let pointer = at(*from, quote("$cuda::arg::IntoRawPointer", &[("cuda", krate)]));
                let how = if *mutable { "mut" } else { "const" };
                let holes: &[(&str, &[Token])] = &[
                    ("name", name),
                    ("T", &primitives(element)),
                    ("pointer", &pointer),
                    ("how", &quote(how, &[])),
                    ("end", &at(*from, quote(">", &[]))),
                ];
                self.params.extend(quote("$name: impl $pointer<*$how $T $end,", holes));
                self.conversions
                    .extend(quote("let $name = $pointer::<*$how $T>::raw_pointer($name);", holes));
            }
        }
    }

    /// A parameter that takes a view by the trait and the method `of`. In an error about a bound that an argument does
    /// not meet, rustc marks the tokens from `&` to `]`.
    fn view(
        &mut self,
        param: &Param,
        of: (&str, &str),
        element: &[Token],
        (from, to): (Span, Span),
        krate: &[Token],
    ) {
        let name = std::slice::from_ref(&param.name);
        let taken = [Token::Group(Delimiter::Parenthesis, name.to_vec(), from)];
        let holes: &[(&str, &[Token])] = &[
            ("a", &lifetime(param)),
            ("T", &primitives(element)),
            ("name", name),
            ("view", &at(from, quote(of.0, &[("cuda", krate)]))),
            ("make", &at(from, quote(of.1, &[]))),
            ("taken", &taken),
            ("end", &at(to, quote(">", &[]))),
        ];
        self.lifetimes.extend(quote("$a,", holes));
        self.params.extend(quote("$name: impl $view<$a, $T $end,", holes));
        self.conversions.extend(quote("let $name = $view $make $taken;", holes));
    }
}

/// Returns the lifetime of a slice, named after its parameter so that the documentation reads well.
fn lifetime(param: &Param) -> Vec<Token> {
    // A raw name may be a keyword, and `'in` is no lifetime.
    let name = match param.text.strip_prefix("r#") {
        Some(raw) => format!("{raw}_"),
        None => param.text.clone(),
    };
    vec![
        Token::Punct('\'', proc_macro::Spacing::Joint, Span::Macro),
        Token::Ident(name, Span::Macro),
    ]
}

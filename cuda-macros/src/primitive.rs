//! Names of primitive types, which a module may give to types of its own.

use crate::lex::quote;
use crate::token::Token;
use proc_macro::{Delimiter, Spacing};

/// Everything in `core::primitive`.
pub(crate) const PRIMITIVES: [&str; 17] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16",
    "u32", "u64", "u128", "usize",
];

/// Returns a type with `::core::primitive::u64` for `u64`, and so on: clauses and checks of lengths go by the name of a
/// type, so it must not mean another. Paths that only begin or end with such a name, and what is passed to a macro,
/// stay as they are.
pub(crate) fn primitives(ty: &[Token]) -> Vec<Token> {
    let mut out = Vec::with_capacity(ty.len());
    for (at, token) in ty.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| ty.get(before));
        let is_path = |mark: Option<&Token>, next: Option<&Token>| {
            matches!(mark, Some(Token::Punct(':', Spacing::Joint, _)))
                && next.is_some_and(|next| next.is_punct(':'))
        };
        let earlier = at.checked_sub(2).and_then(|earlier| ty.get(earlier));
        let in_path = is_path(earlier, before) || is_path(ty.get(at + 1), ty.get(at + 2));
        let is_lifetime = before.is_some_and(|before| before.is_punct('\''));
        let is_macros = before.is_some_and(|before| before.is_punct('!'));
        match token {
            Token::Ident(name, span)
                if PRIMITIVES.contains(&name.as_str()) && !in_path && !is_lifetime =>
            {
                let path = quote("::core::primitive::", &[]);
                // Errors point to what the user wrote.
                out.extend(path.into_iter().map(|token| token.with_span(*span)));
                out.push(token.clone());
            }
            // The length of an array is an expression.
            Token::Group(Delimiter::Brace, ..) => out.push(token.clone()),
            Token::Group(delimiter, inner, span) if !is_macros => {
                out.push(Token::Group(*delimiter, primitives(inner), *span));
            }
            _ => out.push(token.clone()),
        }
    }
    out
}

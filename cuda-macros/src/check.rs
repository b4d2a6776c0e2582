//! The code that evaluates a clause on the host.

use crate::clause::{Clause, Comparison, Expr};
use crate::function::Function;
use crate::lex::quote;
use crate::param::{Kind, Param};
use crate::token::{Span, Token};

/// Returns from the method unless the clause holds. It reads the parameters, and `launch`.
pub(crate) fn check(clause: &Clause, function: &Function, krate: &[Token]) -> Vec<Token> {
    let params = &function.params;
    let values = values(&clause.leaves(), params, krate);
    let failure = quote(
        "return ::core::result::Result::Err(
            $cuda::__private::precondition($kernel, $clause, &[$values]));",
        &[
            ("cuda", krate),
            ("kernel", &[Token::string(&function.text, Span::Macro)]),
            ("clause", &[Token::string(&clause.display(params), Span::Macro)]),
            ("values", &values),
        ],
    );
    let mut out = Vec::new();
    let mut left = &clause.first;
    for (comparison, right) in &clause.rest {
        out.extend(compare(left, *comparison, right, &failure, params, krate));
        left = right;
    }
    out
}

/// Returns the texts of `leaves`, each with its value, for an error.
pub(crate) fn values(leaves: &[&Expr], params: &[Param], krate: &[Token]) -> Vec<Token> {
    let mut values = Vec::new();
    for leaf in leaves {
        let text = Token::string(&leaf.display(params), Span::Macro);
        let value = plain(leaf, params, krate).unwrap_or_default();
        values.extend(quote("($text, $value),", &[("text", &[text]), ("value", &value)]));
    }
    values
}

fn compare(
    left: &Expr,
    comparison: Comparison,
    right: &Expr,
    failure: &[Token],
    params: &[Param],
    krate: &[Token],
) -> Vec<Token> {
    let op = quote(comparison.symbol(), &[]);
    if let (Some(left), Some(right)) = (plain(left, params, krate), plain(right, params, krate)) {
        return quote(
            "{
                let (left, right): (::core::primitive::i128, ::core::primitive::i128) =
                    ($left, $right);
                if !(left $op right) { $failure }
            }",
            &[("left", &left), ("right", &right), ("op", &op), ("failure", failure)],
        );
    }
    // `None` is what checked arithmetic gives for a value out of range and a division by 0.
    quote(
        "match ($left, $right) {
            (::core::option::Option::Some(left), ::core::option::Option::Some(right))
                if left $op right => {}
            _ => { $failure }
        }",
        &[
            ("left", &checked(left, params, krate)),
            ("right", &checked(right, params, krate)),
            ("op", &op),
            ("failure", failure),
        ],
    )
}

/// Returns an `i128`, of an expression that needs no arithmetic.
fn plain(expr: &Expr, params: &[Param], krate: &[Token]) -> Option<Vec<Token>> {
    match expr {
        Expr::Int(value) => Some(vec![Token::Literal(format!("{value}i128"), Span::Macro)]),
        Expr::Param(i) => {
            let name = std::slice::from_ref(&params[*i].name);
            Some(quote("($name as ::core::primitive::i128)", &[("name", name)]))
        }
        Expr::Len(i) => {
            let view = match params[*i].kind {
                Kind::Slice { mutable: true, .. } => "DeviceSliceMut",
                _ => "DeviceSlice",
            };
            // A path, not `x.len()`: no trait in scope may supply it instead.
            let holes: &[(&str, &[Token])] = &[
                ("cuda", krate),
                ("view", &quote(view, &[])),
                ("name", std::slice::from_ref(&params[*i].name)),
            ];
            Some(quote("($cuda::$view::len(&$name) as ::core::primitive::i128)", holes))
        }
        Expr::Launch(shape) => {
            Some(quote(&format!("(launch.{} as ::core::primitive::i128)", shape.field()), &[]))
        }
        Expr::Paren(inner) => plain(inner, params, krate),
        Expr::Neg(_) | Expr::Binary(..) => None,
    }
}

/// Returns an `Option<i128>`, of any expression.
pub(crate) fn checked(expr: &Expr, params: &[Param], krate: &[Token]) -> Vec<Token> {
    match expr {
        Expr::Neg(inner) => quote(
            "::core::option::Option::and_then($inner, ::core::primitive::i128::checked_neg)",
            &[("inner", &checked(inner, params, krate))],
        ),
        Expr::Paren(inner) => checked(inner, params, krate),
        Expr::Binary(left, op, right) => quote(
            "match ($left, $right) {
                (::core::option::Option::Some(left), ::core::option::Option::Some(right)) =>
                    ::core::primitive::i128::$op(left, right),
                _ => ::core::option::Option::None,
            }",
            &[
                ("left", &checked(left, params, krate)),
                ("right", &checked(right, params, krate)),
                ("op", &quote(op.checked(), &[])),
            ],
        ),
        Expr::Int(_) | Expr::Param(_) | Expr::Len(_) | Expr::Launch(_) => {
            let value = plain(expr, params, krate).unwrap_or_default();
            quote("::core::option::Option::Some($value)", &[("value", &value)])
        }
    }
}

//! The code that evaluates a clause on the host.

use crate::clause::{Clause, Comparison, Condition, Expr, Path};
use crate::function::Function;
use crate::lex::quote;
use crate::method::at;
use crate::param::{Kind, Param};
use crate::primitive::primitives;
use crate::token::{Span, Token};
use proc_macro::Delimiter;

/// Returns from the method unless the clause holds. It reads the parameters, and `launch`.
pub(crate) fn check(clause: &Clause, function: &Function, krate: &[Token]) -> Vec<Token> {
    let params = &function.params;
    let mut any = Vec::new();
    for condition in &clause.alternatives {
        let holds = match condition {
            Condition::Chain { first, rest } => chain(first, rest, params, krate),
            Condition::PowerOfTwo(expr) => quote(
                "match $value {
                    ::core::option::Option::Some(value) =>
                        value > 0i128 && ::core::primitive::i128::count_ones(value) == 1u32,
                    ::core::option::Option::None => false,
                }",
                &[("value", &checked(expr, params, krate))],
            ),
        };
        let or = if any.is_empty() { Vec::new() } else { quote("||", &[]) };
        any.extend(quote("$or ($holds)", &[("or", &or), ("holds", &holds)]));
    }
    quote(
        "if !($any) {
            return ::core::result::Result::Err(
                $cuda::__private::precondition($kernel, $clause, &[$values]));
        }",
        &[
            ("any", &any),
            ("cuda", krate),
            ("kernel", &[Token::string(&function.text, Span::Macro)]),
            ("clause", &[Token::string(&clause.display(params), Span::Macro)]),
            ("values", &values(&clause.leaves(), params, krate)),
        ],
    )
}

/// Returns an expression that is true if all comparisons of a chain hold.
fn chain(
    first: &Expr,
    rest: &[(Comparison, Expr)],
    params: &[Param],
    krate: &[Token],
) -> Vec<Token> {
    let mut out = Vec::new();
    let mut left = first;
    for (comparison, right) in rest {
        let and = if out.is_empty() { Vec::new() } else { quote("&&", &[]) };
        let holds = compare(left, *comparison, right, params, krate);
        out.extend(quote("$and $holds", &[("and", &and), ("holds", &holds)]));
        left = right;
    }
    out
}

/// Returns the statements that refuse to compile a field which is not the parameter's own, but reached through a
/// `Deref` of its type: that would be code, and what it returns is not what the kernel is given.
pub(crate) fn own_fields(function: &Function) -> Vec<Token> {
    let params = &function.params;
    let mut leaves: Vec<&Expr> = Vec::new();
    function
        .clauses
        .iter()
        .flat_map(Clause::leaves)
        .for_each(|leaf| leaf.collect_leaves(&mut leaves));
    params
        .iter()
        .filter_map(|param| param.default.as_ref())
        .for_each(|d| d.collect_leaves(&mut leaves));
    let extents = function.over.iter().flat_map(|over| &over.extents);
    extents.for_each(|extent| extent.collect_leaves(&mut leaves));
    let mut out = Vec::new();
    for leaf in leaves {
        if let Expr::Field(i, path) = leaf
            && let Kind::Value { ty, .. } = &params[*i].kind
            && function.safe
        {
            let holes: &[(&str, &[Token])] = &[("ty", &primitives(ty)), ("path", &path.tokens)];
            out.extend(quote("let _ = ::core::mem::offset_of!($ty, $path);", holes));
        }
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

/// Returns an expression that is true if the comparison holds.
fn compare(
    left: &Expr,
    comparison: Comparison,
    right: &Expr,
    params: &[Param],
    krate: &[Token],
) -> Vec<Token> {
    let op = quote(comparison.symbol(), &[]);
    if let (Some(left), Some(right)) = (plain(left, params, krate), plain(right, params, krate)) {
        return quote(
            "{
                let (left, right): (::core::primitive::i128, ::core::primitive::i128) =
                    ($left, $right);
                left $op right
            }",
            &[("left", &left), ("right", &right), ("op", &op)],
        );
    }
    // `None` is what checked arithmetic gives for a value out of range and a division by 0.
    quote(
        "match ($left, $right) {
            (::core::option::Option::Some(left), ::core::option::Option::Some(right)) =>
                left $op right,
            _ => false,
        }",
        &[
            ("left", &checked(left, params, krate)),
            ("right", &checked(right, params, krate)),
            ("op", &op),
        ],
    )
}

/// Returns a constant as the compiler evaluates it: not a variable, and no code that runs. The function that takes it
/// takes integers alone, where a cast would take floats, too.
pub(crate) fn constant(path: &Path) -> [Token; 2] {
    [
        Token::Ident("const".to_owned(), place(path)),
        Token::Group(Delimiter::Brace, path.tokens.clone(), place(path)),
    ]
}

/// Returns the `i128` of an integer. Where it is none, rustc marks `path`.
fn number(path: &Path, value: &[Token], krate: &[Token]) -> Vec<Token> {
    let mut call = at(place(path), quote("$cuda::__private::number", &[("cuda", krate)]));
    call.push(Token::Group(Delimiter::Parenthesis, value.to_vec(), place(path)));
    call
}

/// Returns where a constant or a field is written.
fn place(path: &Path) -> Span {
    path.tokens.last().map_or(Span::Macro, Token::span)
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
        Expr::Const(path) => Some(number(path, &constant(path), krate)),
        Expr::Field(i, path) => {
            let name = &params[*i].name;
            let place = name.span().located_at(place(path));
            let mut field = vec![name.clone().with_span(place)];
            field.extend(quote(".$path", &[("path", &path.tokens)]));
            Some(number(path, &field, krate))
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
        Expr::Int(_)
        | Expr::Param(_)
        | Expr::Len(_)
        | Expr::Launch(_)
        | Expr::Const(_)
        | Expr::Field(..) => {
            let value = plain(expr, params, krate).unwrap_or_default();
            quote("::core::option::Option::Some($value)", &[("value", &value)])
        }
    }
}

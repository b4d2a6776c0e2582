//! `#[test_launches]`: the function that launches each safe kernel under its clauses, with arguments that
//! `cuda_safe::testing` draws.
//!
//! The declaration is handed over as data, which decides the values to try. The launches go through the kernels' methods,
//! so what is allowed is decided by the code that every launch runs.

use crate::check::constant;
use crate::clause::{Arithmetic, Clause, Comparison, Condition, Expr};
use crate::compare::instances;
use crate::emit::cfg;
use crate::function::Function;
use crate::generics::{Instance, names};
use crate::lex::quote;
use crate::over::{Threads, threads};
use crate::param::{Kind, Param};
use crate::parse::Attribute;
use crate::primitive::primitives;
use crate::shape::{Axis, Shape};
use crate::token::{Error, Span, Token, type_text};
use proc_macro::Delimiter;

/// The attribute's name.
const NAME: &str = "test_launches";

/// Takes `#[test_launches]` or `#[cfg_attr(predicate, test_launches)]` out of the attributes of a struct. Returns the
/// `#[cfg]` of the function, which is empty for the first.
pub(crate) fn take_testing(attributes: &mut Vec<Attribute>) -> Result<Option<Vec<Token>>, Error> {
    let mut found = None;
    let mut misplaced = None;
    attributes.retain(|attribute| {
        let Some(Token::Group(_, inner, _)) = attribute.tokens.last() else { return true };
        let condition = match inner.as_slice() {
            [name] if name.is_ident(NAME) => Vec::new(),
            [name, rest @ ..] if name.is_ident(NAME) => {
                misplaced = misplaced.or(rest.first().map(Token::span));
                return true;
            }
            [_, Token::Group(Delimiter::Parenthesis, list, _)] if attribute.name == "cfg_attr" => {
                let mut parts = list.rsplitn(2, |token| token.is_punct(','));
                let is_name = |part: &[Token]| matches!(part, [name] if name.is_ident(NAME));
                let (Some(last), Some(predicate)) = (parts.next(), parts.next()) else {
                    return true;
                };
                if !is_name(last) {
                    return true;
                }
                if predicate.iter().any(|token| token.is_punct(',')) {
                    misplaced = misplaced.or(last.first().map(Token::span));
                    return true;
                }
                quote("#[cfg($predicate)]", &[("predicate", predicate)])
            }
            _ => return true,
        };
        if found.replace(condition).is_some() {
            misplaced = misplaced.or(inner.first().map(Token::span));
        }
        false
    });
    match misplaced {
        Some(span) => Err(Error::new(
            span,
            "write `#[test_launches]` or `#[cfg_attr(test, test_launches)]`, once and alone",
        )),
        None => Ok(found),
    }
}

/// Returns the functions of the struct.
pub(crate) fn functions(holes: &[(&str, &[Token])]) -> Vec<Token> {
    quote(
        "
        /// Loads the kernels and launches each safe one as its declaration allows, with arguments that `launches` draws;
        /// see `cuda_safe::testing`.
        ///
        /// # Errors
        /// A launch went wrong, no launch that is allowed was found, or the source does not compile.
        $cfg
        #[allow(dead_code, reason = \"one of the two is enough\")]
        pub fn test_launches(
            launches: &mut $cuda::testing::Launches<'_>,
        ) -> ::core::result::Result<$cuda::testing::Report, $cuda::testing::Error> {
            $instances
            let module = <_ as $cuda::KernelSource>::load_with_lines(
                $source, $cuda::testing::Launches::context(launches), &[$symbols])?;
            // SAFETY: `module` was made from the source that `unsafe in` names, two lines above.
            let kernels = $promise?;
            Self::test_loaded(&kernels, launches)
        }

        /// Launches each safe kernel as its declaration allows, with arguments that `launches` draws; see
        /// `cuda_safe::testing`. The kernels are in the context of `launches`.
        ///
        /// # Errors
        /// A launch went wrong, or no launch that is allowed was found.
        $cfg
        #[allow(clippy::too_many_lines, reason = \"it grows with the declaration\")]
        #[allow(dead_code, deprecated, unused_mut, unused_imports, reason = \"generated for tests\")]
        pub fn test_loaded(
            &self,
            launches: &mut $cuda::testing::Launches<'_>,
        ) -> ::core::result::Result<$cuda::testing::Report, $cuda::testing::Error> {
            $tests
            ::core::result::Result::Ok($cuda::testing::Launches::take_report(launches))
        }
        ",
        holes,
    )
}

/// Returns the statements that test one kernel, each instance for itself.
pub(crate) fn tests(function: &Function, krate: &[Token]) -> Vec<Token> {
    let cfg = cfg(&function.attributes);
    let text = Token::string(&function.text, Span::Macro);
    if !function.safe {
        return quote(
            "$cfg { $cuda::testing::Launches::skip(launches, $text); }",
            &[("cfg", &cfg), ("cuda", krate), ("text", &[text])],
        );
    }
    let each = instances(&function.generics);
    each.iter()
        .flat_map(|types| {
            quote("$cfg { $test }", &[("cfg", &cfg), ("test", &test(function, types, krate))])
        })
        .collect()
}

/// Returns the test of an instance, whose types are `types`.
fn test(function: &Function, types: &[&Instance], krate: &[Token]) -> Vec<Token> {
    let fields = fields(function);
    let mut aliases = Vec::new();
    let mut instance = Vec::new();
    for (param, of) in function.generics.iter().zip(types) {
        let holes: &[(&str, &[Token])] =
            &[("T", std::slice::from_ref(&param.name)), ("ty", &primitives(&of.ty))];
        aliases.extend(quote("type $T = $ty;", holes));
        instance.push(format!("{} = {}", param.text, type_text(&of.ty)));
    }
    let (mut arguments, mut passed, mut compared) = (Vec::new(), Vec::new(), Vec::new());
    for (i, param) in function.params.iter().enumerate() {
        let argument = [Token::Ident(format!("argument_{i}"), Span::Macro)];
        let Some(made) = made(i, param, krate) else { continue };
        arguments.extend(quote(
            "let mut $argument = $made;",
            &[("argument", &argument), ("made", &made)],
        ));
        let pass = match &param.kind {
            Kind::Slice { mutable: true, .. } => "&mut $argument,",
            Kind::Slice { .. } => "&$argument,",
            _ => "$argument,",
        };
        passed.extend(quote(pass, &[("argument", &argument)]));
        if let Kind::Slice { mutable: false, .. } = &param.kind {
            let holes: &[(&str, &[Token])] =
                &[("cuda", krate), ("i", &[index(i)]), ("argument", &argument)];
            compared
                .extend(quote("$cuda::testing::Drawn::unchanged(drawn, $i, &$argument)?;", holes));
        }
        for (k, field) in fields.iter().enumerate() {
            let Expr::Field(owner, path) = field else { continue };
            if *owner == i {
                let holes: &[(&str, &[Token])] = &[
                    ("cuda", krate),
                    ("k", &[index(k)]),
                    ("argument", &argument),
                    ("path", &path.tokens),
                ];
                arguments.extend(quote(
                    "$cuda::testing::Drawn::set(drawn, $k, &mut $argument.$path)?;",
                    holes,
                ));
            }
        }
    }
    let launch = match function.over {
        Some(_) => Vec::new(),
        None => quote("$cuda::testing::Drawn::launch(drawn),", &[("cuda", krate)]),
    };
    let generics = match function.generics.as_slice() {
        [] => Vec::new(),
        params => quote("::<$of>", &[("of", &names(params))]),
    };
    quote(
        "
        $aliases
        let kernel = $kernel;
        $cuda::testing::Launches::test(launches, &kernel, &mut |drawn: &mut $cuda::testing::Drawn<'_>| {
            use $cuda::testing::values::{OfBytes as _, OfOthers as _};
            $arguments
            let made = Self::$name $generics(
                self, $cuda::testing::Drawn::stream(drawn), $launch $passed);
            $compared
            made
        })?;
        ",
        &[
            ("aliases", &aliases),
            ("kernel", &description(function, &fields, &instance.join(", "), krate)),
            ("cuda", krate),
            ("arguments", &arguments),
            ("name", std::slice::from_ref(&function.name)),
            ("generics", &generics),
            ("launch", &launch),
            ("passed", &passed),
            ("compared", &compared),
        ],
    )
}

/// Returns the expression that makes the argument for a parameter; `None` for what the method fills in.
fn made(i: usize, param: &Param, krate: &[Token]) -> Option<Vec<Token>> {
    let (method, ty) = match &param.kind {
        Kind::Value { .. } if param.default.is_some() => return None,
        Kind::Value { ty, integer: true } => {
            let holes: &[(&str, &[Token])] =
                &[("cuda", krate), ("ty", &primitives(ty)), ("i", &[index(i)])];
            return Some(quote("$cuda::testing::Drawn::integer::<$ty>(drawn, $i)?", holes));
        }
        Kind::Value { ty, .. } => ("value", ty),
        Kind::Slice { element, .. }
        | Kind::Nullable { element, .. }
        | Kind::Raw { element, .. } => ("slice", element),
    };
    let holes: &[(&str, &[Token])] =
        &[("cuda", krate), ("ty", &primitives(ty)), ("i", &[index(i)])];
    Some(quote(
        &format!(
            "$cuda::testing::Drawn::{method}::<$ty>(
                drawn, $i, &(&$cuda::testing::values::Values::<$ty>::new()).how())?"
        ),
        holes,
    ))
}

/// Returns the fields of parameters that expressions read, each once.
fn fields(function: &Function) -> Vec<&Expr> {
    let mut leaves: Vec<&Expr> = Vec::new();
    for leaf in function.clauses.iter().flat_map(Clause::leaves) {
        leaf.collect_leaves(&mut leaves);
    }
    let defaults = function.params.iter().filter_map(|param| param.default.as_ref());
    let extents = function.over.iter().flat_map(|over| &over.extents);
    defaults.chain(extents).for_each(|expr| expr.collect_leaves(&mut leaves));
    leaves.retain(|leaf| matches!(leaf, Expr::Field(..)));
    leaves
}

/// Returns an expression for the declaration as data.
fn description(
    function: &Function,
    fields: &[&Expr],
    instance: &str,
    krate: &[Token],
) -> Vec<Token> {
    let params = &function.params;
    let text = |text: &str| Token::string(text, Span::Macro);
    let of = |expr: &Expr| tree(expr, fields, krate);
    let mut out = quote(
        "$cuda::testing::declared::DeclaredKernel::new($name, $instance)",
        &[("cuda", krate), ("name", &[text(&function.text)]), ("instance", &[text(instance)])],
    );
    for param in params {
        let name = [text(&param.text)];
        out.extend(match (&param.kind, &param.default) {
            (Kind::Value { ty, integer: true }, None) => {
                quote(".integer::<$ty>($name)", &[("ty", &primitives(ty)), ("name", &name)])
            }
            (Kind::Value { ty, .. }, Some(default)) => {
                let clause =
                    format!("{}: {} = {}", param.text, type_text(ty), default.display(params));
                let holes: &[(&str, &[Token])] = &[
                    ("ty", &primitives(ty)),
                    ("name", &name),
                    ("clause", &[text(&clause)]),
                    ("value", &of(default)),
                ];
                quote(".filled::<$ty>($name, $clause, $value)", holes)
            }
            (Kind::Value { .. }, None) => quote(".value($name)", &[("name", &name)]),
            (Kind::Slice { mutable: true, .. }, _) => {
                quote(".slice($name, true)", &[("name", &name)])
            }
            _ => quote(".slice($name, false)", &[("name", &name)]),
        });
    }
    for field in fields {
        if let Expr::Field(i, path) = field
            && let Some(Kind::Value { ty, .. }) = params.get(*i).map(|param| &param.kind)
        {
            let holes: &[(&str, &[Token])] = &[
                ("text", &[text(&field.display(params))]),
                ("ty", &primitives(ty)),
                ("path", &path.tokens),
            ];
            out.extend(quote(".field($text, |value: &$ty| value.$path)", holes));
        }
    }
    for clause in &function.clauses {
        let mut alternatives = Vec::new();
        for condition in &clause.alternatives {
            alternatives.extend(match condition {
                Condition::Chain { first, rest } => {
                    let mut links = Vec::new();
                    for (comparison, expr) in rest {
                        let comparison = format!(
                            "($cuda::testing::declared::Comparison::{}, $expr),",
                            name_of(*comparison)
                        );
                        links.extend(quote(&comparison, &[("cuda", krate), ("expr", &of(expr))]));
                    }
                    let holes: &[(&str, &[Token])] =
                        &[("cuda", krate), ("first", &of(first)), ("links", &links)];
                    quote(
                        "$cuda::testing::declared::Condition::Chain(
                            $first, ::std::vec::Vec::from([$links])),",
                        holes,
                    )
                }
                Condition::PowerOfTwo(expr) => quote(
                    "$cuda::testing::declared::Condition::PowerOfTwo($expr),",
                    &[("cuda", krate), ("expr", &of(expr))],
                ),
            });
        }
        let holes: &[(&str, &[Token])] =
            &[("text", &[text(&clause.display(params))]), ("alternatives", &alternatives)];
        out.extend(quote(".clause($text, ::std::vec::Vec::from([$alternatives]))", holes));
    }
    if let Some(over) = &function.over {
        let mut extents = Vec::new();
        for (extent, block) in over.extents.iter().zip(&over.block) {
            let block: &Threads = block;
            let holes: &[(&str, &[Token])] =
                &[("extent", &of(extent)), ("threads", &threads(block, krate))];
            extents.extend(quote("($extent, $threads),", holes));
        }
        let holes: &[(&str, &[Token])] =
            &[("text", &[text(&over.display(params))]), ("extents", &extents)];
        out.extend(quote(".over($text, ::std::vec::Vec::from([$extents]))", holes));
    }
    let [y, z] = function.locked();
    out.extend(quote(&format!(".locked({y}, {z})"), &[]));
    if function.cooperative {
        out.extend(quote(".cooperative()", &[]));
    }
    out
}

fn name_of(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Less => "Less",
        Comparison::LessEqual => "LessEqual",
        Comparison::Greater => "Greater",
        Comparison::GreaterEqual => "GreaterEqual",
        Comparison::Equal => "Equal",
    }
}

/// Returns an expression for `expr` as data.
fn tree(expr: &Expr, fields: &[&Expr], krate: &[Token]) -> Vec<Token> {
    let leaf = |variant: &str, number: usize| {
        let holes: &[(&str, &[Token])] = &[("cuda", krate), ("number", &[index(number)])];
        quote(&format!("$cuda::testing::declared::Expr::{variant}($number)"), holes)
    };
    match expr {
        Expr::Int(value) => {
            let value = [Token::Literal(format!("{value}i128"), Span::Macro)];
            quote(
                "$cuda::testing::declared::Expr::Int($value)",
                &[("cuda", krate), ("value", &value)],
            )
        }
        Expr::Const(path) => quote(
            "$cuda::testing::declared::Expr::Int($cuda::__private::number($value))",
            &[("cuda", krate), ("value", &constant(path))],
        ),
        Expr::Param(i) => leaf("Param", *i),
        Expr::Len(i) => leaf("Len", *i),
        Expr::Field(..) => {
            leaf("Field", fields.iter().position(|field| *field == expr).unwrap_or(0))
        }
        Expr::Launch(shape) => {
            let axis = |axis: &Axis| match axis {
                Axis::X => 0,
                Axis::Y => 1,
                Axis::Z => 2,
            };
            leaf(
                "Launch",
                match shape {
                    Shape::Block(of) => axis(of),
                    Shape::Grid(of) => 3 + axis(of),
                    Shape::Shared => 6,
                },
            )
        }
        Expr::Paren(inner) => tree(inner, fields, krate),
        Expr::Neg(inner) => quote(
            "$cuda::testing::declared::Expr::negated($inner)",
            &[("cuda", krate), ("inner", &tree(inner, fields, krate))],
        ),
        Expr::Binary(left, op, right) => {
            let op = match op {
                Arithmetic::Add => "Add",
                Arithmetic::Sub => "Sub",
                Arithmetic::Mul => "Mul",
                Arithmetic::Div => "Div",
                Arithmetic::Rem => "Rem",
            };
            let holes: &[(&str, &[Token])] = &[
                ("cuda", krate),
                ("left", &tree(left, fields, krate)),
                ("right", &tree(right, fields, krate)),
            ];
            quote(
                &format!(
                    "$cuda::testing::declared::Expr::binary(
                        $left, $cuda::testing::declared::Arithmetic::{op}, $right)"
                ),
                holes,
            )
        }
    }
}

fn index(i: usize) -> Token {
    Token::Literal(format!("{i}usize"), Span::Macro)
}

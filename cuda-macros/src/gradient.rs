//! `#[gradient]`: the method that records a launch on a tape.

use crate::clause::{Arithmetic, Clause, Comparison, Condition, Expr};
use crate::function::Function;
use crate::generics::TypeParam;
use crate::lex::quote;
use crate::method::{Recording, method};
use crate::param::{Activity, Kind, Param};
use crate::parse::Attribute;
use crate::primitive::{PRIMITIVES, primitives};
use crate::token::{Error, Span, Token};
use proc_macro::Delimiter;

/// The attribute `#[gradient]` of a function.
#[derive(Debug)]
pub(crate) struct Gradient {
    /// Path of the crate `cuda_tape`.
    pub(crate) tape: Vec<Token>,
}

/// Takes `#[gradient]` out of the attributes.
pub(crate) fn take_gradient(attributes: &mut Vec<Attribute>) -> Result<Option<Gradient>, Error> {
    let mut gradient = None;
    for attribute in attributes.extract_if(.., |attribute| attribute.name == "gradient") {
        let Some(Token::Group(_, inner, span)) = attribute.tokens.last() else { continue };
        let tape = match inner.as_slice() {
            [_] => quote("::cuda_tape", &[]),
            [_, Token::Group(Delimiter::Parenthesis, inner, _)] => match inner.as_slice() {
                [krate, equals, path @ ..]
                    if krate.is_ident("crate") && equals.is_punct('=') && !path.is_empty() =>
                {
                    path.to_vec()
                }
                _ => return Err(Error::new(*span, MALFORMED)),
            },
            _ => return Err(Error::new(*span, MALFORMED)),
        };
        if gradient.replace(Gradient { tape }).is_some() {
            return Err(Error::new(*span, "a kernel has one `#[gradient]`"));
        }
    }
    Ok(gradient)
}

const MALFORMED: &str = "expected `#[gradient]`, or `#[gradient(crate = path::to::cuda_tape)]`";

/// Refuses markers of parameters without `#[gradient]`, and where they say nothing.
pub(crate) fn markers_fit(
    gradient: Option<&Gradient>,
    shared: &[TypeParam],
    own: &[TypeParam],
    params: &[Param],
    name: &Token,
) -> Result<(), Error> {
    let marked = params.iter().find_map(|param| Some((param, param.activity?)));
    if gradient.is_none() {
        return match marked {
            Some((_, (_, place))) => {
                Err(Error::new(place, "the kernel has no gradients: write `#[gradient]` before it"))
            }
            None => Ok(()),
        };
    }
    if shared.iter().chain(own).next().is_some() {
        let message =
            "a kernel with type parameters has no `#[gradient]`: declare a kernel for each type";
        return Err(Error::new(name.span(), message));
    }
    for param in params {
        let Some((activity, place)) = param.activity else { continue };
        let message = match (&param.kind, activity) {
            (Kind::Value { integer: true, .. }, _) => {
                "integers have no gradient: remove the marker"
            }
            (Kind::Value { .. }, Activity::Inactive) => {
                "a value has no gradient unless it is marked with `#[active]`: remove `#[inactive]`"
            }
            (Kind::Raw { .. }, _) => "memory behind a raw pointer has no gradient: take a slice",
            (Kind::Slice { element, .. } | Kind::Nullable { element, .. }, Activity::Active)
                if is_integral(element) =>
            {
                "integers have no gradient: remove `#[active]`"
            }
            _ => continue,
        };
        return Err(Error::new(place, message));
    }
    Ok(())
}

/// Returns whether a type is an integer or a `bool`, or an array of one, as written.
fn is_integral(ty: &[Token]) -> bool {
    match ty {
        [Token::Ident(name, _)] => {
            PRIMITIVES.contains(&name.as_str()) && !matches!(name.as_str(), "f32" | "f64")
        }
        [Token::Group(Delimiter::Bracket, inner, _)] => {
            let end = inner.iter().position(|token| token.is_punct(';')).unwrap_or(inner.len());
            is_integral(&inner[..end])
        }
        [Token::Group(Delimiter::None, inner, _)] => is_integral(inner),
        _ => false,
    }
}

/// What `#[gradient]` adds to the struct.
pub(crate) struct Parts {
    pub(crate) field: Vec<Token>,
    pub(crate) found: Vec<Token>,
    pub(crate) clone: Vec<Token>,
    pub(crate) method: Vec<Token>,
}

/// Returns what a function adds to the struct, if it has `#[gradient]`.
pub(crate) fn parts(function: &Function, index: usize, krate: &[Token]) -> Option<Parts> {
    let gradient = function.gradient.as_ref()?;
    let field = Token::Ident(format!("{}_gradient", function.text), function.name.span());
    let holes: &[(&str, &[Token])] = &[
        ("cfg", &crate::emit::cfg(&function.attributes)),
        ("field", &[field]),
        ("tape", &gradient.tape),
        ("index", &[Token::Literal(format!("{index}usize"), Span::Macro)]),
        ("kernel", std::slice::from_ref(&function.name)),
        ("cuda", krate),
        ("symbol", &function.symbol.expression(&[], krate)),
        ("spec", &spec(function, &gradient.tape)),
    ];
    let op = quote(
        "// SAFETY: the promise of `unsafe in`: the source is the one that the kernel was made from.
        unsafe {
            $tape::__private::DeclaredGradient::op(
                &self.$field,
                $cuda::__private::Declared::kernel(&self.$kernel),
                || $cuda::__private::DeclaredSource::program(&self.gradient_source, $symbol),
                || $spec,
            )
        }?",
        holes,
    );
    let recording = Recording { tape: &gradient.tape, op: &op };
    let mut methods = method(function, krate, Some(&recording));
    let name = Token::Ident(format!("derive_{}", function.text), function.name.span());
    let docs = [
        format!("Generates the adjoint of `{}` unless it was, and returns how it was made.", function.text),
        String::new(),
        "A launch that is recorded on a capturing stream needs this before, because a capture can't load it.".to_owned(),
        String::new(),
        "# Errors".to_owned(),
        "The kernel has no correct adjoint: the error names the lines. Or compiling or loading failed.".to_owned(),
    ];
    methods.extend(quote(
        "$cfg $docs
        #[allow(dead_code, reason = \"few programs need more than the method that records\")]
        $visibility fn $name(&self) -> $cuda::Result<&$tape::Derivation> {
            $tape::__private::derivation($op)
        }",
        &[
            ("cfg", &crate::emit::cfg(&function.attributes)),
            ("docs", &docs.iter().flat_map(|line| crate::emit::doc(line)).collect::<Vec<_>>()),
            ("visibility", &crate::method::visibility(function)),
            ("name", &[name]),
            ("cuda", krate),
            ("tape", &gradient.tape),
            ("op", &op),
        ],
    ));
    Some(Parts {
        field: quote("$cfg $field: $tape::__private::DeclaredGradient<Self, $index>,", holes),
        found: quote("$cfg $field: ::core::default::Default::default(),", holes),
        clone: quote("$cfg $field: ::core::clone::Clone::clone(&self.$field),", holes),
        method: methods,
    })
}

/// Returns an expression for the specification of the operation.
fn spec(function: &Function, tape: &[Token]) -> Vec<Token> {
    let name_of = |text: &str| Token::string(text.trim_start_matches("r#"), Span::Macro);
    let mut spec =
        quote("$tape::OpSpec::new($name)", &[("tape", tape), ("name", &[name_of(&function.text)])]);
    for (at, param) in function.params.iter().enumerate() {
        let active = param.activity.map(|(activity, _)| activity);
        let ty = match &param.kind {
            Kind::Slice { element, .. } | Kind::Nullable { element, .. } => primitives(element),
            Kind::Value { ty, .. } => primitives(ty),
            Kind::Raw { .. } => Vec::new(),
        };
        let length = length(function, at).map(|(factor, count)| {
            let factor = Token::Literal(format!("{factor}usize"), Span::Macro);
            match count {
                Some(count) => {
                    let name = name_of(&function.params[count].text);
                    quote(".len_times($f, $n)", &[("f", &[factor]), ("n", &[name])])
                }
                None => quote(".len_fixed($f)", &[("f", &[factor])]),
            }
        });
        let holes: &[(&str, &[Token])] = &[
            ("tape", tape),
            ("name", &[name_of(&param.text)]),
            ("T", &ty),
            ("length", &length.unwrap_or_default()),
        ];
        spec.extend(match &param.kind {
            Kind::Value { .. } if active == Some(Activity::Active) => quote(
                ".param($tape::Param::scalar($name, <$T as $tape::Differentiable>::ELEMENT).active())",
                holes,
            ),
            Kind::Value { .. } | Kind::Raw { .. } => quote(".param($tape::Param::value($name))", holes),
            Kind::Slice { element, .. } | Kind::Nullable { element, .. } if is_integral(element) => quote(
                ".param($tape::Param::buffer($name, $tape::Element::bytes(::core::mem::size_of::<$T>())) $length)",
                holes,
            ),
            _ if active == Some(Activity::Inactive) => quote(
                ".param($tape::Param::buffer($name, {
                    // The element of a type with floats, or else its bytes.
                    #[allow(unused_imports)]
                    use $tape::__private::OtherElement as _;
                    <$tape::__private::ElementOf<$T>>::ELEMENT
                }) $length)",
                holes,
            ),
            _ => quote(
                ".param($tape::Param::buffer($name, <$T as $tape::Differentiable>::ELEMENT) $length .active())",
                holes,
            ),
        });
    }
    spec
}

/// What the number of elements of a slice is: a factor and the integer parameter that it multiplies.
type Length = (u64, Option<usize>);

/// Returns how many elements of a slice a kernel accesses, if the declaration says it.
fn length(function: &Function, slice: usize) -> Option<Length> {
    let mut equal = Vec::new();
    equal_to(function, slice, &mut vec![slice], &mut equal);
    if let Some(length) = equal.first() {
        return Some(*length);
    }
    // A lower bound says it if nothing else is said of the length: a kernel that keeps its promise then finds no more.
    let mentions = |expr: &&Expr| **expr == Expr::Len(slice);
    let leaves = function.clauses.iter().map(|clause| clause.leaves());
    let mut bounds = leaves.filter(|leaves| leaves.iter().any(mentions));
    if bounds.next().is_none() || bounds.next().is_some() {
        return None;
    }
    let mut pairs = function.clauses.iter().flat_map(pairs);
    pairs.find_map(|(left, comparison, right)| match comparison {
        Comparison::LessEqual if *right.bare() == Expr::Len(slice) => multiple(left),
        Comparison::GreaterEqual if *left.bare() == Expr::Len(slice) => multiple(right),
        _ => None,
    })
}

/// Collects what a length is equal to.
fn equal_to(function: &Function, slice: usize, seen: &mut Vec<usize>, found: &mut Vec<Length>) {
    for (at, param) in function.params.iter().enumerate() {
        let default = param.default.as_ref().map(Expr::bare);
        if default == Some(&Expr::Len(slice)) {
            found.push((1, Some(at)));
        }
    }
    for (left, comparison, right) in function.clauses.iter().flat_map(pairs) {
        if comparison != Comparison::Equal {
            continue;
        }
        for (one, other) in [(left, right), (right, left)] {
            if *one.bare() != Expr::Len(slice) {
                continue;
            }
            match other.bare() {
                Expr::Len(next) if !seen.contains(next) => {
                    seen.push(*next);
                    equal_to(function, *next, seen, found);
                }
                other => found.extend(multiple(other)),
            }
        }
    }
}

/// Returns the neighbours in the comparisons that a clause consists of, if all of them must hold.
fn pairs(clause: &Clause) -> Vec<(&Expr, Comparison, &Expr)> {
    let [Condition::Chain { first, rest }] = clause.alternatives.as_slice() else {
        return Vec::new();
    };
    let mut left = first;
    let mut pairs = Vec::new();
    for (comparison, right) in rest {
        pairs.push((left, *comparison, right));
        left = right;
    }
    pairs
}

/// Returns an expression as a multiple of a parameter, or as a number.
fn multiple(expr: &Expr) -> Option<Length> {
    match expr.bare() {
        Expr::Int(number) => Some((u64::try_from(*number).ok()?, None)),
        Expr::Param(at) => Some((1, Some(*at))),
        Expr::Binary(left, Arithmetic::Mul, right) => match (left.bare(), right.bare()) {
            (Expr::Int(factor), Expr::Param(at)) | (Expr::Param(at), Expr::Int(factor)) => {
                Some((u64::try_from(*factor).ok()?, Some(*at)))
            }
            _ => None,
        },
        _ => None,
    }
}

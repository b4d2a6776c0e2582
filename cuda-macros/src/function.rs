//! One kernel's declaration: attributes, name, parameters, `where`.

use crate::clause::{Clause, Expr};
use crate::cursor::Cursor;
use crate::generics::{TypeParam, generics};
use crate::gradient::{Gradient, markers_fit, take_gradient};
use crate::over::Over;
use crate::param::{Kind, Param, params};
use crate::parse::Attribute;
use crate::shape::{Axis, is_named};
use crate::symbol::{Symbol, take_name};
use crate::token::{Error, Token, to_text};
use proc_macro::Delimiter;

/// One kernel.
#[derive(Debug)]
pub(crate) struct Function {
    /// All but `#[name]`.
    pub(crate) attributes: Vec<Attribute>,
    /// Empty where none was written.
    pub(crate) visibility: Vec<Token>,
    pub(crate) safe: bool,
    pub(crate) name: Token,
    /// The name as text, without `r#`.
    pub(crate) text: String,
    /// The symbol or name expression. Its holes are type parameters of the struct or of the kernel.
    pub(crate) symbol: Symbol,
    pub(crate) generics: Vec<TypeParam>,
    pub(crate) params: Vec<Param>,
    /// Whether all blocks of its launches are resident together.
    pub(crate) cooperative: bool,
    /// The launch, where the caller does not give it.
    pub(crate) over: Option<Over>,
    pub(crate) clauses: Vec<Clause>,
    /// Whether its launches can be recorded.
    pub(crate) gradient: Option<Gradient>,
}

impl Function {
    /// Returns whether its safe method's launches keep to 1 in y and in z: where no clause says anything of
    /// the dimension, and the caller gives the launch.
    pub(crate) fn locked(&self) -> [bool; 2] {
        [Axis::Y, Axis::Z]
            .map(|axis| self.safe && self.over.is_none() && !is_named(axis, &self.clauses))
    }

    /// Returns the integers of a `safe fn` that the caller passes, that no clause reads and that have no `#[any]`.
    pub(crate) fn unbounded(&self) -> impl Iterator<Item = &Param> {
        let unread = unread(&self.params, &self.clauses);
        unread.filter(|param| self.safe && param.any.is_none())
    }

    /// Returns the symbols of its kernels: one for each list of instances, the last parameter's varying
    /// fastest.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        self.generics.iter().fold(vec![self.symbol.clone()], |symbols, param| {
            let with_each = |symbol: &Symbol| -> Vec<Symbol> {
                let each = param.instances.iter();
                each.map(|instance| symbol.with(&param.text, &instance.symbol)).collect()
            };
            symbols.iter().flat_map(with_each).collect()
        })
    }
}

/// The struct's attributes and parameters, which hold for all its kernels.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The symbols of those that have no `#[name]`.
    pub(crate) pattern: Option<Symbol>,
    pub(crate) generics: Vec<TypeParam>,
}

/// One declaration, up to its `;`. Errors in clauses are added to `errors`; the others end it.
pub(crate) fn function(
    cursor: &mut Cursor<'_>,
    shared: &Shared,
    errors: &mut Vec<Error>,
) -> Result<Function, Error> {
    let mut attributes = cursor.attributes()?;
    let own = take_name(&mut attributes)?;
    let gradient = take_gradient(&mut attributes)?;
    let visibility = cursor.visibility();
    let safe = match (cursor.eat("safe"), cursor.eat("unsafe")) {
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (Some(_), Some(token)) => {
            return Err(Error::new(token.span(), "a kernel is either `safe` or `unsafe`"));
        }
        (None, None) => {
            return Err(Error::new(
                cursor.here(),
                "a kernel is declared as `safe fn` (under its `where` any arguments are sound) or \
                 `unsafe fn` (its caller must know more)",
            ));
        }
    };
    if cursor.eat("fn").is_none() {
        return Err(Error::new(cursor.here(), "expected `fn`"));
    }
    let name = cursor.name("the kernel's name")?;
    let text = to_text(std::slice::from_ref(&name)).trim_start_matches("r#").to_owned();
    let generics = generics(cursor, &shared.generics)?;
    let Some(Token::Group(Delimiter::Parenthesis, list, _)) = cursor.peek() else {
        return Err(Error::new(cursor.here(), "expected the kernel's parameters in parentheses"));
    };
    cursor.next();
    let params = params(list, safe, &name)?;
    markers_fit(gradient.as_ref(), &shared.generics, &generics, &params, &name)?;
    if let Some(token) = cursor.peek().filter(|token| token.is_punct('-')) {
        return Err(Error::new(
            token.span(),
            "a kernel returns nothing: let it write into a `&mut [T]`",
        ));
    }
    if let Some(Token::Group(Delimiter::Brace, _, span)) = cursor.peek() {
        return Err(Error::new(
            *span,
            "the kernel's body is in its source: end the declaration with `;`",
        ));
    }
    let cooperative = cursor.eat("cooperative").is_some();
    let over = Over::parse(cursor, &params)?;
    let known = errors.len();
    let clauses = clauses(cursor, &params, errors)?;
    // The clause that checks a length may be among those that did not parse.
    if safe && errors.len() == known {
        lengths_are_checked(&params, &clauses, errors);
        for (param, place) in params.iter().filter_map(|param| Some((param, param.any?))) {
            if !unread(&params, &clauses).any(|unread| unread.text == param.text) {
                let message = format!("a clause reads `{}`: remove `#[any]`", param.text);
                errors.push(Error::new(place, message));
            }
        }
    }
    // The declaration is read to its end: its symbol's error ends nothing but the emission.
    let symbol = symbol(own, shared, &name, &text, &generics, &params).unwrap_or_else(|error| {
        errors.push(error);
        Symbol::of_template(&name, &text, &[])
    });
    Ok(Function {
        attributes,
        visibility,
        safe,
        name,
        text,
        symbol,
        generics,
        params,
        cooperative,
        over,
        clauses,
        gradient,
    })
}

/// Returns the symbol of a kernel, which differs between instances whose parameters differ.
fn symbol(
    own: Option<Symbol>,
    shared: &Shared,
    name: &Token,
    text: &str,
    generics: &[TypeParam],
    params: &[Param],
) -> Result<Symbol, Error> {
    let all: Vec<&TypeParam> = shared.generics.iter().chain(generics).collect();
    let place = own.as_ref().map_or(name.span(), |own| own.span);
    let symbol = match own.as_ref().or(shared.pattern.as_ref()) {
        Some(pattern) => Symbol { span: place, ..pattern.named(text) },
        None => Symbol::of_template(name, text, &all),
    };
    if let Some(hole) = symbol.holes().find(|hole| all.iter().all(|param| param.text != *hole)) {
        let known: String = all.iter().map(|param| format!(", `{{{}}}`", param.text)).collect();
        let message =
            format!("`{{{hole}}}` is no type parameter of `{text}`: there are `{{}}`{known}");
        return Err(Error::new(place, message));
    }
    for (i, param) in all.iter().enumerate() {
        let matters = i >= shared.generics.len() || params.iter().any(|p| p.mentions(&param.text));
        if matters && symbol.holes().all(|hole| hole != param.text) {
            let t = &param.text;
            let message = format!(
                "the symbol of `{text}` is the same for every `{t}`: give `#[name = \"…\"]` with `{{{t}}}`"
            );
            return Err(Error::new(place, message));
        }
    }
    Ok(symbol)
}

/// `where a <= b, …;` or the bare `;`.
fn clauses(
    cursor: &mut Cursor<'_>,
    params: &[Param],
    errors: &mut Vec<Error>,
) -> Result<Vec<Clause>, Error> {
    let mut clauses = Vec::new();
    if cursor.eat("where").is_some() {
        let length = cursor.tokens.iter().position(|token| token.is_punct(';'));
        let (list, rest) = cursor.tokens.split_at(length.unwrap_or(cursor.tokens.len()));
        cursor.tokens = rest;
        for tokens in list.split(|token| token.is_punct(',')) {
            let Some(last) = tokens.last() else { continue };
            match Clause::parse(tokens, params, last.span()) {
                Ok(clause) => clauses.push(clause),
                Err(error) => errors.push(error),
            }
        }
    }
    cursor.mark(
        ';',
        "`;`, or `cooperative`, or `over` with the launch's extents, or `where` with comparisons",
    )?;
    Ok(clauses)
}

/// Returns the integers that the caller passes and that no clause reads. A clause that reads a filled-in parameter reads
/// those in its expression. The extents of an `over` bound nothing.
fn unread<'f>(params: &'f [Param], clauses: &[Clause]) -> impl Iterator<Item = &'f Param> {
    let mut leaves: Vec<&Expr> = clauses.iter().flat_map(Clause::leaves).collect();
    // A default reads those before it alone, so one way backwards finds all.
    for (i, param) in params.iter().enumerate().rev() {
        if let Some(default) = param.default.as_ref().filter(|_| leaves.contains(&&Expr::Param(i)))
        {
            default.collect_leaves(&mut leaves);
        }
    }
    let read: Vec<bool> = (0..params.len()).map(|i| leaves.contains(&&Expr::Param(i))).collect();
    let is_passed = |param: &Param| {
        param.default.is_none() && matches!(param.kind, Kind::Value { integer: true, .. })
    };
    params.iter().zip(read).filter(move |(param, read)| !read && is_passed(param)).map(|(p, _)| p)
}

fn lengths_are_checked(params: &[Param], clauses: &[Clause], errors: &mut Vec<Error>) {
    for (i, param) in params.iter().enumerate() {
        let slice = matches!(param.kind, Kind::Slice { .. });
        let is_filled_in = params.iter().any(|param| {
            param.default.as_ref().is_some_and(|default| *default.bare() == Expr::Len(i))
        });
        if slice && !is_filled_in && !clauses.iter().any(|clause| clause.bounds_from_below(i)) {
            let x = &param.text;
            errors.push(Error::new(
                param.name.span(),
                format!(
                    "the length of `{x}` is not checked: a `safe fn` says in its `where` how many \
                     elements the kernel may touch, as in `n <= {x}.len()`"
                ),
            ));
        }
    }
}

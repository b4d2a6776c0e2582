//! One kernel's declaration: attributes, name, parameters, `where`.

use crate::clause::Clause;
use crate::cursor::{Cursor, split_at_commas};
use crate::parse::Attribute;
use crate::shape::{Axis, is_named};
use crate::token::{Error, Span, Token, to_text};
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
    /// A string literal: the symbol or name expression.
    pub(crate) symbol: Token,
    pub(crate) params: Vec<Param>,
    pub(crate) clauses: Vec<Clause>,
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: Token,
    /// The name as text, as it was written.
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `&[element]` or `&mut [element]`, from `&` to `]`.
    Slice { element: Vec<Token>, mutable: bool, from: Span, to: Span },
    /// Anything else, passed by value; `integer` as far as its text tells.
    Value { ty: Vec<Token>, integer: bool },
}

impl Param {
    /// Where its type is written.
    pub(crate) fn type_span(&self) -> Span {
        match &self.kind {
            Kind::Slice { from, .. } => *from,
            Kind::Value { ty, .. } => ty.first().map_or(self.name.span(), Token::span),
        }
    }
}

impl Function {
    /// Whether its safe method's launches keep to 1 in y and in z: where no clause says anything of
    /// the dimension.
    pub(crate) fn locked(&self) -> [bool; 2] {
        [Axis::Y, Axis::Z].map(|axis| self.safe && !is_named(axis, &self.clauses))
    }
}

/// Most parameters that a kernel may have: the longest tuple that is `KernelArgs`.
const MAX_PARAMS: usize = 24;

const INTEGERS: [&str; 11] =
    ["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "usize"];

/// One declaration, up to its `;`. Errors in clauses are added to `errors`; the others end it.
pub(crate) fn function(
    cursor: &mut Cursor<'_>,
    errors: &mut Vec<Error>,
) -> Result<Function, Error> {
    let mut attributes = cursor.attributes()?;
    let symbol = symbol(&mut attributes)?;
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
    if let Some(token) = cursor.peek().filter(|token| token.is_punct('<')) {
        return Err(Error::new(
            token.span(),
            "a declaration is one kernel, without generics: name an instance of the template, as in \
             `#[name = \"axpy<float>\"]`",
        ));
    }
    let Some(Token::Group(Delimiter::Parenthesis, list, _)) = cursor.peek() else {
        return Err(Error::new(cursor.here(), "expected the kernel's parameters in parentheses"));
    };
    cursor.next();
    let params = params(list, safe, &name)?;
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
    let known = errors.len();
    let clauses = clauses(cursor, &params, errors)?;
    // A clause that did not parse may have been the one that checks a length.
    if safe && errors.len() == known {
        lengths_are_checked(&params, &clauses, errors);
    }
    let symbol = symbol.unwrap_or_else(|| Token::string(&text, name.span()));
    Ok(Function { attributes, visibility, safe, name, text, symbol, params, clauses })
}

/// Takes `#[name = "…"]` out of `attributes`.
fn symbol(attributes: &mut Vec<Attribute>) -> Result<Option<Token>, Error> {
    let mut symbol = None;
    for attribute in attributes.extract_if(.., |attribute| attribute.name == "name") {
        let Some(Token::Group(_, inner, span)) = attribute.tokens.last() else {
            continue;
        };
        match inner.as_slice() {
            [name, ..] if symbol.is_some() => {
                return Err(Error::new(name.span(), "a kernel has one `#[name]`"));
            }
            [_, equals, literal @ Token::Literal(text, _)]
                if equals.is_punct('=') && text.starts_with(['"', 'r']) && text != "\"\"" =>
            {
                symbol = Some(literal.clone());
            }
            _ => {
                return Err(Error::new(
                    *span,
                    "expected `#[name = \"symbol\"]`, with the symbol or NVRTC name expression",
                ));
            }
        }
    }
    Ok(symbol)
}

fn params(tokens: &[Token], safe: bool, function: &Token) -> Result<Vec<Param>, Error> {
    let mut params: Vec<Param> = Vec::new();
    for tokens in split_at_commas(tokens) {
        let (name, ty) = match tokens {
            [hash, ..] if hash.is_punct('#') => {
                return Err(Error::new(hash.span(), "a kernel's parameter takes no attributes"));
            }
            [name @ Token::Ident(..), colon, ty @ ..]
                if colon.is_punct(':') && !ty.is_empty() && !name.is_ident("self") =>
            {
                (name, ty)
            }
            _ => {
                let receiver = tokens.iter().find(|token| token.is_ident("self"));
                let message = match receiver {
                    Some(_) => "a kernel has no `self`: the struct that is generated brings it",
                    None => "expected a parameter, `name: type`",
                };
                let token = receiver.or(tokens.first()).unwrap_or(function);
                return Err(Error::new(token.span(), message));
            }
        };
        let text = to_text(std::slice::from_ref(name));
        if text == "_" {
            return Err(Error::new(name.span(), "name the parameter: errors speak of it"));
        }
        if params.iter().any(|param| param.text == text) {
            return Err(Error::new(name.span(), format!("there are two parameters `{text}`")));
        }
        if params.len() == MAX_PARAMS {
            let message =
                format!("a kernel has at most {MAX_PARAMS} parameters: put some in a struct");
            return Err(Error::new(name.span(), message));
        }
        params.push(Param { name: name.clone(), text, kind: kind(ty, safe)? });
    }
    Ok(params)
}

/// What a parameter's type means; `ty` is not empty.
fn kind(ty: &[Token], safe: bool) -> Result<Kind, Error> {
    if let (Some(element), Some(first)) = (memory(ty), ty.first()) {
        let message = format!(
            "a kernel takes device memory as a slice: write `&[{element}]` or `&mut [{element}]`"
        );
        return Err(Error::new(first.span(), message));
    }
    match ty {
        // What `$t:ty` of a macro_rules leaves.
        [Token::Group(Delimiter::None, inner, _)] if !inner.is_empty() => kind(inner, safe),
        [and, rest @ ..] if and.is_punct('&') => slice(and, rest),
        [star, ..] if star.is_punct('*') && safe => Err(Error::new(
            star.span(),
            "a pointer does not say how much it points to: take a slice, or declare an `unsafe fn`",
        )),
        [word, ..] if word.is_ident("impl") || word.is_ident("dyn") => {
            Err(Error::new(word.span(), "a kernel's parameter has one type of known size"))
        }
        [list @ Token::Group(Delimiter::Bracket, inner, _)]
            if !inner.iter().any(|token| token.is_punct(';')) =>
        {
            Err(Error::new(list.span(), "write `&[T]` or `&mut [T]`: a slice is not a value"))
        }
        [Token::Ident(name, _)] if INTEGERS.contains(&name.as_str()) => {
            Ok(Kind::Value { ty: ty.to_vec(), integer: true })
        }
        _ => Ok(Kind::Value { ty: ty.to_vec(), integer: false }),
    }
}

/// What follows the `&` of a type.
fn slice(and: &Token, rest: &[Token]) -> Result<Kind, Error> {
    let (mutable, rest) = match rest {
        [tick, ..] if tick.is_punct('\'') => {
            return Err(Error::new(
                tick.span(),
                "write no lifetime: the borrow ends with the call, and the stream keeps the memory",
            ));
        }
        [word, rest @ ..] if word.is_ident("mut") => (true, rest),
        _ => (false, rest),
    };
    match rest {
        [Token::Group(Delimiter::Bracket, element, to)]
            if !element.is_empty() && !element.iter().any(|token| token.is_punct(';')) =>
        {
            Ok(Kind::Slice { element: element.clone(), mutable, from: and.span(), to: *to })
        }
        _ => {
            let share = if mutable { "&mut " } else { "&" };
            let slice = match memory(rest) {
                Some(element) => format!("`{share}[{element}]`"),
                None => format!("`{share}[T]`, also where its length is 1"),
            };
            let message = format!("a kernel takes device memory as a slice: write {slice}");
            Err(Error::new(and.span(), message))
        }
    }
}

/// The element, as text, of a type that holds memory: what somebody wrote who had a slice in mind.
fn memory(ty: &[Token]) -> Option<String> {
    const HOLDERS: [&str; 5] =
        ["DeviceBuffer", "DeviceSlice", "DeviceSliceMut", "PinnedBuffer", "Vec"];
    let end = ty.iter().position(|token| token.is_punct('<')).unwrap_or(ty.len());
    let (path, arguments) = ty.split_at(end);
    let is_path = path.iter().all(|token| matches!(token, Token::Ident(..)) || token.is_punct(':'));
    let last = path.last().filter(|_| is_path)?;
    HOLDERS.iter().find(|holder| last.is_ident(holder))?;
    match arguments {
        [_, inner @ .., _] => split_at_commas(inner).last().map(|element| to_text(element)),
        _ => Some("T".to_owned()),
    }
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
    cursor.mark(';', "`;` or `where` with comparisons")?;
    Ok(clauses)
}

fn lengths_are_checked(params: &[Param], clauses: &[Clause], errors: &mut Vec<Error>) {
    for (i, param) in params.iter().enumerate() {
        let slice = matches!(param.kind, Kind::Slice { .. });
        if slice && !clauses.iter().any(|clause| clause.bounds_from_below(i)) {
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

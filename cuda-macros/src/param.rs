//! Parameters of kernels: slices and values.

use crate::clause::Expr;
use crate::clause_parser::Place;
use crate::cursor::split_at_commas;
use crate::primitive::PRIMITIVES;
use crate::token::{Error, Span, Token, to_text, type_text};
use proc_macro::Delimiter;

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: Token,
    /// The name as text, as it was written.
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// The expression for it, if the caller does not pass it.
    pub(crate) default: Option<Expr>,
    /// Whether `#[only_read]` stands before it: the kernel only reads through a pointer that is not const.
    pub(crate) only_read: bool,
    /// Where `#[any]` stands before it: the kernel is sound for every value.
    pub(crate) any: Option<Span>,
    /// Whether `#[active]` or `#[inactive]` stands before it, and where.
    pub(crate) activity: Option<(Activity, Span)>,
}

/// Whether a parameter has a gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activity {
    Active,
    Inactive,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `&[element]` or `&mut [element]`, from `&` to `]`.
    Slice { element: Vec<Token>, mutable: bool, from: Span, to: Span },
    /// `Option<&[element]>` or `Option<&mut [element]>` of an `unsafe fn`: a pointer that may be null.
    Nullable { element: Vec<Token>, mutable: bool, from: Span, to: Span },
    /// `*const element` or `*mut element` of an `unsafe fn`.
    Raw { element: Vec<Token>, mutable: bool, from: Span },
    /// Anything else, passed by value; `integer` if its text names an integer type.
    Value { ty: Vec<Token>, integer: bool },
}

impl Param {
    /// Returns whether its type has the name `name` in it.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        match &self.kind {
            Kind::Slice { element: tokens, .. }
            | Kind::Nullable { element: tokens, .. }
            | Kind::Raw { element: tokens, .. }
            | Kind::Value { ty: tokens, .. } => mentions(tokens, name),
        }
    }

    /// Returns where its type is written.
    pub(crate) fn type_span(&self) -> Span {
        match &self.kind {
            Kind::Slice { from, .. } | Kind::Nullable { from, .. } | Kind::Raw { from, .. } => {
                *from
            }
            Kind::Value { ty, .. } => ty.first().map_or(self.name.span(), Token::span),
        }
    }
}

/// Returns whether `tokens` have the name `name`, at any depth.
fn mentions(tokens: &[Token], name: &str) -> bool {
    tokens.iter().any(|token| match token {
        Token::Group(_, inner, _) => mentions(inner, name),
        token => token.is_ident(name),
    })
}

/// Most parameters that a kernel may have: the longest tuple that is `KernelArgs`.
const MAX_PARAMS: usize = 24;

const INTEGERS: [&str; 11] =
    ["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "usize"];

pub(crate) fn params(tokens: &[Token], safe: bool, function: &Token) -> Result<Vec<Param>, Error> {
    let mut params: Vec<Param> = Vec::new();
    let mut defaults: Vec<(usize, &[Token])> = Vec::new();
    for tokens in split_at_commas(tokens) {
        let (markers, tokens) = markers(tokens)?;
        let (name, ty) = match tokens {
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
        let (ty, default) = split_default(ty);
        if let ([], [equals, ..]) = (ty, default) {
            return Err(Error::new(equals.span(), "expected a type before the default"));
        }
        let kind = kind(ty, safe)?;
        let only_read = markers.only_read.is_some();
        let misplaced = [
            markers.only_read.zip(not_read(&kind)),
            markers.any.zip(not_any(&kind, safe, !default.is_empty())),
        ];
        if let Some((span, message)) = misplaced.into_iter().flatten().next() {
            return Err(Error::new(span, message));
        }
        let activity = match (markers.active, markers.inactive) {
            (Some(_), Some(place)) => {
                return Err(Error::new(place, "a parameter is `#[active]` or `#[inactive]`"));
            }
            (Some(place), None) => Some((Activity::Active, place)),
            (None, place) => place.map(|place| (Activity::Inactive, place)),
        };
        let (name, any) = (name.clone(), markers.any);
        let param = Param { name, text, kind, default: None, only_read, any, activity };
        if !default.is_empty() {
            is_filled(&param, default[0].span())?;
            defaults.push((params.len(), default));
        }
        params.push(param);
    }
    // Expressions read parameters that are declared later. Those that come later and are filled in
    // themselves have a default already when one of an earlier parameter is parsed.
    for (index, tokens) in defaults.into_iter().rev() {
        let [equals, tokens @ ..] = tokens else { continue };
        let end = tokens.last().unwrap_or(equals).span();
        params[index].default = Some(Expr::parse(tokens, &params, Place::Default(index), end)?);
    }
    Ok(params)
}

/// The attributes before a parameter, each with its place.
#[derive(Default)]
struct Markers {
    only_read: Option<Span>,
    any: Option<Span>,
    active: Option<Span>,
    inactive: Option<Span>,
}

/// Splits the attributes off the tokens of a parameter.
fn markers(tokens: &[Token]) -> Result<(Markers, &[Token]), Error> {
    let (mut markers, mut rest) = (Markers::default(), tokens);
    while let [hash, after @ ..] = rest
        && hash.is_punct('#')
    {
        let (attribute, after) = match after {
            [Token::Group(Delimiter::Bracket, inner, _), after @ ..] => (inner.as_slice(), after),
            _ => (&[][..], after),
        };
        let place = match attribute {
            [word] if word.is_ident("only_read") => &mut markers.only_read,
            [word] if word.is_ident("any") => &mut markers.any,
            [word] if word.is_ident("active") => &mut markers.active,
            [word] if word.is_ident("inactive") => &mut markers.inactive,
            _ => {
                let message = "a kernel's parameter takes no attributes but `#[only_read]`, `#[any]`, `#[active]` and \
                               `#[inactive]`";
                return Err(Error::new(hash.span(), message));
            }
        };
        if place.replace(hash.span()).is_some() {
            return Err(Error::new(hash.span(), "the attribute stands there twice"));
        }
        rest = after;
    }
    Ok((markers, rest))
}

/// Returns why `#[only_read]` does not belong before a parameter, if it does not.
fn not_read(kind: &Kind) -> Option<&'static str> {
    match kind {
        Kind::Slice { mutable: false, .. } | Kind::Nullable { mutable: false, .. } => None,
        Kind::Slice { mutable: true, .. } | Kind::Nullable { mutable: true, .. } => {
            Some("`#[only_read]` stands before a `&[T]`: the kernel writes to a `&mut [T]`")
        }
        Kind::Raw { .. } => {
            Some("`#[only_read]` stands before a `&[T]`: uses of a raw pointer are not ordered")
        }
        Kind::Value { .. } => Some(
            "`#[only_read]` stands before a `&[T]` whose C++ pointer is not const: this is no slice",
        ),
    }
}

/// Returns why `#[any]` does not belong before a parameter, if it does not.
fn not_any(kind: &Kind, safe: bool, is_filled: bool) -> Option<&'static str> {
    match kind {
        _ if !safe => {
            Some("`#[any]` stands in a `safe fn`: of an `unsafe fn`, the caller must know")
        }
        _ if is_filled => Some("`#[any]` stands before what the caller passes: this is filled in"),
        Kind::Value { integer: true, .. } => None,
        _ => Some(
            "`#[any]` stands before an integer that no clause reads: this is no integer, remove it",
        ),
    }
}

/// Parses a type, and the `= expression` after it if there is one.
fn split_default(tokens: &[Token]) -> (&[Token], &[Token]) {
    let mut depth = 0_i32;
    let at = tokens.iter().position(|token| {
        depth += i32::from(token.is_punct('<')) - i32::from(token.is_punct('>'));
        depth <= 0 && token.is_punct('=')
    });
    tokens.split_at(at.unwrap_or(tokens.len()))
}

/// Refuses a default of anything but an integer that a kernel takes.
fn is_filled(param: &Param, place: Span) -> Result<(), Error> {
    let x = &param.text;
    let message = match &param.kind {
        Kind::Value { ty, integer: true } if ty.iter().all(|token| !token.is_ident("i128")) => {
            return Ok(());
        }
        Kind::Value { integer: true, .. } => format!("`{x}`: no kernel takes an i128"),
        Kind::Value { ty, .. } => {
            format!("`{x}: {}` has no default: integers are filled in alone", type_text(ty))
        }
        Kind::Slice { .. } | Kind::Nullable { .. } | Kind::Raw { .. } => {
            format!("`{x}` has no default: memory is passed by the caller")
        }
    };
    Err(Error::new(place, message))
}

/// Parses a parameter's type; `ty` is not empty.
fn kind(ty: &[Token], safe: bool) -> Result<Kind, Error> {
    if let Some((option, slice)) = optional(ty) {
        return match kind(slice, safe)? {
            Kind::Slice { .. } if safe => Err(Error::new(
                option,
                "a pointer that may be null is passed in an `unsafe fn`: a `safe fn` says how long each slice is",
            )),
            Kind::Slice { element, mutable, from, to } => {
                Ok(Kind::Nullable { element, mutable, from, to })
            }
            _ => Ok(Kind::Value { ty: ty.to_vec(), integer: false }),
        };
    }
    if let (Some(element), Some(first)) = (memory(ty), ty.first()) {
        let message = format!(
            "a kernel takes device memory as a slice: write `&[{element}]` or `&mut [{element}]`"
        );
        return Err(Error::new(first.span(), message));
    }
    match ty {
        // The tokens of `$t:ty` of a macro_rules.
        [Token::Group(Delimiter::None, inner, _)] if !inner.is_empty() => kind(inner, safe),
        [and, rest @ ..] if and.is_punct('&') => reference(ty, and, rest, safe),
        [star, ..] if star.is_punct('*') && safe => Err(Error::new(
            star.span(),
            "a pointer does not say how much it points to: take a slice, or declare an `unsafe fn`",
        )),
        [star, how, element @ ..]
            if star.is_punct('*')
                && (how.is_ident("const") || how.is_ident("mut"))
                && !element.is_empty() =>
        {
            let (element, mutable) = (element.to_vec(), how.is_ident("mut"));
            Ok(Kind::Raw { element, mutable, from: star.span() })
        }
        [word, ..] if word.is_ident("dyn") || word.is_ident("impl") && safe => {
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

/// Returns the reference in an `Option<&…>`, and where it begins.
fn optional(ty: &[Token]) -> Option<(Span, &[Token])> {
    let open = ty.iter().position(|token| token.is_punct('<'))?;
    let (path, arguments) = ty.split_at(open);
    let is_path = path.iter().all(|token| matches!(token, Token::Ident(..)) || token.is_punct(':'));
    let last = path.last().filter(|last| is_path && last.is_ident("Option"))?;
    match arguments {
        [_, slice @ .., close] if close.is_punct('>') && slice.first()?.is_punct('&') => {
            Some((last.span(), slice))
        }
        _ => None,
    }
}

/// Parses a type that begins with `&`: a slice or, in an `unsafe fn`, a reference that is a kernel argument.
fn reference(ty: &[Token], and: &Token, rest: &[Token], safe: bool) -> Result<Kind, Error> {
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
        // The type's author says what the kernel reaches through it.
        [Token::Ident(name, _), ..]
            if !safe && memory(rest).is_none() && !PRIMITIVES.contains(&name.as_str()) =>
        {
            Ok(Kind::Value { ty: ty.to_vec(), integer: false })
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

/// Returns the element, as text, of a type that holds memory, which was written instead of a slice.
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

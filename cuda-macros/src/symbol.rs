//! Symbols of kernels: their patterns in `#[name = "…"]`, and the expressions that they become.
//!
//! In a pattern `{}` is the name of the function, `{T}` the text of the instance of the type parameter `T`, and `{{`
//! and `}}` are braces.

use crate::generics::TypeParam;
use crate::lex::quote;
use crate::parse::Attribute;
use crate::token::{Error, Span, Token, bare};

/// A symbol or NVRTC name expression, perhaps with holes.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) pieces: Vec<Piece>,
    /// Where it is written.
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// `{}`
    Function,
    /// `{T}`
    Param(String),
}

/// Returns the value of a string literal without escapes, which may be raw.
pub(crate) fn unquoted(token: &Token) -> Option<String> {
    let [Token::Literal(text, _)] = bare(std::slice::from_ref(token)) else { return None };
    let value = match text.strip_prefix('r') {
        Some(raw) => raw.trim_matches('#').strip_prefix('"')?.strip_suffix('"')?,
        None => text.strip_prefix('"')?.strip_suffix('"').filter(|value| !value.contains('\\'))?,
    };
    (!value.is_empty()).then(|| value.to_owned())
}

/// Takes `#[name = "…"]` out of `attributes`.
pub(crate) fn take_name(attributes: &mut Vec<Attribute>) -> Result<Option<Symbol>, Error> {
    let mut symbol = None;
    for attribute in attributes.extract_if(.., |attribute| attribute.name == "name") {
        let Some(Token::Group(_, inner, span)) = attribute.tokens.last() else {
            continue;
        };
        let malformed = "expected `#[name = \"symbol\"]`, with the symbol or NVRTC name expression";
        symbol = match inner.as_slice() {
            [name, ..] if symbol.is_some() => {
                return Err(Error::new(name.span(), "a kernel has one `#[name]`"));
            }
            [_, equals, literal] if equals.is_punct('=') => {
                let text = unquoted(literal).ok_or_else(|| Error::new(*span, malformed))?;
                Some(Symbol::parse(&text, literal.span())?)
            }
            _ => return Err(Error::new(*span, malformed)),
        };
    }
    Ok(symbol)
}

impl Symbol {
    fn parse(pattern: &str, span: Span) -> Result<Self, Error> {
        let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), pattern);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                text.push_str(brace);
                rest = after;
                continue;
            }
            let hole = after.split_once('}').filter(|_| brace == "{");
            let Some((name, after)) = hole else {
                let message = format!("`{brace}` is not part of a `{{}}` or `{{T}}`: double it");
                return Err(Error::new(span, message));
            };
            pieces.push(Piece::Text(std::mem::take(&mut text)));
            pieces.push(match name.trim() {
                "" => Piece::Function,
                name => Piece::Param(name.to_owned()),
            });
            rest = after;
        }
        text.push_str(rest);
        pieces.push(Piece::Text(text));
        Ok(Symbol { pieces, span }.merged())
    }

    /// `name`, or `name<{T}, {U}>`.
    pub(crate) fn of_template(name: &Token, text: &str, params: &[&TypeParam]) -> Self {
        let mut pieces = vec![Piece::Text(text.to_owned())];
        for (i, param) in params.iter().enumerate() {
            pieces.push(Piece::Text(if i == 0 { "<" } else { ", " }.to_owned()));
            pieces.push(Piece::Param(param.text.clone()));
        }
        if !params.is_empty() {
            pieces.push(Piece::Text(">".to_owned()));
        }
        Symbol { pieces, span: name.span() }.merged()
    }

    /// Returns the symbol with `function` for each `{}`.
    pub(crate) fn named(&self, function: &str) -> Self {
        self.replaced(|piece| (*piece == Piece::Function).then(|| function.to_owned()))
    }

    /// Returns the symbol with `text` for each `{param}`.
    pub(crate) fn with(&self, param: &str, text: &str) -> Self {
        self.replaced(|piece| {
            matches!(piece, Piece::Param(name) if name == param).then(|| text.to_owned())
        })
    }

    fn replaced(&self, text: impl Fn(&Piece) -> Option<String>) -> Self {
        let replace = |piece: &Piece| text(piece).map_or_else(|| piece.clone(), Piece::Text);
        Symbol { pieces: self.pieces.iter().map(replace).collect(), span: self.span }.merged()
    }

    /// Joins adjacent texts to one piece and drops empty ones.
    pub(crate) fn merged(self) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in self.pieces {
            match (pieces.last_mut(), piece) {
                (_, Piece::Text(text)) if text.is_empty() => {}
                (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
                (_, piece) => pieces.push(piece),
            }
        }
        Symbol { pieces, span: self.span }
    }

    pub(crate) fn has_function(&self) -> bool {
        self.pieces.contains(&Piece::Function)
    }

    /// Returns the names in its holes.
    pub(crate) fn holes(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Param(name) => Some(name.as_str()),
            Piece::Text(_) | Piece::Function => None,
        })
    }

    /// Returns an expression of type `&str`: a literal, or a string that is put together from the texts of the struct's
    /// `params`, which are in variables then (see [`local`]).
    pub(crate) fn expression(&self, params: &[TypeParam], krate: &[Token]) -> Vec<Token> {
        if let [Piece::Text(text)] = self.pieces.as_slice() {
            return vec![Token::string(text, self.span)];
        }
        let mut parts = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => parts.push(Token::string(text, Span::Macro)),
                Piece::Function => {}
                Piece::Param(name) => {
                    parts.extend(params.iter().position(|param| param.text == *name).map(local));
                }
            }
            parts.extend(quote(",", &[]));
        }
        quote("&$cuda::__private::symbol(&[$parts])", &[("cuda", krate), ("parts", &parts)])
    }
}

/// Returns the variable that holds the text of the struct's parameter of this index.
pub(crate) fn local(index: usize) -> Token {
    Token::Ident(format!("instance_{index}"), Span::Macro)
}

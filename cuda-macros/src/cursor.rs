//! Walking over a list of tokens.

use crate::parse::Attribute;
use crate::token::{Error, Span, Token, to_text};
use proc_macro::{Delimiter, Spacing};

/// Splits at the commas that are outside `<…>`; the last part may be empty and is then left out.
pub(crate) fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (i, token) in tokens.iter().enumerate() {
        let after_dash = i > 0 && matches!(tokens[i - 1], Token::Punct('-', Spacing::Joint, _));
        match token {
            Token::Punct('<', _, _) => depth += 1,
            Token::Punct('>', _, _) if !after_dash => depth -= 1,
            Token::Punct(',', _, _) if depth <= 0 => {
                parts.push(&tokens[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if start < tokens.len() {
        parts.push(&tokens[start..]);
    }
    parts
}

/// A place in a list of tokens.
pub(crate) struct Cursor<'t> {
    pub(crate) tokens: &'t [Token],
    /// Where to report that the list ends too early.
    pub(crate) end: Span,
}

impl<'t> Cursor<'t> {
    pub(crate) fn peek(&self) -> Option<&'t Token> {
        self.tokens.first()
    }

    pub(crate) fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Span of the next token, or of the end.
    pub(crate) fn here(&self) -> Span {
        self.peek().map_or(self.end, Token::span)
    }

    pub(crate) fn eat(&mut self, word: &str) -> Option<&'t Token> {
        self.peek().filter(|token| token.is_ident(word)).and_then(|_| self.next())
    }

    pub(crate) fn mark(&mut self, mark: char, expected: &str) -> Result<(), Error> {
        if !self.peek().is_some_and(|token| token.is_punct(mark)) {
            return Err(Error::new(self.here(), format!("expected {expected}")));
        }
        self.next();
        Ok(())
    }

    pub(crate) fn name(&mut self, expected: &str) -> Result<Token, Error> {
        match self.peek() {
            Some(token @ Token::Ident(..)) => {
                self.next();
                Ok(token.clone())
            }
            _ => Err(Error::new(self.here(), format!("expected {expected}"))),
        }
    }

    pub(crate) fn attributes(&mut self) -> Result<Vec<Attribute>, Error> {
        let mut attributes = Vec::new();
        while let [hash, rest @ ..] = self.tokens {
            if !hash.is_punct('#') {
                break;
            }
            let Some(Token::Group(Delimiter::Bracket, inner, _)) = rest.first() else {
                return Err(Error::new(hash.span(), "expected an attribute, `#[…]`"));
            };
            let name = inner.first().map(std::slice::from_ref).map(to_text).unwrap_or_default();
            attributes.push(Attribute { name, tokens: self.tokens[..2].to_vec() });
            self.tokens = &rest[1..];
        }
        Ok(attributes)
    }

    /// `pub`, `pub(…)` or nothing.
    pub(crate) fn visibility(&mut self) -> Vec<Token> {
        let length = match self.tokens {
            // The tokens of an empty `$v:vis` of a macro_rules, and of a full one.
            [Token::Group(Delimiter::None, inner, _), ..]
                if inner.first().is_none_or(|token| token.is_ident("pub")) =>
            {
                self.tokens = &self.tokens[1..];
                return inner.clone();
            }
            [word, Token::Group(Delimiter::Parenthesis, _, _), ..] if word.is_ident("pub") => 2,
            [word, ..] if word.is_ident("pub") => 1,
            _ => 0,
        };
        let (visibility, rest) = self.tokens.split_at(length);
        self.tokens = rest;
        visibility.to_vec()
    }
}

//! Token trees of our own, so that parsing and emitting can be tested outside a macro call, where
//! `proc_macro`'s types may not be used.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, TokenStream, TokenTree};

/// Where a token came from, which decides how its names resolve and where errors point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    /// Written by the macro: local variables and lifetimes of this span are invisible to user code,
    /// so an argument may be called `stream`.
    Macro,
    /// The macro call as a whole: for names that user code must see, and errors with no token.
    Call,
    /// Written by the user.
    User(proc_macro::Span),
    /// Byte offset into the text of a unit test.
    #[cfg(test)]
    At(usize),
}

impl Span {
    /// Names resolve as at `self`, errors point to `place`.
    pub(crate) fn located_at(self, place: Span) -> Span {
        match (self, place) {
            (Span::User(names), Span::User(place)) => Span::User(names.located_at(place)),
            (names, _) => names,
        }
    }

    /// Returns the file that has it, where the compiler knows one.
    pub(crate) fn file(self) -> Option<std::path::PathBuf> {
        match self {
            Span::Macro | Span::Call | Span::User(_) => self.resolve().local_file(),
            #[cfg(test)]
            Span::At(_) => None,
        }
    }

    /// Returns the file as the compiler's own messages name it.
    pub(crate) fn shown_file(self) -> Option<String> {
        match self {
            Span::User(span) => Some(span.file()).filter(|file| !file.is_empty()),
            _ => None,
        }
    }

    /// Returns the line in which it begins, from 1.
    pub(crate) fn line(self) -> Option<u32> {
        match self {
            Span::User(span) => u32::try_from(span.line()).ok().filter(|line| *line > 0),
            _ => None,
        }
    }

    fn resolve(self) -> proc_macro::Span {
        match self {
            Span::Macro => proc_macro::Span::mixed_site(),
            Span::Call => proc_macro::Span::call_site(),
            Span::User(span) => span,
            #[cfg(test)]
            Span::At(_) => proc_macro::Span::call_site(),
        }
    }
}

/// One token tree. Names and literals are kept as their source text.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    Ident(String, Span),
    Punct(char, Spacing, Span),
    Literal(String, Span),
    Group(Delimiter, Vec<Token>, Span),
}

impl Token {
    /// Creates a string literal whose value is `text`.
    pub(crate) fn string(text: &str, span: Span) -> Self {
        Token::Literal(format!("{text:?}"), span)
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Token::Ident(_, span)
            | Token::Punct(_, _, span)
            | Token::Literal(_, span)
            | Token::Group(_, _, span) => *span,
        }
    }

    /// Returns the same token as if it were written at `span`.
    pub(crate) fn with_span(self, span: Span) -> Self {
        match self {
            Token::Ident(text, _) => Token::Ident(text, span),
            Token::Punct(ch, spacing, _) => Token::Punct(ch, spacing, span),
            Token::Literal(text, _) => Token::Literal(text, span),
            Token::Group(delimiter, tokens, _) => {
                let tokens = tokens.into_iter().map(|token| token.with_span(span)).collect();
                Token::Group(delimiter, tokens, span)
            }
        }
    }

    pub(crate) fn is_ident(&self, name: &str) -> bool {
        matches!(self, Token::Ident(text, _) if text == name)
    }

    pub(crate) fn is_punct(&self, wanted: char) -> bool {
        matches!(self, Token::Punct(ch, _, _) if *ch == wanted)
    }
}

/// Why the input is refused, and where.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) span: Span,
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Error { span, message: message.into() }
    }

    /// Returns a `compile_error!` that rustc reports at the error's span.
    pub(crate) fn to_tokens(&self) -> Vec<Token> {
        let mut tokens = crate::lex::quote("::core::compile_error!", &[]);
        tokens.push(Token::Group(
            Delimiter::Brace,
            vec![Token::string(&self.message, self.span)],
            self.span,
        ));
        // rustc underlines the whole call, from the first token to the last.
        for token in &mut tokens {
            if let Token::Ident(_, span) | Token::Punct(_, _, span) = token {
                *span = self.span;
            }
        }
        tokens
    }
}

/// Takes over what the user wrote.
pub(crate) fn from_stream(stream: TokenStream) -> Vec<Token> {
    let convert = |tree| match tree {
        TokenTree::Ident(ident) => Token::Ident(ident.to_string(), Span::User(ident.span())),
        TokenTree::Punct(punct) => {
            Token::Punct(punct.as_char(), punct.spacing(), Span::User(punct.span()))
        }
        TokenTree::Literal(literal) => {
            Token::Literal(literal.to_string(), Span::User(literal.span()))
        }
        TokenTree::Group(group) => {
            Token::Group(group.delimiter(), from_stream(group.stream()), Span::User(group.span()))
        }
    };
    stream.into_iter().map(convert).collect()
}

/// Hands tokens back to the compiler.
pub(crate) fn to_stream(tokens: Vec<Token>) -> Result<TokenStream, Error> {
    let convert = |token| {
        Ok(match token {
            Token::Ident(text, span) => TokenTree::Ident(match text.strip_prefix("r#") {
                Some(raw) => Ident::new_raw(raw, span.resolve()),
                None => Ident::new(&text, span.resolve()),
            }),
            Token::Punct(ch, spacing, span) => {
                let mut punct = Punct::new(ch, spacing);
                punct.set_span(span.resolve());
                TokenTree::Punct(punct)
            }
            Token::Literal(text, span) => {
                let mut literal: Literal = text
                    .parse()
                    .map_err(|_| Error::new(span, format!("`{text}` is not a literal")))?;
                literal.set_span(span.resolve());
                TokenTree::Literal(literal)
            }
            Token::Group(delimiter, tokens, span) => {
                let mut group = Group::new(delimiter, to_stream(tokens)?);
                group.set_span(span.resolve());
                TokenTree::Group(group)
            }
        })
    };
    tokens.into_iter().map(convert).collect()
}

/// Returns a type as text, as it is usually written.
pub(crate) fn type_text(ty: &[Token]) -> String {
    let spaced = to_text(ty);
    let marks = [(" :: ", "::"), (" < ", "<"), (" >", ">"), (" ;", ";"), (" ,", ",")];
    marks.iter().fold(spaced, |text, (from, to)| text.replace(from, to))
}

/// Returns the tokens without the groups that fragments of a `macro_rules` leave around them.
pub(crate) fn bare(tokens: &[Token]) -> &[Token] {
    match tokens {
        [Token::Group(Delimiter::None, inner, _)] => bare(inner),
        _ => tokens,
    }
}

/// `tokens` as text, one space between any two: for tests and for messages that quote the user.
pub(crate) fn to_text(tokens: &[Token]) -> String {
    let text = |token: &Token| match token {
        Token::Ident(text, _) | Token::Literal(text, _) => text.clone(),
        Token::Punct(ch, _, _) => ch.to_string(),
        Token::Group(delimiter, tokens, _) => {
            let (open, close) = match delimiter {
                Delimiter::Parenthesis => ("(", ")"),
                Delimiter::Bracket => ("[", "]"),
                Delimiter::Brace => ("{", "}"),
                Delimiter::None => ("", ""),
            };
            format!("{open}{}{close}", to_text(tokens))
        }
    };
    let mut out = String::new();
    for (i, token) in tokens.iter().enumerate() {
        // A joint mark and what follows it are one operator or one lifetime.
        let joined = i > 0 && matches!(tokens[i - 1], Token::Punct(_, Spacing::Joint, _));
        if i > 0 && !joined {
            out.push(' ');
        }
        out.push_str(&text(token));
    }
    out
}

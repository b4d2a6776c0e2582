//! A small lexer for Rust text: the templates of `emit.rs`, and the inputs of unit tests. It knows
//! the tokens that those use: names, lifetimes, numbers, strings, marks, groups, line and doc
//! comments.

use crate::token::{Span, Token};
use proc_macro::{Delimiter, Spacing};

/// Builds tokens from a template: `$name` is replaced by the tokens that `holes` has for `name`. Everything else is the
/// macro's own ([`Span::Macro`]).
pub(crate) fn quote(template: &str, holes: &[(&str, &[Token])]) -> Vec<Token> {
    fill(lex(template, |_| Span::Macro), holes)
}

fn fill(tokens: Vec<Token>, holes: &[(&str, &[Token])]) -> Vec<Token> {
    let mut out = Vec::with_capacity(tokens.len());
    for token in tokens {
        if let Token::Group(delimiter, inner, span) = token {
            out.push(Token::Group(delimiter, fill(inner, holes), span));
            continue;
        }
        let hole = match (&token, out.last()) {
            (Token::Ident(name, _), Some(last)) if last.is_punct('$') => {
                holes.iter().find(|(hole, _)| hole == name)
            }
            _ => None,
        };
        match hole {
            Some((_, tokens)) => {
                out.pop();
                out.extend_from_slice(tokens);
            }
            None => out.push(token),
        }
    }
    out
}

/// Splits `text` into token trees; `span` makes a span from a byte offset.
pub(crate) fn lex(text: &str, span: impl Fn(usize) -> Span) -> Vec<Token> {
    Lexer { text, at: 0, span }.trees()
}

/// Returns the tokens of the doc attribute for `///` and `line`.
pub(crate) fn doc(line: &str, span: Span) -> [Token; 2] {
    let inner = vec![
        Token::Ident("doc".to_owned(), span),
        Token::Punct('=', Spacing::Alone, span),
        Token::string(line, span),
    ];
    [Token::Punct('#', Spacing::Alone, span), Token::Group(Delimiter::Bracket, inner, span)]
}

struct Lexer<'t, F> {
    text: &'t str,
    at: usize,
    span: F,
}

impl<F: Fn(usize) -> Span> Lexer<'_, F> {
    /// Token trees up to the end, or past the bracket that closes the group we are in.
    fn trees(&mut self) -> Vec<Token> {
        let mut out = Vec::new();
        while let Some(ch) = self.rest().chars().next() {
            let start = self.at;
            let span = (self.span)(start);
            match ch {
                _ if ch.is_whitespace() => self.at += ch.len_utf8(),
                '/' if self.rest().starts_with("//") => {
                    self.skip(|c| c != '\n');
                    if let Some(line) = self.text[start..self.at].strip_prefix("///") {
                        out.extend(doc(line, span));
                    }
                }
                '(' | '[' | '{' => {
                    self.at += 1;
                    let delimiter = match ch {
                        '(' => Delimiter::Parenthesis,
                        '[' => Delimiter::Bracket,
                        _ => Delimiter::Brace,
                    };
                    out.push(Token::Group(delimiter, self.trees(), span));
                }
                ')' | ']' | '}' => {
                    self.at += 1;
                    return out;
                }
                '"' => {
                    self.string();
                    out.push(Token::Literal(self.text[start..self.at].to_owned(), span));
                }
                '0'..='9' => {
                    self.number();
                    out.push(Token::Literal(self.text[start..self.at].to_owned(), span));
                }
                _ if is_name(ch) => {
                    if self.rest().starts_with("r#") {
                        self.at += 2;
                    }
                    self.skip(is_name);
                    out.push(Token::Ident(self.text[start..self.at].to_owned(), span));
                }
                _ => {
                    self.at += ch.len_utf8();
                    let next = self.rest().chars().next().unwrap_or(' ');
                    let joint = if ch == '\'' { is_name(next) } else { is_mark(next) };
                    let spacing = if joint { Spacing::Joint } else { Spacing::Alone };
                    out.push(Token::Punct(ch, spacing, span));
                }
            }
        }
        out
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn string(&mut self) {
        let mut escaped = false;
        let end = self.rest().char_indices().skip(1).find(|&(_, ch)| {
            let closes = ch == '"' && !escaped;
            escaped = ch == '\\' && !escaped;
            closes
        });
        self.at += end.map_or(self.rest().len(), |(i, _)| i + 1);
    }

    fn number(&mut self) {
        self.skip(is_name);
        // `1.5` goes on, `1..2` and `1.max()` do not.
        let fraction = self.rest().strip_prefix('.').and_then(|r| r.chars().next());
        if fraction.is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.skip(is_name);
        }
    }
}

fn is_name(ch: char) -> bool {
    ch == '_' || ch.is_alphanumeric()
}

fn is_mark(ch: char) -> bool {
    "!#$%&*+,-./:;<=>?@^|~".contains(ch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::to_text;

    fn text(source: &str) -> String {
        to_text(&lex(source, Span::At))
    }

    #[test]
    fn trees_keep_every_token_in_order() {
        let source = r##"#[doc = "a \"b\" // c"] safe fn f(x: &'a [f32; 3], r#in: u8) where x.len() >= 0x1F_u8 - 1.5; // end"##;
        assert_eq!(
            text(source),
            r##"# [doc = "a \"b\" // c"] safe fn f (x : & 'a [f32 ; 3] , r#in : u8) where x . len () >= 0x1F_u8 - 1.5 ;"##
        );
    }

    #[test]
    fn marks_are_joint_only_when_another_mark_follows() {
        let tokens = lex("<= < = 'a", Span::At);
        let joint: Vec<bool> =
            tokens.iter().map(|t| matches!(t, Token::Punct(_, Spacing::Joint, _))).collect();
        assert_eq!(joint, [true, false, false, false, true, false]);
    }

    #[test]
    fn quote_fills_holes_at_every_depth_and_leaves_other_names() {
        let hole = lex("a + b", Span::At);
        let tokens = quote("f($x, [$x; x], $y)", &[("x", &hole)]);
        assert_eq!(to_text(&tokens), "f (a + b , [a + b ; x] , $ y)");
    }
}

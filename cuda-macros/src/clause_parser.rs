//! The parser of clauses, and of the expressions that fill in a parameter or give a launch's extents.
//!
//! ```text
//! clause     = condition ("||" condition)*
//! condition  = expression (comparison expression)+ | operand "." "is_power_of_two" "(" ")"
//! comparison = "<" | "<=" | ">" | ">=" | "=="           a chain goes one way: a <= b < c
//! expression = product (("+" | "-") product)*
//! product    = operand (("*" | "/" | "%") operand)*
//! operand    = "-" operand | "(" expression ")" | integer | parameter | slice "." "len" "(" ")"
//!            | parameter ("." field)+ | constant
//!            | ("block" | "grid") "." ("x" | "y" | "z") | "shared"
//! constant   = "::"? (name "::")* NAME                  in capitals, so that a mistyped parameter is none
//! ```

use crate::clause::{Arithmetic, Clause, Comparison, Condition, Expr, Path};
use crate::param::{Kind, Param};
use crate::primitive::PRIMITIVES;
use crate::shape::{Axis, Shape};
use crate::token::{Error, Span, Token, bare, to_text};
use proc_macro::{Delimiter, Spacing};

impl Clause {
    /// Parses the tokens of one clause, without its comma; `end` is where to report that it stops
    /// too early.
    pub(crate) fn parse(tokens: &[Token], params: &[Param], end: Span) -> Result<Self, Error> {
        let mut parser = Parser { tokens, params, end, place: Place::Clause };
        let mut alternatives = vec![parser.condition()?];
        while let [Token::Punct('|', Spacing::Joint, _), Token::Punct('|', _, _), rest @ ..] =
            parser.tokens
        {
            parser.tokens = rest;
            alternatives.push(parser.condition()?);
        }
        match parser.tokens.first() {
            None => Ok(Clause { alternatives }),
            Some(extra) => Err(parser.unexpected(extra)),
        }
    }
}

impl Expr {
    /// Parses `tokens`, all of which are one expression; `end` is where to report that it stops too
    /// early.
    pub(crate) fn parse(
        tokens: &[Token],
        params: &[Param],
        place: Place,
        end: Span,
    ) -> Result<Self, Error> {
        let mut parser = Parser { tokens, params, end, place };
        let expr = parser.expression()?;
        match parser.tokens.first() {
            None => Ok(expr),
            Some(extra) => Err(parser.unexpected(extra)),
        }
    }
}

/// Where an expression stands, which decides what it may read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// In a `where`.
    Clause,
    /// The default of the parameter with this index.
    Default(usize),
    /// An extent after `over`.
    Extent,
}

impl Place {
    /// Returns the name of the place, for errors.
    fn noun(self) -> &'static str {
        match self {
            Place::Clause => "a clause",
            Place::Default(_) => "a default",
            Place::Extent => "an extent of `over`",
        }
    }
}

struct Parser<'t> {
    tokens: &'t [Token],
    params: &'t [Param],
    place: Place,
    /// Where to report that something is missing at the end.
    end: Span,
}

impl<'t> Parser<'t> {
    fn condition(&mut self) -> Result<Condition, Error> {
        let start = self.tokens.first().map_or(self.end, Token::span);
        let first = self.expression()?;
        if self.at_power_of_two() {
            if matches!(first, Expr::Binary(..) | Expr::Neg(_)) {
                let message = "put parentheses around what `.is_power_of_two()` is about";
                return Err(Error::new(start, message));
            }
            self.tokens = &self.tokens[3..];
            return Ok(Condition::PowerOfTwo(first));
        }
        let mut rest: Vec<(Comparison, Expr)> = Vec::new();
        while let Some(token) = self.tokens.first().filter(|token| !token.is_punct('|')) {
            let comparison = self.comparison(token)?;
            let one_way = rest.iter().all(|(earlier, _)| {
                !(earlier.upward() && comparison.downward()
                    || earlier.downward() && comparison.upward())
            });
            if !one_way {
                return Err(Error::new(
                    token.span(),
                    "a chain of comparisons goes one way: write two clauses, separated by a comma",
                ));
            }
            rest.push((comparison, self.expression()?));
        }
        if rest.is_empty() {
            return Err(Error::new(
                self.tokens.first().map_or(self.end, Token::span),
                "a clause is a comparison, as in `n <= x.len()`: one of `<`, `<=`, `>`, `>=`, `==` is \
                 missing",
            ));
        }
        Ok(Condition::Chain { first, rest })
    }

    /// Returns whether `.is_power_of_two()` comes next.
    fn at_power_of_two(&self) -> bool {
        matches!(
            self.tokens,
            [dot, name, Token::Group(Delimiter::Parenthesis, arguments, _), ..]
                if dot.is_punct('.') && name.is_ident("is_power_of_two") && arguments.is_empty()
        )
    }

    fn expression(&mut self) -> Result<Expr, Error> {
        let mut left = self.product()?;
        loop {
            let op = match self.tokens.first() {
                Some(token) if token.is_punct('+') => Arithmetic::Add,
                Some(token) if token.is_punct('-') => Arithmetic::Sub,
                _ => return Ok(left),
            };
            self.tokens = &self.tokens[1..];
            left = Expr::Binary(Box::new(left), op, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expr, Error> {
        let mut left = self.operand()?;
        loop {
            let op = match self.tokens.first() {
                Some(token) if token.is_punct('*') => Arithmetic::Mul,
                Some(token) if token.is_punct('/') => Arithmetic::Div,
                Some(token) if token.is_punct('%') => Arithmetic::Rem,
                _ => return Ok(left),
            };
            self.tokens = &self.tokens[1..];
            left = Expr::Binary(Box::new(left), op, Box::new(self.operand()?));
        }
    }

    fn operand(&mut self) -> Result<Expr, Error> {
        let Some((token, rest)) = self.tokens.split_first() else {
            let noun = self.place.noun().trim_start_matches("a ").trim_start_matches("an ");
            return Err(Error::new(
                self.end,
                format!("this {noun} ends where a value is expected"),
            ));
        };
        self.tokens = rest;
        match token {
            Token::Punct('-', _, _) => Ok(Expr::Neg(Box::new(self.operand()?))),
            Token::Literal(text, span) => self.integer(text, *span).map(Expr::Int),
            // A group without brackets is what a macro_rules variable leaves: it binds like one.
            Token::Group(Delimiter::Parenthesis | Delimiter::None, tokens, span) => {
                let mut inner = Parser { tokens, end: *span, ..*self };
                let expr = inner.expression()?;
                match inner.tokens.first() {
                    None => Ok(Expr::Paren(Box::new(expr))),
                    Some(extra) => Err(self.unexpected(extra)),
                }
            }
            Token::Ident(..) if self.at_separator() => self.constant(token, vec![token.clone()]),
            Token::Ident(name, span) => self.name(name, *span, token),
            // `::path::to::NAME`
            Token::Punct(':', Spacing::Joint, _) => match self.tokens {
                [colon, name @ Token::Ident(..), rest @ ..] if colon.is_punct(':') => {
                    self.tokens = rest;
                    self.constant(name, vec![token.clone(), colon.clone(), name.clone()])
                }
                _ => Err(self.unexpected(token)),
            },
            _ => Err(self.unexpected(token)),
        }
    }

    /// Parses a parameter, the length of one, or a number of the launch. As everywhere, the inner name hides the outer:
    /// a parameter called `shared` is what `shared` means.
    fn name(&mut self, name: &str, span: Span, token: &'t Token) -> Result<Expr, Error> {
        if let Some(Token::Group(Delimiter::Parenthesis, _, _)) = self.tokens.first() {
            return Err(self.call(span));
        }
        let Some(index) = self.params.iter().position(|param| param.text == name) else {
            return match is_constant(name) {
                true => self.constant(token, vec![token.clone()]),
                false => self.launch(name, span),
            };
        };
        if let Place::Default(filled) = self.place
            && index >= filled
            && (index == filled || self.params[index].default.is_some())
        {
            return Err(Error::new(
                span,
                format!("`{name}` has no value yet: a default reads those before it"),
            ));
        }
        if let ("block" | "grid", Some(axis)) = (name, self.axis()) {
            return Err(Error::new(
                span,
                format!(
                    "`{name}` is the parameter here, which hides the launch's: give it another \
                     name to compare `{}`",
                    extent(name, axis)
                ),
            ));
        }
        let dotted = self.tokens.first().is_some_and(|token| token.is_punct('.'));
        match (&self.params[index].kind, dotted) {
            (Kind::Slice { .. }, false) => Err(Error::new(
                span,
                match self.place {
                    Place::Clause => {
                        format!("`{name}` is a slice: a clause compares its length, `{name}.len()`")
                    }
                    _ => format!("`{name}` is a slice: write its length, `{name}.len()`"),
                },
            )),
            (Kind::Slice { .. }, true) => self.len_call().map(|()| Expr::Len(index)),
            (Kind::Nullable { .. } | Kind::Raw { .. }, _) => {
                let message = format!("`{name}` may be null: it has no length");
                Err(Error::new(span, message))
            }
            (Kind::Value { integer: true, .. }, false) => Ok(Expr::Param(index)),
            (Kind::Value { integer: true, .. }, true) if self.at_power_of_two() => {
                Ok(Expr::Param(index))
            }
            (Kind::Value { integer: true, .. }, true) => {
                Err(Error::new(span, format!("`{name}` is an integer: it has no length or field")))
            }
            (Kind::Value { ty, .. }, true) if !is_primitive(ty) => self.field(index),
            (Kind::Value { integer: false, ty }, _) => Err(Error::new(
                span,
                format!(
                    "`{name}: {}` is not an integer: {} parameters of the types i8 to i128, u8 to \
                     u64, isize and usize",
                    to_text(ty),
                    if self.place == Place::Clause {
                        "clauses compare"
                    } else {
                        "expressions take"
                    },
                ),
            )),
        }
    }

    /// Parses the fields after a parameter that is a structure, up to one that is an integer.
    fn field(&mut self, index: usize) -> Result<Expr, Error> {
        let mut path = Path { text: String::new(), tokens: Vec::new() };
        while let [dot, rest @ ..] = self.tokens
            && dot.is_punct('.')
            && (path.tokens.is_empty() || !self.at_power_of_two())
        {
            let name = match rest.first() {
                Some(name @ Token::Ident(..)) => name,
                Some(name @ Token::Literal(text, _))
                    if text.bytes().all(|b| b.is_ascii_digit()) =>
                {
                    name
                }
                other => {
                    let place = other.map_or(dot.span(), Token::span);
                    return Err(Error::new(place, "expected the name of a field"));
                }
            };
            if let Some(Token::Group(Delimiter::Parenthesis, ..)) = rest.get(1) {
                return Err(self.call(name.span()));
            }
            if !path.tokens.is_empty() {
                path.text.push('.');
                path.tokens.push(dot.clone());
            }
            path.text.push_str(&to_text(std::slice::from_ref(name)));
            path.tokens.push(name.clone());
            self.tokens = &rest[1..];
        }
        Ok(Expr::Field(index, path))
    }

    /// Returns whether `::` comes next.
    fn at_separator(&self) -> bool {
        matches!(self.tokens, [Token::Punct(':', Spacing::Joint, _), Token::Punct(':', _, _), ..])
    }

    /// Parses the rest of a constant's path; `last` is the last of the names in `tokens`.
    fn constant(&mut self, last: &'t Token, mut tokens: Vec<Token>) -> Result<Expr, Error> {
        let mut last = last;
        while self.at_separator() {
            let Some(name @ Token::Ident(..)) = self.tokens.get(2) else {
                let place = self.tokens.get(2).map_or(self.end, Token::span);
                return Err(Error::new(place, "expected a name of the constant's path"));
            };
            tokens.extend_from_slice(&self.tokens[..3]);
            self.tokens = &self.tokens[3..];
            last = name;
        }
        if let Some(Token::Group(Delimiter::Parenthesis, ..)) = self.tokens.first() {
            return Err(self.call(last.span()));
        }
        let text = to_text(std::slice::from_ref(last));
        if !is_constant(&text) {
            let message = format!(
                "`{text}` is no constant: the name of a constant is in capitals, as in `TILE`"
            );
            return Err(Error::new(last.span(), message));
        }
        let text = to_text(&tokens).replace(' ', "");
        Ok(Expr::Const(Path { text, tokens }))
    }

    /// Returns the error for a call.
    fn call(&self, span: Span) -> Error {
        let noun = self.place.noun();
        let condition = match self.place {
            Place::Clause => ", and `.is_power_of_two()` of a value",
            _ => "",
        };
        Error::new(span, format!("{noun} calls nothing but `.len()` of a slice{condition}"))
    }

    /// Parses a number of the launch.
    fn launch(&mut self, name: &str, span: Span) -> Result<Expr, Error> {
        if self.place != Place::Clause {
            let noun = self.place.noun();
            let message = format!(
                "`{name}` is not a parameter: {noun} is made of parameters, lengths, integers and constants in \
                 capitals"
            );
            return Err(Error::new(span, message));
        }
        match (name, self.axis()) {
            ("shared", _) => Ok(Expr::Launch(Shape::Shared)),
            ("block" | "grid", Some(axis)) => {
                self.tokens = &self.tokens[2..];
                Ok(Expr::Launch(extent(name, axis)))
            }
            ("block" | "grid", None) => Err(Error::new(
                span,
                format!("of the launch, a clause compares `{name}.x`, `{name}.y` and `{name}.z`"),
            )),
            _ => Err(Error::new(
                span,
                format!(
                    "`{name}` is not a parameter: a clause is about parameters, integers, constants in \
                     capitals and the launch (`block.x`, `grid.x`, …, `shared`)"
                ),
            )),
        }
    }

    /// Returns the `x`, `y` or `z` of the `.x`, `.y` or `.z` that comes next, if it does.
    fn axis(&self) -> Option<Axis> {
        match self.tokens {
            [dot, Token::Ident(axis, _), ..] if dot.is_punct('.') => Axis::named(axis),
            _ => None,
        }
    }

    /// `.len()` after the name of a slice.
    fn len_call(&mut self) -> Result<(), Error> {
        match self.tokens {
            [_, len, Token::Group(Delimiter::Parenthesis, arguments, _), rest @ ..]
                if len.is_ident("len") && arguments.is_empty() =>
            {
                self.tokens = rest;
                Ok(())
            }
            [dot, rest @ ..] => Err(Error::new(
                rest.first().map_or(dot.span(), Token::span),
                format!("of a slice, {} uses `.len()` alone", self.place.noun()),
            )),
            [] => Err(Error::new(self.end, "`.len()` is missing")),
        }
    }

    fn comparison(&mut self, token: &'t Token) -> Result<Comparison, Error> {
        // `<` and `=` are one operator only when nothing stands between them.
        let glued = match self.tokens {
            [Token::Punct(_, Spacing::Joint, _), Token::Punct(second, _, _), ..] => Some(*second),
            _ => None,
        };
        let (comparison, length) = match (token, glued) {
            (Token::Punct('<', _, _), Some('=')) => (Comparison::LessEqual, 2),
            (Token::Punct('>', _, _), Some('=')) => (Comparison::GreaterEqual, 2),
            (Token::Punct('=', _, _), Some('=')) => (Comparison::Equal, 2),
            (Token::Punct(first @ ('<' | '>'), _, span), Some(second)) if second == *first => {
                return Err(Error::new(*span, "a clause has no shifts: write `* 2` or `/ 2`"));
            }
            (Token::Punct('<', _, _), _) => (Comparison::Less, 1),
            (Token::Punct('>', _, _), _) => (Comparison::Greater, 1),
            _ => return Err(self.unexpected(token)),
        };
        self.tokens = &self.tokens[length..];
        Ok(comparison)
    }

    /// Parses an integer literal as a value.
    fn integer(&self, text: &str, span: Span) -> Result<i128, Error> {
        let digits = text.replace('_', "");
        let value = match digits.get(..2) {
            Some("0x") => i128::from_str_radix(&digits[2..], 16),
            Some("0o") => i128::from_str_radix(&digits[2..], 8),
            Some("0b") => i128::from_str_radix(&digits[2..], 2),
            _ => digits.parse(),
        };
        let noun = self.place.noun();
        value.map_err(|_| {
            let message =
                format!("{noun} takes integers up to 2^127 - 1, without a type at their end");
            Error::new(span, message)
        })
    }

    /// Returns the error for a token that does not belong where it stands.
    fn unexpected(&self, token: &Token) -> Error {
        let noun = self.place.noun();
        let is_clause = self.place == Place::Clause;
        let message = match token {
            Token::Ident(text, _) if text == "as" => {
                format!("{noun} has no casts: all its values are i128, which holds every integer parameter")
            }
            Token::Ident(text, _) if is_clause && text == "over" => {
                "`over` stands before `where`".to_owned()
            }
            Token::Punct(',', _, _) if self.place == Place::Extent => {
                "several extents are a list, as in `over [width, height]`".to_owned()
            }
            Token::Punct('&', _, _) if is_clause => {
                "write two clauses, separated by a comma, instead of `&&`".to_owned()
            }
            Token::Punct('|', _, _) if is_clause => {
                "`||` stands between whole conditions, and a clause has no `|`".to_owned()
            }
            Token::Punct('.', _, _) if is_clause && self.at_power_of_two() => {
                "`.is_power_of_two()` is a condition alone: compare nothing with it".to_owned()
            }
            Token::Punct('=', _, _) if is_clause => "a comparison is `==`".to_owned(),
            Token::Punct('!', _, _) if is_clause => {
                "a clause has no `!` or `!=`: say what must hold".to_owned()
            }
            _ if is_clause => "expected `<`, `<=`, `>`, `>=`, `==` or + - * / % between integers, \
                               parameters, `.len()` of slices and the launch's `block.x`, `grid.x`, …, \
                               `shared`"
                .to_owned(),
            _ => "expected + - * / % between integers, parameters and `.len()` of slices".to_owned(),
        };
        Error::new(token.span(), message)
    }
}

/// Returns whether a name is written as those of constants are.
fn is_constant(name: &str) -> bool {
    name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

/// Returns whether a type is a primitive one, which has no fields.
fn is_primitive(ty: &[Token]) -> bool {
    matches!(bare(ty), [Token::Ident(name, _)] if PRIMITIVES.contains(&name.as_str()))
}

/// Returns the extent of the launch with this name and axis.
fn extent(name: &str, axis: Axis) -> Shape {
    if name == "block" { Shape::Block(axis) } else { Shape::Grid(axis) }
}

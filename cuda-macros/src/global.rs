//! Declared globals: `global factor: f32;` gives a variable of the module a name and a type.

use crate::cursor::Cursor;
use crate::emit::{cfg, concat, doc};
use crate::function::Shared;
use crate::generics::TypeParam;
use crate::lex::quote;
use crate::parse::Attribute;
use crate::primitive::primitives;
use crate::symbol::{Piece, Symbol, take_name};
use crate::token::{Error, Span, Token, bare, to_text, type_text};
use proc_macro::Delimiter;

/// One global.
#[derive(Debug)]
pub(crate) struct Global {
    /// All but `#[name]`.
    pub(crate) attributes: Vec<Attribute>,
    /// Empty where none was written.
    pub(crate) visibility: Vec<Token>,
    pub(crate) name: Token,
    /// The name as text, without `r#`.
    pub(crate) text: String,
    /// The name of the variable. Its holes are type parameters of the struct.
    pub(crate) symbol: Symbol,
    /// The type of an element.
    pub(crate) element: Vec<Token>,
    /// The number of elements of an array.
    pub(crate) len: Option<Vec<Token>>,
    /// The type as it was written.
    pub(crate) declared: String,
}

/// Returns whether the next declaration is that of a global.
pub(crate) fn is_global(cursor: &Cursor<'_>) -> bool {
    let mut ahead = Cursor { tokens: cursor.tokens, end: cursor.end };
    ahead.attributes().is_ok() && {
        ahead.visibility();
        ahead.eat("global").is_some()
    }
}

/// Parses one declaration, up to its `;`.
pub(crate) fn global(cursor: &mut Cursor<'_>, shared: &Shared) -> Result<Global, Error> {
    let mut attributes = cursor.attributes()?;
    let own = take_name(&mut attributes)?;
    let visibility = cursor.visibility();
    cursor.eat("global");
    let name = cursor.name("the global's name")?;
    let text = to_text(std::slice::from_ref(&name)).trim_start_matches("r#").to_owned();
    if text == "_" {
        return Err(Error::new(name.span(), "name the global: its method has this name"));
    }
    cursor.mark(':', "`: type` after the global's name")?;
    let length = cursor.tokens.iter().position(|token| token.is_punct(';'));
    let (ty, rest) = cursor.tokens.split_at(length.unwrap_or(cursor.tokens.len()));
    let Some(first) = ty.first() else {
        return Err(Error::new(cursor.here(), "expected the global's type"));
    };
    cursor.tokens = rest;
    if let Some(equals) = ty.iter().find(|token| token.is_punct('=')) {
        return Err(Error::new(
            equals.span(),
            "a global's first value is in the source: declare its type alone, and write to it",
        ));
    }
    let (element, len) = type_of(ty, first)?;
    cursor.mark(';', "`;` after the global's type")?;
    let symbol = match own {
        Some(own) => Symbol { span: own.span, ..own.named(&text) },
        None => Symbol::of_template(&name, &text, &[]),
    };
    holes_are_known(&symbol, &text, ty, &shared.generics)?;
    let declared = type_text(bare(ty));
    Ok(Global { attributes, visibility, name, text, symbol, element, len, declared })
}

/// Splits a type into the type of an element and the number of elements.
fn type_of(ty: &[Token], first: &Token) -> Result<(Vec<Token>, Option<Vec<Token>>), Error> {
    match bare(ty) {
        [Token::Group(Delimiter::Bracket, inner, span)] => {
            let Some(at) = inner.iter().position(|token| token.is_punct(';')) else {
                return Err(Error::new(*span, "a global has a fixed size: write `[T; N]`"));
            };
            match (&inner[..at], &inner[at + 1..]) {
                (element, len) if !element.is_empty() && !len.is_empty() => {
                    Ok((element.to_vec(), Some(len.to_vec())))
                }
                _ => Err(Error::new(*span, "expected `[T; N]`")),
            }
        }
        [mark, ..] if mark.is_punct('&') || mark.is_punct('*') => Err(Error::new(
            first.span(),
            "a pointer in a global is an address for the device: declare it as `u64`",
        )),
        ty => Ok((ty.to_vec(), None)),
    }
}

/// Refuses holes that are no type parameters, and a symbol that is the same for all types of a parameter.
fn holes_are_known(
    symbol: &Symbol,
    text: &str,
    ty: &[Token],
    generics: &[TypeParam],
) -> Result<(), Error> {
    if let Some(hole) = symbol.holes().find(|hole| generics.iter().all(|it| it.text != *hole)) {
        let known: String = generics.iter().map(|it| format!(", `{{{}}}`", it.text)).collect();
        let message =
            format!("`{{{hole}}}` is no type parameter of the struct: there are `{{}}`{known}");
        return Err(Error::new(symbol.span, message));
    }
    for param in generics.iter().filter(|param| mentions(ty, &param.text)) {
        let t = &param.text;
        if symbol.holes().all(|hole| hole != t) {
            let message = format!(
                "the symbol of `{text}` is the same for every `{t}`: give `#[name = \"…\"]` with `{{{t}}}`"
            );
            return Err(Error::new(symbol.span, message));
        }
    }
    Ok(())
}

/// Returns whether `tokens` have the name `name`, at any depth.
fn mentions(tokens: &[Token], name: &str) -> bool {
    tokens.iter().any(|token| match token {
        Token::Group(_, inner, _) => mentions(inner, name),
        token => token.is_ident(name),
    })
}

/// The parts of the generated code that a global adds.
pub(crate) struct Parts {
    /// The field of the struct.
    pub(crate) field: Vec<Token>,
    /// The field's value in `from_module`.
    pub(crate) found: Vec<Token>,
    /// The field's value in `clone`.
    pub(crate) clone: Vec<Token>,
    /// The name expression for the compiler, if it needs one.
    pub(crate) symbol: Vec<Token>,
    /// The method.
    pub(crate) method: Vec<Token>,
    /// The comparison with the image, in `check`.
    pub(crate) comparison: Vec<Token>,
}

impl Global {
    /// Returns the generated code for the global number `index` of a struct with the type parameters `params`.
    pub(crate) fn parts(&self, index: usize, params: &[TypeParam], krate: &[Token]) -> Parts {
        let cfg = cfg(&self.attributes);
        let len = match &self.len {
            Some(len) => vec![Token::Group(Delimiter::Brace, len.clone(), Span::Macro)],
            None => vec![Token::Literal("1usize".to_owned(), Span::Macro)],
        };
        let public = quote("pub", &[]);
        let holes: &[(&str, &[Token])] = &[
            ("cfg", &cfg),
            ("name", std::slice::from_ref(&self.name)),
            ("symbol", &self.symbol.expression(params, krate)),
            ("declared", &[Token::string(&self.declared, Span::Macro)]),
            ("len", &len),
            ("T", &primitives(&self.element)),
            ("index", &[Token::Literal(format!("{index}usize"), Span::Macro)]),
            ("cuda", krate),
            ("attributes", &concat(&self.attributes)),
            ("docs", &self.docs()),
            ("visibility", if self.visibility.is_empty() { &public } else { &self.visibility }),
        ];
        let symbol = match self.expression() {
            Some(expression) => {
                let expression = expression.expression(params, krate);
                quote("$cfg $expression,", &[("cfg", &cfg), ("expression", &expression)])
            }
            None => Vec::new(),
        };
        Parts {
            field: quote("$cfg $name: $cuda::__private::DeclaredGlobal<Self, $index, $T>,", holes),
            found: quote(
                "$cfg $name: $cuda::__private::DeclaredGlobal::find(module, $symbol, $declared, $len)?,",
                holes,
            ),
            clone: quote("$cfg $name: ::core::clone::Clone::clone(&self.$name),", holes),
            symbol,
            comparison: quote(
                "$cfg $cuda::KernelSignatures::check_global::<$T>(&kernels, $symbol, $declared, $len)?;",
                holes,
            ),
            method: quote(
                "$attributes $docs
                #[allow(dead_code, reason = \"a source may have more globals than the program uses\")]
                $visibility fn $name(&self, stream: &$cuda::Stream)
                    -> $cuda::Result<$cuda::Global<$T> >
                {
                    $cuda::__private::DeclaredGlobal::get(&self.$name, stream)
                }",
                holes,
            ),
        }
    }

    /// Returns the name expression for the compiler, which makes the instances of a template. Other variables are in
    /// the image without one, and NVRTC refuses one for a `__managed__` variable.
    fn expression(&self) -> Option<Symbol> {
        let starts = |mark: char| matches!(self.symbol.pieces.first(), Some(Piece::Text(text)) if text.starts_with(mark));
        let is_template = self.symbol.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => text.contains('<'),
            Piece::Function | Piece::Param(_) => false,
        });
        if starts('&') {
            return Some(self.symbol.clone());
        }
        is_template.then(|| {
            let address = std::iter::once(Piece::Text("&".to_owned()));
            let pieces = address.chain(self.symbol.pieces.iter().cloned()).collect();
            Symbol { pieces, span: self.symbol.span }.merged()
        })
    }

    fn docs(&self) -> Vec<Token> {
        let documented = self.attributes.iter().any(|attribute| attribute.name == "doc");
        let mut lines = match documented {
            true => vec![String::new()],
            false => {
                vec![format!("Returns the variable `{}` of the module.", self.text), String::new()]
            }
        };
        lines.push(format!(
            "It was declared as `{}`. `stream` is any stream of the context that does not record.",
            self.declared
        ));
        lines.extend(["", "# Errors", "As `cuda_safe::Module::global`."].map(str::to_owned));
        lines.iter().flat_map(|line| doc(line)).collect()
    }
}

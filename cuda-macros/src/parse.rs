//! From tokens to the declaration they spell: the struct, the source, the list of functions.

use crate::cursor::Cursor;
use crate::function::{Function, Shared, function};
use crate::generics::generics;
use crate::global::{Global, global, is_global};
use crate::symbol::take_name;
use crate::testing::take_testing;
use crate::token::{Error, Span, Token};
use proc_macro::Delimiter;

/// The parsed input of `kernels!`.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// Path of the crate `cuda_safe`.
    pub(crate) krate: Vec<Token>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Vec<Token>,
    pub(crate) name: Token,
    pub(crate) shared: Shared,
    /// The `#[cfg]` of the function `test_launches`, if there is to be one.
    pub(crate) testing: Option<Vec<Token>>,
    /// Where the promise was written.
    pub(crate) promise: Span,
    /// The expression after `unsafe in`.
    pub(crate) source: Vec<Token>,
    pub(crate) functions: Vec<Function>,
    pub(crate) globals: Vec<Global>,
}

/// `#[…]`, and the name it begins with.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) tokens: Vec<Token>,
}

/// Reads a whole declaration, or says everything that is wrong with it.
pub(crate) fn parse(tokens: &[Token]) -> Result<Declaration, Vec<Error>> {
    let mut cursor = Cursor { tokens, end: Span::Call };
    let (mut declaration, body, end) = head(&mut cursor).map_err(|error| vec![error])?;
    let mut cursor = Cursor { tokens: body, end };
    let mut errors = Vec::new();
    while cursor.peek().is_some() {
        let read = match is_global(&cursor) {
            true => global(&mut cursor, &declaration.shared)
                .map(|global| declaration.globals.push(global)),
            false => function(&mut cursor, &declaration.shared, &mut errors)
                .map(|function| declaration.functions.push(function)),
        };
        match read {
            Ok(()) => {}
            Err(error) => {
                errors.push(error);
                // Go on behind this declaration, so that one run reports all mistakes.
                while cursor.next().is_some_and(|token| !ends_declaration(token)) {}
            }
        }
    }
    names_are_free(&declaration, &mut errors);
    if errors.is_empty() { Ok(declaration) } else { Err(errors) }
}

/// `;`, or a body in its place.
fn ends_declaration(token: &Token) -> bool {
    token.is_punct(';') || matches!(token, Token::Group(Delimiter::Brace, ..))
}

/// Everything up to the functions; gives their tokens and where these end.
fn head<'t>(cursor: &mut Cursor<'t>) -> Result<(Declaration, &'t [Token], Span), Error> {
    let krate = krate(cursor)?;
    let mut attributes = cursor.attributes()?;
    let visibility = cursor.visibility();
    let mut name = Token::Ident("Kernels".to_owned(), Span::Call);
    let mut shared = Shared { pattern: None, generics: Vec::new() };
    let mut testing = None;
    if cursor.eat("struct").is_some() {
        name = cursor.name("a name for the struct")?;
        testing = take_testing(&mut attributes)?;
        shared = Shared { pattern: take_name(&mut attributes)?, generics: generics(cursor, &[])? };
        if let Some(pattern) = shared.pattern.as_ref().filter(|pattern| !pattern.has_function()) {
            return Err(Error::new(
                pattern.span,
                "the symbols of a struct's kernels differ: write `{}` for the name of each",
            ));
        }
        cursor.mark(';', "`;` after the struct's name: its fields are made from the functions")?;
    } else if let Some(token) = attributes.iter().flat_map(|a| &a.tokens).chain(&visibility).next()
    {
        return Err(Error::new(
            token.span(),
            "attributes and visibility belong to a struct: write `struct Name;` after them",
        ));
    }
    let expected = "expected `unsafe in SOURCE { … }`: whoever writes this `unsafe` promises that under \
                   their `where` the `safe fn`s of SOURCE stay inside what they are given";
    let promise = cursor.here();
    if cursor.eat("unsafe").is_none() || cursor.eat("in").is_none() {
        return Err(Error::new(cursor.here(), expected));
    }
    let is_body = |token: &Token| matches!(token, Token::Group(Delimiter::Brace, _, _));
    let length = cursor.tokens.iter().position(is_body).unwrap_or(cursor.tokens.len());
    let (source, rest) = cursor.tokens.split_at(length);
    if source.is_empty() {
        return Err(Error::new(cursor.here(), "expected the kernels' source after `unsafe in`"));
    }
    let Some((Token::Group(_, body, span), rest)) = rest.split_first() else {
        return Err(Error::new(cursor.end, "expected `{ … }` with the kernels' declarations"));
    };
    if let Some(extra) = rest.first() {
        return Err(Error::new(
            extra.span(),
            "one `unsafe in SOURCE { … }` makes one struct: put others in a `kernels!` of their own",
        ));
    }
    let (source, functions, globals) = (source.to_vec(), Vec::new(), Vec::new());
    let declaration = Declaration {
        krate,
        attributes,
        visibility,
        name,
        shared,
        testing,
        promise,
        source,
        functions,
        globals,
    };
    Ok((declaration, body, *span))
}

/// `#![crate = path]`, for crates that re-export `cuda_safe`.
fn krate(cursor: &mut Cursor<'_>) -> Result<Vec<Token>, Error> {
    let [hash, bang, Token::Group(Delimiter::Bracket, inner, span), rest @ ..] = cursor.tokens
    else {
        return Ok(crate::lex::quote("::cuda_safe", &[]));
    };
    if !hash.is_punct('#') || !bang.is_punct('!') {
        return Ok(crate::lex::quote("::cuda_safe", &[]));
    }
    match inner.as_slice() {
        [krate, equals, path @ ..]
            if krate.is_ident("crate") && equals.is_punct('=') && !path.is_empty() =>
        {
            cursor.tokens = rest;
            Ok(path.to_vec())
        }
        _ => Err(Error::new(*span, "the one inner attribute is `#![crate = path::to::cuda_safe]`")),
    }
}

/// The functions that each generated struct has.
const GENERATED: [&str; 5] = ["load", "load_from", "from_module", "module", "check"];

/// Those that a struct with `#[test_launches]` has.
const TESTING: [&str; 2] = ["test_launches", "test_loaded"];

/// No two items of the generated `impl` may have one name.
fn names_are_free(declaration: &Declaration, errors: &mut Vec<Error>) {
    let Declaration { functions, globals, testing, .. } = declaration;
    let generated = || GENERATED.iter().chain(TESTING.iter().filter(|_| testing.is_some()));
    let is_accessed = |text: &str| {
        functions
            .iter()
            .find(|other| *text == format!("{}_kernel", other.text))
            .map(|other| format!("`{text}` is the generated access to the kernel `{}`", other.text))
    };
    let is_recorded = |text: &String| {
        let recorded = functions.iter().filter(|other| other.gradient.is_some());
        let taken = |other: &&Function| {
            let generated = ["record", "derive"].map(|verb| format!("{verb}_{}", other.text));
            generated.contains(text) || *text == format!("{}_gradient", other.text)
        };
        let other = recorded.clone().find(taken);
        if text == "gradient_source" && recorded.clone().next().is_some() {
            return Some(format!("`{text}` is a field of the generated struct"));
        }
        other.map(|other| format!("`{text}` is generated for the gradients of `{}`", other.text))
    };
    let is_generated = |text: &String| {
        generated()
            .any(|name| *name == text)
            .then(|| format!("`{text}` is a function of the generated struct"))
            .or_else(|| is_accessed(text))
            .or_else(|| is_recorded(text))
    };
    // Two items of one name may be alternatives: then rustc sees which of them are left.
    let is_alternative =
        |attributes: &[Attribute]| attributes.iter().any(|attribute| attribute.name == "cfg");
    for (i, function) in functions.iter().enumerate() {
        let text = &function.text;
        let clash = is_generated(text).or_else(|| {
            let twin = functions[..i].iter().find(|other| other.text == *text);
            twin.filter(|twin| {
                !is_alternative(&function.attributes) && !is_alternative(&twin.attributes)
            })
            .map(|_| format!("there are two kernels `{text}`"))
        });
        if let Some(clash) = clash {
            let hint = "name the method otherwise and give the symbol by `#[name = \"…\"]`";
            errors.push(Error::new(function.name.span(), format!("{clash}: {hint}")));
        }
    }
    for (i, global) in globals.iter().enumerate() {
        let text = &global.text;
        let twins = functions.iter().map(|it| (&it.text, &it.attributes));
        let mut twins = twins.chain(globals[..i].iter().map(|it| (&it.text, &it.attributes)));
        let clash = is_generated(text).or_else(|| {
            twins
                .find(|(other, attributes)| {
                    *other == text
                        && !is_alternative(attributes)
                        && !is_alternative(&global.attributes)
                })
                .map(|_| format!("there are two items `{text}`"))
        });
        if let Some(clash) = clash {
            let hint = "name the method otherwise and give the variable by `#[name = \"…\"]`";
            errors.push(Error::new(global.name.span(), format!("{clash}: {hint}")));
        }
    }
}

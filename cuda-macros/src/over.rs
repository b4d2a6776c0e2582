//! Parameters that are filled in, and the launch of an `over`.
//!
//! `over n` exists because a count that is passed beside its slices, a launch that covers it and a clause that bounds it
//! say one thing three times, and each can be wrong alone. A filled-in `n = x.len()` cannot exceed the length of `x`, so
//! it counts as the check of that length. The method of an `over` takes no launch, so that its promise covers exactly
//! the launches that the declaration shows.

use crate::check::{checked, constant, values};
use crate::clause::{Expr, Path};
use crate::clause_parser::Place;
use crate::cursor::{Cursor, split_at_commas};
use crate::function::Function;
use crate::lex::quote;
use crate::method::at;
use crate::param::{Kind, Param};
use crate::primitive::primitives;
use crate::token::{Error, Span, Token, bare, type_text};
use proc_macro::Delimiter;

/// `over [width, height] by [32, 8]`: a thread for each element.
#[derive(Debug)]
pub(crate) struct Over {
    /// The elements in x, y and z: one to three.
    pub(crate) extents: Vec<Expr>,
    /// The threads of a block in as many dimensions.
    pub(crate) block: Vec<Threads>,
}

/// The threads of a block in one dimension.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Threads {
    Int(u32),
    /// A constant of Rust's. A block that no device has is refused at the launch.
    Const(Path),
}

impl Threads {
    fn display(&self) -> String {
        match self {
            Threads::Int(threads) => threads.to_string(),
            Threads::Const(path) => path.text.clone(),
        }
    }
}

/// Blocks of launches in one, two and three dimensions: 256 threads, which fill every multiprocessor,
/// with a full warp in x as long as the block is flat.
const BLOCKS: [&[u32]; 3] = [&[256], &[32, 8], &[8, 8, 4]];

/// The largest extents of a block on every device, and the most threads that it has.
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
const MAX_THREADS: u32 = 1024;

impl Over {
    /// Reads `over …` if it comes next, up to the `where` or the end of the declaration.
    pub(crate) fn parse(cursor: &mut Cursor<'_>, params: &[Param]) -> Result<Option<Self>, Error> {
        let Some(over) = cursor.eat("over") else { return Ok(None) };
        let stops =
            |token: &Token| token.is_ident("by") || token.is_ident("where") || token.is_punct(';');
        let length = cursor.tokens.iter().position(stops).unwrap_or(cursor.tokens.len());
        let (tokens, rest) = cursor.tokens.split_at(length);
        cursor.tokens = rest;
        let (items, end) = match bare(tokens) {
            [Token::Group(Delimiter::Bracket, list, span)] => (split_at_commas(list), *span),
            _ => (vec![tokens], tokens.last().unwrap_or(over).span()),
        };
        if !(1..=BLOCKS.len()).contains(&items.len()) {
            let message = format!("a launch has one to three dimensions, not {}", items.len());
            return Err(Error::new(end, message));
        }
        let extents: Vec<Expr> = items
            .iter()
            .map(|item| {
                Expr::parse(item, params, Place::Extent, item.last().map_or(end, Token::span))
            })
            .collect::<Result<_, _>>()?;
        let block = match cursor.eat("by") {
            Some(by) => block(cursor, by, extents.len())?,
            None => BLOCKS[extents.len() - 1].iter().copied().map(Threads::Int).collect(),
        };
        Ok(Some(Over { extents, block }))
    }

    /// Returns the declaration as text, with the usual spaces and without the block.
    pub(crate) fn display(&self, params: &[Param]) -> String {
        let extents: Vec<String> =
            self.extents.iter().map(|extent| extent.display(params)).collect();
        match extents.as_slice() {
            [one] => format!("over {one}"),
            _ => format!("over [{}]", extents.join(", ")),
        }
    }

    /// Returns the text about the launch for the method's documentation.
    pub(crate) fn describe(&self, params: &[Param]) -> String {
        let join = |items: Vec<String>| items.join(" × ");
        let extents =
            join(self.extents.iter().map(|e| format!("`{}`", e.display(params))).collect());
        let block = join(self.block.iter().map(Threads::display).collect());
        format!("Launches one thread for each of {extents} elements, in blocks of {block}.")
    }
}

/// Returns the numbers after `by`, one for each dimension.
fn block(cursor: &mut Cursor<'_>, by: &Token, dimensions: usize) -> Result<Vec<Threads>, Error> {
    let example = match dimensions {
        1 => "256".to_owned(),
        _ => format!("{:?}", BLOCKS[dimensions - 1]),
    };
    let expected = format!(
        "expected the threads of a block as integers or constants in capitals, such as `by {example}`"
    );
    let stops = |token: &Token| token.is_ident("where") || token.is_punct(';');
    let length = cursor.tokens.iter().position(stops).unwrap_or(cursor.tokens.len());
    let (tokens, rest) = cursor.tokens.split_at(length);
    let (list, span) = match tokens {
        [Token::Group(Delimiter::Bracket, list, span)] => (split_at_commas(list), *span),
        [first, ..] => (vec![tokens], first.span()),
        [] => return Err(Error::new(by.span(), expected)),
    };
    cursor.tokens = rest;
    let extent = |item: &&[Token]| match bare(item) {
        [Token::Literal(text, _)] => text.replace('_', "").parse().ok().map(Threads::Int),
        // Without parameters, a name is a constant.
        path => match Expr::parse(path, &[], Place::Extent, span) {
            Ok(Expr::Const(path)) => Some(Threads::Const(path)),
            _ => None,
        },
    };
    let block: Option<Vec<Threads>> = list.iter().map(extent).collect();
    let block = block.filter(|block| block.len() == dimensions);
    let block = block.ok_or_else(|| Error::new(span, expected))?;
    let known = |threads: &Threads| match threads {
        Threads::Int(threads) => *threads,
        Threads::Const(_) => 1,
    };
    let threads = block.iter().fold(1_u32, |all, threads| all.saturating_mul(known(threads)));
    let fits = block.iter().zip(MAX_BLOCK).all(|(threads, most)| known(threads) <= most);
    if threads == 0 || threads > MAX_THREADS || !fits {
        let message =
            format!("a block has 1 to {MAX_THREADS} threads, at most {} in z", MAX_BLOCK[2]);
        return Err(Error::new(span, message));
    }
    Ok(block)
}

/// Returns the statements that fill in parameters.
pub(crate) fn fill(function: &Function, krate: &[Token]) -> Vec<Token> {
    let params = &function.params;
    let mut out = Vec::new();
    for param in params {
        let (Some(default), Kind::Value { ty, .. }) = (&param.default, &param.kind) else {
            continue;
        };
        let clause = format!("{}: {} = {}", param.text, type_text(ty), default.display(params));
        let mut leaves = Vec::new();
        default.collect_leaves(&mut leaves);
        out.extend(quote(
            "let $name: $ty = $cuda::__private::fill($kernel, $clause, $value, &[$values])?;",
            &[
                ("name", std::slice::from_ref(&param.name)),
                ("ty", &primitives(ty)),
                ("cuda", krate),
                ("kernel", &[Token::string(&function.text, Span::Macro)]),
                ("clause", &[Token::string(&clause, Span::Macro)]),
                ("value", &checked(default, params, krate)),
                ("values", &values(&leaves, params, krate)),
            ],
        ));
    }
    out
}

/// Returns the statement that makes the launch of an `over`.
pub(crate) fn launch(over: &Over, function: &Function, krate: &[Token]) -> Vec<Token> {
    let params = &function.params;
    let (mut extents, mut block, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    for (extent, threads) in over.extents.iter().zip(&over.block) {
        extent.collect_leaves(&mut leaves);
        extents.extend(quote("$value,", &[("value", &checked(extent, params, krate))]));
        let threads = self::threads(threads, krate);
        block.extend(quote("$threads,", &[("threads", &threads)]));
    }
    quote(
        "let launch = $cuda::__private::over($kernel, $clause, [$extents], [$block], &[$values])?;",
        &[
            ("cuda", krate),
            ("kernel", &[Token::string(&function.text, Span::Macro)]),
            ("clause", &[Token::string(&over.display(params), Span::Macro)]),
            ("extents", &extents),
            ("block", &block),
            ("values", &values(&leaves, params, krate)),
        ],
    )
}

/// Returns an expression for the threads of a block in one dimension, as a `u32`.
pub(crate) fn threads(threads: &Threads, krate: &[Token]) -> Vec<Token> {
    let path = match threads {
        Threads::Int(threads) => {
            return vec![Token::Literal(format!("{threads}u32"), Span::Macro)];
        }
        Threads::Const(path) => path,
    };
    let [keyword, value] = constant(path);
    let mut call = at(value.span(), quote("$cuda::__private::extent", &[("cuda", krate)]));
    let span = value.span();
    call.push(Token::Group(Delimiter::Parenthesis, vec![keyword, value], span));
    call
}

//! The expression after `unsafe in`.

use crate::lex::quote;
use crate::token::{Span, Token};
use proc_macro::Delimiter;

/// Returns the source as the generated code uses it: `include_str!("dir/file.cu")` becomes a program of the
/// name `file.cu`, so that the compiler's messages name the file. Everything else stays as it is.
pub(crate) fn named(source: &[Token], krate: &[Token]) -> Vec<Token> {
    match included_file(source) {
        Some(name) => quote(
            "$cuda::nvrtc::Program::name($cuda::nvrtc::Program::new($source), $name)",
            &[("cuda", krate), ("source", source), ("name", &[Token::string(&name, Span::Macro)])],
        ),
        None => source.to_vec(),
    }
}

/// Returns the last component of the path: with folders in the name, quoted includes would be searched for
/// in these, from wherever the program runs.
fn included_file(source: &[Token]) -> Option<String> {
    match source {
        // The tokens of `$source:expr` of a macro_rules.
        [Token::Group(Delimiter::None, inner, _)] => included_file(inner),
        [include, bang, Token::Group(_, arguments, _)]
            if include.is_ident("include_str") && bang.is_punct('!') =>
        {
            let literal = match arguments.as_slice() {
                [literal] => literal,
                [literal, comma] if comma.is_punct(',') => literal,
                _ => return None,
            };
            let Token::Literal(text, _) = literal else { return None };
            let is_raw = text.starts_with('r');
            let path = text.trim_start_matches('r').trim_matches('#');
            let path = path.strip_prefix('"')?.strip_suffix('"')?;
            let name = path.rsplit(if is_raw { &['/', '\\'][..] } else { &['/'] }).next()?;
            // In a plain literal, only `\\` is a separator; who escapes more does without the name.
            let name = if is_raw { name } else { name.rsplit("\\\\").next()? };
            (!name.is_empty() && !name.contains('\\')).then(|| name.to_owned())
        }
        _ => None,
    }
}

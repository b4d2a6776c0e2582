//! The expression after `unsafe in`.

use crate::lex::quote;
use crate::symbol::unquoted;
use crate::token::{Span, Token, bare};
use proc_macro::Delimiter;

/// Returns the source as the generated code uses it: `include_str!("dir/file.cu")` becomes a program of the
/// name `file.cu`, so that the compiler's messages name the file, and `include_cuda!` gets the crate's path.
/// Everything else stays as it is.
pub(crate) fn named(source: &[Token], krate: &[Token]) -> Vec<Token> {
    if let [include, bang, Token::Group(delimiter, arguments, span)] = bare(source)
        && include.is_ident("include_cuda")
        && bang.is_punct('!')
        && !arguments.first().is_some_and(|first| first.is_ident("crate"))
    {
        let holes: &[(&str, &[Token])] = &[("cuda", krate), ("arguments", arguments)];
        let arguments = quote("crate = $cuda, $arguments", holes);
        return vec![include.clone(), bang.clone(), Token::Group(*delimiter, arguments, *span)];
    }
    let Some(name) = included_file(source) else { return source.to_vec() };
    let name = [Token::string(&name, Span::Macro)];
    let program = quote(
        "$cuda::nvrtc::Program::name($cuda::nvrtc::Program::new($source), $name)",
        &[("cuda", krate), ("source", source), ("name", &name)],
    );
    let Some(path) = path_on_disk(source) else { return program };
    quote(
        "$cuda::nvrtc::Program::origin($program, $name, $path)",
        &[
            ("cuda", krate),
            ("program", &program),
            ("name", &name),
            ("path", &[Token::string(&path, Span::Macro)]),
        ],
    )
}

/// Returns whether the program may hold paths of this machine; `SOURCE_DATE_EPOCH` is what reproducible builds set.
pub(crate) fn may_hold_paths() -> bool {
    std::env::var_os("SOURCE_DATE_EPOCH").is_none()
}

/// Returns the absolute path of the file that `include_str!` names, for line information.
fn path_on_disk(source: &[Token]) -> Option<String> {
    let [_, _, Token::Group(_, arguments, _)] = bare(source) else { return None };
    let literal = arguments.first()?;
    let file = literal.span().file().filter(|_| may_hold_paths())?;
    let path = file.parent()?.join(unquoted(literal)?).canonicalize().ok()?;
    path.to_str().map(str::to_owned)
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

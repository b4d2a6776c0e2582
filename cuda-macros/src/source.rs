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
    if let [literal @ Token::Literal(text, span)] = bare(source)
        && let (Some(file), Some(line)) = (span.shown_file(), span.line())
        && keeps_lines(text)
    {
        return in_rust(literal, *span, &file, line, krate);
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

/// Returns the program of a literal that begins in this line of a file, so that the compiler's messages and line information
/// name the file.
fn in_rust(literal: &Token, span: Span, file: &str, line: u32, krate: &[Token]) -> Vec<Token> {
    let line = Token::Literal(format!("{line}u32"), Span::Macro);
    let program = quote(
        "$cuda::nvrtc::Program::part_of($cuda::nvrtc::Program::new($source), $file, $line)",
        &[
            ("cuda", krate),
            ("source", std::slice::from_ref(literal)),
            ("file", &[Token::string(file, Span::Macro)]),
            ("line", &[line]),
        ],
    );
    let path = span.file().filter(|_| may_hold_paths()).and_then(|path| path.canonicalize().ok());
    let Some(path) = path.as_ref().and_then(|path| path.to_str()) else { return program };
    quote(
        "$cuda::nvrtc::Program::origin($program, \"program.cu\", $path)",
        &[("cuda", krate), ("program", &program), ("path", &[Token::string(path, Span::Macro)])],
    )
}

/// Returns whether this is a string in which each line of the value is the same line of the literal: a raw string, or one in
/// which `\n` stands before each line's end alone, with a `\` that continues it or without.
fn keeps_lines(literal: &str) -> bool {
    if literal.starts_with('r') {
        return true;
    }
    let Some(text) = literal.strip_prefix('"') else { return false };
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let after = &rest[at + 1..];
        rest = match after.strip_prefix("n") {
            // At the end there is no line after it.
            Some(after) if after == "\"" => after,
            Some(after) => match after.strip_prefix("\\\n") {
                Some(after) => after,
                None => return false,
            },
            None if after.starts_with('\n') => return false,
            None => {
                let mut chars = after.chars();
                chars.next();
                chars.as_str()
            }
        };
    }
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_whose_lines_are_those_of_the_file() {
        for literal in [
            "r\"a\\nb\"",
            "r#\"\n a\n b \"#",
            "\"one line\"",
            "\"one line, \\\" quoted \\\\ and ended\\n\"",
            "\"two\nlines\"",
            "\"two\\n\\\n    lines\"",
        ] {
            assert!(keeps_lines(literal), "{literal}");
        }
        for literal in ["\"a\\nb\"", "\"a \\\n b\"", "\"a\\n\nb\"", "b\"x\"", "1"] {
            assert!(!keeps_lines(literal), "{literal}");
        }
    }
}

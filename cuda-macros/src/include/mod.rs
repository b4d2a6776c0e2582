//! `include_cuda!`: a file of CUDA C++ with all its quoted includes.

mod directives;
mod files;

use std::path::PathBuf;

use crate::lex::quote;
use crate::symbol::unquoted;
use crate::token::{Error, Span, Token, bare};
use files::{Embedded, File};

/// The arguments: `"a.cu"`, or `crate = path, "a.cu"`.
struct Arguments {
    krate: Vec<Token>,
    path: String,
    span: Span,
}

/// Where the call stands.
pub(crate) struct Caller {
    /// The folder of the source file that has the call.
    pub(crate) folder: PathBuf,
    /// The package's folder.
    pub(crate) package: PathBuf,
    /// The package's name.
    pub(crate) name: String,
    /// Whether the program may hold the paths of the files, for line information.
    pub(crate) paths: bool,
}

/// Returns the expression for a call: an `nvrtc::Program`. `caller` finds out where a token stands.
pub(crate) fn include(
    tokens: &[Token],
    caller: impl FnOnce(Span) -> Result<Caller, &'static str>,
) -> Result<Vec<Token>, Error> {
    let Arguments { krate, path, span } = arguments(tokens)?;
    let caller = caller(span).map_err(|message| Error::new(span, message))?;
    let embedded = files::embed(&caller, &path).map_err(|message| Error::new(span, message))?;
    Ok(emit(&embedded, &krate, caller.paths))
}

fn arguments(tokens: &[Token]) -> Result<Arguments, Error> {
    let expected = |span| Error::new(span, "expected the path of a file, as a string literal");
    let tokens = bare(tokens);
    let (krate, rest) = match tokens {
        [krate, equals, rest @ ..] if krate.is_ident("crate") && equals.is_punct('=') => {
            let end = rest.iter().position(|token| token.is_punct(','));
            match end.map(|end| rest.split_at(end)) {
                Some((path, [_, rest @ ..])) if !path.is_empty() => (path.to_vec(), rest),
                _ => return Err(expected(equals.span())),
            }
        }
        _ => (quote("::cuda_safe", &[]), tokens),
    };
    let literal = match bare(rest) {
        [literal] => literal,
        [literal, comma] if comma.is_punct(',') => literal,
        [] => return Err(expected(Span::Call)),
        [_, extra, ..] => return Err(expected(extra.span())),
    };
    match unquoted(literal) {
        Some(path) => Ok(Arguments { krate, path, span: literal.span() }),
        None => Err(expected(literal.span())),
    }
}

/// Returns the program as an expression. Each file is also named by an `include_bytes!`, so that cargo knows it.
fn emit(embedded: &Embedded, krate: &[Token], paths: bool) -> Vec<Token> {
    let string = |text: &str| [Token::string(text, Span::Macro)];
    let name = string(&embedded.name);
    let mut tracked = Vec::new();
    let mut program = Vec::new();
    for (index, File { path, name: in_memory, text }) in embedded.files.iter().enumerate() {
        let path = string(path);
        tracked.extend(quote(
            "const _: &[::core::primitive::u8] = ::core::include_bytes!($path);",
            &[("path", &path)],
        ));
        let own_name = if index == 0 { name.clone() } else { string(in_memory) };
        let text = string(text);
        let holes: &[(&str, &[Token])] = &[
            ("cuda", krate),
            ("name", &own_name),
            ("text", &text),
            ("path", &path),
            ("program", &program),
        ];
        let with_text = match index {
            0 => "$cuda::nvrtc::Program::name($cuda::nvrtc::Program::new($text), $name)",
            _ => "$cuda::nvrtc::Program::header($program, $name, $text)",
        };
        let with_text = quote(with_text, holes);
        program = match paths {
            false => with_text,
            true => quote(
                "$cuda::nvrtc::Program::origin($program, $name, $path)",
                &[("cuda", krate), ("name", &own_name), ("path", &path), ("program", &with_text)],
            ),
        };
    }
    quote("{ $tracked $program }", &[("tracked", &tracked), ("program", &program)])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::lex::lex;
    use crate::token::to_text;

    fn expand(input: &str, folder: &Path) -> Result<String, Error> {
        let folder = folder.to_owned();
        let caller =
            |_| Ok(Caller { package: folder.clone(), folder, name: "pack".into(), paths: true });
        include(&lex(input, Span::At), caller).map(|tokens| to_text(&tokens))
    }

    #[test]
    fn a_file_becomes_a_program() {
        let folder =
            files::tests::Folder::new(&[("a.cu", "#include \"b.h\"\nint \"é\\\";"), ("b.h", "")]);
        let text = expand("\"a.cu\"", folder.path()).unwrap_or_else(|error| panic!("{error:?}"));
        let squeezed: String = text.split_whitespace().collect();
        assert!(squeezed.contains("::cuda_safe::nvrtc::Program::new("), "{text}");
        assert!(squeezed.contains(r#"#include\"pack/b.h\"\nint\"é\\\";"#), "{text}");
        assert_eq!(squeezed.matches("include_bytes!").count(), 2, "{text}");
        assert_eq!(squeezed.matches("Program::origin(").count(), 2, "{text}");
        let other =
            expand("crate = a::b, \"a.cu\",", folder.path()).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(
            other.replace(' ', "").contains("a::b::nvrtc::Program::new(")
                && !other.contains("cuda_safe")
        );
    }

    #[test]
    fn what_is_no_path_is_refused_where_it_stands() {
        for (input, at) in [
            ("»a", 1),
            ("x = 3", 2),
            ("\"a.cu\" b", 7),
            ("3", 0),
            ("crate = , \"a\"", 6),
            ("\"a\\n\"", 0),
        ] {
            let input = input.replace('»', " ");
            match expand(&input, Path::new("/")) {
                Err(Error { span: Span::At(found), message }) => {
                    assert_eq!(found, at, "{input}");
                    assert!(message.contains("string literal"), "{message}");
                }
                other => panic!("{input}: {other:?}"),
            }
        }
        assert!(matches!(expand("", Path::new("/")), Err(Error { span: Span::Call, .. })));
    }
}

//! The rule that attacks are safe code.

use std::fs;
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::harness::{Attack, Failure, TestResult, ensure, files, package};

/// The tokens of a text.
fn tokens(text: &str) -> Result<TokenStream, Failure> {
    TokenStream::from_str(text).map_err(|error| Failure::new(error.to_string()))
}

/// The word `unsafe` stands in declarations of `kernels!` alone, and no lint is switched off there.
pub(super) fn only_kernels_are_unsafe(_: &[Attack]) -> TestResult {
    let folders = [package().join("src/attacks"), package().join("refused")];
    let mut seen = 0;
    for folder in folders {
        for file in files(&folder)? {
            let text = fs::read_to_string(&file)?;
            let stream = tokens(&text)
                .map_err(|failure| Failure::new(format!("{}: {failure}", file.display())))?;
            let found = unsafe_words(stream);
            ensure!(
                found == 0,
                "{} uses `unsafe` {found} times outside of `kernels!`",
                file.display()
            );
            seen += 1;
        }
    }
    ensure!(seen > 10, "only {seen} files");
    // The check finds what it looks for.
    for (text, count) in [
        ("fn f() { unsafe { g() } }", 1),
        ("#[unsafe(no_mangle)] fn f() {}", 1),
        ("kernels! { struct K; unsafe in \"\" { safe fn f(); } } fn f() { unsafe {} }", 1),
        ("cuda_safe::kernels! { struct K; unsafe in \"\" { safe fn f(); } }", 0),
        ("kernels! { unsafe in { unsafe { g() } } }", 1),
        ("macro_rules! kernels { () => { unsafe {} } }", 1),
        ("// unsafe\nconst A: &str = \"unsafe\";", 0),
    ] {
        ensure!(unsafe_words(tokens(text)?) == count, "{text}");
    }
    Ok(())
}

/// How often `unsafe` occurs, but for `unsafe in …` and `unsafe fn` in `kernels!`.
fn unsafe_words(stream: TokenStream) -> usize {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let is = |tree: Option<&TokenTree>, word: &str| {
        tree.is_some_and(|tree| matches!(tree, TokenTree::Ident(name) if name == word))
    };
    let is_bang = |tree: Option<&TokenTree>| {
        tree.is_some_and(|tree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == '!'))
    };
    let mut count = 0;
    for (index, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(name) if name == "unsafe" => count += 1,
            TokenTree::Group(group) => {
                let inside = group.stream();
                let declares = index >= 2
                    && is_bang(trees.get(index - 1))
                    && is(trees.get(index - 2), "kernels");
                count += if declares { in_declaration(inside) } else { unsafe_words(inside) };
            }
            _ => {}
        }
    }
    count
}

/// How often `unsafe` occurs in a declaration of `kernels!` in another place than `unsafe in` and `unsafe fn`.
fn in_declaration(stream: TokenStream) -> usize {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut count = 0;
    for (index, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(name) if name == "unsafe" => {
                let next = trees.get(index + 1);
                let allowed =
                    matches!(next, Some(TokenTree::Ident(word)) if word == "in" || word == "fn");
                count += usize::from(!allowed);
            }
            TokenTree::Group(group) => count += in_declaration(group.stream()),
            _ => {}
        }
    }
    count
}

//! Checks of sources: attacks are safe code, and all locks are taken in one place.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};
use test_harness::{Case, Failure, TestResult, ensure};

use crate::attack::{package, workspace};

pub(crate) fn cases() -> Vec<Case> {
    test_harness::cases!["sources", host(only_kernels_are_unsafe), host(locks)]
}

/// Returns the Rust files below a folder, in order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The tokens of a text.
fn tokens(text: &str) -> Result<TokenStream, Failure> {
    TokenStream::from_str(text).map_err(|error| Failure::new(error.to_string()))
}

/// The word `unsafe` stands in declarations of `kernels!` alone, and no lint is switched off there.
fn only_kernels_are_unsafe() -> TestResult {
    let folders = [package().join("src/attacks"), package().join("refused/programs")];
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
    ensure!(seen > 80, "only {seen} files");
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

/// What waits for another thread, and so is used in `sync.rs` alone, whose types ask who the caller is before.
const WAITS: [&str; 8] =
    ["Mutex", "RwLock", "OnceLock", "LazyLock", "ReentrantLock", "Barrier", "TryLockError", "mpsc"];

/// The sources of the crates that subscribers, host functions and forked children may call take every lock through the types
/// of their `sync.rs`.
fn locks() -> TestResult {
    let mut asked = 0;
    for name in ["cuda-safe", "cuda-nccl"] {
        let folder = workspace().join(name).join("src");
        for file in files(&folder)? {
            let is_test = file.components().any(|part| part.as_os_str() == "tests")
                || file.file_name().is_some_and(|name| name == "tests.rs" || name == "sync.rs");
            if is_test {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            let stream = tokens(&text)
                .map_err(|failure| Failure::new(format!("{}: {failure}", file.display())))?;
            let found = waits(stream);
            ensure!(
                found.is_empty(),
                "{} uses {found:?} of std: use `Lock` or `Once` of its crate's `sync.rs`, which ask who the caller is",
                file.display()
            );
            asked += text.matches(".lock()").count();
        }
    }
    ensure!(asked > 50, "only {asked} locks");
    // The check finds what it looks for.
    for (text, count) in [
        ("use std::sync::Mutex;", 1),
        ("use std::sync::{Arc, Once};", 1),
        ("static A: std::sync::Once = std::sync::Once::new();", 2),
        ("use crate::sync::Once; fn f(a: &Once<u8>) {}", 0),
        ("fn f() { let a = std::sync::RwLock::new(1); }", 1),
        ("#[cfg(test)] mod tests { use std::sync::Mutex; }", 0),
        ("// a Mutex", 0),
    ] {
        ensure!(waits(tokens(text)?).len() == count, "{text}");
    }
    Ok(())
}

/// The names of [`WAITS`], and `Once` of `std::sync`, outside of unit tests.
fn waits(stream: TokenStream) -> Vec<String> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut found = Vec::new();
    for (index, tree) in trees.iter().enumerate() {
        let before = trees[index.saturating_sub(7)..index].iter().map(ToString::to_string);
        let before = before.collect::<String>().replace(' ', "");
        match tree {
            TokenTree::Ident(name) => {
                let is_once = name == "Once" && before.ends_with("std::sync::");
                if is_once || WAITS.iter().any(|waits| name == waits) {
                    found.push(name.to_string());
                }
            }
            // `#`, `[cfg(test)]`, `mod`, a name.
            TokenTree::Group(_) if before.contains("#[cfg(test)]mod") => {}
            TokenTree::Group(group) => {
                let of_std = before.ends_with("std::sync::");
                let is_once =
                    |tree: &TokenTree| matches!(tree, TokenTree::Ident(name) if name == "Once");
                if of_std && group.stream().into_iter().any(|tree| is_once(&tree)) {
                    found.push("Once".to_owned());
                }
                found.extend(waits(group.stream()));
            }
            _ => {}
        }
    }
    found
}

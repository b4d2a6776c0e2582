//! `cargo xtask api`: the listing of the public items of the crates that users name, in `docs/api`, one file a crate.
//!
//! The listing is what rustdoc's pages show, since rustdoc's JSON needs a nightly toolchain: of each item its
//! declaration, the methods of its own and the traits that it implements.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use xtask::{Error, root};

use crate::process::{cargo, succeeds, target};

/// The published crates: those whose manifests do not forbid it.
pub(crate) const PRODUCTS: [&str; 17] = [
    "cuda-safe-sys",
    "cuda-safe-nvrtc",
    "ptx",
    "ptx-ad",
    "cuda-macros",
    "gpu-phases-macros",
    "gpu-phases",
    "cuda-safe",
    "cuda-nccl",
    "nanovdb",
    "geom-kernels",
    "cuda-tape",
    "cuda-emu",
    "nccl-emu",
    "blas-emu",
    "cuda-libs",
    "cuda-safe-runtime",
];

/// The packages whose items are listed, and the name of the listing.
const LISTED: [(&str, &str); 4] = [
    ("cuda-nccl", "cuda-nccl"),
    ("cuda-safe", "cuda-safe"),
    ("cuda-tape", "tape"),
    ("geom-kernels", "geom-kernels"),
];

/// Where the listing is, below the workspace's root.
const FOLDER: &str = "docs/api";

/// Documents the product crates, warnings denied, and writes the listing; to compare it, documents the whole workspace.
///
/// # Errors
/// A program could not be run, or a file not be read or written.
pub(crate) fn api(check: bool) -> Result<bool, Error> {
    if !document(check)? {
        return Ok(false);
    }
    // `long` of C, for one, has another type on Windows.
    if env::consts::OS != "linux" {
        if check {
            eprintln!("xtask: {FOLDER} lists the items on Linux: not compared on this system");
            return Ok(true);
        }
        return Err(format!("{FOLDER} lists the items on Linux: generate it there").into());
    }
    let mut same = true;
    for (package, name) in LISTED {
        let listing = listing(package, &pages(package))?;
        let path = root().join(FOLDER).join(format!("{name}.txt"));
        if check {
            for difference in differences(&read_or_empty(&path)?, &listing) {
                println!("{FOLDER}/{name}.txt: {difference}");
                same = false;
            }
        } else {
            fs::write(&path, listing).map_err(|error| at(&path, error))?;
        }
    }
    if !same {
        eprintln!(
            "xtask: the public items differ from {FOLDER} (`+`: added, `-`: removed); if this is \
             intended, run `cargo xtask api`, commit {FOLDER}, and name the change in CHANGELOG.md"
        );
    }
    Ok(same)
}

/// Returns the folder of a crate's pages.
fn pages(krate: &str) -> PathBuf {
    target().join("doc").join(krate.replace('-', "_"))
}

/// Documents the products or the whole workspace, with all features. What the features of tests add is hidden, so that
/// one run of cargo serves both.
fn document(whole: bool) -> Result<bool, Error> {
    let mut doc = cargo();
    doc.args(["doc", "--no-deps", "--quiet", "--all-features"]);
    for product in PRODUCTS {
        // Cargo takes pages for up to date that it wrote for other features, and leaves pages of items that are gone.
        let pages = pages(product);
        match fs::remove_dir_all(&pages) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&pages, error)),
            _ => {}
        }
        if !whole {
            doc.args(["--package", product]);
        }
    }
    if whole {
        doc.arg("--workspace");
    }
    succeeds(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
}

/// Returns the text of a crate's file.
fn listing(package: &str, pages: &Path) -> Result<String, Error> {
    let krate = package.replace('-', "_");
    let mut listing = format!(
        "# {}: the public items of {package}. `cargo xtask api` writes this file.\n",
        concat!("@gene", "rated"),
    );
    let all = read(&pages.join("all.html"))?;
    let items = addresses(&all);
    let folders = items.iter().filter_map(|item| item.rsplit_once('/').map(|(folder, _)| folder));
    for folder in std::iter::once("").chain(folders).collect::<BTreeSet<_>>() {
        let index = read(&pages.join(folder).join("index.html"))?;
        let reexports = reexports(&index);
        if !reexports.is_empty() {
            let path = format!("{krate}/{folder}");
            let path = path.trim_end_matches('/').replace('/', "::");
            listing.push_str(&format!("\n{path}\n{reexports}"));
        }
    }
    for item in items {
        let path = pages.join(item);
        // The file's name is the kind, a dot, and the item's name.
        let (folder, file) = item.rsplit_once('/').unwrap_or(("", item));
        let name = file.split('.').nth(1).unwrap_or(file);
        let page = page(name, &read(&path)?).ok_or_else(|| at(&path, "there is no declaration"))?;
        let path = [&krate, folder, name].join("/").replace("//", "/").replace('/', "::");
        listing.push_str(&format!("\n{path}\n{page}"));
    }
    Ok(listing)
}

/// Returns the addresses of the pages that a crate's `all.html` lists.
fn addresses(all: &str) -> Vec<&str> {
    let lists = all.split("<ul class=\"all-items\">").skip(1);
    let lists = lists.map(|list| list.split("</ul>").next().unwrap_or(list));
    let links = lists.flat_map(|list| list.split("href=\"").skip(1));
    links.filter_map(|link| link.split('"').next()).collect()
}

/// Returns the re-exports of a module that have no page.
fn reexports(index: &str) -> String {
    let section = sections(index).find(|(id, _)| *id == "reexports").map_or("", |(_, body)| body);
    let codes = section.split("<code>").skip(1).filter_map(|code| code.split("</code>").next());
    codes.map(|code| line(code) + "\n").collect()
}

/// Returns the sections of a page after its first, with their identifiers.
fn sections(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("<h2 id=\"").skip(1).filter_map(|section| section.split_once('"'))
}

/// Returns the lines of an item: its declaration, its methods, and the traits that it implements.
fn page(name: &str, page: &str) -> Option<String> {
    let (_, declaration) = page.split_once("<pre class=\"rust item-decl\">")?;
    let declaration = declaration.split("</pre>").next()?;
    let lines = text(declaration);
    // Rustdoc breaks a long function.
    let function = lines.lines().next().is_some_and(|first| first.ends_with('('));
    let declaration = if function { line(declaration) } else { lines };
    // Rustdoc's order of implementations depends on which crates it has read.
    let (mut lines, mut traits, mut others) = (String::new(), Vec::new(), Vec::new());
    for line in declaration.lines().filter(|line| !line.trim().is_empty()) {
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    for (section, body) in sections(page) {
        let own = section == "implementations";
        if !own && !matches!(section, "trait-implementations" | "foreign-impls") {
            continue;
        }
        for part in body.split(" class=\"code-header\">").skip(1) {
            let (head, rest) = part.split_once("</h")?;
            // The head of an implementation is a heading of the third level, that of a member of the fourth.
            let implementation = rest.starts_with('3');
            let head = line(head);
            let plain = head.strip_prefix("impl ").and_then(|head| head.split_once(" for "));
            match plain.filter(|(_, of)| implementation && !own && *of == name) {
                // `derive(PartialEq)` implements an unstable trait.
                Some(("StructuralPartialEq", _)) => {}
                Some((implemented, _)) => traits.push(implemented.to_owned()),
                None if implementation && !own => others.push(format!("{head}\n")),
                None if implementation => lines.push_str(&format!("{head}\n")),
                None if own => lines.push_str(&format!("    {head}\n")),
                None => {}
            }
        }
    }
    others.sort();
    lines.extend(others);
    if !traits.is_empty() {
        traits.sort();
        lines.push_str(&format!("impl {}\n", traits.join(" + ")));
    }
    Some(lines)
}

/// Returns the text of a part of a page in one line, however rustdoc broke it.
fn line(html: &str) -> String {
    let mut line = text(html).split_whitespace().collect::<Vec<_>>().join(" ");
    for (broken, whole) in [("( ", "("), (", )", ")"), (" )", ")"), ("< ", "<"), (", >", ">")] {
        line = line.replace(broken, whole);
    }
    line.trim_end_matches([',', ' ']).to_owned()
}

/// Returns the text of a part of a page: no tags, no summary of what a page folds, no marks of links.
fn text(html: &str) -> String {
    let mut text = String::new();
    for part in html.split("<summary").map(|part| part.rsplit("</summary>").next().unwrap_or(part))
    {
        // A `where` clause is a block.
        for tag in part.replace("<div", "\n<div").replace("</div", "\n</div").split('<') {
            text.push_str(tag.rsplit_once('>').map_or(tag, |(_, text)| text));
        }
    }
    for (from, to) in [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(from, to);
    }
    text.replace(['§', 'ⓘ'], "")
}

/// Returns the lines that only one text has, in their order, with a sign.
fn differences(old: &str, new: &str) -> Vec<String> {
    // A line may occur more than once.
    let mut counts = BTreeMap::<&str, i64>::new();
    for line in new.lines() {
        *counts.entry(line).or_default() += 1;
    }
    for line in old.lines() {
        *counts.entry(line).or_default() -= 1;
    }
    let mut differences = Vec::new();
    for (line, count) in counts {
        let sign = if count < 0 { '-' } else { '+' };
        for _ in 0..count.unsigned_abs() {
            differences.push(format!("{sign} {line}"));
        }
    }
    // The same lines in another order, or another end of line.
    if differences.is_empty() && old != new {
        differences.push("! not in order, or not as written here".to_owned());
    }
    differences
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| at(path, error))
}

/// Reads a file; a file that does not exist is empty.
fn read_or_empty(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| at(path, error)),
    }
}

fn at(path: &Path, error: impl Into<Error>) -> Error {
    format!("{}: {}", path.display(), error.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_tests_are_left_out() -> Result<(), Error> {
        let mut found = 0;
        for file in [
            "geom-kernels/src/lib.rs",
            "geom-kernels/src/bvh/mod.rs",
            "geom-kernels/src/mesh/mod.rs",
            "geom-kernels/src/mesh/face_tree.rs",
            "geom-kernels/src/preparation.rs",
            "nvrtc/src/lib.rs",
            "tape/src/lib.rs",
        ] {
            let text = read(&root().join(file))?;
            let features =
                ["internals", "fuzzing"].map(|name| format!("#[cfg(feature = \"{name}\")]"));
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                let mut rest = lines.clone().skip_while(|line| line.starts_with("#[must_use"));
                if features.iter().any(|feature| feature == line) {
                    let next = rest.next().unwrap_or_default();
                    assert!(!next.starts_with("pub "), "{file}: `{next}` is not hidden");
                    found += usize::from(next == "#[doc(hidden)]");
                }
            }
        }
        assert!(found >= 14, "{found} items for tests");
        Ok(())
    }

    const PAGE: &str = "<pre class=\"rust item-decl\"><code>pub struct A&lt;T&gt;<div class=\"where\">where\n    T: Copy,\
        </div>{\n    pub a: <a title=\"a > b\">u8</a>,\n<details><summary><span>Show 2 fields</span></summary>    \
        pub b: u8,\n    <span class=\"comment\">/* private fields */</span>\n</details>}</code></pre>\
        <h2 id=\"implementations\">Implementations</h2><h3 class=\"code-header\">impl&lt;T&gt; <a>A</a>&lt;T&gt;</h3>\
        <h4 class=\"code-header\">pub fn <a>f</a>(\n    a: &amp;'static <a>str</a>,\n    b: (u8,),\n) -&gt; T</h4>\
        <h2 id=\"deref-methods-B\">Methods</h2><h3 class=\"code-header\">impl B</h3><h4 class=\"code-header\">fn g()</h4>\
        <h2 id=\"trait-implementations\">Traits</h2><h3 class=\"code-header\">impl Clone for A</h3>\
        <h4 class=\"code-header\">fn clone()</h4><h3 class=\"code-header\">impl StructuralPartialEq for A</h3>\
        <h3 class=\"code-header\">impl Copy for A</h3><h3 class=\"code-header\">impl From&lt;u8&gt; for A&lt;u8&gt;</h3>\
        <h2 id=\"blanket-implementations\">Blanket</h2><h3 class=\"code-header\">impl&lt;T&gt; Any for T</h3>";

    #[test]
    fn an_item_is_its_declaration_its_methods_and_its_traits() {
        let lines = page("A", PAGE).unwrap_or_default();
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                "pub struct A<T>",
                "where",
                "    T: Copy,",
                "{",
                "    pub a: u8,",
                "    pub b: u8,",
                "    /* private fields */",
                "}",
                "impl<T> A<T>",
                "    pub fn f(a: &'static str, b: (u8,)) -> T",
                "impl From<u8> for A<u8>",
                "impl Clone + Copy",
            ]
        );
        assert_eq!(page("A", "<pre>no declaration</pre>"), None);
    }

    #[test]
    fn pages_and_reexports_are_found() {
        let all = "<a href=\"help.html\">?</a><ul class=\"all-items\"><li><a href=\"struct.A.html\">A</a></li></ul>\
            <ul class=\"all-items\"><li><a href=\"m/fn.f.html\">m::f</a></li></ul><a href=\"x\">x</a>";
        assert_eq!(addresses(all), ["struct.A.html", "m/fn.f.html"]);
        let index = "<h2 id=\"reexports\">Re-exports</h2><code>pub use m::<a>A</a>;</code>\
            <h2 id=\"structs\">Structs</h2><code>B</code>";
        assert_eq!(reexports(index), "pub use m::A;\n");
        assert_eq!(reexports("<h2 id=\"structs\">"), "");
    }

    #[test]
    fn differences_have_signs_and_count() {
        assert_eq!(differences("a\nb\nb\n", "b\nc\n"), ["- a", "- b", "+ c"]);
        assert_eq!(differences("a\nb\n", "a\nb\n"), [""; 0]);
        assert_eq!(differences("b\na\n", "a\nb\n").len(), 1);
        assert_eq!(differences("", "a\n"), ["+ a"]);
    }

    #[test]
    fn a_missing_page_is_named() {
        let missing = root().join("no-such-folder");
        let error = listing("ptx", &missing).map_err(|error| error.to_string());
        assert!(
            error
                .is_err_and(|error| error.contains("no-such-folder") && error.contains("all.html"))
        );
    }
}

//! The items on the pages of a crate and of a module.

use xtask::Error;

use super::html::{Token, Tokens};
use super::page::{Entry, Item, section_start};

/// Returns the items that a crate's `all.html` lists.
///
/// # Errors
/// The page is not as rustdoc writes it.
pub(super) fn items(page: &str) -> Result<Vec<Item<'_>>, Error> {
    let mut items = Vec::new();
    let mut listing = false;
    for token in Tokens::of_content(page)? {
        match token {
            Token::Open { name: "ul", attributes } => listing = attributes.has_class("all-items"),
            Token::Close("ul") => listing = false,
            Token::Open { name: "a", attributes } if listing => {
                let address = attributes.get("href").ok_or("a listed item has no address")?;
                items.push(Item::at(address)?);
            }
            _ => {}
        }
    }
    Ok(items)
}

/// The items that a module's page adds to those of `all.html`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) modules: Vec<String>,
    pub(super) reexports: Vec<Entry>,
}

/// Returns the modules in a module and its re-exports that have no page of their own.
///
/// # Errors
/// The page is not as rustdoc writes it.
pub(super) fn module(path: &str, page: &str) -> Result<Module, Error> {
    let mut module = Module::default();
    let mut section = "";
    let mut tokens = Tokens::of_content(page)?;
    while let Some(token) = tokens.next() {
        let Token::Open { name, attributes } = token else {
            continue;
        };
        if let Some(id) = section_start(name, attributes) {
            section = id;
        }
        if section == "modules" && name == "a" && attributes.has_class("mod") {
            let folder = attributes.get("href").and_then(|href| href.strip_suffix("/index.html"));
            // Descriptions link to other modules, too.
            if let Some(folder) = folder.filter(|folder| is_name(folder))
                && !module.modules.iter().any(|known| known == folder)
            {
                module.modules.push(folder.to_owned());
            }
        }
        if section == "reexports" && name == "code" {
            let text = tokens.text(name, None)?.words();
            let source = text.strip_prefix("pub use ").and_then(|text| text.strip_suffix(';'));
            let source = source.ok_or_else(|| format!("`{text}` is no re-export"))?;
            let (source, name) = match source.split_once(" as ") {
                Some(renamed) => renamed,
                None => (source, source.rsplit("::").next().unwrap_or(source)),
            };
            let path = format!("{path}::{name}");
            module.reexports.push(Entry::new("use", &path, &format!(" [{source}]")));
        }
    }
    Ok(module)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(html: &str) -> String {
        format!("<html><body><main id=\"main-content\" class=\"content\">{html}</main></html>\n")
    }

    fn section(id: &str) -> String {
        format!("<h2 id=\"{id}\" class=\"section-header\">Title</h2>")
    }

    #[test]
    fn all_html_lists_pages() -> Result<(), Error> {
        let page = content(
            "<a href=\"help.html\">?</a><h3 id=\"structs\">Structs</h3><ul class=\"all-items\"><li>\
             <a href=\"struct.A.html\">A</a></li><li><a href=\"m/n/enum.B.html\">m::n::B</a></li></ul>",
        );
        let items = items(&page)?;
        let paths: Vec<_> = items.iter().map(|item| item.path("krate")).collect();
        assert_eq!(paths, ["krate::A", "krate::m::n::B"]);
        assert!(Item::at("new_kind.A.html").is_err());
        Ok(())
    }

    #[test]
    fn a_module_lists_modules_and_reexports() -> Result<(), Error> {
        let page = [
            section("reexports"),
            "<dl><dt id=\"reexport.A\"><code>pub use m::<a href=\"m/struct.A.html\">A</a>;</code></dt>\
             <dt><code>pub use other_sys as sys;</code></dt><dt><code>pub use n::*;</code></dt></dl>"
                .to_owned(),
            section("modules"),
            "<dl><dt><a class=\"mod\" href=\"m/index.html\">m</a></dt><dd>See \
             <a class=\"mod\" href=\"../x/index.html\">x</a>.</dd></dl>"
                .to_owned(),
            section("structs"),
            "<a class=\"mod\" href=\"n/index.html\">n</a>".to_owned(),
        ];
        let module = module("krate", &content(&page.concat()))?;
        assert_eq!(module.modules, ["m"]);
        let lines: Vec<_> = module.reexports.iter().map(|entry| &*entry.line).collect();
        assert_eq!(
            lines,
            ["use krate::A [m::A]", "use krate::sys [other_sys]", "use krate::* [n::*]"]
        );
        Ok(())
    }
}

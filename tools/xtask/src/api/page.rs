//! The entries on the page of an item: the item, its members, and the traits that it implements.

use std::collections::BTreeSet;

use xtask::Error;

use super::html::{Attributes, Text, Token, Tokens};

/// A line of the listing.
///
/// Entries are ordered as in the listing: an item, its implementations, its members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    path: Vec<String>,
    is_impl: bool,
    pub(super) line: String,
}

impl Entry {
    pub(super) fn new(kind: &str, path: &str, rest: &str) -> Self {
        Self {
            path: path.split("::").map(str::to_owned).collect(),
            is_impl: kind == "impl",
            line: format!("{kind} {path}{rest}"),
        }
    }
}

/// A page of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// The page's address below the crate's folder.
    pub(super) address: &'a str,
    kind: Kind,
    name: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Attribute,
    Constant,
    Derive,
    Enum,
    Function,
    Macro,
    Static,
    Struct,
    Trait,
    Type,
    Union,
}

impl Kind {
    /// Returns the kind of the items whose pages' names begin with `prefix`.
    fn of(prefix: &str) -> Option<Self> {
        Some(match prefix {
            "attr" => Self::Attribute,
            "constant" => Self::Constant,
            "derive" => Self::Derive,
            "enum" => Self::Enum,
            "fn" => Self::Function,
            "macro" => Self::Macro,
            "static" => Self::Static,
            "struct" => Self::Struct,
            "trait" => Self::Trait,
            "type" => Self::Type,
            "union" => Self::Union,
            _ => return None,
        })
    }

    /// Returns the keyword before the name in the declaration.
    fn keyword(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::Constant => "const",
            Self::Derive => "derive",
            Self::Enum => "enum",
            Self::Function => "fn",
            Self::Macro => "macro",
            Self::Static => "static",
            Self::Struct => "struct",
            Self::Trait => "trait",
            Self::Type => "type",
            Self::Union => "union",
        }
    }

    /// Whether the page also lists what the item consists of. The page of a type alias shows the
    /// members of the aliased type, which has its own page.
    fn has_members(self) -> bool {
        matches!(self, Self::Enum | Self::Struct | Self::Trait | Self::Union)
    }
}

impl<'a> Item<'a> {
    pub(super) fn at(address: &'a str) -> Result<Self, Error> {
        let file = address.rsplit('/').next().unwrap_or(address);
        let parts = file.strip_suffix(".html").and_then(|file| file.split_once('.'));
        parts
            .and_then(|(prefix, name)| Some(Self { address, kind: Kind::of(prefix)?, name }))
            .ok_or_else(|| format!("`{address}` is no page of a known kind of item").into())
    }

    /// Returns the item's path: crate, modules, name.
    pub(super) fn path(&self, krate: &str) -> String {
        let mut path = krate.to_owned();
        if let Some((modules, _)) = self.address.rsplit_once('/') {
            path.push_str("::");
            path.push_str(&modules.replace('/', "::"));
        }
        format!("{path}::{}", self.name)
    }
}

/// Returns the id of the section that the tag begins.
pub(super) fn section_start<'a>(name: &str, attributes: Attributes<'a>) -> Option<&'a str> {
    (name == "h2" && attributes.has_class("section-header")).then(|| attributes.get("id"))?
}

/// Where the members of an item's page come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// The item's declaration, its fields and variants, and its inherent implementations.
    Own,
    /// Methods of a trait that have a body.
    Provided,
    /// Implementations of traits, of which only the heads are listed.
    Implemented,
    /// The members that the item has from elsewhere.
    Foreign,
}

impl Section {
    fn of(id: &str) -> Self {
        match id {
            "provided-methods" => Self::Provided,
            "trait-implementations" | "foreign-impls" => Self::Implemented,
            "blanket-implementations" | "synthetic-implementations" => Self::Foreign,
            "implementors" | "synthetic-implementors" => Self::Foreign,
            id if id.starts_with("deref-methods-") => Self::Foreign,
            _ => Self::Own,
        }
    }
}

/// Returns the lines of an item: its own, and those of what it consists of.
///
/// Items from a source whose address contains `generated` are left out.
///
/// # Errors
/// The page is not as rustdoc writes it.
pub(super) fn entries(
    krate: &str,
    item: &Item<'_>,
    page: &str,
    generated: Option<&str>,
) -> Result<Vec<Entry>, Error> {
    let path = item.path(krate);
    let mut reader = Reader {
        tokens: Tokens::of_content(page)?,
        path: &path,
        entries: Vec::new(),
        block: String::new(),
        traits: BTreeSet::new(),
    };
    let is_generated = |source: &str| generated.is_some_and(|generated| source.contains(generated));
    let mut section = Section::Own;
    let mut source = "";
    let mut declared = false;
    // The id of the member, or of the implementation, whose head comes next.
    let mut member = "";
    let mut in_generated_item = false;
    while let Some(token) = reader.tokens.next() {
        let Token::Open { name, attributes } = token else {
            continue;
        };
        if let Some(id) = section_start(name, attributes) {
            section = Section::of(id);
        }
        if let Some(id) = attributes.get("id") {
            member = id;
        }
        if name == "a" && attributes.has_class("src") {
            source = attributes.get("href").unwrap_or_default();
        }
        if name == "pre" && attributes.has_class("item-decl") && !declared {
            declared = true;
            in_generated_item = is_generated(source);
            let text = reader.tokens.text(name, None)?;
            if !in_generated_item {
                reader.declaration(item, &text)?;
            }
            if !item.kind.has_members() {
                break;
            }
        } else if name == "code" && is_field(member) {
            let text = reader.tokens.text(name, None)?;
            if !in_generated_item {
                reader.field(member, &text)?;
            }
            member = "";
        } else if attributes.has_class("code-header") {
            let link = format!("#{member}");
            let text = reader.tokens.text(name, Some(&link))?;
            let is_variant = member.starts_with("variant.");
            let skipped = if is_variant { in_generated_item } else { is_generated(source) };
            if !skipped {
                reader.head(section, member, &text)?;
            }
            member = "";
        }
    }
    if declared { Ok(reader.finish()) } else { Err("the page has no declaration".into()) }
}

fn is_field(id: &str) -> bool {
    id.starts_with("structfield.") || (id.starts_with("variant.") && id.contains(".field."))
}

/// Returns the name in an id; rustdoc numbers ids that occur twice on a page.
fn without_number(name: &str) -> &str {
    name.split_once('-').map_or(name, |(name, _)| name)
}

/// Reads the members of one page.
struct Reader<'a> {
    tokens: Tokens<'a>,
    path: &'a str,
    entries: Vec<Entry>,
    /// The implementation in which the members are, if it has parameters.
    block: String,
    /// The traits whose implementations have no parameters.
    traits: BTreeSet<String>,
}

impl Reader<'_> {
    fn declaration(&mut self, item: &Item<'_>, text: &Text) -> Result<(), Error> {
        let mut mark = String::new();
        if text.attributes.iter().any(|attribute| attribute == "#[non_exhaustive]") {
            mark.push_str(" #[non_exhaustive]");
        }
        let keyword = item.kind.keyword();
        if matches!(item.kind, Kind::Attribute | Kind::Derive | Kind::Macro) {
            self.entries.push(Entry::new(keyword, self.path, &mark));
            return Ok(());
        }
        let words = text.words();
        let words = words.trim_end_matches(';');
        let start = format!("{keyword} {}", item.name);
        let (before, rest) = words
            .split_once(&start)
            .ok_or_else(|| format!("the declaration does not say `{start}`"))?;
        let (head, hidden) = match rest.split_once('{') {
            Some((head, body)) if item.kind.has_members() => {
                // In a trait's body, dots replace the body of a method.
                let hides = item.kind != Kind::Trait && body.contains("..");
                (head, if hides { " { .. }" } else { "" })
            }
            // Rustdoc shows the value of a constant that is computed in a comment.
            _ => (rest.split_once("; //").map_or(rest, |(value, _)| value), ""),
        };
        let head = head.trim_end_matches([' ', ',']);
        let kind = format!("{}{keyword}", without_visibility(before));
        self.entries.push(Entry::new(&kind, self.path, &format!("{head}{hidden}{mark}")));
        Ok(())
    }

    /// Notes the implementation of a trait.
    fn implemented(&mut self, head: &str) {
        // An unstable detail of `derive(PartialEq)`.
        if head.contains(" StructuralPartialEq for ") {
            return;
        }
        let name = self.path.rsplit("::").next().unwrap_or(self.path);
        let plain = head.strip_prefix("impl ").and_then(|head| head.split_once(" for "));
        match plain {
            Some((implemented, subject)) if subject == name => {
                self.traits.insert(implemented.to_owned());
            }
            _ => self.entries.push(Entry::new("impl", self.path, &format!(" [{head}]"))),
        }
    }

    fn finish(mut self) -> Vec<Entry> {
        if !self.traits.is_empty() {
            let traits = self.traits.into_iter().collect::<Vec<_>>().join(" + ");
            self.entries.push(Entry::new("impl", self.path, &format!(": {traits}")));
        }
        self.entries
    }

    /// Adds a field of a structure or of a variant.
    fn field(&mut self, id: &str, text: &Text) -> Result<(), Error> {
        let words = text.words();
        let (name, kind) =
            words.split_once(": ").ok_or_else(|| format!("the field `{words}` has no type"))?;
        let owner = match id.strip_prefix("variant.").and_then(|id| id.split_once(".field.")) {
            // The head of the variant shows the types of the fields that have no name.
            Some(_) if name.starts_with(|c: char| c.is_ascii_digit()) => return Ok(()),
            Some((variant, _)) => format!("{}::{variant}", self.path),
            None => self.path.to_owned(),
        };
        self.entries.push(Entry::new("field", &format!("{owner}::{name}"), &format!(": {kind}")));
        Ok(())
    }

    /// Adds the head of a member, or notes the head of the implementation in which members follow.
    fn head(&mut self, section: Section, id: &str, text: &Text) -> Result<(), Error> {
        if id.starts_with("impl-") {
            let words = text.words();
            match section {
                Section::Implemented => self.implemented(&words),
                _ => self.block = if words.contains('<') { words } else { String::new() },
            }
            return Ok(());
        }
        let Some((kind, name)) = id.split_once('.') else {
            return Ok(());
        };
        if !matches!(section, Section::Own | Section::Provided) {
            return Ok(());
        }
        let name = without_number(name);
        let path = format!("{}::{name}", self.path);
        if kind == "variant" {
            let words = text.words();
            let rest = words.strip_prefix(name);
            let rest = rest.ok_or_else(|| format!("the variant {name} is called `{words}`"))?;
            self.entries.push(Entry::new("variant", &path, rest));
        } else if matches!(kind, "method" | "tymethod" | "associatedconstant" | "associatedtype") {
            let (before, after) =
                text.around_link().ok_or_else(|| format!("the head of `{id}` has no link"))?;
            let rest =
                after.strip_prefix(name).ok_or_else(|| format!("`{id}` is called `{after}`"))?;
            let body = if section == Section::Provided { " { .. }" } else { "" };
            let block =
                if self.block.is_empty() { String::new() } else { format!(" [{}]", self.block) };
            let keyword = without_visibility(&before);
            self.entries.push(Entry::new(
                keyword.trim_end(),
                &path,
                &format!("{rest}{body}{block}"),
            ));
        }
        Ok(())
    }
}

fn without_visibility(text: &str) -> &str {
    text.trim_start().strip_prefix("pub ").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(html: &str) -> String {
        format!("<html><body><main id=\"main-content\" class=\"content\">{html}</main></html>\n")
    }

    /// Returns the lines that a page adds to the listing, in their order.
    fn lines(address: &str, html: &str) -> Result<Vec<String>, Error> {
        let found = entries("krate", &Item::at(address)?, &content(html), Some("/bindings/"));
        let mut found = found?;
        found.sort();
        Ok(found.into_iter().map(|entry| entry.line).collect())
    }

    fn declaration(source: &str, text: &str) -> String {
        format!(
            "<a class=\"src\" href=\"../src/krate/{source}\">Source</a>\
             <pre class=\"rust item-decl\"><code>{text}</code></pre>"
        )
    }

    fn section(id: &str) -> String {
        format!(
            "<h2 id=\"{id}\" class=\"section-header\">Title<a href=\"#{id}\" class=\"anchor\">§</a></h2>"
        )
    }

    fn block(id: &str, source: &str, head: &str) -> String {
        format!(
            "<section id=\"impl-{id}\" class=\"impl\"><a class=\"src rightside\" href=\"{source}\">Source\
             </a><a href=\"#impl-{id}\" class=\"anchor\">§</a><h3 class=\"code-header\">{head}</h3></section>"
        )
    }

    /// A member whose head is `before`, a link with the name, and `after`.
    fn member(id: &str, before: &str, after: &str) -> String {
        let name = id.split_once('.').map_or(id, |(_, name)| without_number(name));
        format!(
            "<section id=\"{id}\" class=\"method\"><a class=\"src rightside\" href=\"a.rs.html\">Source</a>\
             <h4 class=\"code-header\">{before} <a href=\"#{id}\" class=\"fn\">{name}</a>{after}</h4></section>"
        )
    }

    #[test]
    fn a_structure_lists_its_own_members_and_traits() -> Result<(), Error> {
        let page = [
            declaration(
                "a.rs.html",
                "<div class=\"code-attribute\">#[non_exhaustive]</div>pub struct A&lt;T&gt;<div \
                 class=\"where\">where\n    T: Copy,</div>{\n    pub x: u32,\n    <span \
                 class=\"comment\">/* private fields */</span>\n}",
            ),
            section("fields"),
            "<span id=\"structfield.x\" class=\"structfield section-header\"><a \
             href=\"#structfield.x\" class=\"anchor field\">§</a><code>x: <a href=\"u\">u32</a></code>\
             </span><div class=\"docblock\"><p>As <code>y: u8</code>.</p></div>"
                .to_owned(),
            section("implementations"),
            block("A", "a.rs.html", "impl A&lt;u8&gt;"),
            member("method.new", "pub const unsafe fn", "(\n    x: u32,\n) -&gt; Self"),
            block("A-1", "a.rs.html", "impl&lt;T: Copy&gt; A&lt;T&gt;"),
            member("method.new-1", "pub fn", "() -&gt; Self"),
            member("associatedconstant.MAX", "pub const", ": u32 = 5"),
            section("deref-methods-%5BT%5D"),
            member("method.len", "pub fn", "(&amp;self) -&gt; usize"),
            section("trait-implementations"),
            block("Debug-for-A", "a.rs.html", "impl Debug for A"),
            member("method.fmt", "fn", "(&amp;self)"),
            block("Clone-for-A", "a.rs.html", "impl Clone for A"),
            block("S-for-A", "a.rs.html", "impl StructuralPartialEq for A"),
            block("From", "a.rs.html", "impl&lt;T&gt; From&lt;A&lt;T&gt;&gt; for u8"),
            section("synthetic-implementations"),
            block("Send-for-A", "a.rs.html", "impl Send for A"),
            section("blanket-implementations"),
            block("Any-for-A", "a.rs.html", "impl Any for A"),
        ];
        assert_eq!(
            lines("m/struct.A.html", &page.concat())?,
            [
                "struct krate::m::A<T> where T: Copy { .. } #[non_exhaustive]",
                "impl krate::m::A [impl<T> From<A<T>> for u8]",
                "impl krate::m::A: Clone + Debug",
                "const krate::m::A::MAX: u32 = 5 [impl<T: Copy> A<T>]",
                "const unsafe fn krate::m::A::new(x: u32) -> Self [impl A<u8>]",
                "fn krate::m::A::new() -> Self [impl<T: Copy> A<T>]",
                "field krate::m::A::x: u32",
            ]
        );
        Ok(())
    }

    #[test]
    fn an_enum_lists_variants_with_their_fields() -> Result<(), Error> {
        let page = [
            declaration("a.rs.html", "pub enum E {\n    A(u8),\n    B {\n        x: u8,\n    },\n}"),
            section("variants"),
            "<section id=\"variant.A\" class=\"variant\"><a href=\"#variant.A\" class=\"anchor\">§</a><h3 \
             class=\"code-header\">A(<a href=\"u\">u8</a>)</h3></section><span id=\"variant.A.field.0\">\
             <code>0: u8</code></span><section id=\"variant.B\" class=\"variant\"><h3 \
             class=\"code-header\">B</h3></section><span id=\"variant.B.field.x\"><code>x: u8</code></span>"
                .to_owned(),
        ];
        let wanted = [
            "enum krate::E",
            "variant krate::E::A(u8)",
            "variant krate::E::B",
            "field krate::E::B::x: u8",
        ];
        assert_eq!(lines("enum.E.html", &page.concat())?, wanted);
        Ok(())
    }

    #[test]
    fn a_trait_tells_required_from_provided() -> Result<(), Error> {
        let page = [
            declaration(
                "a.rs.html",
                "pub unsafe trait T: Copy {\n    type X: Copy;\n    fn g(&amp;self) { ... }\n}",
            ),
            section("required-associated-types"),
            member("associatedtype.X", "type", ": Copy"),
            section("required-methods"),
            member("tymethod.f", "fn", "(&amp;self)"),
            section("provided-methods"),
            member("method.g", "fn", "(&amp;self)"),
            section("foreign-impls"),
            block("T-for-f32", "a.rs.html", "impl T for f32"),
            member("associatedtype.X-1", "type", " = u8"),
            section("implementors"),
            block("T-for-A", "a.rs.html", "impl T for A"),
        ];
        assert_eq!(
            lines("trait.T.html", &page.concat())?,
            [
                "unsafe trait krate::T: Copy",
                "impl krate::T [impl T for f32]",
                "type krate::T::X: Copy",
                "fn krate::T::f(&self)",
                "fn krate::T::g(&self) { .. }",
            ]
        );
        Ok(())
    }

    #[test]
    fn one_line_is_enough_for_other_items() -> Result<(), Error> {
        for (address, text, wanted) in [
            ("fn.f.html", "pub unsafe fn f(\n    x: u8,\n)", "unsafe fn krate::f(x: u8)"),
            ("constant.C.html", "pub const C: u8 = _; // 0x1", "const krate::C: u8 = _"),
            (
                "type.R.html",
                "pub type R&lt;T&gt; = Result&lt;T, E&gt;;",
                "type krate::R<T> = Result<T, E>",
            ),
            ("macro.m.html", "macro_rules! m {\n    () =&gt; { ... };\n}", "macro krate::m"),
            (
                "struct.W.html",
                "pub struct W(pub u8, <span class=\"comment\">/* private fields */</span>);",
                "struct krate::W(pub u8, ..)",
            ),
        ] {
            // The page of an alias shows the members of the aliased type.
            let members = section("aliased-type") + &member("method.f", "pub fn", "()");
            let members = if address.starts_with("type") { members } else { String::new() };
            let page = declaration("a.rs.html", text) + &members;
            assert_eq!(lines(address, &page)?, [wanted]);
        }
        Ok(())
    }

    #[test]
    fn of_generated_sources_only_what_is_added_by_hand_is_listed() -> Result<(), Error> {
        let page = [
            declaration("bindings/driver.rs.html", "pub enum E {\n    A,\n}"),
            section("variants"),
            "<section id=\"variant.A\"><h3 class=\"code-header\">A</h3></section>".to_owned(),
            section("implementations"),
            block("E", "../src/krate/codes.rs.html", "impl E"),
            member("method.text", "pub fn", "(self)"),
            section("trait-implementations"),
            block("Clone-for-E", "../src/krate/bindings/driver.rs.html", "impl Clone for E"),
            block("Display-for-E", "../src/krate/codes.rs.html", "impl Display for E"),
        ];
        assert_eq!(
            lines("enum.E.html", &page.concat())?,
            ["impl krate::E: Display", "fn krate::E::text(self)"]
        );
        Ok(())
    }

    #[test]
    fn pages_of_another_form_are_errors() {
        assert!(lines("struct.A.html", "<p>no declaration</p>").is_err());
        assert!(lines("struct.A.html", &declaration("a.rs.html", "pub struct B;")).is_err());
        let unnamed =
            "<section id=\"method.f\"><h4 class=\"code-header\">pub fn f()</h4></section>";
        let page = declaration("a.rs.html", "pub struct A;") + unnamed;
        assert!(lines("struct.A.html", &page).is_err());
    }
}

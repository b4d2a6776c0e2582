//! The little HTML that rustdoc writes: tags, their attributes, and the text of an element.

use xtask::Error;

/// A part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Open { name: &'a str, attributes: Attributes<'a> },
    Close(&'a str),
    Text(&'a str),
}

/// The part of a tag after its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes<'a>(&'a str);

impl<'a> Attributes<'a> {
    /// Returns the value of an attribute that is written with quotation marks, still escaped.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        self.0.match_indices(name).find_map(|(at, _)| {
            let before = self.0[..at].chars().next_back();
            let value = self.0[at + name.len()..].strip_prefix("=\"")?;
            let (value, _) = value.split_once('"')?;
            before.is_none_or(|c| c.is_whitespace() || c == '"').then_some(value)
        })
    }

    pub(super) fn has_class(self, class: &str) -> bool {
        self.get("class").is_some_and(|classes| classes.split_whitespace().any(|one| one == class))
    }
}

/// Reads a page token by token.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// Starts at the content of a rustdoc page, behind its head and its sidebar.
    ///
    /// # Errors
    /// The page has no content or its end is missing.
    pub(super) fn of_content(page: &'a str) -> Result<Self, Error> {
        if !page.trim_end().ends_with("</html>") {
            return Err("the page is truncated".into());
        }
        match page.split_once("id=\"main-content\"").and_then(|(_, rest)| rest.split_once('>')) {
            Some((_, rest)) => Ok(Self { rest }),
            None => Err("the page has no element `main-content`".into()),
        }
    }

    /// Reads to the end of the element `name`, whose opening tag was the last token, and returns
    /// its text.
    ///
    /// # Errors
    /// The element does not end.
    pub(super) fn text(&mut self, name: &str, link: Option<&str>) -> Result<Text, Error> {
        let mut text = Text::default();
        let mut depth = 1_usize;
        while let Some(token) = self.next() {
            match token {
                Token::Text(part) => text.raw.push_str(part),
                Token::Close(closed) => {
                    depth -= usize::from(closed == name);
                    if depth == 0 {
                        return Ok(text);
                    }
                    // `where` clauses are blocks of their own.
                    if closed == "div" {
                        text.raw.push(' ');
                    }
                }
                Token::Open { name: opened, attributes } => {
                    let has = |class| attributes.has_class(class);
                    if has("code-attribute") {
                        text.attributes.push(self.text(opened, None)?.words());
                    } else if has("comment") {
                        if self.text(opened, None)?.raw.contains("private fields") {
                            text.raw.push_str("..");
                        }
                    } else if opened == "a" && (has("anchor") || has("src") || has("tooltip")) {
                        self.text(opened, None)?;
                    } else {
                        if link.is_some() && attributes.get("href") == link {
                            text.raw.push(MARK);
                        }
                        if matches!(opened, "br" | "div") {
                            text.raw.push(' ');
                        }
                        depth += usize::from(opened == name);
                    }
                }
            }
        }
        Err(format!("an element `{name}` does not end").into())
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(tag) = self.rest.strip_prefix('<') else {
            let end = self.rest.find('<').unwrap_or(self.rest.len());
            let (text, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(Token::Text(text));
        };
        let mut quoted = false;
        let end = tag.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        })?;
        let inside = &tag[..end];
        self.rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            return Some(Token::Close(name.trim()));
        }
        let (name, attributes) =
            inside.split_at(inside.find(char::is_whitespace).unwrap_or(inside.len()));
        Some(Token::Open { name, attributes: Attributes(attributes) })
    }
}

/// Stands before the text of the link that [`Tokens::text`] looks for.
const MARK: char = '\u{1}';

/// The text of an element, without the links to the source, and with `..` for the comment in place of private fields.
#[derive(Debug, Default)]
pub(super) struct Text {
    raw: String,
    /// The Rust attributes shown in it, such as `#[non_exhaustive]`.
    pub(super) attributes: Vec<String>,
}

impl Text {
    /// Returns the text in one line, formatted independently of where rustdoc broke it.
    pub(super) fn words(&self) -> String {
        normal(&self.raw.replace(MARK, ""))
    }

    /// Returns the parts before and from the link that [`Tokens::text`] looked for, in one line.
    pub(super) fn around_link(&self) -> Option<(String, String)> {
        let (before, after) = self.raw.split_once(MARK)?;
        Some((normal(before), normal(after)))
    }
}

/// Unescapes `raw` and removes the line breaks and the commas that rustdoc adds with them.
fn normal(raw: &str) -> String {
    let text = unescape(raw);
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (broken, whole) in [(", )", ")"), (", >", ">"), ("( ", "("), ("< ", "<"), (" )", ")")] {
        line = line.replace(broken, whole);
    }
    line.trim_end_matches([',', ' ']).to_owned()
}

/// Replaces the character references that rustdoc writes; any other stays as it is.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').map_or(1, |end| end + 1);
        match &rest[..end] {
            "&lt;" => out.push('<'),
            "&gt;" => out.push('>'),
            "&amp;" => out.push('&'),
            "&quot;" | "&#34;" => out.push('"'),
            "&#39;" | "&#x27;" | "&apos;" => out.push('\''),
            "&nbsp;" | "&#160;" => out.push(' '),
            _ => {
                out.push('&');
                rest = &rest[1..];
                continue;
            }
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str, link: Option<&str>) -> Result<Text, Error> {
        let page = format!("<body><main id=\"main-content\" class=\"c\">{html}</main></html>\n");
        let mut tokens = Tokens::of_content(&page)?;
        match tokens.next() {
            Some(Token::Open { name, .. }) => tokens.text(name, link),
            other => Err(format!("{other:?} is no tag").into()),
        }
    }

    #[test]
    fn tags_attributes_and_text_are_told_apart() -> Result<(), Error> {
        let html = r#"<a data-href="x" href="y" title="a > b" class="src rightside">t</a>"#;
        let mut tokens = Tokens { rest: html };
        let Some(Token::Open { name: "a", attributes }) = tokens.next() else {
            return Err("no tag `a`".into());
        };
        assert_eq!(attributes.get("href"), Some("y"));
        assert_eq!(attributes.get("title"), Some("a > b"));
        assert_eq!(attributes.get("id"), None);
        assert!(attributes.has_class("rightside") && !attributes.has_class("right"));
        assert_eq!(tokens.collect::<Vec<_>>(), [Token::Text("t"), Token::Close("a")]);
        Ok(())
    }

    #[test]
    fn line_breaks_and_links_leave_no_trace() -> Result<(), Error> {
        let html = "<h4>pub&nbsp;fn <a href=\"#method.f\">f</a>&lt;T&gt;(\n    a: <a href=\"x\">&amp;T</a>,\n    \
                    b: (u8,),\n) -&gt; &amp;'static <a href=\"y\">str</a><a class=\"tooltip\">i</a><div class=\"where\">where\n    \
                    T: Copy,</div></h4>";
        let text = text(html, Some("#method.f"))?;
        let signature = "f<T>(a: &T, b: (u8,)) -> &'static str where T: Copy";
        assert_eq!(text.words(), format!("pub fn {signature}"));
        assert_eq!(text.around_link(), Some(("pub fn".to_owned(), signature.to_owned())));
        Ok(())
    }

    #[test]
    fn attributes_and_comments_are_kept_apart() -> Result<(), Error> {
        let html = "<pre><code><div class=\"code-attribute\">#[non_exhaustive]</div>pub struct S \
                    { <span class=\"comment\">/* private fields */</span> }</code></pre>";
        let text = text(html, None)?;
        assert_eq!(text.words(), "pub struct S { .. }");
        assert_eq!(text.attributes, ["#[non_exhaustive]"]);
        Ok(())
    }

    #[test]
    fn unknown_references_stay() {
        assert_eq!(unescape("a &amp;&amp; b &copy; c & d &#39;e"), "a && b &copy; c & d 'e");
    }

    #[test]
    fn a_truncated_page_is_refused() {
        assert!(Tokens::of_content("<main id=\"main-content\">text").is_err());
        assert!(Tokens::of_content("<main>text</html>").is_err());
        assert!(text("<h4>no end", None).is_err());
    }
}

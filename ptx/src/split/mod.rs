//! Splits a PTX text into one text for each kernel.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use crate::Error;
use crate::lex::{Kind, Lexer};

/// A PTX text, split at its kernels.
///
/// [`text_of`](Self::text_of) returns a text with one kernel and what it refers to: functions, variables and, where a
/// kernel launches another one, that kernel. The parts can be compiled independently. A variable that several kernels
/// refer to is in the part of each, so parts that are loaded side by side have separate copies of it;
/// [`variables`](crate::variables) finds out whether a kernel writes one.
///
/// # Examples
/// ```
/// let text = ".version 8.0\n.target sm_75\n.address_size 64\n\
///     .global .u32 table[2] = {3, 4};\n\
///     .visible .entry a() { .reg .u32 %r<2>; ld.global.u32 %r1, [table]; ret; }\n\
///     .visible .entry b() { ret; }";
/// let parts = ptx::Parts::new(text.to_owned())?;
/// assert_eq!(parts.kernels().collect::<Vec<_>>(), ["a", "b"]);
/// let b = parts.text_of("b")?.unwrap();
/// assert!(b.contains(".entry b") && !b.contains(".entry a") && !b.contains("table"));
/// assert!(parts.text_of("a")?.unwrap().contains("table[2]"));
/// # Ok::<(), ptx::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Parts {
    text: String,
    /// Where the first item begins. The directives before it, such as `.target`, are in every part.
    head: usize,
    /// Where each declaration or definition outside of functions is.
    items: Vec<Range<usize>>,
    /// The items that each part has: those without a name, as `.file` or `.section`.
    always: Vec<usize>,
    named: HashMap<Box<str>, Named>,
    /// The kernels' names, in the order of the text.
    kernels: Vec<Box<str>>,
}

/// The items that declare or define a name.
#[derive(Debug, Clone, Default)]
struct Named {
    items: Vec<usize>,
    is_kernel: bool,
}

/// The kind of an item.
enum What {
    Kernel,
    Function,
    Variable,
    Other,
}

impl Parts {
    /// Splits a text. Only its outline is read: names, and where functions and variables end.
    ///
    /// # Errors
    /// A comment, string or block without its end, or a declaration without a name.
    pub fn new(text: String) -> Result<Self, Error> {
        let mut outline = Outline::default();
        outline.read(&text)?;
        let Outline { head, items, always, named, kernels } = outline;
        Ok(Self { head: head.unwrap_or(text.len()), items, always, named, kernels, text })
    }

    /// Returns the names of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|name| &**name)
    }

    /// Returns a text with this kernel and everything that it refers to; `None` if there is no such kernel.
    ///
    /// # Errors
    /// A byte in these items that PTX does not use.
    pub fn text_of(&self, kernel: &str) -> Result<Option<String>, Error> {
        let Some(first) = self.named.get(kernel).filter(|named| named.is_kernel) else {
            return Ok(None);
        };
        let mut wanted: BTreeSet<usize> = BTreeSet::new();
        // Each name opens its items once, however many of them name it.
        let mut names: HashSet<&str> = HashSet::from([kernel]);
        let mut open: Vec<usize> = self.always.iter().chain(&first.items).copied().collect();
        while let Some(index) = open.pop() {
            if !wanted.insert(index) {
                continue;
            }
            let mut lexer = Lexer::new(self.item(index));
            loop {
                let token = lexer.next()?;
                match token.kind {
                    Kind::End => break,
                    Kind::Word => {
                        let word = lexer.text().get(token.start..token.end).unwrap_or_default();
                        if let Some(named) = self.named.get(word).filter(|_| names.insert(word)) {
                            open.extend(&named.items);
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut part = self.text.get(..self.head).unwrap_or_default().to_owned();
        for index in wanted {
            part.push_str(self.item(index));
            part.push('\n');
        }
        Ok(Some(part))
    }

    fn item(&self, index: usize) -> &str {
        let range = self.items.get(index).cloned().unwrap_or_default();
        self.text.get(range).unwrap_or_default()
    }
}

/// The items found while a text is read.
#[derive(Default)]
struct Outline {
    head: Option<usize>,
    items: Vec<Range<usize>>,
    always: Vec<usize>,
    named: HashMap<Box<str>, Named>,
    kernels: Vec<Box<str>>,
}

impl Outline {
    fn read(&mut self, text: &str) -> Result<(), Error> {
        let mut lexer = Lexer::new(text);
        loop {
            let token = lexer.next()?;
            match token.kind {
                Kind::End => return Ok(()),
                Kind::Dotted if begins_item(&text[token.start..token.end]) => {
                    self.head.get_or_insert(token.start);
                    self.item(text, &mut lexer, token.start, &text[token.start..token.end])?;
                }
                // The operands of `.version`, `.target` and `.address_size`, or of `.file` after its item.
                _ => {}
            }
        }
    }

    /// Reads the item whose first directive has been read.
    fn item(
        &mut self,
        text: &str,
        lexer: &mut Lexer<'_>,
        start: usize,
        first: &str,
    ) -> Result<(), Error> {
        let index = self.items.len();
        let mut what = kind_of(first).unwrap_or(What::Other);
        // The last word at depth 0. A variable's name is that before its size, value or end.
        let mut word = None;
        let mut named = false;
        let mut depth = 0_usize;
        let end = loop {
            // `.file 1 "name"` ends where its line ends.
            if first == ".file" {
                let rest = &text[start..];
                break start + rest.find('\n').unwrap_or(rest.len());
            }
            let before = *lexer;
            let token = lexer.next()?;
            let found = &text[token.start..token.end];
            let declares = depth == 0 && named && matches!(what, What::Kernel | What::Function);
            match token.kind {
                // A declaration without a semicolon. Pragmas can belong to it.
                Kind::End if declares && matches!(what, What::Function) => break token.start,
                Kind::Dotted if declares && found != ".pragma" && begins_item(found) => {
                    *lexer = before;
                    break token.start;
                }
                Kind::End => {
                    return Err(Error::at(text.as_bytes(), start, "a declaration without its end"));
                }
                Kind::Dotted if depth == 0 => what = kind_of(found).unwrap_or(what),
                Kind::Word if depth == 0 => {
                    word = Some(found);
                    if matches!(what, What::Kernel | What::Function) && !named {
                        named = true;
                        self.name(found, index, matches!(what, What::Kernel));
                    }
                }
                Kind::Punct(b'[' | b'=' | b',' | b';') if depth == 0 => {
                    if let (What::Variable, Some(name)) = (&what, word.take()) {
                        named = true;
                        self.name(name, index, false);
                    }
                    match found {
                        ";" => break token.end,
                        "[" => depth += 1,
                        _ => {}
                    }
                }
                Kind::Punct(b'(' | b'[' | b'{') => depth += 1,
                Kind::Punct(b'}') if depth == 1 && !matches!(what, What::Variable) => {
                    break token.end;
                }
                Kind::Punct(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        };
        if !named && !matches!(what, What::Other) {
            return Err(Error::at(text.as_bytes(), start, "a declaration without a name"));
        }
        if !named {
            self.always.push(index);
        }
        self.items.push(start..end);
        Ok(())
    }

    fn name(&mut self, name: &str, index: usize, kernel: bool) {
        let named = self.named.entry(name.into()).or_default();
        // A kernel may be declared before it is defined.
        if kernel && named.items.is_empty() {
            named.is_kernel = true;
            self.kernels.push(name.into());
        }
        named.items.push(index);
    }
}

/// Whether a directive outside of functions begins an item.
fn begins_item(directive: &str) -> bool {
    kind_of(directive).is_some()
        || matches!(
            directive,
            ".visible"
                | ".extern"
                | ".weak"
                | ".common"
                | ".reg"
                | ".file"
                | ".section"
                | ".pragma"
                | ".alias"
        )
}

/// The kind of item that a directive begins, if it begins one.
fn kind_of(directive: &str) -> Option<What> {
    match directive {
        ".entry" => Some(What::Kernel),
        ".func" => Some(What::Function),
        ".global" | ".const" | ".shared" | ".local" | ".tex" => Some(What::Variable),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

//! Finds the files and macros that a source text refers to, without a preprocessor.
//!
//! The scan errs on one side only: it may report an `#include` that a conditional or a string hides,
//! never the reverse. It reports an include that it cannot name (`#include MACRO`) as an obstacle.

use std::borrow::Cow;

/// The outside references of one text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The operands of `#include` and `__has_include`.
    pub(crate) names: Vec<Name>,
    /// The first thing that makes the list incomplete.
    pub(crate) obstacle: Option<Obstacle>,
}

/// The operand of an `#include`, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    /// Whether the quotes are `"`, so that the folder of the including file is searched first.
    pub(crate) quoted: bool,
}

/// Why a text's meaning cannot be known from the files that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The text of an `#include` or `__has_include` whose operand a macro supplies.
    Computed(String),
    /// A macro that expands to the time.
    Time(&'static str),
}

const DIRECTIVES: [&[u8]; 4] = [b"include_next", b"include", b"import", b"embed"];
const TIMES: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];

/// The longest operand, and how far a line is read to say what it is. A name that is longer counts as one that cannot
/// be named.
const LONGEST: usize = 8192;

/// The end of the comment that begins at or after a position; `None` if it has no end. So a text is searched once,
/// however many comments begin in it.
#[derive(Default)]
struct CommentEnds {
    known: Option<(usize, Option<usize>)>,
}

impl CommentEnds {
    /// Returns the position after the first `*/` from `at` on.
    fn after(&mut self, text: &[u8], at: usize) -> Option<usize> {
        if let Some((from, end)) = self.known
            && from <= at
            && end.is_none_or(|end| at + 2 <= end)
        {
            return end;
        }
        let rest = text.get(at..).unwrap_or_default();
        let end = rest.windows(2).position(|two| two == b"*/").map(|end| at + end + 2);
        self.known = Some((at, end));
        end
    }
}

pub(crate) fn scan(text: &[u8]) -> Scan {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = &*spliced(text);
    let mut found = Scan::default();
    let ends = &mut CommentEnds::default();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        let mark = match byte {
            b'#' => 1,
            b'%' if rest.starts_with(b"%:") => 2,
            b'?' if rest.starts_with(b"??=") => 3,
            b'_' if rest.starts_with(b"__") => {
                at += identifier(text, at, ends, &mut found);
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        if begins_line(text, at) {
            directive(text, at + mark, ends, &mut found);
        }
        at += mark;
    }
    found
}

/// Returns the text without the line breaks that a backslash takes away.
fn spliced(text: &[u8]) -> Cow<'_, [u8]> {
    /// Returns the length of a break at the beginning of `rest`, blanks before the line's end included.
    fn splice(rest: &[u8]) -> Option<usize> {
        let tail = match rest {
            [b'\\', tail @ ..] | [b'?', b'?', b'/', tail @ ..] => tail,
            _ => return None,
        };
        let blanks = tail.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
        (tail.get(blanks) == Some(&b'\n')).then(|| rest.len() - tail.len() + blanks + 1)
    }
    let mut joined = Vec::new();
    let (mut kept, mut at) = (0, 0);
    while at < text.len() {
        match splice(&text[at..]) {
            Some(length) => {
                joined.extend(&text[kept..at]);
                at += length;
                kept = at;
            }
            None => at += 1,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    joined.extend(&text[kept..]);
    Cow::Owned(joined)
}

/// Returns whether only blanks, or something that may be a comment's end, stand before `at` on its line.
fn begins_line(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rposition(|b| !matches!(b, b' ' | b'\t' | b'\r' | 0x0b | 0x0c));
    match before.map(|last| &text[..=last]) {
        None => true,
        Some(head) => head.ends_with(b"\n") || head.ends_with(b"*/"),
    }
}

/// Returns the place of the first byte from `at` on that is neither a blank nor in a comment.
fn skip_blanks(text: &[u8], mut at: usize, ends: &mut CommentEnds) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with(b"/*") {
            at = ends.after(text, at + 2).unwrap_or(text.len());
        } else if matches!(rest.first(), Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c)) {
            at += 1;
        } else {
            return at;
        }
    }
}

/// `<name>` or `"name"` at `at`.
fn operand(text: &[u8], at: usize) -> Option<&[u8]> {
    let rest = text.get(at..)?;
    let close = match rest.first()? {
        b'<' => b'>',
        b'"' => b'"',
        _ => return None,
    };
    let end = rest[1..].iter().take(LONGEST).position(|b| *b == close || *b == b'\n')?;
    (rest[1 + end] == close).then(|| &rest[1..=end])
}

fn line(text: &[u8], at: usize) -> Cow<'_, str> {
    let from = at.saturating_sub(LONGEST);
    let start = text[from..at].iter().rposition(|&b| b == b'\n').map_or(from, |i| from + i + 1);
    let rest = &text[start..text.len().min(start + 120)];
    let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end])
}

fn obstruct(found: &mut Scan, obstacle: impl FnOnce() -> Obstacle) {
    if found.obstacle.is_none() {
        found.obstacle = Some(obstacle());
    }
}

fn name(text: &[u8], at: usize, found: &mut Scan) {
    match operand(text, at).map(std::str::from_utf8) {
        Some(Ok(name)) => {
            let quoted = text.get(at) == Some(&b'"');
            found.names.push(Name { text: name.to_owned(), quoted });
        }
        _ => {
            obstruct(found, || {
                Obstacle::Computed(line(text, at.min(text.len())).trim().to_owned())
            });
        }
    }
}

/// Scans a directive after the `#`.
fn directive(text: &[u8], at: usize, ends: &mut CommentEnds, found: &mut Scan) {
    let at = skip_blanks(text, at, ends);
    let rest = text.get(at..).unwrap_or_default();
    let Some(word) = DIRECTIVES.iter().find(|word| rest.starts_with(word)) else {
        return;
    };
    let at = at + word.len();
    if text.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return;
    }
    name(text, skip_blanks(text, at, ends), found);
}

/// Scans an identifier at two underscores, which may ask for a file or the time. Returns how far to go on.
fn identifier(text: &[u8], at: usize, ends: &mut CommentEnds, found: &mut Scan) -> usize {
    let part_of_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let length = text[at..].iter().take_while(|b| part_of_word(b)).count();
    if at > 0 && part_of_word(&text[at - 1]) {
        return length;
    }
    let word = &text[at..at + length];
    if let Some(time) = TIMES.iter().find(|t| t.as_bytes() == word) {
        obstruct(found, || Obstacle::Time(time));
    } else if [b"__has_include".as_slice(), b"__has_include_next", b"__has_embed"].contains(&word) {
        let next = skip_blanks(text, at + length, ends);
        if text.get(next) == Some(&b'(') {
            name(text, skip_blanks(text, next + 1, ends), found);
        } else if line(text, at).contains("define") && !line(text, at).contains("defined") {
            // A macro may stand for `__has_include`.
            obstruct(found, || Obstacle::Computed(line(text, at).trim().to_owned()));
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_of_an_include_is_found() {
        let text = b"\xef\xbb\xbf#include <a>\n  # include \"b.h\" // x\n%:include <c>\n??=include <d>\n#inc\\\nlude \"e\"\n\
            #/**/include/*x*/\"f\"\n/* c */ #include <g>\n/*\n*/#include <h>\n#include_next <i>\r\n#if 0\n#include <j>\n\
            #endif\n#if __has_include(<k>) && __has_include ( \"l\" )\n#inc??/\nlude <m>\n#\\  \n  include <n>";
        let scan = scan(text);
        let texts: Vec<_> = scan.names.iter().map(|name| &*name.text).collect();
        assert_eq!(texts.concat(), "ab.hcdefghijklmn");
        let quoted: Vec<_> = scan.names.iter().filter(|n| n.quoted).map(|n| &*n.text).collect();
        assert_eq!(quoted.concat(), "b.hefl");
        assert_eq!(scan.obstacle, None);
    }

    #[test]
    fn long_texts_are_read_once() {
        for (pieces, end) in [
            ("#/*\n", ""),
            ("#/*\n", "*/"),
            ("#/**/", ""),
            ("__has_include/*", ""),
            ("__has_include (<", ""),
            ("__has_include ", ""),
            ("#include <a>", ""),
            ("\\\n", ""),
            ("??/ ", ""),
            ("# ", ""),
            ("\\ ", ""),
        ] {
            let text = format!("{}{end}", pieces.repeat(2_000_000 / pieces.len()));
            let begin = std::time::Instant::now();
            drop(scan(text.as_bytes()));
            // Each piece must not read the rest of the text: that would take minutes.
            assert!(begin.elapsed().as_secs() < 20, "{pieces:?}: {:?}", begin.elapsed());
        }
    }

    #[test]
    fn prose_is_not_a_directive() {
        let text = b"// see #include order\n/* an #include MACRO */ int x; // __DATE__X\n#includes\n#define S #include Y\n\
            #ifdef __has_include\n#if defined(__has_include)\nint a__DATE__;";
        assert_eq!(scan(text), Scan::default());
    }

    #[test]
    fn what_cannot_be_named_is_an_obstacle() {
        let computed = |text: &str| match scan(text.as_bytes()).obstacle {
            Some(Obstacle::Computed(line)) => line,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(computed("int a;\n #include MACRO(x)\n"), "#include MACRO(x)");
        assert_eq!(computed("#include <unclosed\n"), "#include <unclosed");
        assert_eq!(computed("#include"), "#include");
        assert_eq!(computed("#define HAS(x) __has_include(x)"), "#define HAS(x) __has_include(x)");
        assert_eq!(computed("#define HAS __has_include\n"), "#define HAS __has_include");
        assert_eq!(scan(b"int t = __TIME__[0];").obstacle, Some(Obstacle::Time("__TIME__")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = scan(&bytes);
        }

        #[test]
        fn any_mix_of_its_own_tokens_is_answered_without_a_panic(
            picks in proptest::collection::vec(0_usize..18, 0..40)
        ) {
            let tokens = [
                "#", "include", " ", "<a>", "\"b\"", "\"", "<", "/*", "*/", "\\\n", "\n", "__has_include", "(", ")",
                "__", "??/", "%:", "??=",
            ];
            let text: String = picks.iter().map(|&i| tokens[i]).collect();
            let _ = scan(text.as_bytes());
        }
    }
}

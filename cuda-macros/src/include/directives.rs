//! Finds the quoted includes, and questions for quoted files, of a CUDA C++ text that the device's compiler may reach.
//!
//! Conditions are evaluated as far as they are about NVRTC's own macros; what other macros decide may be either.

/// An include whose file the text decides: by a quoted name, or by a macro.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Include<'t> {
    /// The name, without its quotes: a part of the text. `None` if a macro supplies it.
    pub(super) name: Option<&'t str>,
    /// Where the name begins, in bytes.
    pub(super) at: usize,
    /// The line, from 1.
    pub(super) line: usize,
    /// Whether the compiler reaches it whatever macros the program defines.
    pub(super) certain: bool,
    /// Whether it is `__has_include`.
    pub(super) asks: bool,
}

/// Whether a part of the text is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Live {
    No,
    Maybe,
    Yes,
}

impl Live {
    fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }
}

/// An open `#if`.
struct Branch {
    /// Whether the text around it is compiled.
    outer: Live,
    /// Whether an earlier branch was taken.
    taken: Live,
    /// Whether the current branch is compiled.
    live: Live,
}

impl Branch {
    fn next(&mut self, condition: Live) {
        self.live = self.outer.min(self.taken.not()).min(condition);
        self.taken = self.taken.max(condition);
    }
}

/// Macros that NVRTC defines in every program.
const DEFINED: [&str; 4] = ["__CUDACC_RTC__", "__CUDACC__", "__CUDA_ARCH__", "__cplusplus"];

/// Returns the quoted includes, in order.
pub(super) fn includes(text: &str) -> Vec<Include<'_>> {
    let mut found = Vec::new();
    let mut open: Vec<Branch> = Vec::new();
    // The macro of an `#ifndef` that may be an include guard: its `#define` must come next.
    let mut guard: Option<&str> = None;
    for Directive { at, line, text: body } in directives(text) {
        let (word, rest) = split_word(body);
        let rest_at = at + (body.len() - rest.len());
        let possible_guard = guard.take();
        let live = open.last().map_or(Live::Yes, |branch| branch.live);
        // An `#elif` is read where the branch before it was not taken.
        let around = match word {
            "elif" => open.last().map_or(Live::Yes, |branch| branch.outer),
            _ => live,
        };
        if matches!(word, "if" | "elif") && around != Live::No {
            found.extend(questions(rest, rest_at, line));
        }
        match word {
            "if" | "ifdef" | "ifndef" => {
                let condition = match word {
                    "if" => condition(rest),
                    "ifdef" => defined(split_word(rest).0),
                    _ => defined(split_word(rest).0).not(),
                };
                if word == "ifndef" && condition == Live::Maybe {
                    guard = Some(split_word(rest).0);
                }
                let mut branch = Branch { outer: live, taken: Live::No, live };
                branch.next(condition);
                open.push(branch);
            }
            "define" if possible_guard.is_some_and(|name| split_word(rest).0 == name) => {
                // The first time, which is the one that counts, the guarded text is compiled.
                if let Some(branch) = open.last_mut() {
                    branch.live = branch.outer;
                }
            }
            "elif" => {
                if let Some(branch) = open.last_mut() {
                    branch.next(condition(rest));
                }
            }
            "else" => {
                if let Some(branch) = open.last_mut() {
                    branch.next(Live::Yes);
                }
            }
            "endif" => _ = open.pop(),
            "include" | "import" if live != Live::No => {
                let certain = live == Live::Yes;
                let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
                if let Some((name, _)) = quoted {
                    let (name, at) = (Some(name), rest_at + 1);
                    found.push(Include { name, at, line, certain, asks: false });
                } else if !rest.starts_with('<') {
                    found.push(Include { name: None, at: rest_at, line, certain, asks: false });
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the quoted names that a condition asks for, as `__has_include("a.h")`. A condition may skip any of them.
fn questions(text: &str, at: usize, line: usize) -> Vec<Include<'_>> {
    const ASKS: &str = "__has_include";
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(step) = text.get(from..).and_then(|rest| rest.find(ASKS)) {
        from += step + ASKS.len();
        let rest = text.get(from..).unwrap_or_default();
        let Some(operand) = skip_blanks(rest).strip_prefix('(') else { continue };
        let Some(quoted) = skip_blanks(operand).strip_prefix('"') else { continue };
        if let Some((name, _)) = quoted.split_once('"') {
            let at = at + (text.len() - quoted.len());
            found.push(Include { name: Some(name), at, line, certain: false, asks: true });
        }
    }
    found
}

fn defined(name: &str) -> Live {
    if DEFINED.contains(&name) { Live::Yes } else { Live::Maybe }
}

/// Evaluates `0`, `1`, `defined(NAME)`, `defined NAME`, and these with `!` before them.
fn condition(text: &str) -> Live {
    let text = text.split("//").next().unwrap_or_default();
    let text = text.split("/*").next().unwrap_or_default().trim();
    if let Some(rest) = text.strip_prefix('!') {
        return match condition(rest) {
            // `!a || b` and the like: the operator binds less.
            _ if rest.contains(['&', '|', '=', '<', '>', '?']) => Live::Maybe,
            known => known.not(),
        };
    }
    match text {
        "0" => return Live::No,
        "1" => return Live::Yes,
        _ => {}
    }
    let name = text.strip_prefix("defined").map(str::trim);
    let name = name.map(|name| match name.strip_prefix('(').and_then(|n| n.strip_suffix(')')) {
        Some(inner) => inner.trim(),
        None => name,
    });
    match name {
        Some(name) if name.bytes().all(is_word) => defined(name),
        _ => Live::Maybe,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Splits a name from what follows it and the blanks between.
fn split_word(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !is_word(byte)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, skip_blanks(rest))
}

/// Returns the text without leading blanks, comments and line splices.
fn skip_blanks(mut text: &str) -> &str {
    loop {
        let trimmed = text.trim_start_matches([' ', '\t']);
        let rest = if let Some(comment) = trimmed.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            ["\\\n", "\\\r\n"].iter().find_map(|s| trimmed.strip_prefix(s)).unwrap_or(trimmed)
        };
        if rest.len() == text.len() {
            return text;
        }
        text = rest;
    }
}

/// A line that begins with `#` or `%:`, from behind it to its end.
struct Directive<'t> {
    at: usize,
    line: usize,
    text: &'t str,
}

/// Returns the directives outside comments and strings.
fn directives(text: &str) -> Vec<Directive<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    // Whether only blanks and comments stand before `at` on its line.
    let mut fresh = true;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = match byte {
            b'\n' => {
                fresh = true;
                1
            }
            b' ' | b'\t' | b'\r' => 1,
            b'/' if rest.starts_with(b"//") => line_length(rest),
            b'/' if rest.starts_with(b"/*") => {
                rest[2..].windows(2).position(|w| w == b"*/").map_or(rest.len(), |end| end + 4)
            }
            b'#' | b'%' if fresh && (byte == b'#' || rest.starts_with(b"%:")) => {
                let length = line_length(rest);
                let mark = if byte == b'#' { 1 } else { 2 };
                let body = &text[at + mark..at + length];
                let inner = skip_blanks(body);
                found.push(Directive { at: at + length - inner.len(), line, text: inner });
                // A comment that begins in a directive may go on behind its line.
                body.find("/*")
                    .filter(|_| !body.contains("*/"))
                    .map_or(length, |start| start + mark)
            }
            b'R' if rest.starts_with(b"R\"") && !(at > 0 && is_word(bytes[at - 1])) => {
                fresh = false;
                raw_string_length(rest)
            }
            b'"' | b'\'' => {
                // `1'000` is a number.
                let number = byte == b'\'' && at > 0 && is_word(bytes[at - 1]);
                fresh = false;
                if number { 1 } else { string_length(rest) }
            }
            _ => {
                fresh = false;
                1
            }
        };
        line += rest[..length].iter().filter(|&&byte| byte == b'\n').count();
        at += length;
    }
    found
}

/// Returns the length of the rest of the line, with the lines that a backslash joins to it.
fn line_length(rest: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += rest[length..].iter().take_while(|&&byte| byte != b'\n').count();
        let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
        if !line.ends_with(b"\\") || length == rest.len() {
            return length;
        }
        length += 1;
    }
}

/// Returns the length of the literal at the beginning; of its line, if it does not end there.
fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            _ if byte == rest[0] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of `R"x(…)x"`.
fn raw_string_length(rest: &[u8]) -> usize {
    let Some(paren) = rest.iter().take(19).position(|&byte| byte == b'(') else { return 2 };
    let end = [b")", &rest[2..paren], b"\""].concat();
    let inner = &rest[paren..];
    inner.windows(end.len()).position(|w| w == end).map_or(rest.len(), |at| paren + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns names and lines; `?` follows what is not certain.
    fn of(text: &str) -> String {
        let found = includes(text);
        for include in &found {
            assert!(
                text[include.at..].starts_with(include.name.unwrap_or_default()),
                "{include:?}"
            );
        }
        let shown = found.iter().map(|include| {
            let certain = if include.certain { "" } else { "?" };
            let asks = if include.asks { "has " } else { "" };
            format!("{asks}{}:{}{certain}", include.name.unwrap_or("MACRO"), include.line)
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_spelling_is_found_with_its_line() {
        let text = "#include \"a.h\"\n  # include \"b/b.h\" // x\n#include <c.h>\n#/**/include/*x*/\"d\"\r\n\
            /* c\n */ #include \"e\"\n#include \\\n  \"f\"\n#define X /* two\n lines */\n#include \"g\"\nint é; #include \"no\"";
        assert_eq!(of(text), "a.h:1 b/b.h:2 d:4 e:6 f:7 g:11");
    }

    #[test]
    fn names_of_macros_and_questions_are_found() {
        let text = "#include MACRO\n#include <c.h>\n%: include \"a.h\"\n#if 0\n#include MACRO\n#endif\n\
            #if __has_include(\"b.h\") && __has_include( \"c.h\" ) || __has_include(<d.h>)\n\
            #elif !__has_include(\"e.h\")\n#endif\n#if 0 && __has_include(\"f.h\")\n#endif\n\
            #define HAS __has_include(\"g.h\")\n#include";
        assert_eq!(of(text), "MACRO:1 a.h:3 has b.h:7? has c.h:7? has e.h:8? has f.h:10? MACRO:13");
    }

    #[test]
    fn comments_and_strings_hide_directives() {
        let text = "// #include \"a\"\n/*\n#include \"b\"\n*/\nconst char* s = \"/*\";\n#include \"c\"\n\
            auto r = R\"x(\n#include \"d\"\n)x\";\nchar q = '\"'; int n = 1'000;\n#include \"e\"\n// joined \\\n#include \"f\"\n\
            const char* t = \"\\\"/*\";\n#include \"g\"";
        assert_eq!(of(text), "c:6 e:11 g:15");
    }

    #[test]
    fn conditions_on_the_compiler_are_evaluated() {
        for (condition, value) in [
            ("#ifdef __CUDACC_RTC__", "x:2"),
            ("#ifndef __CUDACC_RTC__", "y:4"),
            ("#if defined(__CUDACC_RTC__)", "x:2"),
            ("#if !defined(__CUDACC_RTC__) // host", "y:4"),
            ("#if ! defined __CUDA_ARCH__", "y:4"),
            ("#if 0", "y:4"),
            ("#if 1 /* on */", "x:2"),
            ("#if WIDTH > 3", "x:2? y:4?"),
            ("#ifdef NDEBUG", "x:2? y:4?"),
            ("#if !defined(__CUDACC_RTC__) || X", "x:2? y:4?"),
            ("#if defined(__CUDACC_RTC__) && X", "x:2? y:4?"),
            ("#if", "x:2? y:4?"),
        ] {
            let text = format!("{condition}\n#include \"x\"\n#else\n#include \"y\"\n#endif\n");
            assert_eq!(of(&text), value, "{condition}");
        }
        let nested = "#if 0\n#ifdef A\n#include \"a\"\n#else\n#include \"b\"\n#endif\n#elif 1\n#include \"c\"\n\
            #elif defined(B)\n#include \"d\"\n#else\n#include \"e\"\n#endif\n#include \"f\"\n#endif\n#include \"g\"";
        assert_eq!(of(nested), "c:8 f:14 g:16");
        assert_eq!(
            of("#ifdef A\n#include \"a\"\n#elif 1\n#include \"b\"\n#else\n#include \"c\"\n#endif"),
            "a:2? b:4?"
        );
    }

    #[test]
    fn a_guarded_header_is_compiled() {
        let text = "// c\n#ifndef A_H\n#define A_H\n#include \"a\"\n#ifndef B\n#include \"b\"\n#endif\n#endif\n";
        assert_eq!(of(text), "a:4 b:6?");
        assert_eq!(of("#ifndef A_H\n#define B_H\n#include \"a\"\n#endif"), "a:3?");
        assert_eq!(of("#if 0\n#ifndef A_H\n#define A_H\n#include \"a\"\n#endif\n#endif"), "");
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        // Every piece of a text, so that all things that end are met without their ends.
        let text = "#if X\n#include \"a\"/*\n*/ R\"d(\")d\" 'x' \"\\\"\" \\\n//\\\r\n#include \\\n\"é\"\n#endif\n#else\n#elif\n#";
        for start in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            for end in (start..=text.len()).filter(|&at| text.is_char_boundary(at)) {
                let _ = of(&text[start..end]);
            }
        }
        for piece in ["/*", "R\"(", "\"", "'", "#include \"", "\\\n", "#", "R\""] {
            let _ = of(&piece.repeat(200));
        }
    }
}

//! A lenient parser of the compiler's log: text that it does not recognise stays in the log.

use std::fmt;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// A note for information.
    Remark,
    /// The code compiles.
    Warning,
    /// The code does not compile.
    Error,
    /// The compiler gave up at this point.
    Fatal,
}

/// One message of the compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The file, as the program or the `#include` names it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1, in characters; NVRTC 13 shows it, NVRTC 12 does not.
    pub column: Option<u32>,
    /// How grave it is.
    pub severity: Severity,
    /// The compiler's number for it, such as `177-D`; what `-diag-suppress` takes.
    pub code: Option<String>,
    /// The message, with the lines that continue it.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line, self.column) {
            (Some(file), Some(line), Some(column)) => write!(f, "{file}:{line}:{column}: ")?,
            (Some(file), Some(line), None) => write!(f, "{file}:{line}: ")?,
            (Some(file), None, _) => write!(f, "{file}: ")?,
            (None, ..) => {}
        }
        let severity = match self.severity {
            Severity::Remark => "remark",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Fatal => "fatal error",
        };
        write!(f, "{severity}: {}", self.message)
    }
}

/// Words that stand before a message's colon, the longer ones first.
const SEVERITIES: [(&str, Severity); 8] = [
    ("catastrophic error", Severity::Fatal),
    ("internal error", Severity::Fatal),
    ("fatal error", Severity::Fatal),
    ("fatal", Severity::Fatal),
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("remark", Severity::Remark),
    ("info", Severity::Remark),
];

/// Returns the diagnostics of a log, in order.
pub(crate) fn parse(log: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    // Whether the next lines belong to the last diagnostic.
    let mut open = false;
    for line in log.lines() {
        if let Some(diagnostic) = head(line) {
            found.push(diagnostic);
            open = true;
        } else if line.trim().is_empty() {
            open = false;
        } else if let Some(last) = found.last_mut().filter(|_| open) {
            continue_with(last, line);
        }
    }
    found
}

/// Parses a line that begins a diagnostic: `file(line): error #code: message`, `ptxas error   : message`,
/// `nvrtc: error: message`, `At end of source: error: message`.
fn head(line: &str) -> Option<Diagnostic> {
    if line.starts_with([' ', '\t']) {
        return None;
    }
    // The first place where a severity stands between a separator and a colon.
    let mut from = 0;
    while let Some(step) = line.get(from..)?.find([':', ';', ' ']) {
        let separator = from + step;
        from = separator + 1;
        let rest = line[from..].trim_start();
        let Some((severity, after)) = severity(rest) else {
            // `from` skips the blanks, so that the line is not parsed once for each.
            from = line.len() - rest.len();
            continue;
        };
        let place = line[..separator].trim_end_matches([':', ';', ' ']);
        let (code, message) = after;
        let (file, line, column) = location(place);
        return Some(Diagnostic { file, line, column, severity, code, message: message.into() });
    }
    None
}

type CodeAndMessage<'a> = (Option<String>, &'a str);

/// `error`, an optional `#code`, a colon and the message.
fn severity(text: &str) -> Option<(Severity, CodeAndMessage<'_>)> {
    let (word, severity) = SEVERITIES.iter().find(|(word, _)| text.starts_with(word))?;
    let rest = text[word.len()..].trim_start();
    let (code, rest) = match rest.strip_prefix('#') {
        Some(numbered) => {
            let end = numbered.find([':', ' '])?;
            let (code, rest) = numbered.split_at(end);
            ((!code.is_empty()).then(|| code.to_owned()), rest.trim_start())
        }
        None => (None, rest),
    };
    Some((*severity, (code, rest.strip_prefix(':')?.trim())))
}

type Location = (Option<String>, Option<u32>, Option<u32>);

/// `file(line)`, `file(line:column)`, `file:line:column`, a tool's name or nothing.
fn location(place: &str) -> Location {
    // Lines and columns count from 1: a 0 means none.
    let from_one = |number: &u32| *number > 0;
    let named = |file: &str| (!file.is_empty()).then(|| file.to_owned());
    let numbered = |file: &str, numbers: &str| {
        let (line, column) =
            numbers.split_once([':', ',']).map_or((numbers, None), |(l, c)| (l, Some(c)));
        let line: u32 = line.trim().parse().ok()?;
        let column = column.and_then(|c| c.trim().parse().ok());
        Some((named(file), Some(line).filter(from_one), column.filter(from_one)))
    };
    if let Some((file, numbers)) = place.strip_suffix(')').and_then(|p| p.rsplit_once('('))
        && let Some(found) = numbered(file, numbers)
    {
        return found;
    }
    // "ptxas application ptx input, line 21": a line of the PTX, not of the source.
    if let Some((file, number)) = place.rsplit_once(", line ")
        && let Ok(line) = number.trim().parse()
    {
        return (named(file.trim_start_matches("ptxas ")), Some(line).filter(from_one), None);
    }
    match place {
        "" | "ptxas" | "nvrtc" | "nvlink" | "At end of source" => (None, None, None),
        other => (Some(other.to_owned()), None, None),
    }
}

/// A line below a diagnostic: it continues the message, unless the next line holds the caret, for
/// then it quotes the source, and the caret gives the column.
fn continue_with(diagnostic: &mut Diagnostic, line: &str) {
    // Two blanks precede quoted source.
    const QUOTE_INDENT: usize = 2;
    if line.trim() != "^" {
        diagnostic.message.push('\n');
        diagnostic.message.push_str(line.trim());
        return;
    }
    let column = line.chars().take_while(|c| *c != '^').count().saturating_sub(QUOTE_INDENT) + 1;
    diagnostic.column = diagnostic.column.or(u32::try_from(column).ok());
    if let Some(quote) = diagnostic.message.rfind('\n') {
        diagnostic.message.truncate(quote);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Summary<'a> =
        (Option<&'a str>, Option<u32>, Option<u32>, Severity, Option<&'a str>, &'a str);

    fn summary(d: &Diagnostic) -> Summary<'_> {
        (d.file.as_deref(), d.line, d.column, d.severity, d.code.as_deref(), &d.message)
    }

    #[test]
    fn a_log_of_nvrtc_12() {
        let log = "a.cu(1): error: identifier \"y\" is undefined\n\n\
            a.cu(2): warning #177-D: variable \"u\" was declared but never referenced\n\n\
            Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n\n\
            a.cu(3): error: expression must have class type but it has type \"int\"\n          \
            detected during instantiation of \"void f(T) [with T=int]\" \n(1): here\n\n\
            At end of source: error: expected a \";\"\n\n\
            2 errors detected in the compilation of \"a.cu\".\n";
        let found = parse(log);
        let want = [
            (Some("a.cu"), Some(1), None, Severity::Error, None, "identifier \"y\" is undefined"),
            (
                Some("a.cu"),
                Some(2),
                None,
                Severity::Warning,
                Some("177-D"),
                "variable \"u\" was declared but never referenced",
            ),
            (
                Some("a.cu"),
                Some(3),
                None,
                Severity::Error,
                None,
                "expression must have class type but it has type \"int\"\n\
                 detected during instantiation of \"void f(T) [with T=int]\"\n(1): here",
            ),
            (None, None, None, Severity::Error, None, "expected a \";\""),
        ];
        assert_eq!(found.iter().map(summary).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_log_of_nvrtc_13_gives_columns() {
        let log = "/p q/a.cu(2): error: identifier \"foo\" is undefined\n  \
            __global__ void j() { int u; foo(); }\n                               ^\n          \
            detected during instantiation of \"void f()\" at line 1\n\n\
            x.h(1): catastrophic error: cannot open source file \"a: error: b.h\"\n  #include <x>\n              ^\n";
        let found = parse(log);
        let want = [
            (
                Some("/p q/a.cu"),
                Some(2),
                Some(30),
                Severity::Error,
                None,
                "identifier \"foo\" is undefined\ndetected during instantiation of \"void f()\" at line 1",
            ),
            (
                Some("x.h"),
                Some(1),
                Some(13),
                Severity::Fatal,
                None,
                "cannot open source file \"a: error: b.h\"",
            ),
        ];
        assert_eq!(found.iter().map(summary).collect::<Vec<_>>(), want);
    }

    #[test]
    fn the_assembler_and_the_option_parser_speak_too() {
        let log = "ptxas application ptx input, line 21; error   : Not a name of any known instruction: 'foo'\n\
            ptxas fatal   : Ptx assembly aborted due to errors\n\
            ptxas warning : For profile sm_90 adjusting\n\
            nvrtc: error: unrecognized option -E found\n\
            a.cu(3:7): error: both\n";
        let found = parse(log);
        let want = [
            (
                Some("application ptx input"),
                Some(21),
                None,
                Severity::Error,
                None,
                "Not a name of any known instruction: 'foo'",
            ),
            (None, None, None, Severity::Fatal, None, "Ptx assembly aborted due to errors"),
            (None, None, None, Severity::Warning, None, "For profile sm_90 adjusting"),
            (None, None, None, Severity::Error, None, "unrecognized option -E found"),
            (Some("a.cu"), Some(3), Some(7), Severity::Error, None, "both"),
        ];
        assert_eq!(found.iter().map(summary).collect::<Vec<_>>(), want);
        assert_eq!(found[4].to_string(), "a.cu:3:7: error: both");
    }

    #[test]
    fn what_is_not_there_is_none() {
        let log = "a.cu(0): error: one\na.cu(3:0): error: two\n, line 4: error: three\n\
            ptxas , line 0: error #: four\n";
        let want = [
            (Some("a.cu"), None, None, Severity::Error, None, "one"),
            (Some("a.cu"), Some(3), None, Severity::Error, None, "two"),
            (None, Some(4), None, Severity::Error, None, "three"),
            (None, None, None, Severity::Error, None, "four"),
        ];
        assert_eq!(parse(log).iter().map(summary).collect::<Vec<_>>(), want);
    }

    #[test]
    fn long_lines_take_time_in_proportion() {
        // Each parse from a blank must not read all the rest of the line: that would take minutes.
        let start = std::time::Instant::now();
        for piece in [" ", " error ", ":", " error #1", "error  "] {
            assert_eq!(parse(&format!("a{}", piece.repeat(300_000))), []);
        }
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }

    proptest! {
        #[test]
        fn any_log_is_answered_without_a_panic(log in "\\PC{0,80}(\n[ ^a-z:;#()0-9é]{0,40}){0,6}") {
            let _ = parse(&log);
        }
    }
}

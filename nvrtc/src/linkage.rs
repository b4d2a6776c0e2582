//! The parameters' types of kernels with C linkage, whose symbols do not state them.
//!
//! The compiler states them: the argument of an instance of the template in [`HEADER`] is the kernel's type, and the
//! instance's mangled name spells it. The template has no definition, so the image is the same with and without it.
//! [`undefined`] keeps the program's macros out of these expressions.

use std::collections::{HashMap, HashSet};

use ptx::{Signature, mangled};

use crate::Diagnostic;

/// The name of [`HEADER`] in memory.
pub(crate) const HEADER_NAME: &str = "cuda_safe/parameters_of.h";

/// Included before programs that have such kernels.
pub(crate) const HEADER: &str =
    "namespace cuda_safe { template <class Kernel> __global__ void parameters_of(); }\n";

/// The bytes of namespaces in the names of a text's kernels, over the text's length. A long namespace, repeated for each
/// of its kernels, would take memory that is quadratic in the text: the types of further kernels are not asked for.
const REPEATED: usize = 4;

/// What precedes a kernel's name in its expression.
const INSTANCE: &str = "parameters_of<decltype(&";

/// The words around it.
const WORDS: [&str; 3] = ["cuda_safe", "parameters_of", "decltype"];

/// A kernel that may have C linkage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Kernel {
    /// Its name in the image.
    pub(crate) symbol: String,
    /// Its name in C++.
    name: String,
}

impl Kernel {
    /// Returns the kernel of this name outside any namespace; `None` if the name is an expression or mangled.
    pub(crate) fn plain(name: &str) -> Option<Self> {
        let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let plain = name.bytes().next().is_some_and(letter)
            && name.bytes().all(is_word)
            && !name.starts_with("_Z");
        plain.then(|| Self { symbol: name.to_owned(), name: name.to_owned() })
    }

    /// Returns the name expression whose lowered name states the types.
    pub(crate) fn expression(&self) -> String {
        format!("cuda_safe::{INSTANCE}{})>", self.name)
    }

    /// Returns the words of its expression that a macro may replace.
    fn words(&self) -> impl Iterator<Item = &str> {
        WORDS.into_iter().chain(self.name.split("::"))
    }

    /// Returns whether the kernel's name is one of those that the compiler refused.
    pub(crate) fn is_in(&self, refused: &HashSet<String>) -> bool {
        refused.contains(&self.name)
    }
}

/// Returns the names of kernels whose expressions the messages are about: the program has no kernel of the name, or
/// several.
pub(crate) fn refused(messages: &[Diagnostic]) -> HashSet<String> {
    let mut names = HashSet::new();
    for message in messages {
        let packed: String = message.message.split_whitespace().collect();
        let after = packed.split(INSTANCE).skip(1);
        names.extend(after.filter_map(|text| Some(text.split_once(")>")?.0.to_owned())));
    }
    names
}

/// Returns lines for the end of a program, where the compiler reads the expressions: no word of theirs is a macro then.
///
/// `expressions` are the caller's own, which may mean macros: words that they share stay as they are, and kernels are
/// removed for which one of `texts` defines such a word.
pub(crate) fn undefined<'t>(
    kernels: &mut Vec<Kernel>,
    expressions: &[String],
    texts: impl Iterator<Item = &'t String>,
) -> String {
    let shared: HashSet<&str> =
        expressions.iter().flat_map(|text| text.split(|c: char| !is_letter(c))).collect();
    let named = texts
        .flat_map(|text| text.split("define").skip(1))
        .filter_map(|rest| rest.trim_start().split(|c: char| !is_letter(c)).next());
    let macros: HashSet<&str> = named.filter(|word| shared.contains(word)).collect();
    kernels.retain(|kernel| kernel.words().all(|word| !macros.contains(word)));
    let mut words: Vec<&str> = kernels.iter().flat_map(Kernel::words).collect();
    words.sort_unstable();
    words.dedup();
    words.retain(|word| !shared.contains(word));
    // The source's last line may be continued.
    let begin = if words.is_empty() { "" } else { "\n\n" };
    words.iter().fold(begin.to_owned(), |lines, word| lines + "#undef " + word + "\n")
}

/// Returns the macros with arguments that texts define.
pub(crate) fn macros<'t>(texts: impl Iterator<Item = &'t String>) -> impl Iterator<Item = &'t str> {
    texts.flat_map(|text| {
        text.match_indices("define").filter_map(move |(at, define)| {
            if !text[..at].trim_end_matches([' ', '\t']).ends_with('#') {
                return None;
            }
            let rest = text[at + define.len()..].trim_start_matches([' ', '\t']);
            let (name, behind) = rest.split_at(rest.find(|c| !is_letter(c))?);
            behind.starts_with('(').then_some(name)
        })
    })
}

/// Sets the types of kernels by the lowered names of their expressions.
pub(crate) fn set_types(kernels: &mut [Signature], instances: &[(String, String)]) {
    let mut names: HashMap<&str, &str> = HashMap::with_capacity(instances.len());
    for (symbol, name) in instances {
        names.entry(symbol).or_insert(name);
    }
    for kernel in kernels.iter_mut().filter(|kernel| kernel.types.is_empty()) {
        let instance = names.get(kernel.name.as_str());
        let types = instance.and_then(|name| mangled::argument_parameters(name));
        kernel.types = types.unwrap_or_default();
    }
}

/// Returns the kernels with C linkage that a text declares outside of macros. None has a name of `macros`: such a word before
/// a parenthesis stands for `__launch_bounds__` or the like.
pub(crate) fn kernels(text: &str, macros: &HashSet<&str>) -> Vec<Kernel> {
    let mut found = Vec::new();
    let mut scopes: Vec<Scope> = Vec::new();
    // The open namespaces, each with `::` after it.
    let mut path = String::new();
    let mut repeated = 0;
    let mut statement = Statement::default();
    let tokens = Tokens { text, at: 0, line_begins: true };
    for token in tokens {
        match token {
            "{" => {
                let around = scopes.last();
                let opened = statement.opened();
                scopes.push(Scope {
                    is_c: opened == Opened::C || around.is_some_and(|scope| scope.is_c),
                    in_body: opened == Opened::Body || around.is_some_and(|scope| scope.in_body),
                    path: path.len(),
                });
                if let Opened::Namespace(name) = opened
                    && !name.is_empty()
                {
                    path.extend([name, "::"]);
                }
                statement = Statement::default();
            }
            "}" => {
                if let Some(scope) = scopes.pop() {
                    path.truncate(scope.path);
                }
                statement = Statement::default();
            }
            ";" => statement = Statement::default(),
            "(" => {
                let around = scopes.last();
                if !macros.contains(statement.last)
                    && let Some(name) = statement.kernel(around.is_some_and(|scope| scope.is_c))
                    && !around.is_some_and(|scope| scope.in_body)
                    && repeated + path.len() <= REPEATED * text.len()
                {
                    repeated += path.len();
                    found.push(Kernel { symbol: name.to_owned(), name: format!("{path}{name}") });
                }
                statement.depth += 1;
            }
            ")" => statement.depth = statement.depth.saturating_sub(1),
            word => statement.add(word),
        }
    }
    // Of a kernel that is declared and defined, once.
    let mut once = HashSet::new();
    found.retain(|kernel| once.insert(kernel.clone()));
    found
}

/// An open brace.
#[derive(Debug)]
struct Scope {
    is_c: bool,
    /// Whether the brace is that of a body, where nothing is a kernel, or inside one.
    in_body: bool,
    /// The length of the path before the brace.
    path: usize,
}

/// What a brace opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened<'a> {
    /// A namespace, whose name may be empty.
    Namespace(&'a str),
    /// `extern "C"`.
    C,
    Body,
}

/// The tokens since the last statement's end, as far as they matter.
#[derive(Debug, Default)]
struct Statement<'a> {
    namespace: bool,
    external: bool,
    c: bool,
    template: bool,
    global: bool,
    declared: bool,
    /// The words behind `namespace`, with their `::`.
    path: Option<&'a str>,
    last: &'a str,
    words: usize,
    depth: usize,
}

impl<'a> Statement<'a> {
    fn add(&mut self, word: &'a str) {
        self.words += 1;
        match word {
            "namespace" => self.namespace = true,
            "extern" => self.external = true,
            "\"C\"" => self.c |= self.external,
            "template" => self.template = true,
            "__global__" => self.global = true,
            _ if self.namespace && word.bytes().all(|byte| is_word(byte) || byte == b':') => {
                self.path = Some(word);
            }
            _ => {}
        }
        if self.depth == 0 {
            self.last = word;
        }
    }

    /// Returns what a brace opens here.
    fn opened(&self) -> Opened<'a> {
        match (self.namespace, self.c && self.words == 2) {
            (true, _) => Opened::Namespace(self.path.unwrap_or_default()),
            (false, true) => Opened::C,
            (false, false) => Opened::Body,
        }
    }

    /// Returns the kernel's name, if this parenthesis begins the parameters of one with C linkage.
    fn kernel(&mut self, is_c: bool) -> Option<&'a str> {
        // `__launch_bounds__(…)` and the like begin with two underscores.
        let named = self.last.bytes().all(is_word) && !self.last.starts_with("__");
        let begins = self.global && !self.declared && self.depth == 0 && named;
        self.declared |= begins;
        (begins && (self.c || is_c) && !self.template && !self.last.is_empty()).then_some(self.last)
    }
}

fn is_letter(c: char) -> bool {
    u8::try_from(c).map_or(true, is_word)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The words, strings and marks of a text, without comments and directives. `a::b` is one word.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    line_begins: bool,
}

impl<'a> Tokens<'a> {
    /// Skips to the end of `end`, or of the text.
    fn skip_past(&mut self, end: &str) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.find(end).map_or(rest.len(), |found| found + end.len());
    }

    /// Skips a literal in quotation marks, from behind the first one.
    fn skip_quoted(&mut self, quote: u8) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == quote || byte == b'\n' {
                break;
            }
        }
        self.at = self.at.min(bytes.len());
    }

    /// Skips a directive with the lines that continue it.
    fn skip_directive(&mut self) {
        loop {
            let begin = self.at;
            self.skip_past("\n");
            let line = self.text.get(begin..self.at).unwrap_or_default().trim_end();
            if !line.ends_with('\\') {
                break;
            }
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        loop {
            let begin = self.at;
            let first = *bytes.get(begin)?;
            let line_begins = std::mem::replace(&mut self.line_begins, first == b'\n');
            let rest = &bytes[begin..];
            self.at += 1;
            match first {
                _ if first.is_ascii_whitespace() => self.line_begins |= line_begins,
                b'#' if line_begins => {
                    self.skip_directive();
                    self.line_begins = true;
                }
                b'/' if rest.starts_with(b"//") => {
                    self.skip_past("\n");
                    self.line_begins = true;
                }
                b'/' if rest.starts_with(b"/*") => {
                    self.at += 1;
                    self.skip_past("*/");
                    self.line_begins = line_begins;
                }
                b'R' if rest.starts_with(b"R\"") => {
                    let head = self.text.get(begin + 2..)?;
                    let delimiter = head.split('(').next().unwrap_or_default();
                    self.skip_past(&format!("){delimiter}\""));
                }
                b'\'' => self.skip_quoted(b'\''),
                b'"' => {
                    self.skip_quoted(b'"');
                    return self.text.get(begin..self.at).or(Some(""));
                }
                _ if is_word(first) => {
                    let colons = |at: usize| bytes[at..].starts_with(b"::");
                    while let Some(&byte) = bytes.get(self.at) {
                        let in_path =
                            byte == b':' && (colons(self.at) || bytes[self.at - 1] == b':');
                        // `1'000`, where the mark does not begin a character.
                        let in_number = byte == b'\''
                            && first.is_ascii_digit()
                            && bytes.get(self.at + 1).is_some_and(|&after| is_word(after));
                        if !is_word(byte) && !in_path && !in_number {
                            break;
                        }
                        self.at += 1;
                    }
                    return self.text.get(begin..self.at);
                }
                _ => return self.text.get(begin..self.at),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let text = text.to_owned();
        let macros = macros([&text].into_iter()).collect();
        kernels(&text, &macros).into_iter().map(|kernel| (kernel.symbol, kernel.name)).collect()
    }

    #[test]
    fn kernels_with_c_linkage_are_found_by_their_qualified_names() {
        let text = r#"
            #define KERNEL extern "C" __global__ \
                void in_a_macro(
            // extern "C" __global__ void in_a_comment(int);
            /* extern "C" __global__ void in_a_comment(int); */
            const char* text = "extern \"C\" __global__ void in_a_string(int) {";
            const char* raw = R"x(extern "C" __global__ void raw(int) { )" )x"; char c = '"';
            extern "C" __global__ void declared(float*);
            extern "C" __global__ void __launch_bounds__(128, f(1)) declared(float* x) { x[0] = g(1); }
            __global__ void extern_is_not_here(float* x) { if (x) { x[0] = 1; } }
            extern "C" __device__ int no_kernel(int);
            extern "C" {
                __global__ void inside(int, void (*)(int));
                static __device__ int not_this(int x) { return x; }
                namespace a::b { namespace { __global__ void deep(int) {} } }
            }
            namespace ns { extern "C" __global__ void nested(double* d) { *d = 1; } }
            struct S { int x; }; template <class T> __global__ void instance(T) {}
            __global__ void last(int) {}
            # define  BOUNDS(threads) __launch_bounds__(threads)
            // These define bounded(as the rest).
            extern "C" __global__ void BOUNDS(f(256)) bounded(int) {}
            extern "C" __global__ void after(int) BOUNDS(1);
        "#;
        let want = [
            ("declared", "declared"),
            ("inside", "inside"),
            ("deep", "a::b::deep"),
            ("nested", "ns::nested"),
            ("bounded", "bounded"),
            ("after", "after"),
        ];
        let want = want.map(|(symbol, name)| (symbol.to_owned(), name.to_owned()));
        assert_eq!(found(text), want);
    }

    #[test]
    fn texts_that_end_early_end_the_search() {
        let text = "extern \"C\" { namespace a { __global__ void k(int) { R\"x(é)x\"; 'c' \"s\" /* */ // é\n#d\\\n } } }";
        for (end, _) in text.char_indices() {
            let _ = found(&text[..end]);
        }
        assert_eq!(found("R\""), []);
        assert_eq!(found("\"\\"), []);
        // Linear in the text.
        for part in [
            "/*",
            "R\"(",
            "extern \"C\" {",
            "__global__ void k(",
            "a::",
            "#\\\n",
            "'",
            "#define ",
            "define",
        ] {
            let _ = found(&part.repeat(200_000));
        }
    }

    #[test]
    fn names_and_their_messages() {
        assert_eq!(Kernel::plain("_Z3addPf"), None);
        assert_eq!(Kernel::plain("scale<float>"), None);
        assert_eq!(Kernel::plain(""), None);
        let messages = crate::diagnostic::parse(
            "__nv_name_map(2): error: identifier \"nope\" is undefined\n\n__nv_name_map(2): error: Name expression \
             cannot form address of a non-__global__ function. Input name expression was: \" cuda_safe :: parameters_of \
             < decltype ( & nope ) >\"\n",
        );
        let refused = refused(&messages);
        let is_in = |name: &str| Kernel::plain(name).is_some_and(|kernel| kernel.is_in(&refused));
        assert!(is_in("nope") && !is_in("no") && !is_in("other"));
    }

    #[test]
    fn marks_between_digits_do_not_begin_a_character() {
        for number in ["1'000", "0x1'F", "1'000'000ull", "1", "'\\''", "u'1'"] {
            let text = format!(
                "void f() {{ int x = {number}; {{ }} }} extern \"C\" __global__ void k(int);"
            );
            assert_eq!(found(&text), [("k".to_owned(), "k".to_owned())], "{number}");
        }
    }

    #[test]
    fn macros_are_undefined_unless_an_expression_names_them() {
        let kernels = kernels(
            "namespace ns { extern \"C\" { __global__ void a(int); __global__ void b(int); } }",
            &HashSet::new(),
        );
        let lines = |expressions: &[&str], text: &str| {
            let mut kernels = kernels.clone();
            let expressions: Vec<String> = expressions.iter().map(|&it| it.to_owned()).collect();
            let lines = undefined(&mut kernels, &expressions, [text.to_owned()].iter());
            let words: Vec<&str> =
                lines.lines().filter_map(|l| l.strip_prefix("#undef ")).collect();
            (kernels.len(), words.join(" "))
        };
        let all = "a b cuda_safe decltype ns parameters_of";
        assert_eq!(lines(&[], "#define a b"), (2, all.to_owned()));
        assert_eq!(lines(&["&t<N>"], "#define N 3"), (2, all.to_owned()));
        let kept = "b cuda_safe decltype ns parameters_of";
        assert_eq!(lines(&["&a"], "#define b c"), (2, kept.to_owned()));
        assert_eq!(lines(&["&a"], "# define\ta(x) c"), (1, kept.to_owned()));
        assert_eq!(lines(&["ns::t<int>"], "#define ns other"), (0, String::new()));
    }

    #[test]
    fn many_kernels_are_read_in_proportion() {
        let begin = std::time::Instant::now();
        let many = |count: usize| -> String {
            (0..count).map(|i| format!("extern \"C\" __global__ void kernel_{i}(int);\n")).collect()
        };
        assert_eq!(kernels(&many(50_000), &HashSet::new()).len(), 50_000);
        // A path of a megabyte for each kernel is 25 gigabytes, one of 4,000 letters 100 megabytes.
        for long in [1_000_000, 4_000] {
            let long = "n".repeat(long);
            let text = format!("namespace {long} {{ {} }} {}", many(25_000), many(1));
            let found = found(&text);
            assert_eq!(found[0], ("kernel_0".to_owned(), format!("{long}::kernel_0")));
            assert_eq!(found[found.len() - 1], ("kernel_0".to_owned(), "kernel_0".to_owned()));
            let bytes: usize = found.iter().map(|(_, name)| name.len()).sum();
            assert!(bytes < 5 * text.len(), "{bytes} of {}", text.len());
        }
        for (open, count) in
            [("namespace {", 25_000), ("extern \"C\" {", 25_000), ("namespace n {", 47), ("{", 0)]
        {
            let text = open.repeat(50_000) + &many(25_000);
            assert_eq!(kernels(&text, &HashSet::new()).len(), count, "{open}");
        }
        let (mut signatures, instances): (Vec<_>, Vec<_>) = (0..50_000)
            .map(|i| {
                let name = format!("kernel_{i}");
                let signature =
                    Signature { name: name.clone(), params: Vec::new(), types: Vec::new() };
                (signature, (name, String::new()))
            })
            .unzip();
        set_types(&mut signatures, &instances);
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
    }
}

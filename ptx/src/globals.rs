//! The variables that a PTX text declares for its whole module, found in one pass that skips everything else.

use crate::ir::{Space, Type};

/// Where a variable lies, and who may write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GlobalKind {
    /// `.const`: `__constant__` in CUDA C++. Kernels only read it.
    Constant,
    /// `.global`: `__device__` in CUDA C++.
    Device,
    /// `.global .attribute(.managed)`: `__managed__` in CUDA C++. The host reaches it, too.
    Managed,
}

/// A variable of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobalVariable {
    /// The name as the driver knows it; mangled for a C++ variable in a namespace.
    pub name: String,
    /// Where it lies.
    pub kind: GlobalKind,
    /// Its size in bytes; 0 if the text does not state it.
    pub size: u64,
    /// Its alignment in bytes, a power of two.
    pub align: u32,
    /// The type of a scalar. NVRTC declares arrays and structures as bytes.
    pub scalar: Option<Type>,
}

/// Returns the variables that a text declares for its whole module, in its order. A declaration that can't be read, and
/// one that only refers to a variable of another text (`.extern`), is left out.
///
/// ```
/// use ptx::{GlobalKind, globals};
/// let text = ".version 8.0 .target sm_75 .address_size 64
///     .const .align 4 .b8 table[1024];
///     .global .attribute(.managed) .align 8 .f64 total = 0d4004000000000000;";
/// let variables = globals(text);
/// assert_eq!((variables[0].name.as_str(), variables[0].size), ("table", 1024));
/// assert_eq!((variables[1].kind, variables[1].align), (GlobalKind::Managed, 8));
/// ```
#[must_use]
pub fn globals(text: &str) -> Vec<GlobalVariable> {
    let mut found = Vec::new();
    each_statement(text, |statement| {
        if let Some(declaration) = declaration(statement) {
            found.extend(read(declaration));
        }
    });
    found
}

/// Calls `f` with each statement outside functions, without its `;` and without comments.
fn each_statement(text: &str, mut f: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let (mut at, mut start, mut depth) = (0, 0, 0_usize);
    // The statement up to its last comment.
    let mut before = String::new();
    // Braces after a `=` are an initialiser's, others a function's.
    let mut initialises = false;
    // None if a character of several bytes is cut: no PTX.
    let part = |start: usize, end: usize| text.get(start..end).unwrap_or_default();
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        match byte {
            b'/' if rest.starts_with(b"//") || rest.starts_with(b"/*") => {
                if depth == 0 {
                    before.push_str(part(start, at));
                    before.push(' ');
                }
                at += comment_end(rest);
                start = if depth == 0 { at + 1 } else { start };
            }
            b'"' => at += string_end(rest),
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && !initialises {
                    start = at + 1;
                    before.clear();
                }
            }
            b'=' if depth == 0 => initialises = true,
            b';' if depth == 0 => {
                match before.is_empty() {
                    true => f(part(start, at)),
                    false => {
                        before.push_str(part(start, at));
                        f(&before);
                        before.clear();
                    }
                }
                (start, initialises) = (at + 1, false);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the index of the last byte of the comment that `bytes` begin with.
fn comment_end(bytes: &[u8]) -> usize {
    let end = if bytes.starts_with(b"//") {
        bytes.iter().position(|byte| *byte == b'\n')
    } else {
        bytes.windows(2).skip(2).position(|two| two == b"*/").map(|end| end + 3)
    };
    end.unwrap_or(bytes.len())
}

/// Returns the index of the last byte of the string that `bytes` begin with.
fn string_end(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' | b'\n' => return at,
            _ => {}
        }
    }
    bytes.len()
}

/// Returns the part of a statement that declares variables, from its linkage or space on.
fn declaration(statement: &str) -> Option<&str> {
    let head = statement.split('=').next().unwrap_or(statement);
    let space = [".global", ".const"]
        .iter()
        .filter_map(|space| word(head, space))
        // A function's parameters may point to `.global`; a function that is declared before may lack its semicolon.
        .filter(|at| head[..*at].matches('(').count() == head[..*at].matches(')').count())
        .min()?;
    if word(head, ".extern").is_some() {
        return None;
    }
    // An array without a size has that of its initialiser.
    let needs_init = head.contains("[]") || head.contains("[ ]");
    let end = if needs_init { statement.len() } else { head.len() };
    statement.get(space..end)
}

/// Returns where `text` has the directive `word`.
fn word(text: &str, word: &str) -> Option<usize> {
    let follows = |at: usize| text[at + word.len()..].bytes().next();
    text.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !follows(*at).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// Reads one declaration, which may declare several variables.
fn read(declaration: &str) -> Vec<GlobalVariable> {
    let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{declaration};");
    let Ok(module) = crate::parse(&text) else { return Vec::new() };
    let variables = module.globals.into_iter();
    variables
        .map(|variable| GlobalVariable {
            kind: match variable.space {
                Space::Const => GlobalKind::Constant,
                _ if variable.managed => GlobalKind::Managed,
                _ => GlobalKind::Device,
            },
            size: variable.size(),
            align: variable.align,
            scalar: (variable.dims.is_empty() && variable.vector == 1).then_some(variable.ty),
            name: variable.name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC 13.0 writes them.
    const TEXT: &str = r#"
//
// Generated by NVIDIA NVVM Compiler; .global .u32 comment;
//
.version 9.0
.target sm_75
.address_size 64

	// .globl	_Z1kPf
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.extern .global .align 4 .u32 elsewhere;
.const .align 4 .f32 /* .global .u32 no; */ factor;
// .global .u32 neither
.const .align 4 .b8 table[1024];
.visible .global .align 4 .u32 counter = 3;
.global .attribute(.managed) .align 8 .f64 m = 0d4004000000000000;
.global .attribute(.managed) .align 4 .b8 mm[40];
.weak .global .align 4 .f32 _ZN2ns5valueIfEE = 0f3F800000;
.global .align 16 .v4 .f32 four;
.global .align 1 .b8 $str[9] = {104, 101, 108, 108, 111, 32, 37, 100};
.global .align 8 .u64 points[2] = {generic(counter), k};
.global .u32 unsized[] = {1, 2, 3};
.file 1 "a;b{.cu"
.visible .entry k(.param .u64 .ptr .global .align 4 k_param_0)
{
	.reg .b32 	%r<2>;
	{ .global .align 4 .u32 inner; }
	ld.global.u32 %r1, [counter];
	ret;
}
.global .align 8 .u64 ptr;
.section .debug_str { .b8 1; }
.global .align 1 .u8 a, b;
"#;

    #[test]
    fn variables_of_a_text() {
        let found = globals(TEXT);
        let short: Vec<String> = found
            .iter()
            .map(|it| format!("{} {:?} {} {} {:?}", it.name, it.kind, it.size, it.align, it.scalar))
            .collect();
        assert_eq!(
            short,
            [
                "factor Constant 4 4 Some(F32)",
                "table Constant 1024 4 None",
                "counter Device 4 4 Some(U32)",
                "m Managed 8 8 Some(F64)",
                "mm Managed 40 4 None",
                "_ZN2ns5valueIfEE Device 4 4 Some(F32)",
                "four Device 16 16 None",
                "$str Device 9 1 None",
                "points Device 16 8 None",
                "unsized Device 12 4 None",
                "ptr Device 8 8 Some(U64)",
                "a Device 1 1 Some(U8)",
                "b Device 1 1 Some(U8)",
            ]
        );
    }

    /// As nvopencc wrote declarations of functions.
    #[test]
    fn a_function_without_a_semicolon_hides_no_variable() {
        let text =
            ".func (.param .b32 r) f (.param .b32 i)\n.global .u32 x;\n.func f(.param .b64 a) ;";
        assert_eq!(globals(text).into_iter().map(|it| it.name).collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn every_prefix_and_every_cut_is_read_without_a_panic() {
        for at in 0..=TEXT.len() {
            let count = globals(&TEXT[..at]).len() + globals(&TEXT[at..]).len();
            assert!(count <= 14, "{at}");
        }
        for odd in [
            "é.global;",
            ".global \"",
            ".global /*",
            "= } ; .const",
            "{{{{",
            "}}}} .global .u32 x;",
        ] {
            assert!(globals(odd).len() <= 1, "{odd}");
        }
    }
}

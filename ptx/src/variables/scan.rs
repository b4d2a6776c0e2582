//! A quick scan of a text: does any function mention a variable of the module?
//!
//! NVRTC writes out every `constexpr` of a header, and most modules use none of them.

use std::collections::HashSet;

/// Returns whether a function's body may mention a variable in the `.global` or `.const` space. `true` in
/// case of doubt.
pub(super) fn mentions_variables(text: &str) -> bool {
    let mut names: HashSet<&str> = HashSet::new();
    let mut words: Vec<&str> = Vec::new();
    let (mut braces, mut parentheses) = (0_usize, 0_usize);
    // The declaration of a variable that is being read: its name is the last word before its size,
    // its initialiser or its end.
    let mut declares = false;
    let mut last = "";
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => match rest.find("*/") {
                Some(end) => end + 2,
                None => return true,
            },
            b'"' => match string(rest) {
                Some(length) => length,
                None => return true,
            },
            b'.' | b'_' | b'$' | b'%' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | 0x80.. => {
                let length = word(rest);
                let word = rest.get(..length).unwrap_or_default();
                if matches!(word, ".global" | ".const") && parentheses == 0 {
                    // A declaration inside a function is of that function's variable.
                    if braces > 0 {
                        return true;
                    }
                    declares = true;
                } else if declares {
                    last = word;
                } else if braces > 0 && first != b'%' && first != b'.' && !first.is_ascii_digit() {
                    // A function may come before its variables, so words are compared at the end.
                    words.push(word);
                }
                length
            }
            _ => {
                match first {
                    b'[' | b'=' | b';' | b',' if declares && braces == 0 => {
                        if !last.is_empty() {
                            names.insert(last);
                        }
                        last = "";
                        declares = match first {
                            b',' => true,
                            b';' => false,
                            _ => {
                                // The rest of the declaration has no new variable, or one more after a comma, as only
                                // hand-written texts have.
                                let end = rest.find(';').unwrap_or(rest.len());
                                let more = rest.get(..end).unwrap_or_default();
                                if has_comma_outside(more) {
                                    return true;
                                }
                                rest = rest.get(end..).unwrap_or_default();
                                false
                            }
                        };
                        if first == b'[' || first == b'=' {
                            continue;
                        }
                    }
                    b'{' => braces += 1,
                    b'}' => braces = braces.saturating_sub(1),
                    b'(' => parentheses += 1,
                    b')' => parentheses = parentheses.saturating_sub(1),
                    _ => {}
                }
                1
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    !names.is_empty() && words.iter().any(|word| names.contains(word))
}

/// Returns whether another declarator follows after a comma that is in no brackets.
fn has_comma_outside(text: &str) -> bool {
    let mut depth = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 0
    })
}

/// Returns the length of the word or directive that `text` begins with.
fn word(text: &str) -> usize {
    let more = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b':') || *byte >= 0x80
    };
    // A directive ends before the next one; an opcode such as `ld.global.u32` does not.
    let directive = text.starts_with('.');
    let length =
        1 + text.bytes().skip(1).take_while(|b| more(b) && !(directive && *b == b'.')).count();
    match text.get(..length) {
        // A label is followed by its colon.
        Some(word) => word.trim_end_matches(':').len().max(1),
        None => text.len(),
    }
}

/// Returns the length of the string that `text` begins with, if it ends.
fn string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

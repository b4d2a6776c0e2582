//! Loads into the memory of a block, after barriers are placed: those that follow each other read together, and what a load
//! overwrites is not filled before.

/// What begins the statement that waits for loads.
const ALL: &str = "load_all<B>(c, ";

/// Returns the statement that waits for a load.
pub(super) fn statement(load: &str) -> String {
    format!("{ALL}{load});")
}

/// Gathers the loads of a text, line by line.
pub(crate) fn gathered(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain({
        let filled = overwritten(&lines);
        let mut at = 0;
        move |_| {
            at += 1;
            !filled.contains(&(at - 1))
        }
    });
    let mut out = String::with_capacity(text.len());
    // The loads that were begun in a row.
    let mut waiting: Vec<&str> = Vec::new();
    for line in lines {
        if let Some(load) = line.strip_prefix(ALL).and_then(|rest| rest.strip_suffix(");")) {
            waiting.push(load);
            continue;
        }
        if !(waiting.is_empty() || goes_on(line)) {
            out.push_str(&format!("{ALL}{});\n", waiting.join(", ")));
            waiting.clear();
        }
        out.push_str(line);
        out.push('\n');
    }
    if !waiting.is_empty() {
        out.push_str(&format!("{ALL}{});\n", waiting.join(", ")));
    }
    out
}

/// Whether a line may stand between loads and what waits for them: it is another load, or the place of a statement.
/// Values have statements of their own, which may read what was loaded.
fn goes_on(line: &str) -> bool {
    line.starts_with("#line ") || is_begun(line) || is_part(line)
}

/// Whether a line declares a load.
fn is_begun(line: &str) -> bool {
    line.strip_prefix("const auto load_").and_then(|rest| rest.split_once(" = ")).is_some_and(
        |(_, value)| value.starts_with("load_items<B>(") || value.starts_with("load_matrix<B>("),
    )
}

/// Whether a line declares columns of a shared array, which reads no element.
fn is_part(line: &str) -> bool {
    line.strip_prefix("auto t_")
        .and_then(|rest| rest.split_once(" = "))
        .is_some_and(|(_, value)| value.starts_with("b_cells("))
}

/// Returns the lines that fill an array which a load then overwrites, in the same block of statements, before anything
/// else names it.
fn overwritten(lines: &[&str]) -> Vec<usize> {
    let fills = lines.iter().enumerate().filter_map(|(at, line)| {
        let (array, _) = line.strip_prefix("fill<B>(")?.split_once(", ")?;
        Some((at, array))
    });
    fills.filter(|(at, array)| is_overwritten(&lines[at + 1..], array)).map(|(at, _)| at).collect()
}

fn is_overwritten(lines: &[&str], array: &str) -> bool {
    let target = format!("target<B>({array})");
    for line in lines {
        let names = line
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|name| *name == array)
            .count();
        if names > 0 {
            return names == 1 && is_begun(line) && line.contains(&target);
        }
        if line.matches('{').count() != line.matches('}').count() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "const auto load_1 = load_items<B>(c, 1, target<B>(a_1), x, i, v);\nload_all<B>(c, load_1);\n";
    const B: &str = "const auto load_2 = load_items<B>(c, 2, target<B>(b_2), x, i, v);\nload_all<B>(c, load_2);\n";

    #[test]
    fn loads_in_a_row_wait_together() {
        let text =
            gathered(&format!("{A}#line 2\nauto t_3 = b_cells(c, 2, b_2, n);\n{B}B::sync();\n"));
        assert!(text.ends_with("load_all<B>(c, load_1, load_2);\nB::sync();\n"), "{text}");
        assert_eq!(text.matches("load_all").count(), 1);
    }

    #[test]
    fn a_barrier_or_a_value_stands_between() {
        for between in
            ["B::sync();\n", "auto t_3 = read(c, 2, d(a_1), n);\n", "}\n", "auto x_3 = t_2;\n"]
        {
            let text = gathered(&format!("{A}{between}{B}"));
            let after = format!("load_all<B>(c, load_1);\n{between}");
            assert!(text.contains(&after) && text.ends_with("load_all<B>(c, load_2);\n"), "{text}");
        }
    }

    #[test]
    fn an_array_that_is_overwritten_is_not_filled() {
        let fill = "fill<B>(a_1, v);\n";
        assert!(!gathered(&format!("{fill}auto t_5 = lit(1);\n{A}")).contains("fill"));
        for between in ["use(a_1);\n", "for (;;) {\n", "auto t_2 = b_cells(c, 1, a_1, n);\n"] {
            assert!(gathered(&format!("{fill}{between}{A}")).contains("fill"), "{between}");
        }
        let itself = "const auto load_1 = load_items<B>(c, 1, target<B>(a_1), x, a_1, v);\n";
        assert!(gathered(&format!("{fill}{itself}")).contains("fill"));
        assert!(gathered(fill).contains("fill"));
    }
}

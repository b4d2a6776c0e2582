//! Statements of block level, after barriers are placed: loads that follow each other read together, also before a barrier
//! that stands before them, what a load overwrites is not filled before, and phases come before the values of carries.

/// What begins the statement that waits for loads: of memory that a block does not write, and of other memory.
pub(crate) const EARLY: &str = "load_early<B>(c, ";
pub(crate) const ALL: &str = "load_all<B>(c, ";

/// What begins the value of a carry that may come later.
pub(crate) const LATE: &str = "b_carry_late";

/// A barrier.
pub(crate) const BARRIER: &str = "B::sync();\n";

/// Returns the statement that waits for a load. `early`: the block does not write what it reads.
pub(super) fn statement(load: &str, early: bool) -> String {
    format!("{}{load});", if early { EARLY } else { ALL })
}

/// Returns the load that a statement waits for.
fn waited<'l>(line: &'l str, statement: &str) -> Option<&'l str> {
    line.strip_prefix(statement)?.strip_suffix(");")
}

/// Gathers the loads of a text, line by line.
pub(crate) fn gathered(text: &str) -> String {
    let all: Vec<&str> = text.lines().collect();
    let filled = overwritten(&all);
    let kept = all.iter().enumerate().filter(|(at, _)| !filled.contains(at));
    let lines: Vec<&str> = kept.map(|(_, line)| *line).collect();
    let mut out = String::with_capacity(text.len());
    // The loads that were begun in a row, and whether a barrier stands before them.
    let (mut waiting, mut meet) = (Vec::new(), false);
    let flush = |out: &mut String, waiting: &mut Vec<&str>, meet: &mut bool| {
        if !waiting.is_empty() {
            out.push_str(&format!("load_all<{meet}, B>(c, {});\n", waiting.join(", ")));
        }
        (*waiting, *meet) = (Vec::new(), false);
    };
    for (at, line) in lines.iter().enumerate() {
        if let Some(load) = waited(line, ALL).or_else(|| waited(line, EARLY)) {
            waiting.push(load);
            continue;
        }
        if !goes_on(line) {
            flush(&mut out, &mut waiting, &mut meet);
        }
        if *line == BARRIER.trim_end() && are_early(&lines[at + 1..]) {
            meet = true;
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    flush(&mut out, &mut waiting, &mut meet);
    carried_late(&out)
}

/// Lets phases come before the values of carries, up to the first statement that names them: other blocks have published
/// theirs by then.
fn carried_late(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let late = |line: &&str| line.contains(&format!(" = {LATE}<"));
    let carries: Vec<usize> = (0..lines.len()).filter(|at| late(&lines[*at])).collect();
    for from in carries.into_iter().rev() {
        let mut names = vec![declared(lines[from])];
        let mut to = from + length_of_statement(&lines[from..]);
        let next = to + lines[to..].iter().take_while(|line| is_place(line)).count();
        // The variable of a `let`.
        if let Some(line) = lines.get(next)
            && line
                .strip_suffix(';')
                .is_some_and(|line| line.ends_with(&format!(" = {}", names[0])))
        {
            names.push(declared(line));
            to = next + 1;
        }
        let count = to - from;
        loop {
            let first = to + lines[to..].iter().take_while(|line| is_place(line)).count();
            let passed = &lines[first..][..length_of_statement(&lines[first..])];
            let [start, ..] = passed else { break };
            let is_phase = ["each_item<B>(", "auto ", BARRIER.trim_end()];
            let stays = |line: &&str| {
                line.contains('"')
                    || line.contains("b_offer<")
                    || names.iter().any(|name| mentions(line, name))
            };
            if !is_phase.iter().any(|phase| start.starts_with(phase)) || passed.iter().any(stays) {
                break;
            }
            to = first + passed.len();
        }
        // A carry ends with a barrier.
        let last = lines[from + count..to].iter().rposition(|line| !is_place(line));
        if let Some(at) = last.map(|at| from + count + at)
            && lines[at] == BARRIER.trim_end()
        {
            lines.remove(at);
            to -= 1;
        }
        lines[from..to].rotate_left(count);
    }
    lines.iter().map(|line| line.replace(LATE, "b_carry") + "\n").collect()
}

/// Returns the name of the variable that a line declares.
fn declared(line: &str) -> &str {
    line.strip_prefix("auto ").and_then(|line| line.split(' ').next()).unwrap_or_default()
}

/// Returns the lines of the first statement.
fn length_of_statement(lines: &[&str]) -> usize {
    let mut depth = 0_isize;
    let ends = lines.iter().position(|line| {
        for c in line.chars() {
            depth += match c {
                '(' | '{' | '[' => 1,
                ')' | '}' | ']' => -1,
                _ => 0,
            };
        }
        depth <= 0
    });
    ends.map_or(0, |at| at + 1)
}

/// Whether a line names a variable.
fn mentions(line: &str, name: &str) -> bool {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
}

fn is_place(line: &str) -> bool {
    line.starts_with("#line ")
}

/// Whether loads follow, all of memory that the block does not write.
fn are_early(lines: &[&str]) -> bool {
    let row = lines.iter().filter(|line| !goes_on(line));
    let row = row.take_while(|line| waited(line, ALL).or(waited(line, EARLY)).is_some());
    let mut early = row.map(|line| waited(line, EARLY).is_some()).peekable();
    early.peek().is_some() && early.all(|early| early)
}

/// Whether a line may stand between loads and what waits for them: it is another load, or the place of a statement.
/// Values have statements of their own, which may read what was loaded.
fn goes_on(line: &str) -> bool {
    is_place(line) || is_begun(line) || is_part(line)
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
        assert!(text.ends_with("load_all<false, B>(c, load_1, load_2);\nB::sync();\n"), "{text}");
        assert_eq!(text.matches("load_all").count(), 1);
    }

    #[test]
    fn a_barrier_or_a_value_stands_between() {
        for between in
            ["B::sync();\n", "auto t_3 = read(c, 2, d(a_1), n);\n", "}\n", "auto x_3 = t_2;\n"]
        {
            let text = gathered(&format!("{A}{between}{B}"));
            let after = format!("load_all<false, B>(c, load_1);\n{between}");
            assert!(text.contains(&after), "{text}");
            assert!(text.ends_with("load_all<false, B>(c, load_2);\n"), "{text}");
        }
    }

    #[test]
    fn loads_of_memory_that_a_block_does_not_write_read_before_a_barrier() {
        let [a, b] = [A, B].map(|load| load.replace("load_all", "load_early"));
        let text = gathered(&format!("x;\nB::sync();\n#line 1\n{a}{b}y;\n"));
        assert!(text.ends_with("load_all<true, B>(c, load_1, load_2);\ny;\n"), "{text}");
        assert!(!text.contains("B::sync"), "{text}");
        for others in [format!("{a}{B}"), format!("{A}{b}"), format!("x;\n{a}"), String::new()] {
            let text = gathered(&format!("B::sync();\n{others}"));
            assert!(text.starts_with("B::sync();\n") && !text.contains("true"), "{text}");
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

    #[test]
    fn phases_come_before_the_value_of_a_carry() {
        let carry = "auto t_1 = b_carry_late<B, 0>(c, own_2, [&](auto c) {\nreturn own_2;\n});\n#line 2\nauto before_3 = t_1;\n";
        let phase = "#line 3\neach_item<B>(c, x_4, [&](auto c) {\nx_4 = 1;\n});\nB::sync();\nauto y_5 = x_4;\n";
        let moved = carry.replace("_late", "");
        for rest in [
            "use(before_3);\n",
            "each_item<B>(c, [&](auto c) {\nt_1;\n});\n",
            "}\n",
            "x_4 = 2;\n",
            "b_offer<B, 1>(c);\n",
            "",
        ] {
            let text = gathered(&format!("a;\n{carry}{phase}{rest}"));
            assert_eq!(text, format!("a;\n{phase}{moved}{rest}"));
        }
        let text = gathered(&format!("{carry}{phase}B::sync();\n#line 5\nuse(before_3);\n"));
        assert_eq!(text, format!("{phase}{moved}#line 5\nuse(before_3);\n"));
        let used = phase.replace("= 1", "= before_3");
        assert_eq!(gathered(&format!("{carry}{used}")), format!("{moved}{used}"));
    }
}

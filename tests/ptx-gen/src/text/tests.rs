//! Programs that the compiler gets wrong are not written.

use super::*;

/// What ptxas 13.0 errs in is not written: what it forgets the guard of, results of which it
/// believes what is not so, stores of less than a register that arithmetic of floats has written,
/// the less of one register, and sums of upper halves in a loop.
#[test]
fn what_ptxas_errs_in_is_not_written() {
    let (mut results, mut stores, mut sums) = (0, 0, 0);
    for seed in 0..200 {
        let text = body(&Program::new(seed));
        let lines: Vec<_> = text.lines().map(|line| line.trim().trim_end_matches(';')).collect();
        for (at, line) in lines.iter().enumerate() {
            let here = format!("seed {seed}: {line}");
            let (guard, plain) = match line.split_once(' ') {
                Some((guard, plain)) if guard.starts_with('@') => (guard, plain),
                _ => ("", *line),
            };
            let (words, operands) = plain.split_once(' ').unwrap_or((plain, ""));
            let operands: Vec<_> = operands.split(", ").collect();
            let (first, last) = (operands[0], operands[operands.len() - 1]);
            let opcode = words.split('.').next().unwrap_or_default();
            let forgets = matches!(opcode, "set" | "testp" | "vadd4" | "vsub4")
                && (!opcode.starts_with('v') || words.ends_with(".add"));
            assert!(guard.is_empty() || !forgets, "{here}");
            let of_floats = [".f16", ".bf16", ".f32", ".f64"].iter().any(|ty| words.contains(ty));
            let is_result =
                first.starts_with("%h") || first.starts_with("%r") || first.starts_with("%w");
            let misleads = of_floats
                || words.contains(".sat")
                || matches!(opcode, "set" | "cvt" | "cnot" | "abs" | "neg")
                    // Not the conversion that stands before some sums.
                    && first != "%t0";
            let two = first.contains('|') && opcode == "setp" && !first.starts_with("%q");
            if misleads && is_result || two {
                results += 1;
                let first = first.split(['|', '.']).next().unwrap_or_default();
                let first = if two { "%t0" } else { first };
                let hidden = format!(" {first}, {first}, %zero");
                assert!(
                    lines[at + 1..].iter().take(6).any(|line| line.contains(&hidden)),
                    "{here}"
                );
            }
            if opcode == "st" && words.ends_with('8') {
                stores += 1;
                for one in operands[1..].iter().map(|one| one.trim_matches(['{', '}'])) {
                    let hidden = |line: &&str| {
                        line.contains(&format!(" {one}, ")) && line.contains(", %zero")
                    };
                    assert!(lines[at.saturating_sub(4)..at].iter().any(hidden), "{here}");
                }
            }
            let is_sum = opcode.starts_with("mad")
                && words.contains(".hi.")
                && (words.ends_with("32") || words.ends_with("16"));
            if is_sum && opcode != "mad24"
                || of_floats && matches!(opcode, "min" | "max") && !words.ends_with("f64")
            {
                sums += 1;
                assert!(last.starts_with("%t"), "{here}");
            }
        }
    }
    assert!(results > 3000 && stores > 50 && sums > 200, "{results} {stores} {sums}");
}

/// What a branch is taken on is no predicate of the program, which the compiler would believe to stay.
#[test]
fn branches_are_on_predicates_of_their_own() {
    let text: String = (0..200).map(|seed| body(&Program::new(seed))).collect();
    let guarded = |line: &&str| line.starts_with("\t@") && line.contains(" bra ");
    let branches: Vec<_> = text.lines().filter(guarded).collect();
    assert!(branches.len() > 100);
    for branch in branches {
        assert!(branch.trim_start_matches(['\t', '@', '!']).starts_with("%q"), "{branch}");
    }
}

/// Where lanes wait for a lock apart, a count that all lanes begin alike is not each lane's.
#[test]
fn loops_begin_with_what_is_not_known() {
    let text: String = (0..200).map(|seed| body(&Program::new(seed))).collect();
    let begins = text.lines().filter(|line| line.contains("mov.u32 %count"));
    assert!(begins.clone().count() > 50);
    assert!(begins.clone().all(|line| line.ends_with(", %zero;")));
}

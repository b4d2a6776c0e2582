//! What test programs print of failed tests, repeated beside the result: in the middle of the output nobody finds it, and
//! who is sent only the end never sees it.

/// The most lines of one test program that are kept: the last, which name every failed test.
const LINES: usize = 60;

/// Collects what test programs print between `failures:` and their result, as Rust's own harness and `libtest-mimic` do:
/// the messages of failed tests, then the names.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Of the programs that ended.
    lines: Vec<String>,
    /// Of the program that prints its failures now.
    now: Option<Vec<String>>,
}

impl Failures {
    /// Takes in the next line of the output.
    pub(crate) fn read(&mut self, line: &str) {
        match &mut self.now {
            Some(now) if !line.starts_with("test result: ") => now.push(line.to_owned()),
            Some(_) => self.end(),
            None if line == "failures:" => self.now = Some(Vec::new()),
            None => {}
        }
    }

    /// Ends the output of a program, also of one that died before its result.
    pub(crate) fn end(&mut self) {
        let now = self.now.take().unwrap_or_default();
        self.lines.extend(now.into_iter().rev().take(LINES).rev());
    }

    /// The lines that were kept.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(output: &[&str]) -> Vec<String> {
        let mut failures = Failures::default();
        output.iter().for_each(|line| failures.read(line));
        failures.end();
        failures.lines
    }

    #[test]
    fn the_failures_of_all_programs_are_kept() {
        let output = [
            "test one ... FAILED",
            "failures:",
            "---- one ----",
            "left: 1",
            "failures:",
            "    one",
            "test result: FAILED. 1 passed; 1 failed",
            "test result: ok. 1 passed; 0 failed",
            "failures:",
            "    two",
            "test result: FAILED. 0 passed; 1 failed",
            "slowest: none",
        ];
        assert_eq!(kept(&output), ["---- one ----", "left: 1", "failures:", "    one", "    two"]);
    }

    #[test]
    fn a_program_that_dies_keeps_what_it_said_last() {
        let mut output = vec!["failures:"];
        output.extend(["a line"; LINES + 5]);
        output.push("the last");
        let kept = kept(&output);
        assert_eq!(kept.len(), LINES);
        assert_eq!(kept.last().map(String::as_str), Some("the last"));
    }

    #[test]
    fn what_passes_is_not_repeated() {
        assert_eq!(kept(&["test one ... ok", "test result: ok. 1 passed; 0 failed"]), [""; 0]);
    }
}

//! Programs that must not compile, by trybuild.

use std::env;
use std::process::Command;

/// Cargo takes these flags in place of all others.
const VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";

/// trybuild's flags for programs.
const FLAGS: [&str; 5] =
    ["--cfg=trybuild", "--verbose", "-A", "dead_code", "--diagnostic-width=140"];

/// Runs a test of the running program again, in a process whose cargo has trybuild's flags, and returns `true`; returns
/// `false` in that process. By itself trybuild sets the last flag for programs alone, and cargo checks all that they
/// depend on twice.
pub fn runs_apart(test: &str) -> bool {
    if env::var_os(VARIABLE).is_some() {
        return false;
    }
    let program = env::current_exe().expect("the running program has a path");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(VARIABLE, FLAGS.join("\u{1f}"));
    let output = command.output().expect("the running program can be run again");
    let [printed, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    // Not at the beginnings of lines, where results of tests are counted.
    printed.lines().chain(errors.lines()).for_each(|line| println!("  {line}"));
    assert!(output.status.success(), "{test}: {}", output.status);
    // No test of this name would be a success, too.
    assert!(printed.contains("1 passed"), "there is no test {test}");
    true
}

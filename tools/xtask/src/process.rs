//! Runs other programs: shows their output, and describes a failure in a sentence.

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use xtask::{Error, root};

use crate::failures::Failures;
use crate::tally::Tally;

/// The environment variable that names the folder that setup filled.
const SETUP_VARIABLE: &str = "CUDA_SETUP_DIR";

/// A program that finds what setup fetched, wherever it lies and cargo builds.
///
/// The `nvrtc` crate looks for the folder above the running program and nowhere else unless this variable names it. The
/// user's setting stays.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    if env::var_os(SETUP_VARIABLE).is_none_or(|value| value.is_empty()) {
        command.env(SETUP_VARIABLE, xtask::wheels::store());
    }
    command
}

/// The cargo that runs us, in the workspace's root, without standard input.
pub(crate) fn cargo() -> Command {
    let mut cargo = program(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(root()).stdin(Stdio::null());
    cargo
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> std::path::PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Runs `command` to its end, its output shown.
///
/// # Errors
/// It could not be started.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, Error> {
    command.status().map_err(|error| cannot_start(command, &error))
}

/// Whether `command`, its output shown, ends well.
///
/// # Errors
/// It could not be started.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool, Error> {
    Ok(status(command)?.success())
}

/// The most lines that [`last_errors`] returns.
const LAST_LINES: usize = 30;

/// Runs `command` to its end, its output shown, and returns whether it ended well, and the last lines of its error output.
///
/// # Errors
/// It could not be started, or its output not be read.
pub(crate) fn last_errors(command: &mut Command) -> Result<(bool, Vec<String>), Error> {
    let mut child =
        command.stderr(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let mut last = VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.map_err(|error| format!("{}: {error}", shown(command)))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            eprintln!("{line}");
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
    let status = child.wait().map_err(|error| format!("{}: {error}", shown(command)))?;
    Ok((status.success(), last.into()))
}

/// Runs `command`, its error output shown, and returns its standard output.
///
/// # Errors
/// It could not be started or ended with a failure.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{}: {}", shown(command), output.status).into())
    }
}

/// Runs `command` to its end, its error output shown, and returns its standard output whether it ends well or not.
///
/// # Errors
/// It could not be started.
pub(crate) fn printed(command: &mut Command) -> Result<String, Error> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_start(command, &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs test programs, sums up the results that they print, and adds what they say of failed tests. `show` is given each line
/// of their output.
///
/// # Errors
/// The command could not be started, or its output not be read.
pub(crate) fn counting(
    command: &mut Command,
    failures: &mut Failures,
    mut show: impl FnMut(&str),
) -> Result<(ExitStatus, Tally), Error> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        // Bytes, not lines of text: a test may print anything.
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|error| format!("{}: {error}", shown(command)))?;
            let line = String::from_utf8_lossy(&line);
            show(&line);
            failures.read(&line);
            if let Some(counted) = Tally::of_libtest_line(&line) {
                tally += counted;
            }
        }
    }
    failures.end();
    let status = child.wait().map_err(|error| format!("{}: {error}", shown(command)))?;
    Ok((status, tally))
}

/// A program's name and arguments, for messages.
fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Error {
    format!("cannot run `{}`: {error}", shown(command)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_finds_what_setup_fetched() {
        let named = |command: &Command| {
            let mut set = command.get_envs().filter(|(name, _)| *name == SETUP_VARIABLE);
            set.next().and_then(|(_, value)| value.map(OsStr::to_owned))
        };
        let wanted = match env::var_os(SETUP_VARIABLE).filter(|value| !value.is_empty()) {
            Some(_) => None,
            None => Some(root().join("target/cuda").into_os_string()),
        };
        assert_eq!(named(&cargo()), wanted);
        assert_eq!(named(&program("any")), wanted);
    }

    #[test]
    fn the_last_errors_are_those_at_the_end() -> Result<(), Error> {
        let shell = |text: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", text]);
            last_errors(&mut shell)
        };
        assert_eq!(shell("echo out; echo one >&2")?, (true, vec!["one".to_owned()]));
        let (passed, lines) = shell("seq 100 >&2; exit 3")?;
        assert!(!passed);
        assert_eq!(lines, (71..=100).map(|line| line.to_string()).collect::<Vec<_>>());
        Ok(())
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let mut command = Command::new("no-such-program-of-this-project");
        command.arg("--flag");
        let Err(error) = succeeds(&mut command) else {
            panic!("a program that does not exist was run");
        };
        let message = error.to_string();
        assert!(
            message.starts_with("cannot run `no-such-program-of-this-project --flag`: "),
            "{message}"
        );
    }
}

//! The programs under NVIDIA's compute-sanitizer, on a GPU.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rayon::prelude::*;

use super::program::{CHILD, Program, Tool, Verdict};
use super::table::PROGRAMS;
use test_harness::{Failure, Outcome, TestResult, ensure_eq, limited};

/// The option that compares; the folder for what the sanitizer says follows.
pub(super) const COMMAND: &str = "--sanitizer";

/// Where it is looked for after `PATH`.
const PLACES: [&str; 2] = [
    "/usr/local/cuda/bin/compute-sanitizer",
    "/usr/local/cuda/compute-sanitizer/compute-sanitizer",
];

/// Programs that run at the same time.
const TOGETHER: usize = 16;

/// The first port that a sanitizer and its program talk by, and how many each gets.
const PORTS: (usize, usize) = (50_000, 20);

/// NVIDIA's compute-sanitizer on this machine.
#[derive(Debug)]
pub struct Sanitizer {
    path: PathBuf,
    /// What it says of its options: they differ from version to version.
    help: String,
}

pub(super) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let Some(folder) = arguments.next() else {
        eprintln!("{COMMAND} needs a folder");
        return ExitCode::from(2);
    };
    match compare(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("not compared: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Runs all programs, prints what was said, and tells whether all of it is as the table says.
fn compare(folder: &Path) -> Result<bool, Failure> {
    std::fs::create_dir_all(folder)?;
    let sanitizer = Sanitizer::find()?;
    std::fs::write(folder.join("help.txt"), &sanitizer.help)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(TOGETHER).build()?;
    let said: Vec<_> = pool.install(|| {
        let numbered = PROGRAMS.par_iter().enumerate();
        numbered.map(|(at, program)| sanitizer.judge(program, at, folder)).collect()
    });
    println!("{}", sanitizer.version()?);
    println!(
        "{:<28}{:<6}{:<10}{:<16}{:<16}",
        "program", "tool", "software", "expected", "sanitizer"
    );
    let (mut agree, mut wrong) = (0, 0);
    for (program, said) in PROGRAMS.iter().zip(said) {
        let note = match &said {
            Ok(said) if *said == program.theirs => program.why,
            Ok(_) => "<-- not as expected",
            Err(_) => "<-- no verdict",
        };
        match &said {
            Ok(said) if *said == program.theirs => agree += usize::from(*said == program.ours),
            _ => wrong += 1,
        }
        let said = said.map_or_else(|failure| failure.to_string(), |said| format!("{said:?}"));
        println!(
            "{:<28}{:<6}{:<10}{:<16}{said:<16}{note}",
            program.name,
            format!("{:?}", program.tool),
            format!("{:?}", program.ours),
            format!("{:?}", program.theirs),
        );
    }
    println!("{} programs; both say the same of {agree}; {wrong} not as expected", PROGRAMS.len());
    Ok(wrong == 0)
}

impl Sanitizer {
    /// Finds it on `PATH`, then where NVIDIA's toolkit installs it.
    ///
    /// # Errors
    /// There is none, or it can't be started.
    pub fn find() -> Result<Self, Failure> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let listed = std::env::split_paths(&paths).map(|folder| folder.join("compute-sanitizer"));
        let path = listed.chain(PLACES.map(PathBuf::from)).find(|path| path.is_file());
        let path = path.ok_or_else(|| Failure::new("no compute-sanitizer on this machine"))?;
        let output = Command::new(&path).arg("--help").stdin(Stdio::null()).output()?;
        let help =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        Ok(Self { path, help: help.into_owned() })
    }

    /// Returns the line with its version.
    ///
    /// # Errors
    /// It can't be started.
    pub fn version(&self) -> Result<String, Failure> {
        let output = Command::new(&self.path).arg("--version").stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("ersion"));
        Ok(line.unwrap_or("a sanitizer without a version").trim().to_owned())
    }

    /// Returns the command with those of the options that this version knows.
    pub fn command<'a>(&self, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Command {
        let mut command = Command::new(&self.path);
        for (option, value) in options {
            if self.help.contains(option) {
                command.args([option, value]);
            }
        }
        command
    }

    /// What it says of a program.
    fn judge(&self, program: &Program, at: usize, folder: &Path) -> Result<Verdict, Failure> {
        let port = (PORTS.0 + at * PORTS.1).to_string();
        // What a version does not know is left out; what it then says is in the table.
        let options = options(program.tool).into_iter().chain([("--base-port", &*port)]);
        let mut command = self.command(options);
        command.arg(std::env::current_exe()?).args([CHILD, program.name, "gpu"]);
        let shown = format!("{command:?}");
        let Outcome { status, stdout, stderr } = limited(command)?;
        let file = folder.join(format!("{}.txt", program.name));
        std::fs::write(file, format!("{shown}\n{status}\n{stdout}{stderr}"))?;
        count(program.tool, &stdout)
            .map(|count| Verdict::of(count > 0))
            .ok_or_else(|| Failure::new(format!("no summary, {status}")))
    }
}

fn options(tool: Tool) -> Vec<(&'static str, &'static str)> {
    match tool {
        Tool::Race => vec![("--tool", "racecheck"), ("--racecheck-report", "all")],
        Tool::Init => vec![("--tool", "initcheck"), ("--initcheck-address-space", "all")],
        Tool::Leak => vec![("--tool", "memcheck"), ("--leak-check", "full")],
    }
}

/// How much the summary of a tool counts.
fn count(tool: Tool, text: &str) -> Option<u64> {
    let (summary, unit) = match tool {
        Tool::Race => ("RACECHECK SUMMARY:", "hazard"),
        Tool::Init => ("ERROR SUMMARY:", "error"),
        Tool::Leak => ("LEAK SUMMARY:", "byte"),
    };
    let (_, rest) = text.split_once(summary)?;
    let mut words = rest.lines().next()?.split_whitespace();
    let count = words.next()?.parse().ok()?;
    words.next()?.starts_with(unit).then_some(count)
}

/// What each tool writes at its end is understood.
pub(super) fn summaries_are_read() -> TestResult {
    let race = "=========\n========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n";
    ensure_eq!(count(Tool::Race, race), Some(2));
    let init = "========= Uninitialized __global__ memory read\n========= ERROR SUMMARY: 1 error";
    ensure_eq!(count(Tool::Init, init), Some(1));
    let leak = "========= LEAK SUMMARY: 1024 bytes leaked in 1 allocations\n";
    ensure_eq!(count(Tool::Leak, &format!("{leak}========= ERROR SUMMARY: 1 error\n")), Some(1024));
    for nothing in ["", "========= Error: No attachable process found.", "ERROR SUMMARY: many"] {
        ensure_eq!(count(Tool::Init, nothing), None, "{nothing}");
    }
    Ok(())
}

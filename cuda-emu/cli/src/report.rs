//! The report of a run: collected from the processes of the program, and written as text and as JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_emu::{KernelRun, RunReport};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::child::Ended;
use crate::error::Error;

/// Where the report goes beside standard error.
enum Target {
    Nowhere,
    Output,
    File(PathBuf, File),
}

/// A report that is being collected.
pub(crate) struct Collected {
    folder: TempDir,
    target: Target,
}

impl Collected {
    /// Makes a place for the processes' reports, and opens the file for the JSON.
    ///
    /// # Errors
    /// [`Error::File`] if one cannot be written.
    pub(crate) fn begin(file: Option<&Path>) -> Result<Self, Error> {
        let target = match file {
            None => Target::Nowhere,
            Some(path) if path == Path::new("-") => Target::Output,
            Some(path) => {
                // The old content stays until there is a new one.
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
                let file = opened.map_err(|error| Error::File {
                    what: "write the report",
                    path: path.into(),
                    error,
                })?;
                Target::File(path.into(), file)
            }
        };
        let folder = tempfile::Builder::new().prefix("cuda-emu-").tempdir().map_err(|error| {
            Error::File { what: "create a folder in", path: std::env::temp_dir(), error }
        })?;
        Ok(Self { folder, target })
    }

    /// Sets the variable by which the device writes its part.
    pub(crate) fn set(&self, command: &mut Command) {
        command.env("CUDA_EMU_REPORT", self.folder.path());
    }

    /// Writes the report. What cannot be written is reported on standard error: the program has run.
    pub(crate) fn finish(self, ended: Ended) {
        let report = match RunReport::read(self.folder.path()) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("cuda-emu: the report cannot be read: {error}");
                return;
            }
        };
        // Standard error may be closed.
        let _ = write_text(&report, &mut io::stderr().lock());
        let mut text = format!("{:#}", to_json(&report, ended));
        text.push('\n');
        let (path, written) = match self.target {
            Target::Nowhere => return,
            Target::Output => (PathBuf::from("-"), io::stdout().lock().write_all(text.as_bytes())),
            Target::File(path, file) => (path, replace(file, text.as_bytes())),
        };
        if let Err(error) = written {
            eprintln!("cuda-emu: the report cannot be written to {}: {error}", path.display());
        }
    }
}

/// Replaces the content of a file. What is no regular file, such as a pipe, only takes the new content.
fn replace(mut file: File, content: &[u8]) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    file.write_all(content)
}

fn write_text(report: &RunReport, to: &mut dyn Write) -> io::Result<()> {
    let text = report.to_string();
    let mut lines = text.lines();
    writeln!(to, "cuda-emu: {}", lines.next().unwrap_or_default())?;
    lines.try_for_each(|line| writeln!(to, "  {line}"))
}

/// Returns the report as JSON.
fn to_json(report: &RunReport, ended: Ended) -> Value {
    let processes =
        report.processes.iter().map(|(id, program)| json!({"id": id, "program": program}));
    let refused = report.refused.iter().map(|(why, count)| json!({"why": why, "count": count}));
    let decided = report.reached.iter().map(
        |at| json!({"what": at.what, "kernel": at.kernel, "place": at.place, "count": at.count}),
    );
    let findings = report
        .findings
        .iter()
        .map(|found| json!({"check": found.check, "text": found.text, "count": found.count}));
    let failed = report
        .failed
        .iter()
        .map(|(function, code, count)| json!({"function": function, "code": code, "count": count}));
    let unsupported = report
        .unsupported
        .iter()
        .map(|(function, count)| json!({"function": function, "count": count}));
    json!({
        "ended": {"status": ended.status(), "signal": ended.signal()},
        "processes": processes.collect::<Vec<_>>(),
        "kernels": report.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
        "approximate_values": {"followed": report.traced, "decided": decided.collect::<Vec<_>>()},
        "checkers": {"race": report.checks.race, "init": report.checks.init, "leak": report.checks.leak},
        "findings": findings.collect::<Vec<_>>(),
        "faults": report.faults,
        "failed_calls": failed.collect::<Vec<_>>(),
        "unsupported_functions": unsupported.collect::<Vec<_>>(),
    })
}

fn kernel(kernel: &KernelRun) -> Value {
    let approximate = kernel
        .approximate
        .iter()
        .map(|(name, (count, bound))| json!({"instruction": name, "count": count, "bound": bound}));
    json!({
        "name": kernel.name,
        "launches": kernel.launches,
        "blocks": kernel.blocks,
        "threads": kernel.threads,
        "seconds": kernel.time.as_secs_f64(),
        "instructions": {
            "all": kernel.instructions,
            "exact": kernel.exact(),
            "approximate": kernel.approximate(),
        },
        "approximate": approximate.collect::<Vec<_>>(),
    })
}

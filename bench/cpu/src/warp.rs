//! Warp's CPU device: a child process that runs the rows one at a time, so that they take turns with ours.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PROGRAM: &str = include_str!("warp.py");

/// The child process.
pub(crate) struct Warp {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Warp {
    /// Starts Python with the packages in `path`. The inputs are in `folder`.
    pub(crate) fn start(path: &str, folder: &Path) -> Result<Self, Box<dyn Error>> {
        // Warp reads the sources of kernels from their file.
        let program = folder.join("warp_rows.py");
        std::fs::write(&program, PROGRAM)?;
        let mut command = Command::new("python3");
        command.arg(program).arg(folder).env("PYTHONPATH", path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (to, from) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        Ok(Self { child, to, from: BufReader::new(from) })
    }

    /// Runs a row. Returns its seconds of processor time, or `None` if Warp has no such row.
    ///
    /// # Errors
    /// A result differs from ours, or the process has ended.
    pub(crate) fn run(&mut self, name: &str) -> Result<Option<f64>, Box<dyn Error>> {
        writeln!(self.to, "{name}")?;
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line)? == 0 {
                return Err(format!("Warp has ended in {name}").into());
            }
            // Warp prints about itself, too.
            if let Some(result) = line.trim().strip_prefix("result ") {
                return Ok(if result == "none" { None } else { Some(result.parse()?) });
            }
        }
    }
}

impl Drop for Warp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

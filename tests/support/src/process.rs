//! Child processes with a time limit.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// The variable that replaces every time limit, in seconds.
const LIMIT_VARIABLE: &str = "TEST_CHILD_SECONDS";

/// How long the output may stay open after the process has ended.
const CLOSING: Duration = Duration::from_secs(5);

/// The output of a process.
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end and collects its output. After the time limit it kills the command and all
/// processes that the command has started: they form a process group.
///
/// The variable `TEST_CHILD_SECONDS` replaces the limit.
pub fn limited_to(mut command: Command, seconds: u64) -> Result<Outcome, Failure> {
    let asked = std::env::var(LIMIT_VARIABLE).ok().and_then(|text| text.parse().ok());
    let limit = Duration::from_secs(asked.unwrap_or(seconds));
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > limit {
            kill(&mut child);
            child.wait()?;
            let text = received(&stdout) + &received(&stderr);
            return Err(Failure::new(format!("killed after {} s\n{text}", limit.as_secs())));
        }
        thread::sleep(Duration::from_millis(5));
    };
    let (Ok(stdout), Ok(stderr)) = (stdout.recv_timeout(CLOSING), stderr.recv_timeout(CLOSING))
    else {
        kill(&mut child);
        return Err(Failure::new(format!("ended with {status}, and left a process behind")));
    };
    Ok(Outcome { status, stdout, stderr })
}

/// Reads a pipe to its end in a thread: a child that fills a pipe without a reader would never end.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (give, take) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // The text read before a failure is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // After a time limit there is no receiver.
        let _ = give.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    take
}

fn received(output: &Receiver<String>) -> String {
    output.recv_timeout(CLOSING).unwrap_or_default()
}

/// Kills the child's process group.
#[cfg(unix)]
fn kill(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: no memory is involved. The group is the child's: either the child is not waited for yet, or
        // a member of its group holds a pipe open, so the number belongs to no other group.
        let _ = unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Kills the child.
#[cfg(not(unix))]
fn kill(child: &mut Child) {
    // It may have ended by now.
    let _ = child.kill();
}

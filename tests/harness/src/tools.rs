//! Programs of others, which few machines have.

use std::process::{Command, Stdio};

/// NanoVDB's own check of files, of version 32.3 or later.
const VALIDATE: &str = "nanovdb_validate";

/// A call of it.
pub fn nanovdb_validate() -> Command {
    let mut command = Command::new(VALIDATE);
    command.stdin(Stdio::null());
    command
}

/// Why the tier of tools can't run here.
pub(super) fn why_not() -> Option<String> {
    let error = nanovdb_validate().arg("--version").output().err()?;
    Some(format!("{VALIDATE} of NanoVDB is not installed ({error})"))
}

//! `cargo xtask env`: the variables with which any program runs on this checkout's software device.

use std::path::Path;

use xtask::{Error, root};

use crate::process;
use crate::setup::{self, Major};

/// Builds the device, fetches NVRTC if it is absent, and prints a line for each variable, for `eval` of a shell.
/// Standard output has nothing else.
///
/// # Errors
/// NVRTC could not be downloaded, or cargo could not be run.
pub(crate) fn env() -> Result<bool, Error> {
    let file = format!("{}cuda_emu{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let device = process::target().join("release").join(file);
    let mut build = process::cargo();
    build.args(["build", "--quiet", "--release", "--package", "cuda-emu"]);
    if !process::succeeds(build.stdout(std::io::stderr()))? {
        return Ok(false);
    }
    setup::fetch_all(Major::Thirteen)?;
    println!("{}", export("CUDA_DRIVER", &device));
    println!("{}", export("CUDA_SETUP_DIR", &root().join("target/cuda")));
    Ok(true)
}

/// Returns the line that sets a variable.
fn export(name: &str, path: &Path) -> String {
    let path = path.display().to_string();
    match cfg!(windows) {
        true => format!("$env:{name} = '{}'", path.replace('\'', "''")),
        false => format!("export {name}='{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_lines() {
        for path in ["/a/b", "/with blank/it's", "/$HOME/`x`\"\\"] {
            let script = format!("{}; printf %s \"$X\"", export("X", Path::new(path)));
            let output = std::process::Command::new("sh").args(["-c", &script]).output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            assert_eq!(text.ok().as_deref(), Some(path));
        }
    }
}

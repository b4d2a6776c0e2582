//! NVTX with a tool attached, without a tool, and with a tool that refuses.
//!
//! A process looks for a tool once, so each case runs in a process of its own: this program again,
//! with [`work`] alone.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_safe::nvtx::{self, Domain};

/// The cases.
#[test]
#[ignore = "run by the others, each in a process of its own"]
fn work() {
    let outer = nvtx::range("outer");
    {
        let _inner = nvtx::range("inner, mit Umlauten: äöü, 輪");
        nvtx::mark("with a \0 inside");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| drop(nvtx::range("on a thread")));
    });
    let domain = Domain::new("a domain");
    let range = domain.range("in the \0 domain");
    domain.mark("of the domain");
    nvtx::mark("");
    drop(range);
    drop(domain);
    drop(outer);
}

/// Everything that [`work`] does, in order.
const WORK: &str = "push outer
push inner, mit Umlauten: äöü, 輪
mark with a ␀ inside
pop
push on a thread
pop
create a domain
0x70 push in the ␀ domain
0x70 mark of the domain
mark 
0x70 pop
destroy 0x70
pop
";

/// A folder for one test's files.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nvtx-{name}"));
    // It may not be there.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Compiles the tool.
fn tool(folder: &Path) -> PathBuf {
    let library = folder.join(format!(
        "{}nvtx_tool{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvtx_tool/tool.rs");
    let status = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .args([&library, &source])
        .status()
        .expect("rustc runs");
    assert!(status.success());
    library
}

/// Runs [`work`] with these variables, and reads what the tool has written.
fn run(folder: &Path, variables: &[(&str, &OsStr)]) -> String {
    let log = folder.join("log");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "work", "--ignored", "--nocapture"])
        .env_remove("NVTX_INJECTION64_PATH")
        .env("NVTX_TOOL_LOG", &log)
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
    std::fs::read_to_string(&log).unwrap_or_default()
}

#[test]
fn a_tool_hears_of_everything_in_order() {
    let folder = folder("tool");
    let tool = tool(&folder);
    let heard = run(&folder, &[("NVTX_INJECTION64_PATH", tool.as_os_str())]);
    assert_eq!(heard, format!("attached\n{WORK}"));
}

#[test]
fn a_tool_that_refuses_hears_nothing_more() {
    let folder = folder("refuses");
    let tool = tool(&folder);
    let heard = run(
        &folder,
        &[("NVTX_INJECTION64_PATH", tool.as_os_str()), ("NVTX_TOOL_REFUSES", OsStr::new("1"))],
    );
    assert_eq!(heard, "attached\n");
}

#[test]
fn without_a_tool_nothing_happens() {
    let folder = folder("none");
    assert_eq!(run(&folder, &[]), "");
    let nowhere = folder.join("nowhere");
    assert_eq!(run(&folder, &[("NVTX_INJECTION64_PATH", nowhere.as_os_str())]), "");
    // A library, but no tool.
    let stranger = folder.join("log");
    std::fs::write(&stranger, "").expect("written");
    assert_eq!(run(&folder, &[("NVTX_INJECTION64_PATH", stranger.as_os_str())]), "");
}

//! `Driver::load()`, which reads the environment: each case runs in a separate process.
#![cfg(unix)]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use cuda_safe_sys::Driver;

type Outcome = Result<(), Box<dyn Error>>;

/// In the child: a library to copy to the path in `CUDA_DRIVER` after the first call.
const LATER: &str = "CUDA_SYS_TEST_LATER";

/// Returns the results of three calls of `Driver::load()` in a process with these variables.
fn answers(driver: Option<&Path>, later: Option<&Path>) -> Result<Vec<String>, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--exact", "answer_as_child", "--ignored", "--nocapture"]);
    for (variable, value) in [("CUDA_DRIVER", driver), (LATER, later)] {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    let answers: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("ANSWER ")).collect();
    if answers.len() != 3 {
        return Err(format!("the child answered otherwise: {text}").into());
    }
    Ok(answers.into_iter().map(str::to_owned).collect())
}

#[test]
#[ignore = "the child process of the other tests"]
fn answer_as_child() -> Outcome {
    let mut first: Option<&Driver> = None;
    println!(); // The harness has begun a line.
    for _ in 0..3 {
        match Driver::load() {
            Ok(driver) => {
                let same = std::ptr::eq(*first.get_or_insert(driver), driver);
                println!("ANSWER loaded {} same={same}", driver.source());
            }
            Err(error) => {
                let tried = error.tried().iter().map(|attempt| attempt.name().to_string_lossy());
                println!("ANSWER tried {}", tried.collect::<Vec<_>>().join(" "));
            }
        }
        if let (Some(later), Some(driver)) = (env::var_os(LATER), env::var_os("CUDA_DRIVER"))
            && !Path::new(&driver).exists()
        {
            fs::copy(later, driver)?;
        }
    }
    Ok(())
}

#[test]
fn the_environment_names_the_only_library_to_try() -> Outcome {
    let nowhere = Path::new("/nowhere/libcuda.so");
    assert_eq!(answers(Some(nowhere), None)?, ["tried /nowhere/libcuda.so"; 3]);
    Ok(())
}

#[test]
fn a_failure_is_not_remembered_and_a_success_is() -> Outcome {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("driver.c");
    let later = folder.path().join("later.so");
    let path = folder.path().join("libcuda.so.1");
    fs::write(&source, "int cuInit(unsigned flags) { (void)flags; return 0; }")?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let arguments = [Path::new("-shared"), Path::new("-fPIC"), Path::new("-o"), &later, &source];
    if !Command::new(compiler).args(arguments).status()?.success() {
        return Err("the C compiler failed".into());
    }
    let shown = path.display();
    let loaded = format!("loaded {shown} same=true");
    assert_eq!(
        answers(Some(&path), Some(&later))?,
        [format!("tried {shown}"), loaded.clone(), loaded]
    );
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn the_versioned_name_comes_before_the_stub() -> Outcome {
    for answer in answers(None, None)? {
        // With a driver one of the first two loads; without one all are tried and named.
        let wanted = [
            "tried libcuda.so.1 /usr/lib/wsl/lib/libcuda.so.1 libcuda.so",
            "loaded libcuda.so.1 same=true",
            "loaded /usr/lib/wsl/lib/libcuda.so.1 same=true",
        ];
        assert!(wanted.contains(&answer.as_str()), "{answer}");
    }
    Ok(())
}

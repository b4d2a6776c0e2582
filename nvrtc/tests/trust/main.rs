//! Attacks on the search for NVRTC and on the cache: only the files that `docs/trust.md` allows may be loaded and
//! deleted by name.
//!
//! Each attack runs in a child process with a time limit, with an NVRTC that `cc` builds from `fake.c`. A test that
//! needs two users needs root; where it can't run it is reported as ignored, with the reason in its name.
#![cfg(unix)]

mod attack;
mod cache;
mod search;

use libtest_mimic::{Arguments, Failed, Trial};

pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The requirements of a test, besides a C compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// Root, to act as two users.
    Root,
    /// A system without an NVRTC of its own, which would be found first.
    Bare,
    /// Both of the above.
    BareAndRoot,
    /// A `python3`, and no NVRTC of the system's.
    Python,
}

pub(crate) type Test = (&'static str, Needs, fn() -> Outcome);

fn main() {
    if attack::is_child() {
        attack::child();
        return;
    }
    let compiler = attack::library().map(|_| ()).map_err(|error| error.to_string());
    let bare = compiler.is_ok() && attack::is_bare().unwrap_or(false);
    let root = attack::is_root();
    let python = attack::python().is_some();
    let mut trials = Vec::new();
    for (name, needs, test) in [search::TESTS, cache::TESTS].concat() {
        let searched = matches!(needs, Needs::Bare | Needs::BareAndRoot | Needs::Python);
        let missing = if let Err(error) = &compiler {
            Some(format!("no C compiler: {error}"))
        } else if searched && !bare {
            Some("this system has an NVRTC, which is found first".to_owned())
        } else if matches!(needs, Needs::Root | Needs::BareAndRoot) && !root {
            Some("needs root, to act as two users".to_owned())
        } else if needs == Needs::Python && !python {
            Some("there is no python3".to_owned())
        } else {
            None
        };
        trials.push(match missing {
            None => Trial::test(name, move || test().map_err(|e| Failed::from(e.to_string()))),
            Some(reason) => {
                let error = reason.clone();
                Trial::test(format!("{name} (not run: {reason})"), move || Err(error.into()))
                    .with_ignored_flag(true)
            }
        });
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

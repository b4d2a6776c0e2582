//! The attack suite: programs in safe code that try to break what `docs/soundness.md` guarantees. `README.md` says how
//! to add one.

mod attack;
mod attacks;
mod declared;
mod framework;
mod lab;
mod soundness;
mod sources;
mod targets;
mod witness;

use std::process::ExitCode;

use test_harness::Suite;

fn main() -> ExitCode {
    let cases = [attack::cases(), soundness::cases(), sources::cases(), targets::cases()].concat();
    let suite =
        Suite { commands: vec![attack::command], ..Suite::new("-p attacks --test attacks", cases) };
    test_harness::main(suite, Vec::new())
}

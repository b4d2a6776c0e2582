//! Prints programs as a module: the first seed, and how many.

use std::process::ExitCode;

use ptx_gen::{Ending, Form, Pairs, Program, Smooth, Spelled};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let pairs = arguments.next_if_eq("--pairs").is_some();
    let smooth = arguments.next_if_eq("--smooth").is_some();
    let spelled = arguments.next_if_eq("--spelled").is_some();
    let numbers: Result<Vec<u64>, _> = arguments.map(|text| text.parse()).collect();
    let (first, count) = match numbers.as_deref() {
        Ok([first]) => (*first, 1),
        Ok([first, count]) => (*first, *count),
        _ => {
            eprintln!("ptx-gen [--pairs | --smooth | --spelled] SEED [COUNT]");
            return ExitCode::from(2);
        }
    };
    let seeds = first..first.saturating_add(count);
    if pairs {
        print!("{}", Pairs::module(&seeds.map(Pairs::new).collect::<Vec<_>>(), Form::Bare));
    } else if spelled {
        print!("{}", Spelled::module(&seeds.map(Spelled::new).collect::<Vec<_>>()));
    } else if smooth {
        // Each is a module.
        seeds.for_each(|seed| println!("// Seed {seed}\n{}", Smooth::new(seed).text));
    } else {
        let programs: Vec<_> = seeds.map(Program::new).collect();
        print!("{}", ptx_gen::module(&programs, Ending::Hash));
    }
    ExitCode::SUCCESS
}

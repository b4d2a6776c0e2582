//! Kernels in Rust: the same function on the CPU and on a device, with the same bits. `--compare` measures them beside
//! kernels in C++ by hand.

mod arguments;
mod compare;
mod data;
mod run;

use arguments::Arguments;
use cuda_safe::Context;

/// An error of a run.
pub(crate) type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let context = Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let device = context.device().name()?;
    println!("device: {device}");
    let software = device.contains("software");
    if arguments.compare {
        compare::run(&context, &arguments, software)?;
    } else {
        run::all(&context, &arguments, software)?;
    }
    // Optional: frees what the context keeps for reuse, which otherwise the process's end does.
    Ok(context.close()?)
}

//! The host's guards of a managed variable borrow its handle.

use cuda_safe::{Global, HostRef, Result};

fn two_guards(global: &mut Global<f32>) -> Result<()> {
    let reads = global.host()?;
    global.host_mut()?[0] = 1.0;
    drop(reads);
    Ok(())
}

fn outlives<'a>(global: Global<f32>) -> Result<HostRef<'a, f32>> {
    global.host()
}

fn main() {}

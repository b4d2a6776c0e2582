//! Globals of `kernels!`: how they are declared, and how they are used.

use cuda_safe::{Result, Stream, kernels};

kernels! {
    struct NotDeclared;
    unsafe in "" {
        global factor f32;
        global table: [f32];
        global pointer: &f32;
        global first: f32 = 1.0;
        global module: f32;
        #[name = "{T}"]
        global other: f32;
        safe fn factor2();
        global factor2: f32;
    }
}

kernels! {
    struct Elements;
    // SAFETY: never loaded.
    unsafe in "" {
        global text: String;
        global flag: bool;
        global known: f32;
    }
}

fn used(kernels: &Elements, stream: &Stream) -> Result<()> {
    // Not every byte is a bool.
    kernels.flag(stream)?.read(stream)?;
    kernels.known(stream)?.write(stream, &[1_u32])?;
    Ok(())
}

fn main() {}

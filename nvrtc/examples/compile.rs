//! Compiles a CUDA C++ file and says what is in the image: `compile FILE [ARCH]`, by default for
//! sm_90. Needs NVRTC, and no GPU.

use std::error::Error;

use cuda_safe_nvrtc::{Arch, Param, Program};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: compile FILE [ARCH]")?;
    let arch: Arch = arguments.next().as_deref().unwrap_or("sm_90").parse()?;
    let image = Program::new(std::fs::read_to_string(&file)?).name(&file).compile(arch)?;

    print!("{}", image.log);
    let cubin = image.cubin.as_ref().map_or(0, Vec::len);
    let ptx = image.ptx.as_ref().map_or(0, String::len);
    println!(
        "{file}: {} by NVRTC {}: {cubin} bytes of cubin, {ptx} of PTX",
        image.arch, image.version
    );
    for kernel in &image.kernels {
        let types = kernel.params.iter().map(describe).collect::<Vec<_>>();
        println!("kernel {}({})", kernel.name, types.join(", "));
    }
    Ok(())
}

fn describe(parameter: &Param) -> String {
    if parameter.array {
        return format!("{} bytes", parameter.size);
    }
    parameter.ty.name().to_owned()
}

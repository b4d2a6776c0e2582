//! Two files, compiled apart and linked.

use cuda_safe::nvrtc::Options;
use cuda_safe::{Context, DeviceBuffer, Linker, Module, include_cuda, kernels};

use crate::Output;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread i touches element i alone, and only if i < n; i is an int. The functions touch no memory.
    unsafe in include_cuda!("multi_file.cu") {
        safe fn evaluate(data: &mut [f32], n: i32 = data.len()) over n
            where n < 2_000_000_000;
    }
}

/// Evaluates a polynomial at a thousand integers and rounds.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();

    let (arch, driver) = (context.device().arch()?, context.driver().version()?);
    let mut linker = Linker::new(context);
    for (name, program) in
        [("kernel", include_cuda!("multi_file.cu")), ("functions", include_cuda!("functions.cu"))]
    {
        let program = program.options(Options::new().relocatable(true));
        linker = linker.image(name, &program.compile_for_driver(arch, driver)?);
    }
    let module = Module::load(context, &linker.link()?)?;
    // SAFETY: the module has been linked of the declared file and the one that it needs.
    let kernels = unsafe { Kernels::from_module(&module)? };

    let stream = context.stream()?;
    let mut data = DeviceBuffer::from_slice(&stream, &x)?;
    kernels.evaluate(&stream, &mut data)?;
    Ok(data.to_vec(&stream)?)
}

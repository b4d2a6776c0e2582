//! A global is shared by all of its handles, so it is read and written by copies alone: it gives out
//! no views, of which there could be two, and no kernel takes it.

use cuda_safe::{DeviceSliceMut, Global, Kernel, LaunchConfig, Module, Result, Stream};

fn two_views(stream: &Stream, module: &Module) -> Result<()> {
    let mut one = module.global::<f32>(stream, "weights")?;
    let mut two = module.global::<f32>(stream, "weights")?;
    let first = one.as_slice_mut();
    let second = two.slice_mut(..)?;
    drop((first, second));
    Ok(())
}

fn converted(global: &mut Global<f32>) -> DeviceSliceMut<'_, f32> {
    DeviceSliceMut::from(global)
}

fn given_to_a_kernel(stream: &Stream, kernel: &Kernel, mut global: Global<f32>) -> Result<()> {
    unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&mut global,)) }
}

fn main() {}

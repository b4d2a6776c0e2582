//! The tape: launches that are recorded, and passes back through them.

mod density;
mod flight;
mod grains;
mod host;
mod network;
mod oracle;
mod particles;
mod saxpy;

use cuda_safe::{LaunchConfig, Module};
use tape::{Element, FloatType, Op, OpSpec, Param, Primal};

use super::Work;
use crate::gpu::Gpu;
use crate::stop::Stop;

pub(super) const WORKS: &[Work] = &[
    Work { names: &particles::NAMES, run: particles::rows },
    Work { names: &saxpy::NAMES, run: saxpy::rows },
    Work { names: &host::NAMES, run: host::rows },
    Work { names: &network::NAMES, run: network::rows },
    Work { names: &density::NAMES, run: density::rows },
    Work { names: &grains::NAMES, run: grains::rows },
    Work { names: &flight::NAMES, run: flight::rows },
];

/// Steps of a simulation.
const STEPS: usize = 64;
/// Threads in a block.
const BLOCK: u32 = 256;
/// Blocks that fill a device, a few times.
const FEW_BLOCKS: u64 = 4096;

/// The operations of tape.cu.
struct Ops {
    module: Module,
    step: Op,
    /// As `step`, whose specification does not say that its adjoint adds to each element once: gradients
    /// have to be accumulated.
    step_accumulating: Op,
    /// As `step`, with an adjoint that was generated.
    step_generated: Op,
    /// As `step_generated`, where nothing says that all elements before the step have a thread.
    step_generated_accumulating: Op,
    /// All steps in one kernel, with an adjoint that was generated.
    steps: Op,
    energy: Op,
    saxpy: Op,
}

fn spec(name: &'static str, params: impl IntoIterator<Item = Param>) -> OpSpec {
    params.into_iter().fold(OpSpec::new(name), OpSpec::param)
}

impl Ops {
    fn new(gpu: &Gpu) -> Result<Self, Stop> {
        let source = geom_kernels::program(include_str!("../../tape.cu")).name("tape.cu");
        let module = Module::compile(&gpu.context, &source)?;
        let vector =
            |name| Param::buffer(name, Element::vector(FloatType::F32, 3)).len("n").active();
        let number = |name| Param::buffer(name, Element::F32).len("n").each_element().active();
        let (x, v) = (vector("x").reads(Primal::None), vector("v").reads(Primal::Entry));
        let [x1, v1] = ["x1", "v1"].map(|name| vector(name).overwrites().each_element());
        let n = Param::value("n");
        let step = |x, v| spec("step", [x, v, x1.clone(), v1.clone(), n.clone()]).summands(|_| 0);
        let (each_x, each_v) = (x.clone().each_element(), v.clone().each_element());
        let loss = Param::buffer("loss", Element::F32).accumulates().len_fixed(1).active();
        let of = vector("x").reads(Primal::Entry).each_element();
        let energy = spec("energy", [of, loss, n.clone()]).grid_stride().summands(|_| 0);
        let saxpy = [
            Param::scalar("a", Element::F32).active(),
            number("x").reads(Primal::Entry),
            number("y").reads(Primal::None),
            number("out").overwrites(),
            n.clone(),
        ];
        // Each thread of the adjoint goes on to further elements.
        let few = |launch: &LaunchConfig| {
            LaunchConfig::new(launch.grid.count().min(FEW_BLOCKS) as u32, BLOCK)
        };
        let generated = ["x", "v", "x1", "v1"].map(vector).into_iter().chain([n.clone()]);
        // Of memory without a length, nobody knows that all of it is read.
        let unknown = |name| Param::buffer(name, Element::vector(FloatType::F32, 3)).active();
        let accumulating = ["x", "v"].map(unknown).into_iter().chain(["x1", "v1"].map(vector));
        let accumulating = spec("step", accumulating.chain([n.clone()]));
        let steps = ["x", "v", "x1", "v1"].map(vector).into_iter();
        let steps = spec("steps", steps.chain([Param::value("count"), n.clone()]));
        let saxpy = spec("saxpy", saxpy).shape(few).grid_stride().summands(|_| 0);
        // SAFETY: each element of each buffer below n is touched by one thread of a kernel or adjoint,
        // others are not; `energy`, by blocks of at most 256 threads, adds to the loss by atomics. Gradients
        // are taken, and added to, as said.
        unsafe {
            Ok(Self {
                step: step(each_x, each_v).register(&module)?,
                step_accumulating: step(x, v).register(&module)?,
                step_generated: spec("step", generated).differentiate(&gpu.context, &source)?,
                step_generated_accumulating: accumulating.differentiate(&gpu.context, &source)?,
                steps: steps.differentiate(&gpu.context, &source)?,
                energy: energy.register(&module)?,
                saxpy: saxpy.register(&module)?,
                module,
            })
        }
    }

    fn image(&self, gpu: &Gpu) -> Result<String, Stop> {
        gpu.image_of(&self.module.kernel("step")?)
    }
}

#[cfg(test)]
mod tests {
    use cuda_safe::Driver;

    use super::*;
    use crate::report::Row;

    fn software() -> Result<Gpu, Stop> {
        Gpu::open(Driver::from_sys(cuda_emu::driver())?, 0)
    }

    /// The rows' checks of their results, of few elements.
    #[test]
    fn gradients_are_right_on_the_software_device() {
        let run = || -> Result<(), Stop> {
            let gpu = software()?;
            let names = |rows: &[Row]| rows.iter().map(|row| row.work.clone()).collect::<Vec<_>>();
            assert_eq!(names(&particles::measure(&gpu, 2, 333)?), particles::NAMES);
            assert_eq!(names(&saxpy::measure(&gpu, 2, 1000)?), saxpy::NAMES);
            assert_eq!(names(&host::measure(&gpu, 2, 100)?), host::NAMES);
            assert_eq!(names(&network::measure(&gpu, 2, 500)?), network::NAMES);
            assert_eq!(names(&density::measure(&gpu, 2, 1500)?), density::NAMES);
            assert_eq!(names(&grains::measure(&gpu, 2, 4)?), grains::NAMES);
            assert_eq!(names(&flight::measure(&gpu, 2, 700)?), flight::NAMES);
            Ok(())
        };
        run().unwrap();
    }
}

//! How fast the upper half of a block of grains was pushed, found from where all grains are a short time later: by
//! gradients through the steps of the example `dem`, whose kernel is differentiated as it is. `push [speed]`

use cuda_safe::vector::Float4;
use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, nvrtc::Program};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, NeighborLists, Pairs};
use tape::{Element, FloatType, Op, OpSpec, Param, Tape, Variable};

/// The number of grains, in 4 layers, and of steps, each a 3840th of a second.
const N: usize = 256;
const STEPS: usize = 32;
/// The distance up to which grains are listed as neighbours. As in `dem`, none may move by more than 0.065.
const REACH: f32 = 0.3375;

/// The kernels with their adjoints, and the memory of a simulation. Grains are `N` positions, then velocities.
struct Block {
    stream: Stream,
    ops: [Op; 3],
    start: DeviceBuffer<Float4>,
    /// The grains before the first step, and after each.
    path: DeviceBuffer<Float4>,
    lists: NeighborLists,
    trouble: DeviceBuffer<u32>,
    loss: DeviceBuffer<f32>,
    tape: Tape,
}

/// Generates the adjoints of `push`, `step` and `miss`.
fn operations(context: &Context) -> Result<[Op; 3]> {
    let dem = geom_kernels::program(include_str!("../../dem/src/dem.cu")).name("dem.cu");
    let own = Program::new(include_str!("push.cu")).name("push.cu");
    let grains = |name| Param::buffer(name, Element::vector(FloatType::F32, 4)).len_times(2, "n");
    let spec = |name, params: Vec<Param>| {
        params.into_iter().fold(OpSpec::new(name), OpSpec::param).param(Param::value("n"))
    };
    let speed = Param::scalar("speed", Element::F32).active();
    let push = spec("push", vec![speed, grains("start"), grains("grains").active()]);
    let raw = |name, bytes| Param::buffer(name, Element::bytes(bytes));
    let lists = [raw("old", 16).len("n"), raw("offsets", 8).len("n"), raw("lists", 4)];
    let last = [grains("next").active(), raw("trouble", 4).len_fixed(1)];
    let step = spec("step", [&[grains("now").active()], &lists[..], &last].concat());
    let loss = Param::buffer("loss", Element::F32).len_fixed(1).active();
    let miss = spec("miss", vec![grains("grains").active(), grains("seen"), loss]);
    let all = [(push, &own), (step, &dem), (miss, &own)];
    // SAFETY: thread i reads what belongs to grain i and to those in its list, which are below n, and writes what
    // belongs to grain i, or by atomics. There are n + 1 offsets, and the last is the length of the lists.
    let [push, step, miss] = all.map(|(spec, of)| unsafe { spec.differentiate(context, of) });
    Ok([push?, step?, miss?])
}

impl Block {
    fn new(context: &Context) -> Result<Self> {
        let (stream, mut seed) = (context.stream()?, 42u32);
        // As in `dem`, on the ground.
        let mut place = |i: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            0.2 * i as f32 + 0.01 * (seed >> 8) as f32 / (1 << 24) as f32
        };
        let grain = |i| Float4::new(place(i % 8), place(i / 64), place(i / 8 % 8), 0.0);
        let grains: Vec<_> = (0..N).map(grain).chain([Float4::default(); N]).collect();
        let start = DeviceBuffer::from_slice(&stream, &grains)?;
        let (geometry, points) = (GeometryKernels::new(context), start.slice(..N)?);
        let grid = HashGrid::build(&stream, &geometry, points, REACH, GridOptions::default())?;
        let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
        Ok(Self {
            ops: operations(context)?,
            start,
            path: DeviceBuffer::zeroed(&stream, 2 * N * (STEPS + 1))?,
            lists: grid.neighbor_lists(&stream, &others)?,
            trouble: DeviceBuffer::zeroed(&stream, 1)?,
            loss: DeviceBuffer::zeroed(&stream, 1)?,
            tape: Tape::new(&stream)?,
            stream,
        })
    }

    /// Simulates a push, and records by how much it misses where grains were seen.
    fn record(&mut self, speed: &Variable<f32>, seen: &DeviceBuffer<Float4>) -> Result<()> {
        let Self { stream, ops: [push, step, miss], start, path, .. } = self;
        let NeighborLists { offsets, indices } = &self.lists;
        let (trouble, loss) = (&mut self.trouble, &mut self.loss);
        let (each, n) = (LaunchConfig::cover(N, 128), N as u32);
        self.tape.record_again(stream, |t| {
            t.watch(speed)?;
            t.launch(push, each, (speed, &*start, path.slice_mut(..2 * N)?, n))?;
            for number in 0..STEPS {
                let (now, next) = path.split_at_mut(2 * N * (number + 1))?;
                let now = now.as_slice().slice(2 * N * number..)?;
                t.launch(step, each, (now, &*start, offsets, indices, next, &mut *trouble, n))?;
            }
            t.fill(&mut *loss, 0.0)?;
            t.launch(miss, each, (path.slice(2 * N * STEPS..)?, seen, &mut *loss, n))
        })
    }

    /// Pushes the block, and searches the speed from where the grains are then: by secants of the loss's slope.
    fn find(&mut self, truth: f32, first: f32) -> Result<f32, Box<dyn std::error::Error>> {
        let (mut seen, stream) = (self.start.try_clone(&self.stream)?, self.stream.clone());
        self.record(&Variable::new(&stream, truth)?, &seen)?;
        seen.copy_from(&stream, self.path.slice(2 * N * STEPS..)?)?;
        let mut speed = Variable::new(&stream, first)?;
        // At first, that of grains that touch nothing.
        let (mut curvature, mut last) = (N as f32 * (STEPS as f32 / 3840.0).powi(2), None);
        for _ in 0..20 {
            self.record(&speed, &seen)?;
            self.tape.backward(&stream, &self.loss)?;
            let loss: f32 = self.loss.to_vec(&stream)?.iter().sum();
            let slope: f32 = self.tape.gradient(&speed)?.to_vec(&stream)?.iter().sum();
            println!("{:7.4} m/s: loss {loss:10.3e}, slope {slope:10.3e}", speed.get());
            if loss <= 1e-9 {
                let found = (self.trouble.to_vec(&stream)? == [0]).then(|| speed.get());
                return found.ok_or("grains are too fast or too dense for their lists".into());
            }
            if let Some((other, of_other)) = last.replace((speed.get(), slope)) {
                curvature = (slope - of_other) / (speed.get() - other);
            }
            speed.set(speed.get() - slope / curvature);
        }
        Err("no speed was found".into())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let truth = std::env::args().nth(1).map_or(Ok(5.0), |text| text.parse())?;
    let context = Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let found = Block::new(&context)?.find(truth, 2.0)?;
    println!("{N} grains were pushed by {found:.4} m/s, in truth by {truth}");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn speeds_are_found_and_grains_that_are_too_fast() {
        let Ok(_) = nvrtc::Nvrtc::find() else {
            return eprintln!("not run: there is no NVRTC; `cargo xtask setup` first");
        };
        let device = cuda_safe::Driver::from_sys(cuda_emu::driver()).unwrap().device(0).unwrap();
        let mut block = super::Block::new(&device.context().unwrap()).unwrap();
        for (truth, first) in [(5.0, 2.0), (-3.0, 4.0), (0.5, 0.0)] {
            assert!((block.find(truth, first).unwrap() - truth).abs() < 1e-3, "not {truth}");
        }
        assert!(block.find(12.0, 5.0).is_err());
    }
}

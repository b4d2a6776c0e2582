//! How fast the upper half of a block of grains was pushed, found from where all grains are a short time later: by
//! gradients through the steps of the example `dem`, whose kernel is differentiated as it is. `push [speed]`

use cuda_safe::kernel::kernel;
use cuda_safe::kernel::{random::Random, vector::Vec4};
use cuda_safe::{Context, DeviceBuffer, Result, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, NeighborLists, Pairs};
use tape::{Seeds, Tape, Variable};

#[path = "../../dem/src/step.rs"]
mod step;

/// The number of grains, in 4 layers, and of steps, each a 3840th of a second.
const N: usize = 256;
const STEPS: usize = 32;

/// The velocities of a block whose upper grains are pushed along z.
#[kernel(gradient)]
fn push(#[active] speed: f32, #[inactive] start: &[Vec4], v: &mut [Vec4]) {
    assert!(start.len() == v.len());
    each(v, |i, v| {
        *v = Vec4::ZERO;
        if start[i].y > 0.3 {
            v.z = speed;
        }
    });
}

/// The squares of the distances from where grains were seen.
#[kernel(gradient)]
fn miss(x: &[Vec4], #[inactive] seen: &[Vec4], squares: &mut [f32]) {
    assert!(x.len() == squares.len() && seen.len() == squares.len());
    each(squares, |i, square| *square = (x[i].xyz() - seen[i].xyz()).length_squared());
}

/// The memory of a simulation.
struct Block {
    stream: Stream,
    start: DeviceBuffer<Vec4>,
    /// The positions and velocities before the first step, and after each.
    x: DeviceBuffer<Vec4>,
    v: DeviceBuffer<Vec4>,
    lists: NeighborLists,
    squares: DeviceBuffer<f32>,
    ones: DeviceBuffer<f32>,
    tape: Tape,
}

impl Block {
    fn new(context: &Context) -> Result<Self> {
        let (stream, mut random) = (context.stream()?, Random::new(42, 0));
        // As in `dem`, on the ground.
        let mut place = |i: usize| 0.2 * i as f32 + 0.01 * random.uniform();
        let grain = |i| Vec4::new(place(i % 8), place(i / 64), place(i / 8 % 8), 0.0);
        let start = DeviceBuffer::from_slice(&stream, &(0..N).map(grain).collect::<Vec<_>>())?;
        let mut x = DeviceBuffer::<Vec4>::zeroed(&stream, N * (STEPS + 1))?;
        x.slice_mut(..N)?.copy_from(&stream, &start)?;
        let (geometry, options) = (GeometryKernels::new(context), GridOptions::default());
        let grid = HashGrid::build(&stream, &geometry, &start, step::REACH, options)?;
        let others = GridQueries::at_grid_points(step::REACH).pairs(Pairs::Others);
        Ok(Self {
            start,
            x,
            v: DeviceBuffer::zeroed(&stream, N * (STEPS + 1))?,
            lists: grid.neighbor_lists(&stream, &others)?,
            squares: DeviceBuffer::zeroed(&stream, N)?,
            ones: DeviceBuffer::from_slice(&stream, &[1.0; N])?,
            tape: Tape::new(&stream)?,
            stream,
        })
    }

    /// Simulates a push, and records by how much it misses where grains were seen.
    fn record(&mut self, speed: &Variable<f32>, seen: &DeviceBuffer<Vec4>) -> Result<()> {
        let Self { stream, start, x, v, lists, squares, .. } = self;
        let NeighborLists { offsets, indices } = &*lists;
        self.tape.record_again(stream, |t| {
            t.watch(speed)?;
            push::record(t, speed, &*start, v.slice_mut(..N)?)?;
            for number in 0..STEPS {
                let (now, next) = (N * number, N * (number + 1));
                let (x, mut next_x) = x.split_at_mut(next)?;
                let (v, mut next_v) = v.split_at_mut(next)?;
                let (x, v) = (x.as_slice().slice(now..)?, v.as_slice().slice(now..)?);
                let (next_x, next_v) = (next_x.slice_mut(..N)?, next_v.slice_mut(..N)?);
                step::step::record(t, x, v, &*start, offsets, indices, next_x, next_v)?;
            }
            miss::record(t, x.slice(N * STEPS..)?, seen, &mut *squares)
        })
    }

    /// Pushes the block, and searches the speed from where the grains are then: by secants of the loss's slope.
    fn find(&mut self, truth: f32, first: f32) -> Result<f32, Box<dyn std::error::Error>> {
        let (mut seen, stream) = (self.start.try_clone(&self.stream)?, self.stream.clone());
        self.record(&Variable::new(&stream, truth)?, &seen)?;
        seen.copy_from(&stream, self.x.slice(N * STEPS..)?)?;
        let mut speed = Variable::new(&stream, first)?;
        // At first, that of grains that touch nothing.
        let (mut curvature, mut last) = (N as f32 * (STEPS as f32 / 3840.0).powi(2), None);
        for _ in 0..20 {
            self.record(&speed, &seen)?;
            self.tape.backward_with(&stream, &Seeds::new().with(&self.squares, &self.ones)?)?;
            // An error if grains are too fast for their lists.
            let loss: f32 = self.squares.to_vec(&stream)?.iter().sum();
            let slope: f32 = self.tape.gradient(&speed)?.to_vec(&stream)?.iter().sum();
            println!("{:7.4} m/s: loss {loss:10.3e}, slope {slope:10.3e}", speed.get());
            if loss <= 1e-9 {
                return Ok(speed.get());
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
        let device = cuda_safe::Driver::from_sys(cuda_emu::driver()).unwrap().device(0).unwrap();
        let mut block = super::Block::new(&device.context().unwrap()).unwrap();
        for (truth, first) in [(5.0, 2.0), (-3.0, 4.0), (0.5, 0.0)] {
            assert!((block.find(truth, first).unwrap() - truth).abs() < 1e-3, "not {truth}");
        }
        let error = block.find(12.0, 5.0).unwrap_err().to_string();
        assert!(error.contains("kernel `step`"), "{error}");
    }
}

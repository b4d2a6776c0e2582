//! Prints how fast the executor runs, on one worker and on all: lane-instructions per second on
//! straight-line f32 and on a divergent walk of a tree, and the time of a large saxpy.
//!
//! `cargo run --release -p cuda-emu --example speed`

use std::error::Error;
use std::time::Instant;

use cuda_emu::exec::{DeviceInfo, EntryId, Env, ExecConfig, Heap, Launch, Program, run};
use cuda_emu::space::{Kind, Space};

struct Bench {
    space: std::sync::Arc<Space>,
    info: DeviceInfo,
    program: Program,
}

impl Bench {
    fn upload<T: Copy>(&self, values: &[T]) -> Result<u64, Box<dyn Error>> {
        let bytes = size_of_val(values) as u64;
        let start = self.space.allocate(bytes, 256, Kind::Device, 0)?;
        // SAFETY: the allocation has room for the values, and nothing else uses it.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), start as *mut T, values.len()) };
        Ok(start)
    }

    /// Seconds and lane-instructions of the best of three launches.
    fn time(
        &self,
        name: &str,
        workers: usize,
        grid: u32,
        block: u32,
        args: &[u64],
    ) -> Result<(f64, f64), Box<dyn Error>> {
        let entry: EntryId = self.program.entry(name).ok_or("no such kernel")?;
        let mut params = vec![0; self.program.param_bytes(entry)];
        for (&(offset, bytes), arg) in self.program.params(entry).iter().zip(args) {
            params[offset..offset + bytes].copy_from_slice(&arg.to_le_bytes()[..bytes]);
        }
        let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
        let launch = Launch { entry, grid, block, shared: 0, params, cooperative: false };
        let mut config = ExecConfig::default();
        config.workers = workers;
        let heap = Heap::new(0, 8 << 20);
        let (space, device) = (&*self.space, &self.info);
        let env = Env { space, device, config: &config, heap: &heap, printf: &|_| {} };
        let mut best = (f64::INFINITY, 0.0);
        for _ in 0..3 {
            let start = Instant::now();
            let stats = run(&self.program, &launch, &env)?;
            let seconds = start.elapsed().as_secs_f64();
            if seconds < best.0 {
                best = (seconds, stats.lane_instructions as f64);
            }
        }
        Ok(best)
    }
}

/// A node of the tree, as in kernels/speed.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Node {
    lo: [f32; 3],
    left: i32,
    hi: [f32; 3],
    count: i32,
}

/// Builds the nodes below `at` by halving the points along the longest side.
fn build(nodes: &mut Vec<Node>, at: usize, points: &mut [[f32; 3]], first: usize) {
    let (mut lo, mut hi) = ([f32::MAX; 3], [f32::MIN; 3]);
    for point in points.iter() {
        for k in 0..3 {
            lo[k] = lo[k].min(point[k]);
            hi[k] = hi[k].max(point[k]);
        }
    }
    if points.len() <= 4 {
        nodes[at] = Node { lo, left: first as i32, hi, count: points.len() as i32 };
        return;
    }
    let side = |k: &usize| hi[*k] - lo[*k];
    let axis = (0..3).max_by(|a, b| side(a).total_cmp(&side(b))).unwrap_or(0);
    let half = points.len() / 2;
    points.select_nth_unstable_by(half, |a, b| a[axis].total_cmp(&b[axis]));
    let left = nodes.len();
    nodes.extend([nodes[at]; 2]);
    nodes[at] = Node { lo, left: left as i32, hi, count: 0 };
    let (below, above) = points.split_at_mut(half);
    build(nodes, left, below, first);
    build(nodes, left + 1, above, first + half);
}

fn main() -> Result<(), Box<dyn Error>> {
    let space = Space::new()?;
    let info = DeviceInfo::default();
    let text = include_str!("kernels/speed.ptx");
    let program = Program::load(text, &space, &info)?;
    let bench = Bench { space, info, program };
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut random = 1u64;
    let mut next = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 40) as f32 / (1 << 24) as f32
    };

    let bits = |x: f32| u64::from(x.to_bits());
    let out = bench.upload(&vec![0f32; 1 << 20])?;
    for workers in [1, all] {
        let args = [out, bits(0.999), bits(0.5), 200];
        let (s, n) = bench.time("chains", workers, 64, 256, &args)?;
        println!("straight-line f32, {workers} workers: {:.2} G lane-instructions/s", n / s / 1e9);
    }

    let n = 20_000;
    let mut points: Vec<[f32; 3]> = (0..n).map(|_| [next(), next(), next()]).collect();
    let mut nodes = vec![Node { lo: [0.0; 3], left: 0, hi: [0.0; 3], count: 0 }];
    build(&mut nodes, 0, &mut points, 0);
    let queries: Vec<[f32; 3]> = (0..16_384).map(|_| [next(), next(), next()]).collect();
    let args = [
        bench.upload(&nodes)?,
        bench.upload(&points)?,
        bench.upload(&queries)?,
        out,
        queries.len() as u64,
    ];
    for workers in [1, all] {
        let (s, n) = bench.time("nearest", workers, 64, 256, &args)?;
        println!(
            "divergent tree walk, {workers} workers: {:.2} G lane-instructions/s",
            n / s / 1e9
        );
    }

    let n = 1u64 << 24;
    let (x, y) = (bench.upload(&vec![1f32; n as usize])?, bench.upload(&vec![2f32; n as usize])?);
    for workers in [1, all] {
        let (s, _) = bench.time("saxpy", workers, 65_536, 256, &[n, bits(0.5), x, y])?;
        println!("saxpy of 16,777,216 elements, {workers} workers: {s:.3} s");
    }

    let big: String = (0..).map_while(|_| None::<String>).collect();
    let mut text = text.split(".visible").next().unwrap_or_default().to_owned() + &big;
    let body = include_str!("kernels/speed.ptx");
    let kernels: String = body.split_once(".visible").map_or("", |(_, rest)| rest).to_owned();
    let mut copies = 0;
    while text.len() < 400_000 {
        let renamed = ["chains", "saxpy", "nearest"]
            .iter()
            .fold(format!(".visible{kernels}"), |t, k| t.replace(k, &format!("{k}{copies}")));
        text.push_str(&renamed);
        copies += 1;
    }
    let start = Instant::now();
    let loaded = Program::load(&text, &bench.space, &bench.info)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} KB of PTX, {} kernels: loaded in {seconds:.3} s",
        text.len() / 1000,
        loaded.entries().count()
    );
    Ok(())
}

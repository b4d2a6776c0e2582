//! saxpy and add: the device's work, and the call that waits for it.

use std::mem::MaybeUninit;

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, Event, Kernel, LaunchConfig};

use super::{Bench, Work};
use crate::data::{check_saxpy, random};
use crate::gpu::{Gpu, Own, Saxpy};
use crate::raw::{Launcher, Pool, check, need, synchronizer};
use crate::report::{Row, Unit};
use crate::stats::{Stats, median};
use crate::stop::Stop;
use crate::timing::{Paired, Sample, each, interleave, pairwise};

pub(super) const WORKS: &[Work] = &[
    Work { names: &[SCALAR, FLOAT4, COPY], run: saxpy },
    Work { names: &["add/1M/sync_both", "add_out/1M/sync_both"], run: add },
];

const SCALAR: &str = "saxpy/16777216";
const FLOAT4: &str = "saxpy/16777216/float4";
const COPY: &str = "saxpy/16777216/device_copy";

const N: usize = 16_777_216;
const BLOCK: u32 = 512;
const A: f32 = 2.5;
/// Launches between two events, over inputs that rotate.
const LAUNCHES: usize = 20;
const SETS: usize = 4;
/// saxpy reads two arrays and writes one; a copy of half as much again as one array moves as many
/// bytes.
const TRAFFIC: usize = 3 * N * size_of::<f32>();
const COPIED: usize = N * 3 / 2;
/// Keeps the device busy until all launches of a sample are enqueued.
const DELAY_NS: u64 = 1_000_000;

struct Set {
    host_x: Vec<f32>,
    host_y: Vec<f32>,
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    out: DeviceBuffer<f32>,
}

impl Set {
    fn new(gpu: &Gpu, index: u64) -> Result<Self, Stop> {
        let (host_x, host_y) = (random(N, 10 + index), random(N, 20 + index));
        let x = DeviceBuffer::from_slice(&gpu.stream, &host_x)?;
        let y = DeviceBuffer::from_slice(&gpu.stream, &host_y)?;
        let out = DeviceBuffer::zeroed(&gpu.stream, N)?;
        Ok(Self { host_x, host_y, x, y, out })
    }
}

/// The work measured between events.
struct Timer<'a> {
    gpu: &'a Gpu,
    own: Own,
    begin: Event,
    end: Event,
}

impl<'a> Timer<'a> {
    fn new(gpu: &'a Gpu) -> Result<Self, Stop> {
        let (begin, end) = (Event::timing(&gpu.context)?, Event::timing(&gpu.context)?);
        Ok(Self { gpu, own: Own::load(&gpu.context)?, begin, end })
    }

    /// Milliseconds of one of [`LAUNCHES`] runs; each gets its number.
    fn run<E>(&self, mut enqueue: impl FnMut(usize) -> Result<(), E>) -> Result<f64, Stop>
    where
        Stop: From<E>,
    {
        let stream = &self.gpu.stream;
        self.own.delay(stream, LaunchConfig::new(1, 1), DELAY_NS)?;
        self.begin.record(stream)?;
        for number in 0..LAUNCHES {
            enqueue(number)?;
        }
        self.end.record(stream)?;
        Ok(f64::from(self.begin.elapsed_ms(&self.end)?) / LAUNCHES as f64)
    }
}

/// One way to launch a kernel on one of the sets.
type LaunchOn<'a> = &'a dyn Fn(&mut Set) -> Result<(), Stop>;

/// Runs every set once on a cleared result and compares all elements.
fn verify(gpu: &Gpu, sets: &mut [Set], launch: LaunchOn<'_>) -> Result<usize, Stop> {
    let mut right = 0;
    for set in sets {
        set.out.fill(&gpu.stream, f32::NAN)?;
        launch(set)?;
        right += check_saxpy(A, &set.host_x, &set.host_y, &set.out.to_vec(&gpu.stream)?)?;
    }
    Ok(right)
}

fn tbs(milliseconds: &[f64]) -> Vec<f64> {
    milliseconds.iter().map(|ms| TRAFFIC as f64 / (ms / 1e3) / 1e12).collect()
}

fn saxpy(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let stream = &gpu.stream;
    let kernels = Saxpy::load(&gpu.context)?;
    let timer = Timer::new(gpu)?;
    let mut sets =
        (0..SETS as u64).map(|index| Set::new(gpu, index)).collect::<Result<Vec<_>, _>>()?;
    let copies = Copies::new(gpu)?;

    let launch = LaunchConfig::cover(N, BLOCK);
    let scalar = |set: &mut Set| {
        Ok(kernels.saxpy(stream, launch, A, &set.x, &set.y, &mut set.out, N as u64)?)
    };
    let scalar = compare(
        &Variant {
            work: SCALAR,
            bench,
            timer: &timer,
            kernel: kernels.saxpy_kernel(),
            elements: N,
            copies: &copies,
            ours: &scalar,
        },
        &mut sets,
    )?;

    let launch = LaunchConfig::cover(N / 4, BLOCK);
    let float4 = |set: &mut Set| {
        let (x, y) = (set.x.as_slice().cast::<Float4>()?, set.y.as_slice().cast::<Float4>()?);
        let out = set.out.as_slice_mut().cast_mut::<Float4>()?;
        Ok(kernels.saxpy4(stream, launch, A, x, y, out, (N / 4) as u64)?)
    };
    let float4 = compare(
        &Variant {
            work: FLOAT4,
            bench,
            timer: &timer,
            kernel: kernels.saxpy4_kernel(),
            elements: N / 4,
            copies: &copies,
            ours: &float4,
        },
        &mut sets,
    )?;
    drop(sets);
    Ok(vec![scalar, float4, copies.row(bench, &timer)?])
}

struct Variant<'a> {
    work: &'a str,
    bench: &'a Bench,
    timer: &'a Timer<'a>,
    kernel: &'a Kernel,
    /// Elements of the kernel: floats or float4.
    elements: usize,
    copies: &'a Copies,
    ours: LaunchOn<'a>,
}

/// Ours, the raw launches of the same kernel twice, and the copy, in turns.
fn compare(variant: &Variant<'_>, sets: &mut [Set]) -> Result<Row, Stop> {
    let Variant { work, bench, timer, kernel, elements, copies, ours } = *variant;
    let gpu = timer.gpu;
    let grid = LaunchConfig::cover(elements, BLOCK).grid.x;
    let launcher = Launcher::new(gpu.driver, kernel, &gpu.stream, grid, BLOCK)?;
    let raw = |set: &mut Set| {
        let arrays = [set.x.device_ptr(), set.y.device_ptr(), set.out.device_ptr()];
        // SAFETY: kernel, stream and the set's arrays are alive; the kernel has these parameters.
        Ok(unsafe { launcher.saxpy(A, arrays, elements as u64) }?)
    };
    verify(gpu, sets, &raw)?;
    let right = verify(gpu, sets, ours)?;

    let sets = std::cell::RefCell::new(sets);
    let with = |launch: LaunchOn<'_>| {
        let mut sets = sets.borrow_mut();
        timer.run(|number| launch(&mut sets[number % SETS]))
    };
    let copy: Sample<'_> = &mut || copies.raw_sample(timer);
    let [ours, raw, again, copy] = interleave(
        bench.pairs,
        [&mut || with(ours), &mut || with(&raw), &mut || with(&raw), copy],
    )?;
    let share = Stats::of(&pairwise(&copy, &ours, |copy, ours| copy / ours));
    let paired = Paired { ours, raw, again };
    let (ratio, aa) = (paired.ratio().median, paired.aa_ratio());
    let row = Row::new(work, Unit::Tbs, &tbs(&paired.ours))
        .figure("ms", median(&paired.ours))
        .figure("raw_tbs", median(&tbs(&paired.raw)))
        .figure("ratio", ratio)
        .figure("aa_ratio", aa)
        .figure("copy_tbs", median(&tbs(&copy)))
        .figure("share_of_copy", share.median)
        .note(format!(
            "time {ratio:.4} of raw, A/A {aa:.4}, {:.1}% of the copy",
            share.median * 100.0
        ))
        .check(format!("{right} of {} elements equal f64, over {SETS} inputs", SETS * N))
        .image(gpu.image_of(kernel)?)
        .device(&gpu.name);
    Ok(if work == SCALAR {
        row.at_most("ratio", ratio, 1.01)
    } else {
        row.at_least("share_of_copy", share.median, 0.98)
    })
}

/// Copies on the device that move as many bytes as saxpy.
struct Copies {
    from: Vec<DeviceBuffer<f32>>,
    to: std::cell::RefCell<Vec<DeviceBuffer<f32>>>,
}

impl Copies {
    fn new(gpu: &Gpu) -> Result<Self, Stop> {
        let buffers = |value: f32| {
            (0..SETS)
                .map(|index| {
                    let mut buffer = DeviceBuffer::<f32>::zeroed(&gpu.stream, COPIED)?;
                    buffer.fill(&gpu.stream, value + index as f32)?;
                    Ok(buffer)
                })
                .collect::<Result<Vec<_>, Stop>>()
        };
        Ok(Self { from: buffers(1.0)?, to: std::cell::RefCell::new(buffers(-1.0)?) })
    }

    fn raw_sample(&self, timer: &Timer<'_>) -> Result<f64, Stop> {
        let fns = timer.gpu.driver.as_sys().fns();
        let copy = need(fns.cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync")?;
        let (stream, to) = (timer.gpu.stream.as_raw(), self.to.borrow());
        timer.run(|number| {
            let (to, from) = (&to[number % SETS], &self.from[number % SETS]);
            // SAFETY: both buffers are alive and have that many bytes; they do not overlap.
            let code =
                unsafe { copy(to.device_ptr(), from.device_ptr(), from.size_bytes(), stream) };
            check("cuMemcpyDtoDAsync", code)
        })
    }

    fn row(&self, bench: &Bench, timer: &Timer<'_>) -> Result<Row, Stop> {
        let gpu = timer.gpu;
        let mut ours = || {
            let mut to = self.to.borrow_mut();
            timer.run(|number| to[number % SETS].copy_from(&gpu.stream, &self.from[number % SETS]))
        };
        let paired = Paired::measure(bench.pairs, &mut ours, &|| self.raw_sample(timer))?;
        for (index, to) in self.to.borrow().iter().enumerate() {
            let expected = 1.0 + index as f32;
            if to.to_vec(&gpu.stream)?.iter().any(|value| *value != expected) {
                return Err(Stop::failed("the copy differs from its source"));
            }
        }
        let (ratio, aa) = (paired.ratio().median, paired.aa_ratio());
        Ok(Row::new(COPY, Unit::Tbs, &tbs(&paired.ours))
            .figure("ms", median(&paired.ours))
            .figure("raw_tbs", median(&tbs(&paired.raw)))
            .figure("ratio", ratio)
            .figure("aa_ratio", aa)
            .note(format!("time {ratio:.4} of raw, A/A {aa:.4}"))
            .check(format!("{} elements equal", SETS * COPIED))
            .device(&gpu.name))
    }
}

/// c = a + b between two waits, of which the second is inside the time: with a new c each time, as in
/// PyTorch's `c = a + b`, and into the same one.
fn add(bench: &Bench) -> Result<Vec<Row>, Stop> {
    const LENGTH: usize = 1_048_576;
    const CALLS: u32 = 200;
    let gpu = bench.gpu()?;
    let stream = &gpu.stream;
    let kernels = Own::load(&gpu.context)?;
    let (host_a, host_b) = (random(LENGTH, 30), random(LENGTH, 31));
    let a = DeviceBuffer::from_slice(stream, &host_a)?;
    let b = DeviceBuffer::from_slice(stream, &host_b)?;
    let mut c = DeviceBuffer::<f32>::zeroed(stream, LENGTH)?;
    let (launch, n) = (LaunchConfig::cover(LENGTH, 256), LENGTH as u32);
    let into = |c: &mut DeviceBuffer<f32>| kernels.add(stream, launch, &a, &b, c, n);
    let fresh = || -> Result<DeviceBuffer<f32>, cuda_safe::Error> {
        let c = DeviceBuffer::<MaybeUninit<f32>>::uninit(stream, LENGTH)?;
        // SAFETY: `add` is the first to use it, and writes all its elements.
        let mut c = unsafe { c.assume_init() };
        into(&mut c)?;
        Ok(c)
    };

    into(&mut c)?;
    for out in [c.to_vec(stream)?, fresh()?.to_vec(stream)?] {
        check_saxpy(1.0, &host_a, &host_b, &out)?;
    }
    let check = format!("{LENGTH} of {LENGTH} elements equal f64");

    let pool = Pool::new(gpu.device)?;
    let (allocate, free) = (pool.allocator(stream, LENGTH * 4)?, pool.freer(stream)?);
    let wait = synchronizer(gpu.driver, stream)?;
    let (grid, block) = (launch.grid.x, launch.block.x);
    let launcher = Launcher::new(gpu.driver, kernels.add_kernel(), stream, grid, block)?;
    let raw_c = DeviceBuffer::<f32>::zeroed(stream, LENGTH)?;
    // SAFETY: kernel, stream and arrays are alive; the kernel has these parameters.
    let raw_add = |c| unsafe { launcher.add([a.device_ptr(), b.device_ptr(), c], n) };
    let raw_fresh = || {
        let call = || {
            let c = allocate()?;
            raw_add(c)?;
            wait()?;
            Ok(c)
        };
        each(CALLS, &wait, call, &free)
    };
    let raw_into = || {
        let call = || {
            raw_add(raw_c.device_ptr())?;
            wait()
        };
        each(CALLS, &wait, call, Ok)
    };

    let mut ours = || {
        let call = || {
            let c = fresh()?;
            stream.synchronize()?;
            Ok(c)
        };
        let free = |c| {
            drop(c);
            Ok(())
        };
        each(CALLS, || stream.synchronize(), call, free)
    };
    let with_new = Paired::measure(bench.pairs, &mut ours, &raw_fresh)?;
    let mut ours = || {
        let call = || {
            into(&mut c)?;
            stream.synchronize()
        };
        each(CALLS, || stream.synchronize(), call, Ok)
    };
    let with_old = Paired::measure(bench.pairs, &mut ours, &raw_into)?;
    let image = gpu.image_of(kernels.add_kernel())?;
    let row = |work, paired| {
        Row::host(work, paired).check(check.clone()).image(image.clone()).device(&gpu.name)
    };
    Ok(vec![row("add/1M/sync_both", &with_new), row("add_out/1M/sync_both", &with_old)])
}

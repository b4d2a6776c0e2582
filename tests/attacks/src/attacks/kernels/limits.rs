//! Attacks on the limits of launches, on occupancy, clusters, types of arguments and attributes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cuda_safe::{
    DeviceBuffer, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, ArgVisitor, InspectArgs},
    kernels,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct Shared;
    // SAFETY: thread i of block 0 writes element i if i < n; the shared memory of a block holds a word for each of its
    // threads.
    unsafe in r#"
        extern "C" __global__ void turn(unsigned* x, unsigned n) {
            extern __shared__ unsigned part[];
            part[threadIdx.x] = threadIdx.x;
            __syncthreads();
            if (blockIdx.x == 0 && threadIdx.x < n) x[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
        }
        extern "C" __global__ void __launch_bounds__(64) bounded(unsigned* x, unsigned n) {
            if (blockIdx.x == 0 && threadIdx.x < n) x[threadIdx.x] = 1;
        }
    "# {
        safe fn turn(x: &mut [u32], n: u32) where n <= x.len(), shared >= 4 * block.x;
        safe fn bounded(x: &mut [u32], n: u32) where n <= x.len();
    }
}

/// Allows and takes all shared memory that there is, too much, and less than before, from several threads at once.
///
/// - row: a launch is within the limits
/// - targets: `Kernel::set_max_dynamic_shared`, `LaunchConfig::dynamic_shared_bytes`
fn shared_memory_from_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let k = Shared::load(&context)?;
    let device = context.device();
    let most = device.max_shared_memory_per_block_optin()?;
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    for bytes in [u32::MAX, most + 1, 1 << 31, most.saturating_mul(2)] {
        lab.refused(
            k.turn_kernel().set_max_dynamic_shared(bytes),
            "bytes of dynamic shared memory",
        )?;
    }
    let results: Vec<TestResult> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4u32)
            .map(|id| {
                let (k, context) = (&k, &context);
                scope.spawn(move || -> TestResult {
                    let stream = context.stream()?;
                    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
                    for round in 0..12 {
                        let allowed = if (round + id) % 2 == 0 { most } else { 1024 };
                        k.turn_kernel().set_max_dynamic_shared(allowed)?;
                        for shared in [256, 1024, most, most + 1, u32::MAX] {
                            let launched = k.turn(
                                &stream,
                                LaunchConfig::new(1, 64).dynamic_shared_bytes(shared),
                                &mut x,
                                64,
                            );
                            match launched {
                                Ok(()) => ensure!(shared <= most, "{shared} bytes"),
                                // The driver itself refuses `most` if another thread lowered the limit since it
                                // was asked.
                                Err(error) => {
                                    ensure!(shared > 1024, "{error}");
                                    let of_driver = error.to_string().contains("CUDA_ERROR");
                                    ensure!(!of_driver || shared == most, "{error}");
                                }
                            }
                        }
                        let seen = x.to_vec(&stream)?;
                        ensure!(seen.into_iter().eq((0..64).rev()));
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
            .collect()
    });
    results.into_iter().collect()
}

/// Asks for the occupancy of blocks of nothing, of everything, and of clusters that fit no grid.
///
/// - row: a launch is within the limits
/// - targets: `Kernel::max_active_blocks`, `Kernel::max_potential_block_size`, `Kernel::max_active_clusters`,
///   `Kernel::max_potential_cluster_size`, `Kernel::set_non_portable_cluster`
fn occupancy_of_nonsense(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Shared::load(&context)?;
    let kernel = k.turn_kernel();
    for threads in [0, 1, 33, 1024, 1025, 1 << 16, u32::MAX] {
        for shared in [0, 1, 48 << 10, 1 << 20, 1 << 31, u32::MAX] {
            if let Ok(blocks) = kernel.max_active_blocks(threads, shared) {
                let held = u64::from(blocks) * u64::from(threads);
                ensure!(held <= 1 << 12, "{blocks} blocks of {threads}");
                ensure!(
                    shared < 1 << 20 || blocks == 0,
                    "{blocks} blocks with {shared} bytes of shared memory"
                );
            }
            if let Ok((grid, block)) = kernel.max_potential_block_size(shared) {
                ensure!((1..=1024).contains(&block.max(1)) && grid < 1 << 20, "{grid} of {block}");
            }
        }
    }
    let (min, max) = (1, u32::MAX);
    for cluster in
        [(0, 1, 1), (3, 1, 1), (max, max, max), (1 << 16, 1 << 16, 1), (9, 1, 1), (2, 2, 2)]
    {
        for grid in [(0, 1, 1), (4, 4, 4), (max, max, max), (7, 1, 1)] {
            for block in [0, min, 64, max] {
                let launch =
                    LaunchConfig::new(grid, block).cluster(cluster).dynamic_shared_bytes(0);
                let _ = kernel.max_active_clusters(&launch);
                let _ = kernel.max_potential_cluster_size(&launch);
                let _ = kernel.max_active_clusters(&launch.dynamic_shared_bytes(max).cooperative());
            }
        }
    }
    let _ = kernel.max_active_clusters(&LaunchConfig::new(4, 64));
    ensure!(
        kernel.set_non_portable_cluster(true).is_ok()
            || kernel.set_non_portable_cluster(false).is_err()
    );
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    k.turn(&stream, LaunchConfig::new(4, 64).dynamic_shared_bytes(256), &mut x, 64)?;
    ensure!(x.to_vec(&stream)?.into_iter().eq((0..64).rev()));
    Ok(())
}

/// Launches in clusters that are none, do not divide the grid or are too large, with priorities that are none, and
/// with more threads than the kernel's bounds allow.
///
/// - row: a launch is within the limits
/// - targets: `LaunchConfig::cluster`, `LaunchConfig::priority`, `LaunchConfig::cooperative`, `LaunchConfig::cover`
fn launches_of_nonsense(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Shared::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let many = 1 << 30;
    let refused = [
        LaunchConfig::new(4, 64).cluster(0),
        LaunchConfig::new(4, 64).cluster(3),
        LaunchConfig::new(4, 64).cluster((1, 2)),
        LaunchConfig::new(4, 64).cluster(u32::MAX),
        LaunchConfig::new(4, 64).cluster((u32::MAX, u32::MAX, u32::MAX)),
        LaunchConfig::new(4, 64).cluster((1 << 16, 1 << 16, 1)),
        LaunchConfig::new(1 << 20, 64).cluster(1 << 20),
        LaunchConfig::new(17, 64).cluster(17),
        LaunchConfig::new(many, 64).cooperative(),
        LaunchConfig::new(many, 64).cooperative().cluster(2),
        LaunchConfig::new(i32::MAX as u32, 64).cooperative(),
        LaunchConfig::new(i32::MAX as u32 + 1, 64),
        LaunchConfig::new(1, 65),
        LaunchConfig::cover(usize::MAX, 64),
        LaunchConfig::cover(usize::MAX, 1),
        LaunchConfig::cover(usize::MAX, 0),
        LaunchConfig::cover(1, 0),
        LaunchConfig::new(0, 64),
        LaunchConfig::cover(1, u32::MAX),
        LaunchConfig::cover((i32::MAX as usize + 1) * 64, 64),
    ];
    for launch in refused {
        let Err(error) = k.bounded(&stream, launch, &mut x, 64) else {
            return Err(Failure::new(format!("launched: {launch:?}")));
        };
        ensure!(!error.to_string().contains("CUDA_ERROR"), "{launch}: {error}");
    }
    // Nothing to do is no error, and does nothing; but the clauses count.
    k.bounded(&stream, LaunchConfig::cover(0, 64), &mut x, 64)?;
    lab.refused(k.bounded(&stream, LaunchConfig::cover(0, 64), &mut x, 65), "n <=")?;
    ensure_eq!(x.to_vec(&stream)?, [0; 64]);
    for priority in [i32::MIN, -1, 0, 1, i32::MAX] {
        match k.bounded(&stream, LaunchConfig::new(1, 64).priority(priority), &mut x, 64) {
            Ok(()) => ensure_eq!(x.to_vec(&stream)?, [1; 64], "priority {priority}"),
            Err(error) => ensure!(!error.to_string().contains("CUDA_ERROR"), "{error}"),
        }
        x.fill(&stream, 0)?;
        let own = Stream::with_priority(&context, priority)?;
        let (least, most) = context.device().stream_priorities()?;
        ensure!((most..=least).contains(&own.priority()?), "priority {priority}");
        k.bounded(&own, LaunchConfig::new(1, 64), &mut x, 64)?;
        ensure_eq!(x.to_vec(&own)?, [1; 64]);
        x.fill(&own, 0)?;
    }
    Ok(())
}

/// A visitor that counts arguments, fails at one and panics at another.
struct Visits {
    seen: usize,
    fails: usize,
    panics: usize,
}

impl ArgVisitor for Visits {
    fn visit<A: KernelArg>(&mut self, index: usize, _: &A) -> Result<()> {
        self.seen += 1;
        if index == self.panics {
            std::panic::panic_any("in a visitor");
        }
        if index == self.fails { Err(Error::invalid("on purpose")) } else { Ok(()) }
    }
}

/// Compares types with a kernel's parameters that are too many, too few, of no size, and of another class; and visits
/// arguments with visitors that fail and panic.
///
/// - row: arguments have the number, sizes, classes
/// - row: `KernelArgs`
/// - row: `KernelArg`
/// - targets: `Kernel::check_types`, `ArgType::value`, `ArgType::pointer`, `InspectArgs::each`
fn types_of_arguments(lab: &Lab) -> TestResult {
    const POINTER: ArgType = ArgType::pointer::<&mut DeviceBuffer<u32>, u32>(true);
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Shared::load(&context)?;
    let kernel = k.turn_kernel();
    kernel.check_types(const { &[POINTER, ArgType::value::<u32>()] })?;
    kernel.check_types(const { &[ArgType::value::<u64>(), ArgType::value::<i32>()] }).or(Ok::<
        _,
        Error,
    >(
        ()
    ))?;
    let wrong: [&'static [ArgType]; 9] = [
        const { &[] },
        const { &[POINTER] },
        const { &[POINTER, POINTER] },
        const { &[POINTER, ArgType::value::<u32>(), ArgType::value::<u32>()] },
        const { &[ArgType::value::<u32>(), ArgType::value::<u32>()] },
        const { &[POINTER, ArgType::value::<u64>()] },
        const { &[POINTER, ArgType::value::<f32>()] },
        const { &[POINTER, ArgType::value::<[u32; 0]>()] },
        const { &[POINTER, ArgType::value::<[u8; 65536]>()] },
    ];
    for (i, types) in wrong.into_iter().enumerate() {
        lab.refused(kernel.check_types(types), "turn")
            .map_err(|failure| Failure::new(format!("types {i}: {failure}")))?;
    }
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let arguments = (&mut x, 64u32, 1.0f32);
    let mut visits = Visits { seen: 0, fails: 9, panics: 9 };
    arguments.each(&mut visits)?;
    ensure_eq!(visits.seen, 3);
    let mut visits = Visits { seen: 0, fails: 1, panics: 2 };
    lab.refused(arguments.each(&mut visits), "on purpose")?;
    ensure_eq!(visits.seen, 2);
    let mut visits = Visits { seen: 0, fails: 9, panics: 0 };
    ensure!(catch_unwind(AssertUnwindSafe(|| arguments.each(&mut visits))).is_err());
    k.turn(&stream, LaunchConfig::new(1, 64).dynamic_shared_bytes(256), arguments.0, 64)?;
    ensure!(x.to_vec(&stream)?.into_iter().eq((0..64).rev()));
    Ok(())
}

attacks![
    "kernels",
    right(shared_memory_from_threads),
    right(occupancy_of_nonsense),
    right(launches_of_nonsense),
    right(types_of_arguments),
];

//! A launch: its blocks on worker threads, in turn, so that blocks may wait for each other.

mod workspace;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::block::{Block, BlockTurn};
use super::check::finding::note_checked;
use super::cluster::address::start_of;
use super::cluster::{Cluster, MOST_BLOCKS};
use super::control::warp::{NONE, Warp};
use super::fault::{Code, Fault};
use super::inst::{Isa, LANES};
use super::machine::{Apart, Around, Job, Machine};
use super::memory::site::Sites;
use super::program::Program;
use super::taint::Places;
use super::{Env, Launch, Stats};
use crate::report::Report;
pub(crate) use workspace::Workspace;

/// Numbers the launches of the process.
static LAUNCHES: AtomicU64 = AtomicU64::new(1);

/// Runs a kernel to its end, on the calling thread and `workers - 1` others.
///
/// # Errors
/// The first fault that a worker met, or the time-out.
pub fn run(program: &Program, launch: &Launch, env: &Env<'_>) -> Result<Stats, Fault> {
    run_around(program, launch, env, &Around::ALONE)
}

/// Runs a launch like [`run`], with the driver's data.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_around(
    program: &Program,
    launch: &Launch,
    env: &Env<'_>,
    around: &Around<'_>,
) -> Result<Stats, Fault> {
    let (stats, fault) = run_stats(program, launch, env, around);
    fault.map_or(Ok(stats), Err)
}

/// Runs a launch like [`run_around`]. What was counted before a fault is returned, too.
pub(crate) fn run_stats(
    program: &Program,
    launch: &Launch,
    env: &Env<'_>,
    around: &Around<'_>,
) -> (Stats, Option<Fault>) {
    let mut stats = Stats::default();
    let fault = run_into(&mut stats, program, launch, env, around).err();
    (stats, fault)
}

fn run_into(
    stats: &mut Stats,
    program: &Program,
    launch: &Launch,
    env: &Env<'_>,
    around: &Around<'_>,
) -> Result<(), Fault> {
    let job = Job::new(program, launch, env, around)?;
    if env.device.checks.race || env.device.checks.init {
        note_checked(&program.code(program.function_of(launch.entry)).name);
    }
    job.place_tangents()?;
    let found: Mutex<Option<Fault>> = Mutex::new(None);
    let all = Mutex::new(stats);
    let worker = || {
        let (done, fault) = work(&job);
        all.lock().unwrap_or_else(PoisonError::into_inner).add(done);
        if let Some(fault) = fault {
            job.stop.store(true, Ordering::Relaxed);
            found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        }
    };
    // One worker sees the accesses of all blocks, in an order that is the same each time.
    // Lanes on several workers would also mix the loads and stores of tangents.
    let alone = env.device.checks.race || env.device.tangents || env.device.taint;
    let workers = if alone { 1 } else { env.config.workers.max(1) as u64 };
    let workers = workers.min(job.clusters);
    if workers == 1 {
        worker();
    } else {
        std::thread::scope(|scope| {
            for _ in 1..workers {
                // A thread that cannot be started leaves its blocks to the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
            }
            worker();
        });
    }
    match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

impl Stats {
    /// Adds another worker's.
    fn add(&mut self, other: Self) {
        self.lane_instructions = self.lane_instructions.wrapping_add(other.lane_instructions);
        self.executed.all += other.executed.all;
        for (name, count) in other.executed.approximate {
            *self.executed.approximate.entry(name).or_default() += count;
        }
        self.reached.extend(other.reached);
    }
}

fn refuse(program: &Program, launch: &Launch, code: cuda_sys::CUresult, what: String) -> Fault {
    let kernel = program.code(program.function_of(launch.entry)).name.clone();
    Fault { code, report: Box::new(Report { kernel, what, ..Report::default() }) }
}

impl<'a> Job<'a> {
    fn new(
        program: &'a Program,
        launch: &'a Launch,
        env: &'a Env<'a>,
        around: &'a Around<'a>,
    ) -> Result<Self, Fault> {
        use cuda_sys::CUresult as R;
        let no = |code, what| refuse(program, launch, code, what);
        if let Some(why) = program.refused(launch.entry) {
            return Err(no(R::CUDA_ERROR_NOT_SUPPORTED, why));
        }
        let product = |of: [u32; 3]| of.iter().try_fold(1u64, |n, &d| n.checked_mul(d.into()));
        let (threads, blocks) = (product(launch.block), product(launch.grid));
        let (Some(threads @ 1..=1024), Some(blocks @ 1..)) = (threads, blocks) else {
            return Err(no(R::CUDA_ERROR_INVALID_VALUE, "the launch's dimensions".to_owned()));
        };
        let cluster = launch.cluster.unwrap_or([1; 3]);
        let cluster_blocks = product(cluster).filter(|count| *count <= MOST_BLOCKS.into());
        let divides = |(&grid, &cluster): (&u32, &u32)| cluster != 0 && grid % cluster == 0;
        let fits = launch.grid.iter().zip(&cluster).all(divides);
        let (Some(cluster_blocks), true) = (cluster_blocks, fits) else {
            let what = format!("clusters of {cluster:?} in a grid of {:?}", launch.grid);
            return Err(no(R::CUDA_ERROR_INVALID_CLUSTER_SIZE, what));
        };
        let attributes = program.attributes(launch.entry);
        let needed = program.param_bytes(launch.entry);
        if launch.params.len() < needed {
            let what = format!("{} bytes of parameters of {needed}", launch.params.len());
            return Err(no(R::CUDA_ERROR_INVALID_VALUE, what));
        }
        let reserved = program.reserved_shared(launch.entry);
        let shared_bytes = program
            .dynamic_start(launch.entry)
            .saturating_add(launch.shared)
            .max(reserved.saturating_add(attributes.static_shared));
        let shared_own = shared_bytes - reserved;
        // Offsets are the bits of an address below the rank of its block.
        if shared_own > env.device.shared_optin || u64::from(shared_bytes) > start_of(1) {
            let what = format!("{shared_own} bytes of shared memory");
            return Err(no(R::CUDA_ERROR_INVALID_VALUE, what));
        }
        let warps = (threads as u32).div_ceil(LANES as u32);
        let [x, y, _] = launch.block;
        let tids = (0..warps)
            .map(|warp| {
                let linear = |lane: usize| warp * LANES as u32 + lane as u32;
                [
                    std::array::from_fn(|lane| linear(lane) % x),
                    std::array::from_fn(|lane| linear(lane) / x % y),
                    std::array::from_fn(|lane| linear(lane) / x / y),
                ]
            })
            .collect();
        let mut params = launch.params.clone();
        params.resize(params.len().next_multiple_of(16) + 16, 0);
        let started = Instant::now();
        Ok(Self {
            program,
            entry: launch.entry,
            launch,
            env,
            around,
            shared_bytes,
            shared_reserved: reserved,
            workspace: Workspace::of(program, launch, env)?,
            number: LAUNCHES.fetch_add(1, Ordering::Relaxed),
            local_bytes: program.local_bytes(launch.entry, env.config.stack_bytes),
            threads: threads as u32,
            warps,
            tids,
            params: Params::new(&params),
            blocks,
            cluster,
            cluster_blocks: cluster_blocks as u32,
            clusters: blocks / cluster_blocks,
            next: Apart(AtomicU64::new(0)),
            stop: AtomicBool::new(false),
            started,
            deadline: env.config.timeout.and_then(|limit| started.checked_add(limit)),
        })
    }

    /// Gives the arguments their tangents.
    fn place_tangents(&self) -> Result<(), Fault> {
        let Some(store) = self.env.space.tangent_store() else { return Ok(()) };
        let start = self.params.as_ptr().expose_provenance() as u64;
        let bytes = self.launch.params.len() as u64;
        let name = &self.program.code(self.program.function_of(self.entry)).name;
        let mut held = store.lock();
        held.clear(start, bytes.next_multiple_of(16));
        for (offset, units) in held.arguments.get(name).cloned().unwrap_or_default() {
            let end = offset + 2 * units.len() as u64;
            if end > self.program.param_bytes(self.entry) as u64 {
                let what = format!("a tangent of bytes {offset} to {end} of the parameters");
                let code = cuda_sys::CUresult::CUDA_ERROR_INVALID_VALUE;
                return Err(refuse(self.program, self.launch, code, what));
            }
            for (at, unit) in (start + offset..).step_by(2).zip(units) {
                held.put(at, unit);
            }
        }
        Ok(())
    }

    /// Returns the next cluster that no worker has begun.
    fn take(&self) -> Option<u64> {
        let at = self.next.0.fetch_add(1, Ordering::Relaxed);
        if at >= self.clusters {
            return None;
        }
        Some(match self.env.config.block_order_seed {
            None => at,
            Some(seed) => permute(seed, at, self.clusters),
        })
    }

    /// `%nclusterid`
    pub(crate) fn cluster_counts(&self) -> [u32; 3] {
        std::array::from_fn(|at| self.launch.grid[at] / self.cluster[at].max(1))
    }

    /// `%clusterid` of the cluster of this number.
    pub(crate) fn cluster_index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.cluster_counts().map(u64::from);
        [(number % x) as u32, (number / x % y) as u32, (number / (x * y)) as u32]
    }

    /// Returns the number of the block with this `%ctaid`.
    pub(crate) fn block_number(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.launch.grid.map(u64::from);
        u64::from(x) + width * (u64::from(y) + height * u64::from(z))
    }

    /// `%ctaid` of the block of this number.
    pub(crate) fn block_index(&self, linear: u64) -> [u32; 3] {
        let [x, y, _] = self.launch.grid.map(u64::from);
        [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32]
    }

    /// Clusters that one worker keeps resident at most.
    fn resident(&self) -> usize {
        if self.launch.cooperative {
            return usize::MAX;
        }
        let device = self.env.device;
        let each = device.threads_per_multiprocessor / self.threads.max(1);
        let each = each.min(device.blocks_per_multiprocessor).max(1);
        let all = u64::from(each) * u64::from(device.multiprocessors.max(1));
        let all = (all / u64::from(self.cluster_blocks.max(1))).max(1);
        usize::try_from(all).unwrap_or(usize::MAX)
    }
}

/// The parameters of a launch, aligned to 16.
#[derive(Debug)]
pub(crate) struct Params(Vec<u128>);

impl Params {
    fn new(bytes: &[u8]) -> Self {
        let words = bytes.chunks(16).map(|chunk| {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            u128::from_le_bytes(word)
        });
        Self(words.collect())
    }

    /// Returns the first byte.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

/// Returns a permutation of `0..count`, another one for each seed.
pub(crate) fn permute(seed: u64, at: u64, count: u64) -> u64 {
    let mix = |x: u64| {
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    let common = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut step = mix(seed) % count;
    while common(step.max(1), count) != 1 || step == 0 {
        step = (step + 1) % count.max(2);
    }
    let start = mix(seed ^ 0x9e37_79b9_7f4a_7c15) % count;
    ((u128::from(at) * u128::from(step) + u128::from(start)) % u128::from(count)) as u64
}

/// Returns whether memory has marks of taint, or tangents.
fn is_marked(job: &Job<'_>) -> bool {
    let store = job.env.space.tangent_store();
    store.is_some_and(|store| !store.lock().is_empty())
}

/// Runs clusters until none is left.
fn work(job: &Job<'_>) -> (Stats, Option<Fault>) {
    let code = job.program.code(job.program.function_of(job.entry));
    let isa = Isa::detect();
    let mut m = Machine {
        regs: std::ptr::null_mut(),
        mask: 0,
        pc: 0,
        code,
        fuel: 0,
        polled: false,
        slept: false,
        earliest: u64::MAX,
        awake: false,
        moved: false,
        slices: 0,
        frame: 0,
        join: NONE,
        shared: std::ptr::null_mut(),
        shared_start: 0,
        local: std::ptr::null_mut(),
        sites: Sites::new(job.program.sites()),
        space: job.env.space,
        wide: isa != Isa::Base,
        warp: Warp::default(),
        block: Block::default(),
        cluster: Cluster::default(),
        job,
        fault: None,
        global: job.env.device.checks.race.then(Box::default),
        lane_instructions: 0,
        counts: vec![0; job.program.counted().len()],
        reached: Places::new(is_marked(job)),
        spare: std::iter::repeat_with(Vec::new).take(job.program.functions()).collect(),
    };
    let mut resident: VecDeque<Cluster> = VecDeque::new();
    let mut spare: Option<Cluster> = None;
    let (limit, mut expired) = (job.resident(), 0u32);
    // Consecutive slices in which a cluster only waited.
    let mut waited = 0;
    // Consecutive slices in which all of a cluster slept.
    let mut idle = 0;
    let begin = |spare: &mut Option<Cluster>| -> Option<Cluster> {
        let number = job.take()?;
        let mut cluster = spare.take().unwrap_or_else(|| Cluster::new(job));
        cluster.restart(job, number);
        Some(cluster)
    };
    loop {
        if m.stopped() {
            break;
        }
        let Some(mut cluster) = resident.pop_front().or_else(|| begin(&mut spare)) else { break };
        std::mem::swap(&mut m.cluster, &mut cluster);
        let turn = m.run_cluster();
        std::mem::swap(&mut m.cluster, &mut cluster);
        match turn {
            BlockTurn::Done => {
                spare = Some(cluster);
                idle = 0;
            }
            BlockTurn::Expired | BlockTurn::Waits { .. } => {
                expired = expired.wrapping_add(1);
                if job.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    m.cluster = cluster;
                    let limit = job.env.config.timeout.unwrap_or_default();
                    m.time_out(limit);
                    break;
                }
                let waits = m.polled || expired % 16 == 0;
                waited = if m.polled { waited + 1 } else { 0 };
                resident.push_back(cluster);
                idle = if m.awake { 0 } else { idle + 1 };
                // Sleepers leave the worker to clusters that have not begun.
                let asleep = idle >= resident.len();
                // The cluster may be waiting for a block that has not begun.
                let mut begun = false;
                if (waits || asleep)
                    && resident.len() < limit
                    && let Some(cluster) = begin(&mut spare)
                {
                    resident.push_front(cluster);
                    begun = true;
                }
                if asleep {
                    idle = 0;
                    if !begun {
                        m.sleep();
                    }
                }
                // The blocks may wait for a block of another worker on the same core. Once all have begun, the worker
                // yields once for all of them: each yield may cost a time slice of the system if other processes want
                // the core.
                if m.polled && (begun || waited >= resident.len()) {
                    waited = 0;
                    std::thread::yield_now();
                }
            }
            BlockTurn::Fault => break,
        }
    }
    let mut stats = Stats { lane_instructions: m.lane_instructions, ..Stats::default() };
    stats.executed.add(job.program.counted(), &m.counts);
    stats.reached = m.reached.take();
    (stats, m.fault)
}

impl Machine<'_> {
    /// The launch has taken too long: the report names a thread that still ran.
    fn time_out(&mut self, limit: std::time::Duration) {
        let running = |block: &Block| block.warps.iter().any(|warp| !warp.splits.is_empty());
        if let Some(at) = self.cluster.blocks.iter().position(running) {
            std::mem::swap(&mut self.block, &mut self.cluster.blocks[at]);
        }
        let found = self.block.warps.iter().position(|warp| !warp.splits.is_empty());
        let lane = match found {
            Some(at) => {
                std::mem::swap(&mut self.warp, &mut self.block.warps[at]);
                match self.warp.splits.first().copied() {
                    Some(split) => {
                        self.enter(split);
                        split.mask.trailing_zeros() as usize
                    }
                    None => 0,
                }
            }
            None => 0,
        };
        self.fail(Code::Timeout, lane, format!("the launch still runs after {limit:?}"));
    }
}

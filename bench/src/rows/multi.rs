//! Two GPUs: copies between them, and collectives of NCCL, beside the bare calls in the same run.

use std::ffi::c_void;

use cuda_nccl::raw::{Nccl, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId};
use cuda_nccl::{Communicator, Config, Group, ReduceOp, UniqueId};
use cuda_safe::{Context, DeviceBuffer, GraphExec, Stream};
use cuda_sys::{CUresult, CUstream};

use super::{Bench, Work};
use crate::report::{Row, Unit};
use crate::stats::Stats;
use crate::stop::Stop;
use crate::timing::{Paired, burst};

pub(super) const WORKS: &[Work] = &[
    Work { names: &EXCHANGES, run: exchange },
    Work { names: &MESSAGES, run: messages },
    Work { names: &SUMS, run: all_reduce },
    Work { names: &["nccl/all_reduce/1MiB/graph"], run: graph },
    Work { names: &["nccl/all_reduce/host"], run: host },
];

const EXCHANGES: [&str; 3] = ["peer/exchange/1MiB", "peer/exchange/16MiB", "peer/exchange/256MiB"];
const MESSAGES: [&str; 3] = ["nccl/exchange/1MiB", "nccl/exchange/16MiB", "nccl/exchange/256MiB"];
const SUMS: [&str; 3] = ["nccl/all_reduce/1MiB", "nccl/all_reduce/16MiB", "nccl/all_reduce/256MiB"];
const MEBIBYTES: [usize; 3] = [1, 16, 256];
/// Calls between two waits of the host: fewer than the driver queues.
const CALLS: u32 = 20;

/// Two devices, with a stream and two arrays each.
struct Pair {
    contexts: [Context; 2],
    streams: [Stream; 2],
}

impl Pair {
    fn open(bench: &Bench) -> Result<Self, Stop> {
        let driver = bench.gpu()?.driver;
        let count = driver.devices().count();
        if count < 2 {
            return Err(Stop::NotRun(format!("it needs two devices, and there is {count}")));
        }
        let contexts = [driver.device(0)?.context()?, driver.device(1)?.context()?];
        for (one, other) in [(0, 1), (1, 0)] {
            if contexts[one].can_access_peer(&contexts[other])? {
                contexts[one].enable_peer_access(&contexts[other])?;
            }
        }
        let streams = [contexts[0].stream()?, contexts[1].stream()?];
        Ok(Self { contexts, streams })
    }

    /// Returns an array on each device; that of device `d` has the values `first[d]`.
    fn arrays(&self, len: usize, first: [f32; 2]) -> Result<[DeviceBuffer<f32>; 2], Stop> {
        let array = |device: usize| -> Result<_, Stop> {
            let mut array = DeviceBuffer::zeroed(&self.streams[device], len)?;
            array.fill(&self.streams[device], first[device])?;
            Ok(array)
        };
        Ok([array(0)?, array(1)?])
    }

    fn wait(&self) -> Result<(), Stop> {
        Ok(self.streams.iter().try_for_each(Stream::synchronize)?)
    }

    /// Microseconds of a call, by the host's clock around many and a wait for both devices.
    fn time(&self, mut call: impl FnMut() -> Result<(), Stop>) -> Result<f64, Stop> {
        self.wait()?;
        let calls = || -> Result<(), Stop> {
            for _ in 0..CALLS {
                call()?;
            }
            self.wait()
        };
        let mut calls = Some(calls);
        let whole = burst(1, || calls.take().map_or(Ok(()), |mut calls| calls()))?;
        Ok(whole / f64::from(CALLS) / 1000.0)
    }

    fn expect(&self, array: &DeviceBuffer<f32>, device: usize, value: f32) -> Result<(), Stop> {
        let values = array.to_vec(&self.streams[device])?;
        match values.iter().position(|found| *found != value) {
            None => Ok(()),
            Some(at) => Err(Stop::failed(format!(
                "element {at} on device {device} is {} instead of {value}",
                values[at]
            ))),
        }
    }

    fn row(&self, name: &str, paired: &Paired, bound: f64) -> Result<Row, Stop> {
        let (ratio, raw) = (paired.ratio().median, Stats::of(&paired.raw).median);
        Ok(Row::new(name, Unit::Us, &paired.ours)
            .check("all elements are right")
            .device(self.contexts[0].device().name()?)
            .figure("raw_us", raw)
            .figure("ratio", ratio)
            .figure("aa_ratio", paired.aa_ratio())
            .note(format!("raw {raw:.1}, {ratio:.3} of it, A/A {:.3}", paired.aa_ratio()))
            .at_most("ratio", ratio, bound))
    }
}

fn success(code: CUresult) -> Result<(), Stop> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        failed => Err(Stop::failed(format!("{failed:?}"))),
    }
}

/// Each device copies an array to the other.
fn exchange(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let pair = Pair::open(bench)?;
    let sys = pair.contexts[0].driver().as_sys();
    let mut rows = Vec::new();
    for (name, mebibytes) in EXCHANGES.iter().zip(MEBIBYTES) {
        let len = mebibytes << 18;
        let (from, [mut to0, mut to1]) =
            (pair.arrays(len, [1.0, 2.0])?, pair.arrays(len, [0.0; 2])?);
        let sources = [from[0].device_ptr(), from[1].device_ptr()];
        let targets = [to0.device_ptr(), to1.device_ptr()];
        let (contexts, raw) = (
            pair.contexts.each_ref().map(Context::as_raw),
            pair.streams.each_ref().map(Stream::as_raw),
        );
        let bare = || {
            pair.time(|| {
                for (one, other) in [(0, 1), (1, 0)] {
                    let (to, source) = (targets[other], sources[one]);
                    // SAFETY: the arrays lie in these contexts and are larger; nothing else uses them meanwhile.
                    success(unsafe {
                        sys.cuMemcpyPeerAsync(
                            to,
                            contexts[other],
                            source,
                            contexts[one],
                            len * 4,
                            raw[one],
                        )
                    }?)?;
                }
                Ok(())
            })
        };
        let mut ours = || {
            pair.time(|| {
                to1.as_slice_mut().copy_from_peer(&pair.streams[0], &from[0])?;
                Ok(to0.as_slice_mut().copy_from_peer(&pair.streams[1], &from[1])?)
            })
        };
        let paired = Paired::measure(bench.pairs, &mut ours, &bare)?;
        pair.expect(&to0, 0, 2.0)?;
        pair.expect(&to1, 1, 1.0)?;
        rows.push(pair.row(name, &paired, 1.05)?);
    }
    Ok(rows)
}

/// Communicators made by bare calls.
struct Bare {
    library: &'static Nccl,
    comms: [ncclComm_t; 2],
}

fn fine(code: ncclResult_t) -> Result<(), Stop> {
    match code {
        ncclResult_t::ncclSuccess => Ok(()),
        failed => Err(Stop::failed(format!("{failed:?}"))),
    }
}

impl Bare {
    fn new(pair: &Pair) -> Result<Self, Stop> {
        let library = Nccl::load().map_err(|error| Stop::NotRun(error.to_string()))?;
        let id = ncclUniqueId { internal: UniqueId::of(library)?.to_bytes().map(|byte| byte as _) };
        let mut comms = [std::ptr::null_mut(); 2];
        // SAFETY: the group is ended below; each rank's call comes with its device's context current.
        fine(unsafe { library.ncclGroupStart() }?)?;
        for (rank, comm) in comms.iter_mut().enumerate() {
            let code = pair.contexts[rank].with_current(|| {
                // SAFETY: `comm` is a valid place for a handle; a null configuration is the usual one.
                Ok(unsafe {
                    library.ncclCommInitRankConfig(comm, 2, id, rank as i32, std::ptr::null_mut())
                })
            })??;
            fine(code)?;
        }
        // SAFETY: ends the group.
        fine(unsafe { library.ncclGroupEnd() }?)?;
        Ok(Self { library, comms })
    }

    /// Runs calls for both ranks in a group.
    fn group(&self, call: impl Fn(usize, ncclComm_t) -> Result<(), Stop>) -> Result<(), Stop> {
        // SAFETY: the group is ended below.
        fine(unsafe { self.library.ncclGroupStart() }?)?;
        for (rank, comm) in self.comms.iter().enumerate() {
            call(rank, *comm)?;
        }
        // SAFETY: ends the group.
        fine(unsafe { self.library.ncclGroupEnd() }?)
    }

    fn sum(&self, array: [u64; 2], len: usize, streams: [CUstream; 2]) -> Result<(), Stop> {
        self.group(|rank, comm| {
            let array = array[rank] as *mut c_void;
            // SAFETY: the array has so many floats, and is used by this stream alone.
            fine(unsafe {
                let (ty, op) = (ncclDataType_t::ncclFloat32, ncclRedOp_t::ncclSum);
                self.library.ncclAllReduce(array, array, len, ty, op, comm, streams[rank])
            }?)
        })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        for comm in self.comms {
            // SAFETY: made by `new`, and used no more.
            let _ = unsafe { self.library.ncclCommDestroy(comm) };
        }
    }
}

/// Returns the settings of our communicators: NCCL works in the calling thread, as for the bare calls.
fn settings() -> Config {
    Config::new().blocking(true)
}

/// Each rank sends an array to the other.
fn messages(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let pair = Pair::open(bench)?;
    let bare = Bare::new(&pair)?;
    let mut ranks = Communicator::all_with(&pair.contexts, &settings())?;
    let mut rows = Vec::new();
    for (name, mebibytes) in MESSAGES.iter().zip(MEBIBYTES) {
        let len = mebibytes << 18;
        let (from, mut to) = (pair.arrays(len, [1.0, 2.0])?, pair.arrays(len, [0.0; 2])?);
        let sources = from.each_ref().map(DeviceBuffer::device_ptr);
        let targets = to.each_ref().map(DeviceBuffer::device_ptr);
        let streams = pair.streams.each_ref().map(Stream::as_raw);
        let raw = || {
            pair.time(|| {
                bare.group(|rank, comm| {
                    let (peer, ty) = (1 - rank as i32, ncclDataType_t::ncclFloat32);
                    let (source, target) =
                        (sources[rank] as *const c_void, targets[rank] as *mut c_void);
                    // SAFETY: the arrays have so many floats, and are used by this stream alone.
                    fine(unsafe {
                        bare.library.ncclSend(source, len, ty, peer, comm, streams[rank])
                    }?)?;
                    // SAFETY: as above.
                    fine(unsafe {
                        bare.library.ncclRecv(target, len, ty, peer, comm, streams[rank])
                    }?)
                })
            })
        };
        let mut ours = || {
            pair.time(|| {
                let mut group = Group::new(&mut ranks);
                for (rank, to) in to.iter_mut().enumerate() {
                    let mut on = group.on(rank)?;
                    on.send(&pair.streams[rank], &from[rank], 1 - rank)?;
                    on.recv(&pair.streams[rank], to, 1 - rank)?;
                }
                Ok(group.run()?)
            })
        };
        let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
        pair.expect(&to[0], 0, 2.0)?;
        pair.expect(&to[1], 1, 1.0)?;
        rows.push(pair.row(name, &paired, 1.03)?);
    }
    Communicator::close(ranks)?;
    Ok(rows)
}

/// Sums an array of each rank, in place.
fn sum(
    pair: &Pair,
    ranks: &mut [Communicator],
    arrays: &mut [DeviceBuffer<f32>; 2],
) -> Result<(), Stop> {
    let mut group = Group::new(ranks);
    for (rank, array) in arrays.iter_mut().enumerate() {
        group.on(rank)?.all_reduce_in_place(&pair.streams[rank], array, ReduceOp::Sum)?;
    }
    Ok(group.run()?)
}

fn all_reduce(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let pair = Pair::open(bench)?;
    let bare = Bare::new(&pair)?;
    let mut ranks = Communicator::all_with(&pair.contexts, &settings())?;
    let streams = pair.streams.each_ref().map(Stream::as_raw);
    let mut rows = Vec::new();
    for (name, mebibytes) in SUMS.iter().zip(MEBIBYTES) {
        let len = mebibytes << 18;
        let mut arrays = pair.arrays(len, [1.0, 2.0])?;
        sum(&pair, &mut ranks, &mut arrays)?;
        pair.expect(&arrays[0], 0, 3.0)?;
        pair.expect(&arrays[1], 1, 3.0)?;
        // Zeros stay zeros, however often they are added.
        let mut arrays = pair.arrays(len, [0.0; 2])?;
        let places = arrays.each_ref().map(DeviceBuffer::device_ptr);
        let raw = || pair.time(|| bare.sum(places, len, streams));
        let mut ours = || pair.time(|| sum(&pair, &mut ranks, &mut arrays));
        let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
        pair.expect(&arrays[0], 0, 0.0)?;
        rows.push(pair.row(name, &paired, 1.03)?);
    }
    Communicator::close(ranks)?;
    Ok(rows)
}

/// A graph that sums an array of one rank.
type Summing = GraphExec<'static, (Communicator, DeviceBuffer<f32>)>;

/// A graph for each device, captured by a thread for each, that sums an array of each rank.
fn graph(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let pair = Pair::open(bench)?;
    Nccl::load().map_err(|error| Stop::NotRun(error.to_string()))?;
    let ranks = Communicator::all_with(&pair.contexts, &settings())?;
    let len = 1 << 18;
    let arrays = pair.arrays(len, [1.0, 2.0])?;
    pair.wait()?;
    let mut graphs = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .zip(arrays)
            .zip(&pair.contexts)
            .map(|((mut rank, array), context)| {
                // SAFETY: both graphs are launched equally often, in one order, before anything else of the ranks.
                unsafe { rank.allow_recording() };
                scope.spawn(move || {
                    context.capture((rank, array), |stream, (rank, array)| {
                        let summed = rank.all_reduce_in_place(stream, array, ReduceOp::Sum);
                        summed.map_err(|error| cuda_safe::Error::invalid(error.to_string()))
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(captured) => Ok(captured?),
                Err(_) => Err(Stop::failed("a thread panicked")),
            })
            .collect::<Result<Vec<Summing>, Stop>>()
    })?;
    let launch = |graphs: &mut [Summing]| -> Result<(), Stop> {
        for (graph, stream) in graphs.iter_mut().zip(&pair.streams) {
            graph.launch(stream)?;
        }
        Ok(())
    };
    launch(&mut graphs)?;
    pair.expect(&graphs[0].state().1, 0, 3.0)?;
    pair.expect(&graphs[1].state().1, 1, 3.0)?;
    for (graph, stream) in graphs.iter_mut().zip(&pair.streams) {
        graph.state_mut().1.fill(stream, 0.0)?;
    }
    let mut samples = Vec::new();
    for _ in 0..=bench.samples {
        samples.push(pair.time(|| launch(&mut graphs))?);
    }
    let row = Row::new("nccl/all_reduce/1MiB/graph", Unit::Us, &samples[1..])
        .check("all elements are right")
        .device(pair.contexts[0].device().name()?);
    let median = row.stats.median;
    Communicator::close(graphs.into_iter().map(|graph| graph.into_state().0))?;
    Ok(vec![row.at_most("us", median, 16.0)])
}

/// The host's time for a small all-reduce of both ranks.
fn host(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let pair = Pair::open(bench)?;
    let bare = Bare::new(&pair)?;
    let mut ranks = Communicator::all_with(&pair.contexts, &settings())?;
    let streams = pair.streams.each_ref().map(Stream::as_raw);
    let mut arrays = pair.arrays(256, [0.0; 2])?;
    let places = arrays.each_ref().map(DeviceBuffer::device_ptr);
    let raw = || {
        pair.wait()?;
        burst(CALLS, || bare.sum(places, 256, streams))
    };
    let mut ours = || {
        pair.wait()?;
        burst(CALLS, || sum(&pair, &mut ranks, &mut arrays))
    };
    let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
    pair.wait()?;
    pair.expect(&arrays[0], 0, 0.0)?;
    Communicator::close(ranks)?;
    let each = paired.difference().median / 2.0;
    Ok(vec![
        Row::host("nccl/all_reduce/host", &paired)
            .check("all elements are right")
            .device(pair.contexts[0].device().name()?)
            .figure("diff_ns_per_rank", each)
            .at_most("diff_ns_per_rank", each, 400.0),
    ])
}

//! Every driver call fails once. An error names it, or the results are right all the same; nothing is left behind, and the
//! next communicator works.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_emu::{Failure, Moment, Watch, watch};
use cuda_sys::CUresult;
use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::abort::alive;
use crate::lab::{Device, Graph, Lab, Memory, Stream, cu, last, on_gpu};

/// Functions that give something back. They do it, and return an error of earlier work.
const GIVES_BACK: [&str; 5] = ["Free", "Destroy", "Unload", "Release", "PopCurrent"];

const COUNT: usize = 300;
const WORDS: ncclDataType_t = ncclDataType_t::ncclUint32;

struct Place {
    device: Device,
    stream: Stream,
    memory: Memory,
    event: cuda_sys::CUevent,
}

/// The texts of failed calls.
#[derive(Debug, Default)]
struct Errors(Vec<String>);

impl Errors {
    fn note(&mut self, code: ncclResult_t) {
        if code != ncclResult_t::ncclSuccess {
            self.0.push(last());
        }
    }
}

/// Makes a call whose error is noted.
macro_rules! tried {
    ($errors:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: places are those of the test; communicators, streams and memory are alive.
        let code = unsafe { $name($($argument),*) };
        $errors.note(code);
    }};
}

/// Sums, and the parts of the sums of all ranks, in one group.
fn operate(places: &[Place], comms: &[ncclComm_t], errors: &mut Errors) {
    let (size, sum) = (places.len(), ncclRedOp_t::ncclSum);
    tried!(errors, ncclGroupStart());
    for (place, comm) in places.iter().zip(comms) {
        let (at, to, stream) = (place.memory.at(0), place.memory.at(4096), place.stream.0);
        tried!(errors, ncclAllReduce(at, at, COUNT, WORDS, sum, *comm, stream));
        tried!(errors, ncclAlltoAll(at, to, COUNT / size, WORDS, *comm, stream));
    }
    tried!(errors, ncclGroupEnd());
}

/// The parts back again, in a graph of all devices.
fn capture(places: &[Place], comms: &[ncclComm_t], errors: &mut Errors) -> Graph {
    let origin = &places[0].stream;
    let mode = cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    cu!(cuStreamBeginCapture_v2(origin.0, mode));
    cu!(cuEventRecord(places[0].event, origin.0));
    for place in &places[1..] {
        cu!(cuStreamWaitEvent(place.stream.0, places[0].event, 0));
    }
    for (place, comm) in places.iter().zip(comms) {
        let (at, to, stream) = (place.memory.at(4096), place.memory.at(8192), place.stream.0);
        tried!(errors, ncclAlltoAll(at, to, COUNT / places.len(), WORDS, *comm, stream));
    }
    for place in &places[1..] {
        cu!(cuEventRecord(place.event, place.stream.0));
        cu!(cuStreamWaitEvent(origin.0, place.event, 0));
    }
    // A capture ends well also after an error of a call in it.
    origin.end()
}

/// Waits until no stream has work.
fn wait(places: &[Place]) {
    let begin = Instant::now();
    while !places.iter().all(|place| place.stream.is_done()) {
        assert!(begin.elapsed() < Duration::from_secs(10), "a stream hangs");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Creates communicators, runs operations, also in a graph, and destroys what there is. Returns the errors.
fn program(places: &[Place]) -> Vec<String> {
    let mut errors = Errors::default();
    let mut comms = vec![ptr::null_mut(); places.len()];
    tried!(errors, ncclCommInitAll(comms.as_mut_ptr(), places.len() as c_int, ptr::null()));
    if errors.0.is_empty() {
        operate(places, &comms, &mut errors);
    }
    if errors.0.is_empty() {
        let graph = capture(places, &comms, &mut errors);
        if errors.0.is_empty() {
            graph.launch(&places[0].stream);
            wait(places);
        }
        // Graphs go before their communicators.
        drop(graph);
    }
    let failed = !errors.0.is_empty();
    for (place, comm) in places.iter().zip(comms) {
        place.device.enter();
        if failed {
            tried!(errors, ncclCommAbort(comm));
        } else {
            tried!(errors, ncclCommDestroy(comm));
        }
    }
    wait(places);
    errors.0
}

/// Functions that the program of the test calls itself.
const OWN: [&str; 8] = [
    "cuCtxSetCurrent",
    "cuStreamQuery",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// Runs the program on new memory, and returns what was wrong with it, or whether the call that fails was made.
fn run(places: &[Place], watch: &Watch, fault: &str, name: &str) -> Result<bool, String> {
    let size = places.len();
    let input: Vec<u8> = (1..=COUNT as u32).flat_map(u32::to_le_bytes).collect();
    for place in places {
        place.memory.fill(&[input.clone(), vec![0; 16384 - input.len()]].concat());
    }
    let before = alive();
    let errors = program(places);
    if alive() != before {
        return Err(format!("{fault}: left {:?}, before {before:?}; {errors:?}", alive()));
    }
    if !errors.is_empty() {
        if watch.met() && !errors.iter().any(|error| error.contains(name)) {
            return Err(format!("{fault}: no error names the call: {errors:?}"));
        }
        return Ok(watch.met());
    }
    let sums: Vec<u8> = (1..=COUNT as u32).flat_map(|x| (x * size as u32).to_le_bytes()).collect();
    let part = COUNT / size * 4;
    for (rank, place) in places.iter().enumerate() {
        let bytes = place.memory.read(16384);
        let own = sums[rank * part..][..part].repeat(size);
        for (at, expected) in [(0, &sums), (4096, &own), (8192, &sums)] {
            if bytes[at..][..size * part] != expected[..size * part] {
                return Err(format!("{fault}: rank {rank}: what is at {at} is wrong"));
            }
        }
    }
    Ok(watch.met())
}

#[test]
fn every_call_fails_once() {
    let lab = Lab::new();
    if on_gpu() {
        return;
    }
    nccl_emu::set_buffer_size(1024);
    let size = lab.devices.len().min(3);
    let places: Vec<Place> = (lab.devices[..size].iter())
        .map(|device| {
            let (stream, memory) = (device.stream(), device.memory(16384));
            let mut event = ptr::null_mut();
            cu!(cuEventCreate(&raw mut event, 2));
            Place { device: *device, stream, memory, event }
        })
        .collect();
    let counted = watch(None).expect("no other watch");
    let clean = run(&places, &counted, "no fault", "");
    assert_eq!(clean, Ok(false));
    let calls = counted.calls();
    drop(counted);
    let (mut tried, mut wrong, mut names) = (0, Vec::new(), BTreeSet::new());
    for (name, count) in calls {
        let skipped = name.starts_with("cuMemcpy") || name == "cuCtxSynchronize";
        if OWN.contains(&name) || skipped {
            continue;
        }
        // The calls of the test's own capture can't be told from others by name.
        let own = ["cuEventRecord", "cuStreamWaitEvent"].contains(&name);
        for nth in 1..=count.min(if own { 6 } else { 12 }) {
            let after = GIVES_BACK.iter().any(|part| name.contains(part));
            let moment = if after { Moment::After } else { Moment::Before };
            let code = CUresult::CUDA_ERROR_INVALID_VALUE;
            let failure = Failure { name: name.to_owned(), nth, code };
            let watch = watch(Some((failure, moment))).expect("no other watch");
            let fault = format!("call {nth} of {name}");
            match run(&places, &watch, &fault, name) {
                Ok(met) => tried += usize::from(met),
                Err(what) => wrong.push(what),
            }
            names.insert(name);
        }
    }
    println!("{tried} faults of {} functions", names.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 150, "{tried} faults are too few");
    for place in &places {
        cu!(cuEventDestroy_v2(place.event));
    }
}

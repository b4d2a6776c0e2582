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
use crate::lab::{Device, Lab, Memory, Stream, cu, last, on_gpu};

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

/// Notes the text of a failed call. Returns whether it succeeded.
fn note(errors: &mut Vec<String>, code: ncclResult_t) -> bool {
    let ok = code == ncclResult_t::ncclSuccess;
    if !ok {
        errors.push(last());
    }
    ok
}

/// Creates communicators, runs operations, also in a graph, and destroys what there is. Returns the errors, and whether all
/// operations were enqueued.
fn program(places: &[Place]) -> (Vec<String>, bool) {
    let mut errors = Vec::new();
    let size = places.len();
    let mut comms = vec![ptr::null_mut(); size];
    // SAFETY: the places are those of the test.
    let begun = unsafe { ncclCommInitAll(comms.as_mut_ptr(), size as c_int, ptr::null()) };
    let mut ok = note(&mut errors, begun);
    // SAFETY: communicators, streams and memory are alive.
    unsafe {
        ok = ok && note(&mut errors, ncclGroupStart());
        if ok {
            for (place, comm) in places.iter().zip(&comms) {
                let (at, stream) = (place.memory.at(0), place.stream.0);
                let sum = ncclRedOp_t::ncclSum;
                ok &= note(&mut errors, ncclAllReduce(at, at, COUNT, WORDS, sum, *comm, stream));
                let to = place.memory.at(4096);
                ok &= note(&mut errors, ncclAlltoAll(at, to, COUNT / size, WORDS, *comm, stream));
            }
            ok &= note(&mut errors, ncclGroupEnd());
        }
        // Once more in a graph of all devices.
        if ok {
            let origin = &places[0].stream;
            let mode = cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            cu!(cuStreamBeginCapture_v2(origin.0, mode));
            cu!(cuEventRecord(places[0].event, origin.0));
            for place in &places[1..] {
                cu!(cuStreamWaitEvent(place.stream.0, places[0].event, 0));
            }
            for (place, comm) in places.iter().zip(&comms) {
                let (at, to, stream) =
                    (place.memory.at(4096), place.memory.at(8192), place.stream.0);
                ok &= note(&mut errors, ncclAlltoAll(at, to, COUNT / size, WORDS, *comm, stream));
            }
            for place in &places[1..] {
                cu!(cuEventRecord(place.event, place.stream.0));
                cu!(cuStreamWaitEvent(origin.0, place.event, 0));
            }
            // A capture ends well also after an error of a call in it.
            let graph = origin.end();
            if ok {
                graph.launch(origin);
            }
            let begin = Instant::now();
            while ok && !places.iter().all(|place| place.stream.is_done()) {
                assert!(begin.elapsed() < Duration::from_secs(10), "a stream hangs");
                std::thread::sleep(Duration::from_micros(100));
            }
            if !ok {
                // Graphs go before their communicators.
                drop(graph);
            }
        }
        for (place, comm) in places.iter().zip(comms) {
            place.device.enter();
            let end = if ok { ncclCommDestroy(comm) } else { ncclCommAbort(comm) };
            note(&mut errors, end);
        }
    }
    let begin = Instant::now();
    while !places.iter().all(|place| place.stream.is_done()) {
        assert!(begin.elapsed() < Duration::from_secs(10), "a stream hangs after an abort");
    }
    (errors, ok)
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

/// Runs the program on new memory, and returns what was wrong with it.
fn run(places: &[Place], watch: &Watch, fault: &str, name: &str) -> Result<bool, String> {
    let size = places.len();
    let input: Vec<u32> = (0..COUNT as u32).map(|x| x + 1).collect();
    for place in places {
        let mut bytes = vec![0; 16384];
        for (to, word) in bytes.chunks_mut(4).zip(&input) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        place.memory.fill(&bytes);
    }
    let before = alive();
    let (errors, ok) = program(places);
    if alive() != before {
        return Err(format!("{fault}: left {:?}, before {before:?}; {errors:?}", alive()));
    }
    if errors.is_empty() {
        assert!(ok);
        // All ranks have the same sums, of which each sends its own part.
        for (rank, place) in places.iter().enumerate() {
            let bytes = place.memory.read(12288);
            let word =
                |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a word"));
            let part = COUNT / size;
            for index in 0..COUNT {
                let sum = |index: usize| input[index] * size as u32;
                let sent = (rank * part + index % part).min(COUNT - 1);
                let found =
                    [word(index * 4), word(4096 + index % part * 4), word(8192 + index % part * 4)];
                // After two exchanges a rank has the parts that the others had received.
                let twice = (rank * part + index % part) % part;
                let expected = [sum(index), sum(sent), word(4096 + twice * 4)];
                if found[..2] != expected[..2] {
                    return Err(format!("{fault}: rank {rank}: {found:?} and not {expected:?}"));
                }
            }
        }
    } else if watch.met() && !errors.iter().any(|error| error.contains(name)) {
        return Err(format!("{fault}: no error names the call: {errors:?}"));
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

//! Running golden kernels, and comparing with what is recorded.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use cuda_safe::{DeviceBuffer, Kernel, Module};
use serde_json::Value;

use super::inputs::{BLOCK, IN, OUT, ROUNDS, THREADS, inputs};
use super::{GOLDENS, Group, Variant, kernels, sha256};
use test_harness::{Failure, TestDevice, TestResult, ensure, ensure_eq};

/// What a kernel computed: `OUT` words for each thread of each round.
type Words = Vec<u64>;

/// Runs the kernels of a variant.
pub(super) fn outputs(
    device: &TestDevice,
    group: &Group,
    variant: &Variant,
) -> Result<BTreeMap<String, Words>, Failure> {
    let ptx = variant.ptx()?;
    let module = Module::from_ptx(device.context(), ptx)
        .map_err(|error| Failure::new(format!("{}: {error}", group.file(variant.name))))?;
    let mut outputs = BTreeMap::new();
    for name in kernels(ptx)? {
        let kernel = module.kernel(&name);
        let words = kernel.and_then(|kernel| run(device, &kernel)).map_err(|error| {
            Failure::new(format!("{}, {name}: {error}", group.file(variant.name)))
        })?;
        if let Some(folder) = std::env::var_os("GOLDEN_WORDS") {
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            let file = format!("{}.{}.{name}.bin", group.name, variant.name);
            std::fs::write(Path::new(&folder).join(file), bytes)?;
        }
        outputs.insert(name, words);
    }
    Ok(outputs)
}

fn run(device: &TestDevice, kernel: &Kernel) -> cuda_safe::Result<Words> {
    let stream = device.stream()?;
    let mut words = Vec::with_capacity(THREADS * OUT * ROUNDS as usize);
    for round in 0..ROUNDS {
        let given = DeviceBuffer::from_slice(&stream, &inputs(round))?;
        let mut out = DeviceBuffer::<u64>::zeroed(&stream, THREADS * OUT)?;
        let (grid, block) = ((THREADS / BLOCK) as u32, BLOCK as u32);
        // SAFETY: golden kernels take (const u64*, u64*, u32), read three words of each thread, and
        // write to the sixteen words of each, of which there are as many as the number says.
        unsafe {
            device.launch(kernel, &stream, (grid, block), (&given, &mut out, THREADS as u32))?;
        }
        words.extend(out.to_vec(&stream)?);
    }
    Ok(words)
}

/// A hash for each block, over all rounds, in hexadecimal digits.
pub(super) fn hashes(words: &[u64]) -> String {
    let chunks: Vec<_> = (0..THREADS / BLOCK)
        .map(|chunk| {
            let hash = words.chunks(THREADS * OUT).flat_map(|round| block(round, chunk)).fold(
                0xcbf2_9ce4_8422_2325_u64,
                |hash, word| {
                    let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    mixed ^ mixed >> 29
                },
            );
            format!("{hash:016x}")
        })
        .collect();
    chunks.join(" ")
}

/// The words of one block in one round.
fn block(round: &[u64], chunk: usize) -> &[u64] {
    &round[chunk * BLOCK * OUT..][..BLOCK * OUT]
}

/// Runs a group and compares: its variants with each other, and each with its recording.
pub(super) fn check(device: &TestDevice, group: &Group) -> TestResult {
    let goldens: Value = serde_json::from_str(GOLDENS)?;
    let mut wrong = Vec::new();
    let mut first: BTreeMap<String, (&str, Words)> = BTreeMap::new();
    for variant in group.variants {
        let file = group.file(variant.name);
        let golden = &goldens["files"][&file];
        let hash = sha256(variant.ptx()?);
        let stale = golden["sha256"].as_str().is_some_and(|golden| golden != hash);
        if stale {
            wrong.push(format!("{file}: stale golden: record again"));
        }
        for (kernel, words) in outputs(device, group, variant)? {
            match golden["kernels"][&kernel].as_str() {
                None => wrong.push(format!("{file}, {kernel}: no golden: record it on a GPU")),
                Some(_) if stale => {}
                Some(golden) => wrong.extend(
                    difference(&hashes(&words), golden, &words)
                        .map(|text| format!("{file}, {kernel}: {text}")),
                ),
            }
            // The library's functions are different ones with another compiler.
            let key = if kernel.ends_with("_library") {
                format!("{kernel} {}", variant.name.rsplit('.').next().unwrap_or_default())
            } else {
                kernel.clone()
            };
            match first.get(&key) {
                Some((other, known)) => wrong.extend(
                    disagreement(known, &words)
                        .map(|text| format!("{kernel}: {other} and {}: {text}", variant.name)),
                ),
                None => {
                    first.insert(key, (variant.name, words));
                }
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

/// Where the hashes differ from the recorded ones, if they do.
fn difference(hashes: &str, golden: &str, words: &[u64]) -> Option<String> {
    let pairs = hashes.split(' ').zip(golden.split(' '));
    let differing: Vec<_> =
        pairs.enumerate().filter(|(_, (got, golden))| got != golden).map(|(at, _)| at).collect();
    let chunk = match differing.first() {
        Some(chunk) => *chunk,
        None if hashes == golden => return None,
        None => return Some("the golden has another number of chunks".to_owned()),
    };
    let mut text = format!(
        "not what the GPU computed: {} of {} chunks differ, the first is {chunk}, threads {}..{}",
        differing.len(),
        THREADS / BLOCK,
        chunk * BLOCK,
        (chunk + 1) * BLOCK,
    );
    if std::env::var_os("GOLDEN_VERBOSE").is_some_and(|value| value == "1") {
        for (index, round) in words.chunks(THREADS * OUT).enumerate() {
            let given = inputs(index as u64);
            for (thread, out) in block(round, chunk).chunks(OUT).enumerate() {
                let thread = chunk * BLOCK + thread;
                let given = &given[thread * IN..][..IN];
                // A string takes all that is written to it.
                let _ = write!(text, "\nround {index} thread {thread}: {given:016x?} {out:x?}");
            }
        }
    }
    Some(text)
}

/// Where two variants of a kernel differ, if they do.
fn disagreement(known: &[u64], words: &[u64]) -> Option<String> {
    let differing = || known.iter().zip(words).enumerate().filter(|(_, (known, got))| known != got);
    let (at, (known, got)) = differing().next()?;
    let (round, thread) = (at / (THREADS * OUT), at / OUT % THREADS);
    let given = &inputs(round as u64)[thread * IN..][..IN];
    Some(format!(
        "{} words differ; round {round}, thread {thread}, inputs {given:016x?}: word {} is \
         {known:#x} and {got:#x}",
        differing().count(),
        at % OUT,
    ))
}

/// One wrong bit anywhere is found, and its place told.
pub(super) fn differences_are_found() -> TestResult {
    let right: Words = (0..(THREADS * OUT) as u64 * ROUNDS).collect();
    let golden = hashes(&right);
    ensure_eq!(difference(&golden, &golden, &right), None);
    ensure_eq!(disagreement(&right, &right), None);
    let mut wrong = right.clone();
    let at = THREADS * OUT + 700 * OUT + 5;
    wrong[at] ^= 1 << 63;
    let text = difference(&hashes(&wrong), &golden, &wrong).unwrap_or_default();
    ensure!(text.contains("1 of 16 chunks differ, the first is 2, threads 512..768"), "{text}");
    let text = disagreement(&right, &wrong).unwrap_or_default();
    ensure!(text.contains("round 1, thread 700") && text.contains("word 5"), "{text}");
    Ok(())
}

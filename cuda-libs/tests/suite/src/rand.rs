//! Random numbers: the bits that a GPU has recorded, moments of distributions, the order of calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use cuda_libs::CurandLibrary;
use cuda_libs::rand::{Float, Generator, Ordering, Sequence};
use cuda_safe::{DeviceBuffer, Stream};
use cuda_sys::curand::{curandGenerator_t, curandStatus_t};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::lab::{Number, destroys, library, library_with, on_destroy};
use super::refusals::refused;

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases!["several::libs", several(generators_in_other_contexts)];
    all.extend(cases![
        "libs::rand",
        device(recorded_bits),
        device(distributions_f32 = distributions::<f32>),
        device(distributions_f64 = distributions::<f64>),
        device(poisson),
        device(poisson_beside_a_capture),
        device(parts),
        device(streams),
        device(dropped_streams),
        device(calls_wait),
        device(refusals),
        device(many_generators),
    ]);
    all
}

/// The generators' results on an H200, which `blas-emu` records.
const GOLDENS: &str = include_str!("../../../../blas-emu/tests/goldens/curand.txt");

fn generator(
    device: &TestDevice,
    stream: &Stream,
    sequence: Sequence,
) -> Result<Generator, Failure> {
    Ok(Generator::with(stream, sequence, library(device)?)?)
}

/// Generates by the function that cuRAND calls so, in calls of these lengths, and returns the bytes.
fn made(
    stream: &Stream,
    generator: &mut Generator,
    name: &str,
    counts: &[usize],
) -> Result<Vec<u8>, Failure> {
    let width = if name.ends_with("Double") { 8 } else { 4 };
    let mut data = DeviceBuffer::<u8>::zeroed(stream, counts.iter().sum::<usize>() * width)?;
    let mut done = 0;
    for count in counts {
        let out = data.slice_mut(done..done + count * width)?;
        done += count * width;
        match name {
            "Generate" => generator.bits(stream, out.cast_mut::<u32>()?)?,
            "GenerateUniform" => generator.uniform(stream, out.cast_mut::<f32>()?)?,
            "GenerateUniformDouble" => generator.uniform(stream, out.cast_mut::<f64>()?)?,
            "GenerateNormal" => generator.normal(stream, 1.0, 2.0, out.cast_mut::<f32>()?)?,
            "GenerateNormalDouble" => generator.normal(stream, 1.0, 2.0, out.cast_mut::<f64>()?)?,
            "GenerateLogNormal" => {
                generator.log_normal(stream, 1.0, 0.5, out.cast_mut::<f32>()?)?;
            }
            "GenerateLogNormalDouble" => {
                generator.log_normal(stream, 1.0, 0.5, out.cast_mut::<f64>()?)?;
            }
            other => return Err(Failure::new(format!("no function {other}"))),
        }
    }
    Ok(data.to_vec(stream)?)
}

fn recorded_bits(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut compared = 0;
    for line in GOLDENS.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [kind, seed, offset, order, name, counts, hash, ..] = parts[..] else {
            return Err(Failure::new(format!("no recording: {line}")));
        };
        let numbers =
            |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
        let counts = numbers(counts).map_err(|error| Failure::new(error.to_string()))?;
        // Normal numbers are those of a GPU only on a GPU, whose sines are approximate.
        let is_normal = name.contains("Normal");
        if order != "103"
            || counts.iter().sum::<usize>() > 10_000
            || is_normal && !device.runs_machine_code()
        {
            continue;
        }
        let seed = u64::from_str_radix(seed.trim_start_matches("0x"), 16);
        let seed = seed.map_err(|error| Failure::new(error.to_string()))?;
        let sequence = if kind == "161" { Sequence::philox(seed) } else { Sequence::xorwow(seed) };
        let offset = offset.parse().map_err(|_| Failure::new("no offset"))?;
        let sequence = sequence.offset(offset).ordering(Ordering::Legacy);
        let mut generator = generator(device, &stream, sequence)?;
        ensure_eq!(generator.sequence(), sequence);
        let bytes = made(&stream, &mut generator, name, &counts)?;
        // FNV-1a.
        let got = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |value, byte| {
            (value ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        ensure!(format!("{got:016x}") == hash, "{line}");
        compared += 1;
    }
    ensure!(compared >= 24, "{compared} recordings");
    Ok(())
}

/// Fails unless the mean and the variance are near to these: within five standard errors of a normal distribution of
/// this size.
fn moments(values: &[f64], mean: f64, variance: f64) -> TestResult {
    let n = values.len() as f64;
    let got = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|x| (x - got) * (x - got)).sum::<f64>() / n;
    ensure!((got - mean).abs() < 5.0 * (variance / n).sqrt(), "the mean {got} is not {mean}");
    ensure!(
        (spread / variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(),
        "the variance {spread} is not {variance}"
    );
    Ok(())
}

fn distributions<T: Float + Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let of = |value: f64| T::of(super::lab::Wide::new(value, 0.0));
    for sequence in [Sequence::philox(4271), Sequence::xorwow(4271)] {
        let mut generator = generator(device, &stream, sequence)?;
        let mut out = DeviceBuffer::<T>::zeroed(&stream, 20_000)?;
        let values = |out: &DeviceBuffer<T>| -> Result<Vec<f64>, Failure> {
            Ok(out.to_vec(&stream)?.into_iter().map(|x| x.wide().re).collect())
        };
        generator.uniform(&stream, &mut out)?;
        let uniform = values(&out)?;
        ensure!(uniform.iter().all(|x| *x > 0.0 && *x <= 1.0));
        moments(&uniform, 0.5, 1.0 / 12.0)?;
        generator.normal(&stream, of(-3.0), of(2.0), &mut out)?;
        let normal = values(&out)?;
        moments(&normal, -3.0, 4.0)?;
        let within = normal.iter().filter(|x| (**x + 3.0).abs() < 2.0).count() as f64 / 20_000.0;
        ensure!((within - 0.6827).abs() < 0.02, "{within} lie within a deviation");
        generator.log_normal(&stream, of(0.5), of(0.25), &mut out)?;
        let logarithms: Vec<f64> = values(&out)?.into_iter().map(f64::ln).collect();
        moments(&logarithms, 0.5, 0.0625)?;
    }
    Ok(())
}

fn poisson(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut generator = generator(device, &stream, Sequence::philox(4272))?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 20_000)?;
    let range = |mean| format!("poisson: mean is {mean}, which is not above 0 and at most 400000");
    refused(generator.poisson(&stream, 0.0, &mut out), &range("0"))?;
    refused(generator.poisson(&stream, f64::NAN, &mut out), &range("NaN"))?;
    let made = generator.poisson(&stream, 7.5, &mut out);
    if !generator.library().as_sys().supports("curandGeneratePoisson") {
        let (major, minor, patch) = generator.library().version().unwrap_or_default();
        let name = "curandGeneratePoisson, which came with an earlier cuRAND";
        return refused(
            made,
            &format!("poisson: this cuRAND {major}.{minor}.{patch} has no {name}"),
        );
    }
    made?;
    let values: Vec<f64> = out.to_vec(&stream)?.into_iter().map(f64::from).collect();
    moments(&values, 7.5, 7.5)
}

/// A thread that has the lock of graphs begins to capture, while numbers are made in memory that a graph uses.
fn poisson_beside_a_capture(device: &TestDevice) -> TestResult {
    let (stream, context) = (device.stream()?, device.context());
    let mut generator = generator(device, &stream, Sequence::philox(4278))?;
    if !generator.library().as_sys().supports("curandGeneratePoisson") {
        return Ok(());
    }
    let state = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let mut graph = context.capture(state, |stream, x| x.fill(stream, 3))?;
    let memory = graph.state().allocation().clone();
    let (locks, locked) = mpsc::channel();
    std::thread::scope(|scope| {
        let captured = scope.spawn(move || {
            context.stream()?.graph_lock([&memory]).run(|| {
                let _ = locks.send(());
                // The other thread comes as far as it can.
                std::thread::sleep(Duration::from_millis(30));
                context.capture((), |_, ()| Ok(())).map(drop)
            })
        });
        let _ = locked.recv();
        let made = generator.poisson(&stream, 7.5, graph.state_mut());
        captured.join().map_err(|_| Failure::new("the capture panicked"))??;
        // The numbers can't be made while the other thread records.
        if let Err(error) = made {
            let text = error.to_string();
            ensure!(text.contains("a graph is being recorded in the context"), "{text}");
            generator.poisson(&stream, 7.5, graph.state_mut())?;
        }
        let values = graph.state().to_vec(&stream)?;
        moments(&values.into_iter().map(f64::from).collect::<Vec<_>>(), 7.5, 7.5)
    })
}

/// Several calls continue one sequence; 64-bit numbers are two of 32.
fn parts(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let philox = Sequence::philox(4273);
    for sequence in [philox, Sequence::xorwow(4273)] {
        let all = made(&stream, &mut generator(device, &stream, sequence)?, "Generate", &[9000])?;
        for counts in [[0, 1, 31, 32, 33, 8903], [4095, 2, 4903, 0, 0, 0]] {
            let mut generator = generator(device, &stream, sequence)?;
            ensure!(made(&stream, &mut generator, "Generate", &counts)? == all, "{counts:?}");
        }
        let skipped = made(
            &stream,
            &mut generator(device, &stream, sequence.offset(4100))?,
            "Generate",
            &[4900],
        )?;
        ensure!(skipped == all[4 * 4100..], "an offset");
        let mut words = DeviceBuffer::<u64>::zeroed(&stream, 4500)?;
        generator(device, &stream, sequence)?.bits(&stream, &mut words)?;
        ensure!(words.as_slice().cast::<u8>()?.to_vec(&stream)? == all, "64 bits");
        for name in [
            "GenerateUniform",
            "GenerateUniformDouble",
            "GenerateNormal",
            "GenerateNormalDouble",
            "GenerateLogNormal",
            "GenerateLogNormalDouble",
        ] {
            for order in [Ordering::Default, Ordering::Best, Ordering::Legacy] {
                let of = |sequence: Sequence, counts: &[usize]| {
                    let mut generator = generator(device, &stream, sequence.ordering(order))?;
                    made(&stream, &mut generator, name, counts)
                };
                let all = of(sequence, &[18_000])?;
                ensure!(of(sequence, &[4, 0, 32, 4096, 868, 13_000])? == all, "{name}");
                let (offset, skipped) = match (sequence == philox, name.ends_with("Double")) {
                    (true, _) => (4096, 4096),
                    // A number of `f64` takes two 32-bit numbers of a sequence of XORWOW.
                    (false, true) => (16_384, 8192),
                    (false, false) => (16_384, 16_384),
                };
                let rest = of(sequence.offset(offset), &[18_000 - skipped])?;
                ensure!(all.ends_with(&rest), "{name} with an offset");
            }
        }
    }
    let philox =
        made(&stream, &mut generator(device, &stream, Sequence::philox(1))?, "Generate", &[64])?;
    ensure!(
        philox
            != made(
                &stream,
                &mut generator(device, &stream, Sequence::philox(2))?,
                "Generate",
                &[64]
            )?
    );
    Ok(())
}

/// Calls on many streams run in their order.
fn streams(device: &TestDevice) -> TestResult {
    let streams: Vec<Stream> = (0..5).map(|_| device.stream()).collect::<Result<_, _>>()?;
    for sequence in [Sequence::philox(4274), Sequence::xorwow(4274)] {
        let all =
            made(&streams[0], &mut generator(device, &streams[0], sequence)?, "Generate", &[5000])?;
        let mut generator = generator(device, &streams[1], sequence)?;
        let mut out = DeviceBuffer::<u32>::zeroed(&streams[2], 5000)?;
        for (at, stream) in streams.iter().enumerate() {
            generator.bits(stream, out.slice_mut(at * 1000..(at + 1) * 1000)?)?;
        }
        ensure!(out.as_slice().cast::<u8>()?.to_vec(&streams[0])? == all);
    }
    Ok(())
}

/// The stream of the call before, and that of a dropped generator, may be gone.
fn dropped_streams(device: &TestDevice) -> TestResult {
    let home = device.stream()?;
    for sequence in [Sequence::philox(4277), Sequence::xorwow(4277)] {
        let all = made(&home, &mut generator(device, &home, sequence)?, "Generate", &[3000])?;
        let mut generator = generator(device, &device.stream()?, sequence)?;
        let mut out = DeviceBuffer::<u32>::zeroed(&home, 3000)?;
        for at in 0..3 {
            let stream = device.stream()?;
            generator.bits(&stream, out.slice_mut(at * 1000..(at + 1) * 1000)?)?;
        }
        ensure!(out.as_slice().cast::<u8>()?.to_vec(&home)? == all);
        generator.close()?;
    }
    Ok(())
}

/// A call on a stream waits for the one before on another stream.
fn calls_wait(device: &TestDevice) -> TestResult {
    let (first, second) = (device.stream()?, device.stream()?);
    let mut generator = generator(device, &first, Sequence::philox(4276))?;
    let mut before = DeviceBuffer::<u32>::zeroed(&first, 64)?;
    let mut after = DeviceBuffer::<u32>::zeroed(&second, 64)?;
    // The kernel is loaded.
    generator.bits(&second, &mut after)?;
    second.synchronize()?;
    let (opens, opened) = mpsc::channel();
    first.host_function(move || {
        let _ = opened.recv_timeout(Duration::from_secs(5));
    })?;
    generator.bits(&first, &mut before)?;
    generator.bits(&second, &mut after)?;
    std::thread::sleep(Duration::from_millis(20));
    let is_early = second.is_done()?;
    let _ = opens.send(());
    second.synchronize()?;
    ensure!(!is_early || device.is_instrumented(), "the second call has not waited");
    Ok(())
}

fn refusals(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut philox = generator(device, &stream, Sequence::philox(1))?;
    let mut xorwow = generator(device, &stream, Sequence::xorwow(1))?;
    let mut out = DeviceBuffer::from_slice(&stream, &[7.0f32; 8])?;
    let pairs = "normal: out has 3 elements; the numbers are made in pairs";
    refused(philox.normal(&stream, 0.0, 1.0, out.slice_mut(..3)?), pairs)?;
    refused(
        philox.log_normal(&stream, 0.0, 1.0, out.slice_mut(1..3)?),
        "log_normal: out lies at an address that is no multiple of two elements' size",
    )?;
    let found = RefCell::new(Ok(()));
    let state = DeviceBuffer::<u32>::zeroed(&stream, 8)?;
    let (outside, mut other) = (device.stream()?, DeviceBuffer::<u32>::zeroed(&stream, 8)?);
    device.context().capture(state, |stream, out| {
        let all = || -> TestResult {
            // cuRAND may wait, on whichever stream of the context.
            let waits = "a graph is being recorded in the context";
            let made = Generator::with(&outside, Sequence::philox(1), library(device)?);
            let poisson = philox.poisson(&outside, 1.0, &mut other);
            for result in [made.map(|_| ()), poisson] {
                let text = result.err().map(|error| error.to_string()).unwrap_or_default();
                ensure!(text.contains(waits), "`{text}`");
            }
            let records = "bits: stream records, but only the first launch of the graph would write these numbers: generate \
                           them before, or in a kernel by `cuda_safe::kernel::random`";
            refused(philox.bits(stream, &mut *out), records)?;
            refused(xorwow.bits(stream, &mut *out), records)?;
            refused(
                Generator::with(stream, Sequence::philox(1), library(device)?),
                "generator: stream records; create the generator before",
            )
        };
        let mut all = all;
        *found.borrow_mut() = all();
        Ok(())
    })?;
    found.replace(Ok(()))?;
    ensure_eq!(out.to_vec(&stream)?, [7.0; 8]);
    philox.uniform(&stream, out.slice_mut(..0)?)?;
    xorwow.uniform(&stream, &mut out)?;
    ensure!(out.to_vec(&stream)?.iter().all(|x| *x <= 1.0));
    // SAFETY: there is no function.
    let library: CurandLibrary =
        unsafe { library_with(device, c"curandGenerateUniform", std::ptr::null()) }?;
    let mut generator = Generator::with(&stream, Sequence::philox(1), library)?;
    let missing = "uniform: this cuRAND 10.4.0 has no curandGenerateUniform, which came with an earlier cuRAND";
    refused(generator.uniform(&stream, &mut out), missing)?;
    // The library's own error: the stand-in has no other orderings.
    let other = Sequence::philox(1).ordering(Ordering::Dynamic);
    refused(
        Generator::with(&stream, other, library),
        "generator: cuRAND refuses an argument (CURAND_STATUS_OUT_OF_RANGE)",
    )
}

/// More generators than wait to be destroyed.
fn many_generators(device: &TestDevice) -> TestResult {
    unsafe extern "C" fn destroy(generator: curandGenerator_t) -> curandStatus_t {
        destroys();
        // SAFETY: the caller's promise.
        unsafe { blas_emu::curand::curandDestroyGenerator(generator) }
    }
    let stream = device.stream()?;
    // SAFETY: `destroy` calls the function of this name.
    let library = unsafe { library_with(device, c"curandDestroyGenerator", destroy as *const _) }?;
    let destroyed = Rc::new(Cell::new(0));
    let counter = destroyed.clone();
    on_destroy(Some(Box::new(move || counter.set(counter.get() + 1))));
    for count in 1..=40 {
        let mut generator = Generator::with(&stream, Sequence::philox(3), library)?;
        made(&stream, &mut generator, "Generate", &[33])?;
        // The generator, and 16 dropped ones.
        let alive = count - destroyed.get();
        ensure!(alive <= 17, "{alive} generators");
    }
    Generator::with(&stream, Sequence::philox(3), library)?.close()?;
    ensure_eq!(destroyed.get(), 41);
    on_destroy(None);
    Ok(())
}

fn generators_in_other_contexts(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let all = device.all_contexts()?;
    let other = all.get(1).ok_or_else(|| Failure::new("there is one device"))?;
    let mut generator = generator(device, &stream, Sequence::philox(1))?;
    let there = other.stream()?;
    let mut far = DeviceBuffer::<u32>::zeroed(&there, 4)?;
    refused(
        generator.bits(&there, &mut far),
        "bits: stream belongs to another context than the `Generator`",
    )?;
    refused(
        generator.bits(&stream, &mut far),
        "bits: out lies in memory of another context than that of the `Generator`",
    )?;
    refused(
        generator.poisson(&stream, 7.5, &mut far),
        "poisson: out lies in memory of another context than that of the `Generator`",
    )
}

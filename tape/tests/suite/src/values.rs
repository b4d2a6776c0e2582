//! What adjoints need beside gradients: structures of numbers, scratch memory, what primals keep; and
//! recordings used again, nested, in parts.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{DeviceBuffer, DeviceRepr, LaunchConfig};
use tape::{Differentiable, Element, FloatType, Param, Primal, Seeds, Tape, Variable};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{
    Adjoints, ByHand, Generated, Number, Ops, generate, module, numbers, register, spec, threads,
};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::values",
        device(structures_of_numbers_f32),
        device(structures_of_numbers_f64),
        device(a_dynamic_loop = dynamic_loop::<f64, ByHand>),
        device(generated_a_dynamic_loop = dynamic_loop::<f64, Generated>),
        device(scratch_overflow_f32 = scratch_overflow::<f32, ByHand>),
        device(generated_scratch_overflow_f32 = scratch_overflow::<f32, Generated>),
        device(scratch_overflow_f64 = scratch_overflow::<f64, ByHand>),
        device(generated_scratch_overflow_f64 = scratch_overflow::<f64, Generated>),
        device(primals_keep_what_they_count = primals::<f64>),
        device(given_gradients_and_several_passes = several_passes::<f64>),
        device(watching_in_between = watching_in_between::<f64>),
        device(nested_tapes = nested::<f64>),
        device(deterministic_tapes_refuse = deterministic_refuses::<f32>),
        device(reports = reports::<f32>),
        device(sixteen_bit_copies),
    ]
}

macro_rules! lines {
    ($($name:ident: $real:ty, $kind:ident, [$($unused:tt)*];)+) => {$(
        /// `Line` of ops.cu.
        #[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
        #[repr(C)]
        struct $name { slope: $real, offset: $real, power: u32, $($unused)* }
        // SAFETY: repr(C), and the fields of Line.
        unsafe impl DeviceRepr for $name {}
        // SAFETY: its numbers are of one type, which is that of gradients.
        unsafe impl Differentiable for $name {
            type Gradient = Self;
            const ELEMENT: Element = Element::structure(size_of::<Self>(), FloatType::$kind);
        }
    )+};
}
lines! {
    Line32: f32, F32, [];
    Line64: f64, F64, [unused: u32];
}

fn structures_of_numbers_f32(device: &TestDevice) -> TestResult {
    structures::<f32, _>(
        device,
        |power| Line32 { slope: 1.5, offset: 0.25, power },
        |line| (f64::from(line.slope), f64::from(line.offset), line.power),
    )
}

fn structures_of_numbers_f64(device: &TestDevice) -> TestResult {
    structures::<f64, _>(
        device,
        |power| Line64 { slope: 1.5, offset: 0.25, power, unused: 7 },
        |line| (line.slope, line.offset, line.power),
    )
}

/// out = (slope x + offset)^power, the three in a structure by value.
fn structures<T: Number, L>(
    device: &TestDevice,
    of: fn(u32) -> L,
    parts: fn(&L) -> (f64, f64, u32),
) -> TestResult
where
    L: Differentiable<Gradient = L> + DeviceRepr + Pod,
{
    const N: usize = 333;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let element = <T as Number>::ELEMENT;
    let spec = spec::<T>(
        "line",
        vec![
            Param::structure("line", size_of::<L>())
                .scalar_at(0, element)
                .scalar_at(size_of::<T>(), element),
            Param::buffer("x", element).len("n").each_element().active(),
            Param::buffer("out", element).overwrites().len("n").each_element().active(),
            Param::value("n"),
        ],
    );
    let generated = generate(device, spec.clone()).map_err(cuda_safe::Error::from)?;
    let by_hand = register(&module(device)?, spec.summands(|_| 0))?;
    let host: Vec<T> = numbers(&mut device.rng(831), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let every = [
        (&by_hand, 1, false, 64),
        (&by_hand, 2, false, 64),
        (&by_hand, 2, true, 64),
        (&generated, 1, false, 64),
        (&generated, 2, false, 1),
        (&generated, 2, false, 33),
        (&generated, 2, false, 1024),
    ];
    for (line, power, deterministic, block) in every {
        let l = Variable::new(&stream, of(power))?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(&l)?;
            t.watch(&x)?;
            t.launch(line, LaunchConfig::cover(N, block), (&l, &x, &mut out, N as u32))?;
            t.launch(&ops.energy, threads(N), (&out, &mut loss, N as u32))
        })?;
        tape.backward(&stream, &loss)?;
        let (slope, offset, _) = parts(&l.get());
        let (mut by_slope, mut by_offset, mut by_x) = (0.0, 0.0, Vec::new());
        for x in host.iter().map(|x| x.to()) {
            let y = slope * x + offset;
            let g = if power == 2 { 4.0 * y.powi(3) } else { 2.0 * y };
            by_slope += g * x;
            by_offset += g;
            by_x.push(g * slope);
        }
        let got = tape.gradient(&l)?.to_vec(&stream)?;
        let (got_slope, got_offset, got_power) = parts(&got[0]);
        ensure_eq!(got_power, 0, "what is no number has no gradient");
        let got = [T::of(got_slope), T::of(got_offset)];
        close(&got, &[by_slope, by_offset], tolerance::<T>())?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
    }
    Ok(())
}

/// x^k by a loop: Warp gives what the loop's last turn would. With x = 2 and k = 1 to 4: 1, 4, 12, 32.
fn dynamic_loop<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &[T::of(2.0); 4])?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, 4)?;
    let ones = DeviceBuffer::from_slice(&stream, &[T::of(1.0); 4])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.power, threads(4), (&x, &mut out, 4u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[1.0, 4.0, 12.0, 32.0], 1e-14)
}

/// Too little scratch memory: resumed, and the same bits as with enough; steps before and behind it too.
fn scratch_overflow<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    const N: usize = 5000;
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(832), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let a = Variable::new(&stream, T::of(0.5))?;
    let buffer = || DeviceBuffer::<T>::zeroed(&stream, N);
    let (mut y, mut z, mut w) = (buffer()?, buffer()?, buffer()?);
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut results = Vec::new();
    for (scratch, deterministic) in
        [(None, false), (Some(0), false), (Some(9000), false), (Some(100), true)]
    {
        if deterministic && A::GENERATED {
            // The sum of all threads has no log.
            continue;
        }
        let mut tape = Tape::new(&stream)?;
        tape.set_scratch_bytes(scratch);
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.watch(&a)?;
            t.launch(&ops.scale, threads(N), (&a, &x, &mut y, N as u32))?;
            t.launch(&ops.power, threads(N), (&y, &mut z, N as u32))?;
            t.copy(&z, &mut w)?;
            t.launch(&ops.power, threads(N), (&w, &mut y, N as u32))?;
            t.launch(&ops.square_add, threads(N), (&z, &mut y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })?;
        for _ in 0..2 {
            tape.backward(&stream, &loss)?;
        }
        let by_x = tape.gradient(&x)?.to_vec(&stream)?;
        let wanted: Vec<f64> = host
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let k = 1 + (i % 4) as i32;
                let (y, dy) = (0.5 * x.to(), 0.5);
                let (z, dz) = (y.powi(k), f64::from(k) * y.powi(k - 1) * dy);
                let (v, dv) = (z.powi(k) + z * z, f64::from(k) * z.powi(k - 1) * dz + 2.0 * z * dz);
                2.0 * v * dv
            })
            .collect();
        close(&by_x, &wanted, tolerance::<T>())?;
        let by_a: f64 = wanted.iter().zip(&host).map(|(g, x)| g * x.to() / 0.5).sum();
        close(&tape.gradient(&a)?.to_vec(&stream)?, &[by_a], tolerance::<T>())?;
        results.push(by_x);
    }
    for other in &results[1..] {
        first_difference(other, &results[0])?;
    }
    Ok(())
}

fn primals<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    for n in [1, 33, 500] {
        let host: Vec<T> = numbers(&mut device.rng(833), n);
        let mut x = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<T>::zeroed(&stream, n)?;
        let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.series, threads(n), (&x, &mut out, n as u32))?;
            t.launch(&ops.energy, threads(n), (&out, &mut loss, n as u32))
        })?;
        // The adjoint looks at what the primal has kept alone.
        x.fill(&stream, T::of(9.0))?;
        tape.backward(&stream, &loss)?;
        let wanted: Vec<f64> = host
            .iter()
            .map(|x| 2.0 * (1.0 + x.to() + x.to() * x.to() / 2.0) * (1.0 + x.to()))
            .collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// Passes from different outputs, with given gradients, do not add up; their gradients are right each.
fn several_passes<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 77;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(834);
    let (host, given): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let seed = DeviceBuffer::from_slice(&stream, &given)?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut z = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, N as u32))?;
        t.launch(&ops.multiply, threads(N), (&x, &y, &mut z, N as u32))
    })?;
    let pairs = || host.iter().zip(&given).map(|(x, g)| (x.to(), g.to()));
    let by_y: Vec<f64> = pairs().map(|(_, g)| 3.0 * g).collect();
    let by_z: Vec<f64> = pairs().map(|(x, g)| 6.0 * x * g).collect();
    let both: Vec<f64> = by_y.iter().zip(&by_z).map(|(y, z)| y + z).collect();
    let of_y = Seeds::new().with(&y, &seed)?;
    let of_z = Seeds::new().with(&z, &seed)?;
    let of_both = Seeds::new().with(&y, &seed)?.with(&z, &seed)?;
    for (seeds, wanted) in [(&of_y, &by_y), (&of_z, &by_z), (&of_both, &both), (&of_y, &by_y)] {
        tape.backward_with(&stream, seeds)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, wanted, tolerance::<T>())?;
    }
    let twice = Seeds::new().with(&y, &seed)?.with(y.slice(3..)?, seed.slice(3..)?)?;
    refused(tape.backward_with(&stream, &twice), "same memory")?;
    refused(Seeds::new().with(&y, seed.slice(1..)?), "76 gradients for 77")?;
    // Of a part of an output.
    tape.backward_with(&stream, &Seeds::new().with(y.slice(10..20)?, seed.slice(10..20)?)?)?;
    let part: Vec<f64> = by_y
        .iter()
        .enumerate()
        .map(|(i, g)| if (10..20).contains(&i) { *g } else { 0.0 })
        .collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &part, tolerance::<T>())
}

/// The gradient by what was computed on the way, and by what is overwritten later.
fn watching_in_between<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 40;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(835), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &x, &mut y, N as u32))?;
        t.watch(&y)?;
        t.launch(&ops.bend, threads(N), (&mut y, N as u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let by_y: Vec<f64> = host
        .iter()
        .map(|x| 2.0 * x.to())
        .map(|y| 2.0 * (y - y * y * y / 6.0) * (1.0 - y * y / 2.0))
        .collect();
    let by_x: Vec<f64> = by_y.iter().map(|g| 2.0 * g).collect();
    close(&tape.gradient(&y)?.to_vec(&stream)?, &by_y, tolerance::<T>())?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())
}

/// A tape inside the closure of another: both give their own gradients. What the inner one computes is a
/// number to the outer.
fn nested<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 50;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(836), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let buffer = |n| DeviceBuffer::<T>::zeroed(&stream, n);
    let (mut y, mut z, mut loss, mut inner_loss) = (buffer(N)?, buffer(N)?, buffer(1)?, buffer(1)?);
    let mut inner = Tape::new(&stream)?;
    let mut outer = Tape::record(&stream, |t| {
        t.watch(&x)?;
        // g = 2 x, by the inner tape.
        inner.record_again(t.stream(), |i| {
            i.watch(&x)?;
            i.launch(&ops.energy, threads(N), (&x, &mut inner_loss, N as u32))
        })?;
        inner.backward(t.stream(), &inner_loss)?;
        let g = inner.gradient(&x)?;
        t.scope("outer", |t| {
            t.launch(&ops.multiply, threads(N), (&x, g, &mut y, N as u32))?;
            t.scope("deep", |t| t.copy(&y, &mut z))
        })?;
        t.launch(&ops.energy, threads(N), (&z, &mut loss, N as u32))
    })?;
    outer.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 8.0 * x.to().powi(3)).collect();
    close(&outer.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    let by_inner: Vec<f64> = host.iter().map(|x| 2.0 * x.to()).collect();
    close(&inner.gradient(&x)?.to_vec(&stream)?, &by_inner, tolerance::<T>())?;
    let dot = outer.to_dot();
    ensure!(dot.contains("cluster_outer/deep"), "{dot}");
    // The inner pass overwrites its gradient, which the outer one has read.
    inner.backward(&stream, &inner_loss)?;
    refused(outer.backward(&stream, &loss), "in outer) was overwritten")
}

fn deterministic_refuses<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let element = <T as Number>::ELEMENT;
    let params = || {
        let x = Param::buffer("x", element).reads(Primal::Entry).len("n").each_element().active();
        let loss = Param::buffer("loss", element).accumulates().len_fixed(1).active();
        vec![x, loss, Param::value("n")]
    };
    let raw = register(&module(device)?, spec::<T>("energy", params()))?;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(837), 9))?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    tape.set_deterministic(true);
    for (op, fine) in [(&raw, false), (&ops.energy, true)] {
        let recorded = tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(9), (&x, &mut loss, 9u32))
        });
        if fine {
            recorded?;
        } else {
            refused(recorded, "not made for deterministic tapes")?;
            refused(tape.backward(&stream, &loss), "no recording")?;
        }
    }
    tape.backward(&stream, &loss)?;
    // A log that is too small is an error, not a wrong gradient.
    let index = DeviceBuffer::from_slice(&stream, &[0u32; 300])?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, 300)?;
    tape.set_summand_bytes(1000);
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.gather, threads(300), (&x, &index, &mut out, 300u32))?;
        t.launch(&ops.energy, threads(300), (&out, &mut loss, 300u32))
    })?;
    refused(tape.backward(&stream, &loss), "bytes of log are needed")?;
    tape.set_summand_bytes(None);
    tape.backward(&stream, &loss)?;
    let got = tape.gradient(&x)?.to_vec(&stream)?;
    let host = x.to_vec(&stream)?;
    let mut wanted = vec![0.0; 9];
    wanted[0] = 600.0 * host[0].to();
    close(&got, &wanted, tolerance::<T>())
}

/// A chain of 20 launches has two gradients at a time.
fn reports<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 1024;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut chain = Vec::new();
    for _ in 0..21 {
        chain.push(DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(838), N))?);
    }
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    let mut before = None;
    for _ in 0..3 {
        tape.record_again(&stream, |t| {
            t.watch(&chain[0])?;
            for i in 0..20 {
                let (from, to) = chain.split_at_mut(i + 1);
                let (Some(from), Some(to)) = (from.last(), to.first_mut()) else { continue };
                t.launch(&ops.scale, threads(N), (T::of(1.0), from, to, N as u32))?;
            }
            t.launch(&ops.energy, threads(N), (&chain[20], &mut loss, N as u32))
        })?;
        tape.backward(&stream, &loss)?;
        let report = tape.memory();
        ensure_eq!(report.steps, 22);
        // Two of the chain, one of the loss.
        ensure_eq!(report.gradient_buffers, 3);
        ensure_eq!(report.gradients, 2 * N * size_of::<T>() + 256);
        ensure_eq!(report.copies, 0);
        ensure!(report.to_string().contains("22 steps"));
        if let Some(before) = before.replace(report.clone()) {
            ensure_eq!(before, report, "a loop allocates once");
        }
    }
    let dot = tape.to_dot();
    ensure!(dot.starts_with("digraph") && dot.contains("scale") && dot.contains("peripheries=2"));
    tape.reset();
    ensure!(tape.memory().free > 0);
    tape.trim();
    ensure_eq!(tape.memory().total(), 0);
    Ok(())
}

/// Gradients of 16-bit floats are floats: copies of parts of them, and a given gradient.
fn sixteen_bit_copies(device: &TestDevice) -> TestResult {
    const N: usize = 30;
    let stream = device.stream()?;
    let host: Vec<half::f16> = (0..N).map(|i| half::f16::from_f32(i as f32)).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut y = DeviceBuffer::<half::f16>::zeroed(&stream, N)?;
    let given: Vec<f32> = (0..N).map(|i| 1.0 + i as f32 / 3.0).collect();
    let seed = DeviceBuffer::from_slice(&stream, &given)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.copy(&x, &mut y)?;
        t.copy(x.slice(..10)?, y.slice_mut(20..)?)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &seed)?)?;
    let got: Vec<f32> = tape.gradient(&x)?.to_vec(&stream)?;
    let wanted: Vec<f32> = (0..N)
        .map(|i| match i {
            0..10 => given[i] + given[i + 20],
            10..20 => given[i],
            _ => 0.0,
        })
        .collect();
    first_difference(&got, &wanted)
}

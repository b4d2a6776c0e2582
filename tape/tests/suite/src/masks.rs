//! What the plan decides for adjoints: ASSIGN and DROP, null pointers, which values they find.

use bytemuck::{Pod, Zeroable};
use cuda_safe::DeviceBuffer;
use tape::{Element, Op, OpSpec, Param, Primal, Seeds, Tape};

use super::basics::{close, tolerance};
use super::generated::failure;
use super::ops::{Number, Ops, generate, module, numbers, register, spec, threads};
use test_harness::{Case, TestDevice, TestResult, cases, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::masks",
        device(assign_and_drop),
        device(values_at_exit_f32 = at_exit::<f32>),
        device(values_at_exit_f64 = at_exit::<f64>),
        device(private_values = private::<f64>),
        device(generated_assign_and_drop = generated::<f32>),
        device(generated_values_at_entry_f32 = at_entry::<f32>),
        device(generated_values_at_entry_f64 = at_entry::<f64>),
    ]
}

const N: usize = 70;

/// `Told` of ops.cu.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Told {
    assign: u64,
    drop: u64,
    gx: u32,
    gout: u32,
    status: u32,
    unused: u32,
}

fn probe(device: &TestDevice) -> cuda_safe::Result<Op> {
    let x = Param::buffer("x", Element::F32).reads(Primal::None).len("n").each_element().active();
    let out = Param::buffer("out", Element::F32).overwrites().len("n").each_element().active();
    let told = Param::buffer("told", Element::bytes(32)).overwrites().len_fixed(1);
    let spec = OpSpec::new("probe").param(x).param(out).param(told).param(Param::value("n"));
    register(&module(device)?, spec)
}

/// Bit 0 is that of x, bit 1 that of out.
fn assign_and_drop(device: &TestDevice) -> TestResult {
    let (stream, probe) = (device.stream()?, probe(device)?);
    let zeros = |n| DeviceBuffer::<f32>::zeroed(&stream, n);
    let (x, mut y, mut z, mut w) = (zeros(N)?, zeros(N)?, zeros(N)?, zeros(N)?);
    let seed = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut told = [
        DeviceBuffer::<Told>::zeroed(&stream, 1)?,
        DeviceBuffer::<Told>::zeroed(&stream, 1)?,
        DeviceBuffer::<Told>::zeroed(&stream, 1)?,
    ];
    // Nothing here can raise a status, so there is none to be looked at.
    let both = Told { assign: 1, drop: 2, gx: 1, gout: 1, ..Told::zeroed() };
    let [first, second, third] = &mut told;
    let (n, all) = (N as u32, threads(N));
    let gradient = |tape: &Tape, at: usize| -> cuda_safe::Result<f32> {
        Ok(tape.gradient(&x)?.to_vec(&stream)?[at])
    };

    // A chain: nothing is added, nothing is cleared.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&probe, all, (&x, &mut y, &mut *first, n))?;
        t.launch(&probe, all, (&y, &mut z, &mut *second, n))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)?;
    ensure_eq!(first.to_vec(&stream)?[0], both);
    ensure_eq!(second.to_vec(&stream)?[0], both);
    ensure_eq!(gradient(&tape, N - 1)?, 1.0);

    // y is read twice: who comes first (from behind) stores, the other adds.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&probe, all, (&x, &mut y, &mut *first, n))?;
        t.launch(&probe, all, (&y, &mut z, &mut *second, n))?;
        t.launch(&probe, all, (&y, &mut w, &mut *third, n))
    })?;
    let of_both = Seeds::new().with(&z, &seed)?.with(&w, &seed)?;
    tape.backward_with(&stream, &of_both)?;
    ensure_eq!(third.to_vec(&stream)?[0], both);
    ensure_eq!(second.to_vec(&stream)?[0], Told { assign: 0, ..both });
    ensure_eq!(first.to_vec(&stream)?[0], both);
    ensure_eq!(gradient(&tape, 0)?, 2.0);
    // If only z has a gradient, the third is not launched at all, and the second stores.
    third.fill(&stream, Told::zeroed())?;
    tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)?;
    ensure_eq!(third.to_vec(&stream)?[0], Told::zeroed());
    ensure_eq!(second.to_vec(&stream)?[0], both);
    ensure_eq!(gradient(&tape, 0)?, 1.0);

    // y is written twice, the second time in part: zeros are needed there for the first, so the second
    // leaves them behind.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&probe, all, (&x, &mut y, &mut *first, n))?;
        t.launch(&probe, all, (&x, &mut y, &mut *second, 40u32))?;
        t.launch(&probe, all, (&y, &mut z, &mut *third, n))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)?;
    ensure_eq!(second.to_vec(&stream)?[0], Told { drop: 0, ..both });
    // Of x, the second has stored to the first 40 only: the rest is filled with zeros, and added to.
    ensure_eq!(first.to_vec(&stream)?[0], Told { assign: 0, ..both });
    ensure_eq!(gradient(&tape, 39)?, 1.0);
    ensure_eq!(gradient(&tape, 40)?, 1.0);

    // What is not watched has no gradient: null.
    let c = zeros(N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&probe, all, (&x, &mut y, &mut *first, n))?;
        t.launch(&probe, all, (&c, &mut y, &mut *second, 40u32))?;
        t.launch(&probe, all, (&y, &mut z, &mut *third, n))
    })?;
    second.fill(&stream, Told::zeroed())?;
    tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)?;
    ensure_eq!(second.to_vec(&stream)?[0], Told::zeroed(), "no adjoint of a constant");
    ensure_eq!(gradient(&tape, 39)?, 0.0);
    ensure_eq!(gradient(&tape, 40)?, 1.0);
    Ok(())
}

/// The adjoint looks at what was written, which is overwritten later.
fn at_exit<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let element = <T as Number>::ELEMENT;
    let x = Param::buffer("x", element).reads(Primal::None).len("n").each_element().active();
    let out = Param::buffer("out", element).overwrites().with_value(Primal::Exit).len("n");
    let params = vec![x, out.each_element().active(), Param::value("n")];
    let invert = register(&module(device)?, spec::<T>("invert", params))?;
    let host: Vec<T> = numbers(&mut device.rng(861), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&invert, threads(N), (&x, &mut out, N as u32))?;
        t.launch(&ops.bend, threads(30), (&mut out, 30u32))?;
        t.launch(&ops.energy, threads(N), (&out, &mut loss, N as u32))
    })?;
    // What the adjoint does not look at may change.
    x.fill(&stream, T::of(5.0))?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let y = 1.0 / (2.0 + x.to());
            let g =
                if i < 30 { 2.0 * (y - y * y * y / 6.0) * (1.0 - y * y / 2.0) } else { 2.0 * y };
            -y * y * g
        })
        .collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

/// The adjoint writes to the values that it is given: in each pass they are fresh.
fn private<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let element = <T as Number>::ELEMENT;
    let x =
        Param::buffer("x", element).updates(Primal::EntryPrivate).len("n").each_element().active();
    let params = vec![x, Param::value("n")];
    let replay = register(&module(device)?, spec::<T>("replay", params))?;
    let host: Vec<T> = numbers(&mut device.rng(862), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&replay, threads(N), (&mut x, N as u32))?;
        t.launch(&replay, threads(N), (&mut x, N as u32))?;
        t.launch(&ops.energy, threads(N), (&x, &mut loss, N as u32))
    })?;
    let wanted: Vec<f64> = host
        .iter()
        .map(|x| {
            let bend = |x: f64| (x - x * x * x / 6.0, 1.0 - x * x / 2.0);
            let (once, slope) = bend(x.to());
            let (twice, again) = bend(once);
            2.0 * twice * again * slope
        })
        .collect();
    for _ in 0..3 {
        tape.backward(&stream, &loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// A generated adjoint that is given the same masks as in `assign_and_drop`: gradients are stored where nobody was
/// before, added to otherwise, and left as zeros where they are needed.
fn generated<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::generated::<T>(device)?);
    let zeros = || DeviceBuffer::<T>::zeroed(&stream, N);
    let (x, c, mut y, mut z, mut w) = (zeros()?, zeros()?, zeros()?, zeros()?, zeros()?);
    let seed = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    let (two, three, five) = (T::of(2.0), T::of(3.0), T::of(5.0));
    let (n, all) = (N as u32, threads(N));
    let gradient = |tape: &Tape, wanted: [f64; 2]| -> TestResult {
        // The first 40 elements, and the others.
        let wanted: Vec<f64> = (0..N).map(|i| wanted[usize::from(i >= 40)]).collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
    };

    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, all, (two, &x, &mut y, n))?;
        t.launch(&ops.scale, all, (three, &y, &mut z, n))?;
        t.launch(&ops.scale, all, (five, &y, &mut w, n))
    })?;
    let of_both = Seeds::new().with(&z, &seed)?.with(&w, &seed)?;
    let (of_z, of_w) = (Seeds::new().with(&z, &seed)?, Seeds::new().with(&w, &seed)?);
    for (seeds, wanted) in [(&of_both, 16.0), (&of_z, 6.0), (&of_w, 10.0), (&of_both, 16.0)] {
        tape.backward_with(&stream, seeds)?;
        gradient(&tape, [wanted; 2])?;
    }

    // y is written twice, the second time in part.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, all, (two, &x, &mut y, n))?;
        t.launch(&ops.scale, all, (three, &x, &mut y, 40u32))?;
        t.launch(&ops.scale, all, (five, &y, &mut z, n))
    })?;
    for _ in 0..2 {
        tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)?;
        gradient(&tape, [15.0, 10.0])?;
    }

    // What is not watched has no gradient: null.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, all, (two, &x, &mut y, n))?;
        t.launch(&ops.multiply, all, (&c, &c, &mut y, 40u32))?;
        t.launch(&ops.scale, all, (five, &y, &mut z, n))
    })?;
    for _ in 0..2 {
        tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)?;
        gradient(&tape, [0.0, 10.0])?;
    }
    Ok(())
}

/// A generated adjoint looks at what was read, where the one by hand looks at what was written.
fn at_entry<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::generated::<T>(device)?);
    let element = <T as Number>::ELEMENT;
    let buffer = |name| Param::buffer(name, element).len("n").active();
    let params = vec![buffer("x"), buffer("out"), Param::value("n")];
    let invert = generate(device, spec::<T>("invert", params)).map_err(failure)?;
    let host: Vec<T> = numbers(&mut device.rng(863), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.copy(&x, &mut y)?;
        for _ in 0..2 {
            let memory = y.allocation().clone();
            // SAFETY: a second view of y, for reading: thread i reads element i before it writes it.
            let read = unsafe { memory.view::<T>(y.byte_range()) }?;
            t.launch(&invert, threads(N), (read, &mut y, N as u32))?;
        }
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))?;
        // What adjoints look at is kept.
        t.fill(&mut y, T::of(5.0))
    })?;
    let wanted: Vec<f64> = host
        .iter()
        .map(|x| {
            let once = 1.0 / (2.0 + x.to());
            let twice = 1.0 / (2.0 + once);
            2.0 * twice * twice * twice * once * once
        })
        .collect();
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

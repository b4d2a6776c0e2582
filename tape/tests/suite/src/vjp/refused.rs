//! Calls that are refused, before anything is enqueued.

use cuda_safe::{DeviceBuffer, DeviceSlice, LaunchConfig};
use tape::{Gradients, NotSaved, Param, Primal, Tape};

use super::super::awkward::refused;
use super::super::ops::{
    Adjoints, ByHand, Generated, Number, Ops, module, register, spec, threads,
};
use super::{buffer, unwritten};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::vjp",
        device(bad_input_by_hand = bad_input::<f32, ByHand>),
        device(bad_input_generated = bad_input::<f64, Generated>),
        device(shared_memory = overlap::<f32>),
        device(values_that_are_gone = gone::<f64>),
        device(what_was_not_saved = not_saved::<f32>),
        device(outputs_without_a_gradient = without::<f64>),
    ]
}

const N: usize = 40;

fn bad_input<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let ones = vec![T::of(1.0); N];
    let (x, g) = (buffer(&stream, &ones)?, buffer(&stream, &ones)?);
    let short = buffer(&stream, &ones[1..])?;
    let other = DeviceBuffer::<[f32; 3]>::zeroed(&stream, N)?;
    let words = if T::SUFFIX == "f32" { 2 * N } else { N / 2 };
    let wrong32 = DeviceBuffer::<f32>::zeroed(&stream, 2 * N)?;
    let wrong64 = DeviceBuffer::<f64>::zeroed(&stream, N / 2)?;
    let mut y = buffer(&stream, &ones)?;
    let (mut gx, mut ga) = (unwritten::<T>(&stream, N)?, unwritten::<T>(&stream, 1)?);
    let mut two = unwritten::<T>(&stream, 2)?;
    let mut late = unwritten::<T>(&stream, N - 1)?;
    let versions =
        [&gx, &ga, &y].map(|b| (b.allocation().clone(), b.allocation().version(b.byte_range())));

    let config = threads(N);
    let args = (T::of(2.0), &x, NotSaved, N as u32);
    let of = || Gradients::new().seed("out", &g);
    let scale = |gradients: Gradients<'_>| ops.scale.vjp(&stream, config, args, gradients);
    refused(scale(of()), "no gradient of `scale")?;
    refused(scale(Gradients::new().into_buffer("x", &mut gx)), "the gradient of `out` of `scale")?;
    refused(
        scale(Gradients::new().seed_zero("out").into_buffer("x", &mut gx)),
        "no gradient of an output",
    )?;
    refused(scale(of().into_buffer("z", &mut gx)), "no parameter `z`")?;
    refused(scale(of().seed("b", &g).into_buffer("x", &mut gx)), "no parameter `b`")?;
    refused(scale(of().into_buffer("n", &mut ga)), "`n` of `scale")?;
    refused(scale(of().into_buffer("out", &mut gx)), "does not depend on its old contents")?;
    refused(scale(of().seed("x", &g).into_buffer("x", &mut gx)), "`x` of `scale")?;
    refused(scale(of().seed("a", &ga).into_buffer("x", &mut gx)), "is an input")?;
    refused(scale(of().seed("out", &x).into_buffer("x", &mut gx)), "named twice")?;
    refused(scale(of().seed_zero("out").into_buffer("x", &mut gx)), "named twice")?;
    refused(scale(Gradients::new().seed("out", &short).into_buffer("x", &mut gx)), "40 elements")?;
    refused(scale(of().into_buffer("x", &mut late)), "`x` of `scale")?;
    refused(scale(of().into_buffer("a", &mut two)), "`a` of `scale")?;
    refused(
        scale(Gradients::new().seed("out", &other).into_buffer("x", &mut gx)),
        "`out` of `scale",
    )?;
    let (one, three) = (of().into_buffer("x", &mut gx).into_buffer("a", &mut ga), Gradients::new());
    refused(scale(three), "missing")?;
    // As many bytes, of another type.
    let wrong = if words == 2 * N {
        scale(Gradients::new().seed("out", &wrong64).into_buffer("x", &mut two))
    } else {
        scale(Gradients::new().seed("out", &wrong32).into_buffer("x", &mut two))
    };
    refused(wrong, "consists of")?;
    scale(one)?;

    // The launch: the same checks as on a tape.
    let gradients = || Gradients::new().seed("out", &g);
    let mut out = buffer(&stream, &ones)?;
    let short_args = (T::of(2.0), &short, NotSaved, N as u32);
    let done = ops.scale.vjp(&stream, config, short_args, gradients().into_buffer("x", &mut gx));
    refused(done, "39 elements")?;
    let plane = LaunchConfig::new((1, 2), 64);
    let done = ops.scale.vjp(&stream, plane, args, gradients().into_buffer("x", &mut gx));
    refused(done, "1 dimensions")?;
    let done = ops.scale.vjp(&stream, threads(N), (T::of(2.0), &x, N as u32), gradients());
    refused(done, "4 arguments")?;
    let shared = (T::of(2.0), &x, &out, N as u32);
    refused(ops.scale.vjp(&stream, config, shared, gradients()), "pass it as `&mut`")?;
    if !A::GENERATED {
        let few = ops.scale.vjp(&stream, (1, 32), args, gradients().into_buffer("x", &mut gx));
        refused(few, "40 elements to be covered")?;
    }
    let cut = ops.scale.detach("x")?;
    let args = (T::of(2.0), &x, &mut out, N as u32);
    refused(cut.vjp(&stream, config, args, gradients().into_buffer("x", &mut gx)), "is detached")?;
    // `bend` updates: its old contents have a gradient, unless they are detached.
    let cut = ops.bend.detach("x")?;
    let gradients = Gradients::new().seed("x", &g).into_buffer("x", &mut gx);
    refused(cut.vjp(&stream, config, (&mut y, N as u32), gradients), "does not depend")?;

    // Of all this, one call was enqueued, which has written two of them.
    for (at, (memory, version)) in versions.iter().enumerate() {
        let same = memory.version(0..memory.size_bytes()) == *version;
        ensure!(same == (at == 2), "memory {at} was written, or was not");
    }
    ensure_eq!(gx.to_vec(&stream)?, vec![T::of(2.0); N]);
    ensure_eq!(ga.to_vec(&stream)?, [T::of(N as f64)]);
    ensure_eq!(y.to_vec(&stream)?, ones);
    Ok(())
}

/// A gradient that is written must not be memory that the adjoint reads, nor another gradient.
fn overlap<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let all = DeviceBuffer::<T>::zeroed(&stream, 4 * N)?;
    let size = size_of::<T>();
    // SAFETY: calls are refused in which these overlap with what is written.
    let view = |at: usize| unsafe { all.allocation().view::<T>(at * size..(at + N) * size) };
    // SAFETY: another buffer of the same memory, whose home is the same stream, and which is used by this thread.
    let mut same = unsafe {
        DeviceBuffer::<T>::from_raw(&stream, all.device_ptr(), 4 * N, Some(Box::new(())))
    }?;
    let call = |x: DeviceSlice<'_, T>,
                g: DeviceSlice<'_, T>,
                first: &mut DeviceBuffer<T>,
                at: [usize; 2]| {
        let (low, high) = first.as_slice_mut().split_at_mut(at[1].max(at[0]))?;
        let (mut low, mut high) = (low, high);
        let gx = low.slice_mut(at[0]..at[0] + N)?;
        let gy = high.slice_mut(..N)?;
        let gradients = Gradients::new().seed("out", g).into_buffer("x", gx).into_buffer("y", gy);
        ops.multiply.vjp(&stream, threads(N), (x, x, NotSaved, N as u32), gradients)
    };
    // The gradient by x is 0..40, that by y 40..80.
    refused(
        call(view(10)?, view(2 * N)?, &mut same, [0, N]),
        "shares memory with the argument `x`",
    )?;
    refused(
        call(view(2 * N)?, view(N - 1)?, &mut same, [0, N]),
        "shares memory with that of `out`",
    )?;
    call(view(2 * N)?, view(3 * N)?, &mut same, [0, N])?;
    call(view(3 * N)?, view(3 * N)?, &mut same, [N, 2 * N])?;
    let mut other = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let (x, g) = (view(0)?, view(N)?);
    let gradients = Gradients::new()
        .seed("out", g)
        .into_buffer("x", &mut other)
        .into_buffer("y", same.slice_mut(..N)?);
    let done = ops.multiply.vjp(&stream, threads(N), (x, g, NotSaved, N as u32), gradients);
    refused(done, "the gradient by `y` of `multiply")?;
    // SAFETY: the call is refused.
    let mut again =
        unsafe { DeviceBuffer::<T>::from_raw(&stream, other.device_ptr(), N, Some(Box::new(()))) }?;
    let gradients =
        Gradients::new().seed("out", g).into_buffer("x", &mut other).into_buffer("y", &mut again);
    let done = ops.multiply.vjp(&stream, threads(N), (x, g, NotSaved, N as u32), gradients);
    refused(done, "shares memory with that by `y`")
}

/// `times` in place through two views of one buffer: x is no longer what the adjoint has to read.
fn gone<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let x = buffer(&stream, &[T::of(2.0); N])?;
    let g = buffer(&stream, &[T::of(3.0); N])?;
    // SAFETY: thread i touches element i of both views.
    let mut alias =
        unsafe { DeviceBuffer::<T>::from_raw(&stream, x.device_ptr(), N, Some(Box::new(()))) }?;
    let mut gx = unwritten::<T>(&stream, N)?;
    let gradients = Gradients::new().seed("y", &g).into_buffer("x", &mut gx);
    let done = ops.times.vjp(&stream, threads(N), (&x, &mut alias, N as u32), gradients);
    refused(done, "is gone")?;
    let mut y = buffer(&stream, &[T::of(5.0); N])?;
    let gradients = Gradients::new().seed("y", &g).into_buffer("x", &mut gx);
    ops.times.vjp(&stream, threads(N), (&x, &mut y, N as u32), gradients)?;
    ensure_eq!(gx.to_vec(&stream)?, vec![T::of(15.0); N]);
    Ok(())
}

/// What the adjoint reads has to be there, and what has no declared length, too. A launch takes no such argument.
fn not_saved<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let (x, g) = (buffer(&stream, &[T::of(1.0); N])?, buffer(&stream, &[T::of(1.0); N])?);
    let index = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut gx = unwritten::<T>(&stream, N)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    let args = (T::of(2.0), NotSaved, NotSaved, N as u32);
    refused(ops.scale.vjp(&stream, threads(N), args, gradients), "was not saved")?;
    let gradients = Gradients::new().seed("x", &g).into_buffer("x", &mut gx);
    refused(ops.bend.vjp(&stream, threads(N), (NotSaved, N as u32), gradients), "was not saved")?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    let args = (NotSaved, &index, NotSaved, N as u32);
    refused(ops.gather.vjp(&stream, threads(N), args, gradients), "its length is not known")?;
    // Its primal reads x, which its adjoint does not.
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    refused(
        ops.series.vjp(&stream, threads(N), (NotSaved, NotSaved, N as u32), gradients),
        "was not saved",
    )?;
    let recorded = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &x, NotSaved, N as u32))
    });
    refused(recorded, "`out` of `scale")
}

/// An output whose gradient the adjoint does not take: it would be lost.
fn without<T: Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let element = <T as Number>::ELEMENT;
    let read = || Param::buffer("x", element).reads(Primal::None).len("n").each_element().active();
    let one = || Param::buffer("one", element).overwrites().len("n").each_element().active();
    let two = || Param::buffer("two", element).overwrites().len("n").each_element();
    let made = spec::<T>("split", vec![read(), one(), two(), Param::value("n")])
        .adjoint(format!("split_{}_one_adjoint", T::SUFFIX));
    let split = register(&module(device)?, made)?;
    let (x, g) = (buffer(&stream, &[T::of(1.0); N])?, buffer(&stream, &[T::of(1.0); N])?);
    let mut gx = unwritten::<T>(&stream, N)?;
    let args = (&x, NotSaved, NotSaved, N as u32);
    let gradients = Gradients::new().seed("one", &g).into_buffer("x", &mut gx);
    refused(split.vjp(&stream, threads(N), args, gradients), "no gradient of it")?;
    let cut = split.detach("two")?;
    let gradients = Gradients::new().seed("one", &g).into_buffer("x", &mut gx);
    cut.vjp(&stream, threads(N), args, gradients)?;
    ensure_eq!(gx.to_vec(&stream)?, vec![T::of(1.0); N]);
    let gradients = Gradients::new().seed("one", &g).seed("two", &g).into_buffer("x", &mut gx);
    refused(cut.vjp(&stream, threads(N), args, gradients), "`two` of `split")?;
    // Without an adjoint there is nothing to call.
    let made = spec::<T>(
        "scale",
        vec![
            Param::scalar("a", element),
            Param::buffer("x", element).len("n"),
            Param::buffer("out", element).overwrites().len("n"),
            Param::value("n"),
        ],
    );
    let scale = register(&module(device)?, made.without_adjoint())?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    let args = (T::of(1.0), &x, NotSaved, N as u32);
    refused(scale.vjp(&stream, threads(N), args, gradients), "no adjoint")?;
    // Nor where none of its adds may be logged.
    let made = spec::<T>(
        "scale",
        vec![
            Param::scalar("a", element).active(),
            Param::buffer("x", element).len("n").each_element().active(),
            Param::buffer("out", element).overwrites().len("n").each_element().active(),
            Param::value("n"),
        ],
    );
    let scale = register(&module(device)?, made)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx).deterministic();
    refused(scale.vjp(&stream, threads(N), args, gradients), "deterministic")?;
    Ok(())
}

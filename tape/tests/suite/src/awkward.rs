//! What goes wrong elsewhere in silence: aliases, partial and repeated writes, values that are
//! overwritten, paths that end.

use cuda_safe::{DeviceBuffer, Stream};
use tape::{Tape, Variable};

use super::basics::{close, tolerance};
use super::ops::{Adjoints, ByHand, Generated, Number, Ops, Table, numbers, threads};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::awkward",
        device(partial_writes_f32 = partial_writes::<f32, ByHand>),
        device(generated_partial_writes_f32 = partial_writes::<f32, Generated>),
        device(partial_writes_f64 = partial_writes::<f64, ByHand>),
        device(generated_partial_writes_f64 = partial_writes::<f64, Generated>),
        device(one_buffer_as_two_arguments = one_buffer_twice::<f64, ByHand>),
        device(generated_one_buffer_as_two_arguments = one_buffer_twice::<f64, Generated>),
        device(overlapping_slices = overlapping_slices::<f64, ByHand>),
        device(generated_overlapping_slices = overlapping_slices::<f64, Generated>),
        device(in_place_twice = in_place_twice::<f64, ByHand>),
        device(generated_in_place_twice = in_place_twice::<f64, Generated>),
        device(in_place_through_two_arguments = in_place_alias::<f64, ByHand>),
        device(generated_in_place_through_two_arguments = in_place_alias::<f64, Generated>),
        device(inactive_pointer = inactive_pointer::<f64, ByHand>),
        device(generated_inactive_pointer = inactive_pointer::<f64, Generated>),
        device(no_differentiable_path = no_path::<f32, ByHand>),
        device(generated_no_differentiable_path = no_path::<f32, Generated>),
        device(mutated_arrays_are_kept_or_refused = mutated::<f64, ByHand>),
        device(generated_mutated_arrays_are_kept_or_refused = mutated::<f64, Generated>),
        device(overwritten_by_a_constant = hidden::<f64, ByHand>),
        device(generated_overwritten_by_a_constant = hidden::<f64, Generated>),
        device(an_op_without_a_gradient_there = no_gradient::<f32>),
        device(too_short_a_buffer = too_short::<f32, ByHand>),
        device(generated_too_short_a_buffer = too_short::<f32, Generated>),
        device(structures_with_pointers = structures::<f64, ByHand>),
        device(generated_structures_with_pointers = structures::<f64, Generated>),
        device(scattered_sums_f32 = scattered::<f32, ByHand>),
        device(generated_scattered_sums_f32 = scattered::<f32, Generated>),
        device(scattered_sums_f64 = scattered::<f64, ByHand>),
        device(generated_scattered_sums_f64 = scattered::<f64, Generated>),
    ]
}

const N: usize = 100;

fn zeros<T: Number>(stream: &Stream, n: usize) -> cuda_safe::Result<DeviceBuffer<T>> {
    DeviceBuffer::zeroed(stream, n)
}

/// The message of a failure, which there must be.
pub(super) fn refused<T>(done: cuda_safe::Result<T>, part: &str) -> TestResult {
    match done {
        Ok(_) => Err(Failure::new(format!("accepted, and not refused with {part:?}"))),
        Err(error) => {
            let message = error.to_string();
            ensure!(message.contains(part), "{message:?} lacks {part:?}");
            Ok(())
        }
    }
}

/// The first 40 of 100 elements are overwritten after all were: gradients of the others come through the
/// first launch.
fn partial_writes<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(811);
    let (hx, hz): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let z = DeviceBuffer::from_slice(&stream, &hz)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&z)?;
        t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, N as u32))?;
        t.launch(&ops.scale, threads(N), (T::of(-2.0), &z, &mut y, 40u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        let by_x = hx.iter().enumerate().map(|(i, x)| if i < 40 { 0.0 } else { 18.0 * x.to() });
        let by_z = hz.iter().enumerate().map(|(i, z)| if i < 40 { 8.0 * z.to() } else { 0.0 });
        let (by_x, by_z): (Vec<f64>, Vec<f64>) = (by_x.collect(), by_z.collect());
        close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
        close(&tape.gradient(&z)?.to_vec(&stream)?, &by_z, tolerance::<T>())?;
    }
    Ok(())
}

/// out = x x by a kernel of two factors.
fn one_buffer_twice<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(812), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.multiply, threads(N), (&x, &x, &mut y, N as u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 4.0 * x.to().powi(3)).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

/// y[i] = x[i] x[i + 1]: two views of one buffer.
fn overlapping_slices<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(813), N + 1);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let (left, right) = (x.slice(..N)?, x.slice(1..)?);
    let h: Vec<f64> = host.iter().map(|x| x.to()).collect();
    let mut wanted = vec![0.0; N + 1];
    for i in 0..N {
        let g = 2.0 * h[i] * h[i + 1];
        wanted[i] += g * h[i + 1];
        wanted[i + 1] += g * h[i];
    }
    // The views' gradients overlap, and each thread adds to two elements: by `grad_add`, or by `grad_own`, which
    // would race if the tape gave it the same memory twice.
    for multiply in [&ops.multiply_shared, &ops.multiply] {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(multiply, threads(N), (left, right, &mut y, N as u32))?;
            t.fill(&mut loss, T::of(0.0))?;
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })?;
        for _ in 0..2 {
            tape.backward(&stream, &loss)?;
            close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
        }
        let part = tape.gradient(x.slice(10..20)?)?.to_vec(&stream)?;
        close(&part, &wanted[10..20], 1e-3)?;
        if std::ptr::eq(multiply, &raw const ops.multiply_shared) {
            continue;
        }
        // One of them had memory of its own, which is not needed where each element is one thread's.
        let with_own = tape.memory().gradients;
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(multiply, threads(N), (left, left, &mut y, N as u32))?;
            t.fill(&mut loss, T::of(0.0))?;
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })?;
        tape.backward(&stream, &loss)?;
        ensure!(tape.memory().gradients < with_own, "as much memory as with a gradient apart");
    }
    Ok(())
}

fn bend(x: f64) -> f64 {
    x - x * x * x / 6.0
}
fn bend_slope(x: f64) -> f64 {
    1.0 - x * x / 2.0
}

/// x = bend(bend(x)), each time in place: the adjoint needs both values that were overwritten.
fn in_place_twice<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(814), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut loss = zeros::<T>(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.bend, threads(N), (&mut x, N as u32))?;
        t.launch(&ops.bend, threads(N), (&mut x, N as u32))?;
        t.launch(&ops.energy, threads(N), (&x, &mut loss, N as u32))
    })?;
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        let wanted: Vec<f64> = host
            .iter()
            .map(|x| {
                let once = bend(x.to());
                2.0 * bend(once) * bend_slope(once) * bend_slope(x.to())
            })
            .collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// y = x y where the output is a factor: memory that is read by one argument and written by another.
fn in_place_alias<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(815);
    let (hx, hy): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let mut y = DeviceBuffer::from_slice(&stream, &hy)?;
    let mut loss = zeros::<T>(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&y)?;
        for _ in 0..2 {
            let allocation = y.allocation().clone();
            // SAFETY: a second view of y, for reading: thread i reads element i before it writes it.
            let read = unsafe { allocation.view::<T>(y.byte_range()) }?;
            t.launch(&ops.multiply, threads(N), (&x, read, &mut y, N as u32))?;
        }
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let pairs = || hx.iter().zip(&hy).map(|(x, y)| (x.to(), y.to()));
    let by_x: Vec<f64> = pairs().map(|(x, y)| 4.0 * x.powi(3) * y * y).collect();
    let by_y: Vec<f64> = pairs().map(|(x, y)| 2.0 * x.powi(4) * y).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
    close(&tape.gradient(&y)?.to_vec(&stream)?, &by_y, tolerance::<T>())
}

/// Only one factor is watched: the adjoint is given a null pointer for the other.
fn inactive_pointer<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(816);
    let (hx, hy): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let y = DeviceBuffer::from_slice(&stream, &hy)?;
    let (mut z, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let detached = ops.multiply.detach("y")?;
    for op in [&ops.multiply, &detached] {
        loss.fill(&stream, T::of(0.0))?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (&x, &y, &mut z, N as u32))?;
            t.launch(&ops.energy, threads(N), (&z, &mut loss, N as u32))
        })?;
        tape.backward(&stream, &loss)?;
        let wanted: Vec<f64> =
            hx.iter().zip(&hy).map(|(x, y)| 2.0 * x.to() * y.to() * y.to()).collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
        refused(tape.gradient(&y), "not watched")?;
    }
    // Detached, what is watched gets none through this operation.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&y)?;
        t.launch(&detached, threads(N), (&x, &y, &mut z, N as u32))?;
        t.launch(&ops.energy, threads(N), (&z, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    tape.gradient(&x)?;
    refused(tape.gradient(&y), "no differentiable path")
}

fn no_path<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(817), N))?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let mut record = |watch: bool, stop: bool| {
        Tape::record(&stream, |t| {
            if watch {
                t.watch(&x)?;
            }
            t.launch(&ops.scale, threads(N), (T::of(2.0), &x, &mut y, N as u32))?;
            if stop {
                t.stop_gradient(&y)?;
            }
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })
    };
    let (nothing, stopped, mut fine) =
        (record(false, false)?, record(true, true)?, record(true, false)?);
    for mut tape in [nothing, stopped] {
        refused(tape.backward(&stream, &loss), "no differentiable path")?;
        refused(tape.gradient(&x), "before `backward`")?;
    }
    fine.backward(&stream, &loss)?;
    refused(fine.backward(&stream, &x), "a loss is one number")?;
    fine.gradient(&x)?;
    let mut empty = Tape::new(&stream)?;
    refused(empty.backward(&stream, &loss), "no recording")
}

/// What was read is overwritten: by something recorded, so that a copy is kept; or by something else,
/// which is an error that names it.
fn mutated<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(818), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.multiply, threads(N), (&x, &x, &mut y, N as u32))?;
        t.fill(&mut x, T::of(7.0))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 4.0 * x.to().powi(3)).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    // A part that no adjoint needs may change.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.multiply, threads(50), (&x, &x, &mut y, 50u32))?;
        t.launch(&ops.energy, threads(50), (&y, &mut loss, 50u32))
    })?;
    x.slice_mut(50..)?.fill(&stream, T::of(1.0))?;
    tape.backward(&stream, &loss)?;
    x.slice_mut(49..50)?.fill(&stream, T::of(1.0))?;
    let again = tape.backward(&stream, &loss);
    let message = again.as_ref().err().map(ToString::to_string).unwrap_or_default();
    ensure!(message.contains("`x` of step 1") && message.contains("multiply"), "{message}");
    refused(again, "was overwritten after it was recorded")
}

/// Constants written over what was computed end its path; what is written later begins a new one.
fn hidden<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(819), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let c = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &x, &mut y, N as u32))?;
        // y[..30] = 5 c, which is a constant; y[30..60] = x; y[60..] stays 2 x.
        t.launch(&ops.scale, threads(30), (T::of(5.0), &c, &mut y, 30u32))?;
        t.copy(x.slice(30..60)?, y.slice_mut(30..60)?)?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host
        .iter()
        .enumerate()
        .map(|(i, x)| x.to() * [0.0, 2.0, 8.0][usize::from(i >= 30) + usize::from(i >= 60)])
        .collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

fn no_gradient<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let module = super::ops::module(device)?;
    let element = <T as Number>::ELEMENT;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(820), N))?;
    let mut y = zeros::<T>(&stream, N)?;
    let params = |active: bool| {
        let x = tape::Param::buffer("x", element).len("n").each_element();
        let out = tape::Param::buffer("out", element).overwrites().len("n").each_element();
        let of = |param: tape::Param| if active { param.active() } else { param };
        let a = tape::Param::scalar("a", element);
        vec![of(a), of(x), of(out), tape::Param::value("n")]
    };
    let spec = super::ops::spec::<T>("scale", params(true)).without_adjoint();
    let bare = super::ops::register(&module, spec)?;
    let launch = |op: &tape::Op, y: &mut DeviceBuffer<T>| {
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (T::of(1.0), &x, y, N as u32))
        })
    };
    refused(launch(&bare, &mut y), "has no adjoint")?;
    let spec = super::ops::spec::<T>("scale", params(false)).without_adjoint();
    let passive = super::ops::register(&module, spec)?;
    refused(launch(&passive, &mut y), "has no gradient by it")?;
    launch(&passive.detach("x")?, &mut y)?;
    launch(&ops.scale, &mut y)?;
    Ok(())
}

fn too_short<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let x = zeros::<T>(&stream, N)?;
    let (mut short, empty) = (zeros::<T>(&stream, N - 1)?, zeros::<T>(&stream, 0)?);
    let one = T::of(1.0);
    let mut tape = Tape::new(&stream)?;
    refused(
        tape.record_again(&stream, |t| {
            t.launch(&ops.scale, threads(N), (one, &x, &mut short, N as u32))
        }),
        "`out` of `scale",
    )?;
    refused(
        tape.record_again(&stream, |t| {
            t.launch(&ops.scale, threads(N), (one, &empty, &mut short, 9u32))
        }),
        "`x` of `scale",
    )?;
    // Numbers in place of memory, and of a length.
    let address = 0xdead_beef_u64;
    refused(
        tape.record_again(&stream, |t| {
            t.launch(&ops.scale, threads(N), (one, address, &mut short, 9u32))
        }),
        "`x` of `scale",
    )?;
    refused(
        tape.record_again(&stream, |t| {
            t.launch(&ops.look_up, threads(N), ([address, 5], &mut short, 9u32))
        }),
        "`table` of `look_up",
    )?;
    refused(
        tape.record_again(&stream, |t| {
            t.launch(&ops.scale, threads(N), (one, &x, &mut short, 9.0f32))
        }),
        "`f32` is no integer",
    )?;
    refused(
        tape.record_again(&stream, |t| {
            let flat = cuda_safe::LaunchConfig::new((1, 2), 32);
            t.launch(&ops.scale, flat, (one, &x, &mut short, 9u32))
        }),
        "1 dimensions",
    )?;
    refused(
        tape.record_again(&stream, |t| t.launch(&ops.scale, threads(N), (one, &x, &short, 9u32))),
        "pass it as `&mut`",
    )?;
    refused(
        tape.record_again(&stream, |t| t.launch(&ops.scale, threads(N), (one, &x))),
        "takes 4 arguments",
    )?;
    // No elements at all are fine, and so is their gradient.
    let mut loss = zeros::<T>(&stream, 1)?;
    tape.record_again(&stream, |t| {
        t.watch(&empty)?;
        t.watch(&x)?;
        t.launch(&ops.scale, threads(0), (one, &empty, &mut short, 0u32))?;
        t.launch(&ops.energy, threads(N), (&x, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&empty)?.len(), 0);
    ensure_eq!(tape.gradient(&x)?.len(), N);
    Ok(())
}

/// A structure whose pointer leads to what is watched, which is overwritten later.
fn structures<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(821), 7);
    let mut values = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut out, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&values)?;
        t.launch(&ops.look_up, threads(N), (&Table(values.as_slice()), &mut out, N as u32))?;
        t.fill(&mut values, T::of(0.5))?;
        t.launch(&ops.energy, threads(N), (&out, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let mut wanted = vec![0.0; 7];
    for i in 0..N {
        wanted[i % 7] += 4.0 * host[i % 7].to().powi(3);
    }
    close(&tape.gradient(&values)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

/// Many threads add to one gradient; those that nobody gathers stay zero.
fn scattered<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(822);
    let host: Vec<T> = numbers(&mut rng, 20);
    let index: Vec<u32> = (0..1000).map(|_| rng.below(15) as u32).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let index_device = DeviceBuffer::from_slice(&stream, &index)?;
    let (mut out, mut loss) = (zeros::<T>(&stream, 1000)?, zeros::<T>(&stream, 1)?);
    let a = Variable::new(&stream, T::of(2.0))?;
    let mut scaled = zeros::<T>(&stream, 20)?;
    let mut wanted = vec![0.0; 20];
    for i in &index {
        wanted[*i as usize] += 8.0 * host[*i as usize].to();
    }
    let mut bits = Vec::new();
    for deterministic in [false, true, true] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.watch(&a)?;
            t.launch(&ops.scale, threads(20), (&a, &x, &mut scaled, 20u32))?;
            t.launch(&ops.gather, threads(1000), (&scaled, &index_device, &mut out, 1000u32))?;
            t.launch(&ops.energy, threads(1000), (&out, &mut loss, 1000u32))
        })?;
        tape.backward(&stream, &loss)?;
        let by_x = tape.gradient(&x)?.to_vec(&stream)?;
        close(&by_x, &wanted, tolerance::<T>())?;
        let by_a: f64 = host.iter().zip(&wanted).map(|(x, g)| x.to() * g / 2.0).sum();
        close(&tape.gradient(&a)?.to_vec(&stream)?, &[by_a], tolerance::<T>())?;
        if deterministic {
            bits.push(by_x);
        }
    }
    ensure_eq!(bits.len(), 2);
    first_difference(&bits[0], &bits[1])
}

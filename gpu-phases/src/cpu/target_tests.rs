//! Tests of launches on the CPU, with a kernel as the macro expands it.

use super::Cpu;
use crate::__private::{args, each, index, read, refuse, run, value, write};
use crate::kernel::{CpuArg, CpuError, Extent, Kernel, Param, ParamKind};
use crate::target::{Read, Reads, Target, Value, Write, Writes};
use crate::trust::{Checked, Trusted};
use crate::{Atomic, Fault, FaultKind};

fn saxpy(a: f32, x: &[f32], out: &mut [f32]) {
    if a < 0.0 {
        refuse(format!("a >= 0.0: {a} >= 0.0"));
    }
    each(out, |i, out| *out += a * x[index(i, x.len(), 77)]);
}

#[allow(unsafe_code, reason = "the kernel has no C++")]
pub(crate) static SAXPY: Kernel = Kernel {
    name: "saxpy",
    module: module_path!(),
    file: file!(),
    line: 12,
    params: &[
        Param::new::<f32>("a", ParamKind::Value),
        Param::new::<f32>("x", ParamKind::Read),
        Param::new::<f32>("out", ParamKind::Write),
    ],
    instance: String::new,
    write: |text| text.push("saxpy"),
    overflow_checks: || true,
    carries: 0,
    cpu: |given| {
        run(&SAXPY, || {
            let [a, x, out] = args(given);
            saxpy(value(a), read(x), write(out));
        })
    },
    pack: None,
    // SAFETY: no test launches this kernel on a device.
    trusted: unsafe { Trusted::new() },
};

#[allow(unsafe_code, reason = "as the macro does")]
pub(crate) fn launch<'a, G, X, O>(target: G, a: f32, x: X, out: O) -> Result<(), G::Error>
where
    G: Target + Reads<'a, f32, X> + Writes<'a, f32, O>,
{
    let extent = Extent { dimensions: 1, size: [0, 1, 1], threads: 0, shared: 0 };
    let args = (Value(a), Read::<G, f32>(target.read(x)), Write::<G, f32>(target.write(out)));
    // SAFETY: the arguments have the types of the parameters.
    target.launch(&SAXPY, extent, args, unsafe { Checked::new() })
}

#[test]
fn launches_take_slices_arrays_and_vectors() {
    let x: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let mut out = vec![1.0; 1000];
    launch(Cpu, 2.0, &x, &mut out).unwrap();
    launch(Cpu, 1.0, &x[..], &mut out[..]).unwrap();
    assert!(x.iter().zip(&out).all(|(x, out)| *out == 1.0 + 3.0 * x));
    let mut out = [0.0];
    launch(Cpu, 2.0, &[7.0], &mut out).unwrap();
    assert_eq!(out, [14.0]);
    launch(Cpu, 2.0, &[0.0; 0], &mut [0.0; 0]).unwrap();
    let boxed: Box<[f32]> = Box::new([3.0]);
    launch(Cpu, 2.0, &boxed, &mut out).unwrap();
    assert_eq!(out, [20.0]);
}

#[test]
fn faults_and_refusals_are_errors_of_the_launch() {
    let error = launch(Cpu, 2.0, &[1.0; 6], &mut [0.0; 9]).unwrap_err();
    let fault = Fault {
        kernel: "saxpy",
        file: file!(),
        line: 77,
        kind: FaultKind::Index,
        index: 6,
        len: 6,
        element: [6, 0, 0],
        block: None,
    };
    assert_eq!(error, CpuError::Fault(fault));
    let error = launch(Cpu, -2.0, &[1.0; 6], &mut [0.0; 6]).unwrap_err();
    assert_eq!(error.to_string(), "kernel `saxpy`: a >= 0.0: -2 >= 0.0");
}

#[test]
fn erased_arguments_are_checked() {
    let (a, x) = (2.0f32.to_ne_bytes(), [1.0f32, 2.0]);
    let x: &[u8] = bytemuck::cast_slice(&x);
    let mut out = [0.0f32; 3];
    let call = |args: &mut [CpuArg<'_>]| (SAXPY.cpu)(args).unwrap_err().to_string();
    let a = crate::cpu::args::Aligned::new(&a, 4);
    let a = a.bytes();

    let text = call(&mut [CpuArg::Value(a), CpuArg::Read(x)]);
    assert_eq!(text, "kernel `saxpy`: it has 3 parameters, but 2 arguments are given");
    let out: &mut [u8] = bytemuck::cast_slice_mut(&mut out);
    let text = call(&mut [CpuArg::Value(a), CpuArg::Read(&x[..7]), CpuArg::Write(out)]);
    assert!(text.ends_with(
        "7 bytes are no elements of type f32: the length is no multiple of the element's size"
    ));
    let text = call(&mut [CpuArg::Value(a), CpuArg::Read(&x[1..5]), CpuArg::Write(out)]);
    assert!(
        text.ends_with("4 bytes are no elements of type f32: the address is not aligned"),
        "{text}"
    );
    let text = call(&mut [CpuArg::Value(x), CpuArg::Read(x), CpuArg::Write(out)]);
    assert!(
        text.ends_with("it takes a value of type f32, but a value of 8 bytes is given"),
        "{text}"
    );
    let text = call(&mut [CpuArg::Value(a), CpuArg::Write(&mut [0; 4]), CpuArg::Write(out)]);
    assert!(
        text.ends_with(
            "it takes elements to read of type f32, but elements to write of 4 bytes is given"
        ),
        "{text}"
    );
    let text = call(&mut [CpuArg::Value(a), CpuArg::Read(x), CpuArg::Read(x)]);
    assert!(text.contains("it takes elements to write of type f32"), "{text}");

    let result = std::panic::catch_unwind(|| read::<bool>(&CpuArg::Read(&[1, 0, 2])).len());
    assert!(result.is_err(), "2 is no `bool`");
    assert_eq!(read::<bool>(&CpuArg::Read(&[1, 0, 1])), [true, false, true]);
}

#[test]
fn atomic_operations_do_what_they_say() {
    let mut memory = [5u32, u32::MAX, 7];
    let shared = Atomic::from_mut(&mut memory[..]);
    assert_eq!((shared.len(), shared.is_empty()), (3, false));
    assert_eq!((shared.fetch_add(1, 3), shared.load(1)), (u32::MAX, 2));
    assert_eq!((shared.fetch_sub(0, 6), shared.load(0)), (5, u32::MAX));
    assert_eq!((shared.fetch_min(0, 9), shared.fetch_max(0, 4), shared.load(0)), (u32::MAX, 9, 9));
    assert_eq!(
        (shared.fetch_and(0, 3), shared.fetch_or(0, 6), shared.fetch_xor(0, 5), shared.load(0)),
        (9, 1, 7, 2)
    );
    assert_eq!((shared.swap(2, 1), shared.compare_exchange(2, 7, 8), shared.load(2)), (7, 1, 1));
    assert_eq!((shared.compare_exchange(2, 1, 8), shared.load(2)), (1, 8));
    shared.store(0, 11);
    assert_eq!(memory, [11, 2, 8]);
    let mut memory = [i64::MIN, 4];
    let shared = Atomic::from_mut(&mut memory[..]);
    assert_eq!(
        (shared.fetch_min(1, -4), shared.fetch_max(0, -1), shared.fetch_add(0, i64::MIN)),
        (4, i64::MIN, -1)
    );
    assert_eq!(memory, [i64::MAX, -4]);
    let mut memory = [1.5f32];
    let shared = Atomic::from_mut(&mut memory[..]);
    assert_eq!((shared.fetch_add(0, 2.0), shared.swap(0, 9.0), shared.load(0)), (1.5, 3.5, 9.0));
}

#[test]
fn threads_share_elements_and_bad_indices_are_faults() {
    let data: Vec<u32> = (0..100_000).map(|i| i * 7919 % 1000).collect();
    let (mut bins, mut sum) = (vec![0u32; 1000], [0.0f64]);
    let mut done = vec![false; data.len()];
    let (shared, total) = (Atomic::from_mut(&mut bins[..]), Atomic::from_mut(&mut sum[..]));
    run(&SAXPY, || {
        each(&mut done[..], |i, done| {
            shared.fetch_add(data[i] as usize, 1);
            total.fetch_add(0, f64::from(data[i]));
            *done = true;
        });
    })
    .unwrap();
    assert!(bins.iter().all(|bin| *bin == 100) && done.iter().all(|done| *done));
    assert_eq!(sum, [999.0 * 1000.0 / 2.0 * 100.0]);
    let shared = Atomic::from_mut(&mut bins[..]);
    let line = line!() + 1;
    let error = run(&SAXPY, || each(&mut done[..], |i, _| _ = shared.fetch_max(i, 1))).unwrap_err();
    let CpuError::Fault(fault) = error else { panic!("{error}") };
    assert_eq!(
        (fault.line, fault.index, fault.len, fault.element),
        (line, 1000, 1000, [1000, 0, 0])
    );
}

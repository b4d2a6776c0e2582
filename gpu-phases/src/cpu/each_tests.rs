//! Tests of the parallel loop: its coverage, and the failure that it reports.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::__private::{check, each, image, index, refuse, run, volume};
use crate::fault::{Fault, FaultKind};
use crate::kernel::{CpuError, Kernel};

#[allow(unsafe_code, reason = "the kernel has no C++")]
static KERNEL: Kernel = Kernel {
    name: "tested",
    module: module_path!(),
    file: "kernels.rs",
    line: 7,
    params: &[],
    instance: String::new,
    write: |_| {},
    overflow_checks: || true,
    carries: 0,
    cpu: |_| Ok(()),
    pack: None,
    // SAFETY: no test launches this kernel on a device.
    trusted: unsafe { crate::trust::Trusted::new() },
};

fn fault_of(f: impl FnOnce()) -> Fault {
    match run(&KERNEL, f) {
        Err(CpuError::Fault(fault)) => fault,
        other => panic!("no fault: {other:?}"),
    }
}

#[test]
fn each_element_runs_once_with_its_index() {
    for count in [0, 1, 2, 15, 16, 17, 63, 64, 65, 1000, 4097, 100_003] {
        let mut out = vec![0usize; count];
        run(&KERNEL, || each(&mut out[..], |i, out| *out += i + 1)).unwrap();
        assert!(out.iter().enumerate().all(|(i, out)| *out == i + 1), "{count}");
    }
}

#[test]
fn images_and_volumes_have_their_indices() {
    for [w, h, d] in
        [[1, 1, 1], [5, 3, 2], [1, 700, 3], [700, 1, 1], [33, 65, 7], [0, 3, 1], [3, 0, 2]]
    {
        let mut flat = vec![[usize::MAX; 3]; w * h * d];
        run(&KERNEL, || each(volume(&mut flat, [w, h, d]), |i, out| *out = i)).unwrap();
        for (position, at) in flat.iter().enumerate() {
            assert_eq!(*at, [position % w, position / w % h, position / w / h]);
        }
        let mut flat = vec![[usize::MAX; 2]; w * h];
        run(&KERNEL, || each(image(&mut flat, [w, h]), |i, out| *out = i)).unwrap();
        for (position, at) in flat.iter().enumerate() {
            assert_eq!(*at, [position % w, position / w]);
        }
    }
}

#[test]
fn outputs_of_a_tuple_run_together() {
    let (mut a, mut b, mut c) = (vec![0usize; 999], vec![0u8; 999], vec![0f32; 999]);
    run(&KERNEL, || {
        each((&mut a[..], &mut b[..], &mut c[..]), |i, (a, b, c)| {
            *a = i;
            *b = i as u8;
            *c = i as f32;
        });
    })
    .unwrap();
    assert!((0..999).all(|i| a[i] == i && b[i] == i as u8 && c[i] == i as f32));
    let (mut a, mut b) = (vec![0usize; 12], vec![0u8; 12]);
    run(&KERNEL, || {
        each((image(&mut a, [3, 4]), image(&mut b, [3, 4])), |[x, y], (a, b)| {
            (*a, *b) = (x, y as u8);
        });
    })
    .unwrap();
    assert_eq!((a[7], b[7]), (1, 2));
}

#[test]
fn wrong_shapes_are_refused() {
    let (mut a, mut b) = ([0; 6], [0; 7]);
    let error = run(&KERNEL, || each((&mut a[..], &mut b[..]), |_, _| {})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `tested`: the outputs have different shapes: [6, 1, 1], but [7, 1, 1] of number 2"
    );
    let error = run(&KERNEL, || each(image(&mut a, [2, 4]), |_, _| {})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `tested`: the output's shape is [2, 4], but it has 6 elements"
    );
    let huge = usize::MAX / 2;
    assert!(matches!(
        run(&KERNEL, || each(image(&mut a, [huge, 4]), |_, _| {})),
        Err(CpuError::Refused(_))
    ));
    let error =
        run(&KERNEL, || each((image(&mut a, [2, 3]), image(&mut b[..6], [3, 2])), |_, _| {}))
            .unwrap_err();
    assert!(matches!(error, CpuError::Refused(_)));
}

#[test]
fn the_first_element_that_fails_is_reported() {
    let line = line!() + 6;
    for first in [0usize, 1, 500, 77_777, 99_999] {
        let ran = AtomicUsize::new(0);
        let mut out = vec![0u8; 100_000];
        let fault = fault_of(|| {
            let body = |i: usize, out: &mut u8| {
                let small = [1, 2, 3];
                let at = if i >= first && (i - first).is_multiple_of(3) { i + 3 } else { 2 };
                *out = small[index(at, small.len(), line)];
                ran.fetch_add(1, Ordering::Relaxed);
            };
            each(&mut out[..], body);
        });
        assert_eq!(fault.element, [first as u64, 0, 0]);
        assert_eq!((fault.index, fault.len, fault.line), (first as u64 + 3, 3, line));
        assert_eq!((fault.kind, fault.kernel, fault.file), (FaultKind::Index, "tested", file!()));
        assert!(out[..first].iter().all(|out| *out == 3), "an element before {first} did not run");
        assert!(ran.load(Ordering::Relaxed) >= first);
    }
}

#[test]
fn a_fault_has_its_element_in_three_dimensions() {
    let mut out = vec![0u8; 4 * 5 * 6];
    let fault = fault_of(|| each(volume(&mut out, [4, 5, 6]), |at, _| check(at != [3, 2, 1], 9)));
    assert_eq!((fault.element, fault.kind, fault.line), ([3, 2, 1], FaultKind::Assert, 9));
    let text = fault.to_string();
    assert!(text.starts_with("an assertion is false in kernel `tested`"), "{text}");
    assert!(text.ends_with("each_tests.rs:9, element (3, 2, 1)"), "{text}");
}

#[test]
fn panics_of_std_become_faults() {
    let zero = std::hint::black_box(0i32);
    let wide = std::hint::black_box(32u32);
    let mut out = [0i32; 3];
    let small = [1, 2];
    let none: Option<i32> = std::hint::black_box(None);
    type Case<'a> = (&'a (dyn Fn(usize) -> i32 + Sync), FaultKind, u64, u64);
    let line = line!();
    let cases: [Case<'_>; 8] = [
        (&|_| i32::MAX - zero + (1 - zero), FaultKind::Overflow, 0, 0),
        (&|_| (i32::MIN + zero) - 1, FaultKind::Overflow, 0, 0),
        (&|_| (i32::MAX + zero) * 2, FaultKind::Overflow, 0, 0),
        (&|_| 1 / zero, FaultKind::Division, 0, 0),
        (&|_| i32::MIN % (zero - 1), FaultKind::Division, 0, 0),
        (&|_| 1 << wide, FaultKind::Shift, 0, 0),
        (&|i| small[i + 6], FaultKind::Index, 7, 2),
        (&|_| none.unwrap(), FaultKind::None, 0, 0),
    ];
    for (number, (body, kind, index, len)) in cases.iter().enumerate() {
        if matches!(kind, FaultKind::Overflow | FaultKind::Shift) && !cfg!(debug_assertions) {
            continue;
        }
        let fault =
            fault_of(|| each(&mut out[..], |i, out| *out = if i == 1 { body(i) } else { 0 }));
        assert_eq!(
            (fault.kind, fault.index, fault.len, fault.element),
            (*kind, *index, *len, [1, 0, 0])
        );
        assert_eq!((fault.file, fault.line), (file!(), line + 2 + number as u32));
    }
}

#[test]
fn other_panics_are_errors_with_their_message() {
    let mut out = [0i32; 3];
    let error = run(&KERNEL, || each(&mut out[..], |i, _| assert!(i < 2, "no {i}"))).unwrap_err();
    let CpuError::Panic { kernel: "tested", message } = error else { panic!("{error:?}") };
    assert!(message.starts_with("no 2 at ") && message.contains("each_tests.rs:"), "{message}");
}

#[test]
fn failures_before_the_loop_refuse() {
    let zero = std::hint::black_box(0usize);
    let error = run(&KERNEL, || refuse("x.len() == 3: 2 == 3".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "kernel `tested`: x.len() == 3: 2 == 3");
    let line = line!() + 1;
    let error = run(&KERNEL, || assert!(7 / zero == 1)).unwrap_err();
    let expected = format!(
        "kernel `tested`: before the loop, an integer is divided by zero, or the smallest one by -1 at {}:{line}",
        file!()
    );
    assert_eq!(error.to_string(), expected);
    let error = run(&KERNEL, || _ = index(3, zero, 8)).unwrap_err();
    assert!(
        error.to_string().contains("before the loop, index 3 is out of bounds of length 0"),
        "{error}"
    );
}

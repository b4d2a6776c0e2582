//! Tests of saved launches: valid and invalid files, and runs.

use proptest::prelude::*;

use super::*;
use crate::__private::{args, each, index, read, run, value, write};
use crate::cpu::target::tests::SAXPY;
use crate::trust::Trusted;

const EXTENT: Extent = Extent { dimensions: 1, size: [4, 1, 1], threads: 0, shared: 0 };

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn saved(x: &[f32], out: &[f32]) -> SavedLaunch {
    SavedLaunch::new(&SAXPY, EXTENT, vec![floats(&[2.0]), floats(x), floats(out)]).unwrap()
}

/// Creates a kernel that differs from `SAXPY` in the given fields.
macro_rules! other {
    ($static:ident, $name:literal, $text:literal, $checks:literal, $ty:ty, $extra:expr) => {
        #[allow(unsafe_code, reason = "the kernel has no C++")]
        static $static: Kernel = Kernel {
            name: $name,
            module: module_path!(),
            file: "other.rs",
            line: 3,
            params: &[
                Param::new::<$ty>("a", ParamKind::Value),
                Param::new::<f32>("x", ParamKind::Read),
                Param::new::<f32>("out", ParamKind::Write),
            ],
            instance: || $extra,
            write: |text| text.push($text),
            overflow_checks: || $checks,
            carries: 0,
            cpu: |given| {
                run(&$static, || {
                    let [a, x, out] = args(given);
                    let (a, x): (f32, &[f32]) = (value(a), read(x));
                    each(write::<f32>(out), |i, out| *out = a + x[index(i, x.len(), 9)]);
                })
            },
            pack: None,
            // SAFETY: no test launches this kernel on a device.
            trusted: unsafe { Trusted::new() },
        };
    };
}
other!(RENAMED, "other", "saxpy", true, f32, String::new());
other!(CHANGED, "saxpy", "changed", true, f32, String::new());
other!(UNCHECKED, "saxpy", "saxpy", false, f32, String::new());
other!(RETYPED, "saxpy", "saxpy", true, u32, String::new());
other!(INSTANCE, "saxpy", "saxpy", true, f32, "f32".to_owned());

#[test]
fn a_saved_launch_runs_again() {
    let launch = saved(&[1.0, 2.0, 3.0, 4.0], &[10.0; 4]);
    let launch = SavedLaunch::from_bytes(&launch.to_bytes()).unwrap();
    let run = launch.run(&SAXPY).unwrap();
    assert_eq!(run.result, Ok(()));
    assert_eq!(run.args[2], floats(&[12.0, 14.0, 16.0, 18.0]));
    assert_eq!(launch.args()[2].before(), floats(&[10.0; 4]), "a run works on copies");
    let run = launch.run_element(&SAXPY, [2, 0, 0]).unwrap();
    assert_eq!(run.args[2], floats(&[10.0, 10.0, 16.0, 10.0]));
    for outside in [[4, 0, 0], [0, 1, 0], [u64::MAX, 0, 0]] {
        assert_eq!(launch.run_element(&SAXPY, outside).unwrap().args[2], floats(&[10.0; 4]));
    }
}

#[test]
fn a_fault_is_saved_and_comes_again() {
    let launch = saved(&[1.0, 2.0], &[0.0; 4]);
    let Err(CpuError::Fault(fault)) = launch.run(&SAXPY).unwrap().result else {
        panic!("no fault")
    };
    let launch = SavedLaunch::from_bytes(&launch.with_fault(&fault).to_bytes()).unwrap();
    let expected = launch.fault().unwrap().clone();
    assert!(
        expected.is(&fault)
            && (expected.index, expected.len, expected.element) == (2, 2, [2, 0, 0])
    );
    let alone = |element| launch.run_element(&SAXPY, element).unwrap().result;
    assert_eq!((alone([2, 0, 0]), alone([1, 0, 0])), (Err(CpuError::Fault(fault.clone())), Ok(())));
    let other = Fault { element: [3, 0, 0], ..fault };
    assert!(!expected.is(&other));
    let text = launch.to_string();
    assert!(
        text.starts_with("kernel `saxpy`, ")
            && text.contains("4 x 1 x 1 elements, 3 arguments, index 2"),
        "{text}"
    );
}

#[test]
fn results_are_compared() {
    let launch = saved(&[1.0, f32::NAN, 3.0, 4.0], &[0.0; 4]);
    let nan = f32::from_bits(0xffc0_0001);
    let same = launch.clone().with_results(&SAXPY, 2, floats(&[2.0, nan, 6.0, 8.0])).unwrap();
    assert_eq!(same.compare(&same.run(&SAXPY).unwrap()), []);
    let other = launch.clone().with_results(&SAXPY, 2, floats(&[2.0, nan, 7.0, -8.0])).unwrap();
    let other = SavedLaunch::from_bytes(&other.to_bytes()).unwrap();
    let found = other.compare(&other.run(&SAXPY).unwrap());
    let expected = Difference {
        name: "out".to_owned(),
        element: 2,
        saved: floats(&[7.0]),
        run: floats(&[6.0]),
        count: 2,
    };
    assert_eq!(found, [expected]);
    assert!(launch.clone().with_results(&SAXPY, 1, floats(&[0.0; 4])).is_err(), "`x` is no output");
    assert!(launch.clone().with_results(&SAXPY, 2, floats(&[0.0; 3])).is_err());
    assert!(launch.with_results(&SAXPY, 3, vec![]).is_err());
    assert!(
        Equality::of("[[f64; 2]; 3]").test(&f64::NAN.to_ne_bytes(), &(-f64::NAN).to_ne_bytes())
    );
    assert!(
        !Equality::of("u32").test(&[1], &[2])
            && !Equality::of("f32").test(&floats(&[0.0]), &floats(&[-0.0]))
    );
}

#[test]
fn other_kernels_and_builds_are_named() {
    let launch = saved(&[1.0; 4], &[0.0; 4]);
    let text = |kernel| launch.run(kernel).unwrap_err().to_string();
    let prefix = "the saved launch is not of this kernel: ";
    assert_eq!(
        text(&RENAMED),
        format!("{prefix}the kernel is `saxpy` in the file, and `other` here")
    );
    assert_eq!(
        text(&CHANGED),
        format!(
            "{prefix}the kernel, or code that it calls, has changed since the launch was saved"
        )
    );
    assert_eq!(
        text(&UNCHECKED),
        format!("{prefix}overflows were checked, and are not checked in this build")
    );
    let expected = "a parameter is `Value a: f32, 4 bytes aligned to 4` in the file, and `Value a: u32, 4 bytes aligned to 4` here";
    assert_eq!(text(&RETYPED), format!("{prefix}{expected}"));
    assert_eq!(text(&INSTANCE), format!("{prefix}the instance is `` in the file, and `f32` here"));
    assert_eq!(launch.run_changed(&CHANGED).unwrap().args[2], floats(&[3.0; 4]));
    assert!(launch.run_changed(&RETYPED).is_err() && launch.run_element(&CHANGED, [0; 3]).is_err());
}

#[test]
fn arguments_that_do_not_fit_are_not_saved() {
    let error = SavedLaunch::new(&SAXPY, EXTENT, vec![vec![0; 4]]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `saxpy` cannot be saved: it has 3 parameters, but 1 arguments are given"
    );
    let error = SavedLaunch::new(&SAXPY, EXTENT, vec![vec![0; 4], vec![0; 7], vec![]]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `saxpy` cannot be saved: `x` has 7 bytes, elements have 4"
    );
    assert!(
        SavedLaunch::new(&SAXPY, EXTENT, vec![vec![0; 8], vec![0; 8], vec![]]).is_err(),
        "two values"
    );
}

#[test]
fn bad_files_are_errors() {
    let file = saved(&[1.0; 4], &[0.0; 4]).to_bytes();
    assert_eq!(SavedLaunch::from_bytes(b"PHASESRQ and more"), Err(ReadError::NotSaved));
    let mut newer = file.clone();
    newer[8] = 2;
    assert_eq!(SavedLaunch::from_bytes(&newer), Err(ReadError::Version { found: 2, known: 1 }));
    for len in 0..file.len() {
        assert!(SavedLaunch::from_bytes(&file[..len]).is_err(), "{len} bytes");
    }
    let longer = [&file[..], &[0]].concat();
    assert!(matches!(SavedLaunch::from_bytes(&longer), Err(ReadError::Length { .. })));
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << bit;
            assert!(SavedLaunch::from_bytes(&flipped).is_err(), "bit {bit} of byte {at}");
        }
    }
    let error = SavedLaunch::load("/no/such/file").unwrap_err();
    assert!(
        error.to_string().starts_with("the saved launch cannot be read: /no/such/file: "),
        "{error}"
    );
}

/// Corrects the length and the checksum of a changed file.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    if file.len() >= 32 {
        let body = (file.len() - 32) as u64;
        let sum = file[32..].iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        file[16..24].copy_from_slice(&body.to_le_bytes());
        file[24..32].copy_from_slice(&sum.to_le_bytes());
    }
    file
}

#[test]
fn lengths_beyond_the_file_are_errors() {
    let file = saved(&[1.0; 4], &[0.0; 4]).to_bytes();
    for at in 32..file.len() - 8 {
        let mut huge = file.clone();
        huge[at..at + 8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
        // Some fields may have such values. A run then refuses the launch, or is harmless.
        if let Ok(launch) = SavedLaunch::from_bytes(&sealed(huge)) {
            let _ = launch.run(&SAXPY);
        }
    }
}

proptest! {
    #[test]
    fn files_keep_launches(
        x in proptest::collection::vec(any::<u32>(), 0..40),
        out in proptest::collection::vec(any::<u32>(), 0..40),
        size in any::<[u64; 2]>(),
        fault in proptest::option::of((1u32..=6, any::<[u64; 3]>())),
    ) {
        let bytes = |values: &[u32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let extent = Extent { dimensions: 2, size: [size[0], size[1], 1], threads: 0, shared: 0 };
        let mut launch = SavedLaunch::new(&SAXPY, extent, vec![floats(&[1.0]), bytes(&x), bytes(&out)]).unwrap();
        if let Some((kind, element)) = fault {
            let kind = FaultKind::from_number(kind).unwrap();
            let fault = Fault { kernel: "saxpy", file: "x.rs", line: 1, kind, index: element[0], len: 2, element, block: None };
            launch = launch.with_fault(&fault).with_results(&SAXPY, 2, bytes(&out)).unwrap();
        }
        prop_assert_eq!(SavedLaunch::from_bytes(&launch.to_bytes()), Ok(launch));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(SavedLaunch::from_bytes(&bytes).is_err());
        let header = [&b"PHASESRP\x01\0\0\0\0\0\0\0"[..], &[0; 16], &bytes].concat();
        let _ = SavedLaunch::from_bytes(&sealed(header));
    }

    #[test]
    fn changed_files_with_right_checksums_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = saved(&[1.0, 2.0, 3.0, 4.0], &[0.0; 4]).to_bytes();
        for (at, value) in changes {
            let at = 32 + at.index(file.len() - 32);
            file[at] = value;
        }
        if let Ok(launch) = SavedLaunch::from_bytes(&sealed(file)) {
            let _ = (launch.to_string(), launch.run(&SAXPY), launch.run_changed(&CHANGED));
            prop_assert_eq!(SavedLaunch::from_bytes(&launch.to_bytes()), Ok(launch));
        }
    }
}

#[test]
fn a_recorder_keeps_what_it_is_asked_for() {
    use crate::cpu::target::tests::launch;
    for (keep, count) in [(Keep::All, 3), (Keep::FailedOrNan, 2), (Keep::Failed, 1)] {
        let recorder = Recorder::new(keep);
        let mut out = [1.0, f32::NAN];
        launch(&recorder, 2.0, &[1.0, 2.0], &mut out).unwrap();
        assert_eq!(out[0], 3.0);
        launch(&recorder, 2.0, &[f32::NAN, 2.0], &mut out).unwrap();
        let error = launch(&recorder, 2.0, &[1.0], &mut out).unwrap_err();
        let kept = recorder.take();
        assert_eq!((kept.len(), recorder.take().len()), (count, 0));
        let CpuError::Fault(fault) = error else { panic!("{error}") };
        let failed = kept.last().unwrap();
        assert!(failed.fault().unwrap().is(&fault));
        assert_eq!(failed.run(&SAXPY).unwrap().result, Err(CpuError::Fault(fault)));
        let nans: Vec<_> = kept.iter().map(SavedLaunch::first_nan).collect();
        assert_eq!(nans, [None, Some((2, 0)), None][3 - count..]);
        for saved in kept {
            assert_eq!(saved.compare(&saved.run(&SAXPY).unwrap()), []);
        }
    }
}

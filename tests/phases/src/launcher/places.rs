//! Launches on a place that is chosen when the program runs.

use cuda_safe::kernel::{FaultKind, Memory, Place};
use cuda_safe::{ErrorKind, Result};
use gpu_phases::kernel;

use crate::turn;

#[kernel]
fn scale(a: f32, x: &[f32], at: &[u32], out: &mut [f32]) {
    assert!(at.len() == out.len());
    each(out, |i, out| *out = a * x[at[i] as usize]);
}

fn run(place: Place<'_>, at: &[u32]) -> Result<Vec<f32>> {
    let x = Memory::from_slice(place, &[1.0f32, 2.0, 4.0])?;
    let at = Memory::from_slice(place, at)?;
    let mut out = Memory::<f32>::zeroed(place, at.len())?;
    scale::launch(place, 3.0, &x, &at, &mut out)?;
    out.to_vec(place)
}

#[test]
fn a_stream_and_the_cpu_give_the_same() -> Result<()> {
    let turn = turn();
    let stream = turn.context.stream()?;
    for place in [Place::Cpu, Place::Gpu(&stream)] {
        assert_eq!(run(place, &[2, 0, 1, 1])?, [12.0, 3.0, 6.0, 6.0], "{place:?}");
        assert_eq!(run(place, &[])?, [], "{place:?}");
        let error = run(place, &[0, 1, 9]).expect_err("an index is out of bounds");
        let ErrorKind::KernelFault(fault) = error.kind() else { panic!("{error}") };
        assert_eq!((fault.kernel, fault.kind), ("scale", FaultKind::Index), "{place:?}");
        assert_eq!((fault.index, fault.len, fault.element), (9, 3, [2, 0, 0]), "{place:?}");
        assert_eq!((fault.file, fault.line), (file!(), 12), "{place:?}");
        let _ = turn.context.take_fault();
    }
    Ok(())
}

#[test]
fn arguments_that_are_refused() -> Result<()> {
    let turn = turn();
    let stream = turn.context.stream()?;
    let gpu = Place::Gpu(&stream);
    let [here, there] = [Place::Cpu, gpu].map(|place| Memory::<f32>::zeroed(place, 2));
    let (here, there) = (here?, there?);
    for (place, x) in [(Place::Cpu, &there), (gpu, &here)] {
        let at = Memory::<u32>::zeroed(place, 2)?;
        let mut out = Memory::<f32>::zeroed(place, 2)?;
        let error = scale::launch(place, 1.0, x, &at, &mut out).expect_err("another place");
        assert!(error.to_string().contains("the memory is on"), "{error}");
        assert!(error.to_string().contains("copy it: `Memory::from_slice("), "{error}");
        let mut short = Memory::<f32>::zeroed(place, 1)?;
        let error = scale::launch(place, 1.0, x, &at, &mut short).expect_err("another length");
        assert!(matches!(error.kind(), ErrorKind::Argument { .. }), "{error}");
        assert!(error.to_string().contains("`scale`"), "{error}");
    }
    assert!(there.to_vec(Place::Cpu).is_err());
    assert_eq!(here.to_vec(gpu)?, [0.0; 2]);
    assert_eq!((here.len(), here.is_empty()), (2, false));
    let (mut here, mut there) = (here, there);
    assert!(there.fill(Place::Cpu, 1.0).is_err());
    there.fill(gpu, 2.5)?;
    here.fill(Place::Cpu, 3.5)?;
    assert_eq!((there.to_vec(gpu)?, here.to_vec(Place::Cpu)?), (vec![2.5; 2], vec![3.5; 2]));
    Memory::<f32>::zeroed(Place::Cpu, 0)?.fill(Place::Cpu, 1.0)?;
    Ok(())
}

//! A framework on the second device, while the first one's context is current: `cuda:1` while `cuda:0` is current.
//! Where there is one device only, there is nothing to test.

use cuda_safe::dlpack::{Consumer, Tensor};
use cuda_safe::{Context, DeviceBuffer};

use super::super::checks::{is_invalid, no_drop_errors};
use super::super::framework::{Framework, success};
use super::export::Given;
use super::{Made, U32};
use test_harness::programs::Basic;
use test_harness::{Case, Open, TestResult, cases, count_launches, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases!["dlpack", process(a_second_device).variables(&[("CUDA_EMU_DEVICES", "2")]),]
}

const N: usize = 1000;

/// Makes a context current on this thread, or none.
fn make_current(context: &Context, set: bool) -> TestResult {
    let raw = if set { context.as_raw() } else { std::ptr::null_mut() };
    // SAFETY: the context is live, or there is none.
    success("cuCtxSetCurrent", unsafe { context.driver().as_sys().cuCtxSetCurrent(raw) })
}

fn tensor(start: u64, ordinal: i32) -> cuda_safe::Result<Tensor> {
    Made::new(start, U32, &[N as i64]).with(|made| made.tensor.device.device_id = ordinal).take()
}

/// An operator on one device, whichever context is current.
fn operate(near: &Context, ordinal: i32, framework: &Framework) -> TestResult {
    let basic = Basic::load(near)?;
    let values: Vec<u32> = (0..N as u32).collect();
    let (x, y) = (framework.tensor(&values)?, framework.tensor(&vec![0; N])?);
    let (from, to) = (tensor(x.start(), ordinal)?, tensor(y.start(), ordinal)?);
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let given = unsafe {
        near.lend(framework.stream(), |lent| {
            let (from, mut to) = (lent.view::<u32>(&from)?, lent.view_mut::<u32>(&to)?);
            count_launches(2);
            basic.copy(lent, (4, 64), from, &mut to, N as u64)?;
            basic.add(lent, (4, 64), &mut to, N as u64, 5)?;
            // Copies ask which context is current.
            let result = DeviceBuffer::from_slice(lent, &[9_u32; N])?;
            let copy = result.try_clone(lent)?;
            assert_eq!(copy.to_vec(lent)?, vec![9; N]);
            let consumer = Consumer::from_raw(framework.stream().addr() as i64)?;
            Ok(Given(result.into_dlpack(&[N], consumer)?))
        })
    }?;
    let expected: Vec<u32> = values.iter().map(|value| value + 5).collect();
    first_difference(&y.read()?, &expected)?;
    // SAFETY: the tensor is live.
    ensure_eq!(unsafe { (*given.0).dl_tensor.device.device_id }, ordinal);
    let back = given.take()?;
    // SAFETY: as above.
    let seen =
        unsafe { near.lend(framework.stream(), |lent| lent.view::<u32>(&back)?.to_vec(lent)) }?;
    first_difference(&seen, &[9; N])?;
    // A kept tensor goes back to its framework.
    // SAFETY: as above.
    let kept = unsafe { near.lend(framework.stream(), |lent| Ok(to.into_buffer::<u32>(lent)?)) }?;
    first_difference(&kept.to_vec(&near.stream()?)?, &expected)?;
    drop(kept);
    no_drop_errors(near)
}

/// Streams and tensors of the other device are refused.
fn mixed(near: &Context, framework: &Framework, foreign: i32) -> TestResult {
    let x = framework.tensor(&[1; N])?;
    let theirs = tensor(x.start(), foreign)?;
    // SAFETY: the view is refused before it is used.
    let refused =
        unsafe { near.lend(framework.stream(), |lent| lent.view::<u32>(&theirs).map(drop)) };
    is_invalid(refused, &format!("device {foreign}"))?;
    // SAFETY: as above.
    let refused = unsafe {
        near.lend(framework.stream(), |lent| Ok(theirs.into_buffer::<u32>(lent).map(drop)?))
    };
    is_invalid(refused, &format!("device {foreign}"))
}

fn a_second_device(open: Open) -> TestResult {
    let driver = open()?;
    if driver.device_count() < 2 {
        eprintln!("one device: nothing is tested");
        return Ok(());
    }
    let contexts = [driver.device(0)?.context()?, driver.device(1)?.context()?];
    for (current, set) in [(0, true), (1, true), (0, false)] {
        for (near, far) in [(0_usize, 1_usize), (1, 0)] {
            for legacy in [false, true] {
                let framework = match legacy {
                    false => Framework::new(&contexts[near])?,
                    true => Framework::legacy(&contexts[near]),
                };
                make_current(&contexts[current], set)?;
                operate(&contexts[near], near as i32, &framework)?;
                mixed(&contexts[near], &framework, far as i32)?;
                if !legacy {
                    // SAFETY: refused before it is used.
                    let refused = unsafe { contexts[far].lend(framework.stream(), |_| Ok(())) };
                    is_invalid(refused, "another context")?;
                }
            }
        }
    }
    make_current(&contexts[0], false)?;
    for context in &contexts {
        context.synchronize()?;
        no_drop_errors(context)?;
    }
    Ok(())
}

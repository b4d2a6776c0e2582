//! The functions that are bound by their exported names are those that the driver answers with when
//! it is asked for the version that introduced them.

use std::collections::HashMap;
use std::ffi::{CString, c_void};

use cuda_safe::sys::{CUresult, DRIVER_SYMBOLS};

use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(crate) fn cases() -> Vec<Case> {
    cases!["fault::symbols", fault(by_name_and_by_version),]
}

/// What differs legitimately: a function that the driver has under another address for those who
/// ask, which no exported name has; one newer than the driver, for which it answers with an older
/// one. A mistake of ours would show as the address of *another* exported function.
fn by_name_and_by_version(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let sys = driver.as_sys();
    let version = driver.version()?;
    let mut names: HashMap<*const c_void, Vec<&str>> = HashMap::new();
    for symbol in DRIVER_SYMBOLS {
        let address = sys.address(symbol.name);
        if !address.is_null() {
            names.entry(address).or_default().push(symbol.name);
        }
    }
    let (mut same, mut unnamed, mut silent, mut newer) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut wrong = Vec::new();
    for symbol in DRIVER_SYMBOLS {
        let exported = sys.address(symbol.name);
        if exported.is_null() {
            continue;
        }
        if symbol.version > version {
            newer.push(symbol.name);
            continue;
        }
        let base = CString::new(symbol.base)?;
        let mut answered = std::ptr::null_mut();
        // SAFETY: the name is a C string, `answered` a valid place, and no status is wanted.
        let result = unsafe {
            sys.cuGetProcAddress_v2(
                base.as_ptr(),
                &raw mut answered,
                symbol.version,
                0,
                std::ptr::null_mut(),
            )
        }?;
        let answered = answered.cast_const();
        if result != CUresult::CUDA_SUCCESS || answered.is_null() {
            silent.push(symbol.name);
        } else if answered == exported {
            same += 1;
        } else {
            match names.get(&answered) {
                Some(others) => wrong.push(format!(
                    "{} is {} when asked as {} of {}",
                    symbol.name,
                    others.join(" or "),
                    symbol.base,
                    symbol.version
                )),
                None => unnamed.push(symbol.name),
            }
        }
    }
    eprintln!(
        "{} functions of {} exist; {same} are the same both ways; at another address {}: {unnamed:?}; \
         not answered {}: {silent:?}; newer than the driver {}: {newer:?}",
        names.len(),
        DRIVER_SYMBOLS.len(),
        unnamed.len(),
        silent.len(),
        newer.len()
    );
    if !wrong.is_empty() {
        return Err(Failure::new(wrong.join("\n")));
    }
    ensure!(same + unnamed.len() > 300, "most functions can be compared");
    Ok(())
}

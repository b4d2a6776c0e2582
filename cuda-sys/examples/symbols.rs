//! Prints which functions the installed driver lacks, and whether `cuGetProcAddress` agrees with the exported names.
//! Exits with 1 if it does not.

use std::error::Error;
use std::ffi::CString;
use std::process::ExitCode;
use std::ptr;
use std::time::Instant;

use cuda_safe_sys::{CUresult, DRIVER_SYMBOLS, Driver};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let start = Instant::now();
    let driver = Driver::load()?;
    println!("{} loaded in {:?}", driver.source(), start.elapsed());
    let start = Instant::now();
    // SAFETY: the driver that is loaded already.
    unsafe { Driver::load_from(driver.source()) }?;
    println!("a second table took {:?}", start.elapsed());
    let version = driver.version().ok_or("the driver does not tell its version")?;
    println!("CUDA {}.{}", version / 1000, version % 1000 / 10);

    let (mut bound, mut disagreeing) = (0, 0);
    for symbol in DRIVER_SYMBOLS {
        if !driver.supports(symbol.name) {
            println!("missing: {} (CUDA release {})", symbol.name, symbol.version);
            continue;
        }
        bound += 1;
        if symbol.version > version {
            // Exported ahead of its release: cuGetProcAddress does not give it out yet.
            println!("ahead of its release: {} ({})", symbol.name, symbol.version);
            continue;
        }
        let base = CString::new(symbol.base)?;
        let mut address = ptr::null_mut();
        let target = &raw mut address;
        // SAFETY: the name ends in NUL, `address` is valid for the write, no status is wanted.
        let code = unsafe {
            driver.cuGetProcAddress_v2(base.as_ptr(), target, symbol.version, 0, ptr::null_mut())
        }?;
        if code != CUresult::CUDA_SUCCESS || address.cast_const() != driver.address(symbol.name) {
            disagreeing += 1;
            println!("disagree: {} ({}): {code} {address:?}", symbol.name, symbol.version);
        }
    }
    println!("{bound} of {} bound, {disagreeing} disagree", DRIVER_SYMBOLS.len());
    Ok(if disagreeing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

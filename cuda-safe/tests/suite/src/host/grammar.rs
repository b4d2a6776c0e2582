//! What the methods of `kernels!` convert and check, and how they launch, before the driver is asked.

use cuda_safe::{
    DeviceBuffer, DeviceRepr, ErrorKind, LaunchConfig, Module, Result, Stream, kernels,
};

use test_harness::lab::{Lab, PTX};
use test_harness::{Case, Failure, Rng, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "grammar",
        host(integers_of_any_type),
        host(constants_and_alternatives),
        host(fields_of_structures),
        host(cooperative_launches),
        host(null_and_raw_pointers),
    ]
}

const TILE: u32 = 16;

mod limits {
    pub(super) const LEAST: i8 = -4;
    pub(super) const HUGE: u64 = u64::MAX;
}

/// A structure of 8 bytes, as the first parameter of `one`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Size {
    rows: u16,
    inner: (i16, u8),
}

// SAFETY: nothing runs on this driver.
unsafe impl DeviceRepr for Size {}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Params {
    size: Size,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Params {}

kernels! {
    struct Grammar;
    // SAFETY: nothing runs on this driver.
    unsafe in PTX {
        #[name = "one"]
        safe fn signed(n: i64, out: &mut [u8]) where -5 <= n <= out.len();
        #[name = "one"]
        safe fn unsigned(n: u64, out: &mut [u8]) where n <= out.len();
        #[name = "one"]
        safe fn constants(n: u64, out: &mut [u8])
            where limits::LEAST + TILE * 2 <= n <= limits::HUGE, n % TILE == 0, out.len() > 0;
        #[name = "one"]
        safe fn alternatives(n: u64, out: &mut [u8])
            where n == 0 || n * n * n * n < out.len() || 100 / (n - 7) == 50, out.len() > 0;
        #[name = "one"]
        safe fn bounded(n: u64, out: &mut [u8]) where 2 * n <= out.len() || out.len() == 7;
        #[name = "one"]
        safe fn powers(n: i64, out: &mut [u8])
            where block.x.is_power_of_two(), (n - 1).is_power_of_two() || n.is_power_of_two(), out.len() > 0;
        #[name = "one"]
        safe fn fields(p: Params, out: &mut [u8])
            where p.size.rows * p.size.inner.0 <= out.len(), p.size.inner.1.is_power_of_two();
        #[name = "nothing"]
        safe fn meets() cooperative;
        #[name = "one"]
        safe fn meets_over(#[any] n: u64, out: &mut [u8]) cooperative over n by TILE where out.len() > 0;
        #[name = "two"]
        unsafe fn pointers(id: u64, a: Option<&[u8]>, b: Option<&mut [u8]>);
        #[name = "two"]
        unsafe fn raw(id: u64, a: *const f32, b: *mut f32);
    }
}

fn grammar(lab: &Lab) -> std::result::Result<(Grammar, Stream), Failure> {
    let module = Module::from_ptx(&lab.context, PTX)?;
    // SAFETY: the module is made of the text that the declaration names.
    Ok((unsafe { Grammar::from_module(&module) }?, lab.context.stream()?))
}

/// Whether a launch was made: `Ok` and one call, or a precondition that does not hold and no call.
fn launched(lab: &Lab, launch: impl FnOnce() -> Result<()>) -> std::result::Result<bool, Failure> {
    lab.recorder.take();
    let result = launch();
    let calls = lab.recorder.names();
    match result {
        Ok(()) => {
            ensure_eq!(calls, ["cuLaunchKernel"]);
            Ok(true)
        }
        Err(error) if matches!(error.kind(), ErrorKind::Precondition { .. }) => {
            ensure_eq!(calls, [""; 0], "refused before the driver is asked");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn integers_of_any_type() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = grammar(&lab)?;
    let mut out = DeviceBuffer::<u8>::zeroed(&stream, 200)?;
    let one = LaunchConfig::new(1, 1);
    // Literals, and each type.
    kernels.signed(&stream, one, -5, &mut out)?;
    kernels.unsigned(&stream, one, 200, &mut out)?;
    kernels.unsigned(&stream, one, out.len(), &mut out)?;
    macro_rules! each {
        ($($integer:ident)+) => {$(
            for value in [$integer::MIN, 0, 100, $integer::MAX] {
                let text = value.to_string();
                let inside = |least: i128, most| {
                    text.parse::<i128>().is_ok_and(|value| (least..=most).contains(&value))
                };
                let signed = launched(&lab, || kernels.signed(&stream, one, value, &mut out))?;
                ensure_eq!(signed, inside(-5, 200), "{text}");
                let unsigned = launched(&lab, || kernels.unsigned(&stream, one, value, &mut out))?;
                ensure_eq!(unsigned, inside(0, 200), "{text}");
            }
        )+};
    }
    each!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
    let refused = kernels.unsigned(&stream, one, -1, &mut out);
    let wanted =
        "kernel `unsigned`: `n: u64` does not hold: n = -1; hint: -1 is out of the range of u64";
    ensure!(refused.is_err_and(|error| error.to_string() == wanted));
    drop((kernels, out, stream));
    lab.close()
}

fn constants_and_alternatives() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = grammar(&lab)?;
    let mut rng = Rng::new(22);
    for _ in 0..300 {
        let len = 1 + rng.below(200);
        let mut out = DeviceBuffer::<u8>::zeroed(&stream, len)?;
        let (n, len) = (rng.below(40) as i128, len as i128);
        let one = LaunchConfig::new(1, 1 + rng.below(9));
        let block = i128::from(one.block.x);
        let power = |value: i128| value > 0 && value & (value - 1) == 0;
        for (name, made, wanted) in [
            (
                "constants",
                launched(&lab, || kernels.constants(&stream, one, n, &mut out))?,
                28 <= n && n % 16 == 0,
            ),
            (
                "alternatives",
                launched(&lab, || kernels.alternatives(&stream, one, n, &mut out))?,
                n == 0 || n.pow(4) < len || n == 9,
            ),
            (
                "bounded",
                launched(&lab, || kernels.bounded(&stream, one, n, &mut out))?,
                2 * n <= len || len == 7,
            ),
            (
                "powers",
                launched(&lab, || kernels.powers(&stream, one, n - 3, &mut out))?,
                power(block) && (power(n - 4) || power(n - 3)),
            ),
        ] {
            ensure_eq!(made, wanted, "{name}: n = {n}, {len} elements, blocks of {block}");
        }
    }
    let mut out = DeviceBuffer::<u8>::zeroed(&stream, 1)?;
    let one = LaunchConfig::new(1, 1);
    // The fourth power of 2^64 - 1 is beyond an i128: that alternative does not hold, and nothing wraps.
    ensure!(!launched(&lab, || kernels.alternatives(&stream, one, u64::MAX, &mut out))?);
    ensure!(!launched(&lab, || kernels.powers(&stream, one, i64::MIN, &mut out))?);
    let refused = kernels.constants(&stream, one, 8, &mut out);
    let wanted = "kernel `constants`: `limits::LEAST + TILE * 2 <= n <= limits::HUGE` does not hold: \
                  limits::LEAST = -4, TILE = 16, n = 8, limits::HUGE = 18446744073709551615";
    ensure_eq!(refused.map_err(|error| error.to_string()), Err(wanted.to_owned()));
    drop((kernels, out, stream));
    lab.close()
}

fn fields_of_structures() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = grammar(&lab)?;
    let mut out = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let one = LaunchConfig::new(1, 1);
    for (rows, columns, depth, holds) in [
        (10, 10, 4, true),
        (10, 11, 4, false),
        (10, 10, 3, false),
        (10, 10, 0, false),
        (u16::MAX, -1, 1, true),
        (u16::MAX, i16::MAX, 1, false),
        (0, i16::MAX, 128, true),
    ] {
        let p = Params { size: Size { rows, inner: (columns, depth) } };
        let made = launched(&lab, || kernels.fields(&stream, one, p, &mut out))?;
        ensure_eq!(made, holds, "{rows} × {columns}, {depth}");
    }
    let p = Params { size: Size { rows: 11, inner: (10, 1) } };
    let refused = kernels.fields(&stream, one, p, &mut out);
    let wanted = "kernel `fields`: `p.size.rows * p.size.inner.0 <= out.len()` does not hold: \
                  p.size.rows = 11, p.size.inner.0 = 10, out.len() = 100";
    ensure_eq!(refused.map_err(|error| error.to_string()), Err(wanted.to_owned()));
    drop((kernels, out, stream));
    lab.close()
}

fn cooperative_launches() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = grammar(&lab)?;
    let mut out = DeviceBuffer::<u8>::zeroed(&stream, 1)?;
    for launch in [LaunchConfig::new(2, 32), LaunchConfig::new(2, 32).cooperative()] {
        let (calls, ()) = lab.calls(|| kernels.meets(&stream, launch))?;
        ensure!(calls.contains(&"cuLaunchCooperativeKernel"), "{calls:?}");
        ensure!(!calls.contains(&"cuLaunchKernel"), "{calls:?}");
    }
    let (calls, ()) = lab.calls(|| kernels.meets_over(&stream, 33, &mut out))?;
    ensure!(calls.contains(&"cuLaunchCooperativeKernel"), "{calls:?}");
    // 132 multiprocessors, and some blocks on each.
    lab.recorder.take();
    let Err(error) = kernels.meets(&stream, (1_000_000, 1024)) else {
        return Err(Failure::new("a million blocks are resident together"));
    };
    ensure!(matches!(error.kind(), ErrorKind::Limit { what: "blocks resident together", .. }));
    ensure!(error.to_string().contains("let each thread do several elements"), "{error}");
    ensure!(!lab.recorder.names().contains(&"cuLaunchCooperativeKernel"));
    drop((kernels, out, stream));
    lab.close()
}

fn null_and_raw_pointers() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = grammar(&lab)?;
    let (a, mut b) =
        (DeviceBuffer::<u8>::zeroed(&stream, 8)?, DeviceBuffer::<u8>::zeroed(&stream, 8)?);
    let one = LaunchConfig::new(1, 1);
    let address = a.device_ptr();
    let (calls, ()) = lab.calls(|| {
        // SAFETY: nothing runs on this driver.
        unsafe {
            kernels.pointers(&stream, one, 1, None, None)?;
            kernels.pointers(&stream, one, 1, &a, &mut b)?;
            kernels.pointers(&stream, one, 1, Some(a.slice(2..)?), b.slice_mut(1..)?)?;
            kernels.pointers(&stream, one, 1, a.as_slice(), None)?;
            kernels.raw(&stream, one, 1, address, address)?;
            kernels.raw(&stream, one, 1, std::ptr::null(), std::ptr::null_mut())?;
            let pointer: *mut f32 = std::ptr::without_provenance_mut(64);
            kernels.raw(&stream, one, 1, pointer, pointer)
        }
    })?;
    ensure_eq!(calls, ["cuLaunchKernel"; 7]);
    drop((kernels, a, b, stream));
    lab.close()
}

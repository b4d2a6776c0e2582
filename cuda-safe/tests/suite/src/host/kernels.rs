//! What the methods of `kernels!` check of a launch's shape, before the driver is asked.

use cuda_safe::{DeviceBuffer, ErrorKind, LaunchConfig, Module, Stream, kernels};

use test_harness::lab::{Lab, PTX};
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "kernels",
        host(in_x_alone),
        host(shapes_in_clauses),
        host(arguments_as_they_come),
        host(derived_arguments_and_launches),
        host(instances),
        host(their_module),
    ]
}

kernels! {
    struct Shapes;
    // SAFETY: nothing runs on this driver.
    unsafe in PTX {
        #[name = "nothing"]
        safe fn line();
        #[name = "nothing"]
        safe fn plane() where block.y <= 16;
        #[name = "nothing"]
        safe fn deep() where grid.z <= 8;
        #[name = "nothing"]
        safe fn anyhow() where block.y >= 1, block.z >= 1;
        #[name = "nothing"]
        unsafe fn unchecked();
        #[name = "one"]
        safe fn sums(n: u64, out: &mut [f32])
            where block.x == 256,
                  grid.x <= out.len(),
                  shared >= 4 * block.x,
                  grid.x * block.x >= n;
        #[name = "two"]
        safe fn copy(n: u64, x: &[f32], out: &mut [f32]) where n <= x.len(), n <= out.len();
    }
}

kernels! {
    struct Derived;
    // SAFETY: nothing runs on this driver.
    unsafe in PTX {
        #[name = "one"]
        safe fn line(n: u64 = out.len(), out: &mut [f32]) over n;
        #[name = "one"]
        safe fn any(#[any] n: u64, out: &mut [f32]) over n where out.len() >= 1;
        #[name = "two"]
        safe fn plane(m: u64 = out.len() - 8, n: u64 = 4 * m, out: &mut [f32]) over [n, m]
            where out.len() >= 1;
        #[name = "two"]
        safe fn launched(x: &[f32], out: &mut [f32], n: i64 = x.len() * 9223372036854775807)
            where 0 <= x.len(), 0 <= out.len();
    }
}

kernels! {
    struct Instances<T in [f32 = "one", f64 = "none"]>;
    // SAFETY: nothing runs on this driver.
    unsafe in PTX {
        #[name = "{T}"]
        safe fn length(n: u64 = x.len(), x: &mut [T]) over n;
        #[name = "{U}"]
        safe fn each<U in [u32 = "one", u8 = "one"]>(n: u64 = x.len(), x: &mut [U]) over n;
    }
}

fn shapes(lab: &Lab) -> Result<(Shapes, Stream), Failure> {
    let module = Module::from_ptx(&lab.context, PTX)?;
    // SAFETY: the module is made of the text that the declaration names.
    Ok((unsafe { Shapes::from_module(&module) }?, lab.context.stream()?))
}

/// Asserts that a launch was refused for `clause`, with `value` in the report, without a call.
#[track_caller]
fn refused(
    lab: &Lab,
    result: cuda_safe::Result<()>,
    clause: &str,
    value: (&str, i128),
) -> Result<String, Failure> {
    let calls = lab.recorder.names();
    lab.recorder.take();
    let Err(error) = result else {
        return Err(Failure::new(format!("a launch against `{clause}` is Ok")));
    };
    let ErrorKind::Precondition { clause: found, values, .. } = error.kind() else {
        return Err(Failure::new(format!("it is no precondition: {error}")));
    };
    ensure_eq!(*found, clause, "{error}");
    ensure!(values.contains(&value), "{error}");
    ensure_eq!(calls, [""; 0], "refused before the driver is asked");
    Ok(error.to_string())
}

fn in_x_alone() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = shapes(&lab)?;
    let s = &stream;
    let launch = |grid: [u32; 3], block: [u32; 3]| LaunchConfig::new(grid, block);
    lab.recorder.take();

    let flat = launch([7, 1, 1], [32, 1, 1]);
    let tall_block = launch([7, 1, 1], [32, 4, 1]);
    let tall_grid = launch([7, 5, 1], [32, 1, 1]);
    let deep_block = launch([7, 1, 1], [32, 1, 2]);
    let deep_grid = launch([7, 1, 3], [32, 1, 1]);

    let text = refused(&lab, kernels.line(s, tall_block), "block.y == 1", ("block.y", 4))?;
    ensure_eq!(
        text,
        "kernel `line`: `block.y == 1` does not hold: block.y = 4; hint: it is launched in x \
         alone, but for dimensions that its `where` names"
    );
    refused(&lab, kernels.line(s, tall_grid), "grid.y == 1", ("grid.y", 5))?;
    refused(&lab, kernels.line(s, deep_block), "block.z == 1", ("block.z", 2))?;
    refused(&lab, kernels.line(s, deep_grid), "grid.z == 1", ("grid.z", 3))?;
    // A grid without blocks is refused as well if it is empty in y: no kernel expects that.
    let none = launch([7, 0, 1], [32, 1, 1]);
    refused(&lab, kernels.line(s, none), "grid.y == 1", ("grid.y", 0))?;

    // Naming one extent frees both of the dimension, and no other dimension.
    refused(&lab, kernels.plane(s, deep_block), "block.z == 1", ("block.z", 2))?;
    refused(&lab, kernels.plane(s, deep_grid), "grid.z == 1", ("grid.z", 3))?;
    refused(&lab, kernels.deep(s, tall_block), "block.y == 1", ("block.y", 4))?;
    refused(&lab, kernels.deep(s, tall_grid), "grid.y == 1", ("grid.y", 5))?;

    let (calls, ()) = lab.calls(|| {
        kernels.line(s, flat)?;
        kernels.line(s, LaunchConfig::cover(0, 32))?;
        kernels.plane(s, flat)?;
        kernels.plane(s, tall_block)?;
        kernels.plane(s, tall_grid)?;
        kernels.deep(s, deep_block)?;
        kernels.deep(s, deep_grid)?;
        for shape in [flat, tall_block, tall_grid, deep_block, deep_grid] {
            kernels.anyhow(s, shape)?;
            // SAFETY: nothing runs on this driver.
            unsafe { kernels.unchecked(s, shape) }?;
        }
        Ok(())
    })?;
    ensure_eq!(calls, ["cuLaunchKernel"; 16], "all but the one without blocks");
    drop((kernels, stream));
    lab.close()
}

fn shapes_in_clauses() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = shapes(&lab)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let mut sums = |n, launch| kernels.sums(&stream, launch, n, &mut out);
    let launch = |grid: u32, block: u32| LaunchConfig::new(grid, block).dynamic_shared_bytes(1024);
    lab.recorder.take();

    refused(&lab, sums(1, launch(1, 128)), "block.x == 256", ("block.x", 128))?;
    refused(&lab, sums(1, launch(11, 256)), "grid.x <= out.len()", ("grid.x", 11))?;
    let short = launch(10, 256).dynamic_shared_bytes(1023);
    refused(&lab, sums(1, short), "shared >= 4 * block.x", ("shared", 1023))?;
    refused(&lab, sums(2561, launch(10, 256)), "grid.x * block.x >= n", ("n", 2561))?;
    // The shape comes first: what the clauses say is meant for launches in x alone.
    let tall = LaunchConfig::new((11, 2), 128);
    refused(&lab, sums(1, tall), "grid.y == 1", ("grid.y", 2))?;

    let (calls, ()) = lab.calls(|| sums(2560, launch(10, 256)))?;
    ensure_eq!(calls, ["cuLaunchKernel"]);
    drop((kernels, out, stream));
    lab.close()
}

/// Buffers and views, by reference and by value, and launches as pairs.
fn arguments_as_they_come() -> TestResult {
    let lab = Lab::new()?;
    let (kernels, stream) = shapes(&lab)?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let (calls, ()) = lab.calls(|| {
        let s = &stream;
        kernels.copy(s, (1, 32), 10, &x, &mut out)?;
        let (view, mut target) = (&x.as_slice(), out.as_slice_mut());
        kernels.copy(s, LaunchConfig::cover(10, 32), 10, view, &mut target)?;
        kernels.copy(s, LaunchConfig::cover(10, 32), 10, *view, target)?;
        kernels.copy(s, (1, (32, 1)), 5, x.slice(5..)?, out.slice_mut(..5)?)?;
        kernels.copy(s, ([1, 1], [32, 1, 1]), 10, &y.as_slice_mut(), &mut out)
    })?;
    ensure_eq!(calls, ["cuLaunchKernel"; 5]);
    let parts = kernels.copy(&stream, (1, 32), 6, x.slice(5..)?, &mut out);
    refused(&lab, parts, "n <= x.len()", ("x.len()", 5))?;
    let parts = kernels.copy(&stream, (1, 32), 6, &x, out.slice_mut(..5)?);
    refused(&lab, parts, "n <= out.len()", ("out.len()", 5))?;
    drop((kernels, x, y, out, stream));
    lab.close()
}

/// What is filled in and derived is refused, or launched, as what a caller passes.
fn derived_arguments_and_launches() -> TestResult {
    let lab = Lab::new()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    // SAFETY: the module is made of the text that the declaration names.
    let (kernels, stream) = (unsafe { Derived::from_module(&module) }?, lab.context.stream()?);
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let mut none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 5)?;
    let (calls, ()) = lab.calls(|| {
        kernels.line(&stream, &mut out)?;
        kernels.line(&stream, out.slice_mut(..1)?)?;
        kernels.plane(&stream, &mut out)?;
        kernels.launched(&stream, (1, 32), x.slice(..1)?, &mut out)
    })?;
    ensure_eq!(calls, ["cuLaunchKernel"; 4]);
    let (calls, ()) = lab.calls(|| {
        kernels.line(&stream, &mut none)?;
        kernels.any(&stream, 0, &mut out)?;
        kernels.plane(&stream, out.slice_mut(..8)?)
    })?;
    ensure_eq!(calls, [""; 0], "nothing is enqueued for no elements");

    let at_least_one = kernels.any(&stream, 0, &mut none);
    refused(&lab, at_least_one, "out.len() >= 1", ("out.len()", 0))?;
    let negative = kernels.plane(&stream, out.slice_mut(..7)?);
    refused(&lab, negative, "m: u64 = out.len() - 8", ("out.len()", 7))?;
    let narrow = kernels.launched(&stream, (1, 32), x.slice(..2)?, &mut out);
    refused(&lab, narrow, "n: i64 = x.len() * 9223372036854775807", ("x.len()", 2))?;
    let tall = kernels.launched(&stream, ((1, 2), 32), &x, &mut out);
    refused(&lab, tall, "grid.y == 1", ("grid.y", 2))?;
    lab.recorder.take();
    for n in [256 * ((1 << 31) - 1) + 1, u64::MAX] {
        let Err(error) = kernels.any(&stream, n, &mut out) else {
            return Err(Failure::new(format!("a launch over {n} elements")));
        };
        ensure!(matches!(error.kind(), ErrorKind::Limit { what: "grid x", .. }), "{error}");
    }
    ensure_eq!(lab.recorder.names(), [""; 0]);
    drop((kernels, module, out, none, x, stream));
    lab.close()
}

fn instances() -> TestResult {
    let lab = Lab::new()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    // SAFETY: the module is made of the text that the declaration names.
    let (kernels, stream) =
        (unsafe { Instances::<f32>::from_module(&module) }?, lab.context.stream()?);
    // SAFETY: likewise.
    let Err(missing) = (unsafe { Instances::<f64>::from_module(&module) }) else {
        return Err(Failure::new("there is no kernel `none`"));
    };
    ensure!(missing.to_string().contains("no kernel `none`"), "{missing}");
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    let mut bytes = DeviceBuffer::<u8>::zeroed(&stream, 3)?;
    let mut halves = DeviceBuffer::<u16>::zeroed(&stream, 3)?;
    let (calls, ()) = lab.calls(|| {
        kernels.each(&stream, &mut words)?;
        kernels.each(&stream, &mut bytes)
    })?;
    ensure_eq!(calls, ["cuLaunchKernel"; 2]);
    lab.recorder.take();
    let Err(error) = kernels.each(&stream, &mut halves) else {
        return Err(Failure::new("there is no instance for u16"));
    };
    ensure_eq!(error.to_string(), "`each` has instances for u32 and u8, not for u16");
    ensure_eq!(lab.recorder.names(), [""; 0]);
    drop((kernels, module, words, bytes, halves, stream));
    lab.close()
}

fn their_module() -> TestResult {
    let lab = Lab::new()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    // SAFETY: the module is made of the text that the declaration names.
    let kernels = unsafe { Shapes::from_module(&module) }?;
    ensure_eq!(kernels.module().as_raw(), module.as_raw());
    ensure_eq!(kernels.line_kernel().module().as_raw(), module.as_raw());
    drop((kernels, module));
    lab.close()
}

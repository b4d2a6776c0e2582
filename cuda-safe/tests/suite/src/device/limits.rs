//! Launches beyond a limit: refused with the limit's name and value, before the driver is asked.

use cuda_safe::{
    DeviceBuffer, Error, ErrorKind, Kernel, LaunchConfig, Module, Stream, arg::KernelArgs, launch,
};

use test_harness::programs::{BASIC, LIMITS};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "limits",
        device(are_named),
        device(of_a_kernel),
        device(of_static_shared_memory),
        device(a_grid_of_nothing),
        device(a_node_of_nothing),
        device(a_block_of_nothing),
        device(just_within),
    ]
}

/// What a refused launch says: which limit, the value, and the most.
fn refused<A: KernelArgs>(
    kernel: &Kernel,
    stream: &Stream,
    launch: LaunchConfig,
    arguments: A,
) -> Result<(&'static str, u64, u64), Failure> {
    // SAFETY: every caller asks for a launch that can't be made.
    match unsafe { kernel.launch(stream, launch, arguments) } {
        Ok(()) => Err(Failure::new(format!("launched: {launch}"))),
        Err(error) => match error.kind() {
            ErrorKind::Limit { what, value, limit } if error.call().is_none() => {
                let text = error.to_string();
                ensure!(text.contains(what) && text.contains(&value.to_string()), "{text}");
                Ok((what, *value, *limit))
            }
            _ => Err(error.into()),
        },
    }
}

fn are_named(device: &TestDevice) -> TestResult {
    let (stream, nothing) = (device.stream()?, device.kernel(&BASIC, "nothing")?);
    let gpu = device.context().device();
    let threads = u64::from(gpu.max_threads_per_block()?);
    let block_z = u64::from(gpu.max_block_dim_z()?);
    let grid_x = u64::from(gpu.max_grid_dim_x()?);
    let (grid_y, grid_z) = (u64::from(gpu.max_grid_dim_y()?), u64::from(gpu.max_grid_dim_z()?));
    let asked = |launch| refused(&nothing, &stream, launch, ());
    let too_wide = u32::try_from(threads)? + 1;
    ensure_eq!(asked(LaunchConfig::new(1, too_wide))?, ("threads per block", threads + 1, threads));
    ensure_eq!(asked(LaunchConfig::new(1, (64, 17)))?, ("threads per block", 1088, threads));
    let deep = u32::try_from(block_z)? + 1;
    ensure_eq!(asked(LaunchConfig::new(1, (1, 1, deep)))?, ("block z", block_z + 1, block_z));
    ensure_eq!(asked(LaunchConfig::new((1, 65_536), 1))?, ("grid y", 65_536, grid_y));
    ensure_eq!(asked(LaunchConfig::new((1, 1, 65_536), 1))?, ("grid z", 65_536, grid_z));
    ensure_eq!(asked(LaunchConfig::new(u32::MAX, 1))?, ("grid x", u64::from(u32::MAX), grid_x));
    ensure_eq!(asked(LaunchConfig::cover(usize::MAX, 32))?.0, "grid x");
    let (what, value, limit) = asked(LaunchConfig::new(1, 1).dynamic_shared_bytes((48 << 10) + 1))?;
    ensure!(what.contains("shared"), "{what}");
    ensure_eq!((value, limit), ((48 << 10) + 1, 48 << 10));
    ensure_eq!(asked(LaunchConfig::new(1, u32::MAX))?.0, "threads per block");
    ensure_eq!(asked(LaunchConfig::new(1, (1 << 31, 1 << 31, 4)))?.0, "threads per block");
    stream.synchronize()?;
    Ok(())
}

fn of_a_kernel(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 1024)?;
    let narrow = device.kernel(&LIMITS, "narrow")?;
    let (what, value, limit) = refused(&narrow, &stream, LaunchConfig::new(1, 257), (&mut out,))?;
    ensure!(what.contains("kernel"), "{what}");
    ensure_eq!((value, limit), (257, 256));
    // Dynamic shared memory beside static shared memory.
    let statically = device.kernel(&LIMITS, "statically")?;
    let most = statically.attributes()?.max_dynamic_shared;
    let launch = LaunchConfig::new(1, 256).dynamic_shared_bytes(most + 1);
    let (_, value, limit) = refused(&statically, &stream, launch, (&mut out,))?;
    ensure_eq!((value, limit), (u64::from(most) + 1, u64::from(most)));
    ensure_eq!(out.to_vec(&stream)?, [0; 1024], "nothing ran");
    Ok(())
}

/// What the compiler of machine code refuses is refused on the software device, too, which runs PTX.
fn of_static_shared_memory(device: &TestDevice) -> TestResult {
    let compile = |bytes: u32| {
        let text = format!(
            "__global__ void k(char* c) {{ __shared__ char s[{bytes}]; s[c[0]] = c[1]; __syncthreads(); c[2] = s[c[3]]; }}"
        );
        Module::compile(device.context(), &text)?.kernel("k")
    };
    ensure_eq!(compile(48 << 10)?.attributes()?.static_shared, 48 << 10);
    let Err(error) = compile((48 << 10) + 1) else { return Err(Failure::new("compiled")) };
    ensure!(matches!(error.kind(), ErrorKind::Compile(_)), "{error}");
    ensure!(error.to_string().contains("too much shared data"), "{error}");
    Ok(())
}

/// Expects the error of a launch of 0 blocks: kernel, shape and what to write instead.
fn of_no_blocks(refused: cuda_safe::Result<()>, kernel: &str, launch: LaunchConfig) -> TestResult {
    let Err(error) = refused else { return Err(Failure::new(format!("launched: {launch}"))) };
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    ensure!(error.call().is_none(), "the driver was called: {error}");
    let text = error.to_string();
    let grid = launch.grid;
    for part in
        [&*format!("a grid of {grid} has no blocks"), kernel, &launch.to_string(), "`over n`"]
    {
        ensure!(text.contains(part), "no {part}: {text}");
    }
    Ok(())
}

fn a_grid_of_nothing(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let fill = device.kernel(&BASIC, "fill")?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let version = out.allocation().version(0..40);
    for grid in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0)] {
        let shape = LaunchConfig::new(grid, 32);
        for launch in [shape, shape.cooperative(), shape.cluster(2), shape.priority(-1)] {
            // SAFETY: no thread runs.
            let refused = unsafe { fill.launch(&stream, launch, (&mut out, 10_u64, 7_u32)) };
            of_no_blocks(refused, "`fill`", launch)?;
        }
        let (x, y, z) = grid;
        let (x, y, z) = (32 * x, y, z);
        let covers = LaunchConfig::cover_3d([x, y, z], [32, 1, 1]);
        for launch in [covers, covers.cooperative(), covers.cluster(2), covers.priority(-1)] {
            // SAFETY: as above.
            unsafe { fill.launch(&stream, launch, (&mut out, 10_u64, 7_u32)) }?;
        }
    }
    // SAFETY: as above.
    unsafe { fill.launch(&stream, LaunchConfig::cover(0, 32), (&mut out, 10_u64, 7_u32)) }?;
    // SAFETY: as above.
    let refused = unsafe { launch!(fill<<<0, 32, 0, stream>>>(&mut out, 10_u64, 7_u32)) };
    of_no_blocks(refused, "`fill`", LaunchConfig::new(0, 32))?;
    ensure_eq!(out.to_vec(&stream)?, [0; 10]);
    ensure_eq!(out.allocation().version(0..40), version, "nothing was written");
    // But arguments that are wrong are wrong for it, too.
    // SAFETY: as above.
    ensure!(unsafe { fill.launch(&stream, LaunchConfig::cover(0, 32), (&mut out,)) }.is_err());
    Ok(())
}

/// A graph records no launch of 0 blocks, and no node becomes one.
fn a_node_of_nothing(device: &TestDevice) -> TestResult {
    let (stream, fill) = (device.stream()?, device.kernel(&BASIC, "fill")?);
    let out = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let (blocks, none) = (LaunchConfig::new(1, 32), LaunchConfig::new(0, 32));
    let nothing = LaunchConfig::cover(0, 32);
    let mut graph = device.context().capture(out, |s, out| {
        // SAFETY: no thread runs.
        let refused = unsafe { fill.launch(s, none, (&mut *out, 10_u64, 1_u32)) };
        if refused.is_ok() {
            return Err(Error::invalid("a launch without blocks was recorded"));
        }
        // SAFETY: as above.
        unsafe { fill.launch(s, nothing, (&mut *out, 10_u64, 2_u32)) }?;
        // SAFETY: `fill` writes the first 10 elements, which there are.
        unsafe { fill.launch(s, blocks, (&mut *out, 10_u64, 3_u32)) }?;
        s.last_node().map(drop)
    })?;
    let node = graph.nodes().next().ok_or_else(|| Failure::new("no node"))?;
    // SAFETY: no thread runs.
    let refused =
        graph.update(node, |s, out| unsafe { fill.launch(s, none, (out, 10_u64, 4_u32)) });
    of_no_blocks(refused, "`fill`", none)?;
    // A node can't become no launch.
    let refused =
        // SAFETY: as above.
        graph.update(node, |s, out| unsafe { fill.launch(s, nothing, (out, 10_u64, 5_u32)) });
    let text = refused.map_or_else(|error| error.to_string(), |()| "changed".to_owned());
    ensure!(text.contains("no launch was made to change the node to"), "{text}");
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [3; 10]);
    Ok(())
}

fn a_block_of_nothing(device: &TestDevice) -> TestResult {
    let (stream, nothing) = (device.stream()?, device.kernel(&BASIC, "nothing")?);
    for launch in
        [LaunchConfig::new(1, 0), LaunchConfig::new(1, (32, 0)), LaunchConfig::new(0, (1, 1, 0))]
    {
        // SAFETY: no thread runs.
        let refused = unsafe { nothing.launch(&stream, launch, ()) };
        let kind = refused.as_ref().map_err(Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{launch}: {refused:?}");
    }
    Ok(())
}

/// The largest that is allowed is done, too.
fn just_within(device: &TestDevice) -> TestResult {
    let (stream, nothing) = (device.stream()?, device.kernel(&BASIC, "nothing")?);
    let gpu = device.context().device();
    let most = gpu.max_threads_per_block()?;
    for launch in [
        LaunchConfig::new(1, most),
        LaunchConfig::new((1, gpu.max_grid_dim_y()?), 1),
        LaunchConfig::new((1, 1, gpu.max_grid_dim_z()?), 1),
        LaunchConfig::new(1, (1, 1, gpu.max_block_dim_z()?)),
        LaunchConfig::new(1, 1).dynamic_shared_bytes(48 << 10),
    ] {
        // SAFETY: `nothing` takes no arguments and does nothing.
        unsafe { device.launch(&nothing, &stream, launch, ()) }?;
    }
    stream.synchronize()?;
    Ok(())
}

//! The CUDA C++ spelling of a launch.

/// Launches a kernel, spelled as in CUDA C++:
/// `launch!(kernel<<<grid, block, shared, stream>>>(a, &x, &y, &mut out, n))`.
///
/// It is [`Kernel::launch`](crate::Kernel::launch) in other words, hides no `unsafe`, and so needs
/// an `unsafe` block around it. Kernel and stream are variables or expressions in parentheses.
///
/// ```no_run
/// # use cuda_safe::{launch, Context, DeviceBuffer, Module, Result};
/// # fn run() -> Result<()> {
/// # let context = Context::new(0)?;
/// # let module = Module::compile(&context, "")?;
/// let stream = context.stream()?;
/// let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1024)?;
/// let fill = module.kernel("fill")?;
/// // SAFETY: `fill` takes (float*, unsigned) and writes that many elements.
/// unsafe { launch!(fill<<<8, 128, 0, stream>>>(&mut out, 1024u32)) }?;
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! launch {
    ($kernel:tt <<< $grid:expr, $block:expr, $shared:expr, $stream:tt >>> ($($argument:expr),* $(,)?)) => {
        $crate::Kernel::launch(
            &$kernel,
            &$stream,
            $crate::LaunchConfig::new($grid, $block).dynamic_shared_bytes($shared),
            ($($argument,)*),
        )
    };
    ($kernel:tt <<< $($rest:tt)*) => {
        ::core::compile_error!(
            "expected `<<<grid, block, shared, stream>>>(arguments)`: all four, and the stream a \
             variable or in parentheses"
        )
    };
    ($($rest:tt)*) => {
        ::core::compile_error!(
            "expected `kernel<<<grid, block, shared, stream>>>(arguments)`: put the kernel in a \
             variable or in parentheses"
        )
    };
}

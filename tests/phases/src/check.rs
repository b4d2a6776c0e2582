//! Runs a kernel on the CPU and on the software device, and compares the bits.

/// Launches a kernel on both targets with the same arguments. Returns the first output.
///
/// `both!(kernel(value a, read x, write out, shared bins))`: names of slices, and of `Vec`s to write.
#[macro_export]
macro_rules! both {
    ($kernel:ident($($kind:ident $arg:expr),*)) => {{
        let _alone = $crate::alone();
        let stream = $crate::stream();
        $crate::both!(@run stream $kernel [] [] [] $($kind $arg,)*)
    }};
    (@run $stream:ident $kernel:ident [$($cpu:expr,)*] [$($gpu:expr,)*] [$($out:ident $dev:ident,)*] value $arg:expr, $($rest:tt)*) => {
        $crate::both!(@run $stream $kernel [$($cpu,)* $arg,] [$($gpu,)* $arg,] [$($out $dev,)*] $($rest)*)
    };
    (@run $stream:ident $kernel:ident [$($cpu:expr,)*] [$($gpu:expr,)*] [$($out:ident $dev:ident,)*] read $arg:expr, $($rest:tt)*) => {{
        let host = &$arg;
        let device = cuda_safe::DeviceBuffer::from_slice(&$stream, &host[..]).unwrap();
        $crate::both!(@run $stream $kernel [$($cpu,)* &host[..],] [$($gpu,)* &device,] [$($out $dev,)*] $($rest)*)
    }};
    (@run $stream:ident $kernel:ident [$($cpu:expr,)*] [$($gpu:expr,)*] [$($out:ident $dev:ident,)*] write $arg:expr, $($rest:tt)*) => {{
        let mut out = $arg.clone();
        let mut dev = cuda_safe::DeviceBuffer::from_slice(&$stream, &out[..]).unwrap();
        $crate::both!(@run $stream $kernel [$($cpu,)* &mut out[..],] [$($gpu,)* &mut dev,] [$($out $dev,)* out dev,] $($rest)*)
    }};
    (@run $stream:ident $kernel:ident [$($cpu:expr,)*] [$($gpu:expr,)*] [$($out:ident $dev:ident,)*] shared $arg:expr, $($rest:tt)*) => {{
        let mut out = $arg.clone();
        let mut dev = cuda_safe::DeviceBuffer::from_slice(&$stream, &out[..]).unwrap();
        $crate::both!(@run $stream $kernel [$($cpu,)* gpu_phases::Atomic::from_mut(&mut out[..]),] [$($gpu,)* &mut dev,] [$($out $dev,)* out dev,] $($rest)*)
    }};
    (@run $stream:ident $kernel:ident [$($cpu:expr,)*] [$($gpu:expr,)*] [$($out:ident $dev:ident,)*]) => {{
        let cpu = $kernel::cpu($($cpu),*);
        let launched = $kernel::launch(&$stream, $($gpu),*);
        if let Err(error) = &launched {
            panic!("{error}");
        }
        let waited = $stream.synchronize();
        match (cpu, waited) {
            (Ok(()), Ok(())) => {
                $(
                    let got = $dev.to_vec(&$stream).unwrap();
                    $crate::check::same(stringify!($kernel), &$out, &got);
                )*
                Ok(($($out),*))
            }
            (Err(cpu), waited) => {
                let fault = $stream.context().take_fault();
                Err((cpu, fault, waited.is_err()))
            }
            (Ok(()), Err(error)) => panic!("only the device fails: {error}"),
        }
    }};
}

/// Compares bits.
pub(crate) fn same<T: gpu_phases::device::Device + std::fmt::Debug + bytemuck::NoUninit>(
    name: &str,
    cpu: &[T],
    device: &[T],
) {
    assert_eq!(cpu.len(), device.len());
    for (at, (a, b)) in cpu.iter().zip(device).enumerate() {
        // NaNs may have different payloads.
        let nan = format!("{a:?}") == "NaN" && format!("{b:?}") == "NaN";
        assert!(
            nan || bytemuck::bytes_of(a) == bytemuck::bytes_of(b),
            "{name}: element {at}: cpu {a:?}, device {b:?}"
        );
    }
}

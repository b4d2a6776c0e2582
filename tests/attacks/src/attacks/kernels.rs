//! Attacks on kernels and modules.

pub(super) mod declarations;
pub(super) mod limits;
pub(super) mod modules;
pub(super) mod ported;
pub(super) mod traits;

use cuda_safe::{DeviceBuffer, Dim3, LaunchConfig, Module, PackedPtx, kernels};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i if i < n.
    unsafe in r#"
        extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v;
        }
    "# {
        safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
    }
}

/// Launches a safe kernel with more elements than there are, and in two dimensions.
///
/// - row: launching foreign code is unsafe
/// - targets: `LaunchConfig::cover`, `DeviceBuffer::zeroed`
fn clauses_that_do_not_hold(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    for n in [101, 1 << 31, u32::MAX] {
        lab.refused(
            kernels.fill(&stream, LaunchConfig::cover(100, 32), 1, &mut x, n),
            "n <= x.len()",
        )?;
    }
    for shape in [Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 1, y: 1, z: 2 }] {
        let launched = kernels.fill(&stream, LaunchConfig::new(shape, 32), 1, &mut x, 100);
        ensure!(launched.is_err(), "a launch in {shape:?}");
        let launched = kernels.fill(&stream, LaunchConfig::new(1, shape), 1, &mut x, 100);
        ensure!(launched.is_err(), "blocks of {shape:?}");
    }
    ensure_eq!(x.to_vec(&stream)?, [0; 100]);
    Ok(())
}

/// Launches with more threads, blocks or shared memory than the device has.
///
/// - row: a launch is within the limits
/// - targets: `LaunchConfig::new`, `LaunchConfig::dynamic_shared_bytes`
fn launches_beyond_limits(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let launches = [
        LaunchConfig::new(1, 1025),
        LaunchConfig::new(1, 0),
        LaunchConfig::new(u32::MAX, 32),
        LaunchConfig::new(1, 32).dynamic_shared_bytes(u32::MAX),
        LaunchConfig::new(1, 32).dynamic_shared_bytes(1 << 20),
    ];
    for launch in launches {
        let shown = format!("{launch:?}");
        match kernels.fill(&stream, launch, 1, &mut x, 100) {
            Ok(()) => return Err(Failure::new(format!("launched: {shown}"))),
            Err(error) => ensure!(!error.to_string().contains("CUDA_ERROR"), "{shown}: {error}"),
        }
    }
    ensure_eq!(x.to_vec(&stream)?, [0; 100]);
    Ok(())
}

/// Loads kernels from a module that has another kernel of the name.
///
/// - row: arguments have the number, sizes, classes
/// - targets: `Module::compile`, `Module::kernel`
fn kernels_that_are_not_there(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let module = Module::compile(&context, r#"extern "C" __global__ void f(int* x) { *x = 1; }"#)?;
    lab.refused(module.kernel("no_such_kernel"), "no_such_kernel")?;
    lab.refused(module.kernel("f\0no_such_kernel").map(drop), "no_such_kernel")
}

/// Drops a module and everything of it while its kernel is under way, and collects.
///
/// - row: code stays loaded while it may run
/// - targets: `Context::free_deferred`, `Module::compile`
fn module_dropped_in_flight(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    for round in 1..10 {
        let kernels = Kernels::load(&context)?;
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, 1 << 14)?;
        kernels.fill(&stream, LaunchConfig::cover(1 << 14, 128), round, &mut x, 1 << 14)?;
        drop(kernels);
        context.free_deferred()?;
        drop(Module::compile(&context, r#"extern "C" __global__ void g(int* x) { *x = 2; }"#)?);
        ensure!(x.to_vec(&stream)?.iter().all(|x| *x == round), "round {round}");
    }
    Ok(())
}

/// Loads images that are cut short or are none.
///
/// - row: bytes that are not an image
/// - targets: `Module::from_cubin`, `Module::from_fatbin`, `Module::from_ptx`, `Module::from_packed_ptx`
fn images_that_are_cut_short(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let mut head = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    head.resize(64, 0xff);
    let fatbin = [0x50, 0xed, 0x55, 0xba, 0xff, 0xff, 0xff, 0xff];
    for (bytes, text) in [
        (&[][..], "the image is empty"),
        (&head[..5], "truncated cubin: the ELF header reaches to byte 64 of 5"),
        (&head[..], "an ELF file, but no cubin: it is for machine 65535"),
        (&fatbin, "truncated fatbin: the header reaches to byte 16 of 8"),
        (&[0; 4096], "neither a cubin (ELF), a fatbin, nor PTX"),
    ] {
        lab.refused(Module::from_cubin(&context, bytes), text)?;
        lab.refused(Module::from_fatbin(&context, bytes), text)?;
    }
    ensure!(Module::from_ptx(&context, ".version 8.0\n.target sm_75\n\0.address_size 64").is_err());
    // The head of a gzip file, whose end states a text of 4 GiB.
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    packed.resize(1000, 0xff);
    for (length, text) in [
        (0, "do not start as a gzip file"),
        (11, "cut short after 11 bytes"),
        (1000, "state a text of 4294967295 bytes"),
    ] {
        let module =
            Module::from_packed_ptx(&context, PackedPtx::new("hostile", &packed[..length]));
        lab.refused(module, text)?;
    }
    Ok(())
}

attacks![
    "kernels",
    right(clauses_that_do_not_hold),
    right(launches_beyond_limits),
    refused(kernels_that_are_not_there),
    right(module_dropped_in_flight),
    right(images_that_are_cut_short),
];

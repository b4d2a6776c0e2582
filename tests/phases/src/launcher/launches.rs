//! Launches on streams.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Instant;

use cuda_safe::{Context, DeviceBuffer, Driver, ErrorKind, Stream, UnifiedBuffer};
use gpu_phases::kernel::{Kernel, Param, ParamKind};
use gpu_phases::text::Text;
use gpu_phases::trust::Trusted;

use crate::by_hand::{
    self, Byte, Float, Large, Word, count, length, pick, places, saxpy, saxpy_of,
};
use crate::turn;

type TestResult = cuda_safe::Result<()>;

fn floats(len: usize) -> Vec<Float> {
    (0..len).map(|i| Float((i % 1000) as f32)).collect()
}

#[test]
fn saxpy_of_every_ragged_length() -> TestResult {
    let turn = turn();
    let stream = turn.context.stream()?;
    for len in [1, 31, 32, 255, 256, 257, 10_007] {
        let x = floats(len);
        let on_device = DeviceBuffer::from_slice(&stream, &x)?;
        let mut out = DeviceBuffer::from_slice(&stream, &vec![Float(0.5); len])?;
        saxpy(&stream, 2.0, &on_device, &mut out)?;
        let expected: Vec<_> = x.iter().map(|x| Float(2.0f32.mul_add(x.0, 0.5))).collect();
        assert_eq!(out.to_vec(&stream)?, expected, "{len}");
    }
    Ok(())
}

#[test]
fn slices_and_unified_memory_are_arguments() -> TestResult {
    let turn = turn();
    let (stream, other) = (turn.context.stream()?, turn.context.stream()?);
    let x = DeviceBuffer::from_slice(&stream, &floats(100))?;
    let mut out = UnifiedBuffer::<Float>::pinned(&stream, 50)?;
    saxpy(&stream, 3.0, x.slice(10..60)?, &mut out)?;
    // Ordered behind the first one.
    saxpy(&other, 1.0, &x.slice(0..50)?, &mut out)?;
    let expected: Vec<_> = (0..50).map(|i| Float(3.0 * (i + 10) as f32 + i as f32)).collect();
    assert_eq!(&out.host()?[..], &expected[..]);
    let mut whole = DeviceBuffer::<Float>::zeroed(&stream, 100)?;
    let (mut left, mut right) = whole.split_at_mut(50)?;
    saxpy(&stream, 1.0, x.slice(0..50)?, &mut left)?;
    saxpy(&other, 2.0, x.slice(50..100)?, &mut right)?;
    let expected: Vec<_> =
        (0..100).map(|i| Float((i * if i < 50 { 1 } else { 2 }) as f32)).collect();
    assert_eq!(whole.to_vec(&stream)?, expected);
    Ok(())
}

#[test]
fn extents_of_two_and_three_dimensions() -> TestResult {
    let turn = turn();
    let stream = turn.context.stream()?;
    for (size, dimensions) in
        [([1, 1, 1], 1), ([33, 9, 1], 2), ([300, 1, 1], 2), ([31, 20, 3], 3), ([64, 8, 5], 3)]
    {
        let [w, h, d] = size.map(|size: u64| size as u32);
        let mut out = DeviceBuffer::<Word>::zeroed(&stream, (w * h * d) as usize)?;
        places(&stream, size, dimensions, &mut out)?;
        let expected: Vec<_> = (0..w * h * d)
            .map(|i| Word(i % w + 1000 * (i / w % h) + 1_000_000 * (i / w / h)))
            .collect();
        // The kernel fails at one place of a large enough box.
        match w > 33 && h > 9 && d > 2 {
            true => assert!(turn.context.synchronize().is_err()),
            false => assert_eq!(out.to_vec(&stream)?, expected, "{size:?}"),
        }
    }
    Ok(())
}

#[test]
fn shared_elements_and_large_values() -> TestResult {
    let turn = turn();
    let stream = turn.context.stream()?;
    let data: Vec<_> = (0..3000).map(Word).collect();
    let data = DeviceBuffer::from_slice(&stream, &data)?;
    let mut bins = DeviceBuffer::<Word>::zeroed(&stream, 7)?;
    count(&stream, &data, &mut bins)?;
    let expected: Vec<_> = (0..7u32).map(|bin| Word((3000 - bin).div_ceil(7))).collect();
    assert_eq!(bins.to_vec(&stream)?, expected);

    let mut table = Large([0.0; 500]);
    table.0.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 700)?;
    pick(&stream, table, &mut out)?;
    let expected: Vec<_> = (0..700).map(|i| Float((i % 500) as f32)).collect();
    assert_eq!(out.to_vec(&stream)?, expected);
    Ok(())
}

#[test]
fn launches_are_recorded() -> TestResult {
    let turn = turn();
    let stream = turn.context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &floats(600))?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 600)?;
    let mut graph = turn.context.capture(&mut out, |stream, out| {
        saxpy(stream, 1.0, &x, &mut **out)?;
        saxpy(stream, 2.0, &x, &mut **out)
    })?;
    for _ in 0..2 {
        graph.launch(&stream)?;
    }
    drop(graph);
    let expected: Vec<_> = floats(600).iter().map(|x| Float(6.0 * x.0)).collect();
    assert_eq!(out.to_vec(&stream)?, expected);
    Ok(())
}

#[test]
fn a_first_launch_is_recorded() -> TestResult {
    static FRESH: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
    let (write, params) = (by_hand::SAXPY.write, by_hand::SAXPY.params);
    let kernel = FRESH.get_or_init(|| changed("fresh", write, params));
    let turn = turn();
    let stream = turn.context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &floats(50))?;
    let out = DeviceBuffer::<Float>::zeroed(&stream, 50)?;
    let record =
        |stream: &Stream, out: &mut DeviceBuffer<Float>| saxpy_of(kernel, stream, 4.0, &x, out);
    let mut graph = turn.context.capture(out, record)?;
    graph.launch(&stream)?;
    assert_eq!(graph.state().to_vec(&stream)?[49], Float(196.0));
    Ok(())
}

#[test]
fn threads_launch_for_the_first_time_at_once() -> TestResult {
    let turn = turn();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let context = &turn.context;
            scope.spawn(move || {
                let stream = context.stream().expect("a stream");
                let x = DeviceBuffer::from_slice(&stream, &floats(300)).expect("memory");
                for kernel in (0..20).map(|index| copy_of_saxpy((thread + index) % 20)) {
                    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 300).expect("memory");
                    saxpy_of(kernel, &stream, 1.0, &x, &mut out).expect("a launch");
                    assert_eq!(out.to_vec(&stream).expect("a download"), floats(300));
                }
            });
        }
    });
    Ok(())
}

/// Twenty kernels with equal texts but for their numbers.
fn copy_of_saxpy(index: usize) -> &'static Kernel {
    static COPIES: std::sync::OnceLock<Vec<&'static Kernel>> = std::sync::OnceLock::new();
    let make = || {
        (0..20).map(|index| {
            let name = Box::leak(format!("saxpy{index}").into_boxed_str());
            &*Box::leak(Box::new(changed(name, by_hand::SAXPY.write, by_hand::SAXPY.params)))
        })
    };
    COPIES.get_or_init(|| make().collect())[index]
}

/// A kernel like saxpy with another text or other parameters.
pub(crate) fn changed(
    name: &'static str,
    write: fn(&mut Text),
    params: &'static [Param],
) -> Kernel {
    Kernel {
        name,
        module: module_path!(),
        file: by_hand::SAXPY.file,
        line: 5,
        params,
        instance: String::new,
        write,
        overflow_checks: || false,
        carries: 0,
        cpu: by_hand::SAXPY.cpu,
        pack: None,
        // SAFETY: the tests pass texts that stay inside the arguments of saxpy, or do not compile.
        trusted: unsafe { Trusted::new() },
    }
}

#[test]
fn lengths_of_64_bits_are_another_instance() -> TestResult {
    let turn = turn();
    let stream = turn.context.stream()?;
    let mut out = DeviceBuffer::<Word>::zeroed(&stream, 1)?;
    let short = DeviceBuffer::<Byte>::zeroed(&stream, 5)?;
    length(&stream, &short, &mut out)?;
    assert_eq!(out.to_vec(&stream)?, [Word(4000)]);
    let Ok(long) = DeviceBuffer::<MaybeUninit<Byte>>::uninit(&stream, (3 << 32) + 5) else {
        return Ok(());
    };
    // SAFETY: the kernel reads no element.
    let long = unsafe { long.assume_init() };
    length(&stream, &long, &mut out)?;
    assert_eq!(out.to_vec(&stream)?, [Word(8003)]);
    length(&stream, &short, &mut out)?;
    assert_eq!(out.to_vec(&stream)?, [Word(4000)]);
    Ok(())
}

#[test]
fn a_text_that_does_not_compile_is_a_bug_of_the_translator() -> TestResult {
    static WRONG: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
    let write = |text: &mut Text| text.push("#line 7 \"src/user.rs\"\nint x = nothing;\n");
    let kernel = WRONG.get_or_init(|| changed("wrong", write, by_hand::SAXPY.params));
    let turn = turn();
    let stream = turn.context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &floats(3))?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 3)?;
    let error = saxpy_of(kernel, &stream, 1.0, &x, &mut out).expect_err("no such variable");
    assert!(matches!(error.kind(), ErrorKind::Compile(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("bug of gpu-phases") && text.contains("`wrong`"), "{text}");
    assert!(text.contains("the line src/user.rs:7"), "{text}");
    Ok(())
}

#[test]
fn parameters_that_differ_from_the_description_are_refused() -> TestResult {
    static OTHER: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
    const PARAMS: &[Param] = &[
        Param::new::<Large>("a", ParamKind::Value),
        Param::new::<Float>("x", ParamKind::Read),
        Param::new::<Float>("out", ParamKind::Write),
    ];
    let kernel = OTHER.get_or_init(|| changed("other", by_hand::SAXPY.write, PARAMS));
    let turn = turn();
    let stream = turn.context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &floats(3))?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 3)?;
    let error = saxpy_of(kernel, &stream, 1.0, &x, &mut out).expect_err("another parameter");
    assert!(error.to_string().contains("`other` has parameters of"), "{error}");
    Ok(())
}

#[test]
fn a_context_is_closed_with_its_kernels() -> TestResult {
    let turn = turn();
    let driver = turn.context.driver();
    // The software device has one, which the other tests use; so the errors are those of a context in use.
    let error = turn.context.clone().close().expect_err("there is another handle");
    let text = error.to_string();
    assert!(!text.contains("module") && !text.contains("kernel"), "{text}");
    // A context of other code goes with its last handle, although kernels were loaded in it.
    let token = Arc::new(());
    {
        // SAFETY: the primary context stays: it is never closed here.
        let context = unsafe { Context::from_raw(driver, turn.context.as_raw(), token.clone()) }?;
        let stream = context.stream()?;
        let x = DeviceBuffer::from_slice(&stream, &floats(40))?;
        let mut out = DeviceBuffer::<Float>::zeroed(&stream, 40)?;
        saxpy(&stream, 1.0, &x, &mut out)?;
        saxpy(&stream, 1.0, &x, &mut out)?;
        assert_eq!(out.to_vec(&stream)?[39], Float(78.0));
        assert_eq!(Arc::strong_count(&token), 2);
    }
    assert_eq!(Arc::strong_count(&token), 1, "nothing keeps the context");
    Ok(())
}

/// A context of the driver that does nothing.
fn noop() -> cuda_safe::Result<Context> {
    Driver::from_sys(cuda_sys::noop::driver())?.device(0)?.context()
}

#[test]
fn a_launch_is_one_call_of_the_driver_and_no_allocation() -> TestResult {
    let _turn = turn();
    let context = noop()?;
    let stream = context.stream()?;
    let x = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    saxpy(&stream, 2.0, &x, &mut out)?;
    cuda_sys::noop::reset();
    let before = test_support::meter::allocations();
    saxpy(&stream, 2.0, &x, &mut out)?;
    let after = test_support::meter::allocations();
    assert_eq!((cuda_sys::noop::total_calls(), after - before), (1, 0));
    drop((x, out, stream));
    context.close().map_err(|refused| refused.into_parts().1)?;
    // The first launch in a new context loads the kernel again.
    let context = noop()?;
    let stream = context.stream()?;
    let x = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    saxpy(&stream, 2.0, &x, &mut out)?;
    Ok(())
}

/// Crates that name the description of a generic kernel may have a copy of it each.
#[test]
fn descriptions_of_one_kernel_share_what_is_loaded() -> TestResult {
    let _turn = turn();
    let (write, params) = (by_hand::SAXPY.write, by_hand::SAXPY.params);
    let leaked = |name| &*Box::leak(Box::new(changed(name, write, params)));
    let context = noop()?;
    let stream = context.stream()?;
    let x = DeviceBuffer::<Float>::zeroed(&stream, 8)?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 8)?;
    let mut calls = |kernel| {
        cuda_sys::noop::reset();
        saxpy_of(kernel, &stream, 2.0, &x, &mut out)?;
        Ok::<_, cuda_safe::Error>(cuda_sys::noop::total_calls())
    };
    assert!(calls(leaked("copied"))? > 1, "it is loaded");
    assert_eq!(calls(leaked("copied"))?, 1);
    assert_eq!(calls(leaked("copied"))?, 1);
    assert!(calls(leaked("another"))? > 1, "it is loaded");
    // A description with other parameters does not get the kernel.
    let other = changed("copied", write, &params[..1]);
    assert!(calls(Box::leak(Box::new(other))).is_err());
    drop((x, out, stream));
    context.close().map_err(|refused| refused.into_parts().1)
}

/// Two functions may have kernels of one name, which a macro writes on one line.
#[test]
fn kernels_with_equal_names_are_loaded_each() -> TestResult {
    let twice = |text: &mut Text| {
        let mut written = Text::new(text.kernel_number());
        (by_hand::SAXPY.write)(&mut written);
        let (_, definitions) = written.finish().rsplit_once("namespace phases {\n").map_or_else(
            || panic!("no namespace"),
            |(head, tail)| (head.to_owned(), tail.to_owned()),
        );
        let definitions = definitions.replace("a * x[i]", "2 * a * x[i]");
        text.push(definitions.trim_end().trim_end_matches("} // namespace phases"));
    };
    let turn = turn();
    let stream = turn.context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &floats(50))?;
    for (write, expected) in [(by_hand::SAXPY.write, 196.0), (twice, 392.0)] {
        let kernel = Box::leak(Box::new(changed("namesake", write, by_hand::SAXPY.params)));
        let mut out = DeviceBuffer::<Float>::zeroed(&stream, 50)?;
        saxpy_of(kernel, &stream, 4.0, &x, &mut out)?;
        assert_eq!(out.to_vec(&stream)?[49], Float(expected));
    }
    Ok(())
}

/// Prints what a launch costs the host, on the driver that does nothing.
#[test]
#[ignore = "a measurement: cargo test --release -p phases-tests cost -- --ignored --nocapture"]
fn cost_of_a_launch() -> TestResult {
    let _turn = turn();
    let context = noop()?;
    let stream = context.stream()?;
    let x = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    let y = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 1024)?;
    let x32 = DeviceBuffer::<f32>::zeroed(&stream, 1024)?;
    let y32 = DeviceBuffer::<f32>::zeroed(&stream, 1024)?;
    let mut out32 = DeviceBuffer::<f32>::zeroed(&stream, 1024)?;
    let kernels = twin::Twin::load(&context)?;
    by_hand::saxpy3(&stream, 2.0, &x, &y, &mut out)?;
    kernels.saxpy3(&stream, 2.0, &x32, &y32, &mut out32)?;
    const CALLS: u32 = 100_000;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..30 {
        let start = Instant::now();
        for _ in 0..CALLS {
            by_hand::saxpy3(&stream, 2.0, &x, &y, &mut out)?;
        }
        times[0].push(start.elapsed() / CALLS);
        let start = Instant::now();
        for _ in 0..CALLS {
            kernels.saxpy3(&stream, 2.0, &x32, &y32, &mut out32)?;
        }
        times[1].push(start.elapsed() / CALLS);
    }
    for (name, mut times) in ["Rust kernel", "kernels!"].into_iter().zip(times) {
        times.sort();
        println!("{name}: {:?} (least {:?})", times[times.len() / 2], times[0]);
    }
    Ok(())
}

mod twin {
    cuda_safe::kernels! {
        pub(super) struct Twin;
        // SAFETY: thread i touches element i alone, of arrays of n elements.
        unsafe in r#"
            __global__ void saxpy3(float a, const float* x, const float* y, float* out, size_t n) {
                size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
                if (i < n) out[i] = a * x[i] + y[i];
            }
        "# {
            pub(super) safe fn saxpy3(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = out.len()) over n
                where x.len() == n, y.len() == n;
        }
    }
}

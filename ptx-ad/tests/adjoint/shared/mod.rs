//! Kernels whose threads exchange values: against tangents, and against the same function on the host.

mod host;
mod random;

use ptx_ad::{Adjoint, differentiate, parse};

use crate::common::{
    Arg, Compared, Device, Failure, Shape, doubles, floats, read, shape, spec, word,
};
use host::{Dual, Function};

const TEXTS: [(&str, &str); 2] =
    [("float", include_str!("f32.ptx")), ("double", include_str!("f64.ptx"))];

/// A kernel: its name, the sizes of its buffers, of which the last is the output, its integers, and its launch.
struct Kernel {
    name: &'static str,
    sizes: &'static [usize],
    integers: &'static [u32],
    shape: Shape,
    host: Option<Function>,
    /// Whether a number that is passed by value comes first.
    scalar: bool,
}

fn kernel(
    name: &'static str,
    sizes: &'static [usize],
    integers: &'static [u32],
    shape: Shape,
    host: impl Into<Option<Function>>,
) -> Kernel {
    Kernel { name, sizes, integers, shape, host: host.into(), scalar: false }
}

fn kernels() -> Vec<Kernel> {
    let plane = Shape { grid: [2, 2, 1], block: [16, 16, 1] };
    let lone = |name, sizes, integers, shape| kernel(name, sizes, integers, shape, None);
    let number = |kernel| Kernel { scalar: true, ..kernel };
    vec![
        kernel("tree", &[150, 3], &[150], shape(3, 64), host::tree as Function),
        kernel("rolled_tree", &[150, 3], &[150], shape(3, 64), host::rolled_tree as Function),
        kernel("scan", &[150, 150], &[150], shape(3, 64), host::scan as Function),
        kernel(
            "product",
            &[18 * 37, 37 * 21, 18 * 21],
            &[18, 21, 37],
            plane,
            host::product as Function,
        ),
        kernel("softmax", &[3 * 77, 3 * 77], &[77], shape(3, 32), host::softmax as Function),
        kernel(
            "layer_norm",
            &[5 * 45, 45, 5 * 45],
            &[5, 45],
            shape(2, 96),
            host::layer_norm as Function,
        ),
        kernel("heat", &[90, 90], &[90, 5], shape(3, 32), host::heat as Function),
        kernel("convolution", &[90, 7, 90], &[90], shape(3, 32), host::convolution as Function),
        kernel("block_sum", &[150, 3], &[150], shape(3, 64), host::block_sum as Function),
        kernel("broadcast", &[110, 110], &[110], shape(2, 64), host::broadcast as Function),
        kernel("up", &[110, 110], &[110], shape(2, 64), host::up as Function),
        kernel("down", &[110, 110], &[110], shape(2, 64), host::down as Function),
        kernel("index", &[110, 110], &[110], shape(2, 64), host::index as Function),
        kernel("leaves", &[150, 150], &[150], shape(3, 64), host::leaves as Function),
        lone("turned", &[150, 150], &[150], shape(3, 64)),
        lone("vectors", &[150, 150], &[150], shape(3, 64)),
        lone("bfly", &[110, 110], &[110], shape(2, 64)),
        lone("masks", &[110, 110], &[110], shape(2, 64)),
        lone("first_warp", &[110, 110], &[110], shape(2, 64)),
        lone("uneven", &[110, 110], &[110], shape(2, 64)),
        lone("in_loop", &[110, 110], &[110], shape(2, 64)),
        number(lone("leaves_loop", &[250, 192], &[250], shape(3, 64))),
        number(lone("atomics", &[150, 150], &[150], shape(3, 64))),
        lone("warps", &[150, 150], &[150], shape(3, 64)),
        lone("device", &[64, 64], &[64], shape(1, 64)),
    ]
}

/// Returns values between 0.5 and 1.3.
fn values(count: usize) -> Vec<f64> {
    (0..count).map(|at| 0.5 + (at * 37 % 101) as f64 / 128.0).collect()
}

fn arguments(kernel: &Kernel, real: &str) -> Vec<Arg> {
    let single = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect::<Vec<_>>();
    let buffer = |&count: &usize| match real {
        "float" => floats(&single(values(count))),
        _ => doubles(&values(count)),
    };
    let scalar = kernel.scalar.then(|| match real {
        "float" => crate::common::scalar(0.75),
        _ => Arg::Value {
            bytes: 0.75f64.to_le_bytes().to_vec(),
            reals: vec![(0, ptx_ad::Real::F64)],
            active: true,
        },
    });
    let buffers = kernel.sizes.iter().map(buffer);
    scalar.into_iter().chain(buffers).chain(kernel.integers.iter().map(|&n| word(n))).collect()
}

fn compare(device: &Device, kernel: &Kernel, real: &str, text: &str) -> (Compared, Adjoint) {
    let args = arguments(kernel, real);
    match device.compare(text, kernel.name, &args, kernel.shape, 1) {
        Ok(found) => found,
        Err(Failure::Refused(refused)) => panic!("{refused}"),
        Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{}: {why}", kernel.name),
    }
}

#[test]
fn gradients() {
    for kernel in kernels() {
        for (real, text) in TEXTS {
            let (most, near) = if real == "float" { (2e-6, 1e-4) } else { (1e-13, 1e-11) };
            // With room for all iterations, for none, and for some; with masks.
            for (scratch, masks) in [(1 << 22, false), (0, true), (600, false)] {
                let mut device = Device::new();
                (device.scratch, device.masks, device.logs) = (scratch, masks, masks);
                let (compared, adjoint) = compare(&device, &kernel, real, text);
                let what = format!("{} of {real}, {scratch} bytes", kernel.name);
                assert!(compared.error <= most, "{what}: {:e}\n{}", compared.error, adjoint.text);
                assert!(compared.magnitude > 0.1, "{what}: nothing was compared");
                if let Some(host) = kernel.host.filter(|_| !masks) {
                    let off = off_host(&kernel, host, real, &compared);
                    assert!(off <= near, "{what}: {off:e} from the host\n{}", adjoint.text);
                }
            }
        }
    }
}

/// Returns how far the gradient is from that of a function on the host, relative to the greatest entry.
fn off_host(kernel: &Kernel, host: Function, real: &str, compared: &Compared) -> f64 {
    let Some((&outputs, inputs)) = kernel.sizes.split_last() else { return f64::INFINITY };
    let mut x: Vec<Vec<Dual>> = Vec::new();
    for (arg, &count) in arguments(kernel, real).iter().zip(inputs) {
        let Arg::Buffer { bytes, .. } = arg else { return f64::INFINITY };
        let of = if real == "float" { ptx_ad::Real::F32 } else { ptx_ad::Real::F64 };
        let numbers = (0..count).map(|i| Dual(read(bytes, i * of.bytes() as usize, of), 0.0));
        x.push(numbers.collect());
    }
    let weights = &compared.weights[inputs.len()];
    let (mut off, mut size) = (0.0f64, 0.0f64);
    for (buffer, &count) in inputs.iter().enumerate() {
        for at in 0..count {
            x[buffer][at].1 = 1.0;
            let out = host(&x, kernel.integers, outputs);
            x[buffer][at].1 = 0.0;
            let wanted: f64 = out.iter().zip(weights).map(|(y, weight)| y.1 * weight).sum();
            // It is added to what was there.
            let got = compared.gradient[buffer][at] - compared.weights[buffer][at];
            off = off.max((got - wanted).abs());
            size = size.max(wanted.abs());
        }
    }
    off / size
}

/// Neither the kernels nor their adjoints have races.
#[test]
fn races() {
    let mut device = Device::new();
    device.info.checks.race = true;
    device.scratch = 1 << 22;
    for kernel in kernels() {
        for (real, text) in TEXTS {
            compare(&device, &kernel, real, text);
        }
    }
    for found in cuda_emu::findings() {
        let name = &found.access.kernel;
        let name = name.strip_suffix("_adjoint").unwrap_or(name);
        let ours = kernels().iter().any(|kernel| kernel.name == name);
        assert!(!ours, "{found}");
    }
}

/// What is left out, and what is not.
#[test]
fn texts_of_adjoints() {
    let made = |name: &str| {
        let kernel = kernels().into_iter().find(|kernel| kernel.name == name).expect(name);
        let module = parse(TEXTS[0].1).expect("valid");
        differentiate(&module, &spec(name, &arguments(&kernel, "float"))).expect(name)
    };
    let count = |text: &str, part: &str| text.matches(part).count();
    // The copy of the kernel needs no barrier where only gradients are exchanged.
    // After what clears gradients, and in the reverse.
    assert_eq!(count(&made("turned").text, "bar.sync"), 2);
    // Additions to shared memory have no fixed order.
    let tree = made("tree");
    assert!(tree.shares && tree.deterministic.is_none(), "{}", tree.text);
    assert!(made("layer_norm").deterministic.is_some());
    // Threads that leave wait for the others.
    assert!(count(&made("leaves").text, "barrier.sync") > 6);
    assert_eq!(count(&tree.text, "barrier."), 0);
}

/// Blocks in which warps are not what the kernel takes them for end in an error, not in a wait for ever.
#[test]
fn shapes_of_blocks() {
    let kernel = Kernel {
        shape: Shape { grid: [2, 1, 1], block: [48, 2, 1] },
        ..kernels().into_iter().find(|kernel| kernel.name == "layer_norm").expect("there")
    };
    let (real, text) = TEXTS[0];
    let args = arguments(&kernel, real);
    let found = Device::new().compare(text, kernel.name, &args, kernel.shape, 1);
    assert!(matches!(found, Err(Failure::Wrong(_))));
}

/// The texts are what NVRTC makes of `kernels.cu`. `PTX_AD_TEXTS=write` writes them.
#[test]
fn texts() {
    let library = nvrtc::Nvrtc::find().and_then(|library| library.version());
    let version = match library {
        Ok(version) => format!("release {}.{}", version.major, version.minor),
        Err(why) => return eprintln!("CUDA C++ not run: {why}"),
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for ((real, known), name) in TEXTS.into_iter().zip(["f32", "f64"]) {
        let options = nvrtc::Options::new().define("REAL", real).define("__noinline__", "");
        let options = options.define_flag("GEOM_AD").extra("--pre-include=geom/ad/libm.cuh");
        let options = ["cuda-safe/device", "geom-kernels/device", "tape/device"]
            .into_iter()
            .fold(options, |options, folder| options.include_path(format!("{root}/{folder}")));
        let program = nvrtc::Program::new(include_str!("kernels.cu")).name("kernels.cu");
        let image = program.options(options).compile(nvrtc::Arch::compute(9, 0));
        let text = image.unwrap_or_else(|error| panic!("{error}")).ptx.expect("PTX");
        if std::env::var("PTX_AD_TEXTS").is_ok_and(|mode| mode == "write") {
            let path = format!("{}/tests/adjoint/shared/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, text).expect("the file can be written");
        } else if known.contains(&version) {
            assert!(text == known, "{name}.ptx is not of kernels.cu: PTX_AD_TEXTS=write writes it");
        }
    }
}

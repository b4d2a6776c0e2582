//! Specifications that do not fit their kernels.

use cuda_safe::{DeviceBuffer, KernelArg, LaunchConfig, Module};
use tape::{Element, OpSpec, Param, Primal, Tape};

use super::awkward::refused;
use super::ops::{Table, module, register, threads};
use test_harness::{Case, Compiler, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::specs",
        device(what_does_not_fit_is_named),
        device(an_argument_of_one_type),
        device(another_abi_is_told),
        compile(the_header_compiles_alone),
        compile(the_frame_lies_as_on_the_device),
    ]
}

fn x() -> Param {
    Param::buffer("x", Element::F32).len("n").active()
}

fn out() -> Param {
    Param::buffer("out", Element::F32).overwrites().len("n").active()
}

fn a() -> Param {
    Param::scalar("a", Element::F32).active()
}

fn what_does_not_fit_is_named(device: &TestDevice) -> TestResult {
    let module = module(device)?;
    let n = || Param::value("n");
    let try_it = |name: &'static str, params: Vec<Param>, part: &str| {
        let spec = params.into_iter().fold(OpSpec::new(name), OpSpec::param);
        refused(register(&module, spec), part)
    };
    let f64_out = Param::buffer("out", Element::F64).overwrites().active();
    try_it("scale_f32", vec![a(), x(), out()], "has 4 parameters, 3 are specified")?;
    try_it("scale_f32", vec![x(), x(), out(), n()], "`x`: it has 4 bytes in the kernel, not 8")?;
    try_it("scale_f32", vec![a(), a(), out(), n()], "`a`: it has 8 bytes in the kernel, not 4")?;
    try_it(
        "scale_f32",
        vec![Param::scalar("a", Element::F64), x(), out(), n()],
        "`a`: it has 4 bytes in the kernel, not 8",
    )?;
    let bare = Param::buffer("x", Element::F32).active();
    try_it("scale_f32", vec![a(), bare.clone(), bare.overwrites(), a()], "`a`: it is an integer")?;
    try_it(
        "scale_f32",
        vec![Param::value("a"), x(), out(), n()],
        "`scale_f32_adjoint` has 8 parameters; those of the kernel, gradients and the frame are 7",
    )?;
    try_it(
        "scale_f32",
        vec![a(), x().len("m"), out(), n()],
        "`x`: the length `m` is no integer parameter (there are `n`); `len` takes the name of one",
    )?;
    try_it(
        "scale_f32",
        vec![a(), Param::buffer("x", Element::bytes(4)).active(), out(), n()],
        "`x`: active, but its elements are not real numbers",
    )?;
    try_it(
        "look_up_f32",
        vec![Param::structure("table", 16).pointer(12, Element::F32), out(), n()],
        "12 bytes",
    )?;
    let line = |first, second, element| {
        Param::structure("line", 24).scalar_at(first, element).scalar_at(second, element).active()
    };
    for (param, part) in [
        (line(0, 0, Element::F32), "two numbers 0 bytes into it"),
        (line(8, 12, Element::F64), "two numbers 12 bytes into it"),
        (line(0, 4, Element::F64), "4 bytes into it"),
        (line(2, 8, Element::F32), "2 bytes into it is not aligned"),
        (line(0, 24, Element::F32), "do not fit"),
    ] {
        try_it("line_f64", vec![param, x(), out(), n()], part)?;
    }
    refused(register(&module, OpSpec::new("nothing")), "no kernel `nothing`")?;
    let of = |spec: OpSpec| spec.param(a()).param(x()).param(out()).param(n());
    let spec = of(OpSpec::new("scale_f32")).adjoint("bend_f32_adjoint");
    refused(register(&module, spec), "`bend_f32_adjoint` has 4 parameters")?;
    let spec = of(OpSpec::new("scale_f32")).primal("bend_f32", |_| 0);
    refused(register(&module, spec), "`bend_f32` has 2 parameters")?;
    // Elements of another type than the specification's: two gradients for one memory.
    let stream = device.stream()?;
    let buffer = DeviceBuffer::<f32>::zeroed(&stream, 8)?;
    let op = register(&module, of(OpSpec::new("scale_f32")))?;
    let wide = OpSpec::new("scale_f64")
        .param(Param::scalar("a", Element::F64).active())
        .param(Param::buffer("x", Element::F64).active())
        .param(f64_out)
        .param(n());
    let wide = register(&module, wide)?;
    let mut y = DeviceBuffer::<f64>::zeroed(&stream, 8)?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, 8)?;
    refused(
        Tape::record(&stream, |t| {
            t.watch(&buffer)?;
            t.launch(&op, threads(8), (1.0f32, &buffer, &mut z, 8u32))?;
            // SAFETY: eight floats are four doubles.
            let as_doubles = unsafe { buffer.allocation().view::<f64>(0..32) }?;
            t.launch(&wide, threads(4), (1.0f64, as_doubles, &mut y, 4u32))
        }),
        "used as F32 and as F64",
    )
}

const VIEWS: &str = r#"
    struct Table { const float* values; unsigned length; };
    extern "C" __global__ void first(Table table, float* out, unsigned n) {
        if (threadIdx.x < n && table.length > 0) out[threadIdx.x] = table.values[0];
    }"#;

/// A kernel that follows pointers in a view is given that view, and no numbers in its place.
fn an_argument_of_one_type(device: &TestDevice) -> TestResult {
    let (stream, n) = (device.stream()?, 3u32);
    let module = Module::compile(device.context(), tape::program(VIEWS))?;
    let spec = OpSpec::new("first")
        .without_adjoint()
        .param(Param::argument::<&Table<'_, f32>>("table"))
        .param(out())
        .param(Param::value("n"));
    let first = register(&module, spec)?;
    let x = DeviceBuffer::from_slice(&stream, &[7.0f32, 8.0])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    let mut tape = Tape::new(&stream)?;
    let view = x.slice(..)?;
    let table = Table(view);
    tape.record_again(&stream, |t| t.launch(&first, threads(3), (&table, &mut y, n)))?;
    ensure!(y.to_vec(&stream)? == [7.0; 3], "other numbers");
    refused(
        tape.record_again(&stream, |t| t.launch(&first, threads(3), ([9u64; 2], &mut y, n))),
        "`[u64; 2]` is given, and `table` is a `",
    )?;
    // What the kernel gets of a view, without the view that keeps its memory.
    let raw = (&table).abi();
    refused(
        tape.record_again(&stream, |t| t.launch(&first, threads(3), (raw, &mut y, n))),
        "RawTable` is given",
    )?;
    // Threads in a plane may leave elements out.
    let covering = OpSpec::new("first")
        .without_adjoint()
        .param(Param::argument::<&Table<'_, f32>>("table"))
        .param(out().each_element())
        .param(Param::value("n"))
        .dimensions(2);
    refused(register(&module, covering.clone()), "a launch in 2 dimensions")?;
    register(&module, covering.grid_stride()).map(drop)?;
    Ok(())
}

const OTHER: &str = r#"
    #include <geom/tape.cuh>
    extern "C" __global__ void copy(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }
    extern "C" __global__ void
    copy_adjoint(const float*, float*, float* gx, float* gout, geom::tape::Frame frame) {
        frame.abi += 1;  // as if it was compiled with the next version
        if (!geom::tape::begin(frame))
            return;
        geom::tape::grad_own(frame, 0, gx + threadIdx.x, geom::tape::grad_take(frame, 1, gout + threadIdx.x));
    }"#;

fn another_abi_is_told(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = Module::compile(device.context(), tape::program(OTHER).name("other.cu"))?;
    let spec = OpSpec::new("copy")
        .param(
            Param::buffer("x", Element::F32).reads(Primal::None).len_fixed(1).each_element().active(),
        )
        .param(Param::buffer("out", Element::F32).overwrites().len_fixed(1).each_element().active())
        // There is a status, which says so.
        .scratch(|_| 0);
    let op = register(&module, spec)?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, LaunchConfig::new(1, 1), (&x, &mut y))
    })?;
    refused(tape.backward(&stream, &y), "another version of geom/tape.cuh")
}

fn the_header_compiles_alone(compiler: &Compiler) -> TestResult {
    use nvrtc::{Arch, Cache};
    for source in [super::ops::SOURCE, "#include <geom/tape.cuh>\n#include <geom/tape.cuh>\n"] {
        let program = tape::program(source).cuda_headers(false).library(&compiler.library);
        let image = program
            .cache(&Cache::off())
            .compile(Arch::compute(7, 5))
            .map_err(|error| Failure::new(error.to_string()))?;
        ensure!(image.log.trim_matches(['\0', '\n']).is_empty(), "{}", image.log);
    }
    Ok(())
}

/// The frame lies for the host as for the device.
fn the_frame_lies_as_on_the_device(compiler: &Compiler) -> TestResult {
    use std::mem::offset_of;
    use tape::Frame;
    let fields = [
        ("abi", offset_of!(Frame, abi)),
        ("flags", offset_of!(Frame, flags)),
        ("fwd_grid", offset_of!(Frame, fwd_grid)),
        ("fwd_block", offset_of!(Frame, fwd_block)),
        ("fwd_shared", offset_of!(Frame, fwd_shared)),
        ("partials_log2", offset_of!(Frame, partials_log2)),
        ("tape", offset_of!(Frame, tape)),
        ("tape_bytes", offset_of!(Frame, tape_bytes)),
        ("scratch", offset_of!(Frame, scratch)),
        ("scratch_bytes", offset_of!(Frame, scratch_bytes)),
        ("log", offset_of!(Frame, log)),
        ("log_bytes", offset_of!(Frame, log_bytes)),
        ("status", offset_of!(Frame, status)),
        ("assign", offset_of!(Frame, assign)),
        ("drop", offset_of!(Frame, drop)),
        ("reserved", offset_of!(Frame, reserved)),
    ];
    let assertions = |moved: usize| {
        let size = size_of::<Frame>();
        let mut text =
            format!("#include <geom/tape.cuh>\nGEOM_LAYOUT(geom::tape::Frame, {size}, 8);\n");
        for (name, offset) in fields {
            text += &format!("GEOM_FIELD(geom::tape::Frame, {name}, {});\n", offset + moved);
        }
        let flags = [(tape::ABI, "ABI"), (tape::COUNT, "COUNT"), (tape::RESUME, "RESUME")];
        for (value, name) in flags.into_iter().chain([(tape::DETERMINISTIC, "DETERMINISTIC")]) {
            text += &format!("static_assert(geom::tape::{name} == {value}, \"{name}\");\n");
        }
        text
    };
    let compile = |text: String| {
        let program = tape::program(text).cuda_headers(false).library(&compiler.library);
        program.cache(&nvrtc::Cache::off()).compile(nvrtc::Arch::compute(7, 5))
    };
    compile(assertions(0)).map_err(|error| Failure::new(error.to_string()))?;
    ensure!(compile(assertions(4)).is_err());
    Ok(())
}

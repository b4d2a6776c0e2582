//! Modules whose kernels are compiled at their first use.

use std::sync::Barrier;
use std::thread;

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Module, ModuleImage};

use super::checks::is_invalid;
use test_harness::{Case, Failure, TestDevice, TestResult, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::device("lazy::one_at_a_time", one_at_a_time),
        Case::device("lazy::side_by_side", side_by_side),
        Case::fault("fault::lazy::a_kernel_that_does_not_compile", a_kernel_that_does_not_compile),
        Case::device("lazy::kernels_that_share_a_variable", kernels_that_share_a_variable),
        Case::device("lazy::variables", variables),
        Case::device("lazy::first_use_in_a_graph", first_use_in_a_graph),
        Case::device("lazy::first_use_by_many_threads", first_use_by_many_threads),
        Case::device("lazy::closing", closing),
    ]
}

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// A kernel that writes `table[value]` to each of its 32 words, where `table[i]` is 10 i.
fn writes(name: &str, value: u32) -> String {
    format!(
        "
.visible .entry {name}(.param .u64 {name}_to) {{
    .reg .b32 %r<4>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [{name}_to];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r2, [table+{}];
    st.global.u32 [%rd4], %r2;
    ret;
}}
",
        4 * value
    )
}

/// Kernels `k0` to `k4`, which write 0, 10, and so on. A comment makes the text another for each test, so that no
/// test finds what another one left in the driver's cache.
fn text(test: &str) -> String {
    let table = ".global .align 4 .u32 table[5] = {0, 10, 20, 30, 40};\n";
    let kernels: String = (0..5).map(|i| writes(&format!("k{i}"), i)).collect();
    format!("// {test}, {}\n{HEAD}{table}{kernels}", std::process::id())
}

fn load(device: &TestDevice, text: &str) -> cuda_safe::Result<Module> {
    Module::load_lazily(device.context(), ModuleImage::Ptx(text))
}

/// Launches the kernel, which writes this number.
fn check(device: &TestDevice, module: &Module, name: &str, number: u32) -> TestResult {
    let stream = device.stream()?;
    let kernel = module.kernel(name)?;
    let mut to = DeviceBuffer::<u32>::zeroed(&stream, 32)?;
    // SAFETY: the kernel writes 32 words.
    unsafe { device.launch(&kernel, &stream, (1, 32), (&mut to,)) }?;
    first_difference(&to.to_vec(&stream)?, &[number; 32])
}

fn sorted(module: &Module) -> Vec<String> {
    let mut names = module.compiled_kernels();
    names.sort();
    names
}

fn one_at_a_time(device: &TestDevice) -> TestResult {
    let text = text("one_at_a_time");
    let module = load(device, &text)?;
    ensure_eq!(module.kernel_names(), ["k0", "k1", "k2", "k3", "k4"]);
    let (k1, k3) = (module.kernel("k1")?, module.kernel("k3")?);
    ensure!(sorted(&module).is_empty(), "a handle compiles nothing");
    ensure!(module.as_raw().is_null());
    check(device, &module, "k1", 10)?;
    ensure_eq!(sorted(&module), ["k1"]);
    ensure_eq!(k3.attributes()?.max_threads_per_block > 0, true);
    ensure_eq!(sorted(&module), ["k1", "k3"]);
    k1.load()?;
    ensure_eq!(k1.as_raw(), k1.clone().as_raw());
    ensure!(!k3.as_raw().is_null());
    ensure_eq!(k3.parameters().map(|all| all.len()), Some(1));
    module.kernel("k4")?.load()?;
    ensure_eq!(sorted(&module), ["k1", "k3", "k4"]);
    for i in 0..5 {
        check(device, &module, &format!("k{i}"), 10 * i)?;
    }
    is_invalid(module.kernel("k5"), "no kernel `k5`")?;
    // Whole modules are not lazy, and machine code is loaded as it is.
    let whole = Module::from_ptx(device.context(), &text)?;
    ensure!(whole.compiled_kernels().is_empty() && !whole.as_raw().is_null());
    Ok(())
}

fn side_by_side(device: &TestDevice) -> TestResult {
    let (first, second) = (text("side_by_side"), text("side_by_side, too"));
    let modules = [load(device, &first)?, load(device, &second)?];
    let whole = Module::from_ptx(device.context(), &first)?;
    let [a, b] = &modules;
    Module::prepare_kernels([])?;
    Module::prepare_kernels([(a, "k0"), (b, "k4"), (a, "k2"), (a, "k0"), (&whole, "k1")])?;
    ensure_eq!((sorted(a), sorted(b)), (vec!["k0".into(), "k2".into()], vec!["k4".into()]));
    is_invalid(Module::prepare_kernels([(a, "k1"), (b, "nothing")]), "no kernel `nothing`")?;
    ensure_eq!(sorted(a).len(), 2, "names are checked first");
    let names = ["k0", "k1", "k2", "k3", "k4"];
    Module::prepare_kernels(modules.iter().flat_map(|module| names.map(|name| (module, name))))?;
    for module in &modules {
        ensure_eq!(sorted(module), names);
        for (i, name) in (0..).zip(names) {
            check(device, module, name, 10 * i)?;
        }
    }
    Ok(())
}

/// The driver's compiler has refused it, and the error has this text.
fn does_not_compile<T>(result: cuda_safe::Result<T>, part: &str) -> TestResult {
    match result {
        Ok(_) => Err(Failure::new("it was compiled")),
        Err(error) if error.code() == Some(CUresult::CUDA_ERROR_INVALID_PTX) => {
            ensure!(error.to_string().contains(part), "{error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The outline is right, a body is not: only that kernel fails, whenever it is used, and says which it is.
fn a_kernel_that_does_not_compile(device: &TestDevice) -> TestResult {
    // Nothing reads a variable, so the bodies are not read when the module is loaded.
    let text = text("does_not_compile").replace("ld.global.u32 %r2, [table+", "mov.u32 %r2, (5 * ");
    let text = text.replace("];\n    st.global.u32 [%rd4]", ") / 2;\n    st.global.u32 [%rd4]");
    let wrong = ".visible .entry wrong(.param .u64 p) { no.such.instruction %r1; ret; }\n";
    let text = format!("{text}{wrong}");
    does_not_compile(Module::from_ptx(device.context(), &text), "PTX of")?;
    let module = load(device, &text)?;
    let kernel = module.kernel("wrong")?;
    for _ in 0..2 {
        does_not_compile(kernel.load(), "kernel `wrong`")?;
    }
    ensure!(kernel.as_raw().is_null() && kernel.parameters().is_none());
    let stream = device.stream()?;
    // SAFETY: there is no such kernel.
    does_not_compile(unsafe { kernel.launch(&stream, (1, 32), (0_u64,)) }, "kernel `wrong`")?;
    let both = Module::prepare_kernels([(&module, "wrong"), (&module, "k2")]);
    does_not_compile(both, "kernel `wrong`")?;
    // A driver may take the text and fail when it loads the kernel.
    ensure!(sorted(&module).contains(&"k2".to_owned()), "the others are compiled");
    check(device, &module, "k1", 10)
}

/// One kernel writes a variable that the other one reads: they have to be in one module.
fn kernels_that_share_a_variable(device: &TestDevice) -> TestResult {
    let put = "
.global .align 4 .u32 shared;
.visible .entry put(.param .u32 put_value) {
    .reg .b32 %r<2>;
    ld.param.u32 %r1, [put_value];
    st.global.u32 [shared], %r1;
    ret;
}
.visible .entry get(.param .u64 get_to) {
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [get_to];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [shared];
    st.global.u32 [%rd2], %r1;
    ret;
}";
    let module = load(device, &format!("{HEAD}{put}"))?;
    ensure!(!module.as_raw().is_null(), "it is loaded as a whole");
    let (put, get) = (module.kernel("put")?, module.kernel("get")?);
    let stream = device.stream()?;
    let mut to = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    // SAFETY: `put` takes a number, `get` writes one.
    unsafe {
        device.launch(&put, &stream, (1, 1), (7_u32,))?;
        device.launch(&get, &stream, (1, 1), (&mut to,))?;
    }
    ensure_eq!(to.to_vec(&stream)?, [7]);
    ensure_eq!(module.global::<u32>(&stream, "shared")?.read(&stream)?, [7]);
    Ok(())
}

fn variables(device: &TestDevice) -> TestResult {
    let module = load(device, &text("variables"))?;
    check(device, &module, "k1", 10)?;
    let stream = device.stream()?;
    is_invalid(module.global::<u32>(&stream, "table"), "loaded lazily")?;
    ensure!(!module.has_global("table")?);
    Ok(())
}

/// The first launch of a kernel is recorded, which compiles it in a capture.
fn first_use_in_a_graph(device: &TestDevice) -> TestResult {
    let module = load(device, &text("first_use_in_a_graph"))?;
    let (k2, k3) = (module.kernel("k2")?, module.kernel("k3")?);
    let stream = device.stream()?;
    let mut to = DeviceBuffer::<u32>::zeroed(&stream, 32)?;
    let mut also = DeviceBuffer::<u32>::zeroed(&stream, 32)?;
    Module::prepare_kernels([(&module, "k3")])?;
    let mut graph = device.context().capture((&mut to, &mut also), |stream, (to, also)| {
        // SAFETY: each writes 32 words.
        unsafe {
            k2.launch(stream, (1, 32), (&mut **to,))?;
            k3.launch(stream, (1, 32), (&mut **also,))
        }
    })?;
    graph.launch(&stream)?;
    drop(graph);
    first_difference(&to.to_vec(&stream)?, &[20; 32])?;
    first_difference(&also.to_vec(&stream)?, &[30; 32])
}

fn first_use_by_many_threads(device: &TestDevice) -> TestResult {
    const THREADS: usize = 8;
    let module = load(device, &text("first_use_by_many_threads"))?;
    let kernel = module.kernel("k4")?;
    let barrier = Barrier::new(THREADS);
    let results: Vec<TestResult> = thread::scope(|scope| {
        let each = |_| {
            scope.spawn(|| -> TestResult {
                let made = device.stream().map_err(Failure::from).and_then(|stream| {
                    let to = DeviceBuffer::<u32>::zeroed(&stream, 32)?;
                    Ok((stream, to))
                });
                // The others wait for this one, also if it can't go on.
                barrier.wait();
                let (stream, mut to) = made?;
                // SAFETY: the kernel writes 32 words.
                unsafe { kernel.launch(&stream, (1, 32), (&mut to,)) }?;
                first_difference(&to.to_vec(&stream)?, &[40; 32])
            })
        };
        let threads: Vec<_> = (0..THREADS).map(each).collect();
        let joined = |thread: thread::ScopedJoinHandle<'_, TestResult>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        };
        threads.into_iter().map(joined).collect()
    });
    results.into_iter().collect::<TestResult>()?;
    ensure_eq!(sorted(&module), ["k4"]);
    Ok(())
}

fn closing(device: &TestDevice) -> TestResult {
    let text = text("closing");
    let module = load(device, &text)?;
    let kernel = module.kernel("k1")?;
    kernel.load()?;
    let refused = module.close();
    ensure!(
        refused.as_ref().is_err_and(|error| error.to_string().contains("1 kernel")),
        "{refused:?}"
    );
    drop(refused);
    // A kernel that can't be closed is as before.
    let other = load(device, &text)?.kernel("k2")?;
    let module = other.module();
    let (other, error) = match other.close() {
        Ok(()) => return Err(Failure::new("the module has another handle")),
        Err(refused) => refused.into_parts(),
    };
    ensure!(error.to_string().contains("1 other handle"), "{error}");
    other.load()?;
    ensure!(!other.as_raw().is_null());
    check(device, &module, "k2", 20)?;
    drop(module);
    other.close()?;
    // The last handle closes what is compiled, or nothing.
    kernel.close()?;
    load(device, &text)?.close()?;
    let module = load(device, &text)?;
    Module::prepare_kernels([(&module, "k0"), (&module, "k1")])?;
    module.close()?;
    let module = load(device, &text)?;
    check(device, &module, "k3", 30)?;
    drop(module);
    Ok(device.context().free_deferred()?)
}

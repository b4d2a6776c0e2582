//! Plans of cuBLASLt.

use std::ffi::{CStr, c_void};

use cuda_libs::CublasLtLibrary;
use cuda_libs::blas::{DeviceScalar, marker};
use cuda_libs::lt::{Activation, Extras, Lt, Plan, Precision, Problem};
use cuda_libs::{Blas, Complex, E4m3, E5m2, Layout, Mat, MatMut, Order, bf16, f16};
use cuda_safe::nvrtc::Cache;
use cuda_safe::{DeviceBuffer, Stream};
use cuda_sys::cublaslt::{
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatmulHeuristicResult_t,
    cublasLtMatmulPreference_t, cublasLtMatrixLayout_t, cublasStatus_t, libraryPropertyType,
};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::lab::{Matrix, Number, Wide, blas, config, is_emulated, order};
use super::lt_refusals::{wrong_calls, wrong_plans};
use super::refusals::refused;

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::lt",
        device(of_f32 = of::<marker::F32, f32, f32>),
        device(of_f32_in_tf32 = of::<marker::Tf32, f32, f32>),
        device(of_f64 = of::<marker::F64, f64, f64>),
        device(of_c32 = of::<marker::F32, Complex<f32>, Complex<f32>>),
        device(of_f16 = of::<marker::F32, f16, f16>),
        device(of_f16_to_f32 = of::<marker::F32, f16, f32>),
        device(of_bf16 = of::<marker::F32, bf16, bf16>),
        device(conjugates),
        device(eight_bits),
        device(gradients_of_activations),
        device(factors_on_the_device),
        device(a_captured_plan),
        device(threads_share_a_plan),
        device(workspaces),
        device(the_cache),
        device(versions),
        device(wrong_plans),
        device(wrong_calls),
    ]
}

fn lt_of(
    device: &TestDevice,
    blas: &Blas,
    resolve: &dyn Fn(&CStr) -> *const c_void,
) -> Result<Lt, Failure> {
    let lt = match is_emulated(device) {
        // SAFETY: the functions are those of `cublasLt.h`, and call the contexts' driver.
        true => Lt::with(blas, unsafe { CublasLtLibrary::from_resolver(resolve) }?)?,
        false => Lt::new(blas)?,
    };
    Ok(lt.cache(Cache::off()))
}

pub(crate) fn lt(device: &TestDevice) -> Result<Lt, Failure> {
    lt_of(device, &blas(device)?, &blas_emu::resolve)
}

/// The derivative is checked against differences.
pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
}

fn activated(activation: Activation, x: Wide) -> Wide {
    match activation {
        Activation::Relu => Wide::new(x.re.max(0.0), 0.0),
        Activation::Gelu => Wide::new(gelu(x.re), 0.0),
        _ => x,
    }
}

fn view<T: Number>(matrix: Mat<'_, T>, turned: bool) -> Mat<'_, T> {
    if turned { matrix.transposed() } else { matrix }
}

fn of<M: Precision<T, T, C>, T: Number, C: Number>(device: &TestDevice) -> TestResult
where
    M::Scale: Number,
    M::Bias: Number,
{
    let (stream, lt) = (device.stream()?, lt(device)?);
    let mut rng = device.rng(4207);
    let is_real = !T::TYPE.is_complex() && size_of::<C>() < 8;
    for round in 0..16 {
        let mut size = || match rng.below(3) {
            0 => 1 + rng.below(70),
            _ => [1, 8, 31, 32, 33, 64][rng.below(6)],
        };
        let (m, n, k) = (size(), size(), size());
        let batch = [1, 1, 3][rng.below(3)];
        let (oa, ob, oc) = (order(&mut rng), order(&mut rng), order(&mut rng));
        let (turned_a, turned_b) = (rng.below(2) == 1, rng.below(2) == 1);
        let turn = |turned, rows, cols| if turned { (cols, rows) } else { (rows, cols) };
        let a = Matrix::<T>::new(&stream, &mut rng, turn(turned_a, m, k), oa, batch)?;
        // One matrix for the whole batch, or one for each.
        let single = rng.below(2) == 1;
        let b = Matrix::<T>::new(
            &stream,
            &mut rng,
            turn(turned_b, k, n),
            ob,
            if single { 1 } else { batch },
        )?;
        let mut d = Matrix::<C>::new(&stream, &mut rng, (m, n), oc, batch)?;
        let (va, vb) = (view(a.mat()?, turned_a), view(b.mat()?, turned_b));
        let mut problem = Problem::new(*va.layout(), *vb.layout(), d.layout);
        let activations = [Activation::Identity, Activation::Relu, Activation::Gelu];
        let activation = if is_real { activations[round % 3] } else { Activation::Identity };
        problem = problem.activation(activation);
        let has_bias = is_real && oc == Order::RowMajor && rng.below(3) > 0;
        if has_bias {
            problem = problem.bias();
        }
        let host_bias: Vec<M::Bias> = super::lab::numbers(&mut rng, n);
        let bias = DeviceBuffer::from_slice(&stream, &host_bias)?;
        let mut extras = Extras::none();
        if has_bias {
            extras = extras.bias(&bias);
        }
        let factor = |value| M::Scale::of(Wide::new(value, 0.0));
        let (alpha, beta) = ([1.0, -0.5][rng.below(2)], [0.0, 1.0, 1.25][rng.below(3)]);
        let plan = lt.plan::<M, _, _, _>(&problem)?;
        plan.run(&stream, (factor(alpha), factor(beta)), va, vb, d.mat_mut()?, extras)?;
        let pick = |matrix: &Matrix<T>, at: usize, turned: bool, i: usize, j: usize| match turned {
            true => matrix.get(at, j, i),
            false => matrix.get(at, i, j),
        };
        // TF32 has 10 bits of mantissa, and so have the operands of its products.
        let is_tf32 = std::any::type_name::<M>() == std::any::type_name::<marker::Tf32>();
        let operands = if is_tf32 { 1.0 / 1024.0 } else { 0.0 };
        let sums = if T::EPSILON > 1e-4 { f64::from(f32::EPSILON) } else { T::EPSILON };
        // NVIDIA's hyperbolic tangent has 11 bits.
        let tanh = if activation == Activation::Gelu { 1.0 / 2048.0 } else { 0.0 };
        let tolerance = (k as f64 + 4.0) * (4.0 * sums + 2.0 * operands) + 4.0 * C::EPSILON + tanh;
        d.check(&stream, tolerance, (m, n, batch), |at, i, j| {
            let of_b = if single { 0 } else { at };
            let sum: Wide =
                (0..k).map(|l| pick(&a, at, turned_a, i, l) * pick(&b, of_b, turned_b, l, j)).sum();
            let mut value = sum * alpha + d.get(at, i, j) * beta;
            if has_bias {
                value += host_bias[j].wide();
            }
            Some(activated(activation, value))
        })?;
    }
    Ok(())
}

/// Adjoint operands, alone and together, and what is refused.
fn conjugates(device: &TestDevice) -> TestResult {
    let (stream, lt, mut rng) = (device.stream()?, lt(device)?, device.rng(4214));
    let (m, n, k) = (5, 7, 4);
    for (ca, cb) in [(true, false), (false, true), (true, true)] {
        let turn = |turned, rows, cols| if turned { (cols, rows) } else { (rows, cols) };
        let a = Matrix::<Complex<f32>>::new(&stream, &mut rng, turn(ca, m, k), Order::RowMajor, 2)?;
        let b = Matrix::<Complex<f32>>::new(&stream, &mut rng, turn(cb, k, n), Order::RowMajor, 2)?;
        let mut d = Matrix::<Complex<f32>>::new(&stream, &mut rng, (m, n), Order::RowMajor, 2)?;
        let of = |matrix, turned| -> Result<Mat<'_, Complex<f32>>, Failure> {
            let view = Matrix::mat(matrix)?;
            Ok(if turned { view.adjoint() } else { view })
        };
        let (va, vb) = (of(&a, ca)?, of(&b, cb)?);
        let problem = Problem::new(*va.layout(), *vb.layout(), d.layout);
        let plan: Plan<marker::F32, Complex<f32>, Complex<f32>, Complex<f32>> =
            lt.plan(&problem.conjugated(ca, cb))?;
        let factors = (Complex::new(1.0, 0.0), Complex::new(0.0, 0.0));
        let plain = if ca { va.adjoint().transposed() } else { va };
        if ca {
            let run = plan.run(&stream, factors, plain, vb, d.mat_mut()?, Extras::none());
            refused(run, "plan: a is not conjugated, but the plan was made for the conjugate")?;
        }
        plan.run(&stream, factors, va, vb, d.mat_mut()?, Extras::none())?;
        let pick = |matrix: &Matrix<Complex<f32>>, at, turned, i, j| match turned {
            true => matrix.get(at, j, i).conj(),
            false => matrix.get(at, i, j),
        };
        d.check(&stream, 1e-5, (m, n, 2), |at, i, j| {
            Some((0..k).map(|l| pick(&a, at, ca, i, l) * pick(&b, at, cb, l, j)).sum())
        })?;
    }
    let real = Problem::new(Layout::new(2, 2), Layout::new(2, 2), Layout::new(2, 2));
    let made = lt.plan::<marker::F32, f32, f32, f32>(&real.conjugated(true, false));
    refused(made, "plan: conjugated is for complex numbers")
}

/// Products as 8-bit floats have them on all devices: `b` is the transposed view of a row-major matrix.
fn eight_bits(device: &TestDevice) -> TestResult {
    if !is_emulated(device) && device.context().device().compute_capability()? < (8, 9) {
        return Ok(());
    }
    let (stream, lt) = (device.stream()?, lt(device)?);
    let (m, n, k) = (32, 48, 64);
    let mut rng = device.rng(4208);
    let a: Vec<E4m3> = (0..m * k).map(|_| E4m3::from_f32(rng.float())).collect();
    let b: Vec<E5m2> = (0..n * k).map(|_| E5m2::from_f32(rng.float())).collect();
    // Each at a multiple of 16 bytes.
    let scales = [0.5f32, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.25];
    let scales = DeviceBuffer::from_slice(&stream, &scales)?;
    let scale = |at: usize| scales.slice(4 * at..=4 * at);
    let (da, db) = (DeviceBuffer::from_slice(&stream, &a)?, DeviceBuffer::from_slice(&stream, &b)?);
    let (va, vb) = (Mat::new(&da, m, k)?, Mat::new(&db, n, k)?.transposed());
    let exact = |i: usize, j: usize| -> f64 {
        let product =
            |l: usize| f64::from(a[i * k + l].to_f32()) * f64::from(b[j * k + l].to_f32());
        2.0 * (0..k).map(product).sum::<f64>()
    };
    let all = || (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    let problem = Problem::new(*va.layout(), *vb.layout(), Layout::new(m, n)).scales();

    let mut wide = DeviceBuffer::<bf16>::zeroed(&stream, m * n)?;
    let host_bias: Vec<bf16> = super::lab::numbers(&mut rng, n);
    let bias = DeviceBuffer::from_slice(&stream, &host_bias)?;
    let extras = Extras::none().scales(scale(0)?, scale(1)?, None).bias(&bias);
    lt.plan::<marker::F32, _, _, _>(&problem.bias())?.run(
        &stream,
        (1.0, 0.0),
        va,
        vb,
        MatMut::new(&mut wide, m, n)?,
        extras,
    )?;
    for ((i, j), got) in all().zip(wide.to_vec(&stream)?) {
        let wanted = exact(i, j) + host_bias[j].to_f64();
        let off = (got.to_f64() - wanted).abs();
        ensure!(off <= 1e-3 + wanted.abs() / 128.0, "{got} at {i}, {j} is not {wanted}");
    }

    let (mut narrow, mut amax) = (
        DeviceBuffer::<E4m3>::zeroed(&stream, m * n)?,
        DeviceBuffer::from_slice(&stream, &[0.0f32])?,
    );
    let extras = Extras::none().scales(scale(0)?, scale(1)?, Some(scale(2)?)).amax(&mut amax);
    let plan = lt.plan::<marker::F32, _, _, _>(&problem.amax())?;
    plan.run(&stream, (1.0, 0.0), va, vb, MatMut::new(&mut narrow, m, n)?, extras)?;
    let mut greatest = 0f64;
    for ((i, j), got) in all().zip(narrow.to_vec(&stream)?) {
        let (wanted, got) = (0.25 * exact(i, j), f64::from(got.to_f32()));
        greatest = greatest.max(exact(i, j).abs());
        ensure!(
            (got - wanted).abs() <= 2e-3 + wanted.abs() / 15.0,
            "{got} at {i}, {j} is not {wanted}"
        );
    }
    let got = f64::from(amax.to_vec(&stream)?[0]);
    ensure!((got - greatest).abs() <= 1e-3 * greatest, "the greatest is {greatest}, not {got}");
    let extras =
        Extras::none().scales(scale(0)?, scales.slice(1..=1)?, Some(scale(2)?)).amax(&mut amax);
    let call = plan.run(&stream, (1.0, 0.0), va, vb, MatMut::new(&mut narrow, m, n)?, extras);
    refused(call, "plan: scales has one at an address that is no multiple of 16")?;
    let again = plan.run::<f32>(
        &stream,
        (1.0, 0.5),
        va,
        vb,
        MatMut::new(&mut narrow, m, n)?,
        Extras::none(),
    );
    refused(again, "plan: beta is not 0, but the result has 8-bit floats")
}

/// What the activation saved makes its gradient, which is compared with differences.
fn gradients_of_activations(device: &TestDevice) -> TestResult {
    let (stream, lt) = (device.stream()?, lt(device)?);
    for (at, (forward, backward)) in
        [(Activation::Relu, Activation::ReluGradient), (Activation::Gelu, Activation::GeluGradient)]
            .into_iter()
            .enumerate()
    {
        let mut rng = device.rng(4209 + at as u64);
        for (m, n, k, order, batch) in
            [(40, 72, 24, Order::RowMajor, 1), (31, 8, 33, Order::ColumnMajor, 2)]
        {
            let matrix = |rng: &mut Rng, rows, cols| {
                Matrix::<f32>::new(&stream, rng, (rows, cols), order, batch)
            };
            let (x, w) = (matrix(&mut rng, m, k)?, matrix(&mut rng, k, n)?);
            let (mut y, mut g) = (matrix(&mut rng, m, n)?, matrix(&mut rng, m, n)?);
            let problem = Problem::new(x.layout, w.layout, y.layout).activation(forward).save();
            let plan = lt.plan::<marker::F32, _, _, _>(&problem)?;
            let mut saved = DeviceBuffer::<u8>::zeroed(&stream, plan.saved_bytes())?;
            let extras = Extras::none().save(&mut saved);
            plan.run(&stream, (1.0, 0.0), x.mat()?, w.mat()?, y.mat_mut()?, extras)?;
            let input = |at: usize, i: usize, j: usize| -> f64 {
                (0..k).map(|l| (x.get(at, i, l) * w.get(at, l, j)).re).sum()
            };
            y.check(&stream, 1e-5, (m, n, batch), |at, i, j| {
                Some(activated(forward, input(at, i, j).into()))
            })?;
            // Another product, whose elements the derivative multiplies.
            let problem = Problem::new(x.layout, w.layout, g.layout).activation(backward);
            let plan = lt.plan::<marker::F32, _, _, _>(&problem)?;
            ensure_eq!(plan.saved_bytes(), saved.len());
            let extras = Extras::none().saved(&saved);
            plan.run(&stream, (-2.0, 0.0), x.mat()?, w.mat()?, g.mat_mut()?, extras)?;
            g.check(&stream, 2e-4, (m, n, batch), |at, i, j| {
                let x = input(at, i, j);
                let difference = |h: f64| {
                    let of = |x: f64| activated(forward, x.into()).re;
                    (of(x + h) - of(x - h)) / (2.0 * h)
                };
                // Next to 0, rounding decides on which side ReLU sees it.
                (x.abs() > 1e-4)
                    .then(|| Wide::from(-2.0 * x * difference(1e-5)))
                    .or(Some(Wide::from(0.0)))
            })?;
        }
    }
    Ok(())
}

pub(super) const N: usize = 16;

/// The plan of y = x w.
pub(super) fn plain(lt: &Lt) -> cuda_libs::Result<Plan<marker::F32, f32, f32, f32>> {
    let layout = Layout::new(N, N);
    lt.plan(&Problem::new(layout, layout, layout))
}

/// x = 1, w = 2 on the diagonal, y.
pub(super) fn buffers(stream: &Stream) -> cuda_safe::Result<[DeviceBuffer<f32>; 3]> {
    let two: Vec<f32> = (0..N * N).map(|at| if at % (N + 1) == 0 { 2.0 } else { 0.0 }).collect();
    Ok([
        DeviceBuffer::from_slice(stream, &[1.0f32; N * N])?,
        DeviceBuffer::from_slice(stream, &two)?,
        DeviceBuffer::zeroed(stream, N * N)?,
    ])
}

pub(super) fn double<M: Precision<f32, f32, f32, Scale = f32>>(
    plan: &Plan<M, f32, f32, f32>,
    stream: &Stream,
    [x, w, y]: &mut [DeviceBuffer<f32>; 3],
) -> cuda_libs::Result<()> {
    let y = MatMut::new(y, N, N)?;
    plan.run(stream, (1.0, 0.0), Mat::new(&*x, N, N)?, Mat::new(&*w, N, N)?, y, Extras::none())
}

fn factors_on_the_device(device: &TestDevice) -> TestResult {
    let (stream, lt) = (device.stream()?, lt(device)?);
    let layout = Layout::new(N, N);
    let plan =
        lt.plan::<marker::F32, _, _, _>(&Problem::new(layout, layout, layout).factors_on_device())?;
    let [x, w, mut y] = buffers(&stream)?;
    let factors = DeviceBuffer::from_slice(&stream, &[3.0f32, 0.0])?;
    let factors = (DeviceScalar::new(&factors)?, DeviceScalar::new(factors.slice(1..)?)?);
    let (a, b) = (Mat::new(&x, N, N)?, Mat::new(&w, N, N)?);
    plan.run(&stream, factors, a, b, MatMut::new(&mut y, N, N)?, Extras::none())?;
    ensure_eq!(y.to_vec(&stream)?, vec![6.0; N * N]);
    let host = plan.run(&stream, (1.0, 0.0), a, b, MatMut::new(&mut y, N, N)?, Extras::none());
    refused(host, "plan: alpha lies on the host, but the plan takes factors from the device")
}

fn a_captured_plan(device: &TestDevice) -> TestResult {
    let (stream, lt) = (device.stream()?, lt(device)?);
    let state = buffers(&stream)?;
    let context = device.context();
    // The plan is made in the capture, and dropped before the graph runs.
    let mut graph =
        context.capture(state, move |stream, state| Ok(double(&plain(&lt)?, stream, state)?))?;
    for _ in 0..2 {
        graph.launch(&stream)?;
    }
    ensure_eq!(graph.state()[2].to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

fn threads_share_a_plan(device: &TestDevice) -> TestResult {
    let lt = lt(device)?;
    let layout = Layout::new(N, N);
    let plan =
        lt.plan::<marker::F32, f32, f32, f32>(&Problem::new(layout, layout, layout).bias())?;
    let run = |own: f32| -> cuda_libs::Result<Vec<f32>> {
        let stream = device.stream()?;
        let [x, w, mut y] = buffers(&stream)?;
        // Each thread has another bias, whose address is an attribute of a descriptor.
        let bias = DeviceBuffer::from_slice(&stream, &[own; N])?;
        for _ in 0..10 {
            let (a, b) = (Mat::new(&x, N, N)?, Mat::new(&w, N, N)?);
            let extras = Extras::none().bias(&bias);
            plan.run(&stream, (1.0, 0.0), a, b, MatMut::new(&mut y, N, N)?, extras)?;
        }
        Ok(y.to_vec(&stream)?)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|at| (at, scope.spawn(move || run(at as f32)))).collect();
        for (at, thread) in threads {
            let result = thread.join().map_err(|_| Failure::new("a thread panicked"))??;
            ensure_eq!(result, vec![2.0 + at as f32; N * N]);
        }
        Ok(())
    })
}

/// The emulated function of this name.
fn emulated<F: Copy>(name: &CStr) -> F {
    let address = blas_emu::resolve(name);
    assert!(!address.is_null() && size_of::<F>() == size_of::<*const c_void>());
    // SAFETY: the callers name the type that the header declares for the function, a pointer.
    unsafe { std::mem::transmute_copy(&address) }
}

type Heuristic = unsafe extern "C" fn(
    cublasLtHandle_t,
    cublasLtMatmulDesc_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t,
    i32,
    *mut cublasLtMatmulHeuristicResult_t,
    *mut i32,
) -> cublasStatus_t;

/// Returns an algorithm that needs a workspace.
unsafe extern "C" fn with_workspace(
    handle: cublasLtHandle_t,
    desc: cublasLtMatmulDesc_t,
    a: cublasLtMatrixLayout_t,
    b: cublasLtMatrixLayout_t,
    c: cublasLtMatrixLayout_t,
    d: cublasLtMatrixLayout_t,
    preference: cublasLtMatmulPreference_t,
    most: i32,
    result: *mut cublasLtMatmulHeuristicResult_t,
    count: *mut i32,
) -> cublasStatus_t {
    let function: Heuristic = emulated(c"cublasLtMatmulAlgoGetHeuristic");
    // SAFETY: the caller's promise.
    unsafe {
        let status = function(handle, desc, a, b, c, d, preference, most, result, count);
        if status == cublasStatus_t::CUBLAS_STATUS_SUCCESS {
            (*result).workspaceSize = 1 << 12;
        }
        status
    }
}

fn workspaces(device: &TestDevice) -> TestResult {
    if !is_emulated(device) {
        return Ok(());
    }
    let stream = device.stream()?;
    let resolve = |name: &CStr| match name == c"cublasLtMatmulAlgoGetHeuristic" {
        true => with_workspace as *const c_void,
        false => blas_emu::resolve(name),
    };
    let blas = Blas::with(device.context(), &config(device).workspace_bytes(1 << 12))?;
    let plan = plain(&lt_of(device, &blas, &resolve)?)?;
    ensure_eq!((plan.workspace_bytes(), blas.workspace_bytes()), (1 << 12, 0));
    let mut state = buffers(&stream)?;
    double(&plan, &stream, &mut state)?;
    double(&plan, &stream, &mut state)?;
    ensure_eq!(blas.workspace_bytes(), 1 << 12);
    ensure_eq!(state[2].to_vec(&stream)?, vec![2.0; N * N]);
    // An algorithm that takes more than the bound is not used.
    let blas = Blas::with(device.context(), &config(device).workspace_bytes(1 << 11))?;
    refused(
        plain(&lt_of(device, &blas, &resolve)?),
        "plan: problem has no algorithm of cuBLASLt 13.1.0 on this device within 2048 bytes of workspace",
    )
}

/// Accepts no algorithm, and ignores its arguments, which the C ABI of the supported systems allows.
extern "C" fn refuses() -> cublasStatus_t {
    cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED
}

fn the_cache(device: &TestDevice) -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cache");
    let own = lt(device)?.cache(Cache::at(&path));
    let stream = device.stream()?;
    let plan = plain(&own)?;
    ensure!(!plan.is_from_cache());
    let file = || -> Result<std::path::PathBuf, Failure> {
        let mut files = std::fs::read_dir(&path)?;
        Ok(files.next().ok_or_else(|| Failure::new("nothing was kept"))??.path())
    };
    for round in 0..2 {
        let plan = plain(&own)?;
        ensure!(plan.is_from_cache(), "round {round}");
        let mut state = buffers(&stream)?;
        double(&plan, &stream, &mut state)?;
        ensure_eq!(state[2].to_vec(&stream)?, vec![2.0; N * N]);
        // A changed file is a miss, and is written again.
        let mut bytes = std::fs::read(file()?)?;
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(file()?, bytes)?;
        ensure!(!plain(&own)?.is_from_cache());
    }
    // Another problem is another entry.
    let layout = Layout::new(N, N);
    let other = Problem::new(layout, layout, layout).alignment(32);
    ensure!(!own.plan::<marker::F32, f32, f32, f32>(&other)?.is_from_cache());
    if is_emulated(device) {
        // An algorithm that the library does not accept any more is chosen again.
        let resolve = |name: &CStr| match name == c"cublasLtMatmulAlgoCheck" {
            true => refuses as *const c_void,
            false => blas_emu::resolve(name),
        };
        let stale = lt_of(device, &blas(device)?, &resolve)?.cache(Cache::at(&path));
        ensure!(!plain(&stale)?.is_from_cache());
    }
    Ok(())
}

unsafe extern "C" fn twelve(which: libraryPropertyType, value: *mut i32) -> cublasStatus_t {
    // SAFETY: valid for one write.
    unsafe { *value = if which == libraryPropertyType::MAJOR_VERSION { 12 } else { 1 } };
    cublasStatus_t::CUBLAS_STATUS_SUCCESS
}

fn versions(device: &TestDevice) -> TestResult {
    if !is_emulated(device) {
        return Ok(());
    }
    let without = |hidden: &'static CStr| {
        move |name: &CStr| match name == hidden {
            true => std::ptr::null(),
            false => blas_emu::resolve(name),
        }
    };
    let blas = blas(device)?;
    let old = |name: &CStr| match name == c"cublasLtGetProperty" {
        true => twelve as *const c_void,
        false => blas_emu::resolve(name),
    };
    let text =
        lt_of(device, &blas, &old).map_err(|error| error.to_string()).err().unwrap_or_default();
    ensure!(text.contains("cuBLASLt 12.1.1 in a resolver can't be used: cuBLAS 13."), "{text}");
    let missing = lt_of(device, &blas, &without(c"cublasLtMatmul"))?;
    let run = double(&plain(&missing)?, &device.stream()?, &mut buffers(&device.stream()?)?);
    refused(run, "plan: this cuBLASLt 13.1.0 has no cublasLtMatmul, which came with cuBLASLt 12.0")
}

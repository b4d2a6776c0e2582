//! A product with a chosen algorithm.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use cuda_safe::Stream;
use cuda_sys::cublaslt::{
    cublasLtEpilogue_t, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t as Attribute,
    cublasLtMatmulHeuristicResult_t, cublasStatus_t,
};

use super::descriptor::{MatrixLayout, Preference, Product};
use super::{Activation, Extras, Lt, Precision, Problem};
use crate::blas::call::{Needs, Status, Uses};
use crate::blas::gemm::{Operand, Product as Shape};
use crate::blas::scalar::{Aligned, Scalar};
use crate::element::{DataType, E4m3, E5m2, Element};
use crate::error::{Error, Result};
use crate::mat::{Mat, MatMut};
use cuda_sys::cublas::{cublasOperation_t, cublasPointerMode_t};

const CALL: &str = "plan";
const DONE: cublasStatus_t = cublasStatus_t::CUBLAS_STATUS_SUCCESS;

/// A product of matrices of `A` and `B` for a result of `D`, with its epilogue and its algorithm. Several threads may use it.
pub struct Plan<M, A, B, D> {
    lt: Lt,
    problem: Problem,
    /// `None` if the result has no elements.
    chosen: Option<Chosen>,
    types: PhantomData<Types<M, A, B, D>>,
}

/// The types of a plan, which owns no values of them.
type Types<M, A, B, D> = fn() -> (M, A, B, D);

/// The descriptors and the algorithm of a product.
struct Chosen {
    shape: Shape,
    first: MatrixLayout,
    second: MatrixLayout,
    c: MatrixLayout,
    d: MatrixLayout,
    algorithm: cublasLtMatmulAlgo_t,
    workspace: usize,
    from_cache: bool,
    saved: usize,
    template: Template,
    /// Those that no call uses.
    products: Mutex<Vec<Product>>,
}

/// The attributes of a product that are the same in all calls.
#[derive(Debug, Clone)]
struct Template {
    compute: cuda_sys::cublas::cublasComputeType_t,
    scale: DataType,
    ops: [cublasOperation_t; 2],
    on_device: bool,
    epilogue: cublasLtEpilogue_t,
    bias: Option<DataType>,
    /// The leading dimension and the distance of matrices in what is saved.
    saved: Option<[i64; 2]>,
}

impl Template {
    /// Makes a descriptor.
    fn product(&self, lt: &Lt) -> Result<Product> {
        let mut this = Product::of_types(lt, self.compute, self.scale)?;
        let [first, second] = self.ops.map(|op| op.0);
        this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, first)?;
        this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, second)?;
        let mode = match self.on_device {
            true => cublasPointerMode_t::CUBLAS_POINTER_MODE_DEVICE,
            false => cublasPointerMode_t::CUBLAS_POINTER_MODE_HOST,
        };
        this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_POINTER_MODE, mode.0)?;
        this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, self.epilogue.0)?;
        if let Some(ty) = self.bias {
            this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, ty.raw.0)?;
        }
        if let Some([leading, stride]) = self.saved {
            this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, leading)?;
            this.plan(lt, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, stride)?;
        }
        Ok(this)
    }
}

/// The addresses of a call, beside those of matrices.
type Addresses = [(Attribute, Option<u64>); 6];

/// Sets the addresses of a call.
fn set_all(product: &mut Product, addresses: &Addresses) -> Status {
    for (attribute, address) in addresses {
        if let Some(address) = address {
            let status = product.set(*attribute, address)?;
            if status != DONE {
                return Ok(status);
            }
        }
    }
    Ok(DONE)
}

fn is_eight_bits(ty: DataType) -> bool {
    [E4m3::TYPE, E5m2::TYPE].contains(&ty)
}

impl<M: Precision<A, B, D>, A: Element, B: Element, D: Element> Plan<M, A, B, D> {
    pub(super) fn new(lt: &Lt, problem: &Problem) -> Result<Self> {
        cuda_safe::check_caller()?;
        let epilogue = problem.epilogue()?;
        let invalid =
            |argument, message: &'static str| Err(Error::invalid(CALL, argument, message));
        let (of_a, of_d) = (A::TYPE, D::TYPE);
        let is_plain = epilogue == cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT;
        if !is_plain && (of_a.is_complex() || size_of::<D>() == 8) {
            return invalid("epilogue", "is for real numbers of at most 32 bits");
        }
        if problem.scales && !is_eight_bits(of_a) {
            return invalid("scales", "are for operands of 8-bit floats");
        }
        if is_eight_bits(of_d) && problem.on_device {
            return invalid(
                "factors",
                "are numbers if the result has 8-bit floats, whose beta is 0",
            );
        }
        if problem.amax && !is_eight_bits(of_d) {
            return invalid("amax", "is that of a result of 8-bit floats");
        }
        let Problem { a, b, d, conjugate: [conjugate_a, conjugate_b], .. } = problem;
        if (*conjugate_a || *conjugate_b) && !of_a.is_complex() {
            return invalid("conjugated", "is for complex numbers");
        }
        let shape = Shape::new(CALL, (a, *conjugate_a), (b, *conjugate_b), d)?;
        let chosen = match shape {
            None => None,
            Some(shape) if shape.inner == 0 => {
                return invalid("a", "has no columns: cuBLASLt takes no empty inner dimension");
            }
            Some(shape) => Some(Self::choose(lt, problem, shape, epilogue)?),
        };
        Ok(Self { lt: lt.clone(), problem: *problem, chosen, types: PhantomData })
    }

    fn choose(
        lt: &Lt,
        problem: &Problem,
        shape: Shape,
        epilogue: cublasLtEpilogue_t,
    ) -> Result<Chosen> {
        let (m, n, k) = (shape.rows, shape.cols, shape.inner);
        let [of_first, of_second] = match shape.exchanged {
            true => [B::TYPE, A::TYPE],
            false => [A::TYPE, B::TYPE],
        };
        let [lda, ldb, ldc] = shape.leading_dimensions();
        let stored = |operand: &Operand, rows: i64, cols: i64| match operand.op {
            cublasOperation_t::CUBLAS_OP_N => (rows, cols),
            _ => (cols, rows),
        };
        let layout = |ty, (rows, cols): (i64, i64), leading, stride| {
            MatrixLayout::of_matrix(lt, ty, (rows, cols, leading), (shape.batch, stride))
        };
        // The inputs of ReLU are kept as bits.
        let is_mask = matches!(problem.activation, Activation::Relu | Activation::ReluGradient);
        let leading = |multiple: i64| Some(m.checked_add(multiple - 1)? / multiple * multiple);
        let saved = match (problem.has_saved(), is_mask) {
            (false, _) => Some([0, 0]),
            (true, true) => leading(128).and_then(|ld| Some([ld, ld.checked_mul(n)?])),
            (true, false) => leading(16).and_then(|ld| Some([ld, ld.checked_mul(n)?])),
        };
        let bits = if is_mask { 1 } else { 8 * size_of::<D>() as i64 };
        let bytes = saved.and_then(|[_, of_one]| {
            usize::try_from(of_one.checked_mul(shape.batch)?.checked_mul(bits)? / 8).ok()
        });
        let (Some(saved), Some(bytes)) = (saved, bytes) else {
            return Err(Error::invalid(CALL, "d", format!("is too large: {m} x {n}")));
        };
        let template = Template {
            compute: M::COMPUTE,
            scale: M::Scale::TYPE,
            ops: [shape.first.op, shape.second.op],
            on_device: problem.on_device,
            epilogue,
            bias: problem.bias.then_some(M::Bias::TYPE),
            saved: problem.has_saved().then_some(saved),
        };
        let mut product = template.product(lt)?;
        let mut chosen = Chosen {
            first: layout(of_first, stored(&shape.first, m, k), lda, shape.first.stride)?,
            second: layout(of_second, stored(&shape.second, k, n), ldb, shape.second.stride)?,
            c: layout(M::C, (m, n), ldc, shape.stride)?,
            d: layout(D::TYPE, (m, n), ldc, shape.stride)?,
            shape,
            algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
            workspace: 0,
            from_cache: false,
            saved: bytes,
            template,
            products: Mutex::default(),
        };
        // Addresses that are not read: cuBLASLt refuses an epilogue without one.
        let some = Some(1 << 20);
        let (scales, amax) = (problem.scales, problem.amax);
        let eight = is_eight_bits(D::TYPE);
        let addresses = Self::addresses(
            problem.bias.then_some(1 << 20),
            problem.has_saved().then_some(1 << 20),
            [some, some, some.filter(|_| eight)].map(|address| address.filter(|_| scales)),
            some.filter(|_| amax),
        );
        match set_all(&mut product, &addresses) {
            Ok(DONE) => {}
            status => return Err(lt.failed(CALL, status)),
        }
        let types = [A::TYPE, B::TYPE, D::TYPE, M::Scale::TYPE].map(|ty| ty.raw.0);
        let key = key(lt, problem, &format!("{types:?} {:?}", M::COMPUTE))?;
        chosen.take_algorithm(lt, problem, &product, &key)?;
        chosen.products = Mutex::new(vec![product]);
        Ok(chosen)
    }

    /// Names the addresses of a call. The scales are those of the first operand, the second one and the result.
    fn addresses(
        bias: Option<u64>,
        saved: Option<u64>,
        [first, second, d]: [Option<u64>; 3],
        amax: Option<u64>,
    ) -> Addresses {
        [
            (Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias),
            (Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, saved),
            (Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, first),
            (Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, second),
            (Attribute::CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, d),
            (Attribute::CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, amax),
        ]
    }

    /// Returns the bytes of [`Extras::save`] and [`Extras::saved`]; 0 if the problem has none.
    #[must_use]
    pub fn saved_bytes(&self) -> usize {
        self.chosen.as_ref().map_or(0, |chosen| chosen.saved)
    }

    /// Returns the bytes of a workspace that the algorithm uses.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.chosen.as_ref().map_or(0, |chosen| chosen.workspace)
    }

    /// Returns whether the algorithm came from the kernel cache.
    #[must_use]
    pub fn is_from_cache(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.from_cache)
    }

    /// Computes `d = activation(alpha a b + beta d + bias)`; `factors` are alpha and beta.
    ///
    /// The work is ordered like a launch, and becomes part of the graph on a stream that records. If beta is 0, the old `d` is
    /// not read. An 8-bit result needs a beta of 0. If `d` has no elements, nothing is enqueued.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a layout is not the plan's, `extras` are not what the problem asks for, an address is not aligned
    /// as the plan says, or memory is of another context. `Err` means that nothing was enqueued, except for
    /// [`Error::Cublas`], and for errors of the driver as from launches.
    #[doc(alias = "cublasLtMatmul")]
    #[doc(alias = "matmul")]
    pub fn run<P: Scalar<M::Scale>>(
        &self,
        stream: &Stream,
        (alpha, beta): (P, P),
        a: Mat<'_, A>,
        b: Mat<'_, B>,
        d: MatMut<'_, D>,
        extras: Extras<'_, M::Bias>,
    ) -> Result<()> {
        let problem = &self.problem;
        self.fits(&a, &b, &d)?;
        if P::ON_DEVICE != problem.on_device {
            let place = |on_device| if on_device { "device" } else { "host" };
            let message = format!(
                "lies on the {}, but the plan takes factors from the {}",
                place(P::ON_DEVICE),
                place(problem.on_device)
            );
            return Err(Error::invalid(CALL, "alpha", message));
        }
        let eight = is_eight_bits(D::TYPE);
        if eight && !beta.is_zero() {
            return Err(Error::invalid(CALL, "beta", "is not 0, but the result has 8-bit floats"));
        }
        let Some(chosen) = &self.chosen else { return Ok(()) };
        let target = d.data.device_ptr();
        let mut uses = Uses::new();
        uses.reads("a", &a.data);
        uses.reads("b", &b.data);
        uses.writes("d", &d.data);
        uses.factor("alpha", &alpha);
        uses.factor("beta", &beta);
        let one = problem.scales.then_some(1);
        let Extras { bias, save, saved, scales: [scale_a, scale_b, scale_d], amax } = &extras;
        let bias = uses.given(CALL, "bias", bias, problem.bias.then_some(problem.d.cols))?;
        let save = uses.given_mut(CALL, "save", save, problem.save.then_some(chosen.saved))?;
        let read = problem.is_gradient().then_some(chosen.saved);
        let saved = uses.given(CALL, "saved", saved, read)?.or(save);
        let scale_a = uses.given(CALL, "scale_a", scale_a, one)?;
        let scale_b = uses.given(CALL, "scale_b", scale_b, one)?;
        let scale_d = uses.given(CALL, "scale_d", scale_d, one.filter(|_| eight))?;
        let amax = uses.given_mut(CALL, "amax", amax, problem.amax.then_some(1))?;
        let (pa, pb) = (a.data.device_ptr(), b.data.device_ptr());
        let (first, second) = if chosen.shape.exchanged { (pb, pa) } else { (pa, pb) };
        let all = [
            ("a", Some(pa)),
            ("b", Some(pb)),
            ("d", Some(target)),
            ("bias", bias),
            ("save", saved),
        ];
        for (name, address) in all {
            // Bytes to us, elements to cuBLASLt.
            let least = if name == "save" { 16 } else { 1 };
            let alignment = problem.alignment.max(least) as u64;
            if address.is_some_and(|address| !address.is_multiple_of(alignment)) {
                let message = format!(
                    "lies at an address that is no multiple of {alignment}, its alignment in the plan"
                );
                return Err(Error::invalid(CALL, name, message));
            }
        }
        // cuBLASLt 13.1 refuses scales at other addresses. That of the greatest value is taken to need the same.
        let scales = [scale_a, scale_b, scale_d].map(|address| ("scales", address));
        for (name, address) in scales.into_iter().chain([("amax", amax)]) {
            if address.is_some_and(|address| !address.is_multiple_of(16)) {
                let message = "has one at an address that is no multiple of 16";
                return Err(Error::invalid(CALL, name, message));
            }
        }
        let (scale_first, scale_second) =
            if chosen.shape.exchanged { (scale_b, scale_a) } else { (scale_a, scale_b) };
        let addresses = Self::addresses(bias, saved, [scale_first, scale_second, scale_d], amax);
        let product = chosen.lock().pop();
        let mut product = match product {
            Some(product) => product,
            None => chosen.template.product(&self.lt)?,
        };
        let factors = (Aligned(alpha), Aligned(beta));
        let (alpha, beta) = (factors.0.0.pointer(), factors.1.0.pointer());
        // A result of 8-bit floats has no old value.
        let c = if eight { std::ptr::null() } else { target as *const _ };
        let needs = Needs { handle: false, workspace: chosen.workspace > 0 };
        let mut run = |raw, space: Option<(u64, usize)>| {
            let status = set_all(&mut product, &addresses)?;
            if status != DONE {
                return Ok(status);
            }
            let (workspace, bytes) = space.unwrap_or((0, 0));
            // SAFETY: the descriptors are alive and are those for which cuBLASLt has chosen the algorithm. The layouts are
            // those of the matrices, which lie within their slices, and whose memory is in the uses, as is that of the
            // extras and of the factors. Factors on the host live until the call has returned.
            unsafe {
                self.lt.library.as_sys().cublasLtMatmul(
                    self.lt.handle.0,
                    product.raw(),
                    alpha,
                    first as *const _,
                    chosen.first.raw(),
                    second as *const _,
                    chosen.second.raw(),
                    beta,
                    c,
                    chosen.c.raw(),
                    target as *mut _,
                    chosen.d.raw(),
                    &raw const chosen.algorithm,
                    workspace as *mut _,
                    bytes,
                    raw,
                )
            }
        };
        // SAFETY: `run` calls cuBLASLt alone, whose work uses the memory in the uses and the workspace.
        let status = unsafe {
            self.lt.blas.submit(CALL, stream, needs, &uses, |raw, _, space| run(raw, space))
        };
        chosen.lock().push(product);
        match status? {
            Ok(DONE) => Ok(()),
            status => Err(self.lt.failed(CALL, status)),
        }
    }

    /// Fails for matrices of other layouts than the plan's.
    pub(crate) fn fits(&self, a: &Mat<'_, A>, b: &Mat<'_, B>, d: &MatMut<'_, D>) -> Result<()> {
        let given = [("a", a.conjugate), ("b", b.conjugate)];
        for ((name, given), planned) in given.into_iter().zip(self.problem.conjugate) {
            if given != planned {
                let message = match given {
                    true => "is conjugated, which the plan was not made for",
                    false => "is not conjugated, but the plan was made for the conjugate",
                };
                return Err(Error::invalid(CALL, name, message));
            }
        }
        let Problem { a: of_a, b: of_b, d: of_d, .. } = &self.problem;
        for (name, given, planned) in
            [("a", a.layout, of_a), ("b", b.layout, of_b), ("d", d.layout, of_d)]
        {
            let given = given.stated();
            if given != *planned {
                let message =
                    format!("has another layout than the plan: {given:?}, not {planned:?}");
                return Err(Error::invalid(CALL, name, message));
            }
        }
        Ok(())
    }
}

impl Chosen {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Product>> {
        // Nothing panics while the lock is held.
        self.products.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the algorithm that the cache has, if cuBLASLt accepts it, or asks for one.
    fn take_algorithm(
        &mut self,
        lt: &Lt,
        problem: &Problem,
        product: &Product,
        key: &[u8],
    ) -> Result<()> {
        let most = lt.blas.inner.workspace();
        let known =
            lt.cache.find(key).and_then(|bytes| bytemuck::try_pod_read_unaligned(&bytes).ok());
        if let Some(data) = known {
            let algorithm = cublasLtMatmulAlgo_t { data };
            let checked = self.ask(lt, |this, result| {
                // SAFETY: the descriptors are alive; `result` is valid for the write.
                unsafe {
                    lt.library.as_sys().cublasLtMatmulAlgoCheck(
                        lt.handle.0,
                        product.raw(),
                        this.first.raw(),
                        this.second.raw(),
                        this.c.raw(),
                        this.d.raw(),
                        &raw const algorithm,
                        result,
                    )
                }
            })?;
            if let (Ok(DONE), result) = checked
                && result.state == DONE
                && result.workspaceSize <= most
            {
                (self.algorithm, self.workspace) = (algorithm, result.workspaceSize);
                self.from_cache = true;
                return Ok(());
            }
        }
        let preference = Preference::of_limits(lt, most, problem.alignment)?;
        let mut count = 0;
        let (status, result) = self.ask(lt, |this, result| {
            // SAFETY: as above, and `count` is valid for the write.
            unsafe {
                lt.library.as_sys().cublasLtMatmulAlgoGetHeuristic(
                    lt.handle.0,
                    product.raw(),
                    this.first.raw(),
                    this.second.raw(),
                    this.c.raw(),
                    this.d.raw(),
                    preference.raw(),
                    1,
                    result,
                    &raw mut count,
                )
            }
        })?;
        let none = match status {
            Ok(DONE) => count < 1 || result.state != DONE || result.workspaceSize > most,
            Ok(cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED) => true,
            status => return Err(lt.failed(CALL, status)),
        };
        if none {
            let message = format!(
                "has no algorithm of {} on this device within {most} bytes of workspace",
                lt.library.name()
            );
            return Err(Error::invalid(CALL, "problem", message));
        }
        (self.algorithm, self.workspace) = (result.algo, result.workspaceSize);
        // Without a cache the next plan takes longer.
        let _ = lt.cache.keep(key, bytemuck::cast_slice(&self.algorithm.data));
        Ok(())
    }

    /// Calls a function that returns an algorithm.
    fn ask(
        &self,
        lt: &Lt,
        function: impl FnOnce(&Self, *mut cublasLtMatmulHeuristicResult_t) -> Status,
    ) -> Result<(Status, cublasLtMatmulHeuristicResult_t)> {
        let mut result = cublasLtMatmulHeuristicResult_t::default();
        let status = lt.blas.context().with_current(|| Ok(function(self, &raw mut result)))?;
        Ok((status, result))
    }
}

/// Names all that the choice of an algorithm depends on.
fn key(lt: &Lt, problem: &Problem, types: &str) -> Result<Vec<u8>> {
    let device = lt.blas.context().device();
    let key = format!(
        "cuBLASLt, cuda-libs {}: {:?}, {}, {:?}, {} multiprocessors, {types}, {problem:?}, {} bytes",
        env!("CARGO_PKG_VERSION"),
        lt.library.version(),
        device.name()?,
        device.compute_capability()?,
        device.multiprocessor_count()?,
        lt.blas.inner.workspace(),
    );
    Ok(key.into_bytes())
}

impl<M, A, B, D> fmt::Debug for Plan<M, A, B, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("problem", &self.problem).finish_non_exhaustive()
    }
}

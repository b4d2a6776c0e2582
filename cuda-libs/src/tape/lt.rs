//! Gradients of products with a bias and an activation.

use std::sync::Arc;

use cuda_safe::{DeviceBuffer, DeviceSlice, Stream};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder};

use super::{Operand, copied, covers, of_result};
use crate::blas::marker::F32;
use crate::error::{Error, Result};
use crate::lt::{Activation, Extras, Lt, Plan, Problem};
use crate::mat::{Layout, Mat, MatMut, Vector, VectorMut};

type Product = Plan<F32, f32, f32, f32>;

/// A layer of a network, `d = activation(a b + bias)`, by plans of cuBLASLt. It may be recorded any number of times; clones
/// share the plans. The derivative of ReLU at 0 is that of [`Activation::ReluGradient`].
///
/// ```no_run
/// # use cuda_libs::lt::{Activation, Lt, Problem};
/// # use cuda_libs::{Layout, Mat, MatMut, Result, tape::lt::Layer};
/// # use cuda_safe::DeviceBuffer;
/// # fn run(t: &mut tape::Recorder<'_>, lt: &Lt, x: Mat<'_, f32>, w: Mat<'_, f32>, bias: &DeviceBuffer<f32>,
/// #     y: MatMut<'_, f32>) -> Result<()> {
/// // 64 samples of 32 features become 16.
/// let problem = Problem::new(Layout::new(64, 32), Layout::new(32, 16), Layout::new(64, 16));
/// let layer = Layer::new(lt, &problem.bias().activation(Activation::Gelu))?;
/// layer.record(t, x, w, Some(bias.into()), y)
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Layer {
    plans: Arc<Plans>,
}

#[derive(Debug)]
struct Plans {
    lt: Lt,
    layouts: [Layout; 3],
    forward: Product,
    /// Multiplies what is in its result by the derivative of the activation. `None` without an activation.
    derivative: Option<Product>,
}

/// A recorded layer.
struct Op {
    plans: Arc<Plans>,
    a: Operand<f32>,
    b: Operand<f32>,
    bias: Option<Handle<f32>>,
    d: Handle<f32>,
    /// What the derivative of the activation needs.
    saved: Option<DeviceBuffer<u8>>,
}

impl Layer {
    /// Makes the plans of a problem of one product, whose activation is ReLU, GELU or none.
    ///
    /// # Errors
    /// As [`Lt::plan`], and [`Error::Invalid`] for a batch, for an option that the layer sets or does not have, or if `d` has
    /// gaps, because the gradient there would not be replaced.
    pub fn new(lt: &Lt, problem: &Problem) -> Result<Self> {
        let invalid = |argument, message| Err(Error::invalid("layer", argument, message));
        let Problem { a, b, d, activation, .. } = *problem;
        if problem.save || problem.scales || problem.amax || problem.on_device {
            return invalid(
                "problem",
                "has more options than a bias, an activation and an alignment",
            );
        }
        if [a, b, d].iter().any(|layout| layout.batch != 1) {
            return invalid("problem", "is of a batch; a layer is one product");
        }
        covers("layer", "d", &d)?;
        let gradient = match activation {
            Activation::Identity => None,
            Activation::Relu => Some(Activation::ReluGradient),
            Activation::Gelu => Some(Activation::GeluGradient),
            _ => return invalid("activation", "is a gradient"),
        };
        let forward = if gradient.is_some() { problem.save() } else { *problem };
        let derivative = gradient.map(|gradient| {
            let (column, row) = (Layout::new(d.rows, 1), Layout::new(1, d.cols));
            lt.plan(&Problem::new(column, row, d).activation(gradient))
        });
        let plans = Plans {
            lt: lt.clone(),
            layouts: [a, b, d],
            forward: lt.plan(&forward)?,
            derivative: derivative.transpose()?,
        };
        Ok(Self { plans: Arc::new(plans) })
    }

    /// Computes `d`, and records it.
    ///
    /// The adjoint multiplies the gradient of `d` by the derivative of the activation, by an epilogue of cuBLASLt, and adds
    /// the products with `a` and `b` and the sums of its columns to the other gradients.
    ///
    /// # Errors
    /// As [`Plan::run`](crate::lt::Plan::run), whose old `d` is not read.
    pub fn record(
        &self,
        recorder: &mut Recorder<'_>,
        a: Mat<'_, f32>,
        b: Mat<'_, f32>,
        bias: Option<DeviceSlice<'_, f32>>,
        d: MatMut<'_, f32>,
    ) -> Result<()> {
        let Plans { forward, layouts: [of_a, of_b, of_d], .. } = &*self.plans;
        forward.fits(&a, &b, &d)?;
        let bias = bias.map(|bias| bias.slice(..of_d.cols.min(bias.len()))).transpose()?;
        let mut custom = recorder.custom();
        let a_handle = custom.reads(a.data, Primal::Entry)?;
        let b_handle = custom.reads(b.data, Primal::Entry)?;
        let bias_handle = bias.map(|bias| custom.reads(bias, Primal::None)).transpose()?;
        let d_handle = custom.overwrites(d.data.as_slice(), Primal::None)?;
        let plans = self.plans.clone();
        Ok(custom.run_with(|stream, _| {
            let mut saved = plans.derivative.as_ref().map(|_| plans.room(stream)).transpose()?;
            let mut extras = Extras::none();
            if let Some(bias) = bias {
                extras = extras.bias(bias);
            }
            if let Some(saved) = &mut saved {
                extras = extras.save(saved);
            }
            forward.run(stream, (1.0, 0.0), a, b, d, extras)?;
            Ok(Op {
                a: Operand { handle: a_handle, layout: *of_a },
                b: Operand { handle: b_handle, layout: *of_b },
                bias: bias_handle,
                d: d_handle,
                saved,
                plans,
            })
        })?)
    }
}

impl Plans {
    /// Allocates what the forward saves. Memory of a graph lives outside of it, so that the graph can run many times.
    fn room(&self, stream: &Stream) -> cuda_safe::Result<DeviceBuffer<u8>> {
        let bytes = self.forward.saved_bytes();
        match stream.is_recording() {
            false => DeviceBuffer::zeroed(stream, bytes),
            true => DeviceBuffer::zeroed(&self.lt.blas.context().stream()?, bytes),
        }
    }
}

impl CustomOp for Op {
    fn name(&self) -> &str {
        "layer"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let Self { plans, a, b, bias, d, saved } = self;
        let Plans { lt, derivative, layouts: [.., of_d], .. } = &**plans;
        let (stream, blas) = (pass.stream().clone(), &lt.blas);
        let Some(gradient) = of_result(pass, *d)? else { return Ok(()) };
        let mut inner = DeviceBuffer::<f32>::zeroed(&stream, gradient.len())?;
        inner.copy_from(&stream, gradient)?;
        if let (Some(plan), Some(saved)) = (derivative, saved) {
            // cuBLASLt has no epilogue without a product: that of zeros, and beta keeps what is there. (With an alpha of 0,
            // cuBLASLt 13.1 leaves out the epilogue, too.)
            let zeros = DeviceBuffer::<f32>::zeroed(&stream, of_d.rows.max(of_d.cols))?;
            let (column, row) = (Mat::new(&zeros, of_d.rows, 1)?, Mat::new(&zeros, 1, of_d.cols)?);
            let d = MatMut::with(&mut inner, *of_d)?;
            plan.run(&stream, (1.0, 1.0), column, row, d, Extras::none().saved(&*saved))?;
        }
        let inner = Mat::with(&inner, *of_d)?;
        if pass.wants(a.handle) {
            let b_value = copied(pass, &stream, b.handle)?;
            if let Some(target) = pass.gradient_mut(a.handle)? {
                let value = Mat::with(&b_value, b.layout)?.transposed();
                blas.gemm(&stream, 1.0, inner, value, 1.0, MatMut::with(target, a.layout)?)?;
            }
        }
        if pass.wants(b.handle) {
            let a_value = copied(pass, &stream, a.handle)?;
            if let Some(target) = pass.gradient_mut(b.handle)? {
                let value = Mat::with(&a_value, a.layout)?.transposed();
                blas.gemm(&stream, 1.0, value, inner, 1.0, MatMut::with(target, b.layout)?)?;
            }
        }
        let Some(bias) = *bias else { return Ok(()) };
        let Some(target) = pass.gradient_mut(bias)? else { return Ok(()) };
        let mut ones = DeviceBuffer::<f32>::zeroed(&stream, of_d.rows)?;
        ones.fill(&stream, 1.0)?;
        let (columns, target) = (inner.transposed(), VectorMut::new(target));
        Ok(blas.gemv(&stream, 1.0, columns, Vector::new(&ones), 1.0, target)?)
    }
}

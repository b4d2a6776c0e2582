//! An operator on burn's tensors: the code of docs/frameworks/burn.md, of which each part stands here word for word.

use burn_cubecl::cubecl::cuda::CudaRuntime;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cuda::Cuda;
use burn_tensor::{DType, Tensor, TensorMetadata, TensorPrimitive};
use cuda_safe::sys::{CUresult, MissingSymbol};
use cuda_safe::{Context, Error, Event, LaunchConfig, Result, Stream, kernels};

kernels! {
    struct Kernels;
    // SAFETY: thread i reads the elements i of `x` and `y`, and writes that of `out`, if i is below n.
    unsafe in r#"
        extern "C" __global__ void axpy(float a, const float *x, const float *y, float *out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n)
                out[i] = a * x[i] + y[i];
        }
    "# {
        safe fn axpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u32)
            where n <= x.len(), n <= y.len(), n <= out.len();
    }
}

/// What the operators need on a device.
pub struct Operators {
    context: Context,
    stream: Stream,
    kernels: Kernels,
}

impl Operators {
    pub fn new(ordinal: usize) -> Result<Self> {
        let context = Context::new(ordinal)?; // the primary context, which CubeCL uses too
        let (stream, kernels) = (context.stream()?, Kernels::load(&context)?);
        Ok(Self { context, stream, kernels })
    }

    /// Enqueues work behind all that was enqueued in the context, and before all that will be. (Drivers from 12.5 on.)
    fn between<R>(&self, work: impl FnOnce(&Stream) -> Result<R>) -> Result<R> {
        let (before, after) = (Event::new(&self.context)?, Event::new(&self.context)?);
        let (driver, context) = (self.context.driver().as_sys(), self.context.as_raw());
        // SAFETY: the context and the event are live.
        let recorded = unsafe { driver.cuCtxRecordEvent(context, before.as_raw()) };
        succeeded("cuCtxRecordEvent", recorded)?;
        self.stream.wait_event(&before)?;
        let result = work(&self.stream);
        after.record(&self.stream)?;
        // SAFETY: as above.
        let waits = unsafe { driver.cuCtxWaitEvent(context, after.as_raw()) };
        succeeded("cuCtxWaitEvent", waits)?;
        result
    }

    /// Returns `a x + y`, in memory of CubeCL.
    pub fn axpy<const D: usize>(
        &self,
        a: f32,
        x: Tensor<Cuda, D>,
        y: Tensor<Cuda, D>,
    ) -> Result<Tensor<Cuda, D>> {
        if x.dims() != y.dims() {
            let shapes = (x.dims(), y.dims());
            return Err(Error::invalid(format!("the shapes of `x` and `y` differ: {shapes:?}")));
        }
        let x: CubeTensor<CudaRuntime> = into_contiguous(x.into_primitive().tensor());
        let y: CubeTensor<CudaRuntime> = into_contiguous(y.into_primitive().tensor());
        if (x.dtype, y.dtype) != (DType::F32, DType::F32) {
            return Err(Error::invalid(format!("elements of {:?} and {:?}", x.dtype, y.dtype)));
        }
        let (client, device, shape) = (x.client.clone(), x.device.clone(), x.shape());
        let len = shape.num_elements();
        let n = u32::try_from(len).map_err(|_| Error::invalid("`x` is too long"))?;
        let out = empty_device_contiguous_dtype(client, device, shape, DType::F32);
        // When CubeCL's thread returns a tensor's memory, it has enqueued all earlier work on the tensor.
        let memory = |tensor: &CubeTensor<CudaRuntime>| {
            let memory = tensor.client.get_resource(tensor.handle.clone());
            memory.map_err(|error| Error::invalid(format!("no memory of a tensor: {error:?}")))
        };
        let memories = [memory(&x)?, memory(&y)?, memory(&out)?];
        let [at_x, at_y, at_out] = memories.each_ref().map(|memory| memory.resource().ptr);
        // SAFETY: the tensors live until this returns, all of CubeCL's work on them is ordered before and after the
        // call, and nothing captures the stream.
        self.between(|stream| unsafe {
            self.context.lend(stream.as_raw(), |lent| {
                let x = lent.slice_from_raw::<f32>(at_x, len)?;
                let y = lent.slice_from_raw::<f32>(at_y, len)?;
                let out = lent.slice_from_raw_mut::<f32>(at_out, len)?;
                self.kernels.axpy(lent, LaunchConfig::cover(len, 256), a, x, y, out, n)
            })
        })?;
        Ok(Tensor::from_primitive(TensorPrimitive::Float(out)))
    }
}

fn succeeded(call: &'static str, code: std::result::Result<CUresult, MissingSymbol>) -> Result<()> {
    match code {
        Ok(CUresult::CUDA_SUCCESS) => Ok(()),
        Ok(code) => Err(Error::driver(call, code)),
        Err(missing) => Err(Error::invalid(missing.to_string())),
    }
}

//! Operators on cudarc's slices: the code of docs/frameworks/cudarc.md, of which each part stands here word for word.

use std::sync::Arc;

use cuda_safe::sys::CUstream;
use cuda_safe::{
    Allocator, Context, DeviceBuffer, Error, LaunchConfig, ForeignMemory, Result, Stream, kernels,
};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

kernels! {
    pub struct Kernels;
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
    pub context: Context,
    pub kernels: Kernels,
}

impl Operators {
    /// `stream` is any stream of the device. It must belong to the primary context, as those of `CudaContext::new` do.
    pub fn new(stream: &CudaStream) -> Result<Self> {
        let context = Context::new(stream.context().ordinal())?;
        let kernels = Kernels::load(&context)?;
        Ok(Self { context, kernels })
    }

    /// Enqueues `out = a x + y`.
    pub fn axpy(
        &self,
        stream: &CudaStream,
        a: f32,
        x: &impl DevicePtr<f32>,
        y: &impl DevicePtr<f32>,
        out: &mut impl DevicePtrMut<f32>,
    ) -> Result<()> {
        let lens = [x.len(), y.len(), out.len()];
        let n = u32::try_from(lens[0]).map_err(|_| Error::invalid("`x` is too long"))?;
        // Makes the stream wait for uses on cudarc's other streams. Dropping the guards records this use.
        let (x, _x) = x.device_ptr(stream);
        let (y, _y) = y.device_ptr(stream);
        let (out, _out) = out.device_ptr_mut(stream);
        // SAFETY: the stream and the slices are borrowed until this function returns, cudarc has ordered other work with
        // the stream, and no capture of it begins or ends meanwhile.
        unsafe {
            self.context.lend(stream.cu_stream().cast(), |lent| {
                let x = lent.slice_from_raw::<f32>(x, lens[0])?;
                let y = lent.slice_from_raw::<f32>(y, lens[1])?;
                let out = lent.slice_from_raw_mut::<f32>(out, lens[2])?;
                self.kernels.axpy(lent, LaunchConfig::cover(lens[0], 256), a, x, y, out, n)
            })
        }
    }

    /// Enqueues `a x + x`, with memory of this crate for the result, which becomes a slice of cudarc.
    pub fn scaled(
        &self,
        stream: &Arc<CudaStream>,
        a: f32,
        x: &CudaSlice<f32>,
    ) -> Result<CudaSlice<f32>> {
        let len = x.len();
        let n = u32::try_from(len).map_err(|_| Error::invalid("`x` is too long"))?;
        let (x, _x) = x.device_ptr(stream);
        // SAFETY: as in `axpy`.
        let out = unsafe {
            self.context.lend(stream.cu_stream().cast(), |lent| {
                let x = lent.slice_from_raw::<f32>(x, len)?;
                let mut out = DeviceBuffer::<f32>::zeroed(lent, len)?;
                self.kernels.axpy(lent, LaunchConfig::cover(len, 256), a, x, x, &mut out, n)?;
                // Given up, it is freed by `cuMemFreeAsync` on the stream, as cudarc's slices are.
                Ok(out.into_raw()?)
            })?
        };
        // SAFETY: the address of `len` numbers, which are initialized when later work on the stream runs.
        let mut out = unsafe { stream.upgrade_device_ptr(out, len) };
        // Records a write, so that cudarc's other streams wait for it.
        drop(out.device_ptr_mut(stream));
        Ok(out)
    }

    /// Enqueues `out = a (a x + x) + x`, with scratch memory from cudarc's allocator.
    pub fn twice(
        &self,
        stream: &Arc<CudaStream>,
        a: f32,
        x: &CudaSlice<f32>,
        out: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let lens = [x.len(), out.len()];
        let n = u32::try_from(lens[0]).map_err(|_| Error::invalid("`x` is too long"))?;
        let (x, _x) = x.device_ptr(stream);
        let (out, _out) = out.device_ptr_mut(stream);
        // SAFETY: as in `axpy`.
        unsafe {
            self.context.lend(stream.cu_stream().cast(), |lent| {
                lent.set_allocator(FromFramework(stream.clone()));
                let x = lent.slice_from_raw::<f32>(x, lens[0])?;
                let out = lent.slice_from_raw_mut::<f32>(out, lens[1])?;
                let mut scratch = DeviceBuffer::<f32>::zeroed(lent, lens[0])?;
                let launch = LaunchConfig::cover(lens[0], 256);
                self.kernels.axpy(lent, launch, a, x, x, &mut scratch, n)?;
                self.kernels.axpy(lent, launch, a, &scratch, x, out, n)
            })
        }
    }
}

/// cudarc's allocator, which is the device's default pool.
struct FromFramework(Arc<CudaStream>);

// SAFETY: the token is the slice that owns the memory, and frees it in the order of the stream. The driver aligns
// memory to 256 bytes.
unsafe impl Allocator for FromFramework {
    fn allocate(&self, _: &Context, bytes: usize, stream: CUstream) -> Result<ForeignMemory> {
        // The legacy stream is 0 for cudarc, and 1 here.
        if self.0.cu_stream().addr().max(1) != stream.addr() {
            return Err(Error::invalid("the allocator is that of another stream"));
        }
        // SAFETY: bytes, which nothing reads before it has written them.
        let memory = unsafe { self.0.alloc::<u8>(bytes) };
        let memory = memory.map_err(|error| Error::invalid(error.to_string()))?;
        let start = memory.device_ptr(&self.0).0;
        Ok(ForeignMemory { start, token: Box::new(memory) })
    }
}

/// Makes a stream of cudarc a stream of this crate, for as long as it is needed.
pub fn adopt(operators: &Operators, stream: &Arc<CudaStream>) -> Result<Stream> {
    // SAFETY: a live stream of the context, which the token keeps. Nothing captures it.
    unsafe { Stream::from_raw(&operators.context, stream.cu_stream().cast(), stream.clone()) }
}

/// Makes a slice of cudarc a buffer of this crate, without a copy. `home` is the slice's stream, adopted.
pub fn keep(home: &Stream, slice: CudaSlice<f32>) -> Result<DeviceBuffer<f32>> {
    let (start, len) = (slice.device_ptr(slice.stream()).0, slice.len());
    // SAFETY: the token owns the memory, which nothing else uses. It is freed in the order of `home`.
    unsafe { DeviceBuffer::from_raw(home, start, len, Some(Box::new(slice))) }
}

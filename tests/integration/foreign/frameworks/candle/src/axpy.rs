//! A custom operation of candle: the code of docs/frameworks/candle.md.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, Error, Layout, Result, Shape, bail};

use crate::operators::Operators;

/// `a x + y`, for `x.apply_op2(&y, axpy)`.
pub struct Axpy {
    pub operators: Arc<Operators>,
    pub a: f32,
}

impl CustomOp2 for Axpy {
    fn name(&self) -> &'static str {
        "axpy"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("axpy runs on CUDA devices")
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        y: &CudaStorage,
        y_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (shape, device) = (x_layout.shape(), x.device());
        if y_layout.shape() != shape {
            bail!("`x` has the shape {shape:?} and `y` {:?}", y_layout.shape());
        }
        // Elements one behind the other; the storage may hold others too.
        let compact = |name: &str, layout: &Layout| {
            let range = layout.contiguous_offsets().map(|(start, end)| start..end);
            range.ok_or_else(|| Error::msg(format!("`{name}` is not contiguous: {layout:?}")))
        };
        let x = x.as_cuda_slice::<f32>()?.slice(compact("x", x_layout)?);
        let y = y.as_cuda_slice::<f32>()?.slice(compact("y", y_layout)?);
        // SAFETY: the kernel writes all of it.
        let mut out = unsafe { device.alloc::<f32>(shape.elem_count())? };
        let stream = device.cuda_stream();
        self.operators.axpy(&stream, self.a, &x, &y, &mut out).map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape.clone()))
    }
}

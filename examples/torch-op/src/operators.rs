//! The operators: they check their arguments, borrow the caller's stream and tensors, and enqueue kernels.

use std::sync::{Mutex, OnceLock, PoisonError};

use cuda_safe::dlpack::abi::DLDeviceType;
use cuda_safe::dlpack::{Exchange, TensorElement, TensorRef};
use cuda_safe::sys::CUstream;
use cuda_safe::{
    Context, DeviceSlice, DeviceSliceMut, Error, LaunchConfig, LentStream, Result, kernels, nvtx,
};
use geom_kernels::GeometryKernels;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign};
use geom_kernels::tape::RecordedMesh;
use tape::{Element as Number, FloatType, Gradients, NotSaved, Op, OpSpec, Param};

kernels! {
    struct Kernels;
    // SAFETY: thread i reads the elements 4 i to 4 i + 3 of `x` and `y` that are below n, and writes those of `out`.
    unsafe in include_str!("axpy.cu") {
        safe fn axpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize)
            where n <= x.len(), n <= y.len(), n <= out.len();
    }
}

/// The stream that an operator uses, and the memory that it needs for itself.
pub(crate) enum Caller {
    /// A stream of the caller, and memory of this library.
    Stream(CUstream),
    /// The current stream and the allocator of a framework.
    Framework(Exchange),
}

/// The context of a device and what was loaded into it. It lives as long as the process.
struct Device {
    ordinal: i32,
    context: Context,
    kernels: Kernels,
    geometry: GeometryKernels,
    signed_distance: OnceLock<Op>,
}

/// An argument of an operator.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    name: &'static str,
    tensor: TensorRef<'a>,
}

/// The tensors that define a signed distance.
pub(crate) struct Query<'a> {
    pub(crate) points: Argument<'a>,
    pub(crate) vertices: Argument<'a>,
    pub(crate) faces: Argument<'a>,
}

/// Computes `out = a x + y`, element by element.
pub(crate) fn axpy(caller: &Caller, a: f32, [x, y, out]: [Argument<'_>; 3]) -> Result<()> {
    let _range = nvtx::range("torch_op::axpy");
    y.has_shape_of(x)?;
    out.has_shape_of(x)?;
    caller.lend(x, |device, lent| {
        let (x, y, out) = (x.view(lent)?, y.view(lent)?, out.view_mut(lent)?);
        let n: usize = x.len();
        let launch = LaunchConfig::cover(n.div_ceil(4), 256);
        device.kernels.axpy(lent, launch, a, x, y, out, n)
    })
}

/// Computes the signed distance of each point.
pub(crate) fn signed_distance(
    caller: &Caller,
    query: &Query<'_>,
    distances: Argument<'_>,
) -> Result<()> {
    let _range = nvtx::range("torch_op::signed_distance");
    distances.has_shape(&query.shape_of_distances()?)?;
    caller.lend(query.points, |device, lent| {
        // All tensors are viewed, and so checked, before anything is enqueued.
        let distances: DeviceSliceMut<'_, f32> = distances.view_mut(lent)?;
        let (points, mesh) = query.mesh(device, lent)?;
        mesh.signed_distances(lent, &PointQueries::at(points), Sign::Normal, distances)
    })
}

/// Computes the gradients by points and vertices from the gradient `g` of the distances. A gradient without elements is
/// not computed.
pub(crate) fn signed_distance_backward(
    caller: &Caller,
    query: &Query<'_>,
    g: Argument<'_>,
    [by_points, by_vertices]: [Argument<'_>; 2],
    deterministic: bool,
) -> Result<()> {
    let _range = nvtx::range("torch_op::signed_distance_backward");
    g.has_shape(&query.shape_of_distances()?)?;
    let parts = [("points", by_points, query.points), ("mesh", by_vertices, query.vertices)];
    caller.lend(query.points, |device, lent| {
        let g: DeviceSlice<'_, f32> = g.view(lent)?;
        let mut gradients = Gradients::new().seed("distances", g);
        if deterministic {
            gradients = gradients.deterministic();
        }
        let mut wanted = false;
        for (parameter, by, of) in parts {
            if !by.is_empty()? {
                by.has_shape_of(of)?;
                let by: DeviceSliceMut<'_, [f32; 3]> = by.view_mut(lent)?;
                gradients = gradients.into_buffer(parameter, by);
                wanted = true;
            }
        }
        if !wanted {
            return Ok(());
        }
        let (points, mesh) = query.mesh(device, lent)?;
        let n = u32::try_from(points.len())
            .map_err(|_| Error::invalid(format!("there are {} points", points.len())))?;
        let arguments = (mesh.differentiable_view(lent)?, points, NotSaved, n);
        let launch = LaunchConfig::cover(n, 128);
        device.signed_distance()?.vjp(lent, launch, arguments, gradients)
    })
}

impl Caller {
    /// Runs `call` on the caller's stream of the device that `first` is on.
    fn lend<R>(
        &self,
        first: Argument<'_>,
        call: impl FnOnce(&Device, &LentStream) -> Result<R>,
    ) -> Result<R> {
        let device = Device::of(first)?;
        let stream = match self {
            Self::Stream(stream) => *stream,
            Self::Framework(exchange) => exchange.current_stream(&device.context)?,
        };
        // SAFETY: the callers of the C functions promise that the stream and the tensors stay valid during the call, and
        // that no capture begins or ends in it.
        unsafe {
            device.context.lend(stream, |lent| {
                if let Self::Framework(exchange) = self {
                    // SAFETY: the framework's allocator serves its current stream, which is `lent`.
                    lent.set_allocator(exchange.allocator());
                }
                call(device, lent)
            })
        }
    }
}

impl Device {
    /// Returns the device of a tensor. Loads the kernels if it is the first.
    fn of(argument: Argument<'_>) -> Result<&'static Self> {
        static DEVICES: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());
        let device = argument.tensor.device();
        if device.device_type != DLDeviceType::CUDA {
            let DLDeviceType(code) = device.device_type;
            return Err(
                argument.error(format!("is on no CUDA device (DLPack's device type {code})"))
            );
        }
        let find = |devices: &[&'static Self]| {
            devices.iter().copied().find(|known| known.ordinal == device.device_id)
        };
        let lock = || DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&lock()) {
            return Ok(known);
        }
        // Outside of the lock, which a fork must not find held for long.
        let loaded = Self::load(device.device_id)?;
        let mut devices = lock();
        Ok(find(&devices).unwrap_or_else(|| {
            let loaded: &'static Self = Box::leak(Box::new(loaded));
            devices.push(loaded);
            loaded
        }))
    }

    fn load(ordinal: i32) -> Result<Self> {
        // The primary context, which CUDA's runtime and so PyTorch use, too.
        let context = Context::new(usize::try_from(ordinal).unwrap_or(usize::MAX))?;
        Ok(Self {
            ordinal,
            kernels: Kernels::load(&context)?,
            geometry: GeometryKernels::new(&context),
            context,
            signed_distance: OnceLock::new(),
        })
    }

    /// Returns the operation with its adjoint, which the first call generates.
    fn signed_distance(&self) -> Result<&Op> {
        if let Some(known) = self.signed_distance.get() {
            return Ok(known);
        }
        let spec = OpSpec::new("signed_distance")
            .param(RecordedMesh::param("mesh"))
            .param(Param::buffer("points", Number::vector(FloatType::F32, 3)).len("n").active())
            .param(Param::buffer("distances", Number::F32).len("n").active())
            .param(Param::value("n"));
        let program = geom_kernels::program(include_str!("signed_distance.cu"));
        // SAFETY: thread i touches element i of each buffer, and only if i < n.
        let op = unsafe { spec.differentiate(&self.context, &program) }?;
        Ok(self.signed_distance.get_or_init(|| op))
    }
}

impl<'a> Query<'a> {
    /// Returns the points, and the mesh with a hierarchy over its faces, which is built in each call: a call depends on
    /// its tensors alone, so a change of them in place is seen. Nothing waits for the device.
    fn mesh<'v>(
        &'v self,
        device: &Device,
        lent: &'v LentStream,
    ) -> Result<(DeviceSlice<'v, [f32; 3]>, Mesh<'v>)> {
        let points = self.points.view(lent)?;
        let vertices: DeviceSlice<'v, [f32; 3]> = self.vertices.view(lent)?;
        // PyTorch has no arithmetic of unsigned integers. A negative index is out of range as an unsigned one.
        let faces: DeviceSlice<'v, [i32; 3]> = self.faces.view(lent)?;
        let options = MeshOptions::default().build_mode(BuildMode::Fast).skip_validation();
        let mesh =
            Mesh::build(lent, &device.geometry, vertices, faces.cast::<[u32; 3]>()?, options)?;
        Ok((points, mesh))
    }

    fn shape_of_distances(&self) -> Result<Vec<usize>> {
        let mut shape = self.points.shape()?;
        shape.pop();
        Ok(shape)
    }
}

impl<'a> Argument<'a> {
    pub(crate) fn new(name: &'static str, tensor: impl Into<TensorRef<'a>>) -> Self {
        Self { name, tensor: tensor.into() }
    }

    fn view<'v, T: TensorElement>(&self, lent: &'v LentStream) -> Result<DeviceSlice<'v, T>>
    where
        'a: 'v,
    {
        lent.view(self.tensor).map_err(|error| self.error(error))
    }

    fn view_mut<'v, T: TensorElement>(&self, lent: &'v LentStream) -> Result<DeviceSliceMut<'v, T>>
    where
        'a: 'v,
    {
        lent.view_mut(self.tensor).map_err(|error| self.error(error))
    }

    fn shape(&self) -> Result<Vec<usize>> {
        self.tensor.shape().map_err(|error| self.error(error))
    }

    fn is_empty(&self) -> Result<bool> {
        Ok(self.shape()?.contains(&0))
    }

    fn has_shape_of(&self, other: Argument<'_>) -> Result<()> {
        self.has_shape(&other.shape()?)
    }

    fn has_shape(&self, wanted: &[usize]) -> Result<()> {
        let shape = self.shape()?;
        match shape == wanted {
            true => Ok(()),
            false => {
                Err(self.error(format!("has the shape {shape:?}, and {wanted:?} is expected")))
            }
        }
    }

    /// Returns an error of this argument.
    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("argument `{}`: {what}", self.name))
    }
}

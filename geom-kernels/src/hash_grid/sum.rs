//! Sums over neighbours, of terms that a snippet of CUDA C++ computes.

use std::fmt;
use std::marker::PhantomData;

use cuda_safe::{Error, Kernel, KernelArg, KernelSource, Result, Stream, WriteView};

use super::{GridQueries, HashGrid};
use crate::GeometryKernels;
use crate::headers::program;
use crate::lengths::same_length;
use crate::real::Real;

/// A sum over the neighbours of each query, or any other loop over them.
///
/// The snippet is one or more C++ statements that run for each neighbour, with these variables:
/// - `sum`, of the output's type, which is initially zero and becomes the query's result;
/// - `n`, the [`geom::Neighbor`](crate::headers): `n.position`, `n.delta` (the query less that),
///   `n.distance_squared`, `n.index`;
/// - `x`, the query's position; `i`, its index; `r`, its radius;
/// - `data`, the argument of [`run_with`](Self::run_with).
///
/// Neighbours come in the same order on every run, so the sum has the same bits.
///
/// ```no_run
/// # use cuda_safe::{Context, DeviceBuffer, Result, vector::Float4};
/// # use geom_kernels::{GeometryKernels, hash_grid::{HashGrid, NeighborSum, GridQueries}};
/// # fn sums(stream: &cuda_safe::Stream, geometry: &GeometryKernels, grid: &HashGrid<f32>) -> Result<()> {
/// // SAFETY: float4 is Float4, and the snippet touches nothing but what it is given.
/// let sum = unsafe {
///     NeighborSum::<f32, Float4>::compile(
///         geometry,
///         "float4",
///         None,
///         "sum.x += n.position.x; sum.y += n.position.y; sum.z += n.position.z; sum.w += 1.0f;",
///     )
/// }?;
/// let mut sums = DeviceBuffer::<Float4>::zeroed(stream, grid.len())?;
/// sum.run(stream, grid, &GridQueries::at_grid_points(0.1), &mut sums)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NeighborSum<T, Out> {
    kernel: Kernel,
    has_data: bool,
    types: PhantomData<fn(T) -> Out>,
}

impl<T: Real, Out: Copy + 'static> NeighborSum<T, Out> {
    /// Compiles a snippet for the device, or finds it in the cache. `output` is the C++ type of the sum, and `data` the
    /// type of the data for `run_with`, if there is any.
    ///
    /// # Errors
    /// [`ErrorKind::Compile`](cuda_safe::ErrorKind::Compile) with the compiler's log, in which the file name of the
    /// snippet is `snippet`; otherwise an error of loading.
    ///
    /// # Safety
    /// `output` has the layout of `Out`, and any bytes that the snippet writes to a sum are a valid `Out`. The
    /// snippet accesses only the memory that `data` leads to, and has no data races: one thread runs it for each
    /// query.
    pub unsafe fn compile(
        geometry: &GeometryKernels,
        output: &str,
        data: Option<&str>,
        snippet: &str,
    ) -> Result<Self> {
        let text = text(T::CUDA, output, data.unwrap_or("unsigned"), snippet);
        let program = program(text).name("neighbor_sum.cu");
        let module = program.load_kernels(geometry.context(), &[])?;
        Ok(Self {
            kernel: module.kernel("neighbor_sum")?,
            has_data: data.is_some(),
            types: PhantomData,
        })
    }

    /// Computes the sum for each query, in the caller's order, by a snippet without data.
    ///
    /// # Errors
    /// `sums` has another length than there are queries; the snippet was compiled with data; otherwise as
    /// [`HashGrid::count_neighbors`].
    pub fn run<'a>(
        &self,
        stream: &Stream,
        grid: &HashGrid<T>,
        queries: &GridQueries<'_, T>,
        sums: impl WriteView<'a, Out>,
    ) -> Result<()> {
        if self.has_data {
            return Err(Error::invalid("the snippet was compiled with data")
                .with_hint("`run_with` is given them"));
        }
        // SAFETY: a number leads to no memory.
        unsafe { self.run_with(stream, grid, queries, 0u32, sums) }
    }

    /// Works like [`run`](Self::run), with data for the snippet.
    ///
    /// # Errors
    /// As `run`; `data` has another size than the type that the snippet was compiled for.
    ///
    /// # Safety
    /// `data` has the type that was given when the snippet was compiled, and holds, or leads to, as much memory as
    /// the snippet accesses for these queries.
    pub unsafe fn run_with<'b>(
        &self,
        stream: &Stream,
        grid: &HashGrid<T>,
        queries: &GridQueries<'_, T>,
        data: impl KernelArg,
        sums: impl WriteView<'b, Out>,
    ) -> Result<()> {
        let mut sums = sums.write_view();
        let n = queries.check(grid)?;
        same_length("sums", sums.len(), n)?;
        let prepared = grid.prepare(stream, queries, n)?;
        let (launch, pairs) = (prepared.launch(), prepared.pairs());
        let args = (grid.view(), &prepared, pairs, &mut sums, data);
        // SAFETY: each query writes the sum of its own index, if that is below n; the rest was promised when the
        // snippet was compiled, and by the caller. `kernels!` can't declare the kernel, whose text and types are only
        // known at run time.
        unsafe { self.kernel.launch(stream, launch, args) }
    }
}

/// Returns the program around a snippet.
fn text(real: &str, output: &str, data: &str, snippet: &str) -> String {
    format!(
        "#include <geom/hash_grid/batch.cuh>

using Real = {real};
using Output = {output};
using Data = {data};

__device__ __forceinline__ void take(
    Output& sum, const geom::Neighbor<Real>& n, const geom::vec3<Real>& x, Real r, unsigned i, Data data
) {{
#line 1 \"snippet\"
{snippet}
#line 16 \"neighbor_sum.cu\"
}}

__global__ void __launch_bounds__(128) neighbor_sum(
    geom::HashGrid<Real> grid, geom::grid::Queries<Real> queries, unsigned pairs, Output* sums, Data data
) {{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries.length)
        return;
    geom::grid::OneQuery<Real> query(grid, queries, i);
    if (!query.valid)
        return;
    Output sum{{}};
    geom::for_each_neighbor(
        grid, query.x, query.radius,
        [&](const geom::Neighbor<Real>& n) {{
            if (geom::grid::counts(pairs, query.index, n.index))
                take(sum, n, query.x, query.radius, query.index, data);
        }},
        query.group
    );
    sums[query.index] = sum;
}}
"
    )
}

impl<T, Out> fmt::Debug for NeighborSum<T, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeighborSum").field("kernel", &self.kernel).finish()
    }
}

//! The target of the fit: a bear of balls and rods that flow into each other, as a volume of distances.

use cuda_safe::Stream;
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{MarchingCubes, VolumeField};
use geom_kernels::mesh::{Mesh, MeshOptions};
use geom_kernels::volume::nanovdb::{GridClass, Map};
use geom_kernels::volume::{DenseOptions, Keep, Volume, VolumeOptions};

type Error = Box<dyn std::error::Error>;

/// The cube from minus this on to this has the volume.
const HALF: f64 = 1.3;

/// A rod with round ends: all within `radius` of the way from `from` to `to`.
struct Rod {
    from: [f64; 3],
    to: [f64; 3],
    radius: f64,
    /// How far around it what it touches is filled in.
    blend: f64,
}

const fn ball(at: [f64; 3], radius: f64, blend: f64) -> Rod {
    Rod { from: at, to: at, radius, blend }
}

/// Belly, head, snout, ears, arms and legs; what is on the right is on the left, too.
const RODS: [Rod; 7] = [
    Rod { from: [0.0, -0.36, 0.0], to: [0.0, -0.20, 0.0], radius: 0.46, blend: 0.0 },
    ball([0.0, 0.46, 0.03], 0.39, 0.16),
    Rod { from: [0.0, 0.36, 0.24], to: [0.0, 0.35, 0.36], radius: 0.16, blend: 0.10 },
    ball([0.31, 0.80, 0.0], 0.155, 0.12),
    Rod { from: [0.40, 0.0, 0.08], to: [0.66, -0.14, 0.24], radius: 0.165, blend: 0.24 },
    Rod { from: [0.26, -0.64, 0.12], to: [0.42, -0.70, 0.56], radius: 0.19, blend: 0.24 },
    ball([0.0, -0.56, -0.46], 0.12, 0.12),
];

/// How far a point is from the bear, negative inside. Nearly: at most as much, and less where parts meet.
pub(crate) fn distance(point: [f64; 3]) -> f64 {
    let point = [point[0].abs(), point[1], point[2]];
    RODS.iter().fold(f64::INFINITY, |distance, rod| {
        let way: [f64; 3] = std::array::from_fn(|axis| point[axis] - rod.from[axis]);
        let along: [f64; 3] = std::array::from_fn(|axis| rod.to[axis] - rod.from[axis]);
        let length = dot(along, along);
        let part = if length > 0.0 { (dot(way, along) / length).clamp(0.0, 1.0) } else { 0.0 };
        let off: [f64; 3] = std::array::from_fn(|axis| way[axis] - part * along[axis]);
        smallest(distance, dot(off, off).sqrt() - rod.radius, rod.blend)
    })
}

/// The smaller one, and less where they differ by less than `blend` (I. Quilez, "Smooth minimum", 2013).
fn smallest(a: f64, b: f64, blend: f64) -> f64 {
    let near = (blend - (a - b).abs()).max(0.0);
    a.min(b) - if near > 0.0 { near * near / (4.0 * blend) } else { 0.0 }
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|axis| a[axis] * b[axis]).sum()
}

/// Its distances, at `resolution` voxels along each edge. All of them are stored: a mesh that is far away is to
/// find its way.
///
/// # Errors
/// The error that the driver returns.
pub(crate) fn make(
    stream: &Stream,
    geometry: &GeometryKernels,
    resolution: u16,
) -> Result<Volume, Error> {
    let voxel = 2.0 * HALF / f64::from(resolution);
    // The voxels' middles are spread evenly about 0.
    let first = 0.5 * voxel - HALF;
    let options = VolumeOptions::new(HALF as f32)
        .name("bear")
        .class(GridClass::LEVEL_SET)
        .map(Map::uniform(voxel, [first; 3])?);
    let options = DenseOptions::new(options).keep(Keep::All);
    let dims = [usize::from(resolution); 3];
    Ok(Volume::from_fn(stream, geometry, dims, options, |at| {
        distance(at.map(|i| first + f64::from(i) * voxel)) as f32
    })?)
}

/// The surface in it, to compare with.
///
/// # Errors
/// The error that the driver returns.
pub(crate) fn surface(
    stream: &Stream,
    geometry: &GeometryKernels,
    volume: &Volume,
) -> cuda_safe::Result<Mesh<'static>> {
    let field = VolumeField::build(stream, geometry, volume)?;
    let found = MarchingCubes::new(geometry).extract(stream, &field, 0.0)?;
    found.into_mesh(stream, geometry, MeshOptions::default().topology())
}

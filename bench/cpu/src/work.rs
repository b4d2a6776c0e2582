//! The rows: inputs, ours, and parry3d's.

use std::error::Error;
use std::path::Path;
use std::rc::Rc;

use geom_kernels::Ray;
use geom_kernels::hash_grid::GridOptions;
use geom_kernels::mesh::{ClosestPoint, MeshOptions, NO_FACE, RayHit, TriangleMesh, shapes};
use geom_kernels::structures::hash_grid::{GridQueries, HashGrid};
use geom_kernels::structures::volume::{Samples, Volume};
use geom_kernels::structures::{Limit, Mesh};
use geom_kernels::volume::Interpolation;
use geom_kernels::volume::nanovdb::{Builder, Grid, write};
use parry3d::math::Vector;
use parry3d::query::{PointQuery as _, RayCast as _};
use parry3d::shape::TriMesh;

type Ours = Box<dyn FnMut() -> cuda_safe::Result<()> + Send>;

/// A row.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) ours: Ours,
    /// Returns whether there was something to do.
    pub(crate) parry: Option<Box<dyn FnMut() -> bool>>,
}

/// SplitMix64, from -1 to 1.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn float(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn point(&mut self, size: f32) -> [f32; 3] {
        [0; 3].map(|_| size * self.float())
    }
}

fn vector([x, y, z]: [f32; 3]) -> Vector {
    Vector::new(x, y, z)
}

fn near(what: &str, ours: f32, theirs: f32) -> Result<(), Box<dyn Error>> {
    let same = (ours - theirs).abs() <= 1e-4 * theirs.abs().max(1.0) || ours == theirs;
    if same { Ok(()) } else { Err(format!("{what}: {ours} instead of {theirs}").into()) }
}

/// A closed mesh of 20,480 faces: a sphere with bumps.
fn stone() -> Result<TriangleMesh, Box<dyn Error>> {
    let mut mesh = shapes::icosphere(5, 1.0)?;
    for point in &mut mesh.points {
        let [x, y, z] = *point;
        let by = 1.0 + 0.1 * (5.0 * x).sin() * (4.0 * y).cos() + 0.05 * (9.0 * z).sin();
        *point = point.map(|x| x * by);
    }
    Ok(mesh)
}

fn closest(
    name: &'static str,
    (mesh, parry): (&Mesh, &Rc<TriMesh>),
    points: Vec<[f32; 3]>,
) -> Result<Work, Box<dyn Error>> {
    let nothing = ClosestPoint {
        position: [0.0; 3],
        distance_squared: 0.0,
        face: NO_FACE,
        u: 0.0,
        v: 0.0,
        feature: 0,
    };
    let mut found = vec![nothing; points.len()];
    mesh.closest_points(&points, Limit::None, &mut found)?;
    for (found, point) in found.iter().zip(&points) {
        let theirs = parry.project_local_point(vector(*point), false).point - vector(*point);
        near(name, found.distance_squared.sqrt(), theirs.length())?;
    }
    let (mesh, parry, asked) = (mesh.clone(), Rc::clone(parry), points.clone());
    let mut theirs = vec![Vector::ZERO; points.len()];
    Ok(Work {
        name,
        ours: Box::new(move || mesh.closest_points(&points, Limit::None, &mut found)),
        parry: Some(Box::new(move || {
            for (to, point) in theirs.iter_mut().zip(&asked) {
                *to = parry.project_local_point(vector(*point), false).point;
            }
            std::hint::black_box(&theirs);
            true
        })),
    })
}

fn hits((mesh, parry): (&Mesh, &Rc<TriMesh>), rays: Vec<Ray>) -> Result<Work, Box<dyn Error>> {
    let none = RayHit { t: 0.0, u: 0.0, v: 0.0, face: 0, front: 0 };
    let mut found = vec![none; rays.len()];
    mesh.closest_hits(&rays, &mut found)?;
    let cast = |parry: &TriMesh, ray: &Ray| {
        let ray = parry3d::query::Ray::new(vector(ray.origin), vector(ray.direction));
        parry
            .cast_local_ray_and_get_normal(&ray, f32::MAX, false)
            .map_or(f32::INFINITY, |hit| hit.time_of_impact)
    };
    let mut differ = 0;
    for (found, ray) in found.iter().zip(&rays) {
        // parry's rays may pass between two faces.
        differ += usize::from(near("rays", found.t, cast(parry, ray)).is_err());
    }
    if differ > 2 {
        return Err(format!("{differ} rays differ").into());
    }
    let (mesh, parry, shot) = (mesh.clone(), Rc::clone(parry), rays.clone());
    let mut theirs = vec![0.0; rays.len()];
    Ok(Work {
        name: "rays",
        ours: Box::new(move || mesh.closest_hits(&rays, &mut found)),
        parry: Some(Box::new(move || {
            for (to, ray) in theirs.iter_mut().zip(&shot) {
                *to = cast(&parry, ray);
            }
            std::hint::black_box(&theirs);
            true
        })),
    })
}

/// Builds a grid of the points, and sums over their neighbours.
fn sums(points: Vec<[f32; 3]>, radius: f32) -> Result<(Work, Vec<f32>), Box<dyn Error>> {
    let mut grid = HashGrid::build(&points, radius, GridOptions::default())?;
    let mut sums = vec![0.0f32; points.len()];
    let mut run = move || {
        grid.rebuild(&points, radius)?;
        let queries = GridQueries::at_grid_points(radius);
        grid.neighbor_sums(&queries, &mut sums, |sum, near, at| {
            *sum += at.radius * at.radius - near.distance_squared;
        })?;
        Ok::<_, cuda_safe::Error>(sums.clone())
    };
    let first = run()?;
    Ok((Work { name: "grid sums", ours: Box::new(move || run().map(|_| ())), parry: None }, first))
}

/// A band of distances from a sphere.
fn band() -> Result<Grid, Box<dyn Error>> {
    let mut builder = Builder::<f32>::new(3.0);
    for x in -64..65i32 {
        for y in -64..65i32 {
            for z in -64..65i32 {
                let distance = f64::from(x * x + y * y + z * z).sqrt() - 60.0;
                if distance.abs() < 3.0 {
                    builder.set([x, y, z], distance as f32);
                }
            }
        }
    }
    Ok(builder.build()?)
}

fn samples(grid: Grid, points: Vec<[f32; 3]>) -> Result<(Work, Vec<f32>), Box<dyn Error>> {
    let volume = Volume::<f32>::new(grid)?;
    let mut values = vec![0.0; points.len()];
    volume.sample(&Samples::index(&points), Interpolation::Trilinear, &mut values)?;
    let first = values.clone();
    let run =
        move || volume.sample(&Samples::index(&points), Interpolation::Trilinear, &mut values);
    Ok((Work { name: "linear samples", ours: Box::new(run), parry: None }, first))
}

/// Creates the rows, and writes their inputs and results to `folder`.
pub(crate) fn rows(folder: &Path) -> Result<Vec<Work>, Box<dyn Error>> {
    let save = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes);
    let mut random = Random(7);
    let host = stone()?;
    save("mesh_points", bytemuck::cast_slice(&host.points))?;
    save("mesh_faces", bytemuck::cast_slice(&host.faces))?;
    let mesh = Mesh::new(&host, MeshOptions::default())?;
    let points = host.points.iter().map(|p| vector(*p)).collect();
    let parry = Rc::new(TriMesh::new(points, host.faces.clone())?);
    let both = (&mesh, &parry);

    let anywhere: Vec<_> = (0..20_000).map(|_| random.point(1.2)).collect();
    let around: Vec<_> = (0..20_000)
        .map(|_| {
            let (p, off) = (random.point(1.0), random.point(0.05));
            let by = 1.0 / p.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-3);
            std::array::from_fn(|axis| p[axis] * by + off[axis])
        })
        .collect();
    save("closest_box", bytemuck::cast_slice(&anywhere))?;
    save("closest_surface", bytemuck::cast_slice(&around))?;
    let rays: Vec<Ray> = (0..20_000)
        .map(|_| {
            let (from, to) = (random.point(3.0), random.point(0.8));
            Ray::new(from, std::array::from_fn(|axis| to[axis] - from[axis]))
        })
        .collect();
    save("rays", bytemuck::cast_slice(&rays))?;

    let cloud: Vec<_> = (0..100_000).map(|_| random.point(1.0)).collect();
    let (grid_sums, expected) = sums(cloud.clone(), 0.05)?;
    save("grid_points", bytemuck::cast_slice(&cloud))?;
    save("grid_expected", bytemuck::cast_slice(&expected))?;

    let grid = band()?;
    save("volume.nvdb", &write(std::slice::from_ref(&grid), &Default::default())?)?;
    let places: Vec<_> = (0..1_000_000).map(|_| random.point(64.0)).collect();
    let (linear, values) = samples(grid, places.clone())?;
    save("sample_points", bytemuck::cast_slice(&places))?;
    save("sample_expected", bytemuck::cast_slice(&values))?;

    let mut rows = vec![
        closest("closest points, box", both, anywhere)?,
        closest("closest points, surface", both, around)?,
        hits(both, rays)?,
        grid_sums,
        linear,
    ];
    rows.push(crate::grains::frame(&save)?);
    Ok(rows)
}

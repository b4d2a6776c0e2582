//! Gradients of what `geom-kernels` records on a tape.

use bytemuck::Zeroable;
use cuda_safe::DeviceBuffer;
use geom_kernels::Real;
use geom_kernels::isosurface::{Counts, Field, Output};
use geom_kernels::mesh::{ClosestPoint, Mesh, RayHit, Surface, Topology};
use geom_kernels::tape::{DifferentiableValue, Summed};
use geom_kernels::volume::{IndexedValues, Volume};
use tape::{Differentiable, Tape};

use super::book::Book;
use super::calls::{self, Got, Lab, Plain};
use super::inputs::{self, Kind, SIZES, face_points, grid, hills, positions, rays, rng, stone};
use super::isosurface::{ROWS, some_blocks};
use super::volume::of_smooth_kinds;
use test_harness::{Failure, TestDevice, TestResult, ensure};

/// A gradient: what it is of, its bytes, whether they are of f64, and whether one thread alone writes each number.
pub(super) struct By {
    name: &'static str,
    bytes: Vec<u8>,
    wide: bool,
    own: bool,
    tolerance: f64,
}

/// A gradient that one thread writes, of f32.
pub(super) fn own(name: &'static str, bytes: Vec<u8>) -> By {
    By { name, bytes, wide: false, own: true, tolerance: 1e-4 }
}

/// A gradient that several threads add to, of f32.
pub(super) fn shared(name: &'static str, bytes: Vec<u8>) -> By {
    By { name, bytes, wide: false, own: false, tolerance: 1e-4 }
}

impl By {
    /// Of f64, if `wide`.
    pub(super) fn wide(self, wide: bool) -> Self {
        Self { wide, tolerance: if wide { 1e-10 } else { 1e-4 }, ..self }
    }

    /// By arithmetic in f32, whatever it is stored in.
    fn rough(self) -> Self {
        Self { tolerance: 1e-4, ..self }
    }

    fn numbers(&self) -> Vec<f64> {
        match self.wide {
            true => self.bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect(),
            false => (self.bytes.chunks_exact(4))
                .map(|x| f64::from(bytemuck::pod_read_unaligned::<f32>(x)))
                .collect(),
        }
    }

    /// Up to the order of sums.
    fn is_near(&self, other: &Self) -> bool {
        let (a, b) = (self.numbers(), other.numbers());
        let most = a.iter().filter(|x| x.is_finite()).fold(1e-3f64, |most, x| most.max(x.abs()));
        let bound = most * self.tolerance;
        let near = |(a, b): (&f64, &f64)| {
            a.to_bits() == b.to_bits() || (a - b).abs() <= bound || (a.is_nan() && b.is_nan())
        };
        a.len() == b.len() && a.iter().zip(&b).all(near)
    }
}

/// A pass on a deterministic tape, whose bits are recorded, and one on another: of that the bits of gradients that
/// one thread writes, and the rest is near.
pub(super) fn passes(book: &mut Book, name: &str, [fixed, any]: [Vec<By>; 2]) -> TestResult {
    ensure!(fixed.len() == any.len());
    for (fixed, any) in fixed.iter().zip(&any) {
        book.put(format!("{name}/by_{}", fixed.name), &fixed.bytes);
        if any.own {
            book.put(format!("{name}/any/by_{}", any.name), &any.bytes);
        } else if !fixed.is_near(any) {
            let name = format!("{name}/by_{}", any.name);
            return Err(Failure::new(format!("{name} is another one without determinism")));
        }
    }
    Ok(())
}

const N: usize = 120;

pub(super) fn of_meshes(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    for (name, host) in [("stone", stone()?), ("hills", hills(8))] {
        let [.., (_, builder)] = calls::BUILDERS;
        let mesh = calls::mesh(&lab, &host, (builder, true))?;
        for n in SIZES.into_iter().skip(1).chain([N]) {
            at_points(&lab, book, &format!("{name}/{n}"), &mesh, n)?;
            of_faces(&lab, book, &format!("{name}/{n}"), &mesh, n)?;
        }
        let (points, faces) = (lab.up(&host.points)?, lab.up(&host.faces)?);
        let surface = Surface::new(&points, &faces)?;
        let topology = Topology::new(&lab.geometry);
        let n = host.points.len();
        let seeds = inputs::points(&mut rng(703), n, 1.0);
        let name = format!("{name}/vertex_normals");
        passes_of(&lab, book, &name, (&seeds, n), |deterministic, out| {
            let tape = calls::recorded(&lab, deterministic, |t| {
                t.watch(&points)?;
                topology.record_vertex_normals(t, surface, out)
            })?;
            Ok((tape, |tape: &Tape| {
                Ok(vec![shared("vertices", calls::gradient(&lab, tape, &points)?)])
            }))
        })?;
    }
    Ok(())
}

/// The gradients by points that a mesh was asked about, and by its vertices.
fn by_points<'a>(
    lab: &'a Lab,
    mesh: &'a Mesh<'_>,
    there: &'a DeviceBuffer<[f32; 3]>,
) -> impl Fn(&Tape) -> Got<Vec<By>> + use<'a> {
    let vertices = mesh.points();
    move |tape| {
        Ok(vec![
            own("points", calls::gradient(lab, tape, there)?),
            shared("vertices", calls::gradient(lab, tape, vertices)?),
        ])
    }
}

/// Closest points, distances, signed distances, hits of rays.
fn at_points(lab: &Lab, book: &mut Book, name: &str, mesh: &Mesh<'_>, n: usize) -> TestResult {
    let mut rng = rng(700);
    let there = lab.up(&inputs::points(&mut rng, n, 1.2))?;
    let queries = calls::points_at(&there, false);
    let weights = rng.floats(6 * n);
    let of_points = |i: usize| ClosestPoint {
        position: [weights[i], weights[n + i], weights[2 * n + i]],
        distance_squared: weights[3 * n + i],
        u: weights[4 * n + i],
        v: weights[5 * n + i],
        ..ClosestPoint::zeroed()
    };
    let seeds: Vec<ClosestPoint> = (0..n).map(of_points).collect();
    passes_of(lab, book, &format!("{name}/closest"), (&seeds, n), |deterministic, out| {
        let tape = calls::recorded(lab, deterministic, |t| {
            t.watch(&there)?;
            t.watch(mesh.points())?;
            mesh.record_closest_points(t, &queries, out)
        })?;
        Ok((tape, by_points(lab, mesh, &there)))
    })?;
    let signs = calls::SIGNS.map(|(name, sign)| (name, Some(sign)));
    for (kind, sign) in [("distances", None)].into_iter().chain(signs) {
        let given = (&weights[..n], n);
        passes_of::<f32, _>(lab, book, &format!("{name}/{kind}"), given, |deterministic, out| {
            let tape = calls::recorded(lab, deterministic, |t| {
                t.watch(&there)?;
                t.watch(mesh.points())?;
                match sign {
                    None => mesh.record_distances(t, &queries, out),
                    Some(sign) => mesh.record_signed_distances(t, &queries, sign, out),
                }
            })?;
            Ok((tape, by_points(lab, mesh, &there)))
        })?;
    }
    let shot = lab.up(&rays(&mut rng, n, 1.0))?;
    let of_rays = |i: usize| RayHit {
        t: weights[i],
        u: weights[n + i],
        v: weights[2 * n + i],
        ..RayHit::zeroed()
    };
    let seeds: Vec<RayHit> = (0..n).map(of_rays).collect();
    let name = format!("{name}/hits");
    passes_of(lab, book, &name, (&seeds, n), |deterministic, out| {
        let tape = calls::recorded(lab, deterministic, |t| {
            t.watch(&shot)?;
            t.watch(mesh.points())?;
            mesh.record_closest_hits(t, &shot, out)
        })?;
        Ok((tape, |tape: &Tape| {
            Ok(vec![
                own("rays", calls::gradient(lab, tape, &shot)?),
                shared("vertices", calls::gradient(lab, tape, mesh.points())?),
            ])
        }))
    })
}

/// The two passes of one recorded call: it records to memory for `n` results, and says which gradients there are.
fn passes_of<T, F>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (seeds, n): (&[T::Gradient], usize),
    mut record: impl FnMut(bool, &mut DeviceBuffer<T>) -> Got<(Tape, F)>,
) -> TestResult
where
    T: Differentiable + Plain,
    T::Gradient: Plain,
    F: Fn(&Tape) -> Got<Vec<By>>,
{
    let mut out = calls::output::<T>(lab, n)?;
    let mut pass = |deterministic: bool| {
        let (mut tape, gradients) = record(deterministic, &mut out)?;
        if deterministic {
            book.put(format!("{name}/result"), &lab.down(&out)?);
        }
        calls::backward_from(lab, &mut tape, &out, seeds)?;
        gradients(&tape)
    };
    let both = [pass(true)?, pass(false)?];
    passes(book, name, both)
}

/// Positions, normals and attributes at points of faces.
fn of_faces(lab: &Lab, book: &mut Book, name: &str, mesh: &Mesh<'_>, n: usize) -> TestResult {
    let mut rng = rng(710);
    let (vertices, faces) = (mesh.points().len(), mesh.faces().len());
    let there = lab.up(&face_points(&mut rng, n, faces))?;
    let seeds = inputs::points(&mut rng, n, 1.0);
    passes_of(lab, book, &format!("{name}/positions"), (&seeds, n), |deterministic, out| {
        let tape = calls::recorded(lab, deterministic, |t| {
            t.watch(&there)?;
            t.watch(mesh.points())?;
            mesh.record_positions_at(t, &there, out)
        })?;
        Ok((tape, |tape: &Tape| {
            Ok(vec![
                own("places", calls::gradient(lab, tape, &there)?),
                shared("vertices", calls::gradient(lab, tape, mesh.points())?),
            ])
        }))
    })?;
    passes_of(lab, book, &format!("{name}/normals"), (&seeds, n), |deterministic, out| {
        let tape = calls::recorded(lab, deterministic, |t| {
            t.watch(mesh.points())?;
            mesh.record_normals_at(t, &there, out)
        })?;
        Ok((tape, |tape: &Tape| {
            Ok(vec![shared("vertices", calls::gradient(lab, tape, mesh.points())?)])
        }))
    })?;
    let data = lab.up(&inputs::points(&mut rng, vertices, 1.0))?;
    passes_of(lab, book, &format!("{name}/attributes"), (&seeds, n), |deterministic, out| {
        let tape = calls::recorded(lab, deterministic, |t| {
            t.watch(&there)?;
            t.watch(&data)?;
            mesh.record_attributes_at(t, &there, &data, out)
        })?;
        Ok((tape, |tape: &Tape| {
            Ok(vec![
                own("places", calls::gradient(lab, tape, &there)?),
                shared("attributes", calls::gradient(lab, tape, &data)?),
            ])
        }))
    })
}

pub(super) fn of_volumes(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K>(lab: &Lab, book: &mut Book, indices: [(&str, &Volume); 2]) -> TestResult
    where
        K: Kind<Value: DifferentiableValue + Differentiable<Gradient = K::Value>>,
        <K::Value as DifferentiableValue>::Number:
            Differentiable<Gradient = <K::Value as DifferentiableValue>::Number> + Plain,
    {
        at::<K, f32>(lab, book, "f32", indices)?;
        at::<K, f64>(lab, book, "f64", indices)
    }
    fn at<K, P: Real>(
        lab: &Lab,
        book: &mut Book,
        real: &str,
        indices: [(&str, &Volume); 2],
    ) -> TestResult
    where
        [P; 3]: Differentiable<Gradient = [P; 3]> + Plain,
        K: Kind<Value: DifferentiableValue + Differentiable<Gradient = K::Value>>,
        <K::Value as DifferentiableValue>::Number:
            Differentiable<Gradient = <K::Value as DifferentiableValue>::Number> + Plain,
    {
        type Number<K> = <<K as Kind>::Value as DifferentiableValue>::Number;
        let (mut rng, n) = (rng(720), 50);
        let volume = calls::upload_volume(lab, &grid::<K>(128)?)?;
        let mut host = positions::<P>(&mut rng, n, 8.0);
        host.iter_mut().flatten().for_each(|x| *x = P::narrow(x.wide() + 128.0));
        let there = lab.up(&host)?;
        let seeds: Vec<K::Value> = (0..n).map(|_| K::value(&mut rng)).collect();
        let voxels = lab.up(&inputs::voxels(&mut rng, 200, 128))?;
        let (of_points, of_values) = (size_of::<P>() == 8, size_of::<Number<K>>() == 8);
        for (how, interpolation) in calls::SMOOTH {
            let samples = calls::samples(&there, how == "tricubic");
            let name = format!("{}/{how}/{real}", K::NAME);
            let given = (&seeds[..], n);
            passes_of::<K::Value, _>(lab, book, &name, given, |deterministic, out| {
                let tape = calls::recorded(lab, deterministic, |t| {
                    t.watch(&there)?;
                    t.watch(volume.variables::<K::Value>()?)?;
                    volume.record_sample(t, &samples, interpolation, out)
                })?;
                Ok((tape, |tape: &Tape| {
                    let whole = tape.gradient(volume.variables::<K::Value>()?)?;
                    let of_voxels: Vec<K::Value> = lab.filled(voxels.len(), |out| {
                        volume.gradients_of_voxels::<K::Value>(&lab.stream, whole, &voxels, out)
                    })?;
                    let of_voxels = bytemuck::cast_slice(&of_voxels).to_vec();
                    let whole = calls::gradient(lab, tape, volume.variables::<K::Value>()?)?;
                    Ok(vec![
                        own("positions", calls::gradient(lab, tape, &there)?).wide(of_points),
                        shared("values", whole).wide(of_values),
                        shared("voxels", of_voxels).wide(of_values),
                    ])
                }))
            })?;
            for (kind, volume) in indices {
                let (_, count) = calls::volume_grid(lab, volume)?;
                let data: Vec<K::Value> = (1..count).map(|_| K::value(&mut rng)).collect();
                let (data, background) = (lab.up(&data)?, K::value(&mut rng));
                let name = format!("{name}/{kind}");
                passes_of::<K::Value, _>(lab, book, &name, given, |deterministic, out| {
                    let tape = calls::recorded(lab, deterministic, |t| {
                        t.watch(&there)?;
                        t.watch(&data)?;
                        let array = IndexedValues::new(&data, background);
                        volume.record_sample_indexed(t, &samples, interpolation, &array, out)
                    })?;
                    Ok((tape, |tape: &Tape| {
                        let by_data = calls::gradient(lab, tape, &data)?;
                        Ok(vec![
                            own("positions", calls::gradient(lab, tape, &there)?).wide(of_points),
                            shared("array", by_data).wide(of_values),
                        ])
                    }))
                })?;
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    let every = calls::upload_volume(&lab, &grid::<inputs::Indexed>(128)?)?;
    let active = calls::upload_volume(&lab, &grid::<inputs::OnIndexed>(128)?)?;
    of_smooth_kinds!(of(&lab, book, [("index", &every), ("on_index", &active)]));
    Ok(())
}

pub(super) fn of_surfaces(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let marching = calls::marching(&lab);
    for dims in [[2, 2, 2], [3, 2, 31], [2, 3, 33], [6, 7, 40]] {
        let values = lab.up(&rng(730).floats(dims.iter().product()))?;
        let field = calls::dense_field(&values, dims, calls::index_map(ROWS)?)?;
        let [x, y, z] = dims;
        of_field(&lab, book, &format!("dense_{x}_{y}_{z}"), &field, &values)?;
    }
    let (values, stride, origins, neighbors) = some_blocks();
    let (values, origins) = (lab.up(&values)?, lab.up(&origins)?);
    let neighbors = lab.up(&neighbors)?;
    let map = calls::index_map(ROWS)?;
    let field = calls::block_field((&values, stride), &origins, &neighbors, map)?;
    of_field(&lab, book, "blocks", &field, &values)?;
    // Through a volume's field, by the values of its voxels.
    fn through<K: Kind<Value: DifferentiableValue<Number = K::Value>>>(
        lab: &Lab,
        book: &mut Book,
        marching: &geom_kernels::isosurface::MarchingCubes,
    ) -> TestResult
    where
        K::Value: Differentiable<Gradient = K::Value>,
    {
        let volume = calls::upload_volume(lab, &inputs::grid_with::<K>(128, 1)?)?;
        let mut field = calls::volume_field(lab, &volume)?;
        let mut pass = |deterministic: bool| {
            let mut surface = None;
            let mut tape = calls::recorded(lab, deterministic, |t| {
                t.watch(volume.variables::<K::Value>()?)?;
                field.record_update(t, &volume)?;
                surface = Some(marching.record_extract(t, &field, 0.05)?);
                Ok(())
            })?;
            let surface = surface.ok_or_else(|| Failure::new("no surface"))?;
            let seeds = inputs::points(&mut rng(731), surface.vertices.len(), 1.0);
            calls::backward_from(lab, &mut tape, &surface.vertices, &seeds)?;
            let by = calls::gradient(lab, &tape, volume.variables::<K::Value>()?)?;
            Ok::<_, Failure>(vec![shared("voxels", by).wide(size_of::<K::Value>() == 8).rough()])
        };
        let both = [pass(true)?, pass(false)?];
        passes(book, &format!("volume/{}", K::NAME), both)
    }
    through::<inputs::F32>(&lab, book, &marching)?;
    through::<inputs::F64>(&lab, book, &marching)
}

/// By the numbers of a field, from vertices in memory of the call's, and in memory of the caller's.
fn of_field<F: Field>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    field: &F,
    values: &DeviceBuffer<f32>,
) -> TestResult {
    let marching = calls::marching(lab);
    let mut pass = |deterministic: bool| {
        let mut surface = None;
        let mut tape = calls::recorded(lab, deterministic, |t| {
            t.watch(values)?;
            surface = Some(marching.record_extract(t, field, 0.05)?);
            Ok(())
        })?;
        let surface = surface.ok_or_else(|| Failure::new("no surface"))?;
        if deterministic {
            book.put(format!("{name}/vertices"), &lab.down(&surface.vertices)?);
            book.put(format!("{name}/faces"), &lab.down(&surface.faces)?);
        }
        let seeds = inputs::points(&mut rng(731), surface.vertices.len(), 1.0);
        calls::backward_from(lab, &mut tape, &surface.vertices, &seeds)?;
        Ok::<_, Failure>(vec![shared("field", calls::gradient(lab, &tape, values)?)])
    };
    let both = [pass(true)?, pass(false)?];
    passes(book, name, both)?;
    let n = 60;
    let seeds = inputs::points(&mut rng(732), n, 1.0);
    passes_of(lab, book, &format!("{name}/into"), (&seeds, n), |deterministic, out| {
        let (mut faces, mut counts) = (lab.room::<[u32; 3]>(n)?, lab.room::<Counts>(1)?);
        let tape = calls::recorded(lab, deterministic, |t| {
            t.watch(values)?;
            let output = Output::new(&mut *out, &mut faces, &mut counts);
            marching.record_extract_into(t, field, 0.05, output)
        })?;
        Ok((tape, |tape: &Tape| Ok(vec![shared("field", calls::gradient(lab, tape, values)?)])))
    })
}

pub(super) fn of_sums_f32(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    sums::<inputs::F32>(&lab, book)?;
    sums::<inputs::Vec3F>(&lab, book)?;
    sums::<inputs::Vec4F>(&lab, book)
}

pub(super) fn of_sums_f64(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    sums::<inputs::F64>(&lab, book)?;
    sums::<inputs::Vec3D>(&lab, book)?;
    sums::<inputs::Vec4D>(&lab, book)
}

type NumberOf<K> = <<K as Kind>::Value as DifferentiableValue>::Number;

fn sums<K>(lab: &Lab, book: &mut Book) -> TestResult
where
    K: Kind<Value: DifferentiableValue + Differentiable<Gradient = K::Value>>,
    NumberOf<K>: Summed + Plain,
{
    for n in SIZES.into_iter().skip(1).chain([4200]) {
        let mut rng = rng(740);
        let mut values =
            |n: usize| -> Vec<K::Value> { (0..n).map(|_| K::value(&mut rng)).collect() };
        let (x, y) = (lab.up(&values(n))?, lab.up(&values(n))?);
        let seed = [<NumberOf<K> as Summed>::of(0.75)];
        for kind in ["sum", "mean", "dot", "squared_norm", "norm", "norm_1", "norm_max"] {
            let name = format!("{}/{n}/{kind}", K::NAME);
            let is_wide = size_of::<NumberOf<K>>() == 8;
            passes_of::<NumberOf<K>, _>(lab, book, &name, (&seed, 1), |deterministic, out| {
                let (x, y, geometry) = (&x, &y, &lab.geometry);
                let tape = calls::recorded(lab, deterministic, |t| {
                    t.watch(x)?;
                    t.watch(y)?;
                    match kind {
                        "sum" => geometry.record_sum(t, x, out),
                        "mean" => geometry.record_mean(t, x, out),
                        "dot" => geometry.record_dot(t, x, y, out),
                        "squared_norm" => geometry.record_squared_norm(t, x, out),
                        "norm" => geometry.record_norm(t, x, out),
                        "norm_1" => geometry.record_norm_1(t, x, out),
                        _ => geometry.record_norm_max(t, x, out),
                    }
                })?;
                Ok((tape, move |tape: &Tape| {
                    let mut all = vec![own("x", calls::gradient(lab, tape, x)?).wide(is_wide)];
                    if kind == "dot" {
                        all.push(own("y", calls::gradient(lab, tape, y)?).wide(is_wide));
                    }
                    Ok(all)
                }))
            })?;
        }
    }
    Ok(())
}

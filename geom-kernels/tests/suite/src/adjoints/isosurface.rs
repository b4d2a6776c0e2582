//! Vertices of surfaces in fields.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::Real;
use geom_kernels::isosurface::{DenseField, Map};

use super::differences::{OF_F32, OF_F64, Skipped, gradients, near};
use super::{ISOSURFACE_SOURCE, both, count, point, row};
use crate::flags::module;
use geom_oracle::linear::{add, dot, scale, sub};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "adjoints",
        device(crossings_of_edges),
        device(equal_ends_have_subgradient_zero),
        device(vertices_of_a_field),
        device(vertices_are_numbered_as_by_extraction),
    ]
}

/// The place of the crossing. None if there is none within the edge.
fn place(a: f64, b: f64, iso: f64) -> Option<f64> {
    ((a < iso) != (b < iso)).then(|| (iso - a) / (b - a))
}

fn crossings_of_edges(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1130);
    let mut rows: Vec<[f64; 12]> = Vec::new();
    while rows.len() < count(4_000) {
        let x: [f64; 12] = row(&[[0; 4].map(|_: i32| point(&mut rng)).as_flattened()]);
        if place(x[6], x[7], x[8]).is_some() && (x[6] - x[7]).abs() > 0.05 {
            rows.push(x);
        }
    }
    let [wide, narrow] = both::<12, 9>(device, ISOSURFACE_SOURCE, "edge_point", &rows)?;
    let mut skipped = Skipped::default();
    for (row, (wide, narrow)) in rows.iter().zip(wide.iter().zip(&narrow)) {
        let failed = |e: Failure| Failure::new(format!("{row:?}: {e}"));
        near(narrow, wide, OF_F32).map_err(failed)?;
        let (x, g) = row.split_at(9);
        let wanted = gradients(x, 1e-3 * (x[6] - x[7]).abs(), |x| {
            let (from, to) = ([x[0], x[1], x[2]], [x[3], x[4], x[5]]);
            let t = place(x[6], x[7], x[8])?;
            Some([dot(&add(from, scale(sub(to, from), t)), g)])
        });
        let Some([wanted]) = skipped.count(wanted) else { continue };
        near(wide, &wanted, OF_F64).map_err(failed)?;
    }
    skipped.are_few()
}

fn equal_ends_have_subgradient_zero(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1131);
    let rows: Vec<[f64; 12]> = (0..33)
        .map(|_| {
            let [p, q, g] = [0; 3].map(|_: i32| point(&mut rng));
            row(&[&p, &q, &[0.5, 0.5, 0.25], &g])
        })
        .collect();
    for all in both::<12, 9>(device, ISOSURFACE_SOURCE, "edge_point", &rows)? {
        for (row, got) in rows.iter().zip(all) {
            ensure_eq!(&got[6..], &[0.0; 3]);
            ensure_eq!(&got[..6], &[row[9], row[10], row[11], 0.0, 0.0, 0.0]);
        }
    }
    Ok(())
}

const DIMS: [usize; 3] = [7, 9, 70];

/// The crossed edges of a random field: lower corner and axis.
fn crossed(values: &[f32], iso: f32) -> Vec<([usize; 3], usize)> {
    let [nx, ny, nz] = DIMS;
    let mut all = Vec::new();
    for i in 0..nx * ny * nz {
        let corner = [i / (ny * nz), i / nz % ny, i % nz];
        for axis in 0..3 {
            let step = [ny * nz, nz, 1][axis];
            if corner[axis] + 1 < DIMS[axis] && (values[i] < iso) != (values[i + step] < iso) {
                all.push((corner, axis));
            }
        }
    }
    all
}

struct Vertices<'a> {
    device: &'a TestDevice,
    values: &'a [f32],
    iso: f32,
    rows: [[f64; 4]; 3],
    asked: &'a [[f64; 7]],
}

impl Vertices<'_> {
    fn run<T: Real>(&self, kernel: &str) -> Result<Vec<[f64; 17]>, Failure> {
        let (stream, n) = (self.device.stream()?, self.asked.len());
        let values = DeviceBuffer::from_slice(&stream, self.values)?;
        let field = DenseField::new(&values, DIMS, Map::from_rows(self.rows)?)?;
        let rows = DeviceBuffer::from_slice(&stream, self.rows.as_flattened())?;
        let input: Vec<T> = self.asked.as_flattened().iter().map(|x| T::narrow(*x)).collect();
        let input = DeviceBuffer::from_slice(&stream, &input)?;
        let mut out = DeviceBuffer::from_slice(&stream, &vec![T::narrow(f64::NAN); 17 * n])?;
        let module = module(self.device, ISOSURFACE_SOURCE, nvrtc::Options::new())?;
        let kernel = module.kernel(kernel)?;
        let arguments = (field, &rows, self.iso, &input, n as u32, &mut out);
        // SAFETY: each of n threads reads its 7 numbers, whose edge the field has, and writes its 17.
        unsafe { self.device.launch(&kernel, &stream, LaunchConfig::cover(n, 64), arguments) }?;
        let out = out.to_vec(&stream)?;
        Ok(out.chunks_exact(17).map(|row| std::array::from_fn(|i| row[i].wide())).collect())
    }
}

fn vertices_of_a_field(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1132);
    let [_, ny, nz] = DIMS;
    let values = rng.floats(DIMS.iter().product());
    let iso = 0.125;
    let rows = [[0.5, 0.125, -0.0625, 10.0], [-0.25, 0.75, 0.1, -3.7], [0.3, -0.2, 0.4, 0.33]];
    let edges = crossed(&values, iso);
    let asked: Vec<[f64; 7]> = edges
        .iter()
        .map(|(corner, axis)| {
            let at = corner.map(|x| x as f64);
            // Across the edge nothing moves, and differences would see their own roundings.
            let mut g = point(&mut rng);
            while (0..3).map(|k| g[k] * rows[k][*axis]).sum::<f64>().abs() < 0.01 {
                g = point(&mut rng);
            }
            row(&[&at, &[*axis as f64], &g])
        })
        .collect();
    let all = Vertices { device, values: &values, iso, rows, asked: &asked };
    let (wide, narrow) = (all.run::<f64>("vertex_f64")?, all.run::<f32>("vertex_f32")?);
    let mut skipped = Skipped::default();
    for (i, (corner, axis)) in edges.iter().enumerate() {
        let lower = (corner[0] * ny + corner[1]) * nz + corner[2];
        let upper = lower + [ny * nz, nz, 1][*axis];
        ensure_eq!(wide[i][..2], [lower as f64, upper as f64]);
        ensure_eq!(narrow[i][..2], [lower as f64, upper as f64]);
        let (a, b) = (f64::from(values[lower]), f64::from(values[upper]));
        // Values, the surface's, and the map.
        let x: [f64; 15] = row(&[&[a, b, f64::from(iso)], rows.as_flattened()]);
        let g = &asked[i][4..];
        let wanted = gradients(&x, 1e-3 * (b - a).abs(), |x| {
            let mut at = corner.map(|x| x as f64);
            at[*axis] += place(x[0], x[1], x[2])?;
            let at = [at[0], at[1], at[2], 1.0];
            Some([(0..3).map(|k| g[k] * dot(&x[3 + 4 * k..7 + 4 * k], &at)).sum()])
        });
        let failed = |e: Failure| Failure::new(format!("{corner:?} {axis}: {e}"));
        // The field and the map apart: coordinates are much larger.
        for part in [2..5, 5..17] {
            near(&narrow[i][part.clone()], &wide[i][part], OF_F32).map_err(failed)?;
        }
        // What is nearly equal at both ends has no differences.
        if (b - a).abs() < 1e-2 {
            continue;
        }
        let Some([wanted]) = skipped.count(wanted) else { continue };
        near(&wide[i][2..5], &wanted[..3], OF_F64).map_err(failed)?;
        near(&wide[i][5..], &wanted[3..], OF_F64).map_err(failed)?;
    }
    ensure!(skipped.all > 3000, "{}", skipped.all);
    skipped.are_few()
}

/// Word by word, axis by axis, lane by lane.
fn vertices_are_numbered_as_by_extraction(device: &TestDevice) -> TestResult {
    let (mut rng, stream) = (device.rng(1133), device.stream()?);
    let kernel = module(device, ISOSURFACE_SOURCE, nvrtc::Options::new())?;
    let kernel = kernel.kernel("number_vertices")?;
    for words in [1, 2, 33, 200] {
        let mut edges: Vec<[u32; 4]> = Vec::new();
        let mut wanted: Vec<u32> = Vec::new();
        for word in 0..words {
            let bits = rng.words(6);
            let some = [bits[0], bits[1] & bits[2], bits[3] & bits[4] & bits[5]];
            let some = if word % 7 == 3 { [u32::MAX, 0, u32::MAX] } else { some };
            edges.push([some[0], some[1], some[2], wanted.len() as u32]);
            for (axis, bits) in some.into_iter().enumerate() {
                let lanes = (0..32).filter(|lane| bits >> lane & 1 != 0);
                wanted.extend(lanes.map(|lane| 3 * (32 * word + lane) + axis as u32));
            }
        }
        let edges = DeviceBuffer::from_slice(&stream, edges.as_flattened())?;
        let mut out = DeviceBuffer::from_slice(&stream, &vec![u32::MAX; wanted.len()])?;
        let n = 32 * words;
        let arguments = (&edges, n, &mut out);
        // SAFETY: reads a word's edges for each 32 threads, and writes one element for each that is crossed.
        unsafe { device.launch(&kernel, &stream, LaunchConfig::cover(n as usize, 64), arguments) }?;
        ensure_eq!(out.to_vec(&stream)?, wanted);
    }
    Ok(())
}

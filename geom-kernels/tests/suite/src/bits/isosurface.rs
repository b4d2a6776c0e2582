//! Surfaces in fields of numbers: dense ones, blocks, volumes.

use geom_kernels::Real;
use geom_kernels::isosurface::{Counts, Field};
use geom_kernels::structures::{self, isosurface as cpu};

use super::book::Book;
use super::calls::{self, Got, Lab, garbage};
use super::inputs::{self, Kind, grid_with, map, rng};
use test_harness::{Rng, TestDevice, TestResult, ensure_eq};

/// A map that is sheared, so that all rows matter.
pub(super) const ROWS: [[f64; 4]; 3] =
    [[0.5, 0.125, -0.0625, 1.0], [-0.25, 0.75, 0.1, -3.5], [0.3, -0.2, 0.4, 0.25]];

fn surface<F: Field>(lab: &Lab, book: &mut Book, name: &str, field: &F, iso: f32) -> TestResult {
    let mut put = |name: String, (vertices, faces, normals, counts): calls::Found| {
        book.put(format!("{name}/vertices"), &vertices);
        book.put(format!("{name}/faces"), &faces);
        book.put(format!("{name}/normals"), &normals);
        book.put(format!("{name}/counts"), &counts);
    };
    let [plain, normals] = calls::extracted(lab, field, iso)?;
    let (vertices, faces) = (plain.0.len(), plain.1.len());
    put(format!("{name}/plain"), plain);
    put(format!("{name}/with_normals"), normals);
    for (which, room) in
        [("more", [vertices + 3, faces + 5]), ("less", [vertices / 2, faces / 3]), ("none", [0, 0])]
    {
        put(format!("{name}/into_{which}"), calls::extracted_into(lab, field, iso, room)?);
    }
    book.put(format!("{name}/count"), &calls::surface_counts(lab, field, iso)?);
    Ok(())
}

/// The same on the CPU: the same bits as `surface` has put.
fn surface_on_cpu<F: cpu::Field>(book: &Book, name: &str, field: &F, iso: f32) -> TestResult {
    let same = |how: &str, (vertices, faces, normals, counts): calls::Found| {
        book.compare(format!("{name}/{how}/vertices"), &vertices)?;
        book.compare(format!("{name}/{how}/faces"), &faces)?;
        book.compare(format!("{name}/{how}/normals"), &normals)?;
        book.compare(format!("{name}/{how}/counts"), &counts)
    };
    let found =
        |of: cpu::Surface| (of.vertices, of.faces, of.normals.unwrap_or_default(), vec![of.counts]);
    let plain = cpu::extract(field, iso)?;
    let (n, m) = (plain.vertices.len(), plain.faces.len());
    same("plain", found(plain))?;
    same("with_normals", found(cpu::extract_with_normals(field, iso)?))?;
    for (which, [n, m]) in
        [("into_more", [n + 3, m + 5]), ("into_less", [n / 2, m / 3]), ("into_none", [0, 0])]
    {
        let (mut vertices, mut faces, mut normals) = (garbage(n), garbage(m), garbage(n));
        let output = cpu::Output::new(&mut vertices, &mut faces).normals(&mut normals);
        let counts = cpu::extract_into(field, iso, output)?;
        same(which, (vertices, faces, normals, vec![counts]))?;
    }
    let counts: [Counts; 1] = [cpu::count(field, iso)?];
    book.compare(format!("{name}/count"), &counts)
}

fn mesh<F: Field>(lab: &Lab, book: &mut Book, name: &str, field: &F) -> TestResult {
    let (points, faces, report) = calls::surface_mesh(lab, field, 0.05)?;
    book.put(format!("{name}/mesh/points"), &points);
    book.put(format!("{name}/mesh/faces"), &faces);
    book.put(format!("{name}/mesh/reports"), &report);
    Ok(())
}

/// Noise; the same numbers over and over, many of them the surface's; noise with numbers that are not finite; a
/// sphere.
fn numbers(rng: &mut Rng, kind: &str, [nx, ny, nz]: [usize; 3]) -> Vec<f32> {
    let few = [-1.0, -0.5, 0.0, 0.05, -0.0, 0.5, 1e-40];
    let one = |i: usize, rng: &mut Rng| match kind {
        "steps" => few[rng.below(7)],
        "broken" if rng.below(60) == 0 => [f32::NAN, f32::INFINITY][rng.below(2)],
        "sphere" => {
            let at = [(i / (ny * nz), nx), (i / nz % ny, ny), (i % nz, nz)];
            let squares = at.map(|(x, n)| (x as f64 - 0.5 * n as f64).powi(2));
            (squares.iter().sum::<f64>().sqrt() - 0.35 * nx as f64) as f32
        }
        _ => rng.float(),
    };
    (0..nx * ny * nz).map(|i| one(i, rng)).collect()
}

pub(super) fn dense(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let mut rng = rng(600);
    for (kind, dims) in [
        ("noise", [13, 12, 35]),
        ("steps", [9, 8, 33]),
        ("broken", [10, 11, 12]),
        ("sphere", [24, 22, 26]),
        ("small", [2, 2, 2]),
        ("flat", [1, 30, 30]),
        ("thin", [2, 3, 70]),
    ] {
        let host = numbers(&mut rng, kind, dims);
        let (values, map) = (lab.up(&host)?, calls::index_map(ROWS)?);
        let field = calls::dense_field(&values, dims, map)?;
        surface(&lab, book, kind, &field, 0.05)?;
        let on_cpu = cpu::DenseField::new(&host, dims, map)?;
        surface_on_cpu(book, kind, &on_cpu, 0.05)?;
        // Elsewhere it is not a surface that can become a mesh.
        if kind == "sphere" {
            surface(&lab, book, "larger_sphere", &field, 1.25)?;
            surface_on_cpu(book, "larger_sphere", &on_cpu, 1.25)?;
            mesh(&lab, book, kind, &field)?;
        }
    }
    Ok(())
}

/// Values, their stride, origins and neighbours.
type Blocks = (Vec<f32>, usize, [[i32; 3]; 3], [[u32; 27]; 3]);

/// Two blocks beside each other, and one alone: values with a stride, origins and neighbours.
pub(super) fn some_blocks() -> Blocks {
    let stride = 520;
    let mut neighbors = [[u32::MAX; 27]; 3];
    (neighbors[0][14], neighbors[1][12]) = (1, 0);
    let values = rng(601).floats(2 * stride + 512);
    (values, stride, [[0, 0, 0], [0, 0, 8], [40, -8, 16]], neighbors)
}

pub(super) fn blocks(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let (host, stride, all_origins, all_neighbors) = some_blocks();
    let (values, map) = (lab.up(&host)?, calls::index_map(ROWS)?);
    for (name, n) in [("three", 3), ("none", 0)] {
        let (origins, neighbors) = (&all_origins[..n], &all_neighbors[..n]);
        let on_cpu = cpu::BlockField::new(&host, stride, origins, neighbors, map)?;
        let (origins, neighbors) = (lab.up(origins)?, lab.up(neighbors)?);
        let field = calls::block_field((&values, stride), &origins, &neighbors, map)?;
        surface(&lab, book, name, &field, 0.05)?;
        surface_on_cpu(book, name, &on_cpu, 0.05)?;
    }
    Ok(())
}

pub(super) fn volumes(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind<Value: Real>>(lab: &Lab, book: &mut Book) -> TestResult {
        let grid = grid_with::<K>(inputs::middle::<K>(), 1)?;
        let mut volume = calls::upload_volume(lab, &grid)?;
        let mut field = calls::volume_field(lab, &volume)?;
        let on_cpu = structures::Volume::<K::Value>::new(grid)?;
        let mut on_cpu = cpu::VolumeField::build(&on_cpu)?;
        type Fields<'a> = (&'a geom_kernels::isosurface::VolumeField, &'a cpu::VolumeField);
        let mut put = |name: &str, (field, on_cpu): Fields<'_>| -> Got<()> {
            let (values, complete) = calls::field_values(lab, field)?;
            book.put(format!("{}/{name}/field", K::NAME), &values);
            book.compare(format!("{}/{name}/field", K::NAME), on_cpu.values())?;
            book.put(format!("{}/{name}/complete", K::NAME), &[u8::from(complete)]);
            ensure_eq!(on_cpu.is_complete(), complete, "{} {name}", K::NAME);
            surface(lab, book, &format!("{}/{name}", K::NAME), field, 0.05)?;
            surface_on_cpu(book, &format!("{}/{name}", K::NAME), on_cpu, 0.05)
        };
        put("first", (&field, &on_cpu))?;
        let mut rng = rng(610);
        let once: Vec<[i32; 3]> = (0..125)
            .map(|i| [i / 25, i / 5 % 5, i % 5].map(|x| x + inputs::middle::<K>()))
            .collect();
        let values: Vec<K::Value> = once.iter().map(|_| K::value(&mut rng)).collect();
        calls::store(lab, &mut volume, &lab.up(&once)?, &lab.up(&values)?)?;
        calls::update_field(lab, &mut field, &volume)?;
        on_cpu.update(&structures::Volume::<K::Value>::new(volume.download(&lab.stream)?)?);
        put("updated", (&field, &on_cpu))
    }
    let lab = Lab::new(device)?;
    of::<inputs::F32>(&lab, book)?;
    of::<inputs::F64>(&lab, book)?;
    // A sphere in a band, whose surface is closed.
    let dims = [26, 25, 24];
    let host = numbers(&mut rng(611), "sphere", dims);
    let options = calls::volume_options(3.0f32, map()?, None);
    let [.., (_, band)] = calls::keeps(3.0);
    let [volume, ..] = calls::dense_volumes(&lab, (dims, &host), &options, ([-3; 3], band))?;
    let field = calls::volume_field(&lab, &volume)?;
    surface(&lab, book, "band", &field, 0.05)?;
    let on_cpu = structures::Volume::<f32>::new(volume.download(&lab.stream)?)?;
    surface_on_cpu(book, "band", &cpu::VolumeField::build(&on_cpu)?, 0.05)?;
    mesh(&lab, book, "band", &field)
}

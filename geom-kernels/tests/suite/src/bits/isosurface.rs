//! Surfaces in fields of numbers: dense ones, blocks, volumes.

use geom_kernels::isosurface::Field;

use super::book::Book;
use super::calls::{self, Got, Lab};
use super::inputs::{self, Kind, grid_with, map, rng};
use test_harness::{Rng, TestDevice, TestResult};

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
        let values = lab.up(&numbers(&mut rng, kind, dims))?;
        let field = calls::dense_field(&values, dims, calls::index_map(ROWS)?)?;
        surface(&lab, book, kind, &field, 0.05)?;
        // Elsewhere it is not a surface that can become a mesh.
        if kind == "sphere" {
            surface(&lab, book, "larger_sphere", &field, 1.25)?;
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
    let (values, stride, origins, neighbors) = some_blocks();
    let (values, origins) = (lab.up(&values)?, lab.up(&origins)?);
    let neighbors = lab.up(&neighbors)?;
    let map = calls::index_map(ROWS)?;
    let field = calls::block_field((&values, stride), &origins, &neighbors, map)?;
    surface(&lab, book, "three", &field, 0.05)?;
    let (origins, neighbors) = (lab.up::<[i32; 3]>(&[])?, lab.up::<[u32; 27]>(&[])?);
    let field = calls::block_field((&values, stride), &origins, &neighbors, map)?;
    surface(&lab, book, "none", &field, 0.05)
}

pub(super) fn volumes(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind>(lab: &Lab, book: &mut Book) -> TestResult {
        let mut volume = calls::upload_volume(lab, &grid_with::<K>(inputs::middle::<K>(), 1)?)?;
        let mut field = calls::volume_field(lab, &volume)?;
        let mut put = |name: &str, field: &geom_kernels::isosurface::VolumeField| -> Got<()> {
            let (values, complete) = calls::field_values(lab, field)?;
            book.put(format!("{}/{name}/field", K::NAME), &values);
            book.put(format!("{}/{name}/complete", K::NAME), &[u8::from(complete)]);
            surface(lab, book, &format!("{}/{name}", K::NAME), field, 0.05)
        };
        put("first", &field)?;
        let mut rng = rng(610);
        let once: Vec<[i32; 3]> = (0..125)
            .map(|i| [i / 25, i / 5 % 5, i % 5].map(|x| x + inputs::middle::<K>()))
            .collect();
        let values: Vec<K::Value> = once.iter().map(|_| K::value(&mut rng)).collect();
        calls::store(lab, &mut volume, &lab.up(&once)?, &lab.up(&values)?)?;
        calls::update_field(lab, &mut field, &volume)?;
        put("updated", &field)
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
    mesh(&lab, book, "band", &field)
}

//! The calls that run kernels, and what computes the same on the CPU.

use std::collections::{BTreeMap, BTreeSet};

use test_harness::{TestResult, ensure};

/// The public items of the crate.
const API: &str = include_str!("../../../../../docs/api/geom-kernels.txt");

/// The items of the CPU with other names.
const NAMED: &[(&str, &str)] = &[
    ("hash_grid::NeighborSum::run", "structures::hash_grid::HashGrid::neighbor_sums"),
    ("hash_grid::NeighborSum::run_with", "structures::hash_grid::HashGrid::neighbor_sums"),
    ("isosurface::MarchingCubes::count", "structures::isosurface::count"),
    ("isosurface::MarchingCubes::extract", "structures::isosurface::extract"),
    ("isosurface::MarchingCubes::extract_into", "structures::isosurface::extract_into"),
    (
        "isosurface::MarchingCubes::extract_with_normals",
        "structures::isosurface::extract_with_normals",
    ),
    ("isosurface::TriangleBuffers::into_mesh", "structures::isosurface::Surface::into_mesh"),
    ("mesh::Mesh::build", "structures::Mesh::from_parts"),
    ("mesh::Mesh::count_hits", "structures::Mesh::count_hits_of"),
    ("mesh::Mesh::upload", "structures::Mesh::new"),
    ("mesh::Topology::neighbors", "structures::Mesh::neighbors"),
    ("mesh::Topology::vertex_normals", "structures::Mesh::vertex_normals"),
    ("volume::Volume::download", "structures::volume::Volume::grid"),
    ("volume::Volume::download_bytes", "structures::volume::Volume::grid"),
    ("volume::Volume::index_to_world", "structures::volume::Volume::index_to_world_all"),
    ("volume::Volume::is_active", "structures::volume::Volume::is_active_all"),
    ("volume::Volume::lookup", "structures::volume::Volume::lookup_all"),
    ("volume::Volume::upload", "structures::volume::Volume::new"),
    ("volume::Volume::world_to_index", "structures::volume::Volume::world_to_index_all"),
];

/// The calls that the CPU does not have, by their beginnings, and why.
const MISSING: &[(&str, &str)] = &[
    (
        "algorithms::Algorithms::",
        "slices of the host have `sort`, `iter().sum()` and rayon's calls",
    ),
    ("bvh::Bvh::new", "`Bvh::default` is the hierarchy without items"),
    ("isosurface::TriangleBuffers::download", "surfaces of the CPU are in host memory"),
    ("mesh::Mesh::all_hits_into", "`all_hits` allocates the lists"),
    ("mesh::Mesh::bvh_report", "the tree is another one"),
    ("mesh::Mesh::count_overlaps", "`overlap_lists` has the counts as offsets"),
    ("mesh::Mesh::differentiable_view", "tapes record launches on streams"),
    ("mesh::Mesh::overlap_lists_into", "`overlap_lists` allocates the lists"),
    ("mesh::Mesh::rebuild", "`Mesh::new` takes other points"),
    ("mesh::Mesh::refit", "the mesh owns its points: `refit_to` takes others"),
    ("mesh::Mesh::report", "`TriangleMesh` has the checks of host memory"),
    ("mesh::Topology::", "a mesh with `MeshOptions::topology` has the arrays"),
    ("volume::Volume::build_status", "`nanovdb::Builder` builds on the CPU"),
    ("volume::Volume::counts", "`nanovdb::Grid::info` has them"),
    ("volume::Volume::from_", "`nanovdb::Builder` builds on the CPU"),
    ("volume::Volume::gradients_of_voxels", "tapes record launches on streams"),
    ("volume::Volume::leaf_origins", "`nanovdb::Grid::leaves` has them"),
    ("volume::Volume::read", "`nanovdb::read` makes grids"),
    ("volume::Volume::read_file", "`nanovdb::read_file` makes grids"),
    ("volume::Volume::rebuild_from_", "`nanovdb::Builder` builds on the CPU"),
    ("volume::Volume::store", "a volume of the CPU is a checked grid, which is not changed"),
    ("volume::Volume::to_dense", "`lookup_all` reads any voxels"),
    ("volume::Volume::voxels", "`nanovdb::Grid::leaves` and `tiles` have them"),
];

/// Returns the functions with their paths in the crate, and whether a stream is an argument.
fn functions() -> BTreeMap<String, bool> {
    let mut section = "";
    let mut all = BTreeMap::new();
    for line in API.lines() {
        if let Some(path) = line.strip_prefix("geom_kernels::") {
            section = path;
        }
        let Some((_, signature)) = line.split_once("fn ") else { continue };
        let name: String =
            signature.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // A free function has its name in the path.
        let is_method = line.starts_with(' ');
        let path = if is_method { format!("{section}::{name}") } else { section.to_owned() };
        all.insert(path, signature.contains("stream: &Stream"));
    }
    all
}

/// Each call of the device has one on the CPU that the golden tests compare with it, or a reason, which is printed. So
/// a new call fails until it is one or the other.
pub(super) fn all_run() -> TestResult {
    let functions = functions();
    let (mut used, mut same) = (BTreeSet::new(), 0);
    for (call, _) in functions.iter().filter(|(_, takes_a_stream)| **takes_a_stream) {
        if let Some((name, here)) = NAMED.iter().find(|(name, _)| *name == call) {
            ensure!(functions.contains_key(*here), "{call}: there is no {here}");
            used.insert(*name);
            continue;
        }
        let missing = |(name, _): &&(&str, &str)| {
            // A whole name, or the beginning of several.
            call == *name || name.ends_with([':', '_']) && call.starts_with(name)
        };
        if let Some((name, why)) = MISSING.iter().find(missing) {
            println!("not on the CPU: {call}: {why}");
            used.insert(*name);
            continue;
        }
        let has = |prefix: &str| functions.contains_key(&format!("structures::{prefix}{call}"));
        let of_mesh = call.strip_prefix("mesh::").map(|call| format!("structures::{call}"));
        let of_mesh = of_mesh.is_some_and(|here| functions.contains_key(&here));
        ensure!(has("") || of_mesh, "{call} has no counterpart on the CPU, and no reason");
        same += 1;
    }
    ensure!(same > 40, "{same} calls have a counterpart of the same name");
    for (name, _) in NAMED.iter().chain(MISSING) {
        ensure!(used.contains(name), "{name} is no call of the device");
    }
    Ok(())
}

//! Golden bits: what `geom-kernels` and `tape` compute, byte for byte, as `geom-kernels/tests/suite/golden/bits.txt` records it.
//!
//! Each result has a line `name length hash`: its length in bytes and the FNV-1a 64 of its bytes, little-endian,
//! elements in the order in which the call documents them. Only the nodes of hierarchies have no such order; they are
//! sorted, without the links between them. The file has a hash of these lines for each group of results: those whose
//! names have the same first two parts. A group that differs, is new or is gone fails its test, which prints the lines of
//! the group. `TEST_GOLDEN=list` prints the lines of all results, so that those of two commits can be compared. After a
//! change of results that is meant:
//!
//! ```text
//! TEST_GOLDEN=write cargo test --release -p geom-kernels --test suite -- --tier emu golden::bits
//! ```
//!
//! writes the file from what the software device computes, and prints the changes. A GPU must give the same bits.
//!
//! # What is covered
//! | test | calls |
//! |---|---|
//! | `hash_grid_f32`, `hash_grid_f64` | `HashGrid`: `reserve`, `rebuild`, `rebuild_grouped`, `report`, `count_neighbors`, `neighbor_lists`, `neighbor_lists_into`, `k_nearest`; all of `GridOptions`, `GridQueries`, `Pairs`, `QueryOrder`, `Lookup`; `Points::flat`, `strided` |
//! | `neighbor_sums` | `NeighborSum::run`, `run_with`; `Points` of each vector type |
//! | `bvh` | `Bvh`: `build`, `with_capacity`, `rebuild`, `refit`, `report`, `parts`, `count_overlaps`, `overlap_lists`, `overlap_lists_into`; all of `BvhQueries` |
//! | `mesh_closed`, `mesh_open`, `mesh_faulty` | `Mesh`: `upload`, `refit`, `refit_to`, `rebuild`, the reports and arrays, `closest_points`, `any_within`, `signed_distances`, `signed_closest_points`, `classify`, `winding_numbers`, the overlaps, `closest_hits`, `any_hits`, `count_hits`, `all_hits`, `all_hits_into`, `positions_at`, `normals_at`, `attributes_at`; `FaceTree` |
//! | `mesh_topology` | `Topology`: `neighbors`, `closed`, `vertex_normals`, `validate`, `report`; `Mesh::build` |
//! | `sorts`, `sums`, `selections` | all calls of `Algorithms`, for all types, with scratch from the pool and of the caller's |
//! | `volume_values` | `Volume`: `upload`, `read`, `download`, `counts`, `leaf_origins`, `voxels`, `lookup`, `is_active`, `store`, `to_dense`, the nearest sample; for all types |
//! | `volume_samples`, `volume_indexed` | `sample`, `sample_with_gradient`, `sample_indexed`, `sample_indexed_with_gradient`; for all types, orders and spaces |
//! | `volume_maps`, `volume_marches` | the six maps; `first_crossings`, `integrals` |
//! | `volume_lists`, `volume_arrays`, `volume_in_place` | `from_leaves`, `from_voxels`, `from_voxels_with`, `from_dense`, `from_host_dense`, `from_fn`, the three `rebuild_from_…`, `build_status`, `download_bytes` |
//! | `isosurface_dense`, `isosurface_blocks`, `isosurface_volumes` | `MarchingCubes`: `extract`, `extract_with_normals`, `extract_into`, `count`; `VolumeField`: `new`, `update`; `TriangleBuffers`: `download`, `into_mesh` |
//! | `gradients_mesh`, `gradients_volume`, `gradients_isosurface`, `gradients_sums_f32`, `gradients_sums_f64` | all `record_` calls, and `gradients_of_voxels` |
//! | `tape_f32`, `tape_f64` | `Tape`, `Recorder`, `Seeds`, `Variable`: chains of all operations of `kernels/tape/ops.cu`, copies, fills, stopped gradients, scopes, custom operations that record again, graphs, `jacobian`, `differences` |
//! | `adjoint_helpers` | the functions of `adjoint.cuh` for meshes and surfaces, f32 and f64 |
//!
//! The CPU gives the same bits: `geom_kernels::structures` computes the same queries, and the books compare their results
//! with the device's. `golden::bits::batch_calls_run_on_the_cpu` lists the calls, and why some are missing there.
//!
//! # What is not
//! - Views (`view`, `view_mut`) and headers: results are those of the kernels of the caller. The batch calls above are
//!   built on the same headers.
//! - Functions of the host alone: `TriangleMesh`, files, `shapes`, the crate `nanovdb`.
//! - Gradients of tapes that are not deterministic, where several threads add to one: their bits depend on the order
//!   of atomics. Such a pass is compared with that of the deterministic tape, within 1e-4 (f32) or 1e-10 (f64) of the
//!   largest.
//! - Bytes of volumes with a capacity that no node uses.
//!
//! Kernels of the tests (`ops.cu`, `adjoints_*.cu`) are compiled without contraction (`--fmad=false`), so their bits
//! don't depend on the compiler.

mod adjoints;
mod book;
mod bvh;
mod calls;
mod cpu_calls;
mod cpu_mesh;
mod gradients;
mod hash_grid;
mod inputs;
mod isosurface;
mod mesh;
mod sort;
mod tapes;
mod volume;
mod volume_build;

use book::Book;

use test_harness::{Case, TestDevice, TestResult};

/// Declares the tests: each fills a book of its name.
macro_rules! topics {
    ($($topic:ident: $run:path;)+) => {
        /// The topics, and what computes their results.
        const TOPICS: &[(&str, fn(&TestDevice, &mut Book) -> TestResult)] =
            &[$((stringify!($topic), $run)),+];

        fn of_topics() -> Vec<Case> {
            vec![$(Case::device(concat!("golden::bits::", stringify!($topic)), |device| {
                let mut book = Book::new(stringify!($topic));
                $run(device, &mut book)?;
                book.finish(device)
            })),+]
        }
    };
}

topics! {
    hash_grid_f32: hash_grid::f32s;
    hash_grid_f64: hash_grid::f64s;
    neighbor_sums: hash_grid::sums;
    bvh: bvh::all;
    mesh_closed: mesh::closed;
    mesh_open: mesh::open;
    mesh_faulty: mesh::faulty;
    mesh_topology: mesh::topology;
    sorts: sort::sorts;
    sums: sort::sums;
    selections: sort::selections;
    volume_values: volume::values;
    volume_samples: volume::samples;
    volume_indexed: volume::indexed;
    volume_maps: volume::maps;
    volume_marches: volume::marches;
    volume_lists: volume_build::lists;
    volume_arrays: volume_build::arrays;
    volume_in_place: volume_build::in_place;
    isosurface_dense: isosurface::dense;
    isosurface_blocks: isosurface::blocks;
    isosurface_volumes: isosurface::volumes;
    gradients_mesh: gradients::of_meshes;
    gradients_volume: gradients::of_volumes;
    gradients_isosurface: gradients::of_surfaces;
    gradients_sums_f32: gradients::of_sums_f32;
    gradients_sums_f64: gradients::of_sums_f64;
    tape_f32: tapes::f32s;
    tape_f64: tapes::f64s;
    adjoint_helpers: adjoints::all;
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = of_topics();
    cases.push(Case::host("golden::bits::differences_are_found", book::differences_are_found));
    cases.push(Case::host("golden::bits::the_recording_is_whole", book::the_recording_is_whole));
    cases.push(Case::host("golden::bits::batch_calls_run_on_the_cpu", cpu_calls::all_run));
    cases
}

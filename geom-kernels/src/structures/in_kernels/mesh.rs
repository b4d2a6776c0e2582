//! Meshes in kernels.

use std::mem::offset_of;

use cuda_safe::kernel::device::Float;
use cuda_safe::kernel::structure::{Source, Structure};
use cuda_safe::kernel::text::Text;

use super::on_device;
use crate::mesh;
use crate::mesh::layout::RawMesh;
use crate::mesh::{ClosestPoint, RayHit};
use crate::ray::Ray;
use crate::structures::Mesh;

/// The C++ of the methods. `CLOSEST`, `HIT` and `RAY` are the kernel's types.
const METHODS: &str = "
using mesh_point = array<f32, 3>;
PHASES_FN option<CLOSEST> closest_of(const geom::ClosestPoint& found) {
    if (found.face == geom::no_index) return option<CLOSEST>();
    return option<CLOSEST>(true, geom_bits<CLOSEST>(found));
}
PHASES_FN option<tuple<f32, CLOSEST>> signed_of(float distance, const geom::ClosestPoint& found) {
    if (found.face == geom::no_index) return option<tuple<f32, CLOSEST>>();
    return some(tup(f32(distance), geom_bits<CLOSEST>(found)));
}
template <class C> PHASES_FN option<CLOSEST> m_closest_point(C, line, const geom::Mesh& m, mesh_point q) {
    return closest_of(geom::closest_point(m, geom_vector(q)));
}
template <class C> PHASES_FN option<CLOSEST> m_closest_point_within(C, line, const geom::Mesh& m, mesh_point q, f32 d) {
    return closest_of(geom::closest_point(m, geom_vector(q), d.v));
}
template <class C> PHASES_FN bool m_is_within(C, line, const geom::Mesh& m, mesh_point q, f32 d) {
    return geom::is_within(m, geom_vector(q), d.v);
}
template <class C> PHASES_FN option<tuple<f32, CLOSEST>> m_signed_distance(C, line, const geom::Mesh& m, mesh_point q, f32 d) {
    geom::ClosestPoint found;
    const float distance = geom::signed_distance(m, geom_vector(q), &found, d.v);
    return signed_of(distance, found);
}
template <class C> PHASES_FN option<tuple<f32, CLOSEST>> m_signed_distance_by_parity(C, line, const geom::Mesh& m, mesh_point q, f32 d) {
    geom::ClosestPoint found;
    const float distance = geom::signed_distance_by_parity(m, geom_vector(q), &found, d.v);
    return signed_of(distance, found);
}
template <class C> PHASES_FN option<tuple<f32, CLOSEST>> m_signed_distance_by_winding(C, line, const geom::Mesh& m, mesh_point q, f32 d) {
    if (m.moments == nullptr) return option<tuple<f32, CLOSEST>>();
    geom::ClosestPoint found;
    const float distance = geom::signed_distance_by_winding(m, geom_vector(q), &found, d.v);
    return signed_of(distance, found);
}
template <class C> PHASES_FN option<f32> m_winding_number(C, line, const geom::Mesh& m, mesh_point q, f32 beta) {
    if (m.moments == nullptr) return option<f32>();
    return some(f32(geom::winding_number(m, geom_vector(q), beta.v)));
}
template <class C> PHASES_FN i32 m_side_of(C, line, const geom::Mesh& m, mesh_point q) {
    return i32(geom::side_of(m, geom_vector(q)));
}
template <class C> PHASES_FN option<HIT> m_nearest_hit(C, line, const geom::Mesh& m, ref<RAY> ray) {
    const geom::RayHit hit = geom::nearest_hit(m, geom_bits<geom::MeshRay>(*ray.p));
    if (hit.face == geom::no_index) return option<HIT>();
    return option<HIT>(true, geom_bits<HIT>(hit));
}
template <class C> PHASES_FN bool m_any_hit(C, line, const geom::Mesh& m, ref<RAY> ray) {
    return geom::any_hit(m, geom_bits<geom::MeshRay>(*ray.p));
}
template <class C> PHASES_FN u32 m_count_hits(C, line, const geom::Mesh& m, ref<RAY> ray) {
    return u32(geom::count_hits(m, geom_bits<geom::MeshRay>(*ray.p)));
}
";

// SAFETY: the functions are those of the methods in `structures::mesh`, over the device headers.
unsafe impl Structure for Mesh {
    const SIZE: usize = size_of::<RawMesh>();
    const ALIGN: usize = align_of::<RawMesh>();
    const SOURCES: &'static [Source] =
        &[Source { offset: offset_of!(RawMesh, points), float: Float::F32, floats: 3 }];

    fn rust_name() -> String {
        "geom_kernels::structures::Mesh".to_owned()
    }

    fn cpp_name() -> String {
        "geom::Mesh".to_owned()
    }

    fn write(text: &mut Text) {
        super::begin(text, "geom/mesh.cuh");
        let types = [text.ty::<ClosestPoint>(), text.ty::<RayHit>(), text.ty::<Ray>()];
        text.define("geom mesh", |_| {
            let named = ["CLOSEST", "HIT", "RAY"].into_iter().zip(&types);
            named.fold(METHODS.to_owned(), |text, (name, ty)| text.replace(name, ty))
        });
    }
}

on_device!([] mesh::Mesh<'_> => Mesh, check_current);

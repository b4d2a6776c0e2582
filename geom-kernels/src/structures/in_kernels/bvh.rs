//! Hierarchies in kernels.

use cuda_safe::kernel::structure::{Items, Structure};
use cuda_safe::kernel::text::Text;

use super::on_device;
use crate::bvh;
use crate::bvh::layout::RawBvh;
use crate::structures::Bvh;
use crate::structures::bvh::{Ascending, FirstItem, NearestItem};
use crate::{Aabb, Ray};

/// The C++ of the methods. `NEAREST`, `FIRST`, `BOX` and `RAY` are the kernel's types.
const METHODS: &str = "
using bvh_point = array<f32, 3>;
struct bvh_overlaps {
    geom::bvh::Ascending<geom::bvh::Overlapping> all;
    PHASES_FN bool next() { return all.next(); }
    PHASES_FN u32 item() const { return u32(all.item()); }
};
struct bvh_within {
    geom::bvh::Ascending<geom::bvh::Within> all;
    PHASES_FN bool next() { return all.next(); }
    PHASES_FN NEAREST item() const { return NEAREST{u32(all.item()), f32(all.value())}; }
};
struct bvh_along {
    geom::bvh::Ascending<geom::bvh::Along> all;
    PHASES_FN bool next() { return all.next(); }
    PHASES_FN FIRST item() const { return FIRST{u32(all.item()), f32(all.value())}; }
};
template <class C> PHASES_FN bvh_overlaps m_overlaps_ascending(C, line, const geom::Bvh& b, ref<BOX> box) {
    return bvh_overlaps{{b, {geom_bits<geom::aabb<float>>(*box.p)}}};
}
template <class C> PHASES_FN bvh_within m_within_ascending(C, line, const geom::Bvh& b, bvh_point center, f32 radius) {
    return bvh_within{{b, {geom_vector(center), radius.v}}};
}
template <class C> PHASES_FN bvh_along m_along_ascending(C, line, const geom::Bvh& b, ref<RAY> ray) {
    return bvh_along{{b, {geom_bits<geom::MeshRay>(*ray.p)}}};
}
template <class C> PHASES_FN u32 m_count_overlapping(C, line, const geom::Bvh& b, ref<BOX> box) {
    unsigned count = 0;
    geom::for_each_overlap(b, geom_bits<geom::aabb<float>>(*box.p), [&](unsigned) { ++count; });
    return u32(count);
}
template <class C> PHASES_FN bool m_any_overlapping(C, line, const geom::Bvh& b, ref<BOX> box) {
    return geom::for_each_overlap(b, geom_bits<geom::aabb<float>>(*box.p), [](unsigned) { return true; });
}
template <class C> PHASES_FN option<NEAREST> m_nearest_box(C, line, const geom::Bvh& b, bvh_point p, f32 most) {
    const geom::NearestItem found = geom::nearest(b, geom_vector(p), most.v, [](unsigned, float) { return 0.0f; });
    if (found.item == geom::no_index) return option<NEAREST>();
    return some(NEAREST{u32(found.item), f32(found.distance_squared)});
}
template <class C> PHASES_FN option<FIRST> m_first_box_along(C, line, const geom::Bvh& b, ref<RAY> ray) {
    const geom::FirstItem found =
        geom::first_along(b, geom_bits<geom::MeshRay>(*ray.p), [](unsigned, float enter, float) { return enter; });
    if (found.item == geom::no_index) return option<FIRST>();
    return some(FIRST{u32(found.item), f32(found.t)});
}
";

// SAFETY: the functions are those of the methods in `structures::bvh::ascending`, over the device headers.
unsafe impl Structure for Bvh {
    const SIZE: usize = size_of::<RawBvh>();
    const ALIGN: usize = align_of::<RawBvh>();

    fn rust_name() -> String {
        "geom_kernels::structures::Bvh".to_owned()
    }

    fn cpp_name() -> String {
        "geom::Bvh".to_owned()
    }

    fn write(text: &mut Text) {
        super::begin(text, "geom/bvh.cuh");
        let types = [
            text.ty::<NearestItem>(),
            text.ty::<FirstItem>(),
            text.ty::<Aabb<f32>>(),
            text.ty::<Ray>(),
        ];
        text.define("geom bvh", |_| {
            let named = ["NEAREST", "FIRST", "BOX", "RAY"].into_iter().zip(&types);
            named.fold(METHODS.to_owned(), |text, (name, ty)| text.replace(name, ty))
        });
    }
}

// SAFETY: `bvh_overlaps` and the like. Both sides return items in ascending order.
unsafe impl<T> Items for Ascending<T> {}

on_device!([] bvh::Bvh => Bvh);

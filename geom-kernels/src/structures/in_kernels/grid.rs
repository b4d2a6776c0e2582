//! Hash grids in kernels.

use cuda_safe::kernel::structure::{Items, Structure};
use cuda_safe::kernel::text::Text;

use super::on_device;
use crate::hash_grid;
use crate::hash_grid::layout::RawHashGrid;
use crate::structures::Exact;
use crate::structures::HashGrid;
use crate::structures::hash_grid::{GridPoint, Near, Neighbor, Neighbors};

/// The C++ of the methods. `REAL` is `float` or `double`, `NEIGHBOR` and `POINT` the kernel's types.
const METHODS: &str = "
PHASES_FN NEIGHBOR neighbor_of(const geom::Neighbor<REAL>& n) {
    return NEIGHBOR{u32(n.index), u32(n.slot), from_geom(n.delta), num<REAL, 0>(n.distance_squared), from_geom(n.position)};
}
struct indices_REAL {
    geom::NeighborIterator<REAL> all;
    geom::Neighbor<REAL> found;
    PHASES_FN bool next() { return all.next(found); }
    PHASES_FN u32 item() const { return u32(found.index); }
};
struct near_REAL {
    geom::NeighborIterator<REAL> all;
    geom::Neighbor<REAL> found;
    PHASES_FN bool next() { return all.next(found); }
    PHASES_FN NEIGHBOR item() const { return neighbor_of(found); }
};
using grid_REAL = geom::HashGrid<REAL>;
using point_REAL = array<num<REAL, 0>, 3>;
template <class C> PHASES_FN u32 m_point_count(C, line, const grid_REAL& g) { return u32(geom::point_count(g)); }
template <class C> PHASES_FN option<POINT> m_point_at(C, line, const grid_REAL& g, u32 slot) {
    if (slot.v >= geom::point_count(g)) return option<POINT>();
    const geom::GridPoint<REAL> p = geom::point_at(g, slot.v);
    return some(POINT{from_geom(geom::vec3<REAL>(p.x, p.y, p.z)), u32(p.index), slot});
}
template <class C> PHASES_FN indices_REAL m_neighbors_in_group(C, line, const grid_REAL& g, point_REAL x, num<REAL, 0> r, u32 group) {
    return indices_REAL{geom::NeighborIterator<REAL>(g, geom_vector(x), r.v, group.v)};
}
template <class C> PHASES_FN indices_REAL m_neighbors(C, line, const grid_REAL& g, point_REAL x, num<REAL, 0> r) {
    return indices_REAL{geom::NeighborIterator<REAL>(g, geom_vector(x), r.v)};
}
template <class C> PHASES_FN near_REAL m_near_in_group(C, line, const grid_REAL& g, point_REAL x, num<REAL, 0> r, u32 group) {
    return near_REAL{geom::NeighborIterator<REAL>(g, geom_vector(x), r.v, group.v)};
}
template <class C> PHASES_FN near_REAL m_near(C, line, const grid_REAL& g, point_REAL x, num<REAL, 0> r) {
    return near_REAL{geom::NeighborIterator<REAL>(g, geom_vector(x), r.v)};
}
template <class C> PHASES_FN u32 m_count(C, line, const grid_REAL& g, point_REAL x, num<REAL, 0> r) {
    unsigned count = 0;
    geom::for_each_neighbor(g, geom_vector(x), r.v, [&](const geom::Neighbor<REAL>&) { ++count; });
    return u32(count);
}
template <class C> PHASES_FN point_REAL m_nearest_image(C, line, const grid_REAL& g, point_REAL delta) {
    return from_geom(geom::nearest_image(g, geom_vector(delta)));
}
template <class C> PHASES_FN bool m_any_neighbor(C, line, const grid_REAL& g, point_REAL x, num<REAL, 0> r) {
    return geom::any_neighbor(g, geom_vector(x), r.v);
}
";

macro_rules! grids {
    ($($real:ident $cpp:literal)+) => {$(
        // SAFETY: the functions are those of the methods in `structures::hash_grid`, over the device headers.
        unsafe impl Structure for HashGrid<$real> {
            const SIZE: usize = size_of::<RawHashGrid>();
            const ALIGN: usize = align_of::<RawHashGrid>();

            fn rust_name() -> String {
                concat!("geom_kernels::structures::HashGrid<", stringify!($real), ">").to_owned()
            }

            fn cpp_name() -> String {
                concat!("geom::HashGrid<", $cpp, ">").to_owned()
            }

            fn write(text: &mut Text) {
                super::begin(text, "geom/hash_grid.cuh");
                let (neighbor, point) = (text.ty::<Neighbor<$real>>(), text.ty::<GridPoint<$real>>());
                let methods = || {
                    METHODS.replace("NEIGHBOR", &neighbor).replace("POINT", &point).replace("REAL", $cpp)
                };
                text.define(concat!("geom grid ", $cpp), |_| methods());
            }
        }
    )+};
}
grids!(f32 "float" f64 "double");

// SAFETY: `indices_float` and the like, in the order of the headers, which is that of the iterator.
unsafe impl<T: Exact> Items for Neighbors<'_, T> {}
// SAFETY: `near_float` and the like.
unsafe impl<T: Exact> Items for Near<'_, T> {}

on_device!([T: Exact] hash_grid::HashGrid<T> => HashGrid<T>);

//! Volumes in kernels.

use std::sync::Arc;

use cuda_safe::kernel::structure::Structure;
use cuda_safe::kernel::text::Text;
use cuda_safe::kernel::{DeviceStructure, Reaches, UseOf};
use cuda_safe::{Allocation, KernelArg, Result};

use crate::structures::Volume;
use crate::volume::layout::RawVolume;
use crate::volume::{VolumeValue, VolumeView};

/// The C++ of the methods. `REAL` is `float` or `double`.
const METHODS: &str = "
using volume_REAL = geom::Volume<REAL>;
template <class C> PHASES_FN num<REAL, 0> m_background(C, line, const volume_REAL& v) {
    return num<REAL, 0>(geom::background(v));
}
template <class C> PHASES_FN num<REAL, 0> m_lookup(C, line, const volume_REAL& v, array<i32, 3> p) {
    return num<REAL, 0>(geom::lookup(v, p.a[0].v, p.a[1].v, p.a[2].v));
}
template <class C> PHASES_FN bool m_is_active(C, line, const volume_REAL& v, array<i32, 3> p) {
    return geom::is_active(v, p.a[0].v, p.a[1].v, p.a[2].v);
}
template <class C, class P> PHASES_FN num<REAL, 0> m_sample_nearest(C, line, const volume_REAL& v, array<num<P, 0>, 3> p) {
    return num<REAL, 0>(geom::sample_nearest(v, geom_vector(p)));
}
template <class C, class P> PHASES_FN num<REAL, 0> m_sample_trilinear(C, line, const volume_REAL& v, array<num<P, 0>, 3> p) {
    return num<REAL, 0>(geom::sample_trilinear(v, geom_vector(p)));
}
template <class C, class P> PHASES_FN num<REAL, 0> m_sample_tricubic(C, line, const volume_REAL& v, array<num<P, 0>, 3> p) {
    return num<REAL, 0>(geom::sample_tricubic(v, geom_vector(p)));
}
";

/// The C++ of a map.
const MAP: &str = "
template <class C, class P> PHASES_FN array<num<P, 0>, 3> m_MAP(C, line, const geom::Volume<REAL>& v, array<num<P, 0>, 3> p) {
    return from_geom(geom::MAP(v.map, geom_vector(p)));
}
";

const MAPS: [&str; 6] = [
    "index_to_world",
    "world_to_index",
    "index_to_world_direction",
    "world_to_index_direction",
    "index_to_world_gradient",
    "world_to_index_gradient",
];

macro_rules! volumes {
    ($($real:ident $cpp:literal)+) => {$(
        // SAFETY: the functions are those of the methods in `structures::volume`, over the device headers.
        unsafe impl Structure for Volume<$real> {
            const SIZE: usize = size_of::<RawVolume>();
            const ALIGN: usize = align_of::<RawVolume>();

            fn rust_name() -> String {
                concat!("geom_kernels::structures::Volume<", stringify!($real), ">").to_owned()
            }

            fn cpp_name() -> String {
                concat!("geom::Volume<", $cpp, ">").to_owned()
            }

            fn write(text: &mut Text) {
                super::begin(text, "geom/volume.cuh");
                let maps = MAPS.map(|name| MAP.replace("MAP", name)).concat();
                let methods = || [METHODS, &maps].concat().replace("REAL", $cpp);
                text.define(concat!("geom volume ", $cpp), |_| methods());
            }
        }
    )+};
}
volumes!(f32 "float" f64 "double");

// SAFETY: the view reports all memory that its pointers lead to, and keeps what they lead to as it is.
unsafe impl<T: VolumeValue> Reaches for VolumeView<'_, T> {
    fn reaches(&self, visitor: UseOf<'_>) -> Result<()> {
        let mut visit = |memory: &Arc<Allocation>, range, access| visitor(memory, range, access);
        self.uses(&mut visit)
    }
}

// SAFETY: the value of the view, whose values are of type `T`, is that of the C++ type.
unsafe impl<T: VolumeValue> DeviceStructure<Volume<T>> for VolumeView<'_, T>
where
    Volume<T>: Structure,
{
    fn write(&self, bytes: &mut [u8]) {
        super::copy::<Volume<T>, _>(self, bytes);
    }
}

//! Volumes in kernels.

use std::sync::Arc;

use cuda_safe::kernel::device::Device;
use cuda_safe::kernel::structure::Structure;
use cuda_safe::kernel::text::Text;
use cuda_safe::kernel::{DeviceStructure, Reaches, UseOf};
use cuda_safe::{Allocation, KernelArg, Result};

use crate::structures::Volume;
use crate::structures::volume::Sample;
use crate::volume::layout::RawVolume;
use crate::volume::{Index, Interpolated, OnIndex, VolumeValue, VolumeView};

/// The C++ of the methods of all volumes. `VALUE` is the type of values in the headers.
const METHODS: &str = "
template <class C> PHASES_FN bool m_is_active(C, line, const geom::Volume<VALUE>& v, array<i32, 3> p) {
    return geom::is_active(v, p.a[0].v, p.a[1].v, p.a[2].v);
}
";

/// Those of volumes of floats. `SAMPLE` is the kernel's type of a value and its gradient.
const OF_FLOATS: &str = "
PHASES_FN SAMPLE sample_of(const geom::Sample<VALUE>& s) { return SAMPLE{num<VALUE, 0>(s.value), from_geom(s.gradient)}; }
template <class C> PHASES_FN num<VALUE, 0> m_background(C, line, const geom::Volume<VALUE>& v) {
    return num<VALUE, 0>(geom::background(v));
}
template <class C> PHASES_FN num<VALUE, 0> m_lookup(C, line, const geom::Volume<VALUE>& v, array<i32, 3> p) {
    return num<VALUE, 0>(geom::lookup(v, p.a[0].v, p.a[1].v, p.a[2].v));
}
";

/// A sample of a volume of floats.
const SAMPLE: &str = "
template <class C, class P> PHASES_FN num<VALUE, 0> m_HOW(C, line, const geom::Volume<VALUE>& v, array<num<P, 0>, 3> p) {
    return num<VALUE, 0>(geom::HOW(v, geom_vector(p)));
}
";

/// One with the gradient.
const BOTH: &str = "
template <class C, class P> PHASES_FN SAMPLE m_HOW_with_gradient(C, line, const geom::Volume<VALUE>& v, array<num<P, 0>, 3> p) {
    return sample_of(geom::HOW_with_gradient(v, geom_vector(p)));
}
";

/// One of a volume of indices, with values in a slice.
const OF_INDICES: &str = "
template <class C, class P, class V> PHASES_FN num<V, 0> m_HOW_of(
    C, line, const geom::Volume<VALUE>& v, array<num<P, 0>, 3> p, slice<const num<V, 0>> values, num<V, 0> background
) {
    const geom::IndexedValues<V> all = {reinterpret_cast<const V*>(values.p), values.n, background.v};
    return num<V, 0>(geom::HOW_index(v, geom_vector(p), all));
}
";

const SAMPLES: [&str; 3] = ["sample_nearest", "sample_trilinear", "sample_tricubic"];

/// The C++ of a map.
const MAP: &str = "
template <class C, class P> PHASES_FN array<num<P, 0>, 3> m_MAP(C, line, const geom::Volume<VALUE>& v, array<num<P, 0>, 3> p) {
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

/// Returns a text for each name.
fn each(text: &str, mark: &str, names: &[&str]) -> String {
    names.iter().map(|name| text.replace(mark, name)).collect()
}

/// Writes the methods of a volume of values that the headers call `value`.
fn methods(text: &mut Text, value: &str, of_values: &str) {
    let all = || [METHODS, of_values, &each(MAP, "MAP", &MAPS)].concat().replace("VALUE", value);
    text.define(&["geom volume ", value].concat(), |_| all());
}

macro_rules! volumes {
    ($($rust:ident $cpp:literal $of_values:expr;)+) => {$(
        // SAFETY: the functions are those of the methods in `structures::volume`, over the device headers.
        unsafe impl Structure for Volume<$rust> {
            const SIZE: usize = size_of::<RawVolume>();
            const ALIGN: usize = align_of::<RawVolume>();

            fn rust_name() -> String {
                concat!("geom_kernels::structures::Volume<", stringify!($rust), ">").to_owned()
            }

            fn cpp_name() -> String {
                concat!("geom::Volume<", $cpp, ">").to_owned()
            }

            fn write(text: &mut Text) {
                super::begin(text, "geom/volume.cuh");
                let of_values: String = $of_values(text);
                methods(text, $cpp, &of_values);
            }
        }
    )+};
}
volumes! {
    f32 "float" of_floats::<f32>;
    f64 "double" of_floats::<f64>;
    Index "geom::VolumeIndex" of_indices;
    OnIndex "geom::VolumeOnIndex" of_indices;
}

fn of_floats<T: Interpolated<Gradient: Device> + Device>(text: &mut Text) -> String {
    let sample = text.ty::<Sample<T>>();
    let (values, both) = (each(SAMPLE, "HOW", &SAMPLES), each(BOTH, "HOW", &SAMPLES[1..]));
    [OF_FLOATS, &both].concat().replace("SAMPLE", &sample) + &values
}

fn of_indices(_: &mut Text) -> String {
    each(OF_INDICES, "HOW", &SAMPLES)
}

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

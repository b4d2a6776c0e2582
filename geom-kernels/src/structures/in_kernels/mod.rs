//! The structures in kernels that are written in Rust: their C++ over the device headers, and the structures on a device
//! that launches take.

mod bvh;
mod grid;
mod mesh;
mod volume;

use cuda_safe::KernelArg;
use cuda_safe::kernel::structure::Structure;
use cuda_safe::kernel::text::Text;

/// C++ for all structures: vectors of the headers and arrays of kernels.
const CONVERSIONS: &str = "
template <class T> PHASES_FN geom::vec3<T> geom_vector(const array<num<T, 0>, 3>& a) {
    return geom::vec3<T>(a.a[0].v, a.a[1].v, a.a[2].v);
}
template <class T> PHASES_FN array<num<T, 0>, 3> from_geom(const geom::vec3<T>& v) {
    return array<num<T, 0>, 3>{{num<T, 0>(v.x), num<T, 0>(v.y), num<T, 0>(v.z)}};
}
";

/// C++ that reads a value as one of another type, which has the same fields.
const BITS: &str = "
template <class A, class B> PHASES_FN A geom_bits(const B& b) {
    static_assert(sizeof(A) == sizeof(B), \"two layouts\");
    A a;
    memcpy(&a, &b, sizeof(A));
    return a;
}
";

/// Includes a header, and writes the conversions.
fn begin(text: &mut Text, header: &'static str) {
    text.header(header, crate::headers());
    text.define("geom conversions", |_| [CONVERSIONS, BITS].concat());
}

/// Copies the value of the argument that the structure `S` is on a device. The type has no padding.
fn copy<S: Structure, A: KernelArg<Abi: bytemuck::NoUninit>>(arg: &A, bytes: &mut [u8]) {
    const { assert!(size_of::<A::Abi>() == S::SIZE, "the kernel's parameter has another size") };
    let value = arg.abi();
    bytes.iter_mut().zip(bytemuck::bytes_of(&value)).for_each(|(to, from)| *to = *from);
}

/// Implements what launches need of a structure on a device, whose `view` is a [`KernelArg`].
macro_rules! on_device {
    ([$($generic:ident: $bound:path)?] $device:ty => $structure:ty $(, $is_current:ident)?) => {
        // SAFETY: the view reports all memory that its pointers lead to, and keeps what they lead to as it is.
        unsafe impl $(<$generic: $bound>)? cuda_safe::kernel::Reaches for $device {
            fn reaches(&self, visitor: cuda_safe::kernel::UseOf<'_>) -> cuda_safe::Result<()> {
                let mut visit = |memory: &std::sync::Arc<cuda_safe::Allocation>, range, access| {
                    visitor(memory, range, access)
                };
                cuda_safe::KernelArg::uses(&self.view(), &mut visit)
            }

            $(fn is_current(&self, stream: &cuda_safe::Stream) -> cuda_safe::Result<()> {
                self.$is_current(stream)
            })?
        }

        // SAFETY: the value of the view is that of the C++ type.
        unsafe impl $(<$generic: $bound>)? cuda_safe::kernel::DeviceStructure<$structure> for $device
        where
            $structure: cuda_safe::kernel::structure::Structure,
        {
            fn write(&self, bytes: &mut [u8]) {
                super::copy::<$structure, _>(&self.view(), bytes);
            }
        }
    };
}
use on_device;

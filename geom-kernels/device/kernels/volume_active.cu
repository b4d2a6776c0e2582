// Whether voxels are active. Types of the same layout share one kernel: f32, i32, u32 and colours use the kernel of
// u32; f64 and i64 that of i64.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_ACTIVE(unsigned, u32)
GEOM_VOLUME_ACTIVE(long long, i64)
GEOM_VOLUME_ACTIVE(short, i16)
GEOM_VOLUME_ACTIVE(unsigned char, u8)
GEOM_VOLUME_ACTIVE(geom::vec3<float>, vec3f)
GEOM_VOLUME_ACTIVE(geom::vec3<double>, vec3d)
GEOM_VOLUME_ACTIVE(geom::vec4<float>, vec4f)
GEOM_VOLUME_ACTIVE(geom::vec4<double>, vec4d)
GEOM_VOLUME_ACTIVE(geom::VolumeBool, bool)
GEOM_VOLUME_ACTIVE(geom::VolumeMask, mask)
GEOM_VOLUME_ACTIVE(geom::VolumeIndex, index)
GEOM_VOLUME_ACTIVE(geom::VolumeOnIndex, on_index)

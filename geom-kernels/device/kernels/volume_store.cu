// Writing values of voxels. Kernels copy bits, so that types of the same layout share one: f32, i32, u32 and colours
// use the kernel of u32; f64 and i64 that of i64.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_STORE(unsigned, unsigned, u32)
GEOM_VOLUME_STORE(long long, long long, i64)
GEOM_VOLUME_STORE(short, short, i16)
GEOM_VOLUME_STORE(unsigned char, unsigned char, u8)
GEOM_VOLUME_STORE(geom::vec3<float>, geom::vec3<float>, vec3f)
GEOM_VOLUME_STORE(geom::vec3<double>, geom::vec3<double>, vec3d)
GEOM_VOLUME_STORE(geom::vec4<float>, geom::vec4<float>, vec4f)
GEOM_VOLUME_STORE(geom::vec4<double>, geom::vec4<double>, vec4d)
GEOM_VOLUME_STORE(geom::VolumeBool, unsigned char, bool)
GEOM_VOLUME_STORE(geom::VolumeMask, unsigned char, mask)

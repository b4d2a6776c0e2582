// A picture of a mesh on the ground: by the light of the sky, as far as the mesh leaves that open, and of a
// lamp.
#include <geom/mesh.cuh>
using vec3 = geom::vec3<float>;

// The image's middle is at eye + forward; from there right and up lead to its sides.
struct Camera {
    vec3 eye, forward, right, up;
};

// Points of the unit square, spread evenly: multiples of the plastic number (M. Roberts, 2018), from a start
// by a hash (M. Jarzynski, M. Olano, "Hash Functions for GPU Rendering", 2020).
struct Samples {
    float u, v;

    __device__ explicit Samples(unsigned seed) {
        seed = seed * 747796405u + 2891336453u;
        seed = ((seed >> ((seed >> 28) + 4)) ^ seed) * 277803737u;
        u = (seed & 0xffff) / 65536.0f;
        v = (seed >> 16) / 65536.0f;
    }
    __device__ void next() {
        u += 0.75487767f, v += 0.56984029f;
        u -= floorf(u), v -= floorf(v);
    }
    // The next point as a direction; all are alike likely.
    __device__ vec3 direction() {
        next();
        float y = 1 - 2 * u, r = sqrtf(1 - y * y), angle = 6.2831853f * v;
        return vec3(r * cosf(angle), y, r * sinf(angle));
    }
};

// 1 if nothing is in the way for that far, else 0.
__device__ float is_free(const geom::Mesh& mesh, vec3 from, vec3 direction, float t_max) {
    return geom::any_hit(mesh, {from, 0.0f, direction, t_max}) ? 0.0f : 1.0f;
}

// Draws n pixels from `first` on, row by row from the top: each by `samples` rays from the eye, and for each
// of these `sky_rays` that look for what is nearer than `reach`. `ground` is how high that is.
extern "C" __global__ void render(geom::Mesh mesh, Camera camera, float ground, float reach, int width,
                                  int height, int samples, int sky_rays, unsigned first,
                                  uchar4* image, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned pixel = first + i;
    Samples places(3 * pixel), skies(3 * pixel + 1), lamps(3 * pixel + 2);
    const vec3 to_lamp = normalize(vec3(-0.5f, 0.9f, 0.55f));
    vec3 sum(0.0f);
    for (int sample = 0; sample < samples; ++sample) {
        places.next();
        float x = 2 * (pixel % width + places.u) / width - 1;
        float y = 1 - 2 * (pixel / width + places.v) / height;
        vec3 direction = normalize(camera.forward + x * camera.right + y * camera.up);
        geom::RayHit hit =
            geom::nearest_hit(mesh, {camera.eye, 0.0f, direction, geom::exact::infinity()});
        bool is_mesh = hit.face != geom::no_index;

        // The background has one colour. The ground has the same colour where nothing shades it.
        vec3 backdrop = lerp(vec3(0.80f, 0.82f, 0.85f), vec3(0.61f, 0.65f, 0.70f), 0.5f * (x * x + y * y));
        float t = is_mesh ? hit.t : (ground - camera.eye.y) / direction.y;
        if (!(t > 0)) {
            sum += backdrop;
            continue;
        }
        vec3 normal = is_mesh ? geom::face_normal(mesh, hit.face) : vec3(0, 1, 0);
        if (is_mesh && !hit.front) normal = -normal;
        // A little off the surface, which rays from there are not to hit.
        vec3 at = camera.eye + t * direction + 1e-3f * reach * normal;

        float open = 0;
        for (int k = 0; k < sky_rays; ++k) {
            // The more likely the steeper: in proportion to the cosine.
            vec3 to_sky = normalize(normal + skies.direction(), normal);
            open += is_free(mesh, at, to_sky, reach) / sky_rays;
        }
        // The lamp has a size, so shadows are soft.
        vec3 to_part = to_lamp + 0.06f * lamps.direction();
        float lit = is_free(mesh, at, to_part, geom::exact::infinity());

        if (!is_mesh) {
            sum += backdrop * (0.15f + 0.5f * open + 0.35f * lit);
            continue;
        }
        vec3 colour = vec3(0.56f, 0.29f, 0.17f) + vec3(0.10f, 0.05f, 0.04f) * normal;
        vec3 sky = lerp(vec3(0.38f, 0.31f, 0.27f), vec3(0.65f, 0.70f, 0.81f), 0.5f + 0.5f * normal.y);
        vec3 lamp = vec3(1.25f, 1.15f, 1.0f) * fmaxf(0.0f, dot(normal, to_lamp));
        float shine = 0.18f * powf(fmaxf(0.0f, dot(normal, normalize(to_lamp - direction))), 50.0f);
        sum += colour * (open * sky + lit * lamp) + vec3(lit * shine);
    }
    // From light to what screens expect.
    vec3 light = min(sum / samples, vec3(1.0f));
    image[i] = make_uchar4(255 * powf(light.x, 0.4545f), 255 * powf(light.y, 0.4545f),
                           255 * powf(light.z, 0.4545f), 255);
}

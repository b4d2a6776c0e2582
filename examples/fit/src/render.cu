// A picture of a mesh on the ground, coloured by how far it is from the surface of a volume of distances.
#include <geom/mesh.cuh>
#include <geom/volume.cuh>
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

// 1 if nothing is in the way, else 0.
__device__ float is_free(const geom::Mesh& mesh, vec3 from, vec3 direction, float t_max) {
    return geom::any_hit(mesh, {from, 0.0f, direction, t_max}) ? 0.0f : 1.0f;
}

// How much of the edges of a face of the mesh is seen at a point of it: lines that are `width` wide.
__device__ float edges(const geom::Mesh& mesh, const geom::FacePoint& point, float width) {
    geom::vec3<unsigned> face;
    if (!geom::face_vertices(mesh, point.face, &face))
        return 0.0f;
    vec3 a = mesh.points[face.x], b = mesh.points[face.y], c = mesh.points[face.z];
    float area = length(cross(b - a, c - a));
    float from_bc = (1 - point.u - point.v) * area / length(c - b);
    float from_ca = point.u * area / length(a - c), from_ab = point.v * area / length(b - a);
    float nearest = fminf(from_bc, fminf(from_ca, from_ab));
    return nearest < 0.5f * width ? 1.0f : 0.0f;
}

// From what is on the surface to what is `part` of the way to the farthest.
__device__ vec3 colour(float part) {
    const vec3 stops[4] = {vec3(0.62f, 0.36f, 0.19f), vec3(0.70f, 0.60f, 0.45f), vec3(0.30f, 0.52f, 0.62f),
                           vec3(0.10f, 0.20f, 0.45f)};
    float place = 3 * fminf(fmaxf(part, 0.0f), 1.0f);
    int first = place < 1 ? 0 : place < 2 ? 1 : 2;
    return lerp(stops[first], stops[first + 1], place - first);
}

// Draws n pixels from `first` on, row by row from the top, each by `samples` rays. Farthest from the volume's
// surface is `farthest`; `pixel` is how wide a pixel is at a distance of 1, or 0 where no edges are drawn.
extern "C" __global__ void
render(geom::Mesh mesh, geom::Volume<float> volume, Camera camera, float ground, float farthest, float pixel,
       int width, int height, int samples, unsigned first, uchar4* image, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned number = first + i;
    Samples places(3 * number), skies(3 * number + 1), lamps(3 * number + 2);
    const vec3 to_lamp = normalize(vec3(-0.5f, 0.9f, 0.65f));
    const float reach = 0.6f;
    vec3 sum(0.0f);
    for (int sample = 0; sample < samples; ++sample) {
        places.next();
        float x = 2 * (number % width + places.u) / width - 1;
        float y = 1 - 2 * (number / width + places.v) / height;
        vec3 direction = normalize(camera.forward + x * camera.right + y * camera.up);
        geom::RayHit hit = geom::nearest_hit(mesh, {camera.eye, 0.0f, direction, geom::exact::infinity()});
        bool is_mesh = hit.face != geom::no_index;

        // Behind the mesh is one colour, which the ground has too where nothing shades it.
        vec3 backdrop = lerp(vec3(0.84f, 0.85f, 0.87f), vec3(0.66f, 0.69f, 0.73f), 0.5f * (x * x + y * y));
        float t = is_mesh ? hit.t : (ground - camera.eye.y) / direction.y;
        if (!(t > 0)) {
            sum += backdrop;
            continue;
        }
        geom::FacePoint point = geom::face_point(hit);
        vec3 normal = is_mesh ? normalize(geom::smooth_normal(mesh, point)) : vec3(0, 1, 0);
        if (is_mesh && !hit.front)
            normal = -normal;
        // A little off the surface, which rays from there are not to hit.
        vec3 on = camera.eye + t * direction, at = on + 2e-3f * normal;
        float open = is_free(mesh, at, normalize(normal + skies.direction(), normal), reach);
        // The lamp has a size, so shadows are soft.
        float lit = is_free(mesh, at, to_lamp + 0.06f * lamps.direction(), geom::exact::infinity());
        if (!is_mesh) {
            sum += backdrop * (0.15f + 0.5f * open + 0.35f * lit);
            continue;
        }
        float off = fabsf(geom::sample_trilinear(volume, geom::world_to_index(volume.map, on)));
        vec3 skin = colour(off / farthest);
        skin *= 1 - 0.4f * edges(mesh, point, pixel * t);
        vec3 sky = lerp(vec3(0.38f, 0.33f, 0.30f), vec3(0.65f, 0.70f, 0.80f), 0.5f + 0.5f * normal.y);
        vec3 lamp = vec3(1.15f, 1.08f, 0.98f) * fmaxf(0.0f, dot(normal, to_lamp));
        sum += skin * (open * sky + lit * lamp);
    }
    // From light to what screens expect.
    vec3 light = min(sum / samples, vec3(1.0f));
    image[i] = make_uchar4(255 * powf(light.x, 0.4545f), 255 * powf(light.y, 0.4545f),
                           255 * powf(light.z, 0.4545f), 255);
}

// Ray Tracing in One Weekend by hand, without checks.

struct Vec3 {
    float x, y, z;
};

__device__ Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__device__ Vec3 operator-(Vec3 a) { return {-a.x, -a.y, -a.z}; }
__device__ Vec3 operator*(Vec3 a, Vec3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
__device__ Vec3 operator*(Vec3 a, float b) { return {a.x * b, a.y * b, a.z * b}; }
__device__ float dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ Vec3 unit(Vec3 a) { return a * (1.0f / sqrtf(dot(a, a))); }

enum Material : unsigned { Matte, Metal, Glass };

struct Sphere {
    Vec3 center;
    float radius;
    Vec3 colour;
    float detail;
    Material material;
};

struct Camera {
    Vec3 eye, corner, right, down, lens_right, lens_down;
};

struct Ray {
    Vec3 from, direction;
};

struct Hit {
    float t;
    Vec3 point, normal;
    unsigned sphere;
};

__device__ unsigned mix(unsigned x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

struct Random {
    unsigned key, drawn;

    __device__ float next() {
        drawn += 1;
        return (mix(key ^ mix(drawn)) >> 8) * (1.0f / 16777216.0f);
    }

    __device__ Vec3 in_ball() {
        while (true) {
            float x = next();
            float y = next();
            float z = next();
            Vec3 p = {2.0f * x - 1.0f, 2.0f * y - 1.0f, 2.0f * z - 1.0f};
            float d = dot(p, p);
            if (d > 1e-12f && d < 1.0f) {
                return p;
            }
        }
    }
};

__device__ bool meet(const Ray &ray, const Sphere &sphere, float near, float far, float &t) {
    Vec3 oc = sphere.center - ray.from;
    float a = dot(ray.direction, ray.direction);
    float h = dot(ray.direction, oc);
    float discriminant = h * h - a * (dot(oc, oc) - sphere.radius * sphere.radius);
    if (discriminant < 0.0f) {
        return false;
    }
    float root = sqrtf(discriminant);
    t = (h - root) / a;
    if (t <= near || t >= far) {
        t = (h + root) / a;
        return t > near && t < far;
    }
    return true;
}

__device__ bool first(const Ray &ray, const Sphere *spheres, unsigned n, Hit &hit) {
    bool found = false;
    float far = 3.40282347e38f;
    for (unsigned i = 0; i < n; i++) {
        float t;
        if (meet(ray, spheres[i], 1e-3f, far, t)) {
            far = t;
            found = true;
            Vec3 point = ray.from + ray.direction * t;
            hit = {t, point, (point - spheres[i].center) * (1.0f / spheres[i].radius), i};
        }
    }
    return found;
}

__device__ Vec3 reflect(Vec3 direction, Vec3 normal) {
    return direction + normal * (-2.0f * dot(direction, normal));
}

__device__ Vec3 through_glass(Vec3 direction, Vec3 outward, float index, Random &random) {
    Vec3 ray = unit(direction);
    bool entering = dot(ray, outward) < 0.0f;
    Vec3 normal = entering ? outward : -outward;
    float ratio = entering ? 1.0f / index : index;
    float cosine = fminf(-dot(ray, normal), 1.0f);
    float sine = sqrtf(fmaxf(1.0f - cosine * cosine, 0.0f));
    float r = (1.0f - ratio) / (1.0f + ratio);
    r = r * r;
    float c = 1.0f - cosine;
    float reflectance = r + (1.0f - r) * (c * c * c * c * c);
    if (ratio * sine > 1.0f || reflectance > random.next()) {
        return reflect(ray, normal);
    }
    Vec3 across = (ray + normal * cosine) * ratio;
    return across + normal * -sqrtf(fabsf(1.0f - dot(across, across)));
}

__device__ bool scatter(Ray &ray, const Hit &hit, const Sphere &sphere, Random &random) {
    bool inside = dot(ray.direction, hit.normal) > 0.0f;
    Vec3 normal = inside ? -hit.normal : hit.normal;
    Vec3 direction;
    switch (sphere.material) {
    case Matte:
        direction = normal + unit(random.in_ball());
        if (dot(direction, direction) < 1e-12f) {
            direction = normal;
        }
        break;
    case Metal:
        direction = unit(reflect(ray.direction, normal));
        direction = direction + unit(random.in_ball()) * sphere.detail;
        if (dot(direction, normal) <= 0.0f) {
            return false;
        }
        break;
    default:
        direction = through_glass(ray.direction, hit.normal, sphere.detail, random);
    }
    ray = {hit.point, direction};
    return true;
}

__device__ Vec3 light(Ray ray, const Sphere *spheres, unsigned n, unsigned depth, Random &random) {
    Vec3 share = {1.0f, 1.0f, 1.0f};
    for (unsigned k = 0; k < depth; k++) {
        Hit hit;
        if (!first(ray, spheres, n, hit)) {
            float a = 0.5f * (unit(ray.direction).y + 1.0f);
            return share * Vec3{1.0f - 0.5f * a, 1.0f - 0.3f * a, 1.0f};
        }
        const Sphere &sphere = spheres[hit.sphere];
        if (!scatter(ray, hit, sphere, random)) {
            break;
        }
        share = share * sphere.colour;
    }
    return {0.0f, 0.0f, 0.0f};
}

__device__ unsigned char byte_of(float x) { return (unsigned char)(256.0f * fminf(sqrtf(x), 0.999f)); }

__global__ void render(unsigned width, unsigned height, unsigned samples, unsigned depth, Camera camera,
                       const Sphere *__restrict__ spheres, unsigned n, uchar4 *__restrict__ picture) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        Random random = {mix(y * width + x + 0x9e3779b9u), 0};
        Vec3 sum = {0.0f, 0.0f, 0.0f};
        for (unsigned k = 0; k < samples; k++) {
            float dx = random.next();
            float dy = random.next();
            float right = (x + dx) / width;
            float down = (y + dy) / height;
            Vec3 lens = random.in_ball();
            Vec3 from = camera.eye + camera.lens_right * lens.x + camera.lens_down * lens.y;
            Vec3 to = camera.corner + camera.right * right + camera.down * down;
            sum = sum + light({from, to - from}, spheres, n, depth, random);
        }
        Vec3 mean = sum * (1.0f / samples);
        picture[y * width + x] = make_uchar4(byte_of(mean.x), byte_of(mean.y), byte_of(mean.z), 255);
    }
}

// Adjoints by hand of the kernels of `flight.cu` in the example `trajectory`, whose text comes before this.
#include <geom/tape.cuh>

// The gradient of v from the gradient of its acceleration. The drag of a ball at rest does not change.
__device__ vec2 acceleration_adjoint(const World& world, vec2 v, vec2 g) {
    float speed = geom::exact::length(v);
    if (speed == 0.0f)
        return vec2(0.0f);
    return -world.drag * (speed * g + v * (dot(v, g) / speed));
}

// The gradient of the start from the gradient of the end; and of the time, which is added to gt.
__device__ State fly_adjoint(const World& world, const State& s, float t, const State& g, float& gt) {
    vec2 a = acceleration(world, s.v), ga = t * (0.5f * t * g.x + g.v);
    gt += dot(g.x, s.v + t * a) + dot(g.v, a);
    return {g.x, g.v + t * g.x + acceleration_adjoint(world, s.v, ga)};
}

// A bounce is linear and symmetric in the velocity, so its adjoint is itself.
extern "C" __global__ void
step_adjoint(World world, float dt, const float4* from, float4*, unsigned n, float4* gfrom,
             float4* gto, geom::tape::Frame frame) {
    using namespace geom::tape;
    if (!begin(frame))
        return;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    State s = unpack(from[i]), g = unpack(grad_take(frame, 1, at(gto, i)));
    Contact c = contact(world, s, dt);
    float before = 0.0f, after = 0.0f;  // gradients of the times before and after the bounce
    if (c.hit) {
        State hit = fly(world, s, c.time), back = hit;
        back.v = bounced(world, c.normal, hit.v);
        g = fly_adjoint(world, back, dt - c.time, g, after);
        g.v = bounced(world, c.normal, g.v);
    }
    g = fly_adjoint(world, s, c.hit ? c.time : dt, g, before);
    // The gap at the bounce stays 0: the time of the bounce compensates any change. A ball that only just touches has
    // no derivative there, and none is computed.
    if (c.hit && !c.behind && c.closing < 0.0f) {
        vec2 gap = (after - before) / c.closing * c.normal;
        g.x += gap;
        g.v += c.time * gap
            + acceleration_adjoint(world, s.v, 0.5f * c.time * c.time * gap);
    }
    grad_own(frame, 0, at(gfrom, i), pack(g));
}

extern "C" __global__ void miss_adjoint(const float4* ball, float2 target, float*, float4* gball,
                                        float* gloss, geom::tape::Frame frame) {
    using namespace geom::tape;
    if (!begin(frame) || blockIdx.x + threadIdx.x > 0)
        return;
    float g = grad_take(frame, 1, gloss);
    vec2 off = unpack(*ball).x - vec2(target);
    grad_own(frame, 0, gball, pack({2.0f * g * off, vec2(0.0f)}));
}

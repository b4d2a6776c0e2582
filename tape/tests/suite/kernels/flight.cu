// The kernels of the example `trajectory` in C++, with adjoints by hand.
//
// A ball in the plane that flies, and bounces off the ground (y = 0) and off a wall. Its state is a float4:
// its place (x, y) and its velocity (z, w).
//
// A step in which the ball touches something is parted there, at a time that depends on the state. So where
// it ends depends continuously on where it starts, whichever step a bounce falls into; and it can be
// differentiated, which the adjoint does by the implicit function theorem.
#include <geom/math/vec.cuh>
#include <geom/tape.cuh>
using vec2 = geom::vec2<float>;

struct World {
    float gravity, drag, radius, wall;
    float bounce;  // of the velocity towards what is hit, how much comes back
    float slide;   // of the velocity along it, how much stays
};

struct State {
    vec2 x, v;
};
__device__ State unpack(float4 s) { return {vec2(s.x, s.y), vec2(s.z, s.w)}; }
__device__ float4 pack(const State& s) { return make_float4(s.x.x, s.x.y, s.v.x, s.v.y); }

// The acceleration of a ball of this velocity: its weight, and the drag of the air, which grows with the square.
__device__ vec2 acceleration(const World& world, vec2 v) {
    return vec2(0.0f, -world.gravity) - world.drag * geom::exact::length(v) * v;
}
// Free flight for a time t, by a parabola.
__device__ State fly(const World& world, const State& s, float t) {
    vec2 a = acceleration(world, s.v);
    return {s.x + t * (s.v + 0.5f * t * a), s.v + t * a};
}
// The first hit within a step, and its time.
struct Contact {
    vec2 normal;
    float time, closing;  // how fast the gap closes then: not above 0
    bool hit, behind;     // behind: it was hit before already
};

// Looks whether a gap closes within t that changes with the place along `normal`.
__device__ void look(Contact& first, vec2 normal, float gap, vec2 v, vec2 a, float t) {
    float vn = dot(normal, v), an = dot(normal, a);
    if (gap + t * (vn + 0.5f * t * an) >= 0.0f)
        return;
    Contact found = {normal, 0.0f, vn, true, gap < 0.0f};
    if (gap > 0.0f) {
        // The first root of gap + vn s + an s^2 / 2, so written that nothing cancels.
        float root = sqrtf(fmaxf(vn * vn - 2.0f * an * gap, 0.0f));
        found.time = fminf(2.0f * gap / (root - vn), t);
        found.closing = -root;
    } else if (vn >= 0.0f) {
        return;  // on its way back
    }
    if (!first.hit || found.time < first.time)
        first = found;
}

__device__ Contact contact(const World& world, const State& s, float t) {
    Contact first = {vec2(0.0f), t, 0.0f, false, false};
    vec2 a = acceleration(world, s.v);
    look(first, vec2(0.0f, 1.0f), s.x.y - world.radius, s.v, a, t);
    look(first, vec2(-1.0f, 0.0f), world.wall - world.radius - s.x.x, s.v, a, t);
    return first;
}

// The velocity after a bounce.
__device__ vec2 bounced(const World& world, vec2 normal, vec2 v) {
    vec2 across = dot(normal, v) * normal;
    return world.slide * (v - across) - world.bounce * across;
}

// Moves ball i by a time step.
extern "C" __global__ void
step(World world, float dt, const float4* from, float4* to, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    State s = unpack(from[i]);
    Contact c = contact(world, s, dt);
    if (c.hit) {
        s = fly(world, s, c.time);
        s.v = bounced(world, c.normal, s.v);
    }
    to[i] = pack(fly(world, s, c.hit ? dt - c.time : dt));
}

// By how much a ball misses the target: the square of its distance.
extern "C" __global__ void miss(const float4* ball, float2 target, float* loss) {
    if (blockIdx.x + threadIdx.x > 0)
        return;
    vec2 off = unpack(*ball).x - vec2(target);
    *loss = dot(off, off);
}

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

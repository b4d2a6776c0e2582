//! The physics: cohesive grains with Coulomb friction, on the ground y = 0.

use cuda_safe::kernel::vector::{Vec3, Vec4};
use cuda_safe::kernel::{device, kernel};

/// The radius of a grain. Its mass is 1/64.
pub(crate) const RADIUS: f32 = 0.1;
/// The gaps up to which grains stick to each other, and to the ground.
const COHESION: f32 = 0.0075;
const GROUND_COHESION: f32 = 0.02;
/// How far a grain may move before its neighbours are listed again.
const SLACK: f32 = 0.065;
/// The distance up to which neighbours are listed: they touch if both have moved by `SLACK`.
pub(crate) const REACH: f32 = 2.0 * RADIUS + COHESION + 2.0 * SLACK;
/// A frame is 64 time steps.
const TIME_STEP: f32 = 1.0 / 60.0 / 64.0;

/// Returns the force of a contact on a grain. `n` is the unit normal, `v` the velocity relative to the other.
#[device(contract)]
fn contact_force(n: Vec3, v: Vec3, gap: f32, friction: f32, mu: f32) -> Vec3 {
    let approach = n.dot(v);
    let normal = gap * 8000.0 + approach.min(0.0) * 2.0;
    let slip = v.along(n, -approach);
    let rub = (slip.length() * friction).min(mu * normal.abs());
    (n * -normal).along(slip.normalize(), -rub)
}

/// Moves each grain by a time step. `x` are positions, with the number of contacts as w, and `v` velocities, with a
/// colour as w. `lists[offsets[i]..offsets[i + 1]]` are the neighbours of grain i when it was at `old[i]`.
#[kernel(contract, gradient)]
pub(crate) fn step(
    x: &[Vec4],
    v: &[Vec4],
    #[inactive] old: &[Vec4],
    offsets: &[u64],
    lists: &[u32],
    next_x: &mut [Vec4],
    next_v: &mut [Vec4],
) {
    assert!(x.len() == next_x.len() && v.len() == next_x.len() && next_v.len() == next_x.len());
    assert!(old.len() == next_x.len() && offsets.len() == next_x.len() + 1);
    each((next_x, next_v), |i, (next_x, next_v)| {
        let (at, speed, mut force, mut contacts) = (x[i].xyz(), v[i].xyz(), Vec3::ZERO, 0.0);
        assert!(at.distance(old[i].xyz()) <= SLACK); // else a contact may not be listed
        if at.y < GROUND_COHESION {
            force = contact_force(Vec3::new(0.0, 1.0, 0.0), speed, at.y, 100.0, 0.5);
        }
        for j in &lists[offsets[i] as usize..offsets[i + 1] as usize] {
            let apart = at - x[*j as usize].xyz();
            let (distance, gap) = (apart.length(), apart.length() - 2.0 * RADIUS);
            if gap <= COHESION {
                let relative = speed - v[*j as usize].xyz();
                force += contact_force(apart * distance.recip(), relative, gap, 1.0, 1e5);
                contacts += 1.0;
            }
        }
        let speed = speed.along(force * 64.0 - Vec3::new(0.0, 9.8, 0.0), TIME_STEP);
        *next_x = at.along(speed, TIME_STEP).extend(contacts);
        *next_v = speed.extend(v[i].w);
    });
}

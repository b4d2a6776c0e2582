//! The kernels: a ball in the plane that flies, and bounces off the ground (y = 0) and off a wall.
//!
//! A step in which the ball touches something is parted there, at a time that depends on the state. So where it ends
//! depends continuously on where it starts, whichever step a bounce falls into, and the gradient is that of the whole
//! flight.

use cuda_safe::kernel::vector::Vec2;
use cuda_safe::kernel::{Device, device, kernel};

/// The parameters of a step, except its duration.
#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
pub(crate) struct World {
    pub(crate) gravity: f32,
    pub(crate) drag: f32,
    pub(crate) radius: f32,
    pub(crate) wall: f32,
    /// The share of the velocity towards what is hit that comes back.
    pub(crate) bounce: f32,
    /// The share of the velocity along it that stays.
    pub(crate) slide: f32,
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Ball {
    x: Vec2,
    v: Vec2,
}

/// Returns the acceleration of a ball: its weight, and the drag of the air, which grows with the square of the velocity.
#[device]
fn acceleration(world: World, v: Vec2) -> Vec2 {
    v * (-world.drag * v.length()) - Vec2::new(0.0, world.gravity)
}

/// Returns the ball after free flight for a time `t`, by a parabola.
#[device]
fn fly(world: World, ball: Ball, t: f32) -> Ball {
    let a = acceleration(world, ball.v);
    Ball { x: ball.x.along(ball.v.along(a, 0.5 * t), t), v: ball.v.along(a, t) }
}

/// Returns when a gap closes within a time `t`, at the velocity `v` and the acceleration `a` of the gap.
#[device]
fn closing(gap: f32, v: f32, a: f32, t: f32) -> Option<f32> {
    if gap + t * (v + 0.5 * t * a) >= 0.0 {
        None
    } else if gap > 0.0 {
        // The first root of gap + v s + a s²/2, so written that nothing cancels.
        let root = (v * v - 2.0 * a * gap).max(0.0).sqrt();
        Some((2.0 * gap / (root - v)).min(t))
    } else if v < 0.0 {
        Some(0.0)
    } else {
        None // on its way back
    }
}

/// Returns when a ball first touches something within a time `t`, and by what its velocity is multiplied there.
#[device]
fn contact(world: World, ball: Ball, t: f32) -> Option<(f32, Vec2)> {
    let Ball { x, v } = ball;
    let a = acceleration(world, v);
    let ground = closing(x.y - world.radius, v.y, a.y, t);
    let wall = closing(world.wall - world.radius - x.x, -v.x, -a.x, t);
    let off_ground = Vec2::new(world.slide, -world.bounce);
    let off_wall = Vec2::new(-world.bounce, world.slide);
    match (ground, wall) {
        (Some(ground), Some(wall)) if wall < ground => Some((wall, off_wall)),
        (Some(ground), _) => Some((ground, off_ground)),
        (None, Some(wall)) => Some((wall, off_wall)),
        (None, None) => None,
    }
}

/// Moves balls, which are a place and a velocity each, by a time step.
#[kernel(gradient)]
pub(crate) fn step(world: World, dt: f32, from: &[[[f32; 2]; 2]], to: &mut [[[f32; 2]; 2]]) {
    assert!(from.len() == to.len());
    each(to, |i, to| {
        let ball = Ball { x: Vec2::from_array(from[i][0]), v: Vec2::from_array(from[i][1]) };
        let end = match contact(world, ball, dt) {
            Some((time, keeps)) => {
                let hit = fly(world, ball, time);
                fly(world, Ball { x: hit.x, v: hit.v.times(keeps) }, dt - time)
            }
            None => fly(world, ball, dt),
        };
        *to = [end.x.to_array(), end.v.to_array()];
    });
}

/// The squares of how far balls are from the target.
#[allow(dead_code, reason = "the benchmark has the step alone")]
#[kernel(gradient)]
pub(crate) fn miss(balls: &[[[f32; 2]; 2]], target: [f32; 2], loss: &mut [f32]) {
    assert!(balls.len() == loss.len());
    each(loss, |i, loss| {
        let off = Vec2::from_array(balls[i][0]) - Vec2::from_array(target);
        *loss = off.dot(off);
    });
}

//! The same flight by the host, in f64.

use crate::flight::{Flight, Setting};

type Checked = Result<(), Box<dyn std::error::Error>>;

/// How far the device may be off, in places and, relative to its length, in the gradient.
const TOLERANCE: f64 = 1e-3;

/// Where the ball ends, and the square of how far that is from the target.
fn fall(setting: &Setting, velocity: [f64; 2]) -> ([f64; 2], f64) {
    let dt = f64::from(setting.time_step());
    let (mut place, mut velocity) = (setting.start.map(f64::from), velocity);
    for _ in 0..setting.steps {
        let mut left = dt;
        if let Some((axis, time)) = bounce(setting, place, velocity, dt) {
            (place, velocity) = fly(setting, place, velocity, time);
            let w = setting.world;
            let (back, along) = (-f64::from(w.bounce), f64::from(w.slide));
            velocity = std::array::from_fn(|i| velocity[i] * if i == axis { back } else { along });
            left -= time;
        }
        (place, velocity) = fly(setting, place, velocity, left);
    }
    let off: f64 = place.iter().zip(setting.target).map(|(x, t)| (x - f64::from(t)).powi(2)).sum();
    (place, off)
}

fn fly(setting: &Setting, x: [f64; 2], v: [f64; 2], t: f64) -> ([f64; 2], [f64; 2]) {
    let a = acceleration(setting, v);
    let at = |i: usize| (x[i] + t * v[i] + 0.5 * t * t * a[i], v[i] + t * a[i]);
    let ((x, vx), (y, vy)) = (at(0), at(1));
    ([x, y], [vx, vy])
}

fn acceleration(setting: &Setting, v: [f64; 2]) -> [f64; 2] {
    let drag = -f64::from(setting.world.drag) * v[0].hypot(v[1]);
    [drag * v[0], drag * v[1] - f64::from(setting.world.gravity)]
}

/// Across which axis the ball bounces first within `dt`, and when: found by halving.
fn bounce(setting: &Setting, x: [f64; 2], v: [f64; 2], dt: f64) -> Option<(usize, f64)> {
    let w = setting.world;
    let (radius, wall) = (f64::from(w.radius), f64::from(w.wall));
    let gaps = |t: f64| {
        let ([x, y], _) = fly(setting, x, v, t);
        [wall - radius - x, y - radius]
    };
    let towards = [v[0] > 0.0, v[1] < 0.0];
    let hits = (0..2).filter(|axis| gaps(dt)[*axis] < 0.0).filter_map(|axis| {
        if gaps(0.0)[axis] <= 0.0 {
            return towards[axis].then_some((axis, 0.0));
        }
        let (mut free, mut in_it) = (0.0, dt);
        for _ in 0..60 {
            let middle = 0.5 * (free + in_it);
            if gaps(middle)[axis] < 0.0 { in_it = middle } else { free = middle }
        }
        Some((axis, free))
    });
    hits.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Compares where the ball ends.
///
/// # Errors
/// By how much it differs, or the error that the driver returns.
pub(crate) fn end(setting: &Setting, flight: &mut Flight, velocity: [f64; 2]) -> Checked {
    let (place, _) = fall(setting, velocity);
    let found = flight.path(velocity)?.last().map_or([f64::NAN; 2], |x| x.map(f64::from));
    // So written that a NaN is refused.
    if apart(found, place) <= TOLERANCE {
        return Ok(());
    }
    Err(format!("the ball ends at {found:?}, not at {place:?}").into())
}

/// Compares the gradient with central differences. At a minimum there is nothing to compare.
///
/// # Errors
/// By how much it differs, or the error that the driver returns.
pub(crate) fn gradient(setting: &Setting, flight: &mut Flight, velocity: [f64; 2]) -> Checked {
    let wanted: [f64; 2] = std::array::from_fn(|axis| {
        let side = |by: f64| {
            let mut moved = velocity;
            moved[axis] += by;
            fall(setting, moved).1
        };
        (side(1e-6) - side(-1e-6)) / 2e-6
    });
    let found = flight.gradient(velocity)?;
    if apart(found, wanted) <= TOLERANCE * apart(wanted, [0.0; 2]) {
        return Ok(());
    }
    Err(format!("the gradient is {found:?}, not {wanted:?}").into())
}

fn apart(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

#[cfg(test)]
mod tests {
    use cuda_safe::Driver;

    use super::*;
    use crate::ball::World;

    /// A room without air.
    fn setting() -> Setting {
        let world = World { drag: 0.0, ..crate::WORLD };
        Setting { world, start: [0.5, 1.1], target: [0.0, 0.0], seconds: 1.0, steps: 64 }
    }

    fn near(found: [f64; 2], wanted: [f64; 2]) {
        assert!(apart(found, wanted) < 1e-6, "{found:?}, not {wanted:?}");
    }

    #[test]
    fn without_air_a_flight_is_parabolas() {
        let (mut setting, g) = (setting(), f64::from(9.81f32));
        near(fall(&setting, [1.0, 6.0]).0, [1.5, 7.1 - 0.5 * g]);
        // Dropped from 1 above where it touches the ground: there at t, back with a part of its speed.
        let t = (2.0 / g).sqrt();
        let (back, left) = (0.85 * g * t, 1.0 - t);
        near(fall(&setting, [0.0, 0.0]).0, [0.5, 0.1 + back * left - 0.5 * g * left * left]);
        // Against the wall, and back.
        setting.world.gravity = 0.0;
        let left = 1.0 - 3.4 / 8.0;
        near(fall(&setting, [8.0, 1.0]).0, [3.9 - 0.85 * 8.0 * left, 1.1 + 0.425 + 0.92 * left]);
    }

    #[test]
    fn the_device_agrees_with_f64_through_bounces_and_wrong_answers_are_found() {
        let context = Driver::from_sys(cuda_emu::driver()).unwrap().device(0).unwrap();
        let context = context.context().unwrap();
        let setting = Setting { world: crate::WORLD, seconds: 1.6, steps: 100, ..setting() };
        let mut flight = Flight::new(&context, &setting).unwrap();
        let mut seed = 7u32;
        let mut number = |from: f64, to: f64| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            from + (to - from) * f64::from(seed >> 8) / f64::from(1u32 << 24)
        };
        for _ in 0..100 {
            let velocity = [number(-2.0, 8.0), number(-6.0, 6.0)];
            end(&setting, &mut flight, velocity).unwrap();
            gradient(&setting, &mut flight, velocity).unwrap();
        }
        let other = Setting { target: [0.1, 0.0], ..setting };
        assert!(gradient(&other, &mut flight, [3.0, 3.0]).is_err());
        let other = Setting { start: [0.51, 1.1], ..setting };
        assert!(end(&other, &mut flight, [3.0, 3.0]).is_err());
    }
}

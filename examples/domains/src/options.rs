//! What is simulated, and how much room each device has for it.

use cuda_safe::{Error, Result};

/// The threads of a block of every kernel here.
pub(crate) const BLOCK: u32 = 256;

/// By how many standard deviations, and 64, the number of particles in a part of the box may exceed its mean.
const DEVIATIONS: f64 = 6.0;

/// A particle: positions lie in `[0, length] × [0, 1] × [0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Particle {
    /// Where it is.
    pub position: [f32; 3],
    /// Its velocity, from -1 to 1 in each direction.
    pub velocity: [f32; 3],
}

/// The box, the particles in it, and the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The length of the box in x; it is 1 in y and z.
    pub length: f32,
    /// Up to where particles are neighbours.
    pub radius: f32,
    /// How far a particle of velocity 1 moves in a step.
    pub time_step: f32,
    /// The room on each device; `None` for that of evenly spread particles.
    pub room: Option<Room>,
}

/// How many particles a device has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of its own.
    pub own: usize,
    /// Within the radius of one face of its slab.
    pub halo: usize,
    /// That leave through one face in a step.
    pub migrants: usize,
}

impl Options {
    /// Creates options for a box that is 1 long, with 32 neighbours on average of each of `particles`, and moves of up
    /// to a tenth of the radius.
    #[must_use]
    pub fn of(particles: usize) -> Self {
        let share = 32.0 / particles.max(1) as f64 * 0.75 / std::f64::consts::PI;
        let radius = share.cbrt().min(0.2) as f32;
        Self { length: 1.0, radius, time_step: 0.1 * radius, room: None }
    }

    /// Returns `n` particles spread evenly over the box, the same for the same seed.
    #[must_use]
    pub fn random_particles(&self, n: usize, seed: u64) -> Vec<Particle> {
        // Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1u32 << 24) as f32
        };
        let mut particle = || Particle {
            position: [self.length * next(), next(), next()],
            velocity: [2.0 * next() - 1.0, 2.0 * next() - 1.0, 2.0 * next() - 1.0],
        };
        (0..n).map(|_| particle()).collect()
    }

    /// Moves a particle by a step, rounded as on the device: a test compares the bits.
    pub fn advance(&self, particle: &mut Particle) {
        for axis in 0..3 {
            let upper = if axis == 0 { self.length } else { 1.0 };
            let (x, v) = (&mut particle.position[axis], &mut particle.velocity[axis]);
            *x = v.mul_add(self.time_step, *x);
            if *x < 0.0 {
                (*x, *v) = (-*x, -*v);
            } else if *x > upper {
                (*x, *v) = (upper + upper - *x, -*v);
            }
        }
    }

    /// Returns where slab `index` of `slabs` begins, which is where the one before it ends.
    #[must_use]
    pub fn face(&self, index: usize, slabs: usize) -> f32 {
        if index >= slabs { self.length } else { self.length * index as f32 / slabs as f32 }
    }

    /// Checks the options and the particles.
    ///
    /// # Errors
    /// A box, a radius or a step that is not positive and finite; slabs that are thinner than the radius and a step's
    /// move; a particle outside the box, or faster than 1 in a direction; more than 2^30 particles.
    pub(crate) fn check(&self, particles: &[Particle], slabs: usize) -> Result<()> {
        let Self { length, radius, time_step, .. } = *self;
        for (what, value) in [("length", length), ("radius", radius), ("time step", time_step)] {
            // A move of more than the box would bounce twice.
            let most = if what == "time step" { length.min(1.0) } else { f32::MAX };
            if !(value > 0.0 && value <= most) {
                return Err(Error::invalid(format!(
                    "a {what} of {value}; it must be above 0 and at most {most}"
                )));
            }
        }
        if slabs == 0 {
            return Err(Error::invalid("no devices to put slabs on"));
        }
        // A particle that arrives through one face must not be of the halo of the other one, whose message has left.
        let thinnest = (0..slabs)
            .map(|index| self.face(index + 1, slabs) - self.face(index, slabs))
            .fold(f32::INFINITY, f32::min);
        if slabs > 1 && thinnest < (radius + time_step) * 1.000_001 {
            return Err(Error::invalid(format!(
                "{slabs} slabs of {thinnest} are thinner than the radius, {radius}, and the longest move of a step, \
                 {time_step}"
            ))
            .with_hint("take fewer devices, a smaller radius or a longer box"));
        }
        let inside = |x: f32, upper: f32| (0.0..=upper).contains(&x);
        let is_valid = |particle: &Particle| {
            let [x, y, z] = particle.position;
            let slow = particle.velocity.iter().all(|v| (-1.0..=1.0).contains(v));
            inside(x, length) && inside(y, 1.0) && inside(z, 1.0) && slow
        };
        if let Some(index) = particles.iter().position(|particle| !is_valid(particle)) {
            return Err(Error::invalid(format!(
                "particle {index} is outside the box or faster than 1: {:?}",
                particles[index]
            )));
        }
        if particles.len() > geom_kernels::MAX_POINTS {
            return Err(Error::invalid(format!(
                "{} particles; at most 2^30 are possible",
                particles.len()
            )));
        }
        Ok(())
    }

    /// Returns the room for a slab of `slabs`, if `particles` in all are spread evenly and stay so.
    #[must_use]
    pub fn room(&self, particles: usize, slabs: usize) -> Room {
        if slabs == 1 {
            return Room { own: particles, halo: 0, migrants: 0 };
        }
        let enough = |mean: f64| {
            let most = mean + DEVIATIONS * mean.sqrt() + 64.0;
            (most as usize).min(particles)
        };
        let per_length = particles as f64 / f64::from(self.length);
        // A quarter of those whose velocity may carry them through a face does, if velocities are spread evenly.
        self.room.unwrap_or(Room {
            own: enough(particles as f64 / slabs as f64),
            halo: enough(per_length * f64::from(self.radius)),
            migrants: enough(per_length * f64::from(self.time_step) / 4.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_are_shared_and_cover_the_box() {
        let options = Options { length: 3.7, ..Options::of(1000) };
        for slabs in 1..9 {
            assert_eq!(options.face(0, slabs), 0.0);
            assert_eq!(options.face(slabs, slabs), 3.7);
            assert!((0..slabs).all(|i| options.face(i, slabs) < options.face(i + 1, slabs)));
        }
    }

    #[test]
    fn bad_options_are_errors_that_name_the_values() {
        let options = Options::of(1000);
        let particles = options.random_particles(10, 1);
        options.check(&particles, 4).unwrap();
        let error = |options: Options, particles: &[Particle], slabs| {
            options.check(particles, slabs).unwrap_err().to_string()
        };
        let thin = Options { radius: 0.3, time_step: 0.01, ..options };
        let text = error(thin, &particles, 4);
        assert!(text.contains("4 slabs of 0.25") && text.contains("0.3"), "{text}");
        for (options, word) in [
            (Options { radius: f32::NAN, ..options }, "radius of NaN"),
            (Options { radius: 0.0, ..options }, "radius of 0"),
            (Options { time_step: 2.0, ..options }, "time step of 2"),
            (Options { length: f32::INFINITY, ..options }, "length of inf"),
        ] {
            let text = error(options, &particles, 1);
            assert!(text.contains(word), "{text}");
        }
        let mut fast = particles.clone();
        fast[3].velocity[1] = 1.5;
        assert!(error(options, &fast, 1).contains("particle 3"));
        fast[2].position[0] = f32::NAN;
        assert!(error(options, &fast, 1).contains("particle 2"));
        assert!(error(options, &particles, 0).contains("no devices"));
    }
}

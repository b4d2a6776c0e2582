//! All slabs in one process: messages are copies between devices.

use cuda_safe::{Context, Error, Result};

use crate::options::{Options, Particle};
use crate::slab::{Neighbors, Slab};

/// The slabs of a box, one on each device.
#[derive(Debug)]
pub struct Domains {
    slabs: Vec<Slab>,
    particles: usize,
}

impl Domains {
    /// Cuts the box into a slab for each context. With `peer_access`, devices get access to the memory of their
    /// neighbours if they can: that makes copies direct.
    ///
    /// # Errors
    /// As [`Slab::new`].
    pub fn new(
        contexts: &[Context],
        options: &Options,
        particles: &[Particle],
        peer_access: bool,
    ) -> Result<Self> {
        if peer_access {
            for pair in contexts.windows(2) {
                for (user, owner) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                    if user.can_access_peer(owner)? {
                        user.enable_peer_access(owner)?;
                    }
                }
            }
        }
        options.check(particles, contexts.len())?;
        let slab = |(index, context)| Slab::new(context, options, particles, index, contexts.len());
        let slabs = contexts.iter().enumerate().map(slab).collect::<Result<_>>()?;
        Ok(Self { slabs, particles: particles.len() })
    }

    /// Enqueues a step on all devices. The host waits for nothing.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn step(&mut self) -> Result<()> {
        for slab in &mut self.slabs {
            slab.rebuild()?;
            slab.compute()?;
        }
        for right in 1..self.slabs.len() {
            let (left, right) = self.slabs.split_at_mut(right);
            if let (Some(left), [right, ..]) = (left.last_mut(), right) {
                let ([_, from_right], [to_left, _]) = (&mut left.from, right.messages()?);
                from_right.as_slice_mut().copy_from_peer(&left.stream, to_left)?;
                let ([from_left, _], [_, to_right]) = (&mut right.from, left.messages()?);
                from_left.as_slice_mut().copy_from_peer(&right.stream, to_right)?;
            }
        }
        self.slabs.iter_mut().try_for_each(Slab::arrive)
    }

    /// Checks that all particles are there and that everything had room. Waits for the devices.
    ///
    /// # Errors
    /// As [`Slab::check`]; a number of particles that is not the one at the beginning.
    pub fn check(&self) -> Result<()> {
        self.slabs.iter().try_for_each(Slab::check)?;
        let counts = self.slabs.iter().map(Slab::count).collect::<Result<Vec<_>>>()?;
        let found: usize = counts.iter().sum();
        if found != self.particles {
            let begun = self.particles;
            return Err(Error::invalid(format!(
                "{found} particles of {begun}: in the slabs {counts:?}"
            )));
        }
        Ok(())
    }

    /// Returns the slabs, from left to right.
    #[must_use]
    pub fn slabs(&self) -> &[Slab] {
        &self.slabs
    }

    /// Returns the slabs, from left to right.
    pub fn slabs_mut(&mut self) -> &mut [Slab] {
        &mut self.slabs
    }

    /// Returns the results of the last step in the order of the particles. Waits for the devices.
    ///
    /// # Errors
    /// As [`in_order`].
    pub fn neighbors(&self) -> Result<Vec<Neighbors>> {
        let all = self.slabs.iter().map(Slab::neighbors).collect::<Result<Vec<_>>>()?;
        in_order(all.concat(), self.particles, |neighbors| neighbors.particle)
    }

    /// Returns the particles as they are now. Waits for the devices.
    ///
    /// # Errors
    /// As [`in_order`].
    pub fn particles(&self) -> Result<Vec<Particle>> {
        let all = self.slabs.iter().map(Slab::particles).collect::<Result<Vec<_>>>()?;
        let all = in_order(all.concat(), self.particles, |(index, _)| *index)?;
        Ok(all.into_iter().map(|(_, particle)| particle).collect())
    }
}

/// Sorts by the index of particles.
///
/// # Errors
/// A particle that is there twice or not at all.
pub fn in_order<T>(mut all: Vec<T>, particles: usize, index: impl Fn(&T) -> u32) -> Result<Vec<T>> {
    all.sort_by_key(|item| index(item));
    let is_there = |(place, item): (usize, &T)| index(item) as usize == place;
    if all.len() != particles || !all.iter().enumerate().all(is_there) {
        let wrong = all.iter().enumerate().find(|(place, item)| index(item) as usize != *place);
        let at = wrong.map_or(all.len(), |(place, _)| place);
        return Err(Error::invalid(format!(
            "{} particles of {particles}, of which the one with index {at} is missing or there twice",
            all.len()
        )));
    }
    Ok(all)
}

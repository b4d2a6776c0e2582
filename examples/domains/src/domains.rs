//! The slabs of this process, and how they exchange messages.

use cuda_nccl::{Communicator, Result};
use cuda_safe::{Context, Error};

use crate::options::{Options, Particle};
use crate::slab::{Neighbors, Slab};

/// The slabs of a box that this process drives, each on a device, and the particles in them.
#[derive(Debug)]
pub struct Domains {
    pub(crate) slabs: Vec<Slab>,
    pub(crate) exchange: Exchange,
    /// In all slabs, also those of other processes.
    pub(crate) particles: usize,
}

/// How messages travel.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// All slabs are of this process: copies between devices.
    Copies,
    /// Each slab is a rank.
    Nccl(Vec<Communicator>),
}

impl Domains {
    /// Cuts the box into a slab for each context. Messages are copies between devices, which are direct if the devices
    /// have access to each other's memory, as those of [`Devices`](cuda_safe::Devices) have if they can.
    ///
    /// # Errors
    /// As [`Slab::new`].
    pub fn new(contexts: &[Context], options: &Options, particles: &[Particle]) -> Result<Self> {
        let slabs = slabs(contexts, options, particles)?;
        Ok(Self { slabs, exchange: Exchange::Copies, particles: particles.len() })
    }

    /// Enqueues a step on all devices. The host waits for nothing.
    ///
    /// # Errors
    /// If the driver or NCCL returns an error.
    pub fn step(&mut self) -> Result<()> {
        self.step_in_parts(|_| Ok(()))
    }

    /// Enqueues a step as [`step`](Self::step) does, and calls `after` with the slabs when each of its four parts is enqueued:
    /// the grid, the sum, the messages and the arrivals.
    ///
    /// # Errors
    /// As `step`, and those of `after`.
    pub fn step_in_parts(&mut self, mut after: impl FnMut(&[Slab]) -> Result<()>) -> Result<()> {
        self.slabs.iter_mut().try_for_each(Slab::rebuild)?;
        after(&self.slabs)?;
        self.slabs.iter_mut().try_for_each(Slab::compute)?;
        after(&self.slabs)?;
        match &mut self.exchange {
            Exchange::Copies => copy(&mut self.slabs)?,
            Exchange::Nccl(ranks) => crate::ranks::exchange(ranks, &mut self.slabs)?,
        }
        after(&self.slabs)?;
        self.slabs.iter_mut().try_for_each(Slab::arrive)?;
        after(&self.slabs)
    }

    /// Checks that all particles are there and that everything had room. Waits for the devices. With NCCL, all ranks
    /// call it.
    ///
    /// # Errors
    /// As [`Slab::check`]; a number of particles that is not the one at the beginning.
    pub fn check(&mut self) -> Result<()> {
        let room = self.slabs.iter().try_for_each(Slab::check);
        let counts = self.slabs.iter().map(Slab::count).collect::<cuda_safe::Result<Vec<_>>>()?;
        let found = match &mut self.exchange {
            Exchange::Copies => counts.iter().sum(),
            Exchange::Nccl(ranks) => {
                crate::ranks::total(ranks, &self.slabs, &counts, room.is_err())?
            }
        };
        room?;
        if found != self.particles {
            let begun = self.particles;
            return Err(Error::invalid(format!(
                "{found} particles of {begun}, in the slabs of this process {counts:?}"
            ))
            .into());
        }
        Ok(())
    }

    /// Returns the slabs of this process, from left to right.
    #[must_use]
    pub fn slabs(&self) -> &[Slab] {
        &self.slabs
    }

    /// Returns the slabs of this process, from left to right.
    pub fn slabs_mut(&mut self) -> &mut [Slab] {
        &mut self.slabs
    }

    /// Returns the results of the last step in the order of the particles, if all slabs are of this process. Waits for
    /// the devices.
    ///
    /// # Errors
    /// A particle that is there twice or not at all.
    pub fn neighbors(&self) -> Result<Vec<Neighbors>> {
        let all = self.slabs.iter().map(Slab::neighbors).collect::<cuda_safe::Result<Vec<_>>>()?;
        in_order(all.concat(), self.particles, |neighbors| neighbors.particle)
    }

    /// Returns the particles as they are now, if all slabs are of this process. Waits for the devices.
    ///
    /// # Errors
    /// A particle that is there twice or not at all.
    pub fn particles(&self) -> Result<Vec<Particle>> {
        let all = self.slabs.iter().map(Slab::particles).collect::<cuda_safe::Result<Vec<_>>>()?;
        let all = in_order(all.concat(), self.particles, |(index, _)| *index)?;
        Ok(all.into_iter().map(|(_, particle)| particle).collect())
    }
}

/// A slab for each context.
pub(crate) fn slabs(
    contexts: &[Context],
    options: &Options,
    particles: &[Particle],
) -> cuda_safe::Result<Vec<Slab>> {
    // Without contexts there is no slab that would check them.
    options.check(particles, contexts.len())?;
    let slab = |(index, context)| Slab::new(context, options, particles, index, contexts.len());
    contexts.iter().enumerate().map(slab).collect()
}

/// Copies the messages of neighbours, each on the stream of the slab that receives it.
fn copy(slabs: &mut [Slab]) -> cuda_safe::Result<()> {
    for right in 1..slabs.len() {
        let (left, right) = slabs.split_at_mut(right);
        if let (Some(left), [right, ..]) = (left.last_mut(), right) {
            let ([_, from_right], [to_left, _]) = (&mut left.from, right.messages()?);
            from_right.as_slice_mut().copy_from_peer(&left.stream, to_left)?;
            let ([from_left, _], [_, to_right]) = (&mut right.from, left.messages()?);
            from_left.as_slice_mut().copy_from_peer(&right.stream, to_right)?;
        }
    }
    Ok(())
}

/// Sorts by the index of particles.
fn in_order<T>(mut all: Vec<T>, particles: usize, index: impl Fn(&T) -> u32) -> Result<Vec<T>> {
    all.sort_by_key(|item| index(item));
    let wrong = all.iter().enumerate().find(|(place, item)| index(item) as usize != *place);
    if all.len() != particles || wrong.is_some() {
        let at = wrong.map_or(all.len(), |(place, _)| place);
        return Err(Error::invalid(format!(
            "{} particles of {particles}, of which the one with index {at} is missing or there twice",
            all.len()
        ))
        .into());
    }
    Ok(all)
}

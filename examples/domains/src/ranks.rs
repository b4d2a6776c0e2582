//! Slabs as ranks of NCCL, of this process or of several.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use cuda_nccl::{Communicator, Config, Group, ReduceOp, Result, UniqueId};
use cuda_safe::{Context, DeviceBuffer, Error};

use crate::domains::{Domains, Exchange, slabs};
use crate::options::{Options, Particle};
use crate::slab::Slab;

impl Domains {
    /// Works like [`new`](Self::new), with messages that NCCL carries: each slab is a rank, and all are of this process.
    ///
    /// # Errors
    /// As [`Slab::new`]; if there is no NCCL, or it returns an error.
    pub fn with_nccl(
        contexts: &[Context],
        options: &Options,
        particles: &[Particle],
        config: &Config,
    ) -> Result<Self> {
        let slabs = slabs(contexts, options, particles)?;
        let ranks = Communicator::all_with(contexts, config)?;
        Ok(Self { slabs, exchange: Exchange::Nccl(ranks), particles: particles.len() })
    }

    /// Creates slab `rank` of `ranks`, of which the others are of other processes. Waits for them. `work` is whatever
    /// else must be the same in all processes, such as the number of steps.
    ///
    /// # Errors
    /// As [`with_nccl`](Self::with_nccl); options, particles or `work` of another process are different.
    ///
    /// # Safety
    /// All processes run this program and make the same calls of [`step`](Self::step) and [`check`](Self::check), and
    /// `id` is from one of them.
    pub unsafe fn rank(
        context: &Context,
        options: &Options,
        particles: &[Particle],
        work: u64,
        id: UniqueId,
        [rank, ranks]: [usize; 2],
        config: &Config,
    ) -> Result<Self> {
        // Before others wait for this rank.
        let slab = Slab::new(context, options, particles, rank, ranks)?;
        // SAFETY: the caller promises the same calls, of which steps have messages of a length that the options and
        // the number of particles give, and these are compared below.
        let mut communicator = unsafe { Communicator::new_with(id, ranks, rank, context, config)? };
        let own = fingerprint(options, particles, work, ranks);
        for op in [ReduceOp::Min, ReduceOp::Max] {
            let mut all = DeviceBuffer::from_slice(slab.stream(), &[own])?;
            communicator.all_reduce_in_place(slab.stream(), &mut all, op)?;
            communicator.synchronize(slab.stream())?;
            if all.to_vec(slab.stream())? != [own] {
                return Err(Error::invalid(format!(
                    "rank {rank} of {ranks} has other options, particles or steps than another rank"
                ))
                .into());
            }
        }
        let exchange = Exchange::Nccl(vec![communicator]);
        Ok(Self { slabs: vec![slab], exchange, particles: particles.len() })
    }
}

/// Sends and receives the messages of all ranks of this process at once.
pub(crate) fn exchange(ranks: &mut [Communicator], slabs: &mut [Slab]) -> Result<()> {
    let places: Vec<_> = ranks.iter().map(|rank| (rank.rank(), rank.ranks())).collect();
    let mut group = Group::new(ranks);
    for (index, (slab, (rank, count))) in slabs.iter_mut().zip(places).enumerate() {
        let (stream, [to_left, to_right], [from_left, from_right]) = slab.exchanged()?;
        let mut on = group.on(index)?;
        if rank > 0 {
            on.send(stream, to_left, rank - 1)?;
            on.recv(stream, from_left, rank - 1)?;
        }
        if rank + 1 < count {
            on.send(stream, to_right, rank + 1)?;
            on.recv(stream, from_right, rank + 1)?;
        }
    }
    group.run()
}

/// The number of particles in all slabs, of other processes too.
///
/// # Errors
/// A check has failed elsewhere.
pub(crate) fn total(
    ranks: &mut [Communicator],
    slabs: &[Slab],
    counts: &[usize],
    failed: bool,
) -> Result<usize> {
    let own = |(slab, count): (&Slab, &usize)| {
        DeviceBuffer::from_slice(slab.stream(), &[*count as u64, u64::from(failed)])
    };
    let mut totals = slabs.iter().zip(counts).map(own).collect::<cuda_safe::Result<Vec<_>>>()?;
    let mut group = Group::new(&mut *ranks);
    for (index, (slab, total)) in slabs.iter().zip(&mut totals).enumerate() {
        group.on(index)?.all_reduce_in_place(slab.stream(), total, ReduceOp::Sum)?;
    }
    group.run()?;
    let mut found = 0;
    for ((rank, slab), total) in ranks.iter_mut().zip(slabs).zip(&totals) {
        // Returns early if another process is gone.
        rank.synchronize(slab.stream())?;
        let &[count, failures] = &total.to_vec(slab.stream())?[..] else {
            return Err(Error::invalid("a total of other than two numbers").into());
        };
        if failures > 0 && !failed {
            return Err(Error::invalid("a slab of another process had no room").into());
        }
        found = count as usize;
    }
    Ok(found)
}

/// A number that differs where the arguments do (FNV-1a).
fn fingerprint(options: &Options, particles: &[Particle], work: u64, ranks: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(format!("{options:?} {} {work} {ranks}", particles.len()).as_bytes());
    for particle in particles {
        for number in particle.position.iter().chain(&particle.velocity) {
            add(&number.to_bits().to_le_bytes());
        }
    }
    hash
}

/// Passes NCCL's identifier from rank 0 to the others by a file, which must not be there before and which rank 0 may
/// delete when all ranks have come.
///
/// # Errors
/// For rank 0, if there is such a file, it can't be written or there is no NCCL; for others, if it does not appear in
/// `wait`.
pub fn share_id(path: &Path, rank: usize, wait: Duration) -> io::Result<UniqueId> {
    if rank == 0 {
        let id = UniqueId::new().map_err(io::Error::other)?;
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = file.map_err(|error| {
            let what = "it must not exist, and is deleted when all ranks have come";
            io::Error::new(
                error.kind(),
                format!("can't create {}: {error}; {what}", path.display()),
            )
        })?;
        file.write_all(&id.to_bytes())?;
        return Ok(id);
    }
    let begin = Instant::now();
    loop {
        // Until then it is empty, or not there.
        if let Some(bytes) = std::fs::read(path).ok().and_then(|bytes| bytes.try_into().ok()) {
            return Ok(UniqueId::from_bytes(bytes));
        }
        if begin.elapsed() > wait {
            let text = format!("rank 0 has not written {} in {wait:?}", path.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_when_they_are_whole() {
        let name = format!("domains-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name.replace(['(', ')'], ""));
        let short = Duration::from_millis(50);
        assert_eq!(share_id(&path, 1, short).unwrap_err().kind(), io::ErrorKind::TimedOut);
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(share_id(&path, 1, short).unwrap_err().kind(), io::ErrorKind::TimedOut);
        std::fs::write(&path, [7; 128]).unwrap();
        assert_eq!(share_id(&path, 1, short).unwrap().to_bytes(), [7; 128]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn fingerprints_differ_where_arguments_do() {
        let options = Options::of(50);
        let particles = options.random_particles(50, 1);
        let one = fingerprint(&options, &particles, 10, 2);
        assert_eq!(one, fingerprint(&options, &options.random_particles(50, 1), 10, 2));
        let longer = Options { time_step: 2.0 * options.time_step, ..options };
        let mut others = vec![
            fingerprint(&longer, &particles, 10, 2),
            fingerprint(&options, &particles[1..], 10, 2),
            fingerprint(&options, &options.random_particles(50, 2), 10, 2),
            fingerprint(&options, &particles, 11, 2),
            fingerprint(&options, &particles, 10, 3),
        ];
        others.sort_unstable();
        others.dedup();
        assert!(others.len() == 5 && !others.contains(&one));
    }
}

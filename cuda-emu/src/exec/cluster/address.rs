//! Addresses in the shared memory of a cluster: `mapa`, `getctarank`, `isspacep.shared`.
//!
//! As on a GPU, an address in shared memory has the rank of its block in bits 24 and up, also in the block itself. An
//! instruction of `.shared::cta` takes an address without a rank, too.

use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::{CLUSTER, GENERIC, SHARED, SHARED_WINDOW};
use crate::exec::ops::lane::Store;

/// The lowest bit of the rank in an address.
const RANK: u32 = 24;
/// The highest rank that an address can have, which no block has.
const NO_RANK: u32 = 0xff;
/// The bits of the offset.
const OFFSET: u64 = (1 << RANK) - 1;

/// Returns where the shared memory of the block of a rank begins in the window of the cluster.
pub(crate) const fn start_of(rank: u32) -> u64 {
    (rank as u64) << RANK
}

/// A place in the shared memory of a block of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) rank: u64,
    pub(crate) offset: u64,
}

impl Machine<'_> {
    /// Takes an address of shared memory apart; `None` for an address of another space. An address of `.shared::cta` with
    /// the rank of another block has a rank that no block has.
    pub(crate) fn target(&self, space: u8, address: u64) -> Option<Target> {
        let address = match (space, address >> 48) {
            (SHARED | CLUSTER, _) => address,
            (GENERIC, 1) => address - SHARED_WINDOW,
            _ => return None,
        };
        let (rank, offset) = (address >> RANK, address & OFFSET);
        let own = u64::from(self.block.rank);
        Some(match space {
            SHARED if rank == 0 || rank == own => Target { rank: own, offset },
            SHARED => Target { rank: u64::MAX, offset },
            _ => Target { rank, offset },
        })
    }

    /// Returns the host's address of bytes in the shared memory of a block.
    ///
    /// # Errors
    /// If the cluster has no such block, the block has ended, or the bytes lie outside.
    pub(crate) fn locate_shared(&self, target: Target, bytes: u64) -> Result<u64, (Code, String)> {
        let Target { rank, offset } = target;
        let size = u64::from(self.job.shared_bytes);
        let own = rank == u64::from(self.block.rank);
        let block = if own { Some(&self.block) } else { self.cluster.blocks.get(rank as usize) };
        let start = u32::try_from(rank).ok().and_then(|rank| self.cluster.shared_of(rank));
        let (Some(block), Some(start)) = (block, start) else {
            let why = match rank {
                u64::MAX => "the address lies in another block: name .shared::cluster".to_owned(),
                _ => format!("rank {rank} in a cluster of {} blocks", self.job.cluster_blocks),
            };
            return Err((Code::IllegalAddress, why));
        };
        if block.done {
            let why = format!(
                "block {rank} of the cluster has ended, and its shared memory with it; a barrier of the cluster before \
                 the end keeps the block"
            );
            return Err((Code::LaunchFailed, why));
        }
        if offset > size || bytes > size - offset {
            let of =
                if own { "the block".to_owned() } else { format!("block {rank} of the cluster") };
            let why = format!("byte {offset} of {size} bytes of shared memory of {of}");
            return Err((Code::IllegalAddress, why));
        }
        Ok(start + offset)
    }
}

/// `mapa` (imm 0) and `getctarank` (imm 1): address in slot a, rank in slot b. `e` says that the address has 64 bits, `f`
/// that it is generic.
pub(crate) struct Address;
impl Lanes for Address {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let wide = i.e != 0;
        // SAFETY: slot a has the width that `e` says.
        let at: [u64; LANES] =
            unsafe { if wide { *m.lanes::<u64>(i.a) } else { m.lanes::<u32>(i.a).map(u64::from) } };
        let window = if i.f != 0 { SHARED_WINDOW } else { 0 };
        let outside = |&lane: &usize| i.f != 0 && at[lane] >> 48 != 1;
        if let Some(lane) = lanes(mask).find(outside) {
            let what = format!("{:#x} is no address of shared memory", at[lane]);
            return m.fail(Code::IllegalAddress, lane, what);
        }
        if i.imm != 0 {
            let ranks = at.map(|at| ((at - window.min(at)) >> RANK) as u32);
            // SAFETY: slot d has 32 bits.
            unsafe { Store::put(m, i.d, &ranks, mask) };
            return Flow::Next;
        }
        // SAFETY: slot b has 32 bits.
        let ranks = unsafe { m.lanes::<u32>(i.b) };
        let mapped: [u64; LANES] = std::array::from_fn(|lane| {
            window | start_of(ranks[lane].min(NO_RANK)) | at[lane] & OFFSET
        });
        // SAFETY: slot d has the width that `e` says.
        unsafe {
            if wide {
                Store::put(m, i.d, &mapped, mask);
            } else {
                Store::put(m, i.d, &mapped.map(|at| at as u32), mask);
            }
        }
        Flow::Next
    }
}

/// `isspacep.shared::cta` of the 64 bits in slot a.
pub(crate) struct IsOwnShared;
impl Lanes for IsOwnShared {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slot a is a 64-bit register.
        let a = unsafe { m.lanes::<u64>(i.a) };
        let own = SHARED_WINDOW >> RANK | u64::from(m.block.rank);
        let bits = lanes(mask).filter(|&lane| a[lane] >> RANK == own);
        let bits = bits.fold(0, |bits, lane| bits | 1 << lane);
        // SAFETY: slot d is a predicate.
        unsafe { m.put_pred(i.d, bits, mask) };
        Flow::Next
    }
}

/// `%is_explicit_cluster`, to the predicate in slot d.
pub(crate) struct IsExplicit;
impl Lanes for IsExplicit {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let bits = if m.job.launch.cluster.is_some() { u32::MAX } else { 0 };
        // SAFETY: slot d is a predicate.
        unsafe { m.put_pred(i.d, bits, mask) };
        Flow::Next
    }
}

//! Special registers.

use ptx::ir::{Dim, Special};

use super::lane::Store;
use crate::exec::SHARED_RESERVED;
use crate::exec::grid::Workspace;
use crate::exec::inst::{Flow, Inst, LANES, Lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::load::POLL_COST;

/// The number of the value, in imm.
pub(crate) mod number {
    pub(crate) const TID: u64 = 0;
    pub(crate) const NTID: u64 = 4;
    pub(crate) const CTAID: u64 = 8;
    pub(crate) const NCTAID: u64 = 12;
    pub(crate) const LANEID: u64 = 16;
    pub(crate) const WARPID: u64 = 17;
    pub(crate) const NWARPID: u64 = 18;
    pub(crate) const SMID: u64 = 19;
    pub(crate) const NSMID: u64 = 20;
    pub(crate) const GRIDID: u64 = 21;
    pub(crate) const MASK_EQ: u64 = 22;
    pub(crate) const MASK_LE: u64 = 23;
    pub(crate) const MASK_LT: u64 = 24;
    pub(crate) const MASK_GE: u64 = 25;
    pub(crate) const MASK_GT: u64 = 26;
    pub(crate) const CLOCK: u64 = 27;
    pub(crate) const CLOCK_HI: u64 = 28;
    pub(crate) const TIMER: u64 = 29;
    pub(crate) const TIMER_HI: u64 = 30;
    pub(crate) const ZERO: u64 = 31;
    pub(crate) const SHARED_START: u64 = 32;
    pub(crate) const SMEM: u64 = 33;
    pub(crate) const DYNAMIC_SMEM: u64 = 34;
    pub(crate) const AGGREGATED_SMEM: u64 = 35;
    pub(crate) const RESERVED_SMEM: u64 = 36;
    pub(crate) const SECOND_OFFSET: u64 = 37;
    pub(crate) const WORKSPACE: u64 = 38;
    pub(crate) const WORKSPACE_HI: u64 = 39;
    pub(crate) const CLUSTERID: u64 = 40;
    pub(crate) const NCLUSTERID: u64 = 44;
    pub(crate) const CLUSTER_CTAID: u64 = 48;
    pub(crate) const CLUSTER_NCTAID: u64 = 52;
    pub(crate) const CLUSTER_CTARANK: u64 = 56;
    pub(crate) const CLUSTER_NCTARANK: u64 = 57;
    pub(crate) const RESERVED_END: u64 = 58;
}

/// Where the second of the two parts that the system has of its shared memory begins (`%reserved_smem_offset_1`):
/// `cooperative_groups.h` keeps 288 bytes there.
const SECOND_OFFSET: u32 = SHARED_RESERVED / 2;

/// Returns the number of a special register. `None`: not here.
pub(crate) fn of(special: Special) -> Option<u64> {
    use number as n;
    let dim = |d: Dim| match d {
        Dim::X => 0,
        Dim::Y => 1,
        Dim::Z => 2,
        Dim::W => 3,
    };
    Some(match special {
        Special::Tid(d) => n::TID + dim(d),
        Special::Ntid(d) => n::NTID + dim(d),
        Special::Ctaid(d) => n::CTAID + dim(d),
        Special::Nctaid(d) => n::NCTAID + dim(d),
        Special::Clusterid(d) => n::CLUSTERID + dim(d),
        Special::Nclusterid(d) => n::NCLUSTERID + dim(d),
        Special::ClusterCtaid(d) => n::CLUSTER_CTAID + dim(d),
        Special::ClusterNctaid(d) => n::CLUSTER_NCTAID + dim(d),
        Special::ClusterCtarank => n::CLUSTER_CTARANK,
        Special::ClusterNctarank => n::CLUSTER_NCTARANK,
        Special::Laneid => n::LANEID,
        Special::Warpid => n::WARPID,
        Special::Nwarpid => n::NWARPID,
        Special::Smid => n::SMID,
        Special::Nsmid => n::NSMID,
        Special::Gridid => n::GRIDID,
        Special::LanemaskEq => n::MASK_EQ,
        Special::LanemaskLe => n::MASK_LE,
        Special::LanemaskLt => n::MASK_LT,
        Special::LanemaskGe => n::MASK_GE,
        Special::LanemaskGt => n::MASK_GT,
        Special::Clock => n::CLOCK,
        Special::ClockHi => n::CLOCK_HI,
        Special::Clock64 => n::CLOCK,
        Special::Globaltimer => n::TIMER,
        Special::GlobaltimerLo => n::TIMER,
        Special::GlobaltimerHi => n::TIMER_HI,
        Special::TotalSmemSize => n::SMEM,
        Special::AggrSmemSize => n::AGGREGATED_SMEM,
        Special::DynamicSmemSize => n::DYNAMIC_SMEM,
        // The system's shared memory lies before the block's own.
        Special::ReservedSmemBegin | Special::ReservedSmem0 => n::SHARED_START,
        Special::ReservedSmemEnd => n::RESERVED_END,
        Special::ReservedSmemCap => n::RESERVED_SMEM,
        Special::ReservedSmem1 => n::SECOND_OFFSET,
        Special::Envreg(1) => n::WORKSPACE_HI,
        Special::Envreg(2) => n::WORKSPACE,
        Special::Envreg(_) | Special::Pm(_) | Special::Pm64(_) => n::ZERO,
        Special::CurrentGraphExec => n::ZERO,
        _ => return None,
    })
}

/// Reads a special register; `e` says that slot d is 64 bits wide.
pub(crate) struct Read;
impl Lanes for Read {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        use number as n;
        let mut narrow = [0u32; LANES];
        let launch = m.job.launch;
        let workspace = m.job.workspace.as_ref().map_or(0, Workspace::address);
        let each = |f: &dyn Fn(u32) -> u32| {
            let mut out = [0; LANES];
            for (lane, value) in out.iter_mut().enumerate() {
                *value = f(lane as u32);
            }
            out
        };
        let three = |of: &[u32; 3], at: u64| of.get(at as usize).copied().unwrap_or(0);
        let value: u64 = match i.imm {
            at @ n::TID..n::NTID => {
                narrow = m
                    .job
                    .tids
                    .get(m.warp.index as usize)
                    .and_then(|tid| tid.get((at - n::TID) as usize))
                    .copied()
                    .unwrap_or([0; LANES]);
                return put(m, i, mask, &narrow);
            }
            at @ n::NTID..n::CTAID => three(&launch.block, at - n::NTID).into(),
            at @ n::CTAID..n::NCTAID => three(&m.block.index, at - n::CTAID).into(),
            at @ n::NCTAID..n::LANEID => three(&launch.grid, at - n::NCTAID).into(),
            n::WARPID => m.warp.index.into(),
            n::NWARPID => 64,
            n::SMID => m.block.linear % u64::from(m.job.env.device.multiprocessors.max(1)),
            n::NSMID => m.job.env.device.multiprocessors.into(),
            n::GRIDID => m.job.number,
            n::SHARED_START => m.shared_start,
            n::RESERVED_END => m.shared_start + u64::from(SHARED_RESERVED),
            at @ n::CLUSTERID..n::NCLUSTERID => three(&m.cluster.index, at - n::CLUSTERID).into(),
            at @ n::NCLUSTERID..n::CLUSTER_CTAID => {
                three(&m.job.cluster_counts(), at - n::NCLUSTERID).into()
            }
            at @ n::CLUSTER_CTAID..n::CLUSTER_NCTAID => {
                three(&m.block.place, at - n::CLUSTER_CTAID).into()
            }
            at @ n::CLUSTER_NCTAID..n::CLUSTER_CTARANK => {
                three(&m.job.cluster, at - n::CLUSTER_NCTAID).into()
            }
            n::CLUSTER_CTARANK => m.block.rank.into(),
            n::CLUSTER_NCTARANK => m.job.cluster_blocks.into(),
            n::SMEM => (m.job.shared_bytes - m.job.shared_reserved).into(),
            n::AGGREGATED_SMEM => {
                (m.job.shared_bytes - m.job.shared_reserved + SHARED_RESERVED).into()
            }
            n::RESERVED_SMEM => SHARED_RESERVED.into(),
            n::SECOND_OFFSET => m.shared_start + u64::from(SECOND_OFFSET),
            n::WORKSPACE => workspace & u64::from(u32::MAX),
            n::WORKSPACE_HI => workspace >> 32,
            n::DYNAMIC_SMEM => launch.shared.into(),
            n::CLOCK | n::TIMER => {
                m.poll(POLL_COST);
                m.nanoseconds()
            }
            n::CLOCK_HI | n::TIMER_HI => {
                m.poll(POLL_COST);
                m.nanoseconds() >> 32
            }
            n::LANEID => return put(m, i, mask, &each(&|lane| lane)),
            n::MASK_EQ => return put(m, i, mask, &each(&|lane| 1 << lane)),
            n::MASK_LT => return put(m, i, mask, &each(&|lane| (1 << lane) - 1)),
            n::MASK_LE => return put(m, i, mask, &each(&|lane| u32::MAX >> (31 - lane))),
            n::MASK_GE => return put(m, i, mask, &each(&|lane| u32::MAX << lane)),
            n::MASK_GT => return put(m, i, mask, &each(&|lane| (u32::MAX << lane) << 1)),
            _ => 0,
        };
        if i.e != 0 {
            // SAFETY: `e` says that slot d is 64 bits wide.
            unsafe { Store::put(m, i.d, &[value; LANES], mask) };
            return Flow::Next;
        }
        narrow.fill(value as u32);
        put(m, i, mask, &narrow)
    }
}

/// Writes 32 bits, zero-extended where slot d is wider.
fn put(m: &mut Machine<'_>, i: &Inst, mask: u32, values: &[u32; LANES]) -> Flow {
    // SAFETY: `e` says how wide slot d is.
    unsafe {
        if i.e != 0 {
            Store::put(m, i.d, &values.map(u64::from), mask);
        } else {
            Store::put(m, i.d, values, mask);
        }
    }
    Flow::Next
}

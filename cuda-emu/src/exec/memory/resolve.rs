//! Resolves the addresses of lanes to host memory, after every check.

use super::site::Site;
use super::{
    BLOCK, GENERIC, GLOBAL, LOCAL, LOCAL_WINDOW, NARROW, OTHER, PARAM, PARAM_WINDOW, PLAIN,
};
use crate::exec::fault::Code;
use crate::exec::inst::{FULL, Inst, LANES, lanes};
use crate::exec::machine::Machine;

/// An access that is being checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Bytes of each lane, which is also the alignment, unless that is named.
    pub(crate) bytes: u64,
    pub(crate) align: u64,
    pub(crate) write: bool,
}

/// Where the lanes' elements are.
pub(crate) enum Place {
    /// The elements of all 32 lanes are contiguous from here.
    Row(u64),
    /// Each lane has an address, in the caller's array.
    Each,
}

/// Returns the addresses of the lanes: slot a, 64 or 32 bits wide, plus the offset.
///
/// # Safety
/// Slot a is a register of the width that slot c says.
#[inline(always)]
pub(crate) unsafe fn addresses(m: &Machine<'_>, i: &Inst) -> [u64; LANES] {
    let mut out = [0; LANES];
    if i.c & NARROW != 0 {
        // SAFETY: the caller's promise.
        let a = unsafe { m.lanes::<u32>(i.a) };
        for lane in 0..LANES {
            out[lane] = u64::from(a[lane].wrapping_add(i.imm as u32));
        }
    } else {
        // SAFETY: the caller's promise.
        let a = unsafe { m.lanes::<u64>(i.a) };
        for lane in 0..LANES {
            out[lane] = a[lane].wrapping_add(i.imm);
        }
    }
    out
}

/// Checks the lanes' addresses and turns them into those of the host. `None`: `m.fault` is set.
#[inline(always)]
pub(crate) fn resolve<const HOW: u8>(
    m: &mut Machine<'_>,
    i: &Inst,
    mask: u32,
    want: Wanted,
    at: &mut [u64; LANES],
) -> Option<Place> {
    let space = (i.c >> 16) as u8;
    if HOW == PLAIN {
        let site = m.sites.get(i.f, m.space);
        let first = at[0];
        if mask == FULL {
            let mut differs = 0;
            for (lane, &address) in at.iter().enumerate() {
                differs |= address ^ first.wrapping_add(lane as u64 * want.bytes);
            }
            if differs == 0 {
                let row = want.bytes * LANES as u64;
                if first >= site.start
                    && first.wrapping_add(row) <= site.end
                    && first <= first.wrapping_add(row)
                    && first & (want.align - 1) == 0
                    && (site.writable || !want.write)
                {
                    return Some(Place::Row(first));
                }
            }
        }
        // The sign bits are set if the address is before the start, or past the last place where the access fits.
        let limit = site.end.wrapping_sub(site.start).wrapping_sub(want.bytes);
        let (mut outside, mut low) = (limit, 0);
        for (lane, &address) in at.iter().enumerate() {
            let offset = address.wrapping_sub(site.start);
            let active = if mask & (1 << lane) != 0 { u64::MAX } else { 0 };
            outside |= (offset | limit.wrapping_sub(offset)) & active;
            low |= address & active;
        }
        if outside >> 63 == 0 && low & (want.align - 1) == 0 && (site.writable || !want.write) {
            return Some(Place::Each);
        }
        return m.resolve_slowly(i, space, mask, want, at).then_some(Place::Each);
    }
    if HOW == BLOCK {
        let limit = u64::from(m.job.shared_bytes).wrapping_sub(want.bytes);
        let (mut outside, mut low) = (limit, 0);
        let base = m.shared.expose_provenance() as u64;
        let own = m.shared_start;
        let first = at[0];
        let mut differs = 0;
        for (lane, &address) in at.iter().enumerate() {
            let active = if mask & (1 << lane) != 0 { u64::MAX } else { 0 };
            let offset = address.wrapping_sub(own);
            outside |= (offset | limit.wrapping_sub(offset)) & active;
            low |= address & active;
            differs |= address ^ first.wrapping_add(lane as u64 * want.bytes);
        }
        if outside >> 63 == 0 && low & (want.align - 1) == 0 {
            if differs == 0 && mask == FULL {
                return Some(Place::Row(base + (first - own)));
            }
            for address in at.iter_mut() {
                *address = address.wrapping_sub(own).wrapping_add(base);
            }
            return Some(Place::Each);
        }
    }
    if HOW == OTHER && space == LOCAL {
        let stride = u64::from(m.job.local_bytes);
        let base = m.local.expose_provenance() as u64;
        let (mut outside, mut low) = (0, 0);
        for (lane, &address) in at.iter().enumerate() {
            let active = if mask & (1 << lane) != 0 { u64::MAX } else { 0 };
            let limit = u64::from(m.warp.top[lane]).wrapping_sub(want.bytes);
            outside |= (limit | address | limit.wrapping_sub(address)) & active;
            low |= address & active;
        }
        if outside >> 63 == 0 && low & (want.align - 1) == 0 {
            for (lane, address) in at.iter_mut().enumerate() {
                *address = address.wrapping_add(base + lane as u64 * stride);
            }
            return Some(Place::Each);
        }
    }
    m.resolve_slowly(i, space, mask, want, at).then_some(Place::Each)
}

impl Machine<'_> {
    /// Checks lane by lane: other regions, windows, and what is wrong.
    #[inline(never)]
    fn resolve_slowly(
        &mut self,
        i: &Inst,
        space: u8,
        mask: u32,
        want: Wanted,
        at: &mut [u64; LANES],
    ) -> bool {
        for lane in lanes(mask) {
            match self.locate(i, space, lane, at[lane], want) {
                Ok(host) => at[lane] = host,
                Err((code, why)) => {
                    self.fail_access(code, lane, at[lane], space, want, &why);
                    return false;
                }
            }
        }
        true
    }

    /// Returns the host address of an element of one lane.
    pub(crate) fn locate(
        &mut self,
        i: &Inst,
        space: u8,
        lane: usize,
        address: u64,
        want: Wanted,
    ) -> Result<u64, (Code, String)> {
        let target = self.target(space, address);
        let window = match (space, address >> 48) {
            (GENERIC, 2) => (LOCAL, address - LOCAL_WINDOW),
            (GENERIC, 3) => (PARAM, address - PARAM_WINDOW),
            (GENERIC, _) => (GLOBAL, address),
            (space, _) => (space, address),
        };
        if address & (want.align - 1) != 0 {
            let why = format!("not a multiple of {}", want.align);
            return Err((Code::Misaligned, why));
        }
        if let Some(target) = target {
            return self.locate_shared(target, want.bytes);
        }
        let (size, base) = match window.0 {
            GLOBAL => return self.locate_global(i, address, want),
            LOCAL => {
                let offset = lane * self.job.local_bytes as usize;
                let base = self.local.wrapping_add(offset).expose_provenance() as u64;
                (u64::from(self.warp.top[lane]), base)
            }
            _ if want.write => {
                return Err((Code::IllegalAddress, "parameters are read-only".to_owned()));
            }
            _ => (
                self.job.launch.params.len() as u64,
                self.job.params.as_ptr().expose_provenance() as u64,
            ),
        };
        let offset = window.1;
        if offset > size || want.bytes > size - offset {
            let name = match window.0 {
                LOCAL => "local memory in use by the thread",
                _ => "kernel's parameters",
            };
            let why = format!("byte {offset} of {size} bytes of {name}");
            return Err((Code::IllegalAddress, why));
        }
        Ok(base + offset)
    }

    fn locate_global(
        &mut self,
        i: &Inst,
        address: u64,
        want: Wanted,
    ) -> Result<u64, (Code, String)> {
        let mut site = self.sites.get(i.f, self.space);
        let holds = |site: &Site| {
            address >= site.start && address <= site.end && want.bytes <= site.end - address
        };
        if !holds(&site) {
            let found = self.space.find(address);
            let Some(region) = found.filter(|r| r.holds(address, want.bytes)) else {
                return Err((Code::IllegalAddress, self.space.describe(address)));
            };
            // The device is compared only here, so that it costs nothing while the region stays the same.
            let own = region.device == self.job.env.device.ordinal;
            let reach = if own { 3 } else { (self.job.around.reach)(&region) };
            if reach == 0 {
                let why = format!(
                    "{}, which device {} has no access to",
                    self.space.describe(address),
                    self.job.env.device.ordinal
                );
                return Err((Code::IllegalAddress, why));
            }
            let writable = region.writable && reach & 2 != 0;
            site = Site { start: region.start, end: region.end, writable };
            self.sites.put(i.f, site);
        }
        if want.write && !site.writable {
            let why = format!("{} is read-only", self.space.describe(address));
            return Err((Code::IllegalAddress, why));
        }
        Ok(address)
    }
}

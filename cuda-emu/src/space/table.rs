//! The sorted table of regions, and the memory of those that went away.

use std::collections::VecDeque;

use super::Region;

/// Freed regions that are remembered for reports.
const REMEMBERED: usize = 4096;

/// Regions by address, none of which overlap.
#[derive(Debug, Default)]
pub(super) struct Table {
    regions: Vec<Region>,
    /// The youngest last.
    freed: VecDeque<Region>,
    /// Bytes in use of each device's memory.
    used: Vec<u64>,
}

impl Table {
    /// Returns the index of the first region that ends after `address`.
    fn position(&self, address: u64) -> usize {
        self.regions.partition_point(|region| region.end <= address)
    }

    pub(super) fn find(&self, address: u64) -> Option<Region> {
        let region = self.regions.get(self.position(address))?;
        (region.start <= address).then_some(*region)
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.regions.get(self.position(start)).is_some_and(|region| region.start < end)
    }

    pub(super) fn insert(&mut self, region: Region) {
        self.regions.insert(self.position(region.start), region);
        if region.kind.on_device() {
            let device = region.device as usize;
            if self.used.len() <= device {
                self.used.resize(device + 1, 0);
            }
            self.used[device] += region.bytes();
        }
    }

    pub(super) fn remove(&mut self, start: u64) -> Option<Region> {
        let position = self.position(start);
        if self.regions.get(position)?.start != start {
            return None;
        }
        let region = self.regions.remove(position);
        if let Some(used) = self.used.get_mut(region.device as usize)
            && region.kind.on_device()
        {
            *used -= region.bytes();
        }
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back(region);
        Some(region)
    }

    pub(super) fn used(&self, device: u32) -> u64 {
        self.used.get(device as usize).copied().unwrap_or(0)
    }

    pub(super) fn all(&self) -> &[Region] {
        &self.regions
    }

    pub(super) fn describe(&self, address: u64) -> String {
        if let Some(region) = self.find(address) {
            let offset = address - region.start;
            return format!("byte {offset} of {}", text(&region));
        }
        if let Some(region) = self.freed.iter().rev().find(|region| region.holds(address, 1)) {
            let offset = address - region.start;
            return format!("byte {offset} of freed {}", text(region));
        }
        let position = self.position(address);
        let after = self.regions.get(position);
        let before = position.checked_sub(1).and_then(|last| self.regions.get(last));
        let past = before.map(|region| (address - region.end, region));
        let short = after.map(|region| (region.start - address, region));
        match (past, short) {
            (Some((distance, region)), other) if other.is_none_or(|(far, _)| distance < far) => {
                match distance {
                    0 => format!("just past the end of {}", text(region)),
                    _ => format!("{distance} bytes past the end of {}", text(region)),
                }
            }
            (_, Some((distance, region))) => {
                format!("{distance} bytes before the start of {}", text(region))
            }
            _ => "not near any allocation".to_owned(),
        }
    }
}

/// Returns a region as a report shows it.
fn text(region: &Region) -> String {
    let Region { start, id, device, .. } = region;
    format!(
        "allocation #{id} ({}, {} bytes at {start:#x}, device {device})",
        region.kind.name(),
        region.bytes()
    )
}

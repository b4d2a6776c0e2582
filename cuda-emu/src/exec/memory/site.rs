//! The region that each memory instruction has used last.

use crate::space::Space;

/// A cached region.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Site {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writable: bool,
}

/// A worker's cached regions, by the number of the instruction in the program.
#[derive(Debug)]
pub(crate) struct Sites {
    sites: Vec<Site>,
    epoch: u64,
}

impl Sites {
    pub(crate) fn new(count: usize) -> Self {
        Self { sites: vec![Site::default(); count.max(1)], epoch: 0 }
    }

    /// Returns the region that instruction `at` has used last, if nothing was freed since; else an empty
    /// one.
    #[inline(always)]
    pub(crate) fn get(&mut self, at: u32, space: &Space) -> Site {
        let epoch = space.epoch();
        if epoch != self.epoch {
            self.forget(epoch);
        }
        self.sites.get(at as usize).copied().unwrap_or_default()
    }

    #[cold]
    fn forget(&mut self, epoch: u64) {
        self.sites.fill(Site::default());
        self.epoch = epoch;
    }

    pub(crate) fn put(&mut self, at: u32, site: Site) {
        if let Some(place) = self.sites.get_mut(at as usize) {
            *place = site;
        }
    }
}

//! The rows, by topic.

mod compile;
mod copies;
mod dem;
mod emu;
mod graphs;
mod hash_grid;
mod isosurface;
mod launch;
mod load;
mod memory;
mod mesh;
mod multi;
mod noop;
mod saxpy;
mod tape;
mod volume;

use std::cell::OnceCell;

use nvrtc::Nvrtc;

use crate::gpu::Gpu;
use crate::report::Row;
use crate::stop::Stop;

pub(crate) use load::child;

/// A measurement that gives one or more rows.
pub(crate) struct Work {
    /// The rows' names, which are those of the peers' workloads where they have one.
    pub(crate) names: &'static [&'static str],
    /// Measures them.
    pub(crate) run: fn(&Bench) -> Result<Vec<Row>, Stop>,
}

/// Everything there is, in the order of printing.
pub(crate) fn all() -> impl Iterator<Item = &'static Work> {
    [
        launch::WORKS,
        memory::WORKS,
        copies::WORKS,
        compile::WORKS,
        load::WORKS,
        saxpy::WORKS,
        graphs::WORKS,
        hash_grid::WORKS,
        dem::WORKS,
        mesh::WORKS,
        volume::WORKS,
        isosurface::WORKS,
        tape::WORKS,
        multi::WORKS,
        noop::WORKS,
        emu::WORKS,
    ]
    .into_iter()
    .flatten()
}

/// The state that the rows of a run share.
pub(crate) struct Bench {
    pub(crate) ordinal: usize,
    /// Samples of rows that compare with raw calls.
    pub(crate) pairs: usize,
    /// Samples of other rows.
    pub(crate) samples: usize,
    gpu: OnceCell<Result<Gpu, Stop>>,
}

impl Bench {
    pub(crate) fn new(ordinal: usize, repeat: Option<usize>) -> Self {
        let (pairs, samples) = (repeat.unwrap_or(30), repeat.unwrap_or(20));
        Self { ordinal, pairs, samples, gpu: OnceCell::new() }
    }

    /// The device, opened once; or why there is none.
    pub(crate) fn gpu(&self) -> Result<&Gpu, Stop> {
        let gpu = self.gpu.get_or_init(|| Gpu::system(self.ordinal));
        gpu.as_ref().map_err(Stop::clone)
    }

    /// Returns the compiler that suits the driver, loaded, if there is one.
    fn nvrtc(&self) -> Result<Nvrtc, Stop> {
        Ok(match self.gpu() {
            Ok(gpu) => Nvrtc::load_for_driver(gpu.driver.version()?)?,
            Err(_) => Nvrtc::load()?,
        })
    }

    /// Returns the architecture to compile for: this device, or the machine on which the peers were measured.
    fn arch(&self) -> Result<nvrtc::Arch, Stop> {
        Ok(match self.gpu() {
            Ok(gpu) => gpu.device.arch()?,
            Err(_) => nvrtc::Arch::sm(9, 0),
        })
    }
}

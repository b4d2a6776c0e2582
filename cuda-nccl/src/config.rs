//! Settings of communicators.

use std::ffi::c_int;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::raw::{Nccl, ncclConfig_t};

/// Settings of a communicator, the same on all ranks.
#[derive(Debug, Clone)]
#[must_use]
pub struct Config {
    library: Option<&'static Nccl>,
    pub(crate) timeout: Duration,
    pub(crate) checked: bool,
    blocking: bool,
    blocks: Option<(u32, u32)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            library: None,
            timeout: Self::TIMEOUT,
            checked: false,
            blocking: false,
            blocks: None,
        }
    }
}

impl Config {
    /// The time limit of a communicator unless [`timeout`](Self::timeout) sets another one.
    pub const TIMEOUT: Duration = Duration::from_secs(300);

    /// Returns the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses this library instead of the one that [`Nccl::load`] finds.
    pub fn library(mut self, library: &'static Nccl) -> Self {
        self.library = Some(library);
        self
    }

    /// Sets how long the creation of a communicator and each call may wait for the other ranks:
    /// [`TIMEOUT`](Self::TIMEOUT) by default. After that the call returns [`Error::Timeout`] and the communicators of
    /// this process are aborted. A call rarely waits: NCCL connects the ranks in the first one.
    ///
    /// It also limits how long the work of a communicator may take after its drop
    /// ([`Communicator::close`](crate::Communicator::close) returns the error instead), and a call that does not return, which
    /// another thread notices a quarter of the time later at most: then the communicators of this process are aborted, too.
    /// An abort after the drop leaves the results of the communicator's last calls undefined, and no call returns its error:
    /// use `close`, or wait for the streams before the drop.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Makes the ranks exchange what they are about to call before each collective, message, split or group, and return an
    /// error if they disagree. Each exchange waits for all ranks and for their earlier collectives, so use it to find
    /// mistakes.
    ///
    /// It is for communicators over several processes ([`Communicator::new`](crate::Communicator::new)). The calls of
    /// ranks of one process ([`Communicator::all`](crate::Communicator::all)) are always compared, without an exchange.
    pub fn checked(mut self, checked: bool) -> Self {
        self.checked = checked;
        self
    }

    /// Makes NCCL work in the calling thread. By default it makes a thread for the work of each call, so that a
    /// call which waits for another rank can end by its [time limit](Self::timeout) or by an abort; that thread costs some
    /// 70 µs a call.
    ///
    /// With this, the creation has no time limit. After the limit of a call the communicators of this process are aborted, but
    /// the call itself returns only when NCCL does, since an abort does not reach a call that waits for another rank:
    /// the creation, and the first calls of each kind, in which NCCL connects the ranks. Later calls only enqueue. Work on
    /// the device that waits for another rank can be aborted as otherwise.
    pub fn blocking(mut self, blocking: bool) -> Self {
        self.blocking = blocking;
        self
    }

    /// Sets the least and the greatest number of thread blocks of NCCL's kernels. NCCL chooses it otherwise.
    pub fn blocks(mut self, least: u32, most: u32) -> Self {
        self.blocks = Some((least, most));
        self
    }

    /// Returns the library.
    pub(crate) fn loaded(&self) -> Result<&'static Nccl> {
        Ok(match self.library {
            Some(library) => library,
            None => Nccl::load()?,
        })
    }

    /// Returns NCCL's settings, for its version.
    pub(crate) fn raw(&self, library: &Nccl) -> Result<ncclConfig_t> {
        let mut config = ncclConfig_t::of_version(library.version());
        config.blocking = c_int::from(self.blocking);
        if let Some((least, most)) = self.blocks {
            let number = |blocks: u32| c_int::try_from(blocks).ok().filter(|blocks| *blocks > 0);
            match (number(least), number(most)) {
                (Some(least), Some(most)) if least <= most => {
                    (config.minCTAs, config.maxCTAs) = (least, most);
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "{least} to {most} thread blocks: the least is 1, and the greatest not below it"
                    )));
                }
            }
        }
        Ok(config)
    }
}

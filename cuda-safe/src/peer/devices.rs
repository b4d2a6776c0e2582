//! Several devices of one driver, used by one process.

use std::fmt;
use std::ops::Index;

use cuda_sys::CUresult;

use crate::context::Context;
use crate::device::PeerLink;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::graph::GraphExec;
use crate::stream::Stream;

/// The contexts of several devices, with peer access between all that can.
///
/// Peer access is what makes [`DeviceSliceMut::copy_from_peer`] fast: without it copies go through memory of the host, at
/// about a tenth of the rate, and block the calling thread. It also lets kernels of one device use memory of another.
/// Devices that can't access each other are no error; [`can_access`](Self::can_access) returns which can.
///
/// ```no_run
/// # use cuda_safe::{DeviceBuffer, Devices, Result};
/// # fn run() -> Result<()> {
/// let devices = Devices::all()?;
/// let streams = devices.streams()?;
/// // A part of the data on each device, and the last one's on the first.
/// let parts = streams.iter().map(|stream| DeviceBuffer::from_slice(stream, &[1.0f32; 1000]));
/// let parts = parts.collect::<Result<Vec<_>>>()?;
/// let mut copy = DeviceBuffer::<f32>::zeroed(&streams[0], 1000)?;
/// copy.as_slice_mut().copy_from_peer(&streams[0], &parts[devices.len() - 1])?;
/// devices.synchronize()?;
/// # Ok(()) }
/// ```
///
/// [`DeviceSliceMut::copy_from_peer`]: crate::DeviceSliceMut::copy_from_peer
#[derive(Clone)]
pub struct Devices {
    /// At least one.
    contexts: Vec<Context>,
    /// Whether each has access to memory of each, row by row.
    access: Vec<bool>,
}

impl Devices {
    /// Opens all devices that the default driver shows.
    ///
    /// # Errors
    /// As [`Driver::load`] and [`Devices::of`].
    pub fn all() -> Result<Self> {
        let driver = Driver::load()?;
        Self::of(driver, &(0..driver.device_count()).collect::<Vec<_>>())
    }

    /// Opens the devices of the default driver that have these ordinals, in this order.
    ///
    /// # Errors
    /// As [`Driver::load`] and [`Devices::of`].
    pub fn open(ordinals: &[usize]) -> Result<Self> {
        Self::of(Driver::load()?, ordinals)
    }

    /// Opens the devices of a driver that have these ordinals, in this order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there are no ordinals, one is there twice, or there is no
    /// device with one; otherwise the error that the driver returns.
    pub fn of(driver: Driver, ordinals: &[usize]) -> Result<Self> {
        if ordinals.is_empty() {
            return Err(Error::invalid("0 devices are to be opened").with_hint(
                "name at least one ordinal; CUDA_VISIBLE_DEVICES may hide devices of the driver",
            ));
        }
        let mut contexts = Vec::with_capacity(ordinals.len());
        for (place, &ordinal) in ordinals.iter().enumerate() {
            if ordinals.iter().take(place).any(|&other| other == ordinal) {
                return Err(Error::invalid(format!("device {ordinal} is named twice")));
            }
            contexts.push(driver.device(ordinal)?.context()?);
        }
        let mut access = Vec::with_capacity(contexts.len() * contexts.len());
        for from in &contexts {
            for to in &contexts {
                access.push(from == to || open_access(from, to)?);
            }
        }
        Ok(Self { contexts, access })
    }

    /// Returns the number of devices, which is never 0.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Returns the contexts, in the order of the ordinals.
    #[must_use]
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// Returns an iterator over the contexts.
    pub fn iter(&self) -> std::slice::Iter<'_, Context> {
        self.contexts.iter()
    }

    /// Returns whether kernels of the device at index `from` may use memory of the device at index `to`. A device has
    /// access to its own memory. `false` for an index that is out of range.
    #[must_use]
    pub fn can_access(&self, from: usize, to: usize) -> bool {
        let n = self.contexts.len();
        from < n && to < n && self.access.get(from * n + to).copied().unwrap_or(false)
    }

    /// Returns what the driver says of the link from the device at index `from` to the one at index `to`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if an index is out of range or both are the same; otherwise the
    /// error that the driver returns.
    pub fn link(&self, from: usize, to: usize) -> Result<PeerLink> {
        self.at(from)?.device().peer_link(self.at(to)?.device())
    }

    fn at(&self, index: usize) -> Result<&Context> {
        let n = self.contexts.len();
        let out_of_range = || Error::invalid(format!("there is no device at index {index} of {n}"));
        self.contexts.get(index).ok_or_else(out_of_range)
    }

    /// Returns a new stream of each device, in the order of the contexts.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn streams(&self) -> Result<Vec<Stream>> {
        self.contexts.iter().map(Stream::new).collect()
    }

    /// Waits until all work of all devices is done.
    ///
    /// # Errors
    /// As [`Context::synchronize`]: the first error, when all have been waited for.
    pub fn synchronize(&self) -> Result<()> {
        self.contexts.iter().map(Context::synchronize).fold(Ok(()), Result::and)
    }

    /// Records work of all devices as one graph: see [`Context::capture_on`].
    ///
    /// # Errors
    /// As [`Context::capture_on`].
    pub fn capture<'env, S, F>(&self, state: S, record: F) -> Result<GraphExec<'env, S>>
    where
        F: FnOnce(&[Stream], &mut S) -> Result<()> + 'env,
    {
        Context::capture_on(&self.contexts, state, record)
    }
}

/// Lets kernels of `from` use memory of `to`, and returns whether they may.
fn open_access(from: &Context, to: &Context) -> Result<bool> {
    if !from.can_access_peer(to)? {
        return Ok(false);
    }
    match from.enable_peer_access(to) {
        Ok(()) => Ok(true),
        // The hardware has room for a number of peers.
        Err(error) if error.code() == Some(CUresult::CUDA_ERROR_TOO_MANY_PEERS) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Index<usize> for Devices {
    type Output = Context;

    /// # Panics
    /// If the index is not less than [`len`](Devices::len).
    fn index(&self, index: usize) -> &Context {
        &self.contexts[index]
    }
}

impl<'a> IntoIterator for &'a Devices {
    type Item = &'a Context;
    type IntoIter = std::slice::Iter<'a, Context>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinals = self.contexts.iter().map(|context| context.device().ordinal());
        f.debug_struct("Devices")
            .field("ordinals", &ordinals.collect::<Vec<_>>())
            .field("access", &self.access)
            .finish()
    }
}

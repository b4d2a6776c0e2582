//! The recorder: the argument of a recording's closure.

use std::fmt;

use cuda_safe::{Result, Stream};

use super::{NONE, Recording, Scope, index};
use crate::custom::CustomBuilder;
use crate::store::Store;

/// Records launches, copies and other steps. Each is enqueued at once, and recorded if gradients flow through it.
/// [`Tape::record`](crate::Tape::record) passes it to its closure.
///
/// Work enqueued by other means is not recorded. If it overwrites memory that an adjoint needs,
/// [`Tape::backward`](crate::Tape::backward) returns an error; if it overwrites memory that depends on something
/// watched, the next step that uses that memory is refused.
pub struct Recorder<'a> {
    pub(crate) recording: &'a mut Recording,
    pub(crate) store: &'a mut Store,
    pub(crate) stream: &'a Stream,
    pub(crate) scope: u32,
}

impl Recorder<'_> {
    /// Returns the stream of the recording, for work that is not recorded.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// Begins a custom operation, whose forward and adjoint are in Rust: see [`CustomBuilder`].
    pub fn custom(&mut self) -> CustomBuilder<'_> {
        CustomBuilder::new(self.within(self.scope))
    }

    /// Records the steps of a closure under a name, which messages, [`to_dot`](crate::Tape::to_dot) and
    /// [`memory`](crate::Tape::memory) show.
    ///
    /// # Errors
    /// The errors of the closure.
    pub fn scope<R>(
        &mut self,
        name: impl Into<String>,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<R>,
    ) -> Result<R> {
        let number = index(self.recording.scopes.len())?;
        let name = match self.recording.scopes.get(self.scope as usize) {
            Some(outer) => format!("{}/{}", outer.name, name.into()),
            None => name.into(),
        };
        self.recording.scopes.push(Scope { name });
        record(&mut self.within(number))
    }

    /// Returns the same recorder, in another scope.
    fn within(&mut self, scope: u32) -> Recorder<'_> {
        Recorder { recording: self.recording, store: self.store, stream: self.stream, scope }
    }
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        recording: &'a mut Recording,
        store: &'a mut Store,
        stream: &'a Stream,
    ) -> Self {
        Self { recording, store, stream, scope: NONE }
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("steps", &self.recording.steps.len())
            .field("stream", self.stream)
            .finish()
    }
}

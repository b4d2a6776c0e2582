//! The recording: the steps of a tape and the state of their memory.

mod args;
mod call;
mod copies;
mod launch;
mod lengths;
mod memory;
mod primal;
mod recorder;
#[cfg(feature = "rust-kernels")]
mod rust;
mod values;

use std::mem::MaybeUninit;
use std::ops::Range;

use cuda_safe::{DeviceBuffer, Error, LaunchConfig, Result};

pub use recorder::Recorder;

pub use call::NotSaved;
pub(crate) use call::not_saved;

#[cfg(feature = "rust-kernels")]
use args::{Collect, Launch};
pub(crate) use args::{Found, read, write, write_address};
pub(crate) use memory::Memories;

use crate::custom::CustomOp;
use crate::element::Element;
use crate::frame::{Status, TAPE_OVERFLOW};
use crate::marker::Marker;
use crate::spec::{Effect, Op, Primal};
use crate::store::Store;

/// Marks a missing index.
pub(crate) const NONE: u32 = u32::MAX;
/// Replaces a copy's index: the memory was overwritten before it could be copied.
pub(crate) const LOST: u32 = u32::MAX - 1;

/// Sixteen bytes of parameters, some of which may be padding.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Chunk(pub(crate) [MaybeUninit<u8>; 16]);

/// A recording. Its vectors keep their capacity from one recording to the next.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) memories: Memories,
    pub(crate) steps: Vec<Step>,
    pub(crate) uses: Vec<Use>,
    /// The parameters of launches.
    pub(crate) bytes: Vec<Chunk>,
    pub(crate) copies: Vec<Copied>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) scopes: Vec<Scope>,
    /// The memory found in the arguments of the launch that is being recorded.
    pub(crate) found: Vec<Found>,
    refreshed: Vec<u32>,
    /// Memory whose type the current launch is the first to set.
    typed: Vec<u32>,
    pub(crate) deterministic: bool,
    /// Whether a part was recorded in a graph, which goes on using the memory.
    pub(crate) captured: bool,
    /// The marker of the graph that it was recorded in.
    pub(crate) marker: Option<Marker>,
    /// Whether a primal may have raised the status since it was last read.
    pub(crate) raises: bool,
    /// The error that a primal has raised: no pass is possible.
    pub(crate) failed: Option<Status>,
    /// The counts of primals: of this recording, followed by those of the last one.
    counts: Vec<usize>,
    counted: usize,
    /// Whether it holds the arguments of a call of an adjoint, which may be [`NotSaved`](crate::NotSaved).
    call: bool,
    /// The number of launches that are not remembered, because no gradient flows through them.
    pub(crate) inactive: usize,
}

/// A recorded operation that gradients flow through.
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// A range of `Recording::uses`.
    pub(crate) uses: Range<u32>,
    pub(crate) scope: u32,
}

pub(crate) enum Kind {
    Launch {
        op: Op,
        launch: LaunchConfig,
        /// An index in `Recording::bytes`.
        bytes: u32,
        /// The tape memory that the primal has written: an index in `Recording::copies`.
        primal: u32,
    },
    /// The first use is copied to the second.
    Copy,
    /// The memory is overwritten: its earlier contents have no gradient.
    Fill,
    Stop,
    Watch(u32),
    /// The operation with its id, which its handles have, too. It is taken out while it runs.
    Custom(u64, Option<Box<dyn CustomOp>>),
}

impl Kind {
    /// Returns the name of a step in messages and drawings.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Launch { op, .. } => op.name(),
            Self::Copy => "copy",
            Self::Fill => "overwritten",
            Self::Stop => "stop_gradient",
            Self::Watch(_) => "watch",
            Self::Custom(_, Some(op)) => op.name(),
            Self::Custom(_, None) => "custom",
        }
    }
}

/// What a use belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A pointer or the numbers of an operation's parameter.
    Pointer(u16),
    Scalar(u16),
    /// Memory that a parameter reaches in ways that the specification does not list.
    Opaque(u16),
    /// A step that is no launch.
    Own,
}

/// Memory that a step uses, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) target: Target,
    pub(crate) memory: u32,
    /// Bytes of the allocation. A pointer points to the first.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) element: Element,
    pub(crate) effect: Effect,
    pub(crate) value: Primal,
    pub(crate) covers: bool,
    /// Whether its gradient is wanted or read.
    pub(crate) active: bool,
    /// The bit of its gradient parameter in the frame's masks, and whether it may be set.
    pub(crate) slot: u8,
    pub(crate) alone: bool,
    /// Whether the adjoint is known to only read a gradient whose DROP bit is set.
    pub(crate) drops: bool,
    /// The memory's version that holds the value.
    pub(crate) version: u64,
    /// The copy of the value: an index in `Recording::copies`.
    pub(crate) copy: u32,
    /// The pointer's offset in `Recording::bytes`, in bytes.
    pub(crate) patch: usize,
}

impl Use {
    /// Creates a use without a value and without a gradient.
    pub(crate) fn new(
        target: Target,
        memory: u32,
        range: Range<usize>,
        element: Element,
        effect: Effect,
    ) -> Self {
        Self {
            target,
            memory,
            start: range.start,
            end: range.end,
            element,
            effect,
            value: Primal::None,
            covers: false,
            active: false,
            slot: u8::MAX,
            alone: false,
            drops: false,
            version: 0,
            copy: NONE,
            patch: 0,
        }
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(crate) fn overlaps(&self, memory: u32, range: &Range<usize>) -> bool {
        self.memory == memory && memory != NONE && self.start < range.end && range.start < self.end
    }
}

/// Memory of the tape with a value that an adjoint needs, or with data that a primal has written.
pub(crate) struct Copied {
    pub(crate) buffer: DeviceBuffer<u8>,
    /// Where the bytes begin: congruent to the original modulo 16.
    pub(crate) offset: usize,
}

impl Copied {
    pub(crate) fn address(&self) -> u64 {
        self.buffer.device_ptr() + self.offset as u64
    }
}

/// Memory whose gradient after some step is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) memory: u32,
    pub(crate) range: Range<usize>,
    pub(crate) step: u32,
}

/// A named part of a recording.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) name: String,
}

impl Recording {
    /// Forgets everything, and returns the memory to the store.
    pub(crate) fn clear(&mut self, store: &mut Store) {
        for copied in self.copies.drain(..) {
            store.give(copied.buffer, self.captured);
        }
        if let Some(marker) = self.marker.take() {
            marker.forget(store);
        }
        store.stale |= self.raises;
        (self.raises, self.failed) = (false, None);
        self.memories.clear();
        self.uses.clear();
        self.bytes.clear();
        self.watches.clear();
        self.scopes.clear();
        self.captured = false;
        self.counted = 0;
        self.inactive = 0;
        // The steps come last: dropping custom operations runs user code, which may panic.
        self.steps.clear();
    }

    /// Notes a status, which primals may have raised.
    pub(crate) fn heard(&mut self, status: Status) {
        if self.raises && status.code == TAPE_OVERFLOW {
            self.failed = Some(status);
        }
    }

    pub(crate) fn uses_of(&self, step: &Step) -> &[Use] {
        self.uses.get(step.uses.start as usize..step.uses.end as usize).unwrap_or_default()
    }

    /// Returns the name of a step for messages.
    pub(crate) fn name_of(&self, index: usize) -> String {
        let Some(step) = self.steps.get(index) else { return format!("step {index}") };
        let name = step.kind.name();
        match self.scopes.get(step.scope as usize) {
            Some(scope) => format!("step {index} (`{name}` in {})", scope.name),
            None => format!("step {index} (`{name}`)"),
        }
    }

    /// Returns the name of a use for messages.
    pub(crate) fn name_of_use(&self, step: usize, used: &Use) -> String {
        let param = match (self.steps.get(step).map(|step| &step.kind), used.target) {
            (Some(Kind::Launch { op, .. }), target) => {
                Some(op.inner.name_of(target)).filter(|name| !name.is_empty())
            }
            _ => None,
        };
        match param {
            Some(param) => format!("`{param}` of {}", self.name_of(step)),
            None => format!("memory of {}", self.name_of(step)),
        }
    }

    /// Returns the error for memory with a gradient that unrecorded work has written.
    #[cold]
    pub(crate) fn written_elsewhere(&self, what: &str) -> Error {
        Error::invalid(format!(
            "{what} depends on something watched, and was written since by something that is not recorded: \
             the tape does not know what it depends on now"
        ))
        .with_hint("write by `Recorder::fill`, `copy` or `launch`; or `watch` and `stop_gradient` after it")
    }

    /// Adds a step that is no launch.
    pub(crate) fn push(&mut self, kind: Kind, uses: &[Use], scope: u32) -> Result<u32> {
        let first = index(self.uses.len())?;
        let step = index(self.steps.len())?;
        for used in uses {
            self.uses.push(*used);
            self.memories.used_at(used.memory, step);
        }
        self.steps.push(Step { kind, uses: first..index(self.uses.len())?, scope });
        Ok(step)
    }
}

/// Returns an index in its stored form.
pub(crate) fn index(at: usize) -> Result<u32> {
    u32::try_from(at)
        .ok()
        .filter(|at| *at < LOST)
        .ok_or_else(|| Error::invalid("a recording has at most 2^32 parts"))
}

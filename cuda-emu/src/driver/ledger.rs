//! The ledger of live objects: every handle and every byte, for tests that look for leaks.

use super::process::initialised;
use crate::space::Kind;

/// The numbers of objects that the program has created and not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// Contexts that were created, and primary ones that are retained.
    pub contexts: usize,
    /// Streams, without those that come with a context.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, those of libraries included.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Memory pools, except the devices' default pools.
    pub pools: usize,
    /// Graphs, without those inside nodes.
    pub graphs: usize,
    /// Executable graphs.
    pub graph_execs: usize,
    /// User objects.
    pub user_objects: usize,
    /// Pieces of device memory, managed memory and what graphs have left included, and their
    /// bytes.
    pub device_memory: (usize, u64),
    /// Pieces of pinned memory, and their bytes.
    pub pinned_memory: (usize, u64),
    /// Pieces of registered host memory, and their bytes.
    pub registered_memory: (usize, u64),
    /// Pieces of work that are enqueued and not done.
    pub pending: usize,
}

/// Returns the numbers of live objects. All zero before `cuInit`.
#[must_use]
pub fn ledger() -> Ledger {
    let Some(process) = initialised() else { return Ledger::default() };
    let state = process.lock();
    let objects = &state.objects;
    let memory = |kinds: &[Kind]| {
        let of = objects.allocations.values().filter(|known| kinds.contains(&known.kind));
        of.fold((0, 0), |(count, bytes), known| (count + 1, bytes + known.bytes))
    };
    Ledger {
        contexts: objects.contexts.iter().filter(|(_, known)| known.active).count(),
        streams: objects
            .streams
            .iter()
            .filter(|(_, stream)| !objects.comes_with_context(stream))
            .count(),
        events: objects.events.len(),
        modules: objects.modules.len(),
        libraries: objects.libraries.len(),
        pools: objects.pools.iter().filter(|(_, pool)| !pool.default).count(),
        graphs: objects.graphs.iter().filter(|(_, graph)| !graph.owned).count(),
        graph_execs: objects.execs.len(),
        user_objects: objects.users.len(),
        device_memory: {
            let (count, bytes) = memory(&[Kind::Device, Kind::Pool, Kind::Managed]);
            let left = objects.outstanding.values();
            left.fold((count, bytes), |(count, bytes), memory| (count + 1, bytes + memory.bytes()))
        },
        pinned_memory: memory(&[Kind::Pinned]),
        registered_memory: memory(&[Kind::Registered]),
        pending: state.engine.pending(None).len(),
    }
}

/// Returns the report of the fault that the device was lost to; `None` while there was none.
#[must_use]
pub fn fault_report() -> Option<String> {
    initialised()?.report()
}

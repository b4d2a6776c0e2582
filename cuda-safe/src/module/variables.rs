//! The variables that kernels reach by name: uses that are ordered like those of arguments.
//!
//! A module has one [`Allocation`] for all its variables. It covers all addresses, so that each
//! variable is the range where it lies, and its uses are always recorded, with the context's graph lock
//! (`context/graph_lock.rs`) held from ordering to recording: neither kernels nor handles borrow a variable.
//!
//! Variables that no kernel of the module writes, such as tables and strings that are printed, are
//! *quiet* until the program asks for a [`Global`](super::Global) of the module. Until then only graphs
//! record uses of them. The first `Global` ends that and waits for the launches that recorded nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cuda_sys::CUresult;
use ptx::variables::Reached;

use super::ModuleInner;
use super::global::find;
use crate::context::Context;
use crate::error::Result;
use crate::image;
use crate::memory::{Access, Allocation, Enqueue};
use crate::sync::{Lock, Once};

/// Where the memory of a module ends: beyond all addresses.
const END: usize = usize::MAX;

/// Where variables lie that the driver does not know by name: above all addresses of devices.
const UNKNOWN: usize = 1 << 62;

/// The variables that the kernels of a module reach.
#[derive(Default)]
pub(super) enum Reach {
    /// None.
    #[default]
    Nothing,
    /// Not known: each kernel may write every variable.
    Everything,
    /// Derived from the module's PTX.
    Known(Box<Known>),
}

pub(super) struct Known {
    reached: Reached,
    /// For each variable: whether some kernel may write it, and where it lies.
    written: Vec<bool>,
    places: Vec<Once<Range<usize>>>,
}

impl Reach {
    /// Returns the variables that a PTX text's kernels reach; everything if it can't be parsed.
    pub(super) fn of_ptx(text: &str) -> Self {
        let Ok(reached) = Reached::of_text(text) else { return Self::Everything };
        if reached.kernels.is_empty() {
            return Self::Nothing;
        }
        let mut written = vec![false; reached.variables.len()];
        let mut last: Option<&Arc<[ptx::variables::VariableUse]>> = None;
        for uses in reached.kernels.iter().map(|kernel| &kernel.uses) {
            // Kernels that may reach all share one list.
            if last.replace(uses).is_some_and(|last| Arc::ptr_eq(last, uses)) {
                continue;
            }
            for used in &**uses {
                if let Some(place) = written.get_mut(used.variable) {
                    *place |= used.writes;
                }
            }
        }
        let places = reached.variables.iter().map(|_| Once::new()).collect();
        Self::Known(Box::new(Known { reached, written, places }))
    }

    /// For an image without PTX.
    pub(super) fn of_machine_code(has_variables: bool) -> Self {
        if has_variables { Self::Everything } else { Self::Nothing }
    }
}

/// The state by which a module orders the uses of its variables.
#[derive(Default)]
pub(super) struct Variables {
    reach: Reach,
    /// The variables that the PTX declares; `None` without PTX.
    declared: Option<Vec<ptx::GlobalVariable>>,
    memory: Once<Arc<Allocation>>,
    quiet: Arc<Quiet>,
}

/// Launches that do not record their uses of quiet variables.
///
/// A launch counts itself and then reads `watched`; a caller that requests a variable sets `watched` and then reads the
/// count. In the single order of SeqCst operations one of them sees the other.
#[derive(Default)]
pub(crate) struct Quiet {
    /// Whether the program has asked for a variable of the module: then there are no such launches.
    watched: AtomicBool,
    /// How many launches are in a call of the driver at this moment.
    launching: AtomicUsize,
    /// Whether there was one.
    launched: AtomicBool,
    /// Whether all of them were waited for.
    waited: AtomicBool,
    /// Held by a thread that waits for such launches.
    waiting: Lock<()>,
}

/// Counts a launch that records nothing, while the driver is asked.
pub(crate) struct Launching<'a>(&'a Quiet);

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        self.0.launching.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Quiet {
    /// Begins a launch that records nothing; `None` if it has to.
    fn enter(&self) -> Option<Launching<'_>> {
        self.launching.fetch_add(1, Ordering::SeqCst);
        let launching = Launching(self);
        if self.watched.load(Ordering::SeqCst) {
            return None;
        }
        self.launched.store(true, Ordering::SeqCst);
        Some(launching)
    }

    /// Lets all later launches record their uses, and waits for those that have not, by `wait`.
    fn watch(&self, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.waited.load(Ordering::Acquire) {
            return Ok(());
        }
        // A second caller returns when the first one has waited.
        let _waiting = self.waiting.lock()?;
        if self.watched.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        while self.launching.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        if self.launched.load(Ordering::SeqCst) {
            // If the wait fails, the next caller tries again.
            wait().inspect_err(|_| self.watched.store(false, Ordering::SeqCst))?;
        }
        self.waited.store(true, Ordering::Release);
        Ok(())
    }
}

/// The variables that a kernel reaches.
pub(crate) struct KernelVariables {
    memory: Arc<Allocation>,
    /// Variables that some kernel of the module may write.
    always: Box<[(Range<usize>, Access)]>,
    /// Variables that none writes.
    tables: Box<[Range<usize>]>,
    quiet: Arc<Quiet>,
}

impl KernelVariables {
    /// Orders the uses of a launch. Returns what to hold until the driver has returned, if the launch
    /// records no use of the tables.
    ///
    /// It comes after the ordering of the arguments: a caller that asks for a variable waits for the
    /// launch from here on, perhaps with the graph lock taken.
    pub(crate) fn begin<'a>(
        &self,
        enqueuing: &mut impl Enqueue<'a>,
    ) -> Result<Option<Launching<'_>>> {
        for (range, access) in &self.always {
            enqueuing.begin_use((&self.memory, range.clone(), *access))?;
        }
        // A graph may run after the program has requested the variable.
        if !self.tables.is_empty()
            && enqueuing.recording().is_none()
            && let Some(launching) = self.quiet.enter()
        {
            return Ok(Some(launching));
        }
        for range in &self.tables {
            enqueuing.begin_use((&self.memory, range.clone(), Access::Read))?;
        }
        Ok(None)
    }

    /// Records the uses of a launch that was enqueued and numbered; those of the tables if `begin` has
    /// ordered them.
    pub(crate) fn end<'a>(
        &self,
        enqueuing: &mut impl Enqueue<'a>,
        with_tables: bool,
        sequence: u64,
    ) {
        for (range, access) in &self.always {
            enqueuing.end_use((&self.memory, range.clone(), *access), sequence);
        }
        for range in self.tables.iter().filter(|_| with_tables) {
            enqueuing.end_use((&self.memory, range.clone(), Access::Read), sequence);
        }
    }
}

impl Variables {
    pub(super) fn new(reach: Reach) -> Self {
        Self { reach, ..Self::default() }
    }

    /// Returns the state for an image without PTX.
    pub(super) fn of_machine_code(bytes: &[u8]) -> Self {
        Self::new(Reach::of_machine_code(image::may_have_variables(bytes)))
    }

    /// Returns the state for a module whose PTX is `text`.
    pub(super) fn of_ptx(text: &str) -> Self {
        Self { declared: Some(ptx::globals(text)), ..Self::new(Reach::of_ptx(text)) }
    }

    /// Returns the variables that the module's PTX declares, in its order; `None` without PTX.
    pub(super) fn declared(&self) -> Option<&[ptx::GlobalVariable]> {
        self.declared.as_deref()
    }
}

impl ModuleInner {
    /// Returns the memory of all variables of the module.
    pub(super) fn variable_memory(&self) -> Result<&Arc<Allocation>> {
        let memory = &self.variables.memory;
        if memory.get().is_none() {
            // A separate stream: it keeps no stream of the program alive, and none of them waits instead.
            let home = Context::from_inner(self.context.clone()).stream()?;
            let made = Allocation::of_module(&home, END);
            // Another thread may have stored its result first.
            return Ok(memory.get_or_init(|| made)?);
        }
        memory.get().ok_or_else(|| crate::error::Error::invalid("the module has no memory"))
    }

    /// Says that the program uses variables from now on. Waits for launches that have recorded no use.
    pub(super) fn watch_variables(&self) -> Result<()> {
        let context = Context::from_inner(self.context.clone());
        self.variables.quiet.watch(|| context.synchronize())
    }

    /// Returns the variables that a kernel reaches; `None` if it reaches none.
    pub(crate) fn variables_of(&self, kernel: &str) -> Result<Option<Box<KernelVariables>>> {
        let (mut always, mut tables) = (Vec::new(), Vec::new());
        match &self.variables.reach {
            Reach::Nothing => return Ok(None),
            Reach::Everything => always.push((0..END, Access::Write)),
            Reach::Known(known) => {
                for used in known.reached.uses(kernel) {
                    let place = self.place(known, used.variable)?;
                    match known.written.get(used.variable) {
                        Some(false) => tables.push(place),
                        _ if used.writes => always.push((place, Access::Write)),
                        _ => always.push((place, Access::Read)),
                    }
                }
            }
        }
        if always.is_empty() && tables.is_empty() {
            return Ok(None);
        }
        Ok(Some(Box::new(KernelVariables {
            memory: self.variable_memory()?.clone(),
            always: always.into(),
            tables: tables.into(),
            quiet: self.variables.quiet.clone(),
        })))
    }

    /// Returns the addresses of a variable, or a range that no other has.
    fn place(&self, known: &Known, variable: usize) -> Result<Range<usize>> {
        let Some(place) = known.places.get(variable) else { return Ok(0..END) };
        if let Some(place) = place.get() {
            return Ok(place.clone());
        }
        let unknown = UNKNOWN + variable..UNKNOWN + variable + 1;
        let name = known.reached.variables.get(variable).map_or("", String::as_str);
        let found = match find(self, name) {
            Ok((_, 0)) => unknown,
            Ok((start, bytes)) => match usize::try_from(start) {
                Ok(start) => start..start.saturating_add(bytes),
                Err(_) => unknown,
            },
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_NOT_FOUND) => unknown,
            Err(error) => return Err(error),
        };
        Ok(place.get_or_init(|| found)?.clone())
    }
}

#[cfg(feature = "rust-kernels")]
impl super::Module {
    /// Returns whether there is memory of variables, which holds the context by a stream.
    pub(crate) fn has_variable_memory(&self) -> bool {
        self.inner.variables.memory.get().is_some()
    }
}

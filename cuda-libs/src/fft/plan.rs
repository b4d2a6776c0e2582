//! Plans of cuFFT: creating, binding to a stream and a work area, running, and parking them.

#[cfg(feature = "tape")]
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
#[cfg(feature = "tape")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_safe::{Context, DeviceBuffer, RecordingId, Stream};
use cuda_sys::MissingSymbol;
use cuda_sys::cufft::{Cufft, cufftHandle, cufftResult, cufftType};

use super::shape::Resolved;
use crate::error::{Error, Result};
use crate::load::CufftLibrary;
use crate::park::{Owner, Park, owner};
use crate::uses::{Uses, WithWorkspace, is_own};

/// How many plans of dropped `Fft`s are kept for the next ones of their shape, in each context.
const PARKED: usize = 16;

/// How many areas of recorded calls are kept for further calls of their recordings, or as many as one recording has
/// streams. A graph keeps its own in any case.
const RECORDED: usize = 4;

/// On an H200, cuFFT 12.0 can't plan 251 numbers during a capture of another thread, and invalidates it.
const RECORDS: &str = "records, which a new plan could invalidate: make plans before the capture";

static PLANS: Park<Plan> = Park::new();

/// The result of a raw function.
pub(crate) type Status = Result<cufftResult, MissingSymbol>;

type Area = DeviceBuffer<MaybeUninit<u8>>;

/// What one `Fft` and its clones share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) library: CufftLibrary,
    pub(crate) context: Context,
    owner: Owner,
    pub(crate) shape: Resolved,
    most_areas: usize,
    pub(super) area_bytes: usize,
    /// This lock is taken last: within the enqueue, which takes no other lock.
    plan: Mutex<Plan>,
    areas: Mutex<Areas>,
    /// Whether a graph may use memory of the plan.
    is_recorded: AtomicBool,
    /// The plan of the adjoint, an `Fft`: a capture could not make it.
    #[cfg(feature = "tape")]
    pub(crate) adjoint: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Work areas that wait for the next call.
#[derive(Debug, Default)]
struct Areas {
    /// The areas of streams, the latest used one last.
    of_streams: Vec<(u64, Area)>,
    /// The areas of recorded streams, the latest used one last.
    recorded: Vec<(RecordingId, u64, Area)>,
}

/// A plan of cuFFT, with its stream and its work area.
#[derive(Debug)]
struct Plan {
    raw: cufftHandle,
    ty: cufftType,
    shape: Resolved,
    area_bytes: usize,
    stream: Option<u64>,
    area: u64,
}

impl Plan {
    /// Not during a capture of the context.
    fn create(
        library: CufftLibrary,
        context: &Context,
        ty: cufftType,
        shape: &Resolved,
    ) -> Result<Self> {
        let functions = library.as_sys();
        let mut plan =
            Self { raw: 0, ty, shape: shape.clone(), area_bytes: 0, stream: None, area: 0 };
        let status = context.with_current(|| {
            // SAFETY: `raw` is valid for the write, and the plan is destroyed if it can't be made.
            Ok(unsafe {
                match functions.cufftCreate(&raw mut plan.raw) {
                    Ok(cufftResult::CUFFT_SUCCESS) => {
                        let made = plan.make(functions);
                        if made != Ok(cufftResult::CUFFT_SUCCESS) {
                            let _ = functions.cufftDestroy(plan.raw);
                        }
                        made
                    }
                    failed => failed,
                }
            })
        })?;
        check(library, context, super::NEW, status, || format!(" of {shape}"))?;
        Ok(plan)
    }

    /// # Safety
    /// The plan is alive and empty, and its context is current.
    unsafe fn make(&mut self, functions: &Cufft) -> Status {
        let Resolved { rank, mut lengths, batch, mut input, mut output } = self.shape.clone();
        // SAFETY: the lists have an element for each dimension, and the size is valid for the write.
        unsafe {
            match functions.cufftSetAutoAllocation(self.raw, 0)? {
                cufftResult::CUFFT_SUCCESS => functions.cufftMakePlanMany64(
                    self.raw,
                    rank as c_int,
                    lengths.as_mut_ptr(),
                    input.dims.as_mut_ptr(),
                    input.stride,
                    input.distance,
                    output.dims.as_mut_ptr(),
                    output.stride,
                    output.distance,
                    self.ty,
                    batch,
                    &raw mut self.area_bytes,
                ),
                failed => Ok(failed),
            }
        }
    }

    /// Sets the stream and the work area, if they are others than before.
    ///
    /// # Safety
    /// The plan is in no other use. The stream is of its context; the area lives until the plan's work has run.
    unsafe fn bind(
        &mut self,
        functions: &Cufft,
        (id, stream): (u64, cuda_safe::sys::CUstream),
        area: Option<u64>,
    ) -> Status {
        const DONE: cufftResult = cufftResult::CUFFT_SUCCESS;
        if self.stream != Some(id) {
            self.stream = None;
            // SAFETY: the caller's promise.
            let status = unsafe { functions.cufftSetStream(self.raw, stream) }?;
            if status != DONE {
                return Ok(status);
            }
            self.stream = Some(id);
        }
        if let Some(area) = area.filter(|area| *area != self.area) {
            self.area = 0;
            // SAFETY: the caller's promise.
            let status = unsafe { functions.cufftSetWorkArea(self.raw, area as *mut c_void) }?;
            if status != DONE {
                return Ok(status);
            }
            self.area = area;
        }
        Ok(DONE)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while the lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the error of a status: that of the context, if it has lost the device.
fn check(
    library: CufftLibrary,
    context: &Context,
    call: &'static str,
    status: Status,
    detail: impl FnOnce() -> String,
) -> Result<()> {
    match status {
        Ok(cufftResult::CUFFT_SUCCESS) => Ok(()),
        Ok(status) => match context.check_alive() {
            Err(error) => Err(error.into()),
            Ok(()) => Err(Error::Cufft { call, status, detail: detail() }),
        },
        Err(missing) => Err(library.lacks(call, missing.name)),
    }
}

impl Inner {
    pub(super) fn new(
        library: CufftLibrary,
        context: &Context,
        ty: cufftType,
        shape: Resolved,
        most_areas: usize,
    ) -> Result<Self> {
        let owner = owner(context, library.as_sys());
        let parked = PLANS.take(owner, |plan| plan.ty == ty && plan.shape == shape);
        let (plan, is_recorded) = match parked {
            Some(parked) => parked,
            None => {
                if context.is_recording() {
                    return Err(Error::invalid(super::NEW, "context", RECORDS));
                }
                // The new plan does not need the memory of the others.
                let _ = destroy_parked(library, context, owner, PARKED);
                // cuFFT may wait for the device.
                let new = || Plan::create(library, context, ty, &shape);
                (context.outside_captures(new)??, false)
            }
        };
        Ok(Self {
            library,
            context: context.clone(),
            owner,
            shape,
            most_areas,
            area_bytes: plan.area_bytes,
            plan: Mutex::new(plan),
            areas: Mutex::default(),
            is_recorded: AtomicBool::new(is_recorded),
            #[cfg(feature = "tape")]
            adjoint: OnceLock::new(),
        })
    }

    /// Takes a work area for a call on this stream: its last one, or, if there are enough, that of the stream that did
    /// not call for the longest time.
    fn area(&self, stream: &Stream) -> Result<Option<Area>> {
        let (id, recording) = (stream.id(), stream.recording_id());
        if recording.is_some() {
            self.is_recorded.store(true, Ordering::Relaxed);
        }
        // cuFFT keeps the address of an area that it does not need, and fails for memory that lies there later.
        if self.area_bytes == 0 {
            return Ok(None);
        }
        if let Some(recording) = recording {
            let mut areas = lock(&self.areas);
            let list = &mut areas.recorded;
            let own = list.iter().position(|(of, by, _)| (*of, *by) == (recording, id));
            let kept = own.map(|at| list.remove(at));
            drop(areas);
            return Ok(Some(match kept {
                Some((.., area)) => area,
                // Memory of a graph lives outside of it, so that the graph can run many times.
                None => DeviceBuffer::uninit(&self.context.stream()?, self.area_bytes)?,
            }));
        }
        let mut areas = lock(&self.areas);
        let list = &mut areas.of_streams;
        let own = list.iter().position(|(of, _)| *of == id);
        if let Some(at) = own.or((list.len() >= self.most_areas).then_some(0)) {
            return Ok(Some(list.remove(at).1));
        }
        drop(areas);
        Ok(Some(DeviceBuffer::uninit(stream, self.area_bytes)?))
    }

    /// Keeps a work area for the next call.
    fn keep(&self, stream: &Stream, area: Option<Area>) {
        let Some(area) = area else { return };
        let mut areas = lock(&self.areas);
        let dropped = match stream.recording_id() {
            Some(recording) => {
                let list = &mut areas.recorded;
                let other = list.iter().position(|(of, ..)| *of != recording);
                let dropped = other.filter(|_| list.len() >= RECORDED).map(|at| list.remove(at).2);
                list.push((recording, stream.id(), area));
                dropped
            }
            None => {
                areas.of_streams.push((stream.id(), area));
                let list = &mut areas.of_streams;
                (list.len() > self.most_areas).then(|| list.remove(0).1)
            }
        };
        // Freed without the lock.
        drop(areas);
        drop(dropped);
    }

    /// Enqueues a transform that uses this memory.
    ///
    /// # Safety
    /// `function` runs the plan, and does nothing else; the work uses device memory as `uses` says.
    pub(super) unsafe fn enqueue(
        &self,
        call: &'static str,
        stream: &Stream,
        uses: Uses<'_>,
        function: impl FnOnce(&Cufft, cufftHandle) -> Status,
    ) -> Result<()> {
        cuda_safe::check_caller()?;
        is_own(call, stream, &self.context, super::OWNER)?;
        uses.check(call, &self.context, super::OWNER)?;
        let area = self.area(stream)?;
        let address = area.as_ref().map(Area::device_ptr);
        let functions = self.library.as_sys();
        let (id, uses) = (stream.id(), WithWorkspace { uses: &uses, workspace: area.as_ref() });
        let enqueued = self.context.with_current(|| {
            // SAFETY: the plan belongs to the context, which is current, and the lock gives it to this call alone; the
            // caller promises the rest. The work area is among the uses. The closure calls cuFFT alone.
            unsafe {
                stream.enqueue(uses, |raw| {
                    let mut plan = lock(&self.plan);
                    match plan.bind(functions, (id, raw), address)? {
                        cufftResult::CUFFT_SUCCESS => function(functions, plan.raw),
                        failed => Ok(failed),
                    }
                })
            }
        });
        self.keep(stream, area);
        check(self.library, &self.context, call, enqueued?, String::new)
    }
}

fn destroy_parked(
    library: CufftLibrary,
    context: &Context,
    owner: Owner,
    most: usize,
) -> Result<()> {
    let functions = library.as_sys();
    PLANS.destroy_excess(context, owner, most, |plan| {
        let status = context.with_current(|| {
            // SAFETY: the plan is alive, no other thread has it, and its work is done. Its stream may be gone, so it gets
            // the legacy stream.
            Ok(unsafe {
                let _ = functions.cufftSetStream(plan.raw, std::ptr::null_mut());
                functions.cufftDestroy(plan.raw)
            })
        })?;
        check(library, context, "close", status, String::new)
    })
}

impl Drop for Inner {
    /// Parks the plan: cuFFT frees memory when it destroys one, which may wait for the device.
    fn drop(&mut self) {
        let plan = self.plan.get_mut().unwrap_or_else(PoisonError::into_inner);
        let nothing = Plan { raw: 0, shape: plan.shape.clone(), ..*plan };
        let plan = std::mem::replace(plan, nothing);
        let is_recorded = *self.is_recorded.get_mut();
        PLANS.put(self.owner, plan, is_recorded);
    }
}

/// Destroys the parked plans of the context that no graph has recorded, after its work.
pub(super) fn clear(library: CufftLibrary, context: &Context) -> Result<()> {
    if context.is_recording() {
        return Err(Error::invalid("close", "context", "records"));
    }
    context.synchronize()?;
    destroy_parked(library, context, owner(context, library.as_sys()), 0)
}

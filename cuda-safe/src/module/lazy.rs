//! Modules whose kernels the driver compiles one at a time, at their first use.
//!
//! The driver compiles PTX for `cuModuleLoadData` on one core, whatever the number of threads, and all kernels of the
//! text. For `cuLibraryLoadData` it compiles on as many cores as threads ask (driver 580: 41 kernels in 2.44 s on one
//! thread, in 0.32 s on 16). So each kernel becomes a library. Its module in the context is made when it is looked up.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cuda_sys::{CUlibrary, CUmodule};
use ptx::variables::Reached;

use super::jit::{Arguments, JitOptions};
use super::load::{self, Loaded, LoadedFrom, ModuleImage, explain};
use super::variables::Variables;
use super::{KernelSignatures, ModuleInner};
use crate::caller;
use crate::context::{ContextInner, Deferred};
use crate::error::{Error, Result};
use crate::image::{self, ImageKind};
use crate::sync::Lock;
use crate::trace::timed;

/// A PTX text and its kernels as far as they are compiled.
pub(super) struct Lazy {
    parts: ptx::Parts,
    /// The module's name for errors, if it has one.
    label: Option<Box<str>>,
    slots: HashMap<Box<str>, Lock<Slot>>,
}

/// A kernel's place.
#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Compiled(CUlibrary),
    Loaded(CUlibrary, CUmodule),
}

/// Loads an image lazily if that is possible, otherwise as a whole.
pub(super) fn load(context: &Arc<ContextInner>, image: ModuleImage<'_>) -> Result<ModuleInner> {
    let whole = |image| load::load(context, image, &JitOptions::default());
    context.state.usable()?;
    let (text, label) = match image {
        // C programs put a zero byte at the end.
        ModuleImage::Ptx(text) => (text.trim_end_matches('\0').to_owned(), None::<&str>),
        #[cfg(feature = "packed-ptx")]
        ModuleImage::PackedPtx(packed) => (packed.unpack()?, Some(packed.name())),
        _ => return whole(image),
    };
    let possible = context.state.sys.supports("cuLibraryLoadData")
        && image::check(text.as_bytes()).is_ok_and(|kind| kind == ImageKind::Ptx)
        && shares_nothing(&text);
    let signatures = if possible { ptx::entries(&text).ok() } else { None };
    let Some((kernels, parts)) = signatures.zip(ptx::Parts::new(text).ok()) else {
        return whole(image);
    };
    let slots = parts.kernels().map(|name| (name.into(), Lock::default())).collect();
    let lazy = Lazy { parts, label: label.map(Into::into), slots };
    let loaded = Loaded { raw: std::ptr::null_mut(), log: String::new() };
    let variables = Variables::default();
    let signatures = KernelSignatures::new(kernels, Vec::new(), None);
    let mut module = load::module(context, loaded, signatures, LoadedFrom::Ptx, variables);
    module.lazy = Some(Box::new(lazy));
    Ok(module)
}

/// Returns whether no kernel of the text may write a variable of the module. Then nothing shows that each kernel has
/// copies of its own.
fn shares_nothing(text: &str) -> bool {
    Reached::of_text(text).is_ok_and(|reached| {
        let mut uses = reached.kernels.iter().flat_map(|kernel| &*kernel.uses);
        !uses.any(|used| used.writes)
    })
}

/// Compiles kernels of lazily loaded modules, given with their names in the image, on all cores, and loads them.
pub(super) fn prepare(wanted: &[(&ModuleInner, &str)]) -> Result<()> {
    // Other threads would wait for a lock that the caller of a subscriber holds.
    caller::may_call()?;
    let next = AtomicUsize::new(0);
    // The error of the first kernel in the caller's order, whichever thread had it.
    let failed: Lock<Option<(usize, Error)>> = Lock::new(None);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((module, name)) = wanted.get(index) else { return };
            let Some(lazy) = &module.lazy else { continue };
            if let Err(error) = lazy.compile(&module.context, name) {
                let Ok(mut failed) = failed.lock() else { return };
                if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                    *failed = Some((index, error));
                }
            }
        }
    };
    let open = wanted
        .iter()
        .filter(|(module, name)| module.lazy.as_ref().is_some_and(|lazy| lazy.is_empty(name)));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(open.count());
    thread::scope(|scope| {
        for _ in 1..threads {
            // If no thread can be started, this one does all the work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let failed = failed.into_inner();
    // An error of a kernel before the first failed one comes earlier in the caller's order.
    let end = failed.as_ref().map_or(wanted.len(), |(first, _)| *first);
    for (module, name) in wanted.iter().take(end) {
        if let Some(lazy) = &module.lazy {
            lazy.module_of(&module.context, name)?;
        }
    }
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

impl Lazy {
    /// Returns whether a kernel is not compiled yet. `false` if another thread compiles it.
    fn is_empty(&self, name: &str) -> bool {
        let slot = self.slots.get(name).and_then(Lock::try_lock);
        slot.is_some_and(|slot| matches!(*slot, Slot::Empty))
    }

    /// Returns the names of the kernels that are compiled.
    pub(super) fn compiled(&self) -> Vec<String> {
        let compiled = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.lock().is_ok_and(|slot| !matches!(*slot, Slot::Empty)));
        compiled.map(|(name, _)| name.to_string()).collect()
    }

    /// Compiles a kernel, unless it is.
    fn compile(&self, context: &ContextInner, name: &str) -> Result<()> {
        let mut slot = self.slot(name)?.lock()?;
        if matches!(*slot, Slot::Empty) {
            *slot = Slot::Compiled(self.library(context, name)?);
        }
        Ok(())
    }

    /// Returns the module that has a kernel, which is compiled now if it was not yet.
    pub(super) fn module_of(&self, context: &ContextInner, name: &str) -> Result<CUmodule> {
        let mut slot = self.slot(name)?.lock()?;
        let library = match *slot {
            Slot::Loaded(_, module) => return Ok(module),
            Slot::Compiled(library) => library,
            Slot::Empty => self.library(context, name)?,
        };
        // If the next step fails, the library stays.
        *slot = Slot::Compiled(library);
        let mut module = std::ptr::null_mut();
        let made = context.with_current(|| {
            // SAFETY: `module` is a valid place for a handle, and the library is live: it is unloaded only when no
            // handle to the module is left.
            unsafe { call!(context, cuLibraryGetModule(&raw mut module, library)) }
        });
        match made {
            Ok(()) => {
                *slot = Slot::Loaded(library, module);
                Ok(module)
            }
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => Err(self.refused(context, name, error)),
        }
    }

    /// Returns the error for a kernel that the driver did not load. A driver that could not compile it says so only
    /// now, and without a log (driver 580): the same text as a module has the log.
    #[cold]
    fn refused(&self, context: &ContextInner, name: &str, error: Error) -> Error {
        let again = self.parts.text_of(name).ok().flatten().map(|text| {
            load::load_bytes(context, text.as_bytes(), ImageKind::Ptx, &JitOptions::default())
        });
        match again {
            Some(Err(with_log)) => self.placed(name, with_log),
            Some(Ok(loaded)) => {
                context.deferred.put(Deferred::Module(loaded.raw));
                self.placed(name, error)
            }
            None => self.placed(name, error),
        }
    }

    /// Returns an error with the kernel's name, and the module's if it has one.
    #[cold]
    fn placed(&self, name: &str, error: Error) -> Error {
        if error.is_fatal() {
            return error;
        }
        let place = match &self.label {
            Some(label) => format!("kernel `{name}` of `{label}`"),
            None => format!("kernel `{name}`"),
        };
        let asked = error.asked().map_or(place.clone(), |asked| format!("{place}, {asked}"));
        error.with_asked(asked)
    }

    fn slot(&self, name: &str) -> Result<&Lock<Slot>> {
        let slot = self.slots.get(name);
        slot.ok_or_else(|| Error::invalid(format!("the module has no kernel `{name}`")))
    }

    /// Makes a library of a kernel. That needs no current context.
    fn library(&self, context: &ContextInner, name: &str) -> Result<CUlibrary> {
        context.state.usable()?;
        let text = match self.parts.text_of(name) {
            Ok(Some(text)) => text,
            // The outline was read before, so this is a byte inside of a function.
            Ok(None) => return Err(Error::invalid(format!("the module has no kernel `{name}`"))),
            Err(error) => return Err(Error::invalid(format!("kernel `{name}`: {error}"))),
        };
        let bytes = [text.as_bytes(), &[0]].concat();
        let mut arguments = Arguments::new(&JitOptions::default());
        let (count, keys, values) = arguments.as_raw();
        let mut library = std::ptr::null_mut();
        let result = timed!(DEBUG, [kernel = name, bytes = bytes.len(), "compile kernel"], {
            // SAFETY: `library` is a valid place for a handle; the text ends with a zero byte; the arrays have `count`
            // elements, and the log buffers live until after the call; there are no options of libraries.
            unsafe {
                call!(
                    context,
                    cuLibraryLoadData(
                        &raw mut library,
                        bytes.as_ptr().cast(),
                        keys,
                        values,
                        count,
                        std::ptr::null_mut(),
                        std::ptr::null_mut(),
                        0,
                    )
                )
            }
        });
        match result {
            Ok(()) => Ok(library),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                let error = explain(context, error, &bytes, ImageKind::Ptx, &arguments.log());
                Err(self.placed(name, error))
            }
        }
    }

    /// Unloads the kernels. Waits for the device.
    pub(super) fn unload(&mut self, context: &ContextInner) -> Result<()> {
        for slot in self.slots.values_mut() {
            let slot = slot.get_mut();
            if let Slot::Compiled(library) | Slot::Loaded(library, _) = *slot {
                context.with_current(|| {
                    // SAFETY: the module has no other handle; the call waits for the kernel.
                    unsafe { call!(context, cuLibraryUnload(library)) }
                })?;
                *slot = Slot::Empty;
            }
        }
        Ok(())
    }

    /// Takes what is to be unloaded.
    pub(super) fn take(&mut self) -> Vec<CUlibrary> {
        let mut taken = Vec::new();
        for slot in self.slots.values_mut() {
            let slot = slot.get_mut();
            if let Slot::Compiled(library) | Slot::Loaded(library, _) = std::mem::take(slot) {
                taken.push(library);
            }
        }
        taken
    }
}

//! The device under test, as all tests of a process share it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use cuda_safe::arg::KernelArgs;
use cuda_safe::{Context, Driver, Kernel, KernelSource, LaunchConfig, Module, Stream};

use super::report::count_launches;
use super::{Failure, Open, Rng, TestResult};
use crate::programs::Program;

/// A device of some tier, with the programs that were compiled for it.
pub struct TestDevice {
    tier: &'static str,
    context: Context,
    modules: Mutex<HashMap<&'static str, Module>>,
    /// What tests have loaded and share, by its type.
    shared: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
    instrumented: bool,
    seeded: bool,
    /// Held for reading by every test, for writing by a serial one.
    turn: RwLock<()>,
    /// Contexts of other devices that a test has opened.
    others: Mutex<Vec<Context>>,
}

/// Why a tier of devices can't run here, if it can't.
pub(crate) fn why_not(tier: &str) -> Option<String> {
    match open(tier)() {
        Ok(driver) if driver.device_count() == 0 => Some("the driver shows no device".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

/// What opens the driver of a tier of devices.
pub(crate) fn open(tier: &str) -> Open {
    match tier {
        "emu" => || Driver::from_sys(cuda_emu::driver()),
        _ => Driver::load,
    }
}

impl TestDevice {
    pub fn open(tier: &'static str) -> Result<Self, Failure> {
        if let Some(reason) = why_not(tier) {
            return Err(Failure::new(format!("tier {tier}: {reason}")));
        }
        let device = Self::with_driver(open(tier)()?, tier)?;
        if device.instrumented {
            eprintln!("tier {tier}: under a checker, so times are not judged");
        }
        Ok(device)
    }

    /// The first device of a driver that is no tier's, such as one that goes wrong on purpose.
    pub fn on(driver: Driver) -> Result<Self, Failure> {
        Self::with_driver(driver, "a driver of its own")
    }

    fn with_driver(driver: Driver, tier: &'static str) -> Result<Self, Failure> {
        let context = driver.device(0)?.context()?;
        let (modules, shared, turn, others) = Default::default();
        let (instrumented, seeded) = (instrumented(), false);
        Ok(Self { tier, context, modules, shared, instrumented, seeded, turn, others })
    }

    /// The software device, by this driver, with a seed set.
    pub fn seeded(driver: Driver) -> Result<Self, Failure> {
        Ok(Self { seeded: true, ..Self::with_driver(driver, "emu")? })
    }

    /// Runs one test: its own errors, errors that its drops met, and faults of work that it has
    /// left behind are its failure.
    pub fn run(&self, case: fn(&Self) -> TestResult, serial: bool) -> TestResult {
        let (_shared, _alone);
        if serial {
            _alone = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        } else {
            _shared = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        }
        case(self)?;
        let others = self.others().clone();
        for context in std::iter::once(&self.context).chain(&others) {
            context.synchronize()?;
            match context.take_drop_errors().as_slice() {
                [] => {}
                errors => return Err(Failure::new(format!("drops met errors: {errors:?}"))),
            }
        }
        nothing_found()
    }

    fn others(&self) -> MutexGuard<'_, Vec<Context>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contexts of all devices of the driver, this one's first. They are closed with it.
    pub fn all_contexts(&self) -> cuda_safe::Result<Vec<Context>> {
        let mut all = vec![self.context.clone()];
        for device in self.context.driver().devices().skip(1) {
            let context = device.context()?;
            let mut others = self.others();
            if !others.contains(&context) {
                others.push(context.clone());
            }
            all.push(context);
        }
        Ok(all)
    }

    /// Whether the device runs cubins: the software device takes PTX alone.
    pub fn runs_machine_code(&self) -> bool {
        self.tier == "gpu"
    }

    /// Opens the tier's driver, as a program that starts does.
    pub fn reopen(&self) -> cuda_safe::Result<Driver> {
        open(self.tier)()
    }

    /// The tier's name.
    pub fn tier(&self) -> &'static str {
        self.tier
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns an object of this type that all tests share. The first call makes it.
    pub fn shared<T: Clone + Send + 'static>(&self, make: impl FnOnce(&Context) -> T) -> T {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let found = shared.get(&TypeId::of::<T>()).and_then(|found| found.downcast_ref::<T>());
        if let Some(found) = found {
            return found.clone();
        }
        let made = make(&self.context);
        shared.insert(TypeId::of::<T>(), Box::new(made.clone()));
        made
    }

    /// A new stream.
    pub fn stream(&self) -> cuda_safe::Result<Stream> {
        self.context.stream()
    }

    /// Whether a tool such as compute-sanitizer slows the process down, so that times mean nothing.
    pub fn is_instrumented(&self) -> bool {
        self.instrumented
    }

    /// Whether a seed decides what is done when, and not time.
    pub fn is_seeded(&self) -> bool {
        self.seeded
    }

    /// Random numbers of a test, the same in every run, whatever `TEST_SEED` says: tests know what their numbers show.
    pub fn rng(&self, test: u64) -> Rng {
        Rng::new(20_260_101_u64.wrapping_mul(1_000_003).wrapping_add(test))
    }

    /// The program's image for this device.
    pub fn image(&self, program: &Program) -> Result<nvrtc::Image, Failure> {
        let arch = self.context.device().arch()?;
        let driver = self.context.driver().version()?;
        Ok(program.to_nvrtc().compile_for_driver(arch, driver)?)
    }

    /// The program, compiled and loaded once.
    pub fn module(&self, program: &Program) -> Result<Module, Failure> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(program.name) {
            return Ok(module.clone());
        }
        let module = (&program.to_nvrtc()).load_kernels(&self.context, &[])?;
        modules.insert(program.name, module.clone());
        Ok(module)
    }

    /// A kernel of a program.
    pub fn kernel(&self, program: &Program, name: &str) -> Result<Kernel, Failure> {
        Ok(self.module(program)?.kernel(name)?)
    }

    /// Launches, and counts it.
    ///
    /// # Safety
    /// As [`Kernel::launch`].
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        launch: impl Into<LaunchConfig>,
        args: A,
    ) -> cuda_safe::Result<()> {
        // SAFETY: the caller's promise.
        self.count(unsafe { kernel.launch(stream, launch, args) })
    }

    /// Counts a launch that was made, such as by a method of `kernels!`.
    pub fn count(&self, launched: cuda_safe::Result<()>) -> cuda_safe::Result<()> {
        if launched.is_ok() {
            count_launches(1);
        }
        launched
    }

    /// Gives everything back. Whatever is still alive then was leaked by a test.
    pub fn close(self) -> TestResult {
        let Self { context, modules, shared, others, .. } = self;
        drop((modules, shared));
        let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A graph of several contexts leaves what it has kept of all to the one that it belonged to.
        others.iter().try_for_each(Context::free_deferred)?;
        for context in std::iter::once(context).chain(others) {
            let errors = context.take_drop_errors();
            if !errors.is_empty() {
                return Err(Failure::new(format!("drops met errors: {errors:?}")));
            }
            close(context)?;
        }
        Ok(())
    }

    /// The context, without what this has loaded.
    pub fn into_context(self) -> Context {
        self.context
    }

    /// The contexts, without what this has loaded: its own one first.
    pub fn into_contexts(self) -> Vec<Context> {
        let mut all = vec![self.context];
        all.extend(self.others.into_inner().unwrap_or_else(PoisonError::into_inner));
        all
    }

    /// [`close`](Self::close), unless the device is lost: then dropping must do.
    pub fn close_unless_lost(self) -> TestResult {
        match self.context.synchronize() {
            Err(error) if error.is_fatal() => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => self.close(),
        }
    }
}

/// How long a thread of the driver may take to let go of what a destroyed graph of other code has kept.
const MOMENT: Duration = Duration::from_secs(3);

/// Closes a context of which nothing is left, but for what the driver lets go of in a moment.
fn close(mut context: Context) -> TestResult {
    let begin = Instant::now();
    loop {
        let Err(refused) = context.close() else { return Ok(()) };
        let (back, error) = refused.into_parts();
        let is_in_use = error.call().is_none();
        if !is_in_use || begin.elapsed() > MOMENT {
            return Err(Failure::new(format!("close: {error}")));
        }
        std::thread::sleep(Duration::from_millis(1));
        context = back;
    }
}

/// Fails with what the checkers of the software device have found since, if `CUDA_EMU_CHECK` switches
/// any on.
pub fn nothing_found() -> TestResult {
    let found: Vec<String> = cuda_emu::findings().iter().map(ToString::to_string).collect();
    if found.is_empty() { Ok(()) } else { Err(Failure::new(found.join("\n"))) }
}

/// Whether a checker has put itself into this process.
fn instrumented() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let file = line.rsplit('/').next().unwrap_or_default();
        file.contains("sanitizer") && file.contains(".so")
    })
}

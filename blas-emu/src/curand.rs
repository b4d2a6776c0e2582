//! The functions of cuRAND's host interface, `curand.h`, for the generators XORWOW and Philox. [`resolve`](crate::resolve)
//! returns their addresses by name.
//!
//! # Safety
//! Each function has the rules of the C function. Generators are checked: an invalid one is an error.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};
use core::ptr;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_sys::curand::{
    CurandFns, cudaStream_t, curandGenerator_t, curandOrdering_t, curandRngType_t, curandStatus_t,
    libraryPropertyType,
};
use cuda_sys::{CUcontext, CUevent, CUstream};

use crate::call::{Code, Error, Kind, Result, functions, put};
use crate::cuda::Cuda;
use crate::kernels::{Module, Queue, blocks};
use crate::xorwow;

impl Code for curandStatus_t {
    const SUCCESS: Self = Self::CURAND_STATUS_SUCCESS;

    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Handle => Self::CURAND_STATUS_NOT_INITIALIZED,
            Kind::Value => Self::CURAND_STATUS_OUT_OF_RANGE,
            Kind::Unsupported | Kind::Type => Self::CURAND_STATUS_TYPE_ERROR,
            Kind::Size => Self::CURAND_STATUS_LENGTH_NOT_MULTIPLE,
            Kind::Memory => Self::CURAND_STATUS_ALLOCATION_FAILED,
            Kind::Start => Self::CURAND_STATUS_INITIALIZATION_FAILED,
            Kind::Launch => Self::CURAND_STATUS_LAUNCH_FAILURE,
            Kind::Internal => Self::CURAND_STATUS_INTERNAL_ERROR,
        }
    }
}

/// The version of the API that this crate implements.
const VERSION: [c_int; 3] = [10, 4, 0];

/// What is generated, as the kernels number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Bits = 0,
    Uniform = 1,
    UniformDouble = 2,
    Normal = 3,
    NormalDouble = 4,
    LogNormal = 5,
    LogNormalDouble = 6,
}

/// The arguments of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Random {
    out: u64,
    /// The index of the first result in the order of the generator, and the number of results.
    first: u64,
    count: u64,
    seed: u64,
    states: u64,
    mean: f64,
    deviation: f64,
    kind: c_int,
}

const _: () = assert!(size_of::<Random>() == 64);

#[derive(Debug)]
struct State {
    philox: bool,
    stream: CUstream,
    seed: u64,
    offset: u64,
    /// Results since the seed, the offset or the order was set.
    done: u64,
    /// The states of XORWOW on the device.
    states: u64,
    /// The end of the latest work that uses them; null before. The stream of that work may be gone.
    used: CUevent,
    /// Whether these are those of the seed and the offset.
    ready: bool,
}

#[derive(Debug)]
struct Generator {
    cuda: Cuda,
    context: CUcontext,
    state: Mutex<State>,
}

// SAFETY: the handles of the driver are only names, which any thread may use.
unsafe impl Send for Generator {}
// SAFETY: as above.
unsafe impl Sync for Generator {}

static GENERATORS: Mutex<Option<HashMap<usize, Arc<Generator>>>> = Mutex::new(None);

fn generators() -> MutexGuard<'static, Option<HashMap<usize, Arc<Generator>>>> {
    GENERATORS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(generator: curandGenerator_t) -> Result<Arc<Generator>> {
    let found = generators().as_ref().and_then(|all| all.get(&generator.addr()).cloned());
    found.ok_or_else(|| {
        Error::new(
            Kind::Handle,
            format!("generator {generator:p} is not one of curandCreateGenerator"),
        )
    })
}

impl Generator {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reset(&mut self) {
        self.done = 0;
        self.ready = false;
    }

    /// Uploads the states of XORWOW, which the calls that follow change in the order of the stream.
    fn prepare(&mut self, cuda: Cuda) -> Result {
        if self.philox || self.ready {
            return Ok(());
        }
        let _relaxed = cuda.relaxed()?;
        if self.states == 0 {
            self.states = cuda.alloc(xorwow::SEQUENCES * size_of::<xorwow::State>())?;
        }
        let states = xorwow::states(self.seed, self.offset);
        self.wait(cuda)?;
        cuda.upload(self.states, &states)?;
        self.ready = true;
        Ok(())
    }

    /// Waits for the work that uses the states. Captures must not restrict the thread.
    fn wait(&self, cuda: Cuda) -> Result {
        if self.used.is_null() { Ok(()) } else { cuda.synchronize_event(self.used) }
    }

    fn generate(
        &mut self,
        cuda: Cuda,
        out: u64,
        count: u64,
        kind: Output,
        [mean, deviation]: [f64; 2],
    ) -> Result {
        // The place in the sequence is a number of the host, which a graph would repeat while the states go on.
        if !self.philox && cuda.captures(self.stream)? {
            let text = "XORWOW does not generate while the stream is captured; Philox does";
            return Err(Error::new(Kind::Launch, text));
        }
        self.prepare(cuda)?;
        let first = if self.philox { self.offset.wrapping_add(self.done) } else { self.done };
        let (seed, states) = (self.seed, self.states);
        let arguments =
            Random { out, first, count, seed, states, mean, deviation, kind: kind as c_int };
        let queue = Queue { cuda, stream: self.stream };
        if self.philox {
            let groups = i64::try_from(count / 4 + 2).unwrap_or(i64::MAX);
            queue.launch(Module::Rand, c"philox", [blocks(groups, 256), 256], &arguments)?;
        } else {
            queue.launch(
                Module::Rand,
                c"xorwow",
                [(xorwow::SEQUENCES / 256) as u32, 256],
                &arguments,
            )?;
            if self.used.is_null() {
                self.used = cuda.event()?;
            }
            cuda.record(self.used, self.stream)?;
        }
        self.done = self.done.wrapping_add(count);
        Ok(())
    }
}

/// Enqueues the generation of results.
fn generate(
    generator: curandGenerator_t,
    out: *mut c_void,
    count: usize,
    kind: Output,
    parameters: [f64; 2],
) -> Result {
    let generator = find(generator)?;
    let pairs = !matches!(kind, Output::Bits | Output::Uniform | Output::UniformDouble);
    if pairs && !count.is_multiple_of(2) {
        return Err(Error::new(Kind::Size, format!("n {count}: normal numbers are made in pairs")));
    }
    if count == 0 {
        return Ok(());
    }
    if out.is_null() {
        return Err(Error::value("outputPtr is null: pass memory of the device"));
    }
    let cuda = generator.cuda;
    let _current = cuda.push(generator.context)?;
    generator.lock().generate(cuda, out.expose_provenance() as u64, count as u64, kind, parameters)
}

/// Changes the state of a generator.
fn set(generator: curandGenerator_t, change: impl FnOnce(&mut State)) -> Result {
    change(&mut find(generator)?.lock());
    Ok(())
}

functions! { curandStatus_t, CurandFns, GENERATE;
    fn curandCreateGenerator(generator: *mut curandGenerator_t, rng_type: curandRngType_t) {
        if generator.is_null() {
            return Err(Error::value("generator is null: pass a place for the generator"));
        }
        let philox = match rng_type {
            curandRngType_t::CURAND_RNG_PSEUDO_DEFAULT | curandRngType_t::CURAND_RNG_PSEUDO_XORWOW => false,
            curandRngType_t::CURAND_RNG_PSEUDO_PHILOX4_32_10 => true,
            curandRngType_t(other) => return Err(Error::new(Kind::Type, format!(
                "generator {other}: XORWOW (101) and PHILOX4_32_10 (161) are there, MRG32K3A, MTGP32, MT19937 and the \
                 quasirandom generators are not",
            ))),
        };
        let cuda = Cuda::get()?;
        let context = cuda.context()?;
        let (stream, used) = (ptr::null_mut(), ptr::null_mut());
        let state = State { philox, stream, seed: 0, offset: 0, done: 0, states: 0, used, ready: false };
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
        let number = NEXT.fetch_add(16, Ordering::Relaxed);
        let new = Generator { cuda, context, state: Mutex::new(state) };
        generators().get_or_insert_default().insert(number, Arc::new(new));
        put(generator, "generator", ptr::without_provenance_mut(number))
    }
    fn curandDestroyGenerator(generator: curandGenerator_t) {
        let found = find(generator)?;
        generators().as_mut().and_then(|all| all.remove(&generator.addr()));
        let mut state = found.lock();
        let states = core::mem::take(&mut state.states);
        let used = core::mem::replace(&mut state.used, ptr::null_mut());
        state.ready = false;
        if states == 0 {
            return Ok(());
        }
        let _relaxed = found.cuda.relaxed()?;
        let _current = found.cuda.push(found.context)?;
        if !used.is_null() {
            found.cuda.destroy_event(used)?;
        }
        found.cuda.free(states)
    }
    fn curandSetStream(generator: curandGenerator_t, stream: cudaStream_t) {
        let found = find(generator)?;
        let mut state = found.lock();
        // The states of XORWOW are in the order of one stream. The handle of a stream that is gone may name another one.
        if state.ready {
            let _relaxed = found.cuda.relaxed()?;
            state.wait(found.cuda)?;
        }
        state.stream = stream;
        Ok(())
    }
    fn curandSetPseudoRandomGeneratorSeed(generator: curandGenerator_t, seed: c_ulonglong) {
        set(generator, |state| {
            state.seed = seed;
            state.reset();
        })
    }
    fn curandSetGeneratorOffset(generator: curandGenerator_t, offset: c_ulonglong) {
        set(generator, |state| {
            state.offset = offset;
            state.reset();
        })
    }
    fn curandSetGeneratorOrdering(generator: curandGenerator_t, order: curandOrdering_t) {
        find(generator)?;
        match order {
            curandOrdering_t::CURAND_ORDERING_PSEUDO_BEST
            | curandOrdering_t::CURAND_ORDERING_PSEUDO_DEFAULT
            | curandOrdering_t::CURAND_ORDERING_PSEUDO_LEGACY => set(generator, State::reset),
            curandOrdering_t(other) => Err(Error::value(format!(
                "order {other}: BEST, DEFAULT and LEGACY are there, which are one; SEEDED and DYNAMIC are not documented",
            ))),
        }
    }
    fn curandSetQuasiRandomGeneratorDimensions(generator: curandGenerator_t, _num_dimensions: c_uint) {
        find(generator)?;
        Err(Error::new(Kind::Type, "the generator is pseudorandom: it has no dimensions"))
    }
    fn curandGenerateSeeds(generator: curandGenerator_t) {
        let found = find(generator)?;
        let _current = found.cuda.push(found.context)?;
        found.lock().prepare(found.cuda)
    }
    fn curandGenerate(generator: curandGenerator_t, outputPtr: *mut c_uint, num: usize) {
        generate(generator, outputPtr.cast(), num, Output::Bits, [0.0; 2])
    }
    fn curandGenerateLongLong(generator: curandGenerator_t, _outputPtr: *mut c_ulonglong, _num: usize) {
        find(generator)?;
        Err(Error::new(Kind::Type, "only the generators SOBOL64 have results of 64 bits"))
    }
    fn curandGenerateUniform(generator: curandGenerator_t, outputPtr: *mut f32, num: usize) {
        generate(generator, outputPtr.cast(), num, Output::Uniform, [0.0; 2])
    }
    fn curandGenerateUniformDouble(generator: curandGenerator_t, outputPtr: *mut f64, num: usize) {
        generate(generator, outputPtr.cast(), num, Output::UniformDouble, [0.0; 2])
    }
    fn curandGenerateNormal(generator: curandGenerator_t, outputPtr: *mut f32, n: usize, mean: f32, stddev: f32) {
        generate(generator, outputPtr.cast(), n, Output::Normal, [mean.into(), stddev.into()])
    }
    fn curandGenerateNormalDouble(generator: curandGenerator_t, outputPtr: *mut f64, n: usize, mean: f64, stddev: f64) {
        generate(generator, outputPtr.cast(), n, Output::NormalDouble, [mean, stddev])
    }
    fn curandGenerateLogNormal(generator: curandGenerator_t, outputPtr: *mut f32, n: usize, mean: f32, stddev: f32) {
        generate(generator, outputPtr.cast(), n, Output::LogNormal, [mean.into(), stddev.into()])
    }
    fn curandGenerateLogNormalDouble(generator: curandGenerator_t, outputPtr: *mut f64, n: usize, mean: f64, stddev: f64) {
        generate(generator, outputPtr.cast(), n, Output::LogNormalDouble, [mean, stddev])
    }
    fn curandGetVersion(version: *mut c_int) {
        put(version, "version", VERSION[0] * 1000 + VERSION[1] * 100 + VERSION[2])
    }
    fn curandGetProperty(type_: libraryPropertyType, value: *mut c_int) {
        let Some(part) = VERSION.get(type_.0 as usize) else {
            return Err(Error::value(format!("type {}: pass 0 to 2", type_.0)));
        };
        put(value, "value", *part)
    }
}

/// The functions.
pub(crate) const TABLE: &[crate::List] = &[GENERATE];

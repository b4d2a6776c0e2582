//! A program on cudarc, which finds the driver's library and its functions while it runs:
//! `foreign-cudarc kernels.ptx`. It checks all that it computes, and fails with what is wrong.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{
    self, CUctx_flags, CUdevice_attribute, CUevent_flags, CUfunc_cache, CUfunction_attribute,
    CUgraphInstantiate_flags, CUlimit, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUresult,
    CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, DevicePtr, LaunchConfig, PushKernelArg, result,
};
use cudarc::nvrtc::{Ptx, compile_ptx};

type Outcome = Result<(), Box<dyn Error>>;

const N: usize = 10_000;
const BLOCK: u32 = 256;

/// Fails, and says what does not hold.
fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Whether each number is what a function of its index says.
fn all(numbers: &[f32], wanted: impl Fn(f32) -> f32) -> bool {
    numbers.len() == N && numbers.iter().enumerate().all(|(i, &x)| x == wanted(i as f32))
}

fn rows() -> Vec<f32> {
    (0..N).map(|i| i as f32).collect()
}

fn config() -> LaunchConfig {
    LaunchConfig {
        grid_dim: ((N as u32).div_ceil(BLOCK), 1, 1),
        block_dim: (BLOCK, 1, 1),
        shared_mem_bytes: 0,
    }
}

struct Program {
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
}

impl Program {
    fn kernel(&self, name: &str) -> Result<CudaFunction, result::DriverError> {
        self.module.load_function(name)
    }

    fn device(&self) -> Outcome {
        let context = &self.context;
        let (major, minor) = context.compute_capability()?;
        let warp = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?;
        require(CudaContext::device_count()? >= 1 && major >= 7 && warp == 32, "attributes")?;
        let (free, total) = context.mem_get_info()?;
        require(free <= total && total <= context.total_mem()?, "memory")?;
        require(context.uuid()?.bytes.iter().any(|&byte| byte != 0), "identity")?;
        let mut version = 0;
        // SAFETY: `version` is valid for the write.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
        require(version >= 12_000, "version")?;

        let stack = context.get_limit(CUlimit::CU_LIMIT_STACK_SIZE)?;
        context.set_limit(CUlimit::CU_LIMIT_STACK_SIZE, 2 * stack)?;
        require(context.get_limit(CUlimit::CU_LIMIT_STACK_SIZE)? == 2 * stack, "limit")?;
        context.set_cache_config(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1)?;
        context.get_cache_config()?;
        context.set_flags(CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC)?;
        println!("{} ({major}.{minor}), driver {version}", context.name()?);
        Ok(())
    }

    /// Errors have the driver's codes, and its names for them.
    fn errors(&self) -> Outcome {
        let Err(error) = self.kernel("no_such_kernel") else { return Err("a kernel".into()) };
        require(error.0 == CUresult::CUDA_ERROR_NOT_FOUND, "no such kernel")?;
        require(error.error_name()? == c"CUDA_ERROR_NOT_FOUND", "its name")?;
        require(!error.error_string()?.is_empty(), "its description")?;
        let nonsense = self.context.load_module(Ptx::from_src(".version 8.0\nnonsense"));
        let code = nonsense.err().map(|error| error.0);
        require(code == Some(CUresult::CUDA_ERROR_INVALID_PTX), "nonsense")?;
        let none = self.context.load_module(Ptx::from_file("no-such-file.ptx"));
        let code = none.err().map(|error| error.0);
        require(code == Some(CUresult::CUDA_ERROR_FILE_NOT_FOUND), "no such file")
    }

    /// Copies, slices and kernels on a stream, and a constant that is written.
    fn launches(&self) -> Outcome {
        let stream = self.context.default_stream();
        let (saxpy, scale) = (self.kernel("saxpy")?, self.kernel("scale")?);
        let mut x = stream.clone_htod(&rows())?;
        let mut y = stream.alloc_zeros::<f32>(N)?;
        stream.memcpy_dtod(&x, &mut y)?;
        let n = N as u32;
        // SAFETY: the kernel's parameters, and both hold n numbers.
        unsafe {
            stream.launch_builder(&saxpy).arg(&3_f32).arg(&x).arg(&mut y).arg(&n).launch(config())
        }?;
        require(all(&stream.clone_dtoh(&y)?, |i| 4.0 * i), "saxpy")?;

        let mut symbol = self.module.get_global("factor", &stream)?;
        // SAFETY: `factor` is a float.
        let mut factor = unsafe { symbol.transmute_mut::<f32>(1) }.ok_or("the size of a global")?;
        stream.memcpy_htod(&[0.5_f32], &mut factor)?;
        // SAFETY: as above.
        unsafe { stream.launch_builder(&scale).arg(&mut x).arg(&n).launch(config()) }?;
        stream.synchronize()?;
        require(all(&stream.clone_dtoh(&x)?, |i| 0.5 * i), "scale")?;
        let tail = stream.clone_dtoh(&x.slice(N - 3..))?;
        require(tail == [N - 3, N - 2, N - 1].map(|i| i as f32 / 2.0), "a slice")?;
        stream.memset_zeros(&mut x.slice_mut(..10))?;
        let head = stream.clone_dtoh(&x.slice(..11))?;
        require(head[..10] == [0.0; 10] && head[10] == 5.0, "a slice of zeros")
    }

    /// Shared memory in a cooperative launch, and what the driver says of the kernel.
    fn sums(&self) -> Outcome {
        extern "C" fn shared(threads: c_int) -> usize {
            4 * threads as usize
        }
        let stream = self.context.new_stream()?;
        let kernel = self.kernel("block_sums")?;
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernel.set_attribute(dynamic, 4 * BLOCK as i32)?;
        kernel.set_function_cache_config(CUfunc_cache::CU_FUNC_CACHE_PREFER_SHARED)?;
        let resident = kernel.occupancy_max_active_blocks_per_multiprocessor(
            BLOCK,
            4 * BLOCK as usize,
            None,
        )?;
        let (grid, block) = kernel.occupancy_max_potential_block_size(shared, 0, 0, None)?;
        let room = kernel.occupancy_available_dynamic_smem_per_block(1, BLOCK)?;
        require(kernel.max_threads_per_block()? >= BLOCK as i32, "threads")?;
        require(
            resident >= 1 && grid >= 1 && block >= 32 && room >= 4 * BLOCK as usize,
            "occupancy",
        )?;

        let x = stream.clone_htod(&(0..N as u32).collect::<Vec<_>>())?;
        let config = LaunchConfig { shared_mem_bytes: 4 * BLOCK, ..config() };
        let mut sums = stream.alloc_zeros::<u32>(config.grid_dim.0 as usize)?;
        let n = N as u32;
        let mut call = stream.launch_builder(&kernel);
        call.arg(&x).arg(&mut sums).arg(&n).record_kernel_launch(CUevent_flags::CU_EVENT_DEFAULT);
        // SAFETY: the kernel's parameters; one sum for each block, a word for each thread.
        let events = unsafe { call.launch_cooperative(config) }?;
        let (begin, end) = events.ok_or("no events")?;
        require(begin.elapsed_ms(&end)? >= 0.0 && end.try_is_complete()?, "events")?;
        let sums = stream.clone_dtoh(&sums)?;
        require(sums.iter().sum::<u32>() == n / 2 * (n - 1), "block_sums")
    }

    /// Streams that wait for each other, pinned memory, a host function, managed memory.
    fn streams(&self) -> Outcome {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn count(_: *mut c_void) {
            CALLS.fetch_add(1, Ordering::SeqCst);
        }
        let context = &self.context;
        let (first, second) = (context.new_stream()?, context.new_stream_with_priority(0)?);
        // SAFETY: written before it is read.
        let mut pinned = unsafe { context.alloc_pinned::<f32>(N) }?;
        pinned.as_mut_slice()?.copy_from_slice(&rows());
        let mut x = first.alloc_zeros::<f32>(N)?;
        first.memcpy_htod(&pinned, &mut x)?;
        let fork = first.fork()?;
        let y = fork.clone_dtod(&x)?;
        second.join(&fork)?;
        second.wait(&fork.record_event(None)?)?;
        second.memcpy_dtoh(&y, &mut pinned)?;
        // SAFETY: the function takes no argument.
        unsafe {
            result::stream::launch_host_function(second.cu_stream(), count, std::ptr::null_mut())
        }?;
        second.synchronize()?;
        require(CALLS.load(Ordering::SeqCst) == 1, "the host function was called")?;
        require(all(pinned.as_slice()?, |i| i), "what went through three streams")?;
        drop((x, y));

        // SAFETY: written before it is read.
        let mut managed = unsafe { context.alloc_unified::<f32>(N, true) }?;
        managed.as_mut_slice()?.copy_from_slice(&rows());
        managed.prefetch()?;
        let (scale, n) = (self.kernel("scale")?, N as u32);
        let stream = context.default_stream();
        // SAFETY: the kernel's parameters.
        unsafe { stream.launch_builder(&scale).arg(&mut managed).arg(&n).launch(config()) }?;
        stream.synchronize()?;
        require(all(managed.as_slice()?, |i| 0.5 * i), "managed memory")
    }

    fn graphs(&self) -> Outcome {
        let stream = self.context.new_stream()?;
        // SAFETY: one stream makes all accesses from here on.
        unsafe { self.context.disable_event_tracking() };
        let saxpy = self.kernel("saxpy")?;
        let (x, n) = (stream.clone_htod(&rows())?, N as u32);
        let mut y = stream.alloc_zeros::<f32>(N)?;
        stream.synchronize()?;
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        // SAFETY: the kernel's parameters, and both hold n numbers.
        unsafe {
            stream.launch_builder(&saxpy).arg(&2_f32).arg(&x).arg(&mut y).arg(&n).launch(config())
        }?;
        let active = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE;
        require(stream.capture_status()? == active, "capturing")?;
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags)?.ok_or("no graph")?;
        graph.upload()?;
        for _ in 0..3 {
            graph.launch()?;
        }
        require(all(&stream.clone_dtoh(&y)?, |i| 6.0 * i), "three launches")
    }

    /// A pool of memory, and calls that cudarc leaves as they are.
    fn pools(&self) -> Outcome {
        let stream = self.context.new_stream()?;
        let properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: self.context.cu_device(),
            },
            win32SecurityAttributes: std::ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut used = 0_u64;
        let mut back = [0_u8; 1000];
        // SAFETY: the pool and the memory live until they are given back here, and all pointers are valid.
        unsafe {
            let pool = result::mem_pool::create(&raw const properties)?;
            let memory = result::mem_pool::alloc_async(pool, 1000, stream.cu_stream())?;
            result::memset_d8_async(memory, 7, 1000, stream.cu_stream())?;
            result::memcpy_dtoh_async(&mut back, memory, stream.cu_stream())?;
            let current = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
            result::mem_pool::get_attribute(pool, current, (&raw mut used).cast())?;
            result::free_async(memory, stream.cu_stream())?;
            stream.synchronize()?;
            result::mem_pool::trim_to(pool, 0)?;
            result::mem_pool::destroy(pool)?;
        }
        require(back == [7; 1000] && used >= 1000, "a pool")?;
        // SAFETY: the memory lives until it is freed here.
        unsafe {
            let memory = result::malloc_sync(1000)?;
            result::memset_d8_sync(memory, 9, 1000)?;
            result::memcpy_dtoh_sync(&mut back, memory)?;
            result::free_sync(memory)?;
        }
        require(back == [9; 1000], "memory without a stream")?;
        Ok(result::ctx::synchronize()?)
    }

    /// Source to NVRTC and its PTX to the driver, as cudarc's users do.
    fn compiled(&self) -> Outcome {
        let source = r#"extern "C" __global__ void plus(int* x, int n) { x[threadIdx.x] += n; }"#;
        let module = self.context.load_module(compile_ptx(source)?)?;
        let plus = module.load_function("plus")?;
        let stream = self.context.default_stream();
        let mut x = stream.clone_htod(&(0..32).collect::<Vec<i32>>())?;
        // SAFETY: the kernel's parameters; one thread for each number.
        unsafe {
            stream.launch_builder(&plus).arg(&mut x).arg(&10).launch(LaunchConfig {
                grid_dim: (1, 1, 1),
                block_dim: (32, 1, 1),
                shared_mem_bytes: 0,
            })
        }?;
        let (address, _reading) = x.device_ptr(&stream);
        require(address != 0, "an address")?;
        require(stream.clone_dtoh(&x)? == (10..42).collect::<Vec<_>>(), "a kernel of NVRTC's")
    }
}

fn main() -> Outcome {
    let path = std::env::args().nth(1).ok_or("usage: foreign-cudarc kernels.ptx")?;
    let context = CudaContext::new(0)?;
    let module = context.load_module(Ptx::from_file(path))?;
    let program = Program { context, module };
    program.device()?;
    program.errors()?;
    program.launches()?;
    program.sums()?;
    program.streams()?;
    program.compiled()?;
    program.pools()?;
    program.graphs()?;
    program.context.synchronize()?;
    println!("all right");
    Ok(())
}

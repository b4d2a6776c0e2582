//! Memory of pools at other places than a device, in streams and graphs; captured allocations of nothing; and time that
//! passes while a kernel sleeps.

mod common;

use std::ptr;

use common::*;
use cuda_sys::*;

type Type = CUmemAllocationType;
type Location = CUmemLocationType;

const PINNED: Type = Type::CU_MEM_ALLOCATION_TYPE_PINNED;
const MANAGED: Type = Type::CU_MEM_ALLOCATION_TYPE_MANAGED;
const DEVICE: Location = Location::CU_MEM_LOCATION_TYPE_DEVICE;
const HOST: Location = Location::CU_MEM_LOCATION_TYPE_HOST;
const NUMA: Location = Location::CU_MEM_LOCATION_TYPE_HOST_NUMA;
const NONE: Location = Location::CU_MEM_LOCATION_TYPE_NONE;

fn location(type_: Location, id: i32) -> CUmemLocation {
    let mut location = CUmemLocation { type_, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

/// The default pool of a place, or the one in use.
fn pool(place: Location, id: i32, kind: Type, default: bool) -> Result<CUmemoryPool, CUresult> {
    let (mut place, mut pool) = (location(place, id), ptr::null_mut());
    let code = if default {
        call!(cuMemGetDefaultMemPool(&raw mut pool, &raw mut place, kind))
    } else {
        call!(cuMemGetMemPool(&raw mut pool, &raw mut place, kind))
    };
    if code == SUCCESS { Ok(pool) } else { Err(code) }
}

fn attribute(which: CUpointer_attribute, address: u64) -> u32 {
    let mut value = u32::MAX;
    ok!(cuPointerGetAttribute((&raw mut value).cast(), which, address));
    value
}

/// Memory of a pool in a stream's order: whether it is managed, and what the host finds there after a kernel.
fn used(pool: CUmemoryPool) -> (bool, [u32; 2]) {
    let (one, kernel) = (stream(1), function(module(), "fill"));
    let mut address = 0;
    ok!(cuMemAllocFromPoolAsync(&raw mut address, 64, pool, one));
    assert_eq!(fill(kernel, one, address, 2, 5), SUCCESS);
    ok!(cuStreamSynchronize(one));
    let managed = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != 0;
    // SAFETY: memory that the host may use, of 64 bytes, which no kernel uses now.
    let found = unsafe { (address as *const [u32; 2]).read() };
    let mut current = 0_u64;
    let which = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    ok!(cuMemPoolGetAttribute(pool, which, (&raw mut current).cast()));
    assert_eq!(current, 64);
    ok!(cuMemFreeAsync(address, one));
    ok!(cuStreamSynchronize(one));
    ok!(cuMemPoolGetAttribute(pool, which, (&raw mut current).cast()));
    assert_eq!(current, 0);
    (managed, found)
}

#[test]
fn each_place_has_a_default_pool() {
    apart!(each_place_has_a_default_pool);
    context();
    let places = [
        (DEVICE, PINNED),
        (HOST, PINNED),
        (NUMA, PINNED),
        (DEVICE, MANAGED),
        (HOST, MANAGED),
        (NUMA, MANAGED),
        (NONE, MANAGED),
    ];
    let mut seen = Vec::new();
    for (place, kind) in places {
        let default = pool(place, 0, kind, true).expect("a pool");
        assert!(!seen.contains(&default), "{place:?} {kind:?}");
        seen.push(default);
        assert_eq!(pool(place, 0, kind, false), Ok(default));
        fails!(CUDA_ERROR_NOT_PERMITTED, cuMemPoolDestroy(default));
        if (place, kind) != (DEVICE, PINNED) {
            assert_eq!(used(default), (kind == MANAGED, [5; 2]), "{place:?} {kind:?}");
        }
        let mut told = CUmemLocationType(99);
        let which = CUmemPool_attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE;
        ok!(cuMemPoolGetAttribute(default, which, (&raw mut told).cast()));
        assert_eq!(told, place);
    }
    let mut of_device = ptr::null_mut();
    ok!(cuDeviceGetDefaultMemPool(&raw mut of_device, 0));
    assert_eq!(of_device, seen[0]);
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(pool(NONE, 0, PINNED, true), invalid);
    assert_eq!(pool(NUMA, 7, PINNED, true), invalid);
    assert_eq!(pool(CUmemLocationType(5), 0, MANAGED, true), invalid);
    assert_eq!(pool(DEVICE, 0, CUmemAllocationType(7), true), invalid);
    let absent = Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
    assert_eq!(pool(DEVICE, 9, MANAGED, true), absent);
}

#[test]
fn a_managed_pool_can_be_the_one_in_use() {
    apart!(a_managed_pool_can_be_the_one_in_use);
    context();
    let properties = CUmemPoolProps {
        allocType: MANAGED,
        location: location(DEVICE, 0),
        ..CUmemPoolProps::default()
    };
    let mut new = ptr::null_mut();
    ok!(cuMemPoolCreate(&raw mut new, &raw const properties));
    assert_eq!(used(new), (true, [5; 2]));
    let (mut here, mut elsewhere) = (location(DEVICE, 0), location(NONE, 0));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemSetMemPool(&raw mut here, PINNED, new));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemSetMemPool(&raw mut elsewhere, MANAGED, new));
    ok!(cuMemSetMemPool(&raw mut here, MANAGED, new));
    assert_eq!(pool(DEVICE, 0, MANAGED, false), Ok(new));
    let default = pool(DEVICE, 0, MANAGED, true).expect("a pool");
    assert_ne!(default, new);
    ok!(cuMemPoolDestroy(new));
    assert_eq!(pool(DEVICE, 0, MANAGED, false), Ok(default));
    // All devices and the host can use managed memory.
    let mut flags = CUmemAccess_flags(9);
    ok!(cuMemPoolGetAccess(&raw mut flags, default, &raw mut here));
    assert_eq!(flags, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

#[test]
fn graphs_have_managed_memory() {
    apart!(graphs_have_managed_memory);
    context();
    let (one, kernel) = (stream(1), function(module(), "fill"));
    let mut graph = ptr::null_mut();
    ok!(cuGraphCreate(&raw mut graph, 0));
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: CUmemPoolProps {
            allocType: MANAGED,
            location: location(DEVICE, 0),
            ..CUmemPoolProps::default()
        },
        bytesize: 32,
        ..CUDA_MEM_ALLOC_NODE_PARAMS::default()
    };
    let mut node = ptr::null_mut();
    ok!(cuGraphAddMemAllocNode(&raw mut node, graph, ptr::null(), 0, &raw mut params));
    let mut told = CUDA_MEM_ALLOC_NODE_PARAMS::default();
    ok!(cuGraphMemAllocNodeGetParams(node, &raw mut told));
    assert_eq!((told.poolProps.allocType, told.bytesize, told.dptr), (MANAGED, 32, params.dptr));
    run(instantiate(graph), one);
    assert_eq!(fill(kernel, one, params.dptr, 3, 8), SUCCESS);
    ok!(cuStreamSynchronize(one));
    // SAFETY: managed memory of 32 bytes, which no kernel uses now.
    assert_eq!(unsafe { (params.dptr as *const [u32; 3]).read() }, [8; 3]);
    assert_eq!(attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, params.dptr), 1);
    ok!(cuMemFreeAsync(params.dptr, one));
    ok!(cuStreamSynchronize(one));
    params.poolProps.location = location(HOST, 0);
    params.poolProps.allocType = PINNED;
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphAddMemAllocNode(&raw mut node, graph, ptr::null(), 0, &raw mut params)
    );
}

#[test]
fn a_capture_may_allocate_nothing() {
    apart!(a_capture_may_allocate_nothing);
    context();
    let one = stream(1);
    let mut address = 0;
    ok!(cuMemAllocAsync(&raw mut address, 0, one));
    assert_eq!(address, 0);
    begin(one);
    address = 1;
    ok!(cuMemAllocAsync(&raw mut address, 0, one));
    assert_eq!(address, 0);
    ok!(cuMemFreeAsync(address, one));
    let graph = end(one);
    let exec = instantiate(graph);
    run(exec, one);
    run(exec, one);
}

#[test]
fn a_kernel_that_sleeps_takes_time() {
    apart!(a_kernel_that_sleeps_takes_time);
    context();
    let text = ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry doze(.param .u32 times, .param .u32 nanoseconds)
{
    .reg .pred %p<2>; .reg .u32 %r<4>;
    ld.param.u32 %r1, [times]; ld.param.u32 %r2, [nanoseconds];
    mov.u32 %r3, 0;
again:
    nanosleep.u32 %r2;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra again;
    ret;
}";
    let (one, kernel) = (stream(1), function(load(text), "doze"));
    let taken = |blocks, mut times: u32, mut nanoseconds: u32| {
        let (start, stop) = (event(), event());
        let mut arguments = [(&raw mut times).cast(), (&raw mut nanoseconds).cast()];
        ok!(cuEventRecord(start, one));
        let list = arguments.as_mut_ptr();
        ok!(cuLaunchKernel(kernel, blocks, 1, 1, 64, 1, 1, 0, one, list, ptr::null_mut()));
        ok!(cuEventRecord(stop, one));
        ok!(cuStreamSynchronize(one));
        let mut milliseconds = 0.0;
        ok!(cuEventElapsedTime(&raw mut milliseconds, start, stop));
        milliseconds
    };
    for blocks in [1, 40] {
        let slept = taken(blocks, 10, 1_000_000);
        // Blocks and warps sleep at the same time: one after the other they would take 800 ms.
        assert!((10.0..400.0).contains(&slept), "{blocks} blocks: {slept} ms");
    }
    // A thread sleeps for a millisecond at most.
    assert!((1.0..900.0).contains(&taken(1, 1, u32::MAX)));
}

#[test]
fn memory_of_a_host_pool_is_the_pools() {
    apart!(memory_of_a_host_pool_is_the_pools);
    context();
    let (pool, one) = (pool(HOST, 0, PINNED, true).expect("a pool"), stream(1));
    let mut threshold = u64::MAX;
    let which = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    ok!(cuMemPoolSetAttribute(pool, which, (&raw mut threshold).cast()));
    let free = || {
        let mut free = 0;
        ok!(cuMemGetInfo_v2(&raw mut free, ptr::null_mut()));
        free
    };
    let before = free();
    let mut address = 0;
    ok!(cuMemAllocFromPoolAsync(&raw mut address, 1 << 20, pool, one));
    ok!(cuStreamSynchronize(one));
    assert_eq!(free(), before);
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(address as *mut _));
    ok!(cuMemFree_v2(address));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
    let mut current = u64::MAX;
    let which = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    ok!(cuMemPoolGetAttribute(pool, which, (&raw mut current).cast()));
    assert_eq!(current, 0);
    // What the pool keeps is memory of the host.
    assert_eq!(free(), before);
    // Other memory of the host is no pool's.
    let mut pinned = ptr::null_mut();
    ok!(cuMemAllocHost_v2(&raw mut pinned, 64));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(pinned as u64));
    ok!(cuMemFreeHost(pinned));
}

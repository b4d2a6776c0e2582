//! Contexts, their attributes, and launches with attributes. Each test has a process of its own.

mod common;

mod contexts {
    //! Ids of contexts, and what the context that is current decides though a call names a stream.
    //!
    //! Each test is a process of its own: two devices, and contexts that are reset.

    use std::process::Command;
    use std::ptr;

    use cuda_sys::*;

    use crate::common::*;

    /// The child that a test of this file starts runs `body`; its failures are the test's.
    fn in_child(name: &'static str, body: fn()) {
        if std::env::var_os("EMU_TEST_CHILD").is_some_and(|child| child == *name) {
            return body();
        }
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", name, "--nocapture"])
            .env("EMU_TEST_CHILD", name)
            .env("CUDA_EMU_DEVICES", "2")
            .output()
            .expect("it runs");
        let (text, report) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}{report}");
    }

    /// The primary context of a device, retained once more, and its id.
    fn retain(device: CUdevice) -> (CUcontext, u64) {
        let (mut context, mut id) = (ptr::null_mut(), 0);
        ok!(cuDevicePrimaryCtxRetain(&raw mut context, device));
        ok!(cuCtxGetId(context, &raw mut id));
        (context, id)
    }

    #[test]
    fn ids_name_one_context_for_ever() {
        crate::common::apart!(ids_name_one_context_for_ever);
        in_child("ids_name_one_context_for_ever", || {
            ok!(cuInit(0));
            let mut seen = Vec::new();
            let mut note = |id: u64| {
                assert!(!seen.contains(&id), "{id} of {seen:?}");
                seen.push(id);
            };
            let (first, id) = retain(0);
            note(id);
            note(retain(1).1);
            assert_eq!(retain(0), (first, id), "retained twice it is one context");
            ok!(cuDevicePrimaryCtxRelease_v2(0));
            assert_eq!(retain(0).1, id, "it is alive");
            // Destroyed by a reset, and by the last release; each time it is made anew.
            ok!(cuDevicePrimaryCtxReset_v2(0));
            note(retain(0).1);
            while call!(cuDevicePrimaryCtxRelease_v2(0)) == SUCCESS {}
            note(retain(0).1);
            for _ in 0..2 {
                let (mut made, mut id) = (ptr::null_mut(), 0);
                ok!(cuCtxCreate_v2(&raw mut made, 0, 0));
                ok!(cuCtxGetId(ptr::null_mut(), &raw mut id));
                note(id);
                ok!(cuCtxDestroy_v2(made));
            }
        });
    }

    const BYTES: usize = 64;

    /// The copies in a stream's order, each with its code: to and from pageable memory, and within
    /// the memory at `device`.
    fn copies(device: u64, stream: CUstream) -> [(&'static str, CUresult); 7] {
        let host = &raw mut *Box::leak(Box::new([7_u8; BYTES]));
        let bytes = BYTES / 2;
        let upper = device + bytes as u64;
        let shape = CUDA_MEMCPY3D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: device,
            srcPitch: 8,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: upper,
            dstPitch: 8,
            WidthInBytes: 4,
            Height: 2,
            Depth: 1,
            ..CUDA_MEMCPY3D::default()
        };
        let plane = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: device,
            srcPitch: 8,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: host.cast(),
            dstPitch: 8,
            WidthInBytes: 4,
            Height: 2,
            ..CUDA_MEMCPY2D::default()
        };
        let unified = host as u64;
        [
            ("HtoD", call!(cuMemcpyHtoDAsync_v2(device, host.cast(), bytes, stream))),
            ("DtoH", call!(cuMemcpyDtoHAsync_v2(host.cast(), device, bytes, stream))),
            ("DtoD", call!(cuMemcpyDtoDAsync_v2(upper, device, bytes, stream))),
            ("to", call!(cuMemcpyAsync(device, unified, bytes, stream))),
            ("from", call!(cuMemcpyAsync(unified, device, bytes, stream))),
            ("3D", call!(cuMemcpy3DAsync_v2(&raw const shape, stream))),
            ("2D", call!(cuMemcpy2DAsync_v2(&raw const plane, stream))),
        ]
    }

    #[test]
    fn copies_of_pool_memory_ask_the_current_context() {
        crate::common::apart!(copies_of_pool_memory_ask_the_current_context);
        in_child("copies_of_pool_memory_ask_the_current_context", || {
            ok!(cuInit(0));
            let contexts = [retain(0).0, retain(1).0];
            for (near, far) in [(0, 1), (1, 0)] {
                let (own, other) = (contexts[near], contexts[far]);
                ok!(cuCtxSetCurrent(own));
                let (stream, plain) = (stream(1), allocate(BYTES));
                let (mut pooled, mut theirs) = (0, 0);
                ok!(cuMemAllocAsync(&raw mut pooled, BYTES, stream));
                let kernel = function(module(), "fill");
                let event = event();

                ok!(cuCtxSetCurrent(other));
                ok!(cuMemAlloc_v2(&raw mut theirs, BYTES));
                for (what, code) in copies(pooled, stream) {
                    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE, "device {near}: {what}");
                }
                for (what, code) in copies(plain, stream) {
                    assert_eq!(code, SUCCESS, "device {near}, cuMemAlloc: {what}");
                }
                // What names its contexts, and what is no copy.
                ok!(cuMemcpyPeerAsync(theirs, other, pooled, own, BYTES, stream));
                ok!(cuMemsetD8Async(pooled, 1, BYTES, stream));
                assert_eq!(fill(kernel, stream, pooled, 4, 3), SUCCESS);
                ok!(cuEventRecord(event, stream));
                let mut more = 0;
                ok!(cuMemAllocAsync(&raw mut more, BYTES, stream));
                ok!(cuMemFreeAsync(more, stream));
                ok!(cuStreamSynchronize(stream));

                // With none, its own, or another one of the same device.
                let mut second = ptr::null_mut();
                ok!(cuCtxCreate_v2(&raw mut second, 0, near as CUdevice));
                ok!(cuCtxPopCurrent_v2(&raw mut second));
                for current in [ptr::null_mut(), own, second] {
                    ok!(cuCtxSetCurrent(current));
                    for (what, code) in copies(pooled, stream) {
                        assert_eq!(code, SUCCESS, "device {near}: {what}");
                    }
                }
                // With access for the other device.
                let mut pool = ptr::null_mut();
                ok!(cuDeviceGetDefaultMemPool(&raw mut pool, near as CUdevice));
                let mut access = CUmemAccessDesc::default();
                access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
                access.location.__bindgen_anon_1.id = far as CUdevice;
                access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
                ok!(cuCtxSetCurrent(other));
                for (what, code) in copies(pooled, stream) {
                    assert_eq!(code, SUCCESS, "device {near}, with access: {what}");
                }
                ok!(cuStreamSynchronize(stream));
            }
        });
    }
}

mod whole_context {
    //! Events over all work of a context, and queries of the legacy stream beside captures.

    use core::ptr;

    use cuda_sys::*;

    use crate::common::*;

    /// The legacy stream of the current context.
    const LEGACY: CUstream = CU_STREAM_LEGACY;

    fn current() -> CUcontext {
        let mut context = ptr::null_mut();
        ok!(cuCtxGetCurrent(&raw mut context));
        context
    }

    #[test]
    fn an_event_of_a_context_covers_all_its_streams() {
        crate::common::apart!(an_event_of_a_context_covers_all_its_streams);
        context();
        let (first, second, target, done) = (stream(1), stream(1), allocate(64), event());
        ok!(cuMemsetD32Async(target, 3, 4, first));
        ok!(cuMemsetD32Async(target + 16, 4, 4, second));
        ok!(cuCtxRecordEvent(current(), done));
        ok!(cuEventSynchronize(done));
        assert_eq!(words(target, 8), [3, 3, 3, 3, 4, 4, 4, 4]);
    }

    #[test]
    fn later_work_of_a_context_waits_for_an_event() {
        crate::common::apart!(later_work_of_a_context_waits_for_an_event);
        context();
        let (first, second, target, done) = (stream(1), stream(1), allocate(64), event());
        ok!(cuMemsetD32Async(target, 3, 4, first));
        ok!(cuEventRecord(done, first));
        ok!(cuCtxWaitEvent(current(), done));
        ok!(cuMemcpyDtoDAsync_v2(target + 16, target, 16, second));
        // A stream that is made afterwards waits, too.
        let third = stream(1);
        ok!(cuMemcpyDtoDAsync_v2(target + 32, target, 16, third));
        ok!(cuStreamSynchronize(second));
        ok!(cuStreamSynchronize(third));
        assert_eq!(words(target, 12), [3; 12]);
        // An event that was never recorded is nothing to wait for.
        ok!(cuCtxWaitEvent(current(), event()));
        ok!(cuStreamSynchronize(stream(1)));
    }

    #[test]
    fn a_capture_forbids_events_of_its_context() {
        crate::common::apart!(a_capture_forbids_events_of_its_context);
        context();
        for wait in [false, true] {
            let (captured, done) = (stream(1), event());
            begin(captured);
            let code = match wait {
                false => call!(cuCtxRecordEvent(current(), done)),
                true => call!(cuCtxWaitEvent(current(), done)),
            };
            assert_eq!(code, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            let mut graph = ptr::null_mut();
            let ended = call!(cuStreamEndCapture(captured, &raw mut graph));
            assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
    }

    #[test]
    fn queries_of_the_legacy_stream_leave_captures_of_blocking_streams_alone() {
        crate::common::apart!(
            queries_of_the_legacy_stream_leave_captures_of_blocking_streams_alone
        );
        context();
        let blocking = stream(0);
        begin(blocking);
        let mut status = CUstreamCaptureStatus(9);
        let implicit = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        assert_eq!(call!(cuStreamIsCapturing(LEGACY, &raw mut status)), implicit);
        let mut id = 0;
        assert_eq!(call!(cuStreamGetCaptureInfo(LEGACY, &raw mut status, &raw mut id)), implicit);
        ok!(cuStreamIsCapturing(blocking, &raw mut status));
        assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        // Work there spoils it.
        assert_eq!(call!(cuMemsetD32Async(allocate(4), 0, 1, LEGACY)), implicit);
        ok!(cuStreamIsCapturing(blocking, &raw mut status));
        assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        let mut graph = ptr::null_mut();
        let ended = call!(cuStreamEndCapture(blocking, &raw mut graph));
        assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

mod attributes {
    //! Attributes of devices and functions.

    use core::ffi::c_int;
    use std::ffi::CString;
    use std::ptr;

    use cuda_sys::{
        CUdevice_attribute as A, CUfunction_attribute as F, CUkernel, CUlibrary, CUresult,
    };

    use crate::common::*;

    fn device_attribute(which: u32) -> (CUresult, c_int) {
        let mut value = -77;
        let code = call!(cuDeviceGetAttribute(&raw mut value, A(which), 0));
        (code, value)
    }

    /// The newest attribute of CUDA 13.0 (`cuda.h`): `CU_DEVICE_ATTRIBUTE_MAX` is one more.
    const LAST: u32 = A::CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED.0;

    #[test]
    fn each_attribute_of_cuda_13_0_has_a_value_and_no_other_number() {
        crate::common::apart!(each_attribute_of_cuda_13_0_has_a_value_and_no_other_number);
        context();
        for which in 1..=LAST {
            let (code, value) = device_attribute(which);
            assert_eq!(code, SUCCESS, "attribute {which}");
            assert_ne!(value, -77, "attribute {which}");
        }
        for which in [0, LAST + 1, A::CU_DEVICE_ATTRIBUTE_MAX.0, 1000, u32::MAX] {
            assert_eq!(device_attribute(which).0, CUresult::CUDA_ERROR_INVALID_VALUE, "{which}");
        }
    }

    #[test]
    fn pageable_memory_is_not_reached_by_the_hosts_page_tables() {
        crate::common::apart!(pageable_memory_is_not_reached_by_the_hosts_page_tables);
        context();
        let which = A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
        assert_eq!(which.0, 100);
        assert_eq!(device_attribute(which.0), (SUCCESS, 0));
        // As a GPU on the PCI bus: it cannot reach pageable memory at all.
        assert_eq!(device_attribute(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS.0), (SUCCESS, 0));
    }

    fn text(target: &str) -> String {
        format!(
            ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
        )
    }

    #[test]
    fn a_function_has_the_versions_of_its_text_and_of_the_device() {
        crate::common::apart!(a_function_has_the_versions_of_its_text_and_of_the_device);
        context();
        let of_device = device_attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR.0).1 * 10
            + device_attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR.0).1;
        for (target, version) in [
            ("sm_50", 50),
            ("sm_75", 75),
            ("sm_80", 80),
            ("sm_89", 89),
            ("sm_90", 90),
            ("sm_90a", 90),
        ] {
            let function = function(load(&text(target)), "k");
            let of = |which| {
                let mut value = -1;
                ok!(cuFuncGetAttribute(&raw mut value, which, function));
                value
            };
            assert_eq!(of(F::CU_FUNC_ATTRIBUTE_PTX_VERSION), version, "{target}");
            assert_eq!(of(F::CU_FUNC_ATTRIBUTE_BINARY_VERSION), of_device, "{target}");

            let image = CString::new(text(target)).expect("no NUL");
            let (mut library, mut kernel): (CUlibrary, CUkernel) =
                (ptr::null_mut(), ptr::null_mut());
            let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
            ok!(cuLibraryLoadData(
                &raw mut library,
                image.as_ptr().cast(),
                none,
                nothing,
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                0
            ));
            ok!(cuLibraryGetKernel(&raw mut kernel, library, c"k".as_ptr()));
            let mut value = -1;
            ok!(cuKernelGetAttribute(&raw mut value, F::CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel, 0));
            assert_eq!(value, version, "{target}");
            ok!(cuLibraryUnload(library));
        }
    }
}

mod launch_ex {
    //! Extended launches, and what their attributes may be.

    use std::ptr;

    use cuda_sys::*;

    use crate::common::*;

    type Value = CUlaunchAttributeValue;
    type Id = CUlaunchAttributeID;

    fn attribute(id: Id, value: Value) -> CUlaunchAttribute {
        CUlaunchAttribute { id, value, ..CUlaunchAttribute::default() }
    }

    fn cluster(x: u32) -> CUlaunchAttribute {
        let size = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y: 1, z: 1 };
        attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, Value { clusterDim: size })
    }

    fn config(stream: CUstream, list: &mut [CUlaunchAttribute]) -> CUlaunchConfig {
        CUlaunchConfig {
            gridDimX: 2,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream,
            attrs: list.as_mut_ptr(),
            numAttrs: list.len() as u32,
        }
    }

    #[test]
    fn attributes_are_taken() {
        crate::common::apart!(attributes_are_taken);
        context();
        let (one, kernel) = (stream(1), function(module(), "nothing"));
        let mut list = [
            attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, Value { cooperative: 1 }),
            attribute(Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, Value { priority: -2 }),
            attribute(
                Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                Value { programmaticStreamSerializationAllowed: 1 },
            ),
            cluster(1),
        ];
        let launch = config(one, &mut list);
        begin(one);
        ok!(cuLaunchKernelEx(&raw const launch, kernel, ptr::null_mut(), ptr::null_mut()));
        let graph = end(one);
        let mut value = Value::default();
        let node = nodes(graph)[0];
        ok!(cuGraphKernelNodeGetAttribute(node, Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, &raw mut value));
        // SAFETY: the driver has set this part.
        assert_eq!(unsafe { value.priority }, -2);
        ok!(cuGraphKernelNodeGetAttribute(
            node,
            Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            &raw mut value
        ));
        // SAFETY: as above.
        assert_eq!(unsafe { value.cooperative }, 1);
        run(instantiate(graph), one);

        let mut clusters = 0;
        ok!(cuOccupancyMaxActiveClusters(&raw mut clusters, kernel, &raw const launch));
        assert!(clusters >= 132, "{clusters}");
    }
}

//! The signatures of the functions are those of the header, and SUPPORT.md has their names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use cudart::bindings::runtime::{RUNTIME_SYMBOLS, signatures};

/// Compares the types of functions with the header's, at compile time, and returns their names.
macro_rules! compared {
    ($($module:ident: $($name:ident)*;)*) => {
        &[$($({
            const _: signatures::$name = cudart::$module::$name;
            stringify!($name)
        }),*),*]
    };
}

const COMPARED: &[&str] = compared! {
    array: cudaMallocArray cudaMalloc3DArray cudaMallocMipmappedArray cudaGetMipmappedArrayLevel cudaFreeMipmappedArray cudaFreeArray cudaArrayGetInfo cudaGetChannelDesc cudaCreateChannelDesc;
    copy: cudaMemcpy cudaMemcpyAsync cudaMemcpyPeer cudaMemcpyPeerAsync cudaMemcpyToSymbol cudaMemcpyToSymbolAsync cudaMemcpyFromSymbol cudaMemcpyFromSymbolAsync cudaMemcpy2D cudaMemcpy2DAsync cudaMemcpy2DToArray cudaMemcpy2DToArrayAsync cudaMemcpy2DFromArray cudaMemcpy2DFromArrayAsync cudaMemcpy2DArrayToArray cudaMemcpy3D cudaMemcpy3DAsync cudaMemcpy3DPeer cudaMemcpy3DPeerAsync cudaMemset cudaMemsetAsync cudaMemset2D cudaMemset2DAsync cudaMemset3D cudaMemset3DAsync;
    device: cudaGetDeviceCount cudaGetDevice cudaSetDevice cudaInitDevice cudaSetValidDevices cudaSetDeviceFlags cudaGetDeviceFlags cudaDeviceSynchronize cudaDeviceGetAttribute cudaDeviceGetLimit cudaDeviceSetLimit cudaDeviceGetCacheConfig cudaDeviceSetCacheConfig cudaDeviceGetSharedMemConfig cudaDeviceSetSharedMemConfig cudaCtxResetPersistingL2Cache cudaDeviceGetStreamPriorityRange cudaDeviceGetByPCIBusId cudaDeviceGetPCIBusId cudaDeviceCanAccessPeer cudaDeviceEnablePeerAccess cudaDeviceDisablePeerAccess cudaDeviceGetP2PAttribute cudaDriverGetVersion cudaGetDriverEntryPointByVersion;
    error: cudaGetLastError cudaPeekAtLastError cudaGetErrorName cudaGetErrorString;
    function: cudaFuncGetAttributes cudaFuncSetAttribute cudaFuncSetCacheConfig cudaFuncSetSharedMemConfig cudaFuncGetName cudaFuncGetParamInfo cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyAvailableDynamicSMemPerBlock cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryUnload cudaLibraryGetKernel cudaLibraryGetGlobal cudaLibraryGetManaged cudaLibraryGetUnifiedFunction cudaLibraryGetKernelCount cudaLibraryEnumerateKernels;
    graph: cudaGraphCreate cudaGraphDestroy cudaGraphClone cudaGraphDestroyNode cudaGraphNodeFindInClone cudaGraphNodeGetType cudaGraphGetNodes cudaGraphGetRootNodes cudaGraphDebugDotPrint cudaGraphAddEmptyNode cudaGraphAddChildGraphNode cudaGraphChildGraphNodeGetGraph cudaGraphAddHostNode cudaGraphHostNodeGetParams cudaGraphHostNodeSetParams cudaGraphExecHostNodeSetParams cudaGraphAddEventRecordNode cudaGraphAddEventWaitNode cudaGraphEventRecordNodeGetEvent cudaGraphEventRecordNodeSetEvent cudaGraphEventWaitNodeGetEvent cudaGraphEventWaitNodeSetEvent cudaGraphExecEventRecordNodeSetEvent cudaGraphExecEventWaitNodeSetEvent cudaGraphExecChildGraphNodeSetParams cudaGraphAddMemAllocNode cudaGraphMemAllocNodeGetParams cudaGraphAddMemFreeNode cudaGraphMemFreeNodeGetParams cudaGraphKernelNodeCopyAttributes cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeSetAttribute cudaGraphInstantiateWithFlags cudaGraphInstantiate cudaGraphInstantiateWithParams cudaGraphExecDestroy cudaGraphExecGetFlags cudaGraphExecUpdate cudaGraphLaunch cudaGraphUpload cudaGraphNodeGetEnabled cudaGraphNodeSetEnabled cudaGraphConditionalHandleCreate cudaUserObjectCreate cudaUserObjectRetain cudaUserObjectRelease cudaGraphRetainUserObject cudaGraphReleaseUserObject;
    graph_params: cudaGraphAddKernelNode cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetParams cudaGraphExecKernelNodeSetParams cudaGraphAddMemcpyNode cudaGraphAddMemcpyNode1D cudaGraphAddMemcpyNodeToSymbol cudaGraphAddMemcpyNodeFromSymbol cudaGraphMemcpyNodeGetParams cudaGraphMemcpyNodeSetParams cudaGraphMemcpyNodeSetParams1D cudaGraphMemcpyNodeSetParamsToSymbol cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemcpyNodeSetParams1D cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecMemcpyNodeSetParamsFromSymbol cudaGraphAddMemsetNode cudaGraphMemsetNodeGetParams cudaGraphMemsetNodeSetParams cudaGraphExecMemsetNodeSetParams cudaGraphNodeSetParams cudaGraphExecNodeSetParams;
    ipc: cudaIpcGetEventHandle cudaIpcOpenEventHandle cudaIpcGetMemHandle cudaIpcOpenMemHandle cudaIpcCloseMemHandle;
    launch: cudaLaunchKernel cudaLaunchCooperativeKernel cudaLaunchKernelExC cudaLaunchHostFunc cudaGetKernel cudaGetFuncBySymbol;
    linear: cudaMemcpyToArray cudaMemcpyToArrayAsync cudaMemcpyFromArray cudaMemcpyFromArrayAsync cudaMemcpyArrayToArray;
    memory: cudaMalloc cudaFree cudaMallocHost cudaHostAlloc cudaFreeHost cudaHostRegister cudaHostUnregister cudaHostGetDevicePointer cudaHostGetFlags cudaMallocManaged cudaMallocPitch cudaMalloc3D cudaMemGetInfo cudaPointerGetAttributes cudaGetSymbolAddress cudaGetSymbolSize cudaMemRangeGetAttribute cudaMemRangeGetAttributes cudaStreamAttachMemAsync cudaDeviceReset;
    pool: cudaMallocAsync cudaFreeAsync cudaMallocFromPoolAsync cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool cudaDeviceSetMemPool cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolTrimTo cudaMemPoolSetAttribute cudaMemPoolGetAttribute cudaMemPoolSetAccess cudaMemPoolGetAccess cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle cudaMemPoolExportPointer cudaMemPoolImportPointer cudaDeviceGraphMemTrim cudaDeviceGetGraphMemAttribute cudaDeviceSetGraphMemAttribute;
    stream: cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamSynchronize cudaStreamQuery cudaStreamWaitEvent cudaStreamAddCallback cudaStreamGetPriority cudaStreamGetFlags cudaStreamGetId cudaStreamGetDevice cudaStreamCopyAttributes cudaStreamGetAttribute cudaStreamSetAttribute cudaStreamBeginCapture cudaStreamBeginCaptureToGraph cudaStreamEndCapture cudaStreamIsCapturing cudaThreadExchangeStreamCaptureMode cudaEventCreate cudaEventCreateWithFlags cudaEventDestroy cudaEventRecord cudaEventRecordWithFlags cudaEventSynchronize cudaEventQuery cudaEventElapsedTime;
    texture: cudaGetTextureObjectResourceDesc cudaGetTextureObjectResourceViewDesc cudaGetTextureObjectTextureDesc cudaGetSurfaceObjectResourceDesc cudaCreateTextureObject cudaDestroyTextureObject cudaCreateSurfaceObject cudaDestroySurfaceObject;
};

/// Returns the names in a call of `refused!`.
fn refused(path: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let names = text.split_once("cudart::refused! {").unwrap().1;
    names.trim_end_matches(['}', '\n']).split_whitespace().map(str::to_owned).collect()
}

/// Returns the names of the functions that a file defines.
fn defined(path: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut names = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")) {
        let head = line.split(['(', '[']).next().unwrap();
        let of_api = head.split(", ").map(str::trim).filter(|name| name.starts_with("cuda"));
        names.extend(of_api.map(str::to_owned));
    }
    names
}

#[test]
fn every_function_of_the_header_is_compared() {
    let tables = cudart::TABLES.iter().filter(|(title, _)| *title != "Not supported");
    let ours = tables.flat_map(|(_, names)| *names).copied();
    let of_header: BTreeSet<&str> = ours.filter(|name| RUNTIME_SYMBOLS.contains(name)).collect();
    assert_eq!(of_header, COMPARED.iter().copied().collect());
}

fn list(text: &mut String, title: &str, names: &BTreeSet<String>) {
    let _ = write!(text, "\n## {title}\n\n| | | |\n|---|---|---|\n");
    for row in names.iter().collect::<Vec<_>>().chunks(3) {
        let cells: Vec<String> = row.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

#[test]
fn support_is_what_there_is() {
    let mut text = String::from(
        "# What the library supports\n\n\
         Generated by a test of this crate; `CUDART_BLESS=1` makes it write this file again. The functions under *Not supported* \
         return `cudaErrorNotSupported` (801). On the software device some others return that too: those whose functions of \
         the driver it lacks ([its list](../cuda-emu/SUPPORT.md)).\n",
    );
    let mut done: Vec<&str> = Vec::new();
    for (title, _) in cudart::TABLES.iter().filter(|(title, _)| *title != "Not supported") {
        if !done.contains(title) {
            done.push(title);
            let of_title = cudart::TABLES.iter().filter(|(other, _)| other == title);
            list(
                &mut text,
                title,
                &of_title.flat_map(|(_, n)| *n).map(|&n| n.to_owned()).collect(),
            );
        }
    }
    list(
        &mut text,
        "In libcudart.so.13 alone, or with another ABI than in 12",
        &defined("v13/src/lib.rs"),
    );
    list(
        &mut text,
        "In libcudart.so.12 alone, or with another ABI than in 13",
        &defined("v12/src/lib.rs"),
    );
    let none = cudart::TABLES.iter().filter(|(title, _)| *title == "Not supported");
    list(&mut text, "Not supported", &none.flat_map(|(_, n)| *n).map(|&n| n.to_owned()).collect());
    list(&mut text, "Not supported, in libcudart.so.13", &refused("v13/src/unsupported.rs"));
    list(&mut text, "Not supported, in libcudart.so.12", &refused("v12/src/unsupported.rs"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("SUPPORT.md");
    if std::env::var_os("CUDART_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "CUDART_BLESS=1 writes it again");
}

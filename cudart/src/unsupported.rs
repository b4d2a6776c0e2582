//! The functions of NVIDIA's library that this one does not have. Each has an address, and returns 801.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::bindings::runtime::{cudaError, cudaError_t};
use crate::call::{CudaResult, guard};

/// Returns 801. The first call of each function says so.
pub fn refuse(name: &'static str) -> cudaError_t {
    guard(|| said(name))
}

fn said(name: &'static str) -> CudaResult {
    static SAID: Mutex<Option<HashSet<&str>>> = Mutex::new(None);
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.get_or_insert_default().insert(name) {
        eprintln!("cudart: {name} is not supported: it returns cudaErrorNotSupported (801)");
    }
    Err(cudaError::cudaErrorNotSupported)
}

/// Defines functions that return 801. A caller passes arguments that they ignore, as the C ABI allows.
#[macro_export]
#[doc(hidden)]
macro_rules! refused {
    ($($name:ident)*) => {
        $(
            /// Returns 801.
            ///
            /// # Safety
            /// None: no argument is read.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the header's names")]
            pub unsafe extern "C" fn $name() -> $crate::bindings::runtime::cudaError_t {
                $crate::refuse(stringify!($name))
            }
        )*
        /// The names of the functions of this file.
        pub const TABLE: &[&str] = &[$(stringify!($name)),*];
    };
}

crate::refused! {
    __cudaRegisterHostVar
    __cudaRegisterUnifiedTable
    cudaArrayGetMemoryRequirements
    cudaArrayGetPlane
    cudaArrayGetSparseProperties
    cudaChooseDevice
    cudaDestroyExternalMemory
    cudaDestroyExternalSemaphore
    cudaDeviceFlushGPUDirectRDMAWrites
    cudaDeviceGetNvSciSyncAttributes
    cudaDeviceGetTexture1DLinearMaxWidth
    cudaDeviceRegisterAsyncNotification
    cudaDeviceUnregisterAsyncNotification
    cudaEGLStreamConsumerAcquireFrame
    cudaEGLStreamConsumerConnect
    cudaEGLStreamConsumerConnectWithFlags
    cudaEGLStreamConsumerDisconnect
    cudaEGLStreamConsumerReleaseFrame
    cudaEGLStreamProducerConnect
    cudaEGLStreamProducerDisconnect
    cudaEGLStreamProducerPresentFrame
    cudaEGLStreamProducerReturnFrame
    cudaEventCreateFromEGLSync
    cudaExternalMemoryGetMappedBuffer
    cudaExternalMemoryGetMappedMipmappedArray
    cudaGLGetDevices
    cudaGLMapBufferObject
    cudaGLMapBufferObjectAsync
    cudaGLRegisterBufferObject
    cudaGLSetBufferObjectMapFlags
    cudaGLSetGLDevice
    cudaGLUnmapBufferObject
    cudaGLUnmapBufferObjectAsync
    cudaGLUnregisterBufferObject
    cudaGetExportTable
    cudaGraphAddExternalSemaphoresSignalNode
    cudaGraphAddExternalSemaphoresWaitNode
    cudaGraphExecExternalSemaphoresSignalNodeSetParams
    cudaGraphExecExternalSemaphoresWaitNodeSetParams
    cudaGraphExternalSemaphoresSignalNodeGetParams
    cudaGraphExternalSemaphoresSignalNodeSetParams
    cudaGraphExternalSemaphoresWaitNodeGetParams
    cudaGraphExternalSemaphoresWaitNodeSetParams
    cudaGraphicsEGLRegisterImage
    cudaGraphicsGLRegisterBuffer
    cudaGraphicsGLRegisterImage
    cudaGraphicsMapResources
    cudaGraphicsResourceGetMappedEglFrame
    cudaGraphicsResourceGetMappedMipmappedArray
    cudaGraphicsResourceGetMappedPointer
    cudaGraphicsResourceSetMapFlags
    cudaGraphicsSubResourceGetMappedArray
    cudaGraphicsUnmapResources
    cudaGraphicsUnregisterResource
    cudaGraphicsVDPAURegisterOutputSurface
    cudaGraphicsVDPAURegisterVideoSurface
    cudaImportExternalMemory
    cudaImportExternalSemaphore
    cudaKernelSetAttributeForDevice
    cudaMemcpy3DBatchAsync
    cudaMemcpy3DBatchAsync_ptsz
    cudaMipmappedArrayGetMemoryRequirements
    cudaMipmappedArrayGetSparseProperties
    cudaSignalExternalSemaphoresAsync
    cudaSignalExternalSemaphoresAsync_ptsz
    cudaVDPAUGetDevice
    cudaVDPAUSetVDPAUDevice
    cudaWaitExternalSemaphoresAsync
    cudaWaitExternalSemaphoresAsync_ptsz
}

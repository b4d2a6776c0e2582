//! The functions that NVIDIA's library of CUDA 12 has, and neither this library nor the crate `cudart` implements.

cudart::refused! {
    cudaGetDeviceProperties
    cudaLaunchCooperativeKernelMultiDevice
    cudaMemcpyBatchAsync
    cudaMemcpyBatchAsync_ptsz
    cudaSetDoubleForDevice
    cudaSetDoubleForHost
    cudaSignalExternalSemaphoresAsync_v2
    cudaSignalExternalSemaphoresAsync_v2_ptsz
    cudaThreadExit
    cudaThreadGetCacheConfig
    cudaThreadGetLimit
    cudaThreadSetCacheConfig
    cudaThreadSetLimit
    cudaWaitExternalSemaphoresAsync_v2
    cudaWaitExternalSemaphoresAsync_v2_ptsz
}

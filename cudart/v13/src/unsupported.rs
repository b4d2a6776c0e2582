//! The functions that NVIDIA's library of CUDA 13 has, and neither this library nor the crate `cudart` implements.

cudart::refused! {
    __cudaGetProcAddress
    cudaDeviceGetHostAtomicCapabilities
    cudaDeviceGetP2PAtomicCapabilities
    cudaLogsCurrent
    cudaLogsDumpToFile
    cudaLogsDumpToMemory
    cudaLogsRegisterCallback
    cudaLogsUnregisterCallback
}

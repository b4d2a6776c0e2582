//! The attributes `#[kernel]` and `#[device]`, and `derive(Device)`, of `gpu-phases`.

mod blocks;
mod calls;
mod checks;
mod closures;
mod contract;
mod control;
mod counted;
mod derive;
mod exprs;
mod function;
mod hygiene;
mod implementation;
mod kernel;
mod literals;
mod loops;
mod names;
mod operators;
mod options;
mod pack;
mod patterns;
mod places;
mod printing;
mod recursion;
mod refuse;
mod statements;
mod structure;
mod stubs;
mod translate;
mod types;

use proc_macro::TokenStream;
use quote::quote;

/// Makes a function a kernel.
#[proc_macro_attribute]
pub fn kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    finish(kernel::expand(args.into(), item.into(), quote!(::gpu_phases)))
}

/// The attribute `kernel` as `cuda_safe::kernel` exports it.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn cuda_safe_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    finish(kernel::expand(args.into(), item.into(), quote!(::cuda_safe::kernel)))
}

/// Makes a function, or the methods of an `impl`, callable in kernels.
#[proc_macro_attribute]
pub fn device(args: TokenStream, item: TokenStream) -> TokenStream {
    finish(implementation::expand(args.into(), item.into(), quote!(::gpu_phases)))
}

/// The attribute `device` as `cuda_safe::kernel` exports it.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn cuda_safe_device(args: TokenStream, item: TokenStream) -> TokenStream {
    finish(implementation::expand(args.into(), item.into(), quote!(::cuda_safe::kernel)))
}

/// Makes a structure or an enum a type of kernels.
#[proc_macro_derive(Device, attributes(device))]
pub fn derive_device(item: TokenStream) -> TokenStream {
    finish(derive::expand(item.into(), quote!(::gpu_phases)))
}

/// The derive as `cuda_safe::kernel` exports it.
#[doc(hidden)]
#[proc_macro_derive(CudaSafeDevice, attributes(device))]
pub fn derive_cuda_safe_device(item: TokenStream) -> TokenStream {
    finish(derive::expand(item.into(), quote!(::cuda_safe::kernel)))
}

/// Returns the bytes of a file of the package, for `embed_pack!`.
#[doc(hidden)]
#[proc_macro]
pub fn pack_bytes(path: TokenStream) -> TokenStream {
    finish(pack::bytes(path.into()))
}

fn finish(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(|error| error.to_compile_error()).into()
}

//! The attributes `#[kernel]` and `#[device]`, and `derive(Device)`, of `gpu-phases`.

mod calls;
mod closures;
mod control;
mod counted;
mod exprs;
mod kernel;
mod literals;
mod loops;
mod operators;
mod options;
mod patterns;
mod places;
mod refuse;
mod statements;
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

fn finish(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(|error| error.to_compile_error()).into()
}

//! The macro `embed_pack!`.

use std::path::Path;

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

use crate::refuse::{Result, refused};

/// The folder that the path is relative to.
const FOLDER: &str = "CARGO_MANIFEST_DIR";

/// Returns an expression for the bytes of the file.
pub(crate) fn bytes(path: TokenStream) -> Result<TokenStream> {
    let path: LitStr = syn::parse2(path)?;
    // Without the variable, `env!` below reports the error.
    if let Some(folder) = std::env::var_os(FOLDER) {
        let file = Path::new(&folder).join(path.value());
        if !file.is_file() {
            return refused(
                &path,
                &format!("there is no file {}", file.display()),
                "create it as an empty file, and write a test that calls `cuda_safe::kernel::Pack::save`",
            );
        }
    }
    Ok(quote!(::core::include_bytes!(::core::concat!(::core::env!(#FOLDER), "/", #path))))
}

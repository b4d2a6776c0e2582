//! Types in the source.

use quote::quote;
use syn::{Type, TypeParamBound};

use crate::names::is_primitive;
use crate::refuse::{Result, refused};
use crate::translate::Translator;

impl Translator<'_> {
    /// Returns a type in C++.
    pub(crate) fn ty(&mut self, ty: &Type) -> Result<String> {
        Ok(match ty {
            Type::Reference(reference) => {
                match (&*reference.elem, reference.mutability.is_some()) {
                    (Type::Slice(slice), mutable) => {
                        let element = self.ty(&slice.elem)?;
                        format!("slice<{}{element}>", if mutable { "" } else { "const " })
                    }
                    // It may be a structure.
                    (elem, false) if is_named(elem) => {
                        let private = self.private();
                        self.hole(quote!({
                            #[allow(unused_imports)]
                            use #private::{OfDevice as _, OfStructure as _};
                            (&#private::Probe::<#elem>::new()).phases_reference(phases_text)
                        }))
                    }
                    (elem, mutable) => {
                        let elem = self.ty(elem)?;
                        format!("{}<{elem}>", if mutable { "mut" } else { "ref" })
                    }
                }
            }
            Type::Paren(inner) => self.ty(&inner.elem)?,
            Type::Group(inner) => self.ty(&inner.elem)?,
            Type::Tuple(tuple) if tuple.elems.is_empty() => "unit".to_owned(),
            Type::Tuple(tuple) => {
                let parts =
                    tuple.elems.iter().map(|part| self.ty(part)).collect::<Result<Vec<_>>>()?;
                format!("tuple<{}>", parts.join(", "))
            }
            Type::Path(path) if path.path.get_ident().is_some_and(is_128) => {
                return refused(ty, "kernels have no 128-bit integers", "use two `u64`s");
            }
            Type::Path(path) if path.path.is_ident("char") || path.path.is_ident("str") => {
                return refused(
                    ty,
                    "kernels have no characters and strings",
                    "use the number: `u32` or `u8`",
                );
            }
            Type::Path(_) | Type::Array(_) => self.hole(quote!(phases_text.ty::<#ty>())),
            Type::Infer(_) => "auto".to_owned(),
            Type::Slice(_) => {
                return refused(ty, "a slice needs a reference", "write `&[T]` or `&mut [T]`");
            }
            Type::TraitObject(_) => {
                return refused(
                    ty,
                    "kernels have no `dyn`",
                    "use a generic parameter, or an enum and `match`",
                );
            }
            Type::ImplTrait(_) => {
                return refused(
                    ty,
                    "only parameters of `#[device]` functions take closures",
                    "name the type",
                );
            }
            Type::Ptr(_) => {
                return refused(ty, "kernels have no raw pointers", "use a reference or a slice");
            }
            Type::BareFn(_) => {
                return refused(
                    ty,
                    "kernels have no pointers to functions",
                    "take a closure: `impl Fn(f32) -> f32`",
                );
            }
            _ => {
                return refused(
                    ty,
                    "kernels have no such type",
                    "use numbers, arrays, tuples, or derive `Device`",
                );
            }
        })
    }
}

/// Returns whether a type is a path that is no number.
pub(crate) fn is_named(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| {
        let name = last.ident.to_string();
        !is_primitive(&name)
            && !matches!(name.as_str(), "Atomic" | "i128" | "u128" | "char" | "str")
    })
}

fn is_128(name: &syn::Ident) -> bool {
    name == "i128" || name == "u128"
}

/// Returns whether a bound is that of a closure.
pub(crate) fn is_closure_bound(bound: &TypeParamBound) -> bool {
    let TypeParamBound::Trait(bound) = bound else { return false };
    let last = bound.path.segments.last();
    last.is_some_and(|last| ["Fn", "FnMut", "FnOnce"].iter().any(|name| last.ident == name))
}

//! The CUDA release that introduced each ABI, from cudaTypedefs.h.
//!
//! That header has one `PFN_<name>_v<release>` for each ABI of a name. The exported names of one
//! function (`cuX`, `cuX_v2`, …) and its releases are both in order of age, so the n-th belongs to
//! the n-th; signatures must agree, or generation fails.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Item, ReturnType, Type, TypeBareFn};

use crate::Failure;
use crate::clang::Parsed;
use crate::merge::{Merged, signature};

/// The release that made sizes and device pointers 64 bits wide.
const WIDE_ABI: i32 = 3020;

/// A function that gets a slot.
pub(crate) struct Slot {
    /// The name without `_vN`, which cuGetProcAddress takes.
    pub(crate) base: String,
    /// As cuGetProcAddress takes it: 12050 is CUDA 12.5.
    pub(crate) version: i32,
    pub(crate) function: syn::ForeignItemFn,
}

/// The table to be written.
pub(crate) struct Table {
    /// By exported name.
    pub(crate) slots: BTreeMap<String, Slot>,
    pub(crate) per_thread: Vec<String>,
    /// Names with the ABI of CUDA before 3.2.
    pub(crate) narrow: Vec<String>,
    pub(crate) items: Vec<Item>,
}

/// Gives each function its release and sets the ABI before 3.2 apart.
pub(crate) fn assign(merged: Merged, typedefs: &Parsed) -> Result<Table, Failure> {
    let aliases = Aliases::of(typedefs.items.iter().chain(&merged.items));
    let mut releases = releases(typedefs, &aliases)?;
    let mut table = Table {
        slots: BTreeMap::new(),
        per_thread: merged.per_thread,
        narrow: Vec::new(),
        items: merged.items,
    };
    let mut families: BTreeMap<String, BTreeMap<u32, syn::ForeignItemFn>> = BTreeMap::new();
    for (name, function) in merged.functions {
        let (base, revision) = split_revision(&name);
        families.entry(base.to_owned()).or_default().insert(revision, function);
    }
    for (base, family) in families {
        let known = releases.remove(&base).unwrap_or_default();
        if known.len() != family.len() {
            return Err(format!(
                "{base}: {} exported names, but releases {:?}",
                family.len(),
                known.keys().collect::<Vec<_>>()
            )
            .into());
        }
        let widened = known.contains_key(&WIDE_ABI);
        for (function, (version, expected)) in family.into_values().zip(known) {
            let name = function.sig.ident.to_string();
            let declared = aliases.resolve(signature(&function));
            if declared != expected {
                return Err(format!(
                    "{name}: declared as `{}`, but release {version} is `{}`",
                    declared.to_token_stream(),
                    expected.to_token_stream()
                )
                .into());
            }
            if widened && version < WIDE_ABI {
                table.narrow.push(name);
            } else {
                table.slots.insert(name, Slot { base: base.clone(), version, function });
            }
        }
    }
    match releases.keys().next() {
        Some(base) => Err(format!("cudaTypedefs.h has {base}, cuda.h does not").into()),
        None => Ok(table),
    }
}

/// `cuMemAlloc_v2` is revision 2 of `cuMemAlloc`; a plain name is revision 1.
fn split_revision(name: &str) -> (&str, u32) {
    match name.rsplit_once("_v") {
        Some((base, digits)) => match digits.parse() {
            Ok(revision) => (base, revision),
            Err(_) => (name, 1),
        },
        None => (name, 1),
    }
}

/// Base name -> release -> resolved signature.
fn releases(
    typedefs: &Parsed,
    aliases: &Aliases,
) -> Result<BTreeMap<String, BTreeMap<i32, TypeBareFn>>, Failure> {
    let mut found: BTreeMap<String, BTreeMap<i32, TypeBareFn>> = BTreeMap::new();
    for item in &typedefs.items {
        let Item::Type(item) = item else { continue };
        let name = item.ident.to_string();
        let Some(rest) = name.strip_prefix("PFN_") else {
            continue;
        };
        if rest.ends_with("_ptds") || rest.ends_with("_ptsz") {
            continue;
        }
        let (base, digits) = rest.rsplit_once("_v").ok_or_else(|| format!("{name}: no release"))?;
        let release = digits.parse().map_err(|_| format!("{name}: no release"))?;
        let function = pointee(&item.ty).ok_or_else(|| format!("{name}: not a function"))?;
        found.entry(base.to_owned()).or_default().insert(release, aliases.resolve(function));
    }
    Ok(found)
}

/// The function type in `Option<unsafe extern "C" fn(…) -> …>`, without names and ABI.
fn pointee(option: &Type) -> Option<TypeBareFn> {
    let Type::Path(path) = option else {
        return None;
    };
    let syn::PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments
    else {
        return None;
    };
    let syn::GenericArgument::Type(Type::BareFn(function)) = arguments.args.first()? else {
        return None;
    };
    let inputs = function.inputs.iter().map(|argument| &argument.ty);
    let output = &function.output;
    Some(syn::parse_quote!(fn(#(#inputs),*) #output))
}

/// Type aliases, so that `CUdeviceptr_v2` equals `CUdeviceptr`.
struct Aliases(BTreeMap<String, Type>);

impl Aliases {
    fn of<'a>(items: impl Iterator<Item = &'a Item>) -> Self {
        let mut map = BTreeMap::new();
        for item in items {
            match item {
                Item::Type(item) => {
                    map.insert(item.ident.to_string(), (*item.ty).clone());
                }
                // `pub use self::X_enum as X;`
                Item::Use(item) => {
                    if let Some((tag, alias)) = crate::emit::renamed(item) {
                        map.insert(alias.to_string(), syn::parse_quote!(#tag));
                    }
                }
                _ => {}
            }
        }
        Self(map)
    }

    fn resolve(&self, mut function: TypeBareFn) -> TypeBareFn {
        struct Resolve<'a>(&'a BTreeMap<String, Type>);
        impl VisitMut for Resolve<'_> {
            fn visit_type_mut(&mut self, ty: &mut Type) {
                while let Type::Path(path) = ty {
                    let Some(target) =
                        path.path.get_ident().and_then(|i| self.0.get(&i.to_string()))
                    else {
                        break;
                    };
                    *ty = target.clone();
                }
                visit_mut::visit_type_mut(self, ty);
            }
        }
        for input in &mut function.inputs {
            Resolve(&self.0).visit_type_mut(&mut input.ty);
        }
        if let ReturnType::Type(_, output) = &mut function.output {
            Resolve(&self.0).visit_type_mut(output);
        }
        function
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots of `functions`, with `typedefs` of the form `(name, parameters)`.
    fn slots(functions: &[&str], typedefs: &[(&str, &str)]) -> Result<Table, Failure> {
        let mut merged = Merged {
            functions: BTreeMap::new(),
            per_thread: Vec::new(),
            items: vec![syn::parse_str("pub type CUdevice = i32;")?],
        };
        for text in functions {
            let function: syn::ForeignItemFn = syn::parse_str(text)?;
            merged.functions.insert(function.sig.ident.to_string(), function);
        }
        let mut parsed = Parsed { functions: BTreeMap::new(), items: Vec::new() };
        for (name, parameters) in typedefs {
            let text = format!("pub type {name} = Option<unsafe extern \"C\" fn({parameters})>;");
            parsed.items.push(syn::parse_str(&text)?);
        }
        assign(merged, &parsed)
    }

    #[test]
    fn revisions_go_with_releases_in_order_of_age() -> Result<(), Failure> {
        // As text `_v11000` sorts before `_v9000`, and `_v10` before `_v2`.
        let functions =
            ["fn cuX(a: i32);", "fn cuX_v2(a: CUdevice);", "fn cuX_v10(a: i32, b: i32);"];
        let typedefs = [
            ("PFN_cuX_v11000", "a: i32"),
            ("PFN_cuX_v9000", "d: CUdevice"),
            ("PFN_cuX_v13000", "a: i32, b: i32"),
        ];
        let table = slots(&functions, &typedefs)?;
        let found: Vec<_> =
            table.slots.iter().map(|(name, slot)| (name.as_str(), slot.version)).collect();
        assert_eq!(found, [("cuX", 9000), ("cuX_v10", 13000), ("cuX_v2", 11000)]);
        Ok(())
    }

    #[test]
    fn the_abi_before_3_2_is_set_apart() -> Result<(), Failure> {
        let functions = ["fn cuX(a: u32);", "fn cuX_v2(a: u64);", "fn cuY(a: u32);"];
        let typedefs =
            [("PFN_cuX_v2000", "a: u32"), ("PFN_cuX_v3020", "a: u64"), ("PFN_cuY_v2000", "a: u32")];
        let table = slots(&functions, &typedefs)?;
        assert_eq!(table.narrow, ["cuX"]);
        assert!(table.slots.keys().eq(["cuX_v2", "cuY"]), "cuY never had a wider ABI");
        Ok(())
    }

    #[test]
    fn what_does_not_fit_stops_it() {
        let one = ["fn cuX(a: u32);"];
        let other_signature = slots(&one, &[("PFN_cuX_v2000", "a: u64")]);
        let two_releases = slots(&one, &[("PFN_cuX_v2000", "a: u32"), ("PFN_cuX_v3000", "a: u32")]);
        let no_release = slots(&one, &[]);
        let no_function = slots(&[], &[("PFN_cuX_v2000", "a: u32")]);
        for result in [other_signature, two_releases, no_release, no_function] {
            assert!(result.is_err_and(|error| error.to_string().contains("cuX")));
        }
    }
}

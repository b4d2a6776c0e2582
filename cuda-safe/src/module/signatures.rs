//! The kernels of an image, by name, and what the image says of their parameters: for loading, and for checking
//! declarations without a device.

use std::collections::HashMap;

use super::declared_global::fits;
use super::globals::{is_written, variable_name, variable_symbol};
use crate::error::{Error, Result};
use crate::launch::{self, ArgType};

/// The kernels of an image, with their names and parameters, and the variables that its PTX declares.
#[derive(Debug, Clone, Default)]
pub struct KernelSignatures {
    /// In the image's order.
    pub(super) kernels: Vec<ptx::Signature>,
    /// Name expressions given to NVRTC and the names that they have in the image.
    pub(super) lowered: Vec<(String, String)>,
    /// `None` without PTX, and where a module has them itself.
    pub(super) globals: Option<Vec<ptx::GlobalVariable>>,
    /// What each name is that a caller may ask for.
    named: HashMap<Box<str>, Named>,
}

/// What has a name; the numbers are indices.
#[derive(Debug, Clone, Copy)]
enum Named {
    /// The kernel with this symbol.
    Symbol(usize),
    /// A name expression.
    Lowered(usize),
    /// The kernel whose mangled name has this plain one.
    Plain(usize),
    /// Several kernels have this plain name.
    Several,
}

impl KernelSignatures {
    /// Returns these kernels, by all their names.
    pub(super) fn new(
        kernels: Vec<ptx::Signature>,
        lowered: Vec<(String, String)>,
        globals: Option<Vec<ptx::GlobalVariable>>,
    ) -> Self {
        let mut named = HashMap::with_capacity(kernels.len() * 2 + lowered.len());
        for (index, kernel) in kernels.iter().enumerate() {
            if let Some(name) = plain_name(&kernel.name) {
                let known = named.entry(name.into());
                known.and_modify(|it| *it = Named::Several).or_insert(Named::Plain(index));
            }
        }
        // The first of equal names counts.
        for (index, (expression, _)) in lowered.iter().enumerate().rev() {
            named.insert(expression.as_str().into(), Named::Lowered(index));
        }
        for (index, kernel) in kernels.iter().enumerate().rev() {
            named.insert(kernel.name.as_str().into(), Named::Symbol(index));
        }
        Self { kernels, lowered, globals, named }
    }

    /// Reads the kernels of PTX.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the text is not PTX, or is for a newer device than `arch`.
    pub fn from_ptx(ptx: &str, arch: nvrtc::Arch) -> Result<Self> {
        let target = crate::image::ptx_target(ptx.as_bytes());
        let target =
            target.ok_or_else(|| Error::invalid("the text is not PTX: it has no target"))?;
        if let Ok(least) = target.parse::<nvrtc::Arch>()
            && least.capability() > arch.capability()
        {
            return Err(Error::invalid(format!(
                "the PTX is for {target} and newer, not for {arch}"
            )));
        }
        let kernels = ptx::entries(ptx).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(Self::new(kernels, Vec::new(), Some(ptx::globals(ptx))))
    }

    /// Returns the kernel with this name in the image.
    pub(super) fn of_symbol(&self, name: &str) -> Option<&ptx::Signature> {
        match self.named.get(name) {
            Some(Named::Symbol(index)) => self.kernels.get(*index),
            _ => None,
        }
    }

    /// Returns the name in the image for `name`, and the signature if the image has PTX. `list` returns the kernels'
    /// names for errors.
    pub(super) fn find<'a>(
        &'a self,
        name: &'a str,
        list: impl Fn() -> Vec<String>,
    ) -> Result<(&'a str, Option<&'a ptx::Signature>)> {
        match self.named.get(name) {
            Some(Named::Symbol(index)) => return Ok((name, self.kernels.get(*index))),
            Some(Named::Lowered(index)) => {
                let lowered = &self.lowered[*index].1;
                return Ok((lowered, self.of_symbol(lowered)));
            }
            Some(Named::Plain(index)) => {
                let only = &self.kernels[*index];
                return Ok((&only.name, Some(only)));
            }
            Some(Named::Several) => {
                return Err(Error::invalid(format!("several kernels are called `{name}`"))
                    .with_hint(listed(&list())));
            }
            None => {}
        }
        if self.kernels.is_empty() {
            // The image has no information: query the driver.
            return Ok((name, None));
        }
        Err(no_such_kernel(name, &list()))
    }

    /// Returns the kernels' names.
    pub(super) fn names(&self) -> Vec<String> {
        self.kernels.iter().map(|signature| signature.name.clone()).collect()
    }

    /// Compares a declared kernel with the image's, as its first launch does.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) lists the image's kernels if none has this name;
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) names the first parameter that does not fit. A `None` in
    /// `args` fits each parameter.
    #[doc(hidden)]
    pub fn check(&self, name: &str, args: &[Option<ArgType>]) -> Result<()> {
        let (image_name, signature) = self.find(name, || self.names())?;
        let Some(signature) = signature else {
            return Err(no_such_kernel(name, &self.names()));
        };
        let parameters = crate::function::parameters(image_name, &[], Some(signature));
        launch::compare(&shown(name), &parameters, args.iter().map(Option::as_ref))
    }

    /// Compares a declared global, `len` elements of `T` that the declaration spells `declared`, with the image's
    /// variable, as loading does.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is no variable of this name (the error lists those that
    /// exist) or several, if its size or its scalar type differs, or if the image has no PTX.
    #[doc(hidden)]
    pub fn check_global<T: 'static>(&self, name: &str, declared: &str, len: usize) -> Result<()> {
        let Some(globals) = &self.globals else {
            return Err(Error::invalid(format!(
                "the global `{name}` can't be checked: the image has no PTX"
            )));
        };
        let symbol = variable_symbol(name, globals, &self.lowered)?;
        let Some(variable) = globals.iter().find(|variable| variable.name == symbol) else {
            let written = globals.iter().filter(|variable| is_written(variable));
            let names: Vec<String> =
                written.map(|variable| variable_name(variable, &self.lowered)).collect();
            let hint = match names.is_empty() {
                true => "the module has no variables".to_owned(),
                false => format!("the module has {}", names.join(", ")),
            };
            return Err(
                Error::invalid(format!("the module has no global `{name}`")).with_hint(hint)
            );
        };
        // A text need not state the size.
        let bytes = usize::try_from(variable.size).ok().filter(|bytes| *bytes > 0);
        fits::<T>(name, declared, len, bytes, variable.scalar)
    }
}

impl From<&nvrtc::Image> for KernelSignatures {
    fn from(image: &nvrtc::Image) -> Self {
        let globals = image.ptx.as_deref().map(ptx::globals);
        Self::new(image.kernels.clone(), image.lowered.clone(), globals)
    }
}

/// Returns a kernel's name for reports: as it is asked for, or a mangled one as the source has it.
pub(super) fn shown(name: &str) -> String {
    ptx::mangled::function(name).unwrap_or_else(|| name.to_owned())
}

#[cold]
pub(super) fn no_such_kernel(name: &str, names: &[String]) -> Error {
    let mut each: Vec<String> = names.iter().map(|name| shown(name)).collect();
    each.dedup();
    Error::invalid(format!("the module has no kernel `{name}`")).with_hint(listed(&each))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "the module has no kernels: a kernel needs `__global__`, and a template a name \
                expression"
            .to_owned();
    }
    format!("it has {}", names.join(", "))
}

/// Returns the function's plain name in a mangled one: `axpy` in `_Z4axpyfPKfPfm`.
fn plain_name(mangled: &str) -> Option<&str> {
    let rest = mangled.strip_prefix("_Z")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = rest.get(..digits)?.parse().ok()?;
    rest.get(digits..)?.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::KernelArg;
    use crate::memory::{DeviceSlice, DeviceSliceMut};

    #[test]
    fn plain_names_of_mangled_ones() {
        assert_eq!(plain_name("_Z4axpyfPKfPfm"), Some("axpy"));
        assert_eq!(plain_name("_Z3foov"), Some("foo"));
        // A template's name is a name expression's business.
        assert_eq!(plain_name("_Z4axpyIfEvT_PKS0_"), Some("axpy"));
        for odd in ["axpy", "_Z", "_Z99x", "_ZN2ns3fooEv", "_Z99999999999999999999999x", "_Z2é"] {
            assert_eq!(plain_name(odd).filter(|name| name.is_empty()), None, "{odd}");
        }
    }

    const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry _Z4axpyfPKfPfj(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n) { ret; }\n\
        .visible .entry plain(.param .u64 x) { ret; }\n\
        .visible .entry _Z4twini(.param .u32 x) { ret; }\n.visible .entry _Z4twinf(.param .f32 x) { ret; }\n";

    fn arg<A: KernelArg>() -> Option<ArgType> {
        Some(A::TYPE)
    }

    #[test]
    fn declarations_are_compared_by_name_and_types() {
        type In<T> = DeviceSlice<'static, T>;
        type Out<T> = DeviceSliceMut<'static, T>;
        let kernels = KernelSignatures::from_ptx(PTX, nvrtc::Arch::sm(9, 0)).unwrap();
        let message = |name: &str, args: &[Option<ArgType>]| match kernels.check(name, args) {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{error}"),
        };
        let (a, x, y, n) = (arg::<f32>(), arg::<In<f32>>(), arg::<Out<f32>>(), arg::<u32>());
        assert_eq!(message("axpy", &[a, x, y, n]), "ok");
        assert_eq!(message("_Z4axpyfPKfPfj", &[a, x, y, n]), "ok");
        assert_eq!(message("axpy", &[None, None, None, None]), "ok");
        assert_eq!(message("plain", &[x]), "ok");
        for (args, part) in [
            (&[a, x, y][..], "takes 4 arguments, 3 given"),
            (&[None, x, y, n, n], "takes 4 arguments, 5 given"),
            (&[n, x, y, n], "argument 1 of kernel `axpy`: `u32` is an integer"),
            (&[None, x, x, n], "argument 3 of kernel `axpy`: "),
            (&[a, arg::<In<f64>>(), y, n], "argument 2 of kernel `axpy`: `&[f64]` does not fit"),
            (
                &[a, x, y, arg::<u64>()],
                "argument 4 of kernel `axpy`: `u64` has 8 bytes, the kernel's `unsigned int` 4: write `u32`",
            ),
        ] {
            assert!(message("axpy", args).contains(part), "{}", message("axpy", args));
        }
        // A symbol before an expression, and this before a plain name; the first of two equal expressions.
        let kernel =
            |name: &str| ptx::Signature { name: name.into(), params: vec![], types: vec![] };
        let all = ["_Z1av", "a", "_Z1bv", "_Z1cv", "_Z1ci"].map(kernel).to_vec();
        let lowered = [("a", "_Z1bv"), ("b", "_Z1av"), ("b", "a"), ("c", "gone")];
        let lowered = lowered.map(|(name, symbol)| (name.to_owned(), symbol.to_owned())).to_vec();
        let named = |lowered, name| {
            let kernels = KernelSignatures::new(all.clone(), lowered, None);
            let found =
                kernels.find(name, Vec::new).map(|(name, it)| (name.to_owned(), it.cloned()));
            found.map_err(|error| error.to_string())
        };
        let is = |symbol: &str| Ok((symbol.to_owned(), Some(kernel(symbol))));
        assert_eq!(named(lowered.clone(), "a"), is("a"));
        assert_eq!(named(lowered.clone(), "b"), is("_Z1av"));
        assert_eq!(named(lowered, "c"), Ok(("gone".to_owned(), None)));
        assert_eq!(named(Vec::new(), "b"), is("_Z1bv"));
        assert!(named(Vec::new(), "c").is_err_and(|error| error.contains("several kernels")));
        let missing = message("axpi", &[a, x, y, n]);
        assert!(missing.contains("no kernel `axpi`") && missing.contains("plain"), "{missing}");
        assert!(message("twin", &[n]).contains("several kernels are called `twin`"));
        let empty = KernelSignatures::default();
        assert!(empty.check("axpy", &[]).is_err_and(|e| e.to_string().contains("`__global__`")));
    }

    #[test]
    fn globals_are_compared_by_name_size_and_scalar() {
        const GLOBALS: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .const .align 4 .f32 factor;\n.global .align 4 .b8 table[1024];\n\
            .global .align 4 .u32 _ZN1a5twiceE;\n.global .align 4 .u32 _ZN1a3oneE;\n\
            .global .align 4 .u32 _Z5valueIiE;\n.global .align 1 .b8 $str[4];\n";
        let arch = nvrtc::Arch::sm(9, 0);
        let mut kernels = KernelSignatures::from_ptx(GLOBALS, arch).unwrap();
        let lowered = ("&value<int>".to_owned(), "_Z5valueIiE".to_owned());
        kernels.lowered.push(lowered);
        assert!(kernels.check_global::<f32>("factor", "f32", 1).is_ok());
        assert!(kernels.check_global::<u32>("a::one", "u32", 1).is_ok());
        assert!(kernels.check_global::<u32>("_ZN1a3oneE", "u32", 1).is_ok());
        assert!(kernels.check_global::<i32>("value<int>", "i32", 1).is_ok());
        assert!(kernels.check_global::<[f32; 4]>("table", "[[f32; 4]; 64]", 64).is_ok());
        let refused = |result: Result<()>, part: &str| {
            let text = result.map_err(|error| error.to_string()).unwrap_err();
            assert!(text.contains(part), "{text}");
        };
        refused(
            kernels.check_global::<f32>("faktor", "f32", 1),
            "no global `faktor`; hint: the module has factor, table, a::twice, a::one, value<int>",
        );
        refused(kernels.check_global::<u8>("str", "[u8; 4]", 4), "no global `str`");
        refused(
            kernels.check_global::<f64>("factor", "f64", 1),
            "the global `factor` is declared as f64, which has 8 bytes, but the variable has 4",
        );
        refused(kernels.check_global::<u8>("table", "[u8; 1023]", 1023), "has 1023 bytes");
        refused(kernels.check_global::<u64>("table", "[u64; N]", usize::MAX), "too many bytes");
        refused(kernels.check_global::<u32>("factor", "u32", 1), "but the variable is a float");
        refused(kernels.check_global::<f32>("a::one", "f32", 1), "is an integer or a pointer");
        // Two spellings of one name: a variable, and one of that name in an anonymous namespace.
        let twins = "\n.global .align 4 .u32 _ZN1b1xE;\n.global .align 4 .u32 _ZN1bL1xE;\n";
        let kernels = KernelSignatures::from_ptx(&format!("{GLOBALS}{twins}"), arch).unwrap();
        refused(
            kernels.check_global::<u32>("b::x", "u32", 1),
            "several variables are called `b::x`",
        );
        let none = KernelSignatures::default();
        refused(none.check_global::<f32>("factor", "f32", 1), "the image has no PTX");
        let empty = KernelSignatures::from_ptx(PTX, arch).unwrap();
        refused(empty.check_global::<f32>("factor", "f32", 1), "the module has no variables");
    }

    #[test]
    fn ptx_for_a_newer_device_is_refused() {
        for (arch, fits) in
            [("sm_90", true), ("sm_80", true), ("compute_80", true), ("sm_75", false)]
        {
            let found = KernelSignatures::from_ptx(PTX, arch.parse().unwrap());
            assert_eq!(found.is_ok(), fits, "{arch}: {found:?}");
        }
        assert!(KernelSignatures::from_ptx("no text", nvrtc::Arch::sm(9, 0)).is_err());
    }
}

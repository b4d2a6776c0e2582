//! The kernels of an image, by name, and what the image says of their parameters: for loading, and for checking
//! declarations without a device.

use crate::error::{Error, Result};
use crate::launch::{self, ArgType};

/// The kernels of an image: their names and parameters.
#[derive(Debug, Clone, Default)]
pub struct KernelSignatures {
    /// In the image's order.
    pub(super) kernels: Vec<ptx::Signature>,
    /// Name expressions given to NVRTC and the names that they have in the image.
    pub(super) lowered: Vec<(String, String)>,
}

impl KernelSignatures {
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
        Ok(Self { kernels, lowered: Vec::new() })
    }

    /// Returns the name in the image for `name`, and the signature if the image has PTX. `list` returns the kernels'
    /// names for errors.
    pub(super) fn find<'a>(
        &'a self,
        name: &'a str,
        list: impl Fn() -> Vec<String>,
    ) -> Result<(&'a str, Option<&'a ptx::Signature>)> {
        let signature = |name: &str| self.kernels.iter().find(|signature| signature.name == name);
        if let Some(found) = signature(name) {
            return Ok((name, Some(found)));
        }
        if let Some((_, lowered)) = self.lowered.iter().find(|(expression, _)| expression == name) {
            return Ok((lowered, signature(lowered)));
        }
        let mut plain =
            self.kernels.iter().filter(|signature| plain_name(&signature.name) == Some(name));
        match (plain.next(), plain.next()) {
            (Some(only), None) => return Ok((&only.name, Some(only))),
            (Some(_), Some(_)) => {
                return Err(Error::invalid(format!("several kernels are called `{name}`"))
                    .with_hint(listed(&list())));
            }
            _ => {}
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
        let parameters = crate::kernel::parameters(image_name, &[], Some(signature));
        launch::compare(image_name, &parameters, args.iter().map(Option::as_ref))
    }
}

impl From<&nvrtc::Image> for KernelSignatures {
    fn from(image: &nvrtc::Image) -> Self {
        Self { kernels: image.kernels.clone(), lowered: image.lowered.clone() }
    }
}

#[cold]
pub(super) fn no_such_kernel(name: &str, names: &[String]) -> Error {
    Error::invalid(format!("the module has no kernel `{name}`")).with_hint(listed(names))
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
            (&[n, x, y, n], "argument 1 of kernel `_Z4axpyfPKfPfj`: `u32` is an integer"),
            (&[None, x, x, n], "argument 3 of kernel `_Z4axpyfPKfPfj`: "),
            (&[a, arg::<In<f64>>(), y, n], "argument 2 of kernel `_Z4axpyfPKfPfj`: the elements"),
            (
                &[a, x, y, arg::<u64>()],
                "argument 4 of kernel `_Z4axpyfPKfPfj`: `u64` has 8 bytes, the parameter 4",
            ),
        ] {
            assert!(message("axpy", args).contains(part), "{}", message("axpy", args));
        }
        let missing = message("axpi", &[a, x, y, n]);
        assert!(missing.contains("no kernel `axpi`") && missing.contains("plain"), "{missing}");
        assert!(message("twin", &[n]).contains("several kernels are called `twin`"));
        let empty = KernelSignatures::default();
        assert!(empty.check("axpy", &[]).is_err_and(|e| e.to_string().contains("`__global__`")));
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

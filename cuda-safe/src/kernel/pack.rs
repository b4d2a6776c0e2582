//! Images of kernels that are compiled before a program is built, so that it needs no compiler where it runs.

use std::path::Path;

use gpu_phases::kernel::Kernel;
use nvrtc::{Arch, Image};
use sha2::{Digest, Sha256};

use super::faults;
use super::load::{Source, explained};
use crate::error::{Error, Result};

/// The first bytes of a pack; the last one is the version of the format.
const MAGIC: &[u8; 16] = b"gpu-phases pack\x01";

/// The bytes of a SHA-256.
const HASH: usize = 32;

/// Compiled kernels for the architectures of several devices, to embed in a program.
///
/// A test of the crate that has the kernels writes the file, and `#[kernel]` embeds it. A launch looks for an image by the
/// hash of the kernel's C++, so one of an older source is never loaded: then NVRTC compiles the kernel, as without a pack.
///
/// ```no_run
/// use cuda_safe::kernel::{Pack, kernel::Kernel};
/// use cuda_safe::nvrtc::Arch;
///
/// # fn write(kernels: &[&Kernel]) -> cuda_safe::Result<()> {
/// let mut pack = Pack::new();
/// for kernel in kernels {
///     pack.add(kernel, &[Arch::sm(9, 0), Arch::compute(7, 5)])?;
/// }
/// let changed = pack.save("src/kernels.pack")?;
/// // In continuous integration: a changed file was not committed.
/// assert!(!changed, "src/kernels.pack was of older sources");
/// # Ok(()) }
/// ```
///
/// A real architecture (`sm_90`) gives machine code for its devices and PTX; a virtual one (`compute_75`) gives PTX, which
/// the driver compiles for any newer device. Drivers refuse the PTX of a newer NVRTC than theirs, so use the oldest
/// release of NVRTC whose drivers the program supports: set `CUDA_NVRTC`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pack {
    images: Vec<Packed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Packed {
    hash: [u8; HASH],
    arch: Arch,
    cubin: Option<Vec<u8>>,
    ptx: String,
}

impl Pack {
    /// Returns a pack without images.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a pack.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the bytes are not a pack of this version, or not a whole one.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let broken = || {
            Error::invalid("the pack of kernels is truncated or has been changed")
                .with_hint("write it again: `Pack::save`")
        };
        if !bytes.starts_with(MAGIC) {
            return Err(Error::invalid("the bytes are no pack of kernels of this version")
                .with_hint("write it again: `Pack::save`"));
        }
        let (contents, hash) = bytes.split_last_chunk::<HASH>().ok_or_else(broken)?;
        if Sha256::digest(contents)[..] != *hash {
            return Err(broken());
        }
        let mut reader = Reader(contents.get(MAGIC.len()..).ok_or_else(broken)?);
        let mut images = Vec::new();
        while !reader.0.is_empty() {
            images.push(reader.image().ok_or_else(broken)?);
        }
        Ok(Self { images })
    }

    /// Compiles a kernel for each architecture and adds the images. Launches with 2^32 elements or more in a slice need
    /// those of [`add_long`](Self::add_long).
    ///
    /// # Errors
    /// The error of NVRTC.
    pub fn add(&mut self, kernel: &Kernel, archs: &[Arch]) -> Result<()> {
        self.compile(kernel, archs, false)
    }

    /// Works like [`add`](Self::add), for launches with 2^32 elements or more in a slice.
    ///
    /// # Errors
    /// The error of NVRTC.
    pub fn add_long(&mut self, kernel: &Kernel, archs: &[Arch]) -> Result<()> {
        self.compile(kernel, archs, true)
    }

    fn compile(&mut self, kernel: &Kernel, archs: &[Arch], len64: bool) -> Result<()> {
        let source = source(kernel, len64);
        let hash = hash(&source);
        for arch in archs {
            let image = image(kernel, &source, *arch)?;
            let ptx = image.ptx.ok_or_else(|| Error::invalid("the compiler made no PTX"))?;
            let packed = Packed { hash, arch: image.arch, cubin: image.cubin, ptx };
            self.images.retain(|known| (known.hash, known.arch) != (hash, packed.arch));
            self.images.push(packed);
        }
        Ok(())
    }

    /// Returns whether the pack has an image of the kernel, as its source is now, that a device of this architecture can
    /// use.
    #[must_use]
    pub fn has(&self, kernel: &Kernel, arch: Arch) -> bool {
        self.find(&hash(&source(kernel, false)), arch).is_some()
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut field = |field: &[u8]| {
            bytes.extend((field.len() as u64).to_le_bytes());
            bytes.extend(field);
        };
        for image in &self.images {
            field(&image.hash);
            field(image.arch.to_string().as_bytes());
            field(image.cubin.as_deref().unwrap_or_default());
            field(image.ptx.as_bytes());
        }
        bytes.extend(Sha256::digest(&bytes));
        bytes
    }

    /// Writes the file, unless it has these bytes already. Returns whether it has changed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) names the file and the error of the system.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<bool> {
        let (path, bytes) = (path.as_ref(), self.to_bytes());
        if std::fs::read(path).is_ok_and(|known| known == bytes) {
            return Ok(false);
        }
        std::fs::write(path, bytes)
            .map_err(|error| Error::invalid(format!("writing {}: {error}", path.display())))?;
        Ok(true)
    }

    /// Returns the image for a device: its machine code, or else the PTX of the newest architecture that it can run.
    fn find(&self, hash: &[u8; HASH], device: Arch) -> Option<&Packed> {
        let own = self.images.iter().filter(|image| image.hash == *hash);
        let suitable = own.filter(|image| {
            let (major, minor) = image.arch.capability();
            let portable = [Arch::sm(major, minor), Arch::compute(major, minor)];
            image.arch == device
                || (portable.contains(&image.arch)
                    && image.arch.capability() <= device.capability())
        });
        suitable.max_by_key(|image| (image.arch == device, image.arch.capability()))
    }
}

/// Returns the image of the kernel's own pack, if it has one for the device.
pub(super) fn find(kernel: &Kernel, source: &Source, device: Arch) -> Result<Option<Image>> {
    let Some(bytes) = kernel.pack else { return Ok(None) };
    let pack = Pack::read(bytes)
        .map_err(|error| error.with_asked(format!("the pack of kernel `{}`", kernel.name)))?;
    let Some(packed) = pack.find(&hash(source), device) else { return Ok(None) };
    let mut image = Image::new(packed.arch);
    image.cubin = packed.cubin.clone().filter(|_| packed.arch == device);
    image.kernels = ptx::entries(&packed.ptx)
        .map_err(|error| Error::invalid(format!("the PTX of kernel `{}`: {error}", kernel.name)))?;
    image.ptx = Some(packed.ptx.clone());
    Ok(Some(image))
}

/// Returns the kernel's PTX for devices of this architecture and newer ones, compiled by NVRTC, for those who launch it by
/// other means. [`Kernel`] describes its parameters; the fault slot is a [`FaultSlot`](gpu_phases::kernel::FaultSlot) that
/// both sides see, zero before the launch.
///
/// # Errors
/// The error of NVRTC.
pub fn ptx(kernel: &Kernel, arch: Arch) -> Result<String> {
    let (major, minor) = arch.capability();
    let image = image(kernel, &source(kernel, false), Arch::compute(major, minor))?;
    image.ptx.ok_or_else(|| Error::invalid("the compiler made no PTX"))
}

/// Compiles the kernel for an architecture, for tests on machines without a device.
///
/// # Errors
/// The error of NVRTC.
pub fn check(kernel: &Kernel, arch: Arch) -> Result<()> {
    image(kernel, &source(kernel, false), arch).map(|_| ())
}

fn source(kernel: &Kernel, len64: bool) -> Source {
    let number = faults::hash(&[kernel.file, kernel.name, &(kernel.instance)()]);
    Source::of(kernel, number, len64)
}

fn image(kernel: &Kernel, source: &Source, arch: Arch) -> Result<Image> {
    source.program(kernel).compile(arch).map_err(|error| explained(error.into(), kernel))
}

/// Hashes all that the image depends on but the compiler and the architecture.
fn hash(source: &Source) -> [u8; HASH] {
    let mut hash = Sha256::new();
    hash.update([u8::from(source.len64)]);
    hash.update(source.text.as_bytes());
    hash.finalize().into()
}

/// Reads fields that begin with their length.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn field(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (field, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.field()?).ok()
    }

    fn image(&mut self) -> Option<Packed> {
        let hash = self.field()?.try_into().ok()?;
        let arch = self.text()?.parse().ok()?;
        let cubin = Some(self.field()?).filter(|cubin| !cubin.is_empty()).map(<[u8]>::to_vec);
        Some(Packed { hash, arch, cubin, ptx: self.text()?.to_owned() })
    }
}

//! Images of kernels that are compiled before a program is built, so that it needs no compiler where it runs.

use std::io::ErrorKind;
use std::path::Path;

use gpu_phases::kernel::Kernel;
use nvrtc::{Arch, Image};
use sha2::{Digest, Sha256};

use super::faults;
use super::load::{Source, explained};
use crate::error::{Error, Result};

/// The first bytes of a pack of any version, and the version.
const MAGIC: &[u8] = b"gpu-phases pack";
const VERSION: u8 = 2;

/// The bytes of a SHA-256.
const HASH: usize = 32;

/// Compiled kernels for the architectures of several devices, in a file that a program embeds.
///
/// A test of the crate that has the kernels writes the file, and [`embed_pack!`](super::embed_pack) embeds it:
///
/// ```no_run
/// use cuda_safe::kernel::{Pack, kernel::Kernel};
/// use cuda_safe::nvrtc::Arch;
///
/// # fn write(kernels: &[&Kernel]) -> cuda_safe::Result<()> {
/// let mut pack = Pack::open("kernels.pack")?;
/// for kernel in kernels {
///     // Compiles it if it is new or has changed.
///     pack.add(kernel, &[Arch::sm(9, 0), Arch::compute(7, 5)])?;
/// }
/// assert!(!pack.save("kernels.pack")?, "kernels.pack was old: build again, and commit it");
/// # Ok(()) }
/// ```
///
/// A launch looks for an image by a hash of the kernel's C++ and of the compiler's options. If the pack has none, NVRTC
/// compiles the kernel, as without a pack. The C++ depends on whether the profile checks overflows, so run the test in the
/// profile that is shipped; images of other profiles stay in the file.
///
/// A real architecture (`sm_90`) gives machine code for its devices and PTX; a virtual one (`compute_75`) gives PTX, which
/// the driver compiles for any newer device. Drivers refuse the PTX of a newer NVRTC than theirs, so use the oldest
/// release of NVRTC whose drivers the program supports: set `CUDA_NVRTC`.
#[derive(Debug, Clone, Default)]
pub struct Pack {
    /// The records of the file that was opened.
    known: Vec<Vec<u8>>,
    /// The records of the images that were added.
    images: Vec<Vec<u8>>,
}

/// An image in a file.
#[derive(Clone, Copy)]
struct Record<'a> {
    /// The hash of what was compiled.
    key: [u8; HASH],
    /// Whether overflows are checked.
    checks: bool,
    kernel: &'a str,
    arch: Arch,
    /// Empty if the architecture is virtual.
    cubin: &'a [u8],
    ptx: &'a [u8],
}

impl Pack {
    /// Returns a pack without images.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file, so that [`add`](Self::add) need not compile what is in it. A file that does not exist, one of another
    /// version and a damaged one count as empty.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the file cannot be read or is not a pack.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read
                .map_err(|error| Error::invalid(format!("reading {}: {error}", path.display())))?,
        };
        if !bytes.is_empty() && !bytes.starts_with(MAGIC) {
            return Err(Error::invalid(format!("{} is not a pack of kernels", path.display()))
                .with_hint("name a pack, an empty file, or a file that does not exist"));
        }
        let sealed = records(&bytes).unwrap_or_default();
        let whole = sealed.into_iter().filter(Sealed::is_whole);
        Ok(Self { known: whole.map(|sealed| sealed.bytes.to_vec()).collect(), images: Vec::new() })
    }

    /// Adds a kernel's images for these architectures. Compiles those that the opened file does not have, or has of
    /// another source. Launches with 2^32 elements or more in a slice need those of [`add_long`](Self::add_long).
    ///
    /// # Errors
    /// The error of NVRTC.
    pub fn add(&mut self, kernel: &Kernel, archs: &[Arch]) -> Result<()> {
        self.add_for(kernel, archs, false)
    }

    /// Works like [`add`](Self::add), for launches with 2^32 elements or more in a slice.
    ///
    /// # Errors
    /// The error of NVRTC.
    pub fn add_long(&mut self, kernel: &Kernel, archs: &[Arch]) -> Result<()> {
        self.add_for(kernel, archs, true)
    }

    fn add_for(&mut self, kernel: &Kernel, archs: &[Arch], len64: bool) -> Result<()> {
        let source = source(kernel, len64);
        let key = hash(&source);
        for arch in archs {
            let is_it = |bytes: &&Vec<u8>| {
                Record::read(bytes).is_some_and(|found| (found.key, found.arch) == (key, *arch))
            };
            if self.images.iter().any(|bytes| is_it(&bytes)) {
                continue;
            }
            let record = match self.known.iter().find(is_it) {
                Some(known) => known.clone(),
                None => {
                    let image = image(kernel, &source, *arch)?;
                    let record = Record {
                        key,
                        checks: (kernel.overflow_checks)(),
                        kernel: &full_name(kernel),
                        arch: *arch,
                        cubin: image.cubin.as_deref().unwrap_or_default(),
                        ptx: image.ptx.as_deref().unwrap_or_default().as_bytes(),
                    };
                    record.write()
                }
            };
            self.images.push(record);
        }
        Ok(())
    }

    /// Returns whether the pack has an image of the kernel, as its source is now, that a device of this architecture can
    /// use.
    #[must_use]
    pub fn has(&self, kernel: &Kernel, arch: Arch) -> bool {
        let all = self.known.iter().chain(&self.images);
        let records = all.filter_map(|bytes| Record::read(bytes));
        best(records, &hash(&source(kernel, false)), arch, |record| *record).is_some()
    }

    /// Returns the bytes of the file: the images that were added, and those of the opened file that are of other profiles.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let checks = |bytes: &Vec<u8>| Record::read(bytes).map(|record| record.checks);
        let other = |known: &&Vec<u8>| self.images.iter().all(|own| checks(own) != checks(known));
        let mut records: Vec<_> = self.known.iter().filter(other).chain(&self.images).collect();
        // The records are sorted, so that the order does not depend on which profile was added last.
        records.sort_by_key(|bytes| checks(bytes));
        let mut bytes = [MAGIC, &[VERSION], &(records.len() as u64).to_le_bytes()].concat();
        for record in records {
            put(&mut bytes, record);
            bytes.extend(Sha256::digest(record));
        }
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
}

/// Returns the image of the kernel's own pack, if it has one for the device.
pub(super) fn find(kernel: &Kernel, source: &Source, device: Arch) -> Result<Option<Image>> {
    let Some(pack) = kernel.pack else { return Ok(None) };
    let broken = || {
        let what = "is truncated, has been changed, or is of another version";
        Error::invalid(format!("the pack of kernels {} {what}", pack.path()))
            .with_asked(format!("kernel `{}`", kernel.name))
            .with_hint("run the test that writes it by `Pack::save`, and build again")
    };
    let records = records(pack.bytes()).ok_or_else(broken)?;
    let found = best(records, &hash(source), device, |sealed| sealed.record);
    let Some(Sealed { record, .. }) = found.as_ref() else { return Ok(None) };
    let ptx = std::str::from_utf8(record.ptx).ok();
    let ptx = ptx.filter(|_| found.as_ref().is_some_and(Sealed::is_whole)).ok_or_else(broken)?;
    let mut image = Image::new(record.arch);
    image.cubin = Some(record.cubin)
        .filter(|cubin| record.arch == device && !cubin.is_empty())
        .map(<[u8]>::to_vec);
    image.kernels = ptx::entries(ptx)
        .map_err(|error| Error::invalid(format!("the PTX of kernel `{}`: {error}", kernel.name)))?;
    image.ptx = Some(ptx.to_owned());
    Ok(Some(image))
}

/// Says what to do so that the kernel needs no compiler. Its pack has no image of it for the device.
pub(super) fn missing(kernel: &Kernel, source: &Source) -> String {
    let Some(pack) = kernel.pack else {
        return format!(
            "a released program needs no compiler if it embeds the image of kernel `{}`: see `cuda_safe::kernel::Pack`",
            kernel.name
        );
    };
    let name = full_name(kernel);
    let records = records(pack.bytes()).unwrap_or_default().into_iter().map(|found| found.record);
    let own: Vec<Record<'_>> = records.filter(|record| record.kernel == name).collect();
    let key = hash(source);
    let archs: Vec<String> =
        own.iter().filter(|own| own.key == key).map(|own| own.arch.to_string()).collect();
    let why = match (own.is_empty(), archs.is_empty()) {
        (true, _) => "does not have it: add it in the test that writes the pack".to_owned(),
        (_, true) => "has it of another source or of a profile with other checks: run the test that writes the pack in \
                      the profile of this program, as with `cargo test --release`"
            .to_owned(),
        _ => format!(
            "has it for {}, which this device cannot use: add its architecture in the test that writes the pack",
            archs.join(", ")
        ),
    };
    format!("kernel `{name}` needs no compiler if {} has it. It {why}", pack.path())
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
    Source::of(kernel, faults::number(kernel, &(kernel.instance)()), len64)
}

fn image(kernel: &Kernel, source: &Source, arch: Arch) -> Result<Image> {
    source.program(kernel).compile(arch).map_err(|error| explained(error.into(), kernel))
}

/// Returns the name of the kernel and its instance.
fn full_name(kernel: &Kernel) -> String {
    match (kernel.instance)() {
        instance if instance.is_empty() => format!("{}::{}", kernel.module, kernel.name),
        instance => format!("{}::{}::<{instance}>", kernel.module, kernel.name),
    }
}

/// Hashes all that the image depends on but the compiler and the architecture. Not the paths of files, which only messages
/// have: they differ between machines.
pub(super) fn hash(source: &Source) -> [u8; HASH] {
    let mut hash = Sha256::new();
    for flag in source.options().flags() {
        hash.update(flag);
        hash.update([0]);
    }
    for line in source.text.lines() {
        let without_file = line
            .strip_prefix("#line ")
            .and_then(|rest| rest.split_once(' '))
            .map_or(line, |(number, _)| number);
        hash.update(without_file);
        hash.update([0]);
    }
    for (name, text) in &source.headers {
        hash.update(name);
        hash.update([0]);
        hash.update(text);
        hash.update([0]);
    }
    hash.finalize().into()
}

/// Returns the record for a device: one with machine code for it, or else with the PTX of the newest architecture that it
/// can run.
fn best<'a, T>(
    records: impl IntoIterator<Item = T>,
    key: &[u8; HASH],
    device: Arch,
    record: impl Fn(&T) -> Record<'a>,
) -> Option<T> {
    let suitable = records.into_iter().filter(|found| {
        let Record { key: own, arch, .. } = record(found);
        let (major, minor) = arch.capability();
        let portable = [Arch::sm(major, minor), Arch::compute(major, minor)].contains(&arch);
        own == *key && (arch == device || (portable && arch.capability() <= device.capability()))
    });
    suitable.max_by_key(|found| {
        let arch = record(found).arch;
        (arch == device, arch.capability())
    })
}

/// A record in a file, with the hash that shows a change of its bytes.
struct Sealed<'a> {
    record: Record<'a>,
    bytes: &'a [u8],
    digest: &'a [u8],
}

impl Sealed<'_> {
    fn is_whole(&self) -> bool {
        Sha256::digest(self.bytes)[..] == *self.digest
    }
}

/// Returns the records of a file; an empty one has none. `None` if it is not a pack of this version, or not a whole one.
fn records(bytes: &[u8]) -> Option<Vec<Sealed<'_>>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut reader = Reader(bytes.strip_prefix(MAGIC)?.strip_prefix(&[VERSION])?);
    let count = reader.number()?;
    let mut records = Vec::new();
    while !reader.0.is_empty() {
        let bytes = reader.field()?;
        let digest = reader.take(HASH)?;
        records.push(Sealed { record: Record::read(bytes)?, bytes, digest });
    }
    (records.len() as u64 == count).then_some(records)
}

impl<'a> Record<'a> {
    fn write(&self) -> Vec<u8> {
        let mut bytes = self.key.to_vec();
        bytes.push(u8::from(self.checks));
        let arch = self.arch.to_string();
        for field in [self.kernel.as_bytes(), arch.as_bytes(), self.cubin, self.ptx] {
            put(&mut bytes, field);
        }
        bytes
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let record = Self {
            key: reader.take(HASH)?.try_into().ok()?,
            checks: reader.take(1)? == [1],
            kernel: std::str::from_utf8(reader.field()?).ok()?,
            arch: std::str::from_utf8(reader.field()?).ok()?.parse().ok()?,
            cubin: reader.field()?,
            ptx: reader.field()?,
        };
        reader.0.is_empty().then_some(record)
    }
}

/// Appends a field, which begins with its length.
fn put(bytes: &mut Vec<u8>, field: &[u8]) {
    bytes.extend((field.len() as u64).to_le_bytes());
    bytes.extend(field);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn field(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }
}

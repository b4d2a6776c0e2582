//! The output of a compile.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use ptx::Signature;

use crate::codec::{Reader, Writer};
use crate::linkage;
use crate::{Arch, CacheStatus, Diagnostic, Error, NvrtcVersion, Uncached};

/// A compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// The GPU's own code; `None` for a virtual architecture.
    pub cubin: Option<Vec<u8>>,
    /// The same program as PTX, which the driver can compile for any newer GPU; `None` for LTO-IR.
    pub ptx: Option<String>,
    /// LTO-IR, if [`Options::lto`](crate::Options::lto) asked for it.
    pub lto_ir: Option<Vec<u8>>,
    /// The kernels and their parameters; empty for LTO-IR.
    pub kernels: Vec<Signature>,
    /// Name expressions and their names in the image.
    pub lowered: Vec<(String, String)>,
    /// The compiler's log: warnings, usually nothing.
    pub log: String,
    /// The architecture that it was compiled for.
    pub arch: Arch,
    /// The compiler's version.
    pub version: NvrtcVersion,
    /// Whether it came from the cache.
    pub cache: CacheStatus,
    pub(crate) made: Made,
    /// Symbols of kernels with C linkage, and mangled names that state their types.
    pub(crate) instances: Vec<(String, String)>,
}

/// A hash of cubin and PTX as one compile has made them. It takes no part in comparisons.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Made(Option<u64>);

impl PartialEq for Made {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Made {}

impl Image {
    /// Returns whether cubin and PTX are those of one compile: no field was changed since. If not, the PTX says nothing
    /// of what the cubin does.
    #[must_use]
    pub fn is_one_program(&self) -> bool {
        self.made.0 == Some(self.hash())
    }

    /// Notes that cubin and PTX are those of one compile.
    pub(crate) fn made_by_compiler(mut self) -> Self {
        self.made = Made(Some(self.hash()));
        self
    }

    /// Hashes cubin and PTX with a key of the process: no program finds others with the same hash.
    fn hash(&self) -> u64 {
        static KEY: OnceLock<RandomState> = OnceLock::new();
        KEY.get_or_init(RandomState::new).hash_one((&self.cubin, &self.ptx))
    }

    /// Returns an image without contents, for code of other tools, such as a linker: set the fields that it has.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self {
            cubin: None,
            ptx: None,
            lto_ir: None,
            kernels: Vec::new(),
            lowered: Vec::new(),
            log: String::new(),
            arch,
            version: NvrtcVersion { major: 0, minor: 0 },
            cache: CacheStatus::Uncached(Uncached::Off),
            made: Made::default(),
            instances: Vec::new(),
        }
    }

    /// Returns the name in the image of a name expression: `_Z4axpyIfEvPT_` for `axpy<float>`.
    #[must_use]
    pub fn lowered(&self, expression: &str) -> Option<&str> {
        self.lowered.iter().find(|(e, _)| e == expression).map(|(_, name)| &**name)
    }

    /// Returns the kernel of this name, or of this name expression.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Signature> {
        let name = self.lowered(name).unwrap_or(name);
        self.kernels.iter().find(|k| k.name == name)
    }

    /// Returns the log's messages, as far as they were recognised.
    #[must_use]
    pub fn warnings(&self) -> Vec<Diagnostic> {
        crate::diagnostic::parse(&self.log)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(self.arch.to_string().as_bytes());
        writer.u32(self.version.major);
        writer.u32(self.version.minor);
        writer.optional(self.cubin.as_deref());
        writer.optional(self.ptx.as_deref().map(str::as_bytes));
        writer.optional(self.lto_ir.as_deref());
        writer.bytes(self.log.as_bytes());
        for pairs in [&self.lowered, &self.instances] {
            writer.count(pairs.len());
            for (expression, name) in pairs {
                writer.bytes(expression.as_bytes());
                writer.bytes(name.as_bytes());
            }
        }
        writer.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let arch = reader.text()?.parse().ok()?;
        let version = NvrtcVersion { major: reader.u32()?, minor: reader.u32()? };
        let cubin = reader.optional()?.map(<[u8]>::to_vec);
        let ptx = match reader.optional()? {
            Some(bytes) => Some(std::str::from_utf8(bytes).ok()?.to_owned()),
            None => None,
        };
        let lto_ir = reader.optional()?.map(<[u8]>::to_vec);
        let log = reader.text()?;
        let mut pairs = || -> Option<Vec<_>> {
            (0..reader.count()?).map(|_| Some((reader.text()?, reader.text()?))).collect()
        };
        let (lowered, instances) = (pairs()?, pairs()?);
        let kernels = signatures(ptx.as_deref(), &instances).ok()?;
        let (cache, made) = (CacheStatus::Hit, Made::default());
        let whole = reader.0.is_empty().then_some(Self {
            cubin,
            ptx,
            lto_ir,
            kernels,
            lowered,
            log,
            arch,
            version,
            cache,
            made,
            instances,
        });
        whole.map(Self::made_by_compiler)
    }
}

/// Returns the kernels of the image's PTX, if there is any, with the types that `instances` state.
pub(crate) fn signatures(
    ptx: Option<&str>,
    instances: &[(String, String)],
) -> Result<Vec<Signature>, Error> {
    let mut kernels = ptx.map(ptx::entries).transpose()?.unwrap_or_default();
    linkage::set_types(&mut kernels, instances);
    Ok(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_two_programs_is_known() {
        let image = |cubin: &[u8], ptx: &str| Image {
            cubin: Some(cubin.to_vec()),
            ptx: Some(ptx.to_owned()),
            ..Image::new(Arch::sm(8, 0))
        };
        assert!(!image(b"a", "b").is_one_program(), "nobody says so");
        let made = image(b"a", "b").made_by_compiler();
        assert!(made.is_one_program() && made.clone().is_one_program());
        assert_eq!(made, image(b"a", "b"));
        for changed in [
            Image { ptx: Some("c".to_owned()), ..made.clone() },
            Image { cubin: Some(b"c".to_vec()), ..made.clone() },
            Image { ptx: None, ..made.clone() },
            Image { cubin: None, ptx: made.ptx.clone(), ..made.clone() },
        ] {
            assert!(!changed.is_one_program(), "{changed:?}");
        }
        let stored = Image::decode(&made.encode());
        assert!(stored.is_none_or(|stored| stored.is_one_program()));
    }
}

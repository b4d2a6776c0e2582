//! PTX that a program embeds compressed.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use flate2::bufread::GzDecoder;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::module::{KernelSignatures, KernelSource, Module};

/// PTX text compressed with gzip, which is unpacked in memory when a module is loaded from it.
///
/// PTX shrinks to about a sixth, so a program that embeds its kernels is smaller. Compress the text with
/// `gzip -9n kernels.ptx`, or in a build script with a gzip encoder such as `flate2`, and embed the file with
/// [`include_bytes!`]. Make a constant or a static of each module: the linker then leaves out those that the program
/// does not use.
///
/// A `PackedPtx` is a [`KernelSource`], so [`kernels!`](crate::kernels) and [`Module::compile`] take it; with options
/// for the driver's compiler, pass [`ModuleImage::PackedPtx`](crate::ModuleImage::PackedPtx) to
/// [`Module::load_with`].
///
/// # Examples
/// ```
/// use std::io::Write;
///
/// use cuda_safe::PackedPtx;
/// use flate2::{Compression, write::GzEncoder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";
/// // Embedded: `PackedPtx::new("nothing", include_bytes!("nothing.ptx.gz"))`.
/// let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
/// encoder.write_all(text.as_bytes())?;
/// let packed = encoder.finish()?;
///
/// let module = PackedPtx::new("nothing", &packed);
/// assert_eq!(module.unpack()?, text);
///
/// // A file that is cut short is an error that names the module.
/// let cut = PackedPtx::new("nothing", &packed[..packed.len() - 1]);
/// assert!(cut.unpack().is_err_and(|error| error.to_string().contains("`nothing`")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct PackedPtx<'a> {
    name: &'a str,
    bytes: &'a [u8],
}

impl<'a> PackedPtx<'a> {
    /// The longest text that is unpacked, in bytes: 256 MiB.
    pub const MAX_TEXT_LEN: usize = 256 << 20;

    /// Names the bytes of a gzip file. They are first read by [`unpack`](Self::unpack) or when a module is loaded.
    ///
    /// Errors contain `name`; the driver never sees it.
    #[must_use]
    pub const fn new(name: &'a str, bytes: &'a [u8]) -> Self {
        Self { name, bytes }
    }

    /// Returns the name that errors contain.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the compressed bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Unpacks the text and checks it: the length and the CRC-32 that the gzip file states, and that it is UTF-8.
    ///
    /// At most the stated length is allocated, and nothing if that is more than [`Self::MAX_TEXT_LEN`] or more than the
    /// bytes can hold.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with the name and the reason if the bytes are not one whole,
    /// intact gzip file of a UTF-8 text, or the text is too long or does not fit in memory.
    pub fn unpack(&self) -> Result<String> {
        unpack(self.bytes).map_err(|reason| {
            Error::invalid(format!("packed PTX `{}`: {reason}", self.name)).with_hint(
                "the bytes must be one whole gzip file: pack the text again (`gzip -9n`), or \
                     rebuild the program if the file that it embeds is intact",
            )
        })
    }

    /// Adds the module's name to an error of the driver about the unpacked text.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        match error.asked() {
            Some(asked) => {
                let asked = format!("`{}`, {asked}", self.name);
                error.with_asked(asked)
            }
            None => error,
        }
    }
}

impl fmt::Debug for PackedPtx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedPtx")
            .field("name", &self.name)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl KernelSource for PackedPtx<'_> {
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        Module::from_packed_ptx(context, self)
    }

    fn signatures(self, arch: nvrtc::Arch, _: &[&str]) -> Result<KernelSignatures> {
        KernelSignatures::from_ptx(&self.unpack()?, arch)
    }
}

/// The fewest bytes of a gzip file: 10 of its header, and 8 at its end, the checksum and the length of the text.
const SHORTEST: usize = 18;

/// The most bytes of text for one compressed byte: deflate needs at least two bits for 258 bytes.
const MOST_FOR_A_BYTE: usize = 1032;

/// Unpacks a gzip file, or returns the reason why it can't be.
fn unpack(bytes: &[u8]) -> Result<String, Cow<'static, str>> {
    match *bytes {
        [0x1f, 0x8b, 8, ..] => {}
        [0x1f, 0x8b, method, ..] => {
            return Err(format!("gzip method {method} is unknown, only 8 (deflate) is").into());
        }
        _ => return Err("the bytes do not start as a gzip file (1f 8b)".into()),
    }
    let Some((body, &length)) = bytes.split_last_chunk().filter(|_| bytes.len() >= SHORTEST) else {
        return Err(format!("the gzip file is cut short after {} bytes", bytes.len()).into());
    };
    // A file that is cut short or corrupt may state any length.
    let length = u32::from_le_bytes(length) as usize;
    if length > PackedPtx::MAX_TEXT_LEN || length.div_ceil(MOST_FOR_A_BYTE) > body.len() {
        return Err(format!(
            "{} bytes state a text of {length} bytes: the file is cut short or corrupt, or the text \
             is longer than {} bytes",
            bytes.len(),
            PackedPtx::MAX_TEXT_LEN
        )
        .into());
    }
    let mut text = Vec::new();
    text.try_reserve_exact(length).map_err(|_| format!("no memory for {length} bytes of text"))?;
    // The decoder reads one byte more than stated, so that a longer text is detected; at its end it compares checksum
    // and length.
    let mut decoder = GzDecoder::new(bytes);
    let read = decoder.by_ref().take(length as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() != length {
        return Err(format!("the text is not of the stated length, {length} bytes").into());
    }
    let rest = decoder.into_inner().len();
    if rest > 0 {
        return Err(format!("{rest} bytes follow the gzip file").into());
    }
    String::from_utf8(text).map_err(|error| {
        format!("the text is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()).into()
    })
}

#[cfg(test)]
mod tests;

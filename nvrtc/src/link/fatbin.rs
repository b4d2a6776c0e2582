//! The image that a link takes of a fat binary.

use std::borrow::Cow;

use ptx::fatbin::{self, Entry, Fatbin};

use crate::Arch;
use crate::link::Kind;

/// Bytes at most of an image in a fat binary.
const MOST: usize = 1 << 30;

fn number(arch: Arch) -> u32 {
    let (major, minor) = arch.capability();
    major * 10 + minor
}

/// Returns the machine code for exactly this architecture.
fn machine_code<'f, 'a>(fatbin: &'f Fatbin<'a>, arch: Arch) -> Option<&'f Entry<'a>> {
    let number = number(arch);
    fatbin.entries().iter().find(|entry| {
        arch.is_real()
            && entry.kind == fatbin::Kind::Cubin
            && entry.arch.number == number
            && entry.arch.runs_on(number)
    })
}

/// Returns whether only a link with LTO-IR takes the fat binary as it was meant: there is LTO-IR for the architecture,
/// and no machine code. For a virtual architecture there must be no PTX either, because PTX links without nvJitLink.
pub(crate) fn wants_lto(bytes: &[u8], arch: Arch) -> bool {
    let Ok(fatbin) = Fatbin::parse(bytes) else { return false };
    let other = match arch.is_real() {
        true => machine_code(&fatbin, arch).is_some(),
        false => fatbin.ptx_for(number(arch)).is_ok(),
    };
    !other && fatbin.lto_ir_for(number(arch)).is_some()
}

/// Returns the image for the architecture and its kind. nvJitLink 13.0 reads fat binaries itself, but without checks:
/// some make it crash.
///
/// In a link with LTO-IR (`lto`) the LTO-IR comes first; else machine code for exactly this architecture, then PTX.
///
/// # Errors
/// The reason why there is no image.
pub(crate) fn image_of(
    bytes: &[u8],
    arch: Arch,
    lto: bool,
) -> Result<(Kind, Cow<'_, [u8]>), String> {
    let fatbin = Fatbin::parse(bytes).map_err(|error| error.to_string())?;
    let contents = |entry: &Entry<'_>| match entry.contents(MOST) {
        Ok(bytes) => Ok(Cow::Owned(bytes.into_owned())),
        Err(error) => Err(error.to_string()),
    };
    if let (Some(entry), true) = (fatbin.lto_ir_for(number(arch)), lto) {
        if !entry.is_encoded() {
            return Ok((Kind::LtoIr, contents(entry)?));
        }
        let alone = entry.alone().map_err(|error| error.to_string())?;
        return Ok((Kind::Fatbin, Cow::Owned(alone)));
    }
    if let Some(entry) = machine_code(&fatbin, arch) {
        return Ok((Kind::Cubin, contents(entry)?));
    }
    let entry = fatbin.ptx_for(number(arch)).map_err(|error| error.to_string())?;
    let text = entry.ptx(MOST).map_err(|error| error.to_string())?;
    Ok((Kind::Ptx, Cow::Owned(text.into_bytes())))
}

//! Texts compressed with gzip, such as packed PTX.

use std::io::{Error, Read, Write};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};

/// The number that gzip has for an unknown operating system.
const UNKNOWN: u8 = 255;

/// Packs a text. The bytes depend on the text and the version of the compressor alone: the header has no name and no time.
pub fn pack(text: &str) -> Result<Vec<u8>, Error> {
    let header = GzBuilder::new().mtime(0).operating_system(UNKNOWN);
    let mut encoder = header.write(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// Unpacks a text.
pub fn unpack(bytes: &[u8]) -> Result<String, Error> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_text_is_the_text_and_names_no_machine() -> Result<(), Error> {
        let text = ".version 8.0\n.target sm_75\n".repeat(9);
        let bytes = pack(&text)?;
        assert_eq!(bytes, pack(&text)?);
        // No optional fields, no time; the last byte of the header names no system.
        assert_eq!(bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[9], UNKNOWN);
        assert_eq!(unpack(&bytes)?, text);
        assert!(unpack(&bytes[..bytes.len() - 9]).is_err());
        Ok(())
    }
}

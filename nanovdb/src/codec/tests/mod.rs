//! Round trips, chunks that the reference implementation made, and hostile data.

#[cfg(feature = "codecs")]
mod golden;
#[cfg(feature = "codecs")]
mod hostile;
#[cfg(feature = "codecs")]
mod round;

use super::{Codec, CodecError, compress, decompress};

#[test]
fn numbers_name_codecs() {
    for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
        assert_eq!(Codec::from_code(codec.code()), Ok(codec));
    }
    for code in [3, 4, 255, 256, u16::MAX] {
        let error = Codec::from_code(code).unwrap_err();
        assert_eq!(error, CodecError::Unknown(code));
        assert!(error.to_string().contains(&code.to_string()), "{error}");
    }
}

#[test]
fn what_is_not_compressed_has_one_length() {
    let data = [1, 2, 3];
    assert_eq!(compress(Codec::None, &data).as_deref(), Ok(&data[..]));
    assert_eq!(decompress(Codec::None, &data, 3, 3).as_deref(), Ok(&data[..]));
    assert_eq!(decompress(Codec::None, &data, 2, 3), Err(CodecError::Trailing { used: 2, len: 3 }));
    assert_eq!(decompress(Codec::None, &data, 4, 9), Err(CodecError::Truncated("the grids")));
    let beyond = CodecError::Limit { len: 3, limit: 2 };
    assert_eq!(decompress(Codec::None, &data, 3, 2), Err(beyond));
}

#[cfg(not(feature = "codecs"))]
#[test]
fn codecs_that_are_not_built_in_are_named() {
    for codec in [Codec::Zip, Codec::Blosc] {
        assert_eq!(compress(codec, &[]), Err(CodecError::NotBuiltIn(codec)));
        let error = decompress(codec, &[], 0, 0).unwrap_err();
        assert_eq!(error, CodecError::NotBuiltIn(codec));
        assert!(error.to_string().contains(&codec.to_string()), "{error}");
    }
}

/// Returns a chunk with its size in front.
#[cfg(feature = "codecs")]
fn counted(chunk: &[u8]) -> Vec<u8> {
    [&(chunk.len() as u64).to_le_bytes(), chunk].concat()
}

#[cfg(feature = "codecs")]
fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).expect("a digit") as u8;
    text.as_bytes()
        .as_chunks()
        .0
        .iter()
        .map(|[high, low]| digit(*high) << 4 | digit(*low))
        .collect()
}

/// Returns the next of a sequence that looks random (G. Marsaglia, Xorshift RNGs, 2003).
#[cfg(feature = "codecs")]
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

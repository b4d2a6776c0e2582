//! The signatures of texts that NVRTC 12.0 and 13.0 wrote, with and without debug information.

use ptx::Class::{Bytes, Float, Int};
use ptx::mangled::{Pointee, Scalar, Type, parameters};

/// A kernel's name, and offset, size and class of each parameter.
type Expected = (&'static str, &'static [(usize, usize, ptx::Class)]);

const TEXTS: [(&str, &str); 4] = [
    ("12.0", include_str!("data/nvrtc_12_0.ptx")),
    ("12.0 debug", include_str!("data/nvrtc_12_0_debug.ptx")),
    ("13.0", include_str!("data/nvrtc_13_0.ptx")),
    ("13.0 debug", include_str!("data/nvrtc_13_0_debug.ptx")),
];

#[test]
fn every_version_gives_the_same_signatures() -> Result<(), ptx::Error> {
    let want: [Expected; 4] = [
        ("scale", &[(0, 4, Float), (8, 8, Int), (16, 8, Int)]),
        ("_Z4axpyfPKfPfm", &[(0, 4, Float), (8, 8, Int), (16, 8, Int), (24, 8, Int)]),
        (
            "_Z4fillIdEvPT_S0_bcs4Pair6float4",
            &[
                (0, 8, Int),
                (8, 8, Float),
                (16, 1, Int),
                (17, 1, Int),
                (18, 2, Int),
                (24, 16, Bytes),
                (48, 16, Bytes),
            ],
        ),
        ("_Z4nonev", &[]),
    ];
    for (version, text) in TEXTS {
        let mut found = ptx::entries(text)?;
        // The versions order a template's instances differently.
        found.sort_by_key(|s| want.iter().position(|(name, _)| *name == s.name));
        let got: Vec<(&str, Vec<_>)> = found
            .iter()
            .map(|s| {
                (s.name.as_str(), s.params.iter().map(|p| (p.offset, p.size, p.class())).collect())
            })
            .collect();
        let want: Vec<(&str, Vec<_>)> = want.iter().map(|(name, p)| (*name, p.to_vec())).collect();
        assert_eq!(got, want, "{version}");
    }
    Ok(())
}

#[test]
fn the_names_in_the_texts_state_what_the_source_said() {
    let pointer = |scalar, constant| Type::Pointer { pointee: Pointee::Scalar(scalar), constant };
    assert_eq!(
        parameters("_Z4axpyfPKfPfm"),
        [
            Type::Scalar(Scalar::F32),
            pointer(Scalar::F32, true),
            pointer(Scalar::F32, false),
            Type::Scalar(Scalar::ULong),
        ]
    );
    assert_eq!(
        parameters("_Z4fillIdEvPT_S0_bcs4Pair6float4"),
        [
            pointer(Scalar::F64, false),
            Type::Scalar(Scalar::F64),
            Type::Scalar(Scalar::Bool),
            Type::Scalar(Scalar::Char),
            Type::Scalar(Scalar::I16),
            Type::Named("Pair".into()),
            Type::Named("float4".into()),
        ]
    );
}

#[test]
fn every_cut_of_a_real_text_is_answered() {
    for (_, text) in TEXTS {
        for end in (0..text.len()).step_by(7).filter(|&end| text.is_char_boundary(end)) {
            let _ = ptx::entries(&text[..end]);
        }
    }
}

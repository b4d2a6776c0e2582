//! The generated tables: complete, sorted, consistent with each other.

use cuda_safe_sys::{
    CUresult, DRIVER_SYMBOLS, NARROW_SYMBOLS, NVRTC_SYMBOLS, PER_THREAD_SYMBOLS, nvrtcResult,
};

fn has_slot(name: &str) -> bool {
    DRIVER_SYMBOLS.iter().any(|symbol| symbol.name == name)
}

#[test]
fn symbols_are_sorted_and_unique() {
    for symbols in [DRIVER_SYMBOLS, NVRTC_SYMBOLS] {
        assert!(symbols.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}

#[test]
fn each_name_belongs_to_its_base() {
    for symbol in DRIVER_SYMBOLS {
        let rest = symbol.name.strip_prefix(symbol.base);
        let revision = rest.map(|rest| rest.is_empty() || rest.starts_with("_v"));
        assert_eq!(revision, Some(true), "{symbol:?}");
    }
}

#[test]
fn later_revisions_are_of_later_releases() {
    for pair in DRIVER_SYMBOLS.windows(2) {
        if pair[0].base == pair[1].base {
            assert!(pair[0].version < pair[1].version, "{pair:?}");
        }
    }
}

#[test]
fn releases_are_those_of_the_header() {
    // Each from NVIDIA's documentation of the release that introduced it.
    for (name, version) in [
        ("cuInit", 2000),
        ("cuMemAlloc_v2", 3020),
        ("cuCtxCreate_v2", 3020),
        ("cuCtxCreate_v3", 11040),
        ("cuCtxCreate_v4", 12050),
        ("cuMemAllocAsync", 11020),
        ("cuLaunchKernelEx", 11060),
        ("cuGetProcAddress", 11030),
        ("cuGetProcAddress_v2", 12000),
        ("cuGraphInstantiate_v2", 11000),
        ("cuGraphInstantiateWithFlags", 11040),
        ("cuFuncGetParamInfo", 12040),
    ] {
        let symbol = DRIVER_SYMBOLS.iter().find(|symbol| symbol.name == name);
        assert_eq!(symbol.map(|symbol| symbol.version), Some(version), "{name}");
    }
}

#[test]
fn old_and_per_thread_names_are_kept_apart() {
    for name in NARROW_SYMBOLS {
        assert!(!has_slot(name), "{name}");
        assert!(has_slot(&format!("{name}_v2")), "{name} has no successor");
    }
    for name in PER_THREAD_SYMBOLS {
        assert!(!has_slot(name), "{name}");
        let plain = name.strip_suffix("_ptds").or(name.strip_suffix("_ptsz"));
        assert!(plain.is_some_and(has_slot), "{name}");
    }
    assert!(NARROW_SYMBOLS.contains(&"cuMemAlloc"));
}

#[test]
fn every_code_is_described() {
    assert!(CUresult::ALL.len() > 90);
    for &code in CUresult::ALL {
        let name = code.name();
        assert!(name.is_some_and(|name| name.starts_with("CUDA_")), "{code:?}");
        let phrase = code.description();
        assert!(phrase.is_some_and(|phrase| (6..90).contains(&phrase.len())), "{name:?}");
    }
    for code in nvrtcResult::ALL {
        assert!(code.name().is_some_and(|name| name.starts_with("NVRTC_")), "{code:?}");
    }
}

#[test]
fn no_two_codes_share_a_description() {
    let mut phrases: Vec<_> = CUresult::ALL.iter().map(|code| code.description()).collect();
    phrases.sort_unstable();
    assert!(phrases.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn unknown_codes_are_values() {
    let code = CUresult(123_456);
    assert_eq!((code.name(), code.description()), (None, None));
    assert_eq!(code.to_string(), "CUDA error 123456");
    assert_eq!(nvrtcResult(77).to_string(), "NVRTC error 77");
    let known = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    assert_eq!(known.to_string(), "CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory");
    assert_eq!(format!("{known:?}"), "CUDA_ERROR_OUT_OF_MEMORY (2)");
    assert_eq!(format!("{code:?}"), "CUresult(123456)");
    let failed = nvrtcResult::NVRTC_ERROR_COMPILATION;
    assert_eq!(
        format!("{failed:?} {:?}", nvrtcResult(77)),
        "NVRTC_ERROR_COMPILATION (6) nvrtcResult(77)"
    );
}

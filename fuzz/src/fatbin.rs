//! Fat binaries.

use ptx::fatbin::{Entry, Fatbin, Kind};

use crate::within;

/// Bytes of an image that are unpacked at most.
const MOST: usize = 1 << 20;

/// For any bytes the headers are read or refused, an image takes no more memory than is allowed, and the chosen one is
/// PTX that the device runs.
///
/// # Panics
/// That does not hold.
pub fn fatbin(data: &[u8]) {
    // The zstd decoder has a window of up to 8 MiB, and reserves twice as much.
    within((40 << 20) + 16 * data.len(), || check(data));
}

fn check(data: &[u8]) {
    let fatbin = match Fatbin::parse(data) {
        Ok(fatbin) => fatbin,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let header: Option<&[u8; 16]> = data.first_chunk();
    let size = header.and_then(Fatbin::size);
    assert!(size.is_some_and(|size| size <= data.len() as u64), "{size:?}");
    // Many entries of one file may each stand for a megabyte.
    for entry in fatbin.entries().iter().take(64) {
        if let Ok(contents) = entry.contents(MOST) {
            assert!(contents.len() <= MOST.max(entry.stored.len()));
        }
        if let Ok(text) = entry.ptx(MOST) {
            assert!(entry.kind == Kind::Ptx && !text.ends_with('\0'));
        }
        if let Ok(alone) = entry.alone() {
            let again = Fatbin::parse(&alone).map(|again| again.entries().to_vec());
            let same = |again: &Entry<'_>| {
                (again.kind, again.arch, again.stored) == (entry.kind, entry.arch, entry.stored)
            };
            assert!(again.is_ok_and(|again| matches!(&again[..], [again] if same(again))));
        }
    }
    for device in [75, 90, 121] {
        let lto = fatbin.lto_ir_for(device);
        assert!(lto.is_none_or(|e| e.kind == Kind::LtoIr && e.arch.runs_on(device)));
    }
    for device in [0, 52, 75, 90, 103, 121, u32::MAX] {
        match fatbin.ptx_for(device) {
            Ok(chosen) => {
                assert!(chosen.kind == Kind::Ptx && chosen.arch.runs_on(device));
                let fitting = fatbin.entries().iter().filter(|e| e.kind == Kind::Ptx);
                let fitting = fitting.filter(|e| e.arch.runs_on(device));
                assert!(fitting.clone().all(|e| e.arch.number <= chosen.arch.number));
            }
            Err(missing) => {
                let option = format!("-gencode arch=compute_{device},code=compute_{device}");
                assert!(missing.to_string().ends_with(&option), "{missing}");
            }
        }
    }
}

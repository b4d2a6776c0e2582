//! Kernels that were compiled before: a program that embeds a pack needs no compiler.

use std::sync::Arc;

use cuda_safe::kernel::{EmbeddedPack, Pack, check, ptx};
use cuda_safe::nvrtc::Arch;
use cuda_safe::{Context, DeviceBuffer, ErrorKind, Result};
use gpu_phases::kernel::Kernel;

use crate::by_hand::{Float, GATHER, SAXPY, saxpy_of};
use crate::launches::changed;
use crate::turn;

const ARCHS: [Arch; 2] = [Arch::sm(9, 0), Arch::compute(7, 5)];

/// Saxpy with a pack.
fn packed(bytes: Vec<u8>) -> &'static Kernel {
    let mut kernel = changed("saxpy", SAXPY.write, SAXPY.params);
    // SAFETY: a pack has written the bytes, or they are what the loader refuses.
    let pack = unsafe { EmbeddedPack::new("some.pack", Box::leak(bytes.into_boxed_slice())) };
    kernel.pack = Some(Box::leak(Box::new(pack)));
    Box::leak(Box::new(kernel))
}

/// The same kernel as `packed` returns, which the packs are written with.
fn saxpy() -> &'static Kernel {
    packed(Vec::new())
}

fn run(kernel: &'static Kernel) -> Result<Vec<Float>> {
    let turn = turn();
    // A stream of a context of other code has its own kernels, so nothing is loaded that an earlier run has loaded.
    // SAFETY: the primary context stays: it is never closed here.
    let context =
        unsafe { Context::from_raw(turn.context.driver(), turn.context.as_raw(), Arc::new(())) }?;
    let stream = context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[Float(1.0), Float(2.0)])?;
    let mut out = DeviceBuffer::from_slice(&stream, &[Float(10.0); 2])?;
    saxpy_of(kernel, &stream, 3.0, &x, &mut out)?;
    out.to_vec(&stream)
}

#[test]
fn a_pack_is_written_and_read() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernels.pack");
    let mut pack = Pack::open(&path)?;
    let saxpy = saxpy();
    assert!(!pack.has(saxpy, Arch::sm(9, 0)));
    pack.add(saxpy, &ARCHS)?;
    pack.add(saxpy, &ARCHS)?;
    assert!(pack.has(saxpy, Arch::sm(9, 0)) && pack.has(saxpy, Arch::sm(8, 6)));
    assert!(!pack.has(saxpy, Arch::sm(7, 0)), "older than its PTX");
    assert!(!pack.has(&GATHER, Arch::sm(9, 0)));
    assert!(pack.save(&path)?, "there was no file");
    assert!(!pack.save(&path)?, "nothing has changed");
    let bytes = std::fs::read(&path).expect("the file");
    let mut again = Pack::open(&path)?;
    assert!(again.has(saxpy, Arch::sm(9, 0)));
    again.add(saxpy, &ARCHS)?;
    assert_eq!(again.to_bytes(), bytes);
    // What is not added again is dropped, unless it is of another profile.
    let mut checked = changed("saxpy", SAXPY.write, SAXPY.params);
    checked.overflow_checks = || true;
    let mut other = Pack::open(&path)?;
    other.add(&GATHER, &ARCHS[1..])?;
    assert!(other.to_bytes().len() < bytes.len());
    let mut other = Pack::open(&path)?;
    other.add_long(&checked, &ARCHS[1..])?;
    assert!(other.save(&path)?);
    let mut both = Pack::open(&path)?;
    assert!(both.has(saxpy, Arch::sm(9, 0)));
    both.add(saxpy, &ARCHS)?;
    assert!(!both.save(&path)?, "the order does not depend on the profile");
    assert!(pack.save(folder.path().join("no/such/folder")).is_err());
    assert_eq!(run(packed(bytes))?, [Float(13.0), Float(16.0)]);

    let note = folder.path().join("note.txt");
    std::fs::write(&note, "nothing but words").expect("a file");
    let error = Pack::open(&note).expect_err("no pack");
    assert!(error.to_string().contains("is not a pack"), "{error}");
    Ok(())
}

#[test]
fn images_of_long_launches_are_others() -> Result<()> {
    let mut pack = Pack::new();
    pack.add_long(saxpy(), &[Arch::compute(7, 5)])?;
    assert!(!pack.has(saxpy(), Arch::sm(9, 0)));
    assert_eq!(run(packed(pack.to_bytes()))?, [Float(13.0), Float(16.0)]);
    Ok(())
}

/// Wherever a pack is cut off or changed: the image is not used, or the launch fails.
#[test]
fn a_damaged_pack_is_never_launched() -> Result<()> {
    let mut pack = Pack::new();
    pack.add(&GATHER, &[Arch::compute(7, 5)])?;
    pack.add(saxpy(), &[Arch::compute(7, 5)])?;
    let bytes = pack.to_bytes();
    let good = [Float(13.0), Float(16.0)];
    assert_eq!(run(packed(bytes.clone()))?, good);
    let refused = |bytes: Vec<u8>, at: usize| {
        let error = run(packed(bytes)).expect_err("a damaged pack");
        assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{at}: {error}");
        assert!(error.to_string().contains("some.pack is truncated"), "{at}: {error}");
        assert!(error.to_string().contains("`saxpy`"), "{at}: {error}");
    };
    // The last record, of saxpy, begins after that of gather.
    let mut alone = Pack::new();
    alone.add(&GATHER, &[Arch::compute(7, 5)])?;
    let second = alone.to_bytes().len();
    for len in (1..bytes.len()).step_by(211).chain([8, 16, 24, second, bytes.len() - 1]) {
        refused(bytes[..len].to_vec(), len);
    }
    // Another version.
    refused([&bytes[..15], &[1], &bytes[16..]].concat(), 15);
    for at in (second + 8..bytes.len()).step_by(23) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        match at - second - 8 {
            // Of another key: NVRTC compiles the kernel.
            0..32 => assert_eq!(run(packed(changed))?, good, "{at}"),
            _ => refused(changed, at),
        }
    }
    // A damaged file is written again.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernels.pack");
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("a file");
    let mut again = Pack::open(&path)?;
    assert!(!again.has(saxpy(), Arch::sm(9, 0)));
    again.add(saxpy(), &[Arch::compute(7, 5)])?;
    assert!(again.save(&path)?);
    Ok(())
}

#[test]
fn a_pack_of_another_source_is_not_used() -> Result<()> {
    let mut pack = Pack::new();
    pack.add(&GATHER, &ARCHS)?;
    assert_eq!(run(packed(pack.to_bytes()))?, [Float(13.0), Float(16.0)]);
    Ok(())
}

#[test]
fn ptx_is_for_others() -> Result<()> {
    let text = ptx(&SAXPY, Arch::sm(8, 0))?;
    assert!(text.contains(".target sm_80") && text.contains(".entry phases_"), "{text}");
    check(&GATHER, Arch::sm(9, 0))
}

//! Kernels that were compiled before: a program that embeds a pack needs no compiler.

use std::process::Command;

use cuda_safe::kernel::{Pack, check, ptx};
use cuda_safe::nvrtc::Arch;
use cuda_safe::{DeviceBuffer, ErrorKind, Result};
use gpu_phases::kernel::Kernel;
use gpu_phases::trust::Trusted;

use crate::by_hand::{Float, GATHER, SAXPY, saxpy_of};
use crate::launches::changed;
use crate::turn;

const ARCHS: [Arch; 2] = [Arch::sm(9, 0), Arch::compute(7, 5)];

/// Saxpy with a pack.
fn packed(bytes: Vec<u8>) -> &'static Kernel {
    let mut kernel = changed("saxpy", SAXPY.write, SAXPY.params);
    kernel.pack = Some(Box::leak(bytes.into_boxed_slice()));
    // SAFETY: the pack has images of the kernel's text, or what the loader refuses.
    kernel.trusted = unsafe { Trusted::new() };
    Box::leak(Box::new(kernel))
}

fn run(kernel: &'static Kernel) -> Result<Vec<Float>> {
    let turn = turn();
    let stream = turn.context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[Float(1.0), Float(2.0)])?;
    let mut out = DeviceBuffer::from_slice(&stream, &[Float(10.0); 2])?;
    saxpy_of(kernel, &stream, 3.0, &x, &mut out)?;
    out.to_vec(&stream)
}

#[test]
fn a_pack_is_written_and_read() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernels.pack");
    let mut pack = Pack::new();
    assert!(!pack.has(&SAXPY, Arch::sm(9, 0)));
    pack.add(&SAXPY, &ARCHS)?;
    pack.add(&SAXPY, &ARCHS)?;
    assert!(pack.has(&SAXPY, Arch::sm(9, 0)) && pack.has(&SAXPY, Arch::sm(8, 6)));
    assert!(!pack.has(&SAXPY, Arch::sm(7, 0)), "older than its PTX");
    assert!(!pack.has(&GATHER, Arch::sm(9, 0)));
    assert!(pack.save(&path)?, "there was no file");
    assert!(!pack.save(&path)?, "nothing has changed");
    let bytes = std::fs::read(&path).expect("the file");
    assert_eq!(Pack::read(&bytes)?, pack);
    assert!(pack.save(folder.path().join("no/such/folder")).is_err());
    assert_eq!(run(packed(bytes))?, [Float(13.0), Float(16.0)]);
    Ok(())
}

#[test]
fn a_damaged_pack_is_an_error() -> Result<()> {
    let mut pack = Pack::new();
    pack.add(&SAXPY, &[Arch::compute(7, 5)])?;
    let bytes = pack.to_bytes();
    for len in (0..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
        assert!(Pack::read(&bytes[..len]).is_err(), "{len}");
    }
    for at in (0..bytes.len()).step_by(37) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert!(Pack::read(&changed).is_err(), "{at}");
    }
    let mut changed = bytes;
    changed[100] ^= 1;
    let error = run(packed(changed)).expect_err("a damaged pack");
    assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    assert!(error.to_string().contains("`saxpy`"), "{error}");
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
fn without_a_compiler_a_pack_is_enough() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernels.pack");
    let mut pack = Pack::new();
    pack.add(&SAXPY, &ARCHS)?;
    pack.save(&path)?;
    for (with, expected) in [("with", true), ("without", false)] {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "packs::child", "--ignored", "--nocapture"]);
        child.env("PHASES_PACK", &path).env("PHASES_PACKED", with);
        child.env("CUDA_NVRTC", folder.path().join("none"));
        for variable in ["HOME", "XDG_CACHE_HOME"] {
            child.env(variable, folder.path());
        }
        let output = child.output().expect("a child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), expected, "{text}");
        assert!(expected || text.contains("cuda_safe::kernel::Pack"), "{text}");
    }
    Ok(())
}

/// Launches in a process that finds no compiler.
#[test]
#[ignore = "run by `without_a_compiler_a_pack_is_enough`"]
fn child() -> Result<()> {
    let path = std::env::var_os("PHASES_PACK").expect("the parent sets it");
    let bytes = std::fs::read(path).expect("the parent has written it");
    let kernel = match std::env::var("PHASES_PACKED").as_deref() {
        Ok("with") => packed(bytes),
        _ => &SAXPY,
    };
    assert_eq!(run(kernel)?, [Float(13.0), Float(16.0)]);
    Ok(())
}

#[test]
fn ptx_is_for_others() -> Result<()> {
    let text = ptx(&SAXPY, Arch::sm(8, 0))?;
    assert!(text.contains(".target sm_80") && text.contains(".entry phases_"), "{text}");
    check(&GATHER, Arch::sm(9, 0))
}

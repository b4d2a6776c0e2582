//! Which forms of PTX the device loads, compared with those that ptxas takes, for each `.target` and `.version`:
//!
//! ```text
//! PTXAS=/usr/local/cuda/bin/ptxas cargo test --release -p cuda-emu --test exec -- --nocapture ptxas::
//! ```
//!
//! Without `PTXAS` nothing is compared, and the test says so. The tables in `src/exec/program/isa` agree with CUDA 13.0.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use ptx_gen::{UNIVERSE, expand, probe};

use crate::device::Device;

type Version = (u16, u16);

/// The versions, the newest first, up to the first one with addresses of 64 bits.
const VERSIONS: [Version; 34] = [
    (9, 0),
    (8, 8),
    (8, 7),
    (8, 6),
    (8, 5),
    (8, 4),
    (8, 3),
    (8, 2),
    (8, 1),
    (8, 0),
    (7, 8),
    (7, 7),
    (7, 6),
    (7, 5),
    (7, 4),
    (7, 3),
    (7, 2),
    (7, 1),
    (7, 0),
    (6, 5),
    (6, 4),
    (6, 3),
    (6, 2),
    (6, 1),
    (6, 0),
    (5, 0),
    (4, 3),
    (4, 2),
    (4, 1),
    (4, 0),
    (3, 2),
    (3, 1),
    (3, 0),
    (2, 3),
];

/// The targets that ptxas 13.0 knows, in ascending order.
const TARGETS: &str = "20 21 30 32 35 37 50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f \
                       110 110a 110f 120 120a 120f 121 121a 121f";

/// Forms beyond the generator's list: special registers, cache hints, orders, scopes and spellings.
const FORMS: &[&str] = &[
    "mov.u32 R, (%clock|%clock_hi|%pm0|%envreg0|%globaltimer_lo|%total_smem_size|%dynamic_smem_size|%aggr_smem_size)",
    "mov.u32 R, (%reserved_smem_offset_begin|%clusterid.x|%cluster_ctarank|%lanemask_lt|%laneid)",
    "mov.u64 W, (%clock64|%globaltimer|%current_graph_exec|%pm0_64)",
    "ld{|.global}{|.L1::no_allocate}.L2::cache_hint.b32 R, [%base], v",
    "st{|.global}{|.L1::no_allocate}.L2::cache_hint.b32 [%base], t, v",
    "{ld|st}.{shared|local}.L2::cache_hint.b32 R, [%base], v",
    "{ld|ld.global}.weak.b32 R, [%base]",
    "{st|st.global}.weak.b32 [%base], t",
    "{ld|ld.acquire.gpu|ld.volatile}.{local|const}.b32 R, [%base]",
    "atom{|.global}.add.L2::cache_hint.u32 R, [%base], t, v",
    "atom.{relaxed|acquire|release|acq_rel}.{cta|gpu|sys|cluster}{|.global|.shared}.add.u32 R, [%base], t",
    "red.{relaxed|release}.{cta|gpu|sys|cluster}{|.global|.shared}.add.u32 [%base], t",
    "cp.async.ca{.shared|.shared::cta}.global{|.L2::64B|.L2::128B|.L2::256B} [%base], [%base], 16(|, 8|, t|, p)",
    "cp.async.cg.shared.global.L2::cache_hint [%base], [%base], 16, v",
    "mbarrier.{arrive|arrive_drop}{|.release|.relaxed}{|.cta|.cluster}.shared.b64 _, [%base], 1",
    "mbarrier.{test_wait|try_wait}{|.acquire|.relaxed}{|.cta|.cluster}.shared.b64 P, [%base], v",
    "mbarrier.{expect_tx|complete_tx}{|.relaxed}{|.cta|.cluster}.shared.b64 [%base], 1",
    "{bar|barrier}{|.cta}.sync{|.aligned} 0",
    "createpolicy.fractional.L2::evict_last.b64 W(|, 0f3f800000)",
    "fence.{acquire.sync_restrict::shared::cluster|release.sync_restrict::shared::cta}.cluster",
    "{cvta|cvta.to|isspacep}.param::entry.u64 W, v",
    "membar.proxy.{alias|async}",
    "{and|or|xor|shl}.{b32|u32|s32} R, t, t",
    "{not|cnot|clz|popc|brev}.{b32|u32|s32} R, t",
    "cvt{|.rn|.rz}.{f16|bf16}.f32 H, t",
    "cvt{|.rn|.rz|.rni}{|.sat}.f32.f64 R, v",
    "cvt{|.rn|.rni}{|.sat}.{f64.f32|f64.u32|f64.s32} W, t",
    "cvt{|.rn|.rz|.rni|.rzi}{|.sat}.{f32.u32|f32.s32|u32.f32|s32.f32|f32.f32} R, t",
    "cvt{|.rn|.rz|.rni}.f64.{f16|bf16} W, h",
    "cvt{|.rn|.rni}.{f32|u32}.{f16|bf16} R, h",
    "cvt{|.rn|.rni}.{f16|bf16}.{f64|u64|s64} H, v",
    "cvt{|.rn|.rz|.rm|.rp|.rna|.rzi}{|.sat}.bf16.{u8|s8} H, (%byte|t|7)",
    "cvt{|.rn|.rni|.rzi|.rmi|.rpi}{|.sat}.{u8|s8}.bf16 (%byte|R), h",
    "{add|sub}{|.rn|.rz}{|.sat}.f32.{f16|bf16} R, h, t",
    "fma{|.rn|.rz}{|.sat}.f32.{f16|bf16} R, h, h, t",
    "{sin|cos|lg2|ex2}{|.approx}{|.ftz}.f32 R, t",
    "wmma.load.c.sync.aligned.row.m16n16k16.s32 {R, R, R, R, R, R, R, R}, [%base], t",
    "mma.sync.aligned.m16n8k16.row.col.f32.{e4m3|e5m2}.{e4m3|e5m2}.f32 {R, R, R, R}, {t, t}, {t}, {t, t, t, t}",
];

fn head((major, minor): Version, target: &str) -> String {
    format!(".version {major}.{minor}\n.target sm_{target}\n.address_size 64\n")
}

struct Ptxas {
    path: OsString,
    folder: tempfile::TempDir,
}

impl Ptxas {
    /// Returns for each form why ptxas refuses it. One text has all of them, a form on each line after the head.
    fn refused(&self, version: Version, target: &str, forms: &[&str]) -> Vec<Option<String>> {
        let mut refused: Vec<Option<String>> = vec![None; forms.len()];
        let old = target.parse::<u32>().is_ok_and(|number| number < 75);
        let arch = if old { "75" } else { target };
        let text = self.folder.path().join("forms.ptx");
        // Some errors hide others, so what is refused leaves the text until the rest is taken.
        loop {
            let mut lines = head(version, target);
            for (at, (form, why)) in forms.iter().zip(&refused).enumerate() {
                if why.is_none() {
                    lines.push_str(&probe(&format!("k{at}"), form).replace('\n', " "));
                }
                lines.push('\n');
            }
            fs::write(&text, lines).expect("a text");
            let output = Command::new(&self.path)
                .arg(format!("-arch=compute_{arch}"))
                .arg(&text)
                .arg("-o")
                .arg(self.folder.path().join("forms.cubin"))
                .output()
                .expect("ptxas runs");
            if output.status.success() {
                return refused;
            }
            let log = String::from_utf8_lossy(&output.stderr);
            let mut found = false;
            for (line, what) in log
                .lines()
                .filter_map(|line| line.split_once("forms.ptx, line ")?.1.split_once(';'))
            {
                if what.contains("warning") {
                    continue;
                }
                let at = line.parse::<usize>().ok().and_then(|line| line.checked_sub(4));
                match at.and_then(|at| refused.get_mut(at)) {
                    Some(why) => {
                        found |= why.is_none();
                        why.get_or_insert_with(|| what.trim().to_owned());
                    }
                    // The head itself.
                    None => return vec![Some(what.trim().to_owned()); forms.len()],
                }
            }
            assert!(found, "{version:?} sm_{target}: {log}");
        }
    }
}

/// Returns how the device differs from ptxas; what it loads and does not execute, it need not refuse.
fn difference(
    device: &Device,
    version: Version,
    target: &str,
    form: &str,
    ptxas: Option<&str>,
) -> Option<String> {
    let text = format!("{}{}", head(version, target), probe("k", form));
    let what = match (device.load(&text), ptxas) {
        (Ok(program), Some(why)) => {
            let entry = program.entry("k").expect("the kernel");
            program.refused(entry).is_none().then(|| format!("ptxas: {why}"))?
        }
        (Err(error), None) => format!("the device: {}", error.log),
        _ => return None,
    };
    Some(format!("{form}, {}.{}, sm_{target}: {what}", version.0, version.1))
}

/// The newest version has each target; the other versions have the forms whose least target it is.
#[test]
fn the_device_loads_the_forms_that_ptxas_takes() {
    let Some(path) = std::env::var_os("PTXAS") else {
        println!("not run: PTXAS names no ptxas");
        return;
    };
    let ptxas = Ptxas { path, folder: tempfile::tempdir().expect("a folder") };
    let forms: Vec<String> = UNIVERSE.iter().chain(FORMS).flat_map(|line| expand(line)).collect();
    let mut least: HashMap<&str, &str> = HashMap::new();
    let mut device = Device::new(1);
    let (mut compared, mut differences) = (0, Vec::new());
    for target in TARGETS.split_whitespace() {
        let number: u32 = target.trim_end_matches(['a', 'f']).parse().expect(target);
        device.info.cc = (number / 10, number % 10);
        for version in VERSIONS {
            let newest = version == VERSIONS[0];
            let is_asked = |form: &&str| newest || least.get(form) == Some(&target);
            let asked: Vec<&str> = forms.iter().map(String::as_str).filter(is_asked).collect();
            if asked.is_empty() {
                continue;
            }
            compared += asked.len();
            for (&form, why) in asked.iter().zip(ptxas.refused(version, target, &asked)) {
                if why.is_none() {
                    least.entry(form).or_insert(target);
                }
                differences.extend(difference(&device, version, target, form, why.as_deref()));
            }
        }
    }
    println!("{compared} texts of {} forms, {} differences", forms.len(), differences.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

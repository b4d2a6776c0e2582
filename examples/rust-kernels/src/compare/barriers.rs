//! The code of kernels over blocks beside that of their twins, without a device.

use cuda_safe::kernel::kernel::Kernel;
use cuda_safe::kernel::ptx;
use cuda_safe::nvrtc::{Arch, Program};
use rust_kernels::{compact, gemm, heat, histogram, reduction, scan, tiled, transpose};

use super::block_twins::SOURCE;

/// The lines of the first entry whose name begins so.
fn entry<'p>(ptx: &'p str, name: &str) -> Vec<&'p str> {
    let head = format!(".visible .entry {name}");
    let body = ptx.lines().map(str::trim).skip_while(|line| !line.starts_with(&head));
    body.take_while(|line| *line != "}").collect()
}

/// Returns the barriers in all, and those inside of loops: between a label and a branch back to it.
fn barriers(lines: &[&str]) -> (usize, usize) {
    let at_barrier = |line: &str| line.starts_with("bar.") || line.starts_with("barrier.");
    let inside = |at: usize| {
        lines[..at].iter().any(|line| {
            let Some(label) = line.strip_suffix(':') else { return false };
            let back = |line: &&str| line.contains("bra") && line.ends_with(&format!("{label};"));
            lines[at..].iter().any(back)
        })
    };
    let all: Vec<usize> = (0..lines.len()).filter(|at| at_barrier(lines[*at])).collect();
    (all.len(), all.iter().filter(|at| inside(**at)).count())
}

#[test]
fn loops_have_the_barriers_of_their_twins_and_no_local_memory() {
    let arch = Arch::compute(9, 0);
    let twins = Program::new(SOURCE).compile(arch).unwrap().ptx.unwrap();
    let kernels: &[(&str, &'static Kernel)] = &[
        ("reduction", reduction::reduction::kernel()),
        ("scan", scan::scan::kernel()),
        ("histogram", histogram::histogram::kernel()),
        ("transpose", transpose::transpose::kernel()),
        ("tiled", tiled::tiled::kernel()),
        ("gemm", gemm::gemm::kernel()),
        ("heat", heat::heat::kernel()),
        ("keep_less", compact::keep_less::kernel()),
    ];
    for (name, kernel) in kernels {
        let code = ptx(kernel, arch).unwrap();
        let (rust, twin) = (entry(&code, ""), entry(&twins, &format!("_Z{}{name}", name.len())));
        assert!(barriers(&rust).0 > 0, "{name} has no barrier");
        // A thread of its twin transposes what it has loaded itself.
        let more = usize::from(*name == "gemm");
        assert_eq!(barriers(&rust).1, barriers(&twin).1 + more, "barriers in the loops of {name}");
        assert!(!code.contains(".local"), "{name} uses local memory");
    }
}

//! miniBUDE's kernel beside its twin.

use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::{DeviceBuffer, kernels};
use rust_kernels::bude::{Atom, Kind, Pose, bude};
use rust_kernels_checked::bude::bude as checked;

use super::cases::Rows;
use super::{Bench, Case, Variant};
use crate::run::bude::Docking;

const SOURCE: &str = include_str!("bude.cu");

kernels! {
    struct Twin;
    // SAFETY: threads read poses below `n` and atoms below the lengths, and write energies below `n`. All threads of a
    // block meet its barriers. The caller promises atoms with indices of `kinds`, and arrays at multiples of 16 bytes.
    unsafe in SOURCE {
        unsafe fn bude(
            poses: &[Pose], kinds: &[Kind], ligand: &[Atom], atoms: u32 = ligand.len(), protein: &[Atom],
            protein_atoms: u32 = protein.len(), energies: &mut [f32], n: u32 = energies.len(),
        ) over (n + 255) / 256 * 64 by 64
            where poses.len() == n, atoms <= 64, protein_atoms < 2147483648, n < 2147483648;
    }
}

pub(super) fn measure(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let Docking { poses, kinds, ligand, protein } =
        Docking::new(bench.size(1 << 16, 200), bench.size(938, 70));
    let n = poses.len();
    let poses = DeviceBuffer::from_slice(on, &poses)?;
    let kinds = DeviceBuffer::from_slice(on, &kinds)?;
    let ligand = DeviceBuffer::from_slice(on, &ligand)?;
    let protein = DeviceBuffer::from_slice(on, &protein)?;
    let twin = Twin::load(&on.context())?;
    let program = Program::new(SOURCE).options(Options::new().fmad(false));
    // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
    let twin_plain = unsafe { Twin::load_from(&on.context(), program) }?;
    let row = Case::new(bench, "bude", n)
        .rust(Variant::Rust, bude::kernel(), |out| {
            bude::launch(on, &poses, &kinds, &ligand, &protein, out)
        })?
        .rust(Variant::Checked, checked::kernel(), |out| {
            let (kinds, ligand) = (kinds.as_slice().cast()?, ligand.as_slice().cast()?);
            checked::launch(on, &poses, kinds, ligand, protein.as_slice().cast()?, out)
        })?
        .other(Variant::Twin, twin.bude_kernel(), |out| {
            // SAFETY: `Docking` numbers kinds from 0 on, and whole buffers begin at multiples of 256 bytes.
            unsafe { twin.bude(on, &poses, &kinds, &ligand, &protein, out) }
        })?
        .other(Variant::TwinPlain, twin_plain.bude_kernel(), |out| {
            // SAFETY: as above.
            unsafe { twin_plain.bude(on, &poses, &kinds, &ligand, &protein, out) }
        })?
        .measure()?;
    Ok(vec![row])
}

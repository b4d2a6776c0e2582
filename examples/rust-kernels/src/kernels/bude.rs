//! The kernel of miniBUDE: energies of many poses of a ligand at a protein.

use bytemuck::{Pod, Zeroable};
use cuda_safe::kernel::{Device, device, kernel};

/// The most atoms of a ligand.
pub const LIGAND: usize = 64;

/// The atoms of the protein that a block has in shared memory.
const TILE: usize = 64;

/// The poses of a block: 4 of each thread.
const POSES: usize = 256;

/// A rotation and a translation: three rows of four numbers.
pub type Pose = [f32; 12];

/// An atom: its position, and the index of its kind.
#[derive(Debug, Clone, Copy, Device, Pod, Zeroable)]
#[repr(C)]
pub struct Atom {
    /// The position.
    pub x: f32,
    /// The position.
    pub y: f32,
    /// The position.
    pub z: f32,
    /// The index of the kind.
    pub kind: u32,
}

/// The parameters of a kind of atoms. Negative hydrophobicities are those of hydrophobic atoms.
#[derive(Debug, Clone, Copy, Device, Pod, Zeroable)]
#[repr(C)]
pub struct Kind {
    /// Atoms repel each other that are closer than the sum of their radii.
    pub radius: f32,
    /// How much the atom gains or loses by leaving the water.
    pub hydrophobicity: f32,
    /// The charge.
    pub charge: f32,
    /// [`FORMAL`], [`EITHER`], or another number.
    pub bond: u32,
}

/// Formal charges reach further than others.
pub const FORMAL: u32 = 1;

/// An atom that gives or takes a hydrogen bond: it attracts.
pub const EITHER: u32 = 2;

#[device(contract)]
impl Atom {
    const NONE: Self = Self { x: 0.0, y: 0.0, z: 0.0, kind: 0 };

    fn placed(self, pose: Pose) -> Self {
        Self {
            x: pose[3] + pose[0] * self.x + pose[1] * self.y + pose[2] * self.z,
            y: pose[7] + pose[4] * self.x + pose[5] * self.y + pose[6] * self.z,
            z: pose[11] + pose[8] * self.x + pose[9] * self.y + pose[10] * self.z,
            kind: self.kind,
        }
    }

    fn distance(self, other: Self) -> f32 {
        let (x, y, z) = (self.x - other.x, self.y - other.y, self.z - other.z);
        (x * x + y * y + z * z).sqrt()
    }
}

#[device]
impl Kind {
    const NONE: Self = Self { radius: 0.0, hydrophobicity: 0.0, charge: 0.0, bond: 0 };
}

/// What the energies of two atoms have in common at all distances.
#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Pair {
    radius: f32,
    by_radius: f32,
    charge: f32,
    charge_reach: f32,
    by_charge_reach: f32,
    solvation: f32,
    solvation_reach: f32,
    by_solvation_reach: f32,
}

/// The energy of two atoms at one place.
const HARDNESS: f32 = 76.0;

#[device(contract)]
impl Pair {
    fn new(ligand: Kind, protein: Kind) -> Self {
        let radius = ligand.radius + protein.radius;
        let formal = ligand.bond == FORMAL && protein.bond == FORMAL;
        let either = ligand.bond == EITHER || protein.bond == EITHER;
        let charge = 45.0 * ligand.charge * protein.charge;
        let charge_reach = if formal { 4.0 } else { 2.0 };
        let (l, p) = (ligand.hydrophobicity, protein.hydrophobicity);
        let some = p != 0.0 && (l < 0.0 || p < 0.0);
        let signs = if l * p < 0.0 { l.abs() + p.abs() } else { l + p };
        let both = l < 0.0 && p < 0.0;
        Self {
            radius,
            by_radius: 1.0 / radius,
            charge: if either { -charge.abs() } else { charge },
            charge_reach,
            by_charge_reach: if formal { 0.25 } else { 0.5 },
            solvation: if some { signs } else { 0.0 },
            solvation_reach: if both { 5.5 } else { 1.0 },
            by_solvation_reach: if both { 1.0 / 5.5 } else { 1.0 },
        }
    }

    fn energy(self, distance: f32) -> f32 {
        let gap = distance - self.radius;
        // Both sides of each `if` are short: without branches, in which the threads of a warp would part.
        let inside = gap < 0.0;
        let repulsion = if inside { HARDNESS * (1.0 - distance * self.by_radius) } else { 0.0 };
        let near_charge = 1.0 - gap * self.by_charge_reach;
        let near_solvation = 1.0 - gap * self.by_solvation_reach;
        let charge = if gap < self.charge_reach { near_charge } else { 0.0 };
        let solvation = if gap < self.solvation_reach { near_solvation } else { 0.0 };
        let charge = if inside { 1.0 } else { charge };
        let solvation = if inside { 1.0 } else { solvation };
        repulsion + self.charge * charge + self.solvation * solvation
    }
}

/// Adds up the energies of all atoms of the ligand, in each pose, with all atoms of the protein.
#[kernel(contract)]
pub fn bude(
    poses: &[Pose],
    kinds: &[Kind],
    ligand: &[Atom],
    protein: &[Atom],
    energies: &mut [f32],
) {
    assert!(poses.len() == energies.len() && ligand.len() <= LIGAND);
    assert!(protein.len() <= u32::MAX as usize);
    // Devices compare numbers of 32 bits by one instruction.
    let atoms = protein.len() as u32;
    blocks(Threads::<64>, chunks(energies, POSES), |block, mut energies| {
        let (first, last) = (energies.start(), poses.len() - 1);
        let mut ligand_atoms = block.shared([Atom::NONE; LIGAND]);
        let mut ligand_kinds = block.shared([Kind::NONE; LIGAND]);
        let mut tile = block.shared([Atom::NONE; TILE]);
        let mut tile_kinds = block.shared([Kind::NONE; TILE]);
        let mut pose = block.per_thread([[0.0f32; 12]; 4]);
        let mut energy = block.per_thread([0.0f32; 4]);

        block.each((&mut ligand_atoms, &mut ligand_kinds), |l, (atom, kind)| {
            if l < ligand.len() {
                *atom = ligand[l];
                *kind = kinds[atom.kind as usize];
            }
        });
        block.each(&mut pose, |t, pose| {
            for k in 0..4 {
                pose[k] = poses[(first + 4 * t + k).min(last)];
            }
        });
        for start in (0..atoms).step_by(TILE) {
            let count = (atoms - start).min(TILE as u32);
            block.each((&mut tile, &mut tile_kinds), |p, (atom, kind)| {
                if (p as u32) < count {
                    *atom = protein[start as usize + p];
                    *kind = kinds[atom.kind as usize];
                }
            });
            block.each((&mut energy, &mut pose), |_, (energy, pose)| {
                for l in 0..ligand.len() {
                    let (atom, kind) = (ligand_atoms[l], ligand_kinds[l]);
                    let mut placed = [Atom::NONE; 4];
                    for k in 0..4 {
                        placed[k] = atom.placed(pose[k]);
                    }
                    for p in 0..count {
                        // The remainder is `p`, and needs no check.
                        let p = p as usize % TILE;
                        let (other, pair) = (tile[p], Pair::new(kind, tile_kinds[p]));
                        for k in 0..4 {
                            energy[k] += pair.energy(placed[k].distance(other));
                        }
                    }
                }
            });
        }
        block.each((energies.rows(4), &mut energy), |_, (out, energy)| {
            for k in 0..4 {
                if k < out.len() {
                    out[k] = 0.5 * energy[k];
                }
            }
        });
    });
}

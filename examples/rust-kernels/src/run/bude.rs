use cuda_safe::DeviceBuffer;
use rust_kernels::bude::{Atom, EITHER, FORMAL, Kind, Pose, bude};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

/// What a ligand is docked to, and how.
pub(crate) struct Docking {
    pub(crate) poses: Vec<Pose>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) ligand: Vec<Atom>,
    pub(crate) protein: Vec<Atom>,
}

impl Docking {
    /// Returns as many random poses. The protein is a ball around the ligand.
    pub(crate) fn new(poses: usize, protein: usize) -> Self {
        let mut random = Random::new(18);
        let kinds = (0..30).map(|_| Kind {
            radius: 1.6 + 0.4 * random.float(),
            hydrophobicity: if random.below(3) == 0 { 0.0 } else { random.float() },
            charge: if random.below(2) == 0 { 0.0 } else { random.float() },
            bond: [0, 0, FORMAL, EITHER][random.below(4)],
        });
        let kinds = kinds.collect();
        let mut atoms = |count: usize, radius: f32| -> Vec<Atom> {
            let atom = |_| {
                let [x, y, z] = [0; 3].map(|_| radius * random.float());
                Atom { x, y, z, kind: random.below(30) as u32 }
            };
            (0..count).map(atom).collect()
        };
        let (ligand, protein) = (atoms(26, 3.0), atoms(protein, 12.0));
        let poses = (0..poses).map(|_| pose(&mut random)).collect();
        Self { poses, kinds, ligand, protein }
    }
}

/// Returns a rotation by three angles, and a translation.
fn pose(random: &mut Random) -> Pose {
    let angles = [0; 3].map(|_| std::f32::consts::PI * random.float());
    let [(sx, cx), (sy, cy), (sz, cz)] = angles.map(f32::sin_cos);
    let [x, y, z] = [0; 3].map(|_| 8.0 * random.float());
    [
        cy * cz,
        sx * sy * cz - cx * sz,
        cx * sy * cz + sx * sz,
        x,
        cy * sz,
        sx * sy * sz + cx * cz,
        cx * sy * sz - sx * cz,
        y,
        -sy,
        sx * cy,
        cx * cy,
        z,
    ]
}

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // No multiple of a block's poses, and no multiple of a tile's atoms.
    let Docking { poses, kinds, ligand, protein } =
        Docking::new(setting.size(4000, 270) + 1, setting.size(900, 70));
    let mut cpu = vec![0.0; poses.len()];
    bude::cpu(&poses, &kinds, &ligand, &protein, &mut cpu)?;

    let poses_device = DeviceBuffer::from_slice(stream, &poses)?;
    let kinds_device = DeviceBuffer::from_slice(stream, &kinds)?;
    let ligand_device = DeviceBuffer::from_slice(stream, &ligand)?;
    let protein_device = DeviceBuffer::from_slice(stream, &protein)?;
    let mut energies = DeviceBuffer::<f32>::zeroed(stream, poses.len())?;
    bude::launch(
        stream,
        &poses_device,
        &kinds_device,
        &ligand_device,
        &protein_device,
        &mut energies,
    )?;
    same(&cpu, &energies.to_vec(stream)?)?;

    let mut lowest = f32::INFINITY;
    for (pose, energy) in poses.iter().zip(&cpu) {
        let (mut sum, mut size) = (0.0, 0.0);
        for a in &ligand {
            let placed = placed(pose, a);
            for b in &protein {
                let term = oracle(placed, &kinds[a.kind as usize], b, &kinds[b.kind as usize]);
                sum += term;
                size += term.abs();
            }
        }
        close("an energy", f64::from(*energy), 0.5 * sum, size * 1e-5 + 1e-4)?;
        lowest = lowest.min(*energy);
    }
    Ok(format!("{} poses, the best has the energy {lowest:.1}", poses.len()))
}

fn placed(pose: &Pose, a: &Atom) -> [f64; 3] {
    let pose = pose.map(f64::from);
    let [x, y, z] = [a.x, a.y, a.z].map(f64::from);
    [0, 4, 8].map(|row| pose[row] * x + pose[row + 1] * y + pose[row + 2] * z + pose[row + 3])
}

/// The energy as a sum of three potentials, each a product of factors.
fn oracle(a: [f64; 3], of_a: &Kind, b: &Atom, of_b: &Kind) -> f64 {
    let [x, y, z] = [a[0] - f64::from(b.x), a[1] - f64::from(b.y), a[2] - f64::from(b.z)];
    let distance = (x * x + y * y + z * z).sqrt();
    let radius = f64::from(of_a.radius) + f64::from(of_b.radius);
    // 1 up to the radius, and then down to 0 at the reach.
    let fades = |reach: f64| (1.0 - (distance - radius).max(0.0) / reach).max(0.0);
    let repels = 76.0 * (1.0 - distance / radius).max(0.0);

    let product = 45.0 * f64::from(of_a.charge) * f64::from(of_b.charge);
    let attracts = [of_a.bond, of_b.bond].contains(&EITHER);
    let product = if attracts { -product.abs() } else { product };
    let formal = [of_a.bond, of_b.bond] == [FORMAL; 2];
    let charges = product * fades(if formal { 4.0 } else { 2.0 });

    let (l, p) = (f64::from(of_a.hydrophobicity), f64::from(of_b.hydrophobicity));
    let dry = [l, p].into_iter().filter(|of| *of < 0.0).count();
    // A hydrophobic atom at a hydrophilic one: both lose.
    let water = if l * p < 0.0 { l.abs() + p.abs() } else { l + p };
    let water = match dry {
        _ if p == 0.0 => 0.0,
        0 => 0.0,
        1 => water * fades(1.0),
        _ => water * fades(5.5),
    };
    repels + charges + water
}

use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::vector::Vec3;
use rust_kernels::nbody::{SOFT, nbody};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::bodies;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 14, 1 << 10);
    let positions = bodies(n);

    let mut cpu = vec![Vec3::ZERO; n];
    nbody::cpu(&positions, &mut cpu)?;

    let on_device = DeviceBuffer::from_slice(stream, &positions)?;
    let mut forces = DeviceBuffer::<Vec3>::zeroed(stream, n)?;
    nbody::launch(stream, &on_device, &mut forces)?;
    same(&cpu, &forces.to_vec(stream)?)?;

    // Some of the bodies in f64.
    let wide = |p: &Vec3| [p.x, p.y, p.z].map(f64::from);
    for i in (0..n).step_by(n.div_ceil(256)) {
        let (mut force, mut size) = ([0.0; 3], 0.0);
        for q in &positions {
            let (p, q) = (wide(&positions[i]), wide(q));
            let d = [q[0] - p[0], q[1] - p[1], q[2] - p[2]];
            let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + f64::from(SOFT);
            let pull = d.map(|d| d / (square * square.sqrt()));
            size += pull[0].abs() + pull[1].abs() + pull[2].abs();
            force.iter_mut().zip(pull).for_each(|(sum, pull)| *sum += pull);
        }
        for (value, oracle) in wide(&cpu[i]).into_iter().zip(force) {
            close(&format!("the force on body {i}"), value, oracle, size * 1e-5)?;
        }
    }
    Ok(format!("{n} bodies"))
}

use cuda_safe::DeviceBuffer;
use rust_kernels::integrate::{Oscillator, STEPS, integrate};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::oscillators;

const DT: f32 = 0.01;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 20, 1 << 14);
    let start = oscillators(n);

    let mut cpu = vec![Oscillator { position: 0.0, velocity: 0.0 }; n];
    integrate::cpu(DT, &start, &mut cpu)?;

    let on_device = DeviceBuffer::from_slice(stream, &start)?;
    let mut end = DeviceBuffer::<Oscillator>::zeroed(stream, n)?;
    integrate::launch(stream, DT, &on_device, &mut end)?;
    same(&cpu, &end.to_vec(stream)?)?;

    // The same steps in f64, and the energy, which only the damping takes.
    let energy = |x: f64, v: f64| v * v / 2.0 + x * x / 2.0 + x.powi(4) / 8.0;
    let (mut before, mut after) = (0.0, 0.0);
    for (start, end) in start.iter().zip(&cpu) {
        let dt = f64::from(DT);
        let (mut x, mut v) = (f64::from(start.position), f64::from(start.velocity));
        before += energy(x, v);
        for _ in 0..STEPS {
            v -= dt * (x + 0.5 * x * x * x + 0.1 * v);
            x += dt * v;
        }
        close("a position", f64::from(end.position), x, 1e-5)?;
        close("a velocity", f64::from(end.velocity), v, 1e-5)?;
        after += energy(f64::from(end.position), f64::from(end.velocity));
    }
    if !(after < before && after > 0.9 * before) {
        return Err(format!("the energy was {before} and is {after}").into());
    }
    Ok(format!(
        "{n} oscillators, {STEPS} steps, {:.2}% of the energy is left",
        after / before * 100.0
    ))
}

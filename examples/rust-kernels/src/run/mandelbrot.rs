use cuda_safe::DeviceBuffer;
use rust_kernels::mandelbrot::mandelbrot;

use super::{Setting, same};
use crate::Failure;

const LIMIT: u32 = 200;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // The size is no multiple of a block's.
    let width = setting.size(2049, 211);
    let height = width / 2 + 1;

    let mut cpu = vec![0; width * height];
    mandelbrot::cpu(width, height, LIMIT, &mut cpu)?;

    let mut counts = DeviceBuffer::<u32>::zeroed(stream, width * height)?;
    mandelbrot::launch(stream, width, height, LIMIT, &mut counts)?;
    same(&cpu, &counts.to_vec(stream)?)?;

    // In f64 points near the border may leave at another step.
    let mut other = 0;
    for (i, count) in cpu.iter().enumerate() {
        let (dx, dy) = (3.5 / width as f64, 2.0 / height as f64);
        let (a, b) = ((i % width) as f64 * dx - 2.5, (i / width) as f64 * dy - 1.0);
        let (mut re, mut im, mut n) = (0.0, 0.0, 0);
        while n < LIMIT && re * re + im * im <= 4.0 {
            (re, im) = (re * re - im * im + a, 2.0 * re * im + b);
            n += 1;
        }
        other += usize::from(n != *count);
        // The main cardioid and the disk on its left are inside.
        let q = (a - 0.25) * (a - 0.25) + b * b;
        let inside = q * (q + a - 0.25) < 0.249 * b * b || (a + 1.0) * (a + 1.0) + b * b < 0.0624;
        if inside && *count != LIMIT {
            return Err(format!("{a} + {b}i is inside, and left after {count} steps").into());
        }
    }
    if other * 50 > cpu.len() {
        return Err(format!("{other} of {} points are others than in f64", cpu.len()).into());
    }
    let inside = cpu.iter().filter(|count| **count == LIMIT).count();
    // The area is 1.5066, of which the picture shows almost all.
    let area = inside as f64 * 7.0 / cpu.len() as f64;
    if !(1.45..1.65).contains(&area) {
        return Err(format!("the area is {area} instead of 1.51").into());
    }
    Ok(format!("{width} x {height}, area {area:.3}, {other} points other than in f64"))
}

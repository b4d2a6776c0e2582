//! The Mandelbrot set.

use cuda_safe::kernel::kernel;

/// Counts the steps until each point has left the disk of radius 2, at most `limit`. The picture shows the real parts
/// from -2.5 to 1 and the imaginary parts from -1 to 1.
#[kernel(contract)]
pub fn mandelbrot(width: usize, height: usize, limit: u32, counts: &mut [u32]) {
    let (dx, dy) = (3.5 / width as f32, 2.0 / height as f32);
    each(image(counts, [width, height]), |[x, y], count| {
        let (a, b) = (x as f32 * dx - 2.5, y as f32 * dy - 1.0);
        let (mut re, mut im) = (0.0, 0.0);
        let mut n = 0;
        while n < limit && re * re + im * im <= 4.0 {
            let next = re * re - im * im + a;
            im = 2.0 * re * im + b;
            re = next;
            n += 1;
        }
        *count = n;
    });
}

//! Stencils of PolyBench's kind, as kernels over elements: neighbours are in the cache of the first level.

use cuda_safe::kernel::kernel;

/// Gives each element the sum of the 3 x 3 x 3 elements around it with their weights; elements at the faces become 0.
#[kernel(contract, min_blocks = 8)]
pub fn conv3d(
    width: usize,
    height: usize,
    depth: usize,
    weights: [f32; 27],
    x: &[f32],
    out: &mut [f32],
) {
    assert!(x.len() == width * height * depth);
    each(volume(out, [width, height, depth]), |[i, j, k], out| {
        let inside = i > 0 && j > 0 && k > 0 && i + 1 < width && j + 1 < height && k + 1 < depth;
        let mut sum = 0.0;
        if inside {
            let plane = width * height;
            let first = (k - 1) * plane + (j - 1) * width + i - 1;
            for c in 0..3 {
                for b in 0..3 {
                    let row = first + c * plane + b * width;
                    for a in 0..3 {
                        sum += weights[9 * c + 3 * b + a] * x[row + a];
                    }
                }
            }
        }
        *out = sum;
    });
}

/// Gives each element the mean of itself and its four neighbours; elements at the edges keep their values.
#[kernel]
pub fn jacobi2d(width: usize, height: usize, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == width * height);
    each(image(out, [width, height]), |[i, j], out| {
        let at = j * width + i;
        let inside = i > 0 && j > 0 && i + 1 < width && j + 1 < height;
        *out = if inside {
            0.2 * (x[at] + x[at - 1] + x[at + 1] + x[at + width] + x[at - width])
        } else {
            x[at]
        };
    });
}

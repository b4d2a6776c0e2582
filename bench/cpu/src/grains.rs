//! A frame of `examples/dem`: 64 time steps of 3,456 grains, whose neighbours are listed in every fourth.

use std::mem::swap;

use cuda_safe::kernel::vector::Vec4;
use geom_kernels::hash_grid::{GridOptions, Pairs};
use geom_kernels::structures::HashGrid;
use geom_kernels::structures::hash_grid::GridQueries;

use crate::step;
use crate::work::{Random, Work};

const SIDE: usize = 12;
const N: usize = SIDE * SIDE * 24;

/// Creates the row. Every run begins with the same grains.
pub(crate) fn frame(
    save: &dyn Fn(&str, &[u8]) -> std::io::Result<()>,
) -> Result<Work, Box<dyn std::error::Error>> {
    let mut random = Random(11);
    let place = |i: usize| {
        let jitter = random.point(0.005);
        let lattice = [i % SIDE, i / (SIDE * SIDE), i / SIDE % SIDE].map(|n| 0.2 * n as f32);
        Vec4::new(lattice[0] + jitter[0], 0.1 + lattice[1] + jitter[1], lattice[2] + jitter[2], 0.0)
    };
    let x: Vec<Vec4> = (0..N).map(place).collect();
    save("grains", bytemuck::cast_slice(&x))?;
    let v = vec![Vec4::new(0.0, 0.0, 15.0, 0.0); N];
    let (mut offsets, mut lists) = (vec![0u64; N + 1], vec![0u32; 32 * N]);
    let mut grid = HashGrid::new(GridOptions::default())?;
    grid.reserve(N)?;
    let mut run = move || -> cuda_safe::Result<f32> {
        let (mut now, mut old) = ((x.clone(), v.clone()), x.clone());
        let mut next = now.clone();
        for number in 0..64 {
            if number % 4 == 0 {
                old.clone_from(&now.0);
                let points: Vec<[f32; 3]> = old.iter().map(|x| x.xyz().to_array()).collect();
                grid.rebuild(&points, step::REACH)?;
                let others = GridQueries::at_grid_points(step::REACH).pairs(Pairs::Others);
                grid.neighbor_lists_into(&others, &mut offsets, &mut lists)?;
            }
            let ((x, v), (next_x, next_v)) = (&now, &mut next);
            step::step::cpu(x, v, &old, &offsets, &lists, next_x, next_v)?;
            swap(&mut now, &mut next);
        }
        Ok(now.0.iter().map(|x| x.y).sum::<f32>() / N as f32)
    };
    let height = run()?;
    save("grains_expected", bytemuck::bytes_of(&height))?;
    Ok(Work { name: "dem frame", ours: Box::new(move || run().map(|_| ())), parry: None })
}

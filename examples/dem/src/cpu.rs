//! The simulation on a machine without a device: the same kernels, on all cores.

use std::{error::Error, mem::swap, time::Instant};

use cuda_safe::kernel::vector::Vec4;
use geom_kernels::hash_grid::{GridOptions, Pairs};
use geom_kernels::structures::{HashGrid, hash_grid::GridQueries};

use crate::{picture::Camera, step};

/// Positions and velocities of grains.
type Grains = (Vec<Vec4>, Vec<Vec4>);

/// Simulates the grains of a block, and writes the pictures.
pub(crate) fn run(
    [layers, frames, side]: [usize; 3],
    mut now: Grains,
) -> Result<(), Box<dyn Error>> {
    let (mut next, mut old) = (now.clone(), now.0.clone());
    let (mut offsets, mut lists) = (vec![0u64; old.len() + 1], vec![0u32; 32 * old.len()]);
    let mut grid = HashGrid::new(GridOptions::default())?;
    grid.reserve(old.len())?;
    let camera = Camera::new([layers, side], 480);
    let mut seconds = 0.0;
    for number in indicatif::ProgressIterator::progress(0..frames) {
        let start = Instant::now();
        for step in 0..64 {
            if step % 4 == 0 {
                old.clone_from(&now.0);
                rebuild(&mut grid, &old)?;
                let others = GridQueries::at_grid_points(step::REACH).pairs(Pairs::Others);
                grid.neighbor_lists_into(&others, &mut offsets, &mut lists)?;
            }
            let ((x, v), (next_x, next_v)) = (&now, &mut next);
            step::step::cpu(x, v, &old, &offsets, &lists, next_x, next_v)?;
            swap(&mut now, &mut next);
        }
        seconds += start.elapsed().as_secs_f64();
        rebuild(&mut grid, &now.0)?;
        camera.take_on_cpu(&grid, [&now.0, &now.1], number)?;
    }
    println!("{:.2} ms a frame", seconds * 1e3 / frames as f64);
    println!("pictures in target/dem");
    Ok(())
}

fn rebuild(grid: &mut HashGrid<f32>, x: &[Vec4]) -> cuda_safe::Result<()> {
    let points: Vec<[f32; 3]> = x.iter().map(|x| x.xyz().to_array()).collect();
    grid.rebuild(&points, step::REACH)
}

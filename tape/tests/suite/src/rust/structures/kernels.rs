//! Kernels that query structures.

#![allow(dead_code, reason = "the tests call the functions of the types of these names")]

use cuda_safe::kernel::{device, kernel};
use geom_kernels::Ray;
use geom_kernels::structures::{HashGrid, Mesh};

macro_rules! of_type {
    ($module:ident $t:ident) => {
        pub(super) mod $module {
            use cuda_safe::kernel::{device, kernel};
            use geom_kernels::structures::{HashGrid, Volume};
            use geom_kernels::volume::OnIndex;

            #[device]
            fn between(a: [$t; 3], b: [$t; 3]) -> [$t; 3] {
                [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
            }

            #[device]
            fn dot(a: [$t; 3], b: [$t; 3]) -> $t {
                a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
            }

            /// The density of SPH, the mean height that it weights, and the number of neighbours.
            #[kernel(gradient)]
            pub(in super::super) fn densities(
                grid: &HashGrid<$t>,
                h: $t,
                x: &[[$t; 3]],
                out: &mut [[$t; 3]],
            ) {
                assert!(x.len() == out.len());
                each(out, |i, out| {
                    let (mut density, mut height) = (0.0, 0.0);
                    for j in grid.neighbors(x[i], h) {
                        let d = between(x[i], x[j as usize]);
                        let inside = 4.0 - dot(d, d) / (h * h / 4.0);
                        density += inside * inside * inside;
                        height += inside * inside * inside * x[j as usize][2];
                    }
                    *out = [density, height / density, grid.count(x[i], h) as $t];
                });
            }

            /// The forces of contacts between grains.
            #[kernel(gradient)]
            pub(in super::super) fn contacts(
                grid: &HashGrid<$t>,
                stiffness: $t,
                reach: $t,
                x: &[[$t; 3]],
                v: &[[$t; 3]],
                out: &mut [[$t; 3]],
            ) {
                assert!(x.len() == out.len() && v.len() == out.len());
                each(out, |i, out| {
                    let mut force = [0.0; 3];
                    for j in grid.neighbors(x[i], reach) {
                        let j = j as usize;
                        if j == i {
                            continue;
                        }
                        let d = between(x[i], x[j]);
                        let distance = dot(d, d).sqrt();
                        let gap = reach - distance;
                        if gap > 0.0 {
                            let approach = dot(between(v[i], v[j]), d) / distance;
                            let push = stiffness * gap * gap - gap * gap * approach;
                            for k in 0..3 {
                                force[k] += push * d[k] / distance;
                            }
                        }
                    }
                    *out = force;
                });
            }

            /// The mean velocity of neighbours, whose distances are only compared.
            #[kernel(gradient)]
            pub(in super::super) fn flock(
                grid: &HashGrid<$t>,
                reach: $t,
                x: &[[$t; 3]],
                v: &[[$t; 3]],
                out: &mut [[$t; 3]],
            ) {
                assert!(x.len() == out.len() && v.len() == out.len());
                each(out, |i, out| {
                    let mut mean = [0.0; 3];
                    for near in grid.near(x[i], reach) {
                        let weight = if near.distance_squared < 0.04 { 2.0 } else { 1.0 };
                        for k in 0..3 {
                            mean[k] += weight * v[near.index as usize][k];
                        }
                    }
                    let count = grid.count(x[i], reach) as $t;
                    for k in 0..3 {
                        mean[k] = mean[k] / count + 0.25 * v[i][k] * x[i][k];
                    }
                    *out = mean;
                });
            }

            /// Attractions to the nearest image of each neighbour.
            #[kernel(gradient)]
            pub(in super::super) fn attractions(
                grid: &HashGrid<$t>,
                reach: $t,
                x: &[[$t; 3]],
                out: &mut [[$t; 3]],
            ) {
                assert!(x.len() == out.len());
                each(out, |i, out| {
                    let mut sum = [0.0; 3];
                    for j in grid.neighbors(x[i], reach) {
                        let d = grid.nearest_image(between(x[i], x[j as usize]));
                        let inside = 1.0 - dot(d, d) / (reach * reach);
                        for k in 0..3 {
                            sum[k] += inside * inside * d[k];
                        }
                    }
                    *out = sum;
                });
            }

            /// Samples, and the slopes of two.
            #[kernel(gradient)]
            pub(in super::super) fn samples(
                volume: &Volume<$t>,
                x: &[[$t; 3]],
                out: &mut [[$t; 3]],
            ) {
                assert!(x.len() == out.len());
                each(out, |i, out| {
                    let p = volume.world_to_index(x[i]);
                    let (linear, cubic) = (volume.sample_trilinear(p), volume.sample_tricubic(p));
                    let sloped = volume.sample_trilinear_with_gradient(p);
                    let slope = volume.index_to_world_gradient(sloped.gradient);
                    let bent = volume.sample_tricubic_with_gradient(p);
                    let nearest = volume.sample_nearest(p);
                    *out = [
                        linear * nearest + cubic,
                        sloped.value * slope[0] + slope[1] * slope[2],
                        bent.value * bent.gradient[1] + bent.gradient[2],
                    ];
                });
            }

            #[kernel(gradient)]
            pub(in super::super) fn of_array(
                volume: &Volume<OnIndex>,
                values: &[$t],
                x: &[[$t; 3]],
                out: &mut [$t],
            ) {
                assert!(x.len() == out.len());
                each(out, |i, out| {
                    let p = volume.world_to_index(x[i]);
                    *out = volume.sample_trilinear_of(p, values, 0.5)
                        + 2.0 * volume.sample_tricubic_of(p, values, 0.5)
                        + 3.0 * volume.sample_nearest_of(p, values, 0.5);
                });
            }
        }
    };
}
of_type!(wide f64);
of_type!(narrow f32);

/// Energies of points, with those of others of their blocks.
#[kernel(gradient)]
pub(super) fn energies(grid: &HashGrid<f64>, reach: f64, x: &[[f64; 3]], out: &mut [f64]) {
    assert!(x.len() == out.len());
    blocks(Threads::<32>, chunks(out, 32), |block, mut out| {
        let first = out.start();
        let mut all = block.shared([0.0f64; 32]);
        block.each((&mut out, &mut all), |i, (out, all)| {
            let p = x[first + i];
            let mut sum = 0.0;
            for j in grid.neighbors(p, reach) {
                let q = x[j as usize];
                let d = [p[0] - q[0], p[1] - q[1], p[2] - q[2]];
                let inside = 1.0 - (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) / (reach * reach);
                sum += inside * inside;
            }
            *all = sum;
            *out = sum;
        });
        block.each(out, |i, out| *out *= all[31 - i] + all[(i + 1) % 32]);
    });
}

#[device]
fn height(mesh: &Mesh, x: [f32; 3]) -> f32 {
    mesh.signed_distance_by_parity(x, f32::INFINITY).map_or(0.0, |found| found.0)
}

#[kernel(gradient)]
pub(super) fn distances(mesh: &Mesh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = height(mesh, x[i]));
}

#[kernel(gradient)]
pub(super) fn closest(mesh: &Mesh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        *out = match mesh.closest_point(x[i]) {
            Some(found) => {
                let p = found.position;
                p[0] + 2.0 * p[1]
                    + 3.0 * p[2]
                    + found.distance_squared
                    + 4.0 * found.u
                    + 5.0 * found.v
            }
            None => 0.0,
        };
    });
}

#[kernel(gradient)]
pub(super) fn fixed(#[inactive] mesh: &Mesh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        *out = mesh.closest_point_within(x[i], 9.0).map_or(0.0, |found| found.distance_squared);
    });
}

#[kernel(gradient)]
pub(super) fn hits(mesh: &Mesh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let direction = [x[i][1], x[i][0], 1.0];
        let ray = Ray { origin: x[i], t_min: 0.0, direction, t_max: f32::INFINITY };
        if let Some(hit) = mesh.nearest_hit(&ray) {
            *out = hit.t + 2.0 * hit.u + 3.0 * hit.v;
        }
    });
}

/// Of the grid's own copy of the points.
#[kernel(gradient)]
pub(super) fn copies(grid: &HashGrid<f32>, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let mut sum = 0.0;
        for near in grid.near(x[i], 0.5) {
            sum += near.distance_squared;
        }
        *out = sum;
    });
}

/// Numbers of neighbours, which have no gradient.
#[kernel(gradient)]
pub(super) fn counts(grid: &HashGrid<f32>, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = grid.count(x[i], 0.5) as f32);
}

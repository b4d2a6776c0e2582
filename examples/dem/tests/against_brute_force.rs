//! The kernel of the simulation, on the software device, against all pairs of grains in f64: in every
//! substep of a frame the same contacts, and what they do to each grain.
//!
//! Without NVRTC the test is reported as ignored, with the reason in its name.

use std::error::Error;

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};
use libtest_mimic::{Arguments, Failed, Trial};

kernels! {
    // SAFETY: as in src/main.rs.
    unsafe in geom_kernels::program(include_str!("../src/dem.cu")).name("dem.cu") {
        safe fn step(now: &[Float4], old: &[Float4], offsets: &[u64], lists: &[u32], next: &mut [Float4],
            trouble: &mut [u32], n: u32) where 2 * n <= now.len(), n <= old.len(), n < offsets.len(),
            32 * n <= lists.len(), 2 * n <= next.len(), 1 <= trouble.len();
    }
}

/// 8 × 8 × 8 grains.
const N: usize = 512;
const REACH: f32 = 0.3375;

fn main() {
    let name = "every_substep_has_the_contacts_and_forces_of_all_pairs";
    let trial = match nvrtc::Nvrtc::find() {
        Ok(_) => Trial::test(name, || test().map_err(|error| Failed::from(error.to_string()))),
        Err(_) => {
            let name = format!("{name} (not run: `cargo xtask setup` first)");
            Trial::test(name, || Err("there is no NVRTC".into())).with_ignored_flag(true)
        }
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn test() -> Result<(), Box<dyn Error>> {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let kernels = Kernels::load(&context)?;
    let mut now = DeviceBuffer::from_slice(&stream, &block())?;
    let mut next = now.try_clone(&stream)?;
    let mut old = now.try_clone(&stream)?;
    let mut offsets = DeviceBuffer::<u64>::zeroed(&stream, N + 1)?;
    let mut lists = DeviceBuffer::<u32>::zeroed(&stream, 32 * N)?;
    let mut trouble = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let mut grid = HashGrid::new(&stream, &GeometryKernels::new(&context), GridOptions::default())?;
    let mut contacts = 0;
    for substep in 0..64 {
        if substep % 8 == 0 {
            old.copy_from(&stream, &now)?;
            grid.reserve(&stream, N)?;
            grid.rebuild(&stream, now.slice(..N)?, REACH)?;
            let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
            grid.neighbor_lists_into(&stream, &others, &mut offsets, &mut lists)?;
        }
        let launch = LaunchConfig::cover(N, 128);
        kernels.step(
            &stream,
            launch,
            &now,
            &old,
            &offsets,
            &lists,
            &mut next,
            &mut trouble,
            N as u32,
        )?;
        let (before, after) = (now.to_vec(&stream)?, next.to_vec(&stream)?);
        contacts +=
            compare(&before, &after).map_err(|what| format!("substep {substep}: {what}"))?;
        std::mem::swap(&mut now, &mut next);
    }
    if trouble.to_vec(&stream)? != [0] || contacts < 64 * N {
        return Err(format!("{contacts} contacts, trouble {:?}", trouble.to_vec(&stream)?).into());
    }
    // Where a grain is far from where it was listed, there is trouble.
    let far = DeviceBuffer::from_slice(&stream, &vec![Float4::new(1e3, 0.0, 0.0, 0.0); N])?;
    let launch = LaunchConfig::cover(N, 128);
    kernels.step(
        &stream,
        launch,
        &now,
        &far,
        &offsets,
        &lists,
        &mut next,
        &mut trouble,
        N as u32,
    )?;
    if trouble.to_vec(&stream)? != [1] {
        return Err("grains that moved far made no trouble".into());
    }
    Ok(())
}

/// A block half in the ground, so that all kinds of contacts are in it, that shears.
fn block() -> Vec<Float4> {
    let mut seed = 7u32;
    let mut place = |i: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.2 * i as f32 + 0.01 * (seed >> 8) as f32 / (1 << 24) as f32
    };
    let mut grains = Vec::new();
    for i in 0..N {
        grains.push(Float4::new(place(i % 8), place(i / 64), place(i / 8 % 8), 0.0));
    }
    grains.extend((0..N).map(|i| Float4::new(0.0, -1.0, (i / 64) as f32 - 4.0, 0.25)));
    grains
}

type Vector = [f64; 3];

fn wide(v: Float4) -> Vector {
    [v.x, v.y, v.z].map(f64::from)
}

fn add(a: Vector, b: Vector, scale: f64) -> Vector {
    std::array::from_fn(|c| a[c] + b[c] * scale)
}

fn dot(a: Vector, b: Vector) -> f64 {
    (0..3).map(|c| a[c] * b[c]).sum()
}

/// The force of a contact: the row `dem` of the benchmarks' workloads.
fn force(n: Vector, v: Vector, gap: f64, friction: f64, mu: f64) -> Vector {
    let vn = dot(n, v);
    let normal = gap * 8000.0 + vn.min(0.0) * 2.0;
    let vt = add(v, n, -vn);
    let vs = dot(vt, vt).sqrt();
    let along = if vs > 0.0 { (vs * friction).min(mu * normal.abs()) / vs } else { 0.0 };
    add(n.map(|x| -normal * x), vt, -along)
}

/// Compares a substep with all pairs; the number of contacts.
fn compare(before: &[Float4], after: &[Float4]) -> Result<usize, String> {
    let mut contacts = 0;
    for i in 0..N {
        let (x, v) = (wide(before[i]), wide(before[N + i]));
        let (mut sum, mut touching, mut undecided) = ([0.0; 3], 0.0, false);
        if before[i].y < 0.02 {
            sum = force([0.0, 1.0, 0.0], v, x[1], 100.0, 0.5);
        }
        for j in (0..N).filter(|j| *j != i) {
            let apart = add(x, wide(before[j]), -1.0);
            let distance = dot(apart, apart).sqrt();
            let n = apart.map(|x| x / distance);
            let relative = add(v, wide(before[N + j]), -1.0);
            // Where rounding decides: whether they touch, and whether a contact without pressure rubs.
            let pressure = (distance - 0.2) * 8000.0 + dot(n, relative).min(0.0) * 2.0;
            undecided |= (distance - 0.2075).abs() < 1e-6 || pressure.abs() < 2e-3;
            if distance <= 0.2075 {
                sum = add(sum, force(n, relative, distance - 0.2, 1.0, 1e5), 1.0);
                touching += 1.0;
            }
        }
        if undecided {
            continue;
        }
        if touching != f64::from(after[i].w) {
            return Err(format!("grain {i} touches {}, not {touching}", after[i].w));
        }
        contacts += touching as usize;
        let step = 1.0 / 60.0 / 64.0;
        let wanted_v = add(add(v, sum, 64.0 * step), [0.0, -9.8, 0.0], step);
        let wanted_x = add(x, wanted_v, step);
        let error = (0..3).map(|c| {
            let (found_x, found_v) = (wide(after[i]), wide(after[N + i]));
            (found_x[c] - wanted_x[c]).abs() + (found_v[c] - wanted_v[c]).abs()
        });
        // Gaps are known to some 1e-7 of 0.2, and weigh 8000 · 64 / 3840 = 133 times that in v.
        let error: f64 = error.sum();
        let is_near = error < 1e-3;
        if !is_near || after[N + i].w != before[N + i].w {
            return Err(format!(
                "grain {i} is wrong by {error}: {:?}, {:?}",
                after[i],
                after[N + i]
            ));
        }
    }
    Ok(contacts)
}

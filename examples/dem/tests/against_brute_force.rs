//! The kernel of the simulation, on the software device, against all pairs of grains in f64: in every
//! substep of a frame the same contacts, and what they do to each grain. Its twin in CUDA C++ does the same, and the CPU
//! has the same bits.
//!
//! Without NVRTC the test is reported as ignored, with the reason in its name.

use std::error::Error;

use cuda_safe::kernel::FaultKind;
use cuda_safe::kernel::vector::Vec4;
use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};
use libtest_mimic::{Arguments, Failed, Trial};

#[path = "../src/step.rs"]
mod step;
use step::REACH;

kernels! {
    struct Twin;
    // SAFETY: thread i writes what belongs to grain i, or by atomics; what comes from memory is bounded by n, or by
    // the room for lists, before it is an index.
    unsafe in geom_kernels::program(include_str!("step.cu")).name("step.cu") {
        safe fn step(now: &[Float4], old: &[Float4], offsets: &[u64], lists: &[u32], next: &mut [Float4],
            trouble: &mut [u32], n: u32) where 2 * n <= now.len(), n <= old.len(), n < offsets.len(),
            32 * n <= lists.len(), 2 * n <= next.len(), 1 <= trouble.len();
    }
}

/// 8 × 8 × 8 grains.
const N: usize = 512;

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
    let twin = Twin::load(&context)?;
    let [mut x, mut v] = block(&stream)?;
    let [mut next_x, mut next_v, mut old] =
        [x.try_clone(&stream)?, v.try_clone(&stream)?, x.try_clone(&stream)?];
    let mut offsets = DeviceBuffer::<u64>::zeroed(&stream, N + 1)?;
    let mut lists = DeviceBuffer::<u32>::zeroed(&stream, 32 * N)?;
    let mut grid = HashGrid::new(&stream, &GeometryKernels::new(&context), GridOptions::default())?;
    let mut contacts = 0;
    for substep in 0..64 {
        let what = |what| format!("substep {substep}: {what}");
        if substep % 8 == 0 {
            old.copy_from(&stream, &x)?;
            grid.reserve(&stream, N)?;
            grid.rebuild(&stream, &x, REACH)?;
            let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
            grid.neighbor_lists_into(&stream, &others, &mut offsets, &mut lists)?;
        }
        step::step::launch(&stream, &x, &v, &old, &offsets, &lists, &mut next_x, &mut next_v)?;
        let before = [x.to_vec(&stream)?, v.to_vec(&stream)?].concat();
        let after = [next_x.to_vec(&stream)?, next_v.to_vec(&stream)?].concat();
        contacts += compare(&before, &after).map_err(what)?;
        if substep % 8 == 7 {
            let on_cpu = on_cpu(&stream, &before, (&old, &offsets, &lists))?;
            let bits = |grains: &[Vec4]| bytemuck::cast_slice::<Vec4, u32>(grains).to_vec();
            if bits(&on_cpu) != bits(&after) {
                return Err(what("the CPU has other bits".to_owned()).into());
            }
            let other = by_twin(&twin, &stream, &before, (&old, &offsets, &lists))?;
            compare(&before, &other).map_err(what)?;
            same(&after, &other).map_err(what)?;
        }
        std::mem::swap(&mut x, &mut next_x);
        std::mem::swap(&mut v, &mut next_v);
    }
    if contacts < 64 * N {
        return Err(format!("{contacts} contacts").into());
    }
    // A grain that is far from where it was listed is a fault.
    let far = DeviceBuffer::from_slice(&stream, &vec![Vec4::new(1e3, 0.0, 0.0, 0.0); N])?;
    step::step::launch(&stream, &x, &v, &far, &offsets, &lists, &mut next_x, &mut next_v)?;
    let failed = stream.synchronize().is_err();
    let fault = context.take_fault().filter(|fault| fault.kind == FaultKind::Assert);
    if !failed || fault.is_none() {
        return Err("grains that moved far made no fault".into());
    }
    Ok(())
}

/// Returns the grains after a step on the CPU.
fn on_cpu(
    stream: &Stream,
    before: &[Vec4],
    (old, offsets, lists): (&DeviceBuffer<Vec4>, &DeviceBuffer<u64>, &DeviceBuffer<u32>),
) -> Result<Vec<Vec4>, Box<dyn Error>> {
    let (x, v) = before.split_at(N);
    let (old, mut next) = (old.to_vec(stream)?, before.to_vec());
    let (next_x, next_v) = next.split_at_mut(N);
    let (offsets, lists) = (offsets.to_vec(stream)?, lists.to_vec(stream)?);
    step::step::cpu(x, v, &old, &offsets, &lists, next_x, next_v)?;
    Ok(next)
}

/// Returns the grains after a step by the kernel in C++.
fn by_twin(
    twin: &Twin,
    stream: &Stream,
    before: &[Vec4],
    (old, offsets, lists): (&DeviceBuffer<Vec4>, &DeviceBuffer<u64>, &DeviceBuffer<u32>),
) -> Result<Vec<Vec4>, Box<dyn Error>> {
    let before: &[Float4] = bytemuck::cast_slice(before);
    let now = DeviceBuffer::from_slice(stream, before)?;
    let (mut next, old) = (now.try_clone(stream)?, old.as_slice().cast::<Float4>()?);
    let mut trouble = DeviceBuffer::<u32>::zeroed(stream, 1)?;
    let launch = LaunchConfig::cover(N, 128);
    twin.step(stream, launch, &now, old, offsets, lists, &mut next, &mut trouble, N as u32)?;
    if trouble.to_vec(stream)? != [0] {
        return Err("the twin reports trouble".into());
    }
    Ok(bytemuck::cast_slice(&next.to_vec(stream)?).to_vec())
}

/// Compares two results of a step. The compilers round differently.
fn same(rust: &[Vec4], twin: &[Vec4]) -> Result<(), String> {
    let mut compared = 0;
    for i in 0..N {
        // Rounding may decide whether two grains touch.
        if rust[i].w == twin[i].w {
            compared += 1;
            let error = rust[i].distance(twin[i]) + rust[N + i].distance(twin[N + i]);
            let is_near = error < 1e-4;
            if !is_near {
                return Err(format!("grain {i}: {:?}, not {:?}", rust[N + i], twin[N + i]));
            }
        }
    }
    let most = compared >= N - N / 50;
    if most { Ok(()) } else { Err(format!("{compared} grains have the same contacts")) }
}

/// The positions and velocities of a block half in the ground, so that all kinds of contacts are in it, that shears.
fn block(stream: &Stream) -> cuda_safe::Result<[DeviceBuffer<Vec4>; 2]> {
    let mut seed = 7u32;
    let mut place = |i: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.2 * i as f32 + 0.01 * (seed >> 8) as f32 / (1 << 24) as f32
    };
    let x = |i| Vec4::new(place(i % 8), place(i / 64), place(i / 8 % 8), 0.0);
    let v = |i| Vec4::new(0.0, -1.0, (i / 64) as f32 - 4.0, 0.25);
    let x: Vec<Vec4> = (0..N).map(x).collect();
    let v: Vec<Vec4> = (0..N).map(v).collect();
    Ok([DeviceBuffer::from_slice(stream, &x)?, DeviceBuffer::from_slice(stream, &v)?])
}

type Vector = [f64; 3];

fn wide(v: Vec4) -> Vector {
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
fn compare(before: &[Vec4], after: &[Vec4]) -> Result<usize, String> {
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

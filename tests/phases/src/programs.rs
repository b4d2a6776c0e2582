//! Generated programs: the CPU and the software device compute the same bits, or report the same fault.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_phases::kernel;
use gpu_phases::kernel::CpuError;

use crate::both;

/// Inputs with the extremes of each type.
fn inputs(count: usize) -> (Vec<i32>, Vec<u32>, Vec<f32>, Vec<f64>) {
    let ints = [0, 1, -1, i32::MAX, i32::MIN, 7, -8, 255];
    let floats = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 1e-310, -2.5];
    let mixed = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let small = |i: usize| (mixed(i) % 1000) as i32 - 500;
    let a = (0..count).map(|i| if i < 8 { ints[i] } else { small(i) }).collect();
    let b = (0..count).map(|i| if i < 8 { ints[7 - i] as u32 } else { mixed(i) as u32 }).collect();
    let c =
        (0..count).map(|i| if i < 8 { floats[i] as f32 } else { small(i) as f32 * 0.37 }).collect();
    let d = (0..count)
        .map(|i| if i < 8 { floats[7 - i] } else { f64::from(small(i + 3)) * 1.1 })
        .collect();
    (a, b, c, d)
}

/// How many elements were compared.
static COMPARED: AtomicUsize = AtomicUsize::new(0);

fn picked<T: Copy>(from: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|row| from[*row]).collect()
}

macro_rules! run {
    ($program:ident) => {{
        let (a, b, c, d) = inputs(300);
        if let Err((cpu, fault, _)) = both!($program(read a, read b, read c, read d, write vec![0u64; 300])) {
            let CpuError::Fault(cpu) = cpu else { panic!("{}: {cpu}", stringify!($program)) };
            let fault = fault.unwrap_or_else(|| panic!("{}: only the CPU fails: {cpu}", stringify!($program)));
            // Any thread that fails may be the one that is recorded.
            assert_eq!(fault.kernel, cpu.kernel);
        }
        // The results of the elements that do not fail.
        let mut rows: Vec<usize> = (0..300).collect();
        loop {
            let (a, b, c, d) = (picked(&a, &rows), picked(&b, &rows), picked(&c, &rows), picked(&d, &rows));
            match $program::cpu(&a, &b, &c, &d, &mut vec![0; rows.len()]) {
                Err(CpuError::Fault(fault)) => drop(rows.remove(fault.element[0] as usize)),
                other => {
                    other.unwrap();
                    both!($program(read a, read b, read c, read d, write vec![0u64; rows.len()])).unwrap();
                    break;
                }
            }
        }
        COMPARED.fetch_add(rows.len(), Ordering::Relaxed);
    }};
}

#[allow(
    unused,
    clippy::all,
    clippy::pedantic,
    overflowing_literals,
    arithmetic_overflow,
    unconditional_panic,
    reason = "the programs are random"
)]
mod generated {
    use gpu_phases::{Device, Int, Real, device};

    use super::*;

    #[derive(Clone, Copy, Device)]
    #[repr(C)]
    struct Duo<T: Real> {
        a: T,
        b: T,
    }

    #[device]
    impl<T: Real> Duo<T> {
        fn mixed<I: Int, const N: usize>(self, by: I) -> T {
            let parts = [self.a, self.b, T::from_f64(0.25), T::from_f64(by.to_i64() as f64)];
            let mut sum = T::default();
            let last = &parts[N - 2..];
            for part in last.iter() {
                sum += *part * self.b;
            }
            sum
        }
    }

    #[device(references)]
    impl<T: Real> std::ops::Add for Duo<T> {
        type Output = Self;

        fn add(self, other: Self) -> Self {
            Duo { a: self.a + other.b, b: other.a }
        }
    }

    #[device(references)]
    impl<T: Real> std::ops::Sub for Duo<T> {
        type Output = Self;

        fn sub(self, other: Self) -> Self {
            Duo { a: self.a - other.a, b: other.b - self.b }
        }
    }

    #[derive(Clone, Copy, Device)]
    enum Kind {
        Int(i32),
        Float { value: f64 },
        Nothing,
    }

    #[device]
    fn kind(is_int: bool, int: i32, value: f64) -> Kind {
        match int % 3 {
            0 if is_int => Kind::Int(int),
            1 => Kind::Nothing,
            _ => Kind::Float { value },
        }
    }

    #[device]
    fn first<T: device::Device>(value: Option<T>, taken: bool) -> Option<T> {
        let value = value?;
        if taken { Some(value) } else { None }
    }

    include!(concat!(env!("OUT_DIR"), "/programs.rs"));

    /// Runs them in processes whose streams work in different orders.
    #[test]
    fn programs_have_equal_bits() {
        let seeds = if crate::is_emulated() { 6 } else { 1 };
        for seed in 1..=seeds {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "programs::generated::child", "--ignored"]);
            let output = child.env("CUDA_EMU_SEED", seed.to_string()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "seed {seed}: {text}");
        }
    }

    #[test]
    #[ignore = "run by `programs_have_equal_bits`"]
    fn child() {
        run_all();
        let compared = COMPARED.load(Ordering::Relaxed);
        assert!(compared > PROGRAMS * 150, "most elements fail: {compared}");
    }
}

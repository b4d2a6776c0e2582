//! `println!`: the lines on the CPU and on the device are the same.

use std::process::Command;

use gpu_phases::{Device, device, kernel};

/// Which target a child process of the test runs.
const TARGET: &str = "PHASES_PRINTS_ON";

#[device]
fn shout<T: gpu_phases::Real>(x: T, n: u8) -> T {
    println!("half of {x} with {n} is {:.3}", x / T::from_f64(2.0));
    x + x
}

#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Point {
    x: f32,
}

#[device]
impl Point {
    fn show(&self, j: usize) -> f32 {
        println!("point {j} {}", self.x);
        self.x
    }
}

#[kernel]
fn prints(x: &[f32], y: &[f64], n: &[i64], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len() && n.len() == out.len());
    each(out, |i, out| {
        let at = &x[i];
        let small = n[i] as i8;
        println!(
            "100% {{of \"it\"}}\tü\\ {i}: {at} {0} {n}, {0:.2} {1}",
            y[i],
            small < 0,
            n = n[i]
        );
        println!("{} {} {:.0} {small} {}", n[i] as u64, shout(*at, n[i] as u8), at, i32::MIN);
        // The checks of this loop are deferred, and each line is printed once.
        let mut sum = 0.0;
        let point = Point { x: *at };
        for j in 0..3usize {
            sum += point.show(j) * x[(i + j * j) % 8];
        }
        for j in 0..4usize {
            let k = if i == 7 { j * 3 } else { j };
            println!("{i} {k} {}", x[k]);
            sum += x[k];
        }
        println!();
        *out = sum;
    });
}

/// Runs the kernel on one target, and returns the lines that it printed, in their order.
fn lines(target: &str) -> Vec<String> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "printing::child", "--nocapture", "--test-threads=1"])
        .env(TARGET, target)
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success(), "{text}\n{}", String::from_utf8_lossy(&child.stderr));
    let (_, text) = text.split_once("begin\n").unwrap();
    let (text, _) = text.split_once("end\n").unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn child() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let x = [0.1, -0.0, f32::NAN, f32::INFINITY, 1e-7, 16_777_216.0, 0.125, f32::MIN_POSITIVE];
    let y = [0.1, -1e300, -f64::NAN, f64::NEG_INFINITY, 1e17, 5e-324, 0.125, 1.0 / 3.0];
    let n = [0, -1, i64::MIN, i64::MAX, 7, 128, 255, -129];
    let mut out = [0.0; 8];
    println!("begin");
    if target == "cpu" {
        assert!(prints::cpu(&x, &y, &n, &mut out).is_err());
    } else {
        let stream = crate::stream();
        let x = cuda_safe::DeviceBuffer::from_slice(&stream, &x).unwrap();
        let y = cuda_safe::DeviceBuffer::from_slice(&stream, &y).unwrap();
        let n = cuda_safe::DeviceBuffer::from_slice(&stream, &n).unwrap();
        let mut out = cuda_safe::DeviceBuffer::<f32>::zeroed(&stream, 8).unwrap();
        prints::launch(&stream, &x, &y, &n, &mut out).unwrap();
        assert!(stream.synchronize().is_err());
    }
    println!("end");
}

#[test]
fn lines_are_the_same_on_both_targets() {
    let (cpu, device) = (lines("cpu"), lines("device"));
    assert!(cpu.contains(&"half of 0.100000001 with 0 is 0.050".to_owned()), "{cpu:#?}");
    assert!(cpu.iter().any(|line| {
        line.starts_with("100% {of \"it\"}\tü\\ 2: nan nan -9223372036854775808, nan")
    }));
    // The last element prints neither index 9, which is out of bounds, nor what comes after the loop.
    assert_eq!(cpu.len(), 8 * 11 - 2);
    assert_eq!(cpu, device);
}

//! Divergence of the lanes of a warp, in code of NVRTC 13.0, optimised and not.

use cuda_emu::exec::Program;

use crate::device::{Device, Shape, shape};
use crate::passed::{formed, inlined};

const TEXTS: [(&str, &str); 2] = [
    ("optimised", include_str!("../ptx/control.ptx")),
    ("debug", include_str!("../ptx/control_debug.ptx")),
];

/// Runs a check with both forms of the program, as they are and after passes of `ptx`, on one worker and on two.
fn each(check: impl Fn(&Device, &Program, &str)) {
    let passed = |(form, text): &(&str, &str)| {
        [
            (form.to_string(), text.to_string()),
            (format!("{form}, formed"), formed(text)),
            (format!("{form}, inlined"), inlined(text)),
        ]
    };
    for (form, text) in TEXTS.iter().flat_map(passed) {
        let (form, text) = (form.as_str(), text.as_str());
        for workers in [1, 2] {
            let device = Device::new(workers);
            let program = device.load(text).unwrap_or_else(|e| panic!("{form}: {e}"));
            for (name, entry) in program.entries() {
                assert_eq!(program.refused(entry), None, "{form}: {name}");
            }
            check(&device, &program, form);
        }
    }
}

fn inputs(n: usize) -> Vec<i32> {
    let mut x = 12345u32;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 20) as i32
        })
        .collect()
}

fn branches(input: &[i32], i: usize) -> Option<i32> {
    let mut x = input[i];
    let mut y = 0i32;
    if x & 1 != 0 {
        for k in 0..(x & 15) {
            if k == 7 {
                continue;
            }
            if (k ^ x) == 12 {
                break;
            }
            y = y.wrapping_add(k.wrapping_mul(x));
        }
    } else if x & 2 != 0 {
        let mut k = x & 31;
        while k > 0 {
            y ^= k;
            k -= if x & 4 != 0 { 2 } else { 1 };
        }
    } else {
        loop {
            y = y.wrapping_mul(3).wrapping_add(x);
            x >>= 1;
            if x == 0 {
                break;
            }
        }
    }
    Some(match input[i] % 9 {
        0 => y.wrapping_add(1),
        1 => y.wrapping_mul(2).wrapping_sub(3),
        2 => y.wrapping_sub(3),
        3 => !y,
        5 => y ^ 0x55,
        6 => y.wrapping_add(input[(i + 1) % input.len()]),
        7 => return None,
        8 => y << 1,
        _ => y.wrapping_neg(),
    })
}

#[test]
fn branches_loops_and_switches_meet_again() {
    let n = 1000;
    let input = inputs(n);
    each(|device, program, form| {
        let (a, b) = (device.upload(&input), device.upload(&vec![-77i32; n]));
        let args = [a, b, n as u64];
        device.launch(program, "branches", shape(4, 256), &args).expect(form);
        let got: Vec<i32> = device.download(b, n);
        for (i, &value) in got.iter().enumerate() {
            assert_eq!(value, branches(&input, i).unwrap_or(-77), "{form}: {i}");
        }
    });
}

/// The results of a kernel that writes one i32 for each of `n` threads of one block.
fn results(device: &Device, program: &Program, name: &str, n: usize) -> Vec<i32> {
    let out = device.upload(&vec![-1i32; n]);
    device
        .launch(program, name, shape(1, n as u32), &[out])
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    device.download(out, n)
}

#[test]
fn recursion_gives_each_lane_its_own_depth() {
    let fib = |n: usize| (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
    each(|device, program, form| {
        let got = results(device, program, "recursion", 96);
        for (i, &value) in got.iter().enumerate() {
            assert_eq!(value, fib(i % 13), "{form}: {i}");
        }
    });
}

#[test]
fn lanes_call_different_functions() {
    let f = |k: usize, a: i32, b: i32| [a + b, a - b, a * b][k % 3];
    each(|device, program, form| {
        let got = results(device, program, "pointers", 100);
        for (i, &value) in got.iter().enumerate() {
            let x = i as i32;
            assert_eq!(value, f(i, x, 7) + f(i / 3, x, 2), "{form}: {i}");
        }
        let got = results(device, program, "virtuals", 64);
        for (i, &value) in got.iter().enumerate() {
            let x = i as i32;
            assert_eq!(value, if i % 2 == 1 { x * x } else { x * 3 }, "{form}: {i}");
        }
    });
}

#[test]
fn structures_go_through_calls() {
    each(|device, program, form| {
        let got = results(device, program, "structs", 64);
        for (i, &value) in got.iter().enumerate() {
            let k = i % 5;
            let sum = (0..9).fold(0i32, |s, j| {
                let v = (i + (j + k) % 9) * k;
                s.wrapping_mul(7).wrapping_add(v as i32)
            });
            assert_eq!(value, sum, "{form}: {i}");
        }
    });
}

#[test]
fn lanes_of_a_warp_exchange_values() {
    let input = inputs(64);
    each(|device, program, form| {
        let (a, b) = (device.upload(&input), device.upload(&vec![0i32; 64 * 8]));
        device.launch(program, "warp", shape(1, 64), &[a, b]).expect(form);
        let got: Vec<i32> = device.download(b, 64 * 8);
        for i in 0..64usize {
            let (lane, first) = (i % 32, i / 32 * 32);
            let warp = &input[first..first + 32];
            let ballot = (0..32).fold(0u32, |b, l| b | u32::from(warp[l] & 1 != 0) << l);
            let same =
                (0..32).fold(0u32, |m, l| m | u32::from((warp[l] ^ warp[lane]) & 3 == 0) << l);
            let reduced: i32 = (0..32).filter(|l| same >> l & 1 != 0).map(|l| warp[l]).sum();
            let part = if warp[lane] & 1 != 0 {
                warp[ballot.trailing_zeros() as usize]
            } else {
                (!ballot).count_ones() as i32
            };
            let want = [
                warp.iter().sum(),
                if lane >= 3 { warp[lane - 3] } else { warp[lane] },
                if lane % 16 + 5 < 16 { warp[lane + 5] } else { warp[lane] },
                ballot as i32,
                same as i32,
                reduced,
                part,
                (u32::MAX as i32).wrapping_add(1),
            ];
            assert_eq!(got[i * 8..i * 8 + 8], want, "{form}: {i}");
        }
    });
}

#[test]
fn barriers_hold_the_block_together() {
    let (blocks, n) = (3usize, 256usize);
    let input: Vec<i32> = inputs(blocks * n).iter().map(|x| x % 50).collect();
    each(|device, program, form| {
        let (a, b) = (device.upload(&input), device.upload(&vec![0i32; blocks * n]));
        let dims = Shape { shared: n as u32 * 4, ..shape(blocks as u32, n as u32) };
        device.launch(program, "barriers", dims, &[a, b]).unwrap_or_else(|e| panic!("{form}: {e}"));
        let got: Vec<i32> = device.download(b, blocks * n);
        for block in 0..blocks {
            let x = &input[block * n..(block + 1) * n];
            let scan: Vec<i32> = x
                .iter()
                .scan(0, |s, v| {
                    *s += v;
                    Some(*s)
                })
                .collect();
            let odd = scan.iter().filter(|v| *v & 1 != 0).count() as i32;
            let or = i32::from(scan.contains(&12345));
            for i in 0..n {
                let mut want = scan[i] * 16 + odd + 4 + or * 2 - x[(i + 1) % n];
                want ^= i32::from(i == 0);
                assert_eq!(got[block * n + i], want, "{form}: block {block} thread {i}");
            }
        }
    });
}

#[test]
fn named_barriers_count_their_threads() {
    each(|device, program, form| {
        let out = device.upload(&[0i32; 32]);
        device.launch(program, "named", shape(1, 64), &[out]).expect(form);
        let got: Vec<i32> = device.download(out, 32);
        for (l, &value) in got.iter().enumerate() {
            assert_eq!(value, 600 + 4 * (31 - l as i32), "{form}: {l}");
        }
    });
}

#[test]
fn kernels_allocate_and_free() {
    each(|device, program, form| {
        let got = results(device, program, "heap", 64);
        for (i, &value) in got.iter().enumerate() {
            let n = (i % 7 + 1) as i32;
            assert_eq!(value, n * (n - 1) / 2 * i as i32, "{form}: {i}");
        }
        assert_eq!(device.heap.used(), 0, "{form}");
        // 8 MiB of heap hold seven pieces of 1 MiB and what each takes besides.
        let got = results(device, program, "heap_full", 64);
        assert_eq!(got.iter().sum::<i32>(), 7, "{form}");
        device.heap.clear(&device.space);
        assert_eq!(device.heap.used(), 0, "{form}");
    });
}

#[test]
fn kernels_print() {
    each(|device, program, form| {
        device.launch(program, "hello", shape(2, 2), &[7]).expect(form);
        let text = device.text();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let line = |b, t| format!("block {b} thread {t}:  3.50 text x 1234567890123 0x7 100%");
        let want = [line(0, 0), line(0, 1), line(1, 0), line(1, 1)];
        assert_eq!(lines, want, "{form}");
    });
}

#[test]
fn endless_recursion_overflows_the_stack() {
    each(|device, program, form| {
        let out = device.upload(&[0i32; 32]);
        let fault = device
            .launch(program, "endless_recursion", shape(1, 32), &[out, 1_000_000])
            .expect_err(form);
        assert_eq!(fault.code, cuda_sys::CUresult::CUDA_ERROR_LAUNCH_FAILED, "{form}: {fault}");
        assert!(fault.report.what.contains("stack overflow"), "{form}: {fault}");
        device.launch(program, "endless_recursion", shape(1, 32), &[out, 3]).expect(form);
        let got: Vec<i32> = device.download(out, 32);
        assert_eq!(got[0], 12, "{form}");
    });
}

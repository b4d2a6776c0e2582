//! Programs without races, drawn: phases of stores, loads and additions in shared memory, with barriers between them,
//! shuffles, loops, branches, and threads that leave. Each must be differentiated, and be right. `PTX_AD_PROGRAMS` is
//! the number of programs.

use std::fmt::Write;

use ptx_ad::Reason;
use test_support::Rng;

use crate::common::{Arg, Device, Failure, doubles, floats, module, shape, word};
use crate::programs::count;

/// What the threads have done with the array since the last barrier.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Clean,
    Stored,
    Loaded,
    Added,
}

struct Program {
    rng: Rng,
    code: String,
    double: bool,
    phase: Phase,
    labels: usize,
    /// Whether threads may have left.
    left: bool,
}

/// Threads of a block, and words of the array.
const THREADS: u32 = 64;

impl Program {
    fn below(&mut self, count: usize) -> usize {
        self.rng.below(count)
    }

    fn put(&mut self, line: &str) {
        self.code.push_str(line);
        self.code.push('\n');
    }

    fn ty(&self) -> &'static str {
        if self.double { "f64" } else { "f32" }
    }

    /// A register of the numbers that the program computes with.
    fn value(&mut self) -> String {
        let number = 1 + self.below(4);
        format!("%{}{number}", if self.double { 'd' } else { 'f' })
    }

    fn constant(&self, value: f64) -> String {
        match self.double {
            true => format!("0d{:016X}", value.to_bits()),
            false => format!("0f{:08X}", (value as f32).to_bits()),
        }
    }

    fn barrier(&mut self) {
        self.put(if self.left { "barrier.sync 0;" } else { "bar.sync 0;" });
        self.phase = Phase::Clean;
    }

    /// Begins to use the array in another way.
    fn enter(&mut self, phase: Phase) {
        let same = self.phase == phase && phase != Phase::Stored;
        if self.phase != Phase::Clean && !same {
            self.barrier();
        }
        self.phase = phase;
    }

    /// An address of the array in `%r6`: of a word of its own for each thread, or of any.
    fn address(&mut self, own: bool) {
        let by = self.below(THREADS as usize);
        match self.below(if own { 2 } else { 4 }) {
            0 => self.put(&format!("xor.b32 %r6, %r1, {by};")),
            1 => self.put(&format!("add.u32 %r6, %r1, {by}; and.b32 %r6, %r6, 63;")),
            2 => self.put(&format!("mov.u32 %r6, {by};")),
            _ => self.put("mul.lo.u32 %r6, %r1, 7; and.b32 %r6, %r6, 15;"),
        }
        let bytes = if self.double { 8 } else { 4 };
        self.put(&format!("mad.lo.u32 %r6, %r6, {bytes}, %r7;"));
    }

    fn arithmetic(&mut self) {
        let (d, a, b) = (self.value(), self.value(), self.value());
        let (ty, half, rest) = (self.ty(), self.constant(0.5), self.constant(0.3));
        match self.below(3) {
            0 => {
                self.put(&format!("mul.{ty} {d}, {a}, {b}; fma.rn.{ty} {d}, {d}, {half}, {rest};"));
            }
            1 => {
                self.put(&format!("fma.rn.{ty} {d}, {a}, {half}, {b}; mul.{ty} {d}, {d}, {half};"));
            }
            _ => self.put(&format!("max.{ty} {d}, {a}, {b};")),
        }
    }

    /// A use of the array, which some threads may skip.
    fn memory(&mut self) {
        let phase = [Phase::Stored, Phase::Loaded, Phase::Loaded, Phase::Added][self.below(4)];
        self.enter(phase);
        self.address(phase == Phase::Stored);
        let (value, ty) = (self.value(), self.ty());
        let skips = self.below(4) == 0;
        let label = self.labels;
        self.labels += 1;
        if skips {
            let from = self.below(THREADS as usize);
            self.put(&format!("setp.lt.u32 %p2, %r1, {from}; @%p2 bra SKIP{label};"));
        }
        // Or by a generic address.
        let (space, address) = match self.below(4) {
            0 => {
                self.put("cvt.u64.u32 %w8, %r6; cvta.shared.u64 %w8, %w8;");
                ("", "%w8")
            }
            _ => (".shared", "%r6"),
        };
        match phase {
            Phase::Loaded => self.put(&format!("ld{space}.{ty} {value}, [{address}];")),
            Phase::Added => {
                let (part, number) =
                    (self.constant(0.02), format!("%{}9", if self.double { 'd' } else { 'f' }));
                self.put(&format!("mul.{ty} {number}, {value}, {part};"));
                self.put(&format!("red{space}.add.{ty} [{address}], {number};"));
            }
            _ => self.put(&format!("st{space}.{ty} [{address}], {value};")),
        }
        if skips {
            self.put(&format!("SKIP{label}:"));
        }
    }

    fn shuffle(&mut self) {
        let by = self.below(32);
        let b = match self.below(3) {
            0 => {
                self.put(&format!("mul.lo.u32 %r8, %r1, {by}; and.b32 %r8, %r8, 31;"));
                "%r8".to_owned()
            }
            _ => by.to_string(),
        };
        let width = [0, 0x1000, 0x1800][self.below(3)];
        let (mode, c) = [("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)][self.below(4)];
        let (d, a, c) = (self.value(), self.value(), c | width);
        if self.double {
            self.put(&format!("mov.b64 {{%r9, %r10}}, {a};"));
            for reg in ["%r9", "%r10"] {
                self.put(&format!("shfl.sync.{mode}.b32 {reg}, {reg}, {b}, {c}, -1;"));
            }
            self.put(&format!("mov.b64 {d}, {{%r9, %r10}};"));
        } else {
            self.put(&format!("shfl.sync.{mode}.b32 {d}, {a}, {b}, {c}, -1;"));
        }
    }

    fn statements(&mut self, depth: usize) {
        for _ in 0..2 + self.below(5) {
            match self.below(10) {
                0..3 => self.arithmetic(),
                3..7 => self.memory(),
                7 if !self.left => self.shuffle(),
                8 if depth < 2 => self.repeat(depth),
                9 if depth == 0 => self.leave(),
                _ => self.barrier(),
            }
        }
    }

    /// A loop, as often as the argument or a constant says.
    fn repeat(&mut self, depth: usize) {
        let (label, counter) = (self.labels, format!("%r{}", 20 + depth));
        self.labels += 1;
        let most =
            if self.below(2) == 0 { "%r4".to_owned() } else { (1 + self.below(3)).to_string() };
        self.enter(Phase::Clean);
        self.put(&format!("mov.u32 {counter}, 0;\nTOP{label}:"));
        self.statements(depth + 1);
        self.enter(Phase::Clean);
        self.put(&format!("add.u32 {counter}, {counter}, 1; setp.lt.u32 %p1, {counter}, {most};"));
        self.put(&format!("@%p1 bra TOP{label};"));
    }

    fn leave(&mut self) {
        let from = 1 + self.below(THREADS as usize - 1);
        self.put(&format!("setp.ge.u32 %p1, %r1, {from}; @%p1 bra END;"));
        self.left = true;
    }
}

/// Returns a kernel `k(x, out, n)` of blocks of 64 threads.
fn draw(seed: u64, double: bool) -> String {
    let (rng, code) = (Rng::new(seed), String::new());
    let mut program = Program { rng, code, double, phase: Phase::Clean, labels: 0, left: false };
    let (ty, bytes, file) = if double { ("f64", 8, 'd') } else { ("f32", 4, 'f') };
    let start = format!(
        ".shared .align 8 .b8 s[{}];
         ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.param.u32 %r4, [n]; mov.u32 %r7, s;
         mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, {THREADS}, %r1;
         mul.wide.u32 %w3, %r3, {bytes}; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3;
         ld.global.{ty} %{file}1, [%w4]; mov.{ty} %{file}2, %{file}1; mov.{ty} %{file}3, {}; mov.{ty} %{file}4, %{file}1;
         mad.lo.u32 %r6, %r1, {bytes}, %r7; st.shared.{ty} [%r6], %{file}1; bar.sync 0;",
        THREADS * bytes,
        program.constant(0.7),
    );
    program.put(&start);
    program.statements(0);
    program.statements(0);
    let sums = "END:".to_owned();
    program.put(&sums);
    for number in 2..5 {
        program.put(&format!("add.{ty} %{file}1, %{file}1, %{file}{number};"));
    }
    program.put(&format!("st.global.{ty} [%w5], %{file}1; ret;"));
    module("", ".param .u64 x, .param .u64 out, .param .u32 n", &program.code)
}

#[test]
fn programs() {
    let (mut compared, mut report) = (0, String::new());
    for seed in 0..count(60) {
        let double = seed % 2 == 1;
        let text = draw(seed, double);
        let values: Vec<f64> = (0..128).map(|at| 0.5 + (at * 37 % 101) as f64 / 128.0).collect();
        let buffer = || -> Arg {
            match double {
                true => doubles(&values),
                false => floats(&values.iter().map(|x| *x as f32).collect::<Vec<_>>()),
            }
        };
        let args = [buffer(), buffer(), word(3)];
        let mut device = Device::new();
        device.scratch = [1 << 20, 0][seed as usize / 2 % 2];
        let most = if double { 1e-12 } else { 1e-5 };
        match device.compare(&text, "k", &args, shape(2, THREADS), seed) {
            Ok((found, _)) if found.error <= most && found.magnitude > 1e-3 => compared += 1,
            Ok((found, adjoint)) => {
                let _ = writeln!(report, "seed {seed}: {found:?}\n{text}\n{}", adjoint.text);
                break;
            }
            // Nothing of the input is left.
            Err(Failure::Refused(refused))
                if refused.refusals.iter().all(|one| one.reason == Reason::NoPath) => {}
            Err(Failure::Refused(refused)) => {
                let _ = writeln!(report, "seed {seed}: {refused}\n{text}");
                break;
            }
            // Products may grow without a bound.
            Err(Failure::Undefined(_)) => {}
            Err(Failure::Wrong(why)) => {
                let _ = writeln!(report, "seed {seed}: {why}\n{text}");
                break;
            }
        }
    }
    assert!(report.is_empty(), "{report}");
    assert!(compared * 10 > count(60) * 9, "only {compared} programs were compared");
}

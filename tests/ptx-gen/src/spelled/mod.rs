//! Programs of what the grammar allows and NVRTC does not write, with the values that they compute.
//!
//! The generator computes the values itself, so that neither a GPU nor the software device has to be trusted. A program is
//! one kernel of one thread, which writes its values one after the other.

mod constant;
mod statement;

use std::fmt::Write;

use test_support::Rng;

/// A program of a seed.
#[derive(Debug, Clone)]
pub struct Spelled {
    /// The seed.
    pub seed: u64,
    /// What precedes the kernel in a module, and the kernel.
    text: String,
    /// What it writes to the memory that its parameter points to.
    pub values: Vec<u32>,
}

/// Statements of a program.
const STATEMENTS: usize = 24;

const HEAD: &str = ".version 8.5\n.target sm_90\n.address_size 64\n";

impl Spelled {
    /// The program of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut writer = Writer {
            rng: Rng::new(seed ^ 0x5be1_1ed0),
            seed,
            module: String::new(),
            body: String::new(),
            values: Vec::new(),
            names: 0,
        };
        for _ in 0..STATEMENTS {
            writer.statement();
        }
        let Writer { module, body, values, .. } = writer;
        // Declared again where it is called, without a semicolon.
        let head = format!(".func (.reg .v2 .u32 a) swap_{seed} (.reg .v2 .u32 b)");
        let swap = format!("{head}\n{{\n\tmov.v2.u32 a, {{b.y, b.x}};\n\tret;\n}}\n");
        let name = Self::name(seed);
        let text = format!(
            "{module}{head}\n.visible .entry {name}(.param .u64 out)\n{{\n\
             \t.reg .u64 o, x, y;\n\t.reg .u32 r, s, t, m, n<3>;\n\t.reg .pred p, q;\n\t.reg .v2 .u32 v;\n\
             \t.reg .v4 .u32 w;\n\tld.param.u64 o, [out];\n{body}\tret;\n}}\n{swap}"
        );
        Self { seed, text, values }
    }

    /// The kernel's name.
    #[must_use]
    pub fn kernel_name(&self) -> String {
        Self::name(self.seed)
    }

    fn name(seed: u64) -> String {
        format!("spelled_{seed}")
    }

    /// A module of programs.
    #[must_use]
    pub fn module<'p>(programs: impl IntoIterator<Item = &'p Self>) -> String {
        let mut text = HEAD.to_owned();
        programs.into_iter().for_each(|program| text.push_str(&program.text));
        text
    }
}

/// A program while it is written.
struct Writer {
    rng: Rng,
    seed: u64,
    /// Declarations before the kernel.
    module: String,
    body: String,
    values: Vec<u32>,
    /// Names given so far.
    names: usize,
}

impl Writer {
    /// Adds instructions.
    fn put(&mut self, instructions: &str) {
        let _ = writeln!(self.body, "\t{instructions}");
    }

    /// Stores a register, which holds `value`.
    fn store(&mut self, register: &str, value: u32) {
        let at = self.values.len() * 4;
        self.put(&format!("st.global.u32 [o+{at}], {register};"));
        self.values.push(value);
    }

    /// Stores a predicate.
    fn store_predicate(&mut self, predicate: &str, value: bool) {
        self.put(&format!("selp.u32 r, 1, 0, {predicate};"));
        self.store("r", u32::from(value));
    }

    fn fresh(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    fn word(&mut self) -> u32 {
        // Zeros, ones and neighbours are as frequent as others.
        let any = (self.rng.next() >> 32) as u32;
        match self.rng.below(5) {
            0 => u32::try_from(self.rng.below(3)).unwrap_or(0),
            1 => u32::MAX - u32::try_from(self.rng.below(3)).unwrap_or(0),
            _ => any,
        }
    }

    fn coin(&mut self) -> bool {
        self.rng.below(2) == 0
    }
}

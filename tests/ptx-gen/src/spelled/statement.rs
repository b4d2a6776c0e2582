//! The statements of a program, each with its values.

use super::Writer;
use super::constant::Constant;

impl Writer {
    pub(super) fn statement(&mut self) {
        match self.rng.below(8) {
            0 | 1 => self.expression(),
            2 => self.predicate(),
            3 => self.negated_source(),
            4 => self.vector(),
            5 => self.carries(),
            6 => self.array(),
            _ => self.registers_of_a_block(),
        }
    }

    /// `mov.u64 x, …;`, and the same as an index, an initial value and an operand.
    fn expression(&mut self) {
        let constant = Constant::new(&mut self.rng, 4);
        let (low, high) = (constant.bits as u32, (constant.bits >> 32) as u32);
        let text = constant.text;
        match self.rng.below(3) {
            0 => self.put(&format!("mov.u64 x, {text};")),
            1 => {
                let name = self.fresh("z");
                self.put(&format!(
                    ".global .u64 {name}[2] = {{1, {text}}}; ld.global.u64 x, [{name}+8];"
                ));
            }
            _ => self.put(&format!("mov.u64 x, 0; add.u64 x, x, {text};")),
        }
        self.put("mov.b64 {r, s}, x;");
        self.store("r", low);
        self.store("s", high);
    }

    /// A predicate as an operand, and its value: a register, perhaps negated, or a constant.
    fn operand(&mut self) -> (String, bool) {
        let value = self.coin();
        if self.coin() {
            self.put(&format!("setp.eq.u32 q, {}, 1;", u8::from(value)));
            return if self.coin() { ("q".into(), value) } else { ("!q".into(), !value) };
        }
        match self.rng.below(3) {
            0 => (u8::from(value).to_string(), value),
            1 => (format!("!{}", u8::from(!value)), value),
            _ => (format!("{}-1", if value { 9 } else { 1 }), value),
        }
    }

    fn predicate(&mut self) {
        let (p, value) = self.operand();
        let (a, b) = (self.word(), self.word());
        match self.rng.below(7) {
            0 => {
                self.put(&format!("selp.u32 r, {a}, {b}, {p};"));
                self.store("r", if value { a } else { b });
            }
            1 => {
                let (op, combine): (_, fn(bool, bool) -> bool) = self.combination();
                self.put(&format!("setp.lt.{op}.u32 p|q, {a}, {b}, {p};"));
                self.put("selp.u32 s, 1, 0, q;");
                self.store_predicate("p", combine(a < b, value));
                self.store("s", u32::from(combine(a >= b, value)));
            }
            2 => {
                let (op, combine) = self.combination();
                self.put(&format!("set.lt.{op}.u32.u32 r, {a}, {b}, {p};"));
                self.store("r", if combine(a < b, value) { u32::MAX } else { 0 });
            }
            3 => {
                self.put(&format!("vote.sync.ballot.b32 r, {p}, 1;"));
                self.store("r", u32::from(value));
            }
            4 => {
                let threads = if self.coin() { "" } else { "32, " };
                self.put(&format!("bar.red.popc.u32 r, 0, {threads}{p};"));
                self.store("r", u32::from(value));
            }
            5 => {
                let (op, combine) = self.combination();
                let (op, combine) = if op == "xor" { ("and", CONJUNCTION) } else { (op, combine) };
                self.put(&format!("lop3.{op}.b32 r|p, {a}, {b}, 0, 0xc0, {p};"));
                self.store("r", a & b);
                self.store_predicate("p", combine(a & b != 0, value));
            }
            _ => {
                self.put(&format!("vote.sync.all.pred p, {p}, 1;"));
                self.store_predicate("p", value);
            }
        }
    }

    fn combination(&mut self) -> (&'static str, fn(bool, bool) -> bool) {
        match self.rng.below(3) {
            0 => ("and", CONJUNCTION),
            1 => ("or", |a, b| a || b),
            _ => ("xor", |a, b| a != b),
        }
    }

    /// Constants and negated registers as the sources of instructions of predicates.
    fn negated_source(&mut self) {
        let (p, value) = self.operand();
        let other = self.coin();
        self.put(&format!("setp.ne.u32 p, {}, 0;", u8::from(other)));
        match self.rng.below(3) {
            0 => {
                self.put(&format!("mov.pred p, {p};"));
                self.store_predicate("p", value);
            }
            1 => {
                self.put(&format!("not.pred p, {p};"));
                self.store_predicate("p", !value);
            }
            _ => {
                let (op, combine) = self.combination();
                self.put(&format!("{op}.pred p, {p}, !p;"));
                self.store_predicate("p", combine(value, !other));
            }
        }
    }

    /// A vector register, moved and swapped, with a guard or without, and given to a function.
    fn vector(&mut self) {
        let mut held = [0; 4].map(|_: u32| self.word());
        let [a, b, c, d] = held;
        let letters = if self.coin() { ["x", "y", "z", "w"] } else { ["r", "g", "b", "a"] };
        self.put(&format!("mov.v4.u32 w, {{{a}, {b}, {c}, {d}}};"));
        let places = [0; 4].map(|_: usize| self.rng.below(4));
        let [e, f, g, h] = places.map(|at| format!("w.{}", letters[at]));
        let guard = ["", "@p ", "@!p "][self.rng.below(3)];
        self.put("setp.eq.u32 p, 1, 1;");
        self.put(&format!("{guard}mov.v4.u32 w, {{{e}, {f}, {g}, {h}}};"));
        if guard != "@!p " {
            held = places.map(|at| held[at]);
        }
        match self.rng.below(4) {
            0 => {
                self.put("mov.v4.u32 {r, _, _, s}, w;");
                self.store("r", held[0]);
                self.store("s", held[3]);
            }
            1 => {
                self.put(&format!(
                    "mov.v2.u32 v, {{w.x, w.w}}; call (v), swap_{}, (v);",
                    self.seed
                ));
                self.store("v.x", held[3]);
                self.store("v.y", held[0]);
            }
            2 => {
                self.put("mov.v2.u32 v, {w.y, w.z}; mov.b64 x, v; mov.b64 v, x;");
                self.store("v.x", held[1]);
                self.store("v.y", held[2]);
            }
            _ => {
                let name = self.fresh("h");
                self.put(&format!(
                    ".reg .v2 .b16 {name}; mov.u32 t, w.x; mov.b32 {name}, t; mov.b32 r, {name};"
                ));
                self.store("r", held[0]);
            }
        }
    }

    /// Instructions of all families that set and read the one carry flag.
    fn carries(&mut self) {
        let wide = self.coin();
        let (ty, bits) = if wide { ("u64", 64) } else { ("u32", 32) };
        let mask = u128::MAX >> (128 - bits);
        let register = if wide { "y" } else { "t" };
        let mut flag = None;
        for _ in 0..2 + self.rng.below(4) {
            let [a, b, c] = [0; 3].map(|_: u8| {
                let any = u128::from(self.word()) | u128::from(self.word()) << 32;
                any & mask
            });
            let reads = flag.is_some() && self.rng.below(4) > 0;
            let carry = u128::from(flag.filter(|_| reads).unwrap_or(false));
            let suffix = if reads { "c.cc" } else { ".cc" };
            let sum = match self.rng.below(4) {
                0 => {
                    self.put(&format!("add{suffix}.{ty} {register}, {a}, {b};"));
                    a + b + carry
                }
                1 => {
                    self.put(&format!("sub{suffix}.{ty} {register}, {a}, {b};"));
                    a + (!b & mask) + if reads { carry } else { 1 }
                }
                part => {
                    let (lo, name) = (part == 2, if reads { "madc" } else { "mad" });
                    let word = if lo { "lo" } else { "hi" };
                    self.put(&format!("{name}.{word}.cc.{ty} {register}, {a}, {b}, {c};"));
                    // Half of the product has no more bits than a register.
                    let product = a.wrapping_mul(b);
                    (if lo { product & mask } else { product >> bits & mask }) + c + carry
                }
            };
            flag = Some(sum > mask);
            let value = sum & mask;
            if wide {
                self.put("mov.b64 {r, s}, y;");
                self.store("r", value as u32);
                self.store("s", (value >> 32) as u32);
            } else {
                self.store("t", value as u32);
            }
        }
        self.put("addc.u32 r, 0, 0;");
        self.store("r", u32::from(flag == Some(true)));
    }

    /// Arrays by name, element and without a state space.
    fn array(&mut self) {
        let name = self.fresh("e");
        let space = ["global", "shared", "local"][self.rng.below(3)];
        let declared = format!(".{space} .align 8 .u32 {name}[4];");
        // A variable of a function, or one of the module.
        if space != "local" && self.coin() {
            let unique = format!("{name}_{}", self.seed);
            self.module.push_str(&declared.replacen(&name, &unique, 1));
            self.module.push('\n');
            return self.elements(&unique, space);
        }
        self.put(&declared);
        self.elements(&name, space);
    }

    fn elements(&mut self, name: &str, space: &str) {
        let (value, at) = (self.word(), self.rng.below(4));
        let spaced = if self.coin() { format!(".{space}") } else { String::new() };
        let other = if spaced.is_empty() { format!(".{space}") } else { String::new() };
        let place = match self.rng.below(4) {
            0 => format!("{name}[{at}]"),
            1 => format!("[{name}+{at}*4]"),
            2 => {
                self.put(&format!("mov.u64 x, {at};"));
                format!("{name}[x]")
            }
            _ => {
                self.put(&format!("mov.u32 t, {at}; sub.u32 t, t, 1;"));
                // An index is not negative.
                if at == 0 { format!("[{name}+0]") } else { format!("{name}[t+1]") }
            }
        };
        self.put(&format!("st{spaced}.u32 {place}, {value};"));
        self.put(&format!("ld{other}.u32 r, {name}[{at}];"));
        self.store("r", value);
        match self.rng.below(3) {
            0 if space != "local" => {
                self.put(&format!(
                    "atom.add.u32 s, [{name}+{}], 5; ld{other}.u32 r, {name}[{at}];",
                    at * 4
                ));
                self.store("s", value);
                self.store("r", value.wrapping_add(5));
            }
            // Atomics are of global and shared memory: on local memory an H200 does nothing.
            1 if space != "local" => {
                self.put(&format!(
                    "red.xor.b32 [{name}+{}], 7; ld.u32 r, [{name}+(1?{at}<<2:0)];",
                    at * 4
                ));
                self.store("r", value ^ 7);
            }
            _ => {
                self.put(&format!("mov.u64 x, {name}[{at}]; ld.{space}.u32 r, [x];"));
                self.store("r", value);
            }
        }
    }

    /// Registers, of which a block of the kernel declares others of the same names.
    fn registers_of_a_block(&mut self) {
        let (value, hidden) = (self.word(), self.word());
        let (name, declared) = [("m", "m"), ("n2", "n2"), ("n2", "n<4>")][self.rng.below(3)];
        self.put(&format!(
            "mov.u32 {name}, {value}; {{ .reg .u32 {declared}; mov.u32 {name}, {hidden}; mov.u32 r, {name}; }}"
        ));
        self.store("r", hidden);
        self.store(name, value);
    }
}

const CONJUNCTION: fn(bool, bool) -> bool = |a, b| a && b;

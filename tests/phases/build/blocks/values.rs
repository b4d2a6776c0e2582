//! Values, conditions and indices.

use super::{ELEMENTS, Kind, Program, Ty};

impl Program {
    pub(super) fn literal(&mut self, ty: Ty) -> String {
        match ty {
            Ty::Bool => (*self.random.pick(&["true", "false"])).to_owned(),
            Ty::F32 => (*self.random.pick(&["0.0f32", "1.5f32", "0.1f32", "3.0e4f32", "0.37f32"]))
                .to_owned(),
            _ => format!("{}{}", self.random.below(100), ty.name()),
        }
    }

    /// Returns an index below the length that a text says.
    pub(super) fn below(&mut self, len: &str, depth: usize) -> String {
        let number = len.parse::<usize>().ok();
        if !self.index.is_empty() && !self.random.once_in(3) {
            let at = self.random.below(self.index.len());
            let i = self.index[at].0.clone();
            return match self.random.below(4) {
                0 => format!("({i} + {}) % {len}", 1 + self.random.below(40)),
                1 => format!("{len} - 1 - {i} % {len}"),
                2 => format!("({i} * {}) % {len}", 1 + self.random.below(9)),
                _ => format!("{i} % {len}"),
            };
        }
        match (number, self.random.below(2)) {
            (Some(n), 0) => self.random.below(n).to_string(),
            _ => format!("({} as usize) % {len}", self.value(Ty::U32, depth.min(1))),
        }
    }

    /// Returns an element of memory.
    pub(super) fn element_of(&mut self, at: usize, depth: usize) -> String {
        let (name, kind) = (self.memory[at].name.clone(), self.memory[at].kind);
        match kind {
            Kind::Array(n) | Kind::Row(n) => {
                let i = self.below(&n.to_string(), depth);
                format!("{name}[{i}]")
            }
            Kind::Matrix(r, c) => {
                let i = self.below(&r.to_string(), depth);
                let j = self.below(&c.to_string(), depth);
                format!("{name}[{i}][{j}]")
            }
            _ => {
                let i = self.below(&format!("{name}.len()"), depth);
                format!("{name}[{i}]")
            }
        }
    }

    /// Returns an element of memory of any type.
    pub(super) fn any_element(&mut self, depth: usize) -> Option<(String, Ty)> {
        let known: Vec<usize> = (0..self.memory.len())
            .filter(|at| self.memory[*at].is_read() && ELEMENTS.contains(&self.memory[*at].ty))
            .collect();
        if known.is_empty() {
            return None;
        }
        let at = known[self.random.below(known.len())];
        Some((self.element_of(at, depth.saturating_sub(1)), self.memory[at].ty))
    }

    pub(super) fn cast(value: String, from: Ty, to: Ty) -> String {
        if from == to { value } else { format!("({value} as {})", to.name()) }
    }

    /// Returns a value that is not computed.
    fn leaf(&mut self, ty: Ty, depth: usize) -> String {
        match self.random.below(8) {
            0..3 => {
                let known: Vec<usize> = (0..self.locals.len())
                    .filter(|at| (self.locals[*at].ty == Ty::Bool) == (ty == Ty::Bool))
                    .collect();
                if !known.is_empty() {
                    let local = &self.locals[known[self.random.below(known.len())]];
                    return Self::cast(local.text.clone(), local.ty, ty);
                }
            }
            3..6 if ty != Ty::Bool && depth > 0 => {
                if let Some((value, from)) = self.any_element(depth) {
                    return Self::cast(value, from, ty);
                }
            }
            6 if ty != Ty::Bool && depth > 0 => {
                let (slice, from) =
                    *self.random.pick(&[&("x", Ty::I32), &("y", Ty::U32), &("f", Ty::F32)]);
                let i = self.below("300", depth - 1);
                return Self::cast(format!("{slice}[{i}]"), from, ty);
            }
            7 if ty != Ty::Bool && depth > 0 && !self.closures.is_empty() => {
                let at = self.random.below(self.closures.len());
                let (name, from) = self.closures[at].clone();
                let i = self.below("32", depth - 1);
                return Self::cast(format!("{name}({i})"), from, ty);
            }
            _ => {}
        }
        self.literal(ty)
    }

    /// Returns the variable with the argument of the plan, if there is one.
    pub(super) fn argument(&self) -> Option<&'static str> {
        ["arg", "a0"]
            .into_iter()
            .find(|name| self.plans > 0 && self.locals.iter().any(|local| local.text == *name))
    }

    pub(super) fn condition(&mut self, depth: usize) -> String {
        if let Some(arg) = self.argument()
            && self.random.once_in(3)
        {
            return format!("({arg} >> {} & 1 == 1)", self.random.below(16));
        }
        self.value(Ty::Bool, depth)
    }

    pub(super) fn value(&mut self, ty: Ty, depth: usize) -> String {
        if depth == 0 || ty != Ty::Bool && self.random.once_in(3) {
            return self.leaf(ty, depth);
        }
        match ty {
            Ty::Bool => match self.random.below(5) {
                0 => {
                    let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                    format!("({a} {} {b})", self.random.pick(&["&&", "||", "^"]))
                }
                1 if depth > 1 => format!("!{}", self.condition(depth - 1)),
                _ => {
                    let ty = self.element();
                    // One side is not a literal.
                    let a = match self.any_element(depth) {
                        Some((value, from)) => Self::cast(value, from, ty),
                        None => self.value(ty, depth),
                    };
                    let b = self.value(ty, depth - 1);
                    format!("(({a}) {} ({b}))", self.random.pick(&["<", ">=", "==", "!=", ">"]))
                }
            },
            _ if self.random.once_in(6) => {
                let condition = self.condition(depth - 1);
                let (a, b) = (self.value(ty, depth - 1), self.value(ty, depth - 1));
                format!("(if {condition} {{ {a} }} else {{ {b} }})")
            }
            Ty::F32 => {
                let (a, b) = (self.value(ty, depth - 1), self.value(ty, depth - 1));
                match self.random.below(6) {
                    0 => format!("({a}).min({b})"),
                    1 => format!("({a}).max({b})"),
                    _ => format!("({a} {} {b})", self.random.pick(&["+", "-", "*"])),
                }
            }
            _ => {
                let (a, b) = (self.value(ty, depth - 1), self.value(ty, depth - 1));
                match self.random.below(8) {
                    0 => format!("({a} {} {b})", self.random.pick(&["^", "&", "|"])),
                    1 => format!("({a} % {})", 1 + self.random.below(50)),
                    2 => format!("({a} >> {})", self.random.below(8)),
                    3 => format!("({a}).rotate_left({})", self.random.below(8)),
                    4 => {
                        let other = self.element();
                        let value = self.value(other, depth - 1);
                        Self::cast(format!("({value})"), other, ty)
                    }
                    _ => {
                        let methods =
                            ["wrapping_add", "wrapping_sub", "wrapping_mul", "min", "max"];
                        let method = methods[self.random.below(5)];
                        format!("({a}).{method}({b})")
                    }
                }
            }
        }
    }
}

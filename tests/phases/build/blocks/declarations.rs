//! Declarations of the memory of a block.

use std::fmt::Write as _;

use super::{Kind, Memory, Own, Program, State, Ty};

impl Program {
    /// Declares shared arrays and values of threads. Returns the arrays that are declared later, which are gone until then.
    pub(super) fn declarations(&mut self) -> (String, Vec<String>) {
        let mut lets = Vec::new();
        for at in 0..2 + self.random.below(3) {
            let mut ty = self.element();
            // Few items for each thread: NVRTC unrolls the loop over them.
            let threads = self.threads();
            let mut kind = match self.random.below(3) {
                0 => {
                    let rows = threads.div_ceil(9);
                    let (r, c) =
                        *self.random.pick(&[&(4, 9), &(rows, 9), &(rows / 2 + 1, 17), &(7, 3)]);
                    Kind::Matrix(r, c)
                }
                _ => Kind::Array(*self.random.pick(&[
                    &threads,
                    &(threads + 7),
                    &(threads / 2 + 1),
                    &(2 * threads + 3),
                    &40,
                ])),
            };
            // Arrays of one type can be swapped.
            if at > 0
                && self.random.once_in(2)
                && let Some(last) = self.memory.iter().rfind(|memory| memory.is_shared())
            {
                (ty, kind) = (last.ty, last.kind);
            } else if at == 0 && self.gets(2, 3) || at > 0 && self.random.once_in(6) {
                kind = Kind::Sized(self.random.pick(&[
                    "x.len() / 3",
                    "at + 33",
                    "plan.len() * 5 + 1",
                    "1 + f.len() / 2 % 97",
                ]));
            }
            let name = format!("t{at}");
            let value = self.first_value(ty);
            let array = match kind {
                Kind::Matrix(r, c) => format!("block.shared([[{value}; {c}]; {r}])"),
                Kind::Array(n) => format!("block.shared([{value}; {n}])"),
                Kind::Sized(len) => {
                    self.has(2);
                    format!("block.shared_slice::<{}>({len}, {value})", ty.name())
                }
                _ => continue,
            };
            let mut text = format!("let mut {name} = {array};\n");
            let mut memory = Memory::new(name, ty, kind);
            memory.state = State::Gone;
            self.memory.push(memory);
            // Such an array need not be filled.
            if self.random.once_in(3) {
                text.push_str(&self.load_into(self.memory.len() - 1, false));
            }
            lets.push(text);
        }
        let later = lets.split_off(lets.len() - self.random.below(2));
        let mut text: String = lets.concat();
        self.reveal(&text);
        for at in 0..2 + self.random.below(3) {
            let ty = match self.random.below(6) {
                0 => Ty::Bool,
                _ => self.element(),
            };
            let (name, value) = (format!("v{at}"), self.literal(ty));
            let _ = writeln!(text, "let mut {name} = block.per_thread({value});");
            self.own.push(Own { name, ty, len: 0 });
        }
        if self.gets(3, 2) {
            let len = *self.random.pick(&[&2, &3, &4, &8]);
            let ty = *self.random.pick(&[&Ty::I32, &Ty::U32, &Ty::F32]);
            let value = self.literal(ty);
            let _ = writeln!(text, "let mut vs = block.per_thread([{value}; {len}]);");
            self.own.push(Own { name: "vs".to_owned(), ty, len });
            if self.size.1 == 0 {
                text.push_str(&self.load_own(self.own.len() - 1));
            }
        }
        if self.random.below(2) == 0 {
            text.extend(self.loads_in_a_row());
        }
        (text, later)
    }

    /// Returns the first value of the elements of an array: one in eight has a check, which may fail.
    fn first_value(&mut self, ty: Ty) -> String {
        match self.random.once_in(8) {
            true => {
                let value = format!("y[if hit == {} {{ 300 }} else {{ 7 }}]", self.site());
                Self::cast(value, Ty::U32, ty)
            }
            false => self.literal(ty),
        }
    }

    /// Makes the array that a text declares usable.
    pub(super) fn reveal(&mut self, text: &str) {
        for memory in &mut self.memory {
            if text.contains(&format!("let mut {} = block.shared", memory.name)) {
                memory.state = State::Free;
            }
        }
    }
}

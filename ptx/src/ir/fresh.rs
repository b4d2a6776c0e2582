//! Registers, labels and variables that a pass adds to a function.

use super::module::{Function, Label, Module, Variable};
use super::operand::{LabelId, RegId, VarId};
use super::types::{Space, Type};

/// Makes names that neither a function nor its module uses.
///
/// A name has the shape `$x7_stem`. No two names of one `Names` are equal, and none is equal to a name that the
/// function or the module had when it was made.
#[derive(Debug, Clone)]
pub struct Names {
    prefix: String,
    next: u64,
}

/// The beginning of all names, before their number.
const PREFIX: &str = "$x";

/// Numbers from here on are not continued: the prefix gets longer instead.
const MOST: u64 = 1 << 48;

impl Names {
    /// Reads the names of `function`, a function of `module`. Time is linear in their number.
    #[must_use]
    pub fn new(module: &Module, function: &Function) -> Self {
        let names = || {
            let globals = module.globals.iter().map(|variable| &variable.name);
            let functions = module.functions.iter().map(|function| &function.name);
            let variables = function.variables.iter().map(|variable| &variable.name);
            let labels = function.labels.iter().map(|label| &label.name);
            let prototypes = function.prototypes.iter().map(|prototype| &prototype.name);
            globals.chain(functions).chain(variables).chain(labels).chain(prototypes)
        };
        let mut prefix = String::from(PREFIX);
        loop {
            let numbers = names().filter_map(|name| Some(number(name.strip_prefix(&prefix)?)));
            let next = numbers.max().map_or(0, |most| most.saturating_add(1));
            if next < MOST {
                return Self { prefix, next };
            }
            prefix.push('_');
        }
    }

    /// Returns a new name that ends with `stem`, of which the prefix of an earlier new name is left out. `stem` must
    /// consist of letters, digits, `_` and `$`.
    pub fn fresh(&mut self, stem: &str) -> String {
        let name = format!("{}{}_{}", self.prefix, self.next, without_prefix(stem));
        self.next = self.next.saturating_add(1);
        name
    }
}

/// Returns the number that `text` begins with; `u64::MAX` for one that is too large, and 0 for none.
fn number(text: &str) -> u64 {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match text.get(..digits) {
        None | Some("") => 0,
        Some(digits) => digits.parse().unwrap_or(u64::MAX),
    }
}

/// Returns the suffix after the number of a name that [`Names::fresh`] has made.
fn without_prefix(name: &str) -> &str {
    let stem = name.strip_prefix(PREFIX).and_then(|rest| {
        let (number, stem) = rest.trim_start_matches('_').split_once('_')?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(stem)
    });
    stem.unwrap_or(name)
}

impl Function {
    /// Adds a register and returns it.
    pub fn fresh_register(&mut self, ty: Type) -> RegId {
        self.registers.push(ty);
        RegId(last(&self.registers))
    }

    /// Adds a label before the instruction at `at`, or at the end of the body, and returns it.
    pub fn fresh_label(&mut self, names: &mut Names, stem: &str, at: usize) -> LabelId {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        self.labels.push(Label { name: names.fresh(stem), at });
        LabelId(last(&self.labels))
    }

    /// Adds a variable of `space`, `dims` elements of `ty` aligned to `align` bytes, and returns it.
    pub fn fresh_variable(
        &mut self,
        names: &mut Names,
        stem: &str,
        space: Space,
        ty: Type,
        dims: Vec<u64>,
        align: u32,
    ) -> VarId {
        self.add_variable(Variable::new(names.fresh(stem), space, ty, dims, align))
    }

    /// Adds a variable, whose name must be new, and returns it.
    pub fn add_variable(&mut self, variable: Variable) -> VarId {
        self.variables.push(variable);
        VarId(last(&self.variables))
    }
}

/// Returns the position of the last element.
fn last<T>(list: &[T]) -> u32 {
    u32::try_from(list.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &str) -> Names {
        let text = format!(".version 8.0\n.target sm_90\n.entry k() {{ {of} ret; }}");
        let module = crate::parse(&text).expect("a module");
        Names::new(&module, &module.functions[0])
    }

    #[test]
    fn fresh_names_continue_the_numbers_in_use() {
        let mut new = names("$x4_a: $x11: .local .b32 $x7b; $x_9: $xa: $x: other:");
        assert_eq!(new.fresh("split"), "$x12_split");
        assert_eq!(new.fresh("$x3_split"), "$x13_split");
        assert_eq!(new.fresh("$x3split"), "$x14_$x3split");
        assert_eq!(names("").fresh("a"), "$x0_a");
    }

    #[test]
    fn numbers_without_a_successor_make_the_prefix_longer() {
        let mut new = names("$x18446744073709551615: $x_281474976710656: $x__5_a:");
        assert_eq!(new.fresh("a"), "$x__6_a");
        assert_eq!(new.fresh("$x__5_a"), "$x__7_a");
    }
}

//! The forms of all PTX instructions, independent of the table.
//!
//! Lines are written as in the table of [`rows`](crate::rows), by the grammar of the manual up to 9.0, and
//! hold more than there is: all types that a family has with all modifiers that one of them takes. A
//! device that executes one of them has it in the table, or it is among the [`EXCEPTIONS`].

mod exceptions;
mod forms;

pub use exceptions::EXCEPTIONS;
pub use forms::UNIVERSE;

use crate::table::Part;

/// A kernel of one instruction, with registers of its own for each operand.
#[must_use]
pub fn probe(name: &str, instruction: &str) -> String {
    let mut counts = [0; 4];
    let mut text = String::new();
    for part in crate::table::parts(instruction) {
        match part {
            Part::Text(plain) => text.push_str(&plain),
            Part::Words(words) => text.push_str(words.first().map_or("", String::as_str)),
            Part::Place(_) => text.push_str("%base"),
            Part::Slot(slot) => {
                let kind = match slot {
                    'H' | 'h' => 0,
                    'W' | 'w' | 'v' => 2,
                    'P' | 'p' => 3,
                    _ => 1,
                };
                let letter = ['h', 'r', 'w', 'p'][kind];
                text.push_str(&format!("%{letter}{}", counts[kind]));
                counts[kind] += 1;
            }
        }
    }
    // Not every `.target` and `.version` has the type.
    let quad = if text.contains("%quad") { "\n\t.reg .b128 %quad;" } else { "" };
    let byte = if text.contains("%byte") { "\n\t.reg .b8 %byte;" } else { "" };
    format!(
        ".visible .entry {name}()\n{{\n\t.reg .b16 %h<16>;\n\t.reg .b32 %r<40>;\n\t.reg .b64 %w<16>, \
         %base;\n\t.reg .pred %p<8>;{quad}{byte}\n\t{text};\n$L_end:\n\tret;\n}}\n"
    )
}

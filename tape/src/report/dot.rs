//! The recording as a graph that Graphviz draws.

use std::fmt::Write;

use crate::record::NONE;
use crate::spec::Effect;
use crate::tape::Tape;

impl Tape {
    /// Returns the recording in Graphviz's language: boxes are steps that gradients flow through, ellipses are
    /// memory, with a double line if it is watched. Steps of one scope are in one frame.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let recording = &self.recording;
        let mut text = String::from("digraph tape {\n  rankdir=LR;\n  node [shape=box];\n");
        for (number, memory) in recording.memories.iter().enumerate() {
            if memory.first_step == NONE {
                continue;
            }
            let watched = recording.watches.iter().any(|watch| watch.memory as usize == number);
            let real = memory.real.map_or_else(String::new, |real| format!("{real:?} "));
            let lines = if watched { ", peripheries=2" } else { "" };
            let bytes = memory.allocation.size_bytes();
            // `writeln!` to a string does not fail.
            let _ = writeln!(
                text,
                "  m{number} [shape=ellipse, label=\"{real}{bytes} bytes\"{lines}];"
            );
        }
        for (number, step) in recording.steps.iter().enumerate() {
            let name = escaped(step.kind.name());
            let scope = recording.scopes.get(step.scope as usize);
            let scope = scope.map_or_else(String::new, |scope| escaped(&scope.name));
            let _ = match scope.is_empty() {
                true => writeln!(text, "  s{number} [label=\"{number} {name}\"];"),
                false => writeln!(
                    text,
                    "  subgraph \"cluster_{scope}\" {{ label=\"{scope}\"; s{number} [label=\"{number} {name}\"]; }}"
                ),
            };
            for used in recording.uses_of(step).iter().filter(|used| used.active) {
                let memory = used.memory;
                let _ = match used.effect {
                    Effect::Reads => writeln!(text, "  m{memory} -> s{number};"),
                    Effect::Overwrites => writeln!(text, "  s{number} -> m{memory};"),
                    Effect::Updates | Effect::Accumulates => {
                        writeln!(text, "  s{number} -> m{memory} [dir=both];")
                    }
                };
            }
        }
        text.push_str("}\n");
        text
    }
}

/// Returns a name between quotes.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

//! The attacks, by theme. The `README.md` of the package says how to add one.

mod contexts;
mod errors;
mod geometry;
mod graphs;
mod host_functions;
mod kernels;
mod memory;
mod order;
mod pinned;
mod tape;
#[cfg(unix)]
mod trust;
mod unified;

use crate::harness::Program;

/// All that run. A theme's name is its file's.
pub(crate) const PROGRAMS: &[(&str, &[Program])] = &[
    ("contexts", contexts::ATTACKS),
    ("errors", errors::ATTACKS),
    ("geometry", geometry::ATTACKS),
    ("graphs", graphs::ATTACKS),
    ("host_functions", host_functions::ATTACKS),
    ("kernels", kernels::ATTACKS),
    ("memory", memory::ATTACKS),
    ("order", order::ATTACKS),
    ("pinned", pinned::ATTACKS),
    ("tape", tape::ATTACKS),
    #[cfg(unix)]
    ("trust", trust::ATTACKS),
    ("unified", unified::ATTACKS),
];

/// The attack of this name, `theme::name`.
pub(crate) fn program(name: &str) -> Option<Program> {
    let (theme, name) = name.split_once("::")?;
    let (_, programs) = PROGRAMS.iter().find(|(known, _)| *known == theme)?;
    programs.iter().find(|program| program.name == name).copied()
}

//! The attacks, by theme. The `README.md` of the package says how to add one.

mod collectives;
mod contexts;
mod errors;
mod geometry;
mod graphs;
mod host_functions;
mod kernels;
mod lent;
mod memory;
mod order;
mod pinned;
mod rust_kernels;
mod tape;
#[cfg(unix)]
mod trust;
mod unified;
mod user_code;

use crate::harness::Program;

/// All that run, by file. A theme's name is that of its file or its folder.
pub(crate) const PROGRAMS: &[(&str, &[Program])] = &[
    ("collectives", collectives::ATTACKS),
    ("collectives", collectives::circles::ATTACKS),
    ("collectives", collectives::ends::ATTACKS),
    #[cfg(unix)]
    ("collectives", collectives::forks::ATTACKS),
    ("collectives", collectives::order::ATTACKS),
    ("collectives", collectives::splits::ATTACKS),
    ("contexts", contexts::ATTACKS),
    ("contexts", contexts::closing::ATTACKS),
    ("contexts", contexts::devices::ATTACKS),
    ("contexts", contexts::several::ATTACKS),
    ("contexts", contexts::threads::ATTACKS),
    ("errors", errors::ATTACKS),
    #[cfg(unix)]
    ("errors", errors::forked::ATTACKS),
    ("geometry", geometry::ATTACKS),
    ("geometry", geometry::boxes::ATTACKS),
    ("geometry", geometry::builds::ATTACKS),
    ("geometry", geometry::files::ATTACKS),
    ("geometry", geometry::grids::ATTACKS),
    ("geometry", geometry::left_out::ATTACKS),
    ("geometry", geometry::meshes::ATTACKS),
    ("geometry", geometry::surfaces::ATTACKS),
    ("geometry", geometry::topology::ATTACKS),
    ("geometry", geometry::trusted::ATTACKS),
    ("geometry", geometry::volumes::ATTACKS),
    ("graphs", graphs::ATTACKS),
    ("graphs", graphs::bodies::ATTACKS),
    ("graphs", graphs::changes::ATTACKS),
    ("graphs", graphs::memory::ATTACKS),
    ("graphs", graphs::order::ATTACKS),
    ("graphs", graphs::recording::ATTACKS),
    ("host_functions", host_functions::ATTACKS),
    ("kernels", kernels::ATTACKS),
    ("kernels", kernels::declarations::ATTACKS),
    ("kernels", kernels::limits::ATTACKS),
    ("kernels", kernels::modules::ATTACKS),
    ("kernels", kernels::ported::ATTACKS),
    ("kernels", kernels::traits::ATTACKS),
    ("lent", lent::ATTACKS),
    ("memory", memory::ATTACKS),
    ("order", order::ATTACKS),
    ("pinned", pinned::ATTACKS),
    ("rust_kernels", rust_kernels::ATTACKS),
    ("tape", tape::ATTACKS),
    ("tape", tape::checks::ATTACKS),
    ("tape", tape::customs::ATTACKS),
    ("tape", tape::graphs::ATTACKS),
    ("tape", tape::passes::ATTACKS),
    ("tape", tape::threads::ATTACKS),
    ("tape", tape::values::ATTACKS),
    #[cfg(unix)]
    ("trust", trust::ATTACKS),
    #[cfg(unix)]
    ("trust", trust::compile::ATTACKS),
    #[cfg(unix)]
    ("trust", trust::places::ATTACKS),
    ("unified", unified::ATTACKS),
    ("user_code", user_code::ATTACKS),
    ("user_code", user_code::drops::ATTACKS),
    ("user_code", user_code::locks::ATTACKS),
    ("user_code", user_code::subscribers::ATTACKS),
    ("user_code", user_code::wakers::ATTACKS),
];

/// The attack of this name, `theme::name`.
pub(crate) fn program(name: &str) -> Option<Program> {
    let (theme, name) = name.split_once("::")?;
    let files = PROGRAMS.iter().filter(|(known, _)| *known == theme);
    files.flat_map(|(_, programs)| *programs).find(|program| program.name == name).copied()
}

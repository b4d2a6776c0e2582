//! The attacks, by theme. The `README.md` of the package says how to add one.

mod collectives;
mod contexts;
mod errors;
mod geometry;
mod graphs;
mod host_functions;
mod kernels;
mod lent;
#[cfg(unix)]
mod libraries;
mod memory;
mod order;
mod pinned;
mod rust_kernels;
mod tape;
#[cfg(unix)]
mod trust;
mod unified;
mod user_code;

use crate::attack::Attack;

/// The attacks of each file.
pub(crate) const ALL: &[&[Attack]] = &[
    collectives::ATTACKS,
    collectives::circles::ATTACKS,
    collectives::ends::ATTACKS,
    #[cfg(unix)]
    collectives::forks::ATTACKS,
    collectives::order::ATTACKS,
    collectives::splits::ATTACKS,
    contexts::ATTACKS,
    contexts::closing::ATTACKS,
    contexts::devices::ATTACKS,
    contexts::several::ATTACKS,
    contexts::threads::ATTACKS,
    errors::ATTACKS,
    #[cfg(unix)]
    errors::forked::ATTACKS,
    geometry::ATTACKS,
    geometry::boxes::ATTACKS,
    geometry::builds::ATTACKS,
    geometry::files::ATTACKS,
    geometry::grids::ATTACKS,
    geometry::left_out::ATTACKS,
    geometry::meshes::ATTACKS,
    geometry::surfaces::ATTACKS,
    geometry::topology::ATTACKS,
    geometry::trusted::ATTACKS,
    geometry::volumes::ATTACKS,
    graphs::ATTACKS,
    graphs::bodies::ATTACKS,
    graphs::changes::ATTACKS,
    graphs::memory::ATTACKS,
    graphs::order::ATTACKS,
    graphs::recording::ATTACKS,
    host_functions::ATTACKS,
    kernels::ATTACKS,
    kernels::declarations::ATTACKS,
    kernels::limits::ATTACKS,
    kernels::modules::ATTACKS,
    kernels::ported::ATTACKS,
    kernels::traits::ATTACKS,
    lent::ATTACKS,
    #[cfg(unix)]
    libraries::ATTACKS,
    memory::ATTACKS,
    order::ATTACKS,
    pinned::ATTACKS,
    rust_kernels::ATTACKS,
    tape::ATTACKS,
    tape::checks::ATTACKS,
    tape::customs::ATTACKS,
    tape::graphs::ATTACKS,
    tape::passes::ATTACKS,
    tape::threads::ATTACKS,
    tape::values::ATTACKS,
    #[cfg(unix)]
    trust::ATTACKS,
    #[cfg(unix)]
    trust::compile::ATTACKS,
    #[cfg(unix)]
    trust::places::ATTACKS,
    unified::ATTACKS,
    user_code::ATTACKS,
    user_code::drops::ATTACKS,
    user_code::locks::ATTACKS,
    user_code::subscribers::ATTACKS,
    user_code::wakers::ATTACKS,
];

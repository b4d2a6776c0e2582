//! Attacks on memory that the host sees.

mod guards;
mod registered;
mod variables;

use cuda_safe::{DeviceBuffer, UnifiedBuffer};

use crate::harness::{Lab, TestResult, ensure, ensure_eq, list};
use guards::{
    a_panic_under_a_guard, a_reading_guard_leaked, every_use_under_a_leaked_guard,
    guards_on_other_threads, guards_race_with_launches, pages_moved_under_guards,
    written_while_others_read,
};
use registered::{
    a_vector_taken_back_in_use, registered_vectors_dropped_in_flight, vectors_that_share_pages,
};
use variables::{
    declared_globals_that_do_not_fit, managed_variables_of_two_threads,
    managed_variables_under_guards,
};

/// Leaks a guard for writing, then lets the device use the buffer.
///
/// - row: while a guard lives nothing that conflicts
/// - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::host`, `UnifiedBuffer::managed`, `UnifiedBuffer::pinned`
/// - must: error "host"
/// - variants: managed, pinned
fn leaked_guards(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut x = match lab.variant() {
        "managed" => UnifiedBuffer::<u32>::managed(&stream, 100)?,
        _ => UnifiedBuffer::<u32>::pinned(&stream, 100)?,
    };
    let y = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    std::mem::forget(x.host_mut()?);
    lab.refused(x.copy_from(&stream, &y))?;
    lab.refused(x.as_slice().to_vec(&stream))?;
    lab.refused_because(x.host().map(drop), "guard")
}

/// Reads a registered vector through guards while copies to it are under way.
///
/// - row: when the host reads, all writes are done
/// - row: a registered vector comes back only
/// - targets: `UnifiedBuffer::register`, `UnifiedBuffer::host`
/// - must: right
fn guards_beside_copies(lab: &Lab) -> TestResult {
    let (stream, other) = (lab.stream()?, lab.stream()?);
    let mut x = UnifiedBuffer::register(&stream, vec![0u32; 1 << 14])?;
    for round in 1..30u32 {
        let y = DeviceBuffer::from_slice(&other, &vec![round; 1 << 14])?;
        x.copy_from(&other, &y)?;
        let seen = x.host()?;
        ensure!(seen.iter().all(|seen| *seen == round), "round {round} saw {:?}", &seen[..4]);
        drop(seen);
        x.host_mut()?.fill(u32::MAX);
    }
    ensure_eq!(x.host()?[0], u32::MAX);
    Ok(())
}

/// Launches a graph that writes a buffer while a guard of the buffer lives, without a borrow: the graph's state
/// has given the buffer up.
///
/// - row: while a guard lives nothing that conflicts
/// - targets: `Context::capture`, `UnifiedBuffer::host`
/// - must: error "host"
fn graph_launched_under_a_guard(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let x = UnifiedBuffer::<u32>::pinned(&stream, 64)?;
    let zeros = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let mut graph = lab
        .context()?
        .capture(Some(x), |s, x| x.as_mut().map_or(Ok(()), |x| x.copy_from(s, &zeros)))?;
    let Some(x) = graph.state_mut().take() else { return Ok(()) };
    graph.launch(&stream)?;
    let seen = x.host()?;
    lab.refused(graph.launch(&stream))?;
    ensure_eq!(seen[..], [0u32; 64]);
    drop(seen);
    graph.launch(&stream)?;
    Ok(())
}

list![
    leaked_guards,
    guards_beside_copies,
    graph_launched_under_a_guard,
    a_reading_guard_leaked,
    guards_on_other_threads,
    guards_race_with_launches,
    pages_moved_under_guards,
    written_while_others_read,
    a_vector_taken_back_in_use,
    registered_vectors_dropped_in_flight,
    vectors_that_share_pages,
    a_panic_under_a_guard,
    every_use_under_a_leaked_guard,
    managed_variables_under_guards,
    managed_variables_of_two_threads,
    declared_globals_that_do_not_fit,
];

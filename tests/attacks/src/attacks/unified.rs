//! Attacks on memory that the host sees.

mod guards;
mod registered;
mod variables;

use cuda_safe::{DeviceBuffer, UnifiedBuffer};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;
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
fn leaked_guards(lab: &Lab) -> TestResult {
    let refusal = "host";
    let stream = lab.stream()?;
    let mut x = match lab.variant() {
        "managed" => UnifiedBuffer::<u32>::managed(&stream, 100)?,
        _ => UnifiedBuffer::<u32>::pinned(&stream, 100)?,
    };
    let y = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    std::mem::forget(x.host_mut()?);
    lab.refused(x.copy_from(&stream, &y), refusal)?;
    lab.refused(x.as_slice().to_vec(&stream), refusal)?;
    lab.refused(x.host().map(drop), "guard")
}

/// Reads a registered vector through guards while copies to it are under way.
///
/// - row: when the host reads, all writes are done
/// - row: a registered vector comes back only
/// - targets: `UnifiedBuffer::register`, `UnifiedBuffer::host`
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
    lab.refused(graph.launch(&stream), "host")?;
    ensure_eq!(seen[..], [0u32; 64]);
    drop(seen);
    graph.launch(&stream)?;
    Ok(())
}

attacks![
    "unified",
    refused(leaked_guards).variants(&["managed", "pinned"]),
    right(guards_beside_copies),
    refused(graph_launched_under_a_guard),
    refused(a_reading_guard_leaked).variants(&["managed", "pinned", "registered"]),
    right(guards_on_other_threads).variants(&["managed", "pinned", "registered"]),
    right(guards_race_with_launches).variants(&["managed", "pinned", "registered"]),
    right(pages_moved_under_guards).variants(&["managed", "pinned", "registered"]),
    right(written_while_others_read).variants(&["managed", "pinned", "registered"]),
    right(a_vector_taken_back_in_use).variants(&["work", "handle", "graph"]),
    right(registered_vectors_dropped_in_flight).variants(&["dropped", "forgotten", "collected"]),
    right(vectors_that_share_pages),
    right(a_panic_under_a_guard).variants(&["managed", "pinned", "registered"]),
    refused(every_use_under_a_leaked_guard).variants(&["managed", "pinned", "registered"]),
    refused(managed_variables_under_guards),
    right(managed_variables_of_two_threads),
    right(declared_globals_that_do_not_fit),
];

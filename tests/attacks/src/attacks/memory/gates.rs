//! Attacks on memory behind gates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_safe::{DeviceBuffer, Driver, Gate};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// Guards buffers by several gates, drops, closes, leaks and gives them away, while another thread closes and opens gates and
/// frees what waits. Memory that others hold keeps what they wrote.
///
/// - row: memory behind a gate is not freed before
/// - row: device memory is freed after the last work
/// - targets: `Gate::new`, `Gate::protect`, `Gate::close`, `Gate::open`, `DeviceBuffer::close`,
///   `DeviceBuffer::allocation`, `Context::free_deferred`
pub(super) fn gates_in_a_storm(lab: &Lab) -> TestResult {
    const LEN: usize = 500;
    let context = lab.context()?;
    for _ in 0..4 {
        let gates = [Gate::new(), Gate::new(), Gate::new()];
        let done = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let users = [1u32, 2].map(|user| {
                let (context, gates) = (&context, &gates);
                scope.spawn(move || -> Result<(), Failure> {
                    let (stream, other) = (context.stream()?, context.stream()?);
                    let mut held: Vec<DeviceBuffer<u32>> = Vec::new();
                    for round in 0..60u32 {
                        let value = user * 1000 + round;
                        let mut x = DeviceBuffer::from_slice(&stream, &[0; LEN])?;
                        // A gate that was closed takes no more memory.
                        let guarded: Vec<_> =
                            gates.iter().map(|gate| gate.protect(x.allocation()).is_ok()).collect();
                        ensure_eq!(guarded.len(), gates.len());
                        // A use waits while a gate is closed, a second at most.
                        x.fill(if round % 2 == 0 { &stream } else { &other }, value)?;
                        ensure!(x.to_vec(&stream)?.iter().all(|seen| *seen == value));
                        match round % 5 {
                            0 => x.close()?,
                            1 => drop(x),
                            2 => drop((x.allocation().clone(), x)),
                            _ => held.push(x),
                        }
                        if held.len() > 6 {
                            let first = held.remove(0);
                            let seen = first.to_vec(&other)?;
                            ensure!(seen.iter().all(|value| *value == seen[0]), "torn memory");
                            ensure_eq!(seen[0] / 1000, user);
                        }
                    }
                    Ok(())
                })
            });
            let (gates, done) = (&gates, &done);
            let keeper = scope.spawn({
                let context = &context;
                move || -> Result<(), Failure> {
                    thread::sleep(std::time::Duration::from_millis(2));
                    for gate in gates {
                        gate.close()?;
                        gate.close()?;
                        context.free_deferred()?;
                        thread::sleep(std::time::Duration::from_millis(1));
                        gate.open();
                        gate.close()?;
                    }
                    while !done.load(Ordering::Relaxed) {
                        context.free_deferred()?;
                        thread::yield_now();
                    }
                    Ok(())
                }
            });
            let users = users.map(|user| user.join());
            done.store(true, Ordering::Relaxed);
            (users, keeper.join())
        });
        let panicked = |_| Failure::new("a thread panicked");
        for user in seen.0 {
            user.map_err(panicked)??;
        }
        seen.1.map_err(panicked)??;
        match lab.variant() {
            "opened" => gates.iter().for_each(Gate::open),
            "leaked" => {
                // A gate that is leaked while it is open holds no memory.
                std::mem::forget(gates);
                context.free_deferred()?;
            }
            _ => drop(gates),
        }
    }
    Ok(())
}

/// Forgets a gate that is closed. Uses of its memory are refused by an error that names it, and the context can be closed.
///
/// - row: memory behind a gate is not freed before
/// - targets: `Gate::new`, `Gate::protect`, `Gate::close`, `DeviceBuffer::allocation`, `Context::close`
pub(super) fn a_gate_that_stays_shut(lab: &Lab) -> TestResult {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[1u32; 1000])?;
    let gate = Gate::new();
    gate.protect(x.allocation())?;
    gate.close()?;
    std::mem::forget(gate);
    lab.refused(x.to_vec(&stream), "the memory is behind gate")?;
    drop((x, stream));
    ensure!(context.close().is_ok(), "the context was not closed");
    Ok(())
}

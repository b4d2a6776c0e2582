//! Recordings and passes on several streams: they wait for each other where memory asks for it.

use super::graphs::{N, State};
use super::ops::{Number, Ops, numbers};
use test_harness::{Case, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::streams",
        device(each_step_on_another = each_step_on_another::<f32>),
        device(branches_of_a_graph = branches_of_a_graph::<f64>),
        device(graphs_of_two_tapes = graphs_of_two_tapes::<f32>),
    ]
}

/// Two tapes whose uploads, recordings, passes and downloads change places.
fn each_step_on_another<T: Number>(device: &TestDevice) -> TestResult {
    let [a, b, c, d] = [device.stream()?, device.stream()?, device.stream()?, device.stream()?];
    let (ops, mut rng) = (Ops::of::<T>(device)?, device.rng(851));
    let (mut one, mut two) = (State::<T>::new(&a, true)?, State::<T>::new(&b, true)?);
    for _ in 0..3 {
        let hosts: [Vec<T>; 2] = [numbers(&mut rng, N), numbers(&mut rng, N)];
        one.x.upload(&a, &hosts[0])?;
        two.x.upload(&b, &hosts[1])?;
        one.forward(&b, &ops)?;
        two.forward(&a, &ops)?;
        one.backward(&c)?;
        two.backward(&d)?;
        one.check(&d, &hosts[0])?;
        two.check(&c, &hosts[1])?;
    }
    Ok(())
}

/// Two tapes in one graph: each is recorded in one branch and goes back in the other.
fn branches_of_a_graph<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let (ops, mut rng) = (Ops::of::<T>(device)?, device.rng(852));
    let states = [State::<T>::new(&stream, true)?, State::<T>::new(&stream, true)?];
    let mut graph = device.context().capture(states, |stream, [one, two]| {
        let fork = stream.fork()?;
        one.forward(stream, &ops)?;
        two.forward(&fork, &ops)?;
        one.backward(&fork)?;
        two.backward(stream)
    })?;
    for _ in 0..3 {
        let hosts: [Vec<T>; 2] = [numbers(&mut rng, N), numbers(&mut rng, N)];
        let [one, two] = graph.state_mut();
        one.x.upload(&stream, &hosts[0])?;
        two.x.upload(&other, &hosts[1])?;
        graph.launch(&stream)?;
        let [one, two] = graph.state();
        one.check(&other, &hosts[0])?;
        two.check(&stream, &hosts[1])?;
    }
    Ok(())
}

/// A graph for each of two tapes, launched side by side.
fn graphs_of_two_tapes<T: Number>(device: &TestDevice) -> TestResult {
    let (first, second) = (device.stream()?, device.stream()?);
    let (ops, mut rng) = (Ops::of::<T>(device)?, device.rng(853));
    let capture = |home| {
        device.context().capture(State::<T>::new(home, true)?, |stream, state| {
            state.forward(stream, &ops)?;
            state.backward(stream)
        })
    };
    let (mut one, mut two) = (capture(&first)?, capture(&second)?);
    for _ in 0..3 {
        let hosts: [Vec<T>; 2] = [numbers(&mut rng, N), numbers(&mut rng, N)];
        one.state_mut().x.upload(&second, &hosts[0])?;
        two.state_mut().x.upload(&first, &hosts[1])?;
        one.launch(&first)?;
        two.launch(&second)?;
        one.state().check(&second, &hosts[0])?;
        two.state().check(&first, &hosts[1])?;
    }
    Ok(())
}

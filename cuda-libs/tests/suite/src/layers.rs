//! Layers of cuBLASLt on the tape, against sums on the host and differences.

use cuda_libs::lt::{Activation, Problem};
use cuda_libs::tape::lt::Layer;
use cuda_libs::{Layout, Mat, MatMut, Order};
use cuda_safe::DeviceBuffer;
use tape::{Seeds, Tape, check};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

use super::lab::{ORDERS, at};
use super::lt::{gelu, lt};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::layers",
        device(against_sums),
        device(against_differences),
        device(in_a_graph),
        device(what_is_refused),
    ]
}

/// Multiples of 1/8 in -1..1, whose products and sums are exact: whether an input of ReLU is negative is certain.
fn eighths(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| (rng.float() * 8.0).round() / 8.0).collect()
}

fn activated(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::Relu => z.max(0.0),
        Activation::Gelu => gelu(z),
        _ => z,
    }
}

fn derivative(activation: Activation, z: f64) -> f64 {
    match activation {
        // That of 0 is 1 in cuBLASLt.
        Activation::Relu => f64::from(z >= 0.0),
        Activation::Gelu => (gelu(z + 1e-5) - gelu(z - 1e-5)) / 2e-5,
        _ => 1.0,
    }
}

/// GELU has some 11 bits.
fn tolerance(activation: Activation) -> f64 {
    if activation == Activation::Gelu { 4e-3 } else { 1e-5 }
}

fn close(what: &str, tolerance: f64, got: &[f32], wanted: &[f64]) -> TestResult {
    ensure!(got.len() == wanted.len());
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let off = (f64::from(*got) - wanted).abs();
        ensure!(off <= tolerance * (1.0 + wanted.abs()), "{what}: {at}: {got} is not {wanted}");
    }
    Ok(())
}

/// Every activation, with and without a bias, in both orders. `d` has its gradient from outside: one number for each element.
fn against_sums(device: &TestDevice) -> TestResult {
    let (stream, lt, mut rng) = (device.stream()?, lt(device)?, device.rng(4240));
    let activations = [Activation::Identity, Activation::Relu, Activation::Gelu];
    for (number, (m, n, k)) in
        [(1, 1, 1), (5, 4, 3), (33, 17, 32), (4, 0, 3)].into_iter().enumerate()
    {
        for (activation, biased) in activations.into_iter().flat_map(|a| [(a, false), (a, true)]) {
            let orders = [number % 2, number / 2, usize::from(!biased && number % 2 == 1)];
            let [oa, ob, od] = orders.map(|at| ORDERS[at]);
            let (la, lb) = (Layout::new(m, k).order(oa), Layout::new(k, n).order(ob));
            let ld = Layout::new(m, n).order(od);
            let mut problem = Problem::new(la, lb, ld).activation(activation);
            if biased {
                problem = problem.bias();
            }
            let layer = Layer::new(&lt, &problem)?;
            let [a, b, bias, seeds] =
                [m * k, k * n, n, m * n].map(|count| eighths(&mut rng, count));
            let upload = |host: &[f32]| DeviceBuffer::from_slice(&stream, host);
            let (da, db, dbias, dseeds) =
                (upload(&a)?, upload(&b)?, upload(&bias)?, upload(&seeds)?);
            let mut d = upload(&vec![f32::NAN; m * n])?;
            let mut tape = Tape::record(&stream, |t| {
                t.watch(&da)?;
                t.watch(&db)?;
                t.watch(&dbias)?;
                let (a, b) = (Mat::with(&da, la)?, Mat::with(&db, lb)?);
                let bias = biased.then(|| dbias.as_slice());
                Ok(layer.record(t, a, b, bias, MatMut::with(&mut d, ld)?)?)
            })?;
            let place = |layout: &Layout, order: Order, i, j| at(layout, order, 0, i, j);
            let of = |host: &[f32], at: usize| f64::from(host[at]);
            let z = |i: usize, j: usize| {
                let sum = |l| of(&a, place(&la, oa, i, l)) * of(&b, place(&lb, ob, l, j));
                (0..k).map(sum).sum::<f64>() + if biased { of(&bias, j) } else { 0.0 }
            };
            let all = |r: usize, c: usize| (0..r).flat_map(move |i| (0..c).map(move |j| (i, j)));
            let mut wanted = vec![0.0; m * n];
            all(m, n)
                .for_each(|(i, j)| wanted[place(&ld, od, i, j)] = activated(activation, z(i, j)));
            let most = tolerance(activation);
            close("d", most, &d.to_vec(&stream)?, &wanted)?;
            if n == 0 {
                continue;
            }
            tape.backward_with(&stream, &Seeds::new().with(&d, &dseeds)?)?;
            let inner: Vec<f64> = all(m, n)
                .map(|(i, j)| of(&seeds, place(&ld, od, i, j)) * derivative(activation, z(i, j)))
                .collect();
            let mut wanted = vec![0.0; m * k];
            for (i, l) in all(m, k) {
                let sum = |j: usize| inner[i * n + j] * of(&b, place(&lb, ob, l, j));
                wanted[place(&la, oa, i, l)] = (0..n).map(sum).sum();
            }
            // The sum of errors of so many elements.
            let most = most * (1 + m.max(n)) as f64;
            close("a", most, &tape.gradient(&da)?.to_vec(&stream)?, &wanted)?;
            let mut wanted = vec![0.0; k * n];
            for (l, j) in all(k, n) {
                let sum = |i: usize| inner[i * n + j] * of(&a, place(&la, oa, i, l));
                wanted[place(&lb, ob, l, j)] = (0..m).map(sum).sum();
            }
            close("b", most, &tape.gradient(&db)?.to_vec(&stream)?, &wanted)?;
            if biased {
                let sum = |j: usize| (0..m).map(|i| inner[i * n + j]).sum();
                let wanted: Vec<f64> = (0..n).map(sum).collect();
                close("bias", most, &tape.gradient(&dbias)?.to_vec(&stream)?, &wanted)?;
            }
        }
    }
    Ok(())
}

/// Two layers that share their weights: the Jacobian against central differences of `f64` on the host.
fn against_differences(device: &TestDevice) -> TestResult {
    const N: usize = 3;
    let (stream, lt, mut rng) = (device.stream()?, lt(device)?, device.rng(4241));
    let layout = Layout::new(N, N);
    let problem = Problem::new(layout, layout, layout).bias().activation(Activation::Gelu);
    let layer = Layer::new(&lt, &problem)?;
    let [x, w, bias] = [N * N, N * N, N].map(|count| eighths(&mut rng, count));
    let upload = |host: &[f32]| DeviceBuffer::from_slice(&stream, host);
    let (dx, dw, dbias) = (upload(&x)?, upload(&w)?, upload(&bias)?);
    let (mut y, mut z) = (upload(&[0.0; N * N])?, upload(&[0.0; N * N])?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&dw)?;
        let w = Mat::with(&dw, layout)?;
        let first = (Mat::with(&dx, layout)?, MatMut::with(&mut y, layout)?);
        layer.record(t, first.0, w, Some(dbias.as_slice()), first.1)?;
        let second = (Mat::with(&y, layout)?, MatMut::with(&mut z, layout)?);
        Ok(layer.record(t, second.0, w, Some(dbias.as_slice()), second.1)?)
    })?;
    let adjoint = check::jacobian(&mut tape, &stream, &dw, &z)?;
    let of_layer = |x: &[f64], w: &[f64]| -> Vec<f64> {
        let sum = |i: usize, j: usize| (0..N).map(|l| x[i * N + l] * w[l * N + j]).sum::<f64>();
        (0..N * N).map(|at| gelu(sum(at / N, at % N) + f64::from(bias[at % N]))).collect()
    };
    let wide = |host: &[f32]| host.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let (x, w) = (wide(&x), wide(&w));
    let moved = |column: usize, by: f64| {
        let mut w = w.clone();
        w[column] += by;
        of_layer(&of_layer(&x, &w), &w)
    };
    let columns: Vec<_> = (0..N * N).map(|at| (moved(at, 1e-5), moved(at, -1e-5))).collect();
    let row = |row: usize| columns.iter().map(|(up, down)| (up[row] - down[row]) / 2e-5).collect();
    let differences = check::Jacobian::from_rows(&(0..N * N).map(row).collect::<Vec<_>>())?;
    let compared = adjoint.compare(&differences, |_, _| false)?;
    ensure!(compared.compared == N.pow(4) && compared.error < 1e-2, "{compared}");
    Ok(())
}

/// Forward and adjoint in one graph, which is launched again for another input.
fn in_a_graph(device: &TestDevice) -> TestResult {
    const N: usize = 4;
    let (stream, lt) = (device.stream()?, lt(device)?);
    let layout = Layout::new(N, N);
    let layer =
        Layer::new(&lt, &Problem::new(layout, layout, layout).activation(Activation::Relu))?;
    let of = |value: f32| DeviceBuffer::from_slice(&stream, &[value; N * N]);
    let ones = of(1.0)?;
    let state = (of(1.0)?, of(0.5)?, of(0.0)?, Tape::new(&stream)?);
    let recorded = layer.clone();
    let mut graph = device.context().capture(state, move |stream, (x, w, y, tape)| {
        tape.record_again(stream, |t| {
            t.watch(&*w)?;
            let (x, w) = (Mat::with(&*x, layout)?, Mat::with(&*w, layout)?);
            Ok(recorded.record(t, x, w, None, MatMut::with(&mut *y, layout)?)?)
        })?;
        tape.backward_with(stream, &Seeds::new().with(&*y, &ones)?)
    })?;
    for (value, wanted) in [(1.0, 4.0), (3.0, 12.0), (-1.0, 0.0)] {
        graph.state_mut().0.fill(&stream, value)?;
        graph.launch(&stream)?;
        let (_, w, y, tape) = graph.state();
        close("y", 1e-5, &y.to_vec(&stream)?, &[(2.0 * f64::from(value)).max(0.0); N * N])?;
        close("w", 1e-5, &tape.gradient(w)?.to_vec(&stream)?, &[wanted; N * N])?;
    }
    Ok(())
}

fn refused<T, E: ToString>(result: Result<T, E>, wanted: &str) -> TestResult {
    let Err(error) = result else {
        return Err(Failure::new(format!("accepted; wanted: {wanted}")));
    };
    let text = error.to_string();
    ensure!(text.contains(wanted), "`{text}` has no `{wanted}`");
    Ok(())
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let (stream, lt) = (device.stream()?, lt(device)?);
    let layout = Layout::new(2, 2);
    let plain = Problem::new(layout, layout, layout);
    let new = |problem: &Problem| Layer::new(&lt, problem);
    refused(new(&plain.activation(Activation::Relu).save()), "problem has more options")?;
    refused(new(&plain.factors_on_device()), "problem has more options")?;
    refused(new(&plain.activation(Activation::GeluGradient)), "activation is a gradient")?;
    let two = layout.batch(2);
    refused(new(&Problem::new(two, two, two)), "problem is of a batch")?;
    let gaps = layout.leading(3);
    refused(new(&Problem::new(layout, layout, gaps)), "d has gaps")?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; 16])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut record = |layer: &Layer, a: Layout, bias: Option<usize>| {
        let recorded = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let (a, b, d) =
                (Mat::with(&x, a)?, Mat::with(&x, layout)?, MatMut::with(&mut y, layout)?);
            let bias = bias.map(|len| x.slice(..len)).transpose()?;
            Ok(layer.record(t, a, b, bias, d)?)
        });
        recorded.map(drop)
    };
    let (plain, biased) = (new(&plain)?, new(&plain.bias())?);
    refused(record(&plain, Layout::new(2, 3), None), "a has another layout")?;
    refused(record(&plain, layout, Some(2)), "bias is given")?;
    refused(record(&biased, layout, None), "bias is missing")?;
    refused(record(&biased, layout, Some(1)), "2 are needed")
}

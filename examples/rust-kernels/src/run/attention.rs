use cuda_safe::DeviceBuffer;
use half::f16;
use rust_kernels::attention::{HEAD, attention};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::halves;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // No multiple of a tile's size.
    let (n, heads) = (setting.size(1000, 100) + 1, 3);
    let len = n * heads * HEAD;
    // Products of queries and keys up to some tens: a few keys have most of the weight.
    let [q, k, v] = [14, 15, 16].map(|seed| halves(seed, len, 3.0));
    let on_device = [&q, &k, &v].map(|x| DeviceBuffer::from_slice(stream, x));
    let [q_device, k_device, v_device] = on_device;
    let (q_device, k_device, v_device) = (q_device?, k_device?, v_device?);
    let mut furthest = 0.0f64;
    for causal in [false, true] {
        let mut cpu = vec![0.0; len];
        attention::cpu(n, heads, causal, &q, &k, &v, &mut cpu)?;
        let mut out = DeviceBuffer::<f32>::zeroed(stream, len)?;
        attention::launch(stream, n, heads, causal, &q_device, &k_device, &v_device, &mut out)?;
        same(&cpu, &out.to_vec(stream)?)?;

        for query in 0..n {
            for head in 0..heads {
                let oracle =
                    oracle(query, head, if causal { query + 1 } else { n }, heads, [&q, &k, &v]);
                let first = (query * heads + head) * HEAD;
                for (x, exact) in cpu[first..first + HEAD].iter().zip(oracle) {
                    close("an element", f64::from(*x), exact, 3e-5)?;
                    furthest = furthest.max((f64::from(*x) - exact).abs());
                }
            }
        }
    }
    Ok(format!("{n} queries of {heads} heads, errors up to {furthest:.0e}"))
}

/// The softmax of all scores, and then the mean.
fn oracle(
    query: usize,
    head: usize,
    keys: usize,
    heads: usize,
    [q, k, v]: [&[f16]; 3],
) -> [f64; HEAD] {
    let row = |of: &[f16], row: usize| -> [f64; HEAD] {
        std::array::from_fn(|t| of[(row * heads + head) * HEAD + t].to_f64())
    };
    let query = row(q, query);
    let product = |key: usize| query.iter().zip(row(k, key)).map(|(q, k)| q * k).sum::<f64>();
    let scores: Vec<f64> = (0..keys).map(|key| product(key) / (HEAD as f64).sqrt()).collect();
    let top = scores.iter().fold(f64::NEG_INFINITY, |top, score| top.max(*score));
    let (mut mean, mut total) = ([0.0; HEAD], 0.0);
    for (key, score) in scores.iter().enumerate() {
        let weight = (score - top).exp();
        total += weight;
        mean.iter_mut().zip(row(v, key)).for_each(|(mean, v)| *mean += weight * v);
    }
    mean.map(|sum| sum / total)
}

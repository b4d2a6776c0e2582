use cuda_safe::DeviceBuffer;
use rust_kernels::heat::heat;

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

const RATE: f32 = 0.2;
/// Pairs of steps.
const PAIRS: usize = 3;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // No multiples of a tile's size.
    let (rows, columns) = (setting.size(1000, 60) + 1, setting.size(1500, 90) + 3);
    let start = Random::floats(16, rows * columns);

    let (mut now, mut next) = (start.clone(), vec![0.0; rows * columns]);
    let mut device_now = DeviceBuffer::from_slice(stream, &start)?;
    let mut device_next = DeviceBuffer::<f32>::zeroed(stream, rows * columns)?;
    for _ in 0..PAIRS {
        heat::cpu(RATE, rows, columns, &now, &mut next)?;
        heat::cpu(RATE, rows, columns, &next, &mut now)?;
        heat::launch(stream, RATE, rows, columns, &device_now, &mut device_next)?;
        heat::launch(stream, RATE, rows, columns, &device_next, &mut device_now)?;
    }
    same(&now, &device_now.to_vec(stream)?)?;

    // In f64, on a plate with a margin.
    let wide = columns + 2;
    let mut exact = vec![0.0; (rows + 2) * wide];
    for (at, start) in start.iter().enumerate() {
        exact[(at / columns + 1) * wide + at % columns + 1] = f64::from(*start);
    }
    for _ in 0..2 * PAIRS {
        let before = exact.clone();
        for at in (1..=rows).flat_map(|row| (row * wide + 1)..=(row * wide + columns)) {
            let around = before[at - 1] + before[at + 1] + before[at - wide] + before[at + wide];
            exact[at] += f64::from(RATE) * (around - 4.0 * before[at]);
        }
    }
    for (at, value) in now.iter().enumerate() {
        let exact = exact[(at / columns + 1) * wide + at % columns + 1];
        close(&format!("temperature {at}"), f64::from(*value), exact, 1e-5)?;
    }
    Ok(format!("{rows} x {columns}, {} steps", 2 * PAIRS))
}

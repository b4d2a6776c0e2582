//! Copies and work of several streams at the same time.

use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, include_cuda, kernels};

use crate::Output;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread i touches element i alone, and only if i < n. Indices and sums of them are ints.
    unsafe in include_cuda!("async_streams.cu") {
        #[name = "addWave"]
        safe fn add_wave(data: &mut [f32], n: i32 = data.len(), offset: i32) over n
            where n < 2_000_000_000, offset >= 0, offset + n <= i32::MAX;
    }
}

/// Works on 262,144 numbers in four parts.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (n, streams) = (1 << 18, 4);
    let part = n / streams;

    let kernels = Kernels::load(context)?;
    let mut running = Vec::new();
    for first in (0..n).step_by(part) {
        let values: Vec<f32> = (first..first + part).map(|i| (i % 100) as f32).collect();
        let stream = context.stream()?;
        let host = PinnedBuffer::from_slice(context, &values)?;
        let mut device = DeviceBuffer::<f32>::zeroed(&stream, part)?;
        let uploaded = device.upload_pinned(&stream, host)?;
        kernels.add_wave(&stream, &mut device, first)?;
        let target = PinnedBuffer::zeroed(context, part)?;
        running.push((uploaded, device.download_pinned(&stream, target)?));
    }

    let mut values = Vec::with_capacity(n);
    for (_, downloaded) in running {
        values.extend_from_slice(&downloaded.wait()?);
    }
    Ok(values)
}

use cuda_safe::DeviceBuffer;
use rust_kernels::spmv::spmv;

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Sparse;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let rows = setting.size(1 << 18, 1 << 13);
    let matrix = Sparse::new(rows);
    let Sparse { offsets, columns, values, x } = &matrix;

    let mut cpu = vec![0.0; rows];
    spmv::cpu(offsets, columns, values, x, &mut cpu)?;

    let offsets_on_device = DeviceBuffer::from_slice(stream, offsets)?;
    let mut columns_on_device = DeviceBuffer::from_slice(stream, columns)?;
    let values_on_device = DeviceBuffer::from_slice(stream, values)?;
    let x_on_device = DeviceBuffer::from_slice(stream, x)?;
    let mut y = DeviceBuffer::<f32>::zeroed(stream, rows)?;
    let (offsets_on_device, values_on_device) = (&offsets_on_device, &values_on_device);
    spmv::launch(
        stream,
        offsets_on_device,
        &columns_on_device,
        values_on_device,
        &x_on_device,
        &mut y,
    )?;
    same(&cpu, &y.to_vec(stream)?)?;

    for row in 0..rows {
        let (mut sum, mut size) = (0.0, 0.0);
        for k in offsets[row] as usize..offsets[row + 1] as usize {
            let product = f64::from(values[k]) * f64::from(x[columns[k] as usize]);
            sum += product;
            size += product.abs();
        }
        // Each addition rounds by half a unit of at most the sum of the products' sizes.
        let elements = f64::from(offsets[row + 1] - offsets[row]);
        close(&format!("row {row}"), f64::from(cpu[row]), sum, size * elements * 6e-8)?;
    }

    // A column that is not there: an error with the line, the row and the column, on both.
    let bad = rows as u32 + 7;
    let at = columns.len() / 2;
    let mut wrong = columns.clone();
    wrong[at] = bad;
    columns_on_device.upload(stream, &wrong)?;
    let Err(on_cpu) = spmv::cpu(offsets, &wrong, values, x, &mut cpu) else {
        return Err("the CPU took a column that is not there".into());
    };
    spmv::launch(
        stream,
        offsets_on_device,
        &columns_on_device,
        values_on_device,
        &x_on_device,
        &mut y,
    )?;
    let Some(on_device) = take_fault(setting) else {
        return Err("the device took a column that is not there".into());
    };
    if on_cpu.to_string() != on_device {
        return Err(format!("the device reports `{on_device}`, and the CPU `{on_cpu}`").into());
    }
    Ok(format!("{rows} rows, {} elements; with a wrong column: {on_device}", columns.len()))
}

/// Waits for the stream, and takes the fault that a kernel left.
fn take_fault(setting: &Setting<'_>) -> Option<String> {
    setting.stream.synchronize().err()?;
    let fault = setting.stream.context().take_fault()?;
    Some(fault.to_string())
}

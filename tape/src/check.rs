//! Jacobians by a tape and by differences: helpers for tests of programs. [`gradcheck`](crate::gradcheck()) checks one
//! operation.
//!
//! Adjoints of `double` are compared with central differences; those of `float`, whose differences say
//! little, against those of `double`. All errors are relative to the largest entry.

use std::fmt;

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_safe::{DeviceBuffer, DeviceSlice, Error, Result, Stream};

use crate::element::{Differentiable, FloatType};
use crate::seeds::Seeds;
use crate::tape::Tape;

/// Derivatives of outputs (rows) with respect to inputs (columns), in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Jacobian {
    columns: usize,
    entries: Vec<f64>,
}

/// The comparison of two Jacobians.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The largest difference of two entries, relative to the largest entry.
    pub error: f64,
    /// The row and column of that difference.
    pub at: (usize, usize),
    /// How many entries were compared.
    pub compared: usize,
    /// How many entries were left out, because the function is not smooth around them.
    pub skipped: usize,
}

impl Jacobian {
    /// Creates a Jacobian from `rows`, each with a derivative with respect to every input.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if rows differ in length.
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Self> {
        let columns = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != columns) {
            return Err(Error::invalid("rows of a Jacobian have the same length"));
        }
        Ok(Self { columns, entries: rows.concat() })
    }

    /// Returns the number of inputs.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the derivatives of each output.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.entries.chunks_exact(self.columns.max(1))
    }

    /// Compares with another Jacobian. Entries whose row and column satisfy `skip` are left out and counted.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if their shapes differ.
    pub fn compare(
        &self,
        other: &Self,
        mut skip: impl FnMut(usize, usize) -> bool,
    ) -> Result<Comparison> {
        if self.columns != other.columns || self.entries.len() != other.entries.len() {
            return Err(Error::invalid("the Jacobians are of different shapes"));
        }
        let largest = other.entries.iter().fold(0.0f64, |most, entry| most.max(entry.abs()));
        let mut comparison = Comparison { error: 0.0, at: (0, 0), compared: 0, skipped: 0 };
        for (number, (one, other)) in self.entries.iter().zip(&other.entries).enumerate() {
            let at = (number / self.columns.max(1), number % self.columns.max(1));
            if skip(at.0, at.1) {
                comparison.skipped += 1;
                continue;
            }
            comparison.compared += 1;
            let difference = (one - other).abs();
            let error = if difference == 0.0 { 0.0 } else { difference / largest };
            // A NaN counts as an error.
            if error > comparison.error || error.is_nan() {
                (comparison.error, comparison.at) = (error, at);
            }
        }
        Ok(comparison)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { error, at: (row, column), compared, skipped } = self;
        write!(f, "error {error:.1e} at ({row}, {column}) of {compared} entries, {skipped} skipped")
    }
}

/// Returns the Jacobian by a tape: one backward pass for each number in `output`. `input` is watched.
///
/// # Errors
/// As [`Tape::backward_with`] and [`Tape::gradient`].
pub fn jacobian<T, U>(
    tape: &mut Tape,
    stream: &Stream,
    input: &DeviceBuffer<T>,
    output: &DeviceBuffer<U>,
) -> Result<Jacobian>
where
    T: Differentiable,
    U: Differentiable,
{
    let real = U::ELEMENT.real.map_or(FloatType::F32, FloatType::gradient);
    let widened = output.size_bytes() * U::ELEMENT.real.map_or(1, FloatType::widening);
    let mut rows = Vec::new();
    for number in 0..widened / real.size() {
        let mut seed = vec![0u8; widened];
        let at = number * real.size();
        let one: &[u8] = match real {
            FloatType::F64 => &1.0f64.to_ne_bytes(),
            _ => &1.0f32.to_ne_bytes(),
        };
        if let Some(place) = seed.get_mut(at..at + real.size()) {
            place.copy_from_slice(one);
        }
        let seed = DeviceBuffer::from_slice(stream, &seed)?;
        let seeds = Seeds::new().with(output, seed.as_slice().cast::<U::Gradient>()?)?;
        tape.backward_with(stream, &seeds)?;
        rows.push(numbers(stream, tape.gradient(input)?, T::ELEMENT.real)?);
    }
    Jacobian::from_rows(&rows)
}

/// Returns the Jacobian by central differences: each number of `input` is moved by `step` to both sides.
///
/// `evaluate` computes the outputs. `input` is restored afterwards, also if `evaluate` returns an error or panics.
///
/// # Errors
/// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if `evaluate` returns another number of outputs than in the
/// first call; otherwise the errors of `evaluate` and of the driver.
pub fn differences<T>(
    stream: &Stream,
    input: &mut DeviceBuffer<T>,
    step: f64,
    mut evaluate: impl FnMut(&DeviceBuffer<T>) -> Result<Vec<f64>>,
) -> Result<Jacobian>
where
    T: Differentiable<Gradient = T> + NoUninit + AnyBitPattern,
{
    let host: Vec<T> = input.to_vec(stream)?;
    let mut moved = Moved { stream, input, host, is_moved: false };
    let columns = columns(&mut moved, step, &mut evaluate);
    let restored = moved.restore();
    // The error of the columns came first, before that of restoring the input.
    let columns = columns?;
    restored?;
    let rows = columns.first().map_or(0, Vec::len);
    let of = |row: usize| columns.iter().filter_map(|column| column.get(row).copied()).collect();
    Jacobian::from_rows(&(0..rows).map(of).collect::<Vec<Vec<f64>>>())
}

/// Returns the derivatives of all outputs by each number of the input.
fn columns<T>(
    moved: &mut Moved<'_, T>,
    step: f64,
    evaluate: &mut impl FnMut(&DeviceBuffer<T>) -> Result<Vec<f64>>,
) -> Result<Vec<Vec<f64>>>
where
    T: Differentiable<Gradient = T> + NoUninit + AnyBitPattern,
{
    let real = T::ELEMENT.real.unwrap_or(FloatType::F32);
    let count = size_of_val(moved.host.as_slice()) / real.size();
    let mut columns = Vec::with_capacity(count);
    let mut outputs = None;
    for number in 0..count {
        let mut side = |by: f64| -> Result<(f64, Vec<f64>)> {
            let mut host = moved.host.clone();
            let moved_to = shift(bytemuck::cast_slice_mut::<T, u8>(&mut host), real, number, by);
            let given = evaluate(moved.upload(&host)?)?;
            let wanted = *outputs.get_or_insert(given.len());
            if given.len() != wanted {
                let given = given.len();
                return Err(Error::invalid(format!(
                    "`evaluate` returned {given} outputs, and {wanted} in its first call"
                )));
            }
            Ok((moved_to, given))
        };
        let (right, left) = (side(step)?, side(-step)?);
        // The width is the difference of the rounded points.
        let width = right.0 - left.0;
        let column = right.1.iter().zip(&left.1).map(|(right, left)| (right - left) / width);
        columns.push(column.collect::<Vec<f64>>());
    }
    Ok(columns)
}

/// An input that [`differences`] changes. Its drop restores it, so that a panic leaves it unchanged.
struct Moved<'a, T: NoUninit> {
    stream: &'a Stream,
    input: &'a mut DeviceBuffer<T>,
    /// The earlier contents.
    host: Vec<T>,
    is_moved: bool,
}

impl<T: NoUninit> Moved<'_, T> {
    fn upload(&mut self, host: &[T]) -> Result<&DeviceBuffer<T>> {
        // This is set first, because a failed upload may have written a part.
        self.is_moved = true;
        self.input.upload(self.stream, host)?;
        Ok(self.input)
    }

    fn restore(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_moved) {
            self.input.upload(self.stream, &self.host)?;
        }
        Ok(())
    }
}

impl<T: NoUninit> Drop for Moved<'_, T> {
    fn drop(&mut self) {
        // After a panic the error is ignored: the panic says more.
        let _ = self.restore();
    }
}

/// Returns the numbers in a view of gradients, or of elements with their own type of gradients.
fn numbers<T: AnyBitPattern>(
    stream: &Stream,
    view: DeviceSlice<'_, T>,
    real: Option<FloatType>,
) -> Result<Vec<f64>> {
    let size = real.map_or(FloatType::F32, FloatType::gradient);
    let allocation = view.allocation();
    // SAFETY: any bits are bytes.
    let bytes = unsafe { allocation.view::<u8>(view.byte_range()) }?.to_vec(stream)?;
    Ok(bytes.chunks_exact(size.size()).map(|number| value(number, size)).collect())
}

fn value(bytes: &[u8], real: FloatType) -> f64 {
    match real {
        FloatType::F64 => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
        _ => bytes.try_into().map_or(f64::NAN, |bytes| f32::from_ne_bytes(bytes).into()),
    }
}

/// Moves a number among bytes, and returns its new value.
fn shift(bytes: &mut [u8], real: FloatType, number: usize, by: f64) -> f64 {
    let at = number * real.size();
    let Some(place) = bytes.get_mut(at..at + real.size()) else { return f64::NAN };
    let moved = value(place, real) + by;
    match real {
        FloatType::F64 => {
            place.copy_from_slice(&moved.to_ne_bytes());
            moved
        }
        _ => {
            let moved = moved as f32;
            place.copy_from_slice(&moved.to_ne_bytes());
            moved.into()
        }
    }
}

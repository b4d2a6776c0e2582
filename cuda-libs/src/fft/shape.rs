//! The lengths of transforms, and where their elements lie.

use std::fmt;

use crate::error::{Error, Result};

/// The lengths of one to three dimensions, the last of which changes fastest. Made of a number, or of an array of one
/// to three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lengths {
    /// The last `rank` are used.
    all: [usize; 3],
    rank: usize,
}

impl From<usize> for Lengths {
    fn from(length: usize) -> Self {
        Self { all: [1, 1, length], rank: 1 }
    }
}

impl From<[usize; 1]> for Lengths {
    fn from([length]: [usize; 1]) -> Self {
        length.into()
    }
}

impl From<[usize; 2]> for Lengths {
    fn from([rows, cols]: [usize; 2]) -> Self {
        Self { all: [1, rows, cols], rank: 2 }
    }
}

impl From<[usize; 3]> for Lengths {
    fn from(all: [usize; 3]) -> Self {
        Self { all, rank: 3 }
    }
}

/// The lengths of a transform, the number of transforms, and where the elements lie.
///
/// Without a layout, elements lie one after the other, and so do the transforms of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub(super) lengths: Lengths,
    pub(super) batch: usize,
    input: Option<Layout>,
    output: Option<Layout>,
    is_padded: bool,
}

/// Where the elements of a batch of transforms lie: cuFFT's advanced data layout.
///
/// The element at x, y, z of transform b has the index `b * distance + ((x * dims[1] + y) * dims[2] + z) * stride`,
/// where `dims` are the lengths of the memory. The first of them only sets the default distance.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    dims: Lengths,
    stride: usize,
    distance: Option<usize>,
}

impl Layout {
    /// Elements within memory of these lengths, which are those of the transform or longer.
    #[must_use]
    pub fn new(dims: impl Into<Lengths>) -> Self {
        Self { dims: dims.into(), stride: 1, distance: None }
    }

    /// Sets the distance of neighbours in the last dimension, in elements. The default is 1.
    #[must_use]
    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// Sets the distance of the first elements of two transforms of a batch, in elements. The default is the product of
    /// the lengths of the memory and the stride.
    #[must_use]
    pub fn distance(self, distance: usize) -> Self {
        Self { distance: Some(distance), ..self }
    }
}

impl<L: Into<Lengths>> From<L> for Shape {
    fn from(lengths: L) -> Self {
        let lengths = lengths.into();
        Self { lengths, batch: 1, input: None, output: None, is_padded: false }
    }
}

impl Shape {
    /// One transform of these lengths, whose elements lie one after the other.
    #[must_use]
    pub fn new(lengths: impl Into<Lengths>) -> Self {
        lengths.into().into()
    }

    /// Sets the number of transforms. The default is 1.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// Sets where the elements of the input lie.
    #[must_use]
    pub fn input(self, layout: Layout) -> Self {
        Self { input: Some(layout), ..self }
    }

    /// Sets where the elements of the output lie.
    #[must_use]
    pub fn output(self, layout: Layout) -> Self {
        Self { output: Some(layout), ..self }
    }

    /// Pads each row of real numbers to the size of its half spectrum, as transforms in place need: n numbers take the
    /// memory of n / 2 + 1 complex ones. Complex rows, and a side that has a layout, stay as they are.
    #[must_use]
    pub fn padded(self) -> Self {
        Self { is_padded: true, ..self }
    }
}

/// Which numbers of a transform a side holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Complex,
    Real,
    /// The first half of a Hermitian spectrum.
    Half,
}

/// A checked shape, in the numbers of cuFFT.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Resolved {
    pub(crate) rank: usize,
    /// Of the lists, the first `rank` are used.
    pub(super) lengths: [i64; 3],
    pub(super) batch: i64,
    pub(crate) input: Side,
    pub(crate) output: Side,
}

/// Where the elements of input or output lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Side {
    pub(super) form: Form,
    pub(super) dims: [i64; 3],
    pub(super) stride: i64,
    pub(super) distance: i64,
    /// The number of elements in each dimension, and of transforms.
    counts: [i64; 4],
    /// The number of elements from the first to the last.
    pub(crate) span: usize,
}

impl Side {
    /// Returns the number of elements of all transforms.
    #[cfg(feature = "tape")]
    pub(crate) fn elements(&self) -> usize {
        self.counts.iter().map(|count| count.unsigned_abs() as usize).product()
    }

    /// Returns the number of rows of all transforms, and the elements of each, if all lie one after the other.
    #[cfg(feature = "tape")]
    pub(crate) fn rows(&self, rank: usize) -> Option<(usize, usize)> {
        let last = usize::try_from(self.counts[rank - 1]).ok()?;
        let counts = self.counts[..rank].iter().product::<i64>();
        let is_dense =
            self.stride == 1 && self.dims[1..] == self.counts[1..3] && self.span == self.elements();
        (is_dense && (self.distance == counts || self.counts[3] == 1))
            .then(|| (self.elements() / last, last))
    }

    /// The distance of neighbours in each dimension, and of transforms.
    fn steps(&self, rank: usize) -> Option<[i64; 4]> {
        let mut steps = [0, 0, 0, self.distance];
        let mut step = self.stride;
        for dim in (0..rank).rev() {
            steps[dim] = step;
            step = step.checked_mul(if dim == 0 { 1 } else { self.dims[dim] })?;
        }
        Some(steps)
    }

    fn new(
        argument: &'static str,
        (lengths, batch): (Lengths, i64),
        layout: Option<Layout>,
        form: Form,
        is_padded: bool,
    ) -> Result<Self> {
        let invalid = |message: String| Err(Error::invalid(super::NEW, argument, message));
        let rank = lengths.rank;
        let mut counts = [1; 4];
        counts[..rank].copy_from_slice(&signed(&lengths)?);
        counts[3] = batch;
        let half = counts[rank - 1] / 2 + 1;
        if form == Form::Half {
            counts[rank - 1] = half;
        }
        let mut dims = [1; 3];
        dims.copy_from_slice(&counts[..3]);
        let (mut stride, mut distance) = (1, None);
        if let Some(layout) = layout {
            if layout.dims.rank != rank {
                let message = format!(
                    "has memory of {} dimensions, but the transform has {rank}",
                    layout.dims.rank
                );
                return invalid(message);
            }
            dims[..rank].copy_from_slice(&signed(&layout.dims)?);
            for (dim, (memory, count)) in dims.iter().zip(&counts).enumerate() {
                if memory < count {
                    return invalid(format!(
                        "has memory of {memory} elements in dimension {dim}, fewer than the {count} of the transform"
                    ));
                }
            }
            stride = number("a stride", argument, layout.stride)?;
            if stride == 0 {
                return invalid("has a stride of 0".to_owned());
            }
            distance =
                layout.distance.map(|one| number("a distance", argument, one)).transpose()?;
        } else if form == Form::Real && is_padded {
            dims[rank - 1] = half.saturating_mul(2);
        }
        let too_large = || Error::invalid(super::NEW, argument, "has more than 2^63 bytes");
        let whole = dims.iter().try_fold(stride, |all, length| all.checked_mul(*length));
        let distance = distance.or(whole).ok_or_else(too_large)?;
        let mut side = Self { form, dims, stride, distance, counts, span: 0 };
        let steps = side.steps(rank).ok_or_else(too_large)?;
        let last = steps
            .iter()
            .zip(&counts)
            .try_fold(0i64, |sum, (step, count)| sum.checked_add(step.checked_mul(count - 1)?));
        // Elements have 16 bytes at most.
        let last = last.filter(|last| *last < i64::MAX / 16).ok_or_else(too_large)?;
        side.span = usize::try_from(last + 1).map_err(|_| too_large())?;
        Ok(side)
    }

    /// Fails if two elements may lie at one place: if the distance in some dimension is less than what the dimensions
    /// of smaller distances reach.
    fn apart(&self, argument: &'static str, rank: usize) -> Result<()> {
        let mut steps: Vec<(i64, i64)> =
            self.steps(rank).into_iter().flatten().zip(self.counts).collect();
        steps.retain(|(_, count)| *count > 1);
        steps.sort_unstable();
        let mut reach = 0;
        for (step, count) in steps {
            if step <= reach {
                let message = format!(
                    "overlaps: elements at a distance of {step} lie within others, which reach {reach}"
                );
                return Err(Error::invalid(super::NEW, argument, message));
            }
            reach += step * (count - 1);
        }
        Ok(())
    }
}

fn number(what: &str, argument: &'static str, value: usize) -> Result<i64> {
    i64::try_from(value).map_err(|_| {
        Error::invalid(super::NEW, argument, format!("has {what} of {value}, which is above 2^63"))
    })
}

/// Returns the used lengths.
fn signed(lengths: &Lengths) -> Result<Vec<i64>> {
    lengths.all[3 - lengths.rank..]
        .iter()
        .map(|length| number("a length", "shape", *length))
        .collect()
}

impl Resolved {
    /// Checks a shape for transforms between numbers of these forms. `destroys` says whether the input is written, too.
    pub(super) fn new(shape: &Shape, [from, to]: [Form; 2], destroys: bool) -> Result<Self> {
        let invalid = |message: String| Err(Error::invalid(super::NEW, "shape", message));
        let Lengths { rank, .. } = shape.lengths;
        let all = signed(&shape.lengths)?;
        if let Some(dim) = all.iter().position(|length| *length == 0) {
            return invalid(format!("has a length of 0 in dimension {dim}"));
        }
        let batch = number("a batch", "shape", shape.batch)?;
        if batch == 0 {
            return invalid("has a batch of 0 transforms".to_owned());
        }
        let side = |argument, layout, form| {
            Side::new(argument, (shape.lengths, batch), layout, form, shape.is_padded)
        };
        let (input, output) =
            (side("input", shape.input, from)?, side("output", shape.output, to)?);
        output.apart("output", rank)?;
        if destroys {
            input.apart("input", rank)?;
        }
        let mut lengths = [1; 3];
        lengths[..rank].copy_from_slice(&all);
        Ok(Self { rank, lengths, batch, input, output })
    }

    /// Fails unless a transform in place finds each row of the output where that of the input is.
    pub(super) fn in_place(&self, call: &'static str) -> Result<()> {
        let bytes = |side: &Side| {
            let mut steps = side.steps(self.rank)?;
            for (at, step) in steps.iter_mut().enumerate() {
                let is_used = if at == 3 { self.batch > 1 } else { at < self.rank };
                let is_last = at + 1 == self.rank;
                // In units of a real number; in the last dimension, real numbers lie between complex ones.
                let width = if side.form == Form::Real || is_last { 1 } else { 2 };
                *step = if is_used { step.checked_mul(width)? } else { 0 };
            }
            Some(steps)
        };
        let (from, to) = (bytes(&self.input), bytes(&self.output));
        let real = self.input.form == Form::Real || self.output.form == Form::Real;
        if from == to && (!real || self.input.stride == 1) {
            return Ok(());
        }
        let message = if real {
            "has rows of real numbers that do not lie where their half spectra do: use `Shape::padded`"
        } else {
            "has another layout than the output"
        };
        Err(Error::invalid(call, "input", message))
    }

    /// Returns the transforms from the output to the input.
    #[cfg(feature = "tape")]
    pub(crate) fn swapped(&self) -> Self {
        Self { input: self.output.clone(), output: self.input.clone(), ..self.clone() }
    }

    /// Returns transforms of the same lengths between numbers of these forms, which lie one after the other.
    #[cfg(feature = "tape")]
    pub(crate) fn dense(&self, forms: [Form; 2]) -> Result<Self> {
        let mut all = [1; 3];
        for (to, from) in all[3 - self.rank..].iter_mut().zip(&self.lengths) {
            *to = from.unsigned_abs() as usize;
        }
        let lengths = Lengths { all, rank: self.rank };
        Self::new(&Shape::new(lengths).batch(self.batch.unsigned_abs() as usize), forms, false)
    }

    /// Fails if numbers that are read overlap.
    #[cfg(feature = "tape")]
    pub(crate) fn input_is_apart(&self) -> Result<()> {
        self.input.apart("input", self.rank)
    }
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} transforms of length ", self.batch)?;
        for (dim, length) in self.lengths[..self.rank].iter().enumerate() {
            write!(f, "{}{length}", if dim == 0 { "" } else { " x " })?;
        }
        Ok(())
    }
}

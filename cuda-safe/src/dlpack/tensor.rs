//! Tensors of other code, as they come in.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::abi::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION, DLTensor,
};
use super::element::{Fit, Scalars, fit};
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::memory::Allocation;

/// The most dimensions of a tensor.
const MOST_DIMENSIONS: i32 = 64;

/// A tensor that other code has given to this one: a managed tensor of DLPack. Dropping it calls the tensor's deleter.
///
/// [`LentStream::view`](crate::LentStream::view) shows its elements for a call, and
/// [`into_buffer`](Self::into_buffer) keeps them for longer.
pub struct Tensor {
    raw: Raw,
    /// The memory of views, of which other streams may use some.
    viewed: RefCell<Vec<Arc<Allocation>>>,
    /// A drop ends the lending of the views, on the thread of their call.
    not_send: PhantomData<*const ()>,
}

/// A tensor that other code owns, for a call.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    pub(super) tensor: &'a DLTensor,
    pub(super) read_only: bool,
    /// The tensor that must know of views.
    pub(super) owner: Option<&'a Tensor>,
}

/// A managed tensor, whose deleter is called once.
pub(super) enum Raw {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Unversioned(NonNull<DLManagedTensor>),
}

// SAFETY: the constructors' callers have promised that the deleter may be called by any thread, and nothing else of the
// tensor is tied to one.
unsafe impl Send for Raw {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Raw {}

impl Raw {
    pub(super) fn tensor(&self) -> &DLTensor {
        match self {
            // SAFETY: the tensor is live until the deleter is called, by the drop.
            Self::Versioned(raw) => unsafe { &raw.as_ref().dl_tensor },
            // SAFETY: as above.
            Self::Unversioned(raw) => unsafe { &raw.as_ref().dl_tensor },
        }
    }

    fn flags(&self) -> u64 {
        match self {
            // SAFETY: as above.
            Self::Versioned(raw) => unsafe { raw.as_ref().flags },
            Self::Unversioned(_) => 0,
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if crate::caller::forked() {
            // The owner's locks may be held by a thread that exists in the parent only.
            return;
        }
        match self {
            Self::Versioned(raw) => {
                // SAFETY: the tensor is live.
                if let Some(deleter) = unsafe { raw.as_ref().deleter } {
                    // SAFETY: called once, and nothing uses the tensor afterwards.
                    unsafe { deleter(raw.as_ptr()) };
                }
            }
            Self::Unversioned(raw) => {
                // SAFETY: as above.
                if let Some(deleter) = unsafe { raw.as_ref().deleter } {
                    // SAFETY: as above.
                    unsafe { deleter(raw.as_ptr()) };
                }
            }
        }
    }
}

impl Tensor {
    /// Takes over a managed tensor, such as that of a capsule named `dltensor_versioned`, which is to be renamed to
    /// `used_dltensor_versioned`. It is deleted also if this fails.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the pointer is null, or the tensor has another major version
    /// than 1.
    ///
    /// # Safety
    /// - `raw` is null or a managed tensor that no other code deletes. If its major version is 1, it is as `dlpack.h`
    ///   describes it: `shape` and `strides` are null or arrays of `ndim` integers, which stay as they are, and the
    ///   memory is there until the deleter is called.
    /// - The deleter may be called by any thread. It does not unwind.
    /// - From now on until the deleter is called, the memory may be used by work on each stream that is lent while the
    ///   tensor is viewed or kept with it. Other work that uses the memory is ordered with that stream, or only reads
    ///   while work of this crate does.
    pub unsafe fn from_versioned(raw: *mut DLManagedTensorVersioned) -> Result<Self> {
        let Some(raw) = NonNull::new(raw) else {
            return Err(Error::invalid("the managed tensor is null"));
        };
        // SAFETY: the version comes first in every version.
        let version = unsafe { (&raw const (*raw.as_ptr()).version).read() };
        let raw = Raw::Versioned(raw);
        if version.major != DLPACK_MAJOR_VERSION {
            // The drop calls the deleter, which is at the same offset in every version.
            drop(raw);
            return Err(Error::invalid(format!(
                "the tensor has version {}.{} of DLPack, and this crate knows version {DLPACK_MAJOR_VERSION}",
                version.major, version.minor
            )));
        }
        Ok(Self::of(raw))
    }

    /// Takes over a managed tensor of the ABI before DLPack 1.0, such as that of a capsule named `dltensor`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the pointer is null.
    ///
    /// # Safety
    /// As [`from_versioned`](Self::from_versioned).
    pub unsafe fn from_unversioned(raw: *mut DLManagedTensor) -> Result<Self> {
        match NonNull::new(raw) {
            Some(raw) => Ok(Self::of(Raw::Unversioned(raw))),
            None => Err(Error::invalid("the managed tensor is null")),
        }
    }

    fn of(raw: Raw) -> Self {
        Self { raw, viewed: RefCell::default(), not_send: PhantomData }
    }

    /// Returns the extents.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the number of dimensions or an extent is negative, or there
    /// are none though there are dimensions.
    pub fn shape(&self) -> Result<Vec<usize>> {
        TensorRef::from(self).shape()
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn data_type(&self) -> DLDataType {
        self.raw.tensor().dtype
    }

    /// Returns where the memory is.
    #[must_use]
    pub fn device(&self) -> DLDevice {
        self.raw.tensor().device
    }

    /// Returns whether the producer forbids to write it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.raw.flags() & DLPACK_FLAG_BITMASK_READ_ONLY != 0
    }

    /// Takes note of a view's memory.
    pub(super) fn note_view(&self, allocation: &Arc<Allocation>) {
        let mut viewed = self.viewed.borrow_mut();
        // Only the list holds the memory of calls that have ended.
        viewed.retain(|allocation| Arc::strong_count(allocation) > 1);
        viewed.push(allocation.clone());
    }

    /// Ends what views of the tensor may still do: the stream of the call waits for uses on other streams.
    ///
    /// # Errors
    /// The first error, with the context that keeps later ones.
    fn end_views(&self) -> std::result::Result<(), (Arc<ContextInner>, Error)> {
        let viewed = std::mem::take(&mut *self.viewed.borrow_mut());
        let mut ended = Ok(());
        for allocation in &viewed {
            if let Err(error) = allocation.end_lending() {
                let context = &allocation.home_stream().inner().context;
                match &ended {
                    Ok(()) => ended = Err((context.clone(), error)),
                    Err(_) => context.keep_drop_error(error),
                }
            }
        }
        ended
    }

    /// Gives up the tensor without its deleter.
    pub(super) fn into_parts(self) -> (Raw, Result<()>) {
        let ended = self.end_views().map_err(|(_, error)| error);
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped or used again, so each field is owned once.
        let (raw, viewed) = unsafe {
            (std::ptr::read(&raw const this.raw), std::ptr::read(&raw const this.viewed))
        };
        drop(viewed);
        (raw, ended)
    }

    pub(super) fn from_raw_parts(raw: Raw) -> Self {
        Self::of(raw)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // The deleter is called nevertheless: the host has waited for the uses, or the device is lost.
        if let Err((context, error)) = self.end_views() {
            context.keep_drop_error(error);
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("data_type", &format_args!("{}", self.data_type()))
            .field("shape", &self.shape().unwrap_or_default())
            .field("device", &self.device())
            .field("read_only", &self.is_read_only())
            .finish()
    }
}

impl<'a> TensorRef<'a> {
    /// Returns a tensor that other code owns.
    ///
    /// # Safety
    /// As [`Tensor::from_versioned`] for the tensor and its memory, until the call of
    /// [`Context::lend`](crate::Context::lend) returns in which it is viewed.
    #[must_use]
    pub unsafe fn new(tensor: &'a DLTensor, read_only: bool) -> Self {
        Self { tensor, read_only, owner: None }
    }

    /// Returns the extents.
    ///
    /// # Errors
    /// As [`Tensor::shape`].
    pub fn shape(&self) -> Result<Vec<usize>> {
        let dimensions = Dimensions::of(self.tensor)?;
        dimensions.shape.iter().map(|&extent| extent_of(extent)).collect()
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn data_type(&self) -> DLDataType {
        self.tensor.dtype
    }

    /// Returns where the memory is.
    #[must_use]
    pub fn device(&self) -> DLDevice {
        self.tensor.device
    }
}

impl<'a> From<&'a Tensor> for TensorRef<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        let read_only = tensor.is_read_only();
        Self { tensor: tensor.raw.tensor(), read_only, owner: Some(tensor) }
    }
}

/// The extents and strides of a tensor, as they were given.
#[derive(Clone, Copy)]
struct Dimensions<'a> {
    shape: &'a [i64],
    strides: Option<&'a [i64]>,
}

impl<'a> Dimensions<'a> {
    #[inline]
    fn of(tensor: &'a DLTensor) -> Result<Self> {
        let ndim = tensor.ndim;
        if !(0..=MOST_DIMENSIONS).contains(&ndim) {
            return Err(Error::invalid(format!("the tensor has {ndim} dimensions")));
        }
        let count = ndim as usize;
        if count == 0 {
            return Ok(Self { shape: &[], strides: Some(&[]) });
        }
        if tensor.shape.is_null() {
            return Err(Error::invalid(format!(
                "the shape of a tensor of {ndim} dimensions is null"
            )));
        }
        // SAFETY: not null, so an array of `ndim` integers, says the constructor's caller.
        let shape = unsafe { std::slice::from_raw_parts(tensor.shape.cast_const(), count) };
        if tensor.strides.is_null() {
            return Ok(Self { shape, strides: None });
        }
        // SAFETY: as above.
        let strides = unsafe { std::slice::from_raw_parts(tensor.strides.cast_const(), count) };
        Ok(Self { shape, strides: Some(strides) })
    }

    /// Returns how many elements there are, if there are some, and they lie one behind the other in the order of their
    /// indices. `None` also if the tensor does not fit.
    #[inline]
    fn compact(&self, fit: Fit) -> Option<usize> {
        let mut count = 1_usize;
        for (place, &extent) in self.shape.iter().enumerate().rev() {
            let extent = usize::try_from(extent).ok().filter(|extent| *extent > 0)?;
            let stride = self.strides.and_then(|strides| strides.get(place));
            if stride.is_some_and(|stride| extent > 1 && *stride as usize != count) {
                return None;
            }
            count = count.checked_mul(extent)?;
        }
        match fit {
            Fit::Each => Some(count),
            Fit::LastDimension(each) => {
                let last = self.shape.last().and_then(|last| usize::try_from(*last).ok());
                (last == Some(each)).then(|| count / each)
            }
        }
    }
}

fn extent_of(extent: i64) -> Result<usize> {
    usize::try_from(extent)
        .map_err(|_| Error::invalid(format!("an extent of the tensor is negative: {extent}")))
}

/// A tensor whose elements are a type, in memory of a device. Nothing of it is on the heap: a view costs no allocation.
pub(super) struct Checked<'t> {
    /// The address of the first element; 0 if there are none.
    pub(super) start: u64,
    /// How many elements there are.
    pub(super) len: usize,
    /// Elements from the first to the last, that included.
    pub(super) span: usize,
    given: Dimensions<'t>,
    fit: Fit,
    /// Whether the elements lie one behind the other, in the order of their indices.
    compact: bool,
}

/// Returns where the elements of a tensor are, in bytes, and how many, if it has some, they are compact and all fits.
/// `None` needs [`check`]. It is apart because most tensors pass, and then nothing need be kept for an error.
#[inline]
pub(super) fn check_compact<T: Scalars>(tensor: &DLTensor, ordinal: usize) -> Option<(u64, usize)> {
    let DLDevice { device_type, device_id } = tensor.device;
    if device_type != DLDeviceType::CUDA || i64::from(device_id) != ordinal as i64 {
        return None;
    }
    let fit = fit::<T>(tensor.dtype)?;
    let len = Dimensions::of(tensor).ok()?.compact(fit)?;
    let data = tensor.data.addr() as u64;
    let start = data.checked_add(tensor.byte_offset)?;
    start.checked_add(u64::try_from(len.checked_mul(size_of::<T>())?).ok()?)?;
    (data != 0 && start.is_multiple_of(align_of::<T>() as u64)).then_some((start, len))
}

/// Compares a tensor with a type and a device.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) names what does not fit.
pub(super) fn check<T: Scalars>(tensor: &DLTensor, ordinal: usize) -> Result<Checked<'_>> {
    let DLDevice { device_type, device_id } = tensor.device;
    if device_type != DLDeviceType::CUDA || usize::try_from(device_id) != Ok(ordinal) {
        let what = match device_type {
            DLDeviceType::CPU => "the host".to_owned(),
            DLDeviceType::CUDA => format!("device {device_id}"),
            DLDeviceType(code) => format!("a device of type {code}"),
        };
        return Err(Error::invalid(format!(
            "the tensor is in memory of {what}, not of device {ordinal}"
        )));
    }
    let element = std::any::type_name::<T>();
    let fit = fit::<T>(tensor.dtype).ok_or_else(|| {
        Error::invalid(format!("the elements of the tensor are {}, not {element}", tensor.dtype))
    })?;
    let given = Dimensions::of(tensor)?;
    let compact = given.compact(fit);
    let (len, span) = match compact {
        Some(len) => (len, len),
        None => strided(given, fit, element)?,
    };
    if len == 0 {
        return Ok(Checked { start: 0, len: 0, span: 0, given, fit, compact: true });
    }
    let too_large =
        || Error::invalid(format!("a tensor of shape {:?} is larger than memory", given.shape));
    let start =
        (tensor.data.addr() as u64).checked_add(tensor.byte_offset).ok_or_else(too_large)?;
    span.checked_mul(size_of::<T>())
        .and_then(|bytes| start.checked_add(u64::try_from(bytes).ok()?))
        .ok_or_else(too_large)?;
    if tensor.data.is_null() {
        return Err(Error::invalid(format!("the data of a tensor of {len} elements is null")));
    }
    Ok(Checked { start, len, span, given, fit, compact: compact.is_some() })
}

/// Returns how many elements there are, and how many from the first to the last, that included.
///
/// # Errors
/// As [`check`].
#[cold]
fn strided(given: Dimensions<'_>, fit: Fit, element: &str) -> Result<(usize, usize)> {
    let (shape, strides) = (given.shape, given.strides);
    let too_large = || Error::invalid(format!("a tensor of shape {shape:?} is larger than memory"));
    let mut empty = false;
    for &extent in shape {
        empty |= extent_of(extent)? == 0;
    }
    for (&stride, &extent) in strides.unwrap_or_default().iter().zip(shape) {
        // Along one element, or none, no stride is used.
        if stride < 0 && extent > 1 && !empty {
            return Err(Error::invalid(format!(
                "a stride of the tensor is negative: the strides are {strides:?} for the shape {shape:?}",
                strides = strides.unwrap_or_default()
            )));
        }
    }
    let mut outer = shape;
    let mut components = 1;
    if let Fit::LastDimension(each) = fit {
        components = each;
        match shape.split_last() {
            Some((&last, others)) if usize::try_from(last) == Ok(each) => outer = others,
            _ => {
                return Err(Error::invalid(format!(
                    "the last dimension of a tensor of {element} must be {each}: the shape is {shape:?}"
                )));
            }
        }
        let packed = strides.is_none_or(|strides| match strides.split_last() {
            Some((1, others)) => others.iter().zip(outer).all(|(&stride, &extent)| {
                extent <= 1 || stride.unsigned_abs().is_multiple_of(each as u64)
            }),
            _ => false,
        });
        if !packed && !empty {
            return Err(not_compact(shape, strides));
        }
    }
    if empty {
        return Ok((0, 0));
    }
    // The loop starts with the last dimension: `len` is the number of elements of the later ones, `last` the offset
    // of their last element.
    let (mut len, mut last) = (1_usize, 0_usize);
    for (place, &extent) in outer.iter().enumerate().rev() {
        let extent = extent_of(extent)?;
        let stride = match strides.and_then(|strides| strides.get(place)) {
            Some(stride) if extent > 1 => {
                usize::try_from(*stride).map_err(|_| too_large())? / components
            }
            _ => len,
        };
        last = (extent - 1)
            .checked_mul(stride)
            .and_then(|distance| last.checked_add(distance))
            .ok_or_else(too_large)?;
        len = len.checked_mul(extent).ok_or_else(too_large)?;
    }
    Ok((len, last.checked_add(1).ok_or_else(too_large)?))
}

impl Checked<'_> {
    /// Fails unless the elements lie one behind the other, in the order of their indices.
    pub(super) fn is_compact(&self) -> Result<()> {
        match self.compact {
            true => Ok(()),
            false => Err(not_compact(self.given.shape, self.given.strides)),
        }
    }

    /// Returns extents and strides in elements of the type, without the dimension that the type is. Strides that are not
    /// given are those of compact elements, and negative ones, which reach no element, are 0.
    pub(super) fn dimensions(&self) -> (Vec<usize>, Vec<usize>) {
        let Dimensions { shape, strides } = self.given;
        let (count, components) = match self.fit {
            Fit::Each => (shape.len(), 1),
            Fit::LastDimension(components) => (shape.len().saturating_sub(1), components),
        };
        let shape: Vec<_> =
            shape.iter().take(count).map(|&extent| usize::try_from(extent).unwrap_or(0)).collect();
        let mut next = 1_usize;
        let mut lengths = vec![0; count];
        for (place, (length, &extent)) in lengths.iter_mut().zip(&shape).enumerate().rev() {
            let given = strides.and_then(|strides| strides.get(place));
            *length =
                given.map_or(next, |&stride| usize::try_from(stride).unwrap_or(0) / components);
            next = next.saturating_mul(extent.max(1));
        }
        (shape, lengths)
    }
}

#[cold]
fn not_compact(shape: &[i64], strides: Option<&[i64]>) -> Error {
    let strides = strides.unwrap_or_default();
    Error::invalid(format!(
        "the tensor is not compact: its strides are {strides:?} for the shape {shape:?}"
    ))
    .with_hint("make it contiguous first, or use `LentStream::view_strided`")
}

//! The library under test, numbers, and matrices on host and device.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_libs::{
    Blas, Complex, Config, Element, Layout, Library, Mat, MatMut, Order, Table, bf16, f16,
};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Failure, Rng, TestDevice, TestResult, ensure, note_failure};

/// The device's cuBLAS. `TEST_BLAS=emu` takes the stand-in on a GPU, too.
pub(crate) fn blas(device: &TestDevice) -> Result<Blas, Failure> {
    let config = config(device);
    let shared = device.shared(|context| {
        let made = Blas::with(context, &config).map_err(|error| error.to_string());
        Shared(Arc::new(Closed(made)))
    });
    shared.0.0.clone().map_err(Failure::new)
}

/// What the tests of a device share. The last clone is closed.
#[derive(Clone)]
struct Shared(Arc<Closed>);

struct Closed(Result<Blas, String>);

impl Drop for Closed {
    fn drop(&mut self) {
        if let Ok(blas) = std::mem::replace(&mut self.0, Err(String::new())) {
            note_failure(blas.close().map_err(Failure::from));
        }
    }
}

/// Unloads the kernels of the stand-in with the device.
#[derive(Clone)]
struct Kernels(#[allow(dead_code, reason = "the last clone unloads them")] Arc<Unloaded>);

struct Unloaded;

impl Drop for Unloaded {
    fn drop(&mut self) {
        note_failure(blas_emu::unload().map_err(Failure::new));
    }
}

/// Returns whether the libraries are the stand-ins.
pub(crate) fn is_emulated(device: &TestDevice) -> bool {
    !device.runs_machine_code() || std::env::var_os("TEST_BLAS").is_some_and(|value| value == "emu")
}

pub(crate) fn config(device: &TestDevice) -> Config {
    let config = Config::new().workspace_bytes(1 << 20);
    match library(device) {
        Ok(library) => config.library(library),
        // `Blas::with` reports what is wrong.
        Err(_) => config,
    }
}

/// The device's cuBLAS, cuFFT or cuRAND, or the stand-in.
pub(crate) fn library<T: Table>(device: &TestDevice) -> cuda_libs::Result<Library<T>> {
    static LIBRARIES: Mutex<Option<HashMap<TypeId, Box<dyn Any + Send>>>> = Mutex::new(None);
    if !is_emulated(device) {
        return Library::load();
    }
    blas_emu::use_driver(device.context().driver().as_sys());
    device.shared(|_| Kernels(Arc::new(Unloaded)));
    let mut libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
    let libraries = libraries.get_or_insert_default();
    let known = libraries.get(&TypeId::of::<T>()).and_then(|one| one.downcast_ref::<Library<T>>());
    if let Some(library) = known {
        return Ok(*library);
    }
    // SAFETY: the stand-in has the functions of NVIDIA's headers, and calls the contexts' driver.
    let library = unsafe { Library::from_resolver(&blas_emu::resolve) }?;
    libraries.insert(TypeId::of::<T>(), Box::new(library));
    Ok(library)
}

/// Returns the stand-in, also on a GPU, with another function of this name; null for none.
///
/// # Safety
/// The function has the C ABI of the name, and its rules.
pub(crate) unsafe fn library_with<T: Table>(
    device: &TestDevice,
    name: &CStr,
    function: *const c_void,
) -> cuda_libs::Result<Library<T>> {
    blas_emu::use_driver(device.context().driver().as_sys());
    let resolve = |asked: &CStr| if asked == name { function } else { blas_emu::resolve(asked) };
    // SAFETY: the stand-in has the functions of NVIDIA's headers, and calls the contexts' driver; the caller promises the
    // rest.
    unsafe { Library::from_resolver(&resolve) }
}

thread_local! {
    static ON_DESTROY: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Sets what runs on this thread when a library of `library_with` destroys a handle by a function that calls `destroys`.
pub(crate) fn on_destroy(run: Option<Box<dyn FnMut()>>) {
    ON_DESTROY.set(run);
}

pub(crate) fn destroys() {
    ON_DESTROY.with_borrow_mut(|run| run.iter_mut().for_each(|run| run()));
}

/// A complex number, as all others are compared.
pub(crate) type Wide = Complex<f64>;

/// A number of some type, by its value.
pub(crate) trait Number: Element + Default + PartialEq + std::fmt::Debug {
    /// The distance from 1 to the next number.
    const EPSILON: f64;
    fn of(value: Wide) -> Self;
    fn wide(self) -> Wide;
}

macro_rules! real {
    ($($ty:ty, $epsilon:expr, $of:expr;)*) => {$(
        impl Number for $ty {
            const EPSILON: f64 = $epsilon;
            fn of(value: Wide) -> Self {
                $of(value.re)
            }
            fn wide(self) -> Wide {
                Wide::new(f64::from(self), 0.0)
            }
        }
    )*};
}

real! {
    f16, 1.0 / 1024.0, f16::from_f64;
    bf16, 1.0 / 128.0, bf16::from_f64;
    f32, f32::EPSILON as f64, |value| value as f32;
    f64, f64::EPSILON, |value| value;
}

impl Number for Complex<f32> {
    const EPSILON: f64 = f32::EPSILON as f64;
    fn of(value: Wide) -> Self {
        Self::new(value.re as f32, value.im as f32)
    }
    fn wide(self) -> Wide {
        Wide::new(self.re.into(), self.im.into())
    }
}

impl Number for Complex<f64> {
    const EPSILON: f64 = f64::EPSILON;
    fn of(value: Wide) -> Self {
        value
    }
    fn wide(self) -> Wide {
        self
    }
}

/// Numbers in -1..1.
pub(crate) fn numbers<T: Number>(rng: &mut Rng, count: usize) -> Vec<T> {
    (0..count).map(|_| T::of(Wide::new(rng.float().into(), rng.float().into()))).collect()
}

/// A matrix on the host and the device, with unused elements between its rows or columns.
pub(crate) struct Matrix<T: Number> {
    pub(crate) layout: Layout,
    pub(crate) host: Vec<T>,
    pub(crate) device: DeviceBuffer<T>,
}

impl<T: Number> Matrix<T> {
    pub(crate) fn new(
        stream: &Stream,
        rng: &mut Rng,
        (rows, cols): (usize, usize),
        order: Order,
        batch: usize,
    ) -> Result<Self, Failure> {
        let line = if order == Order::RowMajor { cols } else { rows };
        let leading = line + rng.below(4);
        let layout = Layout::new(rows, cols).order(order).leading(leading).batch(batch);
        let layout = layout.stride(layout.batch_stride() + rng.below(3));
        let count = layout.span().unwrap_or(0) + rng.below(3);
        let host = numbers(rng, count);
        Ok(Self { layout, device: DeviceBuffer::from_slice(stream, &host)?, host })
    }

    pub(crate) fn mat(&self) -> Result<Mat<'_, T>, Failure> {
        Ok(Mat::with(&self.device, self.layout)?)
    }

    pub(crate) fn mat_mut(&mut self) -> Result<MatMut<'_, T>, Failure> {
        Ok(MatMut::with(&mut self.device, self.layout)?)
    }

    pub(crate) fn at(&self, matrix: usize, row: usize, col: usize) -> usize {
        at(&self.layout, self.order(), matrix, row, col)
    }

    /// The order, which a layout does not tell: the neighbour in a row is next to the element, or further away.
    fn order(&self) -> Order {
        let as_rows = self.layout.order(Order::RowMajor);
        if as_rows == self.layout { Order::RowMajor } else { Order::ColumnMajor }
    }

    pub(crate) fn get(&self, matrix: usize, row: usize, col: usize) -> Wide {
        self.host[self.at(matrix, row, col)].wide()
    }

    /// Compares the device's elements with those that `wanted` computes from matrix, row and column; the others must be as
    /// before.
    pub(crate) fn check(
        &self,
        stream: &Stream,
        tolerance: f64,
        (rows, cols, batch): (usize, usize, usize),
        wanted: impl Fn(usize, usize, usize) -> Option<Wide>,
    ) -> TestResult {
        let mut expected: Vec<Option<Wide>> = vec![None; self.host.len()];
        for (matrix, row, col) in
            (0..batch).flat_map(|m| (0..rows).flat_map(move |r| (0..cols).map(move |c| (m, r, c))))
        {
            expected[self.at(matrix, row, col)] = wanted(matrix, row, col);
        }
        for (at, (got, old)) in self.device.to_vec(stream)?.iter().zip(&self.host).enumerate() {
            match expected[at] {
                None => ensure!(got == old, "element {at} of {:?} has changed", self.layout),
                Some(wanted) => {
                    let off = (got.wide() - wanted).norm();
                    let most = tolerance + 2.0 * T::EPSILON * wanted.norm();
                    ensure!(
                        off <= most,
                        "element {at} of {:?}: {got:?} is not {wanted}",
                        self.layout
                    );
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn at(layout: &Layout, order: Order, matrix: usize, row: usize, col: usize) -> usize {
    let start = matrix * layout.batch_stride();
    match order {
        Order::RowMajor => start + row * layout.leading_dimension() + col,
        Order::ColumnMajor => start + col * layout.leading_dimension() + row,
    }
}

pub(crate) const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColumnMajor];

pub(crate) fn order(rng: &mut Rng) -> Order {
    ORDERS[rng.below(2)]
}

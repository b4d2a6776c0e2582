//! The parallel loop.

use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hook::{self, Mark};
use super::raise::{Cause, Place, Raised};
use super::run;
use crate::blocks::{self, Left, Order};
use crate::kernel::Extent;
use crate::raw::{self, Task};

/// The leaves of the recursion per thread: at the end the others wait for at most 1/32 of a thread's share.
const LEAVES: usize = 32;
/// The time for which a loop runs on one thread before it uses the pool: waking threads takes some 5 to 10
/// microseconds.
const ALONE: Duration = Duration::from_micros(10);
/// Loops with more elements than this begin on one thread.
const ALONE_FROM: usize = 64;

thread_local! {
    /// The position of the element that failed on this thread.
    static FAILED: Cell<usize> = const { Cell::new(0) };
}

/// The index of an element: `usize`, `[usize; 2]` or `[usize; 3]`.
pub trait Index: Copy + Send + sealed::Sealed {
    /// The number of dimensions.
    const DIMENSIONS: u32;

    /// Returns the index of an element.
    fn new(x: usize, y: usize, z: usize) -> Self;
}

impl Index for usize {
    const DIMENSIONS: u32 = 1;

    #[inline(always)]
    fn new(x: usize, _: usize, _: usize) -> Self {
        x
    }
}

impl Index for [usize; 2] {
    const DIMENSIONS: u32 = 2;

    #[inline(always)]
    fn new(x: usize, y: usize, _: usize) -> Self {
        [x, y]
    }
}

impl Index for [usize; 3] {
    const DIMENSIONS: u32 = 3;

    #[inline(always)]
    fn new(x: usize, y: usize, z: usize) -> Self {
        [x, y, z]
    }
}

/// The output of [`each`]: a slice, an [`image`], a [`volume`], or a tuple of them with equal shapes.
pub trait Output: Sized + Send + sealed::Sealed {
    /// The index that the closure receives.
    type Index: Index;
    /// The element that the closure receives: `&mut T`, or a tuple of them.
    type Item;
    #[doc(hidden)]
    type Items: Iterator<Item = Self::Item>;

    /// Returns the number of elements in each dimension.
    ///
    /// # Errors
    /// The parts of a tuple have different shapes, or a slice's length does not match its shape.
    fn shape(&self) -> Result<[usize; 3], String>;

    #[doc(hidden)]
    fn split_at(self, count: usize) -> (Self, Self);

    #[doc(hidden)]
    fn items(self) -> Self::Items;
}

/// Returns the extent of an output.
///
/// # Errors
/// As [`Output::shape`].
pub fn extent<O: Output>(out: &O) -> Result<Extent, String> {
    let size = out.shape()?.map(|n| n as u64);
    Ok(Extent { dimensions: O::Index::DIMENSIONS, size, threads: 0, shared: 0 })
}

impl<'a, T: Send> Output for &'a mut [T] {
    type Index = usize;
    type Item = &'a mut T;
    type Items = std::slice::IterMut<'a, T>;

    fn shape(&self) -> Result<[usize; 3], String> {
        Ok([self.len(), 1, 1])
    }

    #[inline]
    fn split_at(self, count: usize) -> (Self, Self) {
        self.split_at_mut(count)
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        self.iter_mut()
    }
}

/// A slice as an array of two or three dimensions; see [`image`] and [`volume`].
pub struct Shaped<'a, T, const N: usize> {
    elements: &'a mut [T],
    size: [usize; N],
}

impl<T, const N: usize> fmt::Debug for Shaped<'_, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shaped").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Views a slice as rows of `width` elements: the element `[x, y]` is at `y * width + x`.
///
/// The slice must have `width * height` elements, or the launch is refused.
#[must_use]
pub fn image<T>(elements: &mut [T], [width, height]: [usize; 2]) -> Shaped<'_, T, 2> {
    Shaped { elements, size: [width, height] }
}

/// Views a slice as layers of rows: the element `[x, y, z]` is at `(z * height + y) * width + x`.
///
/// The slice must have `width * height * depth` elements, or the launch is refused.
#[must_use]
pub fn volume<T>(elements: &mut [T], [width, height, depth]: [usize; 3]) -> Shaped<'_, T, 3> {
    Shaped { elements, size: [width, height, depth] }
}

impl<'a, T: Send, const N: usize> Output for Shaped<'a, T, N>
where
    [usize; N]: Index,
{
    type Index = [usize; N];
    type Item = &'a mut T;
    type Items = std::slice::IterMut<'a, T>;

    fn shape(&self) -> Result<[usize; 3], String> {
        let count = self.size.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
        if count != Some(self.elements.len()) {
            let (size, len) = (self.size, self.elements.len());
            return Err(format!("the output's shape is {size:?}, but it has {len} elements"));
        }
        let mut shape = [1; 3];
        shape.iter_mut().zip(self.size).for_each(|(to, from)| *to = from);
        Ok(shape)
    }

    #[inline]
    fn split_at(self, count: usize) -> (Self, Self) {
        let (head, tail) = self.elements.split_at_mut(count);
        (Self { elements: head, size: self.size }, Self { elements: tail, size: self.size })
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        self.elements.iter_mut()
    }
}

/// The items of a tuple of outputs.
#[doc(hidden)]
#[derive(Debug)]
pub struct Zip<I>(I);

pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for [usize; 2] {}
    impl Sealed for [usize; 3] {}
    impl<T> Sealed for &mut [T] {}
    impl<T, const N: usize> Sealed for super::Shaped<'_, T, N> {}
}

macro_rules! outputs {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Output),+> sealed::Sealed for ($($name,)+) {}

        impl<First: Index, $($name: Output<Index = First>),+> Output for ($($name,)+) {
            type Index = First;
            type Item = ($($name::Item,)+);
            type Items = Zip<($($name::Items,)+)>;

            fn shape(&self) -> Result<[usize; 3], String> {
                let shape = self.0.shape()?;
                $(
                    let other = self.$at.shape()?;
                    if other != shape {
                        return Err(format!(
                            "the outputs have different shapes: {shape:?}, but {other:?} of number {}", $at + 1
                        ));
                    }
                )+
                Ok(shape)
            }

            #[inline]
            fn split_at(self, count: usize) -> (Self, Self) {
                let halves = ($(self.$at.split_at(count),)+);
                (($(halves.$at.0,)+), ($(halves.$at.1,)+))
            }

            #[inline(always)]
            fn items(self) -> Self::Items {
                Zip(($(self.$at.items(),)+))
            }
        }

        impl<$($name: Iterator),+> Iterator for Zip<($($name,)+)> {
            type Item = ($($name::Item,)+);

            #[inline(always)]
            fn next(&mut self) -> Option<Self::Item> {
                Some(($(self.0.$at.next()?,)+))
            }
        }
    };
}

outputs!(A 0);
outputs!(A 0, B 1);
outputs!(A 0, B 1, C 2);
outputs!(A 0, B 1, C 2, D 3);
outputs!(A 0, B 1, C 2, D 3, E 4);
outputs!(A 0, B 1, C 2, D 3, E 4, F 5);
outputs!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
outputs!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// Calls `f` for each element of `out` with its index and `&mut` to it, on all threads of rayon's pool.
///
/// If elements fail, the one with the lowest index is reported. All elements before it have run.
pub fn each<O, F>(out: O, f: F)
where
    O: Output,
    F: Fn(O::Index, O::Item) + Sync + Clone,
{
    over(out, None, None, f);
}

/// [`each`], of elements, or of blocks whose threads have so many columns; 0 columns are one dimension. With an order,
/// blocks begin one after the other.
pub(crate) fn over<O, F>(out: O, columns: Option<usize>, order: Option<&Order>, f: F)
where
    O: Output,
    F: Fn(O::Index, O::Item) + Sync + Clone,
{
    let shape = match out.shape() {
        Ok(shape) => shape,
        Err(message) => Raised::Refused(message).throw(),
    };
    // The product does not overflow: it is the number of elements of slices.
    let count = shape[0] * shape[1] * shape[2];
    let run = Run {
        f: &f,
        shape,
        leaf: leaf(count),
        lowest: AtomicUsize::new(usize::MAX),
        failure: Mutex::new(None),
    };
    if let (Some([element, ..]), Some(order)) = (run::single(), order) {
        // Its values depend on the blocks before.
        let last = usize::try_from(element).unwrap_or(usize::MAX);
        run.in_order(out, count.min(last.saturating_add(1)), 1, order);
    } else if let Some(element) = run::single() {
        run.element(out, element);
    } else if count > 0 {
        // The mark is off while this thread waits, because it may then run other tasks of the pool.
        let _mark = Mark::inside(false);
        if let Some(order) = order {
            run.in_order(out, count, rayon::current_num_threads(), order);
        } else {
            let (out, done) = run.alone(out, count);
            if done < count {
                run.split(out, done, count - done);
            }
        }
    }
    let failure = run.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(Failure { position, thread, cause }) = failure {
        let place = match columns {
            None => Place { element: coordinates(position, shape).map(|n| n as u64), block: None },
            Some(columns) => {
                let [row, column] = match columns {
                    0 => [thread, 0],
                    _ => [thread / columns, thread % columns],
                };
                Place { element: [row as u64, column as u64, 0], block: Some(position as u64) }
            }
        };
        if run::running() {
            Raised::Element(place, cause).throw();
        }
        outside(place, &cause);
    }
}

/// Panics, for a loop outside of a kernel's run.
#[cold]
#[allow(clippy::panic, reason = "a failed check panics, as an index of a slice does")]
fn outside(place: Place, cause: &Cause) -> ! {
    match cause {
        Cause::Check(check) => panic!(
            "{} at {}:{}, {place}",
            check.kind.describe(check.index, check.len),
            check.file,
            check.line
        ),
        Cause::Panic(message) => panic!("{message}, {place}"),
    }
}

/// Returns how many elements a task runs sequentially.
fn leaf(count: usize) -> usize {
    let leaf = (count / (rayon::current_num_threads() * LEAVES)).max(1);
    if leaf > 16 { leaf.next_multiple_of(16) } else { leaf }
}

fn coordinates(position: usize, [width, height, _]: [usize; 3]) -> [usize; 3] {
    let (width, height) = (width.max(1), height.max(1));
    [position % width, position / width % height, position / width / height]
}

/// The state of a running loop.
struct Run<'a, F> {
    f: &'a F,
    shape: [usize; 3],
    leaf: usize,
    /// The lowest position that has failed.
    lowest: AtomicUsize,
    failure: Mutex<Option<Failure>>,
}

/// The first element, by position, that has failed.
struct Failure {
    position: usize,
    /// The thread, if the element is a block.
    thread: usize,
    cause: Cause,
}

impl<F> Run<'_, F> {
    /// Runs some elements on this thread, for about the time that the pool takes to start. Returns the rest, and how
    /// many have run.
    fn alone<O>(&self, out: O, count: usize) -> (O, usize)
    where
        O: Output,
        F: Fn(O::Index, O::Item) + Sync + Clone,
    {
        // Few elements may be long ones, so they go to the pool. Some kinds of WebAssembly have no clock, and no pool
        // either.
        if count <= ALONE_FROM || cfg!(target_family = "wasm") {
            return (out, 0);
        }
        let (mut rest, mut done, begin) = (out, 0, Instant::now());
        while done < count
            && begin.elapsed() < ALONE
            && self.lowest.load(Ordering::Relaxed) == usize::MAX
        {
            // Each batch doubles the number of elements that have run. From 16 elements on, vectors stay aligned.
            let batch = if done == 1 { 15 } else { done.max(1) }.min(count - done);
            let (head, tail) = rest.split_at(batch);
            self.chunk(head, done, batch);
            (rest, done) = (tail, done + batch);
        }
        (rest, done)
    }

    /// Runs the elements from `start` on, in tasks.
    fn split<O>(&self, out: O, start: usize, count: usize)
    where
        O: Output,
        F: Fn(O::Index, O::Item) + Sync + Clone,
    {
        // Elements after one that has failed need not run. Those before it must run, as they may fail, too.
        if start > self.lowest.load(Ordering::Relaxed) {
            return;
        }
        if count <= self.leaf {
            return self.chunk(out, start, count);
        }
        let half = (count / 2).next_multiple_of(self.leaf);
        let (low, high) = out.split_at(half);
        rayon::join(
            || self.split(low, start, half),
            || self.split(high, start + half, count - half),
        );
    }

    /// Runs elements sequentially.
    fn chunk<O>(&self, out: O, start: usize, count: usize)
    where
        O: Output,
        F: Fn(O::Index, O::Item) + Sync + Clone,
    {
        let caught = {
            let _mark = Mark::inside(true);
            let task = Chunk { f: self.f, out, start, count, shape: self.shape };
            panic::catch_unwind(AssertUnwindSafe(|| raw::with_fma(task)))
        };
        let Err(payload) = caught else { return };
        if payload.is::<Left>() {
            return;
        }
        let (position, thread) = (FAILED.get(), blocks::failed_thread());
        let cause = match payload.downcast::<Raised>().map(|raised| *raised) {
            Ok(Raised::Check(check)) => Cause::Check(check),
            Ok(Raised::Element(_, cause)) => cause,
            Ok(Raised::Refused(message)) => Cause::Panic(message),
            Err(payload) => hook::cause(&*payload),
        };
        self.lowest.fetch_min(position, Ordering::Relaxed);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|known| position < known.position) {
            *failure = Some(Failure { position, thread, cause });
        }
    }

    /// Runs blocks on so many threads, of which each takes the next block when it has ended one.
    fn in_order<O>(&self, out: O, count: usize, threads: usize, order: &Order)
    where
        O: Output,
        F: Fn(O::Index, O::Item) + Sync + Clone,
    {
        let rest = Mutex::new((0, Some(out)));
        let next = || {
            let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
            let position = rest.0;
            if position >= count || position > self.lowest.load(Ordering::Relaxed) {
                return None;
            }
            let (block, tail) = rest.1.take()?.split_at(1);
            *rest = (position + 1, Some(tail));
            Some((position, block))
        };
        let work = || {
            while let Some((position, block)) = next() {
                self.chunk(block, position, 1);
                order.fail(self.lowest.load(Ordering::Relaxed));
            }
        };
        rayon::in_place_scope(|scope| {
            (1..threads.min(count)).for_each(|_| scope.spawn(|_| work()));
            work();
        });
    }

    /// Runs one element.
    fn element<O>(&self, out: O, element: [u64; 3])
    where
        O: Output,
        F: Fn(O::Index, O::Item) + Sync + Clone,
    {
        let [width, height, depth] = self.shape;
        let known = element.map(usize::try_from);
        let [Ok(x), Ok(y), Ok(z)] = known else { return };
        if x < width && y < height && z < depth {
            let position = (z * height + y) * width + x;
            let (_, tail) = out.split_at(position);
            let (one, _) = tail.split_at(1);
            self.chunk(one, position, 1);
        }
    }
}

/// The position of the running element. It is recorded if the element unwinds.
struct Position(usize);

impl Drop for Position {
    #[inline(always)]
    fn drop(&mut self) {
        FAILED.set(self.0);
    }
}

/// Elements that run sequentially.
struct Chunk<'a, O, F> {
    f: &'a F,
    out: O,
    start: usize,
    count: usize,
    shape: [usize; 3],
}

impl<O, F> Task for Chunk<'_, O, F>
where
    O: Output,
    F: Fn(O::Index, O::Item) + Clone,
{
    #[inline(always)]
    fn run(self) {
        // `f` is a copy in this frame: otherwise the compiler would reload the captures after each store to the
        // output.
        let f = self.f.clone();
        let flat = O::Index::DIMENSIONS == 1;
        let width = if flat { usize::MAX } else { self.shape[0] };
        let (mut rest, mut at) = (self.out, Position(self.start));
        let end = self.start + self.count;
        while at.0 < end {
            let [x, y, z] = if flat { [at.0, 0, 0] } else { coordinates(at.0, self.shape) };
            let row = (width - x).min(end - at.0);
            let before = at.0 - x;
            let (head, tail) = rest.split_at(row);
            rest = tail;
            for item in head.items() {
                f(O::Index::new(at.0 - before, y, z), item);
                at.0 = at.0.wrapping_add(1);
            }
        }
        std::mem::forget(at);
    }
}

#[cfg(test)]
#[path = "each_tests.rs"]
mod tests;

//! Queries with the instructions of this processor, one by one and over slices.

/// A query: it borrows what it reads.
pub(crate) trait Query<I>: Sync {
    /// The result.
    type Output;

    /// Finds the result. It must be `#[inline(always)]`, and so must what it calls for each voxel or step: other
    /// functions, and large closures, are compiled without FMA.
    fn get(&self, input: &I) -> Self::Output;
}

/// A computation that [`with_fma`] compiles twice. `run` must be `#[inline(always)]`.
pub(crate) trait Task {
    /// The result.
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs a task, compiled for processors with FMA if this is one: there `mul_add` is an instruction, else a slow call.
#[inline(always)]
pub(crate) fn with_fma<T: Task>(task: T) -> T::Output {
    #[cfg(all(target_arch = "x86_64", not(target_feature = "fma")))]
    {
        #[target_feature(enable = "avx2,fma")]
        fn fma<T: Task>(task: T) -> T::Output {
            task.run()
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            // SAFETY: the processor has both features.
            return unsafe { fma(task) };
        }
    }
    task.run()
}

struct One<'a, Q, I>(&'a Q, &'a I);

impl<I, Q: Query<I>> Task for One<'_, Q, I> {
    type Output = Q::Output;

    #[inline(always)]
    fn run(self) -> Q::Output {
        self.0.get(self.1)
    }
}

/// Returns the result of a query.
#[inline(always)]
pub(crate) fn one<I, Q: Query<I>>(query: &Q, input: &I) -> Q::Output {
    with_fma(One(query, input))
}

/// Memory for results: a slice, or several of the same length.
pub(crate) trait Room: Send + Sized {
    /// A result.
    type Item;

    fn split(self, at: usize) -> (Self, Self);
    /// Writes result i. It must be `#[inline(always)]`.
    fn put(&mut self, i: usize, item: Self::Item);
}

impl<T: Send> Room for &mut [T] {
    type Item = T;

    fn split(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at.min(self.len()))
    }
    #[inline(always)]
    fn put(&mut self, i: usize, item: T) {
        if let Some(to) = self.get_mut(i) {
            *to = item;
        }
    }
}

impl<A: Send, B: Send> Room for (&mut [A], &mut [B]) {
    type Item = (A, B);

    fn split(self, at: usize) -> (Self, Self) {
        let ((a, b), (c, d)) = (self.0.split(at), self.1.split(at));
        ((a, c), (b, d))
    }
    #[inline(always)]
    fn put(&mut self, i: usize, item: (A, B)) {
        self.0.put(i, item.0);
        self.1.put(i, item.1);
    }
}

struct Part<'a, Q, I, R>(&'a Q, &'a [I], R);

impl<I, R: Room, Q: Query<I, Output = R::Item>> Task for Part<'_, Q, I, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(query, from, mut to) = self;
        // An adapter of iterators would be compiled apart, without FMA.
        for (i, input) in from.iter().enumerate() {
            to.put(i, query.get(input));
        }
    }
}

/// The most elements that a thread does not share with others.
const PART: usize = 1024;

/// Writes the result of a query of each element, on all cores. There is room for as many results.
pub(crate) fn each<I: Sync, R: Room, Q: Query<I, Output = R::Item>>(query: &Q, from: &[I], to: R) {
    if from.len() <= PART {
        return with_fma(Part(query, from, to));
    }
    let middle = from.len() / 2;
    let ((a, b), (c, d)) = (from.split_at(middle), to.split(middle));
    rayon::join(|| each(query, a, c), || each(query, b, d));
}

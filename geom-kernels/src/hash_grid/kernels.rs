//! The kernels of hash grids, for one type of coordinates.

use std::marker::PhantomData;

use cuda_safe::{Kernel, Result};

use crate::geometry::{GeometryKernels, Group};
use crate::real::Real;

/// Threads in a block of queries: measured, bench/NOTES.md.
pub(crate) const QUERY_BLOCK: u32 = 128;

/// They are loaded when they are first asked for.
#[derive(Debug)]
pub(crate) struct Kernels<T> {
    geometry: GeometryKernels,
    build: Group<2>,
    unbounded: Group<5>,
    order: Group<2>,
    query: Group<2>,
    nearest: Group<2>,
    number: PhantomData<T>,
}

/// Those that build a grid with bounds.
pub(crate) struct Build<'a> {
    pub(crate) keys: &'a Kernel,
    pub(crate) finish: &'a Kernel,
}

/// Those that build a grid without bounds.
pub(crate) struct Unbounded<'a> {
    pub(crate) bounds: &'a Kernel,
    pub(crate) frame: &'a Kernel,
    pub(crate) clear: &'a Kernel,
    pub(crate) keys: &'a Kernel,
    pub(crate) finish: &'a Kernel,
}

impl<T: Real> Kernels<T> {
    pub(crate) fn new(geometry: &GeometryKernels) -> Self {
        Self {
            geometry: geometry.clone(),
            build: Group::default(),
            unbounded: Group::default(),
            order: Group::default(),
            query: Group::default(),
            nearest: Group::default(),
            number: PhantomData,
        }
    }

    pub(crate) fn build(&self) -> Result<Build<'_>> {
        let names = || ["bounded_keys", "bounded_finish"].map(name::<T>);
        let [keys, finish] = self.build.get(&self.geometry, T::SOURCES.build, names)?;
        Ok(Build { keys, finish })
    }

    pub(crate) fn unbounded(&self) -> Result<Unbounded<'_>> {
        let names = || ["bounds", "frame", "clear", "long_keys", "finish"].map(name::<T>);
        let kernels = self.unbounded.get(&self.geometry, T::SOURCES.unbounded, names)?;
        let [bounds, frame, clear, keys, finish] = kernels;
        Ok(Unbounded { bounds, frame, clear, keys, finish })
    }

    /// What makes keys of 32 bits, in a grid with bounds.
    pub(crate) fn short_keys(&self) -> Result<&Kernel> {
        self.orders().map(|[keys, _]| keys)
    }

    pub(crate) fn order(&self) -> Result<&Kernel> {
        self.orders().map(|[_, order]| order)
    }

    fn orders(&self) -> Result<&[Kernel; 2]> {
        let names = || ["short_keys", "order"].map(name::<T>);
        self.order.get(&self.geometry, T::SOURCES.order, names)
    }

    pub(crate) fn count(&self) -> Result<&Kernel> {
        self.queries().map(|[count, _]| count)
    }

    pub(crate) fn list(&self) -> Result<&Kernel> {
        self.queries().map(|[_, list]| list)
    }

    fn queries(&self) -> Result<&[Kernel; 2]> {
        self.query.get(&self.geometry, T::SOURCES.query, || ["count", "list"].map(name::<T>))
    }

    /// The kernel that finds the `k` nearest points, if there is one for as many.
    pub(crate) fn nearest(&self, k: usize) -> Result<Option<&Kernel>> {
        let names = || ["nearest_16", "nearest_128"].map(name::<T>);
        let kernels = || self.nearest.get(&self.geometry, T::SOURCES.nearest, names);
        match k {
            1..=16 => kernels().map(|[few, _]| Some(few)),
            17..=128 => kernels().map(|[_, many]| Some(many)),
            _ => Ok(None),
        }
    }
}

fn name<T: Real>(kernel: &str) -> String {
    format!("hash_grid_{kernel}_{}", T::SUFFIX)
}

//! Views of a grid, as kernel arguments.

use cuda_safe::{
    KernelArg, Result,
    arg::{ArgType, UseVisitor},
};

use super::HashGrid;
use super::layout::RawHashGrid;
use crate::part::read;
use crate::real::Real;

/// A grid as an argument of a kernel, whose parameter is a `geom::HashGrid<float>` or `<double>` by value.
///
/// It borrows the grid, which therefore can't be rebuilt before the launch is enqueued.
#[derive(Debug, Clone, Copy)]
pub struct GridView<'a, T: Real> {
    grid: &'a HashGrid<T>,
}

impl<T: Real> HashGrid<T> {
    /// Returns the grid as an argument of your kernel.
    #[must_use]
    pub fn view(&self) -> GridView<'_, T> {
        GridView { grid: self }
    }

    pub(crate) fn raw(&self) -> RawHashGrid {
        let memory = &self.memory;
        let address = |part| memory.read(part).address();
        RawHashGrid {
            header: address(&memory.header),
            points: address(&memory.points),
            groups: address(&memory.groups),
            starts: address(&memory.starts),
            // The keys are only used after the build in grids without bounds.
            keys: address(&memory.keys[0]),
            table: address(&memory.table),
            table_mask: memory.capacity.slots().saturating_sub(1) as u32,
            length: self.length as u32,
        }
    }
}

// SAFETY: the pointers lead into the grid's memory, which is reported, and the header that was
// written there keeps queries inside.
unsafe impl<T: Real> KernelArg for GridView<'_, T> {
    type Abi = RawHashGrid;
    const TYPE: ArgType = ArgType::value::<RawHashGrid>();

    fn abi(&self) -> RawHashGrid {
        self.grid.raw()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.grid.memory.buffer().as_slice())
    }
}

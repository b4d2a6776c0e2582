//! Views of a hierarchy, as kernel arguments.

use cuda_safe::{
    KernelArg, Result,
    arg::{ArgType, UseVisitor},
};

use super::Bvh;
use super::build::Tree;
use super::layout::RawBvh;
use crate::part::read;

/// A hierarchy as an argument of a kernel, whose parameter is a `geom::Bvh` by value.
///
/// It borrows the hierarchy, which therefore can't be rebuilt before the launch is enqueued.
#[derive(Debug, Clone, Copy)]
pub struct BvhView<'a> {
    tree: &'a Tree,
}

impl Bvh {
    /// Returns the hierarchy as an argument of your kernel.
    #[must_use]
    pub fn view(&self) -> BvhView<'_> {
        self.tree.view()
    }
}

impl Tree {
    pub(crate) fn view(&self) -> BvhView<'_> {
        BvhView { tree: self }
    }

    pub(crate) fn raw(&self) -> RawBvh {
        let memory = &self.memory;
        let address = |part| memory.read(part).address();
        RawBvh {
            header: address(&memory.header),
            nodes: address(&memory.nodes),
            items: address(&memory.items),
            boxes: address(&memory.boxes),
            // The length is below 2^28.
            length: self.length as u32,
            unused: 0,
        }
    }
}

// SAFETY: the pointers lead into the hierarchy's memory, which is reported, and what was written there
// keeps queries inside.
unsafe impl KernelArg for BvhView<'_> {
    type Abi = RawBvh;
    const TYPE: ArgType = ArgType::value::<RawBvh>();

    fn abi(&self) -> RawBvh {
        self.tree.raw()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.tree.usable()?;
        read(visitor, &self.tree.memory.buffer().as_slice())
    }
}

//! Views of a volume, as kernel arguments.

use std::marker::PhantomData;

use cuda_safe::{
    Access, Error, KernelArg, Result,
    arg::{ArgType, UseVisitor},
};

use super::layout::RawVolume;
use super::{Volume, VolumeValue};

/// A volume with values `T` as an argument of a kernel, whose parameter is a `geom::Volume<T>` by value.
///
/// It borrows the volume, which therefore can't be rebuilt before the launch is enqueued.
#[derive(Debug, Clone, Copy)]
pub struct VolumeView<'a, T> {
    volume: &'a Volume,
    values: PhantomData<T>,
}

/// A volume as an argument of a kernel that stores values in it: like [`VolumeView`], with a mutable borrow.
#[derive(Debug)]
pub struct VolumeViewMut<'a, T> {
    volume: &'a mut Volume,
    values: PhantomData<T>,
}

impl Volume {
    /// Returns the volume as an argument of your kernel that reads it.
    ///
    /// # Errors
    /// The volume has values of another type.
    pub fn view<T: VolumeValue>(&self) -> Result<VolumeView<'_, T>> {
        self.check_type(T::TYPE)?;
        Ok(VolumeView { volume: self, values: PhantomData })
    }

    /// Returns the volume as an argument of your kernel that also stores values.
    ///
    /// # Errors
    /// The volume has values of another type.
    pub fn view_mut<T: VolumeValue>(&mut self) -> Result<VolumeViewMut<'_, T>> {
        self.check_type(T::TYPE)?;
        Ok(VolumeViewMut { volume: self, values: PhantomData })
    }

    /// Returns a view for kernels that depend only on the layout of the values.
    pub(super) fn any_view<T: VolumeValue>(&self) -> VolumeView<'_, T> {
        VolumeView { volume: self, values: PhantomData }
    }

    pub(super) fn check_type(&self, wanted: nanovdb::ValueType) -> Result<()> {
        let there = self.value_type();
        if there == wanted {
            return Ok(());
        }
        let (there, wanted) = (there.name(), wanted.name());
        Err(Error::invalid(format!("the volume has values of {there}, not of {wanted}")))
    }
}

impl Volume {
    fn uses<V: UseVisitor>(&self, visitor: &mut V, access: Access) -> Result<()> {
        let memory = self.memory()?.as_slice();
        visitor.visit(memory.allocation(), memory.byte_range(), access)
    }
}

// SAFETY: the pointers lead into the volume's memory, which is reported; what lies there was checked by
// `nanovdb::Grid` or written by a build, so that code that follows it stays inside.
unsafe impl<T: VolumeValue> KernelArg for VolumeView<'_, T> {
    type Abi = RawVolume;
    const TYPE: ArgType = ArgType::value::<RawVolume>();

    fn abi(&self) -> RawVolume {
        self.volume.raw()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.volume.uses(visitor, Access::Read)
    }
}

// SAFETY: as above.
unsafe impl<T: VolumeValue> KernelArg for VolumeViewMut<'_, T> {
    type Abi = RawVolume;
    const TYPE: ArgType = ArgType::value::<RawVolume>();

    fn abi(&self) -> RawVolume {
        self.volume.raw()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.volume.uses(visitor, Access::Write)
    }
}

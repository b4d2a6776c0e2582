//! From index space to the world and back.

use cuda_safe::{DeviceRepr, DeviceSlice, Result, Stream, WriteView};

use super::Volume;
use super::layout::RawMap;
use super::samples::{Samples, in_parts};
use crate::lengths::same_length;
use crate::real::Real;

// SAFETY: repr(C); LAYOUTS has it as geom::VolumeMap.
unsafe impl DeviceRepr for RawMap {}

/// What is mapped: `geom::volume::MapKind`.
#[derive(Clone, Copy)]
enum Kind {
    Positions = 0,
    Directions = 1,
    Gradients = 2,
}

macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident = $kind:ident, $to_world:literal;)+) => {
        impl Volume {
            $(
                $(#[$doc])*
                ///
                /// In the precision of the vectors, by the map that the grid stores in it; each sum is
                /// fma(x, a, fma(y, b, c z)), and of positions in the world the translation is taken off first.
                ///
                /// # Errors
                /// `to` has another length than `from`; otherwise what the driver answered.
                pub fn $name<'a, 'b, P: Real>(
                    &self,
                    stream: &Stream,
                    from: impl Into<DeviceSlice<'a, [P; 3]>>,
                    to: impl WriteView<'b, [P; 3]>,
                ) -> Result<()> {
                    let (from, to) = (from.into(), to.write_view());
                    self.map_each(stream, from, to, Kind::$kind, $to_world)
                }
            )+
        }
    };
}

maps! {
    /// Positions in index space, as they are in the world.
    index_to_world = Positions, true;
    /// Positions in the world, as they are in index space.
    world_to_index = Positions, false;
    /// Directions, which are differences of positions, from index space to the world.
    index_to_world_directions = Directions, true;
    /// Directions from the world to index space.
    world_to_index_directions = Directions, false;
    /// Gradients of a field from index space to the world: by the transpose of the map's inverse.
    index_to_world_gradients = Gradients, true;
    /// Gradients of a field from the world to index space.
    world_to_index_gradients = Gradients, false;
}

impl Volume {
    fn map_each<P: Real>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, [P; 3]>,
        mut to: cuda_safe::DeviceSliceMut<'_, [P; 3]>,
        kind: Kind,
        to_world: bool,
    ) -> Result<()> {
        same_length("vectors", to.len(), from.len())?;
        let kernel = self.map_kernel(Samples::<P>::WIDE)?;
        in_parts(from.len(), |range, launch| {
            let (n, from) = (range.len() as u32, from.slice(range.clone())?);
            let args =
                (self.raw().map, from, n, kind as u32, u32::from(to_world), to.slice_mut(range)?);
            // SAFETY: reads n vectors and writes n.
            unsafe { kernel.launch(stream, launch, args) }
        })
    }
}

//! Maps between index space and the world.

use cuda_safe::{DeviceRepr, DeviceSlice, DeviceSliceMut, Result, Stream, WriteView, kernels};

use super::Volume;
use super::layout::RawMap;
use super::samples::BLOCK;
use crate::geometry::{Source, of_source};
use crate::lengths::{in_parts, same_length};
use crate::real::Real;

kernels! {
    #[name = "volume_{}_{P}"]
    struct Maps;
    // SAFETY: thread i reads vector i and writes vector i, if i < n.
    unsafe in Source::VOLUME_MAP {
        safe fn map<P: Real in [f32 = "f32", f64 = "f64"]>(
            map: RawMap, from: &[[P; 3]], n: u32, #[any] kind: u32, #[any] to_world: u32, to: &mut [[P; 3]],
        ) where n <= from.len(), n <= to.len();
    }
}
of_source!(Maps, Source::VOLUME_MAP);

// SAFETY: repr(C); LAYOUTS has it as geom::VolumeMap.
unsafe impl DeviceRepr for RawMap {}

/// The kind of vectors that are mapped: `geom::volume::MapKind`.
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
                /// The map is applied in the precision of the vectors, with the coefficients that the grid stores in
                /// it. Each sum is fma(x, a, fma(y, b, c z)); for positions in the world the translation is
                /// subtracted first.
                ///
                /// # Errors
                /// `to` has another length than `from`; otherwise if the driver returns an error.
                pub fn $name<'a, P: Real>(
                    &self,
                    stream: &Stream,
                    from: impl Into<DeviceSlice<'a, [P; 3]>>,
                    to: impl WriteView<'a, [P; 3]>,
                ) -> Result<()> {
                    let (from, to) = (from.into(), to.write_view());
                    self.map_each(stream, from, to, Kind::$kind, $to_world)
                }
            )+
        }
    };
}

maps! {
    /// Maps positions from index space to the world.
    index_to_world = Positions, true;
    /// Maps positions from the world to index space.
    world_to_index = Positions, false;
    /// Maps directions, which are differences of positions, from index space to the world.
    index_to_world_directions = Directions, true;
    /// Maps directions from the world to index space.
    world_to_index_directions = Directions, false;
    /// Maps gradients of a field from index space to the world: by the transpose of the map's inverse.
    index_to_world_gradients = Gradients, true;
    /// Maps gradients of a field from the world to index space.
    world_to_index_gradients = Gradients, false;
}

impl Volume {
    fn map_each<P: Real>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, [P; 3]>,
        mut to: DeviceSliceMut<'_, [P; 3]>,
        kind: Kind,
        to_world: bool,
    ) -> Result<()> {
        same_length("vectors", to.len(), from.len())?;
        let (kernels, map) = (self.geometry().kernels::<Maps>()?, self.raw().map);
        in_parts(from.len(), BLOCK, |range, n, launch| {
            let (from, to) = (from.slice(range.clone())?, to.slice_mut(range)?);
            kernels.map(stream, launch, map, from, n, kind as u32, u32::from(to_world), to)
        })
    }
}

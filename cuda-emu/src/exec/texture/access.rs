//! A decoded instruction of a texture or surface.

use std::sync::Arc;

use crate::exec::decode::{Class, Rmw};
use crate::exec::fault::Code;
use crate::exec::inst::Flow;
use crate::exec::machine::Machine;
use crate::exec::tangent::Register;
use crate::texture::{Image, Object};

/// The shape that an instruction names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dims {
    /// Coordinates without the layer.
    pub(crate) coordinates: usize,
    pub(crate) layered: bool,
    pub(crate) cube: bool,
}

/// The results of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Result {
    /// Four words.
    Words,
    /// Four halves.
    Halves,
    /// Two words of two halves.
    Packed,
}

/// What a surface access does outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    Trap,
    Clamp,
    Zero,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Fetch(Result),
    Gather(u8, Result),
    /// Elements of so many bytes.
    Load(u64, Outside),
    Store(u64, Outside),
    /// A store in the surface's format.
    Pack(Outside),
    /// Bytes of the element, the operation for a surface without signs and for one with signs, and whether the coordinate is
    /// in texels.
    Reduce(u64, [Rmw; 2], Outside, bool),
    /// Whether the handle is a texture's, or else a surface's.
    Is(bool),
}

/// An instruction.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) opcode: Box<str>,
    pub(crate) what: What,
    pub(crate) dims: Dims,
    /// Slot of the handle.
    pub(crate) object: u32,
    /// Slots of the layer and of the coordinates.
    pub(crate) layer: u32,
    pub(crate) at: [u32; 3],
    pub(crate) integers: bool,
    /// Slot of the level of detail.
    pub(crate) level: Option<u32>,
    /// Slots of the derivatives.
    pub(crate) gradient: Option<[[u32; 3]; 2]>,
    /// Slots and widths of what it writes or stores.
    pub(crate) values: Vec<(u32, Class)>,
    /// What stands for it among the counters when a result is approximate; `None` unless instructions are counted.
    pub(crate) counter: Option<u64>,
    /// Its results, if approximate values are followed.
    pub(crate) marked: Vec<Register>,
}

impl Machine<'_> {
    /// Returns the object of a handle.
    pub(super) fn object(&self, handle: u64) -> Option<Arc<Object>> {
        self.space.objects().get(handle)
    }

    /// Ends the launch because a handle is none of the kind that an instruction needs.
    #[cold]
    pub(super) fn no_object(
        &mut self,
        access: &Access,
        lane: usize,
        handle: u64,
        kind: &str,
    ) -> Flow {
        let what = match self.object(handle).as_deref() {
            None => {
                format!("{}: {handle:#x} is no {kind} object, or it is destroyed", access.opcode)
            }
            Some(Object::Texture(_)) => {
                format!("{}: {handle:#x} is a texture object, not a {kind} object", access.opcode)
            }
            Some(Object::Surface(_)) => {
                format!("{}: {handle:#x} is a surface object, not a {kind} object", access.opcode)
            }
        };
        self.fail(Code::IllegalAddress, lane, what)
    }

    /// Checks that an image's memory is there and that this device has access to it. False: the launch has ended.
    pub(super) fn image_is_there(
        &mut self,
        access: &Access,
        lane: usize,
        image: &Image,
        write: bool,
    ) -> bool {
        let (start, id) = image.region;
        let Some(region) = self.space.find(start).filter(|region| region.id == id) else {
            let what = format!(
                "{}: the memory of the {} was freed: {}",
                access.opcode,
                if write { "surface" } else { "object" },
                self.space.describe(start)
            );
            self.fail(Code::IllegalAddress, lane, what);
            if let Some(fault) = &mut self.fault {
                fault.report.address = Some(start);
            }
            return false;
        };
        let own = region.device == self.job.env.device.ordinal;
        let reach = if own { 3 } else { (self.job.around.reach)(&region) };
        if reach & (1 + u32::from(write)) != 0 {
            return true;
        }
        let what = format!(
            "{}: {}, which device {} has no access to",
            access.opcode,
            self.space.describe(start),
            self.job.env.device.ordinal
        );
        self.fail(Code::IllegalAddress, lane, what);
        false
    }

    /// Checks that an image has the shape that an instruction names. False: the launch has ended.
    pub(super) fn fits(&mut self, access: &Access, lane: usize, image: &Image) -> bool {
        let Dims { coordinates, layered, cube } = access.dims;
        // Surfaces of cubes are accessed as layers.
        let faces = image.cube
            && matches!(
                access.what,
                What::Load(..) | What::Store(..) | What::Pack(_) | What::Reduce(..)
            );
        let has = Dims {
            coordinates: if image.cube && !faces { 3 } else { image.dimensions as usize },
            layered: image.layered || faces,
            cube: image.cube && !faces,
        };
        // A missing coordinate is 0, and of an axis of one texel every coordinate is. Programs fetch so from tables.
        let flat = |axis: usize| image.levels.first().is_some_and(|level| level.size[axis] == 1);
        let shorter = coordinates < has.coordinates && (coordinates..has.coordinates).all(flat);
        let plain = !has.layered && !has.cube && !layered && !cube;
        if has == (Dims { coordinates, layered, cube }) || plain && shorter {
            return true;
        }
        let shape = |dims: Dims| {
            let layers = if dims.layered { "layered " } else { "" };
            match dims.cube {
                true => format!("{layers}cube"),
                false => format!("{layers}{}D", dims.coordinates),
            }
        };
        let what = format!(
            "{}: the object is {}; the instruction is for {}",
            access.opcode,
            shape(has),
            shape(access.dims)
        );
        self.fail(Code::IllegalAddress, lane, what);
        false
    }
}

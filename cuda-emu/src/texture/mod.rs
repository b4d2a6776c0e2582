//! Textures and surfaces: what an object refers to, and what a fetch from it computes.
//!
//! An image is memory of the address space, as levels of rows of texels that begin at multiples of 32 bytes, or memory of the program with a
//! pitch. The objects are in a table of the space, by the handle that kernels get. A fetch turns coordinates into texels
//! with weights (`locate`), reads them (`texel`) and adds them up (`filter`).
//!
//! The arithmetic is that of an H200, found from seeded fetches that were recorded there: a test compares them. Where it is
//! not known, a fetch says that its result is approximate: levels chosen by derivatives, a bias of levels, sRGB, filtered
//! texels of s8, and cubes.

mod cube;
mod filter;
mod locate;
mod lod;
mod sample;
mod table;
mod texel;

pub(crate) use sample::{Fetch, Lod, sample};
pub(crate) use table::{Object, Objects};
pub(crate) use texel::{Channel, Format, pack};

/// One level of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    /// The address of the first texel.
    pub(crate) start: u64,
    /// Width, height and depth, each at least 1. Layers and faces are not part of the depth.
    pub(crate) size: [u32; 3],
    /// Bytes from one row to the next, and from one slice, layer or face to the next.
    pub(crate) pitch: u64,
    pub(crate) slice: u64,
}

/// Memory of texels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Image {
    /// The region that the texels lie in, as it was when the object was made.
    pub(crate) region: (u64, u64),
    /// The end of the region.
    pub(crate) end: u64,
    pub(crate) format: Format,
    /// Dimensions: 1, 2 or 3.
    pub(crate) dimensions: u32,
    /// Layers; 0 if it is not layered. Those of a cube are its faces or six for each cube.
    pub(crate) layers: u32,
    pub(crate) layered: bool,
    pub(crate) cube: bool,
    /// Whether it is linear memory of one dimension.
    pub(crate) linear: bool,
    pub(crate) levels: Vec<Level>,
}

/// What a coordinate outside of the image means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    Wrap,
    Clamp,
    Mirror,
    Border,
}

/// How a texture is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    pub(crate) address: [Address; 3],
    pub(crate) linear: bool,
    pub(crate) normalized: bool,
    /// Whether integers are read as integers.
    pub(crate) integers: bool,
    pub(crate) srgb: bool,
    pub(crate) seamless: bool,
    pub(crate) linear_levels: bool,
    pub(crate) bias: f32,
    /// The least and the greatest level.
    pub(crate) clamp: [f32; 2],
    pub(crate) anisotropy: u32,
    pub(crate) border: [f32; 4],
}

/// A texture: an image and how it is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Texture {
    pub(crate) image: Image,
    pub(crate) sampler: Sampler,
}

impl Image {
    /// Returns a level, or the last one.
    pub(crate) fn level(&self, at: u32) -> Option<&Level> {
        self.levels.get(at as usize).or(self.levels.last())
    }
}

impl Level {
    /// Returns the address of a texel: column, row, and slice or layer.
    pub(crate) fn at(&self, x: u64, y: u64, z: u64, texel: u64) -> u64 {
        let offset = z.wrapping_mul(self.slice).wrapping_add(y.wrapping_mul(self.pitch));
        self.start.wrapping_add(offset).wrapping_add(x.wrapping_mul(texel))
    }
}

//! The modes: what texture there is, and how a kernel reads it.

use std::fmt::Write;

/// The shape of a texture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in PTX")]
pub enum Geometry {
    D1,
    D2,
    D3,
    A1,
    A2,
    Cube,
    CubeArray,
}

/// The format of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their types")]
pub enum Format {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

/// The texels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Numbers of all bits, floats of different exponents.
    Random,
    /// Ones between zeros: a fetch returns its weights.
    Impulse,
    /// NaN, infinities, subnormals and the largest numbers among others.
    Special,
}

/// The memory of a texture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// An array, with mipmaps if the mode has more than one level.
    Array,
    /// Linear memory of one dimension.
    Linear,
    /// Linear memory of two dimensions.
    Pitched,
}

/// The type and unit of coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinates {
    /// `s32`.
    Integers,
    /// `f32`, in texels.
    Texels,
    /// `f32`, in sizes of the texture.
    Normalized,
}

/// What a surface access does outside of the surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is not outside.
    Trap,
    /// Accesses the nearest texel.
    Clamp,
    /// Loads zeros, stores nothing.
    Zero,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `tex`
    Base,
    /// `tex.level`
    Level,
    /// `tex.grad`
    Gradient,
    /// `tld4` of a component
    Gather(u8),
    /// `tex` with packed halves as results
    Halves,
    /// `txq`
    Query,
    /// `suq`
    SurfaceQuery,
    /// `suld.b` of so many bytes
    SurfaceLoad(u32, Access),
    /// `sust.b` of so many bytes; the result is the array
    SurfaceStore(u32, Access),
    /// `sust.p`; the result is the array
    SurfaceStoreFormatted(&'static str),
    /// `sured.b` with an operation and a type; the result is the array
    SurfaceReduce(&'static str),
}

/// A texture and what a kernel does with it.
#[derive(Debug, Clone)]
pub struct Mode {
    /// Says all of it.
    pub name: String,
    /// The shape.
    pub geometry: Geometry,
    /// Width, height and depth or layers of level 0; 0 where there is none.
    pub size: [u32; 3],
    /// Levels of mipmaps.
    pub levels: u32,
    /// The format.
    pub format: Format,
    /// Channels.
    pub channels: u32,
    /// The texels.
    pub content: Content,
    /// The memory.
    pub memory: Memory,
    /// Coordinates of the fetches.
    pub coordinates: Coordinates,
    /// The driver's number of the addressing mode: wrap, clamp, mirror, border.
    pub address: [u32; 3],
    /// Linear filter.
    pub linear: bool,
    /// Linear filter between levels.
    pub linear_levels: bool,
    /// Integers are read as numbers in [0, 1] or [-1, 1].
    pub normalized_read: bool,
    /// Further flags of the texture: sRGB, seamless cubes.
    pub flags: u32,
    /// The bias and the clamps of levels.
    pub level_limits: [f32; 3],
    /// The most samples of an anisotropic fetch.
    pub anisotropy: u32,
    /// What a thread does.
    pub operation: Operation,
}

impl Geometry {
    /// The word of PTX.
    pub fn word(self) -> &'static str {
        match self {
            Self::D1 => "1d",
            Self::D2 => "2d",
            Self::D3 => "3d",
            Self::A1 => "a1d",
            Self::A2 => "a2d",
            Self::Cube => "cube",
            Self::CubeArray => "acube",
        }
    }

    /// Whether the coordinates are a direction.
    pub fn is_cube(self) -> bool {
        matches!(self, Self::Cube | Self::CubeArray)
    }

    /// Whether there are layers.
    pub fn is_layered(self) -> bool {
        matches!(self, Self::A1 | Self::A2 | Self::CubeArray)
    }
}

impl Format {
    /// Bytes of a channel.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }

    /// Whether it is of integers.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::F32)
    }

    fn word(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }
}

impl Mode {
    /// Width, height and depth or layers of a level, each at least 1.
    pub fn extent(&self, level: u32) -> [u32; 3] {
        let [width, height, depth] = self.size;
        let half = |size: u32| (size >> level).max(1);
        let depth = match self.geometry {
            Geometry::D3 => half(depth),
            Geometry::A1 => return [half(width), 1, height.max(1)],
            _ => depth.max(1),
        };
        [half(width), half(height), depth]
    }

    /// The layers that a fetch names; 0 if it names none.
    pub fn layers(&self) -> u32 {
        match self.geometry {
            Geometry::A1 => self.size[1],
            Geometry::A2 => self.size[2],
            Geometry::CubeArray => self.size[2] / 6,
            _ => 0,
        }
    }

    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> usize {
        self.format.bytes() * self.channels as usize
    }

    /// Whether results are floats.
    pub fn reads_floats(&self) -> bool {
        !self.format.is_integer() || self.normalized_read
    }

    /// Whether a kernel accesses it as a surface.
    pub fn is_surface(&self) -> bool {
        matches!(
            self.operation,
            Operation::SurfaceQuery
                | Operation::SurfaceLoad(..)
                | Operation::SurfaceStore(..)
                | Operation::SurfaceStoreFormatted(_)
                | Operation::SurfaceReduce(_)
        )
    }

    pub(crate) fn new(geometry: Geometry, size: [u32; 3]) -> Self {
        Self {
            name: String::new(),
            geometry,
            size,
            levels: 1,
            format: Format::F32,
            channels: 1,
            content: Content::Random,
            memory: Memory::Array,
            coordinates: if geometry.is_cube() {
                Coordinates::Normalized
            } else {
                Coordinates::Texels
            },
            address: [1; 3],
            linear: false,
            linear_levels: false,
            normalized_read: false,
            flags: 0,
            level_limits: [0.0, 0.0, 99.0],
            anisotropy: 0,
            operation: Operation::Base,
        }
    }

    pub(crate) fn of(mut self, format: Format, channels: u32) -> Self {
        (self.format, self.channels) = (format, channels);
        self
    }

    pub(crate) fn linear(mut self, linear: bool) -> Self {
        self.linear = linear;
        self
    }

    pub(crate) fn address(mut self, address: u32) -> Self {
        self.address = [address; 3];
        self
    }

    pub(crate) fn content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    pub(crate) fn coordinates(mut self, coordinates: Coordinates) -> Self {
        self.coordinates = coordinates;
        self
    }

    pub(crate) fn operation(mut self, operation: Operation) -> Self {
        self.operation = operation;
        self
    }

    pub(crate) fn normalized_read(mut self) -> Self {
        self.normalized_read = true;
        self
    }

    pub(crate) fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    pub(crate) fn levels(mut self, levels: u32, linear: bool) -> Self {
        (self.levels, self.linear_levels) = (levels, linear);
        self
    }

    pub(crate) fn limits(mut self, limits: [f32; 3]) -> Self {
        self.level_limits = limits;
        self
    }

    pub(crate) fn anisotropy(mut self, anisotropy: u32) -> Self {
        self.anisotropy = anisotropy;
        self
    }

    /// Sets the name.
    pub(crate) fn named(mut self) -> Self {
        let address = self.address.map(|mode| ["wrap", "clamp", "mirror", "border"][mode as usize]);
        let mut name = format!(
            "{}_{}x{}x{}_{}x{}",
            self.geometry.word(),
            self.size[0],
            self.size[1],
            self.size[2],
            self.format.word(),
            self.channels
        );
        // A string takes all that is written to it.
        let mut add = |text: &dyn std::fmt::Display| {
            let _ = write!(name, "_{text}");
        };
        if self.content != Content::Random {
            add(&format!("{:?}", self.content).to_lowercase());
        }
        if self.memory != Memory::Array {
            add(&format!("{:?}", self.memory).to_lowercase());
        }
        if self.is_surface() {
            let operation = format!("{:?}", self.operation).to_lowercase();
            let words = operation.split(|c: char| !c.is_alphanumeric());
            add(&words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_"));
            self.name = name;
            return self;
        }
        add(&format!("{:?}", self.coordinates).to_lowercase());
        if address.iter().all(|mode| *mode == address[0]) {
            add(&address[0]);
        } else {
            add(&address.join("_"));
        }
        add(&if self.linear { "linear" } else { "point" });
        if self.normalized_read {
            add(&"normalized_read");
        }
        if self.flags != 0 {
            add(&format!("flags{}", self.flags));
        }
        if self.levels > 1 {
            add(&format!("levels{}", self.levels));
            add(&if self.linear_levels { "between" } else { "nearest" });
            if self.level_limits != [0.0, 0.0, 99.0] {
                let [bias, low, high] = self.level_limits;
                add(&format!("bias{bias}_from{low}_to{high}"));
            }
        }
        if self.anisotropy > 0 {
            add(&format!("anisotropy{}", self.anisotropy));
        }
        match self.operation {
            Operation::Base => {}
            Operation::Gather(component) => add(&format!("gather{component}")),
            other => add(&format!("{other:?}").to_lowercase()),
        }
        self.name = name;
        self
    }
}

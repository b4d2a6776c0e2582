//! The description of a kernel's parameters: which are differentiated, and where real numbers lie in them.

/// A type of real numbers that adjoints are generated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Real {
    /// `float`
    F32,
    /// `double`
    F64,
    /// `__half`. Its gradient is a `float`, at twice the offset.
    F16,
    /// `__nv_bfloat16`. Its gradient is a `float`, at twice the offset.
    Bf16,
}

impl Real {
    /// Returns the size of a number in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the type of the number's gradient.
    #[must_use]
    pub const fn gradient(self) -> Self {
        match self {
            Self::F16 | Self::Bf16 | Self::F32 => Self::F32,
            Self::F64 => Self::F64,
        }
    }

    /// Returns the bytes of gradients for each byte of numbers.
    #[must_use]
    pub const fn scale(self) -> u32 {
        self.gradient().bytes() / self.bytes()
    }
}

/// A kernel and its parameters.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// The kernel's name in the PTX text.
    pub kernel: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Default)]
pub struct Param {
    /// The name that messages use.
    pub name: String,
    /// The pointers in it: one at offset 0 for a parameter that is a pointer, any number for a structure.
    pub pointers: Vec<Pointer>,
    /// The numbers in it that are passed by value: offsets in bytes, and types.
    pub reals: Vec<(u32, Real)>,
    /// Whether gradients with respect to [`reals`](Self::reals) are wanted.
    pub active: bool,
    /// Whether it is a structure: its gradient parameter is the same structure with pointers to gradients.
    pub structure: bool,
    /// Offsets of the pointers in it to replay buffers: the kernel stores results of atomic operations there, and the
    /// adjoint loads them. The gradients are right if no thread of the launch stores to such an element after the
    /// result, and if the adjoint finds the memory as it is after the launch.
    pub replay: Vec<u32>,
}

/// A pointer that a kernel gets.
#[derive(Debug, Clone)]
pub struct Pointer {
    /// The offset in the parameter, in bytes.
    pub offset: u32,
    /// The size of an element in bytes.
    pub size: u32,
    /// The real numbers in an element; `None` if it has none.
    pub reals: Option<Reals>,
    /// Whether the gradient of the memory is wanted.
    pub active: bool,
    /// The number of elements: a factor and the integer parameter that it multiplies.
    pub length: Option<(u32, usize)>,
}

/// The real numbers in an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reals {
    /// Only numbers of this type.
    All(Real),
    /// Numbers of this type, and other members between them.
    Some(Real),
}

impl Reals {
    /// Returns the type of the numbers.
    #[must_use]
    pub const fn real(self) -> Real {
        match self {
            Self::All(real) | Self::Some(real) => real,
        }
    }
}

/// The effect of a kernel on the memory behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The memory is not accessed, or only loaded from.
    Reads,
    /// The memory is only stored to.
    Overwrites,
    /// The memory is loaded from and stored to. Its gradient must not be null where another's is wanted: it is that of
    /// an input, too.
    Updates,
    /// The memory is only added to, by `red.add` or `atomicAdd`.
    Accumulates,
}

/// The derived accesses to the memory behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The parameter and the offset in it.
    pub param: usize,
    /// The pointer's offset in the parameter, in bytes.
    pub offset: u32,
    /// The effect of the kernel on the memory.
    pub effect: Effect,
    /// Whether the adjoint loads from the memory, as it was before the launch.
    pub loaded: bool,
    /// Whether the adjoint also stores to it, so that it needs a copy.
    pub private: bool,
    /// Whether each thread accesses a separate element, so that gradients are added without atomics.
    pub own: bool,
    /// Whether the adjoint adds to the gradient of each element below the length, or overwrites it.
    pub covers: bool,
    /// Whether the adjoint leaves the gradient as it is where the frame drops it: it stores no zeros there, and adds
    /// nothing.
    pub drops: bool,
    /// Whether the kernel stores or adds no value there that depends on active inputs.
    pub constant: bool,
    /// Whether the memory is a replay buffer: the adjoint loads from it as it is *after* the launch.
    pub replayed: bool,
}

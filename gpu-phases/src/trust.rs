//! Tokens that only `unsafe` code creates: the macros' promises to the launchers of devices.

/// The promise that a kernel's description is true. It is not `Clone`, so safe code cannot copy it from a `&'static
/// Kernel`.
#[derive(Debug)]
pub struct Trusted(());

impl Trusted {
    /// Makes the promise.
    ///
    /// # Safety
    /// The fields of the [`Kernel`](crate::kernel::Kernel) that holds this are true: with arguments that fit `params`
    /// and satisfy the kernel's conditions, the C++ that `write` writes accesses only its arguments and the memory of
    /// its `carries`, writes each element of an output by one thread, or by those of one block with barriers between,
    /// and terminates.
    #[allow(unsafe_code, reason = "the promise of the macros")]
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// The promise that a launch's arguments fit its kernel.
#[derive(Debug)]
pub struct Checked(());

impl Checked {
    /// Makes the promise.
    ///
    /// # Safety
    /// The arguments of the one launch that receives this have the types of the kernel's parameters and satisfy its
    /// conditions on lengths and values, and the extent is that of its outputs.
    #[allow(unsafe_code, reason = "the promise of the macros")]
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// The bytes of a file with compiled kernels, which [`embed_pack!`](crate::embed_pack) embeds in the program.
#[derive(Clone, Copy)]
pub struct EmbeddedPack {
    path: &'static str,
    bytes: &'static [u8],
}

impl EmbeddedPack {
    /// Creates a pack from a file's path and contents.
    ///
    /// # Safety
    /// The bytes are empty, or written by `cuda_safe::kernel::Pack`, or such that launchers refuse them: truncated or
    /// corrupted by accident.
    #[allow(unsafe_code, reason = "the promise of `embed_pack!`")]
    #[must_use]
    pub const unsafe fn new(path: &'static str, bytes: &'static [u8]) -> Self {
        Self { path, bytes }
    }

    /// Returns the path of the file, as the program names it.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the contents of the file.
    #[must_use]
    pub const fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

impl std::fmt::Debug for EmbeddedPack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EmbeddedPack({:?}, {} bytes)", self.path, self.bytes.len())
    }
}

/// Embeds a file with compiled kernels in the program, so that it needs no NVRTC where it runs. Returns an
/// [`EmbeddedPack`](crate::trust::EmbeddedPack).
///
/// ```ignore
/// static PACK: EmbeddedPack = embed_pack!("kernels.pack");
///
/// #[kernel(pack = PACK)]
/// fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) { each(out, |i, out| *out = a * x[i] + y[i]); }
/// ```
///
/// The path is relative to the folder of the package's `Cargo.toml`. Begin with an empty file, which is a pack
/// without kernels. `cuda_safe::kernel::Pack` writes the kernels into it, in a test. Launches on a CPU do not use the
/// pack.
///
/// The file is trusted like the sources: embed only files that `Pack` has written.
#[macro_export]
macro_rules! embed_pack {
    ($path:literal) => {
        // SAFETY: the file is part of the package's sources, which `Pack` writes and the launcher tests by hashes.
        unsafe { $crate::trust::EmbeddedPack::new($path, $crate::__private::pack_bytes!($path)) }
    };
}

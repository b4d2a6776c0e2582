//! Tokens that only `unsafe` code makes: what the macros promise to the launchers of devices.

/// The promise that a kernel's description is true. Not `Clone`, so no safe code can take it out of a `&'static Kernel`.
#[derive(Debug)]
pub struct Trusted(());

impl Trusted {
    /// Makes the promise.
    ///
    /// # Safety
    /// The fields of the [`Kernel`](crate::kernel::Kernel) that holds this are true: with arguments that fit `params` and
    /// satisfy the kernel's conditions, the C++ that `write` writes stays inside its arguments, writes each element of
    /// an output by one thread, and ends.
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
    /// The arguments of the one launch that this is passed to are of the types of the kernel's parameters, satisfy its
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
    /// Names a file and its contents.
    ///
    /// # Safety
    /// The bytes are none, or a `cuda_safe::kernel::Pack` has written them, or launchers refuse them: bytes that were cut
    /// off or changed by accident.
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
/// The path is relative to the folder of the package's `Cargo.toml`. An empty file is a pack without kernels: begin with
/// one. `cuda_safe::kernel::Pack` writes the kernels into it, in a test. Launches on a CPU do not use the pack.
///
/// The file is trusted as the sources are: embed none but those that `Pack` has written.
#[macro_export]
macro_rules! embed_pack {
    ($path:literal) => {
        // SAFETY: the file is part of the package's sources, which `Pack` writes and the launcher tests by hashes.
        unsafe { $crate::trust::EmbeddedPack::new($path, $crate::__private::pack_bytes!($path)) }
    };
}

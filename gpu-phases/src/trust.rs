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
    /// an output by one thread, and ends. `pack`, if there is one, has images of that C++.
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

//! What must hold for any bytes that come from outside: one function for each kind of input, which panics where
//! it does not.
//!
//! The fuzzers (`fuzz/fuzz_targets`) call these functions with inputs that they make up; the test `replay`
//! calls them with the inputs that are checked in (`fuzz/corpus`), in every run of the tests. That nothing
//! panics is only the beginning: no input makes the library ask for memory out of all proportion, and what is
//! read, written and read again is the same.

mod cache;
mod log;
mod mesh;
mod nvdb;
mod program;
mod text;

// Samples of grids, and code that follows a grid's distances without looking, as devices do.
#[path = "../../../nanovdb/tests/mutants/follow.rs"]
mod follow;
#[path = "../../../nanovdb/tests/mutants/layouts.rs"]
mod layouts;
#[path = "../../../geom-kernels/src/mesh/files/tests/meter.rs"]
mod meter;
#[allow(dead_code, reason = "of the changes to grids only the checksum is of use here")]
#[path = "../../../nanovdb/tests/mutants/mutate.rs"]
mod mutate;
#[allow(dead_code, reason = "nothing here asks what kind of thing a field is")]
#[path = "../../../nanovdb/tests/mutants/samples.rs"]
mod samples;

pub use cache::cache_entry;
pub use log::nvrtc_log;
pub use mesh::{obj, ply, stl};
pub use nvdb::{nvdb_file, nvdb_grid};
pub use program::kernel;
pub use text::ptx;

/// One kind of input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the fuzzer, and of the folder of its corpus.
    pub name: &'static str,
    /// Panics if something does not hold for these bytes.
    pub check: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident)+) => {
        /// All of them, by name.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), check: $name }),+];
    };
}

targets!(cache_entry kernel nvdb_file nvdb_grid nvrtc_log obj ply ptx stl);

/// Runs `body`, in which nothing may ask for a block of more than `most` bytes.
fn within<T>(most: usize, body: impl FnOnce() -> T) -> T {
    let (answer, largest) = meter::largest_block(body);
    assert!(largest <= most, "a block of {largest} bytes, where {most} are enough");
    answer
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn what_is_too_large_is_noticed() {
        let room = |bytes| within(1000, || Vec::<u8>::with_capacity(bytes).capacity());
        assert_eq!(room(1000), 1000);
        assert!(std::panic::catch_unwind(|| room(1001)).is_err());
    }
}

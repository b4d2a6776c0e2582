//! The properties for any bytes from outside: one function for each kind of input, which panics if a property does not
//! hold.
//!
//! The fuzzers (`fuzz/fuzzers/fuzz_targets`) call these functions with inputs that they make up; the test `replay`
//! calls them with the inputs that are checked in (`fuzz/corpus`) and with changed copies of them, in every run of the tests. That nothing
//! panics is only the beginning: no input makes the library ask for memory out of all proportion, and what is
//! read, written and read again is the same.

mod cache;
mod fatbin;
mod link;
mod log;
mod mesh;
mod nvdb;
mod program;
mod text;

use test_support::meter;
use test_support::nvdb::{follow, layouts, samples};

#[global_allocator]
static METER: meter::Meter = meter::Meter;

pub use cache::cache_entry;
pub use fatbin::fatbin;
pub use link::ptx_link;
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

targets!(cache_entry fatbin kernel nvdb_file nvdb_grid nvrtc_log obj ply ptx ptx_link stl);

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

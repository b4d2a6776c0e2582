//! Calls of the driver.

/// Calls a function of the driver and converts its return code to a result with the method `answer` of `$owner`: a
/// device, a context or a stream. Errors name the function as `cuda.h` does, without its version.
macro_rules! call {
    ($owner:expr, $function:ident($($argument:expr),* $(,)?)) => {
        $owner.answer(
            const { crate::call::unversioned(stringify!($function)) },
            $owner.sys().$function($($argument),*),
        )
    };
    // The second for drivers that don't have the first.
    ($owner:expr, $newer:ident($($new:expr),* $(,)?), else $older:ident($($old:expr),* $(,)?)) => {
        $owner.answer(
            const { crate::call::unversioned(stringify!($newer)) },
            match $owner.sys().$newer($($new),*) {
                Err(cuda_sys::MissingSymbol { .. }) => $owner.sys().$older($($old),*),
                known => known,
            },
        )
    };
}

/// Returns the name of a function without a `_v2` or so at its end.
pub(crate) const fn unversioned(name: &str) -> &str {
    match name.as_bytes() {
        [.., b'_', b'v', b'0'..=b'9'] => name.split_at(name.len() - 3).0,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_of_the_header() {
        assert_eq!(super::unversioned("cuMemAlloc_v2"), "cuMemAlloc");
        assert_eq!(super::unversioned("cuMemAllocAsync"), "cuMemAllocAsync");
    }
}

//! The macros that the generated files call: a table of function pointers with one method per
//! function, zeroed defaults of structs, names of codes.

/// A function that has a slot in [`DriverFns`](crate::DriverFns) or [`NvrtcFns`](crate::NvrtcFns).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The exported name, which fixes the ABI: `cuMemAlloc_v2`.
    pub name: &'static str,
    /// The name that `cuGetProcAddress` takes: `cuMemAlloc`.
    pub base: &'static str,
    /// The CUDA release that introduced this ABI, as `cuGetProcAddress` takes it: 12050 is 12.5.
    /// 0 for NVRTC, whose headers do not say.
    pub version: i32,
}

/// Returns the position of `name` in `symbols`, which are sorted by name.
pub(crate) fn position(symbols: &[Symbol], name: &str) -> Option<usize> {
    symbols.binary_search_by(|symbol| symbol.name.cmp(name)).ok()
}

/// The table struct, its symbols, and the methods of the library that holds a table in `fns`.
macro_rules! table {
    (
        $fns:ident $library:ident $symbols:ident
        $($version:literal $name:ident as $base:ident ( $($arg:ident : $ty:ty),* $(,)? ) -> $ret:ty;)*
    ) => {
        /// Every function with a slot, sorted by name; the order of the table's fields.
        pub const $symbols: &[$crate::Symbol] = &[$($crate::Symbol {
            name: stringify!($name),
            base: stringify!($base),
            version: $version,
        }),*];

        /// The table of function pointers: one field per exported name, `None` if it is missing.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $fns {
            $(pub $name: Option<unsafe extern "C" fn($($arg: $ty),*) -> $ret>),*
        }

        impl $fns {
            /// Makes a table of addresses in the order of the symbols; null is a missing function.
            ///
            /// # Safety
            /// Each address that is not null is a function with the C ABI of its symbol, callable
            /// for the rest of the process.
            pub(crate) unsafe fn from_addresses(
                addresses: [*const c_void; $symbols.len()],
            ) -> Self {
                // SAFETY: the table is `repr(C)` and has one optional function pointer per
                // symbol; such a pointer is an address or null, and the caller vouches for the ABI.
                unsafe { core::mem::transmute::<[*const c_void; $symbols.len()], Self>(addresses) }
            }

            /// Returns the address in the slot of the `index`-th symbol; null if it is missing.
            pub(crate) fn address(&self, index: usize) -> *const c_void {
                // SAFETY: as in `from_addresses`, the table is an array of addresses.
                let all = unsafe { &*(&raw const *self).cast::<[*const c_void; $symbols.len()]>() };
                all.get(index).copied().unwrap_or(core::ptr::null())
            }
        }

        impl core::fmt::Debug for $fns {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let bound = (0..$symbols.len()).filter(|&index| !self.address(index).is_null());
                f.debug_struct(stringify!($fns))
                    .field("bound", &bound.count())
                    .field("of", &$symbols.len())
                    .finish_non_exhaustive()
            }
        }

        impl $crate::$library {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                #[inline]
                pub unsafe fn $name(
                    &self,
                    $($arg: $ty),*
                ) -> Result<$ret, $crate::MissingSymbol> {
                    match self.fns.$name {
                        // SAFETY: the slot has this symbol's ABI; the caller keeps the function's
                        // own rules.
                        Some(function) => Ok(unsafe { function($($arg),*) }),
                        None => Err(self.missing(stringify!($name), $version)),
                    }
                }
            )*
        }
    };
}

/// `Default` of C structs: all bytes zero, which is how the headers ask for them to be set up.
macro_rules! zeroed {
    ($($name:ident)*) => {$(
        impl Default for $name {
            #[inline]
            fn default() -> Self {
                // SAFETY: C structs and unions of integers, floats, raw pointers, optional function
                // pointers and arrays and structs of these: zero is a valid value of all of them.
                unsafe { core::mem::zeroed() }
            }
        }
    )*};
}

/// Names of an enum of result codes, without asking the library.
macro_rules! codes {
    ($code:ident $($name:ident)*) => {
        impl $code {
            /// Every code that the headers know.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the code's name in C; `None` for a code that is newer than these bindings.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Debug for $code {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name} ({})", self.0),
                    None => write!(f, "{}({})", stringify!($code), self.0),
                }
            }
        }
    };
}

pub(crate) use {codes, table, zeroed};

//! The functions of `nccl.h`.

use core::ffi::{CStr, c_char, c_int, c_void};

use cuda_sys::CUstream;
use cuda_sys::nccl::{
    ncclComm_t, ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId,
};

use super::load::{MissingSymbol, Nccl};

macro_rules! table {
    ($($since:literal $name:ident ( $($arg:ident : $ty:ty),* $(,)? ) -> $ret:ty;)*) => {
        /// The table of function pointers: one for each exported name, `None` if the library lacks it.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "the library's names")]
        pub struct NcclFns {
            $(#[doc = concat!("`", stringify!($name), "`")]
            pub $name: Option<unsafe extern "C" fn($($arg: $ty),*) -> $ret>,)*
        }

        impl NcclFns {
            /// Every function with a slot: its name as a C string, and the version of NCCL that introduced it.
            pub const NAMES: &'static [(&'static CStr, c_int)] = &[$((
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    // Cannot happen: an identifier has no NUL, and `concat!` adds the only one, at the end. The compiler
                    // evaluates this constant, so a panic would fail the build and is in no program.
                    Err(_) => panic!("a name has no NUL"),
                },
                $since,
            )),*];

            /// Makes a table of the addresses that `resolve` returns; null is a missing function.
            ///
            /// # Safety
            /// Each address that is not null is a function with the C ABI that `nccl.h` declares for the name, callable
            /// from any thread for the rest of the process.
            pub(super) unsafe fn resolved(mut resolve: impl FnMut(&CStr) -> *const c_void) -> Self {
                let mut names = Self::NAMES.iter();
                let mut next = || names.next().map_or(core::ptr::null(), |(name, _)| resolve(name));
                Self {
                    $($name: {
                        type Function = Option<unsafe extern "C" fn($($ty),*) -> $ret>;
                        // SAFETY: an optional function pointer is an address or null, and the caller promises the ABI.
                        // The names are in the order of the fields.
                        unsafe { core::mem::transmute::<*const c_void, Function>(next()) }
                    },)*
                }
            }

            /// Returns how many functions the library has.
            fn bound(&self) -> usize {
                [$(self.$name.is_some()),*].into_iter().filter(|bound| *bound).count()
            }
        }

        impl core::fmt::Debug for NcclFns {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct("NcclFns")
                    .field("bound", &self.bound())
                    .field("of", &Self::NAMES.len())
                    .finish_non_exhaustive()
            }
        }

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the library's")]
        impl Nccl {
            $(
                #[doc = concat!("Calls `", stringify!($name), "`.")]
                ///
                /// # Errors
                /// [`MissingSymbol`] if the library lacks the function.
                ///
                /// # Safety
                /// The rules of the C function: pointers are valid for what it reads and writes, communicators and
                /// streams are alive, and no other thread uses the communicator.
                #[inline]
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<$ret, MissingSymbol> {
                    match self.fns().$name {
                        // SAFETY: the slot has this function's ABI; the caller keeps the function's rules.
                        Some(function) => Ok(unsafe { function($($arg),*) }),
                        None => Err(self.missing(stringify!($name), $since)),
                    }
                }
            )*
        }
    };
}

table! {
    20000 ncclGetVersion(version: *mut c_int) -> ncclResult_t;
    20000 ncclGetUniqueId(id: *mut ncclUniqueId) -> ncclResult_t;
    20000 ncclGetErrorString(result: ncclResult_t) -> *const c_char;
    21300 ncclGetLastError(comm: ncclComm_t) -> *const c_char;
    21400 ncclCommInitRankConfig(
        comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t
    ) -> ncclResult_t;
    21800 ncclCommSplit(
        comm: ncclComm_t, color: c_int, key: c_int, new: *mut ncclComm_t, config: *mut ncclConfig_t
    ) -> ncclResult_t;
    21400 ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;
    20000 ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;
    20400 ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;
    20400 ncclCommGetAsyncError(comm: ncclComm_t, error: *mut ncclResult_t) -> ncclResult_t;
    20000 ncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t;
    20000 ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t;
    20000 ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t;
    20000 ncclGroupStart() -> ncclResult_t;
    20000 ncclGroupEnd() -> ncclResult_t;
    20000 ncclAllReduce(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    20000 ncclReduce(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, root: c_int,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    20200 ncclBroadcast(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    20000 ncclAllGather(
        send: *const c_void, recv: *mut c_void, sendcount: usize, datatype: ncclDataType_t,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    20000 ncclReduceScatter(
        send: *const c_void, recv: *mut c_void, recvcount: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    20700 ncclSend(
        send: *const c_void, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    20700 ncclRecv(
        recv: *mut c_void, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    22800 ncclAlltoAll(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: ncclDataType_t,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    22800 ncclGather(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
    22800 ncclScatter(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: CUstream
    ) -> ncclResult_t;
}

//! The kernels: their arguments, and how they are loaded and launched.
//!
//! The structures are those of `device/blas_emu`.

use core::ffi::{CStr, c_int};
use std::collections::HashMap;
use std::ffi::CString;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

use cuda_sys::{CUfunction, CUlibrary, CUstream};
use flate2::bufread::GzDecoder;

use crate::call::{Error, Kind, Result};
use crate::cuda::Cuda;

/// A type in which a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Compute {
    F32,
    F64,
    C32,
    C64,
    I32,
}

impl Compute {
    pub(crate) fn is_complex(self) -> bool {
        matches!(self, Self::C32 | Self::C64)
    }
}

/// A text of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Module {
    Blas(Compute),
    Rand,
    Fft(Compute),
}

impl Module {
    fn packed(self) -> &'static [u8] {
        match self {
            Self::Blas(Compute::F32) => include_bytes!("../ptx/blas_f32.ptx.gz"),
            Self::Blas(Compute::F64) => include_bytes!("../ptx/blas_f64.ptx.gz"),
            Self::Blas(Compute::C32) => include_bytes!("../ptx/blas_c32.ptx.gz"),
            Self::Blas(Compute::C64) => include_bytes!("../ptx/blas_c64.ptx.gz"),
            Self::Rand => include_bytes!("../ptx/rand.ptx.gz"),
            Self::Fft(Compute::F64 | Compute::C64) => include_bytes!("../ptx/fft_f64.ptx.gz"),
            Self::Fft(_) => include_bytes!("../ptx/fft_f32.ptx.gz"),
            Self::Blas(Compute::I32) => include_bytes!("../ptx/blas_i32.ptx.gz"),
        }
    }
}

/// Which elements of a matrix are stored; 0 is all.
pub(crate) mod shape {
    pub(crate) const SYMMETRIC: i16 = 1;
    pub(crate) const HERMITIAN: i16 = 2;
    pub(crate) const TRIANGULAR: i16 = 3;
    pub(crate) const UNIT_TRIANGULAR: i16 = 4;
}

/// A matrix, or one for each of a batch.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Operand {
    /// The address of the first element, or with `arrays` of a list of such addresses.
    pub(crate) at: u64,
    /// The distances of neighbours in elements.
    pub(crate) row: i64,
    pub(crate) col: i64,
    /// The distance of matrices in elements; of a list, the offset in each.
    pub(crate) batch: i64,
    /// A `cudaDataType`.
    pub(crate) ty: c_int,
    pub(crate) conj: c_int,
    pub(crate) arrays: c_int,
    pub(crate) shape: i16,
    pub(crate) upper: i16,
}

impl Operand {
    /// Returns the transposed matrix.
    pub(crate) fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, upper: i16::from(self.upper == 0), ..self }
    }
}

/// A factor: a value, or if `at` is not 0 what lies there.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scalar {
    pub(crate) at: u64,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) row: i64,
    pub(crate) batch: i64,
    pub(crate) ty: c_int,
    pub(crate) conj: c_int,
}

impl Scalar {
    pub(crate) fn value(x: f64) -> Self {
        Self { x, ..Self::default() }
    }

    /// Returns whether it is known to be this real number.
    pub(crate) fn is(&self, x: f64) -> bool {
        self.at == 0 && self.x == x && self.y == 0.0
    }
}

/// What follows a product. Addresses of 0 are none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Epilogue {
    pub(crate) bias: u64,
    pub(crate) aux: u64,
    pub(crate) scale_a: u64,
    pub(crate) scale_b: u64,
    pub(crate) scale_c: u64,
    pub(crate) scale_d: u64,
    pub(crate) scale_aux: u64,
    pub(crate) amax_d: u64,
    pub(crate) bias_batch: i64,
    pub(crate) aux_ld: i64,
    pub(crate) aux_batch: i64,
    pub(crate) bias_type: c_int,
    pub(crate) bias_by_col: c_int,
    pub(crate) aux_type: c_int,
    pub(crate) act: c_int,
}

/// What is written of a result.
pub(crate) mod fill {
    pub(crate) const ALL: i32 = 0;
    pub(crate) const LOWER: i32 = 1;
    pub(crate) const UPPER: i32 = 2;
}

/// `d = act(alpha a b + beta c + bias)`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Product {
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) c: Operand,
    pub(crate) d: Operand,
    pub(crate) alpha: Scalar,
    pub(crate) beta: Scalar,
    pub(crate) m: i64,
    pub(crate) n: i64,
    pub(crate) k: i64,
    pub(crate) batches: i64,
    pub(crate) fill: c_int,
    /// Whether the diagonal of the result is real.
    pub(crate) real_diagonal: c_int,
    pub(crate) after: Epilogue,
}

/// A function of each element of up to three matrices.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Each {
    pub(crate) x: Operand,
    pub(crate) y: Operand,
    pub(crate) z: Operand,
    pub(crate) alpha: Scalar,
    pub(crate) beta: Scalar,
    pub(crate) m: i64,
    pub(crate) n: i64,
    pub(crate) batches: i64,
    pub(crate) op: c_int,
}

/// The functions of [`Each`].
pub(crate) mod each {
    pub(crate) const COPY: i32 = 0;
    pub(crate) const SWAP: i32 = 1;
    pub(crate) const SCALE: i32 = 2;
    pub(crate) const AXPY: i32 = 3;
    pub(crate) const ROTATE: i32 = 4;
    pub(crate) const MODIFIED_ROTATE: i32 = 5;
    pub(crate) const SUM_OF_TWO: i32 = 6;
    pub(crate) const TIMES_DIAGONAL: i32 = 7;
}

/// A number of one or two vectors.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fold {
    pub(crate) x: Operand,
    pub(crate) y: Operand,
    pub(crate) n: i64,
    pub(crate) to: u64,
    pub(crate) to_type: c_int,
    pub(crate) op: c_int,
}

/// The numbers of [`Fold`].
pub(crate) mod fold {
    pub(crate) const DOT: i32 = 0;
    pub(crate) const NORM: i32 = 1;
    pub(crate) const ABSOLUTE_SUM: i32 = 2;
    pub(crate) const GREATEST: i32 = 3;
    pub(crate) const LEAST: i32 = 4;
}

/// A solution of a triangular system, or a product with a triangular matrix.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Triangle {
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) x: Operand,
    pub(crate) alpha: Scalar,
    pub(crate) m: i64,
    pub(crate) n: i64,
    pub(crate) batches: i64,
    /// 0 solves, 1 multiplies.
    pub(crate) op: c_int,
}

const _: () = {
    assert!(size_of::<Operand>() == 48 && size_of::<Scalar>() == 48);
    assert!(size_of::<Epilogue>() == 104 && size_of::<Product>() == 432);
    assert!(size_of::<Each>() == 272 && size_of::<Fold>() == 120 && size_of::<Triangle>() == 224);
};

#[derive(Debug, Default)]
struct Loaded {
    libraries: HashMap<Module, CUlibrary>,
    kernels: HashMap<(Module, &'static CStr), CUfunction>,
}

// SAFETY: the handles are only names, which any thread may use.
unsafe impl Send for Loaded {}

/// The loaded kernels. A library belongs to no context, so they are those of all contexts, and stay until the process ends.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// Returns a kernel. Its module is loaded at the first use, which no capture notices.
pub(crate) fn kernel(cuda: Cuda, module: Module, name: &'static CStr) -> Result<CUfunction> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    if let Some(&known) = loaded.kernels.get(&(module, name)) {
        return Ok(known);
    }
    let _relaxed = cuda.relaxed()?;
    let library = match loaded.libraries.get(&module) {
        Some(&library) => library,
        None => {
            let mut text = Vec::new();
            let unpacked = GzDecoder::new(module.packed()).read_to_end(&mut text);
            let internal = |text: String| Error::new(Kind::Internal, text);
            unpacked.map_err(|error| internal(format!("packed PTX: {error}")))?;
            let text = CString::new(text).map_err(|error| internal(error.to_string()))?;
            let library = cuda.load(&text)?;
            loaded.libraries.insert(module, library);
            library
        }
    };
    let kernel = cuda.kernel(library, name)?;
    loaded.kernels.insert((module, name), kernel);
    Ok(kernel)
}

/// Unloads all kernels. None may be running.
pub(crate) fn unload(cuda: Cuda) -> Result {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    // All of them, whatever fails.
    loaded.libraries.into_values().map(|library| cuda.unload(library)).fold(Ok(()), Result::and)
}

/// The most blocks of a launch. Kernels loop over the rest.
const BLOCKS: i64 = 1 << 16;

/// Returns the number of blocks for so much work.
pub(crate) fn blocks(work: i64, of_block: i64) -> u32 {
    Ceil::div_ceil(work, of_block).clamp(1, BLOCKS) as u32
}

trait Ceil {
    fn div_ceil(self, by: Self) -> Self;
}

impl Ceil for i64 {
    fn div_ceil(self, by: Self) -> Self {
        self / by + Self::from(self % by > 0)
    }
}

/// Where kernels are launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) cuda: Cuda,
    pub(crate) stream: CUstream,
}

impl Queue {
    /// Writes to a workspace as the libraries do, which none of these kernels needs: so a program that shares or frees one
    /// too early is found on the software device, too.
    pub(crate) fn scratch(self, (at, bytes): (u64, usize)) -> Result {
        match bytes {
            0 => Ok(()),
            _ => self.cuda.clear(at, bytes.min(64), self.stream),
        }
    }

    pub(crate) fn launch<T: Copy>(
        self,
        module: Module,
        name: &'static CStr,
        shape: [u32; 2],
        arguments: &T,
    ) -> Result {
        self.cuda.launch(kernel(self.cuda, module, name)?, shape, self.stream, arguments)
    }

    pub(crate) fn product(self, compute: Compute, p: &Product) -> Result {
        let tiles = |size: i64| Ceil::div_ceil(size, 16);
        let all = tiles(p.m).saturating_mul(tiles(p.n)).saturating_mul(p.batches);
        if all == 0 {
            return Ok(());
        }
        self.launch(Module::Blas(compute), c"gemm", [blocks(all, 1), 256], p)
    }

    pub(crate) fn each(self, compute: Compute, p: &Each) -> Result {
        let all = p.m.saturating_mul(p.n).saturating_mul(p.batches);
        if all == 0 {
            return Ok(());
        }
        self.launch(Module::Blas(compute), c"each", [blocks(all, 256), 256], p)
    }

    pub(crate) fn fold(self, compute: Compute, p: &Fold) -> Result {
        self.launch(Module::Blas(compute), c"fold", [1, 256], p)
    }

    pub(crate) fn triangle(self, compute: Compute, p: &Triangle) -> Result {
        let all = p.n.saturating_mul(p.batches);
        if all == 0 || p.m == 0 {
            return Ok(());
        }
        self.launch(Module::Blas(compute), c"triangle", [blocks(all, 64), 64], p)
    }
}

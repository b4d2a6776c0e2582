//! Options of the driver's own compiler, and the buffers that its logs come back in.

use std::ffi::c_void;

use cuda_sys::CUjit_option;

/// The optimisation level of the driver's compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptimizationLevel {
    /// Not at all.
    O0,
    /// A little.
    O1,
    /// More.
    O2,
    /// As `O2`, and what takes longer.
    O3,
    /// Everything; what the driver does by itself.
    O4,
}

/// Options for loading PTX; they mean nothing for a cubin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JitOptions {
    /// The most registers that a thread may use.
    pub max_registers: Option<u32>,
    /// How hard the compiler tries.
    pub optimization: Option<OptimizationLevel>,
    /// Whether to make code for a debugger.
    pub debug: bool,
    /// Whether to keep line numbers.
    pub line_info: bool,
    /// Whether the log says what each kernel uses; see [`Module::jit_log`](crate::Module::jit_log).
    pub verbose: bool,
}

impl JitOptions {
    /// Returns the driver's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the registers of each thread.
    #[must_use]
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.max_registers = Some(registers);
        self
    }

    /// Sets the optimisation level.
    #[must_use]
    pub fn optimization(mut self, level: OptimizationLevel) -> Self {
        self.optimization = Some(level);
        self
    }

    /// Generates code for a debugger.
    #[must_use]
    pub fn debug(mut self, on: bool) -> Self {
        self.debug = on;
        self
    }

    /// Generates line numbers.
    #[must_use]
    pub fn line_info(mut self, on: bool) -> Self {
        self.line_info = on;
        self
    }

    /// Makes the log verbose.
    #[must_use]
    pub fn verbose(mut self, on: bool) -> Self {
        self.verbose = on;
        self
    }
}

/// How much of each log is kept.
const LOG_BYTES: usize = 16 << 10;

/// The options as the driver takes them: parallel arrays of keys and values, where a value is an
/// integer in a pointer's place or a pointer to a log buffer.
pub(super) struct Arguments {
    info: Vec<u8>,
    error: Vec<u8>,
    keys: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
}

impl Arguments {
    pub(super) fn new(options: &JitOptions) -> Self {
        let mut arguments = Self {
            info: vec![0; LOG_BYTES],
            error: vec![0; LOG_BYTES],
            keys: Vec::new(),
            values: Vec::new(),
        };
        let info = arguments.info.as_mut_ptr().cast();
        let error = arguments.error.as_mut_ptr().cast();
        arguments.pointer(CUjit_option::CU_JIT_INFO_LOG_BUFFER, info);
        // The size is one byte less than the buffer's: the last byte stays zero.
        arguments.number(CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, LOG_BYTES - 1);
        arguments.pointer(CUjit_option::CU_JIT_ERROR_LOG_BUFFER, error);
        arguments.number(CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, LOG_BYTES - 1);
        if let Some(registers) = options.max_registers {
            arguments.number(CUjit_option::CU_JIT_MAX_REGISTERS, registers as usize);
        }
        if let Some(level) = options.optimization {
            arguments.number(CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, level as usize);
        }
        for (on, key) in [
            (options.debug, CUjit_option::CU_JIT_GENERATE_DEBUG_INFO),
            (options.line_info, CUjit_option::CU_JIT_GENERATE_LINE_INFO),
            (options.verbose, CUjit_option::CU_JIT_LOG_VERBOSE),
        ] {
            if on {
                arguments.number(key, 1);
            }
        }
        arguments
    }

    fn number(&mut self, key: CUjit_option, value: usize) {
        self.pointer(key, std::ptr::without_provenance_mut(value));
    }

    fn pointer(&mut self, key: CUjit_option, value: *mut c_void) {
        self.keys.push(key);
        self.values.push(value);
    }

    /// Count, keys and values, for one call.
    pub(super) fn as_raw(&mut self) -> (u32, *mut CUjit_option, *mut *mut c_void) {
        let count = u32::try_from(self.keys.len()).unwrap_or(0);
        (count, self.keys.as_mut_ptr(), self.values.as_mut_ptr())
    }

    /// Returns the compiler's messages, errors first.
    pub(super) fn log(&self) -> String {
        let text = |buffer: &[u8]| {
            let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
            String::from_utf8_lossy(&buffer[..end]).trim().to_owned()
        };
        let (error, info) = (text(&self.error), text(&self.info));
        match (error.is_empty(), info.is_empty()) {
            (true, _) => info,
            (false, true) => error,
            (false, false) => format!("{error}\n{info}"),
        }
    }
}

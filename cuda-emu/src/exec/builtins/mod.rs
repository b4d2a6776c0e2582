//! Functions that the compiler expects the device to have: `vprintf`, `malloc`, `free`,
//! `__assertfail`, `cudaGraphSetConditional`.

pub(crate) mod heap;
mod printf;

use std::io::Write;

use super::control::call::element;
use super::decode::Spot;
use super::fault::Code;
use super::inst::{Flow, Inst, Lanes, lanes};
use super::machine::Machine;
use super::memory::GENERIC;
use super::memory::element::{Mem, U8};
use super::memory::resolve::Wanted;

/// A function of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    Vprintf = 0,
    Malloc = 1,
    Free = 2,
    AssertFail = 3,
    SetConditional = 4,
}

impl Builtin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vprintf => "vprintf",
            Self::Malloc => "malloc",
            Self::Free => "free",
            Self::AssertFail => "__assertfail",
            Self::SetConditional => "cudaGraphSetConditional",
        }
    }

    pub(crate) fn args(self) -> usize {
        match self {
            Self::Vprintf | Self::SetConditional => 2,
            Self::Malloc | Self::Free => 1,
            Self::AssertFail => 5,
        }
    }
}

const ALL: [Builtin; 5] = [
    Builtin::Vprintf,
    Builtin::Malloc,
    Builtin::Free,
    Builtin::AssertFail,
    Builtin::SetConditional,
];

/// Returns the function of a name.
pub(crate) fn by_name(name: &str) -> Option<Builtin> {
    ALL.into_iter().find(|builtin| builtin.name() == name)
}

/// Returns whether the device has a function of this name.
pub(crate) fn is_system_function(name: &str) -> bool {
    by_name(name).is_some()
}

/// Strings of the device are read up to this many bytes.
const LONGEST: usize = 1 << 20;

impl Machine<'_> {
    /// Returns an argument of the call, of one lane.
    fn arg(&self, spots: &[Spot], at: usize, lane: usize) -> u64 {
        let Some(spot) = spots.get(at) else { return 0 };
        // SAFETY: the spots lie in the current frame.
        let (from, bytes) = unsafe { element(self.regs, spot, lane) };
        let mut value = [0; 8];
        // SAFETY: an element has `bytes` bytes, and `value` has 8.
        unsafe { std::ptr::copy_nonoverlapping(from, value.as_mut_ptr(), bytes.min(8)) };
        u64::from_le_bytes(value)
    }

    /// Writes the call's result of one lane.
    fn answer(&mut self, spots: &[Spot], lane: usize, value: u64) {
        let Some(spot) = spots.first() else { return };
        // SAFETY: the spots lie in the current frame.
        let (to, bytes) = unsafe { element(self.regs, spot, lane) };
        // SAFETY: an element has `bytes` bytes, and `value` has 8.
        unsafe { std::ptr::copy_nonoverlapping(value.to_le_bytes().as_ptr(), to, bytes.min(8)) };
    }

    /// Reads `bytes` bytes of the generic space for a lane; `None` is a fault.
    fn read(&mut self, i: &Inst, lane: usize, address: u64, bytes: u64) -> Option<u64> {
        let want = Wanted { bytes, align: 1, write: false };
        match self.locate(i, GENERIC, lane, address, want) {
            Ok(host) => Some((0..bytes).fold(0, |all, at| {
                // SAFETY: the bytes were checked.
                all | unsafe { U8::load(host + at) } << (8 * at)
            })),
            Err((code, why)) => {
                self.fail_access(code, lane, address, GENERIC, want, &why);
                None
            }
        }
    }

    /// Reads a C string for a lane; `None` is a fault.
    fn read_string(&mut self, i: &Inst, lane: usize, address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < LONGEST {
            match self.read(i, lane, address.wrapping_add(text.len() as u64), 1)? {
                0 => break,
                byte => text.push(byte as u8),
            }
        }
        Some(text)
    }

    /// Returns where a thread is, as CUDA writes it.
    fn place(&self, lane: usize) -> ([u32; 3], [u32; 3]) {
        let tid = self.job.tids.get(self.warp.index as usize);
        let thread = [0, 1, 2].map(|at| tid.map_or(0, |tid| tid[at][lane & 31]));
        (self.block.index, thread)
    }

    fn assert_failed(&mut self, i: &Inst, spots: &[Spot], mask: u32) -> Option<()> {
        let mut message = String::new();
        for lane in lanes(mask) {
            let mut text = |at: usize| {
                let address = self.arg(spots, at, lane);
                let bytes = self.read_string(i, lane, address)?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            };
            let (what, file, function) = (text(0)?, text(1)?, text(3)?);
            let line = self.arg(spots, 2, lane) as u32;
            let ([bx, by, bz], [tx, ty, tz]) = self.place(lane);
            message = format!(
                "{file}:{line}: {function}: block: [{bx},{by},{bz}], thread: [{tx},{ty},{tz}] \
                 Assertion `{what}` failed."
            );
            // CUDA writes it to the standard error stream as well.
            let _ = writeln!(std::io::stderr().lock(), "{message}");
        }
        self.fail(Code::Assert, mask.trailing_zeros() as usize, message);
        None
    }
}

/// Calls the function whose number is imm: the call `e`.
pub(crate) struct Run;
impl Lanes for Run {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let code = m.code;
        let Some(call) = code.calls.get(i.e as usize) else { return Flow::Next };
        let Some(&builtin) = ALL.get(i.imm as usize) else { return Flow::Next };
        if builtin == Builtin::AssertFail {
            m.assert_failed(i, &call.args, mask);
            return Flow::Fault;
        }
        for lane in lanes(mask) {
            let first = m.arg(&call.args, 0, lane);
            let value = match builtin {
                Builtin::Vprintf => {
                    let second = m.arg(&call.args, 1, lane);
                    match m.printf(i, lane, first, second) {
                        Some(count) => count,
                        None => return Flow::Fault,
                    }
                }
                Builtin::Malloc => {
                    let start = m.job.env.heap.allocate(m.space, first);
                    if let (Some(start), Some(global)) = (start, &mut m.global) {
                        global.forget(start, first);
                    }
                    start.unwrap_or(0)
                }
                Builtin::SetConditional => {
                    let value = m.arg(&call.args, 1, lane) as u32;
                    if !(m.job.around.condition)(first, value) {
                        let text = format!("no condition {first:#x} in the graph of this launch");
                        return m.fail(Code::LaunchFailed, lane, text);
                    }
                    0
                }
                Builtin::Free if first == 0 || m.job.env.heap.free(m.space, first) => 0,
                _ => {
                    let text = format!("free of {first:#x}: {}", m.space.describe(first));
                    return m.fail(Code::LaunchFailed, lane, text);
                }
            };
            m.answer(&call.returns, lane, value);
        }
        Flow::Next
    }
}

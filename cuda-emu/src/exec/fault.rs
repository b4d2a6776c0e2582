//! Faults of the device: the driver's code, and a report for people.

use std::fmt;

use cuda_sys::CUresult;

use super::inst::Flow;
use super::machine::Machine;
use super::memory::resolve::Wanted;
use super::memory::{CLUSTER, GENERIC, GLOBAL, LOCAL, PARAM, SHARED, SHARED_WINDOW};
use crate::report::Report;

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Out of bounds, freed, read-only; shared and local memory too.
    IllegalAddress,
    Misaligned,
    IllegalInstruction,
    /// A call or branch to nowhere.
    InvalidPc,
    /// `trap`, stack overflow, threads that wait for ever.
    LaunchFailed,
    Assert,
    Timeout,
}

impl Code {
    pub(crate) fn result(self) -> CUresult {
        match self {
            Self::IllegalAddress => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            Self::Misaligned => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
            Self::IllegalInstruction => CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            Self::InvalidPc => CUresult::CUDA_ERROR_INVALID_PC,
            Self::LaunchFailed => CUresult::CUDA_ERROR_LAUNCH_FAILED,
            Self::Assert => CUresult::CUDA_ERROR_ASSERT,
            Self::Timeout => CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        }
    }
}

/// A launch that failed.
#[derive(Clone, thiserror::Error)]
#[error("{report}")]
#[non_exhaustive]
pub struct Fault {
    /// The code that the driver returns.
    pub code: CUresult,
    /// Where and why.
    pub report: Box<Report>,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Machine<'_> {
    /// Ends the launch, because of a lane at the current instruction.
    #[cold]
    pub(crate) fn fail(&mut self, code: Code, lane: usize, what: String) -> Flow {
        let report = Box::new(self.report(lane, what));
        self.fault = Some(Fault { code: code.result(), report });
        Flow::Fault
    }

    /// Returns the part of a report about a lane at the current instruction.
    #[cold]
    pub(crate) fn report(&self, lane: usize, what: String) -> Report {
        let program = self.job.program;
        let (ptx_line, loc) = self.code.lines.get(self.pc as usize).copied().unwrap_or_default();
        let entry = program.function_of(self.job.entry);
        let kernel = program.code(entry).name.clone();
        let here = self.warp.frame(self.frame).map_or(entry, |f| f.function);
        let tid = self.job.tids.get(self.warp.index as usize);
        let thread = |at: usize| tid.map_or(0, |tid| tid[at][lane & 31]);
        Report {
            function: (here != entry).then(|| program.code(here).name.clone()),
            kernel,
            block: self.block.index,
            thread: [thread(0), thread(1), thread(2)],
            address: None,
            what,
            ptx_line,
            source: loc.and_then(|loc| program.source(here, loc)),
        }
    }

    /// Returns the place in the source of an instruction of which only the line of the PTX is known: of this function, or
    /// of the others if they agree.
    #[cold]
    pub(crate) fn source_of_line(&self, ptx_line: u32) -> Option<(String, u32, u32)> {
        let program = self.job.program;
        let of = |function: u32| {
            let mut lines = program.code(function).lines.iter();
            let (_, loc) = lines.find(|(line, loc)| *line == ptx_line && loc.is_some())?;
            program.source(function, (*loc)?)
        };
        let entry = program.function_of(self.job.entry);
        let here = self.warp.frame(self.frame).map_or(entry, |frame| frame.function);
        of(here).or_else(|| {
            let mut found = (0..program.functions() as u32).filter_map(of);
            // Linked texts may have lines of the same number.
            let first = found.next()?;
            found.all(|other| other == first).then_some(first)
        })
    }

    /// Ends the launch because of an access of memory.
    #[cold]
    pub(crate) fn fail_access(
        &mut self,
        code: Code,
        lane: usize,
        address: u64,
        space: u8,
        want: Wanted,
        why: &str,
    ) -> Flow {
        let verb = if want.write { "write" } else { "read" };
        let memory = match space {
            GENERIC if address >> 48 == SHARED_WINDOW >> 48 => "shared",
            GENERIC | GLOBAL => "global",
            SHARED | CLUSTER => "shared",
            LOCAL => "local",
            PARAM => "parameter",
            _ => "device",
        };
        let kind = if code == Code::Misaligned { "misaligned" } else { "invalid" };
        let bytes = want.bytes;
        let what = format!("{kind} {memory} {verb} of {bytes} bytes at {address:#x}: {why}");
        let flow = self.fail(code, lane, what);
        if let Some(fault) = &mut self.fault {
            fault.report.address = Some(address);
        }
        flow
    }
}

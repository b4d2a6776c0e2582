//! Scratch memory, which lives as long as an adjoint's launch, and the repetition of adjoints that had too little.

use cuda_safe::{Error, LaunchConfig, Result};

use super::adjoint::{log_adds, partials_bytes};
use super::log::SUM;
use super::plan::Action;
use super::run::{Pass, cover, part};
use crate::frame::{
    FINE, Frame, LOG_OVERFLOW, NEVER_RAN, OTHER_ABI, SCRATCH_OVERFLOW, Status, TAPE_OVERFLOW,
};
use crate::record::Kind;
use crate::spec::Op;
use crate::store::Work;

/// `geom::tape::ScratchHeader`.
const HEADER: usize = 32;
const _: () = assert!(HEADER as u64 == ptx_ad::abi::SCRATCH_HEADER);

/// Returns the size of the part before the threads' memory: a mark for each thread.
fn marks(shape: &LaunchConfig) -> Result<usize> {
    usize::try_from(shape.threads())
        .ok()
        .and_then(|threads| threads.checked_add(HEADER + 15))
        .map(|bytes| bytes / 16 * 16)
        .ok_or_else(|| Error::invalid("an adjoint has more threads than there are addresses"))
}

impl Pass<'_> {
    /// Returns the scratch memory for a launch: of the guessed size, or of the size that was needed before.
    pub(super) fn prepare_scratch(
        &mut self,
        op: &Op,
        launch: &LaunchConfig,
        shape: &LaunchConfig,
        resume: bool,
        frame: &mut Frame,
    ) -> Result<()> {
        let start = marks(shape)?;
        let work = self.store.work(Work::Scratch, self.scratch_size(op, launch, shape)?)?;
        (frame.scratch, frame.scratch_bytes) = (work.device_ptr(), work.size_bytes() as u64);
        if !resume {
            self.clear(Work::Scratch, start)?;
        }
        Ok(())
    }

    /// Returns the bytes of scratch memory that a launch gets first.
    fn scratch_size(&self, op: &Op, launch: &LaunchConfig, shape: &LaunchConfig) -> Result<usize> {
        let guess = op.inner.settings.scratch.map_or(0, |scratch| scratch.guess(launch));
        Ok(marks(shape)?.saturating_add(self.scratch_bytes.unwrap_or(guess)))
    }

    /// Makes working memory large enough for all steps. An adjoint with too little scratch memory runs again after
    /// the later ones were enqueued, which must not have replaced its memory.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let mut most = [0usize; 4];
        let mut needs = |which: Work, bytes: usize| {
            if let Some(most) = most.get_mut(which as usize) {
                *most = bytes.max(*most);
            }
        };
        for action in &self.plan.actions {
            let (Action::Adjoint { step, .. } | Action::Custom { step, .. }) = action else {
                continue;
            };
            let known = self.recording.steps.get(*step as usize).map(|step| &step.kind);
            let adds = match known {
                Some(Kind::Launch { op, launch, .. }) => {
                    let shape = op.shape(launch);
                    if op.inner.settings.scratch.is_some() {
                        needs(Work::Scratch, self.scratch_size(op, launch, &shape)?);
                    }
                    needs(Work::Partials, partials_bytes(op));
                    log_adds(op, launch, &shape)
                }
                Some(Kind::Custom(_, Some(op))) => op.summands().unwrap_or(0),
                _ => 0,
            };
            if self.recording.deterministic
                && let Some((log, places)) = self.log_size(adds)?
            {
                needs(Work::Log, log);
                needs(Work::Sums, places * SUM);
            }
        }
        for (which, bytes) in
            [Work::Scratch, Work::Partials, Work::Log, Work::Sums].into_iter().zip(most)
        {
            if bytes > 0 {
                self.store.work(which, bytes)?;
            }
        }
        Ok(())
    }

    /// Zeros the first bytes of working memory, unless the status is raised.
    pub(super) fn clear(&mut self, which: Work, bytes: usize) -> Result<()> {
        let Some(work) = self.store.known_work(which) else { return Ok(()) };
        let (to, words) = (part(work, 0, bytes), bytes / 4);
        // SAFETY: the memory has at least that many words.
        unsafe { self.kernels.zero(self.stream, cover(words), to, words as u64, self.status()?) }
    }

    /// Enqueues, after an adjoint that may have raised the status, a kernel that notes which adjoint it was.
    pub(super) fn note(&mut self, action: usize) -> Result<()> {
        let step = u32::try_from(action).unwrap_or(u32::MAX).saturating_add(1);
        // SAFETY: one thread writes the status.
        unsafe { self.kernels.note(self.stream, (1, 1), self.status()?, step) }
    }

    /// Waits, and repeats the adjoints that had too little memory, until all are done.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.settle_until(self.plan.actions.len())
    }

    /// Like [`settle`](Self::settle), for the actions before a step.
    pub(super) fn settle_before(&mut self, step: u32) -> Result<()> {
        let custom =
            |action: &Action| matches!(action, Action::Custom { step: of, .. } if *of == step);
        match self.plan.actions.iter().position(custom) {
            Some(end) => self.settle_until(end),
            None => Ok(()),
        }
    }

    fn settle_until(&mut self, end: usize) -> Result<()> {
        // `asked` is the memory that the threads of one launch have asked for, over all its runs.
        let (mut last, mut asked, mut most) = (None, 0usize, 0usize);
        loop {
            let status = self.store.take_status(self.stream)?;
            if status.code == FINE {
                // The next pass then has enough memory at once.
                return self.store.work(Work::Scratch, most).map(drop);
            }
            let Some(action) = overflowed(status) else {
                self.recording.heard(status);
                return Err(failed(status));
            };
            if last.replace(action) != Some(action) {
                asked = 0;
            }
            asked = asked.saturating_add(self.asked()?);
            self.grow(action, status)?;
            // The remaining threads ask for no more than the current size, or the loop repeats.
            let now = self.store.known_work(Work::Scratch).map_or(0, |work| work.size_bytes());
            most = most.max(asked.saturating_add(now));
            self.act(action, true)?;
            for next in action + 1..end {
                self.act(next, false)?;
            }
        }
    }

    /// Returns how much scratch memory the last launch asked for. Waits.
    fn asked(&self) -> Result<usize> {
        let Some(work) = self.store.known_work(Work::Scratch) else { return Ok(0) };
        let mut used = [0u8; 8];
        work.slice(..used.len())?.download(self.stream, &mut used)?;
        Ok(usize::try_from(u64::from_ne_bytes(used)).unwrap_or(usize::MAX))
    }

    /// Enlarges scratch memory; the marks of threads that have finished are kept.
    fn grow(&mut self, action: usize, status: Status) -> Result<()> {
        let Some(Action::Adjoint { step, .. }) = self.plan.actions.get(action) else {
            return Err(failed(status));
        };
        let known = self.recording.steps.get(*step as usize).map(|step| &step.kind);
        let Some(Kind::Launch { op, launch, .. }) = known else { return Err(failed(status)) };
        let start = marks(&op.shape(launch))?;
        let old = self.store.work_mut(Work::Scratch).and_then(Option::take);
        let Some(old) = old else { return Err(failed(status)) };
        // The size is at least doubled: later threads have not even reported their need.
        let need =
            (status.need as usize).saturating_mul(1024).max(old.size_bytes().saturating_mul(2));
        let new = self.store.work(Work::Scratch, need);
        let copied = new.map(drop).and_then(|()| {
            let new = self.store.work_mut(Work::Scratch).and_then(Option::as_mut);
            let Some(new) = new else { return Ok(()) };
            // Clears the header: threads get their memory again, in the new buffer.
            new.slice_mut(..HEADER)?.fill(self.stream, 0)?;
            new.slice_mut(HEADER..start)?.copy_from(self.stream, old.slice(HEADER..start)?)
        });
        self.store.retire(old);
        copied
    }
}

/// Returns the action that had too little scratch memory, if the status reports one.
fn overflowed(status: Status) -> Option<usize> {
    let action = (status.step as usize).checked_sub(1);
    action.filter(|_| status.code == SCRATCH_OVERFLOW)
}

/// Returns the error for a status that can't be resolved.
pub(crate) fn failed(status: Status) -> Error {
    let need = u64::from(status.need) * 1024;
    match status.code {
        SCRATCH_OVERFLOW => Error::invalid(format!(
            "an adjoint needs {need} bytes of scratch memory, more than the captured pass has"
        ))
        .with_hint("run the pass once before it is captured, or set `Tape::set_scratch_bytes`"),
        LOG_OVERFLOW => Error::invalid(format!(
            "an adjoint has added more often than its `OpSpec::summands` says: {need} bytes of log are needed"
        ))
        .with_hint("`Tape::set_summand_bytes` makes room"),
        TAPE_OVERFLOW => Error::invalid(format!(
            "a primal needs {need} bytes of tape memory, more than its `OpSpec::primal` says"
        )),
        NEVER_RAN => Error::invalid(
            "a pass went back through a recording in a graph that had not been launched, or through one in \
             a conditional body that had not run: it has computed nothing",
        )
        .with_hint("launch the graph of the recording before that of the pass"),
        OTHER_ABI => Error::invalid(
            "an adjoint was compiled with another version of geom/tape.cuh than the tape's",
        ),
        code => Error::invalid(format!("an adjoint has raised the status {code} ({need} bytes)")),
    }
}

//! Barriers, and exchanges between the threads of a warp.

use ptx::ir::{Instr, Op, Operand};

use super::Check;
use crate::analysis::{Barriers, Origin, is_block_barrier, is_global, is_reduction, uses_shared};
use crate::emit::stores_once;
use crate::prepare::BARRIER_WAY_OUT;
use crate::refusal::Reason;

impl Check<'_> {
    /// Returns how the adjoint keeps the kernel's barriers. Refuses those that it can't keep. Without an exchange they
    /// order nothing, and are left out.
    pub(super) fn barriers(&mut self) -> Barriers {
        let is_barrier = |instr: &&Instr| matches!(instr.op, Op::Bar { .. } | Op::BarWarp { .. });
        let all: Vec<Instr> =
            self.body.instrs().map(|(_, instr)| instr).filter(is_barrier).cloned().collect();
        let kept = !all.is_empty()
            && (uses_shared(self.body, self.analysis)
                || all.iter().any(is_reduction)
                || self.exchange_by_memory());
        let (barriers, partial) = Barriers::new(self.body, self.analysis, kept);
        for instr in all.iter().filter(|instr| kept && is_block_barrier(instr)) {
            let Op::Bar { barrier, threads, .. } = &instr.op else { continue };
            if *barrier != Operand::Imm(0) || threads.is_some() {
                let text = format!(
                    "a barrier of some threads of the block can't be differentiated: use `__syncthreads`, or else\
                     {BARRIER_WAY_OUT}"
                );
                self.refuse(Reason::Barrier, text, instr);
            } else if is_reduction(instr) && !barriers.together {
                let text = "threads may leave the kernel before this barrier with a result: let all threads of the \
                            block reach it";
                self.refuse(Reason::Barrier, text, instr);
            }
        }
        self.partial_warps(kept, &partial);
        if !kept && !all.is_empty() {
            self.all_apart();
        }
        barriers
    }

    /// Returns whether threads may exchange values by memory of the device.
    fn exchange_by_memory(&self) -> bool {
        let count = self.analysis.pointers.iter().count();
        let used = |at: usize| self.analysis.effects.get(at).copied().unwrap_or_default();
        // Stores of several threads to one element exchange, too: the last store gets the gradient.
        let again = |at: usize| used(at).stored && !stores_once(self.body, self.analysis, at);
        let exchanges = |at: usize| {
            let writes = used(at).stored || used(at).added;
            self.analysis.thread_owned.get(at).is_none() && (used(at).loaded && writes || again(at))
        };
        let known = |(_, instr): (usize, &Instr)| match self.origin(instr) {
            Some(Origin::Unknown | Origin::Number) => false,
            Some(Origin::Variable(space)) => !is_global(space),
            _ => true,
        };
        (0..count).any(exchanges) || !self.body.instrs().all(known)
    }

    /// Refuses exchanges that some threads of a warp may miss: they are missing in the adjoint, too, where they do not
    /// leave as early.
    fn partial_warps(&mut self, kept: bool, blocks: &[usize]) {
        let body = self.body;
        for block in blocks.iter().filter_map(|at| body.blocks.get(*at)) {
            let exchange = block.code.iter().find(|instr| {
                self.analysis.activity.exchanges(instr)
                    || kept
                        && matches!(
                            instr.op,
                            Op::BarWarp { .. }
                                | Op::Shfl { .. }
                                | Op::Vote { .. }
                                | Op::Match { .. }
                        )
            });
            let text = "some threads of a warp may not come to this exchange: let whole warps reach it, as `if (warp < \
                        n)` does for `warp = threadIdx.x / 32`, and give threads without data a neutral value";
            if let Some(instr) = exchange {
                self.refuse(Reason::Warp, text, instr);
            }
        }
    }

    /// Pointers to the same memory would exchange values at barriers that are left out, so each pair must be apart.
    fn all_apart(&mut self) {
        let count = self.analysis.pointers.iter().count();
        let used = |at: usize| self.analysis.effects.get(at).copied().unwrap_or_default();
        let writes = |at: usize| used(at).stored || used(at).added;
        for at in (0..count).filter(|at| used(*at).loaded || used(*at).stored) {
            let others = (0..count).filter(|other| *other != at && writes(*other));
            let pairs = others.map(|other| (at, other)).filter(|pair| !self.apart.contains(pair));
            let pairs: Vec<_> = pairs.collect();
            self.apart.extend(pairs);
        }
    }
}

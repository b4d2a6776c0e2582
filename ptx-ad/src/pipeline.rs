//! The steps from a kernel to its adjoint.

use ptx::ir::{Function, FunctionId, Instr, Module, Op};

use crate::analysis::Analysis;
use crate::body::Body;
use crate::legal::{self, Checked};
use crate::reads::{self, Touched};
use crate::refusal::{Reason, Refusal};
use crate::replay::{self, Replay};
use crate::spec::{Access, Spec};
use crate::{Adjoint, Deterministic, Kept};
use crate::{bytes, chosen, doubles, emit, f16, globals, integral, prepare, slots, text};

/// Returns the adjoint of a kernel, or why it has none. `again`: the kernel is an adjoint.
pub(crate) fn adjoint(module: &Module, spec: &Spec, again: bool) -> Result<Adjoint, Vec<Refusal>> {
    let mut pipeline = Pipeline::new(module, spec, again)?;
    pipeline.widen_doubles();
    pipeline.replay_atomics()?;
    pipeline.check()?;
    pipeline.write()
}

/// A kernel on its way to an adjoint. Each step that rewrites `body` says what it invalidates.
struct Pipeline<'a> {
    module: &'a Module,
    spec: &'a Spec,
    body: Body,
    /// What is known of `body`, and the effects of the source kernel.
    analysis: Analysis,
    /// Replaced atomic operations; empty before [`replay_atomics`](Self::replay_atomics).
    replay: Replay,
    /// Results of [`check`](Self::check); empty before.
    checked: Checked,
    /// Whether the kernel is an adjoint. Its active inputs need no path to an output: their second derivatives are zero.
    again: bool,
}

impl<'a> Pipeline<'a> {
    /// Prepares the body by the rewrites that need no analysis, and analyses it.
    fn new(module: &'a Module, spec: &'a Spec, again: bool) -> Result<Self, Vec<Refusal>> {
        let mut body = prepare::prepare(module, spec, again)?;
        bytes::join(&mut body, spec);
        slots::split(&mut body, spec);
        chosen::split(&mut body, spec);
        integral::mark(&mut body);
        f16::widen(&mut body, spec);
        let analysis = Analysis::new(&body, spec);
        let (replay, checked) = (Replay::default(), Checked::default());
        Ok(Self { module, spec, body, analysis, replay, checked, again })
    }

    /// Moves doubles as 64 bits. Invalidates the analysis, but for the effects: registers change.
    fn widen_doubles(&mut self) {
        if doubles::widen(&mut self.body, &self.analysis.kinds) {
            self.analysis.update(&self.body, self.spec);
        }
    }

    /// Replaces results of atomic operations by loads from replay buffers. Invalidates the analysis, but for the
    /// effects: the kernel still stores to the buffers.
    fn replay_atomics(&mut self) -> Result<(), Vec<Refusal>> {
        self.replay = replay::replace(self.module, self.spec, &mut self.body, &self.analysis)?;
        if self.replay.is_used() {
            self.analysis.update(&self.body, self.spec);
        }
        Ok(())
    }

    /// Checks that the adjoint would be right. Changes nothing that was known.
    fn check(&mut self) -> Result<(), Vec<Refusal>> {
        let (module, body, analysis) = (self.module, &self.body, &self.analysis);
        let (mut refusals, apart) = replay::check(module, body, analysis, &self.replay);
        self.checked = legal::check(module, self.spec, body, analysis, self.again);
        refusals.extend(std::mem::take(&mut self.checked.refusals));
        self.checked.apart.extend(apart);
        if refusals.is_empty() { Ok(()) } else { Err(refusals) }
    }

    /// Writes the adjoint, and that for deterministic tapes.
    fn write(mut self) -> Result<Adjoint, Vec<Refusal>> {
        let name = format!("{}_adjoint", self.spec.kernel);
        let emit::Written { function, apart, kept, scratch, .. } = self.emit(&name, None);
        self.checked.apart.extend(apart);
        let function = emit::hoist_loads(emit::shorten(self.module, function));
        let globals = globals::check(self.module, &self.body, &function)?;
        let mut touched = self.touched(&function)?;
        let shares = adds(&function);
        let deterministic =
            if shares && !self.analysis.takes_sums() { self.deterministic(&name)? } else { None };
        let (deterministic, also) = deterministic.unzip();
        also.iter().for_each(|also| touched.also(also));
        Ok(Adjoint {
            text: text::module(self.module, &globals, None, function),
            name,
            accesses: self.accesses(&touched),
            dimensions: self.body.dimensions(),
            shares,
            deterministic,
            threads: (1 << 31) / u64::from(self.analysis.thread_owned.widest.max(1)),
            kept: kept.into_iter().map(|(region, words)| self.kept(region, words)).collect(),
            scratch,
            apart: self.checked.apart,
        })
    }

    /// Writes the adjoint that adds by a log; `None` if there is none.
    fn deterministic(&self, name: &str) -> Result<Option<(Deterministic, Touched)>, Vec<Refusal>> {
        let Some((module, log)) = emit::with_log(self.module, &self.spec.kernel) else {
            return Ok(None);
        };
        let emit::Written { function, added, .. } = self.emit(name, Some(log));
        let function = emit::shorten(&module, function);
        // What threads add in shared memory has no fixed order.
        if adds(&function) {
            return Ok(None);
        }
        let Ok(globals) = globals::check(&module, &self.body, &function) else { return Ok(None) };
        let touched = self.touched(&function)?;
        let text = text::module(&module, &globals, Some(log), function);
        Ok(Some((Deterministic { text, added }, touched)))
    }

    fn emit(&self, name: &str, log: Option<FunctionId>) -> emit::Written {
        emit::adjoint(&self.body, &self.analysis, &self.checked, name, log)
    }

    /// Returns the memory that an adjoint accesses, if that is no other than the kernel's.
    fn touched(&self, adjoint: &Function) -> Result<Touched, Vec<Refusal>> {
        let anywhere = self.analysis.loads_anywhere(&self.body);
        let effects = self.analysis.effects.iter().enumerate();
        let may = Touched {
            loaded: effects
                .map(|(at, known)| anywhere || known.loaded || self.is_replayed(at))
                .collect(),
            stored: self.checked.private.clone(),
        };
        let params = self.body.params().count();
        reads::touched(adjoint, params, &self.analysis, &may).map_err(|refusal| vec![refusal])
    }

    fn is_replayed(&self, pointer: usize) -> bool {
        self.replay.buffers.get(pointer) == Some(&true)
    }

    /// Returns what the kernel and its adjoint do with the memory behind each pointer.
    fn accesses(&self, touched: &Touched) -> Vec<Access> {
        let (body, analysis) = (&self.body, &self.analysis);
        let access = |(index, pointer): (usize, &crate::analysis::PointerInfo)| Access {
            param: pointer.param,
            offset: pointer.spec.offset,
            effect: analysis.effects.get(index).copied().unwrap_or_default().effect(),
            loaded: touched.loaded.get(index).copied().unwrap_or(true),
            private: touched.stored.get(index).copied().unwrap_or(false),
            own: analysis.thread_owned.get(index).is_some(),
            covers: emit::covers(analysis, index),
            drops: emit::drops(body, analysis, index),
            constant: !analysis.stores_varied(body, index),
            replayed: self.is_replayed(index),
        };
        analysis.pointers.iter().enumerate().map(access).collect()
    }

    /// Returns the place of a loop, with what it keeps.
    fn kept(&self, region: usize, words: u32) -> Kept {
        let body = &self.body;
        let blocks = body.range(region).filter_map(|at| body.blocks.get(at));
        let instr = blocks.flat_map(|block| &block.code).find(|instr| instr.loc.is_some());
        let refusal = |instr| Refusal::new(Reason::Loop, "").at(self.module, &body.function, instr);
        let place = instr.and_then(|instr| refusal(instr).user);
        Kept { place, words, depth: u32::try_from(body.depth(region)).unwrap_or(u32::MAX) }
    }
}

/// Returns whether threads add to numbers by atomics.
fn adds(function: &Function) -> bool {
    let is_sum = |instr: &Instr| matches!(instr.op, Op::Atom { ty, .. } if ty.is_float());
    function.instrs().iter().any(is_sum)
}

//! Loads after stores: the adjoint repeats loads, and needs the values that the kernel has loaded.

use ptx::ir::{Instr, LdKind, Op, Space};

use super::Check;
use crate::analysis::{Access, Origin, Slot, is_global};
use crate::refusal::Reason;

impl Check<'_> {
    /// Refuses loads of memory that the kernel may have stored to before.
    pub(super) fn order(&mut self) {
        let pointers = self.analysis.pointers.iter().count();
        // Unknown memory has no copy from before the launch: a repeated load would see the stores.
        let unknown = |this: &Self, instr: &Instr| {
            !matches!(instr.op, Op::Ld { .. })
                && Access::of(instr).is_some_and(|access| is_global(access.space))
                && this
                    .origin(instr)
                    .is_some_and(|origin| matches!(origin, Origin::Unknown | Origin::Number))
        };
        let any_unknown = self.body.instrs().any(|(_, instr)| unknown(self, instr));
        let any_variable = self.body.instrs().any(|(_, instr)| {
            !matches!(instr.op, Op::Ld { .. })
                && self.origin(instr) == Some(Origin::Variable(Space::Global))
        });
        let before = self.written_before(any_unknown);
        for (index, block) in self.body.blocks.iter().enumerate() {
            let mut written = before.get(index).cloned().unwrap_or_default();
            for instr in &block.code {
                let known = |at: usize| written.get(at).copied().unwrap_or(false);
                let several = Access::of(instr).map_or(Origin::Number, |access| {
                    self.analysis.forms.address(self.body, access.address).origin
                });
                if let Origin::Choice(_) = several {
                    // The two parameters would have separate copies.
                    if any_unknown || written.contains(&true) {
                        let all = self.analysis.forms.pointers(several);
                        let late: Vec<(usize, usize)> = all
                            .iter()
                            .flat_map(|&at| {
                                (0..pointers)
                                    .filter(move |&other| other != at)
                                    .map(move |other| (at, other))
                            })
                            .filter(|&(_, other)| known(other))
                            .filter(|pair| !self.apart.contains(pair))
                            .collect();
                        let again = all.iter().any(|&at| known(at));
                        self.apart.extend(late);
                        if again || any_unknown || known(pointers) {
                            let text = "memory is loaded that the kernel may have stored to before, by an address that is one \
                                        of more than four: keep what was stored in a local variable, and choose \
                                        between values";
                            self.refuse(Reason::LoadAfterStore, text, instr);
                        }
                    }
                    continue;
                }
                let Some(at) = self.written_place(instr, any_unknown) else { continue };
                let Op::Ld { kind, .. } = instr.op else {
                    mark(&mut written, at);
                    continue;
                };
                if kind == LdKind::NonCoherent {
                    // The compiler guarantees that nobody writes there.
                    continue;
                }
                let known = |at: usize| written.get(at).copied().unwrap_or(false);
                let unknown = at == pointers && (any_variable || written.contains(&true));
                let late = (0..pointers).filter(|&other| other != at && known(other));
                let late = late.map(|other| (at, other)).filter(|_| at < pointers);
                let late: Vec<_> = late.filter(|pair| !self.apart.contains(pair)).collect();
                self.apart.extend(late);
                let again = known(at) && at < pointers;
                if any_unknown || unknown || again && self.has_atomics(at) {
                    let text = "memory is loaded that the kernel may have stored to before: keep what was stored in a local \
                                variable";
                    self.refuse(Reason::LoadAfterStore, text, instr);
                } else if again && self.loses(at, instr) {
                    let text = "memory without a gradient is loaded after numbers that depend on active inputs \
                                were stored to it";
                    self.refuse(Reason::LoadAfterStore, text, instr);
                } else if again {
                    mark(&mut self.private, at);
                }
            }
        }
    }

    /// Returns the index of the accessed memory in lists of pointers; the last index is unknown memory. `None` for
    /// memory that only the thread itself writes.
    fn written_place(&self, instr: &Instr, any_unknown: bool) -> Option<usize> {
        let access = Access::of(instr).filter(|access| is_global(access.space))?;
        match self.analysis.forms.address(self.body, access.address).origin {
            Origin::Pointer(pointer) => Some(pointer),
            // Constant memory can't be written, by whatever address it is read.
            Origin::Param(_) | Origin::Variable(Space::Const) => None,
            Origin::Local(_) | Origin::Variable(Space::Shared) if !any_unknown => None,
            _ => Some(self.analysis.pointers.iter().count()),
        }
    }

    /// Returns for each block the pointers that may have been stored through before it.
    fn written_before(&self, any_unknown: bool) -> Vec<Vec<bool>> {
        let none = vec![false; self.analysis.pointers.iter().count() + 1];
        let mut before = vec![none; self.body.blocks.len()];
        loop {
            let mut changed = false;
            for (index, block) in self.body.blocks.iter().enumerate() {
                let mut written = before.get(index).cloned().unwrap_or_default();
                for instr in &block.code {
                    if !matches!(instr.op, Op::Ld { .. })
                        && let Some(at) = self.written_place(instr, any_unknown)
                    {
                        mark(&mut written, at);
                    }
                }
                for to in block.end.targets() {
                    for (place, was) in before.get_mut(to).into_iter().flatten().zip(&written) {
                        changed |= *was && !*place;
                        *place |= was;
                    }
                }
            }
            if !changed {
                return before;
            }
        }
    }

    /// Returns whether a load after a store through a pointer without a gradient may lose the gradient of the stored
    /// value.
    fn loses(&self, pointer: usize, load: &Instr) -> bool {
        let (kinds, activity) = (&self.analysis.kinds, &self.analysis.activity);
        if self.analysis.pointers.get(pointer).is_none_or(|known| known.slot.is_some()) {
            return false;
        }
        let any = |instr: &Instr, is: &dyn Fn(Slot) -> bool| {
            Access::of(instr).is_some_and(|access| {
                let slots = access.registers().flat_map(|reg| [Slot::low(reg), Slot::high(reg)]);
                slots.into_iter().any(|slot| kinds.get(slot).is_some() && is(slot))
            })
        };
        any(load, &|slot| activity.is_useful(slot))
            && self.body.instrs().any(|(_, instr)| {
                matches!(instr.op, Op::St { .. })
                    && self.origin(instr) == Some(Origin::Pointer(pointer))
                    && any(instr, &|slot| activity.is_varied(slot))
            })
    }

    /// Returns whether the kernel adds through a pointer: its loads then depend on other threads.
    fn has_atomics(&self, pointer: usize) -> bool {
        self.body.instrs().any(|(_, instr)| {
            matches!(instr.op, Op::Atom { .. })
                && self.origin(instr) == Some(Origin::Pointer(pointer))
        })
    }
}

fn mark(list: &mut [bool], at: usize) {
    if let Some(place) = list.get_mut(at) {
        *place = true;
    }
}

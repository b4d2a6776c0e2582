//! Kernels whose adjoint would be wrong, by reason.

mod barriers;
mod order;
mod shared;

use ptx::ir::{AtomOp, Instr, Module, Op, Order, RegId, Space};

use crate::analysis::{
    Access, Analysis, Barriers, Form, Kind, Lost, Origin, Slot, is_global, is_part_of_number, real,
    real_in_memory,
};
use crate::body::Body;
use crate::refusal::{Reason, Refusal, Refusals};
use crate::spec::{Real, Reals, Spec};

const PART_STORED: &str = "a part of a number's bits is stored: store whole numbers; a `memcpy` within one array, or \
    of a size that is no multiple of the numbers', write as assignments";

/// Returns why an adjoint can't repeat an atomic operation whose result is used, and what to do. A replay buffer takes
/// no results that depend on active inputs.
fn atomic_result(instr: &Instr, varied: bool) -> &'static str {
    match &instr.op {
        Op::Atom { op: AtomOp::Cas | AtomOp::Exch, .. } if varied => {
            "the result of `atomicCAS` or `atomicExch` on numbers that depend on active inputs is used, so an \
             adjoint can't repeat it: add numbers with `atomicAdd`, without using its result"
        }
        _ if varied => {
            "the result of an atomic operation on numbers that depend on active inputs is used, so an adjoint can't \
             repeat it: don't use the result; read sums in a second kernel"
        }
        Op::Atom { op: AtomOp::Cas | AtomOp::Exch, .. } => {
            "the result of `atomicCAS` or `atomicExch` is used, so an adjoint can't repeat it: add numbers with `atomicAdd`, \
             whose adjoint is known; an integer, such as an index, the kernel may store in a buffer that is declared as \
             `replay`"
        }
        _ => {
            "the result of an atomic operation is used, so an adjoint can't repeat it: let the kernel store it in a buffer \
             that is declared as `replay`"
        }
    }
}

/// The results of the check.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// All reasons why it can't be differentiated.
    pub(crate) refusals: Vec<Refusal>,
    /// Pairs of pointers that must not lead to the same memory: the kernel loads through the first after it may have
    /// stored through the second.
    pub(crate) apart: Vec<(usize, usize)>,
    /// Whether the adjoint needs a private copy of the memory behind each pointer: the kernel may load there what it
    /// has stored.
    pub(crate) private: Vec<bool>,
    pub(crate) barriers: Barriers,
}

/// Checks whether the adjoint of a kernel would be right. `again`: the kernel is an adjoint.
pub(crate) fn check(
    module: &Module,
    spec: &Spec,
    body: &Body,
    analysis: &Analysis,
    again: bool,
) -> Checked {
    let private = vec![false; analysis.pointers.iter().count()];
    let mut check =
        Check { module, body, analysis, found: Refusals::default(), apart: Vec::new(), private };
    check.lost();
    check.mixed();
    check.accesses();
    check.results_of_calls();
    check.order();
    let barriers = check.barriers();
    check.shared_size();
    check.atomics();
    if check.found.is_empty() && !again {
        check.paths(spec);
    }
    let Check { found, apart, private, .. } = check;
    Checked { refusals: found.into_list(), apart, private, barriers }
}

struct Check<'a> {
    module: &'a Module,
    body: &'a Body,
    analysis: &'a Analysis,
    found: Refusals,
    apart: Vec<(usize, usize)>,
    private: Vec<bool>,
}

impl Check<'_> {
    fn refuse(&mut self, reason: Reason, text: impl Into<String>, instr: &Instr) {
        self.found.push(Refusal::new(reason, text).at(self.module, &self.body.function, instr));
    }

    /// Refuses numbers with a lost derivative.
    fn lost(&mut self) {
        for Lost { block, instr, reason } in self.analysis.activity.losses() {
            let place = self.body.blocks.get(block).and_then(|block| block.code.get(instr));
            let Some(instr) = place else { continue };
            let text = match &reason {
                Reason::Bits => {
                    "integer instructions change the bits of a number that depends on active inputs, as `memcpy` between \
                     types, unions and `__float_as_int` compile to: copy members by assignment, or state the \
                     derivative with `geom::ad::rule`"
                        .to_owned()
                }
                Reason::PointerInMemory => {
                    "the memory that this reads is not known: the address was loaded, or is one of several of which \
                     one was: pass the pointer as a parameter"
                        .to_owned()
                }
                Reason::AtomicResult => atomic_result(instr, self.takes_varied(instr)).to_owned(),
                Reason::LocalMemory => {
                    "a local array with numbers that depend on active inputs is read by an unknown address or as an \
                     integer: the compiler keeps all local arrays together, and with computed indices they can't be told \
                     apart: keep integers that become numbers in an array of `float`"
                        .to_owned()
                }
                Reason::SharedMemory => {
                    "shared memory with numbers that depend on active inputs is read by an unknown address or as an \
                     integer: keep integers in an array of their own, and index arrays by their names"
                        .to_owned()
                }
                Reason::Warp => {
                    "`redux`, a shuffle without a mask or one of 16-bit floats exchanges numbers that depend on active \
                     inputs: shuffle `float` with `__shfl_xor_sync` and the like"
                        .to_owned()
                }
                Reason::Half => {
                    "16-bit floats that depend on active inputs are used other than by arithmetic"
                        .to_owned()
                }
                Reason::Lost => lost_text(instr),
                Reason::Unknown(what) => format!("the derivative of `{what}` is not known"),
                other => format!("{other:?} can't be differentiated"),
            };
            self.refuse(reason, text, instr);
        }
    }

    /// Returns whether an atomic operation takes values that depend on active inputs, or is on memory that does.
    fn takes_varied(&self, instr: &Instr) -> bool {
        let activity = &self.analysis.activity;
        let mut varied = false;
        instr.for_each_use(|reg| {
            varied |= [Slot::low(reg), Slot::high(reg)]
                .into_iter()
                .any(|slot| activity.is_varied(slot) || activity.is_of_bits(slot));
        });
        let on_active = match self.origin(instr) {
            Some(Origin::Pointer(at)) => self
                .analysis
                .pointers
                .get(at)
                .is_some_and(|known| known.slot.is_some() && known.spec.reals.is_some()),
            _ => false,
        };
        varied || on_active
    }

    /// Refuses registers that hold numbers of several types.
    fn mixed(&mut self) {
        for (_, instr) in self.body.instrs() {
            let mut mixed = false;
            instr.for_each_def(|reg| {
                for slot in [Slot::low(reg), Slot::high(reg)] {
                    mixed |= self.analysis.activity.is_active(slot)
                        && matches!(self.analysis.kinds.get(slot), Some(Kind::Mixed));
                }
            });
            if mixed {
                let text =
                    "the bits of a number that depends on active inputs are read as another type";
                self.refuse(Reason::Bits, text, instr);
            }
        }
    }

    /// Refuses uses of the results of calls, since calls are left out.
    fn results_of_calls(&mut self) {
        let used = self.used();
        for (_, instr) in self.body.instrs() {
            let Some(access) = Access::of(instr) else { continue };
            let Op::Ld { d, .. } = &instr.op else { continue };
            let origin = self.analysis.forms.address(self.body, access.address).origin;
            if access.is_param() && !matches!(origin, Origin::Param(_)) {
                let is_used = |reg: &RegId| used.get(reg.index()).copied().unwrap_or(false);
                if d.iter().flatten().any(is_used) {
                    self.refuse(Reason::Call, "the result of a call is used", instr);
                }
            }
        }
        for (_, instr) in self.body.instrs() {
            if !matches!(instr.op, Op::Call { .. }) {
                continue;
            }
            let mut returns = false;
            instr.for_each_def(|reg| returns |= used.get(reg.index()).copied().unwrap_or(false));
            if returns {
                self.refuse(Reason::Call, "the result of a call is used", instr);
            }
        }
    }

    /// Refuses accesses to other numbers than the specification names.
    fn types(&mut self, instr: &Instr, access: &Access<'_>, form: &Form) {
        let (kinds, activity) = (&self.analysis.kinds, &self.analysis.activity);
        let found = |reg: RegId| {
            // A load or store of integers moves bits, whose use gives their type.
            real_in_memory(access.ty).or_else(|| kinds.real(Slot::low(reg)))
        };
        if let Origin::Param(param) = form.origin {
            let wrong = access.parts().any(|(at, reg)| {
                let Some(reg) = reg else { return false };
                let place = form.param_offset().and_then(|place| place.checked_add_signed(at));
                let Some((said, true)) =
                    place.and_then(|p| self.analysis.pointers.number(param, p))
                else {
                    return false;
                };
                activity.is_active(Slot::low(reg)) && found(reg).is_some_and(|found| found != said)
            });
            if wrong {
                let text = "a number is read as another type than the specification says";
                self.refuse(Reason::Parameter, text, instr);
            }
            return;
        }
        if let Origin::Choice(_) = form.origin {
            self.choice(instr, access, form.origin);
            return;
        }
        let Origin::Pointer(index) = form.origin else { return };
        let Some(pointer) = self.analysis.pointers.get(index).filter(|p| p.slot.is_some()) else {
            return;
        };
        let Some(said) = pointer.spec.reals.map(|reals| reals.real()) else {
            let text = "the gradient of memory without numbers is wanted";
            self.refuse(Reason::Parameter, text, instr);
            return;
        };
        let half = real_in_memory(access.ty).filter(|real| real.scale() > 1);
        // Less than 16 bits are checked as a part of a number, below.
        if half != pointer.half && access.ty.bits() >= 16 {
            let text = "memory is accessed as numbers of another type than the specification says";
            self.refuse(Reason::Parameter, text, instr);
            return;
        }
        let stores = !matches!(instr.op, Op::Ld { .. });
        let is_half = said == Real::F64 && access.ty.bits() == 32;
        let other = |reg: RegId| {
            [Slot::low(reg), Slot::high(reg)].into_iter().any(|slot| {
                // A half that is only compared may be of several numbers.
                let matters = stores || !is_half || activity.is_useful(slot);
                matches!(kinds.real(slot), Some(real) if real != said)
                    || matches!(kinds.get(slot), Some(Kind::Mixed)) && matters
            })
        };
        if real(access.ty).is_some_and(|real| real != said) || access.registers().any(other) {
            let text = "memory is accessed as numbers of another type than the specification says";
            self.refuse(Reason::Parameter, text, instr);
            return;
        }
        if !is_global(access.space) {
            let text = "the memory behind a parameter is not accessed as global memory";
            self.refuse(Reason::PointerInMemory, text, instr);
            return;
        }
        let bytes = access.ty.bytes();
        let part = access.ty.bits() < 32
            && half.is_none()
            && access.parts().any(|(at, _)| {
                let pointers = &self.analysis.pointers;
                is_part_of_number(pointers, kinds, index, form, at, bytes)
            });
        // A half of a `double`.
        let half = access.ty.bits() == 32
            && access.registers().any(|reg| {
                let slot = Slot::low(reg);
                activity.is_varied(slot)
                    && matches!(kinds.get(slot), Some(Kind::F64 | Kind::F64High))
            });
        if stores && (part || half) {
            self.refuse(Reason::Bits, PART_STORED, instr);
        }
    }

    /// Refuses accesses by an address from one of several pointers, where they can't be reversed.
    fn choice(&mut self, instr: &Instr, access: &Access<'_>, origin: Origin) {
        let kinds = &self.analysis.kinds;
        let all = self.analysis.forms.pointers(origin).iter();
        let all: Vec<_> = all.filter_map(|&at| self.analysis.pointers.get(at)).collect();
        let numbers = all.iter().map(|pointer| match (pointer.half, pointer.spec.reals) {
            (Some(half), _) => Some(half),
            (None, Some(Reals::All(real))) => Some(real),
            _ => None,
        });
        let mut numbers: Vec<_> = numbers.collect();
        numbers.dedup();
        let half = real_in_memory(access.ty).filter(|real| real.scale() > 1);
        let active = access.registers().any(|reg| {
            [Slot::low(reg), Slot::high(reg)]
                .into_iter()
                .any(|slot| self.analysis.activity.is_active(slot))
        });
        let said = |reg: RegId| {
            [Slot::low(reg), Slot::high(reg)].into_iter().all(|slot| {
                kinds.real(slot).is_none_or(|real| numbers == [Some(half.unwrap_or(real))])
            })
        };
        if !matches!(instr.op, Op::Ld { .. }) {
            let text = "memory is written by an address that is one of more than four: store in branches of an `if`";
            self.refuse(Reason::PointerInMemory, text, instr);
        } else if active && (!is_global(access.space) || !access.registers().all(said)) {
            let text = "an address comes from one of several parameters, whose elements are not of one type";
            self.refuse(Reason::PointerInMemory, text, instr);
        }
    }

    fn accesses(&mut self) {
        for (_, instr) in self.body.instrs() {
            let Some(access) = Access::of(instr) else { continue };
            let form = self.analysis.forms.address(self.body, access.address);
            let origin = form.origin;
            self.types(instr, &access, &form);
            if is_global(access.space)
                && access.order != Order::Weak
                && !matches!(instr.op, Op::Atom { .. })
            {
                self.refuse(
                    Reason::Volatile,
                    "a volatile or ordered access may wait for other threads",
                    instr,
                );
            }
            self.shared(instr, &access, origin);
            if matches!(instr.op, Op::Ld { .. }) {
                continue;
            }
            self.local_store(instr, &access, &form);
            if !is_global(access.space) {
                continue;
            }
            let varied = access.registers().any(|reg| {
                let slots = [Slot::low(reg), Slot::high(reg)];
                slots.into_iter().any(|slot| {
                    let activity = &self.analysis.activity;
                    activity.is_of_bits(slot)
                        || activity.is_varied(slot) && self.analysis.kinds.get(slot).is_some()
                })
            });
            match origin {
                Origin::Variable(Space::Global | Space::Const) if varied => {
                    let text =
                        "a variable of the module takes a number that depends on active inputs";
                    self.refuse(Reason::ModuleGlobal, text, instr);
                }
                Origin::Unknown | Origin::Number if varied => {
                    let text =
                        "a number that depends on active inputs goes to memory that is not known";
                    self.refuse(Reason::PointerInMemory, text, instr);
                }
                _ => {}
            }
        }
    }

    /// Refuses stores to local memory without a known reverse.
    fn local_store(&mut self, instr: &Instr, access: &Access<'_>, form: &Form) {
        let (kinds, activity) = (&self.analysis.kinds, &self.analysis.activity);
        match form.origin {
            Origin::Local(var) if activity.is_local_active(var) => {
                let part = access.ty.bits() < 32
                    && access.parts().any(|(at, _)| kinds.may_be_local_number(var, form, at));
                // The gradient of a `double` is one number, so half of it can't be stored.
                let half = access.ty.bits() == 32
                    && access.registers().any(|reg| {
                        matches!(kinds.get(Slot::low(reg)), Some(Kind::F64 | Kind::F64High))
                    });
                if part || half {
                    self.refuse(Reason::Bits, PART_STORED, instr);
                }
            }
            Origin::Local(_) => {}
            _ if access.space == Space::Local => {
                let varied = access.registers().any(|reg| {
                    activity.is_varied(Slot::low(reg)) || activity.is_varied(Slot::high(reg))
                });
                if varied || self.analysis.has_active_locals(self.body) {
                    let text = "local memory is stored to by an address that is not known";
                    self.refuse(Reason::LocalMemory, text, instr);
                }
            }
            _ => {}
        }
    }

    /// Returns for each register whether it is read.
    fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.body.function.registers.len()];
        for block in &self.body.blocks {
            let args = block.phis.iter().flat_map(|phi| &phi.args);
            let mut mark = |reg: RegId| {
                if let Some(place) = used.get_mut(reg.index()) {
                    *place = true;
                }
            };
            for (_, arg) in args {
                if let Some(ptx::ir::Operand::Reg(reg)) = arg {
                    mark(*reg);
                }
            }
            block.code.iter().for_each(|instr| instr.for_each_use(&mut mark));
            if let crate::body::End::Branch { pred, .. } = block.end {
                mark(pred.reg);
            }
        }
        used
    }

    fn atomics(&mut self) {
        let used = self.used();
        for (_, instr) in self.body.instrs() {
            let Op::Atom { op, ty, addr, d, .. } = &instr.op else { continue };
            if d.iter().flatten().any(|reg| used.get(reg.index()).copied().unwrap_or(false)) {
                let text = atomic_result(instr, self.takes_varied(instr));
                self.refuse(Reason::AtomicResult, text, instr);
                continue;
            }
            let form = self.analysis.forms.address(self.body, addr);
            self.shared_atomic(instr, &form, *op, *ty);
            let Origin::Pointer(pointer) = form.origin else { continue };
            let Some(info) = self.analysis.pointers.get(pointer).filter(|p| p.slot.is_some())
            else {
                continue;
            };
            let adds = *op == AtomOp::Add && real(*ty).is_some();
            let bytes = u64::from(ty.bytes());
            let on_number = match info.spec.reals {
                Some(Reals::Some(_)) => {
                    let is_number = |reg: RegId| self.analysis.kinds.get(Slot::low(reg)).is_some();
                    let size = u64::from(info.spec.size);
                    ty.is_float()
                        || Access::of(instr).is_some_and(|access| access.registers().any(is_number))
                        || form.within(size, 0).is_some_and(|within| {
                            self.analysis.kinds.has_number_at(pointer, within, bytes)
                        })
                }
                _ => true,
            };
            if on_number && !adds {
                let half = *op == AtomOp::Add && ty.is_float();
                let reason = if half { Reason::Half } else { Reason::AtomicOther };
                let text =
                    format!("an atomic `{}.{}` of numbers has no adjoint", op.name(), ty.name());
                self.refuse(reason, text, instr);
                continue;
            }
            let effects = self.analysis.effects.get(pointer).copied().unwrap_or_default();
            if adds && (effects.loaded || effects.stored) {
                let text = "memory is added to by atomics, and also loaded or stored to";
                self.refuse(Reason::MixedAtomics, text, instr);
            }
        }
    }

    /// Refuses active inputs on which no active output depends.
    fn paths(&mut self, spec: &Spec) {
        let activity = &self.analysis.activity;
        let mut missing = Vec::new();
        for (index, param) in spec.params.iter().enumerate() {
            if param.active && !param.reals.is_empty() {
                let loads = self.loads(|origin| origin == Origin::Param(index));
                missing.extend(self.without_path(&param.name, &loads));
            }
        }
        for (index, pointer) in self.analysis.pointers.iter().enumerate() {
            let effects = self.analysis.effects.get(index).copied().unwrap_or_default();
            if pointer.slot.is_none() {
                continue;
            }
            let name = spec.params.get(pointer.param).map_or("", |param| &*param.name);
            if effects.stored || effects.added {
                let stores: Vec<&Instr> = self
                    .body
                    .instrs()
                    .map(|(_, instr)| instr)
                    .filter(|instr| self.origin(instr) == Some(Origin::Pointer(index)))
                    .filter(|instr| !matches!(instr.op, Op::Ld { .. }))
                    .collect();
                let depends = stores.iter().any(|instr| {
                    let access = Access::of(instr);
                    access.is_some_and(|access| {
                        access.registers().any(|reg| {
                            activity.is_varied(Slot::low(reg))
                                || activity.is_varied(Slot::high(reg))
                        })
                    })
                });
                if !depends {
                    let text = format!("`{name}` depends on no active input");
                    missing.push((text, stores.first().copied().cloned()));
                }
            } else {
                let loads = self.loads(|origin| self.analysis.forms.may_be(origin, index));
                missing.extend(self.without_path(name, &loads));
            }
        }
        for (text, instr) in missing {
            match instr {
                Some(instr) => self.refuse(Reason::NoPath, text, &instr),
                None => self.found.push(Refusal::new(Reason::NoPath, text)),
            }
        }
    }

    fn origin(&self, instr: &Instr) -> Option<Origin> {
        Access::of(instr)
            .map(|access| self.analysis.forms.address(self.body, access.address).origin)
    }

    fn loads(&self, wanted: impl Fn(Origin) -> bool) -> Vec<&Instr> {
        let all = self.body.instrs().map(|(_, instr)| instr);
        all.filter(|instr| {
            matches!(instr.op, Op::Ld { .. }) && self.origin(instr).is_some_and(&wanted)
        })
        .collect()
    }

    /// Returns a message if no active output depends on the loaded values.
    fn without_path(&self, name: &str, loads: &[&Instr]) -> Option<(String, Option<Instr>)> {
        let activity = &self.analysis.activity;
        let active = |instr: &&Instr| {
            let access = Access::of(instr);
            access.is_some_and(|access| {
                access.registers().any(|reg| {
                    activity.is_active(Slot::low(reg)) || activity.is_active(Slot::high(reg))
                })
            })
        };
        if loads.iter().any(active) {
            return None;
        }
        let text = format!("no active output depends on `{name}` by a differentiable path");
        // A use says more than a load.
        let used = loads.iter().find_map(|load| {
            let mut defined = Vec::new();
            load.for_each_def(|reg| defined.push(reg));
            self.body.instrs().map(|(_, instr)| instr).find(|instr| {
                let mut uses = false;
                instr.for_each_use(|reg| uses |= defined.contains(&reg));
                uses
            })
        });
        Some((text, used.or(loads.first().copied()).cloned()))
    }
}

/// Returns the text of a marker `ad.lost.TYPE.NAME`: where the value comes from, or the function that computed it.
fn lost_text(instr: &Instr) -> String {
    let Op::Other { opcode, .. } = &instr.op else {
        return "the derivative of this value is not known".to_owned();
    };
    let text = match opcode.split('.').nth(3) {
        Some("grid") => {
            "a position or distance depends on the grid's copy of its points, which has no gradient: give the array that \
             the grid was built from, or say `geom::ad::stop`"
        }
        Some("result") => {
            "the result of this query has no gradient: compute it again from the index that was found, or say \
             `geom::ad::stop`"
        }
        Some("normals") => {
            "the normals of vertices were computed when the mesh was built, and have no gradient here: compute them from \
             the points, or say `geom::ad::stop`"
        }
        Some(function) => return format!("the derivative of `{function}` is not known"),
        None => {
            "the derivative of this value is not known: say `geom::ad::rule` if you know it, or `geom::ad::stop`"
        }
    };
    text.to_owned()
}

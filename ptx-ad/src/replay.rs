//! Results of atomic operations that the kernel stores for its adjoint.
//!
//! An adjoint can't repeat an atomic operation: the result depends on the order of the threads. If the kernel stores the
//! result in a buffer that is declared as `replay`, the adjoint loads it from there, as it is after the launch. The load
//! takes the place of the operation, so the address of the store is computed before it.
//!
//! A kernel that learns from an atomic operation what other threads do may wait for them, and read what they have
//! written. The adjoint can't: see [`check`].

use std::collections::{HashMap, HashSet};

use ptx::ir::{Address, Base, Instr, LdKind, Module, Op, Operand, Order, RegId, Role, Space, Type};

use crate::analysis::{Access, Analysis, Form, Origin, Slot, is_global, real};
use crate::body::Body;
use crate::refusal::{Reason, Refusal};
use crate::spec::Spec;

/// An address that takes more steps than this is not computed again.
const MOST_STEPS: usize = 100;

/// What was replaced.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Whether each pointer leads to a replay buffer.
    pub(crate) buffers: Vec<bool>,
    /// The atomic operations, as they were.
    atoms: Vec<Instr>,
}

impl Replay {
    /// Returns whether there are replay buffers.
    pub(crate) fn is_used(&self) -> bool {
        self.buffers.contains(&true)
    }
}

/// A number of a store to a replay buffer.
#[derive(Debug, Clone, Copy)]
struct Site {
    block: usize,
    at: usize,
    pointer: usize,
    space: Space,
    ty: Type,
    base: Base,
    offset: i64,
    form: Form,
    value: Option<RegId>,
}

/// The place of an atomic operation, and its result.
#[derive(Debug, Clone, Copy)]
struct Atom {
    block: usize,
    at: usize,
    result: RegId,
    ty: Type,
}

/// Replaces the results of atomic operations by loads from replay buffers, and leaves the stores to those out.
///
/// # Errors
/// A replay buffer is not used as such, or a result can't be loaded at the place of its operation.
pub(crate) fn replace(
    module: &Module,
    spec: &Spec,
    body: &mut Body,
    analysis: &Analysis,
) -> Result<Replay, Vec<Refusal>> {
    let of = |index: usize| spec.params.get(index);
    let is_replay = |info: &crate::analysis::PointerInfo| {
        of(info.param).is_some_and(|param| param.replay.contains(&info.spec.offset))
    };
    let buffers: Vec<bool> = analysis.pointers.iter().map(is_replay).collect();
    let mut found = declared(spec);
    if found.is_empty() && !buffers.contains(&true) {
        return Ok(Replay::default());
    }
    let mut search = Search::new(module, body, analysis, &buffers);
    let sites = search.sites();
    let mut loads: HashMap<(usize, usize), Vec<Instr>> = HashMap::new();
    let (mut atoms, mut fresh) = (Vec::new(), Vec::new());
    let mut recorded = HashSet::new();
    for atom in search.atoms() {
        let Some(site) = search.site_of(&atom, &sites) else { continue };
        recorded.insert(site.pointer);
        if let Some(code) = search.load(&atom, &site, &sites, &mut fresh) {
            loads.insert((atom.block, atom.at), code);
            atoms.extend(search.instr(atom.block, atom.at).cloned());
        }
    }
    found.extend(search.found);
    let unused = |&(index, is): &(usize, &bool)| *is && !recorded.contains(&index);
    for (index, _) in buffers.iter().enumerate().filter(unused) {
        let name = analysis.pointers.get(index).and_then(|info| of(info.param));
        let name = name.map_or("", |param| &*param.name);
        let text = format!("no result of an atomic operation is stored in `{name}`");
        let instr = sites.iter().find(|site| site.pointer == index);
        let instr = instr.and_then(|site| body.blocks.get(site.block)?.code.get(site.at));
        let refusal = Refusal::new(Reason::Parameter, text);
        found.push(match instr {
            Some(instr) => refusal.at(module, &body.function, instr),
            None => refusal,
        });
    }
    if !found.is_empty() {
        return Err(found);
    }
    body.function.registers.extend(fresh);
    let stores: HashSet<(usize, usize)> = sites.iter().map(|site| (site.block, site.at)).collect();
    for (index, block) in body.blocks.iter_mut().enumerate() {
        let code = std::mem::take(&mut block.code);
        for (at, mut instr) in code.into_iter().enumerate() {
            if stores.contains(&(index, at)) {
                continue;
            }
            if let Some(load) = loads.remove(&(index, at)) {
                block.code.extend(load);
                if let Op::Atom { d, .. } = &mut instr.op {
                    *d = Box::default();
                }
            }
            block.code.push(instr);
        }
    }
    body.index();
    Ok(Replay { buffers, atoms })
}

/// Checks what is said of replay buffers.
fn declared(spec: &Spec) -> Vec<Refusal> {
    let mut found = Vec::new();
    for param in &spec.params {
        for offset in &param.replay {
            let pointer = param.pointers.iter().find(|pointer| pointer.offset == *offset);
            let text = match pointer {
                Some(pointer) if pointer.active => {
                    format!("`{}` is active: a replay buffer holds no numbers", param.name)
                }
                Some(_) => continue,
                None => format!("`{}` has no pointer at offset {offset}", param.name),
            };
            found.push(Refusal::new(Reason::Parameter, text));
        }
    }
    found
}

/// Checks a kernel whose atomic operations were replaced, and returns the reasons against it and the pairs of pointers
/// that must not lead to the same memory.
///
/// What the results say is constant, so nothing that has a gradient may go into them. And memory that some thread writes
/// is not read by another one: the adjoint of a thread would not find what that other thread has written.
pub(crate) fn check(
    module: &Module,
    body: &Body,
    analysis: &Analysis,
    replay: &Replay,
) -> (Vec<Refusal>, Vec<(usize, usize)>) {
    let mut found: Vec<Refusal> = Vec::new();
    if !replay.is_used() {
        return (found, Vec::new());
    }
    let mut refuse = |reason: Reason, text: &str, instr: &Instr| {
        let refusal = Refusal::new(reason, text).at(module, &body.function, instr);
        if !found.contains(&refusal) {
            found.push(refusal);
        }
    };
    let origin = |instr: &Instr| {
        let access = Access::of(instr)?;
        Some(analysis.forms.address(body, access.address).origin)
    };
    let depends = |reg: RegId| {
        let activity = &analysis.activity;
        [Slot::low(reg), Slot::high(reg)]
            .into_iter()
            .any(|slot| activity.is_varied(slot) || activity.is_lost(slot))
    };
    for atom in &replay.atoms {
        let Op::Atom { ty, d, .. } = &atom.op else { continue };
        let is_number = |reg: RegId| {
            [Slot::low(reg), Slot::high(reg)]
                .into_iter()
                .any(|slot| analysis.kinds.get(slot).is_some())
        };
        let place = origin(atom);
        let is_active = matches!(place, Some(Origin::Pointer(pointer))
            if analysis.pointers.get(pointer).is_some_and(|info| info.slot.is_some()));
        if ty.is_float() || is_active || d.iter().flatten().any(|reg| is_number(*reg)) {
            let text = "the result of an atomic operation is a number, whose gradient a replay buffer does not have";
            refuse(Reason::AtomicResult, text, atom);
            continue;
        }
        let bits = body.instrs().map(|(_, instr)| instr).find(|instr| {
            let same = !matches!(instr.op, Op::Ld { .. }) && origin(instr) == place;
            // The third operand of `cas` is no value of an access.
            let third = match &instr.op {
                Op::Atom { c: Some(Operand::Reg(reg)), .. } => depends(*reg),
                _ => false,
            };
            let values = Access::of(instr);
            same && (third || values.is_some_and(|access| access.registers().any(depends)))
        });
        if let Some(instr) = bits {
            let text = "the result of an atomic operation depends on active inputs";
            refuse(Reason::AtomicResult, text, instr);
        }
    }
    let written = |pointer: usize| {
        let buffer = replay.buffers.get(pointer) == Some(&true);
        buffer || analysis.used.get(pointer).is_some_and(|used| used.stored || used.added)
    };
    for (_, instr) in body.instrs() {
        let Op::Ld { access, .. } = &instr.op else { continue };
        let Some(origin) = origin(instr).filter(|_| is_global(access.space)) else { continue };
        let others = |pointer: usize| {
            let buffer = replay.buffers.get(pointer) == Some(&true);
            !buffer && written(pointer) && analysis.own.get(pointer).is_none()
        };
        let of_others = match origin {
            Origin::Pointer(pointer) => others(pointer),
            Origin::Choice(_) => {
                analysis.forms.pointers(origin).iter().any(|pointer| others(*pointer))
            }
            Origin::Unknown | Origin::Number => true,
            _ => false,
        };
        if of_others {
            let text = "memory is loaded that other threads may have written before: an atomic operation whose result is \
                        replayed may say so";
            refuse(Reason::LoadAfterStore, text, instr);
        }
    }
    let count = analysis.pointers.iter().count();
    let loaded = |pointer: usize| {
        let buffer = replay.buffers.get(pointer) == Some(&true);
        buffer || analysis.used.get(pointer).is_some_and(|used| used.loaded)
    };
    let pairs = (0..count).filter(|&one| loaded(one)).flat_map(|one| {
        (0..count)
            .filter(move |&other| other != one && written(other))
            .map(move |other| (one, other))
    });
    let pairs = pairs.collect();
    (found, pairs)
}

/// A kernel, as it is searched for results that are stored.
struct Search<'a> {
    module: &'a Module,
    body: &'a Body,
    analysis: &'a Analysis,
    buffers: &'a [bool],
    /// Where each register is defined: the block, and the instruction if it is no phi.
    definitions: HashMap<RegId, (usize, Option<usize>)>,
    found: Vec<Refusal>,
}

impl<'a> Search<'a> {
    fn new(
        module: &'a Module,
        body: &'a Body,
        analysis: &'a Analysis,
        buffers: &'a [bool],
    ) -> Self {
        let mut definitions = HashMap::new();
        for (index, block) in body.blocks.iter().enumerate() {
            for phi in &block.phis {
                definitions.insert(phi.reg, (index, None));
            }
            for (at, instr) in block.code.iter().enumerate() {
                instr.for_each_def(|reg| {
                    definitions.insert(reg, (index, Some(at)));
                });
            }
        }
        Self { module, body, analysis, buffers, definitions, found: Vec::new() }
    }

    fn instr(&self, block: usize, at: usize) -> Option<&'a Instr> {
        self.body.blocks.get(block)?.code.get(at)
    }

    fn refuse(&mut self, reason: Reason, text: &str, block: usize, at: usize) {
        let refusal = Refusal::new(reason, text);
        let refusal = match self.instr(block, at) {
            Some(instr) => refusal.at(self.module, &self.body.function, instr),
            None => refusal,
        };
        if !self.found.contains(&refusal) {
            self.found.push(refusal);
        }
    }

    /// Returns the stores to replay buffers. Nothing else may be done with those.
    fn sites(&mut self) -> Vec<Site> {
        let mut sites = Vec::new();
        for (block, code) in self.body.blocks.iter().enumerate() {
            for (at, instr) in code.code.iter().enumerate() {
                let Some(access) = Access::of(instr) else { continue };
                let form = self.analysis.forms.address(self.body, access.address);
                let is_buffer = |pointer: &usize| self.buffers.get(*pointer) == Some(&true);
                let several = self.analysis.forms.pointers(form.origin).iter().any(is_buffer);
                let pointer = match form.origin {
                    Origin::Pointer(pointer) if is_buffer(&pointer) => pointer,
                    _ if several => usize::MAX,
                    _ => continue,
                };
                let plain = matches!(instr.op, Op::St { .. }) && access.order == Order::Weak;
                if several || !plain {
                    let text = "a replay buffer is only stored to, by plain stores";
                    self.refuse(Reason::Parameter, text, block, at);
                    continue;
                }
                let Address { base, offset } = *access.address;
                for (more, value) in access.parts() {
                    let (space, ty) = (access.space, access.ty);
                    let offset = offset.saturating_add(more);
                    sites.push(Site { block, at, pointer, space, ty, base, offset, form, value });
                }
            }
        }
        sites
    }

    /// Returns the atomic operations whose results are used.
    fn atoms(&self) -> Vec<Atom> {
        let blocks = self.body.blocks.iter().enumerate();
        let all = blocks.flat_map(|(index, block)| {
            block.code.iter().enumerate().map(move |(at, instr)| (index, at, instr))
        });
        all.filter_map(|(block, at, instr)| match &instr.op {
            Op::Atom { ty, d, .. } => match **d {
                [Some(result)] => Some(Atom { block, at, result, ty: *ty }),
                _ => None,
            },
            _ => None,
        })
        .collect()
    }

    /// Returns the store of an operation's result: each thread that comes to the operation comes to the store.
    fn site_of(&mut self, atom: &Atom, sites: &[Site]) -> Option<Site> {
        let reached = self.reached(atom.block);
        let holds =
            |site: &&Site| site.value.is_some_and(|value| self.is_result(value, atom, &reached, 0));
        let mut some: Vec<Site> = sites.iter().filter(holds).copied().collect();
        let first = some.first().copied();
        some.retain(|site| {
            self.body.always_reaches(atom.block, site.block)
                && (site.block != atom.block || site.at > atom.at)
        });
        if let (Some(site), true) = (first, some.is_empty()) {
            let text = "the result of an atomic operation is not stored on each way behind it, or in another loop: \
                        store it at once";
            self.refuse(Reason::AtomicResult, text, site.block, site.at);
        }
        some.first().copied()
    }

    /// Returns whether a value is the operation's result, wherever control comes from the operation.
    fn is_result(&self, value: RegId, atom: &Atom, reached: &[bool], steps: usize) -> bool {
        if value == atom.result {
            return true;
        }
        if steps > MOST_STEPS {
            return false;
        }
        let Some(&(block, at)) = self.definitions.get(&value) else { return false };
        let again = |value: RegId| self.is_result(value, atom, reached, steps + 1);
        let Some(at) = at else {
            // A phi behind the operation, in the same turn.
            let here = self.body.region_of(block) == self.body.region_of(atom.block);
            let phis = self.body.blocks.get(block).map_or(&[][..], |block| &block.phis);
            let Some(phi) = phis.iter().find(|phi| phi.reg == value).filter(|_| here) else {
                return false;
            };
            let comes = |from: &usize| reached.get(*from) == Some(&true) && *from < block;
            let mut args = phi.args.iter().filter(|(from, _)| comes(from)).peekable();
            return block > atom.block
                && args.peek().is_some()
                && args.all(|(_, arg)| matches!(arg, Some(Operand::Reg(reg)) if again(*reg)));
        };
        match self.instr(block, at).map(|instr| &instr.op) {
            Some(Op::Mov { ty, a: Operand::Reg(reg), .. }) => {
                ty.bits() == atom.ty.bits() && again(*reg)
            }
            _ => false,
        }
    }

    /// Returns which blocks control may come to from a block in the same turn, itself among them.
    fn reached(&self, from: usize) -> Vec<bool> {
        let mut reached = vec![false; self.body.blocks.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if let Some(place) = reached.get_mut(at).filter(|place| !**place) {
                *place = true;
                let targets = self.body.blocks.get(at).map(|block| block.end.targets());
                open.extend(targets.into_iter().flatten().filter(|&to| to > at));
            }
        }
        reached
    }

    /// Returns what takes the place of an operation's result. Types of new registers are added to `fresh`.
    fn load(
        &mut self,
        atom: &Atom,
        site: &Site,
        sites: &[Site],
        fresh: &mut Vec<Type>,
    ) -> Option<Vec<Instr>> {
        if site.ty.bits() != atom.ty.bits() || real(site.ty).is_some() {
            let text = "the result of an atomic operation is stored as another type";
            self.refuse(Reason::AtomicResult, text, site.block, site.at);
            return None;
        }
        let Base::Reg(base) = site.base else { return None };
        let mut region = self.body.region_of(atom.block);
        while region > 0 {
            if !self.changes(base, region) {
                let text = "each turn of a loop stores the result of its atomic operation at the same address: the next \
                            turn overwrites it";
                self.refuse(Reason::AtomicResult, text, site.block, site.at);
                return None;
            }
            region = self.body.regions.get(region).and_then(|region| region.parent).unwrap_or(0);
        }
        let later = self.reached(site.block);
        let overwrites = sites.iter().find(|other| {
            let behind = if other.block == site.block {
                other.at > site.at
            } else {
                later.get(other.block) == Some(&true)
            };
            other.pointer == site.pointer && behind && !apart(site, other)
        });
        if let Some(other) = overwrites {
            let text = "this may overwrite the result of an atomic operation: give it a replay buffer of its own";
            self.refuse(Reason::AtomicResult, text, other.block, other.at);
            return None;
        }
        let mut hoist =
            Hoist { search: self, atom, fresh, known: HashMap::new(), code: Vec::new() };
        let base = hoist.value(base, 0);
        let mut code = hoist.code;
        let base = match base {
            Ok(base) => base,
            Err(text) => {
                self.refuse(Reason::AtomicResult, text, site.block, site.at);
                return None;
            }
        };
        let of = self.instr(atom.block, atom.at)?;
        let access = ptx::ir::Access {
            space: site.space,
            order: Order::Weak,
            scope: None,
            cache: None,
            hints: None,
            policy: None,
        };
        let op = Op::Ld {
            kind: LdKind::Plain,
            access,
            ty: site.ty,
            d: [Some(atom.result)].into(),
            addr: Address { base: Base::Reg(base), offset: site.offset },
        };
        code.push(Instr { guard: None, op, line: of.line, loc: of.loc });
        Some(code)
    }

    /// Returns whether a value depends on what a loop carries.
    fn changes(&self, value: RegId, region: usize) -> bool {
        let header = self.body.range(region).start;
        let (mut seen, mut open) = (HashSet::from([value]), vec![value]);
        while let Some(reg) = open.pop() {
            let Some(&(block, at)) = self.definitions.get(&reg) else { continue };
            let mut next = Vec::new();
            match at.and_then(|at| self.instr(block, at)) {
                Some(instr) => instr.for_each_use(|reg| next.push(reg)),
                None if block == header => return true,
                None => {
                    let phis = self.body.blocks.get(block).map_or(&[][..], |block| &block.phis);
                    let args = phis.iter().filter(|phi| phi.reg == reg).flat_map(|phi| &phi.args);
                    next.extend(args.filter_map(|(_, arg)| match arg {
                        Some(Operand::Reg(reg)) => Some(*reg),
                        _ => None,
                    }));
                }
            }
            open.extend(next.into_iter().filter(|reg| seen.insert(*reg)));
        }
        false
    }

    /// Returns whether a register has its value before an operation.
    fn is_known(&self, reg: RegId, atom: &Atom) -> bool {
        match self.definitions.get(&reg) {
            // It may be anything, anywhere.
            None => true,
            Some((block, None)) if *block == atom.block => true,
            Some((block, Some(at))) if *block == atom.block => *at < atom.at,
            Some((block, _)) => self.dominates(*block, atom.block),
        }
    }

    /// Returns whether each way to block `to` comes by block `by`.
    fn dominates(&self, by: usize, to: usize) -> bool {
        let (mut seen, mut open) = (HashSet::new(), vec![to]);
        while let Some(at) = open.pop() {
            if at == by {
                continue;
            }
            if at == 0 {
                return false;
            }
            let preds = self.body.blocks.get(at).map_or(&[][..], |block| &block.preds);
            open.extend(preds.iter().filter(|from| seen.insert(**from)));
        }
        true
    }
}

/// Returns whether two stores of one turn go to different memory.
fn apart(one: &Site, other: &Site) -> bool {
    let bytes = |site: &Site| i64::from(site.ty.bytes());
    if one.base == other.base {
        return one.offset.saturating_add(bytes(one)) <= other.offset
            || other.offset.saturating_add(bytes(other)) <= one.offset;
    }
    // Forms have the offset of the whole access, which parts of vectors begin behind.
    let place = |site: &Site| site.form.thread_offset().filter(|offset| offset.stride > 0);
    let (Some(a), Some(b)) = (place(one), place(other)) else { return false };
    let ahead = b.constant.wrapping_sub(a.constant).rem_euclid(a.stride);
    // The widest vector.
    a.stride == b.stride && ahead >= 16 && ahead.saturating_add(16) <= a.stride
}

/// Computes a value before an operation that is computed behind it.
struct Hoist<'s, 'a> {
    search: &'s Search<'a>,
    atom: &'s Atom,
    fresh: &'s mut Vec<Type>,
    known: HashMap<RegId, RegId>,
    code: Vec<Instr>,
}

impl Hoist<'_, '_> {
    /// Returns the register that holds a value before the operation.
    fn value(&mut self, reg: RegId, steps: usize) -> Result<RegId, &'static str> {
        if reg == self.atom.result {
            return Err(
                "the address of a replay buffer depends on the result that is stored there: use the thread's index",
            );
        }
        if self.search.is_known(reg, self.atom) {
            return Ok(reg);
        }
        if let Some(&known) = self.known.get(&reg) {
            return Ok(known);
        }
        let place = self.search.definitions.get(&reg);
        let instr = place.and_then(|&(block, at)| self.search.instr(block, at?));
        let Some(instr) = instr.filter(|instr| self.is_pure(instr) && steps < MOST_STEPS) else {
            return Err(
                "the address at which the result of an atomic operation is stored is not known before the operation",
            );
        };
        let mut made = instr.clone();
        let mut uses = Vec::new();
        made.for_each_use(|reg| uses.push(reg));
        for used in uses {
            let value = self.value(used, steps + 1)?;
            self.known.insert(used, value);
        }
        let registers = &self.search.body.function.registers;
        made.for_each_def(|reg| {
            let number = registers.len().saturating_add(self.fresh.len());
            self.fresh.push(registers.get(reg.index()).copied().unwrap_or(Type::B64));
            self.known.insert(reg, RegId(u32::try_from(number).unwrap_or(u32::MAX)));
        });
        made.for_each_register_mut(|role, reg| {
            if matches!(role, Role::Use | Role::Def) {
                *reg = self.known.get(reg).copied().unwrap_or(*reg);
            }
        });
        self.code.push(made);
        Ok(self.known.get(&reg).copied().unwrap_or(reg))
    }

    /// Returns whether an instruction computes the same wherever its operands are known.
    fn is_pure(&self, instr: &Instr) -> bool {
        match &instr.op {
            Op::Mov { .. }
            | Op::Cvta { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Mul { .. }
            | Op::Mad { .. }
            | Op::Cvt { .. }
            | Op::Setp { .. }
            | Op::Selp { .. }
            | Op::Bfe { .. }
            | Op::Shf { .. }
            | Op::Lop3 { .. } => instr.guard.is_none(),
            Op::Ld { addr, .. } => {
                let origin = self.search.analysis.forms.address(self.search.body, addr).origin;
                matches!(origin, Origin::Param(_)) && instr.guard.is_none()
            }
            _ => false,
        }
    }
}

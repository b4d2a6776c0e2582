//! Accesses by an address with several possible origins, as `c ? a[i] : b[i]`, `std::clamp` and pointers that are
//! swapped in loops compile to. Each origin gets an access in a separate branch.
//!
//! The number of its origin is computed along with each such address, by the same choices and phis. In each branch the
//! address is copied to a register whose origin is known: see [`Body::origins`].

use std::collections::HashMap;

use ptx::ir::{Address, Base, BinaryOp, Cmp, Instr, MulPart, Op, Operand, Pred, RegId, Type};

use crate::analysis::{Access, Forms, Origin, Pointers};
use crate::body::{Block, Body, End, Phi};
use crate::spec::Spec;

/// Addresses with more origins than this are not split.
const MOST_ORIGINS: u32 = 4;

/// Sets of origins: a bit for each of [`Choices::leaves`].
type Origins = u64;

/// The bit of an unknown origin, or a number.
const UNKNOWN: Origins = 1 << 63;

/// Splits accesses by an address with several origins into branches.
pub(crate) fn split(body: &mut Body, spec: &Spec) {
    if !has_choices(body) {
        return;
    }
    let (pointers, _) = Pointers::new(spec);
    let forms = Forms::new(body, &pointers);
    let mut choices = Choices::new(body, &forms);
    let written = choices.written(body);
    let mut found: HashMap<(usize, usize), RegId> = HashMap::new();
    for (block, code) in body.blocks.iter().enumerate() {
        for (at, instr) in code.code.iter().enumerate() {
            let Some(reg) = base(instr) else { continue };
            let set = choices.of(reg);
            if set & UNKNOWN != 0 || !(2..=MOST_ORIGINS).contains(&set.count_ones()) {
                continue;
            }
            let together = matches!(instr.op, Op::Ld { .. })
                && matches!(forms.reg(reg).origin, Origin::Choice(_))
                && set & written == 0
                && choices.are_alike(set, &pointers);
            if !together {
                found.insert((block, at), reg);
            }
        }
    }
    if found.is_empty() {
        return;
    }
    let mut wanted: Vec<((usize, usize), RegId)> = found.into_iter().collect();
    wanted.sort_unstable();
    let numbers: HashMap<(usize, usize), Operand> = wanted
        .iter()
        .map(|(place, reg)| (*place, choices.number(&mut body.function, Operand::Reg(*reg))))
        .collect();
    let numbered = choices.insert(body);
    divide(body, &choices, &numbers, &numbered);
    body.index();
}

/// Returns whether some address may be one of several.
fn has_choices(body: &Body) -> bool {
    let is_wide =
        |reg: RegId| body.function.registers.get(reg.index()).is_some_and(|ty| ty.bits() == 64);
    let mut phis = body.blocks.iter().flat_map(|block| &block.phis);
    phis.any(|phi| phi.args.len() > 1 && is_wide(phi.reg))
        || body
            .instrs()
            .any(|(_, instr)| matches!(&instr.op, Op::Selp { ty, .. } if ty.bits() == 64))
}

/// Returns the register of the address of an access to memory that is not a parameter's.
fn base(instr: &Instr) -> Option<RegId> {
    if matches!(&instr.op, Op::Atom { d, .. } if d.iter().any(Option::is_some)) {
        return None;
    }
    let access = Access::of(instr).filter(|access| !access.is_param())?;
    match access.address.base {
        Base::Reg(reg) => Some(reg),
        _ => None,
    }
}

/// The leaves: origins that addresses are chosen from.
struct Choices {
    leaves: Vec<Origin>,
    /// The set of each register.
    sets: Vec<Origins>,
    /// The register that an address has its origin from, if there is one.
    sources: HashMap<RegId, RegId>,
    /// The registers that hold the numbers of origins.
    numbers: HashMap<RegId, RegId>,
    /// The registers whose definitions are not written yet.
    open: Vec<RegId>,
}

impl Choices {
    fn new(body: &Body, forms: &Forms) -> Self {
        let mut this = Self {
            leaves: Vec::new(),
            sets: vec![0; body.function.registers.len()],
            sources: HashMap::new(),
            numbers: HashMap::new(),
            open: Vec::new(),
        };
        loop {
            let before = this.sets.clone();
            for block in &body.blocks {
                for phi in &block.phis {
                    let args = phi.args.iter().fold(0, |set, (_, arg)| {
                        set | arg.map_or(UNKNOWN, |arg| this.operand(forms, &arg))
                    });
                    this.set(forms, phi.reg, args);
                }
                block.code.iter().for_each(|instr| this.instr(forms, instr));
            }
            if this.sets == before {
                return this;
            }
        }
    }

    fn of(&self, reg: RegId) -> Origins {
        match self.sets.get(reg.index()) {
            Some(0) | None => UNKNOWN,
            Some(set) => *set,
        }
    }

    fn leaf(&mut self, origin: Origin) -> Origins {
        let known = self.leaves.iter().position(|known| *known == origin);
        let at = known.unwrap_or_else(|| {
            self.leaves.push(origin);
            self.leaves.len() - 1
        });
        if at < 63 { 1 << at } else { UNKNOWN }
    }

    /// Returns the set of an operand; empty while it is unknown.
    fn operand(&mut self, forms: &Forms, operand: &Operand) -> Origins {
        match forms.operand(operand).origin {
            origin @ (Origin::Pointer(_) | Origin::Local(_) | Origin::Variable(_)) => {
                self.leaf(origin)
            }
            Origin::Number | Origin::Param(_) | Origin::Distance(..) => UNKNOWN,
            Origin::Choice(_) | Origin::Unknown => match operand {
                Operand::Reg(reg) => self.sets.get(reg.index()).copied().unwrap_or(UNKNOWN),
                _ => UNKNOWN,
            },
        }
    }

    /// Adds origins to a register's set, unless the register's form decides its origin.
    fn set(&mut self, forms: &Forms, reg: RegId, set: Origins) {
        let set = match forms.reg(reg).origin {
            Origin::Choice(_) | Origin::Unknown => set,
            _ => self.operand(forms, &Operand::Reg(reg)),
        };
        if let Some(place) = self.sets.get_mut(reg.index()) {
            *place |= set;
        }
    }

    fn instr(&mut self, forms: &Forms, instr: &Instr) {
        let is_number = |operand: &Operand| forms.operand(operand).origin == Origin::Number;
        let from = match &instr.op {
            Op::Selp { ty, d: Some(d), a, b, .. } if ty.bits() == 64 => {
                let set = self.operand(forms, a) | self.operand(forms, b);
                self.set(forms, *d, set);
                return;
            }
            Op::Mov { ty, d: Some(d), a } if ty.bits() == 64 => Some((*d, *a)),
            Op::Cvta { ty, d: Some(d), a, .. } if ty.bits() == 64 => Some((*d, *a)),
            Op::Binary { op: BinaryOp::Add, ty, d: Some(d), a, b, .. } if ty.bits() == 64 => {
                match (is_number(a), is_number(b)) {
                    (false, true) => Some((*d, *a)),
                    (true, false) => Some((*d, *b)),
                    _ => None,
                }
            }
            Op::Binary { op: BinaryOp::Sub, ty, d: Some(d), a, b, .. }
                if ty.bits() == 64 && is_number(b) =>
            {
                Some((*d, *a))
            }
            Op::Mad { ty, part: Some(part), d: Some(d), a, b, c, .. }
                if is_number(a)
                    && is_number(b)
                    && (*part == MulPart::Wide || *part == MulPart::Lo && ty.bits() == 64) =>
            {
                Some((*d, *c))
            }
            _ => None,
        };
        let Some((d, from)) = from else {
            instr.for_each_def(|reg| self.set(forms, reg, UNKNOWN));
            return;
        };
        if let Operand::Reg(source) = from {
            self.sources.insert(d, source);
        }
        let set = self.operand(forms, &from);
        self.set(forms, d, set);
    }

    /// Returns the origins that the kernel may store to or add to.
    fn written(&self, body: &Body) -> Origins {
        let stores = body.instrs().filter(|(_, instr)| !matches!(instr.op, Op::Ld { .. }));
        stores.fold(0, |all, (_, instr)| {
            match Access::of(instr).map(|access| access.address.base) {
                Some(Base::Reg(reg)) => match self.of(reg) {
                    set if set & UNKNOWN != 0 => Origins::MAX,
                    set => all | set,
                },
                _ => all,
            }
        })
    }

    /// Returns whether these are pointers to numbers of one type.
    fn are_alike(&self, set: Origins, pointers: &Pointers) -> bool {
        let all = (0..).zip(&self.leaves).filter(|(at, _)| set >> at & 1 == 1);
        let mut kinds = all.map(|(_, leaf)| match leaf {
            Origin::Pointer(at) => {
                pointers.get(*at).map(|pointer| (pointer.half, pointer.spec.reals))
            }
            _ => None,
        });
        let first = kinds.next().flatten();
        first.is_some() && kinds.all(|kind| kind == first)
    }

    /// Returns the number of an address's origin.
    fn number(&mut self, function: &mut ptx::ir::Function, address: Operand) -> Operand {
        let Operand::Reg(mut reg) = address else { return Operand::Imm(0) };
        loop {
            let set = self.of(reg);
            if set.is_power_of_two() {
                return Operand::Imm(u64::from(set.trailing_zeros()));
            }
            match self.sources.get(&reg) {
                Some(source) => reg = *source,
                None => break,
            }
        }
        let open = &mut self.open;
        let number = self.numbers.entry(reg).or_insert_with(|| {
            open.push(reg);
            function.fresh_register(Type::U32)
        });
        Operand::Reg(*number)
    }

    /// Writes the definitions of the numbers: phis, and choices, each to be put after the instruction that defines its
    /// register.
    fn insert(&mut self, body: &mut Body) -> HashMap<RegId, Op> {
        let mut chosen = HashMap::new();
        while let Some(reg) = self.open.pop() {
            let Some(d) = self.numbers.get(&reg).copied() else { continue };
            let Some(block) = body.definition(reg) else { continue };
            let Some(found) = body.blocks.get(block) else { continue };
            if let Some(phi) = found.phis.iter().find(|phi| phi.reg == reg) {
                let args = phi.args.clone();
                let args = args
                    .into_iter()
                    .map(|(from, arg)| (from, arg.map(|arg| self.number(&mut body.function, arg))));
                let phi = Phi { reg: d, args: args.collect() };
                body.blocks
                    .get_mut(block)
                    .into_iter()
                    .for_each(|block| block.phis.push(phi.clone()));
                continue;
            }
            let defines =
                |instr: &&Instr| matches!(&instr.op, Op::Selp { d, .. } if *d == Some(reg));
            let Some(Op::Selp { a, b, p, .. }) = found.code.iter().find(defines).map(|i| &i.op)
            else {
                continue;
            };
            let (a, b, p) = (*a, *b, *p);
            let a = self.number(&mut body.function, a);
            let b = self.number(&mut body.function, b);
            chosen.insert(reg, Op::Selp { ty: Type::U32, d: Some(d), a, b, p });
        }
        chosen
    }
}

/// Splits each access that has a number into a branch for each origin of its address. `chosen` has code to be put after
/// the definitions of some registers.
fn divide(
    body: &mut Body,
    choices: &Choices,
    numbers: &HashMap<(usize, usize), Operand>,
    chosen: &HashMap<RegId, Op>,
) {
    let old = std::mem::take(&mut body.blocks);
    let mut new: Vec<Block> = Vec::with_capacity(old.len());
    // The first and the last of each old block's new blocks. Until all are known, blocks other than `own` name old
    // ones.
    let (mut first, mut last) = (Vec::with_capacity(old.len()), Vec::with_capacity(old.len()));
    let mut own: Vec<bool> = Vec::new();
    for (index, block) in old.into_iter().enumerate() {
        first.push(new.len());
        let Block { region, phis, code, end, .. } = block;
        let mut parts = Parts { body, region, new: &mut new, own: &mut own };
        let mut open = parts.block(phis);
        for (at, instr) in code.into_iter().enumerate() {
            let mut also = Vec::new();
            instr.for_each_def(|reg| {
                also.extend(chosen.get(&reg).map(|op| Instr { op: op.clone(), ..instr.clone() }));
            });
            match numbers.get(&(index, at)) {
                Some(number) => parts.branches(&mut open, choices, number, &instr),
                None => open.code.push(instr),
            }
            open.code.extend(also);
        }
        open.end = end;
        last.push(new.len());
        new.push(open);
        own.push(false);
    }
    let count = new.len();
    let to = |list: &[usize], at: usize| list.get(at).copied().unwrap_or(count);
    for (block, own) in new.iter_mut().zip(&own) {
        if !own {
            match &mut block.end {
                End::Branch { then, otherwise, .. } => {
                    (*then, *otherwise) = (to(&first, *then), to(&first, *otherwise));
                }
                End::Jump(target) => *target = to(&first, *target),
                End::Exit => {}
            }
        }
    }
    for at in &first {
        for phi in new.get_mut(*at).into_iter().flat_map(|block| &mut block.phis) {
            for (from, _) in &mut phi.args {
                *from = to(&last, *from);
            }
        }
    }
    for region in &mut body.regions {
        let std::ops::Range { start, end } = region.blocks;
        region.blocks = to(&first, start)..to(&first, end);
    }
    for block in &mut new {
        block.preds.clear();
    }
    for index in 0..count {
        let targets: Vec<usize> =
            new.get(index).into_iter().flat_map(|block| block.end.targets()).collect();
        for target in targets {
            if let Some(target) = new.get_mut(target) {
                target.preds.push(index);
            }
        }
    }
    body.blocks = new;
}

/// The parts of one block.
struct Parts<'a> {
    body: &'a mut Body,
    region: usize,
    new: &'a mut Vec<Block>,
    /// Whether the end of a block names new blocks.
    own: &'a mut Vec<bool>,
}

impl Parts<'_> {
    fn block(&self, phis: Vec<Phi>) -> Block {
        Block { region: self.region, phis, code: Vec::new(), end: End::Exit, preds: Vec::new() }
    }

    fn push(&mut self, mut block: Block, end: End) {
        block.end = end;
        self.new.push(block);
        self.own.push(true);
    }

    /// Ends the open block by a choice between accesses, and opens the block after them.
    fn branches(&mut self, open: &mut Block, choices: &Choices, number: &Operand, instr: &Instr) {
        let Some(reg) = base(instr) else { return };
        let set = choices.of(reg);
        let leaves: Vec<(u64, Origin)> = (0..)
            .zip(&choices.leaves)
            .filter(|(at, _)| set >> at & 1 == 1)
            .map(|(a, o)| (a, *o))
            .collect();
        let like = |op: Op| Instr { guard: None, op, line: instr.line, loc: instr.loc };
        let mut defined = Vec::new();
        instr.for_each_def(|reg| defined.push(reg));
        let mut args: Vec<Vec<(usize, Option<Operand>)>> = vec![Vec::new(); defined.len()];
        // Each origin but the last has a block that compares and one that accesses. The last has only the latter.
        let after = self.new.len() + 2 * leaves.len() - 1;
        for (at, (leaf, origin)) in leaves.iter().enumerate() {
            if at + 1 < leaves.len() {
                let p = self.body.function.fresh_register(Type::Pred);
                open.code.push(like(Op::Setp {
                    cmp: Cmp::Eq,
                    ty: Type::U32,
                    ftz: false,
                    combine: None,
                    p: Some(p),
                    q: None,
                    a: *number,
                    b: Operand::Imm(*leaf),
                }));
                let then = self.new.len() + 1;
                let compares = std::mem::replace(open, self.block(Vec::new()));
                let pred = Pred { reg: p, negated: false };
                self.push(compares, End::Branch { pred, then, otherwise: then + 1 });
            }
            let mut block = self.block(Vec::new());
            let address = self.body.function.fresh_register(Type::B64);
            self.body.origins.insert(address, *origin);
            let mov = Op::Mov { ty: Type::B64, d: Some(address), a: Operand::Reg(reg) };
            block.code.push(like(mov));
            let mut copy = instr.clone();
            if let Op::Ld { addr, .. } | Op::St { addr, .. } | Op::Atom { addr, .. } = &mut copy.op
            {
                *addr = Address { base: Base::Reg(address), ..*addr };
            }
            let here = self.new.len();
            for (old, args) in defined.iter().zip(&mut args) {
                let ty = self.body.function.registers.get(old.index()).copied();
                let fresh = self.body.function.fresh_register(ty.unwrap_or(Type::B32));
                copy.for_each_register_mut(|role, reg| {
                    if role == ptx::ir::Role::Def && reg == old {
                        *reg = fresh;
                    }
                });
                args.push((here, Some(Operand::Reg(fresh))));
            }
            block.code.push(copy);
            self.push(block, End::Jump(after));
        }
        let phis = defined.into_iter().zip(args).map(|(reg, args)| Phi { reg, args }).collect();
        *open = self.block(phis);
    }
}

//! The head of an adjoint: its parameters, the frame (`geom::tape::Frame`), and the addresses of gradients.

use ptx::ir::{
    Access, Address, BinaryOp, BoolOp, Cmp, Formal, Function, FunctionKind, Instr, LabelId, LdKind,
    Linkage, Op, Operand, Order, PlaceMut, Space, Symbol, Type, VarId, Variable,
};

use super::Emit;
use super::builder::{at, holds, number, param, plain, type_of};
use crate::abi;
use crate::analysis::{Analysis, GradientSlot, Origin, Used};
use crate::body::Body;
use crate::spec::Real;

/// The parameters of an adjoint.
#[derive(Debug)]
pub(super) struct Frame {
    /// The gradient parameters.
    pub(super) gradients: Vec<VarId>,
    pub(super) frame: VarId,
    /// The kernel's first variable after the parameters: its old number, and its new one.
    old: u32,
    new: u32,
}

impl Frame {
    /// The binary logarithm of the number of partial sums.
    pub(super) fn partials_log2(&self) -> Address {
        member(self.frame, abi::PARTIALS_LOG2)
    }

    /// Returns the new number of one of the kernel's variables.
    pub(super) fn variable(&self, var: VarId) -> VarId {
        if var.0 < self.old { var } else { VarId(var.0 - self.old + self.new) }
    }

    /// Gives the kernel's variables their new numbers.
    pub(super) fn renumber(&self, instr: &mut Instr) {
        instr.for_each_place_mut(|place| {
            if let PlaceMut::Symbol(Symbol::Var(var)) = place {
                *var = self.variable(*var);
            }
        });
    }
}

/// Returns the adjoint with its parameters and the kernel's registers and variables, and no instructions.
pub(super) fn head(body: &Body, analysis: &Analysis, name: &str) -> (Function, Frame) {
    let kernel = &body.function;
    let params: Vec<VarId> = body.params().collect();
    let mut variables: Vec<Variable> = params
        .iter()
        .enumerate()
        .filter_map(|(at, var)| {
            let known = kernel.variables.get(var.index())?;
            Some(Variable { name: format!("{name}_param_{at}"), ..known.clone() })
        })
        .collect();
    let old = u32::try_from(params.len()).unwrap_or(u32::MAX);
    let fresh = |variables: &mut Vec<Variable>, variable: Variable| {
        let id = VarId(u32::try_from(variables.len()).unwrap_or(u32::MAX));
        variables.push(Variable { name: format!("{name}_param_{}", id.0), ..variable });
        id
    };
    let mut gradients = Vec::new();
    for slot in &analysis.slots {
        let variable = match slot {
            GradientSlot::Pointer(_) | GradientSlot::Partials(_) => bytes(Type::U64, 8, Vec::new()),
            GradientSlot::Structure(param) => match variables.get(*param) {
                Some(known) => known.clone(),
                None => bytes(Type::U64, 8, Vec::new()),
            },
        };
        gradients.push(fresh(&mut variables, variable));
    }
    let frame = fresh(
        &mut variables,
        bytes(Type::B8, 8, vec![u64::try_from(abi::FRAME_BYTES).unwrap_or(0)]),
    );
    let formals = (0..).zip(&variables).map(|(id, _)| Formal::Var(VarId(id))).collect();
    let new = u32::try_from(variables.len()).unwrap_or(u32::MAX);
    variables.extend(kernel.variables.iter().skip(params.len()).cloned());
    let function = Function {
        name: name.to_owned(),
        linkage: Linkage::Visible,
        kind: FunctionKind::Entry,
        returns: Vec::new(),
        params: formals,
        registers: kernel.registers.clone(),
        variables,
        labels: Vec::new(),
        tables: Vec::new(),
        prototypes: Vec::new(),
        locs: kernel.locs.clone(),
        // Pragmas of the body apply to its old instructions.
        directives: ptx::ir::Directives { pragmas: Vec::new(), ..kernel.directives.clone() },
        body: None,
        line: 0,
    };
    (function, Frame { gradients, frame, old, new })
}

/// The address of a member of the frame.
pub(super) fn member(frame: VarId, offset: usize) -> Address {
    param(frame, i64::try_from(offset).unwrap_or(0))
}

/// Returns a parameter without a name.
fn bytes(ty: Type, align: u32, dims: Vec<u64>) -> Variable {
    Variable::new(String::new(), Space::Param, ty, dims, align)
}

impl Emit<'_> {
    /// Writes the code before the replay. Returns the label for threads that have nothing to do.
    pub(super) fn begin(&mut self, frame: &Frame) -> LabelId {
        let end = self.b.label();
        self.shape_begin();
        self.shared_begin(frame);
        self.sums_begin();
        self.shadows_begin(frame);
        // After an overflow, or if the recorded launches have not run, `code` is set and nothing is read.
        let status = self.b.load(Space::Param, Type::U64, member(frame.frame, abi::STATUS));
        let some = self.b.setp(Cmp::Ne, Type::U64, Operand::Reg(status), Operand::Imm(0));
        let code = self.b.moved(Type::U32, Operand::Imm(0));
        let access = Access { order: Order::Volatile, ..plain(Space::Global) };
        let (kind, ty, d, addr) = (LdKind::Plain, Type::U32, [Some(code)].into(), at(status, 0));
        self.b.push_if(holds(some), Op::Ld { kind, access, ty, d, addr });
        let code = self.code_of_block(code);
        let stop = self.b.setp(Cmp::Ne, Type::U32, Operand::Reg(code), Operand::Imm(0));
        self.b.jump_if(holds(stop), end);
        self.stack_begin(frame, status, end);
        end
    }

    /// Makes the sums for numbers that were passed by value.
    fn sums_begin(&mut self) {
        for (place, real) in self.numbers() {
            let sum = self.b.moved(type_of(real), number(real, 0.0));
            self.sums.scalars.insert(place, sum);
        }
    }

    /// Returns the active numbers that were passed by value.
    fn numbers(&self) -> Vec<((usize, u64), Real)> {
        let mut found = Vec::new();
        for slot in &self.analysis.slots {
            let GradientSlot::Partials(param) = *slot else { continue };
            found.extend(
                self.analysis
                    .pointers
                    .numbers_of(param)
                    .map(|(offset, real)| ((param, offset), real)),
            );
        }
        found
    }

    /// Loads the addresses of gradients, as distances from the values.
    fn shadows_begin(&mut self, frame: &Frame) {
        for (index, pointer) in self.analysis.pointers.iter().enumerate() {
            let Some(slot) = pointer.slot else { continue };
            let Some(&gradient) = frame.gradients.get(slot) else { continue };
            let structure =
                matches!(self.analysis.slots.get(slot), Some(GradientSlot::Structure(_)));
            let offset = i64::from(pointer.spec.offset);
            let Some(own) = u32::try_from(pointer.param).ok().map(VarId) else { continue };
            let values = self.b.load(Space::Param, Type::U64, param(own, offset));
            let place = if structure { offset } else { 0 };
            let gradients = self.b.load(Space::Param, Type::U64, param(gradient, place));
            let some = self.b.setp(Cmp::Ne, Type::U64, Operand::Reg(gradients), Operand::Imm(0));
            let [values, gradients] =
                [values, gradients].map(|address| self.b.global_address(address));
            let mut delta = gradients;
            for _ in 0..self.analysis.pointers.scale(index) {
                let (a, b) = (Operand::Reg(delta), Operand::Reg(values));
                delta = self.b.binary(BinaryOp::Sub, Type::S64, a, b);
            }
            // Returns a predicate: there are gradients, and the bit in the frame's mask is clear.
            let unless = |this: &mut Self, mask: usize| {
                // The word of the mask that has the bit.
                let place = member(frame.frame, mask + slot / 32 * 4);
                let mask = this.b.load(Space::Param, Type::U32, place);
                let bit = Operand::Imm(1 << (slot % 32));
                let masked = this.b.binary(BinaryOp::And, Type::B32, Operand::Reg(mask), bit);
                let (masked, zero, with) = (Operand::Reg(masked), Operand::Imm(0), holds(some));
                this.b.setp_with(Cmp::Eq, Type::U32, masked, zero, (BoolOp::And, with))
            };
            let covers = self.covers(index);
            let reads =
                self.analysis.effects.get(index).is_some_and(|used| !used.stored && !used.added);
            let adds = (covers && reads).then(|| unless(self, abi::ASSIGN));
            let clears =
                stores_once(self.body, self.analysis, index).then(|| unless(self, abi::DROP));
            for (list, found) in
                [(&mut self.shadows.adds, adds), (&mut self.shadows.clears, clears)]
            {
                if let Some(place) = list.get_mut(index) {
                    *place = found;
                }
            }
            if let Some(place) = self.shadows.pointers.get_mut(index) {
                *place = Some((delta, some));
            }
        }
    }

    /// Writes the code that every thread executes last.
    pub(super) fn finish(&mut self, frame: &Frame) {
        self.rows_end();
        self.partial_sums(frame);
        self.b.push(Op::Ret { uni: false });
    }
}

/// Returns whether each byte is stored at most once. If so, the reverse of a store need not clear the gradient where
/// the frame says so. (The reverse of a second store must read zero.)
pub(crate) fn stores_once(body: &Body, analysis: &Analysis, pointer: usize) -> bool {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    let Some(owned) = analysis.thread_owned.get(pointer) else {
        return stores(body, analysis, pointer) == 1;
    };
    if owned.sites.iter().any(|site| body.region_of(site.block) > 0) {
        return false;
    }
    for site in &owned.sites {
        spans.push((site.at, site.at.saturating_add(i64::from(site.bytes))));
    }
    spans.sort_unstable();
    spans.windows(2).all(|pair| matches!(pair, [(_, end), (start, _)] if end <= start))
}

fn stores(body: &Body, analysis: &Analysis, pointer: usize) -> usize {
    let to = |instr: &Instr| match &instr.op {
        Op::St { addr, .. } => {
            analysis.forms.address(body, addr).origin == Origin::Pointer(pointer)
        }
        _ => false,
    };
    // A store in a loop counts twice: it may repeat an address.
    let times = |block: usize| if body.region_of(block) > 0 { 2 } else { 1 };
    body.instrs().filter(|(_, instr)| to(instr)).map(|(block, _)| times(block)).sum()
}

/// Returns whether the adjoint only reads a gradient that is dropped.
pub(crate) fn drops(body: &Body, analysis: &Analysis, pointer: usize) -> bool {
    let known = |(_, instr): (usize, &Instr)| match &instr.op {
        // A store to a chosen pointer may clear the gradients of each.
        Op::St { addr, .. } => !matches!(
            analysis.forms.address(body, addr).origin,
            Origin::Choice(_) | Origin::Unknown
        ),
        _ => true,
    };
    let only_stored = |used: &Used| used.stored && !used.loaded && !used.added;
    analysis.effects.get(pointer).is_some_and(only_stored)
        && stores_once(body, analysis, pointer)
        && body.instrs().all(known)
}

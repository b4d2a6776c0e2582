//! Rewriting a body from its first to its last instruction, with labels that keep their places.

use crate::ir::{Function, Instr, LabelId, LocId, Module, Names, Op, Operand, Pred, RegId, Type};

/// A function whose body is rewritten. Labels that the function had are before the same instruction as before, which
/// [`begin`](Self::begin) announces; new labels are placed in the new body.
pub(crate) struct Edit {
    pub(crate) function: Function,
    pub(crate) names: Names,
    body: Vec<Instr>,
    /// Where each old instruction is in the new body, and the end; `u32::MAX` for those that are left out.
    places: Vec<u32>,
    old_labels: usize,
}

impl Edit {
    /// Takes a copy of `function`, and returns its instructions beside it.
    pub(crate) fn new(module: &Module, function: &Function) -> (Self, Vec<Instr>) {
        let names = Names::new(module, function);
        let mut function = function.clone();
        let old = function.body.take().unwrap_or_default();
        let edit = Self {
            names,
            body: Vec::with_capacity(old.len()),
            places: vec![u32::MAX; old.len() + 1],
            old_labels: function.labels.len(),
            function,
        };
        (edit, old)
    }

    /// States that the old instruction at `at`, or the end of the old body, begins here.
    pub(crate) fn begin(&mut self, at: usize) {
        let here = self.here();
        if let Some(place) = self.places.get_mut(at) {
            *place = here;
        }
    }

    pub(crate) fn push(&mut self, instr: Instr) {
        self.body.push(instr);
    }

    /// Returns a new label, without a place.
    pub(crate) fn label(&mut self, stem: &str) -> LabelId {
        self.function.fresh_label(&mut self.names, stem, usize::MAX)
    }

    /// Puts a new label here.
    pub(crate) fn place(&mut self, label: LabelId) {
        let here = self.here();
        if let Some(label) = self.function.labels.get_mut(label.index()) {
            label.at = here;
        }
    }

    /// Adds `bra` to `target`, with the place in the text and source of `like`.
    pub(crate) fn branch(&mut self, guard: Option<Pred>, target: LabelId, like: Origin) {
        let Origin { line, loc } = like;
        self.push(Instr { guard, op: Op::Bra { uni: false, target }, line, loc });
    }

    /// Returns the position of the next instruction in the new body.
    pub(crate) fn here(&self) -> u32 {
        u32::try_from(self.body.len()).unwrap_or(u32::MAX)
    }

    /// Returns the function. Labels of instructions that were left out are at the end.
    pub(crate) fn finish(self) -> Function {
        let Self { mut function, body, places, old_labels, .. } = self;
        let end = u32::try_from(body.len()).unwrap_or(u32::MAX);
        for label in function.labels.iter_mut().take(old_labels) {
            let at = places.get(label.at as usize).or(places.last());
            label.at = at.map_or(end, |&at| at.min(end));
        }
        function.body = Some(body);
        function
    }
}

/// The place of an instruction in the text and in the source.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) line: u32,
    pub(crate) loc: Option<LocId>,
}

impl Origin {
    pub(crate) const NONE: Self = Self { line: 0, loc: None };

    pub(crate) fn of(instr: &Instr) -> Self {
        Self { line: instr.line, loc: instr.loc }
    }
}

/// Returns the operation that copies the register `a` of type `ty` to `d`.
pub(crate) fn copy(ty: Type, d: RegId, a: RegId) -> Op {
    let (d, a) = (Some(d), Operand::Reg(a));
    let ty = match ty.bits() {
        _ if ty == Type::Pred => Type::Pred,
        // `mov` has no form for bytes.
        1..=8 => {
            let (to, from) = (Type::U8, Type::U8);
            let (rounding, b) = (None, None);
            let (ftz, sat, satfinite, relu) = (false, false, false, false);
            return Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b };
        }
        16 => Type::B16,
        32 => Type::B32,
        128 => Type::B128,
        _ => Type::B64,
    };
    Op::Mov { ty, d, a }
}

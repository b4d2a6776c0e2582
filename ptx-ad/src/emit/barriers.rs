//! Barriers: those of the kernel in its copy, and one for each in the reverse.
//!
//! Where some threads may leave the kernel before others reach a barrier, the threads that reach one say so in shared
//! memory: they store the number of the barrier before it. Threads that have left join in until nobody has come, and
//! count how often. In the reverse they first pass as many barriers, so all threads of the block pass the same number,
//! and each of their accesses is between the same barriers as in the kernel.
//!
//! A barrier with a result (`barrier.red`) would say who has come, but devices need converged warps for it.

use ptx::ir::{
    Access, Address, BarOp, Base, BinaryOp, BoolOp, Cmp, Dim, Instr, LdKind, Op, Operand, Order,
    Pred, RegId, Scope, Space, Special, Symbol, Type, VarId, Variable,
};

use super::Emit;
use super::builder::{holds, plain};
use super::sums::Thread;
use crate::analysis::{Shape, is_block_barrier};

/// Words of shared memory by which the threads of a block agree.
#[derive(Debug, Clone, Copy)]
enum Word {
    /// The code of the status.
    Code,
    /// The number of the last barrier that a thread has come to.
    Reached,
    /// Whether a thread has too little scratch memory.
    Full,
}

const WORDS: u64 = 3;

/// The bytes of these words.
pub(super) const WORD_BYTES: u64 = WORDS * 4;

/// What the threads of a block have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    words: VarId,
    /// How many barriers the thread has come to, if some may leave before others.
    reached: RegId,
}

/// The barrier of a block's threads.
fn of_block(aligned: bool) -> Op {
    let (op, barrier) = (BarOp::Sync, Operand::Imm(0));
    Op::Bar { op, aligned, d: None, barrier, threads: None, p: None }
}

impl Emit<'_> {
    /// Returns the code of the status as the first thread of the block has read it, if the threads need each other:
    /// another block may raise it meanwhile. All of the block come to the barrier in here.
    pub(super) fn code_of_block(&mut self, code: RegId) -> RegId {
        if !self.plan.barriers.agreed {
            return code;
        }
        let name = format!("{}_words", self.b.function.name);
        let words = Variable::new(name, Space::Shared, Type::B32, vec![WORDS], 4);
        let words = self.b.function.add_variable(words);
        let reached = self.b.moved(Type::U32, Operand::Imm(0));
        self.replay.common = Some(Common { words, reached });
        let Thread { index, .. } = self.thread();
        let first = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(index), Operand::Imm(0));
        for (word, value) in [
            (Word::Code, Operand::Reg(code)),
            (Word::Reached, Operand::Imm(0)),
            (Word::Full, Operand::Imm(0)),
        ] {
            self.store_word(Some(holds(first)), word, value);
        }
        self.b.push(of_block(self.plan.barriers.together));
        self.load_word(Word::Code)
    }

    /// Returns whether a predicate holds for any thread of the block. All of the block come here, once.
    pub(super) fn any_of_block(&mut self, p: RegId) -> RegId {
        self.store_word(Some(holds(p)), Word::Full, Operand::Imm(1));
        self.b.push(of_block(self.plan.barriers.together));
        let any = self.load_word(Word::Full);
        self.b.setp(Cmp::Ne, Type::U32, Operand::Reg(any), Operand::Imm(0))
    }

    /// Before a barrier of the copy of the kernel: says that a thread has come to it, if threads may leave before.
    pub(super) fn reach(&mut self, instr: &mut Instr) {
        let Some(reached) = self.common_unless_together() else { return };
        if is_block_barrier(instr) {
            let one = Operand::Imm(1);
            self.b.binary_to(BinaryOp::Add, Type::U32, reached, Operand::Reg(reached), one);
            self.store_word(None, Word::Reached, Operand::Reg(reached));
            instr.op = of_block(false);
        }
    }

    /// After the copy of the kernel: waits until all threads of the block have left it.
    pub(super) fn wait_for_others(&mut self) {
        let Some(reached) = self.common_unless_together() else { return };
        let reg = Operand::Reg;
        // Each round is a barrier that others may have come to.
        let own = self.b.binary(BinaryOp::Add, Type::U32, reg(reached), Operand::Imm(1));
        let again = self.b.label();
        self.b.place(again);
        self.b.binary_to(BinaryOp::Add, Type::U32, reached, reg(reached), Operand::Imm(1));
        self.b.push(of_block(false));
        // Who has gone on to the next barrier was at this one, too.
        let last = self.load_word(Word::Reached);
        let others = self.b.setp(Cmp::Hs, Type::U32, reg(last), reg(reached));
        self.b.jump_if(holds(others), again);
        self.replay.rounds = Some(self.b.binary(BinaryOp::Sub, Type::U32, reg(reached), reg(own)));
    }

    /// Before the reverse: passes the barriers of threads that have left later.
    pub(super) fn pass_rounds(&mut self) {
        let Some(rounds) = self.replay.rounds else { return };
        let (again, over) = (self.b.label(), self.b.label());
        self.b.place(again);
        let none = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(rounds), Operand::Imm(0));
        self.b.jump_if(holds(none), over);
        self.b.push(of_block(false));
        let one = Operand::Imm(1);
        self.b.binary_to(BinaryOp::Sub, Type::U32, rounds, Operand::Reg(rounds), one);
        self.b.jump(again);
        self.b.place(over);
    }

    /// Writes the reverse of a barrier: a barrier.
    pub(super) fn reverse_barrier(&mut self, instr: &Instr) {
        if !self.plan.barriers.kept {
            return;
        }
        match instr.op {
            Op::Bar { aligned, .. } => {
                self.b.push(of_block(aligned && self.plan.barriers.together));
            }
            Op::BarWarp { mask } => self.b.push(Op::BarWarp { mask }),
            _ => {}
        }
    }

    fn common_unless_together(&self) -> Option<RegId> {
        let common = self.replay.common.filter(|_| !self.plan.barriers.together);
        common.map(|common| common.reached)
    }

    fn store_word(&mut self, guard: Option<Pred>, word: Word, value: Operand) {
        let Some(addr) = self.address_of(word) else { return };
        let op = Op::St { access: relaxed(), ty: Type::B32, addr, a: [value].into() };
        match guard {
            Some(guard) => self.b.push_if(guard, op),
            None => self.b.push(op),
        }
    }

    fn load_word(&mut self, word: Word) -> RegId {
        let d = self.b.moved(Type::U32, Operand::Imm(0));
        if let Some(addr) = self.address_of(word) {
            let (kind, d) = (LdKind::Plain, [Some(d)].into());
            self.b.push(Op::Ld { kind, access: relaxed(), ty: Type::U32, d, addr });
        }
        d
    }

    fn address_of(&self, word: Word) -> Option<Address> {
        let base = Base::Symbol(Symbol::Var(self.replay.common?.words));
        Some(Address { base, offset: 4 * word as i64 })
    }

    /// Ends the kernel where warps are not what its code takes them for: exchanges would wait for ever.
    pub(super) fn shape_begin(&mut self) {
        let shape = self.plan.barriers.shape;
        if shape == Shape::Any {
            return;
        }
        let [x, y, z] = [Dim::X, Dim::Y, Dim::Z]
            .map(|dim| self.b.moved(Type::U32, Operand::Special(Special::Ntid(dim))));
        let reg = Operand::Reg;
        let rest = self.b.binary(BinaryOp::And, Type::B32, reg(x), Operand::Imm(31));
        let mut wrong = self.b.setp(Cmp::Ne, Type::U32, reg(rest), Operand::Imm(0));
        if shape == Shape::Rows {
            let rows = self.b.binary(BinaryOp::Or, Type::B32, reg(y), reg(z));
            let many = (BoolOp::And, holds(wrong));
            wrong = self.b.setp_with(Cmp::Hi, Type::U32, reg(rows), Operand::Imm(1), many);
        }
        self.b.push_if(holds(wrong), Op::Trap);
    }
}

/// An access that may meet those of other threads.
fn relaxed() -> Access {
    Access { order: Order::Relaxed, scope: Some(Scope::Cta), ..plain(Space::Shared) }
}

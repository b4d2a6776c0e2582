//! Sums over a block of what its warps have summed: see `batch`.
//!
//! Additions to one address wait for each other, some 30 cycles each (H200): with one of each warp, a pass through a small
//! network waits four times as long for its weights' gradients as for all else. So a warp writes its sums to shared memory, with
//! their address, and at the end of the kernel, where every thread comes, a warp adds those of the block.

use ptx::ir::{BarOp, BinaryOp, Cmp, Op, Operand, RegId, Space, Symbol, Type, VarId, Variable};

use super::Emit;
use super::batch::Sum;
use super::builder::{at, fails, holds, number, type_of};
use super::sums::Thread;
use crate::spec::Real;

/// Bytes of shared memory for them, at most. Numbers that are passed by value may have 8 KB, and a block has 48.
const MOST_SHARED: u32 = 40 << 10;
/// A block has at most so many.
const WARPS: u32 = 32;
/// The bytes of a row before its sums: the address.
const HEAD: u32 = 8;

/// Sums that are added together: where they go, and of which type they are.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) real: Real,
    pub(super) space: Space,
    /// Where each lies, relative to the first, and where that lies from an address, in bytes.
    pub(super) offsets: Vec<u32>,
    pub(super) start: i64,
}

/// Shared memory with a row for each warp, for each of several sums.
#[derive(Debug, Default)]
pub(super) struct Rows {
    memory: Option<VarId>,
    bytes: u32,
    all: Vec<(Gathered, Row)>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    start: u32,
    bytes: u32,
}

impl Emit<'_> {
    /// Writes the sums of a warp, and their address, for the end of the kernel. Returns them if they have to be added at once:
    /// if they may come again, or have no room. All threads of the warp come here.
    pub(super) fn gather(
        &mut self,
        sums: Gathered,
        once: bool,
        base: RegId,
        sum: &Sum,
    ) -> Option<Gathered> {
        let count = u32::try_from(sums.offsets.len()).unwrap_or(u32::MAX);
        let size = sums.real.bytes();
        let words = count.checked_mul(size).and_then(|bytes| bytes.checked_next_multiple_of(8));
        let bytes = words.and_then(|words| words.checked_add(HEAD)).unwrap_or(u32::MAX);
        let start = self.rows.bytes;
        let end = bytes.checked_mul(WARPS).and_then(|bytes| bytes.checked_add(start));
        let Some(end) = end.filter(|end| once && *end <= MOST_SHARED) else { return Some(sums) };
        let memory = match self.rows.memory {
            Some(memory) => memory,
            None => {
                let name = format!("{}_rows", self.b.function.name);
                // `rows_begin` knows how large it is.
                let rows = Variable::new(name, Space::Shared, Type::B64, vec![1], 8);
                *self.rows.memory.insert(self.b.function.add_variable(rows))
            }
        };
        let row = Row { start, bytes };
        let thread = self.thread();
        let own = self.row(memory, row, thread.warp);
        let to = self.b.mad_wide(sum.index, Operand::Imm(u64::from(size)), own);
        let value = [Operand::Reg(sum.value)];
        let ty = type_of(sums.real);
        self.b.store(Some(holds(sum.owner)), Space::Shared, ty, at(to, HEAD.into()), &value);
        let leads = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(thread.lane), Operand::Imm(0));
        self.b.store(
            Some(holds(leads)),
            Space::Shared,
            Type::U64,
            at(own, 0),
            &[Operand::Reg(base)],
        );
        self.rows.bytes = end;
        self.rows.all.push((sums, row));
        None
    }

    /// Writes what comes before everything, when the rest is known: no warp has come yet.
    pub(super) fn rows_begin(&mut self) {
        let Some(memory) = self.rows.memory else { return };
        if let Some(rows) = self.b.function.variables.get_mut(memory.index()) {
            rows.dims = vec![u64::from(self.rows.bytes / 8)];
        }
        let body = std::mem::take(&mut self.b.code);
        let thread = self.thread();
        let leads = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(thread.lane), Operand::Imm(0));
        let rows: Vec<Row> = self.rows.all.iter().map(|(_, row)| *row).collect();
        for row in rows {
            let own = self.row(memory, row, thread.warp);
            self.b.store(
                Some(holds(leads)),
                Space::Shared,
                Type::U64,
                at(own, 0),
                &[Operand::Imm(0)],
            );
        }
        self.b.code.extend(body);
    }

    /// Adds the sums over the block. Every thread of the block comes here.
    pub(super) fn rows_end(&mut self) {
        let Some(memory) = self.rows.memory else { return };
        let all = std::mem::take(&mut self.rows.all);
        let Thread { lane, warp, count, .. } = self.thread();
        let reg = Operand::Reg;
        self.barrier(BarOp::Sync);
        // A warp that is not full adds nothing, and has not written.
        let warps = self.b.binary(BinaryOp::Shr, Type::U32, reg(count), Operand::Imm(5));
        let end = self.b.label();
        let absent = self.b.setp(Cmp::Hs, Type::U32, reg(warp), reg(warps));
        self.b.jump_if(holds(absent), end);
        for (number_of, (sums, row)) in (0u64..).zip(&all) {
            // The warps take turns.
            let over = self.b.label();
            let turn = self.b.binary(BinaryOp::Rem, Type::U32, Operand::Imm(number_of), reg(warps));
            let others = self.b.setp(Cmp::Ne, Type::U32, reg(turn), reg(warp));
            self.b.jump_if(holds(others), over);
            let ty = type_of(sums.real);
            let size = Operand::Imm(sums.real.bytes().into());
            let (index, owner) = self.owner(lane, sums.offsets.len());
            let value = self.b.moved(ty, number(sums.real, 0.0));
            let base = self.b.moved(Type::U64, Operand::Imm(0));
            let other = self.b.moved(Type::U32, Operand::Imm(0));
            let next = self.b.label();
            let skip = self.b.label();
            self.b.place(next);
            let from = self.row(memory, *row, other);
            let address = self.b.load(Space::Shared, Type::U64, at(from, 0));
            let came = self.b.setp(Cmp::Ne, Type::U64, reg(address), Operand::Imm(0));
            self.b.jump_if(fails(came), skip);
            self.b.copy(Type::U64, base, reg(address));
            let from = self.b.mad_wide(index, size, from);
            let theirs = self.b.moved(ty, number(sums.real, 0.0));
            let place = at(from, HEAD.into());
            self.b.load_to(Some(holds(owner)), Space::Shared, ty, &[Some(theirs)], place);
            self.b.binary_to(BinaryOp::Add, ty, value, reg(value), reg(theirs));
            self.b.place(skip);
            self.b.binary_to(BinaryOp::Add, Type::U32, other, reg(other), Operand::Imm(1));
            let more = self.b.setp(Cmp::Lo, Type::U32, reg(other), reg(warps));
            self.b.jump_if(holds(more), next);
            let none = self.b.setp(Cmp::Eq, Type::U64, reg(base), Operand::Imm(0));
            self.b.jump_if(holds(none), over);
            self.add_sum(sums, base, lane, &Sum { value, index, owner });
            self.b.place(over);
        }
        self.b.place(end);
        self.rows.all = all;
    }

    /// Returns the address of a warp's row.
    fn row(&mut self, memory: VarId, row: Row, warp: RegId) -> RegId {
        let symbol = Operand::Symbol(Symbol::Var(memory), i64::from(row.start));
        let base = self.b.moved(Type::U64, symbol);
        self.b.mad_wide(warp, Operand::Imm(row.bytes.into()), base)
    }

    pub(super) fn barrier(&mut self, op: BarOp) {
        let barrier = Operand::Imm(0);
        self.b.push(Op::Bar { op, aligned: true, d: None, barrier, threads: None, p: None });
    }
}

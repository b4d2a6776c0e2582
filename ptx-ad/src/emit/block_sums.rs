//! Sums over a block of the sums of its warps: see `warp_sums`.
//!
//! Atomic additions to one address are serialised, some 30 cycles each (H200): with one per warp, the gradients of a
//! small network's weights take four times as long as all other work. So a warp stores its sums and their address in
//! shared memory. At the end of the kernel, where every thread arrives, one warp adds those of the block.

use ptx::ir::{BarOp, BinaryOp, Cmp, Op, Operand, RegId, Space, Symbol, Type, VarId, Variable};

use super::Emit;
use super::builder::{at, fails, holds, number, type_of};
use super::shared::shared_bytes;
use super::sums::Thread;
use super::warp_sums::Sum;
use crate::spec::Real;

/// Bytes of shared memory for the rows, at most. A block has 48 KB, of which numbers passed by value may take 8.
const MOST_SHARED: u32 = 40 << 10;
/// The most warps that a block has.
const WARPS: u32 = 32;
/// Bytes of a row before its sums: their address.
const HEAD: u32 = 8;

/// Sums that are added together: their type, and where they go.
#[derive(Debug)]
pub(super) struct BlockSums {
    pub(super) real: Real,
    pub(super) space: Space,
    /// Bytes from the first gradient to each, and from the address to the first.
    pub(super) offsets: Vec<u32>,
    pub(super) start: i64,
}

/// Shared memory for several groups of sums: each has a row for each warp.
#[derive(Debug, Default)]
pub(super) struct Rows {
    memory: Option<VarId>,
    bytes: u32,
    all: Vec<(BlockSums, Row)>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    start: u32,
    bytes: u32,
}

impl Emit<'_> {
    /// Stores the sums of a warp and their address for the end of the kernel. Returns the sums if they must be added at
    /// once: if they may come again, or the rows are full. All threads of the warp execute this.
    pub(super) fn defer_to_block(
        &mut self,
        sums: BlockSums,
        once: bool,
        base: RegId,
        sum: &Sum,
    ) -> Option<BlockSums> {
        let count = u32::try_from(sums.offsets.len()).unwrap_or(u32::MAX);
        let size = sums.real.bytes();
        let words = count.checked_mul(size).and_then(|bytes| bytes.checked_next_multiple_of(8));
        let bytes = words.and_then(|words| words.checked_add(HEAD)).unwrap_or(u32::MAX);
        let start = self.sums.rows.bytes;
        let end = bytes.checked_mul(WARPS).and_then(|bytes| bytes.checked_add(start));
        let free = u64::from(MOST_SHARED).saturating_sub(shared_bytes(self.body, self.analysis));
        let Some(end) = end.filter(|end| once && u64::from(*end) <= free) else {
            return Some(sums);
        };
        let memory = match self.sums.rows.memory {
            Some(memory) => memory,
            None => {
                let name = format!("{}_rows", self.b.function.name);
                // `rows_begin` sets the size of `rows`.
                let rows = Variable::new(name, Space::Shared, Type::B64, vec![1], 8);
                *self.sums.rows.memory.insert(self.b.function.add_variable(rows))
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
        self.sums.rows.bytes = end;
        self.sums.rows.all.push((sums, row));
        None
    }

    /// Writes the start of the kernel, once the rows are known: clears their addresses.
    pub(super) fn rows_begin(&mut self) {
        let Some(memory) = self.sums.rows.memory else { return };
        if let Some(rows) = self.b.function.variables.get_mut(memory.index()) {
            rows.dims = vec![u64::from(self.sums.rows.bytes / 8)];
        }
        let body = std::mem::take(&mut self.b.code);
        let thread = self.thread();
        let leads = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(thread.lane), Operand::Imm(0));
        let rows: Vec<Row> = self.sums.rows.all.iter().map(|(_, row)| *row).collect();
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

    /// Adds the sums over the block. Every thread of the block executes this.
    pub(super) fn rows_end(&mut self) {
        let Some(memory) = self.sums.rows.memory else { return };
        let all = std::mem::take(&mut self.sums.rows.all);
        let Thread { lane, warp, count, .. } = self.thread();
        let reg = Operand::Reg;
        self.barrier(BarOp::Sync);
        // Only full warps have stored rows, so `warps` is rounded down.
        let warps = self.b.binary(BinaryOp::Shr, Type::U32, reg(count), Operand::Imm(5));
        let end = self.b.label();
        let absent = self.b.setp(Cmp::Hs, Type::U32, reg(warp), reg(warps));
        self.b.jump_if(holds(absent), end);
        for (number_of, (sums, row)) in (0u64..).zip(&all) {
            // Each group of sums is added by one warp, in turn.
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
            let executed = self.b.setp(Cmp::Ne, Type::U64, reg(address), Operand::Imm(0));
            self.b.jump_if(fails(executed), skip);
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
        self.sums.rows.all = all;
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

//! Scratch memory of loops: for each thread a stack of words of 32 bits, and a log that grows from the other end.
//!
//! Word s of thread t of T lies at `s * T + t`, so that the accesses of a warp coalesce. Each iteration of a loop
//! pushes the values that the loop carries; the reverse pops them and repeats the iteration. Results that can't be
//! repeated are logged once, as the kernel runs, and read by each copy of their code.
//!
//! The need is known after the copy of the kernel, before any gradient is touched: a thread whose memory is too small
//! counts on, reports the need, and exits. Inner loops push while the loop around is reversed; the peak includes that.

use std::collections::HashMap;

use ptx::ir::{
    AtomOp, BinaryOp, Cmp, Dim, Instr, LabelId, LdKind, Mode, MulPart, Op, Operand, Order, Pred,
    RegId, Scope, Space, Special, Type,
};

use super::Emit;
use super::builder::{Link, at, fails, holds, plain};
use super::frame::{Frame, member};
use super::plan::words;
use crate::abi;

/// The registers of a thread's stack.
#[derive(Debug)]
pub(super) struct Stack {
    /// The address of the thread's word 0.
    base: RegId,
    /// Bytes from one word of a thread to the next: as 32 and as 64 bits.
    apart: RegId,
    apart_wide: RegId,
    /// The number of words.
    capacity: RegId,
    /// Words on the stack now, and at most.
    height: RegId,
    peak: RegId,
    /// Words in the log.
    logged: RegId,
    /// The read position in the log of each copy of the code, by the depth of its loop.
    positions: HashMap<usize, RegId>,
    /// The height after the last push of each loop.
    heights: HashMap<usize, RegId>,
    /// The address of the status, to which an overflow is reported, and bytes from the start of scratch memory to word
    /// 0.
    status: RegId,
    start: RegId,
    /// The address of the thread's mark.
    mark: RegId,
}

impl Emit<'_> {
    /// Makes the stack. Threads that have finished in an earlier run jump to `end`.
    pub(super) fn stack_begin(&mut self, frame: &Frame, status: RegId, end: LabelId) {
        if !self.plan.has_stack() {
            return;
        }
        let reg = Operand::Reg;
        let (thread, threads) = self.thread_of_launch();
        let scratch = self.b.load(Space::Param, Type::U64, member(frame.frame, abi::SCRATCH));
        let bytes = self.b.load(Space::Param, Type::U64, member(frame.frame, abi::SCRATCH_BYTES));
        let marks = self.b.binary(
            BinaryOp::Add,
            Type::S64,
            reg(threads),
            Operand::Imm(abi::SCRATCH_HEADER + abi::SCRATCH_ALIGN - 1),
        );
        let mask = Operand::Imm(!(abi::SCRATCH_ALIGN - 1));
        let start = self.b.binary(BinaryOp::And, Type::B64, reg(marks), mask);
        let apart_wide = self.b.binary(BinaryOp::Shl, Type::B64, reg(threads), Operand::Imm(2));
        let apart = self.b.reg(Type::U32);
        self.b.convert(Type::U32, Type::U64, apart, apart_wide);
        // `max` makes memory that is smaller than the header empty.
        let rest = self.b.binary(BinaryOp::Max, Type::U64, reg(bytes), reg(start));
        let rest = self.b.binary(BinaryOp::Sub, Type::S64, reg(rest), reg(start));
        let capacity = self.b.binary(BinaryOp::Div, Type::U64, reg(rest), reg(apart_wide));
        let most = Operand::Imm(u64::from(u32::MAX >> 1));
        let wide = self.b.binary(BinaryOp::Min, Type::U64, reg(capacity), most);
        let capacity = self.b.reg(Type::U32);
        self.b.convert(Type::U32, Type::U64, capacity, wide);
        let first = self.b.binary(BinaryOp::Add, Type::S64, reg(scratch), reg(start));
        let own = self.b.binary(BinaryOp::Shl, Type::B64, reg(thread), Operand::Imm(2));
        let base = self.b.binary(BinaryOp::Add, Type::S64, reg(first), reg(own));
        let header = Operand::Imm(abi::SCRATCH_HEADER);
        let marks = self.b.binary(BinaryOp::Add, Type::S64, reg(scratch), header);
        let mark = self.b.binary(BinaryOp::Add, Type::S64, reg(marks), reg(thread));
        // In a pass that is resumed, the finished threads have a mark.
        let flags = self.b.load(Space::Param, Type::U32, member(frame.frame, abi::FLAGS));
        let bit = Operand::Imm(u64::from(abi::RESUME));
        let resumes = self.b.binary(BinaryOp::And, Type::B32, reg(flags), bit);
        let resumes = self.b.setp(Cmp::Ne, Type::U32, reg(resumes), Operand::Imm(0));
        let marked = self.b.moved(Type::U32, Operand::Imm(0));
        let access = ptx::ir::Access { order: Order::Volatile, ..plain(Space::Global) };
        let (kind, ty, d, addr) = (LdKind::Plain, Type::U8, [Some(marked)].into(), at(mark, 0));
        self.b.push_if(holds(resumes), Op::Ld { kind, access, ty, d, addr });
        let finished = self.b.setp(Cmp::Ne, Type::U32, reg(marked), Operand::Imm(0));
        self.b.jump_if(holds(finished), end);
        let zero = |this: &mut Self| this.b.moved(Type::U32, Operand::Imm(0));
        let (height, peak, logged) = (zero(self), zero(self), zero(self));
        let (positions, heights) = (HashMap::new(), HashMap::new());
        self.stack = Some(Stack {
            base,
            apart,
            apart_wide,
            capacity,
            height,
            peak,
            logged,
            positions,
            heights,
            status,
            start,
            mark,
        });
    }

    /// Returns the index of the thread in the launch, and the number of threads, as 64 bits.
    fn thread_of_launch(&mut self) -> (RegId, RegId) {
        let special = |this: &mut Self, special: Special| {
            let narrow = this.b.moved(Type::U32, Operand::Special(special));
            let wide = this.b.reg(Type::U64);
            this.b.convert(Type::U64, Type::U32, wide, narrow);
            wide
        };
        let dims = [Dim::X, Dim::Y, Dim::Z];
        let [tx, ty, tz] = dims.map(|dim| special(self, Special::Tid(dim)));
        let [nx, ny, nz] = dims.map(|dim| special(self, Special::Ntid(dim)));
        let [cx, cy, cz] = dims.map(|dim| special(self, Special::Ctaid(dim)));
        let [gx, gy, gz] = dims.map(|dim| special(self, Special::Nctaid(dim)));
        let zero = Operand::Imm(0);
        let plane = self.mad_wide(tz, ny, Operand::Reg(ty));
        let in_block = self.mad_wide(plane, nx, Operand::Reg(tx));
        let plane = self.mad_wide(cz, gy, Operand::Reg(cy));
        let block = self.mad_wide(plane, gx, Operand::Reg(cx));
        let plane = self.mad_wide(nx, ny, zero);
        let of_block = self.mad_wide(plane, nz, zero);
        let plane = self.mad_wide(gx, gy, zero);
        let blocks = self.mad_wide(plane, gz, zero);
        let thread = self.mad_wide(block, of_block, Operand::Reg(in_block));
        (thread, self.mad_wide(blocks, of_block, zero))
    }

    /// `a * b + c` in 64 bits.
    fn mad_wide(&mut self, a: RegId, b: RegId, c: Operand) -> RegId {
        let d = self.b.reg(Type::U64);
        let (part, mode) = (Some(MulPart::Lo), Mode::default());
        let [a, b] = [a, b].map(Operand::Reg);
        self.b.push(Op::Mad { ty: Type::S64, part, mode, d: Some(d), a, b, c });
        d
    }

    /// Returns the address of a word of the stack.
    fn word(&mut self, number: RegId) -> Option<RegId> {
        let stack = self.stack.as_ref()?;
        let (base, apart) = (stack.base, stack.apart);
        let d = self.b.reg(Type::U64);
        let (ty, part, mode) = (Type::U32, Some(MulPart::Wide), Mode::default());
        let (a, b, c) = (Operand::Reg(number), Operand::Reg(apart), Operand::Reg(base));
        self.b.push(Op::Mad { ty, part, mode, d: Some(d), a, b, c });
        Some(d)
    }

    /// Returns the address of the log's word after the first `number`.
    fn log_word(&mut self, number: RegId) -> Option<RegId> {
        let capacity = self.stack.as_ref()?.capacity;
        let (end, number) = (Operand::Reg(capacity), Operand::Reg(number));
        let last = self.b.binary(BinaryOp::Sub, Type::U32, end, Operand::Imm(1));
        let word = self.b.binary(BinaryOp::Sub, Type::U32, Operand::Reg(last), number);
        self.word(word)
    }

    /// Sets the height of a loop before it is entered.
    pub(super) fn enter(&mut self, from: usize, to: usize) {
        let entered = self.body.loop_at(to).filter(|&inner| !self.body.contains(inner, from));
        if let Some(inner) = entered.filter(|_| self.replay.level == 0)
            && let Some(height) = self.stack.as_ref().map(|stack| stack.height)
        {
            let own = self.height_of(inner);
            self.b.copy(Type::U32, own, Operand::Reg(height));
        }
    }

    /// Restores the height at a loop's exit: the loop's own words stay on the stack, those of inner loops don't.
    pub(super) fn leave(&mut self, index: usize) {
        let Some(block) = self.body.blocks.get(index).filter(|_| self.replay.level == 0) else {
            return;
        };
        let [from] = *block.preds else { return };
        let Some(left) = self.body.loop_in(block.region, from) else { return };
        if let Some(height) = self.stack.as_ref().map(|stack| stack.height) {
            let own = self.height_of(left);
            self.b.copy(Type::U32, height, Operand::Reg(own));
        }
    }

    fn height_of(&mut self, region: usize) -> RegId {
        let known = self.stack.as_ref().and_then(|stack| stack.heights.get(&region).copied());
        known.unwrap_or_else(|| {
            let made = self.b.reg(Type::U32);
            if let Some(stack) = &mut self.stack {
                stack.heights.insert(region, made);
            }
            made
        })
    }

    /// Begins an iteration of a loop: pushes what it keeps, if this is the copy that it is reversed from.
    pub(super) fn keep(&mut self, region: usize, recorded: bool) {
        let count = self.plan.words(self.body, region);
        let Some((height, peak)) = self.stack.as_ref().map(|stack| (stack.height, stack.peak))
        else {
            return;
        };
        let reg = Operand::Reg;
        let count = Operand::Imm(u64::from(count));
        if self.replay.level > 0 {
            if recorded {
                self.push_kept(region, height, None);
                self.b.binary_to(BinaryOp::Add, Type::U32, height, reg(height), count);
            }
            return;
        }
        let own = self.height_of(region);
        let before = self.b.moved(Type::U32, reg(own));
        self.b.binary_to(BinaryOp::Add, Type::U32, own, reg(own), count);
        if recorded && count != Operand::Imm(0) {
            let fits = self.fits(own);
            self.push_kept(region, before, Some(holds(fits)));
        }
        self.b.copy(Type::U32, height, reg(own));
        self.b.binary_to(BinaryOp::Max, Type::U32, peak, reg(peak), reg(height));
    }

    /// Returns whether a stack of this height and the log fit together.
    fn fits(&mut self, height: RegId) -> RegId {
        let both = self.stack.as_ref().map(|stack| (stack.logged, stack.capacity));
        let (logged, capacity) = both.unwrap_or((height, height));
        let reg = Operand::Reg;
        let all = self.b.binary(BinaryOp::Add, Type::U32, reg(height), reg(logged));
        self.b.setp(Cmp::Ls, Type::U32, reg(all), reg(capacity))
    }

    fn push_kept(&mut self, region: usize, at_word: RegId, when: Option<Pred>) {
        let kept = self.plan.kept(self.body, region);
        let logs = self.plan.logs(self.body, region);
        if kept.is_empty() && !logs {
            return;
        }
        let Some(mut place) = self.word(at_word) else { return };
        for (number, reg) in kept {
            let value = self.version(reg);
            place = self.push_words(Link::Kept(region, number), value, place, when);
        }
        if logs {
            let position = self.position();
            self.push_words(Link::Kept(region, usize::MAX), position, place, when);
        }
    }

    /// Returns the position in the log of the copy that is written: where it reads, or for the first copy, writes.
    fn position(&mut self) -> RegId {
        let level = self.replay.level;
        let known = self.stack.as_ref().and_then(|stack| {
            if level == 0 { Some(stack.logged) } else { stack.positions.get(&level).copied() }
        });
        known.unwrap_or_else(|| {
            let made = self.b.reg(Type::U32);
            if let Some(stack) = &mut self.stack {
                stack.positions.insert(level, made);
            }
            made
        })
    }

    /// Pops what an iteration of a loop has kept.
    pub(super) fn pop(&mut self, region: usize) {
        let Some(height) = self.stack.as_ref().map(|stack| stack.height) else { return };
        let count = self.plan.words(self.body, region);
        let kept = self.plan.kept(self.body, region);
        let logs = self.plan.logs(self.body, region);
        if count == 0 {
            return;
        }
        let count = Operand::Imm(u64::from(count));
        self.b.binary_to(BinaryOp::Sub, Type::U32, height, Operand::Reg(height), count);
        let Some(mut place) = self.word(height) else { return };
        for (number, reg) in kept {
            place = self.pop_words(Link::Kept(region, number), reg, place);
        }
        if logs {
            let level = std::mem::replace(&mut self.replay.level, self.body.depth(region));
            let position = self.position();
            self.replay.level = level;
            self.pop_words(Link::Kept(region, usize::MAX), position, place);
        }
    }

    /// Writes the results of an instruction into the log.
    pub(super) fn log(&mut self, link: Link, instr: &Instr) {
        let mut results = Vec::new();
        instr.for_each_def(|reg| results.push(reg));
        for reg in results {
            let value = self.version(reg);
            let Some(logged) = self.stack.as_ref().map(|stack| stack.logged) else { return };
            let Some(height) = self.stack.as_ref().map(|stack| stack.height) else { return };
            for part in self.words_of(value) {
                let first = self.b.moved(Type::U32, Operand::Reg(logged));
                let (count, one) = (Operand::Reg(logged), Operand::Imm(1));
                self.b.binary_to(BinaryOp::Add, Type::U32, logged, count, one);
                let fits = self.fits(height);
                let Some(place) = self.log_word(first) else { return };
                self.b.link = Some(link);
                let (ty, space) = (Type::B32, Space::Global);
                self.b.store(Some(holds(fits)), space, ty, at(place, 0), &[Operand::Reg(part)]);
                self.b.link = None;
            }
        }
    }

    /// Reads the results of an instruction from the log.
    pub(super) fn take_logged(&mut self, link: Link, instr: &Instr) {
        let mut results = Vec::new();
        instr.for_each_def(|reg| results.push(reg));
        for reg in results {
            let d = self.version(reg);
            let position = self.position();
            let parts: Vec<RegId> = (0..words(self.type_of(d)))
                .filter_map(|_| {
                    let place = self.log_word(position)?;
                    let (count, one) = (Operand::Reg(position), Operand::Imm(1));
                    self.b.link = Some(link);
                    let part = self.b.load(Space::Global, Type::B32, at(place, 0));
                    self.b.link = None;
                    self.b.binary_to(BinaryOp::Add, Type::U32, position, count, one);
                    Some(part)
                })
                .collect();
            self.join(d, &parts);
        }
    }

    /// Stores a register word by word. Returns the address after it.
    fn push_words(&mut self, link: Link, value: RegId, place: RegId, when: Option<Pred>) -> RegId {
        let mut place = place;
        for part in self.words_of(value) {
            self.b.link = Some(link);
            let (ty, space) = (Type::B32, Space::Global);
            self.b.store(when, space, ty, at(place, 0), &[Operand::Reg(part)]);
            self.b.link = None;
            place = self.next_word(place);
        }
        place
    }

    /// Loads a register word by word. Returns the address after it.
    fn pop_words(&mut self, link: Link, d: RegId, place: RegId) -> RegId {
        let mut place = place;
        let mut parts = Vec::new();
        for _ in 0..words(self.type_of(d)) {
            self.b.link = Some(link);
            parts.push(self.b.load(Space::Global, Type::B32, at(place, 0)));
            self.b.link = None;
            place = self.next_word(place);
        }
        self.join(d, &parts);
        place
    }

    fn next_word(&mut self, place: RegId) -> RegId {
        let apart = self.stack.as_ref().map_or(place, |stack| stack.apart_wide);
        self.b.binary(BinaryOp::Add, Type::S64, Operand::Reg(place), Operand::Reg(apart))
    }

    /// Returns the words that a register consists of.
    fn words_of(&mut self, value: RegId) -> Vec<RegId> {
        let ty = self.type_of(value);
        match ty.bits() {
            _ if ty == Type::Pred => {
                let (one, zero) = (Operand::Imm(1), Operand::Imm(0));
                vec![self.b.selp(Type::B32, one, zero, holds(value))]
            }
            64 => {
                let halves = [(); 2].map(|()| self.b.reg(Type::B32));
                let d = halves.map(Some).into();
                self.b.push(Op::Unpack { ty: Type::B64, d, a: Operand::Reg(value) });
                halves.to_vec()
            }
            32 => vec![value],
            _ => {
                let wide = self.b.reg(Type::U32);
                self.b.convert(Type::U32, Type::U16, wide, value);
                vec![wide]
            }
        }
    }

    /// Joins words to a register.
    fn join(&mut self, d: RegId, parts: &[RegId]) {
        let ty = self.type_of(d);
        match (ty.bits(), parts) {
            (_, [part]) if ty == Type::Pred => {
                let (cmp, a) = (Cmp::Ne, Operand::Reg(*part));
                let (p, b) = (Some(d), Operand::Imm(0));
                let (ty, ftz, combine, q) = (Type::U32, false, None, None);
                self.b.push(Op::Setp { cmp, ty, ftz, combine, p, q, a, b });
            }
            (64, [_, _]) => {
                let a = parts.iter().copied().map(Operand::Reg).collect();
                self.b.push(Op::Pack { ty: Type::B64, d: Some(d), a });
            }
            (32, [part]) => self.b.copy(Type::B32, d, Operand::Reg(*part)),
            (_, [part]) => self.b.convert(Type::U16, Type::U32, d, *part),
            _ => {}
        }
    }

    /// After the copy of the kernel: a thread whose stack or log overflowed reports it and jumps to `end`.
    pub(super) fn stack_check(&mut self, end: LabelId) {
        let Some(stack) = &self.stack else { return };
        let (peak, logged, apart_wide) = (stack.peak, stack.logged, stack.apart_wide);
        let (status, start) = (stack.status, stack.start);
        let reg = Operand::Reg;
        let fits = self.fits(peak);
        let on = self.b.label();
        if self.plan.barriers.agreed {
            // The threads of a block need each other.
            let fails = self.b.not(fits);
            let any = self.any_of_block(fails);
            self.b.jump_if(super::builder::fails(any), on);
            self.b.jump_if(holds(fits), end);
        } else {
            self.b.jump_if(holds(fits), on);
        }
        let need = self.b.binary(BinaryOp::Add, Type::U32, reg(peak), reg(logged));
        let wide = self.b.reg(Type::U64);
        self.b.convert(Type::U64, Type::U32, wide, need);
        let bytes = self.mad_wide(wide, apart_wide, reg(start));
        let up = self.b.binary(BinaryOp::Add, Type::S64, reg(bytes), Operand::Imm(1023));
        let kib = self.b.binary(BinaryOp::Shr, Type::U64, reg(up), Operand::Imm(10));
        let most = Operand::Imm(u64::from(u32::MAX));
        let kib = self.b.binary(BinaryOp::Min, Type::U64, reg(kib), most);
        let need = self.b.reg(Type::U32);
        self.b.convert(Type::U32, Type::U64, need, kib);
        // Without a status the overflow would go unnoticed.
        let some = self.b.setp(Cmp::Ne, Type::U64, reg(status), Operand::Imm(0));
        self.b.push_if(fails(some), Op::Trap);
        let access =
            |order| ptx::ir::Access { order, scope: Some(Scope::Gpu), ..plain(Space::Global) };
        let at_need = i64::try_from(abi::STATUS_NEED).unwrap_or(0);
        let atom =
            |op: AtomOp, ty: Type, offset: i64, a: Operand, c: Option<Operand>, d| Op::Atom {
                op,
                access: access(Order::Relaxed),
                ty,
                noftz: false,
                d,
                addr: at(status, offset),
                a: [a].into(),
                c,
            };
        self.b.push(atom(AtomOp::Max, Type::U32, at_need, reg(need), None, Box::default()));
        let code = Operand::Imm(u64::from(abi::SCRATCH_OVERFLOW));
        let old = self.b.reg(Type::B32);
        let d = [Some(old)].into();
        self.b.push(atom(AtomOp::Cas, Type::B32, 0, Operand::Imm(0), Some(code), d));
        self.b.jump(end);
        self.b.place(on);
    }

    /// Marks the thread as finished.
    pub(super) fn stack_finish(&mut self) {
        let Some(mark) = self.stack.as_ref().map(|stack| stack.mark) else { return };
        let one = self.b.moved(Type::U32, Operand::Imm(1));
        self.b.store(None, Space::Global, Type::U8, at(mark, 0), &[Operand::Reg(one)]);
    }
}

//! Deterministic tapes: numbers that several threads add become entries of a log (`geom::tape::LogHeader`), whose sums
//! do not depend on the order of the entries.

use ptx::ir::{BinaryOp, BoolOp, Callee, Cmp, FunctionId, Module, Op, Operand, RegId, Space, Type};

use super::Emit;
use super::builder::{at, fails, holds, number, type_of};
use super::frame::{Frame, member};
use crate::abi;
use crate::spec::Real;

/// The log of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    /// The function that appends an entry.
    function: FunctionId,
    start: RegId,
    bytes: RegId,
    status: RegId,
}

/// Adds a function to a module that appends an entry to a log. Its parameters: the log's address and size, the status's
/// address, the entry's address and value. Converged threads reserve their entries together. Returns `None` if the
/// function's text is wrong.
pub(crate) fn with_log(module: &Module, kernel: &str) -> Option<(Module, FunctionId)> {
    let name = format!("{kernel}_adjoint_log");
    let (header, entry) = (abi::LOG_HEADER, abi::LOG_ENTRY);
    let (need, overflow) = (abi::STATUS_NEED, abi::LOG_OVERFLOW);
    let text = format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .func {name}(.reg .b64 %log, .reg .b64 %bytes, .reg .b64 %status, .reg .b64 %address, .reg .f64 %value)\n{{\n\
         .reg .pred %p; .reg .b32 %mask, %lane, %leader, %low, %high, %kib, %old; .reg .b64 %first, %count, %end, %entry;\n\
         mov.u64 %end, {first_end};\n\
         setp.eq.u64 %p, %bytes, 0;\n\
         @%p bra FULL;\n\
         activemask.b32 %mask;\n\
         brev.b32 %leader, %mask;\n\
         clz.b32 %leader, %leader;\n\
         mov.u32 %lane, %laneid;\n\
         popc.b32 %low, %mask;\n\
         cvt.u64.u32 %count, %low;\n\
         mov.u64 %first, 0;\n\
         setp.eq.u32 %p, %lane, %leader;\n\
         @%p atom.relaxed.gpu.global.add.u64 %first, [%log], %count;\n\
         mov.b64 {{%low, %high}}, %first;\n\
         shfl.sync.idx.b32 %low, %low, %leader, 31, %mask;\n\
         shfl.sync.idx.b32 %high, %high, %leader, 31, %mask;\n\
         mov.b64 %first, {{%low, %high}};\n\
         mov.u32 %low, %lanemask_lt;\n\
         and.b32 %low, %low, %mask;\n\
         popc.b32 %low, %low;\n\
         cvt.u64.u32 %count, %low;\n\
         add.s64 %first, %first, %count;\n\
         mad.lo.s64 %end, %first, {entry}, %end;\n\
         setp.lt.u64 %p, %bytes, %end;\n\
         @%p bra FULL;\n\
         add.s64 %entry, %log, %end;\n\
         st.global.b64 [%entry+-16], %address;\n\
         st.global.f64 [%entry+-8], %value;\n\
         ret;\n\
         FULL:\n\
         setp.eq.u64 %p, %status, 0;\n\
         @%p trap;\n\
         add.s64 %end, %end, 1023;\n\
         shr.u64 %end, %end, 10;\n\
         min.u64 %end, %end, 0xffffffff;\n\
         cvt.u32.u64 %kib, %end;\n\
         red.relaxed.gpu.global.max.u32 [%status+{need}], %kib;\n\
         atom.relaxed.gpu.global.cas.b32 %old, [%status], 0, {overflow};\n\
         ret;\n\
         }}\n",
        first_end = header + entry,
    );
    let function = ptx::parse(&text).ok()?.functions.into_iter().next()?;
    let mut module = module.clone();
    let id = FunctionId(u32::try_from(module.functions.len()).ok()?);
    module.functions.push(function);
    Some((module, id))
}

impl Emit<'_> {
    /// Loads the address and the size of the log.
    pub(super) fn log_begin(&mut self, function: FunctionId, frame: &Frame) {
        let [start, bytes, status] = [abi::LOG, abi::LOG_BYTES, abi::STATUS]
            .map(|offset| self.b.load(Space::Param, Type::U64, member(frame.frame, offset)));
        self.sums.log = Some(Log { function, start, bytes, status });
    }

    /// Adds to a gradient to which other threads may add, if the predicate holds.
    pub(super) fn shared_add(
        &mut self,
        space: Space,
        real: Real,
        (base, offset): (RegId, i64),
        g: RegId,
        when: RegId,
    ) {
        if let Some(count) = self.sums.added.get_mut(self.open.len()) {
            *count = count.saturating_add(1);
        }
        self.log_or_add(space, real, (base, offset), g, when);
    }

    /// Adds like [`shared_add`](Self::shared_add), without counting.
    pub(super) fn log_or_add(
        &mut self,
        space: Space,
        real: Real,
        (base, offset): (RegId, i64),
        g: RegId,
        when: RegId,
    ) {
        let (ty, g) = (type_of(real), Operand::Reg(g));
        let any = (BoolOp::And, holds(when));
        let any = self.b.setp_with(Cmp::Neu, ty, g, number(real, 0.0), any);
        let Some(log) = self.sums.log else {
            self.b.add_to(holds(any), space, ty, at(base, offset), g);
            return;
        };
        let over = self.b.label();
        self.b.jump_if(fails(any), over);
        let (offset, base) = (Operand::Imm(offset.cast_unsigned()), Operand::Reg(base));
        let mut address = self.b.binary(BinaryOp::Add, Type::S64, base, offset);
        let value = match real {
            // A `float` is exact as `double`.
            Real::F32 | Real::F16 | Real::Bf16 => {
                let wide = self.b.reg(Type::F64);
                if let Operand::Reg(g) = g {
                    self.b.convert(Type::F64, Type::F32, wide, g);
                }
                Operand::Reg(wide)
            }
            Real::F64 => {
                let mark = Operand::Imm(1);
                address = self.b.binary(BinaryOp::Or, Type::B64, Operand::Reg(address), mark);
                g
            }
        };
        let args = [log.start, log.bytes, log.status, address].map(Operand::Reg);
        self.b.push(Op::Call {
            uni: false,
            callee: Callee::Function(log.function),
            returns: Box::default(),
            args: args.into_iter().chain([value]).collect(),
        });
        self.b.place(over);
    }
}

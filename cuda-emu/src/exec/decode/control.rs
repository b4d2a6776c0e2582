//! Branches, calls, the stack, the end of threads.

use ptx::ir::{Callee, Instr, Op, Operand, Symbol, Type};

use super::{Call, Class, Decoder, Fixup, Place, Refusal, Spot};
use crate::exec::builtins::{self, Builtin};
use crate::exec::control::branch::{Bra, BrxIdx, Exit, Meet, Ret, Trap};
use crate::exec::control::call::{Alloca, CallDirect, CallIndirect, StackRestore, StackSave};
use crate::exec::control::sleep::Nanosleep;
use crate::exec::control::warp::NONE;
use crate::exec::inst::Inst;

impl Decoder<'_, '_> {
    /// Decodes control. False if the instruction is none.
    pub(super) fn control(&mut self, instr: &Instr) -> Result<bool, Refusal> {
        match &instr.op {
            Op::Bra { target, .. } => {
                let to = self.function.target(*target);
                let inst = Inst { e: NONE, ..self.inst(self.pick::<Bra>()) };
                let at = self.emit(inst);
                self.fixups.push(Fixup::Target(at, to));
                if let Some(meet) = instr.guard.and_then(|_| self.meeting_place(self.at)) {
                    self.fixups.push(Fixup::Meet(at, meet));
                }
            }
            Op::BrxIdx { index, table, .. } => {
                let a = self.src(index, Class::Narrow)?;
                let labels = self.function.tables.get(table.index()).ok_or("a branch table")?;
                let f = self.list(&vec![0; labels.len()]);
                for (entry, label) in labels.iter().enumerate() {
                    let to = self.function.target(*label);
                    self.fixups.push(Fixup::List(f as usize + 1 + entry, to));
                }
                let inst = Inst { a, f, e: NONE, ..self.inst(self.pick::<BrxIdx>()) };
                let at = self.emit(inst);
                if let Some(meet) = self.meeting_place(self.at) {
                    self.fixups.push(Fixup::Meet(at, meet));
                }
            }
            Op::Call { callee, returns, args, .. } => self.call(callee, returns, args)?,
            Op::Ret { .. } if !self.code.entry => {
                let inst = self.inst(self.pick::<Ret>());
                self.emit(inst);
            }
            Op::Ret { .. } | Op::Exit => {
                let inst = self.inst(self.pick::<Exit>());
                self.emit(inst);
            }
            Op::Trap | Op::Brkpt => {
                let imm = u64::from(matches!(instr.op, Op::Brkpt));
                let inst = self.inst(self.pick::<Trap>());
                self.emit(Inst { imm, ..inst });
            }
            Op::Nanosleep { a } => {
                let a = self.src(a, Class::Narrow)?;
                let inst = Inst { a, ..self.inst(self.pick::<Nanosleep>()) };
                self.emit(inst);
            }
            Op::Alloca { ty, d, size, align } => {
                self.code.uses_stack = true;
                let wide = Class::of(*ty) == Class::Wide;
                let a = self.src(size, Class::of(*ty))?;
                let d = self.dst(*d, Class::of(*ty))?;
                let inst = self.inst(self.pick::<Alloca>());
                let imm = u64::from(align.unwrap_or(8).max(1));
                self.emit(Inst { d, a, imm, e: u32::from(wide), ..inst });
            }
            Op::Stacksave { ty, d } => {
                let d = self.dst(*d, Class::of(*ty))?;
                let e = u32::from(Class::of(*ty) == Class::Wide);
                let inst = self.inst(self.pick::<StackSave>());
                self.emit(Inst { d, e, ..inst });
            }
            Op::Stackrestore { ty, a } => {
                let a = self.src(a, Class::of(*ty))?;
                let e = u32::from(Class::of(*ty) == Class::Wide);
                let inst = self.inst(self.pick::<StackRestore>());
                self.emit(Inst { a, e, ..inst });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns where an argument or result is.
    fn spot(&mut self, operand: &Operand, formal: Option<Class>) -> Result<Spot, Refusal> {
        match operand {
            Operand::Symbol(Symbol::Var(v), 0) => match self.places.get(v.index()) {
                Some(&Place::Frame { slot, stride, bytes }) => {
                    Ok(Spot::Var { slot, stride, bytes })
                }
                _ => Err("an argument that is no .param variable".to_owned()),
            },
            Operand::Reg(r) => {
                let (slot, class) = self.reg(*r)?;
                Ok(Spot::Reg { slot, class })
            }
            Operand::Imm(_) => {
                let class = formal.unwrap_or(Class::Wide);
                Ok(Spot::Reg { slot: self.src(operand, class)?, class })
            }
            _ => Err("such an argument of a call".to_owned()),
        }
    }

    fn call(
        &mut self,
        callee: &Callee,
        returns: &[Operand],
        args: &[Operand],
    ) -> Result<(), Refusal> {
        let module = self.cx.module;
        let callee_function = match callee {
            Callee::Function(f) => {
                Some(module.functions.get(f.index()).ok_or("an unknown function")?)
            }
            Callee::Indirect(..) => None,
        };
        // Constants take the width of the formal parameter.
        let formal = |at: usize| {
            let function = callee_function?;
            let ty = match function.params.get(at)? {
                ptx::ir::Formal::Var(v) => function.variables.get(v.index()).map(|v| v.ty),
                ptx::ir::Formal::Reg(r) => function.registers.get(r.index()).copied(),
            };
            Some(Class::of(ty.unwrap_or(Type::B64)))
        };
        let mut call = Call { args: Vec::new(), returns: Vec::new(), callee: None, address: 0 };
        for (at, arg) in args.iter().enumerate() {
            let spot = self.spot(arg, formal(at))?;
            call.args.push(spot);
        }
        for result in returns {
            let spot = self.spot(result, None)?;
            call.returns.push(spot);
        }
        let guarded = self.guard != (crate::exec::inst::SLOT_TRUE, 0);
        let (run, imm) = match callee {
            Callee::Function(f) => {
                let number = self.cx.called.get(f.index()).copied().unwrap_or(f.0);
                let function =
                    module.functions.get(number as usize).ok_or("an unknown function")?;
                if function.body.is_none() {
                    return match builtins::by_name(&function.name) {
                        Some(builtin) => self.builtin(builtin, call),
                        None => Err(format!("the external function {}", function.name)),
                    };
                }
                call.callee = Some(number);
                self.code.callees.push(number);
                (self.pick::<CallDirect>(), 0)
            }
            Callee::Indirect(reg, _) => {
                call.address = self.src(&Operand::Reg(*reg), Class::Wide)?;
                self.code.indirect = true;
                (self.pick::<CallIndirect>(), 0)
            }
        };
        let meets = guarded || call.callee.is_none();
        let e = self.code.calls.len() as u32;
        self.code.calls.push(call);
        // `f` says that a reconvergence point follows, for lanes that call other functions or none.
        let inst = self.inst(run);
        self.emit(Inst { e, f: u32::from(meets), imm, ..inst });
        if meets {
            let inst = self.inst(self.pick::<Meet>());
            self.prepare(inst);
        }
        Ok(())
    }

    fn builtin(&mut self, builtin: Builtin, call: Call) -> Result<(), Refusal> {
        if call.args.len() != builtin.args() {
            return Err(format!("{} with {} arguments", builtin.name(), call.args.len()));
        }
        let e = self.code.calls.len() as u32;
        self.code.calls.push(call);
        let f = self.site();
        let inst = self.inst(self.pick::<builtins::Run>());
        self.emit(Inst { e, f, imm: builtin as u64, ..inst });
        Ok(())
    }
}

//! Decodes the typed PTX of a function to instructions that run.

mod arith;
mod asynchronous;
mod cluster;
mod control;
mod count;
mod data;
mod matrix;
mod memory;
mod operand;
mod sync;
mod taint;
mod tangent;
mod texture;

pub(in crate::exec) use tangent::marker_type;
pub(in crate::exec) use texture::state_results as state_texture_results;

use std::collections::HashMap;

use ptx::cfg::Cfg;
use ptx::ir::{Formal, Function, Instr, LocId, Module, Op, Space, Type};

use super::control::branch::{Exit, Meet, Ret};
use super::count::Counted;
use super::inst::{Inst, Isa, Run, SLOT_FIRST, SLOT_TRUE};
use super::ops::convert::Closure;
use super::taint::TaintRule;
use super::tangent::Rule;

/// A value that a frame holds from its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Constant {
    Narrow {
        slot: u32,
        bits: u32,
    },
    Wide {
        slot: u32,
        bits: u64,
    },
    Pred {
        slot: u32,
        bits: u32,
    },
    /// The address of a shared variable, which is another one in each kernel.
    Shared {
        slot: u32,
        variable: u32,
        addend: i64,
        wide: bool,
        generic: bool,
    },
}

/// How wide a register is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Pred,
    Narrow,
    Wide,
    Double,
}

impl Class {
    pub(crate) fn of(ty: Type) -> Self {
        match ty.bits() {
            _ if ty == Type::Pred => Self::Pred,
            0..=32 => Self::Narrow,
            33..=64 => Self::Wide,
            _ => Self::Double,
        }
    }
}

/// Where a parameter, argument or result lies in a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spot {
    Reg {
        slot: u32,
        class: Class,
    },
    /// Lane by lane, `stride` bytes apart.
    Var {
        slot: u32,
        stride: u32,
        bytes: u32,
    },
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) args: Vec<Spot>,
    pub(crate) returns: Vec<Spot>,
    /// `None` for an indirect one.
    pub(crate) callee: Option<u32>,
    /// Slot of the address of an indirect one.
    pub(crate) address: u32,
}

/// The function of a fold or a read-modify-write: the new value from the old value, the operand and a third.
pub(crate) type Rmw = fn(u64, u64, u64) -> u64;

/// A decoded function.
#[derive(Default)]
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) insts: Vec<Inst>,
    /// PTX line and source place of each instruction.
    pub(crate) lines: Vec<(u32, Option<LocId>)>,
    pub(crate) frame_bytes: u32,
    pub(crate) constants: Vec<Constant>,
    /// Lists of slots or targets, each after its length.
    pub(crate) lists: Vec<u32>,
    pub(crate) closures: Vec<Closure>,
    pub(crate) rmws: Vec<Rmw>,
    pub(crate) folds: Vec<fn(u64, u64) -> u64>,
    pub(crate) matrices: Vec<crate::exec::ops::matrix::Constants>,
    pub(crate) calls: Vec<Call>,
    /// Instructions of textures and surfaces.
    pub(crate) textures: Vec<crate::exec::texture::Access>,
    pub(crate) params: Vec<Spot>,
    pub(crate) returns: Vec<Spot>,
    pub(crate) local_bytes: u32,
    pub(crate) local_align: u32,
    pub(crate) entry: bool,
    /// A function or variable that it uses and that is not here: name and line.
    pub(crate) refused: Option<String>,
    /// Functions whose address it takes or that it calls.
    pub(crate) callees: Vec<u32>,
    /// Whether the function has `alloca`.
    pub(crate) uses_stack: bool,
    /// Whether the function calls through an address.
    pub(crate) indirect: bool,
    /// Shared variables that it names.
    pub(crate) shared: Vec<u32>,
    /// Whether the function reads the address of a cooperative launch's workspace.
    pub(crate) reads_workspace: bool,
    /// Whether the function reads the address of the system's shared memory.
    pub(crate) reads_reserved: bool,
    /// The rules of its instructions for tangents; empty unless they are tracked.
    pub(crate) rules: Vec<Rule>,
    /// The rules of its instructions for taint; empty unless it is followed.
    pub(crate) taints: Vec<TaintRule>,
    /// Where the tangents of the frame begin: 8 bytes for each 2 of the values before; 0 without.
    pub(crate) shadow: u32,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The input for decoding all functions of a program.
pub(crate) struct Context<'a> {
    pub(crate) module: &'a Module,
    pub(crate) isa: Isa,
    /// The address of each global variable; 0 for shared ones.
    pub(crate) globals: &'a [u64],
    /// The number of each shared variable: of the module, or of a function.
    pub(crate) shared: &'a HashMap<(Option<u32>, u32), u32>,
    /// The function that a call of each function runs: that of an alias, or itself.
    pub(crate) called: &'a [u32],
    /// Whether accesses of memory are watched.
    pub(crate) watched: bool,
    /// Whether tangents are tracked.
    pub(crate) tangents: bool,
    /// Whether approximate values are followed.
    pub(crate) taint: bool,
    /// What the counters so far stand for; `None` unless instructions are counted.
    pub(crate) counted: Option<Vec<Counted>>,
    /// Memory instructions so far.
    pub(crate) sites: u32,
}

impl Context<'_> {
    /// Returns whether registers have tangents or marks.
    fn follows(&self) -> bool {
        self.tangents || self.taint
    }
}

/// Where a variable of a function is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// A parameter of the kernel, at this offset.
    Kernel {
        offset: u32,
        bytes: u32,
    },
    /// A parameter, argument or result of a call: in the frame.
    Frame {
        slot: u32,
        stride: u32,
        bytes: u32,
    },
    /// Offset in the function's part of local memory.
    Local {
        offset: u32,
    },
    /// Number among the shared variables.
    Shared {
        number: u32,
    },
    Nowhere,
}

/// Decodes one function.
pub(crate) struct Decoder<'a, 'c> {
    cx: &'c mut Context<'a>,
    function: &'a Function,
    number: u32,
    code: Code,
    regs: Vec<(u32, Class)>,
    places: Vec<Place>,
    constants: HashMap<(Class, u64), u32>,
    shared_constants: HashMap<(u32, i64, bool, bool), u32>,
    next: u32,
    next_pred: u32,
    temps: Vec<(Class, u32)>,
    temps_used: usize,
    guard: (u32, u32),
    /// Done after the instruction that is being decoded.
    after: Vec<Inst>,
    line: (u32, Option<LocId>),
    fixups: Vec<Fixup>,
    cfg: Cfg,
    /// The instruction of the PTX that is being decoded.
    at: usize,
}

/// A target that is not known yet: an instruction of the PTX.
enum Fixup {
    /// Field f of an instruction.
    Target(usize, usize),
    /// Field e of an instruction.
    Meet(usize, usize),
    /// A list's entry.
    List(usize, usize),
}

/// Why a function cannot run here.
pub(crate) type Refusal = String;

/// Decodes a function that has a body.
pub(crate) fn decode<'a>(cx: &mut Context<'a>, function: &'a Function, number: u32) -> Code {
    let cfg = Cfg::new(cx.module, function);
    let mut decoder = Decoder {
        cx,
        function,
        number,
        code: Code {
            name: function.name.clone(),
            entry: function.kind == ptx::ir::FunctionKind::Entry,
            local_align: 16,
            ..Code::default()
        },
        regs: Vec::with_capacity(function.registers.len()),
        places: Vec::with_capacity(function.variables.len()),
        constants: HashMap::new(),
        shared_constants: HashMap::new(),
        next: SLOT_FIRST,
        next_pred: 12,
        temps: Vec::new(),
        temps_used: 0,
        guard: (SLOT_TRUE, 0),
        after: Vec::new(),
        line: (function.line, None),
        fixups: Vec::new(),
        cfg,
        at: 0,
    };
    decoder.layout();
    if let Err(why) = decoder.body() {
        decoder.code.refused = Some(why);
    }
    for list in [&mut decoder.code.callees, &mut decoder.code.shared] {
        list.sort_unstable();
        list.dedup();
    }
    let values = decoder.next;
    let tracked = decoder.cx.follows();
    let mut code = decoder.code;
    code.frame_bytes = values;
    if tracked {
        (code.shadow, code.frame_bytes) = (values, values.saturating_mul(5));
        if values.checked_mul(5).is_none() {
            code.refused = Some(format!("the function {}: tangents of its parameters", code.name));
        }
    }
    code
}

impl Decoder<'_, '_> {
    /// Returns a new place of `bytes` bytes for 32 lanes together.
    fn place(&mut self, bytes: u32) -> u32 {
        let slot = self.next;
        self.next = slot.saturating_add(bytes.next_multiple_of(64));
        slot
    }

    fn new_slot(&mut self, class: Class) -> u32 {
        match class {
            Class::Pred => {
                if self.next_pred.is_multiple_of(64) {
                    self.next_pred = self.place(64);
                }
                let slot = self.next_pred;
                self.next_pred += 4;
                slot
            }
            Class::Narrow => self.place(128),
            Class::Wide => self.place(256),
            Class::Double => self.place(512),
        }
    }

    /// Gives every register and variable its place.
    fn layout(&mut self) {
        let function = self.function;
        for &ty in &function.registers {
            let class = Class::of(ty);
            let slot = self.new_slot(class);
            self.regs.push((slot, class));
        }
        let kernel = self.code.entry;
        let (offsets, _) = function.param_layout();
        let mut offset_of = vec![None; function.variables.len()];
        for (formal, &offset) in function.params.iter().zip(&offsets).filter(|_| kernel) {
            if let Formal::Var(v) = formal
                && let Some(of) = offset_of.get_mut(v.index())
            {
                *of = Some(offset);
            }
        }
        for (at, var) in function.variables.iter().enumerate() {
            let bytes = u32::try_from(var.size()).unwrap_or(u32::MAX >> 8);
            let place = match var.space {
                Space::Param | Space::ParamEntry | Space::ParamFunc => {
                    match offset_of.get(at).copied().flatten() {
                        Some(offset) => Place::Kernel { offset: offset as u32, bytes },
                        None => {
                            let stride = bytes.max(1).next_multiple_of(16);
                            let slot = self.place(stride.saturating_mul(32));
                            Place::Frame { slot, stride, bytes }
                        }
                    }
                }
                Space::Local => {
                    let offset = self.code.local_bytes.next_multiple_of(var.align.max(1));
                    self.code.local_bytes = offset.saturating_add(bytes);
                    self.code.local_align = self.code.local_align.max(var.align);
                    Place::Local { offset }
                }
                Space::Shared | Space::SharedCta => {
                    let key = (Some(self.number), at as u32);
                    match self.cx.shared.get(&key) {
                        Some(&number) => Place::Shared { number },
                        None => Place::Nowhere,
                    }
                }
                _ => Place::Nowhere,
            };
            self.places.push(place);
        }
        let spot = |formal: &Formal| match formal {
            Formal::Reg(r) => {
                let (slot, class) = self.regs[r.index()];
                Spot::Reg { slot, class }
            }
            Formal::Var(v) => match self.places.get(v.index()) {
                Some(&Place::Frame { slot, stride, bytes }) => Spot::Var { slot, stride, bytes },
                _ => Spot::Var { slot: 0, stride: 0, bytes: 0 },
            },
        };
        self.code.params = function.params.iter().map(spot).collect();
        self.code.returns = function.returns.iter().map(spot).collect();
    }

    fn body(&mut self) -> Result<(), Refusal> {
        let instrs = self.function.instrs();
        let meets = self.meeting_places(instrs);
        let mut starts = Vec::with_capacity(instrs.len() + 1);
        for (at, instr) in instrs.iter().enumerate() {
            starts.push(self.code.insts.len());
            self.at = at;
            self.line = (instr.line, instr.loc);
            self.temps_used = 0;
            if meets.get(at).copied().unwrap_or(false) {
                self.guard = (SLOT_TRUE, 0);
                self.emit(self.inst(self.pick::<Meet>()));
            }
            self.count_block(at, instrs);
            self.guard = match instr.guard {
                Some(pred) => {
                    let slot = self.pred_slot(pred.reg)?;
                    (slot, if pred.negated { u32::MAX } else { 0 })
                }
                None => (SLOT_TRUE, 0),
            };
            self.count_guarded(instr);
            let prepared = if self.cx.taint { self.taint(instr) } else { self.tangent(instr) };
            prepared.and_then(|()| self.instr(instr)).map_err(|why| {
                format!("{} (PTX line {}, function {})", why, instr.line, self.function.name)
            })?;
            let after = std::mem::take(&mut self.after);
            for inst in after {
                self.emit(inst);
            }
        }
        starts.push(self.code.insts.len());
        // Falling off the end is returning.
        self.guard = (SLOT_TRUE, 0);
        self.temps_used = 0;
        let end = if self.code.entry { self.pick::<Exit>() } else { self.pick::<Ret>() };
        self.emit(self.inst(end));
        for fixup in std::mem::take(&mut self.fixups) {
            let start = |to: usize| starts.get(to).map(|&at| at as u32);
            match fixup {
                Fixup::Target(inst, to) => {
                    self.code.insts[inst].f = start(to).ok_or("a branch to nowhere")?;
                }
                Fixup::Meet(inst, to) => {
                    self.code.insts[inst].e = start(to).ok_or("a branch to nowhere")?;
                }
                Fixup::List(entry, to) => {
                    self.code.lists[entry] = start(to).ok_or("a branch to nowhere")?;
                }
            }
        }
        Ok(())
    }

    /// Returns the instructions at which the paths of a branch may meet.
    fn meeting_places(&self, instrs: &[Instr]) -> Vec<bool> {
        let mut meets = vec![false; instrs.len()];
        for (at, instr) in instrs.iter().enumerate() {
            let diverges = match instr.op {
                Op::Bra { .. } => instr.guard.is_some(),
                Op::BrxIdx { .. } => true,
                _ => false,
            };
            if diverges && let Some(place) = self.meeting_place(at).and_then(|at| meets.get_mut(at))
            {
                *place = true;
            }
        }
        meets
    }

    /// Returns where the paths of the branch at `at` meet.
    fn meeting_place(&self, at: usize) -> Option<usize> {
        let block = *self.cfg.block_of.get(at)?;
        let meet = (*self.cfg.ipdom.get(block as usize)?)?;
        Some(self.cfg.blocks.get(meet as usize)?.start as usize)
    }

    /// Returns an instruction for which vectors do nothing.
    fn pick<L: super::inst::Lanes>(&self) -> Run {
        self.cx.isa.once::<L>()
    }

    /// Returns an instruction made for vectors.
    fn vector<L: super::inst::Lanes>(&self) -> Run {
        self.cx.isa.pick::<L>()
    }

    /// Returns an instruction without operands, under the current guard.
    fn inst(&self, run: Run) -> Inst {
        Inst {
            run,
            guard: self.guard.0,
            flip: self.guard.1,
            d: super::inst::SLOT_NONE,
            a: super::inst::SLOT_NONE,
            b: super::inst::SLOT_NONE,
            c: super::inst::SLOT_NONE,
            imm: 0,
            e: 0,
            f: 0,
        }
    }

    fn emit(&mut self, inst: Inst) -> usize {
        self.code.insts.push(inst);
        self.code.lines.push(self.line);
        self.code.insts.len() - 1
    }

    /// Emits an instruction that prepares an operand, for all lanes.
    fn prepare(&mut self, inst: Inst) {
        self.emit(Inst { guard: SLOT_TRUE, flip: 0, ..inst });
    }

    fn list(&mut self, entries: &[u32]) -> u32 {
        let at = self.code.lists.len() as u32;
        self.code.lists.push(entries.len() as u32);
        self.code.lists.extend_from_slice(entries);
        at
    }

    fn site(&mut self) -> u32 {
        self.cx.sites += 1;
        self.cx.sites - 1
    }

    fn instr(&mut self, instr: &Instr) -> Result<(), Refusal> {
        if self.arith(&instr.op)?
            || self.data(&instr.op)?
            || self.memory(&instr.op)?
            || self.sync(&instr.op)?
            || self.asynchronous(&instr.op)?
            || self.cluster(&instr.op)?
            || self.matrix(&instr.op)?
            || self.texture(&instr.op)?
            || self.marker(&instr.op)?
            || self.control(instr)?
        {
            return Ok(());
        }
        Err(match &instr.op {
            Op::Other { opcode, .. } => opcode.to_string(),
            other => {
                let text = format!("{other:?}");
                text.split([' ', '(']).next().unwrap_or_default().to_lowercase()
            }
        })
    }
}

//! From a kernel's PTX to its blocks.

use std::collections::HashMap;

use ptx::cfg::{Cfg, Loop, Loops};
use ptx::inline::{InlineError, inline};
use ptx::ir::{
    BarOp, Callee, Function, FunctionId, FunctionKind, GlobalId, Instr, Linkage, Module, Op,
    Operand, PlaceMut, Pred, RegId, Space, Symbol, VarId, Variable,
};
use ptx::simplify::{branch_guards, branch_tables, single_exit};
use ptx::ssa::{Ssa, SsaError};

use crate::body::{Block, Body, End, Phi, Region};
use crate::lcssa;
use crate::refusal::{Reason, Refusal, Refusals};
use crate::spec::{Reals, Spec};
use crate::twice::without_status;

/// The deepest nest of loops: each level repeats the code in it.
const MOST_NESTED: u32 = 12;

/// Returns the kernel as blocks in topological order. `again`: the kernel is an adjoint.
pub(crate) fn prepare(module: &Module, spec: &Spec, again: bool) -> Result<Body, Vec<Refusal>> {
    let name = &spec.kernel;
    let is_kernel = |function: &Function| {
        function.name == *name && function.kind == FunctionKind::Entry && function.body.is_some()
    };
    let found = (0..).zip(&module.functions).find(|(_, function)| is_kernel(function));
    let Some((id, kernel)) = found else {
        return Err(vec![Refusal::new(
            Reason::NoKernel,
            format!("the module has no kernel `{name}`"),
        )]);
    };
    if module.targets.iter().any(|target| target == "debug") {
        let text = "the module was compiled for debugging: compile it without `-G`";
        return Err(vec![Refusal::new(Reason::Debug, text)]);
    }
    fits(kernel, spec)?;
    let mut kernel =
        inline(module, FunctionId(id)).map_err(|error| vec![not_inlined(module, &error)])?;
    for instr in kernel.body.iter_mut().flatten() {
        // A marker has one result.
        if matches!(&instr.op, Op::Other { opcode, .. } if opcode.starts_with("ad.")) {
            instr.op.set_results(1);
        }
    }
    if again {
        without_status(&mut kernel);
    }
    refuse(module, &kernel, unknown(module, &kernel))?;
    let kernel = own_shared(module, kernel);
    let kernel = branch_tables(module, &branch_guards(module, &kernel));
    let kernel = single_exit(module, &kernel);
    let mut ssa = Ssa::new(module, &kernel).map_err(|error| vec![no_form(&error)])?;
    drop_results(&mut ssa);
    let loops = Loops::new(&ssa.cfg, &ssa.dominators);
    let function = &ssa.function;
    let first = |block: u32| {
        let start = ssa.cfg.blocks.get(block as usize).map_or(0, |block| block.start as usize);
        function.instrs().get(start)
    };
    let place = |refusal: Refusal, block: u32| match first(block) {
        Some(instr) => refusal.at(module, function, instr),
        None => refusal,
    };
    if let Some((from, _)) = loops.irreducible.first() {
        let text = "control enters a cycle in several ways";
        return Err(vec![place(Refusal::new(Reason::Irreducible, text), *from)]);
    }
    let found = loops.all.iter().filter_map(|found| {
        let text = if found.depth > MOST_NESTED {
            format!("more than {MOST_NESTED} loops are nested")
        } else if loops.exits(&ssa.cfg, found).is_empty() && !leaves(&ssa, &loops, found) {
            "a loop has no end".to_owned()
        } else if carries_wide(&ssa, found.header) {
            "a loop carries a value of 128 bits".to_owned()
        } else {
            return None;
        };
        Some(place(Refusal::new(Reason::Loop, text), found.header))
    });
    let found: Vec<Refusal> = found.collect();
    if !found.is_empty() {
        return Err(found);
    }
    let mut body = blocks(module, &ssa, &loops);
    lcssa::close(&mut body);
    Ok(body)
}

/// Makes the shared variables of the module that a kernel uses variables of the kernel. Those without a size stay.
fn own_shared(module: &Module, mut kernel: Function) -> Function {
    let mut owned: HashMap<GlobalId, VarId> = HashMap::new();
    let mut body = kernel.body.take();
    for instr in body.iter_mut().flatten() {
        instr.for_each_place_mut(|place| {
            let PlaceMut::Symbol(symbol) = place else { return };
            let Symbol::Global(id) = *symbol else { return };
            let known = module.globals.get(id.index());
            let Some(global) = known.filter(|one| one.space == Space::Shared && is_sized(one))
            else {
                return;
            };
            let own = || {
                let linkage = Linkage::Internal;
                kernel.add_variable(Variable { linkage, init: None, ..global.clone() })
            };
            *symbol = Symbol::Var(*owned.entry(id).or_insert_with(own));
        });
    }
    kernel.body = body;
    kernel
}

/// Returns whether a variable has its size from its declaration, not from the launch.
fn is_sized(variable: &Variable) -> bool {
    !variable.unsized_array && variable.linkage != Linkage::Extern
}

/// Returns whether threads leave the kernel in a loop.
fn leaves(ssa: &Ssa, loops: &Loops, of: &Loop) -> bool {
    let exits = |&block: &u32| ssa.cfg.blocks.get(block as usize).is_some_and(|block| block.exits);
    loops.blocks(of).iter().any(exits)
}

/// Returns whether a block joins values that the stack can't hold.
fn carries_wide(ssa: &Ssa, block: u32) -> bool {
    let params = ssa.params.get(block as usize).into_iter().flatten();
    let bits = |reg: RegId| ssa.function.registers.get(reg.index()).map_or(0, |ty| ty.bits());
    params.into_iter().any(|param| bits(param.reg) > 64)
}

/// Checks that the specified parameters fit the kernel's.
fn fits(kernel: &Function, spec: &Spec) -> Result<(), Vec<Refusal>> {
    let (offsets, end) = kernel.param_layout();
    if offsets.len() != spec.params.len() {
        let text = format!(
            "the kernel has {} parameters, {} are specified",
            offsets.len(),
            spec.params.len()
        );
        return Err(vec![Refusal::new(Reason::Parameter, text)]);
    }
    let mut wrong = Vec::new();
    let ends = offsets.iter().skip(1).copied().chain([end]);
    for ((param, start), end) in spec.params.iter().zip(&offsets).zip(ends) {
        let size = end.saturating_sub(*start);
        let within = |offset: u32, bytes: u32| u64::from(offset) + u64::from(bytes) <= size;
        let pointers = param
            .pointers
            .iter()
            .all(|pointer| within(pointer.offset, 8) && pointer.offset.is_multiple_of(8));
        let reals = param.reals.iter().all(|(offset, real)| within(*offset, real.bytes()));
        if !pointers || !reals {
            let text = format!("`{}` has {size} bytes, and more are specified", param.name);
            wrong.push(Refusal::new(Reason::Parameter, text));
        }
        let pointers = param.pointers.iter().map(|pointer| (pointer.offset, 8));
        let reals = param.reals.iter().map(|(offset, real)| (*offset, real.bytes()));
        let mut parts: Vec<(u32, u32)> = pointers.chain(reals).collect();
        parts.sort_unstable();
        let apart = |pair: &[(u32, u32)]| match pair {
            [(at, bytes), (next, _)] => at.saturating_add(*bytes) <= *next,
            _ => true,
        };
        if !parts.windows(2).all(apart) {
            let text = format!("parts of `{}` overlap", param.name);
            wrong.push(Refusal::new(Reason::Parameter, text));
        }
        let aligned = |pointer: &crate::spec::Pointer| match pointer.reals {
            Some(reals) => pointer.size > 0 && pointer.size.is_multiple_of(reals.real().bytes()),
            None => !pointer.active,
        };
        let halves = param.reals.iter().filter(|(_, real)| real.scale() > 1).count();
        if param.active && halves > 0 && halves < param.reals.len() {
            let text = format!("`{}` has 16-bit floats beside other active numbers", param.name);
            wrong.push(Refusal::new(Reason::Half, text));
        }
        let mixed = |pointer: &crate::spec::Pointer| matches!(pointer.reals, Some(Reals::Some(real)) if pointer.active && real.scale() > 1);
        if param.pointers.iter().any(mixed) {
            let text =
                format!("elements of `{}` have other members beside 16-bit floats", param.name);
            wrong.push(Refusal::new(Reason::Half, text));
        }
        if !param.pointers.iter().all(aligned) {
            let text = format!("elements of `{}` are no multiple of its numbers", param.name);
            wrong.push(Refusal::new(Reason::Parameter, text));
        }
    }
    let active = |param: &crate::spec::Param| {
        param.active || param.pointers.iter().any(|pointer| pointer.active)
    };
    if !spec.params.iter().any(active) {
        wrong.push(Refusal::new(Reason::NoPath, "no parameter is active"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// What to do about a barrier.
pub(crate) const BARRIER_WAY_OUT: &str = ": split the kernel here into two that are launched one after the other, or \
    write the adjoint by hand (\"Adjoints by hand\" in cuda-tape's README)";

/// Returns why instructions can't be part of an adjoint, whatever values they compute.
fn unknown<'f>(module: &Module, kernel: &'f Function) -> Vec<(Reason, String, &'f Instr)> {
    let mut found = Vec::new();
    for instr in kernel.instrs() {
        let (reason, text) = match &instr.op {
            // Other barriers are checked later.
            Op::Bar { op: BarOp::Arrive, .. } => (Reason::Barrier, "a barrier".to_owned()),
            Op::Alloca { .. } | Op::Stacksave { .. } | Op::Stackrestore { .. } => {
                (Reason::LocalMemory, "memory of the stack".to_owned())
            }
            Op::CpAsync { .. }
            | Op::CpAsyncCommit
            | Op::CpAsyncWait { .. }
            | Op::CpAsyncArrive { .. } => (Reason::Async, "an asynchronous copy".to_owned()),
            Op::MbarrierInit { .. }
            | Op::MbarrierInval { .. }
            | Op::MbarrierArrive { .. }
            | Op::MbarrierWait { .. }
            | Op::MbarrierTx { .. }
            | Op::MbarrierPending { .. } => (Reason::Async, "an asynchronous barrier".to_owned()),
            Op::Mapa { .. } | Op::Getctarank { .. } | Op::ClusterBarrier { .. } => {
                let text = "an instruction of clusters";
                (Reason::Unknown(text.to_owned()), text.to_owned())
            }
            Op::StAsync { .. } | Op::RedAsync { .. } => {
                (Reason::Async, "an asynchronous store".to_owned())
            }
            Op::Mma(_)
            | Op::WmmaLoad { .. }
            | Op::WmmaStore { .. }
            | Op::Ldmatrix { .. }
            | Op::Stmatrix { .. }
            | Op::Movmatrix { .. } => (Reason::Matrix, "a matrix instruction".to_owned()),
            Op::Call { callee: Callee::Indirect(..), .. } => {
                (Reason::Indirect, "a call by address".to_owned())
            }
            Op::Call { callee: Callee::Function(id), .. } => {
                let name = module.functions.get(id.index()).map_or("", |function| &*function.name);
                // Printed text and reports are no outputs.
                if matches!(name, "vprintf" | "__assertfail") {
                    continue;
                }
                (Reason::Call, format!("a call of `{name}`"))
            }
            Op::Other { opcode, .. } if !opcode.starts_with("ad.") => {
                let texture = ["tex", "tld4", "txq", "suld", "sust", "sured", "suq"];
                let word = opcode.split('.').next().unwrap_or_default();
                if texture.contains(&word) {
                    (Reason::Texture, format!("`{opcode}`"))
                } else {
                    (Reason::Unknown(opcode.to_string()), format!("`{opcode}`"))
                }
            }
            _ => continue,
        };
        found.push((reason, text, instr));
    }
    found
}

fn refuse(
    module: &Module,
    kernel: &Function,
    found: Vec<(Reason, String, &Instr)>,
) -> Result<(), Vec<Refusal>> {
    if found.is_empty() {
        return Ok(());
    }
    let mut refusals = Refusals::default();
    for (reason, text, instr) in found {
        let way_out = if reason == Reason::Barrier { BARRIER_WAY_OUT } else { "" };
        let text = format!("{text} can't be differentiated{way_out}");
        refusals.push(Refusal::new(reason, text).at(module, kernel, instr));
    }
    Err(refusals.into_list())
}

/// Whether an instruction is the place of an error.
type IsPlace<'a> = Box<dyn Fn(&Instr) -> bool + 'a>;

fn not_inlined(module: &Module, error: &InlineError) -> Refusal {
    let calls = |instr: &Instr, wanted: &str| match &instr.op {
        Op::Call { callee: Callee::Function(id), .. } => {
            module.functions.get(id.index()).is_some_and(|function| function.name == wanted)
        }
        _ => false,
    };
    let (reason, is_place): (_, IsPlace<'_>) = match error {
        InlineError::Recursion { name } => {
            (Reason::Recursion, Box::new(move |instr| calls(instr, name)))
        }
        InlineError::Mismatch { line, .. }
        | InlineError::SharedVariable { line, .. }
        | InlineError::WritesParameter { line, .. } => {
            (Reason::Call, Box::new(move |instr| instr.line == *line))
        }
        _ => (Reason::Call, Box::new(|_| false)),
    };
    let refusal = Refusal::new(reason, error.to_string());
    let mut instrs = module
        .functions
        .iter()
        .flat_map(|function| function.instrs().iter().map(move |instr| (function, instr)));
    match instrs.find(|(_, instr)| is_place(instr)) {
        Some((function, instr)) => refusal.at(module, function, instr),
        None => refusal,
    }
}

fn no_form(error: &SsaError) -> Refusal {
    match error {
        SsaError::UnknownRoles { opcode, line } => {
            let text = format!("`{opcode}` is not known");
            Refusal { ptx_line: *line, ..Refusal::new(Reason::Unknown(opcode.clone()), text) }
        }
        other => Refusal::new(Reason::NoKernel, other.to_string()),
    }
}

/// Removes results of atomic operations that are never read: compilers write them for `double`.
fn drop_results(ssa: &mut Ssa) {
    let mut used = vec![false; ssa.function.registers.len()];
    let mut mark = |reg: RegId| {
        if let Some(place) = used.get_mut(reg.index()) {
            *place = true;
        }
    };
    ssa.params.iter().flatten().flat_map(|param| &param.args).for_each(|(_, reg)| mark(*reg));
    ssa.function.instrs().iter().for_each(|instr| instr.for_each_use(&mut mark));
    for instr in ssa.function.body.iter_mut().flatten() {
        if let Op::Atom { d, .. } = &mut instr.op
            && d.iter().flatten().all(|reg| used.get(reg.index()) == Some(&false))
        {
            *d = Box::default();
        }
    }
}

/// Returns the blocks of a function: those of each loop together.
fn blocks(module: &Module, ssa: &Ssa, loops: &Loops) -> Body {
    let (cfg, function) = (&ssa.cfg, &ssa.function);
    let is_exit = |block: u32| {
        let last = cfg
            .blocks
            .get(block as usize)
            .and_then(|block| function.instrs().get(block.end.checked_sub(1)? as usize));
        matches!(last, Some(Instr { op: Op::Ret { .. }, guard: None, .. }))
    };
    // The block that returns comes last.
    let exit = cfg.order.iter().copied().find(|&block| is_exit(block));
    let (order, region_of, mut regions) = ordered(cfg, loops, exit);
    let mut position = vec![usize::MAX; cfg.blocks.len()];
    for (at, &block) in order.iter().enumerate() {
        if let Some(place) = position.get_mut(block as usize) {
            *place = at;
        }
    }
    let at = |block: u32| position.get(block as usize).copied().unwrap_or(usize::MAX);
    // If no thread returns, an empty block is last.
    let last = if exit.is_some() { order.len() - 1 } else { order.len() };
    let mut blocks: Vec<Block> = Vec::with_capacity(last + 1);
    for (&index, region) in order.iter().zip(region_of) {
        let Some(block) = cfg.blocks.get(index as usize) else { continue };
        let code =
            function.instrs().get(block.start as usize..block.end as usize).unwrap_or_default();
        let end = end(block, code, &at, Some(index) == exit, last);
        let branches = |instr: &&Instr| {
            matches!(instr.op, Op::Bra { .. } | Op::Ret { .. } | Op::Exit | Op::Trap)
        };
        let code: Vec<Instr> = code.iter().filter(|instr| !branches(instr)).cloned().collect();
        let phi = |param: &ptx::ssa::BlockParam| Phi {
            reg: param.reg,
            args: param
                .args
                .iter()
                .map(|(from, reg)| (at(*from), Some(Operand::Reg(*reg))))
                .collect(),
        };
        let phis = ssa.params.get(index as usize).into_iter().flatten().map(phi).collect();
        blocks.push(Block { region, phis, code, end, preds: Vec::new() });
    }
    if exit.is_none() {
        blocks.push(Block {
            region: 0,
            phis: Vec::new(),
            code: Vec::new(),
            end: End::Exit,
            preds: Vec::new(),
        });
    }
    if let Some(kernel) = regions.first_mut() {
        kernel.blocks = 0..blocks.len();
    }
    for index in 0..blocks.len() {
        let targets: Vec<usize> =
            blocks.get(index).into_iter().flat_map(|block| block.end.targets()).collect();
        for to in targets {
            if let Some(to) = blocks.get_mut(to) {
                to.preds.push(index);
            }
        }
    }
    let mut function = function.clone();
    function.body = None;
    let globals = module.globals.iter().map(|variable| variable.space).collect();
    Body::new(function, blocks, regions, globals)
}

/// Returns the blocks in an order in which those of each loop are together, the region of each, and the regions.
fn ordered(cfg: &Cfg, loops: &Loops, exit: Option<u32>) -> (Vec<u32>, Vec<usize>, Vec<Region>) {
    // Sorts the parts of the kernel and of each loop. A header dominates its loop, so its place in the order of all
    // blocks is after all that leads to the loop, and before all that follows it.
    let mut parts: Vec<Vec<Node>> = vec![Vec::new(); loops.all.len() + 1];
    let region = |id: Option<u32>| id.map_or(0, |id| id as usize + 1);
    for &block in cfg.order.iter().filter(|&&block| Some(block) != exit).chain(&exit) {
        let innermost = region(loops.innermost(block));
        let found = loops.all.get(innermost.wrapping_sub(1)).filter(|one| one.header == block);
        if let Some(one) = found {
            let around = region(one.parent);
            parts.get_mut(around).into_iter().for_each(|list| list.push(Node::Loop(innermost)));
        }
        parts.get_mut(innermost).into_iter().for_each(|list| list.push(Node::Block(block)));
    }
    let (mut order, mut of) = (Vec::new(), Vec::new());
    let parents = std::iter::once(None).chain(loops.all.iter().map(|one| Some(region(one.parent))));
    let depths = std::iter::once(0).chain(loops.all.iter().map(|one| one.depth as usize));
    let mut regions: Vec<Region> =
        parents.zip(depths).map(|(parent, depth)| Region { parent, blocks: 0..0, depth }).collect();
    let mut work = vec![(0, parts.first().cloned().unwrap_or_default().into_iter())];
    while let Some((region, rest)) = work.last_mut() {
        let region = *region;
        match rest.next() {
            Some(Node::Block(block)) => {
                order.push(block);
                of.push(region);
            }
            Some(Node::Loop(inner)) => {
                if let Some(place) = regions.get_mut(inner) {
                    place.blocks.start = order.len();
                }
                work.push((inner, parts.get(inner).cloned().unwrap_or_default().into_iter()));
            }
            None => {
                if let Some(place) = regions.get_mut(region) {
                    place.blocks.end = order.len();
                }
                work.pop();
            }
        }
    }
    (order, of, regions)
}

/// A part of a region: a block of the graph, or the region that a loop is.
#[derive(Debug, Clone, Copy)]
enum Node {
    Block(u32),
    Loop(usize),
}

fn end(
    block: &ptx::cfg::Block,
    code: &[Instr],
    at: &impl Fn(u32) -> usize,
    is_exit: bool,
    last: usize,
) -> End {
    if is_exit {
        return End::Exit;
    }
    let successors: Vec<usize> = block.successors.iter().map(|&to| at(to)).collect();
    let guard: Option<Pred> = code.last().and_then(|instr| instr.guard);
    match (&*successors, guard) {
        ([then, otherwise], Some(pred)) => End::Branch { pred, then: *then, otherwise: *otherwise },
        // A thread that ends here has nothing left to do.
        ([to], Some(pred)) if block.exits => End::Branch { pred, then: last, otherwise: *to },
        ([to, ..], _) => End::Jump(*to),
        ([], _) => End::Jump(last),
    }
}

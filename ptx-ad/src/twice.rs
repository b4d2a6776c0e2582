//! Second derivatives: the adjoint of an adjoint.

use std::collections::HashSet;

use ptx::ir::{Address, Base, Formal, Function, Module, Op, Operand, Order, Symbol};

use crate::refusal::{Reason, Refusal};
use crate::spec::{Param, Pointer, Spec};
use crate::{Adjoint, NotDifferentiable, abi, pipeline};

/// An adjoint, and the adjoint of that.
#[derive(Debug, Clone)]
pub struct Twice {
    /// The adjoint of the kernel.
    pub first: Adjoint,
    /// The parameters of `first`, as `second` was generated for them: those of the kernel, the gradients, which are
    /// active, and the frame.
    pub spec: Spec,
    /// The adjoint of `first`. Its frame comes after the one of `first`.
    pub second: Adjoint,
}

/// Generates the adjoint of a kernel, and the adjoint of that, for second derivatives.
///
/// The first adjoint must be a kernel over elements: without loops that keep values, shared memory, warps that sum,
/// numbers by value with a gradient, and 16-bit floats. The second adjoint assumes that the first one has run: that the
/// status of its pass was 0.
///
/// # Errors
/// Returns the reasons why one of the two would be wrong, of the second derivatives as [`Reason::Second`].
pub fn differentiate_twice(module: &Module, spec: &Spec) -> Result<Twice, NotDifferentiable> {
    let refused =
        |kernel: &str, refusals| NotDifferentiable { kernel: kernel.to_owned(), refusals };
    let first = crate::differentiate(module, spec)?;
    let parsed = ptx::parse(&first.text).map_err(|error| {
        refused(&first.name, vec![Refusal::new(Reason::Internal, error.to_string())])
    })?;
    let reasons = reasons(module, spec, &first, &parsed);
    if !reasons.is_empty() {
        return Err(refused(&spec.kernel, reasons));
    }
    let of_first = spec_of(spec, &first);
    let second = pipeline::adjoint(&parsed, &of_first, true)
        .map_err(|refusals| refused(&first.name, refusals))?;
    Ok(Twice { first, spec: of_first, second })
}

/// Returns why the adjoint can't be differentiated.
fn reasons(module: &Module, spec: &Spec, first: &Adjoint, parsed: &Module) -> Vec<Refusal> {
    let mut found = Vec::new();
    let mut refuse = |is: bool, why: &str| {
        if is {
            let text = format!("second derivatives: {why}; {WAY_OUT}");
            found.push(Refusal::new(Reason::Second, text));
        }
    };
    let instrs = |module: &Module, is: fn(&Op) -> bool| {
        module.functions.iter().any(|function| function.instrs().iter().any(|instr| is(&instr.op)))
    };
    let pointers = || spec.params.iter().flat_map(|param| &param.pointers);
    let halves =
        pointers().filter_map(|pointer| pointer.reals).any(|reals| reals.real().scale() > 1)
            || spec.params.iter().flat_map(|param| &param.reals).any(|(_, real)| real.scale() > 1);
    let by_value = spec.params.iter().any(|param| param.active && !param.reals.is_empty());
    refuse(first.scratch, "the adjoint keeps values of loops in scratch memory");
    refuse(
        first.accesses.iter().any(|access| access.private),
        "the kernel loads what it has stored",
    );
    refuse(
        first.accesses.iter().any(|access| access.replayed),
        "the adjoint replays results of atomic operations",
    );
    refuse(
        by_value,
        "a number that is passed by value has a gradient, which blocks sum up: pass it in memory",
    );
    refuse(halves, "gradients of 16-bit floats are `float`");
    // A marker states a derivative, whose own derivative is not known, and the adjoint has none.
    let marker = |op: &Op| matches!(op, Op::Other { opcode, .. } if opcode.starts_with("ad."));
    refuse(
        instrs(module, marker),
        "the kernel has a number whose derivative is stated, or that is a constant",
    );
    let exchanges = |op: &Op| {
        matches!(
            op,
            Op::Bar { .. }
                | Op::BarWarp { .. }
                | Op::Shfl { .. }
                | Op::Vote { .. }
                | Op::Match { .. }
                | Op::Redux { .. }
                | Op::Activemask { .. }
        )
    };
    refuse(
        by_value || instrs(parsed, exchanges),
        "the threads of a block or a warp exchange values, in the kernel or for the sums of gradients that all threads \
         add to",
    );
    found
}

const WAY_OUT: &str =
    "take differences of gradients, or write the gradient as a kernel and differentiate that";

/// Returns the parameters of an adjoint.
fn spec_of(of: &Spec, adjoint: &Adjoint) -> Spec {
    let mut params = of.params.clone();
    for param in &of.params {
        let gradient = |pointers: Vec<Pointer>| Param {
            name: format!("the gradient of {}", param.name),
            pointers,
            structure: param.structure,
            ..Param::default()
        };
        let active = param.pointers.iter().filter(|pointer| pointer.active);
        match param.structure {
            true => {
                let active: Vec<Pointer> = active.cloned().collect();
                params.extend((!active.is_empty()).then(|| gradient(active)));
            }
            false => {
                params.extend(
                    active.map(|known| gradient(vec![Pointer { offset: 0, ..known.clone() }])),
                );
            }
        }
    }
    params.push(Param { name: "frame".to_owned(), ..Param::default() });
    Spec { kernel: adjoint.name.clone(), params }
}

/// Removes the load of the pass's status from an adjoint: the value is of another pass when the adjoint is reversed.
pub(crate) fn without_status(adjoint: &mut Function) {
    let Some(Formal::Var(frame)) = adjoint.params.last().copied() else { return };
    let status = i64::try_from(abi::STATUS).unwrap_or(0);
    let mut addresses = HashSet::new();
    for instr in adjoint.body.iter_mut().flatten() {
        let (ty, d) = match &instr.op {
            Op::Ld { addr, d, ty, access, .. } => {
                let [d] = d[..] else { continue };
                let of_frame =
                    *addr == Address { base: Base::Symbol(Symbol::Var(frame)), offset: status };
                let of_status = access.order == Order::Volatile
                    && matches!(addr.base, Base::Reg(reg) if addresses.contains(&reg));
                if of_frame {
                    addresses.extend(d);
                }
                if !of_frame && !of_status {
                    continue;
                }
                (*ty, d)
            }
            _ => continue,
        };
        instr.op = Op::Mov { ty, d, a: Operand::Imm(0) };
    }
}

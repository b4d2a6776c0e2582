//! Values that an adjoint reads and that may differ from its kernel's: variables of the module, clocks.
//!
//! The adjoint is a separate module, with separate variables. They have the same contents only if nobody can write
//! them.

use std::collections::{BTreeSet, HashSet};

use ptx::ir::{
    Function, GlobalId, Instr, Linkage, Module, Op, Place, RegId, Role, Space, Special, Symbol,
};

use crate::body::{Body, specials};
use crate::refusal::{Reason, Refusal, Refusals};

/// Returns the variables that the adjoint uses, or why the adjoint would not repeat its kernel.
pub(crate) fn check(
    module: &Module,
    body: &Body,
    adjoint: &Function,
) -> Result<BTreeSet<GlobalId>, Vec<Refusal>> {
    let mut found = Refusals::default();
    let mut used = BTreeSet::new();
    let mut changing = HashSet::new();
    for instr in adjoint.instrs() {
        symbols(instr, |symbol| {
            if let Symbol::Global(id) = symbol {
                used.insert(id);
            }
        });
        changing.extend(specials(&instr.op).into_iter().filter(|special| changes(*special)));
    }
    for (_, instr) in body.instrs() {
        let here = |refusal: Refusal| refusal.at(module, &body.function, instr);
        for special in specials(&instr.op).into_iter().filter(|s| changing.contains(s)) {
            let reason = Reason::Unknown(special.to_string());
            found.push(here(Refusal::new(reason, format!("`{special}` differs from run to run"))));
        }
        symbols(instr, |symbol| {
            let Symbol::Global(id) = symbol else { return };
            if !used.contains(&id) || is_constant(module, id) {
                return;
            }
            let name = module.globals.get(id.index()).map_or("", |variable| &*variable.name);
            let text = format!(
                "the adjoint is a module of its own, which does not see what the host or a kernel writes to `{name}`: pass \
                 the memory as a parameter, or give the variable its values where it is declared"
            );
            found.push(here(Refusal::new(Reason::ModuleGlobal, text)));
        });
    }
    if !found.is_empty() {
        return Err(found.into_list());
    }
    Ok(used)
}

/// Returns whether a special register may hold another value when the kernel is repeated.
fn changes(special: Special) -> bool {
    use Special::{
        Clock, Clock64, ClockHi, CurrentGraphExec, Globaltimer, GlobaltimerHi, GlobaltimerLo,
        Gridid, Pm, Pm64, Smid, Warpid,
    };
    matches!(
        special,
        Clock
            | Clock64
            | ClockHi
            | Globaltimer
            | GlobaltimerHi
            | GlobaltimerLo
            | Gridid
            | Smid
            | Warpid
            | CurrentGraphExec
            | Pm(_)
            | Pm64(_)
    )
}

/// Returns whether a variable has the same contents in every module of this text: it is private, has an initial value
/// without addresses, and no function can store to it.
fn is_constant(module: &Module, id: GlobalId) -> bool {
    let Some(variable) = module.globals.get(id.index()) else { return false };
    let private = variable.linkage == Linkage::Internal
        && matches!(variable.space, Space::Global | Space::Const)
        && !variable.managed;
    let plain = variable.init.as_ref().is_some_and(|init| init.addresses.is_empty());
    let escapes = module
        .globals
        .iter()
        .filter_map(|other| other.init.as_ref())
        .any(|init| init.addresses.iter().any(|address| address.symbol == Symbol::Global(id)));
    private && plain && !escapes && !module.functions.iter().any(|f| may_store(f, id))
}

/// Returns whether a function may store to a variable, or passes its address on.
fn may_store(function: &Function, id: GlobalId) -> bool {
    let wanted = Symbol::Global(id);
    let names = |instr: &Instr| {
        let mut found = false;
        symbols(instr, |symbol| found |= symbol == wanted);
        found
    };
    if !function.instrs().iter().any(names) {
        return false;
    }
    // Registers that may hold an address of the variable.
    let mut addresses: HashSet<RegId> = HashSet::new();
    loop {
        let before = addresses.len();
        for instr in function.instrs() {
            // The result of a load or a comparison is no address of the variable.
            if matches!(
                instr.op,
                Op::Ld { .. } | Op::Setp { .. } | Op::Set { .. } | Op::Isspacep { .. }
            ) {
                continue;
            }
            let mut touches = names(instr);
            instr.for_each_use(|reg| touches |= addresses.contains(&reg));
            if touches {
                instr.for_each_def(|reg| {
                    addresses.insert(reg);
                });
            }
        }
        if addresses.len() == before {
            break;
        }
    }
    function.instrs().iter().any(|instr| {
        let mut touches = names(instr);
        instr.for_each_place(|place| {
            if let Place::Register(Role::Use | Role::Unknown, reg) = place {
                touches |= addresses.contains(reg);
            }
        });
        let mut defines = false;
        instr.for_each_def(|_| defines = true);
        let harmless = matches!(
            instr.op,
            Op::Bra { .. }
                | Op::BrxIdx { .. }
                | Op::Ret { .. }
                | Op::Exit
                | Op::Trap
                | Op::Ld { .. }
        );
        let passes = matches!(instr.op, Op::Atom { .. } | Op::Call { .. } | Op::Other { .. });
        touches && !harmless && (!defines || passes)
    })
}

fn symbols(instr: &Instr, mut f: impl FnMut(Symbol)) {
    instr.for_each_place(|place| {
        if let Place::Symbol(symbol) = place {
            f(*symbol);
        }
    });
}

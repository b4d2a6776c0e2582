//! The state spaces that instructions name, and those of the variables that they name.

use ptx::ir::{Address, Base, Function, LdKind, Module, Op, Operand, Space, Symbol};

/// Spaces that are one to ptxas.
fn class(space: Space) -> Space {
    match space {
        Space::SharedCta | Space::SharedCluster => Space::Shared,
        Space::ParamEntry | Space::ParamFunc => Space::Param,
        space => space,
    }
}

fn space_of<'m>(
    module: &'m Module,
    function: &'m Function,
    symbol: Symbol,
) -> Option<(&'m str, Space)> {
    let variable = match symbol {
        Symbol::Global(id) => module.globals.get(id.index())?,
        Symbol::Var(id) => function.variables.get(id.index())?,
        Symbol::Function(_) => return None,
    };
    Some((&variable.name, class(variable.space)))
}

/// Returns the mistake in the state spaces of an instruction, if there is one.
pub(super) fn wrong(module: &Module, function: &Function, op: &Op) -> Option<String> {
    let mut addresses: [Option<(Space, &Address)>; 2] = [None, None];
    let mut symbol = None;
    match op {
        Op::Ld { kind, access, addr, .. } => {
            let space = match kind {
                LdKind::Plain => access.space,
                LdKind::NonCoherent | LdKind::Uniform => match class(access.space) {
                    Space::Generic | Space::Global => Space::Global,
                    space => return Some(format!("it loads from .global, not .{}", space.name())),
                },
            };
            addresses[0] = Some((space, addr));
        }
        Op::St { access, addr, .. } => {
            if access.space == Space::Const {
                return Some("nothing is stored to .const".to_owned());
            }
            addresses[0] = Some((access.space, addr));
        }
        Op::Atom { access, addr, .. } => {
            if matches!(class(access.space), Space::Const | Space::Local | Space::Param) {
                return Some(format!(
                    "it works in .global and .shared, not .{}",
                    access.space.name()
                ));
            }
            addresses[0] = Some((access.space, addr));
        }
        Op::CpAsync { dst, src, .. } => {
            addresses = [Some((Space::Shared, dst)), Some((Space::Global, src))];
        }
        Op::Prefetch { space, addr, .. }
        | Op::CpAsyncArrive { space, addr, .. }
        | Op::MbarrierInit { space, addr, .. }
        | Op::MbarrierInval { space, addr }
        | Op::MbarrierArrive { space, addr, .. }
        | Op::MbarrierWait { space, addr, .. }
        | Op::MbarrierTx { space, addr, .. }
        | Op::WmmaLoad { space, addr, .. }
        | Op::WmmaStore { space, addr, .. }
        | Op::Ldmatrix { space, addr, .. }
        | Op::Stmatrix { space, addr, .. } => addresses[0] = Some((*space, addr)),
        Op::StAsync { space, addr, mbarrier, .. } | Op::RedAsync { space, addr, mbarrier, .. } => {
            addresses = [Some((*space, addr)), Some((*space, mbarrier))];
        }
        Op::Mapa { a: Operand::Symbol(of, _), .. } => symbol = Some((Space::Shared, *of)),
        Op::Cvta { to: false, space, a: Operand::Symbol(of, _), .. } => {
            symbol = Some((*space, *of));
        }
        _ => return None,
    }
    let named = addresses.into_iter().flatten().filter_map(|(space, address)| match address.base {
        Base::Symbol(symbol) => Some((space, symbol)),
        _ => None,
    });
    for (space, symbol) in named.chain(symbol) {
        let Some((name, has)) = space_of(module, function, symbol) else { continue };
        let fits = match class(space) {
            // The address is taken in the variable's own space.
            Space::Generic => matches!(has, Space::Global | Space::Shared | Space::Local),
            space => space == has,
        };
        if !fits {
            let (space, has) = (class(space).name(), has.name());
            return Some(format!("the variable {name} lies in .{has}, not .{space}; write .{has}"));
        }
    }
    None
}

//! The variables of a program: which are shared, and the initial values of the others.

use std::collections::HashMap;

use ptx::ir::{Init, Module, Space as StateSpace, Symbol};

use crate::exec::memory::CODE_BASE;
use crate::exec::memory::element::{Mem, U8};

/// A shared variable of the module or of a function.
#[derive(Debug)]
pub(super) struct SharedVariable {
    pub(super) bytes: u32,
    pub(super) align: u32,
    pub(super) dynamic: bool,
}

/// The number of each shared variable, of the module or of a function.
pub(super) type Numbers = HashMap<(Option<u32>, u32), u32>;

/// Numbers the shared variables.
pub(super) fn shared_variables(module: &Module) -> (Numbers, Vec<SharedVariable>) {
    let (mut numbers, mut variables) = (HashMap::new(), Vec::new());
    let mut add = |key, variable: &ptx::ir::Variable| {
        if matches!(variable.space, StateSpace::Shared | StateSpace::SharedCta) {
            numbers.insert(key, variables.len() as u32);
            variables.push(SharedVariable {
                bytes: u32::try_from(variable.size()).unwrap_or(u32::MAX),
                align: variable.align,
                dynamic: variable.unsized_array || variable.linkage == ptx::ir::Linkage::Extern,
            });
        }
    };
    for (at, variable) in module.globals.iter().enumerate() {
        add((None, at as u32), variable);
    }
    for (f, function) in module.functions.iter().enumerate() {
        for (at, variable) in function.variables.iter().enumerate() {
            add((Some(f as u32), at as u32), variable);
        }
    }
    (numbers, variables)
}

/// Writes a variable's first value; its other bytes are zero already.
pub(super) fn write_initial(start: u64, bytes: u64, init: &Init, addresses: &[u64]) {
    let put = |offset: u64, byte: u8| {
        if offset < bytes {
            // SAFETY: the variable has `bytes` bytes from `start` on, just allocated.
            unsafe { U8::store(start + offset, byte.into()) };
        }
    };
    for (offset, run) in &init.runs {
        for (at, &byte) in run.iter().enumerate() {
            put(offset + at as u64, byte);
        }
    }
    for address in &init.addresses {
        let symbol = match address.symbol {
            Symbol::Global(g) => addresses.get(g.index()).copied().unwrap_or(0),
            Symbol::Function(f) => CODE_BASE + 16 * u64::from(f.0),
            Symbol::Var(_) => 0,
        };
        let mut value = symbol.wrapping_add_signed(address.addend);
        if let Some(mask) = address.mask {
            value = (value & mask).checked_shr(mask.trailing_zeros()).unwrap_or(0);
        }
        for (at, byte) in value.to_le_bytes().into_iter().take(address.bytes.into()).enumerate() {
            put(address.offset + at as u64, byte);
        }
    }
}

//! Declarations of variables, with their initialisers.

use std::fmt;

use super::operand::{Literal, symbol};
use crate::ir::{Function, Init, InitAddress, Module, Space, Variable};

/// A variable as it is declared, without the semicolon.
pub(super) struct Declared<'m> {
    pub(super) module: &'m Module,
    pub(super) function: Option<&'m Function>,
    pub(super) var: &'m Variable,
}

impl fmt::Display for Declared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let var = self.var;
        let linkage = var.linkage.name();
        if !linkage.is_empty() {
            write!(f, "{linkage} ")?;
        }
        write!(f, ".{}", var.space)?;
        if var.managed {
            f.write_str(" .attribute(.managed)")?;
        }
        if let Some(text) = &var.attributes {
            write!(f, " .attribute({text})")?;
        }
        write!(f, " .align {}", var.align)?;
        if var.vector > 1 {
            write!(f, " .v{}", var.vector)?;
        }
        write!(f, " .{}", var.ty)?;
        if let Some(ptr) = var.ptr {
            f.write_str(" .ptr")?;
            if ptr.space != Space::Generic {
                write!(f, " .{}", ptr.space)?;
            }
            if let Some(align) = ptr.align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", var.name)?;
        for (i, n) in var.dims.iter().enumerate() {
            if i == 0 && var.unsized_array { f.write_str("[]")? } else { write!(f, "[{n}]")? }
        }
        match &var.init {
            Some(init) => self.initializer(f, init),
            None => Ok(()),
        }
    }
}

/// The values of an initialiser by element, and where the writer is among them.
struct Values<'i> {
    init: &'i Init,
    bytes: u64,
    run: usize,
    address: usize,
}

impl Values<'_> {
    /// Returns the first element from `at` on that has a value.
    fn next(&mut self, at: u64) -> Option<u64> {
        let offset = at * self.bytes;
        let runs = &self.init.runs;
        while runs.get(self.run).is_some_and(|(start, run)| start + run.len() as u64 <= offset) {
            self.run += 1;
        }
        while self.init.addresses.get(self.address).is_some_and(|a| a.offset < offset) {
            self.address += 1;
        }
        let run = runs.get(self.run).map(|(start, _)| (*start).max(offset));
        let address = self.init.addresses.get(self.address).map(|a| a.offset);
        [run, address].into_iter().flatten().min().map(|offset| offset / self.bytes)
    }
}

impl Declared<'_> {
    fn initializer(&self, f: &mut fmt::Formatter<'_>, init: &Init) -> fmt::Result {
        let var = self.var;
        let mut values = Values { init, bytes: u64::from(var.ty.bytes()), run: 0, address: 0 };
        f.write_str(" = ")?;
        let mut dims = var.dims.clone();
        if var.vector > 1 {
            dims.push(u64::from(var.vector));
        }
        if dims.is_empty() && values.next(0) == Some(0) {
            return self.value(f, &values, 0);
        }
        self.braces(f, &mut values, &dims, 0)
    }

    /// Returns the elements from `base` on that dimension `dims[0]` spans. Recurses once per dimension.
    fn braces(
        &self,
        f: &mut fmt::Formatter<'_>,
        values: &mut Values<'_>,
        dims: &[u64],
        base: u64,
    ) -> fmt::Result {
        f.write_str("{")?;
        let (&count, inner) = dims.split_first().unwrap_or((&1, &[]));
        let stride: u64 = inner.iter().product();
        let end = base + count * stride;
        let mut at = base;
        while values.next(at).is_some_and(|next| next < end) {
            f.write_str(if at == base { "" } else { ", " })?;
            if inner.is_empty() {
                // Values lie side by side, except in a module that no text can have given.
                if values.next(at) == Some(at) {
                    self.value(f, values, at)?;
                } else {
                    f.write_str("0")?;
                }
            } else {
                self.braces(f, values, inner, at)?;
            }
            at += stride.max(1);
        }
        f.write_str("}")
    }

    fn value(&self, f: &mut fmt::Formatter<'_>, values: &Values<'_>, at: u64) -> fmt::Result {
        let offset = at * values.bytes;
        if let Some(address) =
            values.init.addresses.get(values.address).filter(|a| a.offset == offset)
        {
            return self.address(f, address);
        }
        let Some((start, run)) = values.init.runs.get(values.run) else { return Err(fmt::Error) };
        let from = usize::try_from(offset - start).map_err(|_| fmt::Error)?;
        let bytes = run.get(from..).unwrap_or_default();
        let mut bits = [0u8; 8];
        let count = bytes.len().min(8).min(self.var.ty.bytes() as usize);
        bits[..count].copy_from_slice(&bytes[..count]);
        let bits = u64::from_le_bytes(bits);
        // The upper half of 128 bits is the sign of the literal.
        if self.var.ty.bits() == 128 && bytes.get(8) == Some(&0xFF) {
            return write!(f, "{}", bits.cast_signed());
        }
        write!(f, "{}", Literal { bits, ty: self.var.ty })
    }

    fn address(&self, f: &mut fmt::Formatter<'_>, address: &InitAddress) -> fmt::Result {
        let name = symbol(self.module, self.function, address.symbol)?;
        if let Some(mask) = address.mask {
            write!(f, "{mask:#X}(")?;
        }
        match address.generic {
            true => write!(f, "generic({name})")?,
            false => f.write_str(name)?,
        }
        if address.addend != 0 {
            write!(f, "+{}", address.addend)?;
        }
        if address.mask.is_some() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

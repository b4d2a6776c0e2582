//! Initialisers: `= 5`, `= {1, 2, {generic(f)+8}}`.

use super::cursor::{Cursor, Number, Result};
use super::{bits, constant};
use crate::ir::{Init, InitAddress, Symbol, Type, Variable};
use crate::lex::Kind;

/// Finds a symbol by its name.
type Lookup<'l> = &'l mut dyn FnMut(&str) -> Option<Symbol>;

/// Reads `= value` if it comes next.
pub(super) fn initializer(
    cur: &mut Cursor<'_>,
    var: &mut Variable,
    lookup: Lookup<'_>,
) -> Result<()> {
    let place = cur.offset();
    if !cur.eat(b'=')? {
        return Ok(());
    }
    let mut dims = var.dims.clone();
    if var.vector > 1 {
        dims.push(u64::from(var.vector));
    }
    // Elements below each dimension; the parser of dimensions has checked the product.
    let mut strides = vec![1u64; dims.len()];
    for level in (1..dims.len()).rev() {
        strides[level - 1] = strides[level] * dims[level];
    }
    if strides.contains(&0) {
        return Err(cur.error_at(place, "a variable without elements cannot be initialised"));
    }
    if var.unsized_array {
        dims[0] = i64::MAX.cast_unsigned() / strides[0] / u64::from(var.ty.bytes());
    }
    let mut filler = Filler { cur, lookup, var, dims, strides, init: Init::default() };
    let end = if filler.cur.at(b'{') { filler.braces(0, 0)? } else { filler.scalar(0)? };
    let Filler { init, strides, .. } = filler;
    if var.unsized_array {
        var.unsized_array = false;
        var.dims[0] = end.div_ceil(strides[0]);
    }
    var.init = Some(init);
    Ok(())
}

struct Filler<'f, 'a> {
    cur: &'f mut Cursor<'a>,
    lookup: Lookup<'f>,
    var: &'f Variable,
    dims: Vec<u64>,
    strides: Vec<u64>,
    init: Init,
}

impl Filler<'_, '_> {
    /// Reads `{…}` that fills dimension `level` from element `base` on; returns the element after
    /// the last one filled.
    fn braces(&mut self, level: usize, base: u64) -> Result<u64> {
        self.cur.require(b'{')?;
        let stride = self.strides.get(level).copied().unwrap_or(1);
        let end = base + self.dims.get(level).copied().unwrap_or(1) * stride;
        let mut at = base;
        if self.cur.eat(b'}')? {
            return Ok(at);
        }
        loop {
            let place = self.cur.offset();
            if self.cur.at(b'{') {
                at = base + (at - base).next_multiple_of(stride);
            }
            if at >= end {
                return Err(self.cur.error_at(place, "more values than the variable has elements"));
            }
            if self.cur.at(b'{') {
                if level + 1 >= self.dims.len() {
                    return Err(self.cur.error_at(place, "braces deeper than the variable"));
                }
                self.braces(level + 1, at)?;
                at += stride;
            } else {
                at = self.scalar(at)?;
            }
            if !self.cur.comma_or(b'}')? {
                return Ok(at);
            }
        }
    }

    /// Reads the value of element `at`; returns the next.
    fn scalar(&mut self, at: u64) -> Result<u64> {
        let bytes = u64::from(self.var.ty.bytes());
        let offset = at * bytes;
        let place = self.cur.offset();
        let mask = if self.cur.kind() == Kind::Word && self.cur.text() != "WARP_SZ" {
            None
        } else {
            let number = self.cur.constant("a value")?;
            if !self.cur.at(b'(') {
                return self.store(at, number, place);
            }
            match number {
                Number::Int(mask) if mask != 0 => Some(mask),
                _ => return Err(self.cur.error_at(place, "a mask is an integer and not 0")),
            }
        };
        if mask.is_some() {
            self.cur.require(b'(')?;
        }
        let (symbol, addend, generic) = self.address()?;
        if mask.is_some() {
            self.cur.require(b')')?;
        }
        let width = u8::try_from(bytes).unwrap_or(u8::MAX);
        let address = InitAddress { offset, bytes: width, symbol, addend, generic, mask };
        self.init.addresses.push(address);
        Ok(at + 1)
    }

    fn store(&mut self, at: u64, number: Number, place: usize) -> Result<u64> {
        let ty = self.var.ty;
        let is_mixed = matches!((number, ty), (Number::Int(_), Type::F32 | Type::F64));
        let Some(bits) = bits(number, ty).filter(|_| !is_mixed) else {
            return Err(self.cur.error_at(place, format!("not a value of .{ty}")));
        };
        // 128-bit elements take their sign from the 64 bits that a literal has.
        let negative = matches!(number, Number::Int(n) if n.cast_signed() < 0);
        let high = if negative { [0xFF; 8] } else { [0; 8] };
        let mut value = [0u8; 16];
        value[..8].copy_from_slice(&bits.to_le_bytes());
        value[8..].copy_from_slice(&high);
        let bytes = ty.bytes() as usize;
        let offset = at * bytes as u64;
        let value = &value[..bytes.min(16)];
        match self.init.runs.last_mut() {
            Some((start, run)) if *start + run.len() as u64 == offset => {
                run.extend_from_slice(value);
            }
            _ => self.init.runs.push((offset, value.to_vec())),
        }
        Ok(at + 1)
    }

    /// `symbol`, `symbol+4`, `generic(symbol+4)`, `generic(symbol)+4`.
    fn address(&mut self) -> Result<(Symbol, i64, bool)> {
        let place = self.cur.offset();
        let word = self.cur.word("a symbol")?;
        if word == "generic" && self.cur.eat(b'(')? {
            let (symbol, inner, _) = self.address_of_symbol()?;
            self.cur.require(b')')?;
            let outer = addend(self.cur)?;
            return Ok((symbol, inner.wrapping_add(outer), true));
        }
        let symbol = self.find(word, place)?;
        Ok((symbol, addend(self.cur)?, false))
    }

    fn address_of_symbol(&mut self) -> Result<(Symbol, i64, bool)> {
        let place = self.cur.offset();
        let word = self.cur.word("a symbol")?;
        let symbol = self.find(word, place)?;
        Ok((symbol, addend(self.cur)?, false))
    }

    fn find(&mut self, name: &str, place: usize) -> Result<Symbol> {
        (self.lookup)(name)
            .ok_or_else(|| self.cur.error_at(place, format!("`{name}` is not declared")))
    }
}

/// `+n` after the name of a register or variable if it comes next, else 0. ptxas takes `+-4`, but not `-4`.
pub(super) fn addend(cur: &mut Cursor<'_>) -> Result<i64> {
    let place = cur.offset();
    if !cur.at(b'+') {
        return Ok(0);
    }
    match constant::expression(cur, "an offset")? {
        Number::Int(n) => Ok(n.cast_signed()),
        _ => Err(cur.error_at(place, "an offset must be an integer")),
    }
}

//! Constant expressions: numbers, signs, parentheses and C's integer operators.

use super::cursor::{Cursor, Number, Result};
use crate::lex::Kind;

/// How deep parentheses may nest.
const DEPTH: usize = 32;

/// Reads a constant expression.
pub(super) fn expression(cur: &mut Cursor<'_>, what: &str) -> Result<Number> {
    binary(cur, what, 0, DEPTH)
}

/// C's binary operators that begin with this punctuation, with how tightly they bind.
fn level(cur: &Cursor<'_>) -> Option<(u8, u8)> {
    let Kind::Punct(op) = cur.kind() else { return None };
    Some(match op {
        b'|' => (op, 1),
        b'^' => (op, 2),
        b'&' => (op, 3),
        b'+' | b'-' => (op, 5),
        b'*' | b'/' => (op, 6),
        _ => return None,
    })
}

fn binary(cur: &mut Cursor<'_>, what: &str, least: u8, depth: usize) -> Result<Number> {
    let mut left = unary(cur, what, depth)?;
    while let Some((op, binds)) = level(cur).filter(|&(_, binds)| binds > least) {
        let place = cur.offset();
        cur.advance()?;
        let right = binary(cur, what, binds, depth)?;
        let value = match (left, right) {
            (Number::Int(a), Number::Int(b)) => integer(op, a, b),
            _ => None,
        };
        left = Number::Int(value.ok_or_else(|| cur.error_at(place, "this has no integer value"))?);
    }
    Ok(left)
}

fn integer(op: u8, a: u64, b: u64) -> Option<u64> {
    match op {
        b'|' => Some(a | b),
        b'^' => Some(a ^ b),
        b'&' => Some(a & b),
        b'+' => Some(a.wrapping_add(b)),
        b'-' => Some(a.wrapping_sub(b)),
        b'*' => Some(a.wrapping_mul(b)),
        _ => {
            (b != 0).then(|| a.cast_signed().checked_div(b.cast_signed()))?.map(i64::cast_unsigned)
        }
    }
}

fn unary(cur: &mut Cursor<'_>, what: &str, depth: usize) -> Result<Number> {
    if depth == 0 {
        return Err(cur.error("the expression is nested too deeply"));
    }
    if cur.eat(b'-')? {
        return Ok(match unary(cur, what, depth - 1)? {
            Number::Int(n) => Number::Int(n.wrapping_neg()),
            Number::Float(x) => Number::Float(-x),
            Number::Float32(bits) => Number::Float32(bits ^ (1 << 31)),
        });
    }
    if cur.eat(b'+')? {
        return unary(cur, what, depth - 1);
    }
    if cur.eat(b'~')? {
        let place = cur.offset();
        return match unary(cur, what, depth - 1)? {
            Number::Int(n) => Ok(Number::Int(!n)),
            _ => Err(cur.error_at(place, "`~` wants an integer")),
        };
    }
    if cur.eat(b'(')? {
        let inner = binary(cur, what, 0, depth - 1)?;
        cur.require(b')')?;
        return Ok(inner);
    }
    if cur.kind() == Kind::Word && cur.text() == "WARP_SZ" {
        cur.advance()?;
        return Ok(Number::Int(32));
    }
    cur.number(what)
}

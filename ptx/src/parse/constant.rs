//! Constant expressions: C's operators on 64-bit integers, signed or not, and on floats.
//!
//! An integer is unsigned if its literal says so by `U` or does not fit a signed one. The result of an operator is
//! unsigned if an operand is, with the exceptions that [`integers`] names.

use super::cursor::{Cursor, Number, Result};
use crate::lex::Kind;

/// How deep parentheses, signs and conditions may nest.
const DEPTH: usize = 32;

/// The value of a part of an expression.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// An integer's bits, and whether it is unsigned.
    Int(u64, bool),
    Float(f64),
    /// `0f…`, which no operator takes.
    Single(u32),
}

/// Reads a constant expression.
pub(super) fn expression(cur: &mut Cursor<'_>, what: &str) -> Result<Number> {
    Ok(match conditional(cur, what, DEPTH)? {
        Value::Int(n, _) => Number::Int(n),
        Value::Float(x) => Number::Float(x),
        Value::Single(bits) => Number::Float32(bits),
    })
}

/// The binary operators of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    LogicalOr,
    LogicalAnd,
    Or,
    Xor,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Returns the binary operator that comes next, how tightly it binds, and whether it has two bytes.
fn operator(cur: &Cursor<'_>) -> Option<(Operator, u8, bool)> {
    let Kind::Punct(first) = cur.kind() else { return None };
    Some(match (first, cur.byte_after()) {
        (b'|', b'|') => (Operator::LogicalOr, 1, true),
        (b'&', b'&') => (Operator::LogicalAnd, 2, true),
        (b'|', _) => (Operator::Or, 3, false),
        (b'^', _) => (Operator::Xor, 4, false),
        (b'&', _) => (Operator::And, 5, false),
        (b'=', b'=') => (Operator::Equal, 6, true),
        (b'!', b'=') => (Operator::NotEqual, 6, true),
        (b'<', b'<') => (Operator::ShiftLeft, 8, true),
        (b'>', b'>') => (Operator::ShiftRight, 8, true),
        (b'<', b'=') => (Operator::LessEqual, 7, true),
        (b'>', b'=') => (Operator::GreaterEqual, 7, true),
        (b'<', _) => (Operator::Less, 7, false),
        (b'>', _) => (Operator::Greater, 7, false),
        (b'+', _) => (Operator::Add, 9, false),
        (b'-', _) => (Operator::Subtract, 9, false),
        (b'*', _) => (Operator::Multiply, 10, false),
        (b'/', _) => (Operator::Divide, 10, false),
        (b'%', _) => (Operator::Remainder, 10, false),
        _ => return None,
    })
}

/// Reads `a ? b : c`, or an expression without `?`.
fn conditional(cur: &mut Cursor<'_>, what: &str, depth: usize) -> Result<Value> {
    let condition = binary(cur, what, 0, depth)?;
    let place = cur.offset();
    if !cur.eat(b'?')? {
        return Ok(condition);
    }
    if depth == 0 {
        return Err(cur.error("the expression is nested too deeply"));
    }
    let then = conditional(cur, what, depth - 1)?;
    cur.require(b':')?;
    let otherwise = conditional(cur, what, depth - 1)?;
    match (condition, then, otherwise) {
        // The value keeps its type: ptxas does not convert both to one type.
        (Value::Int(0, _), Value::Int(..), chosen @ Value::Int(..))
        | (Value::Int(1.., _), chosen @ Value::Int(..), Value::Int(..)) => Ok(chosen),
        _ => Err(cur.error_at(place, "`?` takes integers")),
    }
}

fn binary(cur: &mut Cursor<'_>, what: &str, least: u8, depth: usize) -> Result<Value> {
    let mut left = unary(cur, what, depth)?;
    while let Some((op, binds, two)) = operator(cur).filter(|&(_, binds, _)| binds > least) {
        let place = cur.offset();
        cur.advance()?;
        if two {
            cur.advance()?;
        }
        let right = binary(cur, what, binds, depth)?;
        let value = match (left, right) {
            (Value::Int(a, ua), Value::Int(b, ub)) => integers(op, (a, ua), (b, ub)),
            (Value::Float(a), Value::Float(b)) => floats(op, a, b),
            _ => None,
        };
        left = value.ok_or_else(|| cur.error_at(place, "this operator has no value here"))?;
    }
    Ok(left)
}

/// Returns the value of an operator; `None` for a division by zero.
fn integers(
    op: Operator,
    (a, a_unsigned): (u64, bool),
    (b, b_unsigned): (u64, bool),
) -> Option<Value> {
    let unsigned = a_unsigned | b_unsigned;
    let same = |n| Some(Value::Int(n, unsigned));
    let truth = |is: bool| Some(Value::Int(u64::from(is), false));
    let (sa, sb) = (a.cast_signed(), b.cast_signed());
    let order = if unsigned { a.cmp(&b) } else { sa.cmp(&sb) };
    // ptxas uses the lower six bits of a count.
    let count = (b & 63) as u32;
    match op {
        Operator::LogicalOr => truth(a != 0 || b != 0),
        Operator::LogicalAnd => truth(a != 0 && b != 0),
        Operator::Equal => truth(a == b),
        Operator::NotEqual => truth(a != b),
        Operator::Less => truth(order.is_lt()),
        Operator::LessEqual => truth(order.is_le()),
        Operator::Greater => truth(order.is_gt()),
        Operator::GreaterEqual => truth(order.is_ge()),
        Operator::Or => same(a | b),
        Operator::Xor => same(a ^ b),
        Operator::And => same(a & b),
        Operator::ShiftLeft => Some(Value::Int(a << count, a_unsigned)),
        Operator::ShiftRight if a_unsigned => Some(Value::Int(a >> count, true)),
        Operator::ShiftRight => Some(Value::Int((sa >> count).cast_unsigned(), false)),
        Operator::Add => same(a.wrapping_add(b)),
        Operator::Subtract => same(a.wrapping_sub(b)),
        Operator::Multiply => same(a.wrapping_mul(b)),
        Operator::Divide if unsigned => same(a.checked_div(b)?),
        Operator::Divide => {
            (b != 0).then(|| Value::Int(sa.wrapping_div(sb).cast_unsigned(), false))
        }
        // Unlike in C, the remainder is of unsigned values.
        Operator::Remainder => Some(Value::Int(a.checked_rem(b)?, true)),
    }
}

fn floats(op: Operator, a: f64, b: f64) -> Option<Value> {
    let truth = |is: bool| Some(Value::Int(u64::from(is), false));
    match op {
        Operator::Add => Some(Value::Float(a + b)),
        Operator::Subtract => Some(Value::Float(a - b)),
        Operator::Multiply => Some(Value::Float(a * b)),
        Operator::Divide => Some(Value::Float(a / b)),
        Operator::Equal => truth(a == b),
        Operator::NotEqual => truth(a != b),
        Operator::Less => truth(a < b),
        Operator::LessEqual => truth(a <= b),
        Operator::Greater => truth(a > b),
        Operator::GreaterEqual => truth(a >= b),
        _ => None,
    }
}

fn unary(cur: &mut Cursor<'_>, what: &str, depth: usize) -> Result<Value> {
    if depth == 0 {
        return Err(cur.error("the expression is nested too deeply"));
    }
    let place = cur.offset();
    if let Kind::Punct(sign @ (b'-' | b'+' | b'~' | b'!')) = cur.kind() {
        cur.advance()?;
        let value = match (sign, unary(cur, what, depth - 1)?) {
            (b'-', Value::Int(n, unsigned)) => Some(Value::Int(n.wrapping_neg(), unsigned)),
            (b'-', Value::Float(x)) => Some(Value::Float(-x)),
            (b'+', value @ (Value::Int(..) | Value::Float(_))) => Some(value),
            (b'~', Value::Int(n, _)) => Some(Value::Int(!n, true)),
            (b'!', Value::Int(n, _)) => Some(Value::Int(u64::from(n == 0), false)),
            _ => None,
        };
        return value.ok_or_else(|| {
            cur.error_at(place, format!("`{}` has no value here", char::from(sign)))
        });
    }
    if cur.eat(b'(')? {
        let unsigned = match cur.peek_dotted() {
            Some("u64") => true,
            Some("s64") => false,
            _ => {
                let inner = conditional(cur, what, depth - 1)?;
                cur.require(b')')?;
                return Ok(inner);
            }
        };
        cur.advance()?;
        cur.require(b')')?;
        return match unary(cur, what, depth - 1)? {
            Value::Int(n, _) => Ok(Value::Int(n, unsigned)),
            _ => Err(cur.error_at(place, "`(.s64)` and `(.u64)` take integers")),
        };
    }
    if cur.kind() == Kind::Word && cur.text() == "WARP_SZ" {
        cur.advance()?;
        return Ok(Value::Int(32, false));
    }
    let unsigned = cur.text().ends_with(['U', 'u']);
    Ok(match cur.number(what)? {
        Number::Int(n) => Value::Int(n, unsigned || n.cast_signed() < 0),
        Number::Float(x) => Value::Float(x),
        Number::Float32(bits) => Value::Single(bits),
    })
}

//! Literals.

use syn::{Expr, ExprLit, Lit, LitFloat, LitInt};

use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

/// The value of a literal, for C++.
enum Number<'l> {
    Int(u64, &'l str),
    Float(&'l LitFloat),
}

impl Translator<'_> {
    /// Translates a literal with its sign. rustc infers its type if it has no suffix.
    pub(crate) fn literal(&mut self, e: &mut Expr, lit: &ExprLit, negative: bool) -> Result<Value> {
        let number = match &lit.lit {
            Lit::Bool(value) if !negative => return Ok(Value::constant(value.value.to_string())),
            Lit::Int(int) => Number::Int(int_value(int)?, int.suffix()),
            Lit::Float(float) => Number::Float(float),
            other => {
                return refused(
                    other,
                    "kernels have no such literal",
                    "use numbers and `bool`: of a byte, write its number, as `65u8` for `b'A'`",
                );
            }
        };
        let suffix = match number {
            Number::Int(_, suffix) => suffix,
            Number::Float(float) => float.suffix(),
        };
        let ty = if suffix.is_empty() { self.probe(e) } else { suffix.to_owned() };
        let code = match number {
            // A suffix can make an integer literal a float.
            Number::Int(value, "f32") => float_code(&value.to_string(), "f32", negative),
            Number::Int(value, "f64") => float_code(&value.to_string(), "f64", negative),
            Number::Int(value, _) => int_code(&ty, value, negative),
            Number::Float(float) if suffix.is_empty() => {
                format!("lit<{ty}>({})", any_float(float.base10_digits(), negative))
            }
            Number::Float(float) => float_code(float.base10_digits(), suffix, negative),
        };
        Ok(Value::constant(code))
    }

    /// Translates a literal in a pattern, which has the type of the scrutinee.
    pub(crate) fn pattern_literal(&mut self, e: &Expr) -> Result<String> {
        match e {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Bool(value) => Ok(value.value.to_string()),
                // In patterns, syn parses the sign as part of the literal.
                Lit::Int(int) if int.base10_digits().starts_with('-') => {
                    Ok(raw_int(int_value(int)?, true))
                }
                Lit::Int(int) => Ok(raw_int(int_value(int)?, false)),
                Lit::Float(float) => Ok(format!("({})", any_float(float.base10_digits(), false))),
                other => {
                    refused(other, "kernels match only numbers, `bool` and enums", "use its number")
                }
            },
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => match &*unary.expr {
                Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => Ok(raw_int(int_value(int)?, true)),
                Expr::Lit(ExprLit { lit: Lit::Float(float), .. }) => {
                    Ok(format!("({})", any_float(float.base10_digits(), true)))
                }
                other => refused(
                    other,
                    "kernels match only numbers, `bool` and enums",
                    "use a guard: `x if x == …`",
                ),
            },
            other => refused(
                other,
                "kernels match only numbers, `bool` and enums",
                "use a guard: `x if x == …`",
            ),
        }
    }
}

fn int_value(int: &LitInt) -> Result<u64> {
    int.base10_digits().trim_start_matches('-').parse().or_else(|_| {
        refused(int, "kernels have no integers of more than 64 bits", "use two `u64`s")
    })
}

fn raw_int(value: u64, negative: bool) -> String {
    match (negative, i64::try_from(value)) {
        (false, _) => format!("{value}ull"),
        (true, Ok(value)) => format!("-{value}ll"),
        // Only the smallest `i64` has a value that does not parse.
        (true, Err(_)) => "(-9223372036854775807ll - 1)".to_owned(),
    }
}

fn int_code(ty: &str, value: u64, negative: bool) -> String {
    format!("lit<{ty}>({})", raw_int(value, negative))
}

fn float_code(digits: &str, ty: &str, negative: bool) -> String {
    format!("{ty}({})", exact(digits, ty, negative))
}

/// Returns the bits of a number of a known type.
fn exact(digits: &str, ty: &str, negative: bool) -> String {
    let (sign, digits) = (
        if negative || digits.starts_with('-') { "-" } else { "" },
        digits.trim_start_matches('-'),
    );
    if ty == "f32" {
        let value: f32 = format!("{sign}{digits}").parse().unwrap_or(f32::NAN);
        format!("bits_f32({:#x}u)", value.to_bits())
    } else {
        let value: f64 = format!("{sign}{digits}").parse().unwrap_or(f64::NAN);
        format!("bits_f64({:#x}ull)", value.to_bits())
    }
}

/// Returns the bits for both types: C++ selects those of the type that rustc has inferred.
fn any_float(digits: &str, negative: bool) -> String {
    format!("any_float{{{}, {}}}", exact(digits, "f32", negative), exact(digits, "f64", negative))
}

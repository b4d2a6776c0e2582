//! Derivatives of float instructions, in f64 and as those of ideal functions: rounding, `.ftz` and approximation have
//! none.

use ptx::ir::{BinaryOp, Mode, Type, UnaryOp};

/// A float instruction of one to three sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Neg,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
    Add,
    Sub,
    Mul,
    Div,
    /// The least of two sources, or of three.
    Min(usize),
    Max(usize),
    Copysign,
    Fma,
}

/// Returns the instruction of one source, if it has a derivative.
pub(crate) fn unary(op: UnaryOp) -> Option<Function> {
    Some(match op {
        UnaryOp::Abs => Function::Abs,
        UnaryOp::Neg => Function::Neg,
        UnaryOp::Rcp => Function::Rcp,
        UnaryOp::Sqrt => Function::Sqrt,
        UnaryOp::Rsqrt => Function::Rsqrt,
        UnaryOp::Sin => Function::Sin,
        UnaryOp::Cos => Function::Cos,
        UnaryOp::Lg2 => Function::Lg2,
        UnaryOp::Ex2 => Function::Ex2,
        UnaryOp::Tanh => Function::Tanh,
        _ => return None,
    })
}

/// Returns the instruction of two sources, if it has a derivative.
pub(crate) fn binary(op: BinaryOp) -> Option<Function> {
    Some(match op {
        BinaryOp::Add => Function::Add,
        BinaryOp::Sub => Function::Sub,
        BinaryOp::Div => Function::Div,
        BinaryOp::Min => Function::Min(2),
        BinaryOp::Max => Function::Max(2),
        BinaryOp::Copysign => Function::Copysign,
        _ => return None,
    })
}

/// Returns a tangent times a factor. A constant stays one whatever the factor is.
fn scaled(tangent: f64, factor: f64) -> f64 {
    if tangent == 0.0 { 0.0 } else { tangent * factor }
}

/// 1 or -1, by the sign bit.
fn sign(value: f64) -> f64 {
    1f64.copysign(value)
}

/// A value and its tangent.
type Dual = (f64, f64);

/// The lesser or greater of two: the first of equal ones, the number of a number and NaN, and NaN with `.NaN`.
fn choose(greater: bool, mode: &Mode, a: Dual, b: Dual) -> Dual {
    let (x, y) = if mode.xorsign_abs { (a.0.abs(), b.0.abs()) } else { (a.0, b.0) };
    let first = match (x.is_nan(), y.is_nan()) {
        (true, true) => true,
        (nan, false) if nan => mode.nan,
        (false, true) => !mode.nan,
        _ => {
            if greater {
                x >= y
            } else {
                x <= y
            }
        }
    };
    let (value, tangent) = if first { a } else { b };
    if !mode.xorsign_abs {
        return (value, tangent);
    }
    let wanted = sign(a.0) * sign(b.0);
    (value.abs() * wanted, scaled(tangent, sign(value) * wanted))
}

/// Returns the tangent of a result: of `values` with these tangents, as many as the function has sources.
pub(crate) fn derivative(function: Function, mode: &Mode, v: [f64; 3], t: [f64; 3]) -> f64 {
    let ([a, b, c], [da, db, dc]) = (v, t);
    let (value, tangent) = match function {
        Function::Abs => (a.abs(), scaled(da, sign(a))),
        Function::Neg => (-a, -da),
        Function::Rcp => (1.0 / a, scaled(da, -1.0 / (a * a))),
        // The slope of the root is infinite at zero; the derivative is defined as zero.
        Function::Sqrt if a == 0.0 => (a, 0.0),
        Function::Sqrt => (a.sqrt(), scaled(da, 0.5 / a.sqrt())),
        Function::Rsqrt => (1.0 / a.sqrt(), scaled(da, -0.5 / (a * a.sqrt()))),
        Function::Sin => (a.sin(), scaled(da, a.cos())),
        Function::Cos => (a.cos(), scaled(da, -a.sin())),
        Function::Lg2 => (a.log2(), scaled(da, std::f64::consts::LOG2_E / a)),
        Function::Ex2 => (a.exp2(), scaled(da, std::f64::consts::LN_2 * a.exp2())),
        Function::Tanh => (a.tanh(), scaled(da, 1.0 / (a.cosh() * a.cosh()))),
        Function::Add => (a + b, da + db),
        Function::Sub => (a - b, da - db),
        Function::Mul => (a * b, scaled(da, b) + scaled(db, a)),
        Function::Div => (a / b, scaled(da, 1.0 / b) - scaled(db, a / b / b)),
        Function::Fma => (a.mul_add(b, c), scaled(da, b) + scaled(db, a) + dc),
        Function::Copysign => (b.copysign(a), scaled(db, sign(a) * sign(b))),
        Function::Min(count) | Function::Max(count) => {
            let greater = matches!(function, Function::Max(_));
            let two = choose(greater, mode, (a, da), (b, db));
            if count == 3 { choose(greater, mode, two, (c, dc)) } else { two }
        }
    };
    clamped(mode.sat, mode.relu, value, tangent)
}

/// Returns a result's tangent after `.sat` and `.relu`.
pub(crate) fn clamped(sat: bool, relu: bool, value: f64, tangent: f64) -> f64 {
    // NaN is outside of every range.
    let inside = (!sat || (0.0..=1.0).contains(&value)) && (!relu || (0.0..).contains(&value));
    if inside { tangent } else { 0.0 }
}

/// Returns how many numbers a value of a type is, and how many units each has; `None` of other types than floats of 16
/// bits and more.
pub(crate) fn layout(ty: Type) -> Option<(usize, usize)> {
    Some(match ty {
        Type::F16 | Type::Bf16 => (1, 1),
        Type::F16x2 | Type::Bf16x2 => (2, 1),
        Type::F32 | Type::Tf32 => (1, 2),
        Type::F32x2 => (2, 2),
        Type::F64 => (1, 4),
        _ => return None,
    })
}

/// Returns a number of a value of a type.
pub(crate) fn value(ty: Type, bits: u64, index: usize) -> f64 {
    let half = (bits >> (16 * (index & 1))) as u16;
    match ty {
        Type::F16 | Type::F16x2 => half_value(half),
        Type::Bf16 | Type::Bf16x2 => f32::from_bits(u32::from(half) << 16).into(),
        Type::F32 | Type::Tf32 | Type::F32x2 => {
            f32::from_bits((bits >> (32 * (index & 1))) as u32).into()
        }
        _ => f64::from_bits(bits),
    }
}

/// The value of an f16.
fn half_value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// The greatest finite number of a type.
pub(crate) fn greatest(ty: Type) -> f64 {
    match ty {
        Type::F16 | Type::F16x2 => 65504.0,
        Type::Bf16 | Type::Bf16x2 => f32::from_bits(0x7f7f_0000).into(),
        Type::F64 => f64::MAX,
        _ => f32::MAX.into(),
    }
}

//! Products and sums of `#[kernel(contract)]`: one operation if all operands are floats of the same type.

use std::any::Any;

/// Returns `a * b + c` rounded once, if all are floats of the same type.
#[inline(always)]
fn fused<A: Copy + 'static, B: Copy + 'static, C: Copy + 'static, R: 'static>(
    (a, b, c): (A, B, C),
    negate: (bool, bool),
) -> Option<R> {
    macro_rules! try_type {
        ($($float:ident)*) => {$(
            if let (Some(a), Some(b), Some(c)) = (
                (&a as &dyn Any).downcast_ref::<$float>(),
                (&b as &dyn Any).downcast_ref::<$float>(),
                (&c as &dyn Any).downcast_ref::<$float>(),
            ) {
                let a = if negate.0 { -*a } else { *a };
                let c = if negate.1 { -*c } else { *c };
                let mut result = Some(a.mul_add(*b, c));
                return (&mut result as &mut dyn Any).downcast_mut::<Option<R>>().and_then(Option::take);
            }
        )*};
    }
    try_type!(f32 f64);
    None
}

macro_rules! forms {
    ($($doc:literal $name:ident($x:ident, $y:ident, $z:ident) $operands:expr, $negate:expr;)*) => {$(
        #[doc = $doc]
        #[inline(always)]
        pub fn $name<X: Copy + 'static, Y: Copy + 'static, Z: Copy + 'static, R: 'static>(
            $x: X,
            $y: Y,
            $z: Z,
            else_: impl FnOnce(X, Y, Z) -> R,
        ) -> R {
            match fused($operands, $negate) {
                Some(result) => result,
                None => else_($x, $y, $z),
            }
        }
    )*};
}
forms! {
    "Returns `a * b + c`." product_plus(a, b, c) (a, b, c), (false, false);
    "Returns `a * b - c`." product_minus(a, b, c) (a, b, c), (false, true);
    "Returns `c + a * b`." plus_product(c, a, b) (a, b, c), (false, false);
    "Returns `c - a * b`." minus_product(c, a, b) (a, b, c), (true, false);
}

/// Computes `s += a * b`.
#[inline(always)]
pub fn add_product_assign<S: Copy + 'static, A: Copy + 'static, B: Copy + 'static>(
    s: &mut S,
    a: A,
    b: B,
    else_: impl FnOnce(&mut S, A, B),
) {
    match fused((a, b, *s), (false, false)) {
        Some(result) => *s = result,
        None => else_(s, a, b),
    }
}

/// Computes `s -= a * b`.
#[inline(always)]
pub fn sub_product_assign<S: Copy + 'static, A: Copy + 'static, B: Copy + 'static>(
    s: &mut S,
    a: A,
    b: B,
    else_: impl FnOnce(&mut S, A, B),
) {
    match fused((a, b, *s), (true, false)) {
        Some(result) => *s = result,
        None => else_(s, a, b),
    }
}

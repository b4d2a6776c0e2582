//! Operators of two operands.

use syn::{BinOp, Expr};

use crate::exprs::line_of;
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value, effect_of};

/// What an operator is in C++.
enum Operator {
    /// A function that gets the context and the line.
    Compute(&'static str),
    /// The same, of a place and an operand.
    Assign(&'static str),
    /// A function of the operands alone.
    Compare(&'static str),
    And,
    Or,
}

fn operator(op: &BinOp) -> Option<Operator> {
    use Operator::{And, Assign, Compare, Compute, Or};
    Some(match op {
        BinOp::Add(_) => Compute("o_add"),
        BinOp::Sub(_) => Compute("o_sub"),
        BinOp::Mul(_) => Compute("o_mul"),
        BinOp::Div(_) => Compute("o_div"),
        BinOp::Rem(_) => Compute("o_rem"),
        BinOp::BitXor(_) => Compute("o_bitxor"),
        BinOp::BitAnd(_) => Compute("o_bitand"),
        BinOp::BitOr(_) => Compute("o_bitor"),
        BinOp::Shl(_) => Compute("o_shl"),
        BinOp::Shr(_) => Compute("o_shr"),
        BinOp::AddAssign(_) => Assign("o_add_assign"),
        BinOp::SubAssign(_) => Assign("o_sub_assign"),
        BinOp::MulAssign(_) => Assign("o_mul_assign"),
        BinOp::DivAssign(_) => Assign("o_div_assign"),
        BinOp::RemAssign(_) => Assign("o_rem_assign"),
        BinOp::BitXorAssign(_) => Assign("o_bitxor_assign"),
        BinOp::BitAndAssign(_) => Assign("o_bitand_assign"),
        BinOp::BitOrAssign(_) => Assign("o_bitor_assign"),
        BinOp::ShlAssign(_) => Assign("o_shl_assign"),
        BinOp::ShrAssign(_) => Assign("o_shr_assign"),
        BinOp::Eq(_) => Compare("o_eq"),
        BinOp::Ne(_) => Compare("o_ne"),
        BinOp::Lt(_) => Compare("o_lt"),
        BinOp::Le(_) => Compare("o_le"),
        BinOp::Gt(_) => Compare("o_gt"),
        BinOp::Ge(_) => Compare("o_ge"),
        BinOp::And(_) => And,
        BinOp::Or(_) => Or,
        _ => return None,
    })
}

impl Translator<'_> {
    pub(crate) fn binary(&mut self, e: &mut Expr) -> Result<Value> {
        if let Some(value) = self.contracted(e)? {
            return Ok(value);
        }
        let line = line_of(e);
        let Expr::Binary(binary) = e else { return Ok(Value::unit()) };
        let (left, right) = (&mut *binary.left, &mut *binary.right);
        match operator(&binary.op) {
            Some(Operator::Compute(function)) => {
                let values = self.operands([left, right])?;
                let [a, b] = &values[..] else { return Ok(Value::unit()) };
                // Operators of user types run the user's code.
                let value = Value::new(
                    format!("{function}(c, {line}, {}, {})", a.code, b.code),
                    Effect::Faults,
                );
                Ok(value)
            }
            Some(Operator::Compare(function)) => {
                let values = self.operands([left, right])?;
                let [a, b] = &values[..] else { return Ok(Value::unit()) };
                Ok(Value::new(format!("{function}({}, {})", a.code, b.code), effect_of(&values)))
            }
            Some(Operator::Assign(function)) => {
                // Rust evaluates the operand of numbers first, then the place. For user types it is the other way
                // round; the two differ only if the operand changes the place's index, which is kept before.
                let value = self.operand(right)?;
                let value = self.keep(value);
                let place = self.place(left)?;
                self.stores(left)?;
                self.emit(&format!("{function}(c, {line}, {}, {});", place.code, value.code));
                Ok(Value::unit())
            }
            Some(Operator::And) => self.lazy(left, right, true),
            Some(Operator::Or) => self.lazy(left, right, false),
            None => refused(&binary.op, "kernels have no such operator", "use those of numbers"),
        }
    }

    /// `&&` and `||`: the right operand is evaluated only if the left one does not decide.
    fn lazy(&mut self, left: &mut Expr, right: &mut Expr, and: bool) -> Result<Value> {
        let a = self.operand(left)?;
        let (emitted, b) = self.captured(|s| s.expr(right))?;
        if emitted.is_empty() && !b.never {
            let op = if and { "&&" } else { "||" };
            return Ok(Value::new(
                format!("(v({}) {op} v({}))", a.code, b.code),
                a.effect.max(b.effect),
            ));
        }
        let name = self.name("t");
        self.emit(&format!("bool {name} = v({});", a.code));
        self.emit(&format!("if ({}{name}) {{", if and { "" } else { "!" }));
        self.out.push_str(&emitted);
        if !b.never {
            self.emit(&format!("{name} = v({});", b.code));
        }
        self.emit("}");
        Ok(Value::constant(name))
    }
}

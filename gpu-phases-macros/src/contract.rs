//! Contraction by syntax: with `#[kernel(contract)]`, a product and a sum of floats are one operation, on every target.
//!
//! A product that is the left operand of a sum or difference is contracted, else one that is the right operand.

use quote::{format_ident, quote};
use syn::{BinOp, Expr, ExprBinary};

use crate::exprs::{codes, line_of, replace};
use crate::refuse::Result;
use crate::translate::{Effect, Translator, Value};

/// The forms, with their functions in C++ and in the library, and their results for the operands in Rust's order.
#[derive(Clone, Copy)]
enum Form {
    ProductPlus,
    ProductMinus,
    PlusProduct,
    MinusProduct,
}

impl Form {
    fn function(self) -> &'static str {
        match self {
            Self::ProductPlus => "product_plus",
            Self::ProductMinus => "product_minus",
            Self::PlusProduct => "plus_product",
            Self::MinusProduct => "minus_product",
        }
    }
}

fn form(binary: &ExprBinary) -> Option<Form> {
    let (left, right) = (is_product(&binary.left), is_product(&binary.right));
    Some(match (&binary.op, left, right) {
        (BinOp::Add(_), true, _) => Form::ProductPlus,
        (BinOp::Sub(_), true, _) => Form::ProductMinus,
        (BinOp::Add(_), false, true) => Form::PlusProduct,
        (BinOp::Sub(_), false, true) => Form::MinusProduct,
        _ => return None,
    })
}

fn is_product(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => is_product(&inner.expr),
        Expr::Group(inner) => is_product(&inner.expr),
        Expr::Binary(binary) => matches!(binary.op, BinOp::Mul(_)),
        _ => false,
    }
}

/// Returns the operands of a product.
fn factors(e: &mut Expr) -> Option<(&mut Expr, &mut Expr)> {
    match e {
        Expr::Paren(inner) => factors(&mut inner.expr),
        Expr::Group(inner) => factors(&mut inner.expr),
        Expr::Binary(binary) => Some((&mut binary.left, &mut binary.right)),
        _ => None,
    }
}

impl Translator<'_> {
    /// Translates a sum or difference with a product, if it is contracted.
    pub(crate) fn contracted(&mut self, e: &mut Expr) -> Result<Option<Value>> {
        if !self.options.contract {
            return Ok(None);
        }
        let line = line_of(e);
        let Expr::Binary(binary) = e else { return Ok(None) };
        if matches!(binary.op, BinOp::AddAssign(_) | BinOp::SubAssign(_))
            && is_product(&binary.right)
        {
            return self.contracted_assign(e).map(Some);
        }
        let Some(form) = form(binary) else { return Ok(None) };
        let (left, right) = (&mut *binary.left, &mut *binary.right);
        let operands = match form {
            Form::ProductPlus | Form::ProductMinus => factors(left).map(|(a, b)| [a, b, right]),
            Form::PlusProduct | Form::MinusProduct => factors(right).map(|(a, b)| [left, a, b]),
        };
        let Some([x, y, z]) = operands else { return Ok(None) };
        let values = self.operands([&mut *x, &mut *y, &mut *z])?;
        let function = format_ident!("{}", form.function());
        let private = self.private();
        let computes = match form {
            Form::ProductPlus => quote!(x * y + z),
            Form::ProductMinus => quote!(x * y - z),
            Form::PlusProduct => quote!(x + y * z),
            Form::MinusProduct => quote!(x - y * z),
        };
        let call = quote!(#private::#function(#x, #y, #z, |x, y, z| #computes));
        let code = format!("o_{function}(c, {line}, {})", codes(&values));
        replace(e, |_| call);
        Ok(Some(Value::new(code, Effect::Faults)))
    }

    /// Translates `s += a * b`.
    fn contracted_assign(&mut self, e: &mut Expr) -> Result<Value> {
        let line = line_of(e);
        let Expr::Binary(binary) = e else { return Ok(Value::unit()) };
        let add = matches!(binary.op, BinOp::AddAssign(_));
        let Some((a, b)) = factors(&mut binary.right) else { return Ok(Value::unit()) };
        let values = self.operands([&mut *a, &mut *b])?;
        let values: Vec<Value> = values.into_iter().map(|value| self.keep(value)).collect();
        let private = self.private();
        let (name, computes) = if add {
            ("add_product_assign", quote!(*s += x * y))
        } else {
            ("sub_product_assign", quote!(*s -= x * y))
        };
        let (a, b) = (quote!(#a), quote!(#b));
        let place = self.place(&mut binary.left)?;
        self.stores(&binary.left.clone())?;
        self.emit(&format!("o_{name}(c, {line}, {}, {});", place.code, codes(&values)));
        let (function, to) = (format_ident!("{name}"), &binary.left);
        let call = quote!({
            let phases_factors = (#a, #b);
            #private::#function(&mut #to, phases_factors.0, phases_factors.1, |s, x, y| #computes)
        });
        replace(e, |_| call);
        Ok(Value::unit())
    }
}

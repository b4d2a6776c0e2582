//! Binary operators.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{BinOp, Expr, Ident, UnOp};

use crate::exprs::{line_of, replace};
use crate::names::is_pure;
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value, effect_of};

/// The C++ form of an operator.
enum Operator {
    /// A function of the context, the line and the operands.
    Compute(&'static str),
    /// The same, for a place and an operand.
    Assign(&'static str),
    /// A function of the operands only.
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

/// Returns whether an operator binds no more than `==`.
pub(crate) fn binds_less(op: &BinOp) -> bool {
    matches!(operator(op), Some(Operator::Compare(_) | Operator::And | Operator::Or))
}

/// Returns whether the location of a place depends on a variable: in its index, or in the reference that it
/// dereferences.
fn moves(place: &Expr, s: &Translator<'_>) -> bool {
    match place {
        Expr::Paren(inner) => moves(&inner.expr, s),
        Expr::Field(field) => moves(&field.base, s),
        Expr::Path(_) => false,
        Expr::Index(index) => moves(&index.expr, s) || varies(&index.index, s),
        Expr::Unary(unary) => varies(&unary.expr, s),
        _ => true,
    }
}

/// Returns whether an expression may have another value later: it reads more than literals and immutable variables.
fn varies(e: &Expr, s: &Translator<'_>) -> bool {
    match e {
        Expr::Lit(_) => false,
        Expr::Paren(inner) => varies(&inner.expr, s),
        Expr::Cast(cast) => varies(&cast.expr, s),
        Expr::Binary(binary) => varies(&binary.left, s) || varies(&binary.right, s),
        Expr::Path(path) => {
            let local = path.path.get_ident().and_then(|name| s.local(&name.to_string()));
            local.is_some_and(|local| local.mutable)
        }
        _ => true,
    }
}

/// Returns whether an expression may change a variable.
fn changes(e: &Expr) -> bool {
    struct Changes(bool);
    impl<'a> Visit<'a> for Changes {
        fn visit_expr(&mut self, e: &'a Expr) {
            self.0 |= match e {
                Expr::Assign(_) | Expr::Closure(_) => true,
                Expr::Binary(binary) => matches!(operator(&binary.op), Some(Operator::Assign(_))),
                Expr::Reference(reference) => reference.mutability.is_some(),
                Expr::MethodCall(call) => !is_pure(&call.method.to_string()),
                // A local closure may change its captured variables.
                Expr::Call(call) => {
                    matches!(&*call.func, Expr::Path(path) if path.path.get_ident().is_some())
                        && call.args.is_empty()
                }
                _ => false,
            };
            syn::visit::visit_expr(self, e);
        }

        fn visit_macro(&mut self, _: &'a syn::Macro) {
            self.0 = true;
        }
    }
    let mut changes = Changes(false);
    changes.visit_expr(e);
    changes.0
}

/// Returns the part of a receiver without effects that leads to all of it, if the receiver is a place.
pub(crate) fn borrowed(receiver: &Expr) -> Option<TokenStream> {
    match receiver {
        Expr::Paren(inner) => borrowed(&inner.expr),
        Expr::Group(inner) => borrowed(&inner.expr),
        Expr::Reference(to) => borrowed(&to.expr),
        Expr::Index(index) => borrowed(&index.expr),
        Expr::Field(field) => {
            let (base, member) = (borrowed(&field.base)?, &field.member);
            // An element's index is not evaluated again.
            Some(if has_index(&field.base) { base } else { quote!(#base.#member) })
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => borrowed(&unary.expr),
        Expr::Path(path) if path.path.get_ident().is_some() => Some(quote!(#path)),
        _ => None,
    }
}

fn has_index(place: &Expr) -> bool {
    match place {
        Expr::Paren(inner) => has_index(&inner.expr),
        Expr::Group(inner) => has_index(&inner.expr),
        Expr::Field(field) => has_index(&field.base),
        Expr::Unary(unary) => has_index(&unary.expr),
        place => matches!(place, Expr::Index(_)),
    }
}

/// Returns whether evaluating an argument may change a variable.
pub(crate) fn may_change(argument: &Expr) -> bool {
    struct Calls(bool);
    impl<'a> Visit<'a> for Calls {
        fn visit_expr_call(&mut self, _: &'a syn::ExprCall) {
            self.0 = true;
        }
    }
    let mut calls = Calls(false);
    calls.visit_expr(argument);
    !matches!(argument, Expr::Closure(_)) && (calls.0 || changes(argument))
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
                // Operators of user types run user code, which may have effects.
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
                // Rust evaluates the operand of numbers first, then the place, and the other way round for user
                // types. So an operand that changes the place is refused, and rustc's copy has the order of numbers.
                if moves(left, self) && changes(right) {
                    return refused(
                        right,
                        "this may change which element the left side is: Rust's order depends on the type",
                        "name the right side first: `let value = …;`",
                    );
                }
                let value = self.operand(right)?;
                let value = self.keep(value);
                let place = self.place(left)?;
                self.stores(left)?;
                self.emit(&format!("{function}(c, {line}, {}, {});", place.code, value.code));
                let op = binary.op;
                let (left, right) = (quote!(#left), quote!(#right));
                let name = Ident::new("phases_right", Span::mixed_site());
                // The span makes rustc report the location of the operands, not of the macro.
                let mut value = Group::new(Delimiter::Parenthesis, quote!(#name));
                value.set_span(op.span());
                let in_order = quote!(match #right { #name => #left #op #value });
                replace(e, |_| in_order);
                Ok(Value::unit())
            }
            Some(Operator::And) => self.lazy(left, right, true),
            Some(Operator::Or) => self.lazy(left, right, false),
            None => refused(&binary.op, "kernels have no such operator", "use those of numbers"),
        }
    }

    /// Translates `&&` and `||`, which evaluate the right operand only if the left one does not decide.
    fn lazy(&mut self, left: &mut Expr, right: &mut Expr, and: bool) -> Result<Value> {
        let a = self.operand(left)?;
        let (emitted, b) = self.captured(|s| s.branching(|s| s.expr(right)))?;
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

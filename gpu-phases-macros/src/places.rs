//! Places: locals, fields, elements and dereferences.

use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, UnOp};

use crate::blocks::Role;
use crate::checks::Hoisted;
use crate::exprs::{line_of, member, replace};
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value};

impl Translator<'_> {
    /// Translates a place: the result is a C++ lvalue if the Rust is a place.
    pub(crate) fn place(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::Paren(inner) => self.place(&mut inner.expr),
            Expr::Group(inner) => self.place(&mut inner.expr),
            Expr::Field(field) => {
                let name = member(&field.member);
                let base = self.place(&mut field.base)?;
                Ok(Value::new(format!("d({}).{name}", base.code), base.effect.max(Effect::Reads)))
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                let base = self.place(&mut unary.expr)?;
                Ok(Value::new(format!("deref({})", base.code), base.effect.max(Effect::Reads)))
            }
            Expr::Index(_) => self.index(e, false),
            _ => self.operand(e),
        }
    }

    /// Translates an element, or a field of one, whose value is copied.
    pub(crate) fn copied(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::Index(_) => self.index(e, true),
            Expr::Field(_) if of_element(e) => {
                let value = self.field_of_element(e)?;
                Ok(Value::new(format!("copy({})", value.code), value.effect))
            }
            _ => self.place(e),
        }
    }

    fn field_of_element(&mut self, e: &mut Expr) -> Result<Value> {
        match e {
            Expr::Paren(inner) => self.field_of_element(&mut inner.expr),
            Expr::Field(field) => {
                let name = member(&field.member);
                let base = self.field_of_element(&mut field.base)?;
                Ok(Value::new(format!("d({}).{name}", base.code), base.effect))
            }
            _ => self.index(e, true),
        }
    }

    /// Translates an element: as a place, or, if `read`, as its value.
    fn index(&mut self, e: &mut Expr, read: bool) -> Result<Value> {
        let line = line_of(e);
        let Expr::Index(index) = e else { return Ok(Value::unit()) };
        if matches!(*index.index, Expr::Range(_)) {
            return refused(
                &index.index,
                "a part of a slice has no size",
                "take it by reference: `let part = &x[a..b];`",
            );
        }
        self.own_element(index)?;
        // The length of what a phase hands out cannot be asked while an element is written.
        let simple = is_repeatable(&index.expr)
            && is_repeatable(&index.index)
            && !self.is_item(innermost(&index.expr));
        let original = index.expr.to_token_stream();
        let hoisted = self.hoist(index, read);
        let written = index.clone();
        let base = self.place(&mut index.expr)?;
        let mut bases = [base];
        let at = self.operand_after(&mut bases, &mut index.index, true)?;
        let [base] = bases;
        let near = (read && hoisted.is_none())
            .then(|| self.near(&written, [&base.code, &at.code]))
            .flatten();
        if simple {
            // The library checks this index in rustc's copy, because it knows the line. Rust checks other indices
            // itself.
            let (private, written) = (self.private(), index.expr.to_token_stream());
            let base = if original.to_string() == written.to_string() { original } else { written };
            let line = u32::try_from(line).unwrap_or(0);
            replace(
                &mut index.index,
                |at| quote!(#private::index(#at, (#base).phases_len(), #line)),
            );
        }
        if let Some(code) = near {
            return Ok(Value::new(code, Effect::Faults));
        }
        let function = if read { "read" } else { "at" };
        let (at, more) = match hoisted {
            None => (at.code, String::new()),
            Some(Hoisted { known, ahead }) => {
                // The hoisted check also covers the parts of the index's sum.
                let at = if at.code.contains("(c, ") {
                    format!("[&](auto c) {{ return {}; }}(sure(c, {known}))", at.code)
                } else {
                    at.code
                };
                let ahead = ahead.map(|name| format!(", {name}")).unwrap_or_default();
                (at, format!(", {known}{ahead}"))
            }
        };
        Ok(Value::new(
            format!("{function}(c, {line}, d({}), {at}{more})", base.code),
            Effect::Faults,
        ))
    }

    /// Refuses an index into an output of the kernel's loop: a thread has only one element.
    fn own_element(&self, index: &syn::ExprIndex) -> Result<()> {
        let Expr::Path(path) = &*index.expr else { return Ok(()) };
        let Some(name) = path.path.get_ident().map(ToString::to_string) else { return Ok(()) };
        let Some(local) = self.local(&name) else { return Ok(()) };
        let what = if self.outputs.iter().any(|(output, _)| *output == local.cpp) {
            format!("the loop writes `{name}`, so a thread has only its own element of it")
        } else if self.number_items.contains(&local.cpp) {
            format!("`{name}` is the thread's own element here, and not a slice")
        } else {
            return Ok(());
        };
        let help = "use the element that the closure is given; read others from another slice, `x: &[T]`, and write \
                    others through an `&Atomic<[T]>`";
        refused(index, &what, help)
    }

    pub(crate) fn reference(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Reference(reference) = e else { return Ok(Value::unit()) };
        // In C++ a handle of a block's memory is a reference already.
        if self.role(&reference.expr) != Role::Value {
            return Ok(Value::constant(self.handle(&mut reference.expr)?));
        }
        if let Expr::Index(index) = &*reference.expr
            && matches!(*index.index, Expr::Range(_))
        {
            return self.part(e);
        }
        let function = if reference.mutability.is_some() { "borrow_mut" } else { "borrow" };
        let is_place = is_place(&reference.expr);
        let mut value = self.place(&mut reference.expr)?;
        if !is_place {
            // The variable is a temporary of Rust, which lives as long as the reference.
            let name = self.name("t");
            self.emit(&format!("auto {name} = {};", value.code));
            value = Value::constant(name);
        }
        // The address of a variable is constant, although its value is not.
        let effect = if value.effect == Effect::Faults { Effect::Faults } else { Effect::Constant };
        let effect = if is_element(&reference.expr) { effect.max(Effect::Reads) } else { effect };
        Ok(Value::new(format!("{function}({})", value.code), effect))
    }

    /// Translates `&x[a..b]` and `&mut x[a..b]`.
    fn part(&mut self, e: &mut Expr) -> Result<Value> {
        let line = line_of(e);
        let Expr::Reference(reference) = e else { return Ok(Value::unit()) };
        let mutability = reference.mutability;
        let Expr::Index(index) = &mut *reference.expr else { return Ok(Value::unit()) };
        let Expr::Range(range) = &mut *index.index else { return Ok(Value::unit()) };
        if let syn::RangeLimits::Closed(limits) = &range.limits {
            return refused(
                limits,
                "kernels take no part with its last index",
                "write `&x[a..b + 1]`",
            );
        }
        let base = self.place(&mut index.expr)?;
        let mut values = vec![base];
        for bound in [&mut range.start, &mut range.end].into_iter().flatten() {
            let value = self.operand_after(&mut values, bound, true)?;
            values.push(value);
        }
        let (private, base) = (self.private(), &index.expr);
        let start = range.start.as_ref().map_or(quote!(0), ToTokens::to_token_stream);
        let end = match &range.end {
            Some(end) => quote!(::core::option::Option::Some(#end)),
            None => quote!(::core::option::Option::None),
        };
        let at = u32::try_from(line).unwrap_or(0);
        let (function, rust) = if mutability.is_some() {
            ("part_mut", quote!(#private::part_mut(&mut (#base)[..], #start, #end, #at)))
        } else {
            ("part", quote!(#private::part(&(#base)[..], #start, #end, #at)))
        };
        let mut bounds: Vec<String> = values[1..].iter().map(|value| value.code.clone()).collect();
        if range.start.is_none() {
            bounds.insert(0, "usize(0)".to_owned());
        }
        let code = format!("{function}(c, {line}, d({}), {})", values[0].code, bounds.join(", "));
        replace(e, |_| rust);
        Ok(self.called(code))
    }

    /// Translates assignments, including compound ones.
    pub(crate) fn assign(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Assign(assign) = e else { return Ok(Value::unit()) };
        if let Expr::Infer(_) = *assign.left {
            let value = self.operand(&mut assign.right)?;
            self.emit(&format!("(void)({});", value.code));
            return Ok(Value::unit());
        }
        if matches!(*assign.left, Expr::Tuple(_) | Expr::Array(_) | Expr::Struct(_) | Expr::Call(_))
        {
            return refused(
                &assign.left,
                "kernels assign to one place at a time",
                "take the values by `let (a, b) = …;` and assign each",
            );
        }
        // Barriers follow from what each name leads to, so none may lead to other memory later.
        let leads = self.of_block && !self.made(&assign.right).1.is_empty();
        // Rust evaluates the value first, then the place.
        let value = self.operand(&mut assign.right)?;
        let value = if value.effect == Effect::Faults { self.keep(value) } else { value };
        if leads && self.role(&assign.left) == Role::Value {
            let private = self.private();
            let span = syn::spanned::Spanned::span(&*assign.right);
            replace(&mut assign.right, |inner| quote_spanned!(span=> #private::assigned(#inner)));
        }
        let mark = self.out.len();
        let place = self.place(&mut assign.left)?;
        let value = if self.out.len() > mark && value.effect != Effect::Constant {
            let emitted = self.out.split_off(mark);
            let kept = self.keep(value);
            self.out.push_str(&emitted);
            kept
        } else {
            value
        };
        self.stores(&assign.left)?;
        self.emit(&format!("{} = {};", place.code, value.code));
        Ok(Value::unit())
    }
}

/// Returns whether an expression is a place that exists without a temporary.
pub(crate) fn is_place(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        Expr::Path(path) => path.path.get_ident().is_some(),
        // A temporary is stored in a C++ variable.
        Expr::Field(_) => true,
        Expr::Index(_) => true,
        Expr::Unary(unary) => matches!(unary.op, UnOp::Deref(_)),
        _ => false,
    }
}

/// Returns what a place is an element, a field or the target of.
fn innermost(e: &Expr) -> &Expr {
    match e {
        Expr::Paren(inner) => innermost(&inner.expr),
        Expr::Group(inner) => innermost(&inner.expr),
        Expr::Index(index) => innermost(&index.expr),
        Expr::Field(field) => innermost(&field.base),
        Expr::Unary(unary) => innermost(&unary.expr),
        _ => e,
    }
}

/// Returns whether the place is in memory that an index or a reference selects.
fn is_element(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => is_element(&inner.expr),
        Expr::Group(inner) => is_element(&inner.expr),
        Expr::Field(_) | Expr::Index(_) | Expr::Unary(_) => true,
        _ => false,
    }
}

/// Returns whether the place is a field of an element, without a dereference.
fn of_element(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => of_element(&inner.expr),
        Expr::Field(field) => of_element(&field.base),
        Expr::Index(_) => true,
        _ => false,
    }
}

/// Returns whether an expression may be evaluated twice instead of once.
pub(crate) fn is_repeatable(e: &Expr) -> bool {
    match e {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Paren(inner) => is_repeatable(&inner.expr),
        Expr::Group(inner) => is_repeatable(&inner.expr),
        Expr::Field(field) => is_repeatable(&field.base),
        Expr::Unary(unary) => is_repeatable(&unary.expr),
        Expr::Binary(binary) => {
            !is_assigning(&binary.op) && is_repeatable(&binary.left) && is_repeatable(&binary.right)
        }
        Expr::Index(index) => is_repeatable(&index.expr) && is_repeatable(&index.index),
        Expr::Cast(cast) => is_repeatable(&cast.expr),
        Expr::MethodCall(call) => call.method == "len" && is_repeatable(&call.receiver),
        _ => false,
    }
}

/// Returns whether an operator is a compound assignment such as `+=`.
pub(crate) fn is_assigning(op: &syn::BinOp) -> bool {
    use syn::BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign,
        ShlAssign, ShrAssign, SubAssign,
    };
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

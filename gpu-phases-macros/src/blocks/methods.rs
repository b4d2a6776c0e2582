//! Methods of a block and of its memory.

use quote::quote;
use syn::{Expr, ExprMethodCall, Local, Pat, Type};

use super::barriers::{Access, Kind};
use super::{NUMBERS, OF_MEMORY, Role, SPLITS, phases};
use crate::exprs::{line_of, replace};
use crate::names::defined_name;
use crate::refuse::{Result, refused};
use crate::translate::{Effect, Translator, Value};

impl Translator<'_> {
    /// Translates a method of a block or of its memory. `None`: it is another one.
    pub(crate) fn block_method(&mut self, e: &mut Expr) -> Result<Option<Value>> {
        let Expr::MethodCall(call) = e else { return Ok(None) };
        let name = call.method.to_string();
        let line = line_of(&call.method);
        if name == "column" && self.is_item(&call.receiver) {
            let item = self.operand(&mut call.receiver)?;
            self.of_library(&mut call.receiver);
            let values = self.operands(&mut call.args)?;
            let values = crate::exprs::codes(&values);
            return Ok(Some(Value::constant(format!(
                "m_column(c, {line}, {}, {values})",
                item.code
            ))));
        }
        match self.role(&call.receiver) {
            Role::Block if NUMBERS.contains(&name.as_str()) => {
                let block = self.operand(&mut call.receiver)?;
                self.of_library(&mut call.receiver);
                Ok(Some(Value::constant(format!("b_{name}(c, {line}, {})", block.code))))
            }
            Role::Block if self.level.is_none() => refused(
                &call.receiver,
                "a thread cannot use the block",
                "take what it needs before the phase: `let first = block.index() * 256;`",
            ),
            Role::Block if ["shared", "shared_slice", "per_thread"].contains(&name.as_str()) => {
                refused(
                    &call.method,
                    "memory of a block is declared by a `let`",
                    "write `let mut tile = block.shared([0.0f32; 256]);` as a statement of the kernel's closure",
                )
            }
            Role::Block => {
                self.is_the_block(&call.receiver)?;
                self.phase(call).map(Some)
            }
            Role::Memory | Role::Part if OF_MEMORY.contains(&name.as_str()) && name != "len" => {
                let value = self.split(call, &name, line)?;
                if SPLITS.contains(&name.as_str()) {
                    call.method = syn::Ident::new(&defined_name(&name), call.method.span());
                } else {
                    self.of_library(&mut call.receiver);
                }
                Ok(Some(value))
            }
            Role::Slot if name == "set" => {
                let slot = self.handle(&mut call.receiver)?;
                let values = self.operands(&mut call.args)?;
                self.effect();
                let values = crate::exprs::codes(&values);
                self.emit(&format!("b_set(c, {line}, {slot}, {values});"));
                Ok(Some(Value::unit()))
            }
            _ => Ok(None),
        }
    }

    /// Gives a receiver the type of `&self`: methods of traits for its own type would come before those of the library.
    fn of_library(&self, receiver: &mut Expr) {
        let private = self.private();
        replace(receiver, |inner| quote!(#private::built_in(&(#inner))));
    }

    /// Refuses other receivers than the name of the block, for whose types a trait of the program may have the method.
    pub(crate) fn is_the_block(&self, receiver: &Expr) -> Result<()> {
        match receiver {
            Expr::Path(_) => Ok(()),
            _ => refused(
                receiver,
                "this is not the name of the block",
                "call the method of the name itself: `block.each(…)`",
            ),
        }
    }

    /// Returns whether an expression names what a phase has handed to the thread.
    pub(crate) fn is_item(&self, e: &Expr) -> bool {
        let Expr::Path(path) = e else { return false };
        let local = path.path.get_ident().and_then(|name| self.local(&name.to_string()));
        local.is_some_and(|local| local.role == Role::Item)
    }

    fn split(&mut self, call: &mut ExprMethodCall, name: &str, line: usize) -> Result<Value> {
        let handle = self.handle(&mut call.receiver)?;
        let values = self.operands(&mut call.args)?;
        let values: String = values.iter().map(|value| format!(", {}", value.code)).collect();
        let mut sizes = String::new();
        if name == "patches" {
            let Some(written) = &call.turbofish else {
                return refused(
                    &call.method,
                    "the size of the patches is not written here",
                    "write `tile.patches::<8, 8>()`, or `part.patches::<4>()`",
                );
            };
            let written: Vec<_> =
                written.args.iter().map(|arg| self.sizes([quote!(#arg)]).concat()).collect();
            sizes = format!("<{}>", written.join(", "));
        }
        Ok(Value::new(format!("b_{name}{sizes}(c, {line}, {handle}{values})"), Effect::Faults))
    }

    /// Translates a `let` of memory of a block. `None`: it is another one.
    pub(crate) fn block_let(&mut self, local: &mut Local) -> Result<Option<Value>> {
        let Some(init) = &mut local.init else { return Ok(None) };
        let Expr::MethodCall(call) = &mut *init.expr else { return Ok(None) };
        if self.role(&call.receiver) != Role::Block || self.level.is_none() {
            return Ok(None);
        }
        self.is_the_block(&call.receiver)?;
        match call.method.to_string().as_str() {
            "shared" => self.shared(&mut local.pat, call).map(Some),
            "shared_slice" => self.shared_slice(&mut local.pat, call).map(Some),
            "per_thread" => self.per_thread(&mut local.pat, call).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the name of a shared array, and whether it is mutable.
    fn name_of_shared(&self, pat: &Pat, call: &ExprMethodCall) -> Result<(String, bool)> {
        let at_top = self.level.as_ref().is_some_and(|level| level.scopes == self.scopes.len());
        if !at_top {
            return refused(
                &call.method,
                "a shared array is declared at the top of the kernel's closure",
                "move the `let` there, and pass `&mut tile` to functions",
            );
        }
        match crate::patterns::single_name(pat) {
            Some(name) => Ok(name),
            None => refused(
                pat,
                "a shared array has one name",
                "write `let mut tile = block.shared(…);`",
            ),
        }
    }

    /// Meets before a new array is filled: a thread that has left a phase would not fill its elements.
    fn meet_to_fill(&mut self) {
        if let Some(level) = &mut self.level
            && level.phases
        {
            level.plan.barrier();
            self.out.push_str("B::meet();\n");
        }
    }

    fn shared_slice(&mut self, pat: &mut Pat, call: &mut ExprMethodCall) -> Result<Value> {
        let (name, mutable) = self.name_of_shared(pat, call)?;
        let Some(element) = element_of_shared(call).cloned() else {
            return refused(
                &call.method,
                "the type of the elements is not written here",
                "write `block.shared_slice::<f32>(n, 0.0)`: the launch computes how many bytes the array has",
            );
        };
        let (Some(len), Some(_)) = (call.args.first(), call.args.get(1)) else {
            return Ok(Value::unit());
        };
        let inside = super::reads::names(len)
            .into_iter()
            .find(|name| self.local(&name.to_string()).is_some_and(|local| !local.shared));
        if let Some(inside) = inside {
            return refused(
                &inside,
                "the launch computes the length of this array, and does not know this value",
                "use parameters, lengths of slices, and what a `let` before `blocks` computes of them",
            );
        }
        let ty = self.ty(&element)?;
        let len = self.operand(&mut call.args[0])?;
        let mut values = [len];
        let value = self.operand_after(&mut values, &mut call.args[1], false)?;
        let [len] = values;
        let cpp = self.declare(&name, mutable);
        self.note(vec![Access::new(&cpp, Kind::Owned)]);
        self.meet_to_fill();
        let line = line_of(&call.method);
        self.emit(&format!(
            "piece<{ty}> {cpp} = shared_slice<B, {ty}>(c, {line}, shared_bytes, {}, {});",
            len.code, value.code
        ));
        self.give_role(pat, Role::Memory, &[]);
        Ok(Value::unit())
    }

    fn shared(&mut self, pat: &mut Pat, call: &mut ExprMethodCall) -> Result<Value> {
        let (name, mutable) = self.name_of_shared(pat, call)?;
        // Rustc's copy has the type; the C++ fills the memory with the value alone.
        let mut value = match call.args.first() {
            Some(value) => value.clone(),
            None => return Ok(Value::unit()),
        };
        let mut depth = 0;
        while let Expr::Repeat(repeat) = value {
            value = (*repeat.expr).clone();
            depth += 1;
        }
        let repeated = depth > 0 && !matches!(value, Expr::Array(_));
        let filled = if repeated {
            let inner = innermost(&mut call.args[0]);
            let value = self.operand(inner)?;
            // Its checks stay, also where a load overwrites the array, and no memory is filled.
            let value = if value.effect == Effect::Faults { self.keep(value) } else { value };
            format!("fill<B>({{}}, {})", value.code)
        } else {
            let value = self.operand(&mut call.args[0])?;
            format!("set_all<B>({{}}, {})", value.code)
        };
        let ty = phases::probed(self, call);
        let cpp = self.declare(&name, mutable);
        let kind = if repeated { Kind::Owned } else { Kind::Written };
        self.meet_to_fill();
        self.note(vec![Access::new(&cpp, kind)]);
        let memory = self.name("memory");
        self.emit(&format!(
            "alignas(16) __shared__ {ty} {memory};\nshared<{ty}> {cpp}{{&{memory}}};"
        ));
        self.emit(&format!("{};", filled.replacen("{}", &cpp, 1)));
        self.give_role(pat, Role::Memory, &[]);
        Ok(Value::unit())
    }

    fn per_thread(&mut self, pat: &mut Pat, call: &mut ExprMethodCall) -> Result<Value> {
        let Some((name, mutable)) = crate::patterns::single_name(pat) else {
            return refused(pat, "a value of each thread has one name", "write a `let` for each");
        };
        let Some(value) = call.args.first_mut() else { return Ok(Value::unit()) };
        let value = self.operand(value)?;
        let cpp = self.declare(&name, mutable);
        self.emit(&format!("auto {cpp} = kept_by<B>({});", value.code));
        self.give_role(pat, Role::Own, &[]);
        Ok(Value::unit())
    }

    /// Returns the role of what an expression makes, and the memory that it leads to.
    pub(crate) fn made(&self, e: &Expr) -> (Role, Vec<String>) {
        let value = (Role::Value, Vec::new());
        match e {
            Expr::Paren(inner) => self.made(&inner.expr),
            Expr::Reference(inner) if self.role(&inner.expr) != Role::Value => {
                self.made(&inner.expr)
            }
            Expr::Unary(inner) if self.role(e) != Role::Value => self.made(&inner.expr),
            // Its items are not surely those of the same thread: another `let` of the name may have other memory.
            Expr::Path(_) => match self.role(e) {
                Role::Memory | Role::Part => (Role::Part, self.roots_of(e)),
                Role::Value => self.borrowed(e),
                role => (role, Vec::new()),
            },
            Expr::Tuple(tuple) => {
                let made: Vec<_> = tuple.elems.iter().map(|part| self.made(part)).collect();
                let roots = made.iter().flat_map(|(_, roots)| roots.clone()).collect();
                let any = |wanted| made.iter().any(|(role, _)| *role == wanted);
                match (any(Role::Own), any(Role::Part), any(Role::Borrowed)) {
                    (true, ..) => (Role::Own, roots),
                    (_, true, _) => (Role::Part, roots),
                    (.., true) => (Role::Borrowed, roots),
                    _ => value,
                }
            }
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                match self.role(&call.receiver) {
                    Role::Memory | Role::Part if SPLITS.contains(&name.as_str()) => {
                        (Role::Part, self.roots_of(&call.receiver))
                    }
                    Role::Memory | Role::Part if OF_MEMORY.contains(&name.as_str()) => value,
                    // Values of phases have no references.
                    Role::Block => value,
                    _ => self.borrowed(e),
                }
            }
            Expr::Closure(_) => {
                let roots = self.roots_of(e);
                (if roots.is_empty() { Role::Value } else { Role::Part }, roots)
            }
            Expr::Index(_) | Expr::Field(_) if self.is_element(e) => value,
            Expr::Cast(_) | Expr::Lit(_) | Expr::Binary(_) => value,
            _ => self.borrowed(e),
        }
    }

    /// Returns whether a `let` gives one name to several targets of a phase, which would be copies in C++.
    pub(crate) fn names_targets(&self, pat: &Pat, e: &Expr) -> bool {
        match e {
            Expr::Paren(inner) => self.names_targets(pat, &inner.expr),
            Expr::Tuple(tuple) if crate::patterns::single_name(pat).is_some() => {
                tuple.elems.iter().any(|e| matches!(self.made(e).0, Role::Own | Role::Part))
            }
            _ => false,
        }
    }

    fn borrowed(&self, e: &Expr) -> (Role, Vec<String>) {
        let roots = self.read_roots(e);
        (if roots.is_empty() { Role::Value } else { Role::Borrowed }, roots)
    }

    /// Returns whether an expression is an element of a handle, or a field of one: it has no references.
    fn is_element(&self, e: &Expr) -> bool {
        match e {
            Expr::Field(field) => self.is_element(&field.base),
            Expr::Index(index) => {
                matches!(self.role(&index.expr), Role::Memory | Role::Part)
                    || self.is_element(&index.expr)
            }
            _ => false,
        }
    }

    /// Returns whether this is `std::mem::swap` of handles.
    pub(crate) fn is_swap(&self, e: &Expr) -> bool {
        let Expr::Call(call) = e else { return false };
        let Expr::Path(function) = &*call.func else { return false };
        let last = function.path.segments.last();
        last.is_some_and(|last| last.ident == "swap")
            && call.args.len() == 2
            && call.args.iter().any(|arg| self.role(arg) != Role::Value)
    }

    /// `std::mem::swap(&mut a, &mut b)` of two handles or variables. `None`: it is another call.
    pub(crate) fn swap(&mut self, e: &mut Expr) -> Result<Option<Value>> {
        if !self.is_swap(e) {
            return Ok(None);
        }
        let Expr::Call(call) = e else { return Ok(None) };
        let private = self.private();
        // The program may have a function of this name.
        replace(&mut call.func, |function| quote!(#private::swap(#function)));
        // Of variables the handles change their places. What references lead to has other names, which keep their handles.
        let variables = call
            .args
            .iter()
            .all(|arg| matches!(arg, Expr::Reference(arg) if matches!(*arg.expr, Expr::Path(_))));
        if !variables && self.level.is_none() {
            return refused(
                &call.func,
                "arrays are swapped where the block is",
                "give the function the block: `fn step<const N: usize>(block: &mut Block<N>, …)`",
            );
        }
        let roots: Vec<String> = call.args.iter().flat_map(|arg| self.roots_of(arg)).collect();
        let handles =
            call.args.iter_mut().map(|arg| self.handle(arg)).collect::<Result<Vec<_>>>()?;
        let handles = handles.join(", ");
        if variables {
            self.emit(&format!("swap_handles({handles});"));
        } else {
            let accesses = roots.iter().map(|root| Access::new(root, Kind::Written)).collect();
            self.note(accesses);
            self.emit(&format!("swap_memory<B>(c, {handles});"));
        }
        if let Some(level) = &mut self.level {
            level.plan.swap(roots);
        }
        Ok(Some(Value::unit()))
    }
}

/// Returns the type of the elements in `block.shared_slice::<T>(…)`.
pub(crate) fn element_of_shared(call: &ExprMethodCall) -> Option<&Type> {
    match call.turbofish.as_ref()?.args.first()? {
        syn::GenericArgument::Type(ty) if !matches!(ty, Type::Infer(_)) => Some(ty),
        _ => None,
    }
}

/// Returns the value that an array repeats, inside of others that do.
fn innermost(e: &mut Expr) -> &mut Expr {
    match e {
        Expr::Repeat(repeat) => innermost(&mut repeat.expr),
        other => other,
    }
}

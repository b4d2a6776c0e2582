//! The reader: recursive descent over the mangled name, its types in an arena, so that substitutions
//! share what they name. Every `None` means 'not understood' and ends the reading.

use std::cell::Cell;

use super::{Pointee, Scalar, Type};

/// Deeper nesting than any kernel's signature has.
const MAX_DEPTH: usize = 64;

/// A type's place in the arena.
type Id = usize;

#[derive(Debug, Clone)]
enum Node {
    Void,
    Scalar(Scalar),
    Pointer(Id),
    Const(Id),
    /// A class or enumeration in no namespace and without template arguments.
    Named(String),
    /// A function, with its result and its parameters.
    Function(Vec<Id>),
    /// Read to its end, but of no interest: references, arrays, nested names...
    Other,
}

#[derive(Debug)]
struct Parser<'a> {
    rest: &'a [u8],
    nodes: Vec<Node>,
    substitutions: Vec<Id>,
    /// The function's own template arguments, `None` for those that are no types.
    template_args: Vec<Option<Id>>,
    depth: usize,
    /// How many more bytes of class names may be described. A name that each parameter repeats by a substitution of two
    /// bytes would take memory quadratic in the text.
    names_left: Cell<usize>,
}

fn parser(name: &str) -> Option<Parser<'_>> {
    Some(Parser {
        rest: name.strip_prefix("_Z")?.as_bytes(),
        nodes: Vec::new(),
        substitutions: Vec::new(),
        template_args: Vec::new(),
        depth: 0,
        names_left: Cell::new(name.len().saturating_mul(16).saturating_add(4096)),
    })
}

pub(super) fn parameters(name: &str) -> Vec<Type> {
    let mut types = Vec::new();
    let Some(mut parser) = parser(name) else {
        return types;
    };
    let Some(templated) = parser.function_name() else {
        return types;
    };
    // A template's name is followed by its return type.
    if templated && parser.ty().is_none() {
        return types;
    }
    // Compilers may append a dot and a suffix to the name.
    while !matches!(parser.rest.first(), None | Some(b'.')) {
        let Some(id) = parser.ty() else { break };
        if types.is_empty() && matches!(parser.nodes[id], Node::Void) {
            break;
        }
        types.push(parser.describe(id));
    }
    types
}

pub(super) fn function(name: &str) -> Option<String> {
    let mut parser = parser(name)?;
    let begin = parser.rest;
    let templated = parser.function_name()?;
    let mut rest = begin.strip_prefix(b"N").unwrap_or(begin);
    let mut text = String::new();
    loop {
        rest = rest.strip_prefix(b"St").unwrap_or(rest);
        rest = rest.strip_prefix(b"L").unwrap_or(rest);
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            break;
        }
        let length: usize = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
        let end = digits.checked_add(length)?;
        let part = std::str::from_utf8(rest.get(digits..end)?).ok()?;
        if !part.starts_with("_INTERNAL_") && !part.starts_with("_GLOBAL__N_") {
            if !text.is_empty() {
                text.push_str("::");
            }
            text.push_str(part);
        }
        rest = rest.get(end..)?;
        if begin.first() != Some(&b'N') {
            break;
        }
    }
    if text.is_empty() {
        return None;
    }
    if templated {
        let each = parser.template_args.iter().map(|argument| match argument {
            Some(id) => parser.describe(*id).to_string(),
            None => "…".to_owned(),
        });
        text = format!("{text}<{}>", each.collect::<Vec<_>>().join(", "));
    }
    Some(text)
}

pub(super) fn argument_parameters(name: &str) -> Option<Vec<Type>> {
    let mut parser = parser(name)?;
    parser.function_name()?;
    let mut id = (*parser.template_args.first()?)?;
    while let Node::Pointer(pointee) = parser.nodes[id] {
        id = pointee;
    }
    let Node::Function(types) = &parser.nodes[id] else { return None };
    match types.as_slice() {
        [_] | [] => None,
        [_, only] if matches!(parser.nodes[*only], Node::Void) => Some(Vec::new()),
        [_, parameters @ ..] => Some(parameters.iter().map(|id| parser.describe(*id)).collect()),
    }
}

impl<'a> Parser<'a> {
    fn eat(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn node(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Parses a node that a later `S_` can name.
    fn substitutable(&mut self, node: Node) -> Id {
        let id = self.node(node);
        self.substitutions.push(id);
        id
    }

    /// Runs `read` one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Digits up to something else.
    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// `<length><identifier>`.
    fn source_name(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        let name = self.rest.get(..length).filter(|n| !n.is_empty())?;
        self.rest = &self.rest[length..];
        // An ABI tag would belong to the name.
        (self.rest.first() != Some(&b'B')).then_some(name)
    }

    /// Returns the encoded function's name; whether it ended in template arguments.
    fn function_name(&mut self) -> Option<bool> {
        if self.eat(b"N") {
            return self.nested_function_name();
        }
        self.eat(b"St");
        self.eat(b"L");
        self.source_name()?;
        if self.rest.first() != Some(&b'I') {
            return Some(false);
        }
        self.substitutable(Node::Other);
        self.template_args = self.template_arguments()?;
        Some(true)
    }

    /// Parses a nested name after the `N`: each prefix can be named later, the whole cannot.
    fn nested_function_name(&mut self) -> Option<bool> {
        self.eat(b"St");
        loop {
            self.eat(b"L");
            self.source_name()?;
            if self.eat(b"E") {
                return Some(false);
            }
            self.substitutable(Node::Other);
            if self.rest.first() == Some(&b'I') {
                self.template_args = self.template_arguments()?;
                // Arguments of an enclosing class would make T_ ambiguous, but classes hold no kernels.
                return self.eat(b"E").then_some(true);
            }
        }
    }

    /// `I…E`.
    fn template_arguments(&mut self) -> Option<Vec<Option<Id>>> {
        if !self.eat(b"I") {
            return None;
        }
        let mut arguments = Vec::new();
        while !self.eat(b"E") {
            arguments.push(if self.eat(b"L") {
                self.literal()?;
                None
            } else {
                Some(self.ty()?)
            });
        }
        Some(arguments)
    }

    /// Parses a literal argument after the `L`: a type, digits, `E`.
    fn literal(&mut self) -> Option<()> {
        self.ty()?;
        self.eat(b"n");
        self.number()?;
        self.eat(b"E").then_some(())
    }

    fn ty(&mut self) -> Option<Id> {
        self.deeper(Self::ty_here)
    }

    fn ty_here(&mut self) -> Option<Id> {
        let (&first, rest) = self.rest.split_first()?;
        if let Some(scalar) = scalar(first) {
            self.rest = rest;
            return Some(self.node(Node::Scalar(scalar)));
        }
        match first {
            b'v' => {
                self.rest = rest;
                Some(self.node(Node::Void))
            }
            b'P' => {
                self.rest = rest;
                let pointee = self.ty()?;
                Some(self.substitutable(Node::Pointer(pointee)))
            }
            b'R' | b'O' => {
                self.rest = rest;
                self.ty()?;
                Some(self.substitutable(Node::Other))
            }
            b'r' | b'V' | b'K' => self.qualified(),
            b'A' => {
                self.rest = rest;
                self.number()?;
                if !self.eat(b"_") {
                    return None;
                }
                self.ty()?;
                Some(self.substitutable(Node::Other))
            }
            b'F' => {
                self.rest = rest;
                self.eat(b"Y");
                let mut types = Vec::new();
                while !self.eat(b"E") {
                    types.push(self.ty()?);
                }
                Some(self.substitutable(Node::Function(types)))
            }
            b'T' => {
                self.rest = rest;
                let id = self.template_parameter()?;
                // A template template parameter has its own arguments.
                if self.rest.first() == Some(&b'I') {
                    return None;
                }
                self.substitutions.push(id);
                Some(id)
            }
            b'S' if rest.first() != Some(&b't') => {
                self.rest = rest;
                let id = self.substitution()?;
                if self.rest.first() != Some(&b'I') {
                    return Some(id);
                }
                self.template_arguments()?;
                Some(self.substitutable(Node::Other))
            }
            b'N' => {
                self.rest = rest;
                self.nested_type()
            }
            b'S' | b'0'..=b'9' => self.class_type(),
            b'D' => self.extended_builtin(rest),
            // Among others g and e (128-bit and long double), vendor types and qualifiers, pointers to
            // members, packs, decltype, expressions.
            _ => None,
        }
    }

    /// `[r][V][K]` and the type they qualify: together one entry of the table.
    fn qualified(&mut self) -> Option<Id> {
        self.eat(b"r");
        self.eat(b"V");
        let constant = self.eat(b"K");
        // A function's qualifiers are part of its type, without a separate entry.
        if matches!(self.rest.first(), Some(b'r' | b'V' | b'K' | b'F')) {
            return None;
        }
        let inner = self.ty()?;
        if constant {
            return Some(self.substitutable(Node::Const(inner)));
        }
        // The same type, not a copy of it: a function may have many parameters.
        self.substitutions.push(inner);
        Some(inner)
    }

    /// Parses a template parameter after the `T`: `_`, `0_`, `1_`…
    fn template_parameter(&mut self) -> Option<Id> {
        let index =
            if self.rest.first() == Some(&b'_') { 0 } else { self.number()?.checked_add(1)? };
        if !self.eat(b"_") {
            return None;
        }
        *self.template_args.get(index)?
    }

    /// Parses a substitution after the `S`: `_`, `0_`… `Z_`, `10_`, in base 36.
    fn substitution(&mut self) -> Option<Id> {
        let mut index = 0_usize;
        if self.rest.first() != Some(&b'_') {
            while let Some((&digit, rest)) = self.rest.split_first() {
                let value = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'A'..=b'Z' => digit - b'A' + 10,
                    _ => break,
                };
                index = index.checked_mul(36)?.checked_add(usize::from(value))?;
                self.rest = rest;
            }
            index = index.checked_add(1)?;
        }
        if !self.eat(b"_") {
            return None;
        }
        self.substitutions.get(index).copied()
    }

    /// Parses a class outside any namespace, or in `std`, with or without arguments.
    fn class_type(&mut self) -> Option<Id> {
        let in_std = self.eat(b"St");
        let name = String::from_utf8_lossy(self.source_name()?).into_owned();
        let templated = self.rest.first() == Some(&b'I');
        let node = if in_std || templated { Node::Other } else { Node::Named(name) };
        let id = self.substitutable(node);
        if !templated {
            return Some(id);
        }
        self.template_arguments()?;
        Some(self.substitutable(Node::Other))
    }

    /// Parses a nested class after the `N`: every prefix, and the whole, can be named later.
    fn nested_type(&mut self) -> Option<Id> {
        let mut last = None;
        if self.rest.starts_with(b"S") && !self.eat(b"St") {
            self.rest = &self.rest[1..];
            last = Some(self.substitution()?);
        }
        loop {
            match self.rest.first()? {
                b'E' => {
                    self.rest = &self.rest[1..];
                    return last;
                }
                b'I' => {
                    last?;
                    self.template_arguments()?;
                }
                _ => {
                    self.eat(b"L");
                    self.source_name()?;
                }
            }
            last = Some(self.substitutable(Node::Other));
        }
    }

    /// Parses the second letter of a two-letter builtin, after the `D`.
    fn extended_builtin(&mut self, rest: &'a [u8]) -> Option<Id> {
        let node = match rest.first()? {
            b'u' => Node::Scalar(Scalar::Char8),
            b's' => Node::Scalar(Scalar::Char16),
            b'i' => Node::Scalar(Scalar::Char32),
            b'n' => Node::Other,
            _ => return None,
        };
        self.rest = &rest[1..];
        Some(self.node(node))
    }

    /// Removes `const`; whether there was any.
    fn bare(&self, mut id: Id) -> (Id, bool) {
        let mut constant = false;
        while let Node::Const(inner) = self.nodes[id] {
            (id, constant) = (inner, true);
        }
        (id, constant)
    }

    /// Returns the name of a class; `None` if the names of all parameters become too long.
    fn spell(&self, name: &str) -> Option<String> {
        let left = self.names_left.get().checked_sub(name.len())?;
        self.names_left.set(left);
        Some(name.to_owned())
    }

    fn describe(&self, id: Id) -> Type {
        let (id, _) = self.bare(id);
        match &self.nodes[id] {
            Node::Scalar(scalar) => Type::Scalar(*scalar),
            Node::Named(name) => self.spell(name).map_or(Type::Unknown, Type::Named),
            Node::Pointer(pointee) => {
                let (pointee, constant) = self.bare(*pointee);
                let pointee = match &self.nodes[pointee] {
                    Node::Void => Pointee::Void,
                    Node::Scalar(scalar) => Pointee::Scalar(*scalar),
                    Node::Named(name) => self.spell(name).map_or(Pointee::Unknown, Pointee::Named),
                    _ => Pointee::Unknown,
                };
                Type::Pointer { pointee, constant }
            }
            _ => Type::Unknown,
        }
    }
}

fn scalar(code: u8) -> Option<Scalar> {
    Some(match code {
        b'b' => Scalar::Bool,
        b'c' => Scalar::Char,
        b'a' => Scalar::I8,
        b'h' => Scalar::U8,
        b's' => Scalar::I16,
        b't' => Scalar::U16,
        b'i' => Scalar::I32,
        b'j' => Scalar::U32,
        b'l' => Scalar::Long,
        b'm' => Scalar::ULong,
        b'x' => Scalar::I64,
        b'y' => Scalar::U64,
        b'n' => Scalar::I128,
        b'o' => Scalar::U128,
        b'w' => Scalar::WChar,
        b'f' => Scalar::F32,
        b'd' => Scalar::F64,
        _ => return None,
    })
}

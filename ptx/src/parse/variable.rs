//! Declarations of variables and parameters, up to their initialiser.

use super::cursor::{Cursor, Result};
use crate::ir::{Linkage, Ptr, Space, Type, Variable, declares};

/// More dimensions than any compiler writes; initialisers recurse once for each.
const DIMENSIONS: usize = 16;

/// The part that several declarators share: `.global .align 4 .v2 .f32`.
#[derive(Debug)]
pub(super) struct Head {
    space: Space,
    linkage: Linkage,
    pub(super) ty: Type,
    pub(super) vector: u8,
    align: Option<u32>,
    managed: bool,
    attributes: Option<String>,
    ptr: Option<Ptr>,
}

/// `.v2`, `.v4`, `.v8`
pub(super) fn vector(word: &str) -> Option<u8> {
    match word {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    }
}

/// Reads the declaration after the state space, up to the name.
pub(super) fn head(cur: &mut Cursor<'_>, space: Space, linkage: Linkage) -> Result<Head> {
    let mut ty = None;
    let mut head = Head {
        space,
        linkage,
        ty: Type::B8,
        vector: 1,
        align: None,
        managed: false,
        attributes: None,
        ptr: None,
    };
    while let Some(word) = cur.peek_dotted() {
        let place = cur.offset();
        cur.advance()?;
        match word {
            "align" => head.align = Some(align(cur)?),
            "attribute" => attribute(cur, &mut head)?,
            "ptr" => head.ptr = Some(pointee(cur)?),
            _ => match (vector(word), Type::from_name(word)) {
                (Some(n), _) => head.vector = n,
                (_, Some(t)) if ty.is_none() => ty = Some(t),
                _ => return Err(cur.error_at(place, format!("`.{word}` does not belong here"))),
            },
        }
    }
    head.ty = ty.ok_or_else(|| cur.expected("a type"))?;
    Ok(head)
}

/// A power of two.
pub(super) fn align(cur: &mut Cursor<'_>) -> Result<u32> {
    let place = cur.offset();
    let align: u32 = cur.unsigned("an alignment")?;
    if !align.is_power_of_two() {
        return Err(cur.error_at(place, "an alignment is a power of two"));
    }
    Ok(align)
}

/// Returns the text in the parentheses that come next.
pub(super) fn parenthesized<'a>(cur: &mut Cursor<'a>) -> Result<&'a str> {
    cur.require(b'(')?;
    let start = cur.offset();
    let mut depth = 0usize;
    loop {
        let end = cur.offset();
        match cur.kind() {
            crate::lex::Kind::Punct(b'(') => depth += 1,
            crate::lex::Kind::Punct(b')') if depth == 0 => {
                cur.advance()?;
                return Ok(cur.slice(start, end).trim());
            }
            crate::lex::Kind::Punct(b')') => depth -= 1,
            crate::lex::Kind::End => return Err(cur.expected("`)`")),
            _ => {}
        }
        cur.advance()?;
    }
}

fn attribute(cur: &mut Cursor<'_>, head: &mut Head) -> Result<()> {
    match parenthesized(cur)? {
        ".managed" => head.managed = true,
        text => head.attributes = Some(text.to_owned()),
    }
    Ok(())
}

fn pointee(cur: &mut Cursor<'_>) -> Result<Ptr> {
    let mut ptr = Ptr { space: Space::Generic, align: None };
    while let Some(word) = cur.peek_dotted() {
        if word == "align" {
            cur.advance()?;
            ptr.align = Some(align(cur)?);
        } else if let Some(space) = declares(word) {
            cur.advance()?;
            ptr.space = space;
        } else {
            break;
        }
    }
    Ok(ptr)
}

/// Reads a name and its dimensions.
pub(super) fn declarator<'a>(cur: &mut Cursor<'a>, head: &Head) -> Result<(&'a str, Variable)> {
    if head.ty == Type::Pred {
        return Err(
            cur.error("a variable of the type `.pred` is a register: declare it with `.reg`")
        );
    }
    let name = cur.word("a name")?;
    let element = u64::from(head.ty.bytes()) * u64::from(head.vector);
    let natural = u32::try_from(element).unwrap_or(u32::MAX).next_power_of_two();
    let mut var = Variable {
        name: name.to_owned(),
        space: head.space,
        linkage: head.linkage,
        ty: head.ty,
        vector: head.vector,
        align: head.align.unwrap_or(natural),
        dims: Vec::new(),
        unsized_array: false,
        init: None,
        managed: head.managed,
        attributes: head.attributes.clone(),
        ptr: head.ptr,
    };
    let mut size = element;
    while cur.at(b'[') {
        let place = cur.offset();
        cur.advance()?;
        if var.dims.len() == DIMENSIONS {
            return Err(cur.error_at(place, "too many dimensions"));
        }
        if cur.at(b']') {
            if !var.dims.is_empty() {
                return Err(cur.error_at(place, "only the first dimension may be left open"));
            }
            var.unsized_array = true;
            var.dims.push(0);
        } else {
            let n: u64 = cur.unsigned("a size")?;
            size = size
                .checked_mul(n.max(1))
                .filter(|&s| i64::try_from(s).is_ok())
                .ok_or_else(|| cur.error_at(place, "the variable is too large"))?;
            var.dims.push(n);
        }
        cur.require(b']')?;
    }
    Ok((name, var))
}

//! The C++ of composite types: `()`, tuples, `Option`, and types that derive `Device`.

use std::fmt::Write as _;

use crate::device::Device;
use crate::text::Text;

// SAFETY: `STORED` is false, so no memory is shared; both have one value.
#[diagnostic::do_not_recommend]
unsafe impl Device for () {
    const STORED: bool = false;

    fn rust_name() -> String {
        "()".to_owned()
    }

    fn cpp_name() -> String {
        "unit".to_owned()
    }

    fn write(_: &mut Text) {}

    fn write_value(&self, text: &mut String) {
        text.push_str("unit{}");
    }

    fn is_valid(_: &[u8]) -> bool {
        true
    }
}

// SAFETY: `STORED` is false, so no memory is shared.
#[diagnostic::do_not_recommend]
unsafe impl<T: Device> Device for Option<T> {
    const STORED: bool = false;

    fn rust_name() -> String {
        format!("Option<{}>", T::rust_name())
    }

    fn cpp_name() -> String {
        format!("option<{}>", T::cpp_name())
    }

    fn write(text: &mut Text) {
        T::write(text);
    }

    fn write_value(&self, text: &mut String) {
        text.push_str(&Self::cpp_name());
        match self {
            None => text.push_str("{}"),
            Some(value) => {
                text.push_str("{true, ");
                value.write_value(text);
                text.push('}');
            }
        }
    }

    fn is_valid(_: &[u8]) -> bool {
        false
    }
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        // SAFETY: `STORED` is false, so no memory is shared.
        #[diagnostic::do_not_recommend]
        unsafe impl<$($name: Device),+> Device for ($($name,)+) {
            const STORED: bool = false;

            fn rust_name() -> String {
                format!("({},)", [$($name::rust_name()),+].join(", "))
            }

            fn cpp_name() -> String {
                format!("tuple<{}>", [$($name::cpp_name()),+].join(", "))
            }

            fn write(text: &mut Text) {
                $($name::write(text);)+
            }

            fn write_value(&self, text: &mut String) {
                text.push_str(&Self::cpp_name());
                text.push('{');
                $(
                    self.$at.write_value(text);
                    text.push(',');
                )+
                text.push('}');
            }

            fn is_valid(_: &[u8]) -> bool {
                false
            }
        }
    };
}
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Writes the C++ of methods or an operator.
#[derive(Debug, Clone, Copy)]
pub struct Link(fn(&mut Text));

impl Link {
    /// Makes a link.
    ///
    /// # Safety
    /// `write` writes the C++ of methods of the type that has the link, and nothing else.
    #[must_use]
    pub const unsafe fn new(write: fn(&mut Text)) -> Self {
        Self(write)
    }

    /// Writes the C++.
    pub fn write(self, text: &mut Text) {
        (self.0)(text);
    }
}

macro_rules! links {
    ($($name:ident)*) => {
        /// The sources of methods and operators, empty for types that have none.
        #[allow(missing_docs, reason = "one for each operator and operand")]
        pub trait Links {
            $(const $name: Link = Link(|_| {});)*
        }
    };
}

impl<T: ?Sized> Links for T {}

links! {
    PHASES_METHODS_0 PHASES_METHODS_1 PHASES_METHODS_2 PHASES_METHODS_3
    PHASES_ADD_SELF PHASES_ADD_F32 PHASES_ADD_F64 PHASES_ADD_U8 PHASES_ADD_U16 PHASES_ADD_U32 PHASES_ADD_U64
    PHASES_ADD_USIZE PHASES_ADD_I8 PHASES_ADD_I16 PHASES_ADD_I32 PHASES_ADD_I64 PHASES_ADD_ISIZE PHASES_ADD_OTHER
    PHASES_SUB_SELF PHASES_SUB_F32 PHASES_SUB_F64 PHASES_SUB_U8 PHASES_SUB_U16 PHASES_SUB_U32 PHASES_SUB_U64
    PHASES_SUB_USIZE PHASES_SUB_I8 PHASES_SUB_I16 PHASES_SUB_I32 PHASES_SUB_I64 PHASES_SUB_ISIZE PHASES_SUB_OTHER
    PHASES_MUL_SELF PHASES_MUL_F32 PHASES_MUL_F64 PHASES_MUL_U8 PHASES_MUL_U16 PHASES_MUL_U32 PHASES_MUL_U64
    PHASES_MUL_USIZE PHASES_MUL_I8 PHASES_MUL_I16 PHASES_MUL_I32 PHASES_MUL_I64 PHASES_MUL_ISIZE PHASES_MUL_OTHER
    PHASES_DIV_SELF PHASES_DIV_F32 PHASES_DIV_F64 PHASES_DIV_U8 PHASES_DIV_U16 PHASES_DIV_U32 PHASES_DIV_U64
    PHASES_DIV_USIZE PHASES_DIV_I8 PHASES_DIV_I16 PHASES_DIV_I32 PHASES_DIV_I64 PHASES_DIV_ISIZE PHASES_DIV_OTHER
    PHASES_REM_SELF PHASES_REM_F32 PHASES_REM_F64 PHASES_REM_U8 PHASES_REM_U16 PHASES_REM_U32 PHASES_REM_U64
    PHASES_REM_USIZE PHASES_REM_I8 PHASES_REM_I16 PHASES_REM_I32 PHASES_REM_I64 PHASES_REM_ISIZE PHASES_REM_OTHER
    PHASES_BITAND_SELF PHASES_BITAND_F32 PHASES_BITAND_F64 PHASES_BITAND_U8 PHASES_BITAND_U16 PHASES_BITAND_U32
    PHASES_BITAND_U64 PHASES_BITAND_USIZE PHASES_BITAND_I8 PHASES_BITAND_I16 PHASES_BITAND_I32 PHASES_BITAND_I64
    PHASES_BITAND_ISIZE PHASES_BITAND_OTHER
    PHASES_BITOR_SELF PHASES_BITOR_F32 PHASES_BITOR_F64 PHASES_BITOR_U8 PHASES_BITOR_U16 PHASES_BITOR_U32
    PHASES_BITOR_U64 PHASES_BITOR_USIZE PHASES_BITOR_I8 PHASES_BITOR_I16 PHASES_BITOR_I32 PHASES_BITOR_I64
    PHASES_BITOR_ISIZE PHASES_BITOR_OTHER
    PHASES_BITXOR_SELF PHASES_BITXOR_F32 PHASES_BITXOR_F64 PHASES_BITXOR_U8 PHASES_BITXOR_U16 PHASES_BITXOR_U32
    PHASES_BITXOR_U64 PHASES_BITXOR_USIZE PHASES_BITXOR_I8 PHASES_BITXOR_I16 PHASES_BITXOR_I32 PHASES_BITXOR_I64
    PHASES_BITXOR_ISIZE PHASES_BITXOR_OTHER
    PHASES_SHL_SELF PHASES_SHL_F32 PHASES_SHL_F64 PHASES_SHL_U8 PHASES_SHL_U16 PHASES_SHL_U32 PHASES_SHL_U64
    PHASES_SHL_USIZE PHASES_SHL_I8 PHASES_SHL_I16 PHASES_SHL_I32 PHASES_SHL_I64 PHASES_SHL_ISIZE PHASES_SHL_OTHER
    PHASES_SHR_SELF PHASES_SHR_F32 PHASES_SHR_F64 PHASES_SHR_U8 PHASES_SHR_U16 PHASES_SHR_U32 PHASES_SHR_U64
    PHASES_SHR_USIZE PHASES_SHR_I8 PHASES_SHR_I16 PHASES_SHR_I32 PHASES_SHR_I64 PHASES_SHR_ISIZE PHASES_SHR_OTHER
    PHASES_NEG_SELF PHASES_NEG_F32 PHASES_NEG_F64 PHASES_NEG_U8 PHASES_NEG_U16 PHASES_NEG_U32 PHASES_NEG_U64
    PHASES_NEG_USIZE PHASES_NEG_I8 PHASES_NEG_I16 PHASES_NEG_I32 PHASES_NEG_I64 PHASES_NEG_ISIZE PHASES_NEG_OTHER
    PHASES_NOT_SELF PHASES_NOT_F32 PHASES_NOT_F64 PHASES_NOT_U8 PHASES_NOT_U16 PHASES_NOT_U32 PHASES_NOT_U64
    PHASES_NOT_USIZE PHASES_NOT_I8 PHASES_NOT_I16 PHASES_NOT_I32 PHASES_NOT_I64 PHASES_NOT_ISIZE PHASES_NOT_OTHER
    PHASES_ADDASSIGN_SELF PHASES_ADDASSIGN_F32 PHASES_ADDASSIGN_F64 PHASES_ADDASSIGN_U8 PHASES_ADDASSIGN_U16
    PHASES_ADDASSIGN_U32 PHASES_ADDASSIGN_U64 PHASES_ADDASSIGN_USIZE PHASES_ADDASSIGN_I8 PHASES_ADDASSIGN_I16
    PHASES_ADDASSIGN_I32 PHASES_ADDASSIGN_I64 PHASES_ADDASSIGN_ISIZE PHASES_ADDASSIGN_OTHER
    PHASES_SUBASSIGN_SELF PHASES_SUBASSIGN_F32 PHASES_SUBASSIGN_F64 PHASES_SUBASSIGN_U8 PHASES_SUBASSIGN_U16
    PHASES_SUBASSIGN_U32 PHASES_SUBASSIGN_U64 PHASES_SUBASSIGN_USIZE PHASES_SUBASSIGN_I8 PHASES_SUBASSIGN_I16
    PHASES_SUBASSIGN_I32 PHASES_SUBASSIGN_I64 PHASES_SUBASSIGN_ISIZE PHASES_SUBASSIGN_OTHER
    PHASES_MULASSIGN_SELF PHASES_MULASSIGN_F32 PHASES_MULASSIGN_F64 PHASES_MULASSIGN_U8 PHASES_MULASSIGN_U16
    PHASES_MULASSIGN_U32 PHASES_MULASSIGN_U64 PHASES_MULASSIGN_USIZE PHASES_MULASSIGN_I8 PHASES_MULASSIGN_I16
    PHASES_MULASSIGN_I32 PHASES_MULASSIGN_I64 PHASES_MULASSIGN_ISIZE PHASES_MULASSIGN_OTHER
    PHASES_DIVASSIGN_SELF PHASES_DIVASSIGN_F32 PHASES_DIVASSIGN_F64 PHASES_DIVASSIGN_U8 PHASES_DIVASSIGN_U16
    PHASES_DIVASSIGN_U32 PHASES_DIVASSIGN_U64 PHASES_DIVASSIGN_USIZE PHASES_DIVASSIGN_I8 PHASES_DIVASSIGN_I16
    PHASES_DIVASSIGN_I32 PHASES_DIVASSIGN_I64 PHASES_DIVASSIGN_ISIZE PHASES_DIVASSIGN_OTHER
    PHASES_REMASSIGN_SELF PHASES_REMASSIGN_F32 PHASES_REMASSIGN_F64 PHASES_REMASSIGN_U8 PHASES_REMASSIGN_U16
    PHASES_REMASSIGN_U32 PHASES_REMASSIGN_U64 PHASES_REMASSIGN_USIZE PHASES_REMASSIGN_I8 PHASES_REMASSIGN_I16
    PHASES_REMASSIGN_I32 PHASES_REMASSIGN_I64 PHASES_REMASSIGN_ISIZE PHASES_REMASSIGN_OTHER
    PHASES_BITANDASSIGN_SELF PHASES_BITANDASSIGN_F32 PHASES_BITANDASSIGN_F64 PHASES_BITANDASSIGN_U8
    PHASES_BITANDASSIGN_U16 PHASES_BITANDASSIGN_U32 PHASES_BITANDASSIGN_U64 PHASES_BITANDASSIGN_USIZE
    PHASES_BITANDASSIGN_I8 PHASES_BITANDASSIGN_I16 PHASES_BITANDASSIGN_I32 PHASES_BITANDASSIGN_I64
    PHASES_BITANDASSIGN_ISIZE PHASES_BITANDASSIGN_OTHER
    PHASES_BITORASSIGN_SELF PHASES_BITORASSIGN_F32 PHASES_BITORASSIGN_F64 PHASES_BITORASSIGN_U8 PHASES_BITORASSIGN_U16
    PHASES_BITORASSIGN_U32 PHASES_BITORASSIGN_U64 PHASES_BITORASSIGN_USIZE PHASES_BITORASSIGN_I8
    PHASES_BITORASSIGN_I16 PHASES_BITORASSIGN_I32 PHASES_BITORASSIGN_I64 PHASES_BITORASSIGN_ISIZE
    PHASES_BITORASSIGN_OTHER
    PHASES_BITXORASSIGN_SELF PHASES_BITXORASSIGN_F32 PHASES_BITXORASSIGN_F64 PHASES_BITXORASSIGN_U8
    PHASES_BITXORASSIGN_U16 PHASES_BITXORASSIGN_U32 PHASES_BITXORASSIGN_U64 PHASES_BITXORASSIGN_USIZE
    PHASES_BITXORASSIGN_I8 PHASES_BITXORASSIGN_I16 PHASES_BITXORASSIGN_I32 PHASES_BITXORASSIGN_I64
    PHASES_BITXORASSIGN_ISIZE PHASES_BITXORASSIGN_OTHER
    PHASES_SHLASSIGN_SELF PHASES_SHLASSIGN_F32 PHASES_SHLASSIGN_F64 PHASES_SHLASSIGN_U8 PHASES_SHLASSIGN_U16
    PHASES_SHLASSIGN_U32 PHASES_SHLASSIGN_U64 PHASES_SHLASSIGN_USIZE PHASES_SHLASSIGN_I8 PHASES_SHLASSIGN_I16
    PHASES_SHLASSIGN_I32 PHASES_SHLASSIGN_I64 PHASES_SHLASSIGN_ISIZE PHASES_SHLASSIGN_OTHER
    PHASES_SHRASSIGN_SELF PHASES_SHRASSIGN_F32 PHASES_SHRASSIGN_F64 PHASES_SHRASSIGN_U8 PHASES_SHRASSIGN_U16
    PHASES_SHRASSIGN_U32 PHASES_SHRASSIGN_U64 PHASES_SHRASSIGN_USIZE PHASES_SHRASSIGN_I8 PHASES_SHRASSIGN_I16
    PHASES_SHRASSIGN_I32 PHASES_SHRASSIGN_I64 PHASES_SHRASSIGN_ISIZE PHASES_SHRASSIGN_OTHER
}

/// A variant of an enum with values: its name and hash, and the names and types of its fields.
pub(crate) type Variant<'v> = (&'v str, u64, &'v [(&'v str, String)]);

/// Returns the definition of an enum with values: the variant's number, and the fields of all variants.
#[must_use]
pub fn variants(name: &str, variants: &[Variant<'_>]) -> String {
    let mut text = format!("struct {name} {{ unsigned tag;\n");
    for (at, (variant, hash, fields)) in variants.iter().enumerate() {
        let _ = write!(text, "struct {{");
        for (field, ty) in *fields {
            let _ = write!(text, " {ty} {field};");
        }
        let _ = writeln!(text, " }} v{at}; // {variant}");
        let _ = writeln!(
            text,
            "static constexpr unsigned number(variant_<{hash}ull>) {{ return {at}; }}"
        );
        for by in ["", "const "] {
            let _ = writeln!(
                text,
                "PHASES_FN {by}auto& part(variant_<{hash}ull>) {by}{{ return v{at}; }}"
            );
        }
    }
    // An `#error` in the text is not a bug of the library (`cuda_safe::kernel`).
    let _ = writeln!(
        text,
        "template <u64_raw V> static constexpr unsigned number(variant_<V>) {{ static_assert(sizeof(variant_<V>) == 0, \
         \"#error a kernel names a variant of an enum with values by an import, or a constant of the enum as a pattern: \
         write Type::Variant\"); return 0; }}"
    );
    let _ = writeln!(text, "}};\ntemplate <> constexpr bool with_values<{name}> = true;");
    text
}

/// Returns a constant of an enum with values.
#[must_use]
pub fn variant_value(name: &str, number: usize, count: usize, fields: &[String]) -> String {
    let parts: Vec<String> = (0..count)
        .map(|at| if at == number { format!("{{{}}}", fields.join(", ")) } else { "{}".to_owned() })
        .collect();
    format!("{name}{{{number}u, {}}}", parts.join(", "))
}

/// Returns a value as C++ text.
pub fn value_text<T: Device>(value: &T) -> String {
    let mut text = String::new();
    value.write_value(&mut text);
    text
}

/// Returns overloads of an operator for references to its operands.
#[must_use]
pub fn by_reference(operator: &str, a: &str, b: Option<&str>) -> String {
    let Some(b) = b else {
        return format!(
            "template <class C> PHASES_FN auto {operator}(C c, line l, ref<{a}> x) {{ return {operator}(c, l, *x.p); }}\n"
        );
    };
    let overload = |x: &str, left: &str, y: &str, right: &str| {
        format!(
            "template <class C> PHASES_FN auto {operator}(C c, line l, {x} x, {y} y) {{ \
             return {operator}(c, l, {left}, {right}); }}\n"
        )
    };
    let reference = format!("ref<{b}>");
    if operator.ends_with("_assign") {
        return overload(&format!("{a}&"), "x", &reference, "*y.p");
    }
    let this = format!("ref<{a}>");
    [
        overload(&this, "*x.p", b, "y"),
        overload(a, "x", &reference, "*y.p"),
        overload(&this, "*x.p", &reference, "*y.p"),
    ]
    .concat()
}

/// Returns the hash of a name, FNV-1a.
pub(crate) fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the C++ name of a type, which is unique.
#[must_use]
pub fn type_name(ident: &str, rust_name: &str) -> String {
    let hash = name_hash(rust_name);
    format!("T_{}_{hash:016x}", ident.strip_prefix("r#").unwrap_or(ident))
}

/// Returns the definition of a structure from the name, type and size of each field. `align` is its alignment, if that may
/// be more than the fields'.
///
/// The structure of Rust has no padding, so its offsets are sums of sizes; those of C++ are the same if the total
/// size is equal.
#[must_use]
pub fn structure(
    name: &str,
    fields: &[(&str, String, usize)],
    size: usize,
    align: Option<usize>,
) -> String {
    let align = align.map(|align| format!("alignas({align}) ")).unwrap_or_default();
    let mut text = format!("struct {align}{name} {{");
    for (field, ty, _) in fields {
        let _ = write!(text, " {ty} {field};");
    }
    let _ = writeln!(text, " }};\nstatic_assert(sizeof({name}) == {size}, \"size\");");
    for (_, ty, size) in fields {
        let _ = writeln!(text, "static_assert(sizeof({ty}) == {size}, \"size\");");
    }
    text
}

/// Returns the definition of an enum with numbers of the type `tag`.
#[must_use]
pub fn enumeration(name: &str, tag: &str) -> String {
    format!(
        "struct {name} {{ {tag} tag; }};\n\
         PHASES_FN bool o_eq(const {name}& a, const {name}& b) {{ return a.tag.v == b.tag.v; }}\n\
         PHASES_FN bool o_ne(const {name}& a, const {name}& b) {{ return a.tag.v != b.tag.v; }}\n"
    )
}

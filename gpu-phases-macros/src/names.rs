//! The names of methods and functions that kernels may call on built-in types, and of those in std that they may not.

use quote::ToTokens;
use syn::ExprPath;
use syn::spanned::Spanned;

use crate::blocks::PHASES;
use crate::refuse::{Result, refused};

/// Methods whose results Rust leaves partly unspecified. rustc's copy calls those of the library, which define them.
pub(crate) const DEFINED: [&str; 26] = [
    "min",
    "max",
    "clamp",
    "rem_euclid",
    "div_euclid",
    "pow",
    "abs",
    "signum",
    "is_positive",
    "is_negative",
    "div_ceil",
    "copysign",
    "to_bits",
    "is_sign_negative",
    "is_sign_positive",
    "floor",
    "ceil",
    "trunc",
    "round",
    "round_ties_even",
    "fract",
    "sqrt",
    "recip",
    "mul_add",
    "powi",
    "stop_gradient",
];

/// Other methods of numbers, which keep their names.
const OF_NUMBERS: [&str; 29] = [
    "is_nan",
    "is_finite",
    "is_infinite",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
    "wrapping_neg",
    "wrapping_shl",
    "wrapping_shr",
    "saturating_add",
    "saturating_sub",
    "saturating_mul",
    "checked_add",
    "checked_sub",
    "checked_mul",
    "unsigned_abs",
    "abs_diff",
    "count_ones",
    "count_zeros",
    "leading_zeros",
    "trailing_zeros",
    "rotate_left",
    "rotate_right",
    "reverse_bits",
    "swap_bytes",
    "is_power_of_two",
    "to_f64",
    "to_f32",
    "to_i64",
];

/// Those of them, and the function, that the library's traits for generic parameters have, too. rustc's copy calls these by
/// other names, as another trait of a generic parameter may have the same.
pub(crate) const OF_LIBRARY: [&str; 12] = [
    "to_f64",
    "is_nan",
    "is_finite",
    "is_infinite",
    "from_i64",
    "to_i64",
    "count_ones",
    "leading_zeros",
    "trailing_zeros",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
];

/// Methods of built-in types and of `Atomic` that cannot be called by a path, unlike `f32::sqrt(x)`.
const METHODS_ONLY: [&str; 19] = [
    "wrapping_abs",
    "len",
    "is_empty",
    "is_some",
    "is_none",
    "unwrap",
    "expect",
    "unwrap_or",
    "load",
    "store",
    "swap",
    "compare_exchange",
    "fetch_add",
    "fetch_sub",
    "fetch_min",
    "fetch_max",
    "fetch_and",
    "fetch_or",
    "fetch_xor",
];

/// Functions of numbers without `self`.
const CONSTRUCTORS: [&str; 6] =
    ["from_f64", "from_i64", "default", "from_bits", "from_f32", "from"];

/// Associated functions of the library's traits for generic parameters.
pub(crate) const OF_TRAITS: [&str; 3] = ["from_f64", "from_i64", "default"];

/// Methods of `Option` that take closures or other `Option`s.
pub(crate) const OF_OPTIONS: [&str; 8] =
    ["map", "and_then", "map_or", "filter", "or", "or_else", "unwrap_or_else", "is_some_and"];

/// Elementary functions, which the library has in the language of kernels: those of processors and devices differ.
const ELEMENTARY: [&str; 21] = [
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sin_cos", "sinh", "cosh", "tanh", "exp",
    "exp2", "exp_m1", "ln", "ln_1p", "log2", "log10", "powf", "cbrt", "hypot",
];

/// Functions that differ between the libraries of processors and devices.
const INEXACT: [&str; 7] = ["asinh", "acosh", "atanh", "log", "gamma", "ln_gamma", "erf"];

const ITERATORS: &str = "kernels have iterators only in the head of a `for`";
const NO_OPTION: &str = "kernels have no such method of `Option`";
const NO_METHOD: &str = "kernels have no such method";
const NO_SORT: &str = "kernels do not sort";
const SORT: &str = "sort before the launch; for a small array write an insertion sort";
const CAST: &str = "write `x as u32`, and `a[j as usize]` for an index";

/// Methods of std that kernels do not have, and their replacements. A device method can't have any of these names.
const REFUSED: [(&str, &str, &str); 32] = [
    ("iter", ITERATORS, "write the loop: `for x in a.iter() { sum += *x; }`"),
    ("iter_mut", ITERATORS, "write the loop: `for x in a.iter_mut() { *x += 1.0; }`"),
    ("into_iter", ITERATORS, "write the loop: `for x in a { sum += x; }`"),
    ("sum", ITERATORS, "write the loop: `for x in a.iter() { sum += *x; }`"),
    ("fold", ITERATORS, "write the loop: `for x in a.iter() { sum += *x; }`"),
    ("collect", ITERATORS, "write the loop: `for x in a.iter() { sum += *x; }`"),
    ("windows", ITERATORS, "write `for k in 0..x.len() - 2`, and read `x[k]` to `x[k + 2]`"),
    ("chunks", ITERATORS, "write `for k in (0..x.len()).step_by(n)`, and read `x[k]` on"),
    ("chunks_exact", ITERATORS, "write `for k in (0..x.len()).step_by(n)`, and read `x[k]` on"),
    ("as_ref", NO_OPTION, "leave it out: an `Option` of a kernel is `Copy`"),
    ("as_mut", NO_OPTION, "write `if let Some(x) = value { value = Some(…); }`"),
    ("copied", NO_OPTION, "write `map(|x| *x)`"),
    ("cloned", NO_OPTION, "write `map(|x| *x)`"),
    ("ok_or", NO_OPTION, "kernels have no `Result`: return an `Option`"),
    ("ok_or_else", NO_OPTION, "kernels have no `Result`: return an `Option`"),
    ("unwrap_or_default", NO_OPTION, "write `unwrap_or(value)`"),
    ("map_or_else", NO_OPTION, "write `map(…).unwrap_or_else(…)`"),
    ("is_none_or", NO_OPTION, "write `!value.is_some_and(…)` with the opposite condition"),
    ("clone", "values of kernels are `Copy`", "leave out `clone`"),
    ("to_owned", "values of kernels are `Copy`", "leave out `to_owned`"),
    ("into", NO_METHOD, "name the type: `f64::from(x)`, `x as f64` or a `#[device]` function"),
    ("try_into", NO_METHOD, CAST),
    ("to_radians", NO_METHOD, "write `x * (std::f32::consts::PI / 180.0)`"),
    ("to_degrees", NO_METHOD, "write `x * (180.0 / std::f32::consts::PI)`"),
    ("sort", NO_SORT, SORT),
    ("sort_by", NO_SORT, SORT),
    ("sort_by_key", NO_SORT, SORT),
    ("sort_unstable", NO_SORT, SORT),
    ("sort_unstable_by", NO_SORT, SORT),
    ("to_vec", NO_ALLOCATION, "write an array: `[0.0; 8]`"),
    ("partial_cmp", NO_METHOD, "write `a < b` and `a == b`"),
    ("cmp", NO_METHOD, "write `a < b` and `a == b`"),
];

const NO_ALLOCATION: &str = "kernels do not allocate";

/// Methods of slices and arrays that kernels do not have. A device method may have such a name.
const REFUSED_OF_SLICES: [(&str, &str); 11] = [
    ("get", "write `if j < x.len() { x[j] } else { … }`"),
    ("get_mut", "write `if j < x.len() { x[j] = …; }`"),
    ("first", "write `x[0]`"),
    ("last", "write `x[x.len() - 1]`"),
    ("swap", "write `let a = x[i]; x[i] = x[j]; x[j] = a;`"),
    ("contains", "write the loop"),
    ("fill", "write the loop"),
    ("reverse", "write the loop"),
    ("copy_from_slice", "write the loop"),
    ("split_at", "write `&x[..k]` and `&x[k..]`"),
    ("binary_search", "write the loop: `while low < high { … }`"),
];

/// Functions of std's modules, and their replacements.
const OF_MODULES: [(&str, &str, &str); 6] = [
    ("cmp", "min", "write `a.min(b)`"),
    ("cmp", "max", "write `a.max(b)`"),
    ("mem", "swap", "write `let c = a; a = b; b = c;`"),
    ("mem", "replace", "write `let old = a; a = b;`"),
    ("mem", "take", "write `let old = a; a = 0.0;`"),
    ("array", "from_fn", "write `let mut a = [0.0; 8];`, and a loop"),
];

/// Types of std that allocate.
const ALLOCATING: [&str; 11] = [
    "Vec",
    "VecDeque",
    "HashMap",
    "HashSet",
    "BTreeMap",
    "BTreeSet",
    "BinaryHeap",
    "String",
    "Box",
    "Rc",
    "Arc",
];

const CELLS: [&str; 9] = [
    "Cell",
    "RefCell",
    "UnsafeCell",
    "Mutex",
    "RwLock",
    "AtomicU32",
    "AtomicU64",
    "AtomicUsize",
    "AtomicBool",
];

const PRIMITIVES: [&str; 15] = [
    "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64", "bool",
    "f16", "bf16",
];

/// Returns whether this is a method of built-in types, or of the library's traits, which keeps its name.
pub(crate) fn is_built_in(name: &str) -> bool {
    OF_NUMBERS.contains(&name) || METHODS_ONLY.contains(&name)
}

/// Returns whether this is an elementary function.
pub(crate) fn is_elementary(name: &str) -> bool {
    ELEMENTARY.contains(&name)
}

/// Returns whether a device method cannot have this name, because it has one meaning for all types in kernels.
pub(crate) fn is_reserved(name: &str) -> bool {
    is_built_in(name)
        || OF_OPTIONS.contains(&name)
        || OF_TRAITS.contains(&name)
        || REFUSED.iter().any(|(known, ..)| *known == name)
}

/// Returns whether a method of this name is surely, or nearly so, one of Rust's own types.
pub(crate) fn is_of_rust(name: &str) -> bool {
    is_built_in(name) || DEFINED.contains(&name) || OF_OPTIONS.contains(&name) || name == "column"
}

/// Returns whether a method changes nothing, whatever it is called on.
pub(crate) fn is_pure(name: &str) -> bool {
    DEFINED.contains(&name) || (is_built_in(name) && !is_atomic(name))
}

/// Returns whether a method of built-in types that keeps its name takes its receiver by value.
pub(crate) fn is_by_value(name: &str) -> bool {
    OF_NUMBERS.contains(&name) || matches!(name, "wrapping_abs" | "unwrap_or")
}

pub(crate) fn is_atomic(name: &str) -> bool {
    name.starts_with("fetch_") || matches!(name, "store" | "compare_exchange" | "swap")
}

/// Returns the name of the library's method with defined results.
pub(crate) fn defined_name(name: &str) -> String {
    format!("phases_{name}")
}

/// Returns whether the last segment of a type's path names a built-in type.
pub(crate) fn is_primitive(ty: &str) -> bool {
    PRIMITIVES.contains(&ty)
}

/// Refuses a method that kernels do not have.
pub(crate) fn check_method(method: &syn::Ident, name: &str, of_slice: bool) -> Result<()> {
    if INEXACT.contains(&name) {
        return inexact(method);
    }
    if let Some((_, what, instead)) = REFUSED.iter().find(|(known, ..)| *known == name) {
        return refused(method, what, instead);
    }
    match REFUSED_OF_SLICES.iter().find(|(known, _)| of_slice && *known == name) {
        Some((_, instead)) => refused(method, "kernels have no such method of slices", instead),
        None => Ok(()),
    }
}

fn inexact<T>(at: &impl Spanned) -> Result<T> {
    refused(
        at,
        "this function has other results on other processors",
        "write it with `ln`, `exp` and `sqrt`, or by a polynomial, in a `#[device]` function",
    )
}

/// Refuses an associated function of a type of Rust that kernels do not have.
pub(crate) fn check_associated(function: &ExprPath, ty: &str, name: &str) -> Result<()> {
    let owner = function.path.segments.iter().rev().nth(1);
    if owner.is_some_and(|owner| ALLOCATING.iter().any(|name| owner.ident == name)) {
        return refused(&function.path, NO_ALLOCATION, "use an array: `[0u32; 8]`");
    }
    let owned = |name: &str| owner.is_some_and(|owner| owner.ident == name);
    if CELLS.iter().any(|cell| owned(cell)) {
        return refused(
            &function.path,
            "kernels have no cells and locks",
            "let threads write their items, or change an `&Atomic<[T]>`",
        );
    }
    if (owned("Block") && PHASES.contains(&name)) || (owned("Atomic") && is_atomic(name)) {
        return refused(
            &function.path,
            "kernels call this as a method",
            &format!("write `value.{name}(…)`"),
        );
    }
    if !is_primitive(ty) {
        return Ok(());
    }
    let Some(last) = function.path.segments.last() else { return Ok(()) };
    if INEXACT.contains(&name) {
        return inexact(last);
    }
    if function.qself.as_ref().is_some_and(|qself| qself.position > 0) {
        return refused(
            &function.path,
            "kernels name no traits in calls on numbers",
            &format!("write `{ty}::{name}(…)`"),
        );
    }
    let is_sign = ty.starts_with('f') && matches!(name, "is_positive" | "is_negative");
    let known =
        [&DEFINED[..], &OF_NUMBERS, &CONSTRUCTORS].iter().any(|names| names.contains(&name));
    if known && !is_sign && ty != "bool" {
        return Ok(());
    }
    let what = format!("kernels have no function `{ty}::{name}`");
    let help = match REFUSED.iter().find(|(known, ..)| *known == name) {
        Some((_, _, instead)) => (*instead).to_owned(),
        None if METHODS_ONLY.contains(&name) => format!("write `x.{name}(…)`"),
        None if name.ends_with("_value") => {
            format!("write `{ty}::{}`", name.trim_end_matches("_value").to_uppercase())
        }
        None if is_sign => format!("write `{ty}::{}`", name.replace("is_", "is_sign_")),
        None if name == "try_from" => CAST.to_owned(),
        None => {
            "write it as a `#[device]` function; docs/kernels.md lists those of numbers".to_owned()
        }
    };
    refused(last, &what, &help)
}

/// Refuses functions of std.
pub(crate) fn check_function(function: &ExprPath) -> Result<()> {
    let names: Vec<String> =
        function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let [.., module, name] = &names[..] else { return Ok(()) };
    let known = OF_MODULES.iter().find(|(of, known, _)| module == of && name == known);
    let help = match known {
        Some((_, _, instead)) => instead,
        None if matches!(names[0].as_str(), "std" | "core" | "alloc") => {
            "write it as a `#[device]` function"
        }
        None => return Ok(()),
    };
    let path = function.path.to_token_stream().to_string().replace(' ', "");
    refused(&function.path, &format!("kernels do not call `{path}`"), help)
}

#[cfg(test)]
mod tests {
    use super::{CONSTRUCTORS, DEFINED, METHODS_ONLY, OF_NUMBERS, OF_OPTIONS};

    const HEADERS: [&str; 4] = [
        include_str!("../../gpu-phases/src/phases.cuh"),
        include_str!("../../gpu-phases/src/operators.cuh"),
        include_str!("../../gpu-phases/src/math.cuh"),
        include_str!("../../gpu-phases/src/half.cuh"),
    ];

    fn has(text: &str) -> bool {
        HEADERS.iter().any(|header| header.contains(text))
    }

    /// Returns whether a macro of the headers defines the method and the associated function.
    fn is_expanded(name: &str) -> bool {
        (0..3).any(|arguments| has(&format!("PHASES_METHOD{arguments}({name})")))
    }

    #[test]
    fn the_headers_define_each_name() {
        for name in DEFINED.iter().chain(&OF_NUMBERS) {
            let both = has(&format!(" m_{name}(")) && has(&format!(" a_{name}("));
            assert!(is_expanded(name) || both, "{name}");
        }
        for name in METHODS_ONLY.iter().chain(&OF_OPTIONS).filter(|name| **name != "expect") {
            assert!(
                has(&format!(" m_{name}(")) || has(&format!("PHASES_ATOMIC({name},")),
                "{name}"
            );
        }
        for name in CONSTRUCTORS {
            assert!(has(&format!(" a_{name}(")), "{name}");
        }
    }

    #[test]
    fn the_page_lists_each_name() {
        let page = include_str!("../../docs/kernels.md");
        let list = page.split("### Functions of numbers").nth(1).unwrap_or_default();
        let list = list.split("###").next().unwrap_or_default();
        for name in DEFINED.iter().chain(&OF_NUMBERS).chain(&CONSTRUCTORS) {
            assert!(list.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn each_name_of_the_headers_is_known() {
        let mut count = 0;
        for header in HEADERS {
            for part in header.split("PHASES_METHOD").skip(1) {
                let Some(name) = part.get(2..).and_then(|rest| rest.split(')').next()) else {
                    continue;
                };
                if name == "name"
                    || !part.starts_with(['0', '1', '2'])
                    || !part[1..].starts_with('(')
                {
                    continue;
                }
                count += 1;
                assert!(DEFINED.contains(&name) || OF_NUMBERS.contains(&name), "{name}");
            }
        }
        assert!(count > 40, "{count}");
    }
}

//! The parameter types in a C++ kernel's mangled name: enough of the Itanium ABI for scalars and for the types that
//! pointers point to, without guesses.

mod parser;

use std::fmt;

/// A builtin type of C++, as an NVRTC target (64-bit Linux or Windows) lays it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scalar {
    /// `bool`
    Bool,
    /// `char`, signed on the device.
    Char,
    /// 8 bits, signed.
    I8,
    /// 8 bits, unsigned.
    U8,
    /// 16 bits, signed.
    I16,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, signed.
    I32,
    /// 32 bits, unsigned.
    U32,
    /// `long`: 64 bits under Linux, 32 under Windows, where its name is the same.
    Long,
    /// `unsigned long`, see [`Scalar::Long`].
    ULong,
    /// `long long`, 64 bits, signed.
    I64,
    /// `unsigned long long`, 64 bits.
    U64,
    /// 128 bits, signed.
    I128,
    /// 128 bits, unsigned.
    U128,
    /// `wchar_t`
    WChar,
    /// `char8_t`
    Char8,
    /// `char16_t`
    Char16,
    /// `char32_t`
    Char32,
    /// `float`
    F32,
    /// `double`
    F64,
}

impl Scalar {
    /// Bytes of one value; for `long` and `wchar_t` those of the platform that this runs on.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::Char | Self::I8 | Self::U8 | Self::Char8 => 1,
            Self::I16 | Self::U16 | Self::Char16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::Char32 => 4,
            Self::Long | Self::ULong if cfg!(windows) => 4,
            Self::WChar => {
                if cfg!(windows) {
                    2
                } else {
                    4
                }
            }
            Self::I64 | Self::U64 | Self::F64 | Self::Long | Self::ULong => 8,
            Self::I128 | Self::U128 => 16,
        }
    }

    /// Returns whether it is a floating-point type.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Char => "char",
            Self::I8 => "signed char",
            Self::U8 => "unsigned char",
            Self::I16 => "short",
            Self::U16 => "unsigned short",
            Self::I32 => "int",
            Self::U32 => "unsigned int",
            Self::Long => "long",
            Self::ULong => "unsigned long",
            Self::I64 => "long long",
            Self::U64 => "unsigned long long",
            Self::I128 => "__int128",
            Self::U128 => "unsigned __int128",
            Self::WChar => "wchar_t",
            Self::Char8 => "char8_t",
            Self::Char16 => "char16_t",
            Self::Char32 => "char32_t",
            Self::F32 => "float",
            Self::F64 => "double",
        })
    }
}

/// The type that a pointer points to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pointee {
    /// `void`
    Void,
    /// A builtin type.
    Scalar(Scalar),
    /// A class, structure, union or enumeration outside any namespace: `float4`, `__half`.
    Named(String),
    /// Understood to be something else, or not understood.
    Unknown,
}

/// A parameter's type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// A builtin type by value.
    Scalar(Scalar),
    /// A pointer.
    Pointer {
        /// The type that it points to.
        pointee: Pointee,
        /// Whether that is `const`: the kernel promises not to write through it.
        constant: bool,
    },
    /// A class, structure, union or enumeration outside any namespace, by value.
    Named(String),
    /// Anything else, or not understood.
    Unknown,
}

/// The type in C++, as far as it is known: `const float*`. Unknown parts are `…`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pointee, constant) = match self {
            Self::Scalar(scalar) => return scalar.fmt(f),
            Self::Named(name) => return f.write_str(name),
            Self::Unknown => return f.write_str("…"),
            Self::Pointer { pointee, constant } => (pointee, *constant),
        };
        f.write_str(if constant { "const " } else { "" })?;
        match pointee {
            Pointee::Void => f.write_str("void*"),
            Pointee::Scalar(scalar) => write!(f, "{scalar}*"),
            Pointee::Named(name) => write!(f, "{name}*"),
            Pointee::Unknown => f.write_str("…*"),
        }
    }
}

/// Returns the parameter types that a mangled name states, in order.
///
/// The list may be shorter than the kernel's own: of a parameter that is not in it nothing is known.
/// It is empty for a name that is not mangled (`extern "C"`). Whatever the reader does not fully
/// understand ends the list, so what it states is never a guess.
///
/// ```
/// use ptx::mangled::{Pointee, Scalar, Type, parameters};
/// // axpy(float, const float*, float*, unsigned long)
/// let types = parameters("_Z4axpyfPKfPfm");
/// assert_eq!(types[0], Type::Scalar(Scalar::F32));
/// assert_eq!(types[1], Type::Pointer { pointee: Pointee::Scalar(Scalar::F32), constant: true });
/// assert!(parameters("axpy").is_empty());
/// ```
#[must_use]
pub fn parameters(name: &str) -> Vec<Type> {
    parser::parameters(name)
}

/// Returns the parameter types of the function type, or pointer to one, that is the first argument of a template's
/// instance with this mangled name. `None` if there is no such argument, or if it is not fully understood.
///
/// So a compiler states the types of a function whose symbol does not (`extern "C"`):
///
/// ```
/// use ptx::mangled::{argument_parameters, parameters};
/// // template <class F> void types(), for types<decltype(&axpy)>
/// let types = argument_parameters("_Z5typesIPFvfPKfPfmEEvv");
/// assert_eq!(types, Some(parameters("_Z4axpyfPKfPfm")));
/// ```
#[must_use]
pub fn argument_parameters(name: &str) -> Option<Vec<Type>> {
    parser::argument_parameters(name)
}

/// Returns the name in C++ of the function with this mangled name, without its parameters: `ns::axpy<float>` for
/// `_ZN2ns4axpyIfEEvPT_`. Template arguments that are not types are `…`. `None` for a name that is not mangled, or not
/// understood.
///
/// ```
/// use ptx::mangled::function;
/// assert_eq!(function("_Z4axpyfPKfPfm").as_deref(), Some("axpy"));
/// assert_eq!(function("axpy"), None);
/// ```
#[must_use]
pub fn function(name: &str) -> Option<String> {
    parser::function(name)
}

/// Returns the name in C++ of a variable with this mangled name: `ns::factor` for `_ZN2ns6factorE`. Unnamed namespaces
/// and those that NVRTC adds for internal linkage are left out. `None` for a name that is not mangled, and for
/// instances of templates and variables of functions.
///
/// ```
/// use ptx::mangled::variable;
/// assert_eq!(variable("_ZN2ns6factorE").as_deref(), Some("ns::factor"));
/// assert_eq!(variable("factor"), None);
/// ```
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, nested) = match rest.strip_prefix('N') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let mut parts = Vec::new();
    loop {
        if nested && rest == "E" {
            break;
        }
        // An `L` says internal linkage.
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = rest.get(..digits)?.parse().ok()?;
        let end = digits.checked_add(length)?;
        let part = rest.get(digits..end).filter(|part| !part.is_empty())?;
        if !part.starts_with("_INTERNAL_") && !part.starts_with("_GLOBAL__N_") {
            parts.push(part);
        }
        rest = rest.get(end..)?;
        if !nested {
            break;
        }
    }
    let whole = if nested { rest == "E" } else { rest.is_empty() };
    (whole && !parts.is_empty()).then(|| parts.join("::"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pointer(pointee: Pointee, constant: bool) -> Type {
        Type::Pointer { pointee, constant }
    }
    fn to(scalar: Scalar) -> Type {
        pointer(Pointee::Scalar(scalar), false)
    }
    fn to_const(scalar: Scalar) -> Type {
        pointer(Pointee::Scalar(scalar), true)
    }
    fn named(name: &str) -> Type {
        Type::Named(name.into())
    }
    fn unknown_pointer(constant: bool) -> Type {
        pointer(Pointee::Unknown, constant)
    }

    #[test]
    fn variables_that_the_compiler_writes() {
        for (mangled, name) in [
            ("_ZN2ns6factorE", Some("ns::factor")),
            ("_ZN2ns2v13inlE", Some("ns::v1::inl")),
            ("_ZL6factor", Some("factor")),
            ("_Z6factor", Some("factor")),
            ("_ZN2nsL6factorE", Some("ns::factor")),
            (
                "_ZN33_INTERNAL_00000000_4_a_cu_counter2ns35_GLOBAL__N__00000000_4_a_cu_counter4anonE",
                Some("ns::anon"),
            ),
            // Templates, variables of functions, functions, and what is cut.
            ("_ZN2ns5valueIfEE", None),
            ("_ZZ1kPfE6inside", None),
            ("_Z4axpyfPKfPfm", None),
            ("_ZN2ns6factor", None),
            ("_ZN2ns9factorE", None),
            ("_ZN99999999999999999999999E", None),
            ("_ZNE", None),
            ("_ZN0E", None),
            ("_Z", None),
            ("_Z2é", Some("é")),
            ("_Z1é", None),
            ("factor", None),
        ] {
            assert_eq!(variable(mangled).as_deref(), name, "{mangled}");
        }
    }

    #[test]
    fn names_that_the_compiler_writes() {
        use Scalar::*;
        let class = |name: &str, constant| pointer(Pointee::Named(name.into()), constant);
        let cases: Vec<(&str, Vec<Type>)> = vec![
            ("plain", vec![]),
            ("_Z4nonev", vec![]),
            (
                "_Z4axpyfPKfPfm",
                vec![Type::Scalar(F32), to_const(F32), to(F32), Type::Scalar(ULong)],
            ),
            // rep(const float*, const float*, float*, float*, S, S*, const S*)
            (
                "_Z3repPKfS0_PfS1_1SPS2_PKS2_",
                vec![
                    to_const(F32),
                    to_const(F32),
                    to(F32),
                    to(F32),
                    named("S"),
                    class("S", false),
                    class("S", true),
                ],
            ),
            // vec(float4, const float4*, float4*, double2, uchar4, char3)
            (
                "_Z3vec6float4PKS_PS_7double26uchar45char3",
                vec![
                    named("float4"),
                    class("float4", true),
                    class("float4", false),
                    named("double2"),
                    named("uchar4"),
                    named("char3"),
                ],
            ),
            // tk<double>(T*, T, S, V, bool, char, signed char, long, short, volatile int*)
            (
                "_Z2tkIdEvPT_S0_1S1VbcalsPVi",
                vec![
                    to(F64),
                    Type::Scalar(F64),
                    named("S"),
                    named("V"),
                    Type::Scalar(Bool),
                    Type::Scalar(Char),
                    Type::Scalar(I8),
                    Type::Scalar(Long),
                    Type::Scalar(I16),
                    to(I32),
                ],
            ),
            // fp(void (*)(int), const float* const*, Q, const float&, void*, const void*, unsigned char*,
            //    const volatile unsigned*)
            (
                "_Z2fpPFviEPKPKf1QRS1_PvPKvPhPVKj",
                vec![
                    unknown_pointer(false),
                    unknown_pointer(true),
                    named("Q"),
                    Type::Unknown,
                    pointer(Pointee::Void, false),
                    pointer(Pointee::Void, true),
                    to(U8),
                    to_const(U32),
                ],
            ),
            // n::k(n::T, const n::T*, n::T* const*)
            (
                "_ZN1n1kENS_1TEPKS0_PKPS0_",
                vec![Type::Unknown, unknown_pointer(true), unknown_pointer(true)],
            ),
            // template <int N, bool B, class T> sized<128, true, float>(T*, const T*)
            ("_Z5sizedILi128ELb1EfEvPT1_PKS0_", vec![to(F32), to_const(F32)]),
            // template <class T> q<const float>(T*): the const comes from the argument
            ("_Z1qIKfEvPT_", vec![to_const(F32)]),
            // in a namespace, with a template argument: n::t<int>(T*, T*)
            ("_ZN1n1tIiEEvPT_S2_", vec![to(I32), to(I32)]),
            // static kernel
            ("_ZL6staticPi", vec![to(I32)]),
            // a class template's value ends nothing: Vec<float>*, float*
            ("_Z1vP3VecIfEPf", vec![unknown_pointer(false), to(F32)]),
            // restrict and const pointers at the top level leave no trace; below it they do
            ("_Z1rPrKf", vec![to_const(F32)]),
        ];
        for (name, want) in cases {
            assert_eq!(parameters(name), want, "{name}");
        }
    }

    #[test]
    fn types_of_functions_with_c_linkage() {
        // The argument's substitutions count from the template's name.
        for (instance, twin) in [
            ("_ZN9cuda_safe5typesIPFvfPKfPfj1PEEEvv", "_Z5saxpyfPKfPfj1P"),
            ("_ZN9cuda_safe5typesIPFvPfPKdEEEvv", "_Z3twoPfPKd"),
            ("_ZN9cuda_safe5typesIPFvPKfS2_EEEvv", "_Z3twoPKfS0_"),
            ("_Z5typesIPFYvPfEEvv", "_Z1kPf"),
            ("_Z5typesIPFvvEEvv", "_Z1kv"),
        ] {
            assert_eq!(argument_parameters(instance), Some(parameters(twin)), "{instance}");
        }
        for name in ["_Z5typesIfEvv", "_Z5typesILi3EEvv", "_Z5types", "types", "_Z5typesIPFvEEvv"] {
            assert_eq!(argument_parameters(name), None, "{name}");
        }
    }

    #[test]
    fn names_and_types_are_written_as_in_cpp() {
        for (mangled, name) in [
            ("_Z4axpyfPKfPfm", Some("axpy")),
            ("_ZL6staticPi", Some("static")),
            ("_ZN2ns3fooEv", Some("ns::foo")),
            ("_ZN1n1tIiEEvPT_S2_", Some("n::t<int>")),
            ("_Z5sizedILi128ELb1EfEvPT1_PKS0_", Some("sized<…, …, float>")),
            ("_ZN35_GLOBAL__N__00000000_4_a_cu_counter1kEPf", Some("k")),
            ("axpy", None),
            ("_Z", None),
            ("_Z99x", None),
        ] {
            assert_eq!(function(mangled).as_deref(), name, "{mangled}");
        }
        let types = parameters("_Z3vecPK6float4PvPKvPfjPKPKf");
        let texts: Vec<_> = types.iter().map(ToString::to_string).collect();
        let want = ["const float4*", "void*", "const void*", "float*", "unsigned int", "const …*"];
        assert_eq!(texts, want);
    }

    #[test]
    fn the_list_ends_where_understanding_does() {
        assert_eq!(parameters("_Z1kPfDpT_Pf"), [to(Scalar::F32)]);
        assert_eq!(parameters("_Z1kPfS9_Pf"), [to(Scalar::F32)]);
        assert_eq!(parameters("_Z1kPfM1Si"), [to(Scalar::F32)]);
        assert_eq!(parameters("_Z1kIXsrT_E1vEvPf"), []);
        assert_eq!(parameters("_Z9999kPf"), []);
        assert_eq!(parameters("_ZN1AIfE1kIiEEvPT_"), []);
        assert_eq!(parameters("_Z1kPf.suffix"), [to(Scalar::F32)]);
    }

    #[test]
    fn no_name_makes_it_dig_too_deep() {
        for deep in ["P", "F", "A1_", "N1a", "1aI", "K", "RK"] {
            let _ = parameters(&format!("_Z1k{}", deep.repeat(100_000)));
        }
        // Each pair doubles the type that it names; the reader must share, not copy.
        let doubling: String = (0..30).fold("PFvPiS_E".into(), |s, _| s + "PFvS_S0_E");
        let _ = parameters(&format!("_Z1k{doubling}"));
    }

    #[test]
    fn types_that_a_name_repeats_take_memory_linear_in_it() {
        // 300 KB, whose copies would take 10 GB.
        let (ints, again) = ("i".repeat(100_000), "VS_".repeat(100_000));
        assert_eq!(parameters(&format!("_Z1kPF{ints}E{again}")).len(), 100_001);
        let (class, again) = ("a".repeat(100_000), "S_".repeat(100_000));
        let types = parameters(&format!("_Z1k100000{class}{again}"));
        let bytes = |ty: &Type| if let Type::Named(name) = ty { name.len() } else { 0 };
        assert!(types.iter().map(bytes).sum::<usize>() < 10_000_000);
        assert_eq!((types.len(), types.last()), (100_001, Some(&Type::Unknown)));
        // A kernel has no limit that is met: 24 parameters of a class with a long name.
        let (class, again) = ("b".repeat(150), "PS_".repeat(24));
        assert!(!parameters(&format!("_Z1k150{class}{again}")).contains(&unknown_pointer(false)));
        assert!(
            parameters(&format!("_Z1k150{class}{again}")).iter().all(|ty| *ty != Type::Unknown)
        );
    }

    proptest! {
        #[test]
        fn any_name_is_answered_without_a_panic(name in "_Z[0-9A-Za-z_]{0,60}") {
            let _ = (parameters(&name), argument_parameters(&name), function(&name));
        }

        #[test]
        fn any_mix_of_its_own_codes_is_answered_without_a_panic(
            picks in proptest::collection::vec(0_usize..24, 0..40)
        ) {
            let codes = [
                "P", "K", "f", "S_", "S0_", "T_", "I", "E", "N", "1a", "Li3E", "F", "v", "A3_", "R", "St",
                "V", "6float4", "J", "X", "Dh", "L", "i", "é",
            ];
            let name: String = picks.iter().map(|&i| codes[i]).collect();
            let _ = parameters(&format!("_Z1k{name}"));
            let instance = format!("_Z1kI{name}Evv");
            let _ = (argument_parameters(&instance), function(&instance));
        }
    }
}

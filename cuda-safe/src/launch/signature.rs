//! Comparing the arguments of a launch with the kernel's parameters, once for each kernel and
//! tuple of argument types.

use std::any::TypeId;
use std::mem::MaybeUninit;

use ptx::mangled::{Pointee, Scalar, Type};

use super::args::{ArgClass, ArgKind, ArgType};
use crate::error::{Error, ErrorKind, Result};

/// The known facts about a kernel's parameter.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    /// Bytes, from the driver or from the PTX.
    pub(crate) size: usize,
    /// Integer, float or structure, from the PTX.
    pub(crate) class: Option<ptx::Class>,
    /// The C++ type, from the mangled name.
    pub(crate) cpp: Type,
}

/// Compares all arguments with all parameters; the error names the first that does not fit.
#[cold]
pub(crate) fn check(kernel: &str, parameters: &[Parameter], args: &[ArgType]) -> Result<()> {
    compare(kernel, parameters, args.iter().map(Some))
}

/// As `check`; a `None` fits each parameter.
#[cold]
pub(crate) fn compare<'a>(
    kernel: &str,
    parameters: &[Parameter],
    args: impl ExactSizeIterator<Item = Option<&'a ArgType>>,
) -> Result<()> {
    let error = |index, message| {
        let kernel = kernel.to_owned();
        Error::new(ErrorKind::Argument { kernel, index, parameter: None, message })
    };
    if parameters.len() != args.len() {
        let (takes, given) = (parameters.len(), args.len());
        return Err(error(None, format!("takes {takes} arguments, {given} given")));
    }
    for (index, (parameter, arg)) in parameters.iter().zip(args).enumerate() {
        if let Some(message) = arg.and_then(|arg| mismatch(parameter, arg)) {
            return Err(error(Some(index), message));
        }
    }
    Ok(())
}

/// Returns the first known mismatch, if there is one, and what to write.
fn mismatch(parameter: &Parameter, arg: &ArgType) -> Option<String> {
    let name = spelled(arg);
    if parameter.size != arg.size {
        let (has, takes) = (arg.size, parameter.size);
        return Some(match kernels_type(parameter) {
            Some(ty) => {
                format!("`{name}` has {has} bytes, the kernel's `{ty}` {takes}{}", fix(parameter))
            }
            None => format!("`{name}` has {has} bytes, the parameter {takes}{}", fix(parameter)),
        });
    }
    let wrong = |what: &str, class: &str| {
        let parameter_is = match kernels_type(parameter) {
            Some(ty) => format!("the kernel has `{ty}`"),
            None => format!("the parameter {class}"),
        };
        Some(format!("`{name}` is {what}, {parameter_is}{}", fix(parameter)))
    };
    match arg.kind {
        ArgKind::Value(ArgClass::Float) if is_integer(parameter) => {
            wrong("a float", "an integer or a pointer")
        }
        ArgKind::Value(ArgClass::Int) if is_float(parameter) => wrong("an integer", "a float"),
        ArgKind::Value(_) => None,
        ArgKind::Pointer { .. } if is_float(parameter) => wrong("device memory", "a float"),
        ArgKind::Pointer { element, element_size, writable, only_read, .. } => match &parameter.cpp
        {
            Type::Scalar(_) => wrong("device memory", "an integer"),
            Type::Pointer { pointee, constant } => {
                if !*constant && !writable && !only_read {
                    let ty = &parameter.cpp;
                    return Some(format!(
                        "`{name}` may only be read, but the kernel's `{ty}` is not const: if the kernel only reads \
                         through it, say so by `#[only_read] x: &[T]` in `kernels!` or by `arg::ReadOnly`, or make the \
                         pointer const; if it writes, pass `&mut`, which orders all streams that use the memory one \
                         after the other"
                    ));
                }
                if *constant && only_read {
                    return Some(format!(
                        "`{name}` is marked as only read, but the kernel's pointer is const: remove the marker"
                    ));
                }
                match pointee {
                    Pointee::Scalar(scalar) if !fits(*scalar, element(), element_size) => {
                        let ty = &parameter.cpp;
                        Some(format!("`{name}` does not fit the kernel's `{ty}`{}", fix(parameter)))
                    }
                    _ => None,
                }
            }
            _ => None,
        },
    }
}

/// Returns the argument's type as a declaration spells it: `&[f64]` for any view for reading.
fn spelled(arg: &ArgType) -> String {
    match arg.kind {
        ArgKind::Value(_) => short((arg.name)()),
        ArgKind::Pointer { element_name, writable, .. } => {
            let element = short(element_name());
            let element = element
                .strip_prefix("MaybeUninit<")
                .and_then(|e| e.strip_suffix('>'))
                .unwrap_or(&element);
            format!("&{}[{element}]", if writable { "mut " } else { "" })
        }
    }
}

/// Returns a type's name without the modules that its parts are in.
fn short(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut begin = 0;
    for (at, letter) in name.char_indices().chain([(name.len(), ' ')]) {
        if letter.is_alphanumeric() || matches!(letter, '_' | ':') {
            continue;
        }
        let path = &name[begin..at];
        text.push_str(path.rsplit("::").next().unwrap_or(path));
        if at < name.len() {
            text.push(letter);
        }
        begin = at + letter.len_utf8();
    }
    text
}

/// Returns the parameter's type in C++, if it is known.
fn kernels_type(parameter: &Parameter) -> Option<&Type> {
    (parameter.cpp != Type::Unknown).then_some(&parameter.cpp)
}

/// Returns what to write for the parameter, as the end of a message; empty if that is not known.
fn fix(parameter: &Parameter) -> String {
    let types = match (&parameter.cpp, parameter.class, parameter.size) {
        (Type::Scalar(scalar), ..) => rust_type(*scalar).map(|ty| format!("`{ty}`")),
        (Type::Pointer { pointee: Pointee::Scalar(scalar), constant }, ..) => {
            let borrow = if *constant { "&" } else { "&mut " };
            rust_type(*scalar).map(|ty| format!("`{borrow}[{ty}]`"))
        }
        (Type::Unknown, Some(ptx::Class::Float), 4) => Some("`f32`".to_owned()),
        (Type::Unknown, Some(ptx::Class::Float), 8) => Some("`f64`".to_owned()),
        (Type::Unknown, Some(ptx::Class::Int), size @ (1 | 2 | 4)) => {
            Some(format!("`i{0}` or `u{0}`", 8 * size))
        }
        _ => None,
    };
    types.map(|types| format!(": write {types}")).unwrap_or_default()
}

/// Returns the type in Rust of a type in C++.
fn rust_type(scalar: Scalar) -> Option<&'static str> {
    Some(match (scalar, scalar.size()) {
        (Scalar::Bool, _) => "bool",
        (Scalar::F32, _) => "f32",
        (Scalar::F64, _) => "f64",
        (Scalar::Char | Scalar::I8, _) => "i8",
        (Scalar::U8 | Scalar::Char8, _) => "u8",
        (Scalar::I16, _) => "i16",
        (Scalar::U16 | Scalar::Char16, _) => "u16",
        (Scalar::I32, _) | (Scalar::Long, 4) => "i32",
        (Scalar::U32 | Scalar::Char32, _) | (Scalar::ULong, 4) => "u32",
        (Scalar::I64 | Scalar::Long, _) => "i64",
        (Scalar::U64 | Scalar::ULong, _) => "u64",
        _ => return None,
    })
}

fn is_float(parameter: &Parameter) -> bool {
    parameter.class == Some(ptx::Class::Float)
        || matches!(&parameter.cpp, Type::Scalar(scalar) if scalar.is_float())
}

fn is_integer(parameter: &Parameter) -> bool {
    parameter.class == Some(ptx::Class::Int)
        || matches!(&parameter.cpp, Type::Scalar(scalar) if !scalar.is_float())
        || matches!(&parameter.cpp, Type::Pointer { .. })
}

/// Returns whether elements fit what the kernel's pointer points to. Only a scalar is compared: a structure may well be
/// passed as the scalars that it consists of. Signedness is not compared, and bytes fit everything: C++ programs read
/// memory through `char*`.
fn fits(scalar: Scalar, element: TypeId, size: usize) -> bool {
    let Some(is_float) = scalar_element(element) else { return true };
    let bytes = scalar.size() == 1 && !is_float && size == 1;
    bytes || is_float == scalar.is_float() && size == scalar.size()
}

/// Returns whether the type, or what it is not-yet-written memory of, is a float; `None` for other types
/// than scalars.
pub(crate) fn scalar_element(element: TypeId) -> Option<bool> {
    fn is<T: 'static>(element: TypeId) -> bool {
        element == TypeId::of::<T>() || element == TypeId::of::<MaybeUninit<T>>()
    }
    if is::<f32>(element) || is::<f64>(element) {
        return Some(true);
    }
    let integer = is::<u8>(element)
        || is::<i8>(element)
        || is::<u16>(element)
        || is::<i16>(element)
        || is::<u32>(element)
        || is::<i32>(element)
        || is::<u64>(element)
        || is::<i64>(element)
        || is::<usize>(element)
        || is::<isize>(element);
    integer.then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{KernelArg, KernelArgs, ReadOnly};
    use crate::memory::{DeviceSlice, DeviceSliceMut};

    type In<T> = DeviceSlice<'static, T>;
    type Marked<T> = ReadOnly<'static, T>;
    type Out<T> = DeviceSliceMut<'static, T>;

    /// Returns the parameters of `axpy(float a, const float* x, float* y, unsigned n)`.
    fn axpy() -> Vec<Parameter> {
        let text = ".entry _Z4axpyfPKfPfj(.param .f32 a, .param .u64 x, .param .u64 y,
                    .param .u32 n) { ret; }";
        parameters(text)
    }

    fn parameters(text: &str) -> Vec<Parameter> {
        let signature = ptx::entries(text).unwrap().remove(0);
        crate::function::parameters(&signature.name, &[], Some(&signature))
    }

    fn message<A: KernelArgs>(parameters: &[Parameter]) -> String {
        match check("axpy", parameters, A::TYPES) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_fits_passes() {
        assert_eq!(message::<(f32, In<f32>, Out<f32>, u32)>(&axpy()), "ok");
        assert_eq!(message::<(f32, In<f32>, Out<MaybeUninit<f32>>, i32)>(&axpy()), "ok");
        // A raw address, and elements that consist of floats.
        assert_eq!(message::<(f32, u64, Out<[f32; 4]>, u32)>(&axpy()), "ok");
        // A buffer for writing where the kernel only reads.
        assert_eq!(message::<(f32, Out<f32>, Out<f32>, u32)>(&axpy()), "ok");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let parameters = axpy();
        for (message, part) in [
            (message::<(f32, In<f32>, Out<f32>)>(&parameters), "takes 4 arguments, 3 given"),
            (
                message::<(f64, In<f32>, Out<f32>, u32)>(&parameters),
                "argument 1 of kernel `axpy`: `f64` has 8",
            ),
            (
                message::<(u32, In<f32>, Out<f32>, u32)>(&parameters),
                "argument 1 of kernel `axpy`: `u32` is an int",
            ),
            (
                message::<(f32, In<f64>, Out<f32>, u32)>(&parameters),
                "argument 2 of kernel `axpy`: `&[f64]` does not fit the kernel's `const float*`: write `&[f32]`",
            ),
            (
                message::<(f32, In<u32>, Out<f32>, u32)>(&parameters),
                "argument 2 of kernel `axpy`: `&[u32]` does not fit",
            ),
            (message::<(f32, In<f32>, In<f32>, u32)>(&parameters), "argument 3 of kernel `axpy`: "),
            (
                message::<(f32, In<f32>, Out<f32>, u64)>(&parameters),
                "argument 4 of kernel `axpy`: `u64` has 8 bytes, the kernel's `unsigned int` 4: write `u32`",
            ),
            (
                message::<(f32, In<f32>, Out<f32>, f32)>(&parameters),
                "argument 4 of kernel `axpy`: `f32` is a fl",
            ),
            (
                message::<(f32, f64, Out<f32>, u32)>(&parameters),
                "argument 2 of kernel `axpy`: `f64` is a float",
            ),
        ] {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }

    #[test]
    fn a_pointer_that_is_not_const_is_read_by_a_marker() {
        let parameters = axpy();
        assert_eq!(message::<(f32, In<f32>, Marked<f32>, u32)>(&parameters), "ok");
        let unmarked = message::<(f32, In<f32>, In<f32>, u32)>(&parameters);
        let (marker, write) = (unmarked.find("#[only_read]"), unmarked.find("`&mut`"));
        assert!(marker.is_some() && marker < write, "the marker comes first: {unmarked}");
        assert!(unmarked.contains("one after the other"), "the cost is named: {unmarked}");
        // On a const pointer it says nothing, and types are compared as without it.
        let constant = message::<(f32, Marked<f32>, Out<f32>, u32)>(&parameters);
        assert!(
            constant.contains("argument 2 of kernel") && constant.contains("remove the marker")
        );
        assert!(
            message::<(f32, In<f32>, Marked<f64>, u32)>(&parameters)
                .contains("`&[f64]` does not fit")
        );
        // Without types in the symbol nothing is known of const.
        let plain = self::parameters(".entry k(.param .u64 x) { ret; }");
        assert_eq!(message::<(Marked<f32>,)>(&plain), "ok");
    }

    #[test]
    fn types_are_spelled_as_in_declarations() {
        let name = |arg: ArgType| spelled(&arg);
        assert_eq!(name(<In<f64> as KernelArg>::TYPE), "&[f64]");
        assert_eq!(name(<Marked<[f32; 3]> as KernelArg>::TYPE), "&[[f32; 3]]");
        assert_eq!(
            name(<&mut crate::DeviceBuffer<MaybeUninit<f32>> as KernelArg>::TYPE),
            "&mut [f32]"
        );
        assert_eq!(short("&a::b::C<'_, core::option::Option<d::E>, 3>"), "&C<'_, Option<E>, 3>");
        let unknown = parameters(".entry k(.param .u32 n, .param .f64 v) { ret; }");
        assert!(
            message::<(usize, f64)>(&unknown).ends_with("the parameter 4: write `i32` or `u32`")
        );
        assert!(message::<(u32, u64)>(&unknown).ends_with("the parameter a float: write `f64`"));
    }

    #[test]
    fn without_mangling_size_and_class_still_count() {
        let parameters = parameters(".entry k(.param .u64 p, .param .f64 v) { ret; }");
        assert_eq!(message::<(In<u8>, f64)>(&parameters), "ok");
        assert!(message::<(In<u8>, In<u8>)>(&parameters).contains("the parameter a float"));
        assert!(message::<(f64, f64)>(&parameters).contains("an integer or a pointer"));
    }
}

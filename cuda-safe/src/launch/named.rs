//! Errors of launches with the names that [`kernels!`](crate::kernels) declares.

use crate::error::{Error, ErrorKind};

/// Returns the error of a launch with the declared names of the kernel and its `parameters`. An error that is not about
/// arguments stays as it is.
#[cold]
#[must_use]
pub fn named(error: Error, kernel: &'static str, parameters: &[&'static str]) -> Error {
    let ErrorKind::Argument { index, message, .. } = error.kind() else { return error };
    let (index, message) = (*index, message.clone());
    let parameter = index.and_then(|index| parameters.get(index).copied());
    let kind = ErrorKind::Argument { kernel: kernel.to_owned(), index, parameter, message };
    let error = error.with_kind(kind);
    if index.is_some() {
        return error;
    }
    let declared = match parameters {
        [] => "no parameters".to_owned(),
        _ => parameters.join(", "),
    };
    error.with_hint(format!("the declaration of `{kernel}` has {declared}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(index: Option<usize>) -> Error {
        let (kernel, message) = ("_Z5saxpyfPKf".to_owned(), "does not fit".to_owned());
        Error::new(ErrorKind::Argument { kernel, index, parameter: None, message })
    }

    #[test]
    fn arguments_have_the_declared_names() {
        let names = ["a", "x"];
        for (error, text) in [
            (argument(Some(0)), "argument `a` of kernel `saxpy`: does not fit"),
            (argument(Some(1)), "argument `x` of kernel `saxpy`: does not fit"),
            (argument(Some(2)), "argument 3 of kernel `saxpy`: does not fit"),
            (
                argument(None),
                "kernel `saxpy`: does not fit; hint: the declaration of `saxpy` has a, x",
            ),
            (Error::invalid("other"), "other"),
        ] {
            let error = named(error, "saxpy", &names);
            assert_eq!(error.to_string(), text);
        }
        let none = named(argument(None), "k", &[]).to_string();
        assert!(none.ends_with("the declaration of `k` has no parameters"), "{none}");
    }
}

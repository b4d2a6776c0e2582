//! Why a row has no figure: this machine cannot run it, or it failed.

use std::error::Error;
use std::fmt;

use cuda_safe::ErrorKind;
use cuda_sys::CUresult;

/// The reason why a row ends early.
#[derive(Debug, Clone)]
pub(crate) enum Stop {
    /// The machine lacks what the row needs: a GPU, a driver, NVRTC.
    NotRun(String),
    /// A call failed, or a result was wrong.
    Failed(String),
}

impl Stop {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(reason) => write!(f, "not run: {reason}"),
            Self::Failed(message) => write!(f, "failed: {message}"),
        }
    }
}

impl<E: Error + 'static> From<E> for Stop {
    fn from(error: E) -> Self {
        // One line: reasons stand in a table and in JSON lines.
        let text = error.to_string().replace('\n', " ");
        if is_absence(&error) { Self::NotRun(text) } else { Self::Failed(text) }
    }
}

/// Whether the error says that the machine has no driver, no device or no compiler.
fn is_absence(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<nvrtc::Error>() {
        return matches!(error, nvrtc::Error::NotFound(_));
    }
    let Some(error) = error.downcast_ref::<cuda_safe::Error>() else { return false };
    match error.kind() {
        ErrorKind::MissingLibrary(_) => true,
        ErrorKind::Compile(error) => matches!(**error, nvrtc::Error::NotFound(_)),
        ErrorKind::Driver(code) => {
            [CUresult::CUDA_ERROR_NO_DEVICE, CUresult::CUDA_ERROR_STUB_LIBRARY].contains(code)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_is_an_absence() {
        // SAFETY: there is no library at the path.
        let loaded = unsafe { cuda_safe::Driver::load_from("no-such-directory/libcuda.so.1") };
        let Err(error) = loaded else { panic!("loaded a file that does not exist") };
        assert!(matches!(Stop::from(error), Stop::NotRun(_)));
    }

    #[test]
    fn any_other_error_is_a_failure_on_one_line() {
        match Stop::from(std::io::Error::other("two\nlines")) {
            Stop::Failed(text) => assert_eq!(text, "two lines"),
            other => panic!("{other}"),
        }
    }
}

//! How a test fails: an error of anything, or a condition that does not hold, with its place.

use std::fmt::{self, Debug, Display};
use std::panic::Location;

/// Why a test failed, and where.
pub struct Failure {
    message: String,
    place: &'static Location<'static>,
}

pub type TestResult = Result<(), Failure>;

impl Failure {
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: Location::caller() }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Errors that only pass their cause on repeat its text.
            if !message.contains(&cause_text) {
                message = format!("{message}: {cause_text}");
            }
            source = cause.source();
        }
        Self::new(message)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.place.file(), self.place.line(), self.message)
    }
}

/// Fails unless the call was refused by the crate. An error of the driver is no refusal, and fails with its text.
#[track_caller]
pub fn ensure_refused<T, E: Display>(result: Result<T, E>) -> TestResult {
    let Err(error) = result else { return Err(Failure::new("it was not refused")) };
    let text = error.to_string();
    if text.contains("CUDA_ERROR_") { Err(Failure::new(text)) } else { Ok(()) }
}

/// Fails unless the call was refused with an error that contains `part`. Another error fails with its text.
#[track_caller]
pub fn ensure_refused_for<T, E: Display>(result: Result<T, E>, part: &str) -> TestResult {
    let Err(error) = result else { return Err(Failure::new("it was not refused")) };
    let text = error.to_string();
    if text.contains(part) { Ok(()) } else { Err(Failure::new(format!("{text}: has no `{part}`"))) }
}

/// Fails the test, with a message, unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        // Not negated: a comparison with NaN is false either way.
        if $condition {
        } else {
            return Err($crate::Failure::new(stringify!($condition)));
        }
    };
    ($condition:expr, $($message:tt)+) => {
        if $condition {
        } else {
            return Err($crate::Failure::new(format!(
                "{}: {}", stringify!($condition), format_args!($($message)+)
            )));
        }
    };
}

/// Fails the test unless both are equal, and shows them.
#[macro_export]
macro_rules! ensure_eq {
    ($left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) if *left == *right => {}
            (left, right) => {
                return Err($crate::Failure::new(format!(
                    "{} is {left:?}, not {right:?}", stringify!($left)
                )));
            }
        }
    };
    ($left:expr, $right:expr, $($message:tt)+) => {
        match (&$left, &$right) {
            (left, right) if *left == *right => {}
            (left, right) => {
                return Err($crate::Failure::new(format!(
                    "{} is {left:?}, not {right:?}: {}",
                    stringify!($left), format_args!($($message)+)
                )));
            }
        }
    };
}

/// Fails unless both have the same elements; says where they first differ, and how often.
#[track_caller]
pub fn first_difference<T: PartialEq + Debug>(got: &[T], wanted: &[T]) -> TestResult {
    if got.len() != wanted.len() {
        return Err(Failure::new(format!("{} elements, not {}", got.len(), wanted.len())));
    }
    // One comparison of memory for numbers; also where the caller is compiled without optimisation.
    if got == wanted {
        return Ok(());
    }
    let differing = |(_, (got, wanted)): &(usize, (&T, &T))| got != wanted;
    let mut wrong = got.iter().zip(wanted).enumerate().filter(differing);
    match wrong.next() {
        None => Ok(()),
        Some((index, (got, wanted))) => {
            let count = 1 + wrong.count();
            Err(Failure::new(format!("element {index} is {got:?}, not {wanted:?}; {count} differ")))
        }
    }
}

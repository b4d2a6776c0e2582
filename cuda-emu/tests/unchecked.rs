//! An observation after the configuration was fixed without checkers: a file of its own, as a process has one configuration.

use cuda_emu::{Checks, Config, ObserveError, observe};

mod common;

#[test]
fn the_error_says_what_to_do() {
    common::context();
    let checks = Checks { race: true, init: true, leak: false };
    assert!(!Config::new().check(checks).install(), "the first call has fixed the configuration");
    let error = observe().expect_err("the checkers are off");
    assert_eq!(error, ObserveError::Unchecked);
    // A test that returns the error prints Debug.
    let (shown, printed) = (error.to_string(), format!("{error:?}"));
    assert_eq!(shown, printed);
    assert!(shown.contains("install one Config"), "{shown}");
}

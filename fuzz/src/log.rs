//! Logs of the compiler.

use nvrtc::fuzzing::diagnostics;

use crate::within;

/// Whatever the log, diagnostics that are made of what is in it.
///
/// # Panics
/// That does not hold.
pub fn nvrtc_log(data: &[u8]) {
    let log = String::from_utf8_lossy(data);
    let found = within((1 << 16) + 128 * log.len(), || diagnostics(&log));
    assert!(found.len() <= log.lines().count());
    let mut bytes = 0;
    for diagnostic in &found {
        assert!(diagnostic.line != Some(0) && diagnostic.column != Some(0), "{diagnostic:?}");
        assert!(diagnostic.file.as_deref() != Some(""), "{diagnostic:?}");
        assert!(diagnostic.code.as_deref() != Some(""), "{diagnostic:?}");
        for line in diagnostic.message.lines() {
            assert!(log.contains(line), "{line:?} is not in the log");
        }
        assert!(diagnostic.to_string().ends_with(&diagnostic.message));
        bytes += diagnostic.message.len() + diagnostic.file.as_ref().map_or(0, String::len);
    }
    assert!(bytes <= log.len(), "{bytes} bytes of {}", log.len());
    // A log behind another one, with a blank line between them, says what it says alone.
    let twice = diagnostics(&format!("{log}\n\n{log}"));
    assert_eq!(twice, [&found[..], &found[..]].concat());
}

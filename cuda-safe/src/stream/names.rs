//! Kernel names as small numbers, so that remembering a launch is one store.
//!
//! Each distinct name is leaked once: an error report may need it after the kernel is gone.

use std::collections::BTreeMap;

use crate::sync::{Lock, NotNow};

struct Names {
    numbers: BTreeMap<&'static str, u32>,
    names: Vec<&'static str>,
}

static NAMES: Lock<Names> = Lock::new(Names { numbers: BTreeMap::new(), names: Vec::new() });

/// Returns the number of a name, never 0, and the name for ever.
pub(crate) fn intern(name: &str) -> Result<(u32, &'static str), NotNow> {
    let mut names = NAMES.lock()?;
    if let Some((name, number)) = names.numbers.get_key_value(name) {
        return Ok((*number, name));
    }
    let name: &'static str = Box::leak(name.into());
    names.names.push(name);
    let number = u32::try_from(names.names.len()).unwrap_or(u32::MAX);
    names.numbers.insert(name, number);
    Ok((number, name))
}

/// Returns the name with this number.
pub(crate) fn get(number: u32) -> &'static str {
    let Ok(names) = NAMES.lock() else { return "?" };
    let index = (number as usize).wrapping_sub(1);
    names.names.get(index).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_keeps_its_number() {
        let intern = |name| super::intern(name).expect("no subscriber calls");
        let (first, name) = intern("a_kernel_of_this_test");
        let (second, _) = intern("another_kernel_of_this_test");
        assert_ne!(first, second);
        assert_eq!(intern("a_kernel_of_this_test").0, first);
        assert_eq!(super::get(first), name);
        assert_eq!(super::get(0), "?");
    }
}

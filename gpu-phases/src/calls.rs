//! The call graph of device functions: a thread has no stack for recursion.

use std::collections::{BTreeMap, BTreeSet};

/// The calls of device functions, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The keys of the functions that are being written, the innermost last.
    pub(crate) stack: Vec<String>,
    /// The functions that each function calls.
    callees: BTreeMap<String, BTreeSet<String>>,
}

impl Calls {
    /// Records a call by the function that is being written. Kernels are not recorded, because nothing calls them.
    pub(crate) fn note(&mut self, key: &str) {
        if let Some(caller) = self.stack.last() {
            self.callees.entry(caller.clone()).or_default().insert(key.to_owned());
        }
    }

    /// Returns the keys of functions that call each other in a cycle, if there are any.
    pub(crate) fn cycle(&self) -> Option<String> {
        let mut done = BTreeSet::new();
        self.callees.keys().find_map(|key| self.cycle_from(key, &mut Vec::new(), &mut done))
    }

    fn cycle_from<'c>(
        &'c self,
        key: &'c str,
        path: &mut Vec<&'c str>,
        done: &mut BTreeSet<&'c str>,
    ) -> Option<String> {
        if let Some(start) = path.iter().position(|known| *known == key) {
            return Some([&path[start..], &[key]].concat().join(" -> "));
        }
        if !done.insert(key) {
            return None;
        }
        path.push(key);
        let mut callees = self.callees.get(key).into_iter().flatten();
        let found = callees.find_map(|callee| self.cycle_from(callee, path, done));
        path.pop();
        found
    }
}

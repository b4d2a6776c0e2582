//! The call graph of device functions: a thread has no stack for recursion.

use std::collections::{BTreeMap, BTreeSet};

/// The calls of device functions, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The keys of the functions that are being written, the innermost last.
    pub(crate) stack: Vec<String>,
    pub(crate) functions: BTreeMap<String, Function>,
}

/// A device function.
#[derive(Debug, Default)]
pub(crate) struct Function {
    /// The name in error messages.
    pub(crate) label: String,
    callees: BTreeSet<String>,
}

impl Calls {
    /// Records a call by the function that is being written. Kernels are not recorded, because nothing calls them.
    pub(crate) fn note(&mut self, key: &str) {
        if let Some(caller) = self.stack.last() {
            self.functions.entry(caller.clone()).or_default().callees.insert(key.to_owned());
        }
    }

    /// Returns the names of functions that call each other in a cycle, if there are any.
    pub(crate) fn cycle(&self) -> Option<String> {
        let mut done = BTreeSet::new();
        self.functions.keys().find_map(|key| self.cycle_from(key, &mut Vec::new(), &mut done))
    }

    fn cycle_from<'c>(
        &'c self,
        key: &'c str,
        path: &mut Vec<&'c str>,
        done: &mut BTreeSet<&'c str>,
    ) -> Option<String> {
        if let Some(start) = path.iter().position(|known| *known == key) {
            let labels = path.iter().skip(start).chain([&key]).map(|key| self.label(key));
            return Some(labels.collect::<Vec<_>>().join(" -> "));
        }
        if !done.insert(key) {
            return None;
        }
        path.push(key);
        let callees = self.functions.get(key).into_iter().flat_map(|function| &function.callees);
        let found = callees.into_iter().find_map(|callee| self.cycle_from(callee, path, done));
        path.pop();
        found
    }

    fn label(&self, key: &str) -> &str {
        self.functions.get(key).map_or("", |function| &function.label)
    }
}

//! Makes mutants of the included files: copies with one mistake each, which the models must find.

use std::path::Path;
use std::{env, fs};

/// The mutant's name, the file of `cuda-safe`, and the text that becomes another.
const MUTANTS: &[(&str, &str, &str, &str)] = &[
    (
        "shared_counts_first",
        "memory/order/shared.rs",
        "self.state.fetch_or(RAISED, Ordering::SeqCst);\n            Box::new(Lock::new(first()))",
        "let uses = Box::new(Lock::new(first()));\n            \
         self.state.fetch_or(RAISED, Ordering::SeqCst);\n            uses",
    ),
    (
        "host_borrow_in_two_steps",
        "memory/host/host_borrow.rs",
        "let said = self.0.fetch_update(order, order, |guards| match access {",
        "let said = two_steps(&self.0, order, |guards| match access {",
    ),
    (
        "slab_numbers_in_two_steps",
        "stream/slab.rs",
        "let number = self.next.fetch_add(1, Ordering::Relaxed);",
        "let number = self.next.load(Ordering::Relaxed);\n        \
         self.next.store(number + 1, Ordering::Relaxed);",
    ),
    (
        "slab_calls_under_its_lock",
        "stream/slab.rs",
        "            Some(Entry::Repeated(function)) => {\n                {\n",
        "            Some(Entry::Repeated(function)) => {\n                {\n\
         let _held = self.lock();\n",
    ),
    (
        "list_waits_first",
        "context/deferred_list.rs",
        "match wait(&items) {",
        "if let Ok(mut all) = self.items.lock() { all.extend(items); }\n        \
         let Ok(waited) = self.items.lock().map(|all| wait(&all)) else { return Ok(Vec::new()) };\n        \
         let Ok(items) = self.items.lock().map(|mut all| std::mem::take(&mut *all)) else {\n            \
         return Ok(Vec::new());\n        };\n        match waited {",
    ),
    (
        "list_takes_in_two_steps",
        "context/deferred_list.rs",
        "let position = items.iter().position(wanted)?;\n",
        "let position = items.iter().position(wanted)?;\n        \
         drop(items);\n        let mut items = self.items.lock().ok()?;\n",
    ),
    (
        "slot_takes_in_two_steps",
        "context/lent_slot.rs",
        "let taken = self.left.swap(new, Ordering::AcqRel);",
        "let taken = self.left.load(Ordering::Acquire);\n        \
         self.left.store(new, Ordering::Release);",
    ),
    (
        "slot_forgets_what_was_left",
        "context/lent_slot.rs",
        "self.exchange(Box::into_raw(thing))",
        "self.left.store(Box::into_raw(thing), Ordering::Release);\n        None",
    ),
    (
        "helpers_leaves_early",
        "memory/copy/helpers.rs",
        "while state.at_work > 0 {",
        "while state.at_work > usize::MAX - 1 {",
    ),
    (
        "helpers_tells_nobody",
        "memory/copy/helpers.rs",
        "            self.shared.left.notify_all();\n",
        "",
    ),
    (
        "helpers_joins_late",
        "memory/copy/helpers.rs",
        "                    state.at_work += 1;\n                    drop(state);\n",
        "                    drop(state);\n                    self.lock().into_iter().for_each(|mut state| state.at_work += 1);\n",
    ),
    (
        "versions_note_as_work",
        "memory/order/versions.rs",
        "self.raise_partial(range, bytes, number_writes(1));",
        "self.raise(range, bytes, number_writes(1));",
    ),
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda-safe/src");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=build.rs");
    for (name, file, from, to) in MUTANTS {
        let path = root.join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(text.matches(from).count(), 1, "{name}: {file} has changed, no mutant any more");
        // An included file can't begin with the documentation of a module; and no tests.
        let text: String = text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]")
            .filter(|line| !line.starts_with("//!"))
            .map(|line| format!("{line}\n"))
            .collect();
        let mutant = text.replace(from, to);
        fs::write(Path::new(&out).join(format!("{name}.rs")), mutant).expect("it can be written");
    }
}

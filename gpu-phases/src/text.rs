//! The C++ of kernels, assembled from the sources that rustc has linked to them.

use std::any::TypeId;
use std::collections::BTreeMap;

use crate::calls::Calls;
use crate::device::Device;
use crate::structure::Structure;

/// A text of C++: definitions that are written once each, in the order of their needs, and then kernels.
#[derive(Debug, Default)]
pub struct Text {
    definitions: String,
    /// The C++ names of what has been written, by its key.
    written: BTreeMap<String, String>,
    /// The types, and types of functions, that have these names.
    owners: BTreeMap<String, TypeId>,
    /// A name that two of them have.
    conflict: Option<String>,
    /// How many definitions have a name that begins so.
    named: BTreeMap<String, u32>,
    files: Vec<&'static str>,
    kernel_number: u32,
    calls: Calls,
    /// Whether a kernel runs over blocks.
    blocks: bool,
    /// The headers that the text includes, and the files that they are.
    included: Vec<&'static str>,
    headers: Vec<Header>,
}

/// The name and the text of a header.
pub type Header = (&'static str, &'static str);

impl Text {
    /// Returns an empty text for the kernel with this number, which faults carry.
    #[must_use]
    pub fn new(kernel_number: u32) -> Self {
        Self { kernel_number, ..Self::default() }
    }

    /// Returns the number of the kernel.
    #[must_use]
    pub fn kernel_number(&self) -> u32 {
        self.kernel_number
    }

    /// Returns the number of a source file, for [`FaultSlot::file`](crate::kernel::FaultSlot::file).
    pub fn file(&mut self, file: &'static str) -> u32 {
        let at = self.files.iter().position(|known| *known == file).unwrap_or_else(|| {
            self.files.push(file);
            self.files.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Returns the source files that checks in the text are in, by their numbers.
    #[must_use]
    pub fn files(&self) -> &[&'static str] {
        &self.files
    }

    /// Returns the whole text: the header of semantics and all that was written.
    #[must_use]
    pub fn finish(&self) -> String {
        let cycle = self.calls.cycle().map(|cycle| {
            format!("#error device functions call each other in a cycle: {cycle}: write a loop\n")
        });
        let conflict = self.conflict.as_ref().map(|path| {
            format!("#error two items of one kernel have the path {path}: give one another name\n")
        });
        let included: String =
            self.included.iter().map(|name| format!("#include <{name}>\n")).collect();
        [
            cycle.as_deref().unwrap_or_default(),
            conflict.as_deref().unwrap_or_default(),
            included.as_str(),
            crate::HEADER,
            if self.blocks { crate::BLOCKS } else { "" },
            "namespace phases {\n",
            self.definitions.as_str(),
            "} // namespace phases\n",
        ]
        .concat()
    }

    /// Notes what has a name. Items in different blocks of a module have one path.
    fn own<T: 'static>(&mut self, name: &str) {
        let owner = *self.owners.entry(name.to_owned()).or_insert(TypeId::of::<T>());
        if owner != TypeId::of::<T>() {
            self.conflict.get_or_insert(std::any::type_name::<T>().to_owned());
        }
    }

    /// Writes the definition of a type, and returns its C++ name.
    pub fn ty<T: Device>(&mut self) -> String {
        let name = T::cpp_name();
        self.own::<T>(&name);
        T::write(self);
        name
    }

    /// Writes the definition of a structure's type, and returns its C++ name.
    pub fn structure<S: Structure>(&mut self) -> String {
        S::write(self);
        S::cpp_name()
    }

    /// Includes a header of a library. `files` are that header and all that it includes.
    pub fn header(&mut self, name: &'static str, files: &[Header]) {
        if !self.included.contains(&name) {
            self.included.push(name);
        }
        for file in files {
            if !self.headers.iter().any(|(known, _)| *known == file.0) {
                self.headers.push(*file);
            }
        }
    }

    /// Returns the files that the text includes, to be passed to the compiler.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Writes a value of a constant, and returns its expression.
    pub fn value<T: Device>(&mut self, value: &T) -> String {
        self.ty::<T>();
        let mut text = String::new();
        value.write_value(&mut text);
        text
    }

    /// Writes what `make` returns, unless something was written for the key before. What `make` writes comes first.
    pub fn define(&mut self, key: &str, make: impl FnOnce(&mut Self) -> String) {
        if self.written.insert(key.to_owned(), String::new()).is_none() {
            // Types and their methods are not called by what needs them.
            let stack = std::mem::take(&mut self.calls.stack);
            let text = make(self);
            self.calls.stack = stack;
            self.definitions.push_str(&text);
        }
    }

    /// Writes a function, unless it was written before, and returns its C++ name, which begins with `stem`.
    ///
    /// `make` is given that name.
    pub fn function(
        &mut self,
        key: &str,
        stem: &str,
        make: impl FnOnce(&mut Self, &str) -> String,
    ) -> String {
        self.calls.note(key);
        if let Some(name) = self.written.get(key) {
            return name.clone();
        }
        let number = self.named.entry(stem.to_owned()).or_insert(0);
        *number += 1;
        let name = format!("f_{stem}_{number}");
        self.written.insert(key.to_owned(), name.clone());
        self.calls.stack.push(key.to_owned());
        let text = make(self, &name);
        self.calls.stack.pop();
        self.definitions.push_str(&text);
        name
    }

    /// As [`Text::function`], of the function that `F` stands for.
    pub fn function_of<F: 'static>(
        &mut self,
        key: &str,
        stem: &str,
        make: impl FnOnce(&mut Self, &str) -> String,
    ) -> String {
        self.own::<F>(key);
        self.function(key, stem, make)
    }

    /// Notes that a kernel runs over blocks, so that the text has their header.
    pub fn blocks(&mut self) {
        self.blocks = true;
    }

    /// Writes text as it is, at the end.
    pub fn push(&mut self, text: &str) {
        self.definitions.push_str(text);
    }
}

/// Returns the text with each mark `\u{1}N\u{2}` replaced by `holes[N]`.
#[must_use]
pub fn fill(text: &str, holes: &[String]) -> String {
    let mut pieces = text.split('\u{1}');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let Some((number, rest)) = piece.split_once('\u{2}') else { continue };
        filled.push_str(
            number.parse().ok().and_then(|at: usize| holes.get(at)).map_or("", String::as_str),
        );
        filled.push_str(rest);
    }
    filled
}

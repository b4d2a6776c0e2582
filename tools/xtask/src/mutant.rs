//! Mutants: changes of the sources that take a guarantee away. `cargo xtask mutants` applies them. The attack suite, and a
//! test of this package, check that they can be applied.

use std::fs;
use std::path::Path;

/// A change that the suite must notice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mutant {
    /// The file's name without its extension: `NN-name`. If the file has several, with a slash and the mutant's own.
    pub name: String,
    /// The guarantee that is removed.
    pub about: String,
    /// The attacks, or tests, that must fail.
    pub fails: Vec<String>,
    /// The replacements, in order.
    pub edits: Vec<Edit>,
}

/// One replacement in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The path below the workspace's folder.
    pub file: String,
    /// The text to be replaced. It occurs exactly once, if need be without its last line's end.
    pub old: String,
    /// The text that takes its place.
    pub new: String,
}

impl Mutant {
    /// Reads a mutant: lines `# …` that say what is taken away, `fails: attack, attack`, and for each edit
    /// `file: path`, `--- old`, the text, `--- new`, the text, `--- end`. An edit within a line is `file: path`, `- old`,
    /// `+ new`.
    ///
    /// # Errors
    /// A sentence, with the number of the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut mutant = Self { name: name.to_owned(), ..Self::default() };
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let wrong = |what: &str| Err(format!("{name}, line {}: {what}", index + 1));
            if let Some(about) = line.strip_prefix('#') {
                mutant.about = format!("{} {}", mutant.about, about.trim()).trim().to_owned();
            } else if let Some(fails) = line.strip_prefix("fails:") {
                mutant.fails.extend(fails.split(',').map(|attack| attack.trim().to_owned()));
            } else if let Some(file) = line.strip_prefix("file:") {
                let mut edit = Edit { file: file.trim().to_owned(), ..Edit::default() };
                let first = lines.next().map_or("", |(_, line)| line);
                if let Some(old) = first.strip_prefix("- ") {
                    let Some(new) = lines.next().and_then(|(_, line)| line.strip_prefix('+'))
                    else {
                        return wrong("`+ new` must follow");
                    };
                    edit.old.push_str(old);
                    edit.new.push_str(new.strip_prefix(' ').unwrap_or(new));
                } else if first != "--- old" {
                    return wrong("`--- old` or `- old` must follow");
                }
                let parts = if edit.old.is_empty() { 2 } else { 0 };
                for (part, end) in
                    [(&mut edit.old, "--- new"), (&mut edit.new, "--- end")].into_iter().take(parts)
                {
                    loop {
                        match lines.next() {
                            Some((_, line)) if line == end => break,
                            Some((_, line)) => {
                                part.push_str(line);
                                part.push('\n');
                            }
                            None => return wrong("the edit has no end"),
                        }
                    }
                }
                if edit.old.trim().is_empty() || edit.old == edit.new {
                    return wrong("the edit changes nothing");
                }
                mutant.edits.push(edit);
            } else if !line.trim().is_empty() {
                return wrong("not understood");
            }
        }
        if mutant.about.is_empty() || mutant.fails.is_empty() || mutant.edits.is_empty() {
            return Err(format!("{name}: a mutant has a description, `fails:` and an edit"));
        }
        Ok(mutant)
    }

    /// Reads the mutants of a file: one, or several, each behind a line `== name`. What stands before the first is for
    /// people.
    ///
    /// # Errors
    /// A sentence, with the name of the mutant.
    pub fn parse_all(file: &str, text: &str) -> Result<Vec<Self>, String> {
        let first = text.strip_prefix("== ");
        let Some(text) = first.or_else(|| Some(text.split_once("\n== ")?.1)) else {
            return Ok(vec![Self::parse(file, text)?]);
        };
        let each = text.split("\n== ").map(|text| {
            let (name, text) = text.split_once('\n').unwrap_or((text, ""));
            Self::parse(&format!("{file}/{}", name.trim()), text)
        });
        each.collect()
    }

    /// Reads all mutants in a folder, in the order of their files' names.
    ///
    /// # Errors
    /// A file could not be read, or not be understood.
    pub fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut mutants = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "txt") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                let text = fs::read_to_string(&path).map_err(failed)?;
                mutants.push((name.clone().into_owned(), Self::parse_all(&name, &text)?));
            }
        }
        mutants.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(mutants.into_iter().flat_map(|(_, mutants)| mutants).collect())
    }
}

impl Edit {
    /// The file's text with the replacement made.
    ///
    /// # Errors
    /// The old text does not occur exactly once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        let find = |old: &str, new: &str| match text.matches(old).count() {
            1 => Ok(text.replacen(old, new, 1)),
            count => Err(count),
        };
        // The last line may be a part of one.
        let part = self.old.strip_suffix('\n').zip(self.new.strip_suffix('\n'));
        let found = match (find(&self.old, &self.new), part) {
            (Err(0), Some((old, new))) => find(old, new),
            (found, _) => found,
        };
        found.map_err(|count| format!("{} has the old text {count} times\n{}", self.file, self.old))
    }
}

//! Mutants: changes of the sources that take a guarantee away. `cargo xtask mutants` applies them, and the attack
//! suite checks that they can be applied.

use std::fs;
use std::path::Path;

/// A change that the suite must notice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mutant {
    /// The file's name without its extension: `NN-name`.
    pub name: String,
    /// The guarantee that is removed.
    pub about: String,
    /// The attacks that must fail.
    pub fails: Vec<String>,
    /// The replacements, in order.
    pub edits: Vec<Edit>,
}

/// One replacement in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The path below the workspace's folder.
    pub file: String,
    /// The text to be replaced. It occurs exactly once.
    pub old: String,
    /// The text that takes its place.
    pub new: String,
}

impl Mutant {
    /// Reads a mutant: lines `# …` that say what is taken away, `fails: attack, attack`, and for each edit
    /// `file: path`, `--- old`, the text, `--- new`, the text, `--- end`.
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
                if lines.next().is_none_or(|(_, line)| line != "--- old") {
                    return wrong("`--- old` must follow");
                }
                for (part, end) in [(&mut edit.old, "--- new"), (&mut edit.new, "--- end")] {
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

    /// Reads all mutants in a folder, in the order of their names.
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
                mutants.push(Self::parse(&name, &text)?);
            }
        }
        mutants.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(mutants)
    }
}

impl Edit {
    /// The file's text with the replacement made.
    ///
    /// # Errors
    /// The old text does not occur exactly once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.old).count() {
            1 => Ok(text.replacen(&self.old, &self.new, 1)),
            count => Err(format!("{} has the old text {count} times\n{}", self.file, self.old)),
        }
    }
}

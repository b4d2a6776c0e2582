//! What an attack declares: the comment above its function, or at the head of a file in `refused/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta};

use super::Failure;

/// The required outcome of an attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Must {
    /// Every assertion of the attack holds.
    Right,
    /// `Lab::refused` sees an error with this text.
    Error(String),
    /// The compiler reports errors, all with this code, one with this text.
    NotCompile { code: String, text: String },
}

/// How an attack is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function of the test program.
    Program,
    /// A file that is given to the compiler.
    Refused(PathBuf),
}

/// An attack, as it declares itself.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    /// `theme::name`.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Its source: the function, or the file.
    pub(crate) source: String,
    /// The beginnings of the rows of docs/soundness.md that it attacks.
    pub(crate) rows: Vec<String>,
    /// The functions that it uses, as `Type::method`.
    pub(crate) targets: Vec<String>,
    pub(crate) must: Must,
    /// The names that `Lab::variant` returns, one for each run.
    pub(crate) variants: Vec<String>,
    /// Variables of the process.
    pub(crate) variables: Vec<(String, String)>,
    /// Whether a seed orders the device's work. Otherwise the reason is in the comment.
    pub(crate) seeded: bool,
    /// Whether the checkers of the software device run.
    pub(crate) checked: bool,
    /// Seconds that one run may take.
    pub(crate) limit: u64,
    /// The text of an error that a drop must report.
    pub(crate) drops: Option<String>,
    /// The text of the panic that must come out of the attack.
    pub(crate) panics: Option<String>,
}

/// Seconds that a run may take if it declares nothing else.
const LIMIT: u64 = 30;

/// The package's folder.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    package().ancestors().nth(2).unwrap_or(package()).to_owned()
}

/// All attacks: the functions below `src/attacks`, and the files below `refused`.
pub(crate) fn attacks() -> Result<Vec<Attack>, Failure> {
    let mut attacks = Vec::new();
    for file in files(&package().join("src/attacks"))? {
        let theme = theme(&file, &package().join("src/attacks"))?;
        // The list of themes.
        if theme != "mod" {
            programs(&file, &theme, &mut attacks)?;
        }
    }
    for file in files(&package().join("refused"))? {
        let folder = file.parent().unwrap_or(&file);
        let (theme, name) = (stem(folder)?, stem(&file)?);
        attacks.push(in_file(&file, format!("{theme}::{name}"))?);
    }
    attacks.sort_by(|a, b| a.name.cmp(&b.name));
    match attacks.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(Failure::new(format!("two attacks are called {}", pair[0].name))),
        None => Ok(attacks),
    }
}

/// Returns the attack of this name that is a program. Parses only the files that can contain it, because the process of each
/// attack calls this.
pub(crate) fn program_named(name: &str) -> Result<Option<Attack>, Failure> {
    let Some((theme_of_name, function)) = name.split_once("::") else { return Ok(None) };
    let (folder, start) = (package().join("src/attacks"), format!("fn {function}("));
    let mut attacks = Vec::new();
    for file in files(&folder)? {
        if theme(&file, &folder)? == theme_of_name && fs::read_to_string(&file)?.contains(&start) {
            programs(&file, theme_of_name, &mut attacks)?;
        }
    }
    Ok(attacks.into_iter().find(|attack| attack.name == name))
}

/// The Rust files below a folder, in order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn stem(path: &Path) -> Result<&str, Failure> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.ok_or_else(|| Failure::new(format!("{} has no name", path.display())))
}

/// The theme of a file below `src/attacks`: the first folder's name, or the file's.
fn theme(file: &Path, folder: &Path) -> Result<String, Failure> {
    let inside = file.strip_prefix(folder)?;
    match inside.components().next() {
        Some(first) => Ok(stem(Path::new(&first))?.to_owned()),
        None => Err(Failure::new(format!("{} is no file", file.display()))),
    }
}

/// Adds the attacks among a file's functions: those that take `&Lab` and are documented with a row.
fn programs(file: &Path, theme: &str, attacks: &mut Vec<Attack>) -> Result<(), Failure> {
    let text = fs::read_to_string(file)?;
    let parsed = syn::parse_file(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    for item in parsed.items {
        let Item::Fn(function) = item else { continue };
        let comment = comment(&function.attrs);
        if !comment.contains("- row:") {
            continue;
        }
        let name = format!("{theme}::{}", function.sig.ident);
        // A call may go through what the file declares beside the function: the whole file counts as source.
        let mut attack = read(&name, Kind::Program, file, &comment)?;
        attack.source.clone_from(&text);
        if matches!(attack.must, Must::NotCompile { .. }) {
            return Err(Failure::new(format!(
                "{name}: what must not compile belongs into `refused/`"
            )));
        }
        attacks.push(attack);
    }
    Ok(())
}

fn in_file(file: &Path, name: String) -> Result<Attack, Failure> {
    let text = fs::read_to_string(file)?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
    let comment = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>();
    let mut attack = read(&name, Kind::Refused(file.to_owned()), file, &comment.join("\n"))?;
    attack.source = text;
    match attack.must {
        Must::NotCompile { .. } => Ok(attack),
        _ => Err(Failure::new(format!("{name}: a file in `refused/` must not compile"))),
    }
}

/// The text of documentation comments.
pub(crate) fn comment(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value
        {
            let text = text.value();
            lines.push(text.strip_prefix(' ').unwrap_or(&text).to_owned());
        }
    }
    lines.join("\n")
}

/// Reads a comment: sentences, then a list of `- key: value`, each of which may go on in indented lines.
fn read(name: &str, kind: Kind, file: &Path, comment: &str) -> Result<Attack, Failure> {
    let wrong = |what: String| Failure::new(format!("{name} ({}): {what}", file.display()));
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut sentences = String::new();
    for line in comment.lines() {
        if let Some((key, value)) = line.strip_prefix("- ").and_then(|line| line.split_once(':')) {
            entries.push((key.trim().to_owned(), value.trim().to_owned()));
        } else if let (Some((_, value)), Some(more)) = (entries.last_mut(), line.strip_prefix("  "))
        {
            value.push(' ');
            value.push_str(more.trim());
        } else if entries.is_empty() {
            sentences.push_str(line);
        } else if !line.trim().is_empty() {
            return Err(wrong(format!("a line after the list is not part of it: {line}")));
        }
    }
    if !sentences.trim_end().ends_with('.') {
        return Err(wrong("the comment begins with a sentence that says what is tried".to_owned()));
    }
    let mut rows = Vec::new();
    let mut single: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in entries {
        if value.is_empty() {
            return Err(wrong(format!("`{key}` has no value")));
        }
        if key == "row" {
            rows.push(value);
        } else if single.insert(key.clone(), value).is_some() {
            return Err(wrong(format!("`{key}` is there twice")));
        }
    }
    let mut take = |key: &str| single.remove(key);
    let must = take("must").ok_or_else(|| wrong("there is no `must`".to_owned()))?;
    let must =
        read_must(&must).ok_or_else(|| wrong(format!("`must` is not understood: {must}")))?;
    let targets = take("targets").ok_or_else(|| wrong("there are no `targets`".to_owned()))?;
    let targets = quoted(&targets, '`');
    let list = |text: Option<String>| -> Vec<String> {
        text.iter().flat_map(|text| text.split(',')).map(|part| part.trim().to_owned()).collect()
    };
    let variants = list(take("variants"));
    let variables = list(take("variables"))
        .into_iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(wrong(format!("`variables` are NAME=VALUE, separated by commas: {pair}"))),
        })
        .collect::<Result<_, _>>()?;
    // `seeds: none, because …`: an attack without seeds says why.
    let without = |what: &str, given: Option<String>| match given {
        None => Ok(true),
        Some(text) if text.strip_prefix("none, because ").is_some_and(|why| !why.is_empty()) => {
            Ok(false)
        }
        Some(_) => Err(wrong(format!("`{what}` may only be `none, because …`"))),
    };
    let seeded = without("seeds", take("seeds"))?;
    let checked = without("checks", take("checks"))?;
    let limit = match take("limit") {
        None => LIMIT,
        Some(text) => {
            text.parse().map_err(|_| wrong("`limit` is a number of seconds".to_owned()))?
        }
    };
    let mut text = |key: &str| {
        single.remove(key).map(|text| match quoted(&text, '"').pop() {
            Some(text) => Ok(text),
            None => Err(wrong(format!("`{key}` is a text in double quotes"))),
        })
    };
    let drops = text("drops").transpose()?;
    let panics = text("panics").transpose()?;
    if let Some(key) = single.keys().next() {
        return Err(wrong(format!("`{key}` is not known")));
    }
    if rows.is_empty() || targets.is_empty() {
        return Err(wrong("it names no row, or no target".to_owned()));
    }
    let (name, source) = (name.to_owned(), String::new());
    Ok(Attack {
        name,
        kind,
        source,
        rows,
        targets,
        must,
        variants,
        variables,
        seeded,
        checked,
        limit,
        drops,
        panics,
    })
}

fn read_must(text: &str) -> Option<Must> {
    if text == "right" {
        return Some(Must::Right);
    }
    if let Some(rest) = text.strip_prefix("error ") {
        return quoted(rest, '"').pop().map(Must::Error);
    }
    let (code, rest) = text.strip_prefix("not compile ")?.split_once(' ')?;
    let is_code = code == "none" || (code.len() == 5 && code.starts_with('E'));
    let text = quoted(rest, '"').pop().filter(|text| !text.is_empty())?;
    is_code.then(|| Must::NotCompile { code: code.to_owned(), text })
}

/// The parts of a text that stand between these marks.
pub(crate) fn quoted(text: &str, mark: char) -> Vec<String> {
    text.split(mark).skip(1).step_by(2).map(str::to_owned).collect()
}

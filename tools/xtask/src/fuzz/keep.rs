//! Chooses the inputs that are worth checking in: those few that together reach most.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use xtask::Error;

/// The share of a corpus's edges that an input must add. Fuzzing starts from what is kept, and the tests replay it with
/// changed copies; what else was found is found again in minutes.
const LEAST_SHARE: usize = 180;

/// An input, and the edges that it reaches.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    size: u64,
    edges: HashSet<u32>,
}

/// The inputs to keep of those that a merge has listed in its control file, beside those that are kept by name.
///
/// # Errors
/// It is no such file, or an input is gone.
pub(super) fn selected(control: &str) -> Result<Vec<PathBuf>, Error> {
    let (named, others) = listed(control)?.into_iter().partition(Input::is_named);
    Ok(cover(named, others))
}

impl Input {
    /// Whether it is kept whatever it reaches.
    fn is_named(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("crash-"))
    }
}

/// Reads a control file: how many files there are, how many of them were there before, their names, and for
/// each that was run a line `FT <number> <feature>…`.
fn listed(control: &str) -> Result<Vec<Input>, Error> {
    let mut lines = control.lines();
    let count: usize = lines.next().unwrap_or_default().parse()?;
    let paths: Vec<PathBuf> = lines.by_ref().skip(1).take(count).map(PathBuf::from).collect();
    let mut inputs = Vec::new();
    for line in lines {
        let mut words = line.split(' ');
        if words.next() != Some("FT") {
            continue;
        }
        let number: usize = words.next().unwrap_or_default().parse()?;
        let path = paths.get(number).ok_or("a number of no file")?.clone();
        let size = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let edges = words.map(str::parse).collect::<Result<_, _>>()?;
        inputs.push(Input { path, size: size.len(), edges });
    }
    Ok(inputs)
}

/// Takes the input with the most new edges, the smallest of those with as many, again and again as long as it adds its
/// share.
fn cover(named: Vec<Input>, mut inputs: Vec<Input>) -> Vec<PathBuf> {
    let all = named.iter().chain(&inputs).flat_map(|input| &input.edges);
    let least = all.collect::<HashSet<_>>().len().div_ceil(LEAST_SHARE).max(1);
    let mut known: HashSet<u32> = named.into_iter().flat_map(|input| input.edges).collect();
    let mut chosen = Vec::new();
    loop {
        for input in &mut inputs {
            input.edges.retain(|edge| !known.contains(edge));
        }
        inputs.sort_by(|a, b| {
            let edges = b.edges.len().cmp(&a.edges.len());
            edges.then(a.size.cmp(&b.size)).then_with(|| a.path.cmp(&b.path))
        });
        if inputs.first().is_none_or(|best| best.edges.len() < least) {
            return chosen;
        }
        let best = inputs.remove(0);
        known.extend(best.edges);
        chosen.push(best.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, size: u64, edges: &[u32]) -> Input {
        Input { path: name.into(), size, edges: edges.iter().copied().collect() }
    }

    #[test]
    fn what_reaches_most_comes_first() {
        let inputs = vec![
            input("large", 900, &[1, 2, 3, 4, 5]),
            input("small", 60, &[1, 2, 3, 4, 5]),
            input("less", 10, &[1, 2, 6]),
            input("other", 10, &[7, 8]),
            input("known", 10, &[9]),
            input("none", 1, &[]),
        ];
        let named = vec![input("crash-x", 5, &[9])];
        assert!(named[0].is_named() && !inputs[0].is_named());
        assert_eq!(cover(named, inputs), ["small", "other", "less"].map(PathBuf::from));
    }

    #[test]
    fn an_input_must_add_its_share() {
        let many: Vec<u32> = (0..600).collect();
        let inputs = vec![
            input("many", 9, &many),
            input("three", 9, &[601, 602, 603]),
            input("four", 9, &[604, 605, 606, 607]),
        ];
        assert_eq!(cover(Vec::new(), inputs), ["many", "four"].map(PathBuf::from));
    }

    #[test]
    fn a_control_file_is_read() -> Result<(), Error> {
        // Any two files that are there.
        let here = xtask::root().join("tools/xtask");
        let names = ["Cargo.toml", "src/main.rs"].map(|name| here.join(name));
        let [one, two] = names.each_ref().map(|name| name.display().to_string());
        let control =
            format!("2\n0\n{one}\n{two}\nSTARTED 0 9\nFT 0 4 5\nCOV 0 1\nSTARTED 1 9\nFT 1 6\n");
        let inputs = listed(&control)?;
        assert_eq!(inputs.len(), 2);
        assert_eq!((&inputs[1].path, inputs[1].edges.len()), (&names[1], 1));
        assert!(listed("no control file").is_err());
        assert!(listed("1\n0\na\nFT 3 1\n").is_err());
        Ok(())
    }
}

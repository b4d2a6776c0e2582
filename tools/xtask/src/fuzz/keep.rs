//! Chooses the inputs that are worth checking in: those that reach most for their bytes.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use xtask::Error;

/// The most bytes of one corpus, beside what is kept by name. Fuzzing goes on from what is here, and the tests
/// replay it; what is beyond is found again in minutes.
const MOST_BYTES: u64 = 64 << 10;

/// An input, and the edges that it reaches.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    size: u64,
    edges: HashSet<u32>,
}

/// The inputs to keep of those that a merge has listed in its control file.
///
/// # Errors
/// It is no such file, or an input is gone.
pub(super) fn selected(control: &str) -> Result<Vec<PathBuf>, Error> {
    let mut inputs = listed(control)?;
    // An input whose edges did not change the merge's mind counts for nothing.
    inputs.retain(|input| !input.edges.is_empty());
    Ok(cover(inputs, MOST_BYTES))
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

/// Takes the input with the most new edges for its bytes, again and again, as long as there is one for which
/// there is room.
fn cover(mut inputs: Vec<Input>, mut room: u64) -> Vec<PathBuf> {
    // A file takes room by itself, too.
    const EACH: u64 = 40;
    let mut chosen = Vec::new();
    loop {
        inputs.retain(|input| !input.edges.is_empty() && input.size <= room);
        let worth = |input: &Input| input.edges.len() as f64 / (input.size + EACH) as f64;
        let best = (0..inputs.len()).max_by(|&a, &b| {
            let order = worth(&inputs[a]).total_cmp(&worth(&inputs[b]));
            order.then_with(|| inputs[b].path.cmp(&inputs[a].path))
        });
        let Some(best) = best else { return chosen };
        let best = inputs.swap_remove(best);
        for input in &mut inputs {
            input.edges.retain(|edge| !best.edges.contains(edge));
        }
        room -= best.size;
        chosen.push(best.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, size: u64, edges: &[u32]) -> Input {
        Input { path: name.into(), size, edges: edges.iter().copied().collect() }
    }

    fn chosen(room: u64) -> Vec<PathBuf> {
        let inputs = vec![
            input("large", 900, &[1, 2, 3, 4, 5, 6]),
            input("small", 60, &[1, 2, 3]),
            input("same", 60, &[1, 2, 3]),
            input("other", 100, &[3, 4]),
            input("none", 1, &[]),
        ];
        cover(inputs, room)
    }

    #[test]
    fn what_reaches_most_for_its_bytes_comes_first() {
        assert_eq!(chosen(2000), ["same", "other", "large"].map(PathBuf::from));
        // Where there is no room for it, others still have a chance.
        assert_eq!(chosen(200), ["same", "other"].map(PathBuf::from));
        assert_eq!(chosen(50), [""; 0].map(PathBuf::from));
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

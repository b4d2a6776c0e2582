//! The recorded derivatives, `tape/tests/suite/golden/libm.txt.gz`.

use test_support::gzip;

use test_harness::Failure;

const PACKED: &[u8] = include_bytes!("../../golden/libm.txt.gz");

/// A derivative and the error that is allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) value: f64,
    pub(super) allowed: f64,
}

/// A point, with the derivative by each argument.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) args: Vec<f64>,
    pub(super) wanted: Vec<Wanted>,
}

/// A function of one type of numbers.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    /// `f32` or `f64`.
    pub(super) suffix: String,
    pub(super) points: Vec<Point>,
}

impl Function {
    /// How many arguments it has.
    pub(super) fn arity(&self) -> usize {
        self.points.first().map_or(1, |point| point.args.len())
    }
}

/// Returns the functions of the book.
pub(super) fn functions() -> Result<Vec<Function>, Failure> {
    let wrong = |line: &str| Failure::new(format!("libm.txt: {line}"));
    let mut functions: Vec<Function> = Vec::new();
    let text = gzip::unpack(PACKED)?;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if let [name, suffix @ ("f32" | "f64")] = words[..] {
            let (name, suffix) = (name.to_owned(), suffix.to_owned());
            functions.push(Function { name, suffix, points: Vec::new() });
            continue;
        }
        let mut point = Point { args: Vec::new(), wanted: Vec::new() };
        for word in words {
            let number = |text: &str| text.parse::<f64>().map_err(|_| wrong(line));
            match word.split_once('~') {
                Some((value, allowed)) => {
                    point.wanted.push(Wanted { value: number(value)?, allowed: number(allowed)? });
                }
                None => point.args.push(number(word)?),
            }
        }
        if point.args.is_empty() || point.args.len() != point.wanted.len() {
            return Err(wrong(line));
        }
        functions.last_mut().ok_or_else(|| wrong(line))?.points.push(point);
    }
    Ok(functions)
}

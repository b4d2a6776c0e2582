//! The findings of a check.

use std::fmt;

use cuda_safe::{Error, Result};

/// What an adjoint is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oracle {
    /// Tangents of the software device: derivatives of each instruction, in f64.
    Tangents,
    /// Central differences of the kernel, in its own precision, with an estimate of their error.
    Differences,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong, and everything could be compared.
    Right,
    /// Nothing is certainly wrong, but some numbers could not be compared, or differ without an explanation.
    Undecided,
    /// Some gradient is wrong.
    Wrong,
}

/// A number of a parameter, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The parameter's name in the [`OpSpec`](crate::OpSpec), with the offset of a pointer in a structure: `mesh+8`.
    pub param: String,
    /// The element behind the pointer; `None` for all, and for numbers that are passed by value.
    pub element: Option<usize>,
    /// The number's offset in the element, or in the value, in bytes; `None` if there is only one number.
    pub offset: Option<usize>,
}

/// How a pass differs from a plain one, which wants all gradients and in which no input has a gradient before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variation {
    /// A plain pass.
    Plain,
    /// Another recorded step has given the inputs a gradient before, so the adjoint must add to it.
    Added,
    /// The gradient of overwritten memory is not wanted, so the adjoint need not clear it.
    Dropped,
    /// Only this input's gradient is wanted: the adjoint gets null for the others.
    OneInput,
    /// Only this output has a gradient: the adjoint gets null for the others.
    OneOutput,
    /// After the launch, all memory whose values the specification does not keep was overwritten.
    Overwritten,
    /// The tape is deterministic.
    Deterministic,
    /// The adjoint gets too little scratch memory at first, and runs again.
    Resumed,
}

/// The kind of a finding.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The gradient is wrong.
    Wrong,
    /// The old contents of memory that the kernel overwrites have a gradient: the adjoint must clear it.
    NotCleared,
    /// The kernel's results depend on the old contents of memory that the specification declares as overwritten.
    NotOverwritten,
    /// The gradient of an input is not proportional to that of the output: it is right for the weight 1, and not
    /// twice as large for the weight 2. `expected` and `got` are half of the values for 2.
    NotLinear,
    /// The gradient is NaN or infinite, and the kernel's derivative is neither.
    NotFinite,
    /// Like [`NotFinite`](Self::NotFinite), because the adjoint does not write memory that it must store to.
    Unwritten,
    /// The primal, which runs instead of the forward kernel while it is recorded, has other results.
    Primal,
    /// The kernel has a kink at this point. Nearby, the gradient is right.
    Kink {
        /// The slope to the left.
        left: f64,
        /// The slope to the right.
        right: f64,
    },
    /// The kernel jumps at this point. Nearby, the gradient is right.
    Discontinuity,
    /// The kernel, or its slope, is not finite at this point. Nearby, the gradient is right.
    Undefined,
    /// The gradient is wrong at this point and right nearby, and no kink of the kernel was found.
    OnlyHere,
    /// No derivative is known well enough to compare with: outputs are not finite, change from run to run, or are not
    /// smooth.
    Unknown,
}

impl Problem {
    /// Returns whether the adjoint is at fault.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        let harmless = |it: &Self| {
            matches!(
                it,
                Self::Kink { .. }
                    | Self::Discontinuity
                    | Self::Undefined
                    | Self::OnlyHere
                    | Self::Unknown
            )
        };
        !harmless(self)
    }
}

/// One finding of a check.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of the finding.
    pub problem: Problem,
    /// The pass in which it was found.
    pub variation: Variation,
    /// The input whose gradient is wrong or unknown.
    pub input: Place,
    /// The output whose derivative is compared; `None` for a sum over outputs with random weights.
    pub output: Option<Place>,
    /// The expected value of the gradient.
    pub expected: f64,
    /// The computed value of the gradient.
    pub got: f64,
    /// The difference of both, relative to the sum of their magnitudes.
    pub error: f64,
    /// Whether the values are those of a point near the given one.
    pub nearby: bool,
    /// How many numbers of the input have this problem, and how many were checked, if all were.
    pub numbers: Option<(usize, usize)>,
}

/// The comparison of one parameter's gradient.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Compared {
    /// The parameter's name.
    pub param: String,
    /// How many numbers have a gradient.
    pub numbers: usize,
    /// The largest difference of ⟨ȳ, J ẋ⟩ and ⟨Jᵀ ȳ, ẋ⟩, relative to the sum of the terms' magnitudes.
    pub error: f64,
    /// The largest number of outputs that were left out, because their derivatives are unknown.
    pub left_out: usize,
}

/// The result of [`gradcheck`](crate::gradcheck()). `Display` writes a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The kernel's name.
    pub op: String,
    /// What the adjoint was compared with.
    pub oracle: Oracle,
    /// The instruction at which tangents were lost, so that differences were taken instead.
    pub lost: Option<String>,
    /// The seed of the directions.
    pub seed: u64,
    /// Whether two runs of the kernel gave different results.
    pub varies: bool,
    /// One row for each active parameter.
    pub params: Vec<Compared>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns the verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let doubts =
            |finding: &Finding| matches!(finding.problem, Problem::OnlyHere | Problem::Unknown);
        if self.findings.iter().any(|finding| finding.problem.is_wrong()) {
            Verdict::Wrong
        } else if self.findings.iter().any(doubts) {
            Verdict::Undecided
        } else {
            Verdict::Right
        }
    }

    /// Returns whether all gradients are right: [`Verdict::Right`].
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.verdict() == Verdict::Right
    }

    /// Returns the report as an error unless all gradients are right.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) with the text of the report.
    pub fn ensure(&self) -> Result<()> {
        if self.is_right() { Ok(()) } else { Err(Error::invalid(self.to_string())) }
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tangents => "tangents in f64",
            Self::Differences => "central differences",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { param, element, offset } = self;
        f.write_str(param)?;
        if let Some(element) = element {
            write!(f, "[{element}]")?;
        }
        match offset {
            Some(offset) => write!(f, " byte {offset}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "in a pass for all gradients",
            Self::Added => {
                "if the input has a gradient already: the adjoint must add to it, unless `Frame::assign` says otherwise"
            }
            Self::Dropped => "if the gradient of overwritten memory is not wanted (`Frame::drop`)",
            Self::OneInput => "if no other gradient is wanted: the adjoint gets null for the others",
            Self::OneOutput => {
                "if one output alone has a gradient: the adjoint gets null for the others"
            }
            Self::Overwritten => {
                "if memory is overwritten after the launch whose value the specification does not keep: \
                 `Param::with_value` keeps it"
            }
            Self::Deterministic => "on a deterministic tape",
            Self::Resumed => "if the adjoint is resumed with more scratch memory",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, variation, input, output, expected, got, nearby, numbers, .. } = self;
        write!(f, "{input}")?;
        if let Some(output) = output {
            write!(f, " -> {output}")?;
        }
        if *problem == Problem::Unknown {
            return f
                .write_str(": not compared: no output has a derivative that is known well enough");
        }
        let got = Number(*got);
        match problem {
            Problem::Kink { .. } | Problem::Discontinuity | Problem::Undefined => {
                write!(f, ": the gradient is {got}")?;
            }
            _ => write!(f, ": expected {}, got {got}", Number(*expected))?,
        }
        match problem {
            Problem::Wrong => Ok(()),
            Problem::NotCleared => {
                f.write_str(": the adjoint must clear the gradient of memory that the kernel overwrites")
            }
            Problem::NotOverwritten => f.write_str(
                ": the result depends on the old contents, and the specification says that they are overwritten",
            ),
            Problem::NotLinear => f.write_str(
                " where the output's gradient is 2, relative to it: the adjoint is not linear in it",
            ),
            Problem::NotFinite => f.write_str(", which is no number"),
            Problem::Unwritten => f.write_str(
                ": the adjoint does not store to it, or adds to it although `Frame::assign` tells it to store",
            ),
            Problem::Primal => f.write_str(": results of the forward kernel and of the primal"),
            Problem::Kink { left, right } => {
                let (left, right) = (Number(*left), Number(*right));
                write!(f, " at a kink, with slopes {left} and {right}")
            }
            Problem::Discontinuity => f.write_str(", where the kernel jumps"),
            Problem::Undefined => f.write_str(", where the kernel or its slope is not finite"),
            Problem::OnlyHere => {
                f.write_str("; only at this point: nearby the gradient is right. Move the inputs off it")
            }
            Problem::Unknown => Ok(()),
        }?;
        if let Some((count, of)) = numbers.filter(|(_, of)| *of > 1) {
            write!(f, " ({count} of {of} numbers)")?;
        }
        if *nearby {
            f.write_str(" (at a nearby point)")?;
        }
        match variation {
            Variation::Plain => Ok(()),
            other => write!(f, ", {other}"),
        }
    }
}

/// Displays a number with six digits.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
            let digits = if value == 0.0 { 0 } else { 5 - value.abs().log10().floor() as i32 };
            let text = format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
            let text = match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.'),
                false => &text,
            };
            f.write_str(text)
        } else if value.is_finite() {
            write!(f, "{value:.5e}")
        } else {
            write!(f, "{value}")
        }
    }
}

/// The most findings that `Display` shows.
const SHOWN: usize = 8;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, oracle, lost, seed, varies, params, findings } = self;
        let verdict = match self.verdict() {
            Verdict::Right => "right",
            Verdict::Undecided => "not shown to be right or wrong",
            Verdict::Wrong => "wrong",
        };
        write!(f, "the adjoint of `{op}` is {verdict}, compared with {oracle} (seed {seed})")?;
        if let Some(lost) = lost {
            write!(f, "\n  tangents were lost, so differences were taken: {lost}")?;
        }
        if *varies {
            f.write_str("\n  two runs of the kernel had different results")?;
        }
        let width = params.iter().map(|row| row.param.len()).max().unwrap_or(0);
        for row in params {
            let Compared { param, numbers, error, left_out } = row;
            let of = findings.iter().find(|finding| finding.input.param == *param);
            let state = match of.map(|finding| finding.problem.is_wrong()) {
                Some(true) => "WRONG",
                Some(false) => "see below",
                None if *numbers == 0 => "empty",
                None => "right",
            };
            write!(f, "\n  {param:width$}  {numbers:>9} numbers  error {error:>8.1e}  {state}")?;
            if *left_out > 0 {
                write!(f, ", {left_out} outputs left out")?;
            }
        }
        for finding in findings.iter().take(SHOWN) {
            write!(f, "\n  {finding}")?;
        }
        match findings.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, "\n  and {more} more"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(param: &str, element: Option<usize>, offset: Option<usize>) -> Place {
        Place { param: param.to_owned(), element, offset }
    }

    fn report(problem: Problem) -> Report {
        let finding = Finding {
            problem,
            variation: Variation::Plain,
            input: place("x", Some(3), None),
            output: Some(place("out", Some(1), Some(4))),
            expected: 0.75,
            got: -0.75,
            error: 1.0,
            nearby: false,
            numbers: Some((1, 12)),
        };
        let row = |param: &str, error| Compared {
            param: param.to_owned(),
            numbers: 12,
            error,
            left_out: 0,
        };
        Report {
            op: "step".to_owned(),
            oracle: Oracle::Differences,
            lost: None,
            seed: 0,
            varies: false,
            params: vec![row("a", 2e-8), row("x", 0.5)],
            findings: vec![finding],
        }
    }

    #[test]
    fn texts_name_what_is_wrong() {
        let wrong = report(Problem::Wrong);
        assert_eq!(wrong.verdict(), Verdict::Wrong);
        let text = wrong.ensure().expect_err("it is wrong").to_string();
        assert_eq!(
            text.trim_start_matches("invalid: "),
            "the adjoint of `step` is wrong, compared with central differences (seed 0)\n  \
             a         12 numbers  error   2.0e-8  right\n  \
             x         12 numbers  error   5.0e-1  WRONG\n  \
             x[3] -> out[1] byte 4: expected 0.75, got -0.75 (1 of 12 numbers)"
        );
        let kink = report(Problem::Kink { left: -1.0, right: 1.0 });
        assert_eq!(kink.verdict(), Verdict::Right);
        assert!(kink.to_string().contains("at a kink, with slopes -1 and 1"));
        assert!(kink.ensure().is_ok());
        for doubt in [Problem::OnlyHere, Problem::Unknown] {
            assert_eq!(report(doubt.clone()).verdict(), Verdict::Undecided);
            assert!(report(doubt).ensure().is_err());
        }
    }

    #[test]
    fn numbers_have_six_digits() {
        let of = |value: f64| Number(value).to_string();
        assert_eq!(of(0.0), "0");
        assert_eq!(of(1.0), "1");
        assert_eq!(of(-123_456.7), "-123457");
        assert_eq!(of(100.0), "100");
        assert_eq!(of(0.012_345_678), "0.0123457");
        assert_eq!(of(1.234_567_8e-9), "1.23457e-9");
        assert_eq!(of(f64::NAN), "NaN");
    }
}

//! Counting tests: from the lines that test programs print, and from the reports of the device tests.

use std::fmt;
use std::ops::AddAssign;

use std::time::Duration;

use serde_json::Value;
use test_support::sample::Effort;
use test_support::time::Took;
use xtask::Error;

use crate::phase::Phase;

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// One failure: of a step that counts no tests, or that failed before it could.
    pub(crate) const FAILURE: Self = Self { passed: 0, failed: 1 };

    /// Parses a line such as `test result: ok. 5 passed; 0 failed; …`; returns `None` for other lines.
    pub(crate) fn of_libtest_line(line: &str) -> Option<Self> {
        let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
        let count = |label: &str| {
            counts.split("; ").find_map(|part| part.strip_suffix(label)?.parse().ok())
        };
        Some(Self { passed: count(" passed")?, failed: count(" failed")? })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// One tier of the device tests, as a test program reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tier {
    pub(crate) name: String,
    pub(crate) ran: u64,
    pub(crate) tally: Tally,
    pub(crate) took: Took,
    /// Why the tier did not run, if it did not.
    pub(crate) not_run: Option<String>,
}

impl Tier {
    /// The tier as a phase of the run.
    pub(crate) fn phase(&self) -> Phase {
        let result = match &self.not_run {
            Some(reason) => format!("not run: {reason}"),
            None => self.tally.to_string(),
        };
        Phase { name: self.name.clone(), took: self.took, result }
    }

    /// Adds the same tier of another program.
    fn add(&mut self, other: Self) {
        self.ran += other.ran;
        self.tally += other.tally;
        self.took.clock += other.took.clock;
        self.took.processor += other.took.processor;
        self.not_run = self.not_run.take().or(other.not_run);
    }
}

/// What the programs of device tests have tried, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Driver calls that failed.
    faults: u64,
    /// Runs of tests under seeds.
    schedules: u64,
    /// The kernels of the crates, which the checkers have seen.
    kernels: u64,
}

impl Sums {
    /// The least that a whole run tries.
    pub(crate) fn wanted(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self { faults: 1500, schedules: 200, kernels: 440 },
            Effort::Ci | Effort::Deep => Self { faults: 5000, schedules: 1000, kernels: 440 },
        }
    }

    /// Returns what is less than wanted.
    pub(crate) fn below(&self, wanted: &Self) -> Vec<String> {
        let all = [
            ("faults of the sweep", self.faults, wanted.faults),
            ("schedules", self.schedules, wanted.schedules),
            ("kernels under the checkers", self.kernels, wanted.kernels),
        ];
        let below = all.iter().filter(|(_, is, wanted)| is < wanted);
        below.map(|(what, is, wanted)| format!("{is} {what}: {wanted} are wanted")).collect()
    }
}

/// The report of a program of device tests, or the sum of several.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) tiers: Vec<Tier>,
    pub(crate) sums: Sums,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        for tier in other.tiers {
            match self.tiers.iter_mut().find(|of| of.name == tier.name) {
                Some(of) => of.add(tier),
                None => self.tiers.push(tier),
            }
        }
        self.sums.faults += other.sums.faults;
        self.sums.schedules += other.sums.schedules;
        self.sums.kernels += other.sums.kernels;
    }
}

/// Reads the report of a program of device tests.
///
/// # Errors
/// It is not what the test program promises to write.
pub(crate) fn parse_report(text: &str) -> Result<Report, Error> {
    let report: Value = serde_json::from_str(text.trim())?;
    let tiers = report["tiers"].as_array().ok_or("the test report has no `tiers`")?;
    let number = |name: &str| {
        report[name].as_u64().ok_or_else(|| format!("the test report has no `{name}`"))
    };
    Ok(Report {
        tiers: tiers.iter().map(parse_tier).collect::<Result<_, _>>()?,
        sums: Sums {
            faults: number("faults")?,
            schedules: number("schedules")?,
            kernels: number("kernels")?,
        },
    })
}

fn parse_tier(tier: &Value) -> Result<Tier, Error> {
    let wrong = |field: &str| format!("the test report has a tier without `{field}`: {tier}");
    let count = |field: &str| tier[field].as_u64().ok_or_else(|| wrong(field));
    let time = |field: &str| {
        let seconds = tier[field].as_f64().ok_or_else(|| wrong(field))?;
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong(field))
    };
    Ok(Tier {
        name: tier["tier"].as_str().ok_or_else(|| wrong("tier"))?.to_owned(),
        ran: count("ran")?,
        tally: Tally { passed: count("passed")?, failed: count("failed")? },
        took: Took { clock: time("seconds")?, processor: time("processor_seconds")? },
        not_run: tier["not_run"].as_str().map(str::to_owned),
    })
}

/// Returns the faults of a report besides the tests that failed: each tier of `required` can run on this machine, so it
/// must have run. With a filter a tier may be left without a test.
pub(crate) fn problems(tiers: &[Tier], required: &[&str], filtered: bool) -> Vec<String> {
    let mut problems = Vec::new();
    for &name in required {
        match tiers.iter().find(|tier| tier.name == name) {
            None => problems.push(format!("tier {name} is missing from the report")),
            Some(tier) => match &tier.not_run {
                Some(reason) => {
                    problems.push(format!("tier {name} can run here and did not run: {reason}"));
                }
                None if tier.ran == 0 && !filtered => {
                    problems.push(format!("tier {name} can run here and has run no test"));
                }
                None => {}
            },
        }
    }
    for tier in tiers {
        if tier.ran != tier.tally.passed + tier.tally.failed {
            problems.push(format!(
                "tier {} ran {} tests and tells the result of {}",
                tier.name,
                tier.ran,
                tier.tally.passed + tier.tally.failed
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"tiers":[
        {"tier":"host","ran":3,"passed":2,"failed":1,"seconds":1.5,"processor_seconds":2,"not_run":null},
        {"tier":"compile","ran":0,"passed":0,"failed":0,"seconds":0,"processor_seconds":0,"not_run":null},
        {"tier":"gpu","ran":0,"passed":0,"failed":0,"seconds":0,"processor_seconds":0,"not_run":"no GPU"}],
        "faults":7,"schedules":5,"kernels":3}"#;

    #[test]
    fn result_lines_are_summed() {
        let mut sum = Tally::default();
        for line in [
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out",
        ] {
            if let Some(counted) = Tally::of_libtest_line(line) {
                sum += counted;
            }
        }
        assert_eq!(sum.to_string(), "15 passed, 2 failed");
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "test result_is_kept ... ok",
            "5 passed; 0 failed",
            "test result: ok. many passed; 0 failed",
            "  test result: ok. 1 passed; 0 failed;",
        ] {
            assert_eq!(Tally::of_libtest_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_report_is_read_whole() -> Result<(), Error> {
        let report = parse_report(REPORT)?;
        assert_eq!(report.sums, Sums { faults: 7, schedules: 5, kernels: 3 });
        let tiers = report.tiers;
        let results: Vec<String> = tiers.iter().map(|tier| tier.phase().result).collect();
        assert_eq!(results, ["2 passed, 1 failed", "0 passed, 0 failed", "not run: no GPU"]);
        let seconds = |seconds| Duration::from_secs_f64(seconds);
        assert_eq!(tiers[0].took, Took { clock: seconds(1.5), processor: seconds(2.0) });
        Ok(())
    }

    #[test]
    fn reports_are_summed_by_tier() -> Result<(), Error> {
        let mut sum = Report::default();
        sum += parse_report(REPORT)?;
        sum += parse_report(REPORT)?;
        assert_eq!(sum.tiers.len(), 3);
        assert_eq!(sum.tiers[0].tally, Tally { passed: 4, failed: 2 });
        assert_eq!(sum.tiers[0].took.clock, Duration::from_secs(3));
        assert_eq!(sum.tiers[2].not_run.as_deref(), Some("no GPU"));
        let wanted = Sums { faults: 14, schedules: 11, kernels: 7 };
        assert_eq!(
            sum.sums.below(&wanted),
            ["10 schedules: 11 are wanted", "6 kernels under the checkers: 7 are wanted"]
        );
        Ok(())
    }

    #[test]
    fn a_broken_report_is_an_error() {
        for text in [
            "",
            "{}",
            r#"{"tiers":[],"faults":1,"schedules":1}"#,
            r#"{"tiers":[{"tier":"host","ran":1,"passed":1}]}"#,
            r#"{"tiers":[{"ran":1,"passed":1,"failed":0,"seconds":0,"processor_seconds":0}]}"#,
            r#"{"tiers":[{"tier":"host","ran":1,"passed":1,"failed":0}]}"#,
        ] {
            assert!(parse_report(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tier_that_can_run_must_run() -> Result<(), Error> {
        let tiers = parse_report(REPORT)?.tiers;
        assert_eq!(problems(&tiers, &["host"], false), [""; 0]);
        assert_eq!(
            problems(&tiers, &["host", "compile", "gpu", "emu"], false),
            [
                "tier compile can run here and has run no test",
                "tier gpu can run here and did not run: no GPU",
                "tier emu is missing from the report",
            ]
        );
        assert_eq!(problems(&tiers, &["compile"], true), [""; 0]);
        Ok(())
    }

    #[test]
    fn a_result_that_was_lost_is_noticed() -> Result<(), Error> {
        let text = r#"{"tiers":[{"tier":"host","ran":4,"passed":2,"failed":1,"seconds":1.5,"processor_seconds":2,"not_run":null}],"faults":0,"schedules":0,"kernels":0}"#;
        assert_eq!(
            problems(&parse_report(text)?.tiers, &["host"], false),
            ["tier host ran 4 tests and tells the result of 3"]
        );
        Ok(())
    }
}

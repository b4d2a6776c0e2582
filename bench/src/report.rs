//! The output: a JSON line for each row, and the table for people.

use serde_json::{Value, json};

use crate::stats::{Stats, rounded};
use crate::stop::Stop;
use crate::timing::Paired;

/// The unit of a figure; the name is the line's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// GiB/s, 2³⁰ bytes.
    Gibs,
    /// TB/s, 10¹² bytes.
    Tbs,
}

impl Unit {
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Ns => "ns",
            Self::Gibs => "gibs",
            Self::Tbs => "tbs",
        }
    }
}

/// One measured row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) unit: Unit,
    pub(crate) stats: Stats,
    check: String,
    image: Option<String>,
    device: Option<String>,
    extras: Vec<(&'static str, Value)>,
    /// For the table.
    note: String,
    /// The requirement of the row, and whether it holds.
    target: Option<(String, bool)>,
}

impl Row {
    pub(crate) fn new(work: &str, unit: Unit, samples: &[f64]) -> Self {
        Self {
            work: work.to_owned(),
            unit,
            stats: Stats::of(samples),
            check: String::new(),
            image: None,
            device: None,
            extras: Vec::new(),
            note: String::new(),
            target: None,
        }
    }

    /// Nanoseconds of ours, with what they differ by from the raw calls.
    pub(crate) fn host(work: &str, paired: &Paired) -> Self {
        let (difference, aa) = (paired.difference(), paired.aa_difference());
        let raw = Stats::of(&paired.raw).median;
        Self::new(work, Unit::Ns, &paired.ours)
            .figure("raw_ns", raw)
            .figure("diff_ns", difference.median)
            .extra("diff_spread", spread(&difference))
            .figure("aa_diff_ns", aa)
            .note(format!("raw {}, diff {:+.1}, A/A {aa:+.1}", short(raw), difference.median))
    }

    /// The comparison and its result. Every row has one.
    pub(crate) fn check(mut self, check: impl Into<String>) -> Self {
        self.check = check.into();
        self
    }

    /// The kernel's image: `embedded PTX`, or the exact architecture.
    pub(crate) fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    pub(crate) fn device(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }

    pub(crate) fn extra(mut self, key: &'static str, value: Value) -> Self {
        self.extras.push((key, value));
        self
    }

    pub(crate) fn figure(self, key: &'static str, value: f64) -> Self {
        self.extra(key, number(value))
    }

    pub(crate) fn note(mut self, note: String) -> Self {
        self.note = note;
        self
    }

    /// A bound that `value` must not exceed.
    pub(crate) fn at_most(mut self, what: &str, value: f64, bound: f64) -> Self {
        self.target = Some((format!("{what} <= {bound}"), value <= bound));
        self
    }

    /// A bound that `value` must reach.
    pub(crate) fn at_least(mut self, what: &str, value: f64, bound: f64) -> Self {
        self.target = Some((format!("{what} >= {bound}"), value >= bound));
        self
    }

    pub(crate) fn misses_target(&self) -> bool {
        matches!(self.target, Some((_, false)))
    }

    /// The row's JSON line. `common` are the fields that all lines of a run share.
    pub(crate) fn line(&self, common: &[(&'static str, Value)]) -> String {
        let mut fields = vec![
            ("work", json!(self.work)),
            (self.unit.key(), number(self.stats.median)),
            ("spread", spread(&self.stats)),
            ("n", json!(self.stats.n)),
            ("check", json!(self.check)),
            ("image", json!(self.image)),
            ("device", json!(self.device)),
        ];
        fields.extend(self.extras.iter().cloned());
        if let Some((target, met)) = &self.target {
            fields.extend([("target", json!(target)), ("met", json!(met))]);
        }
        object(fields.iter().chain(common))
    }

    /// The row's line of the table.
    pub(crate) fn summary(&self) -> String {
        let stats = &self.stats;
        let (median, key) = (short(stats.median), self.unit.key());
        let between = format!("[{}, {}]", short(stats.p25), short(stats.p75));
        let target = match &self.target {
            Some((target, true)) => format!("  ({target}: met)"),
            Some((target, false)) => format!("  ({target}: MISSED)"),
            None => String::new(),
        };
        format!("{:36} {median:>9} {key:4} {between:22} {}{target}", self.work, self.note)
    }
}

/// The JSON line of a row without a figure.
pub(crate) fn stopped(work: &str, stop: &Stop, common: &[(&'static str, Value)]) -> String {
    let reason = match stop {
        Stop::NotRun(reason) => ("not_run", json!(reason)),
        Stop::Failed(message) => ("failed", json!(message)),
    };
    object([("work", json!(work)), reason].iter().chain(common))
}

fn spread(stats: &Stats) -> Value {
    let [p25, p75, min, max] = [stats.p25, stats.p75, stats.min, stats.max].map(number);
    json!({ "p25": p25, "p75": p75, "min": min, "max": max })
}

fn number(value: f64) -> Value {
    json!(rounded(value))
}

/// An object with its fields in this order.
fn object<'a>(fields: impl Iterator<Item = &'a (&'static str, Value)>) -> String {
    let fields: Vec<String> =
        fields.map(|(key, value)| format!("{}: {value}", json!(key))).collect();
    format!("{{{}}}", fields.join(", "))
}

/// Four digits or so, for people.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), serde_json::Error>;

    fn paired() -> Paired {
        Paired { ours: vec![112.0; 30], raw: vec![100.0; 30], again: vec![101.0; 30] }
    }

    #[test]
    fn a_line_is_an_object_with_what_the_rules_ask_for() -> Outcome {
        let row = Row::host("launch/empty", &paired())
            .check("ran")
            .image("sm_90")
            .device("a GPU")
            .at_most("diff_ns", 12.0, 100.0);
        let line = row.line(&[("commit", json!("abc"))]);
        assert!(line.starts_with(r#"{"work": "launch/empty", "ns": 112.0, "#), "{line}");
        let value: Value = serde_json::from_str(&line)?;
        assert_eq!(value["n"], 30);
        assert_eq!((&value["raw_ns"], &value["diff_ns"]), (&json!(100.0), &json!(12.0)));
        assert_eq!(value["aa_diff_ns"], 1.0);
        assert_eq!(value["spread"]["p75"], 112.0);
        assert_eq!((&value["met"], &value["commit"]), (&json!(true), &json!("abc")));
        for key in ["check", "image", "device", "diff_spread"] {
            assert!(!value[key].is_null(), "{key}");
        }
        Ok(())
    }

    #[test]
    fn a_target_that_is_missed_says_so() {
        let row = Row::host("x", &paired()).at_most("diff_ns", 12.0, 10.0);
        assert!(row.misses_target());
        assert!(row.summary().contains("MISSED"));
        assert!(!Row::host("x", &paired()).at_least("y", 0.98, 0.98).misses_target());
        assert!(Row::host("x", &paired()).at_least("y", f64::NAN, 0.98).misses_target());
    }

    #[test]
    fn a_row_without_figure_says_why() -> Outcome {
        let line = stopped("x", &Stop::NotRun("no \"GPU\"".into()), &[]);
        let value: Value = serde_json::from_str(&line)?;
        assert_eq!(value, json!({ "work": "x", "not_run": "no \"GPU\"" }));
        let line = stopped("x", &Stop::failed("wrong"), &[]);
        let value: Value = serde_json::from_str(&line)?;
        assert_eq!(value, json!({ "work": "x", "failed": "wrong" }));
        Ok(())
    }
}

//! What was measured, as a table and as lines of JSON.

use cuda_safe::KernelAttributes;
use serde_json::{Value, json};

use super::timing::median;
use super::{Element, Variant};

/// The times of one variant.
pub(crate) struct Measured {
    pub(crate) variant: Variant,
    pub(crate) attributes: Option<KernelAttributes>,
    /// Microseconds of a launch.
    pub(crate) samples: Vec<f64>,
}

/// How two results differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference {
    /// The share of elements with other bits.
    share: f64,
    /// The largest difference, by the largest value.
    largest: f64,
}

/// One kernel.
pub(crate) struct Row {
    pub(crate) kernel: &'static str,
    pub(crate) len: usize,
    /// The variant without contraction.
    pub(crate) plain: Variant,
    /// The share of elements that may differ much from the twin's.
    pub(crate) loose: f64,
    pub(crate) measured: Vec<Measured>,
    /// Rust and the twin.
    pub(crate) twin: Option<Difference>,
    /// Rust and the twin, both without contraction.
    pub(crate) twin_plain: Option<Difference>,
    /// Rust with and without overflow checks.
    pub(crate) checked: Option<Difference>,
}

/// Compares two results.
pub(crate) fn compare<T: Element>(a: &[T], b: &[T]) -> Difference {
    let (mut other, mut most, mut size) = (0usize, 0.0f64, 0.0f64);
    for (a, b) in a.iter().zip(b) {
        other += usize::from(bytemuck::bytes_of(a) != bytemuck::bytes_of(b));
        let (difference, value) = a.difference(b);
        // A NaN stays.
        most = if most.is_nan() || difference <= most { most } else { difference };
        size = size.max(value);
    }
    let largest = if most == 0.0 { 0.0 } else { most / size };
    Difference { share: other as f64 / a.len().max(1) as f64, largest }
}

impl Difference {
    /// Returns whether all bits are equal.
    fn is_none(&self) -> bool {
        self.share == 0.0
    }

    fn text(of: Option<Self>) -> String {
        match of {
            None => "-".to_owned(),
            Some(of) if of.is_none() => "equal".to_owned(),
            Some(Self { share, largest }) => format!("{:.2}%, {largest:.0e}", share * 100.0),
        }
    }

    fn json(of: Option<Self>) -> Value {
        of.map_or(Value::Null, |of| json!({ "share": of.share, "largest": of.largest }))
    }
}

impl Row {
    fn of(&self, variant: Variant) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.variant == variant)
    }

    fn us(&self, variant: Variant) -> Option<f64> {
        self.of(variant).map(|measured| median(&measured.samples))
    }

    fn ratio(&self, a: Variant, b: Variant) -> Option<f64> {
        Some(self.us(a)? / self.us(b)?)
    }

    /// The rate of the memory as a share of a copy's: three arrays here, two there.
    fn copy_share(&self) -> Option<f64> {
        Some(self.ratio(Variant::Copy, Variant::Rust)? * 1.5)
    }

    /// Returns whether the results are as they should be: with the same roundings the same bits, and else close.
    pub(crate) fn is_right(&self) -> bool {
        let close = self.twin.is_none_or(|of| of.largest < 1e-3 || of.share < self.loose);
        close
            && self.twin_plain.is_none_or(|of| of.is_none())
            && self.checked.is_none_or(|of| of.is_none())
    }
}

/// Prints the names of the columns.
pub(crate) fn print_head() {
    println!(
        "{:<11} {:>11} | {:>9} {:>9} {:>9} {:>9} {:>9} | {:>6} {:>6} {:>6} {:>6} | {:>9} {:>9} | results",
        "",
        "",
        "rust",
        "plain",
        "checked",
        "twin",
        "twin",
        "rust",
        "plain",
        "check",
        "of",
        "registers",
        "local"
    );
    println!(
        "{:<11} {:>11} | {:>9} {:>9} {:>9} {:>9} {:>9} | {:>6} {:>6} {:>6} {:>6} | {:>9} {:>9} | rust = twin; plain = twin",
        "kernel",
        "elements",
        "µs",
        "µs",
        "µs",
        "µs",
        "no fmad",
        "/twin",
        "/twin",
        "/rust",
        "copy",
        "rust/twin",
        "rust/twin"
    );
}

/// Prints rows of the table.
pub(crate) fn print(rows: &[Row]) {
    let number = |of: Option<f64>, digits| of.map_or("-".to_owned(), |x| format!("{x:.digits$}"));
    for row in rows {
        let both = |get: fn(&KernelAttributes) -> u32| {
            let of = |variant| {
                let attributes = row.of(variant).and_then(|measured| measured.attributes);
                attributes.as_ref().map_or("-".to_owned(), |found| get(found).to_string())
            };
            format!("{}/{}", of(Variant::Rust), of(Variant::Twin))
        };
        println!(
            "{:<11} {:>11} | {:>9} {:>9} {:>9} {:>9} {:>9} | {:>6} {:>6} {:>6} {:>6} | {:>9} {:>9} | {}; {}",
            row.kernel,
            row.len,
            number(row.us(Variant::Rust), 2),
            number(row.us(Variant::Plain), 2),
            number(row.us(Variant::Checked), 2),
            number(row.us(Variant::Twin), 2),
            number(row.us(Variant::TwinPlain), 2),
            number(row.ratio(Variant::Rust, Variant::Twin), 3),
            number(row.ratio(row.plain, Variant::TwinPlain), 3),
            number(row.ratio(Variant::Checked, Variant::Rust), 3),
            number(row.copy_share(), 3),
            both(|found| found.registers),
            both(|found| found.local),
            Difference::text(row.twin),
            Difference::text(row.twin_plain),
        );
    }
}

/// Returns a line for each variant, and one for each kernel.
pub(crate) fn lines(rows: &[Row], device: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    for row in rows {
        for Measured { variant, attributes, samples } in &row.measured {
            let mut sorted = samples.clone();
            sorted.sort_by(f64::total_cmp);
            lines.push(json!({
                "kernel": row.kernel,
                "elements": row.len,
                "variant": format!("{variant:?}"),
                "device": device,
                "us": median(samples),
                "us_min": sorted.first(),
                "us_max": sorted.last(),
                "samples": samples.len(),
                "registers": attributes.map(|found| found.registers),
                "local": attributes.map(|found| found.local),
            }));
        }
        lines.push(json!({
            "kernel": row.kernel,
            "elements": row.len,
            "device": device,
            "rust_over_twin": row.ratio(Variant::Rust, Variant::Twin),
            "rust_over_twin_plain": row.ratio(Variant::Rust, Variant::TwinPlain),
            "plain_over_twin": row.ratio(row.plain, Variant::Twin),
            "plain_over_twin_plain": row.ratio(row.plain, Variant::TwinPlain),
            "checked_over_rust": row.ratio(Variant::Checked, Variant::Rust),
            "share_of_copy": row.copy_share(),
            "differs_from_twin": Difference::json(row.twin),
            "plain_differs_from_twin_plain": Difference::json(row.twin_plain),
            "checked_differs": Difference::json(row.checked),
        }));
    }
    lines
}

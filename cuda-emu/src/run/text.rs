//! The report as text.

use std::fmt;
use std::time::Duration;

use super::{KernelRun, RunReport};
use crate::Checks;

/// Returns the name of a kernel in its source.
fn source_name(symbol: &str) -> String {
    ptx::mangled::function(symbol).unwrap_or_else(|| symbol.to_owned())
}

/// Returns a number with its noun.
fn count(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => "",
        "launch" => "es",
        _ => "s",
    };
    format!("{number} {noun}{plural}")
}

fn time(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Writes the report.
pub(super) fn write(report: &RunReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if report.processes.is_empty() {
        return writeln!(f, "no process used the device");
    }
    if report.processes.len() > 1 {
        writeln!(f, "{} processes used the device", report.processes.len())?;
    }
    let launches = report.kernels.iter().map(|kernel| kernel.launches).sum();
    let kernels = count(report.kernels.len() as u64, "kernel");
    let all = report.kernels.iter().map(|kernel| kernel.time).sum();
    writeln!(f, "{kernels}, {}, {}", count(launches, "launch"), time(all))?;
    let mut sorted: Vec<&KernelRun> = report.kernels.iter().collect();
    sorted.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
    for kernel in sorted {
        writeln!(
            f,
            "  {}: {} of {} and {}, {}; {}: {} exact, {} approximate",
            source_name(&kernel.name),
            count(kernel.launches, "launch"),
            count(kernel.blocks, "block"),
            count(kernel.threads, "thread"),
            time(kernel.time),
            count(kernel.instructions, "instruction"),
            kernel.exact(),
            kernel.approximate(),
        )?;
        for (name, (number, bound)) in &kernel.approximate {
            writeln!(f, "    {name}: {number}, error at most {bound}")?;
        }
    }
    writeln!(f, "{} refused", count(report.refused.iter().map(|row| row.1).sum(), "kernel"))?;
    for (why, number) in &report.refused {
        writeln!(f, "  {number} x {why}")?;
    }
    reached(report, f)?;
    let Checks { race, init, leak } = report.checks;
    let on = [(race, "race"), (init, "init"), (leak, "leak")];
    let on: Vec<&str> = on.into_iter().filter_map(|(on, name)| on.then_some(name)).collect();
    let findings = count(report.findings.len() as u64, "finding");
    match on[..] {
        [] => writeln!(f, "no checker was on")?,
        _ => writeln!(f, "{findings} of the checkers {}", on.join(", "))?,
    }
    for found in &report.findings {
        writeln!(f, "  {}, {} x: {}", found.check, found.count, found.text.replace('\n', "\n  "))?;
    }
    if !report.faults.is_empty() {
        writeln!(f, "{}", count(report.faults.len() as u64, "fault"))?;
        for fault in &report.faults {
            writeln!(f, "  {}", fault.replace('\n', "\n  "))?;
        }
    }
    if !report.failed.is_empty() {
        writeln!(f, "calls of the driver that failed")?;
        for (function, code, number) in &report.failed {
            writeln!(f, "  {number} x {function}: {code}")?;
        }
    }
    if !report.unsupported.is_empty() {
        writeln!(f, "functions that this device does not have")?;
        for (function, number) in &report.unsupported {
            writeln!(f, "  {number} x {function}")?;
        }
    }
    Ok(())
}

/// Writes what approximate values decided: the first place of each kind in each kernel, and the number of others.
fn reached(report: &RunReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let approximate = report.kernels.iter().any(|kernel| kernel.approximate() != 0);
    if !report.traced {
        return match approximate {
            true => {
                writeln!(
                    f,
                    "approximate values were not followed: --taint or CUDA_EMU_TAINT=1 does that"
                )
            }
            false => Ok(()),
        };
    }
    if report.reached.is_empty() {
        return writeln!(f, "no approximate value reached a branch, an address or an integer");
    }
    writeln!(f, "approximate values decided")?;
    let mut told: Vec<(&str, &str)> = Vec::new();
    for at in &report.reached {
        let what = (at.what.as_str(), at.kernel.as_str());
        if told.contains(&what) {
            continue;
        }
        told.push(what);
        let same = report.reached.iter().filter(|other| (&*other.what, &*other.kernel) == what);
        let more = same.count() as u64 - 1;
        write!(f, "  {} in kernel {} at {}", at.what, source_name(&at.kernel), at.place)?;
        match more {
            0 => writeln!(f)?,
            _ => writeln!(f, ", and at {}", count(more, "other line"))?,
        }
    }
    Ok(())
}

//! Benchmarks: one JSON line a row on standard output, and a table for people on standard error.
//!
//! A line's figure stands under its unit (`ms`, `us`, `ns`, `gibs` or `tbs`) and is the median of `n`
//! samples. Where the same is done by raw driver calls, the two take turns, and `diff_ns` or
//! `ratio` is the median of the differences or ratios of neighbours; `aa_diff_ns` or `aa_ratio` compares the raw calls
//! with themselves: the error of the method.

mod cells;
mod data;
mod emu;
mod gpu;
mod machine;
mod peers;
mod raw;
mod raw_graph;
mod replay;
mod report;
mod rows;
mod stats;
mod stop;
mod timing;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::peers::Peer;
use crate::report::Row;
use crate::rows::{Bench, Work};
use crate::stop::Stop;

fn main() -> ExitCode {
    let options = command().get_matches();
    match run(&options) {
        Ok(code) => code,
        Err(stop) => {
            eprintln!("{stop}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let count = value_parser!(u32).range(1..=100_000);
    Command::new("bench")
        .about("Measures the workspace beside raw driver calls; JSON lines on standard output")
        .after_help("Ends with status 1 if a row failed; rows that cannot run here are no failure.")
        .args([
            Arg::new("only")
                .long("only")
                .value_name("TEXT")
                .action(ArgAction::Append)
                .help("Only rows with TEXT in their names; may be repeated"),
            Arg::new("repeat")
                .long("repeat")
                .value_name("N")
                .value_parser(count)
                .help("Samples per row [default: 30 interleaved with raw calls, 20 others]"),
            Arg::new("out").long("out").value_name("FILE").help("Writes the JSON lines there, too"),
            Arg::new("compare")
                .long("compare")
                .value_name("FILE")
                .help("Prints the figures recorded in these JSON lines beside ours"),
            Arg::new("list").long("list").action(ArgAction::SetTrue).help("Lists the rows"),
            Arg::new("device")
                .long("device")
                .value_name("ORDINAL")
                .default_value("0")
                .value_parser(value_parser!(u16))
                .help("The device to measure"),
            Arg::new("cached-child")
                .long("cached-child")
                .value_parser(["gpu", "noop"])
                .hide(true)
                .help("What a fresh process does for cached_source_to_kernel"),
        ])
}

fn run(options: &ArgMatches) -> Result<ExitCode, Stop> {
    let ordinal = usize::from(options.get_one::<u16>("device").copied().unwrap_or(0));
    if let Some(driver) = options.get_one::<String>("cached-child") {
        rows::child(driver, ordinal)?;
        return Ok(ExitCode::SUCCESS);
    }
    let only: Vec<&str> =
        options.get_many::<String>("only").into_iter().flatten().map(String::as_str).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|text| name.contains(text));
    if options.get_flag("list") {
        for name in rows::all().flat_map(|work| work.names).filter(|name| wanted(name)) {
            writeln!(std::io::stdout(), "{name}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if env!("BENCH_OPT_LEVEL") == "0" {
        return Err(Stop::failed(
            "this build is not optimised: use `cargo xtask bench`, or cargo's `--profile bench`",
        ));
    }
    let peers = match options.get_one::<String>("compare") {
        Some(path) => peers::read(&std::fs::read_to_string(path)?)?,
        None => Vec::new(),
    };
    let repeat = options.get_one::<u32>("repeat").map(|n| *n as usize);
    let bench = Bench::new(ordinal, repeat);
    let cuda = bench.gpu().ok().and_then(|gpu| gpu.driver.version().ok());
    let mut output = Output {
        file: options.get_one::<String>("out").map(File::create).transpose()?,
        common: machine::facts(cuda),
        ..Output::default()
    };
    for work in rows::all().filter(|work| work.names.iter().any(|name| wanted(name))) {
        output.add(work, (work.run)(&bench), &wanted, &peers)?;
    }
    output.summary()
}

/// The printed lines, and the lines to print at the end.
#[derive(Default)]
struct Output {
    file: Option<File>,
    common: Vec<(&'static str, Value)>,
    table: Vec<String>,
    measured: usize,
    missed: usize,
    not_run: usize,
    failed: usize,
}

impl Output {
    fn add(
        &mut self,
        work: &Work,
        result: Result<Vec<Row>, Stop>,
        wanted: &dyn Fn(&str) -> bool,
        peers: &[Peer],
    ) -> Result<(), Stop> {
        match result {
            Ok(rows) => {
                for row in rows.iter().filter(|row| wanted(&row.work)) {
                    self.measured += 1;
                    self.missed += usize::from(row.misses_target());
                    self.line(&row.line(&self.common))?;
                    self.table.push(row.summary());
                    self.table.extend(peers::compare(row, peers));
                }
            }
            Err(stop) => {
                for name in work.names.iter().filter(|name| wanted(name)) {
                    match stop {
                        Stop::NotRun(_) => self.not_run += 1,
                        Stop::Failed(_) => self.failed += 1,
                    }
                    self.line(&report::stopped(name, &stop, &self.common))?;
                    // The line has all of it.
                    let reason: String = stop.to_string().chars().take(100).collect();
                    self.table.push(format!("{name:36} {reason}"));
                }
            }
        }
        Ok(())
    }

    /// At once: a run that is cut short leaves what it has measured.
    fn line(&mut self, line: &str) -> Result<(), Stop> {
        writeln!(std::io::stdout(), "{line}")?;
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}")?;
        }
        Ok(())
    }

    fn summary(&self) -> Result<ExitCode, Stop> {
        std::io::stdout().flush()?;
        eprintln!();
        for line in &self.table {
            eprintln!("{line}");
        }
        let Self { measured, missed, not_run, failed, .. } = self;
        eprintln!(
            "{measured} rows measured ({missed} beyond their target), {not_run} not run, \
             {failed} failed"
        );
        Ok(if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn no_two_rows_have_one_name() {
        let mut names: Vec<_> = rows::all().flat_map(|work| work.names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    /// `rows.txt` lists rows.
    #[test]
    fn every_recorded_row_exists() {
        let names: Vec<&str> = rows::all().flat_map(|work| work.names).copied().collect();
        let recorded = include_str!("../rows.txt");
        for row in recorded.lines().filter(|line| !line.starts_with('#')) {
            assert!(names.contains(&row), "there is no row `{row}`");
        }
    }
}

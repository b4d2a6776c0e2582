//! `cuda-emu run -- PROGRAM`: runs a program of CUDA on the software device, and reports what ran.

mod child;
mod error;
mod libraries;
mod program;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cuda_emu::Profile;

use child::Ended;
use error::Error;
use libraries::Libraries;
use program::Program;
use report::Collected;

/// The exit status for a wrong command line, and for what is missing of this command itself, as `env` has it.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    let matches = match command_line().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // There is nothing to do if the message cannot be written.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(OWN_FAILURE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let ended = match matches.subcommand() {
        Some(("run", given)) => run(given),
        // clap refuses a command line without the above.
        _ => return ExitCode::from(OWN_FAILURE),
    };
    match ended {
        Ok(ended) => ended.pass_on(),
        Err(error) => {
            eprintln!("cuda-emu: {error}");
            ExitCode::from(error.status())
        }
    }
}

/// Runs the program to its end.
fn run(given: &ArgMatches) -> Result<Ended, Error> {
    let mut words = given.get_many::<OsString>("program").into_iter().flatten();
    let name = words.next().ok_or(Error::NoProgram)?;
    let program = Program::find(name)?;
    let libraries = Libraries::link()?;
    let mut command = program.command(name, words);
    libraries.set(&mut command)?;
    for (option, variable) in VARIABLES {
        let values: Vec<_> = given.get_many::<String>(option).into_iter().flatten().collect();
        if !values.is_empty() {
            let values: Vec<&str> = values.into_iter().map(String::as_str).collect();
            command.env(variable, values.join(","));
        }
    }
    if given.get_flag("taint") {
        command.env("CUDA_EMU_TAINT", "1");
    }
    // Before the program runs: a file that cannot be written must not cost a run.
    let report = match given.get_flag("quiet") {
        true => None,
        false => Some(Collected::begin(given.get_one::<PathBuf>("report").map(PathBuf::as_path))?),
    };
    if let Some(report) = &report {
        report.set(&mut command);
    }
    let ended = child::run(command, program.path())?;
    if let Some(report) = report {
        report.finish(ended);
    }
    Ok(ended)
}

/// The options that are variables of the device, all with texts as values.
const VARIABLES: [(&str, &str); 5] = [
    ("device", "CUDA_EMU_DEVICE"),
    ("devices", "CUDA_EMU_DEVICES"),
    ("seed", "CUDA_EMU_SEED"),
    ("check", "CUDA_EMU_CHECK"),
    ("ptx", "CUDA_EMU_PTX"),
];

fn command_line() -> Command {
    let names = Profile::ALL.map(Profile::name);
    let device = Arg::new("device")
        .long("device")
        .value_name("GPU")
        .value_parser(PossibleValuesParser::new(names))
        .ignore_case(true)
        .help("The GPU whose limits the device has [default: those of an H200]");
    let devices = Arg::new("devices")
        .long("devices")
        .value_name("N")
        .value_parser(number::<u32>("from 0 to 64", |count| *count <= 64))
        .help("The number of devices [default: 1]");
    let seed = Arg::new("seed")
        .long("seed")
        .value_name("N")
        .value_parser(number::<u64>("a number of 64 bits", |_| true))
        .help("Delay work, and run it in an order of streams and blocks that this number draws");
    let check = Arg::new("check")
        .long("check")
        .value_name("CHECKS")
        .value_delimiter(',')
        .action(ArgAction::Append)
        .value_parser(PossibleValuesParser::new(["race", "init", "leak"]))
        .help("Look for races, reads of memory that nothing has written, and leaks");
    let ptx = Arg::new("ptx")
        .long("ptx")
        .value_name("VERSION")
        .value_parser(version)
        .help("The newest version of PTX that the device takes [default: 9.0]");
    let report = Arg::new("report")
        .long("report")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Write the report as JSON, too; - is standard output");
    let taint = Arg::new("taint").long("taint").action(ArgAction::SetTrue).help(
        "Follow approximate values: where do they decide a branch, an address or an integer?",
    );
    let quiet = Arg::new("quiet")
        .long("quiet")
        .short('q')
        .action(ArgAction::SetTrue)
        .conflicts_with_all(["report", "taint"])
        .help("Make no report");
    let program = Arg::new("program")
        .value_name("PROGRAM")
        .required(true)
        .num_args(1..)
        .trailing_var_arg(true)
        .value_parser(value_parser!(OsString))
        .action(ArgAction::Append)
        .help("The program and its arguments");
    let run = Command::new("run")
        .about("Run a program on the software device")
        .after_help(STATUS)
        .args([device, devices, seed, check, ptx, report, taint, quiet, program]);
    Command::new("cuda-emu")
        .about("A CUDA device in software")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run)
}

/// The part of the help about the exit status.
const STATUS: &str = "\
Exit status: the program's, also if a signal ends it; 127 if there is no such program, 126 if it cannot run on the
device, 125 for other failures before the program runs. Variables CUDA_EMU_… that are set and have no option above
are passed on.";

/// Returns a parser of numbers that returns their text.
fn number<T: std::str::FromStr + 'static>(
    wanted: &'static str,
    fits: fn(&T) -> bool,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<T>() {
        Ok(number) if fits(&number) => Ok(text.to_owned()),
        _ => Err(format!("a number is expected, {wanted}")),
    }
}

/// Checks a version of PTX, such as `9.0`.
fn version(text: &str) -> Result<String, String> {
    let parts = text.split_once('.').map(|(major, minor)| (major.parse(), minor.parse()));
    match parts {
        Some((Ok::<u16, _>(_), Ok::<u16, _>(_))) => Ok(text.to_owned()),
        _ => Err("a version such as 9.0 is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::command_line;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn options_of_the_program_are_its_own() {
        let words = ["cuda-emu", "run", "--seed", "3", "prog", "--device", "x", "--", "-h"];
        let matches = command_line().try_get_matches_from(words);
        let run = matches.as_ref().ok().and_then(|matches| matches.subcommand_matches("run"));
        let given = run.and_then(|run| run.get_many::<std::ffi::OsString>("program"));
        let given: Vec<_> = given.into_iter().flatten().collect();
        assert_eq!(given, ["prog", "--device", "x", "--", "-h"]);
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in [
            ["--device", "h1000"],
            ["--devices", "65"],
            ["--devices", "-1"],
            ["--seed", "x"],
            ["--seed", "18446744073709551616"],
            ["--check", "race,"],
            ["--check", "leaks"],
            ["--ptx", "9"],
            ["--ptx", "9.x"],
        ] {
            let words = ["cuda-emu", "run", wrong[0], wrong[1], "--", "prog"];
            assert!(command_line().try_get_matches_from(words).is_err(), "{wrong:?}");
        }
        assert!(command_line().try_get_matches_from(["cuda-emu", "run"]).is_err());
    }
}

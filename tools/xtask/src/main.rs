//! `cargo xtask <command>`: everything one does with this workspace beside `cargo build`.

mod api;
mod attributes;
mod bundle;
mod checks;
mod ci;
mod demo;
mod env;
mod failures;
mod fuzz;
mod generated;
mod headers;
mod layouts;
mod machine;
mod mutants;
mod phase;
mod process;
mod setup;
mod tally;
mod test;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use test_support::sample::Effort;
use xtask::Error;

fn main() -> ExitCode {
    match run(&command_line().get_matches()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that was asked for. `Ok(false)`: it ran, said what failed, and failed.
fn run(matches: &ArgMatches) -> Result<bool, Error> {
    match matches.subcommand() {
        Some(("setup", given)) => {
            let driver = given.get_one::<String>("driver").map(String::as_str);
            setup::setup(setup::Major::choose(driver))?;
            Ok(true)
        }
        Some(("bindgen", given)) => generator("xtask-bindgen", given),
        Some(("ptx", given)) => match given.get_one::<String>("print") {
            Some(module) => print_ptx(module),
            None => generator("xtask-ptx", given),
        },
        Some(("attributes", given)) => attributes::attributes(given.get_flag("check")),
        Some(("layouts", given)) => layouts::layouts(given.get_flag("check")),
        Some(("headers", given)) => headers::headers(given.get_flag("check")),
        Some(("api", given)) => api::api(given.get_flag("check")),
        Some(("demo", given)) => demo::demo(given.get_flag("software")),
        Some(("env", _)) => env::env(),
        Some(("test", given)) => {
            let effort = if given.get_flag("deep") { Effort::Deep } else { Effort::Quick };
            let seed = given.get_one::<String>("seed").cloned();
            let request = test::Request { effort, seed, filters: strings(given, "filter") };
            let tally = test::test(&request)?;
            println!("{tally}");
            Ok(tally.failed == 0)
        }
        Some(("mutants", given)) => mutants::mutants(&mutants::Request {
            names: strings(given, "name"),
            package: given.get_one::<String>("package").cloned(),
            quick: given.get_flag("quick"),
        }),
        Some(("ci", _)) => ci::ci(),
        Some(("checks", _)) => Ok(ci::checks()),
        Some(("bench", given)) => {
            let mut bench = process::cargo();
            bench.args(["run", "--profile", "bench", "--package", "bench", "--"]);
            bench.args(strings(given, "args"));
            setup::name_nvrtc(&mut bench)?;
            process::succeeds(&mut bench)
        }
        Some(("wheel", _)) => make_wheel(),
        Some(("gpu-bundle", _)) => {
            bundle::bundle()?;
            Ok(true)
        }
        Some(("fuzz", given)) => {
            let number = |name| given.get_one::<u32>(name).copied().unwrap_or(1);
            fuzz::fuzz(&fuzz::Request {
                minutes: number("minutes"),
                jobs: number("jobs"),
                targets: strings(given, "target"),
                keep: given.get_flag("keep"),
                bundle: given.get_one::<String>("bundle").map(Into::into),
            })
        }
        // clap refuses a command line without one of the above.
        _ => Ok(false),
    }
}

/// Builds the software device and its command, and packs them as a wheel in `target/wheel`.
fn make_wheel() -> Result<bool, Error> {
    let mut build = process::cargo();
    // A profile of its own: without debug information.
    build.args(["build", "--profile", "wheel"]);
    let packages = ["cuda-emu", "cuda-emu-cli", "cudart-12", "cudart-13"];
    build.args(packages.map(|package| ["--package", package]).as_flattened());
    if !process::succeeds(&mut build)? {
        return Ok(false);
    }
    let folder = process::target().join("wheel");
    let libraries = ["libcuda_emu.so", "libcudart_12.so", "libcudart_13.so"];
    let wheel = xtask::wheel::Contents {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: folder.join("cuda-emu"),
        libraries: libraries.iter().map(|name| folder.join(name)).collect(),
    };
    let path = wheel.pack(&folder)?;
    println!("{}: {} bytes", path.display(), std::fs::metadata(&path)?.len());
    Ok(true)
}

/// Runs a package that writes generated files.
fn generator(package: &str, given: &ArgMatches) -> Result<bool, Error> {
    let mut generator = process::cargo();
    generator.arg("run").args(test::OF_TOOLS).args(["--quiet", "--package", package, "--"]);
    if given.get_flag("check") {
        generator.arg("--check");
    }
    process::succeeds(&mut generator)
}

/// Prints a module's PTX.
fn print_ptx(module: &str) -> Result<bool, Error> {
    let mut print = process::cargo();
    print.arg("run").args(test::OF_TOOLS);
    print.args(["--quiet", "--package", "xtask-ptx", "--", "--print", module]);
    process::succeeds(&mut print)
}

fn command_line() -> Command {
    let driver = Arg::new("driver")
        .long("driver")
        .value_name("MAJOR")
        .value_parser(PossibleValuesParser::new(["12", "13"]))
        .help("CUDA version of the driver that will load what is compiled [default: this machine's, else 13]");
    let check = Arg::new("check")
        .long("check")
        .action(ArgAction::SetTrue)
        .help("Only compare with what is checked in");
    let print = Arg::new("print")
        .long("print")
        .value_name("MODULE")
        .conflicts_with("check")
        .help("Print the PTX of a module as it is checked in");
    let deep = Arg::new("deep")
        .long("deep")
        .action(ArgAction::SetTrue)
        .help("More random cases, larger sizes: minutes instead of seconds");
    let seed = Arg::new("seed")
        .long("seed")
        .value_name("TEXT")
        .help("What the samples are drawn from [default: the commit's hash]");
    let filter =
        Arg::new("filter").num_args(0..).help("Run only tests whose name contains one of these");
    let args = Arg::new("args")
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .help("Passed on to the benchmark binary");
    let number = |name: &'static str, help: &'static str| {
        let number = Arg::new(name).long(name).value_name("N").default_value("1").help(help);
        number.value_parser(clap::value_parser!(u32).range(1..))
    };
    Command::new("cargo xtask")
        .about("The project's commands")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("setup")
                .about("Download NVRTC and the CUDA headers into target/cuda")
                .arg(driver),
        )
        .subcommand(
            Command::new("bindgen")
                .about("Generate cuda-sys's bindings from NVIDIA's headers")
                .arg(check.clone()),
        )
        .subcommand(
            Command::new("ptx")
                .about("Compile the kernels of geom-kernels and tape to packed PTX")
                .arg(check.clone())
                .arg(print),
        )
        .subcommand(
            Command::new("attributes")
                .about("Generate the methods for a device's attributes")
                .arg(check.clone()),
        )
        .subcommand(
            Command::new("layouts")
                .about("Generate the layouts of the types that host and device both declare")
                .arg(check.clone()),
        )
        .subcommand(
            Command::new("headers")
                .about("Generate the list of geom-kernels's device headers")
                .arg(check.clone()),
        )
        .subcommand(
            Command::new("api").about("List the public items of four crates in docs/api").arg(check),
        )
        .subcommand(Command::new("env").about(
            "Print the variables that run any program on the software device: eval \"$(cargo xtask env)\"",
        ))
        .subcommand(
            Command::new("wheel")
                .about("Pack the software device and the command cuda-emu as a wheel in target/wheel"),
        )
        .subcommand(
            Command::new("demo")
                .about("Run the examples on a GPU, or else those that run on the CPU")
                .arg(
                    Arg::new("software")
                        .long("software")
                        .action(ArgAction::SetTrue)
                        .help("Run all examples on the software device"),
                ),
        )
        .subcommand(
            Command::new("test")
                .about("Run all tests that can run on this machine")
                .arg(deep)
                .arg(seed)
                .arg(filter),
        )
        .subcommand(
            Command::new("mutants")
                .about("Take guarantees away, and check that the tests notice")
                .arg(
                    Arg::new("name")
                        .num_args(0..)
                        .help("Only mutants whose names begin so [default: all]"),
                )
                .arg(Arg::new("package").long("package").help(
                    "Only mutants for the tests of this package: `attacks`, `attacks-refused`, `cuda-safe`, `geom-kernels`, `ptx-ad`, `nccl-emu`, `phases-tests`, `gpu-phases`",
                ))
                .arg(
                    Arg::new("quick")
                        .long("quick")
                        .action(ArgAction::SetTrue)
                        .help("Run only the tests that a mutant names"),
                ),
        )
        .subcommand(Command::new("ci").about("All checks, then all tests"))
        .subcommand(Command::new("checks").about("All checks alone"))
        .subcommand(
            Command::new("bench")
                .about("Run the benchmarks; JSON lines on standard output")
                .arg(args),
        )
        .subcommand(
            Command::new("gpu-bundle")
                .about("Pack tests, examples and benchmarks for a GPU machine without Rust"),
        )
        .subcommand(
            Command::new("fuzz")
                .about("Build and run the fuzzers; needs a C++ compiler")
                .arg(Arg::new("target").num_args(0..).help("Run only these [default: all]"))
                .arg(number("minutes", "How long, all targets together"))
                .arg(number("jobs", "Processes at a time"))
                .arg(
                    Arg::new("keep").long("keep").action(ArgAction::SetTrue).help(
                        "Then put the inputs that add most to what is reached into fuzz/corpus",
                    ),
                )
                .arg(Arg::new("bundle").long("bundle").value_name("FOLDER").help(
                    "Run nothing: put programs, inputs and run.sh there, for another machine",
                )),
        )
}

fn strings(given: &ArgMatches, name: &str) -> Vec<String> {
    given.get_many::<String>(name).unwrap_or_default().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<ArgMatches, clap::Error> {
        let start = ["cargo xtask"];
        command_line().try_get_matches_from(start.iter().chain(line))
    }

    #[test]
    fn the_definition_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn test_takes_a_flag_and_filters() -> Result<(), Error> {
        let matches = parse(&["test", "--deep", "launch", "drop"])?;
        let Some(("test", given)) = matches.subcommand() else {
            return Err("the command is not `test`".into());
        };
        assert!(given.get_flag("deep"));
        assert_eq!(strings(given, "filter"), ["launch", "drop"]);
        Ok(())
    }

    #[test]
    fn bench_passes_options_on() -> Result<(), Error> {
        let matches = parse(&["bench", "launch", "--pairs", "30"])?;
        let Some(("bench", given)) = matches.subcommand() else {
            return Err("the command is not `bench`".into());
        };
        assert_eq!(strings(given, "args"), ["launch", "--pairs", "30"]);
        Ok(())
    }

    #[test]
    fn ptx_checks_or_prints() -> Result<(), Error> {
        let matches = parse(&["ptx", "--print", "scan"])?;
        let module = matches.subcommand().and_then(|(_, given)| given.get_one::<String>("print"));
        assert_eq!(module.map(String::as_str), Some("scan"));
        assert!(parse(&["ptx", "--print"]).is_err());
        assert!(parse(&["ptx", "--check", "--print", "scan"]).is_err());
        Ok(())
    }

    #[test]
    fn generated_files_are_written_unless_only_checked() -> Result<(), Error> {
        for name in ["bindgen", "ptx", "attributes", "layouts", "headers", "api"] {
            for (line, checks) in [(vec![name], false), (vec![name, "--check"], true)] {
                let matches = parse(&line)?;
                let Some((parsed, given)) = matches.subcommand() else {
                    return Err("there is no command".into());
                };
                assert_eq!((parsed, given.get_flag("check")), (name, checks));
            }
        }
        Ok(())
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(parse(&["setup", "--driver", "11"]).is_err());
        assert!(parse(&["tset"]).is_err());
        assert!(parse(&["fuzz", "--jobs", "0"]).is_err());
        assert!(parse(&[]).is_err());
    }
}

//! Exactness: what checked-in PTX computes, bit for bit, on every device.
//!
//! `cuda-emu/tests/suite/golden` holds the kernels, by group of instructions, and `cuda-emu/tests/suite/golden/ptx.txt.gz`
//! what two compilers made of them: optimised and not (`-G`),
//! without debug information. `cuda-emu/tests/suite/golden/h200.json` holds hashes of what they
//! computed on the GPU that it names. Three things are done here with them:
//! - `suite --golden-ptx cuda-emu/tests/suite/golden/ptx.txt.gz` compiles the kernels again. A group that is
//!   new needs a line in `groups!`.
//! - `suite --record-goldens cuda-emu/tests/suite/golden/h200.json`, on a GPU, records what they compute.
//! - The cases run the PTX on each tier of devices and compare.
//!
//! `GOLDEN_VERBOSE=1` shows inputs and outputs where a hash differs. `GOLDEN_WORDS=<folder>` writes
//! all outputs there, so that those of two devices can be compared.

mod compile;
mod inputs;
mod record;
mod run;

use std::process::ExitCode;
use std::sync::OnceLock;

pub(crate) use inputs::word as input_word;
pub(crate) use record::about;
use sha2::{Digest, Sha256};
use test_support::gzip;

use test_harness::{Case, Failure};

/// Kernels of one group of instructions.
struct Group {
    name: &'static str,
    source: &'static str,
    variants: &'static [Variant],
}

/// What a compiler made of a group.
struct Variant {
    group: &'static str,
    /// `opt` or `debug`, a dot, and the virtual architecture.
    name: &'static str,
}

/// What all the kernels include.
const PRELUDE: &str = include_str!("../../golden/prelude.cuh");

/// The PTX of all variants, each after a line of [`HEAD`] and its name.
const PACKED: &[u8] = include_bytes!("../../golden/ptx.txt.gz");
const HEAD: &str = "//// ";

/// The recording.
const GOLDENS: &str = include_str!("../../golden/h200.json");

/// Declares the groups, each in the file of its name, with their variants, and their cases.
macro_rules! groups {
    ($($group:ident: $($variant:literal)+;)+) => {
        const GROUPS: &[Group] = &[$(Group {
            name: stringify!($group),
            source: include_str!(concat!("../../golden/", stringify!($group), ".cu")),
            variants: &[$(Variant { group: stringify!($group), name: $variant }),+],
        }),+];

        fn of_groups() -> Vec<Case> {
            vec![$(Case::device(concat!("golden::", stringify!($group)), |device| {
                run::check(device, group(stringify!($group))?)
            })),+]
        }
    };
}

// Without optimisation the text is several times as long: one architecture for each group.
groups! {
    integer: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    bits: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    video: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    float32: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    float64: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    library: "opt.compute_75" "opt.compute_90";
    compare: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    convert: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    half: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    bfloat: "opt.compute_90" "debug.compute_90";
    warp: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    block: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    atomics: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    memory: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    control: "opt.compute_75" "opt.compute_90" "debug.compute_75";
    special: "opt.compute_75" "opt.compute_90" "debug.compute_90";
    matrix: "opt.compute_75" "opt.compute_90" "debug.compute_90";
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = of_groups();
    cases.push(Case::host("golden::differences_are_found", run::differences_are_found));
    cases.push(Case::host("golden::enough_kernels", record::enough_kernels));
    cases.push(Case::host("golden::no_path_of_a_machine", compile::no_path_of_a_machine));
    cases.push(Case::host("golden::software_is_not_recorded", record::software_is_not_recorded));
    cases.push(Case::compile("golden::ptx_is_of_its_source", compile::ptx_is_of_its_source));
    cases
}

/// Does what the command line asks for, if it is something of this module.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next()?.as_str() {
        compile::CHILD => compile::child(arguments),
        "--golden-ptx" => compile::all(arguments),
        record::COMMAND => return Some(record::main(arguments)),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    })
}

fn sha256(ptx: &str) -> String {
    Sha256::digest(ptx).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names of a text's kernels.
fn kernels(ptx: &str) -> Result<Vec<String>, Failure> {
    Ok(ptx::entries(ptx)?.into_iter().map(|signature| signature.name).collect())
}

fn group(name: &str) -> Result<&'static Group, Failure> {
    let found = GROUPS.iter().find(|group| group.name == name);
    found.ok_or_else(|| Failure::new(format!("there is no group {name}")))
}

impl Group {
    /// The name of a variant's text.
    fn file(&self, variant: &str) -> String {
        format!("{}.{variant}.ptx", self.name)
    }
}

impl Variant {
    fn ptx(&self) -> Result<&'static str, Failure> {
        static TEXTS: OnceLock<Result<String, String>> = OnceLock::new();
        let texts = TEXTS.get_or_init(|| gzip::unpack(PACKED).map_err(|error| error.to_string()));
        let texts = texts.as_deref().map_err(|error| Failure::new(error.clone()))?;
        let head = format!("{HEAD}{}.{}.ptx\n", self.group, self.name);
        let (_, text) =
            texts.split_once(&head).ok_or_else(|| Failure::new(format!("no text {head}")))?;
        Ok(text.split(HEAD).next().unwrap_or(text))
    }
}

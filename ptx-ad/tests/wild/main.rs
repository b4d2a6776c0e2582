//! `differentiate` over the kernels of this repository: each is differentiated and right, or refused, and which is which
//! is recorded.

#[allow(dead_code, reason = "it serves other tests, too")]
#[path = "../adjoint/args.rs"]
mod args;
#[allow(dead_code, unused_imports, reason = "it serves other tests, too")]
#[path = "../adjoint/common.rs"]
mod common;
#[allow(dead_code, reason = "it serves other tests, too")]
#[path = "../adjoint/half.rs"]
mod half;
mod inputs;
mod signature;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ptx::ir::{Function, FunctionKind};
use ptx_ad::{Adjoint, NotDifferentiable, Reason, Refusal, differentiate};

use common::Device;
use inputs::Checked;

/// How long the generator may take for a kernel.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a kernel.
enum Outcome {
    Differentiated(Checked),
    Refused(NotDifferentiable),
    /// The generator panicked, did not end, or made something that does not load.
    Broken(String),
}

struct Kernel {
    file: String,
    name: String,
    outcome: Outcome,
    /// Parameters that are passive because nothing differentiable leads from or to them.
    passive: Vec<usize>,
    /// How long the generator took.
    time: Duration,
}

impl Kernel {
    /// One word for the table.
    fn class(&self) -> String {
        match &self.outcome {
            Outcome::Differentiated(Checked::Right { races: None, .. }) => "right".to_owned(),
            Outcome::Differentiated(Checked::Right { races: Some(_), .. }) => {
                "right alone".to_owned()
            }
            Outcome::Differentiated(Checked::NotRun(_)) => "differentiated".to_owned(),
            Outcome::Differentiated(Checked::Wrong(_)) => "WRONG".to_owned(),
            Outcome::Refused(refused) => {
                refused.refusals.first().map_or_else(|| "refused".to_owned(), reason)
            }
            Outcome::Broken(_) => "BROKEN".to_owned(),
        }
    }

    fn detail(&self) -> String {
        let passive: Vec<String> =
            self.passive.iter().map(|at| format!("p{at} passive, ")).collect();
        let text = match &self.outcome {
            Outcome::Differentiated(Checked::Right { error, magnitude, races }) => {
                format!("{error:.1e} of {magnitude:.1e} {}", races.as_deref().unwrap_or_default())
            }
            Outcome::Differentiated(Checked::NotRun(why)) => why.clone(),
            Outcome::Differentiated(Checked::Wrong(why)) | Outcome::Broken(why) => why.clone(),
            Outcome::Refused(refused) => {
                let first = refused.refusals.first().map(ToString::to_string).unwrap_or_default();
                let reasons: BTreeSet<String> = refused.refusals.iter().map(reason).collect();
                let others: Vec<String> = reasons.into_iter().collect();
                format!("{first} [{}]", others.join(", "))
            }
        };
        sources::without_folder(&(passive.concat() + &text))
    }
}

fn reason(refusal: &Refusal) -> String {
    let text = format!("{:?}", refusal.reason);
    text.split('(').next().unwrap_or_default().to_owned()
}

/// Differentiates in a thread, which may panic or never end.
fn generate(
    module: &ptx::ir::Module,
    spec: &ptx_ad::Spec,
) -> Result<Result<Adjoint, NotDifferentiable>, String> {
    let (module, spec) = (module.clone(), spec.clone());
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let made = catch_unwind(AssertUnwindSafe(|| differentiate(&module, &spec)));
        let _ = send.send(made);
    });
    match receive.recv_timeout(PATIENCE) {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("it panics: {}", text.unwrap_or_default()))
        }
        Err(_) => Err(format!("it takes more than {PATIENCE:?}")),
    }
}

fn one(
    device: &Device,
    file: &str,
    text: &str,
    module: &ptx::ir::Module,
    function: &Function,
) -> Option<Kernel> {
    let mut guesses = signature::guess(function);
    let written = |guess: &signature::Guess| guess.pointers.values().any(|memory| memory.written);
    if !guesses.iter().any(written) {
        return None;
    }
    let mut passive: Vec<usize> = Vec::new();
    let (made, time) = loop {
        let spec = signature::spec(&function.name, &guesses);
        let start = Instant::now();
        let made = generate(module, &spec);
        let time = start.elapsed();
        // What a user does who is told that a parameter has no gradient.
        let Ok(Err(refused)) = &made else { break (made, time) };
        let found: Vec<usize> = (0..guesses.len())
            .filter(|at| {
                let name = format!("`p{at}`");
                let is_named =
                    |r: &Refusal| r.reason == Reason::NoPath && r.message.contains(&name);
                refused.refusals.iter().any(is_named) && !passive.contains(at)
            })
            .collect();
        let all_are = refused.refusals.iter().all(|refusal| refusal.reason == Reason::NoPath);
        if found.is_empty() || !all_are {
            break (made, time);
        }
        for at in found {
            guesses[at].passive = true;
            passive.push(at);
        }
        if !guesses.iter().any(|guess| !guess.passive && written(guess)) {
            break (made, time);
        }
    };
    passive.sort_unstable();
    let outcome = match made {
        Err(why) => Outcome::Broken(why),
        Ok(Err(refused)) if refused.refusals.is_empty() => {
            Outcome::Broken("it is refused without a reason".to_owned())
        }
        Ok(Err(refused)) => Outcome::Refused(refused),
        Ok(Ok(adjoint)) => {
            let checked = inputs::check(device, text, function, &guesses, &adjoint);
            Outcome::Differentiated(checked)
        }
    };
    Some(Kernel { file: file.to_owned(), name: function.name.clone(), outcome, passive, time })
}

/// The kernels of a file that write numbers; or why it is no module.
fn kernels_of(device: &Device, path: &str) -> Result<Vec<Kernel>, String> {
    let text = sources::read(path)?;
    let module = ptx_ad::parse(&text).map_err(|error| error.to_string())?;
    let entries = module.functions.iter().filter(|f| f.kind == FunctionKind::Entry);
    let defined = entries.filter(|f| f.body.is_some());
    Ok(defined.filter_map(|function| one(device, path, &text, &module, function)).collect())
}

/// All kernels of some files, in order, and the files that are no modules.
fn survey(paths: &[String]) -> (Vec<Kernel>, Vec<(String, String)>) {
    let next = AtomicUsize::new(0);
    let work = || {
        let device = Device::new();
        let take = || paths.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(take).map(|path| (path, kernels_of(&device, path))).collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    all.sort_by_key(|(path, _)| *path);
    let (mut kernels, mut unread) = (Vec::new(), Vec::new());
    for (path, found) in all {
        match found {
            Ok(found) => kernels.extend(found),
            Err(why) => unread.push((path.clone(), why)),
        }
    }
    (kernels, unread)
}

/// The kernels with what became of them, and how many there are of each.
fn table(kernels: &[Kernel], unread: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for kernel in kernels {
        *counts.entry(kernel.class()).or_default() += 1;
        let (class, detail) = (kernel.class(), kernel.detail());
        let _ = writeln!(text, "{} {} | {class} | {detail}", kernel.file, kernel.name);
    }
    for (file, why) in unread {
        let _ = writeln!(text, "{file} | no module | {why}");
    }
    if let Some(slowest) = kernels.iter().max_by_key(|kernel| kernel.time) {
        let Kernel { file, name, time, .. } = slowest;
        let _ = writeln!(text, "the longest took {time:?}: {file} {name}");
    }
    let _ = writeln!(text, "{} kernels: {counts:?}", kernels.len());
    text
}

/// What is recorded: a line for each kernel, `path name: class`, after the compiler's version.
fn recorded() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("outcomes.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(": ")).collect()
}

/// Whether a kernel that is recorded as `was` may be `now`: what was differentiated stays so, and what was compared stays
/// right.
fn is_as_good(was: &str, now: &str) -> bool {
    let rank = |class: &str| match class {
        "right" => 3,
        "right alone" => 2,
        "differentiated" => 1,
        _ => 0,
    };
    rank(now) >= rank(was)
}

/// Each kernel of this repository that writes numbers, with all of them active: none is wrong, and none that was
/// differentiated before is refused. `PTX_AD_WILD=print` prints the table with reasons and lines; `=write` records the
/// outcomes; `PTX_AD_WILD_ONLY=text` takes files with that text in their paths.
#[test]
fn kernels_of_this_repository() {
    let mode = std::env::var("PTX_AD_WILD").unwrap_or_default();
    let only = std::env::var("PTX_AD_WILD_ONLY").unwrap_or_default();
    let version = sources::compiler();
    if let Err(why) = &version {
        eprintln!("CUDA C++ not run: {why}");
    }
    let mut paths = sources::paths();
    paths.retain(|path| path.contains(&only) && (version.is_ok() || !path.ends_with(".cu")));
    let (kernels, unread) = survey(&paths);
    let table = table(&kernels, &unread);
    if mode == "print" {
        println!("{table}");
    }
    let bad: Vec<&str> = table
        .lines()
        .filter(|line| line.contains("| WRONG |") || line.contains("| BROKEN |"))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));

    let version = version.unwrap_or_default();
    let found: BTreeMap<String, String> = kernels
        .iter()
        .map(|kernel| (format!("{} {}", kernel.file, kernel.name), kernel.class()))
        .collect();
    if mode == "write" {
        assert!(only.is_empty() && !version.is_empty(), "a part would be recorded");
        sources::record(&version, &found);
        return;
    }
    let same_compiler =
        include_str!("outcomes.txt").lines().next() == Some(&sources::head(&version));
    let mut worse = Vec::new();
    for (kernel, was) in recorded() {
        let file = kernel.split(' ').next().unwrap_or_default();
        // What is compiled now may be other code than what was recorded.
        if (file.ends_with(".cu") && !same_compiler) || !file.contains(&only) {
            continue;
        }
        match found.get(kernel) {
            Some(now) if is_as_good(was, now) => {}
            Some(now) => worse.push(format!("{kernel} was {was} and is {now}")),
            None if is_as_good(was, "refused") => {}
            None => worse.push(format!("{kernel} was {was} and is gone")),
        }
    }
    // Threads that store to one element race. Who finds another reason for the difference has found a mistake.
    let recorded = recorded();
    for (kernel, now) in &found {
        if now == "right alone" && recorded.get(kernel.as_str()) != Some(&"right alone") {
            worse.push(format!("{kernel} is right with one thread only, which is not recorded"));
        }
    }
    assert!(
        worse.is_empty(),
        "{}\nif that is meant, PTX_AD_WILD=write records it",
        worse.join("\n")
    );
}

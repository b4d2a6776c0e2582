//! Which tests run under which tool, and in which shards.

use test_harness::{Case, Failure, Run, Suite, TestResult, ensure, ensure_eq};

/// Tests of one process, at most: what is found in a shard is looked for again test by test.
const SHARD: usize = 8;

/// The modules whose tests run under all tools.
const UNDER_ALL_TOOLS: [&str; 8] =
    ["order", "sharing", "streams", "events", "marks", "graphs", "soundness", "tape"];

/// Tests that a tool can't judge, with the reason.
pub(super) const NOT_JUDGED: [(Tool, &str, &str); 4] = [
    (
        Tool::Race,
        "golden::block",
        "racecheck does not follow `bar.arrive`, which one of these kernels is about",
    ),
    (
        Tool::Memory,
        "fault::memory::the_pool_gives_way",
        "it takes all memory of the device, which the tool and other shards need too",
    ),
    (
        Tool::Memory,
        "fault::devices::all_hidden",
        "the tool shows its process the devices that a variable hides",
    ),
    (
        Tool::Memory,
        "trusted::builds_in_bodies_that_are_left_out",
        "instrumented, kernels of its conditional body fail in about half of all runs (bench/NOTES.md)",
    ),
];

/// Tests in which something is wrong on purpose, so that the tool reports it.
const ON_PURPOSE: [(Tool, &str, &str); 9] = [
    (Tool::Memory, "fault::kernels::trap", "the kernel traps"),
    (Tool::Memory, "fault::groups::a_grid_that_cannot_meet", "the kernel traps"),
    (Tool::Memory, "fault::kernels::out_of_bounds", "the kernel writes out of bounds"),
    (Tool::Memory, "fault::kernels::misaligned", "the kernel writes to a misaligned address"),
    (Tool::Memory, "fault::kernels::assertion", "an assertion of the kernel fails"),
    (Tool::Memory, "fault::kernels::seen_by_another_stream", "the kernel traps"),
    (Tool::Memory, "fault::kernels::in_flight_when_it_happens", "the kernel traps"),
    (Tool::Memory, "fault::futures::a_fault_before_the_copy", "the kernel traps"),
    (Tool::Memory, "fault::futures::a_fault_elsewhere", "the kernel traps"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// With the leak check.
    Memory,
    Race,
    Init,
    Sync,
}

impl Tool {
    pub(super) const ALL: [Self; 4] = [Self::Memory, Self::Race, Self::Sync, Self::Init];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memcheck",
            Self::Race => "racecheck",
            Self::Init => "initcheck",
            Self::Sync => "synccheck",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        let found = Self::ALL.into_iter().find(|tool| tool.name() == name);
        found.ok_or_else(|| Failure::new(format!("{name} is no tool of compute-sanitizer")))
    }
}

/// Tests that run in one process under one tool.
#[derive(Debug, Clone)]
pub(super) struct Shard {
    pub(super) tool: Tool,
    /// Names without the tier.
    pub(super) tests: Vec<&'static str>,
    /// Whether the test has a process of its own, in which calls may fail on purpose.
    pub(super) fault: bool,
    /// Variables of that process.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

impl Shard {
    /// Each of its tests as a shard.
    pub(super) fn singles(&self) -> impl Iterator<Item = Self> {
        self.tests.iter().map(|test| Self { tests: vec![*test], ..*self })
    }
}

/// All shards, tool by tool.
pub(super) fn plan(suite: &Suite, tools: &[Tool]) -> Vec<Shard> {
    let mut shards = Vec::new();
    for &tool in tools {
        let mut open: Option<Shard> = None;
        for case in suite.cases.iter().filter(|case| wants(suite, tool, case)) {
            if case.is_fault() {
                // Each needs a process of its own.
                let variables = case.variables;
                shards.push(Shard { tool, tests: vec![case.name], fault: true, variables });
                continue;
            }
            match &mut open {
                Some(shard) if fits(shard, case.name) => shard.tests.push(case.name),
                _ => {
                    shards.extend(open.take());
                    let tests = vec![case.name];
                    open = Some(Shard { tool, tests, fault: false, variables: &[] });
                }
            }
        }
        shards.extend(open);
    }
    shards
}

/// Whether the shard has room for the test and is of the same module, whose kernels are then loaded once.
fn fits(shard: &Shard, name: &str) -> bool {
    shard.tests.len() < SHARD
        && shard.tests.first().is_some_and(|first| module(first) == module(name))
}

fn module(name: &str) -> &str {
    name.split("::").next().unwrap_or(name)
}

fn wants(suite: &Suite, tool: Tool, case: &Case) -> bool {
    // Not the generated programs: they are about instructions, and there are a thousand of them to patch.
    if module(case.name) == "generated" {
        return false;
    }
    if NOT_JUDGED.iter().any(|(of, name, _)| *of == tool && case.name.starts_with(name)) {
        return false;
    }
    match case.run {
        Run::Device(_) => {
            tool == Tool::Memory
                || UNDER_ALL_TOOLS.contains(&module(case.name))
                || suite.checked.contains(&case.name)
        }
        Run::Fault(_) | Run::Process(_) => tool == Tool::Memory,
        _ => false,
    }
}

/// Why a finding of this tool in this test is right.
pub(super) fn on_purpose(tool: Tool, test: &str) -> Option<String> {
    let found = ON_PURPOSE.iter().find(|(of, name, _)| *of == tool && *name == test);
    found.map(|(_, _, why)| format!(" (on purpose: {why})"))
}

/// Memcheck covers each device test and each fault but those of `NOT_JUDGED`; the other tools cover the tests of all kernels and of order,
/// graphs and tapes.
pub(super) fn covers_what_it_promises() -> TestResult {
    let suite = crate::suite();
    let shards = plan(&suite, &Tool::ALL);
    let of = |tool: Tool| -> Vec<&str> {
        shards
            .iter()
            .filter(|shard| shard.tool == tool)
            .flat_map(|shard| shard.tests.clone())
            .collect()
    };
    let memory = of(Tool::Memory);
    for case in &suite.cases {
        let runs = matches!(case.run, Run::Device(_) | Run::Fault(_) | Run::Process(_));
        let planned = memory.iter().filter(|name| **name == case.name).count();
        let not_judged = |(tool, name, _): &(Tool, &str, &str)| {
            *tool == Tool::Memory && case.name.starts_with(name)
        };
        let left_out = module(case.name) == "generated" || NOT_JUDGED.iter().any(not_judged);
        let wanted = usize::from(runs && !left_out);
        ensure_eq!(planned, wanted, "{}", case.name);
    }
    let init = of(Tool::Init);
    for name in &suite.checked {
        ensure!(init.contains(name), "{name}");
    }
    for module_name in UNDER_ALL_TOOLS {
        ensure!(init.iter().any(|name| module(name) == module_name), "no test of {module_name}");
    }
    let race = of(Tool::Race);
    let not_judged = |name: &str| {
        NOT_JUDGED.iter().any(|(tool, not, _)| *tool == Tool::Race && name.starts_with(not))
    };
    let missed: Vec<_> =
        init.iter().filter(|name| !race.contains(name) && !not_judged(name)).collect();
    ensure!(missed.is_empty(), "{missed:?}");
    ensure!(shards.iter().all(|shard| shard.tests.len() <= SHARD));
    Ok(())
}

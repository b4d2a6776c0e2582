//! The command line: what `libtest` takes, several filters, and some options of our own.

use libtest_mimic::Arguments;

/// Options of libtest that take a value.
const WITH_VALUE: [&str; 6] =
    ["--test-threads", "--skip", "--format", "--color", "--logfile", "-Z"];

/// Which of the tests with a process of their own are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Faults {
    #[default]
    Also,
    Only,
    Skip,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// For libtest-mimic; without filters.
    pub arguments: Arguments,
    /// If not empty: only tests whose name contains one of these (with `--exact`: is one).
    pub filters: Vec<String>,
    /// Only this tier.
    pub tier: Option<String>,
    pub faults: Faults,
    pub list_faults: bool,
    /// In a process of its own: the case to run.
    pub child: Option<String>,
}

impl Command {
    pub(crate) fn parse(given: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut given = given.into_iter();
        let mut for_libtest = vec!["suite".to_owned()];
        let mut command = Self {
            arguments: Arguments::default(),
            filters: Vec::new(),
            tier: None,
            faults: Faults::Also,
            list_faults: false,
            child: None,
        };
        while let Some(argument) = given.next() {
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            let mut value = || {
                attached
                    .clone()
                    .or_else(|| given.next())
                    .ok_or_else(|| format!("{name} needs a value"))
            };
            match name {
                "--tier" => command.tier = Some(value()?),
                "--child" => command.child = Some(value()?),
                "--faults" => {
                    command.faults = match value()?.as_str() {
                        "only" => Faults::Only,
                        "skip" => Faults::Skip,
                        "also" => Faults::Also,
                        other => return Err(format!("--faults takes only, skip or also: {other}")),
                    };
                }
                "--list-faults" => command.list_faults = true,
                name if WITH_VALUE.contains(&name) => {
                    let value = value()?;
                    for_libtest.extend([name.to_owned(), value]);
                }
                name if name.starts_with('-') => for_libtest.push(argument),
                _ => command.filters.push(argument),
            }
        }
        command.arguments = Arguments::from_iter(for_libtest);
        Ok(command)
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.arguments.exact { name == filter } else { name.contains(filter.as_str()) }
        };
        self.filters.is_empty() || self.filters.iter().any(fits)
    }

    pub(crate) fn wants_tier(&self, tier: &str) -> bool {
        self.tier.as_ref().is_none_or(|wanted| wanted == tier)
    }
}

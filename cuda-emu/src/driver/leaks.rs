//! Leakcheck: the objects that a context still has when it is destroyed, and the process when it ends.

use super::call::Made;
use super::objects::{Handles, Objects};
use super::process::initialised;
use crate::exec::Report;
use crate::exec::check::finding::{Check, Finding, note};

/// Leaked objects: the kind of each, and the call that created it.
type Left = Vec<(String, Option<Made>)>;

fn of<T>(left: &mut Left, what: &str, handles: &Handles<T>, wanted: impl Fn(u64, &T) -> bool) {
    let mut found: Vec<u64> = handles
        .iter()
        .filter(|(handle, object)| wanted(*handle, object))
        .map(|(handle, _)| handle)
        .collect();
    found.sort_unstable();
    left.extend(found.into_iter().map(|handle| (what.to_owned(), handles.made(handle))));
}

impl Objects {
    /// Returns whether a stream comes with its context, so that no program destroys it.
    pub(super) fn comes_with_context(&self, stream: &super::objects::Stream) -> bool {
        stream.legacy || {
            let context = self.contexts.get(stream.context);
            let thread = context.map(|context| context.per_thread.values());
            thread.is_ok_and(|mut all| {
                all.any(|&known| self.streams.get(known).is_ok_and(|it| it.id == stream.id))
            })
        }
    }

    /// Returns the objects of one context that is destroyed; memory of pools does not belong to it. Without a context,
    /// those that are left when the process ends: device memory of all contexts, as compute-sanitizer counts it, and
    /// the objects of created contexts. Those of primary ones end with the process.
    fn left(&self, context: Option<u64>) -> Left {
        let within = |of: u64| match context {
            Some(context) => context == of,
            None => self.contexts.get(of).is_ok_and(|context| !context.primary),
        };
        let mut left = Left::new();
        let mut memory: Vec<_> = self
            .allocations
            .iter()
            .filter(|(_, known)| match context {
                Some(_) => within(known.context) && known.pool == 0,
                None => within(known.context) || known.kind.on_device(),
            })
            .collect();
        memory.sort_unstable_by_key(|(start, _)| **start);
        for (start, known) in memory {
            let text = format!("{} bytes of {} at {start:#x}", known.bytes, known.kind.name());
            left.push((text, known.made));
        }
        of(&mut left, "a stream", &self.streams, |_, stream| {
            within(stream.context) && !self.comes_with_context(stream)
        });
        of(&mut left, "an event", &self.events, |_, event| within(event.context));
        of(&mut left, "a module", &self.modules, |handle, module| {
            let mut libraries = self.libraries.iter();
            within(module.context)
                && !libraries.any(|(_, library)| library.modules.values().any(|it| *it == handle))
        });
        left
    }

    /// Returns the objects outside of contexts.
    fn left_at_all(&self) -> Left {
        let mut left = self.left(None);
        for memory in self.outstanding.values() {
            left.push((format!("{} bytes that a graph has allocated", memory.bytes()), None));
        }
        of(&mut left, "a link", &self.links, |_, _| true);
        of(&mut left, "a graph", &self.graphs, |_, graph| !graph.owned);
        of(&mut left, "an executable graph", &self.execs, |_, _| true);
        of(&mut left, "a user object", &self.users, |_, _| true);
        // Many programs keep primary contexts, libraries and pools for as long as the process lives, which is no leak.
        of(&mut left, "a context", &self.contexts, |_, context| !context.primary);
        left
    }

    /// A context is about to lose whatever it holds.
    pub(super) fn report_leaks(&self, context: u64) {
        report(self.left(Some(context)), "is left in a context that is destroyed");
    }
}

fn report(left: Left, when: &str) {
    for (what, made) in left {
        let by = made.map_or_else(String::new, |made| format!(", of {made}"));
        let what = format!("leak: {what}{by}, {when}");
        let access = Report { what, ..Report::default() };
        note(Finding { check: Check::Leak, access, other: None, count: 1 });
    }
}

/// Makes the process report the remaining objects at its end.
pub(super) fn watch_exit() {
    extern "C" fn at_exit() {
        // Another thread holds the lock and runs on while the process ends, so any report
        // could be out of date at once.
        if let Some(state) = initialised().and_then(super::process::Process::try_lock) {
            report(state.objects.left_at_all(), "is left when the process ends");
        }
    }
    // SAFETY: the handler is a function of the process's life. It reads statics that are never destroyed, and writes to
    // standard error.
    unsafe { libc::atexit(at_exit) };
}

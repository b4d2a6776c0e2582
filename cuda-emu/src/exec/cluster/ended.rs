//! Racecheck of the end of a block: other blocks of the cluster may still use its shared memory.

use crate::exec::check::finding::{Check, Finding, note_with};
use crate::exec::machine::Machine;
use crate::report::Report;

impl Machine<'_> {
    /// Reports accesses of the ended block's shared memory by other blocks that nothing orders before its end. That they
    /// came before it is chance.
    pub(super) fn check_ended(&self) {
        if self.job.cluster_blocks == 1 {
            return;
        }
        let Some(check) = &self.block.check else { return };
        for (at, access) in check.unordered_at_end(self.block.linear) {
            let tid = self.job.tids.get((access.warp % self.job.warps.max(1)) as usize);
            let lane = access.lanes.trailing_zeros() as usize & 31;
            let thread = |d: usize| tid.map_or(0, |tid| tid[d][lane]);
            let entry = self.job.program.function_of(self.job.entry);
            let report = Report {
                kernel: self.job.program.code(entry).name.clone(),
                block: self.job.block_index(access.block),
                thread: [thread(0), thread(1), thread(2)],
                address: Some(at),
                what: format!(
                    "race: {} at {at:#x} in the shared memory of block {} of the cluster, which may have ended: nothing \
                     orders the access before the end",
                    if access.how.write { "write" } else { "read" },
                    self.block.rank,
                ),
                ptx_line: access.at,
                ..Report::default()
            };
            let finding = Finding { check: Check::Race, access: report, other: None, count: 1 };
            note_with(finding, |finding| {
                finding.access.source = self.source_of_line(finding.access.ptx_line);
            });
        }
    }
}

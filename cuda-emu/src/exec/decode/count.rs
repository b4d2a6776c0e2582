//! Counters of executed instructions, in front of what they count.

use ptx::ir::Instr;

use super::Decoder;
use crate::exec::count::{Count, Counted, approximate};
use crate::exec::inst::{Inst, SLOT_TRUE};

impl Decoder<'_, '_> {
    /// Counts the instructions without a guard of the basic block that begins at `at`, if one does.
    pub(super) fn count_block(&mut self, at: usize, instrs: &[Instr]) {
        let block =
            self.cfg.block_of.get(at).and_then(|&block| self.cfg.blocks.get(block as usize));
        let Some(block) = block.filter(|block| block.start as usize == at) else { return };
        let all = instrs.get(at..block.end as usize).unwrap_or_default();
        let all: Vec<&Instr> = all.iter().filter(|instr| instr.guard.is_none()).collect();
        self.guard = (SLOT_TRUE, 0);
        self.count(&all);
    }

    /// Counts an instruction with a guard.
    pub(super) fn count_guarded(&mut self, instr: &Instr) {
        if instr.guard.is_some() {
            self.count(&[instr]);
        }
    }

    /// Counts instructions under the current guard.
    fn count(&mut self, instrs: &[&Instr]) {
        let Some(counted) = self.cx.counted.as_mut().filter(|_| !instrs.is_empty()) else { return };
        let number = counted.len() as u64;
        counted.push(Counted {
            all: instrs.len() as u32,
            approximate: instrs.iter().filter_map(|instr| approximate(&instr.op)).collect(),
        });
        let inst = self.inst(self.pick::<Count>());
        self.emit(Inst { imm: number, ..inst });
    }
}

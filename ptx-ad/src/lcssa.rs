//! Loop-closed SSA: a value that is defined in a loop and read outside goes through a phi after the loop's exit.
//!
//! So a register is read only in its own region and in loops within it, where it holds the value of the current
//! iteration.

use std::collections::HashMap;

use ptx::ir::{Instr, Operand, RegId};

use crate::body::{Body, End, Phi};

/// Closes all loops, inner ones first: a value that leaves an inner loop may leave the loop around it too.
pub(crate) fn close(body: &mut Body) {
    for region in (1..body.regions.len()).rev() {
        let mut outside: Vec<(RegId, Vec<Use>)> = Vec::new();
        let mut positions: HashMap<RegId, usize> = HashMap::new();
        for (reg, used) in uses_outside(body, region) {
            let at = *positions.entry(reg).or_insert_with(|| {
                outside.push((reg, Vec::new()));
                outside.len() - 1
            });
            if let Some((_, uses)) = outside.get_mut(at) {
                uses.push(used);
            }
        }
        for (reg, uses) in outside {
            Values { body, region, reg, known: HashMap::new() }.replace(&uses);
        }
        body.index();
        while drop_copies(body) {
            body.index();
        }
    }
}

/// Removes phis that are copies of one value from outside the loop or of themselves. Returns whether there were any.
/// Phis after exits stay.
fn drop_copies(body: &mut Body) -> bool {
    let mut same: HashMap<RegId, RegId> = HashMap::new();
    for (index, block) in body.blocks.iter().enumerate() {
        for phi in &block.phis {
            let mut of = None;
            let mut single = true;
            for (_, arg) in &phi.args {
                match arg {
                    Some(Operand::Reg(reg)) if *reg == phi.reg || of == Some(*reg) => {}
                    Some(Operand::Reg(reg)) if of.is_none() => of = Some(*reg),
                    _ => single = false,
                }
            }
            let Some(of) = of.filter(|of| single && !same.contains_key(of)) else { continue };
            // A register without a definition may have any value, anywhere.
            let visible =
                body.definition(of).is_none_or(|at| body.contains(body.region_of(at), index));
            if visible && !same.values().any(|known| *known == phi.reg) {
                same.insert(phi.reg, of);
            }
        }
    }
    if same.is_empty() {
        return false;
    }
    let new = |reg: &mut RegId| {
        if let Some(known) = same.get(reg) {
            *reg = *known;
        }
    };
    for block in &mut body.blocks {
        block.phis.retain(|phi| !same.contains_key(&phi.reg));
        for (_, arg) in block.phis.iter_mut().flat_map(|phi| &mut phi.args) {
            if let Some(Operand::Reg(reg)) = arg {
                new(reg);
            }
        }
        for instr in &mut block.code {
            instr.for_each_register_mut(|role, reg| {
                if role == ptx::ir::Role::Use {
                    new(reg);
                }
            });
        }
        if let End::Branch { pred, .. } = &mut block.end {
            new(&mut pred.reg);
        }
    }
    true
}

/// A read of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// An instruction of a block, or the block's branch.
    In(usize),
    /// The argument of a phi that comes from a block: block, phi, argument.
    Argument(usize, usize, usize),
}

/// Returns the registers that are defined in a region and read outside, in the order of the code.
fn uses_outside(body: &Body, region: usize) -> Vec<(RegId, Use)> {
    let inside = |reg: RegId| body.definition(reg).is_some_and(|at| body.contains(region, at));
    let mut found = Vec::new();
    for (index, block) in body.blocks.iter().enumerate() {
        for (at, phi) in block.phis.iter().enumerate() {
            for (number, (from, arg)) in phi.args.iter().enumerate() {
                if let Some(Operand::Reg(reg)) = arg
                    && !body.contains(region, *from)
                    && inside(*reg)
                {
                    found.push((*reg, Use::Argument(index, at, number)));
                }
            }
        }
        if body.contains(region, index) {
            continue;
        }
        let mut read = |reg: RegId| {
            if inside(reg) && !found.contains(&(reg, Use::In(index))) {
                found.push((reg, Use::In(index)));
            }
        };
        block.code.iter().for_each(|instr| instr.for_each_use(&mut read));
        if let End::Branch { pred, .. } = block.end {
            read(pred.reg);
        }
    }
    found
}

/// The values of a loop's register in the blocks outside.
struct Values<'b> {
    body: &'b mut Body,
    region: usize,
    reg: RegId,
    /// The register at the start of each block that was looked up.
    known: HashMap<usize, RegId>,
}

impl Values<'_> {
    fn replace(&mut self, uses: &[Use]) {
        for used in uses {
            match *used {
                Use::In(block) => {
                    let value = self.at_start(block);
                    let (old, Some(block)) = (self.reg, self.body.blocks.get_mut(block)) else {
                        continue;
                    };
                    block.code.iter_mut().for_each(|instr| rename(instr, old, value));
                    if let End::Branch { pred, .. } = &mut block.end
                        && pred.reg == old
                    {
                        pred.reg = value;
                    }
                }
                Use::Argument(block, phi, number) => {
                    let from = self
                        .body
                        .blocks
                        .get(block)
                        .and_then(|block| block.phis.get(phi)?.args.get(number))
                        .map(|(from, _)| *from);
                    let Some(from) = from else { continue };
                    let value = self.at_start(from);
                    let arg = self
                        .body
                        .blocks
                        .get_mut(block)
                        .and_then(|block| block.phis.get_mut(phi)?.args.get_mut(number));
                    if let Some((_, arg)) = arg {
                        *arg = Some(Operand::Reg(value));
                    }
                }
            }
        }
    }

    /// Returns the register that holds the value at the start of a block outside the loop.
    fn at_start(&mut self, block: usize) -> RegId {
        // Blocks whose value is still to be found; the last is found first.
        let mut open = vec![block];
        while let Some(&at) = open.last() {
            if self.known.contains_key(&at) {
                open.pop();
                continue;
            }
            let preds =
                self.body.blocks.get(at).map(|block| block.preds.clone()).unwrap_or_default();
            let leaves = preds.iter().any(|&from| self.body.contains(self.region, from));
            match &*preds {
                [from] if !leaves => match self.known.get(from) {
                    Some(&value) => {
                        self.known.insert(at, value);
                    }
                    None => open.push(*from),
                },
                _ => {
                    let value = self.phi(at);
                    self.known.insert(at, value);
                    open.pop();
                    // Arguments come after the block is in `known`, since it may be its own predecessor.
                    open.extend(
                        preds.iter().filter(|&&from| !self.body.contains(self.region, from)),
                    );
                }
            }
        }
        self.arguments();
        self.known.get(&block).copied().unwrap_or(self.reg)
    }

    /// Adds a phi without arguments.
    fn phi(&mut self, block: usize) -> RegId {
        let ty = self.body.function.registers.get(self.reg.index()).copied();
        let reg = self.body.function.fresh_register(ty.unwrap_or(ptx::ir::Type::B32));
        if let Some(block) = self.body.blocks.get_mut(block) {
            block.phis.push(Phi { reg, args: Vec::new() });
        }
        reg
    }

    /// Fills in the arguments of the phis that have none.
    fn arguments(&mut self) {
        let made: Vec<(usize, RegId)> = self.known.iter().map(|(&at, &reg)| (at, reg)).collect();
        for (at, reg) in made {
            let preds =
                self.body.blocks.get(at).map(|block| block.preds.clone()).unwrap_or_default();
            let value = |from: &usize| {
                let inside = self.body.contains(self.region, *from);
                let value = if inside { Some(self.reg) } else { self.known.get(from).copied() };
                (*from, value.map(Operand::Reg))
            };
            let args: Vec<_> = preds.iter().map(value).collect();
            let phis = self.body.blocks.get_mut(at).into_iter().flat_map(|block| &mut block.phis);
            for phi in phis.filter(|phi| phi.reg == reg && phi.args.is_empty()) {
                phi.args.clone_from(&args);
            }
        }
    }
}

fn rename(instr: &mut Instr, old: RegId, new: RegId) {
    instr.for_each_register_mut(|role, reg| {
        if *reg == old && role == ptx::ir::Role::Use {
            *reg = new;
        }
    });
}

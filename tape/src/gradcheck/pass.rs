//! The ways in which a pass may take the gradients of a launch. All of them give the same gradients.

use super::numbers::Field;
use crate::spec::Effect;

/// The settings of a pass through a launch.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    pub(super) watch: Watch,
    /// The gradients that inputs have before the adjoint runs, which adds to them.
    pub(super) before: Option<Vec<f64>>,
    /// Whether the launch's memory is overwritten before the pass.
    pub(super) overwrites: bool,
    pub(super) deterministic: bool,
    /// The initial size of scratch memory, in bytes.
    pub(super) scratch: Option<usize>,
    /// Whether memory that the adjoint has to write holds NaN before.
    pub(super) poison: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Watch {
    All,
    Only(usize),
    /// All inputs except old contents of overwritten memory.
    Read,
}

impl Pass {
    /// Returns a pass in which everything is watched and nothing has a gradient before.
    pub(super) fn plain() -> Self {
        Self {
            watch: Watch::All,
            before: None,
            overwrites: false,
            deterministic: false,
            scratch: None,
            poison: true,
        }
    }

    /// Returns a pass in which only one input's gradient is wanted.
    pub(super) fn only(input: usize) -> Self {
        Self { watch: Watch::Only(input), ..Self::plain() }
    }

    /// Returns a pass in which the gradient of overwritten memory is not wanted and need not be cleared.
    pub(super) fn drops() -> Self {
        Self { watch: Watch::Read, ..Self::plain() }
    }

    /// Returns whether the gradient of an input is wanted.
    pub(super) fn watches(&self, at: usize, inputs: &[Field]) -> bool {
        let Some(input) = inputs.get(at).filter(|input| input.count > 0) else { return false };
        match self.watch {
            Watch::All => true,
            Watch::Only(only) => only == at,
            Watch::Read => input.effect != Effect::Overwrites,
        }
    }
}

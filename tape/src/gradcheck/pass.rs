//! The ways in which a pass may want gradients of a launch. All of them give the same gradients.

use super::numbers::Field;
use crate::spec::Effect;

/// A pass backwards through a launch, and what it is given besides the gradients of outputs.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    pub(super) watch: Watch,
    /// Gradients that inputs have before the adjoint runs: it adds to them.
    pub(super) before: Option<Vec<f64>>,
    /// Whether the launch's memory is overwritten before the pass.
    pub(super) overwrites: bool,
    pub(super) deterministic: bool,
    /// Scratch memory at first, in bytes.
    pub(super) scratch: Option<usize>,
    /// Whether memory that the adjoint has to write holds NaN before.
    pub(super) poison: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Watch {
    All,
    Only(usize),
    /// All but the old contents of what is overwritten.
    Read,
}

impl Pass {
    /// Everything is watched, and nothing has a gradient before.
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

    /// Only one input's gradient is wanted.
    pub(super) fn only(input: usize) -> Self {
        Self { watch: Watch::Only(input), ..Self::plain() }
    }

    /// The gradient of memory that is overwritten is not wanted, and need not be cleared.
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

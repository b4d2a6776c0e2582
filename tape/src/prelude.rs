//! The items that most programs need: `use cuda_tape::prelude::*;`.

pub use crate::{Effect, Element, Op, OpSpec, Param, Primal, Recorder, Seeds, Tape, Variable};

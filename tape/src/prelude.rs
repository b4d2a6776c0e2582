//! What most programs need: `use tape::prelude::*;`.

pub use crate::{Effect, Element, Op, OpSpec, Param, Primal, Recorder, Seeds, Tape, Variable};

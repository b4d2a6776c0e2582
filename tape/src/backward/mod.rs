//! Running a recording backwards.

mod adjoint;
mod log;
mod plan;
mod run;
mod scratch;
mod seed;

pub(crate) use log::FrameArg;
pub(crate) use plan::{Action, NOWHERE, Place, Plan};
pub(crate) use run::{NO_ARG, Pass, PlaceArg, Workplace, whole};
pub(crate) use scratch::failed;

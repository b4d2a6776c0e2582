//! Writes a derivation as text.

use std::fmt;

use ptx_ad::Kept;

use super::{Derivation, DerivedAccess, Effect, Primal};

impl fmt::Debug for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derivation")
            .field("accesses", &self.accesses)
            .field("dimensions", &self.dimensions)
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel's memory, and what its adjoint reads of it:")?;
        for access in &self.accesses {
            write!(f, "\n  {access}")?;
        }
        write!(f, "\ndimensions of a launch that indices depend on: {}", self.dimensions)?;
        if self.kept.is_empty() {
            return f.write_str("\nloops keep nothing in scratch memory");
        }
        f.write_str("\nscratch memory of each thread, for each iteration of a loop:")?;
        for Kept { place, words, depth } in &self.kept {
            match place {
                Some(place) => write!(f, "\n  {}:{}", place.file, place.line)?,
                None => f.write_str("\n  a loop without a line")?,
            }
            write!(f, ": {} bytes, loop depth {depth}", u64::from(*words) * 4)?;
        }
        Ok(())
    }
}

impl fmt::Display for DerivedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.param)?;
        if self.offset > 0 {
            write!(f, " at byte {}", self.offset)?;
        }
        let effect = match self.effect {
            Effect::Reads => "read",
            Effect::Overwrites => "overwritten",
            Effect::Updates => "updated",
            Effect::Accumulates => "added to",
        };
        let value = match self.value {
            Primal::Entry => "the adjoint reads it as it was before the launch",
            Primal::EntryPrivate => "the adjoint works on a copy from before the launch",
            Primal::Exit => "the adjoint reads it as it was after the launch",
            Primal::None => "the adjoint does not read it",
        };
        let own =
            if self.own { "each thread has its own element" } else { "threads share elements" };
        let covers = if self.each_element { ", all are covered" } else { "" };
        write!(f, ": {effect}; {value}; {own}{covers}")
    }
}

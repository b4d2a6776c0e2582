//! The constraints of clauses on a launch: the extents of its grid and blocks, and its shared memory.

use crate::clause::{Clause, Expr};
use std::fmt;

/// A dimension of grids and blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Axis {
    X,
    Y,
    Z,
}

impl Axis {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "x" => Some(Axis::X),
            "y" => Some(Axis::Y),
            "z" => Some(Axis::Z),
            _ => None,
        }
    }
}

/// A number that every launch has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Threads of a block.
    Block(Axis),
    /// Blocks of the grid.
    Grid(Axis),
    /// Bytes of dynamic shared memory.
    Shared,
}

impl Shape {
    /// Returns the path of the field of `cuda_safe::LaunchConfig`.
    pub(crate) fn field(self) -> String {
        match self {
            Shape::Shared => "dynamic_shared_bytes".to_owned(),
            Shape::Block(_) | Shape::Grid(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (extent, axis) = match self {
            Shape::Block(axis) => ("block", axis),
            Shape::Grid(axis) => ("grid", axis),
            Shape::Shared => return f.write_str("shared"),
        };
        let axis = match axis {
            Axis::X => "x",
            Axis::Y => "y",
            Axis::Z => "z",
        };
        write!(f, "{extent}.{axis}")
    }
}

/// Returns whether any of `clauses` says something of `axis`. If none does, launches keep to 1 there.
pub(crate) fn is_named(axis: Axis, clauses: &[Clause]) -> bool {
    let of_axis = [Expr::Launch(Shape::Block(axis)), Expr::Launch(Shape::Grid(axis))];
    clauses.iter().flat_map(Clause::leaves).any(|leaf| of_axis.contains(leaf))
}

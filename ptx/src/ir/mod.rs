//! The typed form of a PTX text: small, dense, without strings where the machine looks.
//!
//! Names are resolved: registers, variables, labels and functions are numbers into tables of the
//! [`Function`] or [`Module`]. Blocks are gone: a name declared in an inner block is an entry of
//! its own. [`crate::parse`] builds it, `Display` writes it as PTX again.

mod fresh;
mod module;
mod op;
mod operand;
mod types;
mod visit;

pub use fresh::Names;
pub use module::{
    Directives, File, Formal, Function, FunctionKind, Init, InitAddress, Inlined, Item, Label,
    Linkage, Loc, Module, Prototype, PrototypeKind, Ptr, Variable,
};
pub use op::{
    Access, BarOp, Callee, CarryOp, DotOp, FenceKind, Instr, LdKind, Mma, Mode, Op, Piece,
    Precision, Shape,
};
pub(crate) use operand::declares;
pub use operand::{
    Address, Base, Dim, Dst, FunctionId, GlobalId, LabelId, LocId, Operand, Pred, PrototypeId,
    RegId, Special, Symbol, TableId, VarId,
};
pub use types::{
    AtomOp, BinaryOp, BoolOp, Cache, Clamp, Cmp, Fragment, Layout, MmaBitOp, MulPart, Order,
    PrmtMode, ReduxOp, Rounding, Scope, ShflMode, Space, TestP, Type, UnaryOp, VideoOp, VoteMode,
};
pub use visit::{Place, PlaceMut, Role};

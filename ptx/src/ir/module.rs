//! The contents of a text: variables and functions, in order.

use super::op::Instr;
use super::operand::{FunctionId, GlobalId, LabelId, RegId, Symbol, VarId};
use super::types::{Space, Type};

/// A PTX text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Module {
    /// `.version`: major and minor.
    pub version: (u16, u16),
    /// `.target`: `sm_75`, then `debug`, `texmode_independent`…
    pub targets: Vec<String>,
    /// `.address_size`: 32 or 64 bits.
    pub address_size: u8,
    /// Variables of the module.
    pub globals: Vec<Variable>,
    /// Functions, defined or only declared.
    pub functions: Vec<Function>,
    /// `.file`: the sources that [`Loc::file`] numbers.
    pub files: Vec<File>,
    /// `.alias a, b`: the function a is another name of b.
    pub aliases: Vec<(FunctionId, FunctionId)>,
    /// The order in which all this stands in the text.
    pub items: Vec<Item>,
}

/// A piece of a text, in its order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A variable, declared or defined.
    Global(GlobalId),
    /// A function declared ahead of its definition, or defined elsewhere.
    Declaration(FunctionId),
    /// A function's definition.
    Function(FunctionId),
    /// `.file`: position in [`Module::files`].
    File(usize),
    /// `.alias`: position in [`Module::aliases`].
    Alias(usize),
    /// `.pragma`
    Pragma(String),
    /// `.section name { … }`, as written: DWARF.
    Section {
        /// With its dot.
        name: String,
        /// The text between the braces.
        text: String,
    },
}

/// `.file`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The number by which `.loc` names it.
    pub index: u32,
    /// The path as the compiler was given it.
    pub name: String,
    /// Modification time and bytes, where given.
    pub stamp: Option<(u64, u64)>,
}

/// The visibility of a name to other modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Linkage {
    /// This text alone.
    #[default]
    Internal,
    /// `.visible`
    Visible,
    /// `.extern`: defined elsewhere; for shared memory, sized at launch.
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

impl Linkage {
    /// Returns the directive, with its dot; empty for `Internal`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Internal => "",
            Self::Visible => ".visible",
            Self::Extern => ".extern",
            Self::Weak => ".weak",
            Self::Common => ".common",
        }
    }
}

/// A variable or parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Unique in its function or module; a name that an inner block uses again gets a suffix.
    pub name: String,
    /// `Global`, `Const`, `Shared`, `Local` or `Param`.
    pub space: Space,
    /// Its linkage.
    pub linkage: Linkage,
    /// The type of an element.
    pub ty: Type,
    /// 1, or 2, 4 or 8 for `.v2`…
    pub vector: u8,
    /// Bytes; a power of two. The value of `.align`, else the natural alignment.
    pub align: u32,
    /// Sizes of the dimensions; empty for a scalar.
    pub dims: Vec<u64>,
    /// `[]`: the size comes with the launch or the definition. `dims` has a 0 first.
    pub unsized_array: bool,
    /// The initial value; zeros where the text has none.
    pub init: Option<Init>,
    /// `.attribute(.managed)`
    pub managed: bool,
    /// `.attribute(.unified(…))` and others, as written.
    pub attributes: Option<String>,
    /// `.ptr` of a kernel parameter: its attributes of the pointee.
    pub ptr: Option<Ptr>,
}

/// `.ptr{.space}{.align n}` of a kernel parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ptr {
    /// The pointee's space; `Generic` if not named.
    pub space: Space,
    /// The pointee's alignment in bytes, if named.
    pub align: Option<u32>,
}

impl Variable {
    /// Creates a variable of this text alone, without an initial value: `dims` elements of `ty`, or one if there are no
    /// dimensions, aligned to `align` bytes.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        space: Space,
        ty: Type,
        dims: Vec<u64>,
        align: u32,
    ) -> Self {
        Self {
            name: name.into(),
            space,
            linkage: Linkage::Internal,
            ty,
            vector: 1,
            align,
            dims,
            unsized_array: false,
            init: None,
            managed: false,
            attributes: None,
            ptr: None,
        }
    }

    /// Returns the size in bytes; 0 for an array without a size.
    #[must_use]
    pub fn size(&self) -> u64 {
        // The parser has refused a product that overflows.
        self.dims
            .iter()
            .fold(u64::from(self.ty.bytes()) * u64::from(self.vector), |n, &d| n.saturating_mul(d))
    }
}

/// An initialiser. Bytes that neither part names are zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Init {
    /// Runs of bytes, little-endian, with the offset where each begins; ascending, not touching.
    pub runs: Vec<(u64, Vec<u8>)>,
    /// Addresses of symbols, ascending by offset. Their bytes are zero in `runs`.
    pub addresses: Vec<InitAddress>,
}

/// An address in an initialiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitAddress {
    /// Where it is stored, in bytes from the variable's start.
    pub offset: u64,
    /// Bytes stored.
    pub bytes: u8,
    /// The symbol whose address it is.
    pub symbol: Symbol,
    /// The offset added to it, in bytes.
    pub addend: i64,
    /// `generic(…)`: a generic address rather than one in the symbol's own space.
    pub generic: bool,
    /// `mask(…)` operators: `Some(0xFF00)` stores `(address & mask) >> 8`.
    pub mask: Option<u64>,
}

/// The kind of a function: a kernel, or a function that is only called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// `.entry`
    Entry,
    /// `.func`
    Func,
}

/// A formal parameter or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Formal {
    /// `.param`
    Var(VarId),
    /// `.reg`
    Reg(RegId),
}

/// A function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Its name in the image.
    pub name: String,
    /// Its linkage.
    pub linkage: Linkage,
    /// Kernel or function.
    pub kind: FunctionKind,
    /// Results, in order.
    pub returns: Vec<Formal>,
    /// Parameters, in order.
    pub params: Vec<Formal>,
    /// The type of each register that is used, numbered in the order of first use.
    pub registers: Vec<Type>,
    /// Results, parameters, arguments of calls, local and shared variables of every block.
    pub variables: Vec<Variable>,
    /// Labels, in the order of definition.
    pub labels: Vec<Label>,
    /// Tables of `brx.idx`.
    pub tables: Vec<Vec<LabelId>>,
    /// Signatures of indirect calls.
    pub prototypes: Vec<Prototype>,
    /// Source locations of instructions, each after those that it is inlined into, if the text has them.
    pub locs: Vec<Loc>,
    /// Performance and linking directives.
    pub directives: Directives,
    /// The instructions; `None` for a declaration.
    pub body: Option<Vec<Instr>>,
    /// The line of the PTX text, from 1.
    pub line: u32,
}

impl Function {
    /// Returns the instructions; none for a declaration.
    #[must_use]
    pub fn instrs(&self) -> &[Instr] {
        self.body.as_deref().unwrap_or_default()
    }

    /// Returns the index of the instruction after a label; the number of instructions if the label is at the end.
    #[must_use]
    pub fn target(&self, label: LabelId) -> usize {
        self.labels.get(label.index()).map_or(usize::MAX, |l| l.at as usize)
    }

    /// Returns where each parameter of a kernel lies in its parameter block, and the block's size: C's
    /// natural layout.
    #[must_use]
    pub fn param_layout(&self) -> (Vec<u64>, u64) {
        let mut end = 0u64;
        let mut offsets = Vec::with_capacity(self.params.len());
        for formal in &self.params {
            let (size, align) = match formal {
                Formal::Var(v) => {
                    let var = &self.variables[v.index()];
                    (var.size(), u64::from(var.align.max(1)))
                }
                Formal::Reg(r) => {
                    let bytes = u64::from(self.registers[r.index()].bytes());
                    (bytes, bytes)
                }
            };
            let offset = end.next_multiple_of(align);
            offsets.push(offset);
            end = offset.saturating_add(size);
        }
        (offsets, end)
    }
}

/// A label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Unique in its function; a name that an inner block uses again gets a suffix.
    pub name: String,
    /// The index of the instruction after it.
    pub at: u32,
}

/// `.callprototype` or `.calltargets`.
#[derive(Debug, Clone, PartialEq)]
pub struct Prototype {
    /// The label before it.
    pub name: String,
    /// The kind.
    pub kind: PrototypeKind,
}

/// The declaration of the callee of an indirect call.
#[derive(Debug, Clone, PartialEq)]
pub enum PrototypeKind {
    /// `.callprototype`: the types of results and parameters.
    Signature {
        /// Results.
        returns: Vec<Variable>,
        /// Parameters.
        params: Vec<Variable>,
        /// `.noreturn`
        noreturn: bool,
    },
    /// `.calltargets`: the functions that may be called.
    Targets(Vec<FunctionId>),
}

/// `.loc`: a place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loc {
    /// [`File::index`].
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// The location that the code was inlined into.
    pub inlined: Option<Inlined>,
}

impl Loc {
    /// Returns whether `around` is the place that this one is inlined into, and is itself inlined.
    pub(crate) fn is_inlined_at(&self, around: &Self) -> bool {
        around.inlined.is_some()
            && self.inlined.as_ref().is_some_and(|at| {
                (at.file, at.line, at.column) == (around.file, around.line, around.column)
            })
    }
}

/// `.loc …, function_name …, inlined_at …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inlined {
    /// The label of the inlined function's name in `.debug_str`, with its offset, as written.
    pub function: String,
    /// The file of the place that called it.
    pub file: u32,
    /// Its line.
    pub line: u32,
    /// Its column.
    pub column: u32,
}

/// Directives between a function's head and its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directives {
    /// `.maxntid`: threads of a block at most, per dimension.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`: threads of a block exactly.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`
    pub minnctapersm: Option<u32>,
    /// `.maxnctapersm`
    pub maxnctapersm: Option<u32>,
    /// `.maxnreg`
    pub maxnreg: Option<u32>,
    /// `.reqnctapercluster`
    pub reqnctapercluster: Option<[u32; 3]>,
    /// `.maxclusterrank`
    pub maxclusterrank: Option<u32>,
    /// `.explicitcluster`
    pub explicitcluster: bool,
    /// `.blocksareclusters`
    pub blocksareclusters: bool,
    /// `.noreturn`
    pub noreturn: bool,
    /// `.attribute(…)`, `.abi_preserve…` and others, as written.
    pub others: Vec<String>,
    /// `.pragma`, at the head or inside the body.
    pub pragmas: Vec<String>,
}

impl Module {
    /// Sets the lines of the text that functions and instructions remember to 0, so that modules
    /// read from different texts compare by what they mean.
    pub fn forget_lines(&mut self) {
        for function in &mut self.functions {
            function.line = 0;
            for instr in function.body.iter_mut().flatten() {
                instr.line = 0;
            }
        }
    }
}

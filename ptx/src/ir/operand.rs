//! Operands of instructions: registers, constants, special registers, symbols, addresses.

use super::types::Space;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the position in its table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        })*
    };
}

ids! {
    /// A register of a function: position in [`Function::registers`](super::Function::registers).
    RegId;
    /// A variable of the module: position in [`Module::globals`](super::Module::globals).
    GlobalId;
    /// A function: position in [`Module::functions`](super::Module::functions).
    FunctionId;
    /// A variable of a function: position in [`Function::variables`](super::Function::variables).
    VarId;
    /// A label: position in [`Function::labels`](super::Function::labels).
    LabelId;
    /// A table of `brx.idx`: position in [`Function::tables`](super::Function::tables).
    TableId;
    /// A `.callprototype` or `.calltargets`: position in
    /// [`Function::prototypes`](super::Function::prototypes).
    PrototypeId;
    /// A source place: position in [`Function::locs`](super::Function::locs).
    LocId;
}

/// The destination of a result; `None` is the sink `_`.
pub type Dst = Option<RegId>;

/// A predicate as a source: a guard, or the third operand of `setp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pred {
    /// The register, of type `.pred`.
    pub reg: RegId,
    /// Whether `!` stands before it.
    pub negated: bool,
}

/// A named thing that has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A variable of the module.
    Global(GlobalId),
    /// A function.
    Function(FunctionId),
    /// A parameter or variable of the function itself.
    Var(VarId),
}

/// A source operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(RegId),
    /// A constant: its bits in the type that the instruction reads here, zero above them.
    Imm(u64),
    /// A special register.
    Special(Special),
    /// The address of a symbol, in the symbol's own space, plus bytes.
    Symbol(Symbol, i64),
}

/// The base of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register.
    Reg(RegId),
    /// A symbol.
    Symbol(Symbol),
    /// Zero: the offset is the address.
    Absolute,
}

/// `[base + offset]`, offset in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The base of the address.
    pub base: Base,
    /// Bytes.
    pub offset: i64,
}

/// A component of a three-dimensional special register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// `.x`
    X,
    /// `.y`
    Y,
    /// `.z`
    Z,
    /// `.w`, always 0.
    W,
}

/// Returns the space in which a variable's own address counts; a parameter's is `Param`.
#[must_use]
pub(crate) fn declares(space: &str) -> Option<Space> {
    Some(match space {
        "global" => Space::Global,
        "const" => Space::Const,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" => Space::Param,
        _ => return None,
    })
}

macro_rules! specials {
    (dims { $($(#[$ddoc:meta])* $dim:ident = $dname:literal,)* }
     plain { $($variant:ident = $name:literal,)* }) => {
        /// A special register.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Special {
            $(#[doc = concat!("`", $dname, ".{x,y,z}`")] $dim(Dim),)*
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// `%envreg0` to `%envreg31`
            Envreg(u8),
            /// `%pm0` to `%pm7`
            Pm(u8),
            /// `%pm0_64` to `%pm7_64`
            Pm64(u8),
        }

        impl Special {
            /// Its name without the component.
            #[must_use]
            fn stem(self) -> &'static str {
                match self {
                    $(Self::$dim(_) => $dname,)*
                    $(Self::$variant => $name,)*
                    Self::Envreg(_) => "%envreg",
                    Self::Pm(_) | Self::Pm64(_) => "%pm",
                }
            }

            fn dim(self) -> Option<Dim> {
                match self { $(Self::$dim(d) => Some(d),)* _ => None }
            }

            /// Returns the special register of this name (`%tid.x`, `%laneid`).
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => return Some(Self::$variant),)*
                    _ => {}
                }
                let Some((stem, dim)) = name.split_once('.') else { return Self::numbered(name) };
                let dim = match dim {
                    "x" => Dim::X,
                    "y" => Dim::Y,
                    "z" => Dim::Z,
                    "w" => Dim::W,
                    _ => return None,
                };
                match stem {
                    $($dname => Some(Self::$dim(dim)),)*
                    _ => None,
                }
            }
        }
    };
}

specials! {
    dims {
        Tid = "%tid",
        Ntid = "%ntid",
        Ctaid = "%ctaid",
        Nctaid = "%nctaid",
        Clusterid = "%clusterid",
        Nclusterid = "%nclusterid",
        ClusterCtaid = "%cluster_ctaid",
        ClusterNctaid = "%cluster_nctaid",
    }
    plain {
        Laneid = "%laneid",
        Warpid = "%warpid",
        Nwarpid = "%nwarpid",
        Smid = "%smid",
        Nsmid = "%nsmid",
        Gridid = "%gridid",
        ClusterCtarank = "%cluster_ctarank",
        ClusterNctarank = "%cluster_nctarank",
        IsExplicitCluster = "%is_explicit_cluster",
        LanemaskEq = "%lanemask_eq",
        LanemaskLe = "%lanemask_le",
        LanemaskLt = "%lanemask_lt",
        LanemaskGe = "%lanemask_ge",
        LanemaskGt = "%lanemask_gt",
        Clock = "%clock",
        ClockHi = "%clock_hi",
        Clock64 = "%clock64",
        Globaltimer = "%globaltimer",
        GlobaltimerLo = "%globaltimer_lo",
        GlobaltimerHi = "%globaltimer_hi",
        ReservedSmemBegin = "%reserved_smem_offset_begin",
        ReservedSmemEnd = "%reserved_smem_offset_end",
        ReservedSmemCap = "%reserved_smem_offset_cap",
        ReservedSmem0 = "%reserved_smem_offset_0",
        ReservedSmem1 = "%reserved_smem_offset_1",
        TotalSmemSize = "%total_smem_size",
        AggrSmemSize = "%aggr_smem_size",
        DynamicSmemSize = "%dynamic_smem_size",
        CurrentGraphExec = "%current_graph_exec",
    }
}

impl Special {
    fn numbered(name: &str) -> Option<Self> {
        let number = |digits: &str, below: u8| {
            let canonical = digits == "0" || !digits.starts_with(['0', '+']);
            digits.parse::<u8>().ok().filter(|&n| canonical && n < below)
        };
        if let Some(digits) = name.strip_prefix("%envreg") {
            return number(digits, 32).map(Self::Envreg);
        }
        let rest = name.strip_prefix("%pm")?;
        match rest.strip_suffix("_64") {
            Some(digits) => number(digits, 8).map(Self::Pm64),
            None => number(rest, 8).map(Self::Pm),
        }
    }
}

impl std::fmt::Display for Special {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.stem())?;
        match self {
            Self::Envreg(n) | Self::Pm(n) => write!(f, "{n}"),
            Self::Pm64(n) => write!(f, "{n}_64"),
            _ => match self.dim() {
                Some(Dim::X) => f.write_str(".x"),
                Some(Dim::Y) => f.write_str(".y"),
                Some(Dim::Z) => f.write_str(".z"),
                Some(Dim::W) => f.write_str(".w"),
                None => Ok(()),
            },
        }
    }
}

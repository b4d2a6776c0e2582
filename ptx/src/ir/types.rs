//! Types, state spaces and the other modifiers of instructions: closed sets of words.

/// An enum whose variants are words of PTX: `name` and `from_name` are the two directions.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        $vis enum $enum {
            $($(#[$doc])* #[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl $enum {
            /// Returns the word in PTX, without its dot.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the word's meaning; `None` for a word outside the set.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words! {
    /// A fundamental or packed type.
    pub enum Type {
        B8 = "b8",
        B16 = "b16",
        B32 = "b32",
        B64 = "b64",
        B128 = "b128",
        U8 = "u8",
        U16 = "u16",
        U32 = "u32",
        U64 = "u64",
        S8 = "s8",
        S16 = "s16",
        S32 = "s32",
        S64 = "s64",
        F16 = "f16",
        F16x2 = "f16x2",
        Bf16 = "bf16",
        Bf16x2 = "bf16x2",
        Tf32 = "tf32",
        F32 = "f32",
        F32x2 = "f32x2",
        F64 = "f64",
        U16x2 = "u16x2",
        S16x2 = "s16x2",
        U8x4 = "u8x4",
        S8x4 = "s8x4",
        E4m3 = "e4m3",
        E5m2 = "e5m2",
        E4m3x2 = "e4m3x2",
        E5m2x2 = "e5m2x2",
        E4m3x4 = "e4m3x4",
        E5m2x4 = "e5m2x4",
        E3m2 = "e3m2",
        E2m3 = "e2m3",
        E2m1 = "e2m1",
        E3m2x2 = "e3m2x2",
        E2m3x2 = "e2m3x2",
        E2m1x2 = "e2m1x2",
        E3m2x4 = "e3m2x4",
        E2m3x4 = "e2m3x4",
        E2m1x4 = "e2m1x4",
        Ue8m0x2 = "ue8m0x2",
        B1 = "b1",
        U4 = "u4",
        S4 = "s4",
        B4x16 = "b4x16",
        B8x16 = "b8x16",
        U2 = "u2",
        S2 = "s2",
        Pred = "pred",
        TexRef = "texref",
        SamplerRef = "samplerref",
        SurfRef = "surfref",
    }
}

impl Type {
    /// Bits of one value: of both halves for a packed type. A predicate has 1, a reference 64.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::B1 | Self::Pred => 1,
            Self::U2 | Self::S2 => 2,
            Self::U4 | Self::S4 => 4,
            Self::B8 | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 => 8,
            Self::E3m2 | Self::E2m3 | Self::E2m1x2 => 8,
            Self::E2m1 => 4,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::E4m3x2 | Self::E5m2x2 | Self::E3m2x2 | Self::E2m3x2 | Self::Ue8m0x2 => 16,
            Self::E2m1x4 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::Tf32 => 32,
            Self::F16x2 | Self::Bf16x2 | Self::U16x2 | Self::S16x2 => 32,
            Self::U8x4 | Self::S8x4 => 32,
            Self::E4m3x4 | Self::E5m2x4 | Self::E3m2x4 | Self::E2m3x4 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 | Self::F32x2 => 64,
            Self::TexRef | Self::SamplerRef | Self::SurfRef | Self::B4x16 => 64,
            Self::B128 | Self::B8x16 => 128,
        }
    }

    /// Bytes in memory, at least 1.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Returns whether it is a signed integer.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::S8
                | Self::S16
                | Self::S32
                | Self::S64
                | Self::S16x2
                | Self::S8x4
                | Self::S4
                | Self::S2
        )
    }

    /// Returns whether it is floating-point: arithmetic on it takes rounding and `.ftz`.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F16x2
                | Self::Bf16
                | Self::Bf16x2
                | Self::Tf32
                | Self::F32
                | Self::F32x2
                | Self::F64
        )
    }
}

words! {
    /// The state space of memory. `Generic` is the absence of a word.
    pub enum Space {
        Generic = "generic",
        Global = "global",
        Const = "const",
        Shared = "shared",
        SharedCta = "shared::cta",
        SharedCluster = "shared::cluster",
        Local = "local",
        Param = "param",
        ParamEntry = "param::entry",
        ParamFunc = "param::func",
    }
}

words! {
    /// The scope of an ordered access or a fence.
    pub enum Scope {
        Cta = "cta",
        Cluster = "cluster",
        Gpu = "gpu",
        Sys = "sys",
    }
}

words! {
    /// The ordering of a memory access. `Weak` is also the absence of a word.
    pub enum Order {
        Weak = "weak",
        Volatile = "volatile",
        Relaxed = "relaxed",
        Acquire = "acquire",
        Release = "release",
        AcqRel = "acq_rel",
        Mmio = "mmio",
    }
}

words! {
    /// The cache operator of a load or store: a hint, and `Cv` / `Wt` read and write past it.
    pub enum Cache {
        Ca = "ca",
        Cg = "cg",
        Cs = "cs",
        Lu = "lu",
        Cv = "cv",
        Wb = "wb",
        Wt = "wt",
    }
}

words! {
    /// Rounding, of a result (`rn`…) or to an integral value (`rni`…).
    pub enum Rounding {
        Rn = "rn",
        Rz = "rz",
        Rm = "rm",
        Rp = "rp",
        Rna = "rna",
        Rs = "rs",
        Rni = "rni",
        Rzi = "rzi",
        Rmi = "rmi",
        Rpi = "rpi",
    }
}

words! {
    /// Comparison of `set` and `setp`. `Lo` to `Hs` are the unsigned ones; the `u` forms are true
    /// when an operand is NaN.
    pub enum Cmp {
        Eq = "eq",
        Ne = "ne",
        Lt = "lt",
        Le = "le",
        Gt = "gt",
        Ge = "ge",
        Lo = "lo",
        Ls = "ls",
        Hi = "hi",
        Hs = "hs",
        Equ = "equ",
        Neu = "neu",
        Ltu = "ltu",
        Leu = "leu",
        Gtu = "gtu",
        Geu = "geu",
        Num = "num",
        Nan = "nan",
    }
}

words! {
    /// A boolean operation on predicates.
    pub enum BoolOp {
        And = "and",
        Or = "or",
        Xor = "xor",
        Popc = "popc",
    }
}

words! {
    /// The part of an integer product that is kept.
    pub enum MulPart {
        Lo = "lo",
        Hi = "hi",
        Wide = "wide",
    }
}

words! {
    /// Instructions with one source.
    pub enum UnaryOp {
        Abs = "abs",
        Neg = "neg",
        Not = "not",
        Cnot = "cnot",
        Popc = "popc",
        Clz = "clz",
        Brev = "brev",
        Rcp = "rcp",
        Sqrt = "sqrt",
        Rsqrt = "rsqrt",
        Sin = "sin",
        Cos = "cos",
        Lg2 = "lg2",
        Ex2 = "ex2",
        Tanh = "tanh",
    }
}

words! {
    /// Instructions with two sources of the instruction's type. Of `Shl` and `Shr` the second is u32.
    pub enum BinaryOp {
        Add = "add",
        Sub = "sub",
        Div = "div",
        Rem = "rem",
        Min = "min",
        Max = "max",
        And = "and",
        Or = "or",
        Xor = "xor",
        Shl = "shl",
        Shr = "shr",
        Copysign = "copysign",
    }
}

words! {
    /// The property that `testp` tests.
    pub enum TestP {
        Finite = "finite",
        Infinite = "infinite",
        Number = "number",
        NotANumber = "notanumber",
        Normal = "normal",
        Subnormal = "subnormal",
    }
}

words! {
    /// The mode in which `prmt` chooses bytes; no word is the general form.
    pub enum PrmtMode {
        F4e = "f4e",
        B4e = "b4e",
        Rc8 = "rc8",
        Ecl = "ecl",
        Ecr = "ecr",
        Rc16 = "rc16",
    }
}

words! {
    /// The treatment of a shift or position past the width.
    pub enum Clamp {
        Clamp = "clamp",
        Wrap = "wrap",
    }
}

words! {
    /// The operation of `atom` and `red`.
    pub enum AtomOp {
        Add = "add",
        Min = "min",
        Max = "max",
        Inc = "inc",
        Dec = "dec",
        And = "and",
        Or = "or",
        Xor = "xor",
        Exch = "exch",
        Cas = "cas",
    }
}

words! {
    /// The lane that `shfl` reads from.
    pub enum ShflMode {
        Up = "up",
        Down = "down",
        Bfly = "bfly",
        Idx = "idx",
    }
}

words! {
    /// The result of `vote`.
    pub enum VoteMode {
        All = "all",
        Any = "any",
        Uni = "uni",
        Ballot = "ballot",
    }
}

words! {
    /// The operation of `redux.sync`.
    pub enum ReduxOp {
        Add = "add",
        Min = "min",
        Max = "max",
        And = "and",
        Or = "or",
        Xor = "xor",
    }
}

words! {
    /// The order of a matrix fragment in memory or of an `mma` operand.
    pub enum Layout {
        Row = "row",
        Col = "col",
    }
}

words! {
    /// The operation by which one-bit `mma` combines its operands.
    pub enum MmaBitOp {
        XorPopc = "xor.popc",
        AndPopc = "and.popc",
    }
}

words! {
    /// The matrix of a `wmma` fragment.
    pub enum Fragment {
        A = "a",
        B = "b",
        C = "c",
        D = "d",
    }
}

words! {
    /// The operation of a packed video instruction (`vadd2`, `vabsdiff4`…).
    pub enum VideoOp {
        Add = "vadd",
        Sub = "vsub",
        Avrg = "vavrg",
        AbsDiff = "vabsdiff",
        Min = "vmin",
        Max = "vmax",
        Set = "vset",
    }
}

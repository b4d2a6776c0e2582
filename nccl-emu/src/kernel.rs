//! The kernels: what they compute, their arguments, and their PTX.
//!
//! A kernel is one step of an operation on one chunk. It reads one or two operands, writes its result to one or two
//! destinations, and then changes the flags that the streams of the ranks wait for. `Args` says which.

use core::fmt::Write;

use crate::types::ncclDataType_t;

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;
/// The most blocks of a launch.
pub(crate) const GRID: usize = 32;

/// The type of the elements of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

/// Returns the bytes of an element; `None` for a number that names no type.
pub(crate) fn size(datatype: ncclDataType_t) -> Option<usize> {
    Some(match datatype {
        ncclDataType_t::ncclInt8
        | ncclDataType_t::ncclUint8
        | ncclDataType_t::ncclFloat8e4m3
        | ncclDataType_t::ncclFloat8e5m2 => 1,
        ncclDataType_t::ncclFloat16 | ncclDataType_t::ncclBfloat16 => 2,
        ncclDataType_t::ncclInt32 | ncclDataType_t::ncclUint32 | ncclDataType_t::ncclFloat32 => 4,
        ncclDataType_t::ncclInt64 | ncclDataType_t::ncclUint64 | ncclDataType_t::ncclFloat64 => 8,
        _ => return None,
    })
}

/// What a kernel computes from the first operand `a` (what comes from the rank before, if something does) and the
/// second one `b` (the rank's own). The result of each arithmetic operation is rounded to the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    /// `a + b`
    Sum,
    /// `a * b`
    Prod,
    /// The smaller one.
    Min,
    /// The greater one.
    Max,
    /// `scalar * a`
    Scale,
    /// `a + scalar * b`
    ScaleSum,
    /// `(a + b) / scalar`, where the scalar is a `u64`. Integers are truncated toward zero.
    SumDiv,
}

impl Fold {
    const ALL: [Self; 7] =
        [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Scale, Self::ScaleSum, Self::SumDiv];

    pub(crate) fn name(self) -> &'static core::ffi::CStr {
        match self {
            Self::Sum => c"sum",
            Self::Prod => c"prod",
            Self::Min => c"min",
            Self::Max => c"max",
            Self::Scale => c"scale",
            Self::ScaleSum => c"scale_sum",
            Self::SumDiv => c"sum_div",
        }
    }

    fn has_second(self) -> bool {
        self != Self::Scale
    }
}

/// The widths of accesses of copies in bytes, and the names of the kernels.
pub(crate) const COPIES: [(usize, &core::ffi::CStr); 5] =
    [(16, c"copy16"), (8, c"copy8"), (4, c"copy4"), (2, c"copy2"), (1, c"copy1")];

/// The arguments of every kernel, one structure. An address of 0 is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Args {
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// The destinations.
    pub(crate) to: [u64; 2],
    /// Elements, or for copies accesses.
    pub(crate) count: u64,
    /// The address of a scalar of the elements' type. If there is none, `bits` begins with the scalar.
    pub(crate) scalar: u64,
    pub(crate) bits: u64,
    /// Flags of this rank that are cleared before others are set: those that the kernel's stream waited for.
    pub(crate) clear: [u64; 2],
    /// Flags of other ranks that are set when the results are written.
    pub(crate) set: [u64; 2],
    /// A word that is not 0 after the communicator was aborted.
    pub(crate) abort: u64,
    /// Counts the blocks that have ended. It is 0 before and after.
    pub(crate) counter: u64,
}

/// Returns the PTX of the copies.
pub(crate) fn copies() -> String {
    let mut text = header();
    for (width, name) in COPIES {
        let (ty, value) = match width {
            16 => ("v2.b64", "{%x0, %x1}"),
            8 => ("b64", "%x0"),
            4 => ("b32", "%x0"),
            2 => ("b16", "%x0"),
            _ => ("b8", "%x0"),
        };
        let register = match width {
            8 | 16 => "b64",
            4 => "b32",
            _ => "b16",
        };
        let body = Body {
            declarations: format!("\t.reg .{register} %x<2>;\n"),
            setup: String::new(),
            width,
            has_second: false,
            compute: format!("\tld.{ty} {value}, [%ap];\n"),
            ty,
            value,
        };
        kernel(&mut text, &name.to_string_lossy(), &body);
    }
    text
}

/// Returns the PTX of the reductions of a type.
pub(crate) fn reductions(element: Element) -> String {
    let mut text = header();
    for fold in Fold::ALL {
        let arith = Arith::of(element);
        let mut compute = arith.load("x", "%ap");
        if fold.has_second() {
            compute += &arith.load("y", "%bp");
        }
        let compute = compute + &arith.fold(fold) + &arith.pack();
        let (setup, value) = (arith.scalar(fold), arith.stored);
        let declarations = format!(
            "\t.reg .{0} %x, %y, %s;\n\t.reg .b32 %t<3>;\n\t.reg .b16 %h;\n\t.reg .pred %q;\n",
            arith.register
        );
        let body = Body {
            declarations,
            setup,
            width: arith.width,
            has_second: fold.has_second(),
            compute,
            ty: arith.memory,
            value,
        };
        kernel(&mut text, &fold.name().to_string_lossy(), &body);
    }
    text
}

/// PTX ISA 7.0 and `sm_75`: every driver from CUDA 12.0 on compiles it.
fn header() -> String {
    ".version 7.0\n.target sm_75\n.address_size 64\n".to_owned()
}

/// The part of a kernel that differs.
struct Body<'a> {
    declarations: String,
    /// Before the loop.
    setup: String,
    /// Bytes of an access.
    width: usize,
    has_second: bool,
    /// The code from the addresses `%ap` and `%bp` to the result.
    compute: String,
    /// The type of a store, and its operand.
    ty: &'a str,
    value: &'a str,
}

/// Writes a kernel.
///
/// The last block to end changes the flags. It clears before it sets: a rank whose flag is set may set the cleared one
/// at once. An abort sets the word and then the flags that streams of this rank wait for. So a kernel that has cleared
/// its flags reads the word again: either it sees the abort and sets them, or the abort sets them later.
fn kernel(text: &mut String, name: &str, body: &Body<'_>) {
    let Body { declarations, setup, width, compute, ty, value, .. } = body;
    let (second, next) = if body.has_second {
        (
            "\tld.param.u64 %bp, [args+8];\n\tadd.u64 %bp, %bp, %off;\n",
            "\tadd.u64 %bp, %bp, %step;\n",
        )
    } else {
        ("", "")
    };
    let _ = write!(
        text,
        "
.visible .entry {name}(.param .align 8 .b8 args[{bytes}])
{{
	.reg .pred %p<8>;
	.reg .b32 %r<8>;
	.reg .b64 %i, %n, %off, %step, %ap, %bp, %d<2>, %c<2>, %w<2>, %stop, %counter;
{declarations}	ld.param.u64 %stop, [args+88];
	ld.relaxed.sys.u32 %r0, [%stop];
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra ENDED;
	ld.param.u64 %n, [args+32];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r3, %r1, %r2, %r3;
	cvt.u64.u32 %i, %r3;
	mul.lo.u64 %off, %i, {width};
	mov.u32 %r4, %nctaid.x;
	mul.lo.u32 %r4, %r4, %r2;
	mul.wide.u32 %step, %r4, {width};
	ld.param.u64 %ap, [args];
	add.u64 %ap, %ap, %off;
{second}	ld.param.u64 %d0, [args+16];
	setp.ne.u64 %p1, %d0, 0;
	add.u64 %d0, %d0, %off;
	ld.param.u64 %d1, [args+24];
	setp.ne.u64 %p2, %d1, 0;
	add.u64 %d1, %d1, %off;
	cvt.u64.u32 %off, %r4;
{setup}LOOP:
	setp.ge.u64 %p3, %i, %n;
	@%p3 bra ENDED;
{compute}	@%p1 st.{ty} [%d0], {value};
	@%p2 st.{ty} [%d1], {value};
	add.u64 %ap, %ap, %step;
{next}	add.u64 %d0, %d0, %step;
	add.u64 %d1, %d1, %step;
	add.u64 %i, %i, %off;
	bra LOOP;
ENDED:
	fence.acq_rel.sys;
	bar.sync 0;
	mov.u32 %r3, %tid.x;
	setp.ne.u32 %p3, %r3, 0;
	@%p3 ret;
	ld.param.u64 %counter, [args+96];
	mov.u32 %r4, %nctaid.x;
	sub.u32 %r4, %r4, 1;
	fence.acq_rel.sys;
	atom.inc.u32 %r5, [%counter], %r4;
	setp.ne.u32 %p3, %r5, %r4;
	@%p3 ret;
	fence.acq_rel.sys;
	ld.param.u64 %c0, [args+56];
	ld.param.u64 %c1, [args+64];
	ld.param.u64 %w0, [args+72];
	ld.param.u64 %w1, [args+80];
	setp.ne.u64 %p4, %c0, 0;
	setp.ne.u64 %p5, %c1, 0;
	setp.ne.u64 %p6, %w0, 0;
	setp.ne.u64 %p7, %w1, 0;
	mov.u32 %r6, 0;
	mov.u32 %r7, 1;
	@%p4 st.relaxed.sys.u32 [%c0], %r6;
	@%p5 st.relaxed.sys.u32 [%c1], %r6;
	fence.sc.sys;
	ld.param.u64 %stop, [args+88];
	ld.relaxed.sys.u32 %r0, [%stop];
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra STOPPED;
	@%p6 st.release.sys.u32 [%w0], %r7;
	@%p7 st.release.sys.u32 [%w1], %r7;
	ret;
STOPPED:
	@%p4 st.relaxed.sys.u32 [%c0], %r7;
	@%p5 st.relaxed.sys.u32 [%c1], %r7;
	ret;
}}
",
        bytes = size_of::<Args>(),
    );
}

/// How a type is computed with.
struct Arith {
    element: Element,
    /// The type of the registers.
    register: &'static str,
    /// The instructions, with the rounding where there is one.
    add: &'static str,
    mul: &'static str,
    div: &'static str,
    /// The type of comparisons.
    min: &'static str,
    /// The type of accesses, their bytes, and the operand of a store.
    memory: &'static str,
    width: usize,
    stored: &'static str,
}

impl Arith {
    fn of(element: Element) -> Self {
        let (register, add, mul, div, min) = match element {
            Element::I8 | Element::I32 => ("b32", "add.s32", "mul.lo.s32", "div.s32", "s32"),
            Element::U8 | Element::U32 => ("b32", "add.u32", "mul.lo.u32", "div.u32", "u32"),
            Element::I64 => ("b64", "add.s64", "mul.lo.s64", "div.s64", "s64"),
            Element::U64 => ("b64", "add.u64", "mul.lo.u64", "div.u64", "u64"),
            // f32 has more than twice the bits of these types, so that rounding twice is rounding once.
            Element::F16 | Element::Bf16 | Element::F32 => {
                ("f32", "add.rn.f32", "mul.rn.f32", "div.rn.f32", "f32")
            }
            Element::F64 => ("f64", "add.rn.f64", "mul.rn.f64", "div.rn.f64", "f64"),
        };
        let (memory, width, stored) = match element {
            Element::I8 | Element::U8 => ("b8", 1, "%x"),
            Element::I32 | Element::U32 => ("b32", 4, "%x"),
            Element::I64 | Element::U64 => ("b64", 8, "%x"),
            Element::F16 | Element::Bf16 => ("b16", 2, "%h"),
            Element::F32 => ("f32", 4, "%x"),
            Element::F64 => ("f64", 8, "%x"),
        };
        Self { element, register, add, mul, div, min, memory, width, stored }
    }

    /// Loads an element from an address into a register.
    fn load(&self, register: &str, address: &str) -> String {
        self.load_from("ld", register, address)
    }

    fn load_from(&self, load: &str, register: &str, address: &str) -> String {
        match self.element {
            Element::I8 => format!("\t{load}.s8 %{register}, [{address}];\n"),
            Element::U8 => format!("\t{load}.u8 %{register}, [{address}];\n"),
            Element::F16 => {
                format!("\t{load}.b16 %h, [{address}];\n\tcvt.f32.f16 %{register}, %h;\n")
            }
            Element::Bf16 => format!(
                "\t{load}.b16 %h, [{address}];\n\tcvt.u32.u16 %t0, %h;\n\tshl.b32 %t0, %t0, 16;\n\
                 \tmov.b32 %{register}, %t0;\n"
            ),
            _ => format!("\t{load}.{} %{register}, [{address}];\n", self.memory),
        }
    }

    /// Loads the scalar into `%s`, before the loop.
    fn scalar(&self, fold: Fold) -> String {
        match fold {
            Fold::Scale | Fold::ScaleSum => format!(
                "\tld.param.u64 %stop, [args+40];\n\tsetp.ne.u64 %p4, %stop, 0;\n\t@%p4 bra POINTER;\n\
                 {}\tbra LOOP;\nPOINTER:\n{}",
                self.load_from("ld.param", "s", "args+48"),
                self.load("s", "%stop"),
            ),
            Fold::SumDiv => {
                let convert = match self.register {
                    "b32" => "cvt.u32.u64",
                    "b64" => "mov.b64",
                    "f32" => "cvt.rn.f32.u64",
                    _ => "cvt.rn.f64.u64",
                };
                format!("\tld.param.u64 %stop, [args+48];\n\t{convert} %s, %stop;\n")
            }
            _ => String::new(),
        }
    }

    /// Computes `%x` from `%x`, `%y` and `%s`.
    fn fold(&self, fold: Fold) -> String {
        let Self { add, mul, div, min, .. } = self;
        match fold {
            Fold::Sum => format!("\t{add} %x, %x, %y;\n"),
            Fold::Prod => format!("\t{mul} %x, %x, %y;\n"),
            Fold::Min => format!("\tmin.{min} %x, %x, %y;\n"),
            Fold::Max => format!("\tmax.{min} %x, %x, %y;\n"),
            Fold::Scale => format!("\t{mul} %x, %s, %x;\n"),
            Fold::ScaleSum => {
                format!("\t{mul} %y, %s, %y;\n{}\t{add} %x, %x, %y;\n", self.round("y"))
            }
            Fold::SumDiv => {
                format!("\t{add} %x, %x, %y;\n{}\t{div} %x, %x, %s;\n", self.round("x"))
            }
        }
    }

    /// Rounds a register to the type.
    fn round(&self, register: &str) -> String {
        match self.element {
            Element::I8 => format!("\tcvt.s32.s8 %{register}, %{register};\n"),
            Element::U8 => format!("\tand.b32 %{register}, %{register}, 255;\n"),
            Element::F16 => {
                format!("\tcvt.rn.f16.f32 %h, %{register};\n\tcvt.f32.f16 %{register}, %h;\n")
            }
            Element::Bf16 => format!(
                "{}\tshl.b32 %t1, %t1, 16;\n\tmov.b32 %{register}, %t1;\n",
                rounded_to_bf16(register)
            ),
            _ => String::new(),
        }
    }

    /// Brings `%x` into the operand of the store.
    fn pack(&self) -> String {
        match self.element {
            Element::F16 => "\tcvt.rn.f16.f32 %h, %x;\n".to_owned(),
            Element::Bf16 => format!("{}\tcvt.u16.u32 %h, %t1;\n", rounded_to_bf16("x")),
            _ => String::new(),
        }
    }
}

/// Rounds an f32 to the nearest bf16, ties to even, in `%t1`. (`cvt.rn.bf16.f32` needs `sm_80`.)
fn rounded_to_bf16(register: &str) -> String {
    format!(
        "\tmov.b32 %t0, %{register};\n\tshr.u32 %t1, %t0, 16;\n\tand.b32 %t1, %t1, 1;\n\
         \tadd.u32 %t1, %t1, 32767;\n\tadd.u32 %t1, %t1, %t0;\n\tshr.u32 %t1, %t1, 16;\n\
         \tsetp.nan.f32 %q, %{register}, %{register};\n\tselp.b32 %t1, 32767, %t1, %q;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lie_where_the_kernels_read_them() {
        use core::mem::offset_of;
        assert_eq!(size_of::<Args>(), 104);
        let offsets = [
            offset_of!(Args, a),
            offset_of!(Args, b),
            offset_of!(Args, to),
            offset_of!(Args, count),
            offset_of!(Args, scalar),
            offset_of!(Args, bits),
            offset_of!(Args, clear),
            offset_of!(Args, set),
            offset_of!(Args, abort),
            offset_of!(Args, counter),
        ];
        assert_eq!(offsets, [0, 8, 16, 32, 40, 48, 56, 72, 88, 96]);
    }
}

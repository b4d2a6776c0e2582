//! The promise of exactness: a kernel's results have the same bits on every device and in every
//! program that compiles the same headers, whatever its options.
//!
//! Refused are approximate instructions, flushed denormals, arithmetic without a rounding, which the driver may fuse,
//! and float atomics, whose sum depends on the order of threads. A kernel that need not keep it says so in its source,
//! on a line of its own:
//! ```cpp
//! // inexact: kernel_name why it may
//! ```
//! A name that ends in `*` excepts the kernels that begin so.

use ptx::ir::{AtomOp, BinaryOp, Instr, Mode, Op, Precision, Type, UnaryOp};

use crate::Failure;

/// How the line that excepts a kernel begins.
const MARKER: &str = "// inexact:";

/// The kernels that a source excepts from the promise.
pub(crate) fn exceptions(source: &str) -> Result<Vec<String>, Failure> {
    let marked = source.lines().filter_map(|line| line.trim_start().strip_prefix(MARKER));
    marked
        .map(|rest| match rest.trim().split_once(char::is_whitespace) {
            Some((name, _)) => Ok(name.to_owned()),
            None => Err(format!("`{MARKER}{rest}` needs a kernel's name and a reason").into()),
        })
        .collect()
}

/// Every instruction of a text that breaks the promise, outside `exceptions`; and every exception that
/// names no function of it.
pub(crate) fn offences(text: &str, exceptions: &[String]) -> Result<Vec<String>, Failure> {
    let module = ptx::parse(text)?;
    let lines: Vec<&str> = text.lines().collect();
    let mut offences = Vec::new();
    for name in exceptions {
        if !module.functions.iter().any(|function| excepts(name, &function.name)) {
            offences.push(format!("no kernel {name}, which `{MARKER}` excepts"));
        }
    }
    let excepted = |name: &str| exceptions.iter().any(|exception| excepts(exception, name));
    for function in module.functions.iter().filter(|one| !excepted(&one.name)) {
        for instr in function.instrs() {
            if let Some(why) = why_inexact(instr) {
                let line = instr.line as usize;
                let written = lines.get(line.wrapping_sub(1)).map_or("", |line| line.trim());
                let name = &function.name;
                offences.push(format!("{name}: {why}: `{written}` (line {line} of the PTX)"));
            }
        }
    }
    Ok(offences)
}

/// Whether an exception of this name is one for `kernel`.
fn excepts(exception: &str, kernel: &str) -> bool {
    exception.strip_suffix('*').map_or(exception == kernel, |start| kernel.starts_with(start))
}

/// Returns why an instruction's result is not fixed, if it is not.
fn why_inexact(instr: &Instr) -> Option<&'static str> {
    match instr.op {
        Op::Unary { op, ty, mode, .. } => {
            let free = matches!(op, UnaryOp::Abs | UnaryOp::Neg);
            float(ty, mode, !free)
        }
        Op::Binary { op, ty, mode, .. } => {
            let free = matches!(op, BinaryOp::Min | BinaryOp::Max | BinaryOp::Copysign);
            float(ty, mode, !free)
        }
        Op::MinMax3 { ty, mode, .. } => float(ty, mode, false),
        Op::Mul { ty, mode, .. } | Op::Mad { ty, mode, .. } | Op::Fma { ty, mode, .. } => {
            float(ty, mode, true)
        }
        Op::Setp { ftz, .. } | Op::Set { ftz, .. } | Op::Slct { ftz, .. } | Op::Cvt { ftz, .. } => {
            ftz.then_some(FLUSHES)
        }
        Op::Atom { op: AtomOp::Add, ty, .. } if ty.is_float() => Some("an order left to chance"),
        Op::Mma(ref mma) if mma.d_ty.is_float() => Some("a sum in no stated order"),
        Op::Other { ref opcode, .. } => {
            let word = |wanted: &str| opcode.split('.').any(|word| word == wanted);
            if word("approx") {
                Some(APPROXIMATE)
            } else if word("ftz") {
                Some(FLUSHES)
            } else {
                None
            }
        }
        _ => None,
    }
}

const APPROXIMATE: &str = "approximate";
const FLUSHES: &str = "flushes denormals";

/// As [`why_inexact`], for arithmetic; `rounds`: unless a rounding is written there, it is open.
fn float(ty: Type, mode: Mode, rounds: bool) -> Option<&'static str> {
    if !ty.is_float() {
        None
    } else if mode.precision != Precision::Exact {
        Some(APPROXIMATE)
    } else if mode.ftz {
        Some(FLUSHES)
    } else if rounds && mode.rounding.is_none() {
        Some("without a rounding")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offences of a kernel of these instructions.
    fn found(body: &str) -> Result<Vec<String>, Failure> {
        offences(&text(body), &[])
    }

    fn text(body: &str) -> String {
        format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n\
             .visible .entry k()\n{{\n.reg .f32 %f<9>;\n.reg .f64 %d<9>;\n.reg .b32 %r<9>;\n\
             .reg .b64 %a<9>;\n.reg .b16 %h<9>;\n.reg .pred %p<9>;\n{body}\nret;\n}}\n"
        )
    }

    #[test]
    fn what_is_rounded_and_what_cannot_round_is_exact() -> Result<(), Failure> {
        for line in [
            "add.rn.f32 %f1, %f2, %f3;",
            "sub.rp.f64 %d1, %d2, %d3;",
            "mul.rm.f32 %f1, %f2, %f3;",
            "fma.rn.f64 %d1, %d2, %d3, %d4;",
            "div.rn.f32 %f1, %f2, %f3;",
            "sqrt.rn.f32 %f1, %f2;",
            "min.f32 %f1, %f2, %f3;",
            "abs.f32 %f1, %f2;",
            "neg.f64 %d1, %d2;",
            "setp.lt.f32 %p1, %f1, %f2;",
            "cvt.rmi.s32.f32 %r1, %f2;",
            "cvt.f64.f32 %d1, %f2;",
            "add.s32 %r1, %r2, %r3;",
            "mad.lo.s32 %r1, %r2, %r3, %r4;",
            "div.u32 %r1, %r2, %r3;",
            "atom.global.add.u32 %r1, [%a1], %r2;",
            "{ .reg .pred q; setp.lt.f32 q, %f1, %f2; selp.u32 %r1, 1, 0, q; }",
        ] {
            assert_eq!(found(line)?, Vec::<String>::new(), "{line}");
        }
        Ok(())
    }

    #[test]
    fn what_is_left_open_is_found() -> Result<(), Failure> {
        for (line, why) in [
            ("add.f32 %f1, %f2, %f3;", "without a rounding"),
            ("sub.f64 %d1, %d2, %d3;", "without a rounding"),
            ("mul.f32 %f1, %f2, %f3;", "without a rounding"),
            ("mul.f16 %h1, %h2, %h3;", "without a rounding"),
            ("add.rn.ftz.f32 %f1, %f2, %f3;", "flushes"),
            ("min.ftz.f32 %f1, %f2, %f3;", "flushes"),
            ("neg.ftz.f32 %f1, %f2;", "flushes"),
            ("setp.lt.ftz.f32 %p1, %f1, %f2;", "flushes"),
            ("cvt.rmi.ftz.s32.f32 %r1, %f2;", "flushes"),
            ("div.approx.f32 %f1, %f2, %f3;", "approximate"),
            ("div.full.f32 %f1, %f2, %f3;", "approximate"),
            ("sqrt.approx.ftz.f32 %f1, %f2;", "approximate"),
            ("rsqrt.approx.f64 %d1, %d2;", "approximate"),
            ("sin.approx.f32 %f1, %f2;", "approximate"),
            ("ex2.approx.f32 %f1, %f2;", "approximate"),
            ("red.global.add.f32 [%a1], %f2;", "order"),
            ("atom.global.add.f64 %d1, [%a1], %d2;", "order"),
            ("{ .reg .f32 t; add.f32 t, %f1, %f2; mov.f32 %f3, t; }", "without a rounding"),
        ] {
            let found = found(line)?;
            let [one] = found.as_slice() else {
                return Err(format!("{line}: {found:?}").into());
            };
            assert!(one.contains(why) && one.contains(line) && one.contains("line 12"), "{one}");
        }
        Ok(())
    }

    #[test]
    fn an_exception_excepts_one_kernel_and_must_name_one() -> Result<(), Failure> {
        let source = "// inexact: k a picture needs no last bit\nextern \"C\" __global__ void k();";
        let exceptions = exceptions(source)?;
        assert_eq!(exceptions, ["k"]);
        let body = text("mul.f32 %f1, %f2, %f3;");
        assert!(offences(&body, &exceptions)?.is_empty());
        let other = offences(&body.replace("entry k()", "entry l()"), &exceptions)?;
        assert!(other.len() == 2 && other[0].contains("no kernel k"), "{other:?}");
        Ok(())
    }

    #[test]
    fn an_exception_of_a_prefix_excepts_the_kernels_that_begin_so() -> Result<(), Failure> {
        let body = text("mul.f32 %f1, %f2, %f3;").replace("entry k()", "entry sum_f32()");
        let offences = |exception: &str| offences(&body, &[exception.to_owned()]);
        assert!(offences("sum_*")?.is_empty());
        let other = offences("dot_*")?;
        assert!(other.len() == 2 && other[0].contains("no kernel dot_*"), "{other:?}");
        assert_eq!(offences("sum_")?.len(), 2, "the whole name unless there is a `*`");
        Ok(())
    }

    #[test]
    fn an_exception_without_a_reason_is_refused() {
        assert!(exceptions("  // inexact: k\n").is_err());
        assert!(exceptions("// inexact:\n").is_err());
    }
}

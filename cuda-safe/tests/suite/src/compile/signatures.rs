//! The signatures that are read from the PTX are those of the sources.

use nvrtc::{Arch, Class, Options};

use test_harness::programs::{self, Program};
use test_harness::{Case, Compiler, TestResult, cases, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases!["signatures", compile(as_in_the_source),]
}

/// Bytes of each parameter, with a letter for what it is: integer or address, float, structure.
const WANTED: &[(&Program, &str, &str)] = &[
    (&programs::SAXPY, "saxpy", "f4 i8 i8 i8 i8"),
    (&programs::SAXPY, "saxpy4", "f4 i8 i8 i8 i8"),
    (&programs::BASIC, "fill", "i8 i8 i4"),
    (&programs::BASIC, "nothing", ""),
    (&programs::DELAY, "delayed_copy", "i8 i8 i8 i8"),
    (&programs::ARGUMENTS, "scalars", "i1 i1 i2 i2 i4 i4 i8 i8 i1 f4 f8 i8"),
    (&programs::ARGUMENTS, "halves", "s2 s2 i8"),
    (&programs::ARGUMENTS, "structure", "i1 s80 i1 i8"),
    (&programs::ARGUMENTS, "vectors", "s12 s12 s16 s16 s4 i8"),
    (
        &programs::ARGUMENTS,
        "many",
        "i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8 i4 i8",
    ),
    (&programs::ARGUMENTS, "none", ""),
    (&programs::ARGUMENTS, "_Z5typedfPKfPfj", "f4 i8 i8 i4"),
    (&programs::TEMPLATES, "axpy<float>", "f4 i8 i8 i4"),
    (&programs::TEMPLATES, "axpy<double>", "f8 i8 i8 i4"),
    (&programs::TEMPLATES, "math::times<3>", "i8 i4"),
    (&programs::TEMPLATES, "_Z4twinPi", "i8"),
    (&programs::TEMPLATES, "_Z4twinPf", "i8"),
    (&programs::LIMITS, "meet", "i8 i8 i8 i4"),
    (&programs::FAULTS, "write_at", "i8 i4"),
];

fn as_in_the_source(compiler: &Compiler) -> TestResult {
    for arch in [Arch::sm(9, 0), Arch::compute(7, 5)] {
        for program in programs::ALL {
            let wanted: Vec<_> = WANTED.iter().filter(|(of, ..)| of.name == program.name).collect();
            if wanted.is_empty() {
                continue;
            }
            let image = compiler.compile(program, arch, Options::new())?;
            for (_, kernel, parameters) in wanted {
                let found = image.kernel(kernel).map(|signature| {
                    let parameters = signature.params.iter().map(|parameter| {
                        let letter = match parameter.class() {
                            Class::Int => 'i',
                            Class::Float => 'f',
                            Class::Bytes => 's',
                            Class::Bits => 'b',
                        };
                        format!("{letter}{}", parameter.size)
                    });
                    parameters.collect::<Vec<_>>().join(" ")
                });
                ensure_eq!(found.as_deref(), Some(*parameters), "{} {kernel} {arch}", program.name);
            }
        }
    }
    Ok(())
}

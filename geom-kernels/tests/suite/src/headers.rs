//! The headers compile, each alone, with every compiler and under all flags, and what host and device
//! both declare lies the same way.

use std::fmt::Write;

use geom_kernels::{headers, layouts, program};
use nvrtc::{Arch, Image, Options, Program};

use super::flags::flags;
use super::{adjoints, boxes, bvh_queries, exact, maths, mesh, triangle, volume};
use test_harness::{Case, Compiler, Failure, TestResult, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::compile("geometry::headers::all_compile_under_all_flags", all_under_all_flags),
        Case::compile("geometry::headers::kernels_stay_exact_with_fast_math", kernels).long(),
        Case::compile("geometry::headers::exact_arithmetic_stays_exact", stays_exact).long(),
        Case::compile("geometry::headers::each_compiles_alone", each_compiles_alone).long(),
        Case::compile("geometry::layouts::are_those_of_the_device", layouts_agree),
        Case::compile("geometry::layouts::a_wrong_one_is_found", a_wrong_layout_is_found),
    ]
}

/// Compiles, with nothing of CUDA's headers on the path and without warnings.
fn compiled(compiler: &Compiler, program: Program, options: Options) -> Result<Image, Failure> {
    let program = program.cuda_headers(false).options(options);
    // The oldest architecture that the crate supports: its code is the most restricted.
    let image = program.library(&compiler.library).compile(Arch::compute(7, 5))?;
    ensure_eq!(image.log.trim(), "", "without warnings");
    Ok(image)
}

/// A program of one include is the shortest that depends on what a header itself includes.
fn each_compiles_alone(compiler: &Compiler) -> TestResult {
    ensure!(headers().len() > 5);
    for (name, _) in headers() {
        compiled(compiler, program(format!("#include <{name}>\n")), Options::new())
            .map_err(|error| Failure::new(format!("{name}: {error}")))?;
    }
    Ok(())
}

fn everything() -> String {
    // Twice, which as it happens in a program whose parts include what they need.
    let names = headers().iter().chain(headers());
    names.fold(String::new(), |text, (name, _)| text + &format!("#include <{name}>\n"))
}

/// As the crate's documentation shows it: CUDA's own vectors in and out, and no namespace opened.
const EXAMPLE: &str = r#"
    extern "C" __global__ void place(geom::rigid<float> where, float3* points, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) points[i] = point(where, geom::vec3<float>(points[i]));
    }"#;

/// All headers in one program. The templates are instantiated once, with the default options; under the
/// others the next tests and those on devices do it.
fn all_under_all_flags(compiler: &Compiler) -> TestResult {
    for (flag, options) in flags() {
        compiled(compiler, program(everything() + EXAMPLE), options)
            .map_err(|error| Failure::new(format!("{flag}: {error}")))?;
    }
    let exact = [exact::SOURCE, boxes::SOURCE, triangle::SOURCE, bvh_queries::SOURCE];
    for source in exact.into_iter().chain([maths::SOURCE]) {
        compiled(compiler, program(source), Options::new())?;
    }
    Ok(())
}

/// The first instruction of a text whose result depends on who compiles it. Atomic additions, of gradients,
/// have one form only; their order is not the compiler's either.
fn inexact(ptx: &str) -> Option<&str> {
    let words = [".ftz", ".approx", ".full", "add.f", "sub.f", "mul.f", "mad.f"];
    let depends =
        |line: &&str| !line.contains("atom.") && words.iter().any(|word| line.contains(word));
    ptx.lines().find(depends)
}

/// Under the flag that changes most, what the crate's own kernels take from the headers has nothing
/// approximate in it: so it is in users' programs. With the default options `cargo xtask ptx --check`
/// and the device tests compile them; this takes seconds for each, so the compilers take turns.
fn kernels(compiler: &Compiler) -> TestResult {
    for (name, source) in compiler.share(geom_kernels::sources()) {
        let program = program(source).name(name);
        let ptx = compiled(compiler, program, Options::new().fast_math(true))
            .map_err(|error| Failure::new(format!("{name}: {error}")))?
            .ptx
            .unwrap_or_default();
        ensure_eq!(inexact(&ptx), None, "{name}");
    }
    Ok(())
}

/// The same of the programs of the exact parts.
fn stays_exact(compiler: &Compiler) -> TestResult {
    let fast = Options::new().fast_math(true);
    let sources = [
        exact::SOURCE,
        boxes::SOURCE,
        triangle::SOURCE,
        bvh_queries::SOURCE,
        mesh::SOURCE,
        mesh::BRUTE_SOURCE,
        volume::SOURCE,
        adjoints::MESH_SOURCE,
        adjoints::VOLUME_SOURCE,
        adjoints::ISOSURFACE_SOURCE,
    ];
    for source in compiler.share(sources) {
        let ptx = compiled(compiler, program(source), fast.clone())?.ptx.unwrap_or_default();
        ensure!(ptx.contains("fma.rn.f") && ptx.contains("sub.rn.f"), "it is the program");
        ensure_eq!(inexact(&ptx), None);
    }
    // And it would be seen: the ordinary functions do change.
    let ptx = compiled(compiler, program(maths::SOURCE), fast)?.ptx.unwrap_or_default();
    ensure!(ptx.contains(".ftz") && ptx.contains(".approx"));
    Ok(())
}

/// A program that asserts all layouts, as the host has them, `more` bytes larger.
fn assertions(more: usize) -> Result<String, Failure> {
    let mut text = "#include <geom/layout.cuh>\n".to_owned();
    ensure!(!layouts().is_empty());
    for (index, layout) in layouts().iter().enumerate() {
        let (name, size) = (layout.name, layout.size + more);
        writeln!(text, "#include <{}>", layout.header)?;
        // A name without the commas that a type may have, which would end a macro's argument.
        writeln!(text, "using L{index} = {name};")?;
        writeln!(text, "GEOM_LAYOUT(L{index}, {size}, {});", layout.align)?;
        for (field, offset) in layout.fields {
            writeln!(text, "GEOM_FIELD(L{index}, {field}, {});", offset + more)?;
        }
    }
    Ok(text)
}

fn layouts_agree(compiler: &Compiler) -> TestResult {
    compiled(compiler, program(assertions(0)?), Options::new()).map(drop)
}

fn a_wrong_layout_is_found(compiler: &Compiler) -> TestResult {
    match compiled(compiler, program(assertions(4)?), Options::new()) {
        Ok(_) => Err(Failure::new("a layout 4 bytes off compiled")),
        Err(error) => {
            let error = error.to_string();
            ensure!(
                error.contains("not the host's") && error.contains("lies elsewhere"),
                "{error}"
            );
            Ok(())
        }
    }
}

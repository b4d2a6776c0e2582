//! Bad input and broken installations.

use std::ffi::OsStr;

use cuda_safe_nvrtc::{Arch, Error, Nvrtc, Options, Severity};

use crate::child;
use crate::{Compiler, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_compile_error_displays_as_the_log", a_compile_error_displays_as_the_log),
    ("the_assemblers_errors_are_compile_errors", the_assemblers_errors_are_compile_errors),
    ("nul_inside_any_input_is_refused_by_name", nul_inside_any_input_is_refused_by_name),
    ("missing_builtins_are_named", missing_builtins_are_named),
    ("a_file_that_is_no_library_says_so", a_file_that_is_no_library_says_so),
    ("the_environment_says_where_to_look", the_environment_says_where_to_look),
    ("no_library_for_the_driver_lists_every_place", no_library_for_the_driver_lists_every_place),
];

const SM_90: Arch = Arch::sm(9, 0);

fn a_compile_error_displays_as_the_log(c: &Compiler) -> Outcome {
    let source = "#include \"part.h\"\n__global__ void k(float* x) {\n  x[0] = missing;\n}\n";
    let result = c
        .program(source)
        .header("part.h", "#warning from part\n__device__ int a = ;\n")
        .compile(SM_90);
    let Err(error @ Error::Compile(_)) = &result else {
        return Err(format!("{result:?}").into());
    };
    let Error::Compile(compile) = error else {
        return Err("unreachable".into());
    };
    assert_eq!(error.to_string(), compile.log.trim_end());
    assert!(compile.log.contains("identifier \"missing\" is undefined"));
    let place = |file: &str, line| {
        compile.diagnostics.iter().find(|d| (d.file.as_deref(), d.line) == (Some(file), Some(line)))
    };
    let missing = place("test.cu", 3).ok_or("no diagnostic in line 3")?;
    assert_eq!(missing.severity, Severity::Error);
    assert_eq!(missing.message, "identifier \"missing\" is undefined");
    assert_eq!(missing.column, (c.version.major >= 13).then_some(10));
    assert_eq!(place("part.h", 1).map(|d| d.severity), Some(Severity::Warning));
    assert!(place("part.h", 2).is_some());
    Ok(())
}

fn the_assemblers_errors_are_compile_errors(c: &Compiler) -> Outcome {
    let result = c.program("__global__ void k() { asm(\"nonsense;\"); }").compile(SM_90);
    let Err(Error::Compile(error)) = &result else {
        return Err(format!("{result:?}").into());
    };
    let worst = error.diagnostics.iter().map(|d| d.severity).max();
    assert_eq!(worst, Some(Severity::Fatal), "{error}");
    assert!(
        error.diagnostics.iter().any(|d| d.line.is_some() && d.message.contains("nonsense")),
        "{error}"
    );
    Ok(())
}

fn nul_inside_any_input_is_refused_by_name(c: &Compiler) -> Outcome {
    let base = || c.program("");
    let cases = [
        (c.program("int\0"), "the source test.cu"),
        (base().name("a\0"), "the name \"a\\0\""),
        (base().header("h\0", ""), "the header's name \"h\\0\""),
        (base().header("h", "\0"), "the header h"),
        (base().name_expression("f\0"), "the name expression \"f\\0\""),
        (base().options(Options::new().extra("\0")), "the option \"\\0\""),
        (base().options(Options::new().define("A", "\0")), "the option \"--define-macro=A=\\0\""),
    ];
    for (program, what) in cases {
        for program in [program.clone(), program.cache(&c.cache())] {
            match program.compile(SM_90) {
                Err(Error::InvalidInput { what: named, .. }) => assert_eq!(named, what),
                other => return Err(format!("{what}: {other:?}").into()),
            }
        }
    }
    Ok(())
}

fn missing_builtins_are_named(c: &Compiler) -> Outcome {
    let library = c.library.path().ok_or("no path")?;
    // Beside the original, so that a link is possible; 100 MB are not copied lightly.
    let folder = tempfile::tempdir_in(library.parent().ok_or("no folder")?)?;
    let alone = folder.path().join(library.file_name().ok_or("no name")?);
    std::fs::hard_link(library, &alone).or_else(|_| std::fs::copy(library, &alone).map(|_| ()))?;
    // In a process of its own: in this one the builtins are loaded.
    let answer = child::answer(child::spawn(
        &alone,
        &c.folder.path().join("cache"),
        &[("LD_LIBRARY_PATH", "")],
    )?)?;
    let want = format!("libnvrtc-builtins.so.{} belongs beside the library", c.version);
    assert!(answer[0] == "error" && answer[1].contains(&want), "{answer:?}");
    Ok(())
}

fn a_file_that_is_no_library_says_so(c: &Compiler) -> Outcome {
    let path = c.folder.path().join(format!("libnvrtc.so.{}", c.version.major));
    std::fs::write(&path, "not an ELF file")?;
    // SAFETY: it is no library, so nothing of it runs.
    let error = unsafe { Nvrtc::load_from(&path) }.map(|_| ()).map_err(|e| e.to_string());
    let message = error.err().unwrap_or_default();
    assert!(
        message.starts_with("NVRTC cannot be loaded") && message.contains(&*path.to_string_lossy()),
        "{message}"
    );
    Ok(())
}

fn the_environment_says_where_to_look(c: &Compiler) -> Outcome {
    let library = c.library.path().ok_or("no path")?;
    let folder = library.parent().ok_or("no folder")?;
    let path = library.display().to_string();
    let empty = OsStr::new("");
    for value in [library, folder, folder.parent().ok_or("no root")?] {
        let found = child::find(&[
            ("CUDA_NVRTC", value.as_os_str()),
            ("CUDA_KERNEL_CACHE", OsStr::new("off")),
        ])?;
        assert_eq!(found, [path.as_str(), "None"]);
    }
    let found = child::find(&[
        ("CUDA_NVRTC", empty),
        ("LD_LIBRARY_PATH", folder.as_os_str()),
        ("CUDA_KERNEL_CACHE", OsStr::new("/a/b")),
    ])?;
    assert_eq!(found, [path.as_str(), "Some(\"/a/b\")"]);
    // An explicit wish is not replaced by what lies elsewhere.
    let found = child::find(&[
        ("CUDA_NVRTC", OsStr::new("/nonexistent")),
        ("LD_LIBRARY_PATH", folder.as_os_str()),
        ("CUDA_KERNEL_CACHE", empty),
        ("XDG_CACHE_HOME", OsStr::new("/c")),
    ])?;
    assert!(
        found[0].starts_with("no NVRTC was found")
            && found[0].contains("CUDA_NVRTC: /nonexistent: "),
        "{found:?}"
    );
    assert_eq!(found[1], "Some(\"/c/cuda-kernels\")");
    Ok(())
}

fn no_library_for_the_driver_lists_every_place(_: &Compiler) -> Outcome {
    let text = child::find_for_old_driver()?;
    for place in [
        "no NVRTC of version 1 or older",
        "loader path",
        "CUDA_PATH",
        "/usr/local/cuda",
        "CUDA_SETUP_DIR, target/cuda",
        "python3",
    ] {
        assert!(text.contains(place), "{place}: {text}");
    }
    assert!(text.lines().any(|line| line == "newer than the driver"), "{text}");
    Ok(())
}

//! What to do about a program that does not compile, where the log shows host code or a missing header.

use crate::{Diagnostic, Severity};

/// The guard around host code.
const GUARD: &str = "put host code between `#ifndef __CUDACC_RTC__` and `#endif`";

/// Parts of the messages about functions and variables of the host.
const HOST: [&str; 5] = [
    "is considered a host function",
    "is considered a host variable",
    "explicitly marked as a __host__ function",
    "was inferred to be __host__",
    DEVICE_LAUNCH,
];

/// Part of the message about `<<<…>>>`, in host code or in a kernel.
const DEVICE_LAUNCH: &str = "device-side kernel launch";

/// Folders of headers with algorithms that the host calls.
const CALLED_BY_HOST: [&str; 2] = ["/thrust/", "/cub/device/"];

/// Names of the C library's and iostream's that only host code uses.
const HOST_NAMES: [&str; 18] = [
    "atof", "atoi", "calloc", "cerr", "cout", "endl", "exit", "fclose", "fopen", "fprintf",
    "getenv", "putchar", "puts", "rand", "srand", "stderr", "stdout", "strcmp",
];

/// Beginnings of the names of CUDA's headers.
const CUDA_HEADERS: [&str; 12] = [
    "cooperative_groups",
    "crt/",
    "cub/",
    "cuComplex",
    "cuda",
    "curand",
    "cusparse",
    "math_constants",
    "mma.h",
    "nv/",
    "nvtx",
    "thrust/",
];

/// Returns what to do, if the messages are of this kind. `name` and `source` are those of the program.
pub(crate) fn hint(diagnostics: &[Diagnostic], name: &str, source: &str) -> Option<String> {
    let errors = || diagnostics.iter().filter(|d| d.severity >= Severity::Error);
    if let Some(hint) = errors().find_map(missing_header) {
        return Some(hint);
    }
    if let Some(hint) = errors().find_map(|error| library_of_the_host(error, name, source)) {
        return Some(hint);
    }
    let mut places: Vec<String> = Vec::new();
    for error in errors().filter(|error| is_host_code(&error.message)) {
        let place = place(error, name, source);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let (first, others) = places.split_first()?;
    let more = match others {
        [] => String::new(),
        [one] => format!(" and {one}"),
        [one, rest @ ..] => format!(", {one} and {} more", rest.len()),
    };
    let launches = |error: &Diagnostic| error.message.contains(DEVICE_LAUNCH);
    if errors().all(launches) {
        return Some(format!(
            "a kernel cannot launch kernels with NVRTC ({first}{more}): launch them from the host; if this is host code, \
             {GUARD}"
        ));
    }
    Some(format!(
        "NVRTC compiles device code alone, and {first}{more} is host code: {GUARD}, or mark what kernels use `__device__`"
    ))
}

fn is_host_code(message: &str) -> bool {
    if HOST.iter().any(|part| message.contains(part)) {
        return true;
    }
    let quoted = message.split('"').nth(1).unwrap_or_default();
    let name = quoted.split(['(', '<', ' ']).next().unwrap_or_default();
    let function_of_cuda = name.strip_prefix("cuda").is_some_and(starts_upper)
        || name.strip_prefix("cu").is_some_and(starts_upper);
    if message.starts_with("identifier ") {
        return message.contains("is undefined")
            && (function_of_cuda || HOST_NAMES.binary_search(&name).is_ok());
    }
    if message.starts_with("function ") {
        return message.contains("referenced but not defined") && function_of_cuda;
    }
    message.starts_with("namespace \"std\" has no member")
}

fn starts_upper(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Returns `line 3 of a.cu`. A call that NVRTC reports in its own header is looked for in the source.
fn place(error: &Diagnostic, name: &str, source: &str) -> String {
    let file = error.file.as_deref().unwrap_or(name);
    if let (Some(line), false) = (error.line, file.starts_with("__nv_nvrtc")) {
        return format!("line {line} of {file}");
    }
    let quoted = error.message.split('"').nth(1).unwrap_or_default();
    let called = quoted.split(['(', '<', ' ']).next().unwrap_or_default();
    match source.lines().position(|line| !called.is_empty() && line.contains(called)) {
        Some(index) => format!("line {} of {name}", index + 1),
        None if called.is_empty() => name.to_owned(),
        None => format!("the call of {called}"),
    }
}

/// Returns what to do about an error in a header whose algorithms the host calls.
fn library_of_the_host(error: &Diagnostic, name: &str, source: &str) -> Option<String> {
    let file = error.file.as_deref()?.replace('\\', "/");
    CALLED_BY_HOST.iter().find(|folder| file.contains(*folder))?;
    let includes = |line: &str| {
        let line = line.trim_start();
        line.starts_with('#') && (line.contains("<thrust/") || line.contains("<cub/"))
    };
    let place = match source.lines().position(includes) {
        Some(index) => format!("line {} of {name}", index + 1),
        None => name.to_owned(),
    };
    Some(format!(
        "{place} includes a header of Thrust or CUB with algorithms that the host calls: {GUARD}, and such includes, too"
    ))
}

/// Returns what to do about a header that is not there.
fn missing_header(error: &Diagnostic) -> Option<String> {
    let message = &error.message;
    let rest = message
        .strip_prefix("could not open source file \"")
        .or_else(|| message.strip_prefix("cannot open source file \""))?;
    let header = rest.split('"').next()?;
    let place = match (&error.file, error.line) {
        (Some(file), Some(line)) => format!("line {line} of {file} includes"),
        _ => "the program includes".to_owned(),
    };
    if CUDA_HEADERS.iter().any(|cuda| header.starts_with(cuda)) {
        let packages = match header.starts_with("curand") {
            true => "nvidia-curand",
            false => "nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl",
        };
        return Some(format!(
            "{place} {header}: install CUDA's headers beside NVRTC (`python3 -m pip install {packages}`, or a toolkit), or give their \
             folder to the program by `include_path`"
        ));
    }
    let is_cpp = !header.contains(['.', '/']);
    let own = if is_cpp {
        format!("libcu++ has what kernels can use of it, if anything, as <cuda/std/{header}>")
    } else {
        "give its text by `header`, its folder by `include_path`, or embed the file by `include_cuda!`".to_owned()
    };
    let missing = if is_cpp { ", a header of the host" } else { "" };
    Some(format!(
        "{place} {header}{missing}: if only host code needs it, {GUARD}; otherwise, {own}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::parse;

    fn of(log: &str) -> String {
        hint(&parse(log), "a.cu", "int a;\nvoid f() {\n  cudaMalloc(&d, 4);\n}\n")
            .unwrap_or_default()
    }

    const FUNCTION: &str = "error: A function without execution space annotations (__host__/__device__/__global__) is \
        considered a host function, and host functions are not allowed in JIT mode. Consider";

    #[test]
    fn host_code_names_its_lines_and_the_guard() {
        let one = of(&format!("a.cu(3): {FUNCTION}\n  int main(){{\n      ^\n"));
        assert!(
            one.contains("line 3 of a.cu is host code") && one.contains("`#ifndef __CUDACC_RTC__`"),
            "{one}"
        );
        let two =
            of(&format!("a.cu(3): {FUNCTION}\n\na.cu(3): {FUNCTION}\n\nb.h(7): {FUNCTION}\n"));
        assert!(two.contains("line 3 of a.cu and line 7 of b.h is host code"), "{two}");
        let many: String = (1..6).map(|line| format!("a.cu({line}): {FUNCTION}\n\n")).collect();
        assert!(of(&many).contains("line 1 of a.cu, line 2 of a.cu and 3 more is host code"));
        for message in [
            "A namespace scope variable without memory space annotations is considered a host variable, and",
            "A function explicitly marked as a __host__ function is not allowed in JIT mode",
            "identifier \"cudaDeviceSynchronize\" is undefined",
            "identifier \"cuLaunchKernel\" is undefined",
            "identifier \"fprintf\" is undefined",
            "namespace \"std\" has no member \"vector\"",
            "device-side kernel launch could not be processed as the required runtime APIs are not declared",
        ] {
            let hint = of(&format!("a.cu(9): error: {message}\n"));
            assert!(hint.contains("line 9 of a.cu"), "{message}: {hint}");
        }
    }

    #[test]
    fn a_call_that_nvrtc_reports_in_its_header_is_found_in_the_source() {
        let message = |call: &str| {
            format!(
                "__nv_nvrtc_builtin_header.h(12436): error: function \"{call}(T **, size_t) [with T=int]\" was \
                 referenced but not defined\n"
            )
        };
        assert!(of(&message("cudaMalloc")).contains("line 3 of a.cu"));
        assert!(of(&message("cudaFree")).contains("the call of cudaFree"));
    }

    #[test]
    fn a_kernel_that_launches_kernels_is_not_called_host_code() {
        let launch = format!("error: {DEVICE_LAUNCH} could not be processed");
        let alone = of(&format!("a.cu(2): {launch}\n"));
        assert!(alone.contains("launch kernels with NVRTC (line 2 of a.cu)"), "{alone}");
        let beside = of(&format!("a.cu(2): {launch}\n\na.cu(3): {FUNCTION}\n"));
        assert!(beside.contains("line 2 of a.cu and line 3 of a.cu is host code"), "{beside}");
    }

    #[test]
    fn headers_of_host_algorithms_are_named_by_their_include() {
        let log = format!("/include/cccl/thrust/detail/copy.h(31): {FUNCTION}\n");
        let source = "int a;\n  # include <thrust/sort.h>\n";
        let hint = hint(&parse(&log), "a.cu", source).unwrap_or_default();
        assert!(hint.starts_with("line 2 of a.cu includes"), "{hint}");
        assert!(of(&log).starts_with("a.cu includes"), "{}", of(&log));
    }

    #[test]
    fn missing_headers_are_told_apart() {
        let of = |header: &str| {
            let text = "could not open source file";
            of(&format!(
                "k.cu(2): catastrophic error: {text} \"{header}\" (no directories in search list)\n"
            ))
        };
        assert!(of("vector").contains("line 2 of k.cu includes vector, a header of the host"));
        assert!(of("vector").contains("`#ifndef __CUDACC_RTC__`"));
        assert!(of("cuda_fp16.h").contains("pip install nvidia-cuda-runtime"));
        assert!(of("curand_kernel.h").contains("pip install nvidia-curand"));
        assert!(
            of("helper_math.h").contains("`include_path`")
                && of("sys/time.h").contains("__CUDACC_RTC__")
        );
    }

    #[test]
    fn other_errors_have_no_hint() {
        for message in [
            "identifier \"unknwon\" is undefined",
            "expected a \";\"",
            "identifier \"cuda\" is undefined",
            "identifier \"current\" is undefined",
            "function \"f(int)\" was referenced but not defined",
            "",
        ] {
            assert_eq!(of(&format!("a.cu(1): error: {message}\n")), "", "{message}");
        }
        assert_eq!(of("a.cu(1): warning: namespace \"std\" has no member \"vector\"\n"), "");
        assert!(HOST_NAMES.is_sorted());
    }
}

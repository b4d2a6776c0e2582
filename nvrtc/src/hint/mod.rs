//! What to do about a program that does not compile, where the log shows what NVRTC lacks: host code, a header, the
//! device runtime, or what CUDA has removed.

mod headers;
mod removed;

use crate::{Diagnostic, Severity};

/// The guard around host code.
const GUARD: &str = "put host code between `#ifndef __CUDACC_RTC__` and `#endif`";

/// Parts of the messages about functions and variables of the host.
const HOST: [&str; 4] = [
    "is considered a host function",
    "is considered a host variable",
    "explicitly marked as a __host__ function",
    "was inferred to be __host__",
];

/// Part of the message about `<<<…>>>`, in host code or in a kernel.
const DEVICE_LAUNCH: &str = "device-side kernel launch";

/// Folders of headers with algorithms that the host calls.
const CALLED_BY_HOST: [&str; 3] = ["/thrust/", "/cub/device/", "/cub/cub.cuh"];

/// Names of the C library's and iostream's that only host code uses.
const HOST_NAMES: [&str; 18] = [
    "atof", "atoi", "calloc", "cerr", "cout", "endl", "exit", "fclose", "fopen", "fprintf",
    "getenv", "putchar", "puts", "rand", "srand", "stderr", "stdout", "strcmp",
];

/// The source of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The name that messages give it.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// The number of its first line, from 1.
    pub(crate) line: u32,
}

impl Source<'_> {
    /// Returns the number of the first line that has the property.
    fn find_line(&self, property: impl FnMut(&str) -> bool) -> Option<u64> {
        let index = self.text.lines().position(property)?;
        Some(u64::from(self.line.max(1)) + index as u64)
    }
}

/// Returns what to do, if the messages are of this kind.
pub(crate) fn hint(diagnostics: &[Diagnostic], source: Source<'_>) -> Option<String> {
    let errors = || diagnostics.iter().filter(|d| d.severity >= Severity::Error);
    let first = |hint: fn(&Diagnostic, Source<'_>) -> Option<String>| {
        errors().find_map(|error| hint(error, source))
    };
    let named = first(headers::missing).or_else(|| first(library_of_the_host));
    let named = named.or_else(|| first(integer_of_stdint));
    let named = named.or_else(|| first(removed::hint));
    if named.is_some() {
        return named;
    }
    // Without a function or a variable of the host, the runtime is called on the device.
    if !errors().any(|error| HOST.iter().any(|part| error.message.contains(part))) {
        let calls = errors().filter(|error| calls_runtime(&error.message)).map(|error| {
            let called = if error.message.contains(DEVICE_LAUNCH) {
                "<<<…>>>"
            } else {
                quoted(&error.message)
            };
            format!("`{called}` in {}", place(error, source))
        });
        if let Some(calls) = list(calls) {
            return Some(format!(
                "a kernel cannot launch kernels with NVRTC, nor call CUDA's runtime ({calls}): do that on the host; if this is \
                 host code, {GUARD}"
            ));
        }
    }
    let places = errors().filter(|e| is_host_code(&e.message)).map(|e| place(e, source));
    let places = list(places)?;
    // The message of a function without any mark.
    let is_function = |error: &Diagnostic| error.message.contains("is considered a host function");
    let kernel = if errors().any(is_function) { "is `__global__` missing? Otherwise " } else { "" };
    Some(format!(
        "NVRTC compiles device code alone, and {places} is host code: {kernel}{GUARD}, or mark what kernels use \
         `__device__`"
    ))
}

/// Lists the first two, each once, and counts the others.
fn list(all: impl Iterator<Item = String>) -> Option<String> {
    let mut places: Vec<String> = Vec::new();
    for place in all {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let (first, others) = places.split_first()?;
    Some(match others {
        [] => first.clone(),
        [one] => format!("{first} and {one}"),
        [one, rest @ ..] => format!("{first}, {one} and {} more", rest.len()),
    })
}

/// Returns the name that a message has in quotation marks, without arguments.
fn quoted(message: &str) -> &str {
    let quoted = message.split('"').nth(1).unwrap_or_default();
    quoted.split(['(', '<', ' ']).next().unwrap_or_default()
}

/// Returns whether a name is one of CUDA's runtime or driver API.
fn is_of_cuda(name: &str) -> bool {
    name.strip_prefix("cuda").is_some_and(starts_upper)
        || name.strip_prefix("cu").is_some_and(starts_upper)
}

/// Returns whether a message is about a launch, or a function or constant of CUDA's runtime that NVRTC does not have.
fn calls_runtime(message: &str) -> bool {
    let missing = message.starts_with("identifier ") && message.contains("is undefined")
        || message.starts_with("function ") && message.contains("referenced but not defined");
    message.contains(DEVICE_LAUNCH) || missing && is_of_cuda(quoted(message))
}

fn is_host_code(message: &str) -> bool {
    let of_host = || message.starts_with("identifier ") && message.contains("is undefined");
    HOST.iter().any(|part| message.contains(part))
        || calls_runtime(message)
        || of_host() && HOST_NAMES.binary_search(&quoted(message)).is_ok()
        || message.starts_with("namespace \"std\" has no member")
}

fn starts_upper(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Returns `line 3 of a.cu`. A call that NVRTC reports in its own header is looked for in the source.
fn place(error: &Diagnostic, source: Source<'_>) -> String {
    let name = source.name;
    let file = error.file.as_deref().unwrap_or(name);
    if let (Some(line), false) = (error.line, file.starts_with("__nv_nvrtc")) {
        return format!("line {line} of {file}");
    }
    let called = quoted(&error.message);
    match source.find_line(|line| !called.is_empty() && line.contains(called)) {
        Some(line) => format!("line {line} of {name}"),
        None if called.is_empty() => name.to_owned(),
        None => format!("the call of {called}"),
    }
}

/// Returns what to do about an error in a header whose algorithms the host calls.
fn library_of_the_host(error: &Diagnostic, source: Source<'_>) -> Option<String> {
    let file = error.file.as_deref()?.replace('\\', "/");
    CALLED_BY_HOST.iter().find(|folder| file.contains(*folder))?;
    let includes = |line: &str| {
        let line = line.trim_start();
        line.starts_with('#') && (line.contains("<thrust/") || line.contains("<cub/"))
    };
    let place = match source.find_line(includes) {
        Some(line) => format!("line {line} of {}", source.name),
        None => source.name.to_owned(),
    };
    Some(format!(
        "{place} includes a header of Thrust or CUB with algorithms that the host calls: {GUARD}, and such includes, too; \
         kernels include the parts that they use, such as <cub/block/block_reduce.cuh>"
    ))
}

/// Returns what to do about an integer type of `<stdint.h>`, which nvcc includes by itself. NVRTC's later messages, such as
/// that of a kernel whose parameters it could not read, follow from it.
fn integer_of_stdint(error: &Diagnostic, source: Source<'_>) -> Option<String> {
    let undefined = error.message.strip_prefix("identifier ")?.contains("is undefined");
    let name = quoted(&error.message);
    let bits = name.strip_suffix("_t")?;
    let bits = bits.strip_prefix('u').unwrap_or(bits).strip_prefix("int")?;
    let bits = bits.strip_prefix("_fast").or(bits.strip_prefix("_least")).unwrap_or(bits);
    (undefined && ["8", "16", "32", "64", "ptr", "max"].contains(&bits)).then(|| {
        let place = place(error, source);
        format!("`{name}` in {place} is of <cstdint>, which nvcc includes and NVRTC does not: add `#include <cstdint>`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::parse;

    fn of(log: &str) -> String {
        let text = "int a;\nvoid f() {\n  cudaMalloc(&d, 4);\n}\n";
        hint(&parse(log), Source { name: "a.cu", text, line: 1 }).unwrap_or_default()
    }

    const FUNCTION: &str = "error: A function without execution space annotations (__host__/__device__/__global__) is \
        considered a host function, and host functions are not allowed in JIT mode. Consider";

    #[test]
    fn integers_of_stdint_name_their_header() {
        let log =
            format!("a.cu(2): error: identifier \"uint8_t\" is undefined\n\na.cu(3): {FUNCTION}\n");
        let hint = of(&log);
        assert!(
            hint.contains("`uint8_t` in line 2 of a.cu") && hint.contains("<cstdint>"),
            "{hint}"
        );
        for name in ["int64_t", "uintptr_t", "int_fast16_t", "uint_least32_t", "intmax_t"] {
            let hint = of(&format!("a.cu(2): error: identifier \"{name}\" is undefined\n"));
            assert!(hint.contains(&format!("`{name}`")), "{hint}");
        }
        for name in ["uint_t", "int128_t", "uint8", "print_t", "hint8_t"] {
            let hint = of(&format!("a.cu(2): error: identifier \"{name}\" is undefined\n"));
            assert!(!hint.contains("cstdint"), "{name}: {hint}");
        }
    }

    #[test]
    fn host_code_names_its_lines_and_the_guard() {
        let one = of(&format!("a.cu(3): {FUNCTION}\n  int main(){{\n      ^\n"));
        assert!(
            one.contains("line 3 of a.cu is host code: is `__global__` missing?")
                && one.contains("`#ifndef __CUDACC_RTC__`"),
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
        assert!(alone.contains("cannot launch kernels with NVRTC"), "{alone}");
        assert!(alone.contains("(`<<<…>>>` in line 2 of a.cu)"), "{alone}");
        let undefined = |name: &str| format!("error: identifier \"{name}\" is undefined");
        let waits =
            of(&format!("a.cu(2): {launch}\n\na.cu(4): {}\n", undefined("cudaDeviceSynchronize")));
        let text = "(`<<<…>>>` in line 2 of a.cu and `cudaDeviceSynchronize` in line 4 of a.cu)";
        assert!(waits.contains(text), "{waits}");
        let beside = of(&format!("a.cu(2): {launch}\n\na.cu(3): {FUNCTION}\n"));
        assert!(beside.contains("line 2 of a.cu and line 3 of a.cu is host code"), "{beside}");
    }

    #[test]
    fn headers_of_host_algorithms_are_named_by_their_include() {
        let log = format!("/include/cccl/thrust/detail/copy.h(31): {FUNCTION}\n");
        let text = "int a;\n  # include <thrust/sort.h>\n";
        // The source may begin at any line of a file.
        for (first, found) in [(0, 2), (1, 2), (7, 8), (u32::MAX, 1_u64 << 32)] {
            let source = Source { name: "a.cu", text, line: first };
            let hint = crate::CompileError::new(log.clone(), source).hint.unwrap_or_default();
            assert!(hint.starts_with(&format!("line {found} of a.cu includes")), "{hint}");
        }
        assert!(of(&log).starts_with("a.cu includes"), "{}", of(&log));
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

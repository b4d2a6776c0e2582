//! Texts in place of the host's headers, which NVRTC does not have, and of CUDA's runtime headers, whose contents it has
//! built in.
//!
//! NVRTC prefers a header in memory to any file. So a text is given only where no `#include` that the program may reach
//! means a file of that name: a file of the program's, or CUDA's own, is what the author wrote the include for.

use crate::closure::Closure;

/// The name of [`PRELUDE`] in memory.
pub(crate) const PRELUDE_NAME: &str = "cuda_safe/prelude.h";

/// Included before each program.
pub(crate) const PRELUDE: &str = include_str!("prelude.h");

/// In place of a header whose contents NVRTC has built in, the prelude has, or only host code uses.
const EMPTY: &str = "// What device code uses of this header is declared without it.\n";

const ASSERT_H: &str = r"// Without a guard: each #include takes NDEBUG as it is then. The assertion is NVRTC's own.
#undef assert
#ifdef NDEBUG
#define assert(e) (static_cast<void>(0))
#else
#define assert(e) ((e) ? static_cast<void>(0) : __assertfail(#e, __FILE__, __LINE__, __PRETTY_FUNCTION__, sizeof(char)))
#endif
";

const CSTDDEF_H: &str = r"#ifndef CUDA_SAFE_CSTDDEF
#define CUDA_SAFE_CSTDDEF
#include <stddef.h>
namespace std {
using ::size_t;
using ::ptrdiff_t;
using ::max_align_t;
#if __cplusplus >= 201103L
typedef decltype(nullptr) nullptr_t;
#endif
}
#endif
";

const CSTDIO_H: &str = r"#ifndef CUDA_SAFE_CSTDIO
#define CUDA_SAFE_CSTDIO
#include <stdio.h>
namespace std {
using ::size_t;
using ::FILE;
using ::printf;
}
#endif
";

const CSTDLIB_H: &str = r"#ifndef CUDA_SAFE_CSTDLIB
#define CUDA_SAFE_CSTDLIB
#include <stdlib.h>
namespace std {
using ::size_t;
using ::malloc;
using ::free;
using ::abs;
using ::labs;
using ::llabs;
}
#endif
";

const CSTRING_H: &str = r"#ifndef CUDA_SAFE_CSTRING
#define CUDA_SAFE_CSTRING
#include <string.h>
namespace std {
using ::size_t;
using ::memcpy;
using ::memset;
}
#endif
";

const CTIME_H: &str = r"#ifndef CUDA_SAFE_CTIME
#define CUDA_SAFE_CTIME
#include <time.h>
namespace std {
using ::size_t;
using ::clock_t;
using ::clock;
using ::time_t;
}
#endif
";

const STDDEF_H: &str = r"// NULL, size_t, ptrdiff_t and wchar_t are NVRTC's own.
#ifndef CUDA_SAFE_STDDEF_H
#define CUDA_SAFE_STDDEF_H
#undef offsetof
// The compiler's intrinsic: NVRTC has no __builtin_offsetof.
#define offsetof(type, member) ((size_t)__INTADDR__(&(((type*)0)->member)))
typedef struct {
    long long integer __attribute__((aligned(16)));
} max_align_t;
#endif
";

const STDIO_H: &str = r"// printf is NVRTC's own; the other functions are the host's.
#ifndef CUDA_SAFE_STDIO_H
#define CUDA_SAFE_STDIO_H
typedef struct CudaSafeFile FILE;
#define EOF (-1)
#define BUFSIZ 8192
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#endif
";

const STDLIB_H: &str = r"// malloc, free and abs are NVRTC's own; the other functions are the host's.
#ifndef CUDA_SAFE_STDLIB_H
#define CUDA_SAFE_STDLIB_H
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#endif
";

const STRING_H: &str = r"// memcpy and memset are NVRTC's own; the other functions are the host's.
";

const TIME_H: &str = r"// clock and clock_t are NVRTC's own; time_t is the type of libcu++.
#ifndef CUDA_SAFE_TIME_H
#define CUDA_SAFE_TIME_H
typedef long long time_t;
#define CLOCKS_PER_SEC 1000000L
#endif
";

/// The headers' names and texts.
const STUBS: [(&str, &str); 48] = [
    ("assert.h", ASSERT_H),
    ("float.h", include_str!("float.h")),
    ("limits.h", include_str!("limits.h")),
    ("math.h", include_str!("math.h")),
    ("stdbool.h", EMPTY),
    ("stdarg.h", EMPTY),
    ("stddef.h", STDDEF_H),
    ("stdint.h", include_str!("stdint.h")),
    ("stdio.h", STDIO_H),
    ("stdlib.h", STDLIB_H),
    ("string.h", STRING_H),
    ("time.h", TIME_H),
    ("cassert", "#include <assert.h>\n"),
    ("cfloat", "#include <float.h>\n"),
    ("climits", "#include <limits.h>\n"),
    ("cmath", include_str!("cmath.h")),
    ("cstddef", CSTDDEF_H),
    ("cstdint", include_str!("cstdint.h")),
    ("cstdio", CSTDIO_H),
    ("cstdlib", CSTDLIB_H),
    ("cstring", CSTRING_H),
    ("ctime", CTIME_H),
    ("cuda.h", include_str!("cuda.h")),
    ("cuda_runtime.h", EMPTY),
    ("cuda_runtime_api.h", EMPTY),
    ("device_launch_parameters.h", EMPTY),
    ("builtin_types.h", EMPTY),
    ("device_functions.h", EMPTY),
    ("device_types.h", EMPTY),
    ("driver_types.h", EMPTY),
    ("host_defines.h", EMPTY),
    ("math_functions.h", EMPTY),
    ("vector_functions.h", EMPTY),
    ("vector_types.h", EMPTY),
    ("sm_20_intrinsics.h", EMPTY),
    ("channel_descriptor.h", EMPTY),
    ("cuda_device_runtime_api.h", EMPTY),
    ("cuda_profiler_api.h", EMPTY),
    ("cuda_surface_types.h", EMPTY),
    ("cuda_texture_types.h", EMPTY),
    ("cudaProfiler.h", EMPTY),
    ("cudaTypedefs.h", EMPTY),
    ("surface_functions.h", EMPTY),
    ("surface_indirect_functions.h", EMPTY),
    ("surface_types.h", EMPTY),
    ("texture_fetch_functions.h", EMPTY),
    ("texture_indirect_functions.h", EMPTY),
    ("texture_types.h", EMPTY),
];

/// Returns all headers: names and texts.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    STUBS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
}

/// Headers of CUDA's own that NVRTC cannot compile, or that only warn: files in the folders that are searched do not
/// replace these. (CUDA's headers include some of them in quotes.)
const REPLACED: [&str; 7] = [
    "channel_descriptor.h",
    "cuda.h",
    "cudaTypedefs.h",
    "cuda_device_runtime_api.h",
    "device_functions.h",
    "host_defines.h",
    "math_functions.h",
];

/// Returns the prelude, and those of `all` headers that are not the program's own: in memory, or files that its includes
/// mean.
pub(crate) fn wanted(
    headers: &[(String, String)],
    all: Vec<(String, String)>,
    files: &Closure,
) -> Vec<(String, String)> {
    let mut wanted = vec![(PRELUDE_NAME.to_owned(), PRELUDE.to_owned())];
    wanted.extend(all);
    wanted.retain(|(name, _)| {
        let is_file = match REPLACED.contains(&&**name) {
            true => files.own.contains(name),
            false => files.in_folders.contains(name) || files.beside.contains(name),
        };
        !is_file && !headers.iter().any(|(own, _)| own == name)
    });
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &[(&str, &str)], files: &Closure) -> Vec<String> {
        let own: Vec<_> =
            headers.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        wanted(&own, all().collect(), files).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn own_files_and_headers_win() {
        let count = STUBS.len() + 1;
        let mut files = Closure::default();
        assert_eq!(names(&[("a.h", "")], &files).len(), count);
        assert!(!names(&[("math.h", "")], &files).contains(&"math.h".to_owned()));
        files.in_folders = ["cuda.h", "cuda_runtime.h", "a.h"].map(str::to_owned).into();
        let left = names(&[], &files);
        assert_eq!(left.len(), count - 1);
        assert!(
            left.contains(&"cuda.h".to_owned()) && !left.contains(&"cuda_runtime.h".to_owned())
        );
        files.beside = ["cuda.h", "string.h"].map(str::to_owned).into();
        assert_eq!(names(&[], &files).len(), count - 2);
        files.own = files.beside.clone();
        assert_eq!(names(&[], &files).len(), count - 3);
    }

    #[test]
    fn a_header_includes_only_headers_of_the_list() {
        for (name, text) in STUBS {
            let scan = crate::scan::scan(text.as_bytes());
            assert_eq!(scan.obstacle, None, "{name}");
            for included in scan.names {
                assert!(
                    STUBS.iter().any(|(name, _)| *name == included.text),
                    "{name}: {included:?}"
                );
            }
        }
    }
}

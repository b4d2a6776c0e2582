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

/// The headers' names and texts.
const STUBS: [(&str, &str); 48] = [
    ("assert.h", include_str!("assert.h")),
    ("float.h", include_str!("float.h")),
    ("limits.h", include_str!("limits.h")),
    ("math.h", include_str!("math.h")),
    ("stdbool.h", EMPTY),
    ("stdarg.h", EMPTY),
    ("stddef.h", include_str!("stddef.h")),
    ("stdint.h", include_str!("stdint.h")),
    ("stdio.h", include_str!("stdio.h")),
    ("stdlib.h", include_str!("stdlib.h")),
    ("string.h", include_str!("string.h")),
    ("time.h", include_str!("time.h")),
    ("cassert", "#include <assert.h>\n"),
    ("cfloat", "#include <float.h>\n"),
    ("climits", "#include <limits.h>\n"),
    ("cmath", include_str!("cmath.h")),
    ("cstddef", include_str!("cstddef.h")),
    ("cstdint", include_str!("cstdint.h")),
    ("cstdio", include_str!("cstdio.h")),
    ("cstdlib", include_str!("cstdlib.h")),
    ("cstring", include_str!("cstring.h")),
    ("ctime", include_str!("ctime.h")),
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

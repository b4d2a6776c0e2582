//! Functions of `cudaProfiler.h`, which do nothing: no profiler is attached.

use super::call::{functions_of_other_headers, process};

functions_of_other_headers! {
    Device fn cuProfilerStart() { process()?.lock().current().map(drop) }
    Device fn cuProfilerStop() { process()?.lock().current().map(drop) }
}

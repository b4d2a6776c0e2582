//! Functions of `cudaProfiler.h`: what a program tells a profiler that may be attached; none is.

use super::call::{functions_of_other_headers, process};

functions_of_other_headers! {
    Device fn cuProfilerStart() { process()?.lock().current().map(drop) }
    Device fn cuProfilerStop() { process()?.lock().current().map(drop) }
}

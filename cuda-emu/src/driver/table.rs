//! The table of functions, by exported name, for the resolver, `cuGetProcAddress` and the documentation.

use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::OnceLock;

use cuda_sys::{CUdriverProcAddressQueryResult, DRIVER_SYMBOLS};

use super::call::Entry;

/// The files' tables, with what they are about.
static FILES: &[(&str, &[Entry])] = &[
    ("Start and devices", super::device::TABLE),
    ("Errors and functions by name", super::names::TABLE),
    ("Contexts", super::context::TABLE),
    ("Modules", super::module::TABLE),
    ("Libraries", super::module::library::TABLE),
    ("Linking", super::module::link::TABLE),
    ("Functions and occupancy", super::module::function::TABLE),
    ("Occupancy of clusters", super::module::cluster::TABLE),
    ("Launches", super::module::launch::TABLE),
    ("Memory", super::memory::TABLE),
    ("Advice about managed memory", super::memory::advice::TABLE),
    ("Stream-ordered memory", super::memory::pool::TABLE),
    ("Pools of devices and other places", super::memory::pool_location::TABLE),
    ("Addresses", super::memory::pointer::TABLE),
    ("Memory and events of other processes", super::memory::ipc::TABLE),
    ("Copies", super::memory::copy::TABLE),
    ("Copies of boxes", super::memory::copy_shaped::TABLE),
    ("Arrays", super::texture::array::TABLE),
    ("Copies of arrays by offset", super::texture::copy::TABLE),
    ("Textures and surfaces", super::texture::object::TABLE),
    ("Memsets and values", super::memory::fill::TABLE),
    ("Streams", super::stream::TABLE),
    ("Events", super::stream::event::TABLE),
    ("Capture", super::graph::capture::TABLE),
    ("Graphs", super::graph::nodes::TABLE),
    ("Parameters of graph nodes", super::graph::params::TABLE),
    ("Nodes of every kind", super::graph::node_params::TABLE),
    ("Memory of graphs", super::graph::memory::TABLE),
    ("Conditional nodes", super::graph::conditional::TABLE),
    ("Executable graphs", super::graph::exec::TABLE),
    ("User objects", super::graph::userobject::TABLE),
    ("Profilers", super::profiler::TABLE),
    ("Tangents (functions of this device alone)", super::tangents::TABLE),
    ("Variants for per-thread default streams", super::per_thread::TABLE),
    ("Not supported", super::unsupported::TABLE),
    ("Not supported", super::unsupported::other_headers::TABLE),
];

/// Functions that `cuda.h` does not declare, without their versions, and the releases that have them.
const OTHERS: [(&str, &str, c_int); 11] = [
    ("cuProfilerInitialize", "cuProfilerInitialize", 4000),
    ("cuProfilerStart", "cuProfilerStart", 4000),
    ("cuProfilerStop", "cuProfilerStop", 4000),
    ("cuGLGetDevices_v2", "cuGLGetDevices", 6050),
    ("cuGraphicsGLRegisterBuffer", "cuGraphicsGLRegisterBuffer", 3000),
    ("cuGraphicsGLRegisterImage", "cuGraphicsGLRegisterImage", 3000),
    ("cuEmuTangentsSet", "cuEmuTangentsSet", 0),
    ("cuEmuTangentsGet", "cuEmuTangentsGet", 0),
    ("cuEmuTangentsSetArgument", "cuEmuTangentsSetArgument", 0),
    ("cuEmuTangentsClearArguments", "cuEmuTangentsClearArguments", 0),
    ("cuEmuTangentsLost", "cuEmuTangentsLost", 0),
];

fn entries() -> &'static HashMap<&'static str, &'static Entry> {
    static ENTRIES: OnceLock<HashMap<&'static str, &'static Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let all = FILES.iter().flat_map(|(_, table)| table.iter());
        all.map(|entry| (entry.name, entry)).collect()
    })
}

/// Returns the address of a function; null if there is none.
pub(super) fn address(name: &str) -> *const c_void {
    entries().get(name).map_or(core::ptr::null(), |entry| entry.address)
}

/// Returns the variant of a function for per-thread default streams, or the function itself.
fn per_thread(name: &str) -> *const c_void {
    let variant = ["_ptsz", "_ptds"].map(|ending| address(&format!("{name}{ending}")));
    let found = variant.into_iter().find(|address| !address.is_null());
    found.unwrap_or_else(|| address(name))
}

/// Returns the newest function of a base name that a CUDA release knows.
pub(super) fn by_version(
    symbol: &str,
    version: c_int,
    own_stream: bool,
) -> Result<*const c_void, CUdriverProcAddressQueryResult> {
    let of = DRIVER_SYMBOLS.iter().map(|known| (known.name, known.base, known.version));
    let known = of.chain(OTHERS).filter(|(_, base, _)| *base == symbol);
    let mut known = known.filter(|(name, ..)| entries().contains_key(name)).peekable();
    if known.peek().is_none() {
        return Err(CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    known
        .filter(|(.., since)| *since <= version)
        .max_by_key(|(.., since)| *since)
        .map(|(name, ..)| if own_stream { per_thread(name) } else { address(name) })
        .ok_or(CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
}

/// What `SUPPORT.md` says about the results of textures. A test has the same bounds.
const TEXTURES: &str = "\n## Results of textures\n\n\
    Fetches have the bits of an H200 (driver 580), on which 4,096 seeded fetches of each of 495 modes were recorded: points, linear \
    filters and filters between levels of textures of one to three dimensions, with layers, of all formats, addressing modes and \
    gathers. NaN has other bits, and an infinite texel \
    whose weight rounds to zero counts for nothing. These are approximate, and the report of a run counts them as `tex`:\n\n\
    | Fetch | Largest difference observed |\n|---|---|\n\
    | linear filter of s8 as numbers from -1 to 1 | 0.008 |\n\
    | sRGB | 0.007 |\n\
    | `tex.level` with a bias, texels from -1 to 1 | 0.01 |\n\
    | linear filter between levels of three dimensions, texels from -1 to 1 | 0.006 |\n\
    | `tex.grad` of mipmaps | any: another level may be chosen; anisotropy is not there |\n\
    | cubes | the next texel, in 1 of 1,000 directions; at edges of a seamless cube any |\n\n\
    As on the H200, a fetch returns zeros for integer coordinates outside of an array, for integer coordinates of an array of \
    one dimension without layers, and for float coordinates of linear memory of one dimension. `txq` and `suq` of objects \
    are refused, as there.\n";

/// Why functions of each kind are not there.
const MISSING: &str = "\n## Why functions are not there\n\n\
    - **Green contexts and resources of a device** (`cuDeviceGetDevResource`, `cuDevSmResourceSplit`, `cuGreenCtx…`) give a part of \
    the multiprocessors to a context. Blocks run on cores of the host here, and no multiprocessor exists that could be given away.\n\
    - **Core dumps** (`cuCoredump…`) have the state of a GPU for cuda-gdb. A fault is reported on standard error instead, with the \
    kernel, the thread, the allocation and the line.\n\
    - **Checkpoints** (`cuCheckpoint…`) move what a process has on a GPU to the host.\n\
    - **Virtual memory** (`cuMemCreate`, `cuMemMap`, `cuMulticast…`): the attributes of the device say that it has none.\n\
    - **Texture and surface references** (`cuTexRef…`, `cuModuleGetTexRef`) are deprecated, and CUDA 12 removed them from the runtime.\n\
    - **External memory and semaphores, OpenGL, CIG** belong to graphics APIs that draw on a GPU.\n";

/// Returns what is there, function by function, in Markdown: the text of `SUPPORT.md`.
#[must_use]
pub fn support() -> String {
    let mut text = String::from(
        "# What the software device supports\n\n\
         Generated from the table of functions by a test of this crate; `CUDA_EMU_BLESS=1` makes \
         it write this file again.\n\n\
         Every function of `cuda.h` of CUDA 13.5 has an address, as have those of `cudaProfiler.h` and the first of `cudaGL.h`. Those under *Not supported* return \
         `CUDA_ERROR_NOT_SUPPORTED`, as do supported functions for unsupported features: \
         arrays of block-compressed, video and normalized-integer formats, sparse arrays, texture and surface references, \
         device-side launches, pools and file handles of other processes. Loading machine code returns `CUDA_ERROR_NO_BINARY_FOR_GPU`.\n",
    );
    text.push_str(TEXTURES);
    let count = |supported| entries().values().filter(|entry| entry.supported == supported).count();
    let _ = write!(text, "\n{} functions work; {} do not.\n", count(true), count(false));
    let works = FILES.iter().filter(|(_, table)| table.iter().all(|entry| entry.supported));
    for (title, table) in works {
        list(&mut text, title, table.iter().map(|entry| entry.name));
    }
    let missing = FILES.iter().flat_map(|(_, table)| table.iter());
    let missing = missing.filter(|entry| !entry.supported).map(|entry| entry.name);
    list(&mut text, "Not supported", missing);
    text.push_str(MISSING);
    text
}

fn list<'a>(text: &mut String, title: &str, names: impl Iterator<Item = &'a str>) {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let _ = write!(text, "\n## {title}\n\n| | | |\n|---|---|---|\n");
    for row in names.chunks(3) {
        let cells: Vec<String> = row.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

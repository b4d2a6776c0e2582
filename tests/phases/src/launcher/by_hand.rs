//! Kernels whose descriptions and C++ are written by hand, without the macro: the launcher is tested apart from the
//! translator.

use bytemuck::{Pod, Zeroable};
use gpu_phases::device::Device;
use gpu_phases::kernel::{CpuArg, CpuError, Extent, Kernel, Param, ParamKind};
use gpu_phases::target::{Elements, Read, Reads, Shared, Shares, Value, Write, Writes};
use gpu_phases::text::Text;
use gpu_phases::trust::{Checked, Trusted};

/// An `f32` of this crate, so that `Device` can be implemented here.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Float(pub(crate) f32);

/// A `u32` of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Word(pub(crate) u32);

/// A byte of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Byte(pub(crate) u8);

/// More bytes than most launches pass by value.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Large(pub(crate) [f32; 500]);

macro_rules! devices {
    ($($device:ident $cpp:literal;)+) => {$(
        // SAFETY: the C++ type has the same size, alignment and meaning, and any bytes are a value.
        unsafe impl Device for $device {
            fn rust_name() -> String {
                stringify!($device).to_owned()
            }
            fn cpp_name() -> String {
                $cpp.to_owned()
            }
            fn write(_: &mut Text) {}
            fn write_value(&self, text: &mut String) {
                text.push_str(&format!("{self:?}"));
            }
            fn is_valid(_: &[u8]) -> bool {
                true
            }
        }
    )+};
}

devices! {
    Float "float";
    Word "unsigned int";
    Byte "unsigned char";
    Large "large";
}

/// What the kernels below share.
const COMMON: &str = "
struct large { float x[500]; };
__device__ inline void give_up(
    fault* slot, unsigned kernel, unsigned what, unsigned file, unsigned line, u64_raw index, u64_raw length,
    u64_raw x, u64_raw y, u64_raw z
) {
    if (atomicCAS(&slot->state, 0u, 1u) == 0u) {
        volatile fault* s = slot;
        s->kind = what; s->line = line; s->file = file; s->kernel = kernel; s->index = index; s->len = length;
        s->element[0] = x; s->element[1] = y; s->element[2] = z;
        __threadfence_system();
        s->state = 2;
    }
    asm volatile(\"exit;\");
}
__device__ inline len along_x(len sy) {
    return sy == 1 && blockDim.y == 1 ? (len)blockIdx.x * 256 + threadIdx.x : (len)blockIdx.x * 32 + threadIdx.x;
}
";

/// Writes the text of a kernel: its parameters and its body, in which `KERNEL` and `FILE` are its numbers.
fn text(text: &mut Text, entry: &str, parameters: &str, body: &str) {
    let (kernel, file) = (text.kernel_number(), text.file("src/by_hand.rs"));
    let body = body.replace("KERNEL", &format!("{kernel}u")).replace("FILE", &format!("{file}u"));
    text.push(&format!(
        "{COMMON}extern \"C\" __global__ void {entry}(fault* slot, {parameters}, len sx, len sy, len sz) {{{body}}}\n"
    ));
}

fn on_no_cpu(_: &mut [CpuArg<'_>]) -> Result<(), CpuError> {
    Err(CpuError::Panic { kernel: "by hand", message: "there is no CPU version".to_owned() })
}

/// A description with the text of a kernel.
macro_rules! kernels {
    ($($name:ident $shown:literal [$($param:expr),+] ($parameters:literal) $body:literal;)+) => {$(
        pub(crate) static $name: Kernel = Kernel {
            name: $shown,
            module: module_path!(),
            file: "src/by_hand.rs",
            line: 100,
            params: &[$($param),+],
            instance: String::new,
            write: |to| text(to, &$name.entry(), $parameters, $body),
            overflow_checks: || false,
            carries: 0,
            cpu: on_no_cpu,
            pack: None,
            // SAFETY: the text below stays inside its arguments if they are as the launchers below see to.
            trusted: unsafe { Trusted::new() },
        };
    )+};
}

const fn read<T: Device>(name: &'static str) -> Param {
    Param::new::<T>(name, ParamKind::Read)
}

const fn write<T: Device>(name: &'static str) -> Param {
    Param::new::<T>(name, ParamKind::Write)
}

kernels! {
    SAXPY "saxpy" [Param::new::<Float>("a", ParamKind::Value), read::<Float>("x"), write::<Float>("out")]
        ("float a, const float* x, len x_n, float* out, len out_n")
        "len i = along_x(sy); if (i < sx) out[i] = a * x[i] + out[i];";
    SAXPY3 "saxpy3"
        [Param::new::<Float>("a", ParamKind::Value), read::<Float>("x"), read::<Float>("y"), write::<Float>("out")]
        ("float a, const float* x, len x_n, const float* y, len y_n, float* out, len out_n")
        "len i = along_x(sy); if (i < sx) out[i] = a * x[i] + y[i];";
    GATHER "gather" [read::<Word>("at"), read::<Float>("x"), write::<Float>("out")]
        ("const unsigned* at, len at_n, const float* x, len x_n, float* out, len out_n")
        "len i = along_x(sy);
        if (i >= sx) return;
        unsigned j = at[i];
        if (j >= x_n) give_up(slot, KERNEL, 1, FILE, 42, j, x_n, i, 0, 0);
        out[i] = x[j];";
    PLACES "places" [write::<Word>("out")]
        ("unsigned* out, len out_n")
        "len x = along_x(sy), y = (len)blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
        if (x >= sx || y >= sy || z >= sz) return;
        if (x == 33 && y == 9 && z == 2) give_up(slot, KERNEL, 5, FILE, 77, 0, 0, x, y, z);
        out[(z * sy + y) * sx + x] = (unsigned)(x + 1000 * y + 1000000 * z);";
    COUNT "count" [read::<Word>("data"), Param::new::<Word>("bins", ParamKind::Shared)]
        ("const unsigned* data, len data_n, unsigned* bins, len bins_n")
        "len i = along_x(sy); if (i < sx) atomicAdd(&bins[data[i] % bins_n], 1u);";
    PICK "pick" [Param::new::<Large>("table", ParamKind::Value), write::<Float>("out")]
        ("large table, float* out, len out_n")
        "len i = along_x(sy); if (i < sx) out[i] = table.x[i % 500];";
    LENGTH "length" [read::<Byte>("x"), write::<Word>("out")]
        ("const unsigned char* x, len x_n, unsigned* out, len out_n")
        "len i = along_x(sy); if (i < sx) { out[i] = (unsigned)sizeof(len) * 1000 + (unsigned)((u64_raw)x_n >> 32); }";
}

/// The extent of one dimension.
fn line(len: usize) -> Extent {
    Extent { dimensions: 1, size: [len as u64, 1, 1], threads: 0, shared: 0 }
}

/// Says that the launchers below have checked lengths.
fn checked() -> Checked {
    // SAFETY: each launcher passes arguments of the types of its kernel, of lengths that it has compared.
    unsafe { Checked::new() }
}

pub(crate) fn saxpy<'a, G, X, O>(target: G, a: f32, x: X, out: O) -> Result<(), G::Error>
where
    G: Reads<'a, Float, X> + Writes<'a, Float, O>,
{
    saxpy_of(&SAXPY, target, a, x, out)
}

/// `kernel` has the parameters of [`SAXPY`].
pub(crate) fn saxpy_of<'a, G, X, O>(
    kernel: &'static Kernel,
    target: G,
    a: f32,
    x: X,
    out: O,
) -> Result<(), G::Error>
where
    G: Reads<'a, Float, X> + Writes<'a, Float, O>,
{
    let (x, out) = (target.read(x), target.write(out));
    assert_eq!(x.len(), out.len());
    let extent = line(out.len());
    let args = (Value(Float(a)), Read::<G, Float>(x), Write::<G, Float>(out));
    target.launch(kernel, extent, args, checked())
}

pub(crate) fn saxpy3<'a, G, X, Y, O>(target: G, a: f32, x: X, y: Y, out: O) -> Result<(), G::Error>
where
    G: Reads<'a, Float, X> + Reads<'a, Float, Y> + Writes<'a, Float, O>,
{
    let (x, y) = (Reads::<'a, Float, X>::read(target, x), Reads::<'a, Float, Y>::read(target, y));
    let out = target.write(out);
    assert!(x.len() == out.len() && y.len() == out.len());
    let extent = line(out.len());
    let args = (Value(Float(a)), Read::<G, Float>(x), Read::<G, Float>(y), Write::<G, Float>(out));
    target.launch(&SAXPY3, extent, args, checked())
}

pub(crate) fn gather<'a, G, A, X, O>(target: G, at: A, x: X, out: O) -> Result<(), G::Error>
where
    G: Reads<'a, Word, A> + Reads<'a, Float, X> + Writes<'a, Float, O>,
{
    let at = Reads::<'a, Word, A>::read(target, at);
    let (x, out) = (Reads::<'a, Float, X>::read(target, x), target.write(out));
    assert_eq!(at.len(), out.len());
    let extent = line(out.len());
    let args = (Read::<G, Word>(at), Read::<G, Float>(x), Write::<G, Float>(out));
    target.launch(&GATHER, extent, args, checked())
}

pub(crate) fn places<'a, G, O>(
    target: G,
    size: [u64; 3],
    dimensions: u32,
    out: O,
) -> Result<(), G::Error>
where
    G: Writes<'a, Word, O>,
{
    let out = target.write(out);
    let extent = Extent { dimensions, size, threads: 0, shared: 0 };
    assert_eq!(extent.count(), Some(out.len() as u64));
    target.launch(&PLACES, extent, (Write::<G, Word>(out),), checked())
}

pub(crate) fn count<'a, G, D, B>(target: G, data: D, bins: B) -> Result<(), G::Error>
where
    G: Reads<'a, Word, D> + Shares<'a, Word, B>,
{
    let (data, bins) = (target.read(data), target.share(bins));
    assert!(!bins.is_empty());
    let extent = line(data.len());
    target.launch(&COUNT, extent, (Read::<G, Word>(data), Shared::<G, Word>(bins)), checked())
}

pub(crate) fn pick<'a, G, O>(target: G, table: Large, out: O) -> Result<(), G::Error>
where
    G: Writes<'a, Float, O>,
{
    let out = target.write(out);
    target.launch(&PICK, line(out.len()), (Value(table), Write::<G, Float>(out)), checked())
}

pub(crate) fn length<'a, G, X, O>(target: G, x: X, out: O) -> Result<(), G::Error>
where
    G: Reads<'a, Byte, X> + Writes<'a, Word, O>,
{
    let (x, out) = (target.read(x), target.write(out));
    target.launch(&LENGTH, line(out.len()), (Read::<G, Byte>(x), Write::<G, Word>(out)), checked())
}

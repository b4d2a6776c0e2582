//! Arguments that look like others: numbers that report memory, structures one of whose views is empty.

use cuda_safe::{
    Access, DeviceBuffer, DeviceRepr, DeviceSlice, KernelArg, Module,
    arg::{ArgType, UseVisitor},
};
use tape::{Param, Primal, Seeds, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, numbers, register, spec, threads};
use test_harness::{Case, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::arguments",
        device(a_number_with_memory_is_no_variable = number::<f32>),
        device(one_of_two_views_is_empty = empty_view::<f32>),
    ]
}

const N: usize = 40;

/// A number that was read from memory, which it reports.
struct Read<'a, T>(T, &'a DeviceBuffer<T>);

// SAFETY: a number reaches no memory; that of this one is only reported.
unsafe impl<T: Number> KernelArg for Read<'_, T> {
    type Abi = T;
    const TYPE: ArgType = ArgType::value::<T>();

    fn abi(&self) -> T {
        self.0
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> cuda_safe::Result<()> {
        visitor.visit(self.1.allocation(), self.1.byte_range(), Access::Read)
    }
}

fn number<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &[T::of(3.0); N])?;
    let a = DeviceBuffer::from_slice(&stream, &[T::of(2.0)])?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let n = N as u32;
    let mut tape = Tape::new(&stream)?;
    let through = tape.record_again(&stream, |t| {
        t.watch(&a)?;
        t.launch(&ops.scale, threads(N), (Read(T::of(2.0), &a), &x, &mut y, n))
    });
    refused(through, "by a pointer that the specification does not tell of")?;
    // It is a constant where it depends on nothing watched.
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (Read(T::of(2.0), &a), &x, &mut y, n))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &ones)?)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[2.0; N], 0.0)
}

const SOURCE: &str = r#"
    #include <geom/tape.cuh>
    using namespace geom::tape;
    template <typename T>
    struct Two { T *first, *second; };
    __device__ inline unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
    // out = first, plus second as far as it goes
    extern "C" __global__ void join_f32(Two<const float> from, float* out, unsigned n, unsigned m) {
        unsigned i = thread();
        if (i < n) out[i] = from.first[i] + (i < m ? from.second[i] : 0.0f);
    }
    extern "C" __global__ void join_f32_adjoint(
        Two<const float>, float*, unsigned n, unsigned m, Two<float> g, float* gout, Frame frame
    ) {
        if (!begin(frame)) return;
        unsigned i = thread();
        if (i >= n) return;
        float given = grad_take(frame, 1, at(gout, i));
        grad_own(frame, 0, at(g.first, i), given);
        if (i < m) grad_own(frame, 0, at(g.second, i), given);
    }"#;

/// `Two` of the kernel.
struct Two<'a, T>(DeviceSlice<'a, T>, DeviceSlice<'a, T>);

#[derive(Clone, Copy)]
#[repr(C)]
struct RawTwo {
    first: u64,
    second: u64,
}
// SAFETY: repr(C), and the fields of Two.
unsafe impl DeviceRepr for RawTwo {}

// SAFETY: the kernels read the elements of both, as many as are said.
unsafe impl<T: Number> KernelArg for Two<'_, T> {
    type Abi = RawTwo;
    const TYPE: ArgType = ArgType::value::<RawTwo>();

    fn abi(&self) -> RawTwo {
        RawTwo { first: self.0.device_ptr(), second: self.1.device_ptr() }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> cuda_safe::Result<()> {
        let both = [&self.0, &self.1];
        both.iter()
            .try_for_each(|one| visitor.visit(one.allocation(), one.byte_range(), Access::Read))
    }
}

/// An empty view has an address, where nothing is reported: it may be one of several, if it is not used.
fn empty_view<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, element) = (device.stream()?, <T as Number>::ELEMENT);
    let module = Module::compile(device.context(), tape::program(SOURCE).name("join.cu"))?;
    let from = Param::structure("from", 16)
        .pointer(0, element)
        .reads(Primal::None)
        .len("n")
        .active()
        .pointer(8, element)
        .reads(Primal::None)
        .len("m")
        .active();
    let out = Param::buffer("out", element).overwrites().len("n").each_element().active();
    let params = vec![from, out, Param::value("n"), Param::value("m")];
    let join = register(&module, spec::<T>("join", params))?;
    let mut rng = device.rng(911);
    let (hx, hz): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let (x, z) = (DeviceBuffer::from_slice(&stream, &hx)?, DeviceBuffer::from_slice(&stream, &hz)?);
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let ones = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    let mut tape = Tape::new(&stream)?;
    let record = |tape: &mut Tape, second, m: u32, y: &mut DeviceBuffer<T>| {
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&join, threads(N), (Two(x.slice(..)?, second), y, N as u32, m))
        })
    };
    record(&mut tape, z.slice(5..5)?, 0, &mut y)?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &ones)?)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[1.0; N], 0.0)?;
    // What is used must be there.
    let missing = record(&mut tape, z.slice(5..5)?, 1, &mut y);
    refused(missing, "points to memory that its argument does not report")?;
    record(&mut tape, z.slice(5..15)?, 10, &mut y)?;
    let at = |i: usize| if i < 10 { hx[i].to() + hz[i + 5].to() } else { hx[i].to() };
    let wanted: Vec<f64> = (0..N).map(at).collect();
    close(&y.to_vec(&stream)?, &wanted, tolerance::<T>())
}

//! Kernel arguments: what arrives, and what is refused.

use bytemuck::Zeroable;
use cuda_safe::vector::{self, Double2, Float3, Float4, UChar4};
use cuda_safe::{DeviceBuffer, DeviceRepr, ErrorKind, Kernel, Stream, arg::KernelArgs};
use half::{bf16, f16};

use test_harness::programs::{ARGUMENTS, LAYOUT};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "arguments",
        device(every_scalar),
        device(half_precision),
        device(a_structure),
        device(vectors),
        device(layout_of_vectors),
        device(twenty_four),
        device(none),
        device(memory_in_all_ways),
        device(mistakes_are_named),
    ]
}

fn every_scalar(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&ARGUMENTS, "scalars")?;
    let mut rng = device.rng(40);
    for round in 0..8 {
        let r = match round {
            0 => 0,
            1 => u64::MAX,
            _ => rng.next(),
        };
        let (float, double) = (f32::from_bits(r as u32), f64::from_bits(r));
        let mut out = DeviceBuffer::<u64>::zeroed(&stream, 11)?;
        let arguments = (
            r as u8,
            r as i8,
            r as u16,
            r as i16,
            r as u32,
            r as i32,
            r,
            r as i64,
            r & 1 == 1,
            float,
            double,
            &mut out,
        );
        // SAFETY: `scalars` takes these types and writes 11 words.
        unsafe { device.launch(&kernel, &stream, (1, 1), arguments) }?;
        let (low, word) = (r & 0xff, r & 0xffff_ffff);
        let wanted = [low, low, r & 0xffff, r & 0xffff, word, word, r, r, r & 1, word, r];
        ensure_eq!(out.to_vec(&stream)?, wanted, "{r:#x}");
    }
    // Pointers' width goes by either name.
    let mut out = DeviceBuffer::<u64>::zeroed(&stream, 11)?;
    let arguments = (
        1_u8, 2_i8, 3_u16, 4_i16, 5_u32, 6_i32, 7_usize, 8_isize, true, 1.0_f32, 2.0_f64, &mut out,
    );
    // SAFETY: as above.
    unsafe { device.launch(&kernel, &stream, (1, 1), arguments) }?;
    ensure_eq!(out.to_vec(&stream)?[6..9], [7, 8, 1]);
    Ok(())
}

fn half_precision(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&ARGUMENTS, "halves")?;
    let mut out = DeviceBuffer::<u64>::zeroed(&stream, 2)?;
    let arguments = (f16::from_f32(1.5), bf16::from_f32(-2.0), &mut out);
    // SAFETY: `halves` takes two structures of 2 bytes and writes two words.
    unsafe { device.launch(&kernel, &stream, (1, 1), arguments) }?;
    ensure_eq!(out.to_vec(&stream)?, [0x3e00, 0xc000]);
    Ok(())
}

/// As in `arguments.cu`: with padding, and members aligned to 16 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mixed {
    tag: i8,
    low: Float4,
    count: i16,
    weight: f64,
    high: Float4,
    flags: [u8; 3],
}

// SAFETY: repr(C), with the fields of the C++ structure.
unsafe impl DeviceRepr for Mixed {}

fn a_structure(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&ARGUMENTS, "structure")?;
    ensure_eq!((size_of::<Mixed>(), align_of::<Mixed>()), (80, 16));
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 16)?;
    let mixed = Mixed {
        tag: -7,
        low: Float4::new(1.0, 2.0, 3.0, 4.0),
        count: -300,
        weight: 0.1,
        high: Float4::new(5.0, 6.0, 7.0, 8.0),
        flags: [250, 251, 252],
    };
    // SAFETY: `structure` takes (char, Mixed, char, double*) and writes 16 doubles.
    unsafe { device.launch(&kernel, &stream, (1, 1), (1_i8, mixed, 2_i8, &mut out)) }?;
    let wanted =
        [1.0, -7.0, 1.0, 2.0, 3.0, 4.0, -300.0, 0.1, 5.0, 6.0, 7.0, 8.0, 250.0, 251.0, 252.0, 2.0];
    ensure_eq!(out.to_vec(&stream)?, wanted);
    Ok(())
}

fn vectors(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&ARGUMENTS, "vectors")?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 16)?;
    let arguments = (
        Float3::new(1.0, 2.0, 3.0),
        [4.0_f32, 5.0, 6.0],
        Float4::new(7.0, 8.0, 9.0, 10.0),
        Double2::new(11.0, 12.0),
        UChar4::new(13, 14, 15, 16),
        &mut out,
    );
    // SAFETY: `vectors` takes these types and writes 16 doubles.
    unsafe { device.launch(&kernel, &stream, (1, 1), arguments) }?;
    let wanted: Vec<f64> = (1..=16_u8).map(f64::from).collect();
    ensure_eq!(out.to_vec(&stream)?, wanted);
    Ok(())
}

/// Size, alignment, and the offset behind a byte, of every vector type.
fn layout_of_vectors(device: &TestDevice) -> TestResult {
    macro_rules! table {
        ($($name:ident)+) => {
            [$({
                #[repr(C)]
                struct After {
                    byte: u8,
                    vector: vector::$name,
                }
                let at = std::mem::offset_of!(After, vector);
                (stringify!($name), [size_of::<vector::$name>(), align_of::<vector::$name>(), at])
            }),+]
        };
    }
    let table = table! {
        Char1 Char2 Char3 Char4 UChar1 UChar2 UChar3 UChar4
        Short1 Short2 Short3 Short4 UShort1 UShort2 UShort3 UShort4
        Int1 Int2 Int3 Int4 UInt1 UInt2 UInt3 UInt4
        LongLong1 LongLong2 LongLong3 LongLong4 ULongLong1 ULongLong2 ULongLong3 ULongLong4
        Float1 Float2 Float3 Float4 Double1 Double2 Double3 Double4
    };
    let stream = device.stream()?;
    let kernel = device.kernel(&LAYOUT, "layout")?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 3 * table.len() + 2)?;
    // SAFETY: `layout` writes three words for each type, and two more.
    unsafe { device.launch(&kernel, &stream, (1, 1), (&mut out,)) }?;
    let got = out.to_vec(&stream)?;
    let (rows, rest) = got.as_chunks::<3>();
    ensure_eq!(rows.len(), table.len());
    for (row, (name, wanted)) in rows.iter().zip(table) {
        ensure_eq!(row.map(|value| value as usize), wanted, "{name}");
    }
    ensure_eq!(rest, [1, 1], "components follow each other");
    Ok(())
}

fn twenty_four(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&ARGUMENTS, "many")?;
    let mut out = DeviceBuffer::<u64>::zeroed(&stream, 23)?;
    let v = device.rng(41);
    let values: Vec<u64> = (0..23)
        .scan(v, |rng, i| Some(if i % 2 == 0 { rng.next() >> 32 } else { rng.next() }))
        .collect();
    let (w, d) = (|i: usize| values[i] as u32, |i: usize| values[i]);
    let arguments = (
        w(0),
        d(1),
        w(2),
        d(3),
        w(4),
        d(5),
        w(6),
        d(7),
        w(8),
        d(9),
        w(10),
        d(11),
        w(12),
        d(13),
        w(14),
        d(15),
        w(16),
        d(17),
        w(18),
        d(19),
        w(20),
        d(21),
        w(22),
        &mut out,
    );
    // SAFETY: `many` takes 32 and 64 bits in turn, and writes 23 words.
    unsafe { device.launch(&kernel, &stream, (1, 1), arguments) }?;
    ensure_eq!(out.to_vec(&stream)?, values);
    Ok(())
}

fn none(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&ARGUMENTS, "none")?;
    // SAFETY: `none` takes no arguments and does nothing.
    unsafe { device.launch(&kernel, &stream, (100, 64), ()) }?;
    stream.synchronize()?;
    Ok(())
}

/// Buffers and views, by reference and by value, and plain addresses.
fn memory_in_all_ways(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let typed = device.kernel(&ARGUMENTS, "typed")?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0, 4.0])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let (a, n, shape) = (1.0_f32, 4_u32, (1, 32));
    // SAFETY: typed(float, const float*, float*, unsigned) touches n elements, of which there are
    // enough in each of these.
    unsafe {
        device.launch(&typed, &stream, shape, (a, &x, &mut y, n))?;
        device.launch(&typed, &stream, shape, (a, x.as_slice(), y.as_slice_mut(), n))?;
        device.launch(&typed, &stream, shape, (a, &x.as_slice(), &mut y.as_slice_mut(), n))?;
        device.launch(&typed, &stream, shape, (a, x.device_ptr(), y.device_ptr(), n))?;
        device.launch(&typed, &stream, shape, (a, x.slice(2..)?, y.slice_mut(2..)?, 2_u32))?;
        let fours = y.as_slice_mut().cast_mut::<[f32; 4]>()?;
        device.launch(&typed, &stream, shape, (a, x.as_slice().cast::<[f32; 2]>()?, fours, n))?;
    }
    ensure_eq!(y.to_vec(&stream)?, [5.0, 10.0, 18.0, 24.0]);
    Ok(())
}

fn mistakes_are_named(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let typed = device.kernel(&ARGUMENTS, "typed")?;
    let scalars = device.kernel(&ARGUMENTS, "none")?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 4)?;
    let doubles = DeviceBuffer::<f64>::zeroed(&stream, 4)?;
    let (a, n) = (1.0_f32, 4_u32);

    mistake(&typed, &stream, (a, &x, &mut y), None, "takes 4 arguments, 3 given")?;
    mistake(&typed, &stream, (a, &x, &mut y, n, n), None, "takes 4 arguments, 5 given")?;
    mistake(&typed, &stream, (), None, "takes 4 arguments, 0 given")?;
    mistake(&scalars, &stream, (n,), None, "takes 0 arguments, 1 given")?;
    mistake(
        &typed,
        &stream,
        (1.0_f64, &x, &mut y, n),
        Some(0),
        "has 8 bytes, the kernel's `float` 4",
    )?;
    mistake(
        &typed,
        &stream,
        (a, &x, &mut y, 4_u64),
        Some(3),
        "has 8 bytes, the kernel's `unsigned int` 4",
    )?;
    mistake(&typed, &stream, (1_u32, &x, &mut y, n), Some(0), "is an integer")?;
    mistake(&typed, &stream, (a, &x, &mut y, 4.0_f32), Some(3), "is a float")?;
    mistake(&typed, &stream, (a, 1.0_f64, &mut y, n), Some(1), "is a float")?;
    mistake(&typed, &stream, (a, &doubles, &mut y, n), Some(1), "does not fit")?;
    mistake(&typed, &stream, (a, &x, &mut words, n), Some(2), "does not fit")?;
    mistake(&typed, &stream, (a, &x, &x, n), Some(2), "may only be read")?;
    mistake(&typed, &stream, (a, &x, &mut y, Mixed::nothing()), Some(3), "has 80 bytes")?;

    // What is right is still right afterwards.
    // SAFETY: typed(float, const float*, float*, unsigned) touches that many elements.
    unsafe { device.launch(&typed, &stream, (1, 32), (a, &x, &mut y, n)) }?;
    ensure_eq!(y.to_vec(&stream)?, [0.0; 4]);
    Ok(())
}

impl Mixed {
    fn nothing() -> Self {
        Self {
            tag: 0,
            low: Float4::zeroed(),
            count: 0,
            weight: 0.0,
            high: Float4::zeroed(),
            flags: [0; 3],
        }
    }
}

/// The launch is refused, before the driver is asked, with a message that names the argument.
fn mistake<A: KernelArgs>(
    kernel: &Kernel,
    stream: &Stream,
    arguments: A,
    wanted: Option<usize>,
    part: &str,
) -> TestResult {
    // SAFETY: arguments that don't fit are refused.
    let error = match unsafe { kernel.launch(stream, (1, 32), arguments) } {
        Ok(()) => return Err(Failure::new(format!("launched, instead of: {part}"))),
        Err(error) => error,
    };
    ensure!(error.call().is_none(), "{error}");
    match error.kind() {
        ErrorKind::Argument { kernel: name, index, .. } => {
            // As the source has it.
            ensure_eq!(
                *name,
                ptx::mangled::function(kernel.name()).unwrap_or_else(|| kernel.name().into())
            );
            ensure_eq!(*index, wanted, "{error}");
        }
        _ => return Err(error.into()),
    }
    ensure!(error.to_string().contains(part), "{error} lacks {part:?}");
    Ok(())
}

//! Device buffers and views: making, filling, copying, taking apart.

use std::fmt::Debug;

use bytemuck::{Pod, Zeroable};
use cuda_safe::vector::{Double2, Float4};
use cuda_safe::{DeviceBuffer, ErrorKind, LaunchConfig, Stream};
use ndarray::{Array2, Array3, s};

use super::SIZES;
use test_harness::programs::Basic;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
    first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "buffers",
        device(there_and_back),
        device(zeroed),
        device(upload_and_download),
        device(lengths_must_agree),
        device(ranges),
        device(split),
        device(cast),
        device(fill),
        device(fill_where_nothing_is_aligned),
        device(copies_on_the_device),
        device(not_yet_written),
        device(empty),
        device(versions_count_writes),
        device(too_many_elements),
        device(ndarray),
    ]
}

fn there_and_back(device: &TestDevice) -> TestResult {
    fn bytes_of<T: Pod + PartialEq + Debug>(
        device: &TestDevice,
        stream: &Stream,
        bytes: &[u8],
    ) -> TestResult {
        let count = bytes.len() / size_of::<T>();
        let pieces = bytes.chunks_exact(size_of::<T>());
        let elements: Vec<T> = pieces.map(bytemuck::pod_read_unaligned).collect();
        let buffer = DeviceBuffer::from_slice(stream, &elements)?;
        ensure_eq!(buffer.len(), count);
        ensure_eq!(buffer.size_bytes(), count * size_of::<T>());
        ensure!(buffer.device_ptr().is_multiple_of(align_of::<T>() as u64));
        ensure_eq!(buffer.home_stream(), stream);
        ensure_eq!(buffer.home_stream().context(), *device.context());
        let back = buffer.to_vec(stream)?;
        first_difference(bytemuck::cast_slice::<T, u8>(&back), bytemuck::cast_slice(&elements))
    }
    let stream = device.stream()?;
    let mut rng = device.rng(3);
    for n in SIZES {
        let bytes = rng.bytes(n);
        bytes_of::<u8>(device, &stream, &bytes)?;
        bytes_of::<[u8; 3]>(device, &stream, &bytes)?;
        bytes_of::<i16>(device, &stream, &bytes)?;
        bytes_of::<f32>(device, &stream, &bytes)?;
        bytes_of::<[u32; 3]>(device, &stream, &bytes)?;
        bytes_of::<f64>(device, &stream, &bytes)?;
        bytes_of::<Float4>(device, &stream, &bytes)?;
        bytes_of::<u128>(device, &stream, &bytes)?;
        bytes_of::<half::f16>(device, &stream, &bytes)?;
    }
    Ok(())
}

fn zeroed(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for n in SIZES {
        // Memory that is used again, and not zero.
        drop(DeviceBuffer::from_slice(&stream, &vec![0xffff_ffff_u32; n])?);
        let buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        first_difference(&buffer.to_vec(&stream)?, &vec![0; n])?;
    }
    Ok(())
}

fn upload_and_download(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(4);
    for n in SIZES {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let words = rng.words(n);
        buffer.upload(&stream, &words)?;
        let mut back = vec![0; n];
        buffer.download(&stream, &mut back)?;
        first_difference(&back, &words)?;
    }
    Ok(())
}

fn lengths_must_agree(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 4)?;
    let other = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    let failures = [
        buffer.upload(&stream, &[1, 2, 3]),
        buffer.download(&stream, &mut [0; 5]),
        buffer.copy_from(&stream, &other),
        buffer.slice(2..5).map(drop),
        buffer.slice(5..).map(drop),
        #[expect(clippy::reversed_empty_ranges, reason = "the mistake to be refused")]
        buffer.slice_mut(3..2).map(drop),
        buffer.slice_mut(..=4).map(drop),
        buffer.slice(..=usize::MAX).map(drop),
        buffer.split_at_mut(5).map(drop),
    ];
    for (index, result) in failures.iter().enumerate() {
        let kind = result.as_ref().map_err(cuda_safe::Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{index}: {result:?}");
    }
    ensure_eq!(buffer.to_vec(&stream)?, [0; 4]);
    Ok(())
}

fn ranges(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(5);
    let mut model = rng.words(1000);
    let mut buffer = DeviceBuffer::from_slice(&stream, &model)?;
    for _ in 0..200 {
        let start = rng.below(1001);
        let end = start + rng.below(1001 - start);
        let words = rng.words(end - start);
        let mut view = buffer.slice_mut(start..end)?;
        ensure_eq!(view.byte_range(), 4 * start..4 * end);
        view.upload(&stream, &words)?;
        model[start..end].copy_from_slice(&words);

        // A view of a view.
        let inner = rng.below(end - start + 1);
        let got = view.slice_mut(inner..)?.to_vec(&stream)?;
        first_difference(&got, &words[inner..])?;
        let view = buffer.slice(start..end)?.slice(..inner)?;
        first_difference(&view.to_vec(&stream)?, &words[..inner])?;
    }
    first_difference(&buffer.to_vec(&stream)?, &model)
}

fn split(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    for (n, middle) in [(2, 1), (33, 32), (1000, 0), (1000, 1000), (1000, 333)] {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let (mut low, mut high) = buffer.split_at_mut(middle)?;
        ensure_eq!((low.len(), high.len()), (middle, n - middle));
        device.count(basic.fill(&stream, (1, 64), &mut low, middle as u64, 1))?;
        device.count(basic.fill(&stream, (1, 64), &mut high, (n - middle) as u64, 2))?;
        let (low, high) = buffer.as_slice().split_at(middle)?;
        first_difference(&low.to_vec(&stream)?, &vec![1; middle])?;
        first_difference(&high.to_vec(&stream)?, &vec![2; n - middle])?;
    }
    Ok(())
}

fn cast(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let words: Vec<u32> = device.rng(6).words(36);
    let buffer = DeviceBuffer::from_slice(&stream, &words)?;
    ensure_eq!(buffer.as_slice().cast::<u8>()?.len(), 144);
    let pairs = buffer.as_slice().cast::<[u32; 2]>()?.to_vec(&stream)?;
    first_difference(pairs.as_flattened(), &words)?;
    ensure!(buffer.slice(..35)?.cast::<u64>().is_err(), "140 bytes are no whole number of u64");
    ensure!(buffer.slice(1..5)?.cast::<u128>().is_err(), "4 bytes in is not aligned for u128");
    ensure!(buffer.slice(4..8)?.cast::<u128>().is_ok());

    let buffer = buffer.cast::<f64>()?;
    ensure_eq!(buffer.len(), 18);
    // A failed cast gives the buffer back.
    let mut buffer = match buffer.cast::<[u8; 7]>() {
        Err(refused) => refused.into_inner(),
        Ok(_) => return Err(Failure::new("144 bytes were taken as elements of 7")),
    };
    let mut bytes = buffer.as_slice_mut().cast_mut::<u8>()?;
    bytes.slice_mut(..8)?.fill(&stream, 0)?;
    ensure_eq!(buffer.slice(..1)?.to_vec(&stream)?, [0.0]);
    Ok(())
}

fn fill(device: &TestDevice) -> TestResult {
    fn with<T: Pod + PartialEq + Debug>(stream: &Stream, value: T) -> TestResult {
        for n in [0, 1, 31, 33, 1000, 70_001] {
            let mut buffer = DeviceBuffer::<T>::zeroed(stream, n + 2)?;
            buffer.slice_mut(1..=n)?.fill(stream, value)?;
            let mut wanted = vec![value; n + 2];
            (wanted[0], wanted[n + 1]) = (T::zeroed(), T::zeroed());
            first_difference(&buffer.to_vec(stream)?, &wanted)?;
        }
        Ok(())
    }
    let stream = device.stream()?;
    with(&stream, 0xa5_u8)?;
    with(&stream, 0xa1b2_u16)?;
    with(&stream, [1_u8, 2, 3])?;
    with(&stream, 0xdead_beef_u32)?;
    with(&stream, -1.5_f32)?;
    with(&stream, 0x0123_4567_89ab_cdef_u64)?;
    with(&stream, [7_u32, 8, 9])?;
    with(&stream, Float4::new(1.0, 2.0, 3.0, 4.0))?;
    with(&stream, Double2::new(0.1, 0.2))?;
    with(&stream, [3_u32; 5])?;
    // Larger than what is uploaded at once: 300 KiB.
    let large: [[[u8; 1024]; 30]; 10] =
        std::array::from_fn(|i| std::array::from_fn(|j| [(30 * i + j) as u8; 1024]));
    let mut buffer = DeviceBuffer::zeroed(&stream, 3)?;
    buffer.fill(&stream, large)?;
    let got: Vec<u8> = buffer.as_slice().cast()?.to_vec(&stream)?;
    let wanted = large.as_flattened().as_flattened().repeat(3);
    first_difference(&got, &wanted)
}

fn fill_where_nothing_is_aligned(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for offset in 1..4 {
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 4099)?;
        let view = buffer.slice_mut(offset..offset + 4000)?;
        // Arrays of bytes may lie anywhere, unlike the words that the driver would fill with.
        let mut words = view.cast_mut::<[u8; 4]>()?;
        words.fill(&stream, [1, 2, 3, 4])?;
        let mut wanted = vec![0; 4099];
        wanted[offset..offset + 4000].copy_from_slice(&[1, 2, 3, 4].repeat(1000));
        first_difference(&buffer.to_vec(&stream)?, &wanted)?;

        let mut pairs = buffer.slice_mut(offset..offset + 4000)?.cast_mut::<[u8; 2]>()?;
        pairs.fill(&stream, [9, 8])?;
        wanted[offset..offset + 4000].copy_from_slice(&[9, 8].repeat(2000));
        first_difference(&buffer.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

fn copies_on_the_device(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(7);
    for n in SIZES {
        let words = rng.words(n);
        let source = DeviceBuffer::from_slice(&stream, &words)?;
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, n + 3)?;
        target.slice_mut(1..=n)?.copy_from(&stream, &source)?;
        let mut wanted = vec![0; n + 3];
        wanted[1..=n].copy_from_slice(&words);
        first_difference(&target.to_vec(&stream)?, &wanted)?;

        let clone = source.try_clone(&stream)?;
        ensure!(n == 0 || clone.device_ptr() != source.device_ptr());
        drop(source);
        first_difference(&clone.to_vec(&stream)?, &words)?;
    }
    Ok(())
}

fn not_yet_written(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let words = device.rng(8).words(1000);
    let buffer = DeviceBuffer::<std::mem::MaybeUninit<u32>>::uninit(&stream, 1000)?;
    let buffer = buffer.init_from(&stream, &words)?;
    first_difference(&buffer.to_vec(&stream)?, &words)?;

    // Written by a kernel, through a pointer to what is not initialised yet.
    let mut buffer = DeviceBuffer::<std::mem::MaybeUninit<u32>>::uninit(&stream, 1000)?;
    let iota = basic.iota_kernel();
    // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
    unsafe {
        device.launch(iota, &stream, LaunchConfig::cover(1000, 128), (&mut buffer, 1000_u64, 5_u32))
    }?;
    // SAFETY: the launch above writes every element.
    let buffer = unsafe { buffer.assume_init() };
    first_difference(&buffer.to_vec(&stream)?, &(5..1005).collect::<Vec<_>>())
}

fn empty(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let mut buffer = DeviceBuffer::<Float4>::zeroed(&stream, 0)?;
    ensure!(buffer.is_empty());
    ensure_eq!(buffer.device_ptr(), 0);
    buffer.upload(&stream, &[])?;
    buffer.fill(&stream, Float4::zeroed())?;
    buffer.download(&stream, &mut [])?;
    ensure_eq!(buffer.to_vec(&stream)?, []);
    let clone = buffer.try_clone(&stream)?;
    buffer.copy_from(&stream, &clone)?;
    let words = buffer.cast::<u32>()?;
    ensure_eq!(words.len(), 0);
    let mut words = words;
    let (low, high) = words.split_at_mut(0)?;
    ensure!(low.is_empty() && high.is_empty());
    // A kernel may be given nothing.
    device.count(basic.fill(&stream, (1, 32), &mut words, 0, 1))?;
    ensure_eq!(words.into_raw().ok(), Some(0));
    Ok(())
}

fn versions_count_writes(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let version = |buffer: &DeviceBuffer<u32>, range: std::ops::Range<usize>| {
        buffer.allocation().version(4 * range.start..4 * range.end)
    };
    let before = version(&buffer, 0..100);
    let _ = buffer.to_vec(&stream)?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    device.count(basic.copy(&stream, (1, 128), &buffer, &mut out, 100))?;
    ensure_eq!(version(&buffer, 0..100), before, "reading changes nothing");

    device.count(basic.fill(&stream, (1, 128), buffer.slice_mut(..50)?, 50, 1))?;
    ensure!(version(&buffer, 0..50) > before);
    ensure_eq!(version(&buffer, 50..100), before, "the other half");
    let low = version(&buffer, 0..50);
    buffer.slice_mut(50..51)?.upload(&stream, &[1])?;
    ensure!(version(&buffer, 50..51) > low);
    ensure_eq!(version(&buffer, 51..100), before);
    buffer.fill(&stream, 3)?;
    ensure!(version(&buffer, 99..100) > before);
    Ok(())
}

fn too_many_elements(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let result = DeviceBuffer::<u32>::zeroed(&stream, usize::MAX / 2);
    let kind = result.as_ref().map_err(cuda_safe::Error::kind);
    ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{result:?}");
    Ok(())
}

fn ndarray(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let array = Array3::from_shape_fn((3, 5, 7), |(i, j, k)| (100 * i + 10 * j + k) as f32);
    let buffer = DeviceBuffer::from_array(&stream, &array)?;
    ensure_eq!(buffer.to_array(&stream, (3, 5, 7))?, array);
    // In row-major order whatever the array's own layout is.
    let transposed = array.slice(s![1, .., ..]).reversed_axes();
    let buffer = DeviceBuffer::from_array(&stream, &transposed)?;
    let back: Array2<f32> = buffer.to_array(&stream, (7, 5))?;
    ensure_eq!(back, transposed);
    ensure_refused(buffer.to_array(&stream, (7, 6)))?;
    Ok(())
}

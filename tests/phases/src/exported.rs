//! Kernels by what `cuda_safe::kernel` exports.

use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::{Atomic, Device, device, kernel};

#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Pair(u32, [f32; 2]);

#[device]
impl Pair {
    fn at(&self, k: usize) -> &f32 {
        &self.1[k]
    }

    fn swapped(mut self) -> Pair {
        let [a, b] = self.1;
        self.1 = [b, a];
        Pair(self.0 + 1, self.1)
    }
}

#[device]
fn put(to: &mut [f32; 3], k: usize, value: f32) {
    to[k] = value;
}

#[kernel]
fn histogram(data: &[u32], pairs: &[Pair], bins: &Atomic<[u32]>, out: &mut [Pair]) {
    assert!(data.len() == out.len() && !pairs.is_empty());
    let last = pairs.len() - 1;
    each(out, |i, out| {
        const BINS: u32 = 16;
        bins.fetch_add((data[i] % BINS) as usize, 1);
        let pair = &pairs[i.min(last)];
        let mut all = [0.0; 3];
        put(&mut all, 2, *pair.at(1));
        for (k, value) in all.iter_mut().enumerate() {
            *value += k as f32;
        }
        let mut sum = 0.0;
        for value in all {
            sum += value;
        }
        *out = pair.swapped();
        out.1[0] += sum;
    });
}

#[test]
fn kernels_of_cuda_safe_share_memory_by_atomics() {
    let _alone = crate::alone();
    let stream = crate::stream();
    let data: Vec<u32> = (0..1000).map(|i| i * i).collect();
    let pairs: Vec<Pair> = (0..250u8).map(|i| Pair(u32::from(i), [f32::from(i), 0.5])).collect();
    let mut bins = vec![0u32; 16];
    let mut out = vec![Pair(0, [0.0; 2]); 1000];
    histogram::cpu(&data, &pairs, Atomic::from_mut(&mut bins), &mut out).unwrap();
    let (d, p) = (
        DeviceBuffer::from_slice(&stream, &data).unwrap(),
        DeviceBuffer::from_slice(&stream, &pairs).unwrap(),
    );
    let mut b = DeviceBuffer::<u32>::zeroed(&stream, 16).unwrap();
    let mut o = DeviceBuffer::from_slice(&stream, &vec![Pair(0, [0.0; 2]); 1000]).unwrap();
    histogram::launch(&stream, &d, &p, &mut b, &mut o).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), bins);
    assert_eq!(
        bytemuck::cast_slice::<_, u8>(&o.to_vec(&stream).unwrap()),
        bytemuck::cast_slice::<_, u8>(&out)
    );
    let error =
        histogram::launch(&stream, &d, &p, &mut b, &mut o.slice_mut(..10).unwrap()).unwrap_err();
    assert!(error.to_string().contains("data.len() = 1000, out.len() = 10"), "{error}");
}

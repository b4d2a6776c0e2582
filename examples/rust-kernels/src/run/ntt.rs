use cuda_safe::DeviceBuffer;
use rust_kernels::ntt::{LENGTH, MODULUS, forward, inverse, power, roots};

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let blocks = setting.size(4000, 8) + 1;
    let mut random = Random::new(17);
    let mut x: Vec<u32> =
        (0..blocks * LENGTH).map(|_| random.below(MODULUS as usize) as u32).collect();
    // The largest values.
    x[..LENGTH].fill(MODULUS - 1);

    let (there, back) = (roots(false), roots(true));
    let (mut cpu, mut again) = (vec![0; x.len()], vec![0; x.len()]);
    forward::cpu(&there, &x, &mut cpu)?;
    inverse::cpu(&back, &cpu, &mut again)?;
    same(&x, &again)?;

    let there = DeviceBuffer::from_slice(stream, &there)?;
    let back = DeviceBuffer::from_slice(stream, &back)?;
    let on_device = DeviceBuffer::from_slice(stream, &x)?;
    let mut out = DeviceBuffer::<u32>::zeroed(stream, x.len())?;
    forward::launch(stream, &there, &on_device, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;
    let mut out_again = DeviceBuffer::<u32>::zeroed(stream, x.len())?;
    inverse::launch(stream, &back, &out, &mut out_again)?;
    same(&x, &out_again.to_vec(stream)?)?;

    // By the definition, in some blocks.
    let root = power(3, (MODULUS - 1) / LENGTH as u32);
    let powers: Vec<u64> = (0..LENGTH).map(|k| u64::from(power(root, k as u32))).collect();
    for block in [0, blocks / 2, blocks - 1] {
        let (x, found) = (&x[block * LENGTH..][..LENGTH], &cpu[block * LENGTH..][..LENGTH]);
        for k in 0..LENGTH {
            let terms = x.iter().enumerate().map(|(j, x)| u64::from(*x) * powers[j * k % LENGTH]);
            let exact =
                terms.map(|term| term % u64::from(MODULUS)).sum::<u64>() % u64::from(MODULUS);
            let at = k.reverse_bits() >> (usize::BITS - LENGTH.ilog2());
            if u64::from(found[at]) != exact {
                return Err(
                    format!("result {k} of block {block} is {}, not {exact}", found[at]).into()
                );
            }
        }
    }
    Ok(format!("{blocks} blocks of {LENGTH} values"))
}

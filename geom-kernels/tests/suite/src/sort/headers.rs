//! The device headers of the sort in users' kernels: what blocks tell each other, in states that a
//! run of a whole sort meets only by chance.

use cuda_safe::{DeviceBuffer, KernelSource, LaunchConfig};

use test_harness::{Case, TestDevice, TestResult, cases, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "geometry",
        device(look_back_adds_tiles_and_groups = look_back),
        device(chains_add_what_tiles_have_told),
        device(blocks_wait_for_what_is_not_told_yet),
        device(digits_are_counted_in_kernels_of_ones_own),
    ]
}

const SOURCE: &str = r#"
#include <geom/sort/chain.cuh>
#include <geom/sort/radix_sort.cuh>
using namespace geom::sort;

extern "C" __global__ void look(unsigned index, unsigned groups, unsigned tiles, unsigned tile,
                                const unsigned* state, unsigned* sums) {
    Pass pass = {};
    pass.index = index;
    pass.stride = RADIX;
    pass.groups = groups;
    pass.tiles = tiles;
    sums[threadIdx.x] = look_back(pass, state, tile, threadIdx.x);
}

extern "C" __global__ void chain_u32(unsigned tile, unsigned tiles, unsigned own,
                                     unsigned long long* state, unsigned* sums) {
    sums[threadIdx.x] = chain_sum(state, tile, tiles, own);
}

extern "C" __global__ void chain_u64(unsigned tile, unsigned tiles, unsigned long long own,
                                     unsigned long long* state, unsigned long long* sums) {
    sums[threadIdx.x] = chain_sum(state, tile, tiles, own);
}

// Block 0 looks back from tile 20, block 1 tells it what is missing: last what is needed first.
extern "C" __global__ void wait_for_tiles(unsigned* state, unsigned* sums) {
    Pass pass = {};
    pass.stride = RADIX;
    pass.groups = 0;
    pass.tiles = 2 * RADIX;
    if (blockIdx.x == 0) {
        sums[threadIdx.x] = look_back(pass, state, 20, threadIdx.x);
        return;
    }
    for (unsigned tile = 0; tile < 16; tile++) {
        add_to_word(state + 2 * threadIdx.x, 1u << MEMBERS_SHIFT | (tile + threadIdx.x));
    }
    for (unsigned tile = 20; tile-- > 16;) {
        store_word(state + pass.tiles + tile * RADIX + threadIdx.x, 1u << TAG_SHIFT | tile);
    }
}

// Warp 0 of block 0 sums up what is before tile 40, block 1 tells it.
extern "C" __global__ void wait_for_chain(unsigned long long* state, unsigned long long* sums) {
    if (blockIdx.x == 0) {
        sums[threadIdx.x] = chain_sum(state, 40, 50, 1ull);
        return;
    }
    const unsigned long long large = 1ull << 40;
    if (threadIdx.x == 0) {
        for (unsigned tile = 0; tile < 40; tile++) tell(state, tile, 50, CHAIN_OWN, large + tile);
        tell(state, 0, 50, CHAIN_ALL, large);
    }
}

extern "C" __global__ void count(const unsigned long long* keys, unsigned n, unsigned* state) {
    __shared__ DigitCounts<3> counts;
    const Digits digits = {5, 3, 6, 2}; // 7, 7 and 6 bits from the 5th on
    counts.clear();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        counts.add(digits, keys[i]);
    }
    counts.flush(digits, state);
}
"#;

fn look_back(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(521));
    let module = geom_kernels::program(SOURCE).load_kernels(device.context(), &[])?;
    let kernel = module.kernel("look")?;
    let (index, groups_at, group, tiles) = (2u32, 64, 16, 90);
    let tiles_at = groups_at + tiles / group * 512 + 512;
    let counts: Vec<Vec<u32>> =
        (0..tiles).map(|_| (0..256).map(|_| rng.below(4097) as u32).collect()).collect();
    for tile in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 47, 64, 79, 80, 89] {
        // Which groups have told what there is up to their ends: none, all, one of them.
        for told in [vec![], (0..tile / group).collect(), vec![0], vec![2], vec![tile / group / 2]]
        {
            let mut state = vec![0u32; tiles_at + tiles * 256];
            let mut sums = vec![0u32; 256];
            for (t, counts) in counts.iter().enumerate() {
                for (digit, count) in counts.iter().enumerate() {
                    // Tiles that are not before this one have told things in the pass before.
                    let tag = if t < tile { index + 1 } else { index };
                    state[tiles_at + t * 256 + digit] = tag << 16 | count;
                    if t >= tile {
                        continue;
                    }
                    sums[digit] += count;
                    let at = groups_at + 2 * (t / group * 256 + digit);
                    state[at] += 1 << 20 | count;
                    if t % group == group - 1 && told.contains(&(t / group)) {
                        state[at + 1] = 1 << 31 | sums[digit];
                    }
                }
            }
            let state = DeviceBuffer::from_slice(&stream, &state)?;
            let mut found = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
            let arguments =
                (index, groups_at as u32, tiles_at as u32, tile as u32, &state, &mut found);
            // SAFETY: `look`'s parameters; the state has the words of all tiles and groups before `tile`,
            // and there is a sum for each thread.
            unsafe { device.launch(&kernel, &stream, LaunchConfig::new(1, 256), arguments)? };
            first_difference(&found.to_vec(&stream)?, &sums)?;
        }
    }
    Ok(())
}

fn chains_add_what_tiles_have_told(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(522));
    let module = geom_kernels::program(SOURCE).load_kernels(device.context(), &[])?;
    let (short, long) = (module.kernel("chain_u32")?, module.kernel("chain_u64")?);
    let tiles = 200;
    let own: Vec<u64> = (0..tiles).map(|_| rng.next() >> 3).collect();
    for tile in [0usize, 1, 31, 32, 33, 64, 100, 199] {
        // The first tile always knows all; of the others none does, some do, all do.
        for knows in
            [|t| t == 0, |t| t % 40 == 0, |t| t % 7 == 0, |_| true] as [fn(usize) -> bool; 4]
        {
            let (mut sum, mut words, mut halves) = (0u64, vec![0; 401], vec![0; 401]);
            for t in 0..tile {
                let before = sum;
                sum = sum.wrapping_add(own[t]);
                let kind = if knows(t) { 2 << 32 } else { 1 << 32 };
                let told = if knows(t) { sum } else { sum.wrapping_sub(before) };
                words[1 + t] = kind | told & 0xffff_ffff;
                halves[1 + t] = words[1 + t];
                halves[1 + tiles + t] = kind | told >> 32;
            }
            let mut state = DeviceBuffer::<u64>::from_slice(&stream, &words)?;
            let mut found = DeviceBuffer::<u32>::zeroed(&stream, 32)?;
            let (at, all) = (tile as u32, tiles as u32);
            let arguments = (at, all, own[tile] as u32, &mut state, &mut found);
            // SAFETY: `chain_u32`'s parameters; a word for each tile and one before, a sum for each lane.
            unsafe { device.launch(&short, &stream, LaunchConfig::new(1, 32), arguments)? };
            first_difference(&found.to_vec(&stream)?, &[sum as u32; 32])?;
            let after = sum.wrapping_add(own[tile]);
            ensure_eq!(state.to_vec(&stream)?[1 + tile], 2 << 32 | after & 0xffff_ffff);

            state.upload(&stream, &halves)?;
            let mut found = DeviceBuffer::<u64>::zeroed(&stream, 32)?;
            let arguments = (at, all, own[tile], &mut state, &mut found);
            // SAFETY: `chain_u64`'s parameters; two words for each tile and one before, a sum for each lane.
            unsafe { device.launch(&long, &stream, LaunchConfig::new(1, 32), arguments)? };
            first_difference(&found.to_vec(&stream)?, &[sum; 32])?;
            let state = state.to_vec(&stream)?;
            ensure_eq!(state[1 + tile], 2 << 32 | after & 0xffff_ffff);
            ensure_eq!(state[1 + tiles + tile], 2 << 32 | after >> 32);
        }
    }
    Ok(())
}

fn blocks_wait_for_what_is_not_told_yet(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = geom_kernels::program(SOURCE).load_kernels(device.context(), &[])?;
    let (tiles, chain) = (module.kernel("wait_for_tiles")?, module.kernel("wait_for_chain")?);
    let mut state = DeviceBuffer::<u32>::zeroed(&stream, 2 * 256 + 20 * 256)?;
    let mut found = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
    // SAFETY: `wait_for_tiles`' parameters; the state has the words of two groups' worth of tiles before the
    // 20th and those of a group, and there is a sum for each thread. Both blocks are on the device at once.
    unsafe { device.launch(&tiles, &stream, LaunchConfig::new(2, 256), (&mut state, &mut found))? };
    let sums: Vec<u32> = (0..256).map(|digit| (0..20).sum::<u32>() + 16 * digit).collect();
    first_difference(&found.to_vec(&stream)?, &sums)?;

    let mut state = DeviceBuffer::<u64>::zeroed(&stream, 101)?;
    let mut found = DeviceBuffer::<u64>::zeroed(&stream, 32)?;
    // SAFETY: `wait_for_chain`'s parameters; two words for each of 50 tiles and one before, a sum for each
    // lane. Both blocks are on the device at once.
    unsafe { device.launch(&chain, &stream, LaunchConfig::new(2, 32), (&mut state, &mut found))? };
    first_difference(&found.to_vec(&stream)?, &[(0..40).sum::<u64>() + (40 << 40); 32])
}

fn digits_are_counted_in_kernels_of_ones_own(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(523));
    let module = geom_kernels::program(SOURCE).load_kernels(device.context(), &[])?;
    let kernel = module.kernel("count")?;
    let keys: Vec<u64> = (0..20_000).map(|_| rng.next()).collect();
    let mut wanted = vec![0u32; 32 + 8 * 256];
    for key in &keys {
        for (pass, (shift, width)) in [(5, 7), (12, 7), (19, 6)].into_iter().enumerate() {
            wanted[32 + pass * 256 + (key >> shift & ((1 << width) - 1)) as usize] += 1;
        }
    }
    let device_keys = DeviceBuffer::from_slice(&stream, &keys)?;
    let mut state = DeviceBuffer::<u32>::zeroed(&stream, wanted.len())?;
    let arguments = (&device_keys, keys.len() as u32, &mut state);
    // SAFETY: `count`'s parameters; it reads n keys and adds to the words of the counts.
    unsafe { device.launch(&kernel, &stream, LaunchConfig::new(7, 128), arguments)? };
    first_difference(&state.to_vec(&stream)?, &wanted)
}

//! Clusters of several blocks: special registers, shared memory of other blocks, the cluster's barrier.

use cuda_emu::exec::Program;
use cuda_sys::CUresult;

use crate::device::{Device, Shape, shape};

/// Sizes of clusters, and grids that they divide.
pub(super) const CLUSTERS: [([u32; 3], [u32; 3]); 11] = [
    ([1, 1, 1], [5, 1, 1]),
    ([2, 1, 1], [2, 1, 1]),
    ([2, 1, 1], [14, 1, 1]),
    ([4, 1, 1], [12, 3, 1]),
    ([8, 1, 1], [16, 1, 1]),
    ([16, 1, 1], [32, 1, 1]),
    ([2, 4, 1], [6, 8, 1]),
    ([1, 2, 1], [3, 4, 2]),
    ([1, 1, 8], [2, 3, 16]),
    ([2, 2, 2], [4, 6, 2]),
    ([4, 2, 2], [8, 4, 4]),
];

pub(super) fn head(body: &str) -> String {
    format!(".version 8.4\n.target sm_90\n.address_size 64\n{body}")
}

/// Devices with each number of workers and each order of blocks.
fn devices() -> impl Iterator<Item = Device> {
    let orders = [
        (1, None),
        (2, None),
        (4, Some(1)),
        (1, Some(2)),
        (2, Some(3)),
        (1, Some(4)),
        (3, Some(5)),
    ];
    orders.into_iter().map(|(workers, seed)| {
        let mut device = Device::new(workers);
        device.config.block_order_seed = seed;
        device
    })
}

pub(super) fn load(device: &Device, text: &str) -> Program {
    device.load(text).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn clustered(cluster: [u32; 3], grid: [u32; 3], threads: u32) -> Shape {
    Shape { grid, cluster: Some(cluster), ..shape(1, threads) }
}

/// `%ctaid` of each block, in the order of its number.
fn blocks([x, y, z]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..z).flat_map(move |c| (0..y).flat_map(move |b| (0..x).map(move |a| [a, b, c])))
}

/// The number of an index in boxes of this size.
fn number([x, y, z]: [u32; 3], [width, height, _]: [u32; 3]) -> u32 {
    x + width * (y + height * z)
}

/// The block of a rank in the cluster of a block, as its number in the grid.
pub(super) fn peer(block: [u32; 3], rank: u32, cluster: [u32; 3], grid: [u32; 3]) -> u32 {
    let [x, y, _] = cluster;
    let inside = [rank % x, rank / x % y, rank / x / y];
    let index = std::array::from_fn(|at| block[at] / cluster[at] * cluster[at] + inside[at]);
    number(index, grid)
}

const REGISTERS: [&str; 17] = [
    "%clusterid.x",
    "%clusterid.y",
    "%clusterid.z",
    "%nclusterid.x",
    "%nclusterid.y",
    "%nclusterid.z",
    "%cluster_ctaid.x",
    "%cluster_ctaid.y",
    "%cluster_ctaid.z",
    "%cluster_nctaid.x",
    "%cluster_nctaid.y",
    "%cluster_nctaid.z",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%ctaid.x",
    "%nctaid.y",
    "explicit",
];

/// Reads all of `REGISTERS`, into 17 words for each block.
fn registers() -> String {
    let mut reads = String::new();
    for (at, register) in REGISTERS.iter().enumerate() {
        let read = match *register {
            "explicit" => "mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p1;".to_owned(),
            register => format!("mov.u32 %r9, {register};"),
        };
        reads.push_str(&format!("{read}\nst.global.u32 [%rd2+{}], %r9;\n", 4 * at));
    }
    head(&format!(
        ".visible .entry registers(.param .u64 out)
{{
    .reg .pred %p<2>; .reg .u32 %r<10>; .reg .u64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2;
    mad.lo.u32 %r6, %r6, %r4, %r1;
    mad.wide.u32 %rd2, %r6, 68, %rd1;
    {reads}
    ret;
}}"
    ))
}

#[test]
fn registers_say_where_a_block_is_in_its_cluster() {
    for device in devices() {
        let program = load(&device, &registers());
        for (cluster, grid) in CLUSTERS {
            for asked in [Some(cluster), None] {
                let count = grid.iter().product::<u32>() as usize;
                let out = device.upload(&vec![77u32; count * 17]);
                let launch = Shape { cluster: asked, ..clustered(cluster, grid, 1) };
                device.launch(&program, "registers", launch, &[out]).expect("no fault");
                let found = device.download::<u32>(out, count * 17);
                let size = asked.unwrap_or([1; 3]);
                for (block, found) in blocks(grid).zip(found.chunks(17)) {
                    let inside: [u32; 3] = std::array::from_fn(|at| block[at] % size[at]);
                    let mut wanted: Vec<u32> = Vec::new();
                    wanted.extend((0..3).map(|at| block[at] / size[at]));
                    wanted.extend((0..3).map(|at| grid[at] / size[at]));
                    wanted.extend(inside);
                    wanted.extend(size);
                    wanted.push(number(inside, size));
                    wanted.push(size.iter().product());
                    wanted.extend([block[0], grid[1], u32::from(asked.is_some())]);
                    assert_eq!(found, wanted, "block {block:?} of {grid:?} in {asked:?}");
                }
            }
        }
    }
}

/// Each thread writes a word to its block's shared memory, and reads that of the next block by `read`, with the rank in
/// %r7, the address of its word as %r8 and %rd8, and the value to go to %r9.
fn neighbours(before: &str, read: &str, after: &str) -> String {
    head(&format!(
        ".visible .entry neighbours(.param .u64 out)
{{
    .reg .pred %p<4>; .reg .u32 %r<20>; .reg .u64 %rd<10>;
    .shared .align 8 .b8 other[24];
    .shared .align 4 .b8 words[256];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2;
    mad.lo.u32 %r6, %r6, %r4, %r1;
    mov.u32 %r10, %tid.x; mov.u32 %r11, %ntid.x;
    mad.lo.u32 %r6, %r6, %r11, %r10;
    mad.wide.u32 %rd2, %r6, 4, %rd1;
    mov.u32 %r8, words;
    mad.lo.u32 %r8, %r10, 4, %r8;
    mov.u64 %rd8, words;
    mad.wide.u32 %rd8, %r10, 4, %rd8;
    st.shared.u32 [%r8], %r6;
    {before}
    mov.u32 %r7, %cluster_ctarank;
    mov.u32 %r12, %cluster_nctarank;
    add.u32 %r7, %r7, 1;
    rem.u32 %r7, %r7, %r12;
    {read}
    {after}
    st.global.u32 [%rd2], %r9;
    ret;
}}"
    ))
}

pub(super) const MEET: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";

const READS: [(&str, &str); 9] = [
    (
        "shared, 32 bits",
        "mapa.shared::cluster.u32 %r13, %r8, %r7; ld.shared::cluster.u32 %r9, [%r13];",
    ),
    (
        "shared, 64 bits",
        "mapa.shared::cluster.u64 %rd3, %rd8, %r7; ld.shared::cluster.u32 %r9, [%rd3];",
    ),
    ("generic", "cvta.shared.u64 %rd3, %rd8; mapa.u64 %rd3, %rd3, %r7; ld.u32 %r9, [%rd3];"),
    (
        "generic by the window of the cluster",
        "mapa.shared::cluster.u64 %rd3, %rd8, %r7; cvta.shared::cluster.u64 %rd3, %rd3; ld.relaxed.cluster.u32 %r9, [%rd3];",
    ),
    (
        "by a variable",
        "mapa.shared::cluster.u32 %r13, words, %r7; mad.lo.u32 %r13, %r10, 4, %r13; ld.shared::cluster.u32 %r9, [%r13];",
    ),
    (
        "by a variable and an offset",
        "mapa.shared::cluster.u32 %r13, words+4, %r7; mad.lo.u32 %r13, %r10, 4, %r13;
         ld.volatile.shared::cluster.u32 %r9, [%r13+-4];",
    ),
    (
        "by an atomic",
        "mapa.shared::cluster.u32 %r13, %r8, %r7; atom.acq_rel.cluster.shared::cluster.add.u32 %r9, [%r13], 0;",
    ),
    (
        "by a generic atomic",
        "cvta.shared.u64 %rd3, %rd8; mapa.u64 %rd3, %rd3, %r7; atom.or.b32 %r9, [%rd3], 0;",
    ),
    (
        "by a pointer that its block has published",
        ".shared .align 8 .b64 pointer; cvta.shared.u64 %rd3, %rd8; setp.eq.u32 %p1, %r10, 0;
         mapa.shared::cluster.u32 %r13, pointer, %r7; @%p1 st.shared::cluster.u64 [%r13], %rd3;
         barrier.cluster.arrive; barrier.cluster.wait;
         ld.shared.u64 %rd4, [pointer]; mad.wide.u32 %rd4, %r10, 4, %rd4; ld.u32 %r9, [%rd4];",
    ),
];

#[test]
fn blocks_read_the_shared_memory_of_the_next() {
    for device in devices() {
        for (what, read) in READS {
            let program = load(&device, &neighbours(MEET, read, MEET));
            for (cluster, grid) in CLUSTERS {
                for threads in [1, 31, 32, 33, 64] {
                    let count = (grid.iter().product::<u32>() * threads) as usize;
                    let out = device.upload(&vec![u32::MAX; count]);
                    device
                        .launch(&program, "neighbours", clustered(cluster, grid, threads), &[out])
                        .unwrap_or_else(|fault| panic!("{what}: {fault}"));
                    let size = cluster.iter().product::<u32>();
                    let published = what.contains("published");
                    let wanted: Vec<u32> = blocks(grid)
                        .flat_map(|block| {
                            let inside = std::array::from_fn(|at| block[at] % cluster[at]);
                            let rank = number(inside, cluster);
                            // A published pointer comes from the block before.
                            let from = if published { rank + size - 1 } else { rank + 1 };
                            let from = peer(block, from % size, cluster, grid);
                            (0..threads).map(move |thread| from * threads + thread)
                        })
                        .collect();
                    let found = device.download::<u32>(out, count);
                    assert_eq!(found, wanted, "{what}: {cluster:?} in {grid:?}, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn addresses_tell_their_block() {
    let reads = "mapa.shared::cluster.u32 %r13, %r8, %r7; getctarank.shared::cluster.u32 %r9, %r13;
        cvta.shared.u64 %rd3, %rd8; getctarank.u64 %r14, %rd3; mad.lo.u32 %r9, %r14, 16, %r9;
        mapa.u64 %rd4, %rd3, %r7; getctarank.u64 %r14, %rd4; mad.lo.u32 %r9, %r14, 256, %r9;
        isspacep.shared::cta %p1, %rd3; @%p1 add.u32 %r9, %r9, 0x1000;
        isspacep.shared %p1, %rd4; @%p1 add.u32 %r9, %r9, 0x2000;
        isspacep.shared::cluster %p1, %rd4; @%p1 add.u32 %r9, %r9, 0x4000;
        isspacep.shared::cluster %p1, %rd1; @%p1 add.u32 %r9, %r9, 0x8000;
        isspacep.global %p1, %rd4; @%p1 add.u32 %r9, %r9, 0x10000;
        isspacep.shared::cluster %p1, %rd3; @%p1 add.u32 %r9, %r9, 0x20000;";
    let device = Device::new(1);
    let program = load(&device, &neighbours("", reads, ""));
    for size in [1, 2, 4, 8, 16] {
        let out = device.upload(&[0u32; 32]);
        device
            .launch(&program, "neighbours", clustered([size, 1, 1], [32, 1, 1], 1), &[out])
            .expect("no fault");
        let wanted = (0..32).map(|block| {
            let (rank, next) = (block % size, (block % size + 1) % size);
            let own = if rank == next { 0x2000 } else { 0 };
            next + 16 * rank + 256 * next + 0x1000 + own + 0x4000 + 0x20000
        });
        assert_eq!(device.download::<u32>(out, 32), wanted.collect::<Vec<_>>(), "{size}");
    }
}

/// A function that is called takes the address of a variable: its frame is another block's before.
#[test]
fn called_functions_have_the_addresses_of_their_block() {
    let text = head(
        ".shared .align 4 .b32 word;
.func (.param .b32 result) read(.param .b32 rank)
{
    .reg .u32 %r<4>;
    ld.param.u32 %r1, [rank];
    mapa.shared::cluster.u32 %r2, word, %r1;
    ld.shared::cluster.u32 %r3, [%r2];
    st.param.b32 [result], %r3;
    ret;
}
.func write(.param .b32 value)
{
    .reg .u32 %r<4>; .reg .u64 %rd<2>;
    ld.param.u32 %r1, [value];
    mov.u64 %rd1, word;
    cvta.shared.u64 %rd1, %rd1;
    st.u32 [%rd1], %r1;
    ret;
}
.visible .entry calls(.param .u64 out)
{
    .reg .u32 %r<8>; .reg .u64 %rd<4>;
    mov.u32 %r1, %ctaid.x;
    call write, (%r1);
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r2, %r2, 1;
    call (%r3), read, (%r2);
    barrier.cluster.arrive; barrier.cluster.wait;
    ld.param.u64 %rd1, [out];
    mad.wide.u32 %rd1, %r1, 4, %rd1;
    st.global.u32 [%rd1], %r3;
    ret;
}",
    );
    for device in devices() {
        let program = load(&device, &text);
        let out = device.upload(&[0u32; 16]);
        let launch = clustered([4, 1, 1], [16, 1, 1], 1);
        device.launch(&program, "calls", launch, &[out]).unwrap_or_else(|fault| panic!("{fault}"));
        let wanted: Vec<u32> = (0..16).map(|block| block ^ 1).collect();
        assert_eq!(device.download::<u32>(out, 16), wanted);
    }
}

/// Threads of all blocks count in the shared memory of block 0, which waits at an `mbarrier` for all.
fn counters(arrive: &str) -> String {
    head(&format!(
        ".visible .entry counters(.param .u64 out)
{{
    .reg .pred %p<3>; .reg .u32 %r<12>; .reg .u64 %rd<6>; .reg .b64 %state;
    .shared .align 8 .b64 gate; .shared .align 4 .b32 sum;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.u32 %r4, %ntid.x;
    mul.lo.u32 %r5, %r3, %r4;
    or.b32 %r6, %r1, %r2;
    setp.eq.u32 %p1, %r6, 0;
    @!%p1 bra ready;
    st.shared.u32 [sum], 0;
    mbarrier.init.shared::cta.b64 [gate], %r5;
    fence.mbarrier_init.release.cluster;
ready:
    barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
    mapa.shared::cluster.u32 %r7, sum, 0; mapa.shared::cluster.u32 %r8, gate, 0;
    add.u32 %r9, %r1, 1;
    {arrive}
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra done;
again:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [gate], 0;
    @!%p2 bra again;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra done;
    ld.shared.u32 %r10, [sum];
    ld.param.u64 %rd1, [out];
    mov.u32 %r11, %clusterid.x;
    mad.wide.u32 %rd1, %r11, 4, %rd1;
    st.global.u32 [%rd1], %r10;
done:
    barrier.cluster.arrive; barrier.cluster.wait;
    ret;
}}"
    ))
}

#[test]
fn blocks_arrive_at_an_mbarrier_of_another() {
    let arrivals = [
        "red.relaxed.cluster.shared::cluster.add.u32 [%r7], %r9;
         mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7], %r9, [%r8];
         mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r8], 4;",
    ];
    for device in devices() {
        for arrive in arrivals {
            let program = load(&device, &counters(arrive));
            for (size, threads) in [(1, 1), (2, 33), (4, 64), (8, 32), (16, 1024)] {
                let out = device.upload(&[0u32; 3]);
                let launch = clustered([size, 1, 1], [3 * size, 1, 1], threads);
                let done = device.launch(&program, "counters", launch, &[out]);
                done.unwrap_or_else(|fault| panic!("{size}: {fault}"));
                let sum = size * threads * (threads + 1) / 2;
                assert_eq!(
                    device.download::<u32>(out, 3),
                    [sum; 3],
                    "{size} of {threads}: {arrive}"
                );
            }
        }
    }
}

/// Each block stores into the next one, which waits for the bytes.
#[test]
fn asynchronous_stores_complete_their_bytes() {
    let text = head(
        ".visible .entry stores(.param .u64 out)
{
    .reg .pred %p<3>; .reg .u32 %r<14>; .reg .u64 %rd<6>; .reg .b64 %state;
    .shared .align 8 .b64 gate; .shared .align 16 .b8 room[1024];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.u32 %r4, %ntid.x;
    setp.eq.u32 %p1, %r1, 0;
    mul.lo.u32 %r5, %r4, 16;
    @%p1 mbarrier.init.shared.b64 [gate], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 %state, [gate], %r5;
    barrier.cluster.arrive; barrier.cluster.wait;
    add.u32 %r6, %r2, 1; rem.u32 %r6, %r6, %r3;
    mapa.shared::cluster.u32 %r7, room, %r6; mapa.shared::cluster.u32 %r8, gate, %r6;
    mad.lo.u32 %r7, %r1, 16, %r7;
    mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 1000, %r1; add.u32 %r10, %r9, 100; add.u32 %r11, %r9, 200;
    add.u32 %r12, %r9, 300;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r7], {%r9, %r10}, [%r8];
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7+8], %r11, [%r8];
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r7+12], %r12, [%r8];
again:
    mbarrier.try_wait.parity.shared.b64 %p2, [gate], 0;
    @!%p2 bra again;
    mov.u32 %r7, room; mad.lo.u32 %r7, %r1, 16, %r7;
    ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [%r7];
    mov.u32 %r13, %ctaid.x; mad.lo.u32 %r13, %r13, %r4, %r1;
    ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r13, 16, %rd1;
    st.global.v4.u32 [%rd1], {%r9, %r10, %r11, %r12};
    barrier.cluster.arrive; barrier.cluster.wait;
    ret;
}",
    );
    for device in devices() {
        let program = load(&device, &text);
        for (size, threads) in [(1, 1), (2, 33), (8, 64)] {
            let out = device.upload(&vec![0u32; 64 * 64]);
            let launch = clustered([size, 1, 1], [8, 1, 1], threads);
            device
                .launch(&program, "stores", launch, &[out])
                .unwrap_or_else(|fault| panic!("{fault}"));
            let wanted: Vec<u32> = (0..8)
                .flat_map(|block| {
                    let from = block / size * size + (block + size - 1) % size;
                    (0..threads).flat_map(move |t| (0..4).map(move |k| from * 1000 + t + 100 * k))
                })
                .collect();
            assert_eq!(device.download::<u32>(out, wanted.len()), wanted, "{size} of {threads}");
        }
    }
}

#[test]
fn what_a_cluster_may_not_do_is_a_fault() {
    let next = "mapa.shared::cluster.u32 %r13, %r8, %r7;";
    let remote = |action| {
        format!(
            "mov.u64 %rd3, other; cvta.shared.u64 %rd3, %rd3; mbarrier.init.b64 [%rd3], 32; {MEET}
             mapa.u64 %rd3, %rd3, %r7; {action}"
        )
    };
    let cases = [
        ("again without waiting", "barrier.cluster.arrive; barrier.cluster.arrive;".to_owned()),
        ("without having arrived", "barrier.cluster.wait;".to_owned()),
        ("rank 4 in a cluster of 4", "mapa.shared::cluster.u32 %r13, %r8, 4; ld.shared::cluster.u32 %r9, [%r13];".to_owned()),
        ("rank 255 in a cluster of 4", "mapa.shared::cluster.u32 %r13, %r8, 256; ld.shared::cluster.u32 %r9, [%r13];".to_owned()),
        ("of another block", remote("mbarrier.init.b64 [%rd3], 1;")),
        ("of another block", remote("mbarrier.inval.b64 [%rd3];")),
        ("of another block", remote("mbarrier.test_wait.parity.b64 %p1, [%rd3], 0;")),
        ("of another block", remote("mov.u64 %rd4, 0; mbarrier.try_wait.b64 %p1, [%rd3], %rd4;")),
        ("of another block", remote("mbarrier.arrive.b64 %rd4, [%rd3];")),
        ("name .shared::cluster", format!("{next} ld.shared.u32 %r9, [%r13];")),
        ("of shared memory of block", format!("{next} ld.shared::cluster.u32 %r9, [%r13+512];")),
        ("no address of shared memory", "mapa.u64 %rd3, %rd1, %r7;".to_owned()),
        ("not a multiple of 4", format!("{next} ld.shared::cluster.u32 %r9, [%r13+2];")),
        ("of one block", format!("{next} st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r13], 1, [other];")),
        (
            "waits: 23 at a barrier, 9 at the cluster's barrier, which the others never reach",
            "setp.lt.u32 %p1, %r10, 9; @%p1 bra waits; bar.sync 0; waits: barrier.cluster.arrive; barrier.cluster.wait;"
                .to_owned(),
        ),
    ];
    for (what, read) in cases {
        let device = Device::new(1);
        let program = load(&device, &neighbours(MEET, &read, ""));
        let out = device.upload(&[0u32; 128]);
        let launch = clustered([4, 1, 1], [4, 1, 1], 32);
        let done = device.launch(&program, "neighbours", launch, &[out]);
        let fault = done.err().unwrap_or_else(|| panic!("no fault: {what}"));
        assert!(fault.report.what.contains(what), "{what}: {fault}");
    }
}

#[test]
fn the_barrier_waits_for_no_thread_that_has_ended() {
    // Block 0 and the odd threads of the others end early.
    let early = "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0; @%p1 exit;
        and.b32 %r13, %r10, 1; setp.eq.u32 %p1, %r13, 1; @%p1 exit;";
    for device in devices() {
        let program = load(&device, &neighbours(early, "mov.u32 %r9, 5;", MEET));
        let out = device.upload(&[0u32; 8 * 33]);
        let launch = clustered([4, 1, 1], [8, 1, 1], 33);
        device
            .launch(&program, "neighbours", launch, &[out])
            .unwrap_or_else(|fault| panic!("{fault}"));
        let wanted: Vec<u32> = (0..8 * 33)
            .map(|at| if at / 33 % 4 != 0 && at % 33 % 2 == 0 { 5 } else { 0 })
            .collect();
        assert_eq!(device.download::<u32>(out, 8 * 33), wanted);
    }
}

#[test]
fn shared_memory_of_a_block_that_has_ended_is_a_fault() {
    // All but block 0 end; it polls for a while, so that they have ended, and reads.
    let text = neighbours(
        "mov.u32 %r7, %cluster_ctarank; setp.ne.u32 %p1, %r7, 0; @%p1 exit; mov.u32 %r13, 0;
         again: nanosleep.u32 10; add.u32 %r13, %r13, 1; setp.lt.u32 %p2, %r13, 10000; @%p2 bra again;",
        "mapa.shared::cluster.u32 %r13, %r8, %r7; ld.shared::cluster.u32 %r9, [%r13];",
        "",
    );
    for device in devices() {
        let program = load(&device, &text);
        let out = device.upload(&[0u32; 64]);
        let launch = clustered([2, 1, 1], [2, 1, 1], 32);
        let fault = device.launch(&program, "neighbours", launch, &[out]).expect_err("a fault");
        assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{fault}");
        assert!(fault.report.what.contains("block 1 of the cluster has ended"), "{fault}");
    }
}

#[test]
fn launches_of_other_clusters_are_refused() {
    let device = Device::new(1);
    let program = load(&device, &registers());
    for (cluster, grid) in [
        ([0, 1, 1], [4, 1, 1]),
        ([3, 1, 1], [4, 1, 1]),
        ([17, 1, 1], [17, 1, 1]),
        ([4, 4, 2], [4, 4, 2]),
        ([1, 2, 1], [4, 3, 1]),
        ([u32::MAX, u32::MAX, 2], [4, 3, 1]),
    ] {
        let out = device.upload(&[0u32; 4096]);
        let launch = clustered(cluster, grid, 1);
        let fault = device.launch(&program, "registers", launch, &[out]).expect_err("refused");
        assert_eq!(fault.code, CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE, "{cluster:?} {grid:?}");
    }
}

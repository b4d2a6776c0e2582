//! What `cooperative_groups.h` asks the device for: the workspace of a cooperative launch, and shared memory that the
//! system has in each block.

use cuda_emu::exec::Program;
use cuda_emu::space::Kind;
use cuda_sys::CUresult;

use crate::device::{Device, Shape, shape};

/// `grid_group::sync` as NVRTC 13.0 compiles it: the blocks add up at the second word of the workspace.
const GRID: &str = "
    .version 8.0
    .target sm_80
    .address_size 64
    .func meet(.param .b64 workspace)
    {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [workspace];
        barrier.sync 0;
        mov.u32 %r1, %tid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra together;
        mov.u32 %r2, %nctaid.x;
        mov.u32 %r3, %nctaid.y;
        mul.lo.u32 %r4, %r2, %r3;
        mov.u32 %r5, %ctaid.x;
        mov.u32 %r6, %ctaid.y;
        add.u32 %r7, %r5, %r6;
        setp.eq.u32 %p2, %r7, 0;
        mov.u32 %r8, -2147483647;
        sub.u32 %r9, %r8, %r4;
        selp.b32 %r10, %r9, 1, %p2;
        atom.add.release.gpu.u32 %r11, [%rd1+4], %r10;
    again:
        ld.acquire.gpu.u32 %r12, [%rd1+4];
        xor.b32 %r13, %r11, %r12;
        setp.gt.s32 %p3, %r13, -1;
        @%p3 bra again;
    together:
        barrier.sync 0;
        ret;
    }

    // Each round, block i adds the number of its neighbour's rounds to its sum, and counts its own.
    .visible .entry rounds(.param .u64 counts, .param .u64 sums, .param .u32 rounds)
    {
        .reg .pred %p<4>;
        .reg .b32 %r<20>;
        .reg .b64 %rd<12>;
        mov.u32 %r1, %envreg1;
        mov.u32 %r2, %envreg2;
        mov.b64 %rd1, {%r2, %r1};
        setp.ne.s64 %p1, %rd1, 0;
        @%p1 bra valid;
        trap;
    valid:
        ld.param.u64 %rd2, [counts];
        ld.param.u64 %rd3, [sums];
        ld.param.u32 %r3, [rounds];
        mov.u32 %r4, %ctaid.y;
        mov.u32 %r5, %nctaid.x;
        mov.u32 %r6, %ctaid.x;
        mad.lo.u32 %r7, %r4, %r5, %r6;
        mov.u32 %r8, %nctaid.y;
        mul.lo.u32 %r9, %r5, %r8;
        add.u32 %r10, %r7, 1;
        rem.u32 %r10, %r10, %r9;
        mad.wide.u32 %rd4, %r7, 4, %rd2;
        mad.wide.u32 %rd5, %r10, 4, %rd2;
        mad.wide.u32 %rd6, %r7, 4, %rd3;
        mov.u32 %r11, 0;
        mov.u32 %r15, %tid.x;
        setp.eq.u32 %p2, %r15, 0;
    next:
        add.u32 %r11, %r11, 1;
        @%p2 st.global.u32 [%rd4], %r11;
        call meet, (%rd1);
        @!%p2 bra others;
        ld.global.u32 %r12, [%rd5];
        ld.global.u32 %r13, [%rd6];
        add.u32 %r13, %r13, %r12;
        st.global.u32 [%rd6], %r13;
    others:
        call meet, (%rd1);
        setp.lt.u32 %p3, %r11, %r3;
        @%p3 bra next;
        ret;
    }

    // What each thread reads in the registers.
    .visible .entry registers(.param .u64 out)
    {
        .reg .b32 %r<6>;
        .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mad.wide.u32 %rd2, %r1, 16, %rd1;
        mov.b32 %r2, %envreg0;
        mov.b32 %r3, %envreg1;
        mov.b32 %r4, %envreg2;
        mov.b32 %r5, %envreg31;
        st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5};
        cvt.u64.u32 %rd3, %envreg2;
        st.global.u64 [%rd2+512], %rd3;
        ret;
    }

    // Writes behind the workspace.
    .visible .entry behind()
    {
        .reg .b32 %r<3>;
        .reg .b64 %rd<2>;
        mov.b32 %r1, %envreg1;
        mov.b32 %r2, %envreg2;
        mov.b64 %rd1, {%r2, %r1};
        st.u32 [%rd1+8], 1;
        ret;
    }";

fn cooperative(shape: Shape) -> Shape {
    Shape { cooperative: true, ..shape }
}

fn load(device: &Device, text: &str) -> Program {
    device.load(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The regions of the device's memory that are workspaces.
fn workspaces(device: &Device) -> usize {
    device.space.regions().iter().filter(|region| region.kind == Kind::Workspace).count()
}

#[test]
fn the_blocks_of_a_cooperative_launch_meet_in_its_workspace() {
    for (workers, seed) in [(1, None), (2, Some(3)), (4, None), (1, Some(5))] {
        let mut device = Device::new(workers);
        device.config.block_order_seed = seed;
        let program = load(&device, GRID);
        for (grid, rounds) in [([1, 1, 1], 3), ([2, 1, 1], 7), ([33, 1, 1], 5), ([3, 11, 1], 4)] {
            let blocks = grid.iter().product::<u32>() as usize;
            let (counts, sums) =
                (device.upload(&vec![0u32; blocks]), device.upload(&vec![0u32; blocks]));
            let dims = cooperative(Shape { grid, ..shape(1, 64) });
            device
                .launch(&program, "rounds", dims, &[counts, sums, rounds])
                .unwrap_or_else(|fault| panic!("{grid:?} on {workers}: {fault}"));
            let expected = (1..=rounds as u32).sum::<u32>();
            assert_eq!(device.download::<u32>(sums, blocks), vec![expected; blocks], "{grid:?}");
            assert_eq!(workspaces(&device), 0, "it is freed with the launch");
        }
    }
}

#[test]
fn other_launches_have_no_workspace() {
    let device = Device::new(1);
    let program = load(&device, GRID);
    let out = device.upload(&[7u32; 2 * 32 * 4]);
    device.launch(&program, "registers", shape(1, 32), &[out]).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(device.download::<u32>(out, 32 * 4), [0; 32 * 4]);
    let counts = device.upload(&[0u32; 2]);
    let fault = device.launch(&program, "rounds", shape(2, 64), &[counts, counts, 1]);
    let fault = fault.expect_err("there is nowhere to meet");
    assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{fault}");
    assert_eq!(fault.report.what, "trap");
}

#[test]
fn only_the_address_of_the_workspace_is_in_the_registers() {
    let device = Device::new(1);
    let program = load(&device, GRID);
    let out = device.upload(&[7u32; 2 * 32 * 4]);
    let dims = cooperative(shape(1, 32));
    device.launch(&program, "registers", dims, &[out]).unwrap_or_else(|f| panic!("{f}"));
    let got = device.download::<u32>(out, 32 * 4);
    let [zero, high, low, last] = got[..4] else { panic!("four words") };
    assert_eq!((zero, last), (0, 0));
    assert_ne!((high, low), (0, 0));
    assert!(got.chunks(4).all(|words| *words == [0, high, low, 0]), "{got:?}");
    let wide = device.download::<u64>(out + 512, 1);
    assert_eq!(wide, [u64::from(low)], "32 bits wide where it is extended");
}

#[test]
fn the_workspace_has_bounds() {
    let device = Device::new(1);
    let program = load(&device, GRID);
    let fault = device.launch(&program, "behind", cooperative(shape(1, 1)), &[]);
    let fault = fault.expect_err("a write behind the workspace");
    assert_eq!(fault.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{fault}");
    assert!(fault.to_string().contains("the workspace of a cooperative launch"), "{fault}");
    assert_eq!(workspaces(&device), 0);
}

/// Two warps meet by a word of the system's shared memory, which nobody has set, and pass a value in the next.
/// `own` is a variable of the block, and `dynamic` is as large as the launch says.
const RESERVED: &str = "
    .version 8.1
    .target sm_90
    .address_size 64
    .extern .shared .align 4 .b8 dynamic[];
    .shared .align 4 .b8 own[12];
    .visible .entry tell(.param .u64 out)
    {
        .reg .b32 %r<12>;
        .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [out];
        mov.b32 %r1, %reserved_smem_offset_begin;
        mov.b32 %r2, %reserved_smem_offset_end;
        mov.b32 %r3, %reserved_smem_offset_cap;
        mov.b32 %r4, %reserved_smem_offset_0;
        mov.b32 %r5, %reserved_smem_offset_1;
        mov.u32 %r6, own;
        mov.u32 %r7, dynamic;
        mov.u32 %r8, %total_smem_size;
        mov.u32 %r9, %aggr_smem_size;
        mov.u32 %r10, %dynamic_smem_size;
        st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
        st.global.v4.u32 [%rd1+16], {%r5, %r6, %r7, %r8};
        st.global.v2.u32 [%rd1+32], {%r9, %r10};
        ret;
    }
    .visible .entry without(.param .u64 out)
    {
        .reg .b32 %r<12>;
        .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [out];
        mov.u32 %r6, own;
        mov.u32 %r7, dynamic;
        mov.u32 %r8, %total_smem_size;
        mov.u32 %r9, %aggr_smem_size;
        st.global.v4.u32 [%rd1], {%r6, %r7, %r8, %r9};
        ret;
    }
    .visible .entry pass(.param .u64 out)
    {
        .reg .pred %p<4>;
        .reg .b32 %r<12>;
        .reg .b64 %rd<6>;
        ld.param.u64 %rd1, [out];
        cvt.u64.u32 %rd2, %reserved_smem_offset_1;
        cvta.shared.u64 %rd3, %rd2;
        mov.u32 %r1, %tid.x;
        mad.wide.u32 %rd4, %r1, 4, %rd1;
        setp.lt.u32 %p1, %r1, 32;
        and.b32 %r2, %r1, 31;
        setp.eq.u32 %p2, %r2, 0;
        @%p1 bra reader;
        @!%p2 bra done;
        st.volatile.u32 [%rd3+4], 99;
        atom.or.acq_rel.cta.b32 %r3, [%rd3], 2;
        bra done;
    reader:
        ld.acquire.cta.u32 %r4, [%rd3];
        setp.eq.u32 %p3, %r4, 0;
        @%p3 bra reader;
        ld.volatile.u32 %r5, [%rd3+4];
        st.global.u32 [%rd4], %r5;
    done:
        ret;
    }
    // Each thread writes a value of its own to one word.
    .visible .entry race_in_the_systems()
    {
        .reg .b32 %r<3>;
        mov.b32 %r1, %reserved_smem_offset_1;
        mov.u32 %r2, %tid.x;
        st.shared.u32 [%r1], %r2;
        ret;
    }
    .visible .entry race_in_its_own()
    {
        .reg .b32 %r<3>;
        mov.b32 %r1, %reserved_smem_offset_1;
        mov.u32 %r2, %tid.x;
        add.u32 %r2, %r2, %r1;
        st.shared.u32 [own], %r2;
        ret;
    }
    .visible .entry behind()
    {
        .reg .b32 %r<4>;
        mov.b32 %r1, %reserved_smem_offset_1;
        mov.u32 %r2, own;
        st.shared.u32 [%r2+12], %r1;
        ret;
    }";

#[test]
fn the_systems_shared_memory_lies_before_the_blocks_own() {
    let device = Device::new(1);
    let program = load(&device, RESERVED);
    let out = device.upload(&[0u32; 10]);
    let dims = Shape { shared: 100, ..shape(1, 1) };
    device.launch(&program, "tell", dims, &[out]).unwrap_or_else(|f| panic!("{f}"));
    let got = device.download::<u32>(out, 10);
    let [begin, end, size, first, second, own, dynamic, total, all, asked] = got[..] else {
        panic!("ten words")
    };
    assert_eq!((begin, end, size), (0, 1024, 1024));
    // `cooperative_groups.h` keeps 288 bytes with 64-bit words behind the second offset.
    assert!(first < second && second % 8 == 0 && second + 288 <= end, "{got:?}");
    assert_eq!((own, dynamic, asked), (1024, 1036, 100));
    assert_eq!((total, all), (112, 1136));
    let entry = program.entry("tell").expect("tell");
    assert_eq!(program.attributes(entry).static_shared, 12);
    device.launch(&program, "without", dims, &[out]).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(device.download::<u32>(out, 4), [0, 12, 112, 1136]);
}

#[test]
fn the_systems_shared_memory_costs_a_block_nothing() {
    let device = Device::new(1);
    let program = load(&device, RESERVED);
    let out = device.upload(&[0u32; 10]);
    let all = device.info.shared_optin - 12;
    let launch = |shared| {
        let dims = Shape { shared, ..shape(1, 1) };
        device.launch(&program, "tell", dims, &[out])
    };
    launch(all).unwrap_or_else(|f| panic!("{f}"));
    let fault = launch(all + 1).expect_err("a byte too many");
    assert_eq!(fault.code, CUresult::CUDA_ERROR_INVALID_VALUE, "{fault}");
}

#[test]
fn warps_meet_in_the_systems_shared_memory() {
    for workers in [1, 3] {
        let mut device = Device::new(workers);
        device.info.checks.race = true;
        device.info.checks.init = true;
        device.space.note_writes();
        let program = load(&device, RESERVED);
        let before = cuda_emu::findings().len();
        let out = device.upload(&[0u32; 64]);
        // Several blocks in a row use the same memory.
        device.launch(&program, "pass", shape(9, 64), &[out]).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(device.download::<u32>(out, 32), [99; 32]);
        let ours = |finding: &&cuda_emu::Finding| finding.access.kernel == "pass";
        // All blocks write one value to the same words, which is no race.
        let found = cuda_emu::findings();
        assert_eq!(found.iter().skip(before).filter(ours).count(), 0, "{found:?}");
    }
}

#[test]
fn races_in_the_systems_shared_memory_are_not_the_programs() {
    let mut device = Device::new(1);
    device.info.checks.race = true;
    let program = load(&device, RESERVED);
    for (kernel, races) in [("race_in_the_systems", false), ("race_in_its_own", true)] {
        device.launch(&program, kernel, shape(1, 64), &[]).unwrap_or_else(|f| panic!("{f}"));
        let found = cuda_emu::findings();
        let ours = found.iter().filter(|finding| finding.access.kernel == kernel);
        assert_eq!(ours.count() > 0, races, "{kernel}: {found:?}");
    }
}

#[test]
fn shared_memory_keeps_its_bounds_behind_the_systems() {
    let device = Device::new(1);
    let program = load(&device, RESERVED);
    let fault = device.launch(&program, "behind", shape(1, 1), &[]).expect_err("out of bounds");
    assert_eq!(fault.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{fault}");
}

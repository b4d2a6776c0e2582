//! Tangents through the driver: copies, fills, allocation, arguments and graphs.

use std::ptr;

use cuda_emu::{Config, Real, TangentError, tangents};

mod common;
use common::{
    allocate, begin, call, context, end, function, instantiate, launch, load, ok, run, stream,
};

const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .f32 variable;
.visible .entry scale(.param .u64 x, .param .f32 by)
{
    .reg .b64 %w; .reg .f32 %f<4>;
    ld.param.u64 %w, [x];
    ld.param.f32 %f1, [by];
    ld.global.f32 %f2, [%w];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%w], %f2;
    ret;
}
";

/// One test: a process has one configuration.
#[test]
fn copies_move_tangents_and_other_writes_clear_them() {
    assert_eq!(tangents().expect_err("no device yet"), TangentError::Off);
    assert!(Config::new().tangents(true).install());
    context();
    let t = tangents().expect("they are tracked");
    let (a, b) = (allocate(400), allocate(400));
    let values = [1.0f32; 100];
    let ones = [1.0; 100];
    let get = |at: u64| {
        ok!(cuCtxSynchronize());
        t.get(at, Real::F32, 100).expect("memory")
    };
    let from = values.as_ptr().cast();
    ok!(cuMemcpyHtoD_v2(a, from, 400));
    assert_eq!(get(a), [0.0; 100]);
    t.set(a, Real::F32, &ones).expect("memory");

    // Between device memory they go along, also onto themselves.
    ok!(cuMemcpyDtoD_v2(b, a, 400));
    assert_eq!((get(a), get(b)), (ones.to_vec(), ones.to_vec()));
    t.set(a, Real::F32, &(0..100).map(f64::from).collect::<Vec<_>>()).expect("memory");
    ok!(cuMemcpyDtoD_v2(b + 40, a + 20, 120));
    let moved = |at: usize| if (10..40).contains(&at) { at as f64 - 5.0 } else { 1.0 };
    assert_eq!(get(b), (0..100).map(moved).collect::<Vec<_>>());

    // The host's bytes and fills are constants.
    ok!(cuMemcpyHtoD_v2(b + 40, from, 40));
    ok!(cuMemsetD32_v2(b + 80, 0, 10));
    ok!(cuMemsetD8_v2(b + 120, 0, 40));
    assert_eq!(get(b)[10..40], [0.0; 30]);
    assert_eq!((get(b)[9], get(b)[40]), (1.0, 1.0));
    let mut back = [0f32; 100];
    ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), a, 400));
    ok!(cuMemcpyHtoD_v2(a, back.as_ptr().cast(), 400));
    assert_eq!(get(a), [0.0; 100]);

    // Pinned memory keeps what is copied to it.
    let mut pinned = ptr::null_mut();
    ok!(cuMemAllocHost_v2(&raw mut pinned, 400));
    t.set(b, Real::F32, &ones).expect("memory");
    ok!(cuMemcpyDtoH_v2(pinned, b, 400));
    assert_eq!(get(pinned as u64), ones);
    ok!(cuMemFreeHost(pinned));

    // New memory is constant, and a freed one is none.
    ok!(cuMemFree_v2(b));
    assert!(t.get(b, Real::F32, 1).is_err());
    for _ in 0..50 {
        let next = allocate(400);
        assert_eq!(get(next), [0.0; 100]);
        ok!(cuMemFree_v2(next));
    }

    // Arguments, launch by launch, also of a graph.
    let module = load(PTX);
    let scale = function(module, "scale");
    let (mut x, mut by) = (a, 3.0f32);
    let mut arguments = [(&raw mut x).cast(), (&raw mut by).cast()];
    ok!(cuMemcpyHtoD_v2(a, from, 400));
    t.set(a, Real::F32, &[1.0]).expect("memory");
    t.set_argument("scale", 8, Real::F32, 10.0).expect("an offset");
    let s = stream(0);
    assert_eq!(launch(scale, s, &mut arguments), common::SUCCESS);
    // d(x by) = 3 dx + x dby
    assert_eq!(get(a)[0], 13.0);
    begin(s);
    assert_eq!(launch(scale, s, &mut arguments), common::SUCCESS);
    let exec = instantiate(end(s));
    run(exec, s);
    // Of 3 by 3: 3 dx + 3 dby.
    assert_eq!(get(a)[0], 39.0 + 30.0);
    t.clear_arguments();
    run(exec, s);
    assert_eq!(get(a)[0], 207.0);

    // A module's variable is memory like any other.
    let (mut at, mut bytes) = (0, 0);
    ok!(cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, module, c"variable".as_ptr()));
    t.set(at, Real::F32, &[5.0]).expect("memory");
    ok!(cuMemcpyDtoD_v2(a, at, 4));
    assert_eq!(get(a)[0], 5.0);
    assert!(t.lost().is_empty());
    assert_eq!(call!(cuCtxSynchronize()), common::SUCCESS);
}

//! Fusing bare `mul` and `add`, and when it must not be done.

use std::ffi::CString;
use std::ptr;

use cuda_emu::exec::DeviceInfo;
use cuda_emu::{Config, Contraction};

mod common;
#[path = "exec/device.rs"]
#[allow(dead_code, reason = "the executor's tests use all of it")]
mod device;
use device::{Device, shape};

/// A type of float, with a number whose square has bits beyond the last.
struct Float {
    ty: &'static str,
    /// Of the registers, in bits.
    bits: u32,
    x: u64,
    one: u64,
}

const F32: Float = Float { ty: "f32", bits: 32, x: 0x3f80_0800, one: 0x3f80_0000 };

const HALF: Float = Float { ty: "f16", bits: 16, x: 0x3c10, one: 0x3c00 };

/// A kernel of lines of PTX, in which T is replaced by the type; it stores `%d`. `%x` is x, `%z` is one, `%t` is true,
/// `%f` is false; `%p`, `%q` and `%y` are free.
fn kernel(float: &Float, body: &str) -> String {
    let Float { ty, bits, .. } = float;
    let body = body.replace('T', ty);
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u{bits} x, .param .u{bits} z)
{{
	.reg .pred %t, %f;
	.reg .b64 %out;
	.reg .u32 %n;
	.reg .b{bits} %x, %y, %z, %p, %q, %d;
	ld.param.u64 %out, [out];
	ld.param.b{bits} %x, [x];
	ld.param.b{bits} %z, [z];
	mov.u32 %n, %ctaid.x;
	setp.eq.u32 %t, %n, 0;
	setp.ne.u32 %f, %n, 0;
{body}
	st.global.b{bits} [%out], %d;
	ret;
}}
"
    )
}

/// The bits that a kernel of these lines stores.
fn bits(float: &Float, contract: bool, body: &str) -> u64 {
    let ptx = kernel(float, body);
    let mut device = Device::new(1);
    device.info = DeviceInfo { contract, ..DeviceInfo::default() };
    let out = device.upload(&[0_u64]);
    let program = device.load(&ptx).unwrap_or_else(|e| panic!("{e}: {ptx}"));
    device.launch(&program, "k", shape(1, 1), &[out, float.x, float.one]).expect("it runs");
    device.download::<u64>(out, 1)[0]
}

/// With and without fusing.
fn both(float: &Float, body: &str) -> (u64, u64) {
    (bits(float, true, body), bits(float, false, body))
}

fn f32_bits(value: f32) -> u64 {
    value.to_bits().into()
}

#[test]
fn a_product_and_a_sum_become_one() {
    let x = f32::from_bits(F32.x as u32);
    let fused = f32_bits(x.mul_add(x, -1.0));
    let apart = f32_bits(x * x - 1.0);
    assert_ne!(fused, apart);
    let add = "mul.T %p, %x, %x; neg.T %y, %z; add.T %d, %p, %y;";
    assert_eq!(both(&F32, add), (fused, apart));
    let add = "neg.T %y, %z; mul.T %p, %x, %x; add.T %d, %y, %p;";
    assert_eq!(both(&F32, add), (fused, apart), "the product second");
    let constants = "mul.f32 %p, 0f3F800800, %x; add.f32 %d, %p, 0fBF800000;";
    assert_eq!(both(&F32, constants), (fused, apart));
}

#[test]
fn differences_are_fused_both_ways() {
    let x = f32::from_bits(F32.x as u32);
    let (fused, apart) = (x.mul_add(x, -1.0), x * x - 1.0);
    let sub = "mul.T %p, %x, %x; sub.T %d, %p, %z;";
    assert_eq!(both(&F32, sub), (f32_bits(fused), f32_bits(apart)));
    let sub = "mul.T %p, %x, %x; sub.T %d, %z, %p;";
    assert_eq!(both(&F32, sub), (f32_bits(-fused), f32_bits(-apart)));
    let late = "mul.T %p, %x, %x; mov.b32 %y, %z; sub.T %d, %p, %y;";
    assert_eq!(both(&F32, late), (f32_bits(fused), f32_bits(apart)), "the other source is new");
    // x * x - x * x: the first product is exact, the second is not.
    let products = "mul.T %p, %x, %x; mul.T %q, %x, %x; sub.T %d, %p, %q;";
    assert_eq!(both(&F32, products), (f32_bits(x.mul_add(x, -(x * x))), 0));
    // An exact difference of equals is +0 both ways.
    let zero = "mul.T %p, %z, %z; sub.T %d, %p, %z;";
    assert_eq!(both(&F32, zero), (0, 0));
    let zero = "mul.T %p, %z, %z; sub.T %d, %z, %p;";
    assert_eq!(both(&F32, zero), (0, 0));
}

#[test]
fn other_types_are_fused() {
    let sub = "mul.T %p, %x, %x; sub.T %d, %p, %z;";
    let reversed = "mul.T %p, %x, %x; sub.T %d, %z, %p;";
    let x = 1.0 + f64::EPSILON * f64::from(1 << 25);
    let f64 = Float { ty: "f64", bits: 64, x: x.to_bits(), one: 1f64.to_bits() };
    let (fused, apart) = (x.mul_add(x, -1.0), x * x - 1.0);
    assert_ne!(fused.to_bits(), apart.to_bits());
    assert_eq!(both(&f64, sub), (fused.to_bits(), apart.to_bits()));
    assert_eq!(both(&f64, reversed), ((-fused).to_bits(), (-apart).to_bits()));
    // (1 + 2^-6)^2 - 1 = 2^-5 + 2^-12.
    assert_eq!(both(&HALF, sub), (0x2808, 0x2800));
    assert_eq!(both(&HALF, reversed), (0xa808, 0xa800));
    let two = Float { ty: "f16x2", bits: 32, x: 0x3c00_3c10, one: 0x3c00_3c00 };
    assert_eq!(both(&two, sub), (0x2808, 0x2800));
    assert_eq!(both(&two, reversed), (0xa808, 0xa800));
    // (1 + 2^-4)^2 - 1 = 2^-3 + 2^-8.
    let brain = Float { ty: "bf16", bits: 16, x: 0x3f88, one: 0x3f80 };
    assert_eq!(both(&brain, sub), (0x3e04, 0x3e00));
    let two = Float { ty: "bf16x2", bits: 32, x: 0x3f88_3f80, one: 0x3f80_3f80 };
    assert_eq!(both(&two, sub), (0x3e04_0000, 0x3e00_0000));
}

#[test]
fn modifiers_are_kept() {
    let x = f32::from_bits(F32.x as u32);
    let ftz = "mul.ftz.T %p, %x, %x; sub.ftz.sat.T %d, %p, %z;";
    assert_eq!(both(&F32, ftz), (f32_bits(x.mul_add(x, -1.0)), f32_bits(x * x - 1.0)));
    let sat = "mul.T %p, %x, %x; sub.sat.T %d, %z, %p;";
    assert_eq!(both(&F32, sat), (0, 0), "below zero");
    let small = "mov.b32 %y, 1; mul.ftz.T %p, %y, %z; add.ftz.T %d, %p, 0f00000000;";
    assert_eq!(both(&F32, small), (0, 0), "a subnormal is flushed");
}

#[test]
fn guards_that_agree_are_kept() {
    let x = f32::from_bits(F32.x as u32);
    let both_ways = (f32_bits(x.mul_add(x, -1.0)), f32_bits(x * x - 1.0));
    let done = "@%t mul.T %p, %x, %x; @%t sub.T %d, %p, %z;";
    assert_eq!(both(&F32, done), both_ways);
    let skipped = "mov.b32 %d, %z; @%f mul.T %p, %x, %x; @%f sub.T %d, %p, %z;";
    assert_eq!(both(&F32, skipped), (F32.one, F32.one));
}

/// Labels stand where they stood, though instructions come and go.
#[test]
fn branches_find_their_targets() {
    let x = f32::from_bits(F32.x as u32);
    let body = "mov.b32 %d, %x; bra first;
second: mul.T %q, %x, %x; sub.T %d, %q, %d; bra last;
first: mul.T %p, %x, %x; sub.T %d, %p, %z; @%t bra second; mov.b32 %d, %z;
last:";
    let inner = x.mul_add(x, -1.0);
    let (fused, apart) = (x.mul_add(x, -inner), x * x - (x * x - 1.0));
    assert_eq!(both(&F32, body), (f32_bits(fused), f32_bits(apart)));
}

#[test]
fn what_does_not_fit_is_left_alone() {
    let x = f32::from_bits(F32.x as u32);
    let apart = f32_bits(x * x - 1.0);
    for (why, body) in [
        ("two uses", "mul.T %p, %x, %x; sub.T %d, %p, %z; mov.b32 %q, %p;"),
        ("an unrelated use later", "mul.T %p, %x, %x; sub.T %d, %p, %z; st.global.b32 [%out], %p;"),
        ("another block", "mul.T %p, %x, %x; bra next;\nnext: sub.T %d, %p, %z;"),
        ("a label between", "mul.T %p, %x, %x;\nnext: sub.T %d, %p, %z; @%f bra next;"),
        ("mul is rounded", "mul.rn.T %p, %x, %x; sub.T %d, %p, %z;"),
        ("sub is rounded", "mul.T %p, %x, %x; sub.rn.T %d, %p, %z;"),
        ("both are rounded", "mul.rn.T %p, %x, %x; sub.rn.T %d, %p, %z;"),
        ("ftz of one", "mul.ftz.T %p, %x, %x; sub.T %d, %p, %z;"),
        ("ftz of the other", "mul.T %p, %x, %x; sub.ftz.T %d, %p, %z;"),
        ("a guard on one", "mul.T %p, %x, %x; @%t sub.T %d, %p, %z;"),
        ("a guard on the other", "@%t mul.T %p, %x, %x; sub.T %d, %p, %z;"),
        ("opposite guards", "@%t mul.T %p, %x, %x; @!%f sub.T %d, %p, %z;"),
        ("the guard changes", "@%t mul.T %p, %x, %x; setp.eq.u32 %t, %n, 0; @%t sub.T %d, %p, %z;"),
        ("a factor changes", "mov.b32 %y, %x; mul.T %p, %y, %x; mov.b32 %y, %z; sub.T %d, %p, %z;"),
        (
            "the product is written again",
            "mul.T %p, %z, %z; mul.rn.T %p, %x, %x; sub.T %d, %p, %z;",
        ),
    ] {
        assert_eq!(both(&F32, body), (apart, apart), "{why}");
    }
    // The product is clamped to 1.
    let sat = "mul.sat.T %p, %x, %x; sub.T %d, %p, %z;";
    assert_eq!(both(&F32, sat), (0, 0));
}

/// The only test here that uses the driver: a process has one configuration.
#[test]
fn the_configuration_decides() {
    assert!(Config::new().contraction(Contraction::Always).install());
    common::context();
    let text = kernel(&F32, "mul.T %p, %x, %x; sub.T %d, %p, %z;");
    let text = CString::new(text).expect("no NUL");
    let mut module = ptr::null_mut();
    common::ok!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
    let out = common::allocate(4);
    let x = F32.x as u32;
    assert_eq!(
        common::fill(common::function(module, "k"), ptr::null_mut(), out, x, F32.one as u32),
        common::SUCCESS
    );
    let x = f32::from_bits(x);
    assert_eq!(common::words(out, 1), [x.mul_add(x, -1.0).to_bits()]);
}

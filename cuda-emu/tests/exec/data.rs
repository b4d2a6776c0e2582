//! Loads, stores and arithmetic.

use crate::device::{Device, shape};

const SAXPY: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r2, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    ld.global.f32 %f2, [%rd5];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
DONE:
    ret;
}";

#[test]
fn saxpy_is_right_for_every_size() {
    let device = Device::new(1);
    let program = device.load(SAXPY).expect("saxpy");
    for n in [0usize, 1, 31, 32, 33, 1000, 1 << 20] {
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..n).map(|i| 3.0 - i as f32).collect();
        let (dx, dy) = (device.upload(&x), device.upload(&y));
        let blocks = (n.div_ceil(256) as u32).max(1);
        let args = [n as u64, u64::from(2.5f32.to_bits()), dx, dy];
        device.launch(&program, "saxpy", shape(blocks, 256), &args).expect("launch");
        let got: Vec<f32> = device.download(dy, n);
        for i in 0..n {
            assert_eq!(got[i], x[i].mul_add(2.5, y[i]), "element {i} of {n}");
        }
        device.space.free(dx);
        device.space.free(dy);
    }
}

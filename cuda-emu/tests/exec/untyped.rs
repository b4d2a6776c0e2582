//! Registers of a bit-size type have bits and no type: the PTX manual's 6.1, "operand type
//! information", casts them silently, and its table of relaxed type-checking rules chops what is wider
//! than a store. Compilers are known to lose that and some more of what is here, so programs of
//! `ptx-gen` don't ask for it on a GPU.

use crate::device::{Device, shape};

/// A kernel of `instructions`: `%w1` and `%w2` are its parameters, `%r1` and `%h1` and so on their lower
/// parts; `%h0`, `%r0` and `%w0` are of bits `10`.
fn kernel(instructions: &str, stores: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out, \
         .param .u64 a, .param .u64 b)\n{{\n.reg .b16 %h<4>;\n.reg .b32 %r<4>;\n\
         .reg .b64 %w<4>, %out;\n.reg .pred %p<2>;\nld.param.u64 %out, [out];\n\
         ld.param.u64 %w1, [a];\nld.param.u64 %w2, [b];\ncvt.u32.u64 %r1, %w1;\n\
         cvt.u32.u64 %r2, %w2;\ncvt.u16.u64 %h1, %w1;\ncvt.u16.u64 %h2, %w2;\n\
         mov.b16 %h0, 0xaaaa;\nmov.b32 %r0, 0xaaaaaaaa;\nmov.b64 %w0, 0xaaaaaaaaaaaaaaaa;\n\
         setp.ne.b32 %p0, 0, 0;\nsetp.eq.b32 %p1, 0, 0;\n{instructions}\n{stores}\nret;\n}}\n"
    )
}

/// Returns the first word of memory after the instructions have stored to `[%out]`.
fn word(instructions: &str, stores: &str, a: u64, b: u64) -> u64 {
    let device = Device::new(1);
    let program = device.load(&kernel(instructions, stores)).expect(instructions);
    let out = device.upload(&[0_u64]);
    device.launch(&program, "k", shape(1, 1), &[out, a, b]).expect(instructions);
    device.download(out, 1)[0]
}

/// The `set` of both sections of the manual: all ones or zero for integers, 1.0 or 0.0 in the type of
/// the destination for floats.
#[test]
fn set_gives_one_in_the_type_of_the_destination() {
    let (less, more) = (3, 0x4000);
    for (dtype, register, yes) in [
        ("u32", "%r0", 0xffff_ffff),
        ("s32", "%r0", 0xffff_ffff),
        ("f32", "%r0", 0x3f80_0000),
        ("f16", "%h0", 0x3c00),
    ] {
        let store = if register == "%r0" { "st.global.b32 [%out], %r0;" } else { STORE_HALF };
        for (stype, sources) in [
            ("u16", "%h1, %h2"),
            ("s16", "%h1, %h2"),
            ("u32", "%r1, %r2"),
            ("s32", "%r1, %r2"),
            ("u64", "%w1, %w2"),
            ("s64", "%w1, %w2"),
            ("f16", "%h1, %h2"),
        ] {
            if (dtype, stype) == ("f32", "f16") {
                continue;
            }
            let set = format!("set.lt.{dtype}.{stype} {register}, {sources};");
            assert_eq!(word(&set, store, less, more), yes, "{set}");
            assert_eq!(word(&set, store, more, less), 0, "{set}");
        }
    }
}

const STORE_HALF: &str = "st.global.b16 [%out], %h0;";

/// A guard is of the whole instruction: where it is false the register stays as it was.
#[test]
fn a_guarded_set_leaves_its_register() {
    for (set, store, kept) in [
        ("set.ne.f32.s64 %r0, %w1, %w2;", "st.global.b32 [%out], %r0;", 0xaaaa_aaaa),
        ("set.le.s32.u16 %r0, %h1, %h2;", "st.global.b32 [%out], %r0;", 0xaaaa_aaaa),
        ("set.num.f16.f16 %h0, %h1, %h2;", STORE_HALF, 0xaaaa),
    ] {
        assert_eq!(word(&format!("@%p0 {set}"), store, 3, 4), kept, "{set}");
        assert_ne!(word(&format!("@%p1 {set}"), store, 3, 4), kept, "{set}");
    }
}

/// So of `testp`, of `vadd4` with its sum, and of their likes.
#[test]
fn a_guard_is_of_every_instruction() {
    let predicate = "selp.b64 %w0, 1, 0, %p1; st.global.b64 [%out], %w0;";
    for (test, a) in [
        ("testp.number.f32 %p1, %r1;", 0x7fc0_0000),
        ("testp.infinite.f64 %p1, %w1;", 0),
        ("testp.subnormal.f32 %p1, %r1;", 0x3f80_0000),
    ] {
        assert_eq!(word(&format!("@%p0 {test}"), predicate, a, 0), 1, "{test}");
        assert_eq!(word(&format!("@%p1 {test}"), predicate, a, 0), 0, "{test}");
    }
    let store = "st.global.b32 [%out], %r0;";
    for sum in ["vadd4", "vsub4"] {
        let sum = format!("{sum}.u32.u32.u32.add %r0, %r1, %r2, %r1;");
        assert_eq!(word(&format!("@%p0 {sum}"), store, 0x0102_0304, 0), 0xaaaa_aaaa, "{sum}");
        assert_eq!(word(&format!("@%p1 {sum}"), store, 0x0102_0304, 0), 0x0102_030e, "{sum}");
    }
}

/// A `set` to a float leaves bits that integers may be made of, in the register's width alone.
#[test]
fn what_set_leaves_is_bits() {
    let wide = "st.global.b64 [%out], %w0;";
    let set = "set.gt.f32.u64 %r0, %w2, %w1; cvt.u64.u32 %w0, %r0;";
    assert_eq!(word(set, wide, 3, 4), 0x3f80_0000);
    let set = "set.neu.f16.f16 %h0, %h1, %h2; cvt.u64.u16 %w0, %h0;";
    assert_eq!(word(set, wide, 0x3c00, 0), 0x3c00);
    // 0xeea7 is more than the 1.0 of an f16, and less than that twice in 32 bits.
    let set = "set.neu.f16.f16 %h0, %h1, %h2; set.ls.u32.u16 %r0, %h1, %h0; cvt.u64.u32 %w0, %r0;";
    assert_eq!(word(set, wide, 0xeea7, 0), 0);
}

/// A store of less than the register has the lower bits, whatever wrote them.
#[test]
fn a_store_of_less_takes_the_lower_bits() {
    for width in ["b8", "u8", "s8"] {
        for (sum, store, low) in [
            ("add.rn.f16 %h0, %h1, %h2;", "[%out], %h0", 0x01),
            ("add.rn.bf16 %h0, %h1, %h2;", "[%out], %h0", 0x01),
            ("add.rn.f32 %r0, %r1, %r2;", "[%out], %r0", 0x01),
            ("add.rn.f64 %w0, %w1, %w2;", "[%out], %w0", 0x01),
        ] {
            // The least subnormal or a small normal number, and zero.
            let store = format!("st.global.{width} {store};");
            assert_eq!(word(sum, &store, 1, 0), low, "{sum} {store}");
        }
        let sum = "fma.rn.f16 %h0, %h1, %h2, %h2;";
        let store = format!("st.global.v4.{width} [%out], {{%h0, %h1, %h2, %h0}};");
        // 1.001 * 0 + 0, of which the source's lower byte is not the value's integer.
        assert_eq!(word(sum, &store, 0x3c01, 0), 0x0100, "{store}");
    }
    let sum = "add.rn.f32 %r0, %r1, %r2;";
    assert_eq!(word(sum, "st.global.s16 [%out], %r0;", 0x3f80_1234, 0), 0x1234);
    let sum = "add.rn.f64 %w0, %w1, %w2;";
    let one = 0x3ff0_0000_1234_5678;
    assert_eq!(word(sum, "st.global.s32 [%out], %w0;", one, 0), 0x1234_5678);
}

/// Shifts take bits for their amount, and what is above the width for the width (the manual's `shl` and
/// `shr`), also where a float was computed.
#[test]
fn a_shift_takes_the_bits_of_a_float() {
    let wide = "st.global.b64 [%out], %w0;";
    let a = 0xbfb1_27cc_4085_2aa4;
    for (shift, result) in [("shr.s64", u64::MAX), ("shr.u64", 0), ("shl.b64", 0)] {
        // 4.16 and -0.0, of which 4 and 0 are no amounts.
        let text = format!("add.rn.f32 %r0, %r1, %r2; {shift} %w0, %w1, %r0;");
        assert_eq!(word(&text, wide, a, 0x8000_0000), result, "{text}");
    }
    // The bits 3, a subnormal number.
    let text = "add.rn.f32 %r0, %r1, %r2; shl.b64 %w0, %w1, %r0;";
    assert_eq!(word(text, wide, 3, 0), 24);
}

/// A conversion reads what is in the register, not what another conversion put there.
#[test]
fn conversions_take_bits() {
    let (half, single, wide) =
        (STORE_HALF, "st.global.b32 [%out], %r0;", "st.global.b64 [%out], %w0;");
    for (text, store, a, result) in [
        ("cvt.rz.f16.bf16 %h0, %h1; cvt.rzi.u64.bf16 %w0, %h0;", wide, 0x42c7, 0x2e00_0000_0000),
        ("cvt.rm.bf16.f16 %h0, %h1; cvt.rzi.u32.bf16 %r0, %h0;", single, 0x76b0, 0x6b00),
        ("cvt.rn.bf16.f16 %h0, %h1; cvt.rzi.sat.u64.f16 %w0, %h0;", wide, 0xfc00, 1 << 63),
        ("cvt.rpi.u64.bf16 %w0, %h1; cvt.sat.u32.u64 %r0, %w0;", single, 0x7fff, 0xffff_ffff),
        // The 1 of a `cnot` is a subnormal number.
        ("cnot.b32 %r0, %r1; cvt.rz.bf16.f32 %h0, %r0;", half, 0, 0),
        ("cnot.b32 %r0, %r1; cvt.rp.bf16.f32 %h0, %r0;", half, 0, 1),
    ] {
        assert_eq!(word(text, store, a, 0), result, "{text}");
    }
}

/// The least integer has no absolute value and no negative: its bits stay, and they have a sign.
#[test]
fn signs_are_in_the_bits() {
    let wide = "st.global.b64 [%out], %w0;";
    for op in ["abs", "neg"] {
        let text = format!("{op}.s16 %h0, %h1; cvt.s64.s16 %w0, %h0;");
        assert_eq!(word(&text, wide, 0x8000, 0), 0xffff_ffff_ffff_8000, "{text}");
        let text =
            format!("{op}.s16 %h0, %h1; setp.lt.s16 %p0, %h0, %h2; selp.b64 %w0, 1, 0, %p0;");
        assert_eq!(word(&text, wide, 0x8000, 0), 1, "{text}");
        let text = format!("{op}.s32 %r0, %r1; cvt.s64.s32 %w0, %r0;");
        assert_eq!(word(&text, wide, 0x8000_0000, 0), 0xffff_ffff_8000_0000, "{text}");
    }
    // A positive f32 has two f16, the lower one of them negative.
    let text = "add.rp.sat.f32 %r0, %r1, %r2; abs.f16x2 %r0, %r0;";
    assert_eq!(word(text, "st.global.b32 [%out], %r0;", 0x000a_e497, 0), 0x000a_6497);
}

/// Each round of a loop adds.
#[test]
fn a_loop_adds_upper_halves() {
    let (a, b) = (0x4f1b_ddef_u64, 0xcbcf_928e_u64);
    for op in ["mad.hi.u32", "mad.hi.cc.u32"] {
        let text = format!(
            "mov.u32 %r3, 0;\n$L_again:\n{op} %r0, %r1, %r2, %r0; add.u32 %r3, %r3, 1;\n\
             setp.lt.u32 %p0, %r3, 4; @%p0 bra $L_again;"
        );
        let sum = (0xaaaa_aaaa + 4 * ((a * b) >> 32)) & 0xffff_ffff;
        assert_eq!(word(&text, "st.global.b32 [%out], %r0;", a, b), sum, "{op}");
    }
}

/// The manual's `min` and `max`: of two NaN the result is the canonical one, also of one twice.
#[test]
fn the_less_of_one_nan_is_the_canonical_one() {
    for op in ["min", "max"] {
        let text = format!("{op}.f16 %h0, %h1, %h1;");
        assert_eq!(word(&text, STORE_HALF, 0xffff, 0), 0x7fff, "{text}");
        let text = format!("{op}.f32 %r0, %r1, %r1;");
        assert_eq!(
            word(&text, "st.global.b32 [%out], %r0;", 0xffff_ffff, 0),
            0x7fff_ffff,
            "{text}"
        );
    }
}

/// Conversions between bf16 and 8 bits, which ptxas takes with a register of 8 bits alone: all values, against f64.
#[test]
fn bf16_converts_to_and_from_registers_of_8_bits() {
    let device = Device::new(2);
    let load = |convert: &str| {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n.reg .b8 %b;\n\
             .reg .b16 %h, %u;\n.reg .b32 %r<4>;\n.reg .b64 %out, %w;\nld.param.u64 %out, [out];\n\
             mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r0, %r1, 256, %r0;\n\
             mad.wide.u32 %w, %r0, 2, %out;\ncvt.u16.u32 %h, %r0;\n{convert}\nst.global.b16 [%w], %u;\nret;\n}}\n"
        );
        device.load(&text)
    };
    let run = |convert: &str, blocks: u32| -> Vec<u16> {
        let program = load(convert).unwrap_or_else(|error| panic!("{convert}: {}", error.log));
        let out = device.upload(&vec![0_u16; 256 * blocks as usize]);
        device.launch(&program, "k", shape(blocks, 256), &[out]).expect(convert);
        device.download(out, 256 * blocks as usize)
    };
    type Round = fn(f64) -> f64;
    let roundings: [(&str, Round); 4] = [
        ("rni", f64::round_ties_even),
        ("rzi", f64::trunc),
        ("rmi", f64::floor),
        ("rpi", f64::ceil),
    ];
    for (ty, low, high) in [("u8", 0.0, 255.0), ("s8", -128.0, 127.0)] {
        let extend = format!("cvt.{}16.{ty} %u, %b;", &ty[..1]);
        for (word, round) in roundings {
            let convert = format!("cvt.{word}.{ty}.bf16 %b, %h; {extend}");
            for (bits, got) in (0..=u16::MAX).zip(run(&convert, 256)) {
                let value = f64::from(f32::from_bits(u32::from(bits) << 16));
                // NaN becomes 0, as it does of f16.
                let wanted = round(value).clamp(low, high) as i32 as u16;
                assert_eq!(got, wanted, "{convert} of {value}");
            }
        }
        let convert = format!("cvt.{ty}.u16 %b, %h; cvt.rn.bf16.{ty} %u, %b;");
        for (byte, got) in (0..=u8::MAX).zip(run(&convert, 1)) {
            let value = if ty == "u8" { f32::from(byte) } else { f32::from(byte.cast_signed()) };
            assert_eq!(u32::from(got), value.to_bits() >> 16, "{convert} of {value}");
        }
        for wider in [format!("cvt.rzi.{ty}.bf16 %r3, %h;"), format!("cvt.rn.bf16.{ty} %u, %h;")] {
            let log = load(&wider).expect_err(&wider).log;
            assert!(log.contains("the register of 8 bits is a .b"), "{wider}: {log}");
        }
    }
}

//! Counts of executed instructions, against counts by hand.

use cuda_emu::exec::{DeviceInfo, Executed};

use crate::device::{Device, shape};

/// A kernel `k(out)` with these lines after the 3 that read its parameter and the thread's number, and one that returns.
fn kernel(lines: &str) -> String {
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.func (.param .b32 r) twice(.param .b32 a)
{{
	.reg .u32 %a;
	.reg .pred %p;
	ld.param.u32 %a, [a];
	setp.gt.u32 %p, %a, 1;
	@%p bra DOUBLE;
	st.param.b32 [r], %a;
	ret;
DOUBLE:
	add.u32 %a, %a, %a;
	st.param.b32 [r], %a;
	ret;
}}
.visible .entry k(.param .u64 out)
{{
	.reg .pred %p<4>;
	.reg .u32 %t, %r<4>;
	.reg .f32 %f<4>;
	.reg .b64 %out;
	ld.param.u64 %out, [out];
	mov.u32 %t, %tid.x;
	mov.u32 %r0, 0;
{lines}
	ret;
}}
"
    )
}

fn executed(lines: &str, blocks: u32, threads: u32, workers: usize) -> Executed {
    let mut device = Device::new(workers);
    device.info = DeviceInfo { counts: true, ..DeviceInfo::default() };
    let out = device.upload(&[0_u32; 64]);
    let text = kernel(lines);
    let program = device.load(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let stats = device.launch(&program, "k", shape(blocks, threads), &[out]).expect("it runs");
    stats.executed
}

/// Checks the instructions that each thread of a block executes beside the first three and the `ret`.
fn check(what: &str, lines: &str, each: impl Fn(u64) -> u64) {
    for (blocks, threads, workers) in
        [(1, 1, 1), (1, 31, 1), (1, 32, 1), (1, 33, 1), (3, 64, 1), (50, 65, 4)]
    {
        let all = executed(lines, blocks, threads, workers).all;
        let block: u64 = (0..u64::from(threads)).map(|thread| 4 + each(thread)).sum();
        assert_eq!(all, block * u64::from(blocks), "{what}: {blocks} blocks of {threads}");
    }
}

#[test]
fn straight_lines() {
    check("nothing", "", |_| 0);
    check("two", "add.u32 %r1, %t, 1; mul.lo.u32 %r1, %r1, %r1;", |_| 2);
}

#[test]
fn loops_count_each_iteration_of_each_thread() {
    // Of t iterations: the comparison and branch t + 1 times, the two others t times.
    let text =
        "LOOP: setp.ge.u32 %p0, %r0, %t; @%p0 bra DONE; add.u32 %r0, %r0, 1; bra LOOP; DONE:";
    check("a loop", text, |thread| {
        // A guarded branch counts for the threads that take it.
        let (compared, taken, body) = (thread + 1, 1, 2 * thread);
        compared + taken + body
    });
}

#[test]
fn divergent_paths_count_for_their_threads() {
    let text = "and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra EVEN; \
                add.u32 %r2, %t, 1; add.u32 %r2, %t, 2; add.u32 %r2, %t, 3; bra DONE; \
                EVEN: add.u32 %r2, %t, 4; DONE: add.u32 %r3, %r2, 1;";
    check("two paths", text, |thread| 2 + if thread % 2 == 0 { 1 + 1 } else { 4 } + 1);
}

#[test]
fn guards_count_for_their_threads() {
    let text = "setp.lt.u32 %p0, %t, 5; @%p0 add.u32 %r1, %t, 1; @!%p0 add.u32 %r1, %t, 2; \
                @%p0 add.u32 %r1, %r1, 1; add.u32 %r2, %r1, 1;";
    check("guards", text, |thread| 2 + if thread < 5 { 2 } else { 1 });
}

#[test]
fn threads_that_have_ended_execute_nothing() {
    let mut all = 0;
    for thread in 0..40 {
        all += 4 + 1 + if thread < 7 { 0 } else { 3 };
    }
    // The threads that end early execute `exit` instead of the `ret`.
    let text = "setp.lt.u32 %p0, %t, 7; @%p0 exit; \
                add.u32 %r1, %t, 1; add.u32 %r1, %t, 2; add.u32 %r1, %t, 3;";
    assert_eq!(executed(text, 1, 40, 1).all, all);
}

#[test]
fn called_functions_count() {
    // The call and the load of its result, the callee's 3 and its 2 or 3, and the store of the argument.
    let text = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), twice, (a); \
                ld.param.b32 %r1, [b]; }";
    check("a call", text, |thread| 3 + if thread > 1 { 2 + 1 + 3 } else { 2 + 2 });
}

#[test]
fn approximate_instructions_count_by_name() {
    let text = "mov.f32 %f0, 0f3F000000; setp.lt.u32 %p0, %t, 3; \
                LOOP: ex2.approx.ftz.f32 %f1, %f0; sin.approx.f32 %f1, %f1; add.u32 %r0, %r0, 1; \
                setp.lt.u32 %p1, %r0, 4; @%p1 bra LOOP; \
                @%p0 div.full.f32 %f2, %f1, %f0; ex2.approx.f32 %f3, %f2; div.rn.f32 %f3, %f3, %f0;";
    for (threads, workers) in [(1, 1), (33, 1), (96, 4)] {
        let executed = executed(text, 2, threads, workers);
        let threads = u64::from(threads) * 2;
        let few = if threads == 2 { 2 } else { 6 };
        let wanted = [
            ("div.full.f32", few),
            ("ex2.approx.f32", 5 * threads),
            ("sin.approx.f32", 4 * threads),
        ];
        assert_eq!(executed.approximate.into_iter().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn every_approximate_instruction_has_a_name() {
    let f32 = [
        "ex2.approx",
        "lg2.approx",
        "sin.approx",
        "cos.approx",
        "rcp.approx",
        "rsqrt.approx",
        "sqrt.approx",
        "tanh.approx",
    ];
    let mut all: Vec<(String, String)> =
        f32.iter().map(|name| (format!("{name}.f32"), format!("{name}.f32 %f1, %f0;"))).collect();
    for name in ["div.approx.f32", "div.full.f32"] {
        all.push((name.to_owned(), format!("{name} %f1, %f0, %f0;")));
    }
    for name in ["rcp.approx", "rsqrt.approx"] {
        let line = format!(
            "{{ .reg .f64 %d<2>; mov.f64 %d0, 0d3FF0000000000000; {name}.ftz.f64 %d1, %d0; }}"
        );
        all.push((format!("{name}.f64"), line));
    }
    for (stem, ty, ftz, bits) in [
        ("ex2", "f16", "", 16),
        ("ex2", "f16x2", "", 32),
        ("ex2", "bf16", ".ftz", 16),
        ("ex2", "bf16x2", ".ftz", 32),
        ("tanh", "f16", "", 16),
        ("tanh", "f16x2", "", 32),
        ("tanh", "bf16", "", 16),
        ("tanh", "bf16x2", "", 32),
    ] {
        let line = format!(
            "{{ .reg .b{bits} %h<2>; mov.b{bits} %h0, 0; {stem}.approx{ftz}.{ty} %h1, %h0; }}"
        );
        all.push((format!("{stem}.approx.{ty}"), line));
    }
    for (name, line) in all {
        let executed = executed(&format!("mov.f32 %f0, 0f3F000000; {line}"), 1, 1, 1);
        let found: Vec<_> = executed.approximate.into_iter().collect();
        assert_eq!(found, [(name.as_str(), 1)], "{line}");
    }
}

#[test]
fn nothing_is_counted_unless_asked() {
    let device = Device::new(1);
    let out = device.upload(&[0_u32]);
    let program = device.load(&kernel("")).expect("it loads");
    let stats = device.launch(&program, "k", shape(1, 32), &[out]).expect("it runs");
    assert_eq!(stats.executed, Executed::default());
    let mut counting = Device::new(1);
    counting.info.counts = true;
    let program = counting.load(&kernel("")).expect("it loads");
    let counted = counting.launch(&program, "k", shape(1, 32), &[out]).expect("it runs");
    assert_eq!(counted.lane_instructions, stats.lane_instructions);
}

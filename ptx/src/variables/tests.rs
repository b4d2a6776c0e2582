//! Hand-written texts, one for each way in which an address can go.

use super::{Reached, VariableUse, scan};

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// Returns the variables that each kernel reaches, as `kernel: variable r, variable w`.
#[track_caller]
fn reached(text: &str) -> Vec<String> {
    let text = format!("{HEAD}{text}");
    let reached = Reached::of_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    // The quick scan must not miss a variable.
    let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(reached.kernels, Reached::of(&module).kernels, "{text}");
    let kernels = reached.kernels.iter().map(|reach| {
        let uses = reach.uses.iter().map(|used| {
            let access = if used.writes { "w" } else { "r" };
            format!("{} {access}", reached.variables[used.variable])
        });
        format!("{}: {}", reach.kernel, uses.collect::<Vec<_>>().join(", "))
    });
    kernels.collect()
}

/// Returns the body of a kernel `k(.param .u64 p)` in a module with the variables `x`, `y`, the table `t` that holds
/// the address of `y`, and the constant `c`.
fn body(body: &str) -> String {
    format!(
        ".visible .global .align 4 .u32 x;
         .global .align 4 .u32 y = 7;
         .global .align 8 .u64 t[2] = {{generic(y), 0}};
         .const .align 4 .f32 c[4];
         .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
         .extern .func (.param .b32 r) other(.param .b64 a);
         .func (.param .b64 r) same(.param .b64 a) {{
             .reg .b64 %rd<3>;
             ld.param.u64 %rd1, [a];
             st.param.b64 [r], %rd1;
             ret;
         }}
         .func reader(.param .b64 a) {{
             .reg .b64 %rd<3>; .reg .b32 %r<3>;
             ld.param.u64 %rd1, [a];
             ld.u32 %r1, [%rd1];
             ret;
         }}
         .func writer(.param .b64 a) {{
             .reg .b64 %rd<3>;
             ld.param.u64 %rd1, [a];
             st.u32 [%rd1], 1;
             ret;
         }}
         .visible .entry k(.param .u64 p) {{
             .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .pred %p<4>;
             .local .align 8 .b8 depot[16];
             .shared .align 8 .b8 block[16];
             {body}
             ret;
         }}"
    )
}

/// Returns the variables that `k` with this body reaches, without its name.
#[track_caller]
fn of(text: &str) -> String {
    let all = reached(&body(text));
    all.first().map_or(String::new(), |one| one.trim_start_matches("k: ").to_owned())
}

#[test]
fn direct_accesses() {
    for (text, wanted) in [
        ("", ""),
        ("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;", ""),
        ("ld.global.u32 %r1, [x];", "x r"),
        ("@%p1 ld.global.u32 %r1, [y+4];", "y r"),
        ("st.global.u32 [x], 1;", "x w"),
        ("ld.global.u32 %r1, [x]; st.global.u32 [x], %r1;", "x w"),
        ("atom.global.add.u32 %r1, [x], 1;", "x w"),
        ("red.global.add.u32 [y], 1;", "y w"),
        ("ld.const.f32 %f1, [c+4];", "c r"),
        ("ld.global.nc.u32 %r1, [x]; ld.global.u32 %r1, [y];", "x r, y r"),
        ("prefetch.global.L2 [x];", ""),
    ] {
        assert_eq!(of(text), wanted, "{text}");
    }
}

#[test]
fn addresses_in_registers() {
    let derived = "mov.u64 %rd1, x; cvta.global.u64 %rd2, %rd1; add.s64 %rd3, %rd2, 4;
                   mad.lo.s64 %rd4, %rd3, 1, 0; selp.b64 %rd5, %rd4, %rd3, %p1;";
    for (last, wanted) in [
        ("", ""),
        ("ld.u32 %r1, [%rd5];", "x r"),
        ("st.u32 [%rd5], 1;", "x w"),
        ("atom.add.u32 %r1, [%rd5], 1;", "x w"),
        // Two halves are joined again.
        ("mov.b64 {%r1, %r2}, %rd5; mov.b64 %rd6, {%r1, %r2}; st.u32 [%rd6+4], 1;", "x w"),
        ("shfl.sync.idx.b32 %r1|%p2, %r2, 0, 31, -1; ld.u32 %r3, [%rd5];", "x r"),
        // A comparison alone is no access.
        ("setp.eq.s64 %p2, %rd5, 0;", ""),
        // The address is stored, so any thread may load it.
        ("ld.param.u64 %rd6, [p]; st.global.u64 [%rd6], %rd5;", "x w"),
        ("ld.param.u64 %rd6, [p]; atom.global.exch.b64 %rd7, [%rd6], %rd5;", "x w"),
        // An unknown instruction.
        ("discard.global.L2 [%rd5], 128;", "x w"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f1}, [%rd5, {%r1}];", "x w"),
    ] {
        assert_eq!(of(&format!("{derived} {last}")), wanted, "{last}");
    }
    // Copies against the order of the text, as in a loop.
    let looped = "L: @%p1 st.u32 [%rd3], 1; mov.u64 %rd3, %rd2; mov.u64 %rd2, %rd1;
                  mov.u64 %rd1, y; bra L;";
    assert_eq!(of(looped), "y w");
}

#[test]
fn addresses_in_memory() {
    for (text, wanted) in [
        // Addresses from a table, as its initialiser says.
        ("ld.global.u64 %rd1, [t];", "t r"),
        ("ld.global.u64 %rd1, [t]; ld.u32 %r1, [%rd1];", "y r, t r"),
        ("ld.global.u64 %rd1, [t]; st.u32 [%rd1], 1;", "y w, t r"),
        // Addresses through local and shared memory, which only this kernel sees.
        (
            "mov.u64 %rd1, x; st.local.u64 [depot], %rd1; ld.local.u64 %rd2, [depot]; ld.u32 %r1, [%rd2];",
            "x r",
        ),
        (
            "mov.u64 %rd1, x; st.shared.u64 [block], %rd1; ld.shared.u64 %rd2, [block]; st.u32 [%rd2], 1;",
            "x w",
        ),
        // The table is overwritten: a load from it may return any stored value.
        ("mov.u64 %rd1, x; st.global.u64 [t], %rd1;", "x w, t w"),
    ] {
        assert_eq!(of(text), wanted, "{text}");
    }
}

#[test]
fn a_pointer_that_another_kernel_stored() {
    let text = ".global .align 4 .u32 x; .global .align 8 .u64 slot;
        .visible .entry store() { .reg .b64 %rd<3>; mov.u64 %rd1, x; st.global.u64 [slot], %rd1; ret; }
        .visible .entry follow() {
            .reg .b64 %rd<3>; ld.global.u64 %rd1, [slot]; st.u32 [%rd1], 1; ret; }
        .visible .entry through(.param .u64 p) {
            .reg .b64 %rd<3>; .reg .b32 %r<2>;
            ld.param.u64 %rd1, [p]; ld.u64 %rd2, [%rd1]; ld.u32 %r1, [%rd2]; ret; }
        .visible .entry none(.param .u64 p) {
            .reg .b64 %rd<3>; ld.param.u64 %rd1, [p]; st.u64 [%rd1], 1; ret; }";
    assert_eq!(reached(text), ["store: x w, slot w", "follow: x w, slot r", "through: x r"]);
}

#[test]
fn calls() {
    let call = |callee: &str, variable: &str, after: &str| {
        format!(
            "mov.u64 %rd1, {variable};
             {{ .param .b64 a0; .param .b64 r0; .param .b32 r1;
                st.param.b64 [a0], %rd1;
                {callee}
                {after} }}"
        )
    };
    for (text, wanted) in [
        (call("call.uni reader, (a0);", "x", ""), "x r"),
        (call("call.uni writer, (a0);", "x", ""), "x w"),
        (call("call.uni (r0), same, (a0);", "x", ""), ""),
        (
            call("call.uni (r0), same, (a0);", "x", "ld.param.b64 %rd2, [r0]; st.u32 [%rd2], 1;"),
            "x w",
        ),
        (
            call("call.uni (r0), same, (a0);", "y", "ld.param.b64 %rd2, [r0]; ld.u32 %r1, [%rd2];"),
            "y r",
        ),
        // Printed strings.
        (call("call.uni (r1), vprintf, (a0, a0);", "y", ""), "y r"),
        (call("call.uni (r1), other, (a0);", "y", ""), "x w, y w, t w, c r"),
    ] {
        assert_eq!(of(&text), wanted, "{text}");
    }
}

#[test]
fn recursion_and_calls_through_registers() {
    let text = ".global .align 4 .u32 x; .global .align 4 .u32 y; .global .align 4 .u32 z;
        .func one();
        .func two() { ld_y: call.uni one; .reg .b32 %r<2>; ld.global.u32 %r1, [y]; ret; }
        .func one() { .reg .b32 %r<2>; st.global.u32 [x], 1; call.uni two; ret; }
        .func alone() { st.global.u32 [z], 1; ret; }
        .global .align 8 .u64 functions[2] = {one, two};
        .visible .entry direct() { call.uni two; ret; }
        .visible .entry indirect() {
            .reg .b64 %rd<3>;
            ld.global.u64 %rd1, [functions];
            P: .callprototype _ ();
            call %rd1, (), P;
            ret;
        }
        .visible .entry targets() {
            .reg .b64 %rd<3>;
            mov.u64 %rd1, alone;
            T: .calltargets alone;
            call %rd1, T;
            ret;
        }";
    assert_eq!(
        reached(text),
        [
            "direct: x w, y r",
            // `alone` has its address taken, too.
            "indirect: x w, y r, z w, functions r",
            "targets: z w",
        ]
    );
}

#[test]
fn parameters_passed_by_address_and_variables_of_functions() {
    let text = ".global .align 4 .u32 x;
        .func by_address(.param .align 8 .b8 s[16]) {
            .reg .b64 %rd<4>; .reg .b32 %r<2>;
            mov.b64 %rd1, s; add.s64 %rd2, %rd1, 8; ld.u64 %rd3, [%rd2]; st.u32 [%rd3], 1; ret;
        }
        .visible .entry k() {
            .reg .b64 %rd<2>; .param .align 8 .b8 a0[16];
            mov.u64 %rd1, x; st.param.b64 [a0+8], %rd1; call.uni by_address, (a0); ret;
        }
        .visible .entry own() {
            .reg .b32 %r<2>; .global .align 4 .u32 counter;
            atom.global.add.u32 %r1, [counter], 1; ret;
        }";
    assert_eq!(reached(text), ["k: x w", "own: counter$in0$1 w"]);
}

#[test]
fn hostile_texts_end_in_time() {
    // A chain of moves against the order of the text, longer than the most passes.
    let moves: String = (1..2000).map(|i| format!("mov.b64 %rd{i}, %rd{};\n", i + 1)).collect();
    let text = format!(
        "{HEAD}.global .u32 x; .global .u32 y;
         .visible .entry k() {{ .reg .b64 %rd<2002>; st.u32 [%rd1], 1; {moves} mov.u64 %rd2000, x; ret; }}"
    );
    let reached = Reached::of_text(&text).expect("PTX");
    assert!(reached.uses("k").iter().all(|used| used.writes) && reached.uses("k").len() == 2);

    // One register that holds one of many variables after the other.
    let each = |text: fn(usize) -> String, n: usize| (0..n).map(text).collect::<String>();
    let many = each(|i| format!(".global .u32 g{i};\n"), 20_000);
    let loads = each(|i| format!("ld.global.u32 %r1, [g{i}];\n"), 20_000);
    let text = format!("{HEAD}{many}.visible .entry k() {{ .reg .b32 %r<2>; {loads} ret; }}");
    let reached = Reached::of_text(&text).expect("PTX");
    assert_eq!(reached.uses("k").len(), 20_000);

    // Many kernels, each of which may reach many variables.
    let names = each(|i| if i == 0 { "g0".into() } else { format!(", g{i}") }, 8000);
    let kernels = each(
        |i| {
            format!(
                ".visible .entry k{i}() {{ .reg .b64 %rd<2>; ld.global.u64 %rd1, [t+8]; \
                 st.global.u32 [%rd1], 0; ret; }}\n"
            )
        },
        8000,
    );
    let text = format!("{HEAD}{many}.global .u64 t[] = {{{names}}};\n{kernels}");
    let reached = Reached::of_text(&text).expect("PTX");
    assert_eq!(reached.kernels.len(), 8000);
    let writes = |used: &VariableUse| used.writes && used.variable == 7999;
    assert!(reached.kernels.iter().all(|kernel| kernel.uses.iter().any(writes)));
}

#[test]
fn modules_that_mention_no_variable_are_not_parsed() {
    let constants = ".global .align 4 .u32 _ZN4geom5RADIXE = 256;
        .visible .global .align 1 .b8 table[4] = {1, 2, 3, 4};
        .const .align 4 .u32 limit[2];
        .visible .entry k(.param .u64 .ptr .global .align 4 p) { // RADIX, table
            .reg .b64 %rd<3>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 4; ret; }";
    assert!(!scan::mentions_variables(constants));
    for (what, with) in [
        ("used", format!("{constants} .entry l() {{ .reg .b32 %r<2>; ld.global.u32 %r1, [table+1]; ret; }}")),
        ("const", format!("{constants} .entry l() {{ .reg .b32 %r<2>; ld.const.u32 %r1, [limit]; ret; }}")),
        ("later", ".entry l() { .reg .b32 %r<2>; ld.global.u32 %r1, [z]; ret; } .global .u32 z;".to_owned()),
        ("list", ".global .u32 a, z; .entry l() { .reg .b32 %r<2>; ld.global.u32 %r1, [z]; ret; }".to_owned()),
        ("inner", ".entry l() { .global .u32 own; ret; }".to_owned()),
        ("extern", ".extern .global .align 4 .b8 z[]; .entry l() { .reg .b64 %r<2>; mov.u64 %r1, z; ret; }".to_owned()),
        ("managed", ".visible .global .attribute(.managed) .align 4 .u32 z; .entry l() { st.global.u32 [z], 1; }".to_owned()),
        ("comment", ".global .u32 z /* [ */; .entry l() { st.global.u32 [z], 1; }".to_owned()),
    ] {
        assert!(scan::mentions_variables(&with), "{what}");
    }
}

//! Static single assignment: its definition on random graphs, and functions before and after, which an interpreter of a
//! few instructions runs. The software device's tests run whole programs.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;
use ptx::cfg::{Cfg, Liveness};
use ptx::ir::{Base, BinaryOp, Cmp, Formal, Function, Module, Op, Operand, Pred, RegId, Role};
use ptx::simplify::{branch_guards, remove_unreachable, single_exit, split_critical_edges};
use ptx::ssa::{Ssa, SsaError, Violation};

fn read(body: &str) -> Module {
    let text = format!(
        ".version 8.0\n.target sm_90\n.func (.reg .b32 %result) k(.reg .b32 %a) {{ .reg .pred %p, %q; .reg .b32 %r<6>;\n\
         {body}\n}}"
    );
    ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn module_with(module: &Module, function: Function) -> Module {
    Module { functions: vec![function], ..module.clone() }
}

/// Runs a function, and returns what it stores and how it ends, at most `most` events of it. A loop without an end is
/// left after many steps.
fn run(function: &Function, a: u64, most: usize) -> Vec<u64> {
    let mut registers = vec![0u64; function.registers.len()];
    if let Some(Formal::Reg(reg)) = function.params.first() {
        registers[reg.index()] = a;
    }
    let mut events = Vec::new();
    let mut at = 0;
    for _ in 0..4000 {
        if events.len() >= most {
            break;
        }
        let Some(instr) = function.instrs().get(at) else {
            let Some(Formal::Reg(result)) = function.returns.first() else { panic!("a result") };
            events.push(registers[result.index()] | 1 << 60);
            break;
        };
        at += 1;
        let holds = |pred: &Pred| (registers[pred.reg.index()] != 0) != pred.negated;
        if !instr.guard.as_ref().is_none_or(holds) {
            continue;
        }
        let value = |operand: &Operand| match operand {
            Operand::Reg(reg) => registers[reg.index()],
            Operand::Imm(bits) => *bits,
            other => panic!("{other:?}"),
        };
        match &instr.op {
            Op::Mov { d: Some(d), a, .. } => registers[d.index()] = value(a),
            Op::Binary { op: BinaryOp::Add, d: Some(d), a, b, .. } => {
                registers[d.index()] = (value(a) + value(b)) & 0xFFFF_FFFF;
            }
            Op::Setp { cmp: Cmp::Lt, p, q, a, b, .. } => {
                let less = value(a) < value(b);
                for (reg, value) in [(p, less), (q, !less)] {
                    if let Some(reg) = reg {
                        registers[reg.index()] = value.into();
                    }
                }
            }
            Op::St { addr, a, .. } => {
                let Base::Reg(base) = addr.base else { panic!("{addr:?}") };
                events.push(registers[base.index()] << 32 | value(&a[0]));
            }
            Op::Bra { target, .. } => at = function.target(*target),
            Op::BrxIdx { index, table, .. } => {
                let table = &function.tables[table.index()];
                let length = table.len() as u64;
                let index = usize::try_from(value(index) % length).expect("an index");
                at = function.target(table[index]);
            }
            Op::Ret { .. } => at = usize::MAX,
            Op::Exit => {
                events.push(1 << 61);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    events
}

/// One instruction of a random body.
type Step = (u8, usize, usize, u8);

fn body(steps: &[Step]) -> String {
    let n = steps.len();
    let (mut body, mut tables) = (String::new(), String::new());
    for (at, &(kind, to, other, reg)) in steps.iter().enumerate() {
        let (to, other) = (to % (n + 1), other % (n + 1));
        let (guard, reg) = (["", "", "@%p ", "@!%q "][reg as usize % 4], reg / 4);
        let (reg, source) = (reg % 6, reg / 6 % 6);
        let _ = match kind {
            0 => writeln!(body, "l{at}: bra l{to};"),
            1..=3 => writeln!(body, "l{at}: @%p bra l{to};"),
            4 => {
                let _ = writeln!(tables, "t{at}: .branchtargets l{to}, l{other}, l{to};");
                writeln!(body, "l{at}: {guard}brx.idx %r{reg}, t{at};")
            }
            5 if other % 2 == 0 => writeln!(body, "l{at}: {guard}exit;"),
            5 => writeln!(body, "l{at}: {guard}ret;"),
            6 => writeln!(body, "l{at}: {guard}mov.b32 %r{reg}, {other};"),
            7 | 8 => writeln!(body, "l{at}: {guard}mov.b32 %r{reg}, %r{source};"),
            9 => writeln!(body, "l{at}: {guard}add.u32 %r{reg}, %r{source}, 1;"),
            10 => writeln!(body, "l{at}: {guard}setp.lt.u32 %p, %r{reg}, %r{source};"),
            11 => writeln!(body, "l{at}: setp.lt.u32 %q|%p, %r{reg}, {};", other % 4),
            12 => writeln!(body, "l{at}: {guard}mov.b32 %result, %r{reg};"),
            13 => writeln!(body, "l{at}: {guard}mov.b32 %r{reg}, %a;"),
            14 => writeln!(body, "l{at}: {guard}mov.pred %p, %q;"),
            _ => writeln!(body, "l{at}: {guard}st.global.b32 [%r{reg}], %r{source};"),
        };
    }
    format!("{tables}{body} l{n}:")
}

/// Dominance by definition.
fn reachable(cfg: &Cfg, without: Option<u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut work = if cfg.blocks.is_empty() { Vec::new() } else { vec![0] };
    while let Some(block) = work.pop() {
        if Some(block) != without && found.insert(block) {
            work.extend(&cfg.blocks[block as usize].successors);
        }
    }
    found
}

/// The parameters by definition: where a register is live and several definitions meet.
fn expected_params(function: &Function, cfg: &Cfg) -> Vec<BTreeSet<RegId>> {
    let liveness = Liveness::new(cfg, function);
    let count = u32::try_from(cfg.blocks.len()).expect("few blocks");
    let into = cfg.predecessors();
    // dominated[a]: the blocks that a dominates.
    let all = reachable(cfg, None);
    let dominated: Vec<BTreeSet<u32>> =
        (0..count).map(|a| &all - &reachable(cfg, Some(a))).collect();
    let mut params = vec![BTreeSet::new(); cfg.blocks.len()];
    for reg in (0..function.registers.len()).map(|at| RegId(u32::try_from(at).expect("few"))) {
        let mut defs: BTreeSet<u32> = BTreeSet::from([0]);
        for (instr, block) in function.instrs().iter().zip(&cfg.block_of) {
            instr.for_each_def(|def| {
                if def == reg {
                    defs.insert(*block);
                }
            });
        }
        loop {
            let meets = |&z: &u32| {
                defs.iter().any(|&x| {
                    let strictly = x != z && dominated[x as usize].contains(&z);
                    !strictly && into[z as usize].iter().any(|p| dominated[x as usize].contains(p))
                })
            };
            // Dead definitions count for nothing: the frontier is followed where the register is live.
            let live = |&z: &u32| liveness.live_in(z).contains(&reg);
            let found: Vec<u32> = (0..count).filter(live).filter(meets).collect();
            let before = defs.len();
            for &block in &found {
                params[block as usize].insert(reg);
                defs.insert(block);
            }
            if defs.len() == before {
                break;
            }
        }
    }
    params
}

/// The form with the source of each copy in the place of its result. Then parameters are arguments of parameters of
/// the same block, and live on beside them: the copies of an edge overwrite each other's sources if done in a bad order.
fn propagated(ssa: &Ssa) -> Ssa {
    let mut new = ssa.clone();
    let mut source: Vec<RegId> =
        (0..ssa.origin.len()).map(|at| RegId(u32::try_from(at).expect("few"))).collect();
    // Definitions come before copies of them in this order.
    for &block in ssa.dominators.preorder() {
        let block = &ssa.cfg.blocks[block as usize];
        for instr in &ssa.function.instrs()[block.start as usize..block.end as usize] {
            if let Op::Mov { d: Some(d), a: Operand::Reg(a), .. } = instr.op {
                source[d.index()] = source[a.index()];
            }
        }
    }
    for instr in new.function.body.iter_mut().flatten() {
        instr.for_each_register_mut(|role, reg| {
            if role == Role::Use {
                *reg = source[reg.index()];
            }
        });
    }
    for (_, arg) in new.params.iter_mut().flatten().flat_map(|param| &mut param.args) {
        *arg = source[arg.index()];
    }
    for reg in new.results.iter_mut().flatten() {
        *reg = source[reg.index()];
    }
    new
}

/// Everything that is promised of the form of a function.
fn check(module: &Module) {
    let function = &module.functions[0];
    let guarded = branch_guards(module, function);
    for instr in guarded.instrs() {
        let control = matches!(instr.op, Op::Bra { .. } | Op::Ret { .. } | Op::Exit | Op::Trap);
        assert!(instr.guard.is_none() || control);
    }
    let reached = remove_unreachable(module, &guarded);
    let cfg = Cfg::new(module, &reached);
    assert_eq!(cfg.order.len(), cfg.blocks.len());
    let split = split_critical_edges(module, &reached);
    let single = single_exit(module, function);
    let rets = |function: &Function| {
        function.instrs().iter().filter(|i| matches!(i.op, Op::Ret { .. })).count()
    };
    assert!(rets(&single) <= 1);
    if rets(&single) == 1 {
        assert!(matches!(single.instrs().last().map(|i| &i.op), Some(Op::Ret { .. })));
    }
    let ssa = Ssa::new(module, function).expect("known instructions");
    assert_eq!(ssa.verify(), Ok(()));
    let cfg = Cfg::new(module, &split);
    assert_eq!(cfg, ssa.cfg);
    assert!(cfg.predecessors().first().is_none_or(Vec::is_empty));
    let expected = expected_params(&split, &cfg);
    for (params, expected) in ssa.params.iter().zip(&expected) {
        let origins = params.iter().map(|param| ssa.origin[param.reg.index()]);
        assert_eq!(&origins.clone().collect::<BTreeSet<_>>(), expected);
        assert_eq!(params.len(), expected.len());
    }
    for (new, old) in ssa.function.registers.iter().zip(&ssa.origin) {
        assert_eq!(*new, function.registers[old.index()]);
    }
    let propagated = propagated(&ssa);
    assert_eq!(propagated.verify(), Ok(()));
    let propagated = propagated.into_function();
    let back = ssa.into_function();
    let printed = module_with(module, back.clone()).to_string();
    let read_again = ptx::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    let read_again = read_again.functions.into_iter().next().unwrap();
    let forms = [guarded, reached, split, single, back, propagated, read_again];
    for a in [0, 3] {
        let before = run(function, a, 60);
        for form in &forms {
            let after = run(form, a, before.len());
            // An endless loop without stores may be cut off earlier in a longer function.
            assert_eq!(after[..], before[..after.len()]);
            let cut = after.len() < before.len();
            assert!(!cut || before.len() > 20, "{before:?} {after:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn forms_keep_their_promises_and_the_functions_meaning(
        steps in prop::collection::vec((0..20u8, 0..60usize, 0..60usize, any::<u8>()), 0..40),
    ) {
        check(&read(&body(&steps)));
    }

    #[test]
    fn dense_graphs_keep_their_meaning(
        steps in prop::collection::vec((0..13u8, 0..16usize, 0..16usize, any::<u8>()), 0..16),
    ) {
        check(&read(&body(&steps)));
    }
}

#[test]
fn the_problems_of_swap_and_lost_copy_do_not_arise() {
    // A swap, a rotation, and a value that is read after the loop has written the next.
    let swap = "mov.b32 %r0, 1; mov.b32 %r1, 2; mov.b32 %r2, 3; mov.b32 %r5, 0;
        again: mov.b32 %r3, %r0; mov.b32 %r0, %r1; mov.b32 %r1, %r2; mov.b32 %r2, %r3; mov.b32 %r4, %r5;
        add.u32 %r5, %r5, 1; st.global.b32 [%r0], %r1; setp.lt.u32 %p, %r5, %a; @%p bra again;
        st.global.b32 [%r2], %r4; mov.b32 %result, %r0; ret;";
    let module = read(swap);
    check(&module);
    assert_eq!(
        run(&module.functions[0], 3, 60),
        [2 << 32 | 3, 3 << 32 | 1, 1 << 32 | 2, 3 << 32 | 2, 1 << 60 | 1]
    );
}

#[test]
fn a_guard_becomes_a_branch_that_neighbours_share() {
    let module = read(
        "@%p ld.global.b32 %r0, [%r1]; @%p st.global.b32 [%r0], %r2; @!%p mov.b32 %r2, 1;
         @%p setp.lt.u32 %p, %r0, 1; @%p mov.b32 %r3, 2; @%p bra l; @%p exit; l: ret;",
    );
    let branched = branch_guards(&module, &module.functions[0]);
    let printed = module_with(&module, branched).to_string();
    let body: Vec<&str> = printed.lines().map(str::trim).collect();
    let at = body.iter().position(|line| line.starts_with('@')).expect("a branch");
    let words = body[at..].iter().map(|line| {
        let words: Vec<_> = line.split(' ').take(2).collect();
        words.join(" ").trim_end_matches(';').to_owned()
    });
    assert_eq!(
        words.collect::<Vec<_>>(),
        [
            "@!%p2 bra",
            "ld.global.b32 %r3,",
            "st.global.b32 [%r3],",
            "$x0_else:",
            "@%p2 bra",
            "mov.b32 %r5,",
            "$x1_else:",
            "@!%p2 bra",
            "setp.lt.u32 %p2,",
            "$x2_else:",
            "@!%p2 bra",
            "mov.b32 %r6,",
            "$x3_else:",
            "@%p2 bra",
            "@%p2 exit",
            "l:",
            "ret",
            "}",
            ""
        ],
        "{printed}"
    );
}

#[test]
fn one_exit_is_the_last_instruction() {
    let text = ".version 8.0 .target sm_90
        .entry k() { .reg .pred %p; @%p exit; @!%p ret; @%p trap; }
        .func f() { .reg .pred %p; @%p exit; @!%p ret; }
        .entry e() { exit; } .entry n() {} .entry l() { l: bra l; }";
    let module = ptx::parse(text).expect("a module");
    let opcodes = |at: usize| {
        let function = single_exit(&module, &module.functions[at]);
        let name = |op: &Op| match op {
            Op::Bra { .. } => "bra",
            Op::Exit => "exit",
            Op::Trap => "trap",
            Op::Ret { .. } => "ret",
            _ => "other",
        };
        function.instrs().iter().map(|instr| name(&instr.op)).collect::<Vec<_>>()
    };
    assert_eq!(opcodes(0), ["bra", "bra", "trap", "ret"]);
    assert_eq!(opcodes(1), ["exit", "bra", "ret"]);
    assert_eq!(opcodes(2), ["ret"]);
    assert_eq!(opcodes(3), ["ret"]);
    assert_eq!(opcodes(4), ["bra"]);
}

#[test]
fn lines_and_source_places_are_kept() {
    let text = ".version 8.0\n.target sm_90\n.file 1 \"a.cu\"\n.entry k(.param .u32 n)\n{\n.reg .b32 %r<3>; .reg .pred %p;\n\
        ld.param.u32 %r0, [n];\n.loc 1 7 2\nsetp.lt.u32 %p, %r0, 1;\n.loc 1 8 3\n@%p add.u32 %r0, %r0, 2;\n\
        .loc 1 9 4\nst.global.b32 [%r0], %r0;\nret;\n}";
    let module = ptx::parse(text).expect("a module");
    let form = Ssa::new(&module, &module.functions[0]).expect("a form").into_function();
    let place = |op: fn(&Op) -> bool| {
        let instr = form.instrs().iter().find(|instr| op(&instr.op)).expect("an instruction");
        (instr.line, form.locs[instr.loc.expect("a place").index()].line)
    };
    assert_eq!(place(|op| matches!(op, Op::Setp { .. })), (9, 7));
    assert_eq!(place(|op| matches!(op, Op::Bra { .. })), (11, 8));
    assert_eq!(place(|op| matches!(op, Op::Binary { .. })), (11, 8));
    assert_eq!(place(|op| matches!(op, Op::St { .. })), (13, 9));
}

#[test]
fn values_of_all_types_are_copied() {
    let text = ".version 8.3 .target sm_90
        .func (.reg .u8 %y) f(.reg .u8 %x, .reg .b128 %w, .reg .f16x2 %h, .reg .f64 %d, .reg .pred %p)
        { .reg .b16 %s; cvt.u8.u16 %y, %s; @%p bra l; ld.u8 %y, [0]; ld.b128 %w, [0]; ld.b32 %h, [0]; ld.f64 %d, [0];
          setp.lt.f64 %p, %d, %d; ld.u8 %x, [0]; l: st.u8 [8], %x; st.b128 [16], %w; st.b32 [4], %h; st.f64 [8], %d;
          @%p trap; }";
    let module = ptx::parse(text).expect("a module");
    let ssa = Ssa::new(&module, &module.functions[0]).expect("a form");
    assert_eq!(ssa.verify(), Ok(()));
    assert_eq!(ssa.params.iter().flatten().count(), 6);
    let printed = module_with(&module, ssa.into_function()).to_string();
    for copy in ["cvt.u8.u8 ", "mov.b128 ", "mov.b32 ", "mov.b64 ", "mov.pred "] {
        assert_eq!(
            printed.matches(copy).count() % 2,
            usize::from(copy.starts_with("cvt")),
            "{printed}"
        );
    }
    ptx::parse(&printed).expect("its own text");
}

#[test]
fn undefined_values_have_registers_of_their_own() {
    let module = read("@%p bra l; mov.b32 %r0, 1; l: st.global.b32 [%r1], %r0; @%p exit; ret;");
    let ssa = Ssa::new(&module, &module.functions[0]).expect("a form");
    // `%p`, `%r1`, `%r0` before the branch, and the result.
    assert_eq!(ssa.undefined.len(), 4);
    assert_eq!(ssa.params.iter().flatten().count(), 1);
    assert_eq!(ssa.results.iter().flatten().count(), 1);
}

#[test]
fn what_has_no_form_is_refused_with_its_line() {
    let head = ".version 8.0\n.target sm_90\n";
    let text = format!(
        "{head}.func f(.reg .b32 %a);\n.entry k() {{ .reg .f32 f, g;\nmade.up.f32 f, g;\n}}"
    );
    let mut module = ptx::parse(&text).expect("a module");
    let error = Ssa::new(&module, &module.functions[0]).expect_err("a declaration");
    assert_eq!(error.to_string(), "`f` is only declared");
    let error = Ssa::new(&module, &module.functions[1]).expect_err("a made-up instruction");
    assert_eq!(error, SsaError::UnknownRoles { opcode: "made.up.f32".into(), line: 5 });
    module.functions[1].body.as_mut().expect("a body")[0].op.set_results(1);
    let ssa = Ssa::new(&module, &module.functions[1]).expect("stated roles");
    assert_eq!(ssa.verify(), Ok(()));
    module.functions[1].registers.pop();
    let error = Ssa::new(&module, &module.functions[1]).expect_err("a register too few");
    assert_eq!(error, SsaError::Malformed { name: "k".into(), line: 5 });
}

#[test]
fn broken_forms_are_found() {
    let module = read(
        "mov.b32 %r1, %a; setp.lt.u32 %p, %r1, 2; @%p bra l; mov.b32 %r1, 1; add.u32 %r2, %r1, 1; l: mov.b32 %result, %r1; ret;",
    );
    let good = Ssa::new(&module, &module.functions[0]).expect("a form");
    assert_eq!(good.verify(), Ok(()));
    let broken = |breaks: &dyn Fn(&mut Ssa)| {
        let mut ssa = good.clone();
        breaks(&mut ssa);
        ssa.verify().expect_err("a violation")
    };
    let body = |ssa: &mut Ssa| ssa.function.body.take().expect("a body");
    let join = good.params.iter().position(|params| !params.is_empty()).expect("a parameter");
    let block = u32::try_from(join).expect("few blocks");
    assert!(matches!(
        broken(&|ssa| {
            let mut body = body(ssa);
            let mut first = None;
            body[0].for_each_def(|reg| first = Some(reg));
            body[1].for_each_register_mut(|role, reg| {
                if role == Role::Def {
                    *reg = first.unwrap();
                }
            });
            ssa.function.body = Some(body);
        }),
        Violation::Redefined { .. }
    ));
    assert!(matches!(
        broken(&|ssa| {
            let mut body = body(ssa);
            body.swap(0, 1);
            ssa.function.body = Some(body);
        }),
        Violation::NotDominated { block: 0, .. }
    ));
    assert!(matches!(
        broken(&|ssa| {
            let mut body = body(ssa);
            let pred = body.iter().find_map(|instr| instr.guard);
            body[0].guard = pred;
            ssa.function.body = Some(body);
        }),
        Violation::Guarded { line: 4 }
    ));
    assert_eq!(
        broken(&|ssa| {
            ssa.params[join][0].args.pop();
        }),
        Violation::Arguments { block }
    );
    // The value that one predecessor defines, at the end of the other.
    assert!(matches!(
        broken(&|ssa| {
            let [one, other] = &mut ssa.params[join][0].args[..] else { panic!("two") };
            (one.1, other.1) = (other.1, one.1);
        }),
        Violation::NotDominated { .. }
    ));
    assert_eq!(
        broken(&|ssa| {
            ssa.params.pop();
        }),
        Violation::Lengths
    );
}

#[test]
fn long_functions_take_little_time() {
    // 10,000 instructions with a thousand branches, loops and registers across them.
    let n = 1000;
    let body: String = (0..n).fold(String::new(), |mut text, i| {
        let _ = writeln!(
            text,
            "l{i}: add.u32 %r0, %r0, 1; add.u32 %r1, %r1, %r0; mov.b32 %r2, %r1; mov.b32 %r3, %r2; \
             setp.lt.u32 %p, %r3, %a; @%p add.u32 %r4, %r4, %r1; mov.b32 %r5, %r4; add.u32 %r5, %r5, 3; \
             setp.lt.u32 %q, %r5, %r2; @%q bra l{};",
            i / 2
        );
        text
    });
    let module = read(&body);
    let start = std::time::Instant::now();
    let ssa = Ssa::new(&module, &module.functions[0]).expect("a form");
    let built = start.elapsed();
    assert_eq!(ssa.verify(), Ok(()));
    let start = std::time::Instant::now();
    let back = ssa.into_function();
    println!("{} instructions: {built:?} in, {:?} out", back.instrs().len(), start.elapsed());
    assert!(built.as_secs() < 5);
}

#[test]
fn many_long_lives_take_little_time_or_are_refused() {
    let text = |n: usize, again: bool| {
        let mut text =
            format!(".version 8.0\n.target sm_90\n.entry k() {{ .reg .pred p; .reg .b32 r<{n}>;\n");
        (0..n).for_each(|i| writeln!(text, "mov.b32 r{i}, {i};").expect("a string"));
        (0..n).for_each(|i| writeln!(text, "@p bra l{i}; mov.b32 r0, 1; l{i}:").expect("a string"));
        (0..n)
            .filter(|_| again)
            .for_each(|i| writeln!(text, "@p mov.b32 r{i}, {i};").expect("a string"));
        (0..n).for_each(|i| writeln!(text, "st.global.b32 [0], r{i};").expect("a string"));
        ptx::parse(&(text + "}")).expect("a module")
    };
    let start = std::time::Instant::now();
    let module = text(20_000, false);
    let ssa = Ssa::new(&module, &module.functions[0]).expect("a form");
    assert_eq!(ssa.params.iter().flatten().count(), 20_000);
    assert_eq!(ssa.verify(), Ok(()));
    let module = text(20_000, true);
    let error = Ssa::new(&module, &module.functions[0]).expect_err("too many");
    assert_eq!(error, SsaError::TooLarge { name: "k".into() });
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

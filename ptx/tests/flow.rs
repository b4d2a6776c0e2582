//! Dominators, loops and liveness: compared with their definitions, on random graphs.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;
use ptx::cfg::{Cfg, Dominators, Liveness, Loops};
use ptx::ir::{Function, RegId};

fn read(body: &str) -> (Function, Cfg) {
    let text = format!(
        ".version 8.0\n.target sm_90\n.func (.reg .b32 %result) k(.reg .b32 %a) {{ .reg .pred %p; .reg .b32 %r<6>;\n\
         {body}\n}}"
    );
    let mut module = ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let cfg = Cfg::new(&module, &module.functions[0]);
    (module.functions.remove(0), cfg)
}

/// Blocks that can be reached from `from` without going through `without`.
fn reachable(cfg: &Cfg, from: u32, without: Option<u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut work = vec![from];
    while let Some(block) = work.pop() {
        if Some(block) != without && found.insert(block) {
            work.extend(&cfg.blocks[block as usize].successors);
        }
    }
    found
}

/// Dominance by definition: without `a`, `b` cannot be reached.
fn dominates(cfg: &Cfg, a: u32, b: u32) -> bool {
    let all = reachable(cfg, 0, None);
    all.contains(&a) && all.contains(&b) && !reachable(cfg, 0, Some(a)).contains(&b)
}

/// One instruction of a random body.
type Step = (u8, usize, usize, u8);

fn body(steps: &[Step]) -> String {
    let n = steps.len();
    let mut body = String::new();
    let mut tables = String::new();
    for (at, &(kind, to, other, reg)) in steps.iter().enumerate() {
        let (to, other) = (to % (n + 1), other % (n + 1));
        let (reg, source) = (reg % 6, reg / 6 % 6);
        let _ = match kind {
            0 => writeln!(body, "l{at}: bra l{to};"),
            1..=3 => writeln!(body, "l{at}: @%p bra l{to};"),
            4 => {
                let _ = writeln!(tables, "t{at}: .branchtargets l{to}, l{other}, l{to};");
                writeln!(body, "l{at}: brx.idx %r{reg}, t{at};")
            }
            5 => writeln!(body, "l{at}: @%p exit;"),
            6 => writeln!(body, "l{at}: @%p ret;"),
            7 => writeln!(body, "l{at}: mov.b32 %r{reg}, 1;"),
            8 => writeln!(body, "l{at}: @%p mov.b32 %r{reg}, 1;"),
            9 => writeln!(body, "l{at}: mov.b32 %r{reg}, %r{source};"),
            10 => writeln!(body, "l{at}: setp.eq.u32 %p, %r{reg}, %r{source};"),
            _ => writeln!(body, "l{at}: mov.b32 %result, %r{reg};"),
        };
    }
    format!("{tables}{body} l{n}: mov.b32 %r0, %a; ret;")
}

/// Whether a walk from the instruction at `from` may read `reg` before an unconditional definition, by the text's
/// meaning alone.
fn read_later(function: &Function, cfg: &Cfg, block: u32, reg: RegId, at_end: bool) -> bool {
    let result = matches!(function.returns[0], ptx::ir::Formal::Reg(r) if r == reg);
    let mut seen = BTreeSet::new();
    let mut work = Vec::new();
    let leave = |block: u32, work: &mut Vec<u32>| {
        let block = &cfg.blocks[block as usize];
        work.extend(&block.successors);
        result && block.returns
    };
    if at_end {
        if leave(block, &mut work) {
            return true;
        }
    } else {
        work.push(block);
    }
    'blocks: while let Some(block) = work.pop() {
        if !seen.insert(block) {
            continue;
        }
        let range = &cfg.blocks[block as usize];
        for instr in &function.instrs()[range.start as usize..range.end as usize] {
            let mut reads = false;
            instr.for_each_use(|r| reads |= r == reg);
            if reads {
                return true;
            }
            let mut writes = false;
            instr.for_each_def(|r| writes |= r == reg);
            if writes && instr.guard.is_none() {
                continue 'blocks;
            }
        }
        if leave(block, &mut work) {
            return true;
        }
    }
    false
}

fn check(steps: &[Step]) {
    let (function, cfg) = read(&body(steps));
    let count = u32::try_from(cfg.blocks.len()).expect("few blocks");
    let dominators = Dominators::new(&cfg);
    let all = reachable(&cfg, 0, None);
    for a in 0..count {
        let strict: Vec<u32> = (0..count).filter(|&d| d != a && dominates(&cfg, d, a)).collect();
        let immediate =
            strict.iter().copied().find(|&d| strict.iter().all(|&e| dominates(&cfg, e, d)));
        assert_eq!(dominators.immediate(a), immediate);
        assert_eq!(dominators.is_reachable(a), all.contains(&a));
        assert_eq!(dominators.depth(a) as usize, strict.len());
        for b in 0..count {
            assert_eq!(dominators.dominates(a, b), dominates(&cfg, a, b), "{a} {b}");
            let child = dominators.children(a).contains(&b);
            assert_eq!(child, dominators.immediate(b) == Some(a), "{a} {b}");
        }
    }
    let preorder: BTreeSet<u32> = dominators.preorder().iter().copied().collect();
    assert_eq!(preorder, all);
    assert_eq!(dominators.preorder().len(), all.len());
    assert!(!dominators.dominates(count, 0) && !dominators.dominates(0, count));
    loops(&cfg, &dominators, &all);
    liveness(&function, &cfg);
}

fn loops(cfg: &Cfg, dominators: &Dominators, all: &BTreeSet<u32>) {
    let loops = Loops::new(cfg, dominators);
    let mut expected: Vec<(u32, Vec<u32>, BTreeSet<u32>)> = Vec::new();
    for &header in all {
        let latches: Vec<u32> = all
            .iter()
            .copied()
            .filter(|&l| cfg.blocks[l as usize].successors.contains(&header))
            .filter(|&l| dominates(cfg, header, l))
            .collect();
        if latches.is_empty() {
            continue;
        }
        let leads = |&b: &u32| {
            let from = reachable(cfg, b, Some(header));
            b == header || latches.iter().any(|l| from.contains(l))
        };
        let blocks = all.iter().copied().filter(leads).collect();
        expected.push((header, latches, blocks));
    }
    assert_eq!(loops.all.len(), expected.len());
    for (at, one) in loops.all.iter().enumerate() {
        let (_, latches, blocks) =
            expected.iter().find(|(header, ..)| *header == one.header).expect("a loop");
        assert_eq!(one.latches, *latches);
        let found: BTreeSet<u32> = loops.blocks(one).iter().copied().collect();
        assert_eq!(found, *blocks);
        assert_eq!(loops.blocks(one).len(), blocks.len());
        assert_eq!(loops.blocks(one)[0], one.header);
        for block in 0..cfg.blocks.len() {
            let block = u32::try_from(block).expect("few blocks");
            assert_eq!(loops.contains(one, block), blocks.contains(&block));
        }
        let around: Vec<_> = expected.iter().filter(|(.., b)| b.contains(&one.header)).collect();
        assert_eq!(one.depth as usize, around.len());
        let parent = around
            .iter()
            .filter(|(header, ..)| *header != one.header)
            .min_by_key(|(.., blocks)| blocks.len())
            .map(|(header, ..)| *header);
        assert_eq!(one.parent.map(|id| loops.all[id as usize].header), parent);
        assert!(one.parent.is_none_or(|parent| (parent as usize) < at));
        let mut exits = loops.exits(cfg, one);
        exits.sort_unstable();
        let edges = blocks.iter().flat_map(|&from| {
            let to = &cfg.blocks[from as usize].successors;
            to.iter().filter(|to| !blocks.contains(to)).map(move |&to| (from, to))
        });
        let mut edges: Vec<(u32, u32)> = edges.collect();
        edges.sort_unstable();
        assert_eq!(exits, edges);
    }
    for block in 0..cfg.blocks.len() {
        let block = u32::try_from(block).expect("few blocks");
        let around: Vec<_> = expected.iter().filter(|(.., b)| b.contains(&block)).collect();
        assert_eq!(loops.depth(block) as usize, around.len());
        let inner = around.iter().min_by_key(|(.., b)| b.len()).map(|(header, ..)| *header);
        assert_eq!(loops.innermost(block).map(|id| loops.all[id as usize].header), inner);
    }
    // Reducible if nothing cyclic is left without the edges back to dominators.
    let mut left: BTreeSet<u32> = all.clone();
    loop {
        let before = left.len();
        let sources: BTreeSet<u32> = left
            .iter()
            .copied()
            .filter(|&b| {
                let to = &cfg.blocks[b as usize].successors;
                !to.iter().any(|&to| left.contains(&to) && !dominates(cfg, to, b))
            })
            .collect();
        left.retain(|b| !sources.contains(b));
        if left.len() == before {
            break;
        }
    }
    assert_eq!(loops.irreducible.is_empty(), left.is_empty());
    for &(from, to) in &loops.irreducible {
        assert!(left.contains(&from) && left.contains(&to) && !dominates(cfg, to, from));
    }
}

fn liveness(function: &Function, cfg: &Cfg) {
    let liveness = Liveness::new(cfg, function);
    for block in 0..cfg.blocks.len() {
        let block = u32::try_from(block).expect("few blocks");
        let regs = || (0..function.registers.len()).map(|r| RegId(u32::try_from(r).expect("few")));
        let at = |end| regs().filter(move |&r| read_later(function, cfg, block, r, end));
        assert_eq!(liveness.live_in(block), at(false).collect::<Vec<_>>(), "in {block}");
        assert_eq!(liveness.live_out(block), at(true).collect::<Vec<_>>(), "out {block}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn analyses_are_what_their_definitions_say(
        steps in prop::collection::vec((0..12u8, 0..40usize, 0..40usize, 0..36u8), 0..32),
    ) {
        check(&steps);
    }

    #[test]
    fn branches_alone_are_analysed(
        steps in prop::collection::vec((0..5u8, 0..14usize, 0..14usize, 0..36u8), 0..14),
    ) {
        check(&steps);
    }
}

#[test]
fn nests_of_loops_are_found_in_little_time() {
    let n = 50_000;
    let head: String = (0..n).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "l{i}: mov.u32 %r0, {i};");
        text
    });
    let tail: String = (0..n).rev().fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "@%p bra l{i};");
        text
    });
    let table: Vec<String> = (0..n).map(|i| format!("l{i}")).collect();
    let table = format!("t: .branchtargets {};\n{head} brx.idx %r0, t;", table.join(", "));
    let start = std::time::Instant::now();
    for (text, depth) in [(format!("{head}{tail}"), n), (table, n)] {
        let (function, cfg) = read(&text);
        let dominators = Dominators::new(&cfg);
        let loops = Loops::new(&cfg, &dominators);
        assert_eq!(loops.all.len(), n);
        let deepest = loops.all.iter().map(|one| one.depth as usize).max();
        assert_eq!(deepest, Some(depth));
        assert!(loops.irreducible.is_empty());
        let _ = Liveness::new(&cfg, &function);
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn an_empty_body_has_no_blocks_to_analyse() {
    let (function, cfg) = read("");
    let dominators = Dominators::new(&cfg);
    assert_eq!(dominators.preorder(), []);
    assert_eq!(dominators.immediate(0), None);
    assert!(!dominators.dominates(0, 0));
    assert!(Loops::new(&cfg, &dominators).all.is_empty());
    assert_eq!(Liveness::new(&cfg, &function).live_in(0), []);
}

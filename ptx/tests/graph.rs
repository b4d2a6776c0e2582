//! Control-flow graphs: against the definition, on graphs of every shape.

use proptest::prelude::*;
use ptx::cfg::Cfg;

fn graph(body: &str) -> Cfg {
    let text = format!(
        ".version 8.0\n.target sm_90\n.func gone() .noreturn;\n.func back();\n\
         .entry k() {{ .reg .pred p; .reg .b32 r;\n{body}\n}}"
    );
    let module = ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let kernel = module.functions.iter().find(|f| f.name == "k").unwrap();
    Cfg::new(&module, kernel)
}

fn successors(cfg: &Cfg) -> Vec<(&[u32], bool)> {
    cfg.blocks.iter().map(|b| (b.successors.as_slice(), b.exits)).collect()
}

#[test]
fn a_conditional_branch_meets_again_behind_both_sides() {
    let cfg = graph("@p bra a; mov.u32 r, 1; bra b; a: mov.u32 r, 2; b: ret;");
    assert_eq!(successors(&cfg), [(&[2, 1][..], false), (&[3], false), (&[3], false), (&[], true)]);
    assert_eq!(cfg.ipdom, [Some(3), Some(3), Some(3), None]);
    assert_eq!(cfg.block_of, [0, 1, 1, 2, 3]);
}

#[test]
fn leaving_early_takes_the_meeting_place_away() {
    let cfg = graph("@p exit; mov.u32 r, 1; ret;");
    assert_eq!(successors(&cfg), [(&[1][..], true), (&[], true)]);
    assert_eq!(cfg.ipdom, [None, None]);
}

#[test]
fn a_call_that_does_not_return_leaves_and_others_go_on() {
    let cfg = graph("@p bra a; call gone, (); bra b; a: call back, (); b: ret;");
    // Behind the call of `gone` nothing is reached but what others reach.
    assert_eq!(cfg.blocks[1].successors, []);
    assert!(cfg.blocks[1].exits);
    assert!(!cfg.order.contains(&2));
    assert_eq!(cfg.blocks[3].successors, [4]);
}

#[test]
fn a_table_gives_each_target_once() {
    let cfg = graph("t: .branchtargets a, b, a, c, c; brx.idx r, t; a: ret; b: trap; c: bra a;");
    assert_eq!(cfg.blocks[0].successors, [1, 2, 3]);
    assert_eq!(cfg.ipdom[0], None);
}

#[test]
fn an_endless_loop_has_post_dominators_too() {
    let cfg = graph("@p bra a; loop: mov.u32 r, 1; @p bra x; mov.u32 r, 2; x: bra loop; a: ret;");
    // Both sides inside the loop meet at `x`.
    let x = cfg.block_of[4];
    assert_eq!(cfg.ipdom[cfg.block_of[1] as usize], Some(x));
    assert_eq!(cfg.ipdom[cfg.block_of[3] as usize], Some(x));
    assert_eq!(cfg.ipdom[0], None);
    assert_eq!(graph("loop: bra loop;").ipdom, [None]);
}

#[test]
fn an_empty_body_and_a_label_at_the_end_are_graphs() {
    assert!(graph("").blocks.is_empty());
    let cfg = graph("@p bra end; mov.u32 r, 1; end:");
    assert_eq!(successors(&cfg), [(&[1][..], true), (&[], true)]);
}

#[test]
fn a_hundred_thousand_blocks_need_no_stack_and_little_time() {
    let n = 100_000;
    let chain: String = (0..n).map(|i| format!("l{i}: @p bra l{};\n", i + 1)).collect();
    let start = std::time::Instant::now();
    let cfg = graph(&format!("{chain}l{n}: ret;"));
    assert_eq!(cfg.blocks.len(), n + 1);
    // And backwards: a nest of loops, each around the one before.
    let head: String = (0..n).map(|i| format!("l{i}: mov.u32 r, {i};\n")).collect();
    let tail: String = (0..n).rev().map(|i| format!("@p bra l{i};\n")).collect();
    let cfg = graph(&format!("{head}{tail} ret;"));
    assert_eq!(cfg.order.len(), 2 * n);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// Whether every way from `from` out of the function comes through `through`.
fn post_dominates(cfg: &Cfg, from: u32, through: u32) -> bool {
    let mut seen = vec![false; cfg.blocks.len()];
    let mut stack = vec![from];
    while let Some(block) = stack.pop() {
        if block == through || std::mem::replace(&mut seen[block as usize], true) {
            continue;
        }
        if cfg.blocks[block as usize].exits {
            return false;
        }
        stack.extend(&cfg.blocks[block as usize].successors);
    }
    true
}

/// Whether the exit can be reached from here, whatever ways are taken first. A loop without an end
/// counts as a way out, which the definition does not know.
fn ends(cfg: &Cfg, from: u32) -> bool {
    let mut seen = vec![false; cfg.blocks.len()];
    let mut stack = vec![from];
    while let Some(block) = stack.pop() {
        if std::mem::replace(&mut seen[block as usize], true) {
            continue;
        }
        if post_dominates(cfg, block, u32::MAX) {
            return false;
        }
        stack.extend(&cfg.blocks[block as usize].successors);
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn post_dominators_are_what_their_definition_says(
        shape in prop::collection::vec((0..4u8, 0..24usize), 1..24),
    ) {
        let n = shape.len();
        let mut body = String::new();
        for (at, &(kind, to)) in shape.iter().enumerate() {
            let to = to % n;
            body += &match kind {
                0 => format!("l{at}: bra l{to};\n"),
                1 | 2 => format!("l{at}: @p bra l{to};\n"),
                _ => format!("l{at}: @p exit;\n"),
            };
        }
        let cfg = graph(&format!("{body} ret;"));
        let blocks = 0..u32::try_from(cfg.blocks.len()).unwrap();
        for block in blocks.clone().filter(|&b| ends(&cfg, b)) {
            // Only blocks with a way out have post-dominators by the definition.
            let strict: Vec<u32> = blocks
                .clone()
                .filter(|&d| d != block && post_dominates(&cfg, block, d))
                .collect();
            // The immediate one is post-dominated by all the others.
            let immediate = strict
                .iter()
                .copied()
                .find(|&d| strict.iter().all(|&e| e == d || post_dominates(&cfg, d, e)));
            prop_assert_eq!(cfg.ipdom[block as usize], immediate, "block {} of\n{}", block, body);
        }
        // Each successor's order is later, but for loops: the entry comes first, each block once.
        let mut order = cfg.order.clone();
        prop_assert_eq!(order[0], 0);
        order.sort_unstable();
        order.dedup();
        prop_assert_eq!(order.len(), cfg.order.len());
    }
}

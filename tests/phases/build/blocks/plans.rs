//! Kernels that are one program, and kernels with plans.

use std::fmt::Write as _;

use super::{CONSTRUCTS, Content, Program, Ty};
use crate::random::Random;

/// The statements of a kernel with plans.
const STATEMENTS: usize = 8;

/// A program of a kernel: its plan, and what it runs.
pub(super) struct Plan {
    pub(super) plan: Vec<u32>,
    pub(super) content: Content,
}

/// Returns the programs as a module's text; of each second kernel so many are plans.
pub(crate) fn programs(count: u64, plans: u64, seed: u64) -> String {
    let (mut text, mut list) = (String::new(), String::new());
    let (mut number, mut left) = (0, count);
    while left > 0 {
        let random = Random::new(seed.wrapping_mul(7_000_003).wrapping_add(number));
        let mut program =
            Program::new(random, format!("b{number}"), number as usize / 2 % CONSTRUCTS.len());
        // As many kernels of one program as of plans.
        program.plans = if number % 2 == 0 { plans.min(left) } else { 0 };
        let (kernel, drawn) = program.kernel();
        text.push_str(&kernel);
        let name = &program.name;
        let _ = writeln!(
            list,
            "    Drawn {{ name: {name:?}, run: run_{name}, source: {name}::source, programs: &["
        );
        for Plan { plan, content: Content { sites, constructs } } in &drawn {
            let constructs: Vec<_> = constructs.iter().collect();
            let _ = writeln!(
                list,
                "        Planned {{ plan: &{plan:?}, sites: &{sites:?}, constructs: &{constructs:?} }},"
            );
        }
        list.push_str("    ] },\n");
        (number, left) = (number + 1, left - drawn.len() as u64);
    }
    let _ = write!(
        text,
        "pub(super) const CONSTRUCTS: &[&str] = &{CONSTRUCTS:?};\npub(super) const DRAWN: &[Drawn] = &[\n{list}];\n"
    );
    text
}

impl Program {
    /// The statements of a kernel that is one program. They declare some of the arrays.
    pub(super) fn program(&mut self, lets: &mut Vec<String>) -> String {
        self.budget = 14;
        let mut body = String::new();
        for _ in 0..6 + self.random.below(8) {
            // Shared arrays may be declared after phases.
            if self.random.once_in(6)
                && let Some(text) = lets.pop()
            {
                body.push_str(&text);
                self.reveal(&text);
            }
            body.push_str(&self.statement(2));
            if self.random.once_in(4)
                && let Some(swap) = self.swap()
            {
                body.push_str(&(swap + &self.each()));
            }
            if self.threads().is_multiple_of(32) && self.random.once_in(12) {
                body.push_str(&self.carry());
            }
        }
        if self.wanted == 5 {
            body.push_str(&self.carry());
        }
        let mixed = self.mixed(0);
        body + &mixed
    }

    /// The statements that plans order.
    pub(super) fn planned(&mut self, plans: &mut Vec<Plan>) -> String {
        let (mut arms, mut contents) = (String::new(), Vec::new());
        self.branches += 1;
        for number in 0..STATEMENTS {
            self.budget = 2;
            let text = self.scope(|s| {
                s.local("arg", Ty::U32, false);
                let known = s.locals.len();
                let text: String = (0..1 + s.random.below(2)).map(|_| s.statement(1)).collect();
                text + &s.mixed(known)
            });
            let _ = write!(arms, "{number} => {{\n{text}}}\n");
            contents.push(std::mem::take(&mut self.content));
        }
        self.branches -= 1;
        for _ in 0..self.plans {
            let plan: Vec<u32> = (0..3 + self.random.below(6))
                .map(|_| (self.random.below(1 << 16) << 8 | self.random.below(STATEMENTS)) as u32)
                .collect();
            let runs = |number: usize| plan.iter().any(|code| (code & 255) as usize == number);
            let mut content = Content::default();
            for (_, other) in contents.iter().enumerate().filter(|(number, _)| runs(*number)) {
                content.extend(other);
            }
            plans.push(Plan { plan, content });
        }
        format!(
            "let mut step = 0usize;\nwhile step < plan.len() {{\nlet arg = plan[step] >> 8;\nmatch plan[step] & 255 {{\n\
             {arms}_ => {{}}\n}}\nstep += 1;\n}}\n"
        )
    }
}

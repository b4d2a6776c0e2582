//! Inlining: what becomes of parameters, and calls that cannot be inlined. The software device's tests run functions with
//! their calls inlined.

use std::fmt::Write;

use ptx::inline::{InlineError, inline};
use ptx::ir::{Callee, FunctionId, Module, Op, Space, Type, Variable};

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

fn read(text: &str) -> Module {
    ptx::parse(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn id(module: &Module, name: &str) -> FunctionId {
    let at = module.functions.iter().position(|f| f.name == name && f.body.is_some());
    FunctionId(u32::try_from(at.expect("a function")).expect("few functions"))
}

/// The printed body of `k` with its calls inlined.
fn inlined(text: &str) -> Vec<String> {
    let mut module = read(text);
    let k = id(&module, "k");
    let new = inline(&module, k).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.functions[k.index()] = new;
    let printed = module.to_string();
    ptx::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    let from = printed.find(" k(").expect("a kernel");
    printed[from..].lines().map(|line| line.trim().to_owned()).collect()
}

fn error(text: &str) -> InlineError {
    let module = read(text);
    inline(&module, id(&module, "k")).expect_err(text)
}

#[test]
fn parameters_become_registers() {
    let text = ".func (.param .b32 y) f(.param .b32 x) { .reg .b32 a; ld.param.b32 a, [x]; add.u32 a, a, 1; \
        st.param.b32 [y], a; ret; }
        .entry k() { .reg .b32 r; .param .b32 p, q; mov.u32 r, %tid.x; st.param.b32 [p], r; call (q), f, (p); \
        ld.param.b32 r, [q]; st.global.b32 [0], r; ret; }";
    let body = inlined(text);
    let at = body.iter().position(|line| line.starts_with("mov.u32")).expect("the body");
    assert_eq!(
        body[at..],
        [
            "mov.u32 %r0, %tid.x;",
            "mov.b32 %r2, %r0;",
            "mov.b32 %r1, %r2;",
            "add.u32 %r1, %r1, 1;",
            "mov.b32 %r3, %r1;",
            "mov.b32 %r0, %r3;",
            "st.global.b32 [0], %r0;",
            "ret;",
            "}",
            ""
        ]
    );
    assert!(!body.iter().any(|line| line.contains(".param")), "{body:?}");
}

#[test]
fn parameters_by_address_become_local_memory() {
    let text = ".func (.param .b32 y) f(.param .align 4 .b8 x[8]) { .reg .b32 a; .reg .b64 d; mov.b64 d, x; \
        ld.param.b32 a, [d+4]; cvta.param.u64 d, d; st.param.b32 [y], a; ret; }
        .entry k() { .reg .b32 r; .param .align 4 .b8 p[8]; .param .b32 q; st.param.v2.b32 [p], {r, r}; \
        call (q), f, (p); ld.param.b32 r, [q]; ret; }";
    let body = inlined(text);
    let has = |line: &str| assert!(body.iter().any(|l| l == line), "{line}: {body:#?}");
    has(".local .align 4 .b8 p[8];");
    has("st.local.v2.b32 [p], {%r0, %r0};");
    has("mov.b64 %rd1, p;");
    has("ld.local.b32 %r2, [%rd1+4];");
    has("cvta.local.u64 %rd1, %rd1;");
}

#[test]
fn shared_memory_has_one_instance_and_local_memory_one_for_each_call() {
    let text = ".func f() { .shared .b32 s; .local .b32 l; st.shared.b32 [s], 1; st.local.b32 [l], 2; ret; }
        .func g() { call f, (); call f, (); ret; }
        .entry k() { .shared .b32 s; call f, (); call g, (); st.shared.b32 [s], 3; ret; }";
    let module = read(text);
    let new = inline(&module, id(&module, "k")).expect("inlined");
    let count = |space| new.variables.iter().filter(|v| v.space == space).count();
    assert_eq!((count(Space::Shared), count(Space::Local)), (2, 3));
    let mut names: Vec<_> = new.variables.iter().map(|v| &v.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5);
}

#[test]
fn declared_functions_and_indirect_calls_stay() {
    let text = ".func (.param .b32 y) vprintf(.param .b64 f, .param .b64 a); .func g() { ret; }
        .func f() { .reg .b64 d; .param .b64 a, b; .param .b32 c; p: .callprototype () _ (); st.param.b64 [a], 0; \
        st.param.b64 [b], 0; call (c), vprintf, (a, b); mov.b64 d, g; call d, (), p; ret; }
        .alias h, f; .func h();
        .entry k() { call f, (); @!p call h, (); p: .callprototype () _ (); ret; }";
    let text = text
        .replace("@!p call h", "call h")
        .replace(".alias h, f; .func h();", ".func h(); .alias h, f;");
    let module = read(&text);
    let new = inline(&module, id(&module, "k")).expect("inlined");
    let mut kept = Vec::new();
    for instr in new.instrs() {
        if let Op::Call { callee, .. } = instr.op {
            kept.push(match callee {
                Callee::Function(id) => module.functions[id.index()].name.clone(),
                Callee::Indirect(..) => "indirect".to_owned(),
            });
        }
    }
    assert_eq!(kept, ["vprintf", "indirect", "vprintf", "indirect"]);
    assert_eq!(new.prototypes.len(), 3);
    assert_eq!(new.variables.iter().filter(|v| v.space == Space::Param).count(), 6);
    inlined(&text);
}

#[test]
fn a_guarded_call_becomes_a_branch_and_the_stack_is_given_back() {
    let text = ".func f(.reg .b32 n) { .reg .b64 d; alloca.u64 d, 16; ret; }
        .entry k() { .reg .pred p; @p call f, (3); ret; }";
    let body = inlined(text);
    let at = body.iter().position(|line| line.starts_with('@')).expect("a branch");
    let opcodes: Vec<&str> =
        body[at..].iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(
        opcodes,
        [
            "@!%p0",
            "mov.b32",
            "stacksave.u64",
            "alloca.u64",
            "stackrestore.u64",
            "$x0_call:",
            "ret;",
            "}",
            ""
        ]
    );
}

#[test]
fn instructions_keep_the_callees_lines() {
    let text = ".file 1 \"a.cu\"\n.func f()\n{\n.loc 1 30 1\nbar.sync 0;\nret;\n}\n.entry k()\n{\n.loc 1 40 1\n\
        call f, ();\nret;\n}";
    let module = read(text);
    let new = inline(&module, id(&module, "k")).expect("inlined");
    let bar = &new.instrs()[0];
    assert_eq!((bar.line, new.locs[bar.loc.expect("a place").index()].line), (8, 30));
}

#[test]
fn what_cannot_be_inlined_is_named() {
    let k = ".entry k() { .reg .b32 r; .reg .b64 d; .param .b32 p; .param .b64 q; call f, (ARGS); ret; }";
    let with = |f: &str, args: &str| error(&format!("{f}\n{}", k.replace("ARGS", args)));
    let mismatch = InlineError::Mismatch { name: "f".into(), line: 5 };
    for (f, args) in [
        (".func f(.param .b32 x) { ret; }", "q"),
        (".func f(.param .b32 x) { ret; }", ""),
        (".func f(.param .b32 x) { ret; }", "p, p"),
        (".func f(.param .align 4 .b8 x[4]) { ret; }", "r"),
        (".func f(.reg .b32 x) { ret; }", "d"),
        (".func f(.reg .b32 x) { ret; }", "q"),
        (".func f(.reg .pred x) { ret; }", "1"),
    ] {
        assert_eq!(with(f, args), mismatch, "{f} {args}");
    }
    assert_eq!(
        with(".func f(.param .b32 x) { st.param.b32 [x], 1; ret; }", "p"),
        InlineError::WritesParameter { name: "f".into(), line: 5 }
    );
    // A parameter whose address is taken may be written, which a second call would read.
    let f = ".func f(.param .b32 x) { .reg .b64 d; mov.b64 d, x; st.param.b32 [d], 1; ret; }";
    let twice = "call f, (p); call f, (ARGS); ret;";
    assert_eq!(
        error(&format!("{f}\n{}", k.replace("call f, (ARGS); ret;", twice).replace("ARGS", "p"))),
        InlineError::WritesParameter { name: "f".into(), line: 5 }
    );
    // The parser gives such a variable to the module.
    let text = ".func f() { ret; } .entry k() { call f, (); ret; }";
    let mut module = read(text);
    let f = id(&module, "f");
    let variable = Variable::new("n", Space::Global, Type::B32, Vec::new(), 4);
    module.functions[f.index()].add_variable(variable);
    assert_eq!(
        inline(&module, id(&module, "k")).expect_err(text),
        InlineError::SharedVariable { name: "f".into(), variable: "n".into(), line: 4 }
    );
    let recursion = |name: &str| InlineError::Recursion { name: name.into() };
    assert_eq!(with(".func f() { call f, (); ret; }", ""), recursion("f"));
    let mutual = ".func g(); .func f() { call g, (); ret; } .func g() { call f, (); ret; }";
    assert_eq!(with(mutual, ""), recursion("f"));
    let module = read(".entry k() { ret; }");
    let unknown = InlineError::UnknownFunction { number: 7 };
    assert_eq!(inline(&module, FunctionId(7)), Err(unknown));
}

#[test]
fn growth_is_limited_and_depth_is_not() {
    let mut text = String::from(".func f0() { bar.sync 0; ret; }\n");
    for i in 1..64 {
        let _ = writeln!(text, ".func f{i}() {{ call f{0}, (); call f{0}, (); ret; }}", i - 1);
    }
    let start = std::time::Instant::now();
    let name = |error| match error {
        InlineError::TooLarge { name } => name,
        other => panic!("{other}"),
    };
    let twice = name(error(&format!("{text} .entry k() {{ call f63, (); ret; }}")));
    assert!(twice.starts_with('f'), "{twice}");
    let mut text = String::from(".func f0() { bar.sync 0; ret; }\n");
    for i in 1..3000 {
        let _ = writeln!(text, ".func f{i}() {{ call f{}, (); ret; }}", i - 1);
    }
    let module = read(&format!("{text} .entry k() {{ call f2999, (); ret; }}"));
    let flat = inline(&module, id(&module, "k")).expect("a chain");
    assert_eq!(flat.instrs().len(), 2);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

//! The device executes the instructions of the PTX ISA but those of `INSTRUCTIONS.md`.

use std::collections::BTreeSet;

use crate::device::Device;

/// The instructions of the PTX ISA 9.0: the titles of its chapter 9, as opcodes.
const ISA: &str = "
    abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx call
    clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2 exit
    fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match
    max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch
    prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st
    stackrestore stacksave stmatrix sub subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4
    trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4
    vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor";

/// A form of each instruction that is executed.
const EXECUTED: &[&str] = &[
    "abs.s32 r, s;",
    "activemask.b32 r;",
    "add.u32 r, s, t;",
    "add.cc.u32 r, s, t; addc.u32 r, s, t;",
    "alloca.u64 l, 16;",
    "and.b32 r, s, t;",
    "applypriority.global.L2::evict_normal [l], 128;",
    "atom.global.add.u32 r, [l], s;",
    "bar.sync 0;",
    "barrier.cta.red.or.aligned.pred p, 0, q;",
    "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;",
    "bfe.u32 r, s, t, t;",
    "bfi.b32 r, s, t, t, t;",
    "bfind.u32 r, s;",
    "bmsk.clamp.b32 r, s, t;",
    "bra next; next:",
    "brev.b32 r, s;",
    "brkpt;",
    "table: .branchtargets next; brx.idx r, table; next:",
    "call callee;",
    "clz.b32 r, s;",
    "cnot.b32 r, s;",
    "copysign.f32 f, f, f;",
    "cos.approx.f32 f, f;",
    "cp.async.ca.shared.global [l], [m], 8;",
    "createpolicy.fractional.L2::evict_last.b64 l, 1.0;",
    "cvt.u32.u64 r, l;",
    "cvta.global.u64 l, m;",
    "div.rn.f32 f, f, f;",
    "dp2a.lo.u32.u32 r, s, t, t;",
    "dp4a.u32.u32 r, s, t, t;",
    "elect.sync _|p, -1;",
    "ex2.approx.f32 f, f;",
    "exit;",
    "fence.acq_rel.gpu;",
    "fma.rn.f32 f, f, f, f;",
    "fns.b32 r, s, t, t;",
    "getctarank.shared::cluster.u64 r, l;",
    "griddepcontrol.wait;",
    "isspacep.global p, l;",
    "ld.global.u32 r, [l];",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [l];",
    "ldu.global.u32 r, [l];",
    "lg2.approx.f32 f, f;",
    "lop3.b32 r, s, t, t, 7;",
    "mad.lo.u32 r, s, t, t;",
    "mad24.lo.u32 r, s, t, t;",
    "mad.lo.cc.u32 r, s, t, t; madc.hi.u32 r, s, t, t;",
    "mapa.shared::cluster.u64 l, m, r;",
    "match.any.sync.b32 r, s, -1;",
    "max.u32 r, s, t;",
    "mbarrier.init.shared.b64 [l], 1;",
    "membar.gl;",
    "min.u32 r, s, t;",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f, f, f, f}, {r, s}, {t}, {f, f, f, f};",
    "mov.u32 r, s;",
    "mov.pred p, %is_explicit_cluster;",
    "mov.v2.u32 {r, s}, {s, r};",
    "movmatrix.sync.aligned.m8n8.trans.b16 r, s;",
    "mul.lo.u32 r, s, t;",
    "mul24.lo.u32 r, s, t;",
    "nanosleep.u32 20;",
    "neg.s32 r, s;",
    "not.b32 r, s;",
    "or.b32 r, s, t;",
    "pmevent 1;",
    "popc.b32 r, s;",
    "prefetch.global.L2 [l];",
    "prefetchu.L1 [l];",
    "prmt.b32 r, s, t, t;",
    "rcp.rn.f32 f, f;",
    "red.global.add.u32 [l], r;",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [l], r, [m];",
    "redux.sync.add.u32 r, s, -1;",
    "rem.u32 r, s, t;",
    "ret;",
    "rsqrt.approx.f32 f, f;",
    "sad.u32 r, s, t, t;",
    "selp.b32 r, s, t, p;",
    "set.eq.u32.u32 r, s, t;",
    "setp.eq.u32 p, r, s;",
    "shf.l.wrap.b32 r, s, t, t;",
    "shfl.sync.idx.b32 r, s, t, 31, -1;",
    "shl.b32 r, s, t;",
    "shr.u32 r, s, t;",
    "sin.approx.f32 f, f;",
    "slct.u32.s32 r, s, t, t;",
    "sqrt.rn.f32 f, f;",
    "st.global.u32 [l], r;",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [l], r, [m];",
    "stackrestore.u64 l;",
    "stacksave.u64 l;",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [l], {r};",
    "sub.u32 r, s, t;",
    "sub.cc.u32 r, s, t; subc.u32 r, s, t;",
    "szext.wrap.u32 r, s, t;",
    "suld.b.1d.b32.trap {r}, [l, {s}];",
    "sured.b.add.1d.u32.trap [l, {r}], s;",
    "sust.b.1d.b32.trap [l, {r}], {s};",
    "istypep.texref p, l;",
    "tanh.approx.f32 f, f;",
    "tex.1d.v4.f32.s32 {f, f, f, f}, [l, {r}];",
    "tld4.r.2d.v4.f32.f32 {f, f, f, f}, [l, {f, f}];",
    "testp.finite.f32 p, f;",
    "trap;",
    "vabsdiff2.u32.u32.u32 r, s, t, t;",
    "vabsdiff4.u32.u32.u32 r, s, t, t;",
    "vadd2.u32.u32.u32 r, s, t, t;",
    "vadd4.u32.u32.u32 r, s, t, t;",
    "vavrg2.u32.u32.u32 r, s, t, t;",
    "vavrg4.u32.u32.u32 r, s, t, t;",
    "vmax2.u32.u32.u32 r, s, t, t;",
    "vmax4.u32.u32.u32 r, s, t, t;",
    "vmin2.u32.u32.u32 r, s, t, t;",
    "vmin4.u32.u32.u32 r, s, t, t;",
    "vote.ballot.sync.b32 r, p, -1;",
    "vsub2.u32.u32.u32 r, s, t, t;",
    "vsub4.u32.u32.u32 r, s, t, t;",
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {r, r, r, r, r, r, r, r}, [l];",
    "xor.b32 r, s, t;",
];

/// A device whose architecture has all instructions.
fn newest() -> Device {
    let mut device = Device::new(1);
    device.info.cc = (10, 0);
    device
}

/// Returns why a kernel with these instructions is refused, if it is. It has registers of each kind.
fn refused(device: &Device, instructions: &str) -> Option<String> {
    let text = format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.func callee() {{ ret; }}\n.visible .entry k()\n{{\n\
         .reg .pred p, q; .reg .b16 h; .reg .b32 r, s, t; .reg .b64 l, m; .reg .b128 w; .reg .f32 f; .reg .f64 d;\n\
         {instructions}\nret;\n}}\n"
    );
    let program = device.load(&text).unwrap_or_else(|error| panic!("{instructions}: {error}"));
    program.refused(program.entry("k").expect("k"))
}

/// The lines of the document that are PTX.
fn missing() -> Vec<&'static str> {
    let blocks = include_str!("../../INSTRUCTIONS.md").split("```");
    let lines = blocks.filter_map(|block| block.strip_prefix("ptx\n")).flat_map(str::lines);
    lines.collect()
}

/// The first word of an opcode: the instruction's name.
fn name(instruction: &str) -> &str {
    instruction.split([' ', '.', ';']).next().unwrap_or_default()
}

#[test]
fn the_document_lists_what_is_refused() {
    let (device, missing) = (newest(), missing());
    assert!(missing.len() > 50, "{} lines", missing.len());
    for line in missing {
        let why = refused(&device, line).unwrap_or_else(|| panic!("executed: {line}"));
        assert!(why.starts_with("not supported: "), "{line}: {why}");
    }
}

#[test]
fn each_instruction_of_the_isa_is_executed_or_in_the_document() {
    let (device, missing) = (newest(), missing());
    let mut met: BTreeSet<&str> = missing.iter().map(|line| name(line)).collect();
    for forms in EXECUTED {
        assert_eq!(refused(&device, forms), None, "{forms}");
        // Labels apart.
        let pieces = forms.split(';').map(str::trim).filter(|piece| !piece.ends_with(':'));
        let names = pieces.map(|piece| name(piece.rsplit(": ").next().unwrap_or(piece)));
        met.extend(names.filter(|name| !name.is_empty()));
    }
    let isa: BTreeSet<&str> = ISA.split_whitespace().collect();
    let unmet: Vec<_> = isa.difference(&met).collect();
    assert!(unmet.is_empty(), "neither executed nor in the document: {unmet:?}");
    let unknown: Vec<_> = met.difference(&isa).collect();
    assert!(unknown.is_empty(), "not of the ISA: {unknown:?}");
}

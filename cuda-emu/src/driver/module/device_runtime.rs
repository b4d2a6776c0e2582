//! Functions of CUDA's device runtime (`libcudadevrt.a`) that texts may be linked with: the barrier of a cooperative
//! launch by calls, as older compilers and numba emit it.

use std::sync::Arc;

use ptx::ir::Module;

/// The name of these functions as an input of a link.
const NAME: &str = "<device runtime>";

/// The first bytes of an archive.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// Returns the handle of the grid: the address of the launch's workspace, which is null unless the launch is cooperative.
/// For every target.
const HANDLE: &str = "
.version 6.0
.target sm_30
.address_size 64

.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.b32 %r1, [scope];
    mov.b32 %r2, %envreg1;
    mov.b32 %r3, %envreg2;
    mov.b64 %rd1, {%r3, %r2};
    setp.eq.u32 %p1, %r1, 1;
    selp.b64 %rd2, %rd1, 0, %p1;
    st.param.b64 [handle], %rd2;
    ret;
}
";

/// Blocks meet as in `cooperative_groups.h`: the first block adds what makes the sum of all additions the highest bit.
const SYNCHRONIZE: &str = "
.version 6.0
.target sm_30
.address_size 64

.visible .func (.param .b32 code) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<2>;
    ld.param.b64 %rd1, [handle];
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra invalid;
    bar.sync 0;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    or.b32 %r1, %r1, %r2;
    or.b32 %r1, %r1, %r3;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra together;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %nctaid.y;
    mov.u32 %r6, %nctaid.z;
    mul.lo.u32 %r4, %r4, %r5;
    mul.lo.u32 %r4, %r4, %r6;
    mov.u32 %r7, %ctaid.x;
    mov.u32 %r8, %ctaid.y;
    mov.u32 %r9, %ctaid.z;
    or.b32 %r7, %r7, %r8;
    or.b32 %r7, %r7, %r9;
    setp.eq.u32 %p2, %r7, 0;
    sub.u32 %r10, 0x80000001, %r4;
    selp.b32 %r11, %r10, 1, %p2;
    membar.gl;
    atom.add.u32 %r12, [%rd1+4], %r11;
again:
    ld.volatile.u32 %r13, [%rd1+4];
    xor.b32 %r14, %r12, %r13;
    setp.ge.s32 %p1, %r14, 0;
    @%p1 bra again;
    membar.gl;
together:
    bar.sync 0;
    st.param.b32 [code], 0;
    ret;
invalid:
    st.param.b32 [code], 1;
    ret;
}
";

/// The functions: their names and texts.
const FUNCTIONS: [(&str, &str); 2] =
    [("cudaCGGetIntrinsicHandle", HANDLE), ("cudaCGSynchronize", SYNCHRONIZE)];

/// Returns whether bytes are the archive of the device runtime, whose functions the device has itself: by the name of the
/// file, or by a function.
pub(super) fn is_archive(bytes: &[u8], name: &str) -> bool {
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let named = file.contains("cudadevrt");
    let first = FUNCTIONS[0].0.as_bytes();
    let has = || bytes.windows(first.len()).any(|window| window == first);
    bytes.starts_with(ARCHIVE) && (named || has())
}

/// Returns the functions that a text declares and no text defines, as inputs.
pub(super) fn needed(inputs: &[(String, Arc<str>)]) -> Vec<(String, Arc<str>)> {
    let texts = inputs.iter().map(|(_, text)| text);
    let mentions = |text: &&Arc<str>| FUNCTIONS.iter().any(|(name, _)| text.contains(name));
    let modules: Vec<Module> =
        texts.filter(mentions).filter_map(|text| ptx::parse(text).ok()).collect();
    let functions = || modules.iter().flat_map(|module| &module.functions);
    let is_missing = |(name, _): &&(&str, &str)| {
        let mut found = functions().filter(|function| function.name == *name).peekable();
        found.peek().is_some() && found.all(|function| function.body.is_none())
    };
    let missing = FUNCTIONS.iter().filter(is_missing);
    missing.map(|(_, text)| (NAME.to_owned(), Arc::from(*text))).collect()
}

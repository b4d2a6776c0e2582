//! The text around the statements: the module's beginning, and a kernel's first and last instructions.

use super::{Ending, OWN, SCRATCH, THREADS, Writer, register};
use crate::numbers::Kind;

/// The text before the programs of a module.
pub(super) const HEAD: &str = ".version 8.0
.target sm_90
.address_size 64

.const .align 16 .b8 table[64] = {
	7, 0, 128, 63, 0, 0, 192, 127, 255, 255, 127, 127, 1, 0, 0, 128,
	154, 153, 153, 153, 153, 153, 185, 63, 0, 0, 0, 0, 0, 0, 240, 255,
	0, 60, 1, 0, 255, 123, 0, 252, 1, 126, 102, 46, 0, 128, 85, 53,
	222, 173, 190, 239, 1, 35, 69, 103, 137, 171, 205, 239, 0, 0, 0, 1
};

.func (.param .b32 result) mix(.param .b32 first, .param .b32 second)
{
	.reg .b32 %r<4>;
	.reg .pred %p;
	ld.param.b32 %r0, [first];
	ld.param.b32 %r1, [second];
	setp.gt.s32 %p, %r0, %r1;
	@%p bra $L_greater;
	mad.lo.u32 %r0, %r0, 2654435761, %r1;
	st.param.b32 [result], %r0;
	ret;
$L_greater:
	shf.l.wrap.b32 %r2, %r0, %r1, 7;
	st.param.b32 [result], %r2;
	ret;
}
";

/// The registers of a kernel.
pub(super) const REGISTERS: &str = "\t.reg .b16 %h<8>, %th<8>, %zero16;
	.reg .b32 %r<12>, %t<16>, %count<4>, %end<4>, %lanes, %thread, %place32, %tx, %dim, %zero;
	.reg .b64 %w<8>, %tw<8>, %in, %out, %global, %cells, %area, %shared, %gshared, %local, %glocal;
	.reg .b64 %hash, %next, %state, %place, %base, %peer, %ready, %gready, %finite, %zero64;
	.reg .pred %p<6>, %q<4>, %low;
";

/// Where the thread's inputs and results are, and a zero that the compiler does not know.
pub(super) const BEGIN: &str = "	mov.u32 %tx, %tid.x;
	mov.u32 %t0, %ctaid.x;
	mov.u32 %dim, %ntid.x;
	mad.lo.u32 %thread, %t0, %dim, %tx;
	ld.param.u32 %place32, [place];
	ld.param.u64 %tw0, [inputs];
	cvta.to.global.u64 %tw0, %tw0;
	mad.wide.u32 %in, %thread, 64, %tw0;
	setp.lt.u32 %low, %tx, 32;
	cvt.rn.f64.u32 %finite, %tx;
	mov.u32 %zero, %tid.y;
	cvt.u16.u32 %zero16, %zero;
	cvt.u64.u32 %zero64, %zero;
";

/// The text before and after.
impl Writer {
    pub(super) fn prologue(&mut self) {
        if self.has("global") || self.has("cells") {
            self.line("ld.param.u64 %tw0, [scratch]");
            self.line("cvta.to.global.u64 %tw0, %tw0");
            self.line(format!("mad.wide.u32 %base, %place32, {SCRATCH}, %tw0"));
            self.line(format!("mad.wide.u32 %global, %thread, {OWN}, %base"));
            self.line("mov.u32 %t1, %ctaid.x");
            self.line("mad.wide.u32 %cells, %t1, 64, %base");
            self.line(format!("add.u64 %cells, %cells, {}", THREADS * OWN));
        }
        if self.has("shared") {
            self.line("mov.u64 %area, area");
            self.line(format!("mad.wide.u32 %shared, %tx, {OWN}, %area"));
            self.line("cvta.shared.u64 %gshared, %shared");
            self.line("mad.wide.u32 %ready, %tx, 8, %area");
            self.line("add.u64 %ready, %ready, 4160");
            self.line("cvta.shared.u64 %gready, %ready");
            self.line("mov.b64 %tw0, 0");
            for offset in [0, 16, 32, 48] {
                self.line(format!("st.shared.v2.b64 [%shared+{offset}], {{%tw0, %tw0}}"));
            }
            self.line("mad.wide.u32 %tw1, %tx, 8, %area");
            self.line("setp.lt.u32 %q0, %tx, 8");
            self.line("@%q0 st.shared.b64 [%tw1+4096], %tw0");
            self.line("bar.sync 0");
        }
        if self.has("local") {
            self.line("mov.u64 %local, own");
            self.line("cvta.local.u64 %glocal, %local");
            self.line("mov.b64 %tw0, 0");
            for offset in [0, 16, 32, 48] {
                self.line(format!("st.local.v2.b64 [%local+{offset}], {{%tw0, %tw0}}"));
            }
        }
        self.inputs();
    }

    /// Gives registers their first values.
    fn inputs(&mut self) {
        for (kind, number) in self.used.clone() {
            let register = register(kind, number);
            let number = usize::from(number);
            match kind {
                'h' => self.line(format!("ld.global.b16 {register}, [%in+{}]", number * 8 + 2)),
                'r' => self.line(format!("ld.global.b32 {register}, [%in+{}]", number * 4 + 12)),
                'w' => self.line(format!("ld.global.b64 {register}, [%in+{}]", number * 8)),
                _ => {
                    self.line(format!("ld.global.b32 %t1, [%in+{}]", number * 8));
                    self.line(format!("and.b32 %t1, %t1, {}", 4 << number));
                    self.line(format!("setp.ne.u32 {register}, %t1, 0"));
                }
            }
        }
    }

    pub(super) fn ending(&mut self, ending: Ending) {
        self.line("ld.param.u64 %out, [results]");
        self.line("cvta.to.global.u64 %out, %out");
        let words = if ending == Ending::Hash { 1 } else { self.written.len().max(1) };
        self.line(format!("mad.lo.u32 %thread, %place32, {THREADS}, %thread"));
        self.line(format!("mad.wide.u32 %out, %thread, {}, %out", words * 8));
        self.line("mov.b64 %hash, 0x9e3779b97f4a7c15");
        for (at, (kind, number)) in self.written.clone().into_iter().enumerate() {
            let register = register(kind, number);
            let number = self.kinds.as_ref().map(|kinds| (kinds.get(kind, number), kinds.double));
            match kind {
                // As parts of another number they would be bits.
                _ if matches!(number, Some((Kind::Loose, _) | (Kind::Pair, true))) => continue,
                'r' if number == Some((Kind::Single, true)) => {
                    self.line(format!("cvt.f64.f32 %next, {register}"));
                }
                'w' if number == Some((Kind::Double, false)) => {
                    self.line(format!("cvt.rn.f32.f64 %t0, {register}"));
                    self.line(format!("st.global.f32 [%out+{}], %t0", at * 8));
                    continue;
                }
                'h' => self.line(format!("cvt.u64.u16 %next, {register}")),
                'r' => self.line(format!("cvt.u64.u32 %next, {register}")),
                'w' => self.line(format!("mov.b64 %next, {register}")),
                _ => self.line(format!("selp.b64 %next, 1, 0, {register}")),
            }
            match ending {
                Ending::Hash => self.mix(),
                Ending::Registers => self.line(format!("st.global.b64 [%out+{}], %next", at * 8)),
            }
        }
        if ending == Ending::Hash {
            for (space, base) in [("global", "%global"), ("shared", "%shared"), ("local", "%local")]
            {
                if !self.has(space) {
                    continue;
                }
                for offset in (0..OWN).step_by(8) {
                    self.line(format!("ld.{space}.b64 %next, [{base}+{offset}]"));
                    self.mix();
                }
            }
            self.line("st.global.b64 [%out], %hash");
        }
    }

    /// Mixes the next value into the hash, in one instruction: endings are a good part of what is
    /// compiled. An odd factor loses nothing of what came before.
    fn mix(&mut self) {
        self.line("mad.lo.u64 %hash, %hash, 0xff51afd7ed558ccd, %next");
    }
}

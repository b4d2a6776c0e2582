//! What is generated.

use super::{declaration, squeeze};
use crate::emit::emit;
use crate::token::{Error, Span, to_text};

/// What is emitted for `unsafe in S { source }`, without any white space.
fn emitted(source: &str) -> String {
    squeeze(&to_text(&emit(&declaration(&format!("unsafe in S {{ {source} }}")))))
}

#[test]
fn comparisons_are_emitted_in_i128_and_before_the_launch() {
    let code = emitted("safe fn f(n: i32, x: &[u8]) where n <= x.len();");
    let check = squeeze(
        "let (left, right): (::core::primitive::i128, ::core::primitive::i128) = (
             (n as ::core::primitive::i128),
             (::cuda_safe::DeviceSlice::len(&x) as ::core::primitive::i128));
         if !(left <= right) {
             return ::core::result::Result::Err(::cuda_safe::__private::precondition(
                 \"f\", \"n <= x.len()\",
                 &[(\"n\", (n as ::core::primitive::i128)),
                   (\"x.len()\", (::cuda_safe::DeviceSlice::len(&x) as ::core::primitive::i128)),]));
         }",
    );
    let at = code.find(&check).unwrap_or_else(|| panic!("{check}\nis not in\n{code}"));
    assert!(at < code.find("::cuda_safe::Kernel::launch(").unwrap_or(0));
}

#[test]
fn arithmetic_is_emitted_checked() {
    let code =
        emitted("safe fn f(n: u64, y: &mut [u8]) where n * 4 + 1 <= y.len(), -n / 2 % 3 - 1 < 0;");
    for name in ["add", "sub", "mul", "div", "rem", "neg"] {
        assert!(code.contains(&format!("::core::primitive::i128::checked_{name}")), "{name}");
    }
    assert!(code.contains("::cuda_safe::DeviceSliceMut::len(&y)"));
    // A comparison takes place only of values that exist.
    assert_eq!(code.matches("ifleft<=right=>{}_=>{return").count(), 1);
    assert_eq!(code.matches("ifleft<right=>{}_=>{return").count(), 1);
}

#[test]
fn safe_and_unsafe_kernels_become_safe_and_unsafe_methods() {
    let code = emitted("safe fn s(a: f32); unsafe fn u(x: &[u8], r#in: &mut [u8]);");
    let safe = "pubfns(&self,stream:&::cuda_safe::Stream,launch:impl::core::convert::Into<::cuda_safe::Launch>,a:f32,)->::cuda_safe::Result<()>";
    assert!(code.contains(safe), "{code}");
    let generic = "pubunsafefnu<'x,'in_,>(&self,stream:&::cuda_safe::Stream,";
    assert!(code.contains(generic), "{code}");
    assert!(
        code.contains("x:impl::core::convert::Into<::cuda_safe::DeviceSlice<'x,u8>>,"),
        "{code}"
    );
    assert!(code.contains("r#in:impl::core::convert::Into<::cuda_safe::DeviceSliceMut<'in_,u8>>,"));
    assert!(
        code.contains("::core::convert::Into::into(launch),(a,),)"),
        "one argument is a tuple, too"
    );
    assert!(code.contains("::core::convert::Into::into(launch),(x,r#in,),)"));
    assert!(code.contains("pubunsafefnfrom_module("), "a foreign module keeps no promise");
}

#[test]
fn cfg_reaches_every_trace_of_a_kernel() {
    let code = emitted("#[cfg(a)] #[inline] safe fn k();");
    // Field, name for the compiler, initializer, method, access.
    assert_eq!(code.matches("#[cfg(a)]").count(), 5, "{code}");
    assert_eq!(code.matches("#[inline]").count(), 1);
    let whole =
        squeeze(&to_text(&emit(&declaration("#[cfg(b)] struct K; unsafe in S { safe fn k(); }"))));
    assert_eq!(whole.matches("#[cfg(b)]").count(), 3, "struct, methods, Debug: {whole}");
}

#[test]
fn documentation_is_completed_not_repeated() {
    let plain = emitted("unsafe fn k(x: &[u8], n: u64) where n <= x.len();");
    assert!(
        plain.contains("Enqueuesthekernel`k`")
            && plain.contains("#Safety")
            && plain.contains("Unless`n<=x.len()`")
    );
    let own = emitted("/// Mine.\n/// # Safety\n/// Mine.\nunsafe fn k();");
    assert!(!own.contains("Enqueues"));
    assert_eq!(own.matches("#Safety").count(), 2, "the method's own, and that of from_module");
}

#[test]
fn derived_debug_is_not_implemented_twice() {
    let with = |attributes: &str| {
        let d = declaration(&format!("{attributes} struct K; unsafe in S {{ safe fn k(); }}"));
        squeeze(&to_text(&emit(&d))).matches("impl::core::fmt::DebugforK").count()
    };
    assert_eq!((with(""), with("/// Debug\n"), with("#[derive(Clone, Debug)]")), (1, 1, 0));
}

#[test]
fn an_error_becomes_a_compile_error_at_its_place() {
    let tokens = Error::new(Span::At(7), "say \"x\"").to_tokens();
    assert_eq!(squeeze(&to_text(&tokens)), "::core::compile_error!{\"say\\\"x\\\"\"}");
    assert!(tokens.iter().all(|token| matches!(token.span(), Span::At(7))));
}

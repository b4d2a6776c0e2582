//! The generated code.

use super::{declaration, squeeze};
use crate::emit::emit;
use crate::token::{Error, Span, to_text};

/// Returns the code for `unsafe in S { source }`, without any white space.
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
    let safe = "pubfns(&self,stream:&::cuda_safe::Stream,launch:impl::cuda_safe::IntoLaunchConfig,a:::core::primitive::f32,)->::cuda_safe::Result<()>";
    assert!(code.contains(safe), "{code}");
    let generic = "pubunsafefnu<'x,'in_,>(&self,stream:&::cuda_safe::Stream,";
    assert!(code.contains(generic), "{code}");
    assert!(code.contains("x:impl::cuda_safe::ReadView<'x,::core::primitive::u8>,"), "{code}");
    assert!(
        code.contains("r#in:impl::cuda_safe::WriteView<'in_,::core::primitive::u8>,"),
        "{code}"
    );
    assert!(code.contains("letr#in=::cuda_safe::WriteView::write_view(r#in);"), "{code}");
    assert!(
        code.contains("Declared::kernel(&self.s),stream,launch,(a,))"),
        "one argument is a tuple, too"
    );
    assert!(code.contains("Declared::kernel(&self.u),stream,launch,(x,r#in,))"), "{code}");
    assert!(code.contains("pubunsafefnfrom_module("), "a foreign module keeps no promise");
}

#[test]
fn the_shape_is_checked_first_and_of_safe_kernels_only() {
    let code = emitted("safe fn f(n: u32) where block.x * grid.x >= n;");
    let shape = code.find("::cuda_safe::__private::in_x_alone(\"f\",&launch,true,true)?;");
    let clause = code.find("(launch.block.xas::core::primitive::i128)");
    let launch = code.find("::cuda_safe::Kernel::launch(");
    assert!(shape.is_some() && shape < clause && clause < launch, "{code}");
    assert!(code.contains("Unlessthelaunchisinxalone,`block.x*grid.x>=n`;"), "{code}");

    let code = emitted("safe fn f() where block.y == 16;");
    assert!(code.contains("in_x_alone(\"f\",&launch,false,true)?;"), "{code}");
    assert!(code.contains("Unlessthelaunchisinxandyalone,`block.y==16`;"), "{code}");
    let open = "safe fn f() where block.y == 16, shared == 0, grid.z == 1; unsafe fn g();";
    assert!(!emitted(open).contains("in_x_alone"));
    assert!(!emitted(open).contains("Unlessthelaunch"));
}

#[test]
fn an_included_source_is_named_after_its_file() {
    let source = |source: &str| {
        let d = declaration(&format!("unsafe in {source} {{ safe fn k(); }}"));
        let code = squeeze(&to_text(&emit(&d)));
        let at = code.find("load_kernels(").unwrap_or_else(|| panic!("{code}"));
        code[at + 13..].split(",context").next().unwrap_or_default().to_owned()
    };
    let program = |include: &str, name: &str| {
        let cuda = "::cuda_safe::nvrtc::Program";
        format!("{cuda}::name({cuda}::new(include_str!{include}),\"{name}\")")
    };
    for (include, name) in [
        ("(\"saxpy.cu\")", "saxpy.cu"),
        ("(\"../kernels/saxpy.cu\",)", "saxpy.cu"),
        ("[\"..\\\\kernels\\\\a.cu\"]", "a.cu"),
    ] {
        assert_eq!(source(&format!("include_str!{include}")), program(include, name));
    }
    // Nothing to take a name from.
    for plain in [
        "S",
        "include_str!(concat!(\"a\",\"b\"))",
        "include_str!(\"kernels/\")",
        "include_str!(\"\\u{61}.cu\")",
        "other!(\"a.cu\")",
    ] {
        assert_eq!(source(plain), plain);
    }
}

#[test]
fn cfg_reaches_every_trace_of_a_kernel() {
    let code = emitted("#[cfg(a)] #[inline] safe fn k();");
    // Field, names for the compiler in three functions, initializer, comparison, clone, method, access.
    assert_eq!(code.matches("#[cfg(a)]").count(), 9, "{code}");
    assert_eq!(code.matches("#[inline]").count(), 1);
    let whole =
        squeeze(&to_text(&emit(&declaration("#[cfg(b)] struct K; unsafe in S { safe fn k(); }"))));
    let traits = "struct, methods, Clone, Debug, DeclaredKernels";
    assert_eq!(whole.matches("#[cfg(b)]").count(), 5, "{traits}: {whole}");
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
    assert_eq!(
        own.matches("#Safety").count(),
        3,
        "the method's own, and those of two constructors"
    );
}

#[test]
fn references_and_other_arguments_of_unsafe_kernels_are_passed_as_they_are() {
    let code = emitted(
        "unsafe fn f(queries: &Prepared<'_, f32>, part: &mut Part, any: impl KernelArg, view: View<'_>);",
    );
    let params = "queries:&Prepared<'_,::core::primitive::f32>,part:&mutPart,any:implKernelArg,view:View<'_>,)";
    assert!(code.contains(params), "{code}");
    assert!(code.contains("stream,launch,(queries,part,any,view,))"), "{code}");
    assert!(emitted("safe fn f(view: View<'_>);").contains("view:View<'_>,)"));
}

#[test]
fn derived_debug_is_not_implemented_twice() {
    let with = |attributes: &str| {
        let d = declaration(&format!("{attributes} struct K; unsafe in S {{ safe fn k(); }}"));
        squeeze(&to_text(&emit(&d))).matches("impl::core::fmt::DebugforK").count()
    };
    assert_eq!((with(""), with("/// Debug\n"), with("#[derive(Clone, Debug)]")), (1, 1, 0));
}

/// Returns the types of the parameters of `f` as they are emitted.
#[track_caller]
fn types(declared: &str) -> String {
    let code = emitted(&format!("unsafe fn f({declared});"));
    let start = code.find("IntoLaunchConfig,").map_or(0, |at| at + "IntoLaunchConfig,".len());
    let end = code[start..].find(")->::cuda_safe::Result").map_or(code.len(), |at| start + at);
    code[start..end].replace("::core::primitive::", "@")
}

#[test]
fn names_of_primitives_mean_the_primitives() {
    for (declared, wanted) in [
        ("a: u64, b: f32, c: bool, d: usize", "a:@u64,b:@f32,c:@bool,d:@usize,"),
        ("a: [f32; 3], b: (u8, [i16; 2])", "a:[@f32;3],b:(@u8,[@i16;2]),"),
        ("a: *mut f64, b: Pair<u8, fn(u8) -> u16>", "a:*mut@f64,b:Pair<@u8,fn(@u8)->@u16>,"),
        ("a: &[u128]", "a:impl::cuda_safe::ReadView<'a,@u128>,"),
        ("a: &mut [Pair<f32>]", "a:impl::cuda_safe::WriteView<'a,Pair<@f32>>,"),
        // Not names of primitives: paths, lifetimes, raw names, what a macro is given.
        ("a: glam::f32::Vec3, b: f32::Vec3, c: my::u8", "a:glam::f32::Vec3,b:f32::Vec3,c:my::u8,"),
        ("a: View<'u8, u8>, b: r#u8, c: half!(f32)", "a:View<'u8,@u8>,b:r#u8,c:half!(f32),"),
        ("a: [u8; u8::MAX as usize]", "a:[@u8;u8::MAXas@usize],"),
    ] {
        assert_eq!(types(declared), wanted);
    }
}

#[test]
fn fields_are_of_types_that_name_the_declaration() {
    let code = emitted("safe fn f(); safe fn g();");
    assert!(code.contains("f:::cuda_safe::__private::Declared<Self,0usize>,"), "{code}");
    assert!(code.contains("g:::cuda_safe::__private::Declared<Self,1usize>,"), "{code}");
    assert!(code.contains("module:::cuda_safe::__private::DeclaredIn<Self>}"), "{code}");
}

#[test]
fn an_error_becomes_a_compile_error_at_its_place() {
    let tokens = Error::new(Span::At(7), "say \"x\"").to_tokens();
    assert_eq!(squeeze(&to_text(&tokens)), "::core::compile_error!{\"say\\\"x\\\"\"}");
    assert!(tokens.iter().all(|token| matches!(token.span(), Span::At(7))));
}

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
        "if !(({let (left, right): (::core::primitive::i128, ::core::primitive::i128) = (
             (n as ::core::primitive::i128),
             (::cuda_safe::DeviceSlice::len(&x) as ::core::primitive::i128));
         left <= right})) {
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
    assert_eq!(code.matches("=>left<=right,_=>false,").count(), 1);
    assert_eq!(code.matches("=>left<right,_=>false,").count(), 1);
}

#[test]
fn one_of_several_alternatives_is_enough() {
    let code = emitted("safe fn f(n: u32) where 0 < n < 4 || n == 8 || n.is_power_of_two();");
    let start = code.find("if!((").unwrap_or_else(|| panic!("{code}"));
    let condition = code[start..].split("{return").next().unwrap_or_default();
    // (a && b) || (c) || (d)
    assert_eq!(condition.matches("&&{let").count(), 1, "{condition}");
    assert_eq!(condition.matches(")||(").count(), 2, "{condition}");
    assert!(condition.contains("value>0i128&&::core::primitive::i128::count_ones(value)==1u32"));
    assert_eq!(code.matches("__private::precondition(").count(), 1, "{code}");
    assert!(code.contains("\"0<n<4||n==8||n.is_power_of_two()\",&[(\"n\","), "{code}");
}

#[test]
fn constants_and_fields_are_integers_and_nothing_else() {
    let code = emitted("safe fn f(p: Params<u8>, n: u32) where n <= TILE * a::B, p.size.x == n;");
    assert!(code.contains("::cuda_safe::__private::number(const{TILE})"), "{code}");
    assert!(code.contains("::cuda_safe::__private::number(const{a::B})"), "{code}");
    assert!(code.contains("::cuda_safe::__private::number(p.size.x)"), "{code}");
    let own = "let_=::core::mem::offset_of!(Params<::core::primitive::u8>,size.x);";
    assert!(
        code.find(own) < code.find("__private::number(p.size.x)") && code.contains(own),
        "{code}"
    );
    assert!(!emitted("unsafe fn f(p: &Params) where p.n == 1;").contains("offset_of"));
    let filled = emitted("safe fn f(p: Params, n: u32 = p.n) over p.m;");
    assert_eq!(filled.matches("offset_of!").count(), 2, "{filled}");
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
fn pointers_of_unsafe_kernels_may_be_raw_or_null() {
    let code = emitted(
        "unsafe fn f(p: *const T, x: Option<&[f32]>, #[only_read] y: Option<&[u8]>, out: Option<&mut [f32]>);",
    );
    assert!(code.contains("pubunsafefnf<'x,'y,'out,>(&self"), "{code}");
    for part in [
        "p:impl::cuda_safe::arg::IntoRawPointer<*constT>,",
        "x:impl::cuda_safe::arg::NullableReadView<'x,::core::primitive::f32>,",
        "out:impl::cuda_safe::arg::NullableWriteView<'out,::core::primitive::f32>,",
        "letp=::cuda_safe::arg::IntoRawPointer::<*constT>::raw_pointer(p);",
        "letx=::cuda_safe::arg::NullableReadView::nullable_read_view(x);",
        "launch,(p,x,::core::option::Option::map(y,::cuda_safe::arg::ReadOnly),out,))",
    ] {
        assert!(code.contains(part), "{part}\nis not in\n{code}");
    }
}

#[test]
fn a_cooperative_kernel_is_launched_so_whatever_the_caller_says() {
    let cooperative = "letlaunch=::cuda_safe::LaunchConfig::cooperative(launch);";
    let given = emitted("safe fn f(n: u32) cooperative where n < grid.x;");
    let at = given.find(cooperative).unwrap_or_else(|| panic!("{given}"));
    assert!(given.find("into_launch_config(launch);") < Some(at), "{given}");
    assert!(Some(at) < given.find("Kernel::launch("), "{given}");
    let over = emitted("safe fn f(n: u32) cooperative over n where n < grid.x;");
    assert!(over.find("__private::over(") < over.find(cooperative), "{over}");
    assert!(over.contains("Thelaunchiscooperative"), "{over}");
    assert!(!emitted("safe fn f(n: u32) where n < grid.x;").contains("cooperative"));
}

#[test]
fn an_integer_that_no_clause_reads_is_a_deprecated_constant() {
    let code = emitted("#[cfg(a)] safe fn f(seed: u32, n: u32) where n < 9;");
    let warning = "const_:()={#[deprecated(note=\"noclauseof`f`reads`seed`:";
    assert_eq!(code.matches(warning).count(), 1, "{code}");
    assert_eq!(code.matches("#[deprecated").count(), 1, "{code}");
    assert!(code.contains("constseed:()=();seed};"), "{code}");
    assert!(!emitted("safe fn f(#[any] seed: u32);").contains("deprecated"));
}

#[test]
fn integers_that_the_caller_passes_are_converted_first() {
    let code = emitted("unsafe fn f(n: i32, m: u64 = n, x: &[u8], t: T) where n < m;");
    assert!(code.contains("n:impl::cuda_safe::arg::Integer<::core::primitive::i32>,x:"), "{code}");
    let convert =
        "letn:::core::primitive::i32=::cuda_safe::__private::integer(\"f\",\"n:i32\",\"n\",n)?;";
    let at = code.find(convert).unwrap_or_else(|| panic!("{convert}\nis not in\n{code}"));
    assert!(Some(at) < code.find("__private::fill("), "before what reads it: {code}");
    assert!(Some(at) < code.find("__private::precondition("), "{code}");
    assert_eq!(code.matches("__private::integer(").count(), 1, "{code}");
}

#[test]
fn what_is_only_read_is_passed_as_such() {
    let code = emitted("unsafe fn f(#[only_read] x: &[f32], y: &[f32]);");
    assert!(code.contains("x:impl::cuda_safe::ReadView<'x,::core::primitive::f32>,"), "{code}");
    assert!(code.contains("launch,(::cuda_safe::arg::ReadOnly(x),y,))"), "{code}");
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
        (
            "a: u64, b: f32, c: bool, d: usize",
            "a:impl::cuda_safe::arg::Integer<@u64>,b:@f32,c:@bool,d:impl::cuda_safe::arg::Integer<@usize>,",
        ),
        ("a: [f32; 3], b: (u8, [i16; 2])", "a:[@f32;3],b:(@u8,[@i16;2]),"),
        (
            "a: *mut f64, b: Pair<u8, fn(u8) -> u16>",
            "a:impl::cuda_safe::arg::IntoRawPointer<*mut@f64>,b:Pair<@u8,fn(@u8)->@u16>,",
        ),
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

/// Returns the specification in the code for a kernel with `#[gradient]`.
fn specified(source: &str) -> String {
    let code = emitted(source);
    let start = code.find("::cuda_tape::OpSpec::new(").unwrap_or_else(|| panic!("{code}"));
    let end = code[start..].find(",)").map_or(code.len(), |end| start + end);
    code[start..end].replace("::cuda_tape::", "").replace("::core::primitive::", "")
}

#[test]
fn gradients_follow_from_the_declaration() {
    let code = emitted("unsafe fn f(x: &[f32]);");
    assert!(!code.contains("cuda_tape") && !code.contains("gradient"), "{code}");
    let code = emitted("#[gradient(crate = a::b)] unsafe fn f(#[active] a: f32, x: &[f32]);");
    for part in [
        "pubunsafefnrecord_f<'x,>(&self,recorder:&muta::b::Recorder<'_>,launch:impl",
        "a:impla::b::Active<::core::primitive::f32>,x:impl::cuda_safe::ReadView<'x,",
        "a::b::Recorder::launch(recorder,",
        "pubfnderive_f(&self)->::cuda_safe::Result<&a::b::Derivation>",
        "letprogram=<_as::cuda_safe::KernelSource>::program(&source);",
        "f_gradient:a::b::__private::DeclaredGradient<Self,0usize>,",
    ] {
        assert!(code.contains(part), "{part}\nis not in\n{code}");
    }
    assert!(!code.contains("::cuda_tape"), "{code}");
    let buffer = |name: &str, length: &str| {
        format!(".param(Param::buffer(\"{name}\",<f32asDifferentiable>::ELEMENT){length}.active())")
    };
    let spec = specified(
        "#[gradient] safe fn f(#[active] a: f32, b: f32, x: &[f32], out: &mut [f32], i: &[u32], n: u32 = x.len())
         over n where out.len() == n, i.len() == x.len();",
    );
    let value = "Param::scalar(\"a\",<f32asDifferentiable>::ELEMENT).active()";
    let index = "Param::buffer(\"i\",Element::bytes(::core::mem::size_of::<u32>())).len_times(1usize,\"n\")";
    let n = ".len_times(1usize,\"n\")";
    assert_eq!(
        spec,
        format!(
            "OpSpec::new(\"f\").param({value}).param(Param::value(\"b\")){}{}.param({index}).param(Param::value(\"n\"))",
            buffer("x", n),
            buffer("out", n)
        )
    );
    let inactive = specified("#[gradient] unsafe fn f(#[inactive] w: &[Face]);");
    assert!(inactive.contains("<__private::ElementOf<Face>>::ELEMENT"), "{inactive}");
}

#[test]
fn lengths_of_gradients_are_what_clauses_say() {
    for (clauses, length) in [
        ("x.len() == n", ".len_times(1usize,\"n\")"),
        ("n <= x.len()", ".len_times(1usize,\"n\")"),
        ("x.len() >= n * 4", ".len_times(4usize,\"n\")"),
        ("(3 * n) <= x.len()", ".len_times(3usize,\"n\")"),
        ("x.len() == 2", ".len_fixed(2usize)"),
        ("x.len() == y.len(), y.len() == n", ".len_times(1usize,\"n\")"),
        ("y.len() == m, x.len() == y.len()", ".len_times(1usize,\"m\")"),
        ("0 < n <= x.len() <= m", ".len_times(1usize,\"n\")"),
        // Of two bounds, or one that is no multiple of a parameter, the kernel may use more than one says.
        ("n <= x.len(), m <= x.len()", ""),
        ("n < x.len()", ""),
        ("n + 1 <= x.len()", ""),
        ("n * m <= x.len()", ""),
        ("n <= x.len() || m <= x.len()", ""),
        ("x.len() <= n", ""),
    ] {
        let clauses = format!("{clauses}, 0 <= n, 0 <= m, 0 <= y.len()");
        let spec = specified(&format!(
            "#[gradient] unsafe fn f(x: &[f32], y: &[f32], n: u32, m: u32) where {clauses};"
        ));
        let wanted = format!("(\"x\",<f32asDifferentiable>::ELEMENT){length}.active()");
        assert!(spec.contains(&wanted), "{clauses}: {wanted}\nis not in\n{spec}");
    }
}

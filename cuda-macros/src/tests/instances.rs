//! Patterns of symbols, and type parameters with their instances.

use super::{declaration, fn_refused, function, refused, squeeze};
use crate::emit::emit;
use crate::token::to_text;

/// Returns the symbols of all kernels of `declaration`, as expressions without white space.
fn symbols(source: &str) -> Vec<String> {
    let d = declaration(source);
    let each = d.functions.iter().flat_map(|f| f.symbols());
    each.map(|symbol| squeeze(&to_text(&symbol.expression(&d.shared.generics, &[])))).collect()
}

fn emitted(source: &str) -> String {
    squeeze(&to_text(&emit(&declaration(source))))
}

#[test]
fn a_pattern_names_all_kernels_that_have_no_name() {
    let named = symbols(
        "#[name = \"mesh_{}\"] struct K; unsafe in S {
             safe fn closest(); #[name = \"other\"] safe fn own(); safe fn r#loop();
             #[name = \"a_{}{{{}}}\"] safe fn braces();
         }",
    );
    let wanted = ["mesh_closest", "other", "mesh_loop", "a_braces{braces}"];
    assert_eq!(named, wanted.map(|name| format!("{name:?}")));
}

#[test]
fn holes_take_the_text_of_an_instance() {
    let all = "f32, f64, bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize";
    let cpp = symbols(&format!("unsafe in S {{ safe fn f<T in [{all}]>(a: T); }}"));
    let names = [
        "float",
        "double",
        "bool",
        "signed char",
        "short",
        "int",
        "long long",
        "ptrdiff_t",
        "unsigned char",
        "unsigned short",
        "unsigned int",
        "unsigned long long",
        "size_t",
    ];
    assert_eq!(cpp, names.map(|name| squeeze(&format!("\"f<{name}>\""))));

    // The last parameter varies fastest, as the index that the method computes.
    let two = "#[name = \"{V}_{}_{A}\"] safe fn f<A in [f32 = \"s\", f64 = \"d\"], V in [X = \"x\", Y<u8> = \"y\"],>(a: A, v: V);";
    let named = symbols(&format!("unsafe in S {{ {two} }}"));
    assert_eq!(named, ["x_f_s", "y_f_s", "x_f_d", "y_f_d"].map(|name| format!("{name:?}")));
}

#[test]
fn symbols_of_a_generic_struct_are_put_together_when_it_is_loaded() {
    let source =
        "#[name = \"grid_{}_{T}\"] struct K<T: Real in [f32 = \"f\", f64 = \"d\"]>; unsafe in S {
        safe fn query(); #[name = \"plain\"] safe fn plain(); safe fn last();
    }";
    let put = |name: &str| format!("&$cuda::__private::symbol(&[\"grid_{name}_\",instance_0,])");
    let put = |name: &str| put(name).replace("$cuda", "");
    assert_eq!(symbols(source), [put("query"), "\"plain\"".to_owned(), put("last")]);
    let code = emitted(source);
    let lookup = "let(_,instance_0)=::cuda_safe::__private::instance::<T>(\"`K`\",&[
        ::cuda_safe::__private::Instance::of::<::core::primitive::f32>(\"f\"),
        ::cuda_safe::__private::Instance::of::<::core::primitive::f64>(\"d\"),])?;";
    assert_eq!(code.matches(&squeeze(lookup)).count(), 4, "three constructors and check: {code}");

    // All parameters, in order.
    let template = "struct K<V in [u8], A: Real<X> + Send in [f32, f64]>; unsafe in S { safe fn f(x: &[V], a: A) where x.len() > 0; }";
    let wanted = "&::__private::symbol(&[\"f<\",instance_0,\",\",instance_1,\">\",])";
    assert_eq!(symbols(template), [wanted]);
    assert!(emitted(template).contains("instance::<A>(\"`A`of`K`\",&["));
}

#[test]
fn the_struct_and_all_its_impls_are_generic() {
    let code = emitted(
        "pub struct K<V in [u8], A: Real<X> + Send in [f32, f64]>; unsafe in S { safe fn f(x: &[V], a: A) where x.len() > 0; }",
    );
    let bounds = "<V:::cuda_safe::DeviceRepr+'static,A:Real<X>+Send+'static,>";
    for item in [
        format!(
            "pubstructK{bounds}{{f:::cuda_safe::__private::Declared<Self,0usize>,module:::cuda_safe::__private::DeclaredIn<Self,(V,A,)>}}"
        ),
        format!("impl{bounds}K<V,A,>{{"),
        format!("impl{bounds}::core::clone::CloneforK<V,A,>{{"),
        format!("impl{bounds}::core::fmt::DebugforK<V,A,>{{"),
        format!("impl{bounds}::cuda_safe::DeclaredKernelsforK<V,A,>{{"),
    ] {
        assert!(code.contains(&item), "{item}\nis not in\n{code}");
    }
    assert!(code.contains("x:impl::cuda_safe::ReadView<'x,V>,a:A,)"), "{code}");
}

#[test]
fn a_generic_kernel_is_chosen_before_anything_else_is_done() {
    let code = emitted(
        "unsafe in S { safe fn f<A in [f32, f64], B: Copy in [u8, u16, u32]>(x: &mut [A], b: B, n: u64) where n <= x.len(); }",
    );
    assert!(code.contains("f:::cuda_safe::__private::DeclaredInstances<Self,0usize,6usize>,"));
    let find =
        "DeclaredInstances::find(module,[\"f<float,unsignedchar>\",\"f<float,unsignedshort>\",";
    assert!(code.contains(find), "{code}");
    let method = "pubfnf<'x,A:::cuda_safe::DeviceRepr+'static,B:Copy+'static,>(&self,";
    let at = code.find(method).unwrap_or_else(|| panic!("{code}"));
    let body = &code[at..];
    let kernel = body.find("letkernel=Self::f_kernel::<A,B,>(self)?;");
    let launch = body.find("::cuda_safe::Kernel::launch(kernel,stream,launch,(x,b,n,))");
    assert!(kernel.is_some() && kernel < body.find("letlaunch=") && kernel < launch, "{body}");
    let access = "pubfnf_kernel<A:::cuda_safe::DeviceRepr+'static,B:Copy+'static,>(&self)->::cuda_safe::Result<&::cuda_safe::Kernel>";
    assert!(code.contains(access), "{code}");
    let index = "&self.f,((0usize*2usize+::cuda_safe::__private::instance::<A>(\"`A`of`f`\",";
    assert!(code.contains(index), "{code}");
    assert!(code.contains(".0)*3usize+::cuda_safe::__private::instance::<B>("), "{code}");
    // The compiler is given all of them.
    let load = code.find("load_kernels(S,context,&[").map_or("", |at| &code[at..]);
    assert_eq!(load.split(']').next().map(|list| list.matches("\"f<").count()), Some(6));
}

#[test]
fn a_kernel_without_type_parameters_is_launched_as_before() {
    let code = emitted("unsafe in S { safe fn f(a: f32); }");
    assert!(!code.contains("instance"), "{code}");
    assert!(code.contains("::cuda_safe::Kernel::launch(::cuda_safe::__private::Declared::kernel(&self.f),stream,launch,(a,))"));
}

#[test]
fn mistakes_in_patterns_are_reported_where_they_are() {
    refused("#[name = »\"mesh\"] struct K; unsafe in S { }", "write `{}`");
    refused("#[name = »\"mesh_{\"] struct K; unsafe in S { }", "double it");
    refused("#[name = »\"mesh_}{}\"] struct K; unsafe in S { }", "double it");
    refused("#»[name(a)] struct K; unsafe in S { }", "expected `#[name = \"symbol\"]`");
    fn_refused("#»[name = \"a\\n\"] safe fn f();", "expected `#[name = \"symbol\"]`");
    fn_refused("#[name = »\"f_{T}\"] safe fn f();", "`{T}` is no type parameter of `f`");
    let both = "#[name = »\"{}_{T}_{A}_{U}\"] safe fn f<A in [f32]>(a: A);";
    refused(
        &format!("struct K<T in [u8]>; unsafe in S {{ {both} }}"),
        "`{U}` is no type parameter of `f`: there are `{}`, `{T}`, `{A}`",
    );
    refused(
        "#[name = \"{}_{T}\"] struct K; unsafe in S { safe fn »f(); }",
        "`{T}` is no type parameter of `f`",
    );
    // A mistake in one symbol does not hide those of the next declaration.
    let two = "unsafe in S { #[name = \"{A}\"] safe fn f(); #[name = \"{B}\"] safe fn g(); }";
    assert_eq!(super::errors(two).len(), 2);
    // Two instances that differ to the host would be one kernel.
    fn_refused("#[name = »\"f\"] safe fn f<T in [u8]>();", "is the same for every `T`");
    refused(
        "#[name = \"k_{}\"] struct K<T in [u8]>; unsafe in S { safe fn f(); safe fn »g(a: [T; 2]); }",
        "the symbol of `g` is the same for every `T`",
    );
}

#[test]
fn mistakes_in_type_parameters_are_reported_where_they_are() {
    fn_refused("safe fn f<T in »[]>(a: T);", "`T` has no instances");
    fn_refused("safe fn f<»T: Real>(a: T);", "the instances of `T` are missing");
    fn_refused("safe fn f<T in »f32>(a: T);", "the instances of `T` are missing");
    fn_refused("safe fn f<T in [f32, »f32]>(a: T);", "`f32` is listed twice");
    fn_refused("safe fn f<T in [»my::Half<u8>]>(a: T);", "say what `my::Half<u8>` is called");
    fn_refused("safe fn f<T in [f32 = »3]>(a: T);", "as in `f32 = \"float\"`");
    fn_refused("safe fn f<T in [f32 »= ]>(a: T);", "as in `f32 = \"float\"`");
    fn_refused("safe fn f<T in [»= \"a\"]>(a: T);", "expected a type");
    fn_refused("safe fn f<T in [u8], »T in [u8]>(a: T);", "two type parameters `T`");
    fn_refused("safe fn f<»const N: usize in [u8]>();", "no name for a type parameter");
    fn_refused("safe fn f<»u8 in [f32]>(a: u8);", "no name for a type parameter");
    fn_refused("safe fn f<»'a>(a: u8);", "expected a type parameter");
    fn_refused("safe fn f<T in [u8] »U in [u8]>(a: T);", "`,` or `>`");
    refused(
        "struct K<T in [u8]>; unsafe in S { safe fn f<»T in [u8]>(a: T); }",
        "two type parameters `T`",
    );
    assert_eq!(function("safe fn f<T in [u8,],>(a: T);").generics.len(), 1);
}

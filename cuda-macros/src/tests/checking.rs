//! `check`, and sources of `include_cuda!`.

use super::{declaration, squeeze};
use crate::emit::emit;
use crate::token::to_text;

fn code(source: &str) -> String {
    squeeze(&to_text(&emit(&declaration(source))))
}

/// Returns the body of `check`.
fn checks(source: &str) -> String {
    let code = code(source);
    let body =
        code.split("pubfncheck(").nth(1).and_then(|rest| rest.split("Result::Ok(())").next());
    body.unwrap_or_else(|| panic!("{code}")).to_owned()
}

#[test]
fn each_argument_is_compared_as_a_launch_passes_it() {
    let body = checks(
        "unsafe in S { safe fn k(a: f32, x: &[u8], y: &mut [Pair<f32>], n: u32 = x.len())
             where y.len() == 1;
         unsafe fn raw(p: &Prepared<'_>, any: impl KernelArg, c: bool);
         unsafe fn pointers(#[only_read] x: &[f32], y: Option<&mut [f32]>, z: *const u8,
             #[only_read] w: Option<&[f32]>); }",
    );
    for part in [
        "::cuda_safe::KernelSource>::signatures(S,arch,&[\"k\",\"raw\",\"pointers\",])?",
        "::cuda_safe::KernelSignatures::check(&kernels,\"k\",&[",
        "Probe::<::core::primitive::f32>::new()).arg(),",
        "Probe::<::cuda_safe::DeviceSlice<'static,::core::primitive::u8>>::new()).arg(),",
        "Probe::<::cuda_safe::DeviceSliceMut<'static,Pair<::core::primitive::f32>>>::new()).arg(),",
        "Probe::<::core::primitive::u32>::new()).arg(),]).map_err(|error|::cuda_safe::__private::named(error,\"k\",&[\"a\",\"x\",\"y\",\"n\",]))?;",
        "\"raw\",&[(&::cuda_safe::__private::Probe::<&Prepared<'_>>::new()).arg(),::core::option::Option::None,",
        "Probe::<::core::primitive::bool>::new()).arg(),])",
        "\"pointers\",&[(&::cuda_safe::__private::Probe::<::cuda_safe::arg::ReadOnly<'static,::core::primitive::f32>>::new()).arg(),",
        "Probe::<::core::option::Option<::cuda_safe::DeviceSliceMut<'static,::core::primitive::f32>>>::new()).arg(),",
        "Probe::<::cuda_safe::arg::RawPointer<::core::primitive::u8>>::new()).arg(),",
        "Probe::<::core::option::Option<::cuda_safe::arg::ReadOnly<'static,::core::primitive::f32>>>::new()).arg(),])",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
}

#[test]
fn each_instance_is_compared_under_its_symbol() {
    let body = checks(
        "struct Q<T: Real in [f32, f64]>;
         unsafe in S { #[cfg(a)] safe fn k<U in [i32, Mine = \"mine\"], V in [u8, u16]>(t: T, u: U, v: V); }",
    );
    assert_eq!(body.matches("KernelSignatures::check(").count(), 1, "{body}");
    assert_eq!(body.matches("#[cfg(a)]{").count(), 1, "{body}");
    // The struct's parameter is the outer one's, and those of the kernel vary, the last one fastest.
    let generics = "fncompare<T:Real+'static,U:::cuda_safe::DeviceRepr+'static,V:::cuda_safe::DeviceRepr+'static,>(";
    assert!(body.contains(generics), "{body}");
    let order: Vec<_> = ["::core::primitive::i32", "Mine"]
        .into_iter()
        .flat_map(|u| {
            ["u8", "u16"].map(|v| format!("compare::<T,{u},::core::primitive::{v},>(&kernels,"))
        })
        .map(|call| body.find(&call).unwrap_or_else(|| panic!("{call}: {body}")))
        .collect();
    assert!(order.is_sorted(), "{order:?}");
    let symbols = body.find("int,unsignedchar").zip(body.rfind("mine,unsignedshort"));
    assert!(symbols.is_some_and(|(first, last)| first < last), "{body}");
    assert!(
        body.contains(
            "Probe::<T>::new()).arg(),(&::cuda_safe::__private::Probe::<U>::new()).arg(),"
        ),
        "{body}"
    );
}

#[test]
fn each_global_is_compared_as_loading_compares_it() {
    let body = checks(
        "unsafe in S { #[cfg(a)] #[name = \"ns::a\"] global a: f32; global b: [u64; 2 * N]; }",
    );
    for part in [
        "#[cfg(a)]::cuda_safe::KernelSignatures::check_global::<::core::primitive::f32>(&kernels,\"ns::a\",\"f32\",1usize)?;",
        "::cuda_safe::KernelSignatures::check_global::<::core::primitive::u64>(&kernels,\"b\",\"[u64;2*N]\",{2*N})?;",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
}

#[test]
fn an_embedded_file_gets_the_path_of_the_crate() {
    let code = code("#![crate = a::b] unsafe in include_cuda!(\"x.cu\") { unsafe fn k(); }");
    assert_eq!(code.matches("include_cuda!(crate=a::b,\"x.cu\")").count(), 2, "{code}");
    let given = self::code("unsafe in include_cuda!(crate = c, \"x.cu\") { unsafe fn k(); }");
    assert_eq!(given.matches("include_cuda!(crate=c,\"x.cu\")").count(), 2, "{given}");
}

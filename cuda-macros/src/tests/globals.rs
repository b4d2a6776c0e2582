//! Declared globals.

use super::{declaration, errors, fn_refused, refused, squeeze};
use crate::emit::emit;
use crate::token::to_text;

fn emitted(source: &str) -> String {
    squeeze(&to_text(&emit(&declaration(&format!("unsafe in S {{ {source} }}")))))
}

#[test]
fn a_global_has_a_name_a_type_and_a_length() {
    let d = declaration(
        "unsafe in S {
             /// Docs.
             #[name = \"ns::factor\"] pub(crate) global factor: f32;
             safe fn f(n: u32);
             global table: [[f32; 4]; 2 * SIZE];
             #[cfg(test)] global r#in: Params<u8>;
         }",
    );
    let [factor, table, keyword] = d.globals.as_slice() else { panic!("three globals") };
    assert_eq!(d.functions.len(), 1);
    assert_eq!(to_text(&factor.symbol.expression(&[], &[])), "\"ns::factor\"");
    assert_eq!(to_text(&factor.visibility), "pub (crate)");
    assert_eq!((to_text(&factor.element).as_str(), factor.len.is_some()), ("f32", false));
    assert_eq!(squeeze(&to_text(&table.element)), "[f32;4]");
    assert_eq!(table.len.as_deref().map(to_text).as_deref(), Some("2 * SIZE"));
    assert_eq!(squeeze(&table.declared), "[[f32;4];2*SIZE]");
    assert_eq!((keyword.text.as_str(), keyword.declared.as_str()), ("in", "Params<u8>"));
}

#[test]
fn a_global_becomes_a_field_and_a_method() {
    let code = emitted("#[name = \"ns::a\"] global a: f32; global b: [u64; N];");
    let field = "a:::cuda_safe::__private::DeclaredGlobal<Self,0usize,::core::primitive::f32>,";
    assert!(code.contains(field), "{code}");
    let found = "a:::cuda_safe::__private::DeclaredGlobal::find(module,\"ns::a\",\"f32\",1usize)?,";
    assert!(code.contains(found), "{code}");
    let found = "DeclaredGlobal::find(module,\"b\",\"[u64;N]\",{N})?,";
    assert!(code.contains(found), "{code}");
    let method = "pubfnb(&self,stream:&::cuda_safe::Stream)->::cuda_safe::Result<::cuda_safe::Global<::core::primitive::u64>>";
    assert!(code.contains(method), "{code}");
    assert!(code.contains("load_kernels(S,context,&[])"), "no name expression: {code}");
}

#[test]
fn templates_have_name_expressions() {
    let code = emitted(
        "#[name = \"value<float>\"] global a: f32; #[name = \"&b\"] global b: f32; global c: f32;",
    );
    assert!(code.contains("load_kernels(S,context,&[\"&value<float>\",\"&b\",])"), "{code}");
    let d = declaration(
        "struct V<T in [f32, f64]>; unsafe in S { #[name = \"{}<{T}>\"] global value: [T; 3]; }",
    );
    let code = squeeze(&to_text(&emit(&d)));
    assert!(code.contains("symbol(&[\"&value<\",instance_0,\">\",])"), "{code}");
    assert!(code.contains("symbol(&[\"value<\",instance_0,\">\",])"), "{code}");
}

#[test]
fn what_is_no_global_is_refused_where_it_is_written() {
    fn_refused("global »: f32;", "the global's name");
    fn_refused("global »_: f32;", "name the global");
    fn_refused("global a »f32;", "`: type`");
    fn_refused("global a: »;", "the global's type");
    fn_refused("global a: f32 »= 1.0;", "first value is in the source");
    fn_refused("global a: »[f32];", "`[T; N]`");
    fn_refused("global a: »[f32;];", "`[T; N]`");
    fn_refused("global a: »&[f32];", "declare it as `u64`");
    fn_refused("global a: »*mut f32;", "declare it as `u64`");
    fn_refused("global »load: f32;", "a function of the generated struct");
    fn_refused("global »load_from: f32;", "a function of the generated struct");
    fn_refused("safe fn a(); global »a: f32;", "two items `a`");
    fn_refused("safe fn a(); global »a_kernel: f32;", "the generated access");
    fn_refused("global a: f32; global »a: f64;", "two items `a`");
    fn_refused("#[name = »\"{T}\"] global a: f32;", "is no type parameter");
    refused("struct V<T in [f32]>; unsafe in S { global »a: T; }", "is the same for every `T`");
    // The rest is read.
    assert_eq!(errors("unsafe in S { global a f32; global b: [u8]; safe gn(); }").len(), 3);
    // One of them is left.
    let twins = "#[cfg(unix)] global a: f32; #[cfg(windows)] global a: f32;";
    assert_eq!(declaration(&format!("unsafe in S {{ {twins} }}")).globals.len(), 2);
}

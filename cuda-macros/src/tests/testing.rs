//! `#[test_launches]`.

use super::{declaration, refused, squeeze};
use crate::emit::emit;
use crate::token::to_text;

fn code(source: &str) -> String {
    squeeze(&to_text(&emit(&declaration(source))))
}

#[test]
fn without_the_attribute_nothing_is_added() {
    let functions = "unsafe in S { safe fn f(x: &[u8], n: u32 = x.len()) over n; }";
    let plain = code(&format!("struct K; {functions}"));
    assert!(!plain.contains("testing") && !plain.contains("test_loaded"), "{plain}");
    for (attribute, cfg) in [
        ("#[test_launches]", ""),
        ("#[cfg_attr(test, test_launches)]", "#[cfg(test)]"),
        ("#[cfg_attr(all(test, unix), test_launches)]", "#[cfg(all(test,unix))]"),
    ] {
        let tested = code(&format!("{attribute} #[derive(Clone)] struct K; {functions}"));
        assert_eq!(tested.matches("pubfntest_launches(").count(), 1, "{tested}");
        let before = tested.split("pubfntest_loaded(").next().unwrap_or_default();
        assert!(before.contains(&format!("{cfg}#[allow(")), "{before}");
        assert!(tested.contains("#[derive(Clone)]") && !tested.contains("cfg_attr"), "{tested}");
    }
}

#[test]
fn the_declaration_becomes_data_and_the_launch_goes_through_the_method() {
    let code = code(
        "#[test_launches] struct K;
         unsafe in S {
             safe fn f(p: Params, x: &[f32], out: &mut [T2], n: i32 = x.len(), m: u8)
                 where -m < p.size.x || block.x.is_power_of_two(), out.len() >= (n + 1) * TILE, x.len() % 4 == 0;
             unsafe fn g(x: *const f32);
             #[cfg(a)] safe fn h<T in [f32, Mine = \"mine\"]>(t: T, x: &mut [T]) cooperative over x.len() by BLOCK
                 where x.len() > 0;
         }",
    );
    for part in [
        "DeclaredKernel::new(\"f\",\"\").value(\"p\").slice(\"x\",false).slice(\"out\",true)\
         .filled::<::core::primitive::i32>(\"n\",\"n:i32=x.len()\",::cuda_safe::testing::declared::Expr::Len(1usize))\
         .integer::<::core::primitive::u8>(\"m\").field(\"p.size.x\",|value:&Params|value.size.x)",
        ".clause(\"-m<p.size.x||block.x.is_power_of_two()\",",
        "Chain(::cuda_safe::testing::declared::Expr::negated(::cuda_safe::testing::declared::Expr::Param(4usize)),\
         ::std::vec::Vec::from([(::cuda_safe::testing::declared::Comparison::Less,\
         ::cuda_safe::testing::declared::Expr::Field(0usize)),]))",
        "Condition::PowerOfTwo(::cuda_safe::testing::declared::Expr::Launch(0usize)),",
        "::cuda_safe::testing::declared::Arithmetic::Mul,\
         ::cuda_safe::testing::declared::Expr::Int(::cuda_safe::__private::number(const{TILE}))",
        ".locked(true,true);",
        "letmutargument_1=::cuda_safe::testing::Drawn::slice::<::core::primitive::f32>(drawn,1usize,",
        "::cuda_safe::testing::Drawn::set(drawn,0usize,&mutargument_0.size.x)?;",
        "letmade=Self::f(self,::cuda_safe::testing::Drawn::stream(drawn),::cuda_safe::testing::Drawn::launch(drawn),\
         argument_0,&argument_1,&mutargument_2,argument_4,);\
         ::cuda_safe::testing::Drawn::unchanged(drawn,1usize,&argument_1)?;made})?;",
        "::cuda_safe::testing::Launches::skip(launches,\"g\");",
        "#[cfg(a)]{typeT=::core::primitive::f32;",
        "#[cfg(a)]{typeT=Mine;",
        "DeclaredKernel::new(\"h\",\"T=Mine\")",
        ".over(\"overx.len()\",::std::vec::Vec::from([(::cuda_safe::testing::declared::Expr::Len(1usize),\
         ::cuda_safe::__private::extent(const{BLOCK})),])).locked(false,false).cooperative();",
        "Self::h::<T,>(self,::cuda_safe::testing::Drawn::stream(drawn),argument_0,&mutargument_1,)",
    ] {
        assert!(code.contains(&squeeze(part)), "{part}\nis not in\n{code}");
    }
    // What is filled in is not passed, and not made.
    assert!(!code.contains("argument_3"), "{code}");
}

#[test]
fn the_attribute_stands_alone_and_its_names_are_taken() {
    let after = "struct K; unsafe in S { safe fn f(); }";
    refused(&format!("#[test_launches] #[»test_launches] {after}"), "once and alone");
    refused(&format!("#[test_launches»(3)] {after}"), "once and alone");
    refused(&format!("#[cfg_attr(test, a, »test_launches)] {after}"), "once and alone");
    refused(
        "#[test_launches] struct K; unsafe in S { safe fn »test_launches(); }",
        "function of the generated struct",
    );
    refused(
        "#[cfg_attr(test, test_launches)] struct K; unsafe in S { global »test_loaded: f32; }",
        "function of the generated struct",
    );
    assert_eq!(declaration("unsafe in S { safe fn test_launches(); }").functions.len(), 1);
    // Other attributes stay as they are.
    let d =
        declaration("#[cfg_attr(test, derive(Clone))] #[cfg_attr(test)] struct K; unsafe in S {}");
    assert_eq!(d.attributes.len(), 2);
}

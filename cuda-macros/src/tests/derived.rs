//! Parameters that are filled in, and launches that follow from them.

use super::{declaration, fn_refused, function, squeeze};
use crate::emit::emit;
use crate::over::Threads;
use crate::token::to_text;

/// Returns the method of `f`, without white space and without its documentation.
fn method(source: &str) -> String {
    let code = squeeze(&to_text(&emit(&declaration(&format!("unsafe in S {{ {source} }}")))));
    let start = code.find("fnf<").or(code.find("fnf(")).unwrap_or_else(|| panic!("{code}"));
    let end = code.find("fnf_kernel").unwrap_or(code.len());
    code[start..end].replace("::core::primitive::", "@").replace("::core::option::Option::", "@")
}

#[test]
fn a_default_is_filled_in_and_not_passed() {
    let code = method("safe fn f(x: &[u8], n: i32 = x.len(), m: u64) where m == n;");
    assert!(code.contains("launch:impl::cuda_safe::IntoLaunchConfig,x:impl::cuda_safe::ReadView<'x,@u8>,m:impl::cuda_safe::arg::Integer<@u64>,)->"), "{code}");
    let filled = "letn:@i32=::cuda_safe::__private::fill(\"f\",\"n:i32=x.len()\",@Some((::cuda_safe::DeviceSlice::len(&x)as@i128)),&[(\"x.len()\",(::cuda_safe::DeviceSlice::len(&x)as@i128)),])?;";
    let at = code.find(filled).unwrap_or_else(|| panic!("{filled}\nis not in\n{code}"));
    let view = code.find("letx=::cuda_safe::ReadView::read_view(x);");
    let clause = code.find("((mas@i128),(nas@i128))");
    assert!(view < Some(at) && Some(at) < clause, "{code}");
    assert!(code.contains("stream,launch,(x,n,m,))"), "in its place among the arguments: {code}");
}

#[test]
fn defaults_read_what_is_passed_and_those_before() {
    let f = function(
        "unsafe fn f(a: u32 = 2 * x.len() - k, b: i64 = a % 3, x: &[u8], k: u8, c: usize = (b));",
    );
    let shown = |i: usize| f.params[i].default.as_ref().map(|d| d.display(&f.params));
    assert_eq!(shown(0).as_deref(), Some("2 * x.len() - k"));
    assert_eq!(shown(1).as_deref(), Some("a % 3"));
    assert_eq!((shown(2), shown(3)), (None, None));
    assert_eq!(shown(4).as_deref(), Some("(b)"));
    let code = method("unsafe fn f(n: u32 = 2 * x.len(), x: &[u8]);");
    assert!(code.contains("@i128::checked_mul(left,right)"), "{code}");
    fn_refused("unsafe fn f(a: u32 = »b, b: u32 = 1);", "`b` has no value yet");
    fn_refused("unsafe fn f(a: u32 = »a);", "`a` has no value yet");
}

#[test]
fn a_plain_length_as_default_bounds_the_slice() {
    for sound in ["x.len()", "(x.len())", "((x.len()))"] {
        let text = format!("safe fn f(x: &[f32], n: u64 = {sound});");
        assert!(function(&text).clauses.is_empty());
    }
    let unchecked = "the length of `x` is not checked";
    for other in ["x.len() / 2", "2 * x.len()", "x.len() + 1", "-x.len()", "y.len()"] {
        let text = format!("safe fn f(»x: &[f32], y: &[u8], n: u64 = {other}) where n <= y.len();");
        fn_refused(&text, unchecked);
    }
    function("safe fn f(x: &[f32], n: u64 = x.len() / 2) where n <= x.len();");
}

#[test]
fn only_integers_that_kernels_take_are_filled_in() {
    fn_refused("safe fn f(a: f32 »= 1);", "`a: f32` has no default");
    fn_refused("safe fn f(a: [u8; 3] »= 1);", "`a: [u8; 3]` has no default");
    fn_refused("safe fn f(a: Pair<u8> »= 1);", "`a: Pair<u8>` has no default");
    fn_refused("safe fn f(x: &[f32] »= 1);", "`x` has no default: memory is passed");
    fn_refused("safe fn f(x: i128 »= 1);", "no kernel takes an i128");
    fn_refused("unsafe fn f(x: &Prepared<'_> »= 1);", "has no default");
    fn_refused("safe fn f(a: u8 »=);", "this default ends where a value is expected");
    fn_refused("safe fn f(a: u8 = 1 »< 2);", "expected + - * / %");
    fn_refused("safe fn f(a: u8 = »1u8);", "a default takes integers");
    fn_refused("safe fn f(a: u8 = »block.x);", "a default is made of parameters");
    fn_refused("safe fn f(a: u8 = »m);", "`m` is not a parameter");
    fn_refused("unsafe fn f(x: &[u8], a: u8 = »x);", "write its length, `x.len()`");
    fn_refused("safe fn f(x: f32, a: u8 = »x);", "`x: f32` is not an integer");
    fn_refused("safe fn f(a: »= 1);", "expected a type");
}

#[test]
fn over_makes_the_launch_and_takes_none() {
    let code = method("safe fn f(x: &mut [u8], n: u64 = x.len()) over n;");
    assert!(code.starts_with("fnf<'x,>(&self,stream:&::cuda_safe::Stream,x:impl"), "{code}");
    let launch = "letlaunch=::cuda_safe::__private::over(\"f\",\"overn\",[@Some((nas@i128)),],[256u32,],&[(\"n\",(nas@i128)),])?;";
    let at = code.find(launch).unwrap_or_else(|| panic!("{launch}\nis not in\n{code}"));
    assert!(code.find("letn:@u64=") < Some(at), "{code}");
    assert!(!code.contains("into_launch_config") && !code.contains("in_x_alone"), "{code}");
    assert!(code.contains("stream,launch,(x,n,))"), "{code}");

    let code =
        method("unsafe fn f(w: u32, h: u32) over [w, 2 * h] by [16, 16] where block.y == 16;");
    assert!(code.contains("\"over[w,2*h]\",[@Some((was@i128)),match"), "{code}");
    assert!(code.contains("[16u32,16u32,],&[(\"w\",(was@i128)),(\"h\",(has@i128)),])?"), "{code}");
    assert!(code.find("__private::over(") < code.find("launch.block.y"), "{code}");
}

#[test]
fn over_has_blocks_for_each_number_of_dimensions() {
    let over = |text: &str| {
        let f = function(&format!("safe fn f(a: u32, b: u32, c: u32) over {text};"));
        let over = f.over.unwrap_or_else(|| panic!("no launch"));
        let known = |threads| match threads {
            Threads::Int(threads) => threads,
            Threads::Const(path) => panic!("{path:?}"),
        };
        (over.extents.len(), over.block.into_iter().map(known).collect::<Vec<u32>>())
    };
    assert_eq!(over("a"), (1, vec![256]));
    assert_eq!(over("[a]"), (1, vec![256]));
    assert_eq!(over("a + 1 by 128"), (1, vec![128]));
    assert_eq!(over("a by [1_024]"), (1, vec![1024]));
    assert_eq!(over("[a, b,]"), (2, vec![32, 8]));
    assert_eq!(over("[a, b * (c + 1)] by [16, 16]"), (2, vec![16, 16]));
    assert_eq!(over("[a, b, c]"), (3, vec![8, 8, 4]));
    assert_eq!(over("[a, b, c] by [1, 1, 64]"), (3, vec![1, 1, 64]));
    // Its launches need no limit to x.
    assert_eq!(function("safe fn f(a: u32) over [a, a];").locked(), [false, false]);
}

#[test]
fn blocks_have_constants() {
    let code =
        method("safe fn f(out: &mut [u8], n: u64 = out.len()) over [n, n] by [consts::TILE, 8];");
    let block = ",[::cuda_safe::__private::extent(const{consts::TILE}),8u32,],&[";
    assert!(code.contains(block), "{code}");
    assert!(
        method("safe fn f(out: &mut [u8], n: u64 = out.len()) over n by TILE where n > 0;")
            .contains(",[::cuda_safe::__private::extent(const{TILE}),],&[")
    );
}

#[test]
fn mistakes_in_over_are_reported_where_they_are() {
    let refused = |over: &str, wanted: &str| {
        fn_refused(&format!("unsafe fn f(a: u32, x: &[u8], b: f32) over {over};"), wanted);
    };
    refused("»[a, a, a, a]", "one to three dimensions, not 4");
    refused("»[]", "one to three dimensions, not 0");
    refused("a», a", "`over [width, height]`");
    refused("»b", "`b: f32` is not an integer");
    refused("»x", "write its length, `x.len()`");
    refused("»block.x", "an extent of `over` is made of parameters");
    refused("»m", "`m` is not a parameter");
    refused("a by »0", "1 to 1024 threads");
    refused("a by »1025", "1 to 1024 threads");
    refused("[a, a] by »[64, 32]", "1 to 1024 threads");
    refused("[a, a, a] by »[1, 1, 65]", "at most 64 in z");
    refused("[a, a] by »16", "such as `by [32, 8]`");
    refused("a by »[16, 16]", "such as `by 256`");
    refused("a by »a", "as integers");
    refused("a by »a::b", "constants in capitals");
    refused("a by »2 * TILE", "as integers");
    refused("[a, a] by »[TILE, 2048]", "1 to 1024 threads");
    refused("[a, a] by »[16, 1 + 1]", "as integers");
    fn_refused("unsafe fn f(a: u32) where a > 1 »over a;", "`over` stands before `where`");
    fn_refused("unsafe fn f(a: u32) »over ;", "ends where a value is expected");
    fn_refused("unsafe fn f(a: u32) over a »by ;", "as integers");
}

#[test]
fn the_documentation_says_how_the_kernel_is_launched() {
    let code = squeeze(&to_text(&emit(&declaration(
        "unsafe in S { safe fn f(w: u32, h: i32 = 2 * w) over [w, h] where w > 0; }",
    ))));
    assert!(code.contains("Launchesonethreadforeachof`w`×`h`elements,inblocksof32×8."), "{code}");
    assert!(code.contains("Unless`h`fitsitstype,`w>0`;nothingislaunchedthen."), "{code}");
}

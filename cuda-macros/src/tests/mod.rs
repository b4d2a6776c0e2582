//! Unit tests on text (see `lex.rs`): declarations here, clauses and emission beside.

mod checking;
mod clauses;
mod derived;
mod emission;
mod globals;
mod instances;
mod testing;

use crate::function::Function;
use crate::lex::lex;
use crate::param::{Activity, Kind};
use crate::parse::{Declaration, parse};
use crate::token::{Error, Span, to_text};

fn declaration(source: &str) -> Declaration {
    parse(&lex(source, Span::At)).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"))
}

/// Returns the only function of `unsafe in S { source }`.
fn function(source: &str) -> Function {
    declaration(&format!("unsafe in S {{ {source} }}")).functions.remove(0)
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

fn errors(source: &str) -> Vec<Error> {
    match parse(&lex(source, Span::At)) {
        Ok(_) => panic!("this must be refused: {source}"),
        Err(errors) => errors,
    }
}

/// Asserts that `source`, with `»` before the offending token, is refused there and says `wanted`.
#[track_caller]
fn refused(source: &str, wanted: &str) {
    let at = source.find('»').unwrap_or_else(|| panic!("no mark in {source}"));
    let errors = errors(&source.replace('»', ""));
    let [Error { span: Span::At(found), message }] = errors.as_slice() else {
        panic!("one error with a place expected, got {errors:?}");
    };
    assert!(message.contains(wanted), "{message:?} does not say {wanted:?}");
    assert_eq!(*found, at, "{message:?} is reported at the wrong token of {source}");
}

/// As `refused`, for a declaration inside the braces.
#[track_caller]
fn fn_refused(source: &str, wanted: &str) {
    refused(&format!("unsafe in S {{ {source} }}"), wanted);
}

#[test]
fn a_full_declaration_keeps_everything_that_was_written() {
    let d = declaration(
        "/// Docs.
         #[derive(Clone)]
         pub(crate) struct Saxpy;
         unsafe in sources::SAXPY.with(1) {
             /// One.
             #[inline] pub(super) safe fn saxpy(a: f32, x: &[f32], out: &mut [Vec3<f32>], n: u64)
                 where n <= x.len(), n <= out.len();
             #[name = \"_Z3foof\"] unsafe fn foo(v: [f32; 3], p: *mut f32, h: Pair<u8, fn(u8) -> u16>,);
         }",
    );
    assert_eq!(squeeze(&to_text(&d.krate)), "::cuda_safe");
    assert_eq!(to_text(&[d.name]), "Saxpy");
    assert_eq!(to_text(&d.visibility), "pub (crate)");
    assert_eq!(to_text(&d.source), "sources :: SAXPY . with (1)");
    assert_eq!(d.attributes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["doc", "derive"]);

    let [saxpy, foo] = d.functions.as_slice() else { panic!("two functions") };
    assert!(saxpy.safe && !foo.safe);
    assert_eq!(to_text(&saxpy.visibility), "pub (super)");
    let symbol = |f: &Function| to_text(&f.symbol.expression(&[], &[]));
    assert_eq!(symbol(saxpy), "\"saxpy\"");
    assert_eq!(saxpy.clauses.len(), 2);
    assert_eq!(symbol(foo), "\"_Z3foof\"");
    assert!(foo.attributes.is_empty() && foo.visibility.is_empty());
    let kinds: Vec<String> = saxpy
        .params
        .iter()
        .chain(&foo.params)
        .map(|p| match &p.kind {
            Kind::Slice { element, mutable, .. } => {
                format!("{}: slice {mutable} {}", p.text, to_text(element))
            }
            Kind::Nullable { element, mutable, .. } => {
                format!("{}: nullable {mutable} {}", p.text, to_text(element))
            }
            Kind::Raw { element, mutable, .. } => {
                format!("{}: raw {mutable} {}", p.text, to_text(element))
            }
            Kind::Value { ty, integer } => format!("{}: value {integer} {}", p.text, to_text(ty)),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "a: value false f32",
            "x: slice false f32",
            "out: slice true Vec3 < f32 >",
            "n: value true u64",
            "v: value false [f32 ; 3]",
            "p: raw true f32",
            "h: value false Pair < u8 , fn (u8) -> u16 >",
        ]
    );
}

#[test]
fn without_a_struct_it_is_called_kernels_and_another_crate_may_be_named() {
    let d = declaration("#![crate = geom::cuda] unsafe in S { safe fn f(); }");
    assert_eq!(
        (to_text(&[d.name]).as_str(), squeeze(&to_text(&d.krate)).as_str()),
        ("Kernels", "geom::cuda")
    );
}

#[test]
fn every_mistake_of_a_declaration_is_reported_at_once() {
    let found = errors(
        "unsafe in S { fn a(); safe fn b(x: &[u8]); unsafe fn c() where q < 1, 1; safe fn d(); safe fn e() {} fn f(); }",
    );
    assert_eq!(found.len(), 6, "{found:?}");
}

#[test]
fn the_head_must_promise() {
    refused("»safe fn f();", "whoever writes this `unsafe` promises");
    refused("struct K; »in S { safe fn f(); }", "expected `unsafe in SOURCE");
    refused("unsafe »S { safe fn f(); }", "expected `unsafe in SOURCE");
    refused("unsafe in »{ safe fn f(); }", "source after `unsafe in`");
    refused("unsafe in S { safe fn f(); } »unsafe in T { safe fn g(); }", "makes one struct");
    refused("struct K<»T>; unsafe in S { }", "the instances of `T` are missing");
    refused("struct K »{ } unsafe in S { }", "`;` after the struct's name");
    refused("»#[allow(x)] unsafe in S { }", "write `struct Name;`");
    refused("#!»[no_std] unsafe in S { }", "#![crate = path::to::cuda_safe]");
    assert!(errors("struct K; unsafe in S")[0].message.contains("expected `{ … }`"));
    assert!(errors("")[0].message.contains("expected `unsafe in SOURCE"));
}

#[test]
fn a_declaration_is_safe_or_unsafe_and_nothing_more() {
    fn_refused("»fn f();", "`safe fn`");
    fn_refused("pub »fn f();", "`unsafe fn`");
    fn_refused("safe »unsafe fn f();", "either `safe` or `unsafe`");
    fn_refused("safe »f();", "expected `fn`");
    fn_refused("safe fn »(x: u8);", "kernel's name");
    fn_refused("safe fn f<»T>(v: T);", "the instances of `T` are missing");
    fn_refused("safe fn f() »-> u8;", "returns nothing");
    fn_refused("safe fn f() »{ }", "body is in its source");
    fn_refused("safe fn f »;", "in parentheses");
    fn_refused("#[name = \"a\"] #[»name = \"b\"] safe fn f();", "one `#[name]`");
    fn_refused("#»[name(f)] safe fn f();", "expected `#[name = \"symbol\"]`");
    fn_refused("#»[name = \"\"] safe fn f();", "expected `#[name = \"symbol\"]`");
}

#[test]
fn parameters_are_named_once_and_hold_slices_or_values() {
    fn_refused("safe fn f(a: u8, »a: u8);", "two parameters `a`");
    fn_refused("safe fn f(»self, a: u8);", "no `self`");
    fn_refused("safe fn f(&»self);", "no `self`");
    fn_refused("safe fn f(»_: u8);", "name the parameter");
    fn_refused("safe fn f(»u8);", "`name: type`");
    fn_refused("safe fn f(a: u8, »mut b: u8);", "`name: type`");
    fn_refused("safe fn f(»#[cfg(x)] a: u8);", "no attributes but");
    fn_refused("safe fn f(»# a: u8);", "no attributes but");
    fn_refused("safe fn f(»#[only_read(x)] a: &[u8]) where a.len() > 0;", "no attributes but");
    fn_refused("safe fn f(a: »&f32);", "write `&[T]`");
    fn_refused("safe fn f(a: »&mut f32);", "write `&mut [T]`");
    fn_refused("safe fn f(a: »&[f32; 3]);", "write `&[T]`");
    fn_refused("safe fn f(a: »[f32]);", "a slice is not a value");
    fn_refused("safe fn f(a: »DeviceBuffer<f32>);", "write `&[f32]` or `&mut [f32]`");
    fn_refused("safe fn f(a: »cuda_safe::DeviceSlice<'static, u8>);", "write `&[u8]` or");
    fn_refused("safe fn f(a: »Vec);", "write `&[T]` or `&mut [T]`");
    fn_refused("safe fn f(a: »&mut DeviceBuffer<Pair<u8, u8>>);", "`&mut [Pair < u8 , u8 >]`");
    fn_refused("safe fn f(a: »&DeviceBuffer<f32>);", "write `&[f32]`");
    fn_refused("safe fn f(a: &»'a [f32]);", "no lifetime");
    fn_refused("safe fn f(a: »*const f32);", "does not say how much");
    fn_refused("safe fn f(a: »Option<&[f32]>);", "in an `unsafe fn`");
    fn_refused("safe fn f(a: ::core::option::»Option<&mut [f32]>);", "in an `unsafe fn`");
    fn_refused("unsafe fn f(a: Option<»&f32>);", "write `&[T]`");
    fn_refused("unsafe fn f(a: Option<&[f32]>) where »a.len() > 0;", "may be null");
    fn_refused("unsafe fn f(a: *const f32) where »a > 0;", "may be null");
    fn_refused("unsafe fn f(a: Option<&[f32]> »= 1);", "memory is passed by the caller");
    fn_refused("safe fn f(a: »impl Copy);", "one type");
    fn_refused("unsafe fn f(a: »&f32);", "write `&[T]`");
    fn_refused("unsafe fn f(a: »&[f32; 3]);", "write `&[T]`");
    fn_refused("unsafe fn f(a: »&mut DeviceBuffer<f32>);", "write `&mut [f32]`");
    fn_refused("unsafe fn f(a: &»'a Prepared);", "no lifetime");
    fn_refused("unsafe fn f(a: »dyn KernelArg);", "one type");
    let list = |n: usize| (0..n).map(|i| format!("a{i}: u8")).collect::<Vec<_>>().join(", ");
    assert_eq!(function(&format!("safe fn f({});", list(24))).params.len(), 24);
    fn_refused(&format!("safe fn f({}, »b: u8);", list(24)), "at most 24");
}

#[test]
fn a_marker_says_that_a_slice_is_only_read() {
    let f = function("unsafe fn f(#[only_read] x: &[f32], y: &[f32], out: &mut [f32]);");
    let marked: Vec<bool> = f.params.iter().map(|param| param.only_read).collect();
    assert_eq!(marked, [true, false, false]);
    fn_refused("unsafe fn f(»#[only_read] x: &mut [f32]);", "writes to a `&mut [T]`");
    fn_refused("unsafe fn f(»#[only_read] n: u32);", "this is no slice");
    fn_refused("unsafe fn f(»#[only_read] x: &Prepared<'_>);", "this is no slice");
    fn_refused("unsafe fn f(#[only_read] »#[only_read] x: &[u8]);", "twice");
    let f = function("unsafe fn f(#[only_read] x: Option<&[f32]>);");
    assert!(f.params[0].only_read && matches!(f.params[0].kind, Kind::Nullable { .. }));
    fn_refused("unsafe fn f(»#[only_read] x: Option<&mut [f32]>);", "writes to a `&mut [T]`");
    fn_refused("unsafe fn f(»#[only_read] x: *const f32);", "are not ordered");
    // The marker says nothing about lengths.
    fn_refused("safe fn f(#[only_read] »x: &[f32]);", "the length of `x` is not checked");
}

#[test]
fn integers_that_no_clause_reads_are_found() {
    let unbounded = |text: &str| -> Vec<String> {
        function(text).unbounded().map(|param| param.text.clone()).collect()
    };
    assert_eq!(unbounded("safe fn f(n: u32, a: f32, t: T, s: [u32; 3]);"), ["n"]);
    assert_eq!(unbounded("safe fn f(n: u32, m: i8) where n > 0;"), ["m"]);
    assert_eq!(unbounded("safe fn f(n: u32, m: i8) where n > 0 || m.is_power_of_two();"), [""; 0]);
    assert_eq!(unbounded("safe fn f(n: u32, #[any] m: i8) where n > 0;"), [""; 0]);
    assert_eq!(unbounded("unsafe fn f(n: u32);"), [""; 0]);
    // What is filled in needs no clause, and a clause on it is one on what it is made of.
    assert_eq!(unbounded("safe fn f(w: u32, h: u32, n: u32 = w * h) where n < 9;"), [""; 0]);
    assert_eq!(
        unbounded("safe fn f(w: u32, h: u32, n: u32 = w * 2, m: u32 = n) where m < 9;"),
        ["h"]
    );
    assert_eq!(unbounded("safe fn f(w: u32, n: u32 = 2 * w);"), ["w"]);
    // An extent bounds nothing.
    assert_eq!(unbounded("safe fn f(n: u32) over n;"), ["n"]);

    fn_refused("unsafe fn f(»#[any] n: u32);", "stands in a `safe fn`");
    fn_refused("safe fn f(»#[any] n: u32 = 1);", "this is filled in");
    fn_refused("safe fn f(»#[any] a: f32);", "before an integer");
    fn_refused("safe fn f(»#[any] x: &[u8]) where x.len() > 0;", "before an integer");
    fn_refused("safe fn f(»#[any] n: u32) where n > 0;", "a clause reads `n`: remove");
    fn_refused("safe fn f(»#[any] n: u32, m: u32 = n) where m > 0;", "a clause reads `n`: remove");
}

#[test]
fn no_two_methods_share_a_name() {
    fn_refused("safe fn »load();", "function of the generated struct");
    fn_refused("safe fn »from_module();", "function of the generated struct");
    fn_refused("safe fn »check();", "function of the generated struct");
    fn_refused("safe fn »module();", "function of the generated struct");
    fn_refused("safe fn a(); safe fn »a();", "two kernels `a`");
    fn_refused("safe fn a(); safe fn »a_kernel();", "access to the kernel `a`");
    let alternatives = "unsafe in S { #[cfg(a)] safe fn f(); #[cfg(not(a))] safe fn f(); }";
    assert_eq!(declaration(alternatives).functions.len(), 2);
}

#[test]
fn markers_say_what_has_a_gradient() {
    let f = function(
        "#[gradient] safe fn f(#[active] a: f32, x: &[f32], #[inactive] w: &[f32], n: u32 = x.len()) where w.len() == n;",
    );
    assert!(f.gradient.is_some() && f.attributes.is_empty());
    let active: Vec<_> = f.params.iter().map(|param| param.activity.map(|(it, _)| it)).collect();
    assert_eq!(active, [Some(Activity::Active), None, Some(Activity::Inactive), None]);
    fn_refused("safe fn f(»#[active] a: f32);", "write `#[gradient]` before it");
    fn_refused("#[gradient] unsafe fn f(»#[inactive] a: f32);", "unless it is marked");
    fn_refused("#[gradient] unsafe fn f(»#[active] n: u32);", "integers have no gradient");
    fn_refused("#[gradient] unsafe fn f(»#[active] n: &[[u32; 3]]);", "integers have no gradient");
    fn_refused("#[gradient] unsafe fn f(»#[active] x: *const f32);", "take a slice");
    fn_refused("#[gradient] unsafe fn f(#[active] »#[inactive] x: &[f32]);", "or `#[inactive]`");
    fn_refused("#[gradient] unsafe fn f(#[active] »#[active] x: &[f32]);", "twice");
    fn_refused("#»[gradient = 1] unsafe fn f(x: &[f32]);", "expected `#[gradient]`, or");
    fn_refused("#»[gradient(tape)] unsafe fn f(x: &[f32]);", "expected `#[gradient]`, or");
    fn_refused("#[gradient] #»[gradient] unsafe fn f(x: &[f32]);", "has one `#[gradient]`");
    fn_refused("#[gradient] unsafe fn »f<T in [f32, f64]>(x: &[T]);", "with type parameters");
    fn_refused(
        "#[gradient] unsafe fn f(x: &[f32]); unsafe fn »record_f();",
        "the gradients of `f`",
    );
    fn_refused(
        "#[gradient] unsafe fn f(x: &[f32]); unsafe fn »derive_f();",
        "the gradients of `f`",
    );
    fn_refused("#[gradient] unsafe fn f(x: &[f32]); unsafe fn »gradient_source();", "a field of");
}

//! What names mean in kernels, and what the host and a device compute from the same source.

use gpu_phases::kernel::CpuError;
use gpu_phases::{Device, device, kernel};

use crate::both;

#[kernel(contract)]
fn lengths_are_contracted(a: f32, b: f32, c: f32, x: &[u32], out: &mut [u32]) {
    let n = 1 + (a * b + c != 0.0) as usize;
    assert!(x.len() == n);
    each(out, |i, out| *out = x[i]);
}

#[kernel(contract)]
fn sizes_are_contracted(a: f32, b: f32, c: f32, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 1 + (a * b + c != 0.0) as usize), |block, mut out| {
        const MOST: usize = 4000;
        let mut shared = block.shared_slice::<u32>((a * b + c != 0.0) as usize * MOST, 0);
        let index = block.index();
        block.each(&mut shared, |_, shared| *shared = 10);
        block.each(&mut out, |i, out| *out = shared[MOST - 1] * index as u32 + i as u32);
    });
}

const MOST: usize = 1;

#[kernel]
fn lengths_have_the_types_of_the_loop(by: u32, back: u32, x: &[i64], out: &mut [i64]) {
    let one = 1;
    let shifted = one << by;
    let n = (shifted >> back) as usize;
    assert!(x.len() == n);
    each(out, |i, out| {
        let value: i64 = shifted;
        *out = value + x[i];
    });
}

/// Returns whether the error is that of arguments.
fn is_refused(result: Result<(), CpuError>) -> bool {
    matches!(result, Err(CpuError::Refused(_)))
}

#[test]
fn the_host_computes_lengths_as_a_device_does() {
    // The product is 1 if it is rounded.
    let (a, b, c) = (0.1f32, 10.0f32, -1.0f32);
    assert_eq!(a * b + c, 0.0);
    let out =
        both!(lengths_are_contracted(value a, value b, value c, read [3, 4], write vec![0; 2]))
            .unwrap();
    assert_eq!(out, [3, 4]);
    assert!(is_refused(lengths_are_contracted::cpu(a, b, c, &[3], &mut [0; 2])));

    let out = both!(sizes_are_contracted(value a, value b, value c, write vec![0; 5])).unwrap();
    assert_eq!((MOST, out), (1, vec![0, 1, 10, 11, 20]));

    let out = both!(lengths_have_the_types_of_the_loop(value 33, value 31, read [1, 2, 3, 4], write vec![0; 4])).unwrap();
    assert_eq!(out, [1, 2, 3, 4].map(|x| x + (1i64 << 33)));
    assert!(is_refused(lengths_have_the_types_of_the_loop::cpu(33, 31, &[], &mut [0; 4])));
}

const A: f32 = 1.0;

#[device]
fn inner_constant() -> f32 {
    let y = {
        const A: f32 = 2.0;
        A
    };
    10.0 * A + y
}

#[kernel]
fn constants(out: &mut [f32]) {
    const B: f32 = 100.0;
    let sum = {
        const A: f32 = 3.0;
        A + B
    };
    each(out, |i, out| {
        let y = {
            const A: f32 = 4.0;
            const B: f32 = 0.5;
            A + B
        };
        *out = if i == 0 { inner_constant() } else { A + sum + y };
    });
}

#[test]
fn constants_are_those_of_their_blocks() {
    assert_eq!(both!(constants(write vec![0.0; 2])).unwrap(), [12.0, 108.5]);
}

/// Macros and traits with the names that expansions use.
mod hostile {
    use super::*;

    macro_rules! format {
        ($($tokens:tt)*) => {
            ::std::string::String::from("\"\"\n#error injected\n")
        };
    }
    macro_rules! file {
        () => {
            0
        };
    }
    macro_rules! cfg {
        ($($tokens:tt)*) => {
            0
        };
    }

    trait ToText {
        fn to_string(self) -> String
        where
            Self: Sized,
        {
            "\n#error injected\n".to_owned()
        }
    }
    impl ToText for u32 {}
    impl ToText for usize {}
    impl ToText for bool {}
    impl ToText for String {}

    /// As those of crates for generic numbers.
    trait Wrapping {
        fn wrapping_add(&self, other: &u32) -> u32;
    }
    impl Wrapping for u32 {
        fn wrapping_add(&self, _: &u32) -> u32 {
            99
        }
    }

    trait Size {
        fn len(&self) -> usize;
        #[allow(clippy::wrong_self_convention, reason = "a trait of the program may have any")]
        fn is_some(self) -> bool;
    }
    impl<T: Copy> Size for T {
        fn len(&self) -> usize {
            1000
        }
        fn is_some(self) -> bool {
            false
        }
    }

    #[device]
    fn through(r: &u32) -> usize {
        r.wrapping_add(1) as usize
    }

    #[kernel]
    pub(super) fn references(one: u32, x: &[u32], out: &mut [u32]) {
        let r = &one;
        let some = Some(one);
        let n = (&r).wrapping_add(1) as usize + through(r) + [one; 3].len() + out.len();
        let n = n + some.is_some() as usize;
        assert!(x.len() == n);
        each(out, |i, out| {
            let array = [r; 2];
            let r = &array[1];
            let sum = r.wrapping_add(1) + r.rotate_left(1) + [one; 2].len() as u32;
            *out = sum + x.len() as u32 + array.len() as u32 + (r.max(7));
        });
    }

    #[device]
    fn last(x: [u32; 3]) -> u32 {
        debug_assert!(x.len() == 3);
        x[2]
    }

    #[kernel]
    pub(super) fn compute(out: &mut [u32]) {
        each(out, |i, out| {
            let x = [u32::MAX; 3];
            if i > 1 {
                println!("{i}");
            }
            *out = last(x).wrapping_add(i as u32 + 1);
        });
    }

    #[test]
    fn methods_of_traits_are_not_those_of_numbers() {
        assert_eq!((Size::len(&1), Size::is_some(1)), (1000, false));
        let out = both!(references(value 1, read [0; 9], write vec![0])).unwrap();
        assert_eq!(out, [2 + 2 + 2 + 9 + 2 + 7]);
        assert!(is_refused(references::cpu(1, &[0; 8], &mut [0])));
    }

    #[test]
    fn the_programs_names_change_nothing() {
        assert_eq!(Wrapping::wrapping_add(&1, &1), 99);
        assert_eq!(ToText::to_string(1u32), "\n#error injected\n");
        assert_eq!((format!(), file!(), cfg!()), ("\"\"\n#error injected\n".to_owned(), 0, 0));
        assert_eq!(both!(compute(write vec![0; 2])).unwrap(), [0, 1]);
    }
}

/// A module with the name of a primitive type.
mod f32 {
    pub(super) fn from_bits(_: u32) -> f32 {
        2.0
    }

    pub(super) fn cos(_: f32) -> f32 {
        2.0
    }
}

#[kernel]
fn functions_of_primitives(out: &mut [f32]) {
    let n = f32::from_bits(0x4040_0000) as usize;
    blocks(Threads::<32>, chunks(out, n), |block, mut out| {
        block.each(&mut out, |i, out| *out = f32::from_bits(0x3f80_0000) + f32::cos(0.0));
    });
}

#[test]
fn modules_named_as_primitives_change_nothing() {
    assert_eq!((f32::from_bits(0), f32::cos(0.0)), (2.0, 2.0));
    assert_eq!(both!(functions_of_primitives(write vec![0.0; 4])).unwrap(), [2.0; 4]);
}

#[kernel]
fn sizes_change_variables(a: &mut [u32], b: &mut [u32]) {
    let mut n = 4;
    blocks(
        Threads::<32>,
        (
            chunks(a, n),
            chunks(b, {
                n = 8;
                n
            }),
        ),
        |block, (mut a, mut b)| {
            let index = block.index() as u32;
            block.each(&mut a, |i, out| *out = 10 * index + i as u32);
            block.each(&mut b, |i, out| *out = 10 * index + i as u32);
        },
    );
}

#[test]
fn sizes_are_evaluated_in_order() {
    let (a, b) = both!(sizes_change_variables(write vec![0; 8], write vec![0; 16])).unwrap();
    let expected = |n| (0..2).flat_map(move |block| (0..n).map(move |i| 10 * block + i));
    assert_eq!(a, expected(4).collect::<Vec<u32>>());
    assert_eq!(b, expected(8).collect::<Vec<u32>>());
}

#[device]
fn three(x: &u32) -> u32 {
    *x + 3
}

#[kernel]
fn arguments_change_variables(a: u32, out: &mut [u32]) {
    each(out, |i, out| {
        let mut x = a;
        let most = (if i < 9 { x } else { 0 }).max({
            x = 5;
            2
        });
        *out = 100 * most + 10 * x + (x - 4).max(three(&x));
    });
}

#[test]
fn receivers_are_evaluated_before_arguments() {
    assert_eq!(both!(arguments_change_variables(value 7, write vec![0; 2])).unwrap(), [758; 2]);
}

/// Types with one path.
trait Has {
    type Of: device::Device;
}

struct Large;
struct Small;

const _: () = {
    #[derive(Clone, Copy, Device)]
    #[repr(C)]
    struct Point {
        at: [u32; 4],
    }

    impl Has for Large {
        type Of = Point;
    }
};

const _: () = {
    #[derive(Clone, Copy, Device)]
    #[repr(C)]
    struct Point {
        at: u32,
    }

    impl Has for Small {
        type Of = Point;
    }
};

#[kernel]
fn two_of_one_path(x: &[<Large as Has>::Of], y: &[<Small as Has>::Of], out: &mut [u32]) {
    each(out, |i, out| *out = (x.len() + y.len()) as u32);
}

#[kernel]
fn one_of_that_path(y: &[<Small as Has>::Of], out: &mut [u32]) {
    each(out, |i, out| *out = y.len() as u32);
}

#[test]
fn two_types_of_one_path_are_an_error() {
    let error = "#error two items of one kernel have the path";
    assert!(two_of_one_path::source().contains(error));
    assert!(!one_of_that_path::source().contains(error));
}

/// Items with the names of those of the prelude, and a trait with those of the library's.
#[allow(non_snake_case, non_upper_case_globals, reason = "names of the prelude")]
mod shadows {
    use super::*;

    fn Some(_: usize) -> Option<usize> {
        None
    }

    const None: Option<usize> = Option::Some(7);

    trait Convert {
        fn from_i64(value: i64) -> u32;
        fn to_i64(self) -> i64;
    }

    impl Convert for u32 {
        fn from_i64(_: i64) -> u32 {
            99
        }

        fn to_i64(self) -> i64 {
            99
        }
    }

    #[kernel]
    fn options(n: usize, x: &[u32], out: &mut [u32]) {
        let len = Some(n).unwrap_or(1);
        assert!(x.len() == len);
        each(out, |i, out| {
            let none: Option<usize> = None;
            let is_none = match none {
                None => 100,
                Some(_) => 0,
            };
            *out = x[i] + is_none + u32::from_i64(4) + 5u32.to_i64() as u32;
        });
    }

    #[test]
    fn names_of_the_prelude_are_those_of_rust() {
        assert_eq!((Some(1), u32::from_i64(4), 5u32.to_i64()), (None, 99, 99));
        let out = both!(options(value 2, read [20, 30], write vec![0; 2])).unwrap();
        assert_eq!(out, [129, 139]);
        assert!(is_refused(options::cpu(2, &[20], &mut [0; 2])));
    }
}

/// The method has no value of the type that it is generic over.
#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Sizes(u32);

#[device]
impl Sizes {
    fn size<T: device::Device>(self) -> u32 {
        self.0 * <[T; 1] as SizeOf>::BYTES
    }
}

trait SizeOf {
    const BYTES: u32;
}

impl<T> SizeOf for [T; 1] {
    const BYTES: u32 = size_of::<T>() as u32;
}

#[kernel]
fn sizes_of_one_path(out: &mut [u32]) {
    each(out, |i, out| {
        let sizes = Sizes(i as u32);
        *out = sizes.size::<<Large as Has>::Of>() + sizes.size::<<Small as Has>::Of>();
    });
}

#[test]
fn methods_of_types_of_one_path_are_an_error() {
    let error = "#error two items of one kernel have the path";
    assert!(sizes_of_one_path::source().contains(error));
}

/// A trait with a method of slices, for an array.
trait Ends {
    fn iter(&self) -> std::array::IntoIter<u32, 1>;
}

impl Ends for [u32; 4] {
    fn iter(&self) -> std::array::IntoIter<u32, 1> {
        [99].into_iter()
    }
}

#[kernel]
fn methods_of_arrays(at: usize, out: &mut [u32]) {
    each(out, |i, out| {
        let mut array = [1u32, 2, 3, 4];
        for x in array.iter_mut() {
            *x += i as u32;
        }
        let mut sum = 0;
        for x in array.iter() {
            sum += *x;
        }
        for x in array[1..3].iter() {
            sum += 100 * *x;
        }
        *out = sum + 10_000 * array[at];
    });
}

#[test]
fn methods_of_traits_are_not_those_of_arrays() {
    assert_eq!(Ends::iter(&[0; 4]).next(), Some(99));
    let out = both!(methods_of_arrays(value 3, write vec![0; 2])).unwrap();
    assert_eq!(out, [40_510, 50_714]);
    let (cpu, fault, _) = both!(methods_of_arrays(value 4, write vec![0; 1])).unwrap_err();
    assert_eq!(Some(cpu.to_string()), fault.map(|fault| fault.to_string()));
}

/// Constants with short names.
#[allow(non_upper_case_globals, reason = "as of a formula")]
mod short {
    use super::*;

    const t: u32 = 5;
    const types: u32 = 6;
    const name: u32 = 7;
    const n: usize = 3;

    #[derive(Clone, Copy, Device)]
    #[repr(C)]
    struct Point([u32; n]);

    #[device]
    impl Point {
        fn total(self, other: u32) -> u32 {
            self.0[0] + other + t
        }
    }

    #[device]
    fn named(p: Point) -> u32 {
        p.0[1] + name
    }

    #[kernel]
    fn constants(out: &mut [u32]) {
        let ok = name > types;
        assert_eq!(ok || t > 9, true);
        each(out, |i, out| {
            let (array, p) = ([types; n], Point([t; n]));
            *out = i as u32 + array[2] + 100 * named(p) + 10_000 * p.total(name);
        });
    }

    #[test]
    fn constants_have_any_names() {
        assert_eq!(both!(constants(write vec![0; 2])).unwrap(), [171_206, 171_207]);
    }
}

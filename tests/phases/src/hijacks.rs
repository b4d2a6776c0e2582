//! Traits of the program with methods that the expansions of the macros call, in scope of kernels: none is called.

use gpu_phases::blocks::Part;
use gpu_phases::text::Text;
use gpu_phases::{Block, Cpu, Device, Shared, device, kernel};

use crate::both;

/// By value, so that its methods would come before those of the library that take a reference.
#[allow(dead_code, reason = "a wrong expansion would call them")]
#[allow(clippy::wrong_self_convention, reason = "the names are those of the library's methods")]
trait OfAll: Sized {
    fn name(self, _: usize, _: &mut Text) -> String {
        "the program's".to_owned()
    }
    fn function(self, _: usize, _: &str, _: usize, _: &mut Text) -> String {
        "the program's".to_owned()
    }
    fn kernel_number(self) -> String {
        "the program's".to_owned()
    }
    fn reference(self, _: &mut Text) -> String {
        "the program's".to_owned()
    }
    fn as_deref(self) -> Option<&'static str> {
        Some("the program's")
    }
    fn count(self) -> Option<u64> {
        Some(0)
    }
    fn as_slice(self) -> EqualToAll {
        EqualToAll
    }
}

impl<T> OfAll for T {}

struct EqualToAll;

impl PartialEq<EqualToAll> for &[u8] {
    fn eq(&self, _: &EqualToAll) -> bool {
        true
    }
}

#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Number(u32);

#[device(references)]
impl std::ops::Add for Number {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

#[device]
fn value(number: &Number) -> u32 {
    number.0
}

#[derive(Clone, Copy, PartialEq, Device)]
#[repr(u8)]
enum Side {
    Left,
    Right,
}

#[kernel]
fn one_literal(out: &mut [f32]) {
    each(out, |_, out| *out = 1.5);
}

#[kernel]
fn one_call(x: &[u32], out: &mut [u32]) {
    each(out, |i, out| *out = value(&Number(x[i])));
}

#[kernel]
fn references(x: &[u32], out: &mut [u32]) {
    each(out, |i, out| {
        let (a, b) = (Number(x[i]), Number(2));
        *out = (&a + &b).0 + value(&b);
    });
}

#[kernel]
fn one_function(x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].exp());
}

#[kernel]
fn one_line(out: &mut [u32]) {
    each(out, |i, out| {
        println!("{i}");
        *out = i as u32;
    });
}

#[test]
fn cpp_is_the_librarys() {
    assert_eq!(OfAll::kernel_number(()), "the program's");
    let sources = [
        one_literal::source(),
        one_call::source(),
        references::source(),
        one_function::source(),
        one_line::source(),
    ];
    for source in sources {
        assert!(!source.contains("the program's"), "{source}");
    }
    assert_eq!(both!(one_literal(write vec![0.0; 3])).unwrap(), [1.5; 3]);
    assert_eq!(both!(one_call(read [3, 4], write vec![0; 2])).unwrap(), [3, 4]);
    assert_eq!(both!(references(read [3, 4], write vec![0; 2])).unwrap(), [7, 8]);
    assert_eq!(both!(one_function(read [0.0], write vec![0.0; 1])).unwrap(), [1.0]);
}

#[test]
fn launches_are_not_left_out() {
    let mut out = [0.0; 2];
    one_literal::launch(Cpu, &mut out).unwrap();
    assert_eq!(out, [1.5; 2]);
}

#[test]
fn other_bytes_are_no_variant() {
    let valid = <Side as device::Device>::is_valid;
    let sides = [Side::Left as u8, Side::Right as u8, 2];
    assert_eq!(sides.map(|side| valid(&[side])), [true, true, false]);
}

/// The lengths of other arrays than these.
trait Len {
    fn len(&self) -> usize;
}

impl Len for [u32; 4] {
    fn len(&self) -> usize {
        2
    }
}

impl Len for Shared<[u32; 4]> {
    fn len(&self) -> usize {
        2
    }
}

#[kernel]
fn elements(at: usize, out: &mut [u32]) {
    each(out, |_, out| {
        let array = [1u32, 2, 3, 4];
        *out = array[at];
    });
}

#[test]
fn arrays_have_their_own_lengths() {
    assert_eq!((Len::len(&[0u32; 4]), elements::cpu(4, &mut [0]).is_err()), (2, true));
    assert_eq!(both!(elements(value 3, write vec![0; 2])).unwrap(), [4; 2]);
    let (cpu, fault, _) = both!(elements(value 4, write vec![0; 1])).unwrap_err();
    assert_eq!(Some(cpu.to_string()), fault.map(|fault| fault.to_string()));
}

/// Through `&mut`, so that it would come before what takes `&self`.
#[allow(dead_code, reason = "a wrong expansion would call them")]
trait OfBlocks {
    fn index(&mut self) -> usize;
    fn threads(&mut self) -> usize;
}

impl<const N: usize, const M: usize> OfBlocks for Block<N, M> {
    fn index(&mut self) -> usize {
        9
    }
    fn threads(&mut self) -> usize {
        9
    }
}

/// By value.
#[allow(dead_code, reason = "a wrong expansion would call them")]
trait OfParts: Sized {
    fn start(self) -> usize {
        9
    }
    fn split_at_mut(self, _: usize) -> (Self, ()) {
        (self, ())
    }
    fn rows(self, _: usize) -> Self {
        self
    }
}

impl OfParts for Part<'_, u32> {}
impl OfParts for Shared<[u32; 4]> {}

#[kernel]
fn numbers(starts: &mut [u32], out: &mut [u32]) {
    blocks(Threads::<32>, (starts, chunks(out, 4)), |block, (start, part)| {
        let mut tile = block.shared([0u32; 4]);
        block.each(tile.rows(2), |i, row| row[1] = i as u32 + 1);
        let number = block.index() + 100 * block.threads() + tile[1] as usize + tile[3] as usize;
        let (low, _) = tile.split_at_mut(1);
        block.each(low, |_, t| *t = number as u32);
        start.set(tile[0] + 10_000 * part.start() as u32);
    });
}

/// Exchanges nothing.
fn swap<T>(_: &mut T, _: &mut T) {}

#[kernel]
fn exchanges(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let mut a = block.shared([1u32; 4]);
        let mut b = block.shared([2u32; 4]);
        swap(&mut a, &mut b);
        out.set(10 * a[0] + b[0]);
    });
}

#[test]
fn methods_of_blocks_are_the_librarys() {
    let out = both!(numbers(write vec![0; 2], write vec![0; 8])).unwrap();
    assert_eq!(out.0, [3_203, 43_204]);
    assert_eq!(both!(exchanges(write vec![0; 1])).unwrap(), [21]);
}

mod without_a_prelude {
    #![no_implicit_prelude]

    use ::cuda_safe::kernel::kernel;

    /// Has the methods of iterators. Their own trait is not in scope.
    #[allow(dead_code, reason = "a wrong expansion would call them")]
    pub(super) trait Iterator: ::std::marker::Sized {
        fn rev(self) -> ::std::ops::Range<usize> {
            0..1
        }
        fn step_by(self, _: usize) -> ::std::ops::Range<usize> {
            0..1
        }
    }

    impl Iterator for ::std::ops::Range<usize> {}

    #[kernel]
    pub(super) fn digits(x: &[u32], out: &mut [u32]) {
        let end = {
            let mut end = 0;
            for i in (0..5).rev() {
                end = end * 10 + i;
            }
            for i in (0..5).step_by(2) {
                end = end * 10 + i;
            }
            end
        };
        assert!(x.len() == 1);
        each(out, |i, out| *out = x[0] + (end + i) as u32);
    }
}

#[test]
fn iterators_are_those_of_rust() {
    use without_a_prelude::{Iterator, digits};

    assert_eq!(Iterator::rev(0..5), 0..1);
    assert_eq!(both!(digits(read [1], write vec![0; 1])).unwrap(), [43_210_025]);
}

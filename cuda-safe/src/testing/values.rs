//! Random values of the types that kernels take.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use bytemuck::{AnyBitPattern, NoUninit};

use super::random::Random;

/// How values of a type are made. Only this module makes it: safe code can't claim that any bytes are a value.
#[derive(Debug)]
pub struct How<T>(Way<T>);

#[derive(Debug)]
enum Way<T> {
    /// From any bytes.
    Bytes(fn(&[u8]) -> T),
    /// Not at all: memory of them is not written yet.
    Unwritten,
    /// By a function that the test must supply, unless it is a number.
    Unknown,
}

/// Stands for the type `T`: `(&Values::<T>::new()).how()`.
#[derive(Debug)]
pub struct Values<T>(PhantomData<fn() -> T>);

impl<T> Values<T> {
    /// Returns the value that stands for the type.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "generated code calls it")]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Values<MaybeUninit<T>> {
    /// Returns that there is nothing to make.
    #[must_use]
    pub fn how(&self) -> How<MaybeUninit<T>> {
        How(Way::Unwritten)
    }
}

/// Types that have a value for any bytes.
pub trait OfBytes<T> {
    /// Returns how values are made.
    fn how(&self) -> How<T>;
}

impl<T: AnyBitPattern> OfBytes<T> for Values<T> {
    fn how(&self) -> How<T> {
        How(Way::Bytes(|bytes| bytemuck::pod_read_unaligned(bytes)))
    }
}

/// Everything else.
pub trait OfOthers<T> {
    /// Returns how values are made.
    fn how(&self) -> How<T>;
}

impl<T> OfOthers<T> for &Values<T> {
    fn how(&self) -> How<T> {
        How(Way::Unknown)
    }
}

type Make = Box<dyn Fn(&mut Random) -> Box<dyn Any> + Send + Sync>;
type Fill = Box<dyn Fn(&mut Random, usize) -> Vec<u8> + Send + Sync>;

/// The functions that a test has supplied.
#[derive(Default)]
pub(super) struct Generators {
    values: HashMap<TypeId, Make>,
    elements: HashMap<TypeId, Fill>,
}

impl fmt::Debug for Generators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generators").finish_non_exhaustive()
    }
}

/// There is no function for a type.
#[derive(Debug)]
pub(super) struct NoValues(pub(super) &'static str);

impl Generators {
    pub(super) fn set_values<T: 'static>(
        &mut self,
        make: impl Fn(&mut Random) -> T + Send + Sync + 'static,
    ) {
        let make = move |random: &mut Random| -> Box<dyn Any> { Box::new(make(random)) };
        self.values.insert(TypeId::of::<T>(), Box::new(make));
    }

    pub(super) fn set_elements<T: NoUninit>(
        &mut self,
        make: impl Fn(&mut Random) -> T + Send + Sync + 'static,
    ) {
        let fill = move |random: &mut Random, len: usize| {
            (0..len).flat_map(|_| bytemuck::bytes_of(&make(random)).to_vec()).collect()
        };
        self.elements.insert(TypeId::of::<T>(), Box::new(fill));
    }

    /// Returns a random value.
    pub(super) fn value<T: 'static>(
        &self,
        how: &How<T>,
        random: &mut Random,
    ) -> Result<T, NoValues> {
        if let Some(make) = self.values.get(&TypeId::of::<T>())
            && let Ok(value) = make(random).downcast::<T>()
        {
            return Ok(*value);
        }
        match &how.0 {
            Way::Bytes(read) => Ok(read(&bytes(TypeId::of::<T>(), size_of::<T>(), 1, random))),
            Way::Unwritten | Way::Unknown => number(random).ok_or(NoValues(type_name::<T>())),
        }
    }

    /// Returns the bytes of `len` random elements; `None` where memory is not written yet.
    pub(super) fn elements<T: 'static>(
        &self,
        how: &How<T>,
        len: usize,
        random: &mut Random,
    ) -> Result<Option<Vec<u8>>, NoValues> {
        let id = TypeId::of::<T>();
        if let Some(fill) = self.elements.get(&id) {
            return Ok(Some(fill(random, len)));
        }
        match &how.0 {
            Way::Unwritten => Ok(None),
            Way::Bytes(_) => Ok(Some(bytes(id, size_of::<T>(), len, random))),
            // Generic code does not know statically whether a type is a number.
            Way::Unknown if is_number(id) => Ok(Some(bytes(id, size_of::<T>(), len, random))),
            Way::Unknown if id == TypeId::of::<bool>() => {
                Ok(Some((0..len).map(|_| (random.bits() & 1) as u8).collect()))
            }
            Way::Unknown => Err(NoValues(type_name::<T>())),
        }
    }
}

macro_rules! numbers {
    ($($number:ident)+) => {
        fn is_number(id: TypeId) -> bool {
            [$(TypeId::of::<$number>()),+].contains(&id)
        }

        /// Returns a random `T`, if that is a number or a `bool`.
        fn number<T: 'static>(random: &mut Random) -> Option<T> {
            let id = TypeId::of::<T>();
            let boxed: Box<dyn Any> = if id == TypeId::of::<bool>() {
                Box::new(random.bits() & 1 == 1)
            } $(else if id == TypeId::of::<$number>() {
                let bytes = bytes(id, size_of::<$number>(), 1, random);
                Box::new(bytemuck::pod_read_unaligned::<$number>(&bytes))
            })+ else {
                return None;
            };
            boxed.downcast().ok().map(|value| *value)
        }
    };
}

numbers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64);

/// Returns the bytes of `len` elements of `size` bytes. Elements of one call are of one kind: small numbers, zeros, floats
/// with a few special ones, or random bits.
fn bytes(id: TypeId, size: usize, len: usize, random: &mut Random) -> Vec<u8> {
    let total = size.saturating_mul(len);
    let mut out = Vec::with_capacity(total.saturating_add(8));
    let kind = random.below(8);
    let (singles, doubles) = (id == TypeId::of::<f32>(), id == TypeId::of::<f64>());
    while out.len() < total {
        let special = random.once_in(64);
        let float = match random.below(6) {
            0 if special => f64::NAN,
            1 if special => f64::INFINITY,
            2 if special => -1e300,
            _ if kind == 0 => 0.0,
            _ => random.float() * if kind < 4 { 1.0 } else { 100.0 },
        };
        match kind {
            1 => out.extend(random.bits().to_ne_bytes()),
            _ if singles => out.extend((float as f32).to_ne_bytes()),
            _ if doubles => out.extend(float.to_ne_bytes()),
            0 => out.push(0),
            // A structure may have floats.
            2 | 3 if size >= 4 => out.extend((float as f32).to_ne_bytes()),
            _ => {
                let width = if size.is_multiple_of(8) && kind > 5 { 8 } else { size.clamp(1, 4) };
                let small = random.scaled(100).to_le_bytes();
                out.extend(small.iter().take(width));
            }
        }
    }
    out.truncate(total);
    out
}

#[cfg(test)]
#[allow(clippy::needless_borrow, reason = "the fallback is found by the reference")]
mod tests {
    use super::*;

    fn in_generic_code<T: Copy + 'static>(random: &mut Random) -> Option<Option<Vec<u8>>> {
        Generators::default().elements::<T>(&(&Values::<T>::new()).how(), 5, random).ok()
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Opaque(u16);

    #[test]
    fn values_are_made_for_plain_types_and_for_those_of_the_test() {
        let mut random = Random::new(7);
        let mut all = Generators::default();
        let uninit = (&Values::<MaybeUninit<f32>>::new()).how();
        assert!(all.elements(&uninit, 4, &mut random).is_ok_and(|bytes| bytes.is_none()));
        let floats = (&Values::<[f32; 3]>::new()).how();
        let made = all.elements(&floats, 4, &mut random);
        assert!(made.is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes.len() == 48)));
        assert!(all.value(&(&Values::<[f32; 3]>::new()).how(), &mut random).is_ok());
        assert!(all.value(&(&Values::<bool>::new()).how(), &mut random).is_ok());
        let opaque = || (&Values::<Opaque>::new()).how();
        let refused = all.value(&opaque(), &mut random);
        assert!(refused.is_err_and(|NoValues(name)| name.ends_with("Opaque")));
        all.set_values(|random| Opaque(random.below(3) as u16));
        assert!(all.value(&opaque(), &mut random).is_ok_and(|value| value.0 < 3));
        assert!(all.elements(&opaque(), 1, &mut random).is_err());
        all.set_elements(|_| 9_u16);
        let made = all.elements(&(&Values::<u16>::new()).how(), 2, &mut random);
        assert!(made.is_ok_and(|bytes| bytes == Some([9_u16.to_ne_bytes(); 2].concat())));
        for bytes in [in_generic_code::<f64>(&mut random), in_generic_code::<usize>(&mut random)] {
            assert_eq!(bytes.flatten().map(|bytes| bytes.len()), Some(40));
        }
        let bools = in_generic_code::<bool>(&mut random).flatten().unwrap_or_default();
        assert!(bools.len() == 5 && bools.iter().all(|byte| *byte < 2));
        assert!(in_generic_code::<Opaque>(&mut random).is_none());
    }
}

//! What `kernels!` makes does not depend on the names that are in scope.

#![allow(
    dead_code,
    deprecated,
    non_camel_case_types,
    unreachable_pub,
    unused_imports,
    unused_macros,
    unused_qualifications,
    clippy::empty_loop,
    reason = "names are declared to be in the way"
)]

/// Everything that the macro's code uses, under names that mean something else here.
mod names {
    pub struct Result;
    pub struct Option;
    pub struct Some;
    pub struct None;
    pub struct Ok;
    pub struct Err;
    pub struct Self_;
    pub type i128 = ();
    pub type i32 = bool;
    pub type u32 = &'static str;
    pub type u64 = f32;
    pub type f32 = std::primitive::u8;
    pub type usize = char;
    pub type bool = ();
    pub type str = ();
    pub trait Clone {}
    pub trait Debug {}
    pub trait Into {}
}

mod core {}
mod std {}
mod cuda_safe {}

macro_rules! concat {
    ($($any:tt)*) => {
        0
    };
}
macro_rules! stringify {
    ($($any:tt)*) => {
        0
    };
}
macro_rules! compile_error {
    ($($any:tt)*) => {
        0
    };
}

/// Methods of these names on everything, which methods called with a dot could mean.
trait Everywhere: Sized {
    fn len(&self) -> ::core::primitive::usize {
        ::core::primitive::usize::MAX
    }
    fn clone(&self) -> ! {
        loop {}
    }
    fn into(self) -> ! {
        loop {}
    }
    fn into_launch_config(self) -> ! {
        loop {}
    }
    fn read_view(self) -> ! {
        loop {}
    }
    fn write_view(self) -> ! {
        loop {}
    }
    fn kernel(&self) -> ! {
        loop {}
    }
    fn launch(&self) -> ! {
        loop {}
    }
    fn load(&self) -> ! {
        loop {}
    }
    fn from_module(_: &::cuda_safe::Module) -> ::cuda_safe::Result<Self> {
        loop {}
    }
}
impl<T> Everywhere for T {}

use names::*;

::cuda_safe::kernels! {
    pub(crate) struct Shadowed;
    // SAFETY: never loaded, so no kernel ever runs.
    unsafe in "" {
        safe fn up(n: u64, x: &mut [f32], y: &[u32])
            where n <= x.len(), 2 * n + 1 <= y.len(), -1 < n, block.x * grid.x >= n;
        safe fn values(a: f32, b: bool, c: usize, d: [u32; 2]);
        safe fn derived(value: &mut [f32], values: i32 = value.len(), clause: u64 = 2 * values)
            over clause where values >= 0;
    }
}

::cuda_safe::kernels! {
    #[name = "{}_{T}"]
    pub(crate) struct Instances<T: Bound in [f32, f64 = "f64"]>;
    // SAFETY: never loaded, so no kernel ever runs.
    unsafe in "" {
        #[name = "{T}_{index}"]
        safe fn kernel<index in [u32, i32]>(instance: &[T], instance_0: index)
            where instance.len() == 1;
    }
}

/// A bound whose functions have names that the generated code uses.
trait Bound: ::core::marker::Copy {
    fn of() -> ! {
        loop {}
    }
    fn kernel() -> ! {
        loop {}
    }
}
impl Bound for ::core::primitive::f32 {}
impl Bound for ::core::primitive::f64 {}

/// A container of the user's with lengths of its own.
struct Liar(::cuda_safe::DeviceBuffer<::core::primitive::f32>);

impl Liar {
    fn len(&self) -> ::core::primitive::usize {
        ::core::primitive::usize::MAX
    }
}

impl<'a> ::cuda_safe::WriteView<'a, ::core::primitive::f32> for &'a mut Liar {
    fn write_view(self) -> ::cuda_safe::DeviceSliceMut<'a, ::core::primitive::f32> {
        ::cuda_safe::WriteView::write_view(&mut self.0)
    }
}

fn means_the_primitives(
    kernels: &Shadowed,
    stream: &::cuda_safe::Stream,
    x: &mut Liar,
    y: &::cuda_safe::DeviceBuffer<::core::primitive::u32>,
) -> ::cuda_safe::Result<()> {
    let launch = ::cuda_safe::LaunchConfig::cover(16, 32);
    kernels.derived(stream, &mut *x)?;
    kernels.up(stream, launch, 16_u64, x, y)?;
    kernels.values(stream, launch, 1.0_f32, true, 1_usize, [1_u32, 2])
}

/// Two structs of one name, in functions, with all kinds of visibility.
fn in_a_function(context: &::cuda_safe::Context) -> ::cuda_safe::Result<()> {
    ::cuda_safe::kernels! {
        #[derive(Debug)]
        struct Inner;
        // SAFETY: as above.
        unsafe in "" {
            pub(self) safe fn module_of(n: u64);
            safe fn kernel();
        }
    }
    let inner = Inner::load(context)?;
    // What was loaded under one promise is as good as another.
    let mut twice = ::core::clone::Clone::clone(&inner);
    twice.module_of = inner.module_of;
    twice.kernel = inner.kernel;
    ::core::result::Result::Ok(())
}

#[test]
fn what_the_macro_makes_has_no_names_of_the_scope() {
    let _ = (means_the_primitives, in_a_function, Instances::<::core::primitive::f64>::load);
}

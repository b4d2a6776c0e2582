mod a_float_by_the_name_of_an_integer {
    //! Calls `f32` `u64` beside a declaration, so that a kernel would write 8 bytes to each element of 4.
    //!
    //! - row: a declaration means the same whatever names are in scope
    //! - targets: `kernels!`, `LaunchConfig::cover`

    use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

    #[allow(non_camel_case_types, dead_code)]
    type u64 = f32;

    kernels! {
        pub struct Checked;
        unsafe in "" {
            safe fn up(n: u32, x: &mut [u64]) where n <= x.len();
        }
    }

    pub fn attack(kernels: &Checked, stream: &Stream, x: &mut DeviceBuffer<f32>) -> Result<()> {
        let launch = LaunchConfig::cover(32, 32);
        kernels.up(stream, launch, 16, x)?; //~ refused
        stream.synchronize()
    }
}

mod another_kernel_in_its_place {
    //! Puts a kernel into a struct of `kernels!`, so that it is launched under the promise of another.
    //!
    //! - row: safe code puts no other kernel behind a method
    //! - row: `from_module` of `kernels!`
    //! - targets: `kernels!`, `Kernel::name`

    use cuda_safe::{Kernel, kernels};

    kernels! {
        pub struct Checked;
        unsafe in "" {
            safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
        }
    }

    pub fn attack(kernels: &mut Checked, evil: Kernel) -> &'static str {
        let name = evil.name();
        kernels.fill = evil; //~ refused
        let _ = kernels;
        name
    }
}

mod arguments_by_hand {
    //! Implements what an argument of a kernel is, with any address in it.
    //!
    //! - row: `DeviceRepr`
    //! - targets: `Kernel::name`

    use cuda_safe::{DeviceRepr, Kernel};

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Wild(pub u64);

    impl DeviceRepr for Wild {} //~ refused

    pub fn attack(kernel: &Kernel) -> &'static str {
        fn is_argument<T: DeviceRepr>() {}
        is_argument::<u64>();
        kernel.name()
    }
}

mod arguments_that_are_none {
    //! Passes references of the host, buffers of other elements, and what a visitor was shown, to kernels.
    //!
    //! - row: `KernelArg`
    //! - row: `KernelArgs`
    //! - row: arguments have the number, sizes, classes
    //! - targets: `InspectArgs::each`, `kernels!`

    use cuda_safe::{DeviceBuffer, KernelArg, Result, Stream, kernels, arg::{ArgVisitor, InspectArgs, KernelArgs}};

    kernels! {
        pub struct Kernels;
        unsafe in "" {
            safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
        }
    }

    pub struct Visits;

    impl ArgVisitor for Visits {
        fn visit<A: KernelArg>(&mut self, _: usize, _: &A) -> Result<()> {
            Ok(())
        }
    }

    pub fn attack(k: &Kernels, stream: &Stream, mut x: DeviceBuffer<u32>, mut host: Vec<u32>) -> Result<()> {
        fn are_arguments<T: KernelArgs>(_: T) {}
        are_arguments((&mut host,)); //~ refused
        are_arguments((&host[0],)); //~ refused
        are_arguments(("text", 1u8)); //~ refused
        k.fill(stream, (1, 32), &mut host, 1)?; //~ refused
        host.clear();
        are_arguments((&x, 1u32));
        (&mut x, 4u32).each(&mut Visits)
    }
}

mod arguments_that_call_the_crate {
    //! Implements an argument whose `abi` and `uses` call the crate, which holds locks then.
    //!
    //! - row: the closures of `Stream::enqueue`
    //! - row: `KernelArg`
    //! - targets: `Stream::synchronize`

    use cuda_safe::{KernelArg, Result, Stream, arg::{ArgType, UseVisitor}};

    pub struct Reenters(pub Stream);

    impl KernelArg for Reenters { //~ refused
        type Abi = u64;
        const TYPE: ArgType = ArgType::value::<u64>();
        fn abi(&self) -> u64 {
            u64::from(self.0.synchronize().is_ok())
        }
        fn uses<V: UseVisitor>(&self, _: &mut V) -> Result<()> {
            self.0.synchronize()
        }
    }

    pub fn attack<A: KernelArg>(argument: &A, asks: &mut impl UseVisitor, own: &Stream) -> Result<ArgType> {
        argument.uses(asks)?;
        own.synchronize()?;
        Ok(A::TYPE)
    }
}

mod calls_within_a_group {
    //! Uses the crate in the closure of `EnqueueGroup::run`, which runs with its locks held.
    //!
    //! - row: the closures of `Stream::enqueue`
    //! - row: `EnqueueGroup::run`
    //! - targets: `EnqueueGroup::new`, `EnqueueGroup::stream`, `EnqueueGroup::write`

    use cuda_safe::{DeviceBuffer, EnqueueGroup, Result, Stream};

    pub fn attack(
        streams: [&Stream; 2],
        x: &mut DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        let mut group = EnqueueGroup::new();
        group.stream(streams[0]).write(streams[1], &mut *x);
        let _ = group.run(|| y.fill(streams[0], 1.0)); //~ refused
        x.fill(streams[1], 2.0)
    }
}

mod calls_within_an_enqueue {
    //! Uses the crate in the closure of `Stream::enqueue`, which runs with its locks held.
    //!
    //! - row: the closures of `Stream::enqueue`
    //! - row: `Stream::enqueue`
    //! - targets: `Stream::enqueue`, `DeviceBuffer::fill`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> Result<()> {
        let _ = stream.enqueue((&mut *x,), |_| y.fill(stream, 1.0)); //~ refused
        x.fill(stream, 2.0)
    }
}

mod constants_of_other_types {
    //! Compares with constants and fields that are no integers, which a cast would round.
    //!
    //! - row: a clause reads the value that the kernel gets
    //! - targets: `kernels!`

    use cuda_safe::kernels;
    use cuda_safe::vector::Float2;

    pub const HALF: f32 = 0.5;
    pub const YES: bool = true;
    pub const WIDE: u128 = u128::MAX;

    kernels! { pub struct A; unsafe in "" { safe fn f(x: &mut [u32]) where HALF <= x.len(); } } //~ refused
    kernels! { pub struct B; unsafe in "" { safe fn f(x: &mut [u32]) where YES <= x.len(); } } //~ refused
    kernels! { pub struct C; unsafe in "" { safe fn f(x: &mut [u32]) where WIDE <= x.len(); } } //~ refused
    kernels! { pub struct D; unsafe in "" { safe fn f(x: &mut [u32], v: Float2) where v.x <= x.len(); } } //~ refused

    kernels! {
        pub struct Right;
        unsafe in "" {
            safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
        }
    }
}

mod instances_of_a_subtype {
    //! Takes the kernels of the instance for a subtype for those of the instance for its supertype.
    //!
    //! - row: safe code puts no other kernel behind a method
    //! - row: a method of a template launches the instance of its type
    //! - targets: `kernels!`

    #![allow(coherence_leak_check)]

    use cuda_safe::{DeviceRepr, kernels};

    pub trait Kind: 'static {
        type Element: DeviceRepr;
    }
    type General = for<'a> fn(&'a u8);
    type Special = fn(&'static u8);
    impl Kind for General {
        type Element = f32;
    }
    impl Kind for Special {
        type Element = f64;
    }

    kernels! {
        #[name = "{}_{T}"]
        pub struct Fill<T: Kind in [for<'a> fn(&'a u8) = "f32", fn(&'static u8) = "f64"]>;
        unsafe in "" {
            safe fn fill(x: &mut [T::Element], n: usize = x.len()) over n;
        }
    }

    pub fn attack(special: &mut Fill<Special>, general: Fill<General>) {
        *special = general; //~ refused
        let _ = special;
    }
}

mod instances_of_a_supertype {
    //! Takes the kernels of the instance for a supertype for those of the instance for its subtype.
    //!
    //! - row: safe code puts no other kernel behind a method
    //! - row: a method of a template launches the instance of its type
    //! - targets: `kernels!`

    #![allow(coherence_leak_check)]

    use cuda_safe::{DeviceRepr, kernels};

    pub trait Kind: 'static {
        type Element: DeviceRepr;
    }
    type General = for<'a> fn(&'a u8);
    type Special = fn(&'static u8);
    impl Kind for General {
        type Element = f32;
    }
    impl Kind for Special {
        type Element = f64;
    }

    kernels! {
        #[name = "{}_{T}"]
        pub struct Fill<T: Kind in [for<'a> fn(&'a u8) = "f32", fn(&'static u8) = "f64"]>;
        unsafe in "" {
            safe fn fill(x: &mut [T::Element], n: usize = x.len()) over n;
        }
    }

    pub fn attack(general: &mut Fill<General>, special: Fill<Special>) {
        *general = special; //~ refused
        let _ = general;
    }
}

mod launch_that_overlaps {
    //! Says of a launch by its fields, without a promise, that it may overlap with the one before.
    //!
    //! - row: a programmatic launch is the caller
    //! - row: `LaunchConfig::programmatic`
    //! - targets: `LaunchConfig::is_programmatic`, `LaunchConfig::dynamic_shared_bytes`

    use cuda_safe::LaunchConfig;

    pub fn attack(launch: LaunchConfig) -> bool {
        let mut launch = launch.dynamic_shared_bytes(4);
        launch.programmatic = true; //~ refused
        launch.priority = Some(1);
        launch.is_programmatic()
    }
}

mod launched_without_unsafe {
    //! Launches foreign code, and says of a kernel that it may overlap with the one before.
    //!
    //! - row: `Kernel::launch`, `launch!`
    //! - row: `LaunchConfig::programmatic`
    //! - row: a programmatic launch is the caller's
    //! - targets: `Kernel::launch`, `LaunchConfig::programmatic`, `launch!`

    use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Stream, launch};

    pub fn attack(kernel: Kernel, stream: Stream, x: &mut DeviceBuffer<f32>) {
        let _ = kernel.launch(&stream, LaunchConfig::cover(8, 128), (&mut *x, 8u64)); //~ refused
        let _ = LaunchConfig::cover(8, 128).programmatic(); //~ refused
        let _ = launch!(kernel<<<1, 128, 0, stream>>>(&mut *x, 8u64)); //~ refused
    }
}

mod one_buffer_twice {
    //! Passes a buffer to a safe kernel to read and to write at once, and twice to write.
    //!
    //! - row: a view does not outlive its buffer, and no two views
    //! - row: launching foreign code is unsafe
    //! - targets: `kernels!`, `DeviceBuffer::slice_mut`

    use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

    kernels! {
        pub struct Kernels;
        unsafe in "" {
            safe fn swap(x: &mut [u32], y: &mut [u32]) where 1 <= x.len(), 1 <= y.len();
        }
    }

    pub fn attack(k: &Kernels, stream: &Stream, mut x: DeviceBuffer<u32>, y: &mut DeviceBuffer<u32>) -> Result<()> {
        let launch = LaunchConfig::cover(32, 32);
        k.swap(stream, launch, &mut x, &mut x)?; //~ refused
        k.swap(stream, launch, x.slice_mut(..8)?, x.slice_mut(8..)?)?; //~ refused
        k.swap(stream, launch, &mut x, y)
    }
}

mod one_buffer_twice_in_a_group {
    //! Gives a group a buffer to write on one stream and to read on another.
    //!
    //! - row: `EnqueueGroup::run`
    //! - targets: `EnqueueGroup::read`, `EnqueueGroup::write`

    use cuda_safe::{DeviceBuffer, EnqueueGroup, Stream};

    pub fn attack(streams: [&Stream; 2], x: &mut DeviceBuffer<f32>) {
        let mut group = EnqueueGroup::new();
        group.write(streams[0], &mut *x);
        group.read(streams[1], &*x); //~ refused
        drop(group);
    }
}

mod unsafe_methods_of_declarations {
    //! Calls an `unsafe fn` of `kernels!`, and makes its struct of any module and of any source.
    //!
    //! - row: an `unsafe fn` of `kernels!`
    //! - row: `from_module` of `kernels!`
    //! - row: `load_from` of `kernels!`
    //! - targets: `kernels!`, `LaunchConfig::cover`

    use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Result, Stream, kernels};

    kernels! {
        pub struct Checked;
        unsafe in "" {
            unsafe fn fill(x: &mut [u32], n: u32);
        }
    }

    pub fn attack(k: &Checked, module: &Module, stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<()> {
        k.fill(stream, LaunchConfig::cover(32, 32), &mut *x, 99)?; //~ refused
        let _ = Checked::from_module(module); //~ refused
        let _ = Checked::load_from(&module.context(), ""); //~ refused
        stream.synchronize()
    }
}

mod views_of_a_global {
    //! Asks a global for views, of which there could be two by two handles.
    //!
    //! - row: a global gives out no views
    //! - targets: `Module::global`, `Global::len`

    use cuda_safe::{Module, Result, Stream};

    pub fn attack(stream: &Stream, module: &Module) -> Result<usize> {
        let mut global = module.global::<f32>(stream, "weights")?;
        let _ = global.as_slice_mut(); //~ refused
        global.write(stream, &[1.0])?;
        Ok(global.len())
    }
}

fn main() {}

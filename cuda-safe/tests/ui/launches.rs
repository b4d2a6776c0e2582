mod launch_arguments {
    //! What is no kernel argument: host memory, and structures that nobody vouches for.

    use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Stream};

    #[derive(Clone, Copy)]
    struct Params {
        gravity: f32,
    }

    fn host_slice(kernel: &Kernel, stream: &Stream, x: &[f32]) {
        // SAFETY: does not compile.
        let _ = unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (x,)) };
    }

    fn structure(kernel: &Kernel, stream: &Stream) {
        // SAFETY: does not compile.
        let _ =
            unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (Params { gravity: 9.8 },)) };
    }

    fn owned_buffer(kernel: &Kernel, stream: &Stream, x: DeviceBuffer<f32>) {
        // SAFETY: does not compile.
        let _ = unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (x,)) };
    }
}

mod launch_without_unsafe {
    //! A kernel is foreign code: launching one is unsafe, however it is spelled.

    use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Stream, launch};

    fn method(kernel: &Kernel, stream: &Stream, out: &mut DeviceBuffer<f32>) {
        let _ = kernel.launch(stream, LaunchConfig::cover(8, 128), (out, 8u64));
    }

    fn spelled_as_in_cuda(kernel: Kernel, stream: Stream, out: &mut DeviceBuffer<f32>) {
        let _ = launch!(kernel<<<1, 128, 0, stream>>>(out, 8u64));
    }

    fn raw_memory(stream: &Stream) {
        let _ = DeviceBuffer::<f32>::from_raw(stream, 0x1000, 8, None);
    }

    fn early() -> LaunchConfig {
        LaunchConfig::cover(8, 128).programmatic()
    }
}

mod load_from_without_unsafe {
    //! Loading a library runs its constructors: naming one by its path is unsafe, for the driver and for NVRTC.

    use cuda_safe::Driver;
    use cuda_safe::nvrtc::Nvrtc;

    fn driver() {
        let _ = Driver::load_from("libasan.so.8");
    }

    fn compiler() {
        let _ = Nvrtc::at("libasan.so.8");
        let _ = Nvrtc::load_from("libasan.so.8");
    }
}

mod kernels_load_from {
    //! Another source than the declared one keeps a promise only if somebody says so.

    use cuda_safe::{Context, Result, kernels};

    kernels! {
        struct Kernels;
        // SAFETY: never loaded.
        unsafe in "" {
            safe fn none();
        }
    }

    fn without_unsafe(context: &Context) -> Result<Kernels> {
        Kernels::load_from(context, "")
    }
}

mod kernels_calls {
    //! What the generated methods do not take: shared memory twice, other elements, no `unsafe`.

    use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Stream, kernels};

    const SOURCE: &str = "";

    kernels! {
        unsafe in SOURCE {
            safe fn copy(x: &[f32], out: &mut [f32], n: u64) where n <= x.len(), n <= out.len();
            unsafe fn scatter(out: &mut [f32]);
            unsafe fn nullable(x: Option<&[f32]>, y: *const f32);
        }
    }

    fn one_buffer_read_and_written(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, &*x, &mut *x, 1);
    }

    fn shared_where_exclusive_is_asked(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, x, 1);
    }

    fn other_elements(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &DeviceBuffer<f64>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, y, 1);
    }

    fn host_memory(k: &Kernels, s: &Stream, l: LaunchConfig, x: &[f32], y: &mut DeviceBuffer<f32>) {
        let _ = k.copy(s, l, x, y, 1);
    }

    fn owned(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, y, 1);
    }

    fn exclusive_where_shared_is_enough(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &mut DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, y, 1);
    }

    fn moved(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, y, 1);
        let _ = k.copy(s, l, x, y, 1);
    }

    fn blocks_alone(k: &Kernels, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
        let _ = k.copy(s, 256, x, y, 1);
    }

    fn extents_of_floats(
        k: &Kernels,
        s: &Stream,
        x: &DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, (1.5, 256), x, y, 1);
    }

    fn a_count_of_floats(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, y, 1.5);
    }

    fn a_count_without_a_type(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) {
        let _ = k.copy(s, l, x, y, true.into());
    }

    unsafe fn what_is_no_pointer(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &DeviceBuffer<f32>,
        y: &DeviceBuffer<f64>,
    ) {
        let _ = unsafe { k.nullable(s, l, y, std::ptr::null()) };
        let _ = unsafe { k.nullable(s, l, Some(x), std::ptr::null()) };
        let _ = unsafe { k.nullable(s, l, None, x) };
    }

    fn unsafe_method(k: &Kernels, s: &Stream, l: LaunchConfig, x: &mut DeviceBuffer<f32>) {
        let _ = k.scatter(s, l, x);
    }

    fn module_from_elsewhere(module: &Module) {
        let _ = Kernels::from_module(module);
    }
}

mod kernels_values {
    //! What is passed by value is plain data that somebody vouches for.

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Params {
        gravity: f32,
    }

    mod shapes {
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct Circle<T>(pub T);
    }

    kernels! {
        unsafe in SOURCE {
            safe fn structure(a: f32, params: Params, #[any] n: u32);
            safe fn generic(shape: shapes::Circle<f32>);
            unsafe fn tuple(a: (f32, f32));
        }
    }
}

mod kernels_shadowed {
    //! A type with the name of a primitive does not change what a declaration means.

    use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

    const SOURCE: &str = "";

    #[allow(non_camel_case_types)]
    type u64 = std::primitive::f32;
    #[allow(non_camel_case_types)]
    type f32 = std::primitive::u8;

    kernels! {
        unsafe in SOURCE {
            safe fn up(n: u64, x: &mut [f32]) where n <= x.len();
            safe fn value(a: f32);
        }
    }

    fn a_float_for_an_integer(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &mut DeviceBuffer<std::primitive::f32>,
    ) -> Result<()> {
        k.up(s, l, 16.9, x)
    }

    fn other_elements(
        k: &Kernels,
        s: &Stream,
        l: LaunchConfig,
        x: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        k.up(s, l, 16, x)
    }

    fn another_value(k: &Kernels, s: &Stream, l: LaunchConfig) -> Result<()> {
        k.value(s, l, 1_u8)
    }
}

fn main() {}

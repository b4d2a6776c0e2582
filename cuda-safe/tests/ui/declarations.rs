mod kernels_declaration {
    //! A declaration is one kernel that returns nothing, under a name that is free.

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    kernels! {
        unsafe in SOURCE {
            safe fn result(a: f32) -> f32;
            safe fn generic<T>(a: T);
            safe fn body(a: f32) {}
            safe unsafe fn undecided();
            safe fn load();
            safe fn from_module();
            safe fn module();
            safe fn scale();
            safe fn scale_kernel();
            safe fn scale();
            #[name(scale)]
            safe fn unnamed();
            #[name = "a"]
            #[name = "b"]
            safe fn two_names();
        }
    }

    kernels! {
        struct Two;
        unsafe in SOURCE { safe fn a(); }
        unsafe in SOURCE { safe fn b(); }
    }

    kernels! {
        struct Generic<T>;
        unsafe in SOURCE { safe fn a(); }
    }
}

mod kernels_parameters {
    //! Parameters are slices or values, each with a name of its own.

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    kernels! {
        unsafe in SOURCE {
            safe fn twice(a: f32, a: f32);
            safe fn receiver(&self, a: f32);
            safe fn nameless(_: f32);
            safe fn reference(a: &f32);
            safe fn exclusive(a: &mut f32);
            safe fn array(a: &[f32; 3]);
            safe fn unsized_slice(a: [f32]);
            safe fn buffer(a: DeviceBuffer<f32>);
            safe fn buffer_reference(a: &mut DeviceBuffer<f32>);
            safe fn view(a: cuda_safe::DeviceSlice<'static, f32>);
            safe fn vector(a: Vec<f32>);
            safe fn pointer(a: *mut f32);
            safe fn lifetime(a: &'static [f32]);
            safe fn generic_value(a: impl Copy);
            safe fn attribute(#[inline] a: f32);
            safe fn read_value(#[only_read] a: u32);
            safe fn read_exclusive(#[only_read] a: &mut [f32]);
            safe fn any_float(#[any] a: f32);
            safe fn any_and_bounded(#[any] a: u32) where a > 0;
            unsafe fn any_unsafe(#[any] a: u32);
            safe fn nullable(a: Option<&[f32]>);
            safe fn twenty_five(
                a0: u8, a1: u8, a2: u8, a3: u8, a4: u8, a5: u8, a6: u8, a7: u8, a8: u8, a9: u8,
                b0: u8, b1: u8, b2: u8, b3: u8, b4: u8, b5: u8, b6: u8, b7: u8, b8: u8, b9: u8,
                c0: u8, c1: u8, c2: u8, c3: u8, c4: u8,
            );
        }
    }
}

mod kernels_no_promise {
    //! Somebody writes the `unsafe` that makes the generated methods safe.

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    kernels! {
        safe fn scale(a: f32);
    }

    kernels! {
        struct WithoutUnsafe;
        in SOURCE {
            safe fn scale(a: f32);
        }
    }

    kernels! {
        struct NeitherSafeNorUnsafe;
        unsafe in SOURCE {
            fn scale(a: f32);
        }
    }
}

mod kernels_globals {
    //! Globals of `kernels!`: how they are declared, and how they are used.

    use cuda_safe::{Result, Stream, kernels};

    kernels! {
        struct NotDeclared;
        unsafe in "" {
            global factor f32;
            global table: [f32];
            global pointer: &f32;
            global first: f32 = 1.0;
            global module: f32;
            #[name = "{T}"]
            global other: f32;
            safe fn factor2();
            global factor2: f32;
        }
    }

    kernels! {
        struct Elements;
        // SAFETY: never loaded.
        unsafe in "" {
            global text: String;
            global flag: bool;
            global known: f32;
        }
    }

    fn used(kernels: &Elements, stream: &Stream) -> Result<()> {
        // Not every byte is a bool.
        kernels.flag(stream)?.read(stream)?;
        kernels.known(stream)?.write(stream, &[1_u32])?;
        Ok(())
    }
}

mod kernels_instances {
    //! Type parameters list their instances, and a symbol tells instances apart.

    use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, kernels};

    const SOURCE: &str = "";

    kernels! {
        #[name = "grid_{}_{U}"]
        struct UnknownHole<T in [f32, f64]>;
        unsafe in SOURCE { safe fn count(radius: T); }
    }

    kernels! {
        #[name = "grid"]
        struct OneSymbol;
        unsafe in SOURCE { safe fn count(); }
    }

    kernels! {
        #[name = "grid_{}"]
        struct SameSymbol<T in [f32, f64]>;
        unsafe in SOURCE { safe fn count(radius: T); safe fn clear(); }
    }

    kernels! {
        unsafe in SOURCE {
            safe fn empty<T in []>(a: T);
            safe fn missing<T: Copy>(a: T);
            safe fn unnamed<T in [half::f16]>(a: T);
            safe fn number<T in [f32 = 32]>(a: T);
            safe fn twice<T in [u8, u8]>(a: T);
            safe fn same<T in [u8], T in [u8]>(a: T);
            safe fn constant<const N: usize>();
            safe fn lifetime<'a>(a: u8);
            #[name = "set_{V}"]
            safe fn hole<T in [u8]>(a: T);
            #[name = "set"]
            safe fn one_for_all<T in [u8, u16]>(a: T);
            #[name = "set_{T"]
            safe fn open<T in [u8, u16]>(a: T);
        }
    }

    mod good {
        cuda_safe::kernels! {
            pub struct Query<R: Copy in [f32, f64]>;
            unsafe in "" {
                safe fn count<T in [u8, u16]>(x: &[T], y: &[R]) where x.len() == 1, y.len() == 1;
            }
        }
    }
    use good::Query;

    fn an_instance_in_the_place_of_another(k: &mut Query<f32>, other: Query<f64>) {
        *k = other;
    }

    fn elements_of_two_types(k: &Query<f32>, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<u8>, y: &DeviceBuffer<f64>) {
        let _ = k.count::<u8>(s, l, x, y);
    }

    fn no_bound(k: &Query<String>) {
        let _ = k;
    }

    fn swapped(k: &mut Fields) {
        k.set.kernels.swap(0, 1);
        k.set = k.clear.clone();
    }

    kernels! {
        struct Fields;
        unsafe in SOURCE {
            safe fn set<T in [u8, u16]>(a: T);
            safe fn clear<T in [u8, u16]>(a: T);
        }
    }
}

mod kernels_fields {
    //! Safe code can put no other kernel into a struct that `kernels!` has made, nor make one by itself.

    use cuda_safe::{Kernel, Module, kernels};

    const SOURCE: &str = "";

    kernels! {
        pub struct Checked;
        unsafe in SOURCE {
            safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
            safe fn clear(x: &mut [u32], n: u32) where n <= x.len();
        }
    }

    kernels! {
        pub struct Other;
        unsafe in SOURCE {
            safe fn fill(x: &mut [u32]) where 1 <= x.len();
        }
    }

    fn another_kernel(kernels: &mut Checked, evil: Kernel) {
        kernels.fill = evil;
    }

    fn the_kernel_of_another_declaration(kernels: &mut Checked) {
        kernels.fill = kernels.clear.clone();
        std::mem::swap(&mut kernels.fill, &mut kernels.clear);
    }

    fn the_kernel_of_another_struct(kernels: &mut Checked, other: Other) {
        kernels.fill = other.fill;
    }

    fn made_by_hand(evil: Kernel, module: Module) -> Checked {
        Checked { fill: evil.clone(), clear: evil, module }
    }

    fn another_module(kernels: &mut Checked, module: Module) {
        kernels.module = module;
    }

    fn found_by_hand(module: &Module) -> Checked {
        use cuda_safe::__private::{Declared, DeclaredIn};
        Checked {
            fill: Declared::find(module, "evil").unwrap(),
            clear: Declared::find(module, "evil").unwrap(),
            module: DeclaredIn::new(module),
        }
    }

    fn taken_apart(kernels: &mut Checked, evil: Kernel) {
        kernels.fill.kernel = evil;
        *kernels.fill_kernel() = evil;
    }

    fn inside_a_function(evil: Kernel) {
        kernels! {
            struct Inner;
            unsafe in SOURCE { safe fn fill(x: &mut [u32]) where 1 <= x.len(); }
        }
        let set = |inner: &mut Inner| inner.fill = evil;
        let _ = set;
    }
}

fn main() {}

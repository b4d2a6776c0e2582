mod kernels_denied_unsafe {
    //! `unsafe in` is unsafe code, and lints see it where it is written.

    #![deny(unsafe_code)]

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    kernels! {
        struct Promised;
        unsafe in SOURCE {
            safe fn scale(a: f32);
        }
    }

    fn main() {
        let _ = Promised::load;
    }
}

mod kernels_unread {
    //! An integer of a `safe fn` that no clause reads is a warning.

    #![deny(deprecated)]

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    kernels! {
        unsafe in SOURCE {
            safe fn noise(seed: u32, out: &mut [f32], n: u32 = out.len()) over n;
            safe fn plane(out: &mut [f32], width: u32, height: u32) over [width, height]
                where width <= out.len();
            // No warning.
            safe fn marked(#[any] seed: u32, out: &mut [f32], n: u32 = out.len()) over n;
            unsafe fn unchecked(n: u32);
            #[allow(deprecated)]
            safe fn allowed(n: u32);
        }
    }
}

fn main() {}

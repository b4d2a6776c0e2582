mod clauses_of_other_numbers {
    //! Writes clauses on floats, on names that are no parameters, on constants that look like parameters, in one alternative alone and with calls.
    //!
    //! - row: launching foreign code is unsafe
    //! - targets: `kernels!`

    use cuda_safe::kernels;

    #[allow(non_upper_case_globals)]
    pub const big: u32 = 7;

    kernels! { pub struct A; unsafe in "" { safe fn f(x: &mut [u32], a: f32) where a <= x.len(); } } //~ refused
    kernels! { pub struct B; unsafe in "" { safe fn f(x: &mut [u32]) where big <= x.len(); } } //~ refused
    kernels! { pub struct C; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n.min(1) <= x.len(); } } //~ refused
    kernels! { pub struct D; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n != x.len(); } } //~ refused
    kernels! { pub struct E; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n <= x.len() || 1 == 1; } } //~ refused
    kernels! { pub struct F; unsafe in "" { safe fn f<T>(x: &mut [T], n: u32) where n <= x.len(); } } //~ refused
    kernels! { pub struct G; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n <= y.len(); } } //~ refused

    kernels! {
        pub struct Right;
        unsafe in "" {
            safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
        }
    }
}

mod length_on_the_wrong_side {
    //! Bounds the length of a slice from the wrong side, so that no clause says that it is long enough.
    //!
    //! - row: launching foreign code is unsafe
    //! - row: `unsafe in SOURCE` of `kernels!`
    //! - targets: `kernels!`

    use cuda_safe::kernels;

    kernels! { pub struct Wrong; unsafe in "" { safe fn fill(x: &mut [u32], n: u32) where x.len() <= n; } } //~ refused
    kernels! { pub struct Missing; unsafe in "" { safe fn copy(x: &[u32], y: &mut [u32], n: u32) where n <= x.len(); } } //~ refused
    kernels! { pub struct Nothing; unsafe in "" { safe fn fill(x: &mut [u32], n: u32); } } //~ refused
    kernels! { pub struct Either; unsafe in "" { safe fn fill(x: &mut [u32], n: u32) where n <= x.len() || n == 7; } } //~ refused
    kernels! { pub struct Other; unsafe in "" { safe fn copy(x: &[u32], y: &mut [u32], n: u32) where n <= x.len() || n <= y.len(); } } //~ refused
    kernels! { pub struct Power; unsafe in "" { safe fn fill(x: &mut [u32]) where x.len().is_power_of_two(); } } //~ refused

    kernels! {
        pub struct Right;
        unsafe in "" {
            safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
        }
    }
}

mod source_without_a_promise {
    //! Declares safe kernels of a source without the word that promises something about it.
    //!
    //! - row: `unsafe in SOURCE` of `kernels!`
    //! - targets: `kernels!`

    use cuda_safe::kernels;

    kernels! { pub struct Unpromised; in "" { safe fn fill(x: &mut [u32]) where 1 <= x.len(); } } //~ refused

    kernels! {
        pub struct Promised;
        unsafe in "" {
            safe fn fill(x: &mut [u32]) where 1 <= x.len();
        }
    }
}

mod a_promise_of_safe_code {
    //! Says without `unsafe` that the arguments of a launch are checked.
    //!
    //! - row: safe code can neither describe a kernel nor launch one
    //! - targets: `kernel!`

    use cuda_safe::kernel::trust::Checked;

    pub fn attack(use_it: impl Fn(Checked)) {
        use_it(Checked::new()); //~ refused
    }
}

mod a_sum_of_all_threads {
    //! Adds to one variable from all threads of a kernel.
    //!
    //! - row: threads of a loop never hold the same element
    //! - targets: `kernel!`

    use cuda_safe::kernel::kernel;

    #[kernel]
    pub fn sum(x: &[u32], out: &mut [u32]) {
        let mut total = 0u32;
        each(out, |i, out| {
            total = total.wrapping_add(x[i]); //~ refused
            *out = x[i];
        });
    }
}

fn main() {}

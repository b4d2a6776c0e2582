mod kernels_clause {
    //! Clauses compare integers: parameters, literals, lengths.

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Grid {
        cells: u32,
    }

    kernels! {
        unsafe in SOURCE {
            safe fn unknown(n: u64) where m <= 1;
            safe fn constant(n: u64) where n <= limit;
            safe fn float(a: f32) where a <= 1;
            safe fn structure(grid: Grid) where grid <= 1;
            safe fn slice(x: &[f32], n: u64) where n <= x;
            safe fn method(x: &[f32]) where x.is_empty() == 1;
            safe fn cast(n: i32) where n as u64 <= 1;
            safe fn suffix(n: u32) where n <= 1u32;
            safe fn both(n: u32) where n <= 1 && n >= 0;
            safe fn one_bar(n: u32) where n <= 1 | n >= 4;
            safe fn half_a_choice(n: u32) where n <= 1 || n;
            safe fn power(n: u32) where 2 * n.is_power_of_two();
            safe fn power_compared(n: u32) where n.is_power_of_two() == 1;
            safe fn call(grid: Grid) where grid.cells() <= 1;
            safe fn lower_case(n: u32) where n <= consts::limit;
            safe fn assigned(n: u32) where n = 1;
            safe fn zigzag(n: u32, m: u32) where 0 < n > m;
            safe fn no_comparison(n: u32) where n;
            safe fn cut_off(n: u32) where n <=;
            safe fn extent(n: u32) where n <= block;
            safe fn field(n: u32) where n <= grid.w;
            safe fn hidden(block: u32) where block.x == 256;
            safe fn launch_field(n: u32) where launch.shared <= n;
            safe fn huge(n: u32) where n <= 340282366920938463463374607431768211455;
        }
    }
}

mod kernels_clause_values {
    //! Constants and fields in clauses are integers, and fields are the structure's own.

    use cuda_safe::{DeviceRepr, kernels};
    use std::ops::Deref;

    const SOURCE: &str = "";
    const HALF: f32 = 0.5;
    const YES: bool = true;
    const WIDE: u128 = 1;
    static mut CHANGING: u32 = 1;

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Params {
        n: u32,
        scale: f32,
    }

    // SAFETY: never launched.
    unsafe impl DeviceRepr for Params {}

    /// Shows fields that are not those that a kernel is given.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Wrapped {
        bits: u32,
    }

    // SAFETY: never launched.
    unsafe impl DeviceRepr for Wrapped {}

    impl Deref for Wrapped {
        type Target = Params;
        fn deref(&self) -> &Params {
            &Params { n: 0, scale: 1.0 }
        }
    }

    kernels! {
        unsafe in SOURCE {
            safe fn float(n: u32) where n <= HALF;
            safe fn truth(n: u32) where n <= YES;
            safe fn wide(n: u32) where n <= WIDE;
            safe fn missing(n: u32) where n <= MISSING;
            safe fn changing(n: u32) where n <= CHANGING;
            safe fn block(out: &mut [f32], n: u32 = out.len()) over n by HALF;
            safe fn float_field(p: Params) where p.scale <= 1;
            safe fn missing_field(p: Params) where p.m <= 1;
            safe fn behind_a_deref(w: Wrapped, out: &mut [f32]) where w.n <= out.len();
            safe fn filled_behind_a_deref(w: Wrapped, n: u32 = w.n) over w.n;
        }
    }
}

mod kernels_unchecked_length {
    //! A `safe fn` says how far the kernel may go into each of its slices.

    use cuda_safe::kernels;

    const SOURCE: &str = "";

    kernels! {
        struct Missing;
        unsafe in SOURCE {
            safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u64)
                where n <= x.len(), n <= out.len();
        }
    }

    kernels! {
        struct WrongWayRound;
        unsafe in SOURCE {
            safe fn clear(out: &mut [f32], n: u64) where out.len() <= n;
        }
    }

    kernels! {
        struct NoClause;
        unsafe in SOURCE {
            safe fn clear(out: &mut [f32]);
        }
    }

    kernels! {
        struct InOneAlternative;
        unsafe in SOURCE {
            safe fn clear(out: &mut [f32], n: u64) where n <= out.len() || n <= 4;
        }
    }
}

mod kernels_derived {
    //! Parameters that are filled in, and launches over extents.

    use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, kernels};

    const SOURCE: &str = "";

    kernels! {
        unsafe in SOURCE {
            safe fn slice(x: &[f32] = y, y: &[f32]);
            safe fn float(a: f32 = 1.0);
            safe fn wide(a: i128 = 1);
            safe fn itself(n: u32 = n + 1);
            safe fn later(n: u32 = m, m: u32 = 1);
            safe fn unknown(n: u32 = limit);
            safe fn launch(n: u32 = block.x);
            safe fn comparison(n: u32 = 1 < 2);
            safe fn cut_off(n: u32 =);
            safe fn half(x: &[f32], n: usize = x.len() / 2);
            unsafe fn four(n: u32) over [n, n, n, n];
            unsafe fn none(n: u32) over [];
            unsafe fn bare(w: u32, h: u32) over w, h;
            unsafe fn a_slice(x: &[f32]) over x;
            unsafe fn of_a_float(a: f32) over a;
            unsafe fn of_the_launch() over block.x;
            unsafe fn large(n: u32) over n by 2048;
            unsafe fn flat(w: u32, h: u32) over [w, h] by 256;
            unsafe fn expression(n: u32) over n by n;
        }
    }

    kernels! {
        struct AfterWhere;
        unsafe in SOURCE {
            safe fn late(n: u32) where n > 0 over n;
        }
    }

    mod good {
        cuda_safe::kernels! {
            pub struct Saxpy;
            unsafe in "" {
                safe fn saxpy(a: f32, x: &[f32], y: &mut [f32], n: usize = x.len()) over n
                    where y.len() == n;
                safe fn explicit(x: &mut [f32], n: usize = x.len());
            }
        }
    }
    use good::Saxpy;

    fn said_twice(k: &Saxpy, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
        let _ = k.saxpy(s, 2.0, x, y, 10);
    }

    fn with_a_launch(k: &Saxpy, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
        let _ = k.saxpy(s, LaunchConfig::cover(10, 256), 2.0, x, y);
    }

    fn without_a_launch(k: &Saxpy, s: &Stream, x: &mut DeviceBuffer<f32>) {
        let _ = k.explicit(s, x);
    }
}

fn main() {}

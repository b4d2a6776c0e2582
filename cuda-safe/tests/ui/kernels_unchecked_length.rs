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

fn main() {}

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

fn main() {}

use gpu_phases::kernel;

#[kernel]
fn reads_the_array_that_it_writes(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut tile, |i, t| *t = tile[63 - i]);
        out.set(tile[0]);
    });
}

#[kernel]
fn writes_an_array_twice_in_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each((&mut tile, &mut tile), |_, (a, b)| *a = *b);
        out.set(tile[0]);
    });
}

#[kernel]
fn uses_the_whole_while_it_is_split(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        let (low, high) = tile.split_at_mut(32);
        block.each(&mut tile, |_, t| *t = 1.0);
        block.each(low, |i, a| *a += high[i]);
        out.set(tile[0]);
    });
}

#[kernel]
fn keeps_a_reference_over_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        let first = &tile[0];
        block.each(&mut tile, |_, t| *t = 1.0);
        out.set(*first);
    });
}

#[kernel]
fn uses_a_part_twice(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |_, o| *o = 1.0);
        block.each(out, |_, o| *o = 2.0);
    });
}

#[kernel]
fn sets_a_slot_twice(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        out.set(1.0);
        out.set(2.0);
    });
}

#[kernel]
fn sets_a_slot_in_threads(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        block.run(3, |i| out.set(1.0));
    });
}

#[kernel]
fn swaps_in_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut a = block.shared([0.0f32; 64]);
        let mut b = block.shared([0.0f32; 64]);
        block.run(1, |_| std::mem::swap(&mut a, &mut b));
        out.set(a[0]);
    });
}

#[kernel]
fn uses_an_array_that_is_shared_by_atomics(out: &mut [u32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut bins = block.shared([0u32; 64]);
        let counts = bins.atomic();
        block.each(&mut bins, |_, b| *b = 1);
        block.run(3, |i| {
            counts.fetch_add(i, 1);
        });
        out.set(1);
    });
}

#[kernel]
fn shares_an_option(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([Some(1.0f32); 64]);
        out.set(1.0);
    });
}

#[kernel]
fn shares_three_dimensions(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([[[0.0f32; 4]; 4]; 4]);
        out.set(1.0);
    });
}

#[kernel]
fn shares_a_number(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared(0.0f32);
        out.set(1.0);
    });
}

#[kernel]
fn has_columns_that_no_block_has(out: &mut [f32]) {
    blocks(Threads::<2, 100>, out, |block, out| out.set(1.0));
}

#[kernel]
fn indexes_a_value_of_each_thread(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        out.set(x[0]);
    });
}

#[kernel]
fn adds_flags(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(true);
        let n = block.sum(&x);
        out.set(1.0);
    });
}

#[kernel]
fn passes_on_a_tuple(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let sums = block.carry((1u32, 2u32), (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        out.set(sums.0);
    });
}

mod own {
    #[derive(Clone, Copy, gpu_phases::Device)]
    #[repr(C)]
    pub struct Tile {
        x: f32,
    }
}

#[gpu_phases::device]
fn takes_a_type_with_a_name_of_the_library(tile: own::Tile) -> f32 {
    1.0
}

#[kernel]
fn leaves_by_a_condition(out: &mut [f32]) {
    assert!({
        return gpu_phases::kernel::Extent { dimensions: 1, size: [9; 3], threads: 64, shared: 0 };
    });
    blocks(Threads::<64>, out, |block, out| out.set(1.0));
}

fn main() {}

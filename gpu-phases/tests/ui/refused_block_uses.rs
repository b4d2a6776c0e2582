use gpu_phases::{Atomic, Block, Device, Part, PerThread, Shared, device, kernel};

#[kernel]
fn writes_through_a_closure(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut total = 0.0;
        let mut add = |value: f32| total += value;
        block.run(x.len(), |i| add(x[i]));
        out.set(total);
    });
}

static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[kernel]
fn counts_in_a_static(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |i, o| *o = COUNT.fetch_add(x[i], std::sync::atomic::Ordering::Relaxed));
    });
}

std::thread_local! {
    static LOCAL: std::cell::Cell<f32> = const { std::cell::Cell::new(0.0) };
}

#[kernel]
fn writes_a_thread_local(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |i, _| LOCAL.with(|local| local.set(x[i])));
    });
}

#[kernel]
fn borrows_an_element_to_write(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| {
            let t = &mut tile[63 - i];
            *t = *o;
        });
    });
}

#[device]
fn put(place: &mut f32, value: f32) {
    *place = value;
}

#[kernel]
fn writes_an_element_by_a_function(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| put(&mut tile[63 - i], *o));
    });
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Dice {
    state: u32,
}

#[device]
impl Dice {
    fn roll(&mut self) -> u32 {
        self.state = self.state * 5 + 1;
        self.state
    }
}

#[kernel]
fn rolls_the_dice_of_the_block(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let mut dice = Dice { state: 1 };
        block.each(out, |_, o| *o = dice.roll());
    });
}

#[kernel]
fn splits_in_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| {
            let (low, high) = tile.split_at_mut(32);
            *o = low[i] + high[i];
        });
    });
}

#[kernel]
fn takes_atomics_in_a_phase(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0u32; 64]);
        block.each(&mut out, |i, _| {
            tile.atomic().fetch_add(i, 1);
        });
    });
}

#[kernel]
fn has_overlapping_halves(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        let (mut low, _) = tile.split_at_mut(40);
        let (_, mut high) = tile.split_at_mut(20);
        block.each((&mut low, &mut high), |_, (a, b)| *a += *b);
        out.set(1.0);
    });
}

#[kernel]
fn has_rows_and_pairs(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each((tile.rows(8), tile.pairs(4)), |_, (row, (a, b))| row[0] = *a + *b);
        out.set(1.0);
    });
}

#[kernel]
fn reads_the_rows_that_it_writes(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(tile.rows(8), |i, row| row[0] = tile[8 * i + 9]);
        out.set(1.0);
    });
}

#[kernel]
fn reads_the_part_that_it_writes(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        block.each(&mut out, |i, o| *o = out[63 - i]);
    });
}

#[kernel]
fn loads_a_part_twice(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.load(out, x, 0, 0.0);
        block.load(out, x, 1, 0.0);
    });
}

#[kernel]
fn shares_an_output(out: &mut [f32]) {
    blocks(Threads::<64>, (chunks(out, 64), chunks(out, 32)), |block, (a, b)| {
        block.each((a, b), |_, (a, b)| *a = *b);
    });
}

#[kernel]
fn sets_a_slot_in_a_loop(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        for i in 0..3 {
            out.set(i as f32);
        }
    });
}

#[kernel]
fn sets_a_slot_in_one(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        block.one(|| out.set(1.0));
    });
}

#[kernel]
fn sets_a_slot_in_a_closure(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let finish = |value: f32| out.set(value);
        finish(1.0);
        finish(2.0);
    });
}

#[device]
fn clears_rows(block: &mut Block<32>, out: &mut Part<'_, f32>) {
    block.each(out, |_, o| *o = 0.0);
}

#[kernel]
fn gives_another_block(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        clears_rows(block, &mut out);
    });
}

#[kernel]
fn points_to_another_array(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let a = block.shared([7u32; 64]);
        let b = block.shared([0u32; 64]);
        let mut last = &a[3];
        last = &b[63];
        block.each(&mut out, |i, o| *o = *last);
    });
}

#[kernel]
fn points_to_another_array_in_a_tuple(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let a = block.shared([7u32; 64]);
        let b = block.shared([0u32; 64]);
        let mut last = (&a[3], 1);
        last.0 = &b[63];
        block.each(&mut out, |i, o| *o = *last.0);
    });
}

#[kernel]
fn points_to_another_array_through_a_place(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let b = block.shared([0u32; 64]);
        let mut last = &x[0];
        let place = &mut last;
        *place = &b[63];
        block.each(&mut out, |i, o| *o = *last);
    });
}

#[kernel]
fn points_to_an_array_after_an_input(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let b = block.shared([0u32; 64]);
        let mut last = (&x[0], 1);
        block.each(&mut out, |i, o| *o = *last.0);
        last.0 = &b[63];
    });
}

#[kernel]
fn points_to_an_array_in_an_option(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let b = block.shared([0u32; 64]);
        let mut last = None;
        last = Some(&b[63]);
        block.each(&mut out, |i, o| *o = *last.unwrap());
    });
}

#[kernel]
fn asks_the_block_in_a_closure(out: &mut [usize]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let first = || block.index() * 64;
        block.each(out, |i, o| *o = first() + i);
    });
}

#[kernel]
fn points_to_another_array_in_a_closure(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let b = block.shared([0u32; 64]);
        let mut last = &x[0];
        let mut choose = || last = &b[63];
        choose();
        block.each(&mut out, |i, o| *o = *last);
    });
}

#[kernel]
fn points_to_an_array_later(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let b = block.shared([0u32; 64]);
        let last: &u32;
        last = &b[63];
        block.each(&mut out, |i, o| *o = *last);
    });
}

#[kernel]
fn chooses_an_array(n: usize, out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut a = block.shared([0u32; 64]);
        let mut b = block.shared([0u32; 64]);
        let chosen = if n > 3 { &mut a } else { &mut b };
        block.each(chosen, |_, t| *t = 1);
        block.each(&mut out, |i, o| *o = a[i] + b[i]);
    });
}

#[device]
fn upper(tile: &mut Shared<[u32; 64]>) -> Part<'_, u32> {
    tile.split_at_mut(32).1
}

type Words = Shared<[u32; 64]>;

#[device]
fn reverses(block: &mut Block<64>, tile: &mut Words, out: &mut Part<'_, u32>) {
    block.each(&mut *tile, |i, t| *t = i as u32);
    block.each(out, |i, o| *o = tile[63 - i]);
}

#[device]
fn next(count: &Atomic<[u32]>) -> u32 {
    count.fetch_add(0, 1)
}

#[kernel]
fn shares_a_length_of_the_launch(n: usize, out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([1.0f32; n]);
        out.set(tile[0]);
    });
}

#[kernel]
fn goes_over_a_reading_reference(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([1.0f32; 64]);
        block.each(&tile, |_, t| {});
        out.set(1.0);
    });
}

#[kernel]
fn goes_over_an_input(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        block.each(x, |_, x| {});
        out.set(1.0);
    });
}

#[kernel]
fn goes_over_a_number(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        block.each(64, |i, t| {});
        out.set(1.0);
    });
}

#[kernel]
fn goes_over_a_local_array(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut own = [0.0f32; 64];
        block.each(&mut own, |_, t| *t = 1.0);
        out.set(own[0]);
    });
}

#[kernel]
fn has_two_indices_for_a_row(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |[i, j], o| *o = (i + j) as f32);
    });
}

#[kernel]
fn has_one_index_for_a_matrix(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([[0.0f32; 8]; 8]);
        block.each(&mut tile, |i, t| *t = (i % 8) as f32);
        out.set(tile[0][0]);
    });
}

#[kernel]
fn has_a_pair_for_two_targets_and_a_value(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let mut x = block.per_thread(1.0f32);
        block.each((out, &mut x), |_, (o, x, y)| *o = *x);
    });
}

#[kernel]
fn loads_other_elements(x: &[u32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.load(&mut tile, x, 0, 0.0);
        out.set(tile[0]);
    });
}

#[kernel]
fn loads_a_matrix_into_a_row(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.load_matrix(&mut tile, x, [8, 8], [0, 0], 0.0);
        out.set(tile[0]);
    });
}

#[kernel]
fn sums_shared_memory(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([0.0f32; 64]);
        let total = block.sum(&tile);
        out.set(total);
    });
}

#[kernel]
fn reads_a_value_of_each_thread(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let total = *x + 1.0;
        out.set(total);
    });
}

#[kernel]
fn uses_a_value_of_other_threads(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let x = block.per_thread(1.0f32);
        block.each(out, |i, o| *o = x[63 - i]);
    });
}

#[device]
fn doubles(block: &mut Block<32>, x: &mut PerThread<f32, 32>) {
    block.each(x, |_, x| *x *= 2.0);
}

#[kernel]
fn gives_values_of_other_threads(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut x = block.per_thread(1.0f32);
        doubles(block, &mut x);
        out.set(1.0);
    });
}

#[kernel]
fn pairs_of_a_matrix(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([[0.0f32; 8]; 8]);
        block.each(tile.pairs(4), |_, (a, b)| *a = *b);
        out.set(tile[0][0]);
    });
}

#[kernel]
fn has_threads_of_the_launch(n: usize, out: &mut [f32]) {
    blocks(n, chunks(out, 64), |block, out| {
        block.each(out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn has_tiles_for_a_row(out: &mut [f32]) {
    blocks(Threads::<64>, tiles::<8, 8, _>(out, [8, 8]), |block, out| {
        block.each(out, |i, o| *o = i as f32);
    });
}

#[kernel]
fn has_warps_of_chunks(out: &mut [f32]) {
    blocks(Threads::<64>, warps(chunks(out, 64), 2), |block, out| {
        block.each(out, |_, o| *o = 1.0);
    });
}

fn main() {}

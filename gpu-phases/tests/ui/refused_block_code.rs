use gpu_phases::{Atomic, Block, Device, Part, device, kernel};

#[kernel]
fn sums_in_a_cell(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let total = std::cell::Cell::new(0.0);
        block.run(x.len(), |i| total.set(total.get() + x[i]));
        out.set(total.get());
    });
}

#[kernel]
fn sums_in_a_ref_cell(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let total = std::cell::RefCell::new(0.0f32);
        block.run(x.len(), |i| *total.borrow_mut() += x[i]);
        out.set(*total.borrow());
    });
}

#[kernel]
fn counts_in_an_atomic_of_std(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, out, |block, out| {
        let count = std::sync::atomic::AtomicU32::new(0);
        block.run(x.len(), |i| {
            count.fetch_add(x[i], std::sync::atomic::Ordering::Relaxed);
        });
        out.set(1);
    });
}

static mut TOTAL: f32 = 0.0;

#[kernel]
fn writes_a_static(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |i, _| unsafe { TOTAL += x[i] });
    });
}

#[kernel]
fn writes_by_a_pointer(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        let p = &raw mut tile;
        block.each(&mut out, |i, o| *o = unsafe { (*p)[63 - i] });
    });
}

#[kernel]
fn replaces_an_element(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| *o = std::mem::replace(&mut tile[63 - i], 1.0));
    });
}

#[kernel]
fn keeps_an_item(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut first = None;
        block.each(&mut out, |i, o| {
            if i == 0 {
                first = Some(o);
            }
        });
    });
}

#[kernel]
fn sorts_in_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |_, _| block.sort(&mut tile));
    });
}

#[kernel]
fn writes_in_one(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.one(|| tile[3] = 1.0);
        out.set(tile[3]);
    });
}

#[kernel]
fn writes_a_variable_in_one(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut found = 0;
        block.one(|| found = x.len());
        out.set(found as f32);
    });
}

#[kernel]
fn writes_an_output_of_all_blocks(out: &mut [f32]) {
    blocks(Threads::<64>, grid(3), |block, _| {
        block.run(64, |i| out[i] = 1.0);
    });
}

#[kernel]
fn writes_an_output_at_block_level(out: &mut [f32]) {
    blocks(Threads::<64>, grid(3), |block, _| {
        out[block.index()] = 1.0;
    });
}

#[kernel]
fn runs_over_a_slice_of_an_output(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(&mut out[1..], 64), |block, part| {
        block.each(part, |_, o| *o = 1.0);
    });
}

#[kernel]
fn has_its_parts_in_a_variable(out: &mut [f32]) {
    let parts = chunks(out, 64);
    blocks(Threads::<64>, parts, |block, part| {
        block.each(part, |_, o| *o = 1.0);
    });
}

#[kernel]
fn keeps_its_part(out: &mut [f32]) {
    let mut last = None;
    blocks(Threads::<64>, chunks(out, 64), |block, part| {
        last = Some(part);
    });
}

#[kernel]
fn takes_a_part(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let part = std::mem::take(&mut out);
        block.each(part, |_, o| *o = 1.0);
    });
}

#[kernel]
fn has_a_phase_in_a_closure(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        let mut fill = || block.each(&mut tile, |_, t| *t = 1.0);
        fill();
        block.each(&mut out, |i, o| *o = tile[i]);
    });
}

#[kernel]
fn has_a_phase_after_a_return_of_a_thread(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| {
            if x[i] > 1.0 {
                return;
            }
            block.each(&mut tile, |_, t| *t = *o);
        });
    });
}

#[kernel]
fn leaves_a_loop_from_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        for _ in 0..3 {
            block.each(&mut out, |i, o| {
                if i == 3 {
                    break;
                }
                *o += 1.0;
            });
        }
    });
}

#[kernel]
fn leaves_a_labelled_loop_from_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        'steps: loop {
            block.each(&mut out, |i, _| {
                if i == 3 {
                    break 'steps;
                }
            });
        }
    });
}

#[kernel]
fn has_a_phase_in_a_guard(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        match block.index() {
            0 if block.sum(&x) > 3.0 => out.set(1.0),
            _ => out.set(2.0),
        }
    });
}

#[kernel]
fn has_a_phase_behind_an_and(n: usize, out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let more = n > 3 && block.sum(&x) > 3.0;
        out.set(if more { 1.0 } else { 2.0 });
    });
}

#[kernel]
fn has_a_phase_in_an_arm(n: usize, out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let total = match n {
            3 => block.sum(&x),
            _ => 0.0,
        };
        out.set(total);
    });
}

#[kernel]
fn has_a_phase_in_an_array(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let both = [block.sum(&x), block.max(&x)];
        out.set(both[0] + both[1]);
    });
}

#[kernel]
fn has_a_phase_in_a_range(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1u32);
        let mut n = 0.0;
        for _ in 0..block.sum(&x) {
            n += 1.0;
        }
        out.set(n);
    });
}

#[kernel]
fn has_a_phase_in_a_shared_value(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let tile = block.shared([block.sum(&x); 64]);
        out.set(tile[0]);
    });
}

#[kernel]
fn has_a_phase_in_an_assertion(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        assert!(block.sum(&x) > 3.0);
        out.set(1.0);
    });
}

#[kernel]
fn calls_a_phase_by_its_path(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        Block::each(block, &mut out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn calls_a_sum_by_its_path(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let total = Block::<64>::sum(block, &x);
        out.set(total);
    });
}

#[kernel]
fn borrows_the_block_anew(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let b = &mut *block;
        b.each(&mut out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn keeps_the_block_in_a_tuple(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let both = (block, 3);
        both.0.each(&mut out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn gives_the_block_to_a_closure(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let fill = |b: &mut Block<64>| b.run(3, |_| {});
        fill(block);
        block.each(&mut out, |_, o| *o = 1.0);
    });
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Filter {
    weight: f32,
}

#[device]
impl Filter {
    fn apply(self, block: &mut Block<64>, out: &mut Part<'_, f32>) {
        block.each(out, |_, o| *o *= self.weight);
    }
}

#[kernel]
fn gives_the_block_to_a_method(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let filter = Filter { weight: 2.0 };
        filter.apply(block, &mut out);
    });
}

#[kernel]
fn has_blocks_in_its_blocks(x: &mut [f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        blocks(Threads::<64>, chunks(x, 64), |inner, x| {
            inner.each(x, |_, x| *x = 1.0);
        });
    });
}

#[kernel]
fn has_blocks_twice(x: &mut [f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(x, 64), |block, x| block.each(x, |_, x| *x = 1.0));
    blocks(Threads::<64>, chunks(out, 64), |block, x| block.each(x, |_, x| *x = 1.0));
}

#[kernel]
fn has_blocks_in_a_branch(n: usize, out: &mut [f32]) {
    if n > 3 {
        blocks(Threads::<64>, chunks(out, 64), |block, x| block.each(x, |_, x| *x = 1.0));
    }
}

macro_rules! fill {
    ($block:ident, $tile:ident) => {
        $block.each(&mut $tile, |_, t| *t = 1.0)
    };
}

#[kernel]
fn has_a_phase_in_a_macro(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        fill!(block, out);
    });
}

#[kernel]
fn swaps_references(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let a = block.shared([7u32; 64]);
        let b = block.shared([0u32; 64]);
        let (mut p, mut q) = (&a[0], &b[0]);
        std::mem::swap(&mut p, &mut q);
        block.each(&mut out, |i, o| *o = *p + *q);
    });
}

#[kernel]
fn swaps_arrays_as_a_tuple(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut now = block.shared([0u32; 64]);
        let mut next = block.shared([0u32; 64]);
        (now, next) = (next, now);
        block.each(&mut out, |i, o| *o = now[i]);
    });
}

#[kernel]
fn chooses_an_array_later(n: usize, out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut a = block.shared([0u32; 64]);
        let chosen;
        if n > 3 {
            chosen = &mut a;
            block.each(chosen, |_, t| *t = 1);
        }
        block.each(&mut out, |i, o| *o = a[i]);
    });
}

#[kernel]
fn keeps_arrays_in_an_array(n: usize, out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut a = block.shared([0u32; 64]);
        let mut b = block.shared([0u32; 64]);
        let both = [&mut a, &mut b];
        block.each(&mut *both[n % 2], |_, t| *t = 1);
        block.each(&mut out, |i, o| *o = a[i]);
    });
}

#[kernel]
fn goes_over_arrays(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut a = block.shared([0u32; 64]);
        let mut b = block.shared([0u32; 64]);
        for tile in [&mut a, &mut b] {
            block.each(tile, |_, t| *t = 1);
        }
        block.each(&mut out, |i, o| *o = a[i]);
    });
}

#[kernel]
fn keeps_an_array_in_an_option(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut a = block.shared([0u32; 64]);
        if let Some(tile) = Some(&mut a) {
            block.each(tile, |_, t| *t = 1);
        }
        block.each(&mut out, |i, o| *o = a[i]);
    });
}

#[kernel]
fn names_one_part(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut a = block.shared([0u32; 64]);
        let mut low = a.split_at_mut(32).0;
        block.each(&mut low, |_, t| *t = 1);
    });
}

#[kernel]
fn has_no_names_for_its_parts(x: &mut [u32], out: &mut [u32]) {
    blocks(Threads::<64>, (chunks(x, 64), chunks(out, 64)), |block, mut parts| {
        block.each(&mut parts.1, |_, o| *o = 1);
    });
}

#[kernel]
fn counts_by_a_closure_at_block_level(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        let next = || count.fetch_add(0, 1);
        let n = next();
        out.set(n);
    });
}

#[kernel]
fn counts_by_a_closure_of_a_closure(out: &mut [u32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut bins = block.shared([0u32; 64]);
        let counts = bins.atomic();
        let add = |i: usize| counts.fetch_add(i, 1);
        let add_two = |i: usize| add(i) + add(i + 1);
        if add_two(3) > 5 {
            block.run(64, |i| { add(i); });
        }
        out.set(1);
    });
}

#[device]
fn calls(f: impl Fn(usize) -> u32) -> u32 {
    f(0)
}

#[kernel]
fn counts_by_a_function_at_block_level(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        let n = calls(|i| count.fetch_add(i, 1));
        out.set(n);
    });
}

#[kernel]
fn counts_by_a_path_at_block_level(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        let n = Atomic::fetch_add(count, 0, 1);
        out.set(n);
    });
}

#[kernel]
fn exchanges_at_block_level(out: &mut [u32], lock: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        while lock.compare_exchange(0, 0, 1).is_err() {}
        out.set(1);
    });
}

#[kernel]
fn shares_in_a_closure(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let room = || block.shared([0.0f32; 64]);
        let tile = room();
        out.set(tile[0]);
    });
}

#[kernel]
fn shares_in_a_scope(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let first = {
            let tile = block.shared([1.0f32; 64]);
            tile[0]
        };
        out.set(first);
    });
}

#[kernel]
fn shares_in_a_tuple(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let (a, b) = (block.shared([1.0f32; 64]), block.shared([1.0f32; 64]));
        out.set(a[0] + b[0]);
    });
}

#[kernel]
fn shares_by_a_path(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = Block::shared(block, [1.0f32; 64]);
        out.set(tile[0]);
    });
}

#[kernel]
fn keeps_shared_memory(out: &mut [f32]) {
    let mut kept = None;
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([1.0f32; 64]);
        kept = Some(tile);
        out.set(1.0);
    });
}

#[kernel]
fn shares_a_vector(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared(vec![0.0f32; 64]);
        out.set(tile[0]);
    });
}

#[kernel]
fn shares_an_rc(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let total = std::rc::Rc::new(1.0f32);
        block.each(out, |_, o| *o = *total);
    });
}

#[kernel]
fn counts_in_an_assertion(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        let next = || count.fetch_add(0, 1);
        assert!(next() < 4);
        out.set(1);
    });
}

fn main() {}

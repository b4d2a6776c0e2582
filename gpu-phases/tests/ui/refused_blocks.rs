use gpu_phases::{Atomic, Block, device, kernel};

#[kernel]
fn writes_an_element_at_block_level(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        tile[0] = 1.0;
        block.each(out, |i, o| *o = tile[i]);
    });
}

#[kernel]
fn writes_a_neighbour_in_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| tile[i + 1] = *o);
    });
}

#[kernel]
fn adds_to_a_neighbour_in_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| tile[i % 3] += *o);
    });
}

#[kernel]
fn writes_another_element_of_its_part(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut x = block.per_thread(0.0f32);
        block.each(&mut x, |i, x| out[63 - i] = *x);
    });
}

#[kernel]
fn adds_to_a_variable(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut total = 0.0;
        block.run(x.len(), |i| total += x[i]);
        out.set(total);
    });
}

#[kernel]
fn sets_a_flag(x: &[f32], out: &mut [u32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut found = false;
        block.run(x.len(), |i| {
            if x[i] > 1.0 {
                found = true;
            }
        });
        out.set(found as u32);
    });
}

#[kernel]
fn has_a_phase_in_a_thread(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([0.0f32; 64]);
        block.each(&mut out, |i, o| {
            if i < 10 {
                block.each(&mut tile, |_, t| *t = 1.0);
            }
        });
    });
}

#[kernel]
fn asks_the_block_in_a_thread(out: &mut [usize]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |i, o| *o = block.index() * 64 + i);
    });
}

#[kernel]
fn sums_in_a_thread(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let mut x = block.per_thread(1.0f32);
        block.each(out, |_, o| *o = block.sum(&x));
    });
}

#[kernel]
fn has_a_phase_in_one(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut x = block.per_thread(1.0f32);
        let n = block.one(|| block.sum(&x));
        out.set(n);
    });
}

#[kernel]
fn has_a_phase_in_an_expression(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let n = 1.0 + block.sum(&x);
        out.set(n);
    });
}

#[kernel]
fn has_a_phase_in_a_condition(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        if block.sum(&x) > 3.0 {
            out.set(1.0);
        }
    });
}

#[kernel]
fn has_a_phase_in_a_loop_condition(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut x = block.per_thread(1.0f32);
        while block.sum(&x) < 3.0 {
            block.each(&mut x, |_, x| *x += 1.0);
        }
        out.set(1.0);
    });
}

#[kernel]
fn has_a_phase_in_an_argument(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        out.set(block.sum(&x));
    });
}

#[kernel]
fn has_a_phase_in_a_block_of_an_expression(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        let n = tile[0] + {
            block.each(&mut tile, |_, t| *t = 1.0);
            tile[1]
        };
        out.set(n);
    });
}

#[kernel]
fn shares_in_a_loop(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        for _ in 0..3 {
            let mut tile = block.shared([0.0f32; 64]);
            block.each((&mut out, &mut tile), |_, (o, t)| *o = *t);
        }
    });
}

#[kernel]
fn shares_in_a_branch(n: u32, out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        if n > 3 {
            let mut tile = block.shared([0.0f32; 64]);
            block.each((&mut out, &mut tile), |_, (o, t)| *o = *t);
        }
    });
}

#[device]
fn shares(block: &mut Block<64>) -> f32 {
    let tile = block.shared([0.0f32; 64]);
    tile[0]
}

#[kernel]
fn shares_without_a_name(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| out.set(block.shared([0.0f32; 64])[0]));
}

#[kernel]
fn counts_at_block_level(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        let n = count.fetch_add(0, 1);
        out.set(n);
    });
}

#[kernel]
fn reads_an_atomic_at_block_level(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        if count.load(0) > 3 {
            out.set(1);
        }
    });
}

#[kernel]
fn stores_to_an_atomic_at_block_level(out: &mut [u32], count: &Atomic<[u32]>) {
    blocks(Threads::<64>, out, |block, out| {
        for i in 0..4 {
            count.store(i, 1);
        }
        out.set(1);
    });
}

#[kernel]
fn counts_in_shared_memory_at_block_level(out: &mut [u32]) {
    blocks(Threads::<64>, out, |block, out| {
        let mut bins = block.shared([0u32; 64]);
        let counts = bins.atomic();
        counts.fetch_add(3, 1);
        out.set(1);
    });
}

#[kernel]
fn moves_into_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, move |_, o| *o = 1.0);
    });
}

#[kernel]
fn moves_into_its_blocks(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), move |block, out| {
        block.each(out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn has_too_few_parameters(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.each(out, |o| *o = 1.0);
    });
}

#[kernel]
fn has_too_many_parameters(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.run(3, |i, j| {});
        block.each(out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn gives_a_function_to_a_phase(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let f = |i: usize, o: &mut f32| *o = 1.0;
        block.each(out, f);
    });
}

#[kernel]
fn has_a_block_alone(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block| {});
}

#[kernel]
fn has_no_closure(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64));
}

#[kernel]
fn runs_over_an_input(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<64>, chunks(x, 64), |block, x| {});
}

#[kernel]
fn runs_over_an_unknown_split(out: &mut [f32]) {
    blocks(Threads::<64>, windows(out, 64), |block, out| {});
}

#[kernel]
fn has_tiles_without_a_size(out: &mut [f32]) {
    blocks(Threads::<64>, tiles(out, [8, 8]), |block, out| {});
}

#[kernel]
fn reads_an_output(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut mine| {
        block.each(&mut mine, |i, o| *o = out[i + 1]);
    });
}

#[kernel]
fn calls_what_a_block_has_not(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        block.synchronize();
        block.each(out, |_, o| *o = 1.0);
    });
}

#[kernel]
fn matches_a_reference(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([1u32; 64]);
        match &tile[0] {
            x => out.set(*x as f32),
        }
    });
}

#[kernel]
fn goes_over_references(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([[1.0f32; 4]; 4]);
        let mut sum = 0.0;
        for x in &tile[1] {
            sum += *x;
        }
        out.set(sum);
    });
}

#[kernel]
fn binds_a_reference(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| {
        let tile = block.shared([1.0f32; 64]);
        let ref first = tile[0];
        out.set(*first);
    });
}

#[kernel]
fn names_several_targets(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let mut tile = block.shared([0.0f32; 64]);
        let both = (out, &mut tile);
        block.each(both, |_, (o, t)| *o = *t);
    });
}

#[kernel]
fn computes_its_threads(out: &mut [f32]) {
    blocks({ Threads::<64> }, out, |block, out| out.set(1.0));
}

fn main() {}

//! Every collective, type, operation and number of ranks, with results computed on the host. The tests use nothing of the
//! library but its interface, so they run with any NCCL: the system's on GPUs, or a stand-in on the software device.

use std::fmt::Debug;
use std::sync::OnceLock;

use cuda_nccl::{Communicator, Config, Group, Nccl, NcclElement, ReduceOp, Result};
use cuda_safe::{Context, DeviceBuffer, Stream};
#[cfg(feature = "half")]
use half::{bf16, f16};

mod fake;

/// The NCCL under test, and the contexts of its devices.
struct Lab {
    config: Config,
    contexts: Vec<Context>,
}

/// Returns the system's NCCL if it and real devices are there, and the stand-in on the software device otherwise.
fn lab() -> Lab {
    let real = || {
        let driver = cuda_safe::Driver::load().ok()?;
        let contexts: Vec<Context> =
            driver.devices().take(4).map(|device| device.context().ok()).collect::<Option<_>>()?;
        Communicator::all(&contexts).ok()?;
        Some(Lab { config: Config::new(), contexts })
    };
    real().unwrap_or_else(|| Lab {
        config: Config::new().library(stand_in()),
        contexts: fake::contexts(fake::DEVICES),
    })
}

/// Returns `nccl-emu`, whose kernels run on the device of the contexts.
fn stand_in() -> &'static Nccl {
    static LIBRARY: OnceLock<&'static Nccl> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        nccl_emu::use_driver(fake::driver().as_sys());
        // SAFETY: the stand-in has the functions of `nccl.h`, and calls the contexts' driver.
        unsafe { Nccl::from_resolver(&nccl_emu::resolve) }.expect("a version that is taken")
    })
}

/// The ranks of a test, driven by one thread.
struct Ranks {
    ranks: Vec<Communicator>,
    streams: Vec<Stream>,
}

impl Lab {
    fn ranks(&self, count: usize) -> Result<Ranks> {
        let contexts = &self.contexts[..count];
        let streams = contexts.iter().map(|context| context.stream()).collect::<Result<_, _>>()?;
        Ok(Ranks { ranks: Communicator::all_with(contexts, &self.config)?, streams })
    }

    fn counts(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.contexts.len()
    }
}

/// Elements whose reductions by up to four ranks are exact in every type: small whole numbers.
trait Sample: NcclElement + PartialEq + Debug {
    fn of(number: i64) -> Self;
    fn number(self) -> f64;
}

macro_rules! samples {
    ($($ty:ty)*) => {$(
        impl Sample for $ty {
            fn of(number: i64) -> Self {
                number as $ty
            }
            fn number(self) -> f64 {
                self as f64
            }
        }
    )*};
}

samples! { i8 u8 i32 u32 i64 u64 f32 f64 }

#[cfg(feature = "half")]
impl Sample for f16 {
    fn of(number: i64) -> Self {
        Self::from_f64(number as f64)
    }
    fn number(self) -> f64 {
        self.to_f64()
    }
}

#[cfg(feature = "half")]
impl Sample for bf16 {
    fn of(number: i64) -> Self {
        Self::from_f64(number as f64)
    }
    fn number(self) -> f64 {
        self.to_f64()
    }
}

/// The element at an index of a rank: 1 to 3, so that products of four and sums fit an `i8`.
fn value(rank: usize, index: usize) -> i64 {
    1 + ((rank * 7 + index * 5 + index / 3) % 3) as i64
}

fn values<T: Sample>(rank: usize, len: usize) -> Vec<T> {
    (0..len).map(|index| T::of(value(rank, index))).collect()
}

/// Returns what a reduction of the element at an index is.
fn reduced(op: ReduceOp, ranks: usize, index: usize) -> f64 {
    let all = (0..ranks).map(|rank| value(rank, index));
    match op {
        ReduceOp::Sum => all.sum::<i64>() as f64,
        ReduceOp::Prod => all.product::<i64>() as f64,
        ReduceOp::Min => all.min().unwrap_or(0) as f64,
        ReduceOp::Max => all.max().unwrap_or(0) as f64,
        ReduceOp::Avg => all.sum::<i64>() as f64 / ranks as f64,
    }
}

/// Compares with the result in exact arithmetic: integers exactly, where an average is rounded towards zero; floats
/// exactly, but for averages, which are within 4 units in the last place: the reciprocal, the product and the sums round.
fn expect<T: Sample>(what: &str, got: &[T], wanted: impl Fn(usize) -> f64) {
    let (whole, unit) = match T::TYPE.name() {
        "f16" => (false, 2f64.powi(-10)),
        "bf16" => (false, 2f64.powi(-7)),
        "f32" => (false, 2f64.powi(-23)),
        "f64" => (false, 2f64.powi(-52)),
        _ => (true, 0.0),
    };
    for (index, got) in got.iter().enumerate() {
        let wanted = wanted(index);
        let fits = match (whole, wanted.fract() == 0.0) {
            (true, _) => got.number() == wanted.trunc(),
            (false, _) => (got.number() - wanted).abs() <= 4.0 * unit * wanted.abs(),
        };
        assert!(fits, "{what} of {}: element {index} is {got:?}, not {wanted}", T::TYPE);
    }
}

const SIZES: [usize; 5] = [0, 1, 31, 32, 33];

fn reductions<T: Sample>(lab: &Lab) -> Result<()> {
    for count in lab.counts() {
        let Ranks { mut ranks, streams } = lab.ranks(count)?;
        for op in ReduceOp::ALL {
            for len in SIZES {
                reductions_of::<T>(&mut ranks, &streams, op, len)?;
            }
        }
    }
    Ok(())
}

/// All-reduce, reduce and reduce-scatter, out of place and in place.
fn reductions_of<T: Sample>(
    ranks: &mut [Communicator],
    streams: &[Stream],
    op: ReduceOp,
    len: usize,
) -> Result<()> {
    let count = ranks.len();
    let buffers = |len: usize| -> Result<Vec<DeviceBuffer<T>>> {
        let of = |(rank, stream)| DeviceBuffer::from_slice(stream, &values::<T>(rank, len));
        Ok(streams.iter().enumerate().map(of).collect::<Result<_, _>>()?)
    };
    let root = count - 1;
    let (sent, mut all, mut inside) = (buffers(len)?, buffers(len)?, buffers(len)?);
    let mut to_root = DeviceBuffer::<T>::zeroed(&streams[root], len)?;
    let (sent_parts, mut part, mut part_inside) =
        (buffers(len * count)?, buffers(len)?, buffers(len * count)?);
    let mut root_inside = buffers(len)?;

    let mut group = Group::new(&mut *ranks);
    let outs = all.iter_mut().zip(&mut inside);
    for (rank, (stream, (all, inside))) in streams.iter().zip(outs).enumerate() {
        group.on(rank)?.all_reduce(stream, &sent[rank], all, op)?;
        group.on(rank)?.all_reduce_in_place(stream, inside, op)?;
    }
    group.run()?;

    let mut group = Group::new(&mut *ranks);
    let mut to = Some(to_root.as_slice_mut());
    for (rank, (stream, inside)) in streams.iter().zip(&mut root_inside).enumerate() {
        let recv = if rank == root { to.take() } else { None };
        group.on(rank)?.reduce(stream, &sent[rank], recv, op, root)?;
        group.on(rank)?.reduce_in_place(stream, inside, op, root)?;
    }
    group.run()?;

    let mut group = Group::new(&mut *ranks);
    let outs = part.iter_mut().zip(&mut part_inside);
    for (rank, (stream, (part, inside))) in streams.iter().zip(outs).enumerate() {
        group.on(rank)?.reduce_scatter(stream, &sent_parts[rank], part, op)?;
        group.on(rank)?.reduce_scatter_in_place(stream, inside, op)?;
    }
    group.run()?;

    let wanted = |index| reduced(op, count, index);
    for (rank, stream) in streams.iter().enumerate() {
        expect("all_reduce", &all[rank].to_vec(stream)?, wanted);
        expect("all_reduce_in_place", &inside[rank].to_vec(stream)?, wanted);
        let part_of = |index| reduced(op, count, rank * len + index);
        expect("reduce_scatter", &part[rank].to_vec(stream)?, part_of);
        let own = part_inside[rank].slice(rank * len..(rank + 1) * len)?.to_vec(stream)?;
        expect("reduce_scatter_in_place", &own, part_of);
        let of_root = root_inside[rank].to_vec(stream)?;
        match rank == root {
            true => expect("reduce_in_place", &of_root, wanted),
            false => assert_eq!(of_root, values::<T>(rank, len), "of another rank than the root"),
        }
    }
    expect("reduce", &to_root.to_vec(&streams[root])?, wanted);
    Ok(())
}

macro_rules! each_type {
    ($($name:ident $ty:ty;)*) => {$(
        #[test]
        fn $name() -> Result<()> {
            let _alone = fake::alone();
            let lab = lab();
            reductions::<$ty>(&lab)?;
            moves::<$ty>(&lab)?;
            fake::no_misuse();
            Ok(())
        }
    )*};
}

each_type! {
    all_of_i8 i8;
    all_of_u8 u8;
    all_of_i32 i32;
    all_of_u32 u32;
    all_of_i64 i64;
    all_of_u64 u64;
    all_of_f32 f32;
    all_of_f64 f64;
}

#[cfg(feature = "half")]
each_type! {
    all_of_f16 f16;
    all_of_bf16 bf16;
}

/// Broadcast, all-gather, gather, scatter, all-to-all and messages.
fn moves<T: Sample>(lab: &Lab) -> Result<()> {
    for count in lab.counts() {
        let Ranks { mut ranks, streams } = lab.ranks(count)?;
        for len in SIZES {
            for root in 0..count {
                moves_by_root::<T>(&mut ranks, &streams, root, len)?;
            }
            moves_of_all::<T>(&mut ranks, &streams, len)?;
        }
    }
    Ok(())
}

fn moves_by_root<T: Sample>(
    ranks: &mut [Communicator],
    streams: &[Stream],
    root: usize,
    len: usize,
) -> Result<()> {
    let count = ranks.len();
    let own = |rank: usize, len| DeviceBuffer::from_slice(&streams[rank], &values::<T>(rank, len));
    let of_all = |len: usize| (0..count).map(|rank| own(rank, len)).collect::<Result<Vec<_>, _>>();
    let sent = of_all(len)?;
    let (mut inside, mut copies, mut parts) = (of_all(len)?, of_all(len)?, of_all(len)?);
    let (from_root, whole) = (own(root, len)?, own(root, len * count)?);
    let mut gathered = DeviceBuffer::<T>::zeroed(&streams[root], len * count)?;

    let mut group = Group::new(&mut *ranks);
    let mut gathers = Some(gathered.as_slice_mut());
    let outs = inside.iter_mut().zip(copies.iter_mut().zip(&mut parts));
    for (rank, (stream, (inside, (copy, part)))) in streams.iter().zip(outs).enumerate() {
        let is_root = rank == root;
        let mut on = group.on(rank)?;
        on.broadcast(stream, inside, root)?;
        on.broadcast_from(stream, is_root.then(|| from_root.as_slice()), copy, root)?;
        on.gather(stream, &sent[rank], if is_root { gathers.take() } else { None }, root)?;
        on.scatter(stream, is_root.then(|| whole.as_slice()), part, root)?;
    }
    group.run()?;

    for (rank, stream) in streams.iter().enumerate() {
        assert_eq!(inside[rank].to_vec(stream)?, values::<T>(root, len), "broadcast");
        assert_eq!(copies[rank].to_vec(stream)?, values::<T>(root, len), "broadcast_from");
        let part = &values::<T>(root, len * count)[rank * len..(rank + 1) * len];
        assert_eq!(parts[rank].to_vec(stream)?, part, "scatter");
    }
    let all: Vec<T> = (0..count).flat_map(|rank| values::<T>(rank, len)).collect();
    assert_eq!(gathered.to_vec(&streams[root])?, all, "gather");
    Ok(())
}

fn moves_of_all<T: Sample>(
    ranks: &mut [Communicator],
    streams: &[Stream],
    len: usize,
) -> Result<()> {
    let count = ranks.len();
    let of_all = |len: usize| -> Result<Vec<DeviceBuffer<T>>> {
        let own = |(rank, stream)| DeviceBuffer::from_slice(stream, &values::<T>(rank, len));
        Ok(streams.iter().enumerate().map(own).collect::<Result<_, _>>()?)
    };
    let (sent, whole) = (of_all(len)?, of_all(len * count)?);
    let (mut all, mut inside, mut turned) =
        (of_all(len * count)?, of_all(len * count)?, of_all(len * count)?);
    let mut from_left = of_all(len)?;

    let mut group = Group::new(&mut *ranks);
    let outs = all.iter_mut().zip(inside.iter_mut().zip(&mut turned));
    for (rank, (stream, (all, (inside, turned)))) in streams.iter().zip(outs).enumerate() {
        let mut on = group.on(rank)?;
        on.all_gather(stream, &sent[rank], all)?;
        on.all_gather_in_place(stream, inside)?;
        on.all_to_all(stream, &whole[rank], turned)?;
    }
    group.run()?;
    // A ring: each rank sends to its right and receives from its left.
    if count > 1 {
        let mut group = Group::new(&mut *ranks);
        for (rank, (stream, from_left)) in streams.iter().zip(&mut from_left).enumerate() {
            let mut on = group.on(rank)?;
            on.send(stream, &sent[rank], (rank + 1) % count)?;
            on.recv(stream, from_left, (rank + count - 1) % count)?;
        }
        group.run()?;
    }

    for (rank, stream) in streams.iter().enumerate() {
        let gathered: Vec<T> = (0..count).flat_map(|rank| values::<T>(rank, len)).collect();
        assert_eq!(all[rank].to_vec(stream)?, gathered, "all_gather");
        let parts: Vec<T> = (0..count)
            .flat_map(|rank| values::<T>(rank, len * count)[rank * len..(rank + 1) * len].to_vec())
            .collect();
        assert_eq!(inside[rank].to_vec(stream)?, parts, "all_gather_in_place");
        let parts: Vec<T> = (0..count)
            .flat_map(|from| values::<T>(from, len * count)[rank * len..(rank + 1) * len].to_vec())
            .collect();
        assert_eq!(turned[rank].to_vec(stream)?, parts, "all_to_all");
        let left = (rank + count - 1) % count;
        assert_eq!(from_left[rank].to_vec(stream)?, values::<T>(left, len), "send and recv");
    }
    Ok(())
}

#[test]
fn a_million_elements() -> Result<()> {
    let _alone = fake::alone();
    let lab = lab();
    let count = lab.contexts.len();
    let Ranks { mut ranks, streams } = lab.ranks(count)?;
    let len = 1 << 20;
    let mut buffers: Vec<DeviceBuffer<i32>> = streams
        .iter()
        .enumerate()
        .map(|(rank, stream)| DeviceBuffer::from_slice(stream, &values::<i32>(rank, len)))
        .collect::<Result<_, _>>()?;
    let mut group = Group::new(&mut ranks);
    for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
    }
    group.run()?;
    for (stream, buffer) in streams.iter().zip(&buffers) {
        expect("all_reduce", &buffer.to_vec(stream)?, |index| reduced(ReduceOp::Sum, count, index));
    }
    fake::no_misuse();
    Ok(())
}

#[test]
fn each_rank_by_its_own_thread() -> Result<()> {
    let _alone = fake::alone();
    let lab = lab();
    let count = lab.contexts.len();
    let Ranks { ranks, streams } = lab.ranks(count)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .zip(&streams)
            .map(|(mut rank, stream)| {
                scope.spawn(move || -> Result<()> {
                    let own = rank.rank();
                    for len in [1, 33, 4096] {
                        let mut buffer =
                            DeviceBuffer::from_slice(stream, &values::<f32>(own, len))?;
                        rank.all_reduce_in_place(stream, &mut buffer, ReduceOp::Max)?;
                        rank.all_reduce_in_place(stream, &mut buffer, ReduceOp::Sum)?;
                        let wanted = |index| reduced(ReduceOp::Max, count, index) * count as f64;
                        expect("two of one rank", &buffer.to_vec(stream)?, wanted);
                        if own == 0 {
                            for peer in 1..count {
                                rank.send(stream, &buffer, peer)?;
                            }
                        } else {
                            let mut from = DeviceBuffer::<f32>::zeroed(stream, len)?;
                            rank.recv(stream, &mut from, 0)?;
                            expect("recv", &from.to_vec(stream)?, wanted);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    fake::no_misuse();
    Ok(())
}

#[test]
fn buffers_are_ordered_with_other_streams() -> Result<()> {
    let _alone = fake::alone();
    let lab = lab();
    let count = lab.contexts.len();
    let Ranks { mut ranks, streams } = lab.ranks(count)?;
    let others: Vec<Stream> =
        lab.contexts.iter().map(|context| context.stream()).collect::<Result<_, _>>()?;
    let len = 100_000;
    let mut buffers: Vec<DeviceBuffer<i64>> =
        streams.iter().map(|stream| DeviceBuffer::zeroed(stream, len)).collect::<Result<_, _>>()?;
    for round in 1..20i64 {
        for (rank, (other, buffer)) in others.iter().zip(&mut buffers).enumerate() {
            buffer.as_slice_mut().fill(other, round * (rank as i64 + 1))?;
        }
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
            group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
        }
        group.run()?;
        let wanted = round * (1..=count as i64).sum::<i64>();
        for (other, buffer) in others.iter().zip(&buffers) {
            assert!(buffer.to_vec(other)?.iter().all(|value| *value == wanted), "round {round}");
        }
    }
    fake::no_misuse();
    Ok(())
}

#[test]
fn split_communicators_reduce_among_themselves() -> Result<()> {
    let _alone = fake::alone();
    let lab = lab();
    let count = lab.contexts.len();
    let Ranks { mut ranks, streams } = lab.ranks(count)?;
    // Even and odd ranks, in reverse order; the last rank joins none.
    let choice = |rank: usize| {
        let color = (rank + 1 < count).then_some((rank % 2) as u32);
        (color, -(rank as i32))
    };
    let mut halves = Communicator::split_all(&mut ranks, choice)?;
    assert_eq!(halves.len(), count);
    let members = |of: usize| (0..count.saturating_sub(1)).filter(move |rank| rank % 2 == of % 2);
    for (rank, half) in halves.iter().enumerate() {
        assert_eq!(half.is_none(), rank + 1 == count);
        let Some(half) = half else { continue };
        let mut order: Vec<usize> = members(rank).collect();
        order.reverse();
        assert_eq!(half.ranks(), order.len());
        assert_eq!(Some(half.rank()), order.iter().position(|of| *of == rank));
    }
    let mut buffers: Vec<DeviceBuffer<u64>> = streams
        .iter()
        .enumerate()
        .map(|(rank, stream)| DeviceBuffer::from_slice(stream, &[1 << rank; 5]))
        .collect::<Result<_, _>>()?;
    let mut group = Group::new(halves.iter_mut().flatten());
    let uses = streams.iter().zip(&mut buffers).take(count.saturating_sub(1));
    for (index, (stream, buffer)) in uses.enumerate() {
        group.on(index)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
    }
    group.run()?;
    for rank in 0..count.saturating_sub(1) {
        let wanted: u64 = members(rank).map(|rank| 1 << rank).sum();
        assert_eq!(buffers[rank].to_vec(&streams[rank])?, [wanted; 5]);
    }
    drop(halves);
    drop(ranks);
    fake::no_misuse();
    Ok(())
}

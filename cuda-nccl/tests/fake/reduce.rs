//! What collectives compute, on the host.

use std::ffi::{c_int, c_void};

use cuda_nccl::raw::{ncclDataType_t, ncclRedOp_t};

use super::functions::Op;

/// One rank's part in a collective.
#[derive(Clone, Copy)]
pub(super) struct Part {
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    data: ncclDataType_t,
    op: ncclRedOp_t,
}

impl From<&Op> for Part {
    fn from(op: &Op) -> Self {
        Self { send: op.send, recv: op.recv, count: op.count, data: op.data, op: op.op }
    }
}

pub(super) fn size(data: ncclDataType_t) -> usize {
    match data {
        ncclDataType_t::ncclInt8 | ncclDataType_t::ncclUint8 => 1,
        ncclDataType_t::ncclFloat16 | ncclDataType_t::ncclBfloat16 => 2,
        ncclDataType_t::ncclInt32 | ncclDataType_t::ncclUint32 | ncclDataType_t::ncclFloat32 => 4,
        _ => 8,
    }
}

fn read(part: &Part, elements: usize) -> Vec<u8> {
    let bytes = elements * size(part.data);
    // SAFETY: the program has promised this many elements, in memory that the host reads by the same address.
    unsafe { std::slice::from_raw_parts(part.send.cast::<u8>(), bytes) }.to_vec()
}

fn write(part: &Part, bytes: &[u8]) {
    // SAFETY: as above; the memory is written by this thread alone, since the streams are done.
    unsafe { std::ptr::copy(bytes.as_ptr(), part.recv.cast::<u8>(), bytes.len()) };
}

pub(super) fn run(parts: &[Part], name: &str, root: c_int) {
    let (first, ranks) = (parts[0], parts.len());
    let root = usize::try_from(root).unwrap_or(0);
    let part_bytes = first.count * size(first.data);
    match name {
        "all_reduce" | "reduce" => {
            let result = reduced(parts, first.count);
            let receives = |rank: usize| name == "all_reduce" || rank == root;
            parts.iter().enumerate().filter(|(rank, _)| receives(*rank)).for_each(|(_, part)| {
                write(part, &result);
            });
        }
        "broadcast" => {
            let sent = read(&parts[root], first.count);
            parts.iter().for_each(|part| write(part, &sent));
        }
        "all_gather" => {
            let all: Vec<u8> = parts.iter().flat_map(|part| read(part, part.count)).collect();
            parts.iter().for_each(|part| write(part, &all));
        }
        "reduce_scatter" => {
            let result = reduced(parts, first.count * ranks);
            for (rank, part) in parts.iter().enumerate() {
                write(part, &result[rank * part_bytes..(rank + 1) * part_bytes]);
            }
        }
        other => panic!("{other}"),
    }
}

fn reduced(parts: &[Part], elements: usize) -> Vec<u8> {
    macro_rules! by_type {
        ($($data:ident $ty:ty, $combine:ident;)*) => {
            match parts[0].data {
                $(ncclDataType_t::$data => {
                    let all: Vec<Vec<$ty>> = parts
                        .iter()
                        .map(|part| bytemuck::pod_collect_to_vec(&read(part, elements)))
                        .collect();
                    let result: Vec<$ty> = (0..elements)
                        .map(|index| $combine!($ty, parts[0].op, all.iter().map(|rank| rank[index]), parts.len()))
                        .collect();
                    bytemuck::cast_slice(&result).to_vec()
                })*
                other => panic!("{other:?}"),
            }
        };
    }
    macro_rules! integers {
        ($ty:ty, $op:expr, $values:expr, $ranks:expr) => {{
            let values = $values;
            match $op {
                ncclRedOp_t::ncclSum => values.fold(0, <$ty>::wrapping_add),
                ncclRedOp_t::ncclProd => values.fold(1, <$ty>::wrapping_mul),
                ncclRedOp_t::ncclMin => values.fold(<$ty>::MAX, <$ty>::min),
                ncclRedOp_t::ncclMax => values.fold(<$ty>::MIN, <$ty>::max),
                _ => values.fold(0, <$ty>::wrapping_add) / ($ranks as $ty),
            }
        }};
    }
    macro_rules! floats {
        ($ty:ty, $op:expr, $values:expr, $ranks:expr) => {{
            let values = $values.map(f64::from);
            let result = match $op {
                ncclRedOp_t::ncclSum => values.sum(),
                ncclRedOp_t::ncclProd => values.product(),
                ncclRedOp_t::ncclMin => values.fold(f64::INFINITY, f64::min),
                ncclRedOp_t::ncclMax => values.fold(f64::NEG_INFINITY, f64::max),
                _ => values.sum::<f64>() / $ranks as f64,
            };
            Rounded::rounded(result)
        }};
    }
    by_type! {
        ncclInt8 i8, integers;
        ncclUint8 u8, integers;
        ncclInt32 i32, integers;
        ncclUint32 u32, integers;
        ncclInt64 i64, integers;
        ncclUint64 u64, integers;
        ncclFloat32 f32, floats;
        ncclFloat64 f64, floats;
        ncclFloat16 half::f16, floats;
        ncclBfloat16 half::bf16, floats;
    }
}

trait Rounded {
    fn rounded(value: f64) -> Self;
}

impl Rounded for f32 {
    fn rounded(value: f64) -> Self {
        value as f32
    }
}

impl Rounded for f64 {
    fn rounded(value: f64) -> Self {
        value
    }
}

impl Rounded for half::f16 {
    fn rounded(value: f64) -> Self {
        Self::from_f64(value)
    }
}

impl Rounded for half::bf16 {
    fn rounded(value: f64) -> Self {
        Self::from_f64(value)
    }
}

//! Converts the arguments of the C functions to the crate's types.

use core::ffi::c_int;
use core::ptr;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::comm::{self, Comm, Config};
use crate::error::{Error, Result};
use crate::kernel::{self, Element};
use crate::plan::{Message, Op, Reduction};
use crate::rank::Link;
use crate::types::{
    Buffer, BufferMut, NCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT, NCCL_UNIQUE_ID_BYTES, ncclComm_t,
    ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId,
};

/// The bytes that ids of this crate begin with.
const MAGIC: [u8; 8] = *b"nccl-emu";

/// Returns a number that ids of other processes do not have.
fn process() -> [u8; 16] {
    static PROCESS: OnceLock<[u8; 16]> = OnceLock::new();
    *PROCESS.get_or_init(|| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        (time << 32 | u128::from(std::process::id())).to_le_bytes()
    })
}

/// Returns the bytes of an id: the magic, the process, and the number.
pub(crate) fn unique_id(number: u64) -> ncclUniqueId {
    let mut id = ncclUniqueId { internal: [0; NCCL_UNIQUE_ID_BYTES] };
    let bytes = MAGIC.into_iter().chain(process()).chain(number.to_le_bytes());
    for (place, byte) in id.internal.iter_mut().zip(bytes) {
        *place = byte;
    }
    id
}

/// Returns the number of an id of this process.
pub(crate) fn id(id: &ncclUniqueId) -> Result<u64> {
    let mut number = [0; 8];
    for (byte, from) in number.iter_mut().zip(&id.internal[24..]) {
        *byte = *from;
    }
    let number = u64::from_le_bytes(number);
    if *id == unique_id(number) {
        return Ok(number);
    }
    Err(Error::argument(
        "commId is no id of this process: pass one of ncclGetUniqueId (this library joins ranks of one process)",
    ))
}

/// Checks a number of ranks and a rank.
pub(crate) fn rank_of(ranks: c_int, rank: c_int) -> Result<(usize, usize)> {
    match (usize::try_from(ranks), usize::try_from(rank)) {
        (Ok(size), Ok(rank)) if rank < size => Ok((size, rank)),
        _ => Err(Error::argument(format!("rank {rank} of {ranks} ranks: ranks count from 0"))),
    }
}

/// Checks the number of another rank.
pub(crate) fn peer(what: &str, peer: c_int, size: usize) -> Result<usize> {
    let number = usize::try_from(peer).ok().filter(|number| *number < size);
    number
        .ok_or_else(|| Error::argument(format!("{what} {peer}: there are {size} ranks, from 0 on")))
}

/// Returns the ranks of a communicator that is ready or finalized.
pub(crate) fn link(handle: ncclComm_t) -> Result<Arc<Link>> {
    comm::find(handle)?.link().ok_or_else(|| {
        Error::argument("the communicator is not ready: call ncclCommGetAsyncError until it returns ncclSuccess")
    })
}

/// Reads a configuration. Null is `default`.
///
/// # Safety
/// `config` is null, or valid for reads of the size that it begins with, but at least up to `maxCTAs`.
pub(crate) unsafe fn config(config: *const ncclConfig_t, default: Config) -> Result<Config> {
    if config.is_null() {
        return Ok(default);
    }
    // SAFETY: the first fields are those of every version; the caller's promise.
    let (size, magic) = unsafe { ((*config).size, (*config).magic) };
    let least = core::mem::offset_of!(ncclConfig_t, netName);
    if magic != NCCL_CONFIG_MAGIC || size < least {
        return Err(Error::argument("config is not initialized by NCCL_CONFIG_INITIALIZER"));
    }
    let mut read = ncclConfig_t::default();
    let bytes = size.min(size_of::<ncclConfig_t>());
    // SAFETY: the caller's promise; both are plain bytes.
    unsafe {
        ptr::copy_nonoverlapping(config.cast::<u8>(), ptr::from_mut(&mut read).cast(), bytes);
    }
    let set = |value: c_int| value != NCCL_CONFIG_UNDEF_INT;
    let checks = [
        ("blocking", read.blocking, !(0..=1).contains(&read.blocking)),
        ("cgaClusterSize", read.cgaClusterSize, read.cgaClusterSize < 0),
        ("minCTAs", read.minCTAs, read.minCTAs <= 0),
        ("maxCTAs", read.maxCTAs, read.maxCTAs <= 0),
        ("splitShare", read.splitShare, !(0..=1).contains(&read.splitShare)),
    ];
    for (name, value, wrong) in checks {
        if set(value) && wrong {
            return Err(Error::argument(format!(
                "config.{name} is {value}, which is out of range"
            )));
        }
    }
    if set(read.minCTAs) && set(read.maxCTAs) && read.minCTAs > read.maxCTAs {
        return Err(Error::argument(format!(
            "config.minCTAs is {} and config.maxCTAs is {}: the first must not be greater",
            read.minCTAs, read.maxCTAs
        )));
    }
    Ok(if set(read.blocking) { Config { blocking: read.blocking == 1 } } else { default })
}

/// Returns the type of a reduction.
pub(crate) fn element(datatype: ncclDataType_t) -> Result<Element> {
    Ok(match datatype {
        ncclDataType_t::ncclInt8 => Element::I8,
        ncclDataType_t::ncclUint8 => Element::U8,
        ncclDataType_t::ncclInt32 => Element::I32,
        ncclDataType_t::ncclUint32 => Element::U32,
        ncclDataType_t::ncclInt64 => Element::I64,
        ncclDataType_t::ncclUint64 => Element::U64,
        ncclDataType_t::ncclFloat16 => Element::F16,
        ncclDataType_t::ncclBfloat16 => Element::Bf16,
        ncclDataType_t::ncclFloat32 => Element::F32,
        ncclDataType_t::ncclFloat64 => Element::F64,
        ncclDataType_t::ncclFloat8e4m3 | ncclDataType_t::ncclFloat8e5m2 => {
            return Err(Error::argument("numbers of 8 bits can be copied, but not reduced"));
        }
        other => return Err(Error::argument(format!("datatype {} is none", other.0))),
    })
}

/// Returns a reduction of a communicator.
pub(crate) fn reduction(
    comm: &Comm,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
) -> Result<Reduction> {
    let element = element(datatype)?;
    let op = match op {
        ncclRedOp_t::ncclSum => Op::Sum,
        ncclRedOp_t::ncclProd => Op::Prod,
        ncclRedOp_t::ncclMin => Op::Min,
        ncclRedOp_t::ncclMax => Op::Max,
        ncclRedOp_t::ncclAvg => Op::Avg,
        ncclRedOp_t(number) => match comm.lock().custom.get(&number) {
            Some(known) if known.datatype == datatype => known.op,
            Some(known) => {
                return Err(Error::argument(format!(
                    "operation {number} was made for datatype {}, and not for {}",
                    known.datatype.0, datatype.0
                )));
            }
            None => {
                return Err(Error::argument(format!("the communicator has no operation {number}")));
            }
        },
    };
    Ok(Reduction { element, op })
}

/// Fails if the arrays of all ranks together are larger than any memory.
pub(crate) fn total(count: usize, datatype: ncclDataType_t, size: usize) -> Result {
    let bytes = kernel::size(datatype).and_then(|one| one.checked_mul(count)?.checked_mul(size));
    match bytes {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        Some(_) => Err(Error::argument(format!("count {count}: no memory is so large"))),
        None => Err(Error::argument(format!("count {count} of datatype {}", datatype.0))),
    }
}

/// The memory of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) send: u64,
    pub(crate) recv: u64,
    /// Bytes of one part.
    pub(crate) bytes: usize,
}

impl Region {
    /// Checks addresses and a count; `None` if there is nothing to do. `reads` and `writes` say which addresses this
    /// rank uses.
    pub(crate) fn new(
        send: Buffer,
        recv: BufferMut,
        count: usize,
        datatype: ncclDataType_t,
        reads: bool,
        writes: bool,
    ) -> Result<Option<Self>> {
        total(count, datatype, 1)?;
        let one = kernel::size(datatype).unwrap_or(1);
        if count == 0 {
            return Ok(None);
        }
        let (send, recv) = (send.expose_provenance(), recv.expose_provenance());
        for (name, address, used) in [("sendbuff", send, reads), ("recvbuff", recv, writes)] {
            if used && (address == 0 || !address.is_multiple_of(one)) {
                return Err(Error::argument(format!(
                    "{name} is {address:#x}: pass memory of the device, aligned to {one} bytes"
                )));
            }
        }
        Ok(Some(Self { send: send as u64, recv: recv as u64, bytes: count * one }))
    }

    /// Returns the message of the n-th part to a rank.
    pub(crate) fn send_to(&self, peer: usize, part: usize) -> Message {
        let address = self.send + (part * self.bytes) as u64;
        Message { sends: true, peer, address, bytes: self.bytes }
    }

    /// Returns the message of a rank to the n-th part.
    pub(crate) fn receive_from(&self, peer: usize, part: usize) -> Message {
        let address = self.recv + (part * self.bytes) as u64;
        Message { sends: false, peer, address, bytes: self.bytes }
    }
}

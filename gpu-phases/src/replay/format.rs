//! The file format of saved launches; [`super`] describes it.

use super::{ReadError, SavedArg, SavedFault, SavedLaunch};
use crate::fault::FaultKind;
use crate::kernel::{Extent, ParamKind};

const MAGIC: [u8; 8] = *b"PHASESRP";
const VERSION: u32 = 1;
/// Magic, version, four zero bytes, length of the body, checksum of the body.
const HEADER: usize = 8 + 4 + 4 + 8 + 8;

/// The 64-bit checksum: FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The 128-bit hash of texts: FNV-1a.
pub(super) fn hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

pub(super) fn write(launch: &SavedLaunch) -> Vec<u8> {
    let mut to = Writer(vec![0; HEADER]);
    to.text(&launch.kernel);
    to.text(&launch.instance);
    to.text(&launch.file);
    to.u32(launch.line);
    to.0.extend(launch.source_hash.to_le_bytes());
    to.u8(u8::from(launch.overflow_checks));
    to.u8(launch.pointer_bytes);
    to.u8(u8::from(launch.big_endian));
    to.u32(launch.extent.dimensions);
    launch.extent.size.iter().for_each(|n| to.u64(*n));
    to.u32(launch.extent.threads);
    to.u32(launch.extent.shared);
    match &launch.fault {
        None => to.u8(0),
        Some(fault) => {
            to.u8(1);
            to.u32(fault.kind as u32);
            to.text(&fault.file);
            to.u32(fault.line);
            to.u64(fault.index);
            to.u64(fault.len);
            fault.element.iter().for_each(|n| to.u64(*n));
            to.u64(fault.block.map_or(0, |block| block.saturating_add(1)));
        }
    }
    to.u32(u32::try_from(launch.args.len()).unwrap_or(u32::MAX));
    for arg in &launch.args {
        to.u8(kind_number(arg.kind));
        to.text(&arg.name);
        to.text(&arg.type_name);
        to.u64(arg.size);
        to.u64(arg.align);
        to.bytes(&arg.before);
        match &arg.after {
            None => to.u8(0),
            Some(after) => {
                to.u8(1);
                to.bytes(after);
            }
        }
    }
    let mut file = to.0;
    let body = file.len() - HEADER;
    let sum = checksum(&file[HEADER..]);
    file[..8].copy_from_slice(&MAGIC);
    file[8..12].copy_from_slice(&VERSION.to_le_bytes());
    file[16..24].copy_from_slice(&(body as u64).to_le_bytes());
    file[24..32].copy_from_slice(&sum.to_le_bytes());
    file
}

pub(super) fn read(file: &[u8]) -> Result<SavedLaunch, ReadError> {
    let mut header = Reader { rest: file, total: file.len() };
    if header.array::<8>("magic number")? != MAGIC {
        return Err(ReadError::NotSaved);
    }
    let version = header.u32("version")?;
    if version != VERSION {
        return Err(ReadError::Version { found: version, known: VERSION });
    }
    let reserved = header.u32("reserved field")?;
    let body = header.u64("length")?;
    let sum = header.u64("checksum")?;
    if body != header.rest.len() as u64 {
        return Err(ReadError::Length { said: body, found: header.rest.len() as u64 });
    }
    if reserved != 0 || checksum(header.rest) != sum {
        return Err(ReadError::Checksum);
    }
    let mut from = header;
    let launch = SavedLaunch {
        kernel: from.text("kernel's name")?,
        instance: from.text("kernel's instance")?,
        file: from.text("source file")?,
        line: from.u32("line")?,
        source_hash: u128::from_le_bytes(from.array("hash of the source")?),
        overflow_checks: from.flag("overflow profile")?,
        pointer_bytes: from.u8("size of pointers")?,
        big_endian: from.flag("byte order")?,
        extent: from.extent()?,
        fault: if from.flag("presence of a fault")? { Some(from.fault()?) } else { None },
        args: {
            let count = from.u32("number of arguments")?;
            // The vector grows as it is read: a wrong count fails at the end of the file.
            let mut args = Vec::new();
            for _ in 0..count {
                args.push(from.arg()?);
            }
            args
        },
    };
    if !from.rest.is_empty() {
        return Err(from.invalid("bytes after the last argument"));
    }
    Ok(launch)
}

fn kind_number(kind: ParamKind) -> u8 {
    match kind {
        ParamKind::Value => 0,
        ParamKind::Read => 1,
        ParamKind::Write => 2,
        ParamKind::Shared => 3,
        ParamKind::Structure => 4,
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    fn invalid(&self, what: &'static str) -> ReadError {
        ReadError::Invalid { what, offset: (self.total - self.rest.len()) as u64 }
    }

    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], ReadError> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else {
            return Err(ReadError::Truncated {
                what,
                offset: (self.total - self.rest.len()) as u64,
            });
        };
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ReadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, ReadError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn flag(&mut self, what: &'static str) -> Result<bool, ReadError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.invalid(what)),
        }
    }

    fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], ReadError> {
        let len = usize::try_from(self.u64(what)?).unwrap_or(usize::MAX);
        self.take(len, what)
    }

    fn text(&mut self, what: &'static str) -> Result<String, ReadError> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| self.invalid(what))
    }

    fn extent(&mut self) -> Result<Extent, ReadError> {
        let dimensions = self.u32("dimensions")?;
        let size = [self.u64("extent")?, self.u64("extent")?, self.u64("extent")?];
        let used = match dimensions {
            1..=3 => dimensions as usize,
            _ => return Err(self.invalid("dimensions")),
        };
        if size[used..].iter().any(|n| *n != 1) {
            return Err(self.invalid("extent"));
        }
        let threads = self.u32("threads of a block")?;
        Ok(Extent { dimensions, size, threads, shared: self.u32("shared memory of a block")? })
    }

    fn fault(&mut self) -> Result<SavedFault, ReadError> {
        let number = self.u32("kind of the fault")?;
        let kind =
            FaultKind::from_number(number).ok_or_else(|| self.invalid("kind of the fault"))?;
        Ok(SavedFault {
            kind,
            file: self.text("file of the fault")?,
            line: self.u32("line of the fault")?,
            index: self.u64("index of the fault")?,
            len: self.u64("length of the fault")?,
            element: [
                self.u64("element of the fault")?,
                self.u64("element of the fault")?,
                self.u64("element of the fault")?,
            ],
            block: self.u64("block of the fault")?.checked_sub(1),
        })
    }

    fn arg(&mut self) -> Result<SavedArg, ReadError> {
        let kind = match self.u8("kind of an argument")? {
            0 => ParamKind::Value,
            1 => ParamKind::Read,
            2 => ParamKind::Write,
            3 => ParamKind::Shared,
            _ => return Err(self.invalid("kind of an argument")),
        };
        let name = self.text("name of an argument")?;
        let type_name = self.text("type of an argument")?;
        let size = self.u64("size of an element")?;
        let align = self.u64("alignment of an element")?;
        let before = self.bytes("bytes of an argument")?.to_vec();
        let after = if self.flag("presence of results")? {
            let after = self.bytes("bytes of results")?.to_vec();
            if after.len() != before.len() || matches!(kind, ParamKind::Value | ParamKind::Read) {
                return Err(self.invalid("bytes of results"));
            }
            Some(after)
        } else {
            None
        };
        let arg = SavedArg { kind, name, type_name, size, align, before, after };
        if !arg.has_whole_elements() {
            return Err(self.invalid("bytes of an argument"));
        }
        Ok(arg)
    }
}

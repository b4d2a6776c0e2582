//! Checks a module image before the driver reads it: whether it is complete, and of which kind.
//!
//! The driver's loading calls take a pointer and no length, so a truncated image makes the driver
//! read memory that is not the caller's. Everything here that names a range of the image is
//! checked against its length: the ELF tables and sections of a cubin, the entries of a fatbin.
//! PTX has no ranges; it is text up to a NUL, which the caller of the driver appends.
//!
//! This is a check of extent, not of meaning: an image of the right shape with nonsense inside is
//! left to the driver, and what a kernel does when it runs is nobody's to check.

use ptx::fatbin::Fatbin;

/// The contents of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageKind {
    /// Machine code of one architecture: an ELF file.
    Cubin,
    /// Cubins and PTX of several architectures, of which the driver takes the best.
    Fatbin,
    /// Assembly text that the driver compiles. It may lack the NUL at its end that the driver
    /// needs.
    Ptx,
}

const ELF_HEADER: u64 = 64;
const SECTION_HEADER: u16 = 64;
const PROGRAM_HEADER: u16 = 56;
const SYMBOL: usize = 24;

/// The ELF file type of object files that are yet to be linked.
const ET_REL: u16 = 1;
/// The ELF machine number of CUDA devices.
const EM_CUDA: u16 = 190;

const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
/// Section types that only reserve device memory and hold no bytes in the file: the usual one, and
/// CUDA's own for global, shared and reserved shared memory.
const WITHOUT_BYTES: [u32; 4] = [8, 0x7000_0007, 0x7000_000a, 0x7000_0015];

/// Says what an image is, or what is wrong with it, in words for the user.
///
/// All ranges that an accepted image names lie inside `bytes`.
pub(crate) fn check(bytes: &[u8]) -> Result<ImageKind, String> {
    match bytes {
        [] => Err("the image is empty".to_owned()),
        [0x7f, b'E', b'L', b'F', ..] => check_cubin(bytes).map(|()| ImageKind::Cubin),
        [0x50, 0xed, 0x55, 0xba, ..] => check_fatbin(bytes).map(|()| ImageKind::Fatbin),
        [0xb1, 0x43, 0x62, 0x46, ..] => {
            Err("this is the wrapper that points to a fatbin in the memory of a program, not a \
             fatbin: pass the bytes that it points to, which begin with 50 ed 55 ba"
                .to_owned())
        }
        [0xed, 0x43, 0x4e, 0x7f, ..] => Err(
            "this is LTO-IR, which no driver loads: link it to a cubin first, or compile without \
             -dlto"
                .to_owned(),
        ),
        _ => check_ptx(bytes).map(|()| ImageKind::Ptx),
    }
}

/// Returns the ISA version that PTX text asks for: `.version 8.0` gives (8, 0).
pub(crate) fn ptx_version(text: &[u8]) -> Option<(u32, u32)> {
    version_directive(text).map(|(version, _)| version)
}

/// Returns the architecture that PTX text is written for, such as `sm_75`.
pub(crate) fn ptx_target(text: &[u8]) -> Option<&str> {
    let (_, rest) = version_directive(text)?;
    let rest = skip_space(after_directive(skip_space(rest), b".target")?);
    let end = rest.iter().position(|&b| !b.is_ascii_alphanumeric() && b != b'_');
    let (name, _) = rest.split_at(end.unwrap_or(rest.len()));
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// Where ELF's tables are, all of them inside the file.
struct Cubin<'a> {
    bytes: &'a [u8],
    sections: &'a [u8],
    /// The string table that holds the sections' names.
    names: u64,
}

/// The fields of a section header that name ranges or other sections.
struct Section {
    name: u32,
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
    entry_size: u64,
}

fn check_cubin(bytes: &[u8]) -> Result<(), String> {
    let half = |at| field(bytes, at).map(u16::from_le_bytes);
    if (half(16), half(18)) == (Ok(ET_REL), Ok(EM_CUDA)) {
        return Err("this cubin is relocatable device code, in which the driver finds no kernel: link it first \
                    (`Linker`), or compile without -rdc"
            .to_owned());
    }
    check_relocatable(bytes)
}

/// Checks a cubin that may be relocatable: an input of a linker.
pub(crate) fn check_relocatable(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err("not a cubin, which is an ELF file".to_owned());
    }
    let cubin = Cubin::open(bytes)?;
    let names = cubin.strings(cubin.names, "the section names")?;
    for index in 0..cubin.len() {
        let section = cubin.section(index)?;
        if section.name as usize >= names.len() {
            return Err(format!("corrupt cubin: the name of section {index} is outside the names"));
        }
        // With very many sections, the first one holds their number where others have a size.
        if index == 0 || WITHOUT_BYTES.contains(&section.kind) {
            continue;
        }
        let what = || format!("section {index}");
        let contents = range(bytes, "cubin", what, section.offset, section.size)?;
        match section.kind {
            SHT_STRTAB if contents.last().is_some_and(|&last| last != 0) => {
                return Err(format!(
                    "corrupt cubin: the strings of section {index} do not end with a NUL"
                ));
            }
            SHT_SYMTAB => {
                if section.entry_size != SYMBOL as u64 {
                    return Err(format!(
                        "corrupt cubin: the symbols of section {index} have {} bytes, not {SYMBOL}",
                        section.entry_size
                    ));
                }
                let of = format!("the symbol names of section {index}");
                let names = cubin.strings(section.link.into(), &of)?;
                for symbol in contents.chunks_exact(SYMBOL) {
                    if u32::from_le_bytes(field(symbol, 0)?) as usize >= names.len() {
                        return Err(format!(
                            "corrupt cubin: a symbol of section {index} has its name outside \
                             section {}",
                            section.link
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

impl<'a> Cubin<'a> {
    /// Checks the file header, the program headers with their ranges, and where the sections are.
    fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let header = range(bytes, "cubin", || "the ELF header".to_owned(), 0, ELF_HEADER)?;
        let half = |at| field(header, at).map(u16::from_le_bytes);
        let wide = |at| field(header, at).map(u64::from_le_bytes);

        let [class, order, version] = field(header, 4)?;
        if (class, order, version) != (2, 1, 1) {
            return Err(format!(
                "an ELF file, but of class {class}, byte order {order}, version {version}: a \
                 cubin is 64-bit (2), little endian (1), version 1"
            ));
        }
        let machine = half(18)?;
        if machine != EM_CUDA {
            return Err(format!(
                "an ELF file, but no cubin: it is for machine {machine}, and CUDA's is {EM_CUDA}"
            ));
        }
        let (programs_at, sections_at) = (wide(32)?, wide(40)?);
        let (header_size, program_size, program_count) = (half(52)?, half(54)?, half(56)?);
        let (section_size, section_count, names) = (half(58)?, half(60)?, half(62)?);
        if u64::from(header_size) < ELF_HEADER {
            return Err(format!("corrupt cubin: an ELF header of {header_size} bytes"));
        }
        if sections_at == 0 || section_size != SECTION_HEADER {
            return Err(format!(
                "corrupt cubin: no section table, or one with headers of {section_size} bytes \
                 instead of {SECTION_HEADER}"
            ));
        }

        // Numbers that do not fit 16 bits are in the first section's header.
        let section_size = u64::from(section_size);
        let what = || "the first section header".to_owned();
        let first = Section::read(range(bytes, "cubin", what, sections_at, section_size)?)?;
        let (count, names, programs) = (
            if section_count == 0 { first.size } else { section_count.into() },
            if names == 0xffff { first.link.into() } else { u64::from(names) },
            u64::from(program_count),
        );
        if programs == 0xffff {
            return Err("a cubin with 65,535 or more program headers".to_owned());
        }
        let what = || format!("the table of {} sections", grouped(count));
        let table_size = count.saturating_mul(section_size);
        let sections = range(bytes, "cubin", what, sections_at, table_size)?;

        if programs > 0 && program_size != PROGRAM_HEADER {
            return Err(format!(
                "corrupt cubin: program headers of {program_size} bytes, not {PROGRAM_HEADER}"
            ));
        }
        let what = || format!("the table of {programs} program headers");
        let table_size = programs * u64::from(PROGRAM_HEADER);
        let table = range(bytes, "cubin", what, programs_at, table_size)?;
        for (index, program) in table.chunks_exact(PROGRAM_HEADER.into()).enumerate() {
            let offset = u64::from_le_bytes(field(program, 8)?);
            let size = u64::from_le_bytes(field(program, 32)?);
            range(bytes, "cubin", || format!("program header {index}"), offset, size)?;
        }
        Ok(Self { bytes, sections, names })
    }

    /// Returns how many sections there are.
    fn len(&self) -> u64 {
        self.sections.len() as u64 / u64::from(SECTION_HEADER)
    }

    fn section(&self, index: u64) -> Result<Section, String> {
        let size = u64::from(SECTION_HEADER);
        let what = || format!("the header of section {index}");
        let offset = index.saturating_mul(size);
        Section::read(range(self.sections, "cubin", what, offset, size)?)
    }

    /// Returns the contents of a string table that the file needs: not empty, and closed by a NUL.
    fn strings(&self, index: u64, what: &str) -> Result<&'a [u8], String> {
        let corrupt = |why: &str| format!("corrupt cubin: {what} are in section {index}, {why}");
        if index == 0 || index >= self.len() {
            return Err(corrupt("which does not exist"));
        }
        let section = self.section(index)?;
        if section.kind != SHT_STRTAB {
            return Err(corrupt("which is no string table"));
        }
        let range_name = || format!("section {index}");
        let contents = range(self.bytes, "cubin", range_name, section.offset, section.size)?;
        match contents.last() {
            Some(0) => Ok(contents),
            _ => Err(corrupt("which does not end with a NUL")),
        }
    }
}

impl Section {
    fn read(header: &[u8]) -> Result<Self, String> {
        Ok(Self {
            name: u32::from_le_bytes(field(header, 0)?),
            kind: u32::from_le_bytes(field(header, 4)?),
            offset: u64::from_le_bytes(field(header, 24)?),
            size: u64::from_le_bytes(field(header, 32)?),
            link: u32::from_le_bytes(field(header, 40)?),
            entry_size: u64::from_le_bytes(field(header, 56)?),
        })
    }
}

/// Returns whether a cubin may have variables in global or constant memory.
/// `true` in case of doubt.
pub(crate) fn may_have_variables(bytes: &[u8]) -> bool {
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => cubin_variables(bytes).unwrap_or(true),
        _ => true,
    }
}

/// Global variables are in sections `.nv.global` and `.nv.global.init`, constant ones in
/// `.nv.constant3`. The other banks of constants hold parameters and the compiler's own constants.
fn cubin_variables(bytes: &[u8]) -> Result<bool, String> {
    let cubin = Cubin::open(bytes)?;
    let names = cubin.strings(cubin.names, "the section names")?;
    for index in 0..cubin.len() {
        let section = cubin.section(index)?;
        let name = names.get(section.name as usize..).unwrap_or_default();
        if name.starts_with(b".nv.global") || name.starts_with(b".nv.constant3") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_fatbin(bytes: &[u8]) -> Result<(), String> {
    let fatbin = Fatbin::parse(bytes).map_err(|error| error.to_string())?;
    for entry in fatbin.entries() {
        // The driver unpacks what is compressed, and knows how many bytes that gave.
        if entry.stored.starts_with(b"\x7fELF") {
            let index = entry.index;
            check_cubin(entry.stored)
                .map_err(|why| format!("entry {index} of the fatbin: {why}"))?;
        }
    }
    Ok(())
}

fn check_ptx(bytes: &[u8]) -> Result<(), String> {
    let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if ptx_version(text).is_none() {
        return Err(not_an_image(bytes));
    }
    match text.iter().position(|&byte| byte == 0) {
        None => Ok(()),
        Some(at) => Err(format!(
            "this PTX has a NUL at byte {}, where the driver would stop reading, of {}",
            grouped(at as u64),
            grouped(bytes.len() as u64)
        )),
    }
}

/// Returns the text for bytes that are nothing we know: how they begin, and what that may mean.
#[cold]
fn not_an_image(bytes: &[u8]) -> String {
    let start = skip_space(bytes);
    let end = start.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(start.len());
    let line: &[u8] = start.get(..end.min(40)).unwrap_or_default();
    let printable = !line.is_empty() && bytes.iter().take(64).all(|&byte| byte >= b'\t');
    if printable {
        format!(
            "neither a cubin (ELF), a fatbin, nor PTX: text that begins with `{}`; PTX begins with \
             a .version directive, and CUDA C++ has to be compiled first",
            String::from_utf8_lossy(line)
        )
    } else {
        let start: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("neither a cubin (ELF), a fatbin, nor PTX: begins with {}", start.join(" "))
    }
}

/// Reads `.version` and its number; gives back what follows.
fn version_directive(text: &[u8]) -> Option<((u32, u32), &[u8])> {
    let number = skip_space(after_directive(skip_space(text), b".version")?);
    let (major, rest) = decimal(number)?;
    let (minor, rest) = decimal(rest.strip_prefix(b".")?)?;
    Some(((major, minor), rest))
}

/// Returns the text after a directive's name, if the text begins with it.
fn after_directive<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = text.strip_prefix(name)?;
    let ends = rest.first().is_some_and(|b| b.is_ascii_whitespace() || *b == b'/');
    ends.then_some(rest)
}

fn decimal(text: &[u8]) -> Option<(u32, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Skips white space and comments, as PTX has them.
fn skip_space(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let end = if text.starts_with(b"//") {
            text.iter().position(|&byte| byte == b'\n')
        } else if let Some(comment) = text.strip_prefix(b"/*") {
            comment.windows(2).position(|pair| pair == b"*/").map(|at| at + 4)
        } else {
            return text;
        };
        text = end.and_then(|end| text.get(end..)).unwrap_or_default();
    }
}

/// Returns the bytes from `offset` on, `size` of them, or the error that they are not there.
fn range<'a>(
    bytes: &'a [u8],
    kind: &str,
    what: impl Fn() -> String,
    offset: u64,
    size: u64,
) -> Result<&'a [u8], String> {
    let found = offset
        .checked_add(size)
        .and_then(|end| bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
    found.ok_or_else(|| match offset.checked_add(size) {
        Some(end) => format!(
            "truncated {kind}: {} reaches to byte {} of {}",
            what(),
            grouped(end),
            grouped(bytes.len() as u64)
        ),
        None => format!("corrupt {kind}: {} reaches beyond 2^64", what()),
    })
}

/// Returns a field of a header whose extent was checked before.
fn field<const N: usize>(header: &[u8], at: usize) -> Result<[u8; N], String> {
    let field = header.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().ok_or_else(|| format!("truncated image: a header ends before byte {}", at + N))
}

/// Returns a number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;

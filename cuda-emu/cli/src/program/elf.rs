//! What an ELF program says of how it will be loaded.

use std::fs::File;

use object::Endianness;
use object::elf::{ELFCLASS64, ELFDATA2MSB, FileHeader64, SHT_DYNSYM, SHT_SYMTAB};
use object::elf::{EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_X86_64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, Sym};

/// The machine whose programs load the device's library.
const OWN: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(EM_X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(EM_AARCH64)
} else {
    None
};

/// The function by which nvcc's host code registers its kernels, and the section that has them.
const REGISTER: &[u8] = b"__cudaRegisterFatBinary";
const KERNELS: &[u8] = b".nvFatBinSegment";

/// Returns why a program will not load the device's library; `None` if it may. `head` is the beginning of the file.
pub(super) fn unfit(file: File, head: &[u8]) -> Option<String> {
    let (Some(&class), Some(&order)) = (head.get(4), head.get(5)) else { return Some(damaged()) };
    let Some(&[first, second]) = head.get(18..20) else { return Some(damaged()) };
    let machine = if order == ELFDATA2MSB {
        u16::from_be_bytes([first, second])
    } else {
        u16::from_le_bytes([first, second])
    };
    if OWN.is_some_and(|own| own != machine) {
        let own = std::env::consts::ARCH;
        return Some(format!("is for {}, and this machine is {own}", machine_name(machine)));
    }
    if class != ELFCLASS64 {
        return Some("has 32 bits, and the device's library 64".to_owned());
    }
    let data = ReadCache::new(file);
    read(&data).unwrap_or_else(|_| Some(damaged()))
}

fn damaged() -> String {
    "is damaged: its ELF headers cannot be read".to_owned()
}

fn machine_name(machine: u16) -> String {
    match machine {
        EM_386 => "32-bit x86".to_owned(),
        EM_X86_64 => "x86_64".to_owned(),
        EM_ARM => "32-bit ARM".to_owned(),
        EM_AARCH64 => "aarch64".to_owned(),
        EM_PPC64 => "powerpc64".to_owned(),
        EM_RISCV => "RISC-V".to_owned(),
        other => format!("another machine (ELF number {other})"),
    }
}

/// Reads the headers.
fn read(data: &ReadCache<File>) -> object::read::Result<Option<String>> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let mut loader = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            loader = Some(path);
        }
    }
    let Some(loader) = loader else {
        return Ok(Some(
            "is statically linked: it loads no libraries, so it cannot find the device; link it dynamically".to_owned(),
        ));
    };
    let name = loader.rsplit(|&byte| byte == b'/').next().unwrap_or(loader);
    if name.starts_with(b"ld-musl") {
        return Ok(Some("is linked with musl, and the device's library needs glibc".to_owned()));
    }
    let loader_path = String::from_utf8_lossy(loader);
    if !std::path::Path::new(&*loader_path).exists() {
        return Ok(Some(format!("needs the loader {loader_path}, which is not on this machine")));
    }
    Ok(has_static_runtime(header, endian, data)?.then(|| {
        "has NVIDIA's runtime linked into it, which needs NVIDIA's driver: link it with `nvcc -cudart shared`".to_owned()
    }))
}

/// Returns whether the program has NVIDIA's runtime in itself: it defines the function that registers kernels, or it
/// has kernels to register and does not import that function.
fn has_static_runtime(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    data: &ReadCache<File>,
) -> object::read::Result<bool> {
    let sections = header.sections(endian, data)?;
    let (mut imports, mut defines) = (false, false);
    for table in [SHT_DYNSYM, SHT_SYMTAB] {
        let symbols = sections.symbols(endian, data, table)?;
        for symbol in symbols.iter() {
            if symbol.name(endian, symbols.strings())? == REGISTER {
                if symbol.is_undefined(endian) {
                    imports = true;
                } else {
                    defines = true;
                }
            }
        }
    }
    let mut kernels = false;
    for section in sections.iter() {
        kernels |= sections.section_name(endian, section)? == KERNELS;
    }
    Ok(defines || kernels && !imports)
}

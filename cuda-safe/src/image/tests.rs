//! Images built by hand: whole, truncated at every length, and damaged at random.

use proptest::prelude::*;

use super::{ImageKind, check, may_have_variables, ptx_target, ptx_version};

/// A section of a cubin under construction: name offset, type, contents, size if not theirs.
struct Part {
    name: u32,
    kind: u32,
    contents: Vec<u8>,
    reserves: u64,
    link: u32,
    entry_size: u64,
}

fn part(name: u32, kind: u32, contents: &[u8]) -> Part {
    Part { name, kind, contents: contents.to_vec(), reserves: 0, link: 0, entry_size: 0 }
}

const TEXT: usize = 2;
const TABLE_ENTRY: usize = 64;

/// Returns an ELF file with section names, code, a symbol, uninitialised memory and one program header; its tables are
/// last, program headers after the sections.
fn cubin() -> Vec<u8> {
    named(b"\0.names\0")
}

/// Returns the same, where the first section's name is the first of `names`.
fn named(names: &[u8]) -> Vec<u8> {
    let mut symbols = part(1, 2, &[0; 48]);
    symbols.contents[24] = 1;
    (symbols.link, symbols.entry_size) = (4, 24);
    let mut global = part(1, 8, &[]);
    global.reserves = 1 << 22;
    let parts = [
        part(0, 0, &[]),
        part(1, 3, names),
        part(1, 1, &[0xab; 32]),
        symbols,
        part(1, 3, b"\0kernel\0"),
        global,
    ];

    let mut bytes = vec![0; 64];
    let mut table = Vec::new();
    for part in &parts {
        let size = part.contents.len() as u64 + part.reserves;
        table.extend(part.name.to_le_bytes());
        table.extend(part.kind.to_le_bytes());
        table.extend([0; 16]);
        table.extend((bytes.len() as u64).to_le_bytes());
        table.extend(size.to_le_bytes());
        table.extend(part.link.to_le_bytes());
        table.extend([0; 12]);
        table.extend(part.entry_size.to_le_bytes());
        bytes.extend(&part.contents);
    }
    let sections_at = bytes.len() as u64;
    bytes.extend(&table);
    let programs_at = bytes.len() as u64;
    bytes.extend([0; 56]);
    set(&mut bytes, programs_at as usize + 8, &72_u64.to_le_bytes());
    set(&mut bytes, programs_at as usize + 32, &32_u64.to_le_bytes());

    set(&mut bytes, 0, b"\x7fELF\x02\x01\x01\x33\x07");
    set(&mut bytes, 16, &2_u16.to_le_bytes());
    set(&mut bytes, 18, &190_u16.to_le_bytes());
    set(&mut bytes, 32, &programs_at.to_le_bytes());
    set(&mut bytes, 40, &sections_at.to_le_bytes());
    for (at, value) in [(52, 64), (54, 56), (56, 1), (58, 64), (60, parts.len() as u16), (62, 1)] {
        set(&mut bytes, at, &value.to_le_bytes());
    }
    bytes
}

fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> u128 {
    bytes[at..at + N].iter().rev().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// Returns where the header of a section is.
fn section_at(bytes: &[u8], index: usize) -> usize {
    get::<8>(bytes, 40) as usize + index * TABLE_ENTRY
}

/// Returns each range that an ELF file names, worked out without regard to overflow or order.
fn cubin_ranges(bytes: &[u8]) -> Vec<(u128, u128)> {
    let (programs_at, sections_at) = (get::<8>(bytes, 32), get::<8>(bytes, 40));
    let programs = get::<2>(bytes, 56);
    let sections = match get::<2>(bytes, 60) {
        0 => get::<8>(bytes, sections_at as usize + 32),
        count => count,
    };
    let mut ranges = vec![(programs_at, programs * 56), (sections_at, sections * 64)];
    for index in 0..programs as usize {
        let at = programs_at as usize + index * 56;
        ranges.push((get::<8>(bytes, at + 8), get::<8>(bytes, at + 32)));
    }
    for index in 1..sections as usize {
        let at = sections_at as usize + index * 64;
        if ![8, 0x7000_0007, 0x7000_000a, 0x7000_0015].contains(&get::<4>(bytes, at + 4)) {
            ranges.push((get::<8>(bytes, at + 24), get::<8>(bytes, at + 32)));
        }
    }
    ranges
}

fn fatbin(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut contents = Vec::new();
    for entry in entries {
        contents.extend([2, 0, 1, 1]);
        contents.extend(64_u32.to_le_bytes());
        contents.extend((entry.len() as u64).to_le_bytes());
        contents.extend([0; 48]);
        contents.extend(entry);
    }
    let mut bytes = b"\x50\xed\x55\xba\x01\x00\x10\x00".to_vec();
    bytes.extend((contents.len() as u64).to_le_bytes());
    bytes.extend(contents);
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    match check(bytes) {
        Ok(kind) => panic!("accepted as {kind:?}"),
        Err(why) => why,
    }
}

#[test]
fn whole_images_are_told_apart() {
    assert_eq!(check(&cubin()), Ok(ImageKind::Cubin));
    assert_eq!(check(&fatbin(&[cubin(), b"compressed".to_vec()])), Ok(ImageKind::Fatbin));
    assert_eq!(check(b"// c\n.version 8.0\n.target sm_75\n"), Ok(ImageKind::Ptx));
    assert_eq!(check(b".version 8.0\n.target sm_75\n\0"), Ok(ImageKind::Ptx));
}

#[test]
fn sections_tell_whether_there_are_variables() {
    assert!(!may_have_variables(&cubin()));
    for name in ["\0.nv.constant0.kernel\0", "\0.text.kernel\0"] {
        assert!(!may_have_variables(&named(name.as_bytes())), "{name}");
    }
    for name in ["\0.nv.global\0", "\0.nv.global.init\0", "\0.nv.constant3\0"] {
        assert!(may_have_variables(&named(name.as_bytes())), "{name}");
    }
    assert!(may_have_variables(b"\x7fELF"), "in case of doubt");
}

#[test]
fn a_cubin_or_fatbin_without_its_last_bytes_is_refused_at_every_length() {
    for whole in [cubin(), fatbin(&[cubin()])] {
        for length in 0..whole.len() {
            assert!(check(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
        }
    }
}

#[test]
fn a_truncated_cubin_is_refused_wherever_its_tables_are() {
    // The tables are moved to the front, so that truncation cuts sections instead.
    let tables_last = cubin();
    let sections_at = section_at(&tables_last, 0);
    let tables = tables_last.len() - sections_at;
    let mut bytes = tables_last[..64].to_vec();
    bytes.extend(&tables_last[sections_at..]);
    bytes.extend(&tables_last[64..sections_at]);
    set(&mut bytes, 40, &64_u64.to_le_bytes());
    set(&mut bytes, 32, &(64 + 6 * 64_u64).to_le_bytes());
    for index in 1..6 {
        let at = section_at(&bytes, index) + 24;
        let offset = get::<8>(&bytes, at) as u64 + tables as u64;
        set(&mut bytes, at, &offset.to_le_bytes());
    }
    assert_eq!(check(&bytes), Ok(ImageKind::Cubin));
    for length in 0..bytes.len() {
        assert!(check(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
}

#[test]
fn refusals_say_what_reaches_where() {
    let mut bytes = cubin();
    let length = bytes.len();
    let at = section_at(&bytes, TEXT);
    set(&mut bytes, at + 32, &12_345_u64.to_le_bytes());
    let end = get::<8>(&bytes, at + 24) + 12_345;
    assert_eq!(end, 12_417);
    assert_eq!(
        refusal(&bytes),
        format!("truncated cubin: section 2 reaches to byte 12,417 of {length}")
    );
    set(&mut bytes, at + 32, &u64::MAX.to_le_bytes());
    assert_eq!(refusal(&bytes), "corrupt cubin: section 2 reaches beyond 2^64");
    assert_eq!(refusal(&[]), "the image is empty");
    let bytes = [0, 1, 2, 3, 4, 5, 6, 7, 8];
    assert!(refusal(&bytes).ends_with("begins with 00 01 02 03 04 05 06 07"));
    let why = refusal(b"// kernel\nextern \"C\" __global__ void f() {}\n");
    assert!(why.contains("`extern \"C\" __global__ void f() {}`"), "{why}");
}

#[test]
fn relatives_that_cannot_be_loaded_are_called_by_name() {
    let cases: [(&[u8], &str); 2] = [
        (b"\xb1\x43\x62\x46\x01\0\0\0\0\0\0\0\0\0\0\0", "wrapper"),
        (b"\xed\x43\x4e\x7f\x01\x41\x02\x62", "LTO-IR"),
    ];
    for (bytes, name) in cases {
        assert!(refusal(bytes).contains(name));
    }
    let mut bytes = cubin();
    set(&mut bytes, 18, &62_u16.to_le_bytes());
    assert!(refusal(&bytes).contains("machine 62"));
    let mut bytes = cubin();
    set(&mut bytes, 16, &1_u16.to_le_bytes());
    assert!(refusal(&bytes).contains("-rdc"));
}

#[test]
fn damaged_headers_of_a_cubin_are_refused() {
    let whole = cubin();
    let symbols = section_at(&whole, 3);
    let cases: [(&str, usize, &[u8]); 11] = [
        ("32-bit", 4, &[1]),
        ("big endian", 5, &[2]),
        ("short header", 52, &[63]),
        ("program header size", 54, &[55]),
        ("section header size", 58, &[40]),
        ("names in section 0", 62, &[0]),
        ("names in code", 62, &[2]),
        ("names nowhere", 62, &[6]),
        ("symbol names nowhere", symbols + 40, &[9]),
        ("symbol size", symbols + 56, &[16]),
        ("section name outside the names", symbols, &[8]),
    ];
    for (what, at, value) in cases {
        let mut bytes = whole.clone();
        set(&mut bytes, at, value);
        assert!(check(&bytes).is_err(), "{what}");
    }
    // The last byte of the section names, then a symbol name past the end of its table.
    for (at, value) in [(71, b'x'), (64 + 8 + 32 + 24, 8)] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        assert!(check(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn a_section_count_beyond_16_bits_is_read_from_the_first_section() {
    let mut bytes = cubin();
    let first = section_at(&bytes, 0);
    set(&mut bytes, 60, &[0, 0, 0xff, 0xff]);
    set(&mut bytes, first + 32, &6_u64.to_le_bytes());
    set(&mut bytes, first + 40, &1_u32.to_le_bytes());
    assert_eq!(check(&bytes), Ok(ImageKind::Cubin));
    for count in [8, 1 << 58, u64::MAX] {
        set(&mut bytes, first + 32, &count.to_le_bytes());
        assert!(refusal(&bytes).contains("sections reaches "), "{count}");
    }
}

#[test]
fn entries_of_a_fatbin_are_checked_inside() {
    let mut bad = cubin();
    bad.pop();
    let why = refusal(&fatbin(&[cubin(), bad]));
    assert!(why.starts_with("entry 1 of the fatbin: truncated cubin"), "{why}");
    let mut bytes = fatbin(&[cubin()]);
    set(&mut bytes, 20, &15_u32.to_le_bytes());
    assert!(refusal(&bytes).contains("header of 15 bytes"));
    // The sizes are 16 bytes of header and 64 of the entry's; bytes after the contents do not count.
    let mut bytes = fatbin(&[vec![0; 40]]);
    set(&mut bytes, 24, &41_u64.to_le_bytes());
    bytes.extend([0; 100]);
    assert_eq!(refusal(&bytes), "truncated fatbin: entry 0 reaches to byte 121 of 120");
    set(&mut bytes, 24, &u64::MAX.to_le_bytes());
    assert_eq!(refusal(&bytes), "corrupt fatbin: entry 0 reaches beyond 2^64");
    let mut bytes = fatbin(&[]);
    bytes[4] = 2;
    assert!(refusal(&bytes).contains("version 2"));
}

#[test]
fn ptx_ends_at_its_first_nul() {
    assert!(refusal(b".version 8.0\n\0.target sm_75\n").contains("a NUL at byte 13"));
    assert!(refusal(b".version 8.0\n\0\0").contains("a NUL at byte 13"));
    assert!(check(b".version\n").is_err());
    assert!(check(b".versions 8.0\n").is_err());
    assert!(check(b".target sm_75\n.version 8.0\n").is_err());
    assert!(check(b"/* .version 8.0\n").is_err());
}

#[test]
fn version_and_target_are_found_between_comments() {
    let text = b"//\n// .version 1.0\n/* .version 2.0 * / **/ .version/**/8.0 // x\n\
                 \t.target sm_90a, debug\n";
    assert_eq!((ptx_version(text), ptx_target(text)), (Some((8, 0)), Some("sm_90a")));
    assert_eq!(ptx_target(b".version 8.0\n.address_size 64\n"), None);
    assert_eq!(ptx_target(b".version 8.0\n.target ,\n"), None);
    for text in [&b".version 8"[..], b".version 8.", b".version 99999999999.0", b"", b"//"] {
        assert_eq!(ptx_version(text), None);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        magic in prop::sample::select(vec![
            &b"\x7fELF\x02\x01\x01"[..],
            b"\x50\xed\x55\xba\x01\0\x10\0",
            b".version ",
        ]),
    ) {
        let _ = check(&bytes);
        bytes.splice(0..0, magic.iter().copied());
        let _ = check(&bytes);
        let _ = (ptx_version(&bytes), ptx_target(&bytes));
    }

    #[test]
    fn an_accepted_cubin_names_only_ranges_inside(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tables in any::<bool>(),
        cut in 0..3_usize,
    ) {
        let mut bytes = cubin();
        // Half of the cases damage only the tables, with the offsets and sizes.
        let from = if tables { section_at(&bytes, 0) } else { 0 };
        for (at, value) in changes {
            let at = from + at.index(bytes.len() - from);
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut);
        if check(&bytes) == Ok(ImageKind::Cubin) {
            for (offset, size) in cubin_ranges(&bytes) {
                prop_assert!(offset + size <= bytes.len() as u128, "{offset} + {size}");
            }
        }
    }

    #[test]
    fn an_accepted_fatbin_is_walked_to_its_end(
        changes in prop::collection::vec((0..400_usize, any::<u8>()), 0..4),
    ) {
        let mut bytes = fatbin(&[vec![7; 40], vec![8; 24]]);
        let length = bytes.len();
        for (at, value) in changes {
            bytes[at % length] = value;
        }
        if check(&bytes) == Ok(ImageKind::Fatbin) {
            let mut at = get::<2>(&bytes, 6);
            let end = at + get::<8>(&bytes, 8);
            prop_assert!(end <= length as u128);
            while at < end {
                let header = get::<4>(&bytes, at as usize + 4);
                at += header + get::<8>(&bytes, at as usize + 8);
                prop_assert!(header >= 16 && at <= end);
            }
            prop_assert_eq!(at, end);
        }
    }
}

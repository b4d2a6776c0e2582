//! Fat binaries: those of NVIDIA's `fatbinary` 13.0, those of the tests' own writer, and hostile ones.

use proptest::prelude::*;
use ptx::fatbin::{Compression, Fatbin, FatbinError, Kind, Specific};
use test_support::fatbin::{Entry, LTO, Packing, write};

/// `fatbinary --image3=kind=ptx,sm=75,file=scale.ptx --image3=kind=ptx,sm=80,file=…` with `--compress-mode` none,
/// speed and size. The second file has `sm_80` where the first has `sm_75`.
const REAL: [(Compression, &[u8]); 3] = [
    (Compression::None, include_bytes!("data/fatbin/plain.fatbin")),
    (Compression::Lz4, include_bytes!("data/fatbin/lz4.fatbin")),
    (Compression::Zstd, include_bytes!("data/fatbin/zstd.fatbin")),
];

const SCALE: &str = include_str!("data/fatbin/scale.ptx");

const MOST: usize = 1 << 20;

fn text(sm: &str) -> String {
    format!(".version 8.0\n.target sm_{sm}\n.address_size 64\n// {}\n", sm.repeat(40))
}

/// A fat binary of all packings: PTX for 75, 80 and 90a, machine code for 86.
fn sample() -> Vec<u8> {
    let mut specific = Entry::ptx(90, &text("90a"), Packing::Lz4);
    specific.suffix = "a";
    let mut machine = Entry::ptx(86, "machine code", Packing::Zstd);
    machine.kind = 2;
    write(&[
        Entry::ptx(75, &text("75"), Packing::Plain),
        machine,
        Entry::ptx(80, &text("80"), Packing::Zstd),
        specific,
    ])
}

/// Reads everything; whatever is returned keeps the limits.
fn walk(bytes: &[u8]) -> Result<usize, FatbinError> {
    let fatbin = Fatbin::parse(bytes)?;
    let mut total = 0;
    for entry in fatbin.entries() {
        match entry.contents(MOST) {
            Ok(contents) => {
                assert!(contents.len() <= MOST.max(bytes.len()));
                total += contents.len();
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let _ = entry.ptx(MOST);
    }
    for device in [50, 75, 90, 103, u32::MAX] {
        match fatbin.ptx_for(device) {
            Ok(entry) => assert!(entry.kind == Kind::Ptx && entry.arch.runs_on(device)),
            Err(error) => assert!(error.to_string().contains("-gencode")),
        }
    }
    Ok(total)
}

#[test]
fn fatbinarys_files_are_read_in_every_compression() {
    for (compression, bytes) in REAL {
        let fatbin = Fatbin::parse(bytes).unwrap();
        let [first, second] = fatbin.entries() else { panic!("{fatbin:?}") };
        assert_eq!((first.kind, second.kind), (Kind::Ptx, Kind::Ptx));
        assert_eq!((first.arch.number, second.arch.number), (75, 80));
        assert_eq!((first.compression, second.compression), (compression, compression));
        assert_eq!(first.ptx(MOST).unwrap(), SCALE);
        assert_eq!(second.ptx(MOST).unwrap(), SCALE.replace("sm_75", "sm_80"));
        assert!(ptx::parse(&first.ptx(MOST).unwrap()).is_ok());
    }
}

#[test]
fn a_written_file_reads_back() {
    let bytes = sample();
    let fatbin = Fatbin::parse(&bytes).unwrap();
    let texts: Vec<_> = fatbin.entries().iter().map(|entry| entry.ptx(MOST).ok()).collect();
    assert_eq!(texts, [Some(text("75")), None, Some(text("80")), Some(text("90a"))]);
    let machine = fatbin.entries()[1];
    assert_eq!((machine.kind, machine.arch.number), (Kind::Cubin, 86));
    assert_eq!(&*machine.contents(MOST).unwrap(), b"machine code");
    assert_eq!(fatbin.entries()[3].arch.specific, Specific::Architecture);
    assert_eq!(fatbin.entries()[3].arch.to_string(), "90a");
    let header = bytes.first_chunk().unwrap();
    assert_eq!(Fatbin::size(header), Some(bytes.len() as u64));
}

#[test]
fn the_ptx_for_the_highest_architecture_that_fits_is_chosen() {
    let bytes = sample();
    let fatbin = Fatbin::parse(&bytes).unwrap();
    let chosen = |device| fatbin.ptx_for(device).map(|entry| entry.arch.to_string());
    for (device, arch) in [(75, "75"), (79, "75"), (80, "80"), (89, "80"), (90, "90a"), (100, "80")]
    {
        assert_eq!(chosen(device), Ok(arch.to_owned()), "{device}");
    }
    assert_eq!(
        chosen(70).unwrap_err().to_string(),
        "the fatbin has no PTX for compute capability 7.0: it has PTX for compute_75, machine code for sm_86, PTX for \
         compute_80, PTX for compute_90a; compile it with -gencode arch=compute_70,code=compute_70"
    );
    assert!(Fatbin::parse(&write(&[])).unwrap().ptx_for(90).is_err());
}

#[test]
fn lto_ir_of_nvcc_is_found_and_handed_on_as_it_is_stored() {
    let [both, encoded, plain] = LTO.map(|bytes| Fatbin::parse(bytes).unwrap());
    let kinds: Vec<_> = both.entries().iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [Kind::Ptx, Kind::LtoIr]);
    assert!(both.ptx_for(90).is_ok() && both.lto_ir_for(89).is_none());
    assert_eq!(both.lto_ir_for(100).map(|entry| entry.arch.number), Some(90));
    for fatbin in [&both, &encoded, &plain] {
        let entry = fatbin.lto_ir_for(90).unwrap();
        let alone = entry.alone().unwrap();
        let again = Fatbin::parse(&alone).unwrap();
        let [only] = again.entries() else { panic!("{again:?}") };
        assert_eq!((only.arch, only.stored), (entry.arch, entry.stored));
    }
    let entry = plain.lto_ir_for(80).unwrap();
    assert!(!entry.is_encoded() && entry.contents(MOST).unwrap().starts_with(b"\xed\x43\x4e\x7f"));
    let entry = encoded.lto_ir_for(80).unwrap();
    let error = entry.contents(MOST).unwrap_err().to_string();
    assert!(entry.is_encoded() && error.contains("only NVIDIA's linkers"), "{error}");
    let error = encoded.ptx_for(90).unwrap_err().to_string();
    assert!(
        error.contains("it has LTO-IR for sm_80; link the LTO-IR (`nvrtc::Linker`), or"),
        "{error}"
    );
}

#[test]
fn a_header_that_points_outside_is_not_handed_on() {
    let [_, encoded, plain] = LTO;
    for whole in [encoded, plain] {
        // The compressed size, the place of the options, and their position and length.
        for at in [0x10, 0x14, 0x40, 0x44] {
            for value in [1, 0x3f, 0x77, 0x78, 0x1000, u32::MAX] {
                let mut bytes = whole.to_vec();
                bytes[16 + at..20 + at].copy_from_slice(&value.to_le_bytes());
                let fatbin = Fatbin::parse(&bytes).unwrap();
                let alone = fatbin.entries()[0].alone();
                let fits = at == 0x10 && value < 0x1000;
                assert_eq!(alone.is_ok(), fits, "{at:#x}: {value:#x}");
            }
        }
    }
}

#[test]
fn ptx_of_a_family_runs_on_its_family_alone() {
    let mut family = Entry::ptx(100, &text("100f"), Packing::Plain);
    family.suffix = "f";
    let bytes = write(&[Entry::ptx(80, &text("80"), Packing::Plain), family]);
    let fatbin = Fatbin::parse(&bytes).unwrap();
    let chosen = |device| fatbin.ptx_for(device).unwrap().arch.to_string();
    assert_eq!([90, 100, 101, 103, 120].map(chosen), ["80", "100f", "80", "100f", "80"]);
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    for whole in REAL.iter().map(|(_, bytes)| bytes.to_vec()).chain([sample()]) {
        assert!(walk(&whole).is_ok());
        for length in 0..whole.len() {
            let error = walk(&whole[..length]).expect_err("a part is no fat binary");
            let named = matches!(error, FatbinError::Magic | FatbinError::Truncated { .. });
            assert!(named, "{length}: {error}");
        }
    }
}

#[test]
fn sizes_of_terabytes_are_refused_before_memory_is_taken() {
    let whole = sample();
    let change = |at: usize, value: u64| {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    for value in [1 << 40, u64::MAX - 15, u64::MAX] {
        // The size in the header, and that of the first entry.
        assert!(matches!(
            Fatbin::parse(&change(8, value)),
            Err(FatbinError::Truncated { .. } | FatbinError::Corrupt(_))
        ));
        assert!(matches!(
            Fatbin::parse(&change(24, value)),
            Err(FatbinError::Truncated { .. } | FatbinError::Corrupt(_))
        ));
    }
    // The size after decompression, of every compressed entry. A limit as large as the address space does not help.
    let fatbin = Fatbin::parse(&whole).unwrap();
    for entry in fatbin.entries().iter().filter(|e| e.compression != Compression::None) {
        let header = if entry.kind == Kind::Ptx { 80 } else { 64 };
        let at = entry.stored.as_ptr() as usize - whole.as_ptr() as usize - header + 0x38;
        for value in [1 << 40, 1 << 62, u64::MAX] {
            let bytes = change(at, value);
            let entry = Fatbin::parse(&bytes).unwrap().entries()[entry.index];
            let error = entry.contents(usize::MAX).unwrap_err();
            assert!(matches!(error, FatbinError::Contents { .. }), "{error}");
            assert!(entry.contents(MOST).unwrap_err().to_string().contains("are allowed"));
        }
        // One byte more or less than there is.
        for value in [entry.contents(MOST).unwrap().len() as u64 + 1, 1, 0] {
            let bytes = change(at, value);
            assert!(Fatbin::parse(&bytes).unwrap().entries()[entry.index].contents(MOST).is_err());
        }
    }
}

#[test]
fn a_zstd_window_of_a_terabyte_is_refused() {
    let frame = |window: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, window, 1, 0, 0];
    for (window, accepted) in [(0, true), (0x68, true), (0x69, false), (0xf0, false), (0xff, false)]
    {
        let mut bytes = write(&[Entry::ptx(75, "", Packing::Zstd)]);
        let header = 16 + 80;
        bytes.truncate(header);
        bytes.extend(frame(window));
        bytes.resize(header + 16, 0);
        bytes[8..16].copy_from_slice(&96_u64.to_le_bytes());
        bytes[24..32].copy_from_slice(&16_u64.to_le_bytes());
        bytes[32..36].copy_from_slice(&9_u32.to_le_bytes());
        let fatbin = Fatbin::parse(&bytes).unwrap();
        let contents = fatbin.entries()[0].contents(MOST);
        assert_eq!(contents.is_ok(), accepted, "{window:#x}: {contents:?}");
    }
}

#[test]
fn other_bytes_are_refused() {
    let bad = |bytes: &[u8]| Fatbin::parse(bytes).unwrap_err().to_string();
    assert_eq!(bad(b""), "not a fatbin: it does not begin with 50 ed 55 ba");
    assert_eq!(bad(b"\x7fELF"), "not a fatbin: it does not begin with 50 ed 55 ba");
    let mut version = sample();
    version[4] = 2;
    assert!(bad(&version).starts_with("a fatbin of version 2 with a header of 16 bytes"));
    let mut both = sample();
    both[16 + 0x29] |= 0xa0;
    assert!(bad(&both).ends_with("compressed with both LZ4 and zstd"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn changed_bytes_are_read_or_refused(
        which in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = REAL.get(which).map_or_else(sample, |(_, bytes)| bytes.to_vec());
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = walk(&bytes);
    }

    #[test]
    fn any_contents_survive_every_packing(contents in prop::collection::vec(0..9_u8, 0..3000)) {
        for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
            let entry = Entry { kind: 2, sm: 90, suffix: "", packing, contents: contents.clone() };
            let bytes = write(&[entry.clone(), entry]);
            let fatbin = Fatbin::parse(&bytes).unwrap();
            for entry in fatbin.entries() {
                let found = entry.contents(MOST).unwrap();
                prop_assert_eq!(&found[..contents.len()], &contents[..]);
                prop_assert!(found[contents.len()..].iter().all(|&byte| byte == 0));
            }
        }
    }
}

//! Arrays, textures and surfaces, compared with what an H200 returned and with a filter in f64.

mod common;

use core::ptr;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_RESOURCE_DESC, CUarray,
    CUarray_format, CUmemorytype, CUresourcetype, CUresult,
};
use texture_goldens::{
    Content, Coordinates, Device, Format, Geometry, INPUTS, Mode, Operation, describe, difference,
    hash, inputs, mistakes, modes, probes, run, run_wrong, texels, unpack,
};

use common::{apart, context, driver, end, fails, instantiate, ok};

const GOLDENS: &[u8] = include_bytes!("textures/golden/h200.z");
const PROBES: &str = include_str!("textures/golden/probes.txt");

/// Returns how far results may be from a GPU's, if they are approximate: `SUPPORT.md` has the same bounds.
fn bound(mode: &Mode) -> Option<f32> {
    let linear = mode.linear && mode.reads_floats();
    let biased = mode.level_limits[0] != 0.0 && mode.operation == Operation::Level;
    match mode.operation {
        // Another level may be chosen.
        Operation::Gradient if mode.levels > 1 => Some(f32::INFINITY),
        _ if linear && mode.geometry.is_cube() && mode.flags & 64 != 0 => Some(f32::INFINITY),
        _ if mode.flags & 16 != 0 => Some(0.007),
        _ if biased => Some(0.01),
        _ if linear && mode.format == Format::S8 => Some(0.008),
        _ if mode.geometry == Geometry::D3 && linear && mode.linear_levels && mode.levels > 1 => {
            Some(0.006)
        }
        // Infinite texels of a weight that rounds to zero.
        _ if linear && mode.content == Content::Special => Some(0.0),
        // The reciprocal of a direction's longest component differs in its last bit.
        _ if mode.geometry.is_cube() && !mode.linear => Some(f32::INFINITY),
        _ => None,
    }
}

#[test]
fn fetches_are_those_of_an_h200() {
    context();
    let device = Device::new(driver()).expect("a device");
    let (_, goldens) = unpack(GOLDENS).expect("goldens");
    let (mut exact, mut wrong) = (0, Vec::new());
    for mode in modes() {
        let words = run(&device, &mode);
        let Some(golden) = goldens.iter().find(|golden| golden.name == mode.name) else {
            // Queries of objects, which the GPU's driver refuses, too.
            let query = matches!(mode.operation, Operation::Query | Operation::SurfaceQuery);
            assert!(query && words.is_err(), "{}: {words:?}", mode.name);
            continue;
        };
        let words = words.unwrap_or_else(|call| panic!("{}: {call}", mode.name));
        assert_eq!(words.len(), golden.count as usize, "{}", mode.name);
        let found = difference(&mode, &words, &golden.words);
        match bound(&mode) {
            None => {
                exact += 1;
                // NaNs have other bits.
                let special = mode.content == Content::Special;
                if found.differing != 0 || hash(&words) != golden.hash && !special {
                    let fetches = describe(&mode, &words, &golden.words, 3);
                    wrong.push(format!("{}: {found:?}\n{fetches}", mode.name));
                }
            }
            Some(bound) if found.largest <= bound => {}
            Some(bound) => wrong.push(format!("{}: {found:?}, above {bound}", mode.name)),
        }
    }
    assert!(wrong.is_empty(), "{} modes:\n{}", wrong.len(), wrong.join("\n"));
    assert!(exact > 400, "{exact} modes are exact");
}

#[test]
fn return_codes_are_those_of_an_h200() {
    context();
    let device = Device::new(driver()).expect("a device");
    let mut found = Vec::new();
    probes(&device, &mut |line| found.extend(line.lines().map(str::to_owned)));
    let code = |line: &str| line.rsplit(": ").next().and_then(|code| code.parse::<u32>().ok());
    let mut wrong = Vec::new();
    // Lines with two spaces describe what was made; those of larger memory than this device has are missing.
    let lines = |text: &str| !text.starts_with("  ");
    let recorded: Vec<&str> = PROBES.lines().filter(|line| lines(line)).collect();
    let found: Vec<&str> = found.iter().map(String::as_str).filter(|line| lines(line)).collect();
    assert_eq!(found.len(), recorded.len());
    for (found, recorded) in found.iter().zip(&recorded) {
        // Formats and flags that this device does not have, and sizes for which it has no memory.
        let missing = code(found) == Some(801) || code(found) == Some(2);
        if found != recorded && !missing {
            wrong.push(format!("{found}\n  recorded {recorded}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), recorded.len(), wrong.join("\n"));
}

/// A filter in f64, which rounds nothing: the value of texture memory at a place, between the centres of texels.
fn filter(texels: &[f32], [width, height]: [usize; 2], [x, y]: [f64; 2]) -> f64 {
    let texel = |column: f64, row: f64| {
        let clamp = |at: f64, size: usize| at.clamp(0.0, (size - 1) as f64) as usize;
        f64::from(texels[clamp(row, height) * width + clamp(column, width)])
    };
    let (x, y) = (x - 0.5, y - 0.5);
    let (column, row) = (x.floor(), y.floor());
    let (a, b) = (x - column, y - row);
    let along = |row: f64| texel(column, row) * (1.0 - a) + texel(column + 1.0, row) * a;
    along(row) * (1.0 - b) + along(row + 1.0) * b
}

#[test]
fn filters_are_near_to_one_in_f64() {
    context();
    let device = Device::new(driver()).expect("a device");
    let linear = modes().into_iter().filter(|mode| {
        mode.geometry == Geometry::D2
            && mode.linear
            && mode.operation == Operation::Base
            && (mode.format, mode.channels, mode.levels) == (Format::F32, 1, 1)
            && mode.coordinates == Coordinates::Texels
            && mode.address[0] != 3
    });
    let mut tried = 0;
    for mut mode in linear.take(1) {
        for size in [[1, 1, 0], [31, 1, 0], [1, 31, 0], [32, 33, 0], [33, 31, 0], [33, 32, 0]] {
            mode.size = size;
            let words = run(&device, &mode).expect("it runs");
            let bytes = texels(&mode, 0);
            let texels: Vec<f32> = bytes
                .chunks_exact(4)
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            let size = [size[0] as usize, size[1] as usize];
            for (words, given) in words.chunks(4).zip(inputs(&mode).chunks(INPUTS)) {
                let at = [given[1], given[2]].map(|bits| f64::from(f32::from_bits(bits)));
                if at.iter().any(|at| !at.is_finite() || at.abs() > 1e6) {
                    continue;
                }
                let (got, wanted) = (f32::from_bits(words[0]), filter(&texels, size, at));
                // Each of four weights is a multiple of 2^-8, and texels are below 1.
                let error = (f64::from(got) - wanted).abs();
                assert!(error < 4.0 / 256.0, "{size:?} {at:?}: {got}, not {wanted}");
                tried += 1;
            }
        }
    }
    assert!(tried > 20_000, "{tried}");
}

fn array(width: usize, height: usize) -> CUarray {
    let wanted = CUDA_ARRAY_DESCRIPTOR {
        Width: width,
        Height: height,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
        NumChannels: 4,
    };
    let mut array = ptr::null_mut();
    ok!(cuArrayCreate_v2(&raw mut array, &raw const wanted));
    array
}

/// A copy of whole rows between an array and the host.
fn rows(array: CUarray, host: &mut [u32], width: usize, up: bool) -> CUDA_MEMCPY2D {
    let mut copy = CUDA_MEMCPY2D {
        WidthInBytes: width * 4,
        Height: host.len() / width,
        ..CUDA_MEMCPY2D::default()
    };
    let (host_kind, array_kind) =
        (CUmemorytype::CU_MEMORYTYPE_HOST, CUmemorytype::CU_MEMORYTYPE_ARRAY);
    if up {
        (copy.srcMemoryType, copy.dstMemoryType) = (host_kind, array_kind);
        (copy.srcHost, copy.srcPitch, copy.dstArray) = (host.as_ptr().cast(), width * 4, array);
    } else {
        (copy.srcMemoryType, copy.dstMemoryType) = (array_kind, host_kind);
        (copy.dstHost, copy.dstPitch, copy.srcArray) = (host.as_mut_ptr().cast(), width * 4, array);
    }
    copy
}

#[test]
fn copies_bring_back_what_they_brought() {
    context();
    for (width, height) in [(1, 1), (31, 3), (32, 2), (33, 5)] {
        let array = array(width, height);
        let mut given: Vec<u32> = (0..(width * height) as u32).map(|at| at * 0x0101_0307).collect();
        let mut got = vec![0; given.len()];
        let up = rows(array, &mut given, width, true);
        ok!(cuMemcpy2D_v2(&raw const up));
        let down = rows(array, &mut got, width, false);
        ok!(cuMemcpy2DUnaligned_v2(&raw const down));
        assert_eq!(got, given, "{width}x{height}");

        // A part of the second half of a row, by offset: only the first row can be reached.
        let mut word = 0_u32;
        let last = (width - 1) * 4;
        ok!(cuMemcpyAtoH_v2((&raw mut word).cast(), array, last, 4));
        assert_eq!(word, given[width - 1]);
        fails!(
            CUDA_ERROR_INVALID_VALUE,
            cuMemcpyAtoH_v2((&raw mut word).cast(), array, last + 1, 4)
        );

        // The same in a graph, whose node names the array.
        let mut stream = ptr::null_mut();
        ok!(cuStreamCreate(&raw mut stream, 1));
        common::begin(stream);
        got.fill(0);
        ok!(cuMemcpy2DAsync_v2(&raw const down, stream));
        let graph = end(stream);
        let node = common::nodes(graph)[0];
        let mut params = CUDA_MEMCPY3D::default();
        ok!(cuGraphMemcpyNodeGetParams(node, &raw mut params));
        assert_eq!(params.srcMemoryType, CUmemorytype::CU_MEMORYTYPE_ARRAY);
        assert_eq!((params.srcArray, params.WidthInBytes), (array, width * 4));
        let exec = instantiate(graph);
        common::run(exec, stream);
        assert_eq!(got, given, "in a graph");
        ok!(cuGraphExecDestroy(exec));
        ok!(cuGraphDestroy(graph));
        ok!(cuStreamDestroy_v2(stream));
        ok!(cuArrayDestroy(array));
        fails!(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&raw const up));
    }
}

#[test]
fn arrays_take_and_give_back_memory() {
    context();
    let free = || {
        let (mut free, mut total) = (0, 0);
        ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
        free
    };
    let before = free();
    let array = array(1024, 1024);
    assert!(before - free() >= 4 << 20);
    ok!(cuArrayDestroy(array));
    assert_eq!(free(), before);
}

#[test]
fn mistakes_are_faults() {
    apart!(mistakes_are_faults);
    let names: Vec<&str> = mistakes().iter().map(|(name, ..)| *name).collect();
    for (number, name) in names.iter().enumerate() {
        let output = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "a_mistake", "--nocapture", "--ignored"])
            .env("TEXTURE_MISTAKE", number.to_string())
            .output()
            .expect("it runs");
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{name}: {text}");
    }
}

/// One mistake, in a process that loses its device: [`mistakes_are_faults`] runs it.
#[test]
#[ignore = "loses the device of its process"]
fn a_mistake() {
    let number = std::env::var("TEXTURE_MISTAKE").ok().and_then(|number| number.parse().ok());
    let (name, mode, mistake) = mistakes().remove(number.expect("the number of a mistake"));
    context();
    let device = Device::new(driver()).expect("a device");
    let call = run_wrong(&device, &mode, mistake).expect_err(name);
    if name.contains("query") {
        assert_eq!(call.code, i64::from(CUresult::CUDA_ERROR_NOT_SUPPORTED.0), "{call}");
        return;
    }
    let wanted = match name {
        _ if name.contains("misaligned") => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        _ => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    };
    assert_eq!(call.code, i64::from(wanted.0), "{name}: {call}");
    let report = cuda_emu::fault_report().expect("a report");
    let said = match name {
        _ if name.contains("freed") => "freed",
        _ if name.contains("misaligned") => "no multiple of 4",
        _ if name.contains("trap") => "outside of the surface",
        _ => "object",
    };
    assert!(report.contains(said) && report.contains("in kernel fetch"), "{name}: {report}");
}

#[test]
fn getters_return_what_was_set() {
    context();
    let array = array(4, 4);
    let mut resource = CUDA_RESOURCE_DESC {
        resType: CUresourcetype::CU_RESOURCE_TYPE_ARRAY,
        ..CUDA_RESOURCE_DESC::default()
    };
    resource.res.array.hArray = array;
    let mut surface = 0;
    ok!(cuSurfObjectCreate(&raw mut surface, &raw const resource));
    let mut got = CUDA_RESOURCE_DESC::default();
    ok!(cuSurfObjectGetResourceDesc(&raw mut got, surface));
    assert_eq!(got.resType, resource.resType);
    // SAFETY: the type says that this member is set.
    assert_eq!(unsafe { got.res.array.hArray }, array);
    ok!(cuSurfObjectDestroy(surface));
    fails!(CUDA_ERROR_INVALID_VALUE, cuSurfObjectGetResourceDesc(&raw mut got, surface));
    ok!(cuArrayDestroy(array));
}

//! Arrays, textures and surfaces, compared with what an H200 returned and with a filter in f64.

mod common;

use core::ffi::CStr;
use core::ptr;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUarray, CUarray_format, CUmemorytype, CUresourcetype,
    CUresult,
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

#[test]
fn objects_end_with_their_context() {
    let home = context();
    let mut own = ptr::null_mut();
    ok!(cuCtxCreate_v2(&raw mut own, 0, 0));
    let (array, surface) = surface(4, 4, CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8);
    let mut resource = CUDA_RESOURCE_DESC::default();
    resource.res.array.hArray = array;
    let mut texture = 0;
    let how = CUDA_TEXTURE_DESC::default();
    ok!(cuTexObjectCreate(&raw mut texture, &raw const resource, &raw const how, ptr::null()));
    ok!(cuCtxDestroy_v2(own));
    ok!(cuCtxSetCurrent(home));
    let mut got = CUDA_RESOURCE_DESC::default();
    fails!(CUDA_ERROR_INVALID_VALUE, cuSurfObjectGetResourceDesc(&raw mut got, surface));
    fails!(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceDesc(&raw mut got, texture));
    fails!(CUDA_ERROR_INVALID_VALUE, cuSurfObjectDestroy(surface));
    fails!(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(texture));
}

const SURFACES: &str = "
.version 7.8
.target sm_70
.address_size 64

.visible .entry words(.param .u64 surface, .param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [surface];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    shl.b32 %r3, %r1, 2;
    suld.b.2d.b32.clamp %r4, [%rd1, {%r3, %r2}];
    mov.u32 %r5, %ntid.x;
    mad.lo.u32 %r6, %r2, %r5, %r1;
    mul.wide.u32 %rd3, %r6, 4;
    add.u64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r4;
    not.b32 %r4, %r4;
    setp.ge.u32 %p1, %r3, 36;
    @!%p1 sust.b.2d.b32.trap [%rd1, {%r3, %r2}], %r4;
    ret;
}

.visible .entry formatted(.param .u64 surface)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [surface];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 10;
    sust.p.1d.b32.trap [%rd1, {%r1}], %rd2;
    mov.u32 %r2, -5;
    sured.p.min.1d.b32.trap [%rd1, {%r1}], %r2;
    mov.u32 %r3, 7;
    and.b32 %r2, %r1, 3;
    sured.p.add.1d.b32.trap [%rd1, {%r2}], %r3;
    ret;
}

.visible .entry table(.param .u64 texture, .param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .f32 %f<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [texture];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    tex.1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%f1}];
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r4;
    ret;
}
";

/// A kernel of `SURFACES` that ran to its end.
fn ran(name: &CStr, blocks: u32, threads: u32, arguments: [u64; 2]) {
    let text = SURFACES.replace(".reg .b32 %r<8>;", ".reg .pred %p<2>;\n    .reg .b32 %r<8>;");
    launched(&text, name, blocks, threads, arguments);
}

/// A kernel of a text that ran to its end.
fn launched(text: &str, name: &CStr, blocks: u32, threads: u32, mut arguments: [u64; 2]) {
    let text = std::ffi::CString::new(text).expect("no zero");
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
    ok!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()));
    let [first, second] = &mut arguments;
    let mut pointers = [ptr::from_mut(first).cast(), ptr::from_mut(second).cast()];
    ok!(cuLaunchKernel(
        function,
        blocks,
        1,
        1,
        threads,
        1,
        1,
        0,
        ptr::null_mut(),
        pointers.as_mut_ptr(),
        ptr::null_mut()
    ));
    ok!(cuCtxSynchronize());
    ok!(cuModuleUnload(module));
}

/// An array of one channel, and the object of a surface of it.
fn surface(width: usize, height: usize, format: CUarray_format) -> (CUarray, u64) {
    let wanted = CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: 0,
        Format: format,
        NumChannels: 1,
        Flags: cuda_sys::CUDA_ARRAY3D_SURFACE_LDST,
    };
    let mut array = ptr::null_mut();
    ok!(cuArray3DCreate_v2(&raw mut array, &raw const wanted));
    let mut resource = CUDA_RESOURCE_DESC {
        resType: CUresourcetype::CU_RESOURCE_TYPE_ARRAY,
        ..CUDA_RESOURCE_DESC::default()
    };
    resource.res.array.hArray = array;
    let mut surface = 0;
    ok!(cuSurfObjectCreate(&raw mut surface, &raw const resource));
    (array, surface)
}

fn bytes_of(array: CUarray, width: usize, host: &mut [u8], up: bool) {
    let mut copy = CUDA_MEMCPY2D {
        WidthInBytes: width,
        Height: host.len() / width,
        ..CUDA_MEMCPY2D::default()
    };
    let (of_host, of_array) = (CUmemorytype::CU_MEMORYTYPE_HOST, CUmemorytype::CU_MEMORYTYPE_ARRAY);
    if up {
        (copy.srcMemoryType, copy.dstMemoryType) = (of_host, of_array);
        (copy.srcHost, copy.srcPitch, copy.dstArray) = (host.as_ptr().cast(), width, array);
    } else {
        (copy.srcMemoryType, copy.dstMemoryType) = (of_array, of_host);
        (copy.dstHost, copy.dstPitch, copy.srcArray) = (host.as_mut_ptr().cast(), width, array);
    }
    ok!(cuMemcpy2D_v2(&raw const copy));
}

#[test]
fn accesses_are_longer_than_texels_of_odd_rows() {
    context();
    let (array, object) = surface(37, 29, CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8);
    let mut given: Vec<u8> = (0..37 * 29).map(|at| (at * 7 % 251) as u8).collect();
    bytes_of(array, 37, &mut given, true);
    let mut out = 0;
    ok!(cuMemAlloc_v2(&raw mut out, 29 * 10 * 4));
    ran(c"words", 29, 10, [object, out]);
    let mut got = vec![0_u32; 29 * 10];
    ok!(cuMemcpyDtoH_v2(got.as_mut_ptr().cast(), out, 29 * 10 * 4));
    for (row, words) in given.chunks(37).zip(got.chunks(10)) {
        for (at, word) in words.iter().enumerate() {
            // The last word begins at byte 36, of which there is one byte: it is clamped.
            let from = (at * 4).min(32);
            let wanted = [row[from], row[from + 1], row[from + 2], row[from + 3]];
            assert_eq!(word.to_le_bytes(), wanted, "{at}");
        }
    }
    let mut after = vec![0; given.len()];
    bytes_of(array, 37, &mut after, false);
    for (before, after) in given.chunks(37).zip(after.chunks(37)) {
        let wanted: Vec<u8> = before[..36].iter().map(|byte| !byte).collect();
        assert_eq!((&after[..36], after[36]), (&wanted[..], before[36]));
    }
}

#[test]
fn reductions_have_the_signs_of_the_surface() {
    context();
    for (format, wanted) in [
        (
            CUarray_format::CU_AD_FORMAT_SIGNED_INT32,
            [-5 + 7 * 8, -5 + 7 * 8, -5 + 7 * 8, -5 + 7 * 8, -5],
        ),
        (
            CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
            [7 * 8, 10 + 7 * 8, 20 + 7 * 8, 30 + 7 * 8, 40],
        ),
    ] {
        let (array, object) = surface(32, 0, format);
        ran(c"formatted", 1, 32, [object, 0]);
        let mut got = [0_i32; 32];
        ok!(cuMemcpyAtoH_v2(got.as_mut_ptr().cast(), array, 0, 128));
        assert_eq!(got[..5], wanted, "{format:?}");
        ok!(cuSurfObjectDestroy(object));
        ok!(cuArrayDestroy(array));
    }
}

/// Programs make tables of one row as arrays of two dimensions.
#[test]
fn a_row_is_fetched_as_a_line() {
    context();
    let (array, object) = surface(33, 1, CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32);
    ok!(cuSurfObjectDestroy(object));
    let given: Vec<u32> = (0..33).map(|at| at * at).collect();
    ok!(cuMemcpyHtoA_v2(array, 0, given.as_ptr().cast(), 33 * 4));
    let mut resource = CUDA_RESOURCE_DESC {
        resType: CUresourcetype::CU_RESOURCE_TYPE_ARRAY,
        ..CUDA_RESOURCE_DESC::default()
    };
    resource.res.array.hArray = array;
    // Integers as they are, by coordinates in texels, the nearest.
    let sampler = CUDA_TEXTURE_DESC { flags: 1, ..CUDA_TEXTURE_DESC::default() };
    let mut texture = 0;
    ok!(cuTexObjectCreate(&raw mut texture, &raw const resource, &raw const sampler, ptr::null()));
    let mut out = 0;
    ok!(cuMemAlloc_v2(&raw mut out, 33 * 4));
    ran(c"table", 1, 33, [texture, out]);
    let mut got = vec![0_u32; 33];
    ok!(cuMemcpyDtoH_v2(got.as_mut_ptr().cast(), out, 33 * 4));
    assert_eq!(got, given);
}

const FOLLOWED: &str = "
.version 7.8
.target sm_70
.address_size 64
.visible .entry put(.param .u64 surface, .param .u64 approximate)
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [surface]; ld.param.u64 %rd2, [approximate];
    setp.ne.u64 %p1, %rd2, 0;
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    @%p1 ex2.approx.f32 %f1, %f1;
    mov.b32 %r2, %f1;
    shl.b32 %r3, %r1, 2;
    sust.b.1d.b32.trap [%rd1, {%r3}], %r2;
    ret;
}

.visible .entry get(.param .u64 object, .param .u64 of_texture)
{
    .reg .pred %p<3>; .reg .b32 %r<8>; .reg .f32 %f<2>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [of_texture];
    setp.ne.u64 %p1, %rd2, 0;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    cvt.rn.f32.u32 %f1, %r1;
    @%p1 bra fetch;
    suld.b.1d.b32.trap %r3, [%rd1, {%r2}];
    setp.gt.u32 %p2, %r3, 5;
    @%p2 bra done;
    ret;
fetch:
    tex.1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%f1}];
    setp.gt.u32 %p2, %r4, 5;
    @%p2 bra done;
done: ret;
}
";

#[test]
fn approximate_values_are_followed_through_surfaces() {
    apart!(approximate_values_are_followed_through_surfaces);
    assert!(cuda_emu::Config::new().taint(true).install());
    context();
    let (array, surface) = surface(8, 0, CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32);
    let mut resource = CUDA_RESOURCE_DESC::default();
    resource.res.array.hArray = array;
    let (mut texture, mut how) = (0, CUDA_TEXTURE_DESC::default());
    how.flags = cuda_sys::CU_TRSF_READ_AS_INTEGER;
    ok!(cuTexObjectCreate(&raw mut texture, &raw const resource, &raw const how, ptr::null()));
    let reached = |kernel: &str| {
        let report = cuda_emu::run_report();
        let found = report.reached.iter().filter(|at| at.kernel == kernel && at.what == "a branch");
        found.map(|at| at.count).collect::<Vec<_>>()
    };
    // Exact values decide nothing; then approximate ones do, and exact ones take their place again.
    for (approximate, wanted) in [(0, vec![]), (1, vec![8, 8]), (0, vec![8, 8])] {
        launched(FOLLOWED, c"put", 1, 8, [surface, approximate]);
        launched(FOLLOWED, c"get", 1, 8, [surface, 0]);
        launched(FOLLOWED, c"get", 1, 8, [texture, 1]);
        assert_eq!(reached("get"), wanted, "{approximate}");
    }
}

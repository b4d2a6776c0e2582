//! The list of modes.

use std::collections::HashSet;

use crate::device::Mistake;
use crate::modes::{Access, Content, Coordinates, Format, Geometry, Memory, Mode, Operation};

/// A size of each shape that is no power of two, and one that is.
fn shapes() -> [(Geometry, [u32; 3]); 14] {
    [
        (Geometry::D1, [37, 0, 0]),
        (Geometry::D1, [64, 0, 0]),
        (Geometry::D2, [37, 29, 0]),
        (Geometry::D2, [32, 16, 0]),
        (Geometry::D3, [13, 11, 7]),
        (Geometry::D3, [16, 8, 4]),
        (Geometry::A1, [37, 5, 0]),
        (Geometry::A1, [64, 3, 0]),
        (Geometry::A2, [19, 13, 5]),
        (Geometry::A2, [16, 8, 3]),
        (Geometry::Cube, [13, 13, 6]),
        (Geometry::Cube, [16, 16, 6]),
        (Geometry::CubeArray, [9, 9, 12]),
        (Geometry::CubeArray, [8, 8, 18]),
    ]
}

/// All modes.
pub fn modes() -> Vec<Mode> {
    let mut all = Vec::new();
    geometries(&mut all);
    formats(&mut all);
    gathers(&mut all);
    mipmaps(&mut all);
    linear_memory(&mut all);
    surfaces(&mut all);
    let mut names = HashSet::new();
    all.into_iter().map(Mode::named).filter(|mode| names.insert(mode.name.clone())).collect()
}

/// Modes with mistakes, each with a name.
pub fn mistakes() -> Vec<(&'static str, Mode, Mistake)> {
    let texture = Mode::new(Geometry::D2, [37, 29, 0]).named();
    let linear = Mode::new(Geometry::D1, [1000, 0, 0]).memory(Memory::Linear).named();
    let load = |access| {
        let mode = Mode::new(Geometry::D2, [37, 29, 0]).of(Format::U32, 1);
        mode.operation(Operation::SurfaceLoad(4, access)).named()
    };
    let square = Mode::new(Geometry::D2, [64, 80, 0]).of(Format::U32, 1);
    let store = square.operation(Operation::SurfaceStore(4, Access::Trap)).named();
    let query = texture.clone().operation(Operation::Query).named();
    vec![
        ("a texture of handle 0", texture.clone(), Mistake::Null),
        ("a query of handle 0", query, Mistake::Null),
        ("a destroyed texture", texture.clone(), Mistake::Destroyed),
        ("a texture of a freed array", texture, Mistake::Freed),
        ("a texture of freed memory", linear, Mistake::Freed),
        ("a surface of handle 0", load(Access::Zero), Mistake::Null),
        ("a destroyed surface", load(Access::Zero), Mistake::Destroyed),
        ("a surface of a freed array", load(Access::Zero), Mistake::Freed),
        ("a misaligned load, clamp", load(Access::Clamp), Mistake::Shifted),
        ("a misaligned load, zero", load(Access::Zero), Mistake::Shifted),
        ("a misaligned store", store, Mistake::Shifted),
        ("loads outside that trap", load(Access::Trap), Mistake::Outside),
    ]
}

fn geometries(all: &mut Vec<Mode>) {
    use Coordinates::{Integers, Normalized, Texels};
    for (at, (geometry, size)) in shapes().into_iter().enumerate() {
        let mode = Mode::new(geometry, size);
        all.push(mode.clone().operation(Operation::Query));
        if geometry.is_cube() {
            for linear in [false, true] {
                all.push(mode.clone().linear(linear));
            }
            all.push(mode.clone().linear(true).content(Content::Impulse));
            all.push(mode.clone().linear(true).flags(64));
            continue;
        }
        let odd = at % 2 == 0;
        for linear in [false, true] {
            // Texels allow clamping and borders only.
            for address in if odd { 0..4 } else { 1..2 } {
                all.push(mode.clone().linear(linear).address(address));
            }
            for address in 0..4 {
                let normalized = mode.clone().coordinates(Normalized);
                all.push(normalized.linear(linear).address(address));
            }
        }
        for coordinates in [Texels, Normalized] {
            let impulse = mode.clone().coordinates(coordinates).content(Content::Impulse);
            all.push(impulse.linear(true));
        }
        if odd {
            all.push(mode.clone().coordinates(Integers));
            all.push(mode.clone().coordinates(Integers).address(3));
        }
    }
    let mut mixed = Mode::new(Geometry::D3, [13, 11, 7]).coordinates(Normalized).linear(true);
    mixed.address = [0, 2, 3];
    all.push(mixed);
    for size in [[1, 1, 0], [1, 31, 0], [33, 1, 0], [2, 2, 0], [1000, 1000, 0]] {
        for coordinates in [Texels, Normalized] {
            for address in [0, 2] {
                let mode = Mode::new(Geometry::D2, size).coordinates(coordinates);
                all.push(mode.linear(true).address(address));
            }
        }
    }
}

fn formats(all: &mut Vec<Mode>) {
    use Format::{F16, F32, S8, S16, S32, U8, U16, U32};
    let mode = Mode::new(Geometry::D2, [37, 29, 0]).address(3);
    for format in [U8, U16, U32, S8, S16, S32, F16, F32] {
        for channels in [1, 2, 4] {
            let mode = mode.clone().of(format, channels);
            all.push(mode.clone().linear(false));
            if !format.is_integer() {
                all.push(mode.clone().linear(true));
            } else if format.bytes() < 4 {
                all.push(mode.clone().normalized_read());
                all.push(mode.clone().normalized_read().linear(true));
            }
        }
    }
    for (geometry, size) in shapes().into_iter().skip(4).step_by(2) {
        for format in [U8, S16, F16] {
            let mode = Mode::new(geometry, size).of(format, 4).linear(true);
            all.push(if format == F16 { mode } else { mode.normalized_read() });
        }
    }
    for content in [Content::Special, Content::Impulse] {
        for format in [F16, F32] {
            for linear in [false, true] {
                all.push(mode.clone().of(format, 1).content(content).linear(linear));
            }
        }
    }
    for linear in [false, true] {
        all.push(mode.clone().of(U8, 4).normalized_read().flags(16).linear(linear));
        all.push(mode.clone().of(U8, 1).normalized_read().flags(16).linear(linear));
    }
    for (format, linear) in [(U8, true), (U8, false), (F16, true), (F32, true)] {
        let mode = mode.clone().of(format, 4).linear(linear).operation(Operation::Halves);
        all.push(if format == U8 { mode.normalized_read() } else { mode });
    }
}

fn gathers(all: &mut Vec<Mode>) {
    use Coordinates::{Normalized, Texels};
    for component in 0..4 {
        let gather = Operation::Gather(component);
        let mode = Mode::new(Geometry::D2, [37, 29, 0]).operation(gather);
        all.push(mode.clone().of(Format::F32, 4));
        all.push(mode.clone().of(Format::U8, 4));
        all.push(mode.clone().of(Format::U8, 4).normalized_read().linear(true));
    }
    for address in 0..4 {
        for coordinates in [Texels, Normalized] {
            let mode = Mode::new(Geometry::D2, [32, 16, 0]).operation(Operation::Gather(0));
            all.push(mode.coordinates(coordinates).address(address));
        }
    }
    let mode = Mode::new(Geometry::D2, [37, 29, 0]).of(Format::S16, 2);
    all.push(mode.operation(Operation::Gather(1)));
}

fn mipmaps(all: &mut Vec<Mode>) {
    use Coordinates::Normalized;
    let sized = [
        (Geometry::D2, [37, 29, 0], 6),
        (Geometry::D1, [64, 0, 0], 7),
        (Geometry::D2, [64, 32, 0], 7),
        (Geometry::D3, [16, 16, 8], 5),
        (Geometry::A1, [64, 3, 0], 7),
        (Geometry::A2, [32, 32, 3], 6),
        (Geometry::Cube, [16, 16, 6], 5),
        (Geometry::CubeArray, [8, 8, 12], 4),
    ];
    for (geometry, size, levels) in sized {
        let mode = Mode::new(geometry, size).coordinates(Normalized);
        for linear in [false, true] {
            for between in [false, true] {
                let mode = mode.clone().linear(linear).levels(levels, between);
                all.push(mode.clone().operation(Operation::Level));
                if linear == between {
                    all.push(mode.clone().operation(Operation::Gradient));
                }
            }
        }
        all.push(mode.clone().linear(true).levels(levels, true));
        all.push(mode.clone().levels(levels, true).operation(Operation::Query));
    }
    let mode = Mode::new(Geometry::D2, [64, 32, 0]).coordinates(Normalized).linear(true);
    let mode = mode.levels(7, true);
    for limits in [[0.75, 0.0, 99.0], [-1.3, 0.0, 99.0], [0.0, 1.25, 3.5], [0.5, 2.0, 1.0]] {
        for operation in [Operation::Level, Operation::Base, Operation::Gradient] {
            all.push(mode.clone().limits(limits).operation(operation));
        }
    }
    for anisotropy in [1, 2, 4, 16] {
        all.push(mode.clone().anisotropy(anisotropy).operation(Operation::Gradient));
    }
    let colour = mode.clone().of(Format::U8, 4).normalized_read();
    all.push(colour.clone().operation(Operation::Level));
    all.push(colour.operation(Operation::Gradient));
    all.push(mode.clone().content(Content::Impulse).operation(Operation::Level));
    // Without mipmaps.
    for operation in [Operation::Level, Operation::Gradient] {
        let single = Mode::new(Geometry::D2, [37, 29, 0]).linear(true).operation(operation);
        all.push(single.clone());
        all.push(single.coordinates(Normalized));
    }
}

fn linear_memory(all: &mut Vec<Mode>) {
    use Coordinates::{Integers, Normalized, Texels};
    use Format::{F16, F32, S8, S32, U8, U16, U32};
    for (format, channels) in
        [(F32, 1), (F32, 4), (U8, 4), (S8, 1), (U16, 2), (S32, 1), (U32, 2), (F16, 4)]
    {
        let mode = Mode::new(Geometry::D1, [1000, 0, 0]).of(format, channels);
        let mode = mode.memory(Memory::Linear);
        all.push(mode.clone().coordinates(Integers));
        all.push(mode.clone().coordinates(Texels));
        if format == U8 {
            all.push(mode.clone().coordinates(Integers).normalized_read());
        }
        if format == F32 {
            all.push(mode.coordinates(Integers).address(3));
        }
    }
    let linear = Mode::new(Geometry::D1, [1000, 0, 0]).memory(Memory::Linear);
    all.push(linear.operation(Operation::Query));
    let pitched = Mode::new(Geometry::D2, [37, 29, 0]).memory(Memory::Pitched);
    for linear in [false, true] {
        for address in 0..4 {
            for coordinates in [Texels, Normalized] {
                let mode = pitched.clone().linear(linear).coordinates(coordinates);
                all.push(mode.address(address));
            }
        }
    }
    all.push(pitched.clone().coordinates(Integers));
    all.push(pitched.clone().of(U8, 4).normalized_read().linear(true));
    all.push(pitched.clone().of(U8, 4));
    all.push(pitched.clone().of(F32, 4).linear(true));
    all.push(pitched.operation(Operation::Query));
}

fn surfaces(all: &mut Vec<Mode>) {
    use Operation::{
        SurfaceLoad, SurfaceQuery, SurfaceReduce, SurfaceStore, SurfaceStoreFormatted,
    };
    for (geometry, size) in shapes().into_iter().take(10).step_by(2) {
        let mode = Mode::new(geometry, size);
        all.push(mode.clone().operation(SurfaceQuery));
        for access in [Access::Clamp, Access::Zero] {
            let word = mode.clone().of(U32, 1);
            all.push(word.operation(SurfaceLoad(4, access)));
            let bytes = mode.clone().of(U8, 4);
            all.push(bytes.operation(SurfaceLoad(1, access)));
            let words = mode.clone().of(F32, 4);
            all.push(words.operation(SurfaceLoad(16, access)));
        }
    }
    let square = Mode::new(Geometry::D2, [64, 80, 0]);
    for bytes in [1, 2, 4, 8, 16] {
        let mode = Mode::new(Geometry::D2, [37, 29, 0]);
        let mode = match bytes {
            16 => mode.of(U32, 4),
            8 => mode.of(U16, 4),
            _ => mode.of(U8, 4),
        };
        all.push(mode.operation(SurfaceLoad(bytes, Access::Clamp)));
        let mode = square.clone().of(U8, bytes.min(4));
        let mode = match bytes {
            16 => mode.of(U32, 4),
            8 => mode.of(U32, 2),
            _ => mode,
        };
        all.push(mode.operation(SurfaceStore(bytes, Access::Zero)));
    }
    for (geometry, size) in [(Geometry::D3, [16, 16, 16]), (Geometry::A2, [16, 16, 16])] {
        let mode = Mode::new(geometry, size).of(U32, 1);
        all.push(mode.operation(SurfaceStore(4, Access::Trap)));
    }
    use Format::{F16, F32, S8, S16, S32, U8, U16, U32};
    for format in [U8, U16, U32, S8, S16, S32, F16, F32] {
        for channels in [1, 2, 4] {
            let mode = square.clone().of(format, channels);
            all.push(mode.operation(SurfaceStoreFormatted("b32")));
        }
    }
    for operation in ["add.u32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32"] {
        let mode = Mode::new(Geometry::D2, [37, 29, 0]).of(U32, 1);
        all.push(mode.operation(SurfaceReduce(operation)));
    }
}

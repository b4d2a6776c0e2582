//! A fetch from a texture.

use super::cube::face;
use super::filter::{Precision, WHOLE, sum, sum_integers, weights};
use super::locate::{Coordinate, Taps, locate};
use super::lod::{self, Levels};
use super::texel::{Channel, Format, linear_of_srgb, narrowed, number, of_border, widened};
use super::{Address, Level, Texture};

/// Which level a fetch reads, or how else it reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lod {
    /// The level of detail 0.
    Base,
    Level(f32),
    Gradient([f32; 3], [f32; 3]),
    /// A component of the four texels that a linear filter would read.
    Gather(u8),
}

/// The operands of a fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch {
    /// The bits of the coordinates.
    pub(crate) at: [u32; 3],
    /// Whether they are integers.
    pub(crate) integers: bool,
    pub(crate) layer: u32,
    pub(crate) lod: Lod,
}

/// The result of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The bits of integers or of f32.
    pub(crate) words: [u32; 4],
    /// Whether a GPU may return other bits.
    pub(crate) approximate: bool,
}

/// The texels of a level with their weights.
struct Footprint {
    axes: [Taps; 3],
    layer: u64,
    /// Whether coordinates are integers, for which zeros are outside.
    integers: bool,
}

/// Fetches from a texture. `seen` gets the address and the bytes of each texel, and says whether it may
/// be read.
///
/// # Safety
/// The memory of each texel for which `seen` returns true is live.
pub(crate) unsafe fn sample(
    texture: &Texture,
    fetch: &Fetch,
    seen: &mut dyn FnMut(u64, u64) -> bool,
) -> Sample {
    let Texture { image, sampler } = texture;
    let count = image.levels.len() as u32;
    // A GPU returns zeros where the coordinates are of the wrong type for the memory, and for integers in no layer.
    let foreign = match (fetch.integers, image.linear) {
        (true, false) => {
            image.dimensions == 1 && !image.layered || image.layered && fetch.layer >= image.layers
        }
        (false, true) => true,
        _ => false,
    };
    if foreign {
        return Sample { words: [0; 4], approximate: false };
    }
    let (at, layer) = place(texture, fetch);
    let dimensions = if image.cube { 2 } else { image.dimensions };
    let levels = match fetch.lod {
        // There is one level, or a gather reads no other.
        lod if count == 1 || matches!(lod, Lod::Gather(_)) => {
            Levels { first: 0, second: 0, fraction: 0 }
        }
        Lod::Base | Lod::Gather(_) => lod::levels(None, sampler, count),
        Lod::Level(level) => lod::levels(Some(level), sampler, count),
        Lod::Gradient(dx, dy) => {
            let size = image.level(0).map_or([1; 3], |level| level.size);
            lod::levels(Some(lod::of_gradient(dx, dy, size, dimensions)), sampler, count)
        }
    };
    let mixes = levels.fraction != 0 && levels.second != levels.first && is_float(texture);
    if let Some(level) = image.level(levels.first).filter(|_| !mixes)
        && !matches!(fetch.lod, Lod::Gather(_))
        && !is_wide(texture)
    {
        let Footprint { axes, layer, integers } = footprint(texture, level, &at, layer, dimensions);
        if axes.iter().all(|taps| taps.fraction == 0) {
            let [x, y, z] = axes;
            let at = [x.first, y.first, z.first];
            // SAFETY: the caller's promise.
            let bits = unsafe { read(texture, level, at, layer, integers, seen) };
            return Sample {
                words: words(texture, bits),
                approximate: approximate(texture, fetch),
            };
        }
    }
    let mut taps = Taps16 { all: [([0; 4], 0); 16], count: 0 };
    let second = if mixes { levels.fraction } else { 0 };
    for (part, (number, whole)) in
        [(levels.first, WHOLE - second), (levels.second, second)].into_iter().enumerate()
    {
        let Some(level) = image.level(number).filter(|_| whole != 0) else { continue };
        if let Lod::Gather(component) = fetch.lod {
            // SAFETY: the caller's promise.
            let words = unsafe { gather(texture, level, fetch, layer, component, seen) };
            let approximate = is_srgb(texture, 0) || image.cube;
            return Sample { words, approximate };
        }
        let footprint = footprint(texture, level, &at, layer, dimensions);
        let four = taps.all.iter_mut().skip(part * 8);
        // SAFETY: the caller's promise.
        taps.count += unsafe { collect(texture, level, &footprint, whole, four, seen) };
    }
    Sample { words: add(texture, &taps), approximate: approximate(texture, fetch) }
}

/// The texels of a fetch with their weights: eight of each of two levels.
struct Taps16 {
    all: [([u32; 4], u32); 16],
    count: usize,
}

/// Returns whether a GPU may return other bits.
fn approximate(texture: &Texture, fetch: &Fetch) -> bool {
    let Texture { image, sampler } = texture;
    let levels = image.levels.len() > 1;
    let graded = match fetch.lod {
        Lod::Gradient(..) => levels,
        Lod::Level(_) => levels && sampler.bias != 0.0,
        Lod::Base | Lod::Gather(_) => false,
    };
    let channel = image.format.channel;
    let signed = sampler.linear && is_float(texture) && channel == Channel::S8;
    // Sixteen texels are not added up as a GPU does it.
    let cuboid = image.dimensions == 3 && sampler.linear && sampler.linear_levels && levels;
    graded || signed || cuboid || is_srgb(texture, 0) || image.cube
}

/// Returns whether results are floats.
fn is_float(texture: &Texture) -> bool {
    !texture.image.format.channel.is_integer() || !texture.sampler.integers
}

/// Returns the coordinates on the image or face, and the layer.
#[inline]
fn place(texture: &Texture, fetch: &Fetch) -> ([Coordinate; 3], u64) {
    let Texture { image, sampler } = texture;
    // Subnormal coordinates are zeros.
    let float = |bits: u32| {
        let value = f32::from_bits(bits);
        if value.is_subnormal() { 0.0 } else { f64::from(value) }
    };
    let number = |bits: u32| {
        if fetch.integers {
            Coordinate::Integer(bits as i32)
        } else if sampler.normalized {
            Coordinate::Normalized(float(bits))
        } else {
            Coordinate::Texels(float(bits))
        }
    };
    let last = |count: u32| u64::from(fetch.layer.min(count.saturating_sub(1)));
    if image.cube {
        let (face, [s, t]) = face(fetch.at.map(f32::from_bits));
        let cube = if image.layered { last(image.layers / 6) } else { 0 };
        let at = [s, t, 0.0].map(Coordinate::Normalized);
        return (at, cube * 6 + u64::from(face));
    }
    let layer = if image.layered { last(image.layers) } else { 0 };
    let [x, y, z] = fetch.at;
    ([number(x), number(y), number(z)], layer)
}

#[inline]
fn footprint(
    texture: &Texture,
    level: &Level,
    at: &[Coordinate; 3],
    layer: u64,
    dimensions: u32,
) -> Footprint {
    let Texture { image, sampler } = texture;
    let linear = sampler.linear && is_float(texture) && !image.linear;
    let none = Taps { first: Some(0), second: Some(0), fraction: 0 };
    let taps = |axis: usize| {
        // A GPU has a second axis for one-dimensional images without layers; the coordinate there is 0.
        if axis == 1 && dimensions == 1 && !image.layered && linear {
            return locate(Coordinate::Texels(0.0), 1, address(texture, axis), linear);
        }
        if axis >= dimensions as usize {
            return none;
        }
        locate(at[axis], level.size[axis], address(texture, axis), linear)
    };
    let axes = [taps(0), taps(1), taps(2)];
    let integers = matches!(at[0], Coordinate::Integer(_));
    Footprint { axes, layer, integers }
}

/// Returns what a coordinate outside along an axis means.
#[inline]
fn address(texture: &Texture, axis: usize) -> Address {
    let Texture { image, sampler } = texture;
    match sampler.address[axis] {
        _ if image.cube => Address::Clamp,
        _ if image.linear => Address::Border,
        Address::Wrap | Address::Mirror if !sampler.normalized => Address::Clamp,
        address => address,
    }
}

/// Reads the channels of a texel, or of the border.
///
/// # Safety
/// As for [`sample`].
unsafe fn read(
    texture: &Texture,
    level: &Level,
    at: [Option<u32>; 3],
    layer: u64,
    integers: bool,
    seen: &mut dyn FnMut(u64, u64) -> bool,
) -> [u32; 4] {
    let Texture { image, sampler } = texture;
    let ([Some(x), Some(y), Some(z)], bytes) = (at, image.format.bytes()) else {
        // Outside of linear memory and for integer coordinates there are zeros.
        if integers || image.linear {
            return [0; 4];
        }
        let channel = image.format.channel;
        let color = |at: usize| {
            let value = sampler.border[at];
            match is_srgb(texture, at) {
                true => value.clamp(0.0, 1.0).to_bits(),
                false => of_border(channel, value, !is_float(texture)),
            }
        };
        return std::array::from_fn(color);
    };
    let slice = if image.dimensions == 3 { u64::from(z) } else { layer };
    let address = level.at(x.into(), y.into(), slice, bytes);
    if !seen(address, bytes) {
        return [0; 4];
    }
    // SAFETY: the caller's promise: `seen` said that the texel is live.
    let bits = unsafe { image.format.read(address) };
    if !sampler.srgb {
        return bits;
    }
    std::array::from_fn(|at| match is_srgb(texture, at) {
        true => linear_of_srgb(number(image.format.channel, bits[at])).to_bits(),
        false => bits[at],
    })
}

/// Returns whether a channel is one of sRGB; alpha is none. The bits of such a channel are those of a float.
fn is_srgb(texture: &Texture, channel: usize) -> bool {
    let Texture { image, sampler } = texture;
    sampler.srgb && image.format.channel == Channel::U8 && is_float(texture) && channel < 3
}

/// Returns the words of a texel's channels; those of the missing ones are zeros.
fn words(texture: &Texture, bits: [u32; 4]) -> [u32; 4] {
    let (mut words, floats) = ([0; 4], is_float(texture));
    for (at, word) in words.iter_mut().enumerate().take(texture.image.format.channels as usize) {
        *word = if floats { float(texture, bits, at).to_bits() } else { bits[at] };
    }
    words
}

/// Returns the number of a texel's channel.
fn float(texture: &Texture, bits: [u32; 4], at: usize) -> f32 {
    let of = if is_srgb(texture, at) { Channel::F32 } else { texture.image.format.channel };
    number(of, bits[at])
}

/// Returns whether a linear filter widens even a texel that it reads alone.
fn is_wide(texture: &Texture) -> bool {
    let channel = texture.image.format.channel;
    texture.sampler.linear && channel == Channel::S8 && is_float(texture)
}

/// Reads the texels of a footprint, whose weights add up to `whole`. Returns how many there are.
///
/// # Safety
/// As for [`sample`].
unsafe fn collect<'t>(
    texture: &Texture,
    level: &Level,
    footprint: &Footprint,
    whole: u32,
    into: impl Iterator<Item = &'t mut ([u32; 4], u32)>,
    seen: &mut dyn FnMut(u64, u64) -> bool,
) -> usize {
    let Footprint { axes, layer, integers } = footprint;
    let weights = weights(axes.map(|taps| taps.fraction), whole);
    let mut count = 0;
    for ((corner, weight), into) in weights.into_iter().enumerate().zip(into) {
        let second = |axis: usize| corner >> axis & 1 != 0;
        if weight == 0 {
            continue;
        }
        let at =
            std::array::from_fn(
                |axis| {
                    if second(axis) { axes[axis].second } else { axes[axis].first }
                },
            );
        // SAFETY: the caller's promise.
        *into = (unsafe { read(texture, level, at, *layer, *integers, seen) }, weight);
        count += 1;
    }
    count
}

/// Returns the weighted sum of texels.
fn add(texture: &Texture, taps: &Taps16) -> [u32; 4] {
    let Format { channel, channels } = texture.image.format;
    if taps.count == 1
        && let Some((bits, _)) = taps.all.iter().find(|(_, weight)| *weight != 0)
        && !is_wide(texture)
    {
        return words(texture, *bits);
    }
    std::array::from_fn(|at| {
        if at >= channels as usize {
            return 0;
        }
        // Places without a texel have the weight 0.
        let floats = || {
            taps.all.map(|(bits, weight)| match weight {
                0 => (0.0, 0),
                _ => (float(texture, bits, at), weight),
            })
        };
        let integers = taps.all.iter().map(|(bits, weight)| (widened(channel, bits[at]), *weight));
        match channel {
            Channel::F16 => sum(floats(), Precision::HALF),
            Channel::U8 if is_srgb(texture, at) => sum(floats(), Precision::SINGLE),
            Channel::U8 | Channel::U16 | Channel::S8 | Channel::S16 => {
                narrowed(channel, sum_integers(integers))
            }
            Channel::F32 | Channel::U32 | Channel::S32 => sum(floats(), Precision::SINGLE),
        }
        .to_bits()
    })
}

/// Reads a component of four texels: lower left, lower right, upper right, upper left.
///
/// # Safety
/// The image's memory is live.
unsafe fn gather(
    texture: &Texture,
    level: &Level,
    fetch: &Fetch,
    layer: u64,
    component: u8,
    seen: &mut dyn FnMut(u64, u64) -> bool,
) -> [u32; 4] {
    let (at, _) = place(texture, fetch);
    let [x, y] =
        [0, 1].map(|axis| locate(at[axis], level.size[axis], address(texture, axis), true));
    let corners =
        [(x.first, y.second), (x.second, y.second), (x.second, y.first), (x.first, y.first)];
    corners.map(|(x, y)| {
        // SAFETY: the caller's promise.
        let bits = unsafe { read(texture, level, [x, y, Some(0)], layer, false, seen) };
        words(texture, bits)[usize::from(component & 3)]
    })
}

//! The kernels of volumes.

use cuda_safe::{Error, Kernel, Result};
use nanovdb::ValueType;

use super::Volume;
use crate::geometry::{Group, Source};

/// Those for the values of one volume. They are loaded when they are first asked for.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    lookup: Group<1>,
    active: Group<1>,
    store: Group<1>,
    nearest: Group<2>,
    map: Group<2>,
    pub(super) march: Group<2>,
    /// With arithmetic in f32, and in f64.
    interpolate: [Group<3>; 2],
    /// The same for each type of values that index grids may have elsewhere.
    indexed: [[Group<3>; 2]; 6],
}

/// Those that interpolate: in cells, the same with gradients, and tricubically. What index grids have instead
/// is the nearest, and those in cells and tricubically with gradients if asked for.
pub(super) type Interpolating = [Kernel; 3];

impl Volume {
    pub(super) fn lookup_kernel(&self) -> Result<&Kernel> {
        self.one(&self.kernels.lookup, Source::VolumeLookup, "lookup")
    }

    pub(super) fn active_kernel(&self) -> Result<&Kernel> {
        self.one(&self.kernels.active, Source::VolumeActive, "active")
    }

    /// There is none for index grids.
    pub(super) fn store_kernel(&self) -> Result<&Kernel> {
        self.one(&self.kernels.store, Source::VolumeStore, "store")
    }

    fn one<'a>(&self, group: &'a Group<1>, source: Source, name: &str) -> Result<&'a Kernel> {
        let lies = lies_as(self.value_type());
        let names = || [format!("volume_{name}_{lies}")];
        group.get(self.geometry(), source, names).map(|[kernel]| kernel)
    }

    /// At positions of f32, or of f64.
    pub(super) fn nearest_kernel(&self, wide: bool) -> Result<&Kernel> {
        let lies = lies_as(self.value_type());
        let names = || ["f32", "f64"].map(|p| format!("volume_nearest_{lies}_{p}"));
        let kernels = self.kernels.nearest.get(self.geometry(), Source::VolumeNearest, names)?;
        Ok(pick(kernels, wide))
    }

    pub(super) fn map_kernel(&self, wide: bool) -> Result<&Kernel> {
        let names = || ["f32", "f64"].map(|p| format!("volume_map_{p}"));
        let kernels = self.kernels.map.get(self.geometry(), Source::VolumeMap, names)?;
        Ok(pick(kernels, wide))
    }

    /// At positions of f32, or of f64.
    pub(super) fn interpolating(&self, wide: bool) -> Result<&Interpolating> {
        let of = Numbers::of(self.value_type())?;
        let (group, end) = of.arithmetic(&self.kernels.interpolate, wide);
        let names = || {
            ["trilinear", "trilinear_gradient", "tricubic"]
                .map(|name| format!("volume_{name}_{}_{end}", of.suffix))
        };
        group.get(self.geometry(), of.stored, names)
    }

    /// For values of a type in an array, of a grid that is of `Index` or `OnIndex`.
    pub(super) fn indexing(&self, values: ValueType, wide: bool) -> Result<&Interpolating> {
        let of = Numbers::of(values)?;
        let missing = || Error::invalid("no kernels for such values");
        let groups = self.kernels.indexed.get(of.number).ok_or_else(missing)?;
        let (group, end) = of.arithmetic(groups, wide);
        let index = lies_as(self.value_type());
        let names = || {
            ["nearest", "trilinear", "tricubic"]
                .map(|name| format!("volume_{name}_{index}_{}_{end}", of.suffix))
        };
        group.get(self.geometry(), of.indexed, names)
    }
}

fn pick<T>([narrow, wide]: &[T; 2], is_wide: bool) -> &T {
    if is_wide { wide } else { narrow }
}

/// Types that lie alike share kernels where nothing is done with values.
fn lies_as(value_type: ValueType) -> &'static str {
    use ValueType as V;
    match value_type {
        V::F32 | V::I32 | V::U32 | V::Rgba8 => "u32",
        V::F64 | V::I64 => "i64",
        V::I16 => "i16",
        V::U8 => "u8",
        V::Vec3F => "vec3f",
        V::Vec3D => "vec3d",
        V::Vec4F => "vec4f",
        V::Vec4D => "vec4d",
        V::Bool => "bool",
        V::Mask => "mask",
        V::Index => "index",
        V::OnIndex => "on_index",
    }
}

/// A type of values that can be interpolated.
struct Numbers {
    number: usize,
    suffix: &'static str,
    /// Whether they are f64.
    wide: bool,
    /// The kernels for volumes of such values, and for arrays of them.
    stored: Source,
    indexed: Source,
}

impl Numbers {
    fn of(value_type: ValueType) -> Result<Self> {
        use Source as S;
        let (number, suffix, wide, stored, indexed) = match value_type {
            ValueType::F32 => (0, "f32", false, S::VolumeSampleF32, S::VolumeIndexF32),
            ValueType::F64 => (1, "f64", true, S::VolumeSampleF64, S::VolumeIndexF64),
            ValueType::Vec3F => (2, "vec3f", false, S::VolumeSampleVec3F, S::VolumeIndexVec3F),
            ValueType::Vec3D => (3, "vec3d", true, S::VolumeSampleVec3D, S::VolumeIndexVec3D),
            ValueType::Vec4F => (4, "vec4f", false, S::VolumeSampleVec4F, S::VolumeIndexVec4F),
            ValueType::Vec4D => (5, "vec4d", true, S::VolumeSampleVec4D, S::VolumeIndexVec4D),
            other => {
                let name = other.name();
                let what =
                    format!("values of {name} have no numbers between them; take the nearest");
                return Err(Error::invalid(what));
            }
        };
        Ok(Self { number, suffix, wide, stored, indexed })
    }

    /// The group whose arithmetic is for positions of f32, or of f64, and how its names end.
    fn arithmetic<'a, T>(&self, groups: &'a [T; 2], wide: bool) -> (&'a T, &'static str) {
        let wide = self.wide || wide;
        (pick(groups, wide), if wide { "f64" } else { "f32" })
    }
}

//! The modules of this crate, loaded in a context.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use cuda_safe::nvrtc::Options;
use cuda_safe::{Context, DeclaredKernels, KernelSource, Module, Result};

use crate::headers::program;

/// The kernels of this crate in one context. A clone is another handle to the same.
///
/// Nothing is loaded before it is needed; the driver compiles a module when it is loaded for the first
/// time on a machine, and keeps the result itself.
#[derive(Clone)]
pub struct GeometryKernels {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    exact_arch: bool,
    modules: [OnceLock<Module>; TEXTS.len()],
    /// What [`GeometryKernels::kernels`] has made, by type.
    kernels: RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// What kernels are made from: CUDA C++, the name of its file, and what NVRTC made of it.
struct Texts {
    cuda: &'static str,
    file: &'static str,
    ptx: &'static str,
}

/// Declares [`Source`], and for each the texts of `device/kernels/NAME.cu` and `ptx/NAME.ptx`. Several modules
/// `in` one file are each compiled with `MODULE_NAME` defined.
macro_rules! sources {
    ($($(#[$when:meta])? $source:ident = $name:literal $(in $file:literal)?,)+) => {
        /// A source of kernels: an index into [`TEXTS`] and `Inner::modules`.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Source {
            $($(#[$when])? $source,)+
        }

        const TEXTS: &[Texts] = &[$($(#[$when])? Texts {
            cuda: cuda_text!($name $(in $file)?),
            file: concat!($name, ".cu"),
            ptx: include_str!(concat!("../ptx/", $name, ".ptx")),
        },)+];
    };
}

/// The CUDA C++ of a module.
macro_rules! cuda_text {
    ($name:literal) => {
        include_str!(concat!("../device/kernels/", $name, ".cu"))
    };
    ($name:literal in $file:literal) => {
        concat!(
            "#define MODULE_",
            $name,
            "\n",
            include_str!(concat!("../device/kernels/", $file, ".cu"))
        )
    };
}

/// The crate's own kernels: file names and CUDA C++. For this project's tests.
#[cfg(feature = "internals")]
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXTS.iter().map(|texts| (texts.file, texts.cuda))
}

/// The PTX of the crate's own kernels, module by module. For this project's tests.
#[cfg(feature = "internals")]
pub fn ptx() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|texts| texts.ptx)
}

sources! {
    SortPairs32 = "sort_pairs_u32" in "sort",
    SortPairs64 = "sort_pairs_u64" in "sort",
    SortKeys = "sort_keys" in "sort",
    SortCount = "sort_count",
    Scan = "scan" in "sort",
    ScanOffsets = "scan_offsets" in "sort",
    Select = "select",
    Reduce = "reduce",
    GridBuild32 = "hash_grid_build_f32" in "hash_grid",
    GridBuild64 = "hash_grid_build_f64" in "hash_grid",
    GridUnbounded32 = "hash_grid_unbounded_f32" in "hash_grid",
    GridUnbounded64 = "hash_grid_unbounded_f64" in "hash_grid",
    GridOrder32 = "hash_grid_order_f32" in "hash_grid",
    GridOrder64 = "hash_grid_order_f64" in "hash_grid",
    GridQuery32 = "hash_grid_query_f32" in "hash_grid",
    GridQuery64 = "hash_grid_query_f64" in "hash_grid",
    GridNearest32 = "hash_grid_nearest_f32" in "hash_grid",
    GridNearest64 = "hash_grid_nearest_f64" in "hash_grid",
    MeshBuild = "mesh_build",
    MeshClosest = "mesh_closest",
    MeshSigned = "mesh_signed",
    MeshRays = "mesh_rays",
    MeshEvaluate = "mesh_evaluate",
    MeshOverlap = "mesh_overlap",
    MeshTopology = "mesh_topology",
    MeshReport = "mesh_report",
    MeshWinding = "mesh_winding",
    BvhBuild = "bvh_build",
    BvhCluster = "bvh_cluster",
    BvhBoxes = "bvh_boxes",
    BvhQuery = "bvh_query",
    VolumeLookup = "volume_lookup",
    VolumeActive = "volume_active",
    VolumeStore = "volume_store",
    VolumeNearest = "volume_nearest",
    VolumeMap = "volume_map",
    VolumeSampleF32 = "volume_sample_f32" in "volume_sample",
    VolumeSampleF64 = "volume_sample_f64" in "volume_sample",
    VolumeSampleVec3F = "volume_sample_vec3f" in "volume_sample",
    VolumeSampleVec3D = "volume_sample_vec3d" in "volume_sample",
    VolumeSampleVec4F = "volume_sample_vec4f" in "volume_sample",
    VolumeSampleVec4D = "volume_sample_vec4d" in "volume_sample",
    VolumeIndexF32 = "volume_index_f32" in "volume_sample",
    VolumeIndexF64 = "volume_index_f64" in "volume_sample",
    VolumeIndexVec3F = "volume_index_vec3f" in "volume_sample",
    VolumeIndexVec3D = "volume_index_vec3d" in "volume_sample",
    VolumeIndexVec4F = "volume_index_vec4f" in "volume_sample",
    VolumeIndexVec4D = "volume_index_vec4d" in "volume_sample",
    IsosurfaceDense = "isosurface_dense",
    IsosurfaceBlocks = "isosurface_blocks",
    IsosurfaceVolume = "isosurface_volume",
    VolumeBuild = "volume_build",
    VolumeDense = "volume_dense",
    VolumeLists = "volume_lists",
    VolumeMarch = "volume_march",
    VolumeDirectory = "volume_directory",
    #[cfg(feature = "tape")]
    TapeMeshPoints = "tape_mesh_points",
    #[cfg(feature = "tape")]
    TapeMeshRays = "tape_mesh_rays",
    #[cfg(feature = "tape")]
    TapeMeshEvaluate = "tape_mesh_evaluate",
    #[cfg(feature = "tape")]
    TapeMeshNormals = "tape_mesh_normals",
    #[cfg(feature = "tape")]
    TapeIsosurface = "tape_isosurface",
    #[cfg(feature = "tape")]
    TapeReduce = "tape_reduce",
    #[cfg(feature = "tape")]
    TapeVolumeF32 = "tape_volume_f32" in "tape_volume",
    #[cfg(feature = "tape")]
    TapeVolumeF64 = "tape_volume_f64" in "tape_volume",
    #[cfg(feature = "tape")]
    TapeVolumeVec3F = "tape_volume_vec3f" in "tape_volume",
    #[cfg(feature = "tape")]
    TapeVolumeVec3D = "tape_volume_vec3d" in "tape_volume",
    #[cfg(feature = "tape")]
    TapeVolumeVec4F = "tape_volume_vec4f" in "tape_volume",
    #[cfg(feature = "tape")]
    TapeVolumeVec4D = "tape_volume_vec4d" in "tape_volume",
}

impl GeometryKernels {
    /// From PTX that is part of this crate: no compiler is needed. It suits every driver from CUDA
    /// 12.0 and every device from Turing on (compute capability 7.5).
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self::with(context, false)
    }

    /// Compiled by NVRTC for exactly the context's device, from the same sources.
    #[must_use]
    pub fn compiled(context: &Context) -> Self {
        Self::with(context, true)
    }

    fn with(context: &Context, exact_arch: bool) -> Self {
        let modules = [const { OnceLock::new() }; TEXTS.len()];
        Self {
            inner: Arc::new(Inner {
                context: context.clone(),
                exact_arch,
                modules,
                kernels: RwLock::default(),
            }),
        }
    }

    /// The context that the kernels are loaded in.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Returns the kernels of a declaration, loaded now if nobody has asked for them before.
    pub(crate) fn kernels<K: OfSource>(&self) -> Result<Arc<K>> {
        let slots = &self.inner.kernels;
        let known = |slot: &Arc<dyn Any + Send + Sync>| slot.clone().downcast::<K>().ok();
        let found = slots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&TypeId::of::<K>())
            .and_then(known);
        if let Some(kernels) = found {
            return Ok(kernels);
        }
        let module = self.module(K::SOURCE)?;
        // SAFETY: `OfSource` names the source that the declaration is about.
        let kernels = Arc::new(unsafe { K::from_module(&module) }?);
        let mut slots = slots.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster; its kernels are the same.
        let slot = slots.entry(TypeId::of::<K>()).or_insert_with(|| kernels.clone());
        Ok(known(slot).unwrap_or(kernels))
    }

    /// The module of a source, loaded now if nobody has asked for it before.
    pub(crate) fn module(&self, source: Source) -> Result<Module> {
        let slot = &self.inner.modules[source as usize];
        if let Some(module) = slot.get() {
            return Ok(module.clone());
        }
        let Texts { cuda, file, ptx } = &TEXTS[source as usize];
        let module = if self.inner.exact_arch {
            let program = program(*cuda).name(*file).options(Options::new());
            program.load_kernels(&self.inner.context, &[])?
        } else {
            Module::from_ptx(&self.inner.context, ptx)?
        };
        // Two threads may both have loaded it; the module of the second goes to the bin.
        Ok(slot.get_or_init(|| module).clone())
    }
}

impl fmt::Debug for GeometryKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.inner.modules.iter().filter(|module| module.get().is_some()).count();
        f.debug_struct("GeometryKernels")
            .field("context", &self.inner.context)
            .field("exact_arch", &self.inner.exact_arch)
            .field("loaded", &loaded)
            .finish()
    }
}

/// Kernels that [`kernels!`](cuda_safe::kernels) has declared, all in one of this crate's sources.
///
/// # Safety
/// `SOURCE` is the source that the declaration's promises are about.
pub(crate) unsafe trait OfSource: DeclaredKernels {
    /// The source.
    const SOURCE: Source;
}

/// Says which source a declaration of [`kernels!`](cuda_safe::kernels) is about:
/// `of_source!(Evaluate, Source::MeshEvaluate)`, `of_source!(<K: RadixKey> Pairs<K>, K::PAIRS)`.
macro_rules! of_source {
    (<$($T:ident: $bound:path),+> $kernels:ty, $source:expr) => {
        // SAFETY: the declaration is about this source.
        unsafe impl<$($T: $bound),+> $crate::geometry::OfSource for $kernels {
            const SOURCE: $crate::geometry::Source = $source;
        }
    };
    ($kernels:ty, $source:expr) => {
        // SAFETY: the declaration is about this source.
        unsafe impl $crate::geometry::OfSource for $kernels {
            const SOURCE: $crate::geometry::Source = $source;
        }
    };
}

pub(crate) use of_source;

impl KernelSource for Source {
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        Module::from_ptx(context, TEXTS[self as usize].ptx)
    }
}

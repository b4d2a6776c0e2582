//! The modules of this crate, loaded in a context.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, PoisonError, RwLock};

use cuda_safe::nvrtc::{Arch, Options};
use cuda_safe::{
    Context, DeclaredKernels, KernelSignatures, KernelSource, Module, PackedPtx, Result,
};

use crate::headers::program;

/// The kernels of this crate in one context. A clone is another handle to the same kernels.
///
/// A kernel is loaded on first use; the kernels of a structure are loaded together when the first one is created. The
/// driver compiles a kernel that is loaded for the first time on a machine, several in parallel, and caches the
/// result.
#[derive(Clone)]
pub struct GeometryKernels {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    load: Load,
    /// The loaded modules, by name.
    modules: RwLock<HashMap<&'static str, Module>>,
    /// The kernels that [`GeometryKernels::kernels`] has loaded, by type.
    kernels: RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// A bit for each operation whose kernels are prepared.
    prepared: AtomicU32,
}

/// The function that loads a module: [`unpack`] or [`compile`]. It is a pointer, so that a program that never calls
/// [`GeometryKernels::compiled`] links neither the headers nor the compiler.
type Load = fn(&Context, &Embedded) -> Result<Module>;

fn unpack(context: &Context, embedded: &Embedded) -> Result<Module> {
    Module::load_lazily(context, embedded.ptx)
}

fn compile(context: &Context, embedded: &Embedded) -> Result<Module> {
    let program = program(embedded.cuda).name(embedded.file).options(Options::new());
    program.load_kernels(context, &[])
}

/// A module of kernels: its CUDA C++, the file name of that text, and the PTX that NVRTC compiled from it.
pub(crate) struct Embedded {
    cuda: &'static str,
    file: &'static str,
    ptx: PackedPtx<'static>,
}

/// A source of kernels: a reference to a static. Programs need no table of them, so the linker keeps only those that
/// the program refers to.
#[derive(Clone, Copy)]
pub(crate) struct Source(&'static Embedded);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.0.ptx.name()).finish()
    }
}

/// Declares the constants of [`Source`], with the texts of `device/kernels/NAME.cu` and `ptx/NAME.ptx.gz`. Several
/// modules `in` one file are each compiled with `MODULE_NAME` defined.
macro_rules! sources {
    ($($(#[$when:meta])? $source:ident = $name:literal $(in $file:literal)?,)+) => {
        impl Source {
            $($(#[$when])? pub(crate) const $source: Self = {
                static MODULE: Embedded = Embedded {
                    cuda: cuda_text!($name $(in $file)?),
                    file: concat!($name, ".cu"),
                    ptx: PackedPtx::new(
                        $name,
                        include_bytes!(concat!("../ptx/", $name, ".ptx.gz")),
                    ),
                };
                Self(&MODULE)
            };)+

            /// All sources: for tests only, since a program that uses this embeds every module.
            #[cfg(any(test, feature = "internals"))]
            const ALL: &[Self] = &[$($(#[$when])? Self::$source,)+];
        }
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

/// Returns the crate's own kernels: file names and CUDA C++. For this project's tests.
#[cfg(feature = "internals")]
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    Source::ALL.iter().map(|source| (source.0.file, source.0.cuda))
}

/// Returns the PTX of the crate's own kernels, module by module. For this project's tests.
#[cfg(feature = "internals")]
pub fn ptx() -> impl Iterator<Item = PackedPtx<'static>> {
    Source::ALL.iter().map(|source| source.0.ptx)
}

sources! {
    SORT_PAIRS_U32 = "sort_pairs_u32" in "sort",
    SORT_PAIRS_U64 = "sort_pairs_u64" in "sort",
    SORT_KEYS = "sort_keys" in "sort",
    SORT_COUNT = "sort_count",
    SCAN = "scan" in "sort",
    SCAN_OFFSETS = "scan_offsets" in "sort",
    SELECT = "select",
    REDUCE = "reduce",
    HASH_GRID_BUILD_F32 = "hash_grid_build_f32" in "hash_grid",
    HASH_GRID_BUILD_F64 = "hash_grid_build_f64" in "hash_grid",
    HASH_GRID_UNBOUNDED_F32 = "hash_grid_unbounded_f32" in "hash_grid",
    HASH_GRID_UNBOUNDED_F64 = "hash_grid_unbounded_f64" in "hash_grid",
    HASH_GRID_ORDER_F32 = "hash_grid_order_f32" in "hash_grid",
    HASH_GRID_ORDER_F64 = "hash_grid_order_f64" in "hash_grid",
    HASH_GRID_QUERY_F32 = "hash_grid_query_f32" in "hash_grid",
    HASH_GRID_QUERY_F64 = "hash_grid_query_f64" in "hash_grid",
    HASH_GRID_NEAREST_F32 = "hash_grid_nearest_f32" in "hash_grid",
    HASH_GRID_NEAREST_F64 = "hash_grid_nearest_f64" in "hash_grid",
    MESH_BUILD = "mesh_build",
    MESH_CLOSEST = "mesh_closest",
    MESH_SIGNED = "mesh_signed",
    MESH_RAYS = "mesh_rays",
    MESH_EVALUATE = "mesh_evaluate",
    MESH_OVERLAP = "mesh_overlap",
    MESH_TOPOLOGY = "mesh_topology",
    MESH_REPORT = "mesh_report",
    MESH_WINDING = "mesh_winding",
    BVH_BUILD = "bvh_build",
    BVH_CLUSTER = "bvh_cluster",
    BVH_BOXES = "bvh_boxes",
    BVH_QUERY = "bvh_query",
    VOLUME_LOOKUP = "volume_lookup",
    VOLUME_ACTIVE = "volume_active",
    VOLUME_STORE = "volume_store",
    VOLUME_NEAREST = "volume_nearest",
    VOLUME_MAP = "volume_map",
    VOLUME_SAMPLE_F32 = "volume_sample_f32" in "volume_sample",
    VOLUME_SAMPLE_F64 = "volume_sample_f64" in "volume_sample",
    VOLUME_SAMPLE_VEC3F = "volume_sample_vec3f" in "volume_sample",
    VOLUME_SAMPLE_VEC3D = "volume_sample_vec3d" in "volume_sample",
    VOLUME_SAMPLE_VEC4F = "volume_sample_vec4f" in "volume_sample",
    VOLUME_SAMPLE_VEC4D = "volume_sample_vec4d" in "volume_sample",
    VOLUME_INDEX_F32 = "volume_index_f32" in "volume_sample",
    VOLUME_INDEX_F64 = "volume_index_f64" in "volume_sample",
    VOLUME_INDEX_VEC3F = "volume_index_vec3f" in "volume_sample",
    VOLUME_INDEX_VEC3D = "volume_index_vec3d" in "volume_sample",
    VOLUME_INDEX_VEC4F = "volume_index_vec4f" in "volume_sample",
    VOLUME_INDEX_VEC4D = "volume_index_vec4d" in "volume_sample",
    ISOSURFACE_DENSE = "isosurface_dense",
    ISOSURFACE_BLOCKS = "isosurface_blocks",
    ISOSURFACE_VOLUME = "isosurface_volume",
    VOLUME_BUILD = "volume_build",
    VOLUME_DENSE = "volume_dense",
    VOLUME_LISTS = "volume_lists",
    VOLUME_MARCH = "volume_march",
    VOLUME_DIRECTORY = "volume_directory",
    #[cfg(feature = "tape")]
    TAPE_MESH_POINTS = "tape_mesh_points",
    #[cfg(feature = "tape")]
    TAPE_MESH_RAYS = "tape_mesh_rays",
    #[cfg(feature = "tape")]
    TAPE_MESH_EVALUATE = "tape_mesh_evaluate",
    #[cfg(feature = "tape")]
    TAPE_MESH_NORMALS = "tape_mesh_normals",
    #[cfg(feature = "tape")]
    TAPE_ISOSURFACE = "tape_isosurface",
    #[cfg(feature = "tape")]
    TAPE_REDUCE = "tape_reduce",
    #[cfg(feature = "tape")]
    TAPE_VOLUME_F32 = "tape_volume_f32" in "tape_volume",
    #[cfg(feature = "tape")]
    TAPE_VOLUME_F64 = "tape_volume_f64" in "tape_volume",
    #[cfg(feature = "tape")]
    TAPE_VOLUME_VEC3F = "tape_volume_vec3f" in "tape_volume",
    #[cfg(feature = "tape")]
    TAPE_VOLUME_VEC3D = "tape_volume_vec3d" in "tape_volume",
    #[cfg(feature = "tape")]
    TAPE_VOLUME_VEC4F = "tape_volume_vec4f" in "tape_volume",
    #[cfg(feature = "tape")]
    TAPE_VOLUME_VEC4D = "tape_volume_vec4d" in "tape_volume",
}

impl GeometryKernels {
    /// Loads the kernels from PTX that is part of this crate: no compiler is needed. It suits every driver from CUDA
    /// 12.0 and every device from Turing on (compute capability 7.5).
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self::with(context, unpack)
    }

    /// Compiles the same sources by NVRTC for the context's device.
    #[must_use]
    pub fn compiled(context: &Context) -> Self {
        Self::with(context, compile)
    }

    fn with(context: &Context, load: Load) -> Self {
        Self {
            inner: Arc::new(Inner {
                context: context.clone(),
                load,
                modules: RwLock::default(),
                kernels: RwLock::default(),
                prepared: AtomicU32::new(0),
            }),
        }
    }

    /// Returns the context that the kernels are loaded in.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Returns the kernels of a declaration, and loads them on the first call.
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
        // Another thread may have loaded the same kernels first.
        let slot = slots.entry(TypeId::of::<K>()).or_insert_with(|| kernels.clone());
        Ok(known(slot).unwrap_or(kernels))
    }

    pub(crate) fn prepared(&self) -> &AtomicU32 {
        &self.inner.prepared
    }

    /// Returns the modules that are loaded.
    #[cfg(feature = "internals")]
    pub(crate) fn loaded_modules(&self) -> Vec<Module> {
        let modules = self.inner.modules.read().unwrap_or_else(PoisonError::into_inner);
        modules.values().cloned().collect()
    }

    /// Returns the module of a source, and loads it on first use.
    pub(crate) fn module(&self, source: Source) -> Result<Module> {
        let (name, modules) = (source.0.ptx.name(), &self.inner.modules);
        let found = modules.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(module) = found {
            return Ok(module);
        }
        let module = (self.inner.load)(&self.inner.context, source.0)?;
        // Another thread may have loaded it too; the second module goes to the deferred-free list.
        let mut modules = modules.write().unwrap_or_else(PoisonError::into_inner);
        Ok(modules.entry(name).or_insert(module).clone())
    }
}

impl fmt::Debug for GeometryKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.inner.modules.read().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("GeometryKernels")
            .field("context", &self.inner.context)
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

/// Names the source of a declaration of [`kernels!`](cuda_safe::kernels): `of_source!(Evaluate,
/// Source::MESH_EVALUATE)`, `of_source!(<K: RadixKey> Pairs<K>, K::PAIRS)`.
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
        unpack(context, self.0)
    }

    fn signatures(self, arch: Arch, names: &[&str]) -> Result<KernelSignatures> {
        self.0.ptx.signatures(arch, names)
    }
}

#[cfg(test)]
mod tests;

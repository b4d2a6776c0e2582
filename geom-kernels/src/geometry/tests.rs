use std::ffi::{CStr, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::sys::{CUjit_option, CUlibrary, CUlibraryOption, CUresult};
use cuda_safe::{Context, DeviceBuffer, Driver, Result};

use super::{Embedded, GeometryKernels, Source};
use crate::mesh::{Mesh, MeshOptions, PointQueries, Sign, shapes};

#[test]
fn every_pack_is_a_text_of_its_module() -> Result<()> {
    for Source(Embedded { file, ptx, .. }) in Source::ALL {
        assert_eq!(*file, format!("{}.cu", ptx.name()));
        let text = ptx.unpack()?;
        assert!(text.is_ascii() && text.contains("\n.version 8.0\n"), "{file}");
        assert!(text.contains("\n.target sm_75\n"), "{file}");
    }
    Ok(())
}

/// The type of `cuLibraryLoadData`.
type Load = unsafe extern "C" fn(
    *mut CUlibrary,
    *const c_void,
    *mut CUjit_option,
    *mut *mut c_void,
    c_uint,
    *mut CUlibraryOption,
    *mut *mut c_void,
    c_uint,
) -> CUresult;

/// Whether [`load`] refuses this kernel.
static REFUSES: AtomicBool = AtomicBool::new(true);
const REFUSED: &str = ".entry mesh_signed_by_normal";

/// `cuLibraryLoadData` of the software device, except that it refuses one kernel's PTX.
unsafe extern "C" fn load(
    library: *mut CUlibrary,
    image: *const c_void,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    count: c_uint,
    library_options: *mut CUlibraryOption,
    library_values: *mut *mut c_void,
    library_count: c_uint,
) -> CUresult {
    // SAFETY: `cuda-safe` passes PTX here as a C string.
    let ptx = unsafe { CStr::from_ptr(image.cast()) };
    if REFUSES.load(Ordering::Relaxed) && ptx.to_string_lossy().contains(REFUSED) {
        return CUresult::CUDA_ERROR_INVALID_PTX;
    }
    let function = cuda_emu::resolver()(c"cuLibraryLoadData");
    // SAFETY: the software device's function of this name has this type.
    let function = unsafe { std::mem::transmute::<*const c_void, Load>(function) };
    // SAFETY: the arguments are the caller's.
    unsafe {
        function(
            library,
            image,
            options,
            values,
            count,
            library_options,
            library_values,
            library_count,
        )
    }
}

/// Returns a context of the software device with [`load`].
fn context() -> Result<Context> {
    let emulated = cuda_emu::resolver();
    let resolve = |name: &CStr| -> *const c_void {
        if name == c"cuLibraryLoadData" { load as Load as *const c_void } else { emulated(name) }
    };
    // SAFETY: the functions are those of the software device, and one of the type that its name has. They last as
    // long as the program.
    let sys = unsafe { cuda_safe::sys::Driver::from_resolver(&resolve) };
    Driver::from_sys(sys)?.device(0)?.context()
}

#[test]
fn a_module_that_the_driver_refuses_does_not_affect_the_others() -> Result<()> {
    let context = context()?;
    let stream = context.stream()?;
    let geometry = GeometryKernels::new(&context);
    let ball = shapes::icosphere(1, 1.0)?;
    let mesh = Mesh::upload(&stream, &geometry, &ball, MeshOptions::default())?;
    let points = DeviceBuffer::from_slice(&stream, &[[0.0f32, 0.0, 3.0]; 3])?;
    let queries = PointQueries::at(&points);
    let mut closest = DeviceBuffer::zeroed(&stream, 3)?;
    let mut distances = DeviceBuffer::<f32>::zeroed(&stream, 3)?;

    for _ in 0..2 {
        let result = mesh.signed_distances(&stream, &queries, Sign::Normal, &mut distances);
        let error = result.expect_err("the driver refuses the module");
        assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_PTX));
        assert!(error.to_string().contains("`mesh_signed`"), "{error}");
        assert!(!error.is_fatal(), "{error}");
        mesh.closest_points(&stream, &queries, &mut closest)?;
        let position = closest.to_vec(&stream)?[0].position;
        assert!((0.7..=1.0).contains(&position[2]), "{position:?}");
    }

    // A refusal is not cached: the next call asks the driver again.
    REFUSES.store(false, Ordering::Relaxed);
    mesh.signed_distances(&stream, &queries, Sign::Normal, &mut distances)?;
    let distance = distances.to_vec(&stream)?[0];
    assert!((2.0..2.3).contains(&distance), "{distance}");
    Ok(())
}

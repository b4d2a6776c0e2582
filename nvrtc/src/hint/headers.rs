//! Headers that are not there.

use super::{GUARD, Source};
use crate::Diagnostic;

/// Beginnings of the names of headers of CUDA that kernels use, and the packages that have them.
const OF_KERNELS: [(&str, &str); 12] = [
    ("cooperative_groups", TOOLKIT),
    ("crt/", TOOLKIT),
    ("cub/", TOOLKIT),
    ("cuComplex", TOOLKIT),
    ("cuda", TOOLKIT),
    ("curand_", "nvidia-curand"),
    ("math_constants", TOOLKIT),
    ("mma.h", TOOLKIT),
    ("nv/", TOOLKIT),
    ("sm_", TOOLKIT),
    ("texture_", TOOLKIT),
    ("thrust/", TOOLKIT),
];

const TOOLKIT: &str = "nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl";

/// Beginnings of the names of headers that only host code uses, and their libraries.
const OF_HOST: [(&str, &str); 52] = [
    ("DirectX", "Direct3D"),
    ("EGL/", "EGL, whose interoperability is not wrapped"),
    ("Exceptions.h", "the common files of NVIDIA's samples"),
    ("FreeImage", "FreeImage"),
    ("GL/", OPENGL),
    ("GLES", OPENGL),
    ("GLFW/", OPENGL),
    ("Image", "the common files of NVIDIA's samples"),
    ("X11/", "X11"),
    ("cublas", "cuBLAS"),
    ("cudaD3D", "Direct3D, whose interoperability is not wrapped"),
    ("cudaEGL", "EGL, whose interoperability is not wrapped"),
    ("cudaGL", OPENGL),
    ("cudaVDPAU", "VDPAU, whose interoperability is not wrapped"),
    ("cuda_d3d", "Direct3D, whose interoperability is not wrapped"),
    ("cuda_egl", "EGL, whose interoperability is not wrapped"),
    ("cuda_gl_", OPENGL),
    ("cuda_vdpau", "VDPAU, whose interoperability is not wrapped"),
    ("cudnn", "cuDNN"),
    ("cufft", "cuFFT"),
    ("cufile", "cuFile"),
    ("cupti", "CUPTI"),
    ("curand.h", "cuRAND"),
    ("cusolver", "cuSOLVER"),
    ("cusparse", "cuSPARSE"),
    ("cutensor", "cuTENSOR"),
    ("d3d", "Direct3D"),
    ("dxgi", "Direct3D"),
    ("exception.h", SAMPLES),
    ("helper_cuda", SAMPLES),
    ("helper_functions", SAMPLES),
    ("helper_gl", OPENGL),
    ("helper_image", SAMPLES),
    ("helper_string", SAMPLES),
    ("helper_timer", SAMPLES),
    ("mpi.h", "MPI"),
    ("nccl", "NCCL"),
    ("npp", "NPP"),
    ("nvJitLink", "nvJitLink"),
    ("nvToolsExt", "NVTX"),
    ("nvgraph", "nvGRAPH"),
    ("nvjpeg", "nvJPEG"),
    ("nvml", "NVML"),
    ("nvrtc", "NVRTC"),
    ("nvscibuf", "NvSci, whose interoperability is not wrapped"),
    ("nvscisync", "NvSci, whose interoperability is not wrapped"),
    ("nvtx3/", "NVTX"),
    ("omp.h", "OpenMP"),
    ("pthread", "the operating system"),
    ("rendercheck_gl", OPENGL),
    ("vulkan/", "Vulkan, whose interoperability is not wrapped"),
    ("windows.h", "the operating system"),
];

const OPENGL: &str = "OpenGL, whose interoperability is not wrapped";
const SAMPLES: &str = "the common files of NVIDIA's samples";

fn find<'t>(table: &'t [(&str, &'t str)], header: &str) -> Option<&'t str> {
    table.iter().find(|(start, _)| header.starts_with(start)).map(|&(_, of)| of)
}

/// Returns the line of the program that includes the header in which an error is, as a path with either separator.
fn includes(error: &Diagnostic, source: Source<'_>) -> Option<(u64, String)> {
    let file = error.file.as_deref().filter(|file| *file != source.name)?.replace('\\', "/");
    let header = file.rsplit('/').next()?.to_owned();
    let line = source.find_line(|line| {
        line.trim_start().starts_with('#') && line.contains("include") && line.contains(&header)
    })?;
    Some((line, header))
}

/// Returns what to do about a header that is not there.
pub(super) fn missing(error: &Diagnostic, source: Source<'_>) -> Option<String> {
    let message = &error.message;
    let rest = message
        .strip_prefix("could not open source file \"")
        .or_else(|| message.strip_prefix("cannot open source file \""))?;
    let header = rest.split('"').next()?;
    let place = match (&error.file, error.line) {
        (Some(file), Some(line)) => format!("line {line} of {file} includes"),
        _ => "the program includes".to_owned(),
    };
    if let Some(of) = find(&OF_HOST, header) {
        // A header of CUDA may have included it.
        let place = match includes(error, source) {
            Some((line, outer)) => {
                format!("line {line} of {} includes {outer}, and that", source.name)
            }
            None => place,
        };
        return Some(format!("{place} {header}, which is of {of}, and for the host: {GUARD}"));
    }
    if let Some(packages) = find(&OF_KERNELS, header) {
        return Some(format!(
            "{place} {header}: install CUDA's headers beside NVRTC (`python3 -m pip install {packages}`, or a toolkit), or give their \
             folder to the program by `include_path`"
        ));
    }
    let is_cpp = !header.contains(['.', '/']);
    let own = if is_cpp {
        format!("libcu++ has what kernels can use of it, if anything, as <cuda/std/{header}>")
    } else {
        "give its text by `header`, its folder by `include_path`, or embed the file by `include_cuda!`".to_owned()
    };
    let missing = if is_cpp { ", a header of the host" } else { "" };
    Some(format!(
        "{place} {header}{missing}: if only host code needs it, {GUARD}; otherwise, {own}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::parse;

    fn of(file: &str, header: &str, source: &str) -> String {
        let text = "could not open source file";
        let log = format!(
            "{file}(2): catastrophic error: {text} \"{header}\" (no directories in search list)\n"
        );
        let error = parse(&log).into_iter().next();
        let source = Source { name: "k.cu", text: source, line: 1 };
        error.and_then(|error| missing(&error, source)).unwrap_or_default()
    }

    #[test]
    fn missing_headers_are_told_apart() {
        let of = |header: &str| of("k.cu", header, "");
        assert!(of("vector").contains("line 2 of k.cu includes vector, a header of the host"));
        assert!(of("vector").contains("`#ifndef __CUDACC_RTC__`"));
        assert!(of("cuda_fp16.h").contains("pip install nvidia-cuda-runtime"));
        assert!(of("curand_kernel.h").contains("pip install nvidia-curand"));
        assert!(
            of("helper_math.h").contains("`include_path`")
                && of("sys/time.h").contains("__CUDACC_RTC__")
        );
    }

    #[test]
    fn libraries_of_the_host_are_named() {
        for (header, library) in [
            ("cublas_v2.h", "cuBLAS"),
            ("cufftXt.h", "cuFFT"),
            ("curand.h", "cuRAND"),
            ("nppi_geometry_transforms.h", "NPP"),
            ("helper_cuda.h", "the common files of NVIDIA's samples"),
            ("GL/glew.h", "OpenGL"),
            ("cuda_gl_interop.h", "OpenGL"),
            ("cuda_d3d11_interop.h", "Direct3D"),
            ("nvtx3/nvToolsExt.h", "NVTX"),
            ("vulkan/vulkan.h", "Vulkan"),
        ] {
            let hint = of("k.cu", header, "");
            let start = format!("line 2 of k.cu includes {header}, which is of {library}");
            assert!(hint.starts_with(&start) && hint.contains(GUARD), "{hint}");
        }
        assert!(
            OF_HOST.is_sorted() && OF_KERNELS.is_sorted_by_key(|(start, _)| start.to_lowercase())
        );
    }

    #[test]
    fn a_header_of_cuda_that_includes_another_is_found_in_the_source() {
        let source = "int a;\n#  include <cuda_gl_interop.h>\n";
        let hint = of("/cuda/include/cuda_gl_interop.h", "GL/gl.h", source);
        assert!(
            hint.starts_with("line 2 of k.cu includes cuda_gl_interop.h, and that GL/gl.h, which"),
            "{hint}"
        );
        let hint = of("/cuda/include/other.h", "GL/gl.h", source);
        assert!(hint.starts_with("line 2 of /cuda/include/other.h includes GL/gl.h"), "{hint}");
    }
}

//! Attributes of a device: textures, surfaces and the arrays behind them.

use cuda_sys::CUdevice_attribute;

use super::attributes;
use crate::device::Device;

attributes! {
    /// The alignment of memory bound to a texture, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT")]
    texture_alignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT;

    /// The alignment of the pitch of two-dimensional memory bound to a texture, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT")]
    texture_pitch_alignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT;

    /// The alignment of a surface, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT")]
    surface_alignment: usize = CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT;

    /// Whether arrays can be sparse: with memory behind some parts only.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED")]
    sparse_cuda_array_supported: bool = CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED;

    /// Whether arrays can get their memory after they are made.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED")]
    deferred_mapping_cuda_array_supported: bool =
        CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED;

    /// Whether a two-dimensional texture can be gathered from. Deprecated by CUDA: every device
    /// can.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER")]
    can_tex2d_gather: bool = CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER;

    /// The largest width of a one-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH")]
    maximum_texture1d_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH;

    /// The largest width of a two-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH")]
    maximum_texture2d_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH;

    /// The largest height of a two-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT")]
    maximum_texture2d_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT;

    /// The largest width of a three-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH")]
    maximum_texture3d_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH;

    /// The largest height of a three-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT")]
    maximum_texture3d_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT;

    /// The largest depth of a three-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH")]
    maximum_texture3d_depth: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH;

    /// The largest width of a layered two-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH")]
    maximum_texture2d_layered_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH;

    /// The largest height of a layered two-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT")]
    maximum_texture2d_layered_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT;

    /// The most layers of a layered two-dimensional texture.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS")]
    maximum_texture2d_layered_layers: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS;

    /// The largest width of a layered one-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH")]
    maximum_texture1d_layered_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH;

    /// The most layers of a layered one-dimensional texture.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS")]
    maximum_texture1d_layered_layers: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS;

    /// The largest width of a two-dimensional texture that is gathered from, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH")]
    maximum_texture2d_gather_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH;

    /// The largest height of a two-dimensional texture that is gathered from, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT")]
    maximum_texture2d_gather_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT;

    /// The largest width of a three-dimensional texture, in elements, by the other set of limits
    /// that such a texture may keep to.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE")]
    maximum_texture3d_width_alternate: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE;

    /// The largest height of a three-dimensional texture, in elements, by the other set of limits
    /// that such a texture may keep to.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE")]
    maximum_texture3d_height_alternate: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE;

    /// The largest depth of a three-dimensional texture, in elements, by the other set of limits
    /// that such a texture may keep to.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE")]
    maximum_texture3d_depth_alternate: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE;

    /// The largest width and height of a cubemap texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH")]
    maximum_texturecubemap_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH;

    /// The largest width and height of a layered cubemap texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH")]
    maximum_texturecubemap_layered_width: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH;

    /// The most layers of a layered cubemap texture.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS")]
    maximum_texturecubemap_layered_layers: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS;

    /// The largest width of a one-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH")]
    maximum_surface1d_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH;

    /// The largest width of a two-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH")]
    maximum_surface2d_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH;

    /// The largest height of a two-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT")]
    maximum_surface2d_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT;

    /// The largest width of a three-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH")]
    maximum_surface3d_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH;

    /// The largest height of a three-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT")]
    maximum_surface3d_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT;

    /// The largest depth of a three-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH")]
    maximum_surface3d_depth: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH;

    /// The largest width of a layered one-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH")]
    maximum_surface1d_layered_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH;

    /// The most layers of a layered one-dimensional surface.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS")]
    maximum_surface1d_layered_layers: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS;

    /// The largest width of a layered two-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH")]
    maximum_surface2d_layered_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH;

    /// The largest height of a layered two-dimensional surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT")]
    maximum_surface2d_layered_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT;

    /// The most layers of a layered two-dimensional surface.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS")]
    maximum_surface2d_layered_layers: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS;

    /// The largest width and height of a cubemap surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH")]
    maximum_surfacecubemap_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH;

    /// The largest width and height of a layered cubemap surface, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH")]
    maximum_surfacecubemap_layered_width: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH;

    /// The most layers of a layered cubemap surface.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS")]
    maximum_surfacecubemap_layered_layers: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS;

    /// The largest width of a one-dimensional texture over plain memory, in elements. Deprecated by
    /// CUDA: it depends on the format; ask `cuDeviceGetTexture1DLinearMaxWidth`.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH")]
    maximum_texture1d_linear_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH;

    /// The largest width of a two-dimensional texture over plain memory, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH")]
    maximum_texture2d_linear_width: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH;

    /// The largest height of a two-dimensional texture over plain memory, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT")]
    maximum_texture2d_linear_height: u32 = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT;

    /// The largest pitch of a two-dimensional texture over plain memory, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH")]
    maximum_texture2d_linear_pitch: usize = CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH;

    /// The largest width of a mipmapped two-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH")]
    maximum_texture2d_mipmapped_width: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH;

    /// The largest height of a mipmapped two-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT")]
    maximum_texture2d_mipmapped_height: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT;

    /// The largest width of a mipmapped one-dimensional texture, in elements.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH")]
    maximum_texture1d_mipmapped_width: u32 =
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH;
}

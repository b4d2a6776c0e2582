//! The kernels, as PTX.

use crate::inputs::INPUTS;
use crate::modes::{Access, Coordinates, Geometry, Mode, Operation};

/// The name of each kernel.
pub(crate) const NAME: &str = "fetch";

/// The kernel of a mode: (object, inputs, results, threads). Each thread stores four words.
pub fn ptx(mode: &Mode) -> String {
    let body = match mode.operation {
        Operation::Query => query("txq", &QUERIES),
        Operation::SurfaceQuery => query("suq", &SURFACE_QUERIES),
        Operation::SurfaceLoad(bytes, access) => load(mode, bytes, access),
        Operation::SurfaceStore(bytes, access) => store(mode, bytes, access),
        Operation::SurfaceStoreFormatted(ty) => format!(
            "sust.p.{}.v4.{ty}.zero [%object, {}], {{%v0, %v1, %v2, %v3}};",
            mode.geometry.word(),
            surface_coordinates(mode)
        ),
        Operation::SurfaceReduce(operation) => {
            let geometry = mode.geometry.word();
            let (operation, ty) = operation.split_once('.').unwrap_or((operation, "u32"));
            format!(
                "sured.b.{operation}.{geometry}.{ty}.zero [%object, {}], %v0;",
                surface_coordinates(mode)
            )
        }
        _ => fetch(mode),
    };
    format!(
        ".version 7.0
.target sm_75
.address_size 64

.visible .entry {NAME}(.param .u64 object, .param .u64 inputs, .param .u64 results, .param .u32 threads)
{{
    .reg .pred %p;
    .reg .b16 %h;
    .reg .b32 %thread, %block, %size, %count, %l, %v<4>, %r<4>;
    .reg .b32 %x, %y, %z, %lod, %ax, %ay, %az, %bx, %by, %bz, %rest;
    .reg .b64 %object, %in, %out, %w<2>;

    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.u32 %thread, %block, %size, %thread;
    ld.param.u32 %count, [threads];
    setp.ge.u32 %p, %thread, %count;
    @%p ret;
    ld.param.u64 %object, [object];
    ld.param.u64 %in, [inputs];
    ld.param.u64 %out, [results];
    cvta.to.global.u64 %in, %in;
    cvta.to.global.u64 %out, %out;
    mad.wide.u32 %in, %thread, {bytes}, %in;
    mad.wide.u32 %out, %thread, 16, %out;
    ld.global.v4.b32 {{%l, %x, %y, %z}}, [%in];
    ld.global.v4.b32 {{%lod, %ax, %ay, %az}}, [%in+16];
    ld.global.v4.b32 {{%bx, %by, %bz, %rest}}, [%in+32];
    ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%in+48];
    mov.b32 %r0, 0;
    mov.b32 %r1, 0;
    mov.b32 %r2, 0;
    mov.b32 %r3, 0;
    {body}
    st.global.v4.b32 [%out], {{%r0, %r1, %r2, %r3}};
    ret;
}}
",
        bytes = INPUTS * 4,
    )
}

const QUERIES: [&str; 8] = [
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "normalized_coords",
    "array_size",
    "num_mipmap_levels",
];

const SURFACE_QUERIES: [&str; 7] = [
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "array_size",
    "memory_layout",
];

/// Thread n makes query n.
fn query(opcode: &str, queries: &[&str]) -> String {
    let mut text = String::new();
    for (at, name) in queries.iter().enumerate() {
        text += &format!(
            "setp.eq.u32 %p, %thread, {at};\n    @%p {opcode}.{name}.b32 %r0, [%object];\n    "
        );
    }
    text
}

fn coordinates(mode: &Mode) -> &'static str {
    match mode.geometry {
        Geometry::D1 => "{%x}",
        Geometry::A1 => "{%l, %x}",
        Geometry::D2 => "{%x, %y}",
        Geometry::A2 => "{%l, %x, %y, %y}",
        Geometry::D3 | Geometry::Cube => "{%x, %y, %z, %z}",
        Geometry::CubeArray => "{%l, %x, %y, %z}",
    }
}

fn surface_coordinates(mode: &Mode) -> &'static str {
    match mode.geometry {
        Geometry::D1 => "{%x}",
        Geometry::A1 => "{%l, %x}",
        Geometry::D2 => "{%x, %y}",
        Geometry::A2 | Geometry::CubeArray => "{%l, %x, %y, %y}",
        Geometry::D3 | Geometry::Cube => "{%x, %y, %z, %z}",
    }
}

fn fetch(mode: &Mode) -> String {
    let result = if mode.reads_floats() {
        "f32"
    } else if format!("{:?}", mode.format).starts_with('S') {
        "s32"
    } else {
        "u32"
    };
    let ty = if mode.coordinates == Coordinates::Integers { "s32" } else { "f32" };
    let (geometry, at) = (mode.geometry.word(), coordinates(mode));
    let into = "{%r0, %r1, %r2, %r3}";
    match mode.operation {
        Operation::Level => {
            format!("tex.level.{geometry}.v4.{result}.{ty} {into}, [%object, {at}], %lod;")
        }
        Operation::Gradient => {
            let (dx, dy) = match mode.geometry {
                Geometry::D1 | Geometry::A1 => ("{%ax}", "{%bx}"),
                Geometry::D2 | Geometry::A2 => ("{%ax, %ay}", "{%bx, %by}"),
                _ => ("{%ax, %ay, %az, %az}", "{%bx, %by, %bz, %bz}"),
            };
            format!("tex.grad.{geometry}.v4.{result}.{ty} {into}, [%object, {at}], {dx}, {dy};")
        }
        Operation::Gather(component) => {
            let component = ['r', 'g', 'b', 'a'][usize::from(component) % 4];
            format!("tld4.{component}.{geometry}.v4.{result}.f32 {into}, [%object, {at}];")
        }
        Operation::Halves => {
            format!("tex.{geometry}.v2.f16x2.{ty} {{%r0, %r1}}, [%object, {at}];")
        }
        _ => format!("tex.{geometry}.v4.{result}.{ty} {into}, [%object, {at}];"),
    }
}

fn clamp(access: Access) -> &'static str {
    match access {
        Access::Trap => "trap",
        Access::Clamp => "clamp",
        Access::Zero => "zero",
    }
}

fn load(mode: &Mode, bytes: u32, access: Access) -> String {
    let (geometry, at) = (mode.geometry.word(), surface_coordinates(mode));
    let access = clamp(access);
    let from = format!("{access} ");
    let from = from.trim();
    match bytes {
        1 => format!("suld.b.{geometry}.b8.{from} %h, [%object, {at}];\n    cvt.u32.u8 %r0, %h;"),
        2 => format!("suld.b.{geometry}.b16.{from} %h, [%object, {at}];\n    cvt.u32.u16 %r0, %h;"),
        4 => format!("suld.b.{geometry}.b32.{from} %r0, [%object, {at}];"),
        8 => format!(
            "suld.b.{geometry}.b64.{from} %w0, [%object, {at}];\n    mov.b64 {{%r0, %r1}}, %w0;"
        ),
        _ => format!("suld.b.{geometry}.v4.b32.{from} {{%r0, %r1, %r2, %r3}}, [%object, {at}];"),
    }
}

fn store(mode: &Mode, bytes: u32, access: Access) -> String {
    let (geometry, at) = (mode.geometry.word(), surface_coordinates(mode));
    let access = clamp(access);
    match bytes {
        1 => {
            format!("cvt.u16.u32 %h, %v0;\n    sust.b.{geometry}.b8.{access} [%object, {at}], %h;")
        }
        2 => {
            format!("cvt.u16.u32 %h, %v0;\n    sust.b.{geometry}.b16.{access} [%object, {at}], %h;")
        }
        4 => format!("sust.b.{geometry}.b32.{access} [%object, {at}], %v0;"),
        8 => format!(
            "mov.b64 %w0, {{%v0, %v1}};\n    sust.b.{geometry}.b64.{access} [%object, {at}], %w0;"
        ),
        _ => format!("sust.b.{geometry}.v4.b32.{access} [%object, {at}], {{%v0, %v1, %v2, %v3}};"),
    }
}

//! A picture of a mesh on the ground, coloured by how far it is from the surface of a volume of distances.

use cuda_safe::kernel::random::mix;
use cuda_safe::kernel::vector::Vec3;
use cuda_safe::kernel::{Device, device, kernel};
use geom_kernels::Ray;
use geom_kernels::mesh::RayHit;
use geom_kernels::structures::{Mesh, Volume};

/// What is drawn, and from where. The image's middle is at `eye + forward`; from there `right` and `up` lead to its sides.
#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
pub(crate) struct View {
    pub(crate) eye: Vec3,
    pub(crate) forward: Vec3,
    pub(crate) right: Vec3,
    pub(crate) up: Vec3,
    /// The height of the ground.
    pub(crate) ground: f32,
    /// The distance from the volume's surface that has the last colour.
    pub(crate) farthest: f32,
    /// How wide an edge is drawn, at a distance of 1; 0 draws none.
    pub(crate) edge: f32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The rays of each pixel.
    pub(crate) samples: u32,
}

/// Points of the unit square, spread evenly: multiples of the plastic number (M. Roberts, 2018), from a start by a hash.
#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Samples {
    u: f32,
    v: f32,
}

#[device]
impl Samples {
    fn new(seed: usize) -> Self {
        let seed = mix(seed as u32);
        Self { u: (seed & 0xffff) as f32 / 65536.0, v: (seed >> 16) as f32 / 65536.0 }
    }

    fn next(&mut self) {
        self.u = (self.u + 0.754_877_7).fract();
        self.v = (self.v + 0.569_840_3).fract();
    }

    /// The next point as a direction; all are alike likely.
    fn direction(&mut self) -> Vec3 {
        self.next();
        let y = 1.0 - 2.0 * self.u;
        let (r, (sin, cos)) = ((1.0 - y * y).sqrt(), (6.283_185_5 * self.v).sin_cos());
        Vec3::new(r * cos, y, r * sin)
    }
}

#[device]
fn ray(from: Vec3, direction: Vec3, t_max: f32) -> Ray {
    Ray { origin: from.to_array(), t_min: 0.0, direction: direction.to_array(), t_max }
}

/// 1 if nothing is in the way, else 0.
#[device]
fn is_free(mesh: &Mesh, from: Vec3, direction: Vec3, t_max: f32) -> f32 {
    if mesh.any_hit(&ray(from, direction, t_max)) { 0.0 } else { 1.0 }
}

/// The values at the vertices of a face.
#[device]
fn corners(face: [u32; 3], values: &[[f32; 3]]) -> (Vec3, Vec3, Vec3) {
    let [a, b, c] = face;
    (
        Vec3::from_array(values[a as usize]),
        Vec3::from_array(values[b as usize]),
        Vec3::from_array(values[c as usize]),
    )
}

/// How much of the edges of a face is seen at a point of it: lines that are `width` wide.
#[device]
fn edges(face: [u32; 3], points: &[[f32; 3]], hit: RayHit, width: f32) -> f32 {
    let (a, b, c) = corners(face, points);
    let area = (b - a).cross(c - a).length();
    let from_bc = (1.0 - hit.u - hit.v) * area / c.distance(b);
    let from_ca = hit.u * area / a.distance(c);
    let from_ab = hit.v * area / b.distance(a);
    if from_bc.min(from_ca).min(from_ab) < 0.5 * width { 1.0 } else { 0.0 }
}

/// From what is on the surface to what is `part` of the way to the farthest.
#[device]
fn colour(part: f32) -> Vec3 {
    let stops = [
        Vec3::new(0.62, 0.36, 0.19),
        Vec3::new(0.70, 0.60, 0.45),
        Vec3::new(0.30, 0.52, 0.62),
        Vec3::new(0.10, 0.20, 0.45),
    ];
    let place = 3.0 * part.clamp(0.0, 1.0);
    let first = (place as usize).min(2);
    stops[first].lerp(stops[first + 1], place - first as f32)
}

/// Draws a picture, row by row from the top. `faces`, `points` and `normals` are those of the mesh.
#[kernel]
pub(crate) fn render(
    mesh: &Mesh,
    faces: &[[u32; 3]],
    points: &[[f32; 3]],
    normals: &[[f32; 3]],
    volume: &Volume<f32>,
    view: View,
    pixels: &mut [[u8; 4]],
) {
    let (width, height) = (view.width as usize, view.height as usize);
    each(image(pixels, [width, height]), |[column, row], pixel| {
        let number = 3 * (row * width + column);
        let mut places = Samples::new(number);
        let mut skies = Samples::new(number + 1);
        let mut lamps = Samples::new(number + 2);
        let to_lamp = Vec3::new(-0.5, 0.9, 0.65).normalize();
        let mut sum = Vec3::ZERO;
        for _ in 0..view.samples {
            places.next();
            let x = 2.0 * (column as f32 + places.u) / width as f32 - 1.0;
            let y = 1.0 - 2.0 * (row as f32 + places.v) / height as f32;
            let direction = view.forward.along(view.right, x).along(view.up, y).normalize();
            let hit = mesh.nearest_hit(&ray(view.eye, direction, f32::INFINITY));

            // The background has one colour. The ground has the same colour where nothing shades it.
            let middle = Vec3::new(0.84, 0.85, 0.87);
            let backdrop = middle.lerp(Vec3::new(0.66, 0.69, 0.73), 0.5 * (x * x + y * y));
            let t = match hit {
                Some(hit) => hit.t,
                None => (view.ground - view.eye.y) / direction.y,
            };
            if t.is_nan() || t <= 0.0 {
                sum += backdrop;
                continue;
            }
            let normal = match hit {
                Some(hit) => {
                    let (a, b, c) = corners(faces[hit.face as usize], normals);
                    let smooth = (a * (1.0 - hit.u - hit.v)).along(b, hit.u).along(c, hit.v);
                    smooth.normalize() * if hit.front == 1 { 1.0 } else { -1.0 }
                }
                None => Vec3::new(0.0, 1.0, 0.0),
            };
            let on = view.eye.along(direction, t);
            // A little off the surface, which rays from there are not to hit.
            let at = on.along(normal, 2e-3);
            let open = is_free(mesh, at, (normal + skies.direction()).normalize(), 0.6);
            // The lamp has a size, so shadows are soft.
            let lit = is_free(mesh, at, to_lamp.along(lamps.direction(), 0.06), f32::INFINITY);
            let Some(hit) = hit else {
                sum += backdrop * (0.15 + 0.5 * open + 0.35 * lit);
                continue;
            };
            let off = volume.sample_trilinear(volume.world_to_index(on.to_array())).abs();
            let edge = edges(faces[hit.face as usize], points, hit, view.edge * t);
            let skin = colour(off / view.farthest) * (1.0 - 0.4 * edge);
            let below = Vec3::new(0.38, 0.33, 0.30);
            let sky = below.lerp(Vec3::new(0.65, 0.70, 0.80), 0.5 + 0.5 * normal.y);
            let lamp = Vec3::new(1.15, 1.08, 0.98) * normal.dot(to_lamp).max(0.0);
            sum += skin.times((sky * open).along(lamp, lit));
        }
        // From light to what screens expect.
        let light = (sum / view.samples as f32).min(Vec3::splat(1.0));
        let (r, g, b) = (light.x.powf(0.4545), light.y.powf(0.4545), light.z.powf(0.4545));
        *pixel = [(255.0 * r) as u8, (255.0 * g) as u8, (255.0 * b) as u8, 255];
    });
}

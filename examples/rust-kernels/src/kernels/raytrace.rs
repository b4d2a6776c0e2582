//! The last picture of Peter Shirley's *Ray Tracing in One Weekend*.
//!
//! Random numbers are a function of the pixel and of how many it has drawn, so every target draws the same ones.

use cuda_safe::kernel::random::{mix, uniform};
use cuda_safe::kernel::{Device, device, kernel};

use cuda_safe::kernel::vector::Vec3;

/// What a sphere is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Device)]
#[repr(u32)]
pub enum Material {
    /// Scatters light in all directions.
    Matte,
    /// Reflects light.
    Metal,
    /// Reflects and refracts light.
    Glass,
}

/// A ball.
#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Sphere {
    /// Its centre.
    pub center: Vec3,
    /// Its radius.
    pub radius: f32,
    /// The share of each colour that it reflects.
    pub colour: Vec3,
    /// Of metal: how rough it is. Of glass: the index of refraction. Of others 0.
    pub detail: f32,
    /// The number of its [`Material`].
    pub material: u32,
}

/// Where rays come from.
#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Camera {
    /// The middle of the lens.
    pub eye: Vec3,
    /// The upper left corner of the picture in the plane of focus.
    pub corner: Vec3,
    /// From its left to its right side.
    pub right: Vec3,
    /// From its top to its bottom.
    pub down: Vec3,
    /// From the middle of the lens to its right side.
    pub lens_right: Vec3,
    /// From the middle of the lens to its lower side.
    pub lens_down: Vec3,
}

/// A ray.
#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Ray {
    from: Vec3,
    direction: Vec3,
}

/// A point where a ray meets a sphere.
#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Hit {
    t: f32,
    point: Vec3,
    /// Away from the centre.
    normal: Vec3,
    sphere: u32,
}

/// A stream of random numbers.
#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Random {
    key: u32,
    drawn: u32,
}

#[device]
impl Random {
    fn of(pixel: u32) -> Self {
        Self { key: mix(pixel.wrapping_add(0x9e37_79b9)), drawn: 0 }
    }

    /// From 0, to below 1.
    fn next(&mut self) -> f32 {
        self.drawn = self.drawn.wrapping_add(1);
        uniform(mix(self.key ^ mix(self.drawn)))
    }

    /// A point inside the ball of radius 1, but not at its centre.
    fn in_ball(&mut self) -> Vec3 {
        loop {
            let (x, y, z) = (self.next(), self.next(), self.next());
            let p = Vec3::new(2.0 * x - 1.0, 2.0 * y - 1.0, 2.0 * z - 1.0);
            let d = p.dot(p);
            if d > 1e-12 && d < 1.0 {
                return p;
            }
        }
    }
}

#[device]
impl Material {
    fn of(number: u32) -> Material {
        match number {
            0 => Material::Matte,
            1 => Material::Metal,
            _ => Material::Glass,
        }
    }
}

/// Returns the distance at which the ray meets the sphere, if it is between `near` and `far`.
#[device(contract)]
fn meet(ray: Ray, sphere: Sphere, near: f32, far: f32) -> Option<f32> {
    let oc = sphere.center - ray.from;
    let a = ray.direction.dot(ray.direction);
    let h = ray.direction.dot(oc);
    let discriminant = h * h - a * (oc.dot(oc) - sphere.radius * sphere.radius);
    if discriminant < 0.0 {
        return None;
    }
    let root = discriminant.sqrt();
    let mut t = (h - root) / a;
    if t <= near || t >= far {
        t = (h + root) / a;
        if t <= near || t >= far {
            return None;
        }
    }
    Some(t)
}

/// Returns the first point where the ray meets a sphere.
#[device(contract)]
fn first(ray: Ray, spheres: &[Sphere]) -> Option<Hit> {
    let mut nearest = None;
    let mut far = f32::MAX;
    for i in 0..spheres.len() {
        let sphere = spheres[i];
        if let Some(t) = meet(ray, sphere, 1e-3, far) {
            far = t;
            let point = ray.from.along(ray.direction, t);
            let normal = (point - sphere.center) * (1.0 / sphere.radius);
            nearest = Some(Hit { t, point, normal, sphere: i as u32 });
        }
    }
    nearest
}

/// Returns the direction after glass, which light enters or leaves, by Snell's law and Schlick's reflectance.
#[device(contract)]
fn through_glass(direction: Vec3, outward: Vec3, index: f32, random: &mut Random) -> Vec3 {
    let unit = direction.normalize();
    let entering = unit.dot(outward) < 0.0;
    let normal = if entering { outward } else { -outward };
    let ratio = if entering { 1.0 / index } else { index };
    let cosine = (-unit.dot(normal)).min(1.0);
    let sine = (1.0 - cosine * cosine).max(0.0).sqrt();
    let r = (1.0 - ratio) / (1.0 + ratio);
    let (r, c) = (r * r, 1.0 - cosine);
    let reflectance = r + (1.0 - r) * (c * c * c * c * c);
    if ratio * sine > 1.0 || reflectance > random.next() {
        return unit.reflect(normal);
    }
    let across = unit.along(normal, cosine) * ratio;
    across.along(normal, -(1.0 - across.dot(across)).abs().sqrt())
}

/// Returns the ray that goes on from a hit, unless the light ends there.
#[device(contract)]
fn scatter(ray: Ray, hit: Hit, sphere: Sphere, random: &mut Random) -> Option<Ray> {
    let inside = ray.direction.dot(hit.normal) > 0.0;
    let normal = if inside { -hit.normal } else { hit.normal };
    let direction = match Material::of(sphere.material) {
        Material::Matte => {
            let direction = normal + random.in_ball().normalize();
            if direction.dot(direction) < 1e-12 { normal } else { direction }
        }
        Material::Metal => {
            let mirrored = ray.direction.reflect(normal).normalize();
            let direction = mirrored.along(random.in_ball().normalize(), sphere.detail);
            if direction.dot(normal) <= 0.0 {
                return None;
            }
            direction
        }
        Material::Glass => through_glass(ray.direction, hit.normal, sphere.detail, random),
    };
    Some(Ray { from: hit.point, direction })
}

/// Returns the colour of the light that comes along a ray, after at most `depth` spheres.
#[device(contract)]
fn light(ray: Ray, spheres: &[Sphere], depth: u32, random: &mut Random) -> Vec3 {
    let mut ray = ray;
    let mut share = Vec3::new(1.0, 1.0, 1.0);
    for _ in 0..depth {
        let Some(hit) = first(ray, spheres) else {
            let a = 0.5 * (ray.direction.normalize().y + 1.0);
            return share.times(Vec3::new(1.0 - 0.5 * a, 1.0 - 0.3 * a, 1.0));
        };
        let sphere = spheres[hit.sphere as usize];
        let Some(next) = scatter(ray, hit, sphere, random) else { return Vec3::ZERO };
        share = share.times(sphere.colour);
        ray = next;
    }
    Vec3::ZERO
}

/// Returns the byte of a colour's share, with a gamma of 2.
#[device]
fn byte(x: f32) -> u8 {
    (256.0 * x.sqrt().min(0.999)) as u8
}

/// Draws the picture: red, green, blue and 255 for each pixel.
#[kernel(contract)]
pub fn render(
    width: usize,
    height: usize,
    samples: u32,
    depth: u32,
    camera: Camera,
    spheres: &[Sphere],
    picture: &mut [[u8; 4]],
) {
    assert!(samples > 0);
    each(image(picture, [width, height]), |[x, y], pixel| {
        let mut random = Random::of((y * width + x) as u32);
        let mut sum = Vec3::ZERO;
        for _ in 0..samples {
            let (dx, dy) = (random.next(), random.next());
            let right = (x as f32 + dx) / width as f32;
            let down = (y as f32 + dy) / height as f32;
            let lens = random.in_ball();
            let from = camera.eye.along(camera.lens_right, lens.x).along(camera.lens_down, lens.y);
            let to = camera.corner.along(camera.right, right).along(camera.down, down);
            let ray = Ray { from, direction: to - from };
            sum = sum + light(ray, spheres, depth, &mut random);
        }
        let mean = sum * (1.0 / samples as f32);
        *pixel = [byte(mean.x), byte(mean.y), byte(mean.z), 255];
    });
}

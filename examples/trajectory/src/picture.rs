//! The picture: a curve for each iteration, from pale to strong; along the last one, the ball.

use crate::flight::Setting;

type Colour = [f32; 3];

const PAPER: Colour = [0.98, 0.97, 0.95];
const STONE: Colour = [0.72, 0.70, 0.67];
const EDGE: Colour = [0.35, 0.34, 0.33];
const INK: Colour = [0.16, 0.17, 0.20];
const HIT: Colour = [0.85, 0.16, 0.13];
/// Of the curves, from the first to the last.
const CURVES: [Colour; 4] =
    [[0.62, 0.76, 0.87], [0.35, 0.55, 0.80], [0.46, 0.28, 0.66], [0.90, 0.38, 0.12]];

/// Of the last curve, a ball is drawn each so many steps.
const BALL_EACH: usize = 20;

/// Draws the paths: three bytes for each pixel.
pub(crate) fn draw(setting: &Setting, paths: &[Vec<[f32; 2]>], size: [u32; 2]) -> Vec<u8> {
    let mut canvas = Canvas::new(setting, paths, size);
    let (wall, radius) = (setting.world.wall, setting.world.radius);
    // Ground and wall, with their edges.
    let thick = 3.0 * canvas.pixel;
    canvas.fill(|[x, y]| (wall - x).min(y), STONE, 1.0);
    canvas.fill(|[x, y]| (wall - x).min(y).abs() - 0.5 * thick, EDGE, 1.0);

    let last = paths.len().saturating_sub(1);
    let colour = |number: usize| ramp(number as f32 / last.max(1) as f32);
    for (number, path) in paths.iter().enumerate() {
        let width = if number == last { 6.0 } else { 3.0 };
        if number == last {
            for ball in path.iter().step_by(BALL_EACH) {
                canvas.disc(*ball, radius, colour(number), 0.13);
            }
        }
        canvas.curve(path, 0.5 * width * canvas.pixel, colour(number));
    }
    // Where each ends.
    for (number, path) in paths.iter().enumerate() {
        if let Some(end) = path.last() {
            canvas.disc(*end, 6.5 * canvas.pixel, PAPER, 1.0);
            canvas.disc(*end, 5.0 * canvas.pixel, colour(number), 1.0);
        }
    }
    canvas.disc(setting.start, radius, INK, 1.0);
    let target = setting.target;
    for part in [1.0, 0.55] {
        canvas.ring(target, part * radius, thick, HIT);
    }
    for [x, y] in [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]] {
        let at = |part: f32| [target[0] + part * radius * x, target[1] + part * radius * y];
        canvas.curve(&[at(0.8), at(1.4)], 0.5 * thick, HIT);
    }
    canvas.bytes()
}

fn ramp(part: f32) -> Colour {
    let place = part.clamp(0.0, 1.0) * (CURVES.len() - 1) as f32;
    let first = (place as usize).min(CURVES.len() - 2);
    mix(CURVES[first], CURVES[first + 1], place - first as f32)
}

fn mix(a: Colour, b: Colour, part: f32) -> Colour {
    std::array::from_fn(|c| a[c] + part * (b[c] - a[c]))
}

/// A picture of a part of the plane.
struct Canvas {
    width: usize,
    pixels: Vec<Colour>,
    /// How wide a pixel is in the plane, and where the middle of the first one is.
    pixel: f32,
    corner: [f32; 2],
    /// How much of each pixel a curve covers, where it does.
    covered: Vec<f32>,
}

impl Canvas {
    /// As much of the plane as shows the paths, and some of the ground and the wall.
    fn new(setting: &Setting, paths: &[Vec<[f32; 2]>], [width, height]: [u32; 2]) -> Self {
        let margin = 2.5 * setting.world.radius;
        let points = || paths.iter().flatten().chain([&setting.target, &setting.start]);
        let finite = |x: &f32| x.is_finite();
        let left = points().map(|p| p[0]).filter(finite).fold(0.0, f32::min) - margin;
        let top = points().map(|p| p[1]).filter(finite).fold(1.0, f32::max) + margin;
        let (right, bottom) = (setting.world.wall + margin, -margin);
        let pixel = ((right - left) / width as f32).max((top - bottom) / height as f32);
        // The remaining space goes to the left, and to the top.
        let corner = [right - (width as f32 - 0.5) * pixel, bottom + (height as f32 - 0.5) * pixel];
        let (width, count) = (width as usize, width as usize * height as usize);
        Self { width, pixels: vec![PAPER; count], pixel, corner, covered: vec![0.0; count] }
    }

    fn place(&self, index: usize) -> [f32; 2] {
        let (column, row) = (index % self.width, index / self.width);
        [self.corner[0] + column as f32 * self.pixel, self.corner[1] - row as f32 * self.pixel]
    }

    /// Where `distance` is below 0, by pixels that are covered in part at its edge.
    fn fill(&mut self, distance: impl Fn([f32; 2]) -> f32, colour: Colour, alpha: f32) {
        for index in 0..self.pixels.len() {
            let cover = (0.5 - distance(self.place(index)) / self.pixel).clamp(0.0, 1.0);
            self.pixels[index] = mix(self.pixels[index], colour, alpha * cover);
        }
    }

    /// The pixels around a box.
    fn around(&self, lower: [f32; 2], upper: [f32; 2]) -> impl Iterator<Item = usize> + use<> {
        let (width, height) = (self.width, self.pixels.len() / self.width.max(1));
        let at = |x: f32, most: usize| (x.max(0.0) as usize).min(most);
        let columns = [lower[0] - self.pixel, upper[0] + 2.0 * self.pixel]
            .map(|x| at((x - self.corner[0]) / self.pixel, width));
        let rows = [upper[1] + self.pixel, lower[1] - 2.0 * self.pixel]
            .map(|y| at((self.corner[1] - y) / self.pixel, height));
        (rows[0]..rows[1])
            .flat_map(move |row| (columns[0]..columns[1]).map(move |column| row * width + column))
    }

    fn disc(&mut self, centre: [f32; 2], radius: f32, colour: Colour, alpha: f32) {
        for index in self.around(centre.map(|x| x - radius), centre.map(|x| x + radius)) {
            let off = distance(self.place(index), centre, centre) - radius;
            let cover = (0.5 - off / self.pixel).clamp(0.0, 1.0);
            self.pixels[index] = mix(self.pixels[index], colour, alpha * cover);
        }
    }

    fn ring(&mut self, centre: [f32; 2], radius: f32, thick: f32, colour: Colour) {
        let outside = radius + thick;
        for index in self.around(centre.map(|x| x - outside), centre.map(|x| x + outside)) {
            let off = (distance(self.place(index), centre, centre) - radius).abs() - 0.5 * thick;
            let cover = (0.5 - off / self.pixel).clamp(0.0, 1.0);
            self.pixels[index] = mix(self.pixels[index], colour, cover);
        }
    }

    /// A line through the points. Where it crosses itself, it covers no more than elsewhere.
    fn curve(&mut self, points: &[[f32; 2]], half: f32, colour: Colour) {
        let mut touched = Vec::new();
        for pair in points.windows(2) {
            let &[a, b] = pair else { continue };
            let corner = |pick: fn(f32, f32) -> f32, by: f32| {
                std::array::from_fn(|axis| pick(a[axis], b[axis]) + by)
            };
            for index in self.around(corner(f32::min, -half), corner(f32::max, half)) {
                let off = distance(self.place(index), a, b) - half;
                let cover = (0.5 - off / self.pixel).clamp(0.0, 1.0);
                if cover > self.covered[index] {
                    if self.covered[index] == 0.0 {
                        touched.push(index);
                    }
                    self.covered[index] = cover;
                }
            }
        }
        for index in touched {
            let cover = std::mem::take(&mut self.covered[index]);
            self.pixels[index] = mix(self.pixels[index], colour, cover);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.pixels.iter().flatten().map(|c| (255.0 * c.clamp(0.0, 1.0) + 0.5) as u8).collect()
    }
}

/// Of a place from the line between two points.
fn distance(at: [f32; 2], a: [f32; 2], b: [f32; 2]) -> f32 {
    let (along, way) = ([b[0] - a[0], b[1] - a[1]], [at[0] - a[0], at[1] - a[1]]);
    let squared = (along[0] * along[0] + along[1] * along[1]).max(f32::MIN_POSITIVE);
    let part = ((along[0] * way[0] + along[1] * way[1]) / squared).clamp(0.0, 1.0);
    (way[0] - part * along[0]).hypot(way[1] - part * along[1])
}

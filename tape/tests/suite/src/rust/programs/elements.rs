// Programs over elements, for numbers of type `F`. The module is included once for each type.

/// A point or a direction.
#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
pub(in crate::rust) struct V3 {
    x: F,
    y: F,
    z: F,
}

#[device]
impl V3 {
    fn of(a: [F; 3]) -> Self {
        Self { x: a[0], y: a[1], z: a[2] }
    }

    fn array(self) -> [F; 3] {
        [self.x, self.y, self.z]
    }

    fn dot(self, other: Self) -> F {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    fn cross(self, other: Self) -> Self {
        Self {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        }
    }

    fn by(self, scale: F) -> Self {
        Self { x: scale * self.x, y: scale * self.y, z: scale * self.z }
    }

    fn length(self) -> F {
        self.dot(self).sqrt()
    }
}

#[device]
impl Add for V3 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

#[device]
impl Sub for V3 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }
}

/// The speeds of a cloth's points after a step: springs and dampers from lists of neighbours, a sphere and a floor.
#[kernel(gradient)]
pub(in crate::rust) fn cloth(
    step: F,
    starts: &[u32],
    neighbours: &[u32],
    rest: &[F],
    at: &[[F; 3]],
    speed: &[[F; 3]],
    next: &mut [[F; 3]],
) {
    assert!(starts.len() == next.len() + 1 && at.len() == next.len() && speed.len() == next.len());
    assert!(rest.len() == neighbours.len());
    each(next, |i, next| {
        let (p, v) = (V3::of(at[i]), V3::of(speed[i]));
        let mut force = V3 { x: 0.0, y: -9.8, z: 0.0 };
        for k in starts[i] as usize..starts[i + 1] as usize {
            let j = neighbours[k] as usize;
            let (along, relative) = (V3::of(at[j]) - p, V3::of(speed[j]) - v);
            let length = along.length();
            if length < 1e-6 {
                continue;
            }
            let unit = along.by(1.0 / length);
            force = force + unit.by(40.0 * (length - rest[k]) + 0.5 * relative.dot(unit));
        }
        let mut after = v + force.by(step);
        let away = p - V3 { x: 0.2, y: -0.5, z: 0.1 };
        let distance = away.length();
        if distance < 1.2 {
            let normal = away.by(1.0 / distance);
            let inwards = after.dot(normal);
            if inwards < 0.0 {
                after = after - normal.by(1.5 * inwards);
            }
            after = after + normal.by(20.0 * step * (1.2 - distance));
        }
        if p.y + step * after.y < -1.0 {
            // Friction by Coulomb's law.
            let (slip, push) = ((after.x * after.x + after.z * after.z).sqrt(), -1.5 * after.y);
            let kept = (1.0 - 0.3 * push / slip.max(1e-3)).max(0.0);
            after = V3 { x: kept * after.x, y: -0.5 * after.y, z: kept * after.z };
        }
        *next = after.array();
    });
}

/// The cubic spline of smoothed particles, without its factor: of `q = distance / h`.
#[device]
fn smoothing(q: F) -> F {
    if q < 0.5 {
        6.0 * (q * q * q - q * q) + 1.0
    } else if q < 1.0 {
        2.0 * (1.0 - q).powi(3)
    } else {
        0.0
    }
}

/// The derivative of `smoothing`.
#[device]
fn slope(q: F) -> F {
    if q < 0.5 {
        18.0 * q * q - 12.0 * q
    } else if q < 1.0 {
        -6.0 * (1.0 - q).powi(2)
    } else {
        0.0
    }
}

/// The densities of particles, from lists of those near.
#[kernel(gradient)]
pub(in crate::rust) fn density(
    #[active] h: F,
    starts: &[u32],
    near: &[u32],
    at: &[[F; 3]],
    mass: &[F],
    density: &mut [F],
) {
    assert!(starts.len() == density.len() + 1);
    each(density, |i, density| {
        let (first, end) = (starts[i] as usize, starts[i + 1] as usize);
        let mut sum = 0.0;
        for j in &near[first..end] {
            let r = (V3::of(at[*j as usize]) - V3::of(at[i])).length();
            sum += mass[*j as usize] * smoothing(r / h);
        }
        *density = sum / (h * h * h);
    });
}

/// The accelerations of particles by pressure, with Tait's equation of state, and by viscosity.
#[kernel(gradient)]
pub(in crate::rust) fn pressure(
    h: F,
    starts: &[u32],
    near: &[u32],
    at: &[[F; 3]],
    density: &[F],
    push: &mut [[F; 3]],
) {
    assert!(starts.len() == push.len() + 1 && at.len() == push.len());
    let tait = |rho: F| 50.0 * ((rho / 1.5).powi(7) - 1.0).max(0.0);
    each(push, |i, push| {
        let (p, rho) = (V3::of(at[i]), density[i]);
        let own = tait(rho) / (rho * rho);
        let mut sum = V3 { x: 0.0, y: 0.0, z: 0.0 };
        for k in starts[i] as usize..starts[i + 1] as usize {
            let j = near[k] as usize;
            if j == i {
                continue;
            }
            let away = p - V3::of(at[j]);
            let r = away.length();
            if r >= h {
                continue;
            }
            let other = tait(density[j]) / (density[j] * density[j]);
            let gradient = away.by(slope(r / h) / (r.max(1e-4) * h));
            sum = sum - gradient.by(own + other) + away.by(0.05 * smoothing(r / h) / density[j]);
        }
        *push = sum.array();
    });
}

/// A picture of Gaussians that are sorted by depth: blended from the front on, until little light is left. Each is 9
/// numbers: center, conic (three), opacity, and a colour of three.
#[kernel(gradient)]
pub(in crate::rust) fn splat(width: usize, order: &[u32], splats: &[F], image: &mut [[F; 3]]) {
    assert!(width > 0);
    each(image, |i, pixel| {
        let (u, v) = (F::from_f64((i % width) as f64) + 0.5, F::from_f64((i / width) as f64) + 0.5);
        let mut light = 1.0;
        let mut colour = [0.0; 3];
        for k in 0..order.len() {
            let s = 9 * order[k] as usize;
            let (dx, dy) = (splats[s] - u, splats[s + 1] - v);
            let power = -0.5 * (splats[s + 2] * dx * dx + splats[s + 4] * dy * dy) - splats[s + 3] * dx * dy;
            if power > 0.0 {
                continue;
            }
            let alpha = (splats[s + 5] * power.exp()).min(0.99);
            if alpha < 1.0 / 255.0 {
                continue;
            }
            let left = light * (1.0 - alpha);
            if left < 1e-2 {
                break;
            }
            for c in 0..3 {
                colour[c] += splats[s + 6 + c] * alpha * light;
            }
            light = left;
        }
        for c in 0..3 {
            pixel[c] = colour[c] + light * 0.1;
        }
    });
}

#[device]
fn sigmoid(x: F) -> F {
    1.0 / (1.0 + (-x).exp())
}

/// A step of a cell of long short-term memory. `weights` has four gates of `units` rows, each of `inputs + units + 1`
/// numbers.
#[allow(clippy::too_many_arguments, reason = "a cell has them")]
#[kernel(gradient)]
pub(in crate::rust) fn lstm(
    inputs: usize,
    units: usize,
    weights: &[F],
    x: &[F],
    hidden: &[F],
    cell: &[F],
    next: &mut [F],
    next_cell: &mut [F],
) {
    let row = inputs + units + 1;
    assert!(weights.len() == 4 * units * row && units > 0);
    assert!(next.len() % units == 0 && hidden.len() == next.len() && cell.len() == next.len());
    assert!(x.len() == next.len() / units * inputs);
    each((next, next_cell), |i, (next, next_cell)| {
        let (sample, unit) = (i / units, i % units);
        let mut gates = [0.0; 4];
        for g in 0..4 {
            let w = &weights[(g * units + unit) * row..(g * units + unit + 1) * row];
            let mut sum = w[inputs + units];
            for k in 0..inputs {
                sum += w[k] * x[sample * inputs + k];
            }
            for k in 0..units {
                sum += w[inputs + k] * hidden[sample * units + k];
            }
            gates[g] = sum;
        }
        let kept = sigmoid(gates[1]) * cell[i] + sigmoid(gates[0]) * gates[2].tanh();
        *next_cell = kept;
        *next = sigmoid(gates[3]) * kept.tanh();
    });
}

/// The cubic Hermite spline through knots at increasing positions, with slopes by finite differences.
#[kernel(gradient)]
pub(in crate::rust) fn spline(knots: &[F], values: &[F], x: &[F], out: &mut [F]) {
    assert!(knots.len() == values.len() && knots.len() >= 2 && x.len() == out.len());
    each(out, |i, out| {
        let t = x[i];
        let (mut low, mut high) = (0, knots.len() - 1);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if knots[middle] <= t {
                low = middle;
            } else {
                high = middle;
            }
        }
        let slope_at = |k: usize| {
            let (left, right) = (if k > 0 { k - 1 } else { 0 }, (k + 1).min(knots.len() - 1));
            (values[right] - values[left]) / (knots[right] - knots[left])
        };
        let width = knots[high] - knots[low];
        let s = (t - knots[low]) / width;
        let (a, b) = (slope_at(low) * width, slope_at(high) * width);
        let rise = values[high] - values[low];
        *out = values[low] + s * (a + s * (3.0 * rise - 2.0 * a - b + s * (a + b - 2.0 * rise)));
    });
}

/// The light that is left, and the mean depth, of rays through a density field of `size` cells in each direction.
#[kernel(gradient)]
pub(in crate::rust) fn march(size: usize, field: &[F], slopes: &[F], out: &mut [F]) {
    assert!(field.len() == size * size * size && size >= 2 && 2 * out.len() == slopes.len());
    each(out, |i, out| {
        let direction = V3 { x: slopes[2 * i], y: slopes[2 * i + 1], z: 1.0 };
        let direction = direction.by(1.0 / direction.length());
        let most = F::from_f64((size - 1) as f64);
        let (mut light, mut depth, mut t) = (1.0, 0.0, 0.05);
        while light > 0.05 {
            let p = V3 { x: 0.45 * most, y: 0.55 * most, z: 0.0 } + direction.by(t);
            if p.x < 0.0 || p.x >= most || p.y < 0.0 || p.y >= most || p.z >= most {
                break;
            }
            let (a, b, c) = (p.x.floor(), p.y.floor(), p.z.floor());
            let first = (c as usize * size + b as usize) * size + a as usize;
            let (fx, fy, fz) = (p.x - a, p.y - b, p.z - c);
            let mut density = 0.0;
            for corner in 0..8usize {
                let (i, j, k) = (corner & 1, corner >> 1 & 1, corner >> 2);
                let weight = (if i == 1 { fx } else { 1.0 - fx })
                    * (if j == 1 { fy } else { 1.0 - fy })
                    * (if k == 1 { fz } else { 1.0 - fz });
                density += weight * field[first + (k * size + j) * size + i];
            }
            let kept = (-0.3 * density.max(0.0)).exp();
            depth += t * light * (1.0 - kept);
            light *= kept;
            t += 0.3;
        }
        *out = depth + light * t;
    });
}

/// Implicit Euler of a pendulum with drag: each step solves its equation by Newton's method, to a tolerance.
#[kernel(gradient)]
pub(in crate::rust) fn implicit(
    #[active] drag: F,
    step: F,
    steps: u32,
    angle: &[F],
    speed: &[F],
    end: &mut [F],
) {
    assert!(angle.len() == end.len() && speed.len() == end.len());
    each(end, |i, end| {
        let (mut x, mut v) = (angle[i], speed[i]);
        for _ in 0..steps {
            let mut next = v;
            for _ in 0..30 {
                let place = x + step * next;
                let off = next - v + step * (place.sin() + drag * next * next.abs());
                let change = off / (1.0 + step * step * place.cos() + 2.0 * step * drag * next.abs());
                next -= change;
                if change.abs() < 1e-9 {
                    break;
                }
            }
            v = next;
            x += step * v;
        }
        *end = x * x + v;
    });
}

/// The orientations of rigid bodies (quaternions, their scalars first) after steps of free rotation, with the moments of
/// inertia of each.
#[kernel(gradient)]
pub(in crate::rust) fn tumble(
    step: F,
    steps: u32,
    inertia: &[[F; 3]],
    rate: &[[F; 3]],
    turned: &mut [[F; 4]],
) {
    assert!(inertia.len() == turned.len() && rate.len() == turned.len());
    each(turned, |i, turned| {
        let moments = inertia[i];
        let mut rate = V3::of(rate[i]);
        let mut q = [1.0, 0.0, 0.0, 0.0];
        for _ in 0..steps {
            let spin = V3 { x: moments[0] * rate.x, y: moments[1] * rate.y, z: moments[2] * rate.z };
            let torque = spin.cross(rate);
            rate = rate
                + V3 { x: torque.x / moments[0], y: torque.y / moments[1], z: torque.z / moments[2] }.by(step);
            let half = 0.5 * step * rate.length();
            // sin(half) / half, also of small angles.
            let scale = 0.5 * step * (if half > 1e-4 { half.sin() / half } else { 1.0 - half * half / 6.0 });
            let (w, d) = (half.cos(), rate.by(scale));
            let v = V3 { x: q[1], y: q[2], z: q[3] };
            let vector = d.by(q[0]) + v.by(w) + v.cross(d);
            q = [q[0] * w - v.dot(d), vector.x, vector.y, vector.z];
            let length = (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]).sqrt();
            for k in 0..4 {
                q[k] /= length;
            }
        }
        *turned = q;
    });
}

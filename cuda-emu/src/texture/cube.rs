//! Cubes: from a direction to a face and a place on it.

/// Returns the face of a direction, and the normalized coordinates on it.
///
/// The direction is first multiplied with the reciprocal of its longest component, in f32. That of very large numbers is
/// subnormal, and so zero.
pub(crate) fn face(direction: [f32; 3]) -> (u32, [f64; 2]) {
    let longest = direction.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let reciprocal = 1.0 / longest;
    let reciprocal = if reciprocal.is_subnormal() { 0.0 } else { reciprocal };
    let [x, y, z] = direction.map(|value| {
        let value = value * reciprocal;
        if value.is_subnormal() { 0.0 } else { value }
    });
    let [ax, ay, az] = [x, y, z].map(f32::abs);
    // Ignores NaN.
    let most = ax.max(ay).max(az);
    // Where nothing is the longest, as for zeros, it is the last face.
    let (face, s, t, major) = if az != most && ay == most {
        if y >= 0.0 { (2, x, z, ay) } else { (3, x, -z, ay) }
    } else if az != most && ax == most {
        if x >= 0.0 { (0, -z, -y, ax) } else { (1, z, -y, ax) }
    } else if z < 0.0 {
        (5, -x, -y, az)
    } else {
        (4, x, -y, az)
    };
    let place = |value: f32| {
        let ratio = f64::from(value) / f64::from(major);
        if ratio.is_nan() { 0.5 } else { (ratio + 1.0) / 2.0 }
    };
    (face, [place(s), place(t)])
}

//! The oracle of the hash grid's rows: neighbours in f64, by lists of cells on the host.

use cuda_safe::vector::Float4;

use crate::stop::Stop;

/// Points of the unit cube, by cells of at least the radius.
pub(crate) struct Cells<'a> {
    points: &'a [[f32; 3]],
    radius: f64,
    side: usize,
    /// Where the points of each cell begin in `order`.
    starts: Vec<u32>,
    order: Vec<u32>,
}

/// The neighbours of a query: those for certain, and those that rounding may add.
struct Near {
    certain: Vec<u32>,
    ties: Vec<u32>,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(points: &'a [[f32; 3]], radius: f32) -> Self {
        let radius = f64::from(radius);
        let side = ((0.999 / radius) as usize).clamp(1, 400);
        let mut starts = vec![0u32; side * side * side + 1];
        let cell = |point: &[f32; 3]| {
            let [x, y, z] = point.map(|x| axis_cell(f64::from(x), side));
            (z * side + y) * side + x
        };
        for point in points {
            starts[cell(point) + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut order = vec![0; points.len()];
        for (index, point) in (0u32..).zip(points) {
            let place = &mut next[cell(point)];
            order[*place as usize] = index;
            *place += 1;
        }
        Self { points, radius, side, starts, order }
    }

    /// Calls `visit` for the points of the cells within `reach` cells, with their distances.
    fn around(&self, query: [f32; 3], reach: usize, mut visit: impl FnMut(u32, f64)) {
        let ranges = query.map(|x| {
            let cell = axis_cell(f64::from(x), self.side);
            cell.saturating_sub(reach)..=(cell + reach).min(self.side - 1)
        });
        let [xs, ys, zs] = ranges;
        for z in zs {
            for y in ys.clone() {
                let row = (z * self.side + y) * self.side;
                let begin = self.starts[row + xs.start()] as usize;
                let end = self.starts[row + xs.end() + 1] as usize;
                for index in &self.order[begin..end] {
                    visit(*index, distance(query, self.points[*index as usize]));
                }
            }
        }
    }

    fn near(&self, query: [f32; 3]) -> Near {
        let mut near = Near { certain: Vec::new(), ties: Vec::new() };
        // 4 eps (|x| + r), where |x| is at most 1.
        let doubt = 4.0 * f64::from(f32::EPSILON) * (1.0 + self.radius);
        self.around(query, 1, |index, distance| {
            if distance <= self.radius - doubt {
                near.certain.push(index);
            } else if distance <= self.radius + doubt {
                near.ties.push(index);
            }
        });
        near
    }

    /// Calls `visit` for the points within the radius, up to rounding.
    pub(crate) fn within(&self, query: [f32; 3], mut visit: impl FnMut(u32)) {
        self.around(query, 1, |index, distance| {
            if distance <= self.radius {
                visit(index);
            }
        });
    }

    /// Returns the queries to compare: some of all parts of the array.
    fn chosen(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let n = self.points.len();
        let step = (n / count.max(1)).max(1);
        (0..n).step_by(step).take(count)
    }

    /// Whether lists have the certain neighbours and no others than ties. Says how many were compared.
    pub(crate) fn check_lists(
        &self,
        offsets: &[u64],
        indices: &[u32],
        count: usize,
    ) -> Result<usize, Stop> {
        let mut compared = 0;
        for query in self.chosen(count) {
            let Near { mut certain, ties } = self.near(self.points[query]);
            let range = offsets[query] as usize..offsets[query + 1] as usize;
            let mut list = indices.get(range).unwrap_or_default().to_vec();
            list.retain(|index| !ties.contains(index));
            list.sort_unstable();
            certain.sort_unstable();
            if list != certain {
                return Err(Stop::failed(format!("query {query}: {list:?}, not {certain:?}")));
            }
            compared += 1;
        }
        Ok(compared)
    }

    /// Whether the nearest points other than the query itself are as far as they should be.
    pub(crate) fn check_nearest(
        &self,
        indices: &[u32],
        squares: &[f32],
        k: usize,
        count: usize,
    ) -> Result<usize, Stop> {
        let mut compared = 0;
        for query in self.chosen(count) {
            let at = self.points[query];
            let mut distances = Vec::new();
            self.around(at, 2, |index, distance| {
                if index as usize != query {
                    distances.push(distance);
                }
            });
            distances.sort_by(f64::total_cmp);
            for place in 0..k {
                let (index, square) = (indices[query * k + place], squares[query * k + place]);
                let Some(wanted) = distances.get(place) else {
                    return Err(Stop::failed("fewer points than were asked for"));
                };
                let found = self.points.get(index as usize).map(|point| distance(at, *point));
                let doubt = 4.0 * f64::from(f32::EPSILON) * (1.0 + wanted);
                let is_right = |found: f64| (found - wanted).abs() <= doubt;
                if !found.is_some_and(is_right) || !is_right(f64::from(square).sqrt()) {
                    return Err(Stop::failed(format!(
                        "query {query}: number {place} is {index} at {square}, not at {wanted}"
                    )));
                }
            }
            compared += 1;
        }
        Ok(compared)
    }
}

fn axis_cell(x: f64, side: usize) -> usize {
    // From 0 to 1.
    ((x * side as f64) as usize).min(side - 1)
}

fn distance(a: [f32; 3], b: [f32; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(b)).powi(2)).sum::<f64>().sqrt()
}

/// Compares some numbers of neighbours; ties may count or not. Says how many were compared.
pub(crate) fn check_counts(cells: &Cells<'_>, counts: &[u32], count: usize) -> Result<usize, Stop> {
    let mut compared = 0;
    for query in cells.chosen(count) {
        let near = cells.near(cells.points[query]);
        let least = near.certain.len();
        let found = counts[query] as usize;
        if !(least..=least + near.ties.len()).contains(&found) {
            return Err(Stop::failed(format!("query {query}: {found} neighbours, not {least}")));
        }
        compared += 1;
    }
    Ok(compared)
}

/// Compares some sums of positions, and the numbers of neighbours in their last places.
pub(crate) fn check_sums(cells: &Cells<'_>, sums: &[Float4], count: usize) -> Result<usize, Stop> {
    let mut compared = 0;
    for query in cells.chosen(count) {
        let Near { certain, ties } = cells.near(cells.points[query]);
        let found = sums[query];
        let number = f64::from(found.w);
        // So written that a NaN is wrong.
        let counted =
            number >= certain.len() as f64 && number <= (certain.len() + ties.len()) as f64;
        let mut right = counted;
        for (axis, found) in [found.x, found.y, found.z].into_iter().enumerate() {
            let exact: f64 =
                certain.iter().map(|index| f64::from(cells.points[*index as usize][axis])).sum();
            // A tie adds at most 1; each addition rounds by less than a unit of the sum.
            let extra = number - certain.len() as f64;
            let bound = f64::from(f32::EPSILON) * number * (exact + extra);
            let difference = f64::from(found) - exact;
            right &= difference >= -bound && difference <= extra + bound;
        }
        if !right {
            return Err(Stop::failed(format!(
                "query {query}: {found:?} of {} neighbours and {} ties",
                certain.len(),
                ties.len()
            )));
        }
        compared += 1;
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random;

    fn points() -> Vec<[f32; 3]> {
        let numbers = random(3 * 2000, 9);
        numbers.chunks_exact(3).map(|p| [p[0], p[1], p[2]].map(|x| 0.5 * x + 0.5)).collect()
    }

    /// The neighbours by comparing all.
    fn brute(points: &[[f32; 3]], query: usize, radius: f32) -> Vec<u32> {
        let is_near =
            |index: &u32| distance(points[query], points[*index as usize]) <= f64::from(radius);
        (0..points.len() as u32).filter(is_near).collect()
    }

    #[test]
    fn cells_find_what_comparing_all_finds() {
        let points = points();
        for radius in [0.05f32, 0.125, 0.4, 2.0] {
            let cells = Cells::new(&points, radius);
            for query in (0..2000).step_by(97) {
                let Near { mut certain, ties } = cells.near(points[query]);
                certain.extend(ties.iter().filter(|index| {
                    distance(points[query], points[**index as usize]) <= f64::from(radius)
                }));
                certain.sort_unstable();
                assert_eq!(certain, brute(&points, query, radius));
            }
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let points = points();
        let cells = Cells::new(&points, 0.1);
        let lists: Vec<Vec<u32>> = (0..2000).map(|query| brute(&points, query, 0.1)).collect();
        let mut counts: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
        assert_eq!(check_counts(&cells, &counts, 2000).ok(), Some(2000));
        let sum = |list: &Vec<u32>, axis: usize| {
            list.iter().map(|index| points[*index as usize][axis]).sum::<f32>()
        };
        let mut sums: Vec<Float4> = lists
            .iter()
            .map(|list| Float4 {
                x: sum(list, 0),
                y: sum(list, 1),
                z: sum(list, 2),
                w: list.len() as f32,
            })
            .collect();
        assert_eq!(check_sums(&cells, &sums, 2000).ok(), Some(2000));
        let mut offsets = vec![0u64];
        offsets.extend(lists.iter().scan(0, |end, list| {
            *end += list.len() as u64;
            Some(*end)
        }));
        let mut indices = lists.concat();
        assert_eq!(cells.check_lists(&offsets, &indices, 2000).ok(), Some(2000));

        counts[77] += 1;
        assert!(check_counts(&cells, &counts, 2000).is_err());
        sums[88].y += 0.01;
        assert!(check_sums(&cells, &sums, 2000).is_err());
        sums[88].y = f32::NAN;
        assert!(check_sums(&cells, &sums, 2000).is_err());
        indices[5] ^= 1;
        assert!(cells.check_lists(&offsets, &indices, 2000).is_err());
    }
}

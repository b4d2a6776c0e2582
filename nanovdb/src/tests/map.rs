//! Maps.

use super::Rng;
use crate::{Builder, Map};

#[test]
fn there_and_back() {
    let mut rng = Rng::new(4);
    let mut tried = 0;
    while tried < 300 {
        let matrix = [0; 3].map(|_| [0; 3].map(|_| f64::from(rng.real())));
        let [a, b, c] = matrix;
        let determinant = a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
            + a[2] * (b[0] * c[1] - b[1] * c[0]);
        if determinant.abs() < 100.0 {
            continue;
        }
        tried += 1;
        let map = Map::affine(matrix, [1.0, -2.0, 3.0]).unwrap();
        let index = [0; 3].map(|_| f64::from(rng.real()));
        let world = map.apply(index);
        for i in 0..3 {
            let sum = (0..3).map(|j| matrix[i][j] * index[j]).sum::<f64>() + [1.0, -2.0, 3.0][i];
            assert!((world[i] - sum).abs() < 1e-9);
            assert!((map.apply_inverse(world)[i] - index[i]).abs() < 1e-6);
        }
        let there = map.apply_inverse_direction(map.apply_direction(index));
        assert!((0..3).all(|i| (there[i] - index[i]).abs() < 1e-6));
        // A plane's gradient by world space, from that by index space: f = g . index, so df = g . d index.
        let gradient = map.apply_gradient([2.0, -1.0, 0.5]);
        let direction = map.apply_direction([0.3, 0.2, -0.7]);
        let slope: f64 = (0..3).map(|i| gradient[i] * direction[i]).sum();
        assert!((slope - (2.0 * 0.3 - 0.2 - 0.5 * 0.7)).abs() < 1e-6);
    }
}

#[test]
fn rows_and_sizes() {
    let map = Map::affine([[0.0, 0.0, 2.0], [0.5, 0.0, 0.0], [0.0, -4.0, 0.0]], [0.0; 3]).unwrap();
    assert_eq!(map.apply([1.0, 10.0, 100.0]), [200.0, 0.5, -40.0]);
    assert_eq!(map.voxel_size(), [0.5, 4.0, 2.0]);
    let map = Map::uniform(0.1, [1.0, 2.0, 3.0]).unwrap();
    assert_eq!(map.voxel_size(), [0.1; 3]);
    assert_eq!(map.apply([0.0; 3]), [1.0, 2.0, 3.0]);
    assert_eq!(map.inverse_matrix()[1], [0.0, 10.0, 0.0]);
    assert_eq!(map.matrix_f32()[2], [0.0, 0.0, 0.1]);
    let rows = [[2.0, 0.0, 0.0, 1.0], [0.0, -0.5, 0.0, 2.0], [0.0, 0.0, 4.0, 3.0]];
    let mirrored = Map::scaled([2.0, -0.5, 4.0], [1.0, 2.0, 3.0]).unwrap();
    assert_eq!(mirrored.apply([1.0, 10.0, 100.0]), [3.0, -3.0, 403.0]);
    assert_eq!(mirrored.voxel_size(), [2.0, 0.5, 4.0]);
    assert_eq!((mirrored.rows(), Map::from_rows(rows).unwrap()), (rows, mirrored));
    let skewed = Map::affine([[3.0, 0.0, 0.0], [4.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.0; 3]);
    assert_eq!(skewed.unwrap().voxel_size(), [5.0, 1.0, 1.0]);
    // Sizes far from 1 are sizes, too.
    for size in [1e-12, 1e15] {
        assert_eq!(
            Map::affine([[size, 0.0, 0.0], [0.0, size, 0.0], [0.0, 0.0, size]], [0.0; 3])
                .unwrap()
                .voxel_size(),
            [size; 3]
        );
    }
}

#[test]
fn what_is_no_map() {
    for size in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
        assert!(Map::uniform(size, [0.0; 3]).is_err(), "{size}");
    }
    assert!(Map::uniform(1.0, [0.0, f64::NAN, 0.0]).is_err());
    for size in [[0.0, 1.0, 1.0], [1.0, f64::NAN, 1.0], [1.0, 1.0, f64::INFINITY]] {
        assert_eq!(Map::scaled(size, [0.0; 3]).unwrap_err().check(), "map", "{size:?}");
    }
    let rows = [
        [[0.0; 3]; 3],
        [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, f64::NAN]],
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    ];
    for matrix in rows {
        assert_eq!(Map::affine(matrix, [0.0; 3]).unwrap_err().check(), "map", "{matrix:?}");
    }
}

#[test]
fn a_grid_keeps_its_map() {
    let map = Map::affine([[0.0, 0.0, 2.0], [0.5, 0.25, 0.0], [0.0, -4.0, 0.0]], [7.0; 3]).unwrap();
    let grid = Builder::<f32>::new(0.0).map(map).set([1, 2, 3], 1.0).build().unwrap();
    assert_eq!(grid.map(), map);
    let [low, high] = grid.info().world_box.unwrap();
    assert_eq!(low, [13.0, 8.0, -5.0]);
    assert_eq!(high, [15.0, 8.75, -1.0]);
}

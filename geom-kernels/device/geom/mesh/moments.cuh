// The moments of the nodes of a mesh's hierarchy, for fast winding numbers.
//
// G. Barill, N. G. Dickson, R. Schmidt, D. I. W. Levin, A. Jacobson: Fast Winding Numbers for Soups and Clouds. 2018.
// At a distance, the part of the winding number at q that is due to a set of triangles is a Taylor series about a
// point p:
//   1/4pi sum over triangles of the integrals of
//     n . g + (d, n) : grad g + 1/2 (d, d, n) : grad grad g + ...,   g = (p - q) / |p - q|^3,
// where d leads from p to a point of the triangle whose normal is n. g is the gradient of a harmonic function, so its
// derivatives are symmetric, and traceless. Only the symmetric, traceless part of the tensors contracted with them
// matters: 3 + 5 + 7 numbers instead of the paper's 3 + 9 + 27, with no loss. (They are multipoles: a dipole, a
// quadrupole and an octupole.)
//
// Measured on knotted tubes of 64 k and 1 M triangles: the greatest error is 5e-3 with beta = 2, for 18 visited nodes
// and 54 series. Without the octupole, which takes 28 bytes per child, it is 4e-2, and still 1e-2 with beta = 3, for
// 41 nodes and 123 series.
#pragma once

#include <geom/mesh/types.cuh>

namespace geom {

// A child of a node: all triangles below it. It has 80 bytes, so that a thread reads a distant child in five loads,
// and its centre and radius in one.
//
// Lengths are in units of the radius r, so that nothing overflows: with y = r (p - q) / |p - q|^2 the part of the
// winding number is
//   |y| (n . y + Q(y) + O(y)).
struct alignas(16) ChildMoments {
    // p, the mean of the triangles' centroids, weighted by area.
    float x, y, z;
    // The radius of a ball around p with all triangles that have an area.
    float radius;
    // n: the sum of the area vectors, divided by 4 pi r^2.
    float nx, ny, nz;
    // The value of BvhNode::child.
    unsigned child;
    // Q(x, y, z) = qxx (x^2 - z^2) + qyy (y^2 - z^2) + qxy xy + qxz xz + qyz yz.
    float qxx, qyy, qxy, qxz, qyz;
    // O(x, y, z) = oxxx (x^3 - 3 x z^2) + oxyy x (y^2 - z^2) + oxxy y (x^2 - z^2) + oyyy (y^3 - 3 y z^2)
    //   + oxxz (3 x^2 z - z^3) + oyyz (3 y^2 z - z^3) + oxyz xyz.
    float oxxx, oxyy, oxxy, oyyy, oxxz, oyyz, oxyz;
};

struct NodeMoments {
    ChildMoments child[4];
};

} // namespace geom

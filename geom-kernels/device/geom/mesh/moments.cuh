// The moments of the nodes of a mesh's hierarchy, for fast winding numbers.
//
// G. Barill, N. G. Dickson, R. Schmidt, D. I. W. Levin, A. Jacobson: Fast Winding Numbers for Soups and
// Clouds. 2018. Seen from afar, the part of the winding number at q that is due to a set of triangles is a
// Taylor series about a point p of them:
//   1/4pi sum over triangles of the integrals of
//     n . g + (d, n) : grad g + 1/2 (d, d, n) : grad grad g + ...,   g = (p - q) / |p - q|^3,
// where d leads from p to a point of the triangle whose normal is n. g is the gradient of a function that
// is harmonic, and so the derivatives are symmetric, and zero if traced over two indices. Only the symmetric, traceless
// part of the tensors contracted with them matters: of the 3 + 9 + 27 numbers of the paper 3 + 5 + 7 are left, and
// nothing is lost. (They are multipoles: a dipole, a quadrupole and an octupole.)
//
// Measured on knotted tubes of 64 k and 1 M triangles: the greatest error is 5e-3 with beta = 2, for 18 visited nodes
// and 54 series. Without the octupole it is 4e-2, and still 1e-2 with beta = 3, for 41 nodes and 123 series: the 28
// bytes for each child are well spent.
#pragma once

#include <geom/mesh/types.cuh>

namespace geom {

// A child of a node: all triangles below it. 80 bytes, so that a thread reads a child it wants in five
// loads, and its centre and radius in one.
//
// In units of the radius r, so that nothing overflows: with y = r (p - q) / |p - q|^2 the part of the
// winding number is
//   |y| (n . y + Q(y) + O(y)).
struct alignas(16) ChildMoments {
    // p, the mean of the triangles' centroids by area.
    float x, y, z;
    // Of a ball around it with all triangles that have an area.
    float radius;
    // n: the sum of the areas' vectors, by 4 pi r^2.
    float nx, ny, nz;
    // As in BvhNode.
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

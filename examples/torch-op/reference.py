"""What tests of the operators compare with: signed distances and gradients in float64, by brute force over all faces."""

import numpy as np

# How far gradients in float32 may be off. Of faces whose squared distances are equal as rounded to float32, the first counts
# as the nearest. Its nearest point is off by the root of the rounding error, so the direction to it is right to 4e-4.
GRADIENT = 2e-3


def sphere(detail, rng):
    """A bumpy sphere of 20 * 4^detail faces, and its vertices."""
    golden = (1 + 5**0.5) / 2
    vertices = [(s, t * golden, 0) for s in (-1, 1) for t in (-1, 1)]
    vertices = [np.roll(v, k) / np.hypot(1, golden) for k in range(3) for v in vertices]
    vertices = [tuple(v) for v in vertices]
    faces = []
    for a in range(12):
        for b in range(a + 1, 12):
            for c in range(b + 1, 12):
                p, q, r = (np.array(vertices[i]) for i in (a, b, c))
                if max(np.linalg.norm(p - q), np.linalg.norm(q - r), np.linalg.norm(r - p)) < 1.1:
                    out = np.dot(np.cross(q - p, r - p), p) > 0
                    faces.append((a, b, c) if out else (a, c, b))
    for _ in range(detail):
        middles, finer = {}, []

        def middle(i, j):
            key = (min(i, j), max(i, j))
            if key not in middles:
                m = np.array(vertices[i]) + np.array(vertices[j])
                vertices.append(tuple(m / np.linalg.norm(m)))
                middles[key] = len(vertices) - 1
            return middles[key]

        for a, b, c in faces:
            ab, bc, ca = middle(a, b), middle(b, c), middle(c, a)
            finer += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = finer
    vertices = np.array(vertices)
    bumps = 1 + 0.1 * np.sin(3 * vertices[:, :1] + 2 * vertices[:, 1:2]) + 0.02 * rng.random((len(vertices), 1))
    return (bumps * vertices).astype(np.float32), np.array(faces, dtype=np.int32)


def closest(points, vertices, faces):
    """For each point the nearest point of all faces: its face, its barycentric coordinates, and the distance."""
    p, (a, b, c) = points[:, None, :], (vertices[faces[:, k]][None] for k in range(3))

    def dot(u, v):
        return (u * v).sum(-1)

    def edge(s, t):
        along = t - s
        return np.clip(dot(p - s, along) / dot(along, along), 0, 1)

    # Inside of the face, and on each of its edges: the nearest of the four.
    n = np.cross(b - a, c - a)
    v = dot(np.cross(p - a, c - a), n) / dot(n, n)
    w = dot(np.cross(b - a, p - a), n) / dot(n, n)
    inside = (v >= 0) & (w >= 0) & (v + w <= 1)
    ab, bc, ca = edge(a, b), edge(b, c), edge(c, a)
    zero = np.zeros_like(ab)
    weights = np.stack(
        [
            np.stack([1 - v - w, v, w], -1),
            np.stack([1 - ab, ab, zero], -1),
            np.stack([zero, 1 - bc, bc], -1),
            np.stack([ca, zero, 1 - ca], -1),
        ]
    )
    corners = np.stack([a, b, c], -2)
    positions = (weights[..., None] * corners).sum(-2)
    distances = np.linalg.norm(positions - p, axis=-1)
    distances[0][~inside] = np.inf
    part = distances.argmin(0)
    rows, columns = np.indices(part.shape)
    distances, weights = distances[part, rows, columns], weights[part, rows, columns]
    face = distances.argmin(1)
    at = np.arange(len(points))
    return face, weights[at, face], distances[at, face]


def inside(points, vertices, faces):
    """Whether each point is inside, by the winding number in float64 (van Oosterom and Strackee, 1983)."""
    a, b, c = (vertices[faces[:, k]][None] - points[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=-1) for x in (a, b, c))
    triple = (a * np.cross(b, c)).sum(-1)
    bottom = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    return np.arctan2(triple, bottom).sum(1) / (2 * np.pi) > 0.5


def oracle(points, vertices, faces, g):
    """Signed distances and the gradients of their sum weighted by g, in float64."""
    points, vertices, g = points.astype(float), vertices.astype(float), g.astype(float)
    if not len(points):
        return np.zeros(0), np.zeros((0, 3)), np.zeros_like(vertices)
    face, weights, distance = closest(points, vertices, faces)
    corners = vertices[faces[face]]
    away = points - (weights[..., None] * corners).sum(1)
    sign = np.where(inside(points, vertices, faces), -1.0, 1.0)
    # The distance is least, so it changes as if the weights did not (Danskin's theorem).
    along = (sign * g / distance)[:, None] * away
    by_vertices = np.zeros_like(vertices)
    np.add.at(by_vertices, faces[face], -weights[..., None] * along[:, None, :])
    return sign * distance, along, by_vertices

# The rows by Warp's CPU device: a name a line on standard input, `result SECONDS` of processor time or `result none` on
# standard output. Fails if a result is not ours.
import sys
import time

import numpy as np
import warp as wp

FOLDER = sys.argv[1]


def load(name, dtype=np.float32, columns=None):
    data = np.fromfile(f"{FOLDER}/{name}", dtype)
    return data.reshape(-1, columns) if columns else data


def vectors(name):
    return wp.array(load(name, columns=3), dtype=wp.vec3, device="cpu")


@wp.kernel
def closest(mesh: wp.uint64, points: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    found = wp.mesh_query_point_no_sign(mesh, points[i], 1.0e6)
    if found.result:
        out[i] = wp.mesh_eval_position(mesh, found.face, found.u, found.v)


@wp.kernel
def cast(mesh: wp.uint64, origins: wp.array(dtype=wp.vec3), directions: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    # Warp's t is along a direction of any length.
    hit = wp.mesh_query_ray(mesh, origins[i], directions[i], 1.0e6)
    if hit.result:
        out[i] = hit.t


@wp.kernel
def sum_up(grid: wp.uint64, points: wp.array(dtype=wp.vec3), radius: float, out: wp.array(dtype=float)):
    i = wp.hash_grid_point_id(grid, wp.tid())
    p = points[i]
    total = float(0.0)
    for j in wp.hash_grid_query(grid, p, radius):
        d = p - points[j]
        square = wp.dot(d, d)
        if square <= radius * radius:
            total += radius * radius - square
    out[i] = total


@wp.kernel
def sample(volume: wp.uint64, points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.volume_sample_f(volume, points[i], wp.Volume.LINEAR)


@wp.func
def contact_force(n: wp.vec3, v: wp.vec3, gap: float, friction: float, mu: float):
    approach = wp.dot(n, v)
    normal = gap * 8000.0 + wp.min(approach, 0.0) * 2.0
    slip = v - n * approach
    size = wp.length(slip)
    rub = wp.min(size * friction, mu * wp.abs(normal))
    return n * (-normal) - wp.normalize(slip) * rub


# NVIDIA's example, with the constants of examples/dem.
@wp.kernel
def apply_forces(grid: wp.uint64, x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3)):
    i = wp.hash_grid_point_id(grid, wp.tid())
    at = x[i]
    speed = v[i]
    force = wp.vec3()
    if at[1] < 0.02:
        force = contact_force(wp.vec3(0.0, 1.0, 0.0), speed, at[1], 100.0, 0.5)
    for j in wp.hash_grid_query(grid, at, 0.3375):
        if j != i:
            apart = at - x[j]
            distance = wp.length(apart)
            gap = distance - 0.2
            if gap <= 0.0075:
                force = force + contact_force(apart / distance, speed - v[j], gap, 1.0, 1.0e5)
    f[i] = force


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    speed = v[i] + (f[i] * 64.0 - wp.vec3(0.0, 9.8, 0.0)) * dt
    v[i] = speed
    x[i] = x[i] + speed * dt


def rows():
    device = "cpu"
    mesh = wp.Mesh(vectors("mesh_points"), wp.array(load("mesh_faces", np.int32), dtype=int, device=device))

    def of_points(name):
        points = vectors(name)
        out = wp.zeros(len(points), dtype=wp.vec3, device=device)
        return lambda: wp.launch(closest, len(points), [mesh.id, points], [out], device=device)

    yield "closest points, box", of_points("closest_box")
    yield "closest points, surface", of_points("closest_surface")

    # Eight floats a ray: origin, t_min, direction, t_max.
    shot = load("rays", columns=8)
    origins = wp.array(np.ascontiguousarray(shot[:, 0:3]), dtype=wp.vec3, device=device)
    directions = wp.array(np.ascontiguousarray(shot[:, 4:7]), dtype=wp.vec3, device=device)
    hits = wp.zeros(len(shot), dtype=float, device=device)
    yield "rays", lambda: wp.launch(cast, len(shot), [mesh.id, origins, directions], [hits], device=device)

    cloud, grid = vectors("grid_points"), wp.HashGrid(128, 128, 128, device=device)
    sums = wp.zeros(len(cloud), dtype=float, device=device)

    def grid_sums():
        grid.build(cloud, 0.05)
        wp.launch(sum_up, len(cloud), [grid.id, cloud, 0.05], [sums], device=device)

    grid_sums()
    same("grid sums", sums.numpy(), load("grid_expected"), 1e-4)
    yield "grid sums", grid_sums

    with open(f"{FOLDER}/volume.nvdb", "rb") as file:
        volume = wp.Volume.load_from_nvdb(file, device=device)
    points = vectors("sample_points")
    values = wp.zeros(len(points), dtype=float, device=device)

    def samples():
        wp.launch(sample, len(points), [volume.id, points], [values], device=device)

    samples()
    same("linear samples", values.numpy(), load("sample_expected"), 1e-3)
    yield "linear samples", samples

    start = load("grains", columns=4)[:, 0:3].copy()
    n = len(start)
    begin = np.tile(np.array([0.0, 0.0, 15.0], np.float32), (n, 1))
    x, v, f = (wp.zeros(n, dtype=wp.vec3, device=device) for _ in range(3))
    cells = wp.HashGrid(128, 128, 128, device=device)

    def frame():
        x.assign(start)
        v.assign(begin)
        cells.build(x, 0.3375)
        for _ in range(64):
            wp.launch(apply_forces, n, [cells.id, x, v], [f], device=device)
            wp.launch(integrate, n, [x, v, f, 1.0 / 60.0 / 64.0], device=device)

    frame()
    same("dem frame", np.mean(x.numpy()[:, 1:2], axis=0), load("grains_expected"), 1e-2)
    yield "dem frame", frame


def same(name, found, wanted, most):
    off = np.max(np.abs(found - wanted))
    if not off <= most:
        sys.exit(f"{name} differ by {off}")


wp.config.quiet = True
wp.init()
ALL = dict(rows())
for line in sys.stdin:
    run = ALL.get(line.strip())
    if run is None:
        print("result none", flush=True)
        continue
    begin = time.process_time()
    run()
    print(f"result {time.process_time() - begin}", flush=True)

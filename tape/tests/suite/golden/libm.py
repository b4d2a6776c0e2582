"""Prints libm.txt: derivatives of CUDA's mathematical functions, computed with 60 digits by mpmath.

    pip install mpmath
    python3 tape/tests/suite/golden/libm.py | gzip -9n > tape/tests/suite/golden/libm.txt.gz

The derivatives are textbook formulas, evaluated at the very numbers that the tests pass. The error that is allowed is
1e-6 of a derivative of float, and 1e-13 of one of double. Near the zeros of derivatives of gamma and Bessel functions,
and of intrinsics, it is also what the derivative changes by if each argument changes by 4 units in its last place. It
is absolute only below the smallest normal number. At kinks, poles, branch cuts and
infinities the derivatives are what tape/DESIGN.md says.
"""

import math
import random
import struct

import mpmath as mp

mp.mp.dps = 60
PI, INF, NAN = mp.pi, math.inf, math.nan
J, Y, I = mp.besselj, mp.bessely, mp.besseli


def single(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(INF, x)


def erfcinv(p):
    if p > mp.mpf("0.1"):
        return mp.erfinv(1 - p)
    y = mp.sqrt(-mp.log(p))
    while True:
        tail = mp.erfc(y)
        step = (mp.log(tail) - mp.log(p)) * tail * mp.sqrt(PI) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10) ** -55 * abs(y):
            return y


def d_erfcinv(p):
    return -mp.sqrt(PI) / 2 * mp.exp(erfcinv(p) ** 2)


def d_erfcx(x):
    if x > 40:
        terms = ((-1) ** k * mp.fac2(2 * k + 1) / (2 * x * x) ** k for k in range(26))
        return -mp.fsum(terms) / (mp.sqrt(PI) * x * x)
    with mp.workdps(90):
        return 2 * x * mp.exp(x * x) * mp.erfc(x) - 2 / mp.sqrt(PI)


def norm(at, power):
    """The derivative of the length of a vector, to a power of 1 or -1, by a component."""
    return lambda *v: power * v[at] * mp.fsum(x * x for x in v) ** (mp.mpf(power) / 2 - 1)


def lin(low, high, count=24):
    return ("lin", low, high, count)


def log(low, high, count=20):
    return ("log", low, high, count)


ALL = (log(1e-300, 1e300), lin(-20, 20), lin(-1, 1, 12))
POSITIVE = (log(1e-300, 1e300), lin(0, 3), ("near", 1))
UNIT = (log(1e-300, 1), lin(-1, 1), ("near", 1), ("near", -1))
BESSEL = (log(1e-300, 1e5), lin(0, 8), lin(8, 100), lin(7.9, 8.1, 8))



def order(kind, n):
    return [lambda x: (kind(n - 1, x) - kind(n + 1, x)) / 2]


# Name: derivatives, by argument; where from; special points with their derivatives.
FUNCTIONS = {
    "sin": ([mp.cos], ALL, [(0.0, 1), (-0.0, 1), (INF, NAN)]),
    "cos": ([lambda x: -mp.sin(x)], ALL, [(0.0, 0), (-INF, NAN)]),
    "tan": ([lambda x: mp.sec(x) ** 2], ALL, [(0.0, 1), (INF, NAN)]),
    "sinpi": ([lambda x: PI * mp.cospi(x)], (log(1e-300, 1e15), lin(-20, 20)), [(0.5, 0), (2.5, 0), (INF, NAN)]),
    "cospi": ([lambda x: -PI * mp.sinpi(x)], (log(1e-300, 1e15), lin(-20, 20)), [(0.0, 0), (3.0, 0), (-INF, NAN)]),
    "asin": ([lambda x: 1 / mp.sqrt((1 - x) * (1 + x))], UNIT, [(0.0, 1), (1.0, INF), (-1.0, INF), (2.0, NAN), (INF, NAN)]),
    "acos": ([lambda x: -1 / mp.sqrt((1 - x) * (1 + x))], UNIT, [(0.0, -1), (1.0, -INF), (-1.0, -INF), (-2.0, NAN)]),
    "atan": ([lambda x: 1 / (1 + x * x)], ALL, [(0.0, 1), (INF, 0), (-INF, 0)]),
    "sinh": ([mp.cosh], ALL, [(0.0, 1), (INF, INF), (-INF, INF)]),
    "cosh": ([mp.sinh], ALL, [(0.0, 0), (INF, INF), (-INF, -INF)]),
    "tanh": ([lambda x: mp.sech(x) ** 2], ALL + (lin(-50, 50),), [(0.0, 1), (INF, 0), (-INF, 0)]),
    "asinh": ([lambda x: 1 / mp.sqrt(1 + x * x)], ALL, [(0.0, 1), (INF, 0), (-INF, 0)]),
    "acosh": ([lambda x: 1 / mp.sqrt((x - 1) * (x + 1))], (log(1.001, 1e300), ("near", 1), lin(1, 3)), [(1.0, INF), (0.5, NAN), (INF, 0), (-INF, NAN)]),
    "atanh": ([lambda x: 1 / mp.sqrt((1 - x) * (1 + x)) ** 2], UNIT, [(0.0, 1), (1.0, INF), (-1.0, INF), (2.0, NAN), (INF, NAN)]),
    "exp": ([mp.exp], ALL + (lin(-700, 700), lin(-87, 88)), [(0.0, 1), (INF, INF), (-INF, 0)]),
    "exp2": ([lambda x: mp.log(2) * mp.mpf(2) ** x], ALL + (lin(-1000, 1000), lin(-126, 127)), [(INF, INF), (-INF, 0)]),
    "exp10": ([lambda x: mp.log(10) * mp.mpf(10) ** x], ALL + (lin(-300, 300), lin(-38, 38)), [(INF, INF), (-INF, 0)]),
    "expm1": ([mp.exp], ALL + (lin(-700, 700), lin(-87, 88)), [(0.0, 1), (INF, INF), (-INF, 0)]),
    "log": ([lambda x: 1 / x], POSITIVE, [(0.0, INF), (-0.0, INF), (-1.0, NAN), (INF, 0)]),
    "log2": ([lambda x: 1 / x / mp.log(2)], POSITIVE, [(0.0, INF), (-0.0, INF), (-1.0, NAN), (INF, 0)]),
    "log10": ([lambda x: 1 / x / mp.log(10)], POSITIVE, [(0.0, INF), (-0.0, INF), (-1.0, NAN), (INF, 0)]),
    "log1p": ([lambda x: 1 / mp.sqrt(1 + x) ** 2], (log(1e-300, 1e300), lin(-1, 3), ("near", -1)), [(-1.0, INF), (-2.0, NAN), (INF, 0)]),
    "sqrt": ([lambda x: 1 / (2 * mp.sqrt(x))], POSITIVE, [(0.0, 0), (-0.0, 0), (INF, 0)]),
    "rsqrt": ([lambda x: -1 / (2 * x * mp.sqrt(x))], POSITIVE, [(0.0, -INF), (-1.0, NAN), (INF, 0)]),
    "cbrt": ([lambda x: 1 / (3 * mp.cbrt(x * x))], ALL, [(0.0, INF), (-0.0, INF), (INF, 0), (-INF, 0)]),
    "rcbrt": ([lambda x: -1 / (3 * mp.cbrt(x * x) ** 2)], ALL, [(0.0, -INF), (-0.0, -INF), (INF, 0), (-INF, 0)]),
    "erf": ([lambda x: 2 / mp.sqrt(PI) * mp.exp(-x * x)], ALL + (lin(-9, 9), lin(-26, 26)), [(INF, 0), (-INF, 0)]),
    "erfc": ([lambda x: -2 / mp.sqrt(PI) * mp.exp(-x * x)], ALL + (lin(-9, 26),), [(INF, 0), (-INF, 0)]),
    "erfcx": ([d_erfcx], ALL + (lin(-9, 30), lin(0, 3)), [(INF, 0), (-INF, -INF)]),
    "erfinv": ([lambda x: mp.sqrt(PI) / 2 * mp.exp(mp.erfinv(x) ** 2)], UNIT, [(1.0, INF), (-1.0, INF), (1.5, NAN), (INF, NAN)]),
    "erfcinv": ([d_erfcinv], (log(1e-300, 1), lin(0, 2), ("near", 2)), [(0.0, -INF), (2.0, -INF), (-1.0, NAN), (INF, NAN)]),
    "normcdf": ([lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * PI)], ALL + (lin(-38, 38),), [(INF, 0), (-INF, 0)]),
    "normcdfinv": ([lambda p: -2 * mp.sqrt(2) * d_erfcinv(2 * p)], (log(1e-300, 1), lin(0, 1), ("near", 1)), [(0.0, INF), (1.0, INF), (2.0, NAN), (-INF, NAN)]),
    "lgamma": ([mp.digamma], (log(1e-300, 1e300), lin(0, 12), lin(-20, 20), lin(-200, 0), lin(1.4, 1.5, 8), ("near", 1)), [(0.0, -INF), (-0.0, INF), (-1.0, NAN), (-7.0, NAN), (INF, INF), (-INF, NAN)]),
    "tgamma": ([lambda x: mp.gamma(x) * mp.digamma(x)], (log(1e-300, 1e2), lin(0, 12), lin(-20, 20), lin(-200, 0), lin(1.4, 1.5, 8), lin(10, 170)), [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (-INF, NAN)]),
    "j0": ([lambda x: -J(1, x)], BESSEL + (lin(-20, 0),), [(0.0, 0), (INF, 0), (-INF, 0)]),
    "j1": ([lambda x: (J(0, x) - J(2, x)) / 2], BESSEL + (lin(-20, 0),), [(0.0, 0.5), (-0.0, 0.5), (INF, 0), (-INF, 0)]),
    "y0": ([lambda x: -Y(1, x)], BESSEL, [(0.0, INF), (-1.0, NAN), (INF, 0), (-INF, NAN)]),
    "y1": ([lambda x: (Y(0, x) - Y(2, x)) / 2], BESSEL, [(0.0, INF), (-1.0, NAN), (INF, 0), (-INF, NAN)]),
    "cyl_bessel_i0": ([lambda x: I(1, x)], (lin(-20, 20), lin(-80, 80), lin(-700, 700), log(1e-300, 10)), [(0.0, 0), (INF, INF), (-INF, -INF)]),
    "cyl_bessel_i1": ([lambda x: (I(0, x) + I(2, x)) / 2], (lin(-20, 20), lin(-80, 80), lin(-700, 700), log(1e-300, 10)), [(0.0, 0.5), (INF, INF), (-INF, INF)]),
    "jn(2,$)": (order(J, 2), BESSEL + (lin(-20, 0),), [(0.0, 0), (INF, 0), (-INF, 0)]),
    "jn(7,$)": (order(J, 7), BESSEL + (lin(-20, 0),), [(0.0, 0), (INF, 0)]),
    "jn(60,$)": (order(J, 60), BESSEL + (lin(50, 70),), [(0.0, 0), (INF, 0)]),
    "jn(-1,$)": (order(J, 1), (), [(2.0, NAN)]),
    "yn(2,$)": (order(Y, 2), BESSEL, [(0.0, INF), (-1.0, NAN), (INF, 0)]),
    "yn(7,$)": (order(Y, 7), BESSEL, [(0.0, INF), (-1.0, NAN), (INF, 0)]),
    "yn(60,$)": (order(Y, 60), (lin(8, 100), lin(50, 70)), [(0.0, INF), (INF, 0)]),
    "atan2": (
        [lambda a, b: b / (a * a + b * b), lambda a, b: -a / (a * a + b * b)], ALL,
        [(0.0, 0.0, 0, 0), (0.0, -0.0, 0, 0), (-0.0, -1.0, -1, 0), (0.0, 1.0, 1, 0), (1.0, INF, 0, 0), (INF, 1.0, 0, 0), (INF, INF, 0, 0), (NAN, 1.0, NAN, NAN)],
    ),
    "hypot": (
        [norm(at, 1) for at in range(2)], ALL,
        [(0.0, -0.0, 0, 0), (INF, 1.0, 1, 0), (2.0, -INF, 0, -1), (NAN, 1.0, NAN, NAN)],
    ),
    "rhypot": ([norm(at, -1) for at in range(2)], ALL, [(0.0, 0.0, 0, 0), (INF, 1.0, 0, 0), (NAN, 1.0, NAN, NAN)]),
    "norm3d": ([norm(at, 1) for at in range(3)], ALL, [(0.0, 0.0, 0.0, 0, 0, 0), (INF, 1.0, 1.0, 1, 0, 0)]),
    "rnorm3d": ([norm(at, -1) for at in range(3)], ALL, [(0.0, 0.0, 0.0, 0, 0, 0), (INF, 1.0, 1.0, 0, 0, 0)]),
    "norm4d": ([norm(at, 1) for at in range(4)], ALL, [(0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0), (1.0, 1.0, 1.0, -INF, 0, 0, 0, -1)]),
    "rnorm4d": ([norm(at, -1) for at in range(4)], ALL, [(0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0)]),
    "pow": (
        [lambda a, b: b * mp.power(a, b - 1), lambda a, b: mp.power(a, b) * mp.log(a)], "pow",
        [
            (0.0, 0.0, 0, 0), (0.0, 1.0, 1, 0), (0.0, 2.0, 0, 0), (-0.0, 3.0, 0, 0), (0.0, 0.5, INF, 0), (0.0, -1.0, -INF, -INF),
            (-2.0, 3.0, 12, NAN), (-2.0, 2.0, -4, NAN), (-2.0, 0.5, NAN, NAN), (1.0, 0.0, 0, 0), (INF, 2.0, INF, INF),
            (INF, -1.0, 0, 0), (INF, 1.0, 1, INF), (2.0, INF, INF, INF), (0.5, INF, 0, 0), (NAN, 2.0, NAN, NAN),
        ],
    ),
    "fmod": (
        [lambda a, b: mp.mpf(1), lambda a, b: -mp.sign(a) * mp.sign(b) * mp.floor(abs(a / b))], (lin(-20, 20), lin(-1000, 1000)),
        [(5.0, 0.0, NAN, NAN), (INF, 2.0, NAN, NAN), (5.0, INF, 1, 0), (-7.0, 2.0, 1, 3), (0.0, 3.0, 1, 0)],
    ),
    "remainder": (
        [lambda a, b: mp.mpf(1), lambda a, b: -mp.nint(a / b)], (lin(-20, 20), lin(-1000, 1000)),
        [(5.0, 0.0, NAN, NAN), (INF, 2.0, NAN, NAN), (5.0, INF, 1, 0), (-7.0, 2.0, 1, 4), (5.0, 2.0, 1, -2)],
    ),
    "fdim": (
        [lambda a, b: mp.mpf(a > b), lambda a, b: -mp.mpf(a > b)], ALL,
        [(1.0, 1.0, 0, 0), (INF, 1.0, 1, -1), (NAN, 1.0, NAN, NAN)],
    ),
    "copysign": (
        [lambda a, b: mp.mpf(1 if (a > 0) == (b > 0) else -1), lambda a, b: mp.mpf(0)], ALL,
        [(0.0, -1.0, -1, 0), (-0.0, -1.0, 1, 0), (1.0, -0.0, -1, 0)],
    ),
}

DIVISION = ([lambda a, b: 1 / b, lambda a, b: -a / b / b], (log(1e-15, 1e15), lin(-20, 20)), [])
RECIPROCAL = ([lambda a: -1 / a / a], ALL, [(0.0, -INF), (INF, 0)])
# Only of float, where they have a value. Special points are those of the functions, but for those of large numbers.
INTRINSICS = {
    "__sinf": (FUNCTIONS["sin"][0], (lin(-20, 20), lin(-1, 1)), []),
    "__cosf": (FUNCTIONS["cos"][0], (lin(-20, 20), lin(-1, 1)), []),
    "__tanf": (FUNCTIONS["tan"][0], (lin(-20, 20), lin(-1, 1)), []),
    "__tanhf": (FUNCTIONS["tanh"][0], ALL, [(0.0, 1), (INF, 0)]),
    "__expf": (FUNCTIONS["exp"][0], (lin(-80, 80), lin(-1, 1)), [(-INF, 0), (INF, INF)]),
    "__exp10f": (FUNCTIONS["exp10"][0], (lin(-35, 35), lin(-1, 1)), [(-INF, 0), (INF, INF)]),
    "__logf": (FUNCTIONS["log"][0], POSITIVE, [(0.0, INF), (-1.0, NAN), (INF, 0)]),
    "__log2f": (FUNCTIONS["log2"][0], POSITIVE, [(0.0, INF), (-1.0, NAN), (INF, 0)]),
    "__log10f": (FUNCTIONS["log10"][0], POSITIVE, [(0.0, INF), (-1.0, NAN), (INF, 0)]),
    "__powf": (FUNCTIONS["pow"][0], "powf", [(1.0, 0.0, 0, 0)]),
    "__fdividef": DIVISION,
    "fdividef": DIVISION,
    "__fdiv_rn": DIVISION,
    "__frcp_rn": RECIPROCAL,
    "__frcp_rz": RECIPROCAL,
    "__fsqrt_rn": FUNCTIONS["sqrt"],
    "__fsqrt_ru": FUNCTIONS["sqrt"],
    "__frsqrt_rn": FUNCTIONS["rsqrt"],
}
DOUBLE_INTRINSICS = {"__ddiv_rn": DIVISION, "__drcp_rn": RECIPROCAL, "__dsqrt_rn": FUNCTIONS["sqrt"]}


# Functions with a zero of the derivative where a relative error has no bound, and those that are inexact themselves.
LOOSE = {"lgamma", "tgamma", "j0", "j1", "y0", "y1", "jn", "yn", "__expf", "__exp10f", "__powf"}


class Real:
    def __init__(self, name, rounded, digits, least, largest, exponents, allowed):
        self.name, self.rounded, self.digits, self.allowed = name, rounded, digits, mp.mpf(allowed)
        self.least, self.largest, self.exponents = mp.mpf(least), mp.mpf(largest), exponents

    def ulp(self, x):
        exponent = max(math.frexp(x)[1], int(mp.log(self.least, 2)) + 1)
        return mp.mpf(2) ** (exponent - self.digits)


F32 = Real("f32", single, 24, mp.mpf(2) ** -126, mp.mpf(2) ** 128 * (1 - mp.mpf(2) ** -24), (-37.5, 38), "1e-6")
F64 = Real("f64", float, 53, mp.mpf(2) ** -1022, mp.mpf(2) ** 1024 * (1 - mp.mpf(2) ** -53), (-300, 300), "1e-13")


def points(domain, real, rng):
    signs = (1, -1) if any(d[0] == "lin" and d[1] < 0 for d in domain) else (1,)
    found = []
    for part in domain:
        if part[0] == "lin":
            found += [rng.uniform(part[1], part[2]) for _ in range(part[3])]
        elif part[0] == "log":
            low, high = (math.log10(x) for x in part[1:3])
            low, high = max(low, real.exponents[0]), min(high, real.exponents[1])
            found += [10 ** rng.uniform(low, high) * rng.choice(signs) for _ in range(part[3])]
        else:
            away = [10 ** rng.uniform(-7 if real is F32 else -15.5, 0) for _ in range(12)]
            found += [part[1] + a * s for a, s in zip(away, (1, -1) * 6)]
    return [real.rounded(x) for x in found]


def columns(count, domain, real, rng):
    if domain in ("pow", "powf"):
        wide = domain == "pow"
        a = points((log(1e-300, 1e300) if wide else log(1e-10, 1e10), lin(0, 3), ("near", 1)), real, rng)
        exponent = lambda: rng.choice((1, -1)) * 10 ** rng.uniform(-6, 2.5) if wide and rng.random() < 0.7 else rng.randint(-4, 4) / (1 if wide else 1.5)
        return [a, [real.rounded(exponent()) for _ in a]]
    return [points(domain, real, rng) for _ in range(count)]


def shown(x):
    return repr(x).removesuffix(".0")


def entry(derivatives, xs, real, loose):
    """The derivatives at a point and their allowed errors; None where the function has no derivative."""
    exact, out = [mp.mpf(x) for x in xs], []
    for derivative in derivatives:
        try:
            want = derivative(*exact)
            if isinstance(want, mp.mpc) or not mp.isfinite(want):
                return None
            allowed = real.allowed * abs(want)
            for at, x in enumerate(xs if loose else ()):
                ulp = real.ulp(x)
                shifted = lambda by: derivative(*(e + by if k == at else e for k, e in enumerate(exact)))
                change = 4 * abs(shifted(ulp / 1000) - shifted(-ulp / 1000)) * 500
                if not isinstance(change, mp.mpc) and mp.isfinite(change):
                    allowed += change
        except (ZeroDivisionError, ValueError):
            return None
        if abs(want) > real.largest * (1 - real.allowed):
            return None
        if abs(want) < real.least:
            allowed = max(allowed, real.least)
        out.append("%s~%s" % (shown(float(want)), mp.nstr(allowed, 3)))
    return out


def main():
    print("# @gene" + "rated by tape/tests/suite/golden/libm.py: derivatives of CUDA's functions and their allowed errors.")
    print("# A name and a type, then at each point the arguments and, for each, derivative~error.")
    lists = [(real, FUNCTIONS) for real in (F32, F64)] + [(F32, INTRINSICS), (F64, DOUBLE_INTRINSICS)]
    for real, functions in lists:
        for name, (derivatives, domain, special) in functions.items():
            rng = random.Random(name + real.name)
            plain = functions is FUNCTIONS and real is F32
            stem, *rest = name.split("(")
            print("(".join([stem + "f" if plain else stem, *rest]), real.name)
            for xs in zip(*columns(len(derivatives), domain, real, rng)):
                found = entry(derivatives, xs, real, name.split("(")[0] in LOOSE)
                if found:
                    print(*map(shown, xs), *found)
            count = len(derivatives)
            at_nan = 0 if name in ("sqrt", "__fsqrt_rn", "__fsqrt_ru", "__dsqrt_rn") else NAN
            for point in special + [(NAN, at_nan)] * (count == 1):
                print(*map(shown, map(real.rounded, point[:count])), *("%s~0" % shown(float(d)) for d in point[count:]))


main()

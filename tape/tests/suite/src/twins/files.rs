//! The kernels that have an adjoint by hand, outside of `Ops`: what they are given, and how they are launched.

use cuda_safe::{LaunchConfig, nvrtc::Program};
use tape::{Element, FloatType, OpSpec, Param, Primal};

use super::super::ops::{Number, SOURCE};
use super::{Record, threads};

/// Where kernels and their adjoints by hand are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Ops,
    Gradients,
    Compositions,
    Neighbors,
    Bench,
    Flight,
    Fit,
}

impl File {
    pub(super) fn program(self) -> Program {
        let (name, source) = match self {
            Self::Ops => ("ops.cu", SOURCE.to_owned()),
            Self::Gradients => (
                "gradients.cu",
                include_str!("../../../../../geom-kernels/tests/suite/kernels/gradients.cu").into(),
            ),
            Self::Compositions => (
                "compositions.cu",
                include_str!("../../../../../geom-kernels/tests/suite/kernels/compositions.cu")
                    .into(),
            ),
            Self::Neighbors => (
                "neighbor_sums.cu",
                include_str!("../../../../../geom-kernels/tests/suite/kernels/neighbor_sums.cu")
                    .into(),
            ),
            Self::Bench => ("tape.cu", include_str!("../../../../../bench/src/tape.cu").into()),
            Self::Flight => ("flight.cu", include_str!("../../kernels/flight.cu").into()),
            Self::Fit => ("fit.cu", include_str!("../../kernels/fit.cu").into()),
        };
        geom_kernels::program(source).name(name)
    }
}

/// A parameter: what its kernel does with it is said to adjoints by hand alone.
type Said = (Param, fn(Param) -> Param);

/// A kernel, and how it is launched.
pub(super) struct Twin<T: Number> {
    pub(super) file: File,
    pub(super) kernel: String,
    params: Vec<Said>,
    pub(super) log: fn(&LaunchConfig) -> usize,
    pub(super) record: Record<T>,
}

impl<T: Number> Twin<T> {
    fn new(file: File, kernel: impl Into<String>, params: Vec<Said>, record: Record<T>) -> Self {
        Self { file, kernel: kernel.into(), params, log: |_| 0, record }
    }

    pub(super) fn spec(&self, said: bool) -> OpSpec {
        let spec = OpSpec::new(self.kernel.clone());
        let params = self.params.iter();
        params
            .map(|(param, say)| if said { say(param.clone()) } else { param.clone() })
            .fold(spec, OpSpec::param)
    }
}

fn value(name: &'static str) -> Said {
    (Param::value(name), |param| param)
}

fn number(name: &'static str, element: Element) -> Said {
    (Param::scalar(name, element).active(), |param| param)
}

/// A buffer with a gradient, whose elements each have a thread.
pub(super) fn each(name: &'static str, element: Element) -> Param {
    Param::buffer(name, element).len("n").active()
}

fn reads(param: Param) -> Param {
    param.reads(Primal::Entry)
}

fn reads_all(param: Param) -> Param {
    param.reads(Primal::Entry).each_element()
}

fn writes(param: Param) -> Param {
    param.overwrites().each_element()
}

fn updates(param: Param) -> Param {
    param.updates(Primal::Entry).each_element()
}

/// The kernels of numbers of both types.
pub(super) fn of_both<T: Number>() -> Vec<Twin<T>> {
    let one = <T as Number>::ELEMENT;
    let float = if T::SUFFIX == "f32" { FloatType::F32 } else { FloatType::F64 };
    let point = Element::vector(float, 3);
    let name = |name: &str| format!("{name}_{}", T::SUFFIX);
    vec![
        Twin::new(
            File::Ops,
            name("invert"),
            vec![
                (each("x", one), |x| x.reads(Primal::None).each_element()),
                (each("out", one), |out| out.overwrites().with_value(Primal::Exit).each_element()),
                value("n"),
            ],
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count)),
        ),
        Twin::new(
            File::Ops,
            name("replay"),
            vec![(each("x", one), |x| x.updates(Primal::EntryPrivate).each_element()), value("n")],
            |t, op, d| t.launch(op, threads(d.n), (&mut d.x, d.count)),
        ),
        Twin::new(
            File::Ops,
            name("triple"),
            vec![
                (each("x", one), |x| x.reads(Primal::None).each_element()),
                (each("out", one), writes),
                value("n"),
            ],
            // Fewer threads than elements: they go on.
            |t, op, d| t.launch(op, LaunchConfig::new(2, 33), (&d.x, &mut d.one, d.count)),
        ),
        closest::<T>(),
        Twin::new(
            File::Compositions,
            name("follow"),
            vec![
                (each("x", point), updates),
                (each("p", point), reads_all),
                value("rate"),
                value("n"),
            ],
            |t, op, d| t.launch(op, threads(d.n), (&mut d.x, &d.y, T::of(0.3), d.count)),
        ),
        Twin::new(
            File::Compositions,
            name("drift"),
            vec![
                (each("x", point), updates),
                (each("value", one), reads_all),
                (Param::buffer("cells", Element::bytes(4)).len("n"), writes),
                value("rate"),
                value("n"),
            ],
            |t, op, d| {
                let n = d.count;
                t.launch(op, threads(d.n), (&mut d.x, &d.y, &mut d.index, T::of(0.3), n))
            },
        ),
        Twin::new(
            File::Neighbors,
            name("push"),
            vec![
                (each("x", point), updates),
                (each("density", one), reads_all),
                value("by"),
                value("n"),
            ],
            |t, op, d| t.launch(op, threads(d.n), (&mut d.x, &d.y, T::of(0.3), d.count)),
        ),
    ]
}

/// The closest point of some triangles.
fn closest<T: Number>() -> Twin<T> {
    let float = if T::SUFFIX == "f32" { FloatType::F32 } else { FloatType::F64 };
    let point = Element::vector(float, 3);
    let mut twin = Twin::new(
        File::Compositions,
        format!("closest_{}", T::SUFFIX),
        vec![
            (Param::buffer("vertices", point).len("count").active(), reads),
            value("count"),
            (each("x", point), reads_all),
            (each("p", point), writes),
            (Param::buffer("answers", Element::bytes(4)).len("n"), |answers| {
                answers.overwrites().with_value(Primal::Exit)
            }),
            value("n"),
        ],
        |t, op, d| {
            if d.n < 2 {
                // There is no triangle.
                return t.copy(&d.x, &mut d.one);
            }
            let count = 3 * (d.count / 2).min(5);
            let (n, answers) = (d.count, &mut d.index);
            t.launch(op, threads(d.n), (&d.x, count, &d.y, &mut d.one, answers, n))
        },
    );
    twin.log = |launch| 9 * launch.threads() as usize;
    twin
}

/// The kernels of floats.
pub(super) fn of_floats() -> Vec<Twin<f32>> {
    let (one, point) = (Element::F32, Element::vector(FloatType::F32, 3));
    let ball = Element::vector(FloatType::F32, 4);
    let found = Element::structure(32, FloatType::F32);
    let at = Element::structure(12, FloatType::F32);
    let mut all = vec![
        Twin::new(
            File::Gradients,
            "transform",
            vec![
                (Param::buffer("rows", one).len_fixed(12).active(), reads),
                (each("q", point), reads_all),
                (each("out", point), writes),
                value("n"),
            ],
            |t, op, d| {
                if d.n < 2 {
                    // There are no twelve rows.
                    return t.copy(&d.x, &mut d.one);
                }
                t.launch(op, threads(d.n), (&d.x, &d.y, &mut d.one, d.count))
            },
        ),
        Twin::new(
            File::Gradients,
            "add_squares",
            vec![
                (each("x", one), reads_all),
                (Param::buffer("loss", one).len_fixed(1).active(), Param::accumulates),
                value("n"),
            ],
            |t, op, d| {
                if d.n == 0 {
                    return Ok(());
                }
                t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count))
            },
        ),
        Twin::new(
            File::Gradients,
            "face_points",
            vec![
                (each("found", found), |found| found.reads(Primal::None)),
                (each("out", at), |out| out.overwrites()),
                value("n"),
            ],
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count)),
        ),
        Twin::new(
            File::Gradients,
            "bend",
            vec![(each("x", point), updates), value("n")],
            |t, op, d| t.launch(op, threads(d.n), (&mut d.x, d.count)),
        ),
        Twin::new(
            File::Compositions,
            "follow_found",
            vec![
                (each("x", point), updates),
                (each("found", found), reads),
                value("rate"),
                value("n"),
            ],
            |t, op, d| t.launch(op, threads(d.n), (&mut d.x, &d.y, 0.3f32, d.count)),
        ),
        Twin::new(
            File::Bench,
            "step",
            vec![
                (each("x", point), |x| x.reads(Primal::None).each_element()),
                (each("v", point), reads_all),
                (each("x1", point), writes),
                (each("v1", point), writes),
                value("n"),
            ],
            |t, op, d| {
                let n = d.count;
                t.launch(op, threads(d.n), (&d.x, &d.y, &mut d.one, &mut d.two, n))
            },
        ),
        Twin::new(
            File::Bench,
            "energy",
            vec![
                (each("x", point), reads_all),
                (Param::buffer("loss", one).len_fixed(1).active(), Param::accumulates),
                value("n"),
            ],
            |t, op, d| {
                if d.n == 0 {
                    return Ok(());
                }
                t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count))
            },
        ),
        Twin::new(
            File::Bench,
            "saxpy",
            vec![
                number("a", one),
                (each("x", one), reads_all),
                (each("y", one), |y| y.reads(Primal::None).each_element()),
                (each("out", one), writes),
                value("n"),
            ],
            |t, op, d| t.launch(op, threads(d.n), (&d.a, &d.x, &d.y, &mut d.one, d.n)),
        ),
        Twin::new(
            File::Flight,
            "step",
            vec![
                value("world"),
                value("dt"),
                (each("from", ball), reads_all),
                (each("to", ball), writes),
                value("n"),
            ],
            |t, op, d| {
                let world = [9.81f32, 0.02, 0.1, 1.5, 0.8, 0.9];
                t.launch(op, threads(d.n), (world, 0.05f32, &d.x, &mut d.one, d.count))
            },
        ),
        Twin::new(
            File::Flight,
            "miss",
            vec![
                (Param::buffer("ball", ball).len_fixed(1).active(), reads_all),
                value("target"),
                (Param::buffer("loss", one).len_fixed(1).active(), writes),
            ],
            |t, op, d| {
                if d.n == 0 {
                    return Ok(());
                }
                t.launch(op, threads(d.n), (&d.x, [0.5f32, 0.25], &mut d.one))
            },
        ),
    ];
    let mut middles = Twin::new(
        File::Fit,
        "middles",
        vec![
            (Param::buffer("points", point).len("m").active(), |points| points.reads(Primal::None)),
            value("m"),
            (Param::buffer("faces", Element::bytes(12)).len("n"), reads),
            (each("middles", point), writes),
            value("n"),
        ],
        |t, op, d| {
            let m = d.count / 2 + 1;
            t.launch(op, threads(d.n), (&d.x, m.min(d.count), &d.faces, &mut d.one, d.count))
        },
    );
    middles.log = |launch| 9 * launch.threads() as usize;
    all.push(middles);
    all
}

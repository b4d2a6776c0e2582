//! The command line.

use std::path::PathBuf;

/// What the program was asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) compare: bool,
    /// A factor for all sizes.
    pub(crate) scale: f64,
    /// The samples of each measurement.
    pub(crate) rounds: Option<usize>,
    pub(crate) output: PathBuf,
    /// The kernels to run; all if there are none.
    names: Vec<String>,
}

const HELP: &str = "Runs kernels in Rust on the CPU and on a device, and compares the results.

Usage: rust-kernels [--compare] [--scale FACTOR] [--rounds N] [--output FOLDER] [KERNEL…]

  --compare        measures each kernel beside the same in C++ and on the CPU beside loops by hand
  --scale FACTOR   multiplies all sizes [default: 1; a software device gets small sizes anyway]
  --rounds N       samples of each measurement [default: 31; 3 on a software device]
  --output FOLDER  where the picture goes [default: target/rust-kernels]
  KERNEL           saxpy, stream, integrate, nbody, spmv, matmul, mandelbrot, raytrace, reduction, scan,
                   histogram, transpose, tiled, gemm, heat, softmax, layer_norm, sort, compact,
                   attention, ntt, bude, conv3d, jacobi2d;
                   with --compare also launch and cpu [default: all]
";

impl Arguments {
    /// Reads the command line, or ends the program with its usage.
    pub(crate) fn parse() -> Self {
        match Self::read(std::env::args().skip(1)) {
            Ok(Some(arguments)) => arguments,
            Ok(None) => {
                print!("{HELP}");
                std::process::exit(0)
            }
            Err(message) => {
                eprintln!("{message}\n\n{HELP}");
                std::process::exit(2)
            }
        }
    }

    fn read(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut read = Self {
            compare: false,
            scale: 1.0,
            rounds: None,
            output: PathBuf::from("target/rust-kernels"),
            names: Vec::new(),
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} takes a value"));
            match arg.as_str() {
                "--help" | "-h" => return Ok(None),
                "--compare" => read.compare = true,
                "--scale" => {
                    let text = value()?;
                    let scale = text.parse().ok().filter(|scale: &f64| scale.is_finite());
                    read.scale = scale
                        .filter(|scale| *scale > 0.0)
                        .ok_or_else(|| format!("--scale: {text} is no positive number"))?;
                }
                "--rounds" => {
                    let text = value()?;
                    let rounds = text.parse().ok().filter(|rounds| *rounds > 0);
                    read.rounds =
                        Some(rounds.ok_or_else(|| format!("--rounds: {text} is no number"))?);
                }
                "--output" => read.output = PathBuf::from(value()?),
                name if KERNELS.contains(&name) => read.names.push(name.to_owned()),
                other => return Err(format!("there is no argument and no kernel {other}")),
            }
        }
        Ok(Some(read))
    }

    /// Returns whether the kernel is to run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

const KERNELS: &[&str] = &[
    "saxpy",
    "stream",
    "integrate",
    "nbody",
    "spmv",
    "matmul",
    "mandelbrot",
    "raytrace",
    "reduction",
    "scan",
    "histogram",
    "transpose",
    "tiled",
    "gemm",
    "heat",
    "softmax",
    "layer_norm",
    "sort",
    "compact",
    "attention",
    "ntt",
    "bude",
    "conv3d",
    "jacobi2d",
    "launch",
    "cpu",
];

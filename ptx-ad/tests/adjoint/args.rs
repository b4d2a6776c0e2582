//! Arguments of kernels, and what is said of them.

use ptx_ad::{Param, Pointer, Real, Reals, Spec};

/// An argument of a kernel.
#[derive(Debug, Clone)]
pub(crate) enum Arg {
    /// Elements in memory.
    Buffer { bytes: Vec<u8>, size: u32, layout: Layout, active: bool, length: Option<(u32, usize)> },
    /// Bytes that are passed by value, and the numbers in them.
    Value { bytes: Vec<u8>, reals: Vec<(u32, Real)>, active: bool },
}

/// Where the numbers of an element lie.
#[derive(Debug, Clone)]
pub(crate) enum Layout {
    None,
    All(Real),
    /// Offsets in an element.
    Some(Real, Vec<u32>),
}

pub(crate) fn floats(values: &[f32]) -> Arg {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arg::Buffer { bytes, size: 4, layout: Layout::All(Real::F32), active: true, length: None }
}

pub(crate) fn doubles(values: &[f64]) -> Arg {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arg::Buffer { bytes, size: 8, layout: Layout::All(Real::F64), active: true, length: None }
}

pub(crate) fn words(values: &[u32]) -> Arg {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arg::Buffer { bytes, size: 4, layout: Layout::None, active: false, length: None }
}

pub(crate) fn word(value: u32) -> Arg {
    Arg::Value { bytes: value.to_le_bytes().to_vec(), reals: Vec::new(), active: false }
}

pub(crate) fn scalar(value: f32) -> Arg {
    Arg::Value { bytes: value.to_le_bytes().to_vec(), reals: vec![(0, Real::F32)], active: true }
}

impl Arg {
    pub(crate) fn constant(mut self) -> Self {
        match &mut self {
            Self::Buffer { active, .. } | Self::Value { active, .. } => *active = false,
        }
        self
    }

    pub(crate) fn len(mut self, factor: u32, param: usize) -> Self {
        if let Self::Buffer { length, .. } = &mut self {
            *length = Some((factor, param));
        }
        self
    }

    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Buffer { active: true, .. } | Self::Value { active: true, .. })
    }

    /// Offsets and types of the numbers whose gradients are wanted.
    pub(crate) fn numbers(&self) -> Vec<(usize, Real)> {
        match self {
            Self::Value { reals, active: true, .. } => {
                reals.iter().map(|(at, real)| (*at as usize, *real)).collect()
            }
            Self::Buffer { bytes, layout: Layout::All(real), active: true, .. } => {
                (0..bytes.len()).step_by(real.bytes() as usize).map(|at| (at, *real)).collect()
            }
            Self::Buffer { bytes, size, layout: Layout::Some(real, at), active: true, .. } => {
                let elements = (0..bytes.len()).step_by(*size as usize);
                elements
                    .flat_map(|start| at.iter().map(move |at| (start + *at as usize, *real)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns what is said of the arguments.
pub(crate) fn spec(kernel: &str, args: &[Arg]) -> Spec {
    let param = |(at, arg): (usize, &Arg)| {
        let name = format!("p{at}");
        match arg {
            Arg::Buffer { size, layout, active, length, .. } => {
                let reals = match layout {
                    Layout::None => None,
                    Layout::All(real) => Some(Reals::All(*real)),
                    Layout::Some(real, _) => Some(Reals::Some(*real)),
                };
                let (size, active, length) = (*size, *active, *length);
                let pointers = vec![Pointer { offset: 0, size, reals, active, length }];
                Param { name, pointers, ..Param::default() }
            }
            Arg::Value { reals, active, .. } => {
                Param { name, reals: reals.clone(), active: *active, ..Param::default() }
            }
        }
    };
    Spec { kernel: kernel.to_owned(), params: args.iter().enumerate().map(param).collect() }
}

/// A kernel with these parameters and this code, in a module of its own.
pub(crate) fn kernel(params: &str, code: &str) -> String {
    module("", params, code)
}

/// The same, with what stands before the kernel. Line 10 is the first of the code.
pub(crate) fn module(before: &str, params: &str, code: &str) -> String {
    let before = before.replace('\n', " ");
    format!(
        ".version 8.3\n.target sm_90\n.address_size 64\n{before}\n.visible .entry k({params})\n{{\n\
         .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %w<40>;\n\
         .reg .f32 %f<40>; .reg .f64 %d<40>;\n\n{code}\n}}\n"
    )
}

pub(crate) fn number(real: Real) -> cuda_emu::Real {
    match real {
        Real::F16 => cuda_emu::Real::F16,
        Real::Bf16 => cuda_emu::Real::Bf16,
        Real::F32 => cuda_emu::Real::F32,
        Real::F64 => cuda_emu::Real::F64,
    }
}

pub(crate) fn write(image: &mut [u8], at: usize, real: Real, value: f64) {
    match real {
        Real::F32 => image[at..at + 4].copy_from_slice(&(value as f32).to_le_bytes()),
        Real::F64 => image[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        Real::F16 | Real::Bf16 => panic!("gradients are `float`"),
    }
}

pub(crate) fn read(image: &[u8], at: usize, real: Real) -> f64 {
    match real {
        Real::F32 => f32::from_le_bytes(image[at..at + 4].try_into().expect("4 bytes")).into(),
        Real::F64 => f64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes")),
        Real::F16 | Real::Bf16 => {
            let bits = u16::from_le_bytes(image[at..at + 2].try_into().expect("2 bytes"));
            crate::half::value(real, bits)
        }
    }
}

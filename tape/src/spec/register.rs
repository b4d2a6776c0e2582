//! Compares the specification of an operation with its kernels, and orders it as launches need it.

use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

use cuda_safe::{Error, Kernel, KernelParameter, Module, Result, arg::ArgClass};

use super::op::{Detached, Inner, OpParam, OpPointer, OpScalar, Slot};
use super::param::{Param, Pointer, Shape};
use super::{Derivation, Kernels, Op, OpSpec};
use crate::element::{Element, FloatType};
use crate::frame::{ABI, Frame, Members};

/// The number of bits of a frame's masks.
const MOST_SLOTS: usize = 64;

pub(super) fn compile(
    spec: OpSpec,
    kernels: Kernels,
    derivation: Option<Arc<Derivation>>,
) -> Result<Op> {
    let name = spec.name.clone();
    let wrong = |message: String| Error::invalid(format!("`{name}`: {message}"));
    let known = parameters(&kernels.forward)?;
    if known.len() != spec.params.len() {
        let (has, said) = (known.len(), spec.params.len());
        return Err(wrong(format!("the kernel has {has} parameters, {said} are specified")));
    }
    let mut made = Made::default();
    for (index, (param, known)) in spec.params.iter().zip(&known).enumerate() {
        fits(param, known).map_err(|message| wrong(format!("`{}`: {message}", param.name)))?;
        made.add(&spec, index, param, known.size).map_err(wrong)?;
    }
    if made.slots.len() > MOST_SLOTS || made.pointers.len() > MOST_SLOTS {
        return Err(wrong(format!("more than {MOST_SLOTS} gradients or pointers")));
    }
    let sizes = |with_gradients: bool| {
        let gradients = made.slots.iter().filter(|_| with_gradients).map(|slot| match slot {
            Slot::Structure(param) => made.params.get(*param).map_or(0, |param| param.size),
            Slot::Pointer(_) | Slot::Partials(_) => 8,
        });
        let own = made.params.iter().map(|param| param.size);
        own.chain(gradients).chain([size_of::<Frame>()]).collect::<Vec<_>>()
    };
    for (kernel, sizes) in [(&kernels.adjoint, sizes(true)), (&kernels.primal, sizes(false))] {
        let Some(kernel) = kernel else { continue };
        let classes = made.params.iter().zip(&known).map(|(_, known)| known.class);
        takes(kernel, &sizes, classes.collect()).map_err(wrong)?;
    }
    let active = !made.slots.is_empty();
    if !active && kernels.adjoint.is_some() {
        return Err(wrong("it has an adjoint, but no active parameter".to_owned()));
    }
    let Made { params, pointers, scalars, slots, bytes } = made;
    let inner = Inner {
        name: spec.name,
        kernels,
        tape_bytes: spec.primal.map(|(_, bytes)| bytes),
        params,
        pointers,
        scalars,
        slots,
        bytes,
        settings: spec.settings,
        derivation,
        detached: Detached::default(),
        checked: AtomicPtr::default(),
        helpers: Arc::default(),
    };
    Ok(Op { inner: Arc::new(inner) })
}

/// Fails if a module was compiled with another version of `geom/tape.cuh`, which defines a symbol with its number.
/// Adjoints without the header have no such symbol.
pub(super) fn same_abi(module: &Module) -> Result<()> {
    if !module.has_global("geom_tape_abi")? || module.has_global(&format!("geom_tape_abi_{ABI}"))? {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the module was compiled with another version of geom/tape.cuh than the tape's, which is {ABI}"
    )))
}

fn parameters(kernel: &Kernel) -> Result<Vec<KernelParameter>> {
    kernel.parameters().ok_or_else(|| {
        Error::invalid(format!("neither the driver nor the image tells of `{}`", kernel.name()))
            .with_hint("load the module from PTX, or from an image of NVRTC, which has it")
    })
}

/// Fails unless a kernel takes parameters of these sizes, the first of them of these classes.
fn takes(kernel: &Kernel, sizes: &[usize], classes: Vec<Option<ArgClass>>) -> Result<(), String> {
    let name = kernel.name();
    let known = parameters(kernel).map_err(|error| error.to_string())?;
    if known.len() != sizes.len() {
        return Err(format!(
            "`{name}` has {} parameters; those of the kernel, gradients and the frame are {}",
            known.len(),
            sizes.len()
        ));
    }
    for (index, (known, size)) in known.iter().zip(sizes).enumerate() {
        if known.size != *size {
            let has = known.size;
            return Err(format!("parameter {index} of `{name}` has {has} bytes, not {size}"));
        }
        if let (Some(class), Some(Some(other))) = (known.class, classes.get(index))
            && class != *other
        {
            return Err(format!(
                "parameter {index} of `{name}` is {class:?}, the kernel's {other:?}"
            ));
        }
    }
    Ok(())
}

/// Fails if the declaration of a parameter does not fit the kernel.
fn fits(param: &Param, known: &KernelParameter) -> Result<(), String> {
    if param.shape != Shape::Value && param.size != known.size {
        return Err(format!("it has {} bytes in the kernel, not {}", known.size, param.size));
    }
    let number = matches!(param.shape, Shape::Scalar) && param.scalars.len() == 1;
    match (param.shape, known.class) {
        (Shape::Buffer, Some(ArgClass::Float | ArgClass::Bytes)) => {
            Err("it is no pointer".to_owned())
        }
        (Shape::Scalar, Some(ArgClass::Int)) if number => Err("it is an integer".to_owned()),
        _ => Ok(()),
    }
}

#[derive(Default)]
struct Made {
    params: Vec<OpParam>,
    pointers: Vec<OpPointer>,
    scalars: Vec<OpScalar>,
    slots: Vec<Slot>,
    bytes: usize,
}

impl Made {
    fn add(
        &mut self,
        spec: &OpSpec,
        index: usize,
        param: &Param,
        size: usize,
    ) -> Result<(), String> {
        let name = &param.name;
        let first = self.pointers.len();
        let structure = param.shape.is_structure();
        let slot = u8::try_from(self.slots.len()).unwrap_or(u8::MAX);
        for pointer in &param.pointers {
            let made = self.pointer(spec, index, param, pointer, slot)?;
            if made.slot.is_some() && !structure {
                self.slots.push(Slot::Pointer(self.pointers.len()));
            }
            self.pointers.push(made);
        }
        let pointers = first..self.pointers.len();
        if structure && param.pointers.iter().any(|pointer| pointer.active) {
            self.slots.push(Slot::Structure(index));
        }
        let mut scalar = None;
        if param.active && !param.scalars.is_empty() {
            let members = members(param, size).map_err(|message| format!("`{name}`: {message}"))?;
            scalar = Some(self.scalars.len());
            self.slots.push(Slot::Partials(self.scalars.len()));
            let real = param.scalars.iter().find_map(|(_, element)| element.real);
            let element = Element { real, mixed: true, ..Element::bytes(size) };
            // The members do not overlap, so their sizes add up.
            let all: usize = param.scalars.iter().map(|(_, element)| element.size).sum();
            let covers = all == size;
            self.scalars.push(OpScalar { param: index, element, members, covers });
        }
        let (at, is_buffer) = (self.bytes, param.shape == Shape::Buffer);
        self.bytes += size.next_multiple_of(16);
        let (name, argument) = (name.clone(), param.argument);
        self.params.push(OpParam { name, size, at, is_buffer, argument, pointers, scalar });
        Ok(())
    }

    fn pointer(
        &self,
        spec: &OpSpec,
        param: usize,
        owner: &Param,
        pointer: &Pointer,
        slot: u8,
    ) -> Result<OpPointer, String> {
        let name = &owner.name;
        let Pointer { offset, element, value, effect, covers, drops, active, .. } = *pointer;
        if element.size == 0 || offset.checked_add(8).is_none_or(|end| end > owner.size) {
            return Err(format!("`{name}`: a pointer {offset} bytes into it does not fit"));
        }
        if covers && spec.settings.dimensions > 1 && !spec.settings.grid_stride {
            return Err(format!(
                "`{name}`: whether a launch in {} dimensions covers all elements is not known, unless \
                 `OpSpec::grid_stride` says so",
                spec.settings.dimensions
            ));
        }
        if active && element.real.is_none() {
            return Err(format!("`{name}`: active, but its elements are not real numbers"));
        }
        if element.misplaced {
            return Err(format!(
                "`{name}`: a number of its elements is misaligned, outside, or behind the first 64"
            ));
        }
        let length = match &pointer.length {
            None => None,
            Some(length) => {
                let of = length.param.as_ref().map(|wanted| {
                    let named = spec.params.iter().position(|other| other.name == *wanted);
                    let is_value = |at: &usize| {
                        spec.params.get(*at).is_some_and(|param| param.shape == Shape::Value)
                    };
                    let found = named.filter(is_value);
                    found.ok_or_else(|| no_such_length(spec, name, wanted))
                });
                Some((length.factor, of.transpose()?, length.constant))
            }
        };
        let alone = owner.shape == Shape::Buffer;
        let slot = active.then_some(slot);
        Ok(OpPointer { param, offset, element, value, effect, length, covers, slot, alone, drops })
    }
}

/// Returns the message for a length that names no integer parameter, with the names that are possible.
fn no_such_length(spec: &OpSpec, name: &str, wanted: &str) -> String {
    let values = spec.params.iter().filter(|param| param.shape == Shape::Value);
    let values: Vec<String> = values.map(|param| format!("`{}`", param.name)).collect();
    let there = match &*values {
        [] => "there is none: declare it with `Param::value`".to_owned(),
        all => format!("there are {}", all.join(", ")),
    };
    format!(
        "`{name}`: the length `{wanted}` is no integer parameter ({there}); `len` takes the name of one, \
         `len_times(4, \"n\")` is for multiples and `len_fixed` for constants"
    )
}

/// Returns the offsets of the gradients of a parameter's numbers.
fn members(param: &Param, size: usize) -> Result<Members, String> {
    let mut members = Members { count: 0, at: [0; 31] };
    let widening = |element: &Element| element.real.map_or(1, FloatType::widening);
    let wide = param.scalars.first().map_or(1, |(_, element)| widening(element));
    if param.scalars.iter().any(|(_, element)| widening(element) != wide) {
        return Err("16-bit floats beside other active numbers".to_owned());
    }
    let bytes = size.saturating_mul(wide);
    if bytes > 128 {
        return Err(format!(
            "gradients of {bytes} bytes with active numbers; partial sums are 128 bytes apart"
        ));
    }
    for (number, (offset, element)) in param.scalars.iter().enumerate() {
        let double = match element.real {
            Some(FloatType::F32 | FloatType::F16 | FloatType::Bf16) => 0,
            Some(FloatType::F64) => 1,
            None => return Err("an active number must be a float".to_owned()),
        };
        let end = offset.checked_add(element.size).filter(|end| *end <= size);
        let place = usize::try_from(members.count).ok().and_then(|i| members.at.get_mut(i));
        let (Some(place), Some(_)) = (place, end) else {
            return Err("its numbers do not fit, or there are more than 31".to_owned());
        };
        let overlaps = |(at, other): &(usize, Element)| {
            *at < offset + element.size && *offset < at.saturating_add(other.size)
        };
        if param.scalars.iter().take(number).any(overlaps) {
            return Err(format!("two numbers {offset} bytes into it"));
        }
        if offset % element.size != 0 {
            return Err(format!(
                "a number {offset} bytes into it is not aligned: it must be at a multiple of {}",
                element.size
            ));
        }
        *place = u32::try_from(*offset * wide).unwrap_or(0) | double;
        members.count += 1;
    }
    Ok(members)
}

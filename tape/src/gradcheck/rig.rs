//! A launch that can be repeated at other points, with its kernel, its adjoint and its numbers.

use std::ops::Range;

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Error, LaunchConfig, Result, Stream, arg::InspectArgs};

use super::args::{Copied, Rebound, copies, no_other_memory};
use super::check::typical;
use super::list::{self, add, count, name};
use super::numbers::{self, Field, Home, Listed, Random};
use crate::element::{Element, FloatType};
use crate::record::{Chunk, Recording, Target};
use crate::record::{read as read_bytes, write as write_bytes, write_address};
use crate::spec::{Effect, Op};
use crate::tape::Tape;

/// A launch of an operation, on copies of its memory.
pub(super) struct Rig<'a, A> {
    pub(super) stream: &'a Stream,
    pub(super) op: &'a Op,
    pub(super) launch: LaunchConfig,
    args: &'a A,
    bytes: Vec<Chunk>,
    pub(super) copies: Vec<Copied>,
    pub(super) places: Vec<Option<DeviceBuffer<u8>>>,
    pub(super) inputs: Vec<Field>,
    pub(super) outputs: Vec<Field>,
    /// The numbers of all inputs as the caller gave them. Memory that the kernel only overwrites has random contents.
    pub(super) point: Vec<f64>,
    scales: Vec<f64>,
    pub(super) tape: Option<Tape>,
    pub(super) deterministic: Option<Tape>,
    /// For each copy, the type of its numbers, if it holds nothing else.
    pub(super) all_numbers: Vec<Option<FloatType>>,
}

impl<'a, A: InspectArgs> Rig<'a, A> {
    /// Checks the arguments and copies their memory. Waits.
    pub(super) fn new(
        stream: &'a Stream,
        op: &'a Op,
        launch: LaunchConfig,
        args: &'a A,
        random: &mut Random,
    ) -> Result<Self> {
        let recording = Recording::of_arguments(op, &launch, args)?;
        no_other_memory(op, &recording)?;
        list::known_numbers(op, &recording)?;
        let copies = copies(stream, &recording)?;
        let only = |copy: &Copied| list::only_numbers(&recording, copy);
        let mut rig = Self {
            stream,
            op,
            launch,
            args,
            bytes: recording.bytes.clone(),
            all_numbers: copies.iter().map(only).collect(),
            copies,
            places: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            point: Vec::new(),
            scales: Vec::new(),
            tape: None,
            deterministic: None,
        };
        rig.list_memory(&recording);
        rig.list_values()?;
        list::in_order(&mut rig.inputs);
        list::in_order(&mut rig.outputs);
        rig.fill_overwritten(random);
        rig.point = rig.numbers_now();
        rig.scales = rig.sizes();
        Ok(rig)
    }

    /// Sets all pointers to the copies, and lists the numbers behind them.
    fn list_memory(&mut self, recording: &Recording) {
        let inner = &self.op.inner;
        for used in &recording.uses {
            let Target::Pointer(pointer) = used.target else { continue };
            let is_of = |copy: &Copied| list::is_of(recording, copy, used);
            let Some(number) = self.copies.iter().position(is_of) else { continue };
            let Some(copy) = self.copies.get(number) else { continue };
            let range = list::view_of(recording, used);
            let start = used.start - copy.range.start;
            let address = copy.buffer.device_ptr() + (copy.offset + start) as u64;
            write_address(&mut self.bytes, used.patch, address);
            let Some(known) = inner.pointers.get(usize::from(pointer)) else { continue };
            let listed = Listed {
                param: known.param,
                name: name(self.op, known.param, known.offset),
                home: Home::Memory(number),
                start,
                end: start + range.len(),
                element: used.element,
                effect: used.effect,
            };
            let detached = inner.detached.pointers >> pointer & 1 == 1;
            if known.slot.is_some() && !detached {
                add(&mut self.inputs, &listed);
            }
            let written = used.effect != Effect::Reads;
            if known.slot.is_some() && written && (!detached || inner.cuts(used)) {
                add(&mut self.outputs, &listed);
            }
        }
    }

    /// Lists the numbers that are passed by value, and allocates memory that identifies each parameter.
    fn list_values(&mut self) -> Result<()> {
        let inner = &self.op.inner;
        for (index, param) in inner.params.iter().enumerate() {
            let scalar = param.scalar.filter(|at| inner.detached.scalars >> at & 1 == 0);
            let Some(known) = scalar.and_then(|at| inner.scalars.get(at)) else {
                self.places.push(None);
                continue;
            };
            self.places.push(Some(DeviceBuffer::zeroed(self.stream, param.size)?));
            let listed = Listed {
                param: index,
                name: name(self.op, index, 0),
                home: Home::Value(index),
                start: 0,
                end: param.size,
                element: Element { size: param.size, ..known.element },
                effect: Effect::Reads,
            };
            let words = known.members.at.iter().take(known.members.count as usize).map(|at| {
                let known = known.element.real.filter(|real| real.widening() > 1);
                let real = if at & 1 == 1 { FloatType::F64 } else { FloatType::F32 };
                let real = known.unwrap_or(real);
                ((at & !1) as usize / real.widening(), real)
            });
            let first = count(&self.inputs);
            self.inputs.push(Field::of_value(&listed, words.collect(), first));
        }
        Ok(())
    }

    /// Fills memory that the kernel only overwrites with random numbers.
    fn fill_overwritten(&mut self, random: &mut Random) {
        for input in self.inputs.iter().filter(|input| input.effect == Effect::Overwrites) {
            let Home::Memory(at) = input.home else { continue };
            let Some(copy) = self.copies.get_mut(at).filter(|copy| !copy.loaded) else { continue };
            for number in 0..input.count {
                let (at, real) = input.at(number);
                let value = random.sign() * (0.5 + random.fraction());
                numbers::write(&mut copy.image, at, real, value);
            }
        }
    }

    fn sizes(&self) -> Vec<f64> {
        let mut all = vec![1.0; self.point.len()];
        for input in &self.inputs {
            let (Some(values), Some(sizes)) =
                (self.point.get(input.range()), all.get_mut(input.range()))
            else {
                continue;
            };
            let typical = typical(values.iter().copied());
            for (size, value) in sizes.iter_mut().zip(values) {
                let own = if value.is_finite() { value.abs() } else { 0.0 };
                let found = own.max(typical / 8.0);
                *size = if found > 0.0 { found } else { 1.0 };
            }
        }
        all
    }

    /// Returns the largest relative rounding error of a number.
    pub(super) fn rounding(&self) -> f64 {
        let all = self.inputs.iter().chain(&self.outputs);
        all.map(Field::rounding).fold(f64::EPSILON / 2.0, f64::max)
    }

    /// Returns the largest gradient that may be lost to underflow.
    pub(super) fn tiny(&self) -> f64 {
        if self.rounding() < 1e-12 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() }
    }

    /// Returns the size of a step for each input: its own magnitude, or an eighth of a typical one.
    pub(super) fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Returns the device address of a field's first byte.
    pub(super) fn address_of(&self, field: &Field) -> Result<u64> {
        let (buffer, range) = self.memory_of(field)?;
        Ok(buffer.device_ptr() + range.start as u64)
    }

    /// Returns the offset of a parameter among the kernel's parameters, in bytes.
    pub(super) fn offset_of(&self, param: usize) -> Result<usize> {
        let (mut offset, mut size) = (0, 0);
        let kernel = self.op.kernel().as_raw();
        let sys = self.stream.context().driver().as_sys();
        // SAFETY: the kernel is loaded, and both addresses are valid for the write.
        let code =
            unsafe { sys.cuFuncGetParamInfo(kernel, param, &raw mut offset, &raw mut size) }?;
        match code {
            CUresult::CUDA_SUCCESS => Ok(offset),
            code => Err(Error::driver("cuFuncGetParamInfo", code)),
        }
    }

    /// Returns how many numbers all outputs have.
    pub(super) fn output_count(&self) -> usize {
        count(&self.outputs)
    }

    fn numbers_now(&self) -> Vec<f64> {
        let mut all = vec![0.0; count(&self.inputs)];
        for input in &self.inputs {
            let Some(into) = all.get_mut(input.range()) else { continue };
            match input.home {
                Home::Memory(at) => {
                    let image = self.copies.get(at).map_or(&[][..], |copy| &copy.image);
                    input.read(image, into);
                }
                Home::Value(param) => input.read(&self.value(param), into),
            }
        }
        all
    }

    fn value(&self, param: usize) -> Vec<u8> {
        let Some(param) = self.op.inner.params.get(param) else { return Vec::new() };
        let byte = |at| read_bytes(&self.bytes, param.at + at, 1) as u8;
        (0..param.size).map(byte).collect()
    }

    /// Sets all inputs to the numbers of a point, rounded to their types, and restores all other memory.
    pub(super) fn set(&mut self, point: &[f64]) -> Result<()> {
        for input in &self.inputs {
            let Some(values) = point.get(input.range()) else { continue };
            match input.home {
                Home::Memory(at) => {
                    let Some(copy) = self.copies.get_mut(at) else { continue };
                    for (number, value) in values.iter().enumerate() {
                        let (at, real) = input.at(number);
                        let known = numbers::read(&copy.image, at, real);
                        // The bits of a NaN do not change.
                        if known != *value && !(known.is_nan() && value.is_nan()) {
                            numbers::write(&mut copy.image, at, real, *value);
                            copy.stale = true;
                        }
                    }
                }
                Home::Value(param) => {
                    let mut image = self.value(param);
                    for (number, value) in values.iter().enumerate() {
                        let (at, real) = input.at(number);
                        numbers::write(&mut image, at, real, *value);
                    }
                    let at = self.op.inner.params.get(param).map_or(0, |param| param.at);
                    let image: Vec<_> = image.into_iter().map(std::mem::MaybeUninit::new).collect();
                    write_bytes(&mut self.bytes, at, &image);
                }
            }
        }
        for copy in self.copies.iter_mut().filter(|copy| copy.stale) {
            let place = copy.within(0..copy.image.len());
            copy.buffer.slice_mut(place)?.upload(self.stream, &copy.image)?;
            copy.stale = false;
        }
        Ok(())
    }

    /// Marks all copies as changed, so that they are uploaded again.
    pub(super) fn forget(&mut self) {
        self.copies.iter_mut().for_each(|copy| copy.stale = true);
    }

    /// Enqueues the kernel at the point that was set.
    pub(super) fn launch(&mut self) -> Result<()> {
        self.copies.iter_mut().filter(|copy| copy.written).for_each(|copy| copy.stale = true);
        // SAFETY: the promise of `OpSpec::register`: the arguments have passed the checks, and each copy is as long
        // as its original.
        unsafe { self.op.inner.kernels.forward.launch(self.stream, self.launch, self.rebound()) }
    }

    pub(super) fn rebound(&self) -> Rebound<'_, A> {
        let Self { args, op, ref bytes, ref copies, ref places, .. } = *self;
        Rebound { args, op, bytes, copies, places }
    }

    /// Returns the outputs at a point. Waits.
    pub(super) fn forward(&mut self, point: &[f64]) -> Result<Vec<f64>> {
        self.set(point)?;
        self.launch()?;
        self.results()
    }

    /// Returns the outputs in memory.
    pub(super) fn results(&self) -> Result<Vec<f64>> {
        let mut all = vec![0.0; self.output_count()];
        for (at, copy) in self.copies.iter().enumerate() {
            let mut here =
                self.outputs.iter().filter(|output| output.home == Home::Memory(at)).peekable();
            if here.peek().is_none() {
                continue;
            }
            let image = copy.buffer.slice(copy.within(0..copy.image.len()))?.to_vec(self.stream)?;
            for output in here {
                if let Some(into) = all.get_mut(output.range()) {
                    output.read(&image, into);
                }
            }
        }
        Ok(all)
    }

    /// Returns the memory of a field, or the memory that identifies it.
    pub(super) fn memory_of(&self, field: &Field) -> Result<(&DeviceBuffer<u8>, Range<usize>)> {
        let lost = || Error::invalid("a parameter has no memory");
        match field.home {
            Home::Memory(at) => {
                let copy = self.copies.get(at).ok_or_else(lost)?;
                Ok((&copy.buffer, copy.within(field.start..field.end)))
            }
            Home::Value(param) => {
                let place = self.places.get(param).and_then(Option::as_ref).ok_or_else(lost)?;
                Ok((place, 0..place.size_bytes()))
            }
        }
    }
}

//! `suld`, `sust`, `sured`.

use std::sync::Arc;

use super::access::{Access, Outside, What};
use crate::exec::check::watch::{READ, STRONG, WRITE};
use crate::exec::decode::Class;
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, SLOT_NONE, lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::GLOBAL;
use crate::exec::memory::atomic::update;
use crate::exec::memory::element::{load_bytes, store_bytes};
use crate::exec::tangent::Register;
use crate::texture::{Channel, Format, Image, Object, pack};

/// Where an access of a surface is.
enum Spot {
    At(u64),
    /// Outside: a load gives zeros, a store does nothing.
    Nowhere,
    /// Outside, which ends the launch.
    Wrong(String),
}

/// Finds `bytes` bytes at the coordinates: x in bytes, or in texels.
fn spot(
    image: &Image,
    at: [u32; 3],
    layer: u32,
    bytes: u64,
    in_texels: bool,
    outside: Outside,
) -> Spot {
    let Some(level) = image.levels.first() else { return Spot::Nowhere };
    let texel = image.format.bytes();
    let at = at.map(|coordinate| i64::from(coordinate as i32));
    let x = if in_texels { at[0] * texel as i64 } else { at[0] };
    let [width, height, depth] = level.size.map(i64::from);
    let row = width * texel as i64;
    let layers = i64::from(image.layers.max(1));
    // Along an axis: the coordinate, how many there are, and whether the image has the axis.
    let bytes = bytes as i64;
    let mut place = [
        (x, (row - bytes).max(0) & !(bytes - 1), true),
        (at[1], height - 1, image.dimensions > 1),
        (at[2], depth - 1, image.dimensions > 2),
        (i64::from(layer), layers - 1, image.layered || image.cube),
    ];
    for (coordinate, last, used) in &mut place {
        if !*used {
            *coordinate = 0;
        } else if !(0..=*last).contains(coordinate) {
            match outside {
                Outside::Zero => return Spot::Nowhere,
                Outside::Clamp => *coordinate = (*coordinate).clamp(0, (*last).max(0)),
                Outside::Trap => {
                    return Spot::Wrong(format!(
                        "({}, {}, {}) of layer {layer} is outside of the surface, which has {row} bytes in {height} rows \
                         and {depth} slices, and {layers} layers",
                        at[0], at[1], at[2]
                    ));
                }
            }
        }
    }
    if row < bytes {
        return Spot::Nowhere;
    }
    let [(x, ..), (y, ..), (z, ..), (layer, ..)] = place;
    let slice = if image.dimensions == 3 { z } else { layer };
    Spot::At(level.at(x as u64, y as u64, slice as u64, 1))
}

impl Machine<'_> {
    /// # Safety
    /// The access is of registers of the current function.
    pub(super) unsafe fn surface(&mut self, access: &Access, mask: u32) -> Flow {
        // SAFETY: the caller's promise.
        let handles = *unsafe { self.lanes::<u64>(access.object) };
        let mut known: Option<(u64, Arc<Object>)> = None;
        let writes = !matches!(access.what, What::Load(..));
        for lane in lanes(mask) {
            let handle = handles[lane];
            if known.as_ref().is_none_or(|(known, _)| *known != handle) {
                let Some(object) = self.object(handle) else {
                    return self.no_object(access, lane, handle, "surface");
                };
                if let Object::Surface(image) = &*object
                    && !(self.image_is_there(access, lane, image, writes)
                        && self.fits(access, lane, image))
                {
                    return Flow::Fault;
                }
                known = Some((handle, object));
            }
            let Some((_, object)) = &known else { return Flow::Fault };
            let Object::Surface(image) = &**object else {
                return self.no_object(access, lane, handle, "surface");
            };
            // SAFETY: the caller's promise.
            let done = unsafe { self.surface_lane(access, image, lane) };
            if let Err((code, why)) = done {
                return self.fail(code, lane, format!("{}: {why}", access.opcode));
            }
        }
        Flow::Next
    }

    /// Carries the marks of approximate values between the registers and the memory.
    ///
    /// # Safety
    /// The access is of registers of the current function.
    unsafe fn carry_marks(&mut self, access: &Access, format: Format, lane: usize, address: u64) {
        if !self.reached.live() {
            return;
        }
        let (bytes, count) = match access.what {
            What::Load(bytes, _) | What::Store(bytes, _) | What::Reduce(bytes, ..) => {
                (bytes, access.values.len())
            }
            _ => (format.channel.bytes(), format.channels as usize),
        };
        for (number, &(slot, class)) in (0..).zip(access.values.iter().take(count)) {
            let (register, address) = (Register { slot, class }, address + number * bytes);
            // SAFETY: the caller's promise; the sink is no register.
            unsafe {
                match access.what {
                    What::Load(..) if slot == SLOT_NONE || !self.is_marked(address, bytes) => {}
                    What::Load(..) => self.seed(&[register], 1 << lane),
                    What::Reduce(..) => self.mark_memory(register, lane, (address, bytes), true),
                    _ => self.mark_memory(register, lane, (address, bytes), false),
                }
            }
        }
    }

    /// # Safety
    /// The access is of registers of the current function, and the image's memory is live.
    unsafe fn surface_lane(
        &mut self,
        access: &Access,
        image: &Image,
        lane: usize,
    ) -> Result<(), (Code, String)> {
        // SAFETY: the caller's promise, here and in the rest.
        let word = |m: &Self, slot: u32| unsafe { m.lanes::<u32>(slot)[lane] };
        let at = access.at.map(|slot| word(self, slot));
        let layer = word(self, access.layer);
        let format = image.format;
        let count = access.values.len() as u64;
        let (bytes, outside, in_texels) = match access.what {
            What::Load(bytes, outside) | What::Store(bytes, outside) => {
                (bytes * count, outside, false)
            }
            What::Pack(outside) => (format.bytes(), outside, true),
            What::Reduce(bytes, _, outside, in_texels) => (bytes, outside, in_texels),
            _ => return Ok(()),
        };
        if in_texels && bytes != format.bytes() {
            let why = format!("it is for {bytes} bytes, and a texel has {}", format.bytes());
            return Err((Code::IllegalAddress, why));
        }
        if !in_texels && u64::from(at[0]) & (bytes - 1) != 0 {
            let why = format!("byte {} is no multiple of {bytes}", at[0] as i32);
            return Err((Code::Misaligned, why));
        }
        let spot = spot(image, at, layer, bytes, in_texels, outside);
        let address = match spot {
            Spot::At(address) => Some(address),
            Spot::Nowhere => None,
            Spot::Wrong(why) => return Err((Code::IllegalAddress, why)),
        };
        if let Some(address) = address {
            let how = match access.what {
                What::Reduce(..) => READ | WRITE | STRONG,
                What::Load(..) => READ,
                _ => WRITE,
            };
            self.watch_one(GLOBAL, lane, address, bytes, how);
            // SAFETY: the caller's promise.
            unsafe { self.carry_marks(access, format, lane, address) };
        }
        match access.what {
            What::Load(element, _) => {
                for (number, &(slot, class)) in (0..).zip(&access.values) {
                    let value = match address {
                        // SAFETY: the bytes lie in the image, aligned: rows begin at multiples of 32 bytes, x at one of the access's size.
                        Some(address) => unsafe { load_bytes(address + number * element, element) },
                        None => 0,
                    };
                    // SAFETY: the slot is a register of its class.
                    unsafe {
                        match class {
                            Class::Wide => self.lanes_mut::<u64>(slot)[lane] = value,
                            _ => self.lanes_mut::<u32>(slot)[lane] = value as u32,
                        }
                    }
                }
            }
            What::Store(element, _) => {
                let Some(address) = address else { return Ok(()) };
                for (number, &(slot, class)) in (0..).zip(&access.values) {
                    // SAFETY: the slot is a register of its class, and the bytes lie in the image, aligned as above.
                    unsafe {
                        let value = match class {
                            Class::Wide => self.lanes::<u64>(slot)[lane],
                            _ => self.lanes::<u32>(slot)[lane].into(),
                        };
                        store_bytes(address + number * element, element, value);
                    }
                }
            }
            What::Pack(_) => {
                let Some(address) = address else { return Ok(()) };
                let element = format.channel.bytes();
                let channels = format.channels as usize;
                for (number, &(slot, class)) in (0..).zip(access.values.iter().take(channels)) {
                    let value = match class {
                        // SAFETY: the slot is a register of its class.
                        Class::Wide => unsafe { self.lanes::<u64>(slot)[lane] as u32 },
                        _ => word(self, slot),
                    };
                    let value = pack(format.channel, value);
                    // SAFETY: the bytes lie in the image, aligned: rows begin at multiples of 32 bytes, x at one of the access's size.
                    unsafe { store_bytes(address + number * element, element, value.into()) };
                }
            }
            What::Reduce(element, [operation, of_signed], ..) => {
                let signed = matches!(format.channel, Channel::S8 | Channel::S16 | Channel::S32);
                let operation = if signed { of_signed } else { operation };
                let (Some(address), Some(&(slot, class))) = (address, access.values.first()) else {
                    return Ok(());
                };
                // SAFETY: the slot is a register of its class, and the bytes lie in the image, aligned as above.
                unsafe {
                    let value = match class {
                        Class::Wide => self.lanes::<u64>(slot)[lane],
                        _ => self.lanes::<u32>(slot)[lane].into(),
                    };
                    update(address, element, operation, value);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

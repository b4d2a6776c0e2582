//! `tex`, `tld4`, `istypep`, and the way to the accesses of surfaces.

use std::sync::Arc;

use super::access::{Access, Result, What};
use crate::arith::{F16, RN};
use crate::exec::check::watch::READ;
use crate::exec::decode::Class;
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::GLOBAL;
use crate::exec::memory::resolve::Wanted;
use crate::texture::{Fetch, Lod, Object, sample};

/// The instruction number imm of the function's textures.
pub(crate) struct Textures;
impl Lanes for Textures {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let code = m.code;
        let Some(access) = code.textures.get(i.imm as usize) else { return Flow::Next };
        // SAFETY: the decoder has made the access of registers of this function.
        unsafe {
            match access.what {
                What::Fetch(result) => m.fetch(access, None, result, mask),
                What::Gather(component, result) => m.fetch(access, Some(component), result, mask),
                What::Is(texture) => m.is_kind(access, texture, mask),
                _ => m.surface(access, mask),
            }
        }
    }
}

impl Machine<'_> {
    /// # Safety
    /// The access is of registers of the current function.
    unsafe fn is_kind(&mut self, access: &Access, texture: bool, mask: u32) -> Flow {
        // SAFETY: the caller's promise.
        let handles = unsafe { self.lanes::<u64>(access.object) };
        let mut bits = 0;
        for lane in lanes(mask) {
            let is = match self.object(handles[lane]).as_deref() {
                Some(Object::Texture(_)) => texture,
                Some(Object::Surface(_)) => !texture,
                None => false,
            };
            bits |= u32::from(is) << lane;
        }
        if let Some(&(slot, _)) = access.values.first() {
            // SAFETY: the caller's promise.
            unsafe { self.put_pred(slot, bits, mask) };
        }
        Flow::Next
    }

    /// # Safety
    /// The access is of registers of the current function.
    unsafe fn fetch(
        &mut self,
        access: &Access,
        gather: Option<u8>,
        result: Result,
        mask: u32,
    ) -> Flow {
        // SAFETY: the caller's promise, here and in the rest.
        let word = |m: &Self, slot: u32, lane: usize| unsafe { m.lanes::<u32>(slot)[lane] };
        // SAFETY: as above.
        let handles = unsafe { self.lanes::<u64>(access.object) };
        let mut known: Option<(u64, Arc<Object>)> = None;
        let (mut approximate, mut marked, mut words) = (0_u32, 0_u32, [[0_u32; 4]; 32]);
        let mut seen = Vec::new();
        for lane in lanes(mask) {
            let handle = handles[lane];
            if known.as_ref().is_none_or(|(known, _)| *known != handle) {
                let Some(object) = self.object(handle) else {
                    return self.no_object(access, lane, handle, "texture");
                };
                if let Object::Texture(texture) = &*object
                    && !(self.image_is_there(access, lane, &texture.image, false)
                        && self.fits(access, lane, &texture.image))
                {
                    return Flow::Fault;
                }
                known = Some((handle, object));
            }
            let Some((_, object)) = &known else { return Flow::Fault };
            let Object::Texture(texture) = &**object else {
                return self.no_object(access, lane, handle, "texture");
            };
            let float = |slot: u32| f32::from_bits(word(self, slot, lane));
            let lod = match (gather, access.level, &access.gradient) {
                (Some(component), ..) => Lod::Gather(component),
                (_, Some(level), _) => Lod::Level(float(level)),
                (_, _, Some([dx, dy])) => Lod::Gradient(dx.map(float), dy.map(float)),
                _ => Lod::Base,
            };
            let [x, y, z] = access.at;
            let fetch = Fetch {
                at: [word(self, x, lane), word(self, y, lane), word(self, z, lane)],
                integers: access.integers,
                layer: word(self, access.layer, lane),
                lod,
            };
            seen.clear();
            let watched = self.block.check.is_some() || self.reached.live();
            let mut outside = None;
            let (start, end) = (texture.image.region.0, texture.image.end);
            let mut see = |address: u64, bytes: u64| {
                let inside =
                    address >= start && address.checked_add(bytes).is_some_and(|last| last <= end);
                if watched && inside {
                    seen.push((address, bytes));
                }
                if !inside {
                    outside = Some((address, bytes));
                }
                inside
            };
            // SAFETY: the image's region was found in the table just now, and `see` compares with it.
            let sample = unsafe { sample(texture, &fetch, &mut see) };
            if let Some((address, bytes)) = outside {
                let want = Wanted { bytes, align: 1, write: false };
                let why = format!(
                    "{}: the texture is larger than its memory: {}",
                    access.opcode,
                    self.space.describe(address)
                );
                return self.fail_access(Code::IllegalAddress, lane, address, GLOBAL, want, &why);
            }
            for &(address, bytes) in &seen {
                self.watch_one(GLOBAL, lane, address, bytes, READ);
                marked |= u32::from(self.is_marked(address, bytes)) << lane;
            }
            words[lane] = sample.words;
            approximate |= u32::from(sample.approximate) << lane;
        }
        for lane in lanes(mask) {
            let half = |word: u32| u32::from(F16::from_f32::<RN>(f32::from_bits(word)));
            let words = words[lane];
            let values = match result {
                Result::Words => words,
                Result::Halves => words.map(half),
                Result::Packed => {
                    let [x, y, z, w] = words.map(half);
                    [x | y << 16, z | w << 16, 0, 0]
                }
            };
            for (&(slot, class), value) in access.values.iter().zip(values) {
                // SAFETY: the slots are registers of their class.
                unsafe {
                    match class {
                        Class::Wide => self.lanes_mut::<u64>(slot)[lane] = value.into(),
                        _ => self.lanes_mut::<u32>(slot)[lane] = value,
                    }
                }
            }
        }
        if let Some(count) = access.counter.and_then(|at| self.counts.get_mut(at as usize)) {
            *count += u64::from(approximate.count_ones());
        }
        if approximate | marked != 0 {
            // SAFETY: the registers are of the current function.
            unsafe { self.seed(&access.marked, approximate | marked) };
        }
        Flow::Next
    }
}

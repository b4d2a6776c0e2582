//! `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`: the whole warp together.

use ptx::ir::Layout;

use crate::exec::check::watch::{READ, WRITE};
use crate::exec::control::sync::Meeting;
use crate::exec::inst::{FULL, Flow, Inst, LANES, Lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::element::{Mem, U8};
use crate::exec::memory::resolve::{Wanted, addresses};
use crate::matrix::{Product, Tile, ldmatrix, movmatrix, stmatrix};

/// A matrix instruction's constants.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Constants {
    Product(Product),
    Fragment { tile: Tile, layout: Layout },
}

/// Waits for the whole warp: slot `f` holds the mask of all lanes.
macro_rules! whole_warp {
    ($m:ident, $slot:expr, $mask:ident) => {
        // SAFETY: the decoder has put a 32-bit constant there.
        match unsafe { $m.meet($slot, $mask) } {
            Meeting::Together(FULL) => {}
            Meeting::Together(there) => {
                let lane = (!there).trailing_zeros() as usize;
                let text = "a matrix instruction without all lanes of the warp".to_owned();
                return $m.fail(crate::exec::fault::Code::IllegalInstruction, lane, text);
            }
            Meeting::Wait(flow) => return flow,
        }
    };
}

/// Returns the bits of a register in a lane.
///
/// # Safety
/// The slot is a register of 64 (`wide`) or 32 bits.
unsafe fn bits(m: &Machine<'_>, slot: u32, wide: bool, lane: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { if wide { m.lanes::<u64>(slot)[lane] } else { m.lanes::<u32>(slot)[lane].into() } }
}

/// Sets a register in a lane.
///
/// # Safety
/// As for [`bits`].
unsafe fn set(m: &mut Machine<'_>, slot: u32, wide: bool, lane: usize, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if wide {
            m.lanes_mut::<u64>(slot)[lane] = value;
        } else {
            m.lanes_mut::<u32>(slot)[lane] = value as u32;
        }
    }
}

/// `mma` and `wmma.mma`: lists of the registers of d, a, b, c in slots d, a, b, c; imm numbers the
/// constants, bit 32 says 64-bit registers; the mask is in slot f. The rule of tangents, if they are tracked, is the
/// one before `e`.
pub(crate) struct Mma;
impl Lanes for Mma {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        whole_warp!(m, i.f, mask);
        let code = m.code;
        let Some(Constants::Product(product)) = code.matrices.get(i.imm as u32 as usize) else {
            return Flow::Next;
        };
        let wide = i.imm >> 32 != 0;
        let (d, a, b, c) = (m.list(i.d), m.list(i.a), m.list(i.b), m.list(i.c));
        if code.shadow != 0 {
            // SAFETY: the lists hold registers of this width.
            unsafe {
                m.product_tangents(u64::from(i.e).wrapping_sub(1), product, (d, a, b, c), wide);
            }
        }
        let mut results = Vec::with_capacity(d.len() * LANES);
        {
            let m = &*m;
            // SAFETY: the lists hold registers of this width.
            let of = |list: &[u32], register: usize, lane: usize| unsafe {
                list.get(register).map_or(0, |&slot| bits(m, slot, wide, lane))
            };
            product.run(
                |register, lane| of(a, register, lane),
                |register, lane| of(b, register, lane),
                |register, lane| of(c, register, lane),
                |register, lane, value| results.push((register, lane, value)),
            );
        }
        for (register, lane, value) in results {
            if let Some(&slot) = d.get(register) {
                // SAFETY: the list holds registers of this width.
                unsafe { set(m, slot, wide, lane, value) };
            }
        }
        Flow::Next
    }
}

/// `wmma.load` and, with bit 33 of imm, `wmma.store`: the address in slot a, the stride in slot b,
/// the registers in the list in slot d, constants as in [`Mma`].
pub(crate) struct Fragment;
impl Lanes for Fragment {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let &[mask_slot, stride_slot, offset_low, offset_high] = m.list(i.e) else {
            return Flow::Next;
        };
        whole_warp!(m, mask_slot, mask);
        let code = m.code;
        let number = i.b as usize;
        let Some(Constants::Fragment { tile, layout }) = code.matrices.get(number) else {
            return Flow::Next;
        };
        let store = i.d & (1 << 31) != 0;
        let registers = m.list(i.d & !(1 << 31));
        let offset = u64::from(offset_low) | u64::from(offset_high) << 32;
        let space = (i.c >> 16) as u8;
        // SAFETY: the decoder has set slot c by slot a.
        let base = unsafe { addresses(m, &Inst { imm: offset, ..*i }) };
        let wide = tile.bits == 64;
        let bytes = u64::from(tile.bits / 8);
        for (lane, &start) in base.iter().enumerate() {
            // SAFETY: the stride has 32 bits.
            let stride = u64::from(unsafe { m.lanes::<u32>(stride_slot)[lane] });
            for (register, &slot) in registers.iter().enumerate() {
                let mut value = match store {
                    // SAFETY: the list holds registers of this width.
                    true => unsafe { bits(m, slot, wide, lane) },
                    false => 0,
                };
                for element in 0..tile.per_register {
                    let (row, column) = tile.place(lane, register, element);
                    let at = Tile::offset(*layout, stride, row, column);
                    let address = start.wrapping_add(at.wrapping_mul(bytes));
                    let want = Wanted { bytes, align: bytes, write: store };
                    let host = match m.locate(i, space, lane, address, want) {
                        Ok(host) => host,
                        Err((code, why)) => {
                            return m.fail_access(code, lane, address, space, want, &why);
                        }
                    };
                    m.watch_one(space, lane, address, bytes, if store { WRITE } else { READ });
                    if code.shadow != 0 {
                        // SAFETY: the list holds registers of this width.
                        unsafe {
                            m.fragment_tangents(
                                (slot, wide),
                                (lane, element),
                                (host, bytes),
                                store,
                            );
                        }
                    }
                    let shift = element as u32 * tile.bits;
                    for byte in 0..bytes {
                        let shift = shift + 8 * byte as u32;
                        // SAFETY: the bytes were checked.
                        unsafe {
                            if store {
                                U8::store(host + byte, value >> shift);
                            } else {
                                value |= U8::load(host + byte) << shift;
                            }
                        }
                    }
                }
                if !store {
                    // SAFETY: the list holds registers of this width.
                    unsafe { set(m, slot, wide, lane, value) };
                }
            }
        }
        Flow::Next
    }
}

/// `ldmatrix` and `stmatrix` (bit 1 of slot b; bit 0: transposed): rows at the addresses of eight
/// lanes for each matrix, the registers in the list in slot d, the mask in slot e.
pub(crate) struct Rows;
impl Lanes for Rows {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        whole_warp!(m, i.e, mask);
        let (trans, store) = (i.b & 1 != 0, i.b & 2 != 0);
        let space = (i.c >> 16) as u8;
        // SAFETY: the decoder has set slot c by slot a.
        let base = unsafe { addresses(m, i) };
        let mut loaded = Vec::with_capacity(4);
        for (matrix, &slot) in m.list(i.d).iter().enumerate() {
            let mut rows = [[0u8; 16]; 8];
            let mut hosts = [0; 8];
            if store {
                // SAFETY: the list holds 32-bit registers.
                rows = stmatrix(unsafe { m.lanes::<u32>(slot) }, trans);
            }
            for (row, data) in rows.iter_mut().enumerate() {
                let lane = matrix * 8 + row;
                let want = Wanted { bytes: 16, align: 16, write: store };
                let host = match m.locate(i, space, lane, base[lane & 31], want) {
                    Ok(host) => host,
                    Err((code, why)) => {
                        return m.fail_access(code, lane, base[lane & 31], space, want, &why);
                    }
                };
                m.watch_one(space, lane, base[lane & 31], 16, if store { WRITE } else { READ });
                hosts[row] = host;
                for (at, byte) in data.iter_mut().enumerate() {
                    // SAFETY: the bytes were checked.
                    unsafe {
                        if store {
                            U8::store(host + at as u64, (*byte).into());
                        } else {
                            *byte = U8::load(host + at as u64) as u8;
                        }
                    }
                }
            }
            if m.code.shadow != 0 && store {
                // SAFETY: the list holds 32-bit registers.
                unsafe { m.row_tangents(slot, &hosts, trans, true) };
            }
            if !store {
                loaded.push((slot, hosts, ldmatrix(&rows, trans)));
            }
        }
        for (slot, hosts, values) in loaded {
            // SAFETY: the list holds 32-bit registers.
            unsafe {
                if m.code.shadow != 0 {
                    m.row_tangents(slot, &hosts, trans, false);
                }
                *m.lanes_mut::<u32>(slot) = values;
            }
        }
        Flow::Next
    }
}

/// `movmatrix`: slot a transposed; the mask in slot e.
pub(crate) struct Transpose;
impl Lanes for Transpose {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        whole_warp!(m, i.e, mask);
        // SAFETY: a and d are 32-bit registers.
        unsafe {
            if m.code.shadow != 0 {
                m.transpose_tangents(i.d, i.a);
            }
            let moved = movmatrix(m.lanes::<u32>(i.a));
            *m.lanes_mut::<u32>(i.d) = moved;
        }
        Flow::Next
    }
}

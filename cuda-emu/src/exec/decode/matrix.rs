//! Matrix instructions.

use ptx::ir::{Address, Dst, Layout, Op, Operand, Shape, Space, Type};

use super::data::space_code;
use super::memory::place_bits;
use super::{Class, Decoder, Refusal};
use crate::exec::inst::Inst;
use crate::exec::ops::matrix::{Constants, Fragment, Mma, Rows, Transpose};
use crate::matrix::{Product, Role, Tile};

/// A transfer between a fragment and memory.
struct Moved<'a> {
    role: Role,
    layout: Layout,
    shape: Shape,
    space: Space,
    ty: Type,
    addr: &'a Address,
    stride: Option<&'a Operand>,
    store: bool,
}

impl Decoder<'_, '_> {
    fn dst_list(&mut self, d: &[Dst], class: Class) -> Result<u32, Refusal> {
        let slots: Result<Vec<u32>, _> = d.iter().map(|&d| self.dst(d, class)).collect();
        Ok(self.list(&slots?))
    }

    fn src_list(&mut self, a: &[Operand], class: Class) -> Result<u32, Refusal> {
        let slots: Result<Vec<u32>, _> = a.iter().map(|a| self.src(a, class)).collect();
        Ok(self.list(&slots?))
    }

    fn all_lanes(&mut self) -> u32 {
        self.constant(Class::Narrow, u64::from(u32::MAX))
    }

    /// Decodes matrix instructions. False if the instruction is none.
    pub(super) fn matrix(&mut self, op: &Op) -> Result<bool, Refusal> {
        match op {
            Op::Mma(mma) => {
                let Shape { m, n, k } = mma.shape;
                let product = Product::new(mma).ok_or_else(|| {
                    let name = if mma.wmma { "wmma.mma" } else { "mma" };
                    format!(
                        "{name}.m{m}n{n}k{k}.{}.{}.{}.{}",
                        mma.d_ty, mma.a_ty, mma.b_ty, mma.c_ty
                    )
                })?;
                let wide = mma.a_ty == Type::F64;
                let class = if wide { Class::Wide } else { Class::Narrow };
                let (d, a) = (self.dst_list(&mma.d, class)?, self.src_list(&mma.a, class)?);
                let (b, c) = (self.src_list(&mma.b, class)?, self.src_list(&mma.c, class)?);
                let f = self.all_lanes();
                let imm = self.code.matrices.len() as u64 | u64::from(wide) << 32;
                self.code.matrices.push(Constants::Product(product));
                // 0 says that there is no rule.
                let e = self.own_rule().wrapping_add(1) as u32;
                let inst = self.inst(self.pick::<Mma>());
                self.emit(Inst { d, a, b, c, e, f, imm, ..inst });
            }
            Op::WmmaLoad { fragment, layout, shape, space, ty, d, addr, stride } => {
                let moved = Moved {
                    role: Role::from(*fragment),
                    layout: *layout,
                    shape: *shape,
                    space: *space,
                    ty: *ty,
                    addr,
                    stride: stride.as_ref(),
                    store: false,
                };
                let class = Class::of(*ty);
                let class = if class == Class::Wide { class } else { Class::Narrow };
                let list = self.dst_list(d, class)?;
                self.fragment(&moved, list)?;
            }
            Op::WmmaStore { layout, shape, space, ty, addr, a, stride } => {
                let moved = Moved {
                    role: Role::C,
                    layout: *layout,
                    shape: *shape,
                    space: *space,
                    ty: *ty,
                    addr,
                    stride: stride.as_ref(),
                    store: true,
                };
                let class = Class::of(*ty);
                let class = if class == Class::Wide { class } else { Class::Narrow };
                let list = self.src_list(a, class)?;
                self.fragment(&moved, list)?;
            }
            Op::Ldmatrix { shape, trans, space, ty, d, addr } => {
                rows(*shape, *space, *ty)?;
                let d = self.dst_list(d, Class::Narrow)?;
                self.rows_inst(*space, addr, d, u32::from(*trans))?;
            }
            Op::Stmatrix { shape, trans, space, ty, addr, a } => {
                rows(*shape, *space, *ty)?;
                let d = self.src_list(a, Class::Narrow)?;
                self.rows_inst(*space, addr, d, 2 | u32::from(*trans))?;
            }
            Op::Movmatrix { d, a } => {
                let (a, d) = (self.src(a, Class::Narrow)?, self.dst(*d, Class::Narrow)?);
                let e = self.all_lanes();
                let inst = self.inst(self.pick::<Transpose>());
                self.emit(Inst { d, a, e, ..inst });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn fragment(&mut self, moved: &Moved<'_>, list: u32) -> Result<(), Refusal> {
        let Shape { m, n, k } = moved.shape;
        let tile = Tile::wmma(moved.role, moved.shape, moved.ty)
            .ok_or_else(|| format!("wmma.load or store of m{m}n{n}k{k}.{}", moved.ty))?;
        let default = Operand::Imm(tile.default_stride(moved.layout));
        let stride = self.src(moved.stride.unwrap_or(&default), Class::Narrow)?;
        let (a, narrow, offset) = self.address(moved.addr, moved.space)?;
        let mask = self.all_lanes();
        let e = self.list(&[mask, stride, offset as u32, (offset >> 32) as u32]);
        let b = self.code.matrices.len() as u32;
        self.code.matrices.push(Constants::Fragment { tile, layout: moved.layout });
        let (f, c) = (self.site(), place_bits(space_code(moved.space)?, narrow));
        let d = list | u32::from(moved.store) << 31;
        let inst = self.inst(self.pick::<Fragment>());
        self.emit(Inst { d, a, b, c, e, f, ..inst });
        Ok(())
    }

    fn rows_inst(&mut self, space: Space, addr: &Address, d: u32, b: u32) -> Result<(), Refusal> {
        let (a, narrow, imm) = self.address(addr, space)?;
        let e = self.all_lanes();
        let (f, c) = (self.site(), place_bits(space_code(space)?, narrow));
        let inst = self.inst(self.pick::<Rows>());
        self.emit(Inst { d, a, b, c, e, f, imm, ..inst });
        Ok(())
    }
}

/// Checks whether there is such an `ldmatrix` or `stmatrix`.
fn rows(shape: Shape, space: Space, ty: Type) -> Result<(), Refusal> {
    let Shape { m, n, .. } = shape;
    if (m, n) != (8, 8) || ty != Type::B16 {
        return Err(format!("ldmatrix or stmatrix of m{m}n{n}.{space}.{ty}"));
    }
    Ok(())
}

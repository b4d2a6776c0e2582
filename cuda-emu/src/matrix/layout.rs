//! Fragment layouts: element of a matrix ↔ lane, register, element within the register.

use ptx::ir::{Fragment, Layout, Shape, Type};

use super::LANES;

/// The role of a fragment in `D = A * B + C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// m rows, k columns.
    A,
    /// k rows, n columns.
    B,
    /// C or D: m rows, n columns.
    C,
}

impl From<Fragment> for Role {
    fn from(fragment: Fragment) -> Self {
        match fragment {
            Fragment::A => Self::A,
            Fragment::B => Self::B,
            _ => Self::C,
        }
    }
}

/// How one matrix is spread over the registers of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Rows of the matrix.
    pub(crate) rows: usize,
    /// Its columns.
    pub(crate) columns: usize,
    /// Bits of an element.
    pub(crate) bits: u32,
    /// Elements in a register of 32 bits (64 for f64); element 0 is the least significant.
    pub(crate) per_register: usize,
    /// Registers of a lane.
    pub(crate) registers: usize,
    kind: Kind,
}

/// The rule that places elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The operands of `mma.sync`.
    Mma(Role),
    /// A `wmma` fragment: elements in row-major order, lane after lane.
    Wmma,
}

/// Bits of an element of a matrix; `None` for a type that matrices are not made of.
fn element_bits(ty: Type) -> Option<u32> {
    Some(match ty {
        Type::B1 => 1,
        Type::S4 | Type::U4 => 4,
        Type::S8 | Type::U8 | Type::E4m3 | Type::E5m2 => 8,
        Type::F16 | Type::Bf16 => 16,
        Type::Tf32 | Type::F32 | Type::S32 => 32,
        Type::F64 => 64,
        _ => return None,
    })
}

impl Tile {
    /// Returns an operand of `mma.sync`; `None` if its registers would not be full. f16 accumulators lie two to a
    /// register, other accumulators one.
    #[must_use]
    pub(crate) fn mma(role: Role, shape: Shape, ty: Type) -> Option<Self> {
        let bits = element_bits(ty)?;
        let (rows, columns) = size(role, shape);
        let per_register = if bits == 64 { 1 } else { 32 / bits as usize };
        let registers = whole(rows * columns, LANES * per_register)?;
        Some(Self { rows, columns, bits, per_register, registers, kind: Kind::Mma(role) })
    }

    /// Returns a fragment of `wmma`. Fragments of f16 A and B have 8 registers whatever their size: the elements of a
    /// small one are repeated.
    #[must_use]
    pub(crate) fn wmma(role: Role, shape: Shape, ty: Type) -> Option<Self> {
        let bits = element_bits(ty).filter(|&bits| bits >= 8)?;
        let (rows, columns) = size(role, shape);
        let per_register = if bits == 64 { 1 } else { 32 / bits as usize };
        let registers = if role != Role::C && ty == Type::F16 {
            8
        } else {
            whole(rows * columns, LANES * per_register)?
        };
        Some(Self { rows, columns, bits, per_register, registers, kind: Kind::Wmma })
    }

    /// Returns the row and column of an element.
    #[inline]
    #[must_use]
    pub(crate) fn place(&self, lane: usize, register: usize, element: usize) -> (usize, usize) {
        let (group, in_group) = (lane / 4, lane % 4);
        let each = self.per_register;
        match self.kind {
            Kind::Wmma => {
                let index = (lane * self.registers + register) * each + element;
                (index / self.columns % self.rows, index % self.columns)
            }
            // With 16 rows, odd registers hold the lower eight. Four lanes share a row, with one register each; the
            // next registers continue to the right.
            Kind::Mma(Role::A) if self.rows == 16 => {
                (group + 8 * (register % 2), (in_group + 4 * (register / 2)) * each + element)
            }
            Kind::Mma(Role::A) => (group, (in_group + 4 * register) * each + element),
            Kind::Mma(Role::B) => ((in_group + 4 * register) * each + element, group),
            Kind::Mma(Role::C) => {
                let index = register * each + element;
                (group + 8 * (index / 2), in_group * 2 + index % 2)
            }
        }
    }

    /// Returns where an element lies in memory, in elements from the start: `wmma.load`, `wmma.store`.
    #[inline]
    #[must_use]
    pub(crate) fn offset(layout: Layout, stride: u64, row: usize, column: usize) -> u64 {
        let (outer, inner) = match layout {
            Layout::Col => (column, row),
            _ => (row, column),
        };
        (outer as u64).wrapping_mul(stride).wrapping_add(inner as u64)
    }

    /// Returns the elements that a row (a column, if stored by columns) has when no stride is given.
    #[must_use]
    pub(crate) fn default_stride(&self, layout: Layout) -> u64 {
        match layout {
            Layout::Col => self.rows as u64,
            _ => self.columns as u64,
        }
    }
}

/// Rows and columns of a matrix of the product.
fn size(role: Role, shape: Shape) -> (usize, usize) {
    let (m, n, k) = (usize::from(shape.m), usize::from(shape.n), usize::from(shape.k));
    match role {
        Role::A => (m, k),
        Role::B => (k, n),
        Role::C => (m, n),
    }
}

/// Returns the quotient, if there is no remainder and it is not 0.
fn whole(a: usize, b: usize) -> Option<usize> {
    (a.is_multiple_of(b) && a > 0).then_some(a / b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(role: Role, m: u16, n: u16, k: u16, ty: Type) -> Tile {
        Tile::mma(role, Shape { m, n, k }, ty).unwrap()
    }

    #[test]
    fn each_element_of_an_mma_operand_is_in_exactly_one_place() {
        let shapes = [
            (16, 8, 8, Type::F16),
            (16, 8, 16, Type::F16),
            (16, 8, 8, Type::Bf16),
            (16, 8, 16, Type::Bf16),
            (16, 8, 4, Type::Tf32),
            (16, 8, 8, Type::Tf32),
            (8, 8, 16, Type::S8),
            (16, 8, 16, Type::S8),
            (16, 8, 32, Type::U8),
            (16, 8, 32, Type::E4m3),
            (8, 8, 32, Type::S4),
            (16, 8, 32, Type::U4),
            (16, 8, 64, Type::S4),
            (8, 8, 128, Type::B1),
            (16, 8, 128, Type::B1),
            (16, 8, 256, Type::B1),
            (8, 8, 4, Type::F64),
            (16, 8, 4, Type::F64),
            (16, 8, 8, Type::F64),
            (16, 8, 16, Type::F64),
        ];
        for (m, n, k, ty) in shapes {
            for (role, ty) in [
                (Role::A, ty),
                (Role::B, ty),
                (Role::C, Type::F32),
                (Role::C, Type::F16),
                (Role::C, Type::F64),
            ] {
                let tile = tile(role, m, n, k, ty);
                assert_eq!(counts(&tile), vec![1; tile.rows * tile.columns], "{tile:?}");
            }
        }
    }

    /// Returns how often each element occurs.
    fn counts(tile: &Tile) -> Vec<usize> {
        let mut counts = vec![0; tile.rows * tile.columns];
        for lane in 0..LANES {
            for register in 0..tile.registers {
                for element in 0..tile.per_register {
                    let (row, column) = tile.place(lane, register, element);
                    counts[row * tile.columns + column] += 1;
                }
            }
        }
        counts
    }

    #[test]
    fn wmma_fragments_hold_each_element_equally_often_in_as_many_registers_as_ptx_asks() {
        let cases = [
            (Role::A, (16, 16, 16), Type::F16, 8),
            (Role::B, (32, 8, 16), Type::F16, 8),
            (Role::A, (8, 32, 16), Type::F16, 8),
            (Role::C, (8, 32, 16), Type::F16, 4),
            (Role::C, (32, 8, 16), Type::F32, 8),
            (Role::A, (16, 16, 16), Type::Bf16, 4),
            (Role::A, (8, 32, 16), Type::Bf16, 2),
            (Role::B, (8, 32, 16), Type::Bf16, 8),
            (Role::A, (16, 16, 8), Type::Tf32, 4),
            (Role::A, (16, 16, 16), Type::S8, 2),
            (Role::A, (32, 8, 16), Type::U8, 4),
            (Role::B, (32, 8, 16), Type::U8, 1),
            (Role::C, (16, 16, 16), Type::S32, 8),
            (Role::A, (8, 8, 4), Type::F64, 1),
            (Role::C, (8, 8, 4), Type::F64, 2),
        ];
        for (role, (m, n, k), ty, registers) in cases {
            let tile = Tile::wmma(role, Shape { m, n, k }, ty).unwrap();
            assert_eq!(tile.registers, registers, "{tile:?}");
            let counts = counts(&tile);
            assert!(counts[0] > 0 && counts.iter().all(|&c| c == counts[0]), "{tile:?}");
        }
    }

    #[test]
    fn the_manuals_figures_hold() {
        let a = tile(Role::A, 16, 8, 16, Type::F16);
        // a2 of lane 5: row groupID + 8, column 2 * threadID_in_group.
        assert_eq!(a.place(5, 1, 0), (9, 2));
        assert_eq!(a.place(5, 2, 1), (1, 11));
        let b = tile(Role::B, 16, 8, 16, Type::F16);
        assert_eq!(b.place(5, 1, 1), (11, 1));
        let c = tile(Role::C, 16, 8, 16, Type::F32);
        assert_eq!(c.place(5, 3, 0), (9, 3));
        let packed = tile(Role::C, 16, 8, 16, Type::F16);
        assert_eq!(packed.place(5, 1, 1), (9, 3));
        let bytes = tile(Role::A, 16, 8, 32, Type::S8);
        assert_eq!(bytes.place(6, 2, 3), (1, 27));
        let a = tile(Role::A, 16, 8, 8, Type::Tf32);
        assert_eq!(a.place(7, 3, 0), (9, 7));
    }

    #[test]
    fn shapes_that_do_not_fill_registers_are_refused() {
        assert_eq!(Tile::mma(Role::A, Shape { m: 8, n: 8, k: 2 }, Type::F16), None);
        assert_eq!(Tile::mma(Role::A, Shape { m: 8, n: 8, k: 0 }, Type::F16), None);
        assert_eq!(Tile::wmma(Role::A, Shape { m: 8, n: 8, k: 32 }, Type::S4), None);
        assert_eq!(Tile::wmma(Role::A, Shape { m: 8, n: 8, k: 32 }, Type::Pred), None);
    }
}

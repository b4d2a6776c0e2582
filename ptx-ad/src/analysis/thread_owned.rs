//! Pointers through which each thread accesses only one element, so that its gradient needs no atomics.

use ptx::ir::{Address, Cmp, Instr, Op, Operand, Pred, RegId};

use super::address_form::{Forms, Origin, ThreadOffset};
use super::{Access, Pointers, Used};
use crate::body::{Body, End};
use crate::spec::Effect;

/// An access to the memory behind a pointer, in bytes of the gradient: twice those of 16-bit floats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub(crate) block: usize,
    pub(crate) instr: usize,
    /// Bytes from the start of the thread's element.
    pub(crate) at: i64,
    pub(crate) bytes: u32,
}

/// A pointer whose elements belong to one thread each.
#[derive(Debug, Clone)]
pub(crate) struct OwnedPointer {
    /// Bytes from one thread's element to the next.
    pub(crate) stride: u32,
    pub(crate) sites: Vec<Site>,
    /// Whether all sites lie in one block, so that the gradient is added once.
    pub(crate) together: bool,
    /// Whether each thread below the length executes that block, and the stride is that of the length.
    pub(crate) everywhere: bool,
}

/// The pointers through which each thread accesses only one element.
#[derive(Debug, Default)]
pub(crate) struct ThreadOwned {
    pointers: Vec<Option<OwnedPointer>>,
    /// The largest factor by which a thread's index is multiplied in 32 bits. It limits the threads of a launch.
    pub(crate) widest: u32,
}

impl ThreadOwned {
    pub(crate) fn new(body: &Body, pointers: &Pointers, forms: &Forms, used: &[Used]) -> Self {
        let mut this = Self { pointers: Vec::new(), widest: 1 };
        if body.dimensions() > 1 {
            // Threads that differ in y have the same index in x.
            return this;
        }
        for (index, pointer) in pointers.iter().enumerate() {
            let scale = pointers.scale(index);
            let own = pointer.slot.and_then(|_| accesses(body, forms, index, scale)).and_then(
                |(sites, widest)| {
                    let first = sites.first()?;
                    let stride = first.1.stride;
                    let (low, high) =
                        sites.iter().fold((i64::MAX, i64::MIN), |(low, high), (site, _)| {
                            (
                                low.min(site.at),
                                high.max(site.at.saturating_add(i64::from(site.bytes))),
                            )
                        });
                    let same = sites.iter().all(|(_, offset)| offset.stride == stride);
                    let stride = u32::try_from(stride).ok().filter(|&stride| stride > 0)?;
                    if !same || high.checked_sub(low)? > i64::from(stride) {
                        return None;
                    }
                    let sites: Vec<Site> = sites.into_iter().map(|(site, _)| site).collect();
                    let block = sites.first()?.block;
                    let together = sites.iter().all(|site| site.block == block);
                    let elements = pointer.spec.length.is_some_and(|(factor, count)| {
                        let size = u64::from(pointer.spec.size) * u64::from(scale);
                        let apart = size.checked_mul(u64::from(factor));
                        apart == Some(u64::from(stride)) && comes_to(body, forms, block, count)
                    });
                    let everywhere = together && elements && low >= 0 && high <= i64::from(stride);
                    Some((OwnedPointer { stride, sites, together, everywhere }, widest))
                },
            );
            // Atomic additions are the user's statement that elements are shared.
            let adds = used.get(index).is_some_and(|used| used.effect() == Effect::Accumulates);
            let own = own.filter(|_| !adds);
            if let Some((_, widest)) = &own {
                this.widest = this.widest.max(*widest);
            }
            this.pointers.push(own.map(|(own, _)| own));
        }
        this
    }

    pub(crate) fn get(&self, pointer: usize) -> Option<&OwnedPointer> {
        self.pointers.get(pointer).and_then(Option::as_ref)
    }
}

impl OwnedPointer {
    /// Returns whether the sites are in every byte of the element.
    pub(crate) fn is_whole(&self) -> bool {
        let mut sites: Vec<(i64, i64)> =
            self.sites.iter().map(|s| (s.at, s.at + i64::from(s.bytes))).collect();
        sites.sort_unstable();
        let end =
            sites.iter().fold(0, |end, &(from, to)| if from <= end { end.max(to) } else { end });
        end == i64::from(self.stride)
    }
}

/// Returns all accesses through a pointer, with their offsets in bytes of gradients, and the widest factor; `None` if
/// one is not at the thread's index.
fn accesses(
    body: &Body,
    forms: &Forms,
    pointer: usize,
    scale: u32,
) -> Option<(Vec<(Site, ThreadOffset)>, u32)> {
    let (mut sites, mut widest) = (Vec::new(), 1);
    for (block, code) in body.blocks.iter().enumerate() {
        for (instr, what) in code.code.iter().enumerate() {
            let Some(access) = Access::of(what) else { continue };
            let form = forms.address(body, access.address);
            if forms.pointers(form.origin).contains(&pointer) {
                return None;
            }
            if form.origin != Origin::Pointer(pointer) {
                continue;
            }
            let mut offset = form.thread_offset()?;
            widest = widest.max(offset.widest);
            let count = u32::try_from(access.values.len()).ok()?;
            let bytes = access.ty.bytes().checked_mul(count)?.checked_mul(scale)?;
            offset.stride = offset.stride.checked_mul(i64::from(scale))?;
            offset.constant = offset.constant.checked_mul(i64::from(scale))?;
            sites.push((Site { block, instr, at: offset.constant, bytes }, offset));
        }
    }
    Some((sites, widest))
}

/// Returns whether each thread whose index is below an integer parameter executes a block.
fn comes_to(body: &Body, forms: &Forms, block: usize, count: usize) -> bool {
    if body.unconditional(block) {
        return true;
    }
    body.blocks.iter().enumerate().any(|(index, from)| {
        let End::Branch { pred, then, otherwise } = from.end else { return false };
        if !body.unconditional(index) {
            return false;
        }
        let Some(below) = is_below(body, forms, pred, count) else { return false };
        body.always_reaches(if below { then } else { otherwise }, block)
    })
}

/// Returns whether a predicate holds exactly for the threads whose index is below an integer parameter (`Some(true)`),
/// or exactly for the others (`Some(false)`).
fn is_below(body: &Body, forms: &Forms, pred: Pred, count: usize) -> Option<bool> {
    let define = |wanted: RegId| {
        let block = body.defined.get(wanted.index()).copied().flatten()?;
        body.blocks.get(block)?.code.iter().find(|instr| {
            let mut found = false;
            instr.for_each_def(&mut |reg: RegId| found |= reg == wanted);
            found
        })
    };
    let Instr { op: Op::Setp { cmp, a, b, combine: None, p, .. }, guard: None, .. } =
        define(pred.reg)?
    else {
        return None;
    };
    let is_count = |operand: &Operand| {
        let Operand::Reg(reg) = operand else { return false };
        let Some(Instr { op: Op::Ld { addr, ty, .. }, .. }) = define(*reg) else { return false };
        ty.bits() >= 32 && loads_param(body, forms, addr, count)
    };
    let below = match cmp {
        Cmp::Lt | Cmp::Lo if forms.operand(a).is_thread() && is_count(b) => true,
        Cmp::Gt | Cmp::Hi if is_count(a) && forms.operand(b).is_thread() => true,
        Cmp::Ge | Cmp::Hs if forms.operand(a).is_thread() && is_count(b) => false,
        Cmp::Le | Cmp::Ls if is_count(a) && forms.operand(b).is_thread() => false,
        _ => return None,
    };
    let first = *p == Some(pred.reg);
    Some(below == (first != pred.negated))
}

fn loads_param(body: &Body, forms: &Forms, address: &Address, param: usize) -> bool {
    let form = forms.address(body, address);
    form.origin == Origin::Param(param) && form.param_offset() == Some(0)
}

//! Shared memory.

use ptx::ir::{AtomOp, Instr, Order, Space, Type};

use super::Check;
use crate::analysis::{Access, Form, Origin, real};
use crate::emit::shared_bytes;
use crate::refusal::{Reason, Refusal};

/// Shared memory that a kernel gets without asking for more.
const MOST_SHARED: u64 = 48 << 10;

impl Check<'_> {
    /// Refuses accesses to shared memory that is not an array of the kernel.
    pub(super) fn shared(&mut self, instr: &Instr, access: &Access<'_>, origin: Origin) {
        let is_shared = |space| matches!(space, Space::Shared | Space::SharedCta);
        let own = matches!(origin, Origin::Local(var) if self.body.is_shared(var));
        if access.space == Space::SharedCluster {
            let text = "shared memory of other blocks can't be differentiated";
            self.refuse(Reason::SharedMemory, text, instr);
        } else if matches!(origin, Origin::Variable(space) if is_shared(space)) {
            let text = "shared memory whose size comes with the launch can't be differentiated: give the array a \
                        constant size (`__shared__ float tile[256]`), without `extern`";
            self.refuse(Reason::SharedMemory, text, instr);
        } else if is_shared(access.space) && !own {
            let text = "shared memory is accessed by an address that is one of several, or not known: use one array, \
                        and choose between indices";
            self.refuse(Reason::SharedMemory, text, instr);
        } else if own && matches!(access.order, Order::Volatile) {
            let text = "a volatile access to shared memory relies on threads that run in step: write `__syncwarp`";
            self.refuse(Reason::Volatile, text, instr);
        }
    }

    /// Refuses atomic operations on numbers in shared memory that are not additions.
    pub(super) fn shared_atomic(&mut self, instr: &Instr, form: &Form, op: AtomOp, ty: Type) {
        let Origin::Local(var) = form.origin else { return };
        let adds = op == AtomOp::Add && real(ty).is_some();
        let on_number = ty.is_float() || self.analysis.kinds.may_be_local_number(var, form, 0);
        if self.analysis.activity.is_local_active(var) && on_number && !adds {
            let text = format!("an atomic `{}.{}` of numbers has no adjoint", op.name(), ty.name());
            self.refuse(Reason::AtomicOther, text, instr);
        }
    }

    /// Refuses more shared memory than there is: gradients take as much as their numbers.
    pub(super) fn shared_size(&mut self) {
        let bytes = shared_bytes(self.body, self.analysis);
        if bytes > MOST_SHARED {
            let text = format!(
                "the kernel's shared memory and its gradients take {bytes} bytes, and a block has {MOST_SHARED}: use \
                 smaller arrays"
            );
            self.found.push(Refusal::new(Reason::SharedMemory, text));
        }
    }
}

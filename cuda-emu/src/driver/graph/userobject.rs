//! User objects: things of the caller's that graphs keep alive.

use core::ffi::{c_uint, c_void};

use cuda_sys::{CUgraph, CUhostFn, CUresult, CUuserObject};

use crate::driver::call::{functions, process, put};
use crate::driver::objects::{handle, number};
use crate::driver::process::State;
use crate::driver::stream::engine::NO_CONTEXT;
use crate::driver::stream::work::{HostFunction, UserData};

/// A counted reference to something of the caller's.
pub(in crate::driver) struct UserObject {
    count: u64,
    destroy: HostFunction,
    data: UserData,
}

/// `CU_GRAPH_USER_OBJECT_MOVE`: the graph takes over references of the caller's.
const MOVE: c_uint = 1;

impl State {
    pub(in crate::driver) fn retain_user(&mut self, user: u64, count: u32) {
        if let Ok(user) = self.objects.users.get_mut(user) {
            user.count += u64::from(count);
        }
    }

    /// Lets references go. The last one enqueues the caller's destructor, which must not run under
    /// the driver's lock.
    pub(in crate::driver) fn release_user(&mut self, number: u64, count: u32) {
        let Ok(user) = self.objects.users.get_mut(number) else { return };
        user.count = user.count.saturating_sub(u64::from(count));
        if user.count == 0
            && let Ok(user) = self.objects.users.remove(number)
        {
            let work = crate::driver::stream::work::Work::Host(user.destroy, user.data);
            let pending = self.engine.pending(None);
            self.engine.insert(NO_CONTEXT, 0, work, &pending, None);
        }
    }
}

functions! {
    Device fn cuUserObjectCreate(
        object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: c_uint,
        flags: c_uint
    ) {
        let destroy = destroy.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // The only flag says that the destructor does not synchronise, and it is required.
        if flags != 1 || count == 0 || object.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let new = UserObject { count: u64::from(count), destroy, data: UserData(data) };
        put(object, handle(process()?.lock().objects.users.insert(new)))
    }
    Device fn cuUserObjectRetain(object: CUuserObject, count: c_uint) {
        let mut state = process()?.lock();
        state.objects.users.get(number(object))?;
        state.retain_user(number(object), count);
        Ok(())
    }
    Device fn cuUserObjectRelease(object: CUuserObject, count: c_uint) {
        let process = process()?;
        let mut state = process.lock();
        state.objects.users.get(number(object))?;
        state.release_user(number(object), count);
        process.kick();
        Ok(())
    }
    Device fn cuGraphRetainUserObject(
        graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint
    ) {
        let mut state = process()?.lock();
        state.objects.users.get(number(object))?;
        state.objects.graphs.get_mut(number(graph))?.users.push((number(object), count));
        if flags & MOVE == 0 {
            state.retain_user(number(object), count);
        }
        Ok(())
    }
    Device fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) {
        let process = process()?;
        let mut state = process.lock();
        let users = &mut state.objects.graphs.get_mut(number(graph))?.users;
        let held = users.iter_mut().find(|(user, held)| *user == number(object) && *held >= count);
        held.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.1 -= count;
        state.release_user(number(object), count);
        process.kick();
        Ok(())
    }
}

//! The workspace of a cooperative launch.

use cuda_sys::CUresult;

use crate::exec::fault::Fault;
use crate::exec::program::Program;
use crate::exec::{Env, Launch};
use crate::space::{Kind, Space};

/// As `cooperative_groups.h` declares it (`cooperative_groups/details/driver_abi.h`): the size of the workspace, and
/// the counter at which the blocks of the grid meet.
type Words = [u32; 2];

/// Memory that a cooperative launch finds by `%envreg1` (the high half of its address) and `%envreg2` (the low half).
/// Other launches find null there, by which `grid_group::is_valid` recognises them.
#[derive(Debug)]
pub(crate) struct Workspace<'a> {
    space: &'a Space,
    start: u64,
}

impl<'a> Workspace<'a> {
    /// Returns the workspace of a launch, with no block at its barrier; `None` if the launch is not cooperative or no
    /// function of the kernel reads the registers.
    ///
    /// # Errors
    /// If the range of addresses has no room.
    pub(super) fn of(
        program: &Program,
        launch: &Launch,
        env: &Env<'a>,
    ) -> Result<Option<Self>, Fault> {
        if !launch.cooperative || !program.reads_workspace(launch.entry) {
            return Ok(None);
        }
        let (bytes, align) = (size_of::<Words>() as u64, 256);
        let start = env.space.allocate(bytes, align, Kind::Workspace, env.device.ordinal).map_err(
            |full| {
                let what = format!("the workspace of a cooperative launch: {full}");
                super::refuse(program, launch, CUresult::CUDA_ERROR_OUT_OF_MEMORY, what)
            },
        )?;
        let words = std::ptr::with_exposed_provenance_mut::<Words>(start as usize);
        // SAFETY: the region was allocated just now with this size and a larger alignment, and nothing else knows of
        // it.
        unsafe { words.write([bytes as u32, 0]) };
        Ok(Some(Self { space: env.space, start }))
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> u64 {
        self.start
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        self.space.free(self.start);
    }
}

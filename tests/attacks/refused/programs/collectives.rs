mod a_slice_read_while_a_group_writes_it {
    //! Reads a slice that a group receives into, on another stream and by the same group.
    //!
    //! - row: the memory of a call is ordered with all other uses
    //! - targets: `Group::on`, `DeviceBuffer::to_vec`

    use cuda_nccl::{Communicator, Group, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    pub fn attack(
        ranks: &mut [Communicator],
        streams: &[Stream],
        x: &mut DeviceBuffer<u32>,
    ) -> Result<()> {
        let mut group = Group::new(ranks);
        group.on(0)?.recv(&streams[0], &mut *x, 1)?;
        group.on(0)?.send(&streams[0], &*x, 1)?; //~ refused
        // A group that is not run lets its slices go at its last use, not at its drop.
        let _ = x.to_vec(&streams[1])?; //~ refused
        group.run()?;
        Ok(())
    }
}

mod a_slice_used_while_a_group_has_it {
    //! Writes a slice that a group receives into, and receives into it by another call of the group.
    //!
    //! - row: the memory of a call is ordered with all other uses
    //! - targets: `Group::on`, `Group::run`, `DeviceBuffer::fill`

    use cuda_nccl::{Communicator, Group, ReduceOp, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    pub fn attack(
        ranks: &mut [Communicator],
        streams: &[Stream],
        x: &mut DeviceBuffer<u32>,
    ) -> Result<()> {
        let mut group = Group::new(ranks);
        group.on(0)?.all_reduce_in_place(&streams[0], &mut *x, ReduceOp::Sum)?;
        group.on(1)?.all_reduce_in_place(&streams[1], &mut *x, ReduceOp::Sum)?; //~ refused
        x.fill(&streams[0], 1)?; //~ refused
        group.run()
    }
}

mod calls_of_a_shared_communicator {
    //! Calls a communicator that several threads share without a lock.
    //!
    //! - row: no two threads are in NCCL with one communicator
    //! - targets: `Communicator::all_reduce_in_place`, `Communicator::split`, `Communicator::check`

    use std::sync::Arc;

    use cuda_nccl::{Communicator, ReduceOp, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    pub fn attack(
        rank: Arc<Communicator>,
        stream: &Stream,
        x: &mut DeviceBuffer<u32>,
    ) -> Result<()> {
        let shared = rank.clone();
        std::thread::spawn(move || shared.check());
        rank.all_reduce_in_place(stream, x, ReduceOp::Sum)?; //~ refused
        rank.split(None, 0)?; //~ refused
        rank.check()
    }
}

mod dropped_while_a_group_has_it {
    //! Drops a buffer, a stream and the communicators of a group before it runs.
    //!
    //! - row: the memory of a call is ordered with all other uses
    //! - row: a communicator lives until its work is done
    //! - targets: `Group::on`, `Group::run`

    use cuda_nccl::{Communicator, Group, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    pub fn attack(
        mut ranks: Vec<Communicator>,
        stream: Stream,
        mut x: DeviceBuffer<u32>,
    ) -> Result<()> {
        let mut group = Group::new(&mut ranks);
        group.on(0)?.broadcast(&stream, &mut x, 0)?;
        drop(x); //~ refused
        drop(stream); //~ refused
        drop(ranks); //~ refused
        group.run()
    }
}

mod elements_of_another_crate {
    //! Implements the trait of elements for a type of the program.
    //!
    //! - row: a collective stays inside its slices
    //! - targets: `Communicator::broadcast`

    use cuda_nccl::{Communicator, NcclElement, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    pub struct Wide([u64; 8]);

    impl NcclElement for Wide { const TYPE: cuda_nccl::DataType = <u8 as NcclElement>::TYPE; } //~ refused

    pub fn attack(rank: &mut Communicator, stream: &Stream, x: &mut DeviceBuffer<u64>) -> Result<()> {
        rank.broadcast(stream, x, 0)
    }
}

mod elements_that_are_none {
    //! Sums types whose bytes are no numbers of NCCL.
    //!
    //! - row: a collective stays inside its slices
    //! - targets: `Communicator::all_reduce_in_place`, `Communicator::all_gather_in_place`

    use cuda_nccl::{Communicator, ReduceOp, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    pub struct Pair {
        a: u8,
        b: u8,
    }

    pub fn attack(
        rank: &mut Communicator,
        stream: &Stream,
        x: &mut DeviceBuffer<[u32; 3]>,
        y: &mut DeviceBuffer<Pair>,
    ) -> Result<()> {
        rank.all_reduce_in_place(stream, x, ReduceOp::Sum)?; //~ refused
        rank.all_gather_in_place(stream, y)?; //~ refused
        rank.check()
    }
}

mod one_communicator_in_two_threads {
    //! Calls one communicator by two threads at once.
    //!
    //! - row: no two threads are in NCCL with one communicator
    //! - targets: `Communicator::broadcast`

    use cuda_nccl::Communicator;
    use cuda_safe::{DeviceBuffer, Stream};

    pub fn attack(
        rank: &mut Communicator,
        stream: &Stream,
        x: &mut DeviceBuffer<u32>,
        y: &mut DeviceBuffer<u32>,
    ) {
        std::thread::scope(|scope| {
            scope.spawn(|| rank.broadcast(stream, x, 0));
            scope.spawn(|| rank.broadcast(stream, y, 0)); //~ refused
        });
    }
}

mod one_communicator_twice_in_a_group {
    //! Gives a communicator to two groups, and splits it meanwhile.
    //!
    //! - row: no two threads are in NCCL with one communicator
    //! - targets: `Group::new`, `Group::on`, `Communicator::split_all`

    use cuda_nccl::{Communicator, Group, Result};
    use cuda_safe::{DeviceBuffer, Stream};

    pub fn attack(
        ranks: &mut [Communicator],
        stream: &Stream,
        x: &mut DeviceBuffer<u32>,
    ) -> Result<()> {
        let mut group = Group::new(&mut *ranks);
        group.on(0)?.broadcast(stream, x, 0)?;
        let _other = Group::new(&mut *ranks); //~ refused
        Communicator::split_all(&mut *ranks, |_| (None, 0))?; //~ refused
        group.run()
    }
}

mod promises_without_unsafe {
    //! Makes ranks whose calls nothing compares, records calls, and takes functions for NCCL's, without a promise.
    //!
    //! - row: NCCL is never called by ranks of one process that disagree
    //! - row: NCCL is given no handle of another driver
    //! - targets: `Communicator::new`, `Communicator::new_with`, `Communicator::allow_recording`, `Nccl::load_from`,
    //!   `Nccl::from_resolver`

    use cuda_nccl::{Communicator, Config, Nccl, Result, UniqueId};
    use cuda_safe::Context;

    pub fn attack(context: &Context, rank: &mut Communicator, config: &Config) -> Result<()> {
        let id = UniqueId::new()?;
        Communicator::new(id, 2, 0, context)?; //~ refused
        Communicator::new_with(id, 2, 0, context, config)?; //~ refused
        rank.allow_recording(); //~ refused
        Nccl::load_from("libnccl.so.2")?; //~ refused
        Nccl::from_resolver(&|_| std::ptr::null())?; //~ refused
        rank.check()
    }
}

fn main() {}

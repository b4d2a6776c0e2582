//! During a host borrow the buffer stays, and no device write of it can be enqueued.

use cuda_safe::{HostRef, Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

fn guard_outlives_its_buffer(stream: &Stream) -> Result<HostRef<'static, u32>> {
    let buffer = UnifiedBuffer::<u32>::pinned(stream, 10)?;
    buffer.host()
}

fn vector_taken_under_a_guard(buffer: UnifiedBuffer<u32>) {
    let seen = buffer.host().unwrap();
    let vector = buffer.into_vec();
    drop((seen, vector));
}

fn written_while_the_host_reads(stream: &Stream, kernel: &Kernel) -> Result<()> {
    let mut buffer = UnifiedBuffer::<u32>::pinned(stream, 10)?;
    let seen = buffer.host()?;
    unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&mut buffer,))? };
    assert_eq!(seen[0], 0);
    Ok(())
}

fn read_while_the_host_writes(stream: &Stream, kernel: &Kernel) -> Result<()> {
    let mut buffer = UnifiedBuffer::<u32>::pinned(stream, 10)?;
    let mut words = buffer.host_mut()?;
    unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&buffer,))? };
    words[0] = 1;
    Ok(())
}

fn main() {}

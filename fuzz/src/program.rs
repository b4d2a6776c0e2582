//! Texts of PTX on the software device: loaded, decoded and run for a moment.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cuda_emu::exec::{DeviceInfo, EntryId, Env, ExecConfig, Heap, Launch, Program, run};
use cuda_emu::space::{Kind, Space};
use cuda_emu::{Real, Tangents};

use crate::within;

/// Bytes of memory of the device.
const MEMORY: u64 = 1 << 20;
/// Bytes of each array that kernels are given.
const ARRAY: usize = 4096;
/// Kernels of a text that are run.
const RUNS: usize = 4;
/// The byte that fills a pointer's target that must not be written.
const MARK: u8 = 0x5a;

/// Memory that all programs share.
struct Device {
    space: Arc<Space>,
    /// Kernels may write it.
    array: u64,
    /// They may not.
    constant: u64,
}

impl Device {
    fn get() -> &'static Self {
        static DEVICE: OnceLock<Device> = OnceLock::new();
        DEVICE.get_or_init(|| {
            let space = Space::new().expect("a range of addresses");
            space.set_limit(MEMORY);
            let place = |kind| space.allocate(ARRAY as u64, 256, kind, 0).expect("memory");
            let device = Self {
                array: place(Kind::Device),
                constant: place(Kind::Constant),
                space: space.clone(),
            };
            // SAFETY: the allocation has so many bytes, and nothing else uses it yet.
            unsafe { (device.constant as *mut u8).write_bytes(MARK, ARRAY) };
            device
        })
    }

    /// The same contents before every launch.
    fn fill(&self) {
        // SAFETY: the allocation has so many bytes, and no kernel runs: launches are waited for.
        let array = unsafe { std::slice::from_raw_parts_mut(self.array as *mut u32, ARRAY / 4) };
        for (n, word) in array.iter_mut().enumerate() {
            *word = n as u32;
        }
    }

    fn is_whole(&self) -> bool {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.constant as *const u8, ARRAY) };
        bytes.iter().all(|byte| *byte == MARK)
    }
}

/// A text is loaded or refused with a reason, and its kernels end, with a fault or without, and write nothing
/// that they may not.
///
/// # Panics
/// That does not hold.
pub fn kernel(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let device = Device::get();
    // The largest block is the local memory of a warp: 512 KiB for each thread. Parameters are as large at most, and have
    // tangents of four times their size.
    let largest = |tangents| if tangents { 85 << 20 } else { 17 << 20 };
    for (contract, tangents) in [(true, false), (false, false), (false, true)] {
        within(largest(tangents) + 512 * text.len(), || {
            let info = DeviceInfo { contract, tangents, ..DeviceInfo::default() };
            match Program::load(&text, &device.space, &info) {
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok(program) => {
                    for (name, entry) in program.entries().take(RUNS) {
                        assert_eq!(program.entry(name), Some(entry), "{name}");
                        if !contract {
                            launch(&program, entry, device, &info);
                        }
                    }
                }
            }
        });
    }
}

/// Two blocks of a warp and one thread more, unless the kernel wants others.
fn launch(program: &Program, entry: EntryId, device: &Device, info: &DeviceInfo) {
    let block = program.attributes(entry).required_block.unwrap_or([33, 1, 1]);
    let mut params = vec![0; program.param_bytes(entry)];
    for (n, &(offset, bytes)) in program.params(entry).iter().enumerate() {
        let value = match bytes {
            8.. if n % 2 == 0 => device.array,
            8.. => device.constant,
            _ => 7 + n as u64,
        };
        let end = (offset + bytes).min(params.len());
        for (to, from) in params[offset..end].iter_mut().zip(value.to_le_bytes()) {
            *to = from;
        }
    }
    device.fill();
    if info.tangents {
        let tangents = Tangents::of(&device.space).expect("they are tracked");
        tangents.set(device.array, Real::F32, &[1.0; ARRAY / 4]).expect("memory");
    }
    let heap = Heap::new(0, MEMORY / 4);
    let mut config = ExecConfig::default();
    config.workers = 1;
    config.timeout = Some(Duration::from_millis(10));
    let env =
        Env { space: &device.space, device: info, config: &config, heap: &heap, printf: &|_| {} };
    let launch = Launch {
        entry,
        grid: [2, 1, 1],
        block,
        shared: 1024,
        params,
        cooperative: false,
        cluster: None,
    };
    if let Err(fault) = run(program, &launch, &env) {
        assert!(!fault.to_string().is_empty());
    }
    heap.clear(&device.space);
    assert!(device.is_whole(), "a kernel has written what it may not");
}

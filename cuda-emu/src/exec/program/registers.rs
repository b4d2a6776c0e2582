//! An estimate of the registers that ptxas gives a kernel.

use ptx::ir::{Directives, Function, Type};

/// Registers of a thread at least and at most, and of a block.
pub(super) const LEAST: u32 = 8;
const MOST: u32 = 255;
const OF_BLOCK: u32 = 65_536;

/// Returns about how many registers of 32 bits a thread of the kernel has: the most whose first and last mention in the
/// text have a line between them, within the kernel's launch bounds. Time is in proportion to the text.
///
/// ptxas 13.0 gives 43 of 48 kernels of `geom-kernels` and of the tests of `ptx` between half and twice as many.
pub(super) fn estimate(function: &Function) -> u32 {
    let instrs = function.instrs();
    let mut mentions = vec![None; function.registers.len()];
    for (at, instr) in instrs.iter().enumerate() {
        instr.for_each_register(|_, reg| {
            if let Some(mention) = mentions.get_mut(reg.index()) {
                *mention = Some((mention.map_or(at, |(first, _)| first), at));
            }
        });
    }
    let mut change = vec![0_i64; instrs.len()];
    for (ty, mention) in function.registers.iter().zip(mentions) {
        let (Some((first, last)), false) = (mention, *ty == Type::Pred) else { continue };
        let words = i64::from(ty.bits().div_ceil(32));
        change[first] += words;
        change[last] -= words;
    }
    let mut live = 0;
    let most = change.iter().map(|change| {
        live += change;
        live
    });
    let most = u32::try_from(most.max().unwrap_or(0)).unwrap_or(MOST);
    most.clamp(LEAST, bound(&function.directives).max(LEAST))
}

/// Returns how many registers the launch bounds allow.
fn bound(directives: &Directives) -> u32 {
    let Directives { reqntid, maxntid, minnctapersm, maxnreg, .. } = directives;
    let product = |sizes: [u32; 3]| sizes.iter().fold(1_u32, |all, &size| all.saturating_mul(size));
    let threads = reqntid.or(*maxntid).map_or(1, product).max(1).div_ceil(32).saturating_mul(32);
    let blocks = minnctapersm.unwrap_or(1).max(1);
    // The hardware gives them out in eights.
    let each = OF_BLOCK / threads.saturating_mul(blocks) / 8 * 8;
    maxnreg.unwrap_or(MOST).min(MOST).min(each)
}

#[cfg(test)]
mod tests {
    use super::estimate;

    /// `count` values of 64 bits are read before the first is used.
    fn registers(count: u32, bounds: &str) -> u32 {
        let body: String = (0..count)
            .map(|n| format!("ld.global.b64 %v{n}, [%p+{}];", 8 * n))
            .chain(
                (0..count).map(|n| format!("st.global.b64 [%p+{}], %v{};", 8 * n, count - 1 - n)),
            )
            .collect();
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a) {bounds}\n{{ .reg .b64 %p;\n\
             .reg .b64 %v<{}>; .reg .pred %q<300>;\nld.param.u64 %p, [a];\n{body} ret; }}",
            count + 1
        );
        let module = ptx::parse(&text).expect("a text");
        estimate(&module.functions[0])
    }

    #[test]
    fn kernels_have_registers_for_what_they_keep_within_their_bounds() {
        for (count, bounds, wanted) in [
            (0, "", 8),
            (3, "", 8),
            (31, "", 64),
            (32, "", 66),
            (200, "", 255),
            (200, ".maxntid 1024", 64),
            (200, ".maxntid 256, 2, 1", 128),
            (200, ".reqntid 97", 255),
            (200, ".maxntid 256 .minnctapersm 5", 48),
            (200, ".maxntid 4294967295, 4294967295, 2", 8),
            (200, ".maxnreg 57", 57),
            (200, ".maxnreg 0", 8),
        ] {
            assert_eq!(registers(count, bounds), wanted, "{count} {bounds}");
        }
    }
}

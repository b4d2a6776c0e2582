//! What a fat binary's images say about its kernels.
//!
//! The driver does not report which image it took. So a fact is used only if it holds for every image; otherwise the
//! module is treated as one of which nothing is known.

use ptx::Signature;
use ptx::fatbin::{Entry, Fatbin, Kind};

use super::variables::Reach;
use crate::image;

/// Of larger images nothing is known: reading them would take longer than the driver's loading.
const MOST: usize = 256 << 20;

/// The facts of a module.
pub(super) struct Facts {
    /// Empty where they are not known.
    pub(super) signatures: Vec<Signature>,
    pub(super) reach: Reach,
}

impl Facts {
    /// Returns the facts that hold for every image in the bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::known(bytes).unwrap_or(Self { signatures: Vec::new(), reach: Reach::Everything })
    }

    /// `None` if an image cannot be read, or if images differ.
    fn known(bytes: &[u8]) -> Option<Self> {
        let fatbin = Fatbin::parse(bytes).ok()?;
        let mut signatures: Option<Vec<Signature>> = None;
        let mut reach = Reach::Nothing;
        for entry in fatbin.entries() {
            let (of_entry, found) = facts_of(entry)?;
            let same = signatures.get_or_insert_with(|| of_entry.clone()) == &of_entry;
            if !same {
                signatures = Some(Vec::new());
            }
            // Two images may differ in their use of variables: it is enough to understand one.
            reach = match (found, fatbin.entries()) {
                (Reach::Nothing, _) => reach,
                (found, [_]) => found,
                _ => Reach::Everything,
            };
        }
        Some(Self { signatures: signatures.unwrap_or_default(), reach })
    }
}

fn facts_of(entry: &Entry<'_>) -> Option<(Vec<Signature>, Reach)> {
    match entry.kind {
        Kind::Ptx => {
            let text = entry.ptx(MOST).ok()?;
            Some((ptx::entries(&text).ok()?, Reach::of_ptx(&text)))
        }
        Kind::Cubin => {
            let code = entry.contents(MOST).ok()?;
            Some((Vec::new(), Reach::of_machine_code(image::may_have_variables(&code))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ptx::fatbin::Kind;
    use test_support::fatbin::{Entry, Packing, write};

    use super::{Facts, Fatbin, Reach};

    fn text(body: &str) -> String {
        format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n.visible .global .u32 counter;\n\
             .visible .entry kernel(.param .u64 kernel_0)\n{{\n.reg .u32 %r<2>;\n{body}\nret;\n}}"
        )
    }

    fn kind_of(facts: &Facts) -> (&'static str, usize) {
        let reach = match facts.reach {
            Reach::Nothing => "nothing",
            Reach::Everything => "everything",
            Reach::Known(_) => "known",
        };
        (reach, facts.signatures.len())
    }

    const WRITES: &str = "mov.u32 %r1, 1; st.global.u32 [counter], %r1;";

    #[test]
    fn one_ptx_text_is_understood_in_every_packing() {
        for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
            let quiet = write(&[Entry::ptx(75, &text(""), packing)]);
            assert_eq!(kind_of(&Facts::of(&quiet)), ("nothing", 1));
            let writes = write(&[Entry::ptx(75, &text(WRITES), packing)]);
            assert_eq!(kind_of(&Facts::of(&writes)), ("known", 1));
        }
    }

    #[test]
    fn of_several_images_only_what_all_agree_on_is_known() {
        let ptx = |body: &str| Entry::ptx(75, &text(body), Packing::Zstd);
        let facts = |entries: &[Entry]| kind_of(&Facts::of(&write(entries)));
        assert_eq!(facts(&[ptx(""), ptx("")]), ("nothing", 1));
        assert_eq!(facts(&[ptx(""), ptx(WRITES)]), ("everything", 1));
        assert_eq!(facts(&[ptx(WRITES), ptx("")]), ("everything", 1));
        assert_eq!(facts(&[ptx(WRITES), ptx(WRITES)]), ("everything", 1));
        let other =
            Entry::ptx(80, &text("").replace("kernel_0)", "a, .param .u32 b)"), Packing::Lz4);
        assert_eq!(facts(&[ptx(""), other]), ("nothing", 0));
        assert_eq!(facts(&[]), ("nothing", 0));
    }

    #[test]
    fn of_an_image_that_cannot_be_read_nothing_is_known() {
        let mut bytes = write(&[Entry::ptx(75, &text(""), Packing::Zstd)]);
        let last = bytes.len() - 20;
        for byte in &mut bytes[96..last] {
            *byte ^= 0x55;
        }
        assert_eq!(kind_of(&Facts::of(&bytes)), ("everything", 0));
        for kind in [2, 8, 99] {
            let mut entry = Entry::ptx(75, &text(""), Packing::Plain);
            entry.kind = kind;
            let bytes = write(&[Entry::ptx(75, &text(""), Packing::Plain), entry]);
            assert_ne!(Fatbin::parse(&bytes).unwrap().entries()[1].kind, Kind::Ptx);
            assert_eq!(kind_of(&Facts::of(&bytes)), ("everything", 0));
        }
        assert_eq!(kind_of(&Facts::of(b"no fatbin")), ("everything", 0));
    }
}

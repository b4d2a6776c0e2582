//! Files of the compiler's cache.

use nvrtc::fuzzing::{
    EntryKind, read_entry, read_image, rewrite_library, rewrite_record, write_entry, write_image,
};

use crate::within;

const KINDS: [EntryKind; 3] = [EntryKind::Image, EntryKind::Library, EntryKind::Record];
/// Where a file has its key.
const KEY: std::ops::Range<usize> = 16..48;

/// The bytes as a file, as a payload, and as a change to a file that is right.
///
/// # Panics
/// That does not hold.
pub fn cache_entry(data: &[u8]) {
    within((1 << 16) + 256 * data.len(), || {
        as_file(data);
        as_payload(data);
        as_change(data);
    });
}

/// A file that is taken for valid is byte for byte what is written for its payload.
fn as_file(data: &[u8]) {
    let key = data.get(KEY).and_then(|key| key.try_into().ok()).unwrap_or([7; 32]);
    for kind in KINDS {
        if let Some(payload) = read_entry(kind, &key, data.to_vec()) {
            assert!(write_entry(kind, &key, &payload) == data, "another file is taken for this");
        }
    }
}

/// A payload under a checksum that is right holds an image, or what is known of a compiler, or neither; what is
/// written of it reads as the same.
fn as_payload(data: &[u8]) {
    let key = [7; 32];
    for kind in KINDS {
        let file = write_entry(kind, &key, data);
        assert_eq!(read_entry(kind, &key, file).as_deref(), Some(data));
    }
    if let Some(image) = read_image(data) {
        assert_eq!(read_image(&write_image(&image)).as_ref(), Some(&image));
        let messages = image.warnings();
        assert!(messages.len() <= image.log.lines().count());
    }
    if let Some(written) = rewrite_library(data) {
        assert!(written == data, "it is written otherwise than it was read");
    }
    if let Some(written) = rewrite_record(data) {
        assert_eq!(rewrite_record(&written), Some(written));
    }
}

/// Eight bytes say what becomes of a file with the other bytes as its payload. Changed, it does not exist.
fn as_change(data: &[u8]) {
    let Some((&[how, a, b, c, d, from, to, with], payload)) = data.split_first_chunk() else {
        return;
    };
    let (kind, other) = if with & 1 == 0 { (KINDS[0], KINDS[1]) } else { (KINDS[1], KINDS[0]) };
    let key = [with; 32];
    let right = write_entry(kind, &key, payload);
    let place = u32::from_le_bytes([a, b, c, d]) as usize % right.len();
    let mut changed = right.clone();
    match how % 6 {
        0 => changed[place] ^= with,
        1 => changed.truncate(place),
        2 => changed.insert(place, with),
        3 => drop(changed.remove(place)),
        4 => changed.swap(place, usize::from(from) % right.len()),
        _ => {
            let run = right[usize::from(from) % right.len()..].iter().take(usize::from(to));
            for (to, from) in changed[place..].iter_mut().zip(run) {
                *to = *from;
            }
        }
    }
    let answer = read_entry(kind, &key, changed.clone());
    if changed == right {
        assert_eq!(answer.as_deref(), Some(payload));
    } else {
        assert_eq!(answer, None, "a changed file is taken for valid");
    }
    assert_eq!(read_entry(other, &key, right.clone()), None);
    assert_eq!(read_entry(kind, &[with ^ 1; 32], right), None);
}

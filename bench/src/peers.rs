//! The peers' recorded figures, beside ours.

use serde_json::Value;

use crate::report::{Row, Unit, short};
use crate::stop::Stop;

/// One recorded figure.
#[derive(Debug)]
pub(crate) struct Peer {
    name: String,
    work: String,
    /// The line's key: `ms`, `us`, `ns`, `gibs`.
    unit: String,
    value: f64,
}

/// Reads JSON lines such as `{"peer": "x", "work": "launch/empty", "ns": 3431.3}`. Lines without a
/// figure of a known unit are left out.
///
/// # Errors
/// A line is not JSON, or names no peer or no work.
pub(crate) fn read(text: &str) -> Result<Vec<Peer>, Stop> {
    let mut peers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(line)?;
        let (Some(name), Some(work)) = (value["peer"].as_str(), value["work"].as_str()) else {
            return Err(Stop::failed(format!("line {}: no `peer` or no `work`", index + 1)));
        };
        let figure = ["ms", "us", "ns", "gibs", "tbs"]
            .into_iter()
            .find_map(|unit| value[unit].as_f64().map(|value| (unit, value)));
        if let Some((unit, value)) = figure {
            let (name, work, unit) = (name.to_owned(), work.to_owned(), unit.to_owned());
            peers.push(Peer { name, work, unit, value });
        }
    }
    Ok(peers)
}

/// A line for each peer that has a figure for the row's work, or for a variant of it: a name that
/// goes on after a `/`.
pub(crate) fn compare(row: &Row, peers: &[Peer]) -> Vec<String> {
    let ours = without_builder(&row.work);
    let same = |peer: &&Peer| {
        let theirs = without_builder(&peer.work);
        is_variant(&theirs, &ours) || is_variant(&ours, &theirs)
    };
    let beside = |peer: &Peer| {
        let value = convert(peer.value, &peer.unit, row.unit)?;
        let (unit, ratio) = (row.unit.key(), row.stats.median / value);
        let (value, ratio) = (short(value), short(ratio));
        Some(format!("{:>44} {unit:4} {} {}: ours / theirs {ratio}", value, peer.name, peer.work))
    };
    peers.iter().filter(same).filter_map(beside).collect()
}

/// Rows of meshes name who built the tree: `closest_nosign/knot/sah/random` is
/// `closest_nosign/knot/random`.
fn without_builder(work: &str) -> String {
    let parts: Vec<&str> = work.split('/').collect();
    match parts.as_slice() {
        [what, "knot", _, rest @ ..] => [&[*what, "knot"], rest].concat().join("/"),
        _ => work.to_owned(),
    }
}

fn is_variant(work: &str, of: &str) -> bool {
    work.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The value in another unit; `None` if a time is asked of a rate or a rate of a time.
fn convert(value: f64, from: &str, to: Unit) -> Option<f64> {
    const GIB: f64 = (1u64 << 30) as f64;
    let nanoseconds = match from {
        "ms" => Some(value * 1e6),
        "us" => Some(value * 1e3),
        "ns" => Some(value),
        _ => None,
    };
    let bytes_per_second = match from {
        "gibs" => Some(value * GIB),
        "tbs" => Some(value * 1e12),
        _ => None,
    };
    match to {
        Unit::Ms => Some(nanoseconds? / 1e6),
        Unit::Ns => nanoseconds,
        Unit::Gibs => Some(bytes_per_second? / GIB),
        Unit::Us => Some(nanoseconds? / 1e3),
        Unit::Tbs => Some(bytes_per_second? / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
{"peer": "c", "work": "launch/empty", "ns": 200.0}
{"peer": "r", "work": "launch/empty/tracked", "us": 0.4, "other": 1}
{"peer": "r", "work": "launch/empty_too", "ns": 1.0}
{"peer": "t", "work": "launch/empty", "gibs": 1.0}
{"peer": "t", "work": "launch/empty", "hits": 3}
"#;

    #[test]
    fn work_and_its_variants_are_compared_in_one_unit() -> Result<(), String> {
        let peers = read(TEXT).map_err(|stop| stop.to_string())?;
        assert_eq!(peers.len(), 4);
        let lines = compare(&Row::new("launch/empty", Unit::Ns, &[100.0]), &peers);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("200.0 ns") && lines[0].ends_with("theirs 0.5000"), "{lines:?}");
        assert!(lines[1].contains("400.0 ns") && lines[1].ends_with("theirs 0.2500"), "{lines:?}");
        let lines = compare(&Row::new("launch/empty/safe", Unit::Ns, &[100.0]), &peers);
        assert_eq!(lines.len(), 1, "{lines:?}");
        Ok(())
    }

    #[test]
    fn a_line_without_a_name_is_refused() {
        assert!(read(r#"{"work": "x", "ns": 1}"#).is_err());
        assert!(read("no JSON").is_err());
    }

    #[test]
    fn rates_are_converted_to_rates() {
        assert_eq!(convert(1.0, "tbs", Unit::Tbs), Some(1.0));
        assert_eq!(convert(1024.0, "gibs", Unit::Tbs), Some(1.099_511_627_776));
        assert_eq!(convert(1.0, "gibs", Unit::Ms), None);
    }
}

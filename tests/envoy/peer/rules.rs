//! Random rules.

use std::fmt::Write;

use rand::{Rng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

/// The features of the peer's version.
#[derive(Debug, Clone)]
pub struct Features {
    /// Stars anywhere in a value.
    pub stars: bool,
    /// Quotas that refuse when all are used up, and metadata.
    pub quotas: bool,
    /// Units of limits: name and number.
    pub units: Vec<(&'static str, i32)>,
}

pub const KEYS: [&str; 4] = ["a", "b", "c", "a_b"];
const VALUES: [&str; 8] = ["x", "y", "xy", "x*", "*", "x*y", "*y", "b"];
/// Name, number and seconds.
const UNITS: [(&str, i32, u64); 5] = [
    ("HOUR", 3, 3600),
    ("day", 4, 86_400),
    ("Week", 7, 7 * 86_400),
    ("month", 5, 30 * 86_400),
    ("YEAR", 6, 365 * 86_400),
];
/// The seconds of a window that the comparison needs.
const NEEDED: u64 = 300;

/// Returns the units in the middle of their windows. Of several units whose windows began at the
/// same instant it contains only one, because the peer counts them together.
pub fn units(now: u64) -> Vec<(&'static str, i32)> {
    let mut starts = Vec::new();
    let mut units = Vec::new();
    for (name, number, seconds) in UNITS {
        let start = now - now % seconds;
        if start + seconds - now > NEEDED && !starts.contains(&start) {
            starts.push(start);
            units.push((name, number));
        }
    }
    units
}

/// Rules of a domain.
pub fn random_rules(random: &mut ChaCha8Rng, domain: &str, features: &Features) -> String {
    let mut text = format!("domain: {domain}\ndescriptors:\n");
    // The peer loses the metadata of rules whose metrics have the values of descriptors.
    let has_metadata = features.quotas && random.random_bool(0.5);
    level(random, &mut text, 0, features, has_metadata);
    text
}

fn level(
    random: &mut ChaCha8Rng,
    text: &mut String,
    depth: usize,
    features: &Features,
    has_metadata: bool,
) {
    let indent = "    ".repeat(depth);
    let mut seen = Vec::new();
    for _ in 0..random.random_range(2..8) {
        let key = *KEYS.choose(random).unwrap();
        let value = if random.random_bool(0.35) { "" } else { VALUES.choose(random).unwrap() };
        let joined = if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") };
        let is_inner = value.trim_end_matches('*').contains('*');
        // The peer loses metadata, too, if a pattern matches an entry of another key.
        let loses = has_metadata && value.starts_with('*');
        if seen.contains(&joined) || loses || is_inner && !features.stars {
            continue;
        }
        seen.push(joined);
        let _ = writeln!(text, "{indent}  - key: {key}");
        if !value.is_empty() {
            let _ = writeln!(text, "{indent}    value: \"{value}\"");
        }
        let mut flag = |name: &str, share: f64| {
            if random.random_bool(share) {
                let _ = writeln!(text, "{indent}    {name}: true");
            }
        };
        flag("shadow_mode", 0.15);
        if features.quotas {
            flag("quota_mode", 0.25);
        }
        if !has_metadata {
            flag("detailed_metric", 0.1);
            flag("value_to_metric", 0.1);
        }
        if value.ends_with('*') {
            flag("share_threshold", 0.4);
        }
        if has_metadata && random.random_bool(0.5) {
            // Flat: the peer permanently merges nested metadata of one rule into another one.
            let (one, two) = (random.random_range(0..3), random.random_range(0..3));
            let _ = writeln!(text, "{indent}    metadata: {{k{one}: v{two}, k3: {two}}}");
        }
        if random.random_bool(0.75) {
            limit(random, text, &indent, features);
        }
        if depth < 2 && random.random_bool(0.4) {
            let _ = writeln!(text, "{indent}    descriptors:");
            level(random, text, depth + 1, features, has_metadata);
        }
    }
}

fn limit(random: &mut ChaCha8Rng, text: &mut String, indent: &str, features: &Features) {
    let _ = writeln!(text, "{indent}    rate_limit:");
    let name = random.random_bool(0.4).then(|| random.random_range(0..4));
    if let Some(name) = name {
        let _ = writeln!(text, "{indent}      name: n{name}");
    }
    let replaced = random.random_range(0..4);
    if random.random_bool(0.15) && name != Some(replaced) {
        let _ = writeln!(text, "{indent}      replaces:\n{indent}        - name: n{replaced}");
    }
    if random.random_bool(0.12) {
        let _ = writeln!(text, "{indent}      unlimited: true");
        return;
    }
    let (unit, _) = features.units.choose(random).unwrap();
    let most = *[0, 1, 3, 10, 40, 400].choose(random).unwrap();
    let requests = random.random_range(0..=most);
    let _ = writeln!(text, "{indent}      unit: {unit}");
    let _ = writeln!(text, "{indent}      requests_per_unit: {requests}");
}

//! Random requests.

use rand::{Rng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use super::rules::{Features, KEYS};
use crate::api::{Descriptor, Entry, Hits, Override, RateLimitRequest};

const VALUES: [&str; 9] = ["x", "y", "xy", "x-y", "xz", "b", "", "zy", "_"];

/// Returns a request about a domain, sometimes about another one.
pub fn random_request(
    random: &mut ChaCha8Rng,
    domain: &str,
    features: &Features,
) -> RateLimitRequest {
    let is_known = random.random_bool(0.98);
    let domain = if is_known { domain.to_owned() } else { "nowhere".to_owned() };
    let count = if random.random_bool(0.02) { 0 } else { random.random_range(1..5) };
    RateLimitRequest {
        domain: if random.random_bool(0.01) { String::new() } else { domain },
        descriptors: (0..count).map(|_| descriptor(random, features)).collect(),
        hits_addend: *[0, 0, 0, 1, 2, 7, u32::MAX].choose(random).unwrap(),
    }
}

fn descriptor(random: &mut ChaCha8Rng, features: &Features) -> Descriptor {
    let entry = |random: &mut ChaCha8Rng| Entry {
        key: (*KEYS.choose(random).unwrap()).to_owned(),
        value: (*VALUES.choose(random).unwrap()).to_owned(),
    };
    let depth = *[1, 1, 1, 2, 2, 3, 4].choose(random).unwrap();
    let limit = random.random_bool(0.06).then(|| Override {
        requests_per_unit: random.random_range(0..20),
        unit: features.units.choose(random).unwrap().1,
    });
    let most = *[0, 1, 1, 5, 1 << 40].choose(random).unwrap();
    let hits = random.random_bool(0.6).then(|| Hits { value: random.random_range(0..=most) });
    Descriptor { entries: (0..depth).map(|_| entry(random)).collect(), limit, hits_addend: hits }
}

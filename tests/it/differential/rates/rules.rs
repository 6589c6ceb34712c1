//! Random rate rules.

use rand::{Rng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    rate::{Algorithm, LimitSpec, Rule, RuleSpec, TierAction, TierSpec},
    time::Millis,
};

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::FixedWindow,
    Algorithm::CalendarWindow,
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
];
const CALM: [Algorithm; 3] =
    [Algorithm::SlidingWindow, Algorithm::TokenBucket, Algorithm::FixedWindow];

/// Returns a random rule. Limits have few names, so that rules meet usage of other rules. Calm
/// rules have one algorithm for each name, so that usage lasts. Every third rule has a plain form.
pub fn rule(random: &mut ChaCha8Rng, calm: bool) -> Rule {
    let plain = random.random_bool(0.33);
    loop {
        let count = if plain { 1 } else { random.random_range(1..4) };
        let names = ["a", "b", "c"];
        let limits: Vec<LimitSpec> =
            (0..count).map(|i| limit(random, names[i], calm.then_some(i))).collect();
        let levels = if plain { 0 } else { random.random_range(0..4) };
        let tiers = (0..levels).map(|_| tier(random)).collect();
        let utc_offset = random.random_range(-840..840);
        let ban_memory = Some(Millis(random.random_range(1..100_000)));
        let spec = RuleSpec { limits, tiers, utc_offset, ban_memory, ..RuleSpec::default() };
        // A random specification is often invalid.
        if let Ok(rule) = spec.build() {
            return rule;
        }
    }
}

fn limit(random: &mut ChaCha8Rng, name: &str, calm: Option<usize>) -> LimitSpec {
    let algorithm = calm.map_or_else(|| *ALGORITHMS.choose(random).unwrap(), |i| CALM[i]);
    let odd = random.random_range(1..20_000);
    let lengths = [1, 7, 59, 100, 1000, 10_000, 60_000, 120_000, 3_600_000, 86_400_000, odd];
    let window = match algorithm {
        Algorithm::CalendarWindow => {
            *[1000, 5000, 60_000, 3_600_000, 604_800_000, 31_536_000_000].choose(random).unwrap()
        }
        _ if calm.is_some() => *[5000, 60_000, 60_000, 120_000].choose(random).unwrap(),
        _ => *lengths.choose(random).unwrap(),
    };
    let most = *[3, 10, 40, 3000, 90_000_000].choose(random).unwrap();
    // A round maximum and a window have a large common divisor.
    let is_round = random.random_bool(0.2);
    let burst = random.random_bool(0.3).then(|| random.random_range(1..20));
    LimitSpec {
        name: name.into(),
        max: Some(if is_round { most } else { random.random_range(0..=most) }),
        window: Some(Millis(window)),
        algorithm: Some(algorithm),
        burst: burst.filter(|_| algorithm == Algorithm::TokenBucket),
    }
}

fn tier(random: &mut ChaCha8Rng) -> TierSpec {
    let actions = [TierAction::Warn, TierAction::Throttle, TierAction::Ban];
    let action = *actions.choose(random).unwrap();
    let bans = if action == TierAction::Ban { random.random_range(0..3) } else { 0 };
    let ban_durations = (0..bans).map(|_| Millis(random.random_range(1..5000))).collect();
    TierSpec { above: Some(random.random_range(0..30)), action: Some(action), ban_durations }
}

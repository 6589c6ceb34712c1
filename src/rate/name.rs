//! Policy and key, and where what is kept of them lies.

use crate::{
    decision::Call,
    names::{Name, SEPARATOR},
};

/// In how many parts the keys of a policy lie, each with a history of events.
pub const SHARDS: usize = 32;
/// `/` and two digits.
const SHARD_BYTES: usize = 3;

/// Policy and key in one: the partition of rates.
///
/// The keys of a policy lie in [`SHARDS`] hash slots, each with a history of events:
/// what happens to a key and the event are one atomic step. Rules that come with calls
/// have no events, and each of their keys a slot of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterName {
    policy: usize,
    /// `POLICY/NN`, the separator, `KEY`; without a policy nothing before the separator.
    /// Names hold no separator, so no two pairs are equal.
    joined: Box<[u8]>,
}

impl MeterName {
    /// Of a policy, or of the rules that come with calls.
    pub fn new(policy: Option<&Name>, key: &Name) -> MeterName {
        let shard = policy.map(|policy| shard_tag(policy, shard(key.as_bytes())));
        let joined = [shard.as_deref().unwrap_or_default(), &[SEPARATOR], key.as_bytes()].concat();
        MeterName {
            policy: policy.map_or(0, |policy| policy.as_bytes().len()),
            joined: joined.into(),
        }
    }

    /// Both, joined.
    pub fn as_bytes(&self) -> &[u8] {
        &self.joined
    }

    /// Policy, which is none of the rules that come with calls, and key of a partition.
    pub(crate) fn split(partition: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
        let at = partition.iter().position(|byte| *byte == SEPARATOR)?;
        let policy = partition[..at].len().checked_sub(SHARD_BYTES).map(|end| &partition[..end]);
        Some((policy, &partition[at + 1..]))
    }

    /// What shares a hash slot with it: the shard, or itself without a policy.
    pub fn tag(&self) -> &[u8] {
        if self.has_events() { &self.joined[..self.policy + SHARD_BYTES] } else { &self.joined }
    }

    /// The policy; empty for the rules that come with calls.
    pub fn policy(&self) -> &[u8] {
        &self.joined[..self.policy]
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        let shard = if self.has_events() { SHARD_BYTES } else { 0 };
        &self.joined[self.policy + shard + 1..]
    }

    /// Whether what happens is told to those who watch.
    pub(super) fn has_events(&self) -> bool {
        self.policy > 0
    }

    /// Whether it is of a policy.
    pub(crate) fn has_policy(&self) -> bool {
        self.has_events()
    }

    /// Appends the stored key of one of its parts.
    pub(super) fn push_key(&self, call: &mut Call, part: &[u8]) {
        match self.has_events() {
            true => call.key(&[part, b":", self.key()]),
            false => call.key(&[part]),
        }
    }

    /// Appends the stored key of the answer to a request.
    pub(super) fn push_replay_key(&self, call: &mut Call, request: &[u8]) {
        match self.has_events() {
            true => call.key(&[b"replay:", self.key(), &[SEPARATOR], request]),
            false => call.key(&[b"replay:", request]),
        }
    }

    /// Appends the key as the subject of events; empty where there are none.
    pub(super) fn push_subject(&self, call: &mut Call) {
        call.bytes(&[if self.has_events() { self.key() } else { &[] }]);
    }
}

/// `POLICY/NN`: no name of a policy is another one's shard, since all end with three
/// bytes more.
pub fn shard_tag(policy: &Name, shard: usize) -> Box<[u8]> {
    let digits = [b'/', b'0' + (shard / 10) as u8, b'0' + (shard % 10) as u8];
    [policy.as_bytes(), &digits].concat().into()
}

/// In which shard a key lies: FNV-1a of 32 bits, folded to 5. Stored keys go by it: it
/// never changes.
fn shard(key: &[u8]) -> usize {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = key.iter().fold(0x811c_9dc5, step);
    ((hash >> 5) ^ hash) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a name")
    }

    #[test]
    fn keys_spread_over_the_shards_and_stay_there() {
        // Of the published test vectors of FNV-1a: 811c9dc5, e40c292c, bf9cf968.
        assert_eq!([&b""[..], b"a", b"foobar"].map(shard), [0x0b, 0x05, 0x03]);
        for pattern in ["user-", "ip:192.0.2.", "", "Ä"] {
            let mut keys = [0; SHARDS];
            (0..3200).for_each(|key| keys[shard(format!("{pattern}{key}").as_bytes())] += 1);
            assert!(keys.iter().all(|keys| (50..200).contains(keys)), "{pattern}: {keys:?}");
        }
    }

    #[test]
    fn parts_are_found_again_and_no_two_pairs_meet() {
        let names = ["p", "p/05", "p/05/05", "/", "a b", "%", "}"];
        let policies = names.iter().map(|policy| Some(name(policy))).chain([None]);
        let mut seen = std::collections::HashMap::new();
        for policy in policies {
            for key in names.map(name) {
                let meter = MeterName::new(policy.as_ref(), &key);
                assert_eq!(meter.key(), key.as_bytes());
                assert_eq!(meter.policy(), policy.as_ref().map_or(&[][..], Name::as_bytes));
                let mut call = Call::new("t", "rate", meter.tag());
                meter.push_key(&mut call, b"usage");
                meter.push_replay_key(&mut call, b"r");
                let pair = (policy.clone(), key.clone());
                for stored in call.finish().keys() {
                    assert_eq!(seen.insert(stored.to_vec(), pair.clone()), None, "{pair:?}");
                }
                assert!(meter.as_bytes().starts_with(meter.tag()));
            }
        }
    }
}

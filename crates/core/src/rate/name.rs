//! The name of a key under a policy, and its place in the store.

use crate::{
    Call,
    names::{Name, Namespace, SEPARATOR},
};

/// The number of shards of a policy. Each shard has its own hash slot and event history.
pub const SHARDS: usize = 32;
/// Policies whose names begin with this have all their keys in one shard, so that one step can
/// decide about several of them ([`CountAll`](super::CountAll)). Stored Redis keys depend on it.
pub const TOGETHER: &str = "envoy-all/";
/// The length of the suffix `/NN`.
const SHARD_BYTES: usize = 3;

/// Policy and key: the partition of rates.
///
/// The keys of a policy are spread over [`SHARDS`] hash slots, each with an event history. A change
/// of a key and its event are therefore one atomic step, and no single slot limits a policy. Rules
/// that come with calls have no events; each of their keys has its own slot. Policies of
/// [`TOGETHER`] have one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterName {
    /// The length of the policy's name with its namespace; 0 for rules that come with calls.
    policy: usize,
    /// The length of what precedes the separator.
    head: usize,
    /// `POLICY/NN`, the separator, `KEY`. Without a policy, only the prefix of the namespace
    /// precedes the separator. Names contain no separator, and a shard ends with a digit, so no two
    /// pairs are equal.
    joined: Box<[u8]>,
}

impl MeterName {
    /// Creates the name of a key under a policy, or under the rules that come with calls. The
    /// namespace is that of the policy, otherwise that of the key.
    pub fn new(policy: Option<&Name>, key: &Name) -> MeterName {
        let (prefix, local) = key.split();
        let shard = policy.map(|policy| {
            let is_one = policy.local().starts_with(TOGETHER.as_bytes());
            shard_tag(policy, if is_one { 0 } else { shard(local) })
        });
        let head = shard.as_deref().unwrap_or(prefix);
        MeterName {
            policy: policy.map_or(0, |policy| policy.as_bytes().len()),
            head: head.len(),
            joined: [head, &[SEPARATOR], local].concat().into(),
        }
    }

    /// Returns the partition.
    pub fn as_bytes(&self) -> &[u8] {
        &self.joined
    }

    /// Splits a partition into policy and key. The policy has its namespace. It is `None` for rules
    /// that come with calls.
    pub(crate) fn split(partition: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
        let at = partition.iter().position(|byte| *byte == SEPARATOR)?;
        let (head, key) = (&partition[..at], &partition[at + 1..]);
        let is_bare = Namespace::is_prefix(head);
        let policy = head.len().checked_sub(SHARD_BYTES).filter(|_| !is_bare);
        Some((policy.map(|end| &head[..end]), key))
    }

    /// Returns the hash tag: the shard, or the partition without a policy.
    pub fn tag(&self) -> &[u8] {
        if self.has_events() { &self.joined[..self.head] } else { &self.joined }
    }

    /// Returns the partition of its ban index: the policy, or the prefix of the namespace for rules
    /// that come with calls.
    pub fn index(&self) -> &[u8] {
        let end = if self.has_events() { self.policy } else { self.head };
        &self.joined[..end]
    }

    /// Returns the key, as callers see it.
    pub fn key(&self) -> &[u8] {
        &self.joined[self.head + 1..]
    }

    /// Returns the policy with its namespace; `None` for rules that come with calls.
    pub fn policy(&self) -> Option<&[u8]> {
        self.has_events().then(|| self.index())
    }

    /// Whether changes of this key produce events.
    pub(super) fn has_events(&self) -> bool {
        self.policy > 0
    }

    /// Appends the Redis key of one part of the state.
    pub(super) fn push_key(&self, call: &mut Call, part: &[u8]) {
        if self.has_events() { call.key(&[part, b":", self.key()]) } else { call.key(&[part]) }
    }

    /// Appends the Redis key of the answer to a request.
    pub(super) fn push_replay_key(&self, call: &mut Call, request: &[u8]) {
        if self.has_events() {
            call.key(&[b"replay:", self.key(), &[SEPARATOR], request])
        } else {
            call.key(&[b"replay:", request])
        }
    }

    /// Appends the key as the subject of events; empty without events.
    pub(super) fn push_subject(&self, call: &mut Call) {
        call.bytes(&[if self.has_events() { self.key() } else { &[] }]);
    }
}

/// Returns the part of a Redis key of a partition after the hash tag, as [`MeterName::push_key`]
/// and [`MeterName::push_replay_key`] build it.
pub(super) fn key_part(partition: &[u8], part: &[u8], request: Option<&[u8]>) -> Vec<u8> {
    let key = match MeterName::split(partition) {
        Some((Some(_), key)) => Some(key),
        _ => None,
    };
    [Some(part), key, request].into_iter().flatten().enumerate().fold(
        Vec::new(),
        |mut joined, (index, part)| {
            match (index, key) {
                (0, _) => {}
                (2, Some(_)) => joined.push(SEPARATOR),
                _ => joined.push(b':'),
            }
            joined.extend_from_slice(part);
            joined
        },
    )
}

/// Returns the tag `POLICY/NN` of a shard. Tags of different policies differ, because the tag
/// without its last three bytes is the policy.
pub fn shard_tag(policy: &Name, shard: usize) -> Box<[u8]> {
    let digits = [b'/', b'0' + (shard / 10) as u8, b'0' + (shard % 10) as u8];
    [policy.as_bytes(), &digits].concat().into()
}

/// Returns the shard of a key: FNV-1a with 32 bits, folded to 5. Stored Redis keys depend on it, so
/// it must never change.
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
    fn keys_spread_over_stable_shards() {
        // From the published test vectors of FNV-1a: 811c9dc5, e40c292c, bf9cf968.
        assert_eq!([&b""[..], b"a", b"foobar"].map(shard), [0x0b, 0x05, 0x03]);
        for pattern in ["user-", "ip:192.0.2.", "", "Ä"] {
            let mut keys = [0; SHARDS];
            (0..3200).for_each(|key| keys[shard(format!("{pattern}{key}").as_bytes())] += 1);
            assert!(keys.iter().all(|keys| (50..200).contains(keys)), "{pattern}: {keys:?}");
        }
    }

    #[test]
    fn policy_and_key_are_recovered_and_pairs_are_distinct() {
        let names = ["p", "p/05", "p/05/05", "/", "a b", "%", "}"];
        let namespaces = ["", "p", "a"].map(|text| Namespace::parse(text.as_bytes()).expect(text));
        let mut seen = std::collections::HashMap::new();
        let pairs = namespaces.iter().flat_map(|namespace| {
            let policies = names.iter().map(|policy| Some(name(policy).within(namespace)));
            policies.chain([None]).map(move |policy| (namespace, policy))
        });
        for (namespace, policy) in pairs {
            for key in names.map(|key| name(key).within(namespace)) {
                let meter = MeterName::new(policy.as_ref(), &key);
                assert_eq!(meter.key(), key.local());
                let index = policy.as_ref().map_or(namespace.prefix(), Name::as_bytes);
                assert_eq!(meter.index(), index);
                let split = (policy.as_ref().map(Name::as_bytes), key.local());
                assert_eq!(MeterName::split(meter.as_bytes()), Some(split));
                assert!(meter.as_bytes().starts_with(namespace.prefix()));
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

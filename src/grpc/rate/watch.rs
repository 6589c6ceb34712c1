//! `WatchRates`: the events of a policy's keys.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use tonic::Status;

use super::super::{convert::timestamp, events, fields::Fields, pb, scope::Scope, status};
use tollgate_core::{
    collections::After,
    names::Name,
    rate::{Policies, RateEvent, RateEventKind, ReadRateEvents, SHARDS},
    time::Timestamp,
};
use tollgate_engine::feed::{Start, Topic};

/// Maximum length of one number in a cursor, bytes: a varint (seven bits per byte, least
/// significant first) below 2^53.
const NUMBER_BYTES_MAX: u32 = 8;

/// The feed topic of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RateEvents(Name);

/// Parses the policy and the start of the stream. Fails with NOT_FOUND if the policy is unknown.
pub(super) fn parse(
    request: pb::WatchRatesRequest,
    scope: Scope,
    policies: &Policies,
) -> Result<(RateEvents, Start), Status> {
    let mut fields = Fields::new(scope);
    let policy = fields.partition("policy", request.policy);
    let start = events::start(&mut fields, request.after.as_deref(), decode);
    let policy = fields.finish(policy)?;
    if policies.contains(&policy) {
        Ok((RateEvents(policy.detached()), start))
    } else {
        Err(status::no_policy(&policy))
    }
}

/// Encodes a cursor: the number of the last event of each shard.
fn encode(seen: &[u64]) -> Bytes {
    let mut bytes = Vec::with_capacity(SHARDS * NUMBER_BYTES_MAX as usize);
    for &number in seen {
        let mut rest = number;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    URL_SAFE_NO_PAD.encode(bytes).into()
}

/// Decodes a cursor into one number per shard.
fn decode(text: &[u8]) -> Option<Box<[u64]>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (mut seen, mut number, mut place) = (Vec::with_capacity(SHARDS), 0, 0);
    for byte in bytes {
        if place == NUMBER_BYTES_MAX || seen.len() == SHARDS {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (7 * place);
        place += 1;
        if byte < 0x80 {
            seen.push(std::mem::take(&mut number));
            place = 0;
        }
    }
    (seen.len() == SHARDS && place == 0).then(|| seen.into())
}

impl Topic for RateEvents {
    type Event = RateEvent;
    type Read = ReadRateEvents;
    type Message = pb::WatchRatesResponse;

    const HISTORIES: usize = SHARDS;

    fn name(&self) -> (&str, &str) {
        (self.0.namespace(), self.0.as_str())
    }

    fn read(&self, shard: usize, after: After) -> ReadRateEvents {
        ReadRateEvents::new(&self.0, shard, after)
    }

    fn time(event: &RateEvent) -> Timestamp {
        event.time
    }

    fn told(&self, event: Option<RateEvent>, seen: &[u64]) -> pb::WatchRatesResponse {
        let mut told = event.map_or_else(gap, rate_event);
        told.cursor = events::cursor(&self.0, encode(seen));
        pb::WatchRatesResponse { event: Some(told) }
    }
}

fn gap() -> pb::RateEvent {
    pb::RateEvent { kind: pb::RateEventKind::Gap.into(), ..pb::RateEvent::default() }
}

fn rate_event(event: RateEvent) -> pb::RateEvent {
    let RateEvent { kind, time, above, count, until, strikes, key, reason, actor } = event;
    let mut told = pb::RateEvent {
        key: key.clone(),
        event_time: Some(timestamp(time)),
        above: above.map(u64::from),
        count,
        ..pb::RateEvent::default()
    };
    told.set_kind(match kind {
        RateEventKind::Warned => pb::RateEventKind::Warned,
        RateEventKind::Throttled => pb::RateEventKind::Throttled,
        RateEventKind::Banned => pb::RateEventKind::Banned,
        RateEventKind::Unbanned => pb::RateEventKind::Unbanned,
    });
    match kind {
        RateEventKind::Banned => {
            told.ban = Some(pb::Ban { key, until: Some(timestamp(until)), reason, strikes, actor });
        }
        _ => told.actor = actor,
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_back_and_nothing_else_is_one() {
        let most = (1 << 53) - 1;
        let seen: Vec<u64> =
            (0..SHARDS as u64).map(|i| [0, 127, 128, i, most][i as usize % 5]).collect();
        let cursor = encode(&seen);
        assert_eq!(decode(&cursor).as_deref(), Some(&*seen));
        assert!(encode(&[most; SHARDS]).len() <= 400);
        assert!(decode(&encode(&[1; SHARDS + 1])).is_none());
        assert!(decode(&encode(&[1; SHARDS - 1])).is_none());
        assert!(decode(&encode(&[u64::MAX; SHARDS])).is_none());
        assert!(decode(&cursor[..cursor.len() - 1]).is_none());
        assert!(decode(b"").is_none() && decode(b"12").is_none() && decode(b"\xff").is_none());
        // A number without its last byte.
        let open = URL_SAFE_NO_PAD.encode([[1; SHARDS - 1].as_slice(), &[0x80]].concat());
        assert!(decode(open.as_bytes()).is_none());
    }
}

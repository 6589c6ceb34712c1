//! Reads the partitions of a Redis, each in one MULTI, and parses them into lines.

use std::collections::BTreeSet;

use redis::{Cmd, Pipeline, cmd};

use super::{
    super::super::export::Failure,
    counters::{parse_answer, parse_ban, parse_counters},
    key::{KeyBuilder, Named},
    pool,
    primaries::Primaries,
    values::{Stored, number},
};
use crate::{
    decision::{
        export::{
            BuyerLine, HoldLine, Line, LockLine, OrderLine, OrderName, RangeLine, RateLine,
            RestockLine, SequenceLine, StockLine, Text,
        },
        names::SEPARATOR,
    },
    rate::MeterName,
    sequence::split_calendar,
};

/// The most reads of one pool. Each is repeated if leases without a known record have begun since
/// the SCAN.
const TRIES: usize = 5;

/// The lines of the partition with this tag.
pub(super) async fn partition(
    mut primaries: Primaries,
    keys: &KeyBuilder,
    tag: &[u8],
    mut found: BTreeSet<Vec<u8>>,
    now: u64,
) -> Result<Vec<Line>, Failure> {
    let damaged = |why: String| {
        Failure::Damaged(format!(
            "a key of this Redis cannot be exported: {}: {why}; lua/README.md describes the repair",
            tag.escape_ascii()
        ))
    };
    // Repeated only for pools: each try adds the records of leases that began since the SCAN.
    for attempt in 1..=TRIES {
        let named: Vec<(Vec<u8>, Named)> = found
            .iter()
            .map(|key| match keys.parse(key) {
                Some(named) => Ok((key.clone(), named)),
                None => Err(damaged(format!("{} is not a key of tollgate", key.escape_ascii()))),
            })
            .collect::<Result<_, _>>()?;
        let asked: Vec<_> = named.into_iter().filter_map(asked).collect();
        let Some((_, of, _)) = asked.first() else { return Ok(Vec::new()) };
        let (capability, name) = (of.capability.clone(), of.name.clone());
        // MULTI and EXEC: all values of the partition are of one instant.
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        for (_, _, command) in &asked {
            pipeline.add_command(command.clone());
        }
        let values = primaries.read_at_once(tag, &pipeline).await.map_err(&damaged)?;
        let stored = asked.into_iter().zip(values);
        let stored: Vec<Stored> =
            stored.map(|((_, named, _), value)| Stored { part: named.part, value }).collect();
        let lines = match &capability[..] {
            b"admission" => {
                let read = pool::parse(&Text::new(&name), &stored, attempt > 1, now);
                let read = read.map_err(&damaged)?;
                if !read.unrecorded.is_empty() && attempt < TRIES {
                    let tasks = read.unrecorded.iter();
                    found.extend(tasks.map(|task| keys.key("admission", &name, &[b"task:", task])));
                    continue;
                }
                if !read.unrecorded.is_empty() {
                    return Err(damaged(
                        "leases are granted faster than the export reads them: stop the servers"
                            .to_owned(),
                    ));
                }
                Ok(read.lines)
            }
            b"rate" => rates(&name, &stored),
            b"sequence" => sequence(&name, &stored, primaries.epoch(tag)),
            b"lock" => stored.iter().filter_map(|of| lock(&name, of)).collect(),
            b"stock" => stock(&name, &stored),
            _ => Ok(Vec::new()),
        };
        return lines.map_err(damaged);
    }
    Ok(Vec::new())
}

/// The command that reads a key. `None` for keys that need no export: derived ones, histories, and
/// the queue places of waiting calls.
fn asked((key, named): (Vec<u8>, Named)) -> Option<(Vec<u8>, Named, Cmd)> {
    let command = match (&named.capability[..], &named.part[..]) {
        (b"index" | b"bans", _) => return None,
        (_, b"events" | b"backlog" | b"due" | b"queue" | b"places" | b"tickets") => return None,
        (b"admission", b"leases") | (b"stock", b"holds") => {
            let mut command = cmd("ZRANGE");
            command.arg(&key).arg(0).arg(-1).arg("WITHSCORES");
            command
        }
        (b"admission", b"queued")
        | (b"sequence", b"counter")
        | (b"stock", b"stock" | b"buyers") => {
            let mut command = cmd("HGETALL");
            command.arg(&key);
            command
        }
        _ => {
            let mut command = cmd("GET");
            command.arg(&key);
            command
        }
    };
    Some((key, named, command))
}

/// The error text for an unreadable value.
fn unread(of: &Stored) -> String {
    format!("{} cannot be read", of.part.escape_ascii())
}

/// The lines of a rate partition: usage and ban of each key become one line, each answer another.
fn rates(name: &[u8], stored: &[Stored]) -> Result<Vec<Line>, String> {
    let joined = |key: &[u8]| [name, &[SEPARATOR], key].concat();
    let mut lines: Vec<Line> = Vec::new();
    let mut rates: std::collections::BTreeMap<Vec<u8>, RateLine> = Default::default();
    for of in stored {
        let Some(text) = of.text() else { continue };
        // With a policy the part contains the rate key; otherwise the name does.
        let (kind, rest) = match of.part.iter().position(|byte| *byte == b':') {
            Some(at) => (&of.part[..at], &of.part[at + 1..]),
            None => (&of.part[..], &[][..]),
        };
        let is_policys = name.first() != Some(&SEPARATOR);
        let (key, request) = match (is_policys, rest.iter().position(|byte| *byte == SEPARATOR)) {
            (true, Some(at)) => (&rest[..at], &rest[at + 1..]),
            (true, None) => (rest, &[][..]),
            (false, _) => (&[][..], rest),
        };
        let partition = if is_policys { joined(key) } else { name.to_vec() };
        let (policy, key) = MeterName::split(&partition).ok_or_else(|| unread(of))?;
        let (policy, key) = (policy.map(Text::new), Text::new(key));
        if kind == b"replay" {
            let answer = parse_answer(policy, key, Text::new(request), &text);
            // An unreadable answer is dropped: a repeat is then decided anew.
            lines.extend(answer.map(Line::RateReplay));
            continue;
        }
        let fresh = RateLine { policy, key, counters: Vec::new(), ban: None };
        let rate = rates.entry(partition.clone()).or_insert(fresh);
        match kind {
            b"usage" => rate.counters = parse_counters(&text).ok_or_else(|| unread(of))?,
            b"ban" => rate.ban = Some(parse_ban(&text).ok_or_else(|| unread(of))?),
            _ => return Err(unread(of)),
        }
    }
    lines.extend(rates.into_values().map(Line::Rate));
    Ok(lines)
}

/// The lines of a sequence: `last`, `time` and `reserved` of a hash, and answers of the form
/// `forget last step count floor_applied`. `epoch` is the primary's `master_replid`.
fn sequence(name: &[u8], stored: &[Stored], epoch: &[u8]) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for of in stored {
        let (sequence, calendar) = split_calendar(name);
        if let Some(request) = of.part.strip_prefix(b"replay:") {
            let range = of.text().and_then(|text| {
                let parts: Vec<u64> =
                    text.split(|byte| *byte == b' ').map(number).collect::<Option<_>>()?;
                let [forget, last, step, count, applied] = parts[..] else { return None };
                let (request, floor_applied) = (Text::new(request), applied == 1);
                Some(RangeLine {
                    sequence,
                    calendar,
                    request,
                    last,
                    step,
                    count,
                    floor_applied,
                    forget,
                })
            });
            lines.extend(range.map(Line::SequenceReplay));
            continue;
        }
        let fields = of.pairs();
        let field = |name: &[u8]| fields.iter().find(|(field, _)| field == name).map(|of| &of.1);
        let value = |name: &[u8]| match field(name) {
            Some(text) => number(text).map(Some).ok_or_else(|| unread(of)),
            None => Ok(None),
        };
        let (mut last, time, reserved) = (value(b"last")?, value(b"time")?, value(b"reserved")?);
        // Values reserved under another primary may have been given out by it.
        if field(b"epoch").is_none_or(|of| of != epoch) {
            last = last.max(reserved);
        }
        let time = time.unwrap_or(0);
        lines.extend(
            last.map(|last| Line::Sequence(SequenceLine { sequence, calendar, last, time })),
        );
    }
    Ok(lines)
}

/// A lock: `state token grant expire lease_ms owner`.
fn lock(name: &[u8], of: &Stored) -> Option<Result<Line, String>> {
    let text = of.text()?;
    let parse = || {
        let parts: Vec<&[u8]> = text.splitn(6, |byte| *byte == b' ').collect();
        let [state, token, grant, expire, lease, owner] = parts[..] else { return None };
        Some(Line::Lock(LockLine {
            lock: Text::new(name),
            owner: Text::new(owner),
            token: number(token)?,
            grant: number(grant)?,
            expire: number(expire)?,
            lease_ms: number(lease)?,
            released: state == b"R",
        }))
    };
    Some(parse().ok_or_else(|| unread(of)))
}

/// The lines of a sku: its numbers, holds, buyers, orders and answers.
fn stock(name: &[u8], stored: &[Stored]) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for of in stored {
        let sku = || Text::new(name);
        match &of.part[..] {
            b"stock" => {
                let fields = of.pairs();
                let value = |name: &[u8]| {
                    fields.iter().find(|(field, _)| field == name).and_then(|of| number(&of.1))
                };
                let numbers = (value(b"on_hand"), value(b"reserved"), value(b"sold"));
                if let (Some(on_hand), Some(reserved), Some(sold)) = numbers {
                    lines.push(Line::Stock(StockLine { sku: sku(), on_hand, reserved, sold }));
                } else if !fields.is_empty() {
                    return Err(unread(of));
                }
            }
            b"holds" => {
                let holds = of.pairs().into_iter().map(|(member, _)| hold(sku(), &member));
                lines.extend(holds.collect::<Option<Vec<_>>>().ok_or_else(|| unread(of))?);
            }
            b"buyers" => {
                for (buyer, count) in of.pairs() {
                    let count = number(&count).ok_or_else(|| unread(of))?;
                    lines.push(Line::Buyer(BuyerLine { sku: sku(), buyer: Text(buyer), count }));
                }
            }
            part => {
                let Some(text) = of.text() else { continue };
                if let Some(request) = part.strip_prefix(b"replay:") {
                    lines.extend(restock(sku(), Text::new(request), &text));
                } else if let Some(order) = part.strip_prefix(b"order:") {
                    let order = order_line(sku(), Text::new(order), &text);
                    lines.push(order.ok_or_else(|| unread(of))?);
                } else {
                    return Err(unread(of));
                }
            }
        }
    }
    Ok(lines)
}

/// A hold: `order quantity buyer expire`, joined by `\x1f`.
fn hold(sku: Text, member: &[u8]) -> Option<Line> {
    let parts: Vec<&[u8]> = member.split(|byte| *byte == SEPARATOR).collect();
    let [order, quantity, buyer, expire] = parts[..] else { return None };
    let (order, buyer) = (Text::new(order), Text::new(buyer));
    let (quantity, expire) = (number(quantity)?, number(expire)?);
    Some(Line::Hold(HoldLine { sku, order, quantity, buyer, expire }))
}

/// An answer to SetStock or AddStock: `forget on_hand reserved sold`.
fn restock(sku: Text, request: Text, text: &[u8]) -> Option<Line> {
    let parts: Vec<u64> = text.split(|byte| *byte == b' ').map(number).collect::<Option<_>>()?;
    let [forget, on_hand, reserved, sold] = parts[..] else { return None };
    Some(Line::StockReplay(RestockLine { sku, request, on_hand, reserved, sold, forget }))
}

/// An order: `state quantity grant expire forget limit buyer`.
fn order_line(sku: Text, order: Text, text: &[u8]) -> Option<Line> {
    let parts: Vec<&[u8]> = text.splitn(7, |byte| *byte == b' ').collect();
    let [state, quantity, grant, expire, forget, limit, buyer] = parts[..] else { return None };
    let state = match state {
        b"H" => OrderName::Held,
        b"C" => OrderName::Confirmed,
        b"X" => OrderName::Cancelled,
        _ => return None,
    };
    Some(Line::Order(OrderLine {
        sku,
        order,
        state,
        quantity: number(quantity)?,
        grant: number(grant)?,
        expire: number(expire)?,
        buyer: Text::new(buyer),
        limit: Some(number(limit)?).filter(|limit| *limit > 0),
        forget: number(forget)?,
    }))
}

//! Reads CLUSTER SLOTS: the ranges of slots with their primary and replicas.
//!
//! `cluster` and `export` can ask any node for it. An answer in another form is an error, never a
//! partial map.

use redis::{ErrorKind, RedisResult, Value};

use super::{address::Endpoint, socket, source::CONNECT_TIMEOUT};

/// A range of slots with its primary and replicas, each as `host:port`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    /// The first slot.
    pub(super) first: u16,
    /// The last slot, inclusive.
    pub(super) last: u16,
    pub(super) primary: String,
    pub(super) replicas: Vec<String>,
}

/// Asks a node for the map. A node that does not know its own host is assumed to be at the host
/// that was asked.
pub(super) async fn parse_map(asked: &Endpoint) -> RedisResult<Vec<SlotRange>> {
    let mut socket = socket::connect(asked, CONNECT_TIMEOUT).await?;
    let value: Value = redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut socket).await?;
    parse(value, asked.host()).ok_or_else(|| {
        (ErrorKind::UnexpectedReturnType, "cannot parse the answer to CLUSTER SLOTS").into()
    })
}

pub(super) fn parse(value: Value, asked: &str) -> Option<Vec<SlotRange>> {
    let Value::Array(parts) = value else { return None };
    parts.into_iter().map(|part| parse_part(part, asked)).collect()
}

fn parse_part(value: Value, asked: &str) -> Option<SlotRange> {
    let Value::Array(fields) = value else { return None };
    let mut fields = fields.into_iter();
    let slot = |value| match value {
        Value::Int(number) => u16::try_from(number).ok(),
        _ => None,
    };
    let (first, last) = (slot(fields.next()?)?, slot(fields.next()?)?);
    let mut places = fields.map(|node| place(node, asked));
    let primary = places.next()??;
    Some(SlotRange { first, last, primary, replicas: places.flatten().collect() })
}

/// Returns the `host:port` of a node; the host is `asked` if the node does not know its own.
fn place(value: Value, asked: &str) -> Option<String> {
    let Value::Array(fields) = value else { return None };
    let mut fields = fields.into_iter();
    let host = match fields.next()? {
        Value::BulkString(host) if !host.is_empty() && host != b"?" => {
            String::from_utf8(host).ok()?
        }
        _ => asked.to_owned(),
    };
    match fields.next()? {
        Value::Int(port) => Some(format!("{host}:{port}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())])
    }

    fn host(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn parts_have_a_primary_and_replicas() {
        let range =
            [Value::Int(0), Value::Int(99), node(host("10.0.0.1"), 1), node(host("10.0.0.2"), 2)];
        let map = parse(Value::Array(vec![Value::Array(range.to_vec())]), "seed");
        let (primary, replicas) = ("10.0.0.1:1".to_owned(), vec!["10.0.0.2:2".to_owned()]);
        assert_eq!(map, Some(vec![SlotRange { first: 0, last: 99, primary, replicas }]));
    }

    #[test]
    fn a_node_that_does_not_know_its_host_is_at_the_asked_host() {
        for unknown in [Value::Nil, host(""), host("?")] {
            let range = vec![Value::Int(0), Value::Int(0), node(unknown, 7000)];
            let map = parse(Value::Array(vec![Value::Array(range)]), "seed").unwrap();
            assert_eq!(map[0].primary, "seed:7000");
        }
    }

    #[test]
    fn other_answers_are_rejected() {
        assert_eq!(parse(Value::Int(1), "seed"), None);
        assert_eq!(parse(Value::Array(vec![Value::Array(vec![Value::Int(-1)])]), "seed"), None);
    }
}

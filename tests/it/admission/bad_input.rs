//! Each field of each RPC out of range, missing, too long, with control characters or not UTF-8.
//! INVALID_ARGUMENT names all bad fields, and nothing is written.

use std::collections::BTreeSet;

use prost::encoding::{WireType, encode_key, encode_varint};
use tollgate_client::pb;
use tonic::{
    Code, Request, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};
use tonic_types::StatusExt;

use crate::support::world::World;

on_both_engines! {
    every_bad_field_is_named_and_nothing_is_written,
    invalid_protobuf_is_an_invalid_argument,
    a_message_that_is_too_large_is_refused,
}

/// A field of a request: its number and name, a good value and bad values.
struct Field {
    number: u32,
    name: &'static str,
    good: Value,
    bad: Vec<Value>,
}

#[derive(Clone)]
enum Value {
    Absent,
    Bytes(Vec<u8>),
    Number(u64),
}

fn name(number: u32, name: &'static str, required: bool) -> Field {
    let mut bad = vec![
        Value::Bytes(vec![b'x'; 257]),
        Value::Bytes(b"line\nbreak".to_vec()),
        Value::Bytes(b"\x00".to_vec()),
        Value::Bytes("next\u{85}line".into()),
        Value::Bytes(b"\x7f".to_vec()),
        Value::Bytes(b"\xff\xfe".to_vec()),
        Value::Bytes(b"cut \xe2\x82".to_vec()),
    ];
    if required {
        bad.extend([Value::Absent, Value::Bytes(Vec::new())]);
    }
    Field { number, name, good: Value::Bytes(b"good".to_vec()), bad }
}

fn duration(number: u32, name: &'static str, too_long: u64, zero_is_bad: bool) -> Field {
    let encode = |seconds: i64, nanos: i32| {
        let duration = prost_types::Duration { seconds, nanos };
        Value::Bytes(prost::Message::encode_to_vec(&duration))
    };
    let mut bad = vec![
        encode(-1, 0),
        encode(0, -1),
        encode(0, 1_000_000_000),
        encode(too_long as i64, 1),
        encode(i64::MAX, 0),
        encode(i64::MIN, 0),
    ];
    if zero_is_bad {
        bad.extend([encode(0, 0), encode(0, 99_000_000)]);
    }
    Field { number, name, good: Value::Absent, bad }
}

fn numbers(number: u32, name: &'static str, bad: &[u64]) -> Field {
    let bad = bad.iter().map(|value| Value::Number(*value)).collect();
    Field { number, name, good: Value::Absent, bad }
}

fn bytes(number: u32, name: &'static str, bad: &[&[u8]]) -> Field {
    let bad = bad.iter().map(|value| Value::Bytes(value.to_vec())).collect();
    Field { number, name, good: Value::Absent, bad }
}

fn task(mut others: Vec<Field>) -> Vec<Field> {
    let mut fields =
        vec![name(1, "pool", true), name(2, "device_id", true), name(3, "task_id", true)];
    fields.append(&mut others);
    fields
}

const DAY: u64 = 86_400;

fn requests() -> Vec<(&'static str, Vec<Field>)> {
    let reason: [&[u8]; 3] = [&[b'x'; 257], b"\x1b[2J", b"\xc3"];
    let token: [&[u8]; 4] = [b"?", b"AAAA", b"MR8A", b"\xff"];
    let mut admit = task(vec![duration(4, "lease_duration", DAY, true)]);
    admit[2] = name(3, "task_id", false);
    vec![
        ("AdmitTask", admit),
        (
            "CompleteTask",
            task(vec![numbers(5, "outcome", &[3, 99]), bytes(6, "result", &[&[0; 65_537]])]),
        ),
        ("RenewTask", task(vec![duration(5, "lease_duration", DAY, true)])),
        ("EvictTask", task(vec![bytes(4, "reason", &reason)])),
        ("GetPool", vec![name(1, "pool", true)]),
        ("CancelTask", task(vec![])),
        ("RequeueTask", task(vec![])),
        (
            "ListTasks",
            vec![
                name(1, "pool", true),
                numbers(2, "state", &[6, 99]),
                numbers(3, "page_size", &[0, 1001]),
                bytes(4, "page_token", &token),
            ],
        ),
        (
            "ConfigurePool",
            vec![
                name(1, "pool", true),
                numbers(2, "capacity", &[1_000_001, u32::MAX.into()]),
                duration(3, "lease_duration", DAY, true),
                duration(4, "expiry_grace", 30 * DAY, false),
                numbers(7, "max_attempts", &[0, 1001]),
            ],
        ),
        (
            "ListPools",
            vec![
                numbers(1, "page_size", &[0, 1001, u32::MAX.into()]),
                bytes(2, "page_token", &token),
            ],
        ),
        (
            "ListLeases",
            vec![
                name(1, "pool", true),
                numbers(2, "page_size", &[0, 1001]),
                bytes(3, "page_token", &token),
            ],
        ),
    ]
}

fn encode(fields: &[(u32, &Value)]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, value) in fields {
        match value {
            Value::Absent => {}
            Value::Bytes(bytes) => {
                encode_key(*number, WireType::LengthDelimited, &mut message);
                encode_varint(bytes.len() as u64, &mut message);
                message.extend_from_slice(bytes);
            }
            Value::Number(value) => {
                encode_key(*number, WireType::Varint, &mut message);
                encode_varint(*value, &mut message);
            }
        }
    }
    message
}

fn named(status: &Status) -> BTreeSet<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let violations = &details.bad_request().expect("BadRequest in the details").field_violations;
    assert!(violations.iter().all(|violation| !violation.description.is_empty()));
    violations.iter().map(|violation| violation.field.clone()).collect()
}

async fn every_bad_field_is_named_and_nothing_is_written(world: World) {
    let before = world.keys().await;
    let mut calls = 0;
    for (method, fields) in requests() {
        // One bad field among good ones.
        for (index, field) in fields.iter().enumerate() {
            for bad in &field.bad {
                let value = |at: usize| if at == index { bad } else { &fields[at].good };
                let message: Vec<_> =
                    (0..fields.len()).map(|at| (fields[at].number, value(at))).collect();
                let status = call(&world, method, encode(&message)).await.unwrap_err();
                assert_eq!(named(&status), BTreeSet::from([field.name.to_owned()]), "{method}");
                calls += 1;
            }
        }
        // All fields bad in one request.
        let message: Vec<_> = fields.iter().map(|field| (field.number, &field.bad[0])).collect();
        let status = call(&world, method, encode(&message)).await.unwrap_err();
        let all = fields.iter().map(|field| field.name.to_owned()).collect();
        assert_eq!(named(&status), all, "{method}");
    }
    assert!(calls > 150, "{calls} calls");
    assert_eq!(world.keys().await, before);
    let pools = world.client.clone().list_pools(pb::ListPoolsRequest::default()).await.unwrap();
    assert_eq!(pools.into_inner().pools, []);
}

async fn invalid_protobuf_is_an_invalid_argument(world: World) {
    for garbage in
        [&b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\x0a\xff", b"\x0f", b"\x08"]
    {
        for (method, _) in requests() {
            let status = call(&world, method, garbage.to_vec()).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{method} {garbage:?} {status:?}");
        }
    }
    assert_eq!(world.in_use("p").await, 0);
}

async fn a_message_that_is_too_large_is_refused(world: World) {
    let status = call(&world, "CompleteTask", vec![0x32; 5 << 20]).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("too large"), "{status:?}");
    assert_eq!(world.in_use("p").await, 0);
}

/// Calls a method with raw bytes as the message.
pub(super) async fn call(world: &World, method: &str, message: Vec<u8>) -> Result<(), Status> {
    let channel = Channel::from_shared(world.address.clone()).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = format!("/tollgate.v1.AdmissionService/{method}");
    let path = PathAndQuery::try_from(path).unwrap();
    client.unary(Request::new(message), path, Raw).await.map(drop)
}

/// A codec that sends bytes unchanged and drops the answer.
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let left = prost::bytes::Buf::remaining(buffer);
        prost::bytes::Buf::advance(buffer, left);
        Ok(Some(()))
    }
}

//! Counts the elements of repeated fields before a message is decoded.
//!
//! An empty element takes two bytes on the wire and a struct of 100 to 200 bytes in memory, so a
//! message of 4 MiB could decode to 400 MB. Text fields take no extra memory, because they are
//! slices of the message. With the bounds, any message above 512 bytes decodes to at most 1 MiB of
//! structs.

use std::ops::RangeInclusive;

use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use tonic::Status;
use tonic_types::FieldViolation;

use super::{envoy_pb::RateLimitRequest, pb, status};
use tollgate_core::{
    admission::{ENQUEUE_MAX, REQUESTS_MAX},
    envoy::{DESCRIPTORS_MAX, ENTRIES_MAX},
    rate::{BAN_DURATIONS_MAX, CHECKS_MAX, LIMITS_MAX, TIERS_MAX},
};
use tollgate_engine::budget::{self, ReachedLimit};

/// Messages up to this length are decoded without counting. They have few elements, which the
/// request parser checks.
const UNCOUNTED_BYTES: usize = 512;
/// Maximum number of bounded fields of one message.
const FIELDS_MAX: usize = 2;

/// A request message of the server.
pub(crate) trait Request: Message + Default {
    /// The repeated fields, and the fields whose messages contain repeated fields.
    const FIELDS: &'static [Field] = &[];

    /// Reserves memory for this number of elements of the only repeated field. Without it the
    /// elements are copied several times while their vector grows: a quarter of the decoding.
    fn reserve(&mut self, _elements: usize) {}
}

/// A repeated field, or a field whose message contains repeated fields.
#[derive(Debug)]
pub(crate) struct Field {
    /// The name in the proto file, for violations.
    name: &'static str,
    /// The number in the proto file.
    tag: u32,
    /// Range of the number of elements; `None` for a field that is not repeated. A message has
    /// either repeated fields only, or exactly one field that is not repeated.
    elements: Option<RangeInclusive<usize>>,
    /// The fields of the embedded message.
    inside: &'static [Field],
}

// The bounded fields of requests. A test compares them with the descriptors.
const TASKS: &[Field] =
    &[Field { name: "tasks", tag: 2, elements: Some(1..=ENQUEUE_MAX), inside: &[] }];
const ITEMS: &[Field] =
    &[Field { name: "requests", tag: 1, elements: Some(1..=REQUESTS_MAX), inside: &[] }];
const CHECKS: &[Field] =
    &[Field { name: "checks", tag: 1, elements: Some(1..=CHECKS_MAX), inside: CHECK }];
const CHECK: &[Field] = &[Field { name: "rule", tag: 3, elements: None, inside: RULE }];
const RULE: &[Field] = &[
    Field { name: "limits", tag: 1, elements: Some(0..=LIMITS_MAX), inside: &[] },
    Field { name: "tiers", tag: 2, elements: Some(0..=TIERS_MAX), inside: TIER },
];
const TIER: &[Field] =
    &[Field { name: "ban_durations", tag: 3, elements: Some(0..=BAN_DURATIONS_MAX), inside: &[] }];

const DESCRIPTORS: &[Field] =
    &[Field { name: "descriptors", tag: 2, elements: Some(0..=DESCRIPTORS_MAX), inside: ENTRIES }];
const ENTRIES: &[Field] =
    &[Field { name: "entries", tag: 1, elements: Some(0..=ENTRIES_MAX), inside: &[] }];

impl Request for RateLimitRequest {
    const FIELDS: &'static [Field] = DESCRIPTORS;
}

/// Implements [`Request`] for messages, with the bounded fields after the colon, and after `in` the
/// repeated field of a batch.
macro_rules! requests {
    ($($message:ident $(: $fields:ident $(in $elements:ident)?)?),* $(,)?) => {
        $(impl Request for pb::$message {
            $(
                const FIELDS: &'static [Field] = $fields;

                $(fn reserve(&mut self, elements: usize) {
                    self.$elements.reserve_exact(elements);
                })?
            )?
        })*

        #[cfg(test)]
        const REQUESTS: &[(&str, &[Field])] =
            &[$((stringify!($message), <pb::$message as Request>::FIELDS)),*];
    };
}

requests! {
    AcceptStoreLossRequest,
    AcquireLockRequest,
    AddStockRequest,
    AdmitTaskRequest,
    AdmitTasksRequest: ITEMS in requests,
    BanRequest,
    CancelReservationRequest,
    CancelTaskRequest,
    CheckRateRequest: CHECK,
    CheckRatesRequest: CHECKS in checks,
    CompleteTaskRequest,
    CompleteTasksRequest: ITEMS in requests,
    ConfigurePoolRequest,
    ConfirmReservationRequest,
    EnqueueTasksRequest: TASKS in tasks,
    EvictTaskRequest,
    GetKeyRequest,
    GetLockRequest,
    GetPoolRequest,
    GetSequenceRequest,
    GetStatusRequest,
    GetStockRequest,
    ListBansRequest,
    ListLeasesRequest,
    ListLocksRequest,
    ListPoliciesRequest,
    ListPoolsRequest,
    ListSequencesRequest,
    ListStockRequest,
    ListTasksRequest,
    NextSequenceRequest,
    ReleaseLockRequest,
    ReloadConfigRequest,
    RenewLockRequest,
    RenewTaskRequest,
    RenewTasksRequest: ITEMS in requests,
    RequeueTaskRequest,
    ReserveStockRequest,
    ResetRateRequest,
    SetSequenceFloorRequest,
    SetStockRequest,
    UnbanRequest,
    WatchPoolRequest,
    WatchRatesRequest,
}

/// Whether the elements of a message of this length are counted.
pub(super) fn are_counted<R: Request>(length: usize) -> bool {
    !R::FIELDS.is_empty() && length > UNCOUNTED_BYTES
}

/// Returns the number of elements of the first field. Fails with INVALID_ARGUMENT if a repeated
/// field has too many. A malformed message is counted up to its first error, where decoding fails
/// too.
pub(super) fn count<R: Request>(message: &[u8]) -> Result<usize, Status> {
    let mut counts = [0; FIELDS_MAX];
    let Err(ScanEnd::TooMany { path, bound }) = scan(message, R::FIELDS, &mut counts) else {
        return Ok(counts[0]);
    };
    budget::note(ReachedLimit::Elements);
    Err(status::invalid(vec![FieldViolation::new(path, bound)], 0))
}

/// The reason why a scan ended early.
enum ScanEnd {
    /// The message cannot be decoded from here on. The decoder reports that.
    Malformed,
    /// A field has too many elements: its path, and a description of the bound.
    TooMany { path: String, bound: String },
}

impl From<DecodeError> for ScanEnd {
    fn from(_: DecodeError) -> ScanEnd {
        ScanEnd::Malformed
    }
}

/// Scans a message as prost decodes it. Protobuf merges the occurrences of a field that is not
/// repeated, so `counts` spans all of them. Recursion follows `fields`, not the message, so its depth
/// is that of the proto files.
fn scan(
    mut message: &[u8],
    fields: &[Field],
    counts: &mut [usize; FIELDS_MAX],
) -> Result<(), ScanEnd> {
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message)?;
        let found = fields.iter().zip(&mut *counts).find(|(field, _)| field.tag == tag);
        let Some((field, count)) = found else {
            skip_field(wire_type, tag, &mut message, DecodeContext::default())?;
            continue;
        };
        if wire_type != WireType::LengthDelimited {
            return Err(ScanEnd::Malformed);
        }
        let length = decode_varint(&mut message)?;
        let inside =
            usize::try_from(length).ok().and_then(|length| message.split_at_checked(length));
        let (inside, rest) = inside.ok_or(ScanEnd::Malformed)?;
        message = rest;
        let Some(bound) = &field.elements else {
            scan(inside, field.inside, counts).map_err(|stop| below(field.name, stop))?;
            continue;
        };
        let index = *count;
        *count += 1;
        if !bound.contains(count) {
            return Err(too_many(field.name, bound));
        }
        if !field.inside.is_empty() {
            scan(inside, field.inside, &mut [0; FIELDS_MAX])
                .map_err(|stop| below(&format!("{}[{index}]", field.name), stop))?;
        }
    }
    Ok(())
}

/// Describes a bound, in the words of the request parsers.
fn too_many(name: &str, bound: &RangeInclusive<usize>) -> ScanEnd {
    let bound = match (bound.start(), bound.end()) {
        (0, most) => format!("must be at most {most} {name}"),
        (least, most) => format!("must be {least} to {most} {name}"),
    };
    ScanEnd::TooMany { path: name.to_owned(), bound }
}

/// Prepends the outer field to the path of a violation.
fn below(outer: &str, stop: ScanEnd) -> ScanEnd {
    match stop {
        ScanEnd::TooMany { path, bound } => {
            ScanEnd::TooMany { path: format!("{outer}.{path}"), bound }
        }
        ScanEnd::Malformed => ScanEnd::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use prost_types::{
        DescriptorProto, FileDescriptorSet,
        field_descriptor_proto::{Label, Type},
    };

    use super::{super::reflection, *};

    fn refused<R: Request>(message: &[u8]) -> Option<String> {
        count::<R>(message).err().map(|status| status.message().to_owned())
    }

    /// A field that holds a message, repeated `times` times.
    fn field(tag: u8, inside: &[u8], times: usize) -> Vec<u8> {
        let mut one = vec![tag << 3 | 2];
        prost::encoding::encode_varint(inside.len() as u64, &mut one);
        [one.as_slice(), inside].concat().repeat(times)
    }

    #[test]
    fn h4_elements_are_counted_at_every_depth() {
        let tasks = |times| refused::<pb::EnqueueTasksRequest>(&field(2, &[], times));
        assert_eq!(tasks(1000), None);
        assert_eq!(tasks(1001).unwrap(), "tasks must be 1 to 1000 tasks");

        let check = |rule: &[u8]| refused::<pb::CheckRateRequest>(&field(3, rule, 1));
        assert_eq!(check(&[field(1, &[], 8), field(2, &[], 8)].concat()), None);
        assert_eq!(check(&field(1, &[], 9)).unwrap(), "rule.limits must be at most 8 limits");
        let tiers = [field(2, &[], 3), field(2, &field(3, &[], 17), 1)].concat();
        let bound = "ban_durations must be at most 16 ban_durations";
        assert_eq!(check(&tiers).unwrap(), format!("rule.tiers[3].{bound}"));

        let checks = [field(1, &[], 1), field(1, &field(3, &tiers, 1), 1)].concat();
        let refused = refused::<pb::CheckRatesRequest>(&checks);
        assert_eq!(refused.unwrap(), format!("checks[1].rule.tiers[3].{bound}"));
    }

    #[test]
    fn h4_occurrences_that_protobuf_merges_are_counted_together() {
        let rules = field(3, &field(1, &[], 5), 2);
        let merged = pb::CheckRateRequest::decode(rules.as_slice()).unwrap();
        let Some(pb::check_rate_request::Against::Rule(rule)) = merged.against else { panic!() };
        assert_eq!(rule.limits.len(), 10);
        let refused = refused::<pb::CheckRateRequest>(&rules);
        assert_eq!(refused.unwrap(), "rule.limits must be at most 8 limits");
    }

    #[test]
    fn h4_elements_before_an_error_and_between_unknown_fields_are_counted() {
        let group = [&[0x4b][..], &field(2, &[], 1), &[0x4c]].concat();
        for other in [&[0x48, 0x01][..], &group, &field(1, b"pool", 1)] {
            let mixed = [other, &field(2, &[], 1)].concat().repeat(1001);
            assert!(refused::<pb::EnqueueTasksRequest>(&mixed).is_some(), "{other:?}");
            // Only elements of the message itself count.
            let mixed = [other, &field(2, &[], 1)].concat().repeat(1000);
            assert_eq!(refused::<pb::EnqueueTasksRequest>(&mixed), None, "{other:?}");
        }
        for end in [&[0xff][..], &[0x12, 0x7f], &[0x10, 0x01], &[0x4b], &[0x4c], &[0x07]] {
            let broken = [&field(2, &[], 1000), end].concat();
            assert_eq!(refused::<pb::EnqueueTasksRequest>(&broken), None, "{end:?}");
            assert!(pb::EnqueueTasksRequest::decode(broken.as_slice()).is_err(), "{end:?}");
            let broken = [&field(2, &[], 1001), end].concat();
            assert!(refused::<pb::EnqueueTasksRequest>(&broken).is_some(), "{end:?}");
        }
    }

    /// Compares the bounded fields of a message with its descriptor, recursively.
    fn compare(messages: &[&DescriptorProto], name: &str, fields: &[Field]) -> bool {
        let Some(message) = messages.iter().find(|message| message.name() == name) else {
            // Messages of google.protobuf have no repeated fields.
            return false;
        };
        let single = fields.iter().filter(|field| field.elements.is_none()).count();
        assert!(single == 0 || fields.len() == 1, "{name}: fields share counts");
        assert!(fields.len() <= FIELDS_MAX, "{name}");
        let mut has_repeated = false;
        for described in &message.field {
            let known = fields.iter().find(|field| field.tag == described.number() as u32);
            let is_repeated = described.label() == Label::Repeated;
            let inside = known.map_or(&[][..], |field| field.inside);
            let is_message = described.r#type() == Type::Message;
            let type_name = described.type_name().rsplit('.').next().unwrap();
            let is_bounded = is_repeated || is_message && compare(messages, type_name, inside);
            if is_repeated && is_message {
                compare(messages, type_name, inside);
            }
            has_repeated |= is_bounded;
            let path = format!("{name}.{}", described.name());
            assert_eq!(known.is_some(), is_bounded, "{path}");
            if let Some(known) = known {
                assert_eq!(known.name, described.name());
                assert_eq!(known.elements.is_some(), is_repeated, "{path}");
            }
        }
        has_repeated
    }

    #[test]
    fn h4_every_repeated_field_of_a_request_has_a_bound() {
        let set = FileDescriptorSet::decode(reflection::DESCRIPTORS).unwrap();
        let ours = set.file.iter().filter(|file| file.package() == "tollgate.v1");
        let messages: Vec<_> = ours.flat_map(|file| &file.message_type).collect();
        for (name, fields) in REQUESTS {
            compare(&messages, name, fields);
        }
        let envoy = set.file.iter().filter(|file| file.package().starts_with("envoy."));
        let messages: Vec<_> = envoy.flat_map(|file| &file.message_type).collect();
        assert!(compare(&messages, "RateLimitRequest", RateLimitRequest::FIELDS));
    }
}

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

use super::status;
use tollgate_telemetry::limits::ReachedLimit;

/// Messages up to this length are decoded without counting. They have few elements, which the
/// request parser checks.
const UNCOUNTED_BYTES: usize = 512;

/// A request message of the server. The build script generates the implementations from the options
/// of the proto files.
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
    pub(super) name: &'static str,
    /// The number in the proto file.
    pub(super) tag: u32,
    /// Range of the number of elements; `None` for a field that is not repeated. A message has
    /// either repeated fields only, or exactly one field that is not repeated.
    pub(super) elements: Option<RangeInclusive<usize>>,
    /// The fields of the embedded message.
    pub(super) inside: &'static [Field],
}

include!(concat!(env!("OUT_DIR"), "/requests.rs"));

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
    ReachedLimit::Elements.record();
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
            let (path, bound) = (field.name.to_owned(), described(field.name, bound));
            return Err(ScanEnd::TooMany { path, bound });
        }
        if !field.inside.is_empty() {
            scan(inside, field.inside, &mut [0; FIELDS_MAX])
                .map_err(|stop| below(&format!("{}[{index}]", field.name), stop))?;
        }
    }
    Ok(())
}

/// Describes the bound of a field.
pub(super) fn described(name: &str, bound: &RangeInclusive<usize>) -> String {
    match (bound.start(), bound.end()) {
        (0, most) => format!("must be at most {most} {name}"),
        (least, most) => format!("must be {least} to {most} {name}"),
    }
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
    use super::{super::pb, *};

    fn refused<R: Request>(message: &[u8]) -> Option<String> {
        count::<R>(message).err().map(|status| status.message().to_owned())
    }

    /// Returns a field that holds a message, repeated `times` times.
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
}

//! Converts outcomes to responses.

use bytes::Bytes;
use tonic::Status;

use super::super::{convert::timestamp, pb, status};
use tollgate_core::{
    error::Error,
    sequence::{AHEAD_DEFAULT, Allocation, Dating, Floor, GetSequence, Sequence},
    time::{Millis, Timestamp},
};
use tollgate_engine::ReadEntries;

/// Converts an allocation. Fails if no values were issued.
pub(super) fn next_sequence(
    allocation: &Allocation,
    sequence: &Sequence,
) -> Result<pb::NextSequenceResponse, Status> {
    match allocation {
        Allocation::Given { range, floor_applied, replayed } => {
            let serials = sequence
                .layout()
                .into_iter()
                .flat_map(|layout| range.values().map(move |value| layout.serial(value).into()));
            Ok(pb::NextSequenceResponse {
                first: wire(sequence, range.first()),
                last: wire(sequence, range.last),
                step: range.step,
                serials: serials.collect(),
                floor_applied: *floor_applied,
                replayed: *replayed,
            })
        }
        Allocation::OutOfRange => Err(status::no_values_left()),
        Allocation::TooFarAhead { by_floor } => Err(if *by_floor {
            status::floor_too_far_ahead(ahead_max(sequence))
        } else {
            status::numbers_used_up(ahead_max(sequence))
        }),
        Allocation::Unreserved { .. } => Err(status::from_error(Error::Unavailable(
            "other servers took the reserved values; retry".to_owned(),
        ))),
    }
}

/// Converts a floor. Fails if it is too far ahead of the clock.
pub(super) fn set_sequence_floor(
    floor: Floor,
    sequence: &Sequence,
) -> Result<pb::SetSequenceFloorResponse, Status> {
    let (applied, last) = match floor {
        Floor::Applied(last) => (true, last),
        Floor::NotAbove(last) => (false, last),
        Floor::TooFarAhead => return Err(status::floor_too_far_ahead(ahead_max(sequence))),
    };
    let serial = sequence.layout().map(|layout| layout.serial(last)).unwrap_or_default();
    let last = wire(sequence, last);
    Ok(pb::SetSequenceFloorResponse { applied, last, serial: serial.into() })
}

/// Returns how far ahead of the clock a floor may be.
fn ahead_max(sequence: &Sequence) -> Millis {
    sequence.dating().map_or(AHEAD_DEFAULT, Dating::ahead_max)
}

/// Converts the last value. `server_values` and `server_script_calls` are counters of this server.
pub(super) fn get_sequence(
    last: Option<(u64, Timestamp)>,
    sequence: &Sequence,
    (server_values, server_script_calls): (u64, u64),
) -> pb::GetSequenceResponse {
    let serial = last.zip(sequence.layout()).map(|((last, _), layout)| layout.serial(last));
    pb::GetSequenceResponse {
        last: last.map_or(0, |(last, _)| wire(sequence, last)),
        // Unknown for a sequence whose value was set by hand.
        update_time: last.filter(|(_, time)| time.0 > 0).map(|(_, time)| timestamp(time)),
        serial: serial.unwrap_or_default().into(),
        server_values,
        server_script_calls,
    }
}

/// Converts a page of sequences, omitting those without a value.
pub(super) fn sequence_page(
    entries: ReadEntries<GetSequence>,
    next_page_token: Bytes,
) -> pb::ListSequencesResponse {
    let mut page = pb::ListSequencesResponse { next_page_token, ..Default::default() };
    for (GetSequence { sequence }, read) in entries {
        let name = sequence.local_name();
        match read {
            None => page.unreadable.push(name),
            Some(None) => {}
            Some(last) => {
                let got = get_sequence(last, &sequence, (0, 0));
                let pb::GetSequenceResponse { last, update_time, serial, .. } = got;
                page.sequences.push(pb::Sequence { name, last, update_time, serial });
            }
        }
    }
    page
}

/// Converts a value to its wire form, which is the digits of the serial for a dated sequence.
fn wire(sequence: &Sequence, value: u64) -> u64 {
    sequence.dating().map_or(value, |dating| dating.to_wire(value))
}

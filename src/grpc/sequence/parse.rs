//! Parses requests into decisions. Each function reports all violations of a request together.

use tonic::Status;

use super::super::{fields::Fields, pb, scope::Scope, status};
use tollgate_core::{
    names::Name,
    sequence::{
        COUNT_MAX, DATED_STEP_MAX, Dating, NextSequence, Sequence, Sequences, SetSequenceFloor,
        VALUE_MAX,
    },
};

/// Parses a request. Fails with OUT_OF_RANGE if no sequence can have that many values.
pub(super) fn next_sequence(
    request: pb::NextSequenceRequest,
    scope: Scope,
    sequences: &Sequences,
) -> Result<NextSequence, Status> {
    let mut fields = Fields::new(scope);
    let name = fields.partition("name", request.name);
    let rule = name.as_ref().and_then(|name| sequences.rule(name));
    let layout = rule.and_then(|rule| rule.layout.clone());
    let dating = layout.as_ref().and_then(|layout| layout.dating());

    let count = fields.number("count", request.count, 1..=COUNT_MAX as u32).unwrap_or(1);
    let step = step(&mut fields, request.step, dating);
    let floor = floor(&mut fields, request.floor, dating);
    let request = fields.optional_name("request_id", request.request_id);
    let (name, count) = fields.finish(name.map(|name| (name, u64::from(count))))?;

    // The last value would be at least count * step, so the request cannot succeed if that exceeds
    // the maximum.
    if count.checked_mul(step).is_none_or(|least| least > VALUE_MAX) {
        return Err(status::no_values_left());
    }
    Ok(NextSequence {
        reserve: rule.and_then(|rule| rule.reserve),
        sequence: Sequence::new(&name, layout),
        count,
        step,
        floor,
        request,
        confirmed: None,
    })
}

/// Parses the step: 1 to 1,000,000 for a sequence with a calendar, otherwise up to the maximum
/// value.
fn step(fields: &mut Fields, step: Option<i64>, dating: Option<&Dating>) -> u64 {
    let most = if dating.is_some() { DATED_STEP_MAX } else { VALUE_MAX };
    let given = u64::try_from(step.unwrap_or(1)).ok();
    given.filter(|step| (1..=most).contains(step)).unwrap_or_else(|| {
        fields.violation("step", format!("must be 1 to {most}"));
        1
    })
}

/// Parses the floor. For a sequence with a calendar it is the digits of a serial.
fn floor(fields: &mut Fields, floor: Option<u64>, dating: Option<&Dating>) -> Option<u64> {
    let floor = floor?;
    if floor > VALUE_MAX {
        fields.violation("floor", format!("must be 0 to {VALUE_MAX}"));
        return None;
    }
    let Some(dating) = dating else { return Some(floor) };
    let value = dating.at_least(floor);
    if value.is_none() {
        fields.violation("floor", "must be the digits of a serial of the years 2000 to 2099");
    }
    value
}

/// Parses a request that only sets the floor, which is required.
pub(super) fn set_sequence_floor(
    request: pb::SetSequenceFloorRequest,
    scope: Scope,
    sequences: &Sequences,
) -> Result<SetSequenceFloor, Status> {
    let mut fields = Fields::new(scope);
    let name = fields.partition("name", request.name);
    let rule = name.as_ref().and_then(|name| sequences.rule(name));
    let layout = rule.and_then(|rule| rule.layout.clone());
    let dating = layout.as_ref().and_then(|layout| layout.dating());
    if request.floor.is_none() {
        fields.violation("floor", "is required");
    }
    let floor = floor(&mut fields, request.floor, dating);
    let (name, floor) = fields.finish(name.zip(floor))?;
    let reserve = rule.and_then(|rule| rule.reserve);
    Ok(SetSequenceFloor { sequence: Sequence::new(&name, layout), floor, reserve })
}

/// Parses the name of a sequence. Its layout comes from the configuration.
pub(super) fn get_sequence(
    request: pb::GetSequenceRequest,
    scope: Scope,
    sequences: &Sequences,
) -> Result<Sequence, Status> {
    let mut fields = Fields::new(scope);
    let name = fields.partition("name", request.name);
    let name = fields.finish(name)?;
    Ok(sequence(&name, sequences))
}

/// Returns the sequence with this name and its configured layout.
pub(super) fn sequence(name: &Name, sequences: &Sequences) -> Sequence {
    let layout = sequences.rule(name).and_then(|rule| rule.layout.clone());
    Sequence::new(name, layout)
}

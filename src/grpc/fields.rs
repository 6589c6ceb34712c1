//! Parses a request's fields and collects every violation.

use std::ops::RangeInclusive;

use bytes::Bytes;
use tonic::Status;
use tonic_types::FieldViolation;

use super::status;
use crate::{
    names::{Name, check_text},
    time::Millis,
};

/// The violations found so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    violations: Vec<FieldViolation>,
}

impl Fields {
    /// Notes that a field is not what it must be.
    pub(super) fn violation(&mut self, field: &str, description: impl Into<String>) {
        self.violations.push(FieldViolation::new(field, description));
    }

    /// A required name.
    pub(super) fn name(&mut self, field: &str, value: Bytes) -> Option<Name> {
        Name::parse(value).map_err(|description| self.violation(field, description)).ok()
    }

    /// A name, or none when it is empty.
    pub(super) fn optional_name(&mut self, field: &str, value: Bytes) -> Option<Name> {
        if value.is_empty() { None } else { self.name(field, value) }
    }

    /// Text of at most `most` bytes, perhaps empty.
    pub(super) fn text(&mut self, field: &str, value: Bytes, most: usize) -> Bytes {
        if value.len() > most {
            self.violation(field, format!("must be at most {most} bytes long"));
        } else if let Err(description) = check_text(&value) {
            self.violation(field, description);
        }
        value
    }

    /// Bytes, at most `most`.
    pub(super) fn bytes(&mut self, field: &str, value: Bytes, most: usize) -> Bytes {
        if value.len() > most {
            self.violation(field, format!("must be at most {most} bytes long"));
        }
        value
    }

    /// A number within bounds, if given.
    pub(super) fn number(
        &mut self,
        field: &str,
        value: Option<u32>,
        bounds: RangeInclusive<u32>,
    ) -> Option<u32> {
        let number = value?;
        if !bounds.contains(&number) {
            let (least, most) = bounds.into_inner();
            self.violation(field, format!("must be {least} to {most}"));
        }
        Some(number)
    }

    /// A duration within bounds, if given; finer than a millisecond is rounded
    /// up.
    pub(super) fn duration(
        &mut self,
        field: &str,
        value: Option<prost_types::Duration>,
        bounds: RangeInclusive<Millis>,
    ) -> Option<Millis> {
        let value = value?;
        let millis = millis(&value).filter(|millis| bounds.contains(millis));
        if millis.is_none() {
            let (least, most) = bounds.into_inner();
            let (least, most) = (least.duration(), most.duration());
            let (least, most) =
                (humantime::format_duration(least), humantime::format_duration(most));
            self.violation(field, format!("must be {least} to {most}"));
        }
        millis
    }

    /// What was parsed, if nothing was bad. The fields that `parsed` needs are
    /// `Some` whenever no violation was noted.
    pub(super) fn finish<T>(self, parsed: Option<T>) -> Result<T, Status> {
        match parsed {
            Some(parsed) if self.violations.is_empty() => Ok(parsed),
            _ => Err(status::invalid(self.violations)),
        }
    }
}

/// Whole milliseconds, rounded up; none when it is negative or no duration.
fn millis(value: &prost_types::Duration) -> Option<Millis> {
    let seconds = u64::try_from(value.seconds).ok()?;
    let nanos = u64::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let millis = seconds.checked_mul(1000)?.checked_add(nanos.div_ceil(1_000_000))?;
    Some(Millis(millis))
}

//! Parses a request's fields and collects every violation.

use std::{
    fmt::{self, Write},
    ops::RangeInclusive,
};

use bytes::Bytes;
use tonic::Status;
use tonic_types::FieldViolation;

use super::status;
use crate::{
    names::{Name, check_text},
    time::{Millis, Timestamp},
    waiting::WAIT_MAX,
};

/// The most violations that are named: they travel as headers, of which clients
/// take 8 to 16 KiB.
const VIOLATIONS_MAX: usize = 20;
/// The most entries of a page.
const PAGE_MAX: u32 = 1000;
const PAGE_DEFAULT: u32 = 100;
/// The last instant that can be given, in microseconds: the end of 2111.
const TIME_MAX: u64 = 4_481_049_600_000_000 - 1;

/// The violations found so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Of the message whose fields are being parsed.
    path: String,
    violations: Vec<FieldViolation>,
    /// How many more there were.
    unnamed: usize,
}

impl Fields {
    /// Notes that a field is not what it must be; the first word on a field
    /// stands.
    pub(super) fn violation(&mut self, field: &str, description: impl Into<String>) {
        if self.violations.len() >= VIOLATIONS_MAX {
            self.unnamed += 1;
            return;
        }
        let field = format!("{}{field}", self.path);
        if !self.violations.iter().any(|violation| violation.field == field) {
            self.violations.push(FieldViolation::new(field, description));
        }
    }

    /// Parses the fields of a message inside, whose path ends with a dot.
    pub(super) fn below<T>(
        &mut self,
        path: fmt::Arguments<'_>,
        parse: impl FnOnce(&mut Fields) -> T,
    ) -> T {
        let outer = self.path.len();
        // Writing to a String cannot fail.
        let _ = self.path.write_fmt(path);
        let parsed = parse(self);
        self.path.truncate(outer);
        parsed
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

    /// The field `page_size` of a listing.
    pub(super) fn page_size(&mut self, value: Option<u32>) -> u32 {
        self.number("page_size", value, 1..=PAGE_MAX).unwrap_or(PAGE_DEFAULT)
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

    /// An instant, if given; finer than a microsecond is rounded up.
    pub(super) fn instant(
        &mut self,
        field: &str,
        value: Option<prost_types::Timestamp>,
    ) -> Option<Timestamp> {
        let value = value?;
        let micros = micros(&value).filter(|micros| (1..=TIME_MAX).contains(micros));
        if micros.is_none() {
            self.violation(field, "must be after the start of 1970 and before the end of 2111");
        }
        micros.map(Timestamp)
    }

    /// The field `max_wait` of a call that may wait; 0 if it does not.
    pub(super) fn max_wait(&mut self, value: Option<prost_types::Duration>) -> Millis {
        self.duration("max_wait", value, Millis(0)..=WAIT_MAX).unwrap_or_default()
    }

    /// What was parsed, if nothing was bad. The fields that `parsed` needs are
    /// `Some` whenever no violation was noted.
    pub(super) fn finish<T>(self, parsed: Option<T>) -> Result<T, Status> {
        match parsed {
            Some(parsed) if self.violations.is_empty() => Ok(parsed),
            _ => Err(status::invalid(self.violations, self.unnamed)),
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

/// Microseconds since 1970, rounded up; none when it is before that or no instant.
fn micros(value: &prost_types::Timestamp) -> Option<u64> {
    let seconds = u64::try_from(value.seconds).ok()?;
    let nanos = u64::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    seconds.checked_mul(1_000_000)?.checked_add(nanos.div_ceil(1000))
}

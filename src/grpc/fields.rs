//! Parses the fields of a request, collecting all violations.

use std::{
    fmt::{self, Write},
    mem,
    ops::RangeInclusive,
};

use bytes::Bytes;
use tonic::{Code, Status};
use tonic_types::FieldViolation;

use super::{elements, scope::Scope, status};
use tollgate_core::{
    names::{Name, Namespace, check_text},
    time::{Millis, Timestamp},
    waiting::WAIT_MAX,
};

/// Maximum number of violations in an error. They are sent as headers, and clients accept only 8 to
/// 16 KiB of headers.
const VIOLATIONS_MAX: usize = 20;
/// Maximum page size.
const PAGE_MAX: u32 = 1000;
const PAGE_DEFAULT: u32 = 100;
/// The largest accepted instant, µs: the end of 2111.
const TIME_MAX: u64 = 4_481_049_600_000_000 - 1;

/// The violations of a request so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The scope of the request.
    scope: Scope,
    /// Prefix of field names: the path of the message that is being parsed.
    path: String,
    violations: Vec<FieldViolation>,
    /// Number of violations beyond the maximum.
    unnamed: usize,
    /// The first field with a name that the caller may not use, and that name.
    denied: Option<(String, Name)>,
}

impl Fields {
    /// Starts parsing a request in this scope.
    pub(super) fn new(scope: Scope) -> Fields {
        Fields { scope, ..Fields::default() }
    }

    /// Adds a violation. Only the first violation of a field is kept.
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

    /// Checks that the number of elements of a repeated field is within its bounds, and adds a
    /// violation otherwise.
    pub(super) fn elements(
        &mut self,
        field: &str,
        number: usize,
        bound: RangeInclusive<usize>,
    ) -> bool {
        let is_valid = bound.contains(&number);
        if !is_valid {
            self.violation(field, elements::described(field, &bound));
        }
        is_valid
    }

    /// Parses the fields of a nested message. `path` is its field name with a trailing dot.
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

    /// Returns the namespace of the request.
    pub(super) fn namespace(&self) -> &Namespace {
        self.scope.namespace()
    }

    /// Parses a required name.
    pub(super) fn name(&mut self, field: &str, value: Bytes) -> Option<Name> {
        Name::parse(value).map_err(|description| self.violation(field, description)).ok()
    }

    /// Parses the required name of a partition: a pool, policy, sequence, lock or sku, or a key
    /// without a policy. Returns it in the namespace of the request. A name that the caller may not
    /// use fails the request with PERMISSION_DENIED.
    pub(super) fn partition(&mut self, field: &str, value: Bytes) -> Option<Name> {
        let name = self.name(field, value)?;
        self.scope.record(&name);
        if self.denied.is_none() && !self.scope.permits(&name) {
            self.denied = Some((format!("{}{field}", self.path), name.clone()));
        }
        Some(self.scope.name(name))
    }

    /// Parses the name of a partition; `None` if it is empty.
    pub(super) fn optional_partition(&mut self, field: &str, value: Bytes) -> Option<Name> {
        if value.is_empty() { None } else { self.partition(field, value) }
    }

    /// Parses a name; `None` if it is empty.
    pub(super) fn optional_name(&mut self, field: &str, value: Bytes) -> Option<Name> {
        if value.is_empty() { None } else { self.name(field, value) }
    }

    /// Checks a text field of at most `most` bytes; it may be empty.
    pub(super) fn text(&mut self, field: &str, value: Bytes, most: usize) -> Bytes {
        if value.len() > most {
            self.violation(field, format!("must be at most {most} bytes long"));
        } else if let Err(description) = check_text(&value) {
            self.violation(field, description);
        }
        value
    }

    /// Checks a bytes field of at most `most` bytes.
    pub(super) fn bytes(&mut self, field: &str, value: Bytes, most: usize) -> Bytes {
        if value.len() > most {
            self.violation(field, format!("must be at most {most} bytes long"));
        }
        value
    }

    /// Checks the range of a number, if it is set.
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

    /// Parses the field `page_size` of a listing: 1 to 1,000, default 100.
    pub(super) fn page_size(&mut self, value: Option<u32>) -> u32 {
        self.number("page_size", value, 1..=PAGE_MAX).unwrap_or(PAGE_DEFAULT)
    }

    /// Parses a duration, if it is set, and checks its range. Fractions of a millisecond are
    /// rounded up.
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

    /// Parses an instant, if it is set. Fractions of a microsecond are rounded up.
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

    /// Parses the field `max_wait`; 0 means no waiting.
    pub(super) fn max_wait(&mut self, value: Option<prost_types::Duration>) -> Millis {
        self.duration("max_wait", value, Millis(0)..=WAIT_MAX).unwrap_or_default()
    }

    /// Finishes parsing one item of a batch, which has its own errors. `path` is its field name
    /// with a trailing dot; its fields must be parsed without this prefix. Fails like
    /// [`Fields::finish`].
    pub(super) fn finish_item<T>(
        &mut self,
        path: fmt::Arguments<'_>,
        parsed: Option<T>,
    ) -> Result<T, Status> {
        match parsed {
            Some(parsed) if self.violations.is_empty() && self.denied.is_none() => Ok(parsed),
            parsed => {
                let mut item = Fields { scope: self.scope.clone(), ..mem::take(self) };
                self.scope = item.scope.clone();
                for violation in &mut item.violations {
                    violation.field = format!("{path}{}", violation.field);
                }
                let denied = item.denied.as_ref().map(|(_, name)| name.clone());
                item.denied = item.denied.map(|(field, name)| (format!("{path}{field}"), name));
                let finished = item.finish(parsed);
                if let (Err(status), Some(name)) = (&finished, denied)
                    && status.code() == Code::PermissionDenied
                {
                    self.scope.record_denied(&name);
                }
                finished
            }
        }
    }

    /// Returns `parsed`, which must be `Some` unless there is a violation. Fails with
    /// INVALID_ARGUMENT if there are violations, and otherwise with PERMISSION_DENIED if a name is
    /// not permitted.
    pub(super) fn finish<T>(self, parsed: Option<T>) -> Result<T, Status> {
        match (parsed, self.denied) {
            (Some(_), Some((field, _))) if self.violations.is_empty() => {
                Err(status::name_denied(self.scope.caller(), &field))
            }
            (Some(parsed), None) if self.violations.is_empty() => Ok(parsed),
            _ => Err(status::invalid(self.violations, self.unnamed)),
        }
    }
}

/// Converts to milliseconds, rounded up; `None` if the duration is negative or malformed.
fn millis(value: &prost_types::Duration) -> Option<Millis> {
    let seconds = u64::try_from(value.seconds).ok()?;
    let nanos = u64::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let millis = seconds.checked_mul(1000)?.checked_add(nanos.div_ceil(1_000_000))?;
    Some(Millis(millis))
}

/// Converts to microseconds since 1970, rounded up; `None` if the instant is earlier or malformed.
fn micros(value: &prost_types::Timestamp) -> Option<u64> {
    let seconds = u64::try_from(value.seconds).ok()?;
    let nanos = u64::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    seconds.checked_mul(1_000_000)?.checked_add(nanos.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tollgate_core::globs::Globs;

    fn fields(namespace: &str, names: &[&str]) -> Fields {
        let names: Vec<String> = names.iter().map(|&glob| glob.into()).collect();
        let names = Arc::new(Globs::new(names.iter()).unwrap());
        let namespace = Namespace::parse(namespace.as_bytes()).unwrap();
        Fields::new(Scope::new("backend", namespace, Some(names)))
    }

    #[test]
    fn a_name_is_of_the_namespace_of_its_caller_and_permitted() {
        let mut acme = fields("acme", &["ar:*"]);
        let pool = acme.partition("pool", "ar:1".into());
        let pool = acme.finish(pool).unwrap();
        assert_eq!(pool.as_bytes(), b"acme\x1ear:1");
        let mut anybody = Fields::new(Scope::default());
        let pool = anybody.partition("pool", "ar:1".into());
        assert_eq!(anybody.finish(pool).unwrap().as_bytes(), b"ar:1");
    }

    #[test]
    fn a_name_that_is_not_permitted_is_denied_once_the_request_is_valid() {
        let denied = |name: &'static str| {
            let mut fields = fields("", &["ar:*"]);
            let name = fields.below(format_args!("checks[1]."), |fields| {
                fields.optional_partition("policy", name.into())
            });
            fields.finish(name).unwrap_err()
        };
        let (one, other) = (denied("login"), denied("checkout"));
        assert_eq!(one.code(), Code::PermissionDenied);
        assert!(one.message().starts_with("checks[1].policy is not among the names"));
        assert_eq!((one.message(), one.details()), (other.message(), other.details()));
        assert_eq!(denied("\n").code(), Code::InvalidArgument);

        let mut fields = fields("", &["ar:*"]);
        let name = fields.partition("pool", "other".into());
        fields.violation("capacity", "must be 0 to 3");
        assert_eq!(fields.finish(name).unwrap_err().code(), Code::InvalidArgument);
    }
}

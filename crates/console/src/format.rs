//! Times, ages and numbers as HTML.
//!
//! A time is a `<time>` element with the UTC value. The script shows it in the time zone of the
//! browser, and updates ages and remaining times.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use askama::filters::HtmlSafe;

use tollgate_core::time::Timestamp;

/// Formats a time for `datetime`: RFC 3339 in UTC, with milliseconds.
pub(super) fn iso(time: Timestamp) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(time.0);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Converts the time in a message; `None` if it is absent or before 1970.
pub(super) fn of_wire(time: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let time = time?;
    let seconds = u64::try_from(time.seconds).ok()?;
    let micros = u64::try_from(time.nanos).ok()? / 1_000;
    // humantime cannot format years above 9999.
    (seconds < 253_402_300_800).then(|| Timestamp(seconds * 1_000_000 + micros))
}

/// Formats a duration such as `42 s` or `2 h 5 min`.
pub(super) fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    let pair = |value: u64, unit: &str, rest: u64, rest_unit: &str| match rest {
        0 => format!("{value} {unit}"),
        rest => format!("{value} {unit} {rest} {rest_unit}"),
    };
    match seconds {
        0 if !length.is_zero() => format!("{} ms", length.as_millis()),
        0..60 => format!("{seconds} s"),
        60..3_600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Formats the duration in a message.
pub(super) fn duration(wire: Option<&prost_types::Duration>) -> String {
    let wire = wire.copied().unwrap_or_default();
    let seconds = u64::try_from(wire.seconds).unwrap_or_default();
    let nanos = u32::try_from(wire.nanos).unwrap_or_default();
    length(Duration::new(seconds, nanos))
}

/// Formats a number with thousands separators: `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a fraction in percent, rounded down, so that 100 means all; at most 100.
pub(super) fn percent(part: u64, all: u64) -> u64 {
    match all {
        0 => 0,
        all => (part.saturating_mul(100) / all).min(100),
    }
}

/// A moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment(pub(super) Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iso = iso(self.0);
        let text = iso.get(..19).unwrap_or(&iso).replace('T', " ");
        write!(f, "<time datetime=\"{iso}\" title=\"{text} UTC\">{text} UTC</time>")
    }
}

impl HtmlSafe for Moment {}

/// The time since a moment: `42 s`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ago {
    then: Timestamp,
    now: Timestamp,
}

impl Ago {
    pub(super) fn new(then: Timestamp, now: Timestamp) -> Ago {
        Ago { then, now }
    }
}

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let past = self.now.0.saturating_sub(self.then.0);
        counted(f, "age", self.then, past)
    }
}

impl HtmlSafe for Ago {}

/// The time until a moment: `42 s`; `0 s` after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    then: Timestamp,
    now: Timestamp,
}

impl Left {
    pub(super) fn new(then: Timestamp, now: Timestamp) -> Left {
        Left { then, now }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.then.0.saturating_sub(self.now.0);
        counted(f, "left", self.then, left)
    }
}

impl HtmlSafe for Left {}

fn counted(f: &mut fmt::Formatter<'_>, kind: &str, then: Timestamp, micros: u64) -> fmt::Result {
    let iso = iso(then);
    let title = iso.get(..19).unwrap_or(&iso).replace('T', " ");
    let text = length(Duration::from_secs(micros / 1_000_000));
    write!(f, "<time datetime=\"{iso}\" data-count=\"{kind}\" title=\"{title} UTC\">{text}</time>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_short() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min 59 s"),
            (7_500, "2 h 5 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(length(Duration::from_secs(seconds)), text);
        }
        assert_eq!(length(Duration::from_millis(250)), "250 ms");
        let wire = prost_types::Duration { seconds: 90, nanos: 0 };
        assert_eq!([duration(Some(&wire)), duration(None)], ["1 min 30 s", "0 s"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([percent(1, 0), percent(199, 200), percent(9, 3)], [0, 99, 100]);
    }

    #[test]
    fn times_have_their_utc_value() {
        let time = Timestamp(1_790_000_000_123_456);
        assert_eq!(iso(time), "2026-09-21T14:13:20.123Z");
        let moment = Moment(time).to_string();
        assert!(moment.contains("title=\"2026-09-21 14:13:20 UTC\""), "{moment}");
        let later = Timestamp(time.0 + 42_000_000);
        assert!(Ago::new(time, later).to_string().ends_with(">42 s</time>"));
        assert!(Left::new(later, time).to_string().ends_with(">42 s</time>"));
        assert!(Left::new(time, later).to_string().ends_with(">0 s</time>"));
        let wire = |seconds| of_wire(Some(&prost_types::Timestamp { seconds, nanos: 0 }));
        assert_eq!([wire(1), wire(-1), wire(i64::MAX)], [Some(Timestamp(1_000_000)), None, None]);
    }
}

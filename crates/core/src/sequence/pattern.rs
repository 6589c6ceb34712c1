//! Parses layouts of the configuration: `timestamp17`, or a pattern such as
//! `ORD-{yyyyMMdd}-{n:06}`.
//!
//! A pattern is literal text with fields in braces: `{n}` or `{n:0W}` is the number, padded to W
//! digits, once. All other braces contain calendar fields. A serial must never repeat, so a pattern
//! with a calendar unit has every coarser unit up to the year. Its number has a fixed width, which
//! bounds the numbers of a period. Without a calendar, padding does not bound them.

use super::{
    calendar::Unit,
    dating::Dating,
    layout::{Layout, Piece},
};
use crate::{names::check_text, time::Millis};

/// A common format of order numbers: 100 numbers per millisecond.
const TIMESTAMP17: (&str, &str) = ("timestamp17", "{yyMMddHHmmssSSS}{n:02}");
/// The maximum length of a pattern in bytes. A response contains up to 10,000 serials.
const PATTERN_BYTES_MAX: usize = 64;
/// The maximum number of digits of a number in a pattern with a calendar.
const WIDTH_MAX: u32 = 9;
/// The maximum zero-padding of a number without a calendar: the digits of 2^63-1.
const PADDING_MAX: u32 = 19;
/// The calendar fields. `yyyy` precedes `yy`, because the first match applies.
const FIELDS: [(&str, Unit); 8] = [
    ("yyyy", Unit::Year),
    ("yy", Unit::Year),
    ("MM", Unit::Month),
    ("dd", Unit::Day),
    ("HH", Unit::Hour),
    ("mm", Unit::Minute),
    ("ss", Unit::Second),
    ("SSS", Unit::Millisecond),
];

/// The parsed pieces of a pattern.
#[derive(Debug, Default)]
struct PatternParts {
    /// The pieces, in order.
    pieces: Vec<Piece>,
    /// The calendar units, in order of the pattern.
    units: Vec<Unit>,
    /// Whether the year has four digits.
    long_year: bool,
    /// The digits of the number, 0 for no padding; `None` before the number was read.
    width: Option<u32>,
}

impl Layout {
    /// Parses a layout. `utc_offset` is in minutes, `ahead_max` as in [`Dating`]. Numbers of a period
    /// start at 1, those of `timestamp17` at 0. The error describes the expected form.
    pub fn parse(text: &str, utc_offset: i32, ahead_max: Millis) -> Result<Layout, String> {
        let (pattern, start) = if text == TIMESTAMP17.0 { (TIMESTAMP17.1, 0) } else { (text, 1) };
        let mut parts = PatternParts::default();
        parts.parse(pattern)?;
        let Some(width) = parts.width else {
            return Err("expected the number, such as {n:06}, in the layout".to_owned());
        };
        let dating = match parts.finest()? {
            None if width > PADDING_MAX => {
                return Err(format!("expected {{n}} or {{n:01}} to {{n:0{PADDING_MAX}}}"));
            }
            None => None,
            Some(_) if !(1..=WIDTH_MAX).contains(&width) => {
                return Err(format!(
                    "expected {{n:01}} to {{n:0{WIDTH_MAX}}} in a layout with a calendar"
                ));
            }
            Some(unit) => {
                let long_year = parts.long_year;
                let dating = Dating { unit, long_year, width, start, utc_offset, ahead_max };
                dating.check()?;
                Some(dating)
            }
        };
        Ok(Layout { pieces: parts.pieces, dating })
    }
}

impl PatternParts {
    /// Reads the whole pattern.
    fn parse(&mut self, pattern: &str) -> Result<(), String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("expected at most {PATTERN_BYTES_MAX} bytes"));
        }
        check_text(pattern.as_bytes()).map_err(|what| format!("the layout {what}"))?;
        let mut rest = pattern;
        while let Some((text, after)) = rest.split_once('{') {
            self.text(text)?;
            let (inside, after) =
                after.split_once('}').ok_or("expected a } for each {".to_owned())?;
            match inside.strip_prefix('n') {
                Some(width) => self.number(width)?,
                None => self.fields(inside)?,
            }
            rest = after;
        }
        self.text(rest)
    }

    /// Reads literal text.
    fn text(&mut self, text: &str) -> Result<(), String> {
        if text.contains('}') {
            return Err("expected a { before each }".to_owned());
        }
        if !text.is_empty() {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
        Ok(())
    }

    /// Reads the text after the `n`: empty, or such as `:06`.
    fn number(&mut self, text: &str) -> Result<(), String> {
        let digits = text.strip_prefix(":0").filter(|digits| {
            (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let width = match digits.and_then(|digits| digits.parse().ok()) {
            Some(width @ 1..) => width,
            _ if text.is_empty() => 0,
            _ => {
                return Err(format!("expected {{n}} or a width such as {{n:06}}, got {{n{text}}}"));
            }
        };
        if self.width.replace(width).is_some() {
            return Err("expected {n} only once".to_owned());
        }
        self.pieces.push(Piece::Number(width as usize));
        Ok(())
    }

    /// Reads the calendar fields of one pair of braces.
    fn fields(&mut self, text: &str) -> Result<(), String> {
        let mut rest = text;
        while !rest.is_empty() || text.is_empty() {
            let field = FIELDS.iter().find(|(field, _)| rest.starts_with(field));
            let Some((field, unit)) = field else {
                return Err(format!(
                    "expected yyyy, yy, MM, dd, HH, mm, ss, SSS or n:06 in {{{text}}}"
                ));
            };
            if self.units.contains(unit) {
                return Err(format!("expected the {} once", unit.name()));
            }
            self.units.push(*unit);
            self.long_year |= *field == "yyyy";
            self.pieces.push(Piece::Unit(*unit));
            rest = &rest[field.len()..];
        }
        Ok(())
    }

    /// Returns the finest unit of the pattern. Fails if a coarser unit is missing, because serials
    /// would repeat.
    fn finest(&self) -> Result<Option<Unit>, String> {
        let Some(finest) = self.units.iter().max() else { return Ok(None) };
        let missing = Unit::ALL[..*finest as usize].iter().find(|unit| !self.units.contains(unit));
        match missing {
            None => Ok(Some(*finest)),
            Some(missing) => Err(format!(
                "expected the {} in addition to the {}, because serials would repeat without it",
                missing.name(),
                finest.name()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Layout, String> {
        Layout::parse(text, 0, Millis(0))
    }

    #[test]
    fn good_patterns_are_parsed() {
        for good in [
            "timestamp17",
            "ORD-{yyyyMMdd}-{n:06}",
            "{n}",
            "INV{n:019}",
            "{yyyy}/{n:05}",
            "{n:02}{ddMMyy}",
            "{yyyy}-{MM}-{dd}T{HH}:{mm}:{ss}.{SSS}#{n:02}",
            "{yyMMddHHmmssSSS}{n:03}",
            "é{yyMM}{n:09}",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good));
        }
    }

    #[test]
    fn errors_of_bad_patterns_say_what_is_expected() {
        for (bad, part) in [
            ("", "the number"),
            ("ORD-{yyyyMMdd}", "the number"),
            ("{n}{n}", "{n} only once"),
            ("{n:6}", "such as {n:06}"),
            ("{n:00}", "such as {n:06}"),
            ("{n:020}", "{n:019}"),
            ("{n:+6}", "such as {n:06}"),
            ("{yyyyMMdd}{n}", "{n:09}"),
            ("{yyyyMMdd}{n:010}", "{n:09}"),
            ("{yyyyMMddHHmmssSSS}{n:03}", "at most {n:02}"),
            ("{yyMMddHHmmss}{n:07}", "at most {n:06}"),
            ("{MMdd}-{n:04}", "expected the year"),
            ("{yyyydd}-{n:04}", "expected the month"),
            ("{yyyyyy}-{n:04}", "the year once"),
            ("{YYYY}-{n:04}", "expected yyyy"),
            ("{}{n}", "expected yyyy"),
            ("{yyyy{n:04}", "expected yyyy"),
            ("{n:04", "a } for each {"),
            ("n:04}", "a { before each }"),
            ("a\n{n}", "control characters"),
            (&format!("{}{{n}}", "x".repeat(64)), "at most 64 bytes"),
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn serials_are_formatted_by_their_pattern() {
        let serial = |pattern: &str, value| parse(pattern).expect("good").serial(value);
        assert_eq!(serial("INV-{n:06}", 42), "INV-000042");
        // Without a calendar the sequence cannot continue in the next period.
        assert_eq!(serial("INV-{n:06}", 1_234_567), "INV-1234567");
        assert_eq!(serial("{n}", i64::MAX as u64), "9223372036854775807");
        assert_eq!(serial("timestamp17", 0), "00010100000000000");
        assert_eq!(serial("{yyyyMMdd}-{n:03}", 999), "20000102-001");
        assert_eq!(serial("{n:03}/{yy}", 998), "999/00");
        assert_eq!(serial("{yyyyMM}{n:01}", 9 * 14), "2001031");
    }
}

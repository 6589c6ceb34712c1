//! The calendar of serials: periods since 2000-01-01, in the years 2000 to 2099. In this range
//! every fourth year is a leap year. The twin is `lua/lib/calendar.lua`.
//!
//! A *period* is counted from 0 in its unit: the 31st of January 2000 is day 30. The Gregorian rule
//! of centuries is not needed, since 2000 is a leap year and 2100 is out of range. Local time has a
//! fixed offset from UTC, without daylight saving: a repeated hour would repeat serials.

use crate::time::Timestamp;

/// 2000-01-01T00:00:00Z in µs since the Unix epoch.
const EPOCH: i64 = 946_684_800_000_000;
/// The length of a day in µs.
const DAY: u64 = 86_400_000_000;
/// The number of years of the calendar.
pub(super) const YEARS: u64 = 100;
/// The days of four years, one of them a leap year.
const FOUR_YEARS: u64 = 4 * 365 + 1;
/// The days before each month of a common year.
const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// The units of a calendar, from coarse to fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// `yyyy` or `yy`.
    Year,
    /// `MM`.
    Month,
    /// `dd`.
    Day,
    /// `HH`.
    Hour,
    /// `mm`.
    Minute,
    /// `ss`.
    Second,
    /// `SSS`.
    Millisecond,
}

impl Unit {
    /// All units, from coarse to fine.
    pub(super) const ALL: [Unit; 7] = [
        Unit::Year,
        Unit::Month,
        Unit::Day,
        Unit::Hour,
        Unit::Minute,
        Unit::Second,
        Unit::Millisecond,
    ];

    /// Returns the name in keys, arguments and errors.
    pub(super) fn name(self) -> &'static str {
        ["year", "month", "day", "hour", "minute", "second", "millisecond"][self as usize]
    }

    /// Returns the length in µs; `None` for years and months, whose length varies.
    pub(super) fn length(self) -> Option<u64> {
        match self {
            Unit::Year | Unit::Month => None,
            Unit::Day => Some(DAY),
            Unit::Hour => Some(DAY / 24),
            Unit::Minute => Some(60_000_000),
            Unit::Second => Some(1_000_000),
            Unit::Millisecond => Some(1000),
        }
    }

    /// Returns the number of digits; a four-digit year is handled separately.
    pub(super) fn digits(self) -> u32 {
        if self == Unit::Millisecond { 3 } else { 2 }
    }

    /// Returns the smallest number of the unit: months and days start at 1.
    pub(super) fn least(self) -> u64 {
        u64::from(matches!(self, Unit::Month | Unit::Day))
    }

    /// Returns the period that contains the local time `local`, in µs since 2000.
    pub(super) fn period(self, local: u64) -> u64 {
        match self.length() {
            Some(length) => local / length,
            None => {
                let (year, month, _) = date(local / DAY);
                if self == Unit::Year { year } else { year * 12 + month - 1 }
            }
        }
    }

    /// Returns the first period of this unit within a period of the next coarser unit.
    pub(super) fn first_within(self, coarser: u64) -> u64 {
        match self {
            Unit::Year => coarser,
            Unit::Month => coarser * 12,
            Unit::Day => first_day(coarser),
            Unit::Hour => coarser * 24,
            Unit::Minute | Unit::Second => coarser * 60,
            Unit::Millisecond => coarser * 1000,
        }
    }

    /// Returns the numbers of a period, from the year (since 2000) down to this unit.
    pub(super) fn numbers(self, period: u64) -> [u64; 7] {
        let mut numbers = [0; 7];
        let mut rest = period;
        for unit in Unit::ALL[..=self as usize].iter().rev().take_while(|unit| **unit > Unit::Day) {
            let within = unit.first_within(1);
            numbers[*unit as usize] = rest % within;
            rest /= within;
        }
        let (year, month, day) = match self {
            Unit::Year => (rest, 0, 0),
            Unit::Month => (rest / 12, rest % 12 + 1, 0),
            _ => date(rest),
        };
        [numbers[0], numbers[1], numbers[2]] = [year, month, day];
        numbers
    }
}

/// Returns the local time of the calendar in µs since 2000, for the `shift` of [`shift`]. Times
/// before 2000 become 0.
pub(super) fn local(now: Timestamp, shift: i64) -> u64 {
    (now.0 as i64 + shift).max(0) as u64
}

/// Added to a time in µs to get local time, for a UTC offset in minutes.
pub(super) fn shift(utc_offset: i32) -> i64 {
    i64::from(utc_offset) * 60_000_000 - EPOCH
}

/// Year since 2000, month and day of a day counted from 2000-01-01. The subtraction is for the
/// first year in a cycle of four, which has one day more.
fn date(day: u64) -> (u64, u64, u64) {
    let (cycle, rest) = (day / FOUR_YEARS, day % FOUR_YEARS);
    let year = cycle * 4 + rest.saturating_sub(1) / 365;
    let month = (1..12).take_while(|month| first_day(year * 12 + month) <= day).count() as u64;
    (year, month + 1, day - first_day(year * 12 + month) + 1)
}

/// Returns the first day, counted from 2000-01-01, of a month counted from 2000-01.
fn first_day(month: u64) -> u64 {
    let (year, month) = (month / 12, month % 12);
    let leap = u64::from(year.is_multiple_of(4) && month >= 2);
    year * 365 + year.div_ceil(4) + BEFORE[month as usize] + leap
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Returns the numbers of a period, computed by an independent calendar.
    fn known(local: u64) -> Vec<u64> {
        let instant = UNIX_EPOCH + Duration::from_micros(local + EPOCH as u64);
        let text = humantime::format_rfc3339_millis(instant).to_string();
        let number = |part: &str| part.parse::<u64>().expect("a number");
        let parts = text.trim_end_matches('Z').split(['-', 'T', ':', '.']).map(number);
        let mut numbers: Vec<u64> = parts.collect();
        numbers[0] -= 2000;
        numbers
    }

    #[test]
    fn every_day_of_the_century_agrees_with_an_independent_calendar() {
        for day in 0..first_day(YEARS * 12) {
            let local = day * DAY + (day % 86_400) * 1_000_000 + day % 1000 * 1000;
            let known = known(local);
            for unit in Unit::ALL {
                let depth = unit as usize + 1;
                let numbers = unit.numbers(unit.period(local));
                assert_eq!(numbers[..depth], known[..depth], "{unit:?} of day {day}");
            }
        }
    }

    #[test]
    fn a_period_ends_where_the_next_one_begins() {
        for unit in [Unit::Year, Unit::Month] {
            for period in 1..unit.period(first_day(YEARS * 12) * DAY) {
                let months = if unit == Unit::Year { period * 12 } else { period };
                let first = first_day(months) * DAY;
                assert_eq!((unit.period(first), unit.period(first - 1)), (period, period - 1));
            }
        }
    }
}

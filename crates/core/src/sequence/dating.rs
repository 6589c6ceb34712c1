//! Values of layouts with a calendar.
//!
//! A stored *value* counts the numbers of all periods since 2000: `period * capacity + index`. It
//! stays below 2^53, so a Lua number holds it exactly. On the wire a value has the digits of its
//! calendar, from the year on, and of its number: `26112123595999912` is 2026-11-21T23:59:59.999
//! with the number 12.

use super::{
    VALUE_MAX,
    calendar::{self, Unit, YEARS},
};
use crate::time::{Millis, Timestamp};

/// The calendar of a layout, and the numbers within a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dating {
    /// The finest unit. Numbers restart with each period of this unit.
    pub(super) unit: Unit,
    /// Whether the year has four digits on the wire.
    pub(super) long_year: bool,
    /// The number of digits of the number.
    pub(super) width: u32,
    /// The first number of a period: 0 or 1.
    pub(super) start: u64,
    /// The UTC offset in minutes.
    pub(super) utc_offset: i32,
    /// How far ahead of the clock a call may move the sequence.
    pub(super) ahead_max: Millis,
}

/// Lua numbers are exact below this.
const EXACT: u64 = 1 << 53;

impl Dating {
    /// Checks that all values fit into Lua numbers and into the wire format. The error names the
    /// largest possible width.
    pub(super) fn check(&self) -> Result<(), String> {
        let fits = |dating: &Dating| {
            let values = dating.periods().checked_mul(dating.capacity());
            let exact = values.is_some_and(|values| values < EXACT);
            exact && dating.wire_max().is_some_and(|wire| wire <= u128::from(VALUE_MAX))
        };
        if fits(self) {
            return Ok(());
        }
        let most =
            (1..self.width).rev().find(|width| fits(&Dating { width: *width, ..self.clone() }));
        let unit = self.unit.name();
        Err(format!(
            "a layout with a calendar down to the {unit} allows at most {{n:0{}}}",
            most.unwrap_or(1)
        ))
    }

    /// Returns the numbers per period: `10^width`, without 0 if numbers start at 1.
    pub(super) fn capacity(&self) -> u64 {
        10u64.pow(self.width) - self.start
    }

    /// Returns the largest value: the last number of the year 2099.
    pub(super) fn value_max(&self) -> u64 {
        self.periods() * self.capacity() - 1
    }

    /// Returns how far ahead of the clock a floor or a step may move a sequence.
    pub fn ahead_max(&self) -> Millis {
        self.ahead_max
    }

    /// Returns the maximum number of values to reserve at once: those of one period, or of all
    /// periods within [`ahead_max`](Dating::ahead_max). A failover skips at most this many.
    pub fn reserve_max(&self) -> u64 {
        let periods = self.unit.length().map_or(1, |length| self.ahead_max.micros() / length);
        self.capacity().saturating_mul(periods.max(1))
    }

    /// Returns the values per second of clock time, for the size of a reservation; 0 if a period is
    /// longer than a second.
    pub fn values_per_second(&self) -> u64 {
        const SECOND: u64 = 1_000_000;
        self.unit.length().map_or(0, |length| SECOND / length * self.capacity())
    }

    /// Added to a time in µs to get the local time of the calendar.
    pub(super) fn shift(&self) -> i64 {
        calendar::shift(self.utc_offset)
    }

    /// Returns the same calendar with a reach of at least one second, for reservations. With a
    /// shorter reach the clock would overtake a reservation before replicas acknowledge it.
    pub(super) fn reserving(&self) -> Dating {
        Dating { ahead_max: self.ahead_max.max(Millis::from_secs(1)), ..self.clone() }
    }

    /// Returns the parameters in the form that `lua/lib/calendar.lua` reads.
    pub(super) fn packed(&self) -> String {
        let unit = self.unit.length().map(|length| length.to_string());
        let unit = unit.as_deref().unwrap_or(self.unit.name());
        let (shift, ahead) = (self.shift(), self.ahead_max.micros());
        format!("{unit} {shift} {} {ahead}", self.capacity())
    }

    /// Returns the first value of the period that contains `now`.
    pub(super) fn first(&self, now: Timestamp) -> u64 {
        self.unit.period(calendar::local(now, self.shift())) * self.capacity()
    }

    /// Returns the largest value that a floor or a step may reach at `now`.
    pub(super) fn furthest(&self, now: Timestamp) -> u64 {
        self.first(now.after(self.ahead_max)) + self.capacity() - 1
    }

    /// Splits a value into the numbers of its period, from the year (since 2000) down to the unit,
    /// and the number within the period.
    pub(super) fn split(&self, value: u64) -> ([u64; 7], u64) {
        let numbers = self.unit.numbers(value / self.capacity());
        (numbers, value % self.capacity() + self.start)
    }

    /// Converts a value to its wire form.
    pub fn to_wire(&self, value: u64) -> u64 {
        let (numbers, number) = self.split(value);
        let year = if self.long_year { 2000 + numbers[0] } else { numbers[0] };
        let finer = self.finer().iter();
        let period = finer
            .fold(year, |wire, unit| wire * 10u64.pow(unit.digits()) + numbers[*unit as usize]);
        period * 10u64.pow(self.width) + number
    }

    /// Returns the smallest value whose wire form is at least `wire`; `None` beyond 2099. Digits
    /// that are no valid time, such as second 60, become the next valid time.
    pub fn at_least(&self, wire: u64) -> Option<u64> {
        let (mut rest, number) = (wire / 10u64.pow(self.width), wire % 10u64.pow(self.width));
        let mut numbers = [0; 7];
        for unit in self.finer().iter().rev() {
            let digits = 10u64.pow(unit.digits());
            numbers[*unit as usize] = rest % digits;
            rest /= digits;
        }
        let epoch = if self.long_year { 2000 } else { 0 };
        // True once the remaining digits must be the smallest possible.
        let mut rounded = rest < epoch;
        let mut period = rest.saturating_sub(epoch);
        if period >= YEARS {
            return None;
        }
        for unit in self.finer() {
            let (first, next) = (unit.first_within(period), unit.first_within(period + 1));
            let number = numbers[*unit as usize];
            let exact = first + number.saturating_sub(unit.least());
            period = if rounded { first } else { exact.min(next) };
            rounded |= number < unit.least() || exact >= next;
        }
        let index = if rounded { 0 } else { number.saturating_sub(self.start) };
        let value = period.checked_mul(self.capacity())?.checked_add(index)?;
        (value <= self.value_max()).then_some(value)
    }

    /// Returns the units below the year, down to the finest.
    fn finer(&self) -> &'static [Unit] {
        &Unit::ALL[1..=self.unit as usize]
    }

    /// Returns the number of periods in 100 years.
    fn periods(&self) -> u64 {
        let mut periods = YEARS;
        for unit in self.finer() {
            periods = unit.first_within(periods);
        }
        periods
    }

    /// Returns an upper bound of the wire form; `None` on overflow.
    fn wire_max(&self) -> Option<u128> {
        let finer: u32 = self.finer().iter().map(|unit| unit.digits()).sum();
        let year: u128 = if self.long_year { 2100 } else { 100 };
        year.checked_mul(10u128.checked_pow(finer + self.width)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Layout, *};

    fn dating(pattern: &str) -> Dating {
        let layout = Layout::parse(pattern, 0, Millis(0)).expect("a good pattern");
        layout.dating().expect("a calendar").clone()
    }

    #[test]
    fn wire_values_have_the_digits_of_their_serials_and_rise() {
        for pattern in ["timestamp17", "{yyyyMMdd}{n:02}", "{yyMM}{n:01}", "{yyyyMMddHHmmss}{n:03}"]
        {
            let layout = Layout::parse(pattern, 0, Millis(0)).expect("a good pattern");
            let dating = layout.dating().expect("a calendar");
            let (mut before, most) = (None, dating.value_max());
            let stride = (most / 100_000).max(1);
            for value in (0..most).step_by(stride as usize).chain([most]) {
                let wire = dating.to_wire(value);
                assert_eq!(layout.serial(value).parse(), Ok(wire), "{pattern}");
                assert_eq!(dating.at_least(wire), Some(value), "{pattern}: {wire}");
                assert!(before < Some(wire), "{pattern}: {wire} after {before:?}");
                before = Some(wire);
            }
            assert_eq!(dating.at_least(dating.to_wire(most) + 1), None, "{pattern}");
        }
    }

    #[test]
    #[expect(
        clippy::inconsistent_digit_grouping,
        reason = "grouped as date, time, millisecond and number"
    )]
    fn digits_of_an_invalid_time_mean_the_next_valid_time() {
        let read = |pattern, wire| {
            let dating = dating(pattern);
            dating.at_least(wire).map(|value| dating.to_wire(value))
        };
        let stamp = |wire| read("timestamp17", wire);
        // Second 60, as a carry into the time digits produces it (E16).
        assert_eq!(stamp(26_1231_235960_000_12), Some(27_0101_000000_000_00));
        assert_eq!(stamp(26_0228_235960_999_99), Some(26_0301_000000_000_00));
        assert_eq!(stamp(24_0228_240000_000_00), Some(24_0229_000000_000_00));
        assert_eq!(stamp(25_1131_120000_123_45), Some(25_1201_000000_000_00));
        assert_eq!(stamp(25_1300_120000_123_45), Some(26_0101_000000_000_00));
        assert_eq!(stamp(25_0012_120000_123_45), Some(25_0101_000000_000_00));
        assert_eq!(stamp(25_1118_120000_123_45), Some(25_1118_120000_123_45));
        // Year 09 has a leading zero (E6).
        assert_eq!(stamp(9_1118_120000_123_45), Some(9_1118_120000_123_45));
        assert_eq!(stamp(0), Some(1_01_000000_000_00));
        assert_eq!(stamp(99_1231_235960_000_00), None);
        assert_eq!(stamp(u64::MAX), None);
        let day = |wire| read("{yyyyMMdd}-{n:03}", wire);
        assert_eq!(day(1999_12_31_999), Some(2000_01_01_001));
        assert_eq!(day(2026_02_29_017), Some(2026_03_01_001));
        assert_eq!(day(2026_02_28_000), Some(2026_02_28_001));
        assert_eq!(day(2100_01_01_001), None);
    }
}

//! How a layout with a calendar numbers its values.
//!
//! A *value* counts all numbers of all periods since 2000: `period * capacity +
//! index`. It stays below 2^53, so that Lua's numbers hold it exactly. On the wire
//! it is the digits of its calendar, from the year on, and of its number:
//! `26112123595999912` for 2026-11-21T23:59:59.999 and the number 12.

use super::{
    VALUE_MAX,
    calendar::{self, Unit, YEARS},
};
use crate::time::{Millis, Timestamp};

/// The calendar part of a layout, and the numbers within a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dating {
    /// The finest unit: numbers start anew with each of it.
    pub(super) unit: Unit,
    /// Whether the year has four digits on the wire.
    pub(super) long_year: bool,
    /// How many digits the number has.
    pub(super) width: u32,
    /// The first number of a period.
    pub(super) start: u64,
    /// Minutes from UTC.
    pub(super) utc_offset: i32,
    /// How far beyond the clock a call may take a sequence.
    pub(super) ahead_max: Millis,
}

/// Below this, Lua's numbers are exact.
const EXACT: u64 = 1 << 53;

impl Dating {
    /// What is wrong with it, if anything.
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
        Err(format!("a calendar to the {unit} has room for {{n:0{}}} at most", most.unwrap_or(1)))
    }

    /// How many numbers a period has.
    pub(super) fn capacity(&self) -> u64 {
        10u64.pow(self.width) - self.start
    }

    /// The greatest value: the last number of the year 2099.
    pub(super) fn value_max(&self) -> u64 {
        self.periods() * self.capacity() - 1
    }

    /// How far beyond the clock a floor or a step may take a sequence.
    pub fn ahead_max(&self) -> Millis {
        self.ahead_max
    }

    /// The most values that may be reserved, and passed over, at once: those of a
    /// period, or of as many as lie within [`ahead_max`](Dating::ahead_max).
    pub fn reserve_max(&self) -> u64 {
        let periods = self.unit.length().map_or(1, |length| self.ahead_max.micros() / length);
        self.capacity().saturating_mul(periods.max(1))
    }

    /// How many values go by in a second; none where a period is longer.
    pub fn values_per_second(&self) -> u64 {
        const SECOND: u64 = 1_000_000;
        self.unit.length().map_or(0, |length| SECOND / length * self.capacity())
    }

    /// What makes an instant local.
    pub(super) fn shift(&self) -> i64 {
        calendar::shift(self.utc_offset)
    }

    /// The same with the reach of reservations: what a second has, where the clock
    /// would be ahead of them before they are confirmed.
    pub(super) fn reserving(&self) -> Dating {
        Dating { ahead_max: self.ahead_max.max(Millis::from_secs(1)), ..self.clone() }
    }

    /// Its numbers as `lua/lib/calendar.lua` reads them.
    pub(super) fn packed(&self) -> String {
        let unit = self.unit.length().map(|length| length.to_string());
        let unit = unit.as_deref().unwrap_or(self.unit.name());
        let (shift, ahead) = (self.shift(), self.ahead_max.micros());
        format!("{unit} {shift} {} {ahead}", self.capacity())
    }

    /// The first value of the period of an instant.
    pub(super) fn first(&self, now: Timestamp) -> u64 {
        self.unit.period(calendar::local(now, self.shift())) * self.capacity()
    }

    /// The greatest value that a floor or a step may reach.
    pub(super) fn furthest(&self, now: Timestamp) -> u64 {
        self.first(now.after(self.ahead_max)) + self.capacity() - 1
    }

    /// A value's period as numbers from the year (since 2000) down to the unit,
    /// and its number within it.
    pub(super) fn split(&self, value: u64) -> ([u64; 7], u64) {
        let numbers = self.unit.numbers(value / self.capacity());
        (numbers, value % self.capacity() + self.start)
    }

    /// A value as it is on the wire.
    pub fn to_wire(&self, value: u64) -> u64 {
        let (numbers, number) = self.split(value);
        let year = if self.long_year { 2000 + numbers[0] } else { numbers[0] };
        let finer = self.finer().iter();
        let period = finer
            .fold(year, |wire, unit| wire * 10u64.pow(unit.digits()) + numbers[*unit as usize]);
        period * 10u64.pow(self.width) + number
    }

    /// The least value that is not below `wire` there; none beyond 2099. What is no
    /// time, such as a second 60, is the next time that is one.
    pub fn at_least(&self, wire: u64) -> Option<u64> {
        let (mut rest, number) = (wire / 10u64.pow(self.width), wire % 10u64.pow(self.width));
        let mut numbers = [0; 7];
        for unit in self.finer().iter().rev() {
            let digits = 10u64.pow(unit.digits());
            numbers[*unit as usize] = rest % digits;
            rest /= digits;
        }
        let epoch = if self.long_year { 2000 } else { 0 };
        // Set when the rest is to be the least there is.
        let mut rounded = rest < epoch;
        let mut period = rest.saturating_sub(epoch);
        if period >= YEARS {
            return None;
        }
        for unit in self.finer() {
            let (first, next) = (unit.first_within(period), unit.first_within(period + 1));
            let number = numbers[*unit as usize];
            let exact = first + number.saturating_sub(unit.least());
            period = match rounded {
                true => first,
                false => exact.min(next),
            };
            rounded |= number < unit.least() || exact >= next;
        }
        let index = if rounded { 0 } else { number.saturating_sub(self.start) };
        let value = period.checked_mul(self.capacity())?.checked_add(index)?;
        (value <= self.value_max()).then_some(value)
    }

    /// The units below the year.
    fn finer(&self) -> &'static [Unit] {
        &Unit::ALL[1..=self.unit as usize]
    }

    fn periods(&self) -> u64 {
        let mut periods = YEARS;
        for unit in self.finer() {
            periods = unit.first_within(periods);
        }
        periods
    }

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
    fn values_on_the_wire_are_the_digits_of_their_serials_and_rise() {
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
    fn digits_that_are_no_time_mean_the_next_one_that_is() {
        let read = |pattern, wire| {
            let dating = dating(pattern);
            dating.at_least(wire).map(|value| dating.to_wire(value))
        };
        let stamp = |wire| read("timestamp17", wire);
        // A second 60, as a carry into the time digits makes it (E16).
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

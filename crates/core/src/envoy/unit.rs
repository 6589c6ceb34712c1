//! Units of limits.

use crate::time::Millis;

/// The length of a window. Windows start at multiples of it since 1970. The number is that of the
/// API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RateUnit {
    /// A second.
    Second = 1,
    /// 60 seconds.
    Minute = 2,
    /// 60 minutes.
    Hour = 3,
    /// 24 hours.
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// 7 days.
    Week = 7,
}

impl RateUnit {
    /// All units.
    pub const ALL: [RateUnit; 7] = [
        RateUnit::Second,
        RateUnit::Minute,
        RateUnit::Hour,
        RateUnit::Day,
        RateUnit::Month,
        RateUnit::Year,
        RateUnit::Week,
    ];

    /// Finds a unit by its name, in any case.
    pub fn parse(name: &str) -> Option<RateUnit> {
        RateUnit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// Finds a unit by its number in the API.
    pub fn from_number(number: i32) -> Option<RateUnit> {
        RateUnit::ALL.into_iter().find(|unit| *unit as i32 == number)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            RateUnit::Second => "SECOND",
            RateUnit::Minute => "MINUTE",
            RateUnit::Hour => "HOUR",
            RateUnit::Day => "DAY",
            RateUnit::Month => "MONTH",
            RateUnit::Year => "YEAR",
            RateUnit::Week => "WEEK",
        }
    }

    /// Returns the length in seconds.
    pub const fn seconds(self) -> u64 {
        match self {
            RateUnit::Second => 1,
            RateUnit::Minute => 60,
            RateUnit::Hour => 3600,
            RateUnit::Day => 86_400,
            RateUnit::Month => 30 * 86_400,
            RateUnit::Year => 365 * 86_400,
            RateUnit::Week => 7 * 86_400,
        }
    }

    /// Returns the length.
    pub const fn length(self) -> Millis {
        Millis::from_secs(self.seconds())
    }
}

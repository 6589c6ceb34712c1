//! Values of `tollgate.toml` that occur in several sections: numbers, durations, offsets, and the
//! keys that pools, policies and sequences have in common.

use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer, de::Error};

use tollgate_core::{
    acknowledgement::{REPLICAS_MAX, WAIT_TIMEOUT_MAX, WAIT_TIMEOUT_MIN},
    denial::DENIAL_CACHE_MAX,
    globs::NamespaceGlob,
    time::Millis,
};

/// Checks a glob of namespaces. The error names the key.
pub(super) fn namespace(key: &str, glob: Option<&str>) -> Result<(), String> {
    match NamespaceGlob::new(glob) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{key}: not a glob: {error}")),
    }
}

/// Reads a whole number and checks its range. The error names `key`.
pub(super) fn number<'de, D>(d: D, key: &str, bounds: RangeInclusive<i64>) -> Result<i64, D::Error>
where
    D: Deserializer<'de>,
{
    let number = i64::deserialize(d)?;
    if bounds.contains(&number) {
        Ok(number)
    } else {
        Err(D::Error::custom(format!(
            "{key} = {number}: expected {} to {}",
            bounds.start(),
            bounds.end()
        )))
    }
}

/// Reads a duration such as `90s` and checks its range. The error names `key`.
pub(super) fn length<'de, D>(
    d: D,
    key: &str,
    bounds: RangeInclusive<Millis>,
) -> Result<Millis, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(d)?;
    parse_length(&text).filter(|millis| bounds.contains(millis)).ok_or_else(|| {
        let show = |bound: &Millis| humantime::format_duration(bound.duration()).to_string();
        let (least, most) = (show(bounds.start()), show(bounds.end()));
        D::Error::custom(format!(
            "{key} = \"{text}\": expected a duration of {least} to {most}, such as \"90s\""
        ))
    })
}

/// Parses a duration and rounds it up to whole milliseconds.
pub(super) fn parse_length(text: &str) -> Option<Millis> {
    let length = humantime::parse_duration(text).ok()?;
    Some(Millis(u64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)))
}

/// Reads an offset of the form `+hh:mm` or `-hh:mm`; returns minutes. The rule checks its range.
pub(super) fn utc_offset<'de, D: Deserializer<'de>>(d: D) -> Result<i32, D::Error> {
    let text = String::deserialize(d)?;
    let read = || {
        let (sign, rest) = text.split_at_checked(1)?;
        let (hours, minutes) = rest.split_once(':')?;
        let two = |digits: &str| {
            let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<i32>().ok()).flatten()
        };
        let minutes = two(hours)? * 60 + two(minutes).filter(|minutes| *minutes < 60)?;
        match sign {
            "+" => Some(minutes),
            "-" => Some(-minutes),
            _ => None,
        }
    };
    read().ok_or_else(|| {
        D::Error::custom(format!("utc_offset = \"{text}\": expected an offset such as \"+08:00\""))
    })
}

/// Reads a text and checks it. The error names `key` and quotes the text.
pub(super) fn text<'de, D, T>(
    d: D,
    key: &str,
    check: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(d)?;
    check(&text).map_err(|expected| D::Error::custom(format!("{key} = \"{text}\": {expected}")))
}

pub(super) fn denial_cache<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "denial_cache", Millis(0)..=DENIAL_CACHE_MAX).map(Some)
}

pub(super) fn wait_replicas<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "wait_replicas", 0..=REPLICAS_MAX.into()).map(|number| Some(number as u32))
}

pub(super) fn wait_timeout<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "wait_timeout", WAIT_TIMEOUT_MIN..=WAIT_TIMEOUT_MAX).map(Some)
}

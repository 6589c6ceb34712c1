//! An answer of `CheckRate` as a line of text.

use std::time::Duration;

use tollgate_client::{
    pb::{Ban, CheckRateResponse, LimitUsage},
    time,
};

use tollgate_telemetry::text::escaped;

/// Formats the answer of call `number` of `count`.
pub(super) fn line(number: u32, count: u32, answer: &CheckRateResponse) -> String {
    let verdict = answer.verdict().as_str_name().trim_start_matches("RATE_VERDICT_");
    // Right-aligned, so that lines with different numbers of digits align.
    let width = count.to_string().len();
    let mut parts = vec![format!("{number:>width$}  {verdict:<8}")];
    parts.extend(answer.limits.iter().map(usage));
    let retry_after = time::length(answer.retry_after, "retry_after").ok();
    parts.extend(retry_after.map(|wait| format!("retry in {}", length(wait))));
    parts.extend(answer.ban.as_ref().map(ban));
    if answer.crossed {
        parts.push("crossed: send a notice".to_owned());
    }
    escaped(&parts.join("  ")).into_owned()
}

/// Formats the usage of a limit.
pub(crate) fn usage(limit: &LimitUsage) -> String {
    let LimitUsage { name, max, count, remaining, reset_after, .. } = limit;
    let reset = match time::length(*reset_after, "reset_after") {
        Ok(reset) if reset > Duration::ZERO => format!(", reset in {}", length(reset)),
        _ => String::new(),
    };
    let space = if name.is_empty() { "" } else { " " };
    format!("{name}{space}{count}/{max} used, {remaining} left{reset}")
}

/// Formats a running ban.
pub(crate) fn ban(ban: &Ban) -> String {
    let until = time::time(ban.until).map(humantime::format_rfc3339_seconds);
    let until = until.map_or_else(|_| "?".to_owned(), |until| until.to_string());
    let mut text = format!("banned until {until}, strike {}", ban.strikes);
    for (what, name) in [("", &ban.reason), ("by ", &ban.actor)] {
        if !name.is_empty() {
            text += &format!(", {what}{name}");
        }
    }
    text
}

/// Formats a duration in a readable unit, rounded up.
pub(crate) fn length(length: Duration) -> String {
    match length.as_nanos().div_ceil(1_000_000) as u64 {
        millis if millis < 1000 => format!("{millis} ms"),
        millis if millis < 100_000 => {
            let tenths = millis.div_ceil(100);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        millis => {
            humantime::format_duration(Duration::from_secs(millis.div_ceil(1000))).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_client::RateVerdict;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn answer() -> CheckRateResponse {
        let limit = LimitUsage {
            name: String::new(),
            max: 10,
            count: 4,
            remaining: 6,
            reset_after: Some(time::wire(MS(60_001))),
            ..LimitUsage::default()
        };
        let verdict = RateVerdict::Allow.into();
        CheckRateResponse { verdict, limits: vec![limit], ..CheckRateResponse::default() }
    }

    #[test]
    fn an_allowed_call_says_what_is_left() {
        let text = line(3, 12, &answer());
        assert_eq!(text, " 3  ALLOW     4/10 used, 6 left, reset in 60.1 s");
        let mut named = answer();
        named.limits[0] = LimitUsage {
            name: "day".into(),
            count: 0,
            reset_after: None,
            ..named.limits[0].clone()
        };
        assert_eq!(line(1, 1, &named), "1  ALLOW     day 0/10 used, 6 left");
    }

    #[test]
    fn a_ban_says_until_when_and_why() {
        let ban = Ban {
            key: String::new(),
            until: Some(prost_types::Timestamp { seconds: 1_763_712_000, nanos: 0 }),
            strikes: 2,
            reason: "above 20".to_owned(),
            actor: "ops".to_owned(),
        };
        let mut answer = answer();
        answer.set_verdict(RateVerdict::Ban);
        answer.crossed = true;
        answer.retry_after = Some(time::wire(MS(300_000)));
        answer.ban = Some(ban);
        assert_eq!(
            line(1, 1, &answer),
            "1  BAN       4/10 used, 6 left, reset in 60.1 s  retry in 5m  banned until \
             2025-11-21T08:00:00Z, strike 2, above 20, by ops  crossed: send a notice"
        );
    }

    #[test]
    fn waits_are_never_shown_shorter_than_they_are() {
        let lengths = [1, 999, 1001, 99_901, 100_001, 3_600_000].map(|ms| length(MS(ms)));
        assert_eq!(lengths, ["1 ms", "999 ms", "1.1 s", "100.0 s", "1m 41s", "1h"]);
    }
}

//! An answer of `CheckRate` as a line of text.

use std::time::{Duration, UNIX_EPOCH};

use crate::{
    decision::{text::escaped, time::Millis},
    grpc::client::{LimitStanding, RateAnswer},
    rate::{Ban, Verdict},
};

/// Formats the answer of call `number` of `count`.
pub(super) fn line(number: u32, count: u32, answer: &RateAnswer) -> String {
    let verdict = match answer.verdict {
        Verdict::Allow => "ALLOW",
        Verdict::Warn => "WARN",
        Verdict::Throttle => "THROTTLE",
        Verdict::Ban => "BAN",
    };
    // Right-aligned, so that lines with different numbers of digits align.
    let width = count.to_string().len();
    let mut parts = vec![format!("{number:>width$}  {verdict:<8}")];
    parts.extend(answer.limits.iter().map(standing));
    parts.extend(answer.retry_after.map(|wait| format!("retry in {}", length(wait))));
    parts.extend(answer.ban.as_ref().map(ban));
    if answer.crossed {
        parts.push("crossed: send a notice".to_owned());
    }
    escaped(&parts.join("  ")).into_owned()
}

fn standing(limit: &LimitStanding) -> String {
    let LimitStanding { name, max, count, remaining, reset_after } = limit;
    let reset = match reset_after {
        Millis(0) => String::new(),
        reset => format!(", reset in {}", length(*reset)),
    };
    let space = if name.is_empty() { "" } else { " " };
    format!("{name}{space}{count}/{max} used, {remaining} left{reset}")
}

fn ban(ban: &Ban) -> String {
    let until = UNIX_EPOCH + Duration::from_micros(ban.until.0);
    let until = humantime::format_rfc3339_seconds(until);
    let mut text = format!("banned until {until}, strike {}", ban.strikes);
    for (what, bytes) in [("", &ban.reason), ("by ", &ban.actor)] {
        if !bytes.is_empty() {
            text += &format!(", {what}{}", String::from_utf8_lossy(bytes));
        }
    }
    text
}

/// Formats a duration in a readable unit, rounded up.
pub(in crate::cli::caller) fn length(length: Millis) -> String {
    match length.0 {
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
    use super::*;
    use crate::decision::time::Timestamp;

    fn answer() -> RateAnswer {
        let limit = LimitStanding {
            name: String::new(),
            max: 10,
            count: 4,
            remaining: 6,
            reset_after: Millis(60_001),
        };
        RateAnswer {
            verdict: Verdict::Allow,
            crossed: false,
            retry_after: None,
            ban: None,
            limits: vec![limit],
        }
    }

    #[test]
    fn an_allowed_call_says_what_is_left() {
        let text = line(3, 12, &answer());
        assert_eq!(text, " 3  ALLOW     4/10 used, 6 left, reset in 60.1 s");
        let mut named = answer();
        named.limits[0] = LimitStanding {
            name: "day".into(),
            count: 0,
            reset_after: Millis(0),
            ..named.limits[0].clone()
        };
        assert_eq!(line(1, 1, &named), "1  ALLOW     day 0/10 used, 6 left");
    }

    #[test]
    fn a_ban_says_until_when_and_why() {
        let ban = Ban {
            until: Timestamp(1_763_712_000_000_000),
            strikes: 2,
            reason: b"above 20".to_vec(),
            actor: b"ops".to_vec(),
        };
        let mut answer = answer();
        answer.verdict = Verdict::Ban;
        answer.crossed = true;
        answer.retry_after = Some(Millis(300_000));
        answer.ban = Some(ban);
        assert_eq!(
            line(1, 1, &answer),
            "1  BAN       4/10 used, 6 left, reset in 60.1 s  retry in 5m  banned until \
             2025-11-21T08:00:00Z, strike 2, above 20, by ops  crossed: send a notice"
        );
    }

    #[test]
    fn waits_are_never_told_shorter_than_they_are() {
        let lengths = [1, 999, 1001, 99_901, 100_001, 3_600_000].map(|ms| length(Millis(ms)));
        assert_eq!(lengths, ["1 ms", "999 ms", "1.1 s", "100.0 s", "1m 41s", "1h"]);
    }
}

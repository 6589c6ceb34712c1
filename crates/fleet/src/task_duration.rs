//! Durations of tasks: `3s`, `2s..5s`, `exp:3s` or `normal:3s,500ms`.

use std::{str::FromStr, time::Duration};

use humantime::parse_duration;

use super::random::Random;

/// Minimum of a drawn duration.
const TASK_MIN: Duration = Duration::from_millis(1);
/// Maximum of a drawn duration, and of each parameter.
const TASK_MAX: Duration = Duration::from_secs(86_400);

/// Distribution of the durations of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskDuration {
    /// A constant.
    Fixed(Duration),
    /// Uniform between two values.
    Uniform(Duration, Duration),
    /// Exponential with this mean: many short tasks and a few long ones.
    Exponential(Duration),
    /// Normal with this mean and deviation.
    Normal(Duration, Duration),
}

impl TaskDuration {
    /// Draws a duration, clamped to 1 ms to 24 h.
    pub(super) fn draw(&self, random: &mut Random) -> Duration {
        let seconds = match self {
            TaskDuration::Fixed(duration) => duration.as_secs_f64(),
            TaskDuration::Uniform(least, most) => {
                least.as_secs_f64() + (*most - *least).as_secs_f64() * random.fraction()
            }
            TaskDuration::Exponential(mean) => mean.as_secs_f64() * random.exponential(),
            TaskDuration::Normal(mean, deviation) => {
                mean.as_secs_f64() + deviation.as_secs_f64() * random.normal()
            }
        };
        let (least, most) = (TASK_MIN.as_secs_f64(), TASK_MAX.as_secs_f64());
        Duration::from_secs_f64(seconds.clamp(least, most))
    }
}

impl FromStr for TaskDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskDuration, String> {
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(TaskDuration::Exponential(positive(mean)?));
        }
        if let Some(parameters) = text.strip_prefix("normal:") {
            let (mean, deviation) = parameters
                .split_once(',')
                .ok_or("expected mean and deviation, such as `normal:3s,500ms`")?;
            return Ok(TaskDuration::Normal(positive(mean)?, bounded(deviation)?));
        }
        if let Some((least, most)) = text.split_once("..") {
            let (least, most) = (positive(least)?, positive(most)?);
            if least > most {
                return Err(format!("the range is empty: {least:?} is more than {most:?}"));
            }
            return Ok(TaskDuration::Uniform(least, most));
        }
        Ok(TaskDuration::Fixed(positive(text)?))
    }
}

fn positive(text: &str) -> Result<Duration, String> {
    match bounded(text)? {
        duration if duration < TASK_MIN => Err(format!("`{text}` is below 1ms")),
        duration => Ok(duration),
    }
}

fn bounded(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text.trim()).map_err(|_| {
        format!(
            "`{text}` is not a duration; expected `3s`, `2s..5s`, `exp:3s` or \
            `normal:3s,500ms`"
        )
    })?;
    if duration > TASK_MAX { Err(format!("`{text}` is above 24h")) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn every_form_is_parsed() {
        for (text, read) in [
            ("3s", TaskDuration::Fixed(MS(3000))),
            ("300ms..1s", TaskDuration::Uniform(MS(300), MS(1000))),
            ("exp:3s", TaskDuration::Exponential(MS(3000))),
            ("normal:3s,500ms", TaskDuration::Normal(MS(3000), MS(500))),
        ] {
            assert_eq!(text.parse(), Ok(read));
        }
    }

    #[test]
    fn bad_forms_say_what_is_wrong() {
        for (text, why) in [
            ("", "not a duration"),
            ("3", "not a duration"),
            ("-3s", "not a duration"),
            ("0s", "below 1ms"),
            ("exp:", "not a duration"),
            ("exp:0s", "below 1ms"),
            ("gamma:3s", "not a duration"),
            ("normal:3s", "mean and deviation"),
            ("5s..2s", "range is empty"),
            ("2s..", "not a duration"),
            ("25h", "above 24h"),
        ] {
            let error = text.parse::<TaskDuration>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut random = Random::new(1, 0);
        for _ in 0..1000 {
            let uniform = TaskDuration::Uniform(MS(300), MS(400)).draw(&mut random);
            assert!(MS(300) <= uniform && uniform <= MS(400));
            let normal = TaskDuration::Normal(MS(5), MS(500)).draw(&mut random);
            assert!(TASK_MIN <= normal && normal <= TASK_MAX);
        }
    }
}

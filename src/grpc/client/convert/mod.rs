//! Converts responses to outcomes. A response that violates the contract is an error.

mod lock;

use std::{num::NonZeroU64, time::Duration};

pub(super) use lock::{acquisition, lock_release, lock_renewal};

use super::{CallError, LimitStanding, RateAnswer, Serials, pb};
use crate::{
    admission::{Admission, AdmitDecision, CompleteVerdict, Completion, Dispatched, Lease, Usage},
    decision::{
        time::{Millis, Timestamp},
        waiters::Turn,
    },
    rate::{Ban, Verdict},
    sequence::COUNT_MAX,
};

pub(super) fn admission(response: pb::AdmitTaskResponse) -> Result<Admission, CallError> {
    let decision = match response.decision() {
        pb::AdmitDecision::Admitted => {
            let dispatched = response.task.map(|task| {
                let pb::DispatchedTask { task_id, payload, attempt } = task;
                Box::new(Dispatched { task: task_id.into(), payload, attempt })
            });
            let (lease, replayed) = (lease(response.lease)?, response.replayed);
            AdmitDecision::Admitted { lease, replayed, dispatched }
        }
        pb::AdmitDecision::Full => AdmitDecision::Full {
            retry_after: millis(response.retry_after, "retry_after")?,
            turn: Turn::Refused,
            room_in: 0,
        },
        pb::AdmitDecision::NoTask => AdmitDecision::NoTask,
        pb::AdmitDecision::Paused => {
            AdmitDecision::Paused { retry_after: millis(response.retry_after, "retry_after")? }
        }
        pb::AdmitDecision::AlreadyCompleted => AdmitDecision::AlreadyCompleted,
        pb::AdmitDecision::Unspecified => return Err(CallError::malformed("decision")),
    };
    Ok(Admission { decision, usage: usage(response.usage)? })
}

pub(super) fn completion(response: pb::CompleteTaskResponse) -> Result<Completion, CallError> {
    let verdict = match response.verdict() {
        pb::CompleteVerdict::AlreadyCompleted => CompleteVerdict::AlreadyCompleted,
        pb::CompleteVerdict::Completed => CompleteVerdict::Completed,
        pb::CompleteVerdict::Late => CompleteVerdict::Late,
        pb::CompleteVerdict::StaleToken => CompleteVerdict::StaleToken,
        pb::CompleteVerdict::Unknown => CompleteVerdict::Unknown,
        pb::CompleteVerdict::Unspecified => return Err(CallError::malformed("verdict")),
    };
    Ok(Completion { verdict, usage: usage(response.usage)? })
}

pub(super) fn rate_answer(response: pb::CheckRateResponse) -> Result<RateAnswer, CallError> {
    let verdict = match response.verdict() {
        pb::RateVerdict::Allow => Verdict::Allow,
        pb::RateVerdict::Warn => Verdict::Warn,
        pb::RateVerdict::Throttle => Verdict::Throttle,
        pb::RateVerdict::Ban => Verdict::Ban,
        pb::RateVerdict::Unspecified => return Err(CallError::malformed("verdict")),
    };
    let retry_after = match verdict {
        Verdict::Allow | Verdict::Warn => None,
        Verdict::Throttle | Verdict::Ban => Some(millis(response.retry_after, "retry_after")?),
    };
    Ok(RateAnswer {
        verdict,
        crossed: response.crossed,
        retry_after,
        ban: response.ban.map(ban).transpose()?,
        limits: response.limits.into_iter().map(standing).collect::<Result<_, _>>()?,
    })
}

fn standing(usage: pb::LimitUsage) -> Result<LimitStanding, CallError> {
    Ok(LimitStanding {
        name: usage.name,
        max: usage.max,
        count: usage.count,
        remaining: usage.remaining,
        // A duration of zero may be omitted.
        reset_after: millis(usage.reset_after.or(Some(Default::default())), "reset_after")?,
    })
}

pub(super) fn ban(ban: pb::Ban) -> Result<Ban, CallError> {
    Ok(Ban {
        until: timestamp(ban.until)?,
        strikes: ban.strikes,
        reason: ban.reason.into_bytes(),
        actor: ban.actor.into_bytes(),
    })
}

/// Converts serials. Without a layout, the values must form a range of at most [`COUNT_MAX`]
/// values.
pub(super) fn serials(response: pb::NextSequenceResponse) -> Result<Serials, CallError> {
    let pb::NextSequenceResponse { first, last, step, serials, .. } = response;
    if !serials.is_empty() {
        return Ok(Serials::Written(serials));
    }
    let values = NonZeroU64::new(step).filter(|step| {
        let span = last.checked_sub(first);
        span.is_some_and(|span| span % *step == 0 && span / *step < COUNT_MAX)
    });
    let step = values.ok_or_else(|| CallError::malformed("values"))?;
    Ok(Serials::Values { first, last, step })
}

pub(super) fn pool_usage(pool: Option<pb::Pool>) -> Result<Usage, CallError> {
    usage(pool.and_then(|pool| pool.usage))
}

/// Converts a duration. The command line bounds durations far below the maximum of the wire type.
pub(super) fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: length.as_secs() as i64, nanos: length.subsec_nanos() as i32 }
}

fn usage(usage: Option<pb::Usage>) -> Result<Usage, CallError> {
    let usage = usage.ok_or_else(|| CallError::malformed("usage"))?;
    Ok(Usage { capacity: usage.capacity, in_use: usage.in_use })
}

fn lease(lease: Option<pb::Lease>) -> Result<Lease, CallError> {
    let lease = lease.ok_or_else(|| CallError::malformed("lease"))?;
    Ok(Lease {
        token: lease.fencing_token,
        grant: timestamp(lease.grant_time)?,
        expire: timestamp(lease.expire_time)?,
    })
}

pub(super) fn timestamp(time: Option<prost_types::Timestamp>) -> Result<Timestamp, CallError> {
    let micros = time.and_then(|time| {
        let seconds = u64::try_from(time.seconds).ok()?;
        let nanos = u64::try_from(time.nanos).ok()?;
        seconds.checked_mul(1_000_000)?.checked_add(nanos / 1000)
    });
    micros.map(Timestamp).ok_or_else(|| CallError::malformed("time"))
}

/// Converts a duration to milliseconds, rounded up, so that no caller retries too early. `what`
/// names the field in the error.
pub(super) fn millis(
    length: Option<prost_types::Duration>,
    what: &str,
) -> Result<Millis, CallError> {
    let length = length.and_then(|length| Duration::try_from(length).ok());
    let millis =
        length.and_then(|length| u64::try_from(length.as_nanos().div_ceil(1_000_000)).ok());
    millis.map(Millis).ok_or_else(|| CallError::malformed(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_its_parts_is_malformed() {
        let mut response = pb::AdmitTaskResponse::default();
        assert!(admission(response.clone()).is_err());
        response.usage = Some(pb::Usage::default());
        for decision in [pb::AdmitDecision::Admitted, pb::AdmitDecision::Full] {
            response.set_decision(decision);
            assert!(admission(response.clone()).is_err());
        }
        response.set_decision(pb::AdmitDecision::AlreadyCompleted);
        assert!(admission(response).is_ok());
    }

    #[test]
    fn waits_are_rounded_up() {
        let wait = prost_types::Duration { seconds: 2, nanos: 1 };
        assert_eq!(millis(Some(wait), "wait"), Ok(Millis(2001)));
        assert!(millis(Some(prost_types::Duration { seconds: -1, nanos: 0 }), "wait").is_err());
    }

    #[test]
    fn a_refusal_says_when_to_come_again_and_who_is_banned_until_when() {
        let mut response = pb::CheckRateResponse::default();
        assert!(rate_answer(response.clone()).is_err(), "no verdict");
        response.set_verdict(pb::RateVerdict::Allow);
        response.limits = vec![pb::LimitUsage { max: 3, remaining: 3, ..Default::default() }];
        let answer = rate_answer(response.clone()).expect("well-formed");
        assert!(answer.allowed() && answer.retry_after.is_none());
        assert_eq!(answer.limits[0].reset_after, Millis(0));
        response.set_verdict(pb::RateVerdict::Ban);
        assert!(rate_answer(response.clone()).is_err(), "no retry_after");
        response.retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        response.ban = Some(pb::Ban::default());
        assert!(rate_answer(response.clone()).is_err(), "a ban without its end");
        response.ban = None;
        assert_eq!(rate_answer(response).map(|answer| answer.allowed()), Ok(false));
    }
    #[test]
    fn values_that_no_request_asks_for_are_malformed() {
        let values = |first, last, step| {
            let response = pb::NextSequenceResponse { first, last, step, ..Default::default() };
            serials(response).map(|serials| serials.to_string())
        };
        assert_eq!(values(10, 20, 5), Ok("10\n15\n20\n".to_owned()));
        let most = i64::MAX as u64;
        assert_eq!(values(most, most, 1), Ok(format!("{most}\n")));
        assert!(values(1, 10_000, 1).is_ok());
        for (first, last, step) in [(0, 0, 0), (2, 1, 1), (1, 3, 4), (1, 10_001, 1)] {
            assert!(values(first, last, step).is_err(), "{first} to {last} by {step}");
        }
    }
}

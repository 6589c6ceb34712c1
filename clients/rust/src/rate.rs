//! Rates.

use crate::{Connection, Error, RateVerdict, pb, time};

/// The rule of a check: a policy of the server's configuration, or an inline rule.
pub use pb::check_rate_request::Against;

impl Connection {
    /// Counts a call of a key and returns the verdict. A cost of 0 reads without counting. A
    /// refusal has its `retry_after`. All attempts of this call have the same id, so that it counts
    /// once. A [`Limiter`](crate::Limiter) decides even when no server answers.
    pub async fn check(
        &self,
        key: &str,
        against: &Against,
        cost: u64,
    ) -> Result<pb::CheckRateResponse, Error> {
        let message = pb::CheckRateRequest {
            key: key.to_owned(),
            against: Some(against.clone()),
            cost: Some(cost),
            request_id: self.request_id(None),
        };
        self.check_rate(message).await
    }

    /// Makes a check with all fields of the contract. It is repeated only if it has a `request_id`.
    pub async fn check_rate(
        &self,
        message: pb::CheckRateRequest,
    ) -> Result<pb::CheckRateResponse, Error> {
        checked(self.call(message).await?)
    }
}

/// Checks a response; one that violates the contract is an error.
fn checked(response: pb::CheckRateResponse) -> Result<pb::CheckRateResponse, Error> {
    let allowed = match response.verdict() {
        RateVerdict::Unspecified => return Err(Error::malformed("verdict")),
        verdict => matches!(verdict, RateVerdict::Allow | RateVerdict::Warn),
    };
    if allowed != response.allowed {
        return Err(Error::malformed("allowed"));
    } else if !allowed {
        time::length(response.retry_after, "retry_after")?;
    }
    if let Some(ban) = &response.ban {
        time::time(ban.until)?;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_retry_and_a_ban_when_it_ends() {
        let mut response = pb::CheckRateResponse::default();
        assert!(checked(response.clone()).is_err(), "no verdict");
        response.set_verdict(RateVerdict::Allow);
        assert!(checked(response.clone()).is_err(), "not allowed");
        response.allowed = true;
        assert!(checked(response.clone()).is_ok());
        response.set_verdict(RateVerdict::Ban);
        response.allowed = false;
        assert!(checked(response.clone()).is_err(), "no retry_after");
        response.retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        response.ban = Some(pb::Ban::default());
        assert!(checked(response.clone()).is_err(), "a ban without its end");
        response.ban = None;
        assert!(checked(response).is_ok());
    }
}

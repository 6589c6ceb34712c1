//! Many tasks in few calls.

use std::time::Duration;

use crate::{
    Admission, CompleteVerdict, Connection, Error, RenewVerdict,
    calls::Call,
    held::{Held, Subject},
    pb::{self, admit_task_result, complete_task_result, renew_task_result},
    permit::Permit,
    pool::refusal,
    time,
};

/// Maximum number of items of one call.
const ITEMS_MAX: usize = 1000;
/// Maximum size of the items of one call; the server accepts 4 MiB.
const BYTES_MAX: usize = 3 << 20;

/// The results of a batch, in the order of the requests. An item that fails has its own error.
pub type Results<T> = Vec<Result<T, Error>>;

impl Connection {
    /// Asks for permits for many tasks, possibly of several pools. The requests have no `max_wait`.
    /// A keeper renews the permits if `keeps` is true. More than 1,000 requests are sent in several
    /// calls; a call that fails is the error of each of its items.
    pub async fn admit_many(
        &self,
        requests: Vec<pb::AdmitTaskRequest>,
        keeps: bool,
    ) -> Results<Admission> {
        let mut results = Vec::with_capacity(requests.len());
        for requests in batches(requests) {
            let leases: Vec<_> = requests.iter().map(|it| it.lease_duration).collect();
            let message = pb::AdmitTasksRequest { requests };
            let answered = match self.timed(self.deadline(), message).await {
                Ok(answered) if answered.answer.results.len() == leases.len() => answered,
                Ok(_) => {
                    results.extend(failed(leases.len(), &Error::malformed("results")));
                    continue;
                }
                Err(error) => {
                    results.extend(failed(leases.len(), &error));
                    continue;
                }
            };
            for (item, lease) in answered.answer.results.into_iter().zip(leases) {
                let lease = lease.and_then(|lease| Duration::try_from(lease).ok());
                results.push(match item.result {
                    Some(admit_task_result::Result::Response(response)) => {
                        self.permit(response, answered.sent, lease, keeps)
                    }
                    Some(admit_task_result::Result::Error(error)) => Err(error.into()),
                    None => Err(Error::malformed("result")),
                });
            }
        }
        results
    }

    /// Reports the results of many tasks, possibly of several pools. More than 1,000 requests are
    /// sent in several calls; a call that fails is the error of each of its items.
    pub async fn complete_many(
        &self,
        requests: Vec<pb::CompleteTaskRequest>,
    ) -> Results<CompleteVerdict> {
        let message = |requests| pb::CompleteTasksRequest { requests };
        let items = |answer: pb::CompleteTasksResponse| answer.results;
        let verdict = |item: pb::CompleteTaskResult| match item.result {
            Some(complete_task_result::Result::Response(response)) => match response.verdict() {
                CompleteVerdict::Unspecified => Err(Error::malformed("verdict")),
                verdict => Ok(verdict),
            },
            Some(complete_task_result::Result::Error(error)) => Err(error.into()),
            None => Err(Error::malformed("result")),
        };
        self.many(requests, message, items, verdict).await
    }

    /// Extends many leases, possibly of several pools. Permits with a keeper need no call. More
    /// than 1,000 requests are sent in several calls; a call that fails is the error of each of its
    /// items.
    pub async fn renew_many(&self, requests: Vec<pb::RenewTaskRequest>) -> Results<RenewVerdict> {
        let message = |requests| pb::RenewTasksRequest { requests };
        let items = |answer: pb::RenewTasksResponse| answer.results;
        let verdict = |item: pb::RenewTaskResult| match item.result {
            Some(renew_task_result::Result::Response(response)) => match response.verdict() {
                RenewVerdict::Unspecified => Err(Error::malformed("verdict")),
                verdict => Ok(verdict),
            },
            Some(renew_task_result::Result::Error(error)) => Err(error.into()),
            None => Err(Error::malformed("result")),
        };
        self.many(requests, message, items, verdict).await
    }

    async fn many<M: Size, C: Call, R, T>(
        &self,
        requests: Vec<M>,
        message: impl Fn(Vec<M>) -> C,
        items: impl Fn(C::Answer) -> Vec<R>,
        verdict: impl Fn(R) -> Result<T, Error>,
    ) -> Results<T> {
        let mut results = Vec::with_capacity(requests.len());
        for requests in batches(requests) {
            let count = requests.len();
            match self.call(message(requests)).await.map(&items) {
                Ok(items) if items.len() == count => {
                    results.extend(items.into_iter().map(&verdict))
                }
                Ok(_) => results.extend(failed(count, &Error::malformed("results"))),
                Err(error) => results.extend(failed(count, &error)),
            }
        }
        results
    }

    fn permit(
        &self,
        response: pb::AdmitTaskResponse,
        sent: crate::clock::Moment,
        lease: Option<Duration>,
        keeps: bool,
    ) -> Result<Admission, Error> {
        if let Some(refused) = refusal(&response)? {
            return Ok(refused);
        }
        let granted = response.lease.ok_or_else(|| Error::malformed("lease"))?;
        let expires_in = time::length(granted.expires_in, "expires_in")?;
        let subject = Subject::Task {
            pool: granted.pool.into(),
            device: granted.device_id.into(),
            task: granted.task_id.into(),
        };
        let token = granted.fencing_token;
        let held = Held::new(self, subject, token, (sent, expires_in), lease, keeps);
        Ok(Admission::Admitted(Permit::new(held, response.replayed, response.task, false)))
    }
}

/// An item of a batch.
trait Size: Sized {
    fn size(&self) -> usize;
}

impl<M: prost::Message> Size for M {
    fn size(&self) -> usize {
        // The tag and the length of the item are added to this.
        self.encoded_len() + 6
    }
}

/// Splits requests into batches that fit into one call.
fn batches<M: Size>(requests: Vec<M>) -> Vec<Vec<M>> {
    let mut batches: Vec<Vec<M>> = Vec::new();
    let mut bytes = 0;
    for request in requests {
        let size = request.size();
        match batches.last_mut() {
            Some(last) if last.len() < ITEMS_MAX && bytes + size <= BYTES_MAX => {
                last.push(request);
                bytes += size;
            }
            _ => {
                batches.push(vec![request]);
                bytes = size;
            }
        }
    }
    batches
}

fn failed<T>(count: usize, error: &Error) -> impl Iterator<Item = Result<T, Error>> {
    (0..count).map(|_| Err(error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_at_most_a_thousand_items_and_three_mebibytes() {
        let small = vec![pb::RenewTaskRequest::default(); 2_001];
        let sizes: Vec<_> = batches(small).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1_000, 1_000, 1]);
        let result = bytes::Bytes::from(vec![0; 1 << 20]);
        let large = vec![pb::CompleteTaskRequest { result, ..Default::default() }; 5];
        let sizes: Vec<_> = batches(large).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1]);
    }
}

//! Pools: admission, queued tasks, listings.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tonic::Code;

use crate::{
    CompleteVerdict, Connection, DispatchedTask, EnqueueStatus, Error, Outcome, QueuedTask,
    RenewVerdict, TaskState, Usage, pb, time,
};

/// Number of entries of a page of leases or tasks.
const PAGE: u32 = 1000;

/// A pool of a server: an external system that runs a limited number of tasks at once.
#[derive(Debug, Clone)]
pub struct Pool {
    connection: Connection,
    name: Arc<str>,
}

/// The answer to a request for a slot: a [`Permit`](crate::Permit), or a [`Grant`] of a plain call.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission<P = crate::Permit> {
    /// The device has a slot.
    Admitted(P),
    /// All slots are in use.
    Full {
        /// Time until a retry may succeed.
        retry_after: Duration,
    },
    /// The pool is paused.
    Paused {
        /// Time until a retry may succeed.
        retry_after: Duration,
    },
    /// The device has no queued task.
    NoTask,
    /// The task was completed before. It must not run again.
    AlreadyCompleted,
}

/// The lease of a plain call. Nothing renews it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Grows with each lease of the pool; a repeated answer has the same token.
    pub fencing_token: u64,
    /// Duration of the lease from its grant.
    pub lease: Duration,
    /// Whether an earlier call got this lease.
    pub replayed: bool,
    /// The queued task to run, if the call named none.
    pub task: Option<DispatchedTask>,
}

/// The state of a pool at the time of the call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolState {
    /// Name of the pool.
    pub name: String,
    /// Number of slots.
    pub capacity: u32,
    /// Number of slots in use.
    pub in_use: u32,
    /// Whether the pool is paused.
    pub paused: bool,
    /// Grant time of the oldest lease.
    pub oldest_grant: Option<SystemTime>,
    /// Number of queued tasks.
    pub queued: u64,
    /// Number of waiting calls.
    pub waiters: u32,
    /// Number of AdmitTask calls that this server answered FULL.
    pub refused: u64,
    /// Whether the stored values can be read. If not, only the name is valid.
    pub readable: bool,
}

impl Pool {
    pub(crate) fn new(connection: Connection, name: &str) -> Pool {
        Pool { connection, name: name.into() }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Asks for a slot with one plain call, whose lease is not renewed; [`admit`](Pool::admit)
    /// returns a permit. Returns the answer and the usage after it. An empty `task` asks for the
    /// oldest queued task of the device. A `lease` of `None` means the pool's default.
    pub async fn admit_task(
        &self,
        device: &str,
        task: &str,
        lease: Option<Duration>,
    ) -> Result<(Admission<Grant>, Usage), Error> {
        let message = pb::AdmitTaskRequest {
            pool: self.name.to_string(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
            lease_duration: lease.map(time::wire),
            max_wait: None,
        };
        admission(self.connection.call(message).await?)
    }

    /// Reports the result of a task with one plain call. If a token is given, it is compared with
    /// that of the lease. Returns the verdict and the usage after it.
    pub async fn complete_task(
        &self,
        device: &str,
        task: &str,
        fencing_token: impl Into<Option<u64>>,
        outcome: Outcome,
        result: impl Into<Bytes>,
    ) -> Result<(CompleteVerdict, Usage), Error> {
        let message = pb::CompleteTaskRequest {
            pool: self.name.to_string(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
            fencing_token: fencing_token.into(),
            outcome: outcome.into(),
            result: result.into(),
        };
        let answer = self.connection.call(message).await?;
        match answer.verdict() {
            CompleteVerdict::Unspecified => Err(Error::malformed("verdict")),
            verdict => Ok((verdict, usage(answer.usage)?)),
        }
    }

    /// Extends a lease with one plain call, by `lease` from now or the pool's default. Returns the
    /// verdict and, on RENEWED, the time until the lease ends.
    pub async fn renew_task(
        &self,
        device: &str,
        task: &str,
        fencing_token: impl Into<Option<u64>>,
        lease: Option<Duration>,
    ) -> Result<(RenewVerdict, Option<Duration>), Error> {
        let message = pb::RenewTaskRequest {
            pool: self.name.to_string(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
            fencing_token: fencing_token.into(),
            lease_duration: lease.map(time::wire),
        };
        let answered = self.connection.timed(self.connection.deadline(), message).await?;
        let verdict = answered.answer.verdict();
        let expires_in = answered.answer.lease.and_then(|lease| lease.expires_in);
        match verdict {
            RenewVerdict::Unspecified => Err(Error::malformed("verdict")),
            RenewVerdict::Renewed => {
                let length = time::length(expires_in, "expires_in")?;
                Ok((verdict, Some(length.saturating_sub(answered.sent.elapsed()))))
            }
            verdict => Ok((verdict, None)),
        }
    }

    /// Sets the capacity and the maximum attempts of queued tasks; `None` changes nothing. Returns
    /// the usage. [`change`](Pool::change) has all settings.
    pub async fn configure(
        &self,
        capacity: Option<u32>,
        max_attempts: Option<u32>,
    ) -> Result<Usage, Error> {
        let message = pb::ConfigurePoolRequest {
            pool: self.name.to_string(),
            capacity,
            max_attempts,
            ..pb::ConfigurePoolRequest::default()
        };
        let answer = self.connection.call(message).await?;
        usage(answer.pool.and_then(|pool| pool.usage))
    }

    /// Returns the usage.
    pub async fn usage(&self) -> Result<Usage, Error> {
        usage(self.get().await?.usage)
    }

    /// Returns the state.
    pub async fn state(&self) -> Result<PoolState, Error> {
        state(self.get().await?)
    }

    async fn get(&self) -> Result<pb::Pool, Error> {
        let message = pb::GetPoolRequest { pool: self.name.to_string() };
        let answer = self.connection.call(message).await?;
        answer.pool.ok_or_else(|| Error::malformed("pool"))
    }

    /// Queues at most 1,000 tasks. Returns the status of each, in order. Fails if the store refused
    /// some of them; a repeat reports the others as duplicates.
    pub async fn enqueue(&self, tasks: Vec<QueuedTask>) -> Result<Vec<EnqueueStatus>, Error> {
        let count = tasks.len();
        let message = pb::EnqueueTasksRequest { pool: self.name.to_string(), tasks };
        let answer = self.connection.call(message).await?;
        let statuses: Vec<_> = answer.results.iter().map(|result| result.status()).collect();
        if statuses.contains(&EnqueueStatus::Unavailable) {
            let message = "the store refused a part of the batch: send the batch again";
            return Err(Error::new(Code::Unavailable, message));
        }
        let unknown = [EnqueueStatus::Unspecified, EnqueueStatus::Unreadable];
        if statuses.len() == count && !statuses.iter().any(|status| unknown.contains(status)) {
            Ok(statuses)
        } else {
            Err(Error::malformed("results"))
        }
    }

    /// Lists device and name of a page of tasks, and the token of the next page: of queued and
    /// running ones, or of [`TaskState::Dead`] ones. Page tokens work as in
    /// [`Connection::list_pools`].
    pub async fn list_tasks(
        &self,
        state: Option<TaskState>,
        page_token: &str,
    ) -> Result<(Vec<(String, String)>, String), Error> {
        let message = pb::ListTasksRequest {
            pool: self.name.to_string(),
            page_size: Some(PAGE),
            page_token: page_token.to_owned(),
            state: state.unwrap_or_default().into(),
        };
        let page = self.connection.call(message).await?;
        let tasks = page.tasks.into_iter().map(|task| (task.device_id, task.task_id));
        Ok((tasks.collect(), page.next_page_token))
    }

    /// Lists the fencing tokens of a page of leases, and the token of the next page.
    pub async fn list_leases(&self, page_token: &str) -> Result<(Vec<u64>, String), Error> {
        let message = pb::ListLeasesRequest {
            pool: self.name.to_string(),
            page_size: Some(PAGE),
            page_token: page_token.to_owned(),
        };
        let page = self.connection.call(message).await?;
        let tokens = page.leases.into_iter().map(|lease| lease.fencing_token);
        Ok((tokens.collect(), page.next_page_token))
    }
}

impl Connection {
    /// Lists a page of at most `size` pools, and the token of the next page. An empty `page_token`
    /// starts at the first page; an empty token is returned with the last.
    pub async fn list_pools(
        &self,
        size: u32,
        page_token: &str,
    ) -> Result<(Vec<PoolState>, String), Error> {
        let page_token = page_token.to_owned();
        let message = pb::ListPoolsRequest { page_size: Some(size), page_token };
        let page = self.call(message).await?;
        let pools = page.pools.into_iter().map(state).collect::<Result<_, _>>()?;
        Ok((pools, page.next_page_token))
    }
}

/// Converts a response; one that violates the contract is an error.
fn admission(response: pb::AdmitTaskResponse) -> Result<(Admission<Grant>, Usage), Error> {
    let usage = usage(response.usage)?;
    let refused = refusal(&response)?;
    let admission = match refused {
        Some(refused) => refused,
        None => {
            let lease = response.lease.ok_or_else(|| Error::malformed("lease"))?;
            let (grant, expire) = (time::time(lease.grant_time)?, time::time(lease.expire_time)?);
            Admission::Admitted(Grant {
                fencing_token: lease.fencing_token,
                lease: expire.duration_since(grant).unwrap_or_default(),
                replayed: response.replayed,
                task: response.task,
            })
        }
    };
    Ok((admission, usage))
}

/// Converts a refusal; `None` if the task is admitted.
pub(crate) fn refusal<P>(response: &pb::AdmitTaskResponse) -> Result<Option<Admission<P>>, Error> {
    let retry_after = || time::length(response.retry_after, "retry_after");
    Ok(Some(match response.decision() {
        pb::AdmitDecision::Admitted => return Ok(None),
        pb::AdmitDecision::Full => Admission::Full { retry_after: retry_after()? },
        pb::AdmitDecision::Paused => Admission::Paused { retry_after: retry_after()? },
        pb::AdmitDecision::NoTask => Admission::NoTask,
        pb::AdmitDecision::AlreadyCompleted => Admission::AlreadyCompleted,
        pb::AdmitDecision::Unspecified => {
            return Err(Error::unknown_answer("AdmitDecision", response.decision));
        }
    }))
}

fn usage(usage: Option<Usage>) -> Result<Usage, Error> {
    usage.ok_or_else(|| Error::malformed("usage"))
}

fn state(pool: pb::Pool) -> Result<PoolState, Error> {
    let oldest_grant = pool.oldest_grant_time.map(|time| time::time(Some(time)));
    let usage = pool.usage.unwrap_or_default();
    Ok(PoolState {
        name: pool.pool,
        capacity: usage.capacity,
        in_use: usage.in_use,
        paused: pool.config.as_ref().is_some_and(|config| config.paused),
        oldest_grant: oldest_grant.transpose()?,
        queued: pool.queued,
        waiters: pool.waiters,
        refused: pool.refused,
        readable: pool.config.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_its_parts_is_malformed() {
        let mut response = pb::AdmitTaskResponse::default();
        assert!(admission(response.clone()).is_err());
        response.usage = Some(Usage::default());
        for decision in [pb::AdmitDecision::Admitted, pb::AdmitDecision::Full] {
            response.set_decision(decision);
            assert!(admission(response.clone()).is_err());
        }
        response.set_decision(pb::AdmitDecision::AlreadyCompleted);
        assert!(admission(response).is_ok());
        let negative = prost_types::Duration { seconds: -1, nanos: 0 };
        assert!(time::length(Some(negative), "wait").is_err());
    }

    #[test]
    fn a_pool_that_cannot_be_read_has_a_name_only() {
        let pool = pb::Pool { pool: "p".to_owned(), ..pb::Pool::default() };
        let read = state(pool).expect("well-formed");
        assert_eq!((&*read.name, read.readable), ("p", false));
    }
}

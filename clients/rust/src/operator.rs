//! Calls for operators, with the messages of the contract.

use std::time::Duration;

use tonic::{Request, metadata::MetadataValue};

use crate::{
    Connection, Error, Pool, TaskState,
    pb::{self, rate_service_client::RateServiceClient},
    time,
};

/// Number of entries of a page.
const PAGE: u32 = 1000;
/// Metadata that names the person or program that sets or lifts a ban.
const ACTOR: &str = "x-tollgate-actor";

impl Pool {
    /// Returns the pool with all settings. Fails with INTERNAL if its stored values cannot be read.
    pub async fn details(&self) -> Result<pb::Pool, Error> {
        let message = pb::GetPoolRequest { pool: self.name().to_owned() };
        found(self.connection().call(message).await?.pool)
    }

    /// Changes the settings that `change` sets; its `pool` is this one. Returns the pool after it.
    pub async fn change(&self, change: pb::ConfigurePoolRequest) -> Result<pb::Pool, Error> {
        let message = pb::ConfigurePoolRequest { pool: self.name().to_owned(), ..change };
        found(self.connection().call(message).await?.pool)
    }

    /// Lists a page of leases, and the token of the next page, as [`Connection::pools`] does.
    pub async fn leases(&self, page_token: &str) -> Result<(Vec<pb::Lease>, String), Error> {
        let message = pb::ListLeasesRequest {
            pool: self.name().to_owned(),
            page_size: Some(PAGE),
            page_token: page_token.to_owned(),
        };
        let page = self.connection().call(message).await?;
        Ok((page.leases, page.next_page_token))
    }

    /// Lists a page of tasks, and the token of the next page, as [`Pool::list_tasks`] does.
    pub async fn tasks(
        &self,
        state: Option<TaskState>,
        page_token: &str,
    ) -> Result<(Vec<pb::Task>, String), Error> {
        let message = pb::ListTasksRequest {
            pool: self.name().to_owned(),
            page_size: Some(PAGE),
            page_token: page_token.to_owned(),
            state: state.unwrap_or_default().into(),
        };
        let page = self.connection().call(message).await?;
        Ok((page.tasks, page.next_page_token))
    }

    /// Queues one task. Returns its result.
    pub async fn queue(&self, task: pb::QueuedTask) -> Result<pb::EnqueueResult, Error> {
        let message = pb::EnqueueTasksRequest { pool: self.name().to_owned(), tasks: vec![task] };
        let mut results = self.connection().call(message).await?.results;
        results.pop().ok_or_else(|| Error::malformed("results"))
    }

    /// Removes a task from the queue of its device, or from the list of dead tasks.
    pub async fn cancel(&self, device: &str, task: &str) -> Result<pb::CancelTaskResponse, Error> {
        let message = pb::CancelTaskRequest {
            pool: self.name().to_owned(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
        };
        self.connection().call(message).await
    }

    /// Queues a dead task again. Its attempts start again.
    pub async fn requeue(
        &self,
        device: &str,
        task: &str,
    ) -> Result<pb::RequeueTaskResponse, Error> {
        let message = pb::RequeueTaskRequest {
            pool: self.name().to_owned(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
        };
        self.connection().call(message).await
    }

    /// Frees the slot of a task. `reason` is stored with the task.
    pub async fn evict(
        &self,
        device: &str,
        task: &str,
        reason: &str,
    ) -> Result<pb::EvictTaskResponse, Error> {
        let message = pb::EvictTaskRequest {
            pool: self.name().to_owned(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
            reason: reason.to_owned(),
        };
        self.connection().call(message).await
    }
}

impl Connection {
    /// Lists a page of pools, and the token of the next page. An empty `page_token` starts at the
    /// first page; an empty token is returned with the last.
    pub async fn pools(&self, page_token: &str) -> Result<(Vec<pb::Pool>, String), Error> {
        let page_token = page_token.to_owned();
        let message = pb::ListPoolsRequest { page_size: Some(PAGE), page_token };
        let page = self.call(message).await?;
        Ok((page.pools, page.next_page_token))
    }

    /// Bans a key of a policy, or of rules in calls if `policy` is empty. `actor` names the person
    /// or program; it may be empty.
    pub async fn ban(
        &self,
        key: &str,
        policy: &str,
        length: Duration,
        reason: &str,
        actor: &str,
    ) -> Result<pb::BanResponse, Error> {
        let message = pb::BanRequest {
            key: key.to_owned(),
            policy: policy.to_owned(),
            duration: Some(time::wire(length)),
            reason: reason.to_owned(),
        };
        let send = |channel, request| async move {
            RateServiceClient::new(channel).ban(by(actor, request)).await
        };
        let answered = self.attempt(self.main(), self.deadline(), message, send).await?;
        let answer = answered.answer;
        match answer.ban {
            Some(_) => Ok(answer),
            None => Err(Error::malformed("ban")),
        }
    }

    /// Lifts the ban of a key, and clears its strikes and usage.
    pub async fn unban(
        &self,
        key: &str,
        policy: &str,
        actor: &str,
    ) -> Result<pb::UnbanResponse, Error> {
        let message = pb::UnbanRequest { key: key.to_owned(), policy: policy.to_owned() };
        let send = |channel, request| async move {
            RateServiceClient::new(channel).unban(by(actor, request)).await
        };
        Ok(self.attempt(self.main(), self.deadline(), message, send).await?.answer)
    }

    /// Returns the usage of a key under each limit of a policy, its ban and its strikes. Counts no
    /// call.
    pub async fn key(&self, key: &str, policy: &str) -> Result<pb::GetKeyResponse, Error> {
        let message = pb::GetKeyRequest { key: key.to_owned(), policy: policy.to_owned() };
        self.call(message).await
    }

    /// Lists a page of the running bans of a policy, and the token of the next page, as
    /// [`Connection::pools`] does.
    pub async fn bans(
        &self,
        policy: &str,
        page_token: &str,
    ) -> Result<(Vec<pb::Ban>, String), Error> {
        let message = pb::ListBansRequest {
            policy: policy.to_owned(),
            page_size: Some(PAGE),
            page_token: page_token.to_owned(),
        };
        let page = self.call(message).await?;
        Ok((page.bans, page.next_page_token))
    }

    /// Returns the last value of a sequence; 0 if none was given out.
    pub async fn sequence(&self, name: &str) -> Result<pb::GetSequenceResponse, Error> {
        let message = pb::GetSequenceRequest { name: name.to_owned() };
        self.call(message).await
    }

    /// Moves a sequence forward, so that its next value is at least `floor`. A floor that is not above
    /// the last value changes nothing, and `applied` is false.
    pub async fn set_sequence_floor(
        &self,
        name: &str,
        floor: u64,
    ) -> Result<pb::SetSequenceFloorResponse, Error> {
        let message = pb::SetSequenceFloorRequest { name: name.to_owned(), floor: Some(floor) };
        self.call(message).await
    }

    /// Lists a page of the held locks whose name begins with `prefix`. An empty `page_token` starts
    /// at the first page. A page can be empty; the last one has an empty `next_page_token`.
    pub async fn list_locks(
        &self,
        prefix: &str,
        page_token: &str,
    ) -> Result<pb::ListLocksResponse, Error> {
        let (prefix, page_token) = (prefix.to_owned(), page_token.to_owned());
        self.call(pb::ListLocksRequest { prefix, page_size: Some(PAGE), page_token }).await
    }

    /// Lists a page of the sequences whose name begins with `prefix`, as
    /// [`Connection::list_locks`] does.
    pub async fn list_sequences(
        &self,
        prefix: &str,
        page_token: &str,
    ) -> Result<pb::ListSequencesResponse, Error> {
        let (prefix, page_token) = (prefix.to_owned(), page_token.to_owned());
        self.call(pb::ListSequencesRequest { prefix, page_size: Some(PAGE), page_token }).await
    }

    /// Lists a page of the skus that begin with `prefix`, as [`Connection::list_locks`] does.
    pub async fn list_stock(
        &self,
        prefix: &str,
        page_token: &str,
    ) -> Result<pb::ListStockResponse, Error> {
        let (prefix, page_token) = (prefix.to_owned(), page_token.to_owned());
        self.call(pb::ListStockRequest { prefix, page_size: Some(PAGE), page_token }).await
    }
}

/// Adds the metadata of the actor to a request.
fn by<T>(actor: &str, mut request: Request<T>) -> Request<T> {
    if !actor.is_empty() {
        // Opaque bytes: the server accepts UTF-8. Control characters are not valid in metadata.
        if let Ok(actor) = MetadataValue::try_from(actor.as_bytes()) {
            request.metadata_mut().insert(ACTOR, actor);
        }
    }
    request
}

fn found(pool: Option<pb::Pool>) -> Result<pb::Pool, Error> {
    pool.ok_or_else(|| Error::malformed("pool"))
}

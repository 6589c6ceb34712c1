//! Requests about queued tasks, and a device's view of the answers.

use std::time::Duration;

use pb::{AdmitDecision, CancelVerdict, EnqueueStatus, RequeueVerdict, TaskState};
use tollgate_client::pb;

use crate::support::world::{World, admit, complete};

/// Returns a task whose payload contains its names.
pub fn queued(device: &str, task: &str) -> pb::QueuedTask {
    pb::QueuedTask {
        device_id: device.into(),
        task_id: task.into(),
        payload: format!("{device} {task}").into(),
        expire_time: None,
    }
}

pub fn batch(pool: &str, tasks: Vec<pb::QueuedTask>) -> pb::EnqueueTasksRequest {
    pb::EnqueueTasksRequest { pool: pool.into(), tasks }
}

pub fn listing(pool: &str, state: TaskState) -> pb::ListTasksRequest {
    pb::ListTasksRequest { pool: pool.into(), state: state.into(), ..Default::default() }
}

pub fn attempts(pool: &str, attempts: u32) -> pb::ConfigurePoolRequest {
    pb::ConfigurePoolRequest {
        pool: pool.into(),
        max_attempts: Some(attempts),
        ..Default::default()
    }
}

/// A dispatched task and its lease, as the device sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    pub task: String,
    pub attempt: u32,
    pub token: u64,
    pub replayed: bool,
}

impl World {
    pub async fn enqueue(&self, pool: &str, tasks: &[(&str, &str)]) -> Vec<EnqueueStatus> {
        let tasks = tasks.iter().map(|(device, task)| queued(device, task)).collect();
        let response = self.client.clone().enqueue_tasks(batch(pool, tasks)).await;
        response.unwrap().into_inner().results.iter().map(|result| result.status()).collect()
    }

    /// Sends a device's report. Returns the dispatched task, or the other decision.
    pub async fn report(&self, pool: &str, device: &str) -> Result<Dispatch, AdmitDecision> {
        self.admit_queued(pool, device, "").await
    }

    pub async fn admit_queued(
        &self,
        pool: &str,
        device: &str,
        task: &str,
    ) -> Result<Dispatch, AdmitDecision> {
        let response =
            self.client.clone().admit_task(admit(pool, device, task)).await.unwrap().into_inner();
        if response.decision() != AdmitDecision::Admitted {
            assert!(response.task.is_none() && response.lease.is_none());
            return Err(response.decision());
        }
        let (task, lease) = (response.task.unwrap(), response.lease.unwrap());
        assert_eq!((&*lease.device_id, &lease.task_id), (device, &task.task_id));
        assert_eq!(task.payload, format!("{device} {}", task.task_id));
        Ok(Dispatch {
            task: task.task_id,
            attempt: task.attempt,
            token: lease.fencing_token,
            replayed: response.replayed,
        })
    }

    pub async fn fail(&self, pool: &str, device: &str, task: &str) -> pb::CompleteTaskResponse {
        let failed = pb::CompleteTaskRequest {
            outcome: pb::Outcome::Failed.into(),
            ..complete(pool, device, task)
        };
        self.client.clone().complete_task(failed).await.unwrap().into_inner()
    }

    pub async fn cancel(&self, pool: &str, device: &str, task: &str) -> (CancelVerdict, bool) {
        let request = pb::CancelTaskRequest {
            pool: pool.into(),
            device_id: device.into(),
            task_id: task.into(),
        };
        let response = self.client.clone().cancel_task(request).await.unwrap().into_inner();
        (response.verdict(), response.replayed)
    }

    pub async fn requeue(&self, pool: &str, device: &str, task: &str) -> RequeueVerdict {
        let request = pb::RequeueTaskRequest {
            pool: pool.into(),
            device_id: device.into(),
            task_id: task.into(),
        };
        let response = self.client.clone().requeue_task(request).await.unwrap().into_inner();
        response.verdict()
    }

    /// Returns a page of tasks.
    pub async fn listed(&self, pool: &str, state: TaskState) -> Vec<pb::Task> {
        self.client.clone().list_tasks(listing(pool, state)).await.unwrap().into_inner().tasks
    }

    /// Device, task and state of all listed tasks.
    pub async fn tasks(&self, pool: &str, state: TaskState) -> Vec<(String, String, TaskState)> {
        let (mut request, mut tasks) = (listing(pool, state), Vec::new());
        request.page_size = Some(3);
        loop {
            let page = self.client.clone().list_tasks(request.clone()).await.unwrap().into_inner();
            assert!(page.tasks.len() <= 3);
            tasks.extend(page.tasks.into_iter().map(|task| {
                let state = task.state();
                (task.device_id, task.task_id, state)
            }));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return tasks;
            }
        }
    }

    pub async fn view(&self, pool: &str) -> pb::Pool {
        let request = pb::GetPoolRequest { pool: pool.into() };
        self.client.clone().get_pool(request).await.unwrap().into_inner().pool.unwrap()
    }

    pub async fn queued(&self, pool: &str) -> u64 {
        self.view(pool).await.queued
    }

    /// Advances time beyond the end of a lease of the default length.
    pub async fn outlive(&self) {
        self.advance(Duration::from_secs(301)).await;
    }
}

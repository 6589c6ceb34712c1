//! Commands of pools.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;
use tollgate_client::{
    Admission, Admit, Error as CallError, Held, Outcome, Pool, QueuedTask, Work, pb, time::wire,
};

use crate::{Answer, Fields, Object, Runner, failure, locked, put, short, unknown};

impl Runner {
    pub(crate) async fn admission(self: &Arc<Runner>, command: &str, fields: Fields) -> Answer {
        let (device, task) = (fields.text("device"), fields.text("task"));
        match command {
            "admit" => self.admit(&fields, self.pool(&fields)?.admit(&device, &task)).await,
            "poll" => self.admit(&fields, self.pool(&fields)?.poll(&device)).await,
            "permit" => self.state(&fields),
            "complete" => self.complete(&fields).await,
            "leave" => self.leave(&fields).await,
            "worker_start" => self.worker_start(&fields),
            "worker_stop" => self.worker_stop(&fields).await,
            "complete_task" => {
                let (token, outcome) = (fields.number::<u64>("token"), outcome(&fields));
                let result = fields.text("result");
                let pool = self.pool(&fields)?;
                let (verdict, _) =
                    pool.complete_task(&device, &task, token, outcome, result).await?;
                Ok(json!({ "verdict": short(verdict.as_str_name(), 2) }))
            }
            "renew_task" => {
                let (token, lease) = (fields.number::<u64>("token"), fields.seconds("lease"));
                let (verdict, left) =
                    self.pool(&fields)?.renew_task(&device, &task, token, lease).await?;
                let mut answer = json!({ "verdict": short(verdict.as_str_name(), 2) });
                put(&mut answer, "valid_for", left);
                Ok(answer)
            }
            "enqueue" => self.enqueue(&fields).await,
            "evict" => {
                let evicted = self.pool(&fields)?.evict(&device, &task, "").await?;
                let verdict = short(evicted.verdict().as_str_name(), 2);
                Ok(json!({ "verdict": verdict, "replayed": evicted.replayed }))
            }
            "cancel_task" => {
                let cancelled = self.pool(&fields)?.cancel(&device, &task).await?;
                let verdict = short(cancelled.verdict().as_str_name(), 2);
                Ok(json!({ "verdict": verdict, "replayed": cancelled.replayed }))
            }
            "requeue_task" => {
                let requeued = self.pool(&fields)?.requeue(&device, &task).await?;
                Ok(json!({ "verdict": short(requeued.verdict().as_str_name(), 2) }))
            }
            "pool" => Ok(described(&self.pool(&fields)?.details().await?)),
            "configure" => {
                let change = pb::ConfigurePoolRequest {
                    capacity: fields.number("capacity"),
                    paused: fields.is("paused"),
                    lease_duration: fields.seconds("lease").map(wire),
                    expiry_grace: fields.seconds("grace").map(wire),
                    ..Default::default()
                };
                Ok(described(&self.pool(&fields)?.change(change).await?))
            }
            _ => Err(unknown(command)),
        }
    }

    fn pool(&self, fields: &Fields) -> Result<Pool, CallError> {
        Ok(self.connection(fields)?.pool(&fields.text("pool")))
    }

    async fn admit(self: &Arc<Runner>, fields: &Fields, request: Admit) -> Answer {
        let admission = request
            .wait(fields.seconds("wait").unwrap_or_default())
            .lease(fields.seconds("lease"))
            .keeper(fields.is("keeper").unwrap_or(true))
            .await?;
        let mut answer = json!({ "outcome": name(&admission) });
        match admission {
            Admission::Admitted(permit) => {
                answer["token"] = json!(permit.token().to_string());
                answer["replayed"] = json!(permit.replayed());
                put(&mut answer, "valid_for", Some(permit.valid_for()));
                if let Some(task) = permit.task() {
                    answer["task"] = json!(task.task_id);
                    answer["payload"] = json!(String::from_utf8_lossy(&task.payload));
                    answer["attempt"] = json!(task.attempt);
                }
                let held = permit.held();
                let lost = self.report_loss(fields, &held);
                self.insert(fields, Object::Permit { permit: Some(permit), held, lost });
            }
            Admission::Full { retry_after } | Admission::Paused { retry_after } => {
                put(&mut answer, "retry_after", Some(retry_after));
            }
            Admission::NoTask | Admission::AlreadyCompleted => {}
        }
        Ok(answer)
    }

    fn state(&self, fields: &Fields) -> Answer {
        match locked(&self.objects).get(&fields.text("handle")) {
            Some(Object::Permit { held, .. }) => Ok(state(held)),
            _ => Err(unknown(&fields.text("handle"))),
        }
    }

    async fn complete(&self, fields: &Fields) -> Answer {
        let (permit, lost) = self.take_permit(fields)?;
        let verdict = permit.complete(outcome(fields), fields.text("result")).await;
        lost.abort();
        Ok(json!({ "verdict": short(verdict?.as_str_name(), 2) }))
    }

    async fn leave(&self, fields: &Fields) -> Answer {
        let (permit, lost) = self.take_permit(fields)?;
        lost.abort();
        let mut delivered = false;
        if fields.is("failed").unwrap_or_default() {
            let failed = failure();
            let left = permit.run(|_| async { Err::<Bytes, CallError>(failed) }).await;
            delivered = left == Err(failure());
        }
        Ok(json!({ "delivered": delivered }))
    }

    /// Leaves the scope of a lock.
    pub(crate) async fn leave_lock(&self, fields: &Fields) -> Answer {
        let (guard, lost) = self.take_lock(fields)?;
        lost.abort();
        drop(guard);
        Ok(json!({ "delivered": fields.is("failed").unwrap_or_default() }))
    }

    fn take_permit(
        &self,
        fields: &Fields,
    ) -> Result<(tollgate_client::Permit, tokio::task::AbortHandle), CallError> {
        let handle = fields.text("handle");
        match locked(&self.objects).get_mut(&handle) {
            Some(Object::Permit { permit, lost, .. }) => {
                let permit = permit.take().ok_or_else(|| unknown(&handle))?;
                Ok((permit, lost.clone()))
            }
            _ => Err(unknown(&handle)),
        }
    }

    async fn enqueue(&self, fields: &Fields) -> Answer {
        let tasks = fields.items("tasks").into_iter().map(|task| QueuedTask {
            device_id: task.text("device"),
            task_id: task.text("task"),
            payload: task.text("payload").into(),
            expire_time: None,
        });
        let statuses = self.pool(fields)?.enqueue(tasks.collect()).await?;
        let statuses: Vec<_> = statuses.iter().map(|it| short(it.as_str_name(), 2)).collect();
        Ok(json!({ "statuses": statuses }))
    }

    fn worker_start(self: &Arc<Runner>, fields: &Fields) -> Answer {
        let pool = self.pool(fields)?;
        let length = fields.seconds("work").unwrap_or_default();
        let fails = fields.is("fail").unwrap_or_default();
        let (started, done, handle) = (self.clone(), self.clone(), fields.text("handle"));
        let of = handle.clone();
        let worker = pool
            .worker(&fields.text("device"))
            .lease(fields.seconds("lease"))
            .on_done(move |task, verdict| {
                let verdict = match &verdict {
                    Ok(verdict) => short(verdict.as_str_name(), 2),
                    Err(error) => error.code,
                };
                done.send(json!({
                    "event": "done", "handle": of, "task": task, "verdict": verdict,
                }));
            })
            .start(move |work: Work| {
                started.send(json!({
                    "event": "task",
                    "handle": handle,
                    "task": work.task.task_id,
                    "attempt": work.task.attempt,
                }));
                async move {
                    sleep(length).await;
                    if fails { Err(()) } else { Ok("done") }
                }
            });
        self.insert(fields, Object::Worker(worker));
        Ok(json!({}))
    }

    async fn worker_stop(&self, fields: &Fields) -> Answer {
        let worker = locked(&self.objects).remove(&fields.text("handle"));
        let Some(Object::Worker(worker)) = worker else {
            return Err(unknown(&fields.text("handle")));
        };
        let failed = |_| CallError { code: "INTERNAL", ..CallError::default() };
        Ok(json!({ "done": worker.stop().await.map_err(failed)? }))
    }
}

pub(crate) fn name<P>(admission: &Admission<P>) -> &'static str {
    match admission {
        Admission::Admitted(_) => "ADMITTED",
        Admission::Full { .. } => "FULL",
        Admission::Paused { .. } => "PAUSED",
        Admission::NoTask => "NO_TASK",
        Admission::AlreadyCompleted => "ALREADY_COMPLETED",
    }
}

pub(crate) fn state(held: &Held) -> Value {
    json!({
        "valid": held.is_valid(),
        "lost": held.is_lost(),
        "valid_for": held.valid_for().as_secs_f64(),
        "token": held.token().to_string(),
    })
}

pub(crate) fn outcome(fields: &Fields) -> Outcome {
    if fields.text("outcome") == "FAILED" { Outcome::Failed } else { Outcome::Succeeded }
}

fn described(pool: &pb::Pool) -> Value {
    let usage = pool.usage.unwrap_or_default();
    json!({
        "capacity": usage.capacity,
        "in_use": usage.in_use,
        "available": usage.available,
        "paused": pool.config.as_ref().is_some_and(|config| config.paused),
        "waiters": pool.waiters,
        "queued": pool.queued.to_string(),
    })
}

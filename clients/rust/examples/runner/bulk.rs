//! Commands of many tasks.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate_client::{
    Admission, Connection, Error as CallError, Outcome, Permit, Results, pb, time::wire,
};

use crate::{
    Answer, Fields, Object, Runner,
    admission::{name, outcome},
    described, locked, short, unknown,
};

/// Number of parallel admissions and completions.
const PARALLEL: u64 = 64;

impl Runner {
    pub(crate) async fn bulk(self: &Arc<Runner>, command: &str, fields: Fields) -> Answer {
        match command {
            "admit_many" => self.admit_many(&fields).await,
            "complete_many" => {
                let request = |item: Fields| pb::CompleteTaskRequest {
                    pool: item.text("pool"),
                    device_id: item.text("device"),
                    task_id: item.text("task"),
                    fencing_token: item.number("token"),
                    outcome: outcome(&item).into(),
                    ..Default::default()
                };
                let requests = fields.items("items").into_iter().map(request).collect();
                let results = self.connection(&fields)?.complete_many(requests).await;
                Ok(verdicts(&results, |verdict| verdict.as_str_name()))
            }
            "renew_many" => {
                let request = |item: Fields| pb::RenewTaskRequest {
                    pool: item.text("pool"),
                    device_id: item.text("device"),
                    task_id: item.text("task"),
                    fencing_token: item.number("token"),
                    lease_duration: item.seconds("lease").map(wire),
                };
                let requests = fields.items("items").into_iter().map(request).collect();
                let results = self.connection(&fields)?.renew_many(requests).await;
                Ok(verdicts(&results, |verdict| verdict.as_str_name()))
            }
            "hold" => self.hold(&fields).await,
            "held" => {
                let objects = locked(&self.objects);
                let Some(Object::Many(permits)) = objects.get(&fields.text("handle")) else {
                    return Err(unknown(&fields.text("handle")));
                };
                let valid = permits.iter().filter(|permit| permit.is_valid()).count();
                let lost = permits.iter().filter(|permit| permit.is_lost()).count();
                Ok(json!({ "valid": valid, "lost": lost }))
            }
            "release" => self.release(&fields).await,
            _ => self.pairs(&fields).await,
        }
    }

    /// Admits without keepers: the permits are closed immediately, and their leases run until they
    /// expire.
    async fn admit_many(&self, fields: &Fields) -> Answer {
        let request = |item: Fields| pb::AdmitTaskRequest {
            pool: item.text("pool"),
            device_id: item.text("device"),
            task_id: item.text("task"),
            lease_duration: item.seconds("lease").map(wire),
            max_wait: item.seconds("wait").map(wire),
        };
        let requests = fields.items("items").into_iter().map(request).collect();
        let results = self.connection(fields)?.admit_many(requests, false).await;
        let results: Vec<Value> = results
            .iter()
            .map(|result| match result {
                Ok(admission @ Admission::Admitted(permit)) => {
                    json!({ "outcome": name(admission), "token": permit.token().to_string() })
                }
                Ok(refused) => json!({ "outcome": name(refused) }),
                Err(error) => json!({ "error": described(error) }),
            })
            .collect();
        Ok(json!({ "results": results }))
    }

    async fn hold(&self, fields: &Fields) -> Answer {
        let connection = self.connection(fields)?;
        let (pool, handle) = (fields.text("pool"), fields.text("handle"));
        let (count, lease) = (fields.number("count").unwrap_or(0), fields.seconds("lease"));
        let mut permits = Vec::new();
        let admit = |connection: Connection, number: u64| {
            let (pool, device) = (connection.pool(&pool), format!("{handle}-{number}"));
            async move { pool.admit(&device, "task").lease(lease).await }
        };
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(admit(connection.clone(), number));
            if tasks.len() as u64 >= PARALLEL {
                collect(&mut tasks, &mut permits).await?;
            }
        }
        while !tasks.is_empty() {
            collect(&mut tasks, &mut permits).await?;
        }
        let admitted = permits.len();
        self.insert(fields, Object::Many(permits));
        Ok(json!({ "admitted": admitted }))
    }

    async fn release(&self, fields: &Fields) -> Answer {
        let handle = fields.text("handle");
        let Some(Object::Many(permits)) = locked(&self.objects).remove(&handle) else {
            return Err(unknown(&handle));
        };
        let (mut tasks, mut completed) = (JoinSet::new(), 0);
        for permit in permits {
            tasks.spawn(permit.complete(Outcome::Succeeded, ""));
            if tasks.len() as u64 >= PARALLEL {
                completed += finished(&mut tasks).await?;
            }
        }
        while !tasks.is_empty() {
            completed += finished(&mut tasks).await?;
        }
        Ok(json!({ "completed": completed }))
    }

    async fn pairs(&self, fields: &Fields) -> Answer {
        let pool = self.connection(fields)?.pool(&fields.text("pool"));
        let count: u64 = fields.number("count").unwrap_or(0);
        let (next, mut tasks) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        // Tasks of an earlier use have results.
        let run = fastrand::u64(..);
        for _ in 0..fields.number("parallel").unwrap_or(1_u64) {
            let (pool, next) = (pool.clone(), next.clone());
            tasks.spawn(async move {
                let mut completed = 0;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<u64, CallError>(completed);
                    }
                    let task = format!("{run}-{number}");
                    if let Admission::Admitted(permit) = pool.admit("pairs", &task).await? {
                        permit.complete(Outcome::Succeeded, "").await?;
                        completed += 1;
                    }
                }
            });
        }
        let mut completed = 0;
        while let Some(done) = tasks.join_next().await {
            completed += done.map_err(|_| unknown("task"))??;
        }
        Ok(json!({ "completed": completed }))
    }
}

async fn collect(
    tasks: &mut JoinSet<Result<Admission, CallError>>,
    permits: &mut Vec<Permit>,
) -> Result<(), CallError> {
    if let Some(Ok(admission)) = tasks.join_next().await
        && let Admission::Admitted(permit) = admission?
    {
        permits.push(permit);
    }
    Ok(())
}

async fn finished<T: 'static>(tasks: &mut JoinSet<Result<T, CallError>>) -> Result<u64, CallError> {
    match tasks.join_next().await {
        Some(Ok(done)) => done.map(|_| 1),
        _ => Ok(0),
    }
}

fn verdicts<T>(results: &Results<T>, of: impl Fn(&T) -> &'static str) -> Value {
    let results: Vec<Value> = results
        .iter()
        .map(|result| match result {
            Ok(verdict) => json!({ "verdict": short(of(verdict), 2) }),
            Err(error) => json!({ "error": described(error) }),
        })
        .collect();
    json!({ "results": results })
}

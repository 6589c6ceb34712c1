//! Tasks of pools: AdmitTasks, CompleteTasks and RenewTasks. Each row has its own pool.

use std::ops::Range;

use prost_types::Duration;
use tollgate_client::pb::{
    self, AdmitDecision, CompleteVerdict, RenewVerdict, admit_task_result as admit_result,
    complete_task_result as complete_result, renew_task_result as renew_result,
};

use crate::{keys::name, site::Site, verb::BATCH_MAX};

/// The pool of AdmitTask.
pub(crate) const ADMITTED: &str = "admitted";
/// The pool of CompleteTask.
pub(crate) const COMPLETED: &str = "completed";
/// The pool of RenewTask.
pub(crate) const RENEWED: &str = "renewed";
/// A pool with one slot.
const FULL: &str = "full";

/// Admits tasks.
pub(crate) async fn admit(site: &Site, pool: &str, numbers: impl Iterator<Item = u64>) {
    for answer in ask(site, numbers.map(|number| request(pool, number)).collect()).await {
        let is_admitted = answer.decision() == AdmitDecision::Admitted;
        assert!(is_admitted && !answer.replayed && !answer.degraded, "{answer:?}");
    }
}

/// Completes admitted tasks.
pub(crate) async fn complete(site: &Site, pool: &str, numbers: impl Iterator<Item = u64>) {
    let requests: Vec<_> = numbers
        .map(|number| pb::CompleteTaskRequest {
            pool: pool.into(),
            device_id: name("dev:", number),
            task_id: name("task", number),
            ..pb::CompleteTaskRequest::default()
        })
        .collect();
    let count = requests.len();
    let request = pb::CompleteTasksRequest { requests };
    let answer = site.admission.clone().complete_tasks(request).await.unwrap();
    let results = answer.into_inner().results;
    assert_eq!(results.len(), count);
    for result in results {
        let Some(complete_result::Result::Response(answer)) = result.result else {
            panic!("{result:?}");
        };
        let is_completed = answer.verdict() == CompleteVerdict::Completed;
        assert!(is_completed && !answer.degraded, "{answer:?}");
    }
}

/// Renews leases of [`RENEWED`].
pub(crate) async fn renew(site: &Site, numbers: impl Iterator<Item = u64>) {
    let requests: Vec<_> = numbers
        .map(|number| pb::RenewTaskRequest {
            pool: RENEWED.into(),
            device_id: name("dev:", number),
            task_id: name("task", number),
            ..pb::RenewTaskRequest::default()
        })
        .collect();
    let count = requests.len();
    let request = pb::RenewTasksRequest { requests };
    let answer = site.admission.clone().renew_tasks(request).await.unwrap();
    let results = answer.into_inner().results;
    assert_eq!(results.len(), count);
    for result in results {
        let Some(renew_result::Result::Response(answer)) = result.result else {
            panic!("{result:?}");
        };
        assert!(answer.verdict() == RenewVerdict::Renewed && !answer.degraded, "{answer:?}");
    }
}

/// Asks for slots of [`FULL`].
pub(crate) async fn admit_to_full(site: &Site, numbers: impl Iterator<Item = u64>) {
    for answer in ask(site, numbers.map(|number| request(FULL, number)).collect()).await {
        let is_cached = answer.usage.as_ref().is_none_or(|usage| usage.cached);
        let is_full = answer.decision() == AdmitDecision::Full;
        assert!(is_full && !is_cached && !answer.degraded, "{answer:?}");
    }
}

/// Occupies the only slot of [`FULL`] for longer than any run.
pub(crate) async fn fill(site: &Site) {
    let holder = pb::AdmitTaskRequest {
        device_id: "holder".into(),
        lease_duration: Some(Duration { seconds: 86_400, nanos: 0 }),
        ..request(FULL, 0)
    };
    let answers = ask(site, vec![holder]).await;
    assert_eq!(answers[0].decision(), AdmitDecision::Admitted);
}

/// Admits tasks in calls of [`BATCH_MAX`] tasks, one after the other.
pub(crate) async fn admit_in_turn(site: &Site, pool: &str, numbers: Range<u64>) {
    for first in numbers.clone().step_by(BATCH_MAX as usize) {
        admit(site, pool, first..numbers.end.min(first + BATCH_MAX)).await;
    }
}

/// Completes tasks in the same way.
pub(crate) async fn complete_in_turn(site: &Site, pool: &str, numbers: Range<u64>) {
    for first in numbers.clone().step_by(BATCH_MAX as usize) {
        complete(site, pool, first..numbers.end.min(first + BATCH_MAX)).await;
    }
}

fn request(pool: &str, number: u64) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest {
        pool: pool.into(),
        device_id: name("dev:", number),
        task_id: name("task", number),
        ..pb::AdmitTaskRequest::default()
    }
}

async fn ask(site: &Site, requests: Vec<pb::AdmitTaskRequest>) -> Vec<pb::AdmitTaskResponse> {
    let count = requests.len();
    let request = pb::AdmitTasksRequest { requests };
    let answer = site.admission.clone().admit_tasks(request).await.unwrap();
    let results = answer.into_inner().results;
    assert_eq!(results.len(), count);
    let answers = results.into_iter().map(|result| match result.result {
        Some(admit_result::Result::Response(answer)) => answer,
        other => panic!("{other:?}"),
    });
    answers.collect()
}

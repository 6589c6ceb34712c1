//! Batches of requests, and their results.

use pb::{
    admit_task_result::Result as Admitted, complete_task_result::Result as Completed,
    renew_task_result::Result as Renewed,
};
use tollgate_client::pb;
use tonic::Code;

use crate::support::world::{World, patient};

/// The response to a request of a batch, or its error.
pub type Answer<T> = Result<T, pb::ItemError>;

pub fn admissions(response: pb::AdmitTasksResponse) -> Vec<Answer<pb::AdmitTaskResponse>> {
    let result = |result: pb::AdmitTaskResult| match result.result.expect("a result") {
        Admitted::Response(response) => Ok(response),
        Admitted::Error(error) => Err(error),
    };
    response.results.into_iter().map(result).collect()
}

pub fn completions(response: pb::CompleteTasksResponse) -> Vec<Answer<pb::CompleteTaskResponse>> {
    let result = |result: pb::CompleteTaskResult| match result.result.expect("a result") {
        Completed::Response(response) => Ok(response),
        Completed::Error(error) => Err(error),
    };
    response.results.into_iter().map(result).collect()
}

pub fn renewals(response: pb::RenewTasksResponse) -> Vec<Answer<pb::RenewTaskResponse>> {
    let result = |result: pb::RenewTaskResult| match result.result.expect("a result") {
        Renewed::Response(response) => Ok(response),
        Renewed::Error(error) => Err(error),
    };
    response.results.into_iter().map(result).collect()
}

/// Fails unless a request of a batch failed with this code and reason. Returns the names of its bad
/// fields.
pub fn failed<T: std::fmt::Debug>(answer: &Answer<T>, code: Code, reason: &str) -> Vec<String> {
    let error = answer.as_ref().expect_err("an error of the request");
    assert_eq!((Code::from(error.code), &*error.reason), (code, reason), "{error:?}");
    assert!(!error.message.is_empty(), "{error:?}");
    assert!(error.violations.iter().all(|it| !it.description.is_empty()), "{error:?}");
    error.violations.iter().map(|violation| violation.field.clone()).collect()
}

impl World {
    pub async fn admit_all(
        &self,
        requests: Vec<pb::AdmitTaskRequest>,
    ) -> Vec<Answer<pb::AdmitTaskResponse>> {
        let request = patient(pb::AdmitTasksRequest { requests });
        admissions(self.client.clone().admit_tasks(request).await.unwrap().into_inner())
    }

    pub async fn complete_all(
        &self,
        requests: Vec<pb::CompleteTaskRequest>,
    ) -> Vec<Answer<pb::CompleteTaskResponse>> {
        let request = patient(pb::CompleteTasksRequest { requests });
        completions(self.client.clone().complete_tasks(request).await.unwrap().into_inner())
    }

    pub async fn renew_all(
        &self,
        requests: Vec<pb::RenewTaskRequest>,
    ) -> Vec<Answer<pb::RenewTaskResponse>> {
        let request = patient(pb::RenewTasksRequest { requests });
        renewals(self.client.clone().renew_tasks(request).await.unwrap().into_inner())
    }
}

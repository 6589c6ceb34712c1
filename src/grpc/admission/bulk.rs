//! `AdmitTasks`, `CompleteTasks` and `RenewTasks`: several single calls in one round trip.
//!
//! A request that is invalid, or that fails, has its error in its place. The call fails only if
//! nothing was decided: for a wrong number of requests, or if all of them fail for the same reason
//! of the store.

use std::{mem::discriminant, time::Instant};

use tonic::{Request, Response, Status};

use super::{
    super::{deadline, failed, pb, quota, scope::Origin, traces::is_fault},
    AdmissionHandlers, Answer, convert, parse,
    parse::Items,
};
use crate::{
    decision::{error::Error, time::monotonic},
    engine::Answered,
};

/// The answer to one request of a batch.
type AnsweredItem<O> = Result<Answered<O>, Error>;

pub(super) async fn admit_tasks(
    handlers: &AdmissionHandlers,
    request: Request<pb::AdmitTasksRequest>,
) -> Answer<pb::AdmitTasksResponse> {
    use pb::admit_task_result::Result as Wire;

    let (deadline, scope, request) = deadline::of(request);
    let origin = scope.origin();
    let items = parse::admit_tasks(request, scope, &handlers.rules.load().pools)?;
    quota::charge(&handlers.engine, origin.namespace(), items.len());
    let answers = handlers.engine.submit_all(&items.decisions, deadline).await;
    let answers = settled(&items, answers, deadline)?;
    let results = results(&items, answers, ("AdmitTasks", &origin), |decision, answered| {
        handlers.note_admission(decision, answered);
        convert::admission(decision, answered)
    });
    let results = results.into_iter().map(|result| pb::AdmitTaskResult {
        result: Some(result.map_or_else(Wire::Error, Wire::Response)),
    });
    Ok(Response::new(pb::AdmitTasksResponse { results: results.collect() }))
}

pub(super) async fn complete_tasks(
    handlers: &AdmissionHandlers,
    request: Request<pb::CompleteTasksRequest>,
) -> Answer<pb::CompleteTasksResponse> {
    use pb::complete_task_result::Result as Wire;

    let (deadline, scope, request) = deadline::of(request);
    let origin = scope.origin();
    let items = parse::complete_tasks(request, scope, &handlers.rules.load().pools)?;
    let answers = handlers.engine.submit_all(&items.decisions, deadline).await;
    let answers = settled(&items, answers, deadline)?;
    let results = results(&items, answers, ("CompleteTasks", &origin), |decision, answered| {
        super::log_completion(decision, answered);
        convert::completion(answered)
    });
    let results = results.into_iter().map(|result| pb::CompleteTaskResult {
        result: Some(result.map_or_else(Wire::Error, Wire::Response)),
    });
    Ok(Response::new(pb::CompleteTasksResponse { results: results.collect() }))
}

pub(super) async fn renew_tasks(
    handlers: &AdmissionHandlers,
    request: Request<pb::RenewTasksRequest>,
) -> Answer<pb::RenewTasksResponse> {
    use pb::renew_task_result::Result as Wire;

    let (deadline, scope, request) = deadline::of(request);
    let origin = scope.origin();
    let items = parse::renew_tasks(request, scope, &handlers.rules.load().pools)?;
    let answers = handlers.engine.submit_all(&items.decisions, deadline).await;
    let answers = settled(&items, answers, deadline)?;
    let results = results(&items, answers, ("RenewTasks", &origin), |decision, answered| {
        super::log_renewal(decision, answered);
        convert::renewal(decision, answered)
    });
    let results = results.into_iter().map(|result| pb::RenewTaskResult {
        result: Some(result.map_or_else(Wire::Error, Wire::Response)),
    });
    Ok(Response::new(pb::RenewTasksResponse { results: results.collect() }))
}

/// The answers of the valid requests. Fails if every request of the batch fails for the same reason
/// of the store.
fn settled<D, O>(
    items: &Items<D>,
    answers: Result<Vec<AnsweredItem<O>>, Error>,
    deadline: Instant,
) -> Result<Vec<AnsweredItem<O>>, Status> {
    let mut answers = answers
        .unwrap_or_else(|error| items.decisions.iter().map(|_| Err(error.clone())).collect());
    if monotonic() >= deadline {
        // Redis was not sent these in time. A single call would be refused as overload.
        let unsent = answers.iter_mut().filter(|it| matches!(it, Err(Error::Overloaded)));
        unsent.for_each(|answer| *answer = Err(Error::NotReached));
    }
    match common_error(&answers) {
        Some(error) if items.invalid.is_empty() => Err(error.into()),
        _ => Ok(answers),
    }
}

/// The error of all answers, if they have the same one. Unreadable values are errors of single
/// requests.
fn common_error<T>(answers: &[Result<T, Error>]) -> Option<Error> {
    let first = answers.first()?.as_ref().err()?;
    let is_common = answers.iter().all(|answer| {
        answer.as_ref().is_err_and(|error| discriminant(error) == discriminant(first))
    });
    (is_common && !matches!(first, Error::Corrupt(_))).then(|| first.clone())
}

/// The result of each request in order. Logs the faults among them, as of calls of their own.
fn results<D, O, R>(
    items: &Items<D>,
    answers: Vec<AnsweredItem<O>>,
    (method, origin): (&'static str, &Origin),
    mut convert: impl FnMut(&D, &Answered<O>) -> R,
) -> Vec<Result<R, pb::ItemError>> {
    let mut results = Vec::with_capacity(items.len());
    let failed = |status: &Status| {
        if is_fault(status.code()) {
            failed::note(AdmissionHandlers::NAME, method, origin, status);
        }
        Err(convert::item_error(status))
    };
    let mut invalid = items.invalid.iter().peekable();
    let mut decided = items.decisions.iter().zip(answers);
    loop {
        let result = match invalid.next_if(|(index, _)| *index == results.len()) {
            Some((_, status)) => failed(status),
            None => match decided.next() {
                Some((decision, Ok(answered))) => Ok(convert(decision, &answered)),
                Some((_, Err(error))) => failed(&error.into()),
                None => return results,
            },
        };
        results.push(result);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pb::admission_service_server::AdmissionService;
    use tonic::Code;

    use super::*;
    use crate::{
        decision::time::Clock,
        engine::{Engine, embedded::Embedded},
    };

    /// A batch of 100 requests with this `grpc-timeout`.
    fn hundred(timeout: &'static str) -> Request<pb::AdmitTasksRequest> {
        let request = |number: usize| pb::AdmitTaskRequest {
            pool: "p".into(),
            device_id: format!("d{number}").into(),
            task_id: "t".into(),
            ..pb::AdmitTaskRequest::default()
        };
        let requests = (0..100).map(request).collect();
        let mut request = Request::new(pb::AdmitTasksRequest { requests });
        let timeout = timeout.parse().expect("a value of metadata");
        request.metadata_mut().insert("grpc-timeout", timeout);
        request
    }

    #[tokio::test]
    async fn requests_behind_the_deadline_are_not_executed() {
        use pb::admit_task_result::Result::{Error as Failed, Response as Decided};

        let engine = Arc::new(Engine::Embedded(Embedded::new(Clock::system())));
        let handlers = AdmissionHandlers::new(engine, Arc::default());
        let mut decided = 0;
        // Each call decides the repeats of the one before, and no more.
        for _ in 0..2 {
            let answer = handlers.admit_tasks(hundred("1n")).await.expect("an answer");
            let results = answer.into_inner().results;
            decided = results.iter().filter(|it| matches!(it.result, Some(Decided(_)))).count();
            assert!(decided > 0 && decided < 100 && results.len() == 100, "{decided}");
            for result in &results[decided..] {
                let Some(Failed(error)) = &result.result else { panic!("{result:?}") };
                assert_eq!(Code::from(error.code), Code::DeadlineExceeded, "{error:?}");
                assert_eq!(&*error.reason, b"NOT_REACHED", "{error:?}");
            }
        }
        let answer = handlers.admit_tasks(hundred("60S")).await.expect("an answer");
        let results = answer.into_inner().results.into_iter();
        let replayed: Vec<bool> = results
            .filter_map(|it| match it.result {
                Some(Decided(response)) if response.lease.is_some() => Some(response.replayed),
                _ => None,
            })
            .collect();
        // The capacity is 60.
        let expected: Vec<bool> = (0..60).map(|number| number < decided).collect();
        assert_eq!(replayed, expected);
    }

    #[test]
    fn a_call_fails_only_for_an_error_that_all_requests_have() {
        let unavailable = |why: &str| Err::<(), Error>(Error::Unavailable(why.to_owned()));
        let both = [unavailable("one"), unavailable("other")];
        assert_eq!(common_error(&both), unavailable("one").err());
        assert_eq!(common_error(&[unavailable("one"), Ok(())]), None);
        assert_eq!(common_error(&[unavailable("one"), Err(Error::NotReached)]), None);
        let corrupt = || Err::<(), Error>(Error::Corrupt("text".to_owned()));
        assert_eq!(common_error(&[corrupt(), corrupt()]), None);
    }
}

//! `AdmitTasks`, `CompleteTasks` and `RenewTasks`: several single calls in one round trip.
//!
//! A request that is invalid or fails has its error in its place. The whole call fails only if
//! nothing was decided: if the number of requests is out of range, or if all of them fail because
//! of the store and for the same reason.

use std::{mem::discriminant, time::Instant};

use prost::Message;
use tonic::{Request, Response, Status};

use super::super::status::from_error;
use super::{
    super::{deadline, failed, pb, quota, rpcs::Service, scope::Origin, traces::is_fault},
    AdmissionHandlers, Answer, EncodedResults, convert, parse,
    parse::Items,
};
use tollgate_core::{error::Error, time::monotonic};
use tollgate_engine::Answered;

/// The answer to one request of a batch.
type AnsweredItem<O> = Result<Answered<O>, Error>;

pub(super) async fn admit_tasks(
    handlers: &AdmissionHandlers,
    request: Request<pb::AdmitTasksRequest>,
) -> Answer<EncodedResults> {
    let (deadline, scope, request) = deadline::of(request);
    let origin = scope.origin();
    let items = parse::admit_tasks(request, scope, &handlers.rules.load().pools)?;
    quota::charge(&handlers.engine, origin.namespace(), items.len());
    let answers = handlers.engine.submit_all(&items.decisions, deadline).await;
    let answers = settled(&items, answers, deadline)?;
    let results = results(items, answers, ("AdmitTasks", &origin), |decision, answered| {
        handlers.record_admission(&decision, &answered);
        convert::admission(decision, &answered)
    });
    Ok(Response::new(results))
}

pub(super) async fn complete_tasks(
    handlers: &AdmissionHandlers,
    request: Request<pb::CompleteTasksRequest>,
) -> Answer<EncodedResults> {
    let (deadline, scope, request) = deadline::of(request);
    let origin = scope.origin();
    let items = parse::complete_tasks(request, scope, &handlers.rules.load().pools)?;
    let answers = handlers.engine.submit_all(&items.decisions, deadline).await;
    let answers = settled(&items, answers, deadline)?;
    let results = results(items, answers, ("CompleteTasks", &origin), |decision, answered| {
        super::log_completion(&decision, &answered);
        convert::completion(&answered)
    });
    Ok(Response::new(results))
}

pub(super) async fn renew_tasks(
    handlers: &AdmissionHandlers,
    request: Request<pb::RenewTasksRequest>,
) -> Answer<EncodedResults> {
    let (deadline, scope, request) = deadline::of(request);
    let origin = scope.origin();
    let items = parse::renew_tasks(request, scope, &handlers.rules.load().pools)?;
    let answers = handlers.engine.submit_all(&items.decisions, deadline).await;
    let answers = settled(&items, answers, deadline)?;
    let results = results(items, answers, ("RenewTasks", &origin), |decision, answered| {
        super::log_renewal(&decision, &answered);
        convert::renewal(decision, &answered)
    });
    Ok(Response::new(results))
}

/// Returns the answers to the valid requests. Fails if every request of the batch fails because of
/// the store and for the same reason.
fn settled<D, O>(
    items: &Items<D>,
    answers: Result<Vec<AnsweredItem<O>>, Error>,
    deadline: Instant,
) -> Result<Vec<AnsweredItem<O>>, Status> {
    let mut answers = answers
        .unwrap_or_else(|error| items.decisions.iter().map(|_| Err(error.clone())).collect());
    if monotonic() >= deadline {
        // These were not sent to Redis in time. A single call would be rejected as overload.
        let unsent = answers.iter_mut().filter(|it| matches!(it, Err(Error::Overloaded)));
        unsent.for_each(|answer| *answer = Err(Error::NotReached));
    }
    match common_error(&answers) {
        Some(error) if items.invalid.is_empty() => Err(from_error(error)),
        _ => Ok(answers),
    }
}

/// Returns the error that all answers have in common, if any. An unreadable value concerns a single
/// request only.
fn common_error<T>(answers: &[Result<T, Error>]) -> Option<Error> {
    let first = answers.first()?.as_ref().err()?;
    let is_common = answers.iter().all(|answer| {
        answer.as_ref().is_err_and(|error| discriminant(error) == discriminant(first))
    });
    (is_common && !matches!(first, Error::Corrupt(_))).then(|| first.clone())
}

/// Returns the results in the order of the requests. Logs the faults among them like those of
/// single calls.
fn results<D, O, R: Message>(
    items: Items<D>,
    answers: Vec<AnsweredItem<O>>,
    (method, origin): (&'static str, &Origin),
    convert: impl Fn(D, Answered<O>) -> R,
) -> EncodedResults {
    let mut results = EncodedResults::with_capacity(items.len());
    let failed = |results: &mut EncodedResults, status: &Status| {
        if is_fault(status.code()) {
            failed::log(Service::Admission.full_name(), method, origin, status);
        }
        results.push_error(&convert::item_error(status));
    };
    let mut invalid = items.invalid.iter().peekable();
    let mut decided = items.decisions.into_iter().zip(answers);
    for place in 0.. {
        if let Some((_, status)) = invalid.next_if(|(index, _)| *index == place) {
            failed(&mut results, status);
            continue;
        }
        match decided.next() {
            Some((decision, Ok(answered))) => results.push(&convert(decision, answered)),
            Some((_, Err(error))) => failed(&mut results, &from_error(error)),
            None => break,
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pb::admission_service_server::AdmissionService;
    use tollgate_client::pb::{
        AdmitTasksResponse,
        admit_task_result::Result::{Error as Failed, Response as Decided},
    };
    use tonic::Code;

    use super::*;
    use tollgate_core::time::Clock;
    use tollgate_engine::{Engine, embedded::Embedded};

    /// Returns a batch of 100 requests with this `grpc-timeout`.
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

    fn results_of(answer: &EncodedResults) -> Vec<tollgate_client::pb::AdmitTaskResult> {
        AdmitTasksResponse::decode(&*answer.encode_to_vec()).expect("protobuf").results
    }

    #[tokio::test]
    async fn requests_past_the_deadline_are_not_executed() {
        let engine = Arc::new(Engine::Embedded(Embedded::new(Clock::system())));
        let handlers = AdmissionHandlers::new(engine, Arc::default());
        let mut decided = 0;
        // Each call decides the repeats of the previous one and nothing else.
        for _ in 0..2 {
            let answer = handlers.admit_tasks(hundred("1n")).await.expect("an answer");
            let results = results_of(&answer.into_inner());
            decided = results.iter().filter(|it| matches!(it.result, Some(Decided(_)))).count();
            assert!(decided > 0 && decided < 100 && results.len() == 100, "{decided}");
            for result in &results[decided..] {
                let Some(Failed(error)) = &result.result else { panic!("{result:?}") };
                assert_eq!(Code::from(error.code), Code::DeadlineExceeded, "{error:?}");
                assert_eq!(error.reason, "NOT_REACHED", "{error:?}");
            }
        }
        let answer = handlers.admit_tasks(hundred("60S")).await.expect("an answer");
        let results = results_of(&answer.into_inner());
        let replayed: Vec<bool> = results
            .into_iter()
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

//! AdmitTasks, CompleteTasks and RenewTasks: order, errors of individual requests, repeats, bounds.

use std::time::Duration;

use pb::{AdmitDecision, CompleteVerdict, RenewVerdict};
use tollgate_client::pb;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use super::bad_input::call;
use crate::support::{
    access::Token,
    batches::{Answer, admissions, failed},
    queue::queued,
    rates::configured,
    world::{World, admit, capacity, complete, duration, patient, renew, seconds},
};

on_both_engines! {
    requests_of_a_pool_are_decided_in_their_order,
    a_thousand_requests_are_decided_in_their_order,
    a_batch_that_is_sent_again_gets_the_same_leases,
    devices_report_in_a_batch,
    an_invalid_request_fails_alone,
    a_wrong_number_of_requests_fails_the_call,
    an_unreadable_record_fails_one_request,
    expired_leases_make_room_for_a_batch,
}

fn device(number: usize) -> String {
    format!("d{number}")
}

fn decisions(answers: &[Answer<pb::AdmitTaskResponse>]) -> Vec<AdmitDecision> {
    answers.iter().map(|answer| answer.as_ref().unwrap().decision()).collect()
}

fn verdicts(answers: &[Answer<pb::CompleteTaskResponse>]) -> Vec<CompleteVerdict> {
    answers.iter().map(|answer| answer.as_ref().unwrap().verdict()).collect()
}

async fn requests_of_a_pool_are_decided_in_their_order(world: World) {
    for (pool, slots) in [("a", 3), ("b", 5)] {
        world.configure(capacity(pool, slots)).await;
    }
    let pools = |number: usize| ["a", "b"][number % 2];
    let requests = (0..40).map(|number| admit(pools(number), &device(number), "t")).collect();
    let answers = world.admit_all(requests).await;
    let mut tokens = [0, 0];
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap();
        let is_admitted = number / 2 < [3, 5][number % 2];
        let expected = if is_admitted { AdmitDecision::Admitted } else { AdmitDecision::Full };
        assert_eq!(answer.decision(), expected, "{number}");
        assert_eq!(answer.retry_after.is_some(), !is_admitted, "{number}");
        if let Some(lease) = answer.lease {
            assert_eq!((&*lease.pool, lease.device_id), (pools(number), device(number)));
            let last = std::mem::replace(&mut tokens[number % 2], lease.fencing_token);
            assert!(lease.fencing_token > last, "{number}");
            assert_eq!(answer.usage.unwrap().in_use as usize, number / 2 + 1);
        }
    }
    let renewed = world.renew_all((0..8).map(|n| renew(pools(n), &device(n), "t")).collect()).await;
    let renewed: Vec<_> = renewed.iter().map(|it| it.as_ref().unwrap().verdict()).collect();
    // The pool `a` has three leases.
    let mut expected = vec![RenewVerdict::Renewed; 8];
    expected[6] = RenewVerdict::Unknown;
    assert_eq!(renewed, expected);
    // The second result of a task comes after the first.
    let requests = [0, 0, 2, 1].map(|number| complete(pools(number), &device(number), "t"));
    let completed = world.complete_all(requests.to_vec()).await;
    let expected = [
        CompleteVerdict::Completed,
        CompleteVerdict::AlreadyCompleted,
        CompleteVerdict::Completed,
        CompleteVerdict::Completed,
    ];
    assert_eq!(verdicts(&completed), expected);
    assert_eq!((world.in_use("a").await, world.in_use("b").await), (1, 4));
    assert_eq!(world.pool("a").await.refused, 17);
}

async fn a_thousand_requests_are_decided_in_their_order(world: World) {
    world.configure(capacity("p", 700)).await;
    let requests = (0..1000).map(|number| admit("p", &device(number), "t")).collect();
    let answers = world.admit_all(requests).await;
    let mut expected = vec![AdmitDecision::Admitted; 700];
    expected.resize(1000, AdmitDecision::Full);
    assert_eq!(decisions(&answers), expected);
    let renewed = world.renew_all((0..1000).map(|n| renew("p", &device(n), "t")).collect()).await;
    let is_renewed = |it: &Answer<pb::RenewTaskResponse>| {
        it.as_ref().unwrap().verdict() == RenewVerdict::Renewed
    };
    assert!(renewed[..700].iter().all(is_renewed) && !renewed[700..].iter().any(is_renewed));
    // Each task twice: the first result of each counts, and frees its slot.
    let requests = (0..1000).map(|number| complete("p", &device(number / 2), "t")).collect();
    let completed = world.complete_all(requests).await;
    for (number, verdict) in verdicts(&completed).into_iter().enumerate() {
        let first = number % 2 == 0;
        let expected =
            if first { CompleteVerdict::Completed } else { CompleteVerdict::AlreadyCompleted };
        assert_eq!(verdict, expected, "{number}");
        let in_use = completed[number].as_ref().unwrap().usage.unwrap().in_use as usize;
        assert_eq!(in_use, 699 - number / 2, "{number}");
    }
}

async fn a_batch_that_is_sent_again_gets_the_same_leases(world: World) {
    world.configure(capacity("p", 50)).await;
    let requests: Vec<_> = (0..40).map(|number| admit("p", &device(number), "t")).collect();
    // A repeat within the batch gets the lease of the first request.
    let twice = requests.iter().chain(&requests).cloned().collect();
    let first = world.admit_all(twice).await;
    let second = world.admit_all(requests).await;
    for (number, again) in second.into_iter().enumerate() {
        let [one, other] = [number, number + 40].map(|place| first[place].clone().unwrap());
        let again = again.unwrap();
        assert_eq!([one.replayed, other.replayed, again.replayed], [false, true, true]);
        assert_eq!([&other.lease, &again.lease], [&one.lease; 2]);
    }
    assert_eq!(world.in_use("p").await, 40);
    let requests: Vec<_> = (0..40).map(|number| complete("p", &device(number), "t")).collect();
    let first = world.complete_all(requests.clone()).await;
    assert_eq!(verdicts(&first), [CompleteVerdict::Completed; 40]);
    let again = world.complete_all(requests).await;
    assert_eq!(verdicts(&again), [CompleteVerdict::AlreadyCompleted; 40]);
}

async fn devices_report_in_a_batch(world: World) {
    world.enqueue("p", &[("d0", "one"), ("d0", "two"), ("d1", "one")]).await;
    let requests = (0..3).map(|number| admit("p", &device(number), "")).collect();
    let answers = world.admit_all(requests).await;
    let admitted = AdmitDecision::Admitted;
    assert_eq!(decisions(&answers), [admitted, admitted, AdmitDecision::NoTask]);
    let task = answers[1].as_ref().unwrap().task.clone().unwrap();
    assert_eq!((task.task_id, task.payload), ("one".into(), queued("d1", "one").payload));
}

async fn an_invalid_request_fails_alone(world: World) {
    let long = "x".repeat(257);
    let requests = vec![
        admit("p", "d0", "t"),
        admit("p", "", "t"),
        admit(&long, "d\n", "t"),
        pb::AdmitTaskRequest { max_wait: Some(seconds(1.0)), ..admit("p", "d1", "t") },
        pb::AdmitTaskRequest {
            lease_duration: Some(duration(Duration::from_millis(99))),
            ..admit("p", "d1", "t")
        },
        admit("p", "d2", "t"),
    ];
    let answers = world.admit_all(requests).await;
    let bad = |number: usize| failed(&answers[number], Code::InvalidArgument, "");
    assert_eq!(bad(1), ["requests[1].device_id"]);
    assert_eq!(bad(2), ["requests[2].pool", "requests[2].device_id"]);
    assert_eq!(bad(3), ["requests[3].max_wait"]);
    assert_eq!(bad(4), ["requests[4].lease_duration"]);
    for number in [0, 5] {
        assert_eq!(answers[number].as_ref().unwrap().decision(), AdmitDecision::Admitted);
    }
    assert_eq!(world.in_use("p").await, 2);

    let outcome = pb::CompleteTaskRequest { outcome: 3, ..complete("p", "d0", "t") };
    let requests = vec![outcome, complete("p", "d0", ""), complete("p", "d0", "t")];
    let answers = world.complete_all(requests).await;
    assert_eq!(failed(&answers[0], Code::InvalidArgument, ""), ["requests[0].outcome"]);
    assert_eq!(failed(&answers[1], Code::InvalidArgument, ""), ["requests[1].task_id"]);
    assert_eq!(answers[2].as_ref().unwrap().verdict(), CompleteVerdict::Completed);

    // A batch without a valid request has only errors.
    let answers = world.renew_all(vec![renew("p", "", ""), renew("", "d", "t")]).await;
    let expected = ["requests[0].device_id", "requests[0].task_id"];
    assert_eq!(failed(&answers[0], Code::InvalidArgument, ""), expected);
    assert_eq!(failed(&answers[1], Code::InvalidArgument, ""), ["requests[1].pool"]);
}

async fn a_wrong_number_of_requests_fails_the_call(world: World) {
    let fields = |status: Status| {
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        let details = status.get_error_details();
        let violations = &details.bad_request().unwrap().field_violations;
        violations.iter().map(|violation| violation.field.clone()).collect::<Vec<_>>()
    };
    let mut client = world.client.clone();
    for number in [0, 1001, 5000] {
        let requests = vec![admit("p", "d", "t"); number];
        let refused = client.admit_tasks(pb::AdmitTasksRequest { requests }).await.unwrap_err();
        assert_eq!(fields(refused), ["requests"]);
        let requests = vec![complete("p", "d", "t"); number];
        let refused = client.complete_tasks(pb::CompleteTasksRequest { requests }).await;
        assert_eq!(fields(refused.unwrap_err()), ["requests"]);
        let requests = vec![renew("p", "d", "t"); number];
        let refused = client.renew_tasks(pb::RenewTasksRequest { requests }).await.unwrap_err();
        assert_eq!(fields(refused), ["requests"]);
    }
    for method in ["AdmitTasks", "CompleteTasks", "RenewTasks"] {
        // A complete first request, and a second one that ends too early.
        let broken = b"\x0a\x09\x0a\x01p\x12\x01d\x1a\x01t\x0a\x7f\x0a\x01p".to_vec();
        let refused = call(&world, method, broken).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{method} {refused:?}");
    }
    assert_eq!(world.in_use("p").await, 0);
}

async fn an_unreadable_record_fails_one_request(world: World) {
    let requests: Vec<_> = (0..40).map(|number| admit("p", &device(number), "t")).collect();
    world.admit_all(requests.clone()).await;
    let broken = ["SET", "{}:{admission:p}:task:d7\x1ft", "text"];
    if world.tamper(&broken).await.is_none() {
        return; // The embedded engine's values cannot be reached.
    }
    let (admitted, renewed) = (
        world.admit_all(requests).await,
        world.renew_all((0..40).map(|number| renew("p", &device(number), "t")).collect()).await,
    );
    for number in 0..40 {
        if number == 7 {
            let unreadable = (Code::Internal, "STORED_VALUE_UNREADABLE");
            failed(&admitted[number], unreadable.0, unreadable.1);
            failed(&renewed[number], unreadable.0, unreadable.1);
        } else {
            assert!(admitted[number].as_ref().unwrap().replayed, "{number}");
            assert_eq!(renewed[number].as_ref().unwrap().verdict(), RenewVerdict::Renewed);
        }
    }
    // The call does not fail even if this is its only request.
    let alone = world.complete_all(vec![complete("p", "d7", "t")]).await;
    failed(&alone[0], Code::Internal, "STORED_VALUE_UNREADABLE");
}

/// More leases have expired than one step removes.
async fn expired_leases_make_room_for_a_batch(world: World) {
    world.configure(capacity("p", 1000)).await;
    world.admit_all((0..1000).map(|number| admit("p", &device(number), "t")).collect()).await;
    world.advance(Duration::from_secs(300)).await;
    let requests = (0..1000).map(|number| admit("p", &format!("next-{number}"), "t")).collect();
    let answers = world.admit_all(requests).await;
    assert_eq!(decisions(&answers), vec![AdmitDecision::Admitted; 1000]);
    assert_eq!(world.in_use("p").await, 1000);
}

async fn a_name_outside_the_rights_of_the_caller(redis: bool) {
    let token = Token::new();
    let config = format!(
        "[[caller]]\nname = \"backend\"\ntoken_sha256 = [\"{}\"]\nallow = [\"use\"]\n\
         names = [\"ar:*\"]\n",
        token.digest
    );
    let world = World::with_rules(redis, configured(&config)).await;
    let requests = ["ar:1", "other", "ar:2", "\n"].map(|pool| admit(pool, "d", "t")).to_vec();
    let mut request: Request<_> = patient(pb::AdmitTasksRequest { requests });
    request.metadata_mut().insert("authorization", token.bearer().parse().unwrap());
    let answers = world.client.clone().admit_tasks(request).await.unwrap().into_inner();
    let answers = admissions(answers);
    for number in [0, 2] {
        assert_eq!(answers[number].as_ref().unwrap().decision(), AdmitDecision::Admitted);
    }
    failed(&answers[1], Code::PermissionDenied, "NAME_NOT_PERMITTED");
    assert!(answers[1].as_ref().unwrap_err().message.starts_with("requests[1].pool is not among"));
    assert_eq!(failed(&answers[3], Code::InvalidArgument, ""), ["requests[3].pool"]);
}

mod named {
    #[tokio::test(flavor = "multi_thread")]
    async fn a_name_outside_the_rights_of_the_caller_fails_alone_embedded() {
        super::a_name_outside_the_rights_of_the_caller(false).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_name_outside_the_rights_of_the_caller_fails_alone_redis() {
        super::a_name_outside_the_rights_of_the_caller(true).await;
    }
}

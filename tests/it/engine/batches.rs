//! AdmitTasks and CompleteTasks on Redis: few script calls, the denial cache, an unreachable or
//! hanging Redis, the fallback, and the limits of namespaces.

use std::time::Duration;

use pb::{AdmitDecision, CompleteVerdict};
use tollgate_client::pb;
use tonic::{Code, Request};
use tonic_types::StatusExt;

use super::{
    degradation::Outage,
    denials::LONG,
    round_trips::{calls, reset},
};
use crate::support::{
    batches::{Answer, admissions, completions, failed},
    process::{OwnRedis, Server, TempFile},
    rates::configured,
    world::{Client, World, admit, capacity, complete, patient},
};

fn admits(pool: &str, number: usize) -> pb::AdmitTasksRequest {
    let requests = (0..number).map(|number| admit(pool, &format!("d{number}"), "t"));
    pb::AdmitTasksRequest { requests: requests.collect() }
}

fn completes(pool: &str, number: usize) -> pb::CompleteTasksRequest {
    let requests = (0..number).map(|number| complete(pool, &format!("d{number}"), "t"));
    pb::CompleteTasksRequest { requests: requests.collect() }
}

async fn admit_all(client: &mut Client, request: pb::AdmitTasksRequest) -> Vec<Decided> {
    admissions(client.admit_tasks(patient(request)).await.unwrap().into_inner())
}

type Decided = Answer<pb::AdmitTaskResponse>;

fn admitted(answers: &[Decided]) -> usize {
    let is_admitted =
        |it: &&Decided| it.as_ref().is_ok_and(|it| it.decision() == AdmitDecision::Admitted);
    answers.iter().filter(is_admitted).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_hundred_takes_two_script_calls() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let config = TempFile::new("[[pool]]\nmatch = \"*\"\ndenial_cache = \"0s\"\n");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut client = server.client().await;
    while client.configure_pool(capacity("p", 1000)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Loads the scripts, and registers the pool in the index.
    admit_all(&mut client, admits("p", 200)).await;
    for _ in 0..2 {
        // The plain script declines the repeat, which loads the other one.
        client.complete_tasks(completes("p", 1)).await.unwrap();
    }
    reset(&redis).await;
    for _ in 0..5 {
        assert_eq!(admitted(&admit_all(&mut client, admits("p", 101)).await), 100);
    }
    // 101 requests, of which each script call holds at most 64. The plain script may have declined
    // all of them before, in one more call.
    let counted = calls(&redis).await;
    let scripts = counted.get("evalsha").copied().unwrap_or_default();
    assert!((10..=15).contains(&scripts), "{counted:?}");
    reset(&redis).await;
    let answers = client.complete_tasks(patient(completes("p", 1000))).await.unwrap();
    let answers = completions(answers.into_inner());
    for (number, answer) in answers.into_iter().enumerate() {
        let expected = match number {
            0 => CompleteVerdict::AlreadyCompleted,
            1..200 => CompleteVerdict::Completed,
            _ => CompleteVerdict::Unknown,
        };
        assert_eq!(answer.unwrap().verdict(), expected, "{number}");
    }
    let counted = calls(&redis).await;
    assert_eq!(counted.get("evalsha"), Some(&16), "{counted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_the_denial_cache_answers_are_not_sent() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let config = TempFile::new(LONG);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("full", "holder", "t")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.admit_task(admit("other", "d", "t")).await.unwrap();
    client.admit_task(admit("full", "asks", "t")).await.unwrap();
    reset(&redis).await;
    let mut requests = admits("full", 60).requests;
    requests.insert(30, admit("other", "d", "t"));
    let answers = admit_all(&mut client, pb::AdmitTasksRequest { requests }).await;
    for (number, answer) in answers.iter().enumerate() {
        let (answer, is_other) = (answer.as_ref().unwrap(), number == 30);
        assert_eq!(answer.usage.unwrap().cached, !is_other, "{number}");
        assert_eq!(answer.replayed, is_other, "{number}");
    }
    // The plain script may decline the repeat.
    let counted = calls(&redis).await;
    let scripts = counted.get("evalsha").copied().unwrap_or_default();
    assert!((1..=2).contains(&scripts), "{counted:?}");
    // A result of a batch invalidates the cached refusal.
    let done = pb::CompleteTasksRequest { requests: vec![complete("full", "holder", "t")] };
    client.complete_tasks(done).await.unwrap();
    assert_eq!(admitted(&admit_all(&mut client, admits("full", 3)).await), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_a_store_fails_or_gets_the_fallback() {
    let mut outage = Outage::prepare().await;
    let client = &mut outage.client.clone();
    admit_all(client, admits("allow", 1)).await;
    outage.begin().await;
    let down = client.admit_tasks(admits("plain", 50)).await.unwrap_err();
    assert_eq!(down.code(), Code::Unavailable, "{down:?}");
    assert!(down.get_error_details().retry_info().is_some(), "{down:?}");
    let down = client.complete_tasks(completes("plain", 50)).await.unwrap_err();
    assert_eq!(down.code(), Code::Unavailable, "{down:?}");

    let of = |pool: &str| admits(pool, 3).requests;
    let requests = [of("allow"), of("plain"), of("deny"), vec![admit("allow", "", "t")]].concat();
    let answers = admit_all(client, pb::AdmitTasksRequest { requests }).await;
    let told: Vec<_> = answers[..3].iter().map(|it| it.as_ref().unwrap()).collect();
    // The share of this server is 2.
    assert!(told.iter().all(|it| it.degraded) && admitted(&answers[..3]) == 2, "{told:?}");
    for answer in &answers[3..6] {
        failed(answer, Code::Unavailable, "");
        assert!(answer.as_ref().unwrap_err().retry_after.is_some());
    }
    for answer in &answers[6..9] {
        let answer = answer.as_ref().unwrap();
        assert_eq!((answer.decision(), answer.degraded), (AdmitDecision::Full, true));
    }
    failed(&answers[9], Code::InvalidArgument, "");
    let completed =
        completions(client.complete_tasks(completes("allow", 3)).await.unwrap().into_inner());
    for (number, answer) in completed.iter().enumerate() {
        match number {
            0 | 1 => {
                let answer = answer.as_ref().unwrap();
                assert_eq!((answer.verdict(), answer.degraded), (CompleteVerdict::Completed, true));
            }
            // The fallback did not grant it.
            _ => drop(failed(answer, Code::Unavailable, "")),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_on_a_hanging_redis_ends_and_can_be_sent_again() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    while client.configure_pool(capacity("p", 300)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    redis.signal("-STOP");
    let mut request = Request::new(admits("p", 400));
    request.set_timeout(Duration::from_millis(300));
    let status = client.admit_tasks(request).await.unwrap_err();
    // Unavailable once the server has noticed that Redis hangs.
    let codes = [Code::DeadlineExceeded, Code::Cancelled, Code::Unavailable];
    assert!(codes.contains(&status.code()), "{status:?}");
    redis.signal("-CONT");
    let answers = loop {
        match client.admit_tasks(patient(admits("p", 400))).await {
            Ok(answers) => break admissions(answers.into_inner()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    for (number, answer) in answers.iter().enumerate() {
        let is_admitted = answer.as_ref().unwrap().decision() == AdmitDecision::Admitted;
        assert_eq!(is_admitted, number < 300, "{number}");
    }
}

async fn leases_of_a_namespace(redis: bool) {
    let limits = "[[namespace]]\nmatch = \"\"\nleases_max = 5\n";
    let world = World::with_rules(redis, configured(limits)).await;
    let answers = world.admit_all(admits("p", 20).requests).await;
    assert_eq!(admitted(&answers), 5);
    for answer in &answers[5..] {
        failed(answer, Code::ResourceExhausted, "NAMESPACE_LIMIT");
        assert!(answer.as_ref().unwrap_err().retry_after.is_some());
    }
    // A repeat is answered at the limit, too.
    let again = world.admit_all(admits("p", 7).requests).await;
    assert_eq!(admitted(&again), 5);
    assert!(again[..5].iter().all(|answer| answer.as_ref().unwrap().replayed));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_a_limit_of_the_namespace_fail_alone_embedded() {
    leases_of_a_namespace(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_a_limit_of_the_namespace_fail_alone_redis() {
    leases_of_a_namespace(true).await;
}

/// The calls per second count the requests of a batch. Results are never refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_counts_as_its_requests() {
    let limits = "[[namespace]]\nmatch = \"\"\ncalls_per_second = 10\n";
    let world = World::with_rules(false, configured(limits)).await;
    // The first batch uses up the calls of 100 seconds.
    for _ in 0..40 {
        let request = patient(admits("p", 1000));
        if let Err(refused) = world.client.clone().admit_tasks(request).await {
            let details = refused.get_error_details();
            let wait = details.retry_info().and_then(|it| it.retry_delay).unwrap();
            assert!(wait > Duration::from_secs(60), "{refused:?}");
        }
    }
    let refused = world.client.clone().admit_tasks(admits("p", 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let answers = world.complete_all(completes("p", 60).requests).await;
    let is_completed = |answer: &Answer<pb::CompleteTaskResponse>| {
        answer.as_ref().unwrap().verdict() == CompleteVerdict::Completed
    };
    assert!(answers.iter().all(is_completed));
}

use super::*;
use tollgate_core::{Call, script};

const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_secs(60);

fn job(time: Duration, delivery: JobDelivery) -> (Job, Pending) {
    let arguments = Call::new("test", "test", b"tag").finish();
    let now = monotonic();
    Job::new(&script::index::PROBE, arguments, Slot::default(), delivery, (now, now + time))
}

fn moved() -> Error {
    Error::Unavailable(MOVED_TOO_LONG.to_owned())
}

#[tokio::test]
async fn a_job_unsent_at_its_deadline_is_rejected_counted_and_never_sent() {
    let before = ReachedLimit::Overload.times();
    let (job, pending) = job(SOON, LISTING);
    assert_eq!(pending.wait().await.err(), Some(Error::Overloaded));
    assert!(ReachedLimit::Overload.times() > before);
    assert!(!job.mark_sent(), "its call was already answered as not executed");
}

#[tokio::test]
async fn the_outcome_of_a_sent_job_is_unknown_at_its_deadline() {
    let (job, pending) = job(SOON, LISTING);
    assert!(job.mark_sent());
    assert_eq!(pending.wait().await.err(), Some(Error::DeadlineExceeded));
}

#[tokio::test]
async fn a_redirected_job_was_not_executed_unless_it_was_sent_before() {
    let (first, pending) = job(SOON, LISTING);
    assert!(first.mark_sent());
    first.mark_unexecuted();
    assert_eq!(pending.wait().await.err(), Some(moved()));
    assert!(!first.mark_sent());

    let (mut again, pending) = job(SOON, LISTING);
    assert!(again.mark_sent());
    again.repeated = true;
    again.mark_unexecuted();
    assert_eq!(pending.wait().await.err(), Some(Error::DeadlineExceeded));
}

#[tokio::test]
async fn a_job_dropped_before_its_deadline_is_unavailable() {
    let (job, pending) = job(LATER, LISTING);
    drop(job);
    assert!(matches!(pending.wait().await, Err(Error::Unavailable(_))));
}

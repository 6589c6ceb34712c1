use super::*;

const MILLI: u64 = 1000;

/// Runs calls for `time` µs: every `each` µs, one starts that has waited `wait` µs. The length of
/// the queue follows from that.
fn run(queue: &CallQueue, now: &mut u64, time: u64, each: u64, wait: u64) {
    let ahead = (wait / each) as u32;
    queue.waiting.set(ahead);
    for _ in 0..time / each {
        *now += each;
        queue.measure(Arrival { at: *now - wait, until: u64::MAX, ahead }, *now);
    }
}

#[test]
fn an_unloaded_queue_reads_no_clock() {
    let queue = CallQueue::new();
    queue.waiting.set(FEW - 1);
    assert!(!queue.is_timed() && queue.accepts(0, 0, false));
    queue.waiting.set(FEW);
    assert!(queue.is_timed());
    queue.waiting.set(0);
    let more = (0..2 * TIMED).filter(|_| queue.is_timed()).count();
    assert_eq!(more, TIMED as usize - 1);
}

#[test]
fn a_long_queue_is_shared_by_the_tenants_of_recent_calls() {
    let (queue, now) = (CallQueue::new(), 10_000 * MILLI);
    queue.count_skips(b"", now);
    queue.waiting.set(FEW);
    assert!(queue.is_timed() && !queue.is_shared(), "one tenant");
    queue.tenants.borrow_mut().count(b"team-1", now);
    assert!(queue.is_shared());
    for passed in 1..=2 {
        queue.count_skips(b"", now + passed * INTERVAL);
    }
    assert!(!queue.is_shared(), "the other tenant no longer calls");
    queue.tenants.borrow_mut().count(b"team-1", now + 2 * INTERVAL);
    queue.waiting.set(0);
    for _ in 0..TIMED {
        queue.is_timed();
    }
    assert!(!queue.is_shared(), "the queue is short");
}

#[test]
fn a_burst_is_accepted_as_far_as_it_can_be_answered_in_time() {
    let (queue, mut now) = (CallQueue::new(), 10_000 * MILLI);
    run(&queue, &mut now, 500 * MILLI, 100, 4 * MILLI);
    assert!((90..110).contains(&(queue.each.get() / 1000)), "{queue:?}");
    queue.waiting.set(1900);
    assert!(queue.accepts(now, 200 * MILLI, false));
    queue.waiting.set(2100);
    assert!(!queue.accepts(now, 200 * MILLI, false));
    assert!(queue.accepts(now, 300 * MILLI, false));
}

#[test]
fn a_standing_queue_rejects_calls_with_little_time_first() {
    let (queue, mut now) = (CallQueue::new(), 10_000 * MILLI);
    run(&queue, &mut now, 500 * MILLI, 100, 50 * MILLI);
    // The expected wait is 50 ms in the socket and 50 ms in the queue.
    assert!(!queue.accepts(now, 300 * MILLI, false) && queue.accepts(now, 500 * MILLI, false));
    assert!(queue.accepts(now, 300 * MILLI, true), "it frees capacity");
    assert!(!queue.accepts(now, 50 * MILLI, true), "it would be too late");
}

#[test]
fn old_measurements_do_not_count() {
    let (queue, mut now) = (CallQueue::new(), 10_000 * MILLI);
    run(&queue, &mut now, 500 * MILLI, 100, 50 * MILLI);
    now += 1000 * MILLI;
    assert!(queue.accepts(now, 300 * MILLI, false));
    // A queue that has become short again is no longer standing.
    run(&queue, &mut now, 300 * MILLI, 100, 50 * MILLI);
    run(&queue, &mut now, 300 * MILLI, 100, 5 * MILLI);
    queue.waiting.set(500);
    assert!(queue.accepts(now, 300 * MILLI, false));
}

#[test]
fn few_calls_are_accepted_whatever_the_wait_of_the_last_ones() {
    let (queue, mut now) = (CallQueue::new(), 10_000 * MILLI);
    run(&queue, &mut now, 500 * MILLI, 1000, 900 * MILLI);
    assert!(!queue.accepts(now, 200 * MILLI, false));
    queue.waiting.set(FEW - 1);
    assert!(queue.accepts(now, 200 * MILLI, false));
}

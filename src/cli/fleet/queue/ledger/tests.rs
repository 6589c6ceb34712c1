use super::*;

/// Four tasks of two devices, with two attempts each.
fn ledger() -> Ledger {
    Ledger::new(4, 2, 2, 4)
}

fn give(ledger: &Ledger, number: usize, attempt: u32, token: u64, replayed: bool) {
    let payload = ledger.payload(number);
    let may_lack = false;
    ledger.dispatched(Given { number, attempt, token, replayed, may_lack, payload: &payload });
}

fn told(ledger: &Ledger) -> String {
    ledger.faults().told.join("; ")
}

#[test]
fn a_task_runs_as_often_as_its_attempts_say() {
    let ledger = ledger();
    give(&ledger, 0, 1, 10, false);
    give(&ledger, 0, 1, 10, true);
    ledger.reported(0, 10, Outcome::Failed, CompleteVerdict::Completed);
    give(&ledger, 0, 2, 11, false);
    ledger.reported(0, 10, Outcome::Succeeded, CompleteVerdict::StaleToken);
    ledger.reported(0, 11, Outcome::Succeeded, CompleteVerdict::Late);
    ledger.reported(0, 11, Outcome::Succeeded, CompleteVerdict::AlreadyCompleted);
    // Two concurrent calls; the second is answered first.
    give(&ledger, 2, 1, 12, true);
    give(&ledger, 2, 1, 12, false);
    give(&ledger, 2, 2, 13, false);
    assert_eq!(told(&ledger), "");
    let totals = Totals { done: 1, done_late: 1, dispatched: 4, missed: 0, failed: 1 };
    assert_eq!(ledger.totals(), totals);
    assert_eq!((ledger.dead(), ledger.open()), (vec![2], vec![1, 3]));
    give(&ledger, 1, 1, 14, false);
    ledger.reported(1, 14, Outcome::Succeeded, CompleteVerdict::AlreadyCompleted);
    ledger.reported(1, 14, Outcome::Succeeded, CompleteVerdict::Completed);
    assert_eq!((told(&ledger), ledger.totals().done), (String::new(), 2));
    // The result of its last attempt arrives late.
    ledger.reported(2, 13, Outcome::Succeeded, CompleteVerdict::Late);
    assert_eq!((ledger.dead(), ledger.totals().done), (vec![], 3));
}

#[test]
fn what_goes_against_the_contract_is_told() {
    type Act = fn(&Ledger);
    let broken: [(Act, &str); 9] = [
        (|it| give(it, 0, 1, 10, false), "given attempt 1 twice"),
        (|it| give(it, 0, 1, 11, false), "given attempt 1 after 1"),
        (|it| give(it, 0, 3, 11, false), "given attempt 3 of 2"),
        (|it| give(it, 2, 1, 11, false), "before an older task was over"),
        (
            |it| {
                it.reported(0, 10, Outcome::Succeeded, CompleteVerdict::Completed);
                give(it, 0, 2, 11, false);
            },
            "after 1 when it was done",
        ),
        (
            |it| {
                it.reported(0, 10, Outcome::Succeeded, CompleteVerdict::Completed);
                it.reported(0, 10, Outcome::Succeeded, CompleteVerdict::Completed);
            },
            "completed twice",
        ),
        (|it| it.reported(0, 10, Outcome::Failed, CompleteVerdict::Unknown), "not known"),
        (
            |it| it.reported(0, 10, Outcome::Failed, CompleteVerdict::StaleToken),
            "another token than it was given last",
        ),
        (
            |it| {
                let payload = &it.payload(0);
                let (number, attempt, token, replayed) = (1, 1, 12, false);
                let may_lack = false;
                it.dispatched(Given { number, attempt, token, replayed, may_lack, payload });
            },
            "task-1 came with another payload",
        ),
    ];
    for (act, part) in broken {
        let ledger = ledger();
        give(&ledger, 0, 1, 10, false);
        act(&ledger);
        assert_eq!(ledger.faults().count, 1, "{part}");
        assert!(told(&ledger).contains(part), "{part}: {}", told(&ledger));
    }
}

#[test]
fn attempts_whose_answers_were_lost_are_missed() {
    let ledger = Ledger::new(6, 2, 2, 4);
    give(&ledger, 0, 2, 11, false);
    let payload = &ledger.payload(4);
    let (number, attempt, token, replayed, may_lack) = (4, 1, 19, false, true);
    ledger.dispatched(Given { number, attempt, token, replayed, may_lack, payload });
    assert_eq!((told(&ledger), ledger.totals().missed), (String::new(), 3));
    ledger.is_dead(1, true);
    assert_eq!((ledger.totals().missed, ledger.dead()), (5, vec![0, 1, 2]));
    assert_eq!(ledger.number("task-3"), Some(3));
    assert!(ledger.number("task-6").is_none() && ledger.number("3").is_none());
}

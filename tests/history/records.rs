//! Valid records, and records with one violation each.

use super::checker::Demands;

/// All optional requirements.
const ALL: Demands = Demands { from_start: true, complete: true, max_attempts: Some(2) };
const FROM_START: Demands = Demands { complete: false, max_attempts: None, ..ALL };
/// No optional requirement.
pub const SOME: Demands = Demands { from_start: false, complete: false, max_attempts: None };

/// Each event is a word and a few fields; see `checks::record`.
const GOOD: &str = "
    CONFIGURED cap=2
    ADMITTED d1/a token=10 cap=2
    ADMITTED d2/a token=11 cap=2
    RENEWED d2/a token=11
    COMPLETED d1/a token=10
    ENQUEUED d1/b
    ADMITTED d1/b token=12 attempt=1 cap=2
    EXPIRED d1/b token=12 attempt=1
    EVICTED d2/a token=11
    LATE d2/a token=11
    ADMITTED d1/b token=15 attempt=2 cap=2
    COMPLETED d1/b token=15 attempt=2 outcome=FAILED
    DEAD d1/b token=15 attempt=2
    CANCELLED d1/b token=15 attempt=2
    ENQUEUED d2/b
    EXPIRED d2/b
    ENQUEUED d2/c
    ADMITTED d2/c token=16 attempt=1 cap=2
    LATE d2/c token=16 attempt=1
    ENQUEUED d2/d
    CANCELLED d2/d
    ENQUEUED d3/e
    ADMITTED d3/e token=17 attempt=1 cap=2
    EXPIRED d3/e token=17 attempt=1
    ADMITTED d3/e token=18 attempt=2 cap=2
    EXPIRED d3/e token=18 attempt=2
    DEAD d3/e token=18 attempt=2
    ENQUEUED d3/e token=18
    ADMITTED d3/e token=19 attempt=1 cap=2
    COMPLETED d3/e token=19 attempt=1";

/// Name, record, requirements, and a part of the expected violation.
pub const BROKEN: &[(&str, &str, Demands, &str)] = &[
    (
        "one above the cap",
        "ADMITTED d/a token=1 cap=1; ADMITTED d/b token=2 cap=1",
        SOME,
        "cursor 102, ADMITTED of d/b, token 2: THE CAP WAS EXCEEDED: 1 ran already, of 1",
    ),
    ("a capacity of 0", "ADMITTED d/a token=1 cap=0", SOME, "CAP WAS EXCEEDED: 0 ran already"),
    ("no capacity", "ADMITTED d/a token=1", SOME, "carries no capacity"),
    (
        "a token that is not new",
        "ADMITTED d/a token=5 cap=9; ADMITTED d/b token=5 cap=9",
        SOME,
        "not above the last token, 5",
    ),
    (
        "a task that runs twice",
        "ADMITTED d/a token=5 cap=9; ADMITTED d/a token=6 cap=9",
        SOME,
        "runs already, under token 5",
    ),
    (
        "completed twice",
        "ADMITTED d/a token=5 cap=9; COMPLETED d/a token=5; COMPLETED d/a token=5",
        SOME,
        "ended with COMPLETED at cursor 102",
    ),
    (
        "expired when completed",
        "ADMITTED d/a token=5 cap=9; COMPLETED d/a token=5; EXPIRED d/a token=5",
        SOME,
        "ended with COMPLETED",
    ),
    (
        "evicted when expired",
        "ADMITTED d/a token=5 cap=9; EXPIRED d/a token=5; EVICTED d/a token=5",
        SOME,
        "ended with EXPIRED",
    ),
    (
        "completed when expired",
        "ADMITTED d/a token=5 cap=9; EXPIRED d/a token=5; COMPLETED d/a token=5",
        SOME,
        "ended with EXPIRED",
    ),
    (
        "late twice",
        "ADMITTED d/a token=5 cap=9; EXPIRED d/a token=5; LATE d/a token=5; LATE d/a token=5",
        SOME,
        "ended with EXPIRED",
    ),
    (
        "late when completed",
        "ADMITTED d/a token=5 cap=9; COMPLETED d/a token=5; LATE d/a token=5",
        SOME,
        "ended with COMPLETED",
    ),
    (
        "ended twice, unseen",
        "COMPLETED d/a token=5; COMPLETED d/a token=5",
        SOME,
        "ended with COMPLETED at cursor 101",
    ),
    (
        "renewed when ended",
        "ADMITTED d/a token=5 cap=9; EXPIRED d/a token=5; RENEWED d/a token=5",
        SOME,
        "ended with EXPIRED",
    ),
    (
        "renewed, never begun",
        "ADMITTED d/a token=5 cap=9; RENEWED d/b token=6",
        SOME,
        "never ADMITTED",
    ),
    ("ended, never begun", "COMPLETED d/a token=5", FROM_START, "never ADMITTED"),
    (
        "another one's token",
        "ADMITTED d/a token=5 cap=9; COMPLETED d/b token=5",
        SOME,
        "granted to d/a",
    ),
    (
        "never ended",
        "ADMITTED d/a token=5 cap=9",
        ALL,
        "1 admissions have not ended: d/a (token 5)",
    ),
    ("queued twice", "ENQUEUED d/a; ENQUEUED d/a", SOME, "was queued before"),
    (
        "dispatched, never queued",
        "ADMITTED d/a token=5 attempt=1 cap=9",
        FROM_START,
        "never queued",
    ),
    (
        "a first attempt with number 2",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=2 cap=9",
        SOME,
        "the attempt before was 0",
    ),
    (
        "queued, and no attempt",
        "ENQUEUED d/a; ADMITTED d/a token=5 cap=9",
        SOME,
        "the event has no attempt",
    ),
    (
        "an attempt that is left out",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=1 cap=9; EXPIRED d/a token=5 attempt=1;
      ADMITTED d/a token=6 attempt=3 cap=9",
        SOME,
        "the attempt before was 1",
    ),
    (
        "an attempt twice",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=1 cap=9; EXPIRED d/a token=5 attempt=1;
      ADMITTED d/a token=6 attempt=1 cap=9",
        SOME,
        "the attempt before was 1",
    ),
    (
        "too many attempts",
        "ADMITTED d/a token=5 attempt=3 cap=9",
        Demands { max_attempts: Some(2), ..SOME },
        "more than 2 attempts",
    ),
    (
        "dispatched when dead",
        "ENQUEUED d/a; DEAD d/a; ADMITTED d/a token=5 attempt=1 cap=9",
        SOME,
        "over with DEAD at cursor 102",
    ),
    (
        "dispatched when cancelled",
        "ENQUEUED d/a; CANCELLED d/a; ADMITTED d/a token=5 attempt=1 cap=9",
        SOME,
        "over with CANCELLED",
    ),
    (
        "dispatched when its time was over",
        "ENQUEUED d/a; EXPIRED d/a; ADMITTED d/a token=5 attempt=1 cap=9",
        SOME,
        "over with EXPIRED",
    ),
    (
        "dispatched when done",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=1 cap=9; COMPLETED d/a token=5 attempt=1;
      ADMITTED d/a token=6 attempt=2 cap=9",
        SOME,
        "over with COMPLETED",
    ),
    (
        "dispatched when done late",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=1 cap=9; EXPIRED d/a token=5 attempt=1;
      LATE d/a token=5 attempt=1; ADMITTED d/a token=6 attempt=2 cap=9",
        SOME,
        "over with COMPLETED at cursor 104",
    ),
    (
        "admitted when done, never queued",
        "ADMITTED d/a token=5 cap=9; COMPLETED d/a token=5 outcome=FAILED; ADMITTED d/a token=6 cap=9",
        SOME,
        "over with COMPLETED",
    ),
    ("dead twice", "ENQUEUED d/a; DEAD d/a; DEAD d/a", SOME, "over with DEAD"),
    (
        "cancelled when done",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=1 cap=9; COMPLETED d/a token=5 attempt=1;
      CANCELLED d/a",
        SOME,
        "over with COMPLETED",
    ),
    (
        "dead while it runs",
        "ENQUEUED d/a; ADMITTED d/a token=5 attempt=1 cap=9; DEAD d/a attempt=1",
        SOME,
        "an attempt of it runs, under token 5",
    ),
    ("dead, never queued", "DEAD d/a", FROM_START, "never queued"),
    ("queued again, not dead", "ENQUEUED d/a; ENQUEUED d/a token=5", SOME, "was not dead"),
    (
        "queued again when cancelled",
        "ENQUEUED d/a; CANCELLED d/a; ENQUEUED d/a token=5",
        SOME,
        "was not dead",
    ),
    ("queued again, never dead", "ENQUEUED d/a token=5", FROM_START, "was not dead"),
    (
        "a missing event",
        "CONFIGURED cap=1; CONFIGURED cap=1 cursor=104",
        SOME,
        "2 events before it are missing",
    ),
    (
        "two events of one cursor",
        "CONFIGURED cap=1; CONFIGURED cap=2 cursor=101",
        SOME,
        "another event had this cursor before",
    ),
];

/// Valid records: name, record and requirements.
pub const HOLDING: &[(&str, &str, Demands)] = &[
    ("a whole history", GOOD, ALL),
    ("no events", "", ALL),
    ("a record that begins in the middle",
     "COMPLETED d/a token=5; ADMITTED d/b token=9 cap=1; COMPLETED d/c token=8; RENEWED d/d token=7;
      ADMITTED d/e token=10 attempt=3 cap=3; DEAD d/f token=4 attempt=2", SOME),
    ("an event that comes again", "CONFIGURED cap=1; CONFIGURED cap=1 cursor=101", SOME),
    ("a gap, in which all may have ended",
     "ENQUEUED d/b; ADMITTED d/b token=5 attempt=1 cap=1; GAP cursor=200;
      ADMITTED d/b token=9 attempt=3 cap=1; COMPLETED d/c token=7", FROM_START),
    ("a gap that goes back", "ADMITTED d/a token=5 cap=1; ADMITTED d/b token=6 cap=2;
      GAP cursor=100; ADMITTED d/a token=5 cap=1", FROM_START),
    ("a name that is forgotten, and queued anew",
     "ENQUEUED d/a; CANCELLED d/a; ENQUEUED d/a minute=1; ADMITTED d/a token=1 attempt=1 cap=1",
     FROM_START),
    ("a clock that is set back", "CONFIGURED cap=1 minute=1; CONFIGURED cap=1", SOME),
    ("unknown kinds", "EXPLODED d/a; 12 d/a", SOME),
];

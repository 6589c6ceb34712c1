//! The loads for Tollgate and for the echo.

use clap::ValueEnum;
use prost_types::Duration;
use tollgate_client::pb::{self, check_rate_request::Against};

use crate::{
    call::{Call, Load, NUMBER, all_are, first_is},
    echo,
};

/// Keys of a load with many keys.
pub(crate) const KEYS: u64 = 20_000;
/// Numbers of a load without repeats.
const ENDLESS: u64 = 1_000_000_000_000;
/// Requests of a batch.
const BATCH: usize = 100;
/// Maximum number of decisions in flight in a load with several decisions per call. Tollgate's rates
/// do not grow above a quarter of it, and Redis makes as many decisions within 16 to 32 ms (50,000 to
/// 100,000 a second), far below the server's deadline of 1 s for calls that specify none.
pub(crate) const DECISIONS_MAX: u32 = 1_600;
const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const COMPLETE: &str = "/tollgate.v1.AdmissionService/CompleteTask";
const ADMIT_ALL: &str = "/tollgate.v1.AdmissionService/AdmitTasks";
const COMPLETE_ALL: &str = "/tollgate.v1.AdmissionService/CompleteTasks";
const CHECK: &str = "/tollgate.v1.RateService/CheckRate";
const NEXT: &str = "/tollgate.v1.SequenceService/NextSequence";

/// Configuration of the servers.
pub(crate) const CONFIGURATION: &str = include_str!("tollgate.toml");

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// AdmitTask and CompleteTask, each pair for a new task and device
    Pairs,
    /// AdmitTasks and CompleteTasks of 100 requests each, all for new tasks and devices
    Batches,
    /// AdmitTask in a pool that is full
    Full,
    /// CheckRate, fixed window, 20,000 keys with room
    Fixed,
    /// CheckRate, calendar window, 20,000 keys with room
    Calendar,
    /// CheckRate, sliding window, 20,000 keys with room
    Sliding,
    /// CheckRate, token bucket, 20,000 keys with room
    Bucket,
    /// CheckRate, fixed window, one key without room
    FixedBlocked,
    /// CheckRate, calendar window, one key without room
    CalendarBlocked,
    /// CheckRate, sliding window, one key without room
    SlidingBlocked,
    /// CheckRate, token bucket, one key without room
    BucketBlocked,
    /// NextSequence of one name
    Sequence,
}

impl Kind {
    /// All loads, in the order of the tables.
    pub(crate) const ALL: &[Kind] = &[
        Kind::Pairs,
        Kind::Batches,
        Kind::Full,
        Kind::Fixed,
        Kind::Calendar,
        Kind::Sliding,
        Kind::Bucket,
        Kind::FixedBlocked,
        Kind::CalendarBlocked,
        Kind::SlidingBlocked,
        Kind::BucketBlocked,
        Kind::Sequence,
    ];

    /// Title in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Pairs => "AdmitTask + CompleteTask",
            Kind::Batches => "AdmitTasks + CompleteTasks of 100",
            Kind::Full => "AdmitTask, pool full",
            Kind::Fixed => "CheckRate, fixed window",
            Kind::Calendar => "CheckRate, calendar window",
            Kind::Sliding => "CheckRate, sliding window",
            Kind::Bucket => "CheckRate, token bucket",
            Kind::FixedBlocked => "CheckRate, fixed window, blocked key",
            Kind::CalendarBlocked => "CheckRate, calendar window, blocked key",
            Kind::SlidingBlocked => "CheckRate, sliding window, blocked key",
            Kind::BucketBlocked => "CheckRate, token bucket, blocked key",
            Kind::Sequence => "NextSequence",
        }
    }

    /// Returns the decisions of a call. Figures of a load are by decision.
    pub(crate) fn decisions(self) -> u32 {
        if self == Kind::Batches { BATCH as u32 } else { 1 }
    }

    /// Returns the number of calls in flight if `wanted` are requested: fewer if these would contain
    /// more than [`DECISIONS_MAX`] decisions.
    pub(crate) fn in_flight(self, wanted: u32) -> u32 {
        match self.decisions() {
            1 => wanted,
            decisions => wanted.min(DECISIONS_MAX / decisions),
        }
    }

    /// Returns the load with granted calls, if this one has refused calls.
    pub(crate) fn granted(self) -> Option<Kind> {
        match self {
            Kind::Full => Some(Kind::Pairs),
            Kind::FixedBlocked => Some(Kind::Fixed),
            Kind::CalendarBlocked => Some(Kind::Calendar),
            Kind::SlidingBlocked => Some(Kind::Sliding),
            Kind::BucketBlocked => Some(Kind::Bucket),
            _ => None,
        }
    }

    /// Returns the load for a Tollgate with our configuration.
    pub(crate) fn load(self) -> Load {
        match self {
            Kind::Pairs => Load { calls: vec![admit(), complete()], numbers: ENDLESS },
            Kind::Batches => Load { calls: vec![admit_all(), complete_all()], numbers: ENDLESS },
            Kind::Full => Load::of(storm(), ENDLESS),
            Kind::Fixed => Load::of(check("fixed"), KEYS),
            Kind::Calendar => Load::of(check("calendar"), KEYS),
            Kind::Sliding => Load::of(check("sliding"), KEYS),
            Kind::Bucket => Load::of(check("bucket"), KEYS),
            Kind::FixedBlocked => Load::of(blocked("fixed-blocked"), 1),
            Kind::CalendarBlocked => Load::of(blocked("calendar-blocked"), 1),
            Kind::SlidingBlocked => Load::of(blocked("sliding-blocked"), 1),
            Kind::BucketBlocked => Load::of(blocked("bucket-blocked"), 1),
            Kind::Sequence => Load::of(next(), ENDLESS),
        }
    }

    /// Returns the call that uses up the capacity before a load with refused calls.
    pub(crate) fn preparation(self) -> Option<Call> {
        match self {
            Kind::Full => Some(fill()),
            Kind::FixedBlocked
            | Kind::CalendarBlocked
            | Kind::SlidingBlocked
            | Kind::BucketBlocked => {
                let call = self.load().calls.remove(0);
                Some(call.expecting(first_is::<{ pb::RateVerdict::Allow as u8 }>))
            }
            _ => None,
        }
    }

    /// Returns the same load for the echo, with messages of equal length.
    pub(crate) fn echo(self) -> Load {
        let load = self.load();
        let echoes = load.calls.iter().map(|call| {
            let rest = call.length().saturating_sub(NUMBER.len() + 2);
            let payload = format!("{NUMBER}{}", "x".repeat(rest)).into();
            Call::new(echo::PATH, &echo::Message { payload }, |message| !message.is_empty())
        });
        Load { calls: echoes.collect(), numbers: load.numbers }
    }
}

/// Returns a name of 16 bytes that no other call has.
fn own(of: &str) -> String {
    format!("{of}{NUMBER}")
}

fn admit() -> Call {
    let message = pb::AdmitTaskRequest {
        pool: "wide".into(),
        device_id: own("dev:"),
        task_id: own("task"),
        ..pb::AdmitTaskRequest::default()
    };
    Call::new(ADMIT, &message, first_is::<{ pb::AdmitDecision::Admitted as u8 }>)
}

fn complete() -> Call {
    let message = pb::CompleteTaskRequest {
        pool: "wide".into(),
        device_id: own("dev:"),
        task_id: own("task"),
        ..pb::CompleteTaskRequest::default()
    };
    Call::new(COMPLETE, &message, first_is::<{ pb::CompleteVerdict::Completed as u8 }>)
}

fn admit_all() -> Call {
    let request = |index| pb::AdmitTaskRequest {
        pool: "wide".into(),
        device_id: own(&format!("d{index:03}")),
        task_id: own("task"),
        ..pb::AdmitTaskRequest::default()
    };
    let message = pb::AdmitTasksRequest { requests: (0..BATCH).map(request).collect() };
    Call::new(ADMIT_ALL, &message, all_are::<{ pb::AdmitDecision::Admitted as u8 }, BATCH>)
}

fn complete_all() -> Call {
    let request = |index| pb::CompleteTaskRequest {
        pool: "wide".into(),
        device_id: own(&format!("d{index:03}")),
        task_id: own("task"),
        ..pb::CompleteTaskRequest::default()
    };
    let message = pb::CompleteTasksRequest { requests: (0..BATCH).map(request).collect() };
    let accepts = all_are::<{ pb::CompleteVerdict::Completed as u8 }, BATCH>;
    Call::new(COMPLETE_ALL, &message, accepts)
}

/// Takes the only slot of the full pool, for longer than any run.
fn fill() -> Call {
    let message = pb::AdmitTaskRequest {
        pool: "full".into(),
        device_id: "holder".into(),
        task_id: "task".into(),
        lease_duration: Some(Duration { seconds: 86_400, nanos: 0 }),
        ..pb::AdmitTaskRequest::default()
    };
    Call::new(ADMIT, &message, first_is::<{ pb::AdmitDecision::Admitted as u8 }>)
}

fn storm() -> Call {
    let message = pb::AdmitTaskRequest {
        pool: "full".into(),
        device_id: own("dev:"),
        task_id: own("task"),
        ..pb::AdmitTaskRequest::default()
    };
    Call::new(ADMIT, &message, first_is::<{ pb::AdmitDecision::Full as u8 }>)
}

fn rate(policy: &str, accepts: fn(&[u8]) -> bool) -> Call {
    let message = pb::CheckRateRequest {
        key: own("key:"),
        against: Some(Against::Policy(policy.into())),
        ..pb::CheckRateRequest::default()
    };
    Call::new(CHECK, &message, accepts)
}

/// Returns a check of a key with the call's number.
pub(crate) fn check(policy: &str) -> Call {
    rate(policy, first_is::<{ pb::RateVerdict::Allow as u8 }>)
}

fn blocked(policy: &str) -> Call {
    rate(policy, first_is::<{ pb::RateVerdict::Throttle as u8 }>)
}

/// Accepts any field 1, the first value: it is never 0, so that it is always sent.
fn next() -> Call {
    let message = pb::NextSequenceRequest { name: "order".into(), ..Default::default() };
    Call::new(NEXT, &message, |message| message.starts_with(&[1 << 3]))
}
